//! The half of a client that receives.
use crate::event::{Event, Shown};
use crate::inbox::EventReader;
use crate::shared::SessionEnd;
use crate::stream::{DaemonStream, time_left, until};
use crate::transport::{self, TransportReader, TransportWriter};
use crate::{Bookmark, Error, Progress, WaitCause};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How long what came before the end of a broken connection is read.
pub(crate) const LAST_READ: Duration = Duration::from_secs(1);

/// After so many bytes that were shown where they lie, the daemon has their room again.
const STEP: usize = 128 << 10;

/// Receives events. Messages share the buffer in which they were read; nothing is copied.
///
/// It must be read for its [`Sender`](crate::Sender) to hear of free credit.
#[derive(Debug)]
pub struct Receiver {
    incoming: TransportReader,
    pub(crate) inbox: EventReader,
}

impl Receiver {
    pub(crate) const fn new(incoming: TransportReader, inbox: EventReader) -> Self {
        Self { incoming, inbox }
    }

    /// The way back, once the daemon has spoken.
    pub(crate) fn outgoing(&mut self, stream: DaemonStream) -> TransportWriter {
        self.incoming.outgoing(stream)
    }

    /// The next event; `None` if none came in time. Without a time it waits for as long as it takes.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] or [`Error::Disconnected`] once everything that came before was received.
    pub fn receive(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<Event>, Error> {
        let within = within.into();
        if let Some(event) = self.inbox.next()? {
            return Ok(Some(event));
        }
        let deadline = until(within);
        let mut left = within;
        while self.read(left)? {
            if let Some(event) = self.inbox.next()? {
                return Ok(Some(event));
            }
            left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
        }
        Ok(None)
    }

    /// The next event, if one is here; waits for nothing.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive(&mut self) -> Result<Option<Event>, Error> {
        self.receive(Duration::ZERO)
    }

    /// The next event of those that were read already; reads nothing and waits for nothing. After [`Self::receive`] this
    /// takes the rest of what came together with its event.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_buffered(&mut self) -> Result<Option<Event>, Error> {
        self.inbox.next()
    }

    /// Shows the next event, and all others that came with it; returns how many, 0 if none came in time. See
    /// [`Client::receive_borrowed`](crate::Client::receive_borrowed).
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_borrowed(
        &mut self,
        within: impl Into<Option<Duration>>,
        mut see: impl FnMut(Shown<'_>),
    ) -> Result<usize, Error> {
        let within = within.into();
        let (deadline, mut left, mut last) = (until(within), within, false);
        loop {
            let read = self.inbox.show(&mut see)?;
            match self.show_in_place(&mut see) {
                // It is told by the next call, too.
                Err(end) if read == 0 => return Err(end),
                shown => match read + shown.unwrap_or(0) {
                    0 if !last => {}
                    shown => return Ok(shown),
                },
            }
            if !self.read_more(left)? {
                return Ok(0);
            }
            left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            last = left.is_some_and(|left| left.is_zero());
        }
    }

    /// Shows large messages where they lie in memory: those that are there now, as far as nothing else is between them.
    fn show_in_place(&mut self, see: &mut impl FnMut(Shown<'_>)) -> Result<usize, Error> {
        let mut shown = 0;
        if let Some(end) = self.inbox.shared().ended() {
            return Err(end);
        }
        if !self.inbox.is_through() || !self.incoming.reads_in_place() {
            return Ok(0);
        }
        let mut left = self.view()?.len();
        while left > 0 {
            let mut passed = 0;
            while passed < STEP.min(left) {
                let view = self.incoming.view().map_err(|error| self.lost(&error))?;
                // Less than there was waits only for a daemon whose counter goes back.
                let Some(next) = view.get(passed..left) else { break };
                let Some(len) = self.inbox.show_in_place(next, see)? else { break };
                (passed, shown) = (passed + len, shown + 1);
            }
            if passed == 0 {
                break;
            }
            self.incoming.pass(passed).map_err(|error| self.lost(&error))?;
            left -= passed;
        }
        Ok(shown)
    }

    /// Waits for more to show, and reads of it what cannot be shown where it lies. False if nothing came in time.
    fn read_more(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        if !self.incoming.reads_in_place() {
            return self.read(within);
        }
        let step = self.inbox.may_wait(within);
        if !self.incoming.await_bytes(step).map_err(|error| self.lost(&error))? {
            return self.inbox.on_nothing().map(|()| step != within);
        }
        self.inbox.on_bytes();
        let view = self.view()?;
        let (is_end, most) = (view.is_empty(), self.inbox.to_read(view));
        if most == 0 && !is_end {
            return Ok(true);
        }
        self.inbox.read(|chunk| {
            let most = most.clamp(1, chunk.len());
            self.incoming.read(&mut chunk[..most], Some(Duration::ZERO))
        })
    }

    /// Waits until something can be read or written, or it is time to look. False if neither came in time.
    pub(crate) fn await_either(
        &mut self,
        outgoing: &mut TransportWriter,
        within: Option<Duration>,
    ) -> Result<bool, Error> {
        let step = self.inbox.may_wait(within);
        let ready = transport::await_either(&mut self.incoming, outgoing, step).map_err(|error| self.lost(&error))?;
        Ok(ready || step != within)
    }

    fn view(&self) -> Result<&[u8], Error> {
        self.incoming.view().map_err(|error| self.lost(&error))
    }

    fn lost(&self, why: &std::io::Error) -> Error {
        self.inbox.shared().end(SessionEnd::Lost(why.to_string()))
    }

    /// The connection's descriptor, for a program that waits with a `poll` of its own: readable once something came. Take
    /// events with [`Self::try_receive`] until there is none, and only then wait: for an eighth of
    /// [`ConnectOptions::host_timeout`](crate::ConnectOptions::host_timeout) at most, so that a silent machine is noticed.
    /// Read or write nothing there. `None` where the daemon shares memory:
    /// [`ConnectOptions::without_shared_memory`](crate::ConnectOptions::without_shared_memory).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.descriptor()
    }

    /// How far the reading has come: behind the last message that was received. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.inbox.bookmark()
    }

    /// How far the sends are.
    pub fn progress(&self) -> Progress {
        self.inbox.progress()
    }

    /// What sends that are under way wait for, as far as was read; `None` while the daemon says nothing of it.
    pub fn wait_cause(&self) -> Option<WaitCause> {
        self.inbox.shared().cause()
    }

    /// Reads once; false if nothing came in time.
    pub(crate) fn read(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        let deadline = if self.inbox.may_wait(within) == within { None } else { until(within) };
        let mut left = within;
        loop {
            let step = self.inbox.may_wait(left);
            if self.inbox.read(|chunk| self.incoming.read(chunk, step))? {
                return Ok(true);
            }
            if step == left {
                return Ok(false);
            }
            left = left.and(time_left(deadline));
        }
    }

    /// Reads all that came before the end of a connection that is known to be broken, and says what the end was.
    pub(crate) fn read_to_end(&mut self) -> Error {
        let deadline = Instant::now() + LAST_READ;
        loop {
            match self.fill_aside(Some(deadline.saturating_duration_since(Instant::now()))) {
                Ok(true) => {}
                Ok(false) => {
                    return self
                        .inbox
                        .shared()
                        .end(SessionEnd::Lost("nothing more can be sent or received".to_owned()));
                }
                Err(end) => return end,
            }
        }
    }

    /// Sets aside what the program is to receive later: what was read already, or else what one read
    /// brings. False if nothing came in time.
    pub(crate) fn read_buffered(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        self.inbox.check_unread()?;
        self.fill_aside(within)
    }

    fn fill_aside(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        if self.inbox.sort_aside()? {
            return Ok(true);
        }
        let read = self.read(within)?;
        self.inbox.sort_aside()?;
        Ok(read)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.inbox.shared().receiver_is_gone();
    }
}
