//! A log that is merged with others.
use super::solo::{Solo, other};
use super::world::World;
use crate::ballot::{Incarnations, Item};
use crate::config::Storage;
use crate::packet::Content;
use consort_types::Instant;

const LATER: Instant = Instant(2_000_000_000);

fn skips(solo: &mut Solo, to: u64) -> bool {
    let before = solo.gauge("instances_proposed");
    solo.engine.skip(LATER, to);
    solo.gauge("instances_proposed") > before
}

#[test]
fn a_coordinator_skips_where_that_leads_on() {
    //= X91 test
    let (mut solo, ballot) = Solo::leading(3);
    assert!(!skips(&mut solo, 1), "the next slot is free already");
    let at = solo.engine.learner().next();
    assert!(skips(&mut solo, 90) && !skips(&mut solo, 90) && skips(&mut solo, 95), "each leads further");
    for (at, to) in [(at, 90), (at + 1, 95)] {
        let vote = Content::Vote { ballot, at, incarnations: Incarnations::default() };
        solo.hand(other(1), vote);
        assert_eq!(solo.engine.learner().entry(at).map(|entry| entry.item.clone()), Some(Item::Skip(to)));
        assert_eq!(solo.engine.learner().head().slots, to - 1);
    }
    assert!(!skips(&mut solo, 95) && skips(&mut solo, 96));
}

#[test]
fn skips_leave_room_for_messages() {
    //= X95 test
    let (mut solo, _) = Solo::leading(3);
    let proposed = (2..=400).filter(|to| skips(&mut solo, *to)).count();
    assert_eq!(proposed, 64, "a quarter of the window");
    assert!(!solo.engine.may_skip());
}

#[test]
fn whoever_has_other_logs_to_read_is_let_in_later() {
    //= X93 test
    let mut world = World::new(8, 3, 3, Storage::Memory);
    world.run(1);
    world.hosts[1].engine.reserve(true);
    world.run(2_000);
    let members = |world: &World| world.hosts[0].engine.members().map(<[_]>::len);
    assert_eq!(members(&world), Some(2));
    assert!(world.hosts[1].engine.is_caught_up(Instant(world.now)));
    world.hosts[1].engine.reserve(false);
    assert!(world.run_until(500, |world| members(world) == Some(3)), "{}", world.describe());
}

#[test]
fn a_view_is_primary_once_it_is_installed_where_it_is_merged() {
    //= X94 test
    let mut world = World::new(9, 3, 3, Storage::Memory);
    world.run(1);
    world.hosts[1].engine.note_installed(0);
    world.run(2_000);
    let present = |world: &World| world.hosts[0].engine.learner().present().clone();
    assert!(present(&world).last.len() == 3 && !present(&world).primary);
    let number = present(&world).number;
    world.hosts[1].engine.note_installed(number);
    assert!(world.run_until(500, |world| present(world).primary), "{}", world.describe());
}

#[test]
fn whoever_does_not_lead_skips_nothing() {
    let (mut solo, _) = Solo::standing(3);
    assert!(!skips(&mut solo, 90) && !solo.engine.may_skip());
}
