//! A datagram is opened or refused; what was sealed opens.
use bytes::{Bytes, BytesMut};
use consort_types::{ClusterId, ConfigHash};
use consort_wire::{Identity, Lane, envelope};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let identity = |node| Identity { cluster: ClusterId(1), config: ConfigHash(2), me: crate::member(node) };
    let _ = envelope::open(&identity(1), Bytes::copy_from_slice(bytes));
    let mut datagram = BytesMut::new();
    envelope::reserve(&mut datagram);
    envelope::seal(&identity(2), Lane::Data, &mut datagram, bytes);
    datagram.extend_from_slice(bytes);
    let (opened, packet) = envelope::open(&identity(1), datagram.freeze()).expect("what was sealed opens");
    assert_eq!((opened.from, &packet[..]), (crate::member(2), bytes));
}
