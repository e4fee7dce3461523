//! Who is refused, who is sent away, and what is dropped.
use super::*;
use consort_session::inquirer::{Inquirer, Reply};
use consort_session::{Disconnect, DisconnectReason, RefusalCause, request};
use consort_types::Duration;

/// Asks node 0 for its status over a connection that stays: whether it answers, and whether it ends the session.
fn ask_status(world: &mut World) -> (bool, bool) {
    let (mut inquirer, id) = (Inquirer::new(), ClientId(9_000 + world.counter(0, "clients") as u32));
    world.nodes[0].open_client(world.now, id);
    inquirer.ask_status();
    let _ = world.nodes[0].handle_client(world.now, id, inquirer.take_output());
    world.drain(0);
    inquirer.feed(world.nodes[0].client_outputs(id).flatten().copied().collect());
    let replies: Vec<_> = std::iter::from_fn(|| inquirer.next_reply().unwrap()).collect();
    let is = |fits: fn(&Reply) -> bool| replies.iter().any(fits);
    (is(|reply| matches!(reply, Reply::Status(_))), is(|reply| matches!(reply, Reply::Farewell(_))))
}

fn ended(world: &mut World, at: usize, parting: &str) {
    assert_eq!(world.story(at).last().unwrap(), &format!("disconnect {parting}"));
    assert!(world.programs[at].closed);
    let (node, id) = (world.programs[at].node, world.programs[at].id);
    assert_eq!(world.nodes[node].handle_client(world.now, id, Bytes::from_static(b"more")), Reading::Pause);
    assert_eq!(world.counter(node, &format!("sessions_ended_{parting}")), 1);
}

#[test]
fn garbage_ends_its_own_session_and_no_other() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(ann, "g");
    world.join(bob, "g");
    let garbage = Bytes::from_static(&[0, 0, 0, 2, 0x77, 0]);
    assert_eq!(world.nodes[0].handle_client(world.now, ClientId(2), garbage), Reading::Pause);
    world.drain(0);
    world.settle();
    let Some(DaemonEvent::Disconnect(farewell)) = world.programs[bob].events.last() else { panic!("still there") };
    assert_eq!(farewell.text, "malformed kind at byte 5 of frame 3");
    ended(&mut world, bob, "malformed");
    assert_eq!(world.story(ann).last().unwrap(), "g disconnect bob -> ann");
}

#[test]
fn a_connection_that_says_nothing_is_ended() {
    let mut world = World::new(1, Limits { hello_within: Duration::from_millis(50), ..Limits::default() });
    let silent = world.connect(0, "eve");
    let ann = world.connect(0, "ann");
    world.programs[silent].closed = true;
    let id = ClientId(3);
    world.nodes[0].open_client(world.now, id);
    let partial = raw(|out| Hello::default().put(out)).slice(..9);
    assert_eq!(world.nodes[0].handle_client(world.now, id, partial), Reading::Go);
    let due = world.now + Duration::from_millis(50);
    world.now = due;
    world.nodes[0].handle_timeout(due);
    assert_eq!(world.nodes[0].poll_effect(), Some(Effect::Close { client: id }));
    let text = String::from_utf8_lossy(world.nodes[0].client_output(id)).into_owned();
    assert!(text.ends_with("no hello within 50 ms"), "{text}");
    assert_eq!(world.story(ann), [""; 0]);
    let n = world.nodes[0].client_output(id).len();
    world.nodes[0].client_written(due, id, n);
    assert_eq!(world.counter(0, "clients"), 2, "what was written out is forgotten");
}

#[test]
fn the_wake_up_for_the_hello_is_asked_for_and_given_up() {
    let limits = Limits { hello_within: Duration::from_nanos(10), ..Limits::default() };
    let mut world = World::new(1, limits);
    let id = ClientId(1);
    world.nodes[0].open_client(world.now, id);
    assert_eq!(world.nodes[0].poll_timeout(), Some(world.now + Duration::from_nanos(10)));
    let _ = world.nodes[0].handle_client(world.now, id, raw(|out| Hello::default().put(out)));
    assert!(world.nodes[0].poll_timeout() > Some(world.now + Duration::from_nanos(10)));
}

#[test]
fn a_client_that_does_not_read_is_sent_away_and_holds_up_nobody() {
    let mut world = World::new(1, Limits { output_max: 10_000, ..Limits::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(ann, "g");
    world.join(bob, "g");
    world.programs[bob].reads = false;
    for _ in 0..20 {
        world.multicast(ann, &["g"], &"x".repeat(1_000));
        world.settle();
    }
    ended(&mut world, bob, "slow");
    let Some(DaemonEvent::Disconnect(farewell)) = world.programs[bob].events.last() else { panic!("still there") };
    assert!(farewell.text.ends_with("this daemon keeps 10000"), "{}", farewell.text);
    let story = world.story(ann);
    assert_eq!(story.iter().filter(|line| line.contains("xxx")).count(), 20);
    assert!(story.contains(&"g disconnect bob -> ann".to_owned()));
}

#[test]
fn what_the_engine_finds_too_large_is_refused_by_number_and_the_rest_goes_on() {
    let mut world = World::new(1, Limits::default());
    world.nodes[0].engine.message_max = 500;
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    world.multicast(ann, &["g"], "one");
    world.multicast(ann, &["g"], &"x".repeat(600));
    world.multicast(ann, &["g"], "two");
    world.settle();
    assert_eq!(world.story(ann)[1..], ["refused 3: too_large", "n0/c1 g: one", "n0/c1 g: two"]);
    assert_eq!(world.client(ann).progress().ordered, 4);
    assert_eq!((world.counter(0, "requests_accepted"), world.counter(0, "requests_refused")), (3, 1));
}

#[test]
fn an_overrun_of_credit_is_refused_and_counted() {
    let mut world = World::new(1, Limits { credit: 100, ..Limits::default() });
    let ann = world.connect(0, "ann");
    let greedy = raw(|out| {
        (0..3).for_each(|_| request::put_multicast(out, Service::Agreed, &[group("g")], &[b'x'; 60]));
    });
    let _ = world.nodes[0].handle_client(world.now, ClientId(1), greedy);
    world.drain(0);
    world.settle();
    let refused = world.programs[ann].events.iter().filter_map(|event| match event {
        DaemonEvent::Refused { request, refusal } => Some((*request, refusal.cause)),
        _ => None,
    });
    assert_eq!(refused.collect::<Vec<_>>(), [(2, RefusalCause::Budget), (3, RefusalCause::Budget)]);
    assert_eq!((world.counter(0, "requests_accepted"), world.counter(0, "requests_refused")), (1, 2));
}

#[test]
fn wrong_datagrams_are_counted_by_cause_and_own_ones_are_no_fault() {
    let mut world = World::new(2, Limits::default());
    let stranger = Identity { cluster: ClusterId(9), ..identity(1) };
    let mut head = BytesMut::new();
    consort_wire::envelope::reserve(&mut head);
    consort_wire::envelope::seal(&stranger, consort_order::Lane::Data, &mut head, &[]);
    let mut short = BytesMut::new();
    consort_wire::envelope::reserve(&mut short);
    consort_wire::envelope::seal(&identity(1), consort_order::Lane::Data, &mut short, &[]);
    for datagram in [head.freeze(), Bytes::from_static(b"hi"), short.freeze()] {
        world.nodes[0].handle_datagram(world.now, world.now, datagram);
        world.drain(0);
    }
    let rejected = |cause: &str| world.counter(0, &format!("datagrams_rejected_{cause}"));
    assert_eq!((rejected("cluster"), rejected("foreign"), rejected("malformed"), rejected("own")), (1, 1, 1, 0));
    let ann = world.connect(0, "ann");
    let before = world.counter(0, "datagrams_own");
    world.join(ann, "g");
    assert_eq!(world.counter(0, "datagrams_own"), before + 1);
}

#[test]
fn an_ordered_payload_no_daemon_writes_is_dropped_everywhere() {
    let mut world = World::new(2, Limits::default());
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    let payload = Bytes::from_static(&[1, 0, 0, 0, 1, 0xff, 0xff]);
    let submission = consort_order::Submission {
        class: consort_types::Class::Client,
        service: Service::Agreed,
        stream: crate::STREAM,
        payload: payload.into(),
    };
    consort_order::Engine::submit(&mut world.nodes[1].engine, world.now, submission).unwrap();
    world.settle();
    assert_eq!([0, 1].map(|node| world.counter(node, "ordered_malformed")), [1, 1]);
    assert_eq!(world.story(ann), ["g join ann -> ann"]);
}

#[test]
fn when_the_daemon_stops_everybody_is_told() {
    let mut world = World::new(1, Limits::default());
    let all = [world.connect(0, "ann"), world.connect(0, "bob")];
    world.nodes[0].send_clients_away(world.now, &Disconnect::new(DisconnectReason::Stopping, "the daemon stops"));
    world.drain(0);
    all.iter().for_each(|at| assert_eq!(world.story(*at), ["disconnect stopping"]));
    assert_eq!(world.counter(0, "clients"), 0);
}

#[test]
fn a_client_nobody_knows_changes_nothing() {
    let mut world = World::new(1, Limits::default());
    let node = &mut world.nodes[0];
    assert_eq!(node.handle_client(world.now, ClientId(5), Bytes::from_static(b"x")), Reading::Pause);
    node.client_written(world.now, ClientId(5), 10);
    node.close_client(world.now, ClientId(5));
    assert!(node.client_output(ClientId(5)).is_empty());
    assert_eq!(node.poll_effect(), None);
}

#[test]
fn a_flood_of_questions_is_answered_in_slices() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    for _ in 0..1_000 {
        world.client(ann).status();
    }
    let (id, asked) = (world.programs[ann].id, world.client(ann).take_output());
    world.programs[ann].paused = true;
    assert_eq!(world.nodes[0].handle_client(world.now, id, asked), Reading::Pause);
    let answers = |world: &World| {
        let seen = |event: &&DaemonEvent| matches!(event, DaemonEvent::Status(_));
        world.programs[ann].events.iter().filter(seen).count()
    };
    world.drain(0);
    let first = answers(&world);
    assert!((1..200).contains(&first), "{first} answers after one input");
    let next = world.nodes[0].poll_timeout().unwrap();
    assert!(next.since(world.now) <= Duration::from_millis(2), "the rest does not wait for something to happen");
    world.nodes[0].client_written(world.now, id, 0);
    world.drain(0);
    assert_eq!(answers(&world), first, "another input is no other slice");
    world.join(bob, "g");
    assert_eq!(world.story(bob), ["g join bob -> bob"]);
    (0..200).for_each(|_| world.settle());
    assert_eq!(answers(&world), 1_000);
    assert!(!world.programs[ann].paused);
}

#[test]
fn who_has_closed_its_connection_gets_no_answers_but_its_messages_are_sent() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    (0..10_000).for_each(|_| world.client(ann).status());
    world.client(ann).join(&group("other")).unwrap();
    world.client(ann).multicast(Service::Agreed, &[group("g")], b"last").unwrap();
    world.carry();
    assert!(world.programs[ann].paused, "its questions wait for their turn");
    let id = world.programs[ann].id;
    world.nodes[0].deafen_client(id);
    world.settle();
    assert!(world.story(bob).last().is_some_and(|line| line.ends_with("g: last")), "{:?}", world.story(bob));
    let answers = world.programs[ann].events.iter().filter(|event| matches!(event, DaemonEvent::Status(_))).count();
    assert!(answers < 200, "{answers} answers");
    assert_eq!(world.counter(0, "groups"), 1, "it joins nothing any more");
}

#[test]
fn nothing_counts_any_more_of_a_client_whose_session_is_closed() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(1, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    world.client(ann).join(&group("g")).unwrap();
    world.client(ann).goodbye();
    let (id, asked) = (world.programs[ann].id, world.client(ann).take_output());
    let _ = world.nodes[1].handle_client(world.now, id, asked);
    assert!(world.counter(1, "identity_under_way_most") > 0, "its join is under way");
    // It has read everything before the join is ordered.
    let len = world.nodes[1].client_outputs(id).map(<[u8]>::len).sum();
    world.nodes[1].client_written(world.now, id, len);
    world.programs[ann].closed = true;
    world.drain(1);
    world.settle();
    assert_eq!(world.counter(1, "identity_under_way_most"), 0);
}

#[test]
fn who_asks_for_too_much_holds_nobody_else_up() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    (0..1_000).for_each(|_| world.client(ann).status());
    world.carry();
    assert!(world.programs[ann].paused, "the slice of answers is used up");
    let before = world.counter(0, "requests_accepted");
    (0..50).for_each(|n| world.multicast(bob, &["g"], &format!("{n}")));
    world.carry();
    assert_eq!(world.counter(0, "requests_accepted"), before + 50);
    assert!(world.programs[ann].paused && !world.programs[bob].paused);
}

#[test]
fn who_comes_when_all_places_are_taken_is_told_so_at_each_listener_and_a_place_is_free_again_once_one_has_gone() {
    //= S07 test
    let mut world = World::new(1, Limits { clients_most: 2, ..Limits::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    let eve = world.connect(0, "eve");
    world.read(world.programs[eve].id);
    let [DaemonEvent::Disconnect(farewell)] = &world.programs[eve].events[..] else { panic!("not turned back") };
    assert_eq!(farewell.reason, DisconnectReason::TooManyClients);
    assert!(farewell.text.contains("serves 2 clients") && farewell.text.contains("raise `most`"), "{}", farewell.text);
    let spread = ClientId(9 | ClientId::SPREAD);
    world.nodes[0].open_client(world.now, spread);
    assert_eq!(world.nodes[0].client_output(spread), [-3_i8 as u8]);
    assert_eq!(world.counter(0, "sessions_ended_too_many_clients"), 2);
    assert!(!world.programs[ann].closed && !world.programs[bob].closed);
    for _ in 0..2 {
        let (told, ended) = ask_status(&mut world);
        assert!(told && !ended, "who only asks is answered");
    }
    world.vanish(ann);
    let late = world.connect(0, "eve");
    assert!(matches!(&world.programs[late].events[..], [DaemonEvent::Welcome(_), ..]));
    world.client(bob).goodbye();
    world.settle();
    let last = world.connect(0, "ann");
    assert!(matches!(&world.programs[last].events[..], [DaemonEvent::Welcome(_), ..]));
}

#[test]
fn who_has_said_nothing_goes_when_others_need_the_room() {
    let mut world = World::new(1, Limits { clients_most: 3, ..Limits::default() });
    let ann = world.connect(0, "ann");
    let silent: Vec<_> = (0..50).map(|n| ClientId(9_000 + n)).collect();
    for id in &silent {
        world.nodes[0].open_client(world.now, *id);
        world.drain(0);
    }
    let spread = ClientId(9 | ClientId::SPREAD);
    world.nodes[0].open_client(world.now, spread);
    assert_eq!(world.counter(0, "sessions_ended_too_many_clients"), 0);
    let bob = world.connect(0, "bob");
    let (told, ended) = ask_status(&mut world);
    assert!(told && !ended);
    let is_welcome =
        |world: &World, client: usize| matches!(&world.programs[client].events[..], [DaemonEvent::Welcome(_), ..]);
    assert!(is_welcome(&world, bob) && !world.programs[ann].closed, "those who spoke stay");
    assert!(world.counter(0, "sessions_ended_silent") > 40);
    let eve = world.connect(0, "eve");
    let late = world.connect(0, "late");
    assert!(is_welcome(&world, eve) && !is_welcome(&world, late), "three are served");
}

/// Lets a client of a user only ask, over a connection that stays; it is asked for its status.
fn ask_as(world: &mut World, id: u32, user: u32) -> bool {
    let (mut inquirer, id) = (Inquirer::new(), ClientId(id));
    world.now += Duration::from_millis(2);
    let identity = consort_rights::Identity::of_user(user, user);
    let origin =
        crate::ClientOrigin { transport: consort_session::listing::Transport::Unix, identity, unix_seconds: 0 };
    world.nodes[0].open_client_from(world.now, id, origin);
    inquirer.ask_status();
    let _ = world.nodes[0].handle_client(world.now, id, inquirer.take_output());
    world.drain(0);
    inquirer.feed(world.nodes[0].client_outputs(id).flatten().copied().collect());
    std::iter::from_fn(|| inquirer.next_reply().unwrap()).any(|reply| matches!(reply, Reply::Status(_)))
}

#[test]
fn those_who_only_ask_take_no_places_of_others_and_keep_out_no_other_who_asks() {
    let mut world = World::new(1, Limits { clients_most: 3, ..Limits::default() });
    let ann = world.connect(0, "ann");
    assert!((0..100).all(|n| ask_as(&mut world, 9_000 + n, 1_000)), "each is answered, and the oldest goes");
    assert_eq!(world.counter(0, "sessions_ended_too_many_clients"), 68);
    assert!((0..16).all(|n| ask_as(&mut world, 10_000 + n, n)), "others ask");
    assert_eq!(world.counter(0, "sessions_ended_too_many_clients"), 84, "the identity with most connections gives way");
    assert!((0..16).all(|n| !world.nodes[0].clients.get(ClientId(10_000 + n)).unwrap().is_closed()));
    let (bob, eve, late) = (world.connect(0, "bob"), world.connect(0, "eve"), world.connect(0, "late"));
    let welcome = |at: usize| matches!(&world.programs[at].events[..], [DaemonEvent::Welcome(_), ..]);
    assert!([ann, bob, eve].into_iter().all(welcome) && !welcome(late));
}

#[test]
fn who_said_that_it_only_asks_and_sends_is_sent_away() {
    let mut world = World::new(1, Limits::default());
    for put in [
        (|out| request::put_join(out, &group("g"), false)) as fn(&mut BytesMut),
        |out| request::put_leave(out, &group("g")),
        |out| request::put_multicast(out, Service::Agreed, &[group("g")], b"x"),
    ] {
        let id = ClientId(9_000);
        world.nodes[0].open_client(world.now, id);
        let asked = raw(|out| {
            Hello { only_asks: true, ..Hello::default() }.put(out);
            put(out);
        });
        assert_eq!(world.nodes[0].handle_client(world.now, id, asked), Reading::Pause);
        let told: Vec<u8> = world.nodes[0].client_outputs(id).flatten().copied().collect();
        let told = String::from_utf8_lossy(&told);
        assert!(told.ends_with("malformed request of a client that only asks at byte 5 of frame 2"), "{told}");
        world.nodes[0].close_client(world.now, id);
        world.drain(0);
    }
    assert_eq!((world.counter(0, "sessions_ended_malformed"), world.counter(0, "requests_accepted")), (3, 0));
}
