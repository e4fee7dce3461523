//! Namespaces, daemons and clients of one trial.
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::watch::{Beat, EndAtEnd, Watch};
use crate::chaos::board::Board;
use crate::chaos::fleet::{CLUSTER, Fleet, described};
use consort_daemon::config::Settings;
use consort_daemon::usage::resident;
use consort_sim::link::LinkModel;
use consort_testbed::network::directory;
use consort_testbed::network::memory::Course;
use consort_testbed::network::port::INTERFACE;
use consort_testbed::network::{Network, Plan};

/// How long daemons may need to come together.
const TOGETHER: Duration = Duration::from_secs(30);
/// How long they must have been together, so that nothing of the start is measured.
const SETTLE: Duration = Duration::from_secs(2);
/// How often all is looked after, and how often memory is sampled.
const STEP: Duration = Duration::from_millis(10);
const SAMPLE: Duration = Duration::from_millis(200);
/// Where data is multicast.
pub const GROUP: ([u8; 4], u16) = ([239, 192, 77, 7], 4_843);
/// Where a node listens.
pub const PORT: u16 = 4_841;

/// Where daemons live.
#[derive(Clone, Copy, Debug)]
pub enum Hosts {
    /// Each in a namespace of its own, and so many namespaces more.
    Apart {
        /// Without a daemon.
        empty: usize,
    },
    /// All in one: no process stands between them.
    Together,
}

/// What a trial is set up with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub hosts: Hosts,
    pub nodes: usize,
    /// Whose daemons run from the start.
    pub first: &'a [usize],
    pub beat: Beat,
    /// What orders.
    pub protocol: &'static str,
}

/// A trial under way.
pub struct Stage<'a> {
    site: Site<'a>,
    pub network: &'a Network,
    pub fleet: Fleet<'a>,
    pub watch: &'a Watch,
    pub directory: &'a Path,
    nodes: usize,
    sampled: Instant,
    /// Of the largest daemon at each moment, and of each.
    memory: Course,
    each: Vec<Course>,
    losses: Vec<u64>,
}

/// Sets all up, waits until the first daemons are in one view and settled, has the trial run, and removes all again.
///
/// # Errors
/// What kept it from running, or its own.
pub fn with(
    site: &Site<'_>,
    setup: &Setup<'_>,
    run: impl FnOnce(&mut Stage<'_>) -> Result<Figures, String>,
) -> Result<Figures, String> {
    let Setup { hosts, nodes, protocol, .. } = *setup;
    let namespaces = if let Hosts::Apart { empty } = hosts { nodes + empty } else { 1 };
    let network = Network::build(&plan(namespaces)).map_err(text)?;
    if matches!(hosts, Hosts::Together) {
        network.namespace(0).configure(&addresses(nodes)).map_err(text)?;
    }
    play(site, setup, &network, config(nodes, protocol, site.settings), run)
}

/// The same with token rings that gateways join: each is a network of its own, and each node has a namespace.
///
/// # Errors
/// As [`with`].
pub fn with_rings(
    site: &Site<'_>,
    rings: &[&[usize]],
    beat: Beat,
    run: impl FnOnce(&mut Stage<'_>) -> Result<Figures, String>,
) -> Result<Figures, String> {
    with_far_rings(site, rings, None, beat, run)
}

/// A ring whose nodes are far from each other.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    pub ring: usize,
    /// How long a packet is under way.
    pub way: Duration,
}

/// The same with one ring whose nodes are far from each other, which nobody tells the daemons.
///
/// # Errors
/// As [`with_rings`].
pub fn with_far_rings(
    site: &Site<'_>,
    rings: &[&[usize]],
    far: Option<Far>,
    beat: Beat,
    run: impl FnOnce(&mut Stage<'_>) -> Result<Figures, String>,
) -> Result<Figures, String> {
    let all: Vec<usize> = rings.iter().copied().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let (nodes, protocol) = (all.len(), "multiring");
    let networks: Vec<Vec<usize>> = rings.iter().map(|ring| ring.to_vec()).collect();
    let network = Network::several(&plan(nodes), &networks).map_err(text)?;
    let file = format!("cluster = \"{CLUSTER}\"\nprotocol = \"{protocol}\"\n{}", site.settings) + &described(&networks);
    if let Some(Far { ring, way }) = far {
        let delay = consort_types::Duration::from_nanos(way.as_nanos() as u64);
        let model = LinkModel { delay, ..LinkModel::default() };
        for (from, to) in rings[ring].iter().flat_map(|from| rings[ring].iter().map(move |to| (*from, *to))) {
            network.set_in(ring, from, to, &model).map_err(text)?;
        }
    }
    let setup = Setup { hosts: Hosts::Apart { empty: 0 }, nodes, first: &all, beat, protocol };
    play(site, &setup, &network, file, run)
}

fn plan(nodes: usize) -> Plan {
    Plan { nodes, mtu: 1_500, seed: 1, ethernet: None }
}

fn play(
    site: &Site<'_>,
    setup: &Setup<'_>,
    network: &Network,
    file: String,
    run: impl FnOnce(&mut Stage<'_>) -> Result<Figures, String>,
) -> Result<Figures, String> {
    let Setup { nodes, first, beat, .. } = *setup;
    let place = directory("consort-trials-").map_err(|error| format!("cannot make a directory: {error}"))?;
    let board = Board::new(nodes as u16, 0, 0);
    let files = vec![file; nodes];
    let fleet = Fleet::new(network, &board, site.file.to_owned(), place.path(), &files).map_err(text)?;
    // A setting that does not fit is told before anything runs.
    consort_daemon::config::read(&fleet.config(0)).map_err(|failure| failure.message)?;
    let watch = Watch::new(nodes, beat)?;
    std::thread::scope(|scope| {
        let _end = EndAtEnd(&watch);
        let (sampled, memory, losses) = (Instant::now(), Course::default(), vec![0; nodes]);
        let (site, directory, each) = (*site, place.path(), vec![Course::default(); nodes]);
        let mut stage = Stage { site, network, fleet, watch: &watch, directory, nodes, sampled, memory, each, losses };
        first.iter().try_for_each(|node| stage.fleet.start(*node).map_err(text))?;
        watch.start(scope, place.path());
        stage.together(first)?;
        stage.pass(SETTLE)?;
        stage.mark(first);
        run(&mut stage)
    })
}

impl Stage<'_> {
    /// What is measured counts from here on.
    pub fn mark(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.losses[*node] = self.losses(*node);
        }
        self.memory = Course::default();
        self.each.fill(Course::default());
        self.sample();
        self.watch.mark();
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// That a daemon has ended by itself, or that somebody wants this to end.
    pub fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.step()?;
        }
        Ok(())
    }

    /// Waits until it is so; false if it does not become so in time.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn until(&mut self, within: Duration, is_so: impl Fn(&Watch) -> bool) -> Result<bool, String> {
        let deadline = Instant::now() + within;
        while !is_so(self.watch) {
            if Instant::now() > deadline {
                return Ok(false);
            }
            self.step()?;
        }
        Ok(true)
    }

    /// Waits until these nodes are in one view of just them.
    ///
    /// # Errors
    /// That they do not come together.
    pub fn together(&mut self, nodes: &[usize]) -> Result<(), String> {
        match self.until(TOGETHER, |watch| watch.is_one_view(nodes))? {
            true => Ok(()),
            false => Err(format!("the daemons are not in one view within {TOGETHER:?}")),
        }
    }

    /// What came of it, as these nodes saw it; so many views the fault accounts for.
    pub fn figures(&mut self, nodes: &[usize], needed: usize) -> Figures {
        self.sample();
        let views = nodes.iter().map(|node| self.watch.views(*node).len()).max().unwrap_or(0);
        let pause = nodes.iter().map(|node| self.watch.pause(*node)).max().unwrap_or_default();
        let losses = nodes.iter().map(|node| self.losses(*node).saturating_sub(self.losses[*node])).max().unwrap_or(0);
        let (before, after, most) = self.memory.summary().unwrap_or_default();
        let memory = [before, after, most];
        let last = nodes.iter().filter_map(|node| self.watch.views(*node).pop()).max_by_key(|seen| seen.at);
        let notes = last.filter(|_| views > needed).map(|seen| format!("the last view: {}", seen.cause));
        let notes = notes.into_iter().collect();
        Figures { views, needed, pause, losses, memory, budget: AT_REST, notes, missed: Vec::new() }
    }

    fn step(&mut self) -> Result<(), String> {
        if self.site.is_stopped() {
            return Err("interrupted".into());
        }
        self.fleet.watch().map_err(text)?;
        if self.sampled.elapsed() > SAMPLE {
            self.sample();
        }
        std::thread::sleep(STEP);
        Ok(())
    }

    /// Notes what each daemon has, and what the largest.
    fn sample(&mut self) {
        self.sampled = Instant::now();
        let all: Vec<_> = (0..self.nodes).map(|node| resident(self.fleet.id(node)?)).collect();
        all.iter().flatten().max().into_iter().for_each(|bytes| self.memory.push(*bytes));
        self.each.iter_mut().zip(all).for_each(|(course, bytes)| bytes.into_iter().for_each(|n| course.push(n)));
    }

    /// What each daemon had resident: before, after, most.
    pub fn memory(&self) -> Vec<[u64; 3]> {
        self.each.iter().map(|course| course.summary().unwrap_or_default().into()).collect()
    }

    /// The settings of all daemons.
    ///
    /// # Errors
    /// A mistake in this file.
    pub fn settings(&self) -> Result<Settings, String> {
        consort_daemon::config::read(&self.fleet.config(0)).map_err(|failure| failure.message)
    }

    /// How many tokens a daemon says it has lost; 0 where none answers.
    fn losses(&self, node: usize) -> u64 {
        self.counter(node, "token_losses")
    }

    /// What a daemon says of this counter; 0 where none answers, or it has none of that name.
    pub fn counter(&self, node: usize, name: &str) -> u64 {
        let told = self.fleet.id(node).and_then(|_| self.fleet.status(node).ok()).unwrap_or_default();
        told.counter(name).unwrap_or(0)
    }
}

/// The addresses of all but the first, for the one namespace that all live in.
fn addresses(nodes: usize) -> String {
    (1..nodes).map(|node| format!("address add {}/24 dev {INTERFACE}\n", Network::address(node))).collect()
}

/// The file of all nodes.
pub fn config(nodes: usize, protocol: &str, settings: &str) -> String {
    let ([a, b, c, d], port) = GROUP;
    let head = format!("cluster = \"{CLUSTER}\"\nprotocol = \"{protocol}\"\nmulticast = \"{a}.{b}.{c}.{d}:{port}\"\n");
    let head = head
        + "clients = { slow_allowed = [\"disconnect\", \"spool\", \"block\", \"demote\"], block_for = \"6h\" }\n"
        + settings;
    let node = |node| format!("\n[[node]]\nid = {}\naddress = \"{}:{PORT}\"\n", node + 1, Network::address(node));
    (0..nodes).map(node).fold(head, |file, node| file + &node)
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_daemons_find_each_other_by_one_file() {
        let file = config(2, "ring", "idling = \"frugal\"\n");
        assert!(
            file.starts_with("cluster = \"chaos\"\nprotocol = \"ring\"\nmulticast = \"239.192.77.7:4843\"\n"),
            "{file}"
        );
        assert!(file.contains("\nidling = \"frugal\"\n\n[[node]]\nid = 1\n"), "{file}");
        assert!(file.ends_with("\n[[node]]\nid = 2\naddress = \"10.77.0.2:4841\"\n"), "{file}");
        assert_eq!(addresses(2), "address add 10.77.0.2/24 dev eth0\n");
    }
}
