//! What only a forger sends: nothing panics, nothing overflows, and no packet makes a node keep much more than it holds.
use super::body;
use super::solo::{ME, Solo, ballot, beat, named, other, recovered};
use crate::ballot::{Ballot, Incarnations, Item};
use crate::checkpoints::{Bind, Statement};
use crate::learner::{Checkpoint, Present};
use crate::packet::{Beat, Content, Packet, Told, Value};
use bytes::BytesMut;
use consort_types::MemberId;
use consort_wire::Packet as _;

const FAR: [u64; 4] = [u64::MAX, u64::MAX - 1, 1 << 40, 1 << 63];

fn view(number: u64, after: u64) -> Item {
    Item::View { number, after, members: vec![ME, other(1), other(2)] }
}

fn statement(far: u64) -> Statement {
    Statement::Declare { holder: "ledger".parse().unwrap(), epoch: 0, from: Some(far) }
}

fn bind(far: u64) -> Statement {
    let holder = "store/1".parse().unwrap();
    Statement::Bind(Bind { holder, token: u128::MAX, replaces: far, from: far, copies: u16::MAX, label: "x".into() })
}

/// Packets that name instances, rounds, views and turns far beyond any that there are.
fn packets(far: u64, own: Ballot) -> Vec<Content> {
    let high = ballot(far, other(2));
    let told = Told { next: far, accepted: vec![(far, high, Item::Nothing)], incarnations: Incarnations::default() };
    let hole = Told { next: 0, accepted: vec![(far, high, Item::Nothing)], incarnations: Incarnations::default() };
    let incarnations: Incarnations = [MemberId::new(1, far), MemberId::new(0, far)].into_iter().collect();
    let present = Present { number: far, ..Present::default() };
    let declare = Item::Declare(Box::new(statement(far)));
    let (value, skip) = (Item::Value(named(ME, far, far)), Item::Skip(far));
    let binds = [0, far].map(|far| Item::Declare(Box::new(bind(far))));
    let items = [Item::Nothing, view(far, far - 1), view(far, 0), Item::Primary(far), value, declare, skip];
    let mut packets = vec![
        Content::Beat(Box::new(Beat { next: far, view: far, number: far, echo: Some((own, far)), ..beat(high) })),
        Content::Value(Value { id: named(other(1), far, far), hops: u16::MAX, body: body(&["tea"]) }),
        Content::Prepare { ballot: own, from: far },
        Content::Promise { ballot: own, told: told.clone() },
        Content::Promise { ballot: own, told: hole.clone() },
        Content::Nack { ballot: own, promised: high },
        Content::Vote { ballot: own, at: far, incarnations },
        Content::Learn(far),
        Content::Learnt { from: far, entries: vec![(Item::Nothing, None), (Item::Nothing, None)] },
        recovered(told, high),
        recovered(hole, high),
        Content::Checkpoint(Box::new(Checkpoint {
            at: far,
            place: far,
            slots: far,
            present,
            declared: Default::default(),
        })),
        Content::Prepare { ballot: high, from: far },
        Content::Declare(Box::new(statement(far))),
        Content::Declare(Box::new(bind(far))),
    ];
    for item in items.into_iter().chain(binds) {
        packets.push(Content::Decide { at: 0, item: item.clone(), hops: u16::MAX });
        packets.push(Content::Decide { at: far, item: item.clone(), hops: 0 });
        packets.push(Content::Accept { ballot: own, at: far, item: item.clone(), hops: 0 });
        packets.push(Content::Accept { ballot: high, at: far, item, hops: 0 });
    }
    packets
}

type Stage = fn() -> (Solo, Ballot);

const STAGES: [Stage; 4] = [
    || (Solo::voting(3), ballot(1, other(1))),
    || (Solo::blank(3), ballot(1, other(1))),
    || Solo::standing(3),
    || Solo::leading(3),
];

#[test]
fn numbers_beyond_all_that_there_are_panic_nobody_and_fill_no_memory() {
    //= X76 test
    for far in FAR {
        for stage in STAGES {
            let count = packets(far, ballot(1, ME)).len();
            for at in 0..count {
                let (mut solo, own) = stage();
                let packet = packets(far, own).swap_remove(at);
                // Twice, and from two of them: a majority says so.
                for from in [other(1), other(2), other(1)] {
                    let said = solo.hand(from, packet.clone());
                    assert!(said.len() < 100, "{packet:?} makes {} packets", said.len());
                }
                for _ in 0..30 {
                    (1..3).for_each(|node| drop(solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))))));
                    assert!(solo.tick().len() < 100, "after {packet:?}");
                }
            }
        }
    }
}

#[test]
fn a_number_that_cannot_be_is_refused_by_its_name() {
    //= X76 test
    let refused = |content: Content| {
        let mut bytes = BytesMut::new();
        let _ = Packet { log: super::solo::LOG, content }.encode(&mut bytes);
        Packet::decode(bytes.freeze()).map_err(|malformed| malformed.what)
    };
    let most = 1 << 62;
    assert_eq!(refused(Content::Learn(most)), Err("from"));
    assert_eq!(refused(Content::Prepare { ballot: ballot(most, ME), from: 0 }), Err("round"));
    assert_eq!(refused(Content::Decide { at: most, item: Item::Nothing, hops: 0 }), Err("instance"));
    assert!(refused(Content::Learn(most - 1)).is_ok());
    let decided = crate::record::Record::Decided(most).encode();
    assert_eq!(crate::record::Record::decode(&decided).map_err(|malformed| malformed.what), Err("next"));
}
