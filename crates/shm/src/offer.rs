//! Areas as files: made, sealed, given away, and checked before they are taken.
use crate::area::{OwnArea, Theirs};
use crate::counter::CounterOffset;
use crate::map::{HEAD, Map, memory_of};
use crate::pass::MemoryFile;
use crate::ring::{RingReader, RingWriter};
use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::mm::ProtFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The least bytes of a ring.
pub const RING_MIN: usize = 4 << 10;
/// The most bytes of a ring.
pub const RING_MAX: usize = 16 << 20;
/// How an area begins.
const MAGIC: [u32; 2] = [0xc04e_5a4d, 1];
/// What keeps an area as it is: nobody resizes it, nobody but those who have mapped it already writes it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);
/// What `statfs` says of a file in plain shared memory. Others, of huge pages above all, may fault when they are read.
const TMPFS: i64 = 0x0102_1994;

/// Why the other end's memory is not taken.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMemory {
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

/// An area of our own, to be given to the other end.
#[derive(Debug)]
pub struct MemoryOffer {
    own: OwnArea,
    file: OwnedFd,
}

impl MemoryOffer {
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
        for (word, value) in [CounterOffset::Magic, CounterOffset::Version].into_iter().zip(MAGIC) {
            map.word(word).store(value, Ordering::Relaxed);
        }
        fs::fcntl_add_seals(&file, SEALS)?;
        Ok(Self { own: OwnArea(map), file })
    }

    /// What the other end is to be given.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes the other end's area, with a ring of at most that many bytes: from here on bytes can be written and read.
    ///
    /// # Errors
    /// [`InvalidMemory`] where the file is no area.
    pub fn accept(self, theirs: impl Into<MemoryFile>, most: usize) -> Result<(RingWriter, RingReader), InvalidMemory> {
        let MemoryFile { file, is_trusted } = theirs.into();
        let ring = check(file.as_fd(), most)?;
        let map = Map::new(file.as_fd(), ring, ProtFlags::READ)?;
        let said = [CounterOffset::Magic, CounterOffset::Version].map(|word| map.word(word).load(Ordering::Acquire));
        if said != MAGIC {
            return Err(InvalidMemory::Magic);
        }
        let (own, theirs) = (Arc::new(self.own), Arc::new(Theirs { map, is_trusted }));
        Ok((RingWriter::new(Arc::clone(&own), Arc::clone(&theirs)), RingReader::new(own, theirs)))
    }
}

/// The length of the ring in a file, if it is an area that stays as it is.
fn check(file: BorrowedFd<'_>, most: usize) -> Result<usize, InvalidMemory> {
    if !fs::fcntl_get_seals(file).map_err(io::Error::from)?.contains(SEALS) {
        return Err(InvalidMemory::NotSealed);
    }
    if fs::fstatfs(file).map_err(io::Error::from)?.f_type as i64 != TMPFS {
        return Err(InvalidMemory::Io(io::ErrorKind::Unsupported.into()));
    }
    let size = fs::fstat(file).map_err(io::Error::from)?.st_size;
    let ring = usize::try_from(size).unwrap_or(0).saturating_sub(HEAD);
    let fits = ring.is_power_of_two() && (RING_MIN..=most.min(RING_MAX)).contains(&ring);
    if fits { Ok(ring) } else { Err(InvalidMemory::Size(size)) }
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

    fn refused(file: OwnedFd) -> InvalidMemory {
        MemoryOffer::new(RING_MIN).unwrap().accept(file, RING_MAX).unwrap_err()
    }

    #[test]
    fn only_the_maker_writes_an_area_and_nobody_resizes_it() {
        let offer = MemoryOffer::new(RING_MIN + 1).unwrap();
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
        assert!(matches!(refused(plain), InvalidMemory::Io(_) | InvalidMemory::NotSealed));
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(refused(socket.into()), InvalidMemory::Io(_)));
        for missing in SEALS.iter() {
            let file = file(memory_of(RING_MIN), SEALS.difference(missing), none);
            assert!(matches!(refused(file), InvalidMemory::NotSealed), "{missing:?}");
        }
        for len in [0, 1, HEAD, HEAD + RING_MIN - 1, HEAD + RING_MIN / 2, HEAD + 3 * RING_MIN, HEAD + 2 * RING_MAX] {
            assert!(matches!(refused(file(len, SEALS, none)), InvalidMemory::Size(_)), "{len}");
        }
        assert!(matches!(refused(file(memory_of(RING_MIN), SEALS, none)), InvalidMemory::Magic));
        let large = MemoryOffer::new(2 * RING_MIN).unwrap().file;
        assert!(matches!(MemoryOffer::new(RING_MIN).unwrap().accept(large, RING_MIN), Err(InvalidMemory::Size(_))));
    }

    #[test]
    fn huge_pages_are_refused() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let Ok(file) = fs::memfd_create(c"test", flags) else { return };
        if fs::fcntl_add_seals(&file, SEALS).is_ok() {
            assert!(matches!(refused(file), InvalidMemory::Io(_)));
        }
    }
}
