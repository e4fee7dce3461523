use super::*;
use crate::options::Peer;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Options with a group of their own: tests run side by side, and a probe of one must not reach another.
fn options() -> Options {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let peers = vec![Peer { node: NodeId(3), token: any(), data: any() }];
    let port = 12_000 + (std::process::id() % 20_000) as u16;
    let group = Ipv4Addr::new(239, 1, 2, LAST.fetch_add(1, Ordering::Relaxed));
    Options::new(NodeId(3), peers, SocketAddrV4::new(group, port), Ipv4Addr::LOCALHOST)
}

fn with(change: impl FnOnce(&mut NetworkOptions)) -> Options {
    let mut options = options();
    change(&mut options.networks[0]);
    options
}

/// Of the only network.
fn reach(sockets: &Sockets) -> &FanoutChoice {
    sockets.reach().next().unwrap()
}

#[test]
fn a_node_in_two_networks_has_sockets_in_each_and_may_meet_others_in_both() {
    let mut both = options();
    let other = Peer { node: NodeId(4), token: ([127, 0, 0, 1], 9).into(), data: ([127, 0, 0, 1], 10).into() };
    let mut second = both.networks[0].clone();
    second.peers.push(other);
    (both.networks[0].number, second.number, second.fanout) = (1, 2, Fanout::Unicast);
    both.networks.push(second);
    let sockets = Sockets::bind(both.clone()).unwrap();
    let ports: BTreeSet<_> = sockets
        .networks
        .iter()
        .flat_map(|network| [&network.token, &network.data])
        .map(|socket| socket.local_addr().unwrap().as_socket().unwrap().port())
        .collect();
    assert_eq!((ports.len(), sockets.options.met().len()), (4, 2));
    assert_eq!(sockets.reach().last().unwrap().why, "configured so");
    drop(sockets);
    both.networks[0].peers.push(Peer {
        data: ([127, 0, 0, 1], 11).into(),
        token: ([127, 0, 0, 1], 12).into(),
        ..other
    });
    assert_eq!(Sockets::bind(both).unwrap().options.met().len(), 2);
    let none = Options { networks: Vec::new(), ..options() };
    assert!(matches!(Sockets::bind(none), Err(BindError::NotConfigured { peers: 0, .. })));
}

#[test]
fn a_node_without_an_entry_is_told_so() {
    let error = Sockets::bind(Options { me: NodeId(9), ..options() }).unwrap_err();
    assert_eq!(error.to_string(), "node n9 has no entry among the 1 peers; add its token and data addresses");
}

#[test]
fn a_datagram_that_ip_would_cut_is_told_what_fits() {
    assert_eq!(fitting(1_472, 1_500), None);
    assert_eq!(fitting(1_473, 1_500), Some(1_472));
    assert_eq!(fitting(8_972, 1_280), Some(1_252));
    assert_eq!(fitting(576, 0), Some(0));
}

#[test]
fn two_nodes_with_one_index_or_one_address_are_refused() {
    let mut twice = options();
    let again = twice.networks[0].peers[0];
    twice.networks[0].peers.push(again);
    assert!(matches!(Sockets::bind(twice), Err(BindError::Twice { what }) if what == "n3"));
    let mut same = options();
    let peer = &mut same.networks[0].peers[0];
    peer.token = ([127, 0, 0, 1], 9).into();
    peer.data = peer.token;
    assert!(matches!(Sockets::bind(same), Err(BindError::Twice { what }) if what == "127.0.0.1:9"));
}

#[test]
fn a_used_port_is_named_with_its_role() {
    let holder = UdpSocket::bind(any()).unwrap();
    let mut used = options();
    used.networks[0].peers[0].token = holder.local_addr().unwrap();
    let error = Sockets::bind(used).unwrap_err();
    assert!(
        matches!(&error, BindError::InUse { role: SocketRole::Token, address } if *address == holder.local_addr().unwrap())
    );
    assert!(error.to_string().contains("is in use"), "{error}");
}

#[test]
fn a_foreign_address_is_named_and_the_usable_ones_are_listed() {
    let mut foreign = options();
    foreign.networks[0].peers[0].data = ([192, 0, 2, 1], 0).into();
    let error = Sockets::bind(foreign).unwrap_err().to_string();
    assert!(error.starts_with("data address 192.0.2.1") && error.contains("127.0.0.1 (lo)"), "{error}");
    let error = Sockets::bind(with(|network| network.interface = [192, 0, 2, 1].into())).unwrap_err().to_string();
    assert!(error.contains("interface 192.0.2.1") && error.contains("127.0.0.1 (lo)"), "{error}");
}

#[test]
fn a_group_that_is_none_is_refused() {
    let bad = with(|network| network.multicast = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000));
    assert!(matches!(Sockets::bind(bad), Err(BindError::NotMulticast { .. })));
}

#[test]
fn unicast_needs_no_group() {
    let sockets = Sockets::bind(with(|network| network.fanout = Fanout::Unicast)).unwrap();
    assert_eq!(reach(&sockets), &FanoutChoice { multicast: false, why: "configured so".to_owned() });
    assert!(sockets.networks[0].group.is_none());
    assert_ne!(sockets.options.networks[0].peers[0].token.port(), 0);
}

#[test]
fn multicast_is_chosen_by_what_comes_back() {
    let sockets = Sockets::bind(options()).unwrap();
    if !reach(&sockets).multicast {
        return eprintln!("skipped: no multicast on the loopback interface: {}", reach(&sockets).why);
    }
    assert!(sockets.networks[0].group.is_some());
    assert_eq!(reach(&sockets).why, "a datagram to the group came back");
}

#[test]
fn own_datagrams_are_dropped_by_the_kernel_and_others_are_not() {
    let sockets = Sockets::bind(options()).unwrap();
    if !reach(&sockets).multicast {
        return eprintln!("skipped: no multicast on the loopback interface: {}", reach(&sockets).why);
    }
    let group = sockets.networks[0].group.as_ref().unwrap();
    group.set_nonblocking(false).unwrap();
    group.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let stranger = udp(Domain::IPV4).unwrap();
    stranger.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let to = sockets.options.networks[0].multicast.into();
    sockets.networks[0].data.send_to(b"own", &to).unwrap();
    stranger.send_to(b"from elsewhere", &to).unwrap();
    let mut room = [0; 64];
    let n = std::io::Read::read(&mut &*group, &mut room).unwrap();
    assert_eq!(&room[..n], b"from elsewhere");
}

#[test]
fn the_room_is_what_the_kernel_granted_less_its_own_need() {
    let sockets = Sockets::bind(Options { receive_buffer: 1 << 20, ..options() }).unwrap();
    let granted = sockets.networks[0].data.recv_buffer_size().unwrap();
    let share = sockets.receive_room() as f64 / granted as f64;
    assert!((0.60..0.65).contains(&share), "{share}");
}

#[test]
fn the_kernels_charge_is_as_measured() {
    for (datagram, charge) in [(576, 1280), (1000, 2304), (1440, 2304), (4000, 8448), (8192, 16_640), (65_000, 66_100)]
    {
        let estimate = kernel_cost(datagram);
        assert!(estimate.abs_diff(charge) * 100 <= charge, "{datagram}: {estimate}, measured {charge}");
    }
}
