//! What the driver looks after once a second: groups, sends that the kernel refuses, socket files.
use super::Driver;
use crate::membership::Change;
use crate::outbox::Refused;
use crate::path_mtu::{GroupReach, PathLimits};
use consort_node::Engine;
use consort_types::{Instant, NodeId};
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// Refused sends are said no more often.
const REFUSED: Duration = Duration::from_secs(60);

/// When it is looked next, and what waits to be said.
#[derive(Debug, Default)]
pub(super) struct NetworkWatch {
    look_at: Instant,
    refused_at: Instant,
    refused: u64,
}

impl<E: Engine> Driver<E> {
    /// To be called when timers are looked at: no timer is set for it.
    pub(super) fn look_at_networks(&mut self) {
        if self.now < self.network_watch.look_at {
            return;
        }
        self.network_watch.look_at = self.now + LOOK;
        self.keep_memberships();
        self.outbox.try_super_packets_again();
        if let Some(refused) = self.outbox.take_refused() {
            self.log_refused(&refused);
        }
        self.clients.restore_socket_files();
        if self.path_mtus.is_none() {
            self.note_facts();
        }
    }

    fn keep_memberships(&mut self) {
        for membership in &mut self.memberships {
            let (group, interface) = (membership.group(), membership.at());
            match membership.keep() {
                None => {}
                Some(Change::Joined) => tracing::info!(%group, %interface, "the multicast group is joined again"),
                Some(Change::Lost(error)) => tracing::warn!(
                    %group,
                    %interface,
                    %error,
                    "the multicast group cannot be joined: does an interface of this machine have that address, and is it \
                     up? It is tried again each second"
                ),
            }
        }
    }

    fn log_refused(&mut self, refused: &Refused) {
        let watch = &mut self.network_watch;
        watch.refused += refused.count;
        if self.now >= watch.refused_at {
            watch.refused_at = self.now + REFUSED;
            let (datagrams, Refused { error, to, .. }) = (std::mem::take(&mut watch.refused), refused);
            tracing::warn!(
                datagrams,
                to,
                %error,
                "the kernel refuses datagrams to other nodes; a route, an interface or a packet filter of this machine is why"
            );
        }
    }

    /// The outbox and people learn what has changed.
    pub(super) fn follow_limits(&mut self, limits: PathLimits) {
        if !self.memberships.is_empty() && limits.group != *self.outbox.group_reach() {
            log_group(&limits.group);
        }
        self.outbox.set_narrow(limits);
    }

    /// How data to all is sent, where there is a group that it could leave by.
    pub(super) fn group_fact(&self) -> Option<(String, String)> {
        let how = || match self.outbox.group_reach() {
            GroupReach::All => "by multicast".to_owned(),
            GroupReach::AllBut(nodes) => format!("by multicast, and by unicast to {}", list(nodes)),
            GroupReach::None => "by unicast: multicast does not arrive".to_owned(),
        };
        (!self.memberships.is_empty()).then(|| ("data_to_all".to_owned(), how()))
    }
}

fn log_group(reach: &GroupReach) {
    match reach {
        GroupReach::All => tracing::info!("what is multicast arrives: data to all is sent by multicast alone"),
        GroupReach::AllBut(nodes) => tracing::warn!(
            nodes = list(nodes),
            "what is multicast does not arrive at these nodes, though unicast does: data is sent to each of them by unicast, \
             too, which costs more; look at the switch between (IGMP snooping without a querier, a filter)"
        ),
        GroupReach::None => tracing::warn!(
            "what is multicast does not arrive at any node: data is sent to each by unicast, which costs more; look at the \
             switch between (IGMP snooping without a querier, a filter), or set multicast = \"off\""
        ),
    }
}

fn list<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    nodes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
