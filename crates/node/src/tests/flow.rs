//! Back-pressure, credit, and bytes cut anywhere.
use super::*;
use consort_session::{Progress, request};

fn tight(world: &mut World, limit: usize) {
    world.nodes.iter_mut().for_each(|node| node.engine.limit = limit);
}

#[test]
fn when_the_engine_is_full_the_client_is_paused_and_nothing_is_lost_or_overtaken() {
    for read_size in [1, 7, 50, 1_000, usize::MAX] {
        let mut world = World::new(2, Limits::default());
        let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
        world.join(ann, "g");
        tight(&mut world, 100);
        world.read_size = read_size;
        (0..60).for_each(|n| world.multicast(bob, &["g"], &format!("{n}")));
        world.carry();
        assert!(world.programs[bob].paused, "the engine takes {} bytes", 100);
        (0..8).for_each(|_| world.settle());
        let sent: Vec<_> = (0..60).map(|n| format!("n1/c2 g: {n}")).collect();
        assert_eq!(world.story(ann)[1..], sent);
        assert!(!world.programs[bob].paused);
        assert_eq!(world.counter(1, "clients_paused"), 0);
    }
}

#[test]
fn clients_that_wait_for_room_take_turns() {
    let mut world = World::new(1, Limits::default());
    let all: Vec<_> = (0..3).map(|at| world.connect(0, &format!("p{at}"))).collect();
    world.join(0, "g");
    tight(&mut world, 60);
    for at in &all {
        (0..60).for_each(|n| world.multicast(*at, &["g"], &format!("{n}")));
    }
    world.settle();
    let story = world.story(0);
    for client in ["n0/c1", "n0/c2", "n0/c3"] {
        let got = story.iter().filter(|line| line.starts_with(client)).count();
        assert!((10..30).contains(&got), "{client} has {got} of {}", story.len());
    }
}

#[test]
fn who_waits_for_room_is_still_welcomed_and_still_answered() {
    let mut world = World::new(1, Limits::default());
    tight(&mut world, 0);
    let hello = Hello { name: ClientName::new(b"ann"), ..Hello::default() };
    let other = Hello { name: ClientName::new(b"late"), ..Hello::default() };
    let mut bytes = raw(|out| other.put(out)).to_vec();
    bytes.extend(raw(|out| request::put_ping(out, 5)));
    bytes.extend(raw(|out| request::put_join(out, &group("g"), false)));
    let ann = world.connect_with(0, ClientEnd::new(&hello));
    world.client(ann).ping(5);
    world.client(ann).join(&group("g")).unwrap();
    world.settle();
    assert!(world.programs[ann].paused);
    let late = ClientId(99);
    world.nodes[0].open_client(world.now, late);
    assert_eq!(world.nodes[0].handle_client(world.now, late, bytes.into()), Reading::Pause);
    assert_eq!(world.nodes[0].poll_writable(), Some(late));
    assert!(matches!(&world.programs[ann].events[..], [DaemonEvent::Welcome(_), DaemonEvent::Pong(5)]));
    let mut told = ClientEnd::new(&hello);
    told.feed(Bytes::copy_from_slice(world.nodes[0].client_output(late)));
    assert!(matches!(told.next_event(), Ok(Some(DaemonEvent::Welcome(_)))));
    assert_eq!(told.next_event(), Ok(Some(DaemonEvent::Pong(5))));
}

#[test]
fn credit_returns_with_the_order_and_progress_comes_once_a_turn() {
    let mut world = World::new(2, Limits { credit: 1_000, ..Limits::default() });
    let bob = world.connect(1, "bob");
    (0..20).for_each(|n| world.multicast(bob, &["g"], &format!("{n}")));
    let free = world.client(bob).free();
    world.carry();
    assert_eq!(world.client(bob).free(), free, "nothing is ordered yet");
    world.settle();
    assert_eq!(world.client(bob).free(), 1_000);
    let told: Vec<_> =
        world.programs[bob].events.iter().filter(|event| matches!(event, DaemonEvent::Progress(_))).collect();
    assert!(matches!(told.last(), Some(DaemonEvent::Progress(Progress { accepted: 20, ordered: 20, .. }))));
    assert!(told.len() <= 20);
}

#[test]
fn a_stream_cut_anywhere_gives_the_same_story() {
    let story = |cut: usize, again: usize| {
        let mut world = World::new(1, Limits::default());
        let ann = world.connect(0, "ann");
        let bytes = raw(|out| {
            request::put_join(out, &group("g"), false);
            request::put_multicast(out, Service::Safe, &[group("x"), group("g")], b"payload");
            request::put_ping(out, 3);
            request::put_leave(out, &group("g"));
            request::put_multicast(out, Service::Agreed, &[group("g")], b"unheard");
            request::put_goodbye(out);
        });
        let mut reading = Reading::Go;
        for part in [bytes.slice(..cut), bytes.slice(cut..again), bytes.slice(again..)] {
            assert_eq!(reading, Reading::Go);
            reading = world.nodes[0].handle_client(world.now, ClientId(1), part);
            if again < bytes.len() {
                world.settle();
            }
        }
        world.drain(0);
        world.settle();
        (bytes.len(), world.story(ann))
    };
    let (len, whole) = story(0, 0);
    // A goodbye in the same turn ends the session before its own messages have come back.
    assert_eq!(whole, ["disconnect goodbye"]);
    let waited = ["g join ann -> ann", "n0/c1 x+g: payload", "g leave ann -> ", "disconnect goodbye"];
    for cut in 0..len - 1 {
        assert_eq!(story(cut, len - 1).1, waited, "{cut}");
    }
}

#[test]
fn a_flood_of_group_changes_is_told_in_slices_and_in_order() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    let names: Vec<_> = (0..3_000).map(|n| format!("group-{n:05}")).collect();
    for name in &names {
        world.client(ann).join(&group(name)).unwrap();
        world.client(bob).join(&group(name)).unwrap();
    }
    (0..6).for_each(|_| world.settle());
    assert_eq!(world.nodes[0].groups().len(), 3_000);
    let before = world.story(ann).len();
    world.nodes[0].engine.install(
        vec![member(0)],
        consort_types::ViewCause::Silent { since: std::time::Duration::ZERO, nodes: vec![NodeId(1)] },
    );
    while world.nodes[0].poll_effect().is_some() {}
    assert!(world.nodes[0].groups().has_work(), "one slice is not enough");
    assert!(!world.nodes[0].engine().resumed(), "and until all is told no client message may be sent");
    assert_eq!(world.nodes[0].poll_timeout(), Some(world.now));
    world.wake(0);
    world.drain(0);
    assert!(world.nodes[0].engine().resumed());
    let told = &world.story(ann)[before..];
    let wanted: Vec<_> = names.iter().map(|name| format!("{name} network bob -> ann")).collect();
    assert_eq!(told, wanted);
}

#[test]
fn while_a_client_is_behind_with_reading_its_node_asks_for_less() {
    let mut world = World::new(1, Limits { credit: 8 << 20, ..Limits::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(ann, "g");
    world.programs[ann].reads = false;
    (0..4).for_each(|_| world.multicast(bob, &["g"], &"x".repeat(100 << 10)));
    world.settle();
    let room = world.nodes[0].engine.room;
    assert!(room < (768 - 400) << 10, "{room}");
    assert_eq!(world.counter(0, "clients_behind"), 1);
    let id = world.programs[ann].id;
    let waiting = world.nodes[0].client_outputs(id).flatten().count();
    world.nodes[0].client_written(world.now, id, waiting);
    world.settle();
    assert_eq!((world.nodes[0].engine.room, world.counter(0, "clients_behind")), (usize::MAX, 0));
}
