//! ToTo and all-ack under the loads of the paper's tables.
use super::scale::Scale;
use crate::model;
use crate::parallel;
use crate::toto::{self, Cell, Measured, PAPER, PAPER_NODES};
use crate::traffic::Pace;
use consort_toto::Phi;

/// How many runs make a cell.
pub const RUNS: u64 = 40;

/// Both protocols under one load of the tables.
#[derive(Clone, Debug)]
pub struct Load {
    /// When each sends.
    pub pace: Pace,
    /// All messages of a second.
    pub rate: u64,
    /// ToTo.
    pub toto: Half,
    /// The same with Phi = n.
    pub all_ack: Half,
}

/// One protocol: what the paper measured, what was measured here, and what the paper's model makes of that.
#[derive(Clone, Debug)]
pub struct Half {
    /// The paper's mean latency.
    pub paper_ms: f64,
    /// What was measured here.
    pub measured: Measured,
}

impl Half {
    /// The mean latency here.
    pub fn ms(&self) -> f64 {
        self.measured.latency.summary().mean
    }

    /// The paper's model of it.
    pub fn model_ms(&self, pace: Pace, rate: u64) -> f64 {
        model::latency(pace, PAPER_NODES, PAPER_NODES as f64 / rate as f64, self.measured.joint())
    }
}

/// Runs all loads of the tables.
///
/// # Errors
/// What kept a run from its end.
pub fn loads(scale: Scale) -> Result<Vec<Load>, String> {
    let bench = toto::Lab { runs: scale.scaled(RUNS), ..toto::Lab::default() };
    parallel::map(&PAPER, |(pace, rate, of_toto, of_all_ack)| {
        let half = |paper_ms: f64, phi| {
            let cell = Cell { pace: *pace, load: *rate, phi };
            Ok::<_, String>(Half { paper_ms, measured: toto::cell(scale.seed, &bench, cell)? })
        };
        let (toto, all_ack) = (half(*of_toto, Phi::Half)?, half(*of_all_ack, Phi::All)?);
        Ok(Load { pace: *pace, rate: *rate, toto, all_ack })
    })
}
