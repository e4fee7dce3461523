//! The seed of figures, and how long each is run.

/// What every figure is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Where all chance comes from.
    pub seed: u64,
    /// A tenth of the time, for a look; verdicts may differ.
    pub quick: bool,
}

impl Scale {
    /// So much, or a tenth of it.
    pub const fn scaled(self, amount: u64) -> u64 {
        if self.quick { amount.div_ceil(10) } else { amount }
    }
}
