//! A result for people: the same tables as text in a terminal and, with curves, as one page for a browser that needs
//! nothing else.

mod chart;
mod html;

pub use chart::{Chart, Scale, Series};

use super::setup::Outlet;
use crate::columns;
use crate::failure::{Outcome, Trying};
use consort_testbed::Quantiles;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io::{self, Write};

/// What a measurement came to.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub title: String,
    /// What was measured, in a few lines.
    pub facts: Vec<String>,
    pub tables: Vec<Table>,
    pub charts: Vec<Chart>,
}

/// Rows below a head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows.
    pub fn new<const N: usize>(title: &str, head: [&str; N]) -> Self {
        Self { title: title.into(), head: head.map(String::from).into(), rows: Vec::new() }
    }

    /// The same with these.
    pub fn rows(self, rows: impl Iterator<Item = Vec<String>>) -> Self {
        Self { rows: rows.collect(), ..self }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.facts.iter().try_for_each(|fact| writeln!(f, "{fact}"))?;
        for table in &self.tables {
            let rows = std::iter::once(table.head.clone()).chain(table.rows.iter().cloned());
            writeln!(f, "\n{}", table.title)?;
            for line in columns::lines(rows.collect()) {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// Prints a result as it is wanted, and writes the page if one is.
pub fn publish(outlet: &Outlet, figures: &impl Serialize, page: &Page) -> Outcome {
    let json = serde_json::to_string(figures).trying(|| "cannot write the figures".into())?;
    if let Some(path) = &outlet.report {
        let text = html::write(page, &json);
        fs::write(path, text).trying(|| format!("--report: cannot write {}", path.display()))?;
    }
    let mut out = io::stdout();
    match outlet.json {
        true => writeln!(out, "{json}")?,
        false => write!(out, "{page}")?,
    }
    Ok(())
}

/// Cells for quantiles, in microseconds.
pub fn percentiles(us: &Quantiles) -> Vec<String> {
    [us.p50, us.p90, us.p99, us.p999, us.max].map(short).into()
}

/// A figure with as many digits as say something.
pub fn short(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A small figure that may be unknown.
pub fn exact(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_well_in_a_terminal() {
        let rows = [["a", "1"], ["bc", "22"]].map(|row| row.map(String::from).to_vec());
        let page = Page {
            title: "T".into(),
            facts: vec!["three daemons".into()],
            tables: vec![Table::new("Rates", ["case", "n"]).rows(rows.into_iter())],
            charts: Vec::new(),
        };
        assert_eq!(page.to_string(), "three daemons\n\nRates\n  case  n\n  a     1\n  bc    22\n");
        assert_eq!([short(1.234), short(12.34), short(1234.5)], ["1.23", "12.3", "1234"]);
        assert_eq!([exact(Some(0.5)), exact(None)], ["0.500", "-"]);
    }

    #[test]
    fn a_page_that_cannot_be_written_is_told_with_its_path() {
        let outlet = Outlet { json: false, report: Some("/nowhere/at/all.html".into()) };
        let problem = publish(&outlet, &1, &Page::default()).unwrap_err().message;
        assert!(problem.starts_with("--report: cannot write /nowhere/at/all.html: "), "{problem}");
    }
}
