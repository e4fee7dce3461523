//! What an engine reports beside its outputs, and the pressure that it is told of.
use crate::Engine;
use consort_types::{Duration, Incarnation, Instant, NodeId};
use std::fmt;

/// Pressure outside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// The layer above can take so many bytes of deliveries soon, `usize::MAX` where it keeps up. Nobody may send more than
    /// that in a round, but always something.
    Room(usize),
    /// The node's sockets had no room for packets that came.
    Overflow,
}

/// One observation of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A counter or gauge. Names are stable and end in their unit where they have one.
    Counter(&'static str, u64),
    /// The path to and from another node.
    Peer(PeerReach),
    /// One line for `status`: the engine's state and, where it waits, the cause.
    State(String),
    /// The same of one of several parts of the engine, such as a ring, beside the line of the whole.
    Part {
        /// What is told; names are stable, and numbers end in their unit where they have one.
        what: &'static str,
        /// Of which part.
        part: u16,
        /// It.
        value: String,
    },
    /// How the copies of a program are, for people.
    Program {
        /// Its name.
        name: String,
        /// It.
        value: String,
    },
    /// What keeps this node from taking part until a person does something: what, where, and the remedy.
    Trouble(String),
    /// What a gateway sends on into one of its rings.
    SentOn {
        /// Which ring.
        ring: u16,
        /// Beside what is for all, messages of these topics, ascending; none where it is everything.
        topics: Option<Vec<crate::Topic>>,
    },
}

/// What is known of the way to and from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReach {
    /// Which node.
    pub node: NodeId,
    /// How long ago it was heard last; `None` if never.
    pub heard: Option<Duration>,
    /// Whether it says that it hears us.
    pub hears_us: bool,
    /// Whether it is kept out for a while.
    pub quarantined: bool,
    /// It speaks, but in an incarnation that is earlier than one heard of lately, so that what it says is dropped: that
    /// incarnation, and the one that counts.
    pub outdated: Option<(Incarnation, Incarnation)>,
}

impl PeerReach {
    /// Whether nothing is known of it: it may never have run.
    pub const fn is_unknown(&self) -> bool {
        self.heard.is_none() && self.outdated.is_none() && !self.quarantined
    }
}

impl fmt::Display for PeerReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((incarnation, latest)) = self.outdated {
            return write!(f, "heard, but dropped: incarnation {incarnation} is older than {latest}");
        }
        let Some(heard) = self.heard else { return f.write_str("never heard") };
        let hears = if self.hears_us { "hears us" } else { "does not hear us" };
        let kept_out = if self.quarantined { ", kept out for a while" } else { "" };
        write!(f, "heard {} ms ago, {hears}{kept_out}", heard.as_millis())
    }
}

/// The counters and gauges of an engine.
pub fn each_counter<E: Engine>(engine: &E, now: Instant, see: &mut dyn FnMut(&'static str, u64)) {
    engine.observe(now, &mut |fact| {
        if let Fact::Counter(name, value) = fact {
            see(name, value);
        }
    });
}

/// What keeps a node from taking part until a person does something, if anything does.
pub fn trouble_of<E: Engine>(engine: &E, now: Instant) -> Option<String> {
    let mut trouble = None;
    engine.observe(now, &mut |fact| {
        if let Fact::Trouble(text) = fact {
            trouble = Some(text);
        }
    });
    trouble
}

/// The state of an engine, in one line.
pub fn state_of<E: Engine>(engine: &E, now: Instant) -> String {
    let mut state = String::new();
    engine.observe(now, &mut |fact| {
        if let Fact::State(line) = fact {
            state = line;
        }
    });
    state
}
