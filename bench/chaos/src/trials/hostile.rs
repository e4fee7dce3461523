//! A hostile client sends every request of the session protocol at full speed, with the arguments that cost a daemon most, from
//! 1 and from 100 connections. Clients of another identity must notice little of it.
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, GroupName, Service};
use consort_testbed::network::directory;
use consort_types::Rng;

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;
use attacks::{ATTACKS, Attack, CROWD, Kind, existing};
use connections::{Answers, Raid};
use good::Good;

mod attacks;
mod connections;
mod good;

const BEAT: Beat = Beat { node: 1, every: Duration::from_millis(20), service: Service::Agreed };
const ALL: [usize; 3] = [0, 1, 2];
/// The daemon that the hostile client attacks.
const ATTACKED: usize = 0;
/// The daemons of the good clients.
const USERS: [usize; 2] = [0, 1];
/// How many connections each attack has.
const CONNECTIONS: [usize; 2] = [1, 100];
/// The order of attacks and all that they draw follow from it.
const SEED: u64 = 45;
/// How long good clients take to join, and how long they are measured without an attack.
const JOIN: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(4);
/// The groups that exist before the attacks begin, and the connections that are members of one group.
const GROUPS: usize = 20_000;
const MEMBERS: usize = 128;
/// How long these may take to join, and how often they read.
const GATHER: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_millis(20);
/// An attack lasts this time at least, and is measured for a moment behind its end, because the daemon removes what it left.
const SPAN: Duration = Duration::from_secs(1);
const TAIL: Duration = Duration::from_millis(200);
/// How long it may take until nothing is left of an attack.
const CALM: Duration = Duration::from_secs(30);
/// How many times as long as without an attack the messages of good clients may take, and what they may take in any case.
const TIMES: u32 = 3;
const FLOOR: Duration = Duration::from_millis(20);
/// How many messages of good clients must come beside an attack, so that their times say something.
const LEAST: usize = 100;
/// The memory that the groups of all clients may have at a daemon.
const GROUP_MEMORY: u64 = 256 << 20;

/// The result of one attack with one number of connections.
#[derive(Clone, Debug, Default)]
struct Attempt {
    /// How many messages of good clients came, and how long they took.
    count: usize,
    p99: Duration,
    answers: Answers,
    /// Nothing was left of the attack in time.
    is_calm: bool,
    /// The reason why no new session of the good identity could send.
    problem: Option<String>,
}

/// The results of one attack, one for each number of connections.
#[derive(Debug)]
struct Row {
    attack: &'static Attack,
    attempts: Vec<Attempt>,
}

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    let folder = directory("consort-trials-key-").map_err(|error| format!("cannot make a directory: {error}"))?;
    let tokens = folder.path().join("tokens");
    let token = make_token(site.file, &tokens)?;
    let settings = format!("{}[security]\ntokens = {:?}\n", site.settings, tokens.display().to_string());
    let setup = Setup { hosts: Hosts::Together, nodes: ALL.len(), first: &ALL, beat: BEAT, protocol: "ring" };
    with(&Site { settings: &settings, ..*site }, &setup, |stage| {
        let good = Good::new(stage.directory, &token)?;
        let (quiet, rows) = std::thread::scope(|scope| {
            let running = USERS.map(|node| {
                let good = &good;
                scope.spawn(move || good.run(node))
            });
            let tried = all(stage, &good, site.lengths.network);
            good.over.store(true, Ordering::Relaxed);
            // If a client has ended, its reason explains why no message came.
            for client in running {
                client.join().map_err(|_| "a good client has panicked".to_owned())??;
            }
            tried
        })?;
        let mut figures = stage.figures(&ALL, 0);
        let settings = stage.settings()?;
        let most = settings.limits.frames_max + settings.limits.output_max + settings.shared_memory;
        figures.budget = AT_REST + most as u64 + GROUP_MEMORY;
        judge(&mut figures, quiet, &rows);
        let losses = figures.losses;
        figures.wants(losses == 0, || format!("{losses} lost tokens"));
        for node in ALL {
            figures.wants(!stage.fleet.has_said(node, "panicked at"), || format!("daemon {} panicked", node + 1));
        }
        Ok(figures)
    })
}

/// Makes a token, with its file, by which the good clients are another identity than the hostile one.
fn make_token(program: &Path, file: &Path) -> Result<String, String> {
    let made = Command::new(program).arg("token").arg(file).arg("good").output();
    let made = made.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(format!("`consort token` ended with {}: {}", made.status, said.trim()));
    }
    let token = String::from_utf8(made.stdout).map_err(|error| format!("`consort token`: {error}"))?;
    Ok(token.trim().to_owned())
}

/// All attacks in turn. Returns how long the messages of good clients took without any, and the result of each.
fn all(stage: &mut Stage<'_>, good: &Good<'_>, time: Duration) -> Result<(Duration, Vec<Row>), String> {
    stage.pass(JOIN)?;
    let begun = Instant::now();
    stage.pass(QUIET)?;
    let took = good.between(begun, Instant::now());
    if took.is_empty() {
        return Err("no message of the good clients came before the attacks".into());
    }
    let names = existing(GROUPS)?;
    let mut crowd = gather(stage, &names)?;
    let over = AtomicBool::new(false);
    let rows = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&mut crowd, &over));
        let rows = attack_all(stage, good, &names, time, &|| reading.is_finished());
        over.store(true, Ordering::Relaxed);
        let ended = reading.join().map_err(|_| "the thread of the crowd has panicked".to_owned())?.err();
        ended.into_iter().for_each(|ended| eprintln!("trials: {ended}"));
        rows
    })?;
    Ok((p99(&took), rows))
}

/// Connects members of one group, of which the first one joins all these groups, too.
fn gather(stage: &mut Stage<'_>, names: &[GroupName]) -> Result<Vec<Client>, String> {
    let options = ConnectOptions::default().without_shared_memory().daemon_timeout(None).send_within(GATHER);
    let at = address(stage.directory, ATTACKED);
    let (large, mut crowd) = (GroupName::new(CROWD).map_err(text)?, Vec::new());
    for _ in 0..MEMBERS {
        let mut client = Client::connect(&at, &options).map_err(text)?;
        client.join(&large).and_then(|_| client.flush()).map_err(text)?;
        crowd.push(client);
        drain(&mut crowd)?;
    }
    let deadline = Instant::now() + GATHER;
    for some in names.chunks(64) {
        some.iter().try_for_each(|name| crowd[0].join(name).map(drop)).map_err(text)?;
        drain(&mut crowd)?;
    }
    while crowd[0].progress().ordered < crowd[0].sent() {
        if Instant::now() > deadline {
            return Err(format!("{} joins are not ordered within {GATHER:?}", names.len()));
        }
        drain(&mut crowd)?;
        stage.pass(TURN)?;
    }
    Ok(crowd)
}

/// Receives all that has come to these clients.
fn drain(clients: &mut [Client]) -> Result<(), String> {
    for client in clients {
        while client.receive(Duration::ZERO).map_err(text)?.is_some() {}
    }
    Ok(())
}

/// The members of the large group read, because clients that do not read are another trial.
fn read_until(crowd: &mut [Client], over: &AtomicBool) -> Result<(), String> {
    while !over.load(Ordering::Relaxed) {
        drain(crowd).map_err(|problem| format!("the members of the group `{CROWD}`: {problem}"))?;
        std::thread::sleep(TURN);
    }
    Ok(())
}

fn attack_all(
    stage: &mut Stage<'_>,
    good: &Good<'_>,
    names: &[GroupName],
    time: Duration,
    crowd_ended: &dyn Fn() -> bool,
) -> Result<Vec<Row>, String> {
    let at = address(stage.directory, ATTACKED);
    let (groups, mut rng) = (stage.counter(ATTACKED, "groups"), Rng::new(SEED));
    if groups < names.len() as u64 {
        return Err(format!("daemon {} says that there are {groups} groups, not {}", ATTACKED + 1, names.len()));
    }
    let span = (time / (CONNECTIONS.len() * ATTACKS.len()) as u32).max(SPAN);
    let mut rows = Vec::new();
    for attack in in_any_order(&mut rng) {
        let mut row = Row { attack, attempts: Vec::new() };
        for connections in CONNECTIONS {
            let raid = Raid { at: &at, attack, connections, names };
            let ended_before = crowd_ended();
            let mut attempt = attempt(stage, good, &raid, rng.fork(connections as u64), (span, groups))?;
            if crowd_ended() && !ended_before {
                attempt.problem = Some(format!("the members of the group `{CROWD}` were sent away"));
            }
            let problem = attempt.problem.as_deref().unwrap_or("none");
            eprintln!(
                "trials: {}, {connections} connections: p99 {} ms, {}, calm: {}, problem: {problem}",
                attack.name,
                ms(attempt.p99),
                attempt.answers,
                attempt.is_calm
            );
            row.attempts.push(attempt);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn in_any_order(rng: &mut Rng) -> Vec<&'static Attack> {
    let mut all: Vec<_> = ATTACKS.iter().collect();
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at as u64 + 1) as usize);
    }
    all
}

/// One attack, until nothing is left of it: no more groups than there were before.
fn attempt(
    stage: &mut Stage<'_>,
    good: &Good<'_>,
    raid: &Raid<'_>,
    rng: Rng,
    (span, groups): (Duration, u64),
) -> Result<Attempt, String> {
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    let answers = std::thread::scope(|scope| {
        let running = scope.spawn(|| raid.run(rng, &over));
        let passed = stage.pass(span);
        over.store(true, Ordering::Relaxed);
        let answers = running.join().map_err(|_| "the hostile client has panicked".to_owned())?;
        passed.and(answers)
    })?;
    let problem = good.send_in_new_session(ATTACKED).err();
    stage.pass(TAIL)?;
    let ended = Instant::now();
    let is_calm = calms_down(stage, good, groups)?;
    let took = good.between(begun, ended);
    if took.is_empty() {
        return Err(format!("{}: no message of the good clients came", raid.attack.name));
    }
    Ok(Attempt { count: took.len(), p99: p99(&took), answers, is_calm, problem })
}

/// Waits until messages of good clients are quick and only the groups from before exist. False if that takes too long.
fn calms_down(stage: &mut Stage<'_>, good: &Good<'_>, groups: u64) -> Result<bool, String> {
    let deadline = Instant::now() + CALM;
    while Instant::now() < deadline {
        let begun = Instant::now();
        stage.pass(TAIL)?;
        let is_quick = good.between(begun, Instant::now()).last().is_some_and(|slowest| *slowest <= FLOOR);
        // A daemon that does not answer has 0.
        if is_quick && (1..=groups).contains(&stage.counter(ATTACKED, "groups")) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Row {
    fn shown(&self, quiet: Duration) -> String {
        let with = |(connections, attempt): (&usize, &Attempt)| {
            format!("{} ms with {connections} ({})", ms(attempt.p99), attempt.answers)
        };
        let all: Vec<_> = CONNECTIONS.iter().zip(&self.attempts).map(with).collect();
        format!("{}: p99 {} ms alone, {}", self.attack.name, ms(quiet), all.join(", "))
    }
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

fn judge(figures: &mut Figures, quiet: Duration, rows: &[Row]) {
    let most = (quiet * TIMES).max(FLOOR);
    for row in rows {
        figures.notes.push(row.shown(quiet));
        for (connections, attempt) in CONNECTIONS.iter().zip(&row.attempts) {
            let what = || format!("{}, {connections} connections", row.attack.name);
            let Attempt { count, p99, answers, is_calm, problem } = attempt;
            figures.wants(*p99 <= most, || format!("{}: p99 {} ms, above {} ms", what(), ms(*p99), ms(most)));
            figures.wants(*count >= LEAST, || format!("{}: {count} messages of good clients came", what()));
            figures.wants(*is_calm, || format!("{}: not over {CALM:?} later", what()));
            let is_answered = answers.frames > 0 || row.attack.kind == Kind::Silent;
            figures.wants(is_answered && answers.opened > 0, || format!("{}: it did not reach the daemon", what()));
            let session = || format!("{}: a new session: {}", what(), problem.clone().unwrap_or_default());
            figures.wants(problem.is_none(), session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(p99: u64) -> Attempt {
        let answers = Answers { opened: 1, frames: 1, ..Answers::default() };
        Attempt { count: LEAST, p99: Duration::from_millis(p99), answers, is_calm: true, problem: None }
    }

    fn judged(quiet: u64, attempts: Vec<Attempt>) -> Vec<String> {
        let mut figures = Figures::default();
        judge(&mut figures, Duration::from_millis(quiet), &[Row { attack: &ATTACKS[0], attempts }]);
        assert_eq!(figures.notes.len(), 1, "a row for each attack");
        figures.missed
    }

    #[test]
    fn three_times_as_long_is_green_and_so_is_what_a_busy_host_costs() {
        assert_eq!(judged(1, vec![attempt(2), attempt(20)]), [""; 0]);
        assert_eq!(judged(1, vec![attempt(2), attempt(21)]), ["status, 100 connections: p99 21.0 ms, above 20.0 ms"]);
        assert_eq!(judged(10, vec![attempt(30), attempt(31)]), ["status, 100 connections: p99 31.0 ms, above 30.0 ms"]);
    }

    #[test]
    fn what_else_an_attack_must_not_cost_is_red() {
        let few = Attempt { count: LEAST - 1, ..attempt(1) };
        let later = Attempt { is_calm: false, problem: Some("denied".into()), ..attempt(1) };
        let missed = judged(1, vec![few, later]);
        let wanted = [
            "status, 1 connections: 99 messages of good clients came",
            "status, 100 connections: not over 30s later",
            "status, 100 connections: a new session: denied",
        ];
        assert_eq!(missed, wanted);
        let unanswered = Attempt { answers: Answers::default(), ..attempt(1) };
        assert_eq!(judged(1, vec![unanswered]), ["status, 1 connections: it did not reach the daemon"]);
    }

    #[test]
    fn each_attack_has_its_turn_once() {
        let mut names: Vec<_> = in_any_order(&mut Rng::new(SEED)).iter().map(|attack| attack.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTACKS.len());
        let took: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((p99(&took), p99(&[])), (Duration::from_millis(199), Duration::ZERO));
    }
}
