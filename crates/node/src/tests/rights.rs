//! What rules let clients do, and what they are told who may not.
use super::*;
use crate::streams::{GroupStreams, StreamGroups};
use crate::{ClientOrigin, ClientPolicy};
use consort_rights::{Glob, Identity, IdentityLimits, Rule, Rules, Tokens, Verb, tokens};
use consort_session::inquirer::{Inquirer, Reply};
use consort_session::listing::{ListQuery, Listing, Transport};
use consort_session::{DisconnectReason, Place, RefusalCause};
use consort_types::Duration;
use consort_types::OrderStream;

fn rule(name: &str, who: &str, groups: &[&str], allow: &[Verb], deny: &[Verb]) -> Rule {
    Rule {
        name: name.to_owned(),
        who: vec![who.parse().unwrap()],
        groups: groups.iter().map(|group| Glob::new(group)).collect(),
        allow: allow.iter().copied().collect(),
        deny: deny.iter().copied().collect(),
        ..Rule::default()
    }
}

fn limited(who: &str, limits: IdentityLimits) -> Rule {
    Rule { limits, ..rule("limits", who, &["*", "#*"], &Verb::ALL, &[]) }
}

fn policy(rules: &[Rule]) -> ClientPolicy {
    ClientPolicy { rules: Rules::new(rules.to_vec()), ..ClientPolicy::default() }
}

fn user(user: u32) -> Identity {
    Identity::of_user(user, user)
}

/// Connects a client that is of this user.
fn connect_as(world: &mut World, name: &str, identity: Identity) -> usize {
    let id = ClientId(world.programs.len() as u32 + 1);
    let hello = Hello { name: ClientName::new(name.as_bytes()), ..Hello::default() };
    let origin = ClientOrigin { transport: Transport::Unix, identity, unix_seconds: 0 };
    world.nodes[0].open_client_from(world.now, id, origin);
    let (client, events) = (ClientEnd::new(&hello), Vec::new());
    world.programs.push(Program { node: 0, id, client, events, paused: false, reads: true, closed: false });
    world.settle();
    world.programs.len() - 1
}

fn allow(world: &mut World, node: usize, rules: &[Rule]) {
    let now = world.now;
    world.nodes[node].set_policy(now, policy(rules));
    world.drain(node);
    world.settle();
}

fn told(world: &mut World, at: usize) -> Vec<String> {
    let story = world.story(at);
    world.programs[at].events.clear();
    story
}

/// The texts of what was refused since it was asked last, with the requests' numbers.
fn refusals(world: &mut World, at: usize) -> Vec<(u64, RefusalCause, String)> {
    let of = |event: &DaemonEvent| match event {
        DaemonEvent::Refused { request, refusal } => Some((*request, refusal.cause, refusal.text.clone())),
        _ => None,
    };
    let found = world.programs[at].events.iter().filter_map(of).collect();
    world.programs[at].events.clear();
    found
}

#[test]
fn each_right_that_is_lacking_is_refused_by_number_and_nothing_else_is() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "bob", user(2)));
    let rules = [
        rule("ann", "user:1", &["g", "h"], &Verb::ALL, &[]),
        rule("quiet", "user:2", &["h"], &[], &[Verb::Send]),
        rule("bob", "user:2", &["g"], &[Verb::Send], &[]),
    ];
    allow(&mut world, 0, &rules);
    world.join(ann, "g");
    world.join(bob, "g");
    for names in [&["g"][..], &["h"], &["g", "other"], &["g"], &["g"]] {
        world.multicast(bob, names, &names.join(" "));
    }
    world.settle();
    let no_rule = |act: &str| format!("user:2 may not {act}: no rule allows it");
    let refused = [
        (1, RefusalCause::Denied, no_rule("join g")),
        (3, RefusalCause::Denied, "user:2 may not send to h: rule quiet denies it".to_owned()),
        (4, RefusalCause::Denied, no_rule("send to other")),
    ];
    assert_eq!(refusals(&mut world, bob), refused);
    assert_eq!(told(&mut world, ann)[1..], ["n0/c2 g: g", "n0/c2 g: g", "n0/c2 g: g"]);
    assert_eq!(world.client(bob).progress().ordered, 6);
    let all_back = world.client(bob).progress().credit;
    world.multicast(bob, &["g"], "more");
    world.settle();
    assert!(world.client(bob).progress().credit > all_back, "credit comes back");
}

#[test]
fn a_private_name_needs_a_right_of_its_own() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "bob", user(2)));
    allow(
        &mut world,
        0,
        &[rule("groups", "*", &["*"], &Verb::ALL, &[]), rule("ann", "user:1", &["#bob#*"], &Verb::ALL, &[])],
    );
    let to = |name: &str| consort_group::PrivateName::parse(name).unwrap();
    world.client(ann).multicast(Service::Agreed, &[to("#bob#n0")], b"psst").unwrap();
    world.client(bob).multicast(Service::Agreed, &[to("#ann#n0")], b"psst").unwrap();
    world.settle();
    assert_eq!(told(&mut world, bob).len(), 2, "a message and a refusal");
    assert_eq!(told(&mut world, ann), [""; 0]);
}

#[test]
fn a_revoked_member_is_told_and_leaves_at_one_place_of_the_order() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "bob", user(2)));
    let cid = world.connect(1, "cid");
    for client in [ann, bob, cid] {
        world.join(client, "g");
        world.join(client, "other");
    }
    for client in [ann, bob, cid] {
        told(&mut world, client);
    }
    let rest = rule("others", "user:1", &["*"], &Verb::ALL, &[]);
    allow(
        &mut world,
        0,
        &[rule("g", "user:2", &["g"], &[], &[Verb::Join]), rule("all", "user:2", &["*"], &Verb::ALL, &[]), rest],
    );
    let told_bob = told(&mut world, bob);
    assert_eq!(told_bob, ["refused 0: denied", "g leave bob -> ann cid"], "the notice, then the view without it");
    for client in [ann, cid] {
        assert_eq!(told(&mut world, client), ["g leave bob -> ann cid"]);
    }
    assert_eq!(world.counter(0, "rights_expulsions"), 1);
    // Whatever it asks for from here on is counted as before.
    world.join(bob, "g");
    world.multicast(bob, &["other"], "still here");
    world.settle();
    assert_eq!(told(&mut world, bob), ["refused 3: denied", "n0/c2 other: still here"]);
    assert_eq!(world.client(bob).progress().ordered, 4);
}

#[test]
fn joins_and_leaves_under_way_are_not_taken_for_what_the_rules_do() {
    let mut world = World::new(1, Limits::default());
    let bob = connect_as(&mut world, "bob", user(2));
    for name in ["a", "b", "c"] {
        world.join(bob, name);
    }
    told(&mut world, bob);
    // All of these are under way when the rules come.
    world.client(bob).leave(&group("a")).unwrap();
    world.client(bob).join(&group("d")).unwrap();
    world.client(bob).leave(&group("b")).unwrap();
    let sent = Bytes::copy_from_slice(world.client(bob).output());
    world.client(bob).written(sent.len());
    let now = world.now;
    let _ = world.nodes[0].handle_client(now, ClientId(1), sent);
    world.nodes[0].set_policy(now, policy(&[rule("only-c", "user:2", &["c"], &Verb::ALL, &[])]));
    world.drain(0);
    world.settle();
    let story = told(&mut world, bob);
    assert_eq!(world.nodes[0].groups().memberships((member(0), ClientId(1))), 1, "{story:?}");
    assert_eq!(world.client(bob).progress().ordered, 6);
    world.multicast(bob, &["c"], "fine");
    world.settle();
    assert_eq!((told(&mut world, bob), world.client(bob).progress().ordered), (vec!["n0/c1 c: fine".to_owned()], 7));
}

#[test]
fn a_reading_ends_with_its_right_and_does_not_begin_without() {
    let mut world = World::new(1, Limits::default());
    let (ann, rea) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "rea", user(2)));
    world.multicast(ann, &["g"], "before");
    world.client(rea).read(0, Place::at(0), &[group("g")]);
    world.settle();
    assert!(told(&mut world, rea).iter().any(|line| line.ends_with("before")));
    let all = rule("all", "user:1", &["*"], &Verb::ALL, &[]);
    allow(&mut world, 0, &[all.clone(), rule("sends", "user:2", &["*"], &[Verb::Send], &[])]);
    world.multicast(ann, &["g"], "secret");
    world.settle();
    let denied = |told: Vec<String>| {
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].starts_with("denied (")
            && told[0].ends_with("user:2 may not receive what is sent to g: no rule allows it")
    };
    assert!(denied(told(&mut world, rea)));
    world.client(rea).read(0, Place::at(0), &[group("g")]);
    world.settle();
    assert!(denied(told(&mut world, rea)));
    allow(&mut world, 0, &[all, rule("reads", "user:2", &["g"], &[Verb::Receive], &[])]);
    world.client(rea).read(0, Place::at(0), &[group("g")]);
    world.settle();
    assert!(told(&mut world, rea).iter().any(|line| line.ends_with("secret")));
}

/// What node 0 answers to a client that only asks.
fn ask(world: &mut World, question: &ListQuery, identity: Identity) -> Reply {
    let (mut inquirer, id) = (Inquirer::new(), ClientId(9_000));
    let origin = ClientOrigin { transport: Transport::Unix, identity, unix_seconds: 0 };
    world.nodes[0].open_client_from(world.now, id, origin);
    inquirer.ask(question);
    let _ = world.nodes[0].handle_client(world.now, id, inquirer.take_output());
    while world.nodes[0].poll_effect().is_some() {}
    while world.nodes[0].poll_writable().is_some() {}
    inquirer.feed(world.nodes[0].client_outputs(id).flatten().copied().collect());
    world.nodes[0].close_client(world.now, id);
    assert!(matches!(inquirer.next_reply(), Ok(Some(Reply::Welcome(_)))));
    inquirer.next_reply().unwrap().unwrap()
}

#[test]
fn a_list_of_many_groups_is_made_in_slices_and_is_whole() {
    const GROUPS: usize = 4_000;
    let mut world = World::new(1, Limits::default());
    let ann = connect_as(&mut world, "ann", user(1));
    for n in 0..GROUPS {
        world.client(ann).join(&group(&format!("g{n:04}"))).unwrap();
    }
    (0..8).for_each(|_| world.settle());
    assert_eq!(world.counter(0, "groups"), GROUPS as u64);
    let rules = [
        rule("all", "user:1", &["*", "#*"], &Verb::ALL, &[]),
        rule("looks", "user:3", &["g*9"], &[Verb::See], &[]),
        rule("asks", "user:4", &["other"], &[Verb::See], &[]),
    ];
    allow(&mut world, 0, &rules);
    let (mut inquirer, id) = (Inquirer::new(), ClientId(9_000));
    let origin = ClientOrigin { transport: Transport::Unix, identity: user(3), unix_seconds: 0 };
    world.nodes[0].open_client_from(world.now, id, origin);
    let after = Some(group("g3000"));
    (0..5).for_each(|_| inquirer.ask(&ListQuery::Groups { after: after.clone(), most: 7 }));
    let _ = world.nodes[0].handle_client(world.now, id, inquirer.take_output());
    let (mut pages, mut slices) = (Vec::new(), 0);
    while pages.len() < 5 {
        while world.nodes[0].poll_effect().is_some() {}
        while world.nodes[0].poll_writable().is_some() {}
        assert!(world.nodes[0].answered <= (64 << 10) + 1_000, "{} in one slice", world.nodes[0].answered);
        let told: Bytes = world.nodes[0].client_outputs(id).flatten().copied().collect();
        world.nodes[0].client_written(world.now, id, told.len());
        inquirer.feed(told);
        while let Ok(Some(reply)) = inquirer.next_reply() {
            pages.extend(if let Reply::Listing(Listing::Groups(page)) = reply { Some(page) } else { None });
        }
        slices += 1;
        assert!(slices < 100, "{} pages", pages.len());
        world.now += Duration::from_millis(2);
        world.nodes[0].handle_timeout(world.now);
    }
    assert!(slices > 10, "all in {slices} slices");
    for page in pages {
        assert_eq!((page.total, page.more, page.items.len()), (GROUPS as u32 / 10, true, 7));
        assert_eq!((page.items[0].name.as_str(), page.items[0].members), ("g3009", 1));
    }
}

#[test]
fn lists_tell_what_their_reader_may_see() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "bob", user(2)));
    for name in ["a", "b", "c"] {
        world.join(ann, name);
    }
    world.join(bob, "b");
    let rules = [
        rule("all", "user:1", &["*", "#*"], &Verb::ALL, &[]),
        rule("own", "user:2", &["*"], &[Verb::Join, Verb::Send], &[]),
        rule("looks", "user:3", &["a", "c", "#ann#*"], &[Verb::See], &[]),
    ];
    allow(&mut world, 0, &rules);
    let groups = |world: &mut World, who, most| match ask(world, &ListQuery::Groups { after: None, most }, user(who)) {
        Reply::Listing(Listing::Groups(page)) => {
            let names: Vec<_> = page.items.iter().map(|group| group.name.as_str().to_owned()).collect();
            (page.total, page.more, names.join(" "))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(groups(&mut world, 1, 9), (3, false, "a b c".into()));
    assert_eq!(groups(&mut world, 3, 9), (2, false, "a c".into()));
    assert_eq!(groups(&mut world, 3, 1), (2, true, "a".into()));
    assert_eq!(groups(&mut world, 4, 9), (0, false, String::new()));
    let members = |group_name| ListQuery::Members {
        group: group(group_name),
        after: (MemberId::default(), ClientId(0)),
        most: 9,
    };
    assert!(
        matches!(ask(&mut world, &members("a"), user(3)), Reply::Listing(Listing::Members(page)) if page.total == 1)
    );
    let Reply::Refused(refusal) = ask(&mut world, &members("b"), user(3)) else { panic!("it may not") };
    assert_eq!(refusal.to_string(), "user:3 may not see who is in b: no rule allows it");
    let clients =
        |world: &mut World, who| match ask(world, &ListQuery::Clients { after: ClientId(0), most: 9 }, user(who)) {
            Reply::Listing(Listing::Clients(page)) => page.items.iter().map(|one| one.client.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
    assert_eq!(clients(&mut world, 1), [1, 2, 9_000]);
    assert_eq!(clients(&mut world, 2), [2, 9_000], "its own identity's");
    assert_eq!(clients(&mut world, 3), [1, 9_000], "and whom it may see");
}

#[test]
fn names_and_numbers_of_connections_follow_from_who_one_is() {
    let mut world = World::new(1, Limits::default());
    let mut desk = limited("user:1", IdentityLimits { connections: Some(2), ..IdentityLimits::default() });
    desk.names = vec![Glob::new("desk-*")];
    allow(&mut world, 0, &[desk, rule("all", "*", &["*"], &Verb::ALL, &[])]);
    let connect = |world: &mut World, name, who| {
        let at = connect_as(world, name, user(who));
        told(world, at).last().cloned().unwrap_or_default()
    };
    assert_eq!(connect(&mut world, "bob", 1), "disconnect denied");
    assert_eq!(connect(&mut world, "desk-1", 1), "");
    assert_eq!(connect(&mut world, "desk-2", 2), "disconnect denied");
    assert_eq!(connect(&mut world, "desk-2", 1), "");
    assert_eq!(connect(&mut world, "desk-3", 1), "disconnect denied");
    assert_eq!(connect(&mut world, "bob", 2), "");
    world.vanish(1);
    world.settle();
    assert_eq!(connect(&mut world, "desk-3", 1), "");
    assert_eq!(world.counter(0, "sessions_ended_denied"), 3);
}

#[test]
fn the_groups_of_all_connections_of_one_identity_are_counted() {
    let mut world = World::new(1, Limits::default());
    allow(&mut world, 0, &[limited("user:1", IdentityLimits { groups: Some(3), ..IdentityLimits::default() })]);
    let (one, two) = (connect_as(&mut world, "one", user(1)), connect_as(&mut world, "two", user(1)));
    for name in ["a", "b"] {
        world.client(one).join(&group(name)).unwrap();
    }
    world.settle();
    told(&mut world, one);
    for name in ["a", "b", "c"] {
        world.client(two).join(&group(name)).unwrap();
    }
    world.settle();
    let text = "user:1 is in 3 groups; the rules allow it 3".to_owned();
    let refused = |number| (number, RefusalCause::TooManyGroups, text.clone());
    assert_eq!(refusals(&mut world, two), [refused(2), refused(3)]);
    world.client(one).leave(&group("b")).unwrap();
    world.settle();
    world.join(two, "c");
    assert_eq!(refusals(&mut world, two), []);
}

#[test]
fn who_sends_more_than_it_may_waits_and_loses_nothing() {
    let mut world = World::new(1, Limits::default());
    let rate = IdentityLimits { bytes_per_second: Some(20_000), ..IdentityLimits::default() };
    allow(&mut world, 0, &[limited("user:1", rate), rule("all", "*", &["*"], &Verb::ALL, &[])]);
    let (fast, free) = (connect_as(&mut world, "fast", user(1)), connect_as(&mut world, "free", user(2)));
    world.join(free, "g");
    told(&mut world, free);
    for n in 0..60 {
        world.multicast(fast, &["g"], &format!("{n:04}{}", "x".repeat(996)));
    }
    world.multicast(free, &["g"], "not held up");
    let began = world.now;
    world.settle();
    let before = told(&mut world, free);
    let passed = before.iter().filter(|line| line.contains("xxx")).count();
    assert!((19..=22).contains(&passed) && before.iter().any(|line| line.ends_with("not held up")), "{passed}");
    let mut seen = passed;
    while seen < 60 {
        let due = world.nodes[0].poll_timeout().unwrap();
        world.now = world.now.max(due) + Duration::from_millis(1);
        world.settle();
        seen += told(&mut world, free).iter().filter(|line| line.contains("xxx")).count();
        assert!(world.now.since(began) < Duration::from_secs(10), "{seen}");
    }
    let took = world.now.since(began);
    assert!(took > Duration::from_millis(1_700) && took < Duration::from_millis(2_500), "{took:?}");
    assert_eq!(world.client(fast).progress().ordered, 60);
}

#[test]
fn a_message_that_waits_for_its_turn_counts_once() {
    //= MP76 test
    let mut world = World::new(1, Limits::default());
    let rate = IdentityLimits { bytes_per_second: Some(20_000), ..IdentityLimits::default() };
    allow(&mut world, 0, &[limited("user:1", rate), rule("all", "*", &["*"], &Verb::ALL, &[])]);
    let stream = |(number, pattern): (u16, &str)| StreamGroups {
        stream: OrderStream(number),
        name: format!("ring {number}"),
        patterns: vec![pattern.to_owned()],
        global: false,
    };
    world.nodes[0].engine.filters = true;
    world.nodes[0].set_streams(GroupStreams::new([(1, "a*"), (2, "b*")].map(stream).into()));
    let fast = connect_as(&mut world, "fast", user(1));
    let began = world.now;
    for n in 0..60 {
        world.multicast(fast, &[["a1", "b1"][n % 2]], &"x".repeat(1_000));
    }
    while world.client(fast).progress().ordered < 60 {
        let due = world.nodes[0].poll_timeout().unwrap();
        world.now = world.now.max(due) + Duration::from_millis(1);
        world.settle();
        assert!(world.now.since(began) < Duration::from_millis(2_500), "{:?}", world.client(fast).progress());
    }
}

#[test]
fn rules_that_go_leave_everything_as_it_was() {
    let mut world = World::new(1, Limits::default());
    let ann = connect_as(&mut world, "ann", user(1));
    world.join(ann, "g");
    allow(&mut world, 0, &[rule("nobody", "user:9", &["*"], &Verb::ALL, &[])]);
    assert_eq!(told(&mut world, ann).last().unwrap(), "g leave ann -> ");
    allow(&mut world, 0, &[]);
    world.join(ann, "g");
    world.multicast(ann, &["g"], "free");
    world.settle();
    assert_eq!(told(&mut world, ann), ["g join ann -> ann", "n0/c1 g: free"]);
}

/// What time it is in the world when it begins, in seconds since 1970.
const UNIX: u64 = 1_800_000_000;

/// Connects over TCP from an address, perhaps with a token; returns the client and why it was sent away, if it was.
fn connect_showing(world: &mut World, token: Option<&str>) -> (usize, Option<DisconnectReason>) {
    let id = ClientId(world.programs.len() as u32 + 1);
    let identity = Identity::at([192, 0, 2, 1].into());
    let unix_seconds = UNIX + world.now.since(Instant::ZERO).as_secs();
    world.nodes[0].open_client_from(world.now, id, ClientOrigin { transport: Transport::Tcp, identity, unix_seconds });
    let client = ClientEnd::new(&Hello { token: token.map(str::to_owned), ..Hello::default() });
    world.programs.push(Program { node: 0, id, client, events: Vec::new(), paused: false, reads: true, closed: false });
    world.settle();
    let at = world.programs.len() - 1;
    (at, farewell(world, at))
}

fn farewell(world: &World, at: usize) -> Option<DisconnectReason> {
    match world.programs[at].events.last() {
        Some(DaemonEvent::Disconnect(farewell)) => Some(farewell.reason),
        _ => None,
    }
}

#[test]
fn who_has_to_prove_who_it_is_does_so_by_a_token_or_goes() {
    let mut world = World::new(1, Limits::default());
    let (given, line) = tokens::give("billing", &[7; 32]).unwrap();
    let text = format!("{line}{}", tokens::key_line(1, &[8; 32]));
    let known = Tokens::parse(&text).unwrap();
    let signed = |expires| tokens::sign(&known, "audit", expires).unwrap();
    let rules = vec![rule("tokens", "token:*", &["*"], &Verb::ALL, &[])];
    let held = |text: &str| ClientPolicy {
        rules: Rules::new(rules.clone()),
        tokens: Tokens::parse(text).unwrap(),
        tcp_proves: true,
    };
    let now = world.now;
    world.nodes[0].set_policy(now, held(&text));
    assert_eq!(connect_showing(&mut world, None).1, Some(DisconnectReason::Unproven));
    assert_eq!(connect_showing(&mut world, Some("secret")).1, Some(DisconnectReason::TokenMalformed));
    let forged = tokens::give("billing", &[9; 32]).unwrap().0;
    assert_eq!(connect_showing(&mut world, Some(&forged)).1, Some(DisconnectReason::TokenUnknown));
    assert_eq!(connect_showing(&mut world, Some(&signed(UNIX))).1, Some(DisconnectReason::TokenExpired));
    let (billing, no) = connect_showing(&mut world, Some(&given));
    assert_eq!(no, None);
    let (audit, no) = connect_showing(&mut world, Some(&signed(UNIX + 60)));
    assert_eq!(no, None);
    world.join(billing, "g");
    world.join(audit, "g");
    assert_eq!(told(&mut world, billing).len(), 2);
    // A signed one is good until it expires, also in the middle of a session.
    world.now = Instant::ZERO + Duration::from_secs(59);
    world.settle();
    assert_eq!(farewell(&world, audit), None);
    world.now = Instant::ZERO + Duration::from_secs(61);
    world.settle();
    assert_eq!(farewell(&world, audit), Some(DisconnectReason::TokenExpired));
    assert_eq!(told(&mut world, billing).len(), 1, "it sees the other one go");
    // One that is taken back ends its session; others stay.
    let (kept, no) = connect_showing(&mut world, Some(&signed(UNIX + 1_000)));
    assert_eq!(no, None);
    let (now, keyed) = (world.now, text.split_once('\n').unwrap().1.to_owned());
    world.nodes[0].set_policy(now, held(&keyed));
    world.drain(0);
    world.settle();
    assert_eq!((farewell(&world, billing), farewell(&world, kept)), (Some(DisconnectReason::TokenUnknown), None));
    for reason in ["unproven", "token_malformed", "token_expired"] {
        assert!(world.counter(0, &format!("sessions_ended_{reason}")) >= 1, "{reason}");
    }
}

#[test]
fn users_of_the_machine_are_proven_by_the_kernel() {
    let mut world = World::new(1, Limits::default());
    let now = world.now;
    world.nodes[0].set_policy(now, ClientPolicy { tcp_proves: true, ..ClientPolicy::default() });
    let near = connect_as(&mut world, "near", user(7));
    world.join(near, "g");
    assert_eq!(told(&mut world, near), ["g join near -> near"]);
}

#[test]
fn one_identity_leaves_connections_to_others() {
    let mut world = World::new(1, Limits { clients_most: 32, ..Limits::default() });
    let ended = |world: &World, at: usize| world.story(at).contains(&"disconnect denied".to_owned());
    let ann: Vec<_> = (0..31).map(|n| connect_as(&mut world, &format!("a{n}"), user(1))).collect();
    assert!(ann[..30].iter().all(|at| !ended(&world, *at)) && ended(&world, ann[30]));
    let Some(DaemonEvent::Disconnect(farewell)) = world.programs[ann[30]].events.last() else { panic!("no reason") };
    let text = "user:1 has 30 connections; one identity may have 30 at a daemon, unless `connections` of a rule says \
                otherwise";
    assert_eq!(farewell.text, text);
    let bob = connect_as(&mut world, "bob", user(2));
    assert!(!ended(&world, bob), "what was left free is another's");
    world.client(ann[0]).goodbye();
    world.settle();
    let again = connect_as(&mut world, "a0", user(1));
    assert!(!ended(&world, again), "one that is free again");
    assert_eq!(world.counter(0, "identity_connections_most"), 30);
}

#[test]
fn groups_that_an_identity_has_left_or_lost_count_no_more() {
    let mut world = World::new(1, Limits::default());
    let (ann, eve) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "eve", user(1)));
    allow(&mut world, 0, &[limited("user:1", IdentityLimits { groups: Some(2), ..IdentityLimits::default() })]);
    let held = |world: &World| world.counter(0, "identity_groups_most");
    for _ in 0..3 {
        world.join(ann, "g");
        world.join(eve, "g");
        world.join(eve, "h");
        assert_eq!((held(&world), refusals(&mut world, eve).len()), (2, 1), "no third one");
        world.join(ann, "g");
        world.client(eve).leave(&group("h")).unwrap();
        world.client(eve).leave(&group("g")).unwrap();
        world.settle();
        assert_eq!(held(&world), 1, "what had no effect counts nothing");
        world.client(ann).leave(&group("g")).unwrap();
        world.settle();
        assert_eq!(held(&world), 0);
        refusals(&mut world, eve);
    }
    world.join(eve, "g");
    world.vanish(eve);
    assert_eq!(held(&world), 0);
}

#[test]
fn to_close_a_group_and_to_keep_the_log_for_a_program_are_rights_of_their_own() {
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (connect_as(&mut world, "ann", user(1)), connect_as(&mut world, "bob", user(2)));
    let rules = [
        rule("most", "user:1", &["*"], &[Verb::Join, Verb::Send, Verb::Receive, Verb::See], &[]),
        rule("all", "user:2", &["*"], &Verb::ALL, &[]),
    ];
    allow(&mut world, 0, &rules);
    world.client(ann).join_closed(&group("g")).unwrap();
    world.settle();
    let text = "user:1 may not close g: no rule allows it".to_owned();
    assert_eq!(refusals(&mut world, ann), [(1, RefusalCause::Denied, text)]);
    world.client(bob).join_closed(&group("g")).unwrap();
    world.settle();
    assert_eq!(refusals(&mut world, bob), []);
    let holder: consort_types::Holder = "ledger/1".parse().unwrap();
    let from = consort_session::DeclareRequest { order: 0, holder, from: None, epoch: 0 };
    (0..3).for_each(|_| world.client(bob).declare(&from));
    world.client(ann).declare(&from);
    world.settle();
    let declared = &world.nodes[0].engine.declared;
    assert_eq!(declared.len(), 3, "those of one who may");
    let text =
        "declared ledger/1: denied, user:1 may not bind, declare or withdraw copies of ledger: no rule allows it";
    assert_eq!(world.story(ann).last().unwrap(), text);
}

/// A client sends as many messages as its credit allows, each alone, before any is ordered.
fn flood(world: &mut World, at: usize, count: usize) {
    (0..count).for_each(|n| world.multicast(at, &["g"], &n.to_string()));
}

#[test]
fn an_identity_has_no_more_under_way_than_its_share_while_another_one_asks() {
    let mut world = World::new(1, Limits::default());
    let eve: Vec<_> = (0..4).map(|n| connect_as(&mut world, &format!("e{n}"), user(1))).collect();
    let bob = connect_as(&mut world, "bob", user(2));
    world.join(bob, "g");
    let accepted = |world: &World| world.counter(0, "requests_accepted");
    world.now += Duration::from_millis(200);
    let before = accepted(&world);
    eve.iter().for_each(|at| flood(&mut world, *at, 1_500));
    // Bytes go to the node, and nothing is ordered yet.
    while eve.iter().any(|at| world.write(*at)) {}
    assert_eq!(accepted(&world) - before, 6_000, "no other asks: there is no bound");
    (0..12).for_each(|_| world.settle());
    told(&mut world, bob);
    let before = accepted(&world);
    flood(&mut world, bob, 1);
    assert!(world.write(bob));
    eve.iter().for_each(|at| flood(&mut world, *at, 1_500));
    while eve.iter().any(|at| world.write(*at)) {}
    let taken = accepted(&world) - before;
    assert!((1_000..1_100).contains(&taken), "{taken} of 6001");
    flood(&mut world, bob, 10);
    while world.write(bob) {}
    assert_eq!(accepted(&world) - before, taken + 10, "the other one goes on at once");
    for _ in 0..40 {
        world.settle();
    }
    assert_eq!(accepted(&world) - before, 6_011, "nothing is left");
    assert_eq!(told(&mut world, bob).len(), 6_011);
    assert_eq!(world.counter(0, "identity_under_way_most"), 0);
}

#[test]
fn what_a_connection_left_under_way_counts_for_a_moment_and_those_that_wait_go_on() {
    let mut world = World::new(1, Limits::default());
    let eve: Vec<_> = (0..3).map(|n| connect_as(&mut world, &format!("e{n}"), user(1))).collect();
    let bob = connect_as(&mut world, "bob", user(2));
    world.join(bob, "g");
    flood(&mut world, bob, 1);
    while world.write(bob) {}
    let accepted = |world: &World| world.counter(0, "requests_accepted");
    let before = accepted(&world);
    flood(&mut world, eve[0], 2_000);
    while world.write(eve[0]) {}
    flood(&mut world, eve[1], 100);
    assert!(world.write(eve[1]));
    assert!(world.programs[eve[1]].paused, "the first one has the share");
    world.vanish(eve[0]);
    flood(&mut world, eve[2], 100);
    let _ = world.write(eve[2]);
    assert!(accepted(&world) - before < 1_100, "what it left still counts");
    let late = world.now + Duration::from_millis(200);
    while world.now < late {
        world.settle();
    }
    assert_eq!(world.client(eve[1]).progress().ordered, 100);
    assert_eq!(world.client(eve[2]).progress().ordered, 100);
    assert_eq!(world.counter(0, "identity_under_way_most"), 0);
}

#[test]
fn joins_count_more_than_messages() {
    let mut world = World::new(1, Limits::default());
    let (eve, bob) = (connect_as(&mut world, "eve", user(1)), connect_as(&mut world, "bob", user(2)));
    world.join(bob, "g");
    flood(&mut world, bob, 1);
    while world.write(bob) {}
    let before = world.counter(0, "requests_accepted");
    for n in 0..100 {
        world.client(eve).join(&group(&format!("x{n}"))).unwrap();
    }
    while world.write(eve) {}
    assert_eq!(world.counter(0, "requests_accepted") - before, 32);
    (0..20).for_each(|_| world.settle());
    assert_eq!(world.counter(0, "groups"), 101);
    for n in 0..100 {
        world.client(eve).join(&group(&format!("x{n}"))).unwrap();
        world.client(eve).leave(&group(&format!("x{n}"))).unwrap();
        world.client(eve).leave(&group(&format!("y{n}"))).unwrap();
    }
    (0..40).for_each(|_| world.settle());
    assert_eq!(world.counter(0, "groups"), 1);
    assert_eq!(world.counter(0, "identity_under_way_most"), 0);
}

#[test]
fn requests_that_are_no_messages_are_answered_beside_a_client_that_sends() {
    let mut world = World::new(1, Limits::default());
    let (eve, bob) = (connect_as(&mut world, "eve", user(1)), connect_as(&mut world, "bob", user(2)));
    world.join(bob, "g");
    let holder: consort_types::Holder = "ledger/1".parse().unwrap();
    let from = consort_session::DeclareRequest { order: 5, holder, from: None, epoch: 0 };
    (0..2_000).for_each(|_| world.client(eve).declare(&from));
    let begun = world.now;
    while world.programs[eve].events.len() < 2_000 {
        flood(&mut world, bob, 1);
        world.carry();
        world.now += TICK;
        world.wake(0);
        world.carry();
        assert!(world.now.since(begun) < Duration::from_millis(200), "{}", world.programs[eve].events.len());
    }
}
