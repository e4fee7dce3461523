//! Whatever comes from outside, a node goes on.
use super::*;
use crate::{PacketKey, RetransmitRequest, StreamContent, StreamPacket, StreamStatus};
use consort_types::ViewId;

fn hand_in(cluster: &mut Cluster, from: MemberId, packet: PlatoPacket) {
    let now = cluster.now;
    let arrival = Arrival { at: now, from, lane: Lane::Data };
    cluster.at(2, |engine| engine.handle_packet(now, arrival, packet));
}

#[test]
fn packets_that_no_right_member_sends_change_nothing() {
    let mut cluster = Cluster::new(3, usual);
    let view = cluster.nodes[1].engine.view();
    let key = |origin, seq| PacketKey { origin: NodeId(origin), seq };
    let data = |key, content| PlatoPacket::Data(StreamPacket { view, key, after: 0, repair: false, content });
    let other = ViewId { number: 99, ..view };
    let wrong = [
        data(key(3, u64::MAX), StreamContent::Primary),
        data(key(9, 1), StreamContent::Primary),
        data(key(3, 1), StreamContent::Orders { first: 1, keys: vec![key(1, 1)] }),
        data(key(2, 1), StreamContent::Primary),
        PlatoPacket::Status(StreamStatus { view, sent: u64::MAX, asks: true, received: vec![u64::MAX; 3] }),
        PlatoPacket::Status(StreamStatus { view, sent: 0, asks: true, received: vec![0; 7] }),
        PlatoPacket::Status(StreamStatus { view: other, sent: 9, asks: true, received: vec![9; 3] }),
        PlatoPacket::Request(RetransmitRequest { view, origin: NodeId(9), runs: vec![(1, u64::MAX)] }),
        PlatoPacket::Request(RetransmitRequest { view, origin: NodeId(2), runs: vec![(1, u64::MAX); 100] }),
    ];
    for from in [MemberId::new(3, 10), MemberId::new(3, 9), MemberId::new(2, 10), MemberId::new(7, 1)] {
        wrong.iter().for_each(|packet| hand_in(&mut cluster, from, packet.clone()));
    }
    assert!(cluster.counter(2, "foreign_packets") > 0 && cluster.counter(2, "wrong_packets") > 0);
    cluster.say(1, "still here");
    cluster.pass(ms(50));
    assert_eq!(cluster.got(2), ["still here"]);
}

#[test]
fn no_mutated_packet_panics_a_node() {
    let mut cluster = Cluster::new(3, usual);
    let view = cluster.nodes[1].engine.view();
    let key = |origin, seq| PacketKey { origin: NodeId(origin), seq };
    let orders = StreamContent::Orders { first: 1, keys: vec![key(3, 1), key(1, 2)] };
    let good = [
        PlatoPacket::Data(StreamPacket { view, key: key(1, 1), after: 0, repair: false, content: orders }),
        PlatoPacket::Data(StreamPacket {
            view,
            key: key(3, 1),
            after: 0,
            repair: true,
            content: StreamContent::Primary,
        }),
        PlatoPacket::Status(StreamStatus { view, sent: 2, asks: true, received: vec![1, 2, 3] }),
        PlatoPacket::Request(RetransmitRequest { view, origin: NodeId(1), runs: vec![(1, 2)] }),
    ];
    for packet in good {
        let mut bytes = bytes::BytesMut::new();
        let body = packet.encode(&mut bytes);
        bytes.extend_from_slice(&body);
        consort_wire::mutate::each(&bytes, 2_000, |bytes| {
            let from = MemberId::new(if bytes.len() % 2 == 0 { 1 } else { 3 }, 10);
            if let Ok(packet) = PlatoPacket::decode(Bytes::copy_from_slice(bytes)) {
                hand_in(&mut cluster, from, packet);
            }
        });
    }
    cluster.pass(ms(100));
}
