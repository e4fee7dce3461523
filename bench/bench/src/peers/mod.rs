//! `consort bench peers`: the same work done by other systems that a user has installed, in the same run.

mod report;

use super::floor::{self, Floor};
use super::page;
use super::sample::{Figures, Work, within};
use super::setup::{self, Setup, shared_help};
use crate::args::Args;
use crate::failure::{Code, Failure, Outcome, note};
use crate::figures::thousands;
use consort_peers::{ALL, Peer, Tuning};
use consort_testbed::Testbed;
use consort_testbed::job::Pace;
use report::Report;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

/// What `consort bench peers --help` prints.
pub const HELP: &str = concat!(
    "\
Usage: consort bench peers [options]

Gives the same work to Consort and to other systems, in turn and in the same run:
all senders as fast as they may, many messages a write; the same, one message a
write; all together at a given rate, for latency; and the first with messages of
100 bytes. What is not installed is left out, with the reason.

  --spread PROGRAM   the daemon of Spread 5, built from its release, such as
                     /usr/local/sbin/spread; it runs in a network of its own,
                     which needs root
  --nats PROGRAM     nats-server with JetStream, such as /usr/sbin/nats-server
                     (Debian, Ubuntu: apt-get install nats-server)
  --corosync PROGRAM the daemon of Corosync 3, such as /usr/sbin/corosync; needs
                     root, a C compiler and libcpg-dev (apt-get install corosync
                     libcpg-dev gcc)
  --jgroups JAR      the jar of JGroups 5, ordered by its SEQUENCER (Maven:
                     org.jgroups:jgroups:5.3.18.Final); it needs `java` of a JDK,
                     version 11 or later
  --aeron JAR        the jar of Aeron with its cluster, a majority's log (Maven:
                     io.aeron:aeron-all:1.46.7); it needs `java` of a JDK as well
  --rate R           messages a second over all senders, for latency [1000]
",
    consort_peers::tuning_help!(),
    shared_help!(),
    "
What concerns rings, idling, datagrams and credit is for Consort alone; the other
systems run with their own defaults, but for what is set here and what
docs/performance.md names. Ctrl-C and SIGTERM end it, and all that it has started.
"
);

/// What each system does.
const WORKS: [&str; 4] = ["batched", "unbatched", "at rate", "small"];
/// Bytes of a small message.
const SMALL: usize = 100;

#[derive(Clone, Debug)]
struct Plan {
    setup: Setup,
    rate: f64,
    tuning: Tuning,
    /// Where programs of others are.
    programs: BTreeMap<&'static str, PathBuf>,
}

/// A system that does the work.
enum System {
    Consort,
    Other(&'static dyn Peer, PathBuf),
}

/// All that one system was measured at.
pub struct Tried {
    pub name: &'static str,
    pub runs: [Vec<Figures>; WORKS.len()],
}

/// A system that was left out, and why.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Skipped {
    pub name: &'static str,
    pub reason: String,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    let (systems, mut skipped) = plan.systems();
    skipped.iter().for_each(|one| note(format!("{} is left out: {}", one.name, one.reason)));
    let floor = floor::measure(&plan.setup)?;
    let mut all: Vec<(System, Tried)> = systems
        .into_iter()
        .map(|system| {
            let tried = Tried { name: system.name(), runs: Default::default() };
            (system, tried)
        })
        .collect();
    for _ in 0..plan.setup.runs {
        plan.run(&mut all, floor, &mut skipped)?;
        all.reverse();
    }
    if plan.setup.runs % 2 == 1 {
        all.reverse();
    }
    let tried: Vec<Tried> = all.into_iter().map(|(_, tried)| tried).collect();
    let report = Report::new(&plan.setup, plan.rate, plan.tuning, floor, &tried, skipped)?;
    page::publish(&plan.setup.outlet, &report, &report.page(&plan.setup))
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let (setup, tuning, programs) = (Setup::default(), Tuning::default(), BTreeMap::new());
    let mut plan = Plan { setup, rate: 1_000.0, tuning, programs };
    while let Some(option) = args.next()? {
        if let Some(peer) = ALL.into_iter().find(|peer| peer.option().0 == option) {
            plan.programs.insert(peer.name(), args.path()?);
            continue;
        }
        match option.as_str() {
            "--rate" => plan.rate = setup::rate(&mut args)?,
            option if plan.tuning.take(option, &mut args)? || plan.setup.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    plan.setup.compares_by_itself()?;
    match plan.setup.embedded {
        false => Ok(plan),
        true => Err(Failure::usage(
            "peers gives all systems as many processes, and Consort daemons; leave --embedded out, or measure it with \
             consort bench ring --embedded",
        )),
    }
}

impl Plan {
    /// Has all do the work once. One of the others that fails twice running is left out from then on; what the rest was
    /// measured at stays.
    fn run(&self, all: &mut Vec<(System, Tried)>, floor: Floor, skipped: &mut Vec<Skipped>) -> Outcome {
        for (system, tried) in all.iter_mut() {
            let Err(failure) = self.measure_again(system, tried, floor) else { continue };
            if system.ends_all(&failure) {
                return Err(failure);
            }
            note(format!("{} is left out: {}", system.name(), failure.message));
            skipped.push(Skipped { name: system.name(), reason: failure.message });
        }
        all.retain(|(system, _)| skipped.iter().all(|one| one.name != system.name()));
        Ok(())
    }

    /// Those that can be measured, ours first, and those that cannot.
    fn systems(&self) -> (Vec<System>, Vec<Skipped>) {
        let (mut systems, mut skipped) = (vec![System::Consort], Vec::new());
        for peer in ALL {
            let (option, what) = peer.option();
            let program = self.programs.get(peer.name());
            let reason = match program {
                None => Some(format!("no {option} {what} was given")),
                Some(program) => peer.obstacle(program, &work(&self.setup)),
            };
            match (reason, program) {
                (None, Some(program)) => systems.push(System::Other(peer, program.clone())),
                (reason, _) => skipped.push(Skipped { name: peer.name(), reason: reason.unwrap_or_default() }),
            }
        }
        (systems, skipped)
    }

    /// One of the others that fails is started anew and does the work once more: some now and then elect a leader under
    /// load and lose what was under way.
    fn measure_again(&self, system: &System, tried: &mut Tried, floor: Floor) -> Outcome {
        let before = tried.runs.clone();
        let first = self.measure(system, tried, floor);
        match first {
            Err(failure) if !system.ends_all(&failure) => {
                note(format!("{} failed and is tried again: {}", system.name(), failure.message));
                tried.runs = before;
                self.measure(system, tried, floor)
            }
            ended => ended,
        }
    }

    fn measure(&self, system: &System, tried: &mut Tried, floor: Floor) -> Outcome {
        let mut testbed = system.start(&self.setup, &self.tuning)?;
        for (place, work) in WORKS.into_iter().enumerate() {
            let size = if work == "small" { SMALL } else { self.setup.size };
            let setup = Setup { unbatched: work == "unbatched", size, ..self.setup.clone() };
            let pace = if work == "at rate" { Pace::Poisson(self.rate) } else { Pace::Max };
            let group = format!("bench-{place}");
            let sample = within(&mut testbed, &setup, Work { pace, cut: false, receivers: None }, floor, &group);
            let figures = sample.map_err(|failure| failure.about(tried.name))?.figures;
            self.tell(tried.name, work, &figures)?;
            if !figures.agreed {
                let problem = format!("{}: the receivers did not see the same complete sequence", tried.name);
                return Err(Failure::new(problem));
            }
            tried.runs[place].push(figures);
        }
        testbed.stop();
        Ok(())
    }

    fn tell(&self, name: &str, work: &str, figures: &Figures) -> Outcome {
        if self.setup.outlet.json {
            return Ok(());
        }
        let (rate, us) = (thousands(figures.ordered_per_s as u64), figures.latency_us);
        let mut out = io::stdout();
        if !figures.is_measured() {
            return Ok(writeln!(out, "  {name:<8} {work:<10} not measured: nothing was ordered in time")?);
        }
        writeln!(out, "  {name:<8} {work:<10} {rate:>12}/s   p50 {:>9.0} us   p99 {:>9.0} us", us.p50, us.p99)?;
        Ok(out.flush()?)
    }
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            Self::Consort => "Consort",
            Self::Other(peer, _) => peer.name(),
        }
    }

    /// Whether all is over with this failure: it is our own, or somebody wants this to end. What another system fails at
    /// is its own affair.
    fn ends_all(&self, failure: &Failure) -> bool {
        matches!(self, Self::Consort) || failure.code == Code::Interrupted
    }

    fn start(&self, setup: &Setup, tuning: &Tuning) -> Outcome<Testbed> {
        match self {
            Self::Consort => setup.testbed(),
            Self::Other(peer, program) => peer.start(program, &work(setup), tuning),
        }
    }
}

/// What all are to do alike.
fn work(setup: &Setup) -> consort_peers::Work {
    let Setup { nodes, size, senders, service, unbatched, .. } = *setup;
    consort_peers::Work { nodes, size, senders, service, unbatched }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    fn other(name: &str, program: &str) -> System {
        System::Other(ALL.into_iter().find(|peer| peer.name() == name).unwrap(), program.into())
    }

    #[test]
    fn what_is_not_there_is_left_out_with_the_reason() {
        let reasons = |line: &str| {
            let (systems, skipped) = plan(line).unwrap().systems();
            (systems.len(), skipped.into_iter().map(|one| one.reason).collect::<Vec<_>>())
        };
        let programs = ["--spread", "--nats", "--corosync"].map(|option| format!("no {option} PROGRAM was given"));
        let jars = ["--jgroups", "--aeron"].map(|option| format!("no {option} JAR was given"));
        let none: Vec<_> = programs.into_iter().chain(jars).collect();
        assert_eq!(reasons(""), (1, none));
        let nowhere = "--spread /nowhere/spread --nats /nowhere/nats --corosync /nowhere/corosync \
                       --jgroups /nowhere/j.jar --aeron /nowhere/a.jar";
        let (count, missing) = reasons(nowhere);
        assert!(count == 1 && missing[0].starts_with("--spread: cannot run /nowhere/spread: "), "{missing:?}");
        assert_eq!(missing[1], "--nats: cannot run /nowhere/nats --version");
        assert_eq!(missing[2], "--corosync: cannot run /nowhere/corosync -v");
        assert!(missing[3].starts_with("--jgroups: cannot read /nowhere/j.jar: "), "{missing:?}");
        assert!(missing[4].starts_with("--aeron: cannot read /nowhere/a.jar: "), "{missing:?}");
        let (count, large) = reasons("--spread /bin/sh --size 1MiB");
        assert_eq!((count, &large[0][..]), (1, "it takes messages of 143120 bytes at most; give a smaller --size"));
    }

    #[test]
    fn one_of_the_others_that_fails_is_left_out_and_the_rest_goes_on() {
        let tried = || Tried { name: "JGroups", runs: Default::default() };
        let mut all = vec![(other("JGroups", "/nowhere/j.jar"), tried())];
        let mut skipped = Vec::new();
        plan("").unwrap().run(&mut all, Floor::default(), &mut skipped).unwrap();
        assert!(all.is_empty() && skipped.len() == 1);
        assert!(skipped[0].reason.starts_with("--jgroups: /nowhere/j.jar: "), "{}", skipped[0].reason);
    }

    #[test]
    fn an_end_from_outside_is_not_taken_for_the_failure_of_another_system() {
        let failed = Failure::new("n2 is gone");
        let ended = Failure::new("interrupted").with(Code::Interrupted).about("NATS");
        let nats = other("NATS", "/nowhere/nats");
        assert!(!nats.ends_all(&failed) && nats.ends_all(&ended) && System::Consort.ends_all(&failed));
    }

    #[test]
    fn the_others_are_tuned_by_options() {
        assert_eq!(plan("").unwrap().tuning, Tuning::default());
        let line = "--nats-storage file --aeron-frame 1408 --jgroups-stack tcp --jgroups-window 0 --corosync-realtime \
                    --corosync-window 50 --corosync-messages 17";
        let told = plan(line).unwrap().tuning.line();
        let window = "NATS: in file; Aeron: frames of 1408, at most 2000 own messages under way; JGroups: tcp.xml, any number of own messages under way";
        assert_eq!(
            told,
            format!("{window}; Corosync: real-time priority, netmtu default, window_size 50, max_messages 17")
        );
    }

    #[test]
    fn wrong_plans_are_refused_with_what_would_fit() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert_eq!(problem("--compare rings"), "--compare has no meaning here; leave it out");
        assert!(
            problem("--embedded").starts_with("peers gives all systems as many processes, and Consort daemons; leave")
        );
        assert_eq!(problem("--compare hosts"), "--compare has no meaning here; leave it out");
        assert_eq!(problem("--unbatched"), "both kinds of writes are measured anyway; leave --unbatched out");
        assert_eq!(problem("--sprad x"), "--sprad: there is no such option; did you mean --spread?");
        assert_eq!(problem("--spread"), "--spread needs a value; see --help");
        assert!(problem("--jgroups-stack sctp").ends_with("give udp or tcp"));
        assert!(problem("--nats-storage tape").ends_with("give memory or file"));
        assert_eq!(
            problem("--corosync-netmtu 900"),
            "--corosync-netmtu: `900` does not fit; give bytes from 1500 to 65000, or 0 for the default"
        );
        assert!(problem("--aeron-frame 1500").ends_with("give a multiple of 32 from 1408 to 65504"));
        assert!(problem("--jgroups-window many").starts_with("--jgroups-window: `many` does not fit; give a number"));
        for option in crate::args::options_of(HELP) {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}
