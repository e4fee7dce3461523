//! Packets to the byte.
use crate::packet::{DagContent, DagMessage, HoldingsStatus, Nak, TotoPacket};
use bytes::{Bytes, BytesMut};
use consort_types::{Class, MemberId, Service, ViewId};
use consort_wire::Packet as _;
use consort_wire::pack::{Body, OutgoingMessage};

const VIEW: ViewId = ViewId { number: 9, representative: MemberId::new(1, 3) };

fn samples() -> Vec<TotoPacket> {
    let mut body = BytesMut::new();
    let payload = Bytes::from_static(b"a pound of tea").into();
    assert!(OutgoingMessage::new(Class::Client, Service::Safe, payload).pack(&mut body, 100));
    let content = DagContent::Body(Body::new(body.freeze()).unwrap());
    let message = DagMessage { view: VIEW, sender: 1, k: 7, acks: vec![(0, 3), (2, 9)], content };
    vec![
        TotoPacket::Message(message.clone()),
        TotoPacket::Message(DagMessage { content: DagContent::Null, ..message.clone() }),
        TotoPacket::Message(DagMessage { content: DagContent::Primary, acks: Vec::new(), ..message }),
        TotoPacket::Nak(Nak { view: VIEW, sender: 2, ranges: vec![(1, 1), (4, 9)] }),
        TotoPacket::Status(HoldingsStatus { view: VIEW, held: vec![1, 0, 9] }),
        TotoPacket::Member(crate::vs::MembershipPacket::Install { view: VIEW }),
    ]
}

fn bytes(packet: &TotoPacket) -> Bytes {
    let mut head = BytesMut::new();
    let tail = packet.encode(&mut head);
    head.extend_from_slice(&tail);
    head.freeze()
}

#[test]
fn what_is_written_is_read_and_has_the_length_told() {
    //= A01 test
    for packet in samples() {
        let bytes = bytes(&packet);
        if let TotoPacket::Message(message) = &packet {
            assert_eq!(message.wire_len(), bytes.len());
        }
        assert_eq!(TotoPacket::decode(bytes), Ok(packet));
    }
}

#[test]
fn no_mutation_panics_and_what_is_accepted_reads_back() {
    for packet in samples() {
        consort_wire::mutate::each(&bytes(&packet), 2_000, |mutated| {
            if let Ok(read) = TotoPacket::decode(Bytes::copy_from_slice(mutated)) {
                assert_eq!(TotoPacket::decode(bytes(&read)), Ok(read));
            }
        });
    }
}
