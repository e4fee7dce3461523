//! The network itself, probed with UDP. Needs root, `ip` and TUN; elsewhere each test says why it is skipped, and fails if
//! `CONSORT_REQUIRE_NETNS=1`.
mod narrow;
mod several;
mod vanished;

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use consort_sim::link::{LinkCounts, LinkModel};

use super::namespace::requirements;
use super::{Network, Plan};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);
const PORT: u16 = 7_700;
const PATIENCE: Duration = Duration::from_secs(10);

/// A network, or `None` with the reason printed.
fn network(nodes: usize) -> Option<Network> {
    network_of(nodes, 1_500)
}

fn network_of(nodes: usize, mtu: usize) -> Option<Network> {
    if let Err(reason) = requirements() {
        assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
        eprintln!("SKIPPED: {reason}");
        return None;
    }
    Some(Network::build(&Plan { nodes, mtu, seed: 7, ethernet: None }).unwrap())
}

fn socket(network: &Network, node: usize) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
        socket.join_multicast_v4(&GROUP, &Network::address(node))?;
        socket.set_multicast_loop_v4(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok::<_, std::io::Error>(socket)
    };
    network.namespace(node).enter(open).unwrap().unwrap()
}

/// One socket a node.
fn sockets(network: &Network) -> Vec<UdpSocket> {
    (0..network.nodes()).map(|node| socket(network, node)).collect()
}

fn group() -> SocketAddrV4 {
    SocketAddrV4::new(GROUP, PORT)
}

fn at(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Network::address(node), PORT)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let len = socket.recv(&mut buffer).expect("a datagram within ten seconds");
    buffer.truncate(len);
    buffer
}

/// What has arrived and not been read.
fn drain(socket: &UdpSocket) -> Vec<Vec<u8>> {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 65_536];
    let all = std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect();
    socket.set_nonblocking(false).unwrap();
    all
}

fn counts(network: &Network, from: usize, to: usize) -> LinkCounts {
    let pairs = network.report().unwrap().pairs;
    pairs.into_iter().find(|&(f, t, _)| (f, t) == (from, to)).unwrap().2
}

/// Sends numbered datagrams to the group and returns, in order, what node 1 received. Goes in steps so small that no
/// socket buffer overflows: the switch's own count says when a step has passed it.
fn numbered(network: &Network, sockets: &[UdpSocket], total: u32) -> Vec<u32> {
    let mut received = Vec::new();
    for step in 0..total / 20 {
        let before = counts(network, 0, 1).carried;
        for number in step * 20..(step + 1) * 20 {
            sockets[0].send_to(&number.to_be_bytes(), group()).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        while counts(network, 0, 1).carried < before + 20 {
            assert!(Instant::now() < deadline, "the switch does not read");
        }
        received.extend(drain(&sockets[1]).iter().map(|bytes| u32::from_be_bytes(bytes[..].try_into().unwrap())));
    }
    received
}

#[test]
fn multicast_reaches_all_and_unicast_one() {
    let Some(network) = network(3) else { return };
    let sockets = sockets(&network);
    sockets[0].send_to(b"all", group()).unwrap();
    assert_eq!([receive(&sockets[1]), receive(&sockets[2])], [b"all", b"all"]);
    sockets[2].send_to(b"one", at(0)).unwrap();
    assert_eq!(receive(&sockets[0]), b"one");
    assert!(drain(&sockets[1]).is_empty());
    assert!((0..3).all(|node| network.dropped_before(node).unwrap() == 0));
}

#[test]
fn an_interface_is_made_again_and_multicast_is_kept_from_a_node() {
    let Some(network) = network(2) else { return };
    network.unplug(0).unwrap();
    network.plug(0).unwrap();
    let sockets = sockets(&network);
    sockets[0].send_to(b"all", group()).unwrap();
    assert_eq!(receive(&sockets[1]), b"all");
    network.forward_multicast(1, false).unwrap();
    sockets[0].send_to(b"lost", group()).unwrap();
    sockets[0].send_to(b"one", at(1)).unwrap();
    assert_eq!(receive(&sockets[1]), b"one");
}

#[test]
fn a_datagram_of_many_fragments_passes() {
    let Some(network) = network(2) else { return };
    let sockets = sockets(&network);
    let large: Vec<u8> = (0..60_000u32).map(|i| (i % 251) as u8).collect();
    sockets[0].send_to(&large, group()).unwrap();
    assert!(receive(&sockets[1]) == large);
}

#[test]
fn loss_and_duplication_are_as_asked_and_as_counted() {
    let Some(network) = network(2) else { return };
    let sockets = sockets(&network);
    network.set(0, 1, &LinkModel { loss: 0.1, duplicate: 0.2, ..LinkModel::default() }).unwrap();
    let before = counts(&network, 0, 1);
    let received = numbered(&network, &sockets, 4_000);
    let after = counts(&network, 0, 1);
    let mut distinct = received.clone();
    distinct.dedup();
    let (lost, twice) = (4_000 - distinct.len(), received.len() - distinct.len());
    assert!((300..500).contains(&lost) && (600..840).contains(&twice), "{lost} lost, {twice} duplicated of 4000");
    // Other frames (IGMP) may be among those that the switch counts.
    assert!(after.lost - before.lost >= lost as u64 && after.duplicated - before.duplicated >= twice as u64);
    assert!(distinct.is_sorted(), "nothing was to be reordered");
}

#[test]
fn a_delay_is_never_cut_short_and_jitter_reorders() {
    let Some(network) = network(2) else { return };
    let sockets = sockets(&network);
    let delay = Duration::from_millis(3);
    network.set_all(&LinkModel { delay, ..LinkModel::default() }).unwrap();
    for _ in 0..20 {
        let sent = Instant::now();
        sockets[0].send_to(b"ping", group()).unwrap();
        receive(&sockets[1]);
        assert!(sent.elapsed() >= delay);
    }
    network.set_all(&LinkModel { jitter: Duration::from_millis(20), ..LinkModel::default() }).unwrap();
    for number in 0..100u8 {
        sockets[0].send_to(&[number], group()).unwrap();
    }
    let received: Vec<u8> = (0..100).map(|_| receive(&sockets[1])[0]).collect();
    assert!(!received.is_sorted(), "{received:?}");
}

#[test]
fn a_cut_holds_one_way_until_it_heals() {
    let Some(network) = network(3) else { return };
    let sockets = sockets(&network);
    network.set(0, 1, &LinkModel { cut: true, ..LinkModel::default() }).unwrap();
    sockets[0].send_to(b"into the void", group()).unwrap();
    assert_eq!(receive(&sockets[2]), b"into the void", "another way is whole");
    sockets[1].send_to(b"back", group()).unwrap();
    assert_eq!(receive(&sockets[0]), b"back", "the way back is whole");
    assert!(drain(&sockets[1]).is_empty() && counts(&network, 0, 1).cut >= 1);
    network.set(0, 1, &LinkModel::default()).unwrap();
    sockets[0].send_to(b"healed", group()).unwrap();
    assert_eq!(receive(&sockets[1]), b"healed");
}

#[test]
fn corruption_reaches_the_program_past_the_kernels_checksum() {
    let Some(network) = network(2) else { return };
    let sockets = sockets(&network);
    network.set(0, 1, &LinkModel { corrupt: 1.0, ..LinkModel::default() }).unwrap();
    for _ in 0..50 {
        sockets[0].send_to(&[0; 100], group()).unwrap();
        let hurt = receive(&sockets[1]);
        assert_eq!((hurt.len(), hurt.iter().map(|byte| byte.count_ones()).sum::<u32>()), (100, 1));
    }
}

#[test]
fn a_rate_is_kept_and_its_queue_overflows() {
    let Some(network) = network(2) else { return };
    let sockets = sockets(&network);
    network.set(0, 1, &LinkModel { rate: Some(8_000_000), queue: 20_000, ..LinkModel::default() }).unwrap();
    let start = Instant::now();
    for _ in 0..100 {
        sockets[0].send_to(&[0; 1_000], group()).unwrap();
    }
    let deadline = start + PATIENCE;
    while counts(&network, 0, 1).carried < 100 && Instant::now() < deadline {}
    let passed = 100 - counts(&network, 0, 1).overflowed;
    (0..passed).for_each(|_| drop(receive(&sockets[1])));
    assert!(start.elapsed() >= Duration::from_millis(passed), "one byte a microsecond, {passed} datagrams");
    assert!((15..100).contains(&passed), "{passed}");
}

#[test]
fn nothing_stays_behind() {
    let Some(network) = network(2) else { return };
    let mut command = Command::new("sleep");
    let mut child = network.spawn(1, command.arg("1000").stdin(Stdio::null())).unwrap();
    let names: Vec<_> = (0..2).map(|node| format!("/run/netns/{}", network.namespace(node).name())).collect();
    assert!(names.iter().all(|name| std::fs::exists(name).unwrap()));
    assert!(child.try_wait().unwrap().is_none());
    drop(network);
    assert!(!child.wait().unwrap().success(), "killed");
    assert!(!names.iter().any(|name| std::fs::exists(name).unwrap()));
}

#[test]
fn a_panic_removes_the_network() {
    let Some(network) = network(1) else { return };
    let name = format!("/run/netns/{}", network.namespace(0).name());
    let panicked = std::thread::spawn(move || {
        let _network = network;
        std::panic::resume_unwind(Box::new("wanted"));
    });
    assert!(panicked.join().is_err());
    assert!(!std::fs::exists(name).unwrap());
}

#[test]
fn the_network_of_a_dead_process_is_removed_by_the_next() {
    let Some(first) = network(1) else { return };
    // One above the largest process id there can be.
    let stale = &format!("consort-4194305-1-{}-1", std::process::id());
    assert!(Command::new("ip").args(["netns", "add", stale]).status().unwrap().success());
    drop(network(1));
    assert!(!std::fs::exists(format!("/run/netns/{stale}")).unwrap());
    assert!(std::fs::exists(format!("/run/netns/{}", first.namespace(0).name())).unwrap(), "a living one stays");
}

// Two that measure; on an idle machine: `cargo test --release -p consort-testbed network -- --ignored --nocapture --test-threads 1`.

#[test]
#[ignore = "measures: wants an idle machine"]
fn the_switch_is_fast() {
    let network = network(3).expect("a machine that can have a network");
    let sockets = sockets(&network);
    let frames = 300_000;
    let start = Instant::now();
    for number in 0..frames {
        sockets[0].send_to(&[0; 100], group()).unwrap();
        if number % 64 == 0 {
            while counts(&network, 0, 1).carried + 1_000 < number {}
        }
    }
    while counts(&network, 0, 1).carried < frames {}
    let rate = frames as f64 / start.elapsed().as_secs_f64();
    println!(
        "{rate:.0} multicast frames/s in, twice as many out; dropped before {}",
        network.dropped_before(0).unwrap()
    );
    assert!(rate > 100_000.0);
}

#[test]
#[ignore = "measures: wants an idle machine"]
fn the_switch_is_punctual() {
    for delay in [100, 1_000, 10_000].map(Duration::from_micros) {
        let network = network(2).expect("a machine that can have a network");
        let sockets = sockets(&network);
        network.set_all(&LinkModel { delay, ..LinkModel::default() }).unwrap();
        let mut over: Vec<_> = (0..500).map(|_| round_trip(&sockets) - 2 * delay).collect();
        over.sort();
        let late = network.report().unwrap().late;
        let (half, most) = (late.value_at_quantile(0.5) / 1_000, late.value_at_quantile(0.99) / 1_000);
        println!("delay {delay:?}: late by p50 {half} us p99 {most} us; round trip over by p50 {:?}", over[250]);
        assert!(half < 100, "half of all frames are late by less than {half} us");
    }
}

fn round_trip(sockets: &[UdpSocket]) -> Duration {
    let sent = Instant::now();
    sockets[0].send_to(b"ping", group()).unwrap();
    receive(&sockets[1]);
    sockets[1].send_to(b"pong", group()).unwrap();
    receive(&sockets[0]);
    sent.elapsed()
}

#[test]
fn transmit_drops_are_read_from_the_twelfth_column() {
    let table = "Inter-|   Receive  |  Transmit\n face |bytes ...\n    lo: 1 1 0 7 0 0 0 0 1 1 0 8 0 0 0 0\n  eth0: 5 5 1 2 0 0 0 0 6 6 3 42 0 0 0 0\n";
    assert_eq!(super::transmit_drops(table), 42);
    assert_eq!(super::transmit_drops("garbage"), 0);
}
