//! A client that outlives its connections: every send is ordered once, or its fate is told.
#[cfg(feature = "tokio")]
mod async_halves;
#[cfg(feature = "tokio")]
mod asynchronous;
mod connection;
mod event;
mod event_queue;
mod machine;
mod options;
mod pending;
mod reading;
mod roaming;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub use self::async_halves::{AsyncSessionReceiver, AsyncSessionSender};
#[cfg(feature = "tokio")]
pub use self::asynchronous::AsyncSession;
use self::connection::Broken;
pub use self::event::{Fate, SessionEvent};
pub(crate) use self::machine::targets;
use self::machine::{BACKOFF_MAX, SessionMachine};
pub use self::options::SessionOptions;
use self::roaming::Roaming;
use crate::stream::{time_left, until};
use crate::{Address, Addressee, Bookmark, Bytes, Client, Error, GroupName, ReadFrom, Service, ViewPlace, Welcome};
use consort_session::ProducerId;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

/// A session over several daemons: when one is lost it goes on at the next.
///
/// *Sends* have exactly one fate each, told as [`SessionEvent::Sent`]: a send whose fate is not known when a connection
/// is lost is asked about, not repeated. *Groups* are joined again. A *reading* ([`Self::read`]) goes on where it was: each
/// message once, in the order; what cannot be told is told as [`SessionEvent::Gap`] or [`SessionEvent::Parted`].
///
/// It needs a policy that says which part of a parted network goes on: `primary = "majority"`, or `protocol = "paxos"`.
/// In another part sends wait.
///
/// ```no_run
/// use consort::{GroupName, Service, Session, SessionEvent, SessionOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let daemons = ["10.0.0.1:4840".parse()?, "10.0.0.2:4840".parse()?];
/// let mut session = Session::connect(&daemons, SessionOptions::default())?;
/// let orders = GroupName::new("orders")?;
/// let send = session.send(Service::Agreed, &[orders], b"one dozen")?;
/// while let Some(event) = session.receive(None)? {
///     if matches!(event, SessionEvent::Sent { send: done, .. } if done == send) {
///         break;
///     }
/// }
/// session.finish(None)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    roaming: Roaming<Client>,
}

impl Session {
    /// A session that has yet to connect: whatever waits does, [`Self::receive`] for one.
    ///
    /// # Panics
    /// If there are no addresses, or the operating system has no random bytes.
    pub fn new(addresses: &[Address], options: SessionOptions) -> Self {
        Self { roaming: Roaming::new(SessionMachine::new(addresses, options, Instant::now())) }
    }

    /// Connects to the first daemon that can be reached.
    ///
    /// # Errors
    /// [`Error::Option`]; [`Error::Unreachable`] if none can be for as long as is allowed.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn connect(addresses: &[Address], options: SessionOptions) -> Result<Self, Error> {
        let mut session = Self::new(addresses, options);
        while !session.is_connected() {
            session.pump(Some(BACKOFF_MAX))?;
        }
        Ok(session)
    }

    /// Whose sends these are: with it another session goes on, [`SessionOptions::producer`]. Who knows it may send under
    /// it.
    pub const fn producer(&self) -> ProducerId {
        self.roaming.machine.producer()
    }

    /// Whether there is a connection now.
    pub const fn is_connected(&self) -> bool {
        self.roaming.client.is_some()
    }

    /// What the daemon said when the connection that there is was made; `None` while there is none.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.roaming.client.as_ref().map(Client::welcome)
    }

    /// The descriptor of the connection that there is, for a program that waits with a `poll` of its own: as
    /// [`Client::descriptor`]. Take events with [`Self::receive`] until none is there, and only then wait; not for longer
    /// than a tenth of a second, so that a silent daemon is noticed. Each connection has another.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.roaming.client.as_ref().and_then(Client::descriptor)
    }

    /// How many sends have no fate yet.
    pub fn unsettled(&self) -> usize {
        self.roaming.machine.pending.len()
    }

    /// Sends a message to groups and clients, once; returns the send's number, under which its fate is told. Waits while
    /// too many bytes have no fate, meanwhile keeping what comes in.
    ///
    /// It is collected: a session does nothing between its calls, and what was collected is written by the next call that finds
    /// no event and looks for more, such as [`Self::receive`] with no time at all, until it returns none. Before the session is
    /// dropped call [`Self::settle`] or [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::Targets`] and [`Error::Unread`]: nothing was sent. [`Error::Unreachable`], [`Error::TakenOver`] and
    /// [`Error::NotOpened`] end the session.
    pub fn send<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send_within(service, to, payload, None)
    }

    /// As [`Self::send`], but waits at most so long.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: nothing was sent. Otherwise as [`Self::send`].
    pub fn send_within<T: Addressee>(
        &mut self,
        service: Service,
        to: &[T],
        payload: &[u8],
        within: impl Into<Option<Duration>>,
    ) -> Result<u64, Error> {
        let (targets, deadline) = (targets(to)?, until(within.into()));
        while !self.roaming.machine.has_room(payload.len()) {
            self.pump_until(deadline)?;
        }
        let send = self.roaming.machine.send(service, targets, Bytes::copy_from_slice(payload))?;
        self.roaming.work()?;
        Ok(send)
    }

    /// Joins a group, and joins it again after each loss.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn join(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.join(group, false);
        self.roaming.work()
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.join(group, true);
        self.roaming.work()
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn leave(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.leave(group);
        self.roaming.work()
    }

    /// Reads what groups were sent, from a place on, and goes on with it at the next daemon: nothing twice, nothing left
    /// out, between two [`SessionEvent::Gap`] and [`SessionEvent::Parted`]. As [`Client::read`] otherwise.
    ///
    /// # Errors
    /// [`Error::Groups`]; [`Error`] that ends the session.
    pub fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        self.roaming.machine.read(groups, from.into())?;
        self.roaming.work()
    }

    /// How far the reading has come: behind the last event that was received. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.roaming.machine.bookmark()
    }

    /// The first place that was not read, where positions belong to views: behind the message that was received last. `None`
    /// elsewhere, and before any reading began.
    pub fn place(&self) -> Option<ViewPlace> {
        self.roaming.machine.bookmark()?.view_place()
    }

    /// The next event; `None` if none came in time. Without a time it waits for as long as it takes.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::TakenOver`] and [`Error::NotOpened`], which end the session.
    pub fn receive(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<SessionEvent>, Error> {
        self.roaming.machine.origin.check()?;
        let deadline = until(within.into());
        let mut last = false;
        loop {
            if let Some(event) = self.roaming.machine.next_event() {
                return Ok(Some(event));
            }
            if last {
                return Ok(None);
            }
            let left = time_left(deadline);
            last = left.is_some_and(|left| left.is_zero());
            self.pump(left)?;
        }
    }

    /// Waits until every send has its fate, meanwhile keeping what comes in.
    ///
    /// # Errors
    /// [`Error::TimedOut`] where the time was not enough, [`Error::Unread`] where too much came that is to be received
    /// first; otherwise as [`Self::receive`].
    pub fn settle(&mut self, within: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.roaming.machine.origin.check()?;
        let deadline = until(within.into());
        while !self.roaming.machine.pending.is_empty() {
            self.pump_until(deadline)?;
        }
        Ok(())
    }

    /// Waits for the fate of a send, which is not received any more then, meanwhile keeping what comes in. `None` if it was
    /// told before, or there is no such send.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub fn outcome(&mut self, send: u64, within: impl Into<Option<Duration>>) -> Result<Option<Fate>, Error> {
        self.roaming.machine.origin.check()?;
        let deadline = until(within.into());
        loop {
            let fate = self.roaming.machine.take_fate(send);
            if fate.is_some() || !self.roaming.machine.pending.has(send) {
                return Ok(fate);
            }
            self.pump_until(deadline)?;
        }
    }

    /// Waits until every send has its fate and ends the session. The daemons forget its producer. Returns what came
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub fn finish(mut self, within: impl Into<Option<Duration>>) -> Result<Vec<SessionEvent>, Error> {
        self.settle(within)?;
        let Roaming { machine, client } = self.roaming;
        if let Some(mut client) = client {
            if machine.is_open() {
                let _ = client.forget_producer();
            }
            let _ = client.close(Duration::from_secs(1));
        }
        Ok(machine.into_events())
    }

    /// Connects if need be, sends what waits, and takes what comes within this time.
    fn pump(&mut self, within: Option<Duration>) -> Result<(), Error> {
        if let Some((next, address)) = self.roaming.machine.next_attempt()? {
            let wait = next.saturating_duration_since(Instant::now());
            let allowed = within.map_or(wait, |within| wait.min(within));
            thread::sleep(allowed);
            if allowed < wait {
                return Ok(());
            }
            let attempt = Client::connect(address, &self.roaming.machine.options.connect);
            return self.roaming.tried(attempt);
        }
        self.roaming.work()?;
        let Some(client) = &mut self.roaming.client else { return Ok(()) };
        let received = client.receive(within).map_err(Broken::from);
        match self.roaming.heed(received)?.flatten() {
            Some(event) => self.roaming.take_all(event),
            None => Ok(()),
        }
    }

    /// The same for calls that keep what comes in.
    fn pump_until(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let left = time_left(deadline);
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::TimedOut { cause: None });
        }
        self.roaming.machine.may_keep()?;
        self.pump(left)
    }
}

#[allow(clippy::expect_used, reason = "documented: nothing can be done without random bytes")]
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let read = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    assert_eq!(read.expect("the operating system has random bytes"), N, "random bytes");
    bytes
}
