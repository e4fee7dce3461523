//! Real daemons with a registry in a real ZooKeeper: it shows who is there, moves coordinators, and stops nothing.

use crate::cluster::{Cluster, PATIENCE, group, in_order_of_senders};
use crate::support::{World, free_port, wait_until};
use crate::zookeeper::ZooKeeper;
use consort::{Address, Client, ConnectOptions, Event, Service};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest session that these daemons have, in milliseconds.
const SESSION: u64 = 2_000;
/// With the registry gone nothing is ordered for no longer than this, on a machine where others run, too.
const PAUSE: Duration = Duration::from_millis(1_500);

/// Three daemons that ask a registry at this address.
fn cluster(world: World, protocol: &str, registry: &str, more: &str) -> Cluster {
    let nodes = (1..=3).map(|id| format!("[[node]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", free_port()));
    let nodes = nodes.collect::<String>();
    let head = format!("cluster = \"{}\"\nprotocol = \"{protocol}\"\nmulticast = \"off\"\n", world.cluster);
    let registry = format!("[registry]\nkind = \"zookeeper\"\nservers = [\"{registry}\"]\nsession_ms = {SESSION}\n");
    let cluster = Cluster::out_of(world, &format!("{head}{nodes}{more}{registry}"), 3);
    wait_until("all are in one view", || (0..3).all(|at| cluster.members(at) == 3));
    cluster
}

/// What a daemon tells of itself.
fn told(cluster: &Cluster, at: usize, key: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(&cluster.status(at)).unwrap_or_default();
    status[0]["status"][key].as_str().unwrap_or_default().to_owned()
}

/// Whether a daemon leads, as it tells of its order, or of a ring.
fn leads(cluster: &Cluster, at: usize, what: &str) -> bool {
    told(cluster, at, what).contains(", leads with")
}

/// Who does.
fn leader(cluster: &Cluster, what: &str) -> usize {
    wait_until("somebody leads", || (0..3).any(|at| leads(cluster, at, what)));
    (0..3).find(|at| leads(cluster, *at, what)).unwrap()
}

/// An operator writes that a daemon should lead a ring.
fn advise(zookeeper: &ZooKeeper, ring: u16, at: usize) {
    zookeeper.write(&format!("/ringpaxos/topology{ring}/config/coordinator"), &(at + 1).to_string());
}

/// A client that sends one message after another and is told all of them.
struct Load {
    ends: Arc<AtomicBool>,
    /// When each was told.
    told: Arc<Mutex<Vec<Instant>>>,
    thread: JoinHandle<Vec<String>>,
}

impl Load {
    fn at(address: &Address) -> Self {
        let mut client = Client::connect(address, &ConnectOptions::default()).unwrap();
        client.join(&group()).unwrap();
        while !matches!(client.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))) {}
        let (ends, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(vec![Instant::now()])));
        let (stop, times) = (Arc::clone(&ends), Arc::clone(&told));
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let text = format!("speaker {}", all.len() + 1);
                client.multicast_within(Service::Agreed, &[group()], text.as_bytes(), PATIENCE).unwrap();
                let message = loop {
                    let event = client.receive(PATIENCE).unwrap().expect("each message comes");
                    if let Event::Message(message) = event {
                        break message;
                    }
                };
                all.push(String::from_utf8(message.payload().to_vec()).unwrap());
                times.lock().unwrap().push(Instant::now());
                thread::sleep(Duration::from_millis(2));
            }
            all
        });
        Self { ends, told, thread }
    }

    /// The longest time since then in which nothing was told.
    fn longest_pause(&self, since: Instant) -> Duration {
        let told = self.told.lock().unwrap();
        let last = *told.last().unwrap();
        let pauses = told.windows(2).filter(|pair| pair[1] >= since).map(|pair| pair[1] - pair[0]);
        pauses.chain([last.elapsed()]).max().unwrap()
    }

    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        let all = self.thread.join().unwrap();
        assert!(all.len() > 500, "{} messages", all.len());
        in_order_of_senders(&all, all.len());
    }
}

/// Who stands in each folder of a ring.
fn topology(zookeeper: &ZooKeeper, ring: u16) -> BTreeMap<&'static str, Vec<String>> {
    let folder = |name: &'static str| (name, zookeeper.children(&format!("/ringpaxos/topology{ring}/{name}")));
    ["nodes", "proposers", "acceptors", "learners"].map(folder).into()
}

fn all_three(zookeeper: &ZooKeeper, ring: u16) -> bool {
    topology(zookeeper, ring).values().all(|names| *names == ["1", "2", "3"])
        && zookeeper.children(&format!("/ringpaxos/rings/{ring}")) == ["1", "2", "3"]
}

#[test]
fn operators_move_the_coordinator_and_a_registry_that_is_killed_stops_nothing() {
    //= X97 test
    let world = World::new();
    let Some(mut zookeeper) = ZooKeeper::start_for_test(&world.path(""), free_port()) else { return };
    let mut cluster = cluster(world, "paxos", &zookeeper.address(), "[paxos]\nstorage = \"memory\"\n");
    wait_until("all are registered", || all_three(&zookeeper, 0));
    let address = zookeeper.text("/ringpaxos/topology0/nodes/2").unwrap();
    assert!(address.starts_with("127.0.0.1;"), "{address}");
    let load = Load::at(&cluster.address(1));

    let first = leader(&cluster, "state");
    let other = (first + 1) % 3;
    advise(&zookeeper, 0, other);
    wait_until("the one that is advised leads", || leads(&cluster, other, "state"));
    let advice = format!("node {} should lead", other + 1);
    wait_until("it has read that, too", || told(&cluster, other, "advice_0") == advice);
    let (name, node, world) = (&cluster.world.cluster, (other + 1).to_string(), &cluster.world);
    let shown = world.run(&["status", "--cluster", name, "--node", &node]).out;
    assert!(shown.contains(&format!("{name} node {node} registry: this node is registered")), "{shown}");
    assert!(shown.contains(&format!("{name} node {node} registry: of ring 0: {advice}")), "{shown}");

    let killed = Instant::now();
    zookeeper.kill();
    wait_until("its sessions have ended", || (0..3).all(|at| told(&cluster, at, "registry").contains("no session")));
    thread::sleep(Duration::from_millis(SESSION));
    let pause = load.longest_pause(killed);
    assert!(pause < PAUSE, "nothing was ordered for {pause:?} without the registry");
    assert!(leads(&cluster, other, "state"), "who leads goes on");
    assert_eq!(told(&cluster, other, "advice_0"), "nothing");

    zookeeper.start();
    wait_until("all are registered again", || all_three(&zookeeper, 0));
    advise(&zookeeper, 0, first);
    wait_until("the first leads again", || leads(&cluster, first, "state"));
    load.end();

    cluster.kill(2);
    let gone = || topology(&zookeeper, 0).values().all(|names| *names == ["1", "2"]);
    wait_until("who is killed is forgotten", gone);
}

#[test]
fn each_ring_of_many_has_its_own_coordinator_and_order() {
    //= MP90 test
    let world = World::new();
    let Some(zookeeper) = ZooKeeper::start_for_test(&world.path(""), free_port()) else { return };
    let rings =
        "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\nacceptors = [2]\ngroups = [\"a*\"]\n[[ring]]\nid = 3\n";
    let mut cluster = cluster(world, "multiring-paxos", &zookeeper.address(), rings);
    wait_until("all are registered", || all_three(&zookeeper, 1) && all_three(&zookeeper, 3));
    let second = topology(&zookeeper, 2);
    assert_eq!((second["acceptors"].join(" "), second["learners"].join(" ")), ("2".into(), "1 2 3".into()));
    let [first, third] = ["ring_1", "ring_3"].map(|ring| leader(&cluster, ring));
    let other = (third + 1) % 3;
    advise(&zookeeper, 3, other);
    zookeeper.write("/ringpaxos/topology1/config/order", "1 3 2");
    // Who does not vote there is not advised.
    advise(&zookeeper, 2, 2);
    wait_until("another leads ring 3", || leads(&cluster, other, "ring_3"));
    let wanted = ["the ring in the order 1 3 2".into(), String::new(), format!("node {} should lead", other + 1)];
    let read = || [1, 2, 3].map(|ring| told(&cluster, other, &format!("advice_{ring}"))) == wanted;
    wait_until("it has read all of that", read);
    assert!(leads(&cluster, first, "ring_1"), "ring 1 stays where it was");
    cluster.end(2);
    assert_eq!(zookeeper.children("/ringpaxos/rings/1"), ["1", "2"], "who leaves is forgotten at once");
}

#[test]
fn daemons_whose_registry_is_not_there_start_order_and_say_so() {
    let world = World::new();
    // Nobody listens there.
    let nowhere = format!("127.0.0.1:{}", free_port());
    let cluster = cluster(world, "paxos", &nowhere, "[paxos]\nstorage = \"memory\"\n");
    let load = Load::at(&cluster.address(0));
    wait_until("it is said", || told(&cluster, 0, "registry").starts_with("no session: no server answers"));
    thread::sleep(Duration::from_secs(3));
    load.end();
    let status: serde_json::Value = serde_json::from_str(&cluster.status(1)).unwrap();
    assert_eq!(status[0]["status"]["registry_has_node"], 0);
}
