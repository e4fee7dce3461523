//! One node among the others: whom it hears and keeps out, which numbers it knows, and what it tells of itself.
use crate::{
    ANNOTATION_MAX, Beacon, Distances, Hearing, HearingTable, Hearsay, Proposal, Quarantine, Sets, ViewNumbers,
};
use bytes::Bytes;
use consort_order::PeerReach;
use consort_types::{Duration, Instant, MemberId, NodeId, Primary, Rng, Ticket, View, ViewCause, ViewId, ViewKind};
use std::collections::{BTreeMap, BTreeSet};

/// What a node knows of the others, in every state.
#[derive(Clone, Debug)]
pub struct Presence {
    pub(crate) me: MemberId,
    /// Who hears whom.
    pub heard: HearingTable,
    /// How far the others are.
    pub distances: Distances,
    /// Who is kept out for a while.
    pub quarantine: Quarantine,
    /// The numbers of views.
    pub numbers: ViewNumbers,
    /// The view this one would like to merge with.
    pub wants: Option<ViewId>,
    /// Counts gatherings, so that late JOINs are known.
    pub episode: u64,
    /// The latest gathering heard of each other member, and when that was.
    pub episodes: BTreeMap<MemberId, (u64, Instant)>,
    rng: Rng,
    annotation: Bytes,
    beacons: u64,
    beacon_at: Instant,
    ticket: u64,
}

/// A ceiling of numbers for the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CeilingRecord {
    /// Names the record.
    pub ticket: Ticket,
    /// What to write.
    pub record: Bytes,
    /// The records up to here are worth nothing any more.
    pub trim: Option<Ticket>,
}

impl Presence {
    /// A node that has heard nobody yet; a beacon is sent each `beacon`.
    pub fn new(me: MemberId, beacon: Duration) -> Self {
        Self {
            me,
            heard: HearingTable::new(beacon * 3 + beacon / 2),
            distances: Distances::new(me),
            quarantine: Quarantine::default(),
            numbers: ViewNumbers::default(),
            wants: None,
            episode: 0,
            episodes: BTreeMap::new(),
            rng: Rng::new(me.incarnation.0 ^ u64::from(me.node.0) << 48),
            annotation: Bytes::new(),
            beacons: 0,
            beacon_at: Instant::ZERO,
            ticket: 0,
        }
    }

    /// Takes up the ceiling of an earlier incarnation from its records.
    pub fn recall(&mut self, records: &[Bytes]) {
        //= M03
        self.ticket = records.len() as u64;
        let stored = records.iter().filter_map(|record| Some(u64::from_be_bytes(record[..].try_into().ok()?))).max();
        self.numbers = ViewNumbers::new(stored.unwrap_or_default());
    }

    /// The view that a node starts with: itself alone.
    pub fn first_view(&self, primary: Primary) -> View {
        //= M04
        View {
            id: ViewId { number: self.numbers.highest(), representative: self.me },
            kind: ViewKind::Regular,
            members: vec![self.me],
            moved_together: vec![self.me],
            primary,
            cause: ViewCause::Started,
            evidence: Vec::new(),
            missed_primary: false,
        }
    }

    /// What to write so that the ceiling of view numbers stays ahead of what is in use, if anything.
    pub fn reserve(&mut self) -> Option<CeilingRecord> {
        //= M03
        let reservation = self.numbers.reserve()?;
        self.ticket += 1;
        let record = Bytes::copy_from_slice(&reservation.ceiling.to_be_bytes());
        let trim = (self.ticket > 1).then_some(Ticket(self.ticket - 1));
        Some(CeilingRecord { ticket: Ticket(self.ticket), record, trim })
    }

    /// When something that is sent each `span` is sent again: up to half of it is added by chance.
    pub fn again(&mut self, now: Instant, span: Duration) -> Instant {
        now + span + Duration::from_nanos(self.rng.below(span.as_nanos() as u64 / 2))
    }

    /// Whom this node tells others that it hears: not those that it keeps out, so that nobody lets them in on its behalf.
    pub fn hears(&self, now: Instant) -> BTreeSet<NodeId> {
        //= M52
        self.heard.nodes(now).into_iter().filter(|node| !self.quarantine.holds(*node, now)).collect()
    }

    /// This node as one that hears others, for telling why one of them is missing. Who was heard within `lately` is not
    /// silent.
    pub const fn hearsay(&self, now: Instant, lately: Duration) -> Hearsay<'_> {
        Hearsay { me: self.me.node, heard: &self.heard, now, lately }
    }

    /// How each other one of these nodes is reached, as far as this one knows.
    pub fn reachability(&self, nodes: &[NodeId], now: Instant) -> Vec<PeerReach> {
        let others = nodes.iter().copied().filter(|node| *node != self.me.node);
        let reach = |node| PeerReach {
            quarantined: self.quarantine.holds(node, now),
            ..self.heard.reach(self.me.node, node, now)
        };
        others.map(reach).collect()
    }

    /// The line of `status`, behind a warning where somebody else goes by this node's index.
    pub fn describe(&self, now: Instant, told: String) -> String {
        match self.heard.twin(self.me, now) {
            Some(twin) => format!("another process runs as {} ({twin}), stop one of the two; {told}", twin.node),
            None => told,
        }
    }

    /// A packet from this very node, but not from this incarnation of it: false for a leftover of an earlier one. Else
    /// somebody goes by its index and has taken its place among the others. Then it says so, and does not fight.
    pub fn notes_twin(&mut self, now: Instant, from: MemberId) -> bool {
        //= M01
        let twin = from > self.me;
        if twin {
            self.heard.is_latest(from, now);
        }
        twin
    }

    /// Notes what a JOIN tells of its sender; false if it is of an earlier gathering than one that was heard lately.
    pub fn notes_join(&mut self, now: Instant, from: MemberId, join: &Proposal) -> bool {
        //= M18
        // One that is not heard any more may never have been: else one false packet would keep its sender out.
        let latest = self.episodes.get(&from).filter(|(_, at)| now.since(*at) < self.heard.fresh_for());
        if latest.is_some_and(|(episode, _)| join.episode < *episode) {
            return false;
        }
        self.episodes.insert(from, (join.episode, now));
        self.episodes.retain(|member, _| member.node != from.node || *member == from);
        self.numbers.saw(join.number);
        self.heard.note_hears(from, now, join.heard.clone());
        self.heard.note_named(self.me, &join.proc, now);
        true
    }

    /// Notes what a beacon tells; returns what the layer above its sender wanted carried.
    pub fn note_beacon(&mut self, now: Instant, from: MemberId, beacon: Beacon) -> Bytes {
        //= M50
        self.numbers.saw(beacon.view.number);
        self.heard.note_named(self.me, &beacon.members, now);
        self.heard.note(Hearing {
            member: from,
            at: now,
            hears: beacon.heard,
            view: beacon.view,
            members: beacon.members,
            wants: beacon.wants,
            settled: beacon.settled,
        });
        beacon.annotation
    }

    /// What the layer above wants carried in beacons from now on; at most [`ANNOTATION_MAX`] bytes of it.
    pub fn annotate(&mut self, annotation: &Bytes) {
        self.annotation = annotation.slice(..annotation.len().min(ANNOTATION_MAX));
    }

    /// The beacon to send now, of this node in its view; the first and every tenth fills a packet of `room` bytes.
    pub fn beacon(&mut self, now: Instant, view: ViewId, members: &[MemberId], settled: bool, room: usize) -> Beacon {
        //= M50
        let (heard, members) = (self.hears(now), members.to_vec());
        let clocks = Box::new(self.distances.clocks(now, &heard));
        let annotation = self.annotation.clone();
        let beacon = Beacon { view, members, heard, wants: self.wants, settled, clocks, annotation, padding: 0 };
        let padded = self.beacons.is_multiple_of(10);
        let padding = if padded { room.saturating_sub(beacon.bare_len()) } else { 0 };
        self.beacons += 1;
        self.beacon_at = now;
        Beacon { padding, ..beacon }
    }

    /// When to send the next one: after `span`, give or take a tenth.
    pub fn next_beacon(&mut self, now: Instant, span: Duration) -> Instant {
        //= M50
        let tenth = span.as_nanos() as u64 / 10;
        let jitter = Duration::from_nanos(self.rng.below(2 * tenth));
        now + (span - Duration::from_nanos(tenth) + jitter)
    }

    /// When to send one that is wanted: now, unless one was sent within `least`.
    pub fn beacon_soon(&self, now: Instant, least: Duration) -> Instant {
        //= M19
        now.max(self.beacon_at + least)
    }

    /// What this node says while it gathers.
    pub fn proposal(&self, now: Instant, sets: &Sets) -> Proposal {
        let heard = self.hears(now);
        Proposal {
            proc: sets.proc.clone(),
            fail: sets.fail.clone(),
            number: self.numbers.highest(),
            clocks: Box::new(self.distances.clocks(now, &heard)),
            heard,
            leave: false,
            episode: self.episode,
        }
    }

    /// What it says when it leaves. To be sent three times, because it cannot be asked for again.
    pub fn goodbye(&self) -> Proposal {
        //= M15
        let (number, episode) = (self.numbers.highest(), self.episode);
        Proposal { fail: [self.me].into(), number, leave: true, episode, ..Proposal::default() }
    }
}
