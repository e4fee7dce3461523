//! Where a client was made: a child of `fork()` uses none of its parent's.
use crate::Error;
use consort_shm::Process;

/// The process that made a client, for bindings that keep one behind a lock: in a child of `fork()` no thread may be left
/// that releases it.
#[derive(Clone, Copy, Debug)]
pub struct Origin(Process);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        Self(Process::current())
    }

    /// Whether the client may be used in this process. It costs no call of the kernel.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn check(&self) -> Result<(), Error> {
        #[cfg(test)]
        if child::acts_now() {
            return Err(Error::Forked { process: self.0.id() });
        }
        if self.0.is_current() { Ok(()) } else { Err(Error::Forked { process: self.0.id() }) }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::here()
    }
}

/// Tests whose thread says that it is a child of `fork()`.
#[cfg(test)]
pub(crate) mod child {
    use std::cell::Cell;

    thread_local!(static ACTS: Cell<bool> = const { Cell::new(false) });

    /// It is one until this is dropped.
    pub(crate) struct Acting;

    impl Drop for Acting {
        fn drop(&mut self) {
            ACTS.set(false);
        }
    }

    pub(crate) fn acting() -> Acting {
        ACTS.set(true);
        Acting
    }

    pub(crate) fn acts<T>(act: impl FnOnce() -> T) -> T {
        let _acting = acting();
        act()
    }

    pub(super) fn acts_now() -> bool {
        ACTS.get()
    }
}
