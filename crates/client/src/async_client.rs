//! A client for programs that run on tokio.
mod poll;

use crate::async_stream::AsyncStream;
use crate::async_timer::Timer;
use crate::inbox::EventReader;
use crate::outbox::{Outgoing, SendBuffer};
use crate::owner::check_peer;
use crate::reading;
use crate::shared::SessionState;
use crate::{
    Address, Addressee, Binding, Bookmark, ConnectOptions, DisconnectReason, Draft, Error, Event, GroupName, Holder,
    Position, Progress, ReadFrom, Service, Status, WaitCause, Welcome,
};
use crate::{trace, transport};
use consort_session::client::RequestWriter;
use consort_session::{DeclareRequest, OpenRequest};
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A session with a daemon, for one task. The same as [`Client`](crate::Client), without a thread that waits; needs a
/// tokio runtime with I/O and time enabled.
///
/// Whenever it waits it writes what was collected and keeps what comes in for [`Self::receive`]. Every call may be given
/// up at any time, by `select!` or a timeout: a join, leave or multicast that was given up is not sent and uses no
/// number, and an event that was not returned is the next one to be.
///
/// It is a `Stream` of its events and a `Sink` of [`Draft`]s, and [`Self::split`] makes halves for several tasks.
///
/// When it is dropped, what was collected is written as far as the connection takes it at once: flush or close before.
///
/// ```no_run
/// use consort::{Address, AsyncClient, ConnectOptions, Event, GroupName, Service};
///
/// # async fn talk() -> Result<(), Box<dyn std::error::Error>> {
/// let address: Address = "127.0.0.1:4840".parse()?;
/// let mut client = AsyncClient::connect(&address, &ConnectOptions::default().called("ann")?).await?;
/// let orders = GroupName::new("orders")?;
/// client.join(&orders).await?;
/// client.multicast(Service::Agreed, &[orders], b"a pound of tea").await?;
/// loop {
///     if let Event::Message(message) = client.receive().await? {
///         println!("{:?}", message.payload());
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncClient {
    stream: AsyncStream,
    outbox: SendBuffer,
    inbox: EventReader,
    welcome: Welcome,
    send_within: Option<Duration>,
    /// Once nothing more can be written: until when what came before is read.
    last_read: Option<Instant>,
    /// What the sink was given and there is no room for yet.
    draft: Option<Draft>,
    timer: Timer,
    /// How often something was read or written, or its end seen.
    steps: u64,
    /// The stream has told the error that ended the session.
    told_end: bool,
}

impl AsyncClient {
    /// Connects to a daemon and opens a session.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Connect`], [`Error::NoDaemon`], [`Error::NotWelcome`] or [`Error::TimedOut`].
    pub async fn connect(address: &Address, options: &ConnectOptions) -> Result<Self, Error> {
        let connect = async { trace::connected(Self::open_either(address, options).await) };
        trace::while_connecting(address, connect).await
    }

    async fn open_either(address: &Address, options: &ConnectOptions) -> Result<Self, Error> {
        options.check()?;
        let silence = options.silence_at(address);
        let open = async {
            match Self::open(address, options, silence).await {
                Err(error) if silence.is_some() && error.is_of_an_earlier_release() => {
                    Self::open(address, options, None).await
                }
                opened => opened,
            }
        };
        timeout(options.connect_within, open).await.unwrap_or(Err(Error::TimedOut { cause: None }))
    }

    async fn open(address: &Address, options: &ConnectOptions, silence: Option<Duration>) -> Result<Self, Error> {
        let failed = |source| Error::Connect { address: address.clone(), source };
        let (mut stream, problem) = AsyncStream::connect(address, options).await.map_err(failed)?;
        if options.token.is_some() {
            check_peer(stream.descriptor(), address)?;
        }
        let offer = if options.shares_memory_at(address) { transport::offer() } else { None };
        let introduced = stream.introduce(&options.hello(silence), offer).await;
        introduced.map_err(|source| problem.explain(address, failed(source)))?;
        let shared = Arc::new(SessionState::default());
        let mut inbox = EventReader::new(Arc::clone(&shared)).bearing(silence);
        let welcome = await_welcome(&mut stream, &mut inbox, address).await;
        let welcome = welcome.map_err(|error| problem.explain(address, error))?;
        let outbox = SendBuffer::new(RequestWriter::new(&welcome), options.unbatched, shared);
        let send_within = options.send_within;
        let (last_read, draft, timer, steps, told_end) = (None, None, Timer::default(), 0, false);
        Ok(Self { stream, outbox, inbox, welcome, send_within, last_read, draft, timer, steps, told_end })
    }

    /// What the daemon said when the session opened: who it is, who this client is, and its limits.
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Asks to join a group; returns the send's number. The group view that follows says that it happened.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub async fn join(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, false), self.send_within).await
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub async fn join_closed(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, true), self.send_within).await
    }

    /// Asks to leave a group; returns the send's number.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub async fn leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Leave(group), self.send_within).await
    }

    /// Sends a message to all members of the groups and to the clients that are named; returns the send's number. Waits
    /// for credit, meanwhile keeping what comes in.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] and [`Error::Unread`] nothing was sent.
    pub async fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload), self.send_within).await
    }

    /// As [`Self::multicast`], but waits for credit at most so long.
    ///
    /// # Errors
    /// [`Error::TimedOut`] names what is waited for; nothing was sent. Otherwise as [`Self::multicast`].
    pub async fn multicast_within<T: Addressee>(
        &mut self,
        service: Service,
        to: &[T],
        payload: &[u8],
        within: Duration,
    ) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload), Some(within)).await
    }

    /// As [`Self::multicast`], but does not wait for credit. Credit comes back while events are received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] where there is too little credit; otherwise as [`Self::multicast`].
    pub fn try_multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.try_send(Outgoing::Multicast(service, to, payload))
    }

    /// Reads what the groups were sent, from a place on, and then what comes: as
    /// [`Client::read`](crate::Client::read). If the call is given up, the daemon is asked all the same, later.
    ///
    /// # Errors
    /// [`Error::Groups`]; [`Error`] where the session is over; [`Error::Unread`].
    pub async fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        reading::put(&mut self.outbox, groups, &from.into())?;
        self.flush().await
    }

    /// Says that a copy of a program keeps by itself all that stands before a bookmark: as
    /// [`Client::declare`](crate::Client::declare). If the call is given up, it is said all the same, later.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn declare(&mut self, holder: &Holder, bookmark: &Bookmark) -> Result<(), Error> {
        let from = Some(Position(bookmark.next.position.max(1)));
        self.outbox.put_declare(DeclareRequest { order: bookmark.order, holder: holder.clone(), from, epoch: 0 });
        self.flush().await
    }

    /// Asks what the order knows of the copies of a program: as [`Client::ask_copies`](crate::Client::ask_copies). If the call is
    /// given up, it is asked all the same, later.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn ask_copies(&mut self, program: &Holder) -> Result<(), Error> {
        self.outbox.put_ask_copies(program);
        self.flush().await
    }

    /// Says in which state a copy of a program starts: as [`Client::bind`](crate::Client::bind). If the call is given up, it is
    /// said all the same, later.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn bind(&mut self, binding: &Binding) -> Result<(), Error> {
        self.outbox.put_bind(binding);
        self.flush().await
    }

    /// Says what a bound copy keeps by itself: as [`Client::declare_bound`](crate::Client::declare_bound). If the call is given up,
    /// it is said all the same, later.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn declare_bound(
        &mut self,
        holder: &Holder,
        epoch: u64,
        order: u64,
        from: Position,
    ) -> Result<(), Error> {
        self.outbox.put_declare(DeclareRequest { order, holder: holder.clone(), from: Some(from), epoch });
        self.flush().await
    }

    /// Says that nothing need be retained for a holder any more: as [`Client::withdraw`](crate::Client::withdraw).
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn withdraw(&mut self, holder: &Holder) -> Result<(), Error> {
        self.outbox.put_declare(DeclareRequest { order: 0, holder: holder.clone(), from: None, epoch: 0 });
        self.flush().await
    }

    /// Begins a reading without waiting.
    pub(crate) fn ask_to_read(&mut self, groups: &[GroupName], from: &ReadFrom) -> Result<(), Error> {
        reading::put(&mut self.outbox, groups, from)?;
        self.write();
        Ok(())
    }

    /// Has multicasts numbered under a producer from its opening on.
    pub(crate) fn put_open(&mut self, open: &OpenRequest) {
        self.outbox.put_open(open);
        self.write();
    }

    /// Has the producer that is open forgotten.
    pub(crate) fn forget_producer(&mut self) {
        self.outbox.put_forget();
        self.write();
    }

    /// The next event of those that were read already.
    pub(crate) fn next_read(&mut self) -> Result<Option<Event>, Error> {
        self.inbox.next()
    }

    /// How often something was read or written, or its end seen.
    pub(crate) const fn took_steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn has_unwritten(&self) -> bool {
        !self.outbox.bytes().is_empty()
    }

    /// Ends the reading. What was told before is still received, then an [`Event::Reading`] that says the end.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn stop_reading(&mut self) -> Result<(), Error> {
        self.outbox.put_read(&ReadFrom::Start, &[]);
        self.flush().await
    }

    /// How far the reading has come: behind the last message that was received. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.inbox.bookmark()
    }

    /// Writes all that was collected.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_flush_all(cx)).await
    }

    /// The next event. What was collected is written first. If the call is given up no event is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] or [`Error::Disconnected`] once everything that came before was received.
    pub async fn receive(&mut self) -> Result<Event, Error> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// The next event, if one is here; waits for nothing. The runtime must have had a turn since the event came: a loop
    /// around this call awaits something between two calls.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive(&mut self) -> Result<Option<Event>, Error> {
        self.inbox.shared().check()?;
        self.write();
        if let Some(event) = self.inbox.next()? {
            return Ok(Some(event));
        }
        if let Some(error) = self.inbox.shared().ended() {
            return Err(error);
        }
        self.inbox.read(|chunk| self.stream.try_read(chunk))?;
        self.inbox.next()
    }

    /// Writes all that was collected and waits until every send is ordered or refused.
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn wait_ordered(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_ordered(cx)).await
    }

    /// Asks the daemon for its status and waits for the answer. If the call is given up, the answer comes as
    /// [`Event::Status`].
    ///
    /// # Errors
    /// [`Error`] where the session is over; [`Error::Unread`].
    pub async fn status(&mut self) -> Result<Status, Error> {
        let number = self.outbox.put_status();
        loop {
            if let Some(status) = self.inbox.take_status(number) {
                return Ok(status);
            }
            self.step_aside().await?;
        }
    }

    /// Says good-bye, waits until the daemon has taken all that was sent, and ends the session. Events that come
    /// meanwhile are lost; so is the certainty that the last sends are ordered, unless [`Self::wait_ordered`] was called.
    ///
    /// # Errors
    /// [`Error`] where the session ended in another way.
    pub async fn close(mut self) -> Result<(), Error> {
        self.outbox.put_goodbye();
        loop {
            self.inbox.drop_buffered();
            match self.step_aside().await {
                Ok(()) => {}
                Err(Error::Disconnected { farewell, .. }) if farewell.reason == DisconnectReason::Goodbye => {
                    return Ok(());
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// How many sends were made: the number of the last.
    pub const fn sent(&self) -> u64 {
        self.outbox.sent()
    }

    /// How far the sends are.
    pub fn progress(&self) -> Progress {
        self.inbox.progress()
    }

    /// What sends that are under way wait for, as far as was read; `None` while the daemon says nothing of it.
    pub fn wait_cause(&self) -> Option<WaitCause> {
        self.inbox.shared().cause()
    }

    async fn send<T: Addressee>(&mut self, send: Outgoing<'_, T>, within: Option<Duration>) -> Result<u64, Error> {
        let late = |client: &Self| client.inbox.shared().timed_out().of_send();
        let sent = poll_fn(|cx| self.poll_send(cx, send));
        let Some(within) = within else { return sent.await };
        match timeout(within, sent).await {
            Ok(sent) => sent,
            Err(_) => Err(late(self)),
        }
    }

    pub(crate) fn try_send<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, Error> {
        self.try_draft()?;
        self.put(send)
    }

    fn put<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, Error> {
        let sent = self.outbox.append(send);
        if let Some(payload) = send.large().filter(|_| sent.is_ok()) {
            let written = self.stream.write_now(&[IoSlice::new(self.outbox.bytes()), IoSlice::new(payload)]);
            // An error comes again with the rest, and is told then.
            self.outbox.put_rest(payload, written.unwrap_or(0));
        }
        if sent.is_err() || self.outbox.wants_write() {
            self.write();
        }
        sent
    }

    async fn step_aside(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_step_aside(cx)).await
    }
}

impl Drop for AsyncClient {
    fn drop(&mut self) {
        if self.inbox.shared().check().is_ok() {
            self.write();
        } else {
            self.stream.leave_registered();
        }
    }
}

/// The first thing that a daemon says.
async fn await_welcome(stream: &mut AsyncStream, inbox: &mut EventReader, address: &Address) -> Result<Welcome, Error> {
    loop {
        if let Some(welcome) = inbox.welcome(address)? {
            return Ok(welcome);
        }
        stream.ready(false).await.map_err(|source| Error::Connect { address: address.clone(), source })?;
        let read = inbox.read(|chunk| stream.try_read(chunk));
        read.map_err(|error| Error::NoDaemon { address: address.clone(), why: error.to_string() })?;
    }
}
