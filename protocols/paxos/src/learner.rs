//! What is decided, and what follows from it: the same at every node, whoever reads it and when.
use crate::ballot::{Item, ValueId};
use crate::checkpoints::Declared;
#[cfg(feature = "mutants")]
use crate::checkpoints::Statement;
use consort_types::MemberId;
use consort_wire::pack::Body;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Payloads by name: of values that are not decided here.
pub type Pool = BTreeMap<ValueId, Body>;

/// One decided instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What stands there.
    pub item: Item,
    /// Its payload, where it has one.
    pub body: Option<Body>,
}

/// Who is there at a place of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The number of the view; 0 before the first.
    pub number: u64,
    /// Its members, each with the number of its last value that counted.
    pub last: BTreeMap<MemberId, u64>,
    /// Whether it was decided that all have installed it.
    pub primary: bool,
    /// Who was left out by a view and not let in again, each with the number of the last view it was in.
    pub away: BTreeMap<MemberId, u64>,
}

impl Present {
    /// Who is away once these are there. An incarnation that its node has ended never comes back.
    fn away_after(&self, there: &BTreeMap<MemberId, u64>) -> BTreeMap<MemberId, u64> {
        let left = self.last.keys().map(|member| (*member, self.number));
        let away = self.away.iter().map(|(member, number)| (*member, *number)).chain(left);
        let returns = |member: &MemberId| there.keys().any(|other| other.node == member.node && other >= member);
        away.filter(|(member, _)| !returns(member)).collect()
    }
}

/// What an instance turned out to mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Messages, the first of which has this place.
    Messages {
        /// The value they came in.
        id: ValueId,
        /// They.
        body: Body,
        /// The place of the first.
        place: u64,
    },
    /// A value that does not count.
    Void(ValueId),
    /// A new view.
    View {
        /// What it replaces.
        before: Present,
    },
    /// The view is primary.
    Primary,
    /// Nothing.
    Nothing,
}

/// What follows from the log below an instance: all that a reader must know that begins there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The instance: everything below is taken into account.
    pub at: u64,
    /// The place of the last message.
    pub place: u64,
    /// How many slots are filled or skipped.
    pub slots: u64,
    /// Who is there.
    pub present: Present,
    /// What programs keep by themselves.
    pub declared: Declared,
}

impl Checkpoint {
    /// Whether an item would have an effect here. A value counts where its sender is in the view it was sent in, that view
    /// is the current one, and its turn has come.
    pub fn counts(&self, item: &Item) -> bool {
        let present = &self.present;
        match item {
            //= X42
            Item::Value(id) => {
                let last = present.last.get(&id.sender).filter(|_| id.view == present.number);
                last.is_some_and(|last| id.number == *last + 1)
            }
            //= X43
            Item::View { after, .. } => *after == present.number,
            //= X47
            Item::Primary(number) => *number == present.number && !present.primary,
            Item::Skip(to) => *to > self.slots + 1,
            Item::Nothing | Item::Declare(_) => false,
        }
    }

    /// Takes the next instance into account. A value comes with its payload.
    pub fn apply(&mut self, item: Item, body: Option<Body>) -> Meaning {
        let counts = self.counts(&item);
        self.at += 1;
        //= X91
        match (item, body) {
            (Item::Value(id), Some(body)) if counts => self.on_value(id, body),
            (Item::Value(id), _) => Meaning::Void(id),
            (Item::View { number, members, .. }, _) if counts => {
                self.slots += 1;
                let last = members.into_iter().map(|member| (member, 0)).collect();
                let away = self.present.away_after(&last);
                let before = std::mem::replace(&mut self.present, Present { number, last, primary: false, away });
                Meaning::View { before }
            }
            (Item::Primary(_), _) if counts => {
                self.slots += 1;
                self.present.primary = true;
                Meaning::Primary
            }
            (Item::Declare(statement), _) => {
                //= X87
                self.declared.take(self.at, self.place, *statement);
                Meaning::Nothing
            }
            (Item::Skip(to), _) if counts => {
                self.slots = to - 1;
                Meaning::Nothing
            }
            _ => Meaning::Nothing,
        }
    }

    fn on_value(&mut self, id: ValueId, body: Body) -> Meaning {
        self.present.last.insert(id.sender, id.number);
        let (place, messages) = (self.place + 1, body.chunks().count() as u64);
        //= X46
        self.place += messages;
        self.slots += messages;
        Meaning::Messages { id, body, place }
    }
}

/// What an entry takes beside its payload, in bytes.
const ENTRY: usize = 128;

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY + self.body.as_ref().map_or(0, |body| body.as_bytes().len())
    }
}

/// The decided log, as far as it is retained, and the state that follows from it.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    /// Where the retained log begins.
    first: Checkpoint,
    log: VecDeque<Entry>,
    bytes: usize,
    ahead: BTreeMap<u64, Item>,
    /// Where it ends.
    head: Checkpoint,
    /// The last slot that was filled, by an entry read here.
    filled: u64,
    /// How many values did not count.
    pub voided: u64,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

impl Learner {
    /// Everything below is decided and known here.
    pub const fn next(&self) -> u64 {
        self.head.at
    }

    /// Where the retained log begins.
    pub const fn first(&self) -> &Checkpoint {
        &self.first
    }

    /// Where it ends.
    pub const fn head(&self) -> &Checkpoint {
        &self.head
    }

    /// The last slot that an item fills, of those read here: what was skipped behind it does not count. 0 before the first.
    pub const fn filled(&self) -> u64 {
        self.filled
    }

    /// Bytes of the retained log.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Who is there.
    pub const fn present(&self) -> &Present {
        &self.head.present
    }

    /// The place of the last message.
    pub const fn place(&self) -> u64 {
        self.head.place
    }

    /// What is known to be decided at an instance.
    pub fn decided(&self, at: u64) -> Option<&Item> {
        self.entry(at).map(|entry| &entry.item).or_else(|| self.ahead.get(&at))
    }

    /// What is retained at an instance.
    pub fn entry(&self, at: u64) -> Option<&Entry> {
        self.log.get(usize::try_from(at.checked_sub(self.first.at)?).ok()?)
    }

    /// Whether something is decided that cannot be taken yet.
    pub fn is_behind(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Values that are decided and not taken yet, whether they will count or not.
    pub fn ahead(&self) -> BTreeSet<ValueId> {
        self.ahead.values().filter_map(|item| if let Item::Value(id) = item { Some(*id) } else { None }).collect()
    }

    /// Notes that something is decided. Returns false where something else is known to be. What is not retained any more is
    /// not compared.
    pub fn decide(&mut self, at: u64, item: Item) -> bool {
        if let Some(known) = self.decided(at) {
            return *known == item;
        }
        if at >= self.next() {
            self.ahead.insert(at, item);
        }
        true
    }

    /// Takes the next instance, if it is decided and its payload is held, which is asked for by name.
    pub fn take(&mut self, payload: impl Fn(&ValueId) -> Option<Body>) -> Option<(u64, Meaning)> {
        //= X40
        let at = self.next();
        let body = match self.ahead.get(&at)? {
            // What came with it in one read is not retained with it.
            Item::Value(id) => Some(payload(id)?.in_its_own_memory()),
            _ => None,
        };
        let item = self.ahead.remove(&at)?;
        let entry = Entry { item: item.clone(), body: body.clone() };
        self.bytes += entry.bytes();
        self.log.push_back(entry);
        #[cfg(feature = "mutants")]
        let item = self.misread(item);
        let meaning = self.head.apply(item, body);
        match meaning {
            Meaning::Void(_) => self.voided += 1,
            Meaning::Messages { .. } | Meaning::View { .. } | Meaning::Primary => self.filled = self.head.slots,
            Meaning::Nothing => {}
        }
        Some((at, meaning))
    }

    /// Takes a value for one that counts, where a rule is broken on purpose.
    #[cfg(feature = "mutants")]
    fn misread(&mut self, item: Item) -> Item {
        let mut id = match item {
            Item::Value(id) => id,
            Item::Declare(statement) => return Item::Declare(Box::new(self.misread_statement(*statement))),
            _ => return item,
        };
        if crate::mutated!(self, AnyViewCounts) {
            id.view = self.present().number;
        }
        let (skips, repeats) = (crate::mutated!(self, AnyTurnCounts), crate::mutated!(self, DuplicatesCount));
        let current = id.view == self.present().number;
        if let Some(last) = self.head.present.last.get_mut(&id.sender).filter(|_| current)
            && (skips && id.number > *last || repeats && id.number <= *last)
        {
            *last = id.number - 1;
        }
        Item::Value(id)
    }

    /// Takes a statement for one that counts, or for another, where a rule is broken on purpose.
    #[cfg(feature = "mutants")]
    fn misread_statement(&self, mut statement: Statement) -> Statement {
        let epoch_now = self.head.declared.epoch(statement.holder());
        let program = self.head.declared.program(statement.holder());
        match &mut statement {
            Statement::Bind(bind) => {
                if crate::mutated!(self, BindsAnyTime) {
                    bind.replaces = epoch_now;
                }
                let known = program.and_then(|program| program.seats().get(&bind.holder)?.bound.as_ref());
                if let Some(known) = known.filter(|_| crate::mutated!(self, BindsUpwards)) {
                    bind.from = bind.from.max(known.from);
                }
            }
            Statement::Declare { epoch, .. } if crate::mutated!(self, EpochsIgnored) => *epoch = epoch_now,
            Statement::Declare { .. } => {}
        }
        statement
    }

    /// Retains nothing below an instance.
    pub fn trim(&mut self, to: u64) {
        //= X80
        while self.first.at < to {
            let Some(entry) = self.log.pop_front() else { return };
            self.bytes -= entry.bytes();
            self.first.apply(entry.item, entry.body);
        }
    }

    /// The first instance from which on at most so many bytes are retained.
    pub fn within(&self, bytes: usize) -> u64 {
        let (mut at, mut left) = (self.first.at, self.bytes);
        for entry in &self.log {
            if left <= bytes {
                break;
            }
            left -= entry.bytes();
            at += 1;
        }
        at
    }

    /// Nothing that is not taken yet is known to be decided: this reader takes up another log.
    pub fn forget_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Goes on at a checkpoint that lies ahead; nothing before it is known any more.
    pub fn jump(&mut self, to: Checkpoint) {
        //= X82
        self.ahead = self.ahead.split_off(&to.at);
        self.log.clear();
        (self.bytes, self.filled) = (0, 0);
        self.head = to.clone();
        self.first = to;
    }
}
