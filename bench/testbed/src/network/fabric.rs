//! What the switch does with a frame, without sockets and clock: learning, flooding, the links between the ports, and the
//! cables to its stations where they are Ethernet's.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use consort_sim::link::{LinkCounts, LinkModel, SimLink};
use consort_types::{Instant, Rng};

use super::ethernet::{Cables, Ethernet};
use super::frame::{self, Mac};

/// How many bytes may be under way in all; more are dropped and counted.
const UNDER_WAY_MAX: usize = 64 << 20;
/// How many addresses are learned; a frame to one that was not learned goes to all ports.
const STATIONS_MAX: usize = 4096;

/// A frame on its way. Ordered by arrival, then by departure.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    at: Instant,
    serial: u64,
    next: Next,
    frame: Arc<[u8]>,
}

/// Where a frame comes to next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The inside of the switch, from this port.
    Inside(usize),
    /// This port's station.
    Station(usize),
}

/// A frame that has come to the end of its way.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it should arrive.
    pub at: Instant,
    /// At which port.
    pub to: usize,
    /// Its bytes.
    pub frame: Arc<[u8]>,
}

/// The inside of an Ethernet switch each of whose ordered pairs of ports has a link of its own.
#[derive(Debug)]
pub struct Fabric {
    ports: usize,
    links: Vec<SimLink>,
    /// The ports to which no multicast is forwarded.
    without_multicast: BTreeSet<usize>,
    /// Of what every frame takes up a part, whoever it is for; none where links are all there is.
    cables: Option<Cables>,
    stations: BTreeMap<Mac, usize>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    bytes: usize,
    serial: u64,
    overrun: u64,
}

impl Fabric {
    /// A switch with perfect links, whose chance all comes from `seed`; with cables if it is to be one of an Ethernet.
    pub fn new(ports: usize, seed: u64, ethernet: Option<&Ethernet>) -> Self {
        let mut rng = Rng::new(seed);
        let links = (0..ports * ports).map(|pair| SimLink::new(LinkModel::default(), rng.fork(pair as u64))).collect();
        let (stations, under_way) = (BTreeMap::new(), BinaryHeap::new());
        let cables = ethernet.map(|ethernet| Cables::new(ethernet, ports));
        let without_multicast = BTreeSet::new();
        Self { ports, links, without_multicast, cables, stations, under_way, bytes: 0, serial: 0, overrun: 0 }
    }

    /// How frames fare that come in at `from` and leave at `to`, from now on.
    pub fn set(&mut self, from: usize, to: usize, model: LinkModel) {
        if let Some(link) = self.links.get_mut(from * self.ports + to) {
            link.model = model;
        }
    }

    /// Whether frames to groups of multicast, but not broadcast, leave at a port from now on.
    pub fn forward_multicast(&mut self, to: usize, forwards: bool) {
        if forwards {
            self.without_multicast.remove(&to);
        } else {
            self.without_multicast.insert(to);
        }
    }

    /// What the links did so far: from, to, counts.
    pub fn counts(&self) -> impl Iterator<Item = (usize, usize, LinkCounts)> {
        let pairs =
            self.links.iter().enumerate().map(|(pair, link)| (pair / self.ports, pair % self.ports, link.counts()));
        pairs.filter(|(from, to, _)| from != to)
    }

    /// What the cables to the stations did so far; nothing where there are none.
    pub fn cable_counts(&self) -> Vec<LinkCounts> {
        self.cables.as_ref().map(Cables::counts).unwrap_or_default()
    }

    /// How many frames were dropped because too many were under way already.
    pub const fn overrun(&self) -> u64 {
        self.overrun
    }

    /// Takes a frame that came in at a port.
    pub fn accept(&mut self, now: Instant, from: usize, frame: &[u8]) {
        let Some((_, source)) = frame::addresses(frame) else { return };
        self.learn(source, from);
        let shared = Arc::from(frame);
        match &mut self.cables {
            None => self.forward(now, from, &shared),
            Some(cables) => {
                if let Some(at) = cables.up(now, from, frame.len()) {
                    self.put_under_way(at, Next::Inside(from), shared);
                }
            }
        }
    }

    /// Sends a frame that is inside the switch to the ports that are to have it.
    fn forward(&mut self, now: Instant, from: usize, frame: &Arc<[u8]>) {
        let Some((destination, _)) = frame::addresses(frame) else { return };
        let known = if destination.is_group() { None } else { self.stations.get(&destination).copied() };
        let is_multicast = destination.is_group() && !destination.is_broadcast();
        match known {
            Some(to) => self.carry(now, from, to, frame),
            None => {
                for to in 0..self.ports {
                    if !(is_multicast && self.without_multicast.contains(&to)) {
                        self.carry(now, from, to, frame);
                    }
                }
            }
        }
    }

    /// The next frame to arrive that is due.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<Arrival> {
        while self.next_arrival()? <= now {
            let Reverse(UnderWay { at, next, frame, .. }) = self.under_way.pop()?;
            self.bytes -= frame.len();
            match next {
                Next::Station(to) => return Some(Arrival { at, to, frame }),
                // Its times follow from when it came here, however late this is done.
                Next::Inside(from) => self.forward(at, from, &frame),
            }
        }
        None
    }

    /// When the next frame arrives, at its station or inside the switch.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    fn learn(&mut self, source: Mac, port: usize) {
        if !source.is_group() && (self.stations.len() < STATIONS_MAX || self.stations.contains_key(&source)) {
            self.stations.insert(source, port);
        }
    }

    fn carry(&mut self, now: Instant, from: usize, to: usize, frame: &Arc<[u8]>) {
        if from == to {
            return;
        }
        for copy in self.links[from * self.ports + to].carry(now, frame.len()) {
            match copy.flip {
                None => self.send_down(copy.at, to, frame.clone()),
                Some(bit) => self.put_hurt(copy.at, to, frame, bit),
            }
        }
    }

    /// A frame in which nothing can be hurt but what names its stations is lost, as on a wire.
    fn put_hurt(&mut self, at: Instant, to: usize, frame: &[u8], bit: usize) {
        let mut hurt = frame.to_vec();
        if frame::corrupt(&mut hurt, bit) {
            self.send_down(at, to, hurt.into());
        }
    }

    /// A frame leaves the switch.
    fn send_down(&mut self, now: Instant, to: usize, frame: Arc<[u8]>) {
        let at = match &mut self.cables {
            None => Some(now),
            Some(cables) => cables.down(now, to, frame.len()),
        };
        if let Some(at) = at {
            self.put_under_way(at, Next::Station(to), frame);
        }
    }

    fn put_under_way(&mut self, at: Instant, next: Next, frame: Arc<[u8]>) {
        if self.bytes + frame.len() > UNDER_WAY_MAX {
            self.overrun += 1;
            return;
        }
        self.bytes += frame.len();
        self.serial += 1;
        self.under_way.push(Reverse(UnderWay { at, serial: self.serial, next, frame }));
    }
}

#[cfg(test)]
mod tests {
    use consort_types::Duration;

    use super::*;

    const NOW: Instant = Instant(1_000);
    const FAR: Instant = Instant(u64::MAX);

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![0; 64];
        (frame[5], frame[11]) = (to, from);
        frame
    }

    fn group(from: u8) -> Vec<u8> {
        let mut frame = frame(9, from);
        frame[0] = 1;
        frame
    }

    fn arrivals(fabric: &mut Fabric, now: Instant) -> Vec<usize> {
        std::iter::from_fn(|| fabric.poll_arrival(now)).map(|arrival| arrival.to).collect()
    }

    #[test]
    fn frames_to_strangers_and_groups_go_everywhere_but_back() {
        let mut fabric = Fabric::new(3, 1, None);
        fabric.accept(NOW, 1, &frame(7, 1));
        assert_eq!(arrivals(&mut fabric, NOW), [0, 2]);
        fabric.accept(NOW, 2, &group(2));
        assert_eq!(arrivals(&mut fabric, NOW), [0, 1]);
    }

    #[test]
    fn a_learned_address_gets_its_frames_alone_also_after_it_moved() {
        let mut fabric = Fabric::new(3, 1, None);
        fabric.accept(NOW, 0, &group(7));
        arrivals(&mut fabric, NOW);
        fabric.accept(NOW, 1, &frame(7, 1));
        assert_eq!(arrivals(&mut fabric, NOW), [0]);
        fabric.accept(NOW, 2, &group(7));
        arrivals(&mut fabric, NOW);
        fabric.accept(NOW, 1, &frame(7, 1));
        assert_eq!(arrivals(&mut fabric, NOW), [2]);
        fabric.accept(NOW, 2, &frame(7, 2));
        assert_eq!(arrivals(&mut fabric, NOW), [] as [usize; 0], "a frame to its own port");
    }

    #[test]
    fn multicast_is_kept_from_a_port_and_broadcast_is_not() {
        let mut fabric = Fabric::new(3, 1, None);
        fabric.forward_multicast(2, false);
        fabric.accept(NOW, 0, &group(1));
        assert_eq!(arrivals(&mut fabric, NOW), [1]);
        let mut broadcast = frame(9, 1);
        broadcast[..6].fill(0xff);
        fabric.accept(NOW, 0, &broadcast);
        assert_eq!(arrivals(&mut fabric, NOW), [1, 2]);
        fabric.forward_multicast(2, true);
        fabric.accept(NOW, 0, &group(1));
        assert_eq!(arrivals(&mut fabric, NOW), [1, 2]);
    }

    #[test]
    fn frames_arrive_in_time_and_in_order() {
        let mut fabric = Fabric::new(2, 1, None);
        fabric.set(0, 1, LinkModel { delay: Duration::from_nanos(50), ..LinkModel::default() });
        (1..=3).for_each(|station| fabric.accept(NOW, 0, &group(station)));
        assert_eq!((fabric.next_arrival(), fabric.poll_arrival(Instant(1_049))), (Some(Instant(1_050)), None));
        let order: Vec<_> = (0..3).map(|_| fabric.poll_arrival(Instant(1_050)).unwrap().frame[11]).collect();
        assert_eq!((order, fabric.next_arrival()), (vec![1, 2, 3], None));
    }

    #[test]
    fn a_cut_holds_one_way_only() {
        let mut fabric = Fabric::new(2, 1, None);
        fabric.set(0, 1, LinkModel { cut: true, ..LinkModel::default() });
        fabric.accept(NOW, 0, &group(1));
        fabric.accept(NOW, 1, &group(2));
        assert_eq!(arrivals(&mut fabric, NOW), [0]);
        let cut: Vec<_> = fabric.counts().map(|(from, to, counts)| (from, to, counts.cut)).collect();
        assert_eq!(cut, [(0, 1, 1), (1, 0, 0)]);
    }

    #[test]
    fn a_duplicate_counts_twice_against_the_bytes_under_way_and_a_flood_is_bounded() {
        let mut fabric = Fabric::new(2, 1, None);
        fabric.set(0, 1, LinkModel { delay: Duration::from_secs(1), duplicate: 1.0, ..LinkModel::default() });
        let mut large = group(1);
        large.resize(1 << 20, 0);
        (0..40).for_each(|_| fabric.accept(NOW, 0, &large));
        assert_eq!((fabric.overrun(), arrivals(&mut fabric, FAR).len()), (80 - 64, 64));
        fabric.accept(NOW, 0, &large);
        assert_eq!(arrivals(&mut fabric, FAR), [1, 1], "room again");
    }

    #[test]
    fn short_frames_and_unknown_ports_are_ignored() {
        let mut fabric = Fabric::new(2, 1, None);
        fabric.set(5, 5, LinkModel { cut: true, ..LinkModel::default() });
        fabric.accept(NOW, 0, &[1; 11]);
        assert_eq!(fabric.next_arrival(), None);
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let mut fabric = Fabric::new(2, 1, None);
        for station in 0..10_000u16 {
            let mut frame = frame(9, 0);
            frame[10..12].copy_from_slice(&station.to_be_bytes());
            fabric.accept(NOW, 0, &frame);
            arrivals(&mut fabric, NOW);
        }
        assert_eq!(fabric.stations.len(), STATIONS_MAX);
    }

    #[test]
    fn frames_of_two_stations_take_turns_on_the_cable_to_a_third() {
        // A byte takes a nanosecond; what was accepted first must not take the whole cable.
        let ethernet = Ethernet { rate: 8_000_000_000, latency: Duration::ZERO, queue: 10_000 };
        let mut fabric = Fabric::new(3, 1, Some(&ethernet));
        for station in [1, 1, 1, 2] {
            let mut frame = group(station);
            frame.resize(976, 0);
            fabric.accept(Instant(0), station.into(), &frame);
        }
        let to_first: Vec<_> = std::iter::from_fn(|| fabric.poll_arrival(FAR))
            .filter(|arrival| arrival.to == 0)
            .map(|arrival| (arrival.at.0, arrival.frame[11]))
            .collect();
        assert_eq!(to_first, [(2_000, 1), (3_000, 2), (4_000, 1), (5_000, 1)]);
        assert_eq!(fabric.cable_counts().len(), 3);
    }
}
