//! When an own packet counts as arrived.
//!
//! A receiver hears packets in about the order in which the sequencer hears them, for both are about as far from the sender.
//! A sender is nearer to itself: it would believe its own packets to stand before all that are on their way to it. So
//! an own packet counts as arrived only once it may have come to the others. How long that takes is half of the shortest
//! time, of late, from sending a packet to hearing its place.
use crate::pipeline::PacketKey;
use consort_types::{Duration, Instant};
use std::collections::VecDeque;

/// Of how many of the last packets the shortest time counts.
const SAMPLES: usize = 32;
/// No network that this is for takes longer.
const LONGEST: Duration = Duration::from_millis(5);

/// Own packets on their way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loopback {
    under_way: VecDeque<(Instant, PacketKey)>,
    /// When packets were sent whose places are not known.
    sent: VecDeque<(u64, Instant)>,
    times: VecDeque<Duration>,
}

impl Loopback {
    /// An own packet was sent; it arrives later.
    pub fn send(&mut self, now: Instant, key: PacketKey) {
        //= P14
        let at = (now + self.delay()).max(self.under_way.back().map_or(now, |(at, _)| *at));
        self.under_way.push_back((at, key));
        self.sent.push_back((key.seq, now));
    }

    /// The place of an own packet is known. All up to it have arrived, whatever was believed.
    pub fn placed(&mut self, now: Instant, seq: u64) {
        while self.sent.front().is_some_and(|(first, _)| *first <= seq) {
            let Some((first, sent)) = self.sent.pop_front() else { return };
            if first == seq {
                self.times.push_back(now.since(sent) / 2);
                if self.times.len() > SAMPLES {
                    self.times.pop_front();
                }
            }
        }
        for (at, _) in self.under_way.iter_mut().take_while(|(_, key)| key.seq <= seq) {
            *at = now.min(*at);
        }
    }

    /// The next own packet that has arrived by now, and when.
    pub fn arrived(&mut self, now: Instant) -> Option<(Instant, PacketKey)> {
        let arrived = self.under_way.front().is_some_and(|(at, _)| *at <= now);
        if arrived { self.under_way.pop_front() } else { None }
    }

    /// When the next one arrives.
    pub fn due(&self) -> Option<Instant> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// The view ends: nothing of it is under way any more.
    pub fn end(&mut self) -> impl Iterator<Item = PacketKey> {
        self.sent.clear();
        std::mem::take(&mut self.under_way).into_iter().map(|(_, key)| key)
    }

    /// How long an own packet takes.
    pub fn delay(&self) -> Duration {
        self.times.iter().min().map_or(Duration::ZERO, |least| (*least).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    const fn key(seq: u64) -> PacketKey {
        PacketKey { origin: NodeId(1), seq }
    }

    const fn us(us: u64) -> Instant {
        Instant(us * 1_000)
    }

    #[test]
    fn an_own_packet_arrives_after_half_of_the_shortest_time_to_its_place() {
        //= P14 test
        let mut own = Loopback::default();
        own.send(us(0), key(1));
        assert_eq!(own.arrived(us(0)), Some((us(0), key(1))), "nothing is known yet");
        own.placed(us(400), 1);
        own.send(us(1_000), key(2));
        assert_eq!((own.due(), own.arrived(us(1_199))), (Some(us(1_200)), None));
        assert_eq!(own.arrived(us(1_300)), Some((us(1_200), key(2))));
        own.placed(us(1_300), 2);
        assert_eq!(own.delay(), Duration::from_micros(150));
    }

    #[test]
    fn what_has_its_place_has_arrived_and_what_went_before_it_too() {
        //= P14 test
        let mut own = Loopback::default();
        own.send(us(0), key(1));
        own.placed(us(4_000), 1);
        assert_eq!(own.arrived(us(4_000)), Some((us(0), key(1))));
        own.send(us(5_000), key(2));
        own.send(us(5_001), key(3));
        own.placed(us(5_100), 3);
        assert_eq!(own.arrived(us(5_100)), Some((us(5_100), key(2))));
        assert_eq!(own.arrived(us(5_100)), Some((us(5_100), key(3))));
        assert_eq!(own.delay(), Duration::from_nanos(49_500));
    }

    #[test]
    fn no_more_is_waited_than_any_network_takes_and_the_last_few_count() {
        let mut own = Loopback::default();
        own.send(us(0), key(1));
        own.placed(us(1_000_000), 1);
        assert_eq!(own.delay(), LONGEST);
        for seq in 2..40 {
            own.send(us(2_000_000), key(seq));
            own.placed(us(2_000_000 + seq), seq);
        }
        assert_eq!(own.delay(), Duration::from_nanos(4_000), "the first are forgotten");
        assert_eq!(own.end().count(), 39);
        assert_eq!(own.due(), None);
    }
}
