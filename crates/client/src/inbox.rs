//! What came from the daemon and was not received yet. Reads from no socket: blocking and async clients hand it what they
//! read.
use crate::chunks::Chunks;
use crate::event::{Event, Shown};
use crate::reading::{Bookmark, Reached};
use crate::shared::{SessionEnd, SessionState};
use crate::silence::Silence;
use crate::{Address, Error, Progress, ReadingStatus, Status};
use consort_session::client::Replies;
use consort_session::event::{InPlace, look};
use consort_session::{self as session, VERSION, Welcome};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many bytes of events may wait while somebody waits for something else.
const UNREAD_MAX: usize = 64 << 20;

/// Cuts events out of what was read. Messages share the buffer in which they were read; nothing is copied.
#[derive(Debug)]
pub(crate) struct EventReader {
    replies: Replies,
    chunks: Chunks,
    /// Events read while something else was waited for.
    buffered: VecDeque<Event>,
    aside_bytes: usize,
    /// How often the daemon's status came.
    told: u64,
    /// How far the program has read.
    reached: Reached,
    silence: Silence,
    shared: Arc<SessionState>,
}

impl EventReader {
    pub(crate) fn new(shared: Arc<SessionState>) -> Self {
        let (replies, chunks) = (Replies::default(), Chunks::default());
        let (buffered, reached) = (VecDeque::new(), Reached::default());
        let silence = Silence::default();
        Self { replies, chunks, buffered, aside_bytes: 0, told: 0, reached, silence, shared }
    }

    /// The same where the daemon may not be silent for longer, once it has shown that it tells heartbeats.
    pub(crate) fn bearing(self, silence: Option<Duration>) -> Self {
        Self { silence: Silence::new(silence), ..self }
    }

    /// How long one may wait for bytes without a look at whether the daemon is there, where one would for that long.
    pub(crate) fn may_wait(&self, within: Option<Duration>) -> Option<Duration> {
        self.silence.within(within)
    }

    /// Something came that is not read from here.
    pub(crate) const fn on_bytes(&mut self) {
        self.silence.on_bytes();
    }

    /// A look has found that nothing came. The session is over if that was so for too long.
    pub(crate) fn on_nothing(&mut self) -> Result<(), Error> {
        if self.silence.step().is_none() {
            return Ok(());
        }
        match self.silence.on_nothing(Instant::now()) {
            None => Ok(()),
            Some(bound) => {
                let why = format!("timed out: nothing was heard of the daemon or its machine for {bound:?}");
                Err(self.shared.end(SessionEnd::Lost(why)))
            }
        }
    }

    pub(crate) fn shared(&self) -> &SessionState {
        &self.shared
    }

    pub(crate) fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Reads once with `read`, which returns nothing if nothing came in time; then this is false.
    pub(crate) fn read(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>) -> Result<bool, Error> {
        if let Some(error) = self.shared.ended() {
            return Err(error);
        }
        let lost = |why: String| self.shared.end(SessionEnd::Lost(why));
        match self.chunks.read(read).map_err(|error| lost(error.to_string()))? {
            None => self.on_nothing().map(|()| false),
            Some(nothing) if nothing.is_empty() => Err(lost("the daemon closed it".to_owned())),
            Some(bytes) => {
                self.silence.on_bytes();
                self.replies.feed(bytes);
                Ok(true)
            }
        }
    }

    /// The next event, as far as it was read.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, Error> {
        self.shared.check()?;
        match self.take_aside() {
            Some(event) => Ok(Some(event)),
            None => {
                let event = self.next_read()?;
                event.iter().for_each(|event| self.on_given(event));
                Ok(event)
            }
        }
    }

    /// How far the program has read.
    pub(crate) fn bookmark(&self) -> Option<Bookmark> {
        self.reached.bookmark()
    }

    /// The program is given an event.
    fn on_given(&mut self, event: &Event) {
        if let Event::Reading(ReadingStatus::Began { .. }) = event
            && let Some(from) = self.shared.reads()
        {
            self.reached.asked(&from);
        }
        self.reached.on_event(event);
    }

    /// Whether the daemon has let us in; nothing until it has spoken.
    pub(crate) fn welcome(&mut self, address: &Address) -> Result<Option<Welcome>, Error> {
        let no_daemon = |why: String| Error::NoDaemon { address: address.clone(), why };
        match self.next_reply().map_err(|error| no_daemon(error.to_string()))? {
            Some(session::DaemonEvent::Welcome(welcome)) if welcome.version == VERSION => Ok(Some(welcome)),
            Some(session::DaemonEvent::Welcome(welcome)) => Err(no_daemon(format!(
                "it speaks version {} of the client protocol, this library version {VERSION}; use those of one release",
                welcome.version
            ))),
            Some(session::DaemonEvent::Disconnect(farewell)) => Err(Error::NotWelcome(farewell)),
            Some(other) => Err(no_daemon(format!("it began with {other:?}"))),
            None => Ok(None),
        }
    }

    /// The next event that was read; none of those set aside.
    fn next_read(&mut self) -> Result<Option<Event>, Error> {
        if let Some(message) = self.replies.next_of_batch() {
            return Ok(Some(Event::of(message)));
        }
        while let Some(event) = self.next_reply()? {
            if let Some(event) = self.note(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn next_reply(&mut self) -> Result<Option<session::DaemonEvent>, Error> {
        self.replies
            .next_event()
            .map_err(|error| self.shared.end(SessionEnd::Lost(format!("the daemon sent a {error}"))))
    }

    /// Shows all events that were read; how many.
    pub(crate) fn show(&mut self, see: &mut impl FnMut(Shown<'_>)) -> Result<usize, Error> {
        self.shared.check()?;
        let mut shown = 0;
        loop {
            // A quick way to small messages, of which there are many.
            while self.buffered.is_empty()
                && let Some(message) = self.replies.borrow_of_batch()
            {
                see(Shown::Message(message));
                shown += 1;
            }
            match self.next() {
                Ok(Some(event)) => shown += Shown::show(event, see),
                Ok(None) => return Ok(shown),
                // It is told by the next call, too.
                Err(_) if shown > 0 => return Ok(shown),
                Err(end) => return Err(end),
            }
        }
    }

    /// Shows the message whose frame lies at the front of bytes that come next; how many bytes of them are done with.
    pub(crate) fn show_in_place(&self, bytes: &[u8], see: &mut impl FnMut(Shown<'_>)) -> Result<Option<usize>, Error> {
        let malformed = |error| self.shared.end(SessionEnd::Lost(format!("the daemon sent a {error}")));
        match look(bytes).map_err(malformed)? {
            InPlace::Message(mut message, len) => {
                self.replies.sent_by(&mut message);
                see(Shown::Message(message));
                Ok(Some(len))
            }
            InPlace::Other(_) => Ok(None),
        }
    }

    /// How many of the bytes that come next are to be read before one can look at more of them where they lie.
    pub(crate) fn to_read(&self, next: &[u8]) -> usize {
        if self.replies.is_through() {
            let others = if let Ok(InPlace::Other(others)) = look(next) { others } else { 0 };
            return others;
        }
        self.replies.lacks().unwrap_or(usize::MAX)
    }

    /// Whether nothing waits that was read: what comes next is the next event.
    pub(crate) fn is_through(&self) -> bool {
        self.buffered.is_empty() && self.replies.is_through()
    }

    /// Keeps what is not for the program.
    fn note(&mut self, event: session::DaemonEvent) -> Result<Option<Event>, Error> {
        Ok(Some(match event {
            session::DaemonEvent::Message(message) => Event::Message(message),
            session::DaemonEvent::Read(message) => Event::Read(message),
            session::DaemonEvent::Reading(status) => Event::Reading(status),
            session::DaemonEvent::Producer(status) => Event::Producer(status),
            session::DaemonEvent::Declared(status) => Event::Declared(status),
            session::DaemonEvent::Copies(copies) => Event::Copies(copies),
            session::DaemonEvent::Bound(bound) => Event::Bound(bound),
            session::DaemonEvent::Rotated(status) => Event::Rotated(status),
            session::DaemonEvent::Offer(offer) => Event::Offer(offer),
            session::DaemonEvent::Revoke(offer) => Event::Revoke { offer },
            session::DaemonEvent::Confirm(offer) => Event::Confirm { offer },
            session::DaemonEvent::GroupView(view) => Event::GroupView(view),
            session::DaemonEvent::GroupSignal(signal) => Event::GroupSignal(signal),
            session::DaemonEvent::View(view) => Event::View(view),
            session::DaemonEvent::Refused { request, refusal } => Event::Refused { send: request, refusal },
            session::DaemonEvent::Status(pairs) => {
                self.told += 1;
                Event::Status(Status::new(pairs))
            }
            session::DaemonEvent::Progress(progress) => {
                self.shared.has_progressed(progress);
                return Ok(None);
            }
            session::DaemonEvent::Waiting(waiting) => {
                self.shared.has_to_wait(waiting);
                return Ok(None);
            }
            session::DaemonEvent::Heartbeat => {
                self.silence.on_heartbeat();
                return Ok(None);
            }
            session::DaemonEvent::Disconnect(farewell) => return Err(self.shared.end(SessionEnd::Farewell(farewell))),
            // Nobody asked.
            session::DaemonEvent::Pong(_) | session::DaemonEvent::Welcome(_) | session::DaemonEvent::Incarnation(_) => {
                return Ok(None);
            }
        }))
    }

    /// Says so where more waits to be received than may.
    pub(crate) const fn check_unread(&self) -> Result<(), Error> {
        if self.aside_bytes > UNREAD_MAX { Err(Error::Unread { bytes: self.aside_bytes }) } else { Ok(()) }
    }

    /// Sets aside what was read already; false if there was nothing.
    pub(crate) fn sort_aside(&mut self) -> Result<bool, Error> {
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
        self.buffered.push_back(event);
    }

    pub(crate) fn take_aside(&mut self) -> Option<Event> {
        let event = self.buffered.pop_front()?;
        self.aside_bytes -= event.weight();
        self.on_given(&event);
        Some(event)
    }

    /// Forgets what was set aside.
    pub(crate) fn drop_buffered(&mut self) {
        self.buffered.clear();
        self.aside_bytes = 0;
    }

    /// The status that came as answer `number`, taken out of its place among what was set aside. Answers that came too
    /// late for those who asked stay there.
    pub(crate) fn take_status(&mut self, number: u64) -> Option<Status> {
        let later = usize::try_from(self.told.checked_sub(number)?).ok()?;
        let is_status = |(_, event): &(usize, &Event)| matches!(event, Event::Status(_));
        let (at, _) = self.buffered.iter().enumerate().rev().filter(is_status).nth(later)?;
        let event = self.buffered.remove(at)?;
        self.aside_bytes -= event.weight();
        if let Event::Status(status) = event { Some(status) } else { None }
    }
}
