//! Two rings that two nodes join: the one that carries is killed under load, and the other takes its part.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, Event, GroupName, Service};
use consort_sim::fault::Disk;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Stage, text, with_rings};
use super::watch::Beat;
use crate::chaos::fleet::address;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(10), service: Service::Agreed };
/// Who stands in which ring; nodes 3 and 4 in both.
const RINGS: [&[usize]; 2] = [&[0, 1, 2, 3], &[2, 3, 4, 5]];
const GATEWAYS: [usize; 2] = [2, 3];
/// Whose clients send, and at which all that came is compared: on both sides.
const SENDERS: [usize; 4] = [0, 1, 4, 5];
/// How often each of them sends.
const EVERY: Duration = Duration::from_millis(2);
/// How far apart kills and starts are.
const APART: Duration = Duration::from_secs(2);
/// How long the others may have nothing to hear.
const GOAL: Duration = Duration::from_secs(1);
/// A ring that loses a node and the other that does so may each end a view; when it comes back, too.
const VIEWS: usize = 4;
/// How long to wait for what is under way at the end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client waits before it looks up.
const TURN: Duration = Duration::from_millis(10);

/// What one client was given, in its order.
type Heard = Vec<Vec<u8>>;

/// Gateways are killed in turn while clients on both sides send.
pub fn killed(site: &Site<'_>) -> Result<Figures, String> {
    with_rings(site, &RINGS, BEAT, |stage| {
        let (stop, directory, crashes) = (AtomicBool::new(false), stage.directory, site.lengths.crashes as usize);
        let (figures, heard) = std::thread::scope(|scope| {
            let clients = SENDERS.map(|node| {
                scope.spawn({
                    let stop = &stop;
                    move || speak(directory, node, stop)
                })
            });
            let figures = kills(stage, crashes);
            stop.store(true, Ordering::Relaxed);
            let heard = clients.map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
            (figures, heard)
        });
        let heard = heard.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut figures = figures?;
        figures.notes.push(format!("{} messages at each of {} clients", heard[0].len(), heard.len()));
        figures.wants(heard.iter().all(|other| *other == heard[0]), || "clients were given different sequences".into());
        if let Some(lacking) = lacking(&heard[0]) {
            figures.missed.push(lacking);
        }
        Ok(figures)
    })
}

fn kills(stage: &mut Stage<'_>, crashes: usize) -> Result<Figures, String> {
    let all: Vec<usize> = (0..6).collect();
    stage.pass(APART)?;
    stage.mark(&all);
    for number in 0..crashes {
        let victim = GATEWAYS[number % 2];
        stage.fleet.kill(victim, Disk::Kept).map_err(text)?;
        let others: Vec<_> = all.iter().copied().filter(|node| *node != victim).collect();
        stage.together(&others)?;
        stage.pass(APART)?;
        stage.fleet.start(victim).map_err(text)?;
        stage.together(&all)?;
        stage.pass(APART)?;
    }
    let mut figures = stage.figures(&SENDERS, VIEWS * crashes);
    let pause = figures.pause;
    figures.wants(pause <= GOAL, || format!("a pause of {} ms", pause.as_millis()));
    Ok(figures)
}

/// Sends numbered messages until it is to stop, then waits until all clients have said their last; what it was given.
fn speak(directory: &Path, node: usize, stop: &AtomicBool) -> Result<Heard, String> {
    let group = GroupName::new(b"load").map_err(text)?;
    let mut client = Client::connect(&address(directory, node), &ConnectOptions::default()).map_err(text)?;
    client.join(&group).map_err(text)?;
    // Each must hear all others from their first message on.
    let (mut heard, mut number, mut next) = (Heard::new(), 0_u64, Instant::now() + APART / 2);
    let mut ended: Option<Instant> = None;
    let mut last = BTreeMap::new();
    while last.len() < SENDERS.len() {
        if ended.is_some_and(|at| at.elapsed() > PATIENCE) {
            return Err(format!("the client at n{} waited for the last words of others in vain", node + 1));
        }
        if ended.is_none() && Instant::now() >= next {
            let ends = stop.load(Ordering::Relaxed);
            number += 1;
            let word = format!("{node} {number}{}", if ends { " end" } else { "" });
            let service = if number.is_multiple_of(4) { Service::Safe } else { Service::Agreed };
            client.multicast_within(service, std::slice::from_ref(&group), word.as_bytes(), PATIENCE).map_err(text)?;
            ended = ends.then(Instant::now);
            next += EVERY;
        }
        let wait = next.saturating_duration_since(Instant::now()).min(TURN);
        if let Some(Event::Message(message)) = client.receive(wait).map_err(text)? {
            let word = message.payload().to_vec();
            if word.ends_with(b" end") {
                last.insert(word.clone(), ());
            }
            heard.push(word);
        }
    }
    Ok(heard)
}

/// What is lacking or doubled of what each client sent.
fn lacking(heard: &Heard) -> Option<String> {
    let mut next = BTreeMap::<&str, u64>::new();
    for word in heard {
        let mut parts = std::str::from_utf8(word).unwrap_or_default().split(' ');
        let (Some(who), Some(number)) = (parts.next(), parts.next().and_then(|number| number.parse::<u64>().ok()))
        else {
            return Some("a message that nobody sent".into());
        };
        let due = next.entry(who).or_default();
        *due += 1;
        if number != *due {
            return Some(format!("after {} of node {who} came {number}", *due - 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_or_doubled_is_told() {
        let heard = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Heard>();
        assert_eq!(lacking(&heard(&["0 1", "4 1", "0 2", "4 2 end"])), None);
        assert_eq!(lacking(&heard(&["0 1", "0 3"])).unwrap(), "after 1 of node 0 came 3");
        assert_eq!(lacking(&heard(&["0 1", "0 1"])).unwrap(), "after 1 of node 0 came 1");
        assert_eq!(lacking(&heard(&["x"])).unwrap(), "a message that nobody sent");
    }
}
