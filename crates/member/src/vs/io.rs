//! What all states share.
use super::packet::{JoinProposal, MembershipBeacon, MembershipPacket};
use super::timer::{ArmedTimers, MembershipTimer};
use super::{MembershipAction, MembershipSettings};
use crate::{HearingTable, Hearsay, Quarantine, ViewNumbers};
use bytes::Bytes;
use consort_order::{Arrival, Destination, PeerReach};
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, Rng, Ticket, View, ViewCause, ViewId, ViewKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What all states share: the way out, timers, settings, and what is known of the others.
#[derive(Clone, Debug)]
pub(super) struct MembershipIo {
    pub settings: MembershipSettings,
    pub me: MemberId,
    pub acts: VecDeque<MembershipAction>,
    pub timers: ArmedTimers,
    pub counters: MembershipCounters,
    pub rng: Rng,
    pub heard: HearingTable,
    pub quarantine: Quarantine,
    pub numbers: ViewNumbers,
    pub installed: View,
    /// Counts gatherings, so that late JOINs are known.
    pub episode: u64,
    episodes: BTreeMap<MemberId, u64>,
    /// The highest number of a view that this node took part in forming.
    pub taken: u64,
    /// Whom attempts ended at since the last install, though they were heard.
    pub blamed: BTreeSet<MemberId>,
    /// The view this one would like to merge with.
    pub wants: Option<ViewId>,
    pub leaving: bool,
    pub annotation: Bytes,
    beacons: u64,
    beacon_at: Instant,
    ticket: u64,
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
        };
        Self {
            me,
            acts: VecDeque::new(),
            timers: ArmedTimers::default(),
            counters: MembershipCounters::default(),
            rng: Rng::new(incarnation.0 ^ u64::from(me.node.0) << 48),
            heard: HearingTable::new(settings.timers.beacon * 3 + settings.timers.beacon / 2),
            quarantine: Quarantine::default(),
            numbers: ViewNumbers::default(),
            installed,
            episode: 0,
            episodes: BTreeMap::new(),
            taken: 0,
            blamed: BTreeSet::new(),
            wants: None,
            leaving: false,
            annotation: Bytes::new(),
            beacons: 0,
            beacon_at: Instant::ZERO,
            ticket: 0,
            settings,
        }
    }

    /// Takes up the ceiling of an earlier life.
    pub fn recall(&mut self, records: &[Bytes]) {
        self.ticket = records.len() as u64;
        //= M03
        let stored = records.iter().filter_map(|record| Some(u64::from_be_bytes(record[..].try_into().ok()?))).max();
        self.numbers = ViewNumbers::new(stored.unwrap_or_default());
        self.taken = self.numbers.highest();
    }

    pub fn send(&mut self, to: Destination, packet: MembershipPacket) {
        self.acts.push_back(MembershipAction::Send { to, packet });
    }

    /// Whether this node is the one that leads its installed view.
    pub fn leads(&self) -> bool {
        self.installed.id.representative == self.me
    }

    /// Whom this node tells others that it hears: not those that it keeps out.
    pub fn hears(&self, now: Instant) -> BTreeSet<NodeId> {
        //= M52
        self.heard.nodes(now).into_iter().filter(|node| !self.quarantine.holds(*node, now)).collect()
    }

    /// This node as one that hears others, for telling why one of them is missing.
    pub fn hearsay(&self, now: Instant) -> Hearsay<'_> {
        Hearsay { me: self.me.node, heard: &self.heard, now, lately: self.settings.timers.consensus / 2 }
    }

    /// Whether a packet comes from a configured node other than this one, in a life that it can have.
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
            //= M01
            if from > self.me {
                self.counters.twins += 1;
                self.heard.is_latest(from, now);
            } else {
                self.counters.old_incarnation += 1;
            }
            return false;
        }
        true
    }

    /// Whether a membership packet is worth looking at: not of an earlier life, and not something that lay in a queue
    /// while this node was paused.
    pub fn heeds(&mut self, now: Instant, arrival: &Arrival) -> bool {
        //= M02
        //= M54
        if now.since(arrival.at) > self.settings.timers.silence / 2 {
            self.counters.stale_membership += 1;
            return false;
        }
        if !self.heard.is_latest(arrival.from, now) && !super::mutated!(self, DeadHeeded) {
            self.counters.old_incarnation += 1;
            return false;
        }
        true
    }

    pub fn heeds_join(&mut self, now: Instant, from: MemberId, join: &JoinProposal) -> bool {
        //= M18
        let last = self.episodes.entry(from).or_default();
        if join.episode < *last {
            self.counters.stale_membership += 1;
            return false;
        }
        *last = join.episode;
        self.episodes.retain(|member, _| member.node != from.node || *member == from);
        self.numbers.saw(join.number);
        self.heard.note_hears(from, now, join.heard.clone());
        self.heard.note_named(self.me, &join.proc, now);
        true
    }

    /// Sends a beacon now, unless one was sent a moment ago.
    pub fn beacon_soon(&mut self, now: Instant) {
        //= M19
        let earliest = self.beacon_at + self.settings.timers.join;
        self.timers.arm(MembershipTimer::Beacon, earliest.max(now));
    }

    pub fn send_beacon(&mut self, now: Instant, settled: bool) {
        //= M50
        if super::mutated!(self, NoBeacons) {
            return;
        }
        let beacon = MembershipBeacon {
            view: self.installed.id,
            members: self.installed.members.clone(),
            heard: self.hears(now),
            wants: self.wants,
            settled,
            annotation: self.annotation.clone(),
            padding: 0,
        };
        let padded = self.beacons.is_multiple_of(10);
        let padding = if padded { self.settings.packet_room.saturating_sub(beacon.bare_len()) } else { 0 };
        self.beacons += 1;
        self.counters.beacons_sent += 1;
        self.beacon_at = now;
        self.send(Destination::All, MembershipPacket::Beacon(MembershipBeacon { padding, ..beacon }));
        let span = self.settings.timers.beacon;
        let tenth = span.as_nanos() as u64 / 10;
        let jitter = Duration::from_nanos(self.rng.below(2 * tenth));
        self.timers.arm(MembershipTimer::Beacon, now + (span - Duration::from_nanos(tenth) + jitter));
    }

    /// Says good-bye, three times because it cannot be asked for again.
    pub fn say_goodbye(&mut self) {
        //= M15
        let goodbye = JoinProposal {
            proc: BTreeSet::new(),
            fail: [self.me].into(),
            number: self.numbers.highest(),
            heard: BTreeSet::new(),
            leave: true,
            episode: self.episode,
        };
        for _ in 0..3 {
            self.send(Destination::All, MembershipPacket::Join(goodbye.clone()));
        }
        self.timers.clear();
        self.acts.push_back(MembershipAction::Left);
    }

    /// A wake-up that comes much later than it was asked for means that this node was paused. What it waited for may lie
    /// in its queues: it must not be judged before they were read.
    pub fn note_pause(&mut self, now: Instant) {
        //= M54
        let Some(asked) = self.timers.next() else { return };
        let t = self.settings.timers;
        if now.since(asked) <= t.silence / 2 {
            return;
        }
        self.counters.pauses += 1;
        for timer in [MembershipTimer::Silence, MembershipTimer::Consensus] {
            self.timers.postpone(timer, now + t.heartbeat * 4);
        }
    }

    /// Keeps the ceiling of view numbers ahead of what is in use.
    pub fn reserve(&mut self) {
        //= M03
        if let Some(reservation) = self.numbers.reserve() {
            self.ticket += 1;
            let record = Bytes::copy_from_slice(&reservation.ceiling.to_be_bytes());
            self.acts.push_back(MembershipAction::Persist { ticket: Ticket(self.ticket), record });
            if self.ticket > 1 {
                self.acts.push_back(MembershipAction::Trim { up_to: Ticket(self.ticket - 1) });
            }
        }
    }

    pub fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        let others = self.settings.nodes.iter().copied().filter(|node| *node != self.me.node);
        let reach = |node| PeerReach {
            quarantined: self.quarantine.holds(node, now),
            ..self.heard.reach(self.me.node, node, now)
        };
        others.map(reach).collect()
    }
}
