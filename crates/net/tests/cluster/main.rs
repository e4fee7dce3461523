//! Three nodes in three threads, real sockets, real clients: one order for all.
#![allow(clippy::disallowed_methods, reason = "real clocks and threads are what is tested here")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod client;
mod sequencer;

use client::TestClient;
use consort_net::{Fanout, IdleProfile, Keep, ListenAddress, Options, Peer, Records, RunError, Sockets, Stop};
use consort_node::{Identity, Limits, Node};
use consort_types::{ClusterId, ConfigHash, Incarnation, MemberId, NodeId};
use sequencer::Sequencer;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NODES: u16 = 3;
const EACH: usize = 3_000;

/// Addresses that are free, with ports that the kernel does not hand out by itself.
fn free_addresses(n: usize) -> Vec<SocketAddr> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(61);
    let next = || 10_000 + (first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % 20_000) as u16;
    let free = |address: &SocketAddr| UdpSocket::bind(address).is_ok();
    std::iter::repeat_with(|| (Ipv4Addr::LOCALHOST, next()).into()).filter(free).take(n).collect()
}

/// What differs from test to test.
#[derive(Clone, Copy)]
struct Kind {
    fanout: Fanout,
    idling: IdleProfile,
    arrival_times: bool,
    reliable: bool,
}

struct Cluster {
    stops: Vec<Stop>,
    threads: Vec<JoinHandle<Result<(), RunError>>>,
    listeners: Vec<Vec<ListenAddress>>,
    /// Where each takes links, if it does.
    links: Vec<SocketAddr>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts three nodes; `None`, with the reason printed, where this machine cannot.
    fn start(kind: Kind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let addresses = free_addresses(2 * usize::from(NODES) + 1);
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 78, 1, 1), addresses[6].port());
        let peer = |n: u16| Peer {
            node: NodeId(n),
            token: addresses[usize::from(n) * 2],
            data: addresses[usize::from(n) * 2 + 1],
        };
        let peers: Vec<_> = (0..NODES).map(peer).collect();
        let mut sockets = Vec::new();
        for n in 0..NODES {
            let mut options = Options::new(NodeId(n), peers.clone(), group, Ipv4Addr::LOCALHOST);
            options.networks[0].fanout = kind.fanout;
            options.idling = kind.idling;
            options.links = kind.reliable;
            options.listeners = vec![
                ListenAddress::Unix(folder.path().join(format!("n{n}"))),
                ListenAddress::Tcp(([127, 0, 0, 1], 0).into()),
            ];
            sockets.push(Sockets::bind(options).unwrap());
        }
        let links = peers.iter().map(|peer| peer.token).collect();
        let reach = sockets[0].reach().next().unwrap();
        if kind.fanout != Fanout::Unicast && !reach.multicast {
            eprintln!("skipped: no multicast on the loopback interface: {}", reach.why);
            return None;
        }
        let listeners = sockets.iter().map(Sockets::listeners).collect();
        let (stops, threads) = sockets.into_iter().zip(0..).map(|(sockets, n)| spawn(sockets, n, kind)).unzip();
        Some(Self { stops, threads, listeners, links, _folder: folder })
    }

    fn socket_file(&self, node: usize) -> PathBuf {
        let ListenAddress::Unix(path) = &self.listeners[node][0] else { panic!("the first listener is a socket file") };
        path.clone()
    }

    fn connect(&self, node: usize) -> TestClient {
        TestClient::unix(&self.socket_file(node))
    }

    fn connect_by_tcp(&self, node: usize) -> TestClient {
        let ListenAddress::Tcp(address) = self.listeners[node][1] else { panic!("the second listener is a port") };
        TestClient::tcp(address)
    }

    /// Stops all nodes; each must end well.
    fn stop(self) {
        self.stops.iter().for_each(Stop::set);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    }
}

fn spawn(sockets: Sockets, n: u16, kind: Kind) -> (Stop, JoinHandle<Result<(), RunError>>) {
    let members: Vec<_> = (0..NODES).map(|n| MemberId::new(n, 1)).collect();
    let identity = Identity { cluster: ClusterId(7), config: ConfigHash(7), me: members[usize::from(n)] };
    let mut engine = Sequencer::new(identity.me, members);
    engine.needs_arrival_times = kind.arrival_times;
    engine.reliable = kind.reliable;
    let stop = Stop::new().unwrap();
    let told = stop.clone();
    let thread = thread::spawn(move || consort_net::run(sockets, Node::new(identity, engine, limits()), told));
    (stop, thread)
}

/// All three send at once; all three must read the same.
fn all_agree(kind: Kind) {
    let Some(cluster) = Cluster::start(kind) else { return };
    let mut clients: Vec<_> =
        (0..3).map(|n| if n == 2 { cluster.connect_by_tcp(n) } else { cluster.connect(n) }).collect();
    clients.iter_mut().for_each(TestClient::join);
    clients.iter_mut().for_each(|client| client.wait_for_members(3));
    let work = |(mut client, n): (TestClient, usize)| thread::spawn(move || client.exchange(n, EACH, 3 * EACH));
    let threads: Vec<_> = clients.into_iter().zip(0..).map(work).collect();
    let orders: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(orders[0].len(), 3 * EACH);
    assert!(orders[0] == orders[1] && orders[1] == orders[2], "the orders differ");
    for sender in 0..3 {
        let own: Vec<_> = orders[0].iter().filter(|(s, _)| *s == sender).map(|(_, i)| *i).collect();
        assert_eq!(own, (0..EACH).collect::<Vec<_>>(), "sender {sender}");
    }
    cluster.stop();
}

#[test]
fn all_agree_by_multicast() {
    all_agree(Kind { fanout: Fanout::Auto, idling: IdleProfile::Balanced, arrival_times: false, reliable: false });
}

#[test]
fn all_agree_by_unicast() {
    all_agree(Kind { fanout: Fanout::Unicast, idling: IdleProfile::Frugal, arrival_times: false, reliable: false });
}

#[test]
fn all_agree_where_every_packet_is_stamped_and_the_loop_spins() {
    all_agree(Kind { fanout: Fanout::Auto, idling: IdleProfile::Latency, arrival_times: true, reliable: false });
}

const RELIABLE: Kind =
    Kind { fanout: Fanout::Unicast, idling: IdleProfile::Balanced, arrival_times: false, reliable: true };

#[test]
fn all_agree_through_reliable_links() {
    all_agree(RELIABLE);
    all_agree(Kind { idling: IdleProfile::Frugal, ..RELIABLE });
}

#[test]
fn reliable_links_hold_while_strangers_say_whatever_they_like() {
    let Some(cluster) = Cluster::start(RELIABLE) else { return };
    let mut client = cluster.connect(2);
    client.join();
    let mut silent = Vec::new();
    for round in 0..20 {
        for address in &cluster.links {
            let mut stranger = TcpStream::connect(address).unwrap();
            let _it_may_be_cut_off = stranger.write_all(&vec![0xff; 997 * round]);
            silent.push(stranger);
        }
        assert_eq!(client.exchange(round, 50, 50).len(), 50);
    }
    assert_eq!(client.fact(&format!("link_{}", NodeId(0))).as_deref(), Some("up"));
    cluster.stop();
}

#[test]
fn an_engine_that_needs_links_does_not_start_without() {
    let single = Single::new();
    let ended =
        single.run_with(single.options(), |engine| engine.reliable = true, |client| assert!(client.is_refused()));
    assert!(matches!(ended, Err(RunError::NoLinks)), "{ended:?}");
}

/// The engine of these tests cuts nothing: whatever it orders must fit a datagram.
fn limits() -> Limits {
    Limits { batch_max: 0, ..Limits::default() }
}

const QUIET: Kind =
    Kind { fanout: Fanout::Unicast, idling: IdleProfile::Frugal, arrival_times: false, reliable: false };

#[test]
fn a_stop_tells_clients_and_leaves_no_socket_file() {
    let Some(cluster) = Cluster::start(QUIET) else { return };
    let mut client = cluster.connect(0);
    client.join();
    let (file, listeners) = (cluster.socket_file(0), cluster.listeners.clone());
    assert!(file.exists());
    cluster.stop();
    assert_eq!(client.farewell().as_deref(), Some("stopping"));
    assert!(!file.exists());
    let ListenAddress::Tcp(address) = listeners[0][1] else { panic!("the second listener is a port") };
    TcpListener::bind(address).unwrap();
}

#[test]
fn a_node_that_was_asked_to_leave_ends_though_its_incarnation_ends_first() {
    let Some(cluster) = Cluster::start(RELIABLE) else { return };
    let mut client = cluster.connect(0);
    client.join();
    // It asserts that no node is to be started again.
    cluster.stop();
    assert_eq!(client.farewell().as_deref(), Some("stopping"));
}

#[test]
fn a_client_that_sends_garbage_is_told_why_and_disturbs_nobody() {
    let Some(cluster) = Cluster::start(QUIET) else { return };
    for connect in [Cluster::connect, Cluster::connect_by_tcp] {
        let mut good = connect(&cluster, 1);
        good.join();
        let mut bad = connect(&cluster, 1);
        bad.say(&[0xff; 300_000]);
        assert!(bad.farewell().is_some());
        assert_eq!(good.exchange(7, 50, 50).len(), 50);
    }
    cluster.stop();
}

#[test]
fn who_reads_late_reads_all_however_much_has_waited() {
    let Some(cluster) = Cluster::start(QUIET) else { return };
    let mut late = cluster.connect(1);
    late.join();
    let mut busy = cluster.connect(1);
    busy.join();
    let order = busy.exchange(7, 5_000, 5_000);
    assert_eq!(late.receive(5_000), order);
    assert_eq!(busy.exchange(7, 10, 10), late.receive(10));
    cluster.stop();
}

#[test]
fn what_a_client_sent_before_it_went_away_is_still_ordered() {
    let Some(cluster) = Cluster::start(QUIET) else { return };
    let mut listener = cluster.connect(1);
    listener.join();
    for _ in 0..10 {
        let mut hasty = cluster.connect(2);
        hasty.send(5, 0..100);
        drop(hasty);
        assert_eq!(listener.receive(100), (0..100).map(|i| (5, i)).collect::<Vec<_>>());
    }
    cluster.stop();
}

/// One node by itself.
struct Single {
    addresses: Vec<SocketAddr>,
    socket: PathBuf,
    records: PathBuf,
    folder: TempDir,
}

impl Single {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (socket, records) = (folder.path().join("socket"), folder.path().join("records"));
        Self { addresses: free_addresses(3), socket, records, folder }
    }

    fn options(&self) -> Options {
        let peers = vec![Peer { node: NodeId(0), token: self.addresses[0], data: self.addresses[1] }];
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 78, 1, 2), self.addresses[2].port());
        let listeners = vec![ListenAddress::Unix(self.socket.clone())];
        Options { listeners, ..Options::new(NodeId(0), peers, group, Ipv4Addr::LOCALHOST) }
    }

    /// Runs it while `work` talks to it; returns how the loop ended.
    fn run(&self, options: Options, durable: bool, work: impl FnOnce(&mut TestClient)) -> Result<(), RunError> {
        self.run_with(options, |engine| engine.durable = durable, work)
    }

    fn run_with(
        &self,
        options: Options,
        set: impl FnOnce(&mut Sequencer),
        work: impl FnOnce(&mut TestClient),
    ) -> Result<(), RunError> {
        let me = MemberId::new(0, 1);
        let identity = Identity { cluster: ClusterId(7), config: ConfigHash(7), me };
        let mut engine = Sequencer::new(me, vec![me]);
        set(&mut engine);
        let (sockets, stop) = (Sockets::bind(options).unwrap(), Stop::new().unwrap());
        let mut client = TestClient::unix(&self.socket);
        let told = stop.clone();
        let node = thread::spawn(move || consort_net::run(sockets, Node::new(identity, engine, limits()), told));
        work(&mut client);
        stop.set();
        node.join().unwrap()
    }
}

/// Each write to a client lets the node tell clients more, also those that were written to before in the same turn. While no
/// timer is due nothing else wakes the loop, until after 50 ms the node looks whose requests wait.
#[test]
fn what_clients_are_told_while_others_are_written_to_waits_for_no_timer() {
    const BURST: usize = 180; // more than the node tells four clients in one slice
    for idling in [IdleProfile::Frugal, IdleProfile::Balanced] {
        let single = Single::new();
        let options = Options { idling, probe_paths: false, ..single.options() };
        let mut took = Vec::new();
        let talk = |sender: &mut TestClient| {
            let mut readers: Vec<_> = (0..3).map(|_| TestClient::unix(&single.socket)).collect();
            readers.iter_mut().for_each(TestClient::join);
            sender.join();
            for first in (0..41 * BURST).step_by(BURST) {
                thread::sleep(Duration::from_millis(3));
                let began = Instant::now();
                sender.post(1, first..first + BURST);
                readers
                    .iter_mut()
                    .chain([&mut *sender])
                    .for_each(|client| assert_eq!(client.receive(BURST).len(), BURST));
                took.push(began.elapsed());
            }
        };
        single.run_with(options, |engine| engine.every = Duration::from_secs(3_600), talk).unwrap();
        took.sort();
        assert!(took[took.len() / 2] < Duration::from_millis(50), "{idling:?}: {took:?}");
    }
}

#[test]
fn datagrams_of_strangers_are_dropped() {
    let single = Single::new();
    let disturb = |client: &mut TestClient| {
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for (i, len) in (0..60_000).step_by(997).enumerate() {
            stranger.send_to(&vec![i as u8; len], single.addresses[i % 2]).unwrap();
        }
        client.join();
        assert_eq!(client.exchange(1, 20, 20).len(), 20);
        assert_ne!(client.counter("datagrams_rejected_foreign"), 0);
    };
    single.run(single.options(), false, disturb).unwrap();
}

#[test]
fn records_are_written_before_what_depends_on_them_and_found_in_the_next_incarnation() {
    let single = Single::new();
    let records = records(&single.records);
    let options = || Options { records: Some(records.clone()), ..single.options() };
    let work = |client: &mut TestClient| {
        client.join();
        assert_eq!(client.counter("records_found"), 0);
        assert_eq!(client.exchange(1, 200, 200).len(), 200);
    };
    single.run(options(), true, work).unwrap();
    let files = std::fs::read_dir(&single.records).unwrap();
    let written: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let again = |client: &mut TestClient| {
        client.join();
        let found = client.counter("records_found");
        assert!(found > 200, "{found} records in {written} bytes");
    };
    single.run(options(), true, again).unwrap();
    drop(single.folder);
}

fn records(directory: &std::path::Path) -> Records {
    let (directory, cluster) = (directory.to_owned(), "test".to_owned());
    Records { directory, keep: Keep::Synced, most: 1 << 30, cluster, node: 0, incarnation: Incarnation(1) }
}

/// A disk in memory of one megabyte; none, with the reason printed, where this user may not mount one: that fails where
/// `CONSORT_REQUIRE_NETNS` is 1.
fn mount_small_disk(at: &std::path::Path) -> Option<SmallDisk> {
    std::fs::create_dir_all(at).unwrap();
    let ran = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
    if ran.as_ref().is_ok_and(|ran| ran.status.success()) {
        return Some(SmallDisk(at.to_owned()));
    }
    assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{ran:?}");
    eprintln!("SKIPPED: cannot mount a small disk: {ran:?}");
    None
}

struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_waited_for_and_all_goes_on_once_it_has_room() {
    const MESSAGES: usize = 30_000;
    let single = Single::new();
    let Some(disk) = mount_small_disk(&single.records) else { return };
    let options = || Options { records: Some(records(&single.records)), ..single.options() };
    let used = || -> u64 {
        let files = std::fs::read_dir(&single.records).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    // A message is delivered to clients once its record is kept.
    let fill = |client: &mut TestClient| {
        client.join();
        let root = disk.0.clone();
        let grow = thread::spawn(move || {
            thread::sleep(Duration::from_secs(3));
            Command::new("mount").args(["-o", "remount,size=64m"]).arg(root).status().unwrap()
        });
        assert_eq!(client.exchange(1, MESSAGES, MESSAGES).len(), MESSAGES);
        assert!(grow.join().unwrap().success() && used() > 1 << 20, "{} bytes", used());
    };
    single.run(options(), true, fill).unwrap();
    let again = |client: &mut TestClient| {
        client.join();
        let found = client.counter("records_found") as usize;
        assert!(found >= MESSAGES, "{MESSAGES} messages were delivered, and {found} records found");
        assert_eq!(client.exchange(1, 20, 20).len(), 20);
    };
    single.run(options(), true, again).unwrap();
}

#[test]
fn a_durable_protocol_without_a_place_for_its_records_does_not_start() {
    let single = Single::new();
    let ended = single.run(single.options(), true, |client| assert!(client.is_refused()));
    assert!(matches!(ended, Err(RunError::NoRecords)), "{ended:?}");
}
