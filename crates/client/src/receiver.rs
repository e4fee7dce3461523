//! The half of a client that receives.
use crate::event::Event;
use crate::shared::{End, Shared};
use crate::stream::{Stream, until};
use crate::{Error, Progress};
use bytes::BytesMut;
use consort_session::client::Replies;
use consort_session::{self as session};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much is read at once, in bytes.
const CHUNK: usize = 256 << 10;
/// A chunk with less room than this is left to its readers and another one begun.
const LEAST: usize = 64 << 10;
/// How long what came before the end of a broken connection is read.
const LAST_READ: Duration = Duration::from_secs(1);
/// How many bytes of events may wait while somebody waits for something else.
const UNREAD_MAX: usize = 64 << 20;

/// Receives events. Messages share the buffer in which they were read; nothing is copied.
///
/// It must be read for its [`Sender`](crate::Sender) to hear of free credit.
#[derive(Debug)]
pub struct Receiver {
    stream: Stream,
    replies: Replies,
    chunk: BytesMut,
    /// Events read while something else was waited for.
    aside: VecDeque<Event>,
    aside_bytes: usize,
    shared: Arc<Shared>,
}

impl Receiver {
    pub(crate) fn new(stream: Stream, shared: Arc<Shared>) -> Self {
        let (replies, chunk) = (Replies::default(), BytesMut::new());
        Self { stream, replies, chunk, aside: VecDeque::new(), aside_bytes: 0, shared }
    }

    /// The next event; `None` if none came in time. Without a time it waits for as long as it takes.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] or [`Error::Disconnected`] once everything that came before was received.
    pub fn receive(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<Event>, Error> {
        if let Some(event) = self.take_aside() {
            return Ok(Some(event));
        }
        let within = within.into();
        if let Some(event) = self.next_read()? {
            return Ok(Some(event));
        }
        let deadline = until(within);
        let mut left = within;
        while self.read(left)? {
            if let Some(event) = self.next_read()? {
                return Ok(Some(event));
            }
            left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
        }
        Ok(None)
    }

    /// How far the sends are.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// The next event that was read; none of those set aside.
    fn next_read(&mut self) -> Result<Option<Event>, Error> {
        while let Some(event) = self.next_reply()? {
            if let Some(event) = self.note(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    pub(crate) fn next_reply(&mut self) -> Result<Option<session::Event>, Error> {
        self.replies.next_event().map_err(|error| self.shared.end(End::Lost(format!("the daemon sent a {error}"))))
    }

    /// Keeps what is not for the program.
    fn note(&mut self, event: session::Event) -> Result<Option<Event>, Error> {
        Ok(Some(match event {
            session::Event::Message(message) => Event::Message(message),
            session::Event::GroupView(view) => Event::GroupView(view),
            session::Event::GroupSignal(signal) => Event::GroupSignal(signal),
            session::Event::View(view) => Event::View(view),
            session::Event::Refused { request, refusal } => Event::Refused { send: request, refusal },
            session::Event::Status(pairs) => Event::Status(pairs),
            session::Event::Progress(progress) => {
                self.shared.has_progressed(progress);
                return Ok(None);
            }
            session::Event::Disconnect(farewell) => return Err(self.shared.end(End::Farewell(farewell))),
            // Nobody asked.
            session::Event::Pong(_) | session::Event::Welcome(_) => return Ok(None),
        }))
    }

    /// Reads once; false if nothing came in time.
    pub(crate) fn read(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        if let Some(error) = self.shared.ended() {
            return Err(error);
        }
        if self.chunk.len() < LEAST {
            self.chunk.clear();
            self.chunk.resize(CHUNK, 0);
        }
        let lost = |why: String| self.shared.end(End::Lost(why));
        match self.stream.read(&mut self.chunk, within).map_err(|error| lost(error.to_string()))? {
            None => Ok(false),
            Some(0) => Err(lost("the daemon closed it".to_owned())),
            Some(n) => {
                self.replies.feed(self.chunk.split_to(n).freeze());
                Ok(true)
            }
        }
    }

    /// Reads all that came before the end of a connection that is known to be broken, and says what the end was.
    pub(crate) fn read_to_end(&mut self) -> Error {
        let deadline = Instant::now() + LAST_READ;
        loop {
            match self.fill_aside(Some(deadline.saturating_duration_since(Instant::now()))) {
                Ok(true) => {}
                Ok(false) => return self.shared.end(End::Lost("nothing more can be sent or received".to_owned())),
                Err(end) => return end,
            }
        }
    }

    /// Sets aside what the program is to receive later: what was read already, or else what one read brings. False if nothing came in time.
    pub(crate) fn read_aside(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        if self.aside_bytes > UNREAD_MAX {
            return Err(Error::Unread { bytes: self.aside_bytes });
        }
        self.fill_aside(within)
    }

    fn fill_aside(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        if self.sort_aside()? {
            return Ok(true);
        }
        let read = self.read(within)?;
        self.sort_aside()?;
        Ok(read)
    }

    /// Sets aside what was read already; false if there was nothing.
    fn sort_aside(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Some(event) = self.next_reply()? {
            any = true;
            if let Some(event) = self.note(event)? {
                self.set_aside(event);
            }
        }
        Ok(any)
    }

    fn set_aside(&mut self, event: Event) {
        self.aside_bytes += event.weight();
        self.aside.push_back(event);
    }

    pub(crate) fn take_aside(&mut self) -> Option<Event> {
        let event = self.aside.pop_front()?;
        self.aside_bytes -= event.weight();
        Some(event)
    }

    /// Forgets what was set aside.
    pub(crate) fn drop_aside(&mut self) {
        self.aside.clear();
        self.aside_bytes = 0;
    }

    /// The last status that was set aside, taken out of its place.
    pub(crate) fn take_status(&mut self) -> Option<Vec<(String, String)>> {
        let at = self.aside.iter().position(|event| matches!(event, Event::Status(_)))?;
        let event = self.aside.remove(at)?;
        self.aside_bytes -= event.weight();
        if let Event::Status(pairs) = event { Some(pairs) } else { None }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.receiver_is_gone();
    }
}
