//! Rings, subscribers and their readers, played by a schedule and judged after each step.
use super::log::{Entry, Fold, State};
use super::reference::{Sequence, sequence};
use super::schedule::{Setup, Step};
use crate::cache::Cache;
use crate::log::LogState;
use crate::merge::{Checkpoint, Config, Merge, NotTaken, Wait};
use crate::slot::{RingId, Slot};
use crate::subscription::{Change, SubscriberId, Wish};
use consort_types::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The promise that is broken, a colon, and how.
pub type Verdict = Result<(), String>;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    pub fold: Option<Fold>,
    #[cfg(feature = "mutants")]
    pub rule: Option<crate::Mutant>,
}

#[derive(Debug)]
struct Ring {
    log: Vec<Entry>,
    /// Where the retained log begins.
    first: State,
    end: State,
    sent: BTreeMap<u8, u64>,
}

/// A checkpoint, and how much its reader had handed out.
type Saved = (Checkpoint<State>, usize);

#[derive(Debug)]
struct Subscriber {
    id: SubscriberId,
    initial: BTreeSet<RingId>,
    /// The furthest checkpoint of its readers.
    saved: Option<Saved>,
    /// What its readers have handed out, as the first of them did.
    history: Sequence,
    /// What was proposed.
    changes: Vec<Change>,
    /// Changes of which no checkpoint tells yet: from where on their rings must be retained.
    holds: Vec<Change>,
}

#[derive(Debug)]
enum ReaderState {
    Up(Box<Merge<State>>, usize),
    Down,
    Waits(Cache<State>),
}

#[derive(Debug)]
struct Reader {
    subscriber: usize,
    state: ReaderState,
    own: Option<Saved>,
}

#[derive(Debug)]
pub struct World {
    setup: Setup,
    broken: Broken,
    rings: Vec<Ring>,
    subscribers: Vec<Subscriber>,
    readers: Vec<Reader>,
    pub handed_out: u64,
    pub recovered: u64,
    pub changes: u64,
}

impl World {
    pub fn new(setup: Setup, broken: Broken) -> Self {
        let mut rng = Rng::new(setup.seed ^ 0x5e7);
        let ring = |_| Ring { log: Vec::new(), first: State::START, end: State::START, sent: BTreeMap::new() };
        let mut subscriber = |at: u8| {
            let some = rng.between(1, (1 << setup.rings) - 1);
            Subscriber {
                id: SubscriberId(at.into()),
                initial: (0..setup.rings).filter(|ring| some >> ring & 1 == 1).map(RingId).collect(),
                saved: None,
                history: Sequence::new(),
                changes: Vec::new(),
                holds: Vec::new(),
            }
        };
        let subscribers: Vec<_> = (0..setup.subscribers).map(&mut subscriber).collect();
        let mut world = Self {
            setup,
            broken,
            rings: (0..setup.rings).map(ring).collect(),
            subscribers,
            readers: Vec::new(),
            handed_out: 0,
            recovered: 0,
            changes: 0,
        };
        for reader in 0..usize::from(setup.readers) {
            let subscriber = reader % world.subscribers.len();
            let state = world.begin(subscriber, None);
            world.readers.push(Reader { subscriber, state, own: None });
        }
        world
    }

    fn config(&self, subscriber: usize) -> Config {
        let config = Config::new(self.subscribers[subscriber].id, self.setup.budget);
        #[cfg(feature = "mutants")]
        let config = Config { mutant: self.broken.rule, ..config };
        config
    }

    /// A reader that waits for a checkpoint, and listens meanwhile.
    fn listen(&self, subscriber: usize) -> ReaderState {
        let mut cache = Cache::new(self.config(subscriber));
        for (ring, id) in self.rings.iter().zip(0..) {
            cache.listen(RingId(id), ring.log.len() as u64);
        }
        ReaderState::Waits(cache)
    }

    /// A reader that goes on from a checkpoint, or from the beginning of all.
    fn begin(&self, subscriber: usize, from: Option<Saved>) -> ReaderState {
        let config = self.config(subscriber);
        let state = State::START.breaking(self.broken.fold);
        let initial = self.subscribers[subscriber].initial.iter().map(|ring| (*ring, state.clone()));
        match from {
            Some((checkpoint, at)) => ReaderState::Up(Box::new(Merge::restore(config, kept(checkpoint))), at),
            None => ReaderState::Up(Box::new(Merge::new(config, initial)), 0),
        }
    }

    pub fn play(&mut self, step: Step) -> Verdict {
        let (rings, readers, subscribers) = (self.rings.len(), self.readers.len(), self.subscribers.len());
        let ring = |ring: u8| usize::from(ring) % rings;
        let reader = |reader: u8| usize::from(reader) % readers;
        match step {
            Step::Value { ring: at, sender, messages } => self.value(ring(at), sender, messages),
            Step::Repeat { ring: at, back } => self.repeat(ring(at), back.into()),
            Step::TooEarly { ring: at, sender } => self.too_early(ring(at), sender),
            Step::Skip { ring: at, beyond } => {
                let furthest = self.rings.iter().map(|ring| ring.end.slot()).max().unwrap_or(Slot::FIRST);
                self.decide(ring(at), Entry::Skip(furthest.plus(beyond.into())));
            }
            Step::LateSkip { ring: at, back } => {
                let slot = self.rings[ring(at)].end.slot().0.saturating_sub(back.into());
                self.decide(ring(at), Entry::Skip(Slot(slot.max(1))));
            }
            Step::Read { reader: at, ring, entries } => self.read(reader(at), ring.into(), entries.into())?,
            Step::HandOut { reader: at, items } => self.hand_out(reader(at), items.into())?,
            Step::Checkpoint { reader: at } => self.checkpoint(reader(at)),
            Step::Crash { reader: at } => self.readers[reader(at)].state = ReaderState::Down,
            Step::Restart { reader: at, own } => self.restart(reader(at), own),
            Step::Install { reader: at } => self.install(reader(at))?,
            Step::Trim { ring: at, entries } => self.trim(ring(at), entries.into()),
            Step::Change { subscriber, ring: at, beside } => {
                self.propose(usize::from(subscriber) % subscribers, ring(at), ring(beside));
            }
            Step::Copy { subscriber, beside, back } => {
                self.copy(usize::from(subscriber) % subscribers, beside, back.into());
            }
        }
        Ok(())
    }

    fn decide(&mut self, ring: usize, entry: Entry) {
        let ring = &mut self.rings[ring];
        ring.end.pass(entry.clone());
        ring.log.push(entry);
    }

    fn value(&mut self, ring: usize, sender: u8, messages: u8) {
        let sent = self.rings[ring].sent.entry(sender).or_default();
        *sent += 1;
        let number = *sent;
        self.decide(ring, Entry::Value { sender, number, messages });
    }

    fn repeat(&mut self, ring: usize, back: usize) {
        let values = self.rings[ring].log.iter().rev().filter(|entry| matches!(entry, Entry::Value { .. }));
        if let Some(entry) = values.clone().nth(back).cloned() {
            self.decide(ring, entry);
        }
    }

    fn too_early(&mut self, ring: usize, sender: u8) {
        let number = self.rings[ring].sent.get(&sender).copied().unwrap_or(0) + 2;
        self.decide(ring, Entry::Value { sender, number, messages: 1 });
    }

    /// Reads some entries of a ring; whoever needs what is trimmed waits for a checkpoint.
    fn read(&mut self, reader: usize, ring: usize, entries: u64) -> Verdict {
        let waits = self.listen(self.readers[reader].subscriber);
        let budget = self.setup.budget;
        match &mut self.readers[reader].state {
            ReaderState::Down => {}
            ReaderState::Up(merge, _) => {
                let rings: Vec<_> = merge.rings().collect();
                let Some(id) = rings.get(ring % rings.len().max(1)).copied() else { return Ok(()) };
                let log = &self.rings[usize::from(id.0)];
                if feed(merge, id, log, entries)? == Read::Trimmed {
                    self.readers[reader].state = waits;
                } else {
                    within(merge.bytes(id), budget)?;
                }
            }
            ReaderState::Waits(cache) => {
                let id = RingId((ring % self.rings.len()) as u8);
                let log = &self.rings[usize::from(id.0)];
                let from = cache.end(id).unwrap_or(log.log.len() as u64).max(log.first.index());
                for (index, entry) in (from..).zip(log.log.iter().skip(from as usize)).take(entries as usize) {
                    cache.push(id, index, entry.clone());
                }
                within(cache.bytes(id), budget)?;
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, reader: usize, items: u64) -> Verdict {
        let Reader { subscriber, state, .. } = &mut self.readers[reader];
        let ReaderState::Up(merge, at) = state else { return Ok(()) };
        let history = &mut self.subscribers[*subscriber].history;
        for _ in 0..items {
            let before = merge.cursor();
            let Some(next) = merge.hand_out() else { break };
            let next = (next.position, next.item.0);
            if next.0 <= before {
                return Err(format!("order: reader {reader} hands out {next:?} after {before:?}"));
            }
            match history.get(*at) {
                Some(known) if *known != next => {
                    return Err(format!("agreement: reader {reader} hands out {next:?} where another did {known:?}"));
                }
                Some(_) => {}
                None => history.push(next),
            }
            *at += 1;
            self.handed_out += 1;
        }
        self.attach(reader);
        Ok(())
    }

    /// Reads the log of a ring that is being joined, if it is retained from early enough on.
    fn attach(&mut self, reader: usize) {
        let waits = self.listen(self.readers[reader].subscriber);
        let Reader { state, .. } = &mut self.readers[reader];
        let ReaderState::Up(merge, _) = state else { return };
        let Some(Wait::Copy(ring, since)) = merge.waits(|_| Slot(0)).first().copied() else { return };
        if merge.end(ring).is_some() {
            return;
        }
        let first = &self.rings[usize::from(ring.0)].first;
        if first.index() <= since {
            merge.attach(ring, first.clone().breaking(self.broken.fold));
        } else {
            *state = waits;
        }
    }

    fn checkpoint(&mut self, reader: usize) {
        let Reader { subscriber, state: ReaderState::Up(merge, at), own } = &mut self.readers[reader] else { return };
        let saved = (merge.checkpoint(), *at);
        // One that needs what is trimmed already helps nobody.
        let retained =
            |(ring, (state, _)): (&RingId, &(State, _))| state.index() >= self.rings[usize::from(ring.0)].first.index();
        if !saved.0.rings.iter().all(retained) {
            return;
        }
        *own = Some(saved.clone());
        let subscriber = &mut self.subscribers[*subscriber];
        if subscriber.saved.as_ref().is_none_or(|known| is_further(&saved, known)) {
            let done = saved.0.done;
            subscriber.saved = Some(saved);
            subscriber.holds.retain(|change| change.number > done);
        }
    }

    fn restart(&mut self, reader: usize, own: bool) {
        let Reader { subscriber, state, own: saved } = &self.readers[reader];
        if !matches!(state, ReaderState::Down) {
            return;
        }
        let state = match saved.clone().filter(|_| own) {
            Some(saved) => self.begin(*subscriber, Some(saved)),
            None => self.listen(*subscriber),
        };
        self.readers[reader].state = state;
    }

    fn install(&mut self, reader: usize) -> Verdict {
        let Reader { subscriber, state, .. } = &mut self.readers[reader];
        let ReaderState::Waits(cache) = state else { return Ok(()) };
        let Some((checkpoint, at)) = self.subscribers[*subscriber].saved.clone() else { return Ok(()) };
        if !cache.is_reached_by(&checkpoint) {
            return Ok(());
        }
        let merge = cache.clone().install(kept(checkpoint));
        if let Some(ring) = merge.rings().find(|ring| merge.end(*ring) < cache.end(*ring)) {
            return Err(format!("undisturbed: reader {reader} asks for what it has of {ring}"));
        }
        *state = ReaderState::Up(Box::new(merge), at);
        self.recovered += 1;
        Ok(())
    }

    /// The old way: the newest checkpoint, and the log behind it.
    fn recover_from_log(&mut self, reader: usize) {
        let Reader { subscriber, state: ReaderState::Waits(_), .. } = &self.readers[reader] else { return };
        self.readers[reader].state = self.begin(*subscriber, self.subscribers[*subscriber].saved.clone());
    }

    fn trim(&mut self, ring: usize, entries: u64) {
        let id = RingId(ring as u8);
        let needs = |subscriber: &Subscriber| {
            let held = subscriber.holds.iter().filter(|change| change.ring == id).map(|change| change.since);
            let read = match &subscriber.saved {
                Some((checkpoint, _)) => checkpoint.rings.get(&id).map(|(state, _)| state.index()),
                None => subscriber.initial.contains(&id).then_some(0),
            };
            held.chain(read).min()
        };
        let needed = self.subscribers.iter().filter_map(needs).min().unwrap_or(u64::MAX);
        let ring = &mut self.rings[ring];
        for _ in 0..entries {
            let index = ring.first.index();
            if index < needed && index < ring.log.len() as u64 {
                ring.first.pass(ring.log[index as usize].clone());
            }
        }
    }

    /// A reader proposes to join the ring, or to leave it, once the change before has taken effect for it.
    fn propose(&mut self, subscriber: usize, ring: usize, beside: usize) {
        let number = self.subscribers[subscriber].changes.len() as u64;
        let (ring, beside) = (RingId(ring as u8), RingId(beside as u8));
        let since = self.rings[usize::from(ring.0)].log.len() as u64;
        for reader in self.readers.iter().filter(|reader| reader.subscriber == subscriber) {
            let ReaderState::Up(merge, _) = &reader.state else { continue };
            if merge.settled() == Some(number) && ring != beside && merge.is_subscribed(beside) {
                let wish = if merge.is_subscribed(ring) { Wish::Leave } else { Wish::Join };
                let id = self.subscribers[subscriber].id;
                let change = Change { subscriber: id, number: number + 1, wish, ring, beside, since };
                self.subscribers[subscriber].changes.push(change);
                self.subscribers[subscriber].holds.push(change);
                self.changes += 1;
                return;
            }
        }
    }

    fn copy(&mut self, subscriber: usize, beside: bool, back: usize) {
        if let Some(change) = self.subscribers[subscriber].changes.iter().rev().nth(back).copied() {
            let ring = if beside { change.beside } else { change.ring };
            self.decide(ring.0.into(), Entry::Change(change));
        }
    }

    /// Nothing goes wrong any more: whatever was decided is handed out by all.
    pub fn heal(&mut self) -> Verdict {
        for subscriber in 0..self.subscribers.len() {
            self.copy(subscriber, true, 0);
            self.copy(subscriber, false, 0);
        }
        let logs: Vec<_> = self.rings.iter().map(|ring| ring.log.clone()).collect();
        let whole: Vec<_> = self.subscribers.iter().map(|who| sequence(&logs, who.id, &who.initial)).collect();
        for _ in 0..60 {
            self.go_on()?;
            if self.readers.iter().all(|reader| reader.has_handed_out(whole[reader.subscriber].len())) {
                return self.judge(&whole);
            }
        }
        self.judge(&whole)?;
        let stuck = self.readers.iter().find(|reader| !reader.has_handed_out(whole[reader.subscriber].len()));
        Err(format!("liveness: {:?} does not hand out all {:?}", stuck, whole.iter().map(Vec::len).collect::<Vec<_>>()))
    }

    fn go_on(&mut self) -> Verdict {
        for ring in 0..self.rings.len() {
            self.play(Step::Skip { ring: ring as u8, beyond: 1 })?;
        }
        for reader in 0..self.readers.len() {
            self.restart(reader, true);
            self.install(reader)?;
            let subscriber = self.readers[reader].subscriber;
            let is_up = |other: &Reader| other.subscriber == subscriber && matches!(other.state, ReaderState::Up(..));
            if !self.readers.iter().any(is_up) {
                self.recover_from_log(reader);
            }
            for _ in 0..4 {
                for ring in 0..self.rings.len() {
                    self.read(reader, ring, 1_000)?;
                }
                self.hand_out(reader, 1_000)?;
            }
            self.checkpoint(reader);
        }
        Ok(())
    }

    /// Compares what was handed out with what the logs say.
    fn judge(&self, whole: &[Sequence]) -> Verdict {
        for (subscriber, whole) in self.subscribers.iter().zip(whole) {
            let said = &subscriber.history;
            let differs = (0..said.len()).find(|at| whole.get(*at) != Some(&said[*at]));
            if let Some(at) = differs {
                let id = subscriber.id;
                return Err(format!(
                    "sequence: {id:?} handed out {:?}, and its logs say {:?}",
                    said[at],
                    whole.get(at)
                ));
            }
        }
        for (one, other) in self.subscribers.iter().zip(self.subscribers.iter().skip(1)) {
            if !are_compatible(&one.history, &other.history) {
                return Err(format!("compatible: {:?} and {:?} differ", one.id, other.id));
            }
        }
        Ok(())
    }
}

impl Reader {
    fn has_handed_out(&self, items: usize) -> bool {
        matches!(&self.state, ReaderState::Up(_, at) if *at >= items)
    }
}

/// Whether two sequences have what both have in one order.
fn are_compatible(one: &Sequence, other: &Sequence) -> bool {
    let common = |one: &Sequence, other: &Sequence| -> Sequence {
        let known: BTreeSet<_> = other.iter().collect();
        one.iter().filter(|next| known.contains(next)).cloned().collect()
    };
    common(one, other) == common(other, one)
}

/// Whether a checkpoint needs nothing that another does not need: logs may be trimmed for the other one.
fn is_further((one, at): &Saved, (other, known): &Saved) -> bool {
    let needs = |ring: &RingId| one.rings.get(ring).map_or(u64::MAX, |(state, _)| state.index());
    at >= known && other.rings.iter().all(|(ring, (state, _))| needs(ring) >= state.index())
}

/// What a checkpoint keeps, where a rule of counting is broken.
fn kept(mut checkpoint: Checkpoint<State>) -> Checkpoint<State> {
    let handed_out = Slot::of(checkpoint.cursor);
    let forget = |(ring, (state, part)): (RingId, (State, _))| (ring, (state.forget(handed_out), part));
    checkpoint.rings = checkpoint.rings.into_iter().map(forget).collect();
    checkpoint
}

#[derive(PartialEq, Eq)]
enum Read {
    Some,
    /// What comes next is not retained.
    Trimmed,
}

fn feed(merge: &mut Merge<State>, id: RingId, ring: &Ring, entries: u64) -> Result<Read, String> {
    for at in 0..entries {
        let Some(next) = merge.end(id) else { break };
        if next < ring.first.index() {
            return Ok(Read::Trimmed);
        }
        // What was read comes again at times, and something gets lost on the way.
        let index = [next, next, next.saturating_sub(1), next + 1][(at % 4) as usize];
        let Some(entry) = ring.log.get(index as usize) else { break };
        match merge.push(id, index, entry.clone()) {
            Ok(()) | Err(NotTaken::Gap { .. } | NotTaken::NotRead) => {}
            Err(NotTaken::Full) => break,
        }
    }
    Ok(Read::Some)
}

/// Whether what waits keeps to the budget; one entry always may wait.
fn within(bytes: usize, budget: usize) -> Verdict {
    let limit = budget.max(State::bytes(&Entry::Value { sender: 0, number: 0, messages: 3 }));
    if bytes <= limit { Ok(()) } else { Err(format!("memory: {bytes} bytes wait, {limit} may")) }
}
