//! A random model of whole engines: servers that are killed, daemons that are lost with messages under way, checkpoints,
//! transfers. An oracle consumes the whole log; each server must agree with it at its position.
use super::broken::Mutant;
use super::engine::{Effect, Engine, Progress};
use super::origins::Origins;
use crate::frame::Frame;
use crate::line::Origin;
use bytes::Bytes;
use consort::Place;
use consort_types::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Positions of the log hold one or more messages, as batches do.
type Log = Vec<(Place, Place, Frame)>;

#[derive(Clone, Default)]
struct Disk {
    progress: Progress,
    applied: Vec<u64>,
}

struct Server {
    engine: Option<Engine>,
    applied: Vec<u64>,
    disk: Disk,
    /// How many entries of the log it has consumed.
    read: usize,
    connection: Option<usize>,
    /// The identity of each call, by its number.
    calls: BTreeMap<u64, u64>,
}

struct World {
    rng: Rng,
    log: Log,
    servers: Vec<Server>,
    /// Messages on their way, in order on each connection; those of lost connections may still come.
    connections: Vec<VecDeque<Frame>>,
    answered: BTreeSet<u64>,
    ids: u64,
    origins: u128,
    /// Nothing below this index of the log can be read.
    trimmed: usize,
    broken: Option<Mutant>,
    /// Marks that wait, of each server.
    marks: Vec<BTreeSet<u64>>,
}

impl World {
    fn new(seed: u64, broken: Option<Mutant>) -> Self {
        let server = || Server {
            engine: None,
            applied: Vec::new(),
            disk: Disk::default(),
            read: 0,
            connection: None,
            calls: BTreeMap::new(),
        };
        Self {
            rng: Rng::new(seed),
            log: Log::new(),
            servers: (0..3).map(|_| server()).collect(),
            connections: Vec::new(),
            answered: BTreeSet::new(),
            ids: 0,
            origins: 0,
            trimmed: 0,
            broken,
            marks: vec![BTreeSet::new(); 3],
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.rng.below(most as u64) as usize
    }

    fn start(&mut self, at: usize) {
        self.origins += 1 << 64;
        let server = &mut self.servers[at];
        let engine = Engine::new(Origin(self.origins), server.disk.progress.clone()).with_broken(self.broken);
        server.engine = Some(engine);
        self.marks[at].clear();
        server.applied.clone_from(&server.disk.applied);
        server.read = self.log.partition_point(|(at, ..)| *at < server.disk.progress.next);
        server.calls.clear();
        server.connection = None;
    }

    fn connect(&mut self, at: usize) {
        if self.servers[at].read < self.trimmed {
            self.servers[at].engine.iter_mut().for_each(Engine::on_lost);
            self.transfer(at);
        }
        self.connections.push(VecDeque::new());
        let connection = self.connections.len() - 1;
        let server = &mut self.servers[at];
        let Some(engine) = &mut server.engine else { return };
        if server.connection.replace(connection).is_some() {
            engine.on_lost();
        }
        engine.on_connected();
        self.act(at);
    }

    /// Takes the furthest state of another server that is not before the log's beginning.
    fn transfer(&mut self, at: usize) {
        let first = self.log.get(self.trimmed).map_or(Place::at(u64::MAX), |(at, ..)| *at);
        let best = self.servers.iter().map(|server| &server.disk).max_by_key(|disk| disk.progress.next).cloned();
        let Some(best) = best.filter(|disk| disk.progress.next >= first) else { return };
        let server = &mut self.servers[at];
        server.disk = best.clone();
        server.applied = best.applied;
        server.read = self.log.partition_point(|(at, ..)| *at < best.progress.next);
        server.engine.iter_mut().for_each(|engine| engine.on_checkpoint(best.progress.clone()));
        self.act(at);
    }

    fn act(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let Some(engine) = &mut server.engine else { return };
        while let Some(effect) = engine.next_effect() {
            match effect {
                Effect::Send(frame) => {
                    let connection = server.connection.expect("nothing is sent without a connection");
                    self.connections[connection].push_back(frame);
                }
                Effect::Apply { at, own, body } => {
                    let id = u64::from_be_bytes(body[..].try_into().unwrap());
                    server.applied.push(id);
                    assert_eq!(server.applied.len() as u64, at);
                    if let Some(own) = own {
                        assert_eq!(server.calls.remove(&own), Some(id), "the answer is of another call");
                        self.answered.insert(id);
                    }
                }
                Effect::Lost { number, applied } => {
                    let id = server.calls.remove(&number).unwrap();
                    assert!(!applied || server.applied.contains(&id), "{id} was said to be applied");
                }
                Effect::Passed { mark } => self.marks[at].retain(|waits| *waits > mark),
                Effect::Cut(_) | Effect::Serves => {}
            }
        }
    }

    fn consume(&mut self, at: usize, most: usize) {
        for _ in 0..most {
            let server = &mut self.servers[at];
            if server.connection.is_none() || server.read < self.trimmed {
                return;
            }
            let (Some(engine), Some((place, next, frame))) = (&mut server.engine, self.log.get(server.read)) else {
                return;
            };
            engine.on_frame(frame.clone(), *place, *next);
            server.read += 1;
            self.act(at);
        }
    }

    /// The next message of some connection gets its position.
    fn order(&mut self) {
        let Some(connection) = self.connections.len().checked_sub(1) else { return };
        let connection = if self.rng.chance(0.5) { connection } else { self.below(connection + 1) };
        let Some(frame) = self.connections[connection].pop_front() else { return };
        let last = self.log.last().map_or(Place::at(1), |(_, next, _)| *next);
        let next =
            if self.rng.chance(0.25) { Place { index: last.index + 1, ..last } } else { Place::at(last.position + 1) };
        self.log.push((last, next, frame));
    }

    /// A daemon refuses one message, and the driver sends all again later; or a reading begins a little earlier.
    fn disturb(&mut self, at: usize) {
        let again = self.below(4);
        let server = &mut self.servers[at];
        let (Some(engine), Some(connection)) = (&mut server.engine, server.connection) else { return };
        if again > 0 {
            if server.read >= self.trimmed {
                server.read = server.read.saturating_sub(again).max(self.trimmed);
            }
            return;
        }
        let queue = &mut self.connections[connection];
        queue.remove(queue.len() / 2);
        engine.on_lost();
        engine.on_connected();
        self.act(at);
    }

    fn step(&mut self, away: Option<usize>) {
        let at = self.below(3);
        if away == Some(at) {
            return;
        }
        if away.is_some() && self.rng.chance(0.1) {
            // Many others begin meanwhile, so that its origin is forgotten.
            self.start(at);
            return self.connect(at);
        }
        match self.below(100) {
            0..40 => (0..3).for_each(|_| self.order()),
            40..60 => {
                let most = 1 + self.below(4);
                self.consume(at, most);
            }
            60..90 => {
                self.ids += 1;
                let id = self.ids;
                let server = &mut self.servers[at];
                if let Some(engine) = &mut server.engine {
                    if id.is_multiple_of(8) {
                        self.marks[at].insert(engine.send_mark());
                    }
                    let number = engine.call(Bytes::copy_from_slice(&id.to_be_bytes()));
                    server.calls.insert(number, id);
                    self.act(at);
                }
            }
            90..92 => self.connect(at),
            92..93 => {
                let server = &mut self.servers[at];
                server.connection = None;
                server.engine.iter_mut().for_each(Engine::on_lost);
            }
            93..94 => self.disturb(at),
            94..95 => {
                // What a lost daemon had not taken never comes.
                let connection = self.below(self.connections.len().max(1));
                let keep = self.below(4);
                self.connections.get_mut(connection).into_iter().for_each(|queue| queue.truncate(keep));
                if self.servers.iter().any(|server| server.connection == Some(connection)) {
                    let held = self.servers.iter().position(|server| server.connection == Some(connection)).unwrap();
                    self.connect(held);
                }
            }
            95..97 => self.start(at),
            // A durable copy keeps its connection meanwhile.
            97 if self.servers[at].read < self.trimmed => self.transfer(at),
            97 => self.servers[at].engine = None,
            98 => {
                let server = &mut self.servers[at];
                if let Some(engine) = &server.engine {
                    let mut progress = engine.progress().clone();
                    match self.broken {
                        Some(Mutant::OriginsUnkept) => progress.origins = Origins::default(),
                        Some(Mutant::NextKeptLate) => progress.next.position += 1,
                        _ => {}
                    }
                    server.disk = Disk { progress, applied: server.applied.clone() };
                }
            }
            _ => {
                // The log releases what a majority of the disks has.
                let mut kept: Vec<_> = self.servers.iter().map(|server| server.disk.progress.next).collect();
                kept.sort_unstable();
                self.trimmed = self.trimmed.max(self.log.partition_point(|(at, ..)| *at < kept[1]));
            }
        }
    }

    fn check(&self) {
        let mut oracle = Engine::new(Origin(1), Progress::default());
        let (mut applied, mut at_place) = (Vec::new(), BTreeMap::from([(Place::default(), 0)]));
        for (at, next, frame) in &self.log {
            oracle.on_frame(frame.clone(), *at, *next);
            while let Some(effect) = oracle.next_effect() {
                if let Effect::Apply { body, .. } = effect {
                    applied.push(u64::from_be_bytes(body[..].try_into().unwrap()));
                }
            }
            at_place.insert(*next, applied.len());
        }
        let once: BTreeSet<_> = applied.iter().collect();
        assert_eq!(once.len(), applied.len(), "a command was applied twice");
        assert!(self.answered.iter().all(|id| once.contains(id)), "an answered command is lost");
        for server in &self.servers {
            let Some(engine) = &server.engine else { continue };
            let len = at_place.get(&engine.progress().next).copied().unwrap_or(usize::MAX).min(applied.len());
            assert_eq!(server.applied, applied[..len], "a state differs from the log's at {}", engine.progress().next);
        }
    }

    /// In the end all servers are up to date and every call that waits is answered.
    fn heal(&mut self) {
        for at in 0..3 {
            if self.servers[at].engine.is_none() {
                self.start(at);
            }
            self.connect(at);
        }
        for _ in 0..6 {
            while self.connections.iter().any(|queue| !queue.is_empty()) {
                self.order();
            }
            (0..3).for_each(|at| self.consume(at, usize::MAX));
        }
        for (at, server) in self.servers.iter().enumerate() {
            assert!(self.marks[at].is_empty(), "reads of server {at} wait for ever");
            assert!(server.calls.is_empty(), "calls of server {at} wait for ever: {:?}", server.calls);
            assert_eq!(server.applied, self.servers[0].applied);
        }
    }
}

fn run(seed: u64, steps: usize, broken: Option<Mutant>) -> usize {
    let mut world = World::new(seed, broken);
    for at in 0..3 {
        world.start(at);
        world.connect(at);
    }
    // One of them may be away for a long time.
    let from = world.below(2 * steps);
    let away = (world.below(3), from..from + world.below(steps));
    for step in 0..steps {
        world.step(away.1.contains(&step).then_some(away.0));
        if step % 16 == 0 {
            world.check();
        }
    }
    world.heal();
    world.check();
    world.answered.len()
}

#[test]
fn random_schedules_lose_nothing_and_apply_once() {
    //= RS01 test
    //= RS02 test
    //= RS04 test
    //= RS06 test
    //= RS07 test
    let seeds = std::env::var("CONSORT_MODEL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    // The rule that the environment breaks, for `cargo xtask mutants`.
    let named = std::env::var("CONSORT_REPLICA_MUTANT").unwrap_or_default();
    let broken = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == named);
    let seeds = if broken.is_some() { 20_000 } else { seeds };
    let answered: usize = (0..seeds).map(|seed| run(seed, 300, broken)).sum();
    assert!(answered as u64 > 20 * seeds, "{answered} answers are few: the schedules try little");
}

#[test]
fn each_broken_rule_is_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let notices =
        |mutant: Mutant| (0..20_000).find(|seed| std::panic::catch_unwind(|| run(*seed, 300, Some(mutant))).is_err());
    let found: Vec<_> = Mutant::ALL.iter().map(|mutant| (mutant.name(), notices(*mutant))).collect();
    std::panic::set_hook(hook);
    found.iter().for_each(|(name, seed)| println!("{name}: seed {seed:?}"));
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn a_copy_serves_from_a_checkpoint_that_has_its_opening_or_has_forgotten_it() {
    //= RS07 test
    let open = Frame::Open { origin: Origin(7) };
    let opened = |engine: &mut Engine| std::iter::from_fn(|| engine.next_effect()).collect::<Vec<_>>();
    let mut engine = Engine::new(Origin(7), Progress::default());
    engine.on_connected();
    assert_eq!(opened(&mut engine), [Effect::Send(open.clone())]);
    let mut has = Progress { next: Place::at(9), ..Progress::default() };
    has.origins.open(Origin(7), Place::at(4));
    let forgotten = Progress { next: Place::at(9), ..Progress::default() };
    let mut other = engine.clone();
    other.on_checkpoint(forgotten);
    assert_eq!(opened(&mut other), [Effect::Send(open)], "what was sent may be in front of the checkpoint");
    engine.on_checkpoint(has);
    assert_eq!(opened(&mut engine), [Effect::Serves]);
}

#[test]
fn a_late_copy_of_a_forgotten_origin_does_not_count() {
    //= RS06 test
    let mut engine = Engine::new(Origin(1), Progress::default());
    engine.on_connected();
    let mut position = 0;
    let mut take = |engine: &mut Engine, frame: Frame| {
        position += 1;
        engine.on_frame(frame, Place::at(position), Place::at(position + 1));
        std::iter::from_fn(|| engine.next_effect()).filter(|effect| matches!(effect, Effect::Apply { .. })).count()
    };
    let command = |epoch, number| Frame::Numbered { origin: Origin(9), epoch, number, body: Bytes::from_static(b"x") };
    take(&mut engine, Frame::Open { origin: Origin(9) });
    assert_eq!(take(&mut engine, command(Place::at(1), 1)), 1);
    for other in 0..super::origins::ORIGINS_MAX as u128 {
        take(&mut engine, Frame::Open { origin: Origin(100 + other) });
    }
    take(&mut engine, Frame::Open { origin: Origin(9) });
    assert_eq!(take(&mut engine, command(Place::at(1), 1)), 0, "it is of the epoch before");
    assert_eq!(take(&mut engine, command(Place::at(1), 2)), 0);
}
