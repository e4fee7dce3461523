//! The paper's model of latency, from how often ToTo's tau and omega took which values.
use super::traffic::Pace;
use std::collections::BTreeMap;

/// How many messages had which tau and omega.
pub type Joint = BTreeMap<(u64, u64), u64>;

/// By how much the paper's model differed from what the paper measured, in %: ToTo and all-ack.
const PAPER: [(Pace, u64, f64, f64); 8] = [
    (Pace::Periodic, 50, 1.3, 1.8),
    (Pace::Periodic, 100, 6.0, 0.8),
    (Pace::Periodic, 150, 0.4, 3.8),
    (Pace::Periodic, 200, 4.1, 17.7),
    (Pace::Poisson, 50, 7.2, 2.8),
    (Pace::Poisson, 100, 9.3, 3.5),
    (Pace::Poisson, 150, 18.7, 3.5),
    (Pace::Poisson, 200, 17.1, 8.9),
];

/// The latency that the model expects of `nodes` machines, each of which sends once in `gap` seconds on average: in
/// milliseconds.
pub fn latency(pace: Pace, nodes: u64, gap: f64, joint: &Joint) -> f64 {
    let messages = joint.values().sum::<u64>() as f64;
    let gaps = joint.iter().map(|((tau, omega), count)| gaps(pace, nodes, *tau, *omega) * *count as f64);
    1e3 * gap * gaps.sum::<f64>() / messages
}

/// How many gaps pass until `tau` of the machines are heard, of which `omega` were heard before.
fn gaps(pace: Pace, nodes: u64, tau: u64, omega: u64) -> f64 {
    match pace {
        Pace::Periodic => tau.saturating_sub(omega) as f64 / (nodes - omega.min(nodes) + 1) as f64,
        Pace::Poisson => (omega..tau).map(|heard| 1.0 / (nodes - heard) as f64).sum(),
    }
}

/// By how much the model differed from what the paper measured, in %: ToTo and all-ack. NaN where it measured nothing.
pub fn paper_off(pace: Pace, load: u64) -> (f64, f64) {
    let paper = PAPER.iter().find(|paper| (paper.0, paper.1) == (pace, load));
    paper.map_or((f64::NAN, f64::NAN), |paper| (paper.2, paper.3))
}

/// What stands above the rows.
pub fn head() -> String {
    format!(
        "\nThe paper's model of the same, from how often tau and omega took which values here: ms, and how far off in %\n\n\
         {:>4} {:<8} | {:^25} | {:^25} | paper:\n\
         {:>4} {:<8} |{COLUMNS} |{COLUMNS} | {:>8} {:>11}\n",
        "", "", "ToTo", "all-ack", "load", "", "ToTo off", "all-ack off"
    )
}

const COLUMNS: &str = " measured    model    off";

/// One row; for ToTo and all-ack what was measured, and what the model says.
pub fn row(pace: Pace, load: u64, halves: [(f64, f64); 2]) -> String {
    let [toto, all_ack] = halves.map(|(measured, model)| {
        format!("{measured:>9.2} {model:>8.2} {:>6.1}", 100.0 * (model - measured).abs() / measured)
    });
    let (of_toto, of_all_ack) = paper_off(pace, load);
    format!("{load:>4} {:<8} |{toto} |{all_ack} | {of_toto:>8.1} {of_all_ack:>11.1}\n", pace.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_speed_ups_follow_for_eight_machines_without_concurrency() {
        let of = |pace, tau| latency(pace, 8, 0.08, &Joint::from([((tau, 1), 3)]));
        assert!((of(Pace::Periodic, 8) / of(Pace::Periodic, 5) - 1.75).abs() < 1e-9);
        assert!(
            (of(Pace::Poisson, 8) / 80.0 - 2.593).abs() < 1e-3 && (of(Pace::Poisson, 5) / 80.0 - 0.760).abs() < 1e-3
        );
        let mixed = Joint::from([((5, 1), 1), ((8, 1), 1)]);
        assert!((latency(Pace::Periodic, 8, 0.08, &mixed) - 55.0).abs() < 1e-9);
    }

    #[test]
    fn a_row_names_what_the_paper_found() {
        let row = row(Pace::Periodic, 200, [(20.0, 25.0), (40.0, 39.0)]);
        assert!(row.starts_with(" 200 periodic |    20.00    25.00   25.0 |    40.00    39.00    2.5 |"), "{row}");
        assert!(row.ends_with("     4.1        17.7\n"), "{row}");
    }
}
