//! In which process something was made. After `fork()` the child learns from its own memory that it is not its parent: the
//! kernel empties one page of it, so a look costs no call of the kernel.
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The length of the page: the kernel takes the whole page for it.
const LEN: usize = 4 << 10;

/// Its word is the number of this process, 0 before it has one.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The last number that this process or one of its ancestors took. A child inherits it, so it never takes one of theirs.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A process, as distinct from those that it was forked from and that are forked from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    id: u32,
    /// `None` where the kernel empties no pages (before Linux 4.14): then the process id decides.
    number: Option<u32>,
}

impl Process {
    /// The one that runs this.
    pub fn current() -> Self {
        Self { id: std::process::id(), number: number() }
    }

    /// Whether it is the one that runs this.
    pub fn is_current(&self) -> bool {
        match self.number {
            Some(own) => number() == Some(own),
            None => self.id == std::process::id(),
        }
    }

    /// Its process id.
    pub const fn id(&self) -> u32 {
        self.id
    }
}

fn number() -> Option<u32> {
    let word = word()?;
    Some(match word.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| next)
        }
        known => known,
    })
}

fn word() -> Option<&'static AtomicU32> {
    let page = PAGE.load(Ordering::Acquire);
    let page = if page.is_null() { map()? } else { page };
    // SAFETY: `map` made it, zeroed and aligned to a page; it is never unmapped, and reached by atomics alone.
    Some(unsafe { &*page })
}

/// Maps the page, unless another thread has.
fn map() -> Option<*mut AtomicU32> {
    // SAFETY: the kernel chooses where; nothing of ours is replaced.
    let page =
        unsafe { mmap_anonymous(null_mut(), LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: this is the mapping of just now, which no one else knows of; it changes nothing in this process.
    let is_emptied = unsafe { madvise(page, LEN, Advice::LinuxWipeOnFork) }.is_ok();
    let none = null_mut();
    let kept = match is_emptied {
        true => PAGE.compare_exchange(none, page.cast(), Ordering::AcqRel, Ordering::Acquire),
        false => Err(none),
    };
    match kept {
        Ok(_) => Some(page.cast()),
        Err(other) => {
            // SAFETY: as above; it was not kept.
            let _ = unsafe { munmap(page, LEN) };
            Some(other).filter(|other| !other.is_null())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_from_every_thread() {
        let looks = || std::array::from_fn::<_, 4, _>(|_| Process::current());
        let found = std::thread::scope(|threads| {
            let threads: Vec<_> = (0..4).map(|_| threads.spawn(looks)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for process in found {
            assert!(process.is_current() && process == Process::current());
            assert_eq!(process.id(), std::process::id());
        }
    }

    #[test]
    fn another_one_is_another_by_its_number_or_else_by_its_id() {
        let own = Process::current();
        let number = own.number.map(|number| number + 1);
        assert!(!number.is_some_and(|_| Process { number, ..own }.is_current()));
        assert!(Process { number: None, ..own }.is_current());
        assert!(!Process { id: own.id + 1, number: None }.is_current());
    }
}
