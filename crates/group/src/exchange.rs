//! How daemons that meet tell each other what their clients are in: nothing of it touches the table before all of it is
//! there.
use crate::member::{GroupViewId, Member};
use crate::part::{PartWriter, ProducersPart, StateEntry, StatePart};
use crate::producers::{ProducerId, Producers, TakenTable};
use crate::table::GroupTable;
use bytes::Bytes;
use consort_types::{GroupName, MemberId, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// How many groups are looked through for one part.
const SCAN: usize = 4_096;

/// One exchange, in one view.
#[derive(Debug)]
pub(crate) struct Exchange {
    view: ViewId,
    /// The lowest daemon of this daemon's synced set.
    set: MemberId,
    /// Who has not said everything yet, and the number of its next part.
    awaited: BTreeMap<MemberId, u32>,
    received: ReceivedState,
    outgoing: Option<OwnParts>,
}

/// What the parts said so far.
#[derive(Debug, Default)]
pub(crate) struct ReceivedState {
    pub groups: BTreeMap<GroupName, Staged>,
    /// Each daemon's synced set, by its lowest.
    pub sets: BTreeMap<MemberId, MemberId>,
    /// What the lowest of each synced set says of producers.
    tables: BTreeMap<MemberId, HeardTable>,
    /// Who was in a view that counted.
    remembering: BTreeSet<MemberId>,
}

/// A table of producers, as far as it was heard.
#[derive(Debug, Default)]
struct HeardTable {
    table: TakenTable,
    /// All of it was.
    whole: bool,
}

/// What daemons of other synced sets say of one group.
#[derive(Debug)]
pub(crate) struct Staged {
    pub id: GroupViewId,
    pub closed: bool,
    /// Members departed since its last group view, in some set.
    pub departed: bool,
    /// It has members of more than one of those sets.
    pub several: bool,
    pub members: Vec<Member>,
    set: MemberId,
}

/// How far this daemon's own parts are.
#[derive(Debug, Default)]
struct OwnParts {
    number: u32,
    /// The producers are told before the groups: up to this one they are.
    producers: Option<ProducersTold>,
    after: Option<GroupName>,
    /// How many clients of the next group were told already.
    told: usize,
}

/// How far the producers are told.
#[derive(Clone, Copy, Debug, Default)]
struct ProducersTold(Option<ProducerId>);

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOutcome {
    /// It was next.
    Well,
    /// It has no meaning here.
    Foreign,
    /// It was not its sender's next: the sender is not listened to any more.
    Broken,
}

impl Exchange {
    /// The exchange of a view with these members, at a daemon of the synced set whose lowest is `set`; `speaks` if
    /// it is that one itself and has a table of producers.
    pub fn new(view: ViewId, members: &[MemberId], set: MemberId, speaks: bool) -> Self {
        let awaited = members.iter().map(|member| (*member, 0)).collect();
        let outgoing = OwnParts { producers: speaks.then(ProducersTold::default), ..OwnParts::default() };
        Self { view, set, awaited, received: ReceivedState::default(), outgoing: Some(outgoing) }
    }

    /// A part of a member; `synced` if it is one of whom all is known.
    pub fn take(&mut self, sender: MemberId, part: StatePart, synced: bool) -> PartOutcome {
        //= G15
        if part.view != self.view {
            return PartOutcome::Foreign;
        }
        let Some(next) = self.awaited.get_mut(&sender) else { return PartOutcome::Broken };
        let set = *self.received.sets.entry(sender).or_insert(part.set);
        let of_others = part.producers.is_some() && sender != set;
        if part.number != *next || part.set != set || part.set > sender || of_others {
            self.awaited.remove(&sender);
            return PartOutcome::Broken;
        }
        *next += 1;
        if part.last {
            self.awaited.remove(&sender);
        }
        if part.remembers {
            self.received.remembering.insert(sender);
        }
        if sender == set {
            self.received.hear(set, part.producers, part.last, synced);
        }
        if !synced {
            part.entries.into_iter().for_each(|entry| self.received.add(sender, set, entry));
        }
        PartOutcome::Well
    }

    /// What a sender says cannot be read: it is not listened to any more.
    pub fn give_up(&mut self, sender: MemberId) {
        self.awaited.remove(&sender);
    }

    /// What was heard, once everybody has said everything.
    pub fn complete(&mut self) -> Option<ReceivedState> {
        //= G16
        self.awaited.is_empty().then(|| std::mem::take(&mut self.received))
    }

    /// This daemon's next part, if there is one.
    pub fn next_part(
        &mut self,
        table: &GroupTable,
        producers: &Producers,
        is_departed: impl Fn(&GroupName) -> bool,
    ) -> Option<Bytes> {
        //= G14
        let outgoing = self.outgoing.as_mut()?;
        let mut writer = PartWriter::new(self.view, self.set, outgoing.number);
        if producers.remembers(table.me()) {
            writer.remembers();
        }
        if let Some(told) = outgoing.producers {
            outgoing.producers = told.fill(&mut writer, producers);
            outgoing.number += 1;
            return Some(writer.finish(false));
        }
        #[cfg(feature = "mutants")]
        if crate::mutated!(table, PartsNotSplit) {
            writer.overflow();
        }
        let done = outgoing.fill(&mut writer, table, is_departed);
        outgoing.number += 1;
        if done {
            self.outgoing = None;
        }
        Some(writer.finish(done))
    }

    /// Whether there is a next part.
    pub const fn has_part(&self) -> bool {
        self.outgoing.is_some()
    }

    #[cfg(feature = "mutants")]
    pub fn into_heard(self) -> ReceivedState {
        self.received
    }

    #[cfg(feature = "mutants")]
    pub fn keep(&mut self, heard: ReceivedState) {
        self.received.groups = heard.groups;
    }
}

impl ProducersTold {
    /// Writes what fits; `None` once all are told.
    fn fill(self, writer: &mut PartWriter, producers: &Producers) -> Option<Self> {
        //= E07
        writer.of_producers(producers.of());
        let mut last = self.0;
        for (producer, record) in producers.after(self.0) {
            if !writer.producer(producer, record) {
                return Some(Self(last));
            }
            last = Some(producer);
        }
        None
    }
}

impl OwnParts {
    /// Writes what fits; true once everything is written.
    fn fill(&mut self, writer: &mut PartWriter, table: &GroupTable, is_departed: impl Fn(&GroupName) -> bool) -> bool {
        for _ in 0..SCAN {
            let Some(group) = table.after(self.after.as_ref()) else { return true };
            let own = &group.local[self.told..];
            if !own.is_empty() && !writer.group(&group.name, group.closed, is_departed(&group.name), group.id) {
                return false;
            }
            let name = |client| table.client((table.me(), client)).map(|client| &client.name);
            let fits = |client: &&_| name(**client).is_none_or(|name| writer.client(**client, name));
            let told = own.iter().take_while(fits).count();
            if told < own.len() {
                self.told += told;
                return false;
            }
            (self.after, self.told) = (Some(group.name.clone()), 0);
        }
        false
    }
}

impl ReceivedState {
    /// What the lowest daemon of a synced set says of producers.
    fn hear(&mut self, set: MemberId, part: Option<ProducersPart>, last: bool, synced: bool) {
        let heard = self.tables.entry(set).or_default();
        heard.whole |= last;
        if let Some(ProducersPart { of, records }) = part {
            heard.table.of = of;
            // This daemon's own table says the same.
            heard.table.records.extend(records.into_iter().filter(|_| !synced));
        }
    }

    /// The table of producers to go on with, where it is not the one of the set whose lowest is `own`; and the
    /// members that remember: they were in a view that counted, and what their set knows was understood. A mutant has
    /// the lowest daemon's taken (`lowest`), whatever it is of.
    pub fn choose(&mut self, own: MemberId, lowest: bool) -> (Option<TakenTable>, BTreeSet<MemberId>) {
        //= E07
        let mut tables = std::mem::take(&mut self.tables);
        tables.retain(|_, heard| heard.whole);
        let remembers = |set: &&MemberId| tables.get(*set).is_some_and(|heard| heard.table.of.is_some());
        let mut remembering = std::mem::take(&mut self.remembering);
        //= E08
        remembering.retain(|member| self.sets.get(member).filter(remembers).is_some());
        // Of several, the lowest daemon's.
        let best = tables.iter().rev().max_by_key(|(_, heard)| heard.table.of.filter(|_| !lowest)).map(|(set, _)| *set);
        let taken = match best {
            Some(set) if set == own => None,
            Some(set) => tables.remove(&set).map(|heard| heard.table),
            None => Some(TakenTable::default()),
        };
        (taken, remembering)
    }

    fn add(&mut self, sender: MemberId, set: MemberId, entry: StateEntry) {
        let StateEntry { group, closed, departed, id, clients } = entry;
        let fresh = || Staged { id, closed, departed, several: false, members: Vec::new(), set };
        let staged = self.groups.entry(group).or_insert_with(fresh);
        staged.closed |= closed;
        staged.departed |= departed;
        staged.several |= staged.set != set;
        let member = |(client, name)| Member { daemon: sender, client, name };
        staged.members.extend(clients.into_iter().map(member));
    }
}
