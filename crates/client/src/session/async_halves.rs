//! The halves of a session on tokio, for several tasks.
use super::SessionEvent;
use super::asynchronous::AsyncSession;
use super::machine::targets;
use crate::shared_poll::{SharedPoll, Steps};
use crate::{Addressee, Bookmark, Bytes, Draft, Error, GroupName, ReadFrom, Service};
use futures_core::Stream;
use futures_sink::Sink;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

impl Steps for AsyncSession {
    fn steps(&self) -> u64 {
        self.took_steps()
    }
}

impl AsyncSession {
    /// Makes two halves for two tasks or more. Either does what the session needs while it is awaited: it fails over, writes
    /// and reads.
    pub fn split(self) -> (AsyncSessionSender, AsyncSessionReceiver) {
        let session = Arc::new(SharedPoll::new(self));
        (AsyncSessionSender { session: Arc::clone(&session) }, AsyncSessionReceiver { session, told_end: false })
    }
}

/// The half of an [`AsyncSession`] that sends; clones send under the same producer, and what each sends stays in its order. A
/// `Sink` of [`Draft`]s.
///
/// All calls may be given up: what was given up is not sent. The receiver is told the fates, and is to be read: where more
/// than 64 MiB wait for it, calls here end with [`Error::Unread`].
#[derive(Clone, Debug)]
pub struct AsyncSessionSender {
    session: Arc<SharedPoll<AsyncSession>>,
}

impl AsyncSessionSender {
    /// As [`AsyncSession::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        let targets = targets(to)?;
        let send = |session: &mut AsyncSession, cx: &mut Context<'_>| {
            ready!(session.poll_room(cx, payload.len()))?;
            Poll::Ready(session.put(service, targets.clone(), Bytes::copy_from_slice(payload)))
        };
        poll_fn(|cx| self.session.poll(cx, send)).await
    }

    /// Joins a group, and joins it again after each loss.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn join(&mut self, group: &GroupName) -> Result<(), Error> {
        self.session.act(|session| session.join(group))
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// [`Error`] that ends the session.
    pub fn leave(&mut self, group: &GroupName) -> Result<(), Error> {
        self.session.act(|session| session.leave(group))
    }

    /// Has the receiver told what groups were sent, from a place on: as [`AsyncSession::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        self.session.act(|session| session.read(groups, from))
    }

    /// Waits until every send of the session, whoever made it, is with a daemon.
    ///
    /// # Errors
    /// As [`AsyncSession::flush`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.session.poll(cx, AsyncSession::poll_written)).await
    }

    /// Waits until every send of the session, whoever made it, has its fate.
    ///
    /// # Errors
    /// As [`AsyncSession::settle`].
    pub async fn settle(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.session.poll(cx, AsyncSession::poll_settled)).await
    }
}

/// As the sink of [`AsyncSession`].
impl Sink<Draft> for AsyncSessionSender {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.session.poll(cx, |session, cx| session.poll_room(cx, 0))
    }

    fn start_send(self: Pin<&mut Self>, draft: Draft) -> Result<(), Error> {
        self.session.act(|session| session.put_draft(draft).map(drop))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.session.poll(cx, AsyncSession::poll_written)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.session.poll(cx, AsyncSession::poll_settled)
    }
}

/// The half of an [`AsyncSession`] that receives. A `Stream` of events, which ends behind the error that ends the session.
#[derive(Debug)]
pub struct AsyncSessionReceiver {
    session: Arc<SharedPoll<AsyncSession>>,
    told_end: bool,
}

impl AsyncSessionReceiver {
    /// The next event. Given up, no event is lost.
    ///
    /// # Errors
    /// As [`AsyncSession::receive`].
    pub async fn receive(&mut self) -> Result<SessionEvent, Error> {
        poll_fn(|cx| self.session.poll(cx, AsyncSession::poll_receive)).await
    }

    /// Makes one session of both halves again, such as to finish it.
    ///
    /// # Errors
    /// Both halves, where they are of two sessions, or the sender has clones.
    pub fn unite(self, sender: AsyncSessionSender) -> Result<AsyncSession, (Self, AsyncSessionSender)> {
        if !Arc::ptr_eq(&self.session, &sender.session) {
            return Err((self, sender));
        }
        drop(sender);
        let told_end = self.told_end;
        SharedPoll::unshared(self.session).map_err(|session| {
            let receiver = Self { session: Arc::clone(&session), told_end };
            (receiver, AsyncSessionSender { session })
        })
    }

    /// How far the reading has come. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.session.lock().bookmark()
    }
}

impl Stream for AsyncSessionReceiver {
    type Item = Result<SessionEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let receiver = self.get_mut();
        if receiver.told_end {
            return Poll::Ready(None);
        }
        let received = ready!(receiver.session.poll(cx, AsyncSession::poll_receive));
        receiver.told_end = received.is_err();
        Poll::Ready(Some(received))
    }
}
