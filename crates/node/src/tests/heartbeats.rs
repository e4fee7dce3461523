//! Clients that ask for it are told that their daemon is at work; others are not.
use super::*;
use consort_types::Duration;

const INTERVAL: Duration = Duration::from_millis(500);

fn beating(name: &[u8], interval: Duration) -> ClientEnd {
    ClientEnd::new(&Hello { name: ClientName::new(name), heartbeats: Some(interval), ..Hello::default() })
}

/// How many heartbeats a client was told.
fn beats(world: &World, at: usize) -> usize {
    world.programs[at].events.iter().filter(|event| **event == DaemonEvent::Heartbeat).count()
}

/// Lets so much time pass at once, as when the daemon was stopped.
fn pause(world: &mut World, span: Duration) {
    world.now += span;
    world.wake(0);
    world.carry();
}

#[test]
fn the_first_stands_behind_the_welcome_and_then_one_comes_each_interval() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect_with(0, beating(b"ann", INTERVAL));
    assert!(matches!(&world.programs[ann].events[..], [DaemonEvent::Welcome(_), DaemonEvent::Heartbeat, ..]));
    let before = beats(&world, ann);
    for told in 1..=4 {
        let at = world.nodes[0].poll_timeout().unwrap();
        assert!(at.since(world.now) <= INTERVAL, "the node asks to be woken for it");
        pause(&mut world, INTERVAL);
        assert_eq!(beats(&world, ann), before + told);
    }
}

#[test]
fn after_a_pause_there_is_one_and_not_all_that_were_due() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect_with(0, beating(b"ann", INTERVAL));
    let before = beats(&world, ann);
    pause(&mut world, 20 * INTERVAL);
    assert_eq!(beats(&world, ann), before + 1);
}

#[test]
fn who_did_not_ask_is_told_none_and_stays_however_silent_it_is() {
    let mut world = World::new(1, Limits::default());
    let old = world.connect(0, "old");
    (0..100).for_each(|_| pause(&mut world, Duration::from_secs(60)));
    assert_eq!((beats(&world, old), world.programs[old].closed), (0, false));
    world.join(old, "g");
    assert_eq!(world.story(old), ["g join old -> old"]);
}

#[test]
fn a_client_that_reads_nothing_is_not_told_ever_more() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect_with(0, beating(b"ann", INTERVAL));
    world.programs[ann].reads = false;
    (0..1_000).for_each(|_| pause(&mut world, INTERVAL));
    let id = world.programs[ann].id;
    let waiting: usize = world.nodes[0].client_outputs(id).map(<[u8]>::len).sum();
    assert_eq!(waiting, 5, "one heartbeat and no more");
}

#[test]
fn nobody_is_told_more_often_than_ten_times_a_second_and_who_is_gone_is_forgotten() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect_with(0, beating(b"ann", Duration::from_millis(1)));
    let before = beats(&world, ann);
    (0..1_000).for_each(|_| pause(&mut world, Duration::from_millis(1)));
    assert_eq!(beats(&world, ann), before + 10);
    let bob = world.connect_with(0, beating(b"bob", INTERVAL));
    world.vanish(ann);
    world.client(bob).goodbye();
    world.settle();
    assert!(world.programs[bob].closed);
    assert!(world.nodes[0].clients.next_heartbeat().is_none());
}

#[test]
fn a_crowd_is_told_in_slices_that_follow_at_once() {
    let mut world = World::new(1, Limits::default());
    let all: Vec<_> = (0..200)
        .map(|n| world.connect_with(0, beating(format!("c{n}x").as_bytes(), Duration::from_secs(3_600))))
        .collect();
    world.now += Duration::from_secs(4_000);
    world.nodes[0].handle_timeout(world.now);
    world.drain(0);
    let told = all.iter().filter(|at| beats(&world, **at) == 2).count();
    assert!(0 < told && told < all.len(), "{told}");
    assert!(world.nodes[0].poll_timeout().unwrap() <= world.now);
    world.wake(0);
    assert!(all.iter().all(|at| beats(&world, *at) == 2));
}
