//! What leaves.
use crate::cipher::{Key, NONCE};
use crate::{ADDRESSEE, COUNTER_LAST, KINDS, KeyEpoch, KeyRing, OVERHEAD, Salt, place};
use bytes::{BufMut, BytesMut};
use consort_types::NodeId;
use consort_wire::{Identity, envelope};
use std::fmt;

/// No more can be sealed: each counter is used once, and one has come to its end. The daemon must start anew, with a new
/// salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {COUNTER_LAST} counters of this start are used, and none may be used twice with one key")]
pub struct Exhausted;

/// Seals what one start of a node sends.
pub struct Sealer {
    epoch: KeyEpoch,
    salt: Salt,
    key: Key,
    /// The next counter of each kind.
    counters: [u64; KINDS.len()],
}

impl Sealer {
    /// For the node that speaks as `identity`. No two starts of a node may have one salt. `None` never happens: a ring has
    /// the key that it seals with.
    pub fn new(ring: &KeyRing, identity: &Identity, salt: Salt) -> Option<Self> {
        let epoch = ring.sealing();
        let key = ring.derive(epoch, identity.cluster, identity.me, &salt)?;
        Some(Self { epoch, salt, key, counters: [0; KINDS.len()] })
    }

    /// This start's salt.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The epoch of the key that is sealed with.
    pub const fn epoch(&self) -> KeyEpoch {
        self.epoch
    }

    /// Below those counters everything was sealed before now, kind by kind.
    pub const fn counters(&self) -> &[u64; KINDS.len()] {
        &self.counters
    }

    /// Seals a datagram in place that stands in `datagram` with its plain envelope; it grows by [`OVERHEAD`]. Only `to`
    /// will take it, or everybody where that is `None`. Returns its counter. To seal the same again means another counter.
    ///
    /// # Errors
    /// [`Exhausted`]: the datagram must not be sent, and was not changed.
    ///
    /// # Panics
    /// In debug builds where the bytes are no datagram with an envelope of a known kind.
    pub fn seal(&mut self, to: Option<NodeId>, datagram: &mut BytesMut) -> Result<u64, Exhausted> {
        let kind = datagram.get(envelope::KIND_AT).copied().unwrap_or(u8::MAX);
        debug_assert!(place(kind).is_some() && datagram.len() >= envelope::LEN, "this is no datagram");
        let next = place(kind).and_then(|place| self.counters.get_mut(place)).ok_or(Exhausted)?;
        let counter = *next;
        if counter > COUNTER_LAST {
            return Err(Exhausted);
        }
        *next += 1;
        let to = to.map_or(0, |node| node.0);
        envelope::mark_sealed(datagram, self.epoch.get(), self.salt.bytes());
        let (head, packet) = datagram.split_at_mut(envelope::LEN);
        let tag = self.key.seal(nonce(kind, to, counter), head, packet).ok_or(Exhausted)?;
        datagram.reserve(OVERHEAD);
        datagram.put_slice(tag.as_ref());
        datagram.put_u16(to);
        datagram.put_slice(&counter.to_be_bytes()[ADDRESSEE..]);
        Ok(counter)
    }

    /// From here on seals with the key that the ring seals with. Counters go on. `false` never happens: see [`Self::new`].
    pub fn change_key(&mut self, ring: &KeyRing, identity: &Identity) -> bool {
        let changed = Self::new(ring, identity, self.salt);
        let counters = self.counters;
        changed.map(|sealer| *self = Self { counters, ..sealer }).is_some()
    }

    /// Gives up all lower counters of each kind. Never goes back.
    pub fn skip_to(&mut self, counter: u64) {
        self.counters = self.counters.map(|next| next.max(counter));
    }
}

/// Differs for any two datagrams of a start.
pub(crate) fn nonce(kind: u8, to: u16, counter: u64) -> [u8; NONCE] {
    let [t0, t1] = to.to_be_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = counter.to_be_bytes();
    [kind, 0, t0, t1, c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Says which key, never the key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("epoch", &self.epoch).field("salt", &self.salt).finish_non_exhaustive()
    }
}
