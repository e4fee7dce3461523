//! The thesis's fifth chapter: its model of the Accelerated Ring, without membership and clients, on eight hosts.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::parallel;
use crate::windows::fixed;
use crate::wires::{LEN, Load, Site, Wires, Work};
use consort_ring::{Acceleration, Priority, RingConfig, Windows};
use consort_sim::HostModel;
use consort_types::Duration;

/// How many hosts.
pub const MEMBERS: usize = 8;
/// Personal windows, in packets.
const PERSONAL: [u32; 8] = [5, 10, 20, 30, 40, 50, 70, 100];
/// Accelerated windows, in quarters of the personal window.
const QUARTERS: [u32; 5] = [0, 1, 2, 3, 4];
/// How long a ring runs before it is measured.
const BEFORE: Duration = Duration::from_millis(40);
/// How long each cell is measured, in milliseconds.
const MILLIS: u64 = 120;

/// The hosts of the chapter: what reproduces its original ring. One calibration for both networks.
pub const HOST: HostModel = HostModel {
    receive: Duration::from_nanos(1_800),
    send: Duration::from_nanos(3_200),
    picos_per_byte: 300,
    message: Duration::ZERO,
    timer: Duration::ZERO,
    disk: Duration::ZERO,
    socket: 2 << 20,
    overhead: 768,
};

/// A network of the chapter.
#[derive(Debug)]
pub struct Network {
    /// As it is named.
    pub name: &'static str,
    /// In bits per second.
    pub rate: u64,
    /// On each side of the switch.
    pub delay: Duration,
    /// What a port of the switch holds, in bytes.
    pub port: usize,
}

/// The Cisco switch.
pub const GIGABIT: Network =
    Network { name: "1 Gbit/s", rate: 1_000_000_000, delay: Duration::from_micros(30), port: 256 << 10 };
/// The Arista switch.
pub const TEN_GIGABIT: Network =
    Network { name: "10 Gbit/s", rate: 10_000_000_000, delay: Duration::from_micros(12), port: 512 << 10 };

impl Network {
    /// Its switch, with these hosts.
    pub const fn site(&self) -> Site {
        Site { rate: self.rate, delay: self.delay, port: self.port, loss: 0.0, host: HOST }
    }
}

/// One setting of the windows, under full load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The personal window.
    pub personal: u32,
    /// The accelerated window; none for the original ring.
    pub accelerated: Option<u32>,
    /// Payload that each member delivers, in Mbit/s.
    pub mbits: f64,
    /// Mean latency of agreed and of safe messages, made up half at the token and half right after it, in microseconds.
    pub agreed_us: f64,
    /// As said.
    pub safe_us: f64,
}

/// All settings on one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// How it was run.
    pub setting: String,
    /// In order of the personal window: the original ring, then accelerated windows.
    pub cells: Vec<Cell>,
}

impl Grid {
    /// Runs them all.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(lab: &Lab, network: &Network) -> Result<Self, String> {
        let millis = lab.scaled(MILLIS);
        let mut settings = Vec::new();
        for personal in PERSONAL {
            settings.push((personal, None));
            let mut windows: Vec<_> = QUARTERS.iter().map(|quarters| personal * quarters / 4).collect();
            windows.dedup();
            settings.extend(windows.into_iter().map(|accelerated| (personal, Some(accelerated))));
        }
        let cells = parallel::map(&settings, |(personal, accelerated)| cell(network, *personal, *accelerated, millis))?;
        Ok(Self { setting: setting(network, millis), cells })
    }

    /// The original ring with this personal window.
    pub fn original(&self, personal: u32) -> Option<Cell> {
        self.cells.iter().copied().find(|cell| cell.personal == personal && cell.accelerated.is_none())
    }

    /// The accelerated window with which safe messages take least, as the thesis chooses. A window of 0 is not among them: on
    /// these hosts, which have one stage, it is the original ring.
    pub fn best(&self, personal: u32) -> Option<Cell> {
        let of = self.cells.iter().copied();
        let of = of.filter(|cell| cell.personal == personal && cell.accelerated.is_some_and(|window| window > 0));
        of.min_by(|one, other| one.safe_us.total_cmp(&other.safe_us))
    }

    /// The accelerated windows of one personal window.
    fn accelerated(&self, personal: u32) -> impl Iterator<Item = (u32, Cell)> {
        let of = self.cells.iter().filter(move |cell| cell.personal == personal);
        of.filter_map(|cell| Some((cell.accelerated?, *cell)))
    }

    /// The largest throughput of the accelerated ring.
    fn most(&self) -> f64 {
        let accelerated = self.cells.iter().filter(|cell| cell.accelerated.is_some());
        accelerated.map(|cell| cell.mbits).fold(0.0, f64::max)
    }

    /// Over the accelerated window, a curve for each personal window.
    fn over_accelerated(&self, shows: Quantity) -> Chart {
        let curve = |personal: &u32| {
            let points =
                self.accelerated(*personal).map(|(accelerated, cell)| (f64::from(accelerated), shows.of(&cell)));
            Curve::line(format!("personal {personal}"), points.collect())
        };
        let x = Axis::linear("accelerated window, packets");
        chart(shows, x, PERSONAL.iter().map(curve).collect())
    }

    /// Over the personal window: the best accelerated window, and the original ring.
    fn over_personal(&self, shows: Quantity, paper: Vec<(f64, f64)>) -> Chart {
        let curve = |name: &str, of: &dyn Fn(u32) -> Option<Cell>| {
            let point = |personal: &u32| Some((f64::from(*personal), shows.of(&of(*personal)?)));
            Curve::line(name, PERSONAL.iter().filter_map(point).collect())
        };
        let mut curves = vec![
            curve("accelerated", &|personal| self.best(personal)),
            curve("original", &|personal| self.original(personal)),
        ];
        curves.push(Curve::paper("stated by the thesis", paper));
        chart(shows, Axis::linear("personal window, packets"), curves)
    }

    fn outcome(&self, chart: Chart, claims: Vec<Option<Claim>>) -> Outcome {
        let setting = self.setting.clone();
        Outcome { setting, charts: vec![chart], claims: claims.into_iter().flatten().collect() }
    }

    /// What the accelerated ring gains with `one` personal window over the original ring with `other`, in %.
    fn gain(&self, shows: Quantity, one: u32, other: u32) -> Option<f64> {
        let (best, original) = (self.best(one)?, self.original(other)?);
        Some(100.0 * (shows.of(&best) / shows.of(&original) - 1.0))
    }
}

fn chart(shows: Quantity, x: Axis, curves: Vec<Curve>) -> Chart {
    Chart { title: shows.title().into(), x, y: Axis::linear(shows.label()), curves }
}

fn setting(network: &Network, millis: u64) -> String {
    let Network { name, delay, port, .. } = network;
    format!(
        "{MEMBERS} hosts on a switch of {name}, {delay:?} on each side of it, ports of {} KiB; to send takes {:?}, to receive \
         {:?}, and 0.3 ns a byte; no clients. All always send messages of {LEN} bytes; method 1; {millis} ms a cell. Latency: \
         the mean of messages made up at the token and right after it.",
        port >> 10,
        HOST.send,
        HOST.receive,
    )
}

/// Fixed windows as the thesis has them, at a host that switches priority by its first method.
pub fn configure(config: &mut RingConfig, personal: u32, accelerated: Option<u32>) {
    config.windows = Windows { accelerated_from: 1, ..fixed(personal, accelerated.unwrap_or(0), MEMBERS as u64) };
    config.acceleration = accelerated.map_or(Acceleration::Original, |_| Acceleration::Accelerated);
    config.priority = Priority::Method1;
    config.starvation_guard = None;
}

fn cell(network: &Network, personal: u32, accelerated: Option<u32>, millis: u64) -> Result<Cell, String> {
    let site = network.site();
    let measure = |work| {
        let adjust = |config: &mut RingConfig| configure(config, personal, accelerated);
        let mut wires = Wires::start(&site, MEMBERS, work, &adjust)?;
        Ok::<_, String>(wires.measure(BEFORE, Duration::from_millis(millis)))
    };
    let (agreed, safe) = (measure(Work::agreed(Load::Full))?, measure(Work::safe(Load::Full))?);
    Ok(Cell { personal, accelerated, mbits: agreed.mbits, agreed_us: agreed.token_us, safe_us: safe.token_us })
}

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
    Ok(grid.outcome(grid.over_accelerated(Quantity::Throughput), claims))
}

pub fn figure_5_2(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Agreed);
    Ok(grid.outcome(
        grid.over_accelerated(shows),
        vec![Some(latency_rises(grid, shows)), Some(latency_falls(grid, shows))],
    ))
}

pub fn figure_5_3(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Safe);
    Ok(grid.outcome(
        grid.over_accelerated(shows),
        vec![Some(latency_rises(grid, shows)), Some(latency_falls(grid, shows))],
    ))
}

pub fn figure_5_4(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Throughput);
    let near = |what: &str, paper: f64, cell: Option<Cell>| {
        cell.map(|cell| Claim::near(what, paper, shows.of(&cell), 10.0, "Mbit/s"))
    };
    let claims = vec![
        near("accelerated, personal 30", 986.0, grid.best(30)),
        near("original, personal 30", 713.0, grid.original(30)),
        near("original, personal 100", 840.0, grid.original(100)),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(30.0, 986.0), (30.0, 713.0), (100.0, 840.0)]), claims))
}

pub fn figure_5_5(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Agreed);
    let near = |what: &str, paper: f64, cell: Option<Cell>| {
        cell.map(|cell| Claim::near(what, paper, shows.of(&cell), 25.0, "us"))
    };
    let claims = vec![
        near("accelerated, personal 30", 1_698.0, grid.best(30)),
        near("original, personal 30", 2_140.0, grid.original(30)),
        near("original, personal 100", 5_904.0, grid.original(100)),
        grid.gain(shows, 30, 30)
            .map(|gain| Claim::at_most("accelerated by original, personal 30", "-21 %", gain, -10.0, "%")),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(30.0, 1_698.0), (30.0, 2_140.0), (100.0, 5_904.0)]), claims))
}

pub fn figure_5_6(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.gigabit()?, Quantity::Safe);
    let near = |what: &str, paper: f64, cell: Option<Cell>| {
        cell.map(|cell| Claim::near(what, paper, shows.of(&cell), 25.0, "us"))
    };
    let claims = vec![
        near("accelerated, personal 30", 7_099.0, grid.best(30)),
        near("original, personal 30", 7_675.0, grid.original(30)),
        near("original, personal 100", 23_378.0, grid.original(100)),
        grid.gain(shows, 30, 30)
            .map(|gain| Claim::at_most("accelerated by original, personal 30", "-8 %", gain, 0.0, "%")),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(30.0, 7_099.0), (30.0, 7_675.0), (100.0, 23_378.0)]), claims))
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
    Ok(grid.outcome(grid.over_accelerated(Quantity::Throughput), claims))
}

pub fn figure_5_8(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Agreed);
    let last = grid.accelerated(40).last().map(|(_, cell)| cell.agreed_us);
    let claims = vec![
        last.map(|us| Claim::near("personal 40, all accelerated", 562.0, us, 25.0, "us")),
        Some(latency_rises(grid, shows)),
        Some(latency_falls(grid, shows)),
    ];
    Ok(grid.outcome(grid.over_accelerated(shows), claims))
}

pub fn figure_5_9(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Safe);
    let last = grid.accelerated(40).last().map(|(_, cell)| cell.safe_us);
    let claims = vec![
        last.map(|us| Claim::near("personal 40, all accelerated", 2_220.0, us, 25.0, "us")),
        Some(latency_rises(grid, shows)),
        Some(latency_falls(grid, shows)),
    ];
    Ok(grid.outcome(grid.over_accelerated(shows), claims))
}

pub fn figure_5_10(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Throughput);
    let claims = vec![
        grid.best(40).map(|cell| Claim::near("accelerated, personal 40", 4_100.0, cell.mbits, 10.0, "Mbit/s")),
        grid.gain(shows, 40, 40).map(|gain| Claim::near("gain at personal 40", 68.0, gain, 25.0, "%")),
        grid.gain(shows, 40, 100).map(|gain| Claim::near("gain of 40 over the original's 100", 40.0, gain, 25.0, "%")),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(40.0, 4_100.0), (40.0, 2_440.0), (100.0, 2_980.0)]), claims))
}

pub fn figure_5_11(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Agreed);
    let claims = vec![
        grid.gain(shows, 40, 40).map(|gain| Claim::at_most("gain at personal 40", "-30 %", gain, -20.0, "%")),
        grid.gain(shows, 40, 100)
            .map(|gain| Claim::at_most("gain of 40 over the original's 100", "-65 %", gain, -50.0, "%")),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(40.0, 562.0)]), claims))
}

pub fn figure_5_12(lab: &Lab) -> Result<Outcome, String> {
    let (grid, shows) = (lab.ten_gigabit()?, Quantity::Safe);
    let claims = vec![
        grid.gain(shows, 40, 40).map(|gain| Claim::at_most("gain at personal 40", "-23 %", gain, -15.0, "%")),
        grid.gain(shows, 40, 100)
            .map(|gain| Claim::at_most("gain of 40 over the original's 100", "-60 %", gain, -45.0, "%")),
    ];
    Ok(grid.outcome(grid.over_personal(shows, vec![(40.0, 2_220.0)]), claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_window_is_the_one_with_the_least_safe_latency() {
        let cell = |accelerated, safe_us| Cell { personal: 5, accelerated, mbits: 1.0, agreed_us: 1.0, safe_us };
        let grid = Grid {
            setting: String::new(),
            cells: vec![cell(None, 1.0), cell(Some(0), 5.0), cell(Some(2), 3.0), cell(Some(5), 4.0)],
        };
        assert_eq!(grid.best(5).and_then(|best| best.accelerated), Some(2));
        assert_eq!(grid.gain(Quantity::Safe, 5, 5), Some(200.0));
        assert_eq!(grid.best(6), None);
    }

    #[test]
    fn an_accelerated_ring_carries_more_than_the_original_at_the_same_window() {
        let of = |accelerated| cell(&GIGABIT, 20, accelerated, 12).unwrap();
        let (original, accelerated) = (of(None), of(Some(15)));
        assert!(accelerated.mbits > 1.2 * original.mbits, "{accelerated:?} {original:?}");
        assert!(original.agreed_us < original.safe_us && accelerated.agreed_us < accelerated.safe_us);
    }
}
