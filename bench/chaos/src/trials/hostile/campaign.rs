//! All attacks that are planned, one after the other, beside the good clients.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Address, GroupName};
use consort_types::Rng;

use super::ATTACKED;
use super::attacks::{CROWD, Door, existing};
use super::connections::Raid;
use super::crowd::{gather, read_until};
use super::good::Good;
use super::plan::Plan;
use super::store::{Caller, Server};
use super::times::p99;
use super::verdict::{Attempt, CALM, Row};
use crate::chaos::fleet::{address, spread_socket};
use crate::trials::stage::{Stage, text};

/// How long good clients take to join.
const JOIN: Duration = Duration::from_secs(1);
/// The good clients are measured for a moment behind an attack, because the daemon removes then what it left.
const TAIL: Duration = Duration::from_millis(200);

/// Who is beside the hostile client.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    pub good: &'a Good<'a>,
    pub server: &'a Server,
    pub caller: &'a Caller,
}

/// What is asked of each attempt.
struct Terms {
    span: Duration,
    /// The groups that there were before.
    groups: u64,
    /// All is calm again once a message of the good clients takes no longer.
    quick: Duration,
}

/// Makes all attempts in turn. Returns how long the messages of good clients took without any, and the results.
///
/// # Errors
/// What kept it from going on.
pub fn run(stage: &mut Stage<'_>, beside: &Beside<'_>, plan: &Plan) -> Result<(Duration, Vec<Row>), String> {
    stage.pass(JOIN)?;
    let begun = Instant::now();
    stage.pass(plan.scale.quiet)?;
    let took = beside.good.took.between(begun, Instant::now());
    if took.is_empty() {
        return Err("no message of the good clients came before the attacks".into());
    }
    let names = existing(plan.scale.groups)?;
    let mut crowd = gather(stage, &names, plan.scale.members)?;
    let over = AtomicBool::new(false);
    let rows = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&mut crowd, &over));
        let rows = attack_all(stage, beside, plan, &names, &|| reading.is_finished());
        over.store(true, Ordering::Relaxed);
        let ended = reading.join().map_err(|_| "the thread of the crowd has panicked".to_owned())?.err();
        ended.into_iter().for_each(|ended| eprintln!("trials: {ended}"));
        rows
    })?;
    Ok((p99(&took), rows))
}

fn attack_all(
    stage: &mut Stage<'_>,
    beside: &Beside<'_>,
    plan: &Plan,
    names: &[GroupName],
    crowd_ended: &dyn Fn() -> bool,
) -> Result<Vec<Row>, String> {
    let groups = stage.counter(ATTACKED, "groups");
    if groups < names.len() as u64 {
        return Err(format!("daemon {} says that there are {groups} groups, not {}", ATTACKED + 1, names.len()));
    }
    let terms = Terms { span: plan.span, groups, quick: plan.scale.floor };
    let (begun, mut rng, mut rows) = (Instant::now(), Rng::new(plan.seed), Vec::new());
    for turn in plan.turns.iter().take_while(|_| begun.elapsed() < plan.within) {
        let (attack, at) = (turn.attack, door(stage, beside, turn.attack.door)?);
        let mut row = Row { attack, attempts: Vec::new() };
        for connections in turn.connections.iter().copied() {
            let raid = Raid { at: &at, attack, connections, names };
            let ended_before = crowd_ended();
            let mut attempt = attempt(stage, beside, &raid, rng.fork(connections as u64), &terms)?;
            if crowd_ended() && !ended_before {
                attempt.problem = Some(format!("the members of the group `{CROWD}` were sent away"));
            }
            let (shown, problem) = (attempt.shown(attack.door), attempt.problem.as_deref().unwrap_or("none"));
            eprintln!("trials: {}: p99 {shown}, calm: {}, problem: {problem}", attack.name, attempt.is_calm);
            row.attempts.push(attempt);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn door(stage: &Stage<'_>, beside: &Beside<'_>, door: Door) -> Result<Address, String> {
    match door {
        Door::Session => Ok(address(stage.directory, ATTACKED)),
        Door::Spread => Ok(Address::Unix(spread_socket(stage.directory, ATTACKED))),
        Door::Store => beside.server.address.parse().map_err(text),
    }
}

/// One attack, until nothing is left of it: no more groups than there were before.
fn attempt(
    stage: &mut Stage<'_>,
    beside: &Beside<'_>,
    raid: &Raid<'_>,
    rng: Rng,
    terms: &Terms,
) -> Result<Attempt, String> {
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    let answers = std::thread::scope(|scope| {
        let running = scope.spawn(|| raid.run(rng, &over));
        let passed = stage.pass(terms.span);
        over.store(true, Ordering::Relaxed);
        let answers = running.join().map_err(|_| "the hostile client has panicked".to_owned())?;
        passed.and(answers)
    })?;
    let problem = beside.good.send_in_new_session(ATTACKED).err();
    stage.pass(TAIL)?;
    let ended = Instant::now();
    let is_calm = calms_down(stage, beside, raid.attack.door, terms)?;
    let took = beside.good.took.between(begun, ended);
    if took.is_empty() {
        return Err(format!("{}: no message of the good clients came", raid.attack.name));
    }
    // An answer may be long behind the end of the attack.
    let called = beside.caller.took.between(begun, Instant::now());
    Ok(Attempt {
        connections: raid.connections,
        count: took.len(),
        p99: p99(&took),
        calls: called.len(),
        call_p99: p99(&called),
        answers,
        is_calm,
        problem,
    })
}

/// Waits until messages of good clients are quick and only the groups from before exist. False if that takes too long. Waits
/// also until the store serves its good client again, so that the next attempt begins at rest.
fn calms_down(stage: &mut Stage<'_>, beside: &Beside<'_>, door: Door, terms: &Terms) -> Result<bool, String> {
    let (deadline, mut is_calm) = (Instant::now() + CALM, false);
    while Instant::now() < deadline {
        let begun = Instant::now();
        stage.pass(TAIL)?;
        let is_quick = beside.good.took.between(begun, Instant::now()).last().is_some_and(|took| *took <= terms.quick);
        // A daemon that does not answer has 0.
        is_calm = is_quick && (1..=terms.groups).contains(&stage.counter(ATTACKED, "groups"));
        let serves = || !beside.caller.took.between(begun, Instant::now()).is_empty();
        if is_calm && (door != Door::Store || beside.caller.has_ended() || serves()) {
            break;
        }
    }
    Ok(is_calm)
}
