//! Acceptors in memory that forget their log one after the other, or all at once: nobody stays behind in it.
use super::world::{Disk, MS, World};
use crate::ballot::LogId;
use crate::config::Storage;
use consort_types::{NodeId, Rng};
use std::collections::BTreeSet;

/// Five nodes, of which so many vote, in memory. What they forget is not judged.
fn world(seed: u64, acceptors: u16) -> World {
    let mut world = World::new(seed, 5, acceptors, Storage::Memory);
    assert!(world.run_until(3_000, World::is_settled), "{}", world.describe());
    world.judge.off = true;
    world
}

fn again(world: &mut World, node: u16) {
    world.stop(node, Disk::Lost);
    world.restart(node);
}

/// Whether all are in one view of a log, and have read all of it.
fn is_whole(world: &World) -> bool {
    let engines = || world.hosts.iter().map(|host| &host.engine);
    let ends: BTreeSet<(LogId, u64)> = engines().map(|engine| (engine.log(), engine.learner().next())).collect();
    world.is_settled() && ends.len() == 1 && engines().all(|engine| engine.learner().present().primary)
}

fn comes_together(world: &mut World, what: &str) {
    assert!(world.run_until(8_000, is_whole), "liveness: {what}: {}", world.describe());
    let before = world.hosts[0].engine.learner().place();
    assert!(world.submit(3, 20), "liveness: {what}");
    let ordered = |world: &World| world.hosts.iter().all(|host| host.engine.learner().place() > before);
    assert!(world.run_until(2_000, ordered), "liveness: {what}: {}", world.describe());
}

#[test]
pub fn who_lives_on_follows_acceptors_that_have_all_restarted() {
    //= X100 test
    for (seed, acceptors) in (1..10).zip([1, 3, 5].into_iter().cycle()) {
        let mut world = world(seed, acceptors);
        (0..30).for_each(|_| assert!(world.submit(3, 100)));
        world.run(50);
        (0..acceptors).for_each(|node| again(&mut world, node));
        comes_together(&mut world, &format!("seed {seed}, {acceptors} acceptors"));
    }
}

#[test]
fn acceptors_that_restart_too_soon_after_each_other_begin_anew() {
    //= X100 test
    for seed in 1..200 {
        let mut world = world(seed, 3);
        (0..30).for_each(|_| assert!(world.submit(3, 100)));
        for node in 0..3 {
            again(&mut world, node);
            let pause = world.rng.below(300);
            world.run(pause);
        }
        comes_together(&mut world, &format!("seed {seed}"));
    }
}

#[test]
pub fn no_log_is_left_while_enough_acceptors_vote_in_it() {
    //= X100 test
    //= X101 test
    for seed in 100..700 {
        let mut rng = Rng::new(seed);
        let mut world = world(seed, [1, 3, 5][rng.below(3) as usize]);
        for _ in 0..rng.between(3, 25) {
            let node = rng.below(5) as u16;
            match rng.below(8) {
                0 => (0..5).filter(|other| *other != node).for_each(|other| world.cut(node, other)),
                1 => world.heal(),
                2 => {
                    let other = (node + 1 + rng.below(4) as u16) % 5;
                    world.cut(node, other);
                }
                3 => world.break_link(node, (node + 1) % 5),
                4 => drop(world.submit(node, 200)),
                _ if rng.chance(0.3) => world.stop(node, Disk::Lost),
                _ => again(&mut world, node),
            }
            let most = [5, 100, 700][rng.below(3) as usize];
            for _ in 0..rng.below(most) {
                world.run(1);
                assert!(world.left_alive == 0, "one log: seed {seed} at {} ms: {}", world.now / MS, world.describe());
            }
        }
        world.heal();
        (0..5).for_each(|node| world.restart(node));
        comes_together(&mut world, &format!("seed {seed}"));
        assert!(world.left_alive == 0, "one log: seed {seed}");
    }
}

/// How many acceptors vote in a log.
pub fn voters(world: &World, log: LogId) -> usize {
    let votes = |node: &&NodeId| {
        let host = &world.hosts[usize::from(node.0)];
        host.up && host.engine.log() == log && host.engine.acceptor().is_some_and(|acceptor| acceptor.votes())
    };
    world.config.acceptors.iter().filter(votes).count()
}
