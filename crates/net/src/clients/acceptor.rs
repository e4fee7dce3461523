//! Listeners, and the clients that they accept.
use super::{ClientConnection, ClientConnections, name};
use crate::counters::DriverCounters;
use crate::listeners::{ClientStream, Listener};
use crate::options::Dialect;
use consort_types::{ClientId, Instant};
use mio::Token;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// At most that many connections are accepted at each listener in one iteration.
const ACCEPTS: usize = 16;
/// None is accepted while nothing was read yet from this number of connections, because one that waits costs least in the kernel.
const UNREAD: usize = 4 * ACCEPTS;
/// How long a listener stays closed when there are no descriptors or no memory for another connection.
pub(super) const CLOSED_FOR: Duration = Duration::from_millis(100);

pub(super) struct ClientAcceptor {
    pub(super) listener: Listener,
    pub(super) dialect: Dialect,
    /// Somebody waits.
    pub(super) ready: bool,
    /// Not to be opened before.
    pub(super) closed_until: Option<Instant>,
    /// Events name it so.
    pub(super) name: Token,
    /// Its socket file was removed and cannot be made again.
    pub(super) lost: bool,
    /// How often accepting has failed since it last succeeded.
    pub(super) failures: u64,
}

impl ClientConnections {
    /// A client waits at a listener.
    pub(crate) fn on_listener_ready(&mut self, acceptor: usize) {
        if let Some(acceptor) = self.acceptors.get_mut(acceptor) {
            acceptor.ready = true;
        }
    }

    /// Makes socket files again that were removed. To be called now and then.
    pub(crate) fn restore_socket_files(&mut self) {
        for acceptor in &mut self.acceptors {
            let restored = acceptor.listener.restored().map(|restored| {
                restored.and_then(|mut listener| listener.register(&self.registry, acceptor.name).map(|()| listener))
            });
            match restored {
                None => acceptor.lost = false,
                Some(Ok(listener)) => {
                    acceptor.listener = listener;
                    (acceptor.ready, acceptor.lost) = (true, false);
                    tracing::warn!(address = ?acceptor.listener.address(), "a socket file was removed, and is made again");
                }
                Some(Err(error)) if !std::mem::replace(&mut acceptor.lost, true) => {
                    let address = acceptor.listener.address();
                    tracing::warn!(?address, %error, "a socket file was removed and cannot be made again: no client finds it");
                }
                Some(Err(_)) => {}
            }
        }
    }

    /// Accepts nobody any more; whoever tries is told at once.
    pub(crate) fn close_listeners(&mut self) {
        self.acceptors.clear();
    }

    /// Accepts who waits, a few at a time, and tells their new names, in which stands what they speak.
    pub(crate) fn accept(&mut self, now: Instant, counters: &mut DriverCounters) -> Vec<ClientId> {
        let (mut accepted, count) = (Vec::new(), self.acceptors.len());
        let first = (self.first_acceptor + 1) % count.max(1);
        self.first_acceptor = first;
        for i in (first..count).chain(0..first) {
            for _ in 0..ACCEPTS {
                if self.unread >= UNREAD {
                    break;
                }
                match self.accept_at(i, now) {
                    Ok(Some(stream)) => {
                        let dialect = self.acceptors[i].dialect;
                        accepted.extend(self.admit(stream, dialect, now));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        counters.accept_failures += 1;
                        let (times, wait) = (self.acceptors[i].failures, CLOSED_FOR.as_millis());
                        // What lasts is counted: the first, the tenth, the hundredth time are logged.
                        if 10_u64.pow(times.max(1).ilog10()) == times {
                            tracing::warn!(%error, times, "cannot accept a client; trying again every {wait} ms");
                        }
                        break;
                    }
                }
            }
        }
        counters.clients_accepted += accepted.len() as u64;
        accepted
    }

    fn accept_at(&mut self, acceptor: usize, now: Instant) -> io::Result<Option<ClientStream>> {
        let crowded = self.is_full();
        // Else the next turn makes room.
        let waits = crowded && !self.leaving.keys().any(|id| self.has_been_told(*id));
        let acceptor = &mut self.acceptors[acceptor];
        if !acceptor.ready || acceptor.closed_until.is_some_and(|until| now < until) {
            return Ok(None);
        }
        acceptor.closed_until = waits.then(|| now + CLOSED_FOR);
        if crowded {
            return Ok(None);
        }
        match acceptor.listener.accept() {
            Ok(stream) => {
                acceptor.failures = 0;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                acceptor.ready = false;
                Ok(None)
            }
            // whoever waited has gone again
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => Ok(None),
            Err(error) => {
                acceptor.closed_until = Some(now + CLOSED_FOR);
                acceptor.failures += 1;
                Err(error)
            }
        }
    }

    fn admit(&mut self, mut stream: ClientStream, dialect: Dialect, now: Instant) -> Option<ClientId> {
        let number = self.free_number();
        let id = ClientId(if dialect == Dialect::Spread { number | ClientId::SPREAD } else { number });
        if let Err(error) = stream.register(&self.registry, name(self.first, id)) {
            tracing::warn!(%error, "cannot watch a client's connection");
            return None;
        }
        tracing::debug!(client = %id, who = stream.describe(), "connected");
        self.next = number + 1;
        self.watch_host(id, &stream, now);
        // What a client of Spread attaches means nothing.
        self.unread += 1;
        self.open.insert(id, ClientConnection { is_new: dialect == Dialect::Native, ..ClientConnection::new(stream) });
        self.queue_reading(id);
        Some(id)
    }

    /// The next number that no open connection has. Behind the highest comes 1 again: two thousand million connections
    /// later nothing waits for the old ones any more.
    fn free_number(&self) -> u32 {
        let is_free = |number: &u32| {
            [*number, number | ClientId::SPREAD].iter().all(|id| !self.open.contains_key(&ClientId(*id)))
        };
        (self.next..ClientId::SPREAD).chain(1..).find(is_free).unwrap_or(1)
    }

    /// Why a client that was just let in must go again; `None` if it may stay.
    pub(crate) fn objection(&self, id: ClientId) -> Option<String> {
        if id.speaks_spread() {
            return None;
        }
        match self.open.get(&id)?.stream.peer()? {
            Ok(peer) => self.users.check(peer).err().map(|refused| refused.to_string()),
            Err(error) => Some(format!("the kernel does not say which user this is: {error}")),
        }
    }
}
