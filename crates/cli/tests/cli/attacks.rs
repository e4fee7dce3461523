//! Datagrams of a sealed cluster, captured on its network and sent to its daemons again, whole, changed and cut, from
//! addresses of this machine: no view changes, and nothing is delivered that nobody sent.

use crate::support::{self, World, free_port, wait_until};
use consort_types::Rng;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 1, 9);

/// A cluster of three nodes with a key, and where they are.
struct Cluster {
    world: World,
    config: String,
    group: SocketAddrV4,
    ports: [u16; 3],
}

impl Cluster {
    fn new() -> Self {
        let (world, ports) = (World::new(), [free_port(), free_port(), free_port()]);
        let key = world.path("key").display().to_string();
        assert_eq!(world.run(&["keygen", &key]).code, 0);
        let group = SocketAddrV4::new(GROUP, ports[2] + 2);
        let node = |(id, port): (usize, &u16)| format!("[[node]]\nid = {}\naddress = \"127.0.0.1:{port}\"\n", id + 1);
        let nodes: String = ports.iter().enumerate().map(node).collect();
        let (cluster, security) = (&world.cluster, format!("[security]\nkey = \"{key}\"\n"));
        let text = format!("cluster = \"{cluster}\"\nmulticast = \"{group}\"\n{nodes}{security}");
        let config = world.write("cluster.toml", &text);
        Self { world, config, group, ports }
    }

    fn daemon(&self, node: u16) -> support::Daemon {
        self.world.daemon_as(&["daemon", "--config", &self.config, "--node", &node.to_string()])
    }

    fn status(&self, node: u16) -> serde_json::Value {
        let ran = self.world.run(&["status", "--node", &node.to_string(), "--json"]);
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap_or_default()[0]["status"].clone()
    }

    fn views(&self) -> Vec<serde_json::Value> {
        (1..=3).map(|node| self.status(node)["view"].clone()).collect()
    }

    fn are_all_in_one_view(&self) -> bool {
        let members = |node| self.status(node)["members"].as_str().unwrap_or_default().split_whitespace().count();
        (1..=3).all(|node| members(node) == 3)
    }

    /// All that nodes say to all for so long.
    fn capture(&self, span: Duration) -> Vec<Vec<u8>> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from(self.group).into()).unwrap();
        socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST).unwrap();
        let (socket, began) = (UdpSocket::from(socket), Instant::now());
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (mut captured, mut room) = (Vec::new(), vec![0; 65_536]);
        while began.elapsed() < span {
            captured.extend(socket.recv(&mut room).ok().map(|len| room[..len].to_vec()));
        }
        captured
    }

    /// Everywhere that a node listens.
    fn targets(&self) -> Vec<SocketAddr> {
        let unicast = self.ports.iter().flat_map(|port| [*port, port + 1]);
        let unicast = unicast.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        unicast.chain([self.group.into()]).collect()
    }

    fn unopened(&self, cause: &str) -> u64 {
        (1..=3).map(|node| self.status(node)[format!("unopened_{cause}")].as_u64().unwrap_or(0)).sum()
    }
}

/// The bytes as an attacker without the key might send them.
fn attack(chance: &mut Rng, captured: &[u8]) -> Vec<u8> {
    let mut bytes = captured.to_vec();
    let at = chance.below(bytes.len() as u64) as usize;
    match chance.below(5) {
        0 => {}
        1 => bytes[at] ^= 1 << chance.below(8),
        2 => bytes.truncate(at),
        3 => bytes.extend_from_slice(&captured[at..]),
        // Another lane, another addressee, a counter to come.
        _ => {
            let end = bytes.len();
            for place in [3, end - 7, end - 1] {
                bytes[place] = bytes[place].wrapping_add(chance.below(4) as u8);
            }
        }
    }
    bytes
}

#[test]
fn the_kernel_drops_what_comes_from_addresses_that_are_no_node_s() {
    let cluster = Cluster::new();
    let _daemons: Vec<_> = (1..=3).map(|node| cluster.daemon(node)).collect();
    wait_until("all are in one view", || cluster.are_all_in_one_view());
    let (views, foreign) = (cluster.views(), cluster.unopened("foreign"));
    let away = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    Socket::from(away.try_clone().unwrap()).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let filtered = |node| cluster.status(node)["datagrams_filtered"].as_u64().unwrap_or(0);
    wait_until("they are dropped and counted", || {
        for target in cluster.targets() {
            (0..100).for_each(|_| drop(away.send_to(b"of nobody", target)));
        }
        (1..=3).all(|node| filtered(node) > 0)
    });
    assert_eq!((cluster.views(), cluster.unopened("foreign")), (views, foreign), "no daemon has seen one");
}

#[test]
fn captured_datagrams_sent_again_in_any_form_disturb_nobody() {
    let cluster = Cluster::new();
    let mut daemons: Vec<_> = (1..=3).map(|node| cluster.daemon(node)).collect();
    wait_until("all are in one view", || cluster.are_all_in_one_view());
    let receive = |node| cluster.world.start(&["receive", "--node", node, "--until", "end", "--timeout", "55s"], None);
    let mut receivers = ["1", "3"].map(receive);
    receivers.iter().for_each(|receiver| drop(receiver.says("2 members")));
    let lines: String = (0..20_000).map(|n| format!("before {n}\n")).collect();
    let captured = std::thread::scope(|scope| {
        let captured = scope.spawn(|| cluster.capture(Duration::from_secs(2)));
        assert_eq!(cluster.world.run_with(&["send", "--node", "2"], lines.as_bytes()).code, 0);
        captured.join().unwrap()
    });
    assert!(captured.len() > 100, "{} datagrams were captured", captured.len());
    let before = cluster.views();
    let (from, mut chance) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), Rng::new(52));
    Socket::from(from.try_clone().unwrap()).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let (targets, began) = (cluster.targets(), Instant::now());
    let mut sent = 0_u64;
    while began.elapsed() < Duration::from_secs(3) {
        for _ in 0..100 {
            let which = chance.below(captured.len() as u64) as usize;
            let bytes = attack(&mut chance, &captured[which]);
            let _ = from.send_to(&bytes, targets[chance.below(targets.len() as u64) as usize]);
            sent += 1;
        }
        // A pace at which sockets do not overflow: that any flood can do.
        std::thread::sleep(Duration::from_millis(2));
    }
    let lines: String = (0..1_000).map(|n| format!("after {n}\n")).collect();
    assert_eq!(cluster.world.run_with(&["send", "--node", "2"], lines.as_bytes()).code, 0);
    assert_eq!(cluster.world.run(&["send", "--node", "2", "end"]).code, 0);
    let out = receivers.each_mut().map(|receiver| receiver.wait().out);
    assert_eq!(out[0].lines().count(), 20_000 + 1_000 + 1, "what was sent, and nothing else");
    assert!(out[0] == out[1], "one order");
    assert_eq!(cluster.views(), before, "no view changed under {sent} datagrams");
    for cause in ["replayed", "forged", "foreign"] {
        assert!(cluster.unopened(cause) > 100, "{cause}: {}", cluster.unopened(cause));
    }
    // What was captured opens nothing at a node that starts anew either.
    daemons[0].kill();
    daemons[0] = cluster.daemon(1);
    for bytes in captured.iter().take(2_000) {
        let _ = from.send_to(bytes, targets[1]);
        let _ = from.send_to(bytes, targets[0]);
    }
    wait_until("it is back", || cluster.are_all_in_one_view());
    wait_until("it has refused them", || {
        let status = cluster.status(1);
        let refused = |cause: &str| status[format!("unopened_{cause}")].as_u64().unwrap_or(0);
        refused("unproven") + refused("replayed") > 100
    });
    assert_eq!(cluster.status(1)["assertion_failures"].as_u64().unwrap_or(0), 0);
}
