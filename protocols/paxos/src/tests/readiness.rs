//! Whether what is submitted is ordered soon, and what is said if not.
use super::world::{Disk, World};
use crate::config::Storage;
use crate::coordinator::Role;
use consort_order::{Engine, Obstacle};
use consort_types::Instant;

fn settled(nodes: u16, storage: Storage) -> World {
    let mut world = World::new(3, nodes, 3, storage);
    assert!(world.run_until(3_000, World::is_settled), "{}", world.describe());
    world
}

fn obstacle(world: &World, node: u16) -> Option<Obstacle> {
    world.hosts[usize::from(node)].engine.obstacle(Instant(world.now))
}

fn lacks(world: &World, node: u16) -> String {
    obstacle(world, node).map_or_else(String::new, |obstacle| obstacle.to_string())
}

#[test]
fn who_does_not_vote_is_named_until_a_quorum_does() {
    //= X110 test
    let mut world = settled(4, Storage::Sync);
    assert!((0..4).all(|node| obstacle(&world, node).is_none()), "{}", world.describe());
    world.stop(1, Disk::Kept);
    world.run(1_500);
    assert_eq!([0, 2, 3].map(|node| obstacle(&world, node)), [None, None, None], "two of three vote");
    world.stop(2, Disk::Lost);
    world.run(1_500);
    let silent = "2 of 3 acceptors must run and vote, and 1 does: n1 n2 do not answer";
    assert_eq!([0, 3].map(|node| lacks(&world, node)), [silent, silent], "also one that does not vote itself says so");
    world.restart(2);
    world.run(1_500);
    let forgot = "2 of 3 acceptors must run and vote, and 1 does: n1 does not answer; n2 has lost its votes";
    assert_eq!([0, 3].map(|node| lacks(&world, node)), [forgot, forgot]);
    world.restart(1);
    assert!(world.run_until(5_000, World::is_settled), "{}", world.describe());
    assert!((0..4).all(|node| obstacle(&world, node).is_none()), "{}", world.describe());
}

#[test]
fn before_the_first_start_of_all_acceptors_it_is_said_that_all_must_run() {
    //= X110 test
    let mut world = World::new(3, 3, 3, Storage::Memory);
    world.run(20);
    world.stop(2, Disk::Lost);
    world.run(1_500);
    let begins = "no order is known here: one begins once all 3 acceptors run, and 2 do: n2 does not answer";
    assert_eq!([0, 1].map(|node| lacks(&world, node)), [begins, begins]);
}

#[test]
fn nodes_without_a_leader_or_outside_the_view_say_so() {
    //= X56 test
    let mut world = settled(3, Storage::Memory);
    let leads = |node: &u16| matches!(world.hosts[usize::from(*node)].engine.role(), Role::Leading(_));
    let leader = (0..3).find(leads).unwrap();
    world.stop(leader, Disk::Lost);
    let other = (0..3).find(|node| *node != leader).unwrap();
    assert!(world.run_until(2_000, |world| obstacle(world, other).is_some()), "{}", world.describe());
    assert_eq!(lacks(&world, other), "no acceptor leads yet");
    assert!(world.run_until(2_000, |world| obstacle(world, other).is_none()), "{}", world.describe());
    world.restart(leader);
    world.run(30);
    assert!(obstacle(&world, leader).is_some(), "{}", world.describe());
    assert!(world.run_until(3_000, |world| obstacle(world, leader).is_none()), "{}", world.describe());
    world.leave(other);
    assert_eq!(obstacle(&world, other), Some(Obstacle::Leaving));
}

#[test]
fn a_disk_that_keeps_nothing_for_a_second_hangs_and_others_learn_of_it() {
    //= X111 test
    let mut world = settled(3, Storage::Sync);
    // What was written at the start is on all disks.
    world.run(1_000);
    [1, 2].iter().for_each(|node| world.stall(*node));
    world.run(3_000);
    assert!((0..3).all(|node| obstacle(&world, node).is_none()), "nothing was to be written");
    assert!(world.submit(0, 100));
    world.run(500);
    assert!((0..3).all(|node| obstacle(&world, node).is_none()), "a disk may take its time");
    world.run(1_000);
    let hang = "2 of 3 acceptors must run and vote, and 1 does: n1 n2 run, but their disks hang";
    assert_eq!([0, 1, 2].map(|node| lacks(&world, node)), [hang, hang, hang]);
    world.unstall(1);
    assert!(world.run_until(3_000, |world| (0..3).all(|node| obstacle(world, node).is_none())), "{}", world.describe());
    world.unstall(2);
    assert!(world.run_until(3_000, World::is_settled), "{}", world.describe());
}
