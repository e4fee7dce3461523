//! Memory that receives: large chunks, filled from the front, handed out as shared slices.
use bytes::{Buf, Bytes, BytesMut};
use consort_wire::bump::Retired;

/// Chunks of equal size. A slice pins the chunk it lies in, and nothing else; a chunk whose slices are all gone is
/// used again, warm in the cache.
#[derive(Debug)]
pub(crate) struct Arena {
    size: usize,
    chunk: BytesMut,
    retired: Retired,
}

impl Arena {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, chunk: BytesMut::new(), retired: Retired::default() }
    }

    /// Free bytes in one piece: all that the present chunk has left if that is `least` or more, else a whole chunk.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        debug_assert!(least <= self.size, "{least} bytes in chunks of {}", self.size);
        if self.chunk.len() < least {
            let used = std::mem::replace(&mut self.chunk, BytesMut::new());
            self.retired.keep(used);
            self.chunk = self.fresh();
        }
        &mut self.chunk
    }

    /// Takes the first `n` bytes of the room.
    pub(crate) fn take(&mut self, n: usize) -> Bytes {
        self.take_mut(n).freeze()
    }

    /// The same where they are still to be changed.
    pub(crate) fn take_mut(&mut self, n: usize) -> BytesMut {
        self.chunk.split_to(n)
    }

    /// Gives up the first `n` bytes of the room, for as long as the chunk is in use.
    pub(crate) fn skip(&mut self, n: usize) {
        self.chunk.advance(n);
    }

    fn fresh(&mut self) -> BytesMut {
        match self.retired.reclaim(self.size) {
            Some(chunk) => super::all_of(chunk, self.size),
            None => BytesMut::zeroed(self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_wire::bump::RETIRED;

    #[test]
    fn slices_keep_their_bytes_while_the_arena_goes_on() {
        let mut arena = Arena::new(1 << 10);
        let mut held = Vec::new();
        for i in 0..100u8 {
            arena.room(200)[..200].fill(i);
            held.push(arena.take(200));
        }
        for (i, slice) in held.iter().enumerate() {
            assert!(slice.len() == 200 && slice.iter().all(|b| usize::from(*b) == i), "slice {i}");
        }
    }

    #[test]
    fn a_chunk_is_used_again_once_its_slices_are_gone() {
        let mut arena = Arena::new(1 << 10);
        let first = arena.room(1).as_ptr() as usize;
        let held = arena.take(1000);
        let second = arena.room(100).as_ptr() as usize;
        assert_ne!(first, second);
        drop(arena.take(1000));
        assert_eq!(arena.room(100).as_ptr() as usize, second, "the first is held");
        drop(held);
        let held = arena.take(1000);
        assert_eq!(arena.room(100).as_ptr() as usize, first, "the second is held");
        drop(held);
        drop(arena.take(1000));
        assert_eq!(arena.room(100).as_ptr() as usize, first, "of both the one used last");
        assert_eq!(arena.room(100).len(), 1 << 10);
    }

    #[test]
    fn a_held_chunk_is_passed_over_and_the_number_of_kept_ones_is_bounded() {
        let mut arena = Arena::new(1 << 10);
        let held: Vec<_> = (0..100)
            .map(|_| {
                arena.room(1024);
                arena.take(1024)
            })
            .collect();
        assert!(arena.retired.len() <= RETIRED);
        drop(held);
        arena.room(1024);
        assert!(arena.retired.len() < RETIRED);
    }

    #[test]
    fn skipped_bytes_lie_between_slices() {
        let mut arena = Arena::new(1 << 10);
        let start = arena.room(300).as_ptr() as usize;
        let _held = arena.take(10);
        arena.skip(90);
        assert_eq!(arena.room(300).as_ptr() as usize, start + 100);
    }
}
