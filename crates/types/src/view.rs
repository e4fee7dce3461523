//! Views: who is there, and why that changed.
use crate::{Incarnation, MemberId, NodeId};
use std::fmt;
use std::time::Duration;

/// Names one configuration. Totem calls it the ring id. Ordered by number, then by representative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId {
    /// Larger than every number any of the members has seen before.
    pub number: u64,
    /// The member that proposed the view: the one with the lowest node index.
    pub representative: MemberId,
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.number, self.representative)
    }
}

/// Regular views are agreed by all their members; a transitional one closes the view before it for those that move on
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewKind {
    /// Messages that follow were sent in this view.
    Regular,
    /// Messages that follow still belong to the view before, with its promises reduced to these members.
    Transitional,
}

/// Whether this view is the primary one under the configured policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primary {
    /// An ordered event has shown that all members installed the view, and the policy holds.
    Yes,
    /// The policy would hold, but not all members are known to have installed the view yet.
    Pending,
    /// The policy does not hold.
    No,
    /// No policy is configured: whether the view is primary is not asked.
    NoPolicy,
}

impl Primary {
    /// The word for it in status, metrics and events.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Pending => "pending",
            Self::No => "no",
            Self::NoPolicy => "no policy",
        }
    }

    /// Reads what [`Self::word`] gives.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Yes, Self::Pending, Self::No, Self::NoPolicy].into_iter().find(|primary| primary.word() == word)
    }

    /// The number for it in the session protocol.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::Yes => 1,
            Self::Pending => 2,
            Self::No => 3,
            Self::NoPolicy => 4,
        }
    }

    /// Reads what [`Self::to_wire`] gives.
    pub const fn from_wire(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Yes),
            2 => Some(Self::Pending),
            3 => Some(Self::No),
            4 => Some(Self::NoPolicy),
            _ => None,
        }
    }
}

/// Why a view replaced the one before, with the evidence at hand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewCause {
    /// The first view of this incarnation.
    Started,
    /// The configured members found each other.
    Formed,
    /// No token came round in time.
    TokenLost {
        /// How long none had come.
        after: Duration,
    },
    /// These nodes were not heard any more.
    Silent {
        /// Which.
        nodes: Vec<NodeId>,
        /// Since when, at least, in time before the change.
        since: Duration,
    },
    /// These nodes hear us or we hear them, but not both.
    OneWay {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// These nodes sent, but did not receive what others sent.
    Deaf {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// This node asked for a new view.
    Asked {
        /// Which.
        node: NodeId,
    },
    /// These nodes went another way.
    Apart {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// These nodes wait for a part of the order that does not come, and have the others go on.
    HeldUp {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// These nodes said good-bye.
    Left {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// These nodes came back in a new incarnation.
    Restarted {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// These nodes speak, but in incarnations earlier than ones heard of lately, so that what they say is dropped.
    Outdated {
        /// In which incarnations they speak, and which count.
        incarnations: Vec<(MemberId, Incarnation)>,
    },
    /// These nodes were found and let in.
    Merged {
        /// Which.
        nodes: Vec<NodeId>,
    },
}

/// A membership event. Views travel in the same queue as messages, because their place among them is the promise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Which configuration. A transitional view carries the id of the regular view that it closes.
    pub id: ViewId,
    /// Regular or transitional.
    pub kind: ViewKind,
    /// All members, by ascending node index.
    pub members: Vec<MemberId>,
    /// The members that came here together from this node's previous regular view.
    pub moved_together: Vec<MemberId>,
    /// Whether an application that wants a single decider may act.
    pub primary: Primary,
    /// What set the change off.
    pub cause: ViewCause,
    /// What else is known: who is missing and why, who is new.
    pub evidence: Vec<ViewCause>,
    /// Since this node's previous regular view another one became primary, which this node was not in. Engines set it where
    /// all views are in one order; parts of a network know nothing of each other's.
    pub missed_primary: bool,
}

impl View {
    /// Why this view replaced the one before: what set the change off, then what else is known, nothing twice.
    pub fn why(&self) -> String {
        let mut all: Vec<&ViewCause> = Vec::new();
        for cause in std::iter::once(&self.cause).chain(&self.evidence) {
            if !all.iter().any(|told| told.says(cause)) {
                all.push(cause);
            }
        }
        all.into_iter().map(ViewCause::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl ViewCause {
    /// Whether another is the same in other words: of who is silent it does not matter when that was measured.
    fn says(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Silent { nodes, .. }, Self::Silent { nodes: others, .. }) => nodes == others,
            _ => self == other,
        }
    }
}

impl fmt::Display for ViewCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, nodes: &[NodeId], what: &str| {
            let names: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
            write!(f, "{} {what}", names.join(", "))
        };
        match self {
            Self::Started => f.write_str("started"),
            Self::Formed => f.write_str("the configured members found each other"),
            Self::TokenLost { after } => write!(f, "token lost after {} ms", after.as_millis()),
            Self::Silent { nodes, since } => list(f, nodes, &format!("silent for {} ms", since.as_millis())),
            Self::OneWay { nodes } => list(f, nodes, "heard only one way"),
            Self::Deaf { nodes } => list(f, nodes, "did not receive what the others received"),
            Self::Asked { node } => write!(f, "{node} asked for a new view"),
            Self::Apart { nodes } => list(f, nodes, "went another way"),
            Self::HeldUp { nodes } => list(f, nodes, "waited for a ring that decides nothing"),
            Self::Left { nodes } => list(f, nodes, "left"),
            Self::Restarted { nodes } => list(f, nodes, "restarted"),
            Self::Outdated { incarnations } => {
                let told = incarnations.iter().map(|(MemberId { node, incarnation }, latest)| {
                    format!("{node} heard, but dropped: incarnation {incarnation} is older than {latest}")
                });
                f.write_str(&told.collect::<Vec<_>>().join(", "))
            }
            Self::Merged { nodes } => list(f, nodes, "joined"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_word_and_its_number() {
        for code in 1..=4 {
            let primary = Primary::from_wire(code).unwrap();
            assert_eq!((primary.to_wire(), Primary::from_word(primary.word())), (code, Some(primary)));
        }
        assert_eq!([Primary::from_wire(0), Primary::from_wire(5), Primary::from_word("maybe")], [None; 3]);
    }

    #[test]
    fn a_cause_that_is_its_own_evidence_is_told_once() {
        let left = ViewCause::Left { nodes: vec![NodeId(3)] };
        let silent = ViewCause::Silent { nodes: vec![NodeId(2)], since: Duration::from_millis(340) };
        let view = View {
            id: ViewId::default(),
            kind: ViewKind::Regular,
            members: Vec::new(),
            moved_together: Vec::new(),
            primary: Primary::No,
            cause: left.clone(),
            evidence: vec![silent.clone(), left],
            missed_primary: false,
        };
        assert_eq!(view.why(), "n3 left; n2 silent for 340 ms");
        let later = ViewCause::Silent { nodes: vec![NodeId(2)], since: Duration::from_millis(341) };
        let view = View { cause: silent, evidence: vec![later], ..view };
        assert_eq!(view.why(), "n2 silent for 340 ms");
    }
}
