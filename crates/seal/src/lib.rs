//! Sealed datagrams: whoever lacks the cluster's key can neither read nor forge one, nor send an old one again.
//!
//! Pure: no clock, no socket, no file. Random bytes and the time are handed in; the driver calls [`Sealer`] for each
//! datagram that leaves and [`Opener`] for each that comes, before anything else looks at it.
//!
//! A sealed datagram has the [`envelope`](consort_wire::envelope) of a plain one. The key epoch is not 0, the tag's room
//! holds the sender's salt, the packet behind the envelope is encrypted, and 24 bytes follow it:
//!
//! | off | size | field |
//! |---|---|---|
//! | 22 | 2 | key epoch, 1 or more |
//! | 40 | 16 | salt: one byte for the cipher, 15 of chance, drawn anew at each start |
//! | 56 | | the packet, encrypted |
//! | end - 24 | 16 | authentication tag over the envelope and the packet |
//! | end - 8 | 2 | the node that it is for; 0 for all |
//! | end - 6 | 6 | counter |
//!
//! The key follows from the cluster's key, the epoch, the cluster, the node, its incarnation and the salt ([`keys`]).
//! The nonce is kind, addressee and counter: no two datagrams of one start have the same, so none is used twice with a
//! key, whatever was lost or whatever the clock says. Windows drop what comes twice ([`window`]). What was recorded in
//! an earlier incarnation of sender or receiver is never taken: a sender is heard once it has named the receiver's own
//! salt in a greeting ([`greeting`], [`opener`]).
//!
//! | module | what |
//! |---|---|
//! | [`cipher`] | the two ciphers, and which of them this processor does faster |
//! | [`epochs`] | which keys' datagrams are taken |
//! | [`greeting`] | what nodes say to prove that they speak now |
//! | [`key_file`] | a cluster's keys as text |
//! | [`keys`] | from a cluster's key to one sender's |
//! | [`opener`] | what comes: opened, or refused with its cause |
//! | [`sealer`] | what leaves |
//! | `session` | one start of one sender, as its receivers know it |
//! | `view` | what a datagram says of itself, and why one is refused |
//! | [`window`] | what came already |

pub mod cipher;
pub mod epochs;
pub mod greeting;
pub mod key_file;
pub mod keys;
pub mod opener;
pub mod sealer;
mod session;
mod view;
pub mod window;

pub use cipher::Cipher;
pub use epochs::Epochs;
pub use keys::{KeyEpoch, KeyRing, Salt};
pub use opener::{Opened, Opener};
pub use sealer::{Exhausted, Sealer};
pub use view::Unopened;

/// So many bytes a sealed datagram is longer than the same one plain.
pub const OVERHEAD: usize = TAG + ADDRESSEE + COUNTER;
const TAG: usize = 16;
const ADDRESSEE: usize = 2;
const COUNTER: usize = 6;
/// The last counter that is used: 2^48 - 1.
pub const COUNTER_LAST: u64 = (1 << (8 * COUNTER)) - 1;

/// The kinds of datagrams, each counted by itself: the lanes, then what drivers say to each other.
const KINDS: [u8; 8] = [0, 1, 2, RELIABLE, 16, 17, 18, greeting::KIND];
/// The kind of frames in reliable links.
const RELIABLE: u8 = consort_wire::Lane::Reliable as u8;

/// The place of a kind among those that there are.
fn place(kind: u8) -> Option<usize> {
    KINDS.iter().position(|known| *known == kind)
}

#[cfg(test)]
mod tests;
