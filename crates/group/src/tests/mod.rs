//! The table, by theme.
mod changes;
mod model;

use crate::{ClientName, Delivered, Groups, ordered};
use bytes::{Bytes, BytesMut};
use consort_types::{Cause as ViewCause, ClientId, GroupName, MemberId, Primary, View, ViewId, ViewKind};
use consort_wire::Payload;

pub(super) fn daemon(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

pub(super) fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

pub(super) fn join(client: u32, name: &str) -> Payload {
    ordered::join(ClientId(client), &ClientName::unchosen(ClientId(client)), &group(name)).into()
}

pub(super) fn leave(client: u32, name: &str) -> Payload {
    ordered::leave(ClientId(client), &group(name)).into()
}

pub(super) fn disconnect(client: u32) -> Payload {
    ordered::disconnect(ClientId(client)).into()
}

pub(super) fn multicast(client: u32, names: &[&str], body: &'static [u8]) -> Payload {
    let names: Vec<_> = names.iter().map(|name| group(name)).collect();
    let mut list = BytesMut::new();
    assert!(crate::targets::encode(names.iter(), &mut list));
    [ordered::multicast_prefix(ClientId(client)), list.freeze(), Bytes::from_static(body)].into_iter().collect()
}

pub(super) fn view(number: u64, nodes: &[u16]) -> View {
    View {
        id: ViewId { number, representative: daemon(nodes[0]) },
        kind: ViewKind::Regular,
        members: nodes.iter().map(|node| daemon(*node)).collect(),
        moved_together: Vec::new(),
        primary: Primary::Pending,
        cause: ViewCause::Formed,
        evidence: Vec::new(),
    }
}

/// A change as a line of text: `orders join n0.100/c1 -> 1 2` (who came or went, who is there now).
pub(super) fn drain(groups: &mut Groups) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(change) = groups.next_change() {
        let list = |members: &[crate::Member]| {
            let names: Vec<_> = members.iter().map(|m| format!("{}{}", m.daemon.node, m.client)).collect();
            names.join(" ")
        };
        let notified: Vec<_> = change.notify.iter().map(ClientId::to_string).collect();
        let (group, cause, number) = (change.group, change.cause, change.id.change);
        let (who, members) = (list(change.who), list(change.members));
        lines.push(format!("{number} {group} {cause} {who} -> [{members}] tell [{}]", notified.join(" ")));
    }
    lines
}

pub(super) fn step(groups: &mut Groups, sender: u16, payload: &Payload) -> Vec<String> {
    groups.deliver(daemon(sender), payload).unwrap();
    drain(groups)
}

pub(super) fn recipients(groups: &mut Groups, payload: &Payload) -> Vec<u32> {
    match groups.deliver(daemon(0), payload).unwrap() {
        Delivered::Multicast { recipients, .. } => recipients.iter().map(|client| client.0).collect(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn installed(me: u16, nodes: &[u16]) -> Groups {
    let mut groups = Groups::new(daemon(me));
    groups.install(&view(1, nodes));
    assert_eq!(drain(&mut groups), [""; 0]);
    groups
}
