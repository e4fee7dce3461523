//! Reading where positions belong to views: what a node has kept, then what comes, at this node or another.
use super::*;
use consort_order::Output;
use consort_session::{Place, ReadRequest, ViewClosing, ViewPlace, ViewTrail};
use consort_types::{Duration, Position, Primary, View, ViewCause, ViewId, ViewKind};

/// Nodes over an engine that retains nothing, and a client at the first one that talks.
fn world_of(nodes: u16) -> (World, usize) {
    let mut world = World::over(nodes, Limits::default(), false);
    let ann = world.connect(0, "ann");
    (world, ann)
}

fn say(world: &mut World, from: usize, names: &[&str], payload: &str) {
    world.multicast(from, names, payload);
    world.settle();
}

fn told(world: &mut World, at: usize) -> Vec<String> {
    let story = world.story(at);
    world.programs[at].events.clear();
    story
}

/// What a reader was told, without where.
fn texts(world: &mut World, at: usize) -> Vec<String> {
    let events = std::mem::take(&mut world.programs[at].events);
    let text = |event: DaemonEvent| match event {
        DaemonEvent::Read(message) => Some(String::from_utf8_lossy(message.payload()).into_owned()),
        _ => None,
    };
    events.into_iter().filter_map(text).collect()
}

fn read_new(world: &mut World, at: usize, name: &str) {
    world.client(at).read(0, Place::at(ReadRequest::NEW), &[group(name)]);
    world.settle();
}

fn read_on(world: &mut World, at: usize, trail: &ViewTrail, position: u64) {
    world.client(at).read_on(trail, Place::at(position), &[group("g")]);
    world.settle();
}

fn newest(world: &World) -> u64 {
    world.nodes[0].engine.numbered
}

fn view_of(world: &World, node: usize) -> ViewId {
    world.nodes[node].view().unwrap().id
}

/// A view is being closed at a node by these.
fn close(world: &mut World, node: usize, members: &[u16]) {
    let members: Vec<_> = members.iter().copied().map(member).collect();
    let (id, kind, moved_together) = (view_of(world, node), ViewKind::Transitional, members.clone());
    let (primary, cause) = (Primary::NoPolicy, ViewCause::Formed);
    let view = View { id, kind, members, moved_together, primary, cause, evidence: Vec::new(), missed_primary: false };
    world.nodes[node].engine.put_out(Output::Install(view));
    world.drain(node);
}

fn install(world: &mut World, node: usize, members: &[u16]) {
    let members: Vec<_> = members.iter().copied().map(member).collect();
    world.nodes[node].engine.install(members, ViewCause::Formed);
    world.drain(node);
}

#[test]
fn whoever_reads_is_told_what_comes_and_goes_on_at_another_node() {
    //= E21 test
    //= E25 test
    let (mut world, ann) = world_of(3);
    let (rea, roy) = (world.connect(1, "rea"), world.connect(2, "roy"));
    say(&mut world, ann, &["g"], "nobody reads yet");
    read_new(&mut world, rea, "g");
    let begun = told(&mut world, rea);
    let end = newest(&world);
    assert_eq!(begun[0], format!("reads 0: {} to {end}", end + 1), "{begun:?}");
    assert_eq!(begun[1], "in view 1 behind 0");
    (0..3).for_each(|n| say(&mut world, ann, &["g"], &format!("m{n}")));
    say(&mut world, ann, &["h"], "not for it");
    assert_eq!(texts(&mut world, rea), ["m0", "m1", "m2"]);
    let trail = ViewTrail::new(view_of(&world, 1));
    let at = newest(&world) - 2;
    world.vanish(rea);
    say(&mut world, ann, &["g"], "meanwhile");
    read_on(&mut world, roy, &trail, at);
    assert_eq!(texts(&mut world, roy), ["m1", "m2", "meanwhile"]);
    ["a", "b", "c"].iter().for_each(|text| world.send_as(ann, Service::Agreed, &["g"], text));
    world.settle();
    assert_eq!(texts(&mut world, roy), ["a", "b", "c"]);
    let place = Place { position: newest(&world), index: 1 };
    world.client(roy).read_on(&trail, place, &[group("g")]);
    world.settle();
    assert_eq!(texts(&mut world, roy), ["b", "c"], "a batch is read from its middle");
}

#[test]
fn what_is_not_kept_any_more_is_told_from_where_to_where() {
    //= E26 test
    let (mut world, ann) = world_of(1);
    world.nodes[0].retention = crate::Retention::new(1_000, Duration::from_secs(60));
    install(&mut world, 0, &[0]);
    world.settle();
    let rea = world.connect(0, "rea");
    world.client(rea).read(0, Place::at(ReadRequest::NEW), &[group("g"), group("quiet")]);
    world.settle();
    let from = newest(&world) + 1;
    told(&mut world, rea);
    for n in 0..6 {
        say(&mut world, ann, &["g"], &format!("{n}{}", "x".repeat(100)));
    }
    assert_eq!(texts(&mut world, rea).len(), 6);
    let trail = ViewTrail::new(view_of(&world, 0));
    read_on(&mut world, rea, &trail, from);
    let lines = told(&mut world, rea);
    let view = trail.view.number;
    assert!(lines.contains(&format!("gap {view}:{from} to {view}:{}", from + 2)), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with('x')).count(), 4, "{lines:?}");
    world.client(rea).read_on(&trail, Place::at(from), &[group("quiet")]);
    world.settle();
    let lines = told(&mut world, rea);
    assert!(!lines.iter().any(|line| line.starts_with("gap")), "nothing is missing of that one: {lines:?}");
    assert_eq!(world.counter(0, "messages_retained"), 4);
    world.now += Duration::from_secs(70);
    world.settle();
    assert_eq!((world.counter(0, "messages_retained"), world.counter(0, "bytes_retained")), (0, 0), "it is too old");
    world.vanish(rea);
    for _ in 0..20 {
        world.now += Duration::from_secs(30);
        world.settle();
    }
    assert_eq!(world.counter(0, "groups_read"), 0, "nobody reads any more");
    let roy = world.connect(0, "roy");
    read_on(&mut world, roy, &trail, from);
    let lines = told(&mut world, roy);
    assert!(lines.contains(&format!("gap {view}:{from} to {view}:{}", newest(&world) + 1)), "{lines:?}");
}

#[test]
fn behind_the_line_only_those_go_on_that_closed_the_view_together() {
    //= E22 test
    //= E24 test
    let (mut world, ann) = world_of(1);
    let rea = world.connect(0, "rea");
    read_new(&mut world, rea, "g");
    say(&mut world, ann, &["g"], "regular");
    let (view, line) = (view_of(&world, 0), newest(&world) + 1);
    close(&mut world, 0, &[0, 1]);
    world.settle();
    say(&mut world, ann, &["g"], "closing");
    let lines = told(&mut world, rea);
    let rest = &lines[lines.len() - 2..];
    assert_eq!(rest, [format!("in view 1 behind 0 closing at {line}"), format!("{line} closing")], "{lines:?}");
    install(&mut world, 0, &[0]);
    world.settle();
    let next = told(&mut world, rea);
    assert_eq!(next, [format!("in view 2 behind {line}")]);
    let together = world.nodes[0].retention.histories.closing(0).unwrap().together;
    for (closing, at, answer) in [
        (None, line, "reads 0"),
        (None, line + 1, "parted"),
        (Some(ViewClosing { line: Position(line), together }), line + 1, "reads 0"),
        (Some(ViewClosing { line: Position(line), together: 7 }), line + 1, "parted"),
        (Some(ViewClosing { line: Position(line - 1), together: 7 }), line, "parted"),
    ] {
        read_on(&mut world, rea, &ViewTrail { closing, ..ViewTrail::new(view) }, at);
        let lines: Vec<_> = told(&mut world, rea).into_iter().filter(|line| !line.starts_with("ended")).collect();
        assert!(lines[0].starts_with(answer), "{closing:?} {at}: {lines:?}");
    }
}

#[test]
fn whoever_comes_from_another_history_is_told_the_last_view_in_common() {
    //= E23 test
    let (mut world, ann) = world_of(1);
    let rea = world.connect(0, "rea");
    say(&mut world, ann, &["g"], "one");
    let (view, end) = (view_of(&world, 0), newest(&world) + 1);
    install(&mut world, 0, &[0]);
    world.settle();
    let elsewhere = ViewId { number: 2, representative: member(9) };
    let before = vec![(ViewId { number: 0, representative: member(9) }, Position(3)), (view, Position(2))];
    for (before, at) in [(before, Some(2)), (vec![(view, Position(900))], Some(end)), (Vec::new(), None)] {
        read_on(&mut world, rea, &ViewTrail { view: elsewhere, closing: None, before }, 5);
        let events = std::mem::take(&mut world.programs[rea].events);
        let Some(DaemonEvent::Reading(ReadingStatus::Ended(end))) = events.last() else { panic!("{events:?}") };
        let common = at.map(|at| ViewPlace { view, at: Position(at), index: 0 });
        assert_eq!((end.cause, end.common), (consort_session::ReadingEndCause::Parted, common));
    }
    let later = ViewTrail::new(ViewId { number: 50, representative: member(9) });
    read_on(&mut world, rea, &later, 5);
    assert!(told(&mut world, rea).is_empty(), "that view may yet come");
    world.now += Duration::from_secs(3);
    world.settle();
    assert!(told(&mut world, rea)[0].starts_with("parted"));
    let (here, ahead) = (ViewTrail::new(view_of(&world, 0)), newest(&world) + 3);
    read_on(&mut world, rea, &here, ahead);
    assert!(told(&mut world, rea).is_empty(), "it has yet to deliver that");
    (0..3).for_each(|n| say(&mut world, ann, &["g"], &format!("m{n}")));
    assert_eq!(texts(&mut world, rea), ["m2"]);
    let (here, ahead) = (ViewTrail::new(view_of(&world, 0)), newest(&world) + 3);
    read_on(&mut world, rea, &here, ahead);
    told(&mut world, rea);
    (0..2).for_each(|_| say(&mut world, ann, &["unread"], "x"));
    assert_eq!(told(&mut world, rea)[0][..7], *"reads 0", "it has come so far by other messages");
    world.client(rea).read(0, Place::at(5), &[group("g")]);
    world.settle();
    assert!(told(&mut world, rea).last().unwrap().starts_with("other_order"));
    world.client(rea).read(9, Place::at(0), &[group("g")]);
    world.settle();
    assert!(told(&mut world, rea).last().unwrap().starts_with("other_order"));
}

#[test]
fn members_that_come_learn_what_is_read_before_anything_is_sent() {
    //= E27 test
    let (mut world, ann) = world_of(2);
    for node in 0..2 {
        install(&mut world, node, &[node as u16]);
    }
    world.settle();
    let rea = world.connect(0, "rea");
    read_new(&mut world, rea, "g");
    say(&mut world, ann, &["g"], "alone");
    // All hear all in this world: the other one is to know nothing, as if it had been elsewhere.
    world.nodes[1].retention = crate::Retention::default();
    assert_eq!((world.counter(0, "groups_read"), world.counter(1, "groups_read")), (1, 0));
    for node in 0..2 {
        install(&mut world, node, &[0, 1]);
    }
    world.settle();
    assert_eq!(world.counter(1, "groups_read"), 1);
    let trail = ViewTrail::new(view_of(&world, 1));
    say(&mut world, ann, &["g"], "together");
    let roy = world.connect(1, "roy");
    read_on(&mut world, roy, &trail, 0);
    let lines = told(&mut world, roy);
    assert!(!lines.iter().any(|line| line.starts_with("gap")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(" together")), "{lines:?}");
}

#[test]
fn that_a_group_is_read_is_told_again_before_a_reading_begins_where_it_is_soon_forgotten() {
    //= E27 test
    let (mut world, ann) = world_of(1);
    world.nodes[0].retention = crate::Retention::new(1 << 20, Duration::from_secs(1));
    install(&mut world, 0, &[0]);
    world.settle();
    let rea = world.connect(0, "rea");
    read_new(&mut world, rea, "g");
    world.vanish(rea);
    let mut told_for = |secs: u64| {
        world.now += Duration::from_secs(secs);
        let (roy, before) = (world.connect(0, "roy"), newest(&world));
        read_new(&mut world, roy, "g");
        let said = newest(&world) - before;
        say(&mut world, ann, &["g"], "hello");
        assert_eq!(texts(&mut world, roy), ["hello"]);
        world.vanish(roy);
        said
    };
    assert_eq!(told_for(1), 0, "all know it for five seconds more");
    assert_eq!(told_for(3), 1, "they might forget it before the next word has its place");
}

#[test]
fn what_the_history_that_counts_has_more_is_told_as_a_gap_before_the_view() {
    //= E29 test
    let mut world = World::over(2, Limits::default(), false);
    let (ann, rea) = (world.connect(0, "ann"), world.connect(0, "rea"));
    read_new(&mut world, rea, "g");
    say(&mut world, ann, &["g"], "before");
    told(&mut world, rea);
    let end = newest(&world) + 1;
    let first = view_of(&world, 0).number;
    let members = vec![member(0), member(1)];
    world.nodes[0].engine.install_with(members.clone(), vec![member(0)], ViewCause::Formed);
    world.drain(0);
    let closing = format!("in view {first} behind 0 closing at {end}");
    assert_eq!(told(&mut world, rea), [closing], "which history counts is not known yet");
    world.nodes[0].retention.settle(true);
    world.nodes[1].engine.install_with(members, vec![member(1)], ViewCause::Formed);
    world.drain(1);
    world.settle();
    let second = view_of(&world, 0).number;
    assert_eq!(told(&mut world, rea), [format!("gap {first}:{end} to {second}:0")]);
    say(&mut world, ann, &["g"], "behind");
    assert_eq!(texts(&mut world, rea), ["behind"]);
}

/// Seed 312 of Multi-Ring Paxos.
#[test]
fn a_reading_from_the_start_begins_in_no_view_that_was_over_too_soon() {
    //= E29 test
    let mut world = World::over(2, Limits::default(), false);
    let rea = world.connect(0, "rea");
    let members = vec![member(0), member(1)];
    world.nodes[0].engine.install_with(members, vec![member(0)], ViewCause::Formed);
    world.drain(0);
    let second = view_of(&world, 0).number;
    let now = world.now;
    world.nodes[0].retention.on_reads(vec![group("g")], false, now);
    install(&mut world, 0, &[0]);
    world.settle();
    world.client(rea).read(0, Place::at(0), &[group("g")]);
    world.settle();
    let third = view_of(&world, 0).number;
    assert!(second < third);
    let lines = told(&mut world, rea);
    assert!(lines.iter().any(|line| line.starts_with(&format!("in view {third} "))), "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.starts_with("gap") || line.contains(&format!("view {second} "))),
        "{lines:?}"
    );
}
