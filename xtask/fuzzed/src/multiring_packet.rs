//! A packet of Totem's multiple rings, or a message of one of them, is read or refused; what is read is read again as it was.
use bytes::{Bytes, BytesMut};
use consort_multiring::carrier::Carrier;
use consort_multiring::packet::Packet;
use consort_wire::Packet as _;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(carrier) = Carrier::decode(bytes.clone().into()) {
        assert_eq!(Carrier::decode(carrier.encode()), Ok(carrier));
    }
    let Ok(packet) = Packet::decode(bytes) else { return };
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    assert_eq!(Packet::decode(head.freeze()), Ok(packet));
}
