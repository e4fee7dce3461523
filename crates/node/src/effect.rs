//! What a node asks of its driver.
use bytes::Bytes;
use consort_order::{Destination, Lane};
use consort_types::{ClientId, Incarnation, MemberId, Ticket};

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
        to: Destination,
        /// On which lane.
        lane: Lane,
        /// In which of the node's networks, where there are several: see [`Packet::network`](consort_order::Packet::network).
        network: u8,
        /// What.
        datagram: Datagram,
    },
    /// Write a record; answer with [`Node::handle_persisted`](crate::Node::handle_persisted).
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
    /// The node cannot go on in this incarnation: it is to be started anew in a later one. See
    /// [`Output::Restart`](consort_order::Output::Restart).
    Restart {
        /// What happened.
        cause: String,
        /// What the next incarnation is to start with, unless there are records of its own.
        records: Vec<Bytes>,
        /// The next incarnation must have a larger number than this.
        exceed: Option<Incarnation>,
    },
    /// The node has said good-bye: the driver may stop.
    Left,
    /// Read from this client again; its reading was paused.
    ReadAgain {
        /// Which client.
        client: ClientId,
    },
    /// Keep these bytes on disk, behind those that are kept there for this client, and answer with
    /// [`Node::handle_spooled`](crate::Node::handle_spooled) or
    /// [`Node::handle_spool_failure`](crate::Node::handle_spool_failure). They need not outlast the daemon.
    Spool {
        /// For whom.
        client: ClientId,
        /// Whole frames.
        bytes: Bytes,
    },
    /// Read the oldest bytes back that are kept for this client: those of one [`Self::Spool`], whose length is given.
    /// Answer with [`Node::handle_unspooled`](crate::Node::handle_unspooled) or
    /// [`Node::handle_spool_failure`](crate::Node::handle_spool_failure).
    Unspool {
        /// For whom.
        client: ClientId,
        /// How many they are.
        len: usize,
    },
    /// Forget what is kept on disk for this client, if there is anything. No answer.
    DropSpool {
        /// For whom.
        client: ClientId,
    },
    /// Take what other nodes seal with the key of this epoch from here on; with `None`, not any more before it is adopted.
    PromiseKey {
        /// Which epoch.
        epoch: Option<u16>,
    },
    /// Seal with the key of this epoch from here on. These members may still say something with the one before.
    SealWith {
        /// Which epoch.
        epoch: u16,
        /// The members of the view that has adopted it.
        members: Vec<MemberId>,
    },
    /// Write out what stands in the client's output, then close its connection. Give up on one that does not read
    /// within a few seconds.
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
    /// Leave bytes, and the end of the stream, in the socket until [`Effect::ReadAgain`]. A client that was sent away
    /// stays paused for good.
    Pause,
}
