//! A program that keeps a state in copies, and never makes checkpoints: its senders wait, and what is held back says so.
use crate::support::{self, Daemon, World};
use consort::{
    Address, BindRefusalCause, Binding, Bound, Client, ConnectOptions, Copies, DeclareRefusalCause, Error, Event,
    GroupName, Holder, Position, Service, WaitCause,
};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// The least that can be retained; the budget is four times as much.
const RETAIN: usize = 1 << 20;
const LEN: usize = 60_000;

struct Stage {
    world: World,
    daemons: Vec<Daemon>,
    file: String,
    group: GroupName,
}

impl Stage {
    fn new(more: &str) -> Self {
        let world = World::new();
        let ports = [1, 2, 3].map(|_| support::free_port());
        let node = |(id, port)| format!("\n[[node]]\nid = {id}\naddress = \"127.0.0.1:{port}\"\n");
        let nodes: String = (1..).zip(ports).map(node).collect();
        let cluster = &world.cluster;
        let head = format!("cluster = \"{cluster}\"\nprotocol = \"paxos\"\n\n[paxos]\nretain = {RETAIN}\n{more}");
        let file = world.write("three.toml", &(head + &nodes));
        let mut stage = Self { world, daemons: Vec::new(), file, group: GroupName::new("kv.main.1").unwrap() };
        stage.start();
        stage
    }

    fn start(&mut self) {
        let start = |node: &&str| self.world.daemon_as(&["daemon", "--config", &self.file, "--node", node]);
        self.daemons = ["1", "2", "3"].iter().map(start).collect();
    }

    fn connect(&self, node: u16) -> Client {
        Client::connect(&Address::Unix(self.world.socket_path(node)), &ConnectOptions::default()).unwrap()
    }

    /// Waits until it says all this: disks that hang for a second come first, with another cause to wait.
    fn explains(&self, node: &str, words: &[&str]) {
        support::wait_until(&format!("node {node} explains {words:?}"), || {
            let story = self.world.run(&["explain", "--node", node]).out;
            words.iter().all(|words| story.contains(words))
        });
    }

    fn copy(&self, copy: u16) -> Holder {
        Holder::of_group(&self.group, copy)
    }

    /// A copy that starts with nothing.
    fn binding(&self, copy: u16, replaces: u64) -> Binding {
        Binding {
            order: 0,
            holder: self.copy(copy),
            token: u128::from(copy),
            replaces,
            from: Position(1),
            copies: 3,
            label: format!("s{copy} at 10.0.0.{copy}"),
        }
    }

    /// Sends to the group until it has to wait for long; how many went.
    fn fill(&self, client: &mut Client) -> usize {
        let (message, within) = (vec![7; LEN], Duration::from_secs(2));
        let (deadline, mut sent) = (Instant::now() + PATIENCE, 0);
        loop {
            match client.multicast_within(Service::Agreed, std::slice::from_ref(&self.group), &message, within) {
                Ok(_) => sent += 1,
                Err(Error::TimedOut { cause: Some(WaitCause::Retention) }) => return sent,
                // A disk that hangs makes it wait, too.
                Err(Error::TimedOut { .. }) => {}
                other => panic!("message {sent}: {other:?}"),
            }
            assert!(Instant::now() < deadline, "what waits after {sent} messages does not wait for a copy");
        }
    }

    /// Whether other groups are sent to as ever.
    fn others_go_on(&self, node: &str) -> bool {
        self.world.run(&["send", "--node", node, "--group", "other", "--timeout", "20s", "hello"]).code == 0
    }

    fn goes_on(&self, client: &mut Client) {
        client.multicast_within(Service::Agreed, std::slice::from_ref(&self.group), &vec![7; LEN], PATIENCE).unwrap();
        client.wait_ordered(PATIENCE).unwrap();
    }
}

fn copies(client: &mut Client, holder: &Holder) -> Copies {
    // A daemon that has just started knows no order yet.
    loop {
        client.ask_copies(holder).unwrap();
        let copies = next(client, |event| if let Event::Copies(copies) = event { Some(copies) } else { None });
        if copies.order != 0 || !copies.lasts {
            return copies;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn bind(client: &mut Client, binding: &Binding) -> Bound {
    client.bind(binding).unwrap();
    next(client, |event| if let Event::Bound(bound) = event { Some(bound) } else { None })
}

/// Why a checkpoint was not taken, if it was not.
fn declare(client: &mut Client, holder: &Holder, epoch: u64, order: u64, from: u64) -> Option<DeclareRefusalCause> {
    client.declare_bound(holder, epoch, order, Position(from)).unwrap();
    let status = next(client, |event| if let Event::Declared(status) = event { Some(status) } else { None });
    assert_eq!(status.holder, *holder);
    status.refused.map(|refusal| refusal.cause)
}

fn next<T>(client: &mut Client, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let event = client.receive(deadline - Instant::now()).unwrap().expect("an answer");
        if let Some(found) = wanted(event) {
            return found;
        }
    }
}

#[test]
fn senders_wait_for_copies_that_keep_nothing() {
    //= X107 test
    //= G72 test
    let mut stage = Stage::new("");
    let mut store = stage.connect(1);
    let empty = copies(&mut store, &stage.copy(1));
    assert!(empty.lasts && empty.order != 0 && (empty.copies, empty.voters) == (0, 3), "{empty:?}");
    let epochs = [1, 2].map(|copy| bind(&mut store, &stage.binding(copy, 0)).outcome.unwrap());
    let mut sender = stage.connect(2);
    let sent = stage.fill(&mut sender);
    assert!(sent * LEN > 3 * RETAIN, "{sent}");
    assert!(stage.others_go_on("2"), "senders to other groups wait, too");
    let expected = [
        "Requests of its clients wait: retention.",
        "wait until copies of kv.main.1 make checkpoints",
        "kv.main.1/2 (s2 at 10.0.0.2) lacks ",
        "1 of 3 copies were never bound and lack all",
    ];
    stage.explains("2", &expected);
    // All daemons are killed, and nothing is forgotten.
    stage.daemons.clear();
    stage.start();
    let mut store = stage.connect(3);
    let kept = copies(&mut store, &stage.copy(3));
    assert_eq!(
        kept.seats.iter().map(|seat| (seat.epoch, seat.token)).collect::<Vec<_>>(),
        [(epochs[0], 1), (epochs[1], 2)]
    );
    assert!(kept.order == empty.order && kept.began > empty.last && kept.first <= kept.began, "{kept:?}");
    assert!(kept.held > kept.budget / 2, "a copy sees that a checkpoint is due: {} of {}", kept.held, kept.budget);
    let (last, order) = (kept.last.0, kept.order);
    let mut sender = stage.connect(2);
    stage.fill(&mut sender);
    assert_eq!(declare(&mut store, &stage.copy(1), epochs[0], order, last), None);
    // One of three keeps it.
    stage.explains("3", &["make checkpoints"]);
    assert_eq!(declare(&mut store, &stage.copy(2), epochs[1] + 1, order, last), Some(DeclareRefusalCause::Superseded));
    assert_eq!(declare(&mut store, &stage.copy(2), epochs[1], order + 1, last), Some(DeclareRefusalCause::OtherOrder));
    assert_eq!(declare(&mut store, &stage.copy(2), epochs[1], order, last), None);
    stage.goes_on(&mut sender);
    // Without the two only the one is left that was never bound, so nothing but its withdrawal helps.
    stage.fill(&mut sender);
    for copy in [1, 2] {
        let withdrawn = stage.world.run(&["withdraw", stage.copy(copy).as_str(), "--node", "1"]);
        assert_eq!((withdrawn.code, withdrawn.errors.as_str()), (0, ""));
    }
    stage.explains("2", &["kv.main.1/1 was withdrawn"]);
    let withdrawn = stage.world.run(&["withdraw", stage.copy(3).as_str(), "--node", "3"]);
    assert_eq!((withdrawn.code, withdrawn.errors.as_str()), (0, ""));
    stage.goes_on(&mut sender);
    assert_eq!(copies(&mut store, &stage.copy(1)).copies, 0, "the program is forgotten");
}

#[test]
fn a_binding_is_refused_in_words() {
    //= X102 test
    //= G71 test
    let stage = Stage::new("");
    let mut store = stage.connect(1);
    let epoch = bind(&mut store, &stage.binding(1, 0)).outcome.unwrap();
    let why = |bound: Bound| bound.outcome.unwrap_err();
    let again = Binding { token: 77, ..stage.binding(1, 0) };
    let superseded = why(bind(&mut stage.connect(2), &again));
    assert_eq!(superseded.cause, BindRefusalCause::Superseded);
    assert!(superseded.text.contains("is bound again since, by s1 at 10.0.0.1, with epoch"), "{superseded}");
    assert_eq!(bind(&mut stage.connect(3), &stage.binding(1, 0)).outcome, Ok(epoch), "its own, at another daemon");
    let other = why(bind(&mut store, &Binding { copies: 5, ..stage.binding(2, 0) }));
    assert!(other.cause == BindRefusalCause::SeatsTaken && other.text.contains("has 3 copies"), "{other}");
    let order = why(bind(&mut store, &Binding { order: 1, ..stage.binding(2, 0) }));
    assert_eq!(order.cause, BindRefusalCause::OtherOrder);
    let memory = World::new();
    let _daemon = memory.daemon(&["--nodes", "1", "--node", "1"]);
    let mut client = Client::connect(&Address::Unix(memory.socket_path(1)), &ConnectOptions::default()).unwrap();
    assert!(!copies(&mut client, &stage.copy(1)).lasts);
    assert_eq!(why(bind(&mut client, &stage.binding(1, 0))).cause, BindRefusalCause::Unsupported);
}

#[test]
fn with_let_go_nobody_waits_and_the_status_says_what_is_lost() {
    //= X107 test
    let stage = Stage::new("on_budget = \"let_go\"\n");
    let mut store = stage.connect(1);
    bind(&mut store, &stage.binding(1, 0)).outcome.unwrap();
    let mut sender = stage.connect(2);
    for _ in 0..5 * RETAIN / LEN {
        let group = std::slice::from_ref(&stage.group);
        sender.multicast_within(Service::Agreed, group, &vec![7; LEN], PATIENCE).unwrap();
    }
    sender.wait_ordered(PATIENCE).unwrap();
    stage.explains("1", &["so that a stop of everything may lose it"]);
}
