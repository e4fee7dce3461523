//! How a running loop is told to end.
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

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
        assert!(!stop.take());
        let other = stop.clone();
        std::thread::spawn(move || (0..50).for_each(|_| other.set())).join().unwrap();
        assert!(stop.take());
        assert!(!stop.take());
    }
}
