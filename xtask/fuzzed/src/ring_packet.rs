//! A packet of the ring is read or refused; what is read encodes to the same bytes.
use bytes::{Bytes, BytesMut};
use consort_ring::packet::RingPacket;
use consort_wire::Packet as _;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = RingPacket::decode(Bytes::copy_from_slice(bytes)) else { return };
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    assert_eq!(&head[..], bytes);
}
