//! Whatever comes to a node with a key without being sealed with it is refused; a greeting that was opened is read or refused.
use bytes::BytesMut;
use consort_seal::greeting::Greeting;
use consort_seal::{Cipher, KeyEpoch, KeyRing, Opener, Salt};
use consort_types::{ClusterId, ConfigHash, NodeId};
use consort_wire::Identity;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let identity = Identity { cluster: ClusterId(1), config: ConfigHash(2), me: crate::member(1) };
    let keys = KeyRing::new(KeyEpoch::new(1).expect("it is not 0"), &[52; 32]);
    let own = Salt::new(Cipher::ChaCha20Poly1305, [7; 15]);
    let mut opener = Opener::new(keys, identity, own, (1..=3).map(NodeId));
    assert!(opener.open(&mut BytesMut::from(bytes)).is_err(), "what nobody sealed opens");
    assert_eq!(opener.proven().count(), 0);
    if let Ok(greeting) = Greeting::decode(bytes) {
        let said = greeting.encode(&identity);
        assert_eq!(&said[consort_wire::envelope::LEN..], bytes, "a greeting has one form");
    }
}
