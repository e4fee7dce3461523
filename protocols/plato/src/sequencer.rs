//! The one member that says the order: packets get their places as they arrive at it, and it tells them some at a time.
use crate::config::Sequencing;
use crate::pipeline::PacketKey;
use consort_types::{Duration, Instant};
use std::collections::VecDeque;

/// Places that were given, and of which the others do not know yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequencer {
    unannounced: VecDeque<PacketKey>,
    first: u64,
    due: Option<Instant>,
    /// When places were told last.
    told: Instant,
}

impl Sequencer {
    /// The next place is this packet's; it is told within this time, or once the last ones were told long enough ago.
    pub fn give(&mut self, now: Instant, key: PacketKey, within: Option<Duration>) {
        //= P10
        if self.unannounced.is_empty() {
            //= P15
            self.due = Some(within.map_or_else(|| now.max(self.told + Sequencing::GAP), |within| now + within));
        }
        self.unannounced.push_back(key);
    }

    /// What is to be told next, in one packet: some are enough, or the oldest has waited long enough. At the end of a view,
    /// whatever there is. To be asked until there is nothing: one packet that closes a gap frees all that stood behind it.
    pub fn tell(&mut self, now: Instant, config: &Sequencing, end: bool) -> Option<(u64, Vec<PacketKey>)> {
        //= P11
        let full = self.unannounced.len() >= config.every as usize;
        let due = self.due.is_some_and(|due| due <= now);
        if self.unannounced.is_empty() || !(full || due || end) {
            return None;
        }
        let first = self.first + 1;
        let keys: Vec<_> = self.unannounced.drain(..self.unannounced.len().min(config.every as usize)).collect();
        self.first += keys.len() as u64;
        self.told = now;
        // Those that remain came later than the oldest: they are told no later than it would have been.
        let due = if config.within.is_some() { self.due } else { Some(now + Sequencing::GAP) };
        self.due = due.filter(|_| !self.unannounced.is_empty());
        Some((first, keys))
    }

    /// When the oldest has waited long enough.
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    const CONFIG: Sequencing = Sequencing { every: 3, within: Some(WITHIN) };
    const WITHIN: Duration = Duration::from_millis(5);

    const fn key(seq: u64) -> PacketKey {
        PacketKey { origin: NodeId(1), seq }
    }

    #[test]
    fn places_are_told_when_they_are_enough_and_are_numbered_without_a_gap() {
        //= P10 test
        //= P11 test
        let mut sequencer = Sequencer::default();
        let now = Instant(1_000);
        (1..3).for_each(|seq| sequencer.give(now, key(seq), CONFIG.within));
        assert_eq!(sequencer.tell(now, &CONFIG, false), None);
        sequencer.give(now, key(3), CONFIG.within);
        assert_eq!(sequencer.tell(now, &CONFIG, false), Some((1, vec![key(1), key(2), key(3)])));
        assert_eq!(sequencer.tell(now, &CONFIG, true), None, "there is nothing to tell");
        sequencer.give(now, key(4), CONFIG.within);
        assert_eq!(sequencer.tell(now, &CONFIG, true), Some((4, vec![key(4)])));
    }

    #[test]
    fn no_packet_tells_more_places_than_are_enough() {
        //= P11 test
        let mut sequencer = Sequencer::default();
        let now = Instant(1_000);
        (1..=8).for_each(|seq| sequencer.give(now, key(seq), CONFIG.within));
        assert_eq!(sequencer.tell(now, &CONFIG, false), Some((1, vec![key(1), key(2), key(3)])));
        assert_eq!(sequencer.tell(now, &CONFIG, false), Some((4, vec![key(4), key(5), key(6)])));
        assert_eq!(sequencer.tell(now, &CONFIG, false), None, "two may wait for a third");
        assert_eq!(sequencer.due(), Some(now + WITHIN));
        assert_eq!(sequencer.tell(now + WITHIN, &CONFIG, false), Some((7, vec![key(7), key(8)])));
        assert_eq!(sequencer.due(), None);
    }

    #[test]
    fn one_that_adapts_tells_the_first_at_once_and_bundles_those_that_come_soon_after() {
        //= P15 test
        let config = Sequencing { within: None, ..CONFIG };
        let (mut sequencer, now, gap) = (Sequencer::default(), Instant(1_000_000_000), Sequencing::GAP);
        let mut give = |at, seq| {
            sequencer.give(at, key(seq), config.within);
            (sequencer.tell(at, &config, false).map(|(_, keys)| keys.len()), sequencer.due())
        };
        assert_eq!(give(now, 1), (Some(1), None));
        assert_eq!(give(now + gap / 4, 2), (None, Some(now + gap)));
        assert_eq!(give(now + gap / 2, 3), (None, Some(now + gap)));
        assert_eq!(give(now + gap / 2, 4), (Some(3), None), "they are enough");
        assert_eq!(give(now + gap, 5), (None, Some(now + gap / 2 + gap)), "no sooner after those");
        assert_eq!(sequencer.tell(now + gap * 2, &config, false), Some((5, vec![key(5)])));
        (6..=9).for_each(|seq| sequencer.give(now + gap * 9, key(seq), config.within));
        assert_eq!(sequencer.tell(now + gap * 9, &config, false).map(|(_, keys)| keys.len()), Some(3));
        assert_eq!(sequencer.tell(now + gap * 9, &config, false), None);
        assert_eq!(sequencer.due(), Some(now + gap * 10), "the rest waits for more");
    }

    #[test]
    fn the_last_ones_do_not_wait_for_more_than_the_limit() {
        //= P11 test
        let mut sequencer = Sequencer::default();
        sequencer.give(Instant(1_000), key(1), CONFIG.within);
        sequencer.give(Instant(9_000), key(2), CONFIG.within);
        assert_eq!(sequencer.due(), Some(Instant(5_001_000)));
        assert_eq!(sequencer.tell(Instant(5_000_999), &CONFIG, false), None);
        assert_eq!(sequencer.tell(Instant(5_001_000), &CONFIG, false), Some((1, vec![key(1), key(2)])));
        assert_eq!(sequencer.due(), None);
    }
}
