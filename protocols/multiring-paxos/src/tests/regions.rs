//! Regions with a ring each, and a global ring whose coordinator is in the first: paces and slot clocks of the product over
//! ways of random length. A region's messages must not wait for the global ring for ever.
use crate::pace::{Pace, SlotClock, Wanted};
use crate::slot::Slot;
use consort_types::{Duration, Instant, Rng};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const DELTA_T: Duration = Duration::from_millis(5);
/// A message of the global ring each so many milliseconds.
const GLOBALLY: u64 = 50;

#[derive(Clone, Copy)]
enum Event {
    /// The global ring has come so far, by a message or without one.
    Global(Slot, bool),
    /// The region waits for the global ring.
    Asks(Wanted),
}

/// A region: its ring needs no time, and its clock began by itself.
struct Region {
    way: u64,
    begun: u64,
    clock: SlotClock,
    pace: Pace,
    own: Slot,
    global: Slot,
    ask_at: u64,
}

struct World {
    now: u64,
    /// How long the global ring takes to decide.
    decides: u64,
    pace: Pace,
    head: Slot,
    regions: Vec<Region>,
    events: BTreeMap<(u64, u64), (usize, Event)>,
    tie: u64,
    /// The longest that a region's message had to wait.
    longest: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut region = |at: u64| Region {
            way: if at == 0 { 0 } else { rng.between(1, 160) },
            begun: rng.between(0, 900),
            clock: SlotClock::default(),
            pace: Pace::default(),
            own: Slot::FIRST,
            global: Slot::FIRST,
            ask_at: 0,
        };
        let regions = (0..5).map(&mut region).collect();
        let (pace, head, events) = (Pace::default(), Slot::FIRST, BTreeMap::new());
        Self { now: 0, decides: rng.between(1, 160), pace, head, regions, events, tie: 0, longest: 0 }
    }

    fn clock(&mut self, region: usize) -> Slot {
        let region = &mut self.regions[region];
        let furthest = region.own.max(region.global);
        region.clock.slot(Instant((self.now + region.begun) * MS), furthest)
    }

    fn after(&mut self, ms: u64, region: usize, event: Event) {
        self.tie += 1;
        self.events.insert((self.now + ms, self.tie), (region, event));
    }

    fn step(&mut self) {
        self.now += 1;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (region, event) = entry.remove();
            self.on_event(region, event);
        }
        let message = self.now.is_multiple_of(GLOBALLY);
        if message {
            self.head = self.head.plus(1);
        }
        let skips = self.pace.is_due(Instant(self.now * MS), DELTA_T);
        if skips {
            let target = self.clock(0);
            self.head = self.head.max(self.pace.target(target));
            self.pace.skipped(self.head);
        }
        if skips || message {
            for region in 0..self.regions.len() {
                let way = self.decides + self.regions[region].way;
                self.after(way, region, Event::Global(self.head, message));
            }
        }
        (0..self.regions.len()).for_each(|region| self.send(region));
    }

    fn on_event(&mut self, at: usize, event: Event) {
        match event {
            Event::Global(head, message) => {
                let region = &mut self.regions[at];
                region.global = region.global.max(head);
                // A message of the global ring waits until the region's own ring has come as far: that skips at once.
                if message && region.own < region.global {
                    let slot = region.global.plus(1);
                    let clock = self.clock(at);
                    let region = &mut self.regions[at];
                    let said = Wanted { slot, reached: region.own, clock };
                    region.pace.heard(Instant(self.now * MS), slot);
                    region.pace.make_up(said, DELTA_T);
                    region.own = region.own.max(region.pace.target(clock));
                    region.pace.skipped(region.own);
                }
            }
            Event::Asks(said) => {
                let now = Instant((self.now + self.regions[0].begun) * MS);
                if self.regions[0].clock.heard(now, said.clock) > DELTA_T {
                    self.pace.forget_skips();
                    self.regions[0].pace.forget_skips();
                }
                self.pace.heard(Instant(self.now * MS), said.slot);
                self.pace.make_up(said, DELTA_T);
            }
        }
    }

    /// A region sends a message to its ring, which waits for the global one.
    fn send(&mut self, at: usize) {
        let clock = self.clock(at);
        let (now, region) = (self.now, &mut self.regions[at]);
        region.own = region.own.plus(1);
        if region.pace.is_due(Instant(now * MS), DELTA_T) {
            region.own = region.own.max(region.pace.target(clock));
            region.pace.skipped(region.own);
        }
        let behind = region.own.0.saturating_sub(region.global.0);
        self.longest = self.longest.max(behind * 1_000 / Slot::PER_SECOND);
        if behind > 0 && now >= region.ask_at {
            region.ask_at = now + 5;
            let said = Wanted { slot: region.own.plus(1), reached: region.global, clock };
            let way = region.way;
            self.after(way, at, Event::Asks(said));
        }
    }
}

#[test]
fn a_ring_makes_up_for_its_distance_and_rings_do_not_raise_each_other() {
    //= MP43 test
    for seed in 1..=200 {
        let mut world = World::new(seed);
        (0..4_000).for_each(|_| world.step());
        world.longest = 0;
        (0..20_000).for_each(|_| world.step());
        let ways = world.regions.iter().map(|region| region.way).max().unwrap_or(0);
        let far = world.decides + ways;
        assert!(world.longest <= 15, "delay: a message waited for {} ms, seed {seed}, {far} ms", world.longest);
        let clock = world.clock(0);
        let ahead = (world.pace.target(clock).0 - clock.0) * 1_000 / Slot::PER_SECOND;
        assert!(ahead <= far + ways + 10, "delay: {ahead} ms ahead where {far} are needed, seed {seed}");
    }
}
