//! Which state handles which input, and which state follows: the tables, and nothing else.
use crate::RingId;
use crate::config::{Config, ConfigError};
use crate::installed::{Installed, Old};
use crate::packet::{Beacon, Commit, Join, Packet};
use crate::queue::Queue;
use crate::state::table::{self, Name};
use crate::state::{Committing, Gather, Next, Operational, Recovery, Sets, Why};
use crate::store::Store;
use crate::timer::{Timer, Timers};
use bytes::Bytes;
use consort_member::{Heard, Hearing, Numbers, Quarantine};
use consort_order::{AcrossPartitions, Arrival, Capability, Engine, Link, Output, Reach, Refused, Submission, To};
use consort_types::{
    Cause, Duration, Incarnation, Instant, MemberId, MessageId, NodeId, Position, Primary, Rng, Seq, Service, Stream,
    Ticket, View, ViewId, ViewKind,
};
use consort_wire::Lane;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most bytes of annotation a beacon carries.
pub const ANNOTATION_MAX: usize = 64;

/// One node of a ring.
#[derive(Clone, Debug)]
pub struct Ring {
    io: Io,
    pub(crate) state: State,
}

/// Each state owns its data.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Not started, or between two states.
    Still,
    /// Members look for each other.
    Gather(Box<Gather>),
    /// They tell what they hold.
    Commit(Box<Committing>),
    /// They recover what some of them lack.
    Recovery(Box<Recovery>),
    /// The token circulates.
    Operational(Box<Operational>),
    /// It said good-bye.
    Left,
}

impl State {
    const fn name(&self) -> Name {
        match self {
            Self::Still => Name::Still,
            Self::Gather(_) => Name::Gather,
            Self::Commit(_) => Name::Commit,
            Self::Recovery(_) => Name::Recovery,
            Self::Operational(_) => Name::Operational,
            Self::Left => Name::Left,
        }
    }
}

/// What all states share: the way out, what clients want sent, timers, settings, and what is known of the others.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    pub config: Config,
    pub me: MemberId,
    pub queue: Queue,
    pub timers: Timers,
    pub output: VecDeque<Output<Packet>>,
    pub counters: Counters,
    pub rng: Rng,
    pub heard: Heard,
    pub quarantine: Quarantine,
    pub numbers: Numbers,
    /// Counts gatherings, so that late JOINs are known.
    pub episode: u64,
    /// The ring whose commit token was passed on last without that ring coming to stand.
    pub attempt: Option<RingId>,
    pub installed_number: u64,
    pub suspicion: Suspicion,
    /// The ring this one would like to merge with.
    pub wants: Option<RingId>,
    pub leaving: bool,
    /// A later life that goes by this node's index.
    twin: Option<MemberId>,
    pub episodes: BTreeMap<MemberId, u64>,
    annotation: Bytes,
    beacons: u64,
    beacon_at: Instant,
    ticket: u64,
}

/// Whom commit tokens did not get past.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicion(Option<(RingId, MemberId)>);

impl Suspicion {
    /// Notes a failed attempt; true if the one before it, another one, failed at the same member.
    pub fn note(&mut self, attempt: RingId, suspect: MemberId) -> bool {
        //= M25
        match self.0.replace((attempt, suspect)) {
            Some((before, same)) if before != attempt => same == suspect,
            _ => false,
        }
    }

    /// Another attempt begins: what was noted before the last one, of which nothing was noted, is not the one before it.
    fn forget_before(&mut self, last: Option<RingId>) {
        self.0 = self.0.filter(|(attempt, _)| Some(*attempt) >= last);
    }

    pub const fn clear(&mut self) {
        self.0 = None;
    }
}

impl Io {
    fn new(config: Config, incarnation: Incarnation) -> Self {
        let me = MemberId { node: config.me, incarnation };
        Self {
            me,
            queue: Queue::new(config.queue_bytes, config.message_max),
            timers: Timers::default(),
            output: VecDeque::new(),
            counters: Counters::default(),
            rng: Rng::new(incarnation.0 ^ u64::from(me.node.0) << 48),
            heard: Heard::new(config.timers.beacon * 3 + config.timers.beacon / 2),
            quarantine: Quarantine::default(),
            numbers: Numbers::default(),
            episode: 0,
            attempt: None,
            installed_number: 0,
            suspicion: Suspicion::default(),
            wants: None,
            leaving: false,
            twin: None,
            episodes: BTreeMap::new(),
            annotation: Bytes::new(),
            beacons: 0,
            beacon_at: Instant::ZERO,
            ticket: 0,
            config,
        }
    }

    pub fn send(&mut self, to: To, lane: Lane, packet: Packet) {
        self.output.push_back(Output::Send { to, lane, packet });
    }

    /// Notes a broken invariant: counted in every build, and fatal in debug builds, so that tests stop where it broke.
    pub fn check(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.counters.assertion_failures += 1;
            self.counters.last_assertion = Some(rule);
            if cfg!(all(debug_assertions, not(feature = "mutants"))) {
                panic!("{rule}");
            }
        }
    }

    /// The same for what others said: a broken or hostile one may cause it, so it is counted, but never fatal.
    pub fn check_told(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.counters.assertion_failures += 1;
            self.counters.last_assertion = Some(rule);
        }
    }

    /// Takes part in forming a ring.
    pub fn take_part(&mut self, ring: RingId) {
        //= M25
        self.suspicion.forget_before(self.attempt);
        self.numbers.saw(ring.number);
        self.attempt = Some(ring);
    }

    /// Whom this node tells others that it hears: not those that it keeps out, so that nobody lets them in on its behalf.
    pub fn hears(&self, now: Instant) -> BTreeSet<NodeId> {
        //= M52
        self.heard.nodes(now).into_iter().filter(|node| !self.quarantine.holds(*node, now)).collect()
    }

    /// Sends a beacon now, unless one was sent a moment ago.
    pub fn beacon_soon(&mut self, now: Instant) {
        //= M19
        let earliest = self.beacon_at + self.config.timers.join;
        self.timers.arm(Timer::Beacon, earliest.max(now));
    }

    /// Whether a membership packet is worth looking at: not of an earlier life, not of an earlier gathering, and not
    /// something that lay in a queue while this node was paused.
    fn heeds(&mut self, now: Instant, arrival: &Arrival) -> bool {
        //= M02
        //= M54
        if !self.heard.is_latest(arrival.from) && !crate::mutated!(self.config, DeadHeeded) {
            self.counters.old_incarnation += 1;
            return false;
        }
        if now.since(arrival.at) > self.config.timers.token_loss / 2 {
            self.counters.stale_membership += 1;
            return false;
        }
        true
    }

    /// A packet from this very node, but not from this life of it: a leftover of an earlier one, or somebody else goes by
    /// its index and has taken its place among the others. Then it says so, and does not fight.
    fn note_life_of_mine(&mut self, from: MemberId) {
        //= M01
        if from > self.me {
            self.counters.twins += 1;
            self.twin = Some(from);
        } else {
            self.counters.old_incarnation += 1;
        }
    }

    fn heeds_join(&mut self, now: Instant, arrival: &Arrival, join: &Join) -> bool {
        //= M18
        let from = arrival.from;
        let last = self.episodes.entry(from).or_default();
        if join.episode < *last && !crate::mutated!(self.config, StaleJoinsMerged) {
            self.counters.stale_membership += 1;
            return false;
        }
        *last = join.episode;
        self.episodes.retain(|member, _| member.node != from.node || *member == from);
        self.numbers.saw(join.number);
        self.heard.note_hears(from, now, join.heard.clone());
        true
    }

    /// Keeps the ceiling of ring numbers ahead of what is in use.
    fn reserve(&mut self) {
        //= M03
        if let Some(reservation) = self.numbers.reserve() {
            self.ticket += 1;
            let record = Bytes::copy_from_slice(&reservation.ceiling.to_be_bytes());
            self.output.push_back(Output::Persist { ticket: Ticket(self.ticket), record, sync: true });
            if self.ticket > 1 {
                self.output.push_back(Output::Trim { up_to: Ticket(self.ticket - 1) });
            }
        }
    }
}

macro_rules! counters {
    ($($name:ident $what:literal),* $(,)?) => {
        /// What happened so far. Shown by `status`, exported as metrics, read by tests.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counters {
            $(#[doc = $what] pub $name: u64,)*
            /// The rule that was broken last.
            pub last_assertion: Option<&'static str>,
        }

        impl Counters {
            fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
                $(see(stringify!($name), self.$name);)*
            }
        }
    };
}

counters!(
    visits "Visits of the token.",
    packets_sent "Numbered packets sent for the first time.",
    packets_sent_after_token "Those of them that left after the token.",
    retransmissions_sent "Packets sent again because they were asked for.",
    requests_made "Places asked for.",
    needless_retransmissions "Retransmissions that arrived where the packet was held already.",
    duplicates "Data packets that were held already.",
    duplicate_tokens "Tokens that were accepted before.",
    tokens_retransmitted "Tokens sent again, commit tokens included.",
    token_losses "Times that no token came for token_loss.",
    holds "Times that the token was parked.",
    hold_cancels_sent "Times that a parked token was asked for.",
    foreign_ring "Packets of another ring.",
    wrong_sender "Tokens from somebody who is not the predecessor.",
    old_incarnation "Packets from an earlier life of a member.",
    new_incarnation "Regular packets from a later life of a member: it was restarted.",
    strangers "Packets from nodes that are not configured.",
    twins "Packets from another process that goes by this node's index, in a later life.",
    beyond_window "Data packets too far ahead to be kept.",
    unexpected "Packets that have no meaning in this state.",
    stale_membership "Membership packets that came too late to mean anything.",
    joins_sent "JOINs sent.",
    beacons_sent "Beacons sent.",
    gathers "Times that members were gathered.",
    views "Regular views installed.",
    pauses "Times that this node was not run for long.",
    assertion_failures "Invariants found broken. Always 0.",
);

impl Ring {
    /// A node that is about to start; `incarnation` is this life of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`ConfigError`] if the settings cannot work.
    pub fn new(mut config: Config, incarnation: Incarnation) -> Result<Self, ConfigError> {
        config.validate()?;
        config.members.sort_unstable();
        Ok(Self { io: Io::new(config, incarnation), state: State::Still })
    }

    /// Whether this node holds the packet of a position of a ring, or once held it and knows that all do; `None` if it
    /// has not installed that ring, or has gone on from it.
    pub fn holds_in(&self, ring: RingId, position: Position) -> Option<bool> {
        (self.installed()?.view.id == ring).then(|| self.holds(position))
    }

    /// The same for the ring installed last.
    pub fn holds(&self, position: Position) -> bool {
        let seq = crate::delivery::seq_of(position);
        match &self.state {
            State::Operational(state) => state.circle.holds(seq),
            State::Gather(state) => old_holds(&state.old, seq),
            State::Commit(state) => old_holds(&state.old, seq),
            State::Recovery(state) => old_holds(&state.old, seq),
            State::Still | State::Left => false,
        }
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.io.config
    }

    /// This life of the node.
    pub const fn incarnation(&self) -> Incarnation {
        self.io.me.incarnation
    }

    /// What all states share, for looking at.
    #[cfg(any(test, feature = "model"))]
    pub(crate) const fn io(&self) -> &Io {
        &self.io
    }

    #[cfg(feature = "model")]
    pub(crate) const fn io_mut(&mut self) -> &mut Io {
        &mut self.io
    }

    #[cfg(feature = "model")]
    pub(crate) fn come_due(&mut self, now: Instant, timer: Timer) {
        self.io.timers.disarm(timer);
        let next = self.expire(now, timer);
        self.finish(now, next);
    }

    #[cfg(test)]
    pub(crate) fn received_for_test(&self) -> u64 {
        let State::Operational(state) = &self.state else { return 0 };
        state.circle.received()
    }

    /// The rule whose assertion failed last, if any did.
    pub const fn last_assertion(&self) -> Option<&'static str> {
        self.io.counters.last_assertion
    }

    /// The state's name.
    pub const fn state(&self) -> &'static str {
        self.state.name().as_str()
    }

    pub(crate) fn installed(&self) -> Option<&Installed> {
        match &self.state {
            State::Operational(state) => Some(&state.installed),
            State::Gather(state) => Some(&state.old.installed),
            State::Commit(state) => Some(&state.old.installed),
            State::Recovery(state) => Some(&state.old.installed),
            State::Still | State::Left => None,
        }
    }

    /// Goes wherever the answer leads, and where that leads. The table of ways is in `state/table.rs`.
    fn go(&mut self, now: Instant, mut next: Next) {
        while let Some(step) = next.step() {
            let from = self.state.name();
            next = self.enter(now, next);
            self.io.check(table::allows(from, step, self.state.name()), "M05: there is no such way");
        }
    }

    /// State x step: makes the state that follows out of the one that ends.
    fn enter(&mut self, now: Instant, answer: Next) -> Next {
        let state = std::mem::replace(&mut self.state, State::Still);
        let next;
        (self.state, next) = match (state, answer) {
            (_, Next::Leave) => (self.depart(), Next::Stay),
            (State::Operational(state), Next::Gather(why)) => self.gather(now, state.into_old(), None, &why),
            (State::Commit(state), Next::Gather(why)) => self.gather(now, state.old, Some(state.sets), &why),
            (State::Recovery(state), Next::Gather(why)) => self.gather(now, state.old, Some(state.sets), &why),
            (State::Gather(state), Next::Commit(commit)) => self.commit(now, *state, commit),
            (State::Commit(state), Next::Recover(commit)) => {
                let (state, next) = Recovery::enter(&mut self.io, now, state.old, state.sets, commit);
                (State::Recovery(Box::new(state)), next)
            }
            (State::Recovery(state), Next::Install) => {
                (State::Operational(Box::new(state.install(&mut self.io, now))), Next::Stay)
            }
            (state, _) => (state, Next::Stay),
        };
        next
    }

    fn commit(&mut self, now: Instant, state: Gather, commit: Commit) -> (State, Next) {
        let alone = commit.members.len() == 1;
        let agreed = commit.member_ids() == state.sets.candidates();
        let led = commit.members.first().is_some_and(|(first, _)| *first == commit.ring.representative);
        self.io.check(agreed && led, "G9: the ring to be is what was agreed, led by its lowest");
        match Committing::enter(&mut self.io, now, state.old, state.sets, commit) {
            Ok(state) => {
                let next = if alone { Next::Recover(state.alone()) } else { Next::Stay };
                (State::Commit(Box::new(state)), next)
            }
            Err(back) => {
                let (old, sets) = *back;
                (State::Gather(Box::new(Gather::enter(&mut self.io, now, old, sets))), Next::Stay)
            }
        }
    }

    fn gather(&mut self, now: Instant, old: Old, sets: Option<Sets>, why: &Why) -> (State, Next) {
        //= M10
        if sets.is_none() {
            self.io.episode += 1;
        }
        self.io.wants = None;
        let mut sets = sets.unwrap_or_else(|| Sets::new(&self.io, &old, why.trigger.clone()));
        sets.take(self.io.me, why);
        (State::Gather(Box::new(Gather::enter(&mut self.io, now, old, sets))), Next::Stay)
    }

    /// Says good-bye, three times because it cannot be asked for again.
    fn depart(&mut self) -> State {
        //= M15
        let me = self.io.me;
        let goodbye = Join {
            proc: BTreeSet::new(),
            fail: [me].into(),
            number: self.io.numbers.highest(),
            ring: RingId { number: self.io.installed_number, representative: me },
            heard: BTreeSet::new(),
            leave: true,
            episode: self.io.episode,
            attempt: None,
        };
        for _ in 0..3 {
            self.io.send(To::All, Lane::Control, Packet::Join(goodbye.clone()));
        }
        self.io.timers.disarm_all_but(&[]);
        self.io.output.push_back(Output::Left);
        State::Left
    }

    /// Packet x state, for the packets of a ring that works.
    fn on_regular(&mut self, now: Instant, arrival: &Arrival, packet: Packet) -> Next {
        let (io, from) = (&mut self.io, arrival.from);
        match (&mut self.state, packet) {
            (State::Operational(state), Packet::Data(data)) => state.on_data(io, from, data),
            (State::Operational(state), Packet::Token(token)) => state.on_token(io, now, arrival, token),
            (State::Operational(state), Packet::HoldCancel(cancel)) => {
                state.on_hold_cancel(io, now, cancel);
                Next::Stay
            }
            (State::Recovery(state), Packet::Data(data)) => state.on_data(io, from, data),
            (State::Recovery(state), Packet::Token(token)) => state.on_token(io, now, arrival, token),
            (State::Commit(state), Packet::Data(data)) => {
                state.on_data(io, data);
                Next::Stay
            }
            (State::Gather(state), Packet::Data(data)) => {
                state.on_data(io, data);
                Next::Stay
            }
            // Tokens of a ring that was given up are worth nothing; no ring is parked here.
            _ => {
                io.counters.unexpected += 1;
                Next::Stay
            }
        }
    }

    /// Packet x state, for the packets of membership.
    fn on_membership(&mut self, now: Instant, arrival: &Arrival, packet: Packet) -> Next {
        let from = arrival.from;
        match packet {
            Packet::Join(join) => {
                if self.io.heeds_join(now, arrival, &join) {
                    self.on_join(now, from, &join)
                } else {
                    Next::Stay
                }
            }
            Packet::Commit(commit) => self.on_commit(now, from, commit),
            Packet::Beacon(beacon) => self.on_beacon(now, from, beacon),
            _ => Next::Stay,
        }
    }

    fn on_join(&mut self, now: Instant, from: MemberId, join: &Join) -> Next {
        let io = &mut self.io;
        match &mut self.state {
            State::Operational(state) => state.on_join(io, now, from, join),
            State::Gather(state) => state.on_join(io, now, from, join),
            State::Commit(state) => state.on_join(io, from, join),
            State::Recovery(state) => state.on_join(io, from, join),
            State::Still | State::Left => Next::Stay,
        }
    }

    fn on_commit(&mut self, now: Instant, from: MemberId, commit: Commit) -> Next {
        let io = &mut self.io;
        match &mut self.state {
            State::Gather(state) => state.on_commit(io, from, commit),
            State::Commit(state) => state.on_commit(io, now, from, commit),
            State::Recovery(state) => state.on_commit(io, now, from, &commit),
            State::Operational(_) | State::Still | State::Left => {
                io.counters.unexpected += 1;
                Next::Stay
            }
        }
    }

    fn on_beacon(&mut self, now: Instant, from: MemberId, beacon: Beacon) -> Next {
        //= M50
        let io = &mut self.io;
        io.numbers.saw(beacon.ring.number);
        io.heard.note(Hearing {
            member: from,
            at: now,
            hears: beacon.heard,
            view: beacon.ring,
            members: beacon.members,
            wants: beacon.wants,
            settled: beacon.settled,
        });
        match &mut self.state {
            State::Operational(state) => {
                if state.circle.ring == beacon.ring {
                    io.output.push_back(Output::Beacon { from, annotation: beacon.annotation });
                    return Next::Stay;
                }
                state.on_beacon(io, now)
            }
            State::Gather(state) => state.on_beacon(io, now, from),
            _ => Next::Stay,
        }
    }

    /// Timer x state.
    fn expire(&mut self, now: Instant, timer: Timer) -> Next {
        let io = &mut self.io;
        match (&mut self.state, timer) {
            (_, Timer::Beacon) => {
                self.send_beacon(now);
                Next::Stay
            }
            (State::Left | State::Still, _) => Next::Stay,
            (_, Timer::Leave) => Next::Leave,
            (State::Operational(state), Timer::TokenRetransmit) => {
                state.circle.send_again(io, now);
                Next::Stay
            }
            (State::Operational(state), Timer::TokenLoss) => state.on_token_loss(io, now),
            (State::Operational(state), Timer::Hold) => state.on_hold_end(io, now),
            (State::Operational(state), Timer::HoldCancel) => {
                state.circle.on_hold_cancel_again(io, now);
                Next::Stay
            }
            (State::Gather(state), Timer::Join) => {
                state.on_join_timeout(io, now);
                Next::Stay
            }
            (State::Gather(state), Timer::Consensus) => state.on_consensus_timeout(io, now),
            (State::Commit(state), Timer::TokenRetransmit) => {
                state.on_retransmit(io, now);
                Next::Stay
            }
            (State::Commit(state), Timer::TokenLoss) => Next::gather(Why::new(state.sets.trigger.clone())),
            (State::Recovery(state), Timer::TokenRetransmit) => {
                state.on_retransmit(io, now);
                Next::Stay
            }
            (State::Recovery(state), Timer::TokenLoss | Timer::RecoveryMax) => {
                //= M39
                Next::gather(Why::new(state.sets.trigger.clone()))
            }
            _ => Next::Stay,
        }
    }

    fn send_beacon(&mut self, now: Instant) {
        //= M50
        if crate::mutated!(self.io.config, NoBeacons) {
            return;
        }
        let Some(installed) = self.installed() else { return };
        let (ring, members) = (installed.view.id, installed.view.members.clone());
        let settled = matches!(self.state, State::Operational(_)) && !self.io.leaving;
        let io = &mut self.io;
        let heard = io.hears(now);
        let padded = io.beacons.is_multiple_of(10);
        let beacon =
            Beacon { ring, members, heard, wants: io.wants, settled, annotation: io.annotation.clone(), padding: 0 };
        let padding = if padded { io.config.datagram.packet_room().saturating_sub(beacon.bare_len()) } else { 0 };
        io.beacons += 1;
        io.counters.beacons_sent += 1;
        io.beacon_at = now;
        io.send(To::All, Lane::Control, Packet::Beacon(Beacon { padding, ..beacon }));
        let tenth = io.config.timers.beacon.as_nanos() as u64 / 10;
        let jitter = Duration::from_nanos(io.rng.below(2 * tenth));
        io.timers.arm(Timer::Beacon, now + (io.config.timers.beacon - Duration::from_nanos(tenth) + jitter));
    }

    /// A wake-up that comes much later than it was asked for means that this node was paused. What it waited for may lie
    /// in its queues: it must not be judged before they were read.
    fn note_pause(&mut self, now: Instant) {
        //= M54
        let Some(asked) = self.io.timers.next() else { return };
        let t = &self.io.config.timers;
        if now.since(asked) <= t.token_loss / 2 {
            return;
        }
        self.io.counters.pauses += 1;
        let grace = now + 4 * t.token_retransmit_idle;
        for timer in [Timer::TokenLoss, Timer::Consensus] {
            if self.io.timers.is_armed(timer) {
                self.io.timers.postpone(timer, grace);
            }
        }
    }

    fn finish(&mut self, now: Instant, next: Next) {
        self.go(now, next);
        let armed = self.io.timers.armed_as(self.state.name());
        self.io.check(armed, "G14: exactly the timers of the state are armed");
        self.io.reserve();
        if self.io.queue.has_room_again() {
            self.io.output.push_back(Output::Room);
        }
    }
}

fn observe_old(old: &Old, see: &mut dyn FnMut(&'static str, u64)) {
    see("store_packets", old.store.held() as u64);
    see("store_bytes", old.store.bytes() as u64);
}

fn old_holds(old: &Old, seq: Seq) -> bool {
    seq <= old.store.discarded() || old.store.get(seq).is_some()
}

impl Engine for Ring {
    type Packet = Packet;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "ring",
            services: &[Service::Agreed, Service::Safe],
            optimistic: false,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            continues_in_minority: true,
            across_partitions: AcrossPartitions::Evs,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        //= M04
        let stored = records.iter().filter_map(|record| Some(u64::from_be_bytes(record[..].try_into().ok()?))).max();
        self.io.numbers = Numbers::new(stored.unwrap_or_default());
        let me = self.io.me;
        let id = ViewId { number: self.io.numbers.highest(), representative: me };
        self.io.installed_number = id.number;
        let view = View {
            id,
            kind: ViewKind::Regular,
            members: vec![me],
            moved_together: vec![me],
            primary: Primary::No,
            cause: Cause::Started,
            evidence: Vec::new(),
        };
        self.io.output.push_back(Output::Install(view.clone()));
        let old =
            Old { installed: Installed::new(me, view, Seq(0)), store: Store::default(), stable: Seq(0), frozen: 0 };
        (self.state, _) = self.gather(now, old, None, &Why::new(Cause::Started));
        self.send_beacon(now);
        self.finish(now, Next::Stay);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if submission.stream != Stream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.io.leaving {
            return Err(Refused::Leaving);
        }
        let id = self.io.queue.push(submission)?;
        if let State::Operational(state) = &mut self.state {
            state.nudge(&mut self.io, now);
        }
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        self.note_pause(now);
        if !self.io.config.members.contains(&arrival.from.node) {
            self.io.counters.strangers += 1;
            return;
        }
        if arrival.from.node == self.io.me.node {
            self.io.note_life_of_mine(arrival.from);
            return;
        }
        let next = match packet {
            Packet::Data(_) | Packet::Token(_) | Packet::HoldCancel(_) => {
                if !self.knows(arrival.from) {
                    return;
                }
                self.io.heard.refresh(arrival.from, now);
                self.on_regular(now, &arrival, packet)
            }
            _ if self.io.heeds(now, &arrival) => self.on_membership(now, &arrival, packet),
            _ => Next::Stay,
        };
        self.finish(now, next);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.note_pause(now);
        while let Some(timer) = self.io.timers.take_due(now) {
            let next = self.expire(now, timer);
            self.go(now, next);
        }
        self.finish(now, Next::Stay);
    }

    fn handle_persisted(&mut self, now: Instant, _ticket: Ticket) {
        //= M03
        self.io.numbers.reserved();
        let next = match &mut self.state {
            State::Gather(state) => state.try_commit(&mut self.io, now),
            _ => Next::Stay,
        };
        self.finish(now, next);
    }

    // The ring uses no reliable lane.
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn annotate(&mut self, annotation: Bytes) {
        self.io.annotation = annotation.slice(..annotation.len().min(ANNOTATION_MAX));
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.io.queue.open_gate(view)
            && let State::Operational(state) = &mut self.state
        {
            state.nudge(&mut self.io, now);
        }
    }

    fn leave(&mut self, now: Instant) {
        //= M15
        if std::mem::replace(&mut self.io.leaving, true) {
            return;
        }
        self.io.timers.arm(Timer::Leave, now + self.io.config.timers.leave);
        let next = match &mut self.state {
            State::Operational(state) => {
                state.circle.ask(&mut self.io, now);
                state.may_leave(&self.io)
            }
            _ => Next::Leave,
        };
        self.finish(now, next);
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.io.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.io.timers.next()
    }

    fn reads_first(&self) -> Lane {
        match &self.state {
            State::Operational(state) => state.circle.reads_first(),
            State::Recovery(state) => state.circle.reads_first(),
            _ => Lane::Data,
        }
    }

    fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.io.counters.observe(see);
        see("queued_bytes", self.io.queue.bytes() as u64);
        see("assembly_bytes", self.installed().map_or(0, |installed| installed.deliverer.held()) as u64);
        see("torn_messages", self.installed().map_or(0, |installed| installed.deliverer.torn));
        match &self.state {
            State::Operational(state) => state.circle.observe(see),
            State::Recovery(state) => state.circle.observe(see),
            State::Gather(state) => observe_old(&state.old, see),
            State::Commit(state) => observe_old(&state.old, see),
            State::Still | State::Left => {}
        }
    }

    fn reachability(&self, now: Instant) -> Vec<Reach> {
        let io = &self.io;
        let others = io.config.members.iter().copied().filter(|node| *node != io.me.node);
        let reach = |node| Reach {
            node,
            heard: io.heard.last_heard(node).map(|at| now.since(at)),
            hears_us: io.heard.mutual(io.me.node, node, now),
            quarantined: io.quarantine.holds(node, now),
        };
        others.map(reach).collect()
    }

    fn describe(&self, _now: Instant) -> String {
        let told = self.describe_state();
        match self.io.twin {
            Some(twin) => format!("another process runs as {} ({twin}), stop one of the two; {told}", twin.node),
            None => told,
        }
    }
}

impl Ring {
    fn describe_state(&self) -> String {
        match &self.state {
            State::Still => "not started".into(),
            State::Gather(state) => state.describe(),
            State::Commit(state) => state.describe(),
            State::Recovery(state) => state.describe(),
            State::Operational(state) => state.describe(),
            State::Left => "left".into(),
        }
    }

    /// Whether a regular packet comes from a member, in the life this node knows. In any other state than Operational it
    /// may come from a member of the ring to be.
    fn knows(&mut self, from: MemberId) -> bool {
        //= R35
        let known = match &self.state {
            State::Operational(_) if crate::mutated!(self.io.config, ForeignDataGathers) => {
                self.io.heard.latest(from.node)
            }
            State::Operational(state) => state.installed.member(from.node),
            _ => self.io.heard.latest(from.node),
        };
        match known.map(|member| from.incarnation.cmp(&member.incarnation)) {
            Some(std::cmp::Ordering::Equal) => return true,
            Some(std::cmp::Ordering::Less) => self.io.counters.old_incarnation += 1,
            Some(std::cmp::Ordering::Greater) => self.io.counters.new_incarnation += 1,
            None => self.io.counters.foreign_ring += 1,
        }
        false
    }
}
