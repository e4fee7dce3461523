//! Memory that one process writes and another reads. All `unsafe` of this crate stands here; every function is safe to
//! call.
#![allow(unsafe_code)]

use crate::pass::Memory;
use crate::ring::{Reader, Writer};
use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The least bytes of a ring.
pub const RING_MIN: usize = 4 << 10;
/// The most bytes of a ring.
pub const RING_MAX: usize = 16 << 20;
/// The bytes before the ring.
const HEAD: usize = 4 << 10;
/// So many bytes are copied by one call. Above a little more, common C libraries leave a copy to `rep movsb`, which some
/// processors (Zen 3 and 4) do at a twelfth of their speed where the target begins shortly behind the source within a page.
const STEP: usize = 2 << 10;
/// How an area begins.
const MAGIC: [u32; 2] = [0xc04e_5a4d, 1];
/// What keeps an area as it is: nobody resizes it, nobody but those who have mapped it already writes it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);
/// What `statfs` says of a file in plain shared memory. Others, of huge pages above all, may fault when they are read.
const TMPFS: i64 = 0x0102_1994;

/// Counters in an area.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Magic = 0,
    Version = 4,
    Written = 64,
    Read = 128,
    ReaderSleeps = 192,
    WriterSleeps = 256,
}

/// How much memory a ring of that many bytes takes.
pub const fn memory_of(ring: usize) -> usize {
    HEAD + ring
}

/// Why the other end's memory is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is no memory file, or cannot be mapped.
    #[error("it cannot be mapped: {0}")]
    Io(#[from] io::Error),
    /// Its owner could pull it away or let others write it.
    #[error("it is not sealed")]
    NotSealed,
    /// No size an area can have, or more than is wanted.
    #[error("it has {0} bytes")]
    Size(i64),
    /// It begins with something else.
    #[error("it does not begin as it should")]
    Magic,
}

/// A mapped file. Its ring is mapped twice, so that no bytes in it are cut in two where it begins again.
#[derive(Debug)]
struct Map {
    start: NonNull<u8>,
    ring: usize,
}

// SAFETY: the mapping belongs to no thread; what it holds is reached by atomic counters, copied as bytes that another
// process may write anyway, or borrowed where nobody writes (`Theirs::bytes`).
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: BorrowedFd<'_>, ring: usize, protection: ProtFlags) -> io::Result<Self> {
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

    fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: every word lies in the head, which is mapped for as long as `self` is, at a multiple of its alignment; no
        // process of ours reaches it but by atomics. Stores through it go into areas of our own only.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(word as usize).cast()) }
    }

    /// Where `len` bytes lie in the ring from this position on.
    fn place(&self, at: u32, len: usize) -> *mut u8 {
        assert!(len <= self.ring, "{len} bytes of a ring of {}", self.ring);
        let offset = at as usize & (self.ring - 1);
        // SAFETY: the offset is below the ring's length, and the ring is mapped behind the head, and once more behind itself.
        unsafe { self.start.as_ptr().add(HEAD + offset) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is what was reserved, once; whoever used it held `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), memory_of(self.ring) + self.ring) };
    }
}

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
pub(crate) struct Own(Map);

impl Own {
    pub(crate) fn ring(&self) -> usize {
        self.0.ring
    }

    pub(crate) fn load(&self, word: Word) -> u32 {
        self.0.word(word).load(Ordering::Relaxed)
    }

    /// What was done before is seen by whoever sees this.
    pub(crate) fn store(&self, word: Word, value: u32) {
        self.0.word(word).store(value, Ordering::Release);
    }

    /// The counter itself, for those who wait for its change.
    pub(crate) fn counter(&self, word: Word) -> &AtomicU32 {
        self.0.word(word)
    }

    /// Copies into the ring.
    pub(crate) fn put(&self, at: u32, bytes: &[u8]) {
        let to = self.0.place(at, bytes.len());
        // SAFETY: `place` gave room for them; memory of a ring of our own is never borrowed as a slice, so it overlaps no
        // slice. The other process reads no byte that was not told it is written.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) }
    }
}

/// The other end's area: we only read it, and what we read may change.
#[derive(Debug)]
pub(crate) struct Theirs {
    map: Map,
    is_trusted: bool,
}

impl Theirs {
    pub(crate) fn ring(&self) -> usize {
        self.map.ring
    }

    /// Whatever stands there now; what its owner did before is seen from here on.
    pub(crate) fn load(&self, word: Word) -> u32 {
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
        // writes only where it was told that all is read ([`crate::Writer::write`]). Nobody but the file's maker can write
        // it, by its seals. A maker that breaks its own rule could write the memory of this whole process all the same,
        // for it is a process of the same user, or root's ([`crate::receive`]); from anybody else nothing is borrowed.
        Some(unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// The counter itself, to wait for its change.
    pub(crate) fn counter(&self, word: Word) -> &AtomicU32 {
        self.map.word(word)
    }
}

/// An area of our own, to be given to the other end.
#[derive(Debug)]
pub struct Offer {
    own: Own,
    file: OwnedFd,
}

impl Offer {
    /// Makes an area with a ring of that many bytes, rounded up to a power of two from [`RING_MIN`] to [`RING_MAX`]. Its
    /// memory is taken as it is written.
    ///
    /// # Errors
    /// What the kernel says: no descriptors, no memory, or it is older than Linux 5.1.
    pub fn new(ring: usize) -> io::Result<Self> {
        let ring = ring.clamp(RING_MIN, RING_MAX).next_power_of_two();
        let file = fs::memfd_create(c"consort", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&file, memory_of(ring) as u64)?;
        let map = Map::new(file.as_fd(), ring, ProtFlags::READ | ProtFlags::WRITE)?;
        for (word, value) in [Word::Magic, Word::Version].into_iter().zip(MAGIC) {
            map.word(word).store(value, Ordering::Relaxed);
        }
        fs::fcntl_add_seals(&file, SEALS)?;
        Ok(Self { own: Own(map), file })
    }

    /// What the other end is to be given.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes the other end's area, with a ring of at most that many bytes: from here on bytes can be written and read.
    ///
    /// # Errors
    /// [`Unfit`] where the file is no area.
    pub fn accept(self, theirs: impl Into<Memory>, most: usize) -> Result<(Writer, Reader), Unfit> {
        let Memory { file, is_trusted } = theirs.into();
        let ring = check(file.as_fd(), most)?;
        let map = Map::new(file.as_fd(), ring, ProtFlags::READ)?;
        let said = [Word::Magic, Word::Version].map(|word| map.word(word).load(Ordering::Acquire));
        if said != MAGIC {
            return Err(Unfit::Magic);
        }
        let (own, theirs) = (Arc::new(self.own), Arc::new(Theirs { map, is_trusted }));
        Ok((Writer::new(Arc::clone(&own), Arc::clone(&theirs)), Reader::new(own, theirs)))
    }
}

/// The length of the ring in a file, if it is an area that stays as it is.
fn check(file: BorrowedFd<'_>, most: usize) -> Result<usize, Unfit> {
    if !fs::fcntl_get_seals(file).map_err(io::Error::from)?.contains(SEALS) {
        return Err(Unfit::NotSealed);
    }
    if fs::fstatfs(file).map_err(io::Error::from)?.f_type as i64 != TMPFS {
        return Err(Unfit::Io(io::ErrorKind::Unsupported.into()));
    }
    let size = fs::fstat(file).map_err(io::Error::from)?.st_size;
    let ring = usize::try_from(size).unwrap_or(0).saturating_sub(HEAD);
    let fits = ring.is_power_of_two() && (RING_MIN..=most.min(RING_MAX)).contains(&ring);
    if fits { Ok(ring) } else { Err(Unfit::Size(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of that many bytes with these seals.
    fn file(len: usize, seals: SealFlags, flags: MemfdFlags) -> OwnedFd {
        let file = fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING | flags).unwrap();
        fs::ftruncate(&file, len as u64).unwrap();
        fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    fn refused(file: OwnedFd) -> Unfit {
        Offer::new(RING_MIN).unwrap().accept(file, RING_MAX).unwrap_err()
    }

    #[test]
    fn only_the_maker_writes_an_area_and_nobody_resizes_it() {
        let offer = Offer::new(RING_MIN + 1).unwrap();
        assert_eq!(offer.own.ring(), 2 * RING_MIN);
        let all = ProtFlags::READ | ProtFlags::WRITE;
        assert!(Map::new(offer.file(), 2 * RING_MIN, all).is_err());
        assert!(fs::ftruncate(offer.file(), 0).is_err() && fs::ftruncate(offer.file(), 1 << 20).is_err());
        assert!(rustix::io::pwrite(offer.file(), b"x", 0).is_err());
        let hole = fs::FallocateFlags::PUNCH_HOLE | fs::FallocateFlags::KEEP_SIZE;
        assert!(fs::fallocate(offer.file(), hole, 0, HEAD as u64).is_err());
    }

    #[test]
    fn what_could_be_pulled_away_or_is_no_area_is_refused() {
        let none = MemfdFlags::empty();
        let plain = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        assert!(matches!(refused(plain), Unfit::Io(_) | Unfit::NotSealed));
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(refused(socket.into()), Unfit::Io(_)));
        for missing in SEALS.iter() {
            let file = file(memory_of(RING_MIN), SEALS.difference(missing), none);
            assert!(matches!(refused(file), Unfit::NotSealed), "{missing:?}");
        }
        for len in [0, 1, HEAD, HEAD + RING_MIN - 1, HEAD + RING_MIN / 2, HEAD + 3 * RING_MIN, HEAD + 2 * RING_MAX] {
            assert!(matches!(refused(file(len, SEALS, none)), Unfit::Size(_)), "{len}");
        }
        assert!(matches!(refused(file(memory_of(RING_MIN), SEALS, none)), Unfit::Magic));
        let large = Offer::new(2 * RING_MIN).unwrap().file;
        assert!(matches!(Offer::new(RING_MIN).unwrap().accept(large, RING_MIN), Err(Unfit::Size(_))));
    }

    #[test]
    fn huge_pages_are_refused() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let Ok(file) = fs::memfd_create(c"test", flags) else { return };
        if fs::fcntl_add_seals(&file, SEALS).is_ok() {
            assert!(matches!(refused(file), Unfit::Io(_)));
        }
    }
}
