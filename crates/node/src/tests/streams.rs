//! Engines of several streams: which one each request goes to, and what is refused.
use super::*;
use crate::streams::{GroupStreams, StreamGroups};
use consort_group::PrivateName;
use consort_types::OrderStream;

fn stream(number: u16, pattern: &str) -> StreamGroups {
    let (stream, name) = (OrderStream(number), format!("ring {number}"));
    StreamGroups { stream, name, patterns: vec![pattern.to_owned()], global: pattern == "all" }
}

/// One node whose groups live on rings: those with `a`, and those with `b`.
fn world(more: &[StreamGroups]) -> World {
    let mut world = World::new(1, Limits::default());
    let streams = [&[stream(1, "a*"), stream(2, "b*")], more].concat();
    world.nodes[0].set_streams(GroupStreams::new(streams));
    world
}

/// The streams of what clients asked for since it was asked last.
fn streams(world: &mut World) -> Vec<u16> {
    world.settle();
    std::mem::take(&mut world.nodes[0].engine.streams)
}

#[test]
fn joins_messages_and_leaves_of_a_group_go_to_its_stream_and_what_concerns_no_group_to_none() {
    //= MP59 test
    let mut world = world(&[]);
    let bob = world.connect(0, "bob");
    world.join(bob, "b1");
    world.multicast(bob, &["b1"], "one");
    world.multicast(bob, &["a1", "a2"], "two");
    let own = [PrivateName::parse("#bob#n0").unwrap()];
    world.client(bob).multicast(Service::Agreed, &own, b"three").unwrap();
    assert_eq!(streams(&mut world), [2, 2, 1, 0]);
    let leave = world.client(bob).leave(&group("b1"));
    leave.unwrap();
    world.settle();
    world.vanish(bob);
    assert_eq!(streams(&mut world), [2, 0]);
}

#[test]
fn a_message_across_streams_goes_to_the_global_one_or_is_refused_with_both_names() {
    //= MP60 test
    let mut world = world(&[]);
    let bob = world.connect(0, "bob");
    world.join(bob, "b1");
    world.multicast(bob, &["b1", "a1"], "lost");
    world.multicast(bob, &["b1"], "kept");
    assert_eq!(streams(&mut world), [2, 2]);
    let refused = world.programs[bob].events.iter().find_map(|event| match event {
        DaemonEvent::Refused { request, refusal } => Some((*request, refusal.to_string())),
        _ => None,
    });
    let (request, text) = refused.unwrap();
    assert!(request == 2 && text.contains("b1 is on ring 2 and a1 on ring 1, and none is global"), "{text}");
    assert_eq!(world.story(bob), ["b1 join bob -> bob", "refused 2: across_rings", "n0/c1 b1: kept"]);

    let mut world = self::world(&[stream(3, "all")]);
    let bob = world.connect(0, "bob");
    world.join(bob, "b1");
    world.multicast(bob, &["b1", "a1"], "to both");
    assert_eq!(streams(&mut world), [2, 3]);
    assert_eq!(world.story(bob).last().unwrap(), "n0/c1 b1+a1: to both");
}
