//! The DAG, the votes and the membership, put together.
//!
//! ```text
//! contract  as an engine                room    what there is of one view
//! change    from one view to the next   flow    sending: messages, acknowledgements, requests
//! ```
mod change;
mod contract;
mod flow;
mod room;

use crate::config::{TotoConfig, TotoConfigError, rides};
use crate::delivery::is_ordered;
use crate::packet::{DagMessage, TotoPacket};
use crate::votes::CandidateStanding;
use consort_member::vs::{AgreedSet, Membership};
use consort_order::{Output, SubmitQueue};
use consort_types::{Incarnation, Instant, Rng};
use room::Room;
use std::collections::{BTreeMap, VecDeque};

/// One node.
#[derive(Clone, Debug)]
pub struct Toto {
    config: TotoConfig,
    vs: Membership,
    queue: SubmitQueue,
    /// What there is of the installed view; none before the first.
    room: Option<Room>,
    stage: ClosingStage,
    /// The event that makes the view primary is to be sent.
    primary_due: bool,
    /// When to acknowledge though there is nothing to say.
    ack_at: Option<Instant>,
    /// When this member last sent a message, or a null.
    sent_at: Instant,
    output: VecDeque<Output<TotoPacket>>,
    counters: TotoCounters,
    rng: Rng,
}

/// How far the installed view is from its end.
#[derive(Clone, Debug)]
enum ClosingStage {
    /// It goes on.
    Open,
    /// Nothing new is sent in it.
    Halted,
    /// Nothing is taken in and nothing delivered: what is held was told.
    Frozen,
    /// Only what belongs to the agreed set is taken in.
    Fetching(AgreedSet),
}

/// What happened so far.
#[derive(Clone, Debug, Default)]
struct TotoCounters {
    messages_sent: u64,
    nulls_sent: u64,
    naks_sent: u64,
    retransmissions_sent: u64,
    status_sent: u64,
    useless: u64,
    foreign_view: u64,
    released: u64,
    activations: u64,
    /// Over all released messages: of how many machines messages beside it were heard before it was released.
    latency_index_sum: u64,
    /// Over all ordered messages: of how many machines messages beside it were held when it came.
    concurrency_sum: u64,
    ordered: u64,
    /// How many released messages had which of both.
    indices: BTreeMap<(u64, u64), u64>,
    torn: u64,
    assertion_failures: u64,
    last_assertion: Option<&'static str>,
}

impl Toto {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`TotoConfigError`] if the settings cannot work.
    pub fn new(config: TotoConfig, incarnation: Incarnation) -> Result<Self, TotoConfigError> {
        config.validate()?;
        let vs = Membership::new(config.membership(), incarnation)?;
        Ok(Self {
            queue: SubmitQueue::new(config.queue_bytes, config.message_max, rides(config.early)),
            vs,
            room: None,
            stage: ClosingStage::Halted,
            primary_due: false,
            ack_at: None,
            sent_at: Instant::ZERO,
            output: VecDeque::new(),
            counters: TotoCounters::default(),
            rng: Rng::new(incarnation.0 ^ u64::from(config.me.0) << 40),
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &TotoConfig {
        &self.config
    }

    /// This incarnation of the node.
    pub const fn incarnation(&self) -> Incarnation {
        self.vs.me().incarnation
    }

    /// How many messages were released here with which indices of latency and of concurrency, the paper's tau and omega:
    /// of how many machines messages beside it were heard when it was released, and when it came.
    pub fn indices(&self) -> impl Iterator<Item = ((u64, u64), u64)> {
        self.counters.indices.iter().map(|(indices, count)| (*indices, *count))
    }

    /// How the votes would stand for each candidate if these messages of the view came and nothing were released by them;
    /// without messages, how they stand. None before the first view.
    pub fn standings_with(&self, messages: &[DagMessage]) -> Vec<CandidateStanding> {
        let Some(room) = &self.room else { return Vec::new() };
        let (mut dag, mut votes) = (room.dag.clone(), room.votes.clone());
        for message in messages.iter().filter(|message| message.view == room.view.id) {
            dag.take(message.clone());
            while let Some(mark) = dag.insert_next(None) {
                let ordered = dag.node(mark).is_some_and(|node| is_ordered(&self.config, &node.content));
                votes.insert(&dag, mark, ordered);
            }
        }
        votes.standings(&dag)
    }

    /// The rule whose assertion failed last, if any did.
    pub const fn last_assertion(&self) -> Option<&'static str> {
        self.counters.last_assertion
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
