//! Names that are never used twice: logs, ballots, values; and sets of votes by incarnation.
use crate::checkpoints::Statement;
use consort_types::{Incarnation, MemberId, NodeId};
use std::collections::BTreeMap;
use std::fmt;

/// Names a log: voters that all begin with nothing begin one that had no predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId(pub u64);

impl LogId {
    /// No log.
    pub const NONE: Self = Self(0);

    /// The log that these incarnations begin together.
    pub fn of(incarnations: &[MemberId]) -> Self {
        //= X50
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in incarnations.iter().flat_map(|incarnation| {
            incarnation.node.0.to_be_bytes().into_iter().chain(incarnation.incarnation.0.to_be_bytes())
        }) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash.max(1))
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A coordinator's term. Only the incarnation that it names ever proposes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// Which list of voters counts; there is one so far.
    pub generation: u32,
    /// Larger than every round its owner knew of.
    pub round: u64,
    /// Who proposes with it.
    pub owner: MemberId,
}

impl Ballot {
    /// Below every ballot that is used.
    pub const ZERO: Self = Self { generation: 0, round: 0, owner: MemberId::new(0, 0) };
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.round, self.owner)
    }
}

/// Names a value: the messages that one member sent in one view as its `number`-th.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId {
    /// Which member sent it.
    pub sender: MemberId,
    /// The number of the view that its sender was in.
    pub view: u64,
    /// Its number among its sender's in that view, from 1.
    pub number: u64,
}

/// What an instance decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// Nothing: fills a hole.
    Nothing,
    /// Who is there from here on, if the view before it is the current one.
    View {
        /// The view's number.
        number: u64,
        /// The number of the view that it replaces; 0 for the first.
        after: u64,
        /// Its members, ascending.
        members: Vec<MemberId>,
    },
    /// All members have installed the view of this number: it is primary from here on.
    Primary(u64),
    /// A value, whose payload travels by itself.
    Value(ValueId),
    /// What a program says of one of its copies.
    Declare(Box<Statement>),
    /// The slots below this one are nobody's.
    Skip(u64),
}

/// Of each acceptor the latest incarnation that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incarnations(BTreeMap<NodeId, Incarnation>);

impl Incarnations {
    /// Notes an incarnation; returns whether it is news.
    pub fn note(&mut self, incarnation: MemberId) -> bool {
        let known = self.0.entry(incarnation.node).or_default();
        let news = incarnation.incarnation > *known;
        *known = incarnation.incarnation.max(*known);
        news
    }

    /// Notes all that another knows.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|incarnation| {
            self.note(incarnation);
        });
    }

    /// The latest of a node; 0 where none is known.
    pub fn latest(&self, node: NodeId) -> Incarnation {
        self.0.get(&node).copied().unwrap_or_default()
    }

    /// Whether a later incarnation of that node is known.
    pub fn outdates(&self, incarnation: MemberId) -> bool {
        self.0.get(&incarnation.node).is_some_and(|latest| *latest > incarnation.incarnation)
    }

    /// All of them, by node.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> {
        self.0.iter().map(|(node, incarnation)| MemberId { node: *node, incarnation: *incarnation })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What is known of acceptors that began again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Began {
    /// The latest incarnation of each: what earlier ones voted for may be forgotten (X31).
    pub all: Incarnations,
    /// The latest of each that went on with its records, and voted in the log or was about to (X35).
    pub voted: Incarnations,
    /// The latest of each that had forgotten, and voted in the log or was about to (X109).
    pub adopted: Incarnations,
}

impl Began {
    /// Notes all that another knows.
    pub fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        self.voted.merge(&other.voted);
        self.adopted.merge(&other.adopted);
    }

    /// Notes one that votes or is about to.
    pub fn note_voter(&mut self, incarnation: MemberId, has_forgotten: bool) {
        self.all.note(incarnation);
        if has_forgotten {
            self.adopted.note(incarnation)
        } else {
            self.voted.note(incarnation)
        };
    }

    /// The latest of each that voted in the log or was about to.
    pub fn voters(&self) -> Incarnations {
        let mut voters = self.voted.clone();
        voters.merge(&self.adopted);
        voters
    }

    /// Whether this incarnation had forgotten, and is not known to have voted since.
    pub fn is_adopter(&self, incarnation: MemberId) -> bool {
        let is_named = |incarnations: &Incarnations| incarnations.latest(incarnation.node) == incarnation.incarnation;
        is_named(&self.adopted) && !is_named(&self.voted)
    }

    /// The latest incarnation of a node that is known to have voted. Where enough others have confirmed that a later one has
    /// the newest records, those that had forgotten have not: a quorum of the others would know of their votes.
    pub fn latest_voter(&self, node: NodeId, is_confirmed: bool) -> Incarnation {
        //= X109
        let voted = self.voted.latest(node);
        if is_confirmed { voted } else { voted.max(self.adopted.latest(node)) }
    }

    /// Another log is begun: no acceptor has voted in it.
    pub fn forget_voters(&mut self) {
        *self = Self { all: std::mem::take(&mut self.all), ..Self::default() };
    }
}

impl FromIterator<MemberId> for Incarnations {
    fn from_iter<I: IntoIterator<Item = MemberId>>(incarnations: I) -> Self {
        Self(incarnations.into_iter().map(|incarnation| (incarnation.node, incarnation.incarnation)).collect())
    }
}

/// Who voted: a set, so that a vote that comes twice counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Votes(BTreeMap<NodeId, Incarnation>);

impl Votes {
    /// Adds a vote; a later incarnation's takes the place of an earlier one's.
    pub fn add(&mut self, voter: MemberId) {
        //= X14
        let vote = self.0.entry(voter.node).or_insert(voter.incarnation);
        *vote = voter.incarnation.max(*vote);
    }

    /// How many count: an incarnation that has a successor may have forgotten that it voted.
    pub fn count(&self, incarnations: &Incarnations) -> usize {
        //= X31
        let counts = |(node, incarnation): &(&NodeId, &Incarnation)| {
            !incarnations.outdates(MemberId { node: **node, incarnation: **incarnation })
        };
        self.0.iter().filter(counts).count()
    }

    /// Whether that incarnation's vote is among them.
    pub fn holds(&self, voter: MemberId) -> bool {
        self.0.get(&voter.node) == Some(&voter.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_that_comes_twice_counts_once_and_that_of_a_forgotten_incarnation_not_at_all() {
        //= X14 test
        //= X31 test
        let (mut votes, mut incarnations) = (Votes::default(), Incarnations::default());
        for incarnation in [MemberId::new(1, 5), MemberId::new(1, 5), MemberId::new(2, 7)] {
            votes.add(incarnation);
        }
        assert_eq!(votes.count(&incarnations), 2);
        incarnations.note(MemberId::new(1, 6));
        assert_eq!(votes.count(&incarnations), 1);
        votes.add(MemberId::new(1, 6));
        assert_eq!(votes.count(&incarnations), 2, "its next incarnation may vote");
    }

    #[test]
    fn ballots_are_ordered_by_generation_and_round_and_name_one_incarnation() {
        //= X02 test
        let ballot = |generation, round, owner| Ballot { generation, round, owner };
        let (old, new) = (MemberId::new(2, 1), MemberId::new(2, 2));
        assert!(ballot(0, 4, old) < ballot(0, 4, new), "two incarnations of one node never share one");
        assert!(ballot(0, 4, new) < ballot(0, 5, old) && ballot(0, 9, new) < ballot(1, 1, old));
    }

    #[test]
    fn logs_differ_where_the_lives_that_began_them_do() {
        //= X50 test
        let incarnations = [MemberId::new(0, 1), MemberId::new(1, 1)];
        assert_eq!(LogId::of(&incarnations), LogId::of(&incarnations.clone()));
        assert_ne!(LogId::of(&incarnations), LogId::of(&[MemberId::new(0, 1), MemberId::new(1, 2)]));
    }
}
