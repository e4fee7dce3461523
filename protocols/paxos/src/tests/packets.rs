//! Packets and records to the byte.
use super::body;
use crate::ballot::{Ballot, Began, Item, LogId, ValueId};
use crate::checkpoints::{Bind, Declared, Statement};
use crate::learner::{Checkpoint, Present};
use crate::packet::{Acceptance, Beat, Content, Lead, Packet, Recovered, Told, Value};
use crate::record::{LogStart, Record};
use bytes::{Bytes, BytesMut};
use consort_types::{Holder, Incarnation, MemberId, NodeId};
use consort_wire::Packet as _;

const BALLOT: Ballot = Ballot { generation: 1, round: 7, owner: MemberId::new(2, 9) };
const ID: ValueId = ValueId { sender: MemberId::new(3, 4), view: 5, number: 6 };

fn holder(name: &str) -> Holder {
    name.parse().unwrap()
}

fn bind(name: &str, replaces: u64) -> Bind {
    let (token, label) = (u128::MAX - 7, "s1 at 10.0.0.1".into());
    Bind { holder: holder(name), token, replaces, from: 800, copies: 3, label }
}

fn statement(statement: Statement) -> Item {
    Item::Declare(Box::new(statement))
}

fn items() -> [Item; 10] {
    let members = vec![MemberId::new(0, 3), MemberId::new(4, 1)];
    let declare = |epoch, from| statement(Statement::Declare { holder: holder("ledger/2"), epoch, from });
    let view = Item::View { number: 4, after: 3, members };
    let (kept, withdrawn) = (declare(0, Some(7)), declare(0, None));
    let (bound, ended) = (declare(9, Some(7)), declare(9, None));
    let bind = statement(Statement::Bind(bind("store/1", 3)));
    let value = Item::Value(ID);
    [Item::Nothing, view, Item::Primary(4), value, kept, withdrawn, bound, ended, bind, Item::Skip(9)]
}

fn samples() -> Vec<Packet> {
    let incarnations = [MemberId::new(0, 3), MemberId::new(1, 1)].into_iter().collect();
    let accepted = (8..).zip(items()).map(|(at, item)| (at, BALLOT, item)).collect();
    let told = Told { incarnations, next: 8, accepted };
    let (began, noted) = (log_start().began, [MemberId::new(0, 2)].into_iter().collect());
    let known = began.clone();
    let beat = Beat {
        number: 3,
        acceptor: Acceptance::Ready,
        leaving: true,
        reserved: true,
        hangs: false,
        promised: BALLOT,
        next: 17,
        sample: crate::packet::Sample { from: 2, to: 9, digest: 1 << 63 },
        view: 4,
        hears: vec![MemberId::new(1, 1)],
        follows: Incarnation(2),
        began,
        noted,
        echo: Some((BALLOT, 9)),
        lead: Some(Lead { ballot: BALLOT, version: 2, ring: vec![NodeId(2), NodeId(0)] }),
        annotation: Bytes::from_static(b"groups"),
    };
    let bare = Beat {
        acceptor: Acceptance::Announcing,
        echo: None,
        lead: None,
        annotation: Bytes::new(),
        leaving: false,
        reserved: false,
        hangs: true,
        ..beat.clone()
    };
    let body_of = |item: &Item| matches!(item, Item::Value(_)).then(|| body(&["tea"]));
    let mut contents = vec![
        Content::Beat(Box::new(beat)),
        Content::Beat(Box::new(bare)),
        Content::Value(Value { id: ID, hops: 2, body: body(&["a pound of tea", ""]) }),
        Content::Prepare { ballot: BALLOT, from: 3 },
        Content::Promise { ballot: BALLOT, told: told.clone() },
        Content::Nack { ballot: BALLOT, promised: Ballot::ZERO },
        Content::Vote { ballot: BALLOT, at: 3, incarnations: told.incarnations.clone() },
        Content::Fetch(vec![ID, ID]),
        Content::Learn(4),
        Content::Learnt { from: 4, entries: items().map(|item| (item.clone(), body_of(&item))).into() },
        Content::Recover,
        Content::Recovered(Box::new(Recovered {
            promised: BALLOT,
            told,
            founders: vec![MemberId::new(0, 3)],
            began: known,
        })),
        Content::Checkpoint(Box::new(checkpoint())),
        Content::End(Box::new(checkpoint())),
        Content::Outdated(Incarnation(77)),
        Content::Declare(Box::new(Statement::Declare { holder: holder("bill"), epoch: 0, from: Some(1 << 40) })),
        Content::Declare(Box::new(Statement::Declare { holder: holder("bill"), epoch: 4, from: None })),
        Content::Declare(Box::new(Statement::Bind(bind("bill", 0)))),
        Content::Yield { ballot: BALLOT, to: MemberId::new(4, 1) },
    ];
    for item in items() {
        contents.push(Content::Accept { ballot: BALLOT, at: 3, item: item.clone(), hops: 1 });
        contents.push(Content::Decide { at: 3, item, hops: 1 });
    }
    contents.into_iter().map(|content| Packet { log: LogId(77), content }).collect()
}

fn checkpoint() -> Checkpoint {
    let (last, away) = ([(MemberId::new(0, 3), 9)].into(), [(MemberId::new(4, 1), 3)].into());
    let mut declared = Declared::default();
    let keeps = |name, from| Statement::Declare { holder: holder(name), epoch: 0, from };
    let bound = ["store/1", "store/2", "other/b"].map(|name| Statement::Bind(bind(name, 0)));
    let stated = [keeps("ledger/1", Some(800)), keeps("ledger/2", Some(900))].into_iter().chain(bound);
    (60..).zip(stated).for_each(|(at, statement)| declared.take(at, 900, statement));
    declared.take(69, 900, Statement::Declare { holder: holder("store/2"), epoch: 63, from: None });
    assert_eq!(declared.len(), 5);
    Checkpoint { at: 70, place: 900, slots: 950, present: Present { number: 4, last, primary: true, away }, declared }
}

fn log_start() -> Box<LogStart> {
    let [all, voted, adopted] = [3, 2, 1].map(|incarnation| std::iter::once(MemberId::new(0, incarnation)).collect());
    Box::new(LogStart {
        log: LogId(5),
        founders: vec![MemberId::new(0, 3)],
        began: Began { all, voted, adopted },
        promised: BALLOT,
        from: checkpoint(),
    })
}

fn bytes(packet: &Packet) -> Bytes {
    let mut head = BytesMut::new();
    let tail = packet.encode(&mut head);
    head.extend_from_slice(&tail);
    head.freeze()
}

#[test]
fn what_is_written_is_read() {
    for packet in samples() {
        assert_eq!(Packet::decode(bytes(&packet)), Ok(packet));
    }
}

#[test]
fn no_mutation_panics_and_what_is_accepted_reads_back() {
    for packet in samples() {
        consort_wire::mutate::each(&bytes(&packet), 2_000, |mutated| {
            if let Ok(read) = Packet::decode(Bytes::copy_from_slice(mutated)) {
                assert_eq!(Packet::decode(bytes(&read)), Ok(read));
            }
        });
    }
}

#[test]
fn views_that_cannot_be_are_refused() {
    let members = |nodes: &[u16]| nodes.iter().map(|node| MemberId::new(*node, 1)).collect();
    for (number, after, nodes) in [(3, 3, &[0, 1][..]), (4, 3, &[]), (4, 3, &[1, 0]), (4, 3, &[1, 1])] {
        let item = Item::View { number, after, members: members(nodes) };
        let packet = Packet { log: LogId(1), content: Content::Decide { at: 0, item, hops: 0 } };
        let refused = Packet::decode(bytes(&packet)).unwrap_err();
        assert_eq!(refused.what, "view", "{number} after {after} of {nodes:?}");
    }
}

#[test]
fn records_read_back_and_no_mutation_panics() {
    let body_of = |item: &Item| matches!(item, Item::Value(_)).then(|| body(&["tea"]));
    let mut records = vec![
        Record::Checkpoint(log_start()),
        Record::Empty,
        Record::Voter(MemberId::new(2, 8)),
        Record::Asker(MemberId::new(2, 9)),
        Record::Adopter(MemberId::new(2, 10)),
        Record::Outdated(MemberId::new(2, 11)),
        Record::Promised(BALLOT),
        Record::Decided(12),
    ];
    for item in items() {
        records.push(Record::Accepted { ballot: BALLOT, at: 7, item: item.clone(), body: body_of(&item) });
        records.push(Record::Learnt { at: 7, body: body_of(&item), item });
    }
    for record in records {
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Ok(record));
        consort_wire::mutate::each(&bytes, 1_000, |mutated| {
            if let Ok(read) = Record::decode(&Bytes::copy_from_slice(mutated)) {
                assert_eq!(Record::decode(&read.encode()), Ok(read));
            }
        });
    }
}

/// One of before checkpoints named those that voted, where all counted as voters.
fn voterless_start(founders: Vec<MemberId>, from: Checkpoint) -> LogStart {
    let start = *log_start();
    let all = start.began.all;
    LogStart { founders, began: Began { voted: all.clone(), all, ..Began::default() }, from, ..start }
}

/// Behind kind, log, and founders are a list of one incarnation, one of one voter, and an empty one: counts, and 10 bytes a name.
fn without_voters(record: &[u8], founders: usize) -> Vec<u8> {
    let voters = 9 + (2 + 10 * founders) + 12;
    [&record[..voters], &record[voters + 14..]].concat()
}

#[test]
fn a_checkpoint_of_before_voters_were_named_is_read() {
    let start = voterless_start(vec![MemberId::new(0, 3)], checkpoint());
    let new = Record::Checkpoint(Box::new(start.clone())).encode();
    let old = [&[9], &without_voters(&new, 1)[1..]].concat();
    assert_eq!(Record::decode(&old.into()), Ok(Record::Checkpoint(Box::new(start))));
}

#[test]
fn a_checkpoint_of_before_logs_had_slots_is_read() {
    let bare = Checkpoint { declared: Declared::default(), ..checkpoint() };
    let start = voterless_start(Vec::new(), bare.clone());
    let new = without_voters(&Record::Checkpoint(Box::new(start.clone())).encode(), 0);
    let slots = new.windows(8).position(|eight| eight == 950_u64.to_be_bytes()).unwrap();
    // Without the founders behind kind and log, the slots, and holders and programs at the end: a count each.
    let old = [&[1], &new[1..9], &new[11..slots], &new[slots + 8..new.len() - 4]].concat();
    let from = Checkpoint { slots: bare.place, ..bare };
    assert_eq!(Record::decode(&old.into()), Ok(Record::Checkpoint(Box::new(LogStart { from, ..start }))));
}

#[test]
fn a_checkpoint_of_before_programs_had_copies_is_read() {
    let mut bare = checkpoint();
    bare.declared =
        Declared::of(bare.declared.holders().map(|(holder, from)| (holder.clone(), from)).collect(), [].into());
    let start = voterless_start(vec![MemberId::new(0, 3)], bare);
    let new = without_voters(&Record::Checkpoint(Box::new(start.clone())).encode(), 1);
    let old = [&[8], &new[1..new.len() - 2]].concat();
    assert_eq!(Record::decode(&old.into()), Ok(Record::Checkpoint(Box::new(start))));
}

#[test]
fn a_full_table_fits_into_a_packet_and_a_record() {
    //= X87 test
    let mut declared = Declared::default();
    for n in 0..Declared::MOST as u64 {
        let name = format!("{n:0>56}/{}", "9".repeat(7));
        let label = "x".repeat(consort_types::Binding::LABEL_MAX).into();
        declared.take(n + 1, 0, Statement::Bind(Bind { label, ..bind(&name, 0) }));
    }
    assert_eq!(declared.len(), Declared::MOST);
    let full = Checkpoint { declared, ..checkpoint() };
    let start = LogStart { from: full.clone(), ..*log_start() };
    let packet = Packet { log: LogId(7), content: Content::Checkpoint(Box::new(full)) };
    assert!(bytes(&packet).len() < 1 << 20, "a link carries 32 times as much");
    assert_eq!(Packet::decode(bytes(&packet)), Ok(packet));
    let record = Record::Checkpoint(Box::new(start));
    assert_eq!(Record::decode(&record.encode()), Ok(record));
}
