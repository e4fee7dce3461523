//! One page: session, group and engine wired together, still without I/O.
//!
//! A driver hands a [`Node`] one input, drains [`Node::poll_effect`] and [`Node::poll_writable`] until both answer
//! `None`, asks [`Node::poll_timeout`] and [`Node::reads_first`], and waits for the next input. `now` never runs
//! backwards. The same inputs give the same effects.
//!
//! Submit: a client's bytes become a request (`session`), are asked a place for (`engine`) and leave as datagrams (`wire`).
//! Deliver: datagrams become packets (`wire`), get their place (`engine`), find their receivers (`group`) and become frames
//! (`session`). Nobody calls back upward: down is a call, up is a poll, and only the node knows both neighbours.

mod backlog;
mod change;
mod clients;
mod datagrams;
mod declarations;
mod deliver;
mod demotion;
mod effect;
mod fan_out;
mod holds;
mod keys;
mod lines;
mod listing;
mod mutant;
mod notice;
mod offers;
mod partial_frames;
mod pending_deliveries;
mod producers;
mod readiness;
mod reading;
mod rights;
pub mod rotation;
mod slow_clients;
mod status;
pub mod streams;
mod submit;
#[cfg(test)]
mod tests;
mod topics;
mod wait_monitor;

pub use bytes::Bytes;
pub use change::{NetworkChange, NoChange};
pub use consort_group::KeyName;
pub use consort_order::{Advice, Destination, Engine, Lag, Lane, Obstacle, Pressure};
pub use consort_rights::{Identity as ClientIdentity, Rules, Tokens};
pub use consort_session::listing::Transport;
pub use consort_session::{
    Disconnect, DisconnectReason, Limits, OUTPUT_PIECES, SlowLimits, SlowPolicies, SlowPolicy, SlowRule,
};
pub use consort_types::{ClientId, Instant, Position, Ticket};
pub use consort_wire::{Identity, Proof};
pub use effect::{Datagram, Effect, Reading};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use notice::{MembershipChange, Notice, PeerState};
pub use readiness::Unready;
pub use rights::{ClientOrigin, ClientPolicy};

use bytes::BytesMut;
use clients::Sessions;
use consort_group::{Groups, Mismatch};
use consort_order::{Arrival, Fact, Link, Offers, trouble_of};
use consort_types::{Duration, MemberId, NodeId, OrderStream, Service, View, ViewId};
use consort_wire::Bump;
use datagrams::Datagrams;
use declarations::Declaring;
use deliver::GroupNotice;
use fan_out::FanOut;
use holds::Holds;
use keys::KeyDesk;
use lines::LineDesk;
use notice::LoggedState;
use offers::OfferTable;
use pending_deliveries::PendingDeliveries;
use producers::ProducerDesk;
use reading::{Readers, Retention, Verdicts};
use rights::{GroupScan, RightsDesk};
use std::collections::{BTreeMap, VecDeque};
use streams::GroupStreams;
use topics::TopicDesk;
use wait_monitor::WaitMonitor;

/// The only stream of most engines, and of the others that of what concerns no group.
const STREAM: OrderStream = OrderStream(0);
/// How much is taken from the allocator at once for what beacons are to carry.
const DIGESTS: usize = 2 << 10;

/// One daemon without its I/O: clients' bytes in, datagrams out, and back.
#[derive(Debug)]
pub struct Node<E: Engine> {
    engine: E,
    datagrams: Datagrams,
    clients: Sessions,
    groups: Groups,
    streams: GroupStreams,
    lines: LineDesk,
    topics: TopicDesk,
    pending: PendingDeliveries,
    offers: OfferTable,
    /// Whether the engine can show what it has retained.
    replays: bool,
    readers: Readers,
    declaring: Declaring,
    /// What the engine holds for them.
    held: Option<Position>,
    verdicts: Verdicts,
    /// What is kept for readers where the engine cannot show it again.
    retention: Retention,
    producers: ProducerDesk,
    /// How long a producer is known of which nothing is ordered.
    producers_for: Duration,
    holds: Holds,
    keys: KeyDesk,
    rights: RightsDesk,
    effects: VecDeque<Effect>,
    now: Instant,
    /// The engine has refused a message for want of room and has not said that there is room again.
    full: bool,
    /// The engine has no room for control messages, until it says `Room`.
    control_full: bool,
    /// What is to be said of the groups next, refused for want of room.
    pending_state_part: Option<Bytes>,
    /// The view to be resumed once the groups have settled into it.
    settling: Option<ViewId>,
    log: LoggedState,
    /// What is being told of a group.
    notice: Option<GroupNotice>,
    /// A message that is being told to many.
    fan_out: Option<Box<FanOut>>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
    wait_monitor: WaitMonitor,
    /// Whether all nodes of the cluster are known, so that one that meets none of them is not ready.
    expects_others: bool,
    /// What was last given to the engine for its beacons.
    state_digest: Bytes,
    digests: Bump,
    /// Who was seen last to have other groups than this node.
    mismatch: Option<Mismatch>,
    view: Option<View>,
    /// The last changes of the view, for `status`.
    history: VecDeque<(Instant, NetworkChange)>,
    /// What the driver says of itself, for `status`.
    driver: Vec<(String, String)>,
    frames: BytesMut,
    /// Lists that take more than one slice, by who asked.
    scans: BTreeMap<ClientId, GroupScan>,
    /// Bytes of answers to questions for status and lists in this slice.
    answered: usize,
    /// When this slice of answers began.
    answers_since: Instant,
    counts: NodeCounts,
}

#[derive(Debug, Default)]
struct NodeCounts {
    /// Messages of all clients of all nodes that got their place, and their bytes.
    messages_ordered: u64,
    message_bytes_ordered: u64,
    ordered_malformed: u64,
    parts_refused: u64,
    digests_malformed: u64,
    /// Frames of reliable links that are another member's, or belong on another lane.
    frames_misplaced: u64,
}

impl<E: Engine> Node<E> {
    /// A node that speaks as `identity` and orders with `engine`.
    pub fn new(identity: Identity, engine: E, mut limits: Limits) -> Self {
        //= G09
        // An offer is one message's, and when it came matters.
        match engine.capability().offers {
            Offers::None => {}
            Offers::Fifo => limits.batch_from = Service::Causal,
            Offers::Likely => limits.batch_max = 0,
        }
        Self {
            replays: engine.capability().replays,
            readers: Readers::default(),
            declaring: Declaring::default(),
            held: None,
            verdicts: Verdicts::default(),
            retention: Retention::default(),
            producers: ProducerDesk::default(),
            producers_for: producers::KEEP,
            holds: Holds::default(),
            keys: KeyDesk::new(identity.me),
            rights: RightsDesk::default(),
            engine,
            datagrams: Datagrams::new(identity),
            clients: Sessions::new(limits),
            groups: Groups::new(identity.me),
            streams: GroupStreams::default(),
            lines: LineDesk::default(),
            topics: TopicDesk::default(),
            pending: PendingDeliveries::default(),
            offers: OfferTable::default(),
            effects: VecDeque::new(),
            now: Instant::ZERO,
            full: false,
            control_full: false,
            pending_state_part: None,
            settling: None,
            log: LoggedState::default(),
            notice: None,
            fan_out: None,
            #[cfg(feature = "mutants")]
            mutant: None,
            wait_monitor: WaitMonitor::default(),
            expects_others: false,
            state_digest: Bytes::new(),
            digests: Bump::new(DIGESTS),
            mismatch: None,
            view: None,
            history: VecDeque::new(),
            driver: Vec::new(),
            frames: BytesMut::new(),
            scans: BTreeMap::new(),
            answered: 0,
            answers_since: Instant::ZERO,
            counts: NodeCounts::default(),
        }
    }

    /// The same in a cluster of so many configured nodes: with fewer, or where that is not said, no view counts for
    /// producers.
    #[must_use]
    pub fn of_nodes(mut self, nodes: usize) -> Self {
        // A quorum decides what view follows: parts of the network have none of their own.
        self.groups.configure(nodes, self.engine.capability().quorum);
        self.keys.rotation.configure(nodes);
        self
    }

    /// The same in a cluster whose nodes are all known: without a policy this node is not ready before it has met another.
    #[must_use]
    pub const fn expecting_others(mut self) -> Self {
        self.expects_others = true;
        self
    }

    /// The same keeping so many bytes of what readers may want to read again, and none for longer than that; nothing if one of
    /// them is zero. Where the engine retains its order itself, this says nothing. 16 MiB and a minute.
    #[must_use]
    pub fn retaining(mut self, bytes: usize, keep: Duration) -> Self {
        self.retention = Retention::new(bytes, keep);
        self
    }

    /// The same having producers forgotten of which nothing was ordered for so long; an hour. The lowest member of a view
    /// does so for all. It looks once a minute.
    #[must_use]
    pub fn keeping_producers(mut self, keep: Duration) -> Self {
        self.producers_for = keep;
        self
    }

    /// As whom it speaks.
    pub const fn identity(&self) -> &Identity {
        self.datagrams.identity()
    }

    /// How datagrams show that they are as they were written: by their checksum unless the driver seals and opens them.
    pub const fn set_proof(&mut self, proof: Proof) {
        self.datagrams.set_proof(proof);
    }

    /// How many datagrams came from nodes of the cluster whose shared settings differ.
    pub fn datagrams_of_other_settings(&self) -> u64 {
        self.datagrams.of_other_settings()
    }

    /// What the driver says of itself, by name: told with the node's own status, in place of what it said before.
    pub fn note_driver(&mut self, facts: Vec<(String, String)>) {
        self.driver = facts;
    }

    /// The first input, once, with the durable records of an earlier incarnation.
    pub fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.begin(now);
        self.engine.start(now, records);
    }

    /// A datagram came; `arrived` is when the kernel had it, never later than `now`. What is not for this node or not
    /// right is counted by cause and dropped.
    pub fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes) {
        self.begin(now);
        if let Some((envelope, packet)) = self.datagrams.open(bytes) {
            let arrival = Arrival { at: arrived, from: envelope.from, lane: envelope.lane };
            self.engine.handle_packet(now, arrival, packet);
        }
    }

    /// A frame came through the reliable link to a member. Returns whether it was right: a driver breaks the link else, for
    /// what comes behind a frame that is lost must not be taken.
    pub fn handle_frame(&mut self, now: Instant, arrived: Instant, from: MemberId, bytes: Bytes) -> bool {
        self.begin(now);
        let Some((envelope, packet)) = self.datagrams.open(bytes) else { return false };
        if (envelope.from, envelope.lane) != (from, Lane::Reliable) {
            self.counts.frames_misplaced += 1;
            return false;
        }
        let arrival = Arrival { at: arrived, from, lane: Lane::Reliable };
        self.engine.handle_packet(now, arrival, packet);
        true
    }

    /// Datagrams that came to this node found no room in its sockets.
    pub fn note_overflow(&mut self, now: Instant) {
        self.begin(now);
        self.engine.handle_pressure(Pressure::Overflow);
    }

    /// A client's connection was accepted. Ids are never reused.
    pub fn open_client(&mut self, now: Instant, client: ClientId) {
        self.notice(now);
        self.clients.open(now, client);
        self.rights.identify(client, consort_rights::Identity::UNKNOWN);
    }

    /// The same where the driver knows what carries the connection, so that the node can tell who asks.
    pub fn open_client_over(&mut self, now: Instant, client: ClientId, transport: Transport) {
        self.open_client(now, client);
        self.clients.carried_by(client, transport);
    }

    /// Sends a client away for a reason that the driver knows, such as who it is.
    pub fn turn_away(&mut self, now: Instant, client: ClientId, farewell: &Disconnect) {
        self.notice(now);
        self.clients.end(client, farewell);
    }

    /// A client's bytes came. They are kept where they lie; what cannot be taken now waits, and the client is paused.
    pub fn handle_client(&mut self, now: Instant, client: ClientId, bytes: Bytes) -> Reading {
        self.begin(now);
        self.clients.feed(client, bytes);
        self.serve(client)
    }

    /// Whether a client's session is open.
    pub fn serves_client(&self, client: ClientId) -> bool {
        self.clients.get(client).is_some_and(|session| session.is_open())
    }

    /// A client reads no more, but more of what it has sent may come. Its questions need no answers from now on.
    pub fn deafen_client(&mut self, client: ClientId) {
        self.clients.deafen(client);
        self.scans.remove(&client);
    }

    /// A client's connection ended: all it sent was handed in, or is lost. What was taken is still ordered; what waits
    /// while the client is paused is not, so the end of a paused client's stream is left in the socket, like its bytes.
    pub fn close_client(&mut self, now: Instant, client: ClientId) {
        self.notice(now);
        self.clients.forget(client);
        self.rights.forget(client);
        self.keys.forget(client);
        self.declaring.forget(client);
        self.scans.remove(&client);
    }

    /// The time that [`Self::poll_timeout`] named has come. Harmless if it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin(now);
        self.clients.end_silent(now);
        self.clients.end_unfinished(now);
        self.clients.end_slow(now);
        self.clients.end_pauses(now);
        self.end_expired();
        self.clients.tell_heartbeats(now);
        self.check_waits();
        self.expire_producers();
        self.sweep_retention();
        self.annotate();
        self.declare_on();
        self.engine.handle_timeout(now);
    }

    /// An [`Effect::Persist`] is done.
    pub fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.begin(now);
        self.engine.handle_persisted(now, ticket);
    }

    /// A reliable stream to a peer came up or broke.
    pub fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        self.begin(now);
        self.engine.handle_link(now, peer, link);
    }

    /// A registry outside of the order advises something.
    pub fn advise(&mut self, now: Instant, advice: Advice) {
        self.begin(now);
        self.engine.advise(now, advice);
    }

    /// Leaves the group in good order: what was accepted is sent, the others are told. [`Effect::Left`] follows within a
    /// bounded time.
    pub fn leave(&mut self, now: Instant) {
        self.begin(now);
        self.engine.leave(now);
    }

    /// Every client is told this and sent away, before the daemon stops or starts anew.
    pub fn send_clients_away(&mut self, now: Instant, farewell: &Disconnect) {
        self.begin(now);
        self.clients.end_all(farewell);
    }

    /// The next thing to do; `None` when all is done.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            if let Some(effect) = self.effects.pop_front() {
                return Some(effect);
            }
            if let Some(effect) = self.clients.next_effect() {
                return Some(effect);
            }
            match self.engine.poll_output() {
                Some(output) => {
                    if let Some(effect) = self.on_output(output) {
                        return Some(effect);
                    }
                }
                None if self.notify_next() || self.submit_next() || self.read_next() => {}
                None => return None,
            }
        }
    }

    /// When to call [`Self::handle_timeout`], if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (paused, asking) = (self.clients.has_paused(), self.clients.has_asking());
        let leaves = self.clients.has_leaving() && self.next_leaving().is_some() || self.rights.has_expulsions();
        let asks = asking && !self.has_answered_enough();
        let waits = paused || leaves || self.clients.next_hold().is_some() || self.keys.has_to_say();
        if self.has_to_tell() || self.has_to_read() || asks || !self.full && waits {
            return Some(self.now);
        }
        let answers = asking.then(|| self.next_answers());
        let others = [
            self.engine.poll_timeout(),
            self.clients.next_silent(),
            self.clients.next_unfinished(),
            self.clients.next_heartbeat(),
            self.clients.next_slow(),
            self.clients.next_pause_end(),
            self.rights.next_expiry(),
            self.wait_monitor.at(),
            self.readers.next_impatient(),
            self.next_sweep(),
        ];
        others.into_iter().chain([answers]).flatten().min()
    }

    fn next_sweep(&self) -> Option<Instant> {
        match (self.producers.next_sweep(), self.retention.next_sweep()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Which lane to read first; to be asked before every datagram, also inside a batch already received.
    pub fn reads_first(&self) -> Lane {
        self.engine.reads_first()
    }

    /// The next client whose output has become non-empty. It is not named again before all of it is written.
    pub fn poll_writable(&mut self) -> Option<ClientId> {
        self.clients.next_writable()
    }

    /// Whether [`Self::poll_writable`] would name somebody, for a driver that does not ask it after every input: it must not
    /// wait for the next one meanwhile.
    pub fn has_writable(&self) -> bool {
        self.clients.has_writable()
    }

    /// What the client is to read next; there may be more behind it. Empty once all is written, and for a client that is
    /// not known.
    pub fn client_output(&self, client: ClientId) -> &[u8] {
        self.clients.get(client).map_or(&[], |session| session.output().front())
    }

    /// The same, and what stands behind it.
    pub fn client_outputs(&self, client: ClientId) -> impl Iterator<Item = &[u8]> {
        self.clients.get(client).into_iter().flat_map(|session| session.output().pieces())
    }

    /// Whether there is something for the client to read now.
    pub fn has_output(&self, client: ClientId) -> bool {
        self.clients.get(client).is_some_and(|session| session.output().is_ready())
    }

    /// The first `n` bytes of the client's output were written to its connection.
    pub fn client_written(&mut self, now: Instant, client: ClientId, n: usize) {
        self.begin(now);
        self.clients.written(now, client, n);
        self.readers.has_room(client);
    }

    /// The next event for the log, and how many of its kind were left out before it.
    pub fn poll_notice(&mut self) -> Option<(Notice, u64)> {
        self.clients.notices.pop()
    }

    /// Sees whether other nodes are reached otherwise than when it was last asked; for the log, a few times a second.
    pub fn look_at_peers(&mut self, now: Instant) {
        self.notice(now);
        let Self { engine, log, clients, .. } = self;
        engine.observe(self.now, &mut |fact| {
            if let Fact::Peer(reach) = fact
                && let Some(state) = log.peers.note(now, &reach)
            {
                clients.notices.push(Notice::Peer { state, reach });
            }
        });
        let text = trouble_of(engine, self.now);
        if log.note_trouble(text.as_deref()) {
            clients.notices.push(Notice::Trouble { text });
        }
        let news = self.log.note_readiness(now, self.unready());
        news.into_iter().for_each(|notice| self.clients.notices.push(notice));
    }

    /// The ordering protocol, for looking at.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// How many connections of clients it keeps at a time.
    pub const fn places(&self) -> usize {
        self.clients.places()
    }

    /// The process groups as they stand at this place of the order, for looking at.
    pub const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The latest view, for looking at.
    pub const fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    fn begin(&mut self, now: Instant) {
        self.notice(now);
        self.pending.begin();
        self.readers.begin();
        if let Some(room) = self.clients.room(now, &self.pending) {
            self.engine.handle_pressure(Pressure::Room(room));
        }
    }

    /// It is now later: no slice of telling begins with that, as many such inputs may come between two looks at the token.
    fn notice(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.clients.notices.begin(self.now);
        self.begin_answers();
        self.free_names();
    }

    fn free_names(&mut self) {
        while let Some((client, name)) = self.clients.next_parted() {
            self.groups.exit(client, &name);
            self.rights.part(client);
            self.producers.remove(client);
            if self.readers.remove(client).is_some() {
                self.hold_unread();
            }
        }
    }

    /// Breaks a rule from here on.
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        self.clients.mutant = Some(mutant);
        self.retention.mutant = Some(mutant);
    }

    /// Breaks a rule of the groups from here on.
    #[cfg(feature = "mutants")]
    pub fn mutate_groups(&mut self, mutant: consort_group::Mutant) {
        self.groups.mutate(mutant);
        self.retention.histories.mutate(mutant);
    }
}
