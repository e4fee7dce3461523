//! Bytes on the wire. Every decoder is total: whatever the bytes, the answer is a value or a [`Malformed`], never a
//! panic and never an allocation larger than the input.
//!
//! Codecs have two levels. A *view* has checked that the bytes have the form they claim and reads fields in place; a
//! *value* cannot express nonsense and owns what it needs. Integers are big-endian.
//!
//! | module | what |
//! |---|---|
//! | [`bump`] | memory for what is written |
//! | [`copy`] | large copies in small steps |
//! | [`cursor`] | reading and writing fields |
//! | [`envelope`] | the 56 bytes before every packet: cluster, configuration, sender, checksum, room for a tag |
//! | [`payload`] | message bytes as a rope of shared slices, so that nothing is copied between the edges |
//! | [`pack`] | small messages packed into, large ones cut into, the bodies of equally large packets |
//! | [`path_mtu`] | what drivers say to each other: probes of the ways between them, pieces of datagrams too long for one |

pub mod bump;
pub mod copy;
pub mod cursor;
pub mod envelope;
pub mod mutate;
pub mod pack;
pub mod path_mtu;
pub mod payload;

pub use bump::Bump;
pub use bytes::{Bytes, BytesMut};
pub use copy::append;
pub use cursor::{Reader, Writer};
pub use envelope::{Envelope, Identity, Proof, Rejected};
pub use payload::{Payload, RopeReader};

use consort_types::MemberId;

/// Bytes that do not have the form they claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("malformed {what} at byte {at}")]
pub struct Malformed {
    /// The field that is wrong or missing.
    pub what: &'static str,
    /// Where reading stopped, counted from the start of the packet or frame.
    pub at: usize,
}

/// The logical channel a packet travels on. A driver keeps a socket for tokens apart from the one for data, so that an
/// engine can choose which to read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// The token and what must not wait behind data; unicast.
    Token = 0,
    /// Messages; multicast.
    Data = 1,
    /// Membership and hints; shares the data path when multicast, the token's when unicast.
    Control = 2,
    /// A reliable, ordered stream to one peer.
    Reliable = 3,
}

impl Lane {
    /// All lanes, in wire order.
    pub const ALL: [Self; 4] = [Self::Token, Self::Data, Self::Control, Self::Reliable];

    /// The lane with this number on the wire.
    pub const fn from_wire(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Token),
            1 => Some(Self::Data),
            2 => Some(Self::Control),
            3 => Some(Self::Reliable),
            _ => None,
        }
    }
}

/// What an engine sends and receives.
pub trait Packet: Sized {
    /// Appends the packet's fields to `head` and returns what follows them unchanged, shared and not copied (empty for
    /// most packets).
    fn encode(&self, head: &mut BytesMut) -> Bytes;

    /// In which of the networks of its node it leaves, where there are several. 0 for each of them.
    fn network(&self) -> u8 {
        0
    }

    /// Reads a packet back. Shares `bytes` where the packet carries a payload.
    ///
    /// # Errors
    /// [`Malformed`] for any bytes that `encode` cannot have written.
    fn decode(bytes: Bytes) -> Result<Self, Malformed>;
}

/// How many bytes one protocol packet may take as one datagram, envelope included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramSize(u16);

impl DatagramSize {
    /// What every IPv4 path carries.
    pub const MIN: usize = 576;
    /// Below the largest UDP payload, with room for a second header.
    pub const MAX: usize = 65_000;
    /// Fills one Ethernet frame over IPv4. Take 1440 where frames travel in a tunnel or over IPv6.
    pub const DEFAULT: Self = Self(1472);

    /// Checks a size in bytes of UDP payload.
    ///
    /// # Errors
    /// A sentence that names the limits.
    pub fn new(bytes: usize) -> Result<Self, String> {
        if !(Self::MIN..=Self::MAX).contains(&bytes) {
            return Err(format!("a datagram of {bytes} bytes is out of range; use {} to {}", Self::MIN, Self::MAX));
        }
        u16::try_from(bytes).map(Self).map_err(|e| e.to_string())
    }

    /// The size in bytes.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// What is left for an engine's packet once the envelope has its place.
    pub const fn packet_room(self) -> usize {
        self.get() - envelope::LEN
    }
}

impl Default for DatagramSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The largest message by default, in bytes: 16 MiB.
pub const MESSAGE_MAX: usize = 16 << 20;

/// The bytes of a [`MemberId`] on the wire.
pub const MEMBER_LEN: usize = 10;

impl Reader<'_> {
    /// Reads one member.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes end early.
    pub fn member(&mut self, what: &'static str) -> Result<MemberId, Malformed> {
        let node = self.u16(what)?;
        Ok(MemberId::new(node, self.u64(what)?))
    }
}
