//! Memory that reads from the daemon, used again once the events in it are gone.
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// How much is read at once, in bytes.
const CHUNK: usize = 256 << 10;
/// Reads up to that many bytes get memory of their own, so that a message which a program keeps pins at most four times
/// what was read with it.
const SMALL: usize = 64 << 10;
/// How many chunks whose events are still about are kept in sight for another use.
const KEPT: usize = 8;

/// Chunks of equal size, each read into once before it is handed out.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    current: Option<Arc<[u8]>>,
    handed_out: VecDeque<Arc<[u8]>>,
}

/// The front of a chunk.
struct ChunkFront {
    chunk: Arc<[u8]>,
    len: usize,
}

impl AsRef<[u8]> for ChunkFront {
    fn as_ref(&self) -> &[u8] {
        &self.chunk[..self.len]
    }
}

impl Chunks {
    /// Lets `read` fill a chunk's front and returns what it read; whatever else it says is passed on.
    pub(crate) fn read<E>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<Option<Bytes>, E> {
        let mut chunk = self.current.take().unwrap_or_else(|| self.free());
        // A chunk that nobody else sees; if one were seen, another would take its place.
        let n = match Arc::get_mut(&mut chunk) {
            Some(room) => read(room),
            None => {
                chunk = fresh();
                Arc::get_mut(&mut chunk).map_or(Ok(None), read)
            }
        };
        let bytes = match n {
            Ok(Some(n)) if n > SMALL => {
                let bytes = Bytes::from_owner(ChunkFront { chunk: Arc::clone(&chunk), len: n });
                self.hand_out(chunk);
                return Ok(Some(bytes));
            }
            Ok(Some(n)) => Ok(Some(Bytes::copy_from_slice(&chunk[..n]))),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.current = Some(chunk);
        bytes
    }

    fn hand_out(&mut self, chunk: Arc<[u8]>) {
        if self.handed_out.len() == KEPT {
            self.handed_out.pop_front();
        }
        self.handed_out.push_back(chunk);
    }

    fn free(&mut self) -> Arc<[u8]> {
        let free = self.handed_out.iter_mut().position(|chunk| Arc::get_mut(chunk).is_some());
        free.and_then(|at| self.handed_out.remove(at)).unwrap_or_else(fresh)
    }
}

fn fresh() -> Arc<[u8]> {
    std::iter::repeat_n(0, CHUNK).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(chunks: &mut Chunks, n: usize, byte: u8) -> Bytes {
        let read = |room: &mut [u8]| {
            room[..n].fill(byte);
            Ok::<_, ()>(Some(n))
        };
        chunks.read(read).unwrap().unwrap()
    }

    #[test]
    fn what_was_read_stays_while_it_is_held_and_its_chunk_is_used_again_after() {
        let mut chunks = Chunks::default();
        let held: Vec<_> = (1..=20).map(|byte| fill(&mut chunks, SMALL + 1, byte)).collect();
        assert!(held.iter().zip(1..).all(|(bytes, byte)| bytes.len() == SMALL + 1 && bytes.iter().all(|b| *b == byte)));
        assert!(chunks.handed_out.len() <= KEPT);
        let last = held[19].as_ptr();
        drop(held);
        let again: Vec<_> = (0..KEPT).map(|_| fill(&mut chunks, CHUNK, 7)).collect();
        assert!(again.iter().any(|bytes| bytes.as_ptr() == last));
    }

    #[test]
    fn little_is_copied_and_pins_nothing() {
        let mut chunks = Chunks::default();
        let held: Vec<_> = (1..=20).map(|byte| fill(&mut chunks, 100, byte)).collect();
        assert!(chunks.handed_out.is_empty());
        assert!(held.iter().zip(1..).all(|(bytes, byte)| bytes.iter().all(|b| *b == byte)));
    }

    #[test]
    fn what_reading_says_is_passed_on() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.read(|_| Ok::<_, ()>(None)), Ok(None));
        assert_eq!(chunks.read(|_| Err("broken")), Err("broken"));
        assert_eq!(fill(&mut chunks, 3, 1), [1; 3][..]);
    }
}
