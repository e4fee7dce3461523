//! What follows from a payload or a view, done and told one group at a time.
use crate::exchange::{ReceivedState, Staged};
use crate::groups::Groups;
use crate::member::{ChangeCause, GroupViewId, Member};
use crate::table::{ClientEntry, ClientKey, GroupRecord};
use consort_types::{ClientId, GroupName, MemberId, Primary};
use std::collections::btree_set;

/// How many memberships of the departed are dropped at once.
const DEPART_AT_ONCE: usize = 4;
/// How many groups are looked at at once for departing members.
const LOOK_AT_ONCE: usize = 16;

/// What is still to be done, in this order.
#[derive(Debug)]
pub(crate) enum PendingWork {
    Join {
        group: GroupName,
        member: Member,
        closed: bool,
    },
    Leave {
        group: GroupName,
        key: ClientKey,
    },
    Disconnect {
        key: ClientKey,
        groups: btree_set::IntoIter<GroupName>,
    },
    /// Transitional signals, for the groups behind this one.
    Closing {
        after: Option<GroupName>,
    },
    /// Tells the groups behind this one where their members do not know yet whether the view is primary.
    Primary {
        after: Option<GroupName>,
    },
    /// A transitional signal that a join has made due: for the joiner, or for all members.
    LateSignal {
        group: GroupName,
        joiner: Option<ClientId>,
    },
    /// Members that departed leave the table.
    Depart {
        clients: std::vec::IntoIter<(ClientKey, ClientEntry)>,
        current: Option<(ClientKey, btree_set::IntoIter<GroupName>)>,
    },
    /// What was heard comes into the table; `sets` are the synced sets by their lowest, ascending.
    Settle {
        heard: ReceivedState,
        sets: Vec<MemberId>,
    },
}

/// The last thing that is to be told, kept so that it can be lent out.
#[derive(Debug, Default)]
pub(crate) struct Announcement {
    what: AnnouncementKind,
    group: Option<GroupName>,
    id: GroupViewId,
    who: Vec<Member>,
    sets: Vec<u16>,
    notify: Vec<ClientId>,
}

#[derive(Clone, Copy, Debug, Default)]
enum AnnouncementKind {
    #[default]
    Nothing,
    View(ChangeCause, Primary),
    Signal,
}

/// One step of what follows.
#[derive(Debug)]
pub enum GroupStep<'a> {
    /// Something was done that nobody is told of.
    Quiet,
    /// A group changed.
    View(GroupChange<'a>),
    /// Members of a group do not move along into the next view.
    Signal(TransitionalSignal<'a>),
}

/// One change of one group.
#[derive(Debug)]
pub struct GroupChange<'a> {
    /// Which group.
    pub group: &'a GroupName,
    /// Names the membership that holds from here on.
    pub id: GroupViewId,
    /// Whether only members may send to it.
    pub closed: bool,
    /// Who is in the group now.
    pub members: &'a [Member],
    /// For each member the number of its set: who has the same number was given the same messages since the group view
    /// before.
    pub sets: &'a [u16],
    /// Whether the members may act as the primary part of the network, from here on.
    pub primary: Primary,
    /// Why it changed.
    pub cause: ChangeCause,
    /// Who came or went: who of them is a member came.
    pub who: &'a [Member],
    /// This daemon's clients that are to know: its members, and who left of its own accord.
    pub notify: &'a [ClientId],
}

/// A transitional signal.
#[derive(Debug)]
pub struct TransitionalSignal<'a> {
    /// The group.
    pub group: &'a GroupName,
    /// Names the membership that held until here.
    pub id: GroupViewId,
    /// This daemon's members.
    pub notify: &'a [ClientId],
}

impl<'a> GroupStep<'a> {
    /// This daemon's clients that are to be told.
    pub const fn notify(&self) -> &'a [ClientId] {
        match self {
            Self::Quiet => &[],
            Self::View(change) => change.notify,
            Self::Signal(signal) => signal.notify,
        }
    }
}

impl Groups {
    /// Does the next thing that follows from the last payload or view and says what is to be told; `None` when all is
    /// done.
    pub fn advance(&mut self) -> Option<GroupStep<'_>> {
        //= G21
        let mut work = self.work.pop_front()?;
        self.announcement.what = AnnouncementKind::Nothing;
        if !self.step(&mut work) {
            self.work.push_front(work);
        }
        if self.work.is_empty() && self.settled {
            self.digest_check.note(self.at, self.table.sum());
        }
        Some(self.last_step())
    }

    /// One step; true if the work is done with it.
    fn step(&mut self, work: &mut PendingWork) -> bool {
        match work {
            PendingWork::Join { group, member, closed } => self.join(group, member, *closed),
            PendingWork::Leave { group, key } => self.remove(group, *key, ChangeCause::Leave),
            PendingWork::Disconnect { key, groups } => {
                let Some(group) = groups.next() else { return true };
                self.remove(&group, *key, ChangeCause::Disconnect);
                return groups.len() == 0;
            }
            PendingWork::Closing { after } => return self.signal(after),
            PendingWork::Primary { after } => return self.tell_primary(after),
            PendingWork::LateSignal { group, joiner } => self.late_signal(group, *joiner),
            PendingWork::Depart { clients, current } => {
                return (0..DEPART_AT_ONCE).any(|_| self.depart(clients, current));
            }
            PendingWork::Settle { heard, sets } => return self.settle(heard, sets),
        }
        true
    }

    fn join(&mut self, name: &GroupName, member: &Member, closed: bool) {
        //= G07
        let closed = self.table.find(name.as_bytes()).map_or(closed, |group| group.closed);
        self.table.insert(name, member);
        self.change(name, self.present(), closed, (ChangeCause::Join, self.primary()));
        self.announcement.who.push(member.clone());
        //= G20
        let joined = |other: &Member| u16::from(other.key() == member.key());
        self.announcement.sets =
            self.table.find(name.as_bytes()).map_or(Vec::new(), |g| g.members.iter().map(joined).collect());
        if self.announcement.sets.len() == 1 {
            self.announcement.sets[0] = 0;
        }
        self.signal_late(name, member);
    }

    /// Who joins a group that is closing is told so, too; and if the joiner is the first that parts from it, all are.
    fn signal_late(&mut self, name: &GroupName, member: &Member) {
        //= G10
        let Some(along) = &self.closing else { return };
        let parts = |other: &Member| !along.contains(&other.daemon);
        let mut others = self.table.find(name.as_bytes()).into_iter().flat_map(|group| &group.members);
        let first = parts(member) && !others.any(|other| other.key() != member.key() && parts(other));
        let joiner = (member.daemon == self.table.me()).then_some(member.client);
        if first || joiner.is_some() {
            self.work.push_back(PendingWork::LateSignal { group: name.clone(), joiner });
        }
    }

    fn remove(&mut self, name: &GroupName, key: ClientKey, cause: ChangeCause) {
        let gone = match cause {
            ChangeCause::Leave => self.table.remove(name, key),
            _ => self.table.drop_member(name, key),
        };
        let closed = self.table.find(name.as_bytes()).is_some_and(|group| group.closed);
        self.change(name, self.present(), closed, (cause, self.primary()));
        //= G03
        if cause == ChangeCause::Leave && key.0 == self.table.me() {
            self.announcement.notify.push(key.1);
        }
        self.announcement.who.extend(gone);
        if self.table.find(name.as_bytes()).is_none() {
            self.departed.remove(name);
        }
    }

    /// Gives a group's membership a name and makes the group view ready to be told to this daemon's members.
    fn change(&mut self, name: &GroupName, id: GroupViewId, closed: bool, (cause, primary): (ChangeCause, Primary)) {
        //= G03
        //= G22
        self.table.mark(name, id, closed);
        self.table.note_primary(name, primary == Primary::Yes);
        let announcement = &mut self.announcement;
        (announcement.what, announcement.group, announcement.id) =
            (AnnouncementKind::View(cause, primary), Some(name.clone()), id);
        announcement.who.clear();
        announcement.sets.clear();
        announcement.notify.clear();
        if let Some(group) = self.table.find(name.as_bytes()) {
            announcement.sets.resize(group.members.len(), 0);
            announcement.notify.extend_from_slice(&group.local);
        }
    }

    /// Looks at the next groups; true when all were looked at.
    fn tell_primary(&mut self, after: &mut Option<GroupName>) -> bool {
        //= G23
        let primary = self.primary();
        if crate::mutated!(self, PrimaryUntold) {
            return true;
        }
        for _ in 0..LOOK_AT_ONCE {
            let Some(group) = self.table.after(after.as_ref()) else { return true };
            *after = Some(group.name.clone());
            if group.local.is_empty() || group.told_primary == (primary == Primary::Yes) {
                continue;
            }
            let announcement = &mut self.announcement;
            (announcement.what, announcement.group, announcement.id) =
                (AnnouncementKind::View(ChangeCause::Primary, primary), after.clone(), group.id);
            announcement.who.clear();
            announcement.sets.clear();
            announcement.sets.resize(group.members.len(), 0);
            announcement.notify.clear();
            // Spread has no word for it.
            announcement.notify.extend(group.local.iter().filter(|client| !client.speaks_spread()));
            if let Some(name) = after {
                self.table.note_primary(name, primary == Primary::Yes);
            }
            return false;
        }
        false
    }

    /// Looks at the next groups; true when all were looked at.
    fn signal(&mut self, after: &mut Option<GroupName>) -> bool {
        //= G10
        for _ in 0..LOOK_AT_ONCE {
            let Some(group) = self.table.after(after.as_ref()) else { return true };
            *after = Some(group.name.clone());
            if !group.local.is_empty() && self.parts(group) {
                let announcement = &mut self.announcement;
                (announcement.what, announcement.group, announcement.id) =
                    (AnnouncementKind::Signal, Some(group.name.clone()), group.id);
                announcement.notify.clone_from(&group.local);
                return false;
            }
        }
        false
    }

    /// Whether some member of a group does not move along.
    fn parts(&self, group: &GroupRecord) -> bool {
        let along = self.closing.as_deref().unwrap_or_default();
        let parts = group.members.iter().any(|member| !along.contains(&member.daemon));
        let mutes = crate::mutated!(self, SignalForgotten);
        if parts { !mutes } else { crate::mutated!(self, SignalForAll) }
    }

    fn late_signal(&mut self, name: &GroupName, joiner: Option<ClientId>) {
        let Some(group) = self.table.find(name.as_bytes()).filter(|group| self.parts(group)) else { return };
        let announcement = &mut self.announcement;
        (announcement.what, announcement.group, announcement.id) =
            (AnnouncementKind::Signal, Some(name.clone()), group.id);
        match joiner {
            Some(joiner) => announcement.notify.splice(.., [joiner]).for_each(drop),
            None => announcement.notify.clone_from(&group.local),
        }
    }

    /// Drops one membership of the departed; true when there are no more.
    fn depart(
        &mut self,
        clients: &mut std::vec::IntoIter<(ClientKey, ClientEntry)>,
        current: &mut Option<(ClientKey, btree_set::IntoIter<GroupName>)>,
    ) -> bool {
        //= G12
        let Some((key, groups)) = current else {
            *current = clients.next().map(|(key, client)| (key, client.groups.into_iter()));
            return current.is_none();
        };
        let Some(name) = groups.next() else {
            *current = None;
            return false;
        };
        let gone = self.table.drop_member(&name, *key);
        if self.table.find(name.as_bytes()).is_none() {
            self.departed.remove(&name);
        } else {
            self.departed.entry(name).or_default().extend(gone);
        }
        false
    }

    /// Settles one group, in the order of names; true when all are settled.
    fn settle(&mut self, heard: &mut ReceivedState, sets: &[MemberId]) -> bool {
        //= G17
        let first = [heard.groups.first_key_value().map(|(name, _)| name), self.departed.keys().next()];
        let Some(name) = first.into_iter().flatten().min().cloned() else {
            self.settled = true;
            self.work.push_back(PendingWork::Primary { after: None });
            self.synced.clone_from(&self.members);
            return true;
        };
        let staged = heard.groups.remove(&name);
        let departed = self.departed.remove(&name).unwrap_or_default();
        self.settle_group(&name, staged, departed, |member| {
            let set = heard.sets.get(&member).and_then(|set| sets.binary_search(set).ok());
            set.unwrap_or(0) as u16
        });
        let tells = matches!(self.announcement.what, AnnouncementKind::View(..));
        if tells && self.closing.is_some() {
            //= G10
            self.work.push_back(PendingWork::LateSignal { group: name, joiner: None });
        }
        false
    }

    fn settle_group(
        &mut self,
        name: &GroupName,
        staged: Option<Staged>,
        departed: Vec<Member>,
        set_of: impl Fn(MemberId) -> u16,
    ) {
        //= G18
        let known = self.table.find(name.as_bytes()).map(|group| (group.id, group.closed));
        let of_both = known.is_some() && staged.is_some();
        let of_others = staged.as_ref().is_some_and(|staged| staged.departed || staged.several);
        let changed = of_both || of_others || !departed.is_empty();
        let ids = known.map(|(id, _)| id).or(staged.as_ref().map(|staged| staged.id));
        let closed = known.is_some_and(|(_, closed)| closed) || staged.as_ref().is_some_and(|staged| staged.closed);
        let arrived = staged.map_or(Vec::new(), |staged| staged.members);
        for member in &arrived {
            self.table.insert(name, member);
        }
        if crate::mutated!(self, DeparturesLast) {
            departed.iter().for_each(|member| drop(self.table.remove(name, member.key())));
        }
        let mutes = crate::mutated!(self, ArrivalsUntold);
        let tells = if changed { !mutes } else { crate::mutated!(self, UntouchedTold) };
        if !tells {
            let id = ids.filter(|_| !changed).unwrap_or(GroupViewId { view: self.view, change: 0 });
            self.table.mark(name, id, closed);
            return;
        }
        // What follows is told behind the last part: the members know who is there.
        let told = (ChangeCause::Network, self.primary);
        self.change(name, GroupViewId { view: self.view, change: 0 }, closed, told);
        self.announcement.who = departed;
        self.announcement.who.extend(arrived);
        self.announcement.who.sort_unstable();
        self.announcement.who.dedup();
        //= G20
        if let Some(group) = self.table.find(name.as_bytes())
            && !crate::mutated!(self, AllTogether)
        {
            self.announcement.sets = group.members.iter().map(|member| set_of(member.daemon)).collect();
        }
    }

    /// What the last [`Self::advance`] said, once more; for a caller that tells many clients a few at a time.
    pub fn last_step(&self) -> GroupStep<'_> {
        let Announcement { what, group: Some(group), id, who, sets, notify } = &self.announcement else {
            return GroupStep::Quiet;
        };
        match what {
            AnnouncementKind::Nothing => GroupStep::Quiet,
            AnnouncementKind::Signal => GroupStep::Signal(TransitionalSignal { group, id: *id, notify }),
            AnnouncementKind::View(cause, primary) => {
                let now = self.table.find(group.as_bytes());
                let (members, closed) = now.map_or((&[][..], false), |group| (&group.members[..], group.closed));
                let (cause, primary) = (*cause, *primary);
                GroupStep::View(GroupChange { group, id: *id, closed, members, sets, primary, cause, who, notify })
            }
        }
    }
}
