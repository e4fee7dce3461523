//! One candidate of a group, for a program: a thread holds its session and renews its lease.
use crate::driver::{Driver, Order};
use crate::shared::Shared;
use crate::{Act, CandidateId, Election, Error, Fence, LeadershipEvent, Timing, clock};
use consort::{Address, GroupName, SessionOptions};
use consort_types::Instant;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many events wait for the program at most.
const EVENTS_MAX: usize = 65_536;

/// How a candidate takes part.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LeadershipOptions {
    /// How its session behaves. Views and positions are always asked for, and offers never.
    pub session: SessionOptions,
    /// How long a lease lasts. All candidates of the group must say the same.
    pub timing: Timing,
    /// It only watches who leads, until [`Leadership::stand`].
    pub watches: bool,
}

impl LeadershipOptions {
    /// How long a lease lasts.
    #[must_use]
    pub fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// How its session behaves.
    #[must_use]
    pub fn session(self, session: SessionOptions) -> Self {
        Self { session, ..self }
    }

    /// Only watches.
    #[must_use]
    pub fn watching(self) -> Self {
        Self { watches: true, ..self }
    }
}

/// A lease that was valid when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Under which fence this candidate leads.
    pub fence: Fence,
    /// When it was looked at, in the time of `CLOCK_BOOTTIME`.
    pub read: Instant,
    /// When it ends unless it is renewed.
    pub until: Instant,
}

impl Lease {
    /// How much of it is left.
    pub const fn left(&self) -> Duration {
        self.until.since(self.read)
    }
}

/// A candidate of a group. At most one of them leads at a time.
///
/// ```no_run
/// use consort::GroupName;
/// use consort_leader::{Leadership, LeadershipEvent, LeadershipOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let daemons = ["10.0.0.1:4840".parse()?, "10.0.0.2:4840".parse()?];
/// let leadership = Leadership::join(&daemons, &GroupName::new("primary")?, LeadershipOptions::default())?;
/// while let Some(event) = leadership.receive(None)? {
///     if let LeadershipEvent::Elected { fence, .. } = event {
///         while leadership.is_leader_now() {
///             println!("write with {fence}"); // the store refuses smaller fences
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Leadership {
    candidate: CandidateId,
    shared: Arc<Shared>,
    orders: Sender<Order>,
    events: Receiver<LeadershipEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Leadership {
    /// Joins a group over the first of these daemons that can be reached, and wants to lead it.
    ///
    /// # Errors
    /// [`Error::NoAddresses`]; [`Error::JoinRefused`]; [`Error::Session`] if no daemon can be reached in time, or no policy
    /// says which part of a parted network goes on: `primary = "majority"` in the daemons' configuration.
    ///
    /// # Panics
    /// If the operating system has no random bytes.
    pub fn join(addresses: &[Address], group: &GroupName, options: LeadershipOptions) -> Result<Self, Error> {
        if addresses.is_empty() {
            return Err(Error::NoAddresses);
        }
        let candidate = random_candidate();
        let mut election = Election::new(candidate, options.timing);
        if !options.watches {
            election.stand(clock::now());
        }
        let shared = Arc::new(Shared::default());
        let (orders, taken) = channel();
        let (tell, events) = sync_channel(EVENTS_MAX);
        let mut driver = Driver::connect(addresses, group, options.session, election)?;
        driver.begin()?;
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || driver.run(&taken, &tell, &seen));
        Ok(Self { candidate, shared, orders, events, thread: Some(thread) })
    }

    /// Which candidate this is.
    pub const fn candidate(&self) -> CandidateId {
        self.candidate
    }

    /// Whether it leads now: whether its lease has not ended by the clock. Between this and an act the program may be
    /// stopped for long: let what is acted upon refuse smaller fences.
    pub fn is_leader_now(&self) -> bool {
        self.lease().is_some()
    }

    /// Its lease, if it leads now.
    pub fn lease(&self) -> Option<Lease> {
        let held = self.shared.seen().lease;
        let read = clock::now();
        held.filter(|(_, until)| read < *until).map(|(fence, until)| Lease { fence, read, until })
    }

    /// Who leads, as far as the order has been received.
    pub fn leader(&self) -> Option<(CandidateId, Fence)> {
        self.shared.seen().leader
    }

    /// Wants to lead, from now on.
    ///
    /// # Errors
    /// [`Error::Gone`] once the session has ended.
    pub fn stand(&self) -> Result<(), Error> {
        self.order(Order::Stand)
    }

    /// Leads no more, from this call on, and does not want to. Others need not wait for the lease to end.
    ///
    /// # Errors
    /// [`Error::Gone`] once the session has ended.
    pub fn resign(&self) -> Result<(), Error> {
        let mut seen = self.shared.seen();
        (seen.lease, seen.resigns) = (None, true);
        self.order(Order::Resign)
    }

    /// Tells all members of the group something, in the order, this one too: [`LeadershipEvent::Said`].
    ///
    /// # Errors
    /// [`Error::Gone`] once the session has ended.
    pub fn say(&self, payload: &[u8]) -> Result<(), Error> {
        self.order(Order::Say(Act::Say(payload.to_vec())))
    }

    /// Tells all members something as the leader under this fence. Where a later leader is known it is told nobody.
    ///
    /// # Errors
    /// [`Error::NotLeader`] if it does not lead now under this fence; [`Error::Gone`] once the session has ended.
    pub fn decide(&self, fence: Fence, payload: &[u8]) -> Result<(), Error> {
        if self.lease().is_none_or(|lease| lease.fence != fence) {
            return Err(Error::NotLeader { fence });
        }
        self.order(Order::Say(Act::Decide(fence, payload.to_vec())))
    }

    /// The next event; `None` if none came in time. Without a time it waits for as long as it takes. A program that lets
    /// 65,536 events wait loses its session.
    ///
    /// # Errors
    /// [`Error::Gone`] once the session has ended, and that was told.
    pub fn receive(&self, within: impl Into<Option<Duration>>) -> Result<Option<LeadershipEvent>, Error> {
        match within.into() {
            None => self.events.recv().map(Some).map_err(|_| Error::Gone),
            Some(within) => match self.events.recv_timeout(within) {
                Ok(event) => Ok(Some(event)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(Error::Gone),
            },
        }
    }

    fn order(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| Error::Gone)
    }
}

impl Drop for Leadership {
    /// Resigns, and leaves the group.
    fn drop(&mut self) {
        self.shared.seen().lease = None;
        let _ = self.orders.send(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[allow(clippy::expect_used, reason = "documented: two candidates of one name would both lead")]
fn random_candidate() -> CandidateId {
    let mut bytes = [0; 16];
    let read = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    assert_eq!(read.expect("the operating system has random bytes"), bytes.len(), "random bytes");
    CandidateId(bytes)
}
