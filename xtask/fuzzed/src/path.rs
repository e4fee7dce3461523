//! What a driver is sent is opened or refused; what was cut comes together as it was.
use bytes::{Bytes, BytesMut};
use consort_types::{ClusterId, ConfigHash};
use consort_wire::path_mtu::{self, ALWAYS, DriverPacket, Shape};
use consort_wire::{Identity, Lane, envelope};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let identity = |node| Identity { cluster: ClusterId(1), config: ConfigHash(2), me: crate::member(node) };
    let _ = path_mtu::open(&identity(1), &Bytes::copy_from_slice(bytes));
    // With a sum that is right the fuzzer comes to what stands behind the envelope.
    let mut datagram = BytesMut::new();
    envelope::reserve(&mut datagram);
    envelope::seal(&identity(2), Lane::Data, &mut datagram, bytes);
    datagram.extend_from_slice(bytes);
    if let [kind @ (16 | 17), nonce @ ..] = bytes
        && nonce.len() >= 8
    {
        datagram[3] = *kind;
        datagram[32..40].copy_from_slice(&nonce[..8]);
        let sum = [&datagram[..40], bytes].concat();
        datagram[40..44].copy_from_slice(&crc32fast::hash(&sum).to_be_bytes());
        if let Ok((_, DriverPacket::Fragment(piece))) = path_mtu::open(&identity(1), &datagram.clone().freeze()) {
            assert_eq!(piece.shape.range(piece.index).len(), piece.bytes.len());
        }
    }
    let (head, body) = bytes.split_at(bytes.len() / 3);
    if let Some(shape) = Shape::new(bytes.len(), ALWAYS) {
        let opened = path_mtu::cut(identity(2), 1, shape, head, body).map(|piece| path_mtu::open(&identity(1), &piece));
        let joined = opened.map(|piece| match piece.expect("what was cut is a piece") {
            (_, DriverPacket::Fragment(piece)) => piece.bytes,
            (_, other) => panic!("{other:?}"),
        });
        assert_eq!(joined.collect::<Vec<_>>().concat(), bytes);
    }
}
