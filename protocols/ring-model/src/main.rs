//! All the long searches, or one as far as one likes: `cargo xtask search --start merging --nodes 3 --losses 2`.
use consort_ring_model::program::{self, Limits};
use consort_ring_model::suite::LONG;
use consort_ring_model::{Budget, Start, search};
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
    budget: Budget,
    limits: Limits,
}

impl Options {
    #[cfg(feature = "mutants")]
    fn adjust(&self, config: &mut consort_ring::RingConfig) {
        let all = consort_ring::Mutant::ALL.iter().copied();
        config.mutant = all.into_iter().find(|mutant| Some(mutant.name()) == self.limits.mutant.as_deref());
    }

    #[cfg(not(feature = "mutants"))]
    const fn adjust(&self, _config: &mut consort_ring::RingConfig) {}
}

fn main() -> ExitCode {
    let all = || program::run_all("the ring", LONG.iter().map(|plan| (plan.to_string(), plan.run())));
    program::run(HELP, all, parse, run)
}

fn run(options: &Options) -> Result<String, String> {
    let mut world = options.start.world_of(options.nodes, |config| options.adjust(config));
    world.budget = options.budget;
    let report = search(&world, options.limits.most, options.limits.sample).map_err(|found| found.to_string())?;
    Ok(format!("{} of {}: {report}", options.start.name(), options.nodes))
}

fn parse() -> Result<Options, String> {
    let (mut start, mut nodes) = (Start::Forming, 2);
    let mut budget = Budget { expiries: 2, ..Budget::default() };
    let limits = Limits { most: 10_000_000, sample: 1_000, mutant: None };
    let limits = program::parse(limits, &mut |name, value| {
        match name {
            "start" => {
                let known = Start::ALL.into_iter().find(|start| start.name() == value);
                start = known.ok_or_else(|| format!("--start {value}: unknown"))?;
            }
            "nodes" => nodes = program::number(name, value)?.clamp(1, 8) as u16,
            _ => return program::set(bound(&mut budget, name), name, value),
        }
        Ok(true)
    })?;
    Ok(Options { start, nodes, budget, limits })
}

fn bound<'a>(budget: &'a mut Budget, name: &str) -> Option<&'a mut u8> {
    match name {
        "losses" => Some(&mut budget.losses),
        "doubles" => Some(&mut budget.doubles),
        "overtakings" => Some(&mut budget.overtakings),
        "crashes" => Some(&mut budget.crashes),
        "restarts" => Some(&mut budget.restarts),
        "expiries" => Some(&mut budget.expiries),
        "holds" => Some(&mut budget.holds),
        "hurries" => Some(&mut budget.hurries),
        _ => None,
    }
}
