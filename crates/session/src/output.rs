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
    /// What lies on disk, between `pieces` and `last`.
    spool: Option<Box<Spooled>>,
    /// Something was left when the client had read what it could.
    behind: bool,
    announced: bool,
}

/// What of an output is on disk or on its way there, in blocks of whole frames.
#[derive(Debug, Default)]
struct Spooled {
    /// Their lengths, oldest first.
    blocks: VecDeque<usize>,
    /// Their bytes.
    bytes: u64,
    /// The first was asked for.
    asked: bool,
    /// Those that nobody has taken to disk yet.
    to_write: VecDeque<Bytes>,
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
        if frames.len() < SHARED || self.is_spooling() && frames.len() < PIECE {
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
        let last = (!self.pieces.is_empty() && !self.is_spooling()).then_some(&self.last[..]);
        std::iter::once(self.front()).chain(later).chain(last).chain(self.inlaid_pieces())
    }

    /// Inlaid slices, each with what stands behind it.
    fn inlaid_pieces(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.inlaid.iter().skip(1).map(|next| next.at).chain([self.last.len()]);
        let pieces =
            self.inlaid.iter().zip(ends).flat_map(|(inlay, end)| [&inlay.bytes[..], &self.last[inlay.at..end]]);
        pieces.filter(|piece| !piece.is_empty())
    }

    /// How many bytes are to be written, on disk or not.
    pub fn len(&self) -> usize {
        self.in_memory() + usize::try_from(self.spooled()).unwrap_or(usize::MAX)
    }

    /// How many of them are in memory.
    pub fn in_memory(&self) -> usize {
        self.in_pieces + self.last.len() + self.inlaid_len - self.at
    }

    /// How many of them are on disk, or on their way there.
    pub fn spooled(&self) -> u64 {
        self.spool.as_ref().map_or(0, |spool| spool.bytes)
    }

    /// Whether some are on disk.
    pub const fn is_spooling(&self) -> bool {
        self.spool.is_some()
    }

    /// Whether there is something that can be written now: not where it must be read from disk first.
    pub fn is_ready(&self) -> bool {
        if self.is_spooling() { !self.pieces.is_empty() } else { !self.is_empty() }
    }

    /// From here on frames go to disk, behind those that are in memory now, until all is written.
    pub fn begin_spooling(&mut self) {
        if !self.is_spooling() {
            self.close();
            self.spool = Some(Box::default());
        }
    }

    /// The next block for the disk.
    pub fn next_to_spool(&mut self) -> Option<Bytes> {
        self.spool.as_mut()?.to_write.pop_front()
    }

    /// How many bytes are to be read from disk next, if it is time for it; says so once. Where nothing is left there, what
    /// follows is in memory again.
    pub fn next_to_read(&mut self) -> Option<usize> {
        let spool = self.spool.as_mut()?;
        if spool.asked || self.in_pieces - self.at >= PIECE {
            return None;
        }
        let Some(next) = spool.blocks.front() else {
            self.spool = None;
            return None;
        };
        spool.asked = true;
        Some(*next)
    }

    /// What [`Self::next_to_read`] named was read. False if it was not: nothing is left as it was.
    pub fn put_read(&mut self, block: Bytes) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        if !spool.asked || spool.blocks.front() != Some(&block.len()) {
            return false;
        }
        spool.asked = false;
        spool.blocks.pop_front();
        spool.bytes -= block.len() as u64;
        self.keep(block);
        true
    }

    fn keep(&mut self, block: Bytes) {
        let charge = block.len();
        self.in_pieces += charge;
        self.charged += charge;
        self.pieces.push_back(FrameBlock { bytes: block, charge });
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
        let wakes = !self.announced && self.is_ready();
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
        if self.is_spooling() {
            self.announced = false;
            return;
        }
        self.at = self.last.len().min(self.at.saturating_add(n));
        if self.at == self.last.len() {
            self.rest();
        }
    }

    /// Forgets all frames of which nothing is written yet. `len_of` says how long the frame is with which bytes begin.
    pub fn cut(&mut self, len_of: impl Fn(&[u8]) -> usize) {
        self.settle();
        self.spool = None;
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
        self.behind || !self.pieces.is_empty() || self.is_spooling()
    }

    fn first(&self) -> &[u8] {
        match self.pieces.front() {
            Some(piece) => &piece.bytes,
            None if self.is_spooling() => &[],
            None => &self.last,
        }
    }

    fn push(&mut self, bytes: Bytes, charge: usize) {
        if let Some(spool) = &mut self.spool {
            spool.bytes += bytes.len() as u64;
            spool.blocks.push_back(bytes.len());
            spool.to_write.push_back(bytes);
            return;
        }
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
mod tests;
