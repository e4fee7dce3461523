//! What a registry advises: followed where that costs no promise, and seldom.
use super::solo::{LOG, ME, Solo, ballot, beat, lead, other, says};
use super::world::{Disk, World};
use crate::ballot::Incarnations;
use crate::config::Storage;
use crate::coordinator::Role;
use crate::packet::{Acceptance, Beat, Content};
use consort_order::{Advice, Destination, Engine};
use consort_types::{Instant, NodeId, OrderStream};

const STREAM: OrderStream = OrderStream(0);

fn settled(seed: u64, nodes: u16, acceptors: u16) -> World {
    let mut world = World::new(seed, nodes, acceptors, Storage::Sync);
    assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
    world
}

fn leads(world: &World, node: u16) -> bool {
    let host = &world.hosts[usize::from(node)];
    host.up && matches!(host.engine.role(), Role::Leading(_))
}

fn leader(world: &World) -> Option<u16> {
    (0..world.nodes()).find(|node| leads(world, *node))
}

/// All nodes are told the same.
fn advise(world: &mut World, node: Option<u16>) {
    (0..world.nodes()).for_each(|at| advise_one(world, at, node));
}

fn advise_one(world: &mut World, at: u16, node: Option<u16>) {
    let advice = Advice::Leader { stream: STREAM, node: node.map(NodeId) };
    world.hosts[usize::from(at)].engine.advise(Instant(world.now), advice);
}

/// How often anybody began to lead.
fn terms(world: &World) -> u64 {
    let mut sum = 0;
    for host in &world.hosts {
        host.engine.each_counter(&mut |name, value| sum += if name == "terms_led" { value } else { 0 });
    }
    sum
}

fn settles(world: &mut World) {
    let settles = world.run_until(3_000, World::is_settled);
    assert!(settles, "liveness: {:?}\n{}", world.judge.owed(world), world.describe());
}

#[test]
fn the_coordinator_hands_over_to_the_one_advised_under_load_and_loses_nothing() {
    //= X97 test
    for seed in 1..=20 {
        let mut world = settled(seed, 5, 3);
        let (views, before) = (world.hosts[0].engine.learner().present().number, terms(&world));
        assert_eq!(leader(&world), Some(0));
        advise(&mut world, Some(2));
        let (mut longest, mut since, mut seen) = (0, world.now, world.judge.deliveries);
        for at in 0..6_000 {
            world.submit(at % 5, 40);
            world.run(1);
            if world.judge.deliveries > seen {
                (longest, since, seen) = (longest.max(world.now - since), world.now, world.judge.deliveries);
            }
        }
        assert_eq!((leader(&world), terms(&world) - before), (Some(2), 1), "seed {seed}: {}", world.describe());
        assert!(longest < 60_000_000, "seed {seed}: nothing was ordered for {longest} ns");
        settles(&mut world);
        assert_eq!(world.hosts[0].engine.learner().present().number, views, "nobody lost its place");
    }
}

#[test]
fn the_one_advised_goes_first_where_a_coordinator_is_missing() {
    //= X96 test
    for seed in 1..=10 {
        let mut world = settled(seed, 5, 5);
        advise(&mut world, Some(3));
        let first = leader(&world).unwrap();
        assert!(first != 3);
        world.stop(first, Disk::Kept);
        assert!(world.run_until(1_000, |world| leader(world).is_some()), "{}", world.describe());
        assert_eq!((leader(&world), terms(&world)), (Some(3), 2), "seed {seed}: {}", world.describe());
    }
}

#[test]
pub fn an_advised_node_that_is_not_there_is_not_waited_for() {
    //= X96 test
    //= X97 test
    let mut world = settled(3, 5, 5);
    world.stop(4, Disk::Kept);
    advise(&mut world, Some(4));
    settles(&mut world);
    let before = terms(&world);
    world.run(30_000);
    assert!(leads(&world, 0) && terms(&world) == before, "advice: {}", world.describe());
    world.stop(0, Disk::Kept);
    assert!(world.run_until(500, |world| leader(world).is_some()), "advice: {}", world.describe());
    assert_eq!(leader(&world), Some(1));
    world.restart(4);
    assert!(world.run_until(8_000, |world| leads(world, 4)), "advice: once it is back: {}", world.describe());
    settles(&mut world);
}

#[test]
pub fn advice_that_changes_all_the_time_changes_coordinators_seldom() {
    //= X97 test
    let mut world = settled(4, 3, 3);
    let before = terms(&world);
    for at in 0..600 {
        advise(&mut world, Some(at % 3));
        world.submit(at % 3, 30);
        world.run(50);
    }
    let led = terms(&world) - before;
    assert!((1..=6).contains(&led), "advice: {led} coordinators in 30 s");
    settles(&mut world);
}

#[test]
fn two_registries_that_contradict_each_other_are_followed_ever_more_seldom() {
    //= X97 test
    let mut world = settled(5, 3, 3);
    let before = terms(&world);
    advise_one(&mut world, 0, Some(1));
    advise_one(&mut world, 1, Some(0));
    advise_one(&mut world, 2, Some(1));
    world.run(600_000);
    let led = terms(&world) - before;
    assert!((6..=16).contains(&led), "advice: {led} coordinators in ten minutes");
    settles(&mut world);
}

#[test]
fn whatever_is_advised_whenever_no_promise_is_broken() {
    //= X97 test
    for seed in 1..=40 {
        let mut world = settled(seed, 4, 3);
        world.loss = 0.02;
        for at in 0..800 {
            let (node, other) = (world.rng.below(4) as u16, world.rng.below(4) as u16);
            match world.rng.below(60) {
                0..20 => advise_one(&mut world, node, Some(other)),
                20 => advise(&mut world, None),
                21..24 => advise(&mut world, Some(other)),
                24 => world.stop(node, Disk::Kept),
                25..30 => world.restart(node),
                30 if node != other => world.break_link(node, other),
                _ => {}
            }
            world.submit(at % 4, 30);
            world.run(25);
        }
        world.heal();
        (0..4).for_each(|node| world.restart(node));
        settles(&mut world);
    }
}

/// One that waits for the coordinator of this round, which others hear, too.
fn following(round: u64) -> (Solo, crate::ballot::Ballot) {
    let mut solo = Solo::voting(3);
    let first = ballot(round, other(1));
    solo.hand(other(1), lead(first, &[1, 2, 0]));
    assert_eq!(solo.engine.log(), LOG);
    (solo, first)
}

#[test]
fn whoever_is_to_lead_stands_at_once_and_others_wait_for_it() {
    //= X97 test
    let asks = |said: &[(Destination, Content)]| says(said, |content| matches!(content, Content::Prepare { .. }));
    let (mut solo, first) = following(7);
    let said = solo.hand(other(1), Content::Yield { ballot: first, to: ME });
    assert!(asks(&said) && matches!(solo.engine.role(), Role::Preparing { .. }));

    let (mut solo, first) = following(7);
    assert!(!asks(&solo.hand(other(1), Content::Yield { ballot: first, to: other(2) })));
    // What the first has said before comes late.
    solo.hand(other(1), lead(first, &[1, 2, 0]));
    let next = ballot(8, other(2));
    let said = solo.hand(other(2), Content::Prepare { ballot: next, from: 0 });
    assert!(says(&said, |content| matches!(content, Content::Promise { .. })), "{said:?}");
}

#[test]
fn only_the_coordinator_itself_hands_over() {
    //= X97 test
    let (mut solo, first) = following(7);
    for (from, ballot) in [(other(2), first), (other(2), ballot(9, other(2))), (other(1), ballot(9, other(2)))] {
        let said = solo.hand(from, Content::Yield { ballot, to: ME });
        assert!(said.is_empty() && matches!(solo.engine.role(), Role::Follower { .. }), "{from}: {said:?}");
    }
    let said = solo.hand(other(2), Content::Prepare { ballot: ballot(8, other(2)), from: 0 });
    assert!(says(&said, |content| matches!(content, Content::Nack { .. })), "its lease holds");
}

/// A coordinator of three that leads for long enough, after the second said these beats; whether it hands over.
fn hands_over(said: impl Fn(Beat) -> Beat) -> bool {
    let (mut solo, _) = Solo::leading(3);
    solo.engine.advise(Instant(2_000_000_000), Advice::Leader { stream: STREAM, node: Some(NodeId(1)) });
    let mut number = 0;
    (0..250).any(|_| {
        let echo = solo.echo();
        for node in [1, 2] {
            number += 1;
            let beat = Beat { number, echo, ..beat(crate::ballot::Ballot::ZERO) };
            let beat = if node == 1 { said(beat) } else { beat };
            solo.hand(other(node), Content::Beat(Box::new(beat)));
        }
        let told = solo.tick();
        for content in told.iter().map(|(_, content)| content) {
            if let Content::Accept { ballot, at, .. } = content {
                solo.hand(other(2), Content::Vote { ballot: *ballot, at: *at, incarnations: Incarnations::default() });
            }
        }
        says(&told, |content| matches!(content, Content::Yield { to, .. } if *to == other(1)))
    })
}

#[test]
fn one_that_could_not_lead_well_is_not_handed_over_to() {
    //= X97 test
    assert!(hands_over(|beat| beat));
    assert!(!hands_over(|beat| Beat { acceptor: Acceptance::Blank, ..beat }), "it may have forgotten");
    assert!(!hands_over(|beat| Beat { leaving: true, ..beat }), "it leaves");
    assert!(!hands_over(|beat| Beat { hears: vec![other(2)], ..beat }), "it does not hear the coordinator");
}

#[test]
fn the_ring_stands_in_the_order_that_is_advised() {
    //= X99 test
    let mut world = settled(6, 5, 3);
    let ring = |world: &World| match world.hosts[0].engine.role() {
        Role::Leading(leading) => leading.ring.iter().map(|node| node.0).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    assert_eq!(ring(&world), [0, 1, 2, 3, 4]);
    let order = |nodes: &[u16]| Advice::Order { stream: STREAM, nodes: nodes.iter().copied().map(NodeId).collect() };
    for (advised, wanted) in [
        (&[4, 2, 0, 3, 1][..], [0, 3, 1, 4, 2]),
        (&[4, 77, 1], [0, 4, 1, 2, 3]),
        (&[0, 3], [0, 3, 1, 2, 4]),
        (&[], [0, 1, 2, 3, 4]),
    ] {
        world.hosts[0].engine.advise(Instant(world.now), order(advised));
        world.run(60);
        assert_eq!(ring(&world), wanted, "{advised:?}");
        world.submit(3, 30);
        settles(&mut world);
    }
}
