//! The protocol of durable copies: each keeps the log of its group on its own disk. Words of the group in, effects out. It has
//! no clock, no thread, no socket and no file.
//!
//! Copies that meet say what they have on disk. Once a majority of those that remember has spoken, all conclude alike which
//! log counts, and in which term; once as many have the term on disk, it is in force. Then each command that comes is the
//! next entry. It is committed once a majority of all copies has it on disk in this term.
//!
//! Whatever is concluded from the order of words is concluded from those that all members of the network view receive.
//! What comes between a signal and the next view may lack words, so that there only facts about disks count.
mod meeting;
mod parts;
mod taking;

use super::disk::{Disk, Known, Record};
use super::log::Item;
use super::said::{MeetingId, Said};
use bytes::Bytes;
use consort::Place;
use meeting::{Force, Meeting, Stage};
use parts::Taking;
use std::collections::VecDeque;

#[cfg(any(test, feature = "mutants"))]
use super::broken::Mutant;

/// Whether a rule is broken on purpose, for a test.
macro_rules! broken {
    ($engine:expr, $mutant:ident) => {{
        #[cfg(any(test, feature = "mutants"))]
        let broken = $engine.broken == Some($crate::durable::broken::Mutant::$mutant);
        #[cfg(not(any(test, feature = "mutants")))]
        let broken = false;
        broken
    }};
}
use broken;

/// A hello has this number of runs at most, the latest.
const RUNS_MAX: usize = 512;
/// While a copy takes the log this number of times as much is kept for it.
const KEPT_FOR_OTHERS: usize = 16;
/// No log is longer, so that no index overflows whatever another copy says.
const INDEX_MAX: u64 = u64::MAX >> 1;

/// Who a copy is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many copies there are.
    pub copies: u16,
    /// Which it is, from 1.
    pub copy: u16,
    /// Names this start of it.
    pub token: u128,
    /// An operator says that it goes on without what is missing. It counts once.
    pub forces: bool,
    /// Where others fetch its checkpoints.
    pub address: String,
    /// What people call it.
    pub label: String,
    /// Bytes of entries that are kept for copies that were away.
    pub log_bytes: usize,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To the group.
    Say(Said),
    /// The next record of the journal, synced.
    Write {
        /// Counted from the first record that its journal had at the start.
        number: u64,
        /// Its bytes.
        record: Bytes,
    },
    /// Records up to this one are needless.
    Trim {
        /// The number of the last of them.
        up_to: u64,
    },
    /// Commands that are sent from now on may count; or nothing counts that is not committed.
    Counts(bool),
    /// A frame that is committed: an entry of the log, or what was sent behind one.
    Take {
        /// As it was sent.
        frame: Bytes,
        /// Where the entry is, or the one behind.
        at: Place,
        /// What is behind it.
        next: Place,
    },
    /// The state is to come from another copy, as of this position at least.
    Lacks {
        /// The first position that the log has.
        from: u64,
    },
    /// It cannot go on, and why.
    End(String),
}

/// What follows once a record is synced.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Promised { meeting: MeetingId, term: u64 },
    Synced { term: u64, index: u64 },
}

/// One copy.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    /// As its records say, once all of them are written.
    disk: Disk,
    /// The number of the last record.
    records: u64,
    /// Records that are not synced yet.
    awaited: VecDeque<(u64, Then)>,
    /// The index of the last entry that the machine was given, and of the last that is known to be committed.
    applied: u64,
    committed: u64,
    meeting: Option<Meeting>,
    /// What was sent behind an entry, and waits until that is committed.
    behind: VecDeque<(u64, Bytes)>,
    message_max: usize,
    effects: VecDeque<Effect>,
    #[cfg(any(test, feature = "mutants"))]
    broken: Option<Mutant>,
}

impl Engine {
    /// One whose disk has this, in this number of records, and whose machine has the first `applied` entries. `copied` is the
    /// start that found its files to be copies of others; 0 for none.
    pub fn new(settings: Settings, disk: Disk, records: u64, applied: u64, copied: u64) -> Self {
        let mut engine = Self {
            settings,
            disk,
            records,
            awaited: VecDeque::new(),
            applied,
            committed: applied,
            meeting: None,
            behind: VecDeque::new(),
            message_max: 1 << 16,
            effects: VecDeque::new(),
            #[cfg(any(test, feature = "mutants"))]
            broken: None,
        };
        if engine.disk.log.end() < applied {
            engine.disk.release_to(applied);
        }
        let known = &mut engine.disk.known;
        if copied != known.copied && known.history == 0 {
            // A backup from before the store began is worth what an empty directory is.
            *known = Known::default();
            known.copied = copied;
        }
        //= RS21
        known.lost |= copied != known.copied;
        known.remembers &= copied == known.copied;
        (known.copied, known.copies) = (copied, engine.settings.copies);
        // This also ends the log of a term of which a stop left only a part.
        engine.write_state();
        engine
    }

    /// Breaks a rule.
    #[cfg(any(test, feature = "mutants"))]
    pub fn with_broken(mut self, broken: Option<Mutant>) -> Self {
        self.broken = broken;
        self
    }

    /// What is to be done next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Which copy it is, from 1.
    pub const fn copy(&self) -> u16 {
        self.settings.copy
    }

    /// The term in force, the store's history, and the copies that are here.
    pub fn in_force(&self) -> Option<(u64, u64, Vec<u16>)> {
        let meeting = self.meeting.as_ref()?;
        let copies = meeting.hellos.iter().map(|hello| hello.copy).collect();
        self.force().map(|force| (force.decision.term, force.history(), copies))
    }

    /// Where other copies serve their checkpoints, the furthest first.
    pub fn donors(&self) -> Vec<String> {
        let Some(meeting) = &self.meeting else { return Vec::new() };
        let mut others: Vec<_> = meeting.hellos.iter().filter(|hello| hello.copy != self.settings.copy).collect();
        others.sort_by_key(|hello| std::cmp::Reverse(hello.extent.committed));
        others.into_iter().map(|hello| hello.address.clone()).collect()
    }

    /// It has a connection, whose messages have this number of bytes at most.
    pub const fn on_connected(&mut self, message_max: usize) {
        self.message_max = message_max;
    }

    /// It has no connection.
    pub fn on_lost(&mut self) {
        self.part();
        self.meeting = None;
    }

    /// Members came, went, or moved along into another network view. The numbers name the membership, for all members alike.
    pub fn on_membership(&mut self, view: u64, change: u64) {
        self.part();
        self.meeting = Some(Meeting::new(MeetingId { view, change }));
        self.say_hello();
    }

    /// What comes until the next membership may lack something that others receive.
    pub fn on_signal(&mut self) {
        if let Some(meeting) = &mut self.meeting {
            meeting.is_closing = true;
        }
    }

    /// All records up to this one are synced.
    pub fn on_written(&mut self, number: u64) {
        let mut synced = None;
        while self.awaited.front().is_some_and(|(awaited, _)| *awaited <= number)
            && let Some((_, then)) = self.awaited.pop_front()
        {
            match then {
                Then::Nothing => {}
                Then::Promised { meeting, term } => {
                    self.say(Said::Promised { meeting, term, copy: self.settings.copy });
                }
                Then::Synced { term, index } => synced = Some((term, index)),
            }
        }
        if let Some((term, index)) = synced {
            self.say_synced(term, index);
        }
    }

    fn say_synced(&mut self, term: u64, index: u64) {
        let copy = self.settings.copy;
        if self.force().is_some_and(|force| force.decision.term == term) {
            self.settings.forces = false;
            self.say(Said::Synced { term, copy, index });
            self.note_synced(term, copy, index);
        }
    }

    /// A word of a copy, its own among them.
    pub fn on_said(&mut self, said: Said) {
        match said {
            Said::Hello(hello) => self.on_hello(hello),
            Said::Promised { meeting, term, copy } => self.on_promised(meeting, term, copy),
            Said::Synced { term, copy, index } => self.note_synced(term, copy, index),
            Said::Ask { term, copy, from } => self.on_ask(term, copy, from),
            Said::Part { term, to, from, items } if to == self.settings.copy => self.on_part(term, from, items),
            Said::Part { .. } => {}
        }
    }

    /// A command of the group, or the opening of an origin, as it came: the next entry, if a term is in force.
    pub fn on_entry(&mut self, frame: Bytes) {
        let closing_counts = broken!(self, ClosingEntriesCount);
        let Some(meeting) = self.meeting.as_mut().filter(|meeting| !meeting.is_closing || closing_counts) else {
            return;
        };
        let Stage::InForce(force) = &mut meeting.stage else { return };
        force.end += 1;
        let item = (force.decision.term, frame);
        match &mut force.taking {
            Taking::Whole => self.append(item),
            Taking::Parts(parts) if parts.covers(force.end) => self.go_on_taking(),
            Taking::Parts(parts) => parts.note(force.end, item),
            Taking::Unheard | Taking::Lacks => {}
        }
    }

    /// What changes nothing and is looked at behind all entries before it: a mark, or a cut. False if it does not count.
    pub fn on_behind(&mut self, frame: Bytes) -> bool {
        //= RS20
        let Some(force) = self.force().filter(|_| self.meeting.as_ref().is_some_and(|meeting| !meeting.is_closing))
        else {
            return false;
        };
        let end = if broken!(self, MarksUncommitted) { self.applied } else { force.end };
        self.behind.push_back((end, frame));
        self.deliver();
        true
    }

    /// The machine took a checkpoint of another copy, which has the first `applied` entries.
    pub fn on_checkpoint(&mut self, applied: u64) {
        if applied <= self.applied {
            return;
        }
        self.applied = applied;
        self.committed = self.committed.max(applied);
        let is_beyond = applied > self.disk.log.end();
        // What is behind it stays: others may count on it until the log of a later term is on disk.
        let gone = self.disk.release_to(applied);
        self.write_state();
        self.trim(gone);
        let Some(force) = self.force_mut() else { return };
        if matches!(force.taking, Taking::Whole) && !is_beyond {
            return self.deliver();
        }
        force.taking = Taking::Unheard;
        self.begin_to_take();
    }

    /// Two checkpoints have all before this position. While a copy that is here takes the log, more is kept for it.
    pub fn on_kept(&mut self, position: u64) {
        let kept = position.saturating_sub(1).min(self.applied);
        let lags = |force: &Force| {
            let hellos = self.meeting.iter().flat_map(|meeting| &meeting.hellos);
            hellos.into_iter().any(|hello| !force.synced.contains_key(&hello.copy))
        };
        let waits = self.force().is_none_or(lags);
        let most = self.settings.log_bytes.saturating_mul(if waits { KEPT_FOR_OTHERS } else { 1 });
        let mut gone = None;
        while self.disk.log.base() < kept && self.disk.log.bytes() > most {
            gone = self.disk.release_to(self.disk.log.base() + 1).or(gone);
        }
        if gone.is_some() {
            self.write_state();
            self.trim(gone);
        }
    }

    /// Why no command can be committed here, in words.
    pub fn waits_for(&self) -> Option<String> {
        match &self.meeting {
            None => Some("it is in the group of no daemon yet".to_owned()),
            Some(meeting) => meeting.waits_for(&self.settings),
        }
    }

    /// The index of the last entry that the machine was given.
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// The index of the last entry that is known to be committed.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// The copies that have more on disk, if entries are not committed.
    pub fn ahead(&self) -> Option<Vec<u16>> {
        let force = self.force().filter(|force| force.end > self.committed)?;
        Some(force.synced.iter().filter(|(_, index)| **index > self.committed).map(|(copy, _)| *copy).collect())
    }

    const fn is_majority(&self, count: usize) -> bool {
        2 * count > self.settings.copies as usize
    }

    fn force(&self) -> Option<&Force> {
        match &self.meeting.as_ref()?.stage {
            Stage::InForce(force) => Some(force),
            _ => None,
        }
    }

    fn force_mut(&mut self) -> Option<&mut Force> {
        match &mut self.meeting.as_mut()?.stage {
            Stage::InForce(force) => Some(force),
            _ => None,
        }
    }

    fn say(&mut self, said: Said) {
        self.effects.push_back(Effect::Say(said));
    }

    fn end(&mut self, why: String) {
        self.effects.push_back(Effect::End(why));
    }

    /// Nothing counts until another term is in force.
    fn part(&mut self) {
        self.behind.clear();
        self.effects.retain(|effect| !matches!(effect, Effect::Say(_)));
        if self.force().is_some() {
            self.effects.push_back(Effect::Counts(false));
        }
    }

    fn write(&mut self, record: &Record, then: Then) {
        self.records += 1;
        self.awaited.push_back((self.records, then));
        self.effects.push_back(Effect::Write { number: self.records, record: record.encode() });
    }

    fn write_state(&mut self) {
        let (known, base) = (self.disk.known, self.disk.log.base());
        self.write(&Record::State { known, base }, Then::Nothing);
    }

    fn trim(&mut self, gone: Option<u64>) {
        gone.into_iter().for_each(|up_to| self.effects.push_back(Effect::Trim { up_to }));
    }

    /// The next entry of the log that counts.
    fn append(&mut self, item: Item) {
        let (term, index) = (item.0, self.disk.log.end() + 1);
        self.write(&Record::Entry { index, item: item.clone() }, Then::Synced { term, index });
        self.disk.push(self.records, item);
        if broken!(self, UnsyncedCounts) {
            self.say_synced(term, index);
        }
    }

    fn note_synced(&mut self, term: u64, copy: u16, index: u64) {
        //= RS20
        let needed = if broken!(self, MinorityCommits) { 1 } else { usize::from(self.settings.copies) / 2 + 1 };
        // What others send in a copy's name is no fact about a disk.
        let is_here = self.meeting.as_ref().is_some_and(|meeting| meeting.hello_of(copy).is_some());
        let Some(force) = self.force_mut().filter(|force| is_here && force.decision.term == term) else { return };
        let known = force.synced.entry(copy).or_default();
        *known = index.min(force.end).max(*known);
        let mut synced: Vec<_> = force.synced.values().copied().collect();
        synced.sort_unstable_by_key(|index| std::cmp::Reverse(*index));
        let committed = synced.get(needed - 1).copied().unwrap_or(0);
        self.committed = self.committed.max(committed);
        self.deliver();
    }

    /// Gives the machine what is committed, and what was sent behind it.
    fn deliver(&mut self) {
        if !self.force().is_some_and(|force| matches!(force.taking, Taking::Whole)) {
            return;
        }
        while self.applied < self.committed
            && let Some((_, bytes)) = self.disk.log.get(self.applied + 1)
        {
            self.applied += 1;
            let (at, next) = (Place::at(self.applied), Place::at(self.applied + 1));
            self.effects.push_back(Effect::Take { frame: bytes.clone(), at, next });
            self.deliver_behind();
        }
        self.deliver_behind();
    }

    fn deliver_behind(&mut self) {
        while self.behind.front().is_some_and(|(end, _)| *end <= self.applied)
            && let Some((_, frame)) = self.behind.pop_front()
        {
            let next = Place::at(self.applied + 1);
            self.effects.push_back(Effect::Take { frame, at: next, next });
        }
    }
}
