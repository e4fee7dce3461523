//! Lists as far as the client that asks may see them.
use crate::Node;
use consort_group::PrivateName;
use consort_order::Engine;
use consort_rights::{Denial, Verb};
use consort_session::listing::{Connection, GroupEntry, ListPage, ListQuery, Listing, PAGE_MAX};
use consort_types::{ClientId, GroupName};

/// What looking at one entry costs, counted as bytes of an answer.
const LOOK: usize = 32;
/// What comparing a name with one rule costs.
pub(crate) const COMPARE: usize = 1;

/// A list of groups that is made in slices, because rules say of each group whether its client may see it.
#[derive(Debug)]
pub(crate) struct GroupScan {
    after: Option<GroupName>,
    most: usize,
    /// The last group that was looked at.
    reached: Option<GroupName>,
    page: ListPage<GroupEntry>,
}

impl GroupScan {
    fn new(after: Option<&GroupName>, most: u16) -> Self {
        let page = ListPage { total: 0, more: false, items: Vec::new() };
        Self { after: after.cloned(), most: usize::from(most.min(PAGE_MAX)), reached: None, page }
    }

    /// A group that the client may see.
    fn add(&mut self, name: &GroupName, closed: bool, members: usize) {
        let ListPage { total, more, items } = &mut self.page;
        *total = total.saturating_add(1);
        if self.after.as_ref().is_some_and(|after| name <= after) {
            return;
        }
        match items.len() < self.most {
            true => {
                let members = u32::try_from(members).unwrap_or(u32::MAX);
                items.push(GroupEntry { name: name.clone(), members, closed });
            }
            false => *more = true,
        }
    }
}

impl<E: Engine> Node<E> {
    /// The page that a client asks for: of groups and connections those that it may see; of a group's members all, or none.
    /// `None` where it takes more than one slice, and is to be gone on with.
    pub(crate) fn list_for(&mut self, client: ClientId, question: &ListQuery) -> Option<Result<Listing, Denial>> {
        if !self.rights.is_on() {
            return Some(Ok(self.list(question)));
        }
        match question {
            ListQuery::Groups { after, most } => {
                self.scans.insert(client, GroupScan::new(after.as_ref(), *most));
                self.scan_on(client).map(|page| Ok(Listing::Groups(page)))
            }
            ListQuery::Clients { after, most } => Some(Ok(Listing::Clients(self.clients_for(client, *after, *most)))),
            ListQuery::Members { group, .. } => Some(self.check_seen(client, group).map(|()| self.list(question))),
        }
    }

    /// Goes on with the list that a client is owed, if it is owed one; false where it takes another slice.
    pub(crate) fn list_on(&mut self, client: ClientId) -> bool {
        if self.scans.is_empty() {
            return true;
        }
        if self.clients.get(client).is_none_or(|session| session.is_closed()) {
            self.scans.remove(&client);
        }
        if !self.scans.contains_key(&client) {
            return true;
        }
        let Some(page) = self.scan_on(client) else { return false };
        self.answer_list(client, Ok(Listing::Groups(page)));
        true
    }

    /// Looks at as many groups as this slice of answers has room for.
    fn scan_on(&mut self, client: ClientId) -> Option<ListPage<GroupEntry>> {
        let mut scan = self.scans.remove(&client)?;
        let price = LOOK + COMPARE * self.rights.rules().len();
        let most = self.left_to_answer() / price + 1;
        let (reached, mut looked, mut last) = (scan.reached.take(), 0, None);
        for (name, closed, members) in self.groups.after(reached.as_ref()).take(most) {
            if self.may_see(client, name) {
                scan.add(name, closed, members.len());
            }
            (looked, last) = (looked + 1, Some(name));
        }
        scan.reached = last.cloned();
        self.answered += looked * price;
        if looked < most {
            return Some(scan.page);
        }
        self.scans.insert(client, scan);
        None
    }

    /// Members see their groups.
    fn may_see(&self, client: ClientId, group: &GroupName) -> bool {
        let me = self.datagrams.identity().me;
        self.rights.allows(client, group.as_bytes(), Verb::See) || self.groups.is_in((me, client), group)
    }

    fn check_seen(&self, client: ClientId, group: &GroupName) -> Result<(), Denial> {
        if self.may_see(client, group) { Ok(()) } else { self.rights.judge(client, group.as_bytes(), Verb::See) }
    }

    fn clients_for(&mut self, client: ClientId, after: ClientId, most: u16) -> ListPage<Connection> {
        self.answered += (LOOK + COMPARE * self.rights.rules().len()) * self.clients.len();
        let me = self.datagrams.identity().me;
        let own = self.rights.identity(client);
        // A connection's private name is what rules call it; one without a name yet is its identity's alone.
        let sees = |other: &Connection| {
            let named = |name| PrivateName::new(name, me.node);
            let may_see = |name: &PrivateName| self.rights.allows(client, name.as_str().as_bytes(), Verb::See);
            self.rights.identity(other.client) == own
                || other.name.as_ref().map(named).is_some_and(|name| may_see(&name))
        };
        let total = self.clients.after(ClientId(0)).filter(sees).count();
        let seen = self.clients.after(after).filter(sees);
        ListPage::of(total, most, seen.map(|connection| self.counted(connection)))
    }
}
