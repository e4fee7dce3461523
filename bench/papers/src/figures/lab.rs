//! What figures share: the seed, how long each is run, and grids that several of them show.
use super::ring_grid::{GIGABIT, Grid, TEN_GIGABIT};
use super::scale::Scale;
use super::toto_loads::{Load, loads};
use std::sync::OnceLock;

/// What figures are run with.
pub struct Lab {
    /// Where all chance comes from.
    pub seed: u64,
    scale: Scale,
    gigabit: OnceLock<Result<Grid, String>>,
    ten_gigabit: OnceLock<Result<Grid, String>>,
    toto: OnceLock<Result<Vec<Load>, String>>,
}

impl Lab {
    /// Nothing is run yet.
    pub const fn new(seed: u64, quick: bool) -> Self {
        Self {
            seed,
            scale: Scale { seed, quick },
            gigabit: OnceLock::new(),
            ten_gigabit: OnceLock::new(),
            toto: OnceLock::new(),
        }
    }

    /// So much, or a tenth of it.
    pub const fn scaled(&self, amount: u64) -> u64 {
        self.scale.scaled(amount)
    }

    /// The windows of the thesis's fifth chapter on 1 Gbit/s, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn gigabit(&self) -> Result<&Grid, String> {
        self.gigabit.get_or_init(|| Grid::run(self.scale, &GIGABIT)).as_ref().map_err(Clone::clone)
    }

    /// The same on 10 Gbit/s.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn ten_gigabit(&self) -> Result<&Grid, String> {
        self.ten_gigabit.get_or_init(|| Grid::run(self.scale, &TEN_GIGABIT)).as_ref().map_err(Clone::clone)
    }

    /// ToTo and all-ack under all loads of its tables, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn toto(&self) -> Result<&[Load], String> {
        self.toto.get_or_init(|| loads(self.scale)).as_deref().map_err(Clone::clone)
    }
}
