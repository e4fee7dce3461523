//! A replica on an order that lasts: messages of the log in, effects out. It has no clock, no thread, no socket and no file.
//!
//! The log is the history. What the machine is at a position follows from the log up to there alone, so there is no
//! election, and no replica waits for another one: each consumes the log from its checkpoint on.
use super::origins::{Epoch, Origins};
use crate::frame::Frame;
use crate::line::Origin;
use crate::shared::CutId;
use bytes::Bytes;
use consort::Place;
use std::collections::{BTreeMap, VecDeque};

#[cfg(any(test, feature = "mutants"))]
use super::broken::Mutant;

/// Whether a rule is broken on purpose, for a test.
macro_rules! broken {
    ($engine:expr, $mutant:ident) => {{
        #[cfg(any(test, feature = "mutants"))]
        let broken = $engine.broken == Some(Mutant::$mutant);
        #[cfg(not(any(test, feature = "mutants")))]
        let broken = false;
        broken
    }};
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To the group, without a number of a session.
    Send(Frame),
    /// The machine's next command, the `at`-th of the history; `own` is its number where it was called here.
    Apply { at: u64, own: Option<u64>, body: Bytes },
    /// An own mark was passed: the machine has all that was answered before it was sent.
    Passed { mark: u64 },
    /// Machines of several groups are looked at here.
    Cut(CutId),
    /// Whether this own command has counted is not known, or its response is lost: the state came with a checkpoint.
    Lost { number: u64, applied: bool },
    /// All that was in the log when this replica began is applied, and its commands count from now on.
    Serves,
}

/// How far the state is, and who numbers commands in it: what a checkpoint has in front of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The first position of the log that is not in the state.
    pub next: Place,
    /// How many commands have counted.
    pub applied: u64,
    pub origins: Origins,
}

/// Where the opening of this replica's origin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// It is to be sent, or under way.
    Awaited,
    /// It was applied: commands are sent under this epoch.
    Applied(Epoch),
}

/// One replica.
#[derive(Clone, Debug)]
pub struct Engine {
    progress: Progress,
    origin: Origin,
    opening: Opening,
    /// Commands called before this origin was opened: the number of a command minus this is its number in the log.
    before: u64,
    /// The number of the last command that was called.
    called: u64,
    /// Own commands that were not applied, by number.
    unapplied: BTreeMap<u64, Bytes>,
    /// Names its marks: the first origin, whatever its commands are numbered under now.
    reader: Origin,
    /// The last mark that was sent; its frame has this number.
    mark: u64,
    mark_waits: bool,
    connected: bool,
    effects: VecDeque<Effect>,
    #[cfg(any(test, feature = "mutants"))]
    broken: Option<Mutant>,
}

impl Engine {
    /// One whose machine is as this says, and which numbers commands under a new origin.
    pub fn new(origin: Origin, progress: Progress) -> Self {
        Self {
            progress,
            origin,
            opening: Opening::Awaited,
            before: 0,
            called: 0,
            unapplied: BTreeMap::new(),
            reader: origin,
            mark: 0,
            mark_waits: false,
            connected: false,
            effects: VecDeque::new(),
            #[cfg(any(test, feature = "mutants"))]
            broken: None,
        }
    }

    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether its commands count, and all that was answered before it began is applied.
    pub const fn serves(&self) -> bool {
        matches!(self.opening, Opening::Applied(_))
    }

    /// A command of this replica; returns its number. It is sent once the opening was applied here.
    pub fn call(&mut self, body: Bytes) -> u64 {
        self.called += 1;
        self.unapplied.insert(self.called, body);
        self.send_command(self.called);
        self.called
    }

    /// Reads wait; returns the number of their mark.
    pub fn send_mark(&mut self) -> u64 {
        self.mark += 1;
        self.mark_waits = true;
        if self.connected {
            self.effects.push_back(Effect::Send(Frame::Mark { origin: self.reader, number: self.mark }));
        }
        self.mark
    }

    /// Whether a reader here waits for this mark.
    pub fn is_own_mark(&self, frame: &Frame) -> bool {
        matches!(frame, Frame::Mark { origin, .. } if *origin == self.reader)
    }

    /// What is sent from now on may be ordered: the copy is bound, and the log is consumed from [`Progress::next`] on.
    /// Everything of unknown fate is sent again, in its order and with the same numbers.
    pub fn on_connected(&mut self) {
        //= RS07
        self.connected = true;
        match self.opening {
            Opening::Awaited => self.effects.push_back(Effect::Send(Frame::Open { origin: self.origin })),
            Opening::Applied(_) if broken!(self, UnsentAgain) => {}
            Opening::Applied(_) => self.send_unapplied(),
        }
        if self.mark_waits && !broken!(self, MarksUnsent) {
            self.effects.push_back(Effect::Send(Frame::Mark { origin: self.reader, number: self.mark }));
        }
    }

    /// What was sent may be ordered or not.
    pub fn on_lost(&mut self) {
        self.connected = false;
        self.effects.retain(|effect| !matches!(effect, Effect::Send(_)));
    }

    /// The next message of the group, its position, and the position behind it.
    pub fn on_frame(&mut self, frame: Frame, at: Place, next: Place) {
        //= RS01
        if at < self.progress.next && !broken!(self, ReadTwice) {
            return;
        }
        self.progress.next = next;
        match frame {
            Frame::Open { origin } => self.on_opening(origin, at),
            Frame::Numbered { origin, epoch, number, body } => self.on_command((origin, epoch, number), body, at),
            Frame::Mark { origin, number } if origin == self.reader => {
                self.mark_waits &= number != self.mark;
                self.effects.push_back(Effect::Passed { mark: number });
            }
            Frame::Cut { origin, number } => self.effects.push_back(Effect::Cut((origin, number))),
            _ => {}
        }
    }

    /// Nothing of the group is between the state and this position.
    pub fn on_nothing_before(&mut self, next: Place) {
        self.progress.next = self.progress.next.max(next);
    }

    fn on_opening(&mut self, origin: Origin, at: Place) {
        #[cfg(any(test, feature = "mutants"))]
        self.open_wrongly(origin, at);
        self.progress.origins.open(origin, at);
        match self.progress.origins.epoch(self.origin) {
            Some(epoch) if self.opening == Opening::Awaited => self.serve(epoch),
            None if self.serves() && !broken!(self, ForgottenGoesOn) => self.begin_again(),
            _ => {}
        }
    }

    /// Its opening is in the state.
    fn serve(&mut self, epoch: Epoch) {
        self.opening = Opening::Applied(epoch);
        self.effects.push_back(Effect::Serves);
        self.send_unapplied();
    }

    /// Its origin is forgotten for another. No command of it can count any more, and all that did is applied here: the
    /// rest is numbered again under a new origin.
    fn begin_again(&mut self) {
        //= RS07
        self.origin = Origin(self.origin.0.wrapping_add(1));
        self.opening = Opening::Awaited;
        if !broken!(self, NumbersGoOn) {
            self.before = self.unapplied.keys().next().map_or(self.called, |first| first - 1);
        }
        if self.connected {
            self.effects.push_back(Effect::Send(Frame::Open { origin: self.origin }));
        }
    }

    fn on_command(&mut self, (origin, epoch, number): (Origin, Epoch, u64), body: Bytes, at: Place) {
        #[cfg(any(test, feature = "mutants"))]
        let epoch = self.count_wrongly(origin, epoch, number, at);
        if !self.progress.origins.count(origin, epoch, number, at) {
            return;
        }
        self.progress.applied += 1;
        let own = (origin == self.origin).then_some(number + self.before);
        own.into_iter().for_each(|own| drop(self.unapplied.remove(&own)));
        self.effects.push_back(Effect::Apply { at: self.progress.applied, own, body });
    }

    /// The machine took a later state, made by others. Those of its commands that are in it had its effect there.
    pub fn on_checkpoint(&mut self, progress: Progress) {
        //= RS07
        self.progress = progress;
        let Opening::Applied(epoch) = self.opening else { return self.open_behind() };
        let last = self.progress.origins.last(self.origin, epoch);
        let known = last.map_or(u64::MAX, |last| last + self.before);
        let is_lost = |number: &u64| *number <= known && !broken!(self, LostAsUnsent);
        let lost: Vec<_> = self.unapplied.keys().copied().take_while(is_lost).collect();
        for number in lost {
            self.unapplied.remove(&number);
            if last.is_none() && broken!(self, UnknownForgotten) {
                continue;
            }
            self.effects.push_back(Effect::Lost { number, applied: last.is_some() });
        }
        if last.is_none() {
            self.begin_again();
        }
    }

    /// The opening that was sent may be in another's state already, and even forgotten there.
    fn open_behind(&mut self) {
        match self.progress.origins.epoch(self.origin) {
            Some(epoch) => self.serve(epoch),
            None if self.connected => self.effects.push_back(Effect::Send(Frame::Open { origin: self.origin })),
            None => {}
        }
    }

    fn send_unapplied(&mut self) {
        let numbers: Vec<_> = self.unapplied.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.send_command(number));
    }

    fn send_command(&mut self, number: u64) {
        //= RS06
        if let (Opening::Applied(epoch), true, Some(body)) = (self.opening, self.connected, self.unapplied.get(&number))
        {
            let (origin, number, body) = (self.origin, number - self.before, body.clone());
            self.effects.push_back(Effect::Send(Frame::Numbered { origin, epoch, number, body }));
        }
    }

    /// Breaks a rule.
    #[cfg(any(test, feature = "mutants"))]
    pub fn with_broken(mut self, broken: Option<Mutant>) -> Self {
        self.broken = broken;
        self
    }

    /// Breaks a rule of opening.
    #[cfg(any(test, feature = "mutants"))]
    fn open_wrongly(&mut self, origin: Origin, at: Place) {
        let origins = &mut self.progress.origins;
        match self.broken {
            Some(Mutant::OpeningRenews) => origins.forget(origin),
            Some(Mutant::NewestForgotten) if origins.is_full() => {
                origins.newest(at).into_iter().for_each(|newest| origins.forget(newest));
            }
            _ => {}
        }
    }

    /// Breaks a rule of counting; returns the epoch that is judged by.
    #[cfg(any(test, feature = "mutants"))]
    fn count_wrongly(&mut self, origin: Origin, epoch: Epoch, number: u64, at: Place) -> Epoch {
        let origins = &mut self.progress.origins;
        if self.broken == Some(Mutant::OpeningsImplicit) && origins.epoch(origin).is_none() {
            origins.open(origin, at);
            origins.set_last(origin, number - 1);
        }
        let known = origins.epoch(origin);
        let last = known.and_then(|known| origins.last(origin, known)).unwrap_or(0);
        if known == Some(epoch) {
            match self.broken {
                Some(Mutant::GapsTaken) if number > last => origins.set_last(origin, number - 1),
                Some(Mutant::CopiesTaken) if number == last => origins.set_last(origin, number - 1),
                _ => {}
            }
        }
        let ignores = matches!(self.broken, Some(Mutant::EpochsIgnored | Mutant::OpeningsImplicit));
        known.filter(|_| ignores).unwrap_or(epoch)
    }
}
