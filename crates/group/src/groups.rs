//! The state machine: ordered payloads and views in, recipients and changes out.
pub mod apply;
mod multicast;
mod views;

use self::apply::{Announcement, PendingWork};
use crate::digest_check::{DigestCheck, Mismatch, StateDigest};
use crate::exchange::Exchange;
use crate::keys::KeyMessage;
use crate::member::{ClientName, GroupViewId, Member};
use crate::ordered::{self, MulticastLayout, Ordered};
use crate::producers::{CountsWhen, HistoryPlace, NumberRefused, Numbered, OpenRefused, Opened, Producers};
use crate::set_hash;
use crate::spread_limits::NotRepresentable;
use crate::table::{ClientKey, GroupTable};
use bytes::BytesMut;
use consort_types::{ClientId, GroupName, MemberId, Position, Primary, ViewId};
use consort_wire::{Malformed, Payload};
use std::collections::{BTreeMap, VecDeque};

/// The groups as one daemon knows them. After the same payloads and views every daemon of a view knows the same.
///
/// After each [`Self::deliver`] and [`Self::install`] call [`Self::advance`](Self::advance) until `None`, and only then hand
/// the next payload or view in; many groups may change at once, and the caller decides how many it handles before it does
/// something else. Then [`Self::next_part`] until `None`; each part is to be ordered. Clients' messages may be sent once
/// [`Self::is_settled`].
#[derive(Debug)]
pub struct Groups {
    pub(crate) table: GroupTable,
    /// The last regular view, and its members.
    pub(crate) view: ViewId,
    pub(crate) members: Vec<MemberId>,
    /// Whether the view is primary, at this place of the order.
    pub(crate) primary: Primary,
    /// The joins, leaves and disconnects in it that changed anything.
    pub(crate) changes: u64,
    /// Who has the same table, ascending.
    pub(crate) synced: Vec<MemberId>,
    exchange: Option<Exchange>,
    /// The view goes on with another's history.
    took_history: bool,
    pub(crate) producers: Producers,
    /// Members that departed and of whom no group view told yet.
    pub(crate) departed: BTreeMap<GroupName, Vec<Member>>,
    pub(crate) settled: bool,
    /// While a view is closing: who moves along.
    pub(crate) closing: Option<Vec<MemberId>>,
    pub(crate) work: VecDeque<PendingWork>,
    pub(crate) announcement: Announcement,
    /// This daemon's clients by what they are called.
    names: BTreeMap<ClientName, ClientId>,
    recipients: Vec<ClientId>,
    /// The last payload that was taken.
    pub(crate) at: Position,
    pub(crate) digest_check: DigestCheck,
    counts: GroupCounts,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::Mutant>,
    #[cfg(feature = "mutants")]
    kept: Option<crate::exchange::ReceivedState>,
}

#[derive(Debug, Default)]
struct GroupCounts {
    exchanges: u64,
    parts_broken: u64,
    early: u64,
}

/// The highest bit of the numbers that changes get while a view is closing, and of engines' positions there. Behind it stand 31 bits for who moves along:
/// those that part may be given other changes, which must not go by the same name.
const CLOSING: u64 = 1 << 63;

/// What an ordered payload meant here.
#[derive(Debug, PartialEq, Eq)]
pub enum GroupDelivery<'a> {
    /// A client's message, or several as a batch.
    Multicast {
        /// Who sent it.
        client: ClientId,
        /// How many.
        messages: usize,
        /// What stands where.
        told: MulticastLayout,
        /// The number of the message, or of the first one of a batch, if a producer sent it.
        numbered: Option<Numbered>,
        /// This daemon's clients that get it, each once.
        recipients: &'a [ClientId],
    },
    /// A client's message or batch that nobody gets, for it names a closed group that the client is not in.
    Shut {
        /// Who sent it.
        client: ClientId,
        /// How many messages.
        messages: usize,
        /// The group.
        group: GroupName,
    },
    /// A client's message or batch that nobody gets, for one of its receivers could not be told.
    NotRepresentable {
        /// Who sent it.
        client: ClientId,
        /// How many messages.
        messages: usize,
        /// Why not.
        cause: NotRepresentable,
        /// The receiver, which speaks Spread.
        member: Member,
    },
    /// A producer's message or batch that nobody gets, for it does not follow its last one.
    NotNumbered {
        /// Who sent it.
        client: ClientId,
        /// How many messages.
        messages: usize,
        /// Why not.
        cause: NumberRefused,
    },
    /// A client opened a producer, or did not.
    Opened {
        /// Which client.
        client: ClientId,
        /// What is known of it.
        opened: Result<Opened, OpenRefused>,
    },
    /// A client joined, left or is gone; [`Groups::advance`] tells what follows from it.
    Changes {
        /// Which one.
        client: ClientId,
        /// What it asked for, unless it is gone.
        asked: Option<Asked>,
    },
    /// Clients read these groups, somewhere: what is sent to them is to be retained.
    Reads(Vec<GroupName>),
    /// A part of the exchange.
    Part,
    /// What daemons say of producers.
    Completed,
    /// A message that says nothing.
    Confirm,
    /// A client does not read, or reads again.
    Hold {
        /// Which one.
        client: ClientId,
        /// Where the list of those stands to whom nothing is to be sent until it reads; `None` if it does again.
        targets_at: Option<usize>,
    },
    /// What a daemon says of keys.
    Keys(KeyMessage),
}

/// What a client asked for by a join or a leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The group it named.
    pub group: GroupName,
    /// Set where nothing follows.
    pub ignored: Option<Ignored>,
}

/// Why a join or leave changed nothing; the same at every daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is in the group already.
    AlreadyMember,
    /// It is not in the group.
    NotMember,
    /// It is in [`Groups::PER_CLIENT`] groups.
    TooManyGroups,
    /// All groups together take [`Groups::BUDGET`] bytes.
    Full,
}

impl Groups {
    //= G08
    /// In how many groups one client may be. Part of the protocol: every daemon must ignore the same joins.
    pub const PER_CLIENT: usize = 1 << 17;

    /// How many bytes all groups may take before joins are ignored: 192 and twice its name for each group, 96 for each
    /// membership. Part of the protocol, too.
    pub const BUDGET: usize = 256 << 20;

    /// The table of a daemon that has seen nothing yet.
    pub fn new(me: MemberId) -> Self {
        Self {
            table: GroupTable::new(me),
            view: ViewId::default(),
            members: Vec::new(),
            primary: Primary::NoPolicy,
            changes: 0,
            synced: vec![me],
            exchange: None,
            took_history: false,
            producers: Producers::default(),
            departed: BTreeMap::new(),
            settled: false,
            closing: None,
            work: VecDeque::new(),
            announcement: Announcement::default(),
            names: BTreeMap::new(),
            recipients: Vec::new(),
            at: Position::default(),
            digest_check: DigestCheck::default(),
            counts: GroupCounts::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
            #[cfg(feature = "mutants")]
            kept: None,
        }
    }

    /// Breaks a rule from here on.
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: crate::Mutant) {
        self.mutant = Some(mutant);
        self.table.mutant = Some(mutant);
        self.producers.mutant = Some(mutant);
    }

    /// From here on [`Self::take_local_changes`] tells which groups have members here.
    pub fn watch_local(&mut self) {
        self.table.watch_local();
    }

    /// Groups that have got their first member here, or lost their last one, since this was asked last; in their order.
    pub fn take_local_changes(&mut self) -> Vec<(GroupName, bool)> {
        self.table.take_local_changes()
    }

    /// A client of this daemon is called so from here on; false if another one is.
    pub fn enter(&mut self, client: ClientId, name: &ClientName) -> bool {
        //= G06
        if self.names.contains_key(name) {
            return false;
        }
        self.names.insert(name.clone(), client);
        true
    }

    /// A client of this daemon that chose no name gets one that is free, and is called so from here on.
    pub fn enter_unnamed(&mut self, client: ClientId) -> ClientName {
        //= S04
        let mut number = client.0;
        loop {
            let name = ClientName::unchosen(ClientId(number));
            if self.enter(client, &name) {
                return name;
            }
            number = number.wrapping_add(1);
        }
    }

    /// A client of this daemon is not called so any more. Its memberships end where its disconnect is ordered.
    pub fn exit(&mut self, client: ClientId, name: &ClientName) {
        if self.names.get(name) == Some(&client) {
            self.names.remove(name);
        }
    }

    /// This daemon's client of that name.
    pub fn called(&self, name: &str) -> Option<ClientId> {
        self.names.get(name).copied()
    }

    /// The next payload of the order, and where it stands in it.
    ///
    /// # Errors
    /// [`Malformed`] where the payload is none that a daemon writes; nothing changed, here as everywhere.
    pub fn deliver(
        &mut self,
        sender: MemberId,
        at: Position,
        payload: &Payload,
    ) -> Result<GroupDelivery<'_>, Malformed> {
        //= G01
        debug_assert!(!self.has_work(), "changes are told before the next payload");
        self.at = at;
        let ordered = ordered::decode(payload);
        if matches!(&ordered, Ok(Ordered::Part(_))) || (ordered.is_err() && payload.first() == Some(ordered::PART)) {
            return self.on_part(sender, ordered);
        }
        let ordered = ordered?;
        // What daemons say of producers concerns no group, and may have waited since the view before.
        let of_clients = !matches!(
            ordered,
            Ordered::Complete(_) | Ordered::Confirm | Ordered::Reads(_) | Ordered::Hold { .. } | Ordered::Keys(_)
        );
        self.counts.early += u64::from(of_clients && !self.settled);
        match ordered {
            Ordered::Multicast { client, told, numbered } => {
                self.on_multicast((sender, client), payload, told, numbered)
            }
            Ordered::Join { client, name, group, closed } => {
                let ignored = self.on_join((sender, client), name, &group, closed).err();
                Ok(GroupDelivery::Changes { client, asked: Some(Asked { group, ignored }) })
            }
            Ordered::Leave { client, group } => {
                let ignored = self.on_leave((sender, client), &group).err();
                Ok(GroupDelivery::Changes { client, asked: Some(Asked { group, ignored }) })
            }
            Ordered::Disconnect { client } => {
                self.on_disconnect((sender, client));
                Ok(GroupDelivery::Changes { client, asked: None })
            }
            Ordered::Part(_) => Ok(GroupDelivery::Part),
            Ordered::Open { client, request } => {
                let opened = self.producers.open(&request, self.place());
                Ok(GroupDelivery::Opened { client, opened })
            }
            Ordered::Forget { producer, at, .. } => {
                self.producers.forget(producer, at);
                Ok(GroupDelivery::Part)
            }
            Ordered::Complete(_) if self.closing.is_some() && crate::mutated!(self, ClosingCompletesMissed) => {
                Ok(GroupDelivery::Completed)
            }
            Ordered::Complete(view) => {
                self.producers.on_complete(sender, view);
                Ok(GroupDelivery::Completed)
            }
            Ordered::Confirm => Ok(GroupDelivery::Confirm),
            Ordered::Reads(groups) => Ok(GroupDelivery::Reads(groups)),
            Ordered::Hold { client, targets_at } => Ok(GroupDelivery::Hold { client, targets_at }),
            Ordered::Keys(said) => Ok(GroupDelivery::Keys(said)),
        }
    }

    /// The place of the payload that was taken last. It is one for all: engines may mark the positions of what they deliver
    /// while the view is closing, which others had delivered before.
    pub const fn place(&self) -> HistoryPlace {
        //= E02
        HistoryPlace { view: self.view.number, at: Position(self.at.0 & !CLOSING) }
    }

    /// The producers as they stand at this place of the order.
    pub const fn producers(&self) -> &Producers {
        &self.producers
    }

    /// So many daemons are configured; until that is known no view counts for producers. All views are in `one_order`, or
    /// parts of the network may have their own.
    pub const fn configure(&mut self, nodes: usize, one_order: bool) {
        self.producers.configure(nodes, one_order);
    }

    /// Whether the view that is on counts for producers, or what they wait for.
    pub fn counts_when(&self) -> CountsWhen {
        match self.closing {
            None => self.producers.counts_when(self.primary, self.settled),
            Some(_) if self.primary == Primary::NoPolicy => CountsWhen::NoPolicy,
            Some(_) => CountsWhen::Completed,
        }
    }

    /// Whether [`Self::advance`] has something to do.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    fn on_join(&mut self, key: ClientKey, name: ClientName, group: &GroupName, closed: bool) -> Result<(), Ignored> {
        //= G04
        let client = self.table.client(key);
        if client.is_some_and(|client| client.groups.contains(group)) {
            if crate::mutated!(self, JoinsCounted) && key.0 == self.table.me() {
                self.changes += 1;
            }
            return Err(Ignored::AlreadyMember);
        }
        //= G08
        if client.is_some_and(|client| client.groups.len() >= Self::PER_CLIENT) {
            return Err(Ignored::TooManyGroups);
        }
        if self.table.bytes() + self.table.cost(group) > Self::BUDGET {
            return Err(Ignored::Full);
        }
        let name = client.map_or(name, |client| client.name.clone());
        let member = Member { daemon: key.0, client: key.1, name };
        self.changes += 1;
        self.work.push_back(PendingWork::Join { group: group.clone(), member, closed });
        Ok(())
    }

    fn on_leave(&mut self, key: ClientKey, group: &GroupName) -> Result<(), Ignored> {
        //= G04
        let client = self.table.client(key).filter(|client| client.groups.contains(group));
        client.ok_or(Ignored::NotMember)?;
        self.changes += 1;
        self.work.push_back(PendingWork::Leave { group: group.clone(), key });
        Ok(())
    }

    fn on_disconnect(&mut self, key: ClientKey) {
        if crate::mutated!(self, DisconnectForgotten) {
            return;
        }
        if let Some(client) = self.table.take_client(key) {
            self.changes += 1;
            self.work.push_back(PendingWork::Disconnect { key, groups: client.groups.into_iter() });
        }
    }

    /// How the membership that a join, leave or disconnect makes is named.
    pub(crate) fn present(&self) -> GroupViewId {
        //= G02
        let parted = self
            .closing
            .as_deref()
            .map_or(0, |along| CLOSING | u64::from(set_hash::of_members(along) as u32 >> 1) << 32);
        GroupViewId { view: self.view, change: parted | self.changes }
    }

    /// Appends what this daemon wants its beacons to carry, once it is settled: where it stands and the hash of its table.
    pub fn put_state_digest(&self, out: &mut BytesMut) {
        //= G31
        let settled = self.settled && self.closing.is_none() && !self.has_work();
        if let Some(digest) = self.digest_check.state_digest(self.at).filter(|_| settled) {
            digest.put(out);
        }
    }

    /// What another daemon's beacon carried. Returns who has another table, where that shows now.
    ///
    /// # Errors
    /// [`Malformed`] where it is no digest.
    pub fn on_digest(&mut self, from: MemberId, annotation: &[u8]) -> Result<Option<Mismatch>, Malformed> {
        //= G31
        if from != self.table.me() {
            self.digest_check.on_digest(from, StateDigest::decode(annotation)?);
        }
        Ok(if self.is_settled() { self.digest_check.check(self.at) } else { None })
    }

    /// The members of a group, if it has any.
    pub fn members(&self, group: &[u8]) -> Option<&[Member]> {
        self.table.find(group).map(|group| &group.members[..])
    }

    /// Whether a group is closed.
    pub fn is_closed(&self, group: &[u8]) -> bool {
        self.table.find(group).is_some_and(|group| group.closed)
    }

    /// The groups behind this name in the order of names, each with whether it is closed; all where there is none.
    pub fn after(&self, name: Option<&GroupName>) -> impl Iterator<Item = (&GroupName, bool, &[Member])> {
        self.table.all_after(name).map(|group| (&group.name, group.closed, &group.members[..]))
    }

    /// Whether a client is a member of a group.
    pub fn is_in(&self, client: (MemberId, ClientId), group: &GroupName) -> bool {
        self.table.client(client).is_some_and(|client| client.groups.contains(group))
    }

    /// The groups of a client, by name.
    pub fn groups_of(&self, client: (MemberId, ClientId)) -> impl Iterator<Item = &GroupName> {
        self.table.client(client).into_iter().flat_map(|client| &client.groups)
    }

    /// In how many groups a client is.
    pub fn memberships(&self, client: (MemberId, ClientId)) -> usize {
        self.table.client(client).map_or(0, |client| client.groups.len())
    }

    /// All groups by name, with what names their membership.
    pub fn all(&self) -> impl Iterator<Item = (&GroupName, GroupViewId, &[Member])> {
        self.table.all().map(|group| (&group.name, group.id, &group.members[..]))
    }

    /// The daemons that are known to have the same table, ascending.
    pub fn synced(&self) -> &[MemberId] {
        &self.synced
    }

    /// A number that is the same for the same table.
    pub const fn hash(&self) -> u64 {
        self.table.sum()
    }

    /// What the groups take, in bytes, as [`Self::BUDGET`] counts it.
    pub const fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// How many groups have members.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no group has members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters and gauges by name.
    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("groups", self.len() as u64);
        see("group_bytes", self.bytes() as u64);
        see("group_exchanges", self.counts.exchanges);
        see("group_parts_broken", self.counts.parts_broken);
        see("group_early_messages", self.counts.early);
        see("producers", self.producers.len() as u64);
        see("counts_for_producers", u64::from(self.counts_when() == CountsWhen::Now));
        see("group_hashes_compared", self.digest_check.compared);
        see("group_hash_mismatches", self.digest_check.mismatches);
    }
}
