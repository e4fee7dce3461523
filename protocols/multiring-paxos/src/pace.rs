//! When a ring's coordinator skips, and how far: slots pass like time.
use crate::slot::Slot;
use consort_types::{Duration, Instant};
use std::collections::VecDeque;

/// For so long after somebody waited a ring goes on skipping.
const LINGER: Duration = Duration::from_secs(1);
/// No ring runs further ahead of its coordinator's clock.
const OFFSET_MAX: Duration = Duration::from_millis(500);
/// Of each `delta_t` that passes, so much is taken back.
const DECAY: u32 = 100;
/// Of so many skips it is remembered how far the ring ran ahead: of more than a second with the default `delta_t`.
const REMEMBERED: usize = 512;
/// A slot that is wanted is not believed if it lies further ahead.
const BELIEVED: u64 = 60 * Slot::PER_SECOND;

/// The slots that pass while a node's clock does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotClock {
    ahead: u64,
}

impl SlotClock {
    /// The slot of now. Where a ring that is read is more than a second ahead, the clock goes on from there: the clocks of
    /// nodes have no common beginning.
    pub fn slot(&mut self, now: Instant, furthest: Slot) -> Slot {
        //= MP40
        let passed = slots(Duration::from_nanos(now.0)).saturating_add(self.ahead);
        if passed.saturating_add(Slot::PER_SECOND) < furthest.0 {
            self.ahead += furthest.0 - passed;
            return furthest;
        }
        Slot(passed).plus(0)
    }

    /// Another node's clock says so, and this one no less from now on. Returns how far it is put forward.
    pub fn heard(&mut self, now: Instant, theirs: Slot) -> Duration {
        //= MP40
        let more = theirs.0.saturating_sub(self.slot(now, Slot::FIRST).0);
        self.ahead += more;
        span(more)
    }
}

/// What a node says that waits for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The slot that the ring must reach.
    pub slot: Slot,
    /// The one that it has reached there.
    pub reached: Slot,
    /// The slot of now, by the clock there.
    pub clock: Slot,
}

impl Wanted {
    /// How late the ring comes there.
    fn late(&self) -> Duration {
        span(self.clock.0.saturating_sub(self.reached.0))
    }
}

fn span(slots: u64) -> Duration {
    let span = u128::from(slots) * 1_000_000_000 / u128::from(Slot::PER_SECOND);
    Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
}

fn slots(span: Duration) -> u64 {
    let slots = span.as_nanos() * u128::from(Slot::PER_SECOND) / 1_000_000_000;
    u64::try_from(slots).unwrap_or(u64::MAX)
}

/// One ring that this node may lead.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Somebody waited until then, or lately.
    until: Instant,
    /// When to skip next.
    next: Instant,
    offset: Duration,
    /// How far it was skipped to lately, and the offset then.
    skips: VecDeque<(Slot, Duration)>,
    /// The furthest slot that somebody waits for.
    wanted: Slot,
}

impl Pace {
    /// Somebody waits for this ring to reach a slot.
    pub fn heard(&mut self, now: Instant, slot: Slot) {
        //= MP41
        self.go_on(now);
        self.wanted = self.wanted.max(slot);
    }

    /// Where this ring comes late it runs further ahead from now on: by what it is late, and by what it ran ahead when it skipped
    /// so far. A ring that stood is not far.
    pub fn make_up(&mut self, said: Wanted, delta_t: Duration) {
        //= MP43
        let late = said.late();
        let then = self.skips.partition_point(|(to, _)| *to <= said.reached).checked_sub(1);
        let then = then.and_then(|last| self.skips.get(last)).filter(|_| late <= OFFSET_MAX);
        if let Some((_, then)) = then {
            let needed = then.saturating_add(late.saturating_sub(delta_t));
            self.offset = self.offset.max(needed).min(OFFSET_MAX);
        }
    }

    /// The clock was put forward: how late it is that was skipped to by the old one says nothing.
    pub fn forget_skips(&mut self) {
        //= MP43
        self.skips.clear();
    }

    /// The ring skips so far.
    pub fn skipped(&mut self, to: Slot) {
        if self.skips.back().is_none_or(|(last, _)| *last < to) {
            self.skips.push_back((to, self.offset));
        }
        if self.skips.len() > REMEMBERED {
            self.skips.pop_front();
        }
    }

    /// Skipping is wanted for a while.
    pub fn go_on(&mut self, now: Instant) {
        if self.until < now {
            self.forget_skips();
        }
        self.until = now + LINGER;
    }

    /// When to skip next, while that is wanted.
    pub fn due(&self) -> Option<Instant> {
        (self.next < self.until).then_some(self.next)
    }

    /// Whether it is time to skip; then the next time is a `delta_t` later.
    pub fn is_due(&mut self, now: Instant, delta_t: Duration) -> bool {
        //= MP41
        if self.due().is_none_or(|due| now < due) {
            return false;
        }
        self.next = now + delta_t;
        self.offset = self.offset.saturating_sub(delta_t / DECAY);
        true
    }

    /// How far to skip: to what is waited for, or to the slot of now, and as far ahead as the ring comes late elsewhere.
    pub fn target(&self, clock: Slot) -> Slot {
        //= MP43
        clock.plus(slots(self.offset)).max(self.wanted)
    }
}

/// A slot that somebody wants reached, as far as it is believed.
pub fn believed(wanted: Slot, furthest: Slot) -> Slot {
    //= MP42
    wanted.min(furthest.plus(BELIEVED))
}
