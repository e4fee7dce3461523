use super::*;
use crate::driver_packets::tests::{driver_packets_of, identity};
use consort_wire::path_mtu::{ALWAYS, Probe, Shape, cut as cut_datagram};
use socket2::{Domain, Protocol, SockAddr, Type};
use std::net::Ipv4Addr;

fn socket() -> Rc<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(Protocol::UDP)).unwrap();
    socket.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    sys::count_overflow(socket.as_fd()).unwrap();
    Rc::new(socket)
}

const MILLISECOND: std::time::Duration = std::time::Duration::from_millis(1);

struct Bench {
    inbox: Inbox,
    counters: DriverCounters,
    sender: Socket,
    token: SockAddr,
    data: SockAddr,
    group: SockAddr,
}

impl Bench {
    fn new(arrival_times: bool) -> Self {
        let (token, data, group) = (socket(), socket(), socket());
        let [token_at, data_at, group_at] = [&token, &data, &group].map(|s| s.local_addr().unwrap());
        let receivers = Receivers { tokens: vec![token], data: vec![data], groups: vec![group], arrival_times };
        Self {
            inbox: Inbox::new(Clock::new(), receivers, driver_packets_of(0)).unwrap(),
            counters: DriverCounters::default(),
            sender: Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap(),
            token: token_at,
            data: data_at,
            group: group_at,
        }
    }

    fn token(&self, bytes: &[u8]) {
        self.sender.send_to(bytes, &self.token).unwrap();
    }

    fn data(&self, bytes: &[u8]) {
        self.sender.send_to(bytes, &self.group).unwrap();
    }

    fn next(&mut self, first: Lane) -> Option<Bytes> {
        self.inbox.next(first, &mut self.counters).map(|arrived| arrived.bytes)
    }

    /// The kernel begins to stamp a while after it was asked to; until then packets are stamped when they are read.
    fn wait_for_stamps(&mut self) {
        for _ in 0..1_000 {
            self.data(b"warm-up");
            std::thread::sleep(MILLISECOND * 2);
            self.mark_all();
            let arrived = self.inbox.next(Lane::Data, &mut self.counters).unwrap();
            if self.inbox.clock.now().since(arrived.at) > MILLISECOND {
                return;
            }
        }
        panic!("the kernel does not stamp");
    }

    fn mark_all(&mut self) {
        (0..3).for_each(|place| self.inbox.mark(place));
    }
}

#[test]
fn after_a_pause_every_socket_is_read_and_a_token_is_found_that_nobody_told_of() {
    //= M54 test
    let mut bench = Bench::new(false);
    bench.mark_all();
    assert!(bench.next(Lane::Data).is_none(), "all are known to be empty");
    bench.token(b"t0");
    bench.data(b"d0");
    assert!(bench.next(Lane::Data).is_none(), "nobody told of it");
    assert_eq!(bench.inbox.next_token(&mut bench.counters).unwrap().bytes, &b"t0"[..]);
    bench.token(b"t1");
    bench.inbox.mark_all();
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"d0"[..]);
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"t1"[..]);
    assert!(!bench.inbox.knows_arrivals());
}

#[test]
fn what_came_in_one_batch_is_held_until_it_is_taken() {
    let mut bench = Bench::new(false);
    bench.data(b"d0");
    bench.data(b"d1");
    bench.mark_all();
    assert!(!bench.inbox.holds_more(), "the kernel has it");
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"d0"[..]);
    assert!(bench.inbox.holds_more());
    bench.token(b"t");
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"d1"[..]);
    assert!(!bench.inbox.holds_more(), "a token that the kernel has is not held");
    assert_eq!(bench.next(Lane::Token).unwrap(), &b"t"[..]);
}

#[test]
fn each_packet_comes_from_the_lane_that_is_wanted_also_inside_a_batch() {
    let mut bench = Bench::new(false);
    for i in 0..4u8 {
        bench.data(&[b'd', i]);
    }
    bench.token(b"t0");
    bench.token(b"t1");
    let order = [Lane::Data, Lane::Token, Lane::Data, Lane::Token, Lane::Token, Lane::Data];
    let taken: Vec<_> = order.iter().map(|lane| bench.next(*lane).unwrap()).collect();
    assert_eq!(taken, [&b"d\x00"[..], b"t0", b"d\x01", b"t1", b"d\x02", b"d\x03"]);
    assert_eq!(bench.next(Lane::Token), None);
    assert_eq!(bench.counters.token_in, LaneTraffic { datagrams: 2, bytes: 4 });
    assert_eq!(bench.counters.data_in, LaneTraffic { datagrams: 4, bytes: 8 });
}

#[test]
fn data_that_came_meanwhile_goes_before_a_waiting_token_without_any_event() {
    let mut bench = Bench::new(false);
    assert_eq!(bench.next(Lane::Data), None);
    bench.token(b"t0");
    bench.token(b"t1");
    bench.mark_all();
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"t0"[..]);
    bench.data(b"d0"); // nobody marks it
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"d0"[..]);
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"t1"[..]);
}

#[test]
fn a_token_that_came_meanwhile_is_found_after_a_few_data_packets_without_any_event() {
    let mut bench = Bench::new(false);
    for i in 0..100u8 {
        bench.data(&[i]);
    }
    assert_eq!(bench.next(Lane::Token).unwrap(), &[0][..]);
    bench.token(b"token");
    let before = (0..100).take_while(|_| bench.next(Lane::Token).unwrap() != b"token"[..]).count();
    assert!(before <= TOKEN_GLANCE as usize, "{before}");
}

#[test]
fn data_to_this_node_alone_is_data_too() {
    let mut bench = Bench::new(false);
    bench.sender.send_to(b"alone", &bench.data).unwrap();
    assert_eq!(bench.next(Lane::Token).unwrap(), &b"alone"[..]);
    assert_eq!(bench.counters.data_in.datagrams, 1);
}

#[test]
fn probes_are_swallowed() {
    let mut bench = Bench::new(true);
    bench.data(b"consort?12345678");
    bench.data(&[2; 600]);
    assert_eq!(bench.next(Lane::Data).unwrap(), &[2; 600][..]);
    assert_eq!(bench.next(Lane::Data), None);
    assert_eq!(bench.counters.data_in.datagrams, 1);
}

#[test]
fn pieces_are_joined_on_every_socket_and_count_as_the_datagram_they_were() {
    let mut bench = Bench::new(false);
    let datagram = vec![9; 9_000];
    let shape = Shape::new(datagram.len(), ALWAYS).unwrap();
    for (id, to) in [(1, &bench.token), (2, &bench.data), (3, &bench.group)] {
        let pieces = cut_datagram(identity(1), id, shape, &datagram, &[]);
        assert!(pieces.map(|piece| bench.sender.send_to(&piece, to).unwrap()).all(|sent| sent <= ALWAYS));
    }
    bench.data(b"after");
    bench.mark_all();
    let mut taken = Vec::new();
    while bench.inbox.has_more() {
        taken.extend(bench.next(Lane::Token));
    }
    assert_eq!(taken.iter().filter(|taken| taken[..] == datagram[..]).count(), 3);
    assert_eq!(taken.len(), 4);
    assert_eq!(bench.counters.token_in, LaneTraffic { datagrams: 1, bytes: 9_000 });
    assert_eq!(bench.counters.data_in, LaneTraffic { datagrams: 3, bytes: 18_005 });
}

#[test]
fn probes_of_others_are_kept_for_the_driver() {
    let mut bench = Bench::new(false);
    bench.data(&Probe { round: 1, reports: Vec::new() }.seal(&identity(2), 1_472));
    bench.data(b"next");
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"next"[..]);
    let probed = bench.inbox.next_probe().unwrap();
    assert_eq!((probed.from, probed.size), (identity(2).me, 1_472));
}

#[test]
fn what_is_longer_than_the_clusters_other_datagrams_arrives_whole_on_every_socket() {
    for arrival_times in [false, true] {
        let mut bench = Bench::new(arrival_times);
        for bytes in [[1; 3_000].as_slice(), &[2; 60_000], &[3; 100]] {
            bench.token(bytes);
            bench.data(bytes);
            bench.sender.send_to(bytes, &bench.data).unwrap();
            bench.mark_all();
            let mut next = || bench.inbox.next(Lane::Data, &mut bench.counters).unwrap().bytes;
            assert_eq!([next(), next(), next()], [bytes, bytes, bytes], "arrival times {arrival_times}");
        }
        assert_eq!(bench.counters.receive_too_long, 0);
    }
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    let mut bench = Bench::new(false);
    bench.data(b"");
    bench.data(b"next");
    assert_eq!(bench.next(Lane::Data).unwrap().len(), 0);
    assert_eq!(bench.next(Lane::Data).unwrap(), &b"next"[..]);
}

#[test]
fn batches_of_mixed_lengths_arrive_whole_and_small_ones_pin_little() {
    let mut bench = Bench::new(false);
    let lengths: Vec<usize> = (0..400).map(|i| if i % 7 == 0 { 1440 } else { i }).collect();
    let mut held = Vec::new();
    for batch in lengths.chunks(20) {
        batch.iter().for_each(|len| bench.data(&vec![*len as u8; *len]));
        bench.mark_all();
        held.extend(std::iter::from_fn(|| bench.next(Lane::Data)));
    }
    assert_eq!(held.iter().map(Bytes::len).collect::<Vec<_>>(), lengths);
    assert!(held.iter().all(|bytes| bytes.iter().all(|b| *b == bytes.len() as u8)));
    let addresses: Vec<_> = held.iter().filter(|b| !b.is_empty()).map(|b| b.as_ptr() as usize).collect();
    let close = addresses.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1440).count();
    assert!(close * 10 > addresses.len() * 9, "{close} of {} lie side by side", addresses.len());
}

#[test]
fn large_ones_lie_at_no_regular_places_of_their_pages() {
    let mut bench = Bench::new(false);
    let sent = vec![7; 10 << 12];
    let places = (0..40).map(|_| {
        bench.data(&sent);
        bench.mark_all();
        let came = bench.next(Lane::Data).unwrap();
        assert!(came == sent);
        came.as_ptr() as usize % 4096
    });
    let places: std::collections::BTreeSet<_> = places.collect();
    assert!(places.len() > 15, "{places:?}");
}

#[test]
fn arrival_times_ascend_and_lie_between_the_send_and_now() {
    let mut bench = Bench::new(true);
    bench.wait_for_stamps();
    let before = bench.inbox.clock.now();
    for _ in 0..3 {
        bench.data(b"stamped");
        std::thread::sleep(MILLISECOND * 2);
    }
    bench.mark_all();
    let times: Vec<_> =
        std::iter::from_fn(|| bench.inbox.next(Lane::Data, &mut bench.counters)).map(|arrived| arrived.at).collect();
    assert_eq!(times.len(), 3);
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) > MILLISECOND), "{times:?}");
    assert!(times[0] >= before && times[2] <= bench.inbox.clock.now());
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let mut bench = Bench::new(false);
    bench.inbox.data.sockets[1].socket.set_recv_buffer_size(4096).unwrap();
    (0..100).for_each(|_| drop(bench.sender.send_to(&[0; 1440], &bench.data)));
    let mut taken = std::iter::from_fn(|| bench.next(Lane::Data)).count();
    // the count rides on the next datagram that finds room
    bench.sender.send_to(b"x", &bench.data).unwrap();
    bench.mark_all();
    taken += std::iter::from_fn(|| bench.next(Lane::Data)).count();
    let (alone, group) = bench.inbox.overflow();
    assert_eq!((alone as usize + taken, group), (101, 0));
    assert!(alone > 0);
}

#[test]
fn the_kernels_count_may_wrap() {
    let mut overflow = Overflow { last: u32::MAX - 1, total: 5 };
    overflow.see(3);
    assert_eq!((overflow.total, overflow.last), (10, 3));
}
