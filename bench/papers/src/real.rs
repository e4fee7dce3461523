//! The same experiments with real daemons, in real time: each in a network namespace, joined by the testbed's switch, which
//! delays frames as the papers' networks did, or is one of an Ethernet.
//!
//! ```text
//! fleet   daemons of one configuration      stage    clients: who sends when, who hears what
//! toto    ToTo against all-ack              plato    PLATO against a fixed sequencer
//! limits  what the machine adds to the model
//! rings   the accelerated against the original ring, on an Ethernet
//! ```
//!
//! Reported, not judged: the figures are those of a machine that has few cores for many daemons.
mod fleet;
mod limits;
pub mod plato;
pub mod rings;
mod stage;
#[cfg(test)]
mod tests;
pub mod toto;

use consort_sim::link::LinkModel;
use consort_testbed::network::ethernet::Ethernet;
use consort_testbed::network::{Network, Plan};
use consort_testbed::network::{namespace, program};
use consort_testbed::stop_on_signals;
use consort_types::Instant;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time as it passes here, for all threads of a run.
#[derive(Clone, Copy, Debug)]
struct Clock(std::time::Instant);

impl Clock {
    fn now(self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }
}

/// What a frame meets on its way from one node to another.
type Way = fn(usize, usize) -> LinkModel;

/// Namespaces and their switch, and the program that runs in them.
struct World {
    network: Network,
    file: PathBuf,
    link: Way,
    clock: Clock,
    stop: Arc<AtomicBool>,
}

impl World {
    /// So many nodes, each two joined by a link. The program is built for release where none is named.
    fn new(seed: u64, nodes: usize, program: Option<&PathBuf>, link: Way) -> Result<Self, String> {
        let world = Self::of(&Plan { nodes, mtu: 1_500, seed, ethernet: None }, program, link)?;
        world.set_links(|model| model)?;
        Ok(world)
    }

    /// So many nodes on an Ethernet.
    fn on_ethernet(seed: u64, nodes: usize, program: Option<&PathBuf>, ethernet: Ethernet) -> Result<Self, String> {
        let plan = Plan { nodes, mtu: 1_500, seed, ethernet: Some(ethernet) };
        Self::of(&plan, program, |_, _| LinkModel::default())
    }

    fn of(plan: &Plan, program: Option<&PathBuf>, link: Way) -> Result<Self, String> {
        namespace::requirements().map_err(|reason| format!("--network namespaces: {reason}"))?;
        let stop = stop_on_signals().map_err(|error| format!("cannot listen to signals: {error}"))?;
        let file = program.map_or_else(program::build, |file| Ok(file.clone())).map_err(text)?;
        let network = Network::build(plan).map_err(text)?;
        Ok(Self { network, file, link, clock: Clock(std::time::Instant::now()), stop })
    }

    /// Gives every link its model, changed as said.
    fn set_links(&self, change: impl Fn(LinkModel) -> LinkModel) -> Result<(), String> {
        let nodes = self.network.nodes();
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        let mut pairs = pairs.filter(|(from, to)| from != to);
        pairs.try_for_each(|(from, to)| self.network.set(from, to, &change((self.link)(from, to))).map_err(text))
    }

    /// Whether the run may go on.
    fn goes_on(&self) -> Result<(), String> {
        if self.stop.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
