//! What arrives from one node.
use consort_types::{Duration, Incarnation, Instant, NodeId};
use consort_wire::path_mtu::PathReport;
use std::cmp::Ordering;

/// So many rounds in a row must say the same before it is believed.
pub(super) const AGREE: u32 = 4;
/// So many must say less before all sizes are asked for.
const ASK: u32 = 2;
/// What of a round has not come so long after the first of it is not waited for.
const SETTLE: Duration = Duration::from_millis(30);

/// The longest of a node's datagrams that arrives here, and what the last rounds say about it.
#[derive(Debug)]
pub(super) struct Inward {
    full: u16,
    passes: u16,
    /// Whether `passes` was seen, or is only hoped for.
    known: bool,
    incarnation: Option<Incarnation>,
    round: u32,
    /// The longest of that round so far.
    best: u16,
    /// When the first of that round came, while more may come.
    open: Option<Instant>,
    streak: Option<Streak>,
}

/// Rounds in a row that say something else than is believed.
#[derive(Clone, Copy, Debug)]
struct Streak {
    rounds: u32,
    /// Whether more arrives than is believed.
    grows: bool,
    /// What all of them allow to believe.
    passes: u16,
}

impl Inward {
    pub(super) const fn new(full: u16) -> Self {
        Self { full, passes: full, known: false, incarnation: None, round: 0, best: 0, open: None, streak: None }
    }

    /// A probe of a round came. Returns whether there is something new to doubt or to tell.
    pub(super) fn arrived(&mut self, now: Instant, incarnation: Incarnation, round: u32, size: u16) -> bool {
        let mut news = false;
        if self.incarnation != Some(incarnation) {
            (self.incarnation, self.streak) = (Some(incarnation), None);
            self.begin(now, round, size);
        } else if round == self.round {
            self.more(size);
        } else if (round.wrapping_sub(self.round) as i32) > 0 {
            news = self.close();
            self.begin(now, round, size);
        }
        // Nothing longer can come.
        if self.best == self.full { news | self.close() } else { news }
    }

    /// When [`Self::settle`] is to be called.
    pub(super) fn settles(&self) -> Option<Instant> {
        self.open.map(|since| since + SETTLE)
    }

    /// Closes the round if its time is over. Returns whether there is something new to doubt or to tell.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        self.settles().is_some_and(|at| at <= now) && self.close()
    }

    /// Forgets what the present round, and those before it, made doubtful.
    pub(super) fn forget(&mut self) {
        (self.open, self.streak) = (None, None);
    }

    pub(super) fn doubts(&self) -> bool {
        self.incarnation.is_some() && !self.known || self.streak.is_some()
    }

    pub(super) fn report(&self, node: NodeId) -> PathReport {
        let wants_all = self.streak.is_some_and(|streak| !streak.grows && streak.rounds >= ASK);
        let passes = self.known.then_some(self.passes);
        PathReport { node, passes, doubts: self.doubts(), wants_all, by_group: None }
    }

    fn begin(&mut self, now: Instant, round: u32, size: u16) {
        (self.round, self.best, self.open) = (round, size, Some(now));
    }

    /// One more of the present round. One that comes when the round is closed already still clears a doubt.
    fn more(&mut self, size: u16) {
        if size <= self.best {
            return;
        }
        self.best = size;
        let Some(streak) = self.streak.as_mut().filter(|streak| self.open.is_none() && !streak.grows) else { return };
        streak.passes = streak.passes.max(size);
        if size >= self.passes {
            (self.known, self.streak) = (true, None);
        }
    }

    //= W06
    fn close(&mut self) -> bool {
        if self.open.take().is_none() {
            return false;
        }
        match self.best.cmp(&self.passes) {
            Ordering::Equal => {
                self.streak = None;
                !std::mem::replace(&mut self.known, true)
            }
            order => self.extend(order == Ordering::Greater),
        }
    }

    fn extend(&mut self, grows: bool) -> bool {
        let new = Streak { rounds: 0, grows, passes: self.best };
        let mut streak = self.streak.filter(|streak| streak.grows == grows).unwrap_or(new);
        streak.rounds += 1;
        streak.passes = if grows { streak.passes.min(self.best) } else { streak.passes.max(self.best) };
        self.streak = Some(streak);
        if streak.rounds >= AGREE {
            (self.passes, self.known, self.streak) = (streak.passes, true, None);
        }
        true
    }
}
