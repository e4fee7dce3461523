//! Several cases, each measured several times: once through the list, then back, so that what the machine does meanwhile
//! meets all alike.
use super::floor;
use super::idle_states::Awake;
use super::sample::{Figures, Sample, Work, alone};
use super::setup::Setup;
use crate::failure::{Failure, Outcome};
use consort_testbed::Times;
use std::io::{self, Write};

/// One of the cases that are compared.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub setup: Setup,
    pub work: Work,
    /// Whether processors are kept from sleeping.
    pub awake: bool,
}

/// A case with all that was measured of it.
#[derive(Debug)]
pub struct Tried {
    pub case: Case,
    pub samples: Vec<Sample>,
}

/// Measures all cases, each as often as its setup wants. The floor is measured before each.
pub fn run(cases: Vec<Case>) -> Outcome<Vec<Tried>> {
    let mut all: Vec<Tried> = cases.into_iter().map(|case| Tried { case, samples: Vec::new() }).collect();
    let runs = all.first().map_or(0, |tried| tried.case.setup.runs);
    let several = runs > 1 || all.len() > 1;
    for run in 0..runs {
        for place in order(all.len(), run) {
            let Some(tried) = all.get_mut(place) else { continue };
            tried.try_once()?;
            if several && !tried.case.setup.outlet.json {
                tell(run, tried)?;
            }
        }
    }
    Ok(all)
}

/// To, then fro.
fn order(len: usize, run: u32) -> Box<dyn Iterator<Item = usize>> {
    if run.is_multiple_of(2) { Box::new(0..len) } else { Box::new((0..len).rev()) }
}

fn tell(run: u32, tried: &Tried) -> Outcome {
    let Some(Sample { figures, .. }) = tried.samples.last() else { return Ok(()) };
    let mut out = io::stdout();
    writeln!(
        out,
        "  run {:>3}  {:<24} {:>10.0} ordered/s   p50 {:>8.0} us   p99 {:>8.0} us",
        run + 1,
        tried.case.name,
        figures.ordered_per_s,
        figures.latency_us.p50,
        figures.latency_us.p99
    )?;
    Ok(out.flush()?)
}

impl Tried {
    fn try_once(&mut self) -> Outcome {
        let _awake = if self.case.awake { Some(Awake::keep()?) } else { None };
        let floor = floor::measure(&self.case.setup)?;
        let sample = alone(&self.case.setup, self.case.work, floor)?;
        if !sample.figures.agreed {
            return Err(Failure::new("the receivers did not see the same complete sequence; please report this"));
        }
        self.samples.push(sample);
        Ok(())
    }

    /// The medians of all runs.
    pub fn median(&self) -> Outcome<Figures> {
        let all: Vec<&Figures> = self.samples.iter().map(|sample| &sample.figures).collect();
        Figures::median(&all).ok_or_else(|| Failure::new("nothing was measured"))
    }

    /// The times of all runs together, as points of a curve.
    pub fn curve(&self) -> Outcome<Vec<(f64, f64)>> {
        let mut times = Times::new()?;
        self.samples.iter().for_each(|sample| times.add(&sample.times.pack()));
        Ok(times.curve())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_run_goes_backwards() {
        let places = |run| order(3, run).collect::<Vec<_>>();
        assert_eq!([places(0), places(1), places(2)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }
}
