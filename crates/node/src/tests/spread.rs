//! Clients that speak Spread, beside native ones, at nodes without sockets.
use super::spread_client::{Client as Spread, Seen};
use super::*;
use consort_types::Duration;

const JOIN: u32 = 0x1_0000;
const AGREED: u32 = 0x10;
const REJECT: u32 = 0x40_0000;

/// A Spread client and its connection.
struct Visitor {
    node: usize,
    id: ClientId,
    client: Spread,
    private: String,
    reading: Reading,
}

impl World {
    /// Lets a Spread client in.
    fn visit(&mut self, node: usize, number: u32, name: &str) -> Visitor {
        let id = ClientId(number | ClientId::SPREAD);
        self.nodes[node].open_client(self.now, id);
        let mut said = vec![5, 0, 1, 1, name.len() as u8];
        said.extend(name.as_bytes());
        said.extend(b"NULL");
        said.resize(said.len() + 86, 0);
        let mut visitor = Visitor { node, id, client: Spread::new(""), private: String::new(), reading: Reading::Go };
        self.say(&mut visitor, said);
        let told = self.raw(&visitor);
        let private = String::from_utf8(told[11..].to_vec()).unwrap();
        assert!(name.is_empty() || private == format!("#{name}#n{node}"), "{private}");
        visitor.client = Spread::new(&private);
        visitor.private = private;
        visitor
    }

    fn say(&mut self, visitor: &mut Visitor, bytes: Vec<u8>) {
        visitor.reading = self.nodes[visitor.node].handle_client(self.now, visitor.id, bytes.into());
        self.drain(visitor.node);
        self.settle();
    }

    fn ask(&mut self, visitor: &mut Visitor, service: u32, groups: &[&str], data: &[u8]) {
        let frame = visitor.client.frame(service, groups, 7, data);
        self.say(visitor, frame);
    }

    fn raw(&mut self, visitor: &Visitor) -> Vec<u8> {
        let node = &mut self.nodes[visitor.node];
        let told: Vec<u8> = node.client_outputs(visitor.id).flatten().copied().collect();
        node.client_written(self.now, visitor.id, told.len());
        told
    }

    fn seen(&mut self, visitor: &Visitor) -> Vec<Seen> {
        let told = self.raw(visitor);
        visitor.client.read(&told)
    }
}

#[test]
fn a_batch_of_a_native_client_comes_to_a_spread_client_message_by_message() {
    //= G09 test
    let mut world = World::new(2, Limits::default());
    let nat = world.connect(1, "nat");
    let mut vis = world.visit(0, 9, "vis");
    world.ask(&mut vis, JOIN, &["g"], b"");
    world.seen(&vis);
    ["one", "", "three"].iter().for_each(|payload| world.send_as(nat, Service::Agreed, &["g"], payload));
    world.settle();
    let seen = world.seen(&vis);
    let told: Vec<_> = seen.iter().map(|seen| (seen.service, seen.sender.as_str(), &seen.data[..])).collect();
    assert_eq!(told, [(AGREED, "#nat#n1", &b"one"[..]), (AGREED, "#nat#n1", b""), (AGREED, "#nat#n1", b"three")]);
}

#[test]
fn a_message_reaches_both_kinds_of_clients_once_and_each_sees_the_others_name() {
    //= S23 test
    let mut world = World::new(2, Limits::default());
    let native = world.connect(1, "nat");
    world.join(native, "room");
    let mut visitor = world.visit(0, 9, "vis");
    world.ask(&mut visitor, JOIN, &["room"], b"");
    let seen = world.seen(&visitor);
    assert_eq!((seen[0].service, &seen[0].groups[..]), (0x1100, &["#vis#n0".to_owned(), "#nat#n1".into()][..]));
    world.ask(&mut visitor, 0x50, &["room", "#nat#n1"], b"hello");
    assert!(world.seen(&visitor).is_empty());
    let message = world.programs[native].events.iter().rev().find_map(|event| match event {
        DaemonEvent::Message(message) => Some(message.clone()),
        _ => None,
    });
    let message = message.unwrap();
    assert_eq!((message.payload(), message.service()), (&b"hello"[..], Service::Agreed));
    assert_eq!(message.groups().collect::<Vec<_>>(), ["room", "#nat#n1"]);
    world.multicast(native, &["room"], "back");
    world.settle();
    let [back] = &world.seen(&visitor)[..] else { panic!("one message") };
    assert_eq!((back.service, back.sender.as_str(), &back.data[..]), (AGREED, "#nat#n1", &b"back"[..]));
}

#[test]
fn who_does_not_read_is_sent_away_at_a_number_of_messages_if_so_configured() {
    //= S43 test
    let mut world = World::new(1, Limits { spread_messages: Some(3), ..Limits::default() });
    let mut visitor = world.visit(0, 9, "vis");
    let mut watcher = world.visit(0, 10, "wat");
    world.ask(&mut watcher, JOIN, &["room"], b"");
    world.ask(&mut visitor, JOIN, &["room"], b"");
    world.seen(&visitor);
    for _ in 0..3 {
        world.ask(&mut watcher, AGREED, &["room"], b"x");
        world.seen(&watcher);
    }
    assert_eq!(visitor.reading, Reading::Go);
    world.ask(&mut watcher, AGREED, &["room"], b"x");
    let seen = world.seen(&watcher);
    assert_eq!(seen.last().unwrap().service, 0x1400);
}

#[test]
fn what_goes_beyond_the_credit_waits_and_nothing_is_lost() {
    //= S20 test
    let mut world = World::new(2, Limits { credit: 500, ..Limits::default() });
    let mut visitor = world.visit(1, 9, "vis");
    world.ask(&mut visitor, JOIN, &["room"], b"");
    world.seen(&visitor);
    let frames: Vec<u8> = (0..50u8).flat_map(|i| visitor.client.frame(AGREED, &["room"], 7, &[i; 40])).collect();
    world.say(&mut visitor, frames);
    let seen = world.seen(&visitor);
    assert_eq!(seen.iter().map(|seen| seen.data[0]).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
}

#[test]
fn names_that_clients_did_not_choose_fit_and_may_be_chosen() {
    //= S04 test
    let mut world = World::new(2, Limits::default());
    // What a client chose is not given to another; numbers repeat once they have more than eight digits.
    let _seven = world.visit(0, 1, "c7");
    let numbers = [2, 7, 8, 100_000_008, 2_000_000_008, (1 << 31) - 1];
    let names: Vec<_> = numbers.iter().map(|number| world.visit(0, *number, "").private).collect();
    assert_eq!(names, ["#c2#n0", "#c8#n0", "#c9#n0", "#c10#n0", "#c11#n0", "#c47483647#n0"]);
    for (number, private) in (1..).zip(&names) {
        let name = private.split('#').nth(1).unwrap();
        assert!(name.len() <= 9, "Spread's programs keep room for ten bytes: {name}");
        assert_eq!(world.visit(1, number, name).private, format!("#{name}#n1"));
    }
    // Native clients, too, are let in where somebody else has chosen what would be theirs.
    world.visit(0, 3, "c1");
    world.connect(0, "");
    let native = world.nodes[0].groups().called("c3");
    assert_eq!(native, Some(ClientId(1)));
}

#[test]
fn a_thousand_clients_without_a_name_are_all_called_differently() {
    let mut world = World::new(1, Limits::default());
    // Across the end of the digits.
    let names: std::collections::BTreeSet<_> =
        (99_999_500..100_000_500).map(|number| world.visit(0, number, "").private).collect();
    assert_eq!(names.len(), 1_000);
    assert!(names.iter().all(|name| name.len() <= "#123456789#n0".len()), "{names:?}");
}

#[test]
fn a_spread_client_without_rights_is_rejected_and_one_with_some_is_held_to_them() {
    use consort_rights::{Glob, Identity, IdentityLimits, Rule, Rules, Verb};
    let rule = |who: &str, groups: &str, verbs: &[Verb], connections| Rule {
        name: who.to_owned(),
        who: vec![who.parse().unwrap()],
        groups: vec![Glob::new(groups)],
        allow: verbs.iter().copied().collect(),
        limits: IdentityLimits { connections, ..IdentityLimits::default() },
        ..Rule::default()
    };
    let mut world = World::new(1, Limits::default());
    let open = |world: &mut World, number: u32, address: [u8; 4]| {
        let (id, identity) = (ClientId(number | ClientId::SPREAD), Identity::at(address.into()));
        let origin = crate::ClientOrigin { transport: crate::Transport::Tcp, identity, unix_seconds: 0 };
        world.nodes[0].open_client_from(world.now, id, origin);
        let said = [&[5, 0, 1, 1, 3][..], b"eve", b"NULL", &[0; 86]].concat();
        let client = Spread::new("#eve#n0");
        let mut visitor = Visitor { node: 0, id, client, private: "#eve#n0".into(), reading: Reading::Go };
        world.say(&mut visitor, said);
        visitor
    };
    let rules = [rule("address:10.0.0.0/8", "g", &[Verb::Join], Some(9)), rule("tcp", "g", &[], Some(0))];
    let policy = crate::ClientPolicy { rules: Rules::new(rules.to_vec()), ..crate::ClientPolicy::default() };
    let now = world.now;
    world.nodes[0].set_policy(now, policy);
    let unlisted = open(&mut world, 5, [192, 0, 2, 1]);
    assert_eq!(world.raw(&unlisted).last(), Some(&(-9_i8 as u8)), "REJECT_AUTH");
    assert_eq!(world.counter(0, "sessions_ended_denied"), 1);
    let mut eve = open(&mut world, 6, [10, 1, 2, 3]);
    world.raw(&eve);
    world.ask(&mut eve, JOIN, &["g"], b"");
    world.ask(&mut eve, AGREED, &["g"], b"not allowed");
    world.ask(&mut eve, JOIN, &["h"], b"");
    let refused = world.counter(0, "requests_refused");
    assert_eq!((refused, world.nodes[0].groups().len()), (2, 1));
    let sent = |seen: &&Seen| seen.service & (AGREED | REJECT) == AGREED;
    assert_eq!(world.seen(&eve).iter().filter(sent).count(), 0, "it comes back as refused");
}

#[test]
fn a_message_that_never_becomes_whole_ends_its_session_in_time_and_a_slow_one_that_does_does_not() {
    let limits = Limits { frame_within: Duration::from_secs(1), ..Limits::default() };
    let mut world = World::new(1, limits);
    let (mut slow, mut never) = (world.visit(0, 9, "slow"), world.visit(0, 10, "never"));
    let frame = slow.client.frame(AGREED, &["g"], 7, &[1; 5_000]);
    let (first, second) = frame.split_at(2_000);
    world.say(&mut slow, first.to_vec());
    world.say(&mut slow, second.to_vec());
    let cut = never.client.frame(AGREED, &["g"], 7, &[1; 5_000]);
    world.say(&mut never, cut[..60].to_vec());
    let late = world.nodes[0].poll_timeout().unwrap();
    assert!(late <= world.now + Duration::from_secs(1), "it is looked for");
    world.now += Duration::from_secs(2);
    world.nodes[0].handle_timeout(world.now);
    world.settle();
    assert_eq!(world.counter(0, "messages_ordered"), 1);
    assert_eq!(world.counter(0, "sessions_ended_silent"), 1);
    world.ask(&mut slow, AGREED, &["g"], b"more");
    assert_eq!(world.counter(0, "messages_ordered"), 2);
}
