//! What is done about clients that do not read.
use super::*;
use crate::{SlowLimits, SlowPolicies, SlowPolicy, SlowRule};
use consort_session::{Place, SlowRequest, WaitNotice};
use consort_types::{Duration, OrderWait};

const KIB: usize = 1 << 10;

impl World {
    /// Does what is asked of the disk.
    pub(super) fn spool(&mut self, node: usize, effect: Effect) {
        let (now, Some(disk)) = (self.now, &mut self.disk) else {
            let (Effect::Spool { client, .. } | Effect::Unspool { client, .. } | Effect::DropSpool { client }) = effect
            else {
                return;
            };
            return self.nodes[node].handle_spool_failure(self.now, client, "no space left");
        };
        match effect {
            Effect::Spool { client, bytes } => {
                self.nodes[node].handle_spooled(now, client, bytes.len());
                disk.entry(client).or_default().push_back(bytes);
            }
            Effect::Unspool { client, len } => {
                let bytes = disk.get_mut(&client).and_then(VecDeque::pop_front).unwrap();
                assert_eq!(bytes.len(), len);
                self.nodes[node].handle_unspooled(now, client, bytes);
            }
            Effect::DropSpool { client } => drop(disk.remove(&client)),
            _ => {}
        }
    }

    fn on_disk(&self) -> usize {
        self.disk.iter().flatten().flat_map(|(_, blocks)| blocks).map(Bytes::len).sum()
    }

    /// A client reads until nothing is left, also on disk.
    pub(super) fn read_all(&mut self, at: usize) {
        let (id, node) = (self.programs[at].id, self.programs[at].node);
        self.programs[at].reads = true;
        for _ in 0..1_000 {
            self.read(id);
            self.drain(node);
        }
        self.settle();
    }

    pub(super) fn connect_slow(&mut self, node: usize, name: &str, slow: SlowRequest) -> usize {
        let hello = Hello { name: ClientName::new(name.as_bytes()), slow: Some(slow), ..Hello::default() };
        self.connect_with(node, ClientEnd::new(&hello))
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.settle();
        }
    }

    fn farewell(&self, at: usize) -> (consort_session::DisconnectReason, String) {
        match self.programs[at].events.last() {
            Some(DaemonEvent::Disconnect(farewell)) => (farewell.reason, farewell.text.clone()),
            other => panic!("still there: {other:?}"),
        }
    }

    fn status(&self, node: usize, key: &str) -> Option<String> {
        self.nodes[node].status().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

fn limits(slow: SlowLimits) -> Limits {
    Limits { slow, ..Limits::default() }
}

fn blocking() -> SlowLimits {
    let allowed = SlowPolicies::of(&[SlowPolicy::Block, SlowPolicy::Spool]);
    SlowLimits { block: 64 * KIB, block_for: Duration::from_secs(2), allowed, ..SlowLimits::default() }
}

/// Ann at node 0 sends to `g`, of which bob at node 1 is a member that does not read and has others wait.
fn blocked() -> (World, usize, usize) {
    let mut world = World::new(2, limits(blocking()));
    let (ann, bob) = (world.connect(0, "ann"), world.connect_slow(1, "bob", SlowPolicy::Block.into()));
    world.join(bob, "g");
    world.programs[bob].reads = false;
    for n in 0..40 {
        world.multicast(ann, &["g"], &format!("{n:04000}"));
        world.settle();
    }
    (world, ann, bob)
}

fn lines_of(world: &World, at: usize) -> Vec<usize> {
    let numbers = world.story(at).into_iter().filter_map(|line| line.rsplit_once(": ")?.1.parse().ok());
    numbers.collect()
}

#[test]
fn who_sends_to_a_group_waits_for_a_member_that_blocks_and_is_told_for_whom() {
    //= G61 test
    let (mut world, ann, bob) = blocked();
    let waiting = world.counter(1, "client_output_bytes");
    assert!((64..80).contains(&(waiting as usize / KIB)), "{waiting}");
    world.pass_time(Duration::from_millis(300));
    let cause = OrderWait::SlowClient(NodeId(1), world.programs[bob].id);
    let told = world.programs[ann].events.iter().rev().find_map(|event| match event {
        DaemonEvent::Waiting(WaitNotice { cause, .. }) => Some(*cause),
        _ => None,
    });
    assert_eq!(told, Some(cause));
    assert_eq!(world.status(0, "requests_wait_for"), Some(cause.to_string()));
    assert_eq!(world.status(0, "groups_wait_for"), Some("c2@n1".into()));
    let slow = world.status(1, "slow_clients").unwrap();
    assert!(slow.starts_with("#bob#n1 has its groups wait for "), "{slow}");
    assert_eq!((world.counter(0, "clients_held"), world.counter(1, "clients_holding")), (1, 1));
    world.read_all(bob);
    world.settle();
    assert_eq!(lines_of(&world, bob), (0..40).collect::<Vec<_>>(), "all of it, once, in order");
    assert_eq!((world.counter(0, "clients_held"), world.counter(1, "clients_holding")), (0, 0));
    assert_eq!(world.status(0, "groups_wait_for"), None);
}

#[test]
fn other_groups_go_on_while_one_waits() {
    let (mut world, ..) = blocked();
    let (carl, dora) = (world.connect(0, "carl"), world.connect(1, "dora"));
    world.join(dora, "h");
    (0..50).for_each(|n| world.multicast(carl, &["h"], &format!("{n:04000}")));
    world.settle();
    assert_eq!(lines_of(&world, dora).len(), 50);
    world.multicast(carl, &["h", "g"], "1");
    world.settle();
    assert_eq!((lines_of(&world, dora).len(), world.counter(0, "clients_held")), (50, 2), "one of its groups waits");
}

#[test]
fn a_private_message_to_one_that_blocks_waits_too() {
    let (mut world, ..) = blocked();
    let carl = world.connect(0, "carl");
    let bob = consort_session::Target::read(b"#bob#n1").unwrap();
    world.client(carl).multicast(Service::Agreed, &[bob], b"psst").unwrap();
    world.settle();
    assert_eq!(world.counter(0, "clients_held"), 2);
}

#[test]
fn nobody_waits_for_longer_than_the_budget_of_time() {
    let (mut world, ann, bob) = blocked();
    world.pass_time(Duration::from_millis(1_500));
    assert!(!world.programs[bob].closed);
    world.pass_time(Duration::from_millis(1_000));
    let (reason, text) = world.farewell(bob);
    assert_eq!(reason, consort_session::DisconnectReason::Slow);
    assert!(text.starts_with("those who send to its groups have waited for it to read for 2"), "{text}");
    assert!(text.contains(" 2000 are allowed"), "{text}");
    assert_eq!(world.programs[ann].client.progress().ordered, 40);
    assert_eq!(world.counter(0, "clients_held"), 0);
}

#[test]
fn who_blocks_and_vanishes_or_leaves_with_its_daemon_holds_up_nobody() {
    let (mut world, ann, bob) = blocked();
    let carl = world.connect(0, "carl");
    world.multicast(carl, &["g"], "from carl");
    world.settle();
    assert_eq!(world.counter(0, "clients_held"), 2);
    world.vanish(carl);
    assert_eq!(world.counter(0, "clients_held"), 1, "who waited and is gone waits no more");
    world.vanish(bob);
    world.settle();
    assert_eq!(world.programs[ann].client.progress().ordered, 40);
    let (mut world, ann, _) = blocked();
    let cause = consort_types::ViewCause::Started;
    world.nodes[0].engine.install(vec![member(0)], cause);
    world.settle();
    assert!(world.status(0, "groups_wait_for").is_none(), "what the other daemon said is forgotten");
    assert_eq!(world.programs[ann].client.progress().ordered, 40);
}

#[test]
fn in_a_new_view_it_is_said_again_who_blocks() {
    //= G62 test
    let (mut world, ann, _) = blocked();
    for node in 0..2 {
        world.nodes[node].engine.install(vec![member(0), member(1)], consort_types::ViewCause::Started);
        world.drain(node);
    }
    world.settle();
    assert_eq!(world.status(0, "groups_wait_for"), Some("c2@n1".into()));
    world.multicast(ann, &["g"], "one more");
    world.settle();
    assert_eq!(world.counter(0, "clients_held"), 1);
}

#[test]
fn what_a_client_does_not_read_goes_to_disk_and_comes_back_in_order() {
    //= G63 test
    let slow = SlowLimits { policy: SlowPolicy::Spool, spool_from: 64 * KIB, ..SlowLimits::default() };
    let mut world = World::new(1, Limits { output_max: 2 << 20, ..limits(slow) });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    world.programs[bob].reads = false;
    for n in 0..2_000 {
        world.multicast(ann, &["g"], &format!("{n:04000}"));
        if n % 50 == 0 {
            world.settle();
        }
    }
    world.settle();
    let (memory, spooled) = (world.counter(0, "client_output_memory_bytes"), world.counter(0, "client_spooled_bytes"));
    assert!(memory < 1 << 20 && spooled > 7 << 20, "{memory} in memory, {spooled} on disk");
    assert_eq!(spooled as usize, world.on_disk());
    assert!(world.status(0, "slow_clients").unwrap().contains("#bob#n0 reads nothing"));
    world.read_all(bob);
    assert_eq!(lines_of(&world, bob), (0..2_000).collect::<Vec<_>>());
    assert_eq!((world.counter(0, "client_spooled_bytes"), world.on_disk()), (0, 0));
    assert!(world.disk.as_ref().unwrap().is_empty() && world.counter(0, "client_output_memory_bytes") == 0);
    world.multicast(ann, &["g"], "2000");
    world.settle();
    assert_eq!(lines_of(&world, bob).last(), Some(&2_000), "and goes on as before");
}

#[test]
fn a_client_that_reads_now_and_then_is_told_all_in_order_while_more_comes() {
    let slow = SlowLimits { policy: SlowPolicy::Spool, spool_from: 64 * KIB, ..SlowLimits::default() };
    let mut world = World::new(1, limits(slow));
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(bob, "g");
    world.programs[bob].reads = false;
    let (id, mut rng) = (world.programs[bob].id, consort_types::Rng::new(5));
    for n in 0..3_000 {
        let width = rng.between(1, 9_000) as usize;
        world.multicast(ann, &["g"], &format!("{n:0width$}"));
        if n % 10 == 0 {
            world.settle();
        }
        if rng.below(20) == 0 {
            let take = rng.below(600_000) as usize;
            let some = Bytes::copy_from_slice(world.nodes[0].client_output(id));
            let some = some.slice(..take.min(some.len()));
            let now = world.now;
            world.nodes[0].client_written(now, id, some.len());
            world.program(id).client.feed(some);
            world.drain(0);
        }
    }
    world.read_all(bob);
    assert_eq!(lines_of(&world, bob), (0..3_000).collect::<Vec<_>>());
    assert_eq!(world.on_disk(), 0);
}

#[test]
fn a_disk_that_is_full_or_beyond_the_budget_ends_the_session_with_that_reason() {
    let slow = SlowLimits { policy: SlowPolicy::Spool, spool_from: 64 * KIB, spool: 1 << 20, ..SlowLimits::default() };
    let flood = |world: &mut World| {
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        world.join(bob, "g");
        world.programs[bob].reads = false;
        for n in 0..500 {
            world.multicast(ann, &["g"], &format!("{n:04000}"));
            world.settle();
        }
        assert_eq!(world.programs[ann].client.progress().ordered, 500, "nobody waited");
        assert_eq!((world.counter(0, "client_spooled_bytes"), world.on_disk()), (0, 0));
        world.farewell(bob)
    };
    let mut full = World::new(1, limits(slow));
    full.disk = None;
    let (reason, text) = flood(&mut full);
    assert_eq!(reason, consort_session::DisconnectReason::SpoolFailed);
    assert_eq!(text, "what this client has yet to read cannot be kept on disk: no space left");
    let (reason, text) = flood(&mut World::new(1, limits(slow)));
    assert_eq!(reason, consort_session::DisconnectReason::Slow);
    assert!(text.ends_with("bytes wait on disk to be read; this daemon keeps 1048576 there for one"), "{text}");
    let (_, text) = flood(&mut World::new(1, limits(SlowLimits { spool: 1 << 30, spools: 1 << 20, ..slow })));
    assert!(text.ends_with("to be read by all clients; this daemon keeps 1048576 there"), "{text}");
}

#[test]
fn who_reads_nothing_for_too_long_is_sent_away() {
    let slow = SlowLimits { unread_for: Some(Duration::from_secs(3)), ..SlowLimits::default() };
    let mut world = World::new(1, limits(slow));
    let short = SlowRequest { time: Some(Duration::from_secs(1)), ..SlowPolicy::Disconnect.into() };
    let (ann, bob, eve) = (world.connect(0, "ann"), world.connect(0, "bob"), world.connect_slow(0, "eve", short));
    for at in [bob, eve] {
        world.join(at, "g");
        world.programs[at].reads = false;
    }
    world.multicast(ann, &["g"], "one");
    world.settle();
    for at in [bob, eve] {
        let (now, id) = (world.now, world.programs[at].id);
        world.nodes[0].client_written(now, id, 0);
    }
    world.pass_time(Duration::from_millis(1_200));
    assert_eq!((world.programs[bob].closed, world.programs[eve].closed), (false, true), "eve asked for that");
    world.pass_time(Duration::from_millis(1_000));
    assert!(world.status(0, "slow_clients").unwrap().starts_with("#bob#n0 reads nothing for "));
    let (now, id) = (world.now, world.programs[bob].id);
    let byte = Bytes::copy_from_slice(&world.nodes[0].client_output(id)[..1]);
    world.nodes[0].client_written(now, id, 1);
    world.program(id).client.feed(byte);
    world.pass_time(Duration::from_millis(2_500));
    assert!(!world.programs[bob].closed, "it has read a byte");
    world.pass_time(Duration::from_millis(1_000));
    let (reason, text) = world.farewell(bob);
    assert_eq!(reason, consort_session::DisconnectReason::Slow);
    assert!(text.starts_with("it has read nothing for 3") && text.contains(" 3000 are allowed"), "{text}");
}

#[test]
fn a_policy_that_is_not_allowed_is_refused_with_those_that_are() {
    //= G60 test
    let mut world = World::new(1, Limits::default());
    let bob = world.connect_slow(0, "bob", SlowPolicy::Block.into());
    let (reason, text) = world.farewell(bob);
    assert_eq!(reason, consort_session::DisconnectReason::NotAllowed);
    assert!(text.contains("the slow policy block, only for disconnect, spool, demote; "), "{text}");
    let again = world.connect(0, "bob");
    world.join(again, "g");
    assert_eq!(world.story(again).len(), 1, "the name is free");
}

#[test]
fn what_is_said_of_a_group_holds_for_members_that_ask_for_nothing() {
    //= G60 test
    let mut world = World::new(1, limits(blocking()));
    let rule = SlowRule { pattern: "ledger*".into(), policy: SlowPolicy::Block };
    world.nodes[0].clients.say_of_groups(vec![rule]);
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    let eve = world.connect_slow(0, "eve", SlowPolicy::Spool.into());
    for at in [bob, eve] {
        world.join(at, "ledger.1");
        world.join(at, "news");
        world.programs[at].reads = false;
    }
    for n in 0..30 {
        world.multicast(ann, &["news"], &format!("{n:04000}"));
        world.settle();
    }
    assert_eq!(world.programs[ann].client.progress().ordered, 30, "nothing is said of news");
    world.multicast(ann, &["ledger.1"], "31");
    world.settle();
    assert_eq!(world.counter(0, "clients_held"), 1);
    world.read_all(bob);
    assert_eq!(world.programs[ann].client.progress().ordered, 31, "eve asked for something else");
}

/// Bob with this policy is a member of `g` and reads `h`, stops, and goes on after so many messages to both. Returns the
/// world, how many of `g` were ordered while it stopped, and its index.
fn member_that_reads(slow: SlowRequest) -> (World, u64, usize) {
    let allowed = SlowPolicies::of(SlowPolicy::ALL);
    let mut world = World::new(1, limits(SlowLimits { spool_from: 100 * KIB, allowed, ..blocking() }));
    let (ann, carl) = (world.connect(0, "ann"), world.connect(0, "carl"));
    let bob = world.connect_slow(0, "bob", slow);
    world.join(bob, "g");
    world.client(bob).read(0, Place::at(0), &[group("h")]);
    world.settle();
    world.programs[bob].reads = false;
    for n in 0..60 {
        world.multicast(ann, &["g"], &format!("{n:04000}"));
        world.multicast(carl, &["h"], &format!("{n:04000}"));
        world.settle();
    }
    assert_eq!(world.programs[carl].client.progress().ordered, 60, "nobody waits for a reader");
    let ordered = world.programs[ann].client.progress().ordered;
    world.read_all(bob);
    world.settle();
    (world, ordered, bob)
}

/// The numbers that a reader was told, and the place of the last.
fn read_of(world: &World, at: usize) -> (Vec<usize>, u64) {
    let placed = world.programs[at].events.iter().filter_map(|event| match event {
        DaemonEvent::Read(message) => {
            let number = std::str::from_utf8(message.payload()).ok()?.parse::<usize>().ok()?;
            Some((number, message.placement()?.place.position))
        }
        _ => None,
    });
    let (numbers, places): (Vec<_>, Vec<_>) = placed.unzip();
    (numbers, places.last().copied().unwrap_or_default())
}

#[test]
fn a_member_that_also_reads_by_position_loses_nothing_of_either_where_it_is_kept() {
    //= G64 test
    let all: Vec<_> = (0..60).collect();
    for (policy, goes_on) in [(SlowPolicy::Spool, true), (SlowPolicy::Block, false)] {
        let (world, ordered, bob) = member_that_reads(policy.into());
        assert_eq!(ordered == 60, goes_on, "{policy}: {ordered} were ordered meanwhile");
        assert_eq!((lines_of(&world, bob), read_of(&world, bob).0), (all.clone(), all.clone()), "{policy}");
        assert_eq!((world.on_disk(), world.counter(0, "client_spooled_bytes")), (0, 0));
    }
}

#[test]
fn one_that_is_sent_away_reads_on_from_the_last_place_that_it_has() {
    let asked = SlowRequest { bytes: 100 << 10, ..SlowPolicy::Disconnect.into() };
    let (mut world, ordered, bob) = member_that_reads(asked);
    assert_eq!((ordered, world.farewell(bob).0), (60, consort_session::DisconnectReason::Slow));
    let (mut numbers, last) = read_of(&world, bob);
    assert!(numbers.len() < 60, "{numbers:?}");
    let again = world.connect(0, "bob");
    world.client(again).read(0, Place::at(last + 1), &[group("h")]);
    (0..50).for_each(|_| world.settle());
    numbers.extend(read_of(&world, again).0);
    assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "each once");
}
