//! What `ring` and `area` stand on in the model: atomics of loom, and memory that two of its threads share. Each thread may
//! break one rule on purpose, and the model must notice.
#![allow(clippy::unwrap_used, clippy::arc_with_non_send_sync)] // its threads take turns in one; a panic is a finding

pub(crate) mod sync {
    pub(crate) use loom::sync::atomic::Ordering;
    use std::cell::Cell;

    /// The rule that a thread breaks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Break {
        /// What is stored says nothing of what was done before.
        Release,
        /// What is loaded says nothing of what the other end did before.
        Acquire,
        /// Nothing stands between telling and looking.
        Fence,
        /// Nobody is woken who sleeps by the counter.
        Wake,
    }

    loom::thread_local! {
        static BROKEN: Cell<Option<Break>> = Cell::new(None);
    }

    /// This thread breaks that rule from here on.
    pub(crate) fn break_rule(rule: Option<Break>) {
        BROKEN.with(|broken| broken.set(rule));
    }

    pub(crate) fn is_broken(rule: Break) -> bool {
        BROKEN.with(|broken| broken.get() == Some(rule))
    }

    pub(crate) fn fence(ordering: Ordering) {
        if !is_broken(Break::Fence) {
            loom::sync::atomic::fence(ordering);
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU32(loom::sync::atomic::AtomicU32);

    impl AtomicU32 {
        pub(crate) fn load(&self, ordering: Ordering) -> u32 {
            self.0.load(if is_broken(Break::Acquire) { Ordering::Relaxed } else { ordering })
        }

        pub(crate) fn store(&self, value: u32, ordering: Ordering) {
            self.0.store(value, if is_broken(Break::Release) { Ordering::Relaxed } else { ordering });
        }
    }
}

pub(crate) mod map {
    use super::sync::{AtomicU32, Break, Ordering, is_broken};
    use crate::counter::CounterOffset;
    use loom::cell::UnsafeCell;
    use loom::sync::{Condvar, Mutex};
    use std::sync::Arc;
    use std::time::Duration;

    /// The most bytes that a run of the model writes.
    const MOST: usize = 16;

    /// One area, as both of its ends see it.
    #[derive(Clone, Debug)]
    pub(crate) struct Map {
        memory: Arc<MemoryFile>,
        pub(crate) ring: usize,
    }

    #[derive(Debug)]
    struct MemoryFile {
        words: [AtomicU32; 5],
        /// Who reads and writes which byte of the ring: loom panics where two do at once.
        touched: Vec<UnsafeCell<()>>,
        /// All that is ever written, one behind the other: what would share a byte of the ring shares what is `touched`.
        bytes: std::cell::UnsafeCell<[u8; MOST]>,
        /// The kernel's list of sleepers.
        sleepers: Mutex<()>,
        woken: Condvar,
    }

    impl Map {
        pub(crate) fn new(ring: usize) -> Self {
            let memory = MemoryFile {
                words: Default::default(),
                touched: (0..ring).map(|_| UnsafeCell::new(())).collect(),
                bytes: std::cell::UnsafeCell::new([0; MOST]),
                sleepers: Mutex::new(()),
                woken: Condvar::new(),
            };
            Self { memory: Arc::new(memory), ring }
        }

        pub(crate) fn word(&self, word: CounterOffset) -> &AtomicU32 {
            &self.memory.words[word as usize / 64]
        }

        pub(crate) fn place(&self, at: u32, len: usize) -> *const u8 {
            (0..len).for_each(|i| self.cell(at, i).with(|_| ()));
            self.start(at)
        }

        pub(crate) fn place_mut(&self, at: u32, len: usize) -> *mut u8 {
            (0..len).for_each(|i| self.cell(at, i).with_mut(|_| ()));
            self.start(at)
        }

        fn cell(&self, at: u32, i: usize) -> &UnsafeCell<()> {
            &self.memory.touched[(at as usize + i) % self.ring]
        }

        fn start(&self, at: u32) -> *mut u8 {
            assert!((at as usize) < MOST, "the model's ring never begins again");
            self.memory.bytes.get().cast::<u8>().wrapping_add(at as usize)
        }

        /// As the kernel does: looks at the word and lies down in one step, as seen by whoever wakes.
        pub(crate) fn wait(&self, word: CounterOffset, seen: u32, _: Duration) {
            let sleepers = self.memory.sleepers.lock().unwrap();
            if self.word(word).load(Ordering::Relaxed) == seen {
                drop(self.memory.woken.wait(sleepers).unwrap());
            }
        }

        pub(crate) fn wake(&self, _: CounterOffset) {
            if !is_broken(Break::Wake) {
                let _sleepers = self.memory.sleepers.lock().unwrap();
                self.memory.woken.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests;
