//! A network of this machine: nodes in namespaces of their own, each with a TAP device, and between them a switch in this
//! process that runs the simulator's own link model in real time. Kernels often lack netem; and so there is one model of a
//! bad network, in both worlds. Nodes may also stand in several networks, each with a switch of its own.
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
use port::{INTERFACE, Port, interface};
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

/// Nodes `0..n`, each in a network namespace with an interface to each network in which it stands, and a switch for each
/// network. Nothing else is reachable from inside. Dropping it ends every process in it and removes all.
#[derive(Debug)]
pub struct Network {
    // The switches go first: they hold the interfaces.
    segments: Vec<Segment>,
    namespaces: Vec<Namespace>,
    mtu: usize,
}

/// One network of a [`Network`].
#[derive(Debug)]
struct Segment {
    switch: Switch,
    /// The nodes that stand in it, by their ports.
    nodes: Vec<usize>,
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
        Self::several(plan, &[(0..plan.nodes).collect()])
    }

    /// Builds several networks with perfect links; each has these of the nodes. There are no ways between them but through
    /// nodes that stand in two.
    ///
    /// # Errors
    /// As [`Network::build`].
    pub fn several(plan: &Plan, networks: &[Vec<usize>]) -> Result<Self, NetworkError> {
        static SERIAL: AtomicUsize = AtomicUsize::new(0);
        requirements()?;
        remove_stale();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let namespaces = (1..=plan.nodes).map(|node| Namespace::create(serial, node)).collect::<Result<Vec<_>, _>>()?;
        for namespace in &namespaces {
            namespace.enter(without_ipv6)?.map_err(failed("switch off IPv6"))?;
        }
        let segments = networks.iter().enumerate();
        let segments = segments.map(|(number, nodes)| Segment::build(plan, &namespaces, number, nodes));
        Ok(Self { segments: segments.collect::<Result<_, _>>()?, namespaces, mtu: plan.mtu })
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.namespaces.len()
    }

    /// The address of a node, which must be below 254, in the first network.
    pub fn address(node: usize) -> Ipv4Addr {
        Self::address_in(0, node)
    }

    /// The address of a node in one of several networks, both below 254.
    pub fn address_in(network: usize, node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, network as u8, node as u8 + 1)
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

    /// How frames fare on the way from one node to another, in each network in which both stand.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set(&self, from: usize, to: usize, model: &LinkModel) -> Result<(), Ended> {
        (0..self.segments.len()).try_for_each(|network| self.set_in(network, from, to, model))
    }

    /// The same in one network. Nothing happens where one of them does not stand there.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set_in(&self, network: usize, from: usize, to: usize, model: &LinkModel) -> Result<(), Ended> {
        let Some(segment) = self.segments.get(network) else { return Ok(()) };
        match (segment.port(from), segment.port(to)) {
            (Some(from), Some(to)) => segment.switch.set(from, to, model.clone()),
            _ => Ok(()),
        }
    }

    /// How frames fare on every way.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set_all(&self, model: &LinkModel) -> Result<(), Ended> {
        let pairs = (0..self.nodes()).flat_map(|from| (0..self.nodes()).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).try_for_each(|(from, to)| self.set(from, to, model))
    }

    /// Whether switches forward multicast to a node.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn forward_multicast(&self, to: usize, forwards: bool) -> Result<(), Ended> {
        let ports = self.segments.iter().filter_map(|segment| Some((&segment.switch, segment.port(to)?)));
        ports.into_iter().try_for_each(|(switch, port)| switch.forward_multicast(port, forwards))
    }

    /// A node's interfaces vanish, as where a virtual machine's or a container's are taken away.
    ///
    /// # Errors
    /// That a switch has ended.
    pub fn unplug(&self, node: usize) -> Result<(), NetworkError> {
        let ports = self.segments.iter().filter_map(|segment| Some((&segment.switch, segment.port(node)?)));
        ports.into_iter().try_for_each(|(switch, port)| switch.plug(port, None)).map_err(switch_ended)
    }

    /// They are made again, with the same names and addresses.
    ///
    /// # Errors
    /// The system's.
    pub fn plug(&self, node: usize) -> Result<(), NetworkError> {
        for (number, segment) in self.segments.iter().enumerate() {
            let Some(at) = segment.port(node) else { continue };
            let port = Port::open(&self.namespaces[node], number)?;
            self.namespaces[node].configure(&batch(number, node, self.mtu))?;
            segment.switch.plug(at, Some(port)).map_err(switch_ended)?;
        }
        Ok(())
    }

    /// Nothing passes between these nodes and all others; within either side every link is perfect. Without a node here all
    /// links are perfect again.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn split(&self, part: &[usize]) -> Result<(), Ended> {
        let pairs = (0..self.nodes()).flat_map(|from| (0..self.nodes()).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).try_for_each(|(from, to)| {
            let cut = part.contains(&from) != part.contains(&to);
            self.set(from, to, &LinkModel { cut, ..LinkModel::default() })
        })
    }

    /// What the switch of the first network did.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn report(&self) -> Result<Report, Ended> {
        self.segments.first().ok_or(Ended)?.switch.report()
    }

    /// Frames that a node's kernel dropped before the switch could read them. Expected to be 0: these losses are not the
    /// model's.
    pub fn dropped_before(&self, node: usize) -> Result<u64, NetworkError> {
        let table = self.namespaces[node].enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        Ok(transmit_drops(&table.map_err(failed("read the interface's counters"))?))
    }
}

impl Segment {
    fn build(plan: &Plan, namespaces: &[Namespace], number: usize, nodes: &[usize]) -> Result<Self, NetworkError> {
        let ports = nodes.iter().map(|node| Port::open(&namespaces[*node], number));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        for node in nodes {
            namespaces[*node].configure(&batch(number, *node, plan.mtu))?;
        }
        let switch = Switch::start(ports, plan.seed.wrapping_add(number as u64), plan.ethernet.as_ref())?;
        Ok(Self { switch, nodes: nodes.to_vec() })
    }

    fn port(&self, node: usize) -> Option<usize> {
        self.nodes.iter().position(|other| *other == node)
    }
}

fn switch_ended(ended: Ended) -> NetworkError {
    NetworkError::System { what: "use a switch".into(), source: io::Error::other(ended) }
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
fn batch(network: usize, node: usize, mtu: usize) -> String {
    let (address, last, interface) = (Network::address_in(network, node), node + 1, interface(network));
    format!(
        "link set lo up\n\
         link set {interface} address 02:00:0a:4d:{network:02x}:{last:02x}\n\
         link set {interface} mtu {mtu} txqueuelen {TRANSMIT_QUEUE}\n\
         link set {interface} up\n\
         address add {address}/24 dev {interface}\n\
         route add 224.0.0.0/4 dev {interface} metric {last_resort}\n",
        last_resort = network + 1
    )
}

/// The drops in the transmit half of our interface's line of `/proc/net/dev`: 8 columns of receive, then bytes, packets,
/// errors, drops.
fn transmit_drops(table: &str) -> u64 {
    let ours = table.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE)?.strip_prefix(':'));
    ours.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
}
