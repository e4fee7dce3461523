//! A client that reads by position: from the start, from anywhere, from where it or another was. It goes on when its node has
//! crashed, and now and then it does not read for a while, so that its node retains no more what it has yet to read.
use super::{MachineOutput, Whole, client_at, sum};
use crate::plan::RunPlan;
use crate::trace::{ReadingRecord, ReadingStep};
use consort_order::Engine;
use consort_session::{Message, Place, ReadingEnd, ReadingEndCause, ReadingStatus};
use consort_types::{Duration, Instant, NodeId, Rng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where the readers of all nodes go on: the order, and the first place that was not read.
#[derive(Clone, Debug, Default)]
pub struct Bookmarks(Rc<RefCell<BTreeMap<NodeId, (u64, Place)>>>);

impl Bookmarks {
    fn of(&self, node: NodeId) -> (u64, Place) {
        self.0.borrow().get(&node).copied().unwrap_or_default()
    }

    fn keep(&self, node: NodeId, bookmark: (u64, Place)) {
        self.0.borrow_mut().insert(node, bookmark);
    }
}

/// Between two deeds.
const EVERY: Duration = Duration::from_millis(150);

/// What the reader of a node does, and where it is.
#[derive(Debug)]
pub(super) struct Reader {
    /// Which client it is.
    pub seat: usize,
    node: NodeId,
    nodes: u16,
    rng: Rng,
    next: Instant,
    until: Instant,
    /// It does not read what there is.
    stalled: bool,
    welcome: bool,
    /// It waits for an answer.
    asks: bool,
    order: u64,
    bookmarks: Bookmarks,
}

/// What it is to do.
enum ReaderDeed {
    Read { order: u64, from: Place },
    Stall,
    GoOn,
}

impl Reader {
    pub fn new(plan: &RunPlan, node: NodeId, seat: usize, bookmarks: Bookmarks) -> Self {
        let rng = Rng::new(plan.seed).fork(0x4ead ^ u64::from(node.0) << 16);
        let (next, until, nodes) = (Instant::ZERO, plan.calm, plan.nodes);
        let (stalled, welcome, asks, order) = (false, false, false, 0);
        Self { seat, node, nodes, rng, next, until, stalled, welcome, asks, order, bookmarks }
    }

    pub fn is_stalled(&self, seat: usize) -> bool {
        self.stalled && self.seat == seat
    }

    fn deed(&mut self, now: Instant) -> Option<ReaderDeed> {
        let calm = now >= self.until;
        if now < self.next && !calm {
            return None;
        }
        if std::mem::take(&mut self.stalled) {
            return Some(ReaderDeed::GoOn);
        }
        if calm {
            return None;
        }
        self.next = now + Duration::from_nanos(self.rng.exponential(EVERY.as_nanos() as f64) as u64 + 1);
        match self.rng.below(8) {
            0..3 => {
                self.stalled = true;
                Some(ReaderDeed::Stall)
            }
            3..5 if self.welcome && !self.asks => Some(self.begin()),
            _ => None,
        }
    }

    /// Mostly where it was, or where another one was; else anywhere, also beyond the end.
    fn begin(&mut self) -> ReaderDeed {
        let (order, next) = self.bookmarks.of(self.node);
        let node = NodeId(self.rng.below(u64::from(self.nodes)) as u16);
        let (order, from) = match self.rng.below(8) {
            0..3 => (order, next),
            3 | 4 => self.bookmarks.of(node),
            5 => (0, Place::at(0)),
            6 => (0, Place::at(self.rng.below(next.position + 1))),
            _ => (order, Place::at(next.position + self.rng.below(200))),
        };
        ReaderDeed::Read { order, from }
    }

    /// All before this place was read.
    fn keep(&self, next: Place) {
        self.bookmarks.keep(self.node, (self.order, next));
    }
}

impl<E: Engine> Whole<E> {
    pub(super) fn pass_reader(&mut self, now: Instant) {
        let Some(reader) = self.reader.as_mut() else { return };
        let seat = reader.seat;
        match reader.deed(now) {
            Some(ReaderDeed::Read { order, from }) if !self.leaves => self.ask(order, from),
            Some(ReaderDeed::GoOn) => self.read(client_at(seat)),
            Some(ReaderDeed::Stall | ReaderDeed::Read { .. }) | None => {}
        }
    }

    pub(super) fn welcome_reader(&mut self, at: usize) {
        let Some(reader) = self.reader.as_mut().filter(|reader| reader.seat == at) else { return };
        reader.welcome = true;
        if let ReaderDeed::Read { order, from } = reader.begin() {
            self.ask(order, from);
        }
    }

    fn ask(&mut self, order: u64, from: Place) {
        let Some(reader) = self.reader.as_mut() else { return };
        reader.asks = true;
        let seat = reader.seat;
        self.seats[seat].client.read(order, from, std::slice::from_ref(&self.group));
        self.tell_reading(seat, ReadingStep::Asked, from, 0, 0, 0);
    }

    fn tell_reading(&mut self, at: usize, step: ReadingStep, place: Place, to: u64, sum: u64, oldest: u64) {
        let retained = self.node.engine().retained().map_or(0, |retained| retained.first.0);
        let read = ReadingRecord { step, at: place, to, sum, oldest, retained };
        self.acts.push_back(MachineOutput::Reading { client: at as u16, read });
    }

    /// A member was given a message of the group, with its place or without.
    pub(super) fn on_placed(&mut self, at: usize, message: &Message) {
        let Some(placement) = message.placement().filter(|_| self.reader.is_some()) else { return };
        let sum = sum(&message.clone().into_payload().into());
        self.tell_reading(at, ReadingStep::Placed, placement.place, 0, sum, 0);
    }

    pub(super) fn on_read(&mut self, at: usize, message: &Message) {
        let Some(placement) = message.placement() else { return };
        let sum = sum(&message.clone().into_payload().into());
        self.tell_reading(at, ReadingStep::Message, placement.place, 0, sum, 0);
        if let Some(reader) = &self.reader {
            reader.keep(placement.next);
        }
    }

    pub(super) fn on_reading(&mut self, at: usize, status: &ReadingStatus) {
        match *status {
            ReadingStatus::Began { order, from, oldest, newest } => {
                self.tell_reading(at, ReadingStep::Began, from, newest, order, oldest);
                let Some(reader) = self.reader.as_mut() else { return };
                (reader.asks, reader.order) = (false, order);
                reader.keep(from);
            }
            ReadingStatus::CaughtUp { position } => {
                self.tell_reading(at, ReadingStep::CaughtUp, Place::default(), position, 0, 0);
            }
            ReadingStatus::Lost { from, to } => {
                self.tell_reading(at, ReadingStep::Lost, Place::at(from), to, 0, 0);
            }
            // Only positions that last are read here.
            ReadingStatus::InView { .. } | ReadingStatus::Gap { .. } => {}
            ReadingStatus::Ended(ref end) => self.on_reading_end(at, end),
        }
    }

    /// What was refused is read from where it can be.
    fn on_reading_end(&mut self, at: usize, end: &ReadingEnd) {
        let ReadingEnd { cause, oldest, newest, .. } = *end;
        let (step, again) = match cause {
            ReadingEndCause::Trimmed => (ReadingStep::Trimmed, oldest),
            ReadingEndCause::BeyondEnd => (ReadingStep::BeyondEnd, 0),
            ReadingEndCause::Ended => {
                return self.tell_reading(at, ReadingStep::Ended, Place::default(), newest, 0, oldest);
            }
            _ => {
                let text = end.text.clone();
                return self.refuse(at, text);
            }
        };
        self.tell_reading(at, step, Place::default(), newest, 0, oldest);
        self.ask(0, Place::at(again));
    }
}
