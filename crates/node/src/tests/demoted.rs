//! Members that do not read and are made observers.
use super::*;
use crate::SlowPolicy;
use consort_session::{Place, ReadRequest, SlowRequest};
use consort_types::Duration;

const KIB: u64 = 1 << 10;

fn demoted(time: Option<Duration>) -> SlowRequest {
    SlowRequest { bytes: 64 * KIB, time, ..SlowPolicy::Demote.into() }
}

/// Ann at node 0 sends much to `g`, of which bob at node 1, who does not read, and carl at node 0 are members.
fn world_of(replays: bool, limits: Limits) -> (World, [usize; 3]) {
    let mut world = World::over(2, limits, replays);
    let (ann, carl) = (world.connect(0, "ann"), world.connect(0, "carl"));
    let bob = world.connect_slow(1, "bob", demoted(None));
    world.join(carl, "g");
    world.join(bob, "g");
    world.programs[bob].reads = false;
    (world, [ann, bob, carl])
}

fn send(world: &mut World, from: usize, numbers: std::ops::Range<usize>) {
    for n in numbers {
        world.multicast(from, &["g"], &format!("{n:04000}"));
        world.settle();
    }
}

/// The numbers that a client was told as a member, and those that it read.
fn numbers(world: &World, at: usize) -> [Vec<usize>; 2] {
    let mut numbers = [Vec::new(), Vec::new()];
    for event in &world.programs[at].events {
        let (which, payload) = match event {
            DaemonEvent::Message(message) => (0, message.payload()),
            DaemonEvent::Read(message) => (1, message.payload()),
            _ => continue,
        };
        numbers[which].extend(String::from_utf8_lossy(payload).parse::<usize>());
    }
    numbers
}

fn others(world: &World, at: usize) -> Vec<String> {
    let story = world.story(at).into_iter();
    story.filter(|line| line.starts_with("refused") || line.contains("reads") || line.contains("->")).collect()
}

#[test]
fn a_member_that_does_not_read_leaves_its_groups_and_reads_on_behind_its_leave() {
    //= G65 test
    for replays in [false, true] {
        let (mut world, [ann, bob, carl]) = world_of(replays, Limits::default());
        send(&mut world, ann, 0..60);
        assert_eq!(world.programs[ann].client.progress().ordered, 60, "nobody waits");
        assert_eq!(others(&world, carl).last().unwrap(), "g leave bob -> carl", "replays: {replays}");
        assert_eq!(world.counter(1, "client_demotions"), 1);
        world.read_all(bob);
        let [given, read] = numbers(&world, bob);
        assert!(given.len() < 40 && !read.is_empty(), "{given:?} {read:?}");
        let all: Vec<_> = given.into_iter().chain(read).collect();
        assert_eq!(all, (0..60).collect::<Vec<_>>(), "each once, and none left out; replays: {replays}");
        assert!(others(&world, bob).contains(&"refused 0: demoted".to_owned()), "{:?}", others(&world, bob));
        world.join(bob, "g");
        assert_eq!(others(&world, carl).last().unwrap(), "g join bob -> carl bob", "it may join again");
        assert!(!world.programs[bob].closed);
    }
}

#[test]
fn what_is_retained_no_more_is_told_to_who_was_demoted() {
    //= G65 test
    let mut world = World::over(1, Limits::default(), false);
    world.nodes[0].retention = crate::Retention::new(64 << 10, Duration::from_secs(60));
    world.nodes[0].engine.install(vec![member(0)], consort_types::ViewCause::Formed);
    world.drain(0);
    let (ann, bob) = (world.connect(0, "ann"), world.connect_slow(0, "bob", demoted(None)));
    world.join(bob, "g");
    world.programs[bob].reads = false;
    send(&mut world, ann, 0..120);
    world.read_all(bob);
    let [given, read] = numbers(&world, bob);
    assert_eq!(read.last(), Some(&119), "{read:?}");
    assert!(given.len() + read.len() < 120, "not all was retained");
    let gaps = world.story(bob).into_iter().filter(|line| line.starts_with("gap")).count();
    assert!(gaps > 0, "{:?}", world.story(bob));
}

#[test]
fn where_nothing_is_retained_who_was_demoted_is_told_that_it_reads_nothing() {
    let (mut world, [ann, bob, _]) = world_of(false, Limits::default());
    world.nodes[1].retention = crate::Retention::new(0, Duration::from_secs(60));
    send(&mut world, ann, 0..60);
    world.read_all(bob);
    let ends: Vec<_> = world.story(bob).into_iter().filter(|line| line.starts_with("unsupported")).collect();
    assert!(ends.len() == 1 && ends[0].contains("is configured to retain nothing"), "{ends:?}");
}

#[test]
fn a_member_that_reads_nothing_for_long_is_demoted_and_one_that_asked_for_nothing_reads_nothing() {
    //= G65 test
    let slow = crate::SlowLimits { policy: SlowPolicy::Demote, ..crate::SlowLimits::default() };
    let mut world = World::over(1, Limits { slow, output_max: 200 << 10, ..Limits::default() }, false);
    let (ann, dan) = (world.connect(0, "ann"), world.connect(0, "dan"));
    let eve = world.connect_slow(0, "eve", demoted(Some(Duration::from_secs(2))));
    for at in [dan, eve] {
        world.join(at, "g");
        world.programs[at].reads = false;
    }
    send(&mut world, ann, 0..2);
    for at in [dan, eve] {
        let (now, id) = (world.now, world.programs[at].id);
        world.nodes[0].client_written(now, id, 0);
    }
    world.pass_time(Duration::from_millis(1_500));
    assert_eq!(world.counter(0, "client_demotions"), 0, "it has time");
    world.pass_time(Duration::from_millis(1_000));
    assert_eq!(world.counter(0, "client_demotions"), 1, "eve has had two seconds");
    send(&mut world, ann, 2..60);
    assert_eq!(world.counter(0, "client_demotions"), 2, "dan has half of what the daemon keeps");
    for at in [dan, eve] {
        world.read_all(at);
        assert!(!world.programs[at].closed);
    }
    assert!(numbers(&world, dan)[1].is_empty(), "dan may not know of readings");
    assert_eq!(numbers(&world, eve)[1].last(), Some(&59));
}

#[test]
fn who_reads_already_goes_on_with_that_and_who_vanishes_is_forgotten() {
    let (mut world, [ann, bob, _]) = world_of(false, Limits::default());
    world.client(bob).read(0, Place::at(ReadRequest::NEW), &[group("other")]);
    world.settle();
    send(&mut world, ann, 0..60);
    world.read_all(bob);
    assert!(numbers(&world, bob)[1].is_empty(), "it reads another group");
    let (mut world, [ann, bob, carl]) = world_of(false, Limits::default());
    for n in 0..60 {
        world.multicast(ann, &["g"], &format!("{n:04000}"));
    }
    world.vanish(bob);
    world.settle();
    assert!(others(&world, carl).last().unwrap().ends_with("-> carl"));
    send(&mut world, ann, 60..62);
    assert_eq!(numbers(&world, carl)[0].len(), 62);
}
