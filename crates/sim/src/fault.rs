//! What goes wrong, where, and for how long.
use consort_types::{Duration, Instant, NodeId, OrderStream};
use std::fmt;
use std::str::FromStr;

mod draw;
mod show;

pub use draw::{advice, draw};

/// Which links a fault touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultScope {
    /// All.
    All,
    /// Those that leave a node.
    From(NodeId),
    /// Those that lead to a node.
    To(NodeId),
    /// One direction between two nodes.
    Between(NodeId, NodeId),
}

impl FaultScope {
    /// Whether it touches what one node sends to another.
    pub fn holds(self, from: NodeId, to: NodeId) -> bool {
        match self {
            Self::All => true,
            Self::From(node) => from == node,
            Self::To(node) => to == node,
            Self::Between(a, b) => (from, to) == (a, b),
        }
    }
}

/// A set of nodes, a bit for each of the first 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// Whether a node is in it.
    pub const fn contains(self, node: NodeId) -> bool {
        node.0 < 64 && self.0 >> node.0 & 1 == 1
    }

    /// The set with a node more.
    pub(crate) fn with(self, node: NodeId) -> Self {
        Self(self.0 | 1_u64.checked_shl(u32::from(node.0)).unwrap_or(0))
    }

    /// Which nodes are in it.
    pub(crate) fn nodes(self) -> impl Iterator<Item = NodeId> {
        (0..64).map(NodeId).filter(move |node| self.contains(*node))
    }
}

/// Which datagrams a cut stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All.
    Both,
    /// Those to token sockets.
    Token,
    /// Those to data sockets.
    Data,
    /// Those for one node alone, whatever its socket: a wrong entry in the sender's address table.
    Unicast,
}

/// Whom a crash strikes whose victim is known only when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashTarget {
    /// The lowest member of the view that this node is in: of a ring its representative.
    Lowest(NodeId),
    /// The next that the lowest member of a view sends something to alone, out of turn: of a ring who is granted the token.
    Granted,
}

/// What a registry says, right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// This node should lead, or whoever the engine chooses.
    Leads(Option<NodeId>),
    /// Nodes should pass things on in the order of their numbers, backwards from this one.
    BackFrom(NodeId),
}

/// What a crash leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// All that was written.
    Kept,
    /// Nothing.
    Lost,
    /// What a backup made a while ago holds.
    Old,
}

/// Something wrong with links or with a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Datagrams to the data sockets get lost.
    DataLoss {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams to the token sockets get lost.
    TokenLoss {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams arrive twice.
    Duplicate {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams come once more, much later.
    Echo {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams are overtaken.
    Reorder {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams arrive with a flipped bit.
    Corrupt {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Datagrams come seconds late, and only then.
    Stray {
        /// Where.
        scope: FaultScope,
        /// How probably.
        p: f64,
    },
    /// Packets of one kind get lost, by the first byte behind the envelope.
    KindLoss {
        /// Where.
        scope: FaultScope,
        /// That byte.
        kind: u8,
        /// How probably.
        p: f64,
    },
    /// Datagrams take longer.
    Delay {
        /// Where.
        scope: FaultScope,
        /// How much longer all of them.
        delay: Duration,
        /// How much longer still at most.
        jitter: Duration,
    },
    /// A host computes more slowly.
    Slow {
        /// Which.
        node: NodeId,
        /// How many times.
        factor: u32,
    },
    /// A host's sockets hold less.
    Buffers {
        /// Which.
        node: NodeId,
        /// How many bytes each.
        bytes: usize,
    },
    /// A host starts later than the others.
    Late {
        /// Which.
        node: NodeId,
    },
    /// A host crashes, and starts again when the fault ends.
    Crash {
        /// Which.
        node: NodeId,
        /// What it finds again.
        disk: Disk,
        /// How many of the things that its node asks for next are still done.
        after: u8,
        /// It does not start again.
        stays: bool,
    },
    /// A node is asked to leave, and starts again when the fault ends.
    Leave {
        /// Which.
        node: NodeId,
        /// It does not start again.
        stays: bool,
    },
    /// A host does nothing at all.
    Pause {
        /// Which.
        node: NodeId,
    },
    /// The processes of some hosts get no processor.
    Stall {
        /// Which.
        part: NodeSet,
    },
    /// A node crashes that is chosen when the fault begins, and starts again when it ends.
    Aimed {
        /// Whom it strikes.
        target: CrashTarget,
        /// What it finds again.
        disk: Disk,
        /// How many of the things that its node asks for next are still done.
        after: u8,
    },
    /// A host's disk takes no record: a node that wants to write one ends, and starts again when the fault ends.
    BadDisk {
        /// Which.
        node: NodeId,
    },
    /// A host's clock is set when the fault begins. Only a restart looks at it.
    Clock {
        /// Which.
        node: NodeId,
        /// By how many microseconds.
        by_us: i64,
    },
    /// A host's disk takes longer.
    Disk {
        /// Which.
        node: NodeId,
        /// How much longer.
        delay: Duration,
    },
    /// Two parts of the network do not hear each other.
    Partition {
        /// One of them.
        part: NodeSet,
    },
    /// Nothing passes these links, in this direction.
    Cut {
        /// Where.
        scope: FaultScope,
        /// What is stopped.
        lanes: Lanes,
    },
    /// Two nodes do not hear each other, though all others hear both.
    Apart {
        /// One.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// A registry advises something: to some, who may have heard something else before.
    Advice {
        /// Whom.
        part: NodeSet,
        /// Which order it is about.
        stream: OrderStream,
        /// What.
        said: Said,
    },
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// When it begins.
    pub from: Instant,
    /// When it ends.
    pub until: Instant,
    /// What it is.
    pub fault: Fault,
}

macro_rules! kinds {
    ($($kind:ident $name:literal $what:literal),* $(,)?) => {
        /// The kinds of faults, by the names that `--faults` takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $(#[doc = $what] $kind),* }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            /// What goes wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$kind => $what),* }
            }
        }
    };
}

kinds!(
    DataLoss "data-loss" "up to 30 % of the datagrams to data sockets are lost",
    TokenLoss "token-loss" "up to 30 % of the datagrams to token sockets are lost",
    Duplicate "duplicate" "up to 30 % of the datagrams arrive twice",
    Echo "echo" "up to 10 % of the datagrams come once more, up to 2 s later",
    Reorder "reorder" "up to 30 % of the datagrams are overtaken by later ones",
    Corrupt "corrupt" "up to 5 % of the datagrams have a bit flipped",
    Delay "delay" "datagrams take up to 20 ms longer, with as much jitter",
    Slow "slow" "a host computes up to 20 times more slowly",
    Buffers "buffers" "a host's sockets hold a few datagrams only",
    Late "late" "a host starts up to 2 s after the others",
    Crash "crash" "a node crashes and mostly starts again, with its disk or a new one",
    Leave "leave" "a node leaves in good order and mostly starts again",
    Pause "pause" "a host does nothing for up to 100 ms, or for up to 2 s",
    Clock "clock" "the clock of a host is set, so that a restart finds an earlier or later time",
    Disk "disk" "a disk takes up to 2 s for a record",
    Partition "partition" "the network falls in two parts",
    OneWay "one-way" "some links pass nothing in one direction: no tokens, no data, or neither",
    Apart "apart" "two nodes do not hear each other, though all others hear both",
    Unicast "unicast" "what one node sends to another alone is lost, what it sends to all arrives",
    KindLoss "kind-loss" "packets of one kind are lost, all of them or some",
    Stray "stray" "up to 2 % of the datagrams come up to 8 s late, and only then",
    Stall "stall" "the processes of one host, of some or of all get no processor: mostly for milliseconds, for up to 2 s",
    Aimed "aimed" "the representative crashes, or who was granted the token",
    OldDisk "old-disk" "a node that crashed finds its disk as it was a while ago",
    BadDisk "bad-disk" "a disk takes no record for a while, which ends a node that wants to write one",
    Drift "drift" "the clocks of hosts run at rates that differ by up to 5 %",
    Advice "advice" "a registry advises nodes who should lead, and in which order they stand, right or wrong",
);

impl Kind {
    /// Whether it is there to change who is with whom.
    pub const fn is_of_membership(self) -> bool {
        !matches!(
            self,
            Self::DataLoss
                | Self::TokenLoss
                | Self::Duplicate
                | Self::Echo
                | Self::Reorder
                | Self::Corrupt
                | Self::Delay
                | Self::Slow
                | Self::Buffers
                | Self::Late
                | Self::Disk
                | Self::Drift
        )
    }
}

/// Which kinds of faults may happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// Every kind.
    pub fn all() -> Self {
        Self(Kind::ALL.to_vec())
    }

    /// Those that leave alone who is with whom.
    pub fn steady() -> Self {
        Self(Kind::ALL.iter().copied().filter(|kind| !kind.is_of_membership()).collect())
    }

    /// None: the network and the hosts stay whole.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Those that neither move nor delay anybody: no working protocol changes its membership because of them.
    pub fn gentle() -> Self {
        use Kind::{Corrupt, DataLoss, Duplicate, Echo, Reorder, TokenLoss};
        Self(vec![DataLoss, TokenLoss, Duplicate, Echo, Reorder, Corrupt])
    }

    /// Whether one of them may happen.
    pub fn contains(&self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }

    /// Without one of them.
    fn without(&self, kind: Kind) -> Self {
        Self(self.0.iter().copied().filter(|other| *other != kind).collect())
    }

    /// Those of these that are also among others.
    fn among(&self, others: &[Kind]) -> Vec<Kind> {
        self.0.iter().copied().filter(|kind| others.contains(kind)).collect()
    }

    /// Whether nothing may go wrong.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        if *self == Self::all() {
            return f.write_str("all");
        }
        if *self == Self::steady() {
            return f.write_str("steady");
        }
        let names: Vec<_> = self.0.iter().map(|kind| kind.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::all()),
            "steady" => return Ok(Self::steady()),
            "none" => return Ok(Self::none()),
            _ => {}
        }
        let find = |name: &str| {
            if name == "all" {
                return Ok(Self::all().0);
            }
            let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name).map(|kind| vec![kind]);
            let known = || Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            kind.ok_or_else(|| {
                format!("unknown fault `{name}`; use all, steady, none, or some of {}, with commas", known())
            })
        };
        let mut kinds = text.split(',').map(find).collect::<Result<Vec<_>, _>>()?.concat();
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Self(kinds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    const CALM: Instant = Instant(7_000_000_000);

    #[test]
    fn names_are_read_and_written_and_an_unknown_one_lists_the_known() {
        assert_eq!("all".parse::<Kinds>().unwrap().to_string(), "all");
        assert_eq!("none".parse::<Kinds>().unwrap().to_string(), "none");
        assert_eq!("slow,data-loss,slow".parse::<Kinds>().unwrap().to_string(), "data-loss,slow");
        assert_eq!("all,drift".parse(), Ok(Kinds::all()), "which is among all already");
        let error = "data-loss,fire".parse::<Kinds>().unwrap_err();
        assert!(error.contains("`fire`") && error.contains("token-loss"), "{error}");
    }

    #[test]
    fn all_means_more_than_one_fault_a_second_and_none_means_none() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let faults = draw(&Kinds::all(), 5, 1440, CALM, &mut rng);
            assert!(faults.iter().all(|fault| fault.from <= fault.until && fault.until <= CALM));
            assert!(faults.windows(2).all(|pair| pair[0].from <= pair[1].from));
        }
        let faults: Vec<_> = (0..200).flat_map(|_| draw(&Kinds::all(), 5, 1440, CALM, &mut rng)).collect();
        let some = |is: fn(&Fault) -> bool| assert!(faults.iter().any(|activation| is(&activation.fault)));
        some(|fault| matches!(fault, Fault::Crash { disk: Disk::Lost, stays: false, .. }));
        some(|fault| matches!(fault, Fault::Leave { .. }));
        some(|fault| matches!(fault, Fault::Cut { lanes: Lanes::Token, .. }));
        some(|fault| matches!(fault, Fault::Cut { lanes: Lanes::Unicast, .. }));
        some(|fault| matches!(fault, Fault::Partition { .. }));
        some(|fault| matches!(fault, Fault::Stall { part: NodeSet(u64::MAX) }));
        some(|fault| matches!(fault, Fault::Aimed { target: CrashTarget::Granted, .. }));
        some(|fault| matches!(fault, Fault::Crash { disk: Disk::Old, .. }));
        some(|fault| matches!(fault, Fault::KindLoss { p: 1.0, .. }));
        some(|fault| matches!(fault, Fault::Stray { .. } | Fault::BadDisk { .. }));
        let total: usize = (0..200).map(|_| draw(&Kinds::all(), 5, 1440, CALM, &mut rng).len()).sum();
        assert!(total > 200 * 10, "{total}");
        assert!(draw(&Kinds::none(), 5, 1440, CALM, &mut rng).is_empty());
    }
}
