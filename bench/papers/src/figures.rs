//! Every figure and table of the papers: `list`, `run`, `report`.
//!
//! ```text
//! all       the figures          figure    what came out of one
//! ring      ring_model           text      as columns
//! spread    spread_loads         plot      as a picture
//! toto      spread_sizes         page      as a report
//! totem     toto_graph
//! plato     toto_cable
//! multiring totem_clocks            canvas    what a PNG picture is drawn on
//!           totem_rings, regions
//! lab       what they share: scale, fit, ring_grid, spread_site, toto_loads
//! ```
mod all;
mod canvas;
mod figure;
mod fit;
mod lab;
mod multiring;
mod page;
mod plato;
mod plot;
mod recovery;
mod regions;
mod ring;
mod ring_grid;
mod ring_model;
mod scale;
mod spread;
mod spread_loads;
mod spread_site;
mod spread_sizes;
mod text;
mod totem;
mod totem_clocks;
mod totem_rings;
mod toto;
mod toto_cable;
mod toto_graph;
mod toto_loads;

use all::Figure;
use figure::Outcome;
use lab::Lab;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Words that begin a command of this module.
pub const COMMANDS: [&str; 3] = ["list", "run", "report"];

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    List,
    /// And where pictures go, if anywhere.
    Run(Selection, Option<PathBuf>),
    Report {
        selection: Selection,
        to: PathBuf,
        plots: PathBuf,
    },
}

/// Which figures, and how.
#[derive(Debug, PartialEq, Eq)]
struct Selection {
    /// By name; all where none is named.
    names: Vec<String>,
    seed: u64,
    quick: bool,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Reproduced,
    Missed,
}

impl Verdict {
    fn of(outcome: &Outcome) -> Self {
        if outcome.is_reproduced() { Self::Reproduced } else { Self::Missed }
    }

    /// Its class on the page.
    const fn class(self) -> &'static str {
        match self {
            Self::Reproduced => "good",
            Self::Missed => "bad",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::Missed => "missed",
        })
    }
}

/// How many figures had which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    reproduced: usize,
    missed: usize,
}

impl Tally {
    fn of(ran: &[(&Figure, Outcome)]) -> Self {
        let count = |verdict| ran.iter().filter(|(_, outcome)| Verdict::of(outcome) == verdict).count();
        Self { reproduced: count(Verdict::Reproduced), missed: count(Verdict::Missed) }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reproduced, missed } = self;
        write!(f, "{reproduced} reproduced, {missed} missed, of {}", reproduced + missed)
    }
}

/// Runs a command: its words begin with one of [`COMMANDS`].
pub fn main(words: Vec<OsString>) -> ExitCode {
    let command = match read(words) {
        Ok(command) => command,
        Err(misuse) => {
            eprintln!("lab: {misuse}; see cargo papers --help");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::List => {
            print!("{}", list());
            Ok(())
        }
        Command::Run(selection, plots) => {
            run(&selection, &mut |text| print!("{text}")).and_then(|ran| save_plots(plots.as_deref(), &ran))
        }
        Command::Report { selection, to, plots } => report(&selection, &to, &plots),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: Vec<OsString>) -> Result<Command, String> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut command = None;
    let mut selection = Selection { names: Vec::new(), seed: 1, quick: false };
    let (mut all, mut to, mut plots) = (false, None, None);
    let mut take = || -> Result<(), lexopt::Error> {
        while let Some(word) = parser.next()? {
            match word {
                Value(word) if command.is_none() => command = Some(word.string()?),
                Value(name) => selection.names.push(name.string()?),
                Long("seed") => selection.seed = parser.value()?.parse()?,
                Long("quick") => selection.quick = true,
                Long("all") => all = true,
                Long("to") => to = Some(PathBuf::from(parser.value()?)),
                Long("plots") => plots = Some(PathBuf::from(parser.value()?)),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    };
    take().map_err(|error| error.to_string())?;
    if let Some(unknown) = selection.names.iter().find(|name| all::ALL.iter().all(|figure| figure.name() != **name)) {
        return Err(format!("no figure is called `{unknown}`: `cargo papers list` names them all"));
    }
    match (command.as_deref(), to) {
        (Some("report"), to) => {
            let to = to.unwrap_or_else(|| "consort-figures.html".into());
            // Beside the page: `consort-figures.html` and the folder `consort-figures`.
            let plots = plots.unwrap_or_else(|| to.with_extension(""));
            if plots == to {
                return Err(format!("--to {} has no ending, so pictures have no folder: give --plots", to.display()));
            }
            Ok(Command::Report { selection, to, plots })
        }
        (Some("list"), None) if plots.is_some() => Err("--plots belongs to `run` and `report`".into()),
        (_, Some(to)) => Err(format!("--to {} belongs to `report`", to.display())),
        (Some("list"), None) if selection.names.is_empty() => Ok(Command::List),
        (Some("list"), None) => Err("`list` lists all figures: name none".into()),
        (_, None) if all == selection.names.is_empty() => Ok(Command::Run(selection, plots)),
        (_, None) if all => Err("name figures or give --all, not both".into()),
        (_, None) => Err("name a figure to run, as `toto/table-2`, or give --all".into()),
    }
}

fn list() -> String {
    let line = |figure: &Figure| format!("{:<26} {}\n", figure.name(), figure.title);
    all::ALL.iter().map(line).collect()
}

/// What `run` prints with these words.
///
/// # Errors
/// Words that make no sense, or what kept a figure from its end.
pub fn printed(words: Vec<OsString>) -> Result<String, String> {
    let Command::Run(selection, None) = read(words)? else { return Err("only `run` prints figures".into()) };
    let mut text = String::new();
    run(&selection, &mut |told| text += told)?;
    Ok(text)
}

/// Runs what is selected and tells of each; the last line counts.
fn run(selection: &Selection, tell: &mut dyn FnMut(&str)) -> Result<Vec<(&'static Figure, Outcome)>, String> {
    static ALL: [Figure; 73] = all::ALL;
    let lab = Lab::new(selection.seed, selection.quick);
    let wanted = |figure: &&Figure| selection.names.is_empty() || selection.names.contains(&figure.name());
    let mut ran = Vec::new();
    for figure in ALL.iter().filter(wanted) {
        let began = Instant::now();
        let outcome = (figure.run)(&lab).map_err(|error| format!("{}: {error}", figure.name()))?;
        eprintln!("{:>6.1} s  {}", began.elapsed().as_secs_f64(), figure.name());
        tell(&text::figure(figure, &outcome));
        ran.push((figure, outcome));
    }
    tell(&format!("{}\n", Tally::of(&ran)));
    Ok(ran)
}

/// Each chart of what ran, as `FIGURE.svg` and `FIGURE.png`, with a number where there are several.
fn save_plots(folder: Option<&Path>, ran: &[(&Figure, Outcome)]) -> Result<(), String> {
    let Some(folder) = folder else { return Ok(()) };
    let failed = |path: &Path, error| format!("--plots: {} cannot be written: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let charts = ran.iter().map(|(figure, outcome)| (figure, &outcome.charts));
    for (figure, charts) in charts {
        for (number, chart) in charts.iter().enumerate() {
            let number = if charts.len() > 1 { format!("-{}", number + 1) } else { String::new() };
            let path = folder.join(format!("{}{number}", figure.name().replace('/', "-")));
            for (end, bytes) in [("svg", plot::svg(chart)?.into_bytes()), ("png", plot::png(chart)?)] {
                // Not `with_extension`: `figure-5.1` would lose its last number.
                let path = PathBuf::from(format!("{}.{end}", path.display()));
                std::fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
            }
        }
    }
    Ok(())
}

fn report(selection: &Selection, to: &Path, plots: &Path) -> Result<(), String> {
    let ran = run(selection, &mut |_| ())?;
    save_plots(Some(plots), &ran)?;
    let page = page::page(selection.seed, &ran)?;
    std::fs::write(to, page).map_err(|error| format!("{} cannot be written: {error}", to.display()))?;
    println!("{}\n{}\n{}", Tally::of(&ran), to.display(), plots.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn words(text: &str) -> Result<Command, String> {
        read(text.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn no_two_figures_have_one_name_and_all_are_listed() {
        let names: BTreeSet<_> = all::ALL.iter().map(Figure::name).collect();
        assert_eq!(names.len(), all::ALL.len());
        assert!(names.iter().all(|name| list().contains(name.as_str())));
    }

    #[test]
    fn words_select_figures() {
        let selection = |names: &[&str], seed, quick| Selection {
            names: names.iter().map(ToString::to_string).collect(),
            seed,
            quick,
        };
        assert_eq!(words("list"), Ok(Command::List));
        assert_eq!(words("run --all --seed 3"), Ok(Command::Run(selection(&[], 3, false), None)));
        assert_eq!(
            words("run toto/table-2 plato/figure-3 --quick --plots x"),
            Ok(Command::Run(selection(&["toto/table-2", "plato/figure-3"], 1, true), Some("x".into())))
        );
        assert_eq!(
            words("report --to x.html"),
            Ok(Command::Report { selection: selection(&[], 1, false), to: "x.html".into(), plots: "x".into() })
        );
    }

    #[test]
    fn words_that_make_no_sense_are_told() {
        for (text, expected) in [
            ("run", "name a figure"),
            ("run --all toto/table-2", "not both"),
            ("run toto/table-9", "no figure is called `toto/table-9`"),
            ("run --all --to x", "belongs to `report`"),
            ("list toto/table-2", "name none"),
            ("report --to x", "give --plots"),
            ("list --plots x", "belongs to `run` and `report`"),
            ("run --seed x", "x"),
            ("run --what", "--what"),
        ] {
            let error = words(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn each_chart_is_saved_in_both_forms_and_a_folder_that_cannot_be_is_told() {
        let place = tempfile::tempdir().unwrap();
        let axis = figure::Axis::linear("x");
        let chart = figure::Chart { title: "t".into(), x: axis, y: axis, curves: Vec::new() };
        let figure = |number| Figure { paper: figure::Paper::Toto, number, title: "", run: |_| Err(String::new()) };
        let outcome = |charts| Outcome { charts, ..Outcome::default() };
        let (one, two, none) = (figure("figure-5.1"), figure("figure-6"), figure("table-9"));
        let ran = [
            (&one, outcome(vec![chart.clone()])),
            (&two, outcome(vec![chart.clone(), chart])),
            (&none, outcome(Vec::new())),
        ];
        save_plots(Some(&place.path().join("new/plots")), &ran).unwrap();
        let found = std::fs::read_dir(place.path().join("new/plots")).unwrap();
        let names: BTreeSet<_> = found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let expected = ["toto-figure-5.1", "toto-figure-6-1", "toto-figure-6-2"];
        let expected = expected.iter().flat_map(|name| ["png", "svg"].map(|end| format!("{name}.{end}")));
        assert_eq!(names, expected.collect());
        std::fs::write(place.path().join("file"), "").unwrap();
        let error = save_plots(Some(&place.path().join("file")), &ran).unwrap_err();
        assert!(error.starts_with("--plots: ") && error.contains("file cannot be written: "), "{error}");
    }

    #[test]
    fn a_figure_that_costs_little_runs() {
        let selection = Selection { names: vec!["toto/equations".into()], seed: 1, quick: true };
        let mut text = String::new();
        let ran = run(&selection, &mut |told| text += told).unwrap();
        assert_eq!(ran.len(), 1);
        assert!(text.contains("toto/equations: Latency by equations"), "{text}");
        assert!(text.ends_with(&format!("{}\n", Tally::of(&ran))), "{text}");
    }
}
