//! ToTo's section on performance: eight members, and from four to thirty-two.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::toto_loads::{Load, RUNS};
use crate::model;
use crate::parallel;
use crate::toto::{self, Cell, PAPER_NODES, Way};
use crate::traffic::Pace;
use consort_toto::Phi;
use consort_types::Duration;

fn setting(lab: &Lab) -> String {
    format!(
        "{PAPER_NODES} members, {} runs of 500 messages; a packet takes 1.5 ms and 0.5 ms on average more; no losses; hosts cost \
         nothing.",
        lab.scaled(RUNS)
    )
}

fn of(lab: &Lab, pace: Pace) -> Result<Vec<&Load>, String> {
    Ok(lab.toto()?.iter().filter(|load| load.pace == pace).collect())
}

fn latency_chart(loads: &[&Load]) -> Chart {
    let curve = |of: &dyn Fn(&Load) -> f64| loads.iter().map(|load| (load.rate as f64, of(load))).collect::<Vec<_>>();
    Chart {
        title: "Latency at the sender".into(),
        x: Axis::linear("messages a second"),
        y: Axis::linear("mean latency, ms"),
        curves: vec![
            Curve::line("ToTo", curve(&|load| load.toto.ms())),
            Curve::paper("ToTo, paper", curve(&|load| load.toto.paper_ms)),
            Curve::line("all-ack", curve(&|load| load.all_ack.ms())),
            Curve::paper("all-ack, paper", curve(&|load| load.all_ack.paper_ms)),
        ],
    }
}

/// Tables 2 and 3: the speed-up at each load, and how many members are waited for.
fn table(lab: &Lab, pace: Pace, least: f64) -> Result<Outcome, String> {
    let loads = of(lab, pace)?;
    let mut claims: Vec<_> = loads
        .iter()
        .map(|load| {
            let paper = format!("{:.2}", load.all_ack.paper_ms / load.toto.paper_ms);
            let what = format!("speed-up at {} a second", load.rate);
            Claim::at_least(&what, &paper, load.all_ack.ms() / load.toto.ms(), least, "times")
        })
        .collect();
    let most = loads.iter().map(|load| load.toto.measured.mean_tau()).fold(0.0, f64::max);
    let least = loads.iter().map(|load| load.all_ack.measured.mean_tau()).fold(f64::INFINITY, f64::min);
    claims.push(Claim::at_most("mean tau of ToTo", "5.1 to 5.9", most, 6.0, "members"));
    claims.push(Claim::at_least("mean tau of all-ack", "8.00", least, 7.9, "members"));
    Ok(Outcome { setting: setting(lab), charts: vec![latency_chart(&loads)], claims })
}

pub fn table_2(lab: &Lab) -> Result<Outcome, String> {
    table(lab, Pace::Periodic, 1.45)
}

pub fn table_3(lab: &Lab) -> Result<Outcome, String> {
    table(lab, Pace::Poisson, 2.3)
}

/// Tables 4 and 5: the paper's model against what was measured.
fn predicted(lab: &Lab, pace: Pace) -> Result<Outcome, String> {
    let loads = of(lab, pace)?;
    let mut claims = Vec::new();
    for load in &loads {
        let (of_toto, of_all_ack) = model::paper_off(pace, load.rate);
        for (name, half, paper) in [("ToTo", &load.toto, of_toto), ("all-ack", &load.all_ack, of_all_ack)] {
            let what = format!("{name} at {} a second: the model is off by", load.rate);
            let off = 100.0 * (half.model_ms(pace, load.rate) / half.ms() - 1.0).abs();
            claims.push(Claim::at_most(&what, &format!("{paper} %"), off, 20.0, "%"));
        }
    }
    let curve = |of: &dyn Fn(&Load) -> f64| loads.iter().map(|load| (load.rate as f64, of(load))).collect::<Vec<_>>();
    let chart = Chart {
        title: "Measured here, and by the paper's model".into(),
        x: Axis::linear("messages a second"),
        y: Axis::linear("mean latency, ms"),
        curves: vec![
            Curve::line("ToTo", curve(&|load| load.toto.ms())),
            Curve::model("ToTo, model", curve(&|load| load.toto.model_ms(pace, load.rate))),
            Curve::line("all-ack", curve(&|load| load.all_ack.ms())),
            Curve::model("all-ack, model", curve(&|load| load.all_ack.model_ms(pace, load.rate))),
        ],
    };
    Ok(Outcome { setting: setting(lab), charts: vec![chart], claims })
}

pub fn table_4(lab: &Lab) -> Result<Outcome, String> {
    predicted(lab, Pace::Periodic)
}

pub fn table_5(lab: &Lab) -> Result<Outcome, String> {
    predicted(lab, Pace::Poisson)
}

/// Equations (1) and (2): the speed-up that they give eight members without concurrency.
pub fn equations(_: &Lab) -> Result<Outcome, String> {
    let of = |pace, tau| model::latency(pace, PAPER_NODES, 0.08, &model::Joint::from([((tau, 1), 1)]));
    let speed_up = |pace| of(pace, 8) / of(pace, 5);
    let claims = vec![
        Claim::near("periodic: tau 8 by tau 5", 1.75, speed_up(Pace::Periodic), 5.0, "times"),
        Claim::at_least("Poisson: tau 8 by tau 5", "about 2.75", speed_up(Pace::Poisson), 2.75, "times"),
    ];
    let curve = |pace: Pace| {
        let points = (5..=8).map(|tau| (tau as f64, of(pace, tau))).collect();
        Curve::model(pace.name(), points)
    };
    let chart = Chart {
        title: "Latency by the number of members waited for".into(),
        x: Axis::linear("tau, members"),
        y: Axis::linear("latency, ms"),
        curves: vec![curve(Pace::Periodic), curve(Pace::Poisson)],
    };
    let setting = "The formulas for eight members, each of which sends once in 80 ms, and omega 1.".into();
    Ok(Outcome { setting, charts: vec![chart], claims })
}

/// Figures 5 and 6: how often tau had which value.
fn histogram(lab: &Lab, pace: Pace) -> Result<Outcome, String> {
    let loads = of(lab, pace)?;
    let shares = |load: &Load| -> Vec<(f64, f64)> {
        let joint = load.toto.measured.joint();
        let all = joint.values().sum::<u64>() as f64;
        let of = |tau: u64| joint.iter().filter(|((of, _), _)| *of == tau).map(|(_, count)| count).sum::<u64>();
        (1..=PAPER_NODES).map(|tau| (tau as f64, 100.0 * of(tau) as f64 / all)).collect()
    };
    let claim = |load: &&Load| {
        let share: f64 = shares(load).iter().filter(|(tau, _)| (5.0..=6.0).contains(tau)).map(|(_, share)| share).sum();
        let what = format!("tau of 5 or 6 at {} a second", load.rate);
        Claim::at_least(&what, "concentrated around Phi + 1", share, 60.0, "%")
    };
    let claims = loads.iter().map(claim).collect();
    let chart = Chart {
        title: "Index of latency".into(),
        x: Axis::linear("tau, members"),
        y: Axis::linear("messages, %"),
        curves: loads.iter().map(|load| Curve::line(format!("{} a second", load.rate), shares(load))).collect(),
    };
    Ok(Outcome { setting: setting(lab), charts: vec![chart], claims })
}

pub fn figure_5(lab: &Lab) -> Result<Outcome, String> {
    histogram(lab, Pace::Periodic)
}

pub fn figure_6(lab: &Lab) -> Result<Outcome, String> {
    histogram(lab, Pace::Poisson)
}

/// The gain over the number of members, under Poisson load at which each sends ten messages a second.
pub fn gain(lab: &Lab) -> Result<Outcome, String> {
    // The paper says O(log n) and no numbers; these were expected beforehand.
    const EXPECTED: [(u64, f64); 4] = [(4, 1.5), (8, 2.9), (16, 4.2), (32, 5.2)];
    let speed_up = |(nodes, _): &(u64, f64)| {
        let bench = toto::Lab { nodes: *nodes, runs: lab.scaled(20), ..toto::Lab::default() };
        let ms = |phi| {
            let cell = Cell { pace: Pace::Poisson, load: 10 * nodes, phi };
            Ok::<_, String>(toto::cell(lab.scale.seed, &bench, cell)?.latency.summary().mean)
        };
        Ok(ms(Phi::All)? / ms(Phi::Half)?)
    };
    let found = parallel::map(&EXPECTED, speed_up)?;
    let claim = |((nodes, expected), found): (&(u64, f64), &f64)| {
        Claim::near_to(&format!("{nodes} members"), "O(log n)", *expected, *found, 20.0, "times")
    };
    let claims = EXPECTED.iter().zip(&found).map(claim).collect();
    let points = |of: &[f64]| EXPECTED.iter().zip(of).map(|((nodes, _), gain)| (*nodes as f64, *gain)).collect();
    let expected: Vec<f64> = EXPECTED.iter().map(|(_, gain)| *gain).collect();
    let chart = Chart {
        title: "All-ack's latency by ToTo's".into(),
        x: Axis::log("members"),
        y: Axis::linear("speed-up, times"),
        curves: vec![
            Curve::line("runs", points(&found)),
            Curve::model("expected, in steps of log n", points(&expected)),
        ],
    };
    let setting = format!("Each member sends 10 messages a second at random; {} runs of 500 messages.", lab.scaled(20));
    Ok(Outcome { setting, charts: vec![chart], claims })
}

/// All-ack's latency by ToTo's over a network like that, under Poisson load, where votes need so many.
fn speed_up(lab: &Lab, way: Way, load: u64) -> Result<f64, String> {
    let bench = toto::Lab { runs: lab.scaled(20), way, ..toto::Lab::default() };
    let ms = |phi| {
        let cell = Cell { pace: Pace::Poisson, load, phi };
        Ok::<_, String>(toto::cell(lab.scale.seed, &bench, cell)?.latency.summary().mean)
    };
    Ok(ms(Phi::All)? / ms(Phi::Half)?)
}

/// Where the network takes long for all, and where it does for one. The paper expects a gain and has no numbers.
pub fn wide_area(lab: &Lab) -> Result<Outcome, String> {
    // What a simulation of the paper's rules gave, made before this engine was.
    const DISTANCES: [(u64, f64); 6] = [(1, 2.9), (5, 2.25), (10, 1.75), (20, 1.3), (40, 1.1), (80, 1.0)];
    const LOADS: [(u64, f64); 3] = [(50, 1.6), (200, 2.5), (400, 3.4)];
    let far = |(ms, _): &(u64, f64)| speed_up(lab, Way::Distance(Duration::from_millis(*ms)), 100);
    let slow = |(load, _): &(u64, f64)| speed_up(lab, Way::Straggler(Duration::from_millis(200)), *load);
    let (far, slow) = (parallel::map(&DISTANCES, far)?, parallel::map(&LOADS, slow)?);
    let near =
        |what: String, expected: f64, found: f64| Claim::near_to(&what, "a gain", expected, found, 20.0, "times");
    let mut claims = Vec::new();
    claims.extend(DISTANCES.iter().zip(&far).map(|((ms, of), found)| near(format!("all {ms} ms apart"), *of, *found)));
    let one = LOADS.iter().zip(&slow);
    claims.extend(one.map(|((load, of), found)| near(format!("one 200 ms away, {load} a second"), *of, *found)));
    let chart = |title: &str, x, expected: &[(u64, f64)], found: &[f64]| {
        let points =
            |values: &mut dyn Iterator<Item = f64>| expected.iter().map(|(at, _)| *at as f64).zip(values).collect();
        let model = points(&mut expected.iter().map(|(_, of)| *of));
        let curves = vec![Curve::line("runs", points(&mut found.iter().copied())), Curve::model("expected", model)];
        Chart { title: title.into(), x: Axis::log(x), y: Axis::linear("speed-up, times"), curves }
    };
    let charts = vec![
        chart("All-ack's latency by ToTo's, 100 messages a second", "between members, ms", &DISTANCES, &far),
        chart("The same where one member is slow", "messages a second", &LOADS, &slow),
    ];
    let runs = lab.scaled(20);
    let setting = format!(
        "{PAPER_NODES} members, Poisson, {runs} runs of 500 messages. Packets take as long between all, or 200 ms more from one; \
         at random 0.5 ms more on average."
    );
    Ok(Outcome { setting, charts, claims })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toto::PAPER;

    #[test]
    fn the_equations_give_the_papers_speed_ups() {
        let outcome = equations(&Lab::new(1, true)).unwrap();
        assert!(!outcome.claims.is_empty());
        assert!(outcome.claims[0].holds, "{outcome:?}");
    }

    #[test]
    fn loads_are_those_of_the_tables_and_histograms_add_up() {
        let lab = Lab::new(1, true);
        assert_eq!(lab.toto().unwrap().len(), PAPER.len());
        let outcome = figure_5(&lab).unwrap();
        assert_eq!(outcome.charts[0].curves.len(), 4);
        for curve in &outcome.charts[0].curves {
            let all: f64 = curve.points.iter().map(|(_, share)| share).sum();
            assert!((all - 100.0).abs() < 1e-6, "{curve:?}");
        }
    }
}
