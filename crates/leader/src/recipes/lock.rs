//! A lock: whoever leads the group has it.
use crate::{Error, Fence, Leadership, LeadershipEvent, LeadershipOptions, Lease};
use consort::{Address, GroupName};
use std::time::{Duration, Instant};

/// A lock that all programs share which name its group.
///
/// ```no_run
/// use consort::GroupName;
/// use consort_leader::{LeadershipOptions, Lock};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut lock = Lock::open(&["10.0.0.1:4840".parse()?], &GroupName::new("ledger")?, LeadershipOptions::default())?;
/// let guard = lock.acquire(Duration::from_secs(10))?;
/// if guard.is_held() {
///     println!("write with {}", guard.fence()); // the store refuses smaller fences
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lock {
    leadership: Leadership,
}

/// A lock that is held until this is dropped, or its lease ends.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct LockGuard<'a> {
    leadership: &'a Leadership,
    fence: Fence,
}

impl Lock {
    /// Joins the lock's group; takes nothing yet.
    ///
    /// # Errors
    /// As [`Leadership::join`].
    pub fn open(addresses: &[Address], group: &GroupName, options: LeadershipOptions) -> Result<Self, Error> {
        Ok(Self { leadership: Leadership::join(addresses, group, options.watching())? })
    }

    /// Waits for the lock. A lock that nobody has been seen to hold or to release takes a lease's time: whoever is cut off
    /// may hold it for so long.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and the lock is not wanted any more; [`Error::Gone`] once the session has ended.
    pub fn acquire(&mut self, within: impl Into<Option<Duration>>) -> Result<LockGuard<'_>, Error> {
        let within = within.into();
        let deadline = within.and_then(|within| Instant::now().checked_add(within));
        self.leadership.stand()?;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self.leadership.receive(left)? {
                Some(LeadershipEvent::Elected { fence, .. }) if self.holds(fence) => {
                    return Ok(LockGuard { leadership: &self.leadership, fence });
                }
                Some(LeadershipEvent::Ended(error)) => return Err(error),
                Some(_) => {}
                None => {
                    self.leadership.resign()?;
                    return Err(Error::TimedOut { within: within.unwrap_or_default() });
                }
            }
        }
    }

    fn holds(&self, fence: Fence) -> bool {
        self.leadership.lease().is_some_and(|lease| lease.fence == fence)
    }
}

impl LockGuard<'_> {
    /// Greater than that of whoever had the lock before.
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// Its lease, if it is still held.
    pub fn lease(&self) -> Option<Lease> {
        self.leadership.lease().filter(|lease| lease.fence == self.fence)
    }

    /// Whether it is still held: the lease has not ended by the clock. Ask before each act.
    pub fn is_held(&self) -> bool {
        self.lease().is_some()
    }

    /// Gives the lock back: the next one has it at once.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // Where the session has ended the lease ends by itself.
        let _ = self.leadership.resign();
    }
}
