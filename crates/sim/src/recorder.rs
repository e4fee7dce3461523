//! Turns what happens in the world into events, and shows them to the checkers, the digest and the story.
use crate::checkers::{Bounds, Suite, Violation, must_stay_zero};
use crate::digest::TraceDigest;
use crate::identity::{DeliveryIdentity, Identify};
use crate::machine::ReceivedMessage;
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::quiescence::QuiescenceCheck;
use crate::story::RunStory;
use crate::trace::{
    DeliveryRecord, DeliverySender, Grouped, InstallRecord, LedRecord, LedStep, NumberedRecord, NumberedStep,
    Occurrence, OfferRecord, PerProcess, ReadingRecord, ReadingStep, ReplicaRecord, ReplicaStep, ResumedRecord,
    ResumedStep, SaidMessage, Submitted, Trace, TraceEvent,
};
use consort_types::{Instant, NodeId, Service, ViewId};
use consort_wire::Payload;
use std::collections::BTreeSet;

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
    /// Readings that began at some daemon, of readers that outlive theirs.
    pub resumed: u64,
    /// Views that somebody installed.
    pub views: u64,
    /// Elections of a leader.
    pub elections: u64,
    /// Commands that replicas answered.
    pub answered: u64,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub now: Instant,
    /// When a message was delivered last.
    pub latest: Instant,
    pub totals: Totals,
    pub violations: Vec<Violation>,
    bounds: Bounds,
    pub digest: TraceDigest,
    pub story: Option<RunStory>,
    pub trace: Option<Trace>,
    suite: Suite,
    identify: Identify,
    /// Processes that come late and have installed no view yet.
    is_new: PerProcess<bool>,
    rest: QuiescenceCheck,
    /// When a regular view was installed last.
    pub changed: Instant,
    installed: BTreeSet<ViewId>,
    /// The greatest of a leader.
    fence: u128,
}

impl Recorder {
    pub fn new(bounds: Bounds, story: Option<RunStory>, trace: Option<Trace>) -> Self {
        Self {
            now: Instant::ZERO,
            latest: Instant::ZERO,
            totals: Totals::default(),
            violations: Vec::new(),
            suite: Suite::new(bounds.clone()),
            bounds,
            digest: TraceDigest::default(),
            story,
            trace,
            identify: Identify::default(),
            is_new: PerProcess::default(),
            rest: QuiescenceCheck::default(),
            changed: Instant::ZERO,
            installed: BTreeSet::new(),
            fence: 0,
        }
    }

    /// Whether all that live are in one view, and everything that was accepted from them is delivered.
    pub fn is_settled(&self) -> bool {
        self.rest.is_come()
    }

    /// Whether any checker wants to see this gauge.
    pub fn watches(&self, name: &str) -> bool {
        self.bounds.watch(name) || must_stay_zero(name)
    }

    pub fn payload(&self, mark: Mark, len: usize) -> Payload {
        self.identify.pattern.payload(mark, len)
    }

    pub fn start(&mut self, process: Process, late: bool) {
        self.tell(Some(process.node), '+', || format!("{process} starts"));
        self.identify.start(process, !late);
        *self.is_new.of(process) = late;
        self.record(process, Occurrence::Start { late });
    }

    /// A process's trace ends, or it is about to.
    pub fn part(&mut self, process: Process, what: Occurrence) {
        let (sign, how) = match what {
            Occurrence::Crash => ('#', "crashes"),
            Occurrence::Left => ('-', "has left"),
            _ => ('-', "leaves"),
        };
        self.tell(Some(process.node), sign, || format!("{process} {how}"));
        self.record(process, what);
    }

    pub fn view(&mut self, process: Process, view: InstallRecord) {
        let names = |members: &[ProcessIncarnation]| {
            members.iter().map(ProcessIncarnation::to_string).collect::<Vec<_>>().join(" ")
        };
        let sign = if view.transitional { 't' } else { 'V' };
        let kind = if view.transitional { "closes" } else { "installs" };
        let pending = if view.pending && !view.transitional { ", pending" } else { "" };
        self.tell(Some(process.node), sign, || {
            format!("{process} {kind} {} with {}{pending}", view.id, names(&view.members))
        });
        let late = std::mem::take(self.is_new.of(process));
        self.identify.view(process, &view, late);
        if !view.transitional {
            self.changed = self.now;
            self.totals.views += u64::from(self.installed.insert(view.id));
        }
        self.record(process, Occurrence::View(Box::new(view)));
    }

    pub fn primary(&mut self, process: Process, view: ViewId) {
        self.tell(Some(process.node), 'P', || format!("{process} calls {view} primary"));
        self.record(process, Occurrence::Primary(view));
    }

    pub fn group(&mut self, process: Process, group: Grouped) {
        let names = || group.members.iter().map(Process::to_string).collect::<Vec<_>>().join(" ");
        self.tell(Some(process.node), 'g', || {
            let apart = group.members.len() - group.together.len();
            let primary = if group.primary { ", primary" } else { "" };
            format!("{process} in {} {}.{} of {}, {apart} apart{primary}", group.group, group.id, group.change, names())
        });
        self.record(process, Occurrence::Group(Box::new(group)));
    }

    pub fn signal(&mut self, process: Process, group: Box<str>) {
        self.tell(Some(process.node), 'g', || format!("{process} is told that {group} closes"));
        self.record(process, Occurrence::Signal(group));
    }

    pub fn side(&mut self, process: Process, said: SaidMessage) {
        self.tell(Some(process.node), 'm', || {
            format!("{process} is given {}'s {} to {}", said.from, said.count, said.groups.join(" "))
        });
        self.record(process, Occurrence::Side(Box::new(said)));
    }

    pub fn spoke(&mut self, process: Process, said: SaidMessage) {
        self.tell(Some(process.node), 'm', || format!("{process} sends {} to {}", said.count, said.groups.join(" ")));
        self.record(process, Occurrence::Spoke(Box::new(said)));
    }

    pub fn offer(&mut self, process: Process, what: Occurrence) {
        let (sign, how) = match &what {
            Occurrence::Offer(OfferRecord { offer, .. }) => ('o', format!("is offered {offer}")),
            Occurrence::Confirm { offer, .. } => ('o', format!("is confirmed {offer}")),
            Occurrence::Revoke(offer) => ('o', format!("is revoked {offer}")),
            _ => return,
        };
        self.tell(Some(process.node), sign, || format!("{process} {how}"));
        self.record(process, what);
    }

    pub fn reading(&mut self, process: Process, read: ReadingRecord) {
        if read.step != ReadingStep::Placed {
            let ReadingRecord { step, at, to, oldest, retained, .. } = read;
            self.tell(Some(process.node), 'l', || {
                format!("{process} reads: {} {at} to {to}, oldest {oldest}, retained {retained}", step.name())
            });
        }
        self.record(process, Occurrence::Reading(read));
    }

    pub fn numbered(&mut self, process: Process, step: NumberedRecord) {
        let sign = if step.step == NumberedStep::Table { '%' } else { 'n' };
        self.tell(Some(process.node), sign, || format!("{process}: {step}"));
        self.record(process, Occurrence::Numbered(step));
    }

    pub fn resumed(&mut self, process: Process, step: Box<ResumedRecord>) {
        if step.step != ResumedStep::Given {
            self.tell(Some(process.node), 'l', || format!("{process}: {step}"));
        }
        self.totals.resumed += u64::from(step.step == ResumedStep::Began);
        self.record(process, Occurrence::Resumed(step));
    }

    pub fn led(&mut self, process: Process, step: Box<LedRecord>) {
        self.tell(Some(process.node), 'L', || format!("{process}: {step}"));
        if step.step == LedStep::Leads && step.fence > self.fence {
            self.fence = step.fence;
            self.totals.elections += 1;
        }
        self.record(process, Occurrence::Led(step));
    }

    pub fn replica(&mut self, process: Process, step: Box<ReplicaRecord>) {
        self.tell(Some(process.node), 'R', || format!("{process}: {step}"));
        match step.step {
            ReplicaStep::Answered => self.totals.answered += 1,
            ReplicaStep::Applied | ReplicaStep::Restored | ReplicaStep::Serves => self.latest = self.now,
            _ => {}
        }
        self.record(process, Occurrence::Replica(step));
    }

    pub fn gone(&mut self, process: Process) {
        self.tell(Some(process.node), '-', || format!("{process} has gone"));
        self.record(process, Occurrence::Gone);
    }

    pub fn submit(&mut self, process: Process, submitted: Submitted) {
        self.totals.accepted += 1;
        self.identify.submit(process, submitted);
        let Submitted { count, service, len, .. } = submitted;
        self.tell(Some(process.node), 's', || format!("{process}#{count} {service}, {len} bytes"));
        self.record(process, Occurrence::Submit(submitted));
    }

    pub fn wait(&mut self, process: Process) {
        self.totals.waits += 1;
        self.tell(Some(process.node), 'w', || format!("{process} finds no room"));
        self.record(process, Occurrence::Wait);
    }

    pub fn room(&mut self, process: Process) {
        self.tell(Some(process.node), 'r', || format!("{process} may submit again"));
        self.record(process, Occurrence::Room);
    }

    pub fn deliver(
        &mut self,
        process: Process,
        message: &ReceivedMessage,
        sender: DeliverySender,
        missing: Vec<NodeId>,
    ) {
        let DeliveryIdentity { mark, nameless, intact } = self.identify.identify(process, message, sender);
        self.latest = self.now;
        self.totals.delivered += u64::from(mark.is_some() || nameless);
        let delivered = DeliveryRecord {
            mark,
            nameless,
            intact,
            sender: Some(sender),
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
        self.record(process, Occurrence::Deliver(delivered));
    }

    pub fn record(&mut self, process: Process, what: Occurrence) {
        let event = TraceEvent { at: self.now, process, what };
        digest(&mut self.digest, &event);
        self.rest.see(&event);
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

fn describe(delivered: &DeliveryRecord) -> String {
    let mark = delivered.mark.map_or("?".into(), |mark| mark.to_string());
    let at = delivered.position.map_or(String::new(), |position| format!(" at {position}"));
    format!("{mark} {}{at}, {} bytes", delivered.service, delivered.len)
}

/// Gauges stay out: they are looked at, not done.
fn digest(digest: &mut TraceDigest, event: &TraceEvent) {
    let number = match &event.what {
        Occurrence::Gauge { .. } => return,
        Occurrence::Start { .. } => 1,
        Occurrence::View(view) => 2 | view.id.number << 8 | u64::from(view.transitional) << 7,
        Occurrence::Network(view) => 24 | view.id.number << 8 | u64::from(view.transitional) << 7,
        Occurrence::Primary(view) => 12 | view.number << 8,
        Occurrence::Group(group) => 13 | group.id.number << 8 | group.change << 40 | u64::from(group.primary) << 39,
        Occurrence::Signal(_) => 20,
        Occurrence::Spoke(said) => 25 | said.count << 8,
        Occurrence::Side(said) => {
            digest.add(name(said.from));
            18 | said.count << 8
        }
        Occurrence::Reading(read) => {
            digest.add(read.at.position << 16 | u64::from(read.at.index));
            digest.add(read.sum);
            26 | (read.step as u64) << 8 | read.to << 16
        }
        Occurrence::Numbered(numbered) => {
            digest.add(numbered.send << 16 | u64::from(numbered.producer));
            digest.add(numbered.attempt << 32 | numbered.view);
            digest.add(numbered.sum ^ numbered.at);
            27 | (numbered.step as u64) << 8 | u64::from(numbered.flag) << 15 | numbered.number << 16
        }
        Occurrence::Resumed(resumed) => {
            digest.add(resumed.at.position << 16 | u64::from(resumed.at.index));
            digest.add(resumed.view.number << 32 | resumed.to_view.number);
            digest.add(resumed.sum ^ resumed.to.position);
            28 | (resumed.step as u64) << 8 | u64::from(resumed.flag) << 15 | u64::from(resumed.reader) << 16
        }
        Occurrence::Led(led) => {
            digest.add(led.fence as u64 ^ (led.fence >> 64) as u64);
            digest.add(led.until.0);
            29 | (led.step as u64) << 8 | u64::from(led.candidate) << 16 | led.serial << 32
        }
        Occurrence::Replica(step) => {
            digest.add(step.sum ^ step.at << 40);
            30 | (step.step as u64) << 8 | u64::from(step.server) << 16 | step.call << 32
        }
        Occurrence::Gone => 19,
        Occurrence::Leave => 14,
        Occurrence::Left => 15,
        Occurrence::Crash => 16,
        Occurrence::Submit(submitted) => 3 | submitted.count << 8 | submitted.len << 40,
        Occurrence::Wait => 4,
        Occurrence::Room => 5,
        Occurrence::Refused(_) => 6,
        Occurrence::Spins => 11,
        Occurrence::Deliver(delivered) => {
            let mark = delivered.mark.unwrap_or_default();
            digest.add(delivered.position.map_or(0, |position| position.0));
            digest.add(name(mark.origin));
            7 | mark.count << 8 | u64::from(delivered.intact) << 7
        }
        Occurrence::Offer(offered) => 21 | offered.offer << 8,
        Occurrence::Revoke(offer) => 22 | offer << 8,
        Occurrence::Confirm { offer, .. } => 23 | offer << 8,
        Occurrence::Ordered(count) => 17 | count << 8,
        Occurrence::Stable { up_to, .. } => 8 | up_to.0 << 8,
        Occurrence::Calm => 9,
        Occurrence::Quiet => 10,
    };
    digest.add(event.at.0);
    digest.add(name(event.process));
    digest.add(number);
}

fn name(process: Process) -> u64 {
    u64::from(process.node.0) << 32 | u64::from(process.incarnation) << 16 | u64::from(process.client)
}
