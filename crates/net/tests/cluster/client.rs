//! A client of a daemon, by hand.
use bytes::Bytes;
use consort_session::{ClientEnd, DaemonEvent, Hello};
use consort_types::{GroupName, Service};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

pub struct TestClient {
    wire: Box<dyn Wire>,
    session: ClientEnd,
    /// How many members the group had when it last changed.
    members: usize,
}

/// Sender and number, as the payload says.
type Seen = (usize, usize);

fn group() -> GroupName {
    GroupName::new(b"everybody").unwrap()
}

impl TestClient {
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::new(Box::new(stream))
    }

    pub fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::new(Box::new(stream))
    }

    fn new(wire: Box<dyn Wire>) -> Self {
        let hello = Hello::default();
        Self { wire, session: ClientEnd::new(&hello), members: 0 }
    }

    /// Says something that is no protocol.
    pub fn say(&mut self, bytes: &[u8]) {
        let _it_may_be_cut_off = self.wire.write_all(bytes);
    }

    pub fn join(&mut self) {
        self.open();
        self.session.join(&group()).unwrap();
        self.wait_for_members(1);
    }

    fn open(&mut self) {
        while !matches!(self.next(), DaemonEvent::Welcome(_)) {}
    }

    /// Waits until the group has so many members.
    pub fn wait_for_members(&mut self, n: usize) {
        while self.members < n {
            self.next();
        }
    }

    /// Sends messages and waits for nothing.
    pub fn send(&mut self, sender: usize, numbers: Range<usize>) {
        self.open();
        self.post(sender, numbers);
    }

    /// The same once the session is open.
    pub fn post(&mut self, sender: usize, numbers: Range<usize>) {
        for i in numbers {
            self.session.multicast(Service::Agreed, &[group()], &payload(sender, i)).unwrap();
        }
        self.write();
    }

    /// Sends `n` messages as credit allows, and receives until `total` have come.
    pub fn exchange(&mut self, sender: usize, n: usize, total: usize) -> Vec<Seen> {
        let (mut sent, mut seen) = (0, Vec::new());
        while seen.len() < total {
            while sent < n && self.session.multicast(Service::Agreed, &[group()], &payload(sender, sent)).is_ok() {
                sent += 1;
            }
            seen.extend(read(&self.next()));
        }
        seen
    }

    pub fn receive(&mut self, n: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        while seen.len() < n {
            seen.extend(read(&self.next()));
        }
        seen
    }

    /// The reason in the daemon's farewell, if it says one before it ends the connection.
    pub fn farewell(&mut self) -> Option<String> {
        loop {
            match self.try_next()? {
                DaemonEvent::Disconnect(farewell) => return Some(farewell.reason.to_string()),
                _ => continue,
            }
        }
    }

    /// Whether the daemon ends the connection without a word.
    pub fn is_refused(&mut self) -> bool {
        let mut room = [0; 16];
        matches!(self.wire.read(&mut room), Ok(0) | Err(_))
    }

    /// A number from the daemon's status.
    pub fn counter(&mut self, name: &str) -> u64 {
        self.fact(name).map_or(0, |value| value.parse().unwrap())
    }

    /// A fact from the daemon's status.
    pub fn fact(&mut self, name: &str) -> Option<String> {
        self.session.status();
        loop {
            if let DaemonEvent::Status(pairs) = self.next() {
                return pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value);
            }
        }
    }

    fn next(&mut self) -> DaemonEvent {
        match self.try_next() {
            Some(DaemonEvent::Disconnect(farewell)) => panic!("disconnected: {farewell:?}"),
            Some(event) => event,
            None => panic!("the daemon is gone"),
        }
    }

    fn try_next(&mut self) -> Option<DaemonEvent> {
        self.write();
        let mut room = vec![0; 1 << 16];
        loop {
            if let Some(event) = self.session.next_event().unwrap() {
                if let DaemonEvent::GroupView(view) = &event {
                    self.members = view.members.len();
                }
                return Some(event);
            }
            match self.wire.read(&mut room).unwrap() {
                0 => return None,
                n => self.session.feed(Bytes::copy_from_slice(&room[..n])),
            }
        }
    }

    fn write(&mut self) {
        let output = self.session.take_output();
        if !output.is_empty() {
            self.wire.write_all(&output).unwrap();
        }
    }
}

/// Payloads of many lengths; the first bytes say whose and which.
fn payload(sender: usize, i: usize) -> Vec<u8> {
    let mut payload = vec![i as u8; 16 + (i * 37) % 1_000];
    payload[..8].copy_from_slice(&sender.to_be_bytes());
    payload[8..16].copy_from_slice(&i.to_be_bytes());
    payload
}

fn read(event: &DaemonEvent) -> Option<Seen> {
    let DaemonEvent::Message(message) = event else { return None };
    let payload = message.payload();
    let number = |at: usize| usize::from_be_bytes(payload[at..at + 8].try_into().unwrap());
    let seen = (number(0), number(8));
    assert_eq!(payload, self::payload(seen.0, seen.1));
    Some(seen)
}
