//! Messages that were sent together and stand in the order as one.
use super::*;

fn alike(world: &mut World, from: usize, names: &[&str], payloads: &[&str]) {
    payloads.iter().for_each(|payload| world.send_as(from, Service::Agreed, names, payload));
    world.settle();
}

#[test]
fn all_members_are_told_each_message_of_a_batch_and_the_sender_counts_each() {
    //= G09 test
    for read_size in [1, 7, 30, usize::MAX] {
        let mut world = World::new(2, Limits::default());
        let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
        world.join(ann, "g");
        world.join(bob, "g");
        let ordered = world.nodes[0].engine.numbered;
        world.read_size = read_size;
        alike(&mut world, bob, &["g", "h"], &["one", "", "three"]);
        let told = ["n1/c2 g+h: one", "n1/c2 g+h: ", "n1/c2 g+h: three"];
        for at in [ann, bob] {
            let story = world.story(at);
            assert_eq!(story[story.len() - 3..], told, "with reads of {read_size} bytes");
        }
        assert_eq!(world.client(bob).progress().ordered, 4);
        assert_eq!(world.client(bob).free(), Limits::default().credit);
        let placed = world.nodes[0].engine.numbered - ordered;
        assert!(if read_size == usize::MAX { placed == 1 } else { placed <= 3 }, "{placed} places");
        assert_eq!((world.counter(1, "requests_accepted"), world.counter(0, "messages_delivered")), (4, 3));
    }
}

#[test]
fn a_batch_to_a_closed_group_is_refused_message_by_message() {
    //= G09 test
    //= G07 test
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.client(ann).join_closed(&group("g")).unwrap();
    world.settle();
    let before = world.story(ann).len();
    alike(&mut world, bob, &["g"], &["one", "two"]);
    world.multicast(bob, &["elsewhere"], "three");
    world.settle();
    assert_eq!(world.story(bob), ["refused 1: closed", "refused 2: closed"]);
    assert_eq!((world.story(ann).len(), world.counter(1, "requests_refused")), (before, 2));
    assert_eq!(world.client(bob).progress().ordered, 3);
}

#[test]
fn what_waits_for_room_goes_on_as_a_batch_and_nothing_is_lost() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    world.nodes[0].engine.limit = 0;
    alike(&mut world, ann, &["g"], &["one"]);
    assert!(world.programs[ann].paused);
    alike(&mut world, ann, &["g"], &["two", "three"]);
    world.nodes[0].engine.limit = 1_000;
    (0..3).for_each(|_| world.settle());
    assert_eq!(world.story(ann)[1..], ["n0/c1 g: one", "n0/c1 g: two", "n0/c1 g: three"]);
}
