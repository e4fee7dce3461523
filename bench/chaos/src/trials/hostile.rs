//! A hostile client sends all that there is to send, at full speed and with the arguments that cost most, from 1 and from 100
//! connections: by the session protocol and by that of Spread to one daemon, and to a server of a store that joins at this
//! daemon. Clients of another identity must notice little of it.
//!
//! ```text
//! plan      which attacks are tried, and beside how much      attacks      what each sends, at each door
//! campaign  all attempts, one after the other                 connections  who sends it                   answers
//! good      the clients that are measured      times          crowd        what there is before
//! store     the server of the store, and its good client      rules        a file of many rules
//! verdict   what came of each attempt, judged
//! ```
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use consort::Service;
use consort_testbed::Stalls;
use consort_testbed::network::directory;
use consort_testbed::network::memory::mib;

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::spread_socket;
use campaign::Beside;
use good::Good;
use plan::Plan;
use store::{Caller, Server};
use verdict::Row;

mod answers;
mod attacks;
mod campaign;
mod connections;
mod crowd;
mod good;
mod plan;
mod rules;
mod store;
mod times;
mod verdict;

const BEAT: Beat = Beat { node: 1, every: Duration::from_millis(20), service: Service::Agreed };
const ALL: [usize; 3] = [0, 1, 2];
/// The daemon that the hostile client attacks, and the others.
const ATTACKED: usize = 0;
const OTHERS: [usize; 2] = [1, 2];
/// The daemons of the good clients.
const USERS: [usize; 2] = [0, 1];
/// How many rules there are, where there are any.
const RULES: usize = 200;
/// How long the daemons must have been together before the store joins.
const SETTLE: Duration = Duration::from_secs(1);
/// The memory that the groups of all clients may have at a daemon.
const GROUP_MEMORY: u64 = 256 << 20;

/// What came of all attempts.
struct Tried {
    /// How long the messages of good clients took without an attack.
    quiet: Duration,
    rows: Vec<Row>,
    /// How the good client of the store ended.
    called: Result<(), String>,
}

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    attacked(site, 0)
}

/// The same with a file of rules.
pub fn ring_with_rules(site: &Site<'_>) -> Result<Figures, String> {
    attacked(site, RULES)
}

fn attacked(site: &Site<'_>, rules: usize) -> Result<Figures, String> {
    let folder = directory("consort-trials-key-").map_err(|error| format!("cannot make a directory: {error}"))?;
    let (settings, [good, store]) = secure(site, folder.path(), rules)?;
    let plan = Plan::new(site.lengths.network, site.lengths.asked, site.lengths.seed);
    let setup = Setup { hosts: Hosts::Together, nodes: ALL.len(), first: &OTHERS, beat: BEAT, protocol: "ring" };
    with(&Site { settings: &settings, ..*site }, &setup, |stage| {
        start_with_spread(stage)?;
        let server = Server::start(stage, site.file, &store)?;
        stage.mark(&ALL);
        let stalls = Stalls::watch();
        let (good, caller) = (Good::new(stage.directory, &good)?, Caller::new(&server.address));
        let tried = accompanied(stage, &Beside { good: &good, server: &server, caller: &caller }, &plan)?;
        let mut figures = stage.figures(&ALL, 0);
        let settings = stage.settings()?;
        let most = settings.limits.frames_max + settings.limits.output_max + settings.shared_memory;
        figures.budget = AT_REST + most as u64 + GROUP_MEMORY;
        let stalled = stalls.longest();
        figures.notes.push(format!("a sleeper was late by {} ms at most", stalled.as_millis()));
        let is_excused = plan.scale.excuses(stalled);
        let limit = if is_excused { Duration::MAX } else { plan.scale.limit(tried.quiet) };
        verdict::judge(&mut figures, (tried.quiet, limit), &tried.rows);
        judge_daemons(&mut figures, stage, is_excused);
        judge_store(&mut figures, &server, &tried.called);
        let attempts: usize = tried.rows.iter().map(|row| row.attempts.len()).sum();
        figures.notes.push(format!("{attempts} attempts with {rules} rules and --seed {}", plan.seed));
        Ok(figures)
    })
}

/// The settings of the daemons with identities and this number of rules, and tokens of the good clients and of the store:
/// both are other identities than the hostile client.
fn secure(site: &Site<'_>, folder: &Path, rules: usize) -> Result<(String, [String; 2]), String> {
    let tokens = folder.join("tokens");
    let made = [make_token(site.file, &tokens, "good")?, make_token(site.file, &tokens, "store")?];
    let mut settings = format!("{}[security]\ntokens = {:?}\n", site.settings, tokens.display().to_string());
    if rules > 0 {
        let file = folder.join("rights.toml");
        std::fs::write(&file, rules::text(rules))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        settings += &format!("rights = {:?}\n", file.display().to_string());
    }
    Ok((settings, made))
}

/// Makes a token, with its file, by which clients have an identity with this name.
fn make_token(program: &Path, file: &Path, name: &str) -> Result<String, String> {
    let made = Command::new(program).arg("token").arg(file).arg(name).output();
    let made = made.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(format!("`consort token` ended with {}: {}", made.status, said.trim()));
    }
    let token = String::from_utf8(made.stdout).map_err(|error| format!("`consort token`: {error}"))?;
    Ok(token.trim().to_owned())
}

/// Starts the attacked daemon, which alone serves clients of Spread: all daemons are in one namespace, and its port is there
/// once.
fn start_with_spread(stage: &mut Stage<'_>) -> Result<(), String> {
    let (file, socket) = (stage.fleet.config(ATTACKED), spread_socket(stage.directory, ATTACKED));
    let settings = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (port, unix) = (consort_spread::PORT, socket.display().to_string());
    let settings = format!("{settings}\n[spread]\nport = {port}\nunix = {unix:?}\n");
    std::fs::write(&file, settings).map_err(|error| format!("{}: {error}", file.display()))?;
    stage.fleet.start(ATTACKED).map_err(text)?;
    stage.together(&ALL)?;
    stage.pass(SETTLE)
}

/// Makes all attempts while the good clients are measured.
fn accompanied(stage: &mut Stage<'_>, beside: &Beside<'_>, plan: &Plan) -> Result<Tried, String> {
    let Beside { good, caller, .. } = *beside;
    std::thread::scope(|scope| {
        let running = USERS.map(|node| scope.spawn(move || good.run(node)));
        let calling = scope.spawn(|| caller.run(&good.over));
        let tried = campaign::run(stage, beside, plan);
        good.over.store(true, Ordering::Relaxed);
        // If a client has ended, its reason explains why no message came.
        for client in running {
            client.join().map_err(|_| "a good client has panicked".to_owned())??;
        }
        let called = calling.join().map_err(|_| "the good client of the store has panicked".to_owned())?;
        tried.map(|(quiet, rows)| Tried { quiet, rows, called })
    })
}

/// Views and lost tokens are shown in any case, and judged unless the host has stopped by itself.
fn judge_daemons(figures: &mut Figures, stage: &Stage<'_>, is_excused: bool) {
    let losses = figures.losses;
    if is_excused {
        figures.needed = figures.views;
    }
    figures.wants(losses == 0 || is_excused, || format!("{losses} lost tokens"));
    for node in ALL {
        figures.wants(!stage.fleet.has_said(node, "panicked at"), || format!("daemon {} panicked", node + 1));
    }
}

fn judge_store(figures: &mut Figures, server: &Server, called: &Result<(), String>) {
    let (problem, peak, budget) = (server.problem(), server.peak(), Server::budget());
    figures.wants(problem.is_none(), || problem.clone().unwrap_or_default());
    figures.wants(peak <= budget, || format!("the server of the store: {} MiB, budget {}", mib(peak), mib(budget)));
    figures.wants(called.is_ok(), || called.clone().err().unwrap_or_default());
    figures.notes.push(format!("the server of the store had {} MiB at most", mib(peak)));
}
