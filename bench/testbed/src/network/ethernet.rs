//! The cables of a switch, and what its ports hold: each station sends and receives at one rate.
use consort_sim::link::{LinkCounts, LinkModel, SimLink};
use consort_types::{Duration, Instant, Rng};

/// What all cables and ports of a switch are like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Bits per second on a cable, in each direction.
    pub rate: u64,
    /// What the switch needs from a frame's last bit on one cable to its first one on another.
    pub latency: Duration,
    /// How many bytes may wait for a cable to a station; what finds no room is lost.
    pub queue: usize,
}

/// What a frame takes on a cable beside what a TAP device shows of it: preamble, checksum, and the gap to the next frame.
const AROUND: usize = 8 + 4 + 12;
/// Shorter frames are filled up, the checksum not counted.
const SHORTEST: usize = 60;

/// Cables from and to all stations.
#[derive(Debug)]
pub struct Cables {
    latency: Duration,
    up: Vec<SimLink>,
    down: Vec<SimLink>,
}

impl Cables {
    /// Nothing is under way.
    pub fn new(ethernet: &Ethernet, stations: usize) -> Self {
        let cables = |queue| {
            let model = LinkModel { rate: Some(ethernet.rate), queue, ..LinkModel::default() };
            // Without faults nothing is left to chance.
            (0..stations).map(|_| SimLink::new(model.clone(), Rng::new(0))).collect()
        };
        // What a station may have waiting at its own interface is its own affair.
        Self { latency: ethernet.latency, up: cables(usize::MAX), down: cables(ethernet.queue) }
    }

    /// When a frame that a station sends now may leave the switch again.
    pub fn up(&mut self, now: Instant, from: usize, len: usize) -> Option<Instant> {
        carry(self.up.get_mut(from)?, now, len).map(|at| at + self.latency)
    }

    /// When a frame that may leave the switch now has come to a station; `None` if its port has no room. Must be asked in
    /// the order of time.
    pub fn down(&mut self, now: Instant, to: usize, len: usize) -> Option<Instant> {
        carry(self.down.get_mut(to)?, now, len)
    }

    /// What came of the frames that left for each station.
    pub fn counts(&self) -> Vec<LinkCounts> {
        self.down.iter().map(SimLink::counts).collect()
    }
}

fn carry(cable: &mut SimLink, now: Instant, len: usize) -> Option<Instant> {
    cable.carry(now, len.max(SHORTEST) + AROUND).first().map(|copy| copy.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Mbit/s: 80 ns a byte.
    fn cables() -> Cables {
        Cables::new(&Ethernet { rate: 100_000_000, latency: Duration::from_micros(50), queue: 4_000 }, 2)
    }

    #[test]
    fn frames_of_one_station_follow_each_other_on_its_cable() {
        let mut cables = cables();
        let now = Instant(7_000);
        assert_eq!(cables.up(now, 0, 1_226), Some(Instant(7_000 + 100_000 + 50_000)), "all bits, then the switch");
        assert_eq!(cables.up(now, 0, 20), Some(Instant(7_000 + 100_000 + 84 * 80 + 50_000)), "filled up");
        assert_eq!(cables.up(now, 1, 1_226), Some(Instant(7_000 + 100_000 + 50_000)), "another cable");
        assert_eq!(cables.up(now, 2, 1_226), None, "there is no such station");
    }

    #[test]
    fn what_finds_no_room_at_a_port_is_lost_and_counted() {
        let mut cables = cables();
        let sent: Vec<_> = (0..5).map(|_| cables.down(Instant(0), 1, 1_226)).collect();
        let at = |frames: u64| Some(Instant(frames * 100_000));
        assert_eq!(sent, [at(1), at(2), at(3), None, None]);
        let lost: Vec<_> = cables.counts().iter().map(|counts| counts.overflowed).collect();
        assert_eq!(lost, [0, 2]);
        assert_eq!(cables.down(Instant(200_000), 1, 1_226), at(4), "there is room again");
    }
}
