//! Rings that decide nothing: who reads one leaves the views of the others, and says which acceptors it lacks.
use super::{MultiRingPaxos, Reading};
use crate::config::Reads;
use crate::slot::RingId;
use consort_order::{Engine, LackingQuorum, Obstacle};
use consort_types::{Duration, Instant, OrderWait};
use std::collections::BTreeMap;

/// A node that hands out nothing for this number of times `silence` because of one ring leaves the views.
const PATIENCE: u32 = 5;
/// The same where a majority of the ring's acceptors is gone.
const PATIENCE_WITHOUT: u32 = 1;
/// Of the time between two looks no more than this many beats counts: a node that did not run knows nothing of its rings.
const LOOK: u32 = 4;

/// What lasts as long as this is no node that starts.
const LASTS: Duration = Duration::from_secs(1);

/// How long what is decided in other rings waits for one.
///
/// | from | to | when |
/// |---|---|---|
/// | `None` | `Waits` | what could be handed out waits for a ring |
/// | `Waits` | `None` | something is handed out, or nothing waits |
/// | `Waits` | `Apart` | that takes for long, where nodes read by groups and the ring is read |
/// | `Apart` | `None` | the ring has come on, and all views that are decided are handed out |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HoldUp {
    #[default]
    None,
    Waits {
        ring: RingId,
        /// How much was handed out when it began.
        handed_out: u64,
        /// How long that has lasted, as of `looked`.
        waited: Duration,
        looked: Instant,
    },
    Apart {
        ring: RingId,
    },
}

impl HoldUp {
    /// Whether the others are to go on without this node.
    pub(super) const fn keeps_apart(&self) -> bool {
        matches!(self, Self::Apart { .. })
    }
}

/// What each ring lacks in which too few acceptors vote, and since when.
pub(super) type DeadRings = BTreeMap<RingId, (Box<LackingQuorum>, Instant)>;

impl MultiRingPaxos {
    /// Whether the others have gone on in a view without this node, and it has not come to that in the order yet.
    pub(crate) fn is_apart(&self) -> bool {
        let global = self.rings.get(&self.config.global);
        self.inside.is_some() && global.is_some_and(|global| global.is_out())
    }

    /// Looks whether what is decided waits for one ring, and for how long it has.
    pub(super) fn note_hold_up(&mut self, now: Instant) {
        //= MP79
        if self.config.reads == Reads::All {
            return;
        }
        let by = self.merge.held_up_by().filter(|ring| *ring != self.config.global);
        self.hold_up = match (self.hold_up, by) {
            (HoldUp::Apart { ring }, by) if by == Some(ring) || !self.has_passed_views() => HoldUp::Apart { ring },
            (HoldUp::Waits { ring, handed_out, waited, looked }, Some(by))
                if by == ring && handed_out == self.counters.handed_out =>
            {
                let waited = waited.saturating_add(now.since(looked).min(self.config.paxos.beat * LOOK));
                let patience = if self.has_lost_majority(ring, now) { PATIENCE_WITHOUT } else { PATIENCE };
                let long = waited >= self.config.paxos.silence * patience;
                if long && !crate::mutated!(self.config, DeadRingsAwaited) {
                    HoldUp::Apart { ring }
                } else {
                    HoldUp::Waits { ring, handed_out, waited, looked: now }
                }
            }
            (_, Some(ring)) => {
                let handed_out = self.counters.handed_out;
                HoldUp::Waits { ring, handed_out, waited: Duration::ZERO, looked: now }
            }
            (_, None) => HoldUp::None,
        };
    }

    /// Whether a majority of a ring's acceptors is not reached in the global ring either, so that views change anyway. That has
    /// lasted long enough for this node to leave the ring, if it does not need it.
    fn has_lost_majority(&self, ring: RingId, now: Instant) -> bool {
        let lasts = |(_, since): &(_, Instant)| now.since(*since) >= self.config.paxos.lease;
        let is_dead = self.dead_rings.get(&ring).is_some_and(lasts);
        let settings = self.config.rings.iter().find(|other| other.id == ring);
        let (Some(global), Some(settings)) = (self.rings.get(&self.config.global), settings) else { return false };
        let reached = settings.acceptors.iter().filter(|node| global.reaches(**node, now)).count();
        is_dead && reached <= settings.acceptors.len() / 2
    }

    /// Whether the merge has come to the last view that is decided.
    fn has_passed_views(&self) -> bool {
        //= MP79
        let global = self.rings.get(&self.config.global);
        let passed = global.is_none_or(|global| global.learner().present().number == self.current);
        passed || crate::mutated!(self.config, BackBeforePassed)
    }

    /// Looks which rings have no majority. Seldom: with each beat.
    pub(super) fn look_for_majorities(&mut self, now: Instant) {
        for (ring, engine) in &self.rings {
            match engine.lack_of_votes(now) {
                Some(Obstacle::Quorum(lacks)) => {
                    let since = self.dead_rings.get(ring).map_or(now, |(_, since)| *since);
                    self.dead_rings.insert(*ring, (lacks, since));
                }
                _ => {
                    self.dead_rings.remove(ring);
                }
            }
        }
        let rings = &self.rings;
        self.dead_rings.retain(|ring, _| rings.contains_key(ring));
    }

    /// What messages of this node wait for.
    pub(super) fn cause_of_waits(&self) -> OrderWait {
        //= MP82
        let dead = |ring: &RingId| self.dead_rings.contains_key(ring);
        let has_own = |ring: &RingId| self.rings.get(ring).is_some_and(|ring| ring.wait_cause().is_some());
        let sent_there = self.dead_rings.keys().copied().find(has_own);
        match self.merge.held_up_by().filter(dead).or(sent_there) {
            Some(ring) if self.inside.is_some() => OrderWait::Ring(ring.0.into()),
            _ if self.inside.is_none() => OrderWait::Membership,
            _ if self.rings.values().any(|ring| ring.wait_cause() == Some(OrderWait::Membership)) => {
                OrderWait::Membership
            }
            _ => OrderWait::Window,
        }
    }

    /// Which rings something waits for at this node, and which acceptors they lack.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        //= MP82
        let ring = |(ring, (lacks, since)): (&RingId, &(Box<LackingQuorum>, Instant))| {
            let is_waited_for = self.merge.held_up_by() == Some(*ring) || self.is_wanted_in_vain(*ring);
            let lasts = now.since(*since) >= LASTS;
            (is_waited_for && lasts).then(|| format!("{ring}: {lacks}"))
        };
        let mut all: Vec<_> = self.dead_rings.iter().filter_map(ring).collect();
        if let HoldUp::Apart { ring } = self.hold_up {
            if !self.dead_rings.contains_key(&ring) {
                all.push(format!("{ring} decides nothing, though a majority of its acceptors is reached"));
            }
            all.push(format!("until {ring} goes on this node hands out nothing, and is not in the view of the others"));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn is_wanted_in_vain(&self, ring: RingId) -> bool {
        matches!(self.readings.get(&ring), Some(Reading::Seeking | Reading::Nearing { .. }))
    }

    /// What a row of a ring says of its acceptors.
    pub(super) fn lacks(&self, ring: RingId) -> String {
        //= MP82
        self.dead_rings.get(&ring).map_or(String::new(), |(lacks, _)| format!("{lacks}; "))
    }
}
