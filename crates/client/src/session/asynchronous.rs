//! A session for programs that run on tokio.
use super::connection::{Broken, Connection};
use super::machine::{SessionMachine, targets};
use super::roaming::Roaming;
use super::{SessionEvent, SessionOptions};
use crate::async_timer::Timer;
use crate::outbox::Outgoing;
use crate::{
    Address, Addressee, AsyncClient, Bookmark, Bytes, Draft, Error, Event, GroupName, Origin, ReadFrom, Service,
    Target, ViewPlace, Welcome,
};
use consort_session::{OpenRequest, ProducerId};
use futures_core::Stream;
use futures_sink::Sink;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long the good-bye of a session that is done may take.
const FAREWELL: Duration = Duration::from_secs(1);

type Attempt = Pin<Box<dyn Future<Output = Result<AsyncClient, Error>> + Send + Sync>>;

/// The attempt to connect that is on; it goes on though the waiting call is dropped.
#[derive(Default)]
struct Connecting {
    attempt: Option<Attempt>,
    origin: Origin,
}

/// In a child of `fork()` it is left as it is: its socket is in the list of the runtime, which is the parent's too.
impl Drop for Connecting {
    fn drop(&mut self) {
        if self.origin.check().is_err() {
            std::mem::forget(self.attempt.take());
        }
    }
}

/// A session over several daemons, for one task: the same as [`Session`](crate::Session), without a thread that waits. Needs a
/// tokio runtime with I/O and time enabled.
///
/// Whatever it waits for goes on behind a call that was given up, by `select!` or a timeout: [`Self::receive`],
/// [`Self::send`] and [`Self::settle`] lose nothing by it, and a send that was given up is not sent and uses no number.
/// [`Self::connect`] and [`Self::finish`] own the session: given up, they end it. The other calls do not wait.
///
/// Sends are written while events are received, and with [`Self::settle`] and [`Self::flush`]. A session does nothing by
/// itself: it fails over while one of its calls is awaited.
///
/// It is a `Stream` of its events and a `Sink` of [`Draft`]s, and [`Self::split`] makes halves for several tasks.
///
/// ```no_run
/// use consort::{AsyncSession, GroupName, Service, SessionEvent, SessionOptions};
///
/// # async fn feed() -> Result<(), Box<dyn std::error::Error>> {
/// let daemons = ["10.0.0.1:4840".parse()?, "10.0.0.2:4840".parse()?];
/// let mut session = AsyncSession::connect(&daemons, SessionOptions::default()).await?;
/// let send = session.send(Service::Agreed, &[GroupName::new("orders")?], b"one dozen").await?;
/// while !matches!(session.receive().await?, SessionEvent::Sent { send: done, .. } if done == send) {}
/// session.finish().await?;
/// # Ok(())
/// # }
/// ```
pub struct AsyncSession {
    roaming: Roaming<AsyncClient>,
    connecting: Connecting,
    timer: Timer,
    /// How often it took a step.
    steps: u64,
    /// The stream has told the error that ended the session.
    told_end: bool,
}

impl fmt::Debug for AsyncSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connecting = self.connecting.attempt.is_some();
        f.debug_struct("AsyncSession").field("roaming", &self.roaming).field("connecting", &connecting).finish()
    }
}

impl AsyncSession {
    /// Connects to the first daemon that can be reached.
    ///
    /// # Errors
    /// [`Error::Option`]; [`Error::Unreachable`] if none can be for as long as is allowed.
    ///
    /// # Panics
    /// If there are no addresses, or the operating system has no random bytes.
    pub async fn connect(addresses: &[Address], options: SessionOptions) -> Result<Self, Error> {
        let roaming = Roaming::new(SessionMachine::new(addresses, options, Instant::now()));
        let mut session =
            Self { roaming, connecting: Connecting::default(), timer: Timer::default(), steps: 0, told_end: false };
        while !session.is_connected() {
            poll_fn(|cx| session.poll_pump(cx)).await?;
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
        self.roaming.client.as_ref().map(AsyncClient::welcome)
    }

    /// How many sends have no fate yet.
    pub fn unsettled(&self) -> usize {
        self.roaming.machine.pending.len()
    }

    /// Sends a message to groups and clients, once; returns the send's number, under which its fate is told. Waits while
    /// too many bytes have no fate, meanwhile keeping what comes in.
    ///
    /// Given up, it is not sent.
    ///
    /// # Errors
    /// [`Error::Targets`] and [`Error::Unread`]: nothing was sent. [`Error::Unreachable`], [`Error::TakenOver`] and
    /// [`Error::NotOpened`] end the session.
    pub async fn send<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        let targets = targets(to)?;
        poll_fn(|cx| self.poll_room(cx, payload.len())).await?;
        self.put(service, targets, Bytes::copy_from_slice(payload))
    }

    /// Joins a group, and joins it again after each loss.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn join(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.join(group, false);
        self.work()
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.join(group, true);
        self.work()
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn leave(&mut self, group: &GroupName) -> Result<(), Error> {
        self.roaming.machine.leave(group);
        self.work()
    }

    /// Reads what groups were sent, from a place on, and goes on with it at the next daemon: as
    /// [`Session::read`](crate::Session::read).
    ///
    /// # Errors
    /// [`Error::Groups`]; [`Error`] that ends the session.
    pub fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        self.roaming.machine.read(groups, from.into())?;
        self.work()
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

    /// The next event. Given up, no event is lost.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::TakenOver`] and [`Error::NotOpened`], which end the session.
    pub async fn receive(&mut self) -> Result<SessionEvent, Error> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Waits until all that was sent is with a daemon, which is not to say that it is ordered. May be given up.
    ///
    /// # Errors
    /// [`Error::Unread`] where too much came that is to be received first; otherwise as [`Self::receive`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_written(cx)).await
    }

    /// Waits until every send has its fate, meanwhile keeping what comes in. May be given up.
    ///
    /// # Errors
    /// [`Error::Unread`] where too much came that is to be received first; otherwise as [`Self::receive`].
    pub async fn settle(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_settled(cx)).await
    }

    /// Waits until every send has its fate and ends the session. The daemons forget its producer. Returns what came
    /// meanwhile. Given up, the session ends, and the fates of its last sends are not told.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn finish(mut self) -> Result<Vec<SessionEvent>, Error> {
        self.settle().await?;
        let Roaming { machine, client } = self.roaming;
        if let Some(mut client) = client {
            if machine.is_open() {
                client.forget_producer();
            }
            let _ = timeout(FAREWELL, client.close()).await;
        }
        Ok(machine.into_events())
    }

    pub(super) fn put(&mut self, service: Service, to: Vec<Target>, payload: Bytes) -> Result<u64, Error> {
        let send = self.roaming.machine.send(service, to, payload)?;
        self.work()?;
        Ok(send)
    }

    pub(super) fn put_draft(&mut self, draft: Draft) -> Result<u64, Error> {
        let (service, to, payload) = draft.into_parts();
        self.put(service, to, payload)
    }

    fn work(&mut self) -> Result<(), Error> {
        self.steps += 1;
        self.roaming.work()
    }

    /// How often it took a step: a change means that others who poll it may go on, too.
    pub(super) const fn took_steps(&self) -> u64 {
        self.steps
    }

    /// Waits until a send of so many bytes may be kept.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>, payload: usize) -> Poll<Result<(), Error>> {
        while !self.roaming.machine.has_room(payload) {
            self.roaming.machine.may_keep()?;
            ready!(self.poll_pump(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<SessionEvent, Error>> {
        self.roaming.machine.origin.check()?;
        loop {
            if let Some(event) = self.roaming.machine.next_event() {
                return Poll::Ready(Ok(event));
            }
            ready!(self.poll_pump(cx))?;
        }
    }

    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.roaming.machine.origin.check()?;
        loop {
            if let Some(client) = &mut self.roaming.client {
                client.write();
                if self.roaming.machine.pending.next_unsent().is_none() && !client.has_unwritten() {
                    return Poll::Ready(Ok(()));
                }
            }
            self.roaming.machine.may_keep()?;
            ready!(self.poll_pump(cx))?;
        }
    }

    pub(super) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.roaming.machine.origin.check()?;
        while !self.roaming.machine.pending.is_empty() {
            self.roaming.machine.may_keep()?;
            ready!(self.poll_pump(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Connects if need be, sends what waits, and takes what comes. All that is waited for stands in the session.
    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.roaming.machine.origin.check()?;
        let pumped = if self.roaming.client.is_some() { self.poll_daemon(cx) } else { self.poll_connect(cx) };
        if pumped.is_ready() {
            self.steps += 1;
        }
        pumped
    }

    fn poll_connect(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some((next, address)) = self.roaming.machine.next_attempt()? else { return Poll::Ready(Ok(())) };
        let connecting = match &mut self.connecting.attempt {
            Some(connecting) => connecting,
            none => {
                if next > Instant::now() {
                    ready!(self.timer.poll(cx, || next.into()));
                }
                self.timer.clear();
                let (address, options) = (address.clone(), self.roaming.machine.options.connect.clone());
                none.insert(Box::pin(async move { AsyncClient::connect(&address, &options).await }))
            }
        };
        let attempt = ready!(connecting.as_mut().poll(cx));
        self.connecting.attempt = None;
        Poll::Ready(self.roaming.tried(attempt))
    }

    fn poll_daemon(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.roaming.work()?;
        let Some(client) = &mut self.roaming.client else { return Poll::Ready(Ok(())) };
        client.write();
        let read = client.next_read().map_err(Broken::from);
        let Some(read) = self.roaming.heed(read)? else { return Poll::Ready(Ok(())) };
        if let Some(event) = read {
            return Poll::Ready(self.roaming.take_all(event));
        }
        // One step: credit may be all that it brings.
        let Some(client) = &mut self.roaming.client else { return Poll::Ready(Ok(())) };
        let stepped = ready!(client.poll_step(cx)).map_err(Broken::from);
        Poll::Ready(self.roaming.heed(stepped).map(drop))
    }
}

impl Connection for AsyncClient {
    fn open_producer(&mut self, open: &OpenRequest) -> Result<(), Error> {
        self.put_open(open);
        Ok(())
    }

    fn try_join(&mut self, group: &GroupName, closed: bool) -> Result<u64, Error> {
        self.try_send::<GroupName>(Outgoing::Join(group, closed))
    }

    fn try_leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.try_send::<GroupName>(Outgoing::Leave(group))
    }

    fn try_multicast(&mut self, service: Service, to: &[Target], payload: &[u8]) -> Result<u64, Error> {
        self.try_multicast(service, to, payload)
    }

    fn begin_reading(&mut self, groups: &[GroupName], from: &ReadFrom) -> Result<(), Error> {
        self.ask_to_read(groups, from)
    }

    fn next_read(&mut self) -> Result<Option<Event>, Error> {
        self.next_read()
    }
}

/// The events, as [`AsyncSession::receive`] gives them. It ends behind the error that ends the session.
impl Stream for AsyncSession {
    type Item = Result<SessionEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let session = self.get_mut();
        if session.told_end {
            return Poll::Ready(None);
        }
        let received = ready!(session.poll_receive(cx));
        session.told_end = received.is_err();
        Poll::Ready(Some(received))
    }
}

/// Sends messages as [`AsyncSession::send`] does; they are numbered one by one. It is flushed once they are with a daemon, and
/// closed once each has its fate.
impl Sink<Draft> for AsyncSession {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_room(cx, 0)
    }

    fn start_send(self: Pin<&mut Self>, draft: Draft) -> Result<(), Error> {
        self.get_mut().put_draft(draft).map(drop)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_written(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_settled(cx)
    }
}
