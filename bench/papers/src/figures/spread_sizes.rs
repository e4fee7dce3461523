//! The figures of the thesis's sixth chapter over message sizes and numbers of daemons, and on virtual machines.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::ring_grid::{GIGABIT, Network, TEN_GIGABIT};
use super::scale::Scale;
use super::spread_site::{Case, DAEMONS, Machine, setting};
use crate::parallel;
use crate::wires::{Load, Places, Work};

/// How long each cell is measured, in milliseconds.
const MILLIS: u64 = 100;
/// Numbers of daemons.
const MEMBERS: [usize; 4] = [2, 4, 6, 8];
/// Sizes of messages, in bytes: small ones, and all.
const SMALL: [usize; 9] = [100, 200, 400, 600, 700, 1_000, 1_350, 1_400, 1_500];
const LARGE: [usize; 3] = [10_000, 50_000, 100_000];
/// The largest message.
const MOST: usize = 100_000;
/// The personal window, and the accelerated one.
const WINDOW: u32 = 20;

/// Throughput at one size and number of daemons, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    places: Places,
    daemons: usize,
    len: usize,
    accelerated: f64,
    original: f64,
}

/// All sizes on one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    setting: String,
    cells: Vec<Cell>,
}

impl Sizes {
    /// Runs them: small messages with eight daemons, large ones with each number of them.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(scale: Scale, network: &'static Network) -> Result<Self, String> {
        let mut settings = Vec::new();
        for places in [Places::Alternate, Places::Everywhere] {
            for len in SMALL {
                settings.push((places, DAEMONS, len));
            }
            for daemons in MEMBERS {
                settings.extend(LARGE.map(|len| (places, daemons, len)));
            }
        }
        let cells = parallel::map(&settings, |(places, daemons, len)| {
            let work = Work { places: *places, len: *len, ..Work::agreed(Load::Full) };
            let of = |accelerated| {
                let case = Case { daemons: *daemons, work, ..Case::full(network, WINDOW, accelerated) };
                Ok::<_, String>(case.run(scale, MILLIS)?.mbits)
            };
            let (accelerated, original) = (of(Some(WINDOW))?, of(None)?);
            Ok(Cell { places: *places, daemons: *daemons, len: *len, accelerated, original })
        })?;
        let load = format!(" Senders always send; windows of {WINDOW}; {} ms a cell.", scale.scaled(MILLIS));
        Ok(Self { setting: setting(network) + &load, cells })
    }

    fn at(&self, places: Places, daemons: usize, len: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.places, cell.daemons, cell.len) == (places, daemons, len))
    }

    /// Throughput of the accelerated ring and of the original one.
    fn pair(&self, places: Places, daemons: usize, len: usize) -> (f64, f64) {
        self.at(places, daemons, len).map_or((f64::NAN, f64::NAN), |cell| (cell.accelerated, cell.original))
    }

    /// What the accelerated ring carries by what the original one does.
    fn gain(&self, places: Places, daemons: usize, len: usize) -> f64 {
        let (accelerated, original) = self.pair(places, daemons, len);
        accelerated / original
    }

    /// For each number of daemons what it is with the largest messages: the least and the largest.
    fn over_members(&self, of: impl Fn(usize) -> f64) -> (f64, f64) {
        let values = MEMBERS.map(of);
        (values.into_iter().fold(f64::INFINITY, f64::min), values.into_iter().fold(0.0, f64::max))
    }

    /// A curve for each ring and number of daemons that were run with these sizes.
    fn outcome(&self, places: Places, sizes: &[usize], claims: Vec<Claim>) -> Outcome {
        let mut curves = Vec::new();
        for (name, of) in [("accelerated", accelerated as fn(&Cell) -> f64), ("original", original)] {
            for daemons in MEMBERS {
                let point = |len: &usize| Some((*len as f64, of(self.at(places, daemons, *len)?)));
                let points: Vec<_> = sizes.iter().filter_map(point).collect();
                if !points.is_empty() {
                    curves.push(Curve::line(format!("{name}, {daemons}"), points));
                }
            }
        }
        let (x, y) = (Axis::linear("message, bytes"), Axis::linear("throughput, Mbit/s"));
        let title = match places {
            Places::Alternate => "A sender on every other daemon, receivers on the others",
            Places::Everywhere | Places::First(_) => "A sender and a receiver on every daemon",
        };
        Outcome { setting: self.setting.clone(), charts: vec![Chart { title: title.into(), x, y, curves }], claims }
    }

    fn large(&self, places: Places, claims: Vec<Claim>) -> Outcome {
        let sizes: Vec<_> = [1_350].into_iter().chain(LARGE).collect();
        self.outcome(places, &sizes, claims)
    }

    fn small(&self, places: Places, claims: Vec<Claim>) -> Outcome {
        self.outcome(places, &SMALL, claims)
    }

    /// Larger messages carry more: the least step to the next size.
    fn grows(&self, places: Places) -> Claim {
        let sizes: Vec<_> = [1_350].into_iter().chain(LARGE).collect();
        let step = |pair: &[usize]| self.pair(places, DAEMONS, pair[1]).0 / self.pair(places, DAEMONS, pair[0]).0;
        let least = sizes.windows(2).map(step).fold(f64::INFINITY, f64::min);
        Claim::at_least("least step of throughput to the next size, eight daemons", "increases", least, 0.99, "times")
    }

    /// Spread's packing: where a second message, or one message, no longer fits a packet.
    fn drops(&self, places: Places) -> Vec<Claim> {
        let drop = |before: usize, at: usize| {
            let (accelerated, original) = (self.pair(places, DAEMONS, at), self.pair(places, DAEMONS, before));
            let ratio = (accelerated.0 / original.0).max(accelerated.1 / original.1);
            Claim::at_most(&format!("{at} bytes by {before}, either ring"), "drops", ratio, 0.98, "times")
        };
        vec![drop(600, 700), drop(1_350, 1_400)]
    }

    /// The rings differ less where messages are small.
    fn levels(&self, places: Places) -> Claim {
        let ratio = (self.gain(places, DAEMONS, 100) - 1.0) / (self.gain(places, DAEMONS, MOST) - 1.0);
        Claim::at_most("gain at 100 bytes by that at 100,000", "reduced", ratio, 0.8, "times")
    }
}

const fn accelerated(cell: &Cell) -> f64 {
    cell.accelerated
}

const fn original(cell: &Cell) -> f64 {
    cell.original
}

/// All sizes on 1 Gbit/s.
pub fn gigabit(scale: Scale) -> Result<Sizes, String> {
    Sizes::run(scale, &GIGABIT)
}

/// All sizes on 10 Gbit/s.
pub fn ten_gigabit(scale: Scale) -> Result<Sizes, String> {
    Sizes::run(scale, &TEN_GIGABIT)
}

pub fn figure_6_5(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Alternate;
    let (gain, _) = sizes.over_members(|daemons| sizes.gain(places, daemons, MOST));
    let (least, most) = sizes.over_members(|daemons| sizes.pair(places, daemons, MOST).0);
    let claims = vec![
        Claim::at_least(
            "accelerated by original at 100,000 bytes, any number of daemons",
            "over 1.5",
            gain,
            1.3,
            "times",
        ),
        Claim::at_most("largest by least over the number of daemons", "little impact", most / least, 1.2, "times"),
        sizes.grows(places),
    ];
    Ok(sizes.large(places, claims))
}

pub fn figure_6_6(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Alternate;
    Ok(sizes.small(places, sizes.drops(places)))
}

pub fn figure_6_7(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Everywhere;
    let at = |daemons| sizes.pair(places, daemons, MOST);
    let more = [6, 8].map(|daemons| at(daemons).0 / sizes.pair(Places::Alternate, daemons, MOST).0);
    let claims = vec![
        Claim::at_least("two daemons, 100,000 bytes", "above 1 Gbit/s", at(2).0, 1_000.0, "Mbit/s"),
        Claim::at_least("four daemons, 100,000 bytes", "above 1 Gbit/s", at(4).0, 1_000.0, "Mbit/s"),
        Claim::at_least(
            "six or eight daemons, by every other sending",
            "slightly higher",
            more[0].min(more[1]),
            1.0,
            "times",
        ),
        Claim::at_most("original, two daemons by eight", "no increase", at(2).1 / at(8).1, 1.05, "times"),
    ];
    Ok(sizes.large(places, claims))
}

pub fn figure_6_8(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Everywhere;
    Ok(sizes.small(places, sizes.drops(places)))
}

pub fn figure_6_16(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Alternate;
    let (gain, _) = sizes.over_members(|daemons| sizes.gain(places, daemons, MOST));
    let claims = vec![
        Claim::near(
            "accelerated, eight daemons, 100,000 bytes",
            2_080.0,
            sizes.pair(places, DAEMONS, MOST).0,
            10.0,
            "Mbit/s",
        ),
        Claim::near(
            "original, eight daemons, 100,000 bytes",
            1_480.0,
            sizes.pair(places, DAEMONS, MOST).1,
            10.0,
            "Mbit/s",
        ),
        Claim::at_least(
            "accelerated by original at 100,000 bytes, any number of daemons",
            "1.20 to 1.45",
            gain,
            1.15,
            "times",
        ),
        sizes.grows(places),
    ];
    Ok(sizes.large(places, claims))
}

pub fn figure_6_17(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Alternate;
    Ok(sizes.small(places, vec![sizes.levels(places)]))
}

pub fn figure_6_18(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Everywhere;
    let (gain, _) = sizes.over_members(|daemons| sizes.gain(places, daemons, MOST));
    let claims = vec![
        Claim::near(
            "accelerated, eight daemons, 100,000 bytes",
            2_480.0,
            sizes.pair(places, DAEMONS, MOST).0,
            10.0,
            "Mbit/s",
        ),
        Claim::near(
            "original, eight daemons, 100,000 bytes",
            1_930.0,
            sizes.pair(places, DAEMONS, MOST).1,
            10.0,
            "Mbit/s",
        ),
        Claim::at_least(
            "accelerated by original at 100,000 bytes, any number of daemons",
            "1.10 to 1.30",
            gain,
            1.05,
            "times",
        ),
        sizes.grows(places),
    ];
    Ok(sizes.large(places, claims))
}

pub fn figure_6_19(sizes: &Sizes) -> Result<Outcome, String> {
    let places = Places::Everywhere;
    Ok(sizes.small(places, vec![sizes.levels(places)]))
}

/// On virtual machines and beside them, each with every size.
pub fn figure_6_9(scale: Scale) -> Result<Outcome, String> {
    const MACHINES: [(Machine, &str); 3] =
        [(Machine::Native, "native"), (Machine::Dom0, "Dom0"), (Machine::Guest, "virtual machine")];
    let sizes: Vec<_> = [100, 700, 1_350].into_iter().chain(LARGE).collect();
    let settings: Vec<_> = MACHINES.iter().flat_map(|(machine, _)| sizes.iter().map(|len| (*machine, *len))).collect();
    let cells = parallel::map(&settings, |(machine, len)| {
        let work = Work { places: Places::Alternate, len: *len, ..Work::agreed(Load::Full) };
        let of = |accelerated| {
            let case = Case { machine: *machine, work, ..Case::full(&GIGABIT, WINDOW, accelerated) };
            Ok::<_, String>(case.run(scale, MILLIS)?.mbits)
        };
        Ok([of(Some(WINDOW))?, of(None)?])
    })?;
    let most = |machine: usize, ring: usize| {
        let of = &cells[machine * sizes.len()..(machine + 1) * sizes.len()];
        of.iter().map(|cell| cell[ring]).fold(0.0, f64::max)
    };
    let mut claims = Vec::new();
    let mut curves = Vec::new();
    for (machine, (_, name)) in MACHINES.iter().enumerate() {
        let gain = most(machine, 0) / most(machine, 1);
        claims.push(Claim::at_least(&format!("{name}, accelerated by original"), "1.55 to 1.60", gain, 1.3, "times"));
        for (ring, of) in ["accelerated", "original"].into_iter().enumerate() {
            let cells = &cells[machine * sizes.len()..];
            let points = sizes.iter().zip(cells).map(|(len, cell)| (*len as f64, cell[ring])).collect();
            curves.push(Curve::line(format!("{name}, {of}"), points));
        }
    }
    let less = |machine| 100.0 * (most(machine, 0) / most(0, 0) - 1.0);
    claims.push(Claim::near("accelerated, Dom0 off native", -31.0, less(1), 25.0, "%"));
    claims.push(Claim::near("accelerated, virtual machine off native", -42.0, less(2), 25.0, "%"));
    let (x, y) = (Axis::linear("message, bytes"), Axis::linear("throughput, Mbit/s"));
    let chart = Chart { title: "A sender on every other daemon".into(), x, y, curves };
    let (dom0, guest) = (Machine::Dom0.late(), Machine::Guest.late());
    let text = format!(
        " A packet takes {dom0:?} more on either side in Dom0, {guest:?} in a virtual machine. Windows of {WINDOW}."
    );
    Ok(Outcome { setting: setting(&GIGABIT) + &text, charts: vec![chart], claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_carries_less_on_one_ring_alone_is_no_drop() {
        let cell =
            |len, accelerated, original| Cell { places: Places::Everywhere, daemons: 8, len, accelerated, original };
        let of = |original| Sizes {
            setting: String::new(),
            cells: vec![
                cell(600, 2.0, 2.0),
                cell(700, 1.0, original),
                cell(1_350, 2.0, 2.0),
                cell(1_400, 1.0, original),
            ],
        };
        let drops = |sizes: Sizes| sizes.drops(Places::Everywhere).iter().all(|claim| claim.holds);
        assert!(drops(of(1.0)) && !drops(of(2.0)));
        assert_eq!(of(1.0).gain(Places::Everywhere, 8, 600), 1.0);
    }
}
