//! A host on the wires: a processor that runs its daemon, sockets of limited room, and clients.
use super::clients::{Client, ClientModel};
use super::{Flying, Load, Site, Work};
use consort_order::{Engine, Lane, each_counter};
use consort_ring::{Ring, RingConfig};
use consort_sim::link::{LinkModel, SimLink};
use consort_sim::{HostModel, NetworkCore};
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};
use std::collections::VecDeque;

/// How many own messages a member has under way at most while it always has more to send.
const AHEAD: usize = 1_000;
/// And how many bytes of them.
const AHEAD_BYTES: usize = 2 << 20;

#[derive(Clone, Copy)]
pub struct Message {
    /// When its client wrote it.
    pub written: Instant,
    /// When its sender took the token for the visit in which it was sent, and when it had released the token before.
    pub visit: Option<(Instant, Instant)>,
    /// Which host sent it, and when.
    pub left: Option<(usize, Instant)>,
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
    pub core: NetworkCore,
    pub sender: Client,
    pub receiver: Client,
    /// Messages that the daemon has yet to write to its client: their numbers, and how much of each is written.
    pub out: VecDeque<(u64, usize)>,
    /// How much of a client's message is read.
    pub read: usize,
    /// How many packets it read since it looked at its clients last.
    pub in_row: u32,
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
            core: NetworkCore::default(),
            sender: Client::default(),
            receiver: Client::default(),
            out: VecDeque::new(),
            read: 0,
            in_row: 0,
        })
    }

    pub fn has_packets(&self) -> bool {
        !(self.token.waiting.is_empty() && self.data.waiting.is_empty())
    }

    pub fn has_work(&self, at: usize, now: Instant, work: &Work) -> bool {
        self.has_packets() || !self.out.is_empty() || self.may_submit(at, now, work)
    }

    pub fn may_submit(&self, at: usize, now: Instant, work: &Work) -> bool {
        self.may_submit_at(at, work).is_some_and(|ready| ready <= now)
    }

    /// When there is a message to submit.
    pub fn may_submit_at(&self, at: usize, work: &Work) -> Option<Instant> {
        let takes_more = || {
            let most = AHEAD.min((AHEAD_BYTES / work.len).max(2));
            work.places.send(at) && self.members > 1 && self.ahead < most
        };
        match work.load {
            Load::Full => takes_more().then_some(self.sender.free),
            Load::Rate(_) => self.wants.front().copied(),
        }
    }

    /// Whether it is the turn of clients: without processes of their own they and packets take turns.
    pub fn looks_at_clients(&mut self, model: Option<&ClientModel>) -> bool {
        let packets = self.has_packets();
        if let Some(model) = model {
            return !packets || self.in_row >= model.packets;
        }
        self.client_is_next = !self.client_is_next;
        self.client_is_next || !packets
    }

    /// The processor is busy with something else for so long.
    pub fn busy(&mut self, now: Instant, takes: Duration) {
        self.free = self.free.max(now) + takes;
    }

    /// The daemon reads on in a message of its client. Returns whether it has all of it.
    pub fn read_client(&mut self, now: Instant, model: &ClientModel, work: &Work) -> bool {
        let piece = model.piece.min(work.len - self.read);
        self.free += model.at_daemon(self.read, piece);
        self.read += piece;
        if self.read < work.len {
            return false;
        }
        self.read = 0;
        let takes = model.at_client(work.len);
        if work.load == Load::Full && model.share {
            self.free += takes;
        } else if work.load == Load::Full {
            self.sender.write_on(now, takes, (model.room / work.len).max(1));
        }
        true
    }

    /// The daemon writes on in what is for its client. Returns the message that is written, and when the client has read it.
    pub fn write_client(&mut self, model: &ClientModel, wake: Duration, len: usize) -> Option<(u64, Instant)> {
        let (number, written) = self.out.front_mut()?;
        let (number, piece) = (*number, model.piece.min(len - *written));
        self.free += model.at_daemon(*written, piece);
        *written += piece;
        if *written < len {
            return None;
        }
        self.out.pop_front();
        if model.share {
            self.free += model.at_client(len);
            return Some((number, self.free));
        }
        Some((number, self.receiver.work(self.free, wake, model.at_client(len))))
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
