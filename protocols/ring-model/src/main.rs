//! Searches as far as one likes: `consort-ring-model --start merging --nodes 3 --losses 2 --crashes 1`.
#![allow(clippy::print_stdout, reason = "a program talks")]
use consort_ring_model::{Start, search};
use lexopt::prelude::*;
use std::process::ExitCode;

const HELP: &str = "\
consort-ring-model [--start forming|merging|recovering|working] [--nodes N] [--most STATES] [--sample N]
    [--losses N] [--doubles N] [--overtakings N] [--crashes N] [--restarts N] [--expiries N] [--hurries N]
Takes N nodes through every order of events within these bounds and checks every promise after each.";

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
    fn adjust(&self, config: &mut consort_ring::Config) {
        let all = consort_ring::Mutant::ALL.iter().copied();
        config.mutant = all.into_iter().find(|mutant| Some(mutant.name()) == self.mutant.as_deref());
    }

    #[cfg(not(feature = "mutants"))]
    const fn adjust(&self, _config: &mut consort_ring::Config) {}
}

fn main() -> ExitCode {
    match parse().and_then(|options| run(&options)) {
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
            "hurries" => budget.hurries = small()?,
            _ => return Err(format!("--{name}: unknown\n{HELP}")),
        }
    }
    Ok(options)
}
