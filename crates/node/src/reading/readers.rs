//! Who reads by position, and how far each is.
use super::retention::LocalPlace;
use consort_session::{Place, ReadRequest, ViewTrail};
use consort_types::{ClientId, Duration, GroupName, Instant};
use std::collections::{BTreeMap, VecDeque};

/// So many bytes at most are told in one slice, beside what members are told: each message that is looked at counts, too.
const SLICE: usize = 64 << 10;
/// How long a position may be beyond the end of what this node knows: others may know more already.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far a reading is.
///
/// | from | to | when |
/// |---|---|---|
/// | `Asked` | `Begun` | the node has an order, and the place is in it |
/// | `Begun` | `Live` | all there is was told, and that it was |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadingStage {
    /// Not answered yet; once the order is known not to reach so far, only until then.
    Asked {
        until: Option<Instant>,
    },
    Begun,
    Live,
}

/// What a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderWait {
    /// For its turn.
    Turn,
    /// For more to stand in the order.
    Order,
    /// For its client to read.
    Room,
}

/// One client's reading.
#[derive(Debug)]
pub(crate) struct PositionReader {
    pub groups: Vec<GroupName>,
    /// The order it was asked for, and is in once it has begun.
    pub order: u64,
    /// The first that was not told.
    pub next: Place,
    pub stage: ReadingStage,
    /// Where positions belong to views: what it knows of them, and, once it has begun, its place in this node's history, the
    /// view it knows itself in, and whether it knows how that is closed.
    pub trail: Option<Box<ViewTrail>>,
    pub at: LocalPlace,
    pub told_view: u64,
    pub told_closing: bool,
    waits: ReaderWait,
    /// The groups and the rules as they were when its rights were looked at.
    pub seen_groups: Option<(u64, u64)>,
}

impl PositionReader {
    pub fn new(request: &ReadRequest, groups: Vec<GroupName>) -> Self {
        let stage = ReadingStage::Asked { until: None };
        let (order, next, trail) = (request.order, request.from, request.trail.clone());
        let (at, waits) = (LocalPlace::default(), ReaderWait::Turn);
        Self { groups, order, next, stage, trail, at, told_view: 0, told_closing: false, waits, seen_groups: None }
    }

    /// Until when it waits for what is beyond the end; the time is counted from the first call.
    fn patient_until(&mut self, now: Instant) -> Option<Instant> {
        let ReadingStage::Asked { until } = &mut self.stage else { return None };
        Some(*until.get_or_insert(now + PATIENCE)).filter(|until| now < *until)
    }
}

/// All readings of a node.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    all: BTreeMap<ClientId, PositionReader>,
    /// Whose turn comes next.
    turns: VecDeque<ClientId>,
    /// What stood in the order, and whether the node was settled, when those that wait for it were woken last.
    seen: (Option<u64>, bool),
    /// When the patience ends, or has ended, of the first one that waits for what is beyond the end.
    patience: Option<Instant>,
    spent: usize,
    /// How many messages were read.
    pub messages: u64,
}

impl Readers {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A new input came: a new slice.
    pub const fn begin(&mut self) {
        self.spent = 0;
    }

    /// So many bytes were looked at or told.
    pub const fn spend(&mut self, bytes: usize) {
        self.spent += bytes;
    }

    /// Whether something may be read in this slice.
    pub const fn may_read(&self) -> bool {
        self.spent < SLICE
    }

    /// How much more may be.
    pub const fn left(&self) -> usize {
        SLICE.saturating_sub(self.spent)
    }

    /// A client begins to read. Its turn comes.
    pub fn insert(&mut self, client: ClientId, reader: PositionReader) {
        self.all.insert(client, reader);
        self.turns.push_back(client);
    }

    pub fn remove(&mut self, client: ClientId) -> Option<PositionReader> {
        let reader = self.all.remove(&client)?;
        if reader.waits == ReaderWait::Turn {
            self.turns.retain(|other| *other != client);
        }
        Some(reader)
    }

    /// The groups that are read, some of them more than once.
    pub fn groups(&self) -> impl Iterator<Item = &GroupName> {
        self.all.values().flat_map(|reader| &reader.groups)
    }

    pub fn get_mut(&mut self, client: ClientId) -> Option<&mut PositionReader> {
        self.all.get_mut(&client)
    }

    /// The first position that a reading which has begun has yet to be told.
    pub fn first_unread(&self) -> Option<u64> {
        let begun = |reader: &&PositionReader| !matches!(reader.stage, ReadingStage::Asked { .. });
        self.all.values().filter(begun).map(|reader| reader.next.position).min()
    }

    /// Whether it is somebody's turn, or will be once those that wait are woken.
    pub fn has_turn(&self, order: (Option<u64>, bool)) -> bool {
        !self.turns.is_empty()
            || self.seen != order && self.all.values().any(|reader| reader.waits == ReaderWait::Order)
    }

    /// When the patience of the first one ends that waits for what is beyond the end.
    pub fn next_impatient(&self) -> Option<Instant> {
        self.patience.filter(|_| !self.all.is_empty())
    }

    /// Whether a client still waits for what is beyond the end.
    pub fn is_patient(&mut self, client: ClientId, now: Instant) -> bool {
        let until = self.all.get_mut(&client).and_then(|reader| reader.patient_until(now));
        self.patience = self.patience.into_iter().chain(until).min();
        until.is_some()
    }

    /// Has those go on that wait for more in the order, if there is, or whose patience has ended.
    pub fn wake(&mut self, now: Instant, order: (Option<u64>, bool)) {
        let grew = std::mem::replace(&mut self.seen, order) != order;
        let late = self.patience.take_if(|until| *until <= now).is_some();
        if !grew && !late {
            return;
        }
        for (client, reader) in self.all.iter_mut().filter(|(_, reader)| reader.waits == ReaderWait::Order) {
            reader.waits = ReaderWait::Turn;
            self.turns.push_back(*client);
        }
    }

    /// The rules have changed: all look whether they may go on.
    pub fn look_again(&mut self) {
        for (client, reader) in self.all.iter_mut().filter(|(_, reader)| reader.waits == ReaderWait::Order) {
            reader.waits = ReaderWait::Turn;
            self.turns.push_back(*client);
        }
    }

    /// Has a client go on that waits for room in its output.
    pub fn has_room(&mut self, client: ClientId) {
        let Some(reader) = self.all.get_mut(&client).filter(|reader| reader.waits == ReaderWait::Room) else { return };
        reader.waits = ReaderWait::Turn;
        self.turns.push_back(client);
    }

    pub fn next_turn(&mut self) -> Option<ClientId> {
        self.turns.pop_front()
    }

    /// Its turn is over.
    pub fn waits(&mut self, client: ClientId, waits: ReaderWait) {
        let Some(reader) = self.all.get_mut(&client) else { return };
        reader.waits = waits;
        if waits == ReaderWait::Turn {
            self.turns.push_back(client);
        }
    }

    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("readers", self.len() as u64);
        see("messages_read", self.messages);
    }
}
