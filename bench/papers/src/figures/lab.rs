//! What figures share: the seed, how long each is run, and grids that several of them show.
use super::{ring, toto};
use std::sync::OnceLock;

/// What figures are run with.
pub struct Lab {
    /// Where all chance comes from.
    pub seed: u64,
    /// A tenth of the time, for a look; verdicts may differ.
    pub quick: bool,
    gigabit: OnceLock<Result<ring::Grid, String>>,
    ten_gigabit: OnceLock<Result<ring::Grid, String>>,
    toto: OnceLock<Result<Vec<toto::Load>, String>>,
}

impl Lab {
    /// Nothing is run yet.
    pub const fn new(seed: u64, quick: bool) -> Self {
        Self { seed, quick, gigabit: OnceLock::new(), ten_gigabit: OnceLock::new(), toto: OnceLock::new() }
    }

    /// So much, or a tenth of it.
    pub const fn scaled(&self, amount: u64) -> u64 {
        if self.quick { amount.div_ceil(10) } else { amount }
    }

    /// The windows of the thesis's fifth chapter on 1 Gbit/s, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn gigabit(&self) -> Result<&ring::Grid, String> {
        self.gigabit.get_or_init(|| ring::Grid::run(self, &ring::GIGABIT)).as_ref().map_err(Clone::clone)
    }

    /// The same on 10 Gbit/s.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn ten_gigabit(&self) -> Result<&ring::Grid, String> {
        self.ten_gigabit.get_or_init(|| ring::Grid::run(self, &ring::TEN_GIGABIT)).as_ref().map_err(Clone::clone)
    }

    /// ToTo and all-ack under all loads of its tables, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn toto(&self) -> Result<&[toto::Load], String> {
        self.toto.get_or_init(|| toto::loads(self)).as_deref().map_err(Clone::clone)
    }
}
