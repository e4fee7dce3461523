//! Daemons that meet: nothing of clients passes before all have said what their clients are in.
use super::*;
use crate::STREAM;
use consort_group::{Groups, ordered};
use consort_order::{Delivery, Output};
use consort_types::{Class, Duration, Position, View, ViewCause};

/// Another daemon, which has a client in some groups and says so in a view.
fn parts_of(other: u16, view: &View, names: &[&str]) -> Vec<Bytes> {
    let mut groups = Groups::new(member(other));
    let alone = View { members: vec![member(other)], moved_together: vec![member(other)], ..view.clone() };
    groups.install(&alone);
    while groups.advance().is_some() {}
    for (name, at) in names.iter().zip(1..) {
        let join = ordered::join(ClientId(1), &ClientName::new(b"eve").unwrap(), &group(name), false);
        groups.deliver(member(other), Position(at), &join.into()).unwrap();
        while groups.advance().is_some() {}
    }
    groups.install(view);
    while groups.advance().is_some() {}
    std::iter::from_fn(|| groups.next_part()).collect()
}

/// One node with a member of `g`, in a view with a newcomer whose parts are still to come.
fn meeting() -> (World, usize, Vec<Bytes>) {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    let cause = ViewCause::Merged { nodes: vec![NodeId(1)] };
    world.nodes[0].engine.install_with(vec![member(0), member(1)], vec![member(0)], cause);
    world.drain(0);
    let view = world.nodes[0].view().unwrap().clone();
    (world, ann, parts_of(1, &view, &["g", "h"]))
}

fn say(world: &mut World, at: u64, class: Class, payload: Bytes) {
    let delivery = Delivery {
        stream: STREAM,
        position: Position(at),
        sender: member(1),
        id: None,
        class,
        service: Service::Agreed,
        payload: payload.into(),
    };
    world.nodes[0].engine.put_out(Output::Deliver(delivery));
    world.drain(0);
}

#[test]
fn clients_messages_wait_until_the_newcomers_groups_are_known() {
    //= G19 test
    let (mut world, ann, parts) = meeting();
    world.multicast(ann, &["g"], "for all");
    world.settle();
    assert!(!world.nodes[0].engine().resumed());
    assert_eq!(world.story(ann), ["g join ann -> ann"], "nothing is told before all is known");
    parts.into_iter().zip(1_000..).for_each(|(part, at)| say(&mut world, at, Class::Control, part));
    world.settle();
    assert!(world.nodes[0].engine().resumed());
    let names = world.nodes[0].groups().members(b"h").unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(world.story(ann)[1..], ["g network eve -> ann eve", "n0/c1 g: for all"]);
    assert_eq!(world.counter(0, "group_early_messages"), 0);
}

#[test]
fn an_exchange_that_is_cut_short_opens_nothing_and_the_next_view_does() {
    //= G16 test
    let (mut world, ann, parts) = meeting();
    let cause = ViewCause::Silent { nodes: vec![NodeId(1)], since: Duration::ZERO };
    world.nodes[0].engine.install_with(vec![member(0)], vec![member(0)], cause);
    world.drain(0);
    assert!(world.nodes[0].engine().resumed(), "alone again, it knows all there is");
    parts.into_iter().zip(1_000..).for_each(|(part, at)| say(&mut world, at, Class::Control, part));
    assert_eq!(world.story(ann), ["g join ann -> ann"]);
    assert!(world.nodes[0].groups().members(b"h").is_none());
}

#[test]
fn beacons_carry_what_the_groups_are_like_and_another_table_is_noticed() {
    //= G31 test
    let mut world = World::new(2, Limits::default());
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    let annotation = world.nodes[1].engine().annotation();
    assert!(!annotation.is_empty());
    let from = member(1);
    world.nodes[0].engine.put_out(Output::Beacon { from, annotation: annotation.clone() });
    world.nodes[0].engine.put_out(Output::Beacon { from, annotation: Bytes::new() });
    world.drain(0);
    let counts = |world: &World| {
        ["group_hashes_compared", "group_hash_mismatches", "group_digests_malformed"].map(|name| world.counter(0, name))
    };
    assert_eq!(counts(&world), [1, 0, 0]);
    let mut wrong = annotation.to_vec();
    *wrong.last_mut().unwrap() ^= 1;
    world.nodes[0].engine.put_out(Output::Beacon { from, annotation: wrong.into() });
    world.nodes[0].engine.put_out(Output::Beacon { from, annotation: Bytes::from_static(b"?") });
    world.drain(0);
    assert_eq!(counts(&world), [2, 1, 1]);
    let status = world.nodes[0].status();
    assert!(status.iter().any(|(_, value)| value.contains("n1.101 has other groups than this node")), "{status:?}");
    let ann = world.connect(0, "eve");
    world.multicast(ann, &["g"], "still alive");
    world.settle();
    assert_eq!(world.story(0).last().unwrap(), "n0/c2 g: still alive");
}

#[test]
fn a_node_is_ready_in_a_regular_view_whose_exchange_is_done() {
    let ready = |node: &Node<Sequencer>| {
        let found = node.status().into_iter().find(|(key, _)| key == "ready");
        found.map(|(_, value)| value).unwrap()
    };
    let fresh = Node::new(identity(0), Sequencer::new(member(0), vec![member(0)]), Limits::default());
    assert_eq!(ready(&fresh), "no view yet");
    let (mut world, _, parts) = meeting();
    assert_eq!(ready(&world.nodes[0]), "the daemons are exchanging their groups");
    parts.into_iter().zip(1_000..).for_each(|(part, at)| say(&mut world, at, Class::Control, part));
    world.settle();
    assert_eq!(ready(&world.nodes[0]), "yes");
}

#[test]
fn what_an_engine_delivers_within_submit_gives_its_credit_back() {
    let mut world = World::new(1, Limits { credit: 100, ..Limits::default() });
    let ann = world.connect(0, "ann");
    world.nodes[0].engine.at_once = true;
    world.join(ann, "g");
    for n in 0..20 {
        world.multicast(ann, &["g"], &format!("{n}"));
        world.carry();
        assert_eq!(world.client(ann).free(), 100, "{n}");
    }
    assert_eq!(world.client(ann).progress().ordered, 21);
    assert_eq!(world.story(ann).len(), 21);
}

#[test]
fn private_and_closed_names_work_end_to_end() {
    //= G06 test
    //= G07 test
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.client(ann).join_closed(&group("g")).unwrap();
    world.settle();
    let to = consort_session::PrivateName::parse("#ann#n0").unwrap();
    world.client(bob).multicast(Service::Agreed, &[to], b"psst").unwrap();
    world.multicast(bob, &["g"], "no");
    world.settle();
    world.multicast(ann, &["g"], "yes");
    world.settle();
    assert_eq!(world.story(ann), ["g join ann -> ann", "n1/c2 #ann#n0: psst", "n0/c1 g: yes"]);
    assert_eq!(world.story(bob), ["refused 2: closed"]);
    assert_eq!((world.client(bob).progress().ordered, world.client(bob).free()), (2, Limits::default().credit));
}

#[test]
fn a_name_belongs_to_one_client_at_a_time() {
    let mut world = World::new(2, Limits::default());
    let (ann, twin, far) = (world.connect(0, "ann"), world.connect(0, "ann"), world.connect(1, "ann"));
    assert_eq!(world.story(twin), ["disconnect name_taken"]);
    assert_eq!(world.story(far), [""; 0], "another daemon's names are its own");
    world.vanish(ann);
    let again = world.connect(0, "ann");
    assert_eq!(world.story(again), [""; 0]);
    world.join(again, "g");
    assert_eq!(world.story(again), ["g join ann -> ann"]);
}

#[test]
fn a_node_with_more_to_say_of_its_groups_than_the_engine_takes_at_once_says_all_of_it() {
    //= G14 test
    let mut world = World::new(1, Limits::default());
    let ann = world.connect(0, "ann");
    for n in 0..3_000 {
        world.client(ann).join(&group(&format!("a-group-with-a-rather-long-name-the-{n}th"))).unwrap();
    }
    world.settle();
    let cause = ViewCause::Merged { nodes: vec![NodeId(1)] };
    world.nodes[0].engine.control_limit = 40_000;
    world.nodes[0].engine.install_with(vec![member(0), member(1)], vec![member(0)], cause);
    world.drain(0);
    let parts = parts_of(1, &world.nodes[0].view().unwrap().clone(), &["h"]);
    parts.into_iter().zip(1_000_000..).for_each(|(part, at)| say(&mut world, at, Class::Control, part));
    for _ in 0..40 {
        world.settle();
    }
    assert!(world.nodes[0].engine().resumed(), "its own parts were all ordered");
    assert_eq!(world.counter(0, "group_parts_refused") + world.counter(0, "group_parts_broken"), 0);
}
