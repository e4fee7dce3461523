//! What all states share.
use crate::RingId;
use crate::config::{RingConfig, RingTimeouts};
use crate::counters::Counters;
use crate::flow;
use crate::grant_backoff::GrantBackoff;
use crate::packet::{Proposal, RingPacket};
use crate::timer::{RingTimers, Span, Timer};
use crate::tuning::SocketBacklog;
use consort_member::{CeilingRecord, Hearsay, Presence};
use consort_order::SubmitQueue;
use consort_order::{Arrival, Destination, Output};
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, Service};
use consort_wire::Lane;
use std::collections::VecDeque;

/// What all states share: the way out, what clients want sent, timers, settings, and what is known of the others.
#[derive(Clone, Debug)]
pub(crate) struct RingIo {
    pub config: RingConfig,
    pub me: MemberId,
    pub queue: SubmitQueue,
    pub timers: RingTimers,
    /// How far the farthest two of those are that matter now, one way, as the timers have it.
    pub delay: Duration,
    /// When to give up waiting now.
    pub timeouts: RingTimeouts,
    pub output: VecDeque<Output<RingPacket>>,
    pub counters: Counters,
    pub presence: Presence,
    pub grant_backoff: GrantBackoff,
    /// The ring whose commit token was passed on last without that ring coming to stand.
    pub attempt: Option<RingId>,
    pub installed_number: u64,
    pub suspicion: Suspicion,
    pub leaving: bool,
    /// Stamps given here are above this one, where the ring stamps.
    pub clock: u64,
    /// The personal window that the last token told.
    pub personal: u32,
    /// What waited in this node's sockets since the last visit.
    pub backlog: SocketBacklog,
    /// How many bytes the layer above can take soon.
    pub room: usize,
    /// When this node ran again after it was paused last.
    pub paused_at: Instant,
}

/// Whom commit tokens did not get past, or tokens did not get to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicion(Option<(RingId, MemberId)>);

impl Suspicion {
    /// Notes a failed attempt, or a ring that is over; true if the one before it, another one, failed at the same member.
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

/// The ring has two levels: what is weaker than agreed rides as agreed.
fn rides(service: Service) -> Service {
    service.max(Service::Agreed)
}

impl RingIo {
    pub fn new(config: RingConfig, incarnation: Incarnation) -> Self {
        let me = MemberId { node: config.me, incarnation };
        Self {
            me,
            queue: SubmitQueue::new(config.queue_bytes, config.message_max, rides),
            timers: RingTimers::default(),
            delay: config.delay,
            timeouts: config.timeouts(1, Duration::ZERO),
            output: VecDeque::new(),
            counters: Counters::default(),
            presence: Presence::new(me, config.timers.beacon),
            grant_backoff: GrantBackoff::default(),
            attempt: None,
            installed_number: 0,
            suspicion: Suspicion::default(),
            leaving: false,
            clock: 0,
            personal: config.windows.personal,
            backlog: SocketBacklog::default(),
            room: usize::MAX,
            paused_at: Instant::ZERO,
            config,
        }
    }

    /// The room this node reports: what its sockets and its clients can take.
    pub fn reported_room(&self) -> u32 {
        //= R9
        flow::reported_room(&self.config).min(u32::try_from(self.room).unwrap_or(u32::MAX))
    }

    /// Whether messages in it have stamps, if this ring stamps, and nothing in it has one otherwise.
    #[inline]
    pub const fn is_stamped_as_here(&self, packet: &RingPacket) -> bool {
        //= R49
        match packet {
            RingPacket::Data(data) => (data.stamp > 0) == self.config.stamped,
            RingPacket::Token(token) => self.config.stamped || token.stamp == 0,
            _ => true,
        }
    }

    /// The personal window that a new ring begins with: what the last one came down to, but no more than is configured.
    pub fn first_window(&self) -> u16 {
        //= R43
        let personal = self.personal.min(self.config.windows.personal);
        u16::try_from(personal).unwrap_or(u16::MAX)
    }

    pub fn send(&mut self, to: Destination, lane: Lane, packet: RingPacket) {
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
        self.presence.numbers.saw(ring.number);
        self.attempt = Some(ring);
    }

    /// A view with a node did not last, or would not.
    pub fn keep_out(&mut self, node: NodeId, now: Instant) {
        //= M52
        if !crate::mutated!(self.config, NobodyKeptOut) {
            self.presence.quarantine.put(node, now);
        }
    }

    /// This node as one that hears others, for telling why one of them is missing.
    pub fn hearsay(&self, now: Instant) -> Hearsay<'_> {
        self.presence.hearsay(now, self.timeouts.consensus / 2)
    }

    /// Sends a beacon now, unless one was sent a moment ago.
    pub fn beacon_soon(&mut self, now: Instant) {
        let at = self.presence.beacon_soon(now, self.timeouts.join);
        self.timers.arm(Timer::Beacon, at);
    }

    /// Arms a timer that follows the distances while it is armed.
    pub fn wait(&mut self, timer: Timer, now: Instant, span: Span) {
        //= M60
        self.timers.arm_for(timer, now, span, &self.timeouts);
    }

    /// These members matter from now on: what is waited for among them is waited for as long as their distances want it.
    pub fn follow(&mut self, members: &[MemberId]) {
        //= M60
        let delay = self.presence.distances.among(members);
        let timeouts = self.config.timeouts(members.len(), delay);
        if timeouts != self.timeouts && !crate::mutated!(self.config, DistanceIgnored) {
            self.timers.follow(&self.timeouts, &timeouts);
            self.timeouts = timeouts;
            self.delay = delay.max(self.config.delay);
        }
    }

    /// Whether a membership packet is worth looking at: not of an earlier incarnation, not of an earlier gathering, and not
    /// something that lay in a queue while this node was paused.
    pub fn heeds(&mut self, now: Instant, arrival: &Arrival) -> bool {
        //= M02
        //= M54
        if now.since(arrival.at) > self.timeouts.token_loss / 2 {
            self.counters.stale_membership += 1;
            return false;
        }
        if !self.presence.heard.is_latest(arrival.from, now) && !crate::mutated!(self.config, DeadHeeded) {
            self.counters.old_incarnation += 1;
            return false;
        }
        true
    }

    /// A packet from this very node, but not from this incarnation of it.
    pub fn note_own_incarnation(&mut self, now: Instant, from: MemberId) {
        let twin = self.presence.notes_twin(now, from);
        self.counters.twins += u64::from(twin);
        self.counters.old_incarnation += u64::from(!twin);
    }

    pub fn heeds_join(&mut self, now: Instant, from: MemberId, join: &Proposal) -> bool {
        let heeded = self.presence.notes_join(now, from, join) || crate::mutated!(self.config, StaleJoinsMerged);
        self.counters.stale_membership += u64::from(!heeded);
        heeded
    }

    /// Keeps the ceiling of ring numbers ahead of what is in use.
    pub fn reserve(&mut self) {
        //= M03
        if let Some(CeilingRecord { ticket, record, trim }) = self.presence.reserve() {
            self.output.push_back(Output::Persist { ticket, record, sync: true });
            self.output.extend(trim.map(|up_to| Output::Trim { up_to }));
        }
    }
}
