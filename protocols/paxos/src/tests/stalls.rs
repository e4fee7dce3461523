//! Disks that stall while those of the others go on.
use super::world::{Disk, World};
use crate::config::{Config, Storage};
use crate::coordinator::Role;
use consort_types::NodeId;

/// What a window holds.
const WINDOW: usize = 16 << 10;

fn world(seed: u64, storage: Storage) -> World {
    let mut config = Config::new(NodeId(0), (0..3).map(NodeId).collect());
    (config.storage, config.value, config.window_bytes) = (storage, 1_024, WINDOW);
    let mut world = World::with(seed, config);
    settles(&mut world);
    world
}

fn settles(world: &mut World) {
    assert!(world.run_until(8_000, World::is_settled), "{:?}\n{}", world.judge.owed(world), world.describe());
}

/// Orders some 200 KB.
fn fill(world: &mut World, node: u16) {
    for _ in 0..200 {
        assert!(world.submit(node, 1_000));
        world.run(5);
    }
}

fn leads(world: &World, node: u16) -> bool {
    matches!(world.hosts[usize::from(node)].engine.role(), Role::Leading(_))
}

/// The node whose disk stalls, and another.
fn cast(world: &World, leads_too: bool) -> (u16, u16) {
    let leader = (0..3).find(|node| leads(world, *node)).expect("somebody leads");
    let follower = (0..3).find(|node| *node != leader).expect("three nodes");
    if leads_too { (leader, follower) } else { (follower, leader) }
}

/// Its disk takes nothing while some 200 KB are ordered by the others, and it delivers them all the same.
fn stalls(world: &mut World, node: u16, other: u16) {
    world.stall(node);
    fill(world, other);
    settles(world);
    let limit = world.config.unwritten();
    let waits = world.waiting(node);
    assert!(waits > limit / 2, "{waits} bytes wait: the disk stalled");
    assert!(waits <= limit + 8_192, "room: {waits} bytes wait for a disk, where there is room for {limit}");
}

#[test]
pub fn little_waits_for_a_disk_that_stalls() {
    let mut world = world(1, Storage::Sync);
    let (node, other) = cast(&world, false);
    stalls(&mut world, node, other);
}

#[test]
fn an_acceptor_whose_disk_stalls_waits_with_its_votes_and_goes_on_when_it_has_caught_up() {
    //= X28 test
    for (seed, storage, leads_too) in
        [(1, Storage::Sync, false), (2, Storage::Async, false), (3, Storage::Sync, true), (4, Storage::Async, true)]
    {
        let mut world = world(seed, storage);
        let (node, other) = cast(&world, leads_too);
        stalls(&mut world, node, other);
        world.unstall(node);
        world.run(500);
        assert_eq!(world.waiting(node), 0);
        // Without one of those that voted its vote is needed, and its disk has what they told it.
        world.stop(other, Disk::Kept);
        fill(&mut world, node);
        settles(&mut world);
        world.restart(other);
        settles(&mut world);
        world.stop(node, Disk::Kept);
        world.run(50);
        world.restart(node);
        settles(&mut world);
    }
}

#[test]
fn what_was_learnt_while_a_disk_stalled_is_written_once_it_goes_on() {
    //= X29 test
    let mut world = world(5, Storage::Sync);
    let (node, other) = cast(&world, false);
    stalls(&mut world, node, other);
    world.unstall(node);
    world.run(500);
    world.stop(node, Disk::Kept);
    let known = world.hosts[usize::from(other)].engine.learner().next();
    world.restart(node);
    let read = world.hosts[usize::from(node)].engine.learner().next();
    assert!(read + 16 >= known, "{read} of {known} stood on its disk");
    settles(&mut world);
}

#[test]
fn one_that_crashes_while_its_disk_stalls_has_forgotten_nothing_that_it_said() {
    //= X28 test
    for seed in 10..30 {
        let mut world = world(seed, Storage::Sync);
        let (node, other) = cast(&world, seed % 2 == 0);
        stalls(&mut world, node, other);
        world.stop(node, Disk::Kept);
        world.unstall(node);
        world.restart(node);
        world.stop(other, Disk::Kept);
        world.run(100);
        world.restart(other);
        settles(&mut world);
    }
}

#[test]
fn what_the_others_have_let_go_of_is_no_gap_on_the_disk() {
    //= X29 test
    for seed in 40..50 {
        let mut config = Config::new(NodeId(0), (0..3).map(NodeId).collect());
        (config.storage, config.value, config.window_bytes) = (Storage::Sync, 1_024, 4 << 10);
        config.retain = 16 << 10;
        let mut world = World::with(seed, config);
        settles(&mut world);
        let (node, other) = cast(&world, false);
        stalls(&mut world, node, other);
        world.unstall(node);
        world.run(500);
        world.stop(node, Disk::Kept);
        world.restart(node);
        settles(&mut world);
    }
}
