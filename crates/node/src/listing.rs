//! Lists of groups and connections, a page at a time.
use crate::Node;
use consort_group::Member;
use consort_order::Engine;
use consort_session::listing::{Connection, GroupEntry, ListPage, ListQuery, Listing};
use consort_types::{ClientId, GroupName, MemberId};

impl<E: Engine> Node<E> {
    /// The page that is asked for.
    pub(crate) fn list(&self, question: &ListQuery) -> Listing {
        match question {
            ListQuery::Groups { after, most } => Listing::Groups(self.list_groups(after.as_ref(), *most)),
            ListQuery::Members { group, after, most } => Listing::Members(self.list_members(group, *after, *most)),
            ListQuery::Clients { after, most } => Listing::Clients(self.list_clients(*after, *most)),
        }
    }

    fn list_groups(&self, after: Option<&GroupName>, most: u16) -> ListPage<GroupEntry> {
        let entry = |(name, closed, members): (&GroupName, bool, &[Member])| {
            let members = u32::try_from(members.len()).unwrap_or(u32::MAX);
            GroupEntry { name: name.clone(), members, closed }
        };
        ListPage::of(self.groups.len(), most, self.groups.after(after).map(entry))
    }

    fn list_members(&self, group: &GroupName, after: (MemberId, ClientId), most: u16) -> ListPage<Member> {
        let members = self.groups.members(group.as_bytes()).unwrap_or_default();
        let from = members.partition_point(|member| member.key() <= after);
        ListPage::of(members.len(), most, members[from..].iter().cloned())
    }

    fn list_clients(&self, after: ClientId, most: u16) -> ListPage<Connection> {
        let all = self.clients.after(after).map(|connection| self.counted(connection));
        ListPage::of(self.clients.len(), most, all)
    }

    /// The same with how many groups it is in.
    pub(crate) fn counted(&self, connection: Connection) -> Connection {
        let groups = self.groups.memberships((self.datagrams.identity().me, connection.client));
        Connection { groups: u32::try_from(groups).unwrap_or(u32::MAX), ..connection }
    }
}
