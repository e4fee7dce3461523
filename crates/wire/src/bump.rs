//! Memory for what is written: large chunks, filled from the front, handed out as shared slices.
use crate::copy::{LARGE_COPY, stagger};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// How many used chunks are kept in sight for another use. What they hold lives as long as somebody holds a slice;
/// beyond this number a chunk is freed by its last slice.
pub const RETIRED: usize = 16;

/// Used chunks, each to be used again, warm in the cache, once its slices are gone.
#[derive(Clone, Debug, Default)]
pub struct Retired(VecDeque<BytesMut>);

impl Retired {
    /// Keeps a used chunk in sight. One that never held anything is dropped.
    pub fn keep(&mut self, mut chunk: BytesMut) {
        if chunk.capacity() == 0 {
            return;
        }
        chunk.clear();
        if self.0.len() == RETIRED {
            self.0.pop_front();
        }
        self.0.push_back(chunk);
    }

    /// An empty chunk with room for `size` bytes whose slices are all gone, if there is one.
    pub fn reclaim(&mut self, size: usize) -> Option<BytesMut> {
        // The one used last first: after a peak the others would only take turns, each cold by then.
        let at = (0..self.0.len()).rev().find(|at| self.0[*at].try_reclaim(size))?;
        self.0.remove(at)
    }

    /// How many chunks are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Chunks of equal size. In steady traffic nothing is asked of the allocator. What is large lies at places that [`stagger`].
#[derive(Clone, Debug)]
pub struct Bump {
    size: usize,
    chunk: BytesMut,
    retired: Retired,
}

impl Bump {
    /// Takes memory in chunks of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { size, chunk: BytesMut::new(), retired: Retired::default() }
    }

    /// An empty buffer with room for `least` bytes at least, to be written and then taken.
    pub fn room(&mut self, least: usize) -> &mut BytesMut {
        self.chunk.clear();
        if self.chunk.capacity() < least {
            let size = least.max(self.size);
            let fresh = self.retired.reclaim(size).unwrap_or_else(|| BytesMut::with_capacity(size));
            self.retired.keep(std::mem::replace(&mut self.chunk, fresh));
            if least >= LARGE_COPY {
                self.pass_over(stagger().min(self.chunk.capacity() - least));
            }
        }
        &mut self.chunk
    }

    /// Takes what was written.
    pub fn take(&mut self) -> Bytes {
        let taken = self.chunk.split().freeze();
        if taken.len() >= LARGE_COPY {
            self.pass_over(stagger().min(self.chunk.capacity()));
        }
        taken
    }

    /// Gives up the first `n` bytes, for as long as the chunk is in use.
    fn pass_over(&mut self, n: usize) {
        self.chunk.put_bytes(0, n);
        drop(self.chunk.split());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::STAGGER;

    fn put(bump: &mut Bump, len: usize, byte: u8) -> Bytes {
        bump.room(len).put_bytes(byte, len);
        bump.take()
    }

    #[test]
    fn slices_keep_their_bytes_while_others_are_written() {
        let mut bump = Bump::new(1 << 10);
        let held: Vec<_> = (0..100).map(|byte| put(&mut bump, 200, byte)).collect();
        assert!(held.iter().zip(0..).all(|(slice, byte)| slice.len() == 200 && slice.iter().all(|b| *b == byte)));
        assert!(bump.retired.len() <= RETIRED);
    }

    #[test]
    fn a_chunk_is_used_again_once_its_slices_are_gone() {
        let mut bump = Bump::new(1 << 10);
        let first = put(&mut bump, 1000, 1);
        let place = first.as_ptr();
        assert_ne!(put(&mut bump, 1000, 2).as_ptr(), place);
        drop(first);
        assert_eq!(put(&mut bump, 1000, 3).as_ptr(), place);
    }

    #[test]
    fn what_is_not_taken_leaves_no_trace_and_what_is_larger_than_a_chunk_gets_its_room() {
        let mut bump = Bump::new(1 << 10);
        bump.room(10).put_bytes(7, 10);
        assert_eq!(put(&mut bump, 2, 1), [1; 2][..]);
        assert_eq!(put(&mut bump, 5000, 2).len(), 5000);
    }

    #[test]
    fn what_is_large_never_lies_at_regular_distances_and_takes_little_more() {
        let (mut bump, len) = (Bump::new(64 * LARGE_COPY), LARGE_COPY);
        let held: Vec<_> = (0..50).map(|byte| put(&mut bump, len, byte)).collect();
        assert!(held.iter().zip(0..).all(|(slice, byte)| slice.len() == len && slice.iter().all(|b| *b == byte)));
        let gaps = held.windows(2).map(|pair| pair[1].as_ptr() as usize - pair[0].as_ptr() as usize - len);
        let gaps: std::collections::BTreeSet<_> = gaps.collect();
        assert!(gaps.len() > 20 && gaps.iter().all(|gap| *gap < STAGGER), "{gaps:?}");
        let whole = put(&mut Bump::new(LARGE_COPY), LARGE_COPY, 7);
        assert_eq!(whole.len(), LARGE_COPY, "a chunk that it fills has no place to choose");
    }

    #[test]
    fn chunks_of_large_pieces_are_used_again() {
        let mut bump = Bump::new(8 * LARGE_COPY);
        let mut chunks = std::collections::BTreeSet::new();
        for byte in 0..200 {
            let slice = put(&mut bump, LARGE_COPY, byte);
            chunks.insert(slice.as_ptr() as usize / (32 * LARGE_COPY));
        }
        assert!(bump.retired.len() <= 2 && chunks.len() <= 6, "{chunks:?}");
    }
}
