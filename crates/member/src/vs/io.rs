//! What all states share.
use super::packet::MembershipPacket;
use super::timer::{ArmedTimers, MembershipTimer, Span};
use super::{MembershipAction, MembershipSettings, MembershipTimeouts};
use crate::{CeilingRecord, Hearsay, Presence, Proposal};
use bytes::Bytes;
use consort_order::{Arrival, Destination};
use consort_types::{Duration, Incarnation, Instant, MemberId, Primary, View, ViewCause, ViewId, ViewKind};
use std::collections::{BTreeSet, VecDeque};

/// What all states share: the way out, timers, settings, and what is known of the others.
#[derive(Clone, Debug)]
pub(super) struct MembershipIo {
    pub settings: MembershipSettings,
    pub me: MemberId,
    pub acts: VecDeque<MembershipAction>,
    pub timers: ArmedTimers,
    /// When to act though nothing came, now.
    pub timeouts: MembershipTimeouts,
    pub counters: MembershipCounters,
    pub presence: Presence,
    pub installed: View,
    /// The highest number of a view that this node took part in forming.
    pub taken: u64,
    /// Whom attempts ended at since the last install, though they were heard.
    pub blamed: BTreeSet<MemberId>,
    pub leaving: bool,
}

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub(super) struct MembershipCounters {
    pub views: u64,
    pub gathers: u64,
    pub attempts: u64,
    pub joins_sent: u64,
    pub beacons_sent: u64,
    pub strangers: u64,
    pub old_incarnation: u64,
    pub stale_membership: u64,
    pub implausible: u64,
    pub unexpected: u64,
    pub pauses: u64,
    pub twins: u64,
}

impl MembershipCounters {
    pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("views", self.views);
        see("gathers", self.gathers);
        see("attempts", self.attempts);
        see("joins_sent", self.joins_sent);
        see("beacons_sent", self.beacons_sent);
        see("strangers", self.strangers);
        see("old_incarnation", self.old_incarnation);
        see("stale_membership", self.stale_membership);
        see("implausible", self.implausible);
        see("unexpected", self.unexpected);
        see("pauses", self.pauses);
        see("twins", self.twins);
    }
}

impl MembershipIo {
    pub fn new(settings: MembershipSettings, incarnation: Incarnation) -> Self {
        let me = MemberId { node: settings.me, incarnation };
        let installed = View {
            id: ViewId::default(),
            kind: ViewKind::Regular,
            members: Vec::new(),
            moved_together: Vec::new(),
            primary: settings.primary.never(),
            cause: ViewCause::Started,
            evidence: Vec::new(),
            missed_primary: false,
        };
        Self {
            me,
            acts: VecDeque::new(),
            timers: ArmedTimers::default(),
            timeouts: settings.timeouts(Duration::ZERO),
            counters: MembershipCounters::default(),
            presence: Presence::new(me, settings.timers.beacon),
            installed,
            taken: 0,
            blamed: BTreeSet::new(),
            leaving: false,
            settings,
        }
    }

    /// Takes up the ceiling of an earlier incarnation.
    pub fn recall(&mut self, records: &[Bytes]) {
        self.presence.recall(records);
        self.taken = self.presence.numbers.highest();
    }

    pub fn send(&mut self, to: Destination, packet: MembershipPacket) {
        self.acts.push_back(MembershipAction::Send { to, packet });
    }

    /// Arms a timer that follows the distances while it is armed.
    pub fn wait(&mut self, timer: MembershipTimer, now: Instant, span: Span) {
        //= M60
        self.timers.arm_for(timer, now, span, &self.timeouts);
    }

    /// These members matter from now on: what is waited for among them is waited for as long as their distances want it.
    pub fn follow(&mut self, members: &[MemberId]) {
        //= M60
        let timeouts = self.settings.timeouts(self.presence.distances.among(members));
        if timeouts != self.timeouts {
            self.timers.follow(&self.timeouts, &timeouts);
            self.timeouts = timeouts;
        }
    }

    /// Whether this node is the one that leads its installed view.
    pub fn leads(&self) -> bool {
        self.installed.id.representative == self.me
    }

    /// This node as one that hears others, for telling why one of them is missing.
    pub fn hearsay(&self, now: Instant) -> Hearsay<'_> {
        self.presence.hearsay(now, self.timeouts.consensus / 2)
    }

    /// Whether a packet comes from a configured node other than this one, in an incarnation that it can have.
    pub fn knows(&mut self, now: Instant, from: MemberId) -> bool {
        if self.settings.nodes.binary_search(&from.node).is_err() {
            self.counters.strangers += 1;
            return false;
        }
        if !from.incarnation.is_plausible() {
            //= M07
            self.counters.implausible += 1;
            return false;
        }
        if from.node == self.me.node {
            let twin = self.presence.notes_twin(now, from);
            self.counters.twins += u64::from(twin);
            self.counters.old_incarnation += u64::from(!twin);
            return false;
        }
        true
    }

    /// Whether a membership packet is worth looking at: not of an earlier incarnation, and not something that lay in a queue
    /// while this node was paused.
    pub fn heeds(&mut self, now: Instant, arrival: &Arrival) -> bool {
        //= M02
        //= M54
        if now.since(arrival.at) > self.timeouts.silence / 2 {
            self.counters.stale_membership += 1;
            return false;
        }
        if !self.presence.heard.is_latest(arrival.from, now) && !super::mutated!(self, DeadHeeded) {
            self.counters.old_incarnation += 1;
            return false;
        }
        true
    }

    pub fn heeds_join(&mut self, now: Instant, from: MemberId, join: &Proposal) -> bool {
        let heeded = self.presence.notes_join(now, from, join);
        self.counters.stale_membership += u64::from(!heeded);
        heeded
    }

    /// Sends a beacon now, unless one was sent a moment ago.
    pub fn beacon_soon(&mut self, now: Instant) {
        let at = self.presence.beacon_soon(now, self.timeouts.join);
        self.timers.arm(MembershipTimer::Beacon, at);
    }

    pub fn send_beacon(&mut self, now: Instant, settled: bool) {
        if super::mutated!(self, NoBeacons) {
            return;
        }
        let (view, room) = (&self.installed, self.settings.packet_room);
        let beacon = self.presence.beacon(now, view.id, &view.members, settled, room);
        self.counters.beacons_sent += 1;
        self.send(Destination::All, MembershipPacket::Beacon(beacon));
        let next = self.presence.next_beacon(now, self.timeouts.beacon);
        self.timers.arm(MembershipTimer::Beacon, next);
    }

    /// Says good-bye, three times because it cannot be asked for again.
    pub fn say_goodbye(&mut self) {
        //= M15
        for _ in 0..3 {
            self.send(Destination::All, MembershipPacket::Join(self.presence.goodbye()));
        }
        self.timers.clear();
        self.acts.push_back(MembershipAction::Left);
    }

    /// A wake-up that comes much later than it was asked for means that this node was paused. What it waited for may lie
    /// in its queues: it must not be judged before they were read.
    /// Returns how late it is then.
    pub fn note_pause(&mut self, now: Instant) -> Option<Duration> {
        //= M54
        let late = now.since(self.timers.next()?);
        let t = self.timeouts;
        if late <= t.silence / 2 {
            return None;
        }
        self.counters.pauses += 1;
        for timer in [MembershipTimer::Silence, MembershipTimer::Consensus] {
            self.timers.postpone(timer, now + t.heartbeat * 4);
        }
        Some(late)
    }

    /// Whether another view can be primary without this node, and nobody was told here yet that the installed one is.
    pub fn may_be_passed(&self) -> bool {
        let alone = self.settings.primary.holds(&self.settings.nodes, &[self.me]);
        self.installed.primary == Primary::Pending && !alone
    }

    /// Keeps the ceiling of view numbers ahead of what is in use.
    pub fn reserve(&mut self) {
        //= M03
        if let Some(CeilingRecord { ticket, record, trim }) = self.presence.reserve() {
            self.acts.push_back(MembershipAction::Persist { ticket, record });
            self.acts.extend(trim.map(|up_to| MembershipAction::Trim { up_to }));
        }
    }
}
