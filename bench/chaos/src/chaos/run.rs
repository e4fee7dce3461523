//! One run: storms and calms, and the verdict after each.
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::GroupName;
use consort_sim::fault::Disk;
use consort_sim::link::LinkModel;
use consort_types::Rng;

use super::board::{Board, held};
use super::client::{Role, Scope};
use super::fleet::{Fleet, address, configs, inner_address};
use super::guest;
use super::judge::{self, Judge};
use super::networks::networks;
use super::options::Options;
use super::outcome::{ChaosError, Outcome};
use super::registers;
use super::reread;
use super::storm::{self, Planned, Storm};
use super::trouble::{Trouble, Weather};
use super::truth;
use consort_daemon::config::Protocol;
use consort_testbed::network::Network;
use consort_testbed::promised;

/// How often the run is looked after, at least.
const STEP: Duration = Duration::from_millis(10);
/// How often memory is sampled.
const SAMPLE: Duration = Duration::from_millis(250);
/// How long all may take to come to rest once everything is whole.
const SETTLE: Duration = Duration::from_secs(30);
/// How long a situation lasts before daemons are looked at.
const LASTS: Duration = Duration::from_secs(3);
/// How long nobody must be told anything, to be called at rest.
const QUIET: Duration = Duration::from_millis(300);

/// The groups, and how many clients a node has.
const GROUPS: [&str; 3] = ["alpha", "beta", "gamma"];
/// A group that has no members.
const TRUTH: &str = "truth";
/// See [`roles`].
pub const CLIENTS: usize = 3;
/// Each group is judged by itself, and all of them together.
pub const SCOPES: usize = GROUPS.len() + 1;

/// A run under way.
pub struct Run<'a> {
    options: &'a Options,
    seed: u64,
    network: &'a Network,
    /// Who stands in which of its networks.
    networks: Vec<Vec<usize>>,
    board: &'a Board,
    fleet: Fleet<'a>,
    directory: &'a Path,
    judges: Vec<Judge>,
    weather: Weather,
    outcome: Outcome,
    /// What went wrong and when, on the clock of the traces.
    log: File,
    stop: Arc<AtomicBool>,
    sampled: Instant,
}

/// What is still to happen in a storm.
enum Turn {
    Begin,
    End,
}

/// All clients. The first of a node is in all groups. The second is in the first group and reaches its daemon from within
/// the namespace; the third is in the other groups.
///
/// # Errors
/// A mistake in this file.
pub fn roles(nodes: u16, seed: u64, directory: &Path) -> Result<Vec<Role>, ChaosError> {
    let names = named(&GROUPS)?;
    let mut roles = Vec::new();
    for node in 0..usize::from(nodes) {
        for (place, groups) in [&names[..], &names[..1], &names[1..]].into_iter().enumerate() {
            let number = node * CLIENTS + place;
            let address = if place == 1 { inner_address()? } else { address(directory, node) };
            let seed = Rng::new(seed).fork((1 << 33) + number as u64).next_u64();
            let (groups, scopes) = (groups.to_vec(), scopes(&names, groups));
            roles.push(Role { node, number, address, groups, scopes, asks: place == 0, seed });
        }
    }
    Ok(roles)
}

/// The groups that guests join: those of all, and one of their own.
///
/// # Errors
/// A mistake in this file.
pub fn guest_groups() -> Result<Vec<GroupName>, ChaosError> {
    named(&[GROUPS[0], GROUPS[1], GROUPS[2], guest::GROUP])
}

/// What the chance of a node's guests comes from, for each of its two listeners.
pub fn guest_seed(seed: u64, node: usize, listener: u64) -> u64 {
    Rng::new(seed).fork((1 << 34) + (listener << 33) + node as u64).next_u64()
}

/// The group that keepers of registers send their calls to.
///
/// # Errors
/// A mistake in this file.
pub fn registers_group() -> Result<GroupName, ChaosError> {
    GroupName::new(registers::GROUP.as_bytes()).map_err(|_| ChaosError::Bug("a group's name"))
}

/// What the chance of a keeper of registers comes from.
pub fn caller_seed(seed: u64, number: u64) -> u64 {
    Rng::new(seed).fork((1 << 35) + number).next_u64()
}

fn named(names: &[&str]) -> Result<Vec<GroupName>, ChaosError> {
    let names = names.iter().map(|name| GroupName::new(name.as_bytes()));
    names.collect::<Result<_, _>>().map_err(|_| ChaosError::Bug("a group's name"))
}

/// The sets that a client in these groups is a witness for.
fn scopes(all: &[GroupName], groups: &[GroupName]) -> Vec<Scope> {
    let single = all.iter().enumerate().filter(|(_, group)| groups.contains(group));
    let single = single.map(|(number, group)| Scope { number, groups: vec![group.clone()], takes_part: true });
    let together = Scope { number: all.len(), groups: all.to_vec(), takes_part: groups.len() == all.len() };
    single.chain([together]).collect()
}

impl<'a> Run<'a> {
    /// Prepares everything and starts the daemons, over links that are whole.
    ///
    /// # Errors
    /// [`ChaosError`].
    pub fn start(
        options: &'a Options,
        seed: u64,
        network: &'a Network,
        board: &'a Board,
        (file, directory): (PathBuf, &'a Path),
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ChaosError> {
        let judges = (0..SCOPES).map(|scope| Judge::new(&judge::file(directory, scope), promised(options.protocol)));
        let judges = judges.collect::<Result<Vec<_>, _>>()?;
        let files = configs((options.protocol, options.storage, options.retain), options.nodes, directory);
        let mut fleet = Fleet::new(network, board, file, directory, &files)?;
        let spared = storm::spared(options.protocol, options.storage, options.nodes, seed);
        spared.fills.into_iter().try_for_each(|node| fleet.give_small_disk(index(node.0)))?;
        fleet.revive()?;
        let outcome = Outcome { nodes: options.nodes, ..Outcome::default() };
        let (weather, log, sampled) = (Weather::default(), File::create(faults(directory))?, Instant::now());
        let networks = networks(options.protocol, options.nodes);
        Ok(Self {
            options,
            seed,
            network,
            networks,
            board,
            fleet,
            directory,
            judges,
            weather,
            outcome,
            log,
            stop,
            sampled,
        })
    }

    /// Storms and calms until the time is over, and the daemons' orderly end.
    ///
    /// # Errors
    /// [`ChaosError`].
    pub fn finish(mut self) -> Result<Outcome, ChaosError> {
        if let Err(error) = self.storms_and_calms() {
            self.fleet.describe();
            return Err(error);
        }
        self.last_call()?;
        self.outcome.reread = self.read_again()?;
        self.outcome.started_anew = self.fleet.times_started_anew();
        let may_start_anew = matches!(self.options.protocol, Protocol::Paxos | Protocol::MultiRingPaxos);
        if !may_start_anew && self.outcome.started_anew > 0 {
            return Err(ChaosError::StartedAnew(self.outcome.started_anew));
        }
        self.outcome.full = self.fleet.times_full();
        self.outcome.daemons = self.fleet.finish()?;
        let (together, single) = self.judges.split_last_mut().ok_or(ChaosError::Bug("no judges"))?;
        self.outcome.seen = std::mem::take(&mut together.seen);
        self.outcome.acknowledged = self.board.acknowledged.load(Ordering::Relaxed);
        self.outcome.deliveries = single.iter().map(|judge| judge.seen.deliveries).sum();
        // Where all are killed at once, nobody's memory is that of the whole run.
        if !storm::spared(self.options.protocol, self.options.storage, self.options.nodes, self.seed).outlasts {
            self.outcome.is_flat()?;
        }
        Ok(self.outcome)
    }

    /// Guests who stay through calms hear the last of their words while their daemons still run.
    fn last_call(&mut self) -> Result<(), ChaosError> {
        self.board.last_call.store(true, Ordering::Relaxed);
        self.await_all(Instant::now(), |board| board.seated.load(Ordering::Relaxed) == 0)
    }

    /// Where all is retained, nodes 1 and 2, whose disks are never lost, tell all of it once more.
    fn read_again(&self) -> Result<Option<reread::Told>, ChaosError> {
        let Some(said) = &self.board.said else { return Ok(None) };
        let (groups, said) = (named(&GROUPS)?, std::mem::take(&mut *held(said)));
        let addresses = [0, 1].map(|node| address(self.directory, node));
        reread::judge(&addresses, &groups, &said).map(Some).map_err(ChaosError::Reread)
    }

    fn storms_and_calms(&mut self) -> Result<(), ChaosError> {
        self.calm()?;
        let start = Instant::now();
        let nodes = self.options.nodes;
        let spared = storm::spared(self.options.protocol, self.options.storage, nodes, self.seed);
        for number in 0.. {
            let left = self.options.length.saturating_sub(start.elapsed());
            if left < Duration::from_secs(1) {
                break;
            }
            let storm = storm::draw((nodes, &self.networks), &spared, self.seed, number, left);
            self.storm(&storm)?;
            self.situation(number)?;
            let took = self.calm()?;
            self.outcome.calms.push(took);
            self.tell(start, &storm, took);
        }
        self.outcome.took = start.elapsed();
        Ok(())
    }

    /// Everything goes wrong that is planned.
    fn storm(&mut self, storm: &Storm) -> Result<(), ChaosError> {
        self.board.talk.store(true, Ordering::Relaxed);
        let begins = storm.faults.iter().map(|fault| (fault.from, Turn::Begin, fault));
        let ends = storm.faults.iter().map(|fault| (fault.until, Turn::End, fault));
        let mut turns: Vec<_> = begins.chain(ends).filter(|(at, ..)| *at < storm.length).collect();
        turns.sort_by_key(|(at, ..)| *at);
        let start = Instant::now();
        for (at, turn, fault) in turns {
            self.wait_until(start + at)?;
            match turn {
                Turn::Begin => self.begin(fault)?,
                Turn::End => self.end(fault)?,
            }
        }
        self.wait_until(start + storm.length)
    }

    /// Everything is whole, but for what is drawn and lasts. Each daemon that runs must say the truth about itself.
    fn situation(&mut self, number: u64) -> Result<(), ChaosError> {
        self.make_whole()?;
        let spared = storm::spared(self.options.protocol, self.options.storage, self.options.nodes, self.seed);
        let troubles = storm::situation(self.options.nodes, &spared, self.seed, number);
        for what in &troubles {
            let (from, until) = (Duration::ZERO, Duration::MAX);
            self.begin(&Planned { from, until, what: *what, network: None })?;
        }
        // So that daemons do not say what was so before.
        self.wait_until(Instant::now() + LASTS)?;
        let daemons: Vec<_> = (0..self.options.nodes.into()).filter(|node| self.fleet.answers(*node)).collect();
        let addresses: Vec<_> = daemons.iter().map(|node| (*node, address(self.directory, *node))).collect();
        let wrong: Vec<_> = troubles.iter().map(Trouble::to_string).collect();
        let group = named(&[TRUTH])?.pop().ok_or(ChaosError::Bug("a group's name"))?;
        self.outcome.looks.1 += truth::look(&addresses, &group, &wrong.join(", "))?;
        self.outcome.looks.0 += daemons.len() as u64;
        self.fleet.watch()
    }

    /// No link is worse than another, and all daemons run.
    fn make_whole(&mut self) -> Result<(), ChaosError> {
        self.weather.clear();
        self.network.set_all(&LinkModel::default())?;
        self.fleet.revive()
    }

    fn begin(&mut self, fault: &Planned) -> Result<(), ChaosError> {
        self.note(&format!("begins: {fault}"))?;
        *self.outcome.faults.entry(fault.what.kind()).or_default() += 1;
        match fault.what {
            Trouble::Kill { node, disk } => self.fleet.kill(index(node.0), disk)?,
            Trouble::Leave { node } => self.fleet.ask_to_leave(index(node.0))?,
            Trouble::Pause { node } => self.fleet.stop(index(node.0), true),
            Trouble::Full { node } => self.fleet.fill(index(node.0))?,
            Trouble::PauseAll => self.fleet.stop_all(true),
            Trouble::KillAll => {
                (0..usize::from(self.options.nodes)).try_for_each(|node| self.fleet.kill(node, Disk::Kept))?;
            }
            link => self.weather.begin(fault.network, link),
        }
        self.set_links(&fault.what)
    }

    fn end(&mut self, fault: &Planned) -> Result<(), ChaosError> {
        self.note(&format!("ends:   {fault}"))?;
        match fault.what {
            Trouble::Kill { node, .. } | Trouble::Leave { node } => self.fleet.start(index(node.0))?,
            Trouble::Pause { node } => self.fleet.stop(index(node.0), false),
            Trouble::Full { node } => self.fleet.empty(index(node.0))?,
            Trouble::PauseAll => self.fleet.stop_all(false),
            Trouble::KillAll => self.fleet.revive()?,
            link => self.weather.end(fault.network, link),
        }
        self.set_links(&fault.what)
    }

    fn set_links(&self, after: &Trouble) -> Result<(), ChaosError> {
        if after.is_of_links() {
            for (number, nodes) in self.networks.iter().enumerate() {
                for ((from, to), model) in self.weather.links(number, nodes) {
                    self.network.set_in(number, from, to, &model)?;
                }
            }
        }
        Ok(())
    }

    /// All is whole and everybody comes back; then all must be at rest, and what clients saw is judged. Returns how long
    /// it took until all was at rest.
    fn calm(&mut self) -> Result<Duration, ChaosError> {
        self.note("calm: all links are whole, all daemons come back")?;
        self.board.talk.store(false, Ordering::Relaxed);
        self.make_whole()?;
        let start = Instant::now();
        let mut unrest = self.rest(start)?;
        let took = start.elapsed();
        if unrest.is_none() {
            let word = self.board.ask(&self.board.last_word);
            self.await_all(start, |board| board.have_all(|state| state.last_word >= word))?;
        }
        loop {
            if unrest.is_none() {
                unrest = self.rest(start)?;
            }
            if self.all_hand_over(start)? || unrest.is_some() {
                break;
            }
        }
        self.judge(unrest)?;
        Ok(took)
    }

    /// All clients hand over what they wrote down. False if news came meanwhile, and there is time to try again: on a busy
    /// machine a ring may be formed anew at any time.
    fn all_hand_over(&mut self, start: Instant) -> Result<bool, ChaosError> {
        let asked = self.board.now();
        let round = self.board.ask(&self.board.round);
        self.await_all(start, |board| board.have_all(|state| state.round >= round))?;
        let was_quiet = self.board.have_all(|state| state.heard < asked);
        Ok(was_quiet || start.elapsed() > SETTLE)
    }

    /// What still keeps all from being at rest when the time is over; `None` once they are.
    fn rest(&mut self, start: Instant) -> Result<Option<String>, ChaosError> {
        loop {
            let why = self.board.unrest(QUIET);
            if why.is_none() || start.elapsed() > SETTLE {
                return Ok(why);
            }
            self.step()?;
        }
    }

    /// Gives up where clients do not do in time what they are asked to: then something else is wrong, which the judge sees.
    fn await_all(&mut self, start: Instant, done: impl Fn(&Board) -> bool) -> Result<(), ChaosError> {
        while !done(self.board) && start.elapsed() < 2 * SETTLE {
            self.step()?;
        }
        Ok(())
    }

    fn judge(&mut self, unrest: Option<String>) -> Result<(), ChaosError> {
        let at = self.board.now();
        let mut violations = Vec::new();
        for (scope, judge) in self.judges.iter_mut().enumerate() {
            judge.take(self.board.collect(scope))?;
            judge.calm(at)?;
            violations.append(&mut judge.violations);
        }
        match unrest {
            _ if !violations.is_empty() => Err(ChaosError::Broken(violations)),
            Some(why) => Err(ChaosError::Unrest { after: SETTLE, why }),
            None => Ok(()),
        }
    }

    fn note(&mut self, what: &str) -> Result<(), ChaosError> {
        Ok(writeln!(self.log, "{} {what}", self.board.now().0)?)
    }

    fn wait_until(&mut self, deadline: Instant) -> Result<(), ChaosError> {
        while Instant::now() < deadline {
            self.step()?;
        }
        Ok(())
    }

    /// Looks after everything, and sleeps a little.
    fn step(&mut self) -> Result<(), ChaosError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ChaosError::Interrupted);
        }
        self.fleet.watch()?;
        if self.sampled.elapsed() >= SAMPLE {
            self.sampled = Instant::now();
            self.fleet.sample();
        }
        std::thread::sleep(STEP);
        Ok(())
    }

    fn tell(&self, start: Instant, storm: &Storm, took: Duration) {
        let seen = &self.judges[GROUPS.len()].seen;
        println!(
            "{:7.1} s  a storm of {:4.1} s and {:2} faults, at rest {:4.1} s after it; {} messages, {} views ({} needless) so far",
            start.elapsed().as_secs_f64(),
            storm.length.as_secs_f64(),
            storm.faults.len(),
            took.as_secs_f64(),
            seen.messages,
            seen.views.len(),
            seen.needless.len()
        );
    }
}

/// The file that says what went wrong and when.
fn faults(directory: &Path) -> PathBuf {
    directory.join("faults.txt")
}

/// Nodes are named from 1 and counted from 0.
const fn index(node: u16) -> usize {
    node as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_groups_has_a_witness_at_every_node_and_every_sender_has_one_for_all_it_sends_to() {
        let roles = roles(3, 1, Path::new("/d")).unwrap();
        assert_eq!(roles.len(), 3 * CLIENTS);
        for node in 0..3 {
            for scope in 0..SCOPES {
                let here = roles.iter().filter(|role| role.node == node);
                let witness = |role: &Role| role.scopes.iter().any(|of| of.number == scope && of.takes_part);
                assert!(here.clone().any(witness), "set {scope} at node {node}");
            }
        }
        for role in &roles {
            let numbers: Vec<_> = role.scopes.iter().map(|scope| scope.number).collect();
            assert!(numbers.contains(&GROUPS.len()) && numbers.len() == role.groups.len() + 1);
        }
        assert!(roles.windows(2).all(|pair| pair[0].number + 1 == pair[1].number && pair[0].seed != pair[1].seed));
    }
}
