//! A host on the wires: one processor that everything waits for, and sockets of limited room.
use super::{Flying, Load, Site, Work};
use consort_order::{Engine, Lane, each_counter};
use consort_ring::{Ring, RingConfig};
use consort_sim::HostModel;
use consort_sim::link::{LinkModel, SimLink};
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};
use std::collections::VecDeque;

/// How many own messages a member has under way at most while it always has more to send.
const AHEAD: usize = 1_000;

#[derive(Clone, Copy)]
pub struct Message {
    /// When its client wrote it.
    pub written: Instant,
    /// When its sender took the token for the visit in which it was sent, and when it had released the token before.
    pub visit: Option<(Instant, Instant)>,
}

pub struct Host {
    pub engine: Ring,
    pub members: usize,
    pub views: u64,
    pub free: Instant,
    pub wake: Option<Instant>,
    pub token: Socket,
    pub data: Socket,
    pub ran_over: bool,
    pub uplink: SimLink,
    pub port: SimLink,
    /// Messages that clients want to send: when each was written.
    pub wants: VecDeque<Instant>,
    /// Own messages that were submitted and not yet delivered.
    pub ahead: usize,
    /// Own messages that were submitted and not yet sent, by their numbers.
    pub unsent: VecDeque<usize>,
    /// When it took the token last, when it had released it before, and when it released it last.
    pub visit: (Instant, Instant),
    pub released: Instant,
    /// How often it took the token.
    pub tokens: u64,
    pub client_is_next: bool,
}

#[derive(Default)]
pub struct Socket {
    pub waiting: VecDeque<(Instant, Flying)>,
    pub bytes: usize,
}

impl Host {
    pub fn new(
        site: &Site,
        me: NodeId,
        nodes: &[NodeId],
        adjust: &dyn Fn(&mut RingConfig),
        rng: &mut Rng,
    ) -> Result<Self, String> {
        let mut config = RingConfig::new(me, nodes.to_vec());
        let share = config.datagram.get() as f64 / (config.datagram.get() + site.host.overhead) as f64;
        config.receive_room = (site.host.socket as f64 * share) as usize;
        adjust(&mut config);
        let engine = Ring::new(config, Incarnation(1)).map_err(|error| error.to_string())?;
        let link = LinkModel { rate: Some(site.rate), delay: site.delay, ..LinkModel::default() };
        let port = LinkModel { queue: site.port, loss: site.loss, ..link.clone() };
        Ok(Self {
            engine,
            members: 0,
            views: 0,
            free: Instant::ZERO,
            wake: None,
            token: Socket::default(),
            data: Socket::default(),
            ran_over: false,
            uplink: SimLink::new(link, rng.fork(u64::from(me.0))),
            port: SimLink::new(port, rng.fork(1 << 32 | u64::from(me.0))),
            wants: VecDeque::new(),
            ahead: 0,
            unsent: VecDeque::new(),
            visit: (Instant::ZERO, Instant::ZERO),
            released: Instant::ZERO,
            tokens: 0,
            client_is_next: false,
        })
    }

    pub fn has_packets(&self) -> bool {
        !(self.token.waiting.is_empty() && self.data.waiting.is_empty())
    }

    pub fn may_submit(&self, at: usize, work: &Work) -> bool {
        match work.load {
            Load::Full => at < work.senders && self.members > 1 && self.ahead < AHEAD,
            Load::Rate(_) => !self.wants.is_empty(),
        }
    }

    pub fn next_packet(&mut self, model: &HostModel) -> Option<(Instant, Flying)> {
        let token_first = self.engine.reads_first() == Lane::Token;
        let from_token = !self.token.waiting.is_empty() && (token_first || self.data.waiting.is_empty());
        let socket = if from_token { &mut self.token } else { &mut self.data };
        let taken = socket.waiting.pop_front();
        socket.bytes -= taken.as_ref().map_or(0, |(_, flying)| flying.len + model.overhead);
        taken
    }
}

pub fn gauge(engine: &Ring, name: &str) -> u64 {
    let mut found = 0;
    each_counter(engine, Instant::ZERO, &mut |known, value| found = if known == name { value } else { found });
    found
}

pub fn per_byte(model: &HostModel, len: usize) -> Duration {
    Duration::from_nanos(len as u64 * model.picos_per_byte / 1_000)
}
