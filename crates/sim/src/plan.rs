//! Everything that a seed decides about a run, before the run.
use crate::fault::{self, Activation, Disk, Fault, Kind, Kinds};
use crate::host::HostModel;
use crate::link::LinkModel;
use crate::machine::CONTROL;
use crate::network::NetworkModel;
use crate::workload::{self, SenderPlan};
use consort_types::{Duration, Instant, MemberId, Rng};
use consort_wire::DatagramSize;

mod spans;

/// A run to be.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: u16,
    /// How many processes take deliveries on each node.
    pub clients: u16,
    /// The size of a datagram that engines shall use, in bytes.
    pub datagram: usize,
    /// The network while nothing is wrong.
    pub network: NetworkModel,
    /// Every host while nothing is wrong.
    pub host: HostModel,
    /// Engines and nodes are set up exactly as daemons are whose file says nothing.
    pub shipped: bool,
    /// How long an engine's timers are, in percent of what they are by default.
    pub timers: u32,
    /// What a crash leaves of the records on a disk.
    pub tears: Tears,
    /// By how many millionths the clock of each host runs fast, or slow if below zero; hosts not named have true clocks.
    pub drift: Vec<i32>,
    /// Who sends.
    pub senders: Vec<SenderPlan>,
    /// What goes wrong, in the order in which it begins.
    pub faults: Vec<Activation>,
    /// What a registry says to engines that heed it.
    pub advice: Vec<Activation>,
    /// When faults and senders stop.
    pub calm: Instant,
    /// When the run ends, unless it is not at rest then.
    pub end: Instant,
}

/// What a crash leaves of the records on a disk, unless the whole disk is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tears {
    /// All that is written, and nothing of the rest. Records are written one by one.
    #[default]
    Writes,
    /// All that is written, and of the rest the first so many. Records that come together are written together, as below.
    Unwritten,
    /// All that is synced, and of the rest, written or not, the first so many.
    Unsynced,
}

/// How long a drawn run lasts.
pub const LENGTH: Duration = Duration::from_secs(10);

impl RunPlan {
    /// Perfect hosts on a perfect network, and nobody sends: where tests begin.
    pub fn perfect(nodes: u16) -> Self {
        Self {
            seed: 0,
            nodes,
            clients: 1,
            datagram: 1_440,
            network: NetworkModel::default(),
            host: HostModel::default(),
            shipped: false,
            timers: 100,
            tears: Tears::Writes,
            drift: Vec::new(),
            senders: Vec::new(),
            faults: Vec::new(),
            advice: Vec::new(),
            calm: Instant::ZERO + LENGTH,
            end: Instant::ZERO + LENGTH,
        }
    }

    /// Server hosts on a switched network, and nobody sends.
    pub fn lan(nodes: u16) -> Self {
        let link = LinkModel { delay: Duration::from_micros(25), ..LinkModel::default() };
        let rate = Some(10_000_000_000);
        Self {
            network: NetworkModel {
                rate,
                send_buffer: 1 << 20,
                token: link.clone(),
                data: link,
                unicast_fanout: false,
            },
            host: HostModel::SERVER,
            ..Self::perfect(nodes)
        }
    }

    /// Draws a run of bare engines: its size, its network, its load and, from these kinds, its faults.
    pub fn draw_bare(seed: u64, kinds: &Kinds) -> Self {
        Self::draw(seed, kinds, 1, Some(CONTROL))
    }

    /// Draws a run of whole nodes, each with one to three clients.
    pub fn draw_whole(seed: u64, kinds: &Kinds) -> Self {
        let clients = Rng::new(seed).fork(3).between(1, 3) as u16;
        Self::draw(seed, kinds, clients, None)
    }

    fn draw(seed: u64, kinds: &Kinds, clients: u16, control: Option<u16>) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = [1, 2, 3, 3, 3, 4, 5, 5, 5, 6, 8, 12][rng.below(12) as usize];
        let mut own = Rng::new(seed).fork(0x5417);
        let nodes = if own.chance(0.03) { own.between(9, 24) as u16 } else { nodes };
        let shipped = own.chance(0.4);
        let datagram = [576, 1_440, 1_440, 1_440, 9_000, 65_000][rng.below(6) as usize];
        let datagram = if shipped { DatagramSize::DEFAULT.get() } else { datagram };
        let calm = Instant(rng.between(6_500_000_000, 7_500_000_000));
        let mut network = draw_network(&mut rng);
        network.unicast_fanout &= nodes <= 12; // more copies than an interface carries in time
        let host = draw_host(datagram, &mut rng);
        let mut senders = workload::draw(nodes, clients, control, &mut rng);
        // Each message is delivered everywhere: what many nodes send together is no more than what twelve send.
        senders.retain(|sender| sender.process.node.0 == 0 || own.chance(8.0 / f64::from(nodes)));
        let timers = if shipped { 100 } else { draw_timers(nodes, &network, &mut own) };
        Self {
            seed,
            nodes,
            clients,
            datagram,
            network,
            host,
            shipped,
            timers,
            tears: Tears::Writes,
            drift: draw_drift(kinds, nodes, &mut own),
            senders,
            faults: fault::draw(kinds, nodes, datagram, calm, &mut rng),
            advice: fault::advice(kinds, nodes, calm, &mut Rng::new(seed).fork(0xad71)),
            calm,
            end: Instant::ZERO + LENGTH,
        }
    }

    /// What a reader must know to understand what happens.
    pub fn summary(&self) -> String {
        let Self { nodes, clients, datagram, network, host, .. } = self;
        let rate = network.rate.map_or("any rate".into(), |rate| format!("{} Mbit/s", rate / 1_000_000));
        let settings = if self.shipped { "shipped settings".into() } else { format!("timers at {} %", self.timers) };
        let fanout = if network.unicast_fanout { "unicast" } else { "multicast" };
        format!(
            "{nodes} nodes with {clients} clients, {datagram} bytes a datagram, {fanout} at {rate}, delay {:?} + {:?}, \
             {} bytes to send, {} to receive, {settings}",
            network.data.delay, network.data.jitter, network.send_buffer, host.socket
        )
    }

    /// All nodes, each in its first incarnation.
    pub fn members(&self) -> Vec<MemberId> {
        (0..self.nodes).map(|node| MemberId::new(node, 1)).collect()
    }

    /// Whether nothing is wrong that members who hear each other by these `signs` would have to part for.
    pub fn is_gentle(&self, signs: LifeSigns) -> bool {
        let losses = self.faults.iter().map(|activation| match activation.fault {
            Fault::TokenLoss { p, .. } | Fault::Corrupt { p, .. } => Some((activation, p, p)),
            Fault::DataLoss { p, .. } => Some((activation, 0.0, p)),
            Fault::Duplicate { .. } | Fault::Echo { .. } | Fault::Reorder { .. } => Some((activation, 0.0, 0.0)),
            _ => None,
        });
        let Some(losses) = losses.collect::<Option<Vec<_>>>() else { return false };
        let at_once = |at: Instant| {
            let active = losses.iter().filter(move |(a, ..)| a.from <= at && at < a.until);
            active.fold((0.0, 0.0), |(token, any), (_, p, q)| (token + p, any + q))
        };
        losses.iter().all(|(activation, ..)| {
            let (token, any) = at_once(activation.from);
            token < ALL_COPIES && (signs == LifeSigns::Token || any < ALL_HEARTBEATS)
        })
    }

    /// Whether every disk keeps what was written.
    pub fn keeps_disks(&self) -> bool {
        let forgets = |a: &Activation| matches!(a.fault, Fault::Crash { disk: Disk::Lost | Disk::Old, .. });
        self.tears != Tears::Unsynced && !self.faults.iter().any(forgets)
    }

    /// Whether nodes leave and come back, each with time to take its leave, and nothing else happens.
    pub fn is_polite(&self) -> bool {
        let leaves = |a: &Activation| matches!(a.fault, Fault::Leave { .. }) && a.until.since(a.from) > GOOD_BYE;
        !self.faults.is_empty() && self.faults.iter().all(leaves)
    }

    /// Whether what is sent first also arrives first, always: no fault, no jitter.
    pub fn keeps_order(&self) -> bool {
        self.faults.is_empty() && self.network.token.jitter.is_zero() && self.network.data.jitter.is_zero()
    }
}

/// With this chance of losing one copy of a token, or less, no run is long enough to lose all: where a rotation takes
/// long, there are only six before the token counts as lost.
const ALL_COPIES: f64 = 0.05;
/// With this chance of losing one datagram, or less, eight heartbeats running hardly ever are lost, the more so as
/// messages are signs of incarnation, too.
const ALL_HEARTBEATS: f64 = 0.4;

/// By what members of a view know that the others live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeSigns {
    /// A token comes round.
    Token,
    /// Heartbeats, and whatever else is multicast.
    Heartbeats,
}

/// Whoever is stopped sooner may not have taken its leave.
const GOOD_BYE: Duration = Duration::from_millis(400);

fn draw_network(rng: &mut Rng) -> NetworkModel {
    let delay = Duration::from_micros(
        [rng.between(20, 100), rng.between(50, 500), rng.between(200, 2_000)][rng.below(3) as usize],
    );
    let link = LinkModel {
        delay,
        jitter: [Duration::ZERO, delay / 20, delay / 4, delay][rng.below(4) as usize],
        ..LinkModel::default()
    };
    let send_buffer = [200 << 10, 2 << 20][rng.below(2) as usize];
    let unicast_fanout = rng.chance(0.2);
    // Default windows, sent once for each of eleven others, take longer on 100 Mbit/s than a token may.
    let least = if unicast_fanout { 1 } else { 0 };
    let rate = Some([100_000_000, 1_000_000_000, 10_000_000_000][rng.between(least, 2) as usize]);
    NetworkModel { rate, send_buffer, token: link.clone(), data: link, unicast_fanout }
}

/// Short ones only where a token comes round in a small part of them.
fn draw_timers(nodes: u16, network: &NetworkModel, rng: &mut Rng) -> u32 {
    let is_near = network.data.delay + network.data.jitter < Duration::from_micros(500) && nodes <= 6;
    let (least, drawn) = (if is_near { 0 } else { 2 }, rng.chance(0.3));
    let timers = [50, 75, 150, 300][rng.between(least, 3) as usize];
    if drawn && !network.unicast_fanout { timers } else { 100 }
}

/// Mostly as far from the truth as clocks are, now and then farther than any should be.
fn draw_drift(kinds: &Kinds, nodes: u16, rng: &mut Rng) -> Vec<i32> {
    let most = [200, 200, 50_000][rng.below(3) as usize];
    if !(rng.chance(0.3) && kinds.contains(Kind::Drift)) {
        return Vec::new();
    }
    (0..nodes).map(|_| rng.below(2 * most + 1) as i32 - most as i32).collect()
}

fn draw_host(datagram: usize, rng: &mut Rng) -> HostModel {
    let most = [2 << 20, 8 << 20][rng.below(2) as usize];
    HostModel { socket: most.max(datagram * 16), ..HostModel::SERVER }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::Core;
    use crate::fault::{FaultScope, Lanes, NodeSet};

    #[test]
    fn lost_data_parts_those_who_hear_each_other_by_it_alone_and_only_if_much_is_lost_at_once() {
        let lost = |from, until, p| {
            let fault = Fault::DataLoss { scope: FaultScope::All, p };
            Activation { from: Instant(from), until: Instant(until), fault }
        };
        let gentle = |faults: &[Activation]| {
            let plan = RunPlan { faults: faults.to_vec(), ..RunPlan::perfect(3) };
            [LifeSigns::Token, LifeSigns::Heartbeats].map(|signs| plan.is_gentle(signs))
        };
        assert_eq!(gentle(&[lost(0, 9, 0.3), lost(5, 7, 0.2)]), [true, false]);
        assert_eq!(gentle(&[lost(0, 5, 0.3), lost(5, 7, 0.2)]), [true, true], "one after the other");
        let token = Fault::TokenLoss { scope: FaultScope::All, p: 0.3 };
        assert_eq!(gentle(&[Activation { fault: token, ..lost(0, 9, 0.3) }]), [false, false]);
        let pause = Fault::Pause { node: consort_types::NodeId(0) };
        assert_eq!(gentle(&[Activation { fault: pause, ..lost(0, 9, 0.3) }]), [false, false]);
    }

    #[test]
    fn nothing_changes_between_two_turns_and_cores_hear_each_other() {
        let wrong = |from, until, fault| Activation { from: Instant(from), until: Instant(until), fault };
        let spans = |nodes, faults: &[Activation]| {
            let plan = RunPlan { faults: faults.to_vec(), calm: Instant(100), ..RunPlan::perfect(nodes) };
            let spans = plan.constant_spans(LifeSigns::Token).into_iter();
            let bits = |cores: Vec<Core>| cores.into_iter().map(|core| core.nodes.0).collect::<Vec<_>>();
            spans.map(|span| (span.from.0, span.until.0, span.faults, bits(span.cores))).collect::<Vec<_>>()
        };
        let node = consort_types::NodeId;
        assert_eq!(spans(3, &[]), [(0, 100, 0, vec![7])]);
        let parted = wrong(10, 60, Fault::Partition { part: NodeSet(1) });
        let crash = |stays| Fault::Crash { node: node(2), disk: Disk::Kept, after: 0, stays };
        let down = wrong(20, 60, crash(false));
        let wanted = [(0, 10, 0, vec![7]), (10, 20, 1, vec![1, 6]), (20, 60, 2, vec![1, 2]), (60, 100, 0, vec![7])];
        assert_eq!(spans(3, &[parted, down]), wanted);
        assert_eq!(spans(3, &[wrong(0, 60, crash(true))])[1], (60, 100, 1, vec![3]), "it stays down");
        let again = [wrong(0, 50, crash(false)), wrong(20, 90, crash(false))];
        assert_eq!(spans(3, &again)[2..], [(90, 100, 0, vec![7])], "when it is up is not known in between");
        let cut = |lanes| Fault::Cut { scope: FaultScope::Between(node(0), node(1)), lanes };
        for lanes in [Lanes::Token, Lanes::Unicast] {
            assert_eq!(spans(4, &[wrong(0, 100, cut(lanes))]), [(0, 100, 1, vec![12])]);
        }
        let united_by = |signs: LifeSigns, faults: &[Activation]| {
            let plan = RunPlan { faults: faults.to_vec(), calm: Instant(100), ..RunPlan::perfect(4) };
            plan.constant_spans(signs)[0].cores.iter().all(|core| core.united)
        };
        let united = |faults: &[Activation]| united_by(LifeSigns::Token, faults);
        assert!(!united(&[wrong(0, 100, cut(Lanes::Token))]), "each of the two may draw others to its side");
        let mumbles = [wrong(0, 100, Fault::Cut { scope: FaultScope::From(node(0)), lanes: Lanes::Token })];
        assert!(united(&mumbles), "copies of its tokens come to all, so that a ring of all holds it");
        let apart = wrong(0, 100, Fault::Apart { a: node(0), b: node(3) });
        assert!(!united(&[mumbles[0], apart]), "a ring holds it, or the one that does not hear it");
        let dumb = wrong(0, 100, Fault::Cut { scope: FaultScope::From(node(0)), lanes: Lanes::Data });
        assert!(united(&[dumb, apart]), "no ring holds one whose data and copies do not come");
        assert!(!united_by(LifeSigns::Heartbeats, &mumbles), "a view may still hold one whose data come");
        let deaf = Fault::Cut { scope: FaultScope::To(node(0)), lanes: Lanes::Both };
        assert!(united(&[wrong(0, 100, deaf)]));
        let mute = Fault::Cut { scope: FaultScope::From(node(0)), lanes: Lanes::Both };
        assert_eq!(spans(3, &[wrong(0, 100, deaf)]), [(0, 100, 1, vec![6])], "one that hears nobody is no hindrance");
        assert_eq!(spans(3, &[wrong(0, 100, deaf), wrong(0, 100, mute)]), [(0, 100, 2, vec![1, 6])]);
        let slow = Fault::Slow { node: node(0), factor: 3 };
        assert_eq!(spans(3, &[wrong(0, 40, slow)]), [(40, 100, 0, vec![7])], "nothing is said of times of slowness");
    }
}
