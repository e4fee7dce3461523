//! The table, by theme.
mod changes;
mod exchange;
mod histories;
mod model;
mod primary;
mod producers;

use crate::{ClientName, GroupDelivery, GroupStep, Groups, PrivateName, Target, ordered};
use bytes::{Bytes, BytesMut};
use consort_types::{ClientId, GroupName, MemberId, Position, Primary, View, ViewCause, ViewId, ViewKind};
use consort_wire::Payload;

pub(super) fn daemon(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

/// The groups of a daemon. `cargo xtask mutants` asks which scenario notices a broken rule.
pub(super) fn at(node: u16) -> Groups {
    #[allow(unused_mut)]
    let mut groups = Groups::new(daemon(node));
    #[cfg(feature = "mutants")]
    if let Some(mutant) = mutant() {
        groups.mutate(mutant);
    }
    groups
}

/// The rule that is to be broken.
#[cfg(feature = "mutants")]
fn mutant() -> Option<crate::Mutant> {
    let name = std::env::var("CONSORT_GROUP_MUTANT").ok()?;
    crate::Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name)
}

pub(super) fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

pub(super) fn join(client: u32, name: &str) -> Payload {
    ordered::join(ClientId(client), &ClientName::unchosen(ClientId(client)), &group(name), false).into()
}

pub(super) fn join_closed(client: u32, name: &str) -> Payload {
    ordered::join(ClientId(client), &ClientName::unchosen(ClientId(client)), &group(name), true).into()
}

pub(super) fn leave(client: u32, name: &str) -> Payload {
    ordered::leave(ClientId(client), &group(name)).into()
}

pub(super) fn disconnect(client: u32) -> Payload {
    ordered::disconnect(ClientId(client)).into()
}

pub(super) fn multicast(client: u32, names: &[&str], body: &'static [u8]) -> Payload {
    let target = |name: &&str| match PrivateName::parse(name) {
        Some(client) => Target::Client(client),
        None => Target::Group(group(name)),
    };
    let targets: Vec<_> = names.iter().map(target).collect();
    let mut list = BytesMut::new();
    assert!(crate::targets::encode(targets.iter(), &mut list));
    let client = ClientId(client);
    let prefix = ordered::multicast_prefix(client, &ClientName::unchosen(client));
    [prefix, list.freeze(), Bytes::from_static(body)].into_iter().collect()
}

pub(super) fn view(number: u64, nodes: &[u16]) -> View {
    View {
        id: ViewId { number, representative: daemon(nodes[0]) },
        kind: ViewKind::Regular,
        members: nodes.iter().map(|node| daemon(*node)).collect(),
        moved_together: nodes.iter().map(|node| daemon(*node)).collect(),
        primary: Primary::Pending,
        cause: ViewCause::Formed,
        evidence: Vec::new(),
        missed_primary: false,
    }
}

/// What is told as lines of text: `1 orders join n0c1 -> [n0c1 n1c2/1] tell [c1]` (the change's number, who came or went,
/// who is there now, each with its set if that is not 0), or `orders closing tell [c1]`.
pub(super) fn drain(groups: &mut Groups) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(step) = groups.advance() {
        let tell = |notify: &[ClientId]| notify.iter().map(ClientId::to_string).collect::<Vec<_>>().join(" ");
        match step {
            GroupStep::Quiet => {}
            GroupStep::Signal(signal) => lines.push(format!("{} closing tell [{}]", signal.group, tell(signal.notify))),
            GroupStep::View(change) => {
                let name = |m: &crate::Member| format!("{}{}", m.daemon.node, m.client);
                let who: Vec<_> = change.who.iter().map(name).collect();
                let set = |set: &u16| if *set == 0 { String::new() } else { format!("/{set}") };
                assert_eq!(change.members.len(), change.sets.len());
                let members = change.members.iter().zip(change.sets).map(|(m, s)| name(m) + &set(s));
                let (group, cause, number) = (change.group, change.cause, change.id.change);
                let (who, members) = (who.join(" "), members.collect::<Vec<_>>().join(" "));
                lines.push(format!("{number} {group} {cause} {who} -> [{members}] tell [{}]", tell(change.notify)));
            }
        }
    }
    lines
}

/// The payloads of a test stand one behind the other.
pub(super) fn deliver<'a>(groups: &'a mut Groups, sender: u16, payload: &Payload) -> GroupDelivery<'a> {
    let next = Position(groups.at.0 + 1);
    groups.deliver(daemon(sender), next, payload).unwrap()
}

pub(super) fn step(groups: &mut Groups, sender: u16, payload: &Payload) -> Vec<String> {
    deliver(groups, sender, payload);
    drain(groups)
}

pub(super) fn recipients(groups: &mut Groups, payload: &Payload) -> Vec<u32> {
    match deliver(groups, 0, payload) {
        GroupDelivery::Multicast { recipients, .. } => recipients.iter().map(|client| client.0).collect(),
        other => panic!("{other:?}"),
    }
}

/// A daemon that knows that the others have no clients yet.
pub(super) fn installed(me: u16, nodes: &[u16]) -> Groups {
    let mut groups = at(me);
    groups.synced = nodes.iter().map(|node| daemon(*node)).collect();
    groups.install(&view(1, nodes));
    assert_eq!(drain(&mut groups), [""; 0]);
    assert!(groups.is_settled());
    groups
}
