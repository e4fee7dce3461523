//! What came out of a figure: curves, and the paper's statements beside what was found.

/// The papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// The thesis on the Accelerated Ring.
    Thesis,
    /// ToTo, in Transis.
    Toto,
    /// Totem: single and multiple ring.
    Totem,
    /// Multi-Ring Paxos.
    MultiRingPaxos,
    /// PLATO.
    Plato,
}

impl Paper {
    /// All, in the order of the report.
    pub const ALL: [Self; 5] = [Self::Thesis, Self::Toto, Self::Totem, Self::MultiRingPaxos, Self::Plato];

    /// As a title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Thesis => "Accelerated Ring",
            Self::Toto => "ToTo",
            Self::Totem => "Totem",
            Self::MultiRingPaxos => "Multi-Ring Paxos",
            Self::Plato => "PLATO",
        }
    }

    /// What the names of its figures begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Thesis => "ring",
            Self::Toto => "toto",
            Self::Totem => "totem",
            Self::MultiRingPaxos => "multiring-paxos",
            Self::Plato => "plato",
        }
    }
}

/// What came out of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How it was run: hosts, network, load.
    pub setting: String,
    /// What is plotted.
    pub charts: Vec<Chart>,
    /// The paper's statements, each beside what came out.
    pub claims: Vec<Claim>,
}

impl Outcome {
    /// Whether all that the paper states came out.
    pub fn is_reproduced(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }
}

/// One statement of a paper, and what came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is stated.
    pub what: String,
    /// The paper's value.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What ours must be.
    pub bound: String,
    /// Whether it is.
    pub holds: bool,
}

impl Claim {
    /// A value of the paper, from which ours is at most so many per cent away.
    pub fn near(what: &str, paper: f64, ours: f64, percent: f64, unit: &str) -> Self {
        let off = 100.0 * (ours / paper - 1.0);
        let ours_text = format!("{} ({off:+.0} %)", with_unit(ours, unit));
        let bound = format!("within {percent} %");
        let holds = (ours - paper).abs() <= paper.abs() * percent / 100.0;
        Self { what: what.into(), paper: with_unit(paper, unit), ours: ours_text, bound, holds }
    }

    /// The same where the value follows from something else than the paper's own numbers, as `source` says.
    pub fn near_to(what: &str, source: &str, value: f64, ours: f64, percent: f64, unit: &str) -> Self {
        let near = Self::near(what, value, ours, percent, unit);
        Self { paper: source.into(), bound: format!("within {percent} % of {}", with_unit(value, unit)), ..near }
    }

    /// What the paper states in words or by a number, where ours is to be no less than a bound.
    pub fn at_least(what: &str, paper: &str, ours: f64, bound: f64, unit: &str) -> Self {
        let text = format!("at least {}", with_unit(bound, unit));
        Self::of(what, paper, with_unit(ours, unit), text, ours >= bound)
    }

    /// The same where ours is to be no more than it.
    pub fn at_most(what: &str, paper: &str, ours: f64, bound: f64, unit: &str) -> Self {
        let text = format!("at most {}", with_unit(bound, unit));
        Self::of(what, paper, with_unit(ours, unit), text, ours <= bound)
    }

    /// What the paper states as a text, where ours is to be the same.
    pub fn exactly(what: &str, paper: &str, ours: String) -> Self {
        let holds = ours == paper;
        Self::of(what, paper, ours, "the same".into(), holds)
    }

    /// What the lab cannot run: a part of a figure that is missing.
    pub fn missing(what: &str, paper: &str, why: &str) -> Self {
        Self::of(what, paper, why.into(), "to be run".into(), false)
    }

    fn of(what: &str, paper: &str, ours: String, bound: String, holds: bool) -> Self {
        Self { what: what.into(), paper: paper.into(), ours, bound, holds }
    }
}

/// A number as people write it, with its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

/// A number at a tick or in a column: no noughts that say nothing.
pub fn short(value: f64) -> String {
    let text = with_unit(value, "");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Curves over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows, where a figure has several.
    pub title: String,
    /// Below.
    pub x: Axis,
    /// At the left.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// An axis: what it counts, in which unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// As it is labelled.
    pub label: &'static str,
    /// Whether equal steps multiply.
    pub log: bool,
}

impl Axis {
    /// Equal steps add.
    pub const fn linear(label: &'static str) -> Self {
        Self { label, log: false }
    }

    /// Equal steps multiply.
    pub const fn log(label: &'static str) -> Self {
        Self { label, log: true }
    }
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// As the legend names it.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with marks at its points: what was run here.
    Line,
    /// Marks alone: values that a paper states.
    Paper,
    /// A line without marks: what a model says.
    Model,
}

impl Curve {
    /// What was run here.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), style: Style::Line, points }
    }

    /// Values that the paper states.
    pub fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), style: Style::Paper, points }
    }

    /// What a model says.
    pub fn model(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), style: Style::Model, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_up_to_its_bound_and_no_further() {
        let near = |ours| Claim::near("x", 100.0, ours, 10.0, "us");
        assert!(near(110.0).holds && near(90.0).holds && !near(111.0).holds && !near(89.0).holds);
        assert_eq!((near(95.0).paper, near(95.0).ours), ("100.0 us".into(), "95.00 us (-5 %)".into()));
        assert!(Claim::at_least("x", "more", 2.0, 2.0, "").holds && !Claim::at_least("x", "more", 1.9, 2.0, "").holds);
        assert!(Claim::at_most("x", "less", 2.0, 2.0, "").holds && !Claim::at_most("x", "less", 2.1, 2.0, "").holds);
        let to = Claim::near_to("x", "O(log n)", 100.0, 95.0, 10.0, "us");
        assert_eq!((to.paper.as_str(), to.bound.as_str(), to.holds), ("O(log n)", "within 10 % of 100.0 us", true));
        assert!(Claim::exactly("x", "b1", "b1".into()).holds && !Claim::exactly("x", "b1", "b2".into()).holds);
        assert!(!Claim::missing("x", "1 %", "no losses").holds);
        assert!(!Claim::near("x", 100.0, f64::NAN, 10.0, "").holds, "what was not measured is no match");
    }

    #[test]
    fn a_figure_is_reproduced_if_all_of_it_is() {
        let mut outcome = Outcome { claims: vec![Claim::at_least("x", "", 2.0, 1.0, "")], ..Outcome::default() };
        assert!(outcome.is_reproduced());
        outcome.claims.push(Claim::missing("y", "", "z"));
        assert!(!outcome.is_reproduced());
    }
}
