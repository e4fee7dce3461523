//! One, two and four rings of Ring Paxos that every daemon merges, against one that nobody merges: what they carry, what a
//! delivery costs, and how long a message of one ring waits for the others while they are idle.
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
use consort_daemon::usage::cpu;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;

const NODES: usize = 3;
/// Everybody is in all groups. They lie on as many rings as there are.
const GROUPS: usize = 4;
/// How many rings are merged; 0 is Ring Paxos by itself.
const CASES: [usize; 4] = [0, 1, 2, 4];
const ROUNDS: usize = 3;
const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };
/// How large messages are, in bytes.
const LEN: usize = 1_000;
/// How many messages of a client are under way to each ring where as many go as can.
const AHEAD: usize = 64;
/// How many messages a second all send together to one group where latency is measured.
const RATE: u32 = 1_000;
/// How long clients come together, and how long is measured then.
const BEFORE: Duration = Duration::from_millis(1_000);
const SPAN: Duration = Duration::from_secs(3);
/// How long a client waits before it looks up, and how long a message may wait to be taken.
const TURN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
/// What a delivery may cost with four rings, by what it costs with one that nobody merges.
const COST_MOST: f64 = 1.15;
/// How much longer a message may take beside idle rings: half of what they skip by, and as much as two wake-ups take.
const IDLE_MOST: Duration = Duration::from_micros(1_100);

/// What a daemon may have resident under full load.
const BUDGET: u64 = 512 << 20;

/// What clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// As much as they can, to each group in turn, with so many messages of each client under way.
    Full(usize),
    /// To the first group, at equal distances of time.
    Paced,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Distinct messages a second.
    per_second: f64,
    /// What daemons needed for each delivery to a client.
    cost: Duration,
    p50: Duration,
    p99: Duration,
}

/// A line of the table: medians of all rounds.
#[derive(Clone, Copy, Debug)]
struct Line {
    rings: usize,
    full: Run,
    paced: Run,
}

/// All cases in turn, and what they came to.
pub fn compared(site: &Site<'_>) -> Result<Figures, String> {
    let (mut runs, mut last) = (vec![Vec::new(); CASES.len()], Figures::default());
    for _ in 0..ROUNDS {
        for (rings, runs) in CASES.into_iter().zip(&mut runs) {
            last = measure(site, rings, runs)?;
        }
    }
    let lines: Vec<_> = CASES.into_iter().zip(&runs).map(|(rings, runs)| medians(rings, runs)).collect();
    println!("\n{}", Table(&lines));
    let [alone, .., four] = &lines[..] else { return Err("a case is missing".into()) };
    last.budget = BUDGET;
    let cost = four.full.cost.as_secs_f64() / alone.full.cost.as_secs_f64();
    last.wants(cost <= COST_MOST, || format!("a delivery of four rings costs {cost:.2} times"));
    let longer = four.paced.p50.saturating_sub(alone.paced.p50);
    last.wants(longer <= IDLE_MOST, || format!("beside idle rings p50 is {} us longer", longer.as_micros()));
    Ok(last)
}

fn measure(site: &Site<'_>, rings: usize, runs: &mut Vec<[Run; 2]>) -> Result<Figures, String> {
    let settings = site.settings.to_owned() + &described(rings);
    let (site, all) = (Site { settings: &settings, ..*site }, [0, 1, 2]);
    let protocol = if rings == 0 { "paxos" } else { "multiring-paxos" };
    let setup = Setup { hosts: Hosts::Apart { empty: 0 }, nodes: NODES, first: &all, beat: BEAT, protocol };
    with(&site, &setup, |stage| {
        let full = Load::Full(AHEAD * rings.max(1));
        runs.push([run(stage, full)?, run(stage, Load::Paced)?]);
        Ok(stage.figures(&all, 0))
    })
}

/// The rings, each with its share of the groups. The first has what no other names.
fn described(rings: usize) -> String {
    if rings == 0 {
        return "[paxos]\nstorage = \"memory\"\n".into();
    }
    let of = |ring: usize| {
        let groups = (0..GROUPS).filter(|group| group % rings == ring).map(|group| format!("\"g{group}\""));
        format!("[[ring]]\nid = {}\ngroups = [{}]\n", ring + 1, groups.collect::<Vec<_>>().join(", "))
    };
    "[[ring]]\nid = 1\n".to_owned() + &(1..rings).map(of).collect::<String>()
}

fn run(stage: &mut Stage<'_>, load: Load) -> Result<Run, String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..NODES).map(|node| scope.spawn(move || client(directory, node, epoch, load))).collect();
        stage.pass(BEFORE)?;
        let before = spent(stage);
        stage.pass(SPAN)?;
        let spent = spent(stage).saturating_sub(before);
        stage.pass(TURN)?;
        let heard = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
        let mut took: Vec<_> = heard.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        took.sort_unstable();
        let at = |hundredths: usize| took.get(took.len() * hundredths / 100).copied().unwrap_or_default();
        let deliveries = took.len().max(1) as u32;
        let per_second = f64::from(deliveries) / NODES as f64 / SPAN.as_secs_f64();
        Ok(Run { per_second, cost: spent / deliveries, p50: at(50), p99: at(99) })
    })
}

/// The CPU time that all daemons have used.
fn spent(stage: &Stage<'_>) -> Duration {
    (0..NODES).filter_map(|node| cpu(stage.fleet.id(node)?)).sum()
}

/// One client. Returns how long each message took that came to it while that was measured.
fn client(directory: &Path, node: usize, epoch: Instant, load: Load) -> Result<Vec<Duration>, String> {
    let groups: Result<Vec<_>, _> = (0..GROUPS).map(|at| GroupName::new(format!("g{at}").as_bytes())).collect();
    let groups = groups.map_err(text)?;
    let at: Address = address(directory, node);
    let mut client = Client::connect(&at, &ConnectOptions::default()).map_err(text)?;
    groups.iter().try_for_each(|group| client.join(group).map(|_| ())).map_err(text)?;
    let every = Duration::from_secs(1) * NODES as u32 / RATE;
    let (begin, end) = (epoch + BEFORE, epoch + BEFORE + SPAN);
    let most = if let Load::Full(most) = load { most } else { usize::MAX };
    let (mut took, mut ahead, mut number, mut next) = (Vec::new(), 0, node, epoch + BEFORE / 2);
    while Instant::now() < end {
        let now = Instant::now();
        let free = ahead < most;
        if now >= next && free {
            let group = if load == Load::Paced { &groups[0] } else { &groups[number % GROUPS] };
            let mut bytes = vec![0; LEN];
            bytes[..8].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_be_bytes());
            bytes[8] = node as u8;
            client.multicast_within(Service::Agreed, std::slice::from_ref(group), &bytes, PATIENCE).map_err(text)?;
            (ahead, number) = (ahead + 1, number + 1);
            if load == Load::Paced {
                next += every;
            }
            if load != Load::Paced && ahead < most {
                continue;
            }
        }
        let wait = if free { next.saturating_duration_since(now).min(TURN) } else { TURN };
        if let Some(Event::Message(message)) = client.receive(wait).map_err(text)? {
            let Some((sent, from)) = read(message.payload()) else { continue };
            ahead -= usize::from(from == node && ahead > 0);
            let now = Instant::now();
            if now >= begin {
                took.push(now.saturating_duration_since(epoch + sent));
            }
        }
    }
    Ok(took)
}

/// When a message was sent, and by whose client.
fn read(payload: &[u8]) -> Option<(Duration, usize)> {
    let sent = u64::from_be_bytes(payload.get(..8)?.try_into().ok()?);
    Some((Duration::from_nanos(sent), usize::from(*payload.get(8)?)))
}

fn medians(rings: usize, runs: &[[Run; 2]]) -> Line {
    let of = |load: usize| {
        let median = |of: &dyn Fn(&Run) -> f64| {
            let mut values: Vec<_> = runs.iter().map(|run| of(&run[load])).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let time = |of: &dyn Fn(&Run) -> Duration| Duration::from_secs_f64(median(&|run| of(run).as_secs_f64()));
        Run {
            per_second: median(&|run| run.per_second),
            cost: time(&|run| run.cost),
            p50: time(&|run| run.p50),
            p99: time(&|run| run.p99),
        }
    };
    Line { rings, full: of(0), paced: of(1) }
}

struct Table<'a>(&'a [Line]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "messages of {LEN} bytes of {NODES} clients, one at each of {NODES} daemons; all read all {GROUPS} groups"
        )?;
        writeln!(f, "rings   messages/s  CPU a delivery      p50      p99   {RATE}/s to one ring: p50      p99")?;
        for Line { rings, full, paced } in self.0 {
            let name = if *rings == 0 { "paxos".into() } else { rings.to_string() };
            let us = |time: Duration| format!("{} us", time.as_micros());
            let cost = format!("{:.2} us", full.cost.as_secs_f64() * 1e6);
            write!(f, "{name:<5} {:>12.0} {cost:>15} {:>8} {:>8}", full.per_second, us(full.p50), us(full.p99))?;
            writeln!(f, " {:>24} {:>8}", us(paced.p50), us(paced.p99))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_lies_on_one_ring() {
        assert_eq!(described(0), "[paxos]\nstorage = \"memory\"\n");
        assert_eq!(described(1), "[[ring]]\nid = 1\n");
        assert_eq!(described(2), "[[ring]]\nid = 1\n[[ring]]\nid = 2\ngroups = [\"g1\", \"g3\"]\n");
        assert_eq!(described(4).matches("[[ring]]").count(), 4);
    }

    #[test]
    fn a_line_has_the_medians_of_its_rounds() {
        let run = |n: u64| Run {
            per_second: n as f64,
            cost: Duration::from_micros(n),
            p50: Duration::from_micros(10 * n),
            p99: Duration::from_micros(100 * n),
        };
        let runs = [[run(3), run(30)], [run(1), run(10)], [run(2), run(20)]];
        let shown = Table(&[medians(4, &runs)]).to_string();
        let words: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["4", "2", "2.00", "us", "20", "us", "200", "us", "200", "us", "2000", "us"]);
        assert_eq!((read(&[0; 8]), read(&[0, 0, 0, 0, 0, 0, 0, 5, 2])), (None, Some((Duration::from_nanos(5), 2))));
    }
}
