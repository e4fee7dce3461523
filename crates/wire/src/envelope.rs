//! The envelope: 56 bytes before every packet that say whose it is and that it arrived whole.
//!
//! | off | size | field |
//! |---|---|---|
//! | 0 | 2 | magic `c0 4e` |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | lane |
//! | 4 | 8 | cluster id |
//! | 12 | 8 | configuration hash |
//! | 20 | 2 | sender's node index |
//! | 22 | 2 | key epoch; 0 = plain |
//! | 24 | 8 | sender's incarnation |
//! | 32 | 8 | nonce; 0 while plain |
//! | 40 | 16 | while plain a CRC-32 of all else, then 12 zero bytes; of sealed ones the sender's salt |
//!
//! The checksum stands in front so that the payload behind the packet's header can leave from where it lies. What is sealed
//! has 24 bytes more at its end (crate `consort-seal`), and only what was opened there is looked at here.
//!
//! What drivers say to each other wears the same envelope, with a kind of 16 or above in the lane's place: see
//! [`path_mtu`](crate::path_mtu).
use crate::{Lane, Malformed, Reader};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use consort_types::{ClusterId, ConfigHash, MemberId};

/// The envelope's bytes.
pub const LEN: usize = 56;
/// The first two bytes of every datagram.
pub const MAGIC: u16 = 0xc04e;
/// The version of everything that crosses the network between daemons.
pub const VERSION: u8 = 1;
/// Where the kind stands: a lane's number, or that of something drivers say to each other.
pub const KIND_AT: usize = 3;
const KEY_EPOCH_AT: usize = 22;
const NONCE_AT: usize = 32;
const TAG_AT: usize = 40;

/// What a node stamps on every datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The settings it shares with the others.
    pub config: ConfigHash,
    /// Itself.
    pub me: MemberId,
}

/// By what a datagram shows that it is as its sender wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// By its checksum: it travelled plain.
    #[default]
    Checksum,
    /// It was sealed, and the driver has opened it.
    Opened,
}

/// The value of an envelope that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sent the packet.
    pub from: MemberId,
    /// On which lane.
    pub lane: Lane,
}

/// Why a datagram was dropped before its packet was looked at. Dropped datagrams are counted by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Rejected {
    /// Shorter than an envelope, or without the magic.
    #[error("not a Consort datagram")]
    Foreign,
    /// Another version of the wire format.
    #[error("wire version {0}, this is version {VERSION}")]
    Version(u8),
    /// Another cluster on the same network.
    #[error("cluster {0}")]
    Cluster(ClusterId),
    /// The same cluster, other settings.
    #[error("configuration {0}: settings differ between the nodes")]
    Configuration(ConfigHash),
    /// Sealed with a key although this cluster talks plainly.
    #[error("key epoch {0}, but no key is configured")]
    KeyEpoch(u16),
    /// Bytes changed on the way.
    #[error("checksum does not match")]
    Checksum,
    /// No such lane.
    #[error("lane {0}")]
    Lane(u8),
    /// Our own datagram, looped back by multicast. Legal.
    #[error("own datagram")]
    Own,
    /// The envelope is right, the packet in it is not.
    #[error(transparent)]
    Packet(#[from] Malformed),
}

impl Rejected {
    /// The cause's name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Version(_) => "version",
            Self::Cluster(_) => "cluster",
            Self::Configuration(_) => "configuration",
            Self::KeyEpoch(_) => "key_epoch",
            Self::Checksum => "checksum",
            Self::Lane(_) => "lane",
            Self::Own => "own",
            Self::Packet(_) => "malformed",
        }
    }
}

/// Keeps the envelope's room at the front of an empty buffer.
pub fn reserve(head: &mut BytesMut) {
    head.put_bytes(0, LEN);
}

/// Fills the reserved room once the packet's fields stand behind it. `body` follows `head` on the wire.
pub fn seal(identity: &Identity, lane: Lane, head: &mut BytesMut, body: &[u8]) {
    stamp(identity, lane as u8, 0, head, body);
}

/// The same for what travels on no lane: `kind` stands in the lane's place, and what the nonce's bytes say is its own.
pub(crate) fn stamp(identity: &Identity, kind: u8, nonce: u64, head: &mut BytesMut, body: &[u8]) {
    write(identity, kind, nonce, head);
    let sum = checksum(&head[..TAG_AT], &head[LEN..], body);
    head[TAG_AT..TAG_AT + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Fills the reserved room without a checksum, for what is sealed before it leaves.
///
/// # Panics
/// If there is no room.
pub fn stamp_unsummed(identity: &Identity, kind: u8, head: &mut BytesMut) {
    write(identity, kind, 0, head);
}

/// Writes into an envelope with which key, and by which start of its sender, the datagram is being sealed.
///
/// # Panics
/// If there is no envelope.
pub fn mark_sealed(datagram: &mut [u8], key_epoch: u16, salt: &[u8; LEN - TAG_AT]) {
    datagram[KEY_EPOCH_AT..KEY_EPOCH_AT + 2].copy_from_slice(&key_epoch.to_be_bytes());
    datagram[TAG_AT..LEN].copy_from_slice(salt);
}

/// Replaces what the nonce's bytes say, before the datagram is sealed.
///
/// # Panics
/// If there is no envelope.
pub fn set_nonce(datagram: &mut [u8], nonce: u64) {
    datagram[NONCE_AT..TAG_AT].copy_from_slice(&nonce.to_be_bytes());
}

fn write(identity: &Identity, kind: u8, nonce: u64, head: &mut BytesMut) {
    let mut front = &mut head[..TAG_AT];
    front.put_u16(MAGIC);
    front.put_u8(VERSION);
    front.put_u8(kind);
    front.put_u64(identity.cluster.0);
    front.put_u64(identity.config.0);
    front.put_u16(identity.me.node.0);
    front.put_u16(0);
    front.put_u64(identity.me.incarnation.0);
    front.put_u64(nonce);
}

fn checksum(front: &[u8], fields: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(front);
    hasher.update(fields);
    hasher.update(body);
    hasher.finalize()
}

/// Checks an envelope and returns it with the packet behind it.
///
/// # Errors
/// [`Rejected`] says why the datagram must be dropped.
pub fn open(identity: &Identity, datagram: Bytes) -> Result<(Envelope, Bytes), Rejected> {
    open_as(identity, Proof::Checksum, datagram)
}

/// The same of a datagram that has that proof.
///
/// # Errors
/// [`Rejected`] says why the datagram must be dropped.
pub fn open_as(identity: &Identity, proof: Proof, mut datagram: Bytes) -> Result<(Envelope, Bytes), Rejected> {
    let view = EnvelopeView::new(&datagram)?;
    view.check(identity, proof)?;
    let envelope = Envelope { from: view.from(), lane: view.lane().ok_or(Rejected::Lane(view.kind()))? };
    datagram.advance(LEN);
    Ok((envelope, datagram))
}

/// Checked bytes: long enough, with the magic and the version. Fields are read where they lie.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeView<'a>(&'a [u8]);

impl<'a> EnvelopeView<'a> {
    /// Checks length, magic and version.
    ///
    /// # Errors
    /// [`Rejected::Foreign`] or [`Rejected::Version`].
    pub fn new(datagram: &'a [u8]) -> Result<Self, Rejected> {
        if datagram.len() < LEN || datagram[..2] != MAGIC.to_be_bytes() {
            return Err(Rejected::Foreign);
        }
        if datagram[2] != VERSION {
            return Err(Rejected::Version(datagram[2]));
        }
        Ok(Self(datagram))
    }

    /// Checks that another node of this node's cluster, with its settings, sent it, and that it arrived whole.
    ///
    /// # Errors
    /// [`Rejected`].
    #[inline]
    pub(crate) fn check(self, identity: &Identity, proof: Proof) -> Result<(), Rejected> {
        if self.cluster() != identity.cluster {
            return Err(Rejected::Cluster(self.cluster()));
        }
        if self.config() != identity.config {
            return Err(Rejected::Configuration(self.config()));
        }
        let is_plain = proof == Proof::Checksum;
        if is_plain && self.key_epoch() != 0 {
            return Err(Rejected::KeyEpoch(self.key_epoch()));
        }
        // Our own datagrams come back by multicast: the sum of what we have just summed is not worth its time.
        if self.from() == identity.me {
            return Err(Rejected::Own);
        }
        if !is_plain || self.is_whole() { Ok(()) } else { Err(Rejected::Checksum) }
    }

    /// The lane, if there is one of that number.
    pub const fn lane(self) -> Option<Lane> {
        Lane::from_wire(self.kind())
    }

    /// What stands where the lane does.
    pub const fn kind(self) -> u8 {
        self.0[KIND_AT]
    }

    /// What stands where the nonce does.
    pub fn nonce(self) -> u64 {
        self.number(NONCE_AT)
    }

    /// The salt of a sealed datagram; of a plain one its checksum and zeros.
    pub fn salt(self) -> [u8; LEN - TAG_AT] {
        let mut salt = [0; LEN - TAG_AT];
        salt.copy_from_slice(&self.0[TAG_AT..LEN]);
        salt
    }

    /// The cluster.
    pub fn cluster(self) -> ClusterId {
        ClusterId(self.number(4))
    }

    /// The sender's settings.
    pub fn config(self) -> ConfigHash {
        ConfigHash(self.number(12))
    }

    /// Which key the packet is sealed with; 0 for none.
    pub fn key_epoch(self) -> u16 {
        u16::from_be_bytes([self.0[KEY_EPOCH_AT], self.0[KEY_EPOCH_AT + 1]])
    }

    /// The sender.
    pub fn from(self) -> MemberId {
        MemberId::new(u16::from_be_bytes([self.0[20], self.0[21]]), self.number(24))
    }

    /// Whether the checksum matches, and the unused part of the tag and the nonce are zero.
    pub fn is_whole(self) -> bool {
        let sum = checksum(&self.0[..TAG_AT], &self.0[LEN..], &[]);
        self.0[TAG_AT..TAG_AT + 4] == sum.to_be_bytes() && self.0[TAG_AT + 4..LEN].iter().all(|b| *b == 0)
    }

    fn number(self, at: usize) -> u64 {
        Reader::new(&self.0[at..]).u64("envelope").unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(node: u16) -> Identity {
        Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, 77) }
    }

    fn sealed(from: &Identity) -> BytesMut {
        let mut head = BytesMut::new();
        reserve(&mut head);
        head.put_slice(b"fields");
        seal(from, Lane::Data, &mut head, b"body");
        head.put_slice(b"body");
        head
    }

    #[test]
    fn what_is_sealed_opens_at_another_node() {
        let (envelope, packet) = open(&identity(2), sealed(&identity(1)).freeze()).unwrap();
        assert_eq!(envelope, Envelope { from: MemberId::new(1, 77), lane: Lane::Data });
        assert_eq!(&packet[..], b"fieldsbody");
    }

    #[test]
    fn every_wrong_datagram_is_refused_with_its_cause() {
        let me = identity(2);
        let good = sealed(&identity(1));
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            open(&me, bad.freeze()).unwrap_err().name()
        };
        assert_eq!(open(&me, Bytes::new()).unwrap_err(), Rejected::Foreign);
        assert_eq!(open(&me, good.clone().freeze().slice(..LEN - 1)).unwrap_err(), Rejected::Foreign);
        assert_eq!(open(&me, good.clone().freeze().slice(..LEN + 3)).unwrap_err(), Rejected::Checksum);
        assert_eq!(open(&identity(1), good.clone().freeze()).unwrap_err(), Rejected::Own);
        assert_eq!(with(0, 0), "foreign");
        assert_eq!(with(2, 9), "version");
        assert_eq!(with(4, 9), "cluster");
        assert_eq!(with(12, 9), "configuration");
        assert_eq!(with(23, 9), "key_epoch");
        assert_eq!(with(LEN + 1, 9), "checksum");
        assert_eq!(with(TAG_AT + 9, 9), "checksum");
    }

    #[test]
    fn what_was_opened_needs_no_checksum_and_is_checked_for_all_else() {
        let (me, mut good) = (identity(2), sealed(&identity(1)));
        mark_sealed(&mut good, 3, &[9; 16]);
        let opened = |datagram: &BytesMut| open_as(&me, Proof::Opened, datagram.clone().freeze());
        assert_eq!(opened(&good).unwrap().1, &b"fieldsbody"[..]);
        assert_eq!(open(&me, good.clone().freeze()).unwrap_err(), Rejected::KeyEpoch(3));
        let view = EnvelopeView::new(&good).unwrap();
        assert_eq!((view.key_epoch(), view.salt(), view.nonce()), (3, [9; 16], 0));
        set_nonce(&mut good, 7);
        assert_eq!(EnvelopeView::new(&good).unwrap().nonce(), 7);
        for (at, cause) in [(0, "foreign"), (2, "version"), (4, "cluster"), (12, "configuration")] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(opened(&bad).unwrap_err().name(), cause);
        }
        assert_eq!(open_as(&identity(1), Proof::Opened, good.freeze()).unwrap_err(), Rejected::Own);
    }

    #[test]
    fn a_lane_that_does_not_exist_is_refused() {
        let mut bad = sealed(&identity(1));
        bad[3] = 9;
        let sum = checksum(&bad[..TAG_AT], &bad[LEN..], &[]);
        bad[TAG_AT..TAG_AT + 4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(open(&identity(2), bad.freeze()).unwrap_err(), Rejected::Lane(9));
    }

    #[test]
    fn no_mutation_panics() {
        crate::mutate::each(&sealed(&identity(1)), 5_000, |bytes| {
            let _ = open(&identity(2), Bytes::copy_from_slice(bytes));
        });
    }
}
