//! How close two packets must come to be suspected: fixed, or as small as few enough mistakes allow.
use crate::config::{AdaptationPace, Prediction};
use consort_types::{Duration, Instant};

/// Late revokes are counted over so many slices of time.
const SLICES: usize = 10;
/// More late revokes among so many packets are too many.
const ONE_IN: u64 = 100;

/// The threshold, and what came of it lately.
#[derive(Clone, Debug)]
pub struct Delta {
    now: Option<Duration>,
    adaptive: Option<(Duration, Duration)>,
    pace: AdaptationPace,
    /// Packets and late revokes of each of the last slices.
    slices: [(u64, u64); SLICES],
    slice: u64,
    since: u64,
}

impl Delta {
    /// As configured.
    pub const fn new(prediction: Prediction) -> Self {
        let (now, adaptive, pace) = match prediction {
            Prediction::Off => (None, None, AdaptationPace::Calm),
            Prediction::Fixed(delta) => (Some(delta), None, AdaptationPace::Calm),
            Prediction::Adaptive { start, least, most, pace } => (Some(start), Some((least, most)), pace),
        };
        Self { now, adaptive, pace, slices: [(0, 0); SLICES], slice: 0, since: 0 }
    }

    /// The threshold; none where nothing is predicted.
    pub const fn get(&self) -> Option<Duration> {
        self.now
    }

    /// A packet came.
    pub fn on_packet(&mut self, now: Instant) {
        //= P31
        let turned = self.turn(now);
        self.slices[self.slice as usize % SLICES].0 += 1;
        self.since += 1;
        if turned || self.since >= self.pace.packets() {
            self.since = 0;
            if !self.too_many() {
                self.scale(9, 10);
            }
        }
    }

    /// One mistake was found out: so many packets were revoked that may have been used already.
    pub fn on_late(&mut self, now: Instant, packets: u64) {
        //= P31
        self.turn(now);
        self.slices[self.slice as usize % SLICES].1 += packets;
        if self.too_many() {
            let times = if self.pace == AdaptationPace::Paper { packets } else { 1 };
            (0..times).for_each(|_| self.scale(3, 2));
        }
    }

    /// Goes on to the slice of this time; whether it is a new one.
    fn turn(&mut self, now: Instant) -> bool {
        let slice = now.0 / self.pace.slice().as_nanos() as u64;
        let passed = slice.saturating_sub(self.slice).min(SLICES as u64);
        (1..=passed).for_each(|ahead| self.slices[(slice - passed + ahead) as usize % SLICES] = (0, 0));
        self.slice = self.slice.max(slice);
        passed > 0
    }

    fn too_many(&self) -> bool {
        let (packets, late) = self.slices.iter().fold((0, 0), |sum, slice| (sum.0 + slice.0, sum.1 + slice.1));
        late * ONE_IN > packets
    }

    fn scale(&mut self, by: u32, of: u32) {
        if let (Some(now), Some((least, most))) = (self.now, self.adaptive) {
            self.now = Some((now * by / of).clamp(least, most));
        }
    }
}

impl AdaptationPace {
    /// After how long it is lowered, and how long a slice is. One mistake revokes all that the sequencer has not told yet:
    /// over less time than ten seconds it would be too many by itself.
    const fn slice(self) -> Duration {
        match self {
            Self::Calm => Duration::from_secs(1),
            Self::Paper => Duration::from_millis(100),
        }
    }

    /// After how many packets it is lowered at the latest.
    const fn packets(self) -> u64 {
        match self {
            Self::Calm => 10_000,
            Self::Paper => 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn adaptive() -> Delta {
        paced(AdaptationPace::Calm)
    }

    fn paced(pace: AdaptationPace) -> Delta {
        Delta::new(Prediction::Adaptive { start: us(100), least: us(5), most: Duration::from_millis(20), pace })
    }

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn it_falls_by_a_tenth_every_second_down_to_the_least() {
        //= P31 test
        let mut delta = adaptive();
        (0..=4).for_each(|second| (0..10).for_each(|n| delta.on_packet(at(second * 1_000 + n))));
        assert_eq!(delta.get(), Some(us(100) * 9 / 10 * 9 / 10 * 9 / 10 * 9 / 10));
        (5..100).for_each(|second| delta.on_packet(at(second * 1_000)));
        assert_eq!(delta.get(), Some(us(5)));
    }

    #[test]
    fn it_falls_after_ten_thousand_packets_however_fast_they_come() {
        //= P31 test
        let mut delta = adaptive();
        (0..20_000).for_each(|_| delta.on_packet(at(1)));
        assert_eq!(delta.get(), Some(us(81)));
    }

    #[test]
    fn late_revokes_raise_it_once_they_are_more_than_one_in_a_hundred_of_the_last_ten_seconds() {
        //= P31 test
        let mut delta = adaptive();
        (0..300).for_each(|_| delta.on_packet(at(1)));
        (0..3).for_each(|_| delta.on_late(at(2), 1));
        assert_eq!(delta.get(), Some(us(100)), "three of three hundred may be");
        delta.on_late(at(3), 1);
        assert_eq!(delta.get(), Some(us(150)));
        (0..30).for_each(|_| delta.on_late(at(4), 1));
        assert_eq!(delta.get(), Some(Duration::from_millis(20)), "no further than the most");
        delta.on_packet(at(9_000));
        assert_eq!(delta.get(), Some(Duration::from_millis(20)), "the last ten seconds were bad");
        delta.on_packet(at(25_000));
        assert_eq!(delta.get(), Some(Duration::from_millis(18)), "that is forgotten");
    }

    #[test]
    fn one_mistake_raises_it_once_however_many_packets_it_revokes() {
        //= P31 test
        let mut delta = adaptive();
        (0..300).for_each(|_| delta.on_packet(at(1)));
        delta.on_late(at(2), 24);
        assert_eq!(delta.get(), Some(us(150)));
        delta.on_late(at(3), 24);
        assert_eq!(delta.get(), Some(us(225)));
    }

    #[test]
    fn by_the_rule_of_the_paper_each_late_revoke_raises_it_and_a_second_later_all_is_forgotten() {
        //= P31 test
        let mut delta = paced(AdaptationPace::Paper);
        (0..300).for_each(|_| delta.on_packet(at(1)));
        delta.on_late(at(2), 4);
        let raised = (0..4).fold(us(100), |delta, _| delta * 3 / 2);
        assert_eq!(delta.get(), Some(raised));
        delta.on_packet(at(500));
        assert_eq!(delta.get(), Some(raised), "the last second was bad");
        delta.on_packet(at(1_150));
        assert_eq!(delta.get(), Some(raised * 9 / 10));
        delta.on_packet(at(1_250));
        assert_eq!(delta.get(), Some(raised * 9 / 10 * 9 / 10), "every tenth of a second");
        (0..1_000).for_each(|_| delta.on_packet(at(1_251)));
        assert_eq!(delta.get(), Some(raised * 9 / 10 * 9 / 10 * 9 / 10), "or after a thousand packets");
    }

    #[test]
    fn a_fixed_one_stays_and_none_is_none() {
        let (mut fixed, mut off) = (Delta::new(Prediction::Fixed(us(128))), Delta::new(Prediction::Off));
        for delta in [&mut fixed, &mut off] {
            (0..5_000).for_each(|n| delta.on_packet(at(n)));
            delta.on_late(at(5_000), 1);
        }
        assert_eq!((fixed.get(), off.get()), (Some(us(128)), None));
    }
}
