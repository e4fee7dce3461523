//! Clients for which others wait: what is said of them in the order, and whose requests it holds back.
//!
//! A client with the policy `block` that does not read is named by its daemon in the order, with its groups. From that
//! place on no daemon takes messages to them from its clients, until it is said that the client reads again, or is gone. A
//! new view forgets all that was said; daemons then say it again.
use crate::Node;
use consort_group::{PrivateName, Target, Targets, ordered};
use consort_order::{Engine, Overfull, Refused};
use consort_types::{Class, ClientId, GroupName, Holder, MemberId, NodeId, OrderWait, Service};
use consort_wire::Payload;
use std::collections::{BTreeMap, BTreeSet};

/// So much of the names of all that wait is remembered: more than a thousand clients need, each in a thousand groups.
const NAMES_MAX: usize = 1 << 20;

/// What nothing is to be sent to, and because of whom.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    by: BTreeMap<(MemberId, ClientId), BTreeSet<Vec<u8>>>,
    names: usize,
}

impl Holds {
    fn begin(&mut self, by: (MemberId, ClientId), targets: Targets<'_>) {
        self.end(by);
        if self.names < NAMES_MAX {
            let names: BTreeSet<_> = targets.names().map(<[u8]>::to_vec).collect();
            self.names += names.len();
            self.by.insert(by, names);
        }
    }

    fn end(&mut self, by: (MemberId, ClientId)) {
        self.names -= self.by.remove(&by).map_or(0, |names| names.len());
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// The client because of which nothing is sent to some of these.
    fn culprit(&self, targets: Targets<'_>) -> Option<(NodeId, ClientId)> {
        let held = |names: &BTreeSet<Vec<u8>>| targets.names().any(|name| names.contains(name));
        self.by.iter().find(|(_, names)| held(names)).map(|((daemon, client), _)| (daemon.node, *client))
    }

    /// Because of whom, for the status.
    pub(crate) fn culprits(&self) -> impl Iterator<Item = (NodeId, ClientId, usize)> {
        self.by.iter().map(|((daemon, client), names)| (daemon.node, *client, names.len()))
    }
}

impl<E: Engine> Node<E> {
    /// Whether a client's multicast waits for another client; it is tried again once that reads, or is gone.
    pub(crate) fn is_held(&mut self, client: ClientId, payload: &Payload) -> bool {
        //= G61
        if self.holds.by.is_empty() && self.engine.overfull().is_none() {
            return false;
        }
        let Ok(ordered::Ordered::Multicast { told, .. }) = ordered::decode(payload) else { return false };
        let cause = Targets::of(payload, told.targets_at, |targets| self.why_held(targets)).ok().flatten();
        let Some(cause) = cause else { return false };
        self.clients.hold_back(client, cause);
        self.watch_waits();
        true
    }

    /// What a multicast to these waits for, beside its turn.
    fn why_held(&self, targets: Targets<'_>) -> Option<OrderWait> {
        let overfull = self.engine.overfull().filter(|overfull| lacks_room(overfull, targets));
        let culprit = self.holds.culprit(targets).map(|(node, client)| OrderWait::SlowClient(node, client));
        culprit.or(overfull.map(|_| OrderWait::Retention))
    }

    /// Says the next thing of own clients that have others wait, or have no more.
    pub(crate) fn say_hold(&mut self) -> bool {
        let Some((client, holds)) = self.clients.next_hold() else { return false };
        let names = if holds { self.names_held_by(client) } else { Vec::new() };
        let said = self.hand_over(Class::Client, Service::Agreed, ordered::hold(client, &names).into());
        if !matches!(said, Err(Refused::Full { .. })) {
            self.clients.has_said_hold();
        }
        true
    }

    /// Its private name, and as many of its groups as one list can name.
    fn names_held_by(&self, client: ClientId) -> Vec<Target> {
        let me = self.datagrams.identity().me;
        let name = self.clients.get(client).and_then(|session| session.named());
        let own = name.map(|name| Target::Client(PrivateName::new(name, me.node)));
        let groups = self.groups.groups_of((me, client)).filter(|group| self.clients.holds_group(client, group));
        own.into_iter().chain(groups.cloned().map(Target::Group)).take(Targets::MAX).collect()
    }

    /// What a daemon said has its place.
    pub(crate) fn on_hold(&mut self, by: (MemberId, ClientId), payload: &Payload, targets_at: Option<usize>) {
        match targets_at {
            Some(at) => drop(Targets::of(payload, at, |targets| self.holds.begin(by, targets))),
            None => self.holds.end(by),
        }
        self.clients.release_held();
    }

    /// A new view: what was said is said again by those that are in it.
    pub(crate) fn renew_holds(&mut self) {
        //= G62
        self.holds.clear();
        self.clients.release_held();
        self.clients.say_holds_again();
    }
}

/// Whether the log has no room for a multicast to these: it is full of what programs of their groups lack, or of so much that
/// nothing more may come.
fn lacks_room(overfull: &Overfull, targets: Targets<'_>) -> bool {
    //= G72
    let lacks = |name: &[u8]| {
        let holder = GroupName::new(name).map(|group| Holder::of_group(&group, 0));
        holder.is_ok_and(|holder| overfull.programs.iter().any(|program| **program == *holder.program()))
    };
    overfull.all || targets.names().any(lacks)
}
