//! Turns what happens in the world into events, and shows them to the checkers, the digest and the story.
use crate::checkers::{ASSERTIONS, Bounds, Suite, Violation};
use crate::digest::Digest;
use crate::identify::Identify;
use crate::machine::Received;
use crate::message::{Mark, Process};
use crate::story::Story;
use crate::trace::{Delivered, Event, Installed, PerMessage, PerProcess, Submitted, Trace, What};
use consort_types::{Instant, NodeId, Service};
use consort_wire::Payload;

/// How much a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages accepted.
    pub accepted: u64,
    /// Deliveries, over all processes.
    pub delivered: u64,
    /// Datagrams handed to the network; a multicast counts once.
    pub sent: u64,
    /// Events of the heap.
    pub events: u64,
    /// Submits refused for want of room.
    pub waits: u64,
    /// Faults that began.
    pub faults: u64,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub now: Instant,
    /// When a message was delivered last.
    pub latest: Instant,
    pub totals: Totals,
    pub violations: Vec<Violation>,
    bounds: Bounds,
    pub digest: Digest,
    pub story: Option<Story>,
    pub trace: Option<Trace>,
    suite: Suite,
    identify: Identify,
    waiting: u64,
    /// How many messages were delivered by anybody, and by how many processes they ought to be in all.
    begun: u64,
    owed: u64,
    is_begun: PerMessage<bool>,
    members: PerProcess<u64>,
}

impl Recorder {
    pub fn new(bounds: Bounds, story: Option<Story>, trace: Option<Trace>) -> Self {
        Self {
            now: Instant::ZERO,
            latest: Instant::ZERO,
            totals: Totals::default(),
            violations: Vec::new(),
            suite: Suite::new(bounds.clone()),
            bounds,
            digest: Digest::default(),
            story,
            trace,
            identify: Identify::default(),
            waiting: 0,
            begun: 0,
            owed: 0,
            is_begun: PerMessage::default(),
            members: PerProcess::default(),
        }
    }

    /// Whether every message that was accepted was delivered by all that owe it, and nobody waits for room.
    pub const fn is_settled(&self) -> bool {
        self.waiting == 0 && self.totals.accepted == self.begun && self.totals.delivered >= self.owed
    }

    /// Whether any checker wants to see this gauge.
    pub fn watches(&self, name: &str) -> bool {
        self.bounds.watch(name) || name == ASSERTIONS
    }

    pub fn payload(&self, mark: Mark, len: usize) -> Payload {
        self.identify.pattern.payload(mark, len)
    }

    pub fn start(&mut self, process: Process) {
        self.tell(Some(process.node), '+', || "starts".into());
        self.record(process, What::Start);
    }

    pub fn view(&mut self, process: Process, view: Installed) {
        *self.members.of(process) = view.members.len() as u64;
        let members = |view: &Installed| view.members.iter().map(Process::to_string).collect::<Vec<_>>().join(" ");
        self.tell(Some(process.node), 'V', || format!("view {} of {}", view.id, members(&view)));
        self.record(process, What::View(Box::new(view)));
    }

    pub fn submit(&mut self, process: Process, submitted: Submitted) {
        self.totals.accepted += 1;
        self.identify.submit(process, submitted);
        let Submitted { count, service, len, .. } = submitted;
        self.tell(Some(process.node), 's', || format!("{process}#{count} {service}, {len} bytes"));
        self.record(process, What::Submit(submitted));
    }

    pub fn wait(&mut self, process: Process) {
        self.totals.waits += 1;
        self.waiting += 1;
        self.tell(Some(process.node), 'w', || format!("{process} finds no room"));
        self.record(process, What::Wait);
    }

    pub fn room(&mut self, process: Process) {
        self.waiting -= 1;
        self.tell(Some(process.node), 'r', || format!("{process} may submit again"));
        self.record(process, What::Room);
    }

    pub fn deliver(&mut self, process: Process, message: &Received, missing: Vec<NodeId>) {
        let (mark, intact) = self.identify.identify(process, message);
        self.latest = self.now;
        if let Some(mark) = mark {
            self.totals.delivered += 1;
            if !std::mem::replace(self.is_begun.of(mark), true) {
                self.begun += 1;
                self.owed += *self.members.of(process);
            }
        }
        let delivered = Delivered {
            mark,
            intact,
            sender: Some(message.sender),
            client: message.client,
            stream: message.stream,
            position: message.position,
            class: message.class,
            service: message.service,
            own: message.own,
            len: message.payload.len() as u64,
            missing,
        };
        let sign = if message.service == Service::Safe { 'D' } else { 'd' };
        self.tell(Some(process.node), sign, || describe(&delivered));
        self.record(process, What::Deliver(delivered));
    }

    pub fn record(&mut self, process: Process, what: What) {
        let event = Event { at: self.now, process, what };
        digest(&mut self.digest, &event);
        let broken = self.suite.see(&event);
        self.report(broken);
        if let Some(trace) = &mut self.trace {
            trace.events.push(event);
        }
    }

    pub fn end(&mut self) {
        let broken = self.suite.end();
        self.report(broken);
    }

    fn report(&mut self, broken: Vec<Violation>) {
        for violation in broken {
            let node = violation.event.as_ref().map(|event| event.process.node);
            self.tell(node, 'X', || violation.to_string());
            self.violations.push(violation);
        }
    }

    /// Adds a line to the story, if there is one.
    pub fn tell(&mut self, node: Option<NodeId>, sign: char, text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.tell(self.now, node.filter(|node| *node != Process::WORLD.node), sign, text());
        }
    }
}

fn describe(delivered: &Delivered) -> String {
    let mark = delivered.mark.map_or("?".into(), |mark| mark.to_string());
    let at = delivered.position.map_or(String::new(), |position| format!(" at {position}"));
    format!("{mark} {}{at}, {} bytes", delivered.service, delivered.len)
}

/// Gauges stay out: they are looked at, not done.
fn digest(digest: &mut Digest, event: &Event) {
    let number = match &event.what {
        What::Gauge { .. } => return,
        What::Start => 1,
        What::View(view) => 2 | view.id.number << 8,
        What::Submit(submitted) => 3 | submitted.count << 8 | submitted.len << 40,
        What::Wait => 4,
        What::Room => 5,
        What::Refused(_) => 6,
        What::Spins => 11,
        What::Deliver(delivered) => {
            let mark = delivered.mark.unwrap_or_default();
            digest.add(delivered.position.map_or(0, |position| position.0));
            digest.add(u64::from(mark.origin.node.0) << 16 | u64::from(mark.origin.client));
            7 | mark.count << 8 | u64::from(delivered.intact) << 7
        }
        What::Stable { up_to, .. } => 8 | up_to.0 << 8,
        What::Calm => 9,
        What::Quiet => 10,
    };
    digest.add(event.at.0);
    digest.add(u64::from(event.process.node.0) << 16 | u64::from(event.process.client));
    digest.add(number);
}
