//! Scenes: what happens once in a long while, made to happen.
use super::solo::{Solo, beat, other};
use super::world::{Disk, World};
use crate::ballot::{Ballot, ValueId};
use crate::config::Storage;
use crate::coordinator::Role;
use crate::packet::{Beat, Content, Packet};
use consort_order::{Destination, Engine, Link, Output};
use consort_types::{Incarnation, Instant, NodeId, OrderWait};
use std::cell::RefCell;
use std::collections::BTreeSet;

fn settled(seed: u64, nodes: u16, acceptors: u16, storage: Storage) -> World {
    let mut world = World::new(seed, nodes, acceptors, storage);
    assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
    world
}

fn leader(world: &World) -> u16 {
    let leads = |host: &super::world::Host| host.up && matches!(host.engine.role(), Role::Leading(_));
    world.hosts.iter().position(leads).unwrap() as u16
}

fn settles(world: &mut World, ms: u64) {
    assert!(world.run_until(ms, World::is_settled), "{:?}\n{}", world.judge.owed(world), world.describe());
}

#[test]
pub fn nobody_uses_a_ballot_before_its_disk_holds_it() {
    //= X02 test
    //= X03 test
    let mut world = World::new(3, 3, 3, Storage::Sync);
    let config = crate::Config { me: NodeId(0), ..world.config.clone() };
    let mut engine = crate::Paxos::new(config, Incarnation(9)).unwrap();
    // It knows its log, and that it promised round 41 to an earlier incarnation of its own.
    let (began, promised, from) = Default::default();
    let start = crate::record::LogStart { log: crate::ballot::LogId(5), founders: Vec::new(), began, promised, from };
    let log = crate::record::Record::Checkpoint(Box::new(start)).encode();
    let owner = consort_types::MemberId::new(0, 8);
    let old = Ballot { generation: 0, round: 41, owner };
    engine.start(Instant::ZERO, &[log, crate::record::Record::Promised(old).encode()]);
    world.run(1);
    engine.begin_to_stand(Instant(1));
    let sent = |engine: &mut crate::Paxos| {
        let (mut prepares, mut tickets) = (Vec::new(), Vec::new());
        while let Some(output) = engine.poll_output() {
            match output {
                Output::Send { packet: Packet { content: Content::Prepare { ballot, .. }, .. }, .. } => {
                    prepares.push(ballot);
                }
                Output::Persist { ticket, sync: true, .. } => tickets.push(ticket),
                _ => {}
            }
        }
        (prepares, tickets)
    };
    let (prepares, tickets) = sent(&mut engine);
    assert!((prepares.len(), tickets.len()) == (0, 1), "kept first: it asks by {prepares:?}");
    engine.handle_persisted(Instant(2), tickets[0]);
    let (prepares, _) = sent(&mut engine);
    assert_eq!(prepares.len(), 2);
    let new = |ballot: &Ballot| ballot.round == 42 && ballot.owner.incarnation == Incarnation(9);
    assert!(prepares.iter().all(new), "ballots: {prepares:?} after round 41");
}

#[test]
fn a_minority_orders_nothing_and_takes_up_the_order_where_it_left_it() {
    //= X25 test
    //= X45 test
    let mut world = settled(1, 5, 5, Storage::Sync);
    for a in 0..2 {
        for b in 2..5 {
            world.cut(a, b);
            world.cut(b, a);
        }
    }
    world.run(2_000);
    let before = world.judge.deliveries;
    (0..2).for_each(|node| assert!(world.submit(node, 20)));
    world.run(2_000);
    assert_eq!(world.judge.deliveries, before, "two of five");
    (2..5).for_each(|node| assert!(world.submit(node, 20)));
    world.run(200);
    assert_eq!(world.judge.deliveries, before + 9, "three of five");
    world.heal();
    settles(&mut world, 3_000);
    world.run(100);
    assert_eq!(
        world.judge.deliveries,
        before + 9 + 10,
        "those that were away are not given what they were no members for"
    );
}

#[test]
fn a_coordinator_that_is_killed_is_replaced_within_half_a_second() {
    //= X72 test
    for seed in 1..=20 {
        let mut world = settled(seed, 3, 3, Storage::Sync);
        let first = leader(&world);
        world.stop(first, Disk::Kept);
        let before = world.judge.deliveries;
        let other = (first + 1) % 3;
        world.submit(other, 30);
        assert!(world.run_until(500, |world| world.judge.deliveries > before), "seed {seed}: {}", world.describe());
    }
}

#[test]
pub fn a_coordinator_stands_again_above_what_one_that_hears_it_has_promised() {
    //= X77 test
    let mut world = settled(1, 5, 5, Storage::Memory);
    let views = |world: &World| world.hosts.iter().map(|host| host.engine.learner().present().number).max();
    let before = views(&world);
    assert_eq!(leader(&world), 0);
    // For a moment nobody hears it, and it hears no other coordinator: it stands three times.
    world.filter = Some(|from, to, packet| match &packet.content {
        Content::Beat(beat) => from != NodeId(0) && !(to == NodeId(0) && beat.lead.is_some()),
        Content::Prepare { .. } | Content::Value(_) => from != NodeId(0),
        _ => true,
    });
    let another = |world: &World| (1..5).any(|node| matches!(world.hosts[node].engine.role(), Role::Leading(_)));
    assert!(world.run_until(1_000, another), "{}", world.describe());
    (0..3).for_each(|_| world.hosts[0].engine.begin_to_stand(Instant(world.now)));
    assert!(world.submit(0, 30));
    world.run(2);
    world.filter = None;
    let ordered = world.run_until(2_000, World::is_settled);
    assert!(ordered, "liveness: {:?}\n{}", world.judge.owed(&world), world.describe());
    assert_eq!(views(&world), before, "nothing else happened");
}

/// Three acceptors, far from each other, of which the coordinator is killed: how often the others lead until all is well.
fn leads_once_two_are_left(seed: u64) -> u64 {
    let mut config = crate::Config::new(NodeId(0), (0..3).map(NodeId).collect());
    let ms = consort_types::Duration::from_millis;
    (config.beat, config.lease, config.silence, config.retry) = (ms(100), ms(500), ms(1_000), ms(500));
    let mut world = World::with(seed, config);
    world.set_apart(90, 90);
    assert!(world.run_until(9_000, World::is_settled), "{}", world.describe());
    world.run(seed * 7);
    let first = leader(&world);
    world.stop(first, Disk::Kept);
    let others = || (0..3).filter(|node| *node != first);
    let led = |world: &World| others().map(|node| gauge(world, node, "terms_led")).sum::<u64>();
    let before = led(&world);
    assert!(world.submit((first + 1) % 3, 30));
    settles(&mut world, 20_000);
    led(&world) - before
}

#[test]
pub fn two_that_are_far_from_each_other_do_not_lead_in_turn() {
    //= X70 test
    // Each of them stands before it has heard of the other; then one gives way.
    for seed in 1..=60 {
        let led = leads_once_two_are_left(seed);
        assert!(led <= 2, "lease: seed {seed}: they led {led} times");
    }
}

thread_local! {
    /// The names that were asked for, and how many times any of them was.
    static FETCHED: RefCell<(BTreeSet<ValueId>, usize)> = const { RefCell::new((BTreeSet::new(), 0)) };
}

/// Keeps everything open, and counts what is asked for.
fn counts_fetches(_: NodeId, _: NodeId, packet: &Packet) -> bool {
    if let Content::Fetch(names) = &packet.content {
        FETCHED.with_borrow_mut(|(all, times)| {
            all.extend(names);
            *times += names.len();
        });
    }
    !matches!(packet.content, Content::Vote { .. })
}

#[test]
pub fn what_an_acceptor_that_recovers_lacks_is_asked_for_once_in_a_while() {
    //= X78 test
    FETCHED.take();
    let mut world = settled(1, 3, 3, Storage::Memory);
    world.filter = Some(counts_fetches);
    let len = world.config.value;
    (0..8).for_each(|number| assert!(world.submit(number % 2, len)));
    world.stop(2, Disk::Lost);
    world.run(20);
    FETCHED.take();
    world.restart(2);
    world.run(150);
    let (names, times) = FETCHED.take();
    assert!(names.len() >= 4, "{} names: {}", names.len(), world.describe());
    assert!(times <= 2 * names.len(), "traffic: {} names were asked for {times} times", names.len());
    world.filter = None;
    settles(&mut world, 3_000);
}

#[test]
fn a_crash_is_told_in_half_a_second_and_a_link_that_breaks_alone_is_none() {
    //= X74 test
    for seed in 1..=20 {
        let mut world = settled(seed, 3, 3, Storage::Memory);
        let views = |world: &World| world.hosts[0].engine.learner().present().number;
        let before = views(&world);
        world.filter = Some(|_, _, packet| matches!(packet.content, Content::Beat(_)));
        world.break_link(0, 2);
        world.run(400);
        assert_eq!(views(&world), before, "its beats are heard");
        world.filter = None;
        world.stop(2, Disk::Kept);
        assert!(world.run_until(500, |world| views(world) > before), "seed {seed}: {}", world.describe());
    }
}

#[test]
fn a_node_that_no_link_reaches_is_left_out_though_its_beats_are_heard() {
    //= X74 test
    //= X60 test
    let mut world = settled(7, 4, 3, Storage::Memory);
    let present = |world: &World| world.hosts[0].engine.learner().present().last.len();
    let all = (0..3).flat_map(|node| [(node, 3), (3, node)]);
    world.unlinked.extend(all);
    (0..3).for_each(|node| world.break_link(node, 3));
    assert!(world.run_until(1_500, |world| present(world) == 3), "{}", world.describe());
    world.heal();
    assert!(world.run_until(1_500, |world| present(world) == 4), "{}", world.describe());
    settles(&mut world, 2_000);
    assert_eq!(world.judge.why(0, 1), "n3 joined");
    assert_eq!(world.judge.why(3, 1), "n0, n1, n2 joined", "it comes back, and does not begin");
}

#[test]
fn values_go_around_a_link_that_stays_broken() {
    //= X60 test
    let mut world = settled(8, 5, 3, Storage::Memory);
    let first = leader(&world);
    let (a, b) = {
        let mut others = (0..5).filter(|node| *node != first);
        (others.next().unwrap(), others.next().unwrap())
    };
    world.unlinked.extend([(a, b), (b, a)]);
    world.break_link(a, b);
    world.run(1_000);
    let before = world.judge.deliveries;
    world.submit(a, 30);
    assert!(world.run_until(60, |world| world.judge.deliveries >= before + 5), "{}", world.describe());
    settles(&mut world, 2_000);
}

#[test]
fn clients_of_a_minority_are_told_that_they_wait_for_a_quorum() {
    //= X56 test
    let mut world = settled(5, 3, 3, Storage::Sync);
    let waits = |world: &World| {
        let engine = &world.hosts[0].engine;
        engine.obstacle(Instant(world.now)).map(|obstacle| obstacle.wait()).or_else(|| engine.wait_cause())
    };
    assert_eq!(waits(&world), None);
    world.stop(1, Disk::Kept);
    world.stop(2, Disk::Kept);
    world.submit(0, 100);
    assert_eq!(waits(&world), Some(OrderWait::Window), "nobody is missed yet");
    world.run(1_000);
    assert!(world.hosts[0].engine.members().is_some(), "no majority decides that it is alone");
    assert_eq!(waits(&world), Some(OrderWait::Quorum));
    world.restart(1);
    settles(&mut world, 3_000);
    assert_eq!(waits(&world), None);
}

#[test]
fn a_view_names_who_is_gone_and_who_came() {
    let mut world = settled(5, 4, 3, Storage::Memory);
    let changes = |world: &mut World| {
        let before = world.hosts[0].engine.learner().present().number;
        assert!(world.run_until(2_000, |world| world.hosts[0].engine.learner().present().number > before));
        settles(world, 2_000);
        world.judge.why(0, 1)
    };
    world.stop(3, Disk::Kept);
    let crash = changes(&mut world);
    assert!(crash.starts_with("n3 silent for ") && crash.ends_with(" ms"), "{crash}");
    world.restart(3);
    assert_eq!(changes(&mut world), "n3 joined");
    world.leave(3);
    assert_eq!(changes(&mut world), "n3 left");
}

#[test]
pub fn a_coordinator_that_hears_no_majority_stops_calling_itself_one() {
    //= X71 test
    let mut world = settled(2, 3, 3, Storage::Memory);
    let first = leader(&world);
    for other in (0..3).filter(|node| *node != first) {
        world.cut(other, first);
    }
    let rests = |world: &World| !matches!(world.hosts[usize::from(first)].engine.role(), Role::Leading(_));
    assert!(world.run_until(400, rests), "lease: n{first} leads on");
    world.heal();
    settles(&mut world, 3_000);
}

#[test]
pub fn two_that_do_not_hear_each_other_do_not_take_turns_in_leading() {
    //= X70 test
    //= X72 test
    //= X73 test
    let mut world = settled(4, 3, 3, Storage::Sync);
    world.cut(0, 1);
    world.cut(1, 0);
    world.run(5_000);
    let led: u64 = (0..3).map(|node| gauge(&world, node, "terms_led")).sum();
    assert!(led <= 2, "lease: {led} terms in five seconds");
    world.heal();
    settles(&mut world, 3_000);
}

fn gauge(world: &World, node: u16, wanted: &str) -> u64 {
    let mut found = 0;
    world.hosts[usize::from(node)].engine.each_counter(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

#[test]
fn an_acceptor_that_lost_its_disk_votes_only_once_it_has_asked_a_majority_of_the_others() {
    //= X32 test
    //= X33 test
    let mut world = settled(5, 3, 3, Storage::Sync);
    let first = leader(&world);
    let (lost, other) = ((first + 1) % 3, (first + 2) % 3);
    (0..3).for_each(|node| assert!(world.submit(node, 40)));
    settles(&mut world, 500);
    world.stop(lost, Disk::Lost);
    world.stop(other, Disk::Kept);
    world.run(10);
    world.restart(lost);
    world.submit(first, 20);
    let before = world.judge.deliveries;
    world.run(3_000);
    assert!(!world.hosts[usize::from(lost)].engine.acceptor().unwrap().votes(), "one of two others told it");
    assert_eq!(world.judge.deliveries, before);
    world.restart(other);
    settles(&mut world, 3_000);
    assert!(world.hosts[usize::from(lost)].engine.acceptor().unwrap().votes());
}

#[test]
fn an_acceptor_that_recovers_and_falls_again_before_all_is_written_recovers_again() {
    //= X34 test
    let mut world = settled(6, 3, 3, Storage::Sync);
    let first = leader(&world);
    let lost = (first + 1) % 3;
    for _ in 0..20 {
        assert!(world.submit(first, 2_000));
    }
    settles(&mut world, 500);
    world.stop(lost, Disk::Lost);
    world.run(5);
    world.restart(lost);
    let adopts = |world: &World| {
        let acceptor = world.hosts[usize::from(lost)].engine.acceptor().unwrap();
        matches!(acceptor.standing, crate::acceptor::Standing::Adopting { .. })
    };
    let mut steps = 0;
    while !adopts(&world) {
        world.step(20_000);
        steps += 1;
        assert!(steps < 200_000, "{}", world.describe());
    }
    world.hosts[usize::from(lost)].writing.truncate(3);
    world.stop(lost, Disk::Kept);
    world.run(5);
    world.restart(lost);
    assert!(!world.hosts[usize::from(lost)].engine.acceptor().unwrap().votes(), "half of it is not all");
    settles(&mut world, 3_000);
}

#[test]
pub fn a_log_is_begun_by_all_acceptors_together_and_by_no_fewer() {
    //= X51 test
    //= X53 test
    let mut world = World::new(8, 4, 3, Storage::Memory);
    world.run(0);
    world.stop(2, Disk::Lost);
    world.run(3_000);
    let ordered = world.judge.instances();
    assert!(ordered == 0, "one log: begun without the third, who may have promised something in another");
    world.restart(2);
    settles(&mut world, 2_000);
    assert!(world.hosts.iter().all(|host| host.engine.log() == world.hosts[0].engine.log()), "the learner's, too");
}

/// Nothing tells the last node that others hear it: it takes part in a log that it does not know of.
fn is_told_nothing(_: NodeId, to: NodeId, packet: &Packet) -> bool {
    let heard = |content: &Content| matches!(content, Content::Beat(beat) if beat.hears.iter().any(|m| m.node == to));
    to != NodeId(2) || !heard(&packet.content)
}

#[test]
fn an_acceptor_that_was_not_told_of_the_log_it_began_helps_one_that_forgot_it() {
    //= X58 test
    for storage in [Storage::Memory, Storage::Sync] {
        let mut world = World::new(11, 3, 3, storage);
        world.filter = Some(is_told_nothing);
        world.run(500);
        let leads = leader(&world);
        let log = world.hosts[usize::from(leads)].engine.log();
        assert!(!world.hosts[2].engine.acceptor().unwrap().votes() && world.judge.instances() > 0);
        world.stop(leads, Disk::Lost);
        world.filter = None;
        world.run(50);
        world.restart(leads);
        settles(&mut world, 3_000);
        assert!(world.hosts.iter().all(|host| host.engine.log() == log), "{}", world.describe());
    }
}

#[test]
pub fn an_acceptor_that_forgot_is_not_taken_for_the_one_that_began_the_log() {
    //= X58 test
    let mut world = settled(12, 3, 3, Storage::Memory);
    let first = leader(&world);
    let (lost, other) = ((first + 1) % 3, (first + 2) % 3);
    world.stop(other, Disk::Lost);
    world.stop(lost, Disk::Lost);
    world.run(10);
    world.restart(lost);
    world.run(2_000);
    let votes = world.hosts[usize::from(lost)].engine.acceptor().unwrap().votes();
    assert!(!votes, "quorum: n{lost} votes, and an earlier incarnation of it began the log");
}

#[test]
pub fn packets_of_another_log_are_not_heeded() {
    //= X52 test
    let mut world = settled(9, 3, 3, Storage::Memory);
    let host = &mut world.hosts[0];
    let next = host.engine.learner().next();
    let strange = Packet {
        log: crate::ballot::LogId(1),
        content: Content::Decide { at: next, item: crate::ballot::Item::Nothing, hops: 0 },
    };
    let from = consort_types::MemberId::new(1, 1);
    let now = Instant(world.now);
    let arrival = consort_order::Arrival { at: now, from, lane: consort_order::Lane::Reliable };
    host.engine.handle_packet(now, arrival, strange);
    assert!(host.engine.learner().next() == next, "one log: something of another is decided here");
    assert_eq!(gauge(&world, 0, "foreign_log"), 1);
}

#[test]
pub fn a_refused_candidate_is_told_by_whom_and_stands_above_that() {
    //= X11 test
    let mut world = settled(10, 3, 3, Storage::Memory);
    let first = leader(&world);
    let promised = world.hosts[usize::from(first)].engine.acceptor().unwrap().promised;
    world.stop(first, Disk::Kept);
    world.run_until(2_000, |world| world.hosts.iter().any(|h| h.up && matches!(h.engine.role(), Role::Leading(_))));
    let second = leader(&world);
    let later = world.hosts[usize::from(second)].engine.acceptor().unwrap().promised;
    assert!(later.round > promised.round);
    let from = consort_types::MemberId::new(first, 1);
    let (now, log) = (Instant(world.now), world.hosts[usize::from(second)].engine.log());
    let prepare = Packet { log, content: Content::Prepare { ballot: promised, from: 0 } };
    let arrival = consort_order::Arrival { at: now, from, lane: consort_order::Lane::Reliable };
    let host = &mut world.hosts[usize::from(second)];
    host.engine.handle_packet(now, arrival, prepare);
    let nack = std::iter::from_fn(|| host.engine.poll_output()).find_map(|output| match output {
        Output::Send { packet: Packet { content: Content::Nack { ballot, promised }, .. }, .. } => {
            Some((ballot, promised))
        }
        _ => None,
    });
    assert!(nack == Some((promised, later)), "refusal: n{first} is told {nack:?}");
}

#[test]
fn what_the_ring_loses_gets_through_directly() {
    //= X23 test
    //= X24 test
    //= X41 test
    //= X62 test
    let mut world = settled(11, 4, 3, Storage::Sync);
    // Nothing that is passed on reaches anybody: neither payloads nor accepts nor decisions.
    world.filter = Some(|_, _, packet| match &packet.content {
        Content::Value(value) => value.hops == 0,
        Content::Accept { hops, .. } | Content::Decide { hops, .. } => *hops == 0,
        _ => true,
    });
    (0..4).for_each(|node| assert!(world.submit(node, 40)));
    settles(&mut world, 3_000);
    assert!((0..4).map(|node| gauge(&world, node, "retransmissions_sent")).sum::<u64>() > 0);
    assert!((0..4).map(|node| gauge(&world, node, "values_fetched")).sum::<u64>() > 0);
}

#[test]
fn each_link_carries_each_payload_once() {
    //= X22 test
    //= X60 test
    //= X61 test
    let mut world = settled(12, 5, 3, Storage::Memory);
    world.run(500);
    world.carried.clear();
    for node in 0..5 {
        assert!(world.submit(node, 500));
    }
    settles(&mut world, 200);
    let mut links = std::collections::BTreeMap::new();
    for (from, to, id) in &world.carried {
        *links.entry((*from, *to, *id)).or_insert(0) += 1;
    }
    assert!(links.values().all(|times| *times == 1), "{links:?}");
    assert_eq!(links.len(), 5 * 4, "five payloads over four of five links each");
}

#[test]
pub fn nothing_new_is_proposed_before_what_was_inherited_is_decided() {
    //= X15 test
    //= X16 test
    //= X27 test
    for seed in 1..=30 {
        let mut world = settled(seed, 3, 3, Storage::Sync);
        let first = leader(&world);
        let others: Vec<_> = (0..3).filter(|node| *node != first).collect();
        for _ in 0..5 {
            for node in 0..3 {
                world.submit(node, 100);
            }
            world.step(100_000 + seed * 20_000);
        }
        world.stop(first, Disk::Kept);
        world.run(400 + seed);
        assert!(others.iter().all(|node| gauge(&world, *node, "assertion_failures") == 0));
        world.restart(first);
        settles(&mut world, 3_000);
    }
}

#[test]
fn views_stand_in_the_order_and_close_the_ones_before_with_those_that_stay() {
    //= X05 test
    //= X44 test
    let mut world = settled(13, 4, 3, Storage::Memory);
    world.stop(3, Disk::Lost);
    world.run_until(2_000, World::is_settled);
    assert_eq!(world.hosts[0].engine.members().unwrap().len(), 3);
    world.restart(3);
    settles(&mut world, 2_000);
    assert_eq!(world.hosts[3].engine.members().unwrap().len(), 4);
    let old = consort_types::MemberId::new(3, 1);
    let (now, log) = (Instant(world.now), world.hosts[0].engine.log());
    let beat = crate::packet::Beat { hears: vec![world.hosts[0].engine.me()], ..Default::default() };
    let stray = Packet { log, content: Content::Beat(Box::new(beat)) };
    let arrival = consort_order::Arrival { at: now, from: old, lane: consort_order::Lane::Control };
    world.hosts[0].engine.handle_packet(now, arrival, stray);
    assert_eq!(gauge(&world, 0, "outdated_packets"), 1);
    settles(&mut world, 200);
    assert!(!world.hosts[0].engine.members().unwrap().contains(&old));
}

#[test]
fn who_comes_back_with_a_smaller_number_than_it_had_learns_it_and_takes_part() {
    //= X09 test
    for (storage, node) in [(Storage::Memory, 0), (Storage::Memory, 2), (Storage::Sync, 1), (Storage::Sync, 3)] {
        let mut world = settled(19, 4, 3, storage);
        world.stop(node, Disk::Lost);
        world.restart(node);
        settles(&mut world, 2_000);
        let had = world.hosts[usize::from(node)].incarnation;
        world.stop(node, Disk::Lost);
        world.run_until(2_000, World::is_settled);
        world.restart_as(node, true);
        assert!(world.hosts[usize::from(node)].incarnation < had);
        settles(&mut world, 4_000);
        assert!(world.hosts[usize::from(node)].incarnation > had, "{storage:?} n{node}");
        assert_eq!(world.hosts[0].engine.members().unwrap().len(), 4);
    }
}

#[test]
pub fn an_earlier_incarnation_is_told_the_later_one_once_that_says_nothing() {
    //= X09 test
    let mut solo = Solo::voting(3);
    let (early, late) = (other(1), consort_types::MemberId::new(1, 7));
    let told = |solo: &mut Solo, from| {
        let said = solo.hand(from, Content::Beat(Box::new(beat(Ballot::ZERO))));
        let outdated = |(to, content)| match content {
            Content::Outdated(incarnation) => Some((to, incarnation)),
            _ => None,
        };
        said.into_iter().find_map(outdated)
    };
    assert_eq!(told(&mut solo, late), None);
    assert!(told(&mut solo, early).is_none(), "twin: two daemons run as one node, and the later one stays");
    (0..40).for_each(|_| drop(solo.tick()));
    assert_eq!(told(&mut solo, early), Some((Destination::One(NodeId(1)), Incarnation(7))));
    assert_eq!(told(&mut solo, late), None);
    assert_eq!(told(&mut solo, early), None);
}

#[test]
fn a_number_that_is_no_later_one_or_cannot_be_exceeded_ends_no_incarnation() {
    //= X09 test
    for (number, ends) in [(8, false), (9, false), (10, true), (Incarnation::LAST.0, false), (u64::MAX, false)] {
        let mut solo = Solo::voting(3);
        solo.hand(other(1), Content::Outdated(Incarnation(number)));
        solo.hand(other(2), Content::Outdated(Incarnation(number)));
        assert_eq!(solo.exceeds, ends.then_some(Incarnation(number)), "{number}");
    }
}

/// Whom it asks for what it lacks, while these are heard for so many beats.
fn asked_by(solo: &mut Solo, heard: &[u16], beats: usize) -> Vec<NodeId> {
    let mut asked = Vec::new();
    for _ in 0..beats {
        let mut said = Vec::new();
        for node in heard {
            said.extend(solo.hand(other(*node), Content::Beat(Box::new(Beat { next: 5, ..beat(Ballot::ZERO) }))));
        }
        said.extend(solo.tick());
        asked.extend(said.into_iter().filter_map(|(to, content)| match (to, content) {
            (Destination::One(node), Content::Learn(_)) => Some(node),
            _ => None,
        }));
    }
    asked
}

#[test]
pub fn who_cannot_answer_is_not_waited_for() {
    //= X63 test
    let mut solo = Solo::voting(3);
    let [first] = asked_by(&mut solo, &[1, 2], 5)[..] else { panic!("it asks one") };
    solo.link(first, Link::Down);
    let second = asked_by(&mut solo, &[1, 2], 5);
    assert!(second.len() == 1 && second[0] != first, "liveness: behind a broken link it asks {second:?}");
    solo.link(second[0], Link::Down);
    assert_eq!(asked_by(&mut solo, &[1, 2], 5), [], "liveness: no link is up");
    solo.link(first, Link::Up);
    assert_eq!(asked_by(&mut solo, &[1, 2], 2), [first], "liveness: its link is up again");
    solo.link(second[0], Link::Up);
    // It waits ever longer for answers, but not for one that has fallen silent.
    let asked = asked_by(&mut solo, &[1, 2], 45);
    let (last, left) = (asked[asked.len() - 1], asked[asked.len() - 2]);
    assert!(asked.len() == 2 && last != left, "{asked:?}");
    assert_eq!(asked_by(&mut solo, &[left.0], 26), [left], "liveness: {last} has been silent for 600 ms");
}
