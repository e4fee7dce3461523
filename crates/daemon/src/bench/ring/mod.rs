//! `consort bench ring`: what it costs, beside what the bare sockets of this machine cost.

mod floor;
mod report;

use crate::args::{self, Args};
use crate::config::{PROFILES, PROTOCOLS, Profile, Protocol, RINGS};
use crate::failure::{Failure, Outcome};
use crate::lab::job::Load;
use crate::lab::{HEADER, Lab, Round};
use consort_node::Limits;
use consort_ring::Acceleration;
use consort_types::Service;
use consort_wire::DatagramSize;
use report::Report;
use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

/// What `consort bench ring --help` prints.
pub const HELP: &str = "\
Usage: consort bench ring [options]

Measures a ring of real daemon processes on this machine, with a sending and a
receiving client process at each, and in the same run what bare sockets do here.

  --nodes N          daemons, 1 to 16 [3]
  --size BYTES       payload of a message, 24 to 16MiB [1350]
  --rate R           messages a second over all senders, or max [max]
  --service LEVEL    agreed or safe [agreed]
  --protocol NAME    ring, toto or plato: what orders the messages [ring]
  --ring KIND        accelerated or original [accelerated]
  --unbatched        each sender writes one message at a time
  --sockets          clients use their sockets, not shared memory
  --seconds S        how long to measure [3]
  --warm-up S        how long to run before [1]
  --idling PROFILE   latency, balanced or frugal [balanced]
  --datagram SIZE    bytes of one datagram, 576 to 65000 [1472]
  --credit SIZE      what one client may have under way, 4KiB to 1GiB [256KiB]
  --json             print one JSON object

ordered_per_s  distinct messages delivered in the measured time at the slowest
               receiver, in a second
latency        from submission to delivery, all receivers together; with --rate
               from the moment the message was due, so that waiting counts
cpu            CPU time per delivery (each message counts once per receiver);
               daemons with their client I/O, and clients, apart
floor          hop: a token-sized datagram from one process to another, half
               of a round trip; multicast: datagrams of the ring's size, one
               sender, and one receiver less than there are nodes
ratio          ordered bytes against the floor's, latency against one hop
";

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: u16,
    pub size: usize,
    pub rate: Option<f64>,
    pub service: Service,
    pub protocol: Protocol,
    pub ring: Acceleration,
    pub unbatched: bool,
    pub sockets: bool,
    pub seconds: Duration,
    pub warm_up: Duration,
    pub idling: Profile,
    pub datagram: DatagramSize,
    pub credit: usize,
    pub json: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            size: 1_350,
            rate: None,
            service: Service::Agreed,
            protocol: Protocol::Ring,
            ring: Acceleration::Accelerated,
            unbatched: false,
            sockets: false,
            seconds: Duration::from_secs(3),
            warm_up: Duration::from_secs(1),
            idling: Profile::Balanced,
            datagram: DatagramSize::DEFAULT,
            credit: Limits::default().credit,
            json: false,
        }
    }
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    let floor = floor::measure(&plan)?;
    let mut lab = Lab::start(plan.nodes, &plan.daemon_options())?;
    let result = plan.round().run(&mut lab, &mut |_| {})?;
    lab.stop();
    let report = Report::new(&plan, &result, floor);
    let mut out = io::stdout();
    match plan.json {
        true => writeln!(out, "{}", serde_json::to_string(&report).unwrap_or_default())?,
        false => write!(out, "{report}")?,
    }
    if report.agreed {
        Ok(())
    } else {
        Err(Failure::new("the receivers did not see the same complete sequence; please report this"))
    }
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let mut plan = Plan::default();
    while let Some(option) = args.next()? {
        plan.take(&option, &mut args)?;
    }
    args.no_words()?;
    Ok(plan)
}

impl Plan {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome {
        match option {
            "--nodes" => self.nodes = args.number(1..=16)? as u16,
            "--size" => self.size = args.size(HEADER as u64..=consort_wire::MESSAGE_MAX as u64)? as usize,
            "--rate" => self.rate = rate(args)?,
            "--service" => self.service = args.choice(&[("agreed", Service::Agreed), ("safe", Service::Safe)])?,
            "--protocol" => self.protocol = args.choice(&PROTOCOLS)?,
            "--ring" => self.ring = args.choice(&RINGS)?,
            "--unbatched" => self.unbatched = true,
            "--sockets" => self.sockets = true,
            "--seconds" => self.seconds = args.duration()?.max(Duration::from_millis(100)),
            "--warm-up" => self.warm_up = args.duration()?,
            "--idling" => self.idling = args.choice(&PROFILES)?,
            "--datagram" => {
                let bytes = args.size(DatagramSize::MIN as u64..=DatagramSize::MAX as u64)?;
                self.datagram = DatagramSize::new(bytes as usize).map_err(Failure::usage)?;
            }
            "--credit" => self.credit = args.size(4_096..=1 << 30)? as usize,
            "--json" => self.json = true,
            _ => return Err(args.unknown()),
        }
        Ok(())
    }

    /// The protocol's name, for a ring which kind of it.
    pub fn order_name(&self) -> &'static str {
        if self.protocol == Protocol::Ring { self.ring_name() } else { self.protocol.name() }
    }

    fn ring_name(&self) -> &'static str {
        RINGS.iter().find(|(_, kind)| *kind == self.ring).map_or("", |(name, _)| name)
    }

    fn daemon_options(&self) -> Vec<String> {
        let datagram = self.datagram.get().to_string();
        let (ring, idling, credit) = (self.ring_name(), self.idling.name(), self.credit.to_string());
        let protocol = self.protocol.name();
        let options = [
            "--protocol",
            protocol,
            "--ring",
            ring,
            "--idling",
            idling,
            "--datagram",
            &datagram,
            "--client-credit",
            &credit,
        ];
        options.map(String::from).into()
    }

    fn round(&self) -> Round {
        Round {
            group: "bench".into(),
            service: self.service.name().into(),
            load: Load::Made(self.size),
            rate: self.rate,
            unbatched: self.unbatched,
            sockets: self.sockets,
            digest: false,
            warm_up: self.warm_up,
            span: self.seconds,
        }
    }
}

fn rate(args: &mut Args) -> Outcome<Option<f64>> {
    let text = args.text()?;
    match text.as_str() {
        "max" => Ok(None),
        text => match args::size(text).filter(|rate| (1..=100_000_000).contains(rate)) {
            Some(rate) => Ok(Some(rate as f64)),
            None => Err(args.wrong(text, "max, or messages a second such as 1000 or 10k")),
        },
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
        let plan =
            plan("--nodes 8 --size 64KiB --rate 10k --service safe --ring original --unbatched --sockets --seconds 2")
                .unwrap();
        assert_eq!((plan.order_name(), self::plan("--protocol toto").unwrap().order_name()), ("original", "toto"));
        assert_eq!((plan.nodes, plan.size, plan.rate, plan.service), (8, 65_536, Some(10_000.0), Service::Safe));
        assert_eq!((plan.ring_name(), plan.unbatched, plan.seconds.as_secs()), ("original", true, 2));
        assert!(plan.sockets);
    }

    #[test]
    fn wrong_plans_are_refused() {
        assert!(plan("extra").unwrap_err().message.starts_with("`extra` is not an option"));
        assert!(
            plan("--size 10").unwrap_err().message.starts_with("--size: `10` does not fit; give a size from 24 to")
        );
        assert!(plan("--rate fast").unwrap_err().message.starts_with("--rate: `fast` does not fit; give max, or"));
        assert!(plan("--service causal").unwrap_err().message.ends_with("give agreed or safe"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        for option in crate::args::options_of(HELP) {
            if let Err(failure) = plan(&format!("{option} 1")) {
                assert!(!failure.message.contains("no such option"), "{option}: {}", failure.message);
            }
        }
    }
}
