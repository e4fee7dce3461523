//! `consort bench latency`: how long a message takes at a given rate, counted from the moment it was due.
use super::page;
use super::report::Report;
use super::sample::Work;
use super::setup::{self, Setup, shared_help};
use super::trial::{self, Case};
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use consort_testbed::job::Pace;
use std::ffi::OsString;

/// What `consort bench latency --help` prints.
pub const HELP: &str = concat!(
    "\
Usage: consort bench latency [options]

Measures how long messages take among real daemon processes on this machine. They
are due at given times, whatever happens: one that is sent late was late.

  --join ADDRESS     measures between machines, not on this one: see
                     consort bench latency --join ADDRESS --help
  --rate R           messages a second over all senders [1000]
  --arrivals KIND    poisson (at random times) or fixed (evenly spaced) [poisson]
  --no-idle-states   also with processors kept from sleeping; needs root
",
    shared_help!(),
    "
latency    from when a message was due until a receiver had it, over all receivers
cores      CPU time in a second; daemons with their client I/O, and clients, apart
hop        a bare datagram of a token's size from one process to the next in a
           ring of as many as there are nodes, a rotation through their number:
           processes that sleep (blocking), that look again and again (spinning)
in hops    against the blocking hop, with --idling latency the spinning one
token hop  a rotation of the token, smoothed, through the nodes; a token that is
           parked is slow
"
);

#[derive(Clone, Debug)]
struct Plan {
    setup: Setup,
    rate: f64,
    poisson: bool,
    awake: bool,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    if words.iter().any(|word| word.as_encoded_bytes().starts_with(b"--join")) {
        return super::join::main(words);
    }
    let plan = read(words)?;
    if plan.awake {
        // Said before anything runs, not in the middle.
        drop(super::idle_states::Awake::keep()?);
    }
    let tried = trial::run(plan.cases())?;
    let first = tried.first().ok_or_else(|| Failure::new("nothing was measured"))?;
    let report = Report::new("latency", &plan.setup, first, &tried)?;
    page::publish(&plan.setup.outlet, &report, &report.page("Latency of ordered messages", &plan.setup))
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let mut plan = Plan { setup: Setup::default(), rate: 1_000.0, poisson: true, awake: false };
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--rate" => plan.rate = setup::rate(&mut args)?,
            "--arrivals" => plan.poisson = args.choice(&[("poisson", true), ("fixed", false)])?,
            "--no-idle-states" => plan.awake = true,
            option if plan.setup.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    Ok(plan)
}

impl Plan {
    fn cases(&self) -> Vec<Case> {
        let pace = if self.poisson { Pace::Poisson(self.rate) } else { Pace::Even(self.rate) };
        let work = Work { pace, cut: false, receivers: None };
        let states = if self.awake { &[false, true][..] } else { &[false] };
        let of = |(name, setup): (&'static str, Setup)| {
            states.iter().map(move |awake| {
                let name = if *awake { format!("{name}, no idle states") } else { name.into() };
                Case { name, setup: setup.clone(), work, awake: *awake }
            })
        };
        self.setup.variants().into_iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn the_plan_is_read() {
        let given =
            plan("--rate 2k --arrivals fixed --no-idle-states --nodes 8 --idling latency --compare services").unwrap();
        assert_eq!((given.rate, given.poisson, given.awake, given.setup.nodes), (2_000.0, false, true, 8));
        let cases = given.cases();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["agreed", "agreed, no idle states", "safe", "safe, no idle states"]);
        assert!(cases.iter().all(|case| case.work.pace == Pace::Even(2_000.0)));
        assert_eq!(plan("").unwrap().cases()[0].work.pace, Pace::Poisson(1_000.0));
    }

    #[test]
    fn wrong_plans_are_refused_with_what_would_fit() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert_eq!(problem("--rate max"), "--rate: `max` does not fit; give messages a second such as 1000 or 10k");
        assert_eq!(problem("--arrivals late"), "--arrivals: `late` does not fit; give poisson or fixed");
        assert_eq!(problem("--no-idle"), "--no-idle: there is no such option; did you mean --no-idle-states?");
        assert!(problem("extra").starts_with("`extra` is not an option"));
        for option in crate::args::options_of(HELP).filter(|option| *option != "--join") {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}
