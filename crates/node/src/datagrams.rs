//! Packets to datagrams and back; what is wrong is counted by cause and dropped.
use crate::effect::Datagram;
use bytes::Bytes;
use consort_wire::{Bump, Envelope, Identity, Lane, Packet, Proof, Rejected, envelope};
use std::collections::BTreeMap;

/// How much is taken from the allocator at once for the heads of outgoing datagrams.
const HEADS: usize = 16 << 10;
/// More than the fields of most packets take; one that needs more takes it for itself.
const HEAD: usize = 512;

#[derive(Debug)]
pub(crate) struct Datagrams {
    identity: Identity,
    proof: Proof,
    heads: Bump,
    own: u64,
    rejected: BTreeMap<&'static str, u64>,
}

impl Datagrams {
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, proof: Proof::Checksum, heads: Bump::new(HEADS), own: 0, rejected: BTreeMap::new() }
    }

    pub(crate) const fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) const fn set_proof(&mut self, proof: Proof) {
        self.proof = proof;
    }

    /// The packet in a datagram and whose it is. Our own ones come back by multicast and are no fault of anybody's.
    pub(crate) fn open<P: Packet>(&mut self, bytes: Bytes) -> Option<(Envelope, P)> {
        match self.read(bytes) {
            Ok(opened) => return Some(opened),
            Err(Rejected::Own) => self.own += 1,
            Err(cause) => *self.rejected.entry(cause.name()).or_default() += 1,
        }
        None
    }

    fn read<P: Packet>(&self, bytes: Bytes) -> Result<(Envelope, P), Rejected> {
        let (envelope, packet) = envelope::open_as(&self.identity, self.proof, bytes)?;
        Ok((envelope, P::decode(packet)?))
    }

    pub(crate) fn seal<P: Packet>(&mut self, lane: Lane, packet: &P) -> Datagram {
        let head = self.heads.room(HEAD);
        envelope::reserve(head);
        let body = packet.encode(head);
        match self.proof {
            Proof::Checksum => envelope::seal(&self.identity, lane, head, &body),
            // The driver sees to it that nothing changes on the way.
            Proof::Opened => envelope::stamp_unsummed(&self.identity, lane as u8, head),
        }
        Datagram { head: self.heads.take(), body }
    }

    /// How many came from nodes whose settings differ.
    pub(crate) fn of_other_settings(&self) -> u64 {
        self.rejected.get(Rejected::Configuration(self.identity.config).name()).copied().unwrap_or(0)
    }

    pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("datagrams_own", self.own);
        self.rejected.iter().for_each(|(cause, count)| see(&format!("datagrams_rejected_{cause}"), *count));
    }
}
