//! Every knob of the engine, with its advice.
use consort_types::{Duration, Incarnation, NodeId};

/// How the engine is set up. Members whose shared settings differ must not talk: see [`Config::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// All nodes, this one among them, in any order. All propose and learn. Shared.
    pub members: Vec<NodeId>,
    /// Those of them that vote: 1, 3, 5 or 7. A majority of them must be up for anything to be ordered. Shared.
    pub acceptors: Vec<NodeId>,
    /// What acceptors keep through a restart. Shared.
    pub storage: Storage,
    /// How many instances may be open at once.
    pub window: usize,
    /// How many bytes of payload may be open at once.
    pub window_bytes: usize,
    /// How large a value grows by packing messages, in bytes. A larger message is a value of its own.
    pub value: usize,
    /// How many values a node may have under way. Messages that come meanwhile share the next one.
    pub values: usize,
    /// How many bytes a node may have under way; one value always may. Credits of all nodes together must fit into the
    /// queue of each link.
    pub credit: usize,
    /// How often a node says that it lives, and looks after what was lost.
    pub beat: Duration,
    /// For how long an acceptor that has heard the coordinator promises to nobody else.
    pub lease: Duration,
    /// After what silence a node counts as gone.
    pub silence: Duration,
    /// After what time something unanswered is sent again.
    pub retry: Duration,
    /// How many bytes of the decided log are retained, for nodes that missed something and for programs that read it again.
    pub retain: usize,
    /// For how long they are retained at most; zero means without such a limit.
    pub retain_for: Duration,
    /// What is done once four times `retain` is held for copies of programs.
    pub on_budget: OnBudget,
    /// How many bytes of accepted messages may wait, for each class.
    pub queue_bytes: usize,
    /// The largest message, in bytes. Shared.
    pub message_max: usize,
    /// The incarnation of this node that found its records to be a copy, so that they may be older than its votes; 0 for none.
    pub copied_in: Incarnation,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

/// What acceptors keep through a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nothing: whoever restarts asks a majority of the others first. If a majority restarts at once, all is lost.
    Memory,
    /// What the operating system keeps: an acceptor votes once its vote is written, not synced. It outlasts the process;
    /// where the machine stops with it, the disk counts as lost.
    Async,
    /// Everything: an acceptor votes only once its vote is on the disk.
    Sync,
}

impl Storage {
    /// Its name in configuration and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }
}

/// What is done once the log holds as much for copies of programs as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBudget {
    /// Messages of clients wait until the copies have made checkpoints.
    Wait,
    /// The oldest part goes. If all daemons stop then, the programs that lacked it lose it.
    LetGo,
}

impl OnBudget {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::LetGo => "let_go",
        }
    }
}

/// A setting that cannot work. Names the setting, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct ConfigError {
    /// Its name in the configuration file.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

impl Config {
    /// The defaults for these nodes: the first up to seven, an odd number of them, vote.
    pub fn new(me: NodeId, members: Vec<NodeId>) -> Self {
        let mut acceptors = members.clone();
        acceptors.sort_unstable();
        acceptors.truncate(if members.len() >= 7 { 7 } else { (members.len().max(1) - 1) / 2 * 2 + 1 });
        Self {
            me,
            acceptors,
            storage: Storage::Sync,
            window: 256,
            window_bytes: 16 << 20,
            value: 64 << 10,
            values: 16,
            credit: ((2 << 20) / members.len().max(1)).max(128 << 10),
            members,
            beat: Duration::from_millis(25),
            lease: Duration::from_millis(250),
            silence: Duration::from_millis(600),
            retry: Duration::from_millis(50),
            retain: 256 << 20,
            retain_for: Duration::ZERO,
            on_budget: OnBudget::Wait,
            queue_bytes: 32 << 20,
            message_max: consort_wire::MESSAGE_MAX,
            copied_in: Incarnation(0),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// How many acceptors are a majority.
    pub fn quorum(&self) -> usize {
        //= X01
        let majority = self.acceptors.len() / 2 + 1;
        if crate::mutated!(self, SmallQuorum) { (majority - 1).max(1) } else { majority }
    }

    /// With more bytes of records on their way to the disk an acceptor votes for nothing more.
    pub const fn unwritten(&self) -> usize {
        // What a window opens must not be held up by what the one before has left.
        self.window_bytes.saturating_mul(2)
    }

    /// Whether a node votes.
    pub fn is_acceptor(&self, node: NodeId) -> bool {
        self.acceptors.contains(&node)
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let twice = |nodes: &[NodeId]| (1..nodes.len()).any(|at| nodes[..at].contains(&nodes[at]));
        check(self.members.contains(&self.me), "nodes", || format!("{} is not among them; name it", self.me))?;
        check(!twice(&self.members), "nodes", || "one is named twice; name each once".into())?;
        let n = self.acceptors.len();
        check([1, 3, 5, 7].contains(&n), "paxos.acceptors", || format!("{n} of them; use 1, 3, 5 or 7"))?;
        check(!twice(&self.acceptors), "paxos.acceptors", || "one is named twice; name each once".into())?;
        let stranger = self.acceptors.iter().find(|node| !self.members.contains(node));
        check(stranger.is_none(), "paxos.acceptors", || {
            format!("{} is no node; name configured ones", stranger.copied().unwrap_or_default())
        })?;
        check(self.window >= 1, "paxos.window", || "0; use 1 or more".into())?;
        check(self.values >= 1, "paxos.values", || "0; use 1 or more".into())?;
        check(self.value >= 1_024, "paxos.value", || format!("{} bytes; use 1024 or more", self.value))?;
        for (setting, span) in [("paxos.beat", self.beat), ("paxos.retry", self.retry)] {
            check(!span.is_zero(), setting, || "0; give others time to speak".into())?;
        }
        check(self.lease >= self.beat * 4, "paxos.lease", || {
            format!("{:?} is less than four beats of {:?}; raise it", self.lease, self.beat)
        })?;
        check(self.silence >= self.lease, "paxos.silence", || {
            format!("{:?} is below the lease {:?}; raise it", self.silence, self.lease)
        })?;
        check(self.retain >= self.value, "paxos.retain", || {
            format!("{} bytes are less than one value of {}; raise it", self.retain, self.value)
        })?;
        let checked = consort_order::SubmitQueue::check(self.queue_bytes, self.message_max);
        checked.map_err(|(setting, problem)| ConfigError { setting, problem })
    }

    /// The settings that all members must share, as text to be hashed into every envelope.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let list = |nodes: &[NodeId]| {
            let mut nodes = nodes.to_vec();
            nodes.sort_unstable();
            nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ")
        };
        vec![
            ("protocol", "paxos".into()),
            ("nodes", list(&self.members)),
            ("paxos.acceptors", list(&self.acceptors)),
            ("paxos.storage", self.storage.name().into()),
            ("largest frame", self.message_max.to_string()),
        ]
    }
}

fn check(ok: bool, setting: &'static str, problem: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { setting, problem: problem() }) }
}
