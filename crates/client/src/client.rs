//! Both halves of a client, for one thread.
use crate::inbox::EventReader;
use crate::outbox::{Outgoing, SendBuffer};
use crate::owner::check_peer;
use crate::reading;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::shared::SessionState;
use crate::stream::{DaemonStream, is_over, time_left, until};
use crate::trace;
use crate::transport::{self, TransportReader};
use crate::{
    Address, Addressee, Binding, Bookmark, ConnectOptions, DisconnectReason, Error, Event, GroupName, Holder, Position,
    Progress, ReadFrom, Service, Shown, Status, WaitCause, Welcome,
};
use consort_session::client::RequestWriter;
use consort_session::{DeclareRequest, OpenRequest};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session with a daemon, for one thread. Whenever it waits it writes what was collected and keeps what comes in for
/// [`Self::receive`].
#[derive(Debug)]
pub struct Client {
    sender: Sender,
    receiver: Receiver,
    welcome: Welcome,
}

impl Client {
    /// Connects to a daemon and opens a session.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Connect`], [`Error::NoDaemon`], [`Error::NotWelcome`] or [`Error::TimedOut`].
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Self, Error> {
        let _connecting = trace::connecting(address);
        trace::connected(Self::open_either(address, options))
    }

    fn open_either(address: &Address, options: &ConnectOptions) -> Result<Self, Error> {
        options.check()?;
        let deadline = until(Some(options.connect_within));
        let silence = options.silence_at(address);
        match Self::open(address, options, silence, deadline) {
            Err(error) if silence.is_some() && error.is_of_an_earlier_release() => {
                Self::open(address, options, None, deadline)
            }
            opened => opened,
        }
    }

    fn open(
        address: &Address,
        options: &ConnectOptions,
        silence: Option<Duration>,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Connect { address: address.clone(), source };
        let (mut stream, problem) = DaemonStream::connect(address, options).map_err(failed)?;
        if options.token.is_some() {
            check_peer(stream.descriptor(), address)?;
        }
        let shared = Arc::new(SessionState::default());
        let inbox = EventReader::new(Arc::clone(&shared)).bearing(silence);
        let offer = if options.shares_memory_at(address) { transport::offer() } else { None };
        let introduced = stream.introduce(&options.hello(silence), offer.as_ref(), options.connect_within);
        introduced.map_err(|source| problem.explain(address, failed(source)))?;
        let mut receiver = Receiver::new(TransportReader::new(stream.try_clone().map_err(failed)?, offer), inbox);
        let welcome =
            await_welcome(&mut receiver, address, deadline).map_err(|error| problem.explain(address, error))?;
        let outbox = SendBuffer::new(RequestWriter::new(&welcome), options.unbatched, shared);
        let sender = Sender::new(receiver.outgoing(stream), outbox, options.send_within);
        Ok(Self { sender, receiver, welcome })
    }

    #[cfg(test)]
    pub(crate) const fn of(sender: Sender, receiver: Receiver, welcome: Welcome) -> Self {
        Self { sender, receiver, welcome }
    }

    #[cfg(test)]
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.sender.outbox.bytes().is_empty()
    }

    /// What the daemon said when the session opened: who it is, who this client is, and its limits.
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Asks to join a group; returns the send's number. The group view that follows says that it happened.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, false), self.sender.send_within())
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Join(group, true), self.sender.send_within())
    }

    /// Asks to leave a group; returns the send's number.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] nothing was sent.
    pub fn leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.send::<GroupName>(Outgoing::Leave(group), self.sender.send_within())
    }

    /// Sends a message to all members of the groups and to the clients that are named; returns the send's number. Waits
    /// for credit, meanwhile keeping what comes in.
    ///
    /// # Errors
    /// [`Error`] says what is wrong; with [`Error::TimedOut`] and [`Error::Unread`] nothing was sent.
    pub fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        self.send(Outgoing::Multicast(service, to, payload), self.sender.send_within())
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

    /// As [`Self::multicast`], but does not wait for credit. Credit comes back while events are received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] where there is too little credit; otherwise as [`Self::multicast`].
    pub fn try_multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, Error> {
        let sent = self.sender.try_multicast(service, to, payload);
        self.explained(sent)
    }

    /// Reads what the groups were sent, from a place on, and then what comes: [`Event::Reading`] says that it begins, or why
    /// not, [`Event::Read`] is each message. No group is joined, and nobody learns of it. The daemons must keep an order
    /// that lasts (`protocol = "paxos"`). A client has one reading; another one ends it.
    ///
    /// Closed groups are read by their members only.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let address: consort::Address = "127.0.0.1:4840".parse()?;
    /// # let mut client = consort::Client::connect(&address, &consort::ConnectOptions::default())?;
    /// use consort::{Event, GroupName, ReadFrom, ReadingStatus};
    ///
    /// client.read(&[GroupName::new("orders")?], ReadFrom::Start)?;
    /// while let Some(event) = client.receive(None)? {
    ///     match event {
    ///         Event::Read(message) => println!("{:?}: {:?}", message.position(), message.payload()),
    ///         Event::Reading(ReadingStatus::Ended(end)) => return Err(end.into()),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Groups`]; [`Error`] where the session is over.
    pub fn read(&mut self, groups: &[GroupName], from: impl Into<ReadFrom>) -> Result<(), Error> {
        reading::put(&mut self.sender.outbox, groups, &from.into())?;
        self.flush()
    }

    /// Ends the reading. What was told before is still received, then an [`Event::Reading`] that says the end.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn stop_reading(&mut self) -> Result<(), Error> {
        self.sender.outbox.put_read(&ReadFrom::Start, &[]);
        self.flush()
    }

    /// Says that a copy of a program keeps by itself all that stands before a bookmark. What a majority of the copies of a
    /// program lacks is retained for them at every daemon, up to four times `retain`, whoever is connected or killed
    /// meanwhile. The daemons must keep an order that lasts (`protocol = "paxos"`). The answer is an [`Event::Declared`]; of
    /// one holder only the latest is answered.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let address: consort::Address = "127.0.0.1:4840".parse()?;
    /// # let mut client = consort::Client::connect(&address, &consort::ConnectOptions::default())?;
    /// if let Some(bookmark) = client.bookmark() {
    ///     // Only once the program's own disk has what was read.
    ///     client.declare(&"ledger/1".parse()?, &bookmark)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn declare(&mut self, holder: &Holder, bookmark: &Bookmark) -> Result<(), Error> {
        let from = Some(Position(bookmark.next.position.max(1)));
        self.sender.outbox.put_declare(DeclareRequest {
            order: bookmark.order,
            holder: holder.clone(),
            from,
            epoch: 0,
        });
        self.flush()
    }

    /// Asks what the order knows of the copies of a program, of which `program` is any. The answer is an [`Event::Copies`]. A
    /// daemon that has yet to join the others answers once it has, so that a program that starts beside it need not ask again.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn ask_copies(&mut self, program: &Holder) -> Result<(), Error> {
        self.sender.outbox.put_ask_copies(program);
        self.flush()
    }

    /// Says in which state a copy of a program starts. From then on the log lets nothing go that a majority of the copies lacks,
    /// whatever its budget (`protocol = "paxos"` with `storage` sync or async). The answer is an [`Event::Bound`]; the daemon
    /// asks for it until the log has it. If the connection is lost before, ask for the copies: a binding with the same token
    /// is its own.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn bind(&mut self, binding: &Binding) -> Result<(), Error> {
        self.sender.outbox.put_bind(binding);
        self.flush()
    }

    /// Says that a copy that is bound keeps by itself all that is before a position. It counts under this epoch only. The answer
    /// is an [`Event::Declared`]; of one holder only the latest is answered.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn declare_bound(&mut self, holder: &Holder, epoch: u64, order: u64, from: Position) -> Result<(), Error> {
        self.sender.outbox.put_declare(DeclareRequest { order, holder: holder.clone(), from: Some(from), epoch });
        self.flush()
    }

    /// Says that nothing need be retained for a holder any more. The answer is an [`Event::Declared`].
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn withdraw(&mut self, holder: &Holder) -> Result<(), Error> {
        self.sender.outbox.put_declare(DeclareRequest { order: 0, holder: holder.clone(), from: None, epoch: 0 });
        self.flush()
    }

    /// Asks that all daemons seal what they say to each other with the next key of their key files. Only the daemon's own
    /// user and root may, at its Unix socket. The answer is an [`Event::Rotated`].
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn rotate_key(&mut self) -> Result<(), Error> {
        self.sender.outbox.put_rotate();
        self.flush()
    }

    /// Has multicasts numbered under a producer from its [`Opened`](consort_session::ProducerStatus::Opened) on.
    pub(crate) fn open_producer(&mut self, open: &OpenRequest) -> Result<(), Error> {
        self.sender.outbox.put_open(open);
        self.flush()
    }

    /// Has the producer that is open forgotten.
    pub(crate) fn forget_producer(&mut self) -> Result<(), Error> {
        self.sender.outbox.put_forget();
        self.flush()
    }

    /// The connection's descriptor, for a program that waits with a `poll` of its own: readable once something came. Take
    /// events with [`Self::try_receive`] until there is none, and only then wait: for an eighth of
    /// [`ConnectOptions::host_timeout`] at most, so that a silent machine is noticed. Read or write nothing there. `None`
    /// where the daemon shares memory: [`ConnectOptions::without_shared_memory`].
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.descriptor()
    }

    /// How far the reading has come: behind the last message that was received. `None` before any began.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.receiver.bookmark()
    }

    /// Writes all that was collected.
    ///
    /// # Errors
    /// [`Error`] where the session is over.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_until(None)
    }

    /// The next event; `None` if none came in time. Without a time it waits for as long as it takes. What was collected
    /// is written first.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] or [`Error::Disconnected`] once everything that came before was received.
    pub fn receive(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<Event>, Error> {
        let within = within.into();
        let (mut deadline, mut left) = (None, within);
        loop {
            match self.write() {
                Ok(true) => return self.receiver.receive(left),
                Ok(false) => deadline = deadline.or_else(|| until(within)),
                Err(error) => return self.receive_last(error),
            }
            let event = self.receiver.receive(Duration::ZERO)?;
            if event.is_some() || is_over(left) || !self.await_either(left)? {
                return Ok(event);
            }
            left = time_left(deadline);
        }
    }

    /// Shows the next event, and all others that came with it, to `see`; returns how many, 0 if none came in time. As
    /// [`Self::receive`] otherwise.
    ///
    /// Where the daemon shares memory and runs as this program's own user, or as root, large messages are shown where
    /// they lie in it, and not copied at all. So `see` should be quick: while it runs, the daemon has no use of their
    /// room. What is to be kept is copied by it, with [`to_kept`](crate::BorrowedMessage::to_kept) or otherwise. Should it
    /// panic, a large message that it was shown may be shown again.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), consort::Error> {
    /// # let (address, options) = ("127.0.0.1:4840".parse().unwrap(), consort::ConnectOptions::default());
    /// # let mut client = consort::Client::connect(&address, &options)?;
    /// use consort::{Event, Shown};
    ///
    /// let mut sum = 0_u64;
    /// while client.receive_borrowed(None, |shown| match shown {
    ///     Shown::Message(message) => sum += message.payload().iter().map(|byte| u64::from(*byte)).sum::<u64>(),
    ///     Shown::Other(Event::GroupView(view)) => println!("{} in the group", view.members.len()),
    ///     Shown::Other(_) => {}
    /// })? > 0 {}
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_borrowed(
        &mut self,
        within: impl Into<Option<Duration>>,
        mut see: impl FnMut(Shown<'_>),
    ) -> Result<usize, Error> {
        let within = within.into();
        let (mut deadline, mut left) = (None, within);
        loop {
            match self.write() {
                Ok(true) => return self.receiver.receive_borrowed(left, see),
                Ok(false) => deadline = deadline.or_else(|| until(within)),
                Err(error) => {
                    return self.receive_last(error).map(|event| event.map_or(0, |event| Shown::show(event, &mut see)));
                }
            }
            let shown = self.receiver.receive_borrowed(Duration::ZERO, &mut see)?;
            if shown > 0 || is_over(left) || !self.await_either(left)? {
                return Ok(shown);
            }
            left = time_left(deadline);
        }
    }

    /// The next event, if one is here; waits for nothing. What was collected is written as far as the connection takes
    /// it at once.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive(&mut self) -> Result<Option<Event>, Error> {
        self.receive(Duration::ZERO)
    }

    /// The next event of those that were read already; writes and reads nothing and waits for nothing. After
    /// [`Self::receive`] this takes the rest of what came together with its event.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_buffered(&mut self) -> Result<Option<Event>, Error> {
        self.receiver.receive_buffered()
    }

    /// Writes all that was collected and waits until every send is ordered or refused.
    ///
    /// # Errors
    /// [`Error::TimedOut`] where the time was not enough; [`Error`] where the session is over.
    pub fn wait_ordered(&mut self, within: impl Into<Option<Duration>>) -> Result<(), Error> {
        let deadline = until(within.into());
        self.flush_until(deadline)?;
        while self.progress().ordered < self.sent() {
            self.read_until(deadline)?;
        }
        Ok(())
    }

    /// Asks the daemon for its status and waits for the answer. One that comes too late comes as [`Event::Status`].
    ///
    /// # Errors
    /// [`Error::TimedOut`] where the time was not enough; [`Error`] where the session is over.
    pub fn status(&mut self, within: impl Into<Option<Duration>>) -> Result<Status, Error> {
        let deadline = until(within.into());
        let number = self.sender.outbox.put_status();
        self.flush_until(deadline)?;
        loop {
            if let Some(status) = self.receiver.inbox.take_status(number) {
                return Ok(status);
            }
            self.read_until(deadline)?;
        }
    }

    /// Says good-bye, waits until the daemon has taken all that was sent, and ends the session. Events that come
    /// meanwhile are lost; so is the certainty that the last sends are ordered, unless [`Self::wait_ordered`] was called.
    ///
    /// # Errors
    /// [`Error`] where the session ended in another way.
    pub fn close(mut self, within: impl Into<Option<Duration>>) -> Result<(), Error> {
        let deadline = until(within.into());
        self.sender.outbox.put_goodbye();
        loop {
            self.receiver.inbox.drop_buffered();
            match self.flush_until(deadline).and_then(|()| self.read_until(deadline)) {
                Ok(()) | Err(Error::Unread { .. }) => {}
                Err(Error::Disconnected { farewell, .. }) if farewell.reason == DisconnectReason::Goodbye => {
                    return Ok(());
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// How many sends were made: the number of the last.
    pub const fn sent(&self) -> u64 {
        self.sender.sent()
    }

    /// How far the sends are, as far as was read.
    pub fn progress(&self) -> Progress {
        self.receiver.progress()
    }

    /// What sends that are under way wait for, as far as was read; `None` while the daemon says nothing of it.
    pub fn wait_cause(&self) -> Option<WaitCause> {
        self.receiver.wait_cause()
    }

    /// Makes two halves for two threads.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    fn send<T: Addressee>(&mut self, send: Outgoing<'_, T>, within: Option<Duration>) -> Result<u64, Error> {
        let mut deadline = None;
        loop {
            let sent = self.sender.append(send);
            match self.explained(sent) {
                Ok(number) if self.sender.outbox.wants_write() => {
                    return match self.flush_until(deadline.or_else(|| until(within))) {
                        // It is sent, though it may wait here a little longer.
                        Ok(()) | Err(Error::TimedOut { .. } | Error::Unread { .. }) => Ok(number),
                        Err(other) => Err(other),
                    };
                }
                Ok(number) => return Ok(number),
                Err(Error::WouldBlock { .. }) => {}
                Err(other) => return Err(other),
            }
            deadline = deadline.or_else(|| until(within));
            self.flush_until(deadline).map_err(Error::of_send)?;
            self.read_until(deadline).map_err(Error::of_send)?;
        }
    }

    /// Writes everything, and reads meanwhile: the daemon may have more to say than it will keep.
    fn flush_until(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        loop {
            let written = self.write();
            if self.explained(written)? {
                return Ok(());
            }
            let left = time_left(deadline);
            if !self.receiver.read_buffered(Some(Duration::ZERO))? && !self.await_either(left)? || is_over(left) {
                return Err(self.receiver.inbox.shared().timed_out());
            }
        }
    }

    /// Writes what there is room for; true if nothing is left.
    fn write(&mut self) -> Result<bool, Error> {
        self.sender.write_within(Duration::ZERO)
    }

    /// Waits until something can be read or written. False if neither came in time.
    fn await_either(&mut self, within: Option<Duration>) -> Result<bool, Error> {
        self.receiver.await_either(&mut self.sender.outgoing, within)
    }

    /// Reads once and keeps the events.
    fn read_until(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let left = time_left(deadline);
        if is_over(left) || !self.receiver.read_buffered(left)? {
            return Err(self.receiver.inbox.shared().timed_out());
        }
        Ok(())
    }

    /// The connection is broken: what came before that is received first.
    fn receive_last(&mut self, error: Error) -> Result<Option<Event>, Error> {
        if matches!(error, Error::Forked { .. }) {
            return Err(error);
        }
        let end = self.receiver.read_to_end();
        self.receiver.inbox.take_aside().map(Some).ok_or(end)
    }

    /// A connection that breaks while something is written may hold the daemon's reason and its last progress unread:
    /// they make the error truer.
    fn explained<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        let Err(Error::ConnectionLost { .. }) = result else { return result };
        Err(self.receiver.read_to_end())
    }
}

/// Reads until the daemon has let us in or not.
fn await_welcome(receiver: &mut Receiver, address: &Address, deadline: Option<Instant>) -> Result<Welcome, Error> {
    let no_daemon = |error: Error| Error::NoDaemon { address: address.clone(), why: error.to_string() };
    loop {
        if let Some(welcome) = receiver.inbox.welcome(address)? {
            return Ok(welcome);
        }
        let left = time_left(deadline);
        if is_over(left) || !receiver.read(left).map_err(no_daemon)? {
            return Err(Error::TimedOut { cause: None });
        }
    }
}
