//! A daemon's process: packets, timers and clients in turn, as the driver takes them.
use super::{Class, Duration, Instant, NodeId, OrderStream, Service, takes};
use super::{Destination, Event, Flying, Lane, Machine, Payload, RingPacket, Submission};
use crate::wires;
use consort_order::{Arrival, Engine, Output, Pressure};
use consort_ring::{Ring, RingConfig};
use consort_types::{Incarnation, MemberId, ViewKind};
use std::collections::VecDeque;

/// As in the driver: so many packets before clients have their turn, and so many bytes leave without waiting for more.
const PACKETS: u32 = 256;
const FULL: usize = 1 << 16;
/// How many messages of clients it reads in one go.
const READS: usize = 256;
/// What a node puts before a client's message, about.
const HEADER: usize = 16;

pub struct Daemon {
    pub engine: Ring,
    pub members: usize,
    /// Messages that clients wrote, and those that are for clients.
    pub written: VecDeque<usize>,
    out: Vec<usize>,
    token: Socket,
    data: Socket,
    room: usize,
    ran_over: bool,
    /// How many packets it took since it looked at its clients.
    in_row: u32,
    /// Whether it looked at its timers since then.
    timed: bool,
    outbox: Vec<(Destination, Flying)>,
    /// When its timer wakes it.
    timer: Option<Instant>,
}

/// What the kernel holds, and what was read of it.
#[derive(Default)]
struct Socket {
    waiting: VecDeque<Flying>,
    bytes: usize,
    read: VecDeque<Flying>,
}

impl Daemon {
    pub fn new(me: NodeId, nodes: &[NodeId], room: usize) -> Result<Self, String> {
        let config = RingConfig { receive_room: room, ..RingConfig::new(me, nodes.to_vec()) };
        Ok(Self {
            engine: Ring::new(config, Incarnation(1)).map_err(|error| error.to_string())?,
            members: 0,
            written: VecDeque::new(),
            out: Vec::new(),
            token: Socket::default(),
            data: Socket::default(),
            room,
            ran_over: false,
            in_row: 0,
            timed: false,
            outbox: Vec::new(),
            timer: None,
        })
    }

    pub fn arrive(&mut self, flying: Flying) {
        let socket = if flying.lane == Lane::Token { &mut self.token } else { &mut self.data };
        if socket.bytes + flying.len > self.room {
            self.ran_over = true;
            return;
        }
        socket.bytes += flying.len;
        socket.waiting.push_back(flying);
    }

    fn has_packets(&self) -> bool {
        [&self.token, &self.data].iter().any(|socket| !(socket.waiting.is_empty() && socket.read.is_empty()))
    }

    fn is_due(&self, now: Instant) -> bool {
        self.engine.poll_timeout().is_some_and(|due| due <= now)
    }

    pub fn has_work(&self, now: Instant) -> bool {
        let clients = !(self.written.is_empty() && self.out.is_empty() && self.outbox.is_empty());
        clients || self.has_packets() || self.is_due(now)
    }

    /// When its timer is to wake it, if that is to be earlier than planned.
    pub fn next_timer(&mut self, now: Instant) -> Option<Instant> {
        let due = self.engine.poll_timeout()?.max(now);
        let planned = self.timer.filter(|timer| *timer > now);
        self.timer = Some(planned.map_or(due, |planned| planned.min(due)));
        planned.is_none_or(|planned| due < planned).then_some(due)
    }

    /// The next packet, of the lane that goes first, and whether the kernel was called for it.
    fn next_packet(&mut self) -> Option<(Flying, bool)> {
        let token_first = self.engine.reads_first() == Lane::Token;
        let Self { token, data, .. } = self;
        let lanes = if token_first { [token, data] } else { [data, token] };
        lanes.into_iter().find_map(|socket| {
            let called = socket.read.is_empty() && !socket.waiting.is_empty();
            if called {
                std::mem::swap(&mut socket.read, &mut socket.waiting);
                socket.bytes = 0;
            }
            socket.read.pop_front().map(|flying| (flying, called))
        })
    }
}

impl Machine<'_> {
    /// A daemon does one thing. Returns how long that takes.
    pub fn serve(&mut self, at: usize) -> Duration {
        let now = self.now;
        let daemon = &mut self.daemons[at];
        if daemon.in_row < PACKETS
            && let Some((flying, called)) = daemon.next_packet()
        {
            daemon.in_row += 1;
            let took = self.take(at, flying, called);
            return if self.is_urgent(at) { self.leave(at, took) } else { took };
        }
        if !daemon.timed && daemon.is_due(now) {
            daemon.timed = true;
            daemon.engine.handle_timeout(now);
            self.drain(at);
            return self.leave(at, Duration::ZERO);
        }
        (daemon.in_row, daemon.timed) = (0, false);
        let took = self.leave(at, Duration::ZERO);
        let took = self.tell(at, took);
        let took = self.hear(at, took);
        self.leave(at, took)
    }

    /// A packet is handed to the engine.
    fn take(&mut self, at: usize, flying: Flying, called: bool) -> Duration {
        let (now, costs) = (self.now, &self.host.daemon);
        let took = takes(costs.packet_in_us, 1, costs.packet_byte_ns, flying.len)
            + takes(self.host.machine.call_us, usize::from(called), 0.0, 0);
        let daemon = &mut self.daemons[at];
        if std::mem::take(&mut daemon.ran_over) {
            daemon.engine.handle_pressure(Pressure::Overflow);
        }
        let from = MemberId { node: NodeId(flying.from as u16), incarnation: Incarnation(1) };
        daemon.engine.handle_packet(now, Arrival { at: now, from, lane: flying.lane }, flying.packet);
        self.drain(at);
        took
    }

    /// What clients wrote is submitted.
    fn hear(&mut self, at: usize, took: Duration) -> Duration {
        let (costs, len) = (&self.host.daemon, self.work.len);
        let daemon = &mut self.daemons[at];
        let count = daemon.written.len().min(READS);
        for number in daemon.written.drain(..count) {
            let mut bytes = (number as u64).to_le_bytes().to_vec();
            bytes.resize(len + HEADER, 0);
            let payload = Payload::from(bytes::Bytes::from(bytes));
            let (service, stream) = (Service::Agreed, OrderStream(0));
            let submission = Submission { class: Class::Client, service, stream, payload };
            // Credit bounds what is under way far below what the engine takes.
            let _ = daemon.engine.submit(self.now, submission);
        }
        self.drain(at);
        took + takes(costs.message_in_us, count, costs.message_in_byte_ns, count * len)
    }

    /// Clients are given what was delivered, and their senders may go on.
    fn tell(&mut self, at: usize, mut took: Duration) -> Duration {
        let (costs, work) = (&self.host.daemon, self.work);
        let out = std::mem::take(&mut self.daemons[at].out);
        if out.is_empty() {
            return took;
        }
        for receiver in (at..work.receivers).step_by(work.daemons) {
            took += takes(costs.message_out_us, out.len(), costs.message_out_byte_ns, out.len() * work.len);
            took += self.call(work.daemons + work.senders + receiver);
            self.schedule(self.now + took, Event::Given(receiver, out.clone()));
        }
        for sender in (at..work.senders).step_by(work.daemons) {
            let own = out.iter().filter(|number| self.messages[**number].sender == sender).count();
            if own > 0 {
                took += if work.rate.is_none() { self.call(work.daemons + sender) } else { Duration::ZERO };
                self.schedule(self.now + took, Event::Credit(sender, own * work.len));
            }
        }
        took
    }

    fn drain(&mut self, at: usize) {
        let now = self.now;
        let daemon = &mut self.daemons[at];
        while let Some(output) = daemon.engine.poll_output() {
            match output {
                Output::Send { to, lane, packet } => {
                    let lane = if matches!(to, Destination::One(_)) { Lane::Token } else { lane };
                    let len = wires::len(&packet);
                    daemon.outbox.push((to, Flying { from: at, lane, len, packet }));
                }
                Output::Persist { ticket, .. } => daemon.engine.handle_persisted(now, ticket),
                Output::Install(view) if view.kind == ViewKind::Regular => {
                    daemon.members = view.members.len();
                    daemon.engine.resume(now, view.id);
                }
                Output::Deliver(delivery) => daemon.out.extend(number(&delivery.payload)),
                _ => {}
            }
        }
    }

    /// Whether waiting for more would gain nothing.
    fn is_urgent(&self, at: usize) -> bool {
        let outbox = &self.daemons[at].outbox;
        let bytes: usize = outbox.iter().map(|(_, flying)| flying.len).sum();
        bytes >= FULL || outbox.iter().any(|(_, flying)| matches!(flying.packet, RingPacket::Token(_)))
    }

    /// What waits leaves: packets to the same place with one call for so many bytes.
    fn leave(&mut self, at: usize, mut took: Duration) -> Duration {
        let (costs, call) = (&self.host.daemon, self.host.machine.call_us);
        let outbox = std::mem::take(&mut self.daemons[at].outbox);
        for run in outbox.chunk_by(|one, other| one.0 == other.0 && one.1.lane == other.1.lane) {
            let bytes: usize = run.iter().map(|(_, flying)| flying.len).sum();
            took += takes(call, bytes.div_ceil(FULL), 0.0, 0);
            took += takes(costs.packet_out_us, run.len(), costs.packet_byte_ns, bytes);
            let is_for = |to: Destination, other: usize| {
                other != at && (to == Destination::All || to == Destination::One(NodeId(other as u16)))
            };
            let others = |to| (0..self.work.daemons).filter(move |other| is_for(to, *other));
            let asleep = others(run[0].0).filter(|other| self.cores.sleeps(*other)).count();
            took += takes(self.host.machine.kick_us, asleep.min(self.asleep_cores()), 0.0, 0);
            for (to, flying) in run {
                for other in (0..self.work.daemons).filter(|other| is_for(*to, *other)) {
                    self.schedule(self.now + took, Event::Arrive(other, flying.clone()));
                }
            }
        }
        took
    }
}

fn number(payload: &Payload) -> Option<usize> {
    payload.read_from(0).take().map(|bytes| u64::from_le_bytes(bytes) as usize)
}
