//! Acceptors whose disks were put back to an earlier state: what they voted since is not forgotten by the others.
use super::solo::{LOG, Solo, beat, other};
use super::world::{Disk, World};
use crate::ballot::{Ballot, Began};
use crate::config::Storage;
use crate::packet::{Beat, Content};
use crate::record::{LogStart, Record};
use consort_types::MemberId;

fn world(seed: u64, nodes: u16) -> World {
    let mut world = World::new(seed, nodes, nodes, Storage::Sync);
    settles(&mut world);
    world
}

fn settles(world: &mut World) {
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
    let began = |incarnation, has_forgotten| {
        let mut began = Began::default();
        began.note_voter(MemberId::new(0, incarnation), has_forgotten);
        began
    };
    let says = |began| Content::Beat(Box::new(Beat { began, ..beat(Ballot::ZERO) }));
    let returned = || {
        let (promised, from) = Default::default();
        let start = LogStart { log: LOG, founders: Vec::new(), began: began(1, false), promised, from };
        let mut solo = Solo::with(3, &[Record::Checkpoint(Box::new(start))]);
        assert!(!solo.votes());
        solo.hand(other(1), says(Began::default()));
        solo
    };
    let mut solo = returned();
    while !solo.announces() {
        solo.tick();
        solo.hand(other(1), says(Began::default()));
    }
    solo.note_at(1);
    assert!(solo.votes());
    solo.hand(other(2), says(began(5, true)));
    assert!(solo.votes(), "confirmed: it gives up what a majority relies on");
    solo.hand(other(2), says(began(5, false)));
    assert!(!solo.votes(), "put back: one that went on with its records needs less than both others");
    // Before it is confirmed it does not know.
    let mut solo = returned();
    solo.hand(other(2), says(began(5, true)));
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
        // One by one they come back.
        (0..3).for_each(|node| restart(&mut world, &[node]));
        settles(&mut world);
        assert!(world.restarts == 0, "away: {}", world.describe());
        assert!(world.hosts.iter().all(|host| host.engine.log() == log && host.engine.learner().next() > 0));
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
