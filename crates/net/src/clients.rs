//! Clients' connections: who is there, what they send, what they are to read.
mod acceptor;
mod hosts;
mod watch;

use crate::counters::DriverCounters;
use crate::listeners::{ClientStream, Listener};
use crate::options::Dialect;
use crate::rings;
use crate::sys::Arena;
use crate::users::Users;
use acceptor::ClientAcceptor;
use bytes::Bytes;
use consort_node::{ClientIdentity, Transport};
use consort_types::{ClientId, Instant};
use hosts::ClientHosts;
use mio::{Registry, Token};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::time::Duration;

/// How much is read from one client at once, in bytes.
const READ: usize = 128 << 10;
/// Memory is taken in chunks of that many bytes.
const CHUNK: usize = 512 << 10;
/// Reads up to that many bytes get memory of their own: what is left of a request that never ends pins no chunk.
const SMALL: usize = 2 << 10;
/// So many connections may be on their way out beside the clients that are served.
const TURNED_BACK: usize = 64;
/// At most that many connections are closed in one turn because their time is over.
const EXPIRES: usize = 16;
/// How long a client may take to read its last bytes, which may be the reason why it is sent away.
const FAREWELL: Duration = Duration::from_secs(10);

/// All connections of one node.
pub(crate) struct ClientConnections {
    registry: Registry,
    /// The event names from here on are clients'.
    first: usize,
    acceptors: Vec<ClientAcceptor>,
    users: Users,
    open: BTreeMap<ClientId, ClientConnection>,
    next: u32,
    arena: Arena,
    /// Those that have something to say, in turn. Those whose sessions are not open yet have turns of their own, because there
    /// may be thousands of them.
    readable: VecDeque<ClientId>,
    newcomers: VecDeque<ClientId>,
    /// Whose turn was last.
    was_newcomer: bool,
    /// How many connections were accepted of which nothing was read yet.
    unread: usize,
    /// The listener that accepts first in the next turn.
    first_acceptor: usize,
    /// Those that have something to read, in turn.
    writable: VecDeque<ClientId>,
    /// Those that will be closed at the latest by then.
    leaving: BTreeMap<ClientId, Instant>,
    /// With so many connections nobody else is let in, not even to be told that there is no place.
    most: usize,
    /// How many may use shared memory, and how many do.
    sharing_max: usize,
    sharing: usize,
    /// Those in shared memory that are looked at every turn: they need no bell.
    watched: Vec<ClientId>,
    /// Those that read no more since it was asked last.
    deafened: Vec<ClientId>,
    /// Those on other machines.
    hosts: ClientHosts,
}

#[derive(Debug)]
struct ClientConnection {
    stream: ClientStream,
    /// Nothing was read from it yet.
    is_new: bool,
    /// How often it was looked at in vain, while it is watched.
    watched: Option<u32>,
    /// The kernel has, or may have, bytes of it.
    has_bytes: bool,
    /// Its end was seen: what it has sent is to be read up to that end.
    has_ended: bool,
    /// The node wants no more of it for now.
    paused: bool,
    /// Nothing was read from it, whatever it speaks.
    is_unread: bool,
    /// Its session is open, or was.
    is_served: bool,
    /// Stands in `readable` or `newcomers`.
    in_turn: bool,
    /// Stands in `writable`.
    to_write: bool,
    /// The kernel takes no more for it; an event will tell.
    full: bool,
    /// It reads no more, but what it has sent before is still to be taken.
    deaf: bool,
    farewell: CloseStage,
}

/// How far a connection that the node has given up is from being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseStage {
    None,
    /// It is still to read what stands in its output; nothing is taken from it any more.
    Flushing,
    /// It was told the end; what it still sends is thrown away until it ends too. CloseStage at once would make TCP take
    /// back what was not read yet.
    Lingering,
}

/// What reading from a client gave.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// Bytes.
    Bytes(Bytes),
    /// Nothing for now.
    Nothing,
    /// The connection has ended, and is forgotten here.
    Ended,
}

/// What writing to a client gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// So many bytes; none if it takes no more for now.
    Bytes(usize),
    /// The connection has ended, and is forgotten here.
    Ended,
}

impl ClientConnections {
    /// Opens the listeners; those that are socket files of the daemon's own dialect to `users` alone. Events name them by
    /// `names`, and clients by what follows.
    pub(crate) fn new(
        registry: Registry,
        listeners: Vec<(Listener, Dialect)>,
        users: Users,
        names: Range<usize>,
    ) -> io::Result<Self> {
        let mut acceptors = Vec::new();
        for ((mut listener, dialect), name) in listeners.into_iter().zip(names.clone()) {
            listener.register(&registry, Token(name))?;
            let (name, closed_until) = (Token(name), None);
            acceptors.push(ClientAcceptor {
                listener,
                dialect,
                ready: true,
                closed_until,
                name,
                lost: false,
                failures: 0,
            });
        }
        Ok(Self {
            registry,
            first: names.end,
            acceptors,
            users,
            open: BTreeMap::new(),
            next: 1,
            arena: Arena::new(CHUNK),
            readable: VecDeque::new(),
            newcomers: VecDeque::new(),
            was_newcomer: false,
            unread: 0,
            first_acceptor: 0,
            writable: VecDeque::new(),
            leaving: BTreeMap::new(),
            most: usize::MAX,
            sharing_max: 0,
            sharing: 0,
            watched: Vec::new(),
            deafened: Vec::new(),
            hosts: ClientHosts::default(),
        })
    }

    /// Lets so many clients in, and a few more that are told that there is no place.
    pub(crate) const fn allow(&mut self, most: usize) {
        self.most = most.saturating_add(TURNED_BACK);
    }

    /// Lets clients use that many bytes of shared memory.
    pub(crate) const fn allow_sharing(&mut self, bytes: usize) {
        self.sharing_max = bytes / rings::EACH;
    }

    /// Something happened on a client's connection.
    pub(crate) fn event(&mut self, event: &mio::event::Event) {
        let Some(id) = self.client(event.token()) else { return };
        let Some(client) = self.open.get_mut(&id) else { return };
        client.has_ended |= event.is_read_closed() || event.is_error();
        client.stream.event(client.has_ended);
        if client.stream.rings().is_some() {
            self.watch(id);
        }
        let Some(client) = self.open.get_mut(&id) else { return };
        if event.is_readable() || client.has_ended {
            client.has_bytes = true;
            self.queue_reading(id);
        }
        if event.is_writable() || event.is_write_closed() || event.is_error() {
            self.unblock(id);
        }
        if event.is_write_closed() {
            self.deafen(id);
        }
    }

    /// Who is at the other end, for the log.
    pub(crate) fn describe(&self, id: ClientId) -> String {
        self.open.get(&id).map_or_else(String::new, |client| client.stream.describe())
    }

    /// What is known of who a client is.
    pub(crate) fn identity(&self, id: ClientId) -> ClientIdentity {
        self.open.get(&id).map_or(ClientIdentity::UNKNOWN, |client| client.stream.identity())
    }

    /// Whether a client is a process of the daemon's own user, or root's.
    pub(crate) fn is_owners(&self, id: ClientId) -> bool {
        self.open.get(&id).and_then(|client| client.stream.user()).is_some_and(|user| self.users.owns(user))
    }

    /// What carries a client's connection.
    pub(crate) fn transport(&self, id: ClientId) -> Transport {
        self.open.get(&id).map_or(Transport::Unknown, |client| client.stream.transport())
    }

    /// The next client in turn that may be read from: now one that is served, now one that is new.
    pub(crate) fn next_readable(&mut self) -> Option<ClientId> {
        while let Some(id) = self.next_in_turn() {
            let Some(client) = self.open.get_mut(&id) else { continue };
            client.in_turn = false;
            if client.may_read() {
                return Some(id);
            }
        }
        None
    }

    fn next_in_turn(&mut self) -> Option<ClientId> {
        let newcomer = !self.was_newcomer && !self.newcomers.is_empty() || self.readable.is_empty();
        self.was_newcomer = newcomer;
        if newcomer { self.newcomers.pop_front() } else { self.readable.pop_front() }
    }

    /// Whether a client's session was never open.
    pub(crate) fn is_newcomer(&self, id: ClientId) -> bool {
        self.open.get(&id).is_some_and(|client| !client.is_served)
    }

    /// A client's session is open.
    pub(crate) fn note_served(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id) {
            client.is_served = true;
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, id: ClientId, counters: &mut DriverCounters) -> ReadOutcome {
        let Some(client) = self.open.get_mut(&id) else { return ReadOutcome::Nothing };
        self.unread -= usize::from(std::mem::replace(&mut client.is_unread, false));
        let room = &mut self.arena.room(READ)[..READ];
        let mut offered = None;
        let read = match client.is_new {
            true => client.stream.read_first(room).map(|(n, file)| (n, offered = file).0),
            false => client.stream.read(room),
        };
        match read {
            Ok(0) => self.forget(id),
            Ok(n) => {
                counters.client_in_bytes += n as u64;
                client.is_new = false;
                // a short read has emptied the socket; only an end that was seen may still stand behind it
                client.has_bytes = n == READ || client.has_ended;
                let discarded = client.farewell != CloseStage::None;
                if let Some(file) = offered.filter(|_| !discarded) {
                    self.share(id, file, counters);
                }
                self.see_read(id);
                self.queue_reading(id);
                if discarded { ReadOutcome::Nothing } else { ReadOutcome::Bytes(self.received(n)) }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                client.has_bytes = false;
                self.see_read(id);
                ReadOutcome::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.queue_reading(id);
                ReadOutcome::Nothing
            }
            Err(error) => {
                tracing::debug!(client = %id, %error, "connection broke");
                self.forget(id)
            }
        }
    }

    fn received(&mut self, n: usize) -> Bytes {
        if n > SMALL { self.arena.take(n) } else { Bytes::copy_from_slice(&self.arena.room(READ)[..n]) }
    }

    /// It has closed its connection. What it has sent before is still to be taken.
    fn deafen(&mut self, id: ClientId) {
        let Some(client) = self.open.get_mut(&id) else { return };
        (client.has_ended, client.has_bytes) = (true, true);
        if !std::mem::replace(&mut client.deaf, true) {
            self.deafened.push(id);
        }
    }

    /// One that reads no more, which was not known when this was asked last.
    pub(crate) fn next_deafened(&mut self) -> Option<ClientId> {
        self.deafened.pop()
    }

    fn forget(&mut self, id: ClientId) -> ReadOutcome {
        self.leaving.remove(&id);
        self.hosts.remove(id);
        let Some(mut client) = self.open.remove(&id) else { return ReadOutcome::Nothing };
        self.sharing -= usize::from(client.stream.rings().is_some());
        self.unread -= usize::from(client.is_unread);
        ReadOutcome::Ended
    }

    /// Leaves the client's bytes where they are.
    pub(crate) fn pause(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id) {
            client.paused = true;
        }
    }

    /// Reads from the client again.
    pub(crate) fn resume(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id) {
            client.paused = false;
            self.queue_reading(id);
        }
    }

    /// Takes no more from the client, and closes the connection once it has read what stands in its output.
    pub(crate) fn dismiss(&mut self, id: ClientId, now: Instant) {
        if let Some(client) = self.open.get_mut(&id) {
            client.farewell = CloseStage::Flushing;
            // It is not read before it has its last bytes, and others must be accepted meanwhile.
            self.unread -= usize::from(std::mem::replace(&mut client.is_unread, false));
            self.leaving.insert(id, now + FAREWELL);
            self.queue_writing(id);
        }
    }

    /// The client has something to read.
    pub(crate) fn queue_writing(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id)
            && !client.to_write
            && !client.full
        {
            client.to_write = true;
            self.writable.push_back(id);
        }
    }

    /// How many clients have something to read and are ready for it.
    pub(crate) fn writable(&self) -> usize {
        self.writable.len()
    }

    /// The next client in turn that is to be written to.
    pub(crate) fn next_writable(&mut self) -> Option<ClientId> {
        while let Some(id) = self.writable.pop_front() {
            if let Some(client) = self.open.get_mut(&id) {
                client.to_write = false;
                return Some(id);
            }
        }
        None
    }

    /// Writes once from the pieces of `output`. Where something is left, the client stands in turn again or waits for
    /// room. What cannot be written any more counts as written: the node learns of the end when all that the client sent is
    /// read.
    pub(crate) fn write(&mut self, id: ClientId, output: &[IoSlice<'_>], counters: &mut DriverCounters) -> Wrote {
        let Some(client) = self.open.get_mut(&id) else { return Wrote::Bytes(0) };
        let len = output.iter().map(|piece| piece.len()).sum();
        if len == 0 {
            return self.say_the_end(id);
        }
        if client.deaf {
            if client.farewell == CloseStage::Flushing {
                self.queue_writing(id);
            }
            return Wrote::Bytes(len);
        }
        match client.stream.write(output) {
            Ok(n) => {
                counters.client_out_bytes += n as u64;
                counters.client_writes += 1;
                if n < len || client.farewell == CloseStage::Flushing {
                    self.queue_writing(id);
                }
                Wrote::Bytes(n)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.block(id),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.queue_writing(id);
                Wrote::Bytes(0)
            }
            Err(error) => {
                tracing::debug!(client = %id, %error, "reads no more");
                self.deafen(id);
                self.queue_reading(id);
                self.queue_writing(id);
                Wrote::Bytes(0)
            }
        }
    }

    /// A dismissed client has read everything.
    fn say_the_end(&mut self, id: ClientId) -> Wrote {
        let Some(client) = self.open.get_mut(&id) else { return Wrote::Bytes(0) };
        if client.farewell != CloseStage::Flushing {
            return Wrote::Bytes(0);
        }
        client.farewell = CloseStage::Lingering;
        if client.has_ended || client.stream.end().is_err() {
            self.forget(id);
            return Wrote::Ended;
        }
        client.has_bytes = true;
        self.queue_reading(id);
        Wrote::Bytes(0)
    }

    fn block(&mut self, id: ClientId) -> Wrote {
        if let Some(client) = self.open.get_mut(&id) {
            client.full = true;
            if client.stream.rings().is_some() {
                self.watch(id);
            } else if let Err(error) = client.stream.watch_room(&self.registry, name(self.first, id), true) {
                tracing::warn!(client = %id, %error, "cannot watch for room");
                self.forget(id);
                return Wrote::Ended;
            }
        }
        Wrote::Bytes(0)
    }

    fn unblock(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id)
            && client.full
        {
            client.full = false;
            if client.stream.rings().is_none()
                && let Err(error) = client.stream.watch_room(&self.registry, name(self.first, id), false)
            {
                tracing::debug!(client = %id, %error, "cannot change what is watched for");
            }
            self.queue_writing(id);
        }
    }

    /// Closes the connections of those that took too long to read their last bytes, or of any that read them where others find no
    /// room, a few at a time.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<ClientId> {
        let crowded = self.is_full() && self.acceptors.iter().any(|acceptor| acceptor.ready);
        let late = self.leaving.iter().filter(|(id, until)| **until <= now || crowded && self.has_been_told(**id));
        let late: Vec<_> = late.map(|(id, _)| *id).take(EXPIRES).collect();
        late.iter().for_each(|id| drop(self.forget(*id)));
        late
    }

    /// No connection more is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.most
    }

    /// Whether a client on its way out has its last bytes, or has never said anything.
    pub(super) fn has_been_told(&self, id: ClientId) -> bool {
        self.open.get(&id).is_none_or(|client| client.is_new || client.farewell == CloseStage::Lingering)
    }

    /// When [`Self::expire`], [`Self::vanished`] or [`Self::accept`] has something to do without an event.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let closed =
            self.acceptors.iter().filter(|acceptor| acceptor.ready).filter_map(|acceptor| acceptor.closed_until);
        self.leaving.values().copied().chain(closed).chain(self.hosts.next_look()).min()
    }

    /// Whether there is something to do at once.
    pub(crate) fn has_more(&self) -> bool {
        let waits = |acceptor: &ClientAcceptor| acceptor.ready && acceptor.closed_until.is_none();
        let turns = [&self.readable, &self.newcomers, &self.writable];
        !self.deafened.is_empty() || turns.iter().any(|turns| !turns.is_empty()) || self.acceptors.iter().any(waits)
    }

    /// How many connections are open.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    fn client(&self, token: Token) -> Option<ClientId> {
        token.0.checked_sub(self.first).and_then(|n| u32::try_from(n).ok()).map(ClientId)
    }

    fn queue_reading(&mut self, id: ClientId) {
        if let Some(client) = self.open.get_mut(&id)
            && !client.in_turn
            && client.may_read()
        {
            client.in_turn = true;
            let turns = if client.is_served { &mut self.readable } else { &mut self.newcomers };
            turns.push_back(id);
        }
    }
}

impl ClientConnection {
    fn new(stream: ClientStream) -> Self {
        Self {
            stream,
            is_new: true,
            watched: None,
            has_bytes: true,
            has_ended: false,
            paused: false,
            in_turn: false,
            to_write: false,
            full: false,
            is_unread: true,
            is_served: false,
            deaf: false,
            farewell: CloseStage::None,
        }
    }

    fn may_read(&self) -> bool {
        let wanted = match self.farewell {
            CloseStage::None => !self.paused,
            CloseStage::Flushing => false,
            CloseStage::Lingering => true,
        };
        wanted && self.has_bytes
    }
}

/// The event name of a client.
const fn name(first: usize, id: ClientId) -> Token {
    Token(first + id.0 as usize)
}

#[cfg(test)]
mod tests;
