//! A packet of ToTo is read or refused; what is read is read again as it was.
use bytes::{Bytes, BytesMut};
use consort_toto::packet::TotoPacket;
use consort_wire::Packet as _;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = TotoPacket::decode(Bytes::copy_from_slice(bytes)) else { return };
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    assert_eq!(TotoPacket::decode(head.freeze()), Ok(packet));
}
