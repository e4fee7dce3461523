//! A figure as text: its points in columns, and its claims.
use super::Verdict;
use super::all::Figure;
use super::figure::{Chart, Claim, Outcome, short, with_unit};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All of it.
pub fn figure(figure: &Figure, outcome: &Outcome) -> String {
    format!("{:<11} {}: {}\n{}\n", Verdict::of(outcome), figure.name(), figure.title, body(outcome))
}

fn body(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", outcome.setting);
    outcome.charts.iter().for_each(|shown| text += &format!("\n{}", chart(shown)));
    text += "\n";
    outcome.claims.iter().for_each(|claim| text += &line(claim));
    text
}

fn line(claim: &Claim) -> String {
    let verdict = if claim.holds { "holds " } else { "MISSED" };
    let Claim { what, paper, ours, bound, .. } = claim;
    format!("  {verdict} {what}: paper {paper}, here {ours}; {bound}\n")
}

/// One row for each place on the axis, one column for each curve. Writing to a string does not fail.
fn chart(chart: &Chart) -> String {
    let mut rows: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for (column, curve) in chart.curves.iter().enumerate() {
        for (x, y) in &curve.points {
            // Places on an axis are not negative: their bits are in their order.
            let row = rows.entry((x + 0.0).to_bits()).or_insert_with(|| vec![None; chart.curves.len()]);
            row[column] = Some(*y);
        }
    }
    let mut text = format!("{}\n", chart.title);
    let _ = writeln!(text, "{} against {}", chart.y.label, chart.x.label);
    let widths: Vec<_> = chart.curves.iter().map(|curve| curve.name.chars().count().max(9)).collect();
    let _ = write!(text, "{:>9}", "");
    chart.curves.iter().zip(&widths).for_each(|(curve, width)| _ = write!(text, "  {:>width$}", curve.name));
    for (x, row) in rows {
        let _ = write!(text, "\n{:>9}", short(f64::from_bits(x)));
        for (value, width) in row.into_iter().zip(&widths) {
            let value = value.map_or(String::new(), |value| with_unit(value, ""));
            let _ = write!(text, "  {value:>width$}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Axis, Curve, Paper};
    use super::*;

    #[test]
    fn curves_are_columns_over_all_places_of_the_axis() {
        let of = Figure { paper: Paper::Toto, number: "table-2", title: "t", run: |_| Err(String::new()) };
        let curves =
            vec![Curve::line("ours", vec![(10.0, 1.0), (2.0, 1_500.0)]), Curve::paper("paper", vec![(2.5, 123.456)])];
        let chart = Chart { title: "c".into(), x: Axis::linear("load"), y: Axis::linear("ms"), curves };
        let claims = vec![Claim::near("at 2", 1_000.0, 1_500.0, 10.0, "ms")];
        let outcome = Outcome { setting: "8 hosts".into(), charts: vec![chart], claims };
        let text = figure(&of, &outcome);
        let expected = "missed toto/table-2: t\n8 hosts\n\nc\nms against load\n                ours      paper\n        2       1500           \n       2.5                 123.5\n";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&text).starts_with(&squeezed(expected)), "{text}");
        assert!(text.ends_with("  MISSED at 2: paper 1000 ms, here 1500 ms (+50 %); within 10 %\n\n"), "{text}");
    }
}
