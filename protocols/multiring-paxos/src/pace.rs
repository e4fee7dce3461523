//! When a ring's coordinator skips, and how far: slots pass like time.
use crate::slot::Slot;
use consort_types::{Duration, Instant};

/// For so long after somebody waited a ring goes on skipping.
const LINGER: Duration = Duration::from_secs(1);
/// No ring runs further ahead of its coordinator's clock.
const OFFSET_MAX: Duration = Duration::from_millis(500);
/// How much of what others waited a ring runs ahead of its clock the next time.
const RAISE: u32 = 5;
/// Of each `delta_t` that passes, so much is taken back.
const DECAY: u32 = 500;
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
}

fn slots(span: Duration) -> u64 {
    let slots = span.as_nanos() * u128::from(Slot::PER_SECOND) / 1_000_000_000;
    u64::try_from(slots).unwrap_or(u64::MAX)
}

/// One ring that this node may lead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Somebody waited until then, or lately.
    until: Instant,
    /// When to skip next.
    next: Instant,
    offset: Duration,
    /// The furthest slot that somebody waits for.
    wanted: Slot,
}

impl Pace {
    /// Others wait for this ring to reach a slot, and for how long they have waited at most: more than `delta_t` is the ring's
    /// to make up for.
    pub fn heard(&mut self, now: Instant, slot: Slot, waited: Duration, delta_t: Duration) {
        //= MP41
        //= MP43
        self.go_on(now);
        self.wanted = self.wanted.max(slot);
        let more = waited.saturating_sub(delta_t) / RAISE;
        self.offset = self.offset.saturating_add(more).min(OFFSET_MAX);
    }

    /// Skipping is wanted for a while.
    pub fn go_on(&mut self, now: Instant) {
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

    /// How far to skip: to what is waited for, or to the slot of now, and as far ahead as others had to wait for this ring.
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
