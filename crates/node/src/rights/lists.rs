//! Lists as far as the client that asks may see them.
use crate::Node;
use consort_group::PrivateName;
use consort_order::Engine;
use consort_rights::{Denial, Verb};
use consort_session::listing::{Connection, GroupEntry, ListPage, ListQuery, Listing};
use consort_types::{ClientId, GroupName};

/// What looking at one entry costs, counted as bytes of an answer.
const LOOK: usize = 32;

impl<E: Engine> Node<E> {
    /// The page that a client asks for: of groups and connections those that it may see; of a group's members all, or none.
    pub(crate) fn list_for(&mut self, client: ClientId, question: &ListQuery) -> Result<Listing, Denial> {
        if !self.rights.is_on() {
            return Ok(self.list(question));
        }
        match question {
            ListQuery::Groups { after, most } => Ok(Listing::Groups(self.groups_for(client, after.as_ref(), *most))),
            ListQuery::Clients { after, most } => Ok(Listing::Clients(self.clients_for(client, *after, *most))),
            ListQuery::Members { group, .. } => self.may_see(client, group).map(|()| self.list(question)),
        }
    }

    /// Members see their groups.
    fn may_see(&self, client: ClientId, group: &GroupName) -> Result<(), Denial> {
        let me = self.datagrams.identity().me;
        match self.rights.judge(client, group.as_bytes(), Verb::See) {
            Err(denial) if !self.groups.is_in((me, client), group) => Err(denial),
            _ => Ok(()),
        }
    }

    fn groups_for(&mut self, client: ClientId, after: Option<&GroupName>, most: u16) -> ListPage<GroupEntry> {
        // All are looked at: how many there are is told, too.
        self.answered += LOOK * self.groups.len();
        let sees = |name: &GroupName| self.may_see(client, name).is_ok();
        let total = self.groups.after(None).filter(|(name, ..)| sees(name)).count();
        let seen = self.groups.after(after).filter(|(name, ..)| sees(name));
        ListPage::of(
            total,
            most,
            seen.map(|(name, closed, members)| GroupEntry {
                name: name.clone(),
                members: u32::try_from(members.len()).unwrap_or(u32::MAX),
                closed,
            }),
        )
    }

    fn clients_for(&mut self, client: ClientId, after: ClientId, most: u16) -> ListPage<Connection> {
        self.answered += LOOK * self.clients.len();
        let me = self.datagrams.identity().me;
        let own = self.rights.identity(client);
        // A connection's private name is what rules call it; one without a name yet is its identity's alone.
        let sees = |other: &Connection| {
            let named = |name| PrivateName::new(name, me.node);
            let may_see = |name: &PrivateName| self.rights.judge(client, name.as_str().as_bytes(), Verb::See).is_ok();
            self.rights.identity(other.client) == own
                || other.name.as_ref().map(named).is_some_and(|name| may_see(&name))
        };
        let total = self.clients.after(ClientId(0)).filter(sees).count();
        let seen = self.clients.after(after).filter(sees);
        ListPage::of(total, most, seen.map(|connection| self.counted(connection)))
    }
}
