//! What was measured of both rings, as a table and as JSON.
use super::Lab;
use crate::real::World;
use crate::real::text;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// What was measured of one ring in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Payload that came to the slowest receiver, in megabits per second.
    pub mbits: f64,
    /// From when a message was due until a receiver had it, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    /// How long the token took to come round.
    pub rotation_us: f64,
    /// Packets of which a visit sent, on average.
    pub packets_a_visit: f64,
    /// In a hundred, those that left behind the token.
    pub behind_token: f64,
    /// Packets sent again, in a hundred.
    pub again: f64,
    /// Cores of this machine that worked, on whatever it was.
    pub cores: f64,
}

/// A figure, by name.
type Named = (&'static str, fn(&mut Figures) -> &mut f64);

const FIGURES: [Named; 8] = [
    ("mbits", |figures| &mut figures.mbits),
    ("p50_us", |figures| &mut figures.p50_us),
    ("p99_us", |figures| &mut figures.p99_us),
    ("rotation_us", |figures| &mut figures.rotation_us),
    ("packets_a_visit", |figures| &mut figures.packets_a_visit),
    ("behind_token_percent", |figures| &mut figures.behind_token),
    ("again_percent", |figures| &mut figures.again),
    ("cores", |figures| &mut figures.cores),
];

impl Figures {
    /// The median of each figure.
    pub fn median(runs: &[Self]) -> Self {
        let mut median = Self::default();
        for (_, figure) in FIGURES {
            let mut values: Vec<f64> = runs.iter().map(|run| *figure(&mut run.clone())).collect();
            values.sort_by(f64::total_cmp);
            let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
            *figure(&mut median) = (at(values.len() / 2) + at(values.len().saturating_sub(1) / 2)) / 2.0;
        }
        median
    }

    fn json(mut self) -> Value {
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        Value::Object(
            FIGURES.iter().map(|(name, figure)| ((*name).into(), json!(rounded(*figure(&mut self))))).collect(),
        )
    }
}

/// Both rings with the same windows and the same load.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The personal and the accelerated window.
    pub windows: (u32, u32),
    /// In percent of what a cable carries; none for as much as goes.
    pub load: Option<u64>,
    /// Each run's figures, of the original and of the accelerated ring.
    pub runs: [Vec<Figures>; 2],
}

impl Cell {
    fn medians(&self) -> [Figures; 2] {
        [0, 1].map(|ring| Figures::median(&self.runs[ring]))
    }

    fn load(&self) -> String {
        self.load.map_or_else(|| "full".into(), |percent| format!("{percent} %"))
    }

    fn line(&self) -> String {
        let (personal, accelerated) = self.windows;
        let [old, new] = self.medians();
        let half = |f: &Figures| {
            format!(
                "{:>7.1} {:>7.0} {:>7.0} {:>7.0} {:>5.1} {:>5.2}",
                f.mbits, f.p50_us, f.p99_us, f.rotation_us, f.packets_a_visit, f.cores
            )
        };
        format!(
            "{:>9} {:>5} | {} | {} {:>4.0} | {:>5.2} {:>5.2} {:>5.2}\n",
            format!("{personal}/{accelerated}"),
            self.load(),
            half(&old),
            half(&new),
            new.behind_token,
            new.mbits / old.mbits,
            new.p50_us / old.p50_us,
            new.p99_us / old.p99_us,
        )
    }

    fn json(&self) -> Value {
        let [old, new] = self.medians();
        let runs = |ring: usize| self.runs[ring].iter().map(|run| run.json()).collect::<Vec<_>>();
        json!({
            "personal_window": self.windows.0,
            "accelerated_window": self.windows.1,
            "load_percent": self.load,
            "original": { "median": old.json(), "runs": runs(0) },
            "accelerated": { "median": new.json(), "runs": runs(1) },
            "ratio": { "mbits": new.mbits / old.mbits, "p50": new.p50_us / old.p50_us, "p99": new.p99_us / old.p99_us },
        })
    }
}

/// The whole table.
pub fn table(lab: &Lab, cells: &[Cell], machine: &Machine) -> String {
    let half = "Mbit/s     p50     p99   token pkts cores";
    let mut table =
        format!("{}\n{:>15} | {:>43} | {:>48} | accelerated by original\n", lab.line(), "", "original", "accelerated");
    let _ = writeln!(table, "{:>9} {:>5} | {half:>43} | {half:>43} after | Mb/s   p50   p99", "windows", "load");
    cells.iter().for_each(|cell| table += &cell.line());
    table + &machine.line()
}

/// The same for a program.
pub fn json(lab: &Lab, cells: &[Cell], machine: &Machine) -> String {
    let cells: Vec<Value> = cells.iter().map(Cell::json).collect();
    let all: Map<String, Value> = [("settings", lab.json()), ("cells", json!(cells)), ("machine", machine.json())]
        .map(|(name, value)| (name.into(), value))
        .into_iter()
        .collect();
    format!("{}\n", Value::Object(all))
}

/// How well this machine was a network.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    cores: usize,
    /// By how many microseconds frames came later than the cables would have had them come: p50, p99, p99.9.
    late: [f64; 3],
    /// Frames that found no room at a port of the switch.
    overflowed: u64,
    /// Frames that were lost otherwise. Expected to be 0.
    dropped: u64,
}

impl Machine {
    /// As it was so far.
    ///
    /// # Errors
    /// That the switch has ended.
    pub fn of(world: &World) -> Result<Self, String> {
        let report = world.network.report().map_err(text)?;
        let dropped = (0..world.network.nodes()).map(|node| world.network.dropped_before(node).map_err(text));
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            late: [0.5, 0.99, 0.999].map(|q| report.late.value_at_quantile(q) as f64 / 1e3),
            overflowed: report.cables.iter().map(|cable| cable.overflowed).sum(),
            dropped: dropped.sum::<Result<u64, String>>()? + report.overrun + report.refused,
        })
    }

    fn line(&self) -> String {
        let Self { cores, late: [p50, p99, p999], overflowed, dropped } = self;
        format!(
            "\nThis machine: {cores} cores. The switch passed frames on late by p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p999:.0} us.\n\
             Frames that found no room at a port: {overflowed}; that were lost otherwise: {dropped}.\n"
        )
    }

    fn json(&self) -> Value {
        let Self { cores, late: [p50, p99, p999], overflowed, dropped } = self;
        json!({ "cores": cores, "late_us": { "p50": p50, "p99": p99, "p99.9": p999 }, "overflowed": overflowed, "dropped": dropped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mbits: f64) -> Figures {
        Figures { mbits, p50_us: 10.0 * mbits, cores: 1.0, ..Figures::default() }
    }

    #[test]
    fn medians_are_of_each_figure() {
        let odd = Figures::median(&[figures(3.0), figures(1.0), figures(9.0)]);
        assert_eq!((odd.mbits, odd.p50_us, odd.cores), (3.0, 30.0, 1.0));
        assert_eq!(Figures::median(&[figures(1.0), figures(2.0)]).mbits, 1.5);
        assert!(Figures::median(&[]).mbits.is_nan());
    }

    #[test]
    fn table_and_json_tell_both_rings_and_their_ratio() {
        let cell = Cell { windows: (20, 15), load: Some(50), runs: [vec![figures(50.0)], vec![figures(75.0)]] };
        let machine = Machine { cores: 2, late: [1.0, 2.0, 3.0], overflowed: 4, dropped: 5 };
        let text = table(&Lab::default(), std::slice::from_ref(&cell), &machine);
        let row = text.lines().find(|line| line.starts_with("    20/15  50 %")).unwrap();
        assert!(row.contains(" 50.0 ") && row.contains(" 75.0 ") && row.contains(" 1.50 "), "{row}");
        assert!(text.contains("at a port: 4; that were lost otherwise: 5"), "{text}");
        let told: Value = serde_json::from_str(&json(&Lab::default(), &[cell], &machine)).unwrap();
        assert_eq!(told["cells"][0]["ratio"]["mbits"], 1.5);
        assert_eq!(told["cells"][0]["accelerated"]["runs"][0]["mbits"], 75.0);
        assert_eq!(told["machine"]["overflowed"], 4);
    }
}
