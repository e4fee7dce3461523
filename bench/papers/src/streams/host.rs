//! A process on the streams: an engine, a core for each ring, and one that hands messages out.
use super::plan::{Plan, Site};
use consort_multiring_paxos::MultiRingPaxos;
use consort_multiring_paxos::packet::Packet;
use consort_order::{Lane, each_counter};
use consort_sim::link::{LinkModel, SimLink};
use consort_types::{Incarnation, Instant, Rng};
use std::collections::{BTreeMap, VecDeque};

/// A packet on its way from one process to another.
#[derive(Clone)]
pub struct Frame {
    pub from: usize,
    pub incarnation: Incarnation,
    pub to: usize,
    pub lane: Lane,
    pub len: usize,
    pub packet: Packet,
}

/// What reads and writes the packets of one ring, one after the other.
#[derive(Default)]
pub struct Core {
    /// When it has done all it has begun.
    pub free: Instant,
    /// Packets to be read, the one that is being read first.
    pub waiting: VecDeque<Frame>,
    pub reads: bool,
    /// Bytes that it has written and nobody has read.
    pub unread: usize,
}

pub struct Host {
    pub engine: MultiRingPaxos,
    pub incarnation: Incarnation,
    pub up: bool,
    /// How many members its view has.
    pub members: usize,
    pub cores: BTreeMap<u8, Core>,
    /// When it has handed out all that it has to.
    pub handed: Instant,
    pub timer: Option<Instant>,
}

impl Host {
    pub fn new(plan: &Plan, me: usize, incarnation: u64) -> Result<Self, String> {
        let incarnation = Incarnation(incarnation);
        let engine = MultiRingPaxos::new(plan.config(me), incarnation).map_err(|error| error.to_string())?;
        let cores = plan.processes[me].rings.iter().map(|ring| (*ring, Core::default())).collect();
        Ok(Self { engine, incarnation, up: true, members: 0, cores, handed: Instant::ZERO, timer: None })
    }

    /// A packet of a ring is written. Returns when.
    pub fn write(&mut self, site: &Site, now: Instant, ring: u8, len: usize) -> Instant {
        let core = self.cores.entry(ring).or_default();
        core.unread += len;
        core.free = core.free.max(now) + site.cost(len);
        core.free
    }

    /// A message is handed out. Returns when.
    pub fn hand_out(&mut self, site: &Site, now: Instant) -> Instant {
        self.handed = self.handed.max(now) + site.message;
        self.handed
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut found = 0;
        each_counter(&self.engine, Instant::ZERO, &mut |known, value| {
            found = if known == name { value } else { found }
        });
        found
    }
}

/// What a server is connected by.
pub struct Interface {
    pub out: SimLink,
    pub into: SimLink,
}

impl Interface {
    pub fn new(site: &Site, rng: &mut Rng) -> Self {
        let model = LinkModel { rate: Some(site.rate), ..LinkModel::default() };
        Self { out: SimLink::new(model.clone(), rng.fork(1)), into: SimLink::new(model, rng.fork(2)) }
    }
}
