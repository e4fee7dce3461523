//! The merge: what the rings decide, handed out in the order of positions.
use crate::input::Input;
use crate::log::LogState;
use crate::mutated;
use crate::slot::{RingId, Slot};
use crate::subscription::{Change, Part, Progress, SubscriberId, Wish};
use consort_types::Position;
use std::collections::BTreeMap;

/// How a merge is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whose subscriptions it follows.
    pub subscriber: SubscriberId,
    /// How many bytes of entries may wait, for each ring; one entry always may.
    pub budget: usize,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

impl Config {
    /// The settings of a merge that keeps all rules.
    pub const fn new(subscriber: SubscriberId, budget: usize) -> Self {
        Self {
            subscriber,
            budget,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// An item with its place in the order of all rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged<I> {
    /// Where it stands; larger than that of everything handed out before.
    pub position: Position,
    /// What stands there.
    pub item: I,
}

/// Why an entry was not taken. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The ring is not read.
    NotRead,
    /// Others come first.
    Gap {
        /// The index that is to come next.
        expected: u64,
    },
    /// The ring's budget is used up: it is to be offered again once something was handed out.
    Full,
}

/// Whom a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// This ring must reach a slot, by whatever it decides.
    Slot(RingId, Slot),
    /// This ring is being joined, and the copy of the change in it is not read yet. It stands at that index or behind.
    Copy(RingId, u64),
}

/// All that a reader must know to go on where another stood. Rings are read again from the indices of their states on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint<S> {
    /// Everything up to here is handed out.
    pub cursor: Position,
    /// The number of the last change that took effect.
    pub done: u64,
    /// Behind this slot it did.
    pub effect: Slot,
    /// A change that is half read.
    pub progress: Progress,
    /// The rings that are read: what follows from each log, and what it means.
    pub rings: BTreeMap<RingId, (S, Part)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Merge<S: LogState> {
    config: Config,
    inputs: BTreeMap<RingId, Input<S>>,
    cursor: Position,
    done: u64,
    effect: Slot,
    progress: Progress,
}

impl<S: LogState> Merge<S> {
    /// Merges these rings, each from the beginning of its log or from where somebody tells.
    pub fn new(config: Config, rings: impl IntoIterator<Item = (RingId, S)>) -> Self {
        let part = Part::Merged { from: Slot::FIRST, until: None };
        let inputs = rings.into_iter().map(|(ring, state)| (ring, Input::new(state, part))).collect();
        Self { config, inputs, cursor: Position(0), done: 0, effect: Slot(0), progress: Progress::Settled }
    }

    /// Goes on where another reader of the same subscriber stood.
    pub fn restore(config: Config, checkpoint: Checkpoint<S>) -> Self {
        //= MP30
        let Checkpoint { cursor, done, effect, progress, rings } = checkpoint;
        let inputs = rings.into_iter().map(|(ring, (state, part))| (ring, Input::new(state, part))).collect();
        let cursor = if mutated!(config, CursorForgotten) { Position(0) } else { cursor };
        Self { config, inputs, cursor, done, effect, progress }
    }

    /// All that another reader must know to go on from here.
    pub fn checkpoint(&self) -> Checkpoint<S> {
        let forgets = mutated!(self.config, ProgressForgotten);
        let progress = if forgets { Progress::Settled } else { self.progress };
        let rings = self.inputs.iter().map(|(ring, input)| (*ring, (input.state.clone(), input.part))).collect();
        Checkpoint { cursor: self.cursor, done: self.done, effect: self.effect, progress, rings }
    }

    /// The rings that are read.
    pub fn rings(&self) -> impl Iterator<Item = RingId> {
        self.inputs.keys().copied()
    }

    /// Whether a ring is read, and merged.
    pub fn is_subscribed(&self, ring: RingId) -> bool {
        self.inputs.get(&ring).is_some_and(|input| matches!(input.part, Part::Merged { until: None, .. }))
    }

    /// The index of the entry that a ring is to bring next, where it is read.
    pub fn end(&self, ring: RingId) -> Option<u64> {
        self.inputs.get(&ring).map(Input::end)
    }

    /// The first index of a ring that a reader needs that goes on from a checkpoint of now.
    pub fn needs(&self, ring: RingId) -> Option<u64> {
        self.inputs.get(&ring).map(|input| input.state.index())
    }

    /// The last position that was handed out.
    pub const fn cursor(&self) -> Position {
        self.cursor
    }

    /// The number of the last change, once it has taken effect and every ring has passed where it did: the next one may be
    /// proposed. Its copies then stand behind that.
    pub fn settled(&self) -> Option<u64> {
        //= MP21
        let passed = |input: &Input<S>| match input.part {
            Part::Merged { until, .. } => until.is_none() && input.reached() > self.effect,
            Part::Cached { .. } => true,
        };
        let all = self.inputs.values().all(passed) || mutated!(self.config, SettledAtOnce);
        (self.progress == Progress::Settled && all).then_some(self.done)
    }

    /// What waits of a ring, in bytes.
    pub fn bytes(&self, ring: RingId) -> usize {
        self.inputs.get(&ring).map_or(0, Input::bytes)
    }

    /// Reads another ring, from before the copy of the change that joins it. It is merged once the change has taken effect.
    pub fn attach(&mut self, ring: RingId, state: S) {
        //= MP20
        self.inputs.entry(ring).or_insert_with(|| Input::new(state, Part::Cached { copy: None }));
    }

    /// Reads and merges another ring from where its log stands in `state`; without an agreement, as a reader by itself may.
    /// Its items count from the slot that is returned: nothing is handed out behind it yet.
    pub fn begin(&mut self, ring: RingId, state: S) -> Slot {
        //= MP70
        let from = Slot::of(self.cursor).plus(1).max(state.slot());
        self.inputs.insert(ring, Input::new(state, Part::Merged { from, until: None }));
        from
    }

    /// Reads a ring no more, from here on.
    pub fn end_reading(&mut self, ring: RingId) {
        self.inputs.remove(&ring);
    }

    /// Whether what a ring decides from now on, as far as this reader knows, has this slot or a later one.
    pub fn has_come_to(&self, ring: RingId, slot: Slot) -> bool {
        self.inputs.get(&ring).is_some_and(|input| input.reached() >= slot)
    }

    /// Takes an entry of a ring; one that it has is dropped.
    ///
    /// # Errors
    /// [`NotTaken`] says why not.
    pub fn push(&mut self, ring: RingId, index: u64, entry: S::Entry) -> Result<(), NotTaken> {
        let Some(input) = self.inputs.get_mut(&ring) else { return Err(NotTaken::NotRead) };
        let expected = input.end();
        //= MP11
        if index < expected && !mutated!(self.config, KnownTakenAgain) {
            return Ok(());
        }
        if index > expected && !mutated!(self.config, GapsTaken) {
            return Err(NotTaken::Gap { expected });
        }
        if !input.has_room(S::bytes(&entry), self.config.budget) && !mutated!(self.config, BudgetIgnored) {
            return Err(NotTaken::Full);
        }
        input.push(entry);
        input.seek(self.config.subscriber, self.done);
        self.join();
        Ok(())
    }

    /// Hands out what comes next, if it is certain that nothing comes before it.
    pub fn hand_out(&mut self) -> Option<Merged<S::Item>> {
        loop {
            if matches!(self.progress, Progress::Joining { .. }) && !mutated!(self.config, JoinsUnasked) {
                return None;
            }
            let ring = self.least()?;
            let input = self.inputs.get_mut(&ring)?;
            let (slot, item) = (input.slot(), input.take()?);
            let position = slot.position(ring);
            // Of the entry at which a checkpoint was taken a part was handed out before.
            if position <= self.cursor && !mutated!(self.config, TiesByArrival) {
                continue;
            }
            self.cursor = position;
            if let Some(change) = S::change(&item) {
                self.heed(ring, slot, change);
            }
            return Some(Merged { position, item });
        }
    }

    /// The ring that brings what comes next. Where that is not there yet, nothing is certain.
    fn least(&mut self) -> Option<RingId> {
        //= MP02
        self.inputs.retain(|_, input| !input.is_over());
        let merged = self.inputs.iter().filter(|(_, input)| matches!(input.part, Part::Merged { .. }));
        let (alone, arrival) = (mutated!(self.config, WaitsForNobody), mutated!(self.config, TiesByArrival));
        let counts = merged.filter(|(_, input)| !alone || input.has_item());
        let more = |input: &Input<S>| if arrival { usize::MAX - input.waiting() } else { 0 };
        counts.min_by_key(|(ring, input)| (input.slot(), more(input), **ring)).map(|(ring, _)| *ring)
    }

    /// The ring that what is decided in others waits for: it has come the least far. `None` where nothing waits for a ring.
    pub fn held_up_by(&self) -> Option<RingId> {
        let merged = || self.inputs.iter().filter(|(_, input)| matches!(input.part, Part::Merged { .. }));
        let first = |has_item: bool| {
            let some = merged().filter(move |(_, input)| input.has_item() == has_item);
            some.map(|(ring, input)| (input.slot(), *ring)).min()
        };
        let (ready, idle) = (first(true)?, first(false)?);
        (idle < ready).then_some(idle.1)
    }

    /// The rings that hold up what could be handed out, and how far each must come, so that all goes that is decided now.
    /// None where nothing waits. `filled` says which slot of a ring an item filled last.
    pub fn waits(&self, filled: impl Fn(RingId) -> Slot) -> Vec<Wait> {
        //= MP04
        if let Progress::Joining { ring, since, .. } = self.progress {
            return vec![Wait::Copy(ring, since)];
        }
        let merged = || self.inputs.iter().filter(|(_, input)| matches!(input.part, Part::Merged { .. }));
        let ready = || merged().filter(|(_, input)| input.has_item());
        let Some(first) = ready().map(|(ring, input)| (input.slot(), *ring)).min() else { return Vec::new() };
        let idle = || merged().filter(|(_, input)| !input.has_item());
        if !idle().any(|(ring, input)| (input.slot(), *ring) < first) {
            return Vec::new();
        }
        let last = ready().map(|(ring, _)| filled(*ring)).fold(first.0, Slot::max);
        idle().filter(|(_, input)| input.slot() <= last).map(|(ring, _)| Wait::Slot(*ring, last.plus(1))).collect()
    }

    /// A copy of a change is handed out.
    fn heed(&mut self, seen: RingId, at: Slot, change: Change) {
        let Change { subscriber, number, wish, ring, beside, since } = change;
        //= MP21
        let old = number <= self.done && mutated!(self.config, OldCopiesCount);
        let is_next = number == self.done + 1 || old;
        let is_copy = ring != beside && (seen == ring || seen == beside) && self.is_subscribed(beside);
        if subscriber != self.config.subscriber || !is_next || !is_copy {
            return;
        }
        match wish {
            Wish::Join if seen == beside && !self.is_subscribed(ring) => {
                self.progress = Progress::Joining { ring, at, since };
                self.join();
            }
            Wish::Leave if self.is_subscribed(ring) => self.leave(seen, at, ring),
            Wish::Join | Wish::Leave => {}
        }
    }

    /// Merges a ring behind both copies of the change that joins it, once both are known.
    fn join(&mut self) {
        //= MP23
        let Progress::Joining { ring, at, .. } = self.progress else { return };
        let Some(input) = self.inputs.get_mut(&ring) else { return };
        let Part::Cached { copy: Some((number, own)) } = input.part else { return };
        let from = match () {
            () if mutated!(self.config, JoinsAtCopyBeside) => at,
            () if mutated!(self.config, JoinsAtOwnCopy) => own,
            () => at.max(own),
        };
        input.merge_from(from.plus(1));
        (self.done, self.effect, self.progress) = (number, from, Progress::Settled);
    }

    /// Merges a ring no more behind both copies of the change that leaves it.
    fn leave(&mut self, seen: RingId, at: Slot, ring: RingId) {
        //= MP24
        let first = if let Progress::Leaving { first } = self.progress { Some(first) } else { None };
        let early = mutated!(self.config, LeavesAtFirstCopy);
        let other = first.is_some_and(|first| first != seen || mutated!(self.config, CopiesCountTwice));
        if !(early || other) {
            self.progress = Progress::Leaving { first: first.unwrap_or(seen) };
            return;
        }
        if let Some(Input { part: Part::Merged { until, .. }, .. }) = self.inputs.get_mut(&ring) {
            *until = Some(at);
        }
        (self.done, self.effect, self.progress) = (self.done + 1, at, Progress::Settled);
    }
}
