use super::*;
use crate::driver_packets::tests::{driver_packets_of, identity};
use crate::options::{Fanout, Peer};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    crate::sys::force_buffer(socket.as_fd(), 1 << 20, true).unwrap();
    socket
}

fn network(number: u8, peers: &[Peer]) -> NetworkOptions {
    let (multicast, interface) = (SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), Ipv4Addr::LOCALHOST);
    NetworkOptions { number, peers: peers.to_vec(), multicast, interface, fanout: Fanout::Unicast }
}

/// Three nodes, of which the first sends; the sockets of the others are plain ones.
struct Bench {
    outbox: Outbox,
    counters: DriverCounters,
    token: Vec<UdpSocket>,
    data: Vec<UdpSocket>,
}

impl Bench {
    fn new() -> Self {
        Self::with_seals(|peers| Rc::new(Seals::new(identity(0), None, peers).unwrap()))
    }

    fn with_seals(seals: impl FnOnce(&[Peer]) -> Rc<Seals>) -> Self {
        let (token, data): (Vec<_>, Vec<_>) = (0..3).map(|_| (socket(), socket())).unzip();
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let peers: Vec<_> = (0..3u16)
            .map(|n| Peer { node: NodeId(n), token: address(&token[n as usize]), data: address(&data[n as usize]) })
            .collect();
        let own = |socket: &UdpSocket| Rc::new(Socket::from(socket.try_clone().unwrap()));
        let exits = vec![ExitSockets { token: own(&token[0]), data: own(&data[0]), has_group: false }];
        let outbox = Outbox::new(&[network(0, &peers)], exits, identity(0), seals(&peers));
        Self { outbox, counters: DriverCounters::default(), token, data }
    }

    fn push(&mut self, to: Destination, lane: Lane, head: &[u8], body: &[u8]) {
        let datagram = Datagram { head: Bytes::copy_from_slice(head), body: Bytes::copy_from_slice(body) };
        self.outbox.push(to, lane, 0, datagram);
    }

    fn flush(&mut self) {
        self.outbox.flush(&mut self.counters);
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut room = [0; 65_536];
    let n = socket.recv(&mut room).unwrap();
    room[..n].to_vec()
}

fn is_empty(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    let nothing = socket.recv(&mut [0; 1]).is_err();
    socket.set_nonblocking(false).unwrap();
    nothing
}

#[test]
fn every_lane_has_its_socket_and_all_means_the_others() {
    let mut bench = Bench::new();
    let one = Destination::One(NodeId(1));
    bench.push(one, Lane::Token, b"token", b"");
    bench.push(one, Lane::Control, b"control", b"");
    bench.push(one, Lane::Data, b"da", b"ta");
    bench.push(Destination::All, Lane::Data, b"data", b" to all");
    bench.push(Destination::All, Lane::Control, b"control to all", b"");
    bench.push(Destination::All, Lane::Token, b"token to all", b"");
    bench.flush();
    assert_eq!(receive(&bench.token[1]), b"token");
    assert_eq!(receive(&bench.token[1]), b"control");
    assert_eq!(receive(&bench.data[1]), b"data");
    for other in 1..3 {
        assert_eq!(receive(&bench.data[other]), b"data to all");
        assert_eq!(receive(&bench.data[other]), b"control to all");
        assert_eq!(receive(&bench.token[other]), b"token to all");
    }
    assert!(bench.token.iter().chain(&bench.data).all(is_empty));
    assert_eq!((bench.counters.token_out.datagrams, bench.counters.data_out.datagrams), (4, 5));
}

/// A node at a place of a bench.
fn peer(bench: &Bench, n: u16, at: usize) -> Peer {
    let address = |socket: &UdpSocket| socket.local_addr().unwrap();
    Peer { node: NodeId(n), token: address(&bench.token[at]), data: address(&bench.data[at]) }
}

#[test]
fn what_is_for_one_network_leaves_there_alone_and_what_the_driver_says_in_each() {
    let (near, far) = (Bench::new(), Bench::new());
    let first = network(1, &[peer(&near, 0, 0), peer(&near, 1, 1)]);
    let second = network(2, &[peer(&far, 0, 0), peer(&far, 2, 1)]);
    let own = |socket: &UdpSocket| Rc::new(Socket::from(socket.try_clone().unwrap()));
    let sockets = [&near, &far].map(|bench| ExitSockets {
        token: own(&bench.token[0]),
        data: own(&bench.data[0]),
        has_group: false,
    });
    let seals = Rc::new(Seals::new(identity(0), None, &[]).unwrap());
    let (mut outbox, mut counters) =
        (Outbox::new(&[first, second], sockets.into(), identity(0), seals), DriverCounters::default());
    for is_narrow in [false, true] {
        if is_narrow {
            outbox.set_narrow(narrow(&[(2, 1_000)]));
        }
        let mut push = |to, lane, network, text: &'static str| {
            let datagram = Datagram { head: Bytes::from_static(text.as_bytes()), body: Bytes::new() };
            outbox.push(to, lane, network, datagram);
        };
        push(Destination::All, Lane::Data, 1, "near data");
        push(Destination::All, Lane::Token, 2, "far token");
        push(Destination::One(NodeId(2)), Lane::Data, 2, "far data");
        push(Destination::One(NodeId(1)), Lane::Token, 1, "near token");
        outbox.push_probe(Bytes::from_static(b"probe"));
        outbox.flush(&mut counters);
        assert_eq!((receive(&near.data[1]), receive(&near.token[1])), (b"near data".to_vec(), b"near token".to_vec()));
        assert_eq!((receive(&far.data[1]), receive(&far.token[1])), (b"far data".to_vec(), b"far token".to_vec()));
        assert!([&near, &far].iter().all(|bench| receive(&bench.data[1]) == b"probe"));
        assert!([&near, &far].iter().all(|bench| bench.token.iter().chain(&bench.data).all(is_empty)));
    }
    assert_eq!(counters.send_errors, 0);
}

#[test]
fn who_stands_in_two_networks_is_sent_in_each_what_is_for_that_one() {
    let (near, far) = (Bench::new(), Bench::new());
    let networks =
        [network(1, &[peer(&near, 0, 0), peer(&near, 1, 1)]), network(2, &[peer(&far, 0, 0), peer(&far, 1, 1)])];
    let own = |socket: &UdpSocket| Rc::new(Socket::from(socket.try_clone().unwrap()));
    let sockets = [&near, &far].map(|bench| ExitSockets {
        token: own(&bench.token[0]),
        data: own(&bench.data[0]),
        has_group: false,
    });
    let seals = Rc::new(Seals::new(identity(0), None, &[]).unwrap());
    let (mut outbox, mut counters) =
        (Outbox::new(&networks, sockets.into(), identity(0), seals), DriverCounters::default());
    for (network, bench) in [(2, &far), (1, &near)] {
        for (to, lane) in [(Destination::One(NodeId(1)), Lane::Token), (Destination::All, Lane::Data)] {
            outbox.push(to, lane, network, Datagram { head: Bytes::from(vec![network]), body: Bytes::new() });
        }
        outbox.flush(&mut counters);
        assert_eq!((receive(&bench.token[1]), receive(&bench.data[1])), (vec![network], vec![network]));
    }
    assert!([&near, &far].iter().all(|bench| bench.token.iter().chain(&bench.data).all(is_empty)));
    assert_eq!(counters.send_errors, 0);
}

#[test]
fn long_runs_of_any_lengths_arrive_whole_and_in_order_by_super_packets() {
    let mut bench = Bench::new();
    let lengths: Vec<usize> = (0..300).map(|i| if i % 50 == 49 { i } else { 900 }).collect();
    for (i, len) in lengths.iter().enumerate() {
        let (head, body) = (vec![i as u8; 60], vec![i as u8; len.saturating_sub(60)]);
        bench.push(Destination::One(NodeId(1)), Lane::Data, &head[..60.min(*len)], &body);
    }
    bench.flush();
    for (i, len) in lengths.iter().enumerate() {
        assert_eq!(receive(&bench.data[1]), vec![i as u8; *len], "datagram {i}");
    }
    assert_eq!(bench.counters.data_out.datagrams, 300);
    assert!((6..=12).contains(&bench.counters.gso_batches), "{}", bench.counters.gso_batches);
}

#[test]
fn a_super_packet_ends_at_the_first_that_is_not_as_long() {
    let run = |lengths: &[usize]| -> Vec<Pending> {
        let pending = |len: &usize| Pending {
            target: DatagramTarget::All(0),
            datagram: Datagram { head: Bytes::from(vec![0; *len]), body: Bytes::new() },
        };
        lengths.iter().map(pending).collect()
    };
    let count = |lengths: &[usize], most| dispatch::next_batch(&run(lengths), most).count;
    assert_eq!(count(&[100, 100, 50, 100], 9_000), 3);
    assert_eq!(count(&[100, 100, 101], 9_000), 2);
    assert_eq!(count(&[100, 0, 100], 9_000), 1);
    assert_eq!(count(&[0, 0], 9_000), 1);
    assert_eq!(count(&[1440; 99], 9_000), 45);
    assert_eq!(count(&[100; 99], 9_000), 64);
    assert_eq!(count(&[1440; 99], 1439), 1);
    assert_eq!(count(&[65_000; 9], 65_487), 1);
}

#[test]
fn datagrams_too_long_for_super_packets_go_out_one_by_one() {
    // the loopback interface carries 65,536 bytes in one piece; what it cannot put together must still arrive
    let mut bench = Bench::new();
    for i in 0..4 {
        bench.push(Destination::One(NodeId(1)), Lane::Data, &[i; 60_000], b"");
    }
    bench.flush();
    for i in 0..3u8 {
        assert_eq!(receive(&bench.data[1]), [i; 60_000]);
    }
}

#[test]
fn what_can_never_leave_is_counted_and_stops_nothing() {
    let mut bench = Bench::new();
    bench.push(Destination::One(NodeId(9)), Lane::Data, b"nobody", b"");
    bench.push(Destination::One(NodeId(9)), Lane::Token, b"nobody", b"");
    bench.push(Destination::One(NodeId(1)), Lane::Data, &[0; 40_000], &[0; 40_000]);
    bench.push(Destination::One(NodeId(1)), Lane::Data, b"after", b"");
    bench.flush();
    assert_eq!(receive(&bench.data[1]), b"after");
    assert_eq!(bench.counters.send_errors, 3);
    assert_eq!(bench.counters.data_out.datagrams, 1);
}

/// What arrives of pieces, joined; what is whole, as it is.
fn receive_joined(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let mut driver_packets = driver_packets_of(1);
    let mut next = || driver_packets.take(consort_types::Instant(1), receive(socket).into(), false);
    std::iter::repeat_with(&mut next).flatten().take(count).map(|bytes| bytes.to_vec()).collect()
}

fn narrow(each: &[(u16, usize)]) -> PathLimits {
    let each = each.iter().map(|(node, limit)| (NodeId(*node), *limit)).collect();
    PathLimits { each, ..PathLimits::default() }
}

#[test]
fn who_does_not_get_long_ones_gets_them_in_pieces_and_all_others_whole() {
    let mut bench = Bench::new();
    bench.outbox.set_narrow(narrow(&[(1, 600)]));
    let sent = [vec![1; 600], vec![2; 1_472], vec![3; 1_472], vec![4; 100], vec![5; 601]];
    for datagram in &sent {
        bench.push(Destination::All, Lane::Data, &datagram[..50], &datagram[50..]);
    }
    bench.push(Destination::One(NodeId(1)), Lane::Token, &[6; 700], b"");
    bench.push(Destination::One(NodeId(1)), Lane::Data, &[7; 700], b"");
    bench.push(Destination::All, Lane::Token, &[8; 700], b"");
    bench.flush();
    for datagram in &sent {
        assert!(receive(&bench.data[2]) == *datagram);
    }
    let to_narrow = [&sent[..], &[vec![7; 700]]].concat();
    assert!(receive_joined(&bench.data[1], 6) == to_narrow);
    assert!(receive_joined(&bench.token[1], 2) == [vec![6; 700], vec![8; 700]]);
    assert!(receive(&bench.token[2]) == [8; 700]);
    assert!(bench.token.iter().chain(&bench.data).all(is_empty));
    assert_eq!(bench.counters.datagrams_cut, 6);
}

#[test]
fn sealed_pieces_are_no_longer_than_what_passes_and_make_what_was_sealed() {
    //= W08 test
    let of = |node| move |peers: &[Peer]| crate::seals::tests::of(identity(node), 7, peers);
    let mut bench = Bench::with_seals(of(0));
    let peers = [0, 1].map(|node| Peer { node: NodeId(node), token: address(), data: address() });
    let receiver = of(1)(&peers);
    crate::seals::tests::meet(&[&bench.outbox.seals, &receiver]);
    bench.outbox.set_narrow(narrow(&[(1, 600)]));
    let mut head = consort_wire::BytesMut::zeroed(consort_wire::envelope::LEN);
    consort_wire::envelope::stamp_unsummed(&identity(0), Lane::Data as u8, &mut head);
    (0..3).for_each(|i| bench.push(Destination::All, Lane::Data, &head, &[i; 1_300]));
    bench.flush();
    let whole = receive(&bench.data[2]);
    assert_eq!(whole.len(), head.len() + 1_300 + receiver.overhead(), "who gets all gets it whole");
    let mut driver_packets = crate::driver_packets::tests::sealed_driver_packets_of(1, Rc::clone(&receiver));
    let mut joined = Vec::new();
    for _ in 0..9 {
        let piece = receive(&bench.data[1]);
        assert!(piece.len() <= 600, "{}", piece.len());
        let opened = receiver.open(piece.as_slice().into()).unwrap();
        joined.extend(driver_packets.take(consort_types::Instant(1), opened, false));
    }
    assert!(is_empty(&bench.data[1]) && joined.len() == 3);
    for (n, whole) in joined.iter().enumerate() {
        assert!(whole[head.len()..] == [n as u8; 1_300], "datagram {n}");
    }
}

fn address() -> std::net::SocketAddr {
    (Ipv4Addr::LOCALHOST, 9).into()
}

#[test]
fn no_piece_is_longer_than_what_passes_and_pieces_travel_as_super_packets() {
    //= W08 test
    let mut bench = Bench::new();
    bench.outbox.set_narrow(narrow(&[(1, 972)]));
    (0..20).for_each(|i| bench.push(Destination::One(NodeId(1)), Lane::Data, &[i; 8_900], b""));
    bench.flush();
    assert_eq!((bench.counters.datagrams_cut, bench.counters.data_out.datagrams), (20, 200));
    let lengths: Vec<_> = (0..200).map(|_| receive(&bench.data[1]).len()).collect();
    assert!(lengths.iter().all(|len| *len <= 972), "{lengths:?}");
    assert!(bench.counters.gso_batches >= 3);
}

#[test]
fn probes_leave_whole_and_each_by_itself() {
    let mut bench = Bench::new();
    bench.outbox.set_narrow(narrow(&[(1, 600)]));
    for len in [1_472, 972, 508] {
        bench.outbox.push_probe(vec![0; len].into());
    }
    bench.flush();
    for other in 1..3 {
        assert_eq!([(); 3].map(|()| receive(&bench.data[other]).len()), [1_472, 972, 508]);
    }
    assert_eq!((bench.counters.datagrams_cut, bench.counters.gso_batches), (0, 0));
}

/// A socket stands for the group, and for who listens to it.
fn with_group(bench: &mut Bench) -> UdpSocket {
    let group = socket();
    bench.outbox.exits[0].group = Some(group.local_addr().unwrap().into());
    group
}

#[test]
fn by_multicast_they_go_in_pieces_once_for_all_or_whole_and_in_pieces_to_who_needs_them() {
    let mut bench = Bench::new();
    let group = with_group(&mut bench);
    bench.outbox.set_narrow(narrow(&[(1, 972)]));
    bench.push(Destination::All, Lane::Data, &[1; 1_472], b"");
    bench.push(Destination::All, Lane::Data, &[2; 972], b"");
    bench.flush();
    assert!([receive(&group), receive(&group)] == [vec![1; 1_472], vec![2; 972]]);
    assert!(receive_joined(&bench.data[1], 1) == [[1; 1_472]]);
    bench.outbox.set_narrow(PathLimits { all: Some(600), ..narrow(&[(1, 972), (2, 600)]) });
    bench.push(Destination::All, Lane::Data, &[3; 1_472], b"");
    bench.push(Destination::All, Lane::Data, &[4; 600], b"");
    bench.flush();
    assert!(receive_joined(&group, 2) == [vec![3; 1_472], vec![4; 600]]);
    bench.outbox.set_narrow(PathLimits::default());
    bench.push(Destination::All, Lane::Data, &[5; 1_472], b"");
    bench.flush();
    assert!(receive(&group) == [5; 1_472]);
    assert!(bench.data.iter().all(is_empty) && is_empty(&group));
}

#[test]
fn a_peer_that_is_not_there_stops_nothing() {
    let mut bench = Bench::new();
    drop(bench.token.remove(1));
    for _ in 0..3 {
        bench.push(Destination::One(NodeId(1)), Lane::Token, b"token", b"");
        bench.flush();
    }
    assert_eq!(bench.counters.token_out.datagrams, 3);
}

#[test]
fn a_token_or_a_full_super_packet_is_due_at_once() {
    let mut bench = Bench::new();
    bench.push(Destination::All, Lane::Data, &[0; 1440], b"");
    assert!(!bench.outbox.is_due());
    bench.push(Destination::One(NodeId(1)), Lane::Token, b"token", b"");
    assert!(bench.outbox.is_due());
    bench.flush();
    assert!(!bench.outbox.is_due());
    (0..46).for_each(|_| bench.push(Destination::All, Lane::Data, &[0; 1440], b""));
    assert!(bench.outbox.is_due());
}

#[test]
fn a_kernel_that_takes_no_more_is_waited_for_a_little_and_then_the_rest_is_dropped_and_counted() {
    // a Unix socket stands for a network that is full: it says so while its reader does not read
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full");
    let reader = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let writer = Socket::from(std::os::unix::net::UnixDatagram::unbound().unwrap());
    let pending = |len: usize| Pending {
        target: DatagramTarget::All(0),
        datagram: Datagram { head: Bytes::from(vec![1; len]), body: Bytes::new() },
    };
    let run: Vec<_> = (1..=2_000).map(pending).collect();
    let (mut dispatch, mut counters) = (Dispatch::default(), DriverCounters::default());
    dispatch.begin();
    dispatch.send(&writer, &SockAddr::unix(&path).unwrap(), &run, Lane::Data, &mut counters);
    let sent = counters.data_out.datagrams;
    assert!(sent > 0 && counters.send_drops > 0);
    assert_eq!(sent + counters.send_drops, 2_000);
    reader.set_nonblocking(true).unwrap();
    let received = (1..).take_while(|len| reader.recv(&mut [0; 4_000]).is_ok_and(|n| n == *len)).count();
    assert_eq!(received as u64, sent);
}

#[test]
fn who_does_not_get_what_is_multicast_is_sent_it_by_itself_and_probes_go_both_ways() {
    //= W15 test
    let group = Bench::new();
    let mut bench = Bench::new();
    // The third node's socket of another bench is what all would listen to.
    bench.outbox.exits[0].group = Some(group.data[2].local_addr().unwrap().into());
    let all_but = GroupReach::AllBut([NodeId(2)].into());
    let unsure = [NodeId(2)].into();
    bench.outbox.set_narrow(PathLimits { group: all_but, unsure, ..PathLimits::default() });
    bench.push(Destination::All, Lane::Data, b"one", b"");
    bench.outbox.push_probe(Bytes::from_static(b"probe"));
    bench.flush();
    assert_eq!([receive(&group.data[2]), receive(&group.data[2])], [&b"one"[..], b"probe"]);
    assert_eq!([receive(&bench.data[2]), receive(&bench.data[2])], [&b"one"[..], b"probe"]);
    assert!(is_empty(&bench.data[1]), "it gets what is multicast");
    bench.outbox.set_narrow(PathLimits { group: GroupReach::None, ..narrow(&[(1, 600)]) });
    bench.push(Destination::All, Lane::Data, b"two", b"");
    bench.flush();
    assert_eq!([receive(&bench.data[1]), receive(&bench.data[2])], [b"two", b"two"]);
    assert!(is_empty(&group.data[2]), "no node gets it");
}

#[test]
fn what_the_kernel_refuses_is_counted_with_the_reason() {
    let mut bench = Bench::new();
    let broadcast = std::net::SocketAddr::from(([255, 255, 255, 255], 9));
    bench.outbox.exits[0].peers.get_mut(&NodeId(1)).unwrap().data = broadcast.into();
    (0..3).for_each(|_| bench.push(Destination::One(NodeId(1)), Lane::Data, b"x", b""));
    bench.flush();
    let refused = bench.outbox.take_refused().unwrap();
    assert_eq!((refused.count, refused.error.kind()), (3, std::io::ErrorKind::PermissionDenied));
    assert_eq!((bench.counters.send_errors, refused.to.as_str()), (3, "255.255.255.255:9"));
}
