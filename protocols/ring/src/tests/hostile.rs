//! Packets that are well formed and lie: whatever one member sends, nobody else may fall over, grow without bound, or be
//! unable to form a ring once it is silent.
use super::*;
use crate::holdings::{HoldingsMap, SEQS_MAX};
use crate::packet::{Commit, NUMBER_MAX, OldRing, Recovered, Token};
use bytes::{BufMut, BytesMut};
use consort_types::Rng;
use consort_wire::Packet as _;

/// What fits into one UDP datagram with the envelope.
const DATAGRAM_MAX: usize = 65_507 - 56;

fn bytes(packet: &RingPacket) -> Bytes {
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    head.freeze()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// All others form one ring without the liar, or with it once it behaves.
fn forms_again(net: &mut Net) {
    net.run(ms(12_000));
    for i in 0..net.rings.len() {
        assert_eq!(net.rings[i].state(), "operational", "n{}: {}", i + 1, net.rings[i].describe(net.now));
    }
    let views: BTreeSet<_> = net.views.iter().map(|views| views.last().unwrap().id).collect();
    assert_eq!(views.len(), 1, "{views:?}");
}

#[test]
fn nodes_that_are_not_configured_never_become_candidates() {
    //= M06 test
    let mut net = Net::formed(3, |_| {});
    for round in 0..5u16 {
        let strangers = (0..6_000).map(|k| MemberId::new(100 + round * 6_000 + k, 1));
        let mut lie = net.join_of(1);
        lie.proposal.proc.extend(strangers);
        net.hand(1, 0, RingPacket::Join(lie));
    }
    net.run(ms(1_000));
    let joins = net.sent.iter().filter(|flying| matches!(flying.packet, RingPacket::Join(_)));
    let longest = joins.map(|flying| bytes(&flying.packet).len()).max().unwrap_or_default();
    assert!(longest < 1_000, "a JOIN of {longest} bytes");
    forms_again(&mut net);
}

#[test]
fn lives_that_never_were_do_not_make_joins_too_long_to_be_sent() {
    //= M10 test
    let mut net = Net::formed(3, |_| {});
    for round in 0..5u64 {
        let mut lie = net.join_of(1);
        lie.proposal.proc.extend((0..6_000).map(|k| MemberId::new(3, 1_000 + round * 6_000 + k)));
        net.hand(1, 0, RingPacket::Join(lie));
    }
    net.run(ms(100));
    let joins = net.sent.iter().filter(|flying| matches!(flying.packet, RingPacket::Join(_)));
    let longest = joins.map(|flying| bytes(&flying.packet).len()).max().unwrap_or_default();
    assert!(longest < DATAGRAM_MAX, "a JOIN of {longest} bytes");
    forms_again(&mut net);
}

#[test]
fn one_lie_does_not_use_up_all_ring_numbers() {
    //= M06 test
    let mut net = Net::formed(3, |_| {});
    let mut lie = net.join_of(1);
    lie.proposal.number = NUMBER_MAX;
    net.hand(1, 0, RingPacket::Join(lie));
    forms_again(&mut net);
    net.restart(0);
    forms_again(&mut net);
}

#[test]
fn a_join_of_a_gathering_to_come_does_not_keep_its_sender_out() {
    //= M18 test
    for episode in [50, u64::MAX] {
        let mut net = Net::formed(3, |_| {});
        let mut lie = net.join_of(1);
        lie.proposal.episode = episode;
        net.hand(1, 0, RingPacket::Join(lie.clone()));
        net.hand(1, 2, RingPacket::Join(lie));
        forms_again(&mut net);
        net.restart(0);
        forms_again(&mut net);
    }
}

#[test]
fn a_commit_token_cannot_claim_more_places_than_it_has_bytes_for() {
    //= M41 test
    let ring = |number| crate::RingId { number, representative: member(1) };
    let mut held = HoldingsMap::default();
    assert!(held.tell(0, None, Seq(0), Seq(SEQS_MAX as u64), |_| true));
    let old = |n| OldRing { ring: ring(n), line: Seq(0), obligations: BTreeSet::new(), held: held.clone() };
    let lie = Commit {
        ring: ring(2_000),
        rotation: 1,
        members: vec![(member(1), Some(0)), (member(2), None)],
        olds: (1..=1_000).map(old).collect(),
    };
    let bytes = bytes(&RingPacket::Commit(lie));
    assert!(bytes.len() < DATAGRAM_MAX);
    assert!(RingPacket::decode(bytes).is_err(), "1000 maps of {SEQS_MAX} sequence numbers in one datagram");
}

/// Brings node 2 of two into Commit; returns the commit token it has passed on.
fn committing() -> (Net, Commit) {
    let mut net = Net::formed(2, |_| {});
    net.submit(0, Service::Agreed, "something");
    net.run(ms(5));
    let token = |flying: &Flying| matches!(flying.packet, RingPacket::Token(_));
    let mut drop = |flying: &Flying| token(flying);
    net.run_dropping_until(ms(2_000), &mut drop, &mut |net: &Net| net.rings[1].state() == "commit");
    let commit = net.sent.iter().rev().find_map(|flying| match &flying.packet {
        RingPacket::Commit(commit) if flying.from.node == NodeId(2) => Some(commit.clone()),
        _ => None,
    });
    net.flying.clear();
    (net, commit.unwrap())
}

#[test]
fn a_second_rotation_that_says_other_than_what_was_told_is_not_believed() {
    //= M23 test
    let (mut net, mut lie) = committing();
    lie.rotation = 2;
    let mut raw = BytesMut::new();
    raw.put_u64(1 << 47);
    raw.put_u16(1);
    raw.put_u8(1);
    raw.put_u16(1_000);
    lie.olds[0].held = HoldingsMap::decode(&mut consort_wire::Reader::new(&raw), SEQS_MAX).unwrap();
    let ring = lie.ring;
    net.hand(0, 1, RingPacket::Commit(lie));
    let content = DataContent::Recovered(Recovered {
        old: 0,
        seq: Seq((1 << 47) + 5),
        originator: NodeId(1),
        stamp: 0,
        body: None,
    });
    net.hand(0, 1, RingPacket::Data(DataPacket { ring, content, ..data(1) }));
    forms_again(&mut net);
}

#[test]
fn a_second_rotation_for_others_is_not_believed() {
    let (mut net, mut lie) = committing();
    lie.rotation = 2;
    lie.members.pop();
    net.hand(0, 1, RingPacket::Commit(lie));
    forms_again(&mut net);
}

#[test]
fn a_token_at_the_end_of_its_numbers_is_not_passed_on() {
    //= R5 test
    let mut net = Net::formed(3, |_| {});
    net.submit(1, Service::Agreed, "something");
    net.run(ms(1));
    let token = tokens(&net.sent).pop().unwrap();
    net.hand(0, 1, RingPacket::Token(Token { token_seq: u64::MAX, ..token }));
    forms_again(&mut net);
}

#[test]
fn packets_that_the_token_does_not_cover_and_counts_without_this_member_are_survived() {
    //= R6 test
    let mut net = Net::formed(3, |_| {});
    let ring = net.views[0].last().unwrap().id;
    net.hand(1, 2, RingPacket::Data(DataPacket { ring, originator: NodeId(2), ..data(50) }));
    net.hand(1, 2, RingPacket::Data(DataPacket { ring, originator: NodeId(3), ..data(1) }));
    for i in 0..3 {
        net.submit(i, Service::Agreed, "something");
    }
    net.run(ms(1));
    let token = tokens(&net.sent).pop().unwrap();
    let lie = Token { fcc: Default::default(), token_seq: token.token_seq + 30, ..token };
    net.hand(0, 1, RingPacket::Token(lie));
    net.run(ms(2_000));
}

#[test]
fn a_later_incarnation_of_this_node_that_is_out_does_not_put_this_one_out() {
    //= M16 test
    let mut net = Net::formed(3, |_| {});
    let mut lie = net.join_of(1);
    lie.proposal.fail = [MemberId::new(1, 9_000)].into();
    net.hand(1, 0, RingPacket::Join(lie.clone()));
    lie.proposal.proc.insert(MemberId::new(1, 7));
    net.hand(1, 0, RingPacket::Join(lie));
    forms_again(&mut net);
}

/// One number of a packet is changed into another that reads well.
fn bent(rng: &mut Rng, packet: &RingPacket) -> Option<RingPacket> {
    let mut bytes = bytes(packet).to_vec();
    for _ in 0..rng.between(1, 3) {
        let at = rng.between(1, bytes.len() as u64 - 1) as usize;
        match rng.below(4) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = [0, 1, 2, 3, 0x7f, 0xff][rng.below(6) as usize],
            2 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    RingPacket::decode(bytes.into()).ok()
}

/// Everybody submits, a while passes, and packets that went by are bent and handed in once more, mostly by their senders.
fn lie(rng: &mut Rng, net: &mut Net, span: u64) {
    for i in 0..3 {
        let service = if rng.chance(0.3) { Service::Safe } else { Service::Agreed };
        let _refused_when_full =
            net.try_submit(i, Class::Client, service, Bytes::from(vec![7; rng.below(3_000) as usize]));
    }
    net.run(Duration::from_micros(rng.below(span)));
    let recent = net.sent.len().saturating_sub(300);
    for _ in 0..20 {
        let Some(flying) = net.sent[recent..].get(rng.below(300) as usize).cloned() else { continue };
        let own = usize::from(flying.from.node.0) - 1;
        let from = if rng.chance(0.7) { own } else { rng.below(3) as usize };
        let to = (from + rng.between(1, 2) as usize) % 3;
        if let Some(packet) = bent(rng, &flying.packet) {
            net.hand(from, to, packet);
        }
    }
}

/// `HOSTILE=100` tries a hundred seeds.
#[test]
fn whatever_reads_well_is_survived() {
    for seed in 0..std::env::var("HOSTILE").map_or(1, |n| n.parse().unwrap()) {
        let (mut rng, mut net) = (Rng::new(seed), Net::formed(3, |_| {}));
        for round in 0..300 {
            lie(&mut rng, &mut net, if round % 30 == 0 { 300_000 } else { 2_000 });
        }
        forms_again(&mut net);
    }
}

#[test]
fn packets_that_are_stamped_otherwise_than_here_are_dropped() {
    //= R49 test
    for stamped in [false, true] {
        let mut net = Net::formed(2, |config| config.stamped = stamped);
        let ring = net.views[0].last().unwrap().id;
        let other = DataPacket { ring, originator: NodeId(2), stamp: u64::from(!stamped), ..data(1) };
        net.hand(1, 0, RingPacket::Data(other));
        let token = Token { ring, token_seq: 1 << 30, stamp: 7, ..Token::default() };
        net.hand(1, 0, RingPacket::Token(token));
        let dropped = if stamped { 1 } else { 2 };
        assert_eq!(net.counter(0, "implausible"), dropped, "stamped: {stamped}");
        net.submit(0, Service::Agreed, vec![0; 10]);
        net.run(ms(1_000));
        net.agree_on(1);
    }
}
