//! What comes: opened, or refused with its cause.
//!
//! A start of a sender is taken for what it says it is once it has answered what only this start of the receiver asks:
//! its salt, and a number that rises with each start of that sender that was believed. Until then only its greetings
//! are opened. So neither a datagram that was recorded in an earlier incarnation of either end nor a greeting that has
//! served before opens anything.
//!
//! | a datagram of | kind | is |
//! |---|---|---|
//! | the proven start | any | opened once |
//! | another start | greeting that answers | opened; its start is the proven one from now on |
//! | another start | greeting | opened; its start becomes a candidate, to which the next greeting speaks |
//! | another start | any other | refused: unproven |
//!
//! Greetings are opened with any key that is held; whether anything else of an epoch is taken, [`Epochs`] says.
use crate::epochs::{Epochs, Taken};
use crate::greeting::{self, ENTRIES_MOST, Entry, Greeting};
use crate::keys::{KeyEpoch, KeyRing, Salt};
use crate::session::Session;
use crate::view::{SealedView, Unopened};
use crate::{KINDS, OVERHEAD};
use consort_types::{ClusterId, Duration, Instant, MemberId, NodeId};
use consort_wire::{BytesMut, Identity, envelope};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The next greeting is sent that soon where somebody waits for it.
const HASTE: Duration = Duration::from_millis(10);
/// Where somebody is missing, so soon at first,
const QUICK: Duration = Duration::from_millis(100);
/// so often,
const QUICK_ROUNDS: u32 = 10;
/// and so soon later on.
const PERIOD: Duration = Duration::from_secs(1);
/// While something of a later start was opened so lately, no earlier one takes its place.
const SILENT: Duration = Duration::from_secs(1);
/// So many starts of one node may be known that are not proven.
const CANDIDATES: usize = 4;

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The first `len` bytes are the plain datagram.
    Datagram {
        /// Its length in bytes.
        len: usize,
        /// Who sealed it.
        from: MemberId,
        /// Its counter among those of its kind.
        counter: u64,
    },
    /// It was for the opener itself. `proven` says whether a start of that node is heard from now on that was not before.
    Greeting {
        /// Who greets.
        from: MemberId,
        /// Whether the start is newly heard.
        proven: bool,
    },
}

/// What is known of one node.
#[derive(Default)]
struct Peer {
    proven: Option<Session>,
    candidates: Vec<Session>,
    /// What it is asked: how many of its starts were believed before.
    question: u32,
}

/// Opens what comes to one start of a node.
pub struct Opener {
    ring: KeyRing,
    epochs: Epochs,
    identity: Identity,
    own: Salt,
    peers: BTreeMap<NodeId, Peer>,
    /// The time when it was last asked for a greeting.
    now: Instant,
    /// Who waits for the next greeting.
    wanted: BTreeSet<NodeId>,
    /// Of whom something came that only its greetings could have made worth opening. Anybody may have sent that.
    doubted: BTreeSet<NodeId>,
    /// When the last greeting was sent.
    greeted: Option<Instant>,
    /// How many greetings are still quick.
    quick: u32,
    /// Among those who are missing, who is spoken to next.
    turn: usize,
    /// How many others are missing: those of which no start is heard.
    missing: usize,
}

impl Opener {
    /// For the node that speaks as `identity`, whose own salt this is, in a cluster of these nodes.
    pub fn new(ring: KeyRing, identity: Identity, own: Salt, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        // This node is among them: another process that has its number must be heard to be known.
        let peers = nodes.into_iter().chain([identity.me.node]).map(|node| (node, Peer::default()));
        let peers: BTreeMap<_, _> = peers.collect();
        let (missing, wanted, doubted) = (peers.len() - 1, BTreeSet::new(), BTreeSet::new());
        Self {
            epochs: Epochs::new(ring.sealing()),
            ring,
            identity,
            own,
            peers,
            now: Instant::ZERO,
            wanted,
            doubted,
            greeted: None,
            quick: QUICK_ROUNDS,
            turn: 0,
            missing,
        }
    }

    /// Opens a datagram in place.
    ///
    /// # Errors
    /// [`Unopened`] says why it must be dropped; its bytes are of no use any more.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, Unopened> {
        let view = SealedView::read(&self.ring, &self.identity, &self.own, datagram);
        if let Err(Unopened::KeyEpoch(_, node)) = view
            && self.peers.contains_key(&node)
        {
            // It may hold the key that is in use here, and learns from a greeting that it is.
            self.doubted.insert(node);
        }
        let view = view?;
        let node = view.from.node;
        let peer = self.peers.get_mut(&node).ok_or(Unopened::Stranger(node))?;
        let (ring, cluster, now) = (&self.ring, self.identity.cluster, self.now);
        let len = datagram.len() - OVERHEAD;
        let taken = self.epochs.judge(view.epoch, view.from, now);
        if taken == Taken::NoMore && view.kind != greeting::KIND {
            return Err(Unopened::Superseded(node));
        }
        match &mut peer.proven {
            Some(session) if session.is_of(&view) => session.open(ring, cluster, now, &view, datagram)?,
            _ if view.kind != greeting::KIND => {
                self.doubted.insert(node);
                return Err(Unopened::Unproven(node));
            }
            _ => peer.open_candidate(ring, cluster, now, &view, datagram)?,
        }
        if view.epoch != self.epochs.in_use() {
            self.epochs.hear(view.epoch, node, now);
        }
        if view.kind == greeting::KIND {
            let said = datagram.get(envelope::LEN..len).ok_or(Unopened::Foreign)?;
            let said = Greeting::decode(said).map_err(|_| Unopened::Malformed(node))?;
            return Ok(Opened::Greeting { from: view.from, proven: self.hear(&view, &said) });
        }
        match taken {
            Taken::NotYet => Err(Unopened::NotAdopted(node)),
            _ => Ok(Opened::Datagram { len, from: view.from, counter: view.counter }),
        }
    }

    /// A greeting was opened. Returns whether its start is believed from now on.
    fn hear(&mut self, view: &SealedView, said: &Greeting) -> bool {
        let (node, own) = (view.from.node, Some(self.own));
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let mut to_me = said.entries.iter().filter(|entry| entry.node == self.identity.me.node);
        let heard = to_me.clone().find(|entry| entry.salt == own);
        let is_sought = to_me.any(|entry| entry.salt.is_none() || entry.salt == own && !entry.proven);
        if let Some(session) = peer.proven.as_mut().filter(|session| session.is_of(view)) {
            heard.iter().for_each(|entry| session.asked = entry.question);
            if is_sought {
                self.wanted.insert(node);
            }
            return false;
        }
        if peer.has_later(view, self.now) {
            return false;
        }
        self.wanted.insert(node);
        let answers = heard.is_some_and(|entry| entry.answer == peer.question);
        let asked = heard.map(|entry| entry.question);
        peer.candidates.iter_mut().filter(|session| session.is_of(view)).for_each(|session| {
            session.asked = asked.unwrap_or(session.asked);
        });
        let is_first = peer.proven.is_none() && node != self.identity.me.node;
        let adopted = answers && peer.adopt(view, said);
        self.missing -= usize::from(adopted && is_first);
        adopted
    }

    /// When to ask for [`Self::greeting`] next, if nothing comes before; `None` while everybody is heard.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_missing = self.missing > 0 || !self.doubted.is_empty();
        let after = match (self.wanted.is_empty(), is_missing, self.quick) {
            (false, ..) => HASTE,
            (true, true, 1..) => QUICK,
            (true, true, 0) => PERIOD,
            (true, false, _) => return None,
        };
        Some(self.greeted.map_or(Instant::ZERO, |greeted| greeted + after))
    }

    /// The keys that are held, the one in use first.
    pub const fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Which epochs are taken.
    pub const fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// What is sealed in this epoch is taken from here on, or, with `None`, not any more before it is adopted.
    pub fn promise(&mut self, epoch: Option<KeyEpoch>) {
        match epoch {
            Some(epoch) => self.epochs.promise(epoch),
            None => self.epochs.release(),
        }
    }

    /// From here on this epoch is in use, as the members of a view have agreed. False where there is no key of it.
    pub fn adopt(&mut self, epoch: KeyEpoch, members: &[MemberId], now: Instant) -> bool {
        let Some(ring) = self.ring.sealing_with(epoch) else { return false };
        self.ring = ring;
        let dropped = self.epochs.adopt(epoch, members, now);
        dropped.into_iter().for_each(|old| self.drop_key(old));
        true
    }

    /// These keys are held from here on, besides an old one that is still kept. The one in use must be among them: false
    /// where it is not, and nothing has changed. Keys older than that are not taken up.
    pub fn hold(&mut self, keys: &KeyRing) -> bool {
        //= K08
        let in_use = self.epochs.in_use();
        let prints: Vec<_> = keys.fingerprints().collect();
        let same = |known: &(KeyEpoch, u64)| prints.contains(known);
        if !self.ring.fingerprints().find(|(epoch, _)| *epoch == in_use).is_some_and(|known| same(&known)) {
            return false;
        }
        let Some(held) = keys.sealing_with(in_use) else { return false };
        let mut held = held.without(|epoch| epoch < in_use);
        let gone: Vec<_> = self.ring.fingerprints().filter(|known| known.0 > in_use && !same(known)).collect();
        held = self.epochs.old().into_iter().fold(held, |held, old| held.with_key_of(&self.ring, old));
        gone.into_iter().for_each(|(epoch, _)| self.drop_key(epoch));
        self.ring = held;
        true
    }

    fn drop_key(&mut self, epoch: KeyEpoch) {
        self.ring = self.ring.clone().without(|known| known == epoch);
        self.epochs.forget(epoch);
        let in_use = self.epochs.in_use();
        for peer in self.peers.values_mut() {
            peer.proven.iter_mut().chain(&mut peer.candidates).for_each(|session| session.forget(epoch, in_use));
        }
    }

    /// Drops the old key once its time is over. Returns its epoch then.
    pub fn expire(&mut self, now: Instant) -> Option<KeyEpoch> {
        //= K05
        let old = self.epochs.expire(now)?;
        self.drop_key(old);
        Some(old)
    }

    /// The greeting that is due, if one is, to be sealed and sent to all. `counters` are the sealer's.
    pub fn greeting(&mut self, now: Instant, counters: &[u64; KINDS.len()]) -> Option<BytesMut> {
        self.now = now;
        if self.poll_timeout().is_none_or(|at| at > now) {
            return None;
        }
        self.greeted = Some(now);
        self.quick = self.quick.saturating_sub(1);
        let greeting = Greeting { counters: *counters, entries: self.entries() };
        Some(greeting.encode(&self.identity))
    }

    /// Those of which no start is heard.
    fn missing(&self) -> impl Iterator<Item = NodeId> {
        let me = self.identity.me.node;
        let missing = self.peers.iter().filter(move |(node, peer)| **node != me && peer.proven.is_none());
        missing.map(|(node, _)| *node)
    }

    /// First those who wait, then those who are missing, in turn, as many as there is room for.
    fn entries(&mut self) -> Vec<Entry> {
        let mut missing: Vec<_> = self.missing().collect();
        if !missing.is_empty() {
            let begin = self.turn % missing.len();
            missing.rotate_left(begin);
        }
        let waiting = std::mem::take(&mut self.wanted);
        let doubted = std::mem::take(&mut self.doubted);
        let all: Vec<_> = waiting.iter().chain(&doubted).chain(&missing).copied().collect();
        let (mut entries, mut spoken) = (Vec::new(), BTreeSet::new());
        for node in all {
            let Some(peer) = self.peers.get(&node).filter(|_| !spoken.contains(&node)) else { continue };
            let more = peer.entries(node, doubted.contains(&node));
            if entries.len() + more.len() > ENTRIES_MOST {
                // Whoever waits is first in the next one.
                self.wanted = waiting.difference(&spoken).copied().collect();
                break;
            }
            entries.extend(more);
            spoken.insert(node);
            self.turn = self.turn.wrapping_add(1);
        }
        entries
    }

    /// Whose start is heard, and in which incarnation.
    pub fn proven(&self) -> impl Iterator<Item = MemberId> {
        let me = self.identity.me.node;
        self.peers.values().filter_map(|peer| Some(peer.proven.as_ref()?.from)).filter(move |from| from.node != me)
    }

    /// How many they are.
    pub fn proven_count(&self) -> usize {
        self.peers.len() - 1 - self.missing
    }

    /// How many other nodes there are.
    pub fn others(&self) -> usize {
        self.peers.len() - 1
    }
}

impl Peer {
    /// Opens a greeting of a start that is not proven.
    fn open_candidate(
        &mut self,
        ring: &KeyRing,
        cluster: ClusterId,
        now: Instant,
        view: &SealedView,
        datagram: &mut [u8],
    ) -> Result<(), Unopened> {
        if let Some(known) = self.candidates.iter_mut().find(|session| session.is_of(view)) {
            return known.open(ring, cluster, now, view, datagram);
        }
        let mut session = Session::new(view.from, view.salt);
        session.open(ring, cluster, now, view, datagram)?;
        // Recorded starts are mostly earlier ones: the earliest makes room.
        if self.candidates.len() >= CANDIDATES {
            let earliest = self.candidates.iter().enumerate().min_by_key(|(_, one)| one.from.incarnation);
            let at = earliest.map_or(0, |(at, _)| at);
            self.candidates.swap_remove(at);
        }
        self.candidates.push(session);
        Ok(())
    }

    /// From now on this start is the one that is heard; all others are forgotten.
    fn adopt(&mut self, view: &SealedView, said: &Greeting) -> bool {
        let Some(at) = self.candidates.iter().position(|session| session.is_of(view)) else { return false };
        let mut session = self.candidates.swap_remove(at);
        session.begin(&said.counters, view);
        self.proven = Some(session);
        self.candidates.clear();
        self.question = self.question.wrapping_add(1);
        true
    }

    /// Whether a later start speaks now: two processes have one number, and the later is heard.
    fn has_later(&self, view: &SealedView, now: Instant) -> bool {
        let later = self.proven.as_ref().filter(|session| session.from.incarnation > view.from.incarnation);
        later.is_some_and(|session| now.since(session.heard) < SILENT)
    }

    /// What is to be said of each start of the node that is known. One that is not, if there is or may be one, hears that it
    /// is sought.
    fn entries(&self, node: NodeId, may_be: bool) -> Vec<Entry> {
        let entry = |session: &Session, proven| Entry {
            node,
            salt: Some(session.salt),
            question: self.question,
            answer: session.asked,
            proven,
        };
        let proven = self.proven.iter().map(|session| entry(session, true));
        let mut known: Vec<_> = proven.chain(self.candidates.iter().map(|session| entry(session, false))).collect();
        if known.is_empty() || may_be {
            known.push(Entry { node, salt: None, question: self.question, answer: 0, proven: false });
        }
        known
    }
}

/// Says who is heard, never a key.
impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("proven", &self.proven().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
