//! One of five receivers stops reading, under each policy.

use crate::support::{self, Daemon, World};
use consort::{
    Address, Client, ConnectOptions, Disconnect, DisconnectReason, Error, Event, GroupName, ReadingStatus, Service,
    SlowPolicy, SlowRequest, WaitCause,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LEN: usize = 8 << 10;
/// So many are sent, 80 MiB; the slow one stops after so many.
const ALL: u64 = 10_000;
const STOPS_AT: u64 = 300;
/// What may wait for a client, and what a daemon takes beside that: its packets, messages, and itself.
const OUTPUT: u64 = 16 << 20;
const AT_REST: u64 = 128 << 20;

/// The message with this number: its number, what follows from that, and a checksum of both.
fn message(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..LEN as u64 - 12).map(|at| (number.wrapping_mul(31).wrapping_add(at * 7)) as u8));
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_be_bytes());
    bytes
}

/// The number of a message that is as it was sent.
fn number_of(payload: &[u8]) -> u64 {
    assert_eq!(payload.len(), LEN);
    let (body, sum) = payload.split_at(LEN - 4);
    assert_eq!(crc32fast::hash(body).to_be_bytes(), sum, "a message is not as it was sent");
    u64::from_be_bytes(*body.first_chunk().unwrap())
}

/// Reads on until all has come, or the daemon sends it away. Every message must be the next one.
fn read_on(client: &mut Client, got: &AtomicU64, until: u64) -> Option<Disconnect> {
    let mut gap = false;
    while got.load(Ordering::Relaxed) < until {
        match client.receive(PATIENCE) {
            Ok(Some(Event::Message(message))) => {
                assert_eq!(number_of(message.payload()), got.load(Ordering::Relaxed), "the next one, once, in order");
                got.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(Event::Reading(ReadingStatus::Gap { .. }))) => gap = true,
            Ok(Some(Event::Read(message))) => {
                let (number, wanted) = (number_of(message.payload()), got.load(Ordering::Relaxed));
                assert!(number == wanted || number > wanted && std::mem::take(&mut gap), "{number} behind {wanted}");
                got.store(number + 1, Ordering::Relaxed);
            }
            Ok(Some(_)) => {}
            Ok(None) => panic!("nothing comes after {} messages", got.load(Ordering::Relaxed)),
            Err(Error::Disconnected { farewell, .. }) => return Some(farewell),
            Err(other) => panic!("{other}"),
        }
    }
    None
}

struct Receiver {
    got: Arc<AtomicU64>,
    thread: JoinHandle<Option<Disconnect>>,
}

/// Five receivers at node 1, of which the last is slow, and what it is to do.
struct Stage {
    world: World,
    daemons: Vec<Daemon>,
    receivers: Vec<Receiver>,
    go_on: mpsc::Sender<()>,
    sender: JoinHandle<()>,
    causes: Arc<std::sync::Mutex<Vec<WaitCause>>>,
}

fn connect(world: &World, node: u16, options: &ConnectOptions) -> Client {
    Client::connect(&Address::Unix(world.socket_path(node)), options).unwrap()
}

fn receiver(world: &World, options: &ConnectOptions, stops: Option<mpsc::Receiver<()>>) -> Receiver {
    let mut client = connect(world, 1, options);
    client.join(&GroupName::new(b"feed").unwrap()).unwrap();
    while !matches!(client.receive(PATIENCE).unwrap().expect("a group view"), Event::GroupView(_)) {}
    let got = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&got);
    let thread = std::thread::spawn(move || {
        if let Some(go_on) = stops {
            assert_eq!(read_on(&mut client, &count, STOPS_AT), None);
            go_on.recv().unwrap();
        }
        read_on(&mut client, &count, ALL)
    });
    Receiver { got, thread }
}

impl Stage {
    fn new(slow: SlowRequest) -> Self {
        let world = World::new();
        let output = OUTPUT.to_string();
        let daemons = world.daemons(2, &["--slow", "block", "--client-output", &output]);
        let patient = ConnectOptions::default().slow(SlowPolicy::Disconnect);
        let mut receivers: Vec<_> = (0..4).map(|_| receiver(&world, &patient, None)).collect();
        let (go_on, told) = mpsc::channel();
        let options = ConnectOptions::default().called("slow").unwrap().slow(slow);
        receivers.push(receiver(&world, &options, Some(told)));
        let mut client = connect(&world, 2, &ConnectOptions::default());
        let causes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&causes);
        let sender = std::thread::spawn(move || {
            let group = GroupName::new(b"feed").unwrap();
            for number in 0..ALL {
                let message = message(number);
                let within = Duration::from_millis(50);
                loop {
                    match client.multicast_within(Service::Agreed, std::slice::from_ref(&group), &message, within) {
                        Ok(_) => break,
                        Err(Error::TimedOut { cause }) => seen.lock().unwrap().extend(cause),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            client.wait_ordered(PATIENCE).unwrap();
        });
        Self { world, daemons, receivers, go_on, sender, causes }
    }

    fn got(&self, receiver: usize) -> u64 {
        self.receivers[receiver].got.load(Ordering::Relaxed)
    }

    fn others_have_all(&self) -> bool {
        (0..4).all(|at| self.got(at) == ALL)
    }

    fn counter(&self, node: u16, name: &str) -> u64 {
        let mut client = connect(&self.world, node, &ConnectOptions::default());
        client.status(PATIENCE).unwrap().counter(name).unwrap_or(0)
    }

    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemons[0].id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The slow client as `consort clients` lists it.
    fn listed(&self) -> serde_json::Value {
        let ran = self.world.run(&["clients", "--node", "1", "--json"]).out;
        let all: Vec<serde_json::Value> = serde_json::from_str(&ran).unwrap();
        all.into_iter().find(|client| client["name"] == "slow").unwrap_or_default()
    }

    /// Lets everybody come to an end; returns what the slow one was told, if it was sent away, and how much it has.
    fn end(self) -> (Option<Disconnect>, u64) {
        let _may_have_gone_on = self.go_on.send(());
        self.sender.join().unwrap();
        let mut told: Vec<_> = self
            .receivers
            .into_iter()
            .map(|one| (one.thread.join().unwrap(), one.got.load(Ordering::Relaxed)))
            .collect();
        let slow = told.pop().unwrap();
        assert!(told.iter().all(|(farewell, got)| farewell.is_none() && *got == ALL), "{told:?}");
        slow
    }
}

#[test]
fn one_that_is_disconnected_stops_nobody_and_is_told_why() {
    let stage = Stage::new(SlowPolicy::Disconnect.into());
    support::wait_until("the others have all", || stage.others_have_all());
    assert!(stage.got(4) < ALL);
    let resident = stage.resident();
    assert!(resident < AT_REST + OUTPUT, "{resident}");
    assert_eq!(stage.counter(1, "sessions_ended_slow"), 1);
    let (farewell, got) = stage.end();
    let farewell = farewell.expect("it was sent away");
    assert_eq!(farewell.reason, DisconnectReason::Slow);
    assert!(farewell.text.contains("bytes wait to be read; this daemon keeps 16777216"), "{}", farewell.text);
    assert!((STOPS_AT..ALL).contains(&got), "{got}");
}

#[test]
fn one_that_is_spooled_for_stops_nobody_and_reads_all_later() {
    let stage = Stage::new(SlowPolicy::Spool.into());
    support::wait_until("the others have all", || stage.others_have_all());
    let (spooled, resident) = (stage.counter(1, "client_spooled_bytes"), stage.resident());
    assert!(stage.got(4) < ALL / 2 && spooled > 40 << 20, "{} read, {spooled} spooled", stage.got(4));
    assert!(resident < AT_REST + OUTPUT, "{resident}");
    let listed = stage.listed();
    assert_eq!((&listed["slow"], listed["spooled_bytes"].as_u64()), (&"spool".into(), Some(spooled)));
    let story = stage.world.run(&["explain", "--node", "1"]).out;
    assert!(story.contains("Slow clients: #slow#n1 reads nothing for "), "{story}");
    stage.go_on.send(()).unwrap();
    support::wait_until("the slow one has all, too", || stage.got(4) == ALL);
    assert_eq!((stage.counter(1, "client_spooled_bytes"), stage.counter(1, "clients_unread")), (0, 0));
    let kept = std::fs::read_dir(stage.world.path("state/consort").join(&stage.world.cluster).join("node-1.spool"));
    assert_eq!(kept.map(Iterator::count).unwrap_or(0), 0, "no file is left");
    let (farewell, got) = stage.end();
    assert_eq!((farewell, got), (None, ALL));
}

#[test]
fn one_that_is_demoted_stops_nobody_and_reads_on_what_is_retained() {
    //= G65 test
    let stage = Stage::new(SlowPolicy::Demote.into());
    support::wait_until("the others have all", || stage.others_have_all());
    assert!(stage.got(4) < ALL / 2 && stage.resident() < AT_REST + 2 * OUTPUT, "{} read", stage.got(4));
    assert_eq!((stage.counter(1, "client_demotions"), stage.counter(1, "readers")), (1, 1));
    let (farewell, got) = stage.end();
    assert_eq!((farewell, got), (None, ALL), "the last of all that was sent came to it");
}

#[test]
fn one_that_blocks_is_waited_for_by_name_and_nothing_is_lost() {
    let stage = Stage::new(SlowRequest { time: Some(Duration::from_secs(9)), ..SlowPolicy::Block.into() });
    support::wait_until("the group waits", || stage.counter(1, "clients_holding") == 1);
    support::wait_until("the sender is told for whom", || {
        let causes = stage.causes.lock().unwrap();
        causes.iter().any(|cause| matches!(cause, WaitCause::SlowClient(node, _) if node.0 == 1))
    });
    let before: Vec<_> = (0..4).map(|at| stage.got(at)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let after: Vec<_> = (0..4).map(|at| stage.got(at)).collect();
    assert!(before == after && after[0] < ALL, "{before:?} {after:?}");
    let story = stage.world.run(&["explain", "--node", "1"]).out;
    assert!(story.contains("Slow clients: #slow#n1 has its groups wait for "), "{story}");
    let story = stage.world.run(&["explain", "--node", "2"]).out;
    assert!(story.contains("Requests of its clients wait: slow_client:c"), "{story}");
    let resident = stage.resident();
    assert!(resident < AT_REST, "{resident}");
    let (farewell, got) = stage.end();
    assert_eq!((farewell, got), (None, ALL));
}

#[test]
fn one_that_blocks_for_too_long_is_sent_away_and_the_others_go_on() {
    let asked = Instant::now();
    let stage = Stage::new(SlowRequest { time: Some(Duration::from_secs(1)), ..SlowPolicy::Block.into() });
    support::wait_until("the others have all", || stage.others_have_all());
    assert!(asked.elapsed() > Duration::from_secs(1));
    assert!(stage.counter(1, "client_holds") >= 1 && stage.counter(2, "requests_waited_slow_client") > 0);
    let (farewell, got) = stage.end();
    let farewell = farewell.expect("it was sent away");
    assert_eq!(farewell.reason, DisconnectReason::Slow);
    assert!(farewell.text.contains("have waited for it to read for 1"), "{}", farewell.text);
    assert!((STOPS_AT..ALL).contains(&got), "{got}");
}

#[test]
fn a_policy_that_the_daemon_does_not_allow_is_refused_with_those_that_it_does() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let options = ConnectOptions::default().slow(SlowPolicy::Block);
    match Client::connect(&Address::Unix(world.socket_path(1)), &options) {
        Err(Error::NotWelcome(farewell)) => {
            assert_eq!(farewell.reason, DisconnectReason::NotAllowed);
            assert!(farewell.text.contains("only for disconnect, spool, demote"), "{}", farewell.text);
        }
        other => panic!("{:?}", other.map(drop)),
    }
}
