//! All the long searches, or one as far as one likes: `cargo xtask search --protocol paxos --stands 2 --losses 1`.
use consort_paxos_model::suite::{self, LONG, WITHOUT_LOG};
use consort_paxos_model::{Budget, World};
use consort_ring_model::program::{self, Limits};
use consort_ring_model::search;
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
    limits: Limits,
}

impl Options {
    #[cfg(feature = "mutants")]
    fn adjust(&self, config: &mut consort_paxos::Config) {
        let all = consort_paxos::Mutant::ALL.iter().copied();
        config.mutant = all.into_iter().find(|mutant| Some(mutant.name()) == self.limits.mutant.as_deref());
    }

    #[cfg(not(feature = "mutants"))]
    const fn adjust(&self, _config: &mut consort_paxos::Config) {}
}

fn main() -> ExitCode {
    let with_log = || LONG.into_iter().map(|budget| (suite::name(budget), suite::run(budget)));
    let without_log = || {
        let name = |budget| format!("one without the log, {}", suite::name(budget));
        WITHOUT_LOG.into_iter().map(move |budget| (name(budget), suite::run_without_log(budget)))
    };
    let all = || program::run_all("Ring Paxos", with_log().chain(without_log()));
    program::run(HELP, all, parse, run)
}

fn run(options: &Options) -> Result<String, String> {
    let mut world = World::new(|config| options.adjust(config));
    world.budget = options.budget;
    let report = search(&world, options.limits.most, options.limits.sample).map_err(|found| found.to_string())?;
    Ok(format!("{}: {report}", suite::name(options.budget)))
}

fn parse() -> Result<Options, String> {
    let mut budget = Budget { stands: 2, instances: 1, ..Budget::default() };
    let limits = Limits { most: 10_000_000, sample: 500, mutant: None };
    let limits = program::parse(limits, &mut |name, value| program::set(bound(&mut budget, name), name, value))?;
    Ok(Options { budget, limits })
}

fn bound<'a>(budget: &'a mut Budget, name: &str) -> Option<&'a mut u8> {
    match name {
        "stands" => Some(&mut budget.stands),
        "instances" => Some(&mut budget.instances),
        "losses" => Some(&mut budget.losses),
        "overtakings" => Some(&mut budget.overtakings),
        "crashes" => Some(&mut budget.crashes),
        "forgets" => Some(&mut budget.forgets),
        "repeats" => Some(&mut budget.repeats),
        _ => None,
    }
}
