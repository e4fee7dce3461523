//! What all clients together may take of a daemon's memory, and what is told in the end to one that took too much.
use super::*;
use consort_types::Duration;

const MANY: usize = 200;

/// Many clients in one group, of whom nobody reads, and how often it took another input to tell them all.
fn crowd(limits: Limits) -> (World, usize) {
    let mut world = World::new(1, limits);
    let all: Vec<_> = (0..MANY).map(|n| world.connect(0, &format!("client-with-a-long-name-{n:03}"))).collect();
    all.iter().for_each(|at| world.programs[*at].reads = false);
    for at in all {
        world.client(at).join(&group("crowd")).unwrap();
        world.write(at);
    }
    let mut inputs = 0;
    let until = world.now + TICK * 10;
    while world.now < until || world.nodes[0].has_to_tell() {
        match world.network.pop_front() {
            Some((_, datagram)) => world.nodes[0].handle_datagram(world.now, world.now, datagram),
            None => {
                world.now += if world.nodes[0].has_to_tell() { Duration::ZERO } else { TICK };
                world.nodes[0].handle_timeout(world.now);
            }
        }
        inputs += usize::from(world.nodes[0].has_to_tell());
        world.drain(0);
    }
    (world, inputs)
}

#[test]
fn a_crowd_that_joins_one_group_is_told_in_slices_and_its_views_are_kept_once() {
    let (mut world, inputs) = crowd(Limits::default());
    let (bytes, memory) = (world.counter(0, "client_output_bytes"), world.counter(0, "client_output_memory_bytes"));
    assert!(bytes > 20_000_000, "{bytes}");
    assert!(memory * 10 < bytes, "{memory} of {bytes}");
    let told = MANY * MANY / 2;
    assert!(inputs * 600 > told, "{inputs} inputs for {told} times that a client was told");
    (0..MANY).for_each(|at| world.read(world.programs[at].id));
    for at in 0..MANY {
        let story = world.story(at);
        assert_eq!(story.len(), MANY - at, "every join behind its own, in order");
        assert!(story[0].starts_with(&format!("crowd join c{} ", at + 1)), "{}", story[0]);
    }
    assert_eq!(world.counter(0, "client_output_memory_bytes"), 0);
}

#[test]
fn a_message_behind_a_change_waits_until_all_are_told_of_the_change() {
    let (mut world, _) = crowd(Limits::default());
    let late = world.connect(0, "late");
    (0..MANY).for_each(|at| world.programs[at].reads = true);
    world.client(late).join(&group("crowd")).unwrap();
    world.multicast(late, &["crowd"], "behind");
    world.settle();
    (0..MANY).for_each(|at| world.read(world.programs[at].id));
    for at in 0..MANY {
        let story = world.story(at);
        let [.., join, message] = &story[..] else { panic!("{story:?}") };
        assert!(join.starts_with("crowd join late") && message.ends_with("behind"), "{join} {message}");
    }
}

#[test]
fn a_message_to_a_crowd_is_told_in_slices_kept_once_and_counted_until_the_last_has_read_it() {
    let (mut world, _) = crowd(Limits::default());
    (0..MANY).for_each(|at| world.read(world.programs[at].id));
    let ann = world.connect(0, "ann");
    let (each, messages) = (10_000, 40);
    for n in 0..messages {
        world.multicast(ann, &["crowd"], &format!("{n:0each$}"));
        world.settle();
    }
    let sent = (messages * each) as u64;
    let memory = world.counter(0, "client_output_memory_bytes");
    assert!((sent..2 * sent + 1_000 * MANY as u64).contains(&memory), "{memory} for {sent}");
    assert!(world.counter(0, "client_output_bytes") > MANY as u64 * sent);
    let most = world.counter(0, "delivery_slice_max_bytes");
    assert!(most < 300 << 10, "{most} in one slice");
    (1..MANY).for_each(|at| world.read(world.programs[at].id));
    assert!(world.counter(0, "client_output_shared_bytes") >= sent, "one has not read it");
    world.read(world.programs[0].id);
    assert_eq!(world.counter(0, "client_output_memory_bytes"), 0);
    for at in 0..MANY {
        let story = world.story(at);
        let told = &story[story.len() - messages..];
        let right = told.iter().enumerate().all(|(n, line)| line.ends_with(&format!("{n:0each$}")));
        assert!(right, "each message once, in order");
    }
}

#[test]
fn many_small_messages_to_a_crowd_are_told_in_slices_too() {
    let (mut world, _) = crowd(Limits::default());
    let ann = world.connect(0, "ann");
    (0..50).for_each(|_| world.multicast(ann, &["crowd"], &"x".repeat(900)));
    world.settle();
    assert!(world.counter(0, "messages_delivered") >= 50 * MANY as u64);
    let most = world.counter(0, "delivery_slice_max_bytes");
    assert!(most < 300 << 10, "{most} in one slice");
}

#[test]
fn a_sender_in_a_crowd_is_given_its_message_before_it_is_told_that_it_has_its_place() {
    let mut world = World::new(1, Limits::default());
    let all: Vec<_> = (0..5).map(|n| world.connect(0, &format!("client-{n}"))).collect();
    all.iter().for_each(|at| world.join(*at, "crowd"));
    let known = |world: &World, at: usize| {
        let given = world.story(at).iter().filter(|line| line.starts_with(&format!("n0/c{} ", at + 1))).count() as u64;
        (world.programs[at].client.progress().ordered - 1, given)
    };
    for at in &all {
        (0..4).for_each(|n| world.multicast(*at, &["crowd"], &n.to_string().repeat(32_000)));
        while world.write(*at) {}
    }
    let until = world.now + TICK * 10;
    while world.now < until {
        match world.network.pop_front() {
            Some((_, datagram)) => world.nodes[0].handle_datagram(world.now, world.now, datagram),
            None => {
                world.now += if world.nodes[0].has_to_tell() { Duration::ZERO } else { TICK };
                world.nodes[0].handle_timeout(world.now);
            }
        }
        world.drain(0);
        for at in &all {
            let (ordered, given) = known(&world, *at);
            assert!(ordered <= given, "{ordered} of client {at} are called ordered, and {given} were given back");
        }
    }
    assert!(world.counter(0, "delivery_slice_max_bytes") > 256 << 10, "no slice was full");
    assert!(all.iter().all(|at| known(&world, *at) == (4, 4)));
}

#[test]
fn what_a_crowd_shares_counts_against_what_all_may_leave_unread() {
    let most = 400_000;
    let (mut world, _) = crowd(Limits { outputs_max: most, ..Limits::default() });
    (0..MANY).for_each(|at| world.read(world.programs[at].id));
    let ann = world.connect(0, "ann");
    for _ in 0..100 {
        world.multicast(ann, &["crowd"], &"x".repeat(10_000));
        world.settle();
        let shared = world.counter(0, "client_output_shared_bytes");
        assert!(shared < most as u64 + 50_000, "{shared}");
    }
    assert!(world.counter(0, "sessions_ended_slow") > 0);
}

#[test]
fn what_a_crowd_shares_is_given_back_at_once_when_all_of_it_goes() {
    let (mut world, _) = crowd(Limits { output_max: 1 << 20, ..Limits::default() });
    let ann = world.connect(0, "ann");
    for _ in 0..120 {
        world.multicast(ann, &["crowd"], &"x".repeat(10_000));
        world.settle();
    }
    assert_eq!(world.counter(0, "sessions_ended_slow"), MANY as u64);
    let memory = world.counter(0, "client_output_memory_bytes");
    assert!(memory < 64 << 10, "{memory} are kept for who is gone");
    assert!(world.counter(0, "delivery_slice_max_bytes") < 600 << 10);
}

#[test]
fn if_all_outputs_are_too_large_together_who_is_furthest_behind_goes_and_learns_why() {
    let limits = Limits { outputs_max: 100_000, ..Limits::default() };
    let mut world = World::new(1, limits);
    let (ann, bob, eve) = (world.connect(0, "ann"), world.connect(0, "bob"), world.connect(0, "eve"));
    world.join(eve, "g");
    world.multicast(ann, &["g"], &"x".repeat(10_000));
    world.settle();
    world.join(bob, "g");
    for at in [bob, eve] {
        world.programs[at].reads = false;
    }
    for round in 0..14 {
        world.multicast(ann, &["g"], &"x".repeat(4_000));
        world.settle();
        if round == 2 {
            world.read(world.programs[eve].id);
        }
    }
    assert!(world.programs[bob].closed && !world.programs[eve].closed, "bob read nothing, eve a little");
    let Some(DaemonEvent::Disconnect(farewell)) = world.programs[bob].events.last() else { panic!("still there") };
    assert!(farewell.text.contains("wait to be read by all clients"), "{}", farewell.text);
    assert!(farewell.text.ends_with("this daemon keeps 100000 for all"), "{}", farewell.text);
    assert_eq!(world.counter(0, "sessions_ended_slow"), 1);
    let id = world.programs[eve].id;
    world.read(id);
    assert_eq!(world.story(eve).iter().filter(|line| line.contains("xxx")).count(), 15);
    assert_eq!(world.counter(0, "client_output_memory_bytes"), 0);
}

#[test]
fn who_has_little_stays_while_one_that_goes_still_holds_a_frame_larger_than_all_may() {
    let mut world = World::new(1, Limits { outputs_max: 24_000, ..Limits::default() });
    let (ann, eve) = (world.connect(0, "ann"), world.connect(0, "eve"));
    world.join(eve, "small");
    world.programs[eve].reads = false;
    let bob = ClientId(9);
    world.nodes[0].open_client(world.now, bob);
    let hello = raw(|out| {
        Hello::default().put(out);
        consort_session::request::put_join(out, &group("large"), false);
    });
    assert_eq!(world.nodes[0].handle_client(world.now, bob, hello), Reading::Go);
    world.drain(0);
    world.settle();
    let told = world.nodes[0].client_output(bob).len();
    world.nodes[0].client_written(world.now, bob, told);
    world.multicast(ann, &["large"], &"x".repeat(19_000));
    world.settle();
    world.nodes[0].client_written(world.now, bob, 10);
    world.multicast(ann, &["large"], &"y".repeat(5_000));
    (0..30).for_each(|_| world.multicast(ann, &["small"], "z"));
    world.settle();
    assert!(world.nodes[0].client_output(bob).len() > 18_000, "what bob has begun to read stays");
    assert_eq!((world.counter(0, "sessions_ended_slow"), world.programs[eve].closed), (1, false));
    (0..100).for_each(|_| world.multicast(ann, &["small"], &"z".repeat(100)));
    world.settle();
    assert!(world.nodes[0].client_output(bob).is_empty(), "it goes before anybody who is there");
    assert_eq!((world.counter(0, "sessions_ended_slow"), world.programs[eve].closed), (1, false));
    (0..200).for_each(|_| world.multicast(ann, &["small"], &"z".repeat(100)));
    world.settle();
    assert_eq!(world.counter(0, "sessions_ended_slow"), 2, "eve has more than all may");
}

#[test]
fn who_is_cut_off_in_mid_frame_reads_that_frame_and_then_why() {
    let mut world = World::new(1, Limits { output_max: 10_000, ..Limits::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    let id = world.programs[bob].id;
    world.programs[bob].reads = false;
    for _ in 0..2 {
        world.multicast(ann, &["g"], &"x".repeat(3_000));
    }
    world.settle();
    let piece: Bytes = world.nodes[0].client_outputs(id).flatten().copied().take(3_500).collect();
    world.nodes[0].client_written(world.now, id, piece.len());
    world.client(bob).feed(piece);
    for _ in 0..3 {
        world.multicast(ann, &["g"], &"y".repeat(3_000));
    }
    world.settle();
    let told = world.story(bob);
    assert_eq!(told.iter().filter(|line| line.contains("xxx")).count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|line| line.contains("yyy")).count(), 0);
    assert_eq!(told.last().unwrap(), "disconnect slow");
}

/// The bytes of one multicast of `len` bytes.
fn large(len: usize) -> Bytes {
    let mut out = BytesMut::new();
    consort_session::request::put_multicast(&mut out, Service::Agreed, &[group("g")], &vec![b'x'; len]);
    out.freeze()
}

#[test]
fn large_frames_begun_take_turns_and_none_is_lost() {
    let limits = Limits { frames_max: 300_000, credit: 1 << 20, ..Limits::default() };
    let mut world = World::new(1, limits);
    let all: Vec<_> = (0..4).map(|n| world.connect(0, &format!("c{n}"))).collect();
    world.join(all[0], "g");
    let frame = large(140_000);
    let feed = |world: &mut World, at: usize, range: std::ops::Range<usize>| {
        let id = world.programs[at].id;
        let reading = world.nodes[0].handle_client(world.now, id, frame.slice(range));
        world.drain(0);
        reading
    };
    let begun: Vec<_> = all.iter().map(|at| feed(&mut world, *at, 0..1_000)).collect();
    assert_eq!(begun, [Reading::Go, Reading::Go, Reading::Pause, Reading::Pause]);
    assert_eq!(world.counter(0, "client_frames_begun_bytes"), 2 * frame.len() as u64);
    (2..4).for_each(|at| world.programs[at].paused = true);
    assert_eq!(feed(&mut world, 0, 1_000..frame.len()), Reading::Go);
    world.settle();
    assert_eq!([2, 3].map(|at: usize| world.programs[at].paused), [false, true], "one may go on");
    for at in 1..4 {
        assert_eq!(feed(&mut world, at, 1_000..frame.len()), Reading::Go, "{at}");
        world.settle();
    }
    assert_eq!(world.story(0).iter().filter(|line| line.contains("xxx")).count(), 4);
    assert_eq!(world.counter(0, "client_frames_begun_bytes"), 0);
}

#[test]
fn who_does_not_finish_a_frame_in_time_is_sent_away_and_makes_room() {
    let limits = Limits { frames_max: 1, frame_within: Duration::from_millis(50), ..Limits::default() };
    let mut world = World::new(1, limits);
    let all = [world.connect(0, "ann"), world.connect(0, "bob")];
    let frame = large(128_000);
    for (at, expected) in all.into_iter().zip([Reading::Go, Reading::Pause]) {
        let id = world.programs[at].id;
        assert_eq!(world.nodes[0].handle_client(world.now, id, frame.slice(..100)), expected);
        world.programs[at].paused = expected == Reading::Pause;
    }
    let due = world.now + Duration::from_millis(50);
    assert!(world.nodes[0].poll_timeout().is_some_and(|at| at <= due));
    world.now = due;
    world.wake(0);
    world.settle();
    let Some(DaemonEvent::Disconnect(farewell)) = world.programs[all[0]].events.last() else { panic!("still there") };
    assert_eq!(farewell.text, format!("a frame of {} bytes was begun and not finished in time", frame.len()));
    assert!(!world.programs[all[1]].paused && !world.programs[all[1]].closed);
}

#[test]
fn who_was_sent_away_in_the_middle_of_a_large_frame_gives_it_up_before_anybody_else_goes() {
    let (most, len) = (200_000, 20_000);
    let mut world = World::new(1, Limits { outputs_max: most, output_max: 30_000, ..Limits::default() });
    let (ann, eve) = (world.connect(0, "ann"), world.connect(0, "eve"));
    world.join(eve, "small");
    world.programs[eve].reads = false;
    for number in 0..9 {
        let (bob, own) = (ClientId(9_000 + number), format!("large{number}"));
        world.nodes[0].open_client(world.now, bob);
        let hello = raw(|out| {
            Hello::default().put(out);
            consort_session::request::put_join(out, &group(&own), false);
        });
        assert_eq!(world.nodes[0].handle_client(world.now, bob, hello), Reading::Go);
        world.drain(0);
        world.settle();
        let told = world.nodes[0].client_output(bob).len();
        world.nodes[0].client_written(world.now, bob, told);
        world.multicast(ann, &[&own], &"x".repeat(len));
        world.settle();
        world.nodes[0].client_written(world.now, bob, 10);
        world.multicast(ann, &[&own], &"y".repeat(len));
        world.settle();
    }
    let slow = |world: &World| (world.counter(0, "sessions_ended_slow"), world.counter(0, "clients"));
    assert_eq!(slow(&world), (9, 11), "all are to read the frame that they have begun, and why they go");
    for _ in 0..25 {
        world.multicast(ann, &["small"], &"z".repeat(1_000));
    }
    world.settle();
    let memory = world.counter(0, "client_output_memory_bytes");
    assert!(memory <= most as u64 && memory > most as u64 - 2 * len as u64, "{memory}");
    assert_eq!(slow(&world), (9, 10), "one frame was enough");
    assert!(!world.programs[eve].closed);
}

/// The largest number of bytes that all outputs took at once while `ann` spoke to the crowd.
fn speak(world: &mut World, ann: usize, messages: usize, len: usize) -> u64 {
    let mut most = 0;
    for n in 0..messages {
        world.multicast(ann, &["crowd"], &format!("{n:0len$}"));
        for _ in 0..4 {
            world.carry();
            world.now += TICK;
            world.wake(0);
            most = most.max(world.counter(0, "client_output_memory_bytes"));
        }
    }
    most
}

#[test]
fn a_silent_crowd_keeps_within_all_budgets_and_neither_the_engine_nor_who_reads_waits_for_it() {
    let (output_max, outputs_max, len, messages) = (1 << 20, 3 << 20, 16 << 10, 200);
    let (mut world, _) = crowd(Limits { output_max, outputs_max, ..Limits::default() });
    let ann = world.connect(0, "ann");
    world.join(ann, "crowd");
    let most = speak(&mut world, ann, messages, len);
    assert!(most <= (outputs_max + len + 1_000) as u64, "{most} bytes of {outputs_max}");
    assert_eq!(world.counter(0, "sessions_ended_slow"), MANY as u64, "the crowd never reads");
    let slice = world.counter(0, "delivery_slice_max_bytes");
    assert!(slice <= 600 << 10, "the engine waited for {slice} bytes");
    let story = world.story(ann);
    let heard = story.iter().filter(|line| line.starts_with("n0/")).count();
    assert_eq!((heard, world.programs[ann].closed), (messages, false), "who reads misses nothing");
    assert_eq!(world.counter(0, "clients"), 1);
}
