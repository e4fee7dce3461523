//! What is retained, and what becomes of nodes that missed more.
use super::world::{Disk, World};
use crate::acceptor::Standing;
use crate::ballot::{Item, ValueId};
use crate::config::{Config, Storage};
use crate::learner::Learner;
use crate::packet::Content;
use crate::record::Record;
use bytes::Bytes;
use consort_order::{DeclareProgress, Engine, Output};
use consort_types::{Duration, Incarnation, Instant, NodeId, Position};
use consort_wire::pack::Body;

pub const RETAIN: usize = 16 << 10;

pub fn world(seed: u64, storage: Storage, adjust: impl Fn(&mut Config)) -> World {
    let mut config = Config::new(NodeId(0), (0..4).map(NodeId).collect());
    config.acceptors.truncate(3);
    (config.storage, config.value, config.retain) = (storage, 1_024, RETAIN);
    adjust(&mut config);
    let mut world = World::with(seed, config);
    assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
    world
}

/// Orders some 100 KB.
pub fn fill(world: &mut World, node: u16) {
    for _ in 0..100 {
        assert!(world.submit(node, 1_000));
        world.run(5);
    }
}

pub fn settles(world: &mut World) {
    assert!(world.run_until(6_000, World::is_settled), "{:?}\n{}", world.judge.owed(world), world.describe());
}

fn first(world: &World, node: usize) -> u64 {
    world.hosts[node].engine.learner().first().at
}

#[test]
fn a_node_retains_so_many_bytes_and_one_that_starts_begins_at_a_checkpoint() {
    //= X80 test
    //= X82 test
    for storage in [Storage::Memory, Storage::Async, Storage::Sync] {
        let mut world = world(1, storage, |_| {});
        world.stop(3, Disk::Lost);
        world.run(1_000);
        fill(&mut world, 0);
        for host in &world.hosts[..3] {
            let bytes = host.engine.learner().bytes();
            assert!((RETAIN / 2..=RETAIN + RETAIN / 4).contains(&bytes), "{bytes}");
        }
        world.restart(3);
        settles(&mut world);
        assert!(first(&world, 3) > 50, "begins where the others do");
        assert_eq!(world.hosts[3].engine.learner().place(), world.hosts[0].engine.learner().place());
        fill(&mut world, 3);
        settles(&mut world);
    }
}

#[test]
fn what_is_older_than_it_may_be_goes() {
    //= X80 test
    let mut world = world(2, Storage::Memory, |config| config.retain_for = Duration::from_secs(2));
    (0..8).for_each(|_| assert!(world.submit(0, 500)));
    world.run(1_000);
    assert_eq!(first(&world, 0), 0);
    world.run(1_500);
    let learner = world.hosts[0].engine.learner();
    assert_eq!((learner.first().at, learner.bytes()), (learner.next(), 0));
}

#[test]
fn what_a_slow_member_has_yet_to_read_is_held_for_it_up_to_four_times_as_much() {
    //= X81 test
    let mut world = world(3, Storage::Memory, |_| {});
    // It hears beats, and nothing else.
    world.filter = Some(|_, to, packet| to != NodeId(3) || matches!(packet.content, Content::Beat(_)));
    let before = world.hosts[3].engine.learner().next();
    for _ in 0..40 {
        assert!(world.submit(0, 1_000));
        world.run(5);
    }
    assert!(first(&world, 0) <= before && world.hosts[0].engine.learner().bytes() > 2 * RETAIN);
    fill(&mut world, 0);
    assert!(first(&world, 0) > before, "but no more");
    assert!(world.hosts[0].engine.learner().bytes() <= 5 * RETAIN);
}

#[test]
pub fn what_a_program_has_yet_to_read_is_held_for_it_up_to_four_times_as_much() {
    //= X86 test
    let mut world = world(9, Storage::Memory, |config| config.retain_for = Duration::from_millis(300));
    let from = world.hosts[0].engine.learner().place() + 1;
    world.hosts[0].engine.hold(Some(Position(from)));
    for _ in 0..40 {
        assert!(world.submit(0, 1_000));
        world.run(10);
    }
    assert!(oldest(&world, 0) <= from, "history: {} is the oldest there is, and {from} is wanted", oldest(&world, 0));
    assert!(world.hosts[0].engine.learner().bytes() > 2 * RETAIN && oldest(&world, 1) > from);
    fill(&mut world, 0);
    assert!(oldest(&world, 0) > from, "but no more");
    assert!(world.hosts[0].engine.learner().bytes() <= 5 * RETAIN);
    for wanted in [None, Some(Position(1 << 40))] {
        world.hosts[0].engine.hold(wanted);
        fill(&mut world, 0);
        assert!(world.hosts[0].engine.learner().bytes() <= RETAIN + RETAIN / 4, "{wanted:?} holds nothing");
        world.run(1_000);
        assert_eq!(world.hosts[0].engine.learner().bytes(), 0, "{wanted:?} holds nothing");
    }
}

#[test]
fn a_value_that_is_retained_does_not_keep_what_was_read_with_it() {
    //= X80 test
    let (id, mut learner) = (ValueId::default(), Learner::default());
    // One agreed message of four bytes, and what came behind it.
    let read = Bytes::from([&[0xd0, 0, 0, 4], &[7; 1_000][..]].concat());
    let body = Body::new(read.slice(..8)).unwrap();
    assert!(learner.decide(0, Item::Value(id)) && learner.take(|_| Some(body.clone())).is_some());
    assert_eq!(learner.entry(0).unwrap().body.as_ref(), Some(&body));
    drop(body);
    assert!(read.is_unique(), "the log holds all of it");
}

#[test]
fn what_is_yet_to_be_merged_is_held_up_to_four_times_as_much() {
    //= X92 test
    let mut world = world(9, Storage::Memory, |config| config.retain_for = Duration::from_millis(300));
    let from = world.hosts[0].engine.learner().next();
    world.hosts[0].engine.hold_from(Some(from));
    for _ in 0..40 {
        assert!(world.submit(0, 1_000));
        world.run(10);
    }
    let first = |world: &World, node: usize| world.hosts[node].engine.learner().first().at;
    assert!(first(&world, 0) <= from && first(&world, 1) > from);
    fill(&mut world, 0);
    assert!(first(&world, 0) > from, "but no more");
}

#[test]
fn a_member_that_missed_more_starts_anew_and_an_acceptor_takes_its_promises_along() {
    //= X84 test
    for (seed, storage) in (4..12).zip([Storage::Memory, Storage::Sync].into_iter().cycle()) {
        let mut world = world(seed, storage, |_| {});
        let (incarnation, promised) = (world.hosts[2].incarnation, world.hosts[2].engine.acceptor().unwrap().promised);
        for other in [0, 1, 3] {
            world.cut(2, other);
            world.cut(other, 2);
        }
        fill(&mut world, 0);
        world.heal();
        settles(&mut world);
        let host = &world.hosts[2];
        assert!(host.incarnation > incarnation && world.restarts == 1, "seed {seed}: {} restarts", world.restarts);
        let acceptor = host.engine.acceptor().unwrap();
        assert!(acceptor.promised >= promised && acceptor.standing == Standing::Voting);
    }
}

/// Three nodes, of which the last misses some 100 KB: `holder` retains so much, and the other one less.
fn cut_off(seed: u64, holder: u16, retains: usize) -> World {
    let mut world = three(seed, holder, retains);
    part(&mut world, holder);
    world
}

fn three(seed: u64, holder: u16, retains: usize) -> World {
    let mut config = Config::new(NodeId(0), (0..3).map(NodeId).collect());
    (config.storage, config.value, config.retain) = (Storage::Memory, 1_024, RETAIN);
    let mut world = World::with(seed, config);
    world.retains.insert(holder, retains);
    assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
    world
}

/// Cuts off the last of three until the one that is no holder lacks what it missed.
fn part(world: &mut World, holder: u16) {
    for other in [0, 1] {
        world.cut(2, other);
        world.cut(other, 2);
    }
    fill(world, 0);
    world.run(1_000);
    assert!(first(world, usize::from(1 - holder)) > world.hosts[2].engine.learner().next());
    world.heal();
}

#[test]
pub fn a_node_asks_everybody_for_what_one_has_trimmed() {
    //= X85 test
    for (seed, holder) in (20..28).zip([0, 1].into_iter().cycle()) {
        let mut world = cut_off(seed, holder, 1 << 20);
        settles(&mut world);
        assert!(world.restarts == 0, "history: seed {seed} starts anew although node {holder} retains all");
        assert_eq!(world.hosts[2].engine.learner().place(), world.hosts[0].engine.learner().place());
    }
}

#[test]
fn a_node_that_may_be_let_in_where_logs_are_merged_asks_everybody_too() {
    //= X85 test
    for (seed, holder) in (20..28).zip([0, 1].into_iter().cycle()) {
        let mut world = three(seed, holder, 1 << 20);
        world.retains.insert(2, 1 << 20);
        world.stop(2, Disk::Lost);
        world.run(1_000);
        world.restart(2);
        world.hosts[2].engine.reserve(true);
        world.run(1_000);
        world.hosts[2].engine.miss_nothing(true);
        let next = world.hosts[2].engine.learner().next();
        part(&mut world, holder);
        world.run(500);
        assert!(first(&world, 2) <= next, "seed {seed}: it passes over what node {holder} retains");
        world.hosts[2].engine.reserve(false);
        settles(&mut world);
        assert_eq!(world.restarts, 0, "seed {seed}");
    }
}

#[test]
fn a_node_starts_anew_once_nobody_retains_what_it_misses_or_who_might_does_not_answer() {
    //= X84 test
    //= X85 test
    for (seed, retains) in (30..38).zip([RETAIN, 1 << 20].into_iter().cycle()) {
        let mut world = cut_off(seed, 1, retains);
        if retains > RETAIN {
            world.filter = Some(|_, to, packet| to != NodeId(1) || !matches!(packet.content, Content::Learn(_)));
        }
        let soon = world.run_until(4_000, |world| world.restarts == 1);
        assert!(soon, "seed {seed}: {}", world.describe());
        world.filter = None;
        settles(&mut world);
        assert_eq!(world.restarts, 1, "seed {seed}");
    }
}

#[test]
fn the_disk_is_trimmed_behind_a_checkpoint_that_is_synced() {
    //= X83 test
    let mut world = world(5, Storage::Sync, |_| {});
    // A megabyte of records goes at a time.
    for _ in 0..40 {
        fill(&mut world, 0);
    }
    let written = world.hosts[1].written;
    let disk: usize = world.hosts[1].records().iter().map(Bytes::len).sum();
    assert!(written > 4 << 20 && disk < 2 << 20, "{written} bytes written, {disk} kept");
    let place = world.hosts[1].engine.learner().place();
    (0..4).for_each(|node| world.stop(node, Disk::Kept));
    (0..4).for_each(|node| world.restart(node));
    settles(&mut world);
    assert_eq!(world.hosts[1].engine.learner().place(), place, "after all have restarted");
}

fn engine(records: &[Bytes]) -> (crate::Paxos, Vec<(u64, Record)>) {
    let config = Config::new(NodeId(0), (0..3).map(NodeId).collect());
    let mut engine = crate::Paxos::new(config, Incarnation(9)).unwrap();
    engine.start(Instant::ZERO, records);
    let mut written = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Persist { ticket, record, .. } = output {
            written.push((ticket.0, Record::decode(&record).unwrap()));
        }
    }
    (engine, written)
}

#[test]
fn a_disk_without_a_checkpoint_counts_as_empty_for_ever() {
    //= X34 test
    let ballot = crate::ballot::Ballot { round: 7, ..Default::default() };
    let stale = Record::Learnt { at: 0, item: crate::ballot::Item::Primary(3), body: None };
    let records = [stale.encode(), Record::Promised(ballot).encode(), Record::Decided(1).encode()];
    let (engine, written) = engine(&records);
    assert!(engine.acceptor().unwrap().is_blank() && engine.learner().next() == 0);
    assert_eq!(written, [(3 + 1, Record::Empty)]);
    let (began, promised, from) = Default::default();
    let start = crate::record::LogStart { log: crate::ballot::LogId(5), founders: Vec::new(), began, promised, from };
    let later = [Record::Empty, Record::Checkpoint(Box::new(start))].map(|record| record.encode());
    let (engine, _) = self::engine(&[records.to_vec(), later.to_vec()].concat());
    assert!(engine.acceptor().unwrap().votes() && engine.acceptor().unwrap().is_fresh());
    assert_eq!(engine.learner().next(), 0, "what an earlier log left counts no more");
}

/// Asks a node until the log says so.
fn declare(world: &mut World, node: u16, name: &str, from: Option<u64>) {
    let stands = (0..1_000).any(|_| {
        world.run(5);
        world.declare(node, name, from) == DeclareProgress::Stands
    });
    assert!(stands, "liveness: {name} is not declared\n{}", world.describe());
}

pub fn oldest(world: &World, node: usize) -> u64 {
    world.hosts[node].engine.retained().unwrap().first.0
}

#[test]
pub fn what_a_majority_of_the_copies_of_a_program_lacks_is_held_for_them_at_every_node() {
    //= X87 test
    let mut world = world(21, Storage::Memory, |config| config.retain_for = Duration::from_millis(300));
    let from = world.hosts[0].engine.learner().place() + 1;
    for (node, copy) in [(1, "ledger/a"), (2, "ledger/b"), (3, "ledger/c")] {
        declare(&mut world, node, copy, Some(from));
    }
    for _ in 0..30 {
        assert!(world.submit(0, 1_000));
        world.run(10);
    }
    for node in 0..4 {
        assert!(oldest(&world, node) <= from, "history: {} is the oldest, and {from} is wanted", oldest(&world, node));
    }
    declare(&mut world, 3, "ledger/a", Some(from + 20));
    world.run(1_000);
    assert!(oldest(&world, 0) <= from, "one of three keeps more");
    declare(&mut world, 0, "ledger/c", Some(from + 10));
    declare(&mut world, 0, "ledger/c", Some(from + 5));
    world.run(1_000);
    for node in 0..4 {
        assert!((from + 8..=from + 10).contains(&oldest(&world, node)), "two of three keep what stands below ten");
    }
    fill(&mut world, 0);
    assert!(oldest(&world, 0) > from + 20, "but no more than four times as much is held");
    assert!(world.hosts[0].engine.learner().bytes() <= 5 * RETAIN);
    ["ledger/a", "ledger/b", "ledger/c"].iter().for_each(|copy| declare(&mut world, 1, copy, None));
    world.run(1_000);
    assert_eq!(world.hosts[0].engine.learner().bytes(), 0, "nobody holds anything any more");
}

#[test]
fn what_is_declared_outlasts_all_nodes_and_those_that_begin_at_a_checkpoint_know_it() {
    //= X87 test
    let mut world = world(22, Storage::Sync, |config| config.retain_for = Duration::from_millis(300));
    fill(&mut world, 0);
    let from = world.hosts[0].engine.learner().place() + 1;
    declare(&mut world, 1, "ledger", Some(from));
    (0..4).for_each(|node| world.stop(node, if node == 3 { Disk::Lost } else { Disk::Kept }));
    (0..4).for_each(|node| world.restart(node));
    settles(&mut world);
    for _ in 0..20 {
        assert!(world.submit(0, 1_000));
        world.run(10);
    }
    world.run(1_000);
    settles(&mut world);
    for node in 0..4 {
        let declared = &world.hosts[node].engine.learner().head().declared;
        assert_eq!(declared.needed_by_holders(), Some(from), "at node {node}");
        assert!(oldest(&world, node) <= from, "at node {node}");
    }
}

#[test]
fn a_checkpoint_that_is_declared_is_not_proposed_again() {
    //= X87 test
    let mut world = world(23, Storage::Memory, |_| {});
    declare(&mut world, 3, "p7", Some(9));
    let next = world.hosts[0].engine.learner().next();
    declare(&mut world, 0, "p7", Some(9));
    assert_eq!(world.hosts[0].engine.learner().next(), next);
    declare(&mut world, 3, "p7", None);
}
