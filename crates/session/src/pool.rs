//! Frames that many clients read, kept once.
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of frames that several outputs share, each frame once: from when it is shared until nobody waits to
/// read it any more.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    bytes: Arc<AtomicUsize>,
}

/// Frames, and where they are counted.
struct Counted {
    frames: Bytes,
    bytes: Arc<AtomicUsize>,
}

impl Pool {
    /// The same bytes, counted for as long as somebody holds them.
    pub fn share(&self, frames: Bytes) -> Bytes {
        self.bytes.fetch_add(frames.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted { frames, bytes: Arc::clone(&self.bytes) })
    }

    /// How many bytes are held.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.frames
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.frames.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_count_once_until_the_last_reader_has_them() {
        let pool = Pool::default();
        let frames = pool.share(Bytes::from_static(b"frames"));
        let readers: Vec<_> = (0..10).map(|at| frames.slice(at % 3..)).collect();
        assert_eq!((pool.bytes(), &readers[1][..]), (6, &b"rames"[..]));
        drop(frames);
        assert_eq!(pool.bytes(), 6);
        drop(readers);
        assert_eq!(pool.bytes(), 0);
    }
}
