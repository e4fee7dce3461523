//! Three regions, each with a ring of its own, and a global ring: what stays in a region is as fast as a ring alone, and costs the
//! other regions nothing. Then one region is cut off, and joined again.
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
use consort_daemon::usage::cpu;
use consort_sim::link::LinkModel;
use consort_testbed::network::port::INTERFACE;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;

/// Each region has as many daemons, all of which vote in its ring; the first of each votes in the global one.
const REGIONS: [&str; 3] = ["eu", "us", "ap"];
const EACH: usize = 3;
const NODES: usize = REGIONS.len() * EACH;
/// How long a packet is under way between regions.
const WAY: Duration = Duration::from_millis(40);
/// The region that is cut off.
const CUT: usize = 2;
const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };
/// How large messages are, in bytes, and how often each client sends one.
const LEN: usize = 200;
const EVERY: Duration = Duration::from_millis(10);
/// The same where it is to be seen what that costs.
const BUSY: Duration = Duration::from_millis(1);
/// How long clients come together, how long is measured then, and how long to wait for the last.
pub const BEFORE: Duration = Duration::from_millis(2_500);
const SPAN: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a region is cut off.
const APART: Duration = Duration::from_secs(4);
/// How often as long messages of a region may take beside a global ring, and how long the others may pause.
const TIMES: u32 = 2;
const PAUSE: Duration = Duration::from_secs(2);
/// What daemons of other regions may use more of a processor while a region works, in thousandths of what its own use.
const SPENT: u32 = 100;

/// Which rings there are, and who reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// One region with its ring.
    Alone,
    /// All regions, and a global ring.
    Groups,
    /// The same where each daemon reads all rings.
    All,
}

/// A line of the table.
#[derive(Clone, Debug, Default)]
struct Row {
    what: &'static str,
    near: Vec<Duration>,
    far: Vec<Duration>,
}

/// All cases in turn, and what they came to.
pub fn compared(site: &Site<'_>) -> Result<Figures, String> {
    let mut rows = Vec::new();
    let mut figures = Figures::default();
    for case in [Case::Alone, Case::All, Case::Groups] {
        let settings = site.settings.to_owned() + &described(case);
        let site = Site { settings: &settings, ..*site };
        let nodes = if case == Case::Alone { EACH } else { NODES };
        let all: Vec<usize> = (0..nodes).collect();
        let setup =
            Setup { hosts: Hosts::Apart { empty: 0 }, nodes, first: &all, beat: BEAT, protocol: "multiring-paxos" };
        figures = with(&site, &setup, |stage| {
            place(stage, nodes)?;
            // Whoever was one ring before the ways grew long is one again.
            stage.pass(Duration::from_secs(3))?;
            stage.together(&all)?;
            rows.push(measure(stage, case)?);
            if case == Case::Groups {
                let spent = spend(stage)?;
                let cut = cut(stage, &all)?;
                return Ok(told(stage.figures(&all, usize::MAX), &spent, cut));
            }
            Ok(stage.figures(&all, usize::MAX))
        })?;
    }
    println!("\n{}", Table(&rows));
    judge(&rows, &mut figures);
    Ok(figures)
}

/// The rings of a case. The beat of the trial goes to the global one.
fn described(case: Case) -> String {
    let votes = |nodes: &[usize]| nodes.iter().map(|node| (node + 1).to_string()).collect::<Vec<_>>().join(", ");
    let own = |region: usize| (0..EACH).map(|node| region * EACH + node).collect::<Vec<_>>();
    if case == Case::Alone {
        return "[sessions]\nretain = 0\n[[ring]]\nid = 1\n".into();
    }
    let reads = if case == Case::Groups { "groups" } else { "all" };
    let head = format!("[sessions]\nretain = 0\n[paxos]\nreads = \"{reads}\"\n");
    let first: Vec<usize> = (0..REGIONS.len()).map(|region| region * EACH).collect();
    let global = format!("[[ring]]\nid = 1\nglobal = true\nacceptors = [{}]\n", votes(&first));
    let ring = |(region, name): (usize, &&str)| {
        let (id, votes) = (region + 2, votes(&own(region)));
        format!("[[ring]]\nid = {id}\ngroups = [\"{name}.*\"]\nacceptors = [{votes}]\n")
    };
    head + &global + &REGIONS.iter().enumerate().map(ring).collect::<String>()
}

/// Puts regions as far from each other as they are.
fn place(stage: &Stage<'_>, nodes: usize) -> Result<(), String> {
    let delay = consort_types::Duration::from_nanos(WAY.as_nanos() as u64);
    ways(stage, nodes, &LinkModel { delay, ..LinkModel::default() }, |_| true)
}

/// Sets the ways between regions, of which one is such.
fn ways(stage: &Stage<'_>, nodes: usize, model: &LinkModel, such: fn(usize) -> bool) -> Result<(), String> {
    let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    let far = all.filter(|(from, to)| from / EACH != to / EACH && (such(from / EACH) || such(to / EACH)));
    far.into_iter().try_for_each(|(from, to)| stage.network.set(from, to, model).map_err(text))
}

/// A client at the second and the third daemon of each region sends to its region, and one at the first to all.
fn measure(stage: &mut Stage<'_>, case: Case) -> Result<Row, String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    let regions = if case == Case::Alone { 1 } else { REGIONS.len() };
    let clients: Vec<(usize, &str)> = (0..regions)
        .flat_map(|region| {
            let far = (case != Case::Alone).then_some((region * EACH, "all"));
            [1, 2].map(|node| (region * EACH + node, REGIONS[region])).into_iter().chain(far)
        })
        .collect();
    let took = std::thread::scope(|scope| {
        let client = |(node, group): &(usize, &'static str)| {
            let (node, group) = (*node, *group);
            (group, scope.spawn(move || run(directory, node, group, (epoch, SPAN, EVERY))))
        };
        let running: Vec<_> = clients.iter().map(client).collect();
        let passed = stage.pass(BEFORE + SPAN + AFTER);
        let ended = running.into_iter().map(|(group, client)| Ok::<_, String>((group, joined(client)?)));
        let ended = ended.collect::<Result<Vec<_>, _>>();
        passed.and(ended)
    })?;
    let of = |far: bool| {
        let mut all: Vec<_> = took
            .iter()
            .filter(|(group, _)| (*group == "all") == far)
            .flat_map(|(_, heard)| heard.took.clone())
            .collect();
        all.sort_unstable();
        all
    };
    let what = match case {
        Case::Alone => "one region alone",
        Case::All => "daemons read all rings",
        Case::Groups => "daemons read by groups",
    };
    let row = Row { what, near: of(false), far: of(true) };
    if row.near.is_empty() || case != Case::Alone && row.far.is_empty() {
        return Err(format!("{what}: {} messages came in regions, {} to all", row.near.len(), row.far.len()));
    }
    Ok(row)
}

/// What a client was told: how long messages of others took, and the longest time without any.
#[derive(Debug, Default)]
pub struct Heard {
    pub took: Vec<Duration>,
    pause: Duration,
}

/// One client: joins its group, sends to it, and notes how long messages of others took.
pub fn run(
    directory: &Path,
    node: usize,
    group: &str,
    (epoch, span, every): (Instant, Duration, Duration),
) -> Result<Heard, String> {
    let name = if group == "all" { "world".to_owned() } else { format!("{group}.orders") };
    let group = GroupName::new(name.as_bytes()).map_err(text)?;
    let at: Address = address(directory, node);
    let mut client = Client::connect(&at, &ConnectOptions::default()).map_err(text)?;
    client.join(&group).map_err(text)?;
    let (begin, end) = (epoch + BEFORE, epoch + BEFORE + span);
    // Clients do not speak all at once.
    let mut next = epoch + BEFORE / 2 + every * node as u32 / NODES as u32;
    let (mut heard, mut last) = (Heard::default(), begin);
    while Instant::now() < end + AFTER / 2 {
        let now = Instant::now();
        if now >= next && now < end {
            let mut bytes = vec![0; LEN];
            bytes[..8].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_be_bytes());
            bytes[8] = node as u8;
            client.multicast_within(Service::Agreed, std::slice::from_ref(&group), &bytes, PATIENCE).map_err(text)?;
            next = (next + every).max(now);
        }
        let wait = next.saturating_duration_since(now).min(TURN);
        if let Some(Event::Message(message)) = client.receive(wait).map_err(text)? {
            let Some((sent, from)) = read(message.payload()) else { continue };
            let now = Instant::now();
            if (begin..end).contains(&now) {
                heard.pause = heard.pause.max(now - last);
                last = now;
                heard.took.extend((from != node).then(|| now.saturating_duration_since(epoch + sent)));
            }
        }
    }
    Ok(heard)
}

/// When a message was sent, and at which daemon.
fn read(payload: &[u8]) -> Option<(Duration, usize)> {
    let sent = u64::from_be_bytes(payload.get(..8)?.try_into().ok()?);
    Some((Duration::from_nanos(sent), usize::from(*payload.get(8)?)))
}

/// What the daemons of one region, and of the others, spend: processor time, and bytes that came to them.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    own: (Duration, u64),
    others: (Duration, u64),
}

impl Spent {
    fn since(self, before: Self) -> Self {
        let less = |(time, bytes): (Duration, u64), (time_before, bytes_before): (Duration, u64)| {
            (time.saturating_sub(time_before), bytes.saturating_sub(bytes_before))
        };
        Self { own: less(self.own, before.own), others: less(self.others, before.others) }
    }
}

fn spent(stage: &Stage<'_>) -> Result<Spent, String> {
    let mut spent = Spent::default();
    for node in 0..NODES {
        let bytes = stage.network.namespace(node).enter(received).map_err(text)??;
        let of = if node < EACH { &mut spent.own } else { &mut spent.others };
        of.0 += stage.fleet.id(node).and_then(cpu).unwrap_or_default();
        of.1 += bytes;
    }
    Ok(spent)
}

/// How many bytes have come to the namespace that this is called in.
fn received() -> Result<u64, String> {
    let file = "/proc/thread-self/net/dev";
    let told = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let line = told.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE)?.strip_prefix(':'));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.ok_or_else(|| format!("{file}: it does not tell what came to {INTERFACE}"))
}

/// What all spend while messages to all flow, and while the first region works beside that, in the same time.
fn spend(stage: &mut Stage<'_>) -> Result<[Spent; 2], String> {
    let all = [0, EACH, 2 * EACH].map(|node| (node, "all", EVERY));
    let region = [1, 2].map(|node| (node, REGIONS[0], BUSY));
    Ok([spend_with(stage, &all)?, spend_with(stage, &[&all[..], &region].concat())?])
}

fn spend_with(stage: &mut Stage<'_>, clients: &[(usize, &'static str, Duration)]) -> Result<Spent, String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    std::thread::scope(|scope| {
        let client = |(node, group, every): &(usize, &'static str, Duration)| {
            let (node, group, every) = (*node, *group, *every);
            scope.spawn(move || run(directory, node, group, (epoch, SPAN, every)))
        };
        let running: Vec<_> = clients.iter().map(client).collect();
        stage.pass(BEFORE)?;
        let before = spent(stage)?;
        stage.pass(SPAN)?;
        let spent = spent(stage)?.since(before);
        stage.pass(AFTER)?;
        running.into_iter().try_for_each(|client| joined(client).map(drop))?;
        Ok(spent)
    })
}

pub fn joined(client: ScopedJoinHandle<'_, Result<Heard, String>>) -> Result<Heard, String> {
    client.join().unwrap_or_else(|_| Err("a client panicked".into()))
}

/// The longest pauses of messages to all and of those in a region, at daemons that are not cut off, and how long it took until
/// all were together again.
type Cut = (Duration, Duration, Duration);

fn cut(stage: &mut Stage<'_>, all: &[usize]) -> Result<Cut, String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    let span = APART + Duration::from_secs(1);
    let pauses = std::thread::scope(|scope| {
        let running: Vec<_> = [(0, "all"), (EACH, "all"), (1, REGIONS[0]), (2, REGIONS[0])]
            .map(|(node, group)| scope.spawn(move || run(directory, node, group, (epoch, span, EVERY))))
            .into();
        stage.pass(BEFORE + Duration::from_secs(1))?;
        ways(stage, NODES, &LinkModel { cut: true, ..LinkModel::default() }, |region| region == CUT)?;
        stage.pass(span)?;
        let pauses = running
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())).map(|heard| heard.pause));
        pauses.collect::<Result<Vec<_>, String>>()
    })?;
    place(stage, NODES)?;
    let begun = Instant::now();
    stage.together(all)?;
    Ok((pauses[0].max(pauses[1]), pauses[2].max(pauses[3]), begun.elapsed()))
}

fn told(mut figures: Figures, [rest, work]: &[Spent; 2], (far, near, joined): Cut) -> Figures {
    let seconds = SPAN.as_secs_f64();
    let rate = |(time, bytes): (Duration, u64), daemons: usize| {
        let (share, kib) =
            (time.as_secs_f64() / seconds / daemons as f64, bytes as f64 / 1024.0 / seconds / daemons as f64);
        format!("{:.1} % and {kib:.0} KiB/s", share * 100.0)
    };
    let others = NODES - EACH;
    figures.notes.push(format!(
        "each daemon elsewhere: {}; while one region works: there {}, elsewhere {}",
        rate(rest.others, others),
        rate(work.own, EACH),
        rate(work.others, others)
    ));
    let more = work.others.0.saturating_sub(rest.others.0) / others as u32;
    let own = work.own.0.saturating_sub(rest.own.0) / EACH as u32;
    figures.wants(more <= own * SPENT / 1_000, || {
        format!("elsewhere daemons use {} ms more, there {} ms", more.as_millis(), own.as_millis())
    });
    figures.notes.push(format!(
        "{} cut off: messages to all paused {} ms, in a region {} ms; together again after {} ms",
        REGIONS[CUT],
        far.as_millis(),
        near.as_millis(),
        joined.as_millis()
    ));
    figures.wants(far.max(near) <= PAUSE, || format!("others paused for {} ms", far.max(near).as_millis()));
    figures
}

pub fn p50(took: &[Duration]) -> Duration {
    took.get(took.len() / 2).copied().unwrap_or_default()
}

/// What the goals are.
fn judge(rows: &[Row], figures: &mut Figures) {
    let [alone, _, apart] = rows else { return };
    let (most, took) = (p50(&alone.near) * TIMES, p50(&apart.near));
    figures.wants(took <= most, || format!("in a region {} us, above {} us", took.as_micros(), most.as_micros()));
}

/// One row for each case.
struct Table<'a>(&'a [Row]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} regions of {EACH} daemons, {} ms apart, one way; messages of {LEN} bytes, until others are told",
            REGIONS.len(),
            WAY.as_millis()
        )?;
        writeln!(f, "{:<24} {:>12} {:>10} {:>10} {:>10}", "", "region p50", "p99", "all p50", "p99")?;
        for Row { what, near, far } in self.0 {
            write!(f, "{what:<24}")?;
            for (took, width) in [(near, 12), (far, 10)] {
                let ms = |at: usize| {
                    took.get(took.len() * at / 100)
                        .map_or("-".into(), |took| format!("{:.2} ms", took.as_secs_f64() * 1e3))
                };
                write!(f, " {:>width$} {:>10}", ms(50), ms(99))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &'static str, near: u64, far: u64) -> Row {
        let took = |us| vec![Duration::from_micros(us)];
        Row { what, near: took(near), far: if far > 0 { took(far) } else { Vec::new() } }
    }

    #[test]
    fn each_region_has_its_ring_and_the_global_one_has_an_acceptor_in_each() {
        let text = described(Case::Groups);
        assert!(
            text.contains("reads = \"groups\"\n[[ring]]\nid = 1\nglobal = true\nacceptors = [1, 4, 7]\n"),
            "{text}"
        );
        assert!(text.contains("[[ring]]\nid = 3\ngroups = [\"us.*\"]\nacceptors = [4, 5, 6]\n"), "{text}");
        assert_eq!(text.replace("groups\"\n[[", "all\"\n[["), described(Case::All));
        assert_eq!(described(Case::Alone).matches("[[ring]]").count(), 1);
    }

    #[test]
    fn what_is_too_slow_or_costs_others_is_told() {
        let judged = |near: u64| {
            let mut figures = Figures::default();
            judge(&[row("alone", 400, 0), row("all", 90_000, 90_000), row("groups", near, 91_000)], &mut figures);
            figures.missed
        };
        assert_eq!(judged(800), [""; 0]);
        assert_eq!(judged(810), ["in a region 810 us, above 800 us"]);
        let ms = Duration::from_millis;
        let rest = Spent { own: (ms(30), 4_096), others: (ms(60), 8_192) };
        let work = |others: u64| Spent { own: (ms(330), 1 << 20), others: (ms(others), 9_000) };
        let told = |others, pause| told(Figures::default(), &[rest, work(others)], (ms(pause), ms(10), ms(900))).missed;
        assert_eq!(told(100, 1_500), [""; 0]);
        assert_eq!(told(200, 1_500), ["elsewhere daemons use 23 ms more, there 100 ms"]);
        assert_eq!(told(100, 2_500), ["others paused for 2500 ms"]);
    }

    #[test]
    fn the_table_has_a_row_for_each_case() {
        let shown = Table(&[row("one region alone", 310, 0)]).to_string();
        assert!(shown.ends_with("one region alone              0.31 ms    0.31 ms          -          -\n"), "{shown}");
        assert_eq!((read(&[0; 8]), read(&[0, 0, 0, 0, 0, 0, 0, 5, 2])), (None, Some((Duration::from_nanos(5), 2))));
    }
}
