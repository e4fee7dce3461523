use super::*;
use crate::load::SentLoad;
use crate::packet::{
    Ack, Beacon, Commit, DATA_LEN, Join, Late, OldRing, Proposal, RECOVERED_LEN, RUN_LEN, Reach, Recovered, STAMP_LEN,
    TOKEN_LEN, Token, TokenRequest, Trail,
};
use crate::requests::Requests;
use bytes::BytesMut;
use consort_member::Clocks;
use consort_wire::Packet as _;

fn bytes(packet: &RingPacket) -> Bytes {
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    head.freeze()
}

fn clocks() -> Clocks {
    Clocks { stamp: 77, delay: 50_000, echoes: [(NodeId(2), 5), (NodeId(3), u32::MAX)].into() }
}

fn recovered(content: DataContent) -> Recovered {
    let DataContent::Messages(body) = content else { panic!("{content:?}") };
    Recovered { old: 1, seq: Seq(3), originator: NodeId(2), stamp: 0, body: Some(body) }
}

fn commit() -> Commit {
    let ring = crate::RingId { number: 11, representative: member(1) };
    let old = crate::RingId { number: 7, representative: member(2) };
    let mut held = crate::holdings::HoldingsMap::default();
    assert!(held.tell(0, None, Seq(5), Seq(9), |seq| seq.0 == 8 || seq.0 == 9));
    let olds = vec![OldRing { ring: old, line: Seq(4), obligations: [member(2)].into(), held }];
    Commit { ring, rotation: 1, members: vec![(member(1), Some(0)), (member(2), None)], olds }
}

fn samples() -> Vec<RingPacket> {
    let ring = crate::RingId { number: 7, representative: member(1) };
    let mut requests = Requests::default();
    requests.merge([2, 3, 4, 9].into_iter().map(Seq), 10);
    let stamped = Recovered { stamp: 5, ..recovered(data(3).content) };
    vec![
        RingPacket::Data(DataPacket { ring, ..data(5) }),
        RingPacket::Data(DataPacket { ring, retransmission: true, round: 9, ..data(6) }),
        RingPacket::Token(Token {
            ring,
            token_seq: 77,
            seq: Seq(20),
            aru: Seq(12),
            aru_by: Some(NodeId(0)),
            fcc: SentLoad { packets: 3, bytes: 4_000 },
            idle: 2,
            rested: true,
            granted: true,
            window: 100,
            room: 90,
            personal: 77,
            signs: crate::load::RotationSigns { hungry: true, deep: false, overflowed: true, lost: 5 },
            stamp: 0,
            requests,
        }),
        RingPacket::Data(DataPacket { ring, content: DataContent::Primary, ..data(7) }),
        RingPacket::Data(DataPacket { ring, stamp: 1 << 40, ..data(7) }),
        RingPacket::Data(DataPacket { ring, stamp: 5, content: DataContent::Recovered(stamped), ..data(8) }),
        RingPacket::Token(Token { ring, token_seq: 7, seq: Seq(20), aru: Seq(20), stamp: 9, ..Token::default() }),
        RingPacket::Data(DataPacket { ring, content: DataContent::Recovered(recovered(data(3).content)), ..data(8) }),
        RingPacket::Join(Join {
            proposal: Proposal {
                proc: [member(1), member(2)].into(),
                fail: [member(2)].into(),
                number: 99,
                heard: [NodeId(2), NodeId(3)].into(),
                leave: false,
                episode: 4,
                clocks: Box::new(clocks()),
            },
            ring,
            attempt: Some(ring),
        }),
        RingPacket::Commit(commit()),
        RingPacket::Beacon(Beacon {
            view: ring,
            members: vec![member(1), member(4)],
            heard: [NodeId(4)].into(),
            wants: None,
            settled: true,
            clocks: Box::new(clocks()),
            annotation: Bytes::from_static(b"hash"),
            padding: 100,
        }),
        RingPacket::Data(DataPacket { ring, ack_request: true, ..data(9) }),
        RingPacket::Ack(Ack { ring, aru: Seq(20), stable: Seq(12) }),
        RingPacket::TokenRequest(TokenRequest { ring }),
        RingPacket::Reach(Reach { ring, asks: true }),
        RingPacket::Reach(Reach { ring, asks: false }),
        RingPacket::Late(Late {
            ring,
            asks: true,
            trail: Trail { token_seq: 78, to: NodeId(3) },
            heard: [NodeId(1), NodeId(4)].into(),
        }),
        RingPacket::Late(Late {
            ring,
            asks: false,
            trail: Trail { token_seq: 78, to: NodeId(2) },
            heard: BTreeSet::new(),
        }),
    ]
}

#[test]
fn every_packet_reads_back_and_has_the_documented_length() {
    for packet in samples() {
        let bytes = bytes(&packet);
        let stamp = |stamp| if stamp > 0 { STAMP_LEN } else { 0 };
        let len = match &packet {
            RingPacket::Data(data) => {
                stamp(data.stamp)
                    + match &data.content {
                        DataContent::Messages(body) => DATA_LEN + body.as_bytes().len(),
                        DataContent::Recovered(recovered) => {
                            RECOVERED_LEN + recovered.body.as_ref().unwrap().as_bytes().len()
                        }
                        DataContent::Primary => DATA_LEN,
                    }
            }
            RingPacket::Token(token) if token.stamp > 0 => TOKEN_LEN + STAMP_LEN,
            RingPacket::Token(_) => TOKEN_LEN + 2 * RUN_LEN,
            RingPacket::Join(_) => 54 + 3 * 2 + 3 * 10 + 2 * 2 + 10 + 2 * 6,
            RingPacket::Beacon(beacon) => beacon.bare_len() + 100,
            RingPacket::Commit(_) => bytes.len(),
            RingPacket::Ack(_) => 35,
            RingPacket::TokenRequest(_) => 19,
            RingPacket::Reach(_) => 20,
            RingPacket::Late(late) => 32 + 2 * late.heard.len(),
        };
        assert_eq!(bytes.len(), len, "{packet:?}");
        assert_eq!(RingPacket::decode(bytes), Ok(packet));
    }
    assert_eq!((DATA_LEN, TOKEN_LEN, RECOVERED_LEN), (38, 70, 41));
}

#[test]
fn no_mutation_panics_and_what_is_accepted_encodes_to_itself() {
    for packet in samples() {
        consort_wire::mutate::each(&bytes(&packet), 5_000, |mutated| {
            let mutated = Bytes::copy_from_slice(mutated);
            if let Ok(read) = RingPacket::decode(mutated.clone()) {
                assert_eq!(bytes(&read), mutated);
            }
        });
    }
}

#[test]
fn any_packets_in_any_state_leave_a_ring_standing() {
    for packet in samples() {
        consort_wire::mutate::each(&bytes(&packet), 300, |mutated| {
            let Ok(read) = RingPacket::decode(Bytes::copy_from_slice(mutated)) else { return };
            for start in [false, true] {
                let mut net = Net::new(2, |_| {});
                if start {
                    net = Net::formed(2, |_| {});
                }
                net.hand_over(Flying { from: member(2), to: NodeId(1), lane: Lane::Token, packet: read.clone() });
                net.run(Duration::from_millis(1));
            }
        });
    }
}

#[test]
fn a_token_never_outgrows_a_datagram() {
    //= R14 test
    let config = RingConfig::new(NodeId(1), vec![NodeId(1)]);
    let max_runs = (config.datagram.packet_room() - TOKEN_LEN) / RUN_LEN;
    let mut requests = Requests::default();
    requests.merge((1..=10_000).map(|k| Seq(2 * k)), max_runs);
    let token = RingPacket::Token(Token { seq: Seq(20_000), requests, ..Token::default() });
    assert!(bytes(&token).len() <= config.datagram.packet_room());
}

#[test]
fn bad_settings_are_refused_by_name() {
    let refused = |adjust: &dyn Fn(&mut RingConfig)| {
        let mut config = RingConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)]);
        adjust(&mut config);
        Ring::new(config, Incarnation(1)).unwrap_err().setting
    };
    assert_eq!(refused(&|c| c.me = NodeId(9)), "node");
    assert_eq!(refused(&|c| c.members.push(NodeId(1))), "node");
    assert_eq!(refused(&|c| c.members.extend((3..200).map(NodeId))), "node");
    assert_eq!(refused(&|c| c.windows.personal = 0), "ring.personal_window");
    assert_eq!(refused(&|c| c.windows.global = 3), "ring.global_window");
    assert_eq!(refused(&|c| c.windows.accelerated = 999), "ring.accelerated_window");
    assert_eq!(refused(&|c| c.windows.store = 600), "ring.store_window");
    assert_eq!(refused(&|c| c.windows.store = 1 << 20), "ring.store_window");
    assert_eq!(refused(&|c| c.windows.personal_bytes = 100), "ring.personal_bytes");
    assert_eq!(refused(&|c| c.message_max = 0), "limits.message");
    assert_eq!(refused(&|c| c.queue_bytes = 10), "limits.queue");
    assert_eq!(refused(&|c| c.timers.token_loss = Duration::from_millis(100)), "ring.token_loss");
    assert_eq!(refused(&|c| c.timers.hold = Duration::from_millis(30)), "ring.hold");
    assert_eq!(refused(&|c| c.idling.rounds = 0), "ring.idle_rounds");
}
