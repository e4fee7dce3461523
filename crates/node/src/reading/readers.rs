//! Who reads by position, and how far each is.
use consort_session::{Place, ReadRequest};
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
pub(crate) enum Stage {
    /// Not answered yet; once the order is known not to reach so far, only until then.
    Asked {
        until: Option<Instant>,
    },
    Begun,
    Live,
}

/// What a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For its turn.
    Turn,
    /// For more to stand in the order.
    Order,
    /// For its client to read.
    Room,
}

/// One client's reading.
#[derive(Debug)]
pub(crate) struct Reader {
    pub groups: Vec<GroupName>,
    /// The order it was asked for, and is in once it has begun.
    pub order: u64,
    /// The first that was not told.
    pub next: Place,
    pub stage: Stage,
    waits: Waits,
    /// The groups as they were when its rights were looked at.
    pub seen_groups: Option<u64>,
}

impl Reader {
    pub fn new(request: &ReadRequest, groups: Vec<GroupName>) -> Self {
        let stage = Stage::Asked { until: None };
        Self { groups, order: request.order, next: request.from, stage, waits: Waits::Turn, seen_groups: None }
    }

    /// Whether it still waits for what is beyond the end. Begins to count the time.
    pub fn is_patient(&mut self, now: Instant) -> bool {
        let Stage::Asked { until } = &mut self.stage else { return false };
        now < *until.get_or_insert(now + PATIENCE)
    }
}

/// All readings of a node.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    all: BTreeMap<ClientId, Reader>,
    /// Whose turn comes next.
    turns: VecDeque<ClientId>,
    /// What stood in the order, and whether the node was settled, when those that wait for it were woken last.
    seen: (Option<u64>, bool),
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
    pub fn insert(&mut self, client: ClientId, reader: Reader) {
        self.all.insert(client, reader);
        self.turns.push_back(client);
    }

    pub fn remove(&mut self, client: ClientId) -> Option<Reader> {
        let reader = self.all.remove(&client)?;
        if reader.waits == Waits::Turn {
            self.turns.retain(|other| *other != client);
        }
        Some(reader)
    }

    pub fn get_mut(&mut self, client: ClientId) -> Option<&mut Reader> {
        self.all.get_mut(&client)
    }

    /// Whether it is somebody's turn, or will be once those that wait are woken.
    pub fn has_turn(&self, order: (Option<u64>, bool)) -> bool {
        !self.turns.is_empty() || self.seen != order && self.all.values().any(|reader| reader.waits == Waits::Order)
    }

    /// When the patience of the first one ends that waits for what is beyond the end.
    pub fn next_impatient(&self) -> Option<Instant> {
        let patient = self.all.values().filter(|reader| reader.waits == Waits::Order);
        patient.filter_map(|reader| if let Stage::Asked { until } = reader.stage { until } else { None }).min()
    }

    /// Has those go on that wait for more in the order, if there is.
    pub fn wake(&mut self, now: Instant, order: (Option<u64>, bool)) {
        let grew = std::mem::replace(&mut self.seen, order) != order;
        if !grew && self.next_impatient().is_none_or(|at| at > now) {
            return;
        }
        for (client, reader) in self.all.iter_mut().filter(|(_, reader)| reader.waits == Waits::Order) {
            reader.waits = Waits::Turn;
            self.turns.push_back(*client);
        }
    }

    /// Has a client go on that waits for room in its output.
    pub fn has_room(&mut self, client: ClientId) {
        let Some(reader) = self.all.get_mut(&client).filter(|reader| reader.waits == Waits::Room) else { return };
        reader.waits = Waits::Turn;
        self.turns.push_back(client);
    }

    pub fn next_turn(&mut self) -> Option<ClientId> {
        self.turns.pop_front()
    }

    /// Its turn is over.
    pub fn waits(&mut self, client: ClientId, waits: Waits) {
        let Some(reader) = self.all.get_mut(&client) else { return };
        reader.waits = waits;
        if waits == Waits::Turn {
            self.turns.push_back(client);
        }
    }

    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("readers", self.len() as u64);
        see("messages_read", self.messages);
    }
}
