//! A packet of PLATO is read or refused; what is read is read again as it was.
use bytes::{Bytes, BytesMut};
use consort_order::{Engine, Packet as _};
use consort_plato::Plato;

type PlatoPacket = <Plato as Engine>::Packet;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = PlatoPacket::decode(Bytes::copy_from_slice(bytes)) else { return };
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    assert_eq!(PlatoPacket::decode(head.freeze()), Ok(packet));
}
