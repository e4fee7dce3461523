//! What the token carries of the load: how much was sent, and what members saw of it.

/// Something sent, counted both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentLoad {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl SentLoad {
    /// Counts one packet more.
    pub(crate) fn add_packet(&mut self, bytes: usize) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Both counts raised by another's.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets.saturating_add(other.packets), bytes: self.bytes.saturating_add(other.bytes) }
    }

    /// Both counts lowered by another's, never below nothing.
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self { packets: self.packets.saturating_sub(other.packets), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Whether both counts are at least another's.
    pub(crate) const fn covers(self, other: Self) -> bool {
        self.packets >= other.packets && self.bytes >= other.bytes
    }
}

/// What members have seen that bears on the windows, in one rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationSigns {
    /// Somebody had more to send than the windows let it.
    pub hungry: bool,
    /// Somebody's receive queue is half full.
    pub deep: bool,
    /// Somebody's receive queue ran over, or nearly.
    pub overflowed: bool,
    /// How many packets the member misses that missed most, each counted once.
    pub lost: u16,
}

impl RotationSigns {
    const HUNGRY: u8 = 1;
    const DEEP: u8 = 2;
    const OVERFLOWED: u8 = 4;

    /// The signs that these flags and this number stand for; `None` where a flag has no meaning.
    pub(crate) fn new(flags: u8, lost: u16) -> Option<Self> {
        let has = |flag| flags & flag != 0;
        let known = flags & !(Self::HUNGRY | Self::DEEP | Self::OVERFLOWED) == 0;
        let (hungry, deep, overflowed) = (has(Self::HUNGRY), has(Self::DEEP), has(Self::OVERFLOWED));
        known.then_some(Self { hungry, deep, overflowed, lost })
    }

    /// The flags as a byte.
    pub(crate) fn flags(self) -> u8 {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        flag(self.hungry, Self::HUNGRY) | flag(self.deep, Self::DEEP) | flag(self.overflowed, Self::OVERFLOWED)
    }

    /// Both: whatever one of them has seen, and the larger loss.
    pub(crate) fn and(self, other: Self) -> Self {
        //= R39
        Self {
            hungry: self.hungry || other.hungry,
            deep: self.deep || other.deep,
            overflowed: self.overflowed || other.overflowed,
            lost: self.lost.max(other.lost),
        }
    }
}
