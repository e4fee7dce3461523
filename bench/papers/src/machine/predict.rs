//! What the simulator says of three and of eight daemons on a calibrated machine, beside what they do there.
use super::calibrate::LARGE;
use super::host_file::HostFile;
use super::programs::Programs;
use super::{Machine, Measured, Work};
use crate::parallel;
use consort_types::Duration;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// How many daemons.
const DAEMONS: [usize; 2] = [3, 8];
/// How far a prediction may be off, in per cent.
const WITHIN: f64 = 25.0;
/// How long the simulator runs before it measures, and while it does, with as much as goes and at a rate.
const BEFORE: Duration = Duration::from_millis(100);
const FULL: Duration = Duration::from_millis(300);
const AT_RATE: Duration = Duration::from_secs(2);

/// What so many daemons do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    pub daemons: usize,
    /// Messages ordered in a second where as many are sent as go.
    pub ordered_per_s: f64,
    /// The latency of half of the messages at most, and how many were sent in a second then.
    pub rate: f64,
    pub p50_us: f64,
}

/// What the simulator says.
///
/// # Errors
/// Its.
pub fn simulated(host: &HostFile, rate: f64) -> Result<Vec<Figures>, String> {
    parallel::map(&DAEMONS, |daemons| {
        let run = |rate: Option<f64>, span| -> Result<Measured, String> {
            let work = Work { daemons: *daemons, senders: *daemons, receivers: *daemons, len: LARGE, rate };
            Ok(Machine::start(host, work)?.measure(BEFORE, span))
        };
        let ordered_per_s = run(None, FULL)?.ordered_per_s;
        Ok(Figures { daemons: *daemons, ordered_per_s, rate, p50_us: run(Some(rate), AT_RATE)?.p50_us })
    })
}

/// What the machine does: measured, or read from a file that an earlier measurement wrote.
///
/// # Errors
/// What kept it from that, or what is wrong with the file.
pub fn measured(
    programs: impl FnOnce() -> Result<Programs, String>,
    rate: f64,
    file: Option<&Path>,
) -> Result<Vec<Figures>, String> {
    if let Some(file) = file.filter(|file| file.exists()) {
        return read(file, rate);
    }
    let programs = programs()?;
    let of = |daemons: &usize| {
        let words = |kind: &str| format!("{kind} --nodes {daemons} --size {LARGE} --warm-up 500ms");
        let full = programs.round(&format!("{} --seconds 1 --runs 5", words("ring")))?;
        let paced = programs.round(&format!("{} --rate {rate:.0} --seconds 2 --runs 3", words("latency")))?;
        let (ordered_per_s, p50_us) = (full.ordered_per_s, paced.latency_us.p50);
        Ok(Figures { daemons: *daemons, ordered_per_s, rate, p50_us })
    };
    let figures = DAEMONS.iter().map(of).collect::<Result<Vec<_>, String>>()?;
    if let Some(file) = file {
        let text = serde_json::to_string_pretty(&figures).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n")
            .map_err(|error| format!("--measured {}: cannot be written: {error}", file.display()))?;
    }
    Ok(figures)
}

fn read(file: &Path, rate: f64) -> Result<Vec<Figures>, String> {
    let wrong = |why: String| format!("--measured {}: {why}; remove it to measure anew", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let figures: Vec<Figures> = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let daemons: Vec<_> = figures.iter().map(|figures| figures.daemons).collect();
    if daemons != DAEMONS {
        return Err(wrong(format!("it has figures of {daemons:?} daemons, not of {DAEMONS:?}")));
    }
    if let Some(other) = figures.iter().find(|figures| figures.rate != rate) {
        return Err(wrong(format!("its rate is {}, not {rate}", other.rate)));
    }
    Ok(figures)
}

/// Both, side by side.
pub fn table(simulated: &[Figures], measured: &[Figures]) -> String {
    let mut text = format!("messages of {LARGE} bytes, agreed     predicted   measured   ratio\n");
    let (mut near, mut all) = (0, 0);
    for (ours, real) in simulated.iter().zip(measured) {
        let throughput = ("ordered/s, as many as go".to_owned(), ours.ordered_per_s, real.ordered_per_s);
        let latency = (format!("p50 us, {:.0} a second", ours.rate), ours.p50_us, real.p50_us);
        for (what, ours_is, real_is) in [throughput, latency] {
            let ratio = ours_is / real_is;
            all += 1;
            near += usize::from((ratio - 1.0).abs() <= WITHIN / 100.0);
            let what = format!("{} daemons, {what}", ours.daemons);
            let _ = writeln!(text, "{what:<36} {ours_is:>9.0} {real_is:>10.0} {ratio:>7.2}");
        }
    }
    let _ = writeln!(text, "within {WITHIN:.0} %: {near} of {all}");
    text
}

#[cfg(test)]
mod tests {
    use super::super::host_file::tests::HOST;
    use super::*;

    fn figures(daemons: usize, ordered_per_s: f64, p50_us: f64) -> Figures {
        Figures { daemons, ordered_per_s, rate: 1_000.0, p50_us }
    }

    fn nothing() -> Result<Programs, String> {
        Err("nothing is to be measured".into())
    }

    #[test]
    fn each_prediction_stands_beside_its_measurement() {
        let table = table(
            &[figures(3, 125_000.0, 200.0), figures(8, 50_000.0, 500.0)],
            &[figures(3, 100_000.0, 200.0), figures(8, 100_000.0, 200.0)],
        );
        for line in [
            "3 daemons, ordered/s, as many as go     125000     100000    1.25\n",
            "8 daemons, p50 us, 1000 a second           500        200    2.50\n",
            "within 25 %: 2 of 4\n",
        ] {
            assert!(table.contains(line), "{line}{table}");
        }
    }

    #[test]
    fn more_daemons_order_less_and_later() {
        let figures = simulated(&HOST, 1_000.0).unwrap();
        let [three, eight] = [figures[0], figures[1]];
        assert_eq!((three.daemons, eight.daemons), (3, 8));
        assert!(three.ordered_per_s > eight.ordered_per_s * 1.5 && three.p50_us < eight.p50_us, "{figures:?}");
    }

    #[test]
    fn a_measurement_is_read_again_and_another_one_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("measured.json");
        let all = vec![figures(3, 1.0, 2.0), figures(8, 3.0, 4.0)];
        let write = |figures: &[Figures]| std::fs::write(&file, serde_json::to_string(figures).unwrap()).unwrap();
        write(&all);
        assert_eq!(measured(nothing, 1_000.0, Some(&file)), Ok(all.clone()));
        let error = || measured(nothing, 1_000.0, Some(&file)).unwrap_err();
        assert!(measured(nothing, 5.0, Some(&file)).unwrap_err().contains("its rate is 1000, not 5; remove it"));
        write(&all[..1]);
        assert!(
            error().contains("measured.json: it has figures of [3] daemons, not of [3, 8]; remove it"),
            "{}",
            error()
        );
        std::fs::write(&file, "[{\"daemons\": 3, \"ordered\": 1}]").unwrap();
        assert!(error().contains("unknown field `ordered`"), "{}", error());
        assert_eq!(measured(nothing, 1.0, None), Err("nothing is to be measured".into()));
    }
}
