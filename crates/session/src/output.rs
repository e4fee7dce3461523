//! What one client is to read.
use bytes::{Buf, BytesMut};

/// A buffer larger than this is given back once it is empty.
const KEEP: usize = 1 << 20;

/// One contiguous buffer: frames are appended at the back, written bytes go from the front. The room they leave is used
/// again once it is at least as large as what remains, so moving costs each byte at most one more copy.
#[derive(Debug, Default)]
pub struct Output {
    bytes: BytesMut,
    largest: usize,
    announced: bool,
}

impl Output {
    /// Where frames are appended.
    pub const fn as_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// What is to be written.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is something to write that nobody was told of yet. Says so once until all is written.
    pub fn wakes(&mut self) -> bool {
        let wakes = !self.announced && !self.bytes.is_empty();
        self.announced |= wakes;
        wakes
    }

    /// The first `n` bytes are written; more than there are is all of them.
    pub fn written(&mut self, n: usize) {
        self.largest = self.largest.max(self.bytes.len());
        if n < self.bytes.len() {
            self.bytes.advance(n);
            return;
        }
        self.announced = false;
        if std::mem::take(&mut self.largest) > KEEP {
            self.bytes = BytesMut::new();
        } else {
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_once_until_it_is_empty() {
        let mut output = Output::default();
        assert!(!output.wakes());
        output.as_mut().extend_from_slice(b"abc");
        assert!(output.wakes() && !output.wakes());
        output.written(2);
        output.as_mut().extend_from_slice(b"de");
        assert!(!output.wakes());
        assert_eq!(output.as_slice(), b"cde");
        output.written(99);
        assert!(output.as_slice().is_empty() && !output.wakes());
        output.as_mut().extend_from_slice(b"f");
        assert!(output.wakes());
    }

    #[test]
    fn steady_traffic_needs_no_more_room_and_a_burst_is_given_back() {
        let mut output = Output::default();
        let frame = [7; 100];
        for round in 0..10_000 {
            output.as_mut().extend_from_slice(&frame);
            if round % 10 != 0 {
                output.written(120);
            }
        }
        assert!(output.bytes.capacity() < 16 << 10, "{}", output.bytes.capacity());
        output.as_mut().resize(KEEP + 1, 0);
        output.written(usize::MAX);
        assert_eq!(output.bytes.capacity(), 0);
    }
}
