//! The log: what the node has noticed, and what the driver has, each as one event with fields.
use super::Driver;
use consort_node::{DisconnectReason, Engine, MembershipChange, Notice, PeerState};
use consort_types::{ClientId, GroupName, Instant, MemberId, NodeId, ViewCause};
use std::fmt::Display;
use std::time::Duration;

/// How often it is looked how other nodes are reached.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// What events are about that tell who was let in and what it was refused.
pub(super) const AUDIT: &str = "consort::audit";
/// Losses are told no more often.
const LOSSES: Duration = Duration::from_secs(1);

/// What the log is told now and then.
#[derive(Debug, Default)]
pub(super) struct PeriodicLog {
    peers_at: Instant,
    pub(super) seals_at: Instant,
    losses_at: Instant,
    lost: u64,
}

impl<E: Engine> Driver<E> {
    /// Writes what the node has noticed.
    pub(super) fn write_log(&mut self) {
        while let Some((notice, left_out)) = self.node.poll_notice() {
            if left_out > 0 {
                tracing::warn!(left_out, "events like the next one were left out, for there were too many of them");
            }
            write(notice);
        }
    }

    /// To be called when timers are looked at: no timer is set for it.
    pub(super) fn look_at_peers(&mut self) {
        if self.now >= self.log.peers_at {
            self.log.peers_at = self.now + LOOK;
            self.node.look_at_peers(self.now);
        }
    }

    /// The kernel had no room for so many datagrams.
    pub(super) fn log_losses(&mut self, lost: u64) {
        self.log.lost += lost;
        if self.now >= self.log.losses_at {
            self.log.losses_at = self.now + LOSSES;
            let datagrams = std::mem::take(&mut self.log.lost);
            tracing::warn!(datagrams, "receive buffers overflowed: this node is overloaded or was not run");
        }
    }
}

fn write(notice: Notice) {
    match notice {
        Notice::View { id, members, joined, lost, primary, cause } => {
            let (members, primary) = (list::<MemberId>(&members), primary.word());
            let (joined, lost) = (list::<NodeId>(&joined), list::<NodeId>(&lost));
            match lost.as_str() {
                "" => tracing::info!(view = %id, members, joined, primary, cause, "view installed"),
                _ => tracing::warn!(view = %id, members, lost, joined, primary, cause, "view installed, members lost"),
            }
        }
        Notice::Interrupted { cause: ViewCause::TokenLost { after }, out } => {
            let (after_ms, out) = (after.as_millis() as u64, list::<MemberId>(&out));
            tracing::warn!(after_ms, out, "ring silent, members are sought");
        }
        Notice::Interrupted { cause, out } => {
            tracing::info!(%cause, out = list::<MemberId>(&out), "view given up, members are sought");
        }
        Notice::Primary { view, gained: true } => tracing::info!(%view, "the view is primary"),
        Notice::Primary { view, gained: false } => tracing::warn!(%view, "the view is not primary any more"),
        Notice::Settled { view, after } => {
            tracing::info!(%view, after_ms = after.as_millis() as u64, "groups agreed, messages flow");
        }
        Notice::Ready => tracing::info!("ready: what clients send is ordered"),
        Notice::Unready { reason } => tracing::warn!("not ready: {reason}"),
        Notice::Peer { state: PeerState::Heard, reach } => tracing::info!(node = %reach.node, %reach, "node is heard"),
        Notice::Peer { state, reach } => tracing::warn!(node = %reach.node, %state, %reach, "node is not reached"),
        Notice::Trouble { text: Some(text) } => tracing::warn!("{text}"),
        Notice::Trouble { text: None } => tracing::info!("what kept this node from taking part is over"),
        Notice::GroupMismatch { member, at } => {
            tracing::error!(%member, %at, "member has other groups at the same place of the order: restart one of the two");
        }
        Notice::Waiting { cause } => tracing::warn!(%cause, "requests of clients wait"),
        Notice::Flowing => tracing::info!("requests of clients flow again"),
        Notice::Connected { client, name, transport, identity } => {
            tracing::info!(target: AUDIT, %client, %name, identity, transport = transport.name(), "client connected");
        }
        Notice::Membership { client, group, change } => write_membership(client, &group, change),
        Notice::Disconnected { client, name } => {
            tracing::info!(target: AUDIT, %client, name = name.map(tracing::field::display), "client disconnected");
        }
        Notice::Ended { client, name, reason: DisconnectReason::Goodbye, .. } => {
            tracing::info!(target: AUDIT, %client, name = name.map(tracing::field::display), "client said good-bye");
        }
        // The driver has told it, and whose process that is.
        Notice::Ended { reason: DisconnectReason::NotAllowed, .. } => {}
        Notice::Ended { client, name, identity, reason, text } => {
            let name = name.map(tracing::field::display);
            tracing::warn!(target: AUDIT, %client, name, identity, %reason, "client sent away: {text}");
        }
        Notice::Refused { client, cause, text } => {
            tracing::warn!(target: AUDIT, %client, %cause, "request refused: {text}");
        }
        Notice::Holds { client, name, waiting } => {
            let name = name.map(tracing::field::display);
            tracing::warn!(%client, name, waiting, "client does not read: those who send to its groups wait for it");
        }
        Notice::KeyAdopted { epoch, members: 0 } => {
            tracing::info!(target: AUDIT, epoch, "others seal with this key: so does this node");
        }
        Notice::KeyAdopted { epoch, members } => {
            tracing::info!(target: AUDIT, epoch, members, "key adopted: all members of the view seal with it");
        }
        Notice::KeyNotAdopted { epoch, why } => {
            tracing::warn!(target: AUDIT, epoch, "key not adopted: {why}");
        }
        Notice::Spools { client, name } => {
            tracing::info!(%client, name = name.map(tracing::field::display), "client does not read: it is spooled for");
        }
    }
}

fn write_membership(client: ClientId, group: &GroupName, change: MembershipChange) {
    match change {
        MembershipChange::Joined => {
            tracing::debug!(target: AUDIT, %client, %group, "client joined");
        }
        MembershipChange::Left => {
            tracing::debug!(target: AUDIT, %client, %group, "client left");
        }
        MembershipChange::Expelled => {
            tracing::warn!(target: AUDIT, %client, %group, "client was made to leave: the rules do not allow it any more");
        }
        MembershipChange::Demoted => {
            tracing::warn!(target: AUDIT, %client, %group, "client was made to leave: it does not read");
        }
    }
}

fn list<T: Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
