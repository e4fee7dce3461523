//! All the long searches, or one as far as one likes: `cargo xtask search --start merging --nodes 3 --losses 2`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program talks, and may say how long it took")]
use consort_ring_model::suite::LONG;
use consort_ring_model::{Report, Start, search};
use lexopt::prelude::*;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask search [options]

Takes a few nodes through every order of events within bounds and checks every promise after each. Without options, all
the searches that are run as a matter of course; with options, one:

  --start WHERE     forming (default), merging, recovering or working
  --nodes N         1 to 8 (default 2)
  --losses N        packets that may be lost on one path (default 0)
  --doubles N       packets that may arrive twice
  --overtakings N   packets that may overtake others
  --crashes N       nodes that may crash
  --restarts N      nodes that may come back
  --expiries N      times that a token, a peer or a recovery may be missed (default 2)
  --holds N         times that a token which rests goes round unasked
  --hurries N       timers that may come due although packets are under way
  --most STATES     gives up after so many different worlds (default 10,000,000)
  --sample N        continues every N-th world until a ring stands (default 1,000; 0: none)

Ends with one line that sums up, or with the shortest way to a broken promise.";

struct Options {
    start: Start,
    nodes: u16,
    most: u64,
    sample: u64,
    budget: consort_ring_model::Budget,
    #[cfg(feature = "mutants")]
    mutant: Option<String>,
}

impl Options {
    #[cfg(feature = "mutants")]
    fn adjust(&self, config: &mut consort_ring::RingConfig) {
        let all = consort_ring::Mutant::ALL.iter().copied();
        config.mutant = all.into_iter().find(|mutant| Some(mutant.name()) == self.mutant.as_deref());
    }

    #[cfg(not(feature = "mutants"))]
    const fn adjust(&self, _config: &mut consort_ring::RingConfig) {}
}

fn main() -> ExitCode {
    match choose() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn choose() -> Result<String, String> {
    match std::env::args_os().nth(1) {
        None => run_all(),
        Some(word) if word == "--help" || word == "-h" => Ok(HELP.into()),
        Some(_) => parse().and_then(|options| run(&options)),
    }
}

fn run_all() -> Result<String, String> {
    let mut states = 0;
    for plan in LONG {
        let began = std::time::Instant::now();
        let report = plan.run().map_err(|found| format!("{plan}\n{found}"))?;
        if !report.complete {
            return Err(format!("{plan}: {report}; lower the bounds"));
        }
        let Report { states: n, steps, depth, .. } = report;
        let (name, seconds) = (plan.to_string(), began.elapsed().as_secs_f64());
        println!("{name:<60} {n:>9} states, {steps:>9} steps, {depth:>3} deep, {seconds:>5.1} s");
        states += n;
    }
    Ok(format!("search: {} searches, {states} states, 0 violations", LONG.len()))
}

fn run(options: &Options) -> Result<String, String> {
    let mut world = options.start.world_of(options.nodes, |config| options.adjust(config));
    world.budget = options.budget;
    let report = search(world, options.most, options.sample).map_err(|found| found.to_string())?;
    Ok(format!("{} of {}: {report}", options.start.name(), options.nodes))
}

fn parse() -> Result<Options, String> {
    let budget = consort_ring_model::Budget { expiries: 2, ..Default::default() };
    let mut options = Options {
        start: Start::Forming,
        nodes: 2,
        most: 10_000_000,
        sample: 1_000,
        budget,
        #[cfg(feature = "mutants")]
        mutant: None,
    };
    let mut parser = lexopt::Parser::from_env();
    let text = |error: lexopt::Error| format!("{error}\n{HELP}");
    while let Some(arg) = parser.next().map_err(text)? {
        let Long(name) = arg else { return Err(HELP.into()) };
        let name = name.to_owned();
        let value = parser.value().and_then(|value| value.string()).map_err(text)?;
        let number = || value.parse::<u64>().map_err(|_| format!("--{name} {value}: not a number\n{HELP}"));
        let small = || number().map(|n| n.min(100) as u8);
        let budget = &mut options.budget;
        match &name[..] {
            "start" => {
                let start = Start::ALL.into_iter().find(|start| start.name() == value);
                options.start = start.ok_or_else(|| format!("--start {value}: unknown\n{HELP}"))?;
            }
            "nodes" => options.nodes = number()?.clamp(1, 8) as u16,
            #[cfg(feature = "mutants")]
            "mutant" => options.mutant = Some(value),
            "most" => options.most = number()?,
            "sample" => options.sample = number()?,
            "losses" => budget.losses = small()?,
            "doubles" => budget.doubles = small()?,
            "overtakings" => budget.overtakings = small()?,
            "crashes" => budget.crashes = small()?,
            "restarts" => budget.restarts = small()?,
            "expiries" => budget.expiries = small()?,
            "holds" => budget.holds = small()?,
            "hurries" => budget.hurries = small()?,
            _ => return Err(format!("--{name}: unknown\n{HELP}")),
        }
    }
    Ok(options)
}
