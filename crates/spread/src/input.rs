//! What a client has sent and was not taken yet.
use bytes::{Bytes, BytesMut};

/// Bytes in the order in which they came. What came in one piece is given out without copying; any other byte is copied
/// at most twice, however small the pieces are.
#[derive(Debug, Default)]
pub(crate) struct Input {
    front: Bytes,
    back: BytesMut,
}

impl Input {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if self.held() == 0 {
            self.front = bytes;
        } else {
            self.back.extend_from_slice(&bytes);
        }
    }

    /// The next `n` bytes, if they are there.
    pub(crate) fn peek(&mut self, n: usize) -> Option<&[u8]> {
        if self.held() < n {
            return None;
        }
        if self.front.len() < n {
            let mut joined = BytesMut::with_capacity(self.held());
            joined.extend_from_slice(&self.front);
            joined.extend_from_slice(&self.back);
            self.back.clear();
            self.front = joined.freeze();
        }
        Some(&self.front[..n])
    }

    /// The next `n` bytes, where they lie together.
    pub(crate) fn front(&self, n: usize) -> Option<&[u8]> {
        self.front.get(..n)
    }

    /// Takes the next `n` bytes, if they are there.
    pub(crate) fn take(&mut self, n: usize) -> Option<Bytes> {
        self.peek(n)?;
        let taken = self.front.split_to(n);
        if self.front.is_empty() {
            self.front = self.back.split().freeze();
        }
        Some(taken)
    }

    pub(crate) fn held(&self) -> usize {
        self.front.len() + self.back.len()
    }
}
