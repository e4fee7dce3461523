//! The figures of the thesis's fifth chapter.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::ring_grid::{Cell, Grid, PERSONAL};

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Throughput,
    Agreed,
    Safe,
}

impl Quantity {
    const fn of(self, cell: &Cell) -> f64 {
        match self {
            Self::Throughput => cell.mbits,
            Self::Agreed => cell.agreed_us,
            Self::Safe => cell.safe_us,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Throughput => "Throughput",
            Self::Agreed => "Agreed delivery",
            Self::Safe => "Safe delivery",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Throughput => "throughput, Mbit/s",
            Self::Agreed | Self::Safe => "mean latency, us",
        }
    }
}

/// The thesis says so of the curves: up to 40 packets throughput rises with the accelerated window.
fn rises(grid: &Grid) -> Claim {
    let steps = PERSONAL.iter().filter(|personal| **personal < 40).flat_map(|personal| {
        let cells: Vec<_> = grid.accelerated(*personal).map(|(_, cell)| cell.mbits).collect();
        cells.windows(2).map(|pair| pair[1] / pair[0]).collect::<Vec<_>>()
    });
    let least = steps.fold(f64::INFINITY, f64::min);
    let what = "least step of throughput to the next accelerated window, personal below 40";
    Claim::at_least(what, "rises", least, 0.99, "times")
}

/// Latency rises with the personal window: the least step from one to the next at the same share of acceleration.
fn latency_rises(grid: &Grid, shows: Quantity) -> Claim {
    let halves: Vec<_> =
        PERSONAL.iter().filter_map(|personal| grid.accelerated(*personal).nth(2).map(|(_, cell)| cell)).collect();
    let least = halves.windows(2).map(|pair| shows.of(&pair[1]) / shows.of(&pair[0])).fold(f64::INFINITY, f64::min);
    Claim::at_least("least step of latency to the next personal window, half accelerated", "rises", least, 1.0, "times")
}

/// Latency falls a little with the accelerated window: from none to three quarters, where nothing is lost.
fn latency_falls(grid: &Grid, shows: Quantity) -> Claim {
    let ratio = |personal: &u32| {
        let cells: Vec<_> = grid.accelerated(*personal).map(|(_, cell)| shows.of(&cell)).collect();
        Some(cells.get(3)? / cells.first()?)
    };
    let most = PERSONAL.iter().filter(|personal| **personal < 40).filter_map(ratio).fold(0.0, f64::max);
    let what = "latency with three quarters accelerated by that with none, personal below 40";
    Claim::at_most(what, "falls slightly", most, 1.02, "times")
}

/// A value that the thesis states.
fn near(shows: Quantity, what: &str, paper: f64, cell: Option<Cell>) -> Option<Claim> {
    let (percent, unit) = if shows == Quantity::Throughput { (10.0, "Mbit/s") } else { (25.0, "us") };
    cell.map(|cell| Claim::near(what, paper, shows.of(&cell), percent, unit))
}

/// The thesis's summary: the most that the accelerated ring carries, by the most that the original does.
fn at_most_each(grid: &Grid, paper: &str, least: f64) -> Claim {
    let original = PERSONAL.iter().filter_map(|personal| grid.original(*personal)).map(|cell| cell.mbits);
    let best = PERSONAL.iter().filter_map(|personal| grid.best(*personal)).map(|cell| cell.mbits);
    let gain = best.fold(0.0, f64::max) / original.fold(0.0, f64::max);
    Claim::at_least("most of the accelerated ring by that of the original", paper, gain, least, "times")
}

pub fn figure_5_1(lab: &Lab) -> Result<Outcome, String> {
    let grid = lab.gigabit()?;
    let most_of = |personal| grid.accelerated(personal).map(|(_, cell)| cell.mbits).fold(0.0, f64::max);
    let last = grid.accelerated(100).last().map(|(_, cell)| cell.mbits);
    let claims = vec![
        Some(Claim::near("largest throughput", 1_022.0, grid.most(), 5.0, "Mbit/s")),
        Some(rises(grid)),
        last.map(|last| {
            let what = "personal 100, all accelerated, by its best: loss sets in";
            Claim::at_most(what, "drops sharply", last / most_of(100), 0.95, "times")
        }),
    ];
    Ok(outcome(grid, over_accelerated(grid, Quantity::Throughput), claims))
}

pub fn figure_5_2(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Agreed);
    Ok(outcome(
        grid,
        over_accelerated(grid, shows),
        vec![Some(latency_rises(grid, shows)), Some(latency_falls(grid, shows))],
    ))
}

pub fn figure_5_3(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Safe);
    Ok(outcome(
        grid,
        over_accelerated(grid, shows),
        vec![Some(latency_rises(grid, shows)), Some(latency_falls(grid, shows))],
    ))
}

pub fn figure_5_4(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Throughput);
    let claims = vec![
        near(shows, "accelerated, personal 30", 986.0, grid.best(30)),
        near(shows, "original, personal 30", 713.0, grid.original(30)),
        near(shows, "original, personal 100", 840.0, grid.original(100)),
        Some(at_most_each(grid, "+21 %", 1.15)),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(30.0, 986.0), (30.0, 713.0), (100.0, 840.0)]), claims))
}

pub fn figure_5_5(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Agreed);
    let claims = vec![
        near(shows, "accelerated, personal 30", 1_698.0, grid.best(30)),
        near(shows, "original, personal 30", 2_140.0, grid.original(30)),
        near(shows, "original, personal 100", 5_904.0, grid.original(100)),
        gain(grid, shows, 30, 30)
            .map(|gain| Claim::at_most("accelerated by original, personal 30", "-21 %", gain, -10.0, "%")),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(30.0, 1_698.0), (30.0, 2_140.0), (100.0, 5_904.0)]), claims))
}

pub fn figure_5_6(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Safe);
    let claims = vec![
        near(shows, "accelerated, personal 30", 7_099.0, grid.best(30)),
        near(shows, "original, personal 30", 7_675.0, grid.original(30)),
        near(shows, "original, personal 100", 23_378.0, grid.original(100)),
        gain(grid, shows, 30, 30)
            .map(|gain| Claim::at_most("accelerated by original, personal 30", "-8 %", gain, 0.0, "%")),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(30.0, 7_099.0), (30.0, 7_675.0), (100.0, 23_378.0)]), claims))
}

pub fn figure_5_7(lab: &Lab) -> Result<Outcome, String> {
    let grid = lab.ten_gigabit()?;
    let cells: Vec<_> = grid.accelerated(100).map(|(_, cell)| cell.mbits).collect();
    let most = cells.iter().copied().fold(0.0, f64::max);
    let claims = vec![
        Some(Claim::near("largest throughput", 4_595.0, grid.most(), 5.0, "Mbit/s")),
        cells.first().map(|none| Claim::near("personal 100, none accelerated", 4_300.0, *none, 10.0, "Mbit/s")),
        Some(Claim::near("personal 100, best", 4_500.0, most, 10.0, "Mbit/s")),
        grid.original(100).map(|cell| Claim::near("original, personal 100", 2_980.0, cell.mbits, 10.0, "Mbit/s")),
        Some(rises(grid)),
    ];
    Ok(outcome(grid, over_accelerated(grid, Quantity::Throughput), claims))
}

pub fn figure_5_8(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Agreed);
    let last = grid.accelerated(40).last().map(|(_, cell)| cell.agreed_us);
    let claims = vec![
        last.map(|us| Claim::near("personal 40, all accelerated", 562.0, us, 25.0, "us")),
        Some(latency_rises(grid, shows)),
        Some(latency_falls(grid, shows)),
    ];
    Ok(outcome(grid, over_accelerated(grid, shows), claims))
}

pub fn figure_5_9(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Safe);
    let last = grid.accelerated(40).last().map(|(_, cell)| cell.safe_us);
    let claims = vec![
        last.map(|us| Claim::near("personal 40, all accelerated", 2_220.0, us, 25.0, "us")),
        Some(latency_rises(grid, shows)),
        Some(latency_falls(grid, shows)),
    ];
    Ok(outcome(grid, over_accelerated(grid, shows), claims))
}

pub fn figure_5_10(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Throughput);
    let claims = vec![
        grid.best(40).map(|cell| Claim::near("accelerated, personal 40", 4_100.0, cell.mbits, 10.0, "Mbit/s")),
        gain(grid, shows, 40, 40).map(|gain| Claim::near("gain at personal 40", 68.0, gain, 25.0, "%")),
        gain(grid, shows, 40, 100).map(|gain| Claim::near("gain of 40 over the original's 100", 40.0, gain, 25.0, "%")),
        Some(at_most_each(grid, "+53 %", 1.3)),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(40.0, 4_100.0), (40.0, 2_440.0), (100.0, 2_980.0)]), claims))
}

pub fn figure_5_11(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Agreed);
    let claims = vec![
        gain(grid, shows, 40, 40).map(|gain| Claim::at_most("gain at personal 40", "-30 %", gain, -20.0, "%")),
        gain(grid, shows, 40, 100)
            .map(|gain| Claim::at_most("gain of 40 over the original's 100", "-65 %", gain, -50.0, "%")),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(40.0, 562.0)]), claims))
}

pub fn figure_5_12(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Safe);
    let claims = vec![
        gain(grid, shows, 40, 40).map(|gain| Claim::at_most("gain at personal 40", "-23 %", gain, -15.0, "%")),
        gain(grid, shows, 40, 100)
            .map(|gain| Claim::at_most("gain of 40 over the original's 100", "-60 %", gain, -45.0, "%")),
    ];
    Ok(outcome(grid, over_personal(grid, shows, vec![(40.0, 2_220.0)]), claims))
}

/// Over the accelerated window, a curve for each personal window.
fn over_accelerated(grid: &Grid, shows: Quantity) -> Chart {
    let curve = |personal: &u32| {
        let points = grid.accelerated(*personal).map(|(accelerated, cell)| (f64::from(accelerated), shows.of(&cell)));
        Curve::line(format!("personal {personal}"), points.collect())
    };
    let x = Axis::linear("accelerated window, packets");
    chart(shows, x, PERSONAL.iter().map(curve).collect())
}

/// Over the personal window: the best accelerated window, and the original ring.
fn over_personal(grid: &Grid, shows: Quantity, paper: Vec<(f64, f64)>) -> Chart {
    let curve = |name: &str, of: &dyn Fn(u32) -> Option<Cell>| {
        let point = |personal: &u32| Some((f64::from(*personal), shows.of(&of(*personal)?)));
        Curve::line(name, PERSONAL.iter().filter_map(point).collect())
    };
    let mut curves = vec![
        curve("accelerated", &|personal| grid.best(personal)),
        curve("original", &|personal| grid.original(personal)),
    ];
    curves.push(Curve::paper("stated by the thesis", paper));
    chart(shows, Axis::linear("personal window, packets"), curves)
}

fn outcome(grid: &Grid, chart: Chart, claims: Vec<Option<Claim>>) -> Outcome {
    let setting = grid.setting.clone();
    Outcome { setting, charts: vec![chart], claims: claims.into_iter().flatten().collect() }
}

/// What the accelerated ring gains with `one` personal window over the original ring with `other`, in %.
fn gain(grid: &Grid, shows: Quantity, one: u32, other: u32) -> Option<f64> {
    let (best, original) = (grid.best(one)?, grid.original(other)?);
    Some(100.0 * (shows.of(&best) / shows.of(&original) - 1.0))
}

fn chart(shows: Quantity, x: Axis, curves: Vec<Curve>) -> Chart {
    Chart { title: shows.title().into(), x, y: Axis::linear(shows.label()), curves }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_what_the_best_window_adds_to_the_original_ring() {
        let cell = |accelerated, safe_us| Cell { personal: 5, accelerated, mbits: 1.0, agreed_us: 1.0, safe_us };
        let grid =
            Grid { setting: String::new(), cells: vec![cell(None, 1.0), cell(Some(2), 3.0), cell(Some(5), 4.0)] };
        assert_eq!(gain(&grid, Quantity::Safe, 5, 5), Some(200.0));
        assert_eq!(gain(&grid, Quantity::Safe, 6, 5), None);
    }
}
