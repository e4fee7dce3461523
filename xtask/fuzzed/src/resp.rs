//! What a client of a key-value store sends, cut anywhere, and what its words ask for; and what stands in the order.
use bytes::BytesMut;
use consort_kv::command::{Command, Outcome};
use consort_kv::limits::{KEY_MAX, REQUEST_MAX, VALUE_MAX, WORDS_MAX};
use consort_kv::partition::Partition;
use consort_kv::request::{Request, request};
use consort_kv::resp::Decoder;
use consort_replica::{Position, StateMachine};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let (mut decoder, mut input, mut taken) = (Decoder::default(), BytesMut::new(), 0);
    for piece in crate::pieces(bytes) {
        input.extend_from_slice(piece);
        loop {
            match decoder.next(&mut input) {
                Ok(Some(words)) => {
                    let len: usize = words.iter().map(bytes::Bytes::len).sum();
                    assert!((1..=WORDS_MAX).contains(&words.len()) && len <= REQUEST_MAX);
                    taken += len;
                    assert!(taken <= bytes.len(), "words are what came");
                    if let Ok(Request::Put { key, value, .. }) = request(&words) {
                        assert!(key.len() <= KEY_MAX && value.len() <= VALUE_MAX);
                    }
                }
                Ok(None) => break,
                Err(_) => return apply(bytes),
            }
        }
    }
    apply(bytes);
}

/// Whatever stands in the order, replicas stay alike.
fn apply(bytes: &[u8]) {
    let mut both = [Partition::default(), Partition::default()];
    for (at, piece) in (1..).zip(crate::pieces(bytes)) {
        let told = both.each_mut().map(|partition| partition.apply(Position(at), piece));
        assert_eq!(told[0], told[1]);
        let outcome = Outcome::decode(&told[0].clone().into()).expect("an outcome reads back");
        assert_eq!(outcome == Outcome::Malformed, Command::decode(piece).is_err());
    }
    let mut written = Vec::new();
    Partition::write(both[0].snapshot(), &mut written).expect("memory takes it");
    let mut restored = Partition::default();
    restored.restore(&mut &written[..]).expect("what was written reads back");
    assert_eq!(restored.range(b"", None, usize::MAX), both[1].range(b"", None, usize::MAX));
    let _ = restored.restore(&mut &bytes[..]);
}
