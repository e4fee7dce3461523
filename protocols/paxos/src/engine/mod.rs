//! All roles of one node together.
use self::advice::Advised;
use self::declare_requests::DeclareRequests;
use self::retention::{Ledger, Timeline};
use crate::acceptor::Acceptor;
use crate::ballot::{Ballot, Began, Incarnations, Item, LogId, ValueId};
use crate::config::{Config, ConfigError};
use crate::coordinator::Role;
use crate::learner::{Learner, Pool};
use crate::packet::{Beat, Content, Lead, Packet};
use crate::proposer::Proposer;
use bytes::Bytes;
use consort_order::{Destination, Lane, Output, Overfull};
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, Position, Rng, Ticket, View};
use consort_wire::pack::Body;
use replay::Places;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod acceptor_role;
mod advice;
mod beats;
mod bootstrap;
mod contract;
mod coordinator_role;
mod declare_requests;
mod learner_role;
mod merge_source;
#[cfg(feature = "model")]
mod model;
mod outdated;
mod payload_ring;
mod programs;
mod readiness;
mod recovery;
mod replay;
mod retention;
mod returning;
mod samples;
mod views;

/// An ordering engine: proposer, acceptor where it is one, learner, and coordinator where it leads.
#[derive(Clone, Debug)]
pub struct Paxos {
    config: Config,
    me: MemberId,
    log: LogId,
    /// The incarnations that began it, where they are known.
    founders: Vec<MemberId>,
    acceptor: Option<Acceptor>,
    learner: Learner,
    places: Places,
    pool: Pool,
    proposer: Proposer,
    role: Role,
    /// The latest incarnation that was heard of each node.
    latest: Incarnations,
    peers: BTreeMap<NodeId, Peer>,
    /// Nodes whose link broke and has not come up again, and since when.
    links_down: BTreeMap<NodeId, Instant>,
    /// The coordinator that was heard last.
    leader: Option<Lead>,
    /// The incarnations of acceptors that are known.
    began: Began,
    /// Those of them that are kept.
    noted: Began,
    /// The incarnation that wrote the records which were found at the start; 0 for none.
    follows: Incarnation,
    /// The largest round that was heard of.
    round: u64,
    /// The view that this node is in.
    inside: Option<View>,
    /// Since that view another one became primary.
    missed_primary: bool,
    leave_stage: LeaveStage,
    started: Instant,
    beat: u64,
    beat_at: Instant,
    /// The coordinator's beat that this acceptor last promised to wait for.
    echo: Option<(Ballot, u64)>,
    annotation: Bytes,
    /// When something was last asked of whom, and what was known then.
    asked: Asked,
    missing: Missing,
    /// When payloads of what others accepted may be asked for again.
    fetch_at: Instant,
    /// How far the disk knows what is decided.
    marked: u64,
    /// How far what is decided is written, or on its way: less than what is taken where the disk was full of work.
    noted_up_to: u64,
    ticket: u64,
    ledger: Ledger,
    timeline: Timeline,
    /// From where on programs have yet to read.
    held: Option<Position>,
    /// Checkpoints of programs that are to be declared.
    requests: DeclareRequests,
    /// Why messages of clients wait, while the log is full.
    overfull: Option<Box<Overfull>>,
    /// The first instance that is yet to be merged with other logs.
    unmerged: Option<u64>,
    /// It is not to be let in yet: it has other logs to read first.
    reserved: bool,
    /// It may be let in at any time where logs are merged: from then on it may miss nothing.
    awaited: bool,
    /// It begins where the log ends now, and has nothing to do with what an earlier reader of this node did.
    late: bool,
    /// It has yet to begin: where the log ends it does not know.
    seeks_end: bool,
    advised: Advised,
    /// The last view that was installed where this log is merged with others.
    installed: Option<u64>,
    /// Where the next part of the log begins that others are to compare, and whose logs were found to contradict this one.
    sample_from: u64,
    contradictions: BTreeMap<NodeId, samples::Contradiction>,
    /// What is on its way to the disk.
    writing: BTreeMap<Ticket, Writing>,
    unwritten: usize,
    /// What this node says to itself.
    loopback: VecDeque<Content>,
    output: VecDeque<Output<Packet>>,
    rng: Rng,
    counters: Counters,
}

/// What was heard of another node last.
#[derive(Clone, Debug)]
struct Peer {
    member: MemberId,
    at: Instant,
    log: LogId,
    beat: Beat,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Who was.
    whom: Option<NodeId>,
    /// Until then its answer is waited for.
    until: Instant,
    wait: Duration,
    next: u64,
    turn: usize,
}

/// Who was asked for the next instance in vain.
#[derive(Clone, Debug, Default)]
struct Missing {
    at: u64,
    asked: BTreeSet<NodeId>,
    /// The lowest instance from which on one of them retains the log, where all that answered have trimmed this one.
    retained: Option<u64>,
}

/// A record on its way to the disk.
#[derive(Clone, Debug)]
struct Writing {
    then: Then,
    /// What it takes up until it is there.
    bytes: usize,
    since: Instant,
}

/// What is done once a record is kept.
#[derive(Clone, Debug)]
enum Then {
    /// Nothing, and it may be kept whenever something else is.
    Nothing,
    /// Nothing.
    Rest,
    /// This node's own ballot may be used.
    Stand(Ballot),
    Promise {
        ballot: Ballot,
        from: u64,
    },
    Vote {
        ballot: Ballot,
        at: u64,
    },
    /// The incarnation of one that forgot is noted: it is told what it may have promised.
    Answer(MemberId),
    /// Everything that was adopted is kept.
    Adopted,
    /// The name of this incarnation is kept.
    Announce,
    /// The name of another acceptor's incarnation is kept.
    Note {
        voter: MemberId,
        has_forgotten: bool,
        log: LogId,
    },
    /// The disk counts as empty: the node begins again with nothing.
    StartAnew {
        /// Why.
        cause: String,
    },
    /// Records up to this one may go.
    Trim(Ticket),
}

/// How far this node is with leaving.
///
/// | from | to | when |
/// |---|---|---|
/// | `Stays` | `Leaving` | it is asked to |
/// | `Leaving` | `Gone` | it is in no view any more, or its time is over |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaveStage {
    Stays,
    Leaving { until: Instant },
    Gone,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    foreign_log: u64,
    outdated: u64,
    led: u64,
    handed_over: u64,
    proposed: u64,
    decided: u64,
    retried: u64,
    learnt: u64,
    fetched: u64,
    records: u64,
    put_off: u64,
    jumps: u64,
    links_lost: u64,
    assertion_failures: u64,
    last_assertion: Option<&'static str>,
}

impl Paxos {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`ConfigError`] if the settings cannot work.
    pub fn new(config: Config, incarnation: Incarnation) -> Result<Self, ConfigError> {
        config.validate()?;
        let me = MemberId { node: config.me, incarnation };
        let acceptor = config.is_acceptor(me.node).then(Acceptor::default);
        let mut began = Began::default();
        if acceptor.is_some() {
            began.all.note(me);
        }
        #[cfg_attr(not(feature = "mutants"), allow(unused_mut))]
        let mut learner = Learner::default();
        #[cfg(feature = "mutants")]
        {
            learner.mutant = config.mutant;
        }
        Ok(Self {
            me,
            log: LogId::NONE,
            founders: Vec::new(),
            acceptor,
            learner,
            places: Places::default(),
            pool: Pool::new(),
            proposer: Proposer::new(&config, me),
            role: Role::Follower { stand_at: Instant::ZERO },
            latest: Incarnations::default(),
            peers: BTreeMap::new(),
            links_down: BTreeMap::new(),
            leader: None,
            began,
            noted: Began::default(),
            follows: Incarnation(0),
            round: 0,
            inside: None,
            missed_primary: false,
            leave_stage: LeaveStage::Stays,
            started: Instant::ZERO,
            beat: 0,
            beat_at: Instant::ZERO,
            echo: None,
            annotation: Bytes::new(),
            asked: Asked::default(),
            missing: Missing::default(),
            fetch_at: Instant::ZERO,
            marked: 0,
            noted_up_to: 0,
            ticket: 0,
            ledger: Ledger::default(),
            timeline: Timeline::default(),
            held: None,
            requests: DeclareRequests::default(),
            overfull: None,
            unmerged: None,
            reserved: false,
            awaited: false,
            late: false,
            seeks_end: false,
            advised: Advised::default(),
            installed: None,
            sample_from: 0,
            contradictions: BTreeMap::new(),
            writing: BTreeMap::new(),
            unwritten: 0,
            loopback: VecDeque::new(),
            output: VecDeque::new(),
            rng: Rng::new(incarnation.0 ^ u64::from(config.me.0) << 40),
            counters: Counters::default(),
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What is decided here.
    pub const fn learner(&self) -> &Learner {
        &self.learner
    }

    /// This node as an acceptor, where it is one.
    pub const fn acceptor(&self) -> Option<&Acceptor> {
        self.acceptor.as_ref()
    }

    /// What this node does as a coordinator.
    pub const fn role(&self) -> &Role {
        &self.role
    }

    /// This incarnation of this node.
    pub const fn me(&self) -> MemberId {
        self.me
    }

    /// The members of the log's view that this node is in, if it is in one.
    pub fn members(&self) -> Option<&[MemberId]> {
        self.inside
            .as_ref()
            .filter(|view| self.is_member(self.learner.present().number) && view.id.number > 0)
            .map(|view| &view.members[..])
    }

    /// The log that it belongs to.
    pub const fn log(&self) -> LogId {
        self.log
    }

    /// The incarnations that began the log, where they are known.
    #[cfg(test)]
    pub(crate) fn founders(&self) -> &[MemberId] {
        &self.founders
    }

    /// The rule whose assertion failed last, if any did.
    pub const fn last_assertion(&self) -> Option<&'static str> {
        self.counters.last_assertion
    }

    fn send(&mut self, to: NodeId, content: Content) {
        if to == self.me.node {
            self.loopback.push_back(content);
        } else {
            let packet = Packet { log: self.log, content };
            self.output.push_back(Output::Send { to: Destination::One(to), lane: Lane::Reliable, packet });
        }
    }

    /// What this node said to itself, and what follows from all that was said.
    fn settle(&mut self, now: Instant) {
        loop {
            self.propose_own(now);
            let Some(content) = self.loopback.pop_front() else { break };
            self.on_content(now, self.me, content);
        }
        if self.proposer.queue.has_room_again() {
            self.output.push_back(Output::Room);
        }
    }

    /// One that belongs to this node's log.
    fn on_content(&mut self, now: Instant, from: MemberId, content: Content) {
        //= X35
        if matches!(content, Content::Promise { .. } | Content::Vote { .. }) && self.is_put_back(from) {
            return;
        }
        match content {
            Content::Beat(beat) => self.on_beat(now, from, self.log, *beat),
            Content::Value(value) => self.on_value(now, value),
            Content::Prepare { ballot, from: first } => self.on_prepare(now, from, ballot, first),
            Content::Promise { ballot, told } => self.on_promise(now, from, ballot, told),
            Content::Nack { ballot, promised } => self.on_nack(now, ballot, promised),
            Content::Accept { ballot, at, item, hops } => self.on_accept(now, ballot, at, item, hops),
            Content::Vote { ballot, at, incarnations } => self.on_vote(now, from, ballot, at, &incarnations),
            Content::Decide { at, item, hops } => self.on_decide(now, at, item, hops),
            Content::Fetch(names) => self.on_fetch(from.node, &names),
            Content::Learn(first) => self.on_learn(from.node, first),
            Content::Learnt { from: first, entries } => self.on_learnt(now, first, entries),
            Content::Recover => self.on_recover(now, from),
            Content::Recovered(recovered) => self.on_recovered(now, from, *recovered),
            Content::Checkpoint(start) => self.on_checkpoint(now, *start),
            Content::End(end) => self.on_end(now, *end),
            Content::Declare(statement) => self.on_declare(now, *statement),
            Content::Yield { ballot, to } => self.on_yield(now, from, ballot, to),
            Content::Outdated(later) => self.exceed(from, later),
        }
    }

    /// The payload of a value that is not decided, wherever it is held.
    fn payload(&self, id: &ValueId) -> Option<Body> {
        find(&self.pool, self.acceptor.as_ref(), id)
    }

    /// Notes a broken invariant: counted in every build, and fatal in debug builds, so that tests stop where it broke.
    fn check(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.counters.assertion_failures += 1;
            self.counters.last_assertion = Some(rule);
            if cfg!(all(debug_assertions, not(feature = "mutants"))) {
                panic!("{rule}");
            }
        }
    }
}

/// The payload of a value: as it came, or as it was accepted.
fn find(pool: &Pool, acceptor: Option<&Acceptor>, id: &ValueId) -> Option<Body> {
    let accepted = || {
        let accepted = acceptor?.accepted.values();
        accepted.filter(|accepted| accepted.item == Item::Value(*id)).find_map(|accepted| accepted.body.clone())
    };
    pool.get(id).cloned().or_else(accepted)
}
