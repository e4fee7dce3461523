//! A network of this machine: nodes in namespaces of their own, each with a TAP device, and between them a switch in this
//! process that runs the simulator's own link model in real time. Kernels often lack netem; and so there is one model of a
//! bad network, in both worlds.
//!
//! ```text
//! fabric      what a switch does with a frame, without sockets and clock        ethernet
//! switch      the same in real time, one thread between TAP devices     port  namespace  frame
//! program     the daemon that runs at a node                            process  memory
//! ```
pub mod ethernet;
mod fabric;
mod frame;
pub mod memory;
pub mod namespace;
pub mod port;
pub mod process;
pub mod program;
pub mod switch;
#[cfg(test)]
mod tests;

use std::io;
use std::net::Ipv4Addr;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use consort_sim::link::LinkModel;

use ethernet::Ethernet;
use namespace::{Namespace, NetworkError, failed, owner, remove_stale, requirements, stale};
use port::{INTERFACE, Port};
use switch::{Ended, Report, Switch};

/// How a network is built.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many nodes; 1 to 254.
    pub nodes: usize,
    /// Bytes of an IP packet that fit a frame; 576 to 65,521 (what a TAP device takes).
    pub mtu: usize,
    /// Where the links' chance comes from.
    pub seed: u64,
    /// What cables and ports are like; of no limit where there is none.
    pub ethernet: Option<Ethernet>,
}

/// Nodes `0..n`, each in a network namespace with one interface, and a switch between them. Nothing else is reachable
/// from inside. Dropping it ends every process in it and removes all.
#[derive(Debug)]
pub struct Network {
    // The switch goes first: it holds the interfaces.
    switch: Switch,
    namespaces: Vec<Namespace>,
}

/// Frames that may wait in an interface until the switch comes to read them; the default of 1000 is full in a moment
/// where the switch must share its core.
const TRANSMIT_QUEUE: usize = 10_000;

impl Network {
    /// Builds a network with perfect links. What a network left behind whose process was killed is removed first.
    ///
    /// # Errors
    /// [`NetworkError`] says what is missing or what the system refused; nothing stays behind.
    pub fn build(plan: &Plan) -> Result<Self, NetworkError> {
        static SERIAL: AtomicUsize = AtomicUsize::new(0);
        requirements()?;
        remove_stale();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let namespaces = (1..=plan.nodes).map(|node| Namespace::create(serial, node)).collect::<Result<Vec<_>, _>>()?;
        let ports = namespaces.iter().map(Port::open).collect::<Result<Vec<_>, _>>()?;
        for (node, namespace) in namespaces.iter().enumerate() {
            namespace.enter(without_ipv6)?.map_err(failed("switch off IPv6"))?;
            namespace.configure(&batch(node, plan.mtu))?;
        }
        Ok(Self { switch: Switch::start(ports, plan.seed, plan.ethernet.as_ref())?, namespaces })
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.namespaces.len()
    }

    /// The address of a node, which must be below 254.
    pub fn address(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, node as u8 + 1)
    }

    /// A node's namespace.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn namespace(&self, node: usize) -> &Namespace {
        &self.namespaces[node]
    }

    /// Starts a process at a node.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(&self, node: usize, command: &mut Command) -> Result<Child, NetworkError> {
        self.namespaces[node].spawn(command)
    }

    /// How frames fare on the way from one node to another.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set(&self, from: usize, to: usize, model: &LinkModel) -> Result<(), Ended> {
        self.switch.set(from, to, model.clone())
    }

    /// How frames fare on every way.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set_all(&self, model: &LinkModel) -> Result<(), Ended> {
        let pairs = (0..self.nodes()).flat_map(|from| (0..self.nodes()).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).try_for_each(|(from, to)| self.set(from, to, model))
    }

    /// What the switch did.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn report(&self) -> Result<Report, Ended> {
        self.switch.report()
    }

    /// Frames that a node's kernel dropped before the switch could read them. Expected to be 0: these losses are not the
    /// model's.
    pub fn dropped_before(&self, node: usize) -> Result<u64, NetworkError> {
        let table = self.namespaces[node].enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        Ok(transmit_drops(&table.map_err(failed("read the interface's counters"))?))
    }
}

/// A directory whose name begins so, and that vanishes with its value; those of processes that were killed go first, for
/// they may be large.
pub fn directory(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    for left_behind in stale(&std::env::temp_dir(), prefix) {
        std::fs::remove_dir_all(left_behind)?;
    }
    tempfile::Builder::new().prefix(&format!("{prefix}{}-", owner())).tempdir()
}

/// IPv6 would only add chatter (router solicitations, duplicate address detection) to the counters.
fn without_ipv6() -> io::Result<()> {
    let switch = std::path::Path::new("/proc/sys/net/ipv6/conf/all/disable_ipv6");
    if switch.exists() { std::fs::write(switch, "1") } else { Ok(()) }
}

/// The `ip` commands that make an interface usable: its address, and a route for all multicast groups.
fn batch(node: usize, mtu: usize) -> String {
    let (address, last) = (Network::address(node), node + 1);
    format!(
        "link set lo up\n\
         link set {INTERFACE} address 02:00:0a:4d:00:{last:02x}\n\
         link set {INTERFACE} mtu {mtu} txqueuelen {TRANSMIT_QUEUE}\n\
         link set {INTERFACE} up\n\
         address add {address}/24 dev {INTERFACE}\n\
         route add 224.0.0.0/4 dev {INTERFACE}\n"
    )
}

/// The drops in the transmit half of our interface's line of `/proc/net/dev`: 8 columns of receive, then bytes, packets,
/// errors, drops.
fn transmit_drops(table: &str) -> u64 {
    let ours = table.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE)?.strip_prefix(':'));
    ours.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
}
