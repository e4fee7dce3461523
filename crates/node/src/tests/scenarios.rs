//! What has broken groups over changing views before, as scripts, named by their numbers in the ring's list.
use super::*;
use consort_types::ViewCause;

impl World {
    fn install(&mut self, node: usize, members: &[u16]) {
        let members = members.iter().copied().map(member).collect();
        self.nodes[node].engine.install(members, ViewCause::Formed);
    }

    fn names(&self, node: usize, group: &str) -> Vec<String> {
        let members = self.nodes[node].groups().members(group.as_bytes()).unwrap_or_default();
        members.iter().map(|member| member.name.as_str().to_owned()).collect()
    }
}

#[test]
fn f25_a_daemon_that_goes_while_its_view_is_still_being_told_leaves_no_ghost() {
    let mut world = World::new(3, Limits::default());
    let (ann, eve) = (world.connect(0, "ann"), world.connect(2, "eve"));
    world.join(ann, "g");
    world.join(eve, "g");
    // It goes, comes, and goes again before anybody was told of the first.
    for members in [&[0, 1][..], &[0, 1, 2], &[0, 1]] {
        (0..2).for_each(|node| world.install(node, members));
    }
    (0..2).for_each(|node| world.drain(node));
    world.settle();
    for node in 0..2 {
        assert_eq!(world.names(node, "g"), ["ann"]);
    }
    assert_eq!(world.story(ann).last().unwrap(), "g network eve -> ann", "told once");
    assert_eq!(world.story(ann).iter().filter(|line| line.contains("network")).count(), 1);
}

#[test]
fn f26_a_second_change_before_the_first_has_settled_opens_no_gate_too_early() {
    let mut world = World::new(3, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    [ann, bob].iter().for_each(|at| world.join(*at, "g"));
    world.multicast(ann, &["g"], "waits for both changes");
    world.carry();
    for members in [&[0, 1][..], &[0]] {
        world.install(0, members);
    }
    assert!(!world.nodes[0].engine().resumed());
    world.drain(0);
    world.settle();
    assert!(world.nodes[0].engine().resumed(), "for the last view");
    let story = world.story(ann);
    assert_eq!(story[story.len() - 2..], ["g network bob -> ann", "n0/c1 g: waits for both changes"]);
}

#[test]
fn f27_leaving_and_joining_again_at_once_are_two_events_in_one_order() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    [ann, bob].iter().for_each(|at| world.join(*at, "g"));
    let (before, before_bob) = (world.story(ann).len(), world.story(bob).len());
    world.client(ann).leave(&group("g")).unwrap();
    world.client(ann).join(&group("g")).unwrap();
    world.settle();
    let told = ["g leave ann -> bob", "g join ann -> ann bob"];
    assert_eq!(world.story(ann)[before..], told);
    assert_eq!(world.story(bob)[before_bob..], told);
}

#[test]
fn f38_a_change_of_a_group_has_the_same_name_at_every_daemon() {
    let mut world = World::new(3, Limits::default());
    let names = ["ann", "bob", "eve"];
    let clients: Vec<_> = names.iter().enumerate().map(|(node, name)| world.connect(node, name)).collect();
    for (at, groups) in clients.iter().zip([&["g", "h"][..], &["h"], &["g"]]) {
        groups.iter().for_each(|name| world.join(*at, name));
    }
    let ids = |world: &World, node: usize| {
        world.nodes[node].groups().all().map(|(name, id, _)| (name.clone(), id)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&world, 0).len(), 2);
    assert!((1..3).all(|node| ids(&world, node) == ids(&world, 0)));
    (0..2).for_each(|node| world.install(node, &[0, 1]));
    (0..2).for_each(|node| world.drain(node));
    world.settle();
    assert_eq!(ids(&world, 0), ids(&world, 1), "after a change of daemons, too");
    world.join(clients[1], "g");
    assert_eq!(ids(&world, 0), ids(&world, 1));
}
