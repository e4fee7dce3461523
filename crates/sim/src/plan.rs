//! Everything that a seed decides about a run, before the run.
use crate::fault::{self, Activation, Fault, Kinds};
use crate::host::HostModel;
use crate::link::LinkModel;
use crate::machine::CONTROL;
use crate::network::NetworkModel;
use crate::workload::{self, SenderPlan};
use consort_types::{Duration, Instant, MemberId, Rng};

/// A run to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
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
    /// Who sends.
    pub senders: Vec<SenderPlan>,
    /// What goes wrong, in the order in which it begins.
    pub faults: Vec<Activation>,
    /// When faults and senders stop.
    pub calm: Instant,
    /// When the run ends, unless it is not at rest then.
    pub end: Instant,
}

/// How long a drawn run lasts.
pub const LENGTH: Duration = Duration::from_secs(10);

impl Plan {
    /// Perfect hosts on a perfect network, and nobody sends: where tests begin.
    pub fn perfect(nodes: u16) -> Self {
        Self {
            seed: 0,
            nodes,
            clients: 1,
            datagram: 1_440,
            network: NetworkModel::default(),
            host: HostModel::default(),
            senders: Vec::new(),
            faults: Vec::new(),
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
        let datagram = [576, 1_440, 1_440, 1_440, 9_000, 65_000][rng.below(6) as usize];
        let calm = Instant(rng.between(6_500_000_000, 7_500_000_000));
        Self {
            seed,
            nodes,
            clients,
            datagram,
            network: draw_network(&mut rng),
            host: draw_host(datagram, &mut rng),
            senders: workload::draw(nodes, clients, control, &mut rng),
            faults: fault::draw(kinds, nodes, datagram, calm, &mut rng),
            calm,
            end: Instant::ZERO + LENGTH,
        }
    }

    /// What a reader must know to understand what happens.
    pub fn summary(&self) -> String {
        let Self { nodes, clients, datagram, network, host, .. } = self;
        let rate = network.rate.map_or("any rate".into(), |rate| format!("{} Mbit/s", rate / 1_000_000));
        let fanout = if network.unicast_fanout { "unicast" } else { "multicast" };
        format!(
            "{nodes} nodes with {clients} clients, {datagram} bytes a datagram, {fanout} at {rate}, delay {:?} + {:?}, \
             {} bytes to send, {} to receive",
            network.data.delay, network.data.jitter, network.send_buffer, host.socket
        )
    }

    /// All nodes, each in its first life.
    pub fn members(&self) -> Vec<MemberId> {
        (0..self.nodes).map(|node| MemberId::new(node, 1)).collect()
    }

    /// Whether nothing is wrong that a ring once formed would have to change for.
    pub fn is_gentle(&self) -> bool {
        let losses = self.faults.iter().map(|activation| match activation.fault {
            Fault::TokenLoss { p, .. } | Fault::Corrupt { p, .. } => Some((activation, p)),
            Fault::DataLoss { .. } | Fault::Duplicate { .. } | Fault::Echo { .. } | Fault::Reorder { .. } => {
                Some((activation, 0.0))
            }
            _ => None,
        });
        let Some(losses) = losses.collect::<Option<Vec<_>>>() else { return false };
        let at_once =
            |at: Instant| losses.iter().filter(|(a, _)| a.from <= at && at < a.until).map(|(_, p)| p).sum::<f64>();
        losses.iter().all(|(activation, _)| at_once(activation.from) < ALL_COPIES)
    }

    /// From when on nothing changes any more until calm, in a run in which the network is wrong all the time.
    pub fn is_constant_from(&self) -> Option<Instant> {
        let stays = |activation: &Activation| {
            let parts = matches!(activation.fault, Fault::Partition { .. } | Fault::Cut { .. } | Fault::Apart { .. });
            parts && activation.until == self.calm
        };
        let from = self.faults.iter().map(|activation| activation.from).max()?;
        self.faults.iter().all(stays).then_some(from)
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

fn draw_host(datagram: usize, rng: &mut Rng) -> HostModel {
    let most = [2 << 20, 8 << 20][rng.below(2) as usize];
    HostModel { socket: most.max(datagram * 16), ..HostModel::SERVER }
}
