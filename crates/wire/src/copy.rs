//! Large copies in small steps.
use bytes::BytesMut;
use std::cell::Cell;

/// So many bytes are copied by one call. Above a little more, common C libraries leave a copy to `rep movsb`, which some
/// processors (Zen 3 and 4) do at a twelfth of their speed where the target begins shortly behind the source within a page.
/// Steps as short as this are copied by vector registers, as fast as any.
pub const COPY_STEP: usize = 2 << 10;

/// Memory that the kernel copies by so many bytes or more is worth a place of its own: see [`stagger`].
pub const LARGE_COPY: usize = 16 << 10;
/// Within so many bytes places differ.
pub const STAGGER: usize = 4 << 10;

/// How far large memory that the kernel is to read or fill is to begin behind where it could: a multiple of 64 below
/// [`STAGGER`], another each time.
///
/// The kernel copies by `rep movsb`, however much it is, and its buffers advance by the length of each datagram, as ours do:
/// where the two once lay so that the copy is slow ([`COPY_STEP`]), they would for ever. With places at random one copy in 64
/// is.
pub fn stagger() -> usize {
    const LINE: usize = 64;
    thread_local! {
        static DRAWN: Cell<u32> = const { Cell::new(1) };
    }
    let next = |last: u32| last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    // A thread that ends needs no places.
    let drawn = DRAWN.try_with(|drawn| drawn.replace(next(drawn.get()))).unwrap_or_default();
    (drawn >> 16) as usize % (STAGGER / LINE) * LINE
}

/// Appends bytes, however many.
pub fn append(out: &mut BytesMut, bytes: &[u8]) {
    out.reserve(bytes.len());
    bytes.chunks(COPY_STEP).for_each(|step| out.extend_from_slice(step));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_appended_in_their_order() {
        let bytes: Vec<u8> = (0..3 * COPY_STEP + 7).map(|i| (i % 251) as u8).collect();
        let mut out = BytesMut::from(&b"before"[..]);
        for len in [0, 1, COPY_STEP - 1, COPY_STEP, COPY_STEP + 1, bytes.len()] {
            append(&mut out, &bytes[..len]);
            assert_eq!(out.split().strip_prefix(&b"before"[..]), Some(&bytes[..len]));
            out.extend_from_slice(b"before");
        }
    }

    #[test]
    fn places_lie_everywhere_within_a_page_and_in_no_regular_distance() {
        let places: Vec<_> = (0..4096).map(|_| stagger()).collect();
        assert!(places.iter().all(|place| *place < STAGGER && place.is_multiple_of(64)));
        let count = |of: &mut dyn Iterator<Item = usize>| {
            let mut counts = [0; STAGGER / 64];
            of.for_each(|place| counts[place / 64] += 1);
            (counts.iter().min().copied(), counts.iter().max().copied())
        };
        let distance = |pair: &[usize]| (STAGGER + pair[1] - pair[0]) % STAGGER;
        for (least, most) in [count(&mut places.iter().copied()), count(&mut places.windows(2).map(distance))] {
            assert!(least > Some(16) && most < Some(160), "{least:?} to {most:?}, where 64 are even");
        }
    }
}
