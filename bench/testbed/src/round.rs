//! One round of a measurement: a sender and a receiver at every node, from the first message to the last.
use super::helper::Task;
use super::host::{self, Order, Said};
use super::job::{Go, Job, Load, Pace, Received, Report, Role, Sent};
use super::times::Times;
use super::{Line, Process, Testbed};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_daemon::{clock, usage};
use std::time::Duration;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Round {
    pub group: String,
    pub service: String,
    pub load: Load,
    /// How all senders together send.
    pub pace: Pace,
    /// Sends nothing once the span is over, whatever is due by then.
    pub cut: bool,
    /// How many clients send and how many receive, spread over the nodes; one at each where none is given.
    pub senders: Option<u16>,
    pub receivers: Option<u16>,
    pub unbatched: bool,
    /// Clients use their sockets, not shared memory.
    pub sockets: bool,
    pub digest: bool,
    /// Runs so long before anything is measured.
    pub warm_up: Duration,
    /// Measures so long; only for made messages.
    pub span: Duration,
}

/// What was measured.
#[derive(Debug)]
pub struct Result {
    pub sent: Vec<Sent>,
    pub received: Vec<Received>,
    /// All receivers' times together.
    pub times: Times,
    /// CPU time in the measured span, all daemons together; `None` where the kernel does not tell. Of a node that is
    /// embedded that of its own threads.
    pub daemon_cpu: Option<Duration>,
    /// The same of all clients.
    pub client_cpu: Option<Duration>,
    /// The most memory that any of the daemons had resident so far, in bytes.
    pub daemon_peak: Option<u64>,
    /// The measured span in seconds: as planned, or for a file from the start to the last delivery.
    pub seconds: f64,
    /// When it was.
    pub go: Go,
}

impl Result {
    /// Whether all receivers saw the same complete sequence.
    pub fn agreed(&self) -> bool {
        let sent: u64 = self.sent.iter().map(|sent| sent.messages).sum();
        let first = self.received.first();
        self.received.iter().all(|one| {
            let same = first.is_some_and(|first| first.digest == one.digest);
            one.complete && one.wrong == 0 && one.messages == sent && same
        })
    }
}

/// The processes of a round, and what they have told so far.
struct Running<'l> {
    testbed: &'l mut Testbed,
    /// The receivers, then the senders; none where they are threads in the nodes' processes.
    clients: Vec<Process>,
    /// How many clients there are.
    count: usize,
    senders: usize,
    first: usize,
    delivered: Vec<u64>,
    sent: Vec<Sent>,
    received: Vec<Option<Received>>,
}

impl Round {
    /// Runs the round. `progress` is told the messages delivered so far, all receivers together.
    pub fn run(&self, testbed: &mut Testbed, progress: &mut dyn FnMut(u64)) -> Outcome<Result> {
        let mut running = self.start(testbed)?;
        // Longer than clients wait for a leader's election: those know more of why.
        running.wait(60, "the clients to connect and join", |_| {}, Running::all_ready)?;
        let go = self.go();
        running.tell(go)?;
        running.testbed.sleep_until(go.from)?;
        let before = running.cpu();
        if !self.is_file() {
            running.testbed.sleep_until(go.until)?;
        }
        let timed = (!self.is_file()).then(|| running.cpu());
        running.wait(120, "the last messages", progress, Running::all_through)?;
        let after = timed.unwrap_or_else(|| running.cpu());
        running.finish(self, go, before, after)
    }

    fn is_file(&self) -> bool {
        matches!(self.load, Load::Lines(_))
    }

    fn go(&self) -> Go {
        let start = clock::now_ns() + 50_000_000;
        let from = start + self.warm_up.as_nanos() as u64;
        let until = if self.is_file() { u64::MAX } else { from + self.span.as_nanos() as u64 };
        Go { start, from, until }
    }

    fn start<'l>(&self, testbed: &'l mut Testbed) -> Outcome<Running<'l>> {
        let [senders, receivers] = [self.senders, self.receivers].map(|count| count.unwrap_or(testbed.nodes).max(1));
        let mut running = Running {
            clients: Vec::new(),
            count: 0,
            senders: senders.into(),
            first: testbed.started,
            delivered: vec![0; receivers.into()],
            sent: Vec::new(),
            received: vec![None; receivers.into()],
            testbed,
        };
        for (role, count) in [(Role::Receiver, receivers), (Role::Sender, senders)] {
            for index in 0..count {
                let job = self.job(role, index, [senders, receivers], running.testbed);
                // There a receiver of this number sends as well.
                let is_there = role == Role::Sender && index < receivers && running.testbed.is_for_members();
                if !is_there {
                    running.start_client(job)?;
                }
            }
        }
        Ok(running)
    }

    fn job(&self, role: Role, index: u16, [senders, receivers]: [u16; 2], testbed: &Testbed) -> Job {
        Job {
            role,
            address: testbed.client_address(testbed.home(index)),
            index,
            senders,
            receivers,
            group: self.group.clone(),
            service: self.service.clone(),
            load: self.load.clone(),
            pace: self.pace.times(1.0 / f64::from(senders)),
            cut: self.cut,
            unbatched: self.unbatched,
            sockets: self.sockets,
            digest: self.digest,
        }
    }
}

impl Running<'_> {
    fn start_client(&mut self, job: Job) -> Outcome {
        let number = self.first + self.count;
        self.count += 1;
        self.testbed.started = number + 1;
        if self.testbed.embeds() {
            return self.testbed.order(self.testbed.home(job.index), &Order::Start(number, job));
        }
        let name = format!("{}-{:?}-{}", job.group, job.role, job.index + 1).to_lowercase();
        let words = Task::Client(job).words()?;
        let process = Process::start(number, &name, &words, self.testbed.directory.path(), &self.testbed.tell)?;
        self.clients.push(process);
        Ok(())
    }

    fn tell(&mut self, go: Go) -> Outcome {
        if self.testbed.embeds() {
            return self.testbed.order_all(&Order::Go(go));
        }
        let text = serde_json::to_string(&go).trying(|| "cannot write the start signal".into())?;
        self.clients.iter_mut().try_for_each(|client| client.tell(&text))
    }

    /// Takes reports until all is as wanted; nothing may stay silent for so many seconds.
    fn wait(
        &mut self,
        seconds: u64,
        waiting_for: &str,
        mut progress: impl FnMut(u64),
        done: impl Fn(&Self, usize) -> bool,
    ) -> Outcome {
        let mut ready = 0;
        while !done(self, ready) {
            let line = self.testbed.line(clock::now_ns() + seconds * 1_000_000_000, waiting_for)?;
            let Some((client, report)) = self.heard(line)? else { continue };
            ready += usize::from(matches!(report, Report::Ready));
            self.take(client, report)?;
            progress(self.delivered.iter().sum());
        }
        Ok(())
    }

    /// Which of the clients reports what; `None` if it was none of them.
    fn heard(&mut self, line: Line) -> Outcome<Option<(usize, Report)>> {
        let of = |number: usize| number.checked_sub(self.first).filter(|client| *client < self.count);
        if self.testbed.embeds() {
            // A process whose output has ended is missed by the testbed.
            let Some(text) = line.text else { return Ok(None) };
            let said: Said = serde_json::from_str(&text).trying(|| format!("a client said `{text}`"))?;
            return Ok(of(said.by).map(|client| (client, said.report)));
        }
        let Some(client) = of(line.from) else { return Ok(None) };
        let text = line.text.ok_or_else(|| self.clients[client].ended())?;
        let report = serde_json::from_str(&text).trying(|| format!("a client said `{text}`"))?;
        Ok(Some((client, report)))
    }

    fn take(&mut self, client: usize, report: Report) -> Outcome {
        match report {
            Report::Ready => {}
            Report::Progress(count) => self.delivered(client, count),
            Report::Sent(sent) => self.sent.push(sent),
            Report::Received(received) => {
                self.delivered(client, received.messages);
                if let Some(place) = self.received.get_mut(client) {
                    *place = Some(received);
                }
            }
            Report::Failed(problem) => return Err(Failure::new(problem)),
        }
        Ok(())
    }

    fn delivered(&mut self, client: usize, count: u64) {
        if let Some(place) = self.delivered.get_mut(client) {
            *place = count;
        }
    }

    fn all_ready(&self, ready: usize) -> bool {
        ready == self.count
    }

    fn all_through(&self, _ready: usize) -> bool {
        self.sent.len() == self.senders && self.received.iter().all(Option::is_some)
    }

    fn cpu(&self) -> [Option<Duration>; 2] {
        if self.testbed.embeds() {
            let each = self.testbed.daemon_ids().into_iter().map(|id| crate::usage::cpu_apart(id, host::CLIENTS));
            let each: Option<Vec<[Duration; 2]>> = each.collect();
            return [0, 1].map(|which| Some(each.as_ref()?.iter().map(|one| one[which]).sum()));
        }
        let sum = |ids: Vec<u32>| ids.into_iter().map(usage::cpu).sum();
        [sum(self.testbed.daemon_ids()), sum(self.clients.iter().map(Process::id).collect())]
    }

    fn finish(
        self,
        round: &Round,
        go: Go,
        before: [Option<Duration>; 2],
        after: [Option<Duration>; 2],
    ) -> Outcome<Result> {
        let received: Vec<Received> = self.received.into_iter().flatten().collect();
        let mut times = Times::new()?;
        received.iter().for_each(|one| times.add(&one.times));
        let spent = |which: usize| Some(after[which]?.saturating_sub(before[which]?));
        let end = if round.is_file() { received.iter().map(|one| one.last).max().unwrap_or(go.from) } else { go.until };
        let seconds = end.saturating_sub(go.from) as f64 / 1e9;
        let daemon_peak = self.testbed.daemon_ids().into_iter().filter_map(crate::usage::peak).max();
        self.clients.into_iter().for_each(Process::stop);
        if self.testbed.embeds() {
            self.testbed.order_all(&Order::Over)?;
        }
        Ok(Result {
            sent: self.sent,
            received,
            times,
            daemon_cpu: spent(0),
            client_cpu: spent(1),
            daemon_peak,
            seconds,
            go,
        })
    }
}
