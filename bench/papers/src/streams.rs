//! Multi-Ring Paxos over streams that lose nothing: servers whose interfaces have one rate, and processes whose cores take time
//! for each packet. Messages come from clients at the processes, and what is handed out at some of them is noted.
mod faults;
mod host;
mod plan;

use bytes::{Bytes, BytesMut};
use consort_multiring_paxos::packet::Packet;
use consort_order::{Arrival, Delivery, Destination, Engine, Lane, Link, Output, Payload, Submission};
use consort_types::{Class, Duration, Instant, MemberId, NodeId, OrderStream, Rng, Service, ViewKind};
use consort_wire::Packet as _;
use host::{Frame, Host, Interface};
pub use plan::{Load, Plan, Process, Site};
use plan::{node, process};
use std::collections::BTreeMap;

/// Processes start within this time: a beat.
const STARTS: Duration = Duration::from_millis(25);
/// By when all rings must stand, and for how long they are left alone then.
const FORMED: Duration = Duration::from_secs(8);
const SETTLED: Duration = Duration::from_millis(300);

enum Happens {
    Start {
        process: usize,
    },
    Timer {
        process: usize,
    },
    /// A packet is written into its stream.
    Written {
        frame: Frame,
    },
    /// It reaches the interface of its receiver.
    Reaches {
        frame: Frame,
    },
    /// It is there.
    Arrives {
        frame: Frame,
    },
    /// It is read.
    Read {
        process: usize,
        ring: u8,
    },
    /// A client sends.
    Sends {
        process: usize,
    },
    /// A process hears that another one has gone, or is back.
    Hears {
        process: usize,
        peer: NodeId,
        link: Link,
    },
}

/// A message that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// When.
    pub at: Instant,
    /// By which process.
    pub process: usize,
    /// Of which ring.
    pub ring: u8,
    /// By which process it was sent.
    pub sender: usize,
    /// How long after it was sent.
    pub took: Duration,
}

/// Processes, and all that is under way.
pub struct Streams<'a> {
    plan: &'a Plan,
    now: Instant,
    tie: u64,
    heap: BTreeMap<(Instant, u64), Happens>,
    hosts: Vec<Host>,
    servers: Vec<Interface>,
    /// When each message was sent, by its number, and whether by a client that waits for it.
    sent: Vec<(Instant, bool)>,
    /// What follows the number in a message.
    filling: Bytes,
    watched: Vec<bool>,
    given: Vec<Given>,
    failed: Option<String>,
}

impl<'a> Streams<'a> {
    /// Rings that stand, without load; what is handed out at the watched processes is noted.
    ///
    /// # Errors
    /// What is wrong with the settings, or that no ring came about.
    pub fn start(plan: &'a Plan, seed: u64, watched: &[usize]) -> Result<Self, String> {
        let mut rng = Rng::new(seed).fork(0x57ea);
        let hosts: Result<Vec<_>, String> = (0..plan.processes.len()).map(|me| Host::new(plan, me, 1)).collect();
        let servers = (0..plan.servers()).map(|server| Interface::new(&plan.site, &mut rng.fork(server as u64)));
        let mut streams = Self {
            plan,
            now: Instant::ZERO,
            tie: 0,
            heap: BTreeMap::new(),
            servers: servers.collect(),
            hosts: hosts?,
            sent: Vec::new(),
            filling: Bytes::from(vec![0; plan.len.saturating_sub(8)]),
            watched: (0..plan.processes.len()).map(|process| watched.contains(&process)).collect(),
            given: Vec::new(),
            failed: None,
        };
        for process in 0..plan.processes.len() {
            let at = Instant(rng.below(STARTS.as_nanos() as u64));
            streams.schedule(at, Happens::Start { process });
        }
        streams.form()?;
        Ok(streams)
    }

    fn form(&mut self) -> Result<(), String> {
        let lacks = |streams: &Self, process: usize| {
            let first = streams.plan.processes[process].rings.first().copied().unwrap_or_default();
            streams.hosts[process].members != streams.plan.readers(first).count()
        };
        while let Some(process) = (0..self.hosts.len()).find(|process| lacks(self, *process)) {
            if self.now.since(Instant::ZERO) > FORMED {
                let state = self.describe(process);
                return Err(format!("process {process} is not in a view of all after {FORMED:?}: {state}"));
            }
            self.run(Duration::from_millis(50))?;
        }
        self.run(SETTLED)
    }

    /// Clients begin.
    pub fn begin(&mut self) {
        for (process, of) in self.plan.processes.iter().enumerate() {
            let clients = match of.load {
                Load::None => 0,
                Load::Clients(clients, _) => clients,
                Load::Every(..) => 1,
            };
            (0..clients).for_each(|_| self.schedule(self.now, Happens::Sends { process }));
        }
    }

    /// The present.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// What went wrong meanwhile: nothing of it belongs to a measurement.
    pub fn run(&mut self, span: Duration) -> Result<(), String> {
        let end = self.now + span;
        while let Some(entry) = self.heap.first_entry().filter(|entry| entry.key().0 <= end) {
            self.now = self.now.max(entry.key().0);
            let happens = entry.remove();
            self.happen(happens);
        }
        self.now = end;
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What was handed out since this was asked last, in order of time at each process.
    pub fn take_given(&mut self) -> Vec<Given> {
        std::mem::take(&mut self.given)
    }

    /// A counter, summed over all processes.
    pub fn sum(&self, name: &str) -> u64 {
        self.hosts.iter().map(|host| host.counter(name)).sum()
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Start { process } => {
                self.hosts[process].engine.start(self.now, &[]);
                self.drain(process);
            }
            Happens::Timer { process } => self.time(process),
            Happens::Written { frame } => self.leave(frame),
            Happens::Reaches { frame } => self.enter(frame),
            Happens::Arrives { frame } => self.arrive(frame),
            Happens::Read { process, ring } => self.read(process, ring),
            Happens::Sends { process } => self.submit(process),
            Happens::Hears { process, peer, link } => {
                if self.hosts[process].up {
                    self.hosts[process].engine.handle_link(self.now, peer, link);
                    self.drain(process);
                }
            }
        }
    }

    fn time(&mut self, process: usize) {
        let host = &mut self.hosts[process];
        if host.timer == Some(self.now) {
            host.timer = None;
        }
        if host.up && host.engine.poll_timeout().is_some_and(|due| due <= self.now) {
            host.engine.handle_timeout(self.now);
            self.drain(process);
        } else if host.up {
            self.set_timer(process);
        }
    }

    /// A packet goes through the interface of its sender; to a process beside it, at once.
    fn leave(&mut self, frame: Frame) {
        let (here, there) = (self.server(frame.from), self.server(frame.to));
        if here == there {
            return self.arrive(frame);
        }
        let copies = self.servers[here].out.carry(self.now, frame.len);
        if let Some(copy) = copies.first() {
            self.schedule(copy.at + (self.plan.delay)(here, there), Happens::Reaches { frame });
        }
    }

    fn enter(&mut self, frame: Frame) {
        let there = self.server(frame.to);
        let copies = self.servers[there].into.carry(self.now, frame.len);
        if let Some(copy) = copies.first() {
            self.schedule(copy.at, Happens::Arrives { frame });
        }
    }

    fn arrive(&mut self, frame: Frame) {
        let (to, ring) = (frame.to, frame.packet.ring.0);
        if !self.hosts[to].up {
            return self.note_read(&frame);
        }
        self.hosts[to].cores.entry(ring).or_default().waiting.push_back(frame);
        self.read_on(to, ring);
    }

    /// The core of a ring reads its next packet, once it has done what it does.
    fn read_on(&mut self, process: usize, ring: u8) {
        let (now, site) = (self.now, self.plan.site);
        let Some(core) = self.hosts[process].cores.get_mut(&ring) else { return };
        if core.reads || core.unread > site.unread {
            return;
        }
        let Some(frame) = core.waiting.front() else { return };
        core.reads = true;
        let done = core.free.max(now) + site.cost(frame.len);
        self.schedule(done, Happens::Read { process, ring });
    }

    fn read(&mut self, process: usize, ring: u8) {
        let (now, ahead) = (self.now, self.plan.site.ahead);
        let host = &mut self.hosts[process];
        let Some(core) = host.cores.get_mut(&ring) else { return };
        core.reads = false;
        core.free = core.free.max(now);
        let Some(frame) = core.waiting.pop_front() else { return };
        self.note_read(&frame);
        let from = MemberId { node: node(frame.from), incarnation: frame.incarnation };
        let arrival = Arrival { at: now, from, lane: frame.lane };
        self.hosts[process].engine.handle_packet(now, arrival, frame.packet);
        self.drain(process);
        let host = &mut self.hosts[process];
        let handed = Instant(host.handed.0.saturating_sub(ahead.as_nanos() as u64));
        if let Some(core) = host.cores.get_mut(&ring) {
            core.free = core.free.max(handed);
        }
        self.read_on(process, ring);
    }

    /// A packet is out of its stream: its sender has room for others.
    fn note_read(&mut self, frame: &Frame) {
        let ring = frame.packet.ring.0;
        let host = &mut self.hosts[frame.from];
        if let Some(core) = host.cores.get_mut(&ring).filter(|_| host.incarnation == frame.incarnation) {
            core.unread -= frame.len;
        }
        self.read_on(frame.from, ring);
    }

    fn submit(&mut self, process: usize) {
        let load = self.plan.processes[process].load;
        if !self.hosts[process].up {
            return;
        }
        if let Load::Every(interval, _) = load {
            self.schedule(self.now + interval, Happens::Sends { process });
        }
        let waits = matches!(load, Load::Clients(..));
        self.send_message(process, load.ring(), self.filling.clone(), waits);
    }

    fn send_message(&mut self, process: usize, ring: u8, filling: Bytes, waits: bool) {
        let number = Bytes::copy_from_slice(&(self.sent.len() as u64).to_le_bytes());
        let payload: Payload = [number, filling].into_iter().collect();
        self.sent.push((self.now, waits));
        let stream = OrderStream(u16::from(ring));
        let submission = Submission { class: Class::Client, service: Service::Agreed, stream, payload };
        if let Err(refused) = self.hosts[process].engine.submit(self.now, submission) {
            self.failed.get_or_insert(format!("process {process} refuses a message: {refused}"));
        }
        self.drain(process);
    }

    fn drain(&mut self, process: usize) {
        while let Some(output) = self.hosts[process].engine.poll_output() {
            match output {
                Output::Send { to, lane, packet } => self.send(process, to, lane, &packet),
                Output::Install(view) => {
                    let host = &mut self.hosts[process];
                    host.members = view.members.len();
                    if view.kind == ViewKind::Regular {
                        host.engine.resume(self.now, view.id);
                    }
                }
                Output::Deliver(delivery) => self.hand_out(process, &delivery),
                Output::Restart { cause, .. } => {
                    self.failed.get_or_insert(format!("process {process} starts anew: {cause}"));
                }
                _ => {}
            }
        }
        self.set_timer(process);
    }

    fn hand_out(&mut self, at: usize, delivery: &Delivery) {
        let given = self.hosts[at].hand_out(&self.plan.site, self.now);
        let number = delivery.payload.read_from(0).take().map_or(0, u64::from_le_bytes);
        let (sent, waits) = self.sent[number as usize];
        if delivery.id.is_some() && waits {
            self.schedule(given, Happens::Sends { process: at });
        }
        if self.watched[at] {
            let took = given.since(sent);
            let sender = process(delivery.sender.node);
            let ring = self.plan.processes[sender].load.ring();
            self.given.push(Given { at: given, process: at, ring, sender, took });
        }
    }

    fn send(&mut self, from: usize, to: Destination, lane: Lane, packet: &Packet) {
        let (ring, len) = (packet.ring.0, len(packet));
        let receivers: Vec<_> = match to {
            Destination::All => self.plan.readers(ring).filter(|other| *other != from).collect(),
            Destination::One(node) => vec![process(node)],
        };
        for to in receivers {
            let at = self.hosts[from].write(&self.plan.site, self.now, ring, len);
            let incarnation = self.hosts[from].incarnation;
            let frame = Frame { from, incarnation, to, lane, len, packet: packet.clone() };
            self.schedule(at, Happens::Written { frame });
        }
    }

    fn server(&self, process: usize) -> usize {
        self.plan.processes[process].server
    }

    fn schedule(&mut self, at: Instant, happens: Happens) {
        self.tie += 1;
        self.heap.insert((at, self.tie), happens);
    }

    fn set_timer(&mut self, process: usize) {
        let host = &mut self.hosts[process];
        let Some(due) = host.engine.poll_timeout().map(|due| due.max(self.now)) else { return };
        if host.timer.is_none_or(|timer| due < timer) {
            host.timer = Some(due);
            self.schedule(due, Happens::Timer { process });
        }
    }
}

/// What a packet takes of a stream.
fn len(packet: &Packet) -> usize {
    let mut head = BytesMut::with_capacity(128);
    let rest = packet.encode(&mut head);
    consort_wire::envelope::LEN + head.len() + rest.len()
}
