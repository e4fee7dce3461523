//! `consort bench ring`: what a cluster carries, beside what the bare sockets of this machine carry.

mod overload;

use super::page;
use super::report::Report;
use super::sample::Work;
use super::setup::{Setup, shared_help};
use super::trial::{self, Case};
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use consort_testbed::job::Pace;
use overload::Offered;
use std::ffi::OsString;

/// What `consort bench ring --help` prints.
pub const HELP: &str = concat!(
    "\
Usage: consort bench ring [options]

Measures a ring of real daemon processes on this machine, with a sending and a
receiving client process at each, and in the same run what bare sockets do here.

  --rate R           messages a second over all senders, or max [max]
  --offered A%..B%   loads in percent of what the cluster carries, which is
                     measured first, such as 10%..300%
",
    shared_help!(),
    "
ordered/s   distinct messages delivered in the measured time at the slowest
            receiver, in a second
latency     from submission to delivery, all receivers together; with --rate
            from the moment the message was due, so that waiting counts
cpu         CPU time per delivery (each message counts once per receiver);
            daemons with their client I/O, and clients, apart
floor       hop: a token-sized datagram from one process to the next in a bare
            ring of as many as there are nodes, a rotation through their number;
            multicast: datagrams of the ring's size, one sender, and one receiver
            less than there are nodes
ratio       ordered bytes against the floor's, latency and token against one hop
goodput     with --offered: ordered/s; what is due but cannot be sent while time
            runs is dropped at the sender and counts as unsent
"
);

#[derive(Clone, Debug)]
struct Plan {
    setup: Setup,
    pace: Pace,
    offered: Option<Offered>,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    match &plan.offered {
        Some(offered) => overload::run(&plan.setup, offered),
        None => plan.measure(),
    }
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let mut plan = Plan { setup: Setup::default(), pace: Pace::Max, offered: None };
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--rate" => plan.pace = pace(&mut args)?,
            "--offered" => plan.offered = Some(Offered::read(&mut args)?),
            option if plan.setup.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    plan.check()?;
    Ok(plan)
}

fn pace(args: &mut Args) -> Outcome<Pace> {
    let text = args.text()?;
    match text.as_str() {
        "max" => Ok(Pace::Max),
        text => match crate::args::size(text).filter(|rate| (1..=100_000_000).contains(rate)) {
            Some(rate) => Ok(Pace::Even(rate as f64)),
            None => Err(args.wrong(text, "max, or messages a second such as 1000 or 10k")),
        },
    }
}

impl Plan {
    fn check(&self) -> Outcome {
        let other = match (&self.offered, self.pace, self.setup.compare) {
            (None, ..) | (Some(_), Pace::Max, None) => return Ok(()),
            (Some(_), Pace::Max, Some(_)) => "--compare",
            _ => "--rate",
        };
        Err(Failure::usage(format!("--offered and {other} exclude each other; leave one of them out")))
    }

    fn measure(&self) -> Outcome {
        let work = Work { pace: self.pace, cut: false, receivers: None };
        let case = |(name, setup): (&str, Setup)| Case { name: name.into(), setup, work, awake: false };
        let tried = trial::run(self.setup.variants().into_iter().map(case).collect())?;
        let first = tried.first().ok_or_else(|| Failure::new("nothing was measured"))?;
        let report = Report::new("ring", &self.setup, first, &tried)?;
        page::publish(&self.setup.outlet, &report, &report.page("Throughput of ordered messages", &self.setup))
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
        let given = plan("--nodes 8 --rate 10k --unbatched --seconds 2 --compare writes").unwrap();
        assert_eq!((given.setup.nodes, given.pace, given.setup.unbatched), (8, Pace::Even(10_000.0), true));
        assert_eq!(plan("--rate max").unwrap().pace, Pace::Max);
        assert!(plan("--offered 10%..300%").unwrap().offered.is_some());
    }

    #[test]
    fn wrong_plans_are_refused() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert!(problem("extra").starts_with("`extra` is not an option"));
        assert!(problem("--rate fast").starts_with("--rate: `fast` does not fit; give max, or"));
        assert_eq!(
            problem("--offered 10%..300% --rate 5"),
            "--offered and --rate exclude each other; leave one of them out"
        );
        assert_eq!(
            problem("--offered 10%..300% --compare rings"),
            "--offered and --compare exclude each other; leave one of them out"
        );
        assert_eq!(
            problem("--embedded --offered 10%..300% --compare hosts"),
            "--offered and --compare exclude each other; leave one of them out"
        );
        for option in crate::args::options_of(HELP) {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}
