//! What a sealed datagram says of itself, and why it is refused.
use crate::keys::{KeyEpoch, KeyRing, Salt};
use crate::{COUNTER, OVERHEAD, place};
use consort_types::{ClusterId, MemberId, NodeId};
use consort_wire::envelope::{self, EnvelopeView};
use consort_wire::{Identity, Rejected};

/// Why a datagram was dropped that nobody has opened. What it says of itself is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// Too short, without the magic, or of no kind that there is.
    #[error("no sealed datagram")]
    Foreign,
    /// Another version of the wire format.
    #[error("wire version {0}")]
    Version(u8),
    /// Another cluster on the same network.
    #[error("cluster {0}")]
    Cluster(ClusterId),
    /// Not sealed at all.
    #[error("a plain datagram, said to be of {0}")]
    Plain(NodeId),
    /// There is no key of that epoch here.
    #[error("key epoch {0}, said to be of {1}")]
    KeyEpoch(u16, NodeId),
    /// Of an epoch that is not in use here any more.
    #[error("an old key epoch, of {0}")]
    Superseded(NodeId),
    /// Of an epoch that is not in use here yet.
    #[error("a key epoch that is not adopted here yet, of {0}")]
    NotAdopted(NodeId),
    /// Of a node that is not configured.
    #[error("{0} is no configured node")]
    Stranger(NodeId),
    /// For another node.
    #[error("for {0}")]
    Misdirected(NodeId),
    /// Its start has not proven that it speaks now.
    #[error("a start of {0} that has not proven that it speaks now")]
    Unproven(NodeId),
    /// It came before, or is too old to tell.
    #[error("came before")]
    Replayed,
    /// Other bytes than were sealed, or another key.
    #[error("said to be of {0}, and does not open with this key")]
    Forged(NodeId),
    /// A greeting that says what no greeting says.
    #[error("a malformed greeting of {0}")]
    Malformed(NodeId),
    /// Our own datagram, looped back by multicast or reflected.
    #[error("own datagram")]
    Own,
}

impl Unopened {
    /// The cause's name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Version(_) => "version",
            Self::Cluster(_) => "cluster",
            Self::Plain(_) => "plain",
            Self::KeyEpoch(..) => "key_epoch",
            Self::Superseded(_) => "superseded",
            Self::NotAdopted(_) => "not_adopted",
            Self::Stranger(_) => "stranger",
            Self::Misdirected(_) => "misdirected",
            Self::Unproven(_) => "unproven",
            Self::Replayed => "replayed",
            Self::Forged(_) => "forged",
            Self::Malformed(_) => "malformed",
            Self::Own => "own",
        }
    }
}

/// What a sealed datagram says of itself. None of it is believed before it is opened.
pub(crate) struct SealedView {
    pub(crate) from: MemberId,
    pub(crate) kind: u8,
    pub(crate) place: usize,
    pub(crate) epoch: KeyEpoch,
    pub(crate) salt: Salt,
    pub(crate) to: u16,
    pub(crate) counter: u64,
}

impl SealedView {
    /// Reads what a datagram says of itself, as far as that is for this node.
    pub(crate) fn read(ring: &KeyRing, me: &Identity, own: &Salt, datagram: &[u8]) -> Result<Self, Unopened> {
        let view = EnvelopeView::new(datagram).map_err(|rejected| match rejected {
            Rejected::Version(version) => Unopened::Version(version),
            _ => Unopened::Foreign,
        })?;
        if view.cluster() != me.cluster {
            return Err(Unopened::Cluster(view.cluster()));
        }
        let from = view.from();
        let epoch = KeyEpoch::new(view.key_epoch()).ok_or(Unopened::Plain(from.node))?;
        if ring.epochs().all(|known| known != epoch) {
            return Err(Unopened::KeyEpoch(epoch.get(), from.node));
        }
        let (salt, place) = (Salt::from_wire(view.salt()), place(view.kind()));
        let (Some(salt), Some(place)) = (salt, place) else { return Err(Unopened::Foreign) };
        if (from, salt) == (me.me, *own) {
            return Err(Unopened::Own);
        }
        let (to, counter) = trailer(datagram).ok_or(Unopened::Foreign)?;
        if to != 0 && to != me.me.node.0 {
            return Err(Unopened::Misdirected(NodeId(to)));
        }
        Ok(Self { from, kind: view.kind(), place, epoch, salt, to, counter })
    }
}

/// For whom a datagram is, and its counter.
fn trailer(datagram: &[u8]) -> Option<(u16, u64)> {
    let end = datagram.get(envelope::LEN..)?;
    let at = end.len().checked_sub(OVERHEAD)? + OVERHEAD - size_of::<u64>();
    let raw = end.get(at..)?.first_chunk::<{ size_of::<u64>() }>()?;
    let all = u64::from_be_bytes(*raw);
    Some(((all >> (8 * COUNTER)) as u16, all & crate::COUNTER_LAST))
}
