//! How all members of a view take up a key alike: proposed, answered by each, and adopted at one place of the order.
//!
//! Pure. It knows keys by their names alone; the driver seals, opens and keeps them. What comes in are the keys that are
//! held, views, and what daemons have said in the order; out come what is to be said, and what the driver is to do.
//!
//! ```text
//! propose epoch 2 -> each member answers: holds -> at the place of the last answer all seal with it
//!                                         lacks, differs, newer -> at its place the proposal ends, and names who
//!                 -> a new view: the proposal ends
//! ```
pub use consort_group::{KeyAnswer, KeyMessage};
use consort_group::{KeyName, ProposalId};
use consort_types::{MemberId, NodeId, View, ViewKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a driver has to do, or people are to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// Take what is sealed with this epoch from here on; with `None`, not any more before it is adopted.
    Promise(Option<u16>),
    /// Seal with this key. These members may still say something with the one before.
    Adopt {
        /// Which key.
        key: KeyName,
        /// The members of the view that adopts it.
        members: Vec<MemberId>,
    },
    /// A proposal has ended otherwise.
    Ended {
        /// Which key it was of.
        key: KeyName,
        /// Why it was not adopted.
        why: NotAdopted,
    },
}

/// Why a key is not adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdopted {
    /// Datagrams are not sealed here.
    #[error("no key is configured: datagrams are not sealed")]
    Plain,
    /// There is no newer key here.
    #[error(
        "key epoch {0} is in use, and this node's key file has no newer one; add it with `consort key next FILE`, copy the \
         file to all nodes, and send each daemon SIGHUP"
    )]
    NothingNewer(u16),
    /// There is no regular view now.
    #[error("the view is changing; ask again")]
    NoView,
    /// The view changed before all had answered.
    #[error("the view changed before all had answered; ask again")]
    ViewChanged,
    /// No majority of the configured nodes is here.
    #[error("{here} of {nodes} nodes are here, no majority: the others would not hear this part any more")]
    Minority {
        /// How many members the view has.
        here: usize,
        /// How many are configured.
        nodes: usize,
    },
    /// Another key is being proposed.
    #[error("key epoch {0} is being proposed already; ask again")]
    Busy(u16),
    /// A member has no key of that epoch.
    #[error("{0} lacks it: copy the key file to that node, and send its daemon SIGHUP")]
    Lacks(NodeId),
    /// A member has another key of that epoch.
    #[error("{0} has another key of that epoch: copy the key file to that node, and send its daemon SIGHUP")]
    Differs(NodeId),
    /// A member uses a newer one.
    #[error("{0} uses a newer key already")]
    Superseded(NodeId),
}

/// Why keys cannot be exchanged for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysKept {
    /// The key in use is not among them.
    #[error("the key in use, of epoch {0}, is not in it; adopt the next one first: `consort key rotate`")]
    InUse(u16),
    /// This node has promised to take up one that is not among them.
    #[error("the key of epoch {0} is being adopted and is not in it; read it again later")]
    Promised(u16),
}

#[derive(Clone, Debug)]
struct Proposal {
    id: ProposalId,
    key: KeyName,
    holders: BTreeSet<MemberId>,
}

/// Where one member stands.
#[derive(Clone, Debug)]
pub struct Rotation {
    me: MemberId,
    nodes: usize,
    in_use: Option<KeyName>,
    held: Vec<KeyName>,
    /// The members of the regular view; none while there is none, or it is closing.
    members: Vec<MemberId>,
    proposal: Option<Proposal>,
    /// The key that this member has proposed, and whose end it waits for.
    asked: Option<KeyName>,
    number: u32,
    saying: VecDeque<KeyMessage>,
    steps: VecDeque<RotationStep>,
    /// Which members have answered that they cannot take up a key, and how.
    lacking: BTreeMap<NodeId, (KeyName, KeyAnswer)>,
}

impl Rotation {
    /// A member that holds no keys.
    pub const fn new(me: MemberId) -> Self {
        Self {
            me,
            nodes: 0,
            in_use: None,
            held: Vec::new(),
            members: Vec::new(),
            proposal: None,
            asked: None,
            number: 0,
            saying: VecDeque::new(),
            steps: VecDeque::new(),
            lacking: BTreeMap::new(),
        }
    }

    /// So many nodes are configured.
    pub const fn configure(&mut self, nodes: usize) {
        self.nodes = nodes;
    }

    /// These keys are held from here on, the one in use first.
    pub fn hold(&mut self, keys: Vec<KeyName>) {
        self.in_use = keys.first().copied();
        self.held = keys;
    }

    /// Whether these keys may take the place of those that are held.
    ///
    /// # Errors
    /// One is missing that others count on.
    pub fn may_hold(&self, keys: &[KeyName]) -> Result<(), KeysKept> {
        //= K08
        let missing = |key: &&KeyName| !keys.contains(key);
        if let Some(key) = self.in_use.as_ref().filter(missing) {
            return Err(KeysKept::InUse(key.epoch));
        }
        let proposed = self.proposal.as_ref().map(|proposal| &proposal.key);
        match proposed.filter(|key| self.held.contains(key)).filter(missing) {
            Some(key) => Err(KeysKept::Promised(key.epoch)),
            None => Ok(()),
        }
    }

    /// The key in use.
    pub const fn in_use(&self) -> Option<KeyName> {
        self.in_use
    }

    /// Members that could not take up a key that was proposed, since they last could.
    pub fn lacking(&self) -> impl Iterator<Item = (NodeId, KeyName, KeyAnswer)> {
        self.lacking.iter().map(|(node, (key, answer))| (*node, *key, *answer))
    }

    /// Somebody asks that all seal with the newest key that is held. Returns which that is;
    /// [`RotationStep::Adopt`] or [`RotationStep::Ended`] says what became of it.
    ///
    /// # Errors
    /// Why that is not even proposed.
    pub fn ask(&mut self) -> Result<KeyName, NotAdopted> {
        //= K02
        let in_use = self.in_use.ok_or(NotAdopted::Plain)?;
        let newest = self.held.iter().max().copied().filter(|key| key.epoch > in_use.epoch);
        let key = newest.ok_or(NotAdopted::NothingNewer(in_use.epoch))?;
        let here = self.members.len();
        match (here, &self.proposal) {
            (0, _) => Err(NotAdopted::NoView),
            _ if here * 2 <= self.nodes => Err(NotAdopted::Minority { here, nodes: self.nodes }),
            (_, Some(other)) if other.key != key => Err(NotAdopted::Busy(other.key.epoch)),
            _ => {
                self.propose(key);
                Ok(key)
            }
        }
    }

    /// Somebody was heard to seal with this epoch, which is newer than the one in use here: so it is taken up here, too, if all
    /// members of the view hold it.
    pub fn follow(&mut self, epoch: u16, has_view: bool) {
        //= K06
        let newer = |key: &&KeyName| key.epoch == epoch && self.in_use.is_some_and(|used| used.epoch < epoch);
        let Some(key) = self.held.iter().find(newer).copied() else { return };
        // An order that a majority decides takes nothing from a minority.
        let waits_in_vain = self.asked == Some(key) && self.members.len() * 2 <= self.nodes;
        if !has_view || self.members == [self.me] || waits_in_vain {
            //= K07
            self.saying.clear();
            self.adopt(key, Vec::new());
        } else if !self.members.is_empty() && self.proposal.is_none() {
            self.propose(key);
        }
    }

    fn propose(&mut self, key: KeyName) {
        if self.asked == Some(key) {
            return;
        }
        self.asked = Some(key);
        self.number = self.number.wrapping_add(1);
        self.saying.push_back(KeyMessage::Propose { key, number: self.number });
    }

    /// A view is installed, or closed.
    pub fn install(&mut self, view: &View) {
        //= K10
        self.saying.clear();
        self.members = if view.kind == ViewKind::Regular { view.members.clone() } else { Vec::new() };
        let proposed = self.proposal.take().map(|proposal| proposal.key);
        let ended: BTreeSet<_> = self.asked.take().into_iter().chain(proposed).collect();
        self.steps.extend(ended.into_iter().map(|key| RotationStep::Ended { key, why: NotAdopted::ViewChanged }));
    }

    /// A daemon has said something in the order, and this is its place.
    pub fn deliver(&mut self, sender: MemberId, said: KeyMessage) {
        match said {
            KeyMessage::Propose { key, number } => self.on_proposal(ProposalId { by: sender, number }, key),
            KeyMessage::Answer { proposal, answer, .. } => self.on_answer(sender, proposal, answer),
        }
    }

    fn on_proposal(&mut self, id: ProposalId, key: KeyName) {
        let own = id.by == self.me;
        match &self.proposal {
            _ if self.members.is_empty() => {
                if own {
                    self.end(key, NotAdopted::ViewChanged);
                }
            }
            // Two that propose the same are answered once.
            Some(other) if other.key == key => {}
            Some(other) => {
                let why = NotAdopted::Busy(other.key.epoch);
                if own {
                    self.end(key, why);
                }
            }
            None => {
                //= K03
                self.proposal = Some(Proposal { id, key, holders: BTreeSet::new() });
                let answer = self.stand(key);
                if answer == KeyAnswer::Holds {
                    self.steps.push_back(RotationStep::Promise(Some(key.epoch)));
                }
                self.saying.push_back(KeyMessage::Answer { proposal: id, key, answer });
            }
        }
    }

    fn stand(&self, key: KeyName) -> KeyAnswer {
        //= K01
        let of_epoch = self.held.iter().find(|held| held.epoch == key.epoch);
        match of_epoch {
            _ if self.in_use.is_some_and(|used| used.epoch > key.epoch) => KeyAnswer::Superseded,
            Some(held) if *held == key => KeyAnswer::Holds,
            Some(_) => KeyAnswer::Differs,
            None => KeyAnswer::Lacks,
        }
    }

    fn on_answer(&mut self, sender: MemberId, id: ProposalId, answer: KeyAnswer) {
        let Some(proposal) = self.proposal.as_mut().filter(|proposal| proposal.id == id) else { return };
        let key = proposal.key;
        let why = match answer {
            KeyAnswer::Holds => {
                proposal.holders.insert(sender);
                self.lacking.remove(&sender.node);
                //= K04
                if self.members.iter().all(|member| proposal.holders.contains(member)) {
                    let members = self.members.clone();
                    self.adopt(key, members);
                }
                return;
            }
            KeyAnswer::Lacks => NotAdopted::Lacks(sender.node),
            KeyAnswer::Differs => NotAdopted::Differs(sender.node),
            KeyAnswer::Superseded => NotAdopted::Superseded(sender.node),
        };
        //= K09
        self.lacking.insert(sender.node, (key, answer));
        self.proposal = None;
        if self.stand(key) == KeyAnswer::Holds {
            self.steps.push_back(RotationStep::Promise(None));
        }
        self.end(key, why);
    }

    fn end(&mut self, key: KeyName, why: NotAdopted) {
        self.asked = self.asked.filter(|asked| *asked != key);
        self.steps.push_back(RotationStep::Ended { key, why });
    }

    fn adopt(&mut self, key: KeyName, members: Vec<MemberId>) {
        self.proposal = None;
        self.asked = self.asked.filter(|asked| *asked != key);
        self.in_use = Some(key);
        self.steps.push_back(RotationStep::Adopt { key, members });
    }

    /// What is to be said next; [`Self::has_said`] once it is on its way.
    pub fn next_message(&self) -> Option<KeyMessage> {
        self.saying.front().copied()
    }

    /// What [`Self::next_message`] gave is on its way into the order.
    pub fn has_said(&mut self) {
        self.saying.pop_front();
    }

    /// What follows.
    pub fn poll_step(&mut self) -> Option<RotationStep> {
        self.steps.pop_front()
    }
}

#[cfg(test)]
mod tests;
