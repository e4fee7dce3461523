//! The halves of a client on tokio, for several tasks.
use crate::outbox::Outgoing;
use crate::shared_poll::{SharedPoll, Steps};
use crate::{Addressee, AsyncClient, Bookmark, Draft, Error, Event, GroupName, Progress, Service};
use futures_core::Stream;
use futures_sink::Sink;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

impl Steps for AsyncClient {
    fn steps(&self) -> u64 {
        // What is sent is written by whoever polls next.
        self.took_steps().wrapping_add(self.sent())
    }
}

impl AsyncClient {
    /// Makes two halves for two tasks or more. Either does what the connection needs while it is awaited.
    ///
    /// What the sink was given before and there was no room for is sent with what comes next.
    pub fn split(self) -> (AsyncSender, AsyncReceiver) {
        let client = Arc::new(SharedPoll::new(self));
        (AsyncSender { client: Arc::clone(&client), draft: None }, AsyncReceiver { client, told_end: false })
    }
}

/// The half of an [`AsyncClient`] that sends; clones send over the same connection, and what each sends stays in its order.
/// A `Sink` of [`Draft`]s.
///
/// All calls may be given up: what was given up is not sent. The receiver is to be read: where more than 64 MiB wait for it,
/// calls here end with [`Error::Unread`].
#[derive(Debug)]
pub struct AsyncSender {
    client: Arc<SharedPoll<AsyncClient>>,
    draft: Option<Draft>,
}

impl Clone for AsyncSender {
    fn clone(&self) -> Self {
        Self { client: Arc::clone(&self.client), draft: None }
    }
}

impl AsyncSender {
    /// Asks to join a group; returns the send's number.
    ///
    /// # Errors
    /// [`Error`] says what is wrong.
    pub async fn join(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, false)).await
    }

    /// Asks to leave a group; returns the send's number.
    ///
    /// # Errors
    /// [`Error`] says what is wrong.
    pub async fn leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Leave(group)).await
    }

    /// As [`AsyncClient::multicast`], for as long as it takes.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::Unread`] nothing was sent.
    pub async fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload)).await
    }

    /// Writes all that was collected, by whichever half.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_flush_all(cx)).await
    }

    /// Waits until every send of the client, whoever made it, is ordered or refused.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn wait_ordered(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_ordered(cx)).await
    }

    /// How far the sends of the client are.
    pub fn progress(&self) -> Progress {
        self.client.lock().progress()
    }

    async fn send<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, Error> {
        poll_fn(|cx| {
            ready!(self.poll_draft(cx))?;
            self.client.poll(cx, |client, cx| client.poll_send(cx, send))
        })
        .await
    }

    /// Sends what the sink was given.
    fn poll_draft(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(draft) = &self.draft else { return Poll::Ready(Ok(())) };
        let sent = ready!(self.client.poll(cx, |client, cx| client.poll_send(cx, draft.outgoing())));
        self.draft = None;
        Poll::Ready(sent.map(drop))
    }

    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_draft(cx))?;
        self.client.poll(cx, AsyncClient::poll_flush_all)
    }

    fn poll_ordered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_draft(cx))?;
        self.client.poll(cx, AsyncClient::poll_ordered)
    }
}

/// As the sink of [`AsyncClient`].
impl Sink<Draft> for AsyncSender {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_draft(cx)
    }

    fn start_send(self: Pin<&mut Self>, draft: Draft) -> Result<(), Error> {
        self.get_mut().draft = Some(draft);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_flush_all(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_ordered(cx)
    }
}

/// The half of an [`AsyncClient`] that receives. A `Stream` of events, which ends behind the error that ends the session.
#[derive(Debug)]
pub struct AsyncReceiver {
    client: Arc<SharedPoll<AsyncClient>>,
    told_end: bool,
}

impl AsyncReceiver {
    /// The next event. Given up, no event is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] or [`Error::Disconnected`] once everything that came before was received.
    pub async fn receive(&mut self) -> Result<Event, Error> {
        poll_fn(|cx| self.client.poll(cx, AsyncClient::poll_receive)).await
    }

    /// Makes one client of both halves again, such as to close it.
    ///
    /// # Errors
    /// Both halves, where they are of two clients, or the sender has clones.
    pub fn unite(self, mut sender: AsyncSender) -> Result<AsyncClient, (Self, AsyncSender)> {
        if !Arc::ptr_eq(&self.client, &sender.client) {
            return Err((self, sender));
        }
        let (draft, told_end) = (sender.draft.take(), self.told_end);
        drop(sender);
        match SharedPoll::unshared(self.client) {
            Ok(mut client) => {
                client.put_draft_back(draft);
                Ok(client)
            }
            Err(client) => Err((Self { client: Arc::clone(&client), told_end }, AsyncSender { client, draft })),
        }
    }

    /// How far the reading has come: behind the last message that was received. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.client.lock().bookmark()
    }
}

impl Stream for AsyncReceiver {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let receiver = self.get_mut();
        if receiver.told_end {
            return Poll::Ready(None);
        }
        let received = ready!(receiver.client.poll(cx, AsyncClient::poll_receive));
        receiver.told_end = received.is_err();
        Poll::Ready(Some(received))
    }
}
