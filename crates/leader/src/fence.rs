//! Fencing numbers: each leader's is greater than that of every leader before.
use std::fmt;
use std::str::FromStr;

/// A fencing number. A leader's is greater than that of every leader of its group before, so whoever keeps the greatest one
/// it has seen can turn away a leader that is late. Written as a decimal number of up to 39 digits.
///
/// ```
/// use consort_leader::Fence;
///
/// let fence = Fence::new(12, 7);
/// assert_eq!(fence.to_string().parse(), Ok(fence));
/// assert!(fence < Fence::new(13, 1) && u128::from(fence) == (12 << 76) + 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    view: u64,
    place: u128,
}

/// So many of a fence's bits are its place; the others name the view. Views that are named after the time fit into 52 bits.
const PLACE: u32 = 76;
/// So many bits of a place are the index in a batch, which has at most 16 KiB.
const INDEX: u32 = 13;
/// What engines mark positions with that they deliver while a view is closing.
const CLOSING: u64 = 1 << 63;

/// The place of a message in its view: later ones are greater, also those of one batch, which have one position.
pub fn place(position: u64, index: u16) -> u128 {
    u128::from(position & !CLOSING) << INDEX | u128::from(index.min((1 << INDEX) - 1))
}

impl Fence {
    /// The fence of a leader whose claim stands in this view, at this place, of which 76 bits count.
    pub const fn new(view: u64, place: u128) -> Self {
        //= L09
        Self { view, place: place & ((1 << PLACE) - 1) }
    }

    /// The view that counts in which the leader was elected.
    pub const fn view(self) -> u64 {
        self.view
    }
}

impl From<Fence> for u128 {
    fn from(fence: Fence) -> Self {
        Self::from(fence.view) << PLACE | fence.place
    }
}

impl From<u128> for Fence {
    fn from(number: u128) -> Self {
        Self::new((number >> PLACE) as u64, number)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        u128::from(*self).fmt(f)
    }
}

/// Why a text is no fence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no fencing number: give a decimal number of up to 39 digits")]
pub struct FenceError {
    text: String,
}

impl FromStr for Fence {
    type Err = FenceError;

    fn from_str(text: &str) -> Result<Self, FenceError> {
        text.parse::<u128>().map(Self::from).map_err(|_| FenceError { text: text.to_owned() })
    }
}
