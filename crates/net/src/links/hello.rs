//! The first frame in each direction: who speaks, and whom it means.
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{MemberId, NodeId};
use consort_wire::{Identity, Lane, Malformed, Proof, Reader, Rejected, envelope};

/// Its length in bytes: an envelope, and the number of the node that is meant.
pub(super) const LEN: usize = envelope::LEN + 2;

/// What this node says to `to`.
pub(super) fn seal(identity: &Identity, to: NodeId) -> Bytes {
    let mut head = BytesMut::with_capacity(LEN);
    envelope::reserve(&mut head);
    head.put_u16(to.0);
    envelope::seal(identity, Lane::Reliable, &mut head, &[]);
    head.freeze()
}

/// Why somebody's first frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHello {
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error("it means node {0}: two nodes have one address in somebody's settings")]
    Other(NodeId),
}

/// Who speaks, if it belongs to this cluster, has its settings, and means this node.
pub(super) fn read(identity: &Identity, proof: Proof, frame: Bytes) -> Result<MemberId, BadHello> {
    let (envelope, packet) = envelope::open_as(identity, proof, frame)?;
    if envelope.lane != Lane::Reliable {
        return Err(Rejected::Lane(envelope.lane as u8).into());
    }
    let mut reader = Reader::new(&packet);
    let to = reader.u16("node").map_err(Rejected::Packet)?;
    if packet.len() != LEN - envelope::LEN {
        return Err(Rejected::Packet(Malformed { what: "hello", at: packet.len() }).into());
    }
    if to == identity.me.node.0 { Ok(envelope.from) } else { Err(BadHello::Other(NodeId(to))) }
}
