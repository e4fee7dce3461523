//! One of five receivers stops reading, under each policy for such clients: what the others notice, and what it is told.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use consort::{
    Client, ConnectOptions, Error, Event, GroupName, Message, ReadingStatus, Service, SlowPolicy, SlowRequest,
};

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;
use consort_testbed::network::memory::mib;

/// How large a message is, and how many are sent a second: 8 MiB.
const LEN: usize = 8 << 10;
const RATE: u32 = 1_024;
/// How long is measured before, and again after what the slow one left has been read.
const BESIDE: Duration = Duration::from_secs(5);
/// How long others wait for a client with `block` by default.
const BLOCK_FOR: Duration = Duration::from_secs(10);
/// How long a receiver waits before it looks up.
const TURN: Duration = Duration::from_millis(50);
/// What may wait for one client in memory, and what messages that wait may take beside what is counted at rest.
const OUTPUT: u64 = 64 << 20;

const BEAT: Beat = Beat { node: 2, every: Duration::from_millis(20), service: Service::Agreed };

/// What is tried: a name, and what the slow one asks for.
fn cases(stops: Duration) -> [(&'static str, SlowRequest); 5] {
    let block = |time| SlowRequest { time: Some(time), ..SlowPolicy::Block.into() };
    [
        ("disconnect", SlowPolicy::Disconnect.into()),
        ("spool", SlowPolicy::Spool.into()),
        ("demote", SlowPolicy::Demote.into()),
        ("block, 10 s", block(BLOCK_FOR)),
        ("block, patient", block(stops * 2 + BLOCK_FOR)),
    ]
}

/// What one policy came to.
struct Case {
    name: &'static str,
    /// Messages a second that the slowest of the others got before, during and after.
    rates: [f64; 3],
    /// Bytes of the largest daemon at most.
    memory: u64,
    /// What the slow one was told, or how many messages it has of all, those among them that it was told are missing.
    told: Result<(u64, u64), String>,
    missing: u64,
}

/// What threads share.
struct Feed<'a> {
    addresses: [consort::Address; 2],
    group: GroupName,
    got: [AtomicU64; 5],
    sent: AtomicU64,
    missing: AtomicU64,
    stops: &'a AtomicBool,
    over: &'a AtomicBool,
}

pub fn policies(site: &Site<'_>) -> Result<Figures, String> {
    let all = [0, 1, 2];
    let stops = site.lengths.network;
    with(site, &Setup { hosts: Hosts::Together, nodes: 3, first: &all, beat: BEAT, protocol: "ring" }, |stage| {
        let mut cases_tried = Vec::new();
        for (name, asked) in cases(stops) {
            cases_tried.push(case(stage, name, asked, stops)?);
            stage.pass(Duration::from_secs(2))?;
        }
        let mut figures = stage.figures(&all, 0);
        figures.budget = AT_REST + 2 * OUTPUT;
        println!("\n{}", table(stops, &cases_tried));
        cases_tried.iter().for_each(|case| judge(case, stops, &mut figures));
        let views = figures.views;
        figures.wants(views == 0, || format!("{views} views"));
        Ok(figures)
    })
}

fn case(stage: &mut Stage<'_>, name: &'static str, asked: SlowRequest, stops: Duration) -> Result<Case, String> {
    let (slow, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let feed = Feed {
        addresses: [address(stage.directory, 0), address(stage.directory, 1)],
        group: GroupName::new(b"feed").map_err(text)?,
        got: Default::default(),
        sent: AtomicU64::new(0),
        missing: AtomicU64::new(0),
        stops: &slow,
        over: &over,
    };
    stage.mark(&[0, 1, 2]);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..5)
            .map(|at| {
                let (feed, asked) = (&feed, (at == 4).then_some(asked));
                scope.spawn(move || feed.read(at, asked))
            })
            .collect();
        let sender = scope.spawn(|| feed.send());
        let rates = measure(stage, &feed, stops);
        over.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| "the sender failed".to_owned())??;
        let told = readers.into_iter().map(|reader| reader.join().map_err(|_| "a receiver failed".to_owned())?);
        let mut told = told.collect::<Result<Vec<_>, String>>()?;
        let farewell = told.pop().flatten();
        let missing = told.iter().flatten().next();
        let counts = (feed.got[4].load(Ordering::Relaxed), feed.sent.load(Ordering::Relaxed));
        if let Some(farewell) = missing {
            return Err(format!("{name}: one that reads was sent away: {farewell}"));
        }
        let [.., memory] = stage.figures(&[0, 1, 2], 0).memory;
        let missing = feed.missing.load(Ordering::Relaxed);
        Ok(Case { name, rates: rates?, memory, told: farewell.map_or(Ok(counts), Err), missing })
    })
}

/// Before, while one does not read, and after.
fn measure(stage: &mut Stage<'_>, feed: &Feed<'_>, stops: Duration) -> Result<[f64; 3], String> {
    stage.pass(Duration::from_secs(1))?;
    let before = feed.rate(stage, BESIDE)?;
    feed.stops.store(true, Ordering::Relaxed);
    let during = feed.rate(stage, stops)?;
    feed.stops.store(false, Ordering::Relaxed);
    stage.pass(Duration::from_secs(1))?;
    Ok([before, during, feed.rate(stage, BESIDE)?])
}

impl Feed<'_> {
    /// How many messages a second the slowest of the four others gets.
    fn rate(&self, stage: &mut Stage<'_>, time: Duration) -> Result<f64, String> {
        let got = || [0, 1, 2, 3].map(|at: usize| self.got[at].load(Ordering::Relaxed));
        let (began, before) = (Instant::now(), got());
        stage.pass(time)?;
        let least = got().iter().zip(before).map(|(now, before)| now - before).min().unwrap_or(0);
        Ok(least as f64 / began.elapsed().as_secs_f64())
    }

    /// Reads until all is over and read; returns why it was sent away, if it was.
    fn read(&self, at: usize, asked: Option<SlowRequest>) -> Result<Option<String>, String> {
        let options = asked.map_or_else(ConnectOptions::default, |asked| ConnectOptions::default().slow(asked));
        let mut client = Client::connect(&self.addresses[0], &options).map_err(text)?;
        client.join(&self.group).and_then(|_| client.flush()).map_err(text)?;
        let (mut quiet, mut gap) = (Instant::now(), false);
        while !self.over.load(Ordering::Relaxed) || quiet.elapsed() < Duration::from_secs(1) {
            if asked.is_some() && self.stops.load(Ordering::Relaxed) {
                std::thread::sleep(TURN);
                continue;
            }
            match client.receive(TURN) {
                Ok(Some(Event::Message(message) | Event::Read(message))) => {
                    self.got_next(at, &message, std::mem::take(&mut gap))?;
                    quiet = Instant::now();
                }
                Ok(Some(Event::Reading(ReadingStatus::Gap { .. }))) => gap = true,
                Ok(_) => {}
                Err(Error::Disconnected { farewell, .. }) => {
                    return Ok(Some(format!("({}): {farewell}", farewell.reason)));
                }
                // A daemon waits for nobody to read its farewell for longer than it must.
                Err(lost @ Error::ConnectionLost { .. }) if asked.is_some() => {
                    return Ok(Some(format!("unread: {lost}")));
                }
                Err(other) => return Err(other.to_string()),
            }
        }
        Ok(None)
    }

    /// A receiver has the next message, or one behind a gap that it was told of.
    fn got_next(&self, at: usize, message: &Message, behind_gap: bool) -> Result<(), String> {
        let number = message.payload().first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        let wanted = self.got[at].swap(number + 1, Ordering::Relaxed);
        match wanted {
            0 => {}
            wanted if wanted == number => {}
            wanted if behind_gap && number > wanted => drop(self.missing.fetch_add(number - wanted, Ordering::Relaxed)),
            wanted => return Err(format!("receiver {at} is told {number} instead of {wanted}")),
        }
        Ok(())
    }

    /// Sends at its rate, or as fast as it may.
    fn send(&self) -> Result<(), String> {
        let mut client = Client::connect(&self.addresses[1], &ConnectOptions::default()).map_err(text)?;
        let (mut payload, began, mut due) = (vec![7; LEN], Instant::now(), Duration::ZERO);
        while !self.over.load(Ordering::Relaxed) {
            let number = self.sent.load(Ordering::Relaxed);
            payload[..8].copy_from_slice(&number.to_be_bytes());
            match client.multicast_within(Service::Agreed, std::slice::from_ref(&self.group), &payload, TURN) {
                Ok(_) => self.sent.store(number + 1, Ordering::Relaxed),
                Err(Error::TimedOut { .. }) => continue,
                Err(other) => return Err(other.to_string()),
            }
            client.flush().map_err(text)?;
            // What could not be sent in time is not made up for.
            due = (due + Duration::from_secs(1) / RATE).max(began.elapsed().saturating_sub(TURN));
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        client.wait_ordered(Duration::from_secs(30)).map_err(text)
    }
}

/// What each policy promises.
fn judge(case: &Case, stops: Duration, figures: &mut Figures) {
    let [before, during, after] = case.rates;
    let name = case.name;
    figures
        .wants(after > before * 0.8, || format!("{name}: {after:.0} messages a second afterwards, {before:.0} before"));
    let (memory, budget) = (case.memory, figures.budget);
    figures.wants(memory < budget, || format!("{name}: {} MiB", mib(memory)));
    let told = || match &case.told {
        Ok((got, of)) => format!("{name}: it has {got} of {of}"),
        Err(farewell) => format!("{name}: it was told {farewell}"),
    };
    let has_all = matches!(case.told, Ok((got, of)) if got == of);
    match name {
        "disconnect" | "spool" | "demote" => {
            figures
                .wants(during > before * 0.9, || format!("{name}: {during:.0} messages a second, {before:.0} before"));
            figures.wants(if name == "disconnect" { case.told.is_err() || stops < BLOCK_FOR } else { has_all }, told);
        }
        "block, patient" => {
            figures.wants(during < before / 2.0, || format!("{name}: {during:.0} messages a second went on"));
            figures.wants(has_all, told);
        }
        _ => figures.wants(case.told.is_err() == (stops > BLOCK_FOR) || stops == BLOCK_FOR, told),
    }
}

fn table(stops: Duration, cases: &[Case]) -> String {
    let head = format!(
        "One of five receivers reads nothing for {} s; {} messages of {} KiB are sent a second.\n\
         {:<16} {:>8} {:>8} {:>8} {:>8}  the slow one",
        stops.as_secs(),
        RATE,
        LEN >> 10,
        "policy",
        "before/s",
        "during/s",
        "after/s",
        "MiB most"
    );
    cases.iter().fold(head, |all, case| {
        let [before, during, after] = case.rates;
        let told = match &case.told {
            Ok((_, of)) if case.missing > 0 => {
                format!("left, reads on, was told that {} of {of} are gone", case.missing)
            }
            Ok((got, of)) => format!("has {got} of {of}"),
            Err(farewell) => format!("was sent away {farewell}"),
        };
        let (name, memory) = (case.name, mib(case.memory));
        format!("{all}\n{name:<16} {before:>8.0} {during:>8.0} {after:>8.0} {memory:>8}  {told}")
    })
}
