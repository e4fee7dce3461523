//! Memory that one process writes and another reads. All `unsafe` of this crate is here, in `map` and in
//! `process`; every function is safe to call.
#![allow(unsafe_code)]

use crate::counter::CounterOffset;
use crate::map::Map;
use crate::sync::Ordering;
use std::time::Duration;

/// So many bytes are copied by one call. Above a little more, common C libraries leave a copy to `rep movsb`, which some
/// processors (Zen 3 and 4) do at a twelfth of their speed where the target begins shortly behind the source within a page.
const STEP: usize = 2 << 10;

/// Copies in steps of [`STEP`].
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..len).step_by(STEP) {
        // SAFETY: the step lies in what the caller vouches for.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), STEP.min(len - at)) };
    }
}

/// An area of our own: we alone write it.
#[derive(Debug)]
pub(crate) struct OwnArea(pub(crate) Map);

impl OwnArea {
    pub(crate) fn ring(&self) -> usize {
        self.0.ring
    }

    pub(crate) fn load(&self, word: CounterOffset) -> u32 {
        self.0.word(word).load(Ordering::Relaxed)
    }

    /// What was done before is seen by whoever sees this.
    pub(crate) fn store(&self, word: CounterOffset, value: u32) {
        self.0.word(word).store(value, Ordering::Release);
    }

    /// Wakes those who wait for this counter.
    pub(crate) fn wake(&self, word: CounterOffset) {
        self.0.wake(word);
    }

    /// Copies into the ring.
    pub(crate) fn put(&self, at: u32, bytes: &[u8]) {
        let to = self.0.place_mut(at, bytes.len());
        // SAFETY: `place` gave room for them; memory of a ring of our own is never borrowed as a slice, so it overlaps no
        // slice. The other process reads no byte that was not told it is written.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) }
    }
}

/// The other end's area: we only read it, and what we read may change.
#[derive(Debug)]
pub(crate) struct Theirs {
    pub(crate) map: Map,
    pub(crate) is_trusted: bool,
}

impl Theirs {
    pub(crate) fn ring(&self) -> usize {
        self.map.ring
    }

    /// Whatever stands there now; what its owner did before is seen from here on.
    pub(crate) fn load(&self, word: CounterOffset) -> u32 {
        self.map.word(word).load(Ordering::Acquire)
    }

    /// Copies out of the ring.
    pub(crate) fn get(&self, at: u32, into: &mut [u8]) {
        let from = self.map.place(at, into.len());
        // SAFETY: `place` gave these bytes; the mapping cannot be written, so it overlaps no slice that can. Its owner may
        // write these bytes meanwhile: they mean nothing until they are copied, and any bytes are bytes.
        unsafe { copy(from, into.as_mut_ptr(), into.len()) }
    }

    /// Bytes of the ring where they lie, if they are the memory of somebody who may be trusted with ours. To be called by
    /// a reader for bytes that it was told are written, and has not yet told that it has read.
    pub(crate) fn bytes(&self, at: u32, len: usize) -> Option<&[u8]> {
        if !self.is_trusted {
            return None;
        }
        let from = self.map.place(at, len);
        // SAFETY: `place` gave these bytes, mapped for as long as `self` is. Nobody writes them while the slice lives: it
        // borrows the reader, which tells that it has read them only when nobody borrows it any more, and a writer
        // writes only where it was told that all is read ([`crate::RingWriter::write`]). Nobody but the file's maker can write
        // it, by its seals. A maker that breaks its own rule could write the memory of this whole process all the same,
        // for it is a process of the same user, or root's ([`crate::receive`]); from anybody else nothing is borrowed.
        Some(unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// Sleeps as long as this counter is `seen`, at most that long.
    pub(crate) fn wait(&self, word: CounterOffset, seen: u32, within: Duration) {
        self.map.wait(word, seen, within);
    }
}
