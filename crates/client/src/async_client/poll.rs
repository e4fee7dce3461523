//! What a client on tokio does whenever it is polled, and the traits of streams and sinks. Nothing here is lost when whoever
//! polls gives up: all that is begun stands in the client.
use super::AsyncClient;
use crate::outbox::Outgoing;
use crate::receiver::LAST_READ;
use crate::shared::SessionEnd;
use crate::{Addressee, Draft, Error, Event};
use futures_core::Stream;
use futures_sink::Sink;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

impl AsyncClient {
    /// Waits until something can be read or written, and does it.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let stepped = self.poll_one_step(cx);
        if stepped.is_ready() {
            self.steps += 1;
        }
        stepped
    }

    fn poll_one_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.inbox.shared().ended() {
            return Poll::Ready(Err(error));
        }
        let writes = self.last_read.is_none() && !self.outbox.bytes().is_empty();
        match (self.stream.poll_ready(cx, writes), self.last_read) {
            (Poll::Ready(ready), None) => ready.map_err(|error| self.lost(error.to_string()))?,
            (Poll::Ready(_), Some(_)) => {}
            (Poll::Pending, None) => {
                let Some(step) = self.inbox.may_wait(None) else { return Poll::Pending };
                // When it is time to look, nothing may have come.
                ready!(self.timer.poll(cx, || Instant::now() + step));
            }
            (Poll::Pending, Some(deadline)) => {
                ready!(self.timer.poll(cx, || deadline));
                return Poll::Ready(Err(self.lost("nothing more can be sent or received".to_owned())));
            }
        }
        self.timer.clear();
        self.write();
        Poll::Ready(self.inbox.read(|chunk| self.stream.try_read(chunk)).map(drop))
    }

    /// Sets aside what the program is to receive later: what was read already, or else what one step brings.
    pub(super) fn poll_step_aside(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inbox.check_unread()?;
        if !self.inbox.sort_aside()? {
            ready!(self.poll_step(cx))?;
            self.inbox.sort_aside()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends once there is room. Nothing is waited for once it is sent: what was given up is not sent.
    pub(crate) fn poll_send<T: Addressee>(
        &mut self,
        cx: &mut Context<'_>,
        send: Outgoing<'_, T>,
    ) -> Poll<Result<u64, Error>> {
        // A session that is over, or about to be, takes nothing more.
        while self.last_read.is_some() || self.inbox.shared().ended().is_some() {
            ready!(self.poll_step_aside(cx))?;
        }
        loop {
            match self.try_send(send) {
                Err(Error::WouldBlock { .. }) => ready!(self.poll_step_aside(cx))?,
                sent => return Poll::Ready(sent),
            }
        }
    }

    pub(crate) fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inbox.shared().check()?;
        while self.draft.is_some() || !self.outbox.bytes().is_empty() {
            match self.try_draft() {
                Ok(()) | Err(Error::WouldBlock { .. }) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.write();
            if self.draft.is_none() && self.outbox.bytes().is_empty() {
                break;
            }
            ready!(self.poll_step_aside(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_ordered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_flush_all(cx))?;
        while self.progress().ordered < self.sent() {
            ready!(self.poll_step_aside(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        self.write();
        loop {
            if let Some(event) = self.inbox.next()? {
                return Poll::Ready(Ok(event));
            }
            ready!(self.poll_step(cx))?;
        }
    }

    /// What a half's sink was given is sent next.
    pub(crate) fn put_draft_back(&mut self, draft: Option<Draft>) {
        self.draft = self.draft.take().or(draft);
    }

    /// Sends what the sink was given, if there is room for it.
    pub(super) fn try_draft(&mut self) -> Result<(), Error> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        match self.put(draft.outgoing()) {
            Err(error @ Error::WouldBlock { .. }) => {
                self.draft = Some(draft);
                Err(error)
            }
            sent => sent.map(drop),
        }
    }

    /// Writes what the connection takes at once; credit bounds the rest.
    pub(crate) fn write(&mut self) {
        if self.inbox.shared().check().is_err() {
            return;
        }
        while !self.outbox.bytes().is_empty() && self.last_read.is_none() {
            match self.stream.try_write(self.outbox.bytes()) {
                Ok(Some(n)) => drop(self.outbox.written(n)),
                Ok(None) => return,
                // What the daemon said before is still to be read: it makes the error truer.
                Err(_) => {
                    self.timer.clear();
                    self.last_read = Some(Instant::now() + LAST_READ);
                }
            }
        }
    }

    fn lost(&self, why: String) -> Error {
        self.inbox.shared().end(SessionEnd::Lost(why))
    }
}

/// The events, as [`AsyncClient::receive`] gives them. It ends behind the error that ends the session.
impl Stream for AsyncClient {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let client = self.get_mut();
        if client.told_end {
            return Poll::Ready(None);
        }
        let received = ready!(client.poll_receive(cx));
        client.told_end = received.is_err();
        Poll::Ready(Some(received))
    }
}

/// Sends messages as [`AsyncClient::multicast`] does. It is flushed once they are written, and closed once they are ordered or
/// refused.
impl Sink<Draft> for AsyncClient {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let client = self.get_mut();
        loop {
            match client.try_draft() {
                Err(Error::WouldBlock { .. }) => ready!(client.poll_step_aside(cx))?,
                done => return Poll::Ready(done),
            }
        }
    }

    fn start_send(self: Pin<&mut Self>, draft: Draft) -> Result<(), Error> {
        let client = self.get_mut();
        client.draft = Some(draft);
        match client.try_draft() {
            Err(Error::WouldBlock { .. }) => Ok(()),
            done => done,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_flush_all(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().poll_ordered(cx)
    }
}
