//! What rides along with a Spread client's message and matters only to receivers that are Spread clients, too.
use crate::header::NO_HINT;
use crate::kind::{AGREED, REGULAR, SELF_DISCARD, of_service};
use consort_types::Service;

/// The exact level asked for, whether the sender wants its own copy, and the hint. Travels as [`MulticastNote::LEN`] bytes: the
/// low byte of the type, then the hint as its sender wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastNote {
    kind: u8,
    hint: [u8; 4],
}

impl MulticastNote {
    /// The bytes of a note.
    pub const LEN: usize = 5;

    /// The note of a message of this type, with this hint. Of the type only the level and the wish to be left out are kept.
    pub const fn new(kind: u32, hint: [u8; 4]) -> Self {
        Self { kind: (kind & (REGULAR | SELF_DISCARD)) as u8, hint }
    }

    /// The note of a message that no Spread client has sent.
    pub const fn of(service: Service) -> Self {
        Self::new(of_service(service), NO_HINT)
    }

    /// As it travels.
    pub const fn encode(self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.hint;
        [self.kind, a, b, c, d]
    }

    /// Reads a note. One that no daemon writes is one of an agreed message.
    pub fn decode(bytes: [u8; Self::LEN]) -> Self {
        let [kind, a, b, c, d] = bytes;
        let level = u32::from(kind) & REGULAR;
        let level = if level.is_power_of_two() { level } else { AGREED };
        Self::new(level | u32::from(kind) & SELF_DISCARD, [a, b, c, d])
    }

    /// The type that receivers see.
    pub const fn kind(self) -> u32 {
        self.kind as u32
    }

    /// The hint, as its sender wrote it.
    pub const fn hint(self) -> [u8; 4] {
        self.hint
    }

    /// Whether the session that sent it wants no copy.
    pub const fn is_self_discard(self) -> bool {
        self.kind() & SELF_DISCARD != 0
    }
}
