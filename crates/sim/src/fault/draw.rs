//! Drawing the faults of a run.
use super::{Activation, CrashTarget, Disk, Fault, FaultScope, Kind, Kinds, Lanes, NodeSet, Said};
use consort_types::{Duration, Instant, NodeId, OrderStream, Rng};

/// Draws the faults of a run of `nodes` nodes whose faults end at `calm`, each activation with its own place, strength
/// and length, in the order in which they begin. Most runs mix some of the kinds; others have a temper of their own.
pub fn draw(kinds: &Kinds, nodes: u16, datagram: usize, calm: Instant, rng: &mut Rng) -> Vec<Activation> {
    let draw = FaultDraw { nodes, datagram, calm };
    let kinds = &kinds.without(Kind::Advice);
    let mut activations = match rng.below(28) {
        0..3 => draw.mixed(&some(&kinds.among(&Kinds::gentle().0), rng), rng),
        3..6 => draw.constant(&kinds.among(&[Kind::Partition, Kind::OneWay, Kind::Apart]), rng),
        6..10 => draw.bursts(&kinds.among(&UPHEAVALS), rng),
        10 if rng.chance(0.5) => draw.mixed(&kinds.among(&[Kind::Leave]), rng),
        10 => draw.bursts(&kinds.among(&[Kind::Leave]), rng),
        11 | 12 => draw.constant(&kinds.among(&[Kind::Unicast]), rng),
        13..16 => draw.busy(&kinds.among(&[Kind::Stall]), rng),
        16 | 17 => draw.bursts(&kinds.among(&[Kind::Aimed, Kind::OldDisk, Kind::BadDisk, Kind::Crash]), rng),
        _ => Vec::new(),
    };
    if activations.is_empty() {
        activations = draw.mixed(&some(&kinds.0, rng), rng);
    }
    activations.sort_by_key(|activation| activation.from);
    activations
}

/// Draws what a registry says in a run, for engines that heed it. Mostly it says nothing.
pub fn advice(kinds: &Kinds, nodes: u16, calm: Instant, rng: &mut Rng) -> Vec<Activation> {
    if !kinds.contains(Kind::Advice) || rng.chance(0.6) {
        return Vec::new();
    }
    let most = [2, 8, 40][rng.below(3) as usize];
    let mut said = |_| {
        let node = NodeId(rng.below(u64::from(nodes)) as u16);
        let said = match rng.below(8) {
            0 => Said::Leads(None),
            1 | 2 => Said::BackFrom(node),
            // One that there is not.
            3 => Said::Leads(Some(NodeId(nodes))),
            _ => Said::Leads(Some(node)),
        };
        let part = NodeSet(if rng.chance(0.6) { u64::MAX } else { rng.next_u64() });
        let from = Instant(rng.below(calm.0));
        Activation { from, until: from, fault: Fault::Advice { part, stream: OrderStream(rng.below(6) as u16), said } }
    };
    (0..most).map(&mut said).collect()
}

/// What changes who is with whom.
const UPHEAVALS: [Kind; 8] =
    [Kind::Crash, Kind::Leave, Kind::Pause, Kind::Partition, Kind::OneWay, Kind::Apart, Kind::Aimed, Kind::Stall];

/// Some of these, by chance; at least one where there is one.
fn some(kinds: &[Kind], rng: &mut Rng) -> Vec<Kind> {
    let mut some: Vec<_> = kinds.iter().copied().filter(|_| rng.chance(0.5)).collect();
    if some.is_empty() && !kinds.is_empty() {
        some.push(kinds[rng.below(kinds.len() as u64) as usize]);
    }
    some
}

/// How long a process waits for a processor: mostly not for long.
fn stall(rng: &mut Rng) -> Duration {
    let (least, most) = match rng.below(100) {
        0..60 => (5, 100),
        60..85 => (100, 230),
        85..97 => (230, 600),
        _ => (600, 2_000),
    };
    Duration::from_millis(rng.between(least, most))
}

struct FaultDraw {
    nodes: u16,
    datagram: usize,
    calm: Instant,
}

impl FaultDraw {
    /// All through the run, whatever comes.
    fn mixed(&self, kinds: &[Kind], rng: &mut Rng) -> Vec<Activation> {
        let mut activations = Vec::new();
        if kinds.is_empty() {
            return activations;
        }
        for node in 0..self.nodes {
            if kinds.contains(&Kind::Late) && rng.chance(0.3) {
                let until = Instant(rng.below(2_000_000_000)).min(self.calm);
                activations.push(Activation { from: Instant::ZERO, until, fault: Fault::Late { node: NodeId(node) } });
            }
        }
        for kind in kinds {
            if rng.chance(if kind.is_of_membership() { 0.06 } else { 0.3 }) {
                activations.extend(self.lasting(*kind, Instant::ZERO, rng));
            }
        }
        let mean = [0.15e9, 0.4e9, 0.8e9][rng.below(3) as usize];
        let mut at = Instant::ZERO;
        while at < self.calm {
            let kind = kinds[rng.below(kinds.len() as u64) as usize];
            activations.extend(self.passing(kind, at, rng));
            at.0 += rng.exponential(mean) as u64 + 1;
        }
        activations
    }

    /// A few things that are wrong from early on and stay so: whoever is apart should settle down.
    fn constant(&self, kinds: &[Kind], rng: &mut Rng) -> Vec<Activation> {
        if kinds.is_empty() {
            return Vec::new();
        }
        let pick = |rng: &mut Rng| {
            let from = Instant(rng.below(1_000_000_000));
            self.lasting(kinds[rng.below(kinds.len() as u64) as usize], from, rng)
        };
        (0..rng.between(1, 3)).filter_map(|_| pick(rng)).collect()
    }

    /// One change while the one before is still being made up for, then a time of peace.
    fn bursts(&self, kinds: &[Kind], rng: &mut Rng) -> Vec<Activation> {
        let mut activations = Vec::new();
        let mut at = Instant(rng.between(50_000_000, 800_000_000));
        while at < self.calm && !kinds.is_empty() {
            for _ in 0..rng.between(2, 5) {
                let kind = kinds[rng.below(kinds.len() as u64) as usize];
                activations.extend(self.passing(kind, at.min(self.calm), rng));
                let most = [3_000, 60_000, 400_000][rng.below(3) as usize];
                at += Duration::from_micros(rng.between(100, most));
            }
            at += Duration::from_millis(rng.between(300, 1_500));
        }
        activations
    }

    /// Hosts whose processors others want, too: processes wait for their turn, now and then everywhere at once.
    fn busy(&self, kinds: &[Kind], rng: &mut Rng) -> Vec<Activation> {
        if kinds.is_empty() {
            return Vec::new();
        }
        let mean = [0.2e9, 0.5e9, 1.5e9][rng.below(3) as usize] / f64::from(self.nodes.min(4));
        let mut at = Instant(rng.exponential(mean) as u64);
        let mut activations = Vec::new();
        while at < self.calm {
            activations.extend(self.passing(Kind::Stall, at, rng));
            at.0 += rng.exponential(mean) as u64 + 1;
        }
        activations
    }

    /// A fault of all links, of some, or of one host, until calm.
    fn lasting(&self, kind: Kind, from: Instant, rng: &mut Rng) -> Option<Activation> {
        if matches!(
            kind,
            Kind::Crash | Kind::Leave | Kind::Pause | Kind::Aimed | Kind::OldDisk | Kind::BadDisk | Kind::Stall
        ) {
            return None;
        }
        let scope = if matches!(kind, Kind::OneWay | Kind::Unicast) { self.scope(rng) } else { FaultScope::All };
        let fault = self.fault(kind, scope, rng)?;
        Some(Activation { from, until: self.calm, fault })
    }

    fn passing(&self, kind: Kind, from: Instant, rng: &mut Rng) -> Option<Activation> {
        let fault = self.fault(kind, self.scope(rng), rng)?;
        let most = if kind == Kind::Pause && rng.chance(0.6) { 100 } else { 2_000 };
        let until = from + if kind == Kind::Stall { stall(rng) } else { Duration::from_millis(rng.between(10, most)) };
        Some(Activation { from, until: until.min(self.calm), fault })
    }

    fn scope(&self, rng: &mut Rng) -> FaultScope {
        let node = self.node(rng);
        match rng.below(4) {
            0 => FaultScope::All,
            1 => FaultScope::From(node),
            2 => FaultScope::To(node),
            _ => FaultScope::Between(node, self.node(rng)),
        }
    }

    fn fault(&self, kind: Kind, scope: FaultScope, rng: &mut Rng) -> Option<Fault> {
        let p = rng.unit() * 0.3;
        Some(match kind {
            Kind::DataLoss => Fault::DataLoss { scope, p },
            Kind::TokenLoss => Fault::TokenLoss { scope, p },
            Kind::Duplicate => Fault::Duplicate { scope, p },
            Kind::Echo => Fault::Echo { scope, p: p / 3.0 },
            Kind::Reorder => Fault::Reorder { scope, p },
            Kind::Corrupt => Fault::Corrupt { scope, p: p / 6.0 },
            Kind::Stray => Fault::Stray { scope, p: p / 15.0 },
            Kind::KindLoss => {
                Fault::KindLoss { scope, kind: rng.between(1, 8) as u8, p: [1.0, rng.unit()][rng.below(2) as usize] }
            }
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
            _ => return self.membership(kind, scope, rng),
        })
    }

    fn membership(&self, kind: Kind, scope: FaultScope, rng: &mut Rng) -> Option<Fault> {
        let node = self.node(rng);
        Some(match kind {
            Kind::Crash => {
                let disk = if rng.chance(0.3) { Disk::Lost } else { Disk::Kept };
                Fault::Crash { node, disk, after: rng.below(8) as u8, stays: node.0 > 0 && rng.chance(0.1) }
            }
            Kind::Leave => Fault::Leave { node, stays: node.0 > 0 && rng.chance(0.1) },
            Kind::Pause => Fault::Pause { node },
            Kind::Clock => Fault::Clock { node, by_us: rng.below(200_000_000) as i64 - 100_000_000 },
            Kind::Disk => Fault::Disk { node, delay: Duration::from_millis(rng.below(2_000)) },
            Kind::Partition => Fault::Partition { part: NodeSet(rng.next_u64() & ((1 << self.nodes.min(63)) - 1)) },
            Kind::OneWay if scope == FaultScope::All => return None,
            Kind::OneWay => {
                Fault::Cut { scope, lanes: [Lanes::Both, Lanes::Token, Lanes::Data][rng.below(3) as usize] }
            }
            Kind::Apart => Fault::Apart { a: node, b: self.node(rng) },
            Kind::Unicast if scope == FaultScope::All => return None,
            Kind::Unicast => Fault::Cut { scope, lanes: Lanes::Unicast },
            Kind::Stall => Fault::Stall { part: self.part(node, rng) },
            Kind::Aimed => {
                let target = if rng.chance(0.5) { CrashTarget::Lowest(node) } else { CrashTarget::Granted };
                Fault::Aimed { target, disk: Disk::Kept, after: rng.below(8) as u8 }
            }
            Kind::OldDisk => Fault::Crash { node, disk: Disk::Old, after: rng.below(8) as u8, stays: false },
            Kind::BadDisk => Fault::BadDisk { node },
            _ => return None, // clocks run as they do all through a run
        })
    }

    /// Mostly this node alone, else some, or all.
    fn part(&self, node: NodeId, rng: &mut Rng) -> NodeSet {
        NodeSet(match rng.below(10) {
            0..7 => 1 << node.0.min(63),
            7 => rng.next_u64(),
            _ => u64::MAX,
        })
    }

    fn node(&self, rng: &mut Rng) -> NodeId {
        NodeId(rng.below(u64::from(self.nodes)) as u16)
    }
}
