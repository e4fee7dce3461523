//! Two rings of four nodes and a gateway against one of nine: what they carry, and how long messages take, where a share of them
//! is read on both sides.
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with, with_rings};
use super::watch::Beat;
use crate::chaos::fleet::address;

/// Who stands in which of two rings.
const RINGS: [&[usize]; 2] = [&[0, 1, 2, 3, 4], &[4, 5, 6, 7, 8]];
const GATEWAY: usize = 4;
const NODES: usize = 9;
/// Daemons keep nothing for others, so that gateways send on only what is read.
const SETTINGS: &str = "[sessions]\nretain = 0\n";
const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };
/// Of ten messages so many are read on both sides.
const SHARES: [u64; 2] = [1, 5];
const SERVICES: [Service; 2] = [Service::Agreed, Service::Safe];
/// How large messages are, in bytes.
const LEN: usize = 1_000;
/// How many messages of a client are under way where as many go as can.
const AHEAD: usize = 32;
/// How many messages a second all send together where latency is measured.
const RATE: u32 = 1_000;
/// How long clients come together, and how long is measured then.
const BEFORE: Duration = Duration::from_millis(1_000);
const SPAN: Duration = Duration::from_secs(3);
/// How long a client waits before it looks up.
const TURN: Duration = Duration::from_millis(5);
/// How long a message may wait to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is measured at once.
#[derive(Clone, Copy, Debug)]
struct Case {
    share: u64,
    service: Service,
    /// How far apart each client's messages are; as many as can go where it is none.
    every: Option<Duration>,
}

/// What one client had: own messages that came back, and how long those of others took.
#[derive(Debug, Default)]
struct Heard {
    own: usize,
    took: Vec<Duration>,
}

/// A line of the table.
#[derive(Debug)]
struct Line {
    case: Case,
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

/// Two rings, then one, and what they came to.
pub fn compared(site: &Site<'_>) -> Result<Figures, String> {
    let (mut two, mut one) = (Vec::new(), Vec::new());
    let apart = Site { settings: SETTINGS, ..*site };
    let figures = with_rings(&apart, &RINGS, BEAT, |stage| measure(stage, &mut two))?;
    let all: Vec<usize> = (0..NODES).collect();
    let setup = Setup { hosts: Hosts::Apart { empty: 0 }, nodes: NODES, first: &all, beat: BEAT, protocol: "ring" };
    with(site, &setup, |stage| measure(stage, &mut one))?;
    println!("\n{}", Table(&two, &one));
    Ok(figures)
}

fn measure(stage: &mut Stage<'_>, lines: &mut Vec<Line>) -> Result<Figures, String> {
    for case in cases() {
        lines.push(line(stage, case)?);
    }
    let all: Vec<usize> = (0..NODES).collect();
    Ok(stage.figures(&all, 0))
}

fn cases() -> Vec<Case> {
    let paced = Duration::from_secs(1) * (NODES as u32 - 1) / RATE;
    let services = |share| SERVICES.map(|service| (share, service));
    let loads = |(share, service)| [None, Some(paced)].map(|every| Case { share, service, every });
    SHARES.into_iter().flat_map(services).flat_map(loads).collect()
}

fn line(stage: &mut Stage<'_>, case: Case) -> Result<Line, String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    let heard = std::thread::scope(|scope| {
        let senders = (0..NODES).filter(|node| *node != GATEWAY);
        let clients: Vec<_> = senders.map(|node| scope.spawn(move || run(directory, node, epoch, case))).collect();
        let passed = stage.pass(BEFORE + SPAN);
        let heard = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
        let heard = heard.collect::<Result<Vec<_>, _>>();
        passed.and(heard)
    })?;
    let own: usize = heard.iter().map(|heard| heard.own).sum();
    let mut took: Vec<_> = heard.into_iter().flat_map(|heard| heard.took).collect();
    took.sort_unstable();
    let at = |hundredths: usize| took.get(took.len() * hundredths / 100).copied().unwrap_or_default();
    Ok(Line { case, per_second: own as f64 / SPAN.as_secs_f64(), p50: at(50), p99: at(99) })
}

/// One client: joins the group of its side, and sends to it, now and then to that of the other side, too.
fn run(directory: &Path, node: usize, epoch: Instant, case: Case) -> Result<Heard, String> {
    let group = |name: &str| GroupName::new(name.as_bytes()).map_err(text);
    let (near, far) = if node < GATEWAY { ("west", "east") } else { ("east", "west") };
    let both = [group(near)?, group(far)?];
    let at: Address = address(directory, node);
    let mut client = Client::connect(&at, &ConnectOptions::default()).map_err(text)?;
    client.join(&both[0]).map_err(text)?;
    let (begin, end) = (epoch + BEFORE, epoch + BEFORE + SPAN);
    let (mut heard, mut ahead, mut number, mut next) = (Heard::default(), 0, node as u64, epoch + BEFORE / 2);
    while Instant::now() < end {
        let now = Instant::now();
        let free = case.every.map_or(ahead < AHEAD, |_| true);
        if now >= next && free {
            number += 1;
            let groups = if number % 10 < case.share { &both[..] } else { &both[..1] };
            let mut bytes = vec![0; LEN];
            bytes[..8].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_be_bytes());
            bytes[8..16].copy_from_slice(&(node as u64).to_be_bytes());
            client.multicast_within(case.service, groups, &bytes, PATIENCE).map_err(text)?;
            ahead += 1;
            next += case.every.unwrap_or_default();
            if ahead < AHEAD && case.every.is_none() {
                continue;
            }
        }
        let wait = if free { next.saturating_duration_since(now).min(TURN) } else { TURN };
        if let Some(Event::Message(message)) = client.receive(wait).map_err(text)? {
            let Some((sent, from)) = read(message.payload()) else { continue };
            let own = from == node as u64;
            ahead -= usize::from(own && ahead > 0);
            let now = Instant::now();
            if now >= begin && own {
                heard.own += 1;
            } else if now >= begin {
                heard.took.push(now.saturating_duration_since(epoch + sent));
            }
        }
    }
    Ok(heard)
}

/// When a message was sent, and by whose client.
fn read(payload: &[u8]) -> Option<(Duration, u64)> {
    let number = |at: usize| Some(u64::from_be_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    Some((Duration::from_nanos(number(0)?), number(8)?))
}

/// Both beside each other.
struct Table<'a>(&'a [Line], &'a [Line]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "messages of {LEN} bytes of 8 clients; two rings of 4 and a gateway, by one ring of 9")?;
        writeln!(
            f,
            "read by both  service  load        two: messages/s      p50      p99   one: messages/s      p50      p99"
        )?;
        for (two, one) in self.0.iter().zip(self.1) {
            let Case { share, service, every } = two.case;
            let service = if service == Service::Safe { "safe" } else { "agreed" };
            let load = if every.is_some() { format!("{RATE}/s") } else { "all it takes".into() };
            write!(f, "{:>11} %  {service:<7}  {load:<12}", share * 10)?;
            for line in [two, one] {
                let us = |time: Duration| format!("{} us", time.as_micros());
                write!(f, " {:>14.0} {:>8} {:>8}  ", line.per_second, us(line.p50), us(line.p99))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_and_service_is_measured_under_both_loads() {
        let cases = cases();
        assert_eq!(cases.len(), 8);
        assert_eq!(cases.iter().filter(|case| case.every == Some(Duration::from_millis(8))).count(), 4);
        assert_eq!(read(&[0; 9]), None);
        assert_eq!(read(&[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 7]), Some((Duration::from_nanos(9), 3)));
    }

    #[test]
    fn the_table_has_both_beside_each_other() {
        let case = Case { share: 5, service: Service::Safe, every: None };
        let line =
            |per_second| Line { case, per_second, p50: Duration::from_micros(70), p99: Duration::from_millis(2) };
        let shown = Table(&[line(1_000.0)], &[line(2_000.0)]).to_string();
        let words: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words[..2], ["50", "%"]);
        assert_eq!(words[6..], ["1000", "70", "us", "2000", "us", "2000", "70", "us", "2000", "us"]);
    }
}
