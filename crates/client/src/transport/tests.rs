use super::*;
use crate::inbox::EventReader;
use crate::outbox::SendBuffer;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::stream::vain;
use crate::{Address, Client, ClientName, Error, Event, GroupName, Service, Shown, Welcome};
use bytes::BytesMut;
use consort_session::client::RequestWriter;
use consort_session::request::put_multicast;
use consort_types::{ClientId, Incarnation, MemberId, NodeId};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

const LONG: Duration = Duration::from_secs(60);

/// A client that has said hello with an offer, and the daemon's end of its socket with what came there.
fn offered() -> (DaemonStream, TransportReader, UnixStream, consort_shm::MemoryFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut stream = DaemonStream::connect(&Address::Unix(path), &crate::ConnectOptions::default()).unwrap().0;
    let offer = offer();
    stream.introduce(b"hello", offer.as_ref(), LONG).unwrap();
    let daemon = listener.accept().unwrap().0;
    let (n, file) = consort_shm::receive(daemon.as_fd(), &mut [0; 99]).unwrap();
    assert_eq!(n, 5);
    let incoming = TransportReader::new(stream.try_clone().unwrap(), offer);
    (stream, incoming, daemon, file.unwrap())
}

/// A client whose offer a daemon has taken.
fn taken() -> (TransportWriter, TransportReader, Daemon) {
    let (stream, mut incoming, socket, file) = offered();
    let offer = MemoryOffer::new(64 << 10).unwrap();
    let own = offer.file().try_clone_to_owned().unwrap();
    let (writer, reader) = offer.accept(file, RING).unwrap();
    consort_shm::send(socket.as_fd(), &[TAKEN], own.as_fd()).unwrap();
    assert_eq!(incoming.read(&mut [0; 9], Some(Duration::ZERO)).unwrap(), None, "taken, and nothing more yet");
    (incoming.outgoing(stream), incoming, Daemon { socket, writer, reader })
}

struct Daemon {
    socket: UnixStream,
    writer: RingWriter,
    reader: RingReader,
}

impl Daemon {
    fn tell(&mut self, bytes: &[u8]) -> usize {
        let n = self.writer.write(&[IoSlice::new(bytes)]).unwrap();
        if self.writer.wakes_reader() {
            self.socket.write_all(&[0]).unwrap();
        }
        n
    }

    fn tell_all(&mut self, bytes: &[u8]) {
        let mut told = 0;
        while told < bytes.len() {
            told += self.tell(&bytes[told..]);
            std::thread::yield_now();
        }
    }

    /// Reads what there is; where there is nothing, sleeps once.
    fn hear(&mut self, bytes: &mut [u8]) -> usize {
        let n = self.reader.read(bytes).unwrap();
        if self.reader.wakes_writer() {
            self.socket.write_all(&[0]).unwrap();
        }
        if n == 0 && self.reader.begin_sleep().unwrap() {
            assert!(self.socket.read(&mut [0; 64]).unwrap() > 0);
        }
        self.reader.end_sleep();
        n
    }

    /// Sends back what comes, by small steps, until so much has come.
    fn echo(mut self, len: usize) -> Self {
        let (mut bytes, mut echoed) = (vec![0; 7_000], 0);
        while echoed < len {
            let n = self.hear(&mut bytes);
            self.tell_all(&bytes[..n]);
            echoed += n;
        }
        self
    }

    /// Takes so many bytes by small steps, and before the first ones tells the messages.
    fn take(mut self, len: usize, messages: &[(u8, usize)]) -> Self {
        let (mut bytes, mut taken, mut messages) = (vec![0; 7_000], 0, messages.iter());
        while taken < len {
            if let Some((number, len)) = messages.next() {
                self.tell_all(&message(*number, *len));
            }
            taken += self.hear(&mut bytes);
        }
        self
    }
}

/// Writes all of it, with as much patience as that takes.
fn write_all(outgoing: &mut TransportWriter, bytes: &[u8]) {
    let mut written = 0;
    while written < bytes.len() {
        written += outgoing.write(&bytes[written..], Some(Duration::from_millis(10))).unwrap().unwrap_or(0);
    }
}

#[test]
fn two_threads_write_and_read_through_memory_to_the_end() {
    let (mut outgoing, mut incoming, daemon) = taken();
    let sent: Vec<u8> = (0..2_000_000).map(|i| (i % 249) as u8).collect();
    let echoes = std::thread::spawn(move || daemon.echo(2_000_000));
    let copy = sent.clone();
    let writes = std::thread::spawn(move || (write_all(&mut outgoing, &copy), outgoing));
    let (mut read, mut bytes) = (Vec::new(), vec![0; 100_000]);
    while read.len() < sent.len() {
        let n = incoming.read(&mut bytes, Some(LONG)).unwrap().expect("something in time");
        read.extend_from_slice(&bytes[..n]);
    }
    assert!(read == sent);
    let mut daemon = echoes.join().unwrap();
    assert_eq!(incoming.read(&mut bytes, Some(Duration::from_millis(1))).unwrap(), None);
    assert_eq!(daemon.tell(b"last words"), 10);
    drop((daemon, writes.join().unwrap()));
    assert_eq!(incoming.read(&mut bytes, None).unwrap(), Some(10));
    assert_eq!(
        (incoming.read(&mut bytes, None).unwrap(), incoming.read(&mut bytes, None).unwrap()),
        (Some(0), Some(0))
    );
}

/// The frame of an agreed message to `g` whose payload tells its number, of so many bytes.
fn message(number: u8, len: usize) -> Vec<u8> {
    let front = b"\x93\0\x02\0\0\0\x07\x03ann\0\x01\x01g";
    let length = ((front.len() + len) as u32).to_be_bytes();
    [&length[..], front, &vec![number; len]].concat()
}

/// A receiver of what that daemon tells.
fn receiver(incoming: TransportReader) -> Receiver {
    Receiver::new(incoming, EventReader::new(Arc::default()))
}

/// Numbers and lengths of the messages that are shown next; each is one throughout.
fn shown(receiver: &mut Receiver, within: Duration) -> Result<Vec<(u8, usize)>, Error> {
    let mut seen = Vec::new();
    let count = receiver.receive_borrowed(within, |shown| {
        let Shown::Message(message) = shown else { panic!("no message: {shown:?}") };
        let payload = message.payload();
        assert!(payload.iter().all(|byte| *byte == payload[0]) && message.sender_name() == "ann");
        seen.push((payload[0], payload.len()));
    })?;
    assert_eq!(count, seen.len());
    Ok(seen)
}

#[test]
fn messages_of_all_sizes_are_shown_in_order_and_whole_also_those_larger_than_the_ring() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    let lens = [1, 5_000, 60_000, 3, 200_000, 4_200, 20_000, 20_000, 100, 65_000];
    let sizes: Vec<(u8, usize)> = (0..250).map(|i| (i, lens[usize::from(i) % lens.len()])).collect();
    let told = sizes.clone();
    let tells = std::thread::spawn(move || {
        for (number, len) in told {
            let (frame, mut at) = (message(number, len), 0);
            while at < frame.len() {
                at += daemon.tell(&frame[at..]);
                std::thread::yield_now();
            }
        }
        daemon
    });
    let mut seen = Vec::new();
    while seen.len() < sizes.len() {
        seen.extend(shown(&mut receiver, LONG).unwrap());
    }
    assert!(seen == sizes);
    assert_eq!(shown(&mut receiver, Duration::ZERO).unwrap(), []);
    let mut daemon = tells.join().unwrap();
    daemon.tell(&[message(7, 5_000), message(8, 3)].concat());
    drop(daemon);
    assert_eq!(shown(&mut receiver, LONG).unwrap(), [(7, 5_000)]);
    assert_eq!(shown(&mut receiver, LONG).unwrap(), [(8, 3)], "what came before the end");
    let ends = [shown(&mut receiver, LONG), shown(&mut receiver, LONG)];
    assert!(ends.iter().all(|end| matches!(end, Err(Error::ConnectionLost { .. }))), "{ends:?}");
}

#[test]
fn a_large_message_is_not_copied_and_others_can_follow_whatever_is_kept_of_it() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    let (mut kept, mut places) = (Vec::new(), Vec::new());
    for number in 0..40 {
        assert_eq!(daemon.tell(&message(number, 16_000)), message(number, 16_000).len());
        receiver
            .receive_borrowed(LONG, |shown| {
                let Shown::Message(message) = shown else { panic!("no message") };
                places.push(message.payload().as_ptr() as usize);
                kept.push(message.to_kept());
            })
            .unwrap();
    }
    let (least, most) = (*places.iter().min().unwrap(), *places.iter().max().unwrap());
    assert!(most - least < 64 << 10, "all in the one ring");
    assert!(kept.iter().zip(0..).all(|(message, number)| message.payload() == [number; 16_000]));
}

#[test]
fn what_is_shown_and_what_is_received_come_in_one_order() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    daemon.tell(&[message(1, 9), message(2, 5_000), message(3, 9), message(4, 5_000), message(5, 9)].concat());
    let Some(Event::Message(first)) = receiver.receive(LONG).unwrap() else { panic!("no message") };
    assert_eq!(first.payload(), [1; 9]);
    let rest = shown(&mut receiver, LONG).unwrap();
    assert_eq!(rest, [(2, 5_000), (3, 9), (4, 5_000), (5, 9)]);
    daemon.tell(&message(6, 5_000));
    assert_eq!(shown(&mut receiver, LONG).unwrap(), [(6, 5_000)]);
    daemon.tell(&message(7, 5_000));
    let Some(Event::Message(last)) = receiver.receive(LONG).unwrap() else { panic!("no message") };
    assert_eq!(last.payload(), [7; 5_000]);
}

#[test]
fn a_daemon_that_tells_nonsense_is_told_of_and_nothing_is_shown_twice() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    let mut bad = message(2, 5_000);
    bad[4 + 1 + 6] = 200;
    daemon.tell(&[message(1, 5_000), bad].concat());
    let mut count = 0;
    for _ in 0..3 {
        let end = receiver.receive_borrowed(LONG, |_| count += 1);
        assert!(matches!(&end, Err(Error::ConnectionLost { why, .. }) if why.contains("malformed")), "{end:?}");
    }
    assert_eq!(count, 1);
}

#[test]
fn nothing_is_shown_of_what_follows_nonsense() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    let nonsense = [0, 0, 0, 1, 0xff];
    daemon.tell(&[&message(1, 9)[..], &nonsense, &message(2, 9)].concat());
    assert_eq!(shown(&mut receiver, LONG).unwrap(), [(1, 9)]);
    for _ in 0..3 {
        let end = shown(&mut receiver, LONG);
        assert!(matches!(&end, Err(Error::ConnectionLost { why, .. }) if why.contains("malformed")), "{end:?}");
    }
}

#[test]
fn nobody_waits_for_the_rest_of_what_a_daemon_begins_after_its_farewell() {
    let (_outgoing, incoming, mut daemon) = taken();
    let mut receiver = receiver(incoming);
    let farewell = [&[0, 0, 0, 4, 0x88, 1, 0, 0][..], &message(1, 9)[..7]].concat();
    daemon.tell(&farewell);
    let end = receiver.receive(None);
    assert!(matches!(end, Err(Error::Disconnected { .. })), "{end:?}");
    let end = receiver.receive_borrowed(None, |shown| panic!("{shown:?}"));
    assert!(matches!(end, Err(Error::Disconnected { .. })), "{end:?}");
}

fn welcome(credit: u32) -> Welcome {
    Welcome {
        version: 0,
        daemon: MemberId { node: NodeId(1), incarnation: Incarnation(1) },
        session: 1,
        client: ClientId(1),
        daemon_name: String::new(),
        name: ClientName::unchosen(ClientId(1)),
        message_max: 8 << 20,
        credit,
        groups_max: 9,
    }
}

/// A sender to that daemon, with so much credit.
fn sender(outgoing: TransportWriter, credit: u32) -> Sender {
    Sender::new(outgoing, SendBuffer::new(RequestWriter::new(&welcome(credit)), false, Arc::default()), None)
}

/// Sends a message of 8 MiB by one thread to a daemon that reads slowly, and tells these messages meanwhile; returns those
/// that came, and how many waits only the clock has ended.
fn send_large(told: Vec<(u8, usize)>) -> (Vec<(u8, usize)>, u32) {
    let (outgoing, incoming, daemon) = taken();
    let mut client = Client::of(sender(outgoing, u32::MAX), receiver(incoming), welcome(u32::MAX));
    let (before, messages) = (vain::waits(), told.len());
    let takes = std::thread::spawn(move || daemon.take(8 << 20, &told));
    client.multicast(Service::Agreed, &[GroupName::new(b"g").unwrap()], &vec![7; 8 << 20]).unwrap();
    client.flush().unwrap();
    let mut seen = Vec::new();
    while seen.len() < messages {
        let Some(Event::Message(message)) = client.receive(None).unwrap() else { panic!("no message") };
        seen.push((message.payload()[0], message.payload().len()));
    }
    drop(takes.join().unwrap());
    (seen, vain::waits() - before)
}

#[test]
fn one_thread_writes_as_soon_as_there_is_room_though_nothing_comes() {
    assert_eq!(send_large(Vec::new()), (Vec::new(), 0));
}

#[test]
fn one_thread_reads_what_comes_while_it_waits_for_room() {
    // The daemon reads on only when all of the next one is told: far more than its ring takes.
    let told: Vec<(u8, usize)> = (0..100).map(|n| (n, 100_000)).collect();
    assert_eq!(send_large(told.clone()), (told, 0));
}

#[test]
fn small_and_large_sends_keep_their_order_also_where_the_ring_is_nearly_full() {
    let (outgoing, _incoming, mut daemon) = taken();
    let groups = [GroupName::new(b"g").unwrap()];
    let lens = [10, 70_000, 300, 16_384, 9, 9, 16_383, 600_000, 20_000, 1];
    let payloads: Vec<Vec<u8>> = (0..100).map(|i| vec![i as u8; lens[i % lens.len()]]).collect();
    let mut expected = BytesMut::new();
    for payload in &payloads {
        put_multicast(&mut expected, Service::Agreed, &groups, payload);
    }
    let mut sender = sender(outgoing, u32::MAX);
    let sends = std::thread::spawn(move || {
        for payload in &payloads {
            sender.multicast(Service::Agreed, &groups, payload).unwrap();
        }
        sender.flush().unwrap();
        sender
    });
    let (mut all, mut bytes) = (Vec::new(), vec![0; 9_000]);
    while all.len() < expected.len() {
        let n = daemon.reader.read(&mut bytes).unwrap();
        daemon.reader.wakes_writer();
        all.extend_from_slice(&bytes[..n]);
        std::thread::yield_now();
    }
    assert!(all == expected);
    drop(sends.join().unwrap());
}

#[test]
fn a_large_send_without_credit_leaves_nothing_behind_and_one_that_is_begun_is_ended() {
    let (outgoing, _incoming, mut daemon) = taken();
    let groups = [GroupName::new(b"g").unwrap()];
    let mut sender = sender(outgoing, 400_000);
    sender.try_multicast(Service::Agreed, &groups, &[1; 250_000]).unwrap();
    let refused = sender.try_multicast(Service::Agreed, &groups, &[2; 200_000]);
    assert!(matches!(refused, Err(Error::WouldBlock { .. })), "{refused:?}");
    // More than the ring has room for: what is left of it is written by whatever comes next.
    sender.try_multicast(Service::Agreed, &groups, &[3; 20_000]).unwrap();
    assert!(sender.outbox.wants_write());
    let mut all = Vec::new();
    let mut bytes = vec![0; 9_000];
    let mut expected = BytesMut::new();
    put_multicast(&mut expected, Service::Agreed, &groups, &[1; 250_000]);
    put_multicast(&mut expected, Service::Agreed, &groups, &[3; 20_000]);
    while all.len() < expected.len() {
        let n = daemon.reader.read(&mut bytes).unwrap();
        all.extend_from_slice(&bytes[..n]);
        sender.write_within(Duration::ZERO).unwrap();
    }
    assert!(all == expected);
    assert_eq!(sender.sent(), 2);
}

#[test]
fn a_large_send_of_which_only_the_front_is_written_is_ended_at_once() {
    let groups = [GroupName::new(b"g").unwrap()];
    let mut large = BytesMut::new();
    put_multicast(&mut large, Service::Agreed, &groups, &[7; 20_000]);
    let front = large.len() - 20_000;
    for room in [1, 4, front - 1, front, front + 1] {
        let (outgoing, _incoming, _daemon) = taken();
        let mut sender = sender(outgoing, u32::MAX);
        sender.try_multicast(Service::Agreed, &groups, &vec![7; RING - room - front]).unwrap();
        assert!(sender.outbox.bytes().is_empty());
        sender.try_multicast(Service::Agreed, &groups, &[7; 20_000]).unwrap();
        assert_eq!(sender.outbox.bytes(), &large[room..]);
        assert!(sender.outbox.wants_write(), "{room} bytes of it are written");
    }
}

#[test]
fn a_large_send_to_a_daemon_that_is_gone_is_told_as_lost() {
    let (outgoing, _incoming, daemon) = taken();
    let mut sender = sender(outgoing, u32::MAX);
    drop(daemon);
    let groups = [GroupName::new(b"g").unwrap()];
    let mut error = None;
    while error.is_none() {
        error = sender.try_multicast(Service::Agreed, &groups, &[7; 20_000]).err();
    }
    assert!(matches!(error, Some(Error::ConnectionLost { .. })), "{error:?}");
}

#[test]
fn a_daemon_that_declines_is_read_and_written_at_the_socket() {
    let (stream, mut incoming, mut socket, _file) = offered();
    socket.write_all(b"\0welcome").unwrap();
    let mut bytes = [0; 99];
    assert_eq!(incoming.read(&mut bytes, Some(LONG)).unwrap(), Some(8));
    assert_eq!(&bytes[..8], b"\0welcome");
    assert_eq!(incoming.outgoing(stream).write(b"thanks", None).unwrap(), Some(6));
    socket.read_exact(&mut bytes[..6]).unwrap();
    assert_eq!(&bytes[..6], b"thanks");
}

#[test]
fn memory_that_cannot_be_had_is_named() {
    let (_stream, mut incoming, mut socket, _file) = offered();
    socket.write_all(&[TAKEN]).unwrap();
    let error = incoming.read(&mut [0; 9], Some(LONG)).unwrap_err();
    assert_eq!(error.to_string(), "no descriptor was left for the memory that the daemon shares");
    let (_stream, mut incoming, socket, _file) = offered();
    consort_shm::send(socket.as_fd(), &[TAKEN], socket.as_fd()).unwrap();
    let error = incoming.read(&mut [0; 9], Some(LONG)).unwrap_err();
    assert!(error.to_string().starts_with("the memory that the daemon shares is of no use: "), "{error}");
}

#[test]
fn who_writes_to_a_daemon_that_is_gone_learns_it_with_or_without_room() {
    let (mut outgoing, _incoming, daemon) = taken();
    assert_eq!(outgoing.write(b"read by nobody", None).unwrap(), Some(14));
    drop(daemon);
    let mut error = None;
    for _ in 0..10 {
        error = error.or(outgoing.write(b"more", None).err());
    }
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::BrokenPipe));
    let (mut outgoing, _incoming, daemon) = taken();
    while outgoing.write(&[7; 10_000], Some(Duration::ZERO)).unwrap().is_some() {}
    let waits = std::thread::spawn(move || outgoing.write(b"more", None).unwrap_err().kind());
    drop(daemon);
    assert_eq!(waits.join().unwrap(), ErrorKind::BrokenPipe);
}
