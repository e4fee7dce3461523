//! What arrives and is for the driver, not for the node: probes, and pieces of datagrams.
use crate::fragments::Reassemblies;
use crate::probe;
use crate::seals::Seals;
use bytes::{Bytes, BytesMut};
use consort_types::{Instant, MemberId, NodeId};
use consort_wire::Identity;
use consort_wire::path_mtu::{self, DriverPacket, Probe, SettingsNotice};
use std::collections::VecDeque;
use std::rc::Rc;

/// So many words on settings may wait.
const SETTINGS: usize = 64;
/// So many probes may wait; more say nothing that these do not.
const PROBES: usize = 1_024;

/// Takes aside what is for the driver.
pub(crate) struct DriverPackets {
    identity: Identity,
    seals: Rc<Seals>,
    nodes: Vec<NodeId>,
    probes: VecDeque<Probed>,
    settings: VecDeque<(NodeId, SettingsNotice)>,
    pub(crate) joins: Reassemblies,
    /// Probes that came.
    pub(crate) probed: u64,
    /// Pieces that came.
    pub(crate) fragments: u64,
}

/// A probe that came.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) from: MemberId,
    /// Its length on the way in bytes.
    pub(crate) size: usize,
    /// It was multicast.
    pub(crate) by_group: bool,
    pub(crate) probe: Probe,
}

impl DriverPackets {
    /// For the node that speaks as `identity` in a cluster of these nodes.
    pub(crate) fn new(identity: Identity, seals: Rc<Seals>, nodes: Vec<NodeId>) -> Self {
        Self {
            identity,
            seals,
            nodes,
            probes: VecDeque::new(),
            settings: VecDeque::new(),
            joins: Reassemblies::default(),
            probed: 0,
            fragments: 0,
        }
    }

    /// What every datagram is opened with before it is looked at.
    pub(crate) fn seals(&self) -> &Seals {
        &self.seals
    }

    /// Looks at a datagram for which [`path_mtu::is_for_driver`] holds, and that was multicast or not. Returns what the node is to see: the datagram that was joined
    /// with this piece, or the datagram itself if it is not for the driver. The node counts it by what is wrong with it.
    #[cold]
    pub(crate) fn take(&mut self, at: Instant, datagram: Bytes, by_group: bool) -> Option<Bytes> {
        if probe::is_probe(&datagram) {
            return None;
        }
        //= W01
        match path_mtu::open_as(&self.identity, self.seals.proof(), &datagram) {
            // Who is not configured here may be so elsewhere: that is what differs.
            Ok((from, DriverPacket::Settings(told))) => {
                if self.settings.len() < SETTINGS {
                    self.settings.push_back((from.node, told));
                }
                None
            }
            Ok((from, _)) if !self.nodes.contains(&from.node) => Some(datagram),
            Ok((from, DriverPacket::Probe(probe))) => {
                self.probed += 1;
                if self.probes.len() < PROBES {
                    let size = datagram.len() + self.seals.overhead();
                    self.probes.push_back(Probed { from, size, by_group, probe });
                }
                None
            }
            Ok((from, DriverPacket::Fragment(piece))) => {
                self.fragments += 1;
                let whole = self.joins.take(at, from, &piece)?;
                // It was sealed before it was cut: what was put together of the pieces of two is not what somebody sealed.
                self.seals.open(whole.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..])))
            }
            Err(_) => Some(datagram),
        }
    }

    /// What a node said next of its settings.
    pub(crate) fn next_settings(&mut self) -> Option<(NodeId, SettingsNotice)> {
        self.settings.pop_front()
    }

    /// The next probe that came.
    pub(crate) fn next_probe(&mut self) -> Option<Probed> {
        self.probes.pop_front()
    }
}

#[cfg(test)]
pub(crate) mod tests;
