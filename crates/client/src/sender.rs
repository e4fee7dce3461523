//! The half of a client that sends.
use crate::outbox::{Outgoing, SendBuffer};
use crate::reading;
use crate::stream::{time_left, until};
use crate::transport::TransportWriter;
use crate::{Addressee, Error, GroupName, Progress, ReadFrom, Service, WaitCause};
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// How long one write may take before something else is looked at.
const STEP: Duration = Duration::from_millis(10);
/// How long a sender that is dropped tries to write what it still holds.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Sends joins, leaves and multicasts, which it numbers from 1.
///
/// Sends are collected; call [`Self::flush`] when nothing more follows for now.
///
/// It is not `Clone`, as `AsyncSender` is: it numbers and collects sends without a lock, which most programs would pay for
/// with each send and not use. Threads that share one put it into a [`Mutex`](std::sync::Mutex). With
/// [`Self::try_multicast`] none of them waits for credit while it holds that. What each sends stays in its order.
///
/// ```no_run
/// # use consort::{Client, ConnectOptions, GroupName, Service};
/// # use std::sync::{Arc, Mutex};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect(&"127.0.0.1:4840".parse()?, &ConnectOptions::default())?;
/// # let orders = GroupName::new("orders")?;
/// let (sender, mut receiver) = client.split();
/// let sender = Arc::new(Mutex::new(sender));
/// let other = Arc::clone(&sender);
/// std::thread::spawn(move || other.lock().unwrap().multicast(Service::Agreed, &[orders], b"a pound of tea"));
/// # receiver.receive(None)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sender {
    pub(crate) outgoing: TransportWriter,
    pub(crate) outbox: SendBuffer,
    send_within: Option<Duration>,
}

impl Sender {
    pub(crate) const fn new(outgoing: TransportWriter, outbox: SendBuffer, send_within: Option<Duration>) -> Self {
        Self { outgoing, outbox, send_within }
    }

    /// Asks to join a group; returns the send's number. Waits for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, false), self.send_within)
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, true), self.send_within)
    }

    /// Asks to leave a group; returns the send's number. Waits for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Leave(group), self.send_within)
    }

    /// Reads what the groups were sent, from a place on, and then what comes: as [`Client::read`](crate::Client::read).
    ///
    /// # Errors
    /// [`Error::Groups`]; [`Error`] where the session is over.
    pub fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        reading::put(&mut self.outbox, groups, &from.into())?;
        self.flush()
    }

    /// Ends the reading. What was told before is still received, then an event that says the end.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn stop_reading(&mut self) -> Result<(), Error> {
        self.outbox.put_read(&ReadFrom::Start, &[]);
        self.flush()
    }

    /// Sends a message to all members of the groups and to the clients that are named; returns the send's number. Waits
    /// for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload), self.send_within)
    }

    /// As [`Self::multicast`], but waits for credit at most so long.
    ///
    /// # Errors
    /// [`Error::TimedOut`] names what is waited for; nothing was sent. Otherwise as [`Self::multicast`].
    pub fn multicast_within<T: Addressee>(
        &mut self,
        service: Service,
        to: &[T],
        payload: &[u8],
        within: Duration,
    ) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload), Some(within))
    }

    /// As [`Self::multicast`], but does not wait for credit.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] where there is too little credit; what was sent before is written then, so that credit can
    /// come back.
    pub fn try_multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        let sent = self.append(Outgoing::Multicast(service, to, payload));
        if sent.is_err() || self.outbox.wants_write() {
            self.write()?;
        }
        sent
    }

    /// Asks for the daemon's status; the receiver gets it as [`Event::Status`](crate::Event::Status).
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn request_status(&mut self) -> Result<(), Error> {
        self.outbox.put_status();
        self.flush()
    }

    /// Writes all that was collected.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_until(None)
    }

    /// Writes all that was collected and waits until every send is ordered or refused.
    ///
    /// # Errors
    /// [`Error::TimedOut`] where the time was not enough; [`Error`] where the session is over.
    pub fn wait_ordered(&mut self, within: impl Into<Option<Duration>>) -> Result<(), Error> {
        let deadline = until(within.into());
        self.flush_until(deadline)?;
        let sent = self.sent();
        self.outbox.shared().wait(time_left(deadline), |progress| progress.ordered >= sent).map(drop)
    }

    /// Says good-bye: the daemon takes all that was sent before, and then ends the session.
    ///
    /// # Errors
    /// [`Error`] where the session is over already.
    pub fn goodbye(mut self) -> Result<(), Error> {
        self.outbox.put_goodbye();
        self.flush()
    }

    /// How many sends were made: the number of the last.
    pub const fn sent(&self) -> u64 {
        self.outbox.sent()
    }

    /// How far the sends are.
    pub fn progress(&self) -> Progress {
        self.outbox.shared().progress()
    }

    /// What sends that are under way wait for; `None` while the daemon says nothing of it.
    pub fn wait_cause(&self) -> Option<WaitCause> {
        self.outbox.shared().cause()
    }

    fn send<T: Addressee>(&mut self, send: Outgoing<'_, T>, within: Option<Duration>) -> Result<u64, Error> {
        let mut deadline = None;
        loop {
            match self.append(send) {
                Ok(number) if self.outbox.wants_write() => {
                    return match self.flush_until(deadline.or_else(|| until(within))) {
                        // It is sent, though it may wait here a little longer.
                        Ok(()) | Err(Error::TimedOut { .. }) => Ok(number),
                        Err(other) => Err(other),
                    };
                }
                Ok(number) => return Ok(number),
                Err(Error::WouldBlock { .. }) => {}
                Err(other) => return Err(other),
            }
            deadline = deadline.or_else(|| until(within));
            self.flush_until(deadline).map_err(Error::of_send)?;
            let (left, seen) = (time_left(deadline), self.outbox.credit_seen());
            self.outbox.shared().wait(left, |progress| progress.credit > seen).map_err(Error::of_send)?;
        }
    }

    /// Numbers and collects a send, if there is credit for it. A large payload is copied but once, into shared memory, as
    /// far as there is room.
    pub(crate) fn append<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, Error> {
        let number = self.outbox.append(send)?;
        if let Some(payload) = send.large() {
            let written = self.outgoing.write_now(&[IoSlice::new(self.outbox.bytes()), IoSlice::new(payload)]);
            self.outbox.put_rest(payload, *written.as_ref().unwrap_or(&0));
            written.map_err(|error| self.outbox.shared().lost(&error))?;
        }
        Ok(number)
    }

    fn flush_until(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        while !self.write()? {
            if let Some(end) = self.outbox.shared().ended() {
                return Err(end);
            }
            if time_left(deadline).is_some_and(|left| left.is_zero()) {
                return Err(self.outbox.shared().timed_out());
            }
        }
        Ok(())
    }

    pub(crate) const fn send_within(&self) -> Option<Duration> {
        self.send_within
    }

    /// Writes what can be written soon; true if nothing is left.
    fn write(&mut self) -> Result<bool, Error> {
        self.write_within(STEP)
    }

    /// Writes what there is room for, and waits for room at most so long; true if nothing is left.
    pub(crate) fn write_within(&mut self, within: Duration) -> Result<bool, Error> {
        self.outbox.shared().check()?;
        let bytes = self.outbox.bytes();
        if bytes.is_empty() {
            return Ok(true);
        }
        let written = self.outgoing.write(bytes, Some(within)).map_err(|error| self.outbox.shared().lost(&error))?;
        Ok(self.outbox.written(written.unwrap_or(0)))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_WRITE;
        while matches!(self.write(), Ok(false)) && Instant::now() < deadline {}
    }
}
