//! Two sites whose gateways are far apart: what stays in one, and what asks for its sender's order alone, is as fast as in one
//! ring; the rest waits for the line. Then the line is cut, and joined again.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Event, GroupName, Message, Service, Undo};
use consort_sim::link::LinkModel;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Far, Hosts, Setup, Stage, text, with, with_far_rings};
use super::watch::Beat;
use crate::chaos::fleet::address;

/// Who stands in which ring: two sites, and the line between them.
const RINGS: [&[usize]; 3] = [&[0, 1, 2], &[2, 3], &[3, 4, 5]];
const LINE: usize = 1;
const SITES: [&[usize]; 2] = [&[0, 1, 2], &[3, 4, 5]];
/// How long a packet is on the line, one way.
const WAY: Duration = Duration::from_millis(50);
/// Whose clients send and listen: two in each site.
const CLIENTS: [usize; 4] = [0, 1, 4, 5];
const SETTINGS: &str = "[sessions]\nretain = 0\n";
const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };
/// How large messages are, in bytes, and how often each client sends one.
const LEN: usize = 200;
const EVERY: Duration = Duration::from_millis(20);
/// How long clients come together, how long is measured then, and how long to wait for the last.
const BEFORE: Duration = Duration::from_millis(2_500);
const SPAN: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_millis(1_500);
const TURN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer messages may take than in one ring, in percent; and how much of the way more those of the whole order.
const SLACK: u32 = 10;
const WAYS: u32 = 150;
/// How soon after the timers of the line each side has a view of its own.
const SOON: Duration = Duration::from_secs(1);

/// What is sent: with which service, and whether both sites read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    service: Service,
    both: bool,
}

const CASES: [Case; 4] = [
    Case { service: Service::Fifo, both: false },
    Case { service: Service::Fifo, both: true },
    Case { service: Service::Agreed, both: false },
    Case { service: Service::Agreed, both: true },
];

/// What one client was told: how long messages took from its site and from the other; and all places, in their order.
#[derive(Debug, Default)]
struct Heard {
    near: Vec<Duration>,
    far: Vec<Duration>,
    places: Places,
}

/// What one client was told, in its order: whose messages, and which of their own.
type Places = Vec<(u64, u64)>;

/// A line of the table.
#[derive(Debug)]
struct Row {
    what: String,
    near: Vec<Duration>,
    far: Vec<Duration>,
}

/// One ring alone, then both sites, and what they came to.
pub fn apart(site: &Site<'_>) -> Result<Figures, String> {
    let mut rows = Vec::new();
    let setup = Setup { hosts: Hosts::Apart { empty: 0 }, nodes: 3, first: SITES[0], beat: BEAT, protocol: "ring" };
    with(site, &setup, |stage| {
        for service in [Service::Fifo, Service::Agreed] {
            let (row, _) = measure(stage, &CLIENTS[..2], Case { service, both: false }, "one ring alone")?;
            rows.push(row);
        }
        Ok(stage.figures(SITES[0], 0))
    })?;
    let far = Far { ring: LINE, way: WAY };
    let both = Site { settings: SETTINGS, ..*site };
    let mut figures = with_far_rings(&both, &RINGS, Some(far), BEAT, |stage| {
        let all: Vec<usize> = (0..6).collect();
        let mut same = true;
        for case in CASES {
            let what = if case.both { "both sites read" } else { "one site reads" };
            // Beside as many clients as in the ring alone.
            let clients = if case.both { &CLIENTS[..] } else { &CLIENTS[..2] };
            let (row, orders) = measure(stage, clients, case, what)?;
            same &= !case.both || are_alike(&orders);
            rows.push(row);
        }
        let mut figures = stage.figures(&all, 0);
        figures.wants(same, || "clients were told different orders".into());
        cut(stage, &mut figures)?;
        Ok(figures)
    })?;
    println!("\n{}", Table(&rows));
    judge(&rows, &mut figures);
    Ok(figures)
}

fn p50(took: &[Duration]) -> Duration {
    took.get(took.len() / 2).copied().unwrap_or_default()
}

/// What the goals are, with the rows in the order in which they were measured.
fn judge(rows: &[Row], figures: &mut Figures) {
    let [alone_fifo, alone, fifo_one, fifo_both, _, agreed_both] = rows else { return };
    let most = p50(&alone_fifo.near) * (100 + SLACK) / 100;
    for row in [fifo_one, fifo_both] {
        let took = p50(&row.near);
        figures.wants(took <= most, || format!("{}: {} us, above {} us", row.what, took.as_micros(), most.as_micros()));
    }
    let most = p50(&alone.near) + WAY * WAYS / 100;
    for took in [p50(&agreed_both.near), p50(&agreed_both.far)] {
        figures.wants(took <= most, || {
            format!("{}: {} ms, above {} ms", agreed_both.what, took.as_millis(), most.as_millis())
        });
    }
}

/// Cuts the line until each site has a view of its own, and joins it again.
fn cut(stage: &mut Stage<'_>, figures: &mut Figures) -> Result<(), String> {
    let config = stage.settings()?.multiring_config();
    let way = consort_types::Duration::from_nanos(WAY.as_nanos() as u64);
    let timers = config.of_ring(&config.rings[LINE]).timeouts(2, way);
    let patience = Duration::from_nanos((timers.token_loss + timers.consensus * 2).as_nanos() as u64);
    let begun = Instant::now();
    line(stage, &LinkModel { cut: true, ..LinkModel::default() })?;
    SITES.iter().try_for_each(|nodes| stage.together(nodes))?;
    let took = begun.elapsed();
    figures.notes.push(format!("cut off: views after {} ms", took.as_millis()));
    figures.wants(took <= patience + SOON, || format!("views of each site only after {} ms", took.as_millis()));
    line(
        stage,
        &LinkModel { delay: consort_types::Duration::from_millis(WAY.as_millis() as u64), ..LinkModel::default() },
    )?;
    let begun = Instant::now();
    stage.together(&(0..6).collect::<Vec<_>>())?;
    figures.notes.push(format!("joined again after {} ms", begun.elapsed().as_millis()));
    Ok(())
}

fn line(stage: &Stage<'_>, model: &LinkModel) -> Result<(), String> {
    let [a, b] = [RINGS[LINE][0], RINGS[LINE][1]];
    [(a, b), (b, a)].into_iter().try_for_each(|(from, to)| stage.network.set_in(LINE, from, to, model).map_err(text))
}

fn measure(stage: &mut Stage<'_>, nodes: &[usize], case: Case, what: &str) -> Result<(Row, Vec<Places>), String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    let heard = std::thread::scope(|scope| {
        let clients: Vec<_> =
            nodes.iter().map(|node| scope.spawn(move || run(directory, *node, epoch, case))).collect();
        let passed = stage.pass(BEFORE + SPAN + AFTER);
        let heard = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
        let heard = heard.collect::<Result<Vec<_>, _>>();
        passed.and(heard)
    })?;
    let sorted = |of: fn(&Heard) -> &[Duration]| {
        let mut all: Vec<_> = heard.iter().flat_map(|heard| of(heard).to_vec()).collect();
        all.sort_unstable();
        all
    };
    let (near, far) = (sorted(|heard| &heard.near), sorted(|heard| &heard.far));
    let service = if case.service == Service::Fifo { "fifo" } else { "agreed" };
    if near.is_empty() || case.both == far.is_empty() {
        return Err(format!("{service}, {what}: {} messages came from near, {} from far", near.len(), far.len()));
    }
    let row = Row { what: format!("{service}, {what}"), near, far };
    Ok((row, heard.into_iter().map(|heard| heard.places).collect()))
}

/// One client: joins the group of its case, sends to it, and notes when it is first told of what others send.
fn run(directory: &Path, node: usize, epoch: Instant, case: Case) -> Result<Heard, String> {
    let west = node < 3;
    let name = if case.both {
        "both"
    } else if west {
        "west"
    } else {
        "east"
    };
    let group = GroupName::new(name.as_bytes()).map_err(text)?;
    let at: Address = address(directory, node);
    let mut client = Client::connect(&at, &ConnectOptions::default().optimistic(Undo::Any)).map_err(text)?;
    client.join(&group).map_err(text)?;
    let (begin, end) = (epoch + BEFORE, epoch + BEFORE + SPAN);
    // Clients do not speak all at once.
    let (mut heard, mut offered) = (Heard::default(), BTreeMap::new());
    let (mut number, mut next) = (0, epoch + BEFORE / 2 + EVERY * node as u32 / 6);
    while Instant::now() < end + AFTER / 2 {
        let now = Instant::now();
        if now >= next && now < end {
            number += 1;
            let mut bytes = vec![0; LEN];
            bytes[..8].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_be_bytes());
            bytes[8..16].copy_from_slice(&(node as u64).to_be_bytes());
            bytes[16..24].copy_from_slice(&u64::to_be_bytes(number));
            client.multicast_within(case.service, std::slice::from_ref(&group), &bytes, PATIENCE).map_err(text)?;
            next += EVERY;
        }
        let wait = next.saturating_duration_since(now).min(TURN);
        match client.receive(wait).map_err(text)? {
            Some(Event::Offer(offer)) => {
                let Some((sent, from, number)) = read(&offer.message) else { continue };
                offered.insert(offer.number, (from, number));
                let now = Instant::now();
                let (side, took) = ((from < 3) == west, now.saturating_duration_since(epoch + sent));
                if now >= begin && from != node as u64 {
                    if side { heard.near.push(took) } else { heard.far.push(took) }
                }
            }
            Some(Event::Confirm { offer }) => heard.places.extend(offered.remove(&offer)),
            _ => {}
        }
    }
    Ok(heard)
}

/// When a message was sent, by whose client, and which of its own it is.
fn read(message: &Message) -> Option<(Duration, u64, u64)> {
    let payload = message.payload();
    let number = |at: usize| Some(u64::from_be_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    Some((Duration::from_nanos(number(0)?), number(8)?, number(16)?))
}

/// Whether all were told the same order, from where the last of them began to where the first ended.
fn are_alike(orders: &[Places]) -> bool {
    let Some((first, others)) = orders.split_first() else { return true };
    others.iter().all(|other| {
        let [mine, known] = [first, other].map(|order| order.iter().collect::<BTreeSet<_>>());
        let one: Vec<_> = first.iter().filter(|place| known.contains(place)).collect();
        let two: Vec<_> = other.iter().filter(|place| mine.contains(place)).collect();
        one.len() * 2 > first.len() && one == two
    })
}

/// One row for each case.
struct Table<'a>(&'a [Row]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "messages of {LEN} bytes; sites {} ms apart, one way; until a client is first told",
            WAY.as_millis()
        )?;
        writeln!(f, "{:<26} {:>9} {:>9} {:>9} {:>9}", "", "near p50", "p99", "far p50", "p99")?;
        for Row { what, near, far } in self.0 {
            write!(f, "{what:<26}")?;
            for took in [near, far] {
                let us = |at: usize| {
                    took.get(took.len() * at / 100).map_or("-".into(), |took| format!("{} us", took.as_micros()))
                };
                write!(f, " {:>9} {:>9}", us(50), us(99))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, near: u64, far: u64) -> Row {
        let took = |us| vec![Duration::from_micros(us)];
        Row { what: what.into(), near: took(near), far: if far > 0 { took(far) } else { Vec::new() } }
    }

    #[test]
    fn what_is_too_slow_is_told() {
        let judged = |fifo: u64, agreed: u64| {
            let mut figures = Figures::default();
            let rows = [
                row("alone", 300, 0),
                row("alone", 300, 0),
                row("fifo one", fifo, 0),
                row("fifo both", 320, 50_400),
                row("agreed one", 90_000, 0),
                row("agreed both", agreed, 75_100),
            ];
            judge(&rows, &mut figures);
            figures.missed
        };
        assert_eq!(judged(330, 75_300), [""; 0]);
        assert_eq!(judged(340, 75_300), ["fifo one: 340 us, above 330 us"]);
        assert_eq!(judged(330, 101_000), ["agreed both: 101 ms, above 75 ms"]);
    }

    #[test]
    fn orders_are_alike_where_both_were_told() {
        let order = |places: &[u64]| places.iter().map(|number| (0, *number)).collect::<Vec<_>>();
        assert!(are_alike(&[order(&[1, 2, 3]), order(&[2, 3, 4])]));
        assert!(!are_alike(&[order(&[1, 2, 3]), order(&[1, 3, 2])]));
        assert!(!are_alike(&[order(&[1, 2, 3]), order(&[7])]), "nothing to compare");
    }

    #[test]
    fn the_table_has_a_row_for_each_case() {
        let shown = Table(&[row("fifo, one site reads", 310, 0)]).to_string();
        assert!(shown.ends_with("fifo, one site reads          310 us    310 us         -         -\n"), "{shown}");
    }
}
