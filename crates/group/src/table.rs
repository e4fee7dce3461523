//! The state machine: ordered payloads and views in, recipients and changes out.
use crate::member::{Cause, ClientName, GroupViewId, Member};
use crate::ordered::{self, Ordered, PREFIX_LEN};
use crate::recent::Recent;
use crate::targets::Targets;
use bytes::Bytes;
use consort_types::{ClientId, GroupName, MemberId, View, ViewId, ViewKind};
use consort_wire::{Malformed, Payload};
use std::collections::{BTreeMap, BTreeSet};

/// The groups as one daemon knows them. After the same payloads and views every daemon knows the same.
///
/// After each [`Self::deliver`] and [`Self::install`] call [`Self::next_change`] until `None`; many groups may change at
/// once, and the caller decides how many it handles before it does something else.
#[derive(Debug)]
pub struct Groups {
    me: MemberId,
    view: ViewId,
    changes: u64,
    index: BTreeMap<Box<[u8]>, u32>,
    groups: Vec<Group>,
    free: Vec<u32>,
    clients: BTreeMap<Key, Client>,
    recent: Recent,
    recipients: Vec<ClientId>,
    pending: Option<Pending>,
    changed: Changed,
}

type Key = (MemberId, ClientId);

#[derive(Debug)]
struct Client {
    name: ClientName,
    groups: BTreeSet<u32>,
}

#[derive(Debug)]
struct Group {
    name: GroupName,
    id: GroupViewId,
    members: Vec<Member>,
    local: Vec<ClientId>,
}

/// What is still to be changed, group by group.
#[derive(Debug)]
struct Pending {
    groups: std::vec::IntoIter<u32>,
    cause: Cause,
    who: Who,
}

#[derive(Debug)]
enum Who {
    Client(Member),
    AllBut(Vec<MemberId>),
}

/// The last change, kept so that it can be lent out.
#[derive(Debug, Default)]
struct Changed {
    who: Vec<Member>,
    notify: Vec<ClientId>,
}

/// What an ordered payload meant here.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivered<'a> {
    /// A client's message. What its receivers need starts at [`PREFIX_LEN`].
    Multicast {
        /// Who sent it.
        client: ClientId,
        /// This daemon's clients that get it, each once.
        recipients: &'a [ClientId],
    },
    /// A client joined, left or is gone; [`Groups::next_change`] tells what follows from it.
    Changes {
        /// Which one.
        client: ClientId,
        /// What it asked for, unless it is gone.
        asked: Option<Asked>,
    },
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
}

/// One change of one group.
#[derive(Debug)]
pub struct Change<'a> {
    /// Which group.
    pub group: &'a GroupName,
    /// Names the membership that holds from here on.
    pub id: GroupViewId,
    /// Who is in the group now.
    pub members: &'a [Member],
    /// Why it changed.
    pub cause: Cause,
    /// Who came or went.
    pub who: &'a [Member],
    /// This daemon's clients that are to know: its members, and who left by its own wish.
    pub notify: &'a [ClientId],
}

impl Groups {
    /// In how many groups one client may be. Part of the protocol: every daemon must ignore the same joins.
    pub const PER_CLIENT: usize = 1 << 17;

    /// The table of a daemon that has seen nothing yet.
    pub fn new(me: MemberId) -> Self {
        Self {
            me,
            view: ViewId::default(),
            changes: 0,
            index: BTreeMap::new(),
            groups: Vec::new(),
            free: Vec::new(),
            clients: BTreeMap::new(),
            recent: Recent::new(),
            recipients: Vec::new(),
            pending: None,
            changed: Changed::default(),
        }
    }

    /// The next payload of the order.
    ///
    /// # Errors
    /// [`Malformed`] where the payload is none that a daemon writes; nothing changed, here as everywhere.
    pub fn deliver(&mut self, sender: MemberId, payload: &Payload) -> Result<Delivered<'_>, Malformed> {
        debug_assert!(!self.has_changes(), "changes are drained before the next payload");
        let (client, ordered) = ordered::decode(payload)?;
        let key = (sender, client);
        match ordered {
            Ordered::Multicast => {
                Targets::of(payload, PREFIX_LEN, |targets| self.find_recipients(targets))?;
                Ok(Delivered::Multicast { client, recipients: &self.recipients })
            }
            Ordered::Join { name, group } => {
                let ignored = self.on_join(key, name, &group).err();
                Ok(Delivered::Changes { client, asked: Some(Asked { group, ignored }) })
            }
            Ordered::Leave { group } => {
                let ignored = self.on_leave(key, &group).err();
                Ok(Delivered::Changes { client, asked: Some(Asked { group, ignored }) })
            }
            Ordered::Disconnect => {
                self.on_disconnect(key);
                Ok(Delivered::Changes { client, asked: None })
            }
        }
    }

    /// A view was installed. Clients of daemons that are not in a regular one are gone with it.
    pub fn install(&mut self, view: &View) {
        debug_assert!(!self.has_changes(), "changes are drained before the next view");
        if view.kind == ViewKind::Transitional {
            return;
        }
        self.view = view.id;
        self.changes = 0;
        let mut emptied: Vec<u32> = Vec::new();
        self.clients.retain(|(daemon, _), client| {
            let stays = view.members.contains(daemon);
            if !stays {
                emptied.extend(&client.groups);
            }
            stays
        });
        emptied.sort_unstable();
        emptied.dedup();
        self.begin(emptied, Cause::Network, Who::AllBut(view.members.clone()));
    }

    /// Makes the next change and tells of it; `None` when all are made.
    pub fn next_change(&mut self) -> Option<Change<'_>> {
        let pending = self.pending.as_mut()?;
        let Some(index) = pending.groups.next() else {
            self.pending = None;
            return None;
        };
        self.changes += 1;
        let group = &mut self.groups[index as usize];
        group.id = GroupViewId { view: self.view, change: self.changes };
        self.changed.apply(group, pending, self.me);
        if !group.is_open() {
            self.index.remove(group.name.as_bytes());
            self.free.push(index);
        }
        let Changed { who, notify } = &self.changed;
        Some(Change { group: &group.name, id: group.id, members: &group.members, cause: pending.cause, who, notify })
    }

    /// Whether [`Self::next_change`] has something to make.
    pub fn has_changes(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.groups.len() > 0)
    }

    /// The members of a group, if it has any.
    pub fn members(&self, group: &[u8]) -> Option<&[Member]> {
        self.find(group).map(|index| &self.groups[index as usize].members[..])
    }

    /// All groups by name, with what names their membership.
    pub fn all(&self) -> impl Iterator<Item = (&GroupName, GroupViewId, &[Member])> {
        let group = |(_, index): (_, &u32)| &self.groups[*index as usize];
        self.index.iter().map(group).map(|group| (&group.name, group.id, &group.members[..]))
    }

    /// What this daemon's clients are in, as joins to be ordered once more: for those that came from elsewhere and do not
    /// know. Where it is known already a join changes nothing.
    pub fn own_joins(&self) -> impl Iterator<Item = Bytes> {
        let own = self.clients.iter().filter(|((daemon, _), _)| *daemon == self.me);
        own.flat_map(|((_, id), client)| {
            client.groups.iter().map(|index| ordered::join(*id, &client.name, &self.groups[*index as usize].name))
        })
    }

    /// How many groups have members.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no group has members.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn find_recipients(&mut self, targets: Targets<'_>) {
        self.recipients.clear();
        for name in targets.names() {
            if let Some(index) = self.look_up(name) {
                self.recipients.extend_from_slice(&self.groups[index as usize].local);
            }
        }
        if targets.count() > 1 {
            self.recipients.sort_unstable();
            self.recipients.dedup();
        }
    }

    fn look_up(&mut self, name: &[u8]) -> Option<u32> {
        let guess = self.recent.guess(name);
        if self.groups.get(guess as usize).is_some_and(|group| group.name.as_bytes() == name && group.is_open()) {
            return Some(guess);
        }
        let index = self.find(name)?;
        self.recent.remember(&self.groups[index as usize].name, index);
        Some(index)
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.get(name).copied()
    }

    fn on_join(&mut self, key: Key, name: ClientName, group: &GroupName) -> Result<(), Ignored> {
        let client = self.clients.entry(key).or_insert_with(|| Client { name, groups: BTreeSet::new() });
        if client.groups.len() >= Self::PER_CLIENT {
            return Err(Ignored::TooManyGroups);
        }
        let member = Member { daemon: key.0, client: key.1, name: client.name.clone() };
        let index = self.find(group.as_bytes()).unwrap_or_else(|| self.open(group));
        let joined = self.clients.get_mut(&key).is_some_and(|client| client.groups.insert(index));
        if !joined {
            return Err(Ignored::AlreadyMember);
        }
        self.begin(vec![index], Cause::Join, Who::Client(member));
        Ok(())
    }

    fn on_leave(&mut self, key: Key, group: &GroupName) -> Result<(), Ignored> {
        let index = self.find(group.as_bytes()).ok_or(Ignored::NotMember)?;
        let client = self.clients.get_mut(&key).filter(|client| client.groups.contains(&index));
        let client = client.ok_or(Ignored::NotMember)?;
        client.groups.remove(&index);
        let member = Member { daemon: key.0, client: key.1, name: client.name.clone() };
        if client.groups.is_empty() {
            self.clients.remove(&key);
        }
        self.begin(vec![index], Cause::Leave, Who::Client(member));
        Ok(())
    }

    fn on_disconnect(&mut self, key: Key) {
        if let Some(client) = self.clients.remove(&key) {
            let member = Member { daemon: key.0, client: key.1, name: client.name };
            self.begin(client.groups.into_iter().collect(), Cause::Disconnect, Who::Client(member));
        }
    }

    fn begin(&mut self, groups: Vec<u32>, cause: Cause, who: Who) {
        self.pending = Some(Pending { groups: groups.into_iter(), cause, who });
    }

    fn open(&mut self, name: &GroupName) -> u32 {
        let id = GroupViewId::default();
        let group = Group { name: name.clone(), id, members: Vec::new(), local: Vec::new() };
        let index = self.free.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(index as usize) {
            Some(closed) => *closed = group,
            None => self.groups.push(group),
        }
        self.index.insert(name.as_bytes().into(), index);
        index
    }
}

impl Group {
    /// A group without members is nowhere to be found; its place waits for another.
    const fn is_open(&self) -> bool {
        !self.members.is_empty()
    }

    fn insert(&mut self, member: &Member, me: MemberId) {
        if let Err(at) = self.members.binary_search_by_key(&member.key(), Member::key) {
            self.members.insert(at, member.clone());
            if member.daemon == me {
                self.local.push(member.client);
            }
        }
    }

    fn remove(&mut self, member: &Member, me: MemberId) {
        if let Ok(at) = self.members.binary_search_by_key(&member.key(), Member::key) {
            self.members.remove(at);
            if member.daemon == me {
                self.local.retain(|client| *client != member.client);
            }
        }
    }
}

impl Changed {
    fn apply(&mut self, group: &mut Group, pending: &Pending, me: MemberId) {
        self.who.clear();
        self.notify.clear();
        match &pending.who {
            Who::Client(member) if pending.cause == Cause::Join => {
                group.insert(member, me);
                self.who.push(member.clone());
            }
            Who::Client(member) => {
                group.remove(member, me);
                self.who.push(member.clone());
                if pending.cause == Cause::Leave && member.daemon == me {
                    self.notify.push(member.client);
                }
            }
            Who::AllBut(view) => {
                let gone = group.members.extract_if(.., |member| !view.contains(&member.daemon));
                self.who.extend(gone);
                group.local.retain(|_| view.contains(&me));
            }
        }
        self.notify.extend_from_slice(&group.local);
    }
}
