//! The figures of the thesis's sixth chapter over the load.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::ring_grid::{GIGABIT, Network, TEN_GIGABIT};
use super::scale::Scale;
use super::spread::largest;
use super::spread_site::{Case, setting};
use crate::parallel;
use crate::wires::{LEN, Load, Measured, Work};

/// How long each place on a curve is measured, in milliseconds.
const MILLIS: u64 = 250;
/// The windows of the accelerated ring, and of the original one.
const WINDOWS: [(u32, Option<u32>); 2] = [(20, Some(20)), (200, None)];

/// Latency over the load, agreed and safe, of the accelerated and the original ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    setting: String,
    rates: Vec<u32>,
    /// By the rate: agreed, then safe; of each the accelerated ring, then the original.
    cells: Vec<[[Measured; 2]; 2]>,
}

impl Loads {
    /// Runs all loads, in megabits per second.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(scale: Scale, network: &'static Network, rates: &[u32]) -> Result<Self, String> {
        let cells = parallel::map(rates, |rate| {
            let load = Load::Rate(f64::from(*rate) * 1e6 / (LEN * 8) as f64);
            let of = |work| {
                let run = |(personal, accelerated)| {
                    Case { work, ..Case::full(network, personal, accelerated) }.run(scale, MILLIS)
                };
                Ok::<_, String>([run(WINDOWS[0])?, run(WINDOWS[1])?])
            };
            Ok([of(Work::agreed(load))?, of(Work::safe(load))?])
        })?;
        let load = format!(
            " Clients send messages of {LEN} bytes at random times; windows 20 and 20, original 200; {} ms a place.",
            scale.scaled(MILLIS)
        );
        Ok(Self { setting: setting(network) + &load, rates: rates.to_vec(), cells })
    }

    fn at(&self, level: Level, rate: u32) -> [f64; 2] {
        let place = self.rates.iter().position(|known| *known == rate);
        place.map_or([f64::NAN; 2], |place| self.cells[place][level as usize].map(|measured| measured.mean_us))
    }

    /// Latency of the accelerated ring by that of the original.
    fn ratio(&self, level: Level, rate: u32) -> f64 {
        let [accelerated, original] = self.at(level, rate);
        accelerated / original
    }

    /// Up to which load each ring keeps up, in Mbit/s: it gives out what is put in.
    fn carried(&self, level: Level) -> [f64; 2] {
        let keeps_up = |ring: usize| {
            let kept = self
                .rates
                .iter()
                .zip(&self.cells)
                .take_while(|(rate, cells)| cells[level as usize][ring].mbits >= 0.96 * f64::from(**rate));
            kept.last().map_or(f64::NAN, |(rate, _)| f64::from(*rate))
        };
        [keeps_up(0), keeps_up(1)]
    }

    /// A curve for each ring as far as it keeps up.
    fn outcome(&self, level: Level, claims: Vec<Claim>) -> Outcome {
        let carried = self.carried(level);
        let curve = |ring: usize, name: &str| {
            let kept = self.rates.iter().filter(|rate| f64::from(**rate) <= carried[ring]);
            Curve::line(name, kept.map(|rate| (f64::from(*rate), self.at(level, *rate)[ring])).collect())
        };
        let curves = vec![curve(0, "accelerated, 20 and 20"), curve(1, "original, 200")];
        let (x, y) = (Axis::linear("load, Mbit/s"), Axis::linear("mean latency, us"));
        let chart = Chart { title: format!("{level:?} delivery"), x, y, curves };
        Outcome { setting: self.setting.clone(), charts: vec![chart], claims }
    }

    /// The latency of the accelerated ring by that of the original, where the thesis names a load.
    fn gains(&self, level: Level, rate: u32, paper: &str, most: f64) -> Claim {
        let what = format!("accelerated by original at {rate} Mbit/s");
        Claim::at_most(&what, paper, self.ratio(level, rate), most, "times")
    }
}

/// A level of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Agreed,
    Safe,
}

/// Loads on each network, in Mbit/s.
const GIGABIT_LOADS: [u32; 10] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000];
const TEN_GIGABIT_LOADS: [u32; 10] = [200, 400, 600, 800, 1_000, 1_200, 1_300, 1_400, 1_600, 1_800];

/// All loads on 1 Gbit/s.
pub fn gigabit(scale: Scale) -> Result<Loads, String> {
    Loads::run(scale, &GIGABIT, &GIGABIT_LOADS)
}

/// All loads on 10 Gbit/s.
pub fn ten_gigabit(scale: Scale) -> Result<Loads, String> {
    Loads::run(scale, &TEN_GIGABIT, &TEN_GIGABIT_LOADS)
}

pub fn figure_6_3(loads: &Loads) -> Result<Outcome, String> {
    let level = Level::Agreed;
    let spikes = |ring: usize, from: u32, to: u32| loads.at(level, to)[ring] / loads.at(level, from)[ring];
    let claims = vec![
        loads.gains(level, 600, "-77 %", 0.5),
        loads.gains(level, 700, "-80 %", 0.5),
        Claim::at_least("accelerated at 1000 by that at 900 Mbit/s", "spikes", spikes(0, 900, 1_000), 3.0, "times"),
        Claim::at_least("original at 800 by that at 700 Mbit/s", "spikes", spikes(1, 700, 800), 3.0, "times"),
    ];
    Ok(loads.outcome(level, claims))
}

pub fn figure_6_4(loads: &Loads) -> Result<Outcome, String> {
    let level = Level::Safe;
    let higher = largest(GIGABIT_LOADS.iter().filter(|rate| **rate <= 600).map(|rate| loads.ratio(level, *rate)));
    let claims = vec![
        loads.gains(level, 600, "-63 %", 0.65),
        Claim::at_most("accelerated by original at the worst load up to 600", "lower overall", higher, 1.0, "times"),
    ];
    Ok(loads.outcome(level, claims))
}

pub fn figure_6_14(loads: &Loads) -> Result<Outcome, String> {
    let level = Level::Agreed;
    let higher = largest(TEN_GIGABIT_LOADS.iter().filter(|rate| **rate <= 1_200).map(|rate| loads.ratio(level, *rate)));
    let claims = vec![
        loads.gains(level, 1_200, "-49 %", 0.65),
        Claim::at_most("accelerated by original at the worst load up to 1200", "lower at each", higher, 1.0, "times"),
    ];
    Ok(loads.outcome(level, claims))
}

pub fn figure_6_15(loads: &Loads) -> Result<Outcome, String> {
    let level = Level::Safe;
    let from = TEN_GIGABIT_LOADS.iter().filter(|rate| (400..=1_200).contains(*rate));
    let higher = largest(from.map(|rate| loads.ratio(level, *rate)));
    let claims = vec![
        loads.gains(level, 1_200, "-26 %", 0.85),
        loads.gains(level, 1_300, "-27 %", 0.85),
        Claim::at_most("accelerated by original at the worst load from 400 on", "lower", higher, 1.0, "times"),
    ];
    Ok(loads.outcome(level, claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_up_as_far_as_it_gives_out_what_is_put_in() {
        let cell = |mbits, mean_us| Measured { mbits, mean_us, ..Measured::default() };
        let at = |accelerated, original| [[cell(accelerated, 100.0), cell(original, 400.0)]; 2];
        let cells = vec![at(100.0, 100.0), at(199.0, 150.0), at(250.0, 299.0)];
        let loads = Loads { setting: String::new(), rates: vec![100, 200, 300], cells };
        assert_eq!(loads.carried(Level::Agreed), [200.0, 100.0]);
        assert_eq!(loads.ratio(Level::Safe, 200), 0.25);
        assert!(loads.ratio(Level::Safe, 400).is_nan());
    }
}
