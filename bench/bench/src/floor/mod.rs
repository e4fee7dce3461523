//! What bare sockets do on this machine: beside every measurement with the calls of the daemons, and as a command of its
//! own, `consort bench floor`.

mod raw;
mod report;
mod stream;

use super::median::{median, quantiles};
use super::page;
use super::setup::{Outlet, Setup};
use crate::args::Args;
use crate::config::Profile;
use crate::failure::Outcome;
use crate::local::NODES_MAX;
use consort_testbed::HEADER;
use consort_testbed::Quantiles;
use raw::{FloodKind, Helpers, HopKind};
use report::{Hops, Multicast, Report, Writes};
use serde::Serialize;
use std::ffi::OsString;
use std::time::Duration;

/// How long each of the figures beside a measurement is measured.
const BRIEFLY: Duration = Duration::from_millis(700);
/// How many messages a client puts into one write.
const WRITES: [usize; 3] = [1, 16, 64];

/// The floor beside a measurement.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Floor {
    /// One datagram of a token's size from one process to the next, in a ring of as many processes as there are nodes,
    /// which wait as the daemons do: the median, in microseconds.
    pub hop_us_p50: f64,
    /// The same for those that sleep, and for those that look again and again.
    pub hop_blocking_us: Quantiles,
    pub hop_spinning_us: Quantiles,
    /// How many processes the ring had: two, where there is but one node.
    pub hop_processes: u16,
    /// Datagrams a second that every receiver took.
    pub multicast_pps: f64,
    /// The bytes of one of them.
    pub packet_bytes: usize,
    /// How many processes received them.
    pub receivers: usize,
}

/// Measures hop and multicast as a setup's daemons would use them.
pub fn measure(setup: &Setup) -> Outcome<Floor> {
    let helpers = Helpers::new()?;
    let hop_processes = setup.nodes.max(2);
    let hop = |spin| helpers.hop(HopKind { processes: hop_processes, spin }, BRIEFLY);
    let (hop_blocking_us, hop_spinning_us) = (hop(false)?.quantiles(), hop(true)?.quantiles());
    let hop = if setup.idling == Profile::Latency { hop_spinning_us } else { hop_blocking_us };
    let (packet_bytes, receivers) = (setup.datagram.get(), receivers_of(setup.nodes));
    let kind = FloodKind { size: packet_bytes, receivers, gso: true, gro: true };
    let multicast_pps = helpers.flood(kind, BRIEFLY)?;
    Ok(Floor {
        hop_us_p50: hop.p50,
        hop_blocking_us,
        hop_spinning_us,
        hop_processes,
        multicast_pps,
        packet_bytes,
        receivers,
    })
}

/// Every node but the one that sends.
fn receivers_of(nodes: u16) -> usize {
    usize::from(nodes).saturating_sub(1).max(1)
}

impl Floor {
    /// The medians of several; `None` of none.
    pub fn median(all: &[&Self]) -> Option<Self> {
        let first = **all.first()?;
        Some(Self {
            hop_us_p50: median(all.iter().map(|one| one.hop_us_p50)),
            hop_blocking_us: quantiles(all.iter().map(|one| one.hop_blocking_us)),
            hop_spinning_us: quantiles(all.iter().map(|one| one.hop_spinning_us)),
            multicast_pps: median(all.iter().map(|one| one.multicast_pps)),
            ..first
        })
    }
}

/// What `consort bench floor --help` prints.
pub const HELP: &str = "\
Usage: consort bench floor [options]

Measures what bare sockets reach on this machine, without any order: what a
daemon could do at best.

  --nodes N          processes, 2 to 64: of the ring of hops; one multicasts,
                     the others receive [3]
  --datagram SIZE    bytes of one datagram, 32 to 65000 [1472]
  --size BYTES       a client's message, 24 to 1MiB [1350]
  --seconds S        how long each figure is measured, 50ms to 60s [1]
  --json             print one JSON object
  --report FILE      also write a page for a browser; the name ends in .html

hop        a datagram of a token's size from one process to the next in a ring of
           as many as --nodes says, a rotation through their number: processes
           that sleep (blocking), and that look again and again (spinning); and
           the same between two processes, however many nodes there are
multicast  datagrams a second that the slowest receiver took: sent one by one,
           as super-packets (GSO), and received as such too (GRO)
stream     messages a second through a Unix stream socket, 1, 16 and 64 in a
           write, and the CPU time of writer and reader for each
";

/// What is measured by the command.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    nodes: u16,
    datagram: usize,
    size: usize,
    seconds: Duration,
    outlet: Outlet,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    let helpers = Helpers::new()?;
    let ring = plan.hops(&helpers, plan.nodes)?;
    let pair = if plan.nodes == 2 { ring.clone() } else { plan.hops(&helpers, 2)? };
    let multicast = [("single", false, false), ("GSO", true, false), ("GSO and GRO", true, true)]
        .map(|(name, gso, gro)| plan.multicast(&helpers, name, gso, gro));
    let streams = WRITES.map(|messages| stream::measure(&helpers, plan.size, messages, plan.seconds));
    let report = Report::new(
        [ring, pair],
        multicast.into_iter().collect::<Outcome<Vec<Multicast>>>()?,
        streams.into_iter().collect::<Outcome<Vec<Writes>>>()?,
    );
    page::publish(&plan.outlet, &report, &report.page())
}

impl Plan {
    fn hops(&self, helpers: &Helpers, processes: u16) -> Outcome<Hops> {
        let hop = |spin| helpers.hop(HopKind { processes, spin }, self.seconds);
        Ok(Hops { processes, blocking: hop(false)?, spinning: hop(true)? })
    }

    fn multicast(&self, helpers: &Helpers, sent: &'static str, gso: bool, gro: bool) -> Outcome<Multicast> {
        let receivers = receivers_of(self.nodes);
        let pps = helpers.flood(FloodKind { size: self.datagram, receivers, gso, gro }, self.seconds)?;
        Ok(Multicast { sent, packet_bytes: self.datagram, receivers, pps })
    }
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let (seconds, outlet) = (Duration::from_secs(1), Outlet::default());
    let mut plan = Plan { nodes: 3, datagram: 1_472, size: 1_350, seconds, outlet };
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--nodes" => plan.nodes = args.number(2..=NODES_MAX.into())? as u16,
            "--datagram" => plan.datagram = args.size(32..=65_000)? as usize,
            "--size" => plan.size = args.size(HEADER as u64..=1 << 20)? as usize,
            "--seconds" => plan.seconds = briefly(&mut args)?,
            option if plan.outlet.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    Ok(plan)
}

fn briefly(args: &mut Args) -> Outcome<Duration> {
    let span = args.duration()?;
    match (Duration::from_millis(50)..=Duration::from_secs(60)).contains(&span) {
        true => Ok(span),
        false => Err(args.wrong(&format!("{span:?}"), "a time from 50ms to 60s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn the_plan_is_read_and_what_does_not_fit_refused() {
        let given = plan("--nodes 8 --datagram 9000 --size 64KiB --seconds 200ms --json").unwrap();
        assert_eq!((given.nodes, given.datagram, given.size, given.seconds.as_millis()), (8, 9_000, 65_536, 200));
        assert!(given.outlet.json);
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert_eq!(problem("--nodes 1"), "--nodes: `1` does not fit; give a number from 2 to 64");
        assert_eq!(problem("--seconds 2m"), "--seconds: `120s` does not fit; give a time from 50ms to 60s");
        assert!(problem("--datagram 8").starts_with("--datagram: `8` does not fit; give a size from 32"));
        assert!(problem("--embedded").starts_with("--embedded: there is no such option"));
        assert_eq!(problem("--sise 8"), "--sise: there is no such option; did you mean --size?");
        for option in crate::args::options_of(HELP) {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}
