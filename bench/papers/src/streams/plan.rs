//! What rings run on, what processes take part in them, and what these are given to do.
use consort_multiring_paxos::{Config, Ring, RingId};
use consort_types::{Duration, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// How much of its log each ring retains at each process: more than anybody ever lags behind.
const RETAIN: usize = 16 << 20;

/// What interfaces carry, and what packets and messages cost a process. It has a core for each ring that it takes part in, and one
/// that hands messages out.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// What every interface carries of the streams' bytes, in bits per second.
    pub rate: u64,
    /// To take a packet from a stream, or to put one into it.
    pub packet: Duration,
    /// Each byte of it, on either side, in picoseconds.
    pub picos_per_byte: u64,
    /// To hand out a message.
    pub message: Duration,
    /// How many bytes the streams of a ring hold that a process has written and nobody has read. It reads on in that ring once
    /// they are fewer.
    pub unread: usize,
    /// How far reading is ahead of handing out at most: then it waits.
    pub ahead: Duration,
}

impl Site {
    /// What a packet of so many bytes costs on one side.
    pub const fn cost(&self, len: usize) -> Duration {
        Duration::from_nanos(self.packet.as_nanos() as u64 + len as u64 * self.picos_per_byte / 1_000)
    }
}

/// A process, with an engine.
#[derive(Clone, Debug)]
pub struct Process {
    /// The server that it runs on: processes of one server share its interface.
    pub server: usize,
    /// The rings that it reads; its views are those of the first.
    pub rings: Vec<u8>,
    /// What its clients send, and to which ring.
    pub load: Load,
}

impl Process {
    /// One without clients.
    pub const fn quiet(server: usize, rings: Vec<u8>) -> Self {
        Self { server, rings, load: Load::None }
    }
}

/// What the clients of a process send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    None,
    /// So many clients send to this ring. Each sends its next message once its last one is handed out at its process.
    Clients(usize, u8),
    /// Somebody sends to this ring at this interval, whatever becomes of it.
    Every(Duration, u8),
}

impl Load {
    /// The ring that it goes to.
    pub const fn ring(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Clients(_, ring) | Self::Every(_, ring) => ring,
        }
    }
}

/// All of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it runs on.
    pub site: Site,
    /// From one server to another.
    pub delay: fn(usize, usize) -> Duration,
    /// The processes; the nodes of their engines are numbered alike.
    pub processes: Vec<Process>,
    /// The processes that vote in each ring.
    pub acceptors: BTreeMap<u8, Vec<usize>>,
    /// How large messages are, in bytes: eight at least.
    pub len: usize,
    /// Other settings than the engine's own.
    pub adjust: fn(&mut Config),
}

impl Plan {
    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.processes.iter().map(|process| process.server + 1).max().unwrap_or(0)
    }

    /// The processes that take part in a ring.
    pub fn readers(&self, ring: u8) -> impl Iterator<Item = usize> {
        let processes = self.processes.iter().enumerate();
        processes.filter(move |(_, process)| process.rings.contains(&ring)).map(|(at, _)| at)
    }

    /// The settings of a process. Daemons all read all rings; here each has those that it needs, and the others of them.
    pub fn config(&self, me: usize) -> Config {
        let own = &self.processes[me].rings;
        let members: BTreeSet<_> = own.iter().flat_map(|ring| self.readers(*ring)).map(node).collect();
        let voters = |ring: &u8| self.acceptors.get(ring).into_iter().flatten().copied().map(node).collect();
        let rings = own.iter().map(|ring| Ring { id: RingId(*ring), acceptors: voters(ring) }).collect();
        let mut config = Config::new(node(me), members.into_iter().collect(), rings);
        config.paxos.retain = RETAIN;
        (self.adjust)(&mut config);
        config
    }
}

/// The node of a process.
pub const fn node(process: usize) -> NodeId {
    NodeId(process as u16 + 1)
}

/// The process of a node.
pub const fn process(node: NodeId) -> usize {
    node.0 as usize - 1
}
