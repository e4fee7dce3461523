//! What goes wrong, where, and for how long.
use consort_types::{Duration, Instant, NodeId, Rng};
use std::fmt;
use std::str::FromStr;

/// Which links a fault touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// Those that leave a node.
    From(NodeId),
    /// Those that lead to a node.
    To(NodeId),
    /// One direction between two nodes.
    Between(NodeId, NodeId),
}

/// Something wrong with links or with a host. What ends a process, stops it for a while, or parts the network will
/// stand here too; the world around needs no other change than to take the host down and up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Datagrams to the data sockets get lost.
    DataLoss {
        /// Where.
        scope: Scope,
        /// How probably.
        p: f64,
    },
    /// Datagrams to the token sockets get lost.
    TokenLoss {
        /// Where.
        scope: Scope,
        /// How probably.
        p: f64,
    },
    /// Datagrams arrive twice.
    Duplicate {
        /// Where.
        scope: Scope,
        /// How probably.
        p: f64,
    },
    /// Datagrams are overtaken.
    Reorder {
        /// Where.
        scope: Scope,
        /// How probably.
        p: f64,
    },
    /// Datagrams arrive with a flipped bit.
    Corrupt {
        /// Where.
        scope: Scope,
        /// How probably.
        p: f64,
    },
    /// Datagrams take longer.
    Delay {
        /// Where.
        scope: Scope,
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
}

impl Fault {
    /// Which links it touches; `None` for a fault of a host.
    pub const fn scope(&self) -> Option<Scope> {
        match *self {
            Self::DataLoss { scope, .. }
            | Self::TokenLoss { scope, .. }
            | Self::Duplicate { scope, .. }
            | Self::Reorder { scope, .. }
            | Self::Corrupt { scope, .. }
            | Self::Delay { scope, .. } => Some(scope),
            Self::Slow { .. } | Self::Buffers { .. } | Self::Late { .. } => None,
        }
    }
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
    Reorder "reorder" "up to 30 % of the datagrams are overtaken by later ones",
    Corrupt "corrupt" "up to 5 % of the datagrams have a bit flipped",
    Delay "delay" "datagrams take up to 20 ms longer, with as much jitter",
    Slow "slow" "a host computes up to 20 times more slowly",
    Buffers "buffers" "a host's sockets hold a few datagrams only",
    Late "late" "a host starts up to 2 s after the others",
);

/// Which kinds of faults may happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// Every kind.
    pub fn all() -> Self {
        Self(Kind::ALL.to_vec())
    }

    /// None: the network and the hosts stay whole.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether nothing may go wrong.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Some of them, by chance; at least one where there is one.
    fn some(&self, rng: &mut Rng) -> Vec<Kind> {
        let mut some: Vec<_> = self.0.iter().copied().filter(|_| rng.chance(0.5)).collect();
        if some.is_empty() && !self.is_empty() {
            some.push(self.0[rng.below(self.0.len() as u64) as usize]);
        }
        some
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        if self.0 == Kind::ALL {
            return f.write_str("all");
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
            "none" => return Ok(Self::none()),
            _ => {}
        }
        let find = |name: &str| {
            let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name);
            let known = || Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            kind.ok_or_else(|| format!("unknown fault `{name}`; use all, none, or some of {}, with commas", known()))
        };
        let mut kinds = text.split(',').map(find).collect::<Result<Vec<_>, _>>()?;
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Self(kinds))
    }
}

/// Draws the faults of a run of `nodes` nodes whose faults end at `calm`: some of the kinds, each activation with its
/// own place, strength and length, in the order in which they begin.
pub fn draw(kinds: &Kinds, nodes: u16, datagram: usize, calm: Instant, rng: &mut Rng) -> Vec<Activation> {
    let kinds = kinds.some(rng);
    let mut activations = Vec::new();
    if kinds.is_empty() {
        return activations;
    }
    let draw = Draw { nodes, datagram, calm };
    for node in 0..nodes {
        if kinds.contains(&Kind::Late) && rng.chance(0.3) {
            let until = Instant(rng.below(2_000_000_000)).min(calm);
            activations.push(Activation { from: Instant::ZERO, until, fault: Fault::Late { node: NodeId(node) } });
        }
    }
    for kind in &kinds {
        if rng.chance(0.3) {
            activations.extend(draw.lasting(*kind, rng));
        }
    }
    let mean = [0.15e9, 0.4e9, 0.8e9][rng.below(3) as usize];
    let mut at = Instant::ZERO;
    while at < calm {
        let kind = kinds[rng.below(kinds.len() as u64) as usize];
        activations.extend(draw.passing(kind, at, rng));
        at.0 += rng.exponential(mean) as u64 + 1;
    }
    activations.sort_by_key(|activation| activation.from);
    activations
}

struct Draw {
    nodes: u16,
    datagram: usize,
    calm: Instant,
}

impl Draw {
    /// A fault of all links, or of one host, from the beginning until calm.
    fn lasting(&self, kind: Kind, rng: &mut Rng) -> Option<Activation> {
        let fault = self.fault(kind, Scope::All, rng)?;
        Some(Activation { from: Instant::ZERO, until: self.calm, fault })
    }

    fn passing(&self, kind: Kind, from: Instant, rng: &mut Rng) -> Option<Activation> {
        let node = self.node(rng);
        let scope = match rng.below(4) {
            0 => Scope::All,
            1 => Scope::From(node),
            2 => Scope::To(node),
            _ => Scope::Between(node, self.node(rng)),
        };
        let fault = self.fault(kind, scope, rng)?;
        let until = from + Duration::from_millis(rng.between(20, 1_500));
        Some(Activation { from, until: until.min(self.calm), fault })
    }

    fn fault(&self, kind: Kind, scope: Scope, rng: &mut Rng) -> Option<Fault> {
        let p = rng.unit() * 0.3;
        Some(match kind {
            Kind::DataLoss => Fault::DataLoss { scope, p },
            Kind::TokenLoss => Fault::TokenLoss { scope, p },
            Kind::Duplicate => Fault::Duplicate { scope, p },
            Kind::Reorder => Fault::Reorder { scope, p },
            Kind::Corrupt => Fault::Corrupt { scope, p: p / 6.0 },
            Kind::Delay => {
                let most = [200, 2_000, 20_000][rng.below(3) as usize];
                let delay = Duration::from_micros(rng.below(most));
                Fault::Delay { scope, delay, jitter: Duration::from_micros(rng.below(most)) }
            }
            Kind::Slow => Fault::Slow { node: self.node(rng), factor: rng.between(2, 20) as u32 },
            Kind::Buffers => {
                Fault::Buffers { node: self.node(rng), bytes: self.datagram * rng.between(2, 12) as usize }
            }
            Kind::Late => return None, // happens at the start only
        })
    }

    fn node(&self, rng: &mut Rng) -> NodeId {
        NodeId(rng.below(u64::from(self.nodes)) as u16)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everywhere"),
            Self::From(node) => write!(f, "from {node}"),
            Self::To(node) => write!(f, "to {node}"),
            Self::Between(from, to) => write!(f, "from {from} to {to}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |p: f64| format!("{:.1} %", p * 100.0);
        match self {
            Self::DataLoss { scope, p } => write!(f, "{} of data lost {scope}", percent(*p)),
            Self::TokenLoss { scope, p } => write!(f, "{} of tokens lost {scope}", percent(*p)),
            Self::Duplicate { scope, p } => write!(f, "{} duplicated {scope}", percent(*p)),
            Self::Reorder { scope, p } => write!(f, "{} overtaken {scope}", percent(*p)),
            Self::Corrupt { scope, p } => write!(f, "{} corrupted {scope}", percent(*p)),
            Self::Delay { scope, delay, jitter } => {
                write!(f, "{} to {} us later {scope}", delay.as_micros(), (*delay + *jitter).as_micros())
            }
            Self::Slow { node, factor } => write!(f, "{node} {factor} times slower"),
            Self::Buffers { node, bytes } => write!(f, "sockets of {node} hold {bytes} bytes"),
            Self::Late { node } => write!(f, "{node} starts late"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Instant = Instant(7_000_000_000);

    #[test]
    fn names_are_read_and_written_and_an_unknown_one_lists_the_known() {
        assert_eq!("all".parse::<Kinds>().unwrap().to_string(), "all");
        assert_eq!("none".parse::<Kinds>().unwrap().to_string(), "none");
        assert_eq!("slow,data-loss,slow".parse::<Kinds>().unwrap().to_string(), "data-loss,slow");
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
        let total: usize = (0..200).map(|_| draw(&Kinds::all(), 5, 1440, CALM, &mut rng).len()).sum();
        assert!(total > 200 * 10, "{total}");
        assert!(draw(&Kinds::none(), 5, 1440, CALM, &mut rng).is_empty());
    }
}
