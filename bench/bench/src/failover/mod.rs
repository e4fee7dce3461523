//! `consort bench failover`: how soon everybody who is left is told that a daemon is gone, and that it is back.

mod coordinator;
mod drill;
mod report;

use crate::args::{self, Args};
use crate::clock;
use crate::config::{PROTOCOLS, Protocol};
use crate::failure::{Failure, Outcome};
use crate::local::NODES_MAX;
use drill::Drill;
use report::{Figures, Report};
use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

/// What `consort bench failover --help` prints.
pub const HELP: &str = "\
Usage: consort bench failover [options]

Runs real daemon processes on this machine with a sending and receiving client
at each, and does the same to one after the other of them: kills it (SIGKILL)
and starts it again, lets it leave (SIGTERM) and starts it again, stops it for
100 ms (SIGSTOP, SIGCONT).

  --nodes N          daemons, 2 to 64 [3]
  --protocol NAME    ring, toto, plato, paxos, multiring-paxos or multiring:
                     what orders the messages [ring]
  --runs N           how often, 1 to 1000 [20]
  --victim NAME      each, or with paxos coordinator: only the coordinator is
                     killed, again and again, and started again [each]
  --rate R           messages a second over all clients, of 100 bytes [1000]
  --json             print one JSON object

crash_ms    from the kill until the client at each survivor is told the view of
            all survivors: the last of them counts
leave_ms    the same from SIGTERM
restart_ms  from starting the process until the client at every node is told
            the view of all nodes
orders_ms   with --victim coordinator: from the kill until the client at each
            survivor receives a message that was sent after it; the last counts
pause_view_changes  views that came because of a pause; there should be none

Targets: of the crashes all told within 500 ms, and half within 400 with at most
five daemons; of those that leave half within 20 ms; no view for a pause. They
are for daemons with default timers that share two cores with nobody else, and a
missed one is told, not an error. Where the machine ran another thread late at
that moment, the report says so (stall_ms).
";

/// How long a daemon is stopped.
const PAUSE: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub nodes: u16,
    pub protocol: Protocol,
    pub victim: Victim,
    pub runs: u32,
    pub rate: f64,
    pub json: bool,
}

/// Whose daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Victim {
    /// One after the other; each is also asked to leave, and stopped.
    Each,
    /// The coordinator of Ring Paxos.
    Coordinator,
}

const VICTIMS: [(&str, Victim); 2] = [("each", Victim::Each), ("coordinator", Victim::Coordinator)];
/// Of fewer daemons none may be missing.
const COORDINATED_MIN: u16 = 3;

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    match plan.victim {
        Victim::Each => each(plan),
        Victim::Coordinator => coordinator::measure(plan),
    }
}

fn each(plan: Plan) -> Outcome {
    let began = clock::now_ns();
    let mut drill = Drill::start(plan)?;
    let mut figures = Figures::default();
    tell(plan, || format!("{} daemons, {:.0} messages/s, {} runs, times in ms\n", plan.nodes, plan.rate, plan.runs))?;
    for run in 1..=plan.runs {
        drill.run(run, &mut figures)?;
        tell(plan, || figures.last_run(run))?;
    }
    drill.stop();
    let report = Report::new(plan, &figures, clock::now_ns() - began);
    let mut out = io::stdout();
    match plan.json {
        true => writeln!(out, "{}", serde_json::to_string(&report).unwrap_or_default())?,
        false => write!(out, "\n{report}")?,
    }
    Ok(())
}

/// For people only.
fn tell(plan: Plan, text: impl FnOnce() -> String) -> Outcome {
    if !plan.json {
        let mut out = io::stdout();
        writeln!(out, "{}", text())?;
        out.flush()?;
    }
    Ok(())
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let mut plan =
        Plan { nodes: 3, protocol: Protocol::Ring, victim: Victim::Each, runs: 20, rate: 1_000.0, json: false };
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--nodes" => plan.nodes = args.number(2..=NODES_MAX.into())? as u16,
            "--protocol" => plan.protocol = args.choice(&PROTOCOLS)?,
            "--victim" => plan.victim = args.choice(&VICTIMS)?,
            "--runs" => plan.runs = args.number(1..=1_000)? as u32,
            "--rate" => plan.rate = rate(&mut args)?,
            "--json" => plan.json = true,
            "--embedded" => {
                return Err(Failure::usage(
                    "failover kills and stops daemons, not their clients; leave --embedded out",
                ));
            }
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    match plan {
        Plan { victim: Victim::Each, .. } => Ok(plan),
        Plan { protocol: Protocol::Paxos, nodes: COORDINATED_MIN.., .. } => Ok(plan),
        Plan { protocol: Protocol::Paxos, nodes, .. } => Err(Failure::usage(format!(
            "--victim: of {nodes} daemons the coordinator must not be missing; give --nodes {COORDINATED_MIN} or more"
        ))),
        _ => Err(Failure::usage("--victim: only paxos has a coordinator; add --protocol paxos")),
    }
}

fn rate(args: &mut Args) -> Outcome<f64> {
    let text = args.text()?;
    let fits = args::size(&text).filter(|rate| (1..=100_000).contains(rate));
    fits.map(|rate| rate as f64).ok_or_else(|| args.wrong(&text, "messages a second from 1 to 100k, such as 1000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn the_plan_is_read() {
        assert_eq!(
            plan("").unwrap(),
            Plan { nodes: 3, protocol: Protocol::Ring, victim: Victim::Each, runs: 20, rate: 1_000.0, json: false }
        );
        let given = plan("--nodes 16 --protocol toto --runs 5 --rate 2k --json").unwrap();
        assert_eq!((given.nodes, given.protocol, given.runs), (16, Protocol::Toto, 5));
        assert_eq!((given.rate, given.json, given.victim), (2_000.0, true, Victim::Each));
        assert_eq!(plan("--protocol paxos --victim coordinator").unwrap().victim, Victim::Coordinator);
    }

    #[test]
    fn wrong_plans_are_refused_with_what_would_fit() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert_eq!(problem("--nodes 1"), "--nodes: `1` does not fit; give a number from 2 to 64");
        assert_eq!(problem("--runs 0"), "--runs: `0` does not fit; give a number from 1 to 1000");
        assert_eq!(
            problem("--rate max"),
            "--rate: `max` does not fit; give messages a second from 1 to 100k, such as 1000"
        );
        assert_eq!(problem("--victim coordinator"), "--victim: only paxos has a coordinator; add --protocol paxos");
        assert_eq!(
            problem("--victim coordinator --protocol paxos --nodes 2"),
            "--victim: of 2 daemons the coordinator must not be missing; give --nodes 3 or more"
        );
        assert_eq!(problem("--victim last"), "--victim: `last` does not fit; give each or coordinator");
        assert!(problem("--embedded").ends_with("not their clients; leave --embedded out"));
        assert_eq!(problem("--run 3"), "--run: there is no such option; did you mean --runs?");
        assert!(problem("extra").starts_with("`extra` is not an option"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        for option in args::options_of(HELP) {
            if let Err(failure) = plan(&format!("{option} 1")) {
                assert!(!failure.message.contains("no such option"), "{option}: {}", failure.message);
            }
        }
    }
}
