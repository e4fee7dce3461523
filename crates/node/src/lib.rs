//! One page: session, group and engine wired together, still without I/O.
//!
//! A driver hands a [`Node`] one input, drains [`Node::poll_effect`] and [`Node::poll_writable`] until both answer
//! `None`, asks [`Node::poll_timeout`] and [`Node::reads_first`], and waits for the next input. `now` never runs
//! backwards. The same inputs give the same effects.

mod datagrams;

pub use bytes::Bytes;
pub use consort_order::{Engine, Lane, To};
pub use consort_session::Limits;
pub use consort_types::{ClientId, Instant, Ticket};
pub use consort_wire::Identity;

use consort_order::{Arrival, Output};
use datagrams::Datagrams;
use std::collections::BTreeMap;

/// One datagram for the network: `head`, then `body`. Both are shared; `body` is never copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The envelope and the packet's own fields.
    pub head: Bytes,
    /// What follows them unchanged; often empty.
    pub body: Bytes,
}

/// What a driver has to do for a node, in the order in which it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put a datagram on the network.
    Send {
        /// To whom.
        to: To,
        /// On which lane.
        lane: Lane,
        /// What.
        datagram: Datagram,
    },
    /// Write a record; answer with [`Node::handle_persisted`].
    Persist {
        /// Names the write.
        ticket: Ticket,
        /// The bytes.
        record: Bytes,
        /// Whether it must have reached the disk.
        sync: bool,
    },
    /// Records up to this ticket are not needed any more.
    Trim {
        /// The last one that may go.
        up_to: Ticket,
    },
    /// Read from this client again; its reading was paused.
    ReadAgain {
        /// Which client.
        client: ClientId,
    },
    /// Write out what stands in the client's output, then close its connection.
    Close {
        /// Which client.
        client: ClientId,
    },
}

/// Whether a driver may go on reading from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a paused client must not be read from until `Effect::ReadAgain`"]
pub enum Reading {
    /// It may.
    Go,
    /// Leave bytes in the socket until [`Effect::ReadAgain`].
    Pause,
}

/// One daemon without its I/O: clients' bytes in, datagrams out, and back.
#[derive(Debug)]
pub struct Node<E: Engine> {
    engine: E,
    limits: Limits,
    datagrams: Datagrams,
    outputs: BTreeMap<ClientId, Vec<u8>>,
}

impl<E: Engine> Node<E> {
    /// A node that speaks as `identity` and orders with `engine`.
    pub fn new(identity: Identity, engine: E, limits: Limits) -> Self {
        Self { engine, limits, datagrams: Datagrams::new(identity), outputs: BTreeMap::new() }
    }

    /// The first input, once, with the durable records of an earlier life.
    pub fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.engine.start(now, records);
    }

    /// A datagram came; `arrived` is when the kernel had it, never later than `now`.
    pub fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes) {
        if let Some((envelope, packet)) = self.datagrams.open(bytes) {
            let arrival = Arrival { at: arrived, from: envelope.from, lane: envelope.lane };
            self.engine.handle_packet(now, arrival, packet);
        }
    }

    /// A client's connection was accepted. Ids are never reused.
    pub fn open_client(&mut self, _now: Instant, client: ClientId) {
        self.outputs.insert(client, Vec::new());
    }

    /// A client's bytes came.
    pub fn handle_client(&mut self, _now: Instant, _client: ClientId, _bytes: Bytes) -> Reading {
        Reading::Go
    }

    /// A client's connection ended.
    pub fn close_client(&mut self, _now: Instant, client: ClientId) {
        self.outputs.remove(&client);
    }

    /// The time that [`Self::poll_timeout`] named has come. Harmless if it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    /// An [`Effect::Persist`] is done.
    pub fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.engine.handle_persisted(now, ticket);
    }

    /// The next thing to do; `None` when all is done.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            match self.engine.poll_output()? {
                Output::Send { to, lane, packet } => {
                    return Some(Effect::Send { to, lane, datagram: self.datagrams.seal(lane, &packet) });
                }
                Output::Persist { ticket, record, sync } => return Some(Effect::Persist { ticket, record, sync }),
                Output::Trim { up_to } => return Some(Effect::Trim { up_to }),
                _ => {}
            }
        }
    }

    /// When to call [`Self::handle_timeout`], if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    /// Which lane to read first; to be asked before every datagram, also inside a batch already received.
    pub fn reads_first(&self) -> Lane {
        self.engine.reads_first()
    }

    /// The next client whose output became non-empty since it was last named here or last written out.
    pub fn poll_writable(&mut self) -> Option<ClientId> {
        None
    }

    /// What the client is to read next, in one piece. Empty for a client that is not known.
    pub fn client_output(&self, client: ClientId) -> &[u8] {
        self.outputs.get(&client).map_or(&[], Vec::as_slice)
    }

    /// The first `n` bytes of the client's output were written to its connection.
    pub fn client_written(&mut self, _now: Instant, client: ClientId, n: usize) {
        if let Some(output) = self.outputs.get_mut(&client) {
            output.drain(..n.min(output.len()));
        }
    }

    /// The ordering protocol, for looking at.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The budgets of each client.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counters and gauges by name: the engine's, rejected datagrams by cause, the sessions'.
    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.engine.observe(&mut |name, value| see(name, value));
        self.datagrams.observe(see);
    }
}
