//! As an engine.
use super::{LeaveStage, Paxos};
use crate::acceptor::Standing;
use crate::config::Storage;
use crate::coordinator::Role;
use crate::packet::{Content, Packet};
use bytes::Bytes;
use consort_order::{
    AcrossPartitions, Advice, Arrival, Capability, Declaration, DeclareProgress, Delivery, Engine, Fact, Lane, Link,
    Obstacle, Offers, Output, Overfull, PeerReach, Refused, Retained, Submission,
};
use consort_types::{
    Copies, Duration, Holder, Instant, MessageId, NodeId, OrderStream, OrderWait, Position, Service, Ticket, ViewId,
};

/// How long a node that leaves waits for its messages and for the others to let it go.
const LEAVE_MAX: Duration = Duration::from_millis(300);

impl Engine for Paxos {
    type Packet = Packet;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "paxos",
            services: &[Service::Agreed],
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: true,
            durable: self.config.storage != Storage::Memory,
            reliable_links: true,
            continues_in_minority: false,
            replays: true,
            across_partitions: AcrossPartitions::Evs,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.started = now;
        self.begin_alone();
        self.replay(now, records);
        self.take_decided(now);
        self.beat_at = now;
        self.settle(now);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if submission.stream != OrderStream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.leave_stage != LeaveStage::Stays {
            return Err(Refused::Leaving);
        }
        let id = self.proposer.queue.push(submission)?;
        self.settle(now);
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        //= X05
        let is_own = arrival.from.node == self.me.node;
        if !is_own && matches!(packet.content, Content::Beat(_)) {
            self.answer_outdated(now, arrival.from);
        }
        if is_own || self.latest.outdates(arrival.from) {
            self.counters.outdated += 1;
            return;
        }
        self.latest.note(arrival.from);
        match packet.content {
            Content::Outdated(later) => self.exceed(arrival.from, later),
            Content::Beat(beat) => self.on_beat(now, arrival.from, packet.log, *beat),
            //= X52
            content if packet.log == self.log || crate::mutated!(self.config, AnyLogHeeded) => {
                self.on_content(now, arrival.from, content)
            }
            _ => self.counters.foreign_log += 1,
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.beat_at && self.leave_stage != LeaveStage::Gone {
            self.on_beat_due(now);
        }
        self.settle(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.on_persisted(now, ticket);
        self.settle(now);
    }

    /// What was in a stream that broke is asked for again at its time; the coordinator leaves out whom it does not hear.
    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        //= X74
        match link {
            Link::Up => {
                self.links_down.remove(&peer);
            }
            Link::Down => {
                self.counters.links_lost += 1;
                self.links_down.entry(peer).or_insert(now);
                self.forget_question(now, peer);
            }
        }
    }

    fn annotate(&mut self, annotation: Bytes) {
        self.annotation = annotation;
    }

    fn advise(&mut self, _now: Instant, advice: Advice) {
        if advice.stream() == OrderStream(0) {
            self.advised.note(advice);
        }
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.proposer.queue.open_gate(view) {
            self.settle(now);
        }
    }

    fn leave(&mut self, now: Instant) {
        if self.leave_stage == LeaveStage::Stays {
            self.leave_stage = LeaveStage::Leaving { until: now + LEAVE_MAX };
            self.beat_at = now;
            self.settle(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.leave_stage != LeaveStage::Gone).then_some(self.beat_at)
    }

    fn reads_first(&self) -> Lane {
        Lane::Data
    }

    fn retained(&self) -> Option<Retained> {
        self.retained_places()
    }

    fn replay(&self, from: Position, see: &mut dyn FnMut(&Delivery) -> bool) {
        self.show_from(from.0, see);
    }

    fn hold(&mut self, from: Option<Position>) {
        self.held = from;
    }

    fn declare(&mut self, now: Instant, declaration: &Declaration) -> DeclareProgress {
        let progress = self.ask_to_declare(now, declaration);
        self.settle(now);
        progress
    }

    fn copies(&self, holder: &Holder) -> Copies {
        self.copies_of(holder)
    }

    fn overfull(&self) -> Option<&Overfull> {
        self.overfull.as_deref()
    }

    fn obstacle(&self, now: Instant) -> Option<Obstacle> {
        self.what_is_lacking(now)
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        //= X56
        (!self.proposer.is_done()).then_some(OrderWait::Window)
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        self.reachability(now).into_iter().for_each(|reach| see(Fact::Peer(reach)));
        self.each_program(see);
        self.contradiction().or_else(|| self.trouble(now)).into_iter().for_each(|trouble| see(Fact::Trouble(trouble)));
        see(Fact::State(self.describe(now)));
    }
}

impl Paxos {
    pub(crate) fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        see("foreign_log", c.foreign_log);
        see("outdated_packets", c.outdated);
        see("terms_led", c.led);
        see("terms_handed_over", c.handed_over);
        see("instances_proposed", c.proposed);
        see("instances_decided", c.decided);
        see("instances_known", self.learner.next());
        see("instances_retained", self.learner.next() - self.learner.first().at);
        see("checkpoints_declared", self.learner.head().declared.len() as u64);
        see("retained_bytes", self.learner.bytes() as u64);
        see("checkpoints_taken", c.jumps);
        see("instances_learnt", c.learnt);
        see("values_voided", self.learner.voided);
        see("values_fetched", c.fetched);
        see("retransmissions_sent", c.retried);
        see("records_written", c.records);
        see("unwritten_bytes", self.unwritten as u64);
        see("votes_put_off", c.put_off);
        see("links_lost", c.links_lost);
        see("ordered_messages", self.learner.place());
        see("assertion_failures", c.assertion_failures);
        see("queued_bytes", self.proposer.queue.bytes() as u64);
        see("under_way_bytes", self.proposer.bytes() as u64);
        see("pool_values", self.pool.len() as u64);
        if let Role::Leading(leading) = &self.role {
            see("open_instances", leading.open.len() as u64);
        }
    }

    pub(crate) fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        let others = self.config.members.iter().filter(|node| **node != self.me.node);
        let reach = |node: &NodeId| PeerReach {
            node: *node,
            heard: self.peers.get(node).map(|peer| now.since(peer.at)),
            hears_us: self.peers.get(node).is_some_and(|peer| self.is_mutual(peer, now)),
            quarantined: false,
            outdated: None,
        };
        others.map(reach).collect()
    }

    pub(crate) fn describe(&self, now: Instant) -> String {
        let role = match &self.role {
            Role::Follower { .. } => "follows".into(),
            Role::Standing { .. } | Role::Preparing { .. } => "stands".into(),
            Role::Leading(leading) => format!("leads with {} open up to {}", leading.open.len(), leading.next),
        };
        let stands = match self.acceptor.as_ref().map(|acceptor| &acceptor.standing) {
            None => "learner",
            Some(Standing::Blank { answers }) if answers.is_empty() => "acceptor that knows nothing",
            Some(Standing::Blank { .. } | Standing::Adopting { .. }) => "acceptor that recovers",
            Some(Standing::Asking { .. }) => "acceptor that asks whether its records are the newest",
            Some(Standing::Announcing { .. }) => "acceptor that votes once the others have noted it",
            Some(Standing::Outdated { .. }) => "acceptor whose records are older than what it voted for",
            Some(Standing::Voting) => "acceptor",
        };
        let leader = self.leader.as_ref().map_or("nobody".into(), |lead| lead.ballot.to_string());
        let place = if self.members().is_some() { "in" } else { "outside" };
        let near = self.peers.values().filter(|peer| self.is_near(peer, now)).count();
        let (view, next, first) = (self.learner.present().number, self.learner.next(), self.learner.first().at);
        let storage = self.config.storage.name();
        let mut holders = String::new();
        for (holder, from) in self.learner.head().declared.holders() {
            holders.push_str(if holders.is_empty() { ", holds for " } else { " and " });
            holders.push_str(&format!("{holder} from {from} on"));
        }
        format!(
            "{stands}, {role}, led by {leader}, {place} view {view}, knows {next} instances from {first} on, hears {near}, storage {storage}{holders}"
        )
    }
}
