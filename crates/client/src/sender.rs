//! The half of a client that sends.
use crate::shared::Shared;
use crate::stream::{Stream, until};
use crate::{Addressee, Error, GroupName, Progress, Service};
use bytes::{Buf, BytesMut};
use consort_session::client::{NotSent, Requests};
use consort_session::request;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The buffer is written when it holds this many bytes.
const WRITE_AT: usize = 64 << 10;
/// How long one write may take before something else is looked at.
const STEP: Duration = Duration::from_millis(10);
/// How long a sender that is dropped tries to write what it still holds.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Sends joins, leaves and multicasts, which it numbers from 1.
///
/// Sends are collected; call [`Self::flush`] when nothing more follows for now.
#[derive(Debug)]
pub struct Sender {
    stream: Stream,
    buffer: BytesMut,
    requests: Requests,
    known: Progress,
    unbatched: bool,
    send_within: Option<Duration>,
    shared: Arc<Shared>,
}

/// One send, before it has a number.
pub(crate) enum Send<'a, T = GroupName> {
    Join(&'a GroupName, bool),
    Leave(&'a GroupName),
    Multicast(Service, &'a [T], &'a [u8]),
}

// Derives would ask the same of `T`.
impl<T> Clone for Send<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Send<'_, T> {}

impl Sender {
    pub(crate) fn new(
        stream: Stream,
        requests: Requests,
        unbatched: bool,
        send_within: Option<Duration>,
        shared: Arc<Shared>,
    ) -> Self {
        let known = Progress::default();
        Self { stream, buffer: BytesMut::with_capacity(2 * WRITE_AT), requests, known, unbatched, send_within, shared }
    }

    /// Asks to join a group; returns the send's number. Waits for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Send::Join(group, false))
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Send::Join(group, true))
    }

    /// Asks to leave a group; returns the send's number. Waits for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Send::Leave(group))
    }

    /// Sends a message to all members of the groups and to the clients that are named; returns the send's number. Waits
    /// for credit.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send(Send::Multicast(service, to, payload))
    }

    /// As [`Self::multicast`], but does not wait for credit.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] where there is too little credit; what was sent before is written then, so that credit can
    /// come back.
    pub fn try_multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        let sent = self.append(Send::Multicast(service, to, payload));
        if sent.is_err() || self.wants_write() {
            self.write()?;
        }
        sent
    }

    /// Asks for the daemon's status; the receiver gets it as [`Event::Status`](crate::Event::Status).
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn request_status(&mut self) -> Result<(), Error> {
        self.put_status();
        self.flush()
    }

    /// Writes all that was collected.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn flush(&mut self) -> Result<(), Error> {
        while !self.write()? {}
        Ok(())
    }

    /// Writes all that was collected and waits until every send is ordered or refused.
    ///
    /// # Errors
    /// [`Error::TimedOut`] where the time was not enough; [`Error`] where the session is over.
    pub fn wait_ordered(&mut self, within: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.flush()?;
        let sent = self.sent();
        self.shared.wait(within.into(), |progress| progress.ordered >= sent).map(drop)
    }

    /// Says good-bye: the daemon takes all that was sent before, and then ends the session.
    ///
    /// # Errors
    /// [`Error`] where the session is over already.
    pub fn goodbye(mut self) -> Result<(), Error> {
        self.put_goodbye();
        self.flush()
    }

    /// How many sends were made: the number of the last.
    pub const fn sent(&self) -> u64 {
        self.requests.sent()
    }

    /// How far the sends are.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    fn send<T: Addressee>(&mut self, send: Send<'_, T>) -> Result<u64, Error> {
        let mut deadline = None;
        loop {
            match self.append(send) {
                Ok(number) => {
                    if self.wants_write() {
                        self.flush()?;
                    }
                    return Ok(number);
                }
                Err(Error::WouldBlock { .. }) => {}
                Err(other) => return Err(other),
            }
            self.flush()?;
            deadline = deadline.or_else(|| until(self.send_within));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let seen = self.known.credit;
            self.shared.wait(left, |progress| progress.credit > seen)?;
        }
    }

    /// Numbers and collects a send, if there is credit for it.
    pub(crate) fn append<T: Addressee>(&mut self, send: Send<'_, T>) -> Result<u64, Error> {
        let appended = self.put(send).or_else(|why| match why {
            NotSent::Credit { .. } => {
                self.known = self.shared.progress();
                self.put(send)
            }
            other => Err(other),
        });
        match appended {
            Ok(number) => self.shared.has_sent(number),
            Err(_) => self.shared.ended().map_or(Ok(()), Err)?,
        }
        Ok(appended?)
    }

    fn put<T: Addressee>(&mut self, send: Send<'_, T>) -> Result<u64, NotSent> {
        match send {
            Send::Join(group, closed) => self.requests.join(&mut self.buffer, group, closed, self.known),
            Send::Leave(group) => self.requests.leave(&mut self.buffer, group, self.known),
            Send::Multicast(service, to, payload) => {
                self.requests.multicast(&mut self.buffer, service, to, payload, self.known)
            }
        }
    }

    pub(crate) fn put_status(&mut self) {
        request::put_status(&mut self.buffer);
    }

    pub(crate) fn put_goodbye(&mut self) {
        request::put_goodbye(&mut self.buffer);
    }

    pub(crate) const fn send_within(&self) -> Option<Duration> {
        self.send_within
    }

    /// Whether enough was collected to be written.
    pub(crate) fn wants_write(&self) -> bool {
        self.unbatched || self.buffer.len() >= WRITE_AT
    }

    /// Writes what can be written soon; true if nothing is left.
    pub(crate) fn write(&mut self) -> Result<bool, Error> {
        if !self.buffer.is_empty() {
            let written = self.stream.write(&self.buffer, Some(STEP)).map_err(|error| self.shared.lost(&error))?;
            self.buffer.advance(written.unwrap_or(0));
        }
        Ok(self.buffer.is_empty())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_WRITE;
        while matches!(self.write(), Ok(false)) && Instant::now() < deadline {}
    }
}
