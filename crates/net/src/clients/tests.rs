use super::acceptor::CLOSED_FOR;
use super::*;
use crate::options::ListenAddress;
use mio::{Events, Poll};
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tempfile::TempDir;

const NOW: Instant = Instant::ZERO;

struct Bench {
    poll: Poll,
    clients: ClientConnections,
    counters: DriverCounters,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listeners =
            [ListenAddress::Unix(folder.path().join("socket")), ListenAddress::Tcp(([127, 0, 0, 1], 0).into())];
        let listeners = listeners
            .iter()
            .map(|address| (Listener::open(address, Dialect::Native).unwrap(), Dialect::Native))
            .collect();
        let poll = Poll::new().unwrap();
        let clients =
            ClientConnections::new(poll.registry().try_clone().unwrap(), listeners, Users::new(Vec::new()), 0..10)
                .unwrap();
        Self { poll, clients, counters: DriverCounters::default(), folder }
    }

    fn connect(&mut self) -> (UnixStream, ClientId) {
        let stream = UnixStream::connect(self.folder.path().join("socket")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (stream, self.accept())
    }

    fn connect_by_tcp(&mut self) -> (TcpStream, ClientId) {
        let ListenAddress::Tcp(address) = self.clients.acceptors[1].listener.address() else { unreachable!() };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (stream, self.accept())
    }

    /// Lets the next connection have the highest number there is.
    fn skip_to_the_last_number(&mut self) {
        self.clients.next = ClientId::SPREAD - 1;
    }

    fn accept(&mut self) -> ClientId {
        loop {
            if let Some(id) = self.clients.accept(NOW, &mut self.counters).first() {
                return *id;
            }
            self.wait();
        }
    }

    /// Waits for events and hands them over.
    fn wait(&mut self) {
        let mut events = Events::with_capacity(64);
        self.poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
        for event in &events {
            match event.token().0 {
                listener @ 0..10 => self.clients.on_listener_ready(listener),
                _ => self.clients.event(event),
            }
        }
    }

    /// Reads in turn until `until` is satisfied by what came; returns all.
    fn hear(&mut self, until: impl Fn(&[(ClientId, ReadOutcome)]) -> bool) -> Vec<(ClientId, ReadOutcome)> {
        let mut heard = Vec::new();
        while !until(&heard) {
            match self.clients.next_readable() {
                Some(id) => {
                    let said = self.clients.read(id, &mut self.counters);
                    if !matches!(said, ReadOutcome::Nothing) {
                        heard.push((id, said));
                    }
                }
                None => self.wait(),
            }
        }
        heard
    }
}

fn bytes_of(heard: &[(ClientId, ReadOutcome)], client: ClientId) -> usize {
    let len = |said: &ReadOutcome| if let ReadOutcome::Bytes(bytes) = said { bytes.len() } else { 0 };
    heard.iter().filter(|(id, _)| *id == client).map(|(_, said)| len(said)).sum()
}

#[test]
fn what_clients_send_is_read_in_turn_to_the_last_byte_before_their_end() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    let (mut two, second) = bench.connect_by_tcp();
    assert_ne!(first, second);
    let writers = [
        std::thread::spawn(move || one.write_all(&[1; 1_000_000]).unwrap()),
        std::thread::spawn(move || two.write_all(&[2; 1_000_000]).unwrap()),
    ];
    let ended = |heard: &[(ClientId, ReadOutcome)]| {
        heard.iter().filter(|(_, said)| matches!(said, ReadOutcome::Ended)).count() == 2
    };
    let heard = bench.hear(ended);
    assert_eq!((bytes_of(&heard, first), bytes_of(&heard, second)), (1_000_000, 1_000_000));
    assert_eq!(bench.clients.count(), 0);
    assert_eq!(bench.counters.client_in_bytes, 2_000_000);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn a_paused_client_is_left_alone_until_it_is_resumed_and_so_is_its_end() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    bench.clients.pause(first);
    one.write_all(b"later").unwrap();
    drop(one);
    bench.wait();
    assert_eq!(bench.clients.next_readable(), None);
    assert!(bench.clients.has_more(), "the node is to know that it reads no more");
    assert_eq!(bench.clients.next_deafened(), Some(first));
    assert_eq!(bench.clients.next_deafened(), None);
    assert!(!bench.clients.has_more());
    bench.clients.resume(first);
    let heard = bench.hear(|heard| heard.len() == 2);
    assert!(matches!(&heard[0].1, ReadOutcome::Bytes(bytes) if bytes == "later"), "{heard:?}");
    assert!(matches!(heard[1].1, ReadOutcome::Ended));
}

#[test]
fn a_client_that_is_served_does_not_wait_for_all_new_ones_and_few_of_these_are_accepted_ahead() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    assert!(bench.clients.is_newcomer(first));
    bench.clients.note_served(first);
    assert!(!bench.clients.is_newcomer(first));
    while bench.clients.next_readable().is_some() {}
    let socket = bench.folder.path().join("socket");
    let silent: Vec<_> = (0..200).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    one.write_all(b"mine").unwrap();
    bench.wait();
    let accepted: usize = (0..200).map(|_| bench.clients.accept(NOW, &mut bench.counters).len()).sum();
    assert!((16..100).contains(&accepted), "{accepted}");
    // Others are accepted although nothing was read from those that are sent away.
    let unread: Vec<_> = bench.clients.open.keys().copied().filter(|id| *id != first).collect();
    unread.iter().for_each(|id| bench.clients.dismiss(*id, NOW));
    assert!(!bench.clients.accept(NOW, &mut bench.counters).is_empty());
    let turns: Vec<_> = (0..2).filter_map(|_| bench.clients.next_readable()).collect();
    assert!(turns.contains(&first), "{turns:?}");
    assert!(bench.clients.has_more(), "the others have their turns, too");
    drop(silent);
}

#[test]
fn output_is_written_as_the_client_reads_and_nothing_spins_meanwhile() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    let output: Vec<u8> = (0..3_000_000).map(|i| (i % 251) as u8).collect();
    bench.clients.queue_writing(first);
    let mut written = 0;
    while let Some(id) = bench.clients.next_writable() {
        let Wrote::Bytes(n) = bench.clients.write(id, &[IoSlice::new(&output[written..])], &mut bench.counters) else {
            panic!()
        };
        written += n;
    }
    assert!(written < output.len());
    bench.clients.queue_writing(first);
    assert_eq!(bench.clients.next_writable(), None, "a full client waits for room");
    let expected = output.clone();
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; expected.len()];
        one.read_exact(&mut read).unwrap();
        assert!(read == expected);
        one
    });
    while written < output.len() {
        match bench.clients.next_writable() {
            Some(id) => match bench.clients.write(id, &[IoSlice::new(&output[written..])], &mut bench.counters) {
                Wrote::Bytes(n) => written += n,
                Wrote::Ended => panic!("ended"),
            },
            None => bench.wait(),
        }
    }
    reader.join().unwrap();
    assert_eq!(bench.counters.client_out_bytes, 3_000_000);
}

#[test]
fn a_client_that_reads_no_more_is_still_heard_to_the_end() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    one.write_all(b"last words").unwrap();
    drop(one);
    bench.clients.queue_writing(first);
    assert_eq!(bench.clients.next_writable(), Some(first));
    assert_eq!(bench.clients.write(first, &[IoSlice::new(b"hello")], &mut bench.counters), Wrote::Bytes(0));
    assert_eq!(bench.clients.write(first, &[IoSlice::new(b"hello")], &mut bench.counters), Wrote::Bytes(5));
    assert_eq!(bench.counters.client_out_bytes, 0);
    let heard = bench.hear(|heard| heard.iter().any(|(_, said)| matches!(said, ReadOutcome::Ended)));
    assert_eq!(bytes_of(&heard, first), 10);
}

#[test]
fn a_dismissed_client_reads_its_output_and_the_end_though_it_still_talks() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect_by_tcp();
    one.write_all(b"garbage").unwrap();
    bench.clients.dismiss(first, NOW);
    assert_eq!(bench.clients.next_writable(), Some(first));
    assert_eq!(bench.clients.write(first, &[IoSlice::new(b"farewell")], &mut bench.counters), Wrote::Bytes(8));
    assert_eq!(bench.clients.next_writable(), Some(first));
    assert_eq!(bench.clients.write(first, &[IoSlice::new(b"")], &mut bench.counters), Wrote::Bytes(0));
    let mut read = Vec::new();
    one.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"farewell");
    drop(one);
    let heard = bench.hear(|heard| !heard.is_empty());
    assert!(matches!(heard[..], [(id, ReadOutcome::Ended)] if id == first));
}

#[test]
fn a_dismissed_client_that_does_not_read_is_closed_when_its_time_is_over() {
    let mut bench = Bench::new();
    let (_one, first) = bench.connect();
    bench.clients.dismiss(first, NOW);
    assert_eq!(bench.clients.poll_timeout(), Some(NOW + FAREWELL));
    assert_eq!(bench.clients.expire(NOW), []);
    assert_eq!(bench.clients.expire(NOW + FAREWELL), [first]);
    assert_eq!((bench.clients.count(), bench.clients.poll_timeout()), (0, None));
}

#[test]
fn small_reads_pin_no_chunk() {
    let mut bench = Bench::new();
    let (mut one, first) = bench.connect();
    one.write_all(&[5; 100]).unwrap();
    let heard = bench.hear(|heard| bytes_of(heard, first) == 100);
    let start = bench.clients.arena.room(1).as_ptr() as usize;
    let ReadOutcome::Bytes(bytes) = &heard[0].1 else { panic!() };
    assert!(!(start..start + CHUNK).contains(&(bytes.as_ptr() as usize)));
}

#[test]
fn a_listener_without_descriptors_pauses_and_accepts_again() {
    let mut bench = Bench::new();
    bench.clients.acceptors[0].closed_until = Some(NOW + CLOSED_FOR);
    let _waiting = UnixStream::connect(bench.folder.path().join("socket")).unwrap();
    bench.wait();
    assert!(bench.clients.accept(NOW, &mut bench.counters).is_empty());
    assert_eq!(bench.clients.poll_timeout(), Some(NOW + CLOSED_FOR));
    assert_eq!(bench.clients.accept(NOW + CLOSED_FOR, &mut bench.counters).len(), 1);
    assert_eq!(bench.clients.poll_timeout(), None);
}

#[test]
fn with_as_many_connections_as_there_may_be_nobody_is_accepted_until_one_ends() {
    let mut bench = Bench::new();
    bench.clients.most = 1;
    let (one, first) = bench.connect();
    let _waiting = UnixStream::connect(bench.folder.path().join("socket")).unwrap();
    bench.wait();
    assert!(bench.clients.accept(NOW, &mut bench.counters).is_empty());
    assert_eq!(bench.clients.poll_timeout(), Some(NOW + CLOSED_FOR));
    drop(one);
    bench.hear(|heard| heard.iter().any(|(id, said)| *id == first && matches!(said, ReadOutcome::Ended)));
    assert_eq!(bench.clients.accept(NOW + CLOSED_FOR, &mut bench.counters).len(), 1);
}

#[test]
fn where_another_finds_no_room_those_on_their_way_out_that_said_nothing_go_at_once() {
    let mut bench = Bench::new();
    bench.clients.most = 3;
    let (_silent, silent) = bench.connect();
    let (mut speaks, spoke) = bench.connect();
    speaks.write_all(&[5; 100]).unwrap();
    bench.hear(|heard| bytes_of(heard, spoke) == 100);
    [silent, spoke].into_iter().for_each(|id| bench.clients.dismiss(id, NOW));
    assert!(bench.clients.expire(NOW).is_empty(), "there is room for another");
    let _third = bench.connect();
    let _waiting = UnixStream::connect(bench.folder.path().join("socket")).unwrap();
    bench.wait();
    assert_eq!(bench.clients.expire(NOW), [silent], "the other one is still to read why it goes");
    assert_eq!(bench.clients.accept(NOW, &mut bench.counters).len(), 1);
}

#[test]
fn connections_whose_time_is_over_are_closed_a_few_at_a_time() {
    let mut bench = Bench::new();
    let all: Vec<_> = (0..EXPIRES + 3).map(|_| bench.connect()).collect();
    all.iter().for_each(|(_, id)| bench.clients.dismiss(*id, NOW));
    assert_eq!(bench.clients.expire(NOW + FAREWELL).len(), EXPIRES);
    assert_eq!(bench.clients.poll_timeout(), Some(NOW + FAREWELL), "the others wait for the next turn");
    assert_eq!(bench.clients.expire(NOW + FAREWELL).len(), 3);
}

#[test]
fn a_unix_client_is_described_by_its_process() {
    let mut bench = Bench::new();
    let (_one, first) = bench.connect();
    let described = bench.clients.open[&first].stream.describe();
    assert!(described.starts_with(&format!("process {} of user ", std::process::id())), "{described}");
}

mod shared;

#[test]
fn behind_the_highest_number_come_those_that_no_open_connection_has() {
    let mut bench = Bench::new();
    let (_one, first) = bench.connect();
    bench.skip_to_the_last_number();
    let (_two, last) = bench.connect();
    let (_three, again) = bench.connect();
    assert_eq!([first, last, again], [1, ClientId::SPREAD - 1, 2].map(ClientId));
    assert!(!last.speaks_spread() && !again.speaks_spread());
}
