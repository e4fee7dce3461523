//! The stable stand-in for a fuzzer: good bytes, broken in seeded ways. Every decoder's tests use it; `fuzz/` holds the
//! coverage-guided targets of the same decoders.
use consort_types::Rng;

/// Calls `check` with `rounds` mutations of `good`: bits flipped, bytes set to extremes, pieces cut, doubled, or moved,
/// and with bytes of pure chance. The same `good` gives the same mutations.
pub fn each(good: &[u8], rounds: u32, mut check: impl FnMut(&[u8])) {
    let mut rng = Rng::new(good.len() as u64 ^ 0x5eed);
    check(&[]);
    for cut in 0..good.len().min(256) {
        check(&good[..cut]);
    }
    for _ in 0..rounds {
        let mut bytes = good.to_vec();
        for _ in 0..rng.between(1, 4) {
            one(&mut rng, &mut bytes);
        }
        check(&bytes);
    }
}

fn one(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    if len == 0 {
        bytes.extend((0..rng.below(64)).map(|_| rng.next_u64() as u8));
        return;
    }
    let at = rng.below(len) as usize;
    let end = at + rng.below(len - at as u64 + 1) as usize;
    match rng.below(7) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.extend_from_within(at..end),
        5 => bytes[at..end].reverse(),
        _ => bytes[at..end].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8),
    }
}
