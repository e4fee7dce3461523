//! A node: a processor, and an interface with two sockets in each of its rings.
use super::{Flying, Plan};
use consort_multiring::{Config, MultiRing, RingNodes, RingNumber};
use consort_order::{Engine, Lane};
use consort_sim::HostModel;
use consort_sim::link::{LinkModel, SimLink};
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};
use std::collections::{BTreeMap, VecDeque};

pub struct Host {
    pub engine: MultiRing,
    pub members: usize,
    pub views: u64,
    pub free: Instant,
    pub wake: Option<Instant>,
    /// For how long its processor was busy.
    pub busy: Duration,
    /// It always has a message to send.
    pub sends: bool,
    /// Messages to be sent: when each was made up.
    pub wants: VecDeque<Instant>,
    /// Own messages that were submitted and not yet handed out here.
    pub ahead: usize,
    /// A socket had no room.
    pub ran_over: bool,
    message_is_next: bool,
    interfaces: BTreeMap<RingNumber, Interface>,
}

struct Interface {
    uplink: SimLink,
    port: SimLink,
    token: Socket,
    data: Socket,
}

#[derive(Default)]
struct Socket {
    waiting: VecDeque<(Instant, Flying)>,
    bytes: usize,
}

impl Host {
    pub fn new(plan: &Plan<'_>, me: NodeId, rings: &[RingNodes], rng: &mut Rng) -> Result<Self, String> {
        let mut config = Config::new(me, rings.to_vec());
        (plan.adjust)(&mut config);
        let (datagram, model) = (config.ring.datagram.get(), &plan.site.host);
        let share = datagram as f64 / (datagram + model.overhead) as f64;
        config.ring.receive_room = (model.socket as f64 * share) as usize;
        let link = LinkModel { rate: Some(plan.site.rate), delay: plan.site.delay, ..LinkModel::default() };
        let port = LinkModel { queue: plan.site.port, loss: plan.site.loss, ..link.clone() };
        let mut interface = |ring: &RingNodes| {
            let draw = u64::from(ring.id.0) << 16 | u64::from(me.0);
            let (up, down) = (rng.fork(draw), rng.fork(1 << 32 | draw));
            let (uplink, port) = (SimLink::new(link.clone(), up), SimLink::new(port.clone(), down));
            (ring.id, Interface { uplink, port, token: Socket::default(), data: Socket::default() })
        };
        Ok(Self {
            interfaces: rings.iter().filter(|ring| ring.nodes.contains(&me)).map(&mut interface).collect(),
            engine: MultiRing::new(config, Incarnation(1)).map_err(|error| error.to_string())?,
            members: 0,
            views: 0,
            free: Instant::ZERO,
            wake: None,
            busy: Duration::ZERO,
            sends: false,
            wants: VecDeque::new(),
            ahead: 0,
            ran_over: false,
            message_is_next: false,
        })
    }

    /// The rings that it stands in.
    pub fn rings(&self) -> Vec<RingNumber> {
        self.interfaces.keys().copied().collect()
    }

    /// Whether it stands in several rings.
    pub fn is_gateway(&self) -> bool {
        self.interfaces.len() > 1
    }

    fn has_packets(&self) -> bool {
        self.interfaces
            .values()
            .any(|interface| !(interface.token.waiting.is_empty() && interface.data.waiting.is_empty()))
    }

    pub fn has_work(&self, now: Instant, most: usize) -> bool {
        self.has_packets() || self.may_submit(now, most)
    }

    fn may_submit(&self, now: Instant, most: usize) -> bool {
        self.sends && self.ahead < most || self.wants.front().is_some_and(|written| *written <= now)
    }

    /// When the message was made up that is to be submitted now: messages and packets take turns.
    pub fn next_message(&mut self, now: Instant, most: usize) -> Option<Instant> {
        self.message_is_next = !self.message_is_next;
        if !self.may_submit(now, most) || !self.message_is_next && self.has_packets() {
            return None;
        }
        Some(self.wants.pop_front().unwrap_or(now))
    }

    /// Puts a packet into its socket; one that finds no room is lost.
    pub fn take(&mut self, now: Instant, flying: Flying, model: &HostModel) {
        let Some(interface) = self.interfaces.get_mut(&flying.ring) else { return };
        let socket = if flying.lane == Lane::Token { &mut interface.token } else { &mut interface.data };
        let takes = flying.len + model.overhead;
        if socket.bytes + takes <= model.socket {
            socket.bytes += takes;
            socket.waiting.push_back((now, flying));
        } else {
            self.ran_over = true;
        }
    }

    /// That of the lane that goes first which came first, on whichever ring.
    pub fn next_packet(&mut self, model: &HostModel) -> Option<(Instant, Flying)> {
        let first = self.engine.reads_first() == Lane::Token;
        let (tokens, data): (Vec<_>, Vec<_>) =
            self.interfaces.values_mut().map(|interface| (&mut interface.token, &mut interface.data)).unzip();
        let lanes = if first { [tokens, data] } else { [data, tokens] };
        let earliest = |lane: Vec<_>| {
            let waiting = lane.into_iter().filter_map(|socket: &mut Socket| Some((socket.waiting.front()?.0, socket)));
            waiting.min_by_key(|(at, _)| *at).map(|(_, socket)| socket)
        };
        let socket = lanes.into_iter().find_map(earliest)?;
        let (at, flying) = socket.waiting.pop_front()?;
        socket.bytes -= flying.len + model.overhead;
        Some((at, flying))
    }

    /// When a packet that its switch has now is at this node; never where there is no room.
    pub fn through_port(&mut self, now: Instant, ring: RingNumber, len: usize) -> Option<Instant> {
        let port = &mut self.interfaces.get_mut(&ring)?.port;
        port.carry(now, len).first().map(|copy| copy.at)
    }

    /// When a packet that is written once the processor is free has left.
    pub fn through_uplink(&mut self, ring: RingNumber, len: usize) -> Instant {
        let Some(interface) = self.interfaces.get_mut(&ring) else { return self.free };
        interface.uplink.carry(self.free, len).first().map_or(self.free, |copy| copy.at)
    }
}
