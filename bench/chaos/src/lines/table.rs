//! What a run prints at its end.
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::run::{NodeResult, Outcome};
use consort_testbed::network::memory::mib;
use consort_testbed::network::switch::Report;

/// An outcome in aligned columns.
pub struct Table<'a>(pub &'a Outcome);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Outcome { nodes, report, .. } = self.0;
        writeln!(f, "{:>6}  {:>9}  {:<64}  daemon MiB first/last/max", "node", "lines", "sha256")?;
        nodes.iter().enumerate().try_for_each(|(node, result)| node_line(f, node + 1, result))?;
        let dropped: u64 = nodes.iter().map(|node| node.dropped_before).sum();
        writeln!(f, "\n{}frames that a kernel dropped before the switch could read them: {dropped}", Links(report))
    }
}

/// What the switch did, alone.
pub struct Links<'a>(pub &'a Report);

impl Display for Links<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", columns("link", &NAMES))?;
        for (from, to, c) in &self.0.pairs {
            let numbers = [c.carried, c.lost, c.duplicated, c.reordered, c.corrupted, c.overflowed, c.cut];
            writeln!(f, "{}", columns(&format!("{}->{}", from + 1, to + 1), &numbers))?;
        }
        writeln!(f, "\n{}", beyond_the_model(self.0))
    }
}

const NAMES: [&str; 7] = ["frames", "lost", "duplicated", "reordered", "corrupted", "overflowed", "cut"];

fn columns(name: &str, numbers: &[impl Display; 7]) -> String {
    let numbers: Vec<_> = numbers.iter().map(|number| format!("{number:>10}")).collect();
    format!("{name:>6}  {}", numbers.join("  "))
}

fn node_line(f: &mut Formatter<'_>, node: usize, result: &NodeResult) -> fmt::Result {
    let (first, last, max) = result.memory.summary().unwrap_or_default();
    let memory = format!("{} / {} / {}", mib(first), mib(last), mib(max));
    writeln!(f, "{node:>6}  {:>9}  {}  {memory}", result.received, result.digest)
}

/// How well the switch kept to its model.
fn beyond_the_model(report: &Report) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| micros(&report.late, quantile));
    let (overrun, refused) = (report.overrun, report.refused);
    format!(
        "frames late by p50 {p50} us, p99 {p99} us, p99.9 {p999} us\n\
         frames dropped for want of memory in the switch: {overrun}; that an interface did not take: {refused}"
    )
}

fn micros(late: &Histogram<u64>, quantile: f64) -> u128 {
    Duration::from_nanos(late.value_at_quantile(quantile)).as_micros()
}

#[cfg(test)]
mod tests {
    use consort_sim::link::LinkCounts;

    use super::*;
    use consort_testbed::network::memory::Course;

    #[test]
    fn columns_are_aligned_and_nothing_is_left_out() {
        let mut memory = Course::default();
        [3, 9, 5].into_iter().for_each(|mib| memory.push(mib << 20));
        let node = NodeResult { digest: "0".repeat(64), received: 1_000_000, memory, dropped_before: 4 };
        let counts =
            LinkCounts { carried: 123, lost: 4, duplicated: 5, reordered: 6, corrupted: 7, overflowed: 8, cut: 9 };
        let late = Histogram::new_with_max(1_000_000, 2).unwrap();
        let report = Report { pairs: vec![(0, 1, counts)], cables: vec![], overrun: 11, refused: 12, late };
        let text = Table(&Outcome { took: Duration::from_secs(1), nodes: vec![node], report }).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].ends_with("0  3 / 5 / 9"), "{}", lines[1]);
        assert_eq!(lines[3].len(), lines[4].len());
        let numbers: Vec<_> = lines[4].split_whitespace().collect();
        assert_eq!(numbers, ["1->2", "123", "4", "5", "6", "7", "8", "9"]);
        assert!(lines[7].ends_with("in the switch: 11; that an interface did not take: 12"), "{}", lines[7]);
        assert!(lines[8].ends_with("could read them: 4"));
    }
}
