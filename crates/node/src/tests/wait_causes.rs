//! Clients are told what their requests wait for.
use super::*;
use crate::wait_monitor::CHECK_INTERVAL;
use consort_order::Overfull;
use consort_session::WaitNotice;
use consort_types::OrderWait;

const SLOW: OrderWait = OrderWait::Slow(NodeId(1));

/// One node that orders nothing, for this reason.
fn stuck(cause: OrderWait) -> World {
    let mut world = World::new(1, Limits::default());
    (world.nodes[0].engine.stuck, world.nodes[0].engine.wait_cause) = (true, Some(cause));
    world
}

fn told(world: &World, at: usize) -> Vec<WaitNotice> {
    let events = world.programs[at].events.iter();
    events.filter_map(|event| if let DaemonEvent::Waiting(waiting) = event { Some(*waiting) } else { None }).collect()
}

impl World {
    /// Lets this much time pass.
    fn pass(&mut self, looks: u64) {
        let end = self.now + CHECK_INTERVAL * looks as u32;
        while self.now < end {
            self.settle();
        }
    }
}

#[test]
fn who_waits_for_long_is_told_why_once_and_again_when_that_changes() {
    let mut world = stuck(OrderWait::Membership);
    let (ann, idle) = (world.connect(0, "ann"), world.connect(0, "idle"));
    (0..3).for_each(|n| world.multicast(ann, &["g"], &format!("{n}")));
    world.pass(5);
    let first = WaitNotice { up_to: 3, cause: OrderWait::Membership };
    assert_eq!((told(&world, ann), told(&world, idle)), (vec![first], vec![]));
    assert!(world.nodes[0].status().contains(&("requests_wait_for".into(), "membership".into())));
    world.nodes[0].engine.wait_cause = Some(SLOW);
    world.multicast(ann, &["g"], "more");
    world.pass(3);
    assert_eq!(told(&world, ann)[1..], [WaitNotice { up_to: 4, cause: SLOW }]);
    assert!(world.counter(0, "requests_waited_slow") > 0);
    world.nodes[0].engine.stuck = false;
    world.pass(3);
    assert_eq!(world.programs[ann].client.progress().ordered, 4);
    assert_eq!(told(&world, ann).len(), 2);
    assert!(world.nodes[0].status().iter().all(|(key, _)| key != "requests_wait_for"));
}

#[test]
fn a_request_that_waits_for_room_is_told_of_too() {
    let mut world = stuck(OrderWait::Window);
    world.nodes[0].engine.limit = 60;
    let ann = world.connect(0, "ann");
    (0..9).for_each(|n| world.multicast(ann, &["g"], &format!("{n}")));
    world.pass(3);
    assert!(world.programs[ann].paused);
    let accepted = world.counter(0, "requests_accepted");
    assert!((1..8).contains(&accepted), "{accepted}");
    assert_eq!(told(&world, ann), [WaitNotice { up_to: accepted + 1, cause: OrderWait::Window }]);
}

#[test]
fn what_is_ordered_soon_costs_no_word_and_no_look() {
    let mut world = World::new(2, Limits::default());
    (0..2).for_each(|node| world.nodes[node].engine.wait_cause = Some(OrderWait::Window));
    let ann = world.connect(1, "ann");
    for n in 0..200 {
        world.multicast(ann, &["g"], &format!("{n}"));
        world.settle();
    }
    world.pass(2);
    assert_eq!((told(&world, ann), world.programs[ann].client.progress().ordered), (vec![], 200));
    assert_eq!(world.counter(1, "requests_waited_window"), 0);
    assert_eq!(world.nodes[1].wait_monitor.at(), None, "nothing waits: nothing is looked for");
}

#[test]
fn an_engine_that_knows_no_reason_has_none_told() {
    let mut world = stuck(OrderWait::Window);
    world.nodes[0].engine.wait_cause = None;
    let ann = world.connect(0, "ann");
    world.multicast(ann, &["g"], "x");
    world.pass(4);
    assert_eq!(told(&world, ann), []);
}

/// Ann and carl are at a node whose log is full of what copies of `g` lack.
fn full(all: bool) -> (World, usize, usize) {
    let mut world = World::new(1, Limits::default());
    let (ann, carl) = (world.connect(0, "ann"), world.connect(0, "carl"));
    world.nodes[0].engine.overfull = Some(Overfull { programs: vec!["g".into()], all });
    (0..3).for_each(|n| world.multicast(ann, &["x", "g"], &format!("{n}")));
    (0..3).for_each(|n| world.multicast(carl, &["h"], &format!("{n}")));
    world.pass(5);
    (world, ann, carl)
}

fn ordered(world: &World, at: usize) -> u64 {
    world.programs[at].client.progress().ordered
}

#[test]
fn messages_wait_for_copies_that_hold_the_log_back() {
    //= G72 test
    let (mut world, ann, carl) = full(false);
    assert_eq!((ordered(&world, ann), ordered(&world, carl)), (0, 3), "other groups go on");
    assert!(told(&world, ann).iter().all(|notice| notice.cause == OrderWait::Retention));
    assert!(!told(&world, ann).is_empty() && told(&world, carl).is_empty());
    let status = world.nodes[0].status();
    assert!(status.contains(&("requests_wait_for".into(), "retention".into())));
    let why = "messages of their groups wait until copies of g make checkpoints";
    assert!(status.contains(&("log_full".into(), why.into())), "{status:?}");
    assert!(world.counter(0, "requests_waited_retention") > 0);
    world.join(ann, "g");
    world.nodes[0].engine.overfull = None;
    world.pass(5);
    assert_eq!(ordered(&world, ann), 4, "all of it goes on once there is room, the join behind it");
    assert_eq!(world.counter(0, "clients_held"), 0);
}

#[test]
fn all_messages_wait_at_the_hard_limit_and_joins_do_not() {
    //= G72 test
    let (mut world, ann, carl) = full(true);
    assert_eq!((ordered(&world, ann), ordered(&world, carl)), (0, 0));
    let dora = world.connect(0, "dora");
    world.join(dora, "h");
    world.pass(2);
    assert_eq!(ordered(&world, dora), 1);
    world.nodes[0].engine.overfull = Some(Overfull { programs: vec!["g".into()], all: false });
    world.pass(5);
    assert_eq!((ordered(&world, ann), ordered(&world, carl)), (0, 3));
}
