//! One order for all, and joins and leaves at one place in it.
use super::*;
use consort_types::Rng;

#[test]
fn three_daemons_deliver_one_order_to_all_members() {
    let mut world = World::new(3, Limits::default());
    let all: Vec<_> = (0..3).map(|node| world.connect(node, &format!("p{node}"))).collect();
    all.iter().for_each(|at| world.join(*at, "g"));
    for round in 0..50 {
        for at in &all {
            world.multicast(*at, &["g"], &format!("{round} of {at}"));
        }
        if round % 7 == 0 {
            world.settle();
        }
    }
    world.settle();
    let messages = |at: usize| -> Vec<_> { world.story(at).into_iter().filter(|line| line.contains(" of ")).collect() };
    assert_eq!(messages(0).len(), 150);
    assert_eq!((messages(1), messages(2)), (messages(0), messages(0)));
    for at in 0..3 {
        let own: Vec<_> = messages(0).into_iter().filter(|line| line.ends_with(&format!("of {at}"))).collect();
        let sent: Vec<_> = (0..50).map(|round| format!("n{at}/c{} g: {round} of {at}", at + 1)).collect();
        assert_eq!(own, sent, "in the order in which it was sent");
    }
}

#[test]
fn joins_and_leaves_stand_at_the_same_place_for_everybody() {
    let mut world = World::new(3, Limits::default());
    let (ann, bob, eve) = (world.connect(0, "ann"), world.connect(1, "bob"), world.connect(2, "eve"));
    world.join(ann, "g");
    world.multicast(bob, &["g"], "before");
    world.settle();
    world.client(bob).join(&group("g")).unwrap();
    world.multicast(eve, &["g"], "between");
    world.settle();
    world.client(ann).leave(&group("g")).unwrap();
    world.multicast(ann, &["g"], "after");
    world.settle();
    let early = ["g join ann -> ann", "n1/c2 g: before"];
    let shared = ["g join bob -> ann bob", "n2/c3 g: between", "g leave ann -> bob"];
    let anns: Vec<_> = early.iter().chain(&shared).copied().collect();
    assert_eq!(world.story(ann), anns);
    assert_eq!(world.story(bob), [&shared[..], &["n0/c1 g: after"]].concat());
    assert_eq!(world.story(eve), [""; 0], "eve may send, and is told nothing");
    let members: Vec<_> = world.nodes.iter().map(|node| format!("{:?}", node.groups().members(b"g"))).collect();
    assert!(members.iter().all(|list| *list == members[0]) && members[0].contains("bob"));
}

#[test]
fn a_member_of_several_targets_gets_a_message_once() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.join(ann, "a");
    world.join(ann, "b");
    world.multicast(bob, &["b", "a", "c"], "x");
    world.settle();
    assert_eq!(world.story(ann), ["a join ann -> ann", "b join ann -> ann", "n1/c2 b+a+c: x"]);
}

#[test]
fn what_a_vanished_client_sent_is_ordered_and_its_going_comes_after() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.join(ann, "g");
    world.join(bob, "g");
    world.multicast(bob, &["g"], "last words");
    world.carry();
    world.vanish(bob);
    world.settle();
    assert_eq!(world.story(ann)[2..], ["n1/c2 g: last words", "g disconnect bob -> ann"]);
    assert_eq!(world.counter(1, "clients"), 0);
}

#[test]
fn a_goodbye_is_answered_and_everything_before_it_is_ordered() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.join(ann, "g");
    world.join(bob, "g");
    world.multicast(bob, &["g"], "last words");
    world.client(bob).goodbye();
    world.settle();
    assert_eq!(world.story(ann)[2..], ["n1/c2 g: last words", "g disconnect bob -> ann"]);
    assert_eq!(world.story(bob).last().unwrap(), "disconnect goodbye");
    assert_eq!((world.counter(1, "clients"), world.counter(1, "sessions_ended_goodbye")), (0, 1));
}

#[test]
fn a_join_or_leave_that_changes_nothing_is_refused_by_its_number() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect(0, "ann");
    world.client(ann).leave(&group("g")).unwrap();
    world.client(ann).join(&group("g")).unwrap();
    world.client(ann).join(&group("g")).unwrap();
    world.settle();
    assert_eq!(world.story(ann), ["refused 1: not_member", "g join ann -> ann", "refused 3: already_member"]);
    assert_eq!(world.client(ann).progress().ordered, 3);
}

/// Chance: clients of three daemons join, leave, send, vanish and come; then everybody compares.
#[test]
fn whatever_clients_do_all_members_see_one_order() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(3, Limits::default());
        world.read_size = rng.between(1, 200) as usize;
        (0..6).for_each(|at| assert_eq!(world.connect(at % 3, &format!("p{at}")), at));
        for step in 0..120 {
            let at = rng.below(6) as usize;
            let name = ["a", "b", "c"][rng.below(3) as usize];
            match rng.below(10) {
                0 | 1 => drop(world.client(at).join(&group(name))),
                2 => drop(world.client(at).leave(&group(name))),
                3 => world.carry(),
                4 => world.settle(),
                _ if !world.programs[at].closed => world.multicast(at, &[name, "a"], &format!("m{step}")),
                _ => {}
            }
            if step == 60 {
                world.vanish(at);
            }
        }
        world.settle();
        check_one_order(&world);
    }
}

/// Any two clients saw the messages that both saw in the same order.
fn check_one_order(world: &World) {
    let stories: Vec<Vec<_>> = (0..world.programs.len())
        .map(|at| world.story(at).into_iter().filter(|line| line.contains(": m")).collect())
        .collect();
    assert!(stories.iter().any(|story| story.len() > 10));
    for one in &stories {
        for other in &stories {
            let shared: Vec<_> = one.iter().filter(|line| other.contains(line)).collect();
            let again: Vec<_> = other.iter().filter(|line| one.contains(line)).collect();
            assert_eq!(shared, again);
        }
    }
}
