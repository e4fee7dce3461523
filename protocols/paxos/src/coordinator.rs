//! What a coordinator keeps while it stands and while it leads.
use crate::ballot::{Ballot, Item, Votes};
use crate::packet::Told;
use consort_types::{Duration, Instant, MemberId, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// What a node does about leading.
///
/// | from | to | when |
/// |---|---|---|
/// | `Follower` | `Standing` | its own lease to another is over, it hears a majority, and its turn has come |
/// | `Standing` | `Preparing` | its own promise is kept |
/// | `Standing`, `Preparing` | `Follower` | refused, or its time is over |
/// | `Preparing` | `Leading` | a majority has promised, all below is learnt, all payloads are held |
/// | `Leading` | `Follower` | refused, or no majority has answered its beats for a lease |
#[derive(Clone, Debug)]
pub enum Role {
    /// It leaves leading to others.
    Follower {
        /// Not before this time does it stand.
        stand_at: Instant,
    },
    /// Its ballot is being kept.
    Standing {
        /// Its ballot.
        ballot: Ballot,
    },
    /// It collects promises.
    Preparing {
        /// Its ballot.
        ballot: Ballot,
        /// Since when.
        since: Instant,
        /// What was promised, by whom.
        promises: BTreeMap<MemberId, Told>,
    },
    /// It proposes.
    Leading(Box<Leading>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Leading {
    /// By which right.
    pub ballot: Ballot,
    /// The next instance that is free.
    pub next: u64,
    /// Everything below was proposed by others first: nothing new counts before it is decided.
    pub inherited: u64,
    /// Proposed, not decided.
    pub open: BTreeMap<u64, Open>,
    /// Of each member the number of its last value that was proposed in the present view.
    pub offered: BTreeMap<MemberId, u64>,
    /// When which beats left.
    pub beats: VecDeque<(u64, Instant)>,
    /// Up to when each acceptor is known to have heard.
    pub heard: BTreeMap<NodeId, Instant>,
    /// The ring's number among this ballot's.
    pub version: u64,
    /// Who passes things on to whom.
    pub ring: Vec<NodeId>,
    /// Since when the members should be others.
    pub change_since: Option<Instant>,
}

/// A proposed instance.
#[derive(Clone, Debug)]
pub struct Open {
    /// What is proposed.
    pub item: Item,
    /// Its payload's bytes.
    pub bytes: usize,
    /// Who has voted for it.
    pub votes: Votes,
    /// When it was sent last.
    pub at: Instant,
}

impl Leading {
    /// It leads from now on; `next` is the first instance of which no acceptor has told anything.
    pub fn new(ballot: Ballot, next: u64) -> Self {
        Self {
            ballot,
            next,
            inherited: next,
            open: BTreeMap::new(),
            offered: BTreeMap::new(),
            beats: VecDeque::new(),
            heard: BTreeMap::new(),
            version: 0,
            ring: Vec::new(),
            change_since: None,
        }
    }

    /// Whether a view is being decided: values of the present one may not count any more.
    pub fn changes(&self) -> bool {
        self.open.values().any(|open| matches!(open.item, Item::View { .. }))
    }

    /// Payload bytes of what is open.
    pub fn bytes(&self) -> usize {
        self.open.values().map(|open| open.bytes).sum()
    }

    /// An acceptor has answered a beat.
    pub fn on_echo(&mut self, from: NodeId, number: u64) {
        //= X71
        if let Some((_, sent)) = self.beats.iter().find(|(known, _)| *known == number) {
            let heard = self.heard.entry(from).or_default();
            *heard = (*heard).max(*sent);
        }
    }

    /// Until when a majority waits for it: counted from when the beats were sent that they have answered.
    pub fn lease_until(&self, quorum: usize, lease: Duration) -> Instant {
        let mut heard: Vec<_> = self.heard.values().copied().collect();
        heard.sort_unstable_by(|a, b| b.cmp(a));
        heard.get(quorum - 1).map_or(Instant::ZERO, |heard| *heard + lease * 9 / 10)
    }
}
