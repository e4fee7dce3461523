//! Real sockets of this machine, and ends that are driven by hand.
use super::*;
use crate::clock::Clock;
use bytes::{BufMut, BytesMut};
use consort_types::{ClusterId, ConfigHash};
use consort_wire::{Lane, Proof, envelope};
use mio::{Events, Poll};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

const NAME: Token = Token(1);
const PATIENCE: Duration = Duration::from_secs(60);

fn identity(node: u16, incarnation: u64) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, incarnation) }
}

/// One node's links and its event loop.
struct End {
    poll: Poll,
    links: Links,
    counters: DriverCounters,
    clock: Clock,
    changes: Vec<(u16, Link)>,
    frames: Vec<Bytes>,
}

impl End {
    fn new(identity: Identity, listener: TcpListener, peers: &[Peer]) -> Self {
        Self::with_seals(identity, Rc::new(Seals::new(identity, None, peers).unwrap()), listener, peers)
    }

    fn with_seals(identity: Identity, seals: Rc<Seals>, listener: TcpListener, peers: &[Peer]) -> Self {
        let poll = Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let links = Links::new(identity, seals, registry, listener, peers, NAME, 16..64).unwrap();
        let (changes, frames) = (Vec::new(), Vec::new());
        Self { poll, links, counters: DriverCounters::default(), clock: Clock::new(), changes, frames }
    }

    fn turn(&mut self) {
        let now = self.clock.now();
        self.links.tend(now, &mut self.counters);
        while let Some(input) = self.links.next(now, &mut self.counters) {
            match input {
                LinkInput::Changed(node, link) => self.changes.push((node.0, link)),
                LinkInput::Frame(_, frame) => self.frames.push(frame),
            }
        }
        self.links.flush(now, &mut self.counters);
        let mut events = Events::with_capacity(16);
        self.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
        for event in &events {
            match event.token() {
                NAME => self.links.on_listener_ready(),
                _ => self.links.event(self.clock.now(), event, &mut self.counters),
            }
        }
    }

    fn push(&mut self, to: u16, frame: &Datagram) {
        self.links.push(self.clock.now(), Destination::One(NodeId(to)), frame, &mut self.counters);
    }

    fn is_up(&self, node: u16) -> bool {
        self.links.each().any(|(peer, up)| peer.0 == node && up)
    }
}

fn listeners(n: u16) -> (Vec<TcpListener>, Vec<Peer>) {
    let listeners: Vec<_> = (0..n).map(|_| listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap()).collect();
    let peer = |(listener, node): (&TcpListener, u16)| {
        let token = listener.local_addr().unwrap();
        Peer { node: NodeId(node), token, data: token }
    };
    let peers = listeners.iter().zip(1..).map(peer).collect();
    (listeners, peers)
}

fn pair() -> ([End; 2], Vec<Peer>) {
    let (listeners, peers) = listeners(2);
    let ends: Vec<_> =
        listeners.into_iter().zip(1..).map(|(listener, n)| End::new(identity(n, 7), listener, &peers)).collect();
    (ends.try_into().ok().unwrap(), peers)
}

fn until(ends: &mut [&mut End], what: &str, holds: impl Fn(&[&mut End]) -> bool) {
    let began = std::time::Instant::now();
    while !holds(ends) {
        assert!(began.elapsed() < PATIENCE, "{what} did not come about");
        ends.iter_mut().for_each(|end| end.turn());
    }
}

fn linked() -> ([End; 2], Vec<Peer>) {
    let (mut ends, peers) = pair();
    let [one, two] = &mut ends;
    until(&mut [one, two], "a link", |ends| ends[0].is_up(2) && ends[1].is_up(1));
    (ends, peers)
}

fn frame(number: u32, body: usize) -> Datagram {
    let mut head = BytesMut::zeroed(envelope::LEN);
    head.put_u32(number);
    Datagram { head: head.freeze(), body: vec![number as u8; body].into() }
}

fn whole(frame: &Datagram) -> Bytes {
    [&frame.head[..], &frame.body[..]].concat().into()
}

#[test]
fn frames_of_every_size_come_in_order_and_both_ways() {
    let ([mut one, mut two], _) = linked();
    let frames: Vec<_> = (0..600).map(|n| frame(n, [0, 9, 2_048, 2_049, 70_000, 300_000][n as usize % 6])).collect();
    for frame in &frames {
        one.push(2, frame);
        two.push(1, frame);
        if frame.body.len() > 100_000 {
            one.turn();
            two.turn();
        }
    }
    let sent: Vec<_> = frames.iter().map(whole).collect();
    until(&mut [&mut one, &mut two], "all frames", |ends| ends.iter().all(|end| end.frames.len() == sent.len()));
    assert!(one.frames == sent && two.frames == sent);
    assert_eq!((one.changes, two.changes), (vec![(2, Link::Up)], vec![(1, Link::Up)]));
    assert_eq!(one.counters.link_in.bytes, sent.iter().map(|frame| frame.len() as u64).sum::<u64>());
}

#[test]
fn a_link_is_set_up_again_with_the_next_incarnation_whoever_dials() {
    for stays in [0, 1] {
        let (ends, peers) = linked();
        let mut ends = Vec::from(ends);
        let mut stays_up = ends.swap_remove(stays);
        drop(ends);
        let gone = if stays == 0 { 2 } else { 1 };
        until(&mut [&mut stays_up], "the end", |ends| !ends[0].is_up(gone));
        stays_up.push(gone, &frame(1, 5));
        assert_eq!(stays_up.counters.link_frames_unsent, 1);
        let mut next = End::new(identity(gone, 8), listen(peers[usize::from(gone) - 1].token).unwrap(), &peers);
        until(&mut [&mut stays_up, &mut next], "a new link", |ends| {
            ends[0].is_up(gone) && ends[1].links.each().all(|up| up.1)
        });
        assert_eq!(stays_up.changes, [(gone, Link::Up), (gone, Link::Down), (gone, Link::Up)]);
        stays_up.push(gone, &frame(2, 5));
        until(&mut [&mut stays_up, &mut next], "a frame", |ends| ends[1].frames.len() == 1);
    }
}

#[test]
fn a_link_whose_other_end_does_not_read_breaks_at_its_budget_and_comes_again() {
    let ([mut one, mut two], _) = linked();
    let mut pushed = 0;
    while one.is_up(2) {
        one.push(2, &frame(0, 1 << 20));
        one.turn();
        pushed += 1;
        assert!(pushed < 400, "{pushed} MiB wait");
    }
    assert!(pushed > BUDGET >> 20, "{pushed} MiB");
    until(&mut [&mut one, &mut two], "a link", |ends| {
        ends[0].is_up(2) && ends[1].is_up(1) && ends[1].changes.len() >= 3
    });
    assert_eq!(one.changes, [(2, Link::Up), (2, Link::Down), (2, Link::Up)]);
}

#[test]
fn frames_that_lead_nowhere_are_counted_and_dropped() {
    let ([mut one, _two], _) = linked();
    let big = Datagram { head: Bytes::new(), body: vec![0; FRAME_MAX + 1].into() };
    one.push(2, &big);
    one.push(1, &frame(0, 0));
    one.push(9, &frame(0, 0));
    one.links.push(Instant::ZERO, Destination::All, &frame(0, 0), &mut one.counters);
    assert_eq!((one.counters.link_frames_unsent, one.is_up(2)), (4, true));
}

/// What a stranger says to node 2: bytes, as a frame.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn hello(identity: &Identity, to: u16) -> Vec<u8> {
    framed(&hello::seal(identity, NodeId(to)))
}

/// Says something to an end, and waits until it hangs up; returns what it answered.
fn provoke(end: &mut End, address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut answer, mut room) = (Vec::new(), [0; 1_000]);
    let began = std::time::Instant::now();
    loop {
        end.turn();
        match stream.read(&mut room) {
            Ok(0) => return answer,
            Ok(n) => answer.extend_from_slice(&room[..n]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return answer,
        }
        assert!(began.elapsed() < PATIENCE, "nobody hangs up after {bytes:x?}");
    }
}

#[test]
fn strangers_are_sent_away_and_disturb_no_link() {
    let ([mut one, mut two], peers) = linked();
    let address = peers[1].token;
    let good = identity(1, 9);
    let mut other_lane = BytesMut::new();
    envelope::reserve(&mut other_lane);
    other_lane.put_u16(2);
    envelope::seal(&good, Lane::Data, &mut other_lane, &[]);
    let mut torn = hello(&good, 2);
    torn[50] ^= 1;
    let wrong = [
        hello(&Identity { config: ConfigHash(3), ..good }, 2),
        hello(&Identity { cluster: ClusterId(9), ..good }, 2),
        hello(&identity(9, 1), 2),
        hello(&identity(0, 1), 2),
        hello(&identity(2, 7), 2),
        hello(&identity(2, 8), 2),
        hello(&good, 3),
        hello(&identity(1, 6), 2),
        framed(&other_lane),
        framed(&hello(&good, 2)),
        torn,
        vec![0xff; 100],
        vec![0; 5],
        (1u32 << 30).to_be_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    for (n, bytes) in wrong.iter().enumerate() {
        assert!(provoke(&mut two, address, bytes).is_empty(), "case {n}");
        assert_eq!(two.counters.links_refused, n as u64 + 1, "case {n}");
    }
    one.push(2, &frame(1, 5));
    until(&mut [&mut one, &mut two], "a frame", |ends| ends[1].frames.len() == 1);
    assert_eq!((one.changes.len(), two.changes.len()), (1, 1), "the link stood all the while");
}

#[test]
fn half_a_hello_and_half_a_frame_are_no_harm() {
    let (mut ends, peers) = pair();
    let two = &mut ends[1];
    let good = hello(&identity(1, 9), 2);
    for len in [0, 1, 4, 5, good.len() - 1] {
        let mut stream = TcpStream::connect(peers[1].token).unwrap();
        stream.write_all(&good[..len]).unwrap();
        (0..3).for_each(|_| two.turn());
        drop(stream);
        until(&mut [two], "the end", |ends| ends[0].links.open.is_empty());
        assert!(two.changes.is_empty());
    }
    let mut stream = TcpStream::connect(peers[1].token).unwrap();
    stream.write_all(&[&good[..], &1_000u32.to_be_bytes(), &[0; 999]].concat()).unwrap();
    until(&mut [two], "a link", |ends| ends[0].is_up(1));
    drop(stream);
    until(&mut [two], "the end", |ends| !ends[0].is_up(1));
    assert_eq!((two.changes.len(), two.frames.len()), (2, 0));
}

#[test]
fn whoever_breaks_the_form_of_a_standing_link_loses_it() {
    let (mut ends, peers) = pair();
    let two = &mut ends[1];
    for (length, n) in [0, 55, FRAME_MAX as u32 + 1, u32::MAX].into_iter().zip(1..) {
        let bytes = [&hello(&identity(1, 9), 2)[..], &length.to_be_bytes(), &[7; 600]].concat();
        provoke(two, peers[1].token, &bytes);
        assert_eq!((two.changes.len(), two.counters.links_refused), (2 * n, n as u64));
    }
    let mut stream = TcpStream::connect(peers[1].token).unwrap();
    stream.write_all(&hello(&identity(1, 9), 2)).unwrap();
    until(&mut [two], "a link", |ends| ends[0].is_up(1));
    two.links.reject(two.clock.now(), NodeId(1), &mut two.counters);
    assert!(!two.is_up(1));
}

#[test]
fn of_two_connections_the_later_counts_unless_it_is_an_earlier_incarnations() {
    let (mut ends, peers) = pair();
    let two = &mut ends[1];
    let mut open = Vec::new();
    for (incarnation, changes) in [(9, 1), (9, 3), (10, 5)] {
        let mut stream = TcpStream::connect(peers[1].token).unwrap();
        stream.write_all(&hello(&identity(1, incarnation), 2)).unwrap();
        until(&mut [two], "a link", |ends| ends[0].changes.len() == changes);
        open.push(stream);
    }
    assert!(provoke(two, peers[1].token, &hello(&identity(1, 9), 2)).is_empty());
    assert!(two.is_up(1));
    assert_eq!((two.changes.len(), two.links.open.len()), (5, 1));
}

#[test]
fn those_who_say_nothing_are_few_and_go_in_time() {
    let ([mut one, mut two], peers) = pair();
    let silent: Vec<_> = (0..60).map(|_| TcpStream::connect(peers[1].token).unwrap()).collect();
    until(&mut [&mut one, &mut two], "a link", |ends| ends[0].is_up(2) && ends[1].is_up(1));
    let strangers = two.links.open.values().filter(|one| one.stranger_until().is_some()).count();
    assert!((1..=STRANGERS + 1).contains(&strangers), "{strangers}");
    two.links.tend(two.clock.now() + GREETING, &mut two.counters);
    assert_eq!(two.links.open.len(), 1);
    drop(silent);
}

#[test]
fn no_hello_panics() {
    let good = hello::seal(&identity(1, 9), NodeId(2));
    assert_eq!(hello::read(&identity(2, 7), Proof::Checksum, good.clone()), Ok(MemberId::new(1, 9)));
    consort_wire::mutate::each(&good, 5_000, |bytes| {
        let _ = hello::read(&identity(2, 7), Proof::Checksum, Bytes::copy_from_slice(bytes));
    });
}

/// Two ends with a key, which hear each other where `met`.
fn sealed(met: bool) -> [End; 2] {
    let (listeners, peers) = listeners(2);
    let seals = [1, 2].map(|n| crate::seals::tests::of(identity(n, 7), 7, &peers));
    if met {
        crate::seals::tests::meet(&[&seals[0], &seals[1]]);
    }
    let ends = listeners.into_iter().zip(seals).zip(1..);
    let ends: Vec<_> =
        ends.map(|((listener, seals), n)| End::with_seals(identity(n, 7), seals, listener, &peers)).collect();
    ends.try_into().ok().unwrap()
}

#[test]
fn sealed_frames_of_every_size_come_as_they_were_written() {
    let [mut one, mut two] = sealed(true);
    until(&mut [&mut one, &mut two], "a link", |ends| ends[0].is_up(2) && ends[1].is_up(1));
    let frames: Vec<_> = (0..200)
        .map(|n| {
            let body = [0, 9, 2_048, 2_049, 70_000, 300_000][n as usize % 6];
            let mut head = BytesMut::new();
            envelope::reserve(&mut head);
            head.put_u32(n);
            envelope::stamp_unsummed(&identity(1, 7), Lane::Reliable as u8, &mut head);
            Datagram { head: head.freeze(), body: vec![n as u8; body].into() }
        })
        .collect();
    for frame in &frames {
        one.push(2, frame);
        one.turn();
        two.turn();
    }
    until(&mut [&mut one, &mut two], "all frames", |ends| ends[1].frames.len() == frames.len());
    for (sent, came) in frames.iter().zip(&two.frames) {
        let open = |bytes: Bytes| envelope::open_as(&identity(2, 7), Proof::Opened, bytes).unwrap();
        assert!(open(whole(sent)) == open(came.clone()));
    }
    assert_eq!((one.changes.len(), two.changes.len()), (1, 1));
}

#[test]
fn nobody_links_who_has_not_proven_its_key() {
    let [mut one, mut two] = sealed(false);
    until(&mut [&mut one, &mut two], "refusals", |ends| ends[1].counters.links_refused >= 3);
    assert!(!one.is_up(2) && !two.is_up(1));
    let address = two.links.own;
    let before = two.counters.links_refused;
    assert!(provoke(&mut two, address, &hello(&identity(1, 7), 2)).is_empty(), "a plain hello is no answer to a seal");
    assert!(two.counters.links_refused > before && !two.is_up(1));
}
