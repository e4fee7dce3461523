//! The causal DAG of one view: what is held of it, who follows whom, what all hold.
//!
//! Messages are inserted in causal order only, so that a *vector* says all that a message follows: how many messages of
//! each member are in its past, itself included. A message follows m_{q,i} if its vector has at least i for q.
use crate::packet::{DagContent, DagMessage};
use consort_types::ViewId;
use std::collections::{BTreeMap, VecDeque};

/// Where a message stands: its sender's place and its number.
pub(crate) type DagMark = (usize, u64);

/// A message that is inserted.
#[derive(Clone, Debug)]
pub(crate) struct DagNode {
    /// What it follows, itself included.
    pub past: Box<[u64]>,
    pub acks: Vec<(u16, u64)>,
    pub content: DagContent,
    len: usize,
}

/// One member's messages.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Up to here they have been let go.
    base: u64,
    /// What the last of those follows.
    let_go: Vec<u64>,
    /// Those after, inserted.
    nodes: VecDeque<DagNode>,
    /// Those that came too soon.
    parked: BTreeMap<u64, DagMessage>,
    /// What its latest inserted message follows.
    past: Vec<u64>,
    /// The highest number that anything told of.
    rumoured: u64,
    /// Numbers of inserted messages with content that are not known to be held by all.
    solid: VecDeque<u64>,
    /// The number of the last inserted message with content.
    last_solid: u64,
    /// Whether nothing follows its latest message.
    is_leaf: bool,
}

impl Chain {
    fn held(&self) -> u64 {
        self.base + self.nodes.len() as u64
    }

    fn get(&self, k: u64) -> Option<&DagNode> {
        self.nodes.get(usize::try_from(k.checked_sub(self.base + 1)?).ok()?)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Dag {
    view: ViewId,
    me: usize,
    chains: Vec<Chain>,
    /// What each member is known to hold of each.
    known: Vec<Vec<u64>>,
    /// What all are known to hold of each.
    stable: Vec<u64>,
    /// How far a message may be ahead of what is held and still be kept.
    ahead: u64,
    bytes: usize,
    packets: usize,
}

/// What became of a message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// It is held already, or cannot be one of this view's.
    Useless,
    /// Kept until what it follows is there.
    Parked,
}

impl Dag {
    /// An empty DAG of `n` members; this one stands at place `me`. Parks messages at most `ahead` numbers ahead.
    pub fn new(view: ViewId, me: usize, n: usize, ahead: u64) -> Self {
        let chain = Chain { past: vec![0; n], let_go: vec![0; n], ..Chain::default() };
        Self {
            view,
            me,
            chains: vec![chain; n],
            known: vec![vec![0; n]; n],
            stable: vec![0; n],
            ahead,
            bytes: 0,
            packets: 0,
        }
    }

    pub const fn me(&self) -> usize {
        self.me
    }

    /// How many members there are.
    pub const fn n(&self) -> usize {
        self.chains.len()
    }

    /// How many messages of a member are inserted.
    pub fn held(&self, place: usize) -> u64 {
        self.chains[place].held()
    }

    /// The same of all members.
    pub fn held_vector(&self) -> Vec<u64> {
        self.chains.iter().map(Chain::held).collect()
    }

    /// How many messages of each member all are known to hold.
    pub fn stable(&self) -> &[u64] {
        &self.stable
    }

    /// What each member is known to hold of each.
    pub fn known(&self) -> &[Vec<u64>] {
        &self.known
    }

    pub fn node(&self, (place, k): DagMark) -> Option<&DagNode> {
        self.chains.get(place)?.get(k)
    }

    /// What a member's latest message follows.
    pub fn past(&self, place: usize) -> &[u64] {
        &self.chains[place].past
    }

    /// The first message of a member that follows another; none if none does. What was let go follows nothing that anybody
    /// asks for.
    pub fn first_follower(&self, place: usize, (of, k): DagMark) -> Option<u64> {
        let chain = &self.chains[place];
        let before = chain.nodes.partition_point(|node| node.past[of] < k) as u64;
        (before < chain.nodes.len() as u64).then_some(chain.base + before + 1)
    }

    /// Takes a message that came; [`Dag::insert_next`] inserts what can be.
    pub fn take(&mut self, message: DagMessage) -> Insertion {
        //= A02
        let (place, n) = (usize::from(message.sender), self.n());
        if place >= n || message.acks.iter().any(|(of, _)| usize::from(*of) >= n) {
            return Insertion::Useless;
        }
        for (of, k) in &message.acks {
            self.rumour(usize::from(*of), *k);
        }
        self.rumour(place, message.k);
        let chain = &mut self.chains[place];
        let held = chain.held();
        if message.k <= held || message.k > held + self.ahead || chain.parked.contains_key(&message.k) {
            return Insertion::Useless;
        }
        self.bytes += message.wire_len();
        self.packets += 1;
        chain.parked.insert(message.k, message);
        Insertion::Parked
    }

    /// Inserts a message that came and whose past is complete, and says which; `None` if there is none. Of each member
    /// only so many, where a set is agreed on.
    pub fn insert_next(&mut self, agreed: Option<&[u64]>) -> Option<DagMark> {
        //= A03
        let belongs = |place: &usize| agreed.is_none_or(|agreed| self.held(*place) < agreed[*place]);
        let place = (0..self.n()).find(|place| self.can_insert(*place) && belongs(place))?;
        let message = self.chains[place].parked.pop_first()?.1;
        self.packets -= 1;
        self.bytes -= message.wire_len();
        Some(self.insert(message))
    }

    fn can_insert(&self, place: usize) -> bool {
        let chain = &self.chains[place];
        let Some((k, message)) = chain.parked.first_key_value() else { return false };
        *k == chain.held() + 1 && message.acks.iter().all(|(of, k)| *k <= self.chains[usize::from(*of)].held())
    }

    /// Inserts a message although its past may not be complete: a rule to be broken.
    #[cfg(feature = "mutants")]
    pub fn insert_blindly(&mut self) -> Option<DagMark> {
        let next = |chain: &Chain| chain.parked.contains_key(&(chain.held() + 1));
        let place = (0..self.n()).find(|place| next(&self.chains[*place]))?;
        let message = self.chains[place].parked.pop_first()?.1;
        self.packets -= 1;
        self.bytes -= message.wire_len();
        Some(self.insert(message))
    }

    /// Makes the next message of this member: it follows everything that is inserted.
    pub fn originate(&mut self, content: DagContent) -> DagMessage {
        //= A01
        let me = self.me;
        let leaves = (0..).zip(&self.chains).filter(|(place, chain)| usize::from(*place) != me && chain.is_leaf);
        let acks = leaves.map(|(place, chain)| (place, chain.held())).collect();
        let message = DagMessage { view: self.view, sender: me as u16, k: self.held(me) + 1, acks, content };
        self.insert(message.clone());
        message
    }

    /// How many acknowledgements the next message of this member will carry.
    pub fn leaves(&self) -> usize {
        let leaves = self.chains.iter().enumerate().filter(|(place, chain)| *place != self.me && chain.is_leaf);
        leaves.count()
    }

    /// A message as it was sent, to be sent again.
    pub fn message(&self, (place, k): DagMark) -> Option<DagMessage> {
        let node = self.node((place, k))?;
        Some(DagMessage {
            view: self.view,
            sender: place as u16,
            k,
            acks: node.acks.clone(),
            content: node.content.clone(),
        })
    }

    fn insert(&mut self, message: DagMessage) -> DagMark {
        //= A03
        let (place, k, len) = (usize::from(message.sender), message.k, message.wire_len());
        let mut past = self.chains[place].past.clone();
        for (of, ack) in message.acks.iter().map(|(of, ack)| (usize::from(*of), *ack)) {
            let chain = &self.chains[of];
            let theirs = chain.get(ack).map_or(&chain.let_go[..], |node| &node.past);
            past.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            past[of] = past[of].max(ack);
            if ack == self.chains[of].held() {
                self.chains[of].is_leaf = false;
            }
        }
        past[place] = k;
        let chain = &mut self.chains[place];
        if message.content != DagContent::Null {
            chain.solid.push_back(k);
            chain.last_solid = k;
        }
        chain.is_leaf = true;
        chain.rumoured = chain.rumoured.max(k);
        chain.past.clone_from(&past);
        let node = DagNode { past: past.clone().into(), acks: message.acks, content: message.content, len };
        chain.nodes.push_back(node);
        self.bytes += len;
        self.packets += 1;
        //= A04
        self.note_known(self.me, place, k);
        self.note_held(place, &past);
        (place, k)
    }

    /// A member holds all this, as far as it can be true: nobody holds more of this member's messages than it sent.
    pub fn note_held(&mut self, member: usize, held: &[u64]) {
        //= A04
        for (place, k) in held.iter().enumerate().take(self.n()) {
            let ahead = if place == self.me { 0 } else { self.ahead };
            let most = self.chains[place].held() + ahead;
            self.note_known(member, place, (*k).min(most));
        }
    }

    fn note_known(&mut self, member: usize, place: usize, k: u64) {
        let known = self.known[member][place];
        if k <= known {
            return;
        }
        self.known[member][place] = k;
        if known == self.stable[place] {
            let stable = self.known.iter().map(|known| known[place]).min().unwrap_or(0);
            self.raise_stable(place, stable);
        }
    }

    /// All members hold so many messages of one.
    fn raise_stable(&mut self, place: usize, k: u64) {
        self.stable[place] = self.stable[place].max(k);
        let (stable, solid) = (self.stable[place], &mut self.chains[place].solid);
        while solid.front().is_some_and(|k| *k <= stable) {
            solid.pop_front();
        }
    }

    /// Somebody told of this message.
    pub fn rumour(&mut self, place: usize, k: u64) {
        let chain = &mut self.chains[place];
        chain.rumoured = chain.rumoured.max(k.min(chain.held() + self.ahead));
    }

    /// Whether any of a member's messages up to one of them is not there. Asked after every packet, so it must not count
    /// what is parked: whatever waits for one lost message is.
    pub fn lacks(&self, place: usize, up_to: u64) -> bool {
        let chain = &self.chains[place];
        let ahead = up_to.saturating_sub(chain.held());
        // What is parked was told of: all of it lies below the highest number that anything told of.
        if up_to >= chain.rumoured {
            ahead > chain.parked.len() as u64
        } else {
            !self.missing(place, up_to, 1).is_empty()
        }
    }

    /// What is told of a member's messages, but not there: at most so many runs.
    pub fn missing(&self, place: usize, up_to: u64, runs: usize) -> Vec<(u64, u64)> {
        let chain = &self.chains[place];
        consort_member::vs::missing(chain.held(), chain.parked.keys().copied(), up_to, runs)
    }

    /// The highest number of a member's messages that anything told of.
    pub fn rumoured(&self, place: usize) -> u64 {
        self.chains[place].rumoured
    }

    /// How many messages with content of others this member's latest one does not follow.
    pub fn unacknowledged(&self) -> u64 {
        let acked = self.past(self.me);
        let of = |(place, chain): (usize, &Chain)| {
            let after = |k: &&u64| **k > acked[place];
            let waiting = chain.solid.iter().rev().take_while(after).count() as u64;
            waiting.max(u64::from(chain.last_solid > acked[place]))
        };
        self.chains.iter().enumerate().filter(|(place, _)| *place != self.me).map(of).sum()
    }

    /// Whether this member is among the `votes` next ones after the sender of a message with content that its latest one
    /// does not follow.
    pub fn is_awaited(&self, votes: usize) -> bool {
        //= A26
        let (n, acked) = (self.n(), self.past(self.me));
        let awaits = |place: usize| (1..=votes).contains(&((self.me + n - place) % n));
        (0..n).any(|place| awaits(place) && self.chains[place].last_solid > acked[place])
    }

    /// How many messages with content are under way: of this member, and of all.
    pub fn under_way(&self) -> (u64, u64) {
        let all = self.chains.iter().map(|chain| chain.solid.len() as u64).sum();
        (self.chains[self.me].solid.len() as u64, all)
    }

    /// Lets go of what all hold and what can never be a vote again: all that is ordered in its past stands before `pending`.
    pub fn collect(&mut self, pending: &[u64], early: bool) {
        //= A05
        for (place, chain) in self.chains.iter_mut().enumerate() {
            while let Some(front) = chain.nodes.front().filter(|_| chain.base < self.stable[place] || early) {
                if !front.past.iter().zip(pending).all(|(follows, first)| follows < first) {
                    break;
                }
                self.bytes -= front.len;
                self.packets -= 1;
                chain.base += 1;
                chain.let_go.copy_from_slice(&front.past);
                chain.nodes.pop_front();
            }
        }
    }

    /// How many machines were heard of with messages that do not precede this one.
    pub fn heard_beside(&self, (place, k): DagMark) -> u64 {
        let Some(node) = self.node((place, k)) else { return 0 };
        let beside = |(other, chain): &(usize, &Chain)| *other == place || chain.held() > node.past[*other];
        self.chains.iter().enumerate().filter(beside).count() as u64
    }

    /// Packets held, parked ones included, and their bytes.
    pub const fn load(&self) -> (usize, usize) {
        (self.packets, self.bytes)
    }
}
