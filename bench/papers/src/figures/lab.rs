//! What figures share: the seed, how long each is run, and grids that several of them show.
use super::ring_grid::{GIGABIT, Grid, Network, TEN_GIGABIT};
use super::scale::Scale;
use super::spread::Windows;
use super::spread_loads::{self, Loads};
use super::spread_sizes::{self, Sizes};
use super::toto_loads::{Load, loads};
use crate::losses::{self, Losses};
use crate::parallel;
use crate::swaps::{self, Pair};
use consort_ring::Priority;
use std::sync::OnceLock;

/// Packets a second at which PLATO's swaps are counted.
const RATES: [u64; 6] = [400, 800, 1_200, 1_600, 2_400, 4_000];
/// Packets a second at which its losses are counted.
pub const LOSS_RATES: [u64; 10] = [400, 800, 1_200, 1_600, 2_000, 2_400, 2_800, 3_200, 3_600, 4_000];
/// How long a run of PLATO lasts, in seconds.
pub const SECONDS: u64 = 60;

/// Packets a second, and those that followed each other at a receiver.
type RatePairs = (u64, Vec<Pair>);

/// What figures are run with.
pub struct Lab {
    /// Where all chance comes from, and for how long.
    pub scale: Scale,
    gigabit: OnceLock<Result<Grid, String>>,
    ten_gigabit: OnceLock<Result<Grid, String>>,
    pairs: OnceLock<Result<Vec<RatePairs>, String>>,
    losses: OnceLock<Result<Vec<(u64, Losses)>, String>>,
    toto: OnceLock<Result<Vec<Load>, String>>,
    spread: [OnceLock<Result<Windows, String>>; 3],
    spread_loads: [OnceLock<Result<Loads, String>>; 2],
    spread_sizes: [OnceLock<Result<Sizes, String>>; 2],
}

impl Lab {
    /// Nothing is run yet.
    pub const fn new(seed: u64, quick: bool) -> Self {
        Self {
            scale: Scale { seed, quick },
            gigabit: OnceLock::new(),
            ten_gigabit: OnceLock::new(),
            pairs: OnceLock::new(),
            losses: OnceLock::new(),
            toto: OnceLock::new(),
            spread: [const { OnceLock::new() }; 3],
            spread_loads: [const { OnceLock::new() }; 2],
            spread_sizes: [const { OnceLock::new() }; 2],
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

    /// Packets that followed each other at a receiver of PLATO, by how many came in a second; run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn pairs(&self) -> Result<&[RatePairs], String> {
        let bench = swaps::Lab { seconds: self.scaled(SECONDS) };
        let run = || parallel::map(&RATES, |rate| Ok((*rate, swaps::pairs(self.scale.seed, &bench, *rate)?)));
        self.pairs.get_or_init(run).as_deref().map_err(Clone::clone)
    }

    /// What a receiver of PLATO loses that is switched out, by how many packets came in a second; run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn losses(&self) -> Result<&[(u64, Losses)], String> {
        let run = |rate: &u64| Ok((*rate, losses::run(self.scale.seed, self.scaled(SECONDS), *rate)?));
        self.losses.get_or_init(|| parallel::map(&LOSS_RATES, run)).as_deref().map_err(Clone::clone)
    }

    /// ToTo and all-ack under all loads of its tables, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn toto(&self) -> Result<&[Load], String> {
        self.toto.get_or_init(|| loads(self.scale)).as_deref().map_err(Clone::clone)
    }

    /// Spread's windows on 1 Gbit/s, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_gigabit(&self) -> Result<&Windows, String> {
        self.spread_windows(0, &GIGABIT, Priority::Method1)
    }

    /// The same on 10 Gbit/s.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_ten(&self) -> Result<&Windows, String> {
        self.spread_windows(1, &TEN_GIGABIT, Priority::Method1)
    }

    /// The same with the stricter method.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_strict(&self) -> Result<&Windows, String> {
        self.spread_windows(2, &TEN_GIGABIT, Priority::Method2)
    }

    fn spread_windows(&self, at: usize, network: &'static Network, priority: Priority) -> Result<&Windows, String> {
        let run = || Windows::run(self.scale, network, priority);
        self.spread[at].get_or_init(run).as_ref().map_err(Clone::clone)
    }

    /// Spread's latency over the load on 1 Gbit/s, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_loads(&self) -> Result<&Loads, String> {
        self.spread_loads[0].get_or_init(|| spread_loads::gigabit(self.scale)).as_ref().map_err(Clone::clone)
    }

    /// The same on 10 Gbit/s.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_ten_loads(&self) -> Result<&Loads, String> {
        self.spread_loads[1].get_or_init(|| spread_loads::ten_gigabit(self.scale)).as_ref().map_err(Clone::clone)
    }

    /// Spread's throughput over message sizes on 1 Gbit/s, run once.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_sizes(&self) -> Result<&Sizes, String> {
        self.spread_sizes[0].get_or_init(|| spread_sizes::gigabit(self.scale)).as_ref().map_err(Clone::clone)
    }

    /// The same on 10 Gbit/s.
    ///
    /// # Errors
    /// What kept it from being run.
    pub fn spread_ten_sizes(&self) -> Result<&Sizes, String> {
        self.spread_sizes[1].get_or_init(|| spread_sizes::ten_gigabit(self.scale)).as_ref().map_err(Clone::clone)
    }
}
