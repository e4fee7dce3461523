//! Which rings this node reads, where each node reads those that it needs.
use super::{Farewell, MultiRingPaxos};
use crate::config::{Config, Reads};
use crate::merge::Wait;
use crate::slot::{RingId, Slot};
use consort_order::{Engine, Obstacle};
use consort_paxos::Paxos;
use consort_types::Instant;

/// How far this node is with reading a ring.
///
/// | from | to | when |
/// |---|---|---|
/// | `Unread` | `Seeking` | it is to be read; who does not vote there begins to take part |
/// | `Seeking` | `Nearing` | it has a majority, and its end is known and further than what is handed out: it is merged from there |
/// | `Nearing` | `Read` | it and the global ring have come to where it counts |
/// | `Seeking`, `Nearing`, `Read` | `Leaving` | it is not to be read, and nothing of this node's is under way there |
/// | `Leaving` | `Unread` | no view of it has this node, or this node votes there |
/// | `Leaving` | `Seeking` | it is to be read after all |
/// | `Nearing`, `Read` | `Seeking` | the merge begins anew before this node is let in |
/// | `Nearing` | `Seeking` | its log is not retained any more where the merge stands |
/// | any but `Read` | `Unread` | its log is lost, and this node does not vote there |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Unread,
    Seeking,
    Nearing { from: Slot },
    Read,
    Leaving,
}

impl Reading {
    pub(super) fn at_first(config: &Config, ring: RingId) -> Self {
        if config.reads == Reads::All || ring == config.global { Self::Read } else { Self::Unread }
    }

    /// As told in a status.
    pub(super) const fn told(&self) -> &'static str {
        match self {
            Self::Unread => "votes, and reads nothing",
            Self::Seeking => "looks for the end of its log",
            Self::Nearing { .. } => "merged soon",
            Self::Read => "merged",
            Self::Leaving => "leaves it",
        }
    }
}

impl MultiRingPaxos {
    /// Whether all that a ring decides behind what this node submits from now on is handed out here.
    pub(super) fn is_read(&self, ring: RingId) -> bool {
        self.readings.get(&ring).is_none_or(|reading| *reading == Reading::Read)
    }

    /// Takes up the rings that are to be read, and leaves the others.
    pub(super) fn read_on(&mut self, now: Instant) {
        if self.config.reads == Reads::All || matches!(self.farewell, Farewell::Leaves | Farewell::Restarts) {
            return;
        }
        for ring in self.readings.keys().copied().collect::<Vec<_>>() {
            while let Some(next) = self.next_reading(now, ring) {
                self.readings.insert(ring, next);
            }
        }
    }

    /// Takes the next step with a ring, if one is due.
    fn next_reading(&mut self, now: Instant, ring: RingId) -> Option<Reading> {
        let reading = *self.readings.get(&ring)?;
        match (reading, self.wants(ring)) {
            (Reading::Unread, true) => self.take_part(now, ring),
            (Reading::Leaving, true) => {
                self.rings.get_mut(&ring)?.reserve(false);
                Some(Reading::Seeking)
            }
            (Reading::Seeking, true) => self.begin_to_merge(now, ring),
            (Reading::Nearing { from }, true) => self.begin_to_read(ring, from),
            (Reading::Leaving, false) => self.take_part_no_more(ring),
            (Reading::Seeking | Reading::Nearing { .. } | Reading::Read, false) => self.leave_ring(ring),
            (Reading::Unread, false) | (Reading::Read, true) => None,
        }
    }

    fn wants(&self, ring: RingId) -> bool {
        //= MP74
        ring == self.config.global || self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&ring))
    }

    /// Who votes in a ring takes part in it already.
    fn take_part(&mut self, now: Instant, ring: RingId) -> Option<Reading> {
        if !self.rings.contains_key(&ring) {
            let settings = self.config.rings.iter().find(|other| other.id == ring)?;
            let mut engine = Paxos::new(self.config.of_ring(settings), self.me.incarnation).ok()?;
            //= X98
            engine.begin_late();
            engine.start(now, &[]);
            self.rings.insert(ring, engine);
            self.drain_rings(now);
        }
        Some(Reading::Seeking)
    }

    /// What the ring has decided so far is nothing to this node: no client of it waits for that.
    fn begin_to_merge(&mut self, now: Instant, ring: RingId) -> Option<Reading> {
        //= MP70
        let engine = self.rings.get(&ring).filter(|engine| engine.is_caught_up(now) && self.is_ahead(engine))?;
        //= MP80
        let lacks_votes = matches!(engine.lack_of_votes(now), Some(Obstacle::Quorum(_)));
        if lacks_votes && !crate::mutated!(self.config, DeadRingsMerged) {
            return None;
        }
        let from = self.merge.begin(ring, engine.learner().head().clone());
        Some(Reading::Nearing { from })
    }

    /// Whether a ring would hold up nothing: it has come further than what is handed out.
    fn is_ahead(&self, engine: &Paxos) -> bool {
        engine.learner().head().slots >= Slot::of(self.merge.cursor()).0
    }

    fn begin_to_read(&mut self, ring: RingId, from: Slot) -> Option<Reading> {
        if !self.has_come_to(ring, from) {
            return None;
        }
        //= MP56
        self.rings.get_mut(&ring)?.miss_nothing(self.asked);
        Some(Reading::Read)
    }

    fn has_come_to(&self, ring: RingId, from: Slot) -> bool {
        //= MP71
        let come = |ring: RingId| self.merge.has_come_to(ring, from);
        come(ring) && come(self.config.global) || crate::mutated!(self.config, ReadTooSoon)
    }

    /// The rings that have to come somewhere before one is read.
    pub(super) fn nearing(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        let next = Slot::of(self.merge.cursor()).plus(1);
        for (ring, reading) in &self.readings {
            if *reading == Reading::Seeking {
                waits.push(Wait::Slot(*ring, next));
            }
            if let Reading::Nearing { from } = reading {
                let late = [*ring, self.config.global].into_iter().filter(|ring| !self.merge.has_come_to(*ring, *from));
                waits.extend(late.map(|ring| Wait::Slot(ring, *from)));
            }
        }
        waits
    }

    fn leave_ring(&mut self, ring: RingId) -> Option<Reading> {
        //= MP74
        if !self.outgoing.is_empty_for(ring) {
            return None;
        }
        self.merge.end_reading(ring);
        let votes = self.votes_in(ring);
        let engine = self.rings.get_mut(&ring)?;
        engine.hold_from(None);
        engine.miss_nothing(false);
        engine.reserve(!votes);
        Some(Reading::Leaving)
    }

    /// Who leaves a ring goes once no view of it has it.
    fn take_part_no_more(&mut self, ring: RingId) -> Option<Reading> {
        //= MP75
        if !self.votes_in(ring) {
            self.rings.get(&ring).filter(|engine| engine.is_out())?;
            self.rings.remove(&ring);
            self.waits.remove(&ring);
        }
        Some(Reading::Unread)
    }

    fn votes_in(&self, ring: RingId) -> bool {
        let of_ring = self.config.rings.iter().filter(|other| other.id == ring);
        of_ring.flat_map(|other| &other.acceptors).any(|node| *node == self.me.node)
    }

    /// The merge begins anew: what is read beside the global ring has to be found again.
    pub(super) fn read_again(&mut self) {
        if self.config.reads == Reads::Groups {
            for (ring, reading) in self.readings.iter_mut().filter(|(ring, _)| **ring != self.config.global) {
                if *reading == Reading::Read {
                    self.owed.insert(*ring);
                }
                if matches!(reading, Reading::Nearing { .. } | Reading::Read) {
                    *reading = Reading::Seeking;
                }
            }
        }
    }

    /// A ring was not read yet, and its log goes on elsewhere: it is looked for once more. Whether it was.
    pub(super) fn seek_again(&mut self, ring: RingId) -> bool {
        let nearing = matches!(self.readings.get(&ring), Some(Reading::Nearing { .. }));
        if nearing {
            self.merge.end_reading(ring);
            self.readings.insert(ring, Reading::Seeking);
        }
        nearing
    }

    /// Whether a ring's log may end without this node: nothing of it was handed out here, and no vote given.
    pub(super) fn may_forget(&self, ring: RingId) -> bool {
        //= MP81
        let read =
            self.config.reads == Reads::All || self.is_read(ring) || crate::mutated!(self.config, AnyRingEndsAll);
        !read && !self.votes_in(ring)
    }

    /// The ring is taken up again in its next log, if it is to be read still.
    pub(super) fn forget_ring(&mut self, ring: RingId) {
        //= MP81
        self.merge.end_reading(ring);
        self.rings.remove(&ring);
        self.waits.remove(&ring);
        self.readings.insert(ring, Reading::Unread);
    }

    /// Whether all is read that has to be before this node may be let in: all rings where nothing was said of them, and those
    /// that joins were told of and are still wanted.
    pub(super) fn reads_enough(&self) -> bool {
        //= MP78
        let needed = |ring: &RingId| self.wanted.is_none() || self.owed.contains(ring) && self.wants(*ring);
        self.readings.iter().all(|(ring, reading)| *reading == Reading::Read || !needed(ring))
    }
}
