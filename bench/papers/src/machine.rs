//! Daemons and their clients on one machine: processes that share its cores, sockets of limited room between the daemons, and
//! memory between a daemon and its clients. `calibrate` measures what each costs, and `predict` compares with the machine.
mod calibrate;
pub mod commands;
mod cores;
mod daemon;
mod host_file;
mod predict;
mod programs;

use consort_order::{Destination, Payload};
use consort_order::{Engine, Lane, Submission};
use consort_ring::packet::RingPacket;
use consort_types::{Class, Duration, Instant, NodeId, OrderStream, Rng, Service};
use cores::{Cores, Start};
use daemon::Daemon;
use host_file::{HostFile, takes};
use std::collections::{BTreeMap, VecDeque};

/// What one client may have under way, as by default, in bytes.
const CREDIT: usize = 256 << 10;
/// By when the daemons must stand in one view.
const FORMED: Duration = Duration::from_secs(3);
/// How long they are left alone then.
const SETTLES: Duration = Duration::from_millis(500);
/// How many messages a client writes at once at most.
const WRITES: usize = 64;
/// How much earlier than a message is due its sender wants to be awake.
const NAP: Duration = Duration::from_micros(5);

/// What runs on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    pub daemons: usize,
    /// How many clients send and how many receive, spread over the daemons.
    pub senders: usize,
    pub receivers: usize,
    /// The length of a message, in bytes: eight at least.
    pub len: usize,
    /// Messages a second of all senders at random times; as many as they may where none is named.
    pub rate: Option<f64>,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// At the receiver that was given the fewest.
    pub ordered_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// How many cores daemons and clients kept busy.
    pub daemon_cores: f64,
    pub client_cores: f64,
}

#[derive(Clone)]
struct Flying {
    from: usize,
    lane: Lane,
    len: usize,
    packet: RingPacket,
}

enum Event {
    /// A process that has a core does the next thing.
    Step(usize),
    /// It has done something that took so long.
    Done(usize, Duration),
    Arrive(usize, Flying),
    /// A daemon's timer.
    Timer(usize),
    /// A client's message will be due.
    Due(usize),
    /// A daemon can read messages of a client.
    Written(usize, Vec<usize>),
    /// A receiver can read messages.
    Given(usize, Vec<usize>),
    /// A sender may send so many bytes more.
    Credit(usize, usize),
}

#[derive(Clone, Copy)]
struct Message {
    written: Instant,
    sender: usize,
}

struct Sender {
    credit: usize,
    due: VecDeque<Instant>,
    rng: Rng,
}

#[derive(Default)]
struct Receiver {
    waiting: VecDeque<usize>,
    given: u64,
}

/// What a process is: its place among its kind.
#[derive(Clone, Copy)]
enum Process {
    Daemon(usize),
    Sender(usize),
    Receiver(usize),
}

/// The machine, and all that is under way. Processes are numbered: daemons, then senders, then receivers.
pub struct Machine<'a> {
    host: &'a HostFile,
    work: Work,
    now: Instant,
    tie: u64,
    heap: BTreeMap<(Instant, u64), Event>,
    cores: Cores,
    daemons: Vec<Daemon>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    messages: Vec<Message>,
    measures: bool,
    latencies: Vec<Duration>,
    /// For how long daemons and clients were busy.
    busy: [Duration; 2],
}

impl<'a> Machine<'a> {
    /// Daemons in one view, and clients that begin to send.
    ///
    /// # Errors
    /// What is wrong with the engine's settings, or that the daemons did not come together.
    pub fn start(host: &'a HostFile, work: Work) -> Result<Self, String> {
        let nodes: Vec<_> = (0..work.daemons as u16).map(NodeId).collect();
        let room = host.machine.socket_kib << 10;
        let daemons = nodes.iter().map(|me| Daemon::new(*me, &nodes, room)).collect::<Result<Vec<_>, _>>()?;
        let sender = |number| Sender { credit: CREDIT.max(work.len), due: VecDeque::new(), rng: Rng::new(number + 1) };
        let mut machine = Self {
            host,
            work,
            now: Instant::ZERO,
            tie: 0,
            heap: BTreeMap::new(),
            cores: Cores::new(host.machine.cores, work.daemons + work.senders + work.receivers),
            daemons,
            senders: (0..work.senders as u64).map(sender).collect(),
            receivers: (0..work.receivers).map(|_| Receiver::default()).collect(),
            messages: Vec::new(),
            measures: false,
            latencies: Vec::new(),
            busy: [Duration::ZERO; 2],
        };
        for daemon in 0..work.daemons {
            machine.daemons[daemon].engine.start(Instant::ZERO, &[]);
            machine.wake(daemon);
        }
        while machine.daemons.iter().any(|daemon| daemon.members < work.daemons) {
            if machine.now.since(Instant::ZERO) > FORMED {
                return Err(format!("{} daemons are not in one view after {FORMED:?}", work.daemons));
            }
            machine.run(Duration::from_millis(20));
        }
        // A daemon has a view of itself before it has a ring: one alone waits for others first.
        machine.run(SETTLES);
        (0..work.senders).for_each(|sender| machine.begin(sender));
        Ok(machine)
    }

    fn begin(&mut self, sender: usize) {
        match self.work.rate {
            Some(_) => self.schedule_due(sender, self.now + NAP),
            None => self.wake(self.work.daemons + sender),
        }
    }

    /// Lets time pass, then measures.
    pub fn measure(&mut self, before: Duration, span: Duration) -> Measured {
        self.run(before);
        self.receivers.iter_mut().for_each(|receiver| receiver.given = 0);
        self.busy = [Duration::ZERO; 2];
        self.measures = true;
        self.run(span);
        self.measures = false;
        self.latencies.sort_unstable();
        let at = |share: usize| self.latencies.get(self.latencies.len() * share / 100).copied().unwrap_or_default();
        let slowest = self.receivers.iter().map(|receiver| receiver.given).min().unwrap_or(0);
        let [daemon_cores, client_cores] = self.busy.map(|busy| busy.as_secs_f64() / span.as_secs_f64());
        Measured {
            ordered_per_s: slowest as f64 / span.as_secs_f64(),
            p50_us: at(50).as_secs_f64() * 1e6,
            p99_us: at(99).as_secs_f64() * 1e6,
            daemon_cores,
            client_cores,
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(entry) = self.heap.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(process) => self.step(process),
            Event::Done(process, took) => {
                let has_more = self.has_work(process);
                let next = self.cores.done(self.now, process, took, has_more);
                self.go_on(next);
                self.schedule_timer(process);
            }
            Event::Arrive(daemon, flying) => {
                self.daemons[daemon].arrive(flying);
                self.wake(daemon);
            }
            Event::Timer(daemon) => self.wake(daemon),
            Event::Due(sender) => {
                let due = self.now + NAP;
                self.senders[sender].due.push_back(due);
                self.schedule_due(sender, due);
                self.wake(self.work.daemons + sender);
            }
            Event::Written(daemon, numbers) => {
                self.daemons[daemon].written.extend(numbers);
                self.wake(daemon);
            }
            Event::Given(receiver, numbers) => {
                self.receivers[receiver].waiting.extend(numbers);
                self.wake(self.work.daemons + self.work.senders + receiver);
            }
            Event::Credit(sender, bytes) => {
                self.senders[sender].credit += bytes;
                if self.work.rate.is_none() {
                    self.wake(self.work.daemons + sender);
                }
            }
        }
    }

    fn schedule_due(&mut self, sender: usize, after: Instant) {
        let Some(rate) = self.work.rate else { return };
        let mean = 1e9 * self.work.senders as f64 / rate;
        let gap = Duration::from_nanos(self.senders[sender].rng.exponential(mean) as u64 + 1);
        let at = Instant((after + gap).0.saturating_sub(NAP.as_nanos() as u64));
        self.schedule(at.max(self.now), Event::Due(sender));
    }

    /// Something came for a process.
    fn wake(&mut self, process: usize) {
        let start = self.cores.wake(self.now, process);
        self.go_on(start);
    }

    fn go_on(&mut self, start: Option<Start>) {
        let costs = &self.host.machine;
        let (process, us) = match start {
            None => return,
            Some(Start::On(process)) => return self.step(process),
            Some(Start::Idle(process, idle)) if idle >= self.polling() => (process, costs.wake_us),
            Some(Start::Idle(process, _)) => (process, costs.call_us),
            Some(Start::Busy(process)) => (process, costs.switch_us),
        };
        let slept = self.now.since(self.cores.asleep_since(process));
        let is_cold = process < self.work.daemons && slept >= self.polling();
        let cold = takes(if is_cold { self.host.daemon.cold_us } else { 0.0 }, 1, 0.0, 0);
        self.note_busy(process, takes(costs.switch_us, 1, 0.0, 0) + cold);
        self.schedule(self.now + takes(us, 1, 0.0, 0) + cold, Event::Step(process));
    }

    /// How long a core that is idle looks for work.
    fn polling(&self) -> Duration {
        takes(self.host.machine.poll_us, 1, 0.0, 0)
    }

    /// How many cores have given that up.
    fn asleep_cores(&self) -> usize {
        self.cores.idle_for(self.now, self.polling())
    }

    fn kind(&self, process: usize) -> Process {
        let Work { daemons, senders, .. } = self.work;
        match process {
            daemon if daemon < daemons => Process::Daemon(daemon),
            sender if sender < daemons + senders => Process::Sender(sender - daemons),
            receiver => Process::Receiver(receiver - daemons - senders),
        }
    }

    fn note_busy(&mut self, process: usize, took: Duration) {
        self.busy[usize::from(!matches!(self.kind(process), Process::Daemon(_)))] += took;
    }

    fn has_work(&self, process: usize) -> bool {
        match self.kind(process) {
            Process::Daemon(daemon) => self.daemons[daemon].has_work(self.now),
            Process::Sender(sender) => match self.work.rate {
                Some(_) => !self.senders[sender].due.is_empty(),
                None => self.senders[sender].credit >= self.work.len,
            },
            Process::Receiver(receiver) => !self.receivers[receiver].waiting.is_empty(),
        }
    }

    fn step(&mut self, process: usize) {
        let took = match self.kind(process) {
            Process::Daemon(daemon) => self.serve(daemon),
            Process::Sender(sender) => self.write(sender),
            Process::Receiver(receiver) => self.read(receiver),
        };
        self.note_busy(process, took);
        self.schedule(self.now + took, Event::Done(process, took));
    }

    /// A sender writes what it may, or what is due.
    fn write(&mut self, sender: usize) -> Duration {
        let (client, len) = (&self.host.client, self.work.len);
        let mut numbers = Vec::new();
        let mut took = Duration::ZERO;
        while numbers.len() < WRITES && self.senders[sender].credit >= len {
            let written = match self.work.rate {
                None => self.now + took,
                Some(_) => match self.senders[sender].due.pop_front() {
                    Some(due) => due,
                    None => break,
                },
            };
            // One that woke too early looks at the clock until the message is due.
            took = took.max(written.since(self.now)) + takes(client.write_us, 1, client.byte_ns, len);
            self.senders[sender].credit -= len;
            numbers.push(self.messages.len());
            self.messages.push(Message { written, sender });
        }
        let daemon = sender % self.work.daemons;
        if !numbers.is_empty() {
            took += self.call(daemon);
            self.schedule(self.now + took, Event::Written(daemon, numbers));
        }
        took
    }

    /// What it takes to wake a process of this machine, if it sleeps.
    fn call(&self, process: usize) -> Duration {
        let machine = &self.host.machine;
        match self.cores.sleeps(process) {
            true if self.asleep_cores() > 0 => takes(machine.call_us + machine.kick_us, 1, 0.0, 0),
            true => takes(machine.call_us, 1, 0.0, 0),
            false => Duration::ZERO,
        }
    }

    /// A receiver reads all that is there.
    fn read(&mut self, receiver: usize) -> Duration {
        let client = &self.host.client;
        let mut took = Duration::ZERO;
        for number in std::mem::take(&mut self.receivers[receiver].waiting) {
            took += takes(client.read_us, 1, client.byte_ns, self.work.len);
            if self.measures {
                self.receivers[receiver].given += 1;
                self.latencies.push((self.now + took).since(self.messages[number].written));
            }
        }
        took
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.tie += 1;
        self.heap.insert((at, self.tie), event);
    }

    /// A daemon that sleeps is woken by its timer.
    fn schedule_timer(&mut self, process: usize) {
        if process >= self.work.daemons {
            return;
        }
        let due = self.daemons[process].next_timer(self.now);
        if let Some(due) = due {
            self.schedule(due, Event::Timer(process));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::host_file::tests::HOST;
    use super::*;

    fn work(daemons: usize, rate: Option<f64>) -> Work {
        Work { daemons, senders: daemons, receivers: daemons, len: 1_350, rate }
    }

    fn measure(host: &HostFile, work: Work) -> Measured {
        Machine::start(host, work).unwrap().measure(Duration::from_millis(20), Duration::from_millis(100))
    }

    #[test]
    fn processes_keep_no_more_cores_busy_than_there_are() {
        let run = |cores| {
            let mut host = HOST;
            host.machine.cores = cores;
            measure(&host, work(3, None))
        };
        let (one, two, twelve) = (run(1), run(2), run(12));
        for (cores, measured) in [(1.0, one), (2.0, two)] {
            let busy = measured.daemon_cores + measured.client_cores;
            assert!(busy > cores * 0.7 && busy < cores * 1.01, "{measured:?}");
        }
        assert!(one.ordered_per_s * 1.3 < two.ordered_per_s, "{one:?} {two:?}");
        assert!(two.ordered_per_s < twelve.ordered_per_s && two.p50_us > twelve.p50_us, "{two:?} {twelve:?}");
    }

    #[test]
    fn a_lone_message_waits_for_each_process_that_it_wakes() {
        let of = |daemons| measure(&HOST, work(daemons, Some(500.0)));
        let (one, three) = (of(1), of(3));
        let wake = HOST.machine.wake_us;
        assert!(one.p50_us > 2.8 * wake && one.p50_us < 4.0 * wake, "sender, daemon and receiver: {one:?}");
        assert!(three.p50_us > one.p50_us, "other daemons, too: {three:?}");
    }

    #[test]
    fn each_receiver_is_given_what_was_sent() {
        let measured = measure(&HOST, work(3, Some(2_000.0)));
        assert!((1_700.0..2_300.0).contains(&measured.ordered_per_s), "{measured:?}");
        assert!(measured.p50_us <= measured.p99_us);
    }

    #[test]
    fn the_same_machine_gives_the_same_figures() {
        assert_eq!(measure(&HOST, work(2, None)), measure(&HOST, work(2, None)));
    }
}
