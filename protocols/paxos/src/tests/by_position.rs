//! What can be read again, by position.
use super::world::{Disk, World};
use crate::config::Storage;
use consort_order::{Delivery, Engine, Retained};
use consort_types::Position;

fn settled(seed: u64, storage: Storage) -> World {
    let mut world = World::new(seed, 3, 3, storage);
    assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
    world
}

fn settles(world: &mut World) {
    assert!(world.run_until(3_000, World::is_settled), "{}", world.describe());
}

/// At most so many messages of a node's from a position on.
fn read(world: &World, node: u16, from: u64, most: usize) -> Vec<Delivery> {
    let mut seen = Vec::new();
    let engine = &world.hosts[usize::from(node)].engine;
    Engine::replay(engine, Position(from), &mut |delivery| {
        seen.push(delivery.clone());
        seen.len() < most
    });
    seen
}

fn retained(world: &World, node: u16) -> Retained {
    world.hosts[usize::from(node)].engine.retained().unwrap()
}

#[test]
fn every_node_reads_the_same_again_whoever_restarted() {
    //= X46 test
    //= X90 test
    let mut world = settled(21, Storage::Memory);
    for round in 0..30 {
        (0..3).for_each(|node| assert!(world.submit(node, 20 + round) || node == 1));
        if round == 10 {
            settles(&mut world);
            world.stop(1, Disk::Kept);
        }
        if round == 20 {
            world.restart(1);
            settles(&mut world);
        }
        world.submit(2, 60_000);
        world.run(20);
    }
    settles(&mut world);
    let all = retained(&world, 0);
    assert_eq!(all.first, Position(1));
    assert!(all.last.0 > 90, "{all:?}");
    for node in 0..3 {
        assert_eq!(retained(&world, node), all);
        let log = read(&world, node, 1, usize::MAX);
        assert_eq!(log.len() as u64, all.last.0);
        for (place, delivery) in (1..).zip(&log) {
            assert_eq!(delivery.position, Position(place));
            assert_eq!(Some(&delivery.payload.to_bytes()[..]), world.judge.stands_at(place), "n{node} at {place}");
        }
        for from in 1..=all.last.0 {
            let rest = &log[from as usize - 1..];
            assert_eq!(read(&world, node, from, 7), rest[..rest.len().min(7)], "n{node} from {from}");
        }
    }
}

#[test]
fn a_node_that_was_left_out_reads_what_it_was_not_delivered() {
    //= X90 test
    let mut world = settled(22, Storage::Memory);
    world.cut(0, 1);
    world.cut(0, 2);
    world.run(1_500);
    (0..20).for_each(|_| assert!(world.submit(1, 30)));
    world.run(500);
    let missed = retained(&world, 1).last;
    assert!(retained(&world, 0).last < missed);
    world.heal();
    let caught_up = |world: &World| retained(world, 0) == retained(world, 1);
    assert!(world.run_until(3_000, caught_up), "{}", world.describe());
    assert_eq!(read(&world, 0, 1, usize::MAX), read(&world, 1, 1, usize::MAX));
    assert!(read(&world, 0, missed.0, 1).len() == 1);
}

#[test]
fn nothing_is_shown_where_nothing_is_retained() {
    //= X90 test
    let world = World::new(23, 3, 3, Storage::Memory);
    assert_eq!(world.hosts[0].engine.retained(), None, "it has no log yet");
    let mut world = settled(23, Storage::Memory);
    let before = retained(&world, 0);
    assert_eq!(before.first.0, before.last.0 + 1, "nothing is ordered yet");
    assert!(world.submit(0, 10));
    settles(&mut world);
    let last = retained(&world, 0).last.0;
    assert!(read(&world, 0, 0, 9).is_empty() && read(&world, 0, last + 1, 9).is_empty());
    assert_eq!(read(&world, 0, last, 9).len(), 1);
}
