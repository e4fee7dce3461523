//! The promises of a quorum protocol, judged by what engines know, disks hold and clients are told.
use super::world::World;
use crate::ballot::{Ballot, Item, LogId, ValueId};
use crate::checkpoints::{Declared, Program};
use crate::config::{Config, OnBudget, Storage};
use crate::coordinator::Role;
use crate::engine::Paxos;
use crate::learner::Entry;
use crate::packet::{Content, Packet};
use crate::record::Record;
use consort_order::Delivery;
use consort_types::{MemberId, NodeId, View, ViewId, ViewKind};
use consort_wire::pack::Body;
use std::collections::{BTreeMap, BTreeSet};

/// Panics with the name of the promise that is broken, and how.
pub struct Judge {
    quorum: usize,
    durable: bool,
    /// How many bytes a node may have under way.
    credit: u64,
    /// How many instances a coordinator may have open, a view and the word that it is primary among them.
    window: usize,
    /// What stands at each instance, for ever, as far as anybody retained it until it was looked at.
    log: BTreeMap<u64, Entry>,
    /// How far each node's log was compared.
    seen: BTreeMap<u16, u64>,
    /// Whose disk ever held an accept of an item at an instance by a ballot.
    accepts: BTreeMap<(u64, Ballot), BTreeMap<u16, Item>>,
    /// The highest ballot that each disk holds a promise of.
    promised: BTreeMap<u16, Ballot>,
    /// What stands at each place of the order.
    order: BTreeMap<u64, Vec<u8>>,
    /// The last place that each incarnation was given, as far as that is known.
    places: BTreeMap<(u16, u64), Option<u64>>,
    /// The last message of each sender's incarnation.
    fifo: BTreeMap<(u16, u64), BTreeMap<(u16, u64), u64>>,
    views: BTreeMap<ViewId, (Vec<MemberId>, Option<u64>)>,
    inside: BTreeMap<(u16, u64), View>,
    submitted: BTreeMap<(u16, u64), u64>,
    delivered: BTreeMap<(u16, u64), u64>,
    leaving: BTreeSet<u16>,
    /// Which incarnation used a ballot first.
    ballots: BTreeMap<Ballot, MemberId>,
    /// The bytes of each value, wherever it was seen.
    payloads: BTreeMap<ValueId, Body>,
    /// What each disk holds of its log: how far everything is decided.
    marked: BTreeMap<u16, u64>,
    /// What programs have declared before an instance.
    declared: BTreeMap<u64, Declared>,
    /// The last position that each node has released, and how far it knew the log then.
    gone: BTreeMap<u16, (u64, u64)>,
    /// The log in which anything is decided.
    log_id: Option<LogId>,
    pub deliveries: u64,
    /// Nothing is judged: all acceptors may forget.
    pub off: bool,
}

/// More than any message of these worlds takes.
const LARGEST: usize = 16 << 10;

impl Judge {
    pub fn new(config: &Config) -> Self {
        Self {
            quorum: config.acceptors.len() / 2 + 1,
            durable: config.storage != Storage::Memory,
            credit: config.credit.max(LARGEST.max(config.value)) as u64,
            window: config.window + 2,
            log: BTreeMap::new(),
            seen: BTreeMap::new(),
            accepts: BTreeMap::new(),
            promised: BTreeMap::new(),
            order: BTreeMap::new(),
            places: BTreeMap::new(),
            fifo: BTreeMap::new(),
            views: BTreeMap::new(),
            inside: BTreeMap::new(),
            submitted: BTreeMap::new(),
            delivered: BTreeMap::new(),
            leaving: BTreeSet::new(),
            ballots: BTreeMap::new(),
            payloads: BTreeMap::new(),
            marked: BTreeMap::new(),
            declared: BTreeMap::new(),
            gone: BTreeMap::new(),
            log_id: None,
            deliveries: 0,
            off: false,
        }
    }

    /// What every node was told at a place.
    pub fn stands_at(&self, place: u64) -> Option<&[u8]> {
        self.order.get(&place).map(Vec::as_slice)
    }

    pub fn instances(&self) -> u64 {
        self.log.last_key_value().map_or(0, |(at, _)| at + 1)
    }

    pub fn started(&mut self, node: u16, incarnation: u64, forgot: bool, engine: &Paxos) {
        if self.off {
            return;
        }
        self.seen.insert(node, 0);
        self.gone.insert(node, (engine.learner().first().place, engine.learner().next()));
        self.leaving.remove(&node);
        self.places.insert((node, incarnation), None);
        if let (false, Some(acceptor), Some(promised)) = (forgot, engine.acceptor(), self.promised.get(&node)) {
            let now = acceptor.promised;
            assert!(now >= *promised, "promises: n{node} promised {promised} and starts with {now}");
            let (next, marked) = (engine.learner().next(), self.marked.get(&node).copied().unwrap_or(0));
            assert!(next >= marked, "replay: n{node} had written that all below {marked} is decided, and knows {next}");
        }
        self.look(node, engine);
    }

    pub fn promised(&self, node: u16) -> Option<Ballot> {
        self.promised.get(&node).copied()
    }

    pub fn promises(&mut self, node: u16, promised: Option<Ballot>) {
        if self.off {
            return;
        }
        self.promised.extend(promised.map(|promised| (node, promised)));
    }

    pub fn lost(&mut self, node: u16) {
        if self.off {
            return;
        }
        self.promised.remove(&node);
        self.marked.remove(&node);
    }

    /// A packet leaves its sender.
    pub fn sent(&mut self, from: MemberId, packet: &Packet) {
        if self.off {
            return;
        }
        match &packet.content {
            Content::Prepare { ballot, .. } => self.used(from, *ballot),
            Content::Beat(beat) => beat.lead.iter().for_each(|lead| self.used(from, lead.ballot)),
            Content::Value(value) => {
                let known = self.payloads.entry(value.id).or_insert_with(|| value.body.clone());
                assert!(*known == value.body, "names: {:?} has two payloads", value.id);
            }
            _ => {}
        }
    }

    fn used(&mut self, by: MemberId, ballot: Ballot) {
        let first = *self.ballots.entry(ballot).or_insert(by);
        let own = (first, ballot.owner) == (by, by);
        assert!(own, "ballots: {by} uses {ballot}, which {first} used first");
    }

    /// A packet asks for votes, or is a vote: neither leaves before its sender's disk has its promise.
    pub fn depends(&self, from: MemberId, packet: &Packet) {
        if self.off {
            return;
        }
        let kept = self.promised.get(&from.node.0).copied().unwrap_or(Ballot::ZERO);
        if let (true, Content::Prepare { ballot, .. } | Content::Promise { ballot, .. }) =
            (self.durable, &packet.content)
        {
            assert!(kept >= *ballot, "kept first: {from} speaks by {ballot} while its disk has promised {kept}");
        }
    }

    pub fn written(&mut self, node: u16, record: &Record) {
        if self.off {
            return;
        }
        let ballot = match record {
            Record::Promised(ballot) => *ballot,
            Record::Accepted { ballot, at, item, .. } => {
                let by = self.accepts.entry((*at, *ballot)).or_default();
                by.insert(node, item.clone());
                let one = by.values().all(|other| other == item);
                assert!(one, "one value for a ballot: instance {at}, ballot {ballot}: {by:?}");
                *ballot
            }
            Record::Decided(next) => {
                let known = self.marked.entry(node).or_default();
                *known = (*next).max(*known);
                return;
            }
            _ => return,
        };
        let known = self.promised.entry(node).or_insert(ballot);
        *known = ballot.max(*known);
    }

    /// What a node knows now.
    pub fn look(&mut self, node: u16, engine: &Paxos) {
        if self.off {
            return;
        }
        self.look_at_accepted(node, engine);
        engine.each_counter(&mut |name, value| {
            assert!(
                name != "under_way_bytes" || value <= self.credit,
                "credit: {value} bytes of n{node} are under way"
            );
        });
        if let Role::Leading(leading) = engine.role() {
            let open = leading.open.keys().filter(|at| **at >= leading.inherited).count();
            assert!(open <= self.window, "window: n{node} has opened {open} instances");
        }
        if engine.learner().next() > 0 {
            let log = *self.log_id.get_or_insert(engine.log());
            assert!(log == engine.log(), "one log: n{node} has {}, others {log}", engine.log());
        }
        let (at, now) = (engine.learner().next(), &engine.learner().head().declared);
        let known = self.declared.entry(at).or_insert_with(|| now.clone());
        assert!(known == now, "declared: before instance {at} it is {known:?}, at n{node} {now:?}");
        self.look_at_copies(node, engine);
        let seen = self.seen.entry(node).or_default();
        *seen = (*seen).max(engine.learner().first().at);
        while let Some(entry) = engine.learner().entry(*seen) {
            let at = *seen;
            *seen += 1;
            match self.log.get(&at) {
                Some(known) => {
                    let (item, other) = (&known.item, &entry.item);
                    assert!(known == entry, "one value: instance {at} is {item:?}, at n{node} {other:?}");
                }
                None => {
                    self.log.insert(at, entry.clone());
                    if self.durable || self.quorum > 1 {
                        let full = |((i, _), by): (&(u64, Ballot), &BTreeMap<u16, Item>)| {
                            *i == at && by.values().filter(|item| **item == entry.item).count() >= self.quorum
                        };
                        let mut held = self.accepts.range((at, Ballot::ZERO)..).take_while(|((i, _), _)| *i == at);
                        assert!(held.any(full), "quorum: instance {at} {:?} at n{node}", entry.item);
                    }
                }
            }
        }
    }

    /// What a node has released since it was looked at: at some instance since then a majority of the copies kept it.
    fn look_at_copies(&mut self, node: u16, engine: &Paxos) {
        let (learner, before) = (engine.learner(), self.gone.get(&node).copied().unwrap_or_default());
        let (gone, next) = (learner.first().place, learner.next());
        // One that starts has nothing yet, and then what it had released before: that was judged then.
        self.gone.insert(node, (gone.max(before.0), next));
        if !self.durable || gone <= before.0 || engine.config().on_budget == OnBudget::LetGo {
            return;
        }
        let kept = |declared: &Declared| declared.programs().all(|(_, program)| is_kept(program, gone));
        // One that goes on at a checkpoint of another has nothing else yet, and does not know what allowed the other to release.
        let known_to_it = if learner.first().at == next { u64::MAX } else { next };
        let may_go = self.declared.range(before.1.min(next)..=known_to_it).any(|(_, declared)| kept(declared));
        assert!(may_go, "copies: n{node} has released up to {gone}: {:?}", learner.head().declared);
    }

    /// Where nothing is written down, what acceptors have accepted is seen in them.
    fn look_at_accepted(&mut self, node: u16, engine: &Paxos) {
        let Some(acceptor) = engine.acceptor().filter(|_| !self.durable) else { return };
        for (at, accepted) in &acceptor.accepted {
            let by = self.accepts.entry((*at, accepted.ballot)).or_default();
            by.insert(node, accepted.item.clone());
        }
    }

    pub fn submitted(&mut self, node: u16, incarnation: u64, count: u64) {
        if self.off {
            return;
        }
        self.submitted.insert((node, incarnation), count);
    }

    pub fn delivered(&mut self, node: u16, incarnation: u64, delivery: &Delivery) {
        if self.off {
            return;
        }
        self.deliveries += 1;
        let bytes = delivery.payload.to_bytes().to_vec();
        let place = delivery.position.0;
        let known = self.order.entry(place).or_insert_with(|| bytes.clone());
        assert!(*known == bytes, "one order: place {place} at n{node}");
        let last = self.places.insert((node, incarnation), Some(place)).flatten();
        let inside = self.inside.get(&(node, incarnation)).expect("member: delivers outside any view");
        assert_eq!(inside.kind, ViewKind::Regular);
        assert!(last.is_none_or(|last| place == last + 1), "no gap: n{node} was given {last:?}, then {place}");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let sender = (words.next().unwrap() as u16, words.next().unwrap());
        let count = words.next().unwrap();
        assert_eq!((delivery.sender.node.0, delivery.sender.incarnation.0), sender, "sender");
        assert!(inside.members.contains(&delivery.sender), "sender is a member");
        let fifo = self.fifo.entry((node, incarnation)).or_default().entry(sender).or_insert(0);
        assert!(count > *fifo, "sender's order: n{node} was given {count} after {fifo} of {sender:?}");
        *fifo = count;
        if sender == (node, incarnation) {
            let own = self.delivered.entry(sender).or_default();
            assert!(count == *own + 1, "own messages: {count} after {own} at n{node}.{incarnation}");
            *own = count;
            assert!(delivery.id.is_some(), "own message named");
        }
    }

    pub fn installed(&mut self, node: u16, incarnation: u64, view: &View) {
        if self.off {
            return;
        }
        let me = MemberId::new(node, incarnation);
        assert!(view.members.contains(&me), "member of its own views");
        let before = self.inside.insert((node, incarnation), view.clone());
        if view.kind == ViewKind::Transitional {
            assert_eq!(before.map(|before| before.id), Some(view.id), "closes the view it was in");
            return;
        }
        assert!(before.as_ref().is_none_or(|b| b.kind == ViewKind::Transitional && b.id < view.id), "views alternate");
        let moves = before.as_ref().is_some_and(|before| before.id.number + 1 == view.id.number);
        let last =
            self.places.get(&(node, incarnation)).copied().flatten().filter(|_| moves && view.moved_together != [me]);
        assert!(before.is_some() || view.members == [me], "alone at first");
        let together = before.map_or(vec![me], |before| before.members);
        assert_eq!(view.moved_together, together, "who moves together");
        assert!(together.iter().all(|member| view.members.contains(member)), "who moves together is there");
        let known = self.views.entry(view.id).or_insert((view.members.clone(), last));
        assert_eq!(known.0, view.members, "one membership for each view");
        assert!(last.is_none_or(|last| known.1.is_none_or(|place| place == last)), "views at one place");
        known.1 = known.1.or(last);
        self.places.insert((node, incarnation), known.1);
    }

    /// Why the view of a node's incarnation replaced the one before.
    pub fn why(&self, node: u16, incarnation: u64) -> String {
        self.inside.get(&(node, incarnation)).map(View::why).unwrap_or_default()
    }

    pub fn leaves(&mut self, node: u16) {
        if self.off {
            return;
        }
        self.leaving.insert(node);
    }

    pub fn is_leaving(&self, node: u16) -> bool {
        self.leaving.contains(&node)
    }

    /// Which hosts lack which of their own messages.
    pub fn owed(&self, world: &World) -> Vec<(NodeId, u64, u64)> {
        if self.off {
            return Vec::new();
        }
        let owed = |(host, node): (&super::world::Host, u16)| {
            let count = self.submitted.get(&(node, host.incarnation)).copied().unwrap_or(0);
            let done = self.delivered.get(&(node, host.incarnation)).copied().unwrap_or(0);
            (host.up && done < count).then_some((NodeId(node), done, count))
        };
        world.hosts.iter().zip(0..).filter_map(owed).collect()
    }
}

/// Whether a majority of the copies of a program keeps a position; those that were never bound keep nothing.
fn is_kept(program: &Program, place: u64) -> bool {
    let bound = || program.seats().values().filter_map(|seat| seat.bound.as_ref());
    let withdrawn = program.seats().len() - bound().count();
    let copies = usize::from(program.copies()).saturating_sub(withdrawn).max(bound().count());
    let keep = bound().filter(|bound| bound.from > place).count();
    place < program.began() || 2 * keep > copies
}
