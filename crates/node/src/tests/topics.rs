//! Engines that spare nodes what they do not read: what is told to them, and when clients join.
use super::*;
use crate::streams::{GroupStreams, StreamGroups};
use consort_group::PrivateName;
use consort_order::{Obstacle, Topic};
use consort_session::WaitNotice;
use consort_types::{Duration, OrderStream, OrderWait};

/// Two nodes that are spared what they do not read.
fn world() -> World {
    let mut world = World::over(2, Limits::default(), false);
    for node in &mut world.nodes {
        node.engine.filters = true;
        node.spare_unread();
    }
    world.settle();
    world
}

fn reading(world: &World, node: usize) -> Vec<Topic> {
    world.nodes[node].engine.reading.clone().unwrap()
}

/// The topics of what was sent since it was asked last.
fn topics(world: &mut World, node: usize) -> Vec<Vec<Topic>> {
    world.settle();
    std::mem::take(&mut world.nodes[node].engine.topics)
}

#[test]
fn a_join_waits_until_all_that_stands_behind_it_will_come() {
    //= TM54 test
    let mut world = world();
    let bob = world.connect(0, "bob");
    assert_eq!(reading(&world, 0), []);
    world.nodes[0].engine.is_read = false;
    world.join(bob, "g");
    let wanted = reading(&world, 0);
    assert_eq!((wanted.len(), world.story(bob)), (1, vec![]), "joins: it is wanted, and does not come yet");
    assert_eq!(topics(&mut world, 0), [] as [Vec<Topic>; 0], "nothing was handed over");
    world.nodes[0].engine.is_read = true;
    world.settle();
    assert_eq!((world.story(bob), reading(&world, 0)), (vec!["g join bob -> bob".to_owned()], wanted));
}

#[test]
fn joins_that_are_asked_for_together_wait_together() {
    //= TM54 test
    let mut world = world();
    let bob = world.connect(0, "bob");
    world.nodes[0].engine.is_read = false;
    for number in 0..200 {
        world.client(bob).join(&group(&format!("g{number}"))).unwrap();
    }
    world.settle();
    let wanted = reading(&world, 0);
    assert!(wanted.len() > 190, "two may have one topic, and {} are wanted", wanted.len());
    world.nodes[0].engine.is_read = true;
    world.settle();
    assert_eq!((world.story(bob).len(), reading(&world, 0)), (200, wanted));
}

#[test]
fn a_topic_is_read_until_the_last_leave_has_its_place() {
    //= TM54 test
    let mut world = world();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(0, "eve"));
    world.join(bob, "g");
    world.join(eve, "g");
    let wanted = reading(&world, 0);
    world.client(eve).leave(&group("g")).unwrap();
    world.settle();
    assert_eq!(reading(&world, 0), wanted, "filtering: bob is in");
    world.nodes[0].engine.stuck = true;
    world.client(bob).leave(&group("g")).unwrap();
    world.settle();
    assert_eq!(reading(&world, 0), wanted, "filtering: the leave has no place yet");
    world.nodes[0].engine.stuck = false;
    world.settle();
    assert_eq!(reading(&world, 0), []);
    world.join(bob, "g");
    world.vanish(bob);
    world.settle();
    assert_eq!(reading(&world, 0), [], "it left with its connection");
}

#[test]
fn messages_to_groups_name_topics_and_all_else_is_for_all() {
    //= TM50 test
    let mut world = world();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(1, "eve"));
    world.join(bob, "g");
    let own = reading(&world, 0);
    assert_eq!(topics(&mut world, 0), [vec![]], "a join");
    world.multicast(eve, &["g"], "one");
    world.multicast(eve, &["g", "h"], "two");
    let told = topics(&mut world, 1);
    assert_eq!((&told[0], told[1].len(), told[1].contains(&own[0])), (&own, 2, true));
    let both = [
        consort_session::Target::Group(group("g")),
        consort_session::Target::Client(PrivateName::parse("#bob#n0").unwrap()),
    ];
    world.client(eve).multicast(Service::Agreed, &both, b"three").unwrap();
    assert_eq!(topics(&mut world, 1), [vec![]], "a client may be anywhere");
    assert_eq!(world.story(bob).len(), 4);
}

#[test]
fn a_status_names_the_groups_that_a_gateway_sends_on() {
    //= TM50 test
    let mut world = world();
    let bob = world.connect(0, "bob");
    world.join(bob, "g");
    let one = reading(&world, 0);
    let told = |world: &World, topics: &[Topic]| world.nodes[1].sent_on(Some(topics));
    assert_eq!(world.nodes[1].sent_on(None), "everything");
    assert_eq!(told(&world, &[]), "only what is for all");
    assert_eq!(told(&world, &one), "what is for all, and groups g");
    for number in 0..10 {
        world.join(bob, &format!("h{number}"));
    }
    let all = reading(&world, 0);
    assert_eq!(told(&world, &all), "what is for all, and groups g h0 h1 h2 h3 h4 h5 h6 and 3 more");
    assert_eq!(told(&world, &one), "what is for all, and groups g", "of others nothing");
}

#[test]
fn engines_that_filter_nothing_are_told_nothing() {
    let mut world = World::new(1, Limits::default());
    world.nodes[0].spare_unread();
    let bob = world.connect(0, "bob");
    world.join(bob, "g");
    world.multicast(bob, &["g"], "one");
    world.settle();
    assert_eq!((world.nodes[0].engine.reading.clone(), world.nodes[0].engine.topics.len()), (None, 0));
    assert_eq!(world.story(bob).len(), 2);
}

/// Two nodes of which each reads the streams that it needs: groups with `a`, and groups with `b`.
fn apart() -> World {
    let mut world = World::over(2, Limits::default(), false);
    let stream = |(number, pattern): (u16, &str)| {
        let (stream, name) = (OrderStream(number), format!("ring {number}"));
        StreamGroups { stream, name, patterns: vec![pattern.to_owned()], global: number == 3 }
    };
    for node in &mut world.nodes {
        node.engine.filters = true;
        node.set_streams(GroupStreams::new([(1, "a*"), (2, "b*"), (3, "all")].map(stream).into()));
        node.spare_unread();
    }
    world.settle();
    world
}

/// The streams of what clients asked for since it was asked last.
fn streams(world: &mut World, node: usize) -> Vec<u16> {
    world.settle();
    std::mem::take(&mut world.nodes[node].engine.streams)
}

#[test]
fn a_client_sends_to_another_stream_once_all_that_it_sent_has_its_place() {
    //= MP76 test
    let mut world = apart();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(0, "eve"));
    world.multicast(bob, &["a1"], "before");
    assert_eq!(streams(&mut world, 0), [1]);
    world.nodes[0].engine.stuck = true;
    world.multicast(bob, &["a1"], "one");
    world.multicast(bob, &["b1"], "two");
    world.client(bob).join(&group("a1")).unwrap();
    assert_eq!(streams(&mut world, 0), [1], "sender's order: nothing goes to another stream yet");
    world.multicast(eve, &["b1"], "three");
    assert_eq!(streams(&mut world, 0), [2], "who sent nothing else does not wait");
    world.nodes[0].engine.stuck = false;
    assert_eq!(streams(&mut world, 0), [2, 0], "sender's order: each once the one before has its place");
    // What is under way has its place before its sender's going.
    world.nodes[0].engine.stuck = true;
    world.multicast(bob, &["b1"], "last");
    world.settle();
    world.vanish(bob);
    assert_eq!(streams(&mut world, 0), [2], "sender's order: its going waits");
    world.nodes[0].engine.stuck = false;
    assert_eq!(streams(&mut world, 0), [0]);
}

#[test]
fn clients_that_go_do_not_wait_for_each_other() {
    //= MP76 test
    let mut world = apart();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(0, "eve"));
    world.join(bob, "a1");
    world.join(eve, "a1");
    assert_eq!(streams(&mut world, 0), [0, 0]);
    world.nodes[0].engine.stuck = true;
    world.multicast(bob, &["b1"], "last");
    assert_eq!(streams(&mut world, 0), [2]);
    world.vanish(bob);
    world.vanish(eve);
    assert_eq!(streams(&mut world, 0), [0], "who has nothing under way goes");
    world.nodes[0].engine.stuck = false;
    assert_eq!(streams(&mut world, 0), [0]);
}

#[test]
fn what_all_must_know_goes_to_the_stream_that_all_read() {
    //= MP77 test
    let mut world = apart();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(1, "eve"));
    world.join(bob, "a1");
    world.client(bob).leave(&group("a1")).unwrap();
    assert_eq!(streams(&mut world, 0), [0, 0]);
    let both = [
        consort_session::Target::Group(group("b1")),
        consort_session::Target::Client(PrivateName::parse("#eve#n1").unwrap()),
    ];
    world.client(bob).multicast(Service::Agreed, &both, b"one").unwrap();
    world.multicast(bob, &["b1", "b2"], "two");
    world.multicast(bob, &["a1", "b1"], "three");
    assert_eq!(streams(&mut world, 0), [0, 2, 0], "a client may be anywhere, and the third ring is global");
    assert_eq!(world.story(eve), ["n0/c1 b1+#eve#n1: one"]);
}

#[test]
fn a_stream_is_read_for_those_who_are_in_its_groups_or_send_there() {
    //= MP74 test
    let mut world = apart();
    let bob = world.connect(0, "bob");
    assert_eq!(reading(&world, 0), []);
    world.nodes[0].engine.is_read = false;
    world.multicast(bob, &["b1"], "one");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![], vec![Topic(2)]), "it is not read yet");
    world.nodes[0].engine.is_read = true;
    world.now += Duration::from_millis(10);
    assert_eq!(streams(&mut world, 0), [2]);
    world.join(bob, "a1");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![0], vec![Topic(1), Topic(2)]));
    world.now += Duration::from_secs(31);
    world.multicast(bob, &["a1"], "two");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![1], vec![Topic(1)]), "nobody sent to it lately");
    world.now += Duration::from_secs(31);
    world.client(bob).leave(&group("a1")).unwrap();
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![0], vec![Topic(1)]), "it left just now");
    world.now += Duration::from_secs(31);
    world.multicast(bob, &["b1"], "three");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![2], vec![Topic(2)]), "nobody is in, nobody sends");
}

#[test]
fn a_stream_that_brings_nothing_is_left_soon_and_named_to_those_who_wait_for_it() {
    //= MP74 test
    //= MP82 test
    let mut world = apart();
    let (bob, eve) = (world.connect(0, "bob"), world.connect(0, "eve"));
    world.multicast(bob, &["b1"], "one");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![2], vec![Topic(2)]));
    world.now += Duration::from_secs(3);
    world.multicast(eve, &["a1"], "two");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![1], vec![Topic(1), Topic(2)]));
    world.nodes[0].engine.stalled.insert(Topic(2), OrderWait::Ring(2));
    world.multicast(eve, &["a1"], "three");
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![1], vec![Topic(1)]), "no client is in it");
    // A client that would send there learns why that waits, and it is wanted while a client would.
    world.nodes[0].engine.is_read = false;
    world.multicast(bob, &["b1"], "four");
    for _ in 0..200 {
        world.now += Duration::from_millis(20);
        world.settle();
    }
    assert_eq!((streams(&mut world, 0), reading(&world, 0)), (vec![], vec![Topic(1), Topic(2)]));
    let told = |at: usize| {
        let events = world.programs[at].events.iter();
        let told = events.filter_map(|event| if let DaemonEvent::Waiting(told) = event { Some(*told) } else { None });
        told.collect::<Vec<_>>()
    };
    assert_eq!((told(bob), told(eve)), (vec![WaitNotice { up_to: 2, cause: OrderWait::Ring(2) }], vec![]));
    world.nodes[0].engine.stalled.clear();
    world.nodes[0].engine.is_read = true;
    world.now += Duration::from_millis(10);
    assert_eq!(streams(&mut world, 0), [2]);
}

#[test]
fn a_node_that_the_others_left_out_does_not_call_its_view_primary() {
    //= MP82 test
    let mut world = World::new(1, Limits::default());
    world.settle();
    let told = |world: &World, key: &str| world.nodes[0].status().into_iter().find(|(name, _)| name == key).unwrap().1;
    assert_eq!(told(&world, "ready"), "yes");
    world.nodes[0].engine.obstacle = Some(Obstacle::Apart);
    assert_eq!(told(&world, "ready"), "the others have gone on without this node");
    assert_eq!(told(&world, "primary"), "no policy", "no part is");
}
