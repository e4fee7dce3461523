//! Three rings of which one loses its majority for a minute: what the two others carry, how fast, and who leads there.
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, GroupName, Service};
use consort_sim::fault::Disk;

use super::leadership::{self, Judgement};
use super::outcome::{AT_REST, Figures};
use super::regions::{self, BEFORE, Heard, joined, p50};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::candidate::{Candidate, Look};
use crate::chaos::fleet::address;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };
const ALL: [usize; 5] = [0, 1, 2, 3, 4];
/// The daemons whose clients use the two rings.
const USERS: [usize; 2] = [0, 1];
/// The daemon that reads the third ring.
const READER: usize = 2;
/// Those that vote in the third ring alone, and are killed.
const KILLED: [usize; 2] = [3, 4];
/// Ring 1 is global and has what is not named, ring 2 is that of `eu`.
const RINGS: [(&str, &str); 2] = [("ring 1", "all"), ("ring 2", "eu")];
const SETTINGS: &str = "[sessions]\nretain = 0\n[paxos]\nreads = \"groups\"\n\
     [[ring]]\nid = 1\nglobal = true\nacceptors = [1, 2, 3]\n\
     [[ring]]\nid = 2\ngroups = [\"eu.*\"]\nacceptors = [1, 2, 3]\n\
     [[ring]]\nid = 3\ngroups = [\"us.*\"]\nacceptors = [3, 4, 5]\n";
/// How often each client sends a message, and how long is measured at a time.
const EVERY: Duration = Duration::from_millis(2);
const SPAN: Duration = Duration::from_secs(20);
/// How long it may take until those that do not read the dead ring go on.
const GOES_ON: Duration = Duration::from_secs(5);
/// How long until the daemon that was started again is with the other one.
const TOGETHER: Duration = Duration::from_secs(20);
/// How much less than before the rings may carry, and how much longer messages may take, in hundredths.
const LESS: u64 = 10;
/// What acceptors keep in memory of what was decided: `retain`.
const LOGS: u64 = 256 << 20;
/// How long there may be no leader.
const GAP: Duration = Duration::from_secs(2);

/// What came in a ring in a while.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    messages: usize,
    p50: Duration,
}

pub fn dead(site: &Site<'_>) -> Result<Figures, String> {
    let settings = site.settings.to_owned() + SETTINGS;
    let site = Site { settings: &settings, ..*site };
    let setup = Setup {
        hosts: Hosts::Apart { empty: 0 },
        nodes: ALL.len(),
        first: &ALL,
        beat: BEAT,
        protocol: "multiring-paxos",
    };
    with(&site, &setup, |stage| {
        let candidates = candidates(stage)?;
        // So its daemon waits for the ring, and the others must leave it out.
        let _reader = reader(stage)?;
        let mut looks = Vec::new();
        let before = measure(stage)?;
        KILLED.iter().try_for_each(|node| stage.fleet.kill(*node, Disk::Kept)).map_err(text)?;
        let died = Instant::now();
        stage.pass(GOES_ON)?;
        let dead = measure(stage)?;
        let meanwhile = somebody_leads(stage, &candidates, &mut looks)?;
        restart(stage, USERS[1])?;
        let restarted = measure(stage)?;
        let behind = somebody_leads(stage, &candidates, &mut looks)?;
        let lasted = died.elapsed();
        KILLED.iter().try_for_each(|node| stage.fleet.start(*node)).map_err(text)?;
        stage.together(&ALL)?;
        stage.pass(GAP)?;
        let again = somebody_leads(stage, &candidates, &mut looks)?;
        looks.sort_unstable();
        // What went wrong on purpose accounts for all views.
        let mut figures = stage.figures(&[USERS[0]], usize::MAX);
        figures.budget = AT_REST + LOGS;
        figures.notes.push(format!("ring 3 was dead for {} s", lasted.as_secs()));
        judge(&mut figures, before, [("ring 3 dead", dead), ("a daemon restarted", restarted)]);
        led(&mut figures, &leadership::judge(&looks));
        for (leads, when) in
            [(meanwhile, "while ring 3 is dead"), (behind, "behind the restart"), (again, "in the end")]
        {
            figures.wants(leads, || format!("no leader {when}"));
        }
        Ok(figures)
    })
}

fn candidates(stage: &Stage<'_>) -> Result<Vec<Candidate>, String> {
    let addresses = USERS.map(|node| address(stage.directory, node).to_string());
    let start = |first: usize| {
        let mut addresses = addresses.clone();
        addresses.rotate_left(first);
        Candidate::start(&addresses, first as u64).map_err(text)
    };
    (0..USERS.len()).map(start).collect()
}

/// Whether a leader looks at its lease from now on: where none leads any more, no look shows for how long.
fn somebody_leads(stage: &mut Stage<'_>, candidates: &[Candidate], looks: &mut Vec<Look>) -> Result<bool, String> {
    let all = || candidates.iter().flat_map(Candidate::looks);
    looks.extend(all());
    let before = looks.len();
    stage.pass(GAP)?;
    looks.extend(all());
    Ok(looks.len() > before)
}

fn reader(stage: &Stage<'_>) -> Result<Client, String> {
    let mut client = Client::connect(&address(stage.directory, READER), &ConnectOptions::default()).map_err(text)?;
    client.join(&GroupName::new("us.orders").map_err(text)?).map_err(text)?;
    match client.receive(TOGETHER).map_err(text)? {
        Some(_) => Ok(client),
        None => Err("a client could not join a group of ring 3".into()),
    }
}

fn restart(stage: &mut Stage<'_>, node: usize) -> Result<(), String> {
    stage.fleet.kill(node, Disk::Kept).map_err(text)?;
    stage.fleet.start(node).map_err(text)?;
    let are_together = stage.until(TOGETHER, |watch| watch.is_one_view(&USERS))?;
    if are_together { Ok(()) } else { Err(format!("the users are not in one view within {TOGETHER:?}")) }
}

/// A client of each ring at each of its daemons sends; what came from the other one counts.
fn measure(stage: &mut Stage<'_>) -> Result<[Carried; 2], String> {
    let (directory, epoch) = (stage.directory, Instant::now());
    std::thread::scope(|scope| {
        let client = |node, group| scope.spawn(move || regions::run(directory, node, group, (epoch, SPAN, EVERY)));
        let running = RINGS.map(|(_, group)| USERS.map(|node| client(node, group)));
        stage.pass(BEFORE + SPAN)?;
        let mut carried = [Carried::default(); 2];
        for (carried, clients) in carried.iter_mut().zip(running) {
            let heard = clients.into_iter().map(joined).collect::<Result<Vec<Heard>, _>>()?;
            let mut took: Vec<_> = heard.into_iter().flat_map(|heard| heard.took).collect();
            took.sort_unstable();
            *carried = Carried { messages: took.len(), p50: p50(&took) };
        }
        Ok(carried)
    })
}

fn judge(figures: &mut Figures, before: [Carried; 2], later: [(&str, [Carried; 2]); 2]) {
    let shown = |Carried { messages, p50 }: Carried| {
        format!("{} a second, p50 {} us", messages as u64 / SPAN.as_secs(), p50.as_micros())
    };
    for (at, (ring, _)) in RINGS.into_iter().enumerate() {
        let was = before[at];
        figures.notes.push(format!("{ring}: {}", shown(was)));
        for (when, carried) in later {
            let is = carried[at];
            figures.notes.push(format!("{when}: {}", shown(is)));
            let least = was.messages as u64 * (100 - LESS) / 100;
            figures.wants(is.messages as u64 >= least, || format!("{ring}, {when}: {}", shown(is)));
            let most = was.p50 * (100 + LESS as u32) / 100;
            figures.wants(is.p50 <= most, || format!("{ring}, {when}: {}", shown(is)));
        }
    }
}

fn led(figures: &mut Figures, Judgement { changes, wrong, gap }: &Judgement) {
    let gap = Duration::from_nanos(*gap);
    figures.notes.push(format!("{changes} leaders behind the first, {} ms without one at most", gap.as_millis()));
    figures.wants(wrong.is_empty(), || format!("{} times two led or a fence fell", wrong.len()));
    figures.wants(gap <= GAP, || format!("no leader for {} ms", gap.as_millis()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_by_a_tenth_is_borne_and_more_is_not() {
        let ms = Duration::from_millis;
        let carried = |messages, took| [Carried { messages, p50: ms(took) }; 2];
        let judged = |messages, took| {
            let mut figures = Figures::default();
            let later = [("dead", carried(1_000, 100)), ("restarted", carried(messages, took))];
            judge(&mut figures, carried(1_000, 100), later);
            figures.missed.len()
        };
        assert_eq!([judged(1_000, 100), judged(900, 110), judged(899, 100), judged(1_000, 112)], [0, 0, 2, 2]);
        let led = |gap: Duration| {
            let mut figures = Figures::default();
            led(&mut figures, &Judgement { changes: 1, wrong: Vec::new(), gap: gap.as_nanos() as u64 });
            figures.missed
        };
        assert!(led(GAP).is_empty());
        assert_eq!(led(ms(2_500)), ["no leader for 2500 ms"]);
    }
}
