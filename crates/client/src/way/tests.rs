use super::*;
use crate::Address;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

const LONG: Duration = Duration::from_secs(60);

/// A client that has said hello with an offer, and the daemon's end of its socket with what came there.
fn offered() -> (Stream, Incoming, UnixStream, OwnedFd) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let listener = UnixListener::bind(&path).unwrap();
    let mut stream = Stream::connect(&Address::Unix(path), LONG).unwrap();
    let offer = offer();
    stream.introduce(b"hello", offer.as_ref(), LONG).unwrap();
    let daemon = listener.accept().unwrap().0;
    let (n, file) = consort_shm::receive(daemon.as_fd(), &mut [0; 99]).unwrap();
    assert_eq!(n, 5);
    let incoming = Incoming::new(stream.try_clone().unwrap(), offer);
    (stream, incoming, daemon, file.unwrap())
}

/// A client whose offer a daemon has taken.
fn taken() -> (Outgoing, Incoming, Daemon) {
    let (stream, mut incoming, socket, file) = offered();
    let offer = Offer::new(64 << 10).unwrap();
    let own = offer.file().try_clone_to_owned().unwrap();
    let (writer, reader) = offer.accept(file, RING).unwrap();
    consort_shm::send(socket.as_fd(), &[TAKEN], own.as_fd()).unwrap();
    assert_eq!(incoming.read(&mut [0; 9], Some(Duration::ZERO)).unwrap(), None, "taken, and nothing more yet");
    (incoming.outgoing(stream), incoming, Daemon { socket, writer, reader })
}

struct Daemon {
    socket: UnixStream,
    writer: Writer,
    reader: Reader,
}

impl Daemon {
    fn tell(&mut self, bytes: &[u8]) -> usize {
        let n = self.writer.write(&[IoSlice::new(bytes)]).unwrap();
        if self.writer.wakes_reader() {
            self.socket.write_all(&[0]).unwrap();
        }
        n
    }

    /// Sends back what comes, by small steps, until so much has come.
    fn echo(mut self, len: usize) -> Self {
        let (mut bytes, mut echoed) = (vec![0; 7_000], 0);
        while echoed < len {
            let n = self.reader.read(&mut bytes).unwrap();
            if self.reader.wakes_writer() {
                self.socket.write_all(&[0]).unwrap();
            }
            if n == 0 && self.reader.begin_sleep().unwrap() {
                assert!(self.socket.read(&mut [0; 64]).unwrap() > 0);
            }
            self.reader.end_sleep();
            let mut told = 0;
            while told < n {
                told += self.tell(&bytes[told..n]);
                std::thread::yield_now();
            }
            echoed += n;
        }
        self
    }
}

/// Writes all of it, with as much patience as that takes.
fn write_all(outgoing: &mut Outgoing, bytes: &[u8]) {
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
