//! Promises and votes. What is said outside is said only once it is kept.
use crate::ballot::{Ballot, Incarnations, Item};
use crate::packet::Told;
use consort_types::{Incarnation, Instant, MemberId};
use consort_wire::pack::Body;
use std::collections::BTreeMap;

/// What was accepted at one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// By which ballot.
    pub ballot: Ballot,
    /// What.
    pub item: Item,
    /// Its payload, where it has one.
    pub body: Option<Body>,
    /// Whether that is kept.
    pub kept: bool,
}

/// Whether an acceptor may vote.
///
/// | from | to | when |
/// |---|---|---|
/// | `Blank` | `Voting` | all acceptors, hearing each other, have promised nothing: they begin a log |
/// | `Blank` | `Adopting` | a majority of the *others* has told what it may have promised, and all below is learnt |
/// | `Adopting` | `Announcing` | what was adopted is kept |
/// | `Asking` | `Announcing` | enough others know of no vote after its records |
/// | `Announcing` | `Voting` | enough others have noted this incarnation |
/// | `Asking`, `Announcing`, `Voting` | `Outdated` | another knows of a vote after its records |
/// | `Outdated` | `Blank` | enough others vote to make up for its records |
/// | `Asking` | `Blank` | the same, and a quorum of them knows that it may have voted after its records |
/// | `Asking`, `Voting` | `Blank` | it has promised nothing, and others have begun another log |
/// | `Asking`, `Outdated`, `Announcing` | `Voting` | it has promised nothing, and all begin another log together |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It knows nothing, and may have forgotten: it neither promises nor votes.
    Blank {
        /// What others have told it.
        answers: BTreeMap<MemberId, (Told, Ballot)>,
    },
    /// It knows all it may have promised, and writes it down.
    Adopting {
        /// How many others must have noted this incarnation before it votes.
        witnesses: usize,
    },
    /// It has records, and asks whether it voted after them.
    Asking {
        /// Enough others have answered, and it writes that down.
        answered: bool,
    },
    /// It has voted after its records, as another knows. They may be all that is left until others make up for them.
    Outdated {
        /// In which incarnation.
        known: Incarnation,
    },
    /// It has all that it may have promised. It votes once enough others have noted that this incarnation is about to.
    Announcing {
        /// How many.
        witnesses: usize,
    },
    /// It promises and votes.
    Voting,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is granted; to be said once it is kept.
    Granted,
    /// It was granted and kept before.
    Again,
    /// It was granted before, and is being kept.
    Waits,
    /// An earlier promise forbids it.
    Refused,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Acceptor {
    /// Whether it may vote.
    pub standing: Standing,
    /// No earlier ballot is heeded.
    pub promised: Ballot,
    /// What it accepted and does not know to be decided.
    pub accepted: BTreeMap<u64, Accepted>,
    /// Whom alone it heeds, and until when.
    pub lease: Option<(MemberId, Instant)>,
    /// Accepts whose payload is not held yet.
    pub waiting: BTreeMap<u64, (Ballot, Item)>,
}

impl Default for Acceptor {
    fn default() -> Self {
        Self {
            standing: Standing::Blank { answers: BTreeMap::new() },
            promised: Ballot::ZERO,
            accepted: BTreeMap::new(),
            lease: None,
            waiting: BTreeMap::new(),
        }
    }
}

impl Acceptor {
    /// Whether it promises and votes.
    pub fn votes(&self) -> bool {
        self.standing == Standing::Voting
    }

    /// Whether it may have forgotten what it promised.
    pub const fn is_blank(&self) -> bool {
        matches!(self.standing, Standing::Blank { .. })
    }

    /// Whether it has promised nothing, as far as it knows.
    pub fn is_fresh(&self) -> bool {
        self.promised == Ballot::ZERO
    }

    /// Whether it heeds this candidate at this time.
    pub fn is_free_for(&self, candidate: MemberId, now: Instant) -> bool {
        //= X70
        self.lease.is_none_or(|(holder, until)| holder == candidate || now >= until)
    }

    /// Phase 1.
    pub fn prepare(&mut self, ballot: Ballot) -> Answer {
        //= X10
        if ballot < self.promised {
            return Answer::Refused;
        }
        self.promised = ballot;
        Answer::Granted
    }

    /// Phase 2: its payload is held, or it has none.
    pub fn accept(&mut self, ballot: Ballot, at: u64, item: &Item, body: Option<Body>) -> Answer {
        //= X20
        if ballot < self.promised {
            return Answer::Refused;
        }
        match self.accepted.get(&at) {
            //= X26
            Some(known) if known.ballot == ballot => {
                return match (known.item == *item, known.kept) {
                    (false, _) => Answer::Refused,
                    (true, true) => Answer::Again,
                    (true, false) => Answer::Waits,
                };
            }
            _ => {}
        }
        self.promised = ballot;
        self.accepted.insert(at, Accepted { ballot, item: item.clone(), body, kept: false });
        Answer::Granted
    }

    /// What it accepted by this ballot is kept.
    pub fn keep(&mut self, ballot: Ballot, at: u64) {
        if let Some(accepted) = self.accepted.get_mut(&at).filter(|accepted| accepted.ballot == ballot) {
            accepted.kept = true;
        }
    }

    /// What it tells a coordinator that knows everything below `from`.
    pub fn tell(&self, incarnations: Incarnations, next: u64, from: u64) -> Told {
        //= X12
        let accepted = self.accepted.range(next.max(from)..);
        Told { incarnations, next, accepted: accepted.map(|(at, a)| (*at, a.ballot, a.item.clone())).collect() }
    }
}

/// Of what several acceptors told: everything below is decided; and what was accepted last at each instance from there on.
pub fn latest<'a>(told: impl Iterator<Item = &'a Told> + Clone, from: u64) -> (u64, BTreeMap<u64, (Ballot, Item)>) {
    //= X13
    let from = told.clone().map(|told| told.next).fold(from, u64::max);
    let mut best: BTreeMap<u64, (Ballot, Item)> = BTreeMap::new();
    for (at, ballot, item) in told.flat_map(|told| &told.accepted).filter(|(at, ..)| *at >= from) {
        if best.get(at).is_none_or(|(known, _)| known < ballot) {
            best.insert(*at, (*ballot, item.clone()));
        }
    }
    (from, best)
}
