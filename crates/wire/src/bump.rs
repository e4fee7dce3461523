//! Memory for what is written: large chunks, filled from the front, handed out as shared slices.
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// How many used chunks are kept in sight for another use. What they hold lives as long as somebody holds a slice; beyond
/// this number a chunk is freed by its last slice.
const RETIRED: usize = 16;

/// Chunks of equal size. In steady traffic nothing is asked of the allocator: a chunk whose slices are all gone is used again.
#[derive(Clone, Debug)]
pub struct Bump {
    size: usize,
    chunk: BytesMut,
    retired: VecDeque<BytesMut>,
}

impl Bump {
    /// Takes memory in chunks of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { size, chunk: BytesMut::new(), retired: VecDeque::new() }
    }

    /// An empty buffer with room for `least` bytes at least, to be written and then taken.
    pub fn room(&mut self, least: usize) -> &mut BytesMut {
        self.chunk.clear();
        if self.chunk.capacity() < least {
            let fresh = self.fresh(least.max(self.size));
            let used = std::mem::replace(&mut self.chunk, fresh);
            self.retire(used);
        }
        &mut self.chunk
    }

    /// Takes what was written.
    pub fn take(&mut self) -> Bytes {
        self.chunk.split().freeze()
    }

    fn fresh(&mut self, size: usize) -> BytesMut {
        for _ in 0..self.retired.len() {
            let Some(mut chunk) = self.retired.pop_front() else { break };
            if chunk.try_reclaim(size) {
                return chunk;
            }
            self.retired.push_back(chunk);
        }
        BytesMut::with_capacity(size)
    }

    fn retire(&mut self, chunk: BytesMut) {
        if self.retired.len() == RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;

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
}
