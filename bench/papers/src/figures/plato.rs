//! PLATO's figures: how close swapped packets come, and what is gained by it.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::{Lab, SECONDS};
use crate::losses::{Losses, READER};
use crate::parallel;
use crate::plato::{self, Measured, SPIKE};
use crate::swaps::Pair;
use consort_plato::AdaptationPace;
use consort_types::Duration;

/// The paper's delta.
const DELTA: Duration = Duration::from_micros(128);
/// Packets a second of the histograms.
const SHOWN: [u64; 3] = [400, 1_200, 4_000];

fn setting(lab: &Lab) -> String {
    format!(
        "A sequencer, four senders in turn near it and far from it, and a receiver at two switches; a packet takes 200 us, 25 us \
         more between switches and 15 us on average more; Poisson, {} s a point; no losses.",
        lab.scaled(SECONDS)
    )
}

/// What more is lost at 4000 packets a second than at 800, in points.
fn more_lost(runs: &[(u64, Losses)]) -> f64 {
    let at = |wanted| runs.iter().find(|(rate, _)| *rate == wanted).map_or(f64::NAN, |(_, losses)| losses.percent);
    at(4_000) - at(800)
}

/// Gaps of the swapped pairs, or of all, in microseconds, shortest first.
fn gaps(pairs: &[Pair], only_swapped: bool) -> Vec<f64> {
    let of = pairs.iter().filter(|pair| pair.swapped || !only_swapped);
    let mut gaps: Vec<_> = of.map(|pair| pair.gap.as_secs_f64() * 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

/// How many of these are no longer than that, in %.
fn within(gaps: &[f64], most: f64) -> f64 {
    100.0 * gaps.partition_point(|gap| *gap <= most) as f64 / gaps.len() as f64
}

/// 95 of a hundred are no longer than this.
fn most_of(gaps: &[f64]) -> f64 {
    gaps.get((gaps.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

pub fn figure_3(lab: &Lab) -> Result<Outcome, String> {
    let runs = lab.pairs()?;
    let share = |pairs: &[Pair]| 100.0 * gaps(pairs, true).len() as f64 / pairs.len() as f64;
    let points: Vec<_> = runs.iter().map(|(rate, pairs)| (*rate as f64, share(pairs))).collect();
    let at = |wanted: f64| points.iter().find(|(rate, _)| *rate == wanted).map_or(f64::NAN, |(_, share)| *share);
    let claims = vec![
        Claim::near("swapped at 800 a second", 1.0, at(800.0), 50.0, "%"),
        Claim::near("swapped at 4000 a second", 4.0, at(4_000.0), 50.0, "%"),
        Claim::at_least(
            "losses at 4000 a second less those at 800",
            "increase",
            more_lost(lab.losses()?),
            0.1,
            "points",
        ),
        Claim::missing("unevenly, from rate to rate", "less smoothly", "switch-outs that depend on the rate"),
    ];
    let lost = Curve::line("lost packets", lab.losses()?.iter().map(|(rate, of)| (*rate as f64, of.percent)).collect());
    let stated = Curve::paper("Cornell, five switches", vec![(800.0, 1.0), (4_000.0, 4.0)]);
    let chart = Chart {
        title: "Pairs of packets that two receivers see in different orders".into(),
        x: Axis::linear("packets a second"),
        y: Axis::linear("swapped pairs, %"),
        curves: vec![Curve::line("runs", points), stated],
    };
    let losses = Chart {
        title: "Packets that a receiver loses that is switched out".into(),
        x: Axis::linear("packets a second"),
        y: Axis::linear("lost packets, %"),
        curves: vec![lost],
    };
    let setting = format!("{} Losses were counted apart, as for figure 6.", setting(lab));
    Ok(Outcome { setting, charts: vec![chart, losses], claims })
}

pub fn figure_4(lab: &Lab) -> Result<Outcome, String> {
    let runs = lab.pairs()?;
    let shown: Vec<f64> = (0..=16).map(|step| f64::from(step * 16)).collect();
    let curve =
        |name: String, gaps: &[f64]| Curve::line(name, shown.iter().map(|us| (*us, within(gaps, *us))).collect());
    let curves = runs.iter().filter(|(rate, _)| SHOWN.contains(rate)).flat_map(|(rate, pairs)| {
        [curve(format!("swapped, {rate}/s"), &gaps(pairs, true)), curve(format!("all, {rate}/s"), &gaps(pairs, false))]
    });
    let chart = Chart {
        title: "Pairs that come within a time".into(),
        x: Axis::linear("between two packets, us"),
        y: Axis::linear("pairs within it, %"),
        curves: curves.collect(),
    };
    let first = runs.first().map(|(_, pairs)| (gaps(pairs, true), gaps(pairs, false))).unwrap_or_default();
    let us = DELTA.as_secs_f64() * 1e6;
    let claims = vec![
        Claim::at_least("swapped pairs within 128 us, 400 a second", "95 %", within(&first.0, us), 90.0, "%"),
        Claim::at_most("all pairs within 128 us, 400 a second", "14 %", within(&first.1, us), 20.0, "%"),
    ];
    Ok(Outcome { setting: setting(lab), charts: vec![chart], claims })
}

pub fn figure_5(lab: &Lab) -> Result<Outcome, String> {
    let runs = lab.pairs()?;
    let most: Vec<_> = runs.iter().map(|(rate, pairs)| (*rate as f64, most_of(&gaps(pairs, true)))).collect();
    let share = |pairs: &[Pair]| within(&gaps(pairs, false), most_of(&gaps(pairs, true)));
    let shares: Vec<_> = runs.iter().map(|(rate, pairs)| (*rate as f64, share(pairs))).collect();
    let (least_us, most_us) =
        most.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), (_, us)| (us.min(least), us.max(most)));
    let rises = shares.windows(2).map(|pair| pair[1].1 / pair[0].1).fold(f64::INFINITY, f64::min);
    let claims = vec![
        Claim::at_most(
            "95th percentile of swapped gaps, largest by smallest",
            "almost constant",
            most_us / least_us,
            1.5,
            "times",
        ),
        Claim::at_least("least step of the share of all pairs", "rises significantly", rises, 1.0, "times"),
    ];
    let x = Axis::linear("packets a second");
    let charts = vec![
        Chart {
            title: "95th percentile of gaps between swapped packets".into(),
            x,
            y: Axis::linear("gap, us"),
            curves: vec![Curve::line("runs", most)],
        },
        Chart {
            title: "All pairs within that gap".into(),
            x,
            y: Axis::linear("pairs, %"),
            curves: vec![Curve::line("runs", shares)],
        },
    ];
    Ok(Outcome { setting: setting(lab), charts, claims })
}

/// Fewer bursts of losses than this have no 95th percentile.
const ENOUGH: usize = 20;

/// What tells a loss before it comes: how close to each other packets are read.
pub fn figure_6(lab: &Lab) -> Result<Outcome, String> {
    let runs = lab.losses()?;
    let enough: Vec<_> = runs.iter().filter(|(_, losses)| losses.before.len() >= ENOUGH).collect();
    let most: Vec<_> = enough.iter().map(|(rate, losses)| (*rate as f64, most_of(&losses.before))).collect();
    let share = |losses: &Losses| within(&losses.all, most_of(&losses.before));
    let shares = enough.iter().map(|(rate, losses)| (*rate as f64, share(losses))).collect();
    let longest = most.iter().map(|(_, us)| *us).reduce(f64::max).unwrap_or(f64::NAN);
    let without = (runs.len() - enough.len()) as f64;
    let us = DELTA.as_secs_f64() * 1e6;
    let claims = vec![
        Claim::at_most(
            "largest 95th percentile of the shortest gap before a loss",
            "very low; delta catches it",
            longest,
            us,
            "us",
        ),
        Claim::at_least("rates with too few losses for a percentile", "some are not plotted", without, 1.0, "rates"),
    ];
    let x = Axis::linear("packets a second");
    let chart = |title: &str, y, name: &str, points| Chart {
        title: title.into(),
        x,
        y: Axis::linear(y),
        curves: vec![Curve::line(name, points)],
    };
    let charts = vec![
        chart("95th percentile of the shortest of five gaps before a loss", "gap, us", "before a loss", most),
        chart("Every five gaps with one within that", "five gaps, %", "all", shares),
    ];
    let (read, out, runs) = (READER.read.as_micros(), READER.out.as_millis(), READER.runs.as_millis());
    let setting = format!(
        "A sequencer, two senders and a receiver as in figure 3, {} s a point. The receiver takes {read} us to read a packet and \
         its socket holds {} of them. It runs for {runs} ms and is switched out for {out} ms, on average, both at random.",
        lab.scaled(SECONDS),
        READER.packets
    );
    Ok(Outcome { setting, charts, claims })
}

fn measure(lab: &Lab, delta: Duration, every: u32, rate: u64) -> Result<Measured, String> {
    let bench = plato::Lab { seconds: lab.scaled(SECONDS), delta: Some(delta), ..plato::Lab::default() };
    plato::run(lab.scale.seed, &bench, every, rate, bench.seconds, None)
}

/// PLATO's mean and the sequencer's, in milliseconds.
fn means(measured: &Measured) -> (f64, f64) {
    let part = measured.part(0..u64::MAX);
    (part.plato.summary().mean, part.fixed.summary().mean)
}

/// PLATO and the sequencer under one delta.
struct DeltaRun {
    us: f64,
    plato: f64,
    fixed: f64,
    late: f64,
}

fn by_delta(lab: &Lab, rate: u64, every: u32) -> Result<Vec<DeltaRun>, String> {
    const DELTAS: [u64; 6] = [16, 64, 128, 256, 1_024, 4_096];
    parallel::map(&DELTAS, |us| {
        let measured = measure(lab, Duration::from_micros(*us), every, rate)?;
        let (plato, fixed) = means(&measured);
        Ok(DeltaRun { us: *us as f64, plato, fixed, late: measured.late_percent() })
    })
}

fn delta_claims(runs: &[DeltaRun], rate: u64, every: u32) -> [Claim; 3] {
    let what = |what: &str| format!("{what}, {rate} a second, k = {every}");
    let slower = runs.windows(2).map(|pair| pair[1].plato - pair[0].plato).fold(f64::INFINITY, f64::min);
    let later = runs.windows(2).map(|pair| pair[1].late - pair[0].late).fold(f64::NEG_INFINITY, f64::max);
    let slowest = runs.iter().map(|run| run.plato / run.fixed).fold(0.0, f64::max);
    [
        Claim::at_least(&what("least step of latency to the next delta"), "rises", slower, -0.01, "ms"),
        Claim::at_most(&what("largest step of late revokes"), "falls", later, 0.05, "points"),
        Claim::at_most(&what("PLATO by the sequencer"), "always faster", slowest, 1.0, "times"),
    ]
}

pub fn figure_8(lab: &Lab) -> Result<Outcome, String> {
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for rate in [400, 1_600] {
        let mut curves = Vec::new();
        for every in [10, 25] {
            let runs = by_delta(lab, rate, every)?;
            claims.extend(delta_claims(&runs, rate, every));
            let points = |of: &dyn Fn(&DeltaRun) -> f64| runs.iter().map(|run| (run.us, of(run))).collect();
            curves.push(Curve::line(format!("PLATO, k = {every}"), points(&|run| run.plato)));
            curves.push(Curve::model(format!("sequencer, k = {every}"), points(&|run| run.fixed)));
        }
        let (x, y) = (Axis::log("delta, us"), Axis::linear("mean latency, ms"));
        charts.push(Chart { title: format!("{rate} packets a second"), x, y, curves });
    }
    Ok(Outcome { setting: setting(lab), charts, claims })
}

/// Means of each second over the spike, for k = 10 and 25.
pub fn figure_9(lab: &Lab) -> Result<Outcome, String> {
    let third = lab.scaled(20).max(4);
    let (low, more, _) = SPIKE;
    let runs = parallel::map(&[10, 25], |every| {
        let bench = plato::Lab { seconds: third, delta: Some(DELTA), ..plato::Lab::default() };
        plato::run(lab.scale.seed, &bench, *every, low, 3 * third, Some((more, third..2 * third)))
    })?;
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for (every, measured) in [10, 25].iter().zip(&runs) {
        let seconds: Vec<_> = (0..3 * third)
            .map(|second| {
                let part = measured.part(second..second + 1);
                (second as f64, part.plato.summary().mean, part.fixed.summary().mean)
            })
            .collect();
        let swing = |of: &dyn Fn(&(f64, f64, f64)) -> f64| {
            let (least, most) = seconds
                .iter()
                .map(of)
                .fold((f64::INFINITY, 0.0_f64), |(least, most), ms| (ms.min(least), ms.max(most)));
            most / least
        };
        let what = |what: &str| format!("{what}, largest by smallest mean of a second, k = {every}");
        claims.push(Claim::at_most(&what("PLATO"), "constant", swing(&|second| second.1), 2.0, "times"));
        claims.push(Claim::at_least(&what("sequencer"), "varies drastically", swing(&|second| second.2), 3.0, "times"));
        charts.push(Chart {
            title: format!("{low}, {} and {low} packets a second, k = {every}", low + more),
            x: Axis::linear("time, s"),
            y: Axis::linear("mean latency, ms"),
            curves: vec![
                Curve::line("PLATO", seconds.iter().map(|second| (second.0, second.1)).collect()),
                Curve::line("sequencer", seconds.iter().map(|second| (second.0, second.2)).collect()),
            ],
        });
    }
    Ok(Outcome { setting: setting(lab), charts, claims })
}

pub fn figure_10(lab: &Lab) -> Result<Outcome, String> {
    let mut cells = Vec::new();
    [10, 25].iter().for_each(|every| cells.extend([200, 400, 800, 1_600, 3_200].map(|rate| (*every, rate))));
    let runs = parallel::map(&cells, |(every, rate)| {
        let measured = measure(lab, DELTA, *every, *rate)?;
        let (plato, fixed) = means(&measured);
        Ok((*every, *rate, plato, fixed, measured.late_percent()))
    })?;
    let (mut curves, mut claims) = (Vec::new(), Vec::new());
    for every in [10, 25] {
        let of: Vec<_> = runs.iter().filter(|run| run.0 == every).collect();
        let falls = of.windows(2).map(|pair| pair[1].3 / pair[0].3).fold(0.0, f64::max);
        let what = format!("largest step of the sequencer's latency to the next rate, k = {every}");
        claims.push(Claim::at_most(&what, "falls", falls, 1.0, "times"));
        let slowest = of.iter().map(|run| run.2 / run.3).fold(0.0, f64::max);
        claims.push(Claim::at_most(&format!("PLATO by the sequencer, k = {every}"), "faster", slowest, 1.0, "times"));
        curves.push(Curve::line(format!("PLATO, k = {every}"), of.iter().map(|run| (run.1 as f64, run.2)).collect()));
        curves
            .push(Curve::line(format!("sequencer, k = {every}"), of.iter().map(|run| (run.1 as f64, run.3)).collect()));
    }
    if let Some((_, _, plato, fixed, late)) = runs.iter().find(|run| (run.0, run.1) == (10, 400)) {
        claims.push(Claim::at_least(
            "sequencer by PLATO, 400 a second, k = 10",
            "more than 2",
            fixed / plato,
            2.0,
            "times",
        ));
        claims.push(Claim::at_most("late revokes there", "less than 1 %", *late, 1.0, "%"));
    }
    let chart = Chart {
        title: "Latency by rate, delta 128 us".into(),
        x: Axis::log("packets a second"),
        y: Axis::linear("mean latency, ms"),
        curves,
    };
    Ok(Outcome { setting: setting(lab), charts: vec![chart], claims })
}

/// The spike again, with the paper's own rule for delta.
pub fn figure_11(lab: &Lab) -> Result<Outcome, String> {
    let third = lab.scaled(20).max(4);
    let (low, more, every) = SPIKE;
    let runs = parallel::map(&[None, Some(DELTA)], |delta| {
        let bench = plato::Lab { seconds: third, delta: *delta, pace: AdaptationPace::Paper };
        plato::run(lab.scale.seed, &bench, every, low, 3 * third, Some((more, third..2 * third)))
    })?;
    let [adaptive, fixed] = &runs[..] else { return Err("two runs were asked for".into()) };
    let mut claims = Vec::new();
    for (when, part) in [("before", 0..third), ("in", third..2 * third), ("after", 2 * third..3 * third)] {
        let part = adaptive.part(part);
        let ratio = part.plato.summary().mean / part.fixed.summary().mean;
        let what = format!("PLATO by the sequencer {when} the spike");
        claims.push(Claim::at_most(&what, "always faster (figure 8)", ratio, 1.0, "times"));
    }
    let by_fixed = means(adaptive).0 / means(fixed).0;
    claims.push(Claim::at_most("latency by that of a delta of 128 us", "good performance", by_fixed, 2.0, "times"));
    let late = adaptive.late_percent();
    claims.push(Claim::at_most("late revokes", "the rule aims at 1 %", late, 1.0, "%"));
    let x = Axis::linear("time, s");
    let seconds = |measured: &Measured, of: &dyn Fn(&plato::Part) -> f64| {
        (0..3 * third).map(|second| (second as f64, of(&measured.part(second..second + 1)))).collect()
    };
    let latency = Chart {
        title: format!("{low}, {} and {low} packets a second, k = {every}", low + more),
        x,
        y: Axis::linear("mean latency, ms"),
        curves: vec![
            Curve::line("PLATO, the paper's rule", seconds(adaptive, &|part| part.plato.summary().mean)),
            Curve::line("PLATO, delta 128 us", seconds(fixed, &|part| part.plato.summary().mean)),
            Curve::line("sequencer", seconds(adaptive, &|part| part.fixed.summary().mean)),
        ],
    };
    let each = adaptive.deltas.iter().step_by(10).enumerate().map(|(second, us)| (second as f64, *us));
    let delta = Chart {
        title: "Delta by the paper's rule".into(),
        x,
        y: Axis::log("delta, us"),
        curves: vec![Curve::line("delta", each.collect())],
    };
    let setting = format!("{} Delta begins at 128 us and stays within 5 us and 20 ms.", setting(lab));
    Ok(Outcome { setting, charts: vec![latency, delta], claims })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::lab::LOSS_RATES;

    #[test]
    fn losses_are_told_where_there_are_enough() {
        let outcome = figure_6(&Lab::new(1, true)).unwrap();
        assert!(outcome.charts.iter().all(|chart| chart.curves[0].points.len() < LOSS_RATES.len()), "{outcome:?}");
        assert!(outcome.claims[1].holds, "{outcome:?}");
        let losses = |percent| Losses { percent, before: vec![], all: vec![] };
        assert_eq!(more_lost(&[(800, losses(0.5)), (4_000, losses(2.0))]), 1.5);
        assert!(more_lost(&[]).is_nan());
    }

    #[test]
    fn the_papers_rule_is_shown_beside_a_fixed_delta() {
        let outcome = figure_11(&Lab::new(1, true)).unwrap();
        let names: Vec<_> =
            outcome.charts.iter().flat_map(|chart| &chart.curves).map(|curve| &curve.name[..]).collect();
        assert_eq!(names, ["PLATO, the paper's rule", "PLATO, delta 128 us", "sequencer", "delta"]);
        let deltas = &outcome.charts[1].curves[0].points;
        assert!(deltas.iter().all(|(_, us)| (5.0..=20_000.0).contains(us)), "{deltas:?}");
        assert!(deltas.iter().any(|(_, us)| *us != 128.0), "it adapts: {deltas:?}");
    }

    #[test]
    fn shares_count_what_is_no_longer() {
        let pair = |us, swapped| Pair { gap: Duration::from_micros(us), swapped };
        let pairs = [pair(300, false), pair(10, true), pair(128, false), pair(129, false)];
        let all = gaps(&pairs, false);
        assert_eq!((within(&all, 128.0), most_of(&all)), (50.0, 300.0));
        assert_eq!(gaps(&pairs, true), [10.0]);
        assert!(most_of(&[]).is_nan());
    }
}
