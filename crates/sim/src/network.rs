//! The network between hosts: an uplink for each, and two links for each ordered pair, one per socket.
use crate::fault::{Fault, FaultScope, Lanes};
use crate::link::{Copy, LinkCounts, LinkModel, SimLink};
use consort_types::{Instant, NodeId, Rng};

/// Which of a host's sockets a datagram goes to. Control packets share the data socket when they are multicast and the
/// token socket when they are not, as in the real driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimSocket {
    /// Tokens, and control packets for one node.
    Token,
    /// Messages, and control packets for all.
    Data,
}

/// How the network is while nothing is wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkModel {
    /// The rate of each host's interface, in bits per second; what leaves passes it once, a multicast too.
    pub rate: Option<u64>,
    /// How many bytes may wait for the interface. A sender that wants more waits: nothing is lost here.
    pub send_buffer: usize,
    /// Between the hosts, for each ordered pair: what goes to the token socket …
    pub token: LinkModel,
    /// … and what goes to the data socket.
    pub data: LinkModel,
    /// Without multicast a sender sends a datagram for all once for each.
    pub unicast_fanout: bool,
}

/// What becomes of a datagram at its sender's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its last bit has left.
    pub at_switch: Instant,
    /// When the sender may go on, because there is room in its buffer.
    pub sender_free: Instant,
}

/// All links, and what is wrong with them.
#[derive(Debug)]
pub struct Network {
    model: NetworkModel,
    nodes: usize,
    uplinks: Vec<SimLink>,
    token: Vec<SimLink>,
    data: Vec<SimLink>,
}

impl Network {
    /// A network in which nothing is wrong.
    pub fn new(model: NetworkModel, nodes: usize, rng: &mut Rng) -> Self {
        let uplink = LinkModel { rate: model.rate, ..LinkModel::default() };
        let mut links = |model: &LinkModel, n: usize, salt: u64| {
            (0..n as u64).map(|i| SimLink::new(model.clone(), rng.fork(salt + i))).collect()
        };
        Self {
            uplinks: links(&uplink, nodes, 0),
            token: links(&model.token, nodes * nodes, 1 << 32),
            data: links(&model.data, nodes * nodes, 2 << 32),
            nodes,
            model,
        }
    }

    /// Whether a datagram for all is sent once for each.
    pub const fn fans_out(&self) -> bool {
        self.model.unicast_fanout
    }

    /// Takes one datagram onto the sender's interface.
    pub fn leave(&mut self, now: Instant, from: NodeId, len: usize) -> Departure {
        let left = self.uplinks[usize::from(from.0)].carry(now, len);
        let at_switch = left.first().map_or(now, |copy| copy.at);
        let Some(rate) = self.model.rate else { return Departure { at_switch, sender_free: now } };
        let buffered = self.model.send_buffer as u128 * 8_000_000_000 / u128::from(rate.max(1));
        let sender_free = Instant(at_switch.0.saturating_sub(u64::try_from(buffered).unwrap_or(u64::MAX)));
        Departure { at_switch, sender_free: sender_free.max(now) }
    }

    /// Takes it from the switch to one receiver.
    pub fn cross(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        socket: SimSocket,
        len: usize,
    ) -> smallvec::SmallVec<[Copy; 2]> {
        let at = usize::from(from.0) * self.nodes + usize::from(to.0);
        match socket {
            SimSocket::Token => self.token[at].carry(now, len),
            SimSocket::Data => self.data[at].carry(now, len),
        }
    }

    /// Makes every link what it is while these faults, and no others, are active.
    pub fn suffer(&mut self, faults: &[Fault]) {
        for (socket, links, model) in [
            (SimSocket::Token, &mut self.token, &self.model.token),
            (SimSocket::Data, &mut self.data, &self.model.data),
        ] {
            for (link, at) in links.iter_mut().zip(0..) {
                let [from, to] = [at / self.nodes, at % self.nodes].map(|node| NodeId(node as u16));
                link.model = worsened(model.clone(), faults, from, to, socket);
            }
        }
    }

    /// What all links did so far, each number summed.
    pub fn counts(&self) -> LinkCounts {
        let links = self.uplinks.iter().chain(&self.token).chain(&self.data);
        links.fold(LinkCounts::default(), |sum, link| sum + link.counts())
    }
}

/// How a link fares from one node to a socket of another while these faults are active.
pub fn worsened(mut model: LinkModel, faults: &[Fault], from: NodeId, to: NodeId, socket: SimSocket) -> LinkModel {
    faults.iter().for_each(|fault| worsen(&mut model, fault, LinkPair { from, to }, socket));
    model
}

#[derive(Clone, Copy)]
struct LinkPair {
    from: NodeId,
    to: NodeId,
}

fn worsen(model: &mut LinkModel, fault: &Fault, pair: LinkPair, socket: SimSocket) {
    if !pair.suffers(fault, socket) {
        return;
    }
    match *fault {
        Fault::DataLoss { p, .. } | Fault::TokenLoss { p, .. } => model.loss = either(model.loss, p),
        Fault::Duplicate { p, .. } => model.duplicate = either(model.duplicate, p),
        Fault::Echo { p, .. } => model.echo = either(model.echo, p),
        Fault::Reorder { p, .. } => model.reorder = either(model.reorder, p),
        Fault::Corrupt { p, .. } => model.corrupt = either(model.corrupt, p),
        Fault::Stray { p, .. } => model.stray = either(model.stray, p),
        Fault::Delay { delay, jitter, .. } => {
            model.delay += delay;
            model.jitter += jitter;
        }
        Fault::Partition { .. } | Fault::Cut { .. } | Fault::Apart { .. } => model.cut = true,
        _ => {}
    }
}

/// The probability that one of two independent things happens.
fn either(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

impl LinkPair {
    /// Whether a fault touches what one sends to the other's socket.
    fn suffers(self, fault: &Fault, socket: SimSocket) -> bool {
        let Self { from, to } = self;
        match *fault {
            Fault::DataLoss { scope, .. } => socket == SimSocket::Data && self.is_in(scope),
            Fault::TokenLoss { scope, .. } => socket == SimSocket::Token && self.is_in(scope),
            Fault::Duplicate { scope, .. }
            | Fault::Echo { scope, .. }
            | Fault::Reorder { scope, .. }
            | Fault::Corrupt { scope, .. }
            | Fault::Stray { scope, .. }
            | Fault::Delay { scope, .. } => self.is_in(scope),
            Fault::Partition { part } => part.contains(from) != part.contains(to),
            Fault::Cut { scope, lanes } => {
                let stopped = match lanes {
                    Lanes::Both => true,
                    Lanes::Token => socket == SimSocket::Token,
                    Lanes::Data => socket == SimSocket::Data,
                    Lanes::Unicast => false, // the sender's: see `SimWorld::send`
                };
                stopped && self.is_in(scope)
            }
            Fault::Apart { a, b } => (from, to) == (a, b) || (from, to) == (b, a),
            _ => false,
        }
    }

    fn is_in(self, scope: FaultScope) -> bool {
        scope.holds(self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::NodeSet;
    use consort_types::Duration;

    fn network() -> Network {
        Network::new(NetworkModel::default(), 3, &mut Rng::new(1))
    }

    fn arrivals(network: &mut Network, from: u16, to: u16, socket: SimSocket) -> usize {
        let cross = |i| network.cross(Instant(i), NodeId(from), NodeId(to), socket, 100).len();
        (0..1_000).map(cross).sum()
    }

    #[test]
    fn a_fault_touches_only_its_scope_and_socket_and_ends() {
        let mut network = network();
        network.suffer(&[Fault::DataLoss { scope: FaultScope::To(NodeId(2)), p: 0.5 }]);
        let lossy = arrivals(&mut network, 0, 2, SimSocket::Data);
        assert!((400..600).contains(&lossy), "{lossy}");
        assert_eq!(arrivals(&mut network, 0, 2, SimSocket::Token), 1_000);
        assert_eq!(arrivals(&mut network, 0, 1, SimSocket::Data), 1_000);
        network.suffer(&[]);
        assert_eq!(arrivals(&mut network, 1, 2, SimSocket::Data), 1_000);
        assert_eq!(network.counts().lost, 1_000 - lossy as u64);
    }

    #[test]
    fn a_full_send_buffer_holds_the_sender_up_and_loses_nothing() {
        let model = NetworkModel { rate: Some(8_000_000), send_buffer: 250, ..NetworkModel::default() };
        let mut network = Network::new(model, 1, &mut Rng::new(1));
        let mut leave = || network.leave(Instant::ZERO, NodeId(0), 100);
        let micros = |n: u64| Instant(n * 1_000);
        assert_eq!(leave(), Departure { at_switch: micros(100), sender_free: micros(0) });
        assert_eq!(leave(), Departure { at_switch: micros(200), sender_free: micros(0) });
        assert_eq!(leave(), Departure { at_switch: micros(300), sender_free: micros(50) });
    }

    #[test]
    fn parts_do_not_hear_each_other_and_one_way_is_one_way() {
        let mut network = network();
        network.suffer(&[
            Fault::Partition { part: NodeSet(0b001) },
            Fault::Cut { scope: FaultScope::Between(NodeId(1), NodeId(2)), lanes: Lanes::Token },
        ]);
        assert_eq!(arrivals(&mut network, 0, 1, SimSocket::Data), 0);
        assert_eq!(arrivals(&mut network, 2, 0, SimSocket::Token), 0);
        assert_eq!(arrivals(&mut network, 1, 2, SimSocket::Token), 0);
        assert_eq!(arrivals(&mut network, 1, 2, SimSocket::Data), 1_000);
        assert_eq!(arrivals(&mut network, 2, 1, SimSocket::Token), 1_000);
        network.suffer(&[Fault::Apart { a: NodeId(2), b: NodeId(0) }]);
        let through = |network: &mut Network, from, to| arrivals(network, from, to, SimSocket::Data);
        assert_eq!([through(&mut network, 0, 2), through(&mut network, 2, 0)], [0, 0]);
        assert_eq!([through(&mut network, 0, 1), through(&mut network, 1, 2)], [1_000, 1_000]);
    }

    #[test]
    fn faults_that_overlap_add_up() {
        let mut network = network();
        let scope = FaultScope::Between(NodeId(0), NodeId(1));
        let spike = Duration::from_millis(3);
        network.suffer(&[
            Fault::Duplicate { scope: FaultScope::All, p: 0.5 },
            Fault::Duplicate { scope, p: 0.5 },
            Fault::Delay { scope, delay: spike, jitter: Duration::ZERO },
        ]);
        let copies = arrivals(&mut network, 0, 1, SimSocket::Token);
        assert!((1_650..1_850).contains(&copies), "{copies}");
        let late = network.cross(Instant::ZERO, NodeId(0), NodeId(1), SimSocket::Token, 9);
        assert_eq!(late[0].at, Instant::ZERO + spike);
    }
}
