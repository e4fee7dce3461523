//! Message bytes as a rope of shared slices.
use bytes::{Buf, Bytes};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;

type Parts = SmallVec<[Bytes; 2]>;

/// How many lists of slices that are not in use are kept by each thread, and how long such a list may be.
const SPARE: usize = 64;
const SPARE_PARTS: usize = 1 << 10;

thread_local! {
    /// Lists that messages of many slices have left behind: in steady traffic nothing is asked of the allocator.
    static SPARES: RefCell<Vec<Parts>> = const { RefCell::new(Vec::new()) };
}

/// The bytes of one message: one slice where it came in one packet, several where it was cut. Cloning and cutting
/// share; nothing is copied until the bytes leave at an edge.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    parts: Parts,
    len: usize,
}

impl Drop for Payload {
    fn drop(&mut self) {
        if self.parts.spilled() && self.parts.capacity() <= SPARE_PARTS {
            let mut parts = std::mem::take(&mut self.parts);
            parts.clear();
            // A thread that ends keeps nothing.
            let _ = SPARES.try_with(|spares| {
                let mut spares = spares.borrow_mut();
                if spares.len() < SPARE {
                    spares.push(parts);
                }
            });
        }
    }
}

impl Payload {
    /// A message without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a slice. Empty ones leave no trace.
    pub fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        self.len += part.len();
        if self.parts.len() == self.parts.inline_size() && !self.parts.spilled() {
            self.spill();
        }
        self.parts.push(part);
    }

    /// Goes on in a list that another message has left behind, if there is one.
    fn spill(&mut self) {
        if let Ok(Some(mut spare)) = SPARES.try_with(|spares| spares.borrow_mut().pop()) {
            spare.append(&mut self.parts);
            self.parts = spare;
        }
    }

    /// The length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slices, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter()
    }

    /// Cuts off and returns the first `n` bytes, or all if there are fewer.
    pub fn split_to(&mut self, n: usize) -> Self {
        let mut front = Self::new();
        while front.len < n && !self.parts.is_empty() {
            let want = n - front.len;
            if self.parts[0].len() <= want {
                let part = self.parts.remove(0);
                self.len -= part.len();
                front.push(part);
            } else {
                self.len -= want;
                front.push(self.parts[0].split_to(want));
            }
        }
        front
    }

    /// Calls `see` with the slices that make up `len` bytes from `from` on: how a part of a message is copied out
    /// without taking it off.
    pub fn for_each(&self, from: usize, len: usize, mut see: impl FnMut(&[u8])) {
        self.for_each_part(from, len, |part, range| see(&part[range]));
    }

    /// The same with what of which slices it is: how a part of a message is shared.
    pub fn for_each_part(&self, from: usize, len: usize, mut see: impl FnMut(&Bytes, Range<usize>)) {
        let (mut skip, mut left) = (from, len);
        for part in &self.parts {
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let end = part.len().min(skip.saturating_add(left));
            see(part, skip..end);
            left -= end - skip;
            skip = 0;
            if left == 0 {
                return;
            }
        }
    }

    /// Reads from byte `at` on, wherever the slices end.
    pub fn read_from(&self, at: usize) -> RopeReader<'_> {
        let mut reader = RopeReader { parts: &self.parts, at: 0, left: self.len };
        reader.skip(at);
        reader
    }

    /// The bytes in one piece; shared if they are in one piece already, copied else.
    pub fn to_bytes(&self) -> Bytes {
        match &self.parts[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }

    /// The first byte, if there is one.
    pub fn first(&self) -> Option<u8> {
        self.parts.first().map(|part| part.chunk()[0])
    }
}

/// Reads small fields of a rope from the front, and passes over large ones.
#[derive(Clone, Debug)]
pub struct RopeReader<'a> {
    parts: &'a [Bytes],
    /// Where in the first part.
    at: usize,
    left: usize,
}

impl RopeReader<'_> {
    /// How many bytes are left.
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Passes over so many bytes, or over all that are left.
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.left);
        self.left -= n;
        self.at += n;
        while let Some((first, rest)) = self.parts.split_first().filter(|(first, _)| first.len() <= self.at) {
            self.at -= first.len();
            self.parts = rest;
        }
    }

    /// Takes `N` bytes; nothing if there are fewer.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let first = self.parts.first().and_then(|part| part.get(self.at..)?.first_chunk());
        let bytes = match first {
            Some(bytes) => *bytes,
            None if self.left < N => return None,
            None => {
                let mut bytes = [0; N];
                let mut reader = self.clone();
                bytes.iter_mut().for_each(|byte| *byte = reader.first());
                bytes
            }
        };
        self.skip(N);
        Some(bytes)
    }

    /// Takes the byte at the front, of which there is one.
    fn first(&mut self) -> u8 {
        let byte = self.parts.first().and_then(|part| part.get(self.at)).copied().unwrap_or_default();
        self.skip(1);
        byte
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let mut payload = Self::new();
        payload.push(bytes);
        payload
    }
}

impl FromIterator<Bytes> for Payload {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let mut payload = Self::new();
        parts.into_iter().for_each(|part| payload.push(part));
        payload
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.to_bytes() == other.to_bytes()
    }
}

impl Eq for Payload {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope() -> Payload {
        [&b"abc"[..], b"", b"defg", b"h"].into_iter().map(Bytes::from_static).collect()
    }

    #[test]
    fn cutting_anywhere_keeps_every_byte() {
        for n in 0..=9 {
            let mut back = rope();
            let front = back.split_to(n);
            assert_eq!(front.len(), n.min(8));
            assert_eq!([front.to_bytes(), back.to_bytes()].concat(), b"abcdefgh");
            assert_eq!(front.len() + back.len(), 8);
        }
    }

    #[test]
    fn a_message_of_many_slices_takes_the_list_that_another_left_behind() {
        let rope = |n| (0..n).map(|_| Bytes::from_static(b"x")).collect::<Payload>();
        let many = rope(100);
        let (list, room) = (many.parts.as_ptr(), many.parts.capacity());
        drop((many, rope(2 * SPARE_PARTS)));
        let next = rope(3);
        assert_eq!((next.parts.as_ptr(), next.parts.capacity(), next.len()), (list, room, 3));
        assert!(next.parts().all(|part| part == "x"));
        assert_ne!(rope(3).parts.as_ptr(), list, "that one is in use");
    }

    #[test]
    fn fields_are_read_wherever_the_slices_end() {
        for at in 0..=9 {
            let rope = rope();
            let mut reader = rope.read_from(at);
            assert_eq!(reader.left(), 8 - at.min(8));
            let all = &b"abcdefgh"[at.min(8)..];
            assert_eq!(reader.take::<3>().as_ref().map(|bytes| &bytes[..]), all.get(..3));
            reader.skip(1);
            assert_eq!(
                reader.take::<1>().map(|[byte]| byte),
                if all.len() < 3 { all.get(1) } else { all.get(4) }.copied()
            );
        }
    }

    #[test]
    fn a_part_is_copied_out_without_taking_it_off() {
        for from in 0..8 {
            for len in 0..=8 - from {
                let mut seen = Vec::new();
                rope().for_each(from, len, |part| seen.extend_from_slice(part));
                assert_eq!(seen, &b"abcdefgh"[from..from + len]);
            }
        }
    }
}
