//! All sessions of one node, and who of them waits for what.
pub(crate) mod client_session;
mod disconnect;
pub(crate) mod entry;
mod fairness;
mod heartbeats;
mod notify;
mod pause;
pub(crate) mod slow;
pub(crate) mod slow_terms;

use crate::Effect;
use crate::backlog::Backlog;
use crate::clients::client_session::{ClientRequest, ClientSession, Placed};
use crate::clients::entry::ClientRecord;
use crate::clients::fairness::Fairness;
use crate::clients::heartbeats::Heartbeats;
use crate::clients::slow::SlowClients;
use crate::notice::{Notice, Notices};
use crate::partial_frames::PartialFrames;
use crate::pending_deliveries::PendingDeliveries;
use consort_session::listing::{Connection, Transport};
use consort_session::{ClientName, Disconnect, DisconnectReason, Limits, Pool, Refusal};
use consort_types::{ClientId, Instant, MemberId, NodeId};
use consort_wire::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, Range};

/// How many connections may only ask, such as `consort status`, beside all clients.
const ASKING: usize = 32;

#[derive(Debug)]
pub(crate) struct Sessions {
    limits: Limits,
    all: BTreeMap<ClientId, ClientRecord>,
    /// How many of them were not sent away, but for those that only ask.
    served: usize,
    /// How many of them only ask.
    asking_only: usize,
    /// By when each connection without a hello must have said one.
    silent: BTreeSet<(Instant, ClientId)>,
    fairness: Fairness,
    heartbeats: Heartbeats,
    slow: SlowClients,
    /// Paused for want of room in the engine; first come first served.
    paused: VecDeque<ClientId>,
    /// Paused until then, as they have sent as much as they may.
    paused_until: BTreeSet<(Instant, ClientId)>,
    /// Paused until there is time for answers again, likewise.
    asking: pause::Turns,
    /// Gone, and not all daemons know it yet.
    leaving: VecDeque<ClientId>,
    /// What the driver is to do: of disks, and whose connections are to be closed.
    effects: VecDeque<Effect>,
    /// To be closed once their going is ordered.
    lingering: BTreeSet<ClientId>,
    writable: VecDeque<ClientId>,
    backlog: Backlog,
    partial_frames: PartialFrames,
    /// What the outputs of all cost, but for what they share.
    outputs: usize,
    /// What they share.
    pool: Pool,
    /// See [`Self::take_work`].
    work: usize,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::Mutant>,
    progressed: Vec<ClientId>,
    /// Those who are offered messages before their place is final.
    optimistic: BTreeSet<ClientId>,
    /// Those whose messages come with their position.
    positioned: BTreeSet<ClientId>,
    /// Whose names are free again.
    parted: Vec<(ClientId, ClientName)>,
    /// What happened to clients, and to their node, for the log.
    pub(crate) notices: Notices,
    counts: ClientCounts,
}

#[derive(Debug, Default)]
struct ClientCounts {
    accepted: u64,
    refused: u64,
    messages: u64,
    untold: u64,
    offers: u64,
    revokes: u64,
    message_bytes: u64,
    ended: BTreeMap<DisconnectReason, u64>,
    /// How often requests were seen to wait for long, by cause.
    waits: BTreeMap<&'static str, u64>,
}

impl Sessions {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: BTreeMap::new(),
            served: 0,
            asking_only: 0,
            silent: BTreeSet::new(),
            fairness: Fairness::default(),
            heartbeats: Heartbeats::default(),
            slow: SlowClients::default(),
            paused: VecDeque::new(),
            paused_until: BTreeSet::new(),
            asking: pause::Turns::default(),
            leaving: VecDeque::new(),
            effects: VecDeque::new(),
            lingering: BTreeSet::new(),
            writable: VecDeque::new(),
            backlog: Backlog::default(),
            partial_frames: PartialFrames::new(limits.frames_max, limits.frame_within),
            outputs: 0,
            pool: Pool::default(),
            work: 0,
            #[cfg(feature = "mutants")]
            mutant: None,
            progressed: Vec::new(),
            optimistic: BTreeSet::new(),
            positioned: BTreeSet::new(),
            parted: Vec::new(),
            notices: Notices::default(),
            counts: ClientCounts::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn open(&mut self, now: Instant, client: ClientId) {
        let hello_by = now + self.limits.hello_within;
        self.silent.insert((hello_by, client));
        self.all.insert(client, ClientRecord::new(client, hello_by, &self.limits));
        self.served += 1;
        self.count_for(now, client, "");
        // A native client may say in its hello that it only asks.
        if !self.makes_room(client, !client.speaks_spread()) {
            self.turn_back(client);
        }
    }

    /// Gives a client its place, now that it has said what it wants; false where there is none, and it is sent away again.
    pub(crate) fn seat(&mut self, client: ClientId) -> bool {
        let asks = self.all.get(&client).is_some_and(|entry| entry.session.only_asks());
        if asks {
            self.served -= 1;
            self.asking_only += 1;
            if self.asking_only > ASKING {
                self.end_one_that_asks();
            }
            return self.all.get(&client).is_some_and(|entry| !entry.session.is_closed());
        }
        let has_place = self.makes_room(client, asks);
        if !has_place {
            self.turn_back(client);
        }
        has_place
    }

    /// Whether there is room for a client. Others that have said no hello yet go for it, the oldest first.
    fn makes_room(&mut self, client: ClientId, may_ask: bool) -> bool {
        if self.has_place(may_ask) {
            return true;
        }
        // Where those that have said hello take all room, nothing is won.
        if !may_ask && self.served.saturating_sub(self.silent.len()) >= self.limits.clients_most {
            return false;
        }
        while !self.has_place(may_ask) {
            // One of Spread that has a name is about to be admitted.
            let is_silent = |other: &ClientId| {
                *other != client && self.all.get(other).is_some_and(|entry| entry.session.named().is_none())
            };
            let Some(other) = self.silent.iter().map(|(_, other)| *other).find(is_silent) else { break };
            let text = "no hello yet, and others need the room".to_owned();
            self.end(other, &Disconnect::new(DisconnectReason::Silent, text));
        }
        self.has_place(may_ask)
    }

    /// Whether one client more fits, which is counted already. One without a hello may turn out to only ask.
    const fn has_place(&self, may_ask: bool) -> bool {
        self.served <= self.limits.clients_most.saturating_add(if may_ask { ASKING } else { 0 })
    }

    /// Sends away the oldest of those that only ask, of the identity that has most of them: so everybody can ask.
    fn end_one_that_asks(&mut self) {
        let asking = self.all.iter().filter(|(_, entry)| entry.session.only_asks() && !entry.session.is_closed());
        let mut by_identity = BTreeMap::<&str, (usize, ClientId)>::new();
        for (client, entry) in asking {
            by_identity.entry(&entry.identity).or_insert((0, *client)).0 += 1;
        }
        let most = by_identity.into_values().max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
        let Some((_, oldest)) = most else { return };
        let text = format!("{ASKING} connections only ask, as many as may, and one of another needs the room");
        self.end(oldest, &Disconnect::new(DisconnectReason::TooManyClients, text));
    }

    /// How many clients there may be, without those that only ask.
    pub(crate) const fn most(&self) -> usize {
        self.limits.clients_most
    }

    /// How many connections there may be.
    pub(crate) const fn places(&self) -> usize {
        self.limits.clients_most.saturating_add(2 * ASKING)
    }

    /// What carries a client's connection.
    pub(crate) fn carried_by(&mut self, client: ClientId, transport: Transport) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.transport = transport;
        }
    }

    /// Who a client is, for the log.
    pub(crate) fn known_as(&mut self, now: Instant, client: ClientId, identity: String) {
        self.count_for(now, client, &identity);
        if let Some(entry) = self.all.get_mut(&client) {
            entry.identity = identity;
        }
    }

    /// The connections behind this one, by number; in how many groups each is, others know.
    pub(crate) fn after(&self, client: ClientId) -> impl Iterator<Item = Connection> {
        let behind = (Bound::Excluded(client), Bound::Unbounded);
        self.all.range(behind).map(|(client, entry)| entry.connection(*client, &self.limits))
    }

    pub(crate) fn feed(&mut self, client: ClientId, bytes: Bytes) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.feed(bytes);
        }
    }

    /// A client reads no more.
    pub(crate) fn deafen(&mut self, client: ClientId) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.deaf = true;
        }
    }

    pub(crate) fn is_deaf(&self, client: ClientId) -> bool {
        self.all.get(&client).is_some_and(|entry| entry.deaf)
    }

    /// What a client asks next. One that breaks the protocol is sent away.
    pub(crate) fn next(&mut self, now: Instant, client: ClientId) -> Option<ClientRequest> {
        let entry = self.all.get_mut(&client)?;
        // Who has not said hello yet may prove to be another.
        if entry.session.is_open() && self.fairness.is_over(now, &entry.under_way) {
            self.hold_to_share(client);
            return None;
        }
        //= S20
        entry.held_back = entry.session.is_held_back(&self.limits);
        if entry.held_back {
            return None;
        }
        let session = &mut entry.session;
        let before = (session.refused(), session.progress_is_due());
        let next = session.next(&self.limits);
        self.counts.refused += session.refused() - before.0;
        if session.progress_is_due() && !before.1 {
            self.progressed.push(client);
        }
        match next {
            Ok(Some(request)) => Some(request),
            Ok(None) => {
                self.note_begun(now, client);
                self.note(client);
                None
            }
            Err(farewell) => {
                self.end(client, &farewell);
                None
            }
        }
    }

    pub(crate) fn get(&self, client: ClientId) -> Option<&ClientSession> {
        self.all.get(&client).map(|entry| &entry.session)
    }

    /// Whether more may be read from a client that is known.
    pub(crate) fn may_read(&self, client: ClientId) -> bool {
        self.all.get(&client).is_some_and(|entry| entry.may_read() && !entry.paused)
    }

    pub(crate) fn welcome(&mut self, now: Instant, client: ClientId, name: ClientName, me: MemberId) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.welcome(name, me, &self.limits);
            self.optimistic.extend(entry.session.is_optimistic().then_some(client));
            self.positioned.extend(entry.session.wants_positions().then_some(client));
            self.entered(client);
            self.begin_heartbeats(now, client);
        }
    }

    /// The client's handshake is over.
    pub(crate) fn entered(&mut self, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        self.silent.remove(&(entry.hello_by, client));
        if let Some(name) = entry.session.named().cloned() {
            let (transport, identity) = (entry.transport, entry.identity.clone());
            self.notices.push(Notice::Connected { client, name, transport, identity });
        }
    }

    /// Lets a Spread client go on with its handshake under this name.
    pub(crate) fn name(&mut self, client: ClientId, name: ClientName, node: NodeId) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.name(name, node);
            if entry.session.is_open() {
                self.entered(client);
            }
            self.wake(client);
        }
    }

    /// Sees to it that what a session says before it is open is written, too.
    fn wake(&mut self, client: ClientId) {
        if self.all.get_mut(&client).is_some_and(|entry| entry.session.wakes()) {
            self.writable.push_back(client);
        }
    }

    /// The client's name under which it joins; from now on its going must be ordered.
    pub(crate) fn name_for_join(&mut self, client: ClientId) -> Option<ClientName> {
        let entry = self.all.get_mut(&client)?;
        entry.joined = true;
        entry.session.named().cloned()
    }

    /// A client's request is on its way into the order. One to join or leave a group comes with the number of its members.
    pub(crate) fn accept(&mut self, client: ClientId, joins_or_leaves: Option<usize>) {
        if let Some(entry) = self.all.get_mut(&client) {
            let accepted = entry.session.accept();
            self.counts.accepted += accepted;
            entry.under_way.accept(accepted, joins_or_leaves);
            self.fairness.count(&mut entry.under_way, entry.session.outstanding());
        }
    }

    pub(crate) fn refuse(&mut self, client: ClientId, refusal: &Refusal) {
        if let Some(entry) = self.all.get_mut(&client) {
            if !entry.session.progress_is_due() {
                self.progressed.push(client);
            }
            entry.session.refuse(refusal);
            self.counts.refused += 1;
            self.notices.push(Notice::refused(client, refusal));
            self.note(client);
        }
    }

    /// A client's oldest request under way has its place, and changed nothing if there is a refusal.
    pub(crate) fn order(&mut self, client: ClientId, placed: Placed<'_>, refusal: Option<&Refusal>) -> Range<u64> {
        let Some(entry) = self.all.get_mut(&client) else { return 0..0 };
        let was_due = entry.session.progress_is_due();
        let requests = entry.session.order(placed, refusal);
        if entry.session.progress_is_due() && !was_due {
            self.progressed.push(client);
        }
        let goes_on = entry.held_back && !entry.session.is_held_back(&self.limits);
        entry.under_way.order(placed.requests(), matches!(placed, Placed::Membership(_)));
        let next = self.fairness.count(&mut entry.under_way, entry.session.outstanding());
        if let Some(refusal) = refusal {
            self.tell_refused(client, requests.clone(), refusal);
        }
        if goes_on {
            self.pause(client);
        }
        if let Some(next) = next {
            self.go_on_within_share(next);
        }
        requests
    }

    /// Tells a client that its requests are refused.
    pub(crate) fn tell_refused(&mut self, client: ClientId, requests: Range<u64>, refusal: &Refusal) {
        self.counts.refused += requests.end - requests.start;
        self.notices.push(Notice::refused(client, refusal));
        self.tell_with(client, |session| session.tell_refused(requests, refusal));
    }

    pub(crate) fn next_writable(&mut self) -> Option<ClientId> {
        let mut progressed = std::mem::take(&mut self.progressed);
        for client in progressed.drain(..) {
            self.tell_with(client, ClientSession::tell_progress);
        }
        self.progressed = progressed;
        self.writable.pop_front()
    }

    /// Whether [`Self::next_writable`] has somebody to name.
    pub(crate) fn has_writable(&self) -> bool {
        !self.writable.is_empty() || !self.progressed.is_empty()
    }

    pub(crate) fn written(&mut self, now: Instant, client: ClientId, n: usize) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        entry.session.written(n);
        entry.account(&mut self.outputs);
        let left = entry.session.output().len();
        self.backlog.read(client, n, left);
        if (left > 0 || entry.slow.is_slow()) && !entry.session.is_closed() {
            return self.note_unread(now, client, n);
        }
        if entry.session.output().is_empty()
            && entry.session.is_closed()
            && let Some(entry) = self.all.remove(&client)
        {
            self.count_no_more(now, &entry.under_way);
        }
    }

    /// So much was ordered, for whomever.
    pub(crate) const fn ordered(&mut self, bytes: usize) {
        self.backlog.ordered(bytes);
    }

    /// How many bytes clients can take soon, and no more than may wait above the engine, where that may have changed.
    pub(crate) fn room(&mut self, now: Instant, upward: &PendingDeliveries) -> Option<usize> {
        if self.backlog.is_due(now) { self.backlog.look(now, upward.room()) } else { None }
    }

    pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("clients", self.all.len() as u64);
        see("clients_most", self.limits.clients_most as u64);
        see("clients_paused", (self.paused.len() + self.paused_until.len() + self.asking.len()) as u64);
        see("requests_accepted", self.counts.accepted);
        see("requests_refused", self.counts.refused);
        see("messages_delivered", self.counts.messages);
        see("messages_untold", self.counts.untold);
        see("clients_optimistic", self.optimistic.len() as u64);
        see("messages_offered", self.counts.offers);
        see("messages_revoked", self.counts.revokes);
        see("message_bytes_delivered", self.counts.message_bytes);
        let waiting = self.all.values().map(|entry| entry.session.output().len() as u64).sum();
        see("client_output_bytes", waiting);
        see("client_output_memory_bytes", self.memory() as u64);
        see("client_output_shared_bytes", self.pool.bytes() as u64);
        see("client_frames_begun_bytes", self.partial_frames.bytes() as u64);
        self.observe_slow(see);
        self.observe_fairness(see);
        see("clients_behind", self.backlog.len() as u64);
        self.counts.waits.iter().for_each(|(cause, count)| see(&format!("requests_waited_{cause}"), *count));
        self.counts.ended.iter().for_each(|(parting, count)| see(&format!("sessions_ended_{parting}"), *count));
    }
}
