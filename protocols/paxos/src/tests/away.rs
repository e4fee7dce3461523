//! Acceptors that start while their disks are away, and again once these are back.
use super::put_back::{settles, world};
use super::solo::{LOG, ME, Solo, ballot, beat, other, recovered};
use super::world::{Disk, World};
use crate::acceptor::Standing;
use crate::ballot::{Ballot, Began, Incarnations};
use crate::packet::{Acceptance, Beat, Content, Told};
use crate::record::{LogStart, Record};
use consort_order::trouble_of;
use consort_types::{Incarnation, Instant, MemberId};

/// An incarnation of node 0 that voted, or was about to.
fn began(incarnation: u64, has_forgotten: bool) -> Began {
    let mut began = Began::default();
    began.note_voter(MemberId::new(0, incarnation), has_forgotten);
    began
}

/// The records of the first incarnation of node 0.
fn returned_start() -> Record {
    let (promised, from) = Default::default();
    Record::Checkpoint(Box::new(LogStart { log: LOG, founders: Vec::new(), began: began(1, false), promised, from }))
}

fn standing(world: &World, node: usize) -> &Standing {
    &world.hosts[node].engine.acceptor().unwrap().standing
}

/// Goes on in steps that are shorter than a write to a disk.
fn step_until(world: &mut World, holds: impl Fn(&World) -> bool) {
    let steps = (0..400_000).find(|_| {
        world.step(20_000);
        holds(world)
    });
    assert!(steps.is_some(), "liveness: {}", world.describe());
}

/// What a person is shown.
fn trouble(world: &World, node: usize) -> String {
    trouble_of(&world.hosts[node].engine, Instant(world.now)).unwrap_or_default()
}

/// Node 0 starts with its disk away, and is about to take over what the others have.
fn about_to_adopt(seed: u64) -> World {
    let mut world = world(seed, 3);
    assert!(world.submit(1, 20));
    settles(&mut world);
    world.stop(0, Disk::Away);
    world.restart(0);
    step_until(&mut world, |world| matches!(standing(world, 0), Standing::Adopting { .. }));
    world
}

/// Node 0 starts with its disk away, has taken over what the others have, and no other knows of it yet.
fn about_to_announce(seed: u64) -> World {
    let mut world = about_to_adopt(seed);
    step_until(&mut world, |world| matches!(standing(world, 0), Standing::Announcing { .. }));
    world
}

/// It is started again on the directory that it took over to, while one other knows nothing of it.
#[test]
pub fn one_that_has_not_voted_since_it_forgot_needs_a_quorum_of_the_others_after_a_restart_too() {
    //= X109 test
    for seed in 1..6 {
        let mut world = about_to_announce(seed);
        [2, 0].into_iter().for_each(|node| world.stop(node, Disk::Kept));
        world.restart(0);
        world.run(3_000);
        assert!(*standing(&world, 0) != Standing::Voting, "announced: only one other has noted it");
        let said = trouble(&world, 0);
        assert!(said.contains("votes once 2 of the other acceptors have noted") && said.contains("start n2"), "{said}");
        world.restart(2);
        settles(&mut world);
        assert!(world.submit(0, 20));
        settles(&mut world);
        // The one that is there knows of its votes.
        world.stop(0, Disk::Away);
        world.stop(1, Disk::Kept);
        [0, 2].into_iter().for_each(|node| world.restart(node));
        world.submit(2, 20);
        world.run(3_000);
        world.restart(1);
        settles(&mut world);
    }
}

/// One other has noted it, and the disk of the third is lost: what node 0 had before may be all that is left.
#[test]
fn nothing_is_given_up_for_one_that_may_not_have_voted() {
    //= X109 test
    for seed in 1..6 {
        let mut world = about_to_adopt(seed);
        world.cut(0, 2);
        world.run(200);
        assert!(matches!(standing(&world, 0), Standing::Announcing { .. }));
        world.stop(0, Disk::Away);
        world.stop(2, Disk::Lost);
        world.heal();
        [0, 2].into_iter().for_each(|node| world.restart(node));
        world.run(8_000);
        assert!(world.restarts == 0 && world.hosts[0].engine.learner().next() > 0, "given up: {}", world.describe());
        let said = trouble(&world, 0);
        assert!(said.contains("and may have voted: n1.") && said.contains("start n2"), "{said}");
    }
}

/// Two took over and voted one after the other, and both come back at once with what they had before: the third alone cannot
/// make up for them.
#[test]
pub fn no_records_are_given_up_that_too_few_others_make_up_for() {
    //= X35 test
    let mut world = world(1, 3);
    assert!(world.submit(1, 20));
    settles(&mut world);
    for node in [0, 2] {
        world.stop(node, Disk::Away);
        world.restart(node);
        settles(&mut world);
    }
    [0, 2].into_iter().for_each(|node| world.stop(node, Disk::Away));
    [0, 2].into_iter().for_each(|node| world.restart(node));
    world.run(8_000);
    assert!(world.restarts == 0, "given up: {}", world.describe());
    for node in [0, 2] {
        let said = trouble(&world, node);
        assert!(said.contains("count as lost once 2 of the other acceptors vote"), "{said}");
    }
}

/// Node 0 knows that incarnation 5 of node 1 voted, and gets a beat of incarnation 7, which follows 1.
#[test]
fn one_whose_disk_was_put_back_is_noted_by_no_one() {
    //= X35 test
    let mut began = began(1, false);
    began.note_voter(MemberId::new(1, 5), false);
    let start =
        LogStart { log: LOG, founders: Vec::new(), began, promised: ballot(3, other(2)), from: Default::default() };
    let mut solo = Solo::with(3, &[Record::Checkpoint(Box::new(start))]);
    let said = Beat { follows: Incarnation(1), ..beat(Ballot::ZERO) };
    solo.hand(MemberId::new(1, 7), Content::Beat(Box::new(said)));
    assert!(!solo.records.contains(&Record::Voter(MemberId::new(1, 7))), "{:?}", solo.records);
}

/// Of five: node 3 noted it and forgot since, and the other witnesses know that.
#[test]
fn a_witness_that_has_forgotten_since_does_not_count() {
    //= X109 test
    let mut solo = Solo::blank(5);
    for node in 1..4 {
        solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))));
        solo.hand(other(node), recovered(Told::default(), ballot(1, other(1))));
    }
    assert!(solo.announces());
    solo.note_at(3);
    let all: Incarnations = [MemberId::new(3, 2)].into_iter().collect();
    let began = Began { all, ..Began::default() };
    for node in 1..3 {
        let noted = std::iter::once(ME).collect();
        let said = Beat { noted, began: began.clone(), ..beat(Ballot::ZERO) };
        solo.hand(other(node), Content::Beat(Box::new(said)));
    }
    assert!(!solo.votes());
}

/// One that knows nothing has read something in a log that the others leave for what they had before.
#[test]
fn one_that_knows_nothing_follows_a_majority_into_its_log() {
    //= X100 test
    let mut world = world(1, 3);
    assert!(world.submit(1, 20));
    settles(&mut world);
    world.judge.off = true;
    (0..3).for_each(|node| world.stop(node, Disk::Away));
    (0..3).for_each(|node| world.restart(node));
    world.run(3_000);
    world.submit(1, 20);
    world.run(500);
    world.stop(1, Disk::Away);
    world.stop(0, Disk::Lost);
    world.restart(0);
    world.run(2_000);
    world.restart(1);
    world.stop(2, Disk::Away);
    world.restart(2);
    world.run(5_000);
    assert!(world.hosts[0].engine.log() == world.hosts[1].engine.log(), "{}", world.describe());
}

/// Daemons are started while the volumes of these nodes are not mounted, and again once they are.
fn away(world: &mut World, nodes: &[u16]) {
    for _ in 0..2 {
        nodes.iter().for_each(|node| world.stop(*node, Disk::Away));
        nodes.iter().for_each(|node| world.restart(*node));
        world.run(3_000);
    }
}

/// Acceptors with empty directories asked the third, and could not begin to vote: their records are still the newest.
#[test]
pub fn one_that_only_asked_makes_its_earlier_records_no_older() {
    //= X109 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        assert!(world.submit(1, 20));
        settles(&mut world);
        away(&mut world, &[1, 2]);
        assert!(world.restarts == 0, "away: none voted meanwhile: {}", world.describe());
        settles(&mut world);
        assert!(world.submit(1, 20));
        settles(&mut world);
        // One alone does begin to vote, and its earlier records lack that.
        away(&mut world, &[1]);
        assert!(world.restarts == 1, "put back: {}", world.describe());
        settles(&mut world);
    }
}

/// One whose disk had come back was confirmed by one other, and votes. The third knows of an incarnation that had forgotten and
/// announced itself: it cannot have voted, since both others would know it.
#[test]
pub fn an_announcement_that_came_to_nothing_makes_no_confirmed_records_older() {
    //= X109 test
    let says = |began| Content::Beat(Box::new(Beat { began, ..beat(Ballot::ZERO) }));
    let returned = || {
        let mut solo = Solo::with(3, &[returned_start()]);
        assert!(!solo.votes());
        solo.hand(other(1), says(Began::default()));
        solo
    };
    let mut solo = returned();
    for _ in 0..40 {
        solo.tick();
        solo.hand(other(1), says(Began::default()));
    }
    assert!(solo.announces());
    solo.note_at(1);
    assert!(solo.votes());
    solo.hand(other(2), says(Began::default()));
    let written = solo.records.len();
    solo.hand(other(2), says(began(5, true)));
    assert!(solo.votes() && solo.records.len() == written, "confirmed: it asks again what a majority relies on");
    solo.hand(
        other(2),
        Content::Beat(Box::new(Beat { acceptor: Acceptance::Asking, began: began(5, false), ..beat(Ballot::ZERO) })),
    );
    assert!(!solo.votes(), "put back: one that went on with its records needs less than both others");
    // It does not forget that in its next incarnation, where another confirms its records.
    let records: Vec<_> = std::iter::once(returned_start()).chain(solo.records).collect();
    let mut again = Solo::with(3, &records);
    for _ in 0..40 {
        again.tick();
        again.hand(other(1), says(Began::default()));
    }
    assert!(!again.votes() && !again.announces(), "put back: it knew");
    // Where no other has confirmed it, it waits, and gives up what both others know to be older.
    let mut solo = Solo::with(3, &[returned_start()]);
    solo.hand(other(2), says(began(5, true)));
    solo.rounds(1, 0);
    assert!(!solo.votes() && !solo.engine.acceptor().unwrap().is_blank(), "doubtful: one of two others knows of it");
    solo.hand(other(1), says(began(5, true)));
    assert!(solo.engine.acceptor().unwrap().is_blank(), "put back: both others know of a later vote");
}

/// All begin another log while no disk is there. That says nothing of what they voted in the one they come back to.
#[test]
pub fn votes_in_another_log_make_no_records_older() {
    //= X109 test
    //= X101 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        assert!(world.submit(1, 20));
        settles(&mut world);
        let log = world.hosts[0].engine.log();
        world.judge.off = true;
        let restart = |world: &mut World, nodes: &[u16]| {
            nodes.iter().for_each(|node| world.stop(*node, Disk::Away));
            nodes.iter().for_each(|node| world.restart(*node));
            world.run(3_000);
        };
        restart(&mut world, &[0, 1, 2]);
        assert_ne!(world.hosts[0].engine.log(), log);
        // One by one they come back, and two of them are enough.
        (0..2).for_each(|node| restart(&mut world, &[node]));
        let votes = |world: &World, node: usize| world.hosts[node].engine.acceptor().unwrap().votes();
        assert!(votes(&world, 0) && votes(&world, 1), "away: {}", world.describe());
        restart(&mut world, &[2]);
        settles(&mut world);
        assert!(world.restarts == 0, "away: {}", world.describe());
        assert!(world.hosts.iter().all(|host| host.engine.log() == log && host.engine.learner().next() > 0));
    }
}

fn votes(world: &World, node: usize) -> bool {
    *standing(world, node) == Standing::Voting
}

/// Node 0 has promised nothing in the first log, and what it learnt of it is on its disk. All begin another one then.
#[test]
fn what_was_learnt_of_an_earlier_log_is_not_taken_for_a_part_of_a_later_one() {
    //= X34 test
    let mut world = World::new(1, 3, 3, crate::config::Storage::Sync);
    world.judge.off = true;
    step_until(&mut world, |world| votes(world, 0) && !world.hosts[0].records().is_empty());
    assert!(world.hosts[0].engine.acceptor().unwrap().is_fresh());
    world.stop(0, Disk::Kept);
    settles(&mut world);
    write_some(&mut world, 20);
    let log = world.hosts[1].engine.log();
    world.stop(2, Disk::Away);
    world.restart(0);
    step_until(&mut world, |world| world.hosts[0].engine.learner().next() >= 5);
    world.run(3);
    world.stop(0, Disk::Kept);
    world.stop(1, Disk::Away);
    (0..3).for_each(|node| world.restart(node));
    settles(&mut world);
    assert_ne!(world.hosts[0].engine.log(), log);
    write_some(&mut world, 10);
    world.stop(0, Disk::Kept);
    world.run(100);
    world.restart(0);
    world.run(3_000);
    let item = |node: usize, at| world.hosts[node].engine.learner().entry(at).map(|entry| entry.item.clone());
    let next = |node: usize| world.hosts[node].engine.learner().next();
    assert!((0..next(0).min(next(1))).all(|at| item(0, at) == item(1, at)), "{}", world.describe());
}

fn write_some(world: &mut World, messages: u64) {
    for _ in 0..messages {
        world.submit(1, 20);
        world.run(20);
    }
    settles(world);
}

/// Found out in a log in which nothing was promised, and all begin another one.
#[test]
fn records_of_an_earlier_log_are_outdated_in_no_later_one() {
    //= X34 test
    let mut solo = Solo::with(3, &[returned_start()]);
    let says = |acceptor, began| Content::Beat(Box::new(Beat { acceptor, began, ..beat(Ballot::ZERO) }));
    solo.hand(other(2), says(Acceptance::Asking, began(5, false)));
    assert!(matches!(solo.engine.acceptor().unwrap().standing, Standing::Outdated { .. }));
    solo.hand(other(2), says(Acceptance::Blank, Began::default()));
    solo.hand(other(1), says(Acceptance::Blank, Began::default()));
    assert!(solo.votes() && solo.engine.log() != LOG);
    let records: Vec<_> = std::iter::once(returned_start()).chain(solo.records).collect();
    let again = Solo::with(3, &records);
    assert!(!matches!(again.engine.acceptor().unwrap().standing, Standing::Outdated { .. }));
}

/// Node 1 asks, too. Its records are older than a vote that node 2 knows of, so that it cannot know of one of node 0.
#[test]
pub fn one_whose_records_are_older_answers_no_others() {
    //= X109 test
    let mut solo = Solo::with(3, &[returned_start()]);
    let asks = Beat { acceptor: Acceptance::Asking, follows: Incarnation(1), ..beat(Ballot::ZERO) };
    let mut known = began(5, true);
    known.note_voter(MemberId::new(1, 5), true);
    let knows = Beat { began: known, ..beat(Ballot::ZERO) };
    for _ in 0..40 {
        solo.hand(MemberId::new(1, 7), Content::Beat(Box::new(asks.clone())));
        solo.hand(other(2), Content::Beat(Box::new(knows.clone())));
        solo.tick();
    }
    assert!(!solo.announces() && !solo.votes(), "older: both others can say nothing for its records");
}

/// Two voted on other directories and decided together, the third was away. All come back with their own disks at once.
#[test]
fn one_whose_records_are_older_confirms_no_others() {
    //= X109 test
    for seed in 1..6 {
        let mut world = world(seed, 3);
        assert!(world.submit(1, 20));
        settles(&mut world);
        for node in [0, 2] {
            world.stop(node, Disk::Away);
            world.restart(node);
            settles(&mut world);
        }
        world.stop(1, Disk::Kept);
        settles(&mut world);
        (0..5).for_each(|_| assert!(world.submit(0, 20)));
        settles(&mut world);
        [0, 2].into_iter().for_each(|node| world.stop(node, Disk::Away));
        (0..3).for_each(|node| world.restart(node));
        world.run(5_000);
        assert!(!votes(&world, 2) && !votes(&world, 0) && world.restarts == 0, "older: {}", world.describe());
    }
}

/// It has taken over what the others have, and may come back with what it had before: another could not rely on its note.
#[test]
pub fn one_that_may_come_back_with_another_disk_is_no_witness() {
    //= X109 test
    let mut solo = Solo::blank(5);
    for node in 1..4 {
        solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))));
        solo.hand(other(node), recovered(Told::default(), ballot(1, other(1))));
    }
    assert!(solo.announces());
    let mut began = Began::default();
    began.note_voter(other(4), true);
    let announces = Beat { acceptor: Acceptance::Announcing, began, ..beat(Ballot::ZERO) };
    solo.hand(other(4), Content::Beat(Box::new(announces.clone())));
    assert!(!solo.records.contains(&Record::Adopter(other(4))), "witness: {:?}", solo.records);
    (1..4).for_each(|node| solo.note_at(node));
    assert!(solo.votes());
    solo.hand(other(4), Content::Beat(Box::new(announces)));
    assert!(solo.records.contains(&Record::Adopter(other(4))), "it has voted on this disk");
}
