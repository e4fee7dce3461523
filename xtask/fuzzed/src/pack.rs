//! Bodies of packets from one sender: checked, cut into chunks, put together to messages.
use bytes::Bytes;
use consort_wire::pack::{Assembly, Body};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut assembly = Assembly::default();
    let mut total = 0;
    for body in crate::pieces(bytes).filter_map(|piece| Body::new(Bytes::copy_from_slice(piece)).ok()) {
        for chunk in body.chunks() {
            total += chunk.bytes.len();
            let _ = assembly.push(chunk);
        }
        assert!(assembly.held() <= total, "no more is kept than came");
    }
    assert!(total <= bytes.len());
}
