//! The Spread listener of real daemons, over real sockets.

#[path = "../../../spread/src/tests/client.rs"]
mod client;

use crate::support::{Daemon, World, free_port};
use client::{Client, Seen};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const AGREED: u32 = 0x10;
const JOIN: u32 = 0x1_0000;
const LEAVE: u32 = 0x2_0000;
const KILL: u32 = 0x4_0000;
/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that was let in.
struct Session<S> {
    stream: S,
    client: Client,
}

/// Goes through the handshake and returns what the daemon said of the client's name.
fn enter<S: Read + Write>(mut stream: S, name: &str) -> Result<Session<S>, i8> {
    let hello = [&[5, 0, 1, 1, name.len() as u8][..], name.as_bytes()].concat();
    stream.write_all(&hello).unwrap();
    let methods = read(&mut stream, 1)[0] as i8;
    if methods < 0 {
        return Err(methods);
    }
    assert_eq!(read(&mut stream, methods as usize), b"NULL ");
    let mut choice = [0; 90];
    choice[..4].copy_from_slice(b"NULL");
    stream.write_all(&choice).unwrap();
    assert_eq!(read(&mut stream, 4), [1, 5, 0, 1]);
    let len = usize::from(read(&mut stream, 1)[0]);
    let private = String::from_utf8(read(&mut stream, len)).unwrap();
    Ok(Session { stream, client: Client::new(&private) })
}

fn read(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

impl<S: Read + Write> Session<S> {
    fn send(&mut self, service: u32, groups: &[&str], mess_type: i16, data: &[u8]) {
        let frame = self.client.frame(service, groups, mess_type, data);
        self.stream.write_all(&frame).unwrap();
    }

    /// The next message, whatever it is.
    fn receive(&mut self) -> Seen {
        let head = read(&mut self.stream, 48);
        let le = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let old_type = if le(0) & 0x40_0000 == 0 { 0 } else { 4 };
        let body = read(&mut self.stream, old_type + 32 * le(36) as usize + le(44) as usize);
        self.client.read(&[head, body].concat()).remove(0)
    }

    /// The next group view: why it came and who is in the group.
    fn view(&mut self) -> (u32, Vec<String>) {
        let seen = self.receive();
        assert_eq!(seen.service & 0x1000, 0x1000, "{seen:?}");
        (seen.service & 0xf00, seen.groups)
    }

    fn ends(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// A daemon with a Spread listener at this port and this socket file.
fn with_spread(world: &World) -> (Daemon, u16, String) {
    let (port, unix) = (free_port(), world.path("spread.sock").display().to_string());
    let text = format!(
        "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n[spread]\nport = {port}\nunix = \"{unix}\"\n",
        world.cluster,
        free_port()
    );
    let file = world.write("consort.toml", &text);
    (world.daemon_as(&["daemon", "--config", &file]), port, unix)
}

fn tcp(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn unix(path: &str) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn spread_clients_and_native_ones_share_groups_and_know_each_other_by_name() {
    //= S01 test
    let world = World::new();
    let (_daemon, port, path) = with_spread(&world);
    let mut alice = enter(unix(&path), "alice").ok().unwrap();
    alice.send(JOIN, &["room"], 0, b"");
    assert_eq!(alice.view(), (0x100, vec!["#alice#n1".to_owned()]));
    let mut bob = enter(tcp(port), "bob").ok().unwrap();
    bob.send(JOIN, &["room"], 0, b"");
    let both = (0x100, vec!["#alice#n1".to_owned(), "#bob#n1".to_owned()]);
    assert_eq!((alice.view(), bob.view()), (both.clone(), both));

    let mut native = world.start(&["receive", "--group", "room", "--count", "2", "--timeout", "60s"], None);
    native.says("3 members");
    let (cause, members) = alice.view();
    let native_name = members.iter().find(|name| !["#alice#n1", "#bob#n1"].contains(&name.as_str())).unwrap().clone();
    assert_eq!((cause, members.len(), native_name.ends_with("#n1")), (0x100, 3, true));
    bob.view();

    alice.send(AGREED, &["room", "elsewhere", "#bob#n1"], -7, b"from spread\n");
    let seen = bob.receive();
    assert_eq!((seen.service, seen.mess_type, seen.groups.len()), (AGREED, -7, 3));
    assert_eq!((seen.sender.as_str(), &seen.data[..]), ("#alice#n1", &b"from spread\n"[..]));
    assert_eq!(alice.receive(), seen);
    assert_eq!(world.run(&["send", "--group", "room", "from native"]).code, 0);
    let seen = alice.receive();
    assert_eq!((seen.service, seen.mess_type, &seen.data[..]), (AGREED, 0, &b"from native"[..]));
    assert_eq!(
        native.wait().out.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
        ["from spread", "from native"]
    );
    assert_eq!(alice.view(), (0x400, vec!["#alice#n1".to_owned(), "#bob#n1".to_owned()]));
}

#[test]
fn leaving_and_ending_are_told_as_spread_tells_them() {
    //= S35 test
    //= S41 test
    let world = World::new();
    let (_daemon, port, _) = with_spread(&world);
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| enter(tcp(port), name).ok().unwrap());
    for group in ["one", "two"] {
        alice.send(JOIN, &[group], 0, b"");
        alice.view();
        bob.send(JOIN, &[group], 0, b"");
        bob.view();
        alice.view();
    }
    bob.send(LEAVE, &["one"], 0, b"");
    let left = bob.receive();
    assert_eq!((left.service, left.sender.as_str(), left.groups.len(), left.data.len()), (0x200, "one", 0, 0));
    assert_eq!(alice.view(), (0x200, vec!["#alice#n1".to_owned()]));
    bob.send(AGREED, &["two"], 1, b"last words");
    bob.send(KILL, &["#bob#n1"], 0, b"");
    assert_eq!(alice.receive().data, b"last words");
    assert_eq!(alice.view(), (0x400, vec!["#alice#n1".to_owned()]));
    while !bob.ends() {}
    // The name is free again.
    assert!(enter(tcp(port), "bob").is_ok());
}

#[test]
fn a_name_is_one_clients_at_a_time() {
    //= S06 test
    let world = World::new();
    let (_daemon, port, path) = with_spread(&world);
    let mut silent = tcp(port);
    silent.write_all(&[5, 0, 1, 1, 3, b'b', b'o', b'b']).unwrap();
    assert_eq!(read(&mut silent, 6), b"\x05NULL ");
    assert_eq!(enter(unix(&path), "bob").err(), Some(-6));
    drop(silent);
    while enter(unix(&path), "bob").is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(enter(unix(&path), "b b").err(), Some(-5));
}

#[test]
fn what_spread_clients_cannot_be_told_is_refused_to_its_sender_and_goes_through_without_them() {
    //= S21 test
    let world = World::new();
    let (_daemon, port, _) = with_spread(&world);
    let large = "x".repeat(143_121);
    let mut native = world.start(&["receive", "--group", "room", "--count", "1", "--timeout", "60s"], None);
    native.says("1 member");
    assert_eq!(world.run_with(&["send", "--group", "room"], large.as_bytes()).code, 0);
    assert_eq!(native.wait().out.trim_end().len(), large.len());
    let mut alice = enter(tcp(port), "alice").ok().unwrap();
    alice.send(JOIN, &["room"], 0, b"");
    alice.view();
    let ran = world.run_with(&["send", "--group", "room"], large.as_bytes());
    assert_ne!(ran.code, 0);
    assert!(ran.errors.contains("#alice#n1 cannot be told it"), "{}", ran.errors);
    assert!(ran.errors.contains("143200"), "{}", ran.errors);
    // And what Spread's own daemon would end of comes back to the client.
    alice.send(AGREED, &["room"], 1, large.as_bytes());
    assert_eq!(alice.receive().service, 0x40_0010);
}

#[test]
fn garbage_at_the_listener_leaves_the_daemon_alive_and_others_undisturbed() {
    //= S02 test
    //= S40 test
    let world = World::new();
    let (mut daemon, port, path) = with_spread(&world);
    let mut alice = enter(unix(&path), "alice").ok().unwrap();
    alice.send(JOIN, &["room"], 0, b"");
    alice.view();
    let _silent: Vec<_> = (0..20).map(|_| tcp(port)).collect();
    let mut rng = consort_types::Rng::new(4803);
    for round in 0..300 {
        let mut garbage = Vec::new();
        let mut stream = tcp(port);
        if round % 2 == 0 {
            let mut session = enter(stream, &format!("g{round}")).ok().unwrap();
            session.send(AGREED, &["room"], 1, b"good");
            assert_eq!(alice.receive().data, b"good");
            garbage = session.client.frame(AGREED, &["nowhere"], 1, &[7; 100]);
            garbage[rng.below(48) as usize] ^= 1 << rng.below(8);
            stream = session.stream;
        }
        garbage.extend((0..rng.below(2_000)).map(|_| rng.next_u64() as u8));
        // The daemon may have had enough before all of it is written.
        let _ = stream.write_all(&garbage);
    }
    let mut bob = enter(tcp(port), "bob").ok().unwrap();
    bob.send(AGREED, &["room"], 1, b"still here");
    assert_eq!(alice.receive().data, b"still here");
    assert!(daemon.incarnations());
}

#[test]
fn a_daemon_that_listens_for_other_machines_says_that_nothing_is_encrypted() {
    //= S42 test
    let world = World::new();
    let text = format!(
        "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n[spread]\nport = {}\naddress = \"0.0.0.0\"\nunix = \"off\"\n",
        world.cluster,
        free_port(),
        free_port()
    );
    let file = world.write("consort.toml", &text);
    let mut daemon = world.daemon_as(&["daemon", "--config", &file]);
    daemon.signal(rustix::process::Signal::TERM);
    let (code, log) = daemon.wait();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("not encrypted"), "{log}");
}
