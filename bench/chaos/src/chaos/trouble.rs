//! What can go wrong, and what that makes of the links.
use std::collections::BTreeMap;
use std::fmt;

use consort_sim::fault::{Disk, Fault, FaultScope};
use consort_sim::link::LinkModel;
use consort_sim::network::{SimSocket, worsened};
use consort_types::NodeId;

/// The bytes that may wait for a low rate.
const QUEUE: usize = 64 << 10;

/// Something that goes wrong with links or with a daemon. Nodes are named as in the cluster's configuration, from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Frames get lost, whatever they carry.
    Loss {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Links carry only so much.
    Rate {
        /// Which.
        scope: FaultScope,
        /// How many bits per second.
        bits: u64,
    },
    /// What the simulator does to links, too, with all lanes alike.
    Link(Fault),
    /// A daemon is killed with SIGKILL, and started again later.
    Kill {
        /// Which.
        node: NodeId,
        /// What becomes of its state directory.
        disk: Disk,
    },
    /// A daemon is asked to end with SIGTERM, and started again later.
    Leave {
        /// Which.
        node: NodeId,
    },
    /// A daemon is stopped with SIGSTOP, and goes on later.
    Pause {
        /// Which.
        node: NodeId,
    },
    /// The disk of a daemon's state is full: it ends as soon as it must write, and is started again when there is room.
    Full {
        /// Which.
        node: NodeId,
    },
    /// All daemons are stopped at once, as on a host that is itself stopped, and go on later.
    PauseAll,
    /// All daemons are killed with SIGKILL at once, and started again later with their state.
    KillAll,
}

impl Trouble {
    /// Its name in the table of faults.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::Rate { .. } => "rate",
            Self::Link(fault) => link_kind(fault),
            Self::Kill { disk: Disk::Kept, .. } => "kill -9",
            Self::Kill { .. } => "kill -9, state lost",
            Self::Leave { .. } => "leave",
            Self::Pause { .. } => "pause",
            Self::Full { .. } => "full disk",
            Self::PauseAll => "pause of all",
            Self::KillAll => "kill -9 of all",
        }
    }

    /// Whether it is about links.
    pub const fn is_of_links(&self) -> bool {
        matches!(self, Self::Loss { .. } | Self::Rate { .. } | Self::Link(_))
    }
}

const fn link_kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Duplicate { .. } => "duplication",
        Fault::Echo { .. } => "echo",
        Fault::Reorder { .. } => "reordering",
        Fault::Corrupt { .. } => "corruption",
        Fault::Delay { .. } => "delay",
        Fault::Partition { .. } => "partition",
        Fault::Cut { .. } => "one-way cut",
        Fault::Apart { .. } => "non-transitive cut",
        _ => "other",
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss { scope, p } => write!(f, "{:.1} % lost {scope}", p * 100.0),
            Self::Rate { scope, bits } => write!(f, "{:.1} Mbit/s {scope}", *bits as f64 / 1e6),
            Self::Link(fault) => fault.fmt(f),
            Self::Kill { node, disk } => write!(f, "{node} is killed, {disk}"),
            Self::Leave { node } => write!(f, "{node} is asked to leave"),
            Self::Pause { node } => write!(f, "{node} is stopped"),
            Self::Full { node } => write!(f, "{node} has a full disk"),
            Self::PauseAll => write!(f, "all are stopped"),
            Self::KillAll => write!(f, "all are killed"),
        }
    }
}

/// What is wrong with the links now: in which network, or in all.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    active: Vec<(Option<usize>, Trouble)>,
}

impl Weather {
    /// One more thing is wrong.
    pub fn begin(&mut self, network: Option<usize>, trouble: Trouble) {
        self.active.push((network, trouble));
    }

    /// One of those that are wrong is over.
    pub fn end(&mut self, network: Option<usize>, trouble: Trouble) {
        if let Some(at) = self.active.iter().position(|active| *active == (network, trouble)) {
            self.active.remove(at);
        }
    }

    /// Nothing is wrong any more.
    pub fn clear(&mut self) {
        self.active.clear();
    }

    /// How each ordered pair of the nodes of a network fares, all counted from 0.
    pub fn links(&self, network: usize, nodes: &[usize]) -> BTreeMap<(usize, usize), LinkModel> {
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
        let named = |node: usize| NodeId(node as u16 + 1);
        pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| ((from, to), self.link(network, named(from), named(to))))
            .collect()
    }

    fn link(&self, network: usize, from: NodeId, to: NodeId) -> LinkModel {
        let here =
            || self.active.iter().filter(|(of, _)| of.is_none_or(|of| of == network)).map(|(_, trouble)| trouble);
        let faults: Vec<_> = here().filter_map(as_fault).collect();
        let mut model = worsened(LinkModel::default(), &faults, from, to, SimSocket::Data);
        model.rate = here().filter_map(|trouble| rate(trouble, from, to)).min();
        if model.rate.is_some() {
            model.queue = QUEUE;
        }
        model
    }
}

/// As the simulator has it, for its sockets for data; here there is one link for all lanes.
const fn as_fault(trouble: &Trouble) -> Option<Fault> {
    match *trouble {
        Trouble::Loss { scope, p } => Some(Fault::DataLoss { scope, p }),
        Trouble::Link(fault) => Some(fault),
        _ => None,
    }
}

fn rate(trouble: &Trouble, from: NodeId, to: NodeId) -> Option<u64> {
    let Trouble::Rate { scope, bits } = *trouble else { return None };
    let touches = match scope {
        FaultScope::All => true,
        FaultScope::From(node) => node == from,
        FaultScope::To(node) => node == to,
        FaultScope::Between(a, b) => (a, b) == (from, to),
    };
    touches.then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::fault::{Lanes, NodeSet};

    const ALL: FaultScope = FaultScope::All;

    #[test]
    fn what_is_wrong_at_once_adds_up_and_ends_one_by_one() {
        let mut weather = Weather::default();
        let loss = Trouble::Loss { scope: ALL, p: 0.5 };
        let cut = Trouble::Link(Fault::Cut { scope: FaultScope::Between(NodeId(1), NodeId(3)), lanes: Lanes::Both });
        [loss, loss, cut].into_iter().for_each(|trouble| weather.begin(None, trouble));
        let links = weather.links(0, &[0, 1, 2]);
        assert_eq!((links.len(), links[&(0, 1)].loss, links[&(0, 2)].cut, links[&(2, 0)].cut), (6, 0.75, true, false));
        weather.end(None, loss);
        weather.end(None, cut);
        let links = weather.links(0, &[0, 1, 2]);
        assert_eq!((links[&(0, 2)].loss, links[&(0, 2)].cut), (0.5, false));
        weather.clear();
        assert!(weather.links(0, &[0, 1, 2]).values().all(|model| *model == LinkModel::default()));
    }

    #[test]
    fn the_lowest_rate_counts_and_its_queue_is_bounded() {
        let mut weather = Weather::default();
        weather.begin(None, Trouble::Rate { scope: ALL, bits: 9 });
        weather.begin(None, Trouble::Rate { scope: FaultScope::From(NodeId(2)), bits: 5 });
        let links = weather.links(0, &[0, 1]);
        let rates = [(0, 1), (1, 0)].map(|pair| (links[&pair].rate, links[&pair].queue));
        assert_eq!(rates, [(Some(9), QUEUE), (Some(5), QUEUE)]);
    }

    #[test]
    fn parts_and_pairs_are_named_as_in_the_configuration() {
        let mut weather = Weather::default();
        weather.begin(None, Trouble::Link(Fault::Partition { part: NodeSet(0b0110) }));
        let cut: Vec<_> =
            weather.links(0, &[0, 1, 2]).into_iter().filter(|(_, model)| model.cut).map(|(pair, _)| pair).collect();
        assert_eq!(cut, [(0, 2), (1, 2), (2, 0), (2, 1)], "1 and 2 on one side, 3 on the other");
        let apart = Trouble::Link(Fault::Apart { a: NodeId(1), b: NodeId(2) });
        assert_eq!(
            (apart.kind(), apart.to_string()),
            ("non-transitive cut", "n1 and n2 do not hear each other".into())
        );
    }

    #[test]
    fn what_is_wrong_in_one_network_leaves_the_others_alone() {
        let mut weather = Weather::default();
        weather.begin(Some(1), Trouble::Loss { scope: ALL, p: 0.5 });
        weather.begin(None, Trouble::Rate { scope: ALL, bits: 9 });
        let links = |network| weather.links(network, &[2, 4]);
        assert_eq!(links(1).keys().copied().collect::<Vec<_>>(), [(2, 4), (4, 2)]);
        assert_eq!((links(0)[&(2, 4)].loss, links(1)[&(2, 4)].loss), (0.0, 0.5));
        assert_eq!((links(0)[&(2, 4)].rate, links(1)[&(2, 4)].rate), (Some(9), Some(9)));
        weather.end(Some(1), Trouble::Loss { scope: ALL, p: 0.5 });
        assert_eq!(weather.links(1, &[2, 4])[&(2, 4)].loss, 0.0);
    }
}
