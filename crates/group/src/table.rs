//! Who is in which group: nothing but the table, its sum and its size.
use crate::member::{ClientName, GroupViewId, Member};
use crate::recent::Recent;
use crate::set_hash;
use consort_types::{ClientId, GroupName, MemberId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What a group takes beside twice its name, in bytes.
const GROUP_COST: usize = 192;
/// What a membership takes, in bytes.
const MEMBER_COST: usize = 96;

/// A client of any daemon.
pub(crate) type ClientKey = (MemberId, ClientId);

/// All groups that have members, and all clients that are in any.
#[derive(Debug)]
pub(crate) struct GroupTable {
    me: MemberId,
    index: BTreeMap<GroupName, u32>,
    groups: Vec<GroupRecord>,
    free: Vec<u32>,
    clients: BTreeMap<ClientKey, ClientEntry>,
    recent: Recent,
    sum: u64,
    bytes: usize,
    /// Groups that have got their first member here, or lost their last one, where somebody watches that.
    local_changes: Option<Vec<(GroupName, bool)>>,
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

/// A client, and what it is in.
#[derive(Debug)]
pub(crate) struct ClientEntry {
    pub name: ClientName,
    pub groups: BTreeSet<GroupName>,
}

/// A group. One without members is nowhere to be found; its place waits for another.
#[derive(Debug)]
pub(crate) struct GroupRecord {
    pub name: GroupName,
    pub id: GroupViewId,
    pub closed: bool,
    /// This daemon's members were told last that they are in the primary view. No part of what daemons agree on.
    pub told_primary: bool,
    pub members: Vec<Member>,
    /// This daemon's clients among the members, as they came.
    pub local: Vec<ClientId>,
}

impl GroupTable {
    pub fn new(me: MemberId) -> Self {
        let (index, clients) = Default::default();
        let (groups, free) = (Vec::new(), Vec::new());
        Self {
            me,
            index,
            groups,
            free,
            clients,
            recent: Recent::new(),
            sum: 0,
            bytes: 0,
            local_changes: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Whose table it is.
    pub const fn me(&self) -> MemberId {
        self.me
    }

    /// How many groups have members.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The sum over everything.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// What the table takes, as budgets count it.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the table look as large as a test wants it.
    #[cfg(test)]
    pub const fn burden(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// What one more membership would take.
    pub fn cost(&self, group: &GroupName) -> usize {
        MEMBER_COST + if self.index.contains_key(group) { 0 } else { group_cost(group) }
    }

    pub fn find(&self, name: &[u8]) -> Option<&GroupRecord> {
        self.place(name).map(|at| &self.groups[at as usize])
    }

    /// The same for the way of every message: guesses first.
    pub fn look_up(&mut self, name: &[u8]) -> Option<&GroupRecord> {
        let guess = self.recent.guess(name);
        let is_it = |group: &GroupRecord| group.name.as_bytes() == name && !group.members.is_empty();
        if self.groups.get(guess as usize).is_some_and(is_it) {
            return self.groups.get(guess as usize);
        }
        let at = self.place(name)?;
        let group = &self.groups[at as usize];
        self.recent.remember(&group.name, at);
        Some(group)
    }

    fn place(&self, name: &[u8]) -> Option<u32> {
        self.index.get(std::str::from_utf8(name).ok()?).copied()
    }

    /// The first group behind this name, in the order of names; the very first where there is none.
    pub fn after(&self, name: Option<&GroupName>) -> Option<&GroupRecord> {
        self.all_after(name).next()
    }

    /// The groups behind this name, in the order of names; all of them where there is none.
    pub fn all_after(&self, name: Option<&GroupName>) -> impl Iterator<Item = &GroupRecord> {
        let from = name.map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_str()));
        self.index.range::<str, _>((from, Bound::Unbounded)).map(|(_, at)| &self.groups[*at as usize])
    }

    /// All groups by name.
    pub fn all(&self) -> impl Iterator<Item = &GroupRecord> {
        self.index.values().map(|at| &self.groups[*at as usize])
    }

    pub fn client(&self, key: ClientKey) -> Option<&ClientEntry> {
        self.clients.get(&key)
    }

    /// Adds a membership. A group without members is opened, with the name of no group view.
    pub fn insert(&mut self, group: &GroupName, member: &Member) -> bool {
        let name = || member.name.clone();
        let client = self.clients.entry(member.key());
        let client = client.or_insert_with(|| ClientEntry { name: name(), groups: BTreeSet::new() });
        if !client.groups.insert(group.clone()) {
            return false;
        }
        let at = self.place(group.as_bytes()).unwrap_or_else(|| self.open(group));
        let local = member.daemon == self.me;
        self.groups[at as usize].insert(member, local);
        if local && self.groups[at as usize].local.len() == 1 {
            self.note_local(group, true);
        }
        if !(local && crate::mutated!(self, JoinUnhashed)) {
            self.sum = self.sum.wrapping_add(set_hash::of_membership(group, member));
        }
        self.bytes += MEMBER_COST;
        true
    }

    /// Takes a membership out, and the group with its last. Answers who that was.
    pub fn remove(&mut self, group: &GroupName, key: ClientKey) -> Option<Member> {
        let client = self.clients.get_mut(&key)?;
        if !client.groups.remove(group) {
            return None;
        }
        if client.groups.is_empty() {
            self.clients.remove(&key);
        }
        self.drop_member(group, key)
    }

    /// Takes a client out whole; its memberships are still to be dropped one by one.
    pub fn take_client(&mut self, key: ClientKey) -> Option<ClientEntry> {
        self.clients.remove(&key)
    }

    /// Takes the clients of all daemons out but of these; their memberships are still to be dropped.
    pub fn take_clients_but(&mut self, stay: &[MemberId]) -> Vec<(ClientKey, ClientEntry)> {
        let gone: Vec<_> = self.clients.keys().filter(|(daemon, _)| !stay.contains(daemon)).copied().collect();
        gone.into_iter().filter_map(|key| Some((key, self.clients.remove(&key)?))).collect()
    }

    /// Drops the membership of a client that was taken out.
    pub fn drop_member(&mut self, name: &GroupName, key: ClientKey) -> Option<Member> {
        let at = self.place(name.as_bytes())?;
        let group = &mut self.groups[at as usize];
        let local = key.0 == self.me && !crate::mutated!(self, LeaverServed);
        let member = group.remove(key, local)?;
        let emptied = local && group.local.is_empty();
        let without_members = group.members.is_empty();
        let (id, closed) = (group.id, group.closed);
        if emptied {
            self.note_local(name, false);
        }
        self.sum = self.sum.wrapping_sub(set_hash::of_membership(name, &member));
        self.bytes -= MEMBER_COST;
        if without_members {
            self.sum = self.sum.wrapping_sub(set_hash::of_group(name, id, closed));
            self.bytes -= group_cost(name);
            self.index.remove(name);
            self.free.push(at);
        }
        Some(member)
    }

    /// From here on it is noted which groups have members here.
    pub fn watch_local(&mut self) {
        let with_members = self.all().filter(|group| !group.local.is_empty());
        self.local_changes = Some(with_members.map(|group| (group.name.clone(), true)).collect());
    }

    /// Takes what was noted.
    pub fn take_local_changes(&mut self) -> Vec<(GroupName, bool)> {
        self.local_changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note_local(&mut self, group: &GroupName, joined: bool) {
        if let Some(changes) = &mut self.local_changes {
            changes.push((group.clone(), joined));
        }
    }

    /// Gives a group's membership its name, and says whether it is closed.
    pub fn mark(&mut self, name: &GroupName, id: GroupViewId, closed: bool) {
        let Some(at) = self.place(name.as_bytes()) else { return };
        let group = &mut self.groups[at as usize];
        let before = set_hash::of_group(name, group.id, group.closed);
        (group.id, group.closed) = (id, closed);
        self.sum = self.sum.wrapping_sub(before).wrapping_add(set_hash::of_group(name, id, closed));
    }

    /// This daemon's members of the group are told whether they are in the primary view.
    pub fn note_primary(&mut self, name: &GroupName, is_primary: bool) {
        if let Some(at) = self.place(name.as_bytes()) {
            self.groups[at as usize].told_primary = is_primary;
        }
    }

    fn open(&mut self, name: &GroupName) -> u32 {
        let (id, closed) = (GroupViewId::default(), false);
        let (told_primary, members, local) = (false, Vec::new(), Vec::new());
        let group = GroupRecord { name: name.clone(), id, closed, told_primary, members, local };
        let at = self.free.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(at as usize) {
            Some(emptied) => *emptied = group,
            None => self.groups.push(group),
        }
        self.index.insert(name.clone(), at);
        self.sum = self.sum.wrapping_add(set_hash::of_group(name, id, closed));
        self.bytes += group_cost(name);
        at
    }
}

impl GroupRecord {
    fn insert(&mut self, member: &Member, local: bool) {
        if let Err(at) = self.members.binary_search_by_key(&member.key(), Member::key) {
            //= G03
            self.members.insert(at, member.clone());
            if local {
                self.local.push(member.client);
            }
        }
    }

    fn remove(&mut self, key: ClientKey, local: bool) -> Option<Member> {
        let at = self.members.binary_search_by_key(&key, Member::key).ok()?;
        if local {
            self.local.retain(|client| *client != key.1);
        }
        Some(self.members.remove(at))
    }
}

fn group_cost(name: &GroupName) -> usize {
    GROUP_COST + 2 * name.as_bytes().len()
}
