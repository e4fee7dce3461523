//! Engines that spare nodes what they do not read: what is told to them, and when clients join.
use super::*;
use consort_group::PrivateName;
use consort_order::Topic;

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
