//! What one client is to read.
use bytes::{Bytes, BytesMut};
use consort_wire::append;
use std::collections::VecDeque;
use std::ops::Range;

/// A piece takes no frames that make it longer than this, in bytes, unless it is the first; what is written is given back
/// by the piece.
const PIECE: usize = 256 << 10;
/// Frames of fewer bytes are copied even where they could be shared.
pub const SHARED: usize = 1 << 10;
/// What a shared piece costs beside its bytes.
const EACH: usize = 64;

/// So many slices at most stand in an output without being copied into it.
const INLAID_MAX: usize = 255;
/// The most pieces that an output is in while its client reads as fast as it is told.
pub const OUTPUT_PIECES: usize = 2 * INLAID_MAX + 1;

/// Frames in their order, in pieces of whole frames: those that are told to many clients are shared by all of them.
///
/// While a client reads as fast as it is told, large slices of messages are not copied either: they are *inlaid* where
/// they stand in the frames. Once something has to wait for the client all is copied, so that who reads slowly keeps no
/// packets from being forgotten.
#[derive(Debug, Default)]
pub struct FrameQueue {
    /// Those before the last, in order.
    pieces: VecDeque<FrameBlock>,
    /// The last, to which frames are appended.
    last: BytesMut,
    /// So much of the first is written.
    at: usize,
    /// The bytes of `pieces`, written or not.
    in_pieces: usize,
    /// What `pieces` cost.
    charged: usize,
    spare: BytesMut,
    /// Slices that stand within `last`, in order; only as long as there are no `pieces` and nothing is written.
    inlaid: VecDeque<Inlay>,
    /// Their bytes.
    inlaid_len: usize,
    /// Something was left when the client had read what it could.
    behind: bool,
    announced: bool,
}

#[derive(Debug)]
struct FrameBlock {
    bytes: Bytes,
    charge: usize,
}

#[derive(Debug)]
struct Inlay {
    /// Before which byte of `last` it stands.
    at: usize,
    bytes: Bytes,
}

impl FrameQueue {
    /// Where whole frames of about `len` bytes are appended by one call.
    pub fn put(&mut self, len: usize) -> &mut BytesMut {
        if !self.last.is_empty() && self.last.len() + len > PIECE {
            self.close();
            if self.last.capacity() == 0 {
                self.last.reserve(PIECE.max(len));
            }
        }
        if self.is_copied() {
            self.last.reserve(len);
        }
        &mut self.last
    }

    /// Appends a slice of the frame that [`Self::put`] began, without copying it where that is worth it and the client keeps
    /// up.
    pub fn inlay(&mut self, slice: &Bytes, range: Range<usize>) {
        let small = range.len() < SHARED || self.inlaid.len() == INLAID_MAX;
        if small || self.is_copied() || self.last.is_empty() {
            append(&mut self.last, &slice[range]);
            return;
        }
        self.inlaid_len += range.len();
        self.inlaid.push_back(Inlay { at: self.last.len(), bytes: slice.slice(range) });
    }

    /// Appends whole frames that others read, too, without copying them if they are worth it: a
    /// [`Pool`](crate::Pool) counts them.
    pub fn share(&mut self, frames: &Bytes) {
        if frames.len() < SHARED {
            append(self.put(frames.len()), frames);
            return;
        }
        self.close();
        self.push(frames.clone(), EACH);
    }

    /// What is to be written next, in one piece; there may be more behind it.
    pub fn front(&self) -> &[u8] {
        match self.inlaid.front() {
            Some(inlay) => &self.last[..inlay.at],
            None => &self.first()[self.at..],
        }
    }

    /// All that is to be written, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let later = self.pieces.iter().skip(1).map(|piece| &piece.bytes[..]);
        let last = (!self.pieces.is_empty()).then_some(&self.last[..]);
        std::iter::once(self.front()).chain(later).chain(last).chain(self.inlaid_pieces())
    }

    /// Inlaid slices, each with what stands behind it.
    fn inlaid_pieces(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.inlaid.iter().skip(1).map(|next| next.at).chain([self.last.len()]);
        let pieces =
            self.inlaid.iter().zip(ends).flat_map(|(inlay, end)| [&inlay.bytes[..], &self.last[inlay.at..end]]);
        pieces.filter(|piece| !piece.is_empty())
    }

    /// How many bytes are to be written.
    pub fn len(&self) -> usize {
        self.in_pieces + self.last.len() + self.inlaid_len - self.at
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of memory this takes, but for those that a [`Pool`](crate::Pool) counts.
    pub fn charge(&self) -> usize {
        self.charged + self.last.len() + self.inlaid_len
    }

    /// Whether there is something to write that nobody was told of yet. Says so once until all is written.
    pub fn wakes(&mut self) -> bool {
        let wakes = !self.announced && !self.is_empty();
        self.announced |= wakes;
        wakes
    }

    /// The first `n` bytes are written, and no more can be for now; more than there are is all of them.
    pub fn written(&mut self, n: usize) {
        self.behind = n < self.len();
        if self.behind {
            self.settle();
        } else {
            self.forget_inlaid();
        }
        let mut n = n;
        while let Some(first) = self.pieces.front() {
            let left = first.bytes.len() - self.at;
            if n < left {
                self.at += n;
                return;
            }
            n -= left;
            self.drop_first();
        }
        self.at = self.last.len().min(self.at.saturating_add(n));
        if self.at == self.last.len() {
            self.rest();
        }
    }

    /// Forgets all frames of which nothing is written yet. `len_of` says how long the frame is with which bytes begin.
    pub fn cut(&mut self, len_of: impl Fn(&[u8]) -> usize) {
        self.settle();
        let first = self.first();
        let mut end = 0;
        while end < self.at {
            end += len_of(&first[end..]).max(1);
        }
        if let Some(mut first) = std::mem::take(&mut self.pieces).pop_front() {
            (self.in_pieces, self.charged) = (0, 0);
            self.last.clear();
            first.bytes.truncate(end);
            self.push(first.bytes, first.charge);
        } else {
            self.last.truncate(end);
        }
        self.written(0);
    }

    /// Whether nothing that is appended now stays where it lies.
    fn is_copied(&self) -> bool {
        self.behind || !self.pieces.is_empty()
    }

    fn first(&self) -> &[u8] {
        self.pieces.front().map_or(&self.last, |piece| &piece.bytes)
    }

    fn push(&mut self, bytes: Bytes, charge: usize) {
        self.in_pieces += bytes.len();
        self.charged += charge;
        self.pieces.push_back(FrameBlock { bytes, charge });
    }

    /// Copies what is inlaid to where it stands.
    fn settle(&mut self) {
        if self.inlaid.is_empty() {
            return;
        }
        let mut whole = std::mem::take(&mut self.spare);
        whole.reserve(self.len());
        self.pieces().for_each(|piece| append(&mut whole, piece));
        let own = std::mem::replace(&mut self.last, whole);
        self.forget_inlaid();
        if own.capacity() < 2 * PIECE {
            self.spare = own;
            self.spare.clear();
        }
    }

    fn forget_inlaid(&mut self) {
        self.inlaid.clear();
        self.inlaid_len = 0;
    }

    /// Begins another piece.
    fn close(&mut self) {
        self.settle();
        if !self.last.is_empty() {
            // A few words between shared frames keep no whole piece.
            let full = match self.last.len() < self.last.capacity() / 2 {
                true => self.last.split(),
                false => std::mem::replace(&mut self.last, std::mem::take(&mut self.spare)),
            };
            let full = full.freeze();
            let charge = full.len();
            self.push(full, charge);
        }
    }

    /// The first piece is written; its memory is used for another.
    fn drop_first(&mut self) {
        self.at = 0;
        let Some(FrameBlock { bytes, charge }) = self.pieces.pop_front() else { return };
        self.in_pieces -= bytes.len();
        self.charged -= charge;
        if let Ok(mut own) = bytes.try_into_mut()
            && (PIECE..2 * PIECE).contains(&own.capacity())
        {
            own.clear();
            self.spare = own;
        }
    }

    /// All is written: only buffers of common size are kept.
    fn rest(&mut self) {
        (self.at, self.announced) = (0, false);
        self.last.clear();
        if self.last.capacity() >= 2 * PIECE {
            self.last = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    /// All that is still to be written.
    fn rest_of(output: &mut FrameQueue) -> Vec<u8> {
        let mut all = Vec::new();
        while !output.is_empty() {
            let front = output.front().to_vec();
            output.written(front.len());
            all.extend(front);
        }
        all
    }

    #[test]
    fn it_wakes_once_until_it_is_empty() {
        let mut output = FrameQueue::default();
        assert!(!output.wakes());
        output.put(3).extend_from_slice(b"abc");
        assert!(output.wakes() && !output.wakes());
        output.written(2);
        output.put(3).extend_from_slice(b"de");
        assert!(!output.wakes());
        assert_eq!(output.front(), b"cde");
        output.written(99);
        assert!(output.is_empty() && !output.wakes());
        output.put(3).extend_from_slice(b"f");
        assert!(output.wakes());
    }

    #[test]
    fn steady_traffic_needs_no_more_room_and_a_burst_is_given_back() {
        let mut output = FrameQueue::default();
        for round in 0..20_000 {
            output.put(100).extend_from_slice(&[7; 100]);
            if round % 10 != 0 {
                output.written(120);
            }
            assert!(output.last.capacity() + output.in_pieces <= 3 * PIECE);
        }
        output.put(0).resize(10 * PIECE, 0);
        output.written(usize::MAX);
        assert_eq!((output.last.capacity(), output.charge()), (0, 0));
    }

    #[test]
    fn a_stream_that_never_runs_dry_uses_its_pieces_again() {
        let mut output = FrameQueue::default();
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100_000 {
            output.put(1000).extend_from_slice(&[7; 1000]);
            if output.len() > 2 * PIECE {
                output.written(PIECE);
            }
            places.extend((output.last.len() == 1000).then(|| output.last.as_ptr() as usize));
        }
        assert!(places.len() <= 6, "{}", places.len());
    }

    #[test]
    fn whatever_is_appended_shared_and_written_comes_out_in_order() {
        let mut rng = Rng::new(7);
        for _ in 0..50 {
            let (mut output, mut put, mut got) = (FrameQueue::default(), Vec::new(), Vec::new());
            for byte in 0..200u8 {
                let frame = Bytes::from(vec![byte; rng.below(20_000) as usize]);
                put.extend_from_slice(&frame);
                match rng.below(4) {
                    0 => output.share(&frame),
                    1 => inlay(&mut output, &frame),
                    _ => output.put(frame.len()).extend_from_slice(&frame),
                }
                let n = (rng.below(60_000) as usize).min(output.len());
                got.extend(output.pieces().flatten().take(n));
                output.written(n);
                assert_eq!(output.len(), put.len() - got.len());
                assert!(output.pieces().flatten().eq(&put[got.len()..]));
            }
            got.extend(rest_of(&mut output));
            assert!(got == put);
            assert_eq!(output.charge(), 0);
        }
    }

    /// A frame of which all but the first byte may be inlaid, in two slices.
    fn inlay(output: &mut FrameQueue, frame: &Bytes) {
        let Some(first) = frame.first() else { return };
        output.put(frame.len()).extend_from_slice(&[*first]);
        output.inlay(frame, 1..frame.len() / 2);
        output.inlay(frame, (frame.len() / 2).max(1)..frame.len());
    }

    #[test]
    fn who_keeps_up_is_given_large_slices_where_they_lie() {
        let frame = Bytes::from(vec![7; 10_000]);
        let mut output = FrameQueue::default();
        for _ in 0..3 {
            inlay(&mut output, &frame);
            inlay(&mut output, &frame.slice(..100));
        }
        let lying: Vec<_> = output.pieces().filter(|piece| frame.as_ptr_range().contains(&piece.as_ptr())).collect();
        assert_eq!(lying.iter().map(|piece| piece.len()).sum::<usize>(), 3 * 9_999);
        assert_eq!((output.len(), output.charge(), output.last.len()), (30_300, 30_300, 303));
        output.written(30_300);
        assert!(output.is_empty() && output.charge() == 0 && frame.is_unique());
    }

    #[test]
    fn who_is_behind_keeps_no_slice() {
        let frame = Bytes::from(vec![7; 10_000]);
        let mut output = FrameQueue::default();
        inlay(&mut output, &frame);
        output.written(0);
        assert!(frame.is_unique() && output.len() == 10_000);
        inlay(&mut output, &frame);
        assert!(frame.is_unique(), "it is behind still");
        output.written(20_000);
        inlay(&mut output, &frame);
        assert!(!frame.is_unique(), "it has caught up");
        output.cut(|_| 10_000);
        assert!(frame.is_unique() && output.is_empty());
    }

    /// A message of that many bytes, as it comes in packets.
    fn message(output: &mut FrameQueue, len: usize) {
        let slice = Bytes::from(vec![7; 1350]);
        output.put(len).extend_from_slice(b"head");
        (0..len / 1350).for_each(|_| output.inlay(&slice, 0..1350));
    }

    #[test]
    fn what_a_large_message_took_is_given_back_once_it_is_read() {
        let mut output = FrameQueue::default();
        message(&mut output, 9 << 20);
        output.written(1);
        output.written(usize::MAX);
        let kept = output.last.capacity() + output.spare.capacity();
        assert!(output.is_empty() && kept < 4 * PIECE, "{kept} bytes are kept");
    }

    #[test]
    fn large_messages_for_who_is_behind_take_about_what_they_cost() {
        let mut output = FrameQueue::default();
        output.share(&Bytes::from(vec![7; SHARED]));
        output.written(0);
        for _ in 0..3 {
            message(&mut output, 9 << 20);
            let (kept, charged) = (output.last.capacity() + output.spare.capacity(), output.last.len());
            assert!(kept < charged + 3 * PIECE, "{kept} bytes for {charged}");
        }
    }

    #[test]
    fn no_more_is_inlaid_than_one_write_takes() {
        let frame = Bytes::from(vec![7; 2 * SHARED + 2]);
        let mut output = FrameQueue::default();
        (0..200).for_each(|_| inlay(&mut output, &frame));
        let (pieces, bytes) = output.pieces().fold((0, 0), |(n, len), piece| (n + 1, len + piece.len()));
        assert!((INLAID_MAX..=OUTPUT_PIECES).contains(&pieces), "{pieces}");
        assert_eq!((bytes, output.len()), (200 * frame.len(), bytes));
    }

    #[test]
    fn what_many_read_is_kept_once() {
        let frame = Bytes::from(vec![7; 30_000]);
        let mut outputs: Vec<_> = std::iter::repeat_with(FrameQueue::default).take(100).collect();
        outputs.iter_mut().for_each(|output| output.share(&frame));
        assert!(outputs.iter().all(|output| output.front().as_ptr() == frame.as_ptr()));
        assert_eq!(outputs.iter().map(FrameQueue::charge).sum::<usize>(), 100 * EACH);
        let mut small = FrameQueue::default();
        small.share(&frame.slice(..SHARED - 1));
        assert_eq!((small.pieces.len(), small.charge()), (0, SHARED - 1));
    }

    /// A frame whose first byte is its length in hundreds.
    fn frame(hundreds: u8) -> Vec<u8> {
        vec![hundreds; usize::from(hundreds) * 100]
    }

    #[test]
    fn a_cut_leaves_only_the_frame_that_is_begun() {
        let len_of = |bytes: &[u8]| usize::from(bytes[0]) * 100;
        for (written, left) in
            [(0, 0), (1, 99), (99, 1), (100, 0), (250, 50), (300, 0), (2300, 0), (2301, 1_499), (3800, 0)]
        {
            for how in 0..3 {
                let mut output = FrameQueue::default();
                for hundreds in [1, 2, 20, 15, 3] {
                    match how {
                        0 => output.share(&frame(hundreds).into()),
                        1 => inlay(&mut output, &frame(hundreds).into()),
                        _ => output.put(0).extend_from_slice(&frame(hundreds)),
                    }
                }
                output.wakes();
                output.written(written);
                output.cut(len_of);
                assert_eq!(output.len(), left, "{written}");
                output.put(3).extend_from_slice(b"bye");
                assert_eq!(output.wakes(), left == 0);
                assert!(rest_of(&mut output).ends_with(b"bye"));
            }
        }
    }
}
