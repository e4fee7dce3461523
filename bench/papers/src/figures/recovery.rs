//! Multi-Ring Paxos's section III-E: a replica of a key-value store comes back while clients send as much as they can.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::multiring::TEN_GIGABIT;
use crate::parallel;
use crate::streams::{Given, Load, Plan, Process, Site, Streams};
use consort_multiring_paxos::Config;
use consort_types::{Duration, Instant};

/// Each replica is a server of its own, which votes.
const REPLICAS: usize = 3;
/// The one that crashes.
const CRASHES: usize = 2;
/// The one that sends it the state.
const DONOR: usize = 0;
const RING: u8 = 1;
/// Clients of each of the other two: 600 threads in all, as in the paper.
const CLIENTS: usize = 300;
/// The servers of the local network. Two replicas that each wait for the other to read would wait for ever: what clients have
/// under way, and what is read again, bounds what streams hold.
const SITE: Site = Site { unread: 1 << 30, ..TEN_GIGABIT };
/// An update, in bytes.
const UPDATE: usize = 1_024;
/// A part of the state, in bytes, and how often one is sent: replicas of the product send 4 MiB a second by default.
const PART: usize = 128 << 10;
const PARTS_EVERY: Duration = Duration::from_micros(31_250);

/// In milliseconds: how long clients send before they are measured, how long they are then; when the replica comes back after it
/// has crashed, and for how long it is looked at then.
const BEFORE: u64 = 500;
const NORMAL: u64 = 1_000;
const AWAY: u64 = 2_500;
const BACK: u64 = 3_000;

fn adjust(config: &mut Config) {
    config.paxos.credit = 4 << 20;
    config.paxos.beat = Duration::from_millis(25);
}

/// All that was ordered since the crash is there to be read again.
fn adjust_tail(config: &mut Config) {
    adjust(config);
    config.paxos.retain = 2 << 30;
}

/// How a replica comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It keeps what is ordered from now on, and is sent the state.
    State,
    /// It reads again all that it missed.
    Tail,
}

fn replicas(way: Way) -> Plan {
    let process = |server| Process {
        server,
        rings: vec![RING],
        load: if server == CRASHES { Load::None } else { Load::Clients(CLIENTS, RING) },
    };
    Plan {
        site: SITE,
        delay: |_, _| Duration::from_micros(50),
        processes: (0..REPLICAS).map(process).collect(),
        acceptors: [(RING, (0..REPLICAS).collect())].into(),
        len: UPDATE,
        adjust: if way == Way::State { adjust } else { adjust_tail },
    }
}

/// A run, as one of the other replicas sees it.
struct Return {
    way: Way,
    /// When clients began, the replica crashed, and came back.
    began: Instant,
    crashed: Instant,
    back: Instant,
    /// When it had all that was ordered, if it had.
    current: Option<Instant>,
    end: Instant,
    given: Vec<Given>,
}

impl Return {
    fn run(lab: &Lab, way: Way) -> Result<Self, String> {
        let plan = replicas(way);
        let mut streams = Streams::start(&plan, lab.scale.seed, &[DONOR])?;
        let began = streams.now();
        streams.begin();
        streams.run(Duration::from_millis(BEFORE + lab.scaled(NORMAL)))?;
        let crashed = streams.now();
        streams.kill(CRASHES);
        streams.run(Duration::from_millis(lab.scaled(AWAY)))?;
        let back = streams.now();
        streams.restart(CRASHES)?;
        let current = come_back(&mut streams, way, Duration::from_millis(lab.scaled(BACK)))?;
        let (end, given) = (streams.now(), streams.take_given());
        Ok(Self { way, began, crashed, back, current, end, given })
    }

    /// Megabits of updates a second.
    fn rate(&self, from: Instant, until: Instant) -> f64 {
        let given = self.given.iter().filter(|given| given.at > from && given.at <= until && given.sender != CRASHES);
        (given.count() * UPDATE * 8) as f64 / until.since(from).as_secs_f64() / 1e6
    }

    fn normal(&self) -> f64 {
        self.rate(self.began + Duration::from_millis(BEFORE), self.crashed)
    }

    fn recovering(&self) -> f64 {
        let until = if self.way == Way::Tail { self.current.unwrap_or(self.end) } else { self.end };
        self.rate(self.back, until) / self.normal()
    }

    fn curve(&self) -> Curve {
        const BIN: Duration = Duration::from_millis(100);
        let bins = self.end.since(self.began).as_nanos() / BIN.as_nanos();
        let point = |bin: u128| {
            let from = self.began + BIN * bin as u32;
            ((BIN * bin as u32).as_secs_f64(), self.rate(from, from + BIN))
        };
        let name = if self.way == Way::State { "new: the state, and what is ordered since" } else { "old: the log" };
        Curve::line(name, (0..bins).map(point).collect())
    }
}

/// Lets a replica come back. Returns when it is in the view of all, which it asks for once it has read the log nearly to its end.
fn come_back(streams: &mut Streams<'_>, way: Way, span: Duration) -> Result<Option<Instant>, String> {
    let (end, mut current) = (streams.now() + span, None);
    while streams.now() < end {
        streams.run(PARTS_EVERY)?;
        if current.is_none() && streams.members(CRASHES) == REPLICAS && streams.members(DONOR) == REPLICAS {
            current = Some(streams.now());
        }
        if way == Way::State && current.is_some() {
            streams.send_state(DONOR, RING, PART);
        }
    }
    Ok(current)
}

/// A replica comes back in either way, under the same load.
pub fn figure_4(lab: &Lab) -> Result<Outcome, String> {
    let runs = parallel::map(&[Way::State, Way::Tail], |way| Return::run(lab, *way))?;
    let [state, tail] = &runs[..] else { return Err("a way is missing".into()) };
    let Some(in_view) = state.current else { return Err("the replica is not let in again".into()) };
    let lacks = tail.current.map_or("it has not read it all at the end".into(), |at| {
        format!("it has read it all after {:.2} s", at.since(tail.back).as_secs_f64())
    });
    let setting = format!(
        "Three replicas on 10 Gbit/s, each votes in the ring; {CLIENTS} clients at each of two, with an update of {UPDATE} bytes \
         under way each. The third crashes after {:.1} s, and is back {:.1} s later. New: it is let in after {:.2} s and is then \
         sent the state through the ring, {} KiB each {PARTS_EVERY:?}. Old: it reads the log since its crash from the others; \
         {lacks}.",
        state.crashed.since(state.began).as_secs_f64(),
        state.back.since(state.crashed).as_secs_f64(),
        in_view.since(state.back).as_secs_f64(),
        PART >> 10,
    );
    let chart = Chart {
        title: "Updates at another replica".into(),
        x: Axis::linear("time, s"),
        y: Axis::linear("Mbit/s"),
        curves: runs.iter().map(Return::curve).collect(),
    };
    let claims = vec![
        Claim::at_least("updates in recovery by normal, new", "0.78", state.recovering(), 0.75, "times"),
        Claim::at_most("the same, old", "at most half", tail.recovering(), 0.55, "times"),
    ];
    Ok(Outcome { setting, charts: vec![chart], claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_sent_the_state_is_let_in_while_clients_go_on() {
        let lab = Lab::new(1, true);
        let run = Return::run(&lab, Way::State).unwrap();
        assert!(run.current.is_some() && run.crashed < run.back, "it is not let in");
        assert!(run.normal() > 100.0 && run.recovering() > 0.5, "{} and {}", run.normal(), run.recovering());
        assert!(run.given.iter().any(|given| given.at > run.back && given.sender == DONOR));
    }
}
