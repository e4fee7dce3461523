//! What a trial measured, and how it is told.
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use consort_testbed::network::memory::mib;

/// What a daemon without clients of weight may have resident: 16 MiB of packets, 32 MiB of messages, and itself.
pub const AT_REST: u64 = 64 << 20;

/// What was measured from the fault on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Regular views that the node was told of which was told of most.
    pub views: usize,
    /// How many of them the fault accounts for.
    pub needed: usize,
    /// The longest time without an ordered message though there was one to order.
    pub pause: Duration,
    /// Tokens that the daemon lost that lost most.
    pub losses: u64,
    /// Bytes of the largest daemon: before, after, most.
    pub memory: [u64; 3],
    /// How many bytes it may have.
    pub budget: u64,
    /// What else is to be told.
    pub notes: Vec<String>,
    /// Further goals that were missed.
    pub missed: Vec<String>,
}

impl Figures {
    /// Views beyond those needed.
    pub fn needless(&self) -> usize {
        self.views.saturating_sub(self.needed)
    }

    /// Notes a goal that was missed.
    pub fn wants(&mut self, met: bool, otherwise: impl FnOnce() -> String) {
        if !met {
            self.missed.push(otherwise());
        }
    }

    /// All goals that were missed.
    fn missed(&self) -> Vec<String> {
        let needless = (self.needless() > 0).then(|| format!("{} needless views", self.needless()));
        let [.., most] = self.memory;
        let memory = (most > self.budget).then(|| format!("{} MiB, budget {}", mib(most), mib(self.budget)));
        needless.into_iter().chain(memory).chain(self.missed.clone()).collect()
    }
}

/// A line of the table.
#[derive(Debug)]
pub struct Row {
    pub trial: &'static str,
    /// Where there are several.
    pub program: String,
    /// Or why it could not be measured.
    pub outcome: Result<Figures, String>,
}

impl Row {
    /// Whether the goal was met.
    pub fn is_green(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|figures| figures.missed().is_empty())
    }

    fn verdict(&self) -> String {
        match &self.outcome {
            Err(error) => format!("RED: {error}"),
            Ok(figures) => {
                let missed = figures.missed();
                let verdict = if missed.is_empty() { "green".into() } else { format!("RED: {}", missed.join(", ")) };
                let notes = figures.notes.iter().map(|note| format!("; {note}"));
                verdict + &notes.collect::<String>()
            }
        }
    }

    fn cells(&self) -> [String; 7] {
        let none = || "-".to_owned();
        let Ok(figures) = &self.outcome else { return std::array::from_fn(|_| none()) };
        let memory = figures.memory.map(|bytes| mib(bytes).to_string());
        let [before, after, most] = memory;
        let views = figures.views.to_string();
        let pause = format!("{} ms", figures.pause.as_millis());
        [views, figures.needless().to_string(), pause, figures.losses.to_string(), before, after, most]
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        line(f, self.trial, &self.cells(), &self.verdict())?;
        if self.program.is_empty() { Ok(()) } else { write!(f, "  [{}]", self.program) }
    }
}

/// All lines.
pub struct Table<'a>(pub &'a [Row]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let head = ["views", "needless", "pause", "losses", "MiB before", "after", "most"].map(String::from);
        line(f, "trial", &head, "verdict")?;
        self.0.iter().try_for_each(|row| write!(f, "\n{row}"))
    }
}

fn line(f: &mut Formatter<'_>, name: &str, cells: &[String; 7], last: &str) -> fmt::Result {
    write!(f, "{name:<20}")?;
    cells.iter().try_for_each(|cell| write!(f, " {cell:>10}"))?;
    write!(f, "  {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figures: Figures) -> Row {
        Row { trial: "stops-250", program: String::new(), outcome: Ok(figures) }
    }

    #[test]
    fn a_needless_view_and_too_much_memory_are_red() {
        let well = Figures { views: 2, needed: 2, memory: [5 << 20; 3], budget: AT_REST, ..Figures::default() };
        assert!(row(well.clone()).is_green() && row(well.clone()).verdict() == "green");
        let views = row(Figures { views: 5, ..well.clone() });
        assert_eq!((views.is_green(), views.verdict().as_str()), (false, "RED: 3 needless views"));
        let memory = row(Figures { memory: [0, 0, 65 << 20], ..well.clone() });
        assert_eq!((memory.is_green(), memory.verdict().as_str()), (false, "RED: 65 MiB, budget 64"));
        let mut further = well;
        further.wants(false, || "never told".into());
        further.notes.push("p50 3 ms".into());
        assert_eq!(row(further).verdict(), "RED: never told; p50 3 ms");
    }

    #[test]
    fn what_could_not_be_measured_is_red() {
        let row = Row { trial: "storm", program: "a".into(), outcome: Err("daemon 1 ended".into()) };
        assert!(!row.is_green() && row.to_string().ends_with("  RED: daemon 1 ended  [a]"), "{row}");
    }

    #[test]
    fn columns_are_aligned() {
        let figures = Figures { views: 671, pause: Duration::from_millis(312), losses: 169, ..Figures::default() };
        let rows = [row(figures)];
        let text = Table(&rows).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].find("  verdict"), lines[1].find("  RED"), "{text}");
        assert!(lines[1].starts_with("stops-250                   671        671     312 ms        169"), "{text}");
    }
}
