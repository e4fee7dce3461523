//! Frames: a length, a kind, a body.
//!
//! | size | field |
//! |---|---|
//! | 4 | the length of what follows, kind included |
//! | 1 | kind |
//! | … | body |
use bytes::{Buf, BufMut, Bytes, BytesMut};
use consort_wire::{Malformed, Payload};
use std::collections::VecDeque;

/// The bytes before a frame's body.
pub const HEAD_LEN: usize = 5;
const LENGTH_LEN: usize = 4;
/// Pieces of a frame below this many bytes are copied together: a sender of single bytes must not make us keep a
/// buffer for each of them.
const SMALL: usize = 4 << 10;

/// What the front of a whole frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the frame is.
    pub kind: u8,
    /// The length of the whole frame in bytes, length field and kind included: what credit counts.
    pub len: usize,
}

/// Frames that stand behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// How many.
    pub frames: u64,
    /// How long they are together.
    pub len: usize,
}

impl From<Head> for Alike {
    fn from(head: Head) -> Self {
        Self { frames: 1, len: head.len }
    }
}

/// Cuts a stream of bytes into frames. Bodies share the bytes that were read.
#[derive(Debug)]
pub struct Frames {
    /// What is read next; empty only if nothing is held but what was gathered.
    current: Bytes,
    later: VecDeque<Bytes>,
    gathered: BytesMut,
    held: usize,
    max: usize,
    passed: u64,
}

impl Frames {
    /// Expects frames of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        let (current, later, gathered) = (Bytes::new(), VecDeque::new(), BytesMut::new());
        Self { current, later, gathered, held: 0, max, passed: 0 }
    }

    /// Expects frames of at most `max` bytes from here on.
    pub const fn allow(&mut self, max: usize) {
        self.max = max;
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: Bytes) {
        if self.held == 0 {
            self.current = bytes;
            self.held = self.current.len();
            return;
        }
        self.held += bytes.len();
        if bytes.len() < SMALL {
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.seal();
            self.later.push_back(bytes);
        }
    }

    /// The head of the frame at the front, once all of it is there.
    ///
    /// # Errors
    /// [`Malformed`] where the length is impossible.
    pub fn whole(&mut self) -> Result<Option<Head>, Malformed> {
        let Some([a, b, c, d, kind]) = self.front() else { return Ok(None) };
        let len = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_add(LENGTH_LEN);
        if len < HEAD_LEN || len > self.max {
            return Err(Malformed { what: "frame length", at: 0 });
        }
        if len > self.held {
            return Ok(None);
        }
        if len > self.current.len() {
            self.seal();
        }
        Ok(Some(Head { kind, len }))
    }

    /// The length of the frame at the front, if its head is there and its end is not.
    pub fn begun(&self) -> Option<usize> {
        let [a, b, c, d, _] = self.front()?;
        let len = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_add(LENGTH_LEN);
        (len > self.held).then_some(len)
    }

    /// Appends the body of the frame at the front, shared. `head` is what [`Self::whole`] has just said.
    pub fn body(&self, head: Head, into: &mut Payload) {
        if head.len <= self.current.len() {
            into.push(self.current.slice(HEAD_LEN..head.len));
            return;
        }
        let (mut skip, mut end) = (HEAD_LEN, head.len);
        for part in std::iter::once(&self.current).chain(&self.later) {
            if skip < part.len() {
                into.push(part.slice(skip..end.min(part.len())));
            }
            skip = skip.saturating_sub(part.len());
            end = end.saturating_sub(part.len());
            if end == 0 {
                return;
            }
        }
    }

    /// Takes the body of the frame at the front in one piece, and goes on to the next frame. Shared, not copied, where
    /// it came in one piece.
    pub fn take_body(&mut self, head: Head) -> Bytes {
        if head.len < self.current.len() {
            self.passed += 1;
            self.held -= head.len;
            let mut frame = self.current.split_to(head.len);
            frame.advance(HEAD_LEN);
            return frame;
        }
        let mut body = Payload::new();
        self.body(head, &mut body);
        self.consume(head.into());
        body.to_bytes()
    }

    /// How many frames of the same kind stand behind each other, and their length: that at the front, which is whole, and
    /// those behind it whose bodies begin with the same `same` bytes, as far as they lie in one piece of at most `most`
    /// bytes.
    pub fn alike(&self, head: Head, same: usize, most: usize) -> Alike {
        let bytes = &self.current[..];
        let mut alike = Alike { frames: 1, len: head.len };
        let Some(first) = bytes.get(LENGTH_LEN..HEAD_LEN + same) else { return alike };
        while let Some(rest) = bytes.get(alike.len..).filter(|rest| rest.len() > HEAD_LEN + same) {
            let len = len_of(rest);
            let fits = len >= HEAD_LEN + same && len <= rest.len() && alike.len + len <= most;
            if !fits || &rest[LENGTH_LEN..HEAD_LEN + same] != first {
                break;
            }
            alike = Alike { frames: alike.frames + 1, len: alike.len + len };
        }
        alike
    }

    /// The kinds and bodies of the whole frames among the next `most` bytes, copied, from the one at the front on.
    pub fn ahead(&self, most: usize) -> Vec<(u8, Bytes)> {
        let pieces = std::iter::once(&self.current[..]).chain(self.later.iter().map(|piece| &piece[..]));
        let mut bytes = BytesMut::new();
        for piece in pieces.chain([&self.gathered[..]]) {
            bytes.extend_from_slice(&piece[..piece.len().min(most - bytes.len())]);
        }
        let (mut rest, mut frames) = (bytes.freeze(), Vec::new());
        while rest.len() >= HEAD_LEN && (HEAD_LEN..=rest.len()).contains(&len_of(&rest)) {
            let frame = rest.split_to(len_of(&rest));
            frames.push((frame[LENGTH_LEN], frame.slice(HEAD_LEN..)));
        }
        frames
    }

    /// The first `len` bytes of the piece at the front, shared.
    pub fn front_piece(&self, len: usize) -> Bytes {
        self.current.slice(..len)
    }

    /// Goes on behind these frames.
    pub fn consume(&mut self, alike: Alike) {
        self.passed += alike.frames;
        self.held -= alike.len.min(self.held);
        let mut left = alike.len;
        while left >= self.current.len() && !self.current.is_empty() {
            left -= self.current.len();
            self.current = self.later.pop_front().unwrap_or_default();
        }
        if left < self.current.len() {
            self.current.advance(left);
        }
    }

    /// How many frames were consumed: the number of the one at the front, counted from 0.
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// How many bytes wait.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        *self = Self { passed: self.passed, ..Self::new(self.max) };
    }

    fn seal(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = self.gathered.split().freeze();
        if self.current.is_empty() {
            self.current = gathered;
        } else {
            self.later.push_back(gathered);
        }
    }

    fn front(&self) -> Option<[u8; HEAD_LEN]> {
        if let Some(front) = self.current.first_chunk() {
            return Some(*front);
        }
        if self.held < HEAD_LEN {
            return None;
        }
        let mut front = [0; HEAD_LEN];
        let pieces = self.current.iter().chain(self.later.iter().flatten()).chain(&self.gathered);
        front.iter_mut().zip(pieces).for_each(|(to, from)| *to = *from);
        Some(front)
    }
}

/// Appends a frame whose body `write` appends.
pub fn put(out: &mut BytesMut, kind: u8, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    out.put_u8(kind);
    write(out);
    let len = (out.len() - start - LENGTH_LEN) as u32;
    out[start..start + LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
}

/// The length of the frame with which these bytes begin, as its first bytes say.
pub(crate) fn len_of(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
    (length as usize).saturating_add(LENGTH_LEN)
}

/// Appends the head of a frame whose body will have `body_len` bytes.
pub fn put_head(out: &mut BytesMut, kind: u8, body_len: usize) {
    out.put_u32((body_len + 1) as u32);
    out.put_u8(kind);
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn read_all(frames: &mut Frames) -> Vec<(u8, Bytes)> {
        let mut got = Vec::new();
        while let Some(head) = frames.whole().unwrap() {
            let mut body = Payload::new();
            frames.body(head, &mut body);
            let taken = frames.take_body(head);
            assert_eq!(body.to_bytes(), taken);
            got.push((head.kind, taken));
        }
        got
    }

    fn stream(rng: &mut Rng) -> (Bytes, Vec<(u8, Bytes)>) {
        let mut out = BytesMut::new();
        let bodies = (0..rng.between(1, 9)).map(|_| {
            let body: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.next_u64() as u8).collect();
            (rng.next_u64() as u8, Bytes::from(body))
        });
        let bodies: Vec<_> = bodies.collect();
        bodies.iter().for_each(|(kind, body)| put(&mut out, *kind, |out| out.put_slice(body)));
        (out.freeze(), bodies)
    }

    #[test]
    fn what_lies_ahead_is_seen_whatever_pieces_it_came_in() {
        let mut rng = Rng::new(4);
        for _ in 0..50 {
            let (mut bytes, wanted) = stream(&mut rng);
            let (len, mut frames) = (bytes.len(), Frames::new(1 << 20));
            while !bytes.is_empty() {
                let most = [10, 5_000, 100_000][rng.below(3) as usize];
                frames.push(bytes.split_to(rng.between(1, most).min(bytes.len() as u64) as usize));
            }
            assert_eq!(frames.ahead(len), wanted);
            assert_eq!(frames.ahead(len - 1), wanted[..wanted.len() - 1], "the last is not whole");
            frames.push(Bytes::from_static(&[0, 0, 0, 0, 9, 9, 9]));
            assert_eq!((frames.ahead(1 << 20), frames.held()), (wanted, len + 7), "no frame has no length");
        }
    }

    #[test]
    fn any_cut_of_the_stream_gives_the_same_frames() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let (mut bytes, wanted) = stream(&mut rng);
            let mut frames = Frames::new(1 << 20);
            let mut got = Vec::new();
            while !bytes.is_empty() {
                let most = [1, 10, 5_000, 100_000][rng.below(4) as usize];
                frames.push(bytes.split_to(rng.between(1, most).min(bytes.len() as u64) as usize));
                got.extend(read_all(&mut frames));
            }
            assert_eq!(got, wanted);
            assert_eq!((frames.held(), frames.passed()), (0, wanted.len() as u64));
        }
    }

    #[test]
    fn a_body_that_came_in_one_piece_is_not_copied() {
        let mut out = BytesMut::new();
        put(&mut out, 7, |out| out.put_slice(b"payload"));
        let bytes = out.freeze();
        let mut frames = Frames::new(100);
        frames.push(bytes.clone());
        let mut body = Payload::new();
        let head = frames.whole().unwrap().unwrap();
        frames.body(head, &mut body);
        assert_eq!(body.to_bytes().as_ptr(), bytes[HEAD_LEN..].as_ptr());
    }

    #[test]
    fn single_bytes_do_not_cost_a_buffer_each() {
        let mut frames = Frames::new(1 << 20);
        let mut out = BytesMut::new();
        put(&mut out, 7, |out| out.put_bytes(1, 10_000));
        let bytes = out.freeze();
        (0..bytes.len()).for_each(|at| frames.push(bytes.slice(at..at + 1)));
        assert_eq!(frames.later.len(), 0);
        assert_eq!(read_all(&mut frames), [(7, bytes.slice(HEAD_LEN..))]);
    }

    #[test]
    fn frames_that_wait_come_out_whatever_followed_them() {
        let frame = |kind: u8, len: usize| {
            let mut out = BytesMut::new();
            put(&mut out, kind, |out| out.put_bytes(kind, len));
            out.freeze()
        };
        for sizes in [[10, 20, 30], [5_000, 20, 5_000], [20, 5_000, 20], [5_000, 5_000, 20]] {
            let mut frames = Frames::new(1 << 20);
            (1..4).zip(sizes).for_each(|(kind, len)| frames.push(frame(kind, len)));
            let wanted: Vec<_> =
                (1..4).zip(sizes).map(|(kind, len)| (kind, frame(kind, len).slice(HEAD_LEN..))).collect();
            assert_eq!(read_all(&mut frames), wanted);
            assert_eq!(frames.held(), 0);
        }
    }

    #[test]
    fn impossible_lengths_are_refused_as_soon_as_they_can_be_read() {
        for length in [0, 100, u32::MAX] {
            let mut frames = Frames::new(100);
            frames.push(Bytes::copy_from_slice(&length.to_be_bytes()));
            assert_eq!(frames.whole(), Ok(None));
            frames.push(Bytes::from_static(&[1]));
            assert_eq!(frames.whole(), Err(Malformed { what: "frame length", at: 0 }));
        }
    }

    #[test]
    fn no_mutation_panics() {
        let (good, _) = stream(&mut Rng::new(4));
        consort_wire::mutate::each(&good[..good.len().min(2_000)], 3_000, |bytes| {
            let mut frames = Frames::new(1 << 20);
            frames.push(Bytes::copy_from_slice(bytes));
            while let Ok(Some(head)) = frames.whole() {
                let mut body = Payload::new();
                frames.body(head, &mut body);
                assert_eq!(body.len() + HEAD_LEN, head.len);
                frames.consume(head.into());
            }
        });
    }
}
