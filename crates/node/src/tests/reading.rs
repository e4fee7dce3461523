//! Reading by position: what was said before, then what comes, each once.
use super::*;
use consort_order::DeclareProgress;
use consort_session::{DeclareRequest, Place};
use consort_types::{Binding, Duration, Position};

/// A node, a client that talks, and one that only reads.
fn world_of(nodes: u16, limits: Limits) -> (World, usize, usize) {
    let mut world = World::new(nodes, limits);
    let (ann, rea) = (world.connect(0, "ann"), world.connect(usize::from(nodes) - 1, "rea"));
    (world, ann, rea)
}

fn read(world: &mut World, reader: usize, from: u64, names: &[&str]) {
    let groups: Vec<_> = names.iter().map(|name| group(name)).collect();
    world.client(reader).read(0, Place::at(from), &groups);
    world.settle();
}

fn say(world: &mut World, from: usize, names: &[&str], payload: &str) {
    world.multicast(from, names, payload);
    world.settle();
}

/// What a reader was told since it was asked last.
fn told(world: &mut World, reader: usize) -> Vec<String> {
    let story = world.story(reader);
    world.programs[reader].events.clear();
    story
}

#[test]
fn a_reader_is_told_what_was_before_and_then_what_comes() {
    //= G50 test
    let (mut world, ann, rea) = world_of(2, Limits::default());
    world.join(ann, "g");
    (0..3).for_each(|n| say(&mut world, ann, &["g"], &format!("m{n}")));
    say(&mut world, ann, &["elsewhere"], "not for it");
    read(&mut world, rea, 0, &["g"]);
    let first = told(&mut world, rea);
    let newest = world.nodes[1].engine.numbered.max(world.nodes[0].engine.numbered);
    let at = newest - 3;
    let before = [
        format!("reads 77: 1 to {newest}"),
        format!("{} m0", at),
        format!("{} m1", at + 1),
        format!("{} m2", at + 2),
        format!("caught up at {newest}"),
    ];
    assert_eq!(first, before);
    say(&mut world, ann, &["x", "g"], "new");
    world.join(rea, "other");
    say(&mut world, ann, &["g"], "newer");
    let live: Vec<_> = told(&mut world, rea).into_iter().filter(|line| !line.starts_with("other")).collect();
    assert_eq!(live, [format!("{} new", newest + 1), format!("{} newer", newest + 3)]);
    assert_eq!((world.counter(1, "readers"), world.counter(1, "messages_read")), (1, 5));
    world.vanish(rea);
    world.settle();
    assert_eq!(world.counter(1, "readers"), 0);
}

#[test]
fn a_member_that_reads_is_told_both_and_can_tell_them_apart() {
    let (mut world, ann, _) = world_of(1, Limits::default());
    world.join(ann, "g");
    read(&mut world, ann, 0, &["g"]);
    told(&mut world, ann);
    say(&mut world, ann, &["g"], "one");
    let position = world.nodes[0].engine.numbered;
    assert_eq!(told(&mut world, ann), ["n0/c1 g: one".to_owned(), format!("{position} one")]);
}

#[test]
fn only_multicasts_to_the_named_groups_are_read() {
    //= G51 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    let bob = world.connect(0, "bob");
    world.join(bob, "g");
    let private = consort_session::PrivateName::new(&ClientName::new(b"bob").unwrap(), NodeId(0));
    world.client(ann).multicast(Service::Agreed, &[private], b"secret").unwrap();
    say(&mut world, ann, &["h"], "to h");
    say(&mut world, ann, &["g"], "to g");
    say(&mut world, ann, &["h", "g"], "to both");
    world.vanish(bob);
    world.settle();
    read(&mut world, rea, 0, &["g", "g"]);
    let lines: Vec<_> =
        told(&mut world, rea).iter().filter_map(|line| line.split_once(' ')).map(|(_, t)| t.to_owned()).collect();
    assert_eq!(lines[1..3], ["to g", "to both"]);
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn a_batch_is_read_from_the_message_that_was_asked_for() {
    //= G50 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    ["one", "two", "three"].iter().for_each(|text| world.send_as(ann, Service::Agreed, &["g"], text));
    world.settle();
    say(&mut world, ann, &["g"], "four");
    let last = world.nodes[0].engine.numbered;
    for (index, expected) in
        [(0, &["one", "two", "three"][..]), (1, &["two", "three"]), (2, &["three"]), (3, &[]), (900, &[])]
    {
        world.client(rea).read(77, Place { position: last - 1, index }, &[group("g")]);
        world.settle();
        let lines: Vec<_> =
            told(&mut world, rea).into_iter().filter(|line| line.starts_with(char::is_numeric)).collect();
        let mut meant: Vec<_> = expected
            .iter()
            .zip(index..)
            .map(|(text, n)| format!("{} {text}", Place { position: last - 1, index: n }))
            .collect();
        meant.push(format!("{last} four"));
        assert_eq!(lines, meant, "from {index}");
    }
    world.client(rea).read(77, Place { position: last, index: 1 }, &[group("g")]);
    world.settle();
    say(&mut world, ann, &["g"], "five");
    assert_eq!(told(&mut world, rea).last().unwrap(), &format!("{} five", last + 1), "a single message was seen");
}

#[test]
fn what_cannot_be_read_is_refused_with_what_there_is() {
    //= G55 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    (0..5).for_each(|n| say(&mut world, ann, &["g"], &format!("m{n}")));
    let newest = world.nodes[0].engine.numbered;
    world.nodes[0].engine.oldest = 3;
    read(&mut world, rea, 2, &["g"]);
    let trimmed = format!(
        "trimmed (3 to {newest}): position 2 is not retained any more: the oldest there is is 3; restore what you know \
         from elsewhere, or read from the start"
    );
    assert_eq!(told(&mut world, rea), [trimmed]);
    world.client(rea).read(78, Place::at(3), &[group("g")]);
    world.settle();
    let other = told(&mut world, rea);
    assert!(
        other[0].starts_with(&format!("other_order (3 to {newest}): position 3 is of the order 000000000000004e, and")),
        "{other:?}"
    );
    read(&mut world, rea, newest + 2, &["g"]);
    assert!(told(&mut world, rea).is_empty(), "others may know more");
    world.now += Duration::from_secs(3);
    world.settle();
    let beyond = told(&mut world, rea);
    let text = format!(
        "beyond_end (3 to {newest}): position {} is beyond the end: the newest message of this order is at {newest}",
        newest + 2
    );
    assert!(beyond.len() == 1 && beyond[0].starts_with(&text), "{beyond:?}");
    let names = |names: &[&[u8]]| {
        raw(|out| {
            consort_session::reading::put_read(out, 0, Place::at(0), &[]);
            let mut body = out.split_off(5).to_vec();
            body.truncate(18);
            body.extend((names.len() as u16).to_be_bytes());
            names.iter().for_each(|name| body.extend([&[name.len() as u8], *name].concat()));
            out[..4].copy_from_slice(&(1 + body.len() as u32).to_be_bytes());
            out.extend_from_slice(&body);
        })
    };
    let long = [b'x'; 65];
    for (groups, wrong) in [
        (&[&b"g"[..], &long][..], "no group can be called \"xxxxx"),
        (&[&b"#bob#n1"[..]], "no group can be called \"#bob#n1\": "),
        (&[&b""[..]], "no group can be called \"\": "),
        (&[&b"g"[..]; 101], "101 groups; one reading may name 100"),
    ] {
        let id = world.programs[rea].id;
        let _ = world.nodes[0].handle_client(world.now, id, names(groups));
        world.drain(0);
        world.settle();
        let lines = told(&mut world, rea);
        assert!(lines[0].starts_with(&format!("bad_group (3 to {newest}): {wrong}")), "{lines:?}");
    }
    world.nodes[0].engine.replays = false;
    world.nodes[0].retention = crate::Retention::new(0, Duration::from_secs(1));
    read(&mut world, rea, 0, &["g"]);
    let text = "unsupported (0 to 0): the daemons order with `test`, and this one is configured to retain nothing (retain or \
                retain_for below [sessions] is 0)";
    assert_eq!(told(&mut world, rea), [text]);
    assert_eq!(world.counter(0, "readers"), 0);
}

#[test]
fn one_who_asks_for_what_others_know_already_waits_until_it_is_here() {
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    let newest = world.nodes[0].engine.numbered;
    read(&mut world, rea, newest + 2, &["g"]);
    say(&mut world, ann, &["g"], "two");
    say(&mut world, ann, &["g"], "three");
    let lines = told(&mut world, rea);
    let began = format!("reads 77: 1 to {}", newest + 1);
    assert_eq!(lines, [began, format!("caught up at {}", newest + 1), format!("{} three", newest + 2)]);
}

#[test]
fn one_who_waits_for_what_others_know_and_goes_keeps_nobody_awake() {
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    let newest = world.nodes[0].engine.numbered;
    read(&mut world, rea, newest + 2, &["g"]);
    assert!(world.nodes[0].poll_timeout() > Some(world.now));
    world.vanish(rea);
    world.now += Duration::from_secs(3);
    world.settle();
    assert!(world.nodes[0].poll_timeout() > Some(world.now), "it does not spin");
    let late = world.connect(0, "late");
    read(&mut world, late, newest + 2, &["g"]);
    assert!(told(&mut world, late).is_empty(), "its own time begins now");
}

#[test]
fn a_closed_group_is_read_by_its_members_only() {
    //= G52 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    world.client(ann).join_closed(&group("g")).unwrap();
    world.settle();
    say(&mut world, ann, &["g"], "inside");
    read(&mut world, rea, 0, &["h", "g"]);
    let lines = told(&mut world, rea);
    assert!(
        lines.len() == 1 && lines[0].ends_with("g is closed: only its members may read it; join it first"),
        "{lines:?}"
    );
    world.join(rea, "g");
    read(&mut world, rea, 0, &["g"]);
    assert!(told(&mut world, rea).iter().any(|line| line.ends_with(" inside")));
    world.client(rea).leave(&group("g")).unwrap();
    world.settle();
    let lines = told(&mut world, rea);
    assert!(lines.iter().any(|line| line.starts_with("closed (")), "{lines:?}");
    say(&mut world, ann, &["g"], "inside again");
    assert!(told(&mut world, rea).is_empty());
}

#[test]
fn what_was_refused_at_its_place_is_not_read() {
    //= G53 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    let bob = world.connect(0, "bob");
    world.client(ann).join_closed(&group("c")).unwrap();
    world.settle();
    say(&mut world, bob, &["g", "c"], "refused");
    say(&mut world, ann, &["g", "c"], "taken");
    world.vanish(ann);
    world.settle();
    read(&mut world, rea, 0, &["g"]);
    let lines = told(&mut world, rea);
    assert!(lines.iter().any(|line| line.ends_with(" taken")));
    assert!(lines.iter().all(|line| !line.ends_with(" refused")), "{lines:?}");
}

#[test]
fn what_a_node_was_not_delivered_is_read_but_where_nobody_knows_whether_it_was_refused() {
    //= G53 test
    let (mut world, ann, rea) = world_of(2, Limits::default());
    let bob = world.connect(0, "bob");
    world.client(ann).join_closed(&group("c")).unwrap();
    world.settle();
    world.nodes[1].engine.is_away = true;
    let first = world.nodes[0].engine.numbered + 1;
    say(&mut world, bob, &["g"], "missed");
    say(&mut world, bob, &["g", "c"], "refused");
    say(&mut world, bob, &["h", "c"], "refused, and not for it");
    say(&mut world, ann, &["g"], "missed, too");
    world.nodes[1].engine.is_away = false;
    say(&mut world, bob, &["g"], "told");
    read(&mut world, rea, first, &["g"]);
    let at = |n: u64, text: &str| format!("{} {text}", first + n);
    let meant = [
        format!("reads 77: 1 to {}", first + 4),
        at(0, "missed"),
        format!("lost {} to {}", first + 1, first + 1),
        at(3, "missed, too"),
        at(4, "told"),
        format!("caught up at {}", first + 4),
    ];
    assert_eq!(told(&mut world, rea), meant);
}

#[test]
fn nobody_reads_what_members_have_yet_to_be_told() {
    let (mut world, ann, rea) = world_of(2, Limits::default());
    world.join(ann, "g");
    read(&mut world, rea, 0, &["g"]);
    told(&mut world, rea);
    world.nodes[1].engine.is_away = true;
    say(&mut world, ann, &["g"], "missed");
    assert!(told(&mut world, rea).is_empty());
    world.nodes[1].engine.is_away = false;
    say(&mut world, ann, &["g"], "here");
    let lines = told(&mut world, rea);
    assert!(lines.len() == 2 && lines[0].ends_with(" missed") && lines[1].ends_with(" here"), "{lines:?}");
}

#[test]
fn a_node_that_trimmed_more_than_it_has_told_its_members_lets_readers_wait() {
    //= G50 test
    //= G54 test
    let (mut world, ann, rea) = world_of(2, Limits::default());
    let bob = world.connect(1, "bob");
    say(&mut world, ann, &["g"], "before");
    read(&mut world, bob, 0, &["g"]);
    told(&mut world, bob);
    let newest = world.nodes[1].engine.numbered.max(world.nodes[0].engine.numbered);
    world.nodes[1].engine.is_away = true;
    (0..3).for_each(|_| say(&mut world, ann, &["g"], "missed"));
    world.nodes[1].engine.oldest = newest + 3;
    read(&mut world, rea, 0, &["g"]);
    assert_eq!((told(&mut world, rea).len(), told(&mut world, bob).len()), (0, 0), "it has told nobody so much");
    world.nodes[1].engine.is_away = false;
    say(&mut world, ann, &["g"], "here");
    let first = format!("reads 77: {} to {}", newest + 3, newest + 4);
    let (from_start, on) = (told(&mut world, rea), told(&mut world, bob));
    assert!(from_start[0] == first && from_start.len() == 4, "{from_start:?}");
    assert_eq!(on[0], format!("lost {} to {}", newest + 1, newest + 2));
    assert!(on[1].ends_with("missed") && on[2].ends_with("here") && on.len() == 3, "{on:?}");
}

#[test]
fn a_reader_is_told_exactly_which_part_the_node_lost() {
    //= G54 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    (0..4).for_each(|n| say(&mut world, ann, &["g"], &format!("m{n}")));
    world.programs[rea].reads = false;
    read(&mut world, rea, 2, &["g"]);
    say(&mut world, ann, &["g"], &"x".repeat(70_000));
    let newest = world.nodes[0].engine.numbered;
    say(&mut world, ann, &["g"], "forgotten");
    say(&mut world, ann, &["g"], "there");
    world.nodes[0].engine.oldest = newest + 2;
    world.programs[rea].reads = true;
    let id = world.programs[rea].id;
    world.read(id);
    world.settle();
    let lines = told(&mut world, rea);
    let end = [format!("lost {} to {}", newest + 1, newest + 1), format!("{} there", newest + 2)];
    assert!(lines.ends_with(&end), "{} lines", lines.len());
}

#[test]
fn a_reader_that_does_not_read_holds_little_and_slows_nobody() {
    //= G56 test
    let (mut world, ann, rea) = world_of(1, Limits { output_max: 200_000, ..Limits::default() });
    world.join(ann, "g");
    world.programs[rea].reads = false;
    read(&mut world, rea, 0, &["g"]);
    for n in 0..300 {
        say(&mut world, ann, &["g"], &format!("{n} {}", "x".repeat(3_000)));
    }
    let id = world.programs[rea].id;
    let waiting = world.nodes[0].clients.get(id).unwrap().output().len();
    assert!((60_000..80_000).contains(&waiting), "{waiting} bytes wait");
    assert_eq!((world.nodes[0].engine.room, world.counter(0, "clients_behind")), (usize::MAX, 0));
    assert_eq!(world.story(ann).len(), 301);
    assert!(!world.programs[rea].closed);
    assert_eq!(world.nodes[0].poll_timeout().filter(|at| *at <= world.now), None, "it does not spin");
    world.programs[rea].reads = true;
    world.read(id);
    (0..20).for_each(|_| world.settle());
    let story = world.story(rea);
    let numbers: Vec<u64> = story.iter().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
}

#[test]
fn what_the_last_reader_has_yet_to_read_is_held_until_it_reads_or_ends() {
    //= G57 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    let bob = world.connect(0, "bob");
    say(&mut world, ann, &["g"], "one");
    let held = |world: &World| world.nodes[0].engine.held.map(|from| from.0);
    assert_eq!(held(&world), None, "nobody reads");
    world.programs[rea].reads = false;
    read(&mut world, rea, 0, &["g"]);
    read(&mut world, bob, 0, &["g"]);
    (0..2).for_each(|_| say(&mut world, ann, &["g"], &"x".repeat(70_000)));
    let newest = world.nodes[0].engine.numbered;
    assert_eq!(held(&world), Some(newest), "the first of two large ones waits for its client");
    world.programs[rea].reads = true;
    let id = world.programs[rea].id;
    world.read(id);
    world.settle();
    assert_eq!(held(&world), Some(newest + 1), "all was read");
    read(&mut world, rea, newest + 50, &["g"]);
    say(&mut world, ann, &["g"], "more");
    assert_eq!(held(&world), Some(newest + 2), "a place that is not reached yet holds nothing");
    world.vanish(bob);
    world.settle();
    assert_eq!(held(&world), None, "nobody reads any more");
}

#[test]
fn between_two_slices_of_reading_the_node_does_other_things() {
    //= G56 test
    let (mut world, ann, _) = world_of(1, Limits::default());
    for _ in 0..200 {
        say(&mut world, ann, &["g"], &"x".repeat(10_000));
    }
    let readers: Vec<_> = (0..8).map(|n| world.connect(0, &format!("reader{n}"))).collect();
    readers.iter().for_each(|reader| world.client(*reader).read(0, Place::at(0), &[group("g")]));
    let mut slices = 0;
    readers.iter().for_each(|reader| assert!(world.write(*reader)));
    while world.nodes[0].poll_timeout().is_some_and(|at| at <= world.now) {
        let before = world.counter(0, "messages_read");
        world.nodes[0].handle_timeout(world.now);
        world.drain(0);
        let told = world.counter(0, "messages_read") - before;
        assert!(told * 10_000 <= 80_000, "{told} messages in one slice");
        slices += 1;
        assert!(slices < 1_000);
    }
    let all: Vec<_> = readers.iter().map(|reader| world.story(*reader).len()).collect();
    assert_eq!(all, [202; 8]);
}

#[test]
fn whoever_reads_something_else_or_nothing_is_told_so_first() {
    //= G55 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    let position = world.nodes[0].engine.numbered;
    read(&mut world, rea, 0, &["h"]);
    read(&mut world, rea, 0, &["g"]);
    world.client(rea).read(0, Place::default(), &[]);
    world.settle();
    say(&mut world, ann, &["g"], "two");
    let began = format!("reads 77: 1 to {position}");
    let caught_up = format!("caught up at {position}");
    let ended = format!("ended (1 to {position}): the client reads no more, or something else");
    assert_eq!(
        told(&mut world, rea),
        [&began, &caught_up, &ended, &began, &format!("{position} one"), &caught_up, &ended].map(String::clone)
    );
}

#[test]
fn members_that_want_it_are_told_where_messages_stand() {
    let mut world = World::new(2, Limits::default());
    let hello = |name: &[u8]| Hello { name: ClientName::new(name), wants_positions: true, ..Hello::default() };
    let (ann, plain) = (world.connect_with(0, ClientEnd::new(&hello(b"ann"))), world.connect(0, "plain"));
    let crowd: Vec<_> =
        (0..6).map(|n| world.connect_with(1, ClientEnd::new(&hello(format!("c{n}").as_bytes())))).collect();
    for at in [ann, plain].iter().chain(&crowd) {
        world.join(*at, "g");
    }
    say(&mut world, ann, &["g"], "one");
    let position = world.nodes[0].engine.numbered;
    for at in std::iter::once(&ann).chain(&crowd) {
        let Some(DaemonEvent::Message(message)) =
            world.programs[*at].events.iter().rfind(|event| line(event).is_some())
        else {
            panic!()
        };
        assert_eq!((message.position(), message.sender_daemon()), (Some(position), Some(member(0))));
    }
    let Some(DaemonEvent::Message(message)) = world.programs[plain].events.iter().rfind(|event| line(event).is_some())
    else {
        panic!()
    };
    assert_eq!((message.position(), message.sender_daemon()), (None, None));
}

fn declare(world: &mut World, client: usize, order: u64, holder: &str, from: u64) {
    let from = (from > 0).then_some(Position(from));
    world.client(client).declare(&DeclareRequest { order, holder: holder.parse().unwrap(), from, epoch: 0 });
    world.settle();
}

#[test]
fn a_checkpoint_is_handed_to_the_engine_until_it_stands_and_then_told() {
    //= G58 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    world.nodes[0].engine.declaring = DeclareProgress::Pending;
    declare(&mut world, rea, 77, "ledger/1", 5);
    declare(&mut world, rea, 0, "ledger/1", 7);
    assert!(told(&mut world, rea).is_empty(), "it is on its way");
    world.nodes[0].engine.declaring = DeclareProgress::Stands;
    world.settle();
    assert_eq!(told(&mut world, rea), ["declared ledger/1"], "the latest is answered, once");
    let declared = &world.nodes[0].engine.declared;
    let asked: Vec<_> = declared.iter().map(|(_, from)| from.map_or(0, |from| from.0)).collect();
    assert!(asked.starts_with(&[5]) && asked.ends_with(&[7]) && asked.len() >= 3, "{asked:?}");
    declare(&mut world, rea, 0, "ledger/1", 0);
    assert_eq!(told(&mut world, rea), ["declared ledger/1"]);
    assert_eq!(world.nodes[0].engine.declared.last(), Some(&("ledger/1".to_owned(), None)));
}

#[test]
fn what_a_client_that_is_gone_declared_is_not_proposed_again() {
    //= G58 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    world.nodes[0].engine.declaring = DeclareProgress::Pending;
    declare(&mut world, rea, 0, "ledger/1", 5);
    declare(&mut world, ann, 0, "ledger/2", 6);
    world.vanish(rea);
    let asked = world.nodes[0].engine.declared.len();
    world.settle();
    declare(&mut world, ann, 0, "ledger/2", 7);
    let since: Vec<_> = world.nodes[0].engine.declared[asked..].iter().map(|(name, _)| name.as_str()).collect();
    assert!(!since.is_empty() && since.iter().all(|name| *name == "ledger/2"), "{since:?}");
}

#[test]
fn a_checkpoint_that_cannot_be_declared_is_refused_with_what_to_do() {
    //= G58 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    declare(&mut world, rea, 78, "ledger", 5);
    let lines = told(&mut world, rea);
    assert!(lines[0].starts_with("declared ledger: other_order, the checkpoint belongs to an order"), "{lines:?}");
    world.nodes[0].engine.declaring = DeclareProgress::Full;
    (0..3).for_each(|_| declare(&mut world, rea, 77, "ledger", 5));
    let lines = told(&mut world, rea);
    assert!(lines.last().unwrap().starts_with("declared ledger: full, "), "{lines:?}");
    world.nodes[0].engine.declaring = DeclareProgress::Pending;
    (0..=256).for_each(|n| declare(&mut world, rea, 77, &format!("p{n}"), 5));
    let lines = told(&mut world, rea);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("declared p256: too_many, 256 checkpoints wait"), "{lines:?}");
    let mut other = World::over(1, Limits::default(), false);
    let rea = other.connect(0, "rea");
    declare(&mut other, rea, 0, "ledger", 5);
    let lines = told(&mut other, rea);
    assert!(lines[0].starts_with("declared ledger: unsupported, the daemons order with"), "{lines:?}");
}

fn bind(world: &mut World, client: usize, order: u64, holder: &str, token: u128) {
    let (holder, from, label) = (holder.parse().unwrap(), Position(1), String::new());
    world.client(client).bind(&Binding { order, holder, token, replaces: 0, from, copies: 3, label });
    world.settle();
}

#[test]
fn a_binding_is_handed_to_the_engine_until_it_is_bound() {
    //= G71 test
    let (mut world, ann, rea) = world_of(1, Limits::default());
    say(&mut world, ann, &["g"], "one");
    world.nodes[0].engine.declaring = DeclareProgress::Pending;
    bind(&mut world, rea, 77, "kv/1", 9);
    bind(&mut world, ann, 0, "kv/1", 8);
    world.settle();
    assert!(told(&mut world, rea).is_empty(), "it is on its way");
    world.nodes[0].engine.declaring = DeclareProgress::Bound { epoch: 5 };
    world.settle();
    assert_eq!(told(&mut world, rea), ["bound kv/1 as 5"]);
    assert_eq!(told(&mut world, ann).last().unwrap(), "bound kv/1 as 5", "each start is answered");
    let refused = [
        (DeclareProgress::Superseded { epoch: 7, label: "s1".into() }, "superseded, kv/1 is bound again since, by s1"),
        (DeclareProgress::Superseded { epoch: 0, label: "".into() }, "superseded, kv/1 is not bound; bind it first"),
        (DeclareProgress::SeatsTaken { copies: 3 }, "seats_taken, kv has 3 copies in the order"),
        (DeclareProgress::SeatsTaken { copies: 0 }, "seats_taken, the order knows no number of copies of kv"),
        (DeclareProgress::Full, "full, the order retains for as many"),
    ];
    for (progress, text) in refused {
        world.nodes[0].engine.declaring = progress;
        bind(&mut world, rea, 77, "kv/1", 9);
        let lines = told(&mut world, rea);
        assert!(lines[0].starts_with(&format!("not bound kv/1: {text}")), "{lines:?}");
    }
    bind(&mut world, rea, 78, "kv/1", 9);
    assert!(told(&mut world, rea)[0].starts_with("not bound kv/1: other_order"));
}

#[test]
fn who_asks_for_copies_is_answered_at_once_where_nothing_lasts() {
    //= G70 test
    let (mut world, _, rea) = world_of(1, Limits::default());
    world.client(rea).ask_copies(&"kv/1".parse().unwrap());
    world.settle();
    assert_eq!(told(&mut world, rea), ["copies of kv/1: order 77"]);
    let mut other = World::over(1, Limits::default(), false);
    let rea = other.connect(0, "rea");
    other.client(rea).ask_copies(&"kv/1".parse().unwrap());
    other.settle();
    assert_eq!(told(&mut other, rea), ["copies of kv/1: order 0"]);
}
