//! The figures of the thesis's sixth chapter over the windows.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::ring_grid::{Network, PERSONAL, millis_of};
use super::scale::Scale;
use super::spread_site::{Case, setting};
use crate::parallel;
use crate::wires::LEN;
use consort_ring::Priority;

/// How long each cell is measured, in milliseconds.
const MILLIS: u64 = 120;
/// Accelerated windows, in quarters of the personal window.
const QUARTERS: [u32; 5] = [0, 1, 2, 3, 4];

/// Throughput at one setting of the windows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    personal: u32,
    /// None for the original ring.
    accelerated: Option<u32>,
    mbits: f64,
}

/// Throughput of Spread over its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    setting: String,
    /// In order of the personal window: the original ring, then accelerated windows.
    cells: Vec<Cell>,
}

impl Windows {
    /// Runs all settings.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(scale: Scale, network: &'static Network, priority: Priority) -> Result<Self, String> {
        let mut settings = Vec::new();
        for personal in PERSONAL {
            let mut windows: Vec<_> = QUARTERS.iter().map(|quarters| Some(personal * quarters / 4)).collect();
            windows.dedup();
            settings.extend([None].into_iter().chain(windows).map(|accelerated| (personal, accelerated)));
        }
        let cells = parallel::map(&settings, |(personal, accelerated)| {
            let case = Case { priority, ..Case::full(network, *personal, *accelerated) };
            let mbits = case.run(scale, millis_of(*personal, *accelerated, MILLIS))?.mbits;
            Ok(Cell { personal: *personal, accelerated: *accelerated, mbits })
        })?;
        let method = if priority == Priority::Method1 { "first" } else { "second, stricter" };
        let load =
            format!(" All always send messages of {LEN} bytes; {method} method; {} ms a cell.", scale.scaled(MILLIS));
        Ok(Self { setting: setting(network) + &load, cells })
    }

    fn original(&self, personal: u32) -> f64 {
        let mut of = self.cells.iter().filter(|cell| cell.personal == personal && cell.accelerated.is_none());
        of.next().map_or(f64::NAN, |cell| cell.mbits)
    }

    /// By accelerated window.
    fn accelerated(&self, personal: u32) -> Vec<(u32, f64)> {
        let of = self.cells.iter().filter(|cell| cell.personal == personal);
        of.filter_map(|cell| Some((cell.accelerated?, cell.mbits))).collect()
    }

    /// At the accelerated window with the highest throughput.
    fn best(&self, personal: u32) -> f64 {
        largest(self.accelerated(personal).into_iter().map(|(_, mbits)| mbits))
    }

    /// With no packet after the token.
    fn none(&self, personal: u32) -> f64 {
        self.accelerated(personal).first().map_or(f64::NAN, |(_, mbits)| *mbits)
    }

    /// With all packets after the token.
    fn all(&self, personal: u32) -> f64 {
        self.accelerated(personal).last().map_or(f64::NAN, |(_, mbits)| *mbits)
    }

    /// Up to these personal windows, the least step to the next accelerated window.
    fn rises(&self, up_to: u32) -> Claim {
        let steps = PERSONAL.iter().filter(|personal| **personal <= up_to).flat_map(|personal| {
            let cells = self.accelerated(*personal);
            cells.windows(2).map(|pair| pair[1].1 / pair[0].1).collect::<Vec<_>>()
        });
        let what = format!("least step of throughput to the next accelerated window, personal up to {up_to}");
        Claim::at_least(&what, "rises", least(steps), 0.99, "times")
    }

    fn over_accelerated(&self, claims: Vec<Claim>) -> Outcome {
        let curve = |personal: &u32| {
            let points =
                self.accelerated(*personal).into_iter().map(|(accelerated, mbits)| (f64::from(accelerated), mbits));
            Curve::line(format!("personal {personal}"), points.collect())
        };
        self.outcome("accelerated window, packets", PERSONAL.iter().map(curve).collect(), claims)
    }

    fn over_personal(&self, claims: Vec<Claim>) -> Outcome {
        let curve = |name: &str, of: &dyn Fn(u32) -> f64| {
            Curve::line(name, PERSONAL.iter().map(|personal| (f64::from(*personal), of(*personal))).collect())
        };
        let curves = vec![
            curve("accelerated", &|personal| self.best(personal)),
            curve("original", &|personal| self.original(personal)),
        ];
        self.outcome("personal window, packets", curves, claims)
    }

    fn outcome(&self, x: &'static str, curves: Vec<Curve>, claims: Vec<Claim>) -> Outcome {
        let (x, y) = (Axis::linear(x), Axis::linear("throughput, Mbit/s"));
        let chart = Chart { title: "Throughput".into(), x, y, curves };
        Outcome { setting: self.setting.clone(), charts: vec![chart], claims }
    }
}

/// The largest of these, 0 of none.
pub fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// The least personal window at which a ring carries nearly all it can.
fn enough(of: &dyn Fn(u32) -> f64) -> f64 {
    let most = largest(PERSONAL.iter().map(|personal| of(*personal)));
    PERSONAL.iter().find(|personal| of(**personal) >= 0.97 * most).map_or(f64::NAN, |personal| f64::from(*personal))
}

pub fn figure_6_1(windows: &Windows) -> Result<Outcome, String> {
    let most = largest(PERSONAL.map(|personal| windows.best(personal)));
    let claims = vec![
        Claim::at_least("largest throughput", "over 900 Mbit/s", most, 900.0, "Mbit/s"),
        windows.rises(30),
        Claim::at_most(
            "personal 100, all accelerated, by its best: loss sets in",
            "severe loss",
            windows.all(100) / windows.best(100),
            0.95,
            "times",
        ),
    ];
    Ok(windows.over_accelerated(claims))
}

pub fn figure_6_2(windows: &Windows) -> Result<Outcome, String> {
    let ratio = least(PERSONAL.map(|personal| windows.best(personal) / windows.original(personal)));
    let most = largest(PERSONAL.map(|personal| windows.best(personal)));
    let sooner = enough(&|personal| windows.best(personal)) / enough(&|personal| windows.original(personal));
    let claims = vec![
        Claim::at_least("accelerated by original, at the worst personal window", "higher at each", ratio, 1.0, "times"),
        Claim::at_least(
            "accelerated at personal 20 by its most",
            "the maximum",
            windows.best(20) / most,
            0.95,
            "times",
        ),
        Claim::at_most(
            "personal window for 97 % of the most, accelerated by original",
            "much lower",
            sooner,
            0.5,
            "times",
        ),
    ];
    Ok(windows.over_personal(claims))
}

pub fn figure_6_10(windows: &Windows) -> Result<Outcome, String> {
    let large = largest([40, 50, 70, 100].map(|personal| windows.none(personal)));
    let swings = [50, 70, 100].map(|personal| {
        let cells = windows.accelerated(personal).into_iter().map(|(_, mbits)| mbits);
        largest(cells.clone()) / least(cells)
    });
    let claims = vec![
        windows.rises(20),
        Claim::at_most(
            "largest by least throughput, personal 50 to 100",
            "almost constant",
            largest(swings),
            1.1,
            "times",
        ),
        Claim::at_least(
            "none accelerated: personal 20 by the best of 40 and more",
            "higher",
            windows.none(20) / large,
            1.0,
            "times",
        ),
    ];
    Ok(windows.over_accelerated(claims))
}

pub fn figure_6_11(windows: &Windows) -> Result<Outcome, String> {
    let none: Vec<_> = PERSONAL.iter().map(|personal| windows.none(*personal)).collect();
    let loses = largest([50, 70, 100].map(|personal| windows.all(personal) / windows.none(personal)));
    let claims = vec![
        Claim::at_least(
            "none accelerated: least step to the next personal window",
            "generally increases",
            least(none.windows(2).map(|pair| pair[1] / pair[0])),
            0.99,
            "times",
        ),
        windows.rises(20),
        Claim::at_most("personal 50 to 100, all accelerated by none", "loss degrades it", loses, 0.97, "times"),
    ];
    Ok(windows.over_accelerated(claims))
}

pub fn figure_6_12(windows: &Windows) -> Result<Outcome, String> {
    let most = |of: &dyn Fn(u32) -> f64| largest(PERSONAL.map(of));
    let (accelerated, original) =
        (most(&|personal| windows.best(personal)), most(&|personal| windows.original(personal)));
    let sooner = enough(&|personal| windows.best(personal)) / enough(&|personal| windows.original(personal));
    let claims = vec![
        Claim::near("most of the accelerated ring by that of the original", 1.0, accelerated / original, 10.0, "times"),
        Claim::at_least(
            "accelerated at personal 20 by its most",
            "the maximum",
            windows.best(20) / accelerated,
            0.95,
            "times",
        ),
        Claim::at_most(
            "personal window for 97 % of the most, accelerated by original",
            "smaller",
            sooner,
            0.5,
            "times",
        ),
        Claim::at_most(
            "accelerated at personal 100 by its most",
            "degrades",
            windows.best(100) / accelerated,
            0.97,
            "times",
        ),
    ];
    Ok(windows.over_personal(claims))
}

pub fn figure_6_13(windows: &Windows) -> Result<Outcome, String> {
    let ratio = least(PERSONAL.map(|personal| windows.best(personal) / windows.original(personal)));
    let same = largest([50, 70, 100].map(|personal| (windows.none(personal) / windows.original(personal) - 1.0).abs()));
    let claims = vec![
        Claim::at_least("accelerated by original, at the worst personal window", "never below", ratio, 0.99, "times"),
        Claim::at_most("none accelerated, off the original, personal 50 to 100", "the same", 100.0 * same, 5.0, "%"),
    ];
    Ok(windows.over_personal(claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accelerated_window_is_the_one_that_carries_most() {
        let cell = |personal, accelerated, mbits| Cell { personal, accelerated, mbits };
        let cells = vec![cell(5, None, 9.0), cell(5, Some(0), 4.0), cell(5, Some(2), 7.0), cell(5, Some(5), 6.0)];
        let windows = Windows { setting: String::new(), cells };
        assert_eq!((windows.original(5), windows.none(5), windows.all(5), windows.best(5)), (9.0, 4.0, 6.0, 7.0));
        assert!(windows.original(10).is_nan());
    }

    #[test]
    fn a_ring_has_enough_where_it_carries_nearly_all_it_can() {
        let carried = |personal| if personal < 30 { f64::from(personal) } else { 30.5 };
        assert_eq!(enough(&carried), 30.0);
    }
}
