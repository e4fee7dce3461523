//! Acceptors whose disks were put back to an earlier state: what they voted since is not forgotten by the others.
use super::world::{Disk, World};
use crate::config::Storage;

pub fn world(seed: u64, nodes: u16) -> World {
    let mut world = World::new(seed, nodes, nodes, Storage::Sync);
    settles(&mut world);
    world
}

pub fn settles(world: &mut World) {
    assert!(world.run_until(4_000, World::is_settled), "liveness: {}", world.describe());
}

/// A node ends and begins its next incarnation, with its disk as it is.
fn again(world: &mut World, node: u16) {
    world.stop(node, Disk::Kept);
    world.restart(node);
    settles(world);
}

/// Node 0 is saved, votes on with node 1 alone, and is put back while only node 2, which missed that, is there.
#[test]
pub fn a_copy_does_not_vote_before_a_majority_of_others_answers() {
    //= X36 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        assert!(world.submit(1, 20));
        settles(&mut world);
        world.save(0);
        world.stop(2, Disk::Kept);
        settles(&mut world);
        again(&mut world, 0);
        (0..3).for_each(|_| assert!(world.submit(1, 20)));
        settles(&mut world);
        world.stop(0, Disk::PutBack);
        world.stop(1, Disk::Kept);
        [0, 2].into_iter().for_each(|node| world.restart(node));
        assert!(world.submit(2, 20));
        world.run(4_000);
        let votes = world.hosts[0].engine.acceptor().unwrap().votes();
        assert!(!votes, "one value: it votes though node 1 knows more");
        let said = world.hosts[0].engine.describe(consort_types::Instant(world.now));
        assert!(said.contains("asks whether its records are the newest"), "{said}");
        world.restart(1);
        settles(&mut world);
        assert_eq!(world.restarts, 1, "it begins without its records");
        assert!(world.submit(0, 20));
        settles(&mut world);
    }
}

#[test]
fn a_copy_that_is_the_newest_votes_again() {
    //= X36 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        assert!(world.submit(1, 20));
        settles(&mut world);
        (0..3).for_each(|node| world.stop(node, Disk::Kept));
        // All machines are replaced at once, and their disks copied.
        (0..3).for_each(|node| world.copy(node));
        (0..3).for_each(|node| world.restart(node));
        settles(&mut world);
        assert_eq!(world.restarts, 0);
        // It was confirmed, and is not asked for again.
        world.stop(0, Disk::Kept);
        settles(&mut world);
        world.stop(2, Disk::Kept);
        world.restart(0);
        settles(&mut world);
    }
}

/// What the disk itself does not show, such as a snapshot of a virtual machine, another acceptor knows.
#[test]
pub fn records_that_end_before_a_vote_another_knows_of_count_as_lost() {
    //= X35 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        world.save(0);
        again(&mut world, 0);
        (0..5).for_each(|_| assert!(world.submit(1, 20)));
        settles(&mut world);
        world.stop(0, Disk::PutBack);
        world.hosts[0].copied = false;
        world.restart(0);
        assert!(world.run_until(4_000, |world| world.restarts == 1), "put back: {}", world.describe());
        settles(&mut world);
        assert!(world.submit(0, 20));
        settles(&mut world);
    }
}

#[test]
fn a_lone_acceptor_goes_on_with_what_it_has() {
    let mut world = world(1, 1);
    assert!(world.submit(0, 20));
    settles(&mut world);
    world.stop(0, Disk::Kept);
    world.copy(0);
    world.restart(0);
    settles(&mut world);
}
