//! Whatever comes from outside, a node goes on.
use super::*;
use crate::dag::Dag;
use crate::packet::{DagContent, DagMessage, HoldingsStatus, Nak};
use bytes::BytesMut;
use consort_types::ViewId;
use consort_wire::Packet as _;
use consort_wire::pack::{Body, OutgoingMessage};

/// The membership's packet that says what all hold together.
const PLAN: u8 = 0x84;
const ONE: MemberId = MemberId::new(1, 1);
const THREE: MemberId = MemberId::new(3, 1);

fn hand_in(cluster: &mut Cluster, from: MemberId, packet: TotoPacket) {
    let now = cluster.now;
    let node = cluster.nodes.get_mut(&NodeId(2)).unwrap();
    node.engine.handle_packet(now, Arrival { at: now, from, lane: Lane::Data }, packet);
    cluster.drain(NodeId(2));
}

/// The view that all are in: what they say carries it.
fn view(cluster: &mut Cluster) -> ViewId {
    loop {
        if let Some(view) = cluster.flight.values().find_map(|(_, _, packet)| packet.view()) {
            return view;
        }
        cluster.step();
    }
}

fn says(text: &'static [u8]) -> DagContent {
    let mut body = BytesMut::new();
    assert!(OutgoingMessage::new(Class::Client, Service::Agreed, Bytes::from_static(text).into()).pack(&mut body, 100));
    DagContent::Body(Body::new(body.freeze()).unwrap())
}

fn written(packet: &TotoPacket) -> Bytes {
    let mut head = BytesMut::new();
    let tail = packet.encode(&mut head);
    head.extend_from_slice(&tail);
    head.freeze()
}

#[test]
fn what_others_make_up_in_a_members_name_it_does_not_take_for_its_own() {
    //= A02 test
    let mut cluster = Cluster::new(3, |_| {});
    let made_up = DagMessage { view: view(&mut cluster), sender: 1, k: 1, acks: Vec::new(), content: says(b"made up") };
    hand_in(&mut cluster, THREE, TotoPacket::Message(made_up));
    cluster.submit(2, Service::Agreed, "tea");
    cluster.run(50);
    assert!((1..=3).all(|node| cluster.told(node) == ["tea"]), "{:?}", cluster.told(2));
}

#[test]
fn nobody_holds_what_was_not_sent_whatever_is_told() {
    //= A04 test
    let view = ViewId { number: 9, representative: ONE };
    let mut dag = Dag::new(view, 1, 3, 64);
    for place in [0, 2] {
        dag.note_held(place, &[u64::MAX; 3]);
    }
    dag.originate(DagContent::Null);
    assert_eq!(dag.stable(), [0, 0, 0]);
    assert_eq!(dag.known()[2], [64, 0, 64]);
    dag.note_held(0, &[0, 1, 0]);
    dag.note_held(2, &[0, 1, 0]);
    assert_eq!(dag.stable(), [0, 1, 0]);
}

#[test]
fn no_mutated_packet_panics_a_working_node() {
    let mut cluster = Cluster::new(3, |_| {});
    let view = view(&mut cluster);
    let good = [
        TotoPacket::Message(DagMessage { view, sender: 0, k: 1, acks: vec![(1, 3), (2, 9)], content: says(b"tea") }),
        TotoPacket::Message(DagMessage { view, sender: 2, k: 2, acks: vec![(0, 1)], content: DagContent::Null }),
        TotoPacket::Nak(Nak { view, sender: 1, ranges: vec![(1, 1), (4, 9)] }),
        TotoPacket::Status(HoldingsStatus { view, held: vec![1, 0, 9] }),
    ];
    for packet in good {
        consort_wire::mutate::each(&written(&packet), 1_000, |bytes| {
            let from = if bytes.len() % 2 == 0 { ONE } else { THREE };
            if let Ok(packet) = TotoPacket::decode(Bytes::copy_from_slice(bytes)) {
                hand_in(&mut cluster, from, packet);
            }
        });
    }
    cluster.run(100);
}

/// Each number of eight bytes in turn is made the largest.
fn each_largest(good: &[u8], mut check: impl FnMut(&[u8])) {
    for at in 0..good.len().saturating_sub(7) {
        let mut bytes = good.to_vec();
        bytes[at..at + 8].fill(0xff);
        check(&bytes);
    }
}

#[test]
fn no_mutated_packet_panics_a_node_whose_view_is_being_closed() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.submit(3, Service::Agreed, "tea");
    cluster.crash(3);
    let is_plan = |packet: &TotoPacket| written(packet)[0] == PLAN;
    let to_two = |cluster: &Cluster| -> Option<TotoPacket> {
        cluster.flight.values().find(|(_, to, packet)| *to == NodeId(2) && is_plan(packet)).map(|entry| entry.2.clone())
    };
    while to_two(&cluster).is_none() {
        assert!(cluster.now.0 < 4_000 * MS, "no plan was made");
        cluster.step();
    }
    let plan = written(&to_two(&cluster).unwrap());
    let now = cluster.now;
    let check = |bytes: &[u8]| {
        let Ok(packet) = TotoPacket::decode(Bytes::copy_from_slice(bytes)) else { return };
        let mut engine = cluster.nodes[&NodeId(2)].engine.clone();
        engine.handle_packet(now, Arrival { at: now, from: ONE, lane: Lane::Control }, packet);
        while engine.poll_output().is_some() {}
        engine.handle_timeout(now + Duration::from_millis(30));
        while engine.poll_output().is_some() {}
    };
    consort_wire::mutate::each(&plan, 1_000, check);
    each_largest(&plan, check);
}
