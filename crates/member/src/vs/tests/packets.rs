//! Packets to the byte, and packets that lie.
use super::{Cluster, MembershipPacket, Message};
use crate::vs::packet::{HoldingsEntry, HoldingsPlan, OldView};
use crate::vs::{Link, MembershipState};
use crate::{Beacon, Clocks, Proposal};
use bytes::{Bytes, BytesMut};
use consort_order::{Arrival, Lane};
use consort_types::{Duration, Instant, MemberId, NodeId, ViewId};
use consort_wire::Packet as _;

const VIEW: ViewId = ViewId { number: 77, representative: MemberId::new(1, 5) };
const LINK: Link = Link { network: 3, configuration: VIEW, before: 2 };

fn clocks() -> Clocks {
    Clocks { stamp: 77, delay: 50_000, echoes: [(NodeId(1), 5), (NodeId(9), u32::MAX)].into() }
}

fn samples() -> Vec<MembershipPacket> {
    let members = vec![MemberId::new(1, 5), MemberId::new(2, 9)];
    let entry = HoldingsEntry { held: 9, holder: 1, stable: 4 };
    let old = OldView { view: VIEW, hollow: true, from: vec![0, 1], entries: vec![entry, HoldingsEntry::default()] };
    vec![
        MembershipPacket::Join(Proposal {
            proc: members.iter().copied().collect(),
            fail: [members[1]].into(),
            number: 8,
            heard: [NodeId(2)].into(),
            leave: false,
            episode: 3,
            clocks: Box::new(clocks()),
        }),
        MembershipPacket::Beacon(Beacon {
            view: VIEW,
            members: members.clone(),
            heard: [NodeId(2)].into(),
            wants: Some(VIEW),
            settled: true,
            clocks: Box::new(clocks()),
            annotation: Bytes::from_static(b"sum"),
            padding: 7,
        }),
        MembershipPacket::Propose { view: VIEW, members: members.clone() },
        MembershipPacket::Told {
            view: VIEW,
            old: VIEW,
            holding: vec![(5, 3), (0, 0)],
            hollow: true,
            links: vec![LINK],
        },
        MembershipPacket::Plan(HoldingsPlan { view: VIEW, members, olds: vec![old], links: vec![(1, LINK)] }),
        MembershipPacket::Ready { view: VIEW, done: true },
        MembershipPacket::Install { view: VIEW },
    ]
}

fn bytes(packet: &MembershipPacket) -> Bytes {
    let mut head = BytesMut::new();
    let tail = packet.encode(&mut head);
    head.extend_from_slice(&tail);
    head.freeze()
}

#[test]
fn what_is_written_is_read_and_kinds_are_the_memberships_own() {
    for packet in samples() {
        let bytes = bytes(&packet);
        assert!(MembershipPacket::is_kind(bytes[0]));
        assert_eq!(MembershipPacket::decode(bytes), Ok(packet));
    }
}

#[test]
fn no_mutation_panics_and_what_is_accepted_reads_back() {
    for packet in samples() {
        consort_wire::mutate::each(&bytes(&packet), 2_000, |mutated| {
            if let Ok(read) = MembershipPacket::decode(Bytes::copy_from_slice(mutated)) {
                assert_eq!(MembershipPacket::decode(bytes(&read)), Ok(read));
            }
        });
    }
}

#[test]
fn no_made_up_packet_breaks_a_working_view() {
    let mut cluster = Cluster::new(3, 1);
    cluster.run(1_500);
    let (view, now) = (cluster.toy(1).view(), cluster.now);
    let liars = [MemberId::new(9, 1), MemberId::new(1, 7), MemberId::new(2, 0)];
    for from in liars {
        for packet in samples() {
            cluster.with(1, |vs, _| vs.handle(now, &Arrival { at: now, from, lane: Lane::Control }, packet));
        }
    }
    cluster.run(500);
    assert_eq!(cluster.toy(1).view(), view);
    assert!(cluster.toy(1).vs.io.counters.strangers >= 7 && cluster.toy(1).vs.io.counters.old_incarnation >= 7);
    let far = ViewId { number: u64::MAX, ..VIEW };
    let from = cluster.toy(2).vs.me();
    cluster.with(1, |vs, now| {
        vs.handle(now, &Arrival { at: now, from, lane: Lane::Control }, MembershipPacket::Install { view: far });
    });
    assert_eq!(cluster.toy(1).vs.io.counters.implausible, 1);
}

#[test]
fn no_mutated_packet_panics_a_member_that_takes_part_in_a_view_to_be() {
    let mut cluster = Cluster::new(3, 1);
    cluster.run(1_500);
    cluster.passes = |_, message| !matches!(message, Message::Member(MembershipPacket::Plan(_)));
    cluster.with(1, |vs, now| vs.renew(now));
    cluster.run(40);
    let (now, me) = (cluster.now, |node| cluster.toy(node).vs.me());
    assert!((1..=3).all(|node| matches!(cluster.toy(node).vs.state, MembershipState::Attempt(_))));
    let (number, old) = (cluster.toy(2).vs.io.taken, cluster.toy(2).view());
    let view = ViewId { number, representative: me(1) };
    let entries = vec![HoldingsEntry { held: 9, holder: 1, stable: 4 }; 3];
    let olds = vec![OldView { view: old, hollow: false, from: vec![0, 1, 2], entries }];
    let attempted = [
        MembershipPacket::Told { view, old, holding: vec![(5, 3), (0, 0), (1, 1)], hollow: false, links: Vec::new() },
        MembershipPacket::Plan(HoldingsPlan { view, members: (1..=3).map(me).collect(), olds, links: Vec::new() }),
        MembershipPacket::Ready { view, done: true },
    ];
    for packet in samples().into_iter().chain(attempted) {
        for (node, from) in [(1, 2), (2, 1), (2, 3)] {
            consort_wire::mutate::each(&bytes(&packet), 300, |mutated| {
                let Ok(packet) = MembershipPacket::decode(Bytes::copy_from_slice(mutated)) else { return };
                let mut vs = cluster.toy(node).vs.clone();
                vs.handle(now, &Arrival { at: now, from: me(from), lane: Lane::Control }, packet);
                while vs.poll().is_some() {}
                vs.complete(now);
                vs.handle_timeout(Instant(now.0 + 300_000_000));
            });
        }
    }
}

#[test]
fn every_packet_shows_that_its_sender_lives() {
    //= V15 test
    let mut cluster = Cluster::new(3, 1);
    cluster.run(1_500);
    let (from, later) = (cluster.toy(2).vs.me(), Instant(cluster.now.0 + 1_000_000_000));
    for packet in samples() {
        let mut vs = cluster.toy(1).vs.clone();
        vs.handle(later, &Arrival { at: later, from, lane: Lane::Control }, packet.clone());
        let heard = vs.reachability(later).into_iter().find(|reach| reach.node == from.node).unwrap().heard;
        assert_eq!(heard, Some(Duration::ZERO), "{packet:?}");
    }
}
