//! How a running loop is told to end.
use crate::sys;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Ends a running loop, from another thread. Clones stand for the same stop.
#[derive(Clone, Debug)]
pub struct Stop {
    ends: Arc<Ends>,
}

#[derive(Debug)]
struct Ends {
    told: UnixStream,
    teller: UnixStream,
}

impl Stop {
    /// A stop that nobody has set.
    ///
    /// # Errors
    /// Those of making a pair of sockets: no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (told, teller) = UnixStream::pair()?;
        told.set_nonblocking(true)?;
        teller.set_nonblocking(true)?;
        Ok(Self { ends: Arc::new(Ends { told, teller }) })
    }

    /// Ends the loop; harmless if it has ended.
    pub fn set(&self) {
        let _full_is_set_too = (&self.ends.teller).write(&[1]);
    }

    /// Waits until it is set, but no longer than this; returns whether it is. It stays set.
    pub fn wait(&self, most: Duration) -> bool {
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        sys::wait_readable(self.ends.told.as_fd(), most).unwrap_or(false)
    }

    /// Whether it was set. Remembers until asked, then forgets.
    pub(crate) fn take(&self) -> bool {
        (&self.ends.told).read(&mut [0; 64]).is_ok_and(|n| n > 0)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.ends.told.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_seen_once_however_often_it_was_set() {
        let stop = Stop::new().unwrap();
        assert!(!stop.take() && !stop.wait(Duration::from_millis(1)));
        let other = stop.clone();
        std::thread::spawn(move || (0..50).for_each(|_| other.set())).join().unwrap();
        assert!(stop.wait(Duration::ZERO) && stop.wait(Duration::ZERO), "it stays set");
        assert!(stop.take());
        assert!(!stop.take());
    }
}
