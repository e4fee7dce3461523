//! The network between hosts: an uplink for each, and two links for each ordered pair, one per socket.
use crate::fault::{Fault, Scope};
use crate::link::{Copy, Counts, Link, LinkModel};
use consort_types::{Instant, NodeId, Rng};

/// Which of a host's sockets a datagram goes to. Control packets share the data socket when they are multicast and the
/// token socket when they are not, as in the real driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Socket {
    /// Tokens, and control packets for one node.
    Token,
    /// Messages, and control packets for all.
    Data,
}

/// How the network is while nothing is wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkModel {
    /// What leaves a host passes this first, once for a multicast: its rate is that of the host's interface.
    pub uplink: LinkModel,
    /// Then this, to each receiver: what goes to the token socket …
    pub token: LinkModel,
    /// … and what goes to the data socket.
    pub data: LinkModel,
    /// Without multicast a sender sends a datagram for all once for each.
    pub unicast_fanout: bool,
}

/// All links, and what is wrong with them.
#[derive(Debug)]
pub struct Network {
    model: NetworkModel,
    nodes: usize,
    uplinks: Vec<Link>,
    token: Vec<Link>,
    data: Vec<Link>,
}

impl Network {
    /// A network in which nothing is wrong.
    pub fn new(model: NetworkModel, nodes: usize, rng: &mut Rng) -> Self {
        let mut links = |model: &LinkModel, n: usize, salt: u64| {
            (0..n as u64).map(|i| Link::new(model.clone(), rng.fork(salt + i))).collect()
        };
        Self {
            uplinks: links(&model.uplink, nodes, 0),
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

    /// Takes one datagram onto the sender's uplink: when it reaches the switch, or `None` if the interface's queue is
    /// full.
    pub fn leave(&mut self, now: Instant, from: NodeId, len: usize) -> Option<Instant> {
        self.uplinks[usize::from(from.0)].carry(now, len).first().map(|copy| copy.at)
    }

    /// Takes it from the switch to one receiver.
    pub fn cross(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        socket: Socket,
        len: usize,
    ) -> smallvec::SmallVec<[Copy; 2]> {
        let at = usize::from(from.0) * self.nodes + usize::from(to.0);
        match socket {
            Socket::Token => self.token[at].carry(now, len),
            Socket::Data => self.data[at].carry(now, len),
        }
    }

    /// Makes every link what it is while these faults, and no others, are active.
    pub fn suffer(&mut self, faults: &[Fault]) {
        for (socket, links, model) in
            [(Socket::Token, &mut self.token, &self.model.token), (Socket::Data, &mut self.data, &self.model.data)]
        {
            for (link, at) in links.iter_mut().zip(0..) {
                link.model = model.clone();
                let pair = Pair { from: at / self.nodes, to: at % self.nodes };
                faults.iter().for_each(|fault| worsen(&mut link.model, fault, pair, socket));
            }
        }
    }

    /// What all links did so far, each number summed.
    pub fn counts(&self) -> Counts {
        let links = self.uplinks.iter().chain(&self.token).chain(&self.data);
        links.fold(Counts::default(), |sum, link| sum + link.counts())
    }
}

#[derive(Clone, Copy)]
struct Pair {
    from: usize,
    to: usize,
}

fn worsen(model: &mut LinkModel, fault: &Fault, pair: Pair, socket: Socket) {
    if !fault.scope().is_some_and(|scope| pair.is_in(scope)) {
        return;
    }
    match *fault {
        Fault::DataLoss { p, .. } if socket == Socket::Data => model.loss = either(model.loss, p),
        Fault::TokenLoss { p, .. } if socket == Socket::Token => model.loss = either(model.loss, p),
        Fault::Duplicate { p, .. } => model.duplicate = either(model.duplicate, p),
        Fault::Reorder { p, .. } => model.reorder = either(model.reorder, p),
        Fault::Corrupt { p, .. } => model.corrupt = either(model.corrupt, p),
        Fault::Delay { delay, jitter, .. } => {
            model.delay += delay;
            model.jitter += jitter;
        }
        _ => {}
    }
}

/// The probability that one of two independent things happens.
fn either(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

impl Pair {
    fn is_in(self, scope: Scope) -> bool {
        let is = |node: NodeId, index: usize| usize::from(node.0) == index;
        match scope {
            Scope::All => true,
            Scope::From(node) => is(node, self.from),
            Scope::To(node) => is(node, self.to),
            Scope::Between(from, to) => is(from, self.from) && is(to, self.to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Duration;

    fn network() -> Network {
        Network::new(NetworkModel::default(), 3, &mut Rng::new(1))
    }

    fn arrivals(network: &mut Network, from: u16, to: u16, socket: Socket) -> usize {
        let cross = |i| network.cross(Instant(i), NodeId(from), NodeId(to), socket, 100).len();
        (0..1_000).map(cross).sum()
    }

    #[test]
    fn a_fault_touches_only_its_scope_and_socket_and_ends() {
        let mut network = network();
        network.suffer(&[Fault::DataLoss { scope: Scope::To(NodeId(2)), p: 0.5 }]);
        let lossy = arrivals(&mut network, 0, 2, Socket::Data);
        assert!((400..600).contains(&lossy), "{lossy}");
        assert_eq!(arrivals(&mut network, 0, 2, Socket::Token), 1_000);
        assert_eq!(arrivals(&mut network, 0, 1, Socket::Data), 1_000);
        network.suffer(&[]);
        assert_eq!(arrivals(&mut network, 1, 2, Socket::Data), 1_000);
        assert_eq!(network.counts().lost, 1_000 - lossy as u64);
    }

    #[test]
    fn faults_that_overlap_add_up() {
        let mut network = network();
        let scope = Scope::Between(NodeId(0), NodeId(1));
        let spike = Duration::from_millis(3);
        network.suffer(&[
            Fault::Duplicate { scope: Scope::All, p: 0.5 },
            Fault::Duplicate { scope, p: 0.5 },
            Fault::Delay { scope, delay: spike, jitter: Duration::ZERO },
        ]);
        let copies = arrivals(&mut network, 0, 1, Socket::Token);
        assert!((1_650..1_850).contains(&copies), "{copies}");
        let late = network.cross(Instant::ZERO, NodeId(0), NodeId(1), Socket::Token, 9);
        assert_eq!(late[0].at, Instant::ZERO + spike);
    }
}
