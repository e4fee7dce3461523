//! A memory file in the memory of this process.
#![allow(unsafe_code)]

use crate::counter::CounterOffset;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::thread::futex;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The bytes before the ring.
pub(crate) const HEAD: usize = 4 << 10;

/// How much memory a ring of that many bytes takes.
pub const fn memory_of(ring: usize) -> usize {
    HEAD + ring
}

/// A mapped file. Its ring is mapped twice, so that no bytes in it are cut in two where it begins again.
#[derive(Debug)]
pub(crate) struct Map {
    start: NonNull<u8>,
    pub(crate) ring: usize,
}

// SAFETY: the mapping belongs to no thread; what it holds is reached by atomic counters, copied as bytes that another
// process may write anyway, or borrowed where nobody writes (`Theirs::bytes`).
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(crate) fn new(file: BorrowedFd<'_>, ring: usize, protection: ProtFlags) -> io::Result<Self> {
        let (len, nowhere) = (memory_of(ring), || io::Error::other("mapped nowhere"));
        // SAFETY: the kernel chooses where; nothing of ours is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), len + ring, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let map = Self { start: NonNull::new(start.cast()).ok_or_else(nowhere)?, ring };
        let fixed = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: this replaces what was reserved just now, which nobody else knows of: its front by the whole file, and what
        // is left by the ring alone.
        unsafe {
            mmap(start, len, protection, fixed, file, 0)?;
            mmap(start.byte_add(len), ring, protection, fixed, file, HEAD as u64)?;
        }
        Ok(map)
    }

    pub(crate) fn word(&self, word: CounterOffset) -> &AtomicU32 {
        // SAFETY: every word lies in the head, which is mapped for as long as `self` is, at a multiple of its alignment; no
        // process of ours reaches it but by atomics. Stores through it go into areas of our own only.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(word as usize).cast()) }
    }

    /// Where `len` bytes lie in the ring from this position on, to be read.
    pub(crate) fn place(&self, at: u32, len: usize) -> *const u8 {
        self.place_mut(at, len)
    }

    /// The same, to be written: in areas of our own only.
    pub(crate) fn place_mut(&self, at: u32, len: usize) -> *mut u8 {
        assert!(len <= self.ring, "{len} bytes of a ring of {}", self.ring);
        let offset = at as usize & (self.ring - 1);
        // SAFETY: the offset is below the ring's length, and the ring is mapped behind the head, and once more behind itself.
        unsafe { self.start.as_ptr().add(HEAD + offset) }
    }

    /// Sleeps until this word is no longer `seen` and somebody calls [`Self::wake`] for it, at most that long. May return
    /// sooner.
    pub(crate) fn wait(&self, word: CounterOffset, seen: u32, within: Duration) {
        let within = futex::Timespec::try_from(within).ok();
        let _ = futex::wait(self.word(word), futex::Flags::empty(), seen, within.as_ref());
    }

    /// Wakes all who wait for this word.
    pub(crate) fn wake(&self, word: CounterOffset) {
        // Fails for nothing but an address that is none.
        let _ = futex::wake(self.word(word), futex::Flags::empty(), u32::MAX >> 1);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is what was reserved, once; whoever used it held `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), memory_of(self.ring) + self.ring) };
    }
}
