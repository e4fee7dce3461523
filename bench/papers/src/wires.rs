//! Rings on a switch: hosts whose processor and sockets are limited, interfaces and switch ports of one rate. What finds no
//! room at a port, an interface or in a socket is lost, and the engine is told of its own sockets, as by the kernel. Where a
//! site has clients, messages come from their processes and go to them, and latency is counted from one to the other.
mod clients;
mod host;
mod work;

pub use clients::{ClientModel, Places};
use consort_order::{Arrival, Destination, Engine, Lane, Output, Payload, Pressure, Submission};
use consort_ring::RingConfig;
use consort_ring::packet::{DataContent, DataPacket, RUN_LEN, RingPacket, TOKEN_LEN};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Rng, ViewKind};
use host::{Host, Message, gauge};
use std::collections::BTreeMap;
pub use work::{Load, Measured, Site, Work};

/// How large messages are, in bytes: one fills a packet.
pub const LEN: usize = 1_350;
/// What UDP, IP and Ethernet add to a datagram, the gap between frames included.
pub const FRAME: usize = 66;
/// What may wait at an interface before its sender waits.
pub const SEND_BUFFER: Duration = Duration::from_micros(500);
/// By when a ring must stand.
const FORMED: Duration = Duration::from_secs(3);

enum Happens {
    AtSwitch { from: usize, to: Destination, flying: Flying },
    Arrive { to: usize, flying: Flying },
    Taken { to: usize, flying: Flying },
    Written { host: usize, written: Instant },
    Wake { host: usize },
}

#[derive(Clone)]
struct Flying {
    from: usize,
    lane: Lane,
    len: usize,
    packet: RingPacket,
}

/// Members, and all that is under way.
pub struct Wires<'a> {
    site: &'a Site,
    work: Work,
    now: Instant,
    tie: u64,
    heap: BTreeMap<(Instant, u64), Happens>,
    hosts: Vec<Host>,
    /// Each message, by its number.
    messages: Vec<Message>,
    next_write: Option<Instant>,
    rng: Rng,
    latencies: Vec<Duration>,
    /// The sum of what a delivery took by both ways of making messages up, and how many there were.
    at_token: (f64, u64),
    delivered: u64,
    measures: bool,
    /// What hosts were given while it measured, if that is kept.
    given: Option<Vec<Given>>,
}

/// A message that another host's member was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Who sent it.
    pub from: usize,
    /// Who was given it.
    pub to: usize,
    /// When it was put into its packet.
    pub sent: Instant,
    /// When it was delivered.
    pub received: Instant,
}

impl<'a> Wires<'a> {
    /// A ring that stands, and under this load.
    ///
    /// # Errors
    /// What is wrong with the settings, or that no ring came about.
    pub fn start(site: &'a Site, members: usize, work: Work, adjust: &dyn Fn(&mut RingConfig)) -> Result<Self, String> {
        let mut rng = Rng::new(7);
        let nodes: Vec<_> = (0..members as u16).map(NodeId).collect();
        let hosts: Result<Vec<_>, String> =
            nodes.iter().map(|me| Host::new(site, *me, &nodes, adjust, &mut rng)).collect();
        let mut wires = Self {
            site,
            work,
            now: Instant::ZERO,
            tie: 0,
            heap: BTreeMap::new(),
            hosts: hosts?,
            messages: Vec::new(),
            next_write: None,
            rng,
            latencies: Vec::new(),
            at_token: (0.0, 0),
            delivered: 0,
            measures: false,
            given: None,
        };
        for host in 0..members {
            wires.hosts[host].engine.start(Instant::ZERO, &[]);
            wires.drain(host);
            wires.schedule_wake(host);
        }
        while wires.hosts.iter().any(|host| host.members < members) {
            if wires.now.since(Instant::ZERO) > FORMED {
                return Err(format!("{members} members are not in one view after {FORMED:?}"));
            }
            wires.run(Duration::from_millis(20));
        }
        wires.begin();
        Ok(wires)
    }

    fn begin(&mut self) {
        match self.work.load {
            Load::Full => (0..self.hosts.len()).for_each(|host| self.schedule_wake(host)),
            Load::Rate(_) => self.next_write = Some(self.now),
        }
    }

    /// Lets time pass without measuring, then measures.
    pub fn measure(&mut self, before: Duration, span: Duration) -> Measured {
        self.run(before);
        let (sent, again) = (self.sum("packets_sent"), self.sum("retransmissions_sent"));
        let (views, tokens) = (self.hosts[0].views, self.hosts[0].tokens);
        self.measures = true;
        self.run(span);
        self.measures = false;
        let sent = (self.sum("packets_sent") - sent).max(1);
        self.latencies.sort_unstable();
        let n = self.latencies.len();
        let mean = self.latencies.iter().sum::<Duration>().as_secs_f64() / n.max(1) as f64;
        let p99 = self.latencies.get(n * 99 / 100).copied().unwrap_or_default();
        let per_member = self.delivered as f64 / self.work.places.receivers(self.hosts.len()) as f64;
        Measured {
            mbits: per_member * (self.work.len * 8) as f64 / span.as_secs_f64() / 1e6,
            mean_us: mean * 1e6,
            p99_us: p99.as_secs_f64() * 1e6,
            token_us: self.at_token.0 / self.at_token.1 as f64 * 1e6,
            rotation_us: span.as_secs_f64() * 1e6 / (self.hosts[0].tokens - tokens) as f64,
            again: (self.sum("retransmissions_sent") - again) as f64 * 100.0 / sent as f64,
            broken: self.hosts[0].views - views,
            window: gauge(&self.hosts[0].engine, "personal_window"),
        }
    }

    /// What hosts were given of others within a span, in order of time.
    pub fn given(&mut self, before: Duration, span: Duration) -> Vec<Given> {
        self.given = Some(Vec::new());
        self.measure(before, span);
        let mut given = self.given.take().unwrap_or_default();
        given.sort_by_key(|message| message.received);
        given
    }

    fn sum(&self, name: &str) -> u64 {
        self.hosts.iter().map(|host| gauge(&host.engine, name)).sum()
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let next = self.heap.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = next.into_iter().chain(self.next_write).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if self.next_write == Some(at) {
                self.write();
            } else if let Some((_, happens)) = self.heap.pop_first() {
                self.happen(happens);
            }
        }
        self.now = end;
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::AtSwitch { from, to, flying } => self.at_switch(from, to, &flying),
            Happens::Arrive { to, flying } => self.arrive(to, flying),
            Happens::Taken { to, flying } => self.take(to, flying),
            Happens::Written { host, written } => self.want(host, written),
            Happens::Wake { host } => self.wake(host),
        }
    }

    /// A client somewhere wants to send.
    fn write(&mut self) {
        let Load::Rate(rate) = self.work.load else { return };
        let senders = self.work.places.senders(self.hosts.len());
        let (now, host) = (self.now, senders[self.rng.below(senders.len() as u64) as usize]);
        self.next_write = Some(now + Duration::from_nanos(self.rng.exponential(1e9 / rate) as u64 + 1));
        match &self.site.clients {
            Some(model) => {
                let takes = model.at_client(self.work.len);
                let at = self.hosts[host].sender.work(now, Duration::ZERO, takes);
                self.schedule(at, Happens::Written { host, written: now });
                if model.share {
                    self.hosts[host].busy(now, takes);
                }
            }
            None => self.want(host, now),
        }
    }

    /// A message of a client can be read.
    fn want(&mut self, host: usize, written: Instant) {
        self.rouse(host);
        self.hosts[host].wants.push_back(written);
        self.schedule_wake(host);
    }

    fn at_switch(&mut self, from: usize, to: Destination, flying: &Flying) {
        for host in 0..self.hosts.len() {
            if host == from || (to != Destination::All && to != Destination::One(NodeId(host as u16))) {
                continue;
            }
            let copies = self.hosts[host].port.carry(self.now, flying.len + FRAME);
            for copy in copies {
                self.schedule(copy.at, Happens::Arrive { to: host, flying: flying.clone() });
            }
        }
    }

    /// A packet is at an interface.
    fn arrive(&mut self, to: usize, flying: Flying) {
        let Some(core) = &self.site.host.core else { return self.take(to, flying) };
        if let Some(at) = self.hosts[to].core.take(core, self.now, flying.len) {
            self.schedule(at, Happens::Taken { to, flying });
        }
    }

    /// A packet is put into its socket.
    fn take(&mut self, to: usize, flying: Flying) {
        self.rouse(to);
        let host = &mut self.hosts[to];
        let takes = flying.len + self.site.host.overhead;
        let socket = if flying.lane == Lane::Token { &mut host.token } else { &mut host.data };
        if socket.bytes + takes > self.site.host.socket {
            host.ran_over = true;
            return;
        }
        socket.bytes += takes;
        socket.waiting.push_back((self.now, flying));
        self.schedule_wake(to);
    }

    /// Something is about to come for a daemon. If it sleeps, it runs a little later.
    fn rouse(&mut self, at: usize) {
        let (now, wake) = (self.now, self.site.host.wake);
        let host = &mut self.hosts[at];
        if host.free <= now && !host.has_work(at, now, &self.work) {
            host.free = now + wake;
        }
    }

    /// One thing is done: a timer, a packet, or a client's message.
    fn wake(&mut self, at: usize) {
        let now = self.now;
        let host = &mut self.hosts[at];
        host.wake = None;
        if host.free <= now {
            host.free = now;
            self.act(at);
            self.drain(at);
        }
        self.schedule_wake(at);
    }

    fn act(&mut self, at: usize) {
        let (now, model) = (self.now, &self.site.host);
        let host = &mut self.hosts[at];
        if host.engine.poll_timeout().is_some_and(|due| due <= now) {
            host.free += model.timer;
            return host.engine.handle_timeout(now);
        }
        if host.looks_at_clients(self.site.clients.as_ref()) && self.serve_clients(at) {
            return;
        }
        let host = &mut self.hosts[at];
        if let Some((arrived, flying)) = host.next_packet(model) {
            host.in_row += 1;
            host.free += model.receive + model.bytes(flying.len);
            if std::mem::take(&mut host.ran_over) {
                host.engine.handle_pressure(Pressure::Overflow);
            }
            if matches!(flying.packet, RingPacket::Token(_)) {
                host.visit = (now, host.released);
                host.tokens += 1;
            }
            let arrival = Arrival { at: arrived, from: name(flying.from), lane: flying.lane };
            host.engine.handle_packet(now, arrival, flying.packet);
        }
    }

    /// What goes to a client is written on, and what comes from one is read on. Returns whether there was anything to do.
    fn serve_clients(&mut self, at: usize) -> bool {
        let (now, clients) = (self.now, self.site.clients.as_ref());
        self.hosts[at].in_row = 0;
        let writes = !self.hosts[at].out.is_empty();
        if writes {
            self.write_on(at);
        }
        let host = &mut self.hosts[at];
        if !host.may_submit(at, now, &self.work) {
            return writes;
        }
        host.free += self.site.host.message;
        if clients.is_none_or(|clients| host.read_client(now, clients, &self.work)) {
            let written = host.wants.pop_front().unwrap_or(now);
            self.messages.push(Message { written, visit: None, left: None });
            self.submit(at);
        }
        true
    }

    fn submit(&mut self, at: usize) {
        let number = self.messages.len() - 1;
        let mut bytes = (number as u64).to_le_bytes().to_vec();
        bytes.resize(self.work.len, 0);
        let (service, payload) = (self.work.service, Payload::from(bytes::Bytes::from(bytes)));
        let submission = Submission { class: Class::Client, service, stream: OrderStream(0), payload };
        let host = &mut self.hosts[at];
        // What is refused was not sent: the load is more than the ring takes.
        if host.engine.submit(self.now, submission).is_ok() {
            host.ahead += 1;
            host.unsent.push_back(number);
        }
    }

    fn drain(&mut self, at: usize) {
        while let Some(output) = self.hosts[at].engine.poll_output() {
            let host = &mut self.hosts[at];
            match output {
                Output::Send { to, lane, packet } => self.send(at, to, lane, packet),
                Output::Persist { ticket, .. } => host.engine.handle_persisted(self.now, ticket),
                Output::Install(view) if view.kind == ViewKind::Regular => {
                    host.members = view.members.len();
                    host.views += 1;
                    host.engine.resume(self.now, view.id);
                }
                Output::Deliver(delivery) => self.deliver(at, &delivery.payload, delivery.id.is_some()),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, at: usize, payload: &Payload, own: bool) {
        let site = self.site;
        let host = &mut self.hosts[at];
        host.free += site.host.message;
        host.ahead -= usize::from(own);
        if !self.work.places.receive(at) {
            return;
        }
        if site.clients.is_none() {
            let given = host.free;
            self.keep(at, number(payload), given);
            return self.give(number(payload), given);
        }
        host.out.push_back((number(payload), 0));
        if host.out.len() == 1 {
            self.write_on(at);
        }
    }

    /// A daemon writes on to its client.
    fn write_on(&mut self, at: usize) {
        let Some(clients) = &self.site.clients else { return };
        let written = self.hosts[at].write_client(clients, self.site.host.wake, self.work.len);
        if let Some((number, given)) = written {
            self.give(number, given);
        }
    }

    /// Keeps what a member was given of another's.
    fn keep(&mut self, to: usize, number: u64, received: Instant) {
        let left = self.messages[number as usize].left.filter(|(from, _)| self.measures && *from != to);
        if let (Some((from, sent)), Some(given)) = (left, &mut self.given) {
            given.push(Given { from, to, sent, received });
        }
    }

    /// A message is where it is read.
    fn give(&mut self, number: u64, given: Instant) {
        if !self.measures {
            return;
        }
        let message = self.messages[number as usize];
        self.delivered += 1;
        self.latencies.push(given.since(message.written));
        if let Some((taken, before)) = message.visit {
            let both = given.since(taken) + given.since(before);
            self.at_token = (self.at_token.0 + both.as_secs_f64() / 2.0, self.at_token.1 + 1);
        }
    }

    fn send(&mut self, at: usize, to: Destination, lane: Lane, packet: RingPacket) {
        let len = len(&packet);
        self.note_visit(at, &packet);
        let host = &mut self.hosts[at];
        host.free += self.site.host.send + self.site.host.bytes(len);
        let lane = if matches!(to, Destination::One(_)) { Lane::Token } else { lane };
        let left = host.uplink.carry(host.free, len + FRAME).first().map_or(host.free, |copy| copy.at);
        host.free = host.free.max(Instant(left.0.saturating_sub(SEND_BUFFER.as_nanos() as u64)));
        if matches!(packet, RingPacket::Token(_)) {
            host.released = host.free;
        }
        let flying = Flying { from: at, lane, len, packet };
        self.schedule(left, Happens::AtSwitch { from: at, to, flying });
    }

    /// What of its own a host sends for the first time belongs to its present visit.
    fn note_visit(&mut self, at: usize, packet: &RingPacket) {
        let RingPacket::Data(DataPacket { retransmission: false, content: DataContent::Messages(body), .. }) = packet
        else {
            return;
        };
        let host = &mut self.hosts[at];
        let ended = body.chunks().filter(|chunk| chunk.ends).count().min(host.unsent.len());
        for number in host.unsent.drain(..ended) {
            self.messages[number].visit = Some(host.visit);
            self.messages[number].left = Some((at, host.free));
        }
    }

    fn schedule(&mut self, at: Instant, happens: Happens) {
        self.tie += 1;
        self.heap.insert((at, self.tie), happens);
    }

    fn schedule_wake(&mut self, at: usize) {
        let (now, work) = (self.now, self.work);
        let host = &mut self.hosts[at];
        let works = host.has_work(at, now, &work);
        let later = || host.may_submit_at(at, &work).into_iter().chain(host.engine.poll_timeout()).min();
        let due = if works { Some(now) } else { later() };
        let Some(due) = due.map(|due| due.max(host.free).max(now)) else { return };
        if host.wake.is_none_or(|wake| due < wake) {
            host.wake = Some(due);
            self.schedule(due, Happens::Wake { host: at });
        }
    }
}

/// The datagram's bytes. What membership packets take hardly matters.
pub fn len(packet: &RingPacket) -> usize {
    let bare = match packet {
        RingPacket::Data(data) => data.wire_len(),
        RingPacket::Token(token) => TOKEN_LEN + RUN_LEN * token.requests.runs(),
        _ => 200,
    };
    consort_wire::envelope::LEN + bare
}

fn name(member: usize) -> MemberId {
    MemberId { node: NodeId(member as u16), incarnation: Incarnation(1) }
}

fn number(payload: &Payload) -> u64 {
    payload.read_from(0).take().map_or(0, u64::from_le_bytes)
}
