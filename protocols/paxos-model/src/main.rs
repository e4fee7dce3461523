//! All the long searches, or one as far as one likes: `cargo xtask search --protocol paxos --stands 2 --losses 1`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program talks, and may say how long it took")]
use consort_paxos_model::suite::{self, LONG};
use consort_paxos_model::{Budget, World, search};
use lexopt::prelude::*;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask search --protocol paxos [options]

Takes three acceptors through every order of events within bounds and checks every promise after each. Without options, all
the searches that are run as a matter of course; with options, one:

  --stands N        ballots that are used (default 2)
  --instances N     instances that are filled (default 1)
  --losses N        packets that may be lost on one path (default 0)
  --overtakings N   packets that may overtake the one before them
  --crashes N       nodes that may crash; each may come back
  --forgets N       of those how many may lose their disk, one at a time
  --repeats N       times that a node may ask again
  --most STATES     gives up after so many different worlds (default 10,000,000)
  --sample N        continues every N-th world until all is decided (default 500; 0: none)

Ends with one line that sums up, or with the shortest way to a broken promise.";

struct Options {
    budget: Budget,
    most: u64,
    sample: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<String>,
}

impl Options {
    #[cfg(feature = "mutants")]
    fn adjust(&self, config: &mut consort_paxos::Config) {
        let all = consort_paxos::Mutant::ALL.iter().copied();
        config.mutant = all.into_iter().find(|mutant| Some(mutant.name()) == self.mutant.as_deref());
    }

    #[cfg(not(feature = "mutants"))]
    const fn adjust(&self, _config: &mut consort_paxos::Config) {}
}

fn main() -> ExitCode {
    let done = match std::env::args_os().nth(1) {
        None => run_all(),
        Some(word) if word == "--help" || word == "-h" => Ok(HELP.into()),
        Some(_) => parse().and_then(|options| run(&options)),
    };
    match done {
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

fn run_all() -> Result<String, String> {
    let mut states = 0;
    for budget in LONG {
        let began = std::time::Instant::now();
        let name = suite::name(budget);
        let report = suite::run(budget).map_err(|found| format!("{name}\n{found}"))?;
        if !report.complete {
            return Err(format!("{name}: {report}; lower the bounds"));
        }
        println!("{name}: {report}, {:.1} s", began.elapsed().as_secs_f64());
        states += report.states;
    }
    Ok(format!("search: {} searches of Ring Paxos, {states} states, 0 violations", LONG.len()))
}

fn run(options: &Options) -> Result<String, String> {
    let mut world = World::new(|config| options.adjust(config));
    world.budget = options.budget;
    let report = search(&world, options.most, options.sample).map_err(|found| found.to_string())?;
    Ok(format!("{}: {report}", suite::name(options.budget)))
}

fn parse() -> Result<Options, String> {
    let mut options = Options {
        budget: Budget { stands: 2, instances: 1, ..Budget::default() },
        most: 10_000_000,
        sample: 500,
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
            "stands" => budget.stands = small()?,
            "instances" => budget.instances = small()?,
            "losses" => budget.losses = small()?,
            "overtakings" => budget.overtakings = small()?,
            "crashes" => budget.crashes = small()?,
            "forgets" => budget.forgets = small()?,
            "repeats" => budget.repeats = small()?,
            "most" => options.most = number()?,
            "sample" => options.sample = number()?,
            #[cfg(feature = "mutants")]
            "mutant" => options.mutant = Some(value),
            _ => return Err(format!("--{name}: unknown\n{HELP}")),
        }
    }
    Ok(options)
}
