//! What operators read in the logs of real daemons.

use crate::support::{self, Daemon, World, free_port};
use consort::{Address, Client, ConnectOptions};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;

/// Three daemons out of a file: their views may be primary.
fn daemons(world: &World, words: &[&str]) -> (Vec<Daemon>, String) {
    let node = |id: usize| format!("[[node]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", free_port());
    let nodes: String = (1..=3).map(node).collect();
    let multicast = free_port();
    let text = format!("cluster = \"{}\"\nmulticast = \"239.192.1.7:{multicast}\"\n{nodes}", world.cluster);
    let file = world.write("three.toml", &text);
    let start = |node: &str| world.daemon_as(&[&["daemon", "--config", &file, "--node", node], words].concat());
    (["1", "2", "3"].map(start).into(), file)
}

/// The next event of its log, written as JSON, with this message, and with this value where one is asked for.
fn event(daemon: &Daemon, message: &str, field: &str, value: &str) -> Value {
    loop {
        let event: Value = serde_json::from_str(&daemon.says(message)).expect("each line is a JSON object");
        if field.is_empty() || event[field].as_str().unwrap_or_default().contains(value) {
            return event;
        }
    }
}

fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {event}"))
}

/// Whether a text says a time as logs do: 2026-11-26T01:02:03.456789Z. Two of them compare as texts.
fn is_utc(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000000Z";
    let fits = |(c, sign): (char, char)| if sign == '0' { c.is_ascii_digit() } else { c == sign };
    text.len() == form.len() && text.chars().zip(form.chars()).all(fits)
}

#[test]
fn survivors_log_who_was_killed_why_and_what_followed() {
    let world = World::new();
    let (mut daemons, file) = daemons(&world, &["--log-format", "json"]);
    for daemon in &daemons {
        event(daemon, "view installed", "members", "n3.");
    }
    daemons[1].kill();
    for daemon in [&daemons[0], &daemons[2]] {
        // The first to miss the token says so, and asks the other one.
        let sought = event(daemon, "members are sought", "out", "n2.");
        let silent = text(&sought, "message").starts_with("ring silent");
        assert!(silent && sought["after_ms"].is_u64() || text(&sought, "cause").contains("asked"), "{sought}");
        let view = event(daemon, "members lost", "lost", "n2");
        assert!(is_utc(text(&view, "timestamp")), "{view}");
        assert!(is_utc(text(&sought, "timestamp")) && text(&sought, "timestamp") <= text(&view, "timestamp"), "{view}");
        assert!(text(&view, "cause").contains("n2 silent for "), "{view}");
        assert!(text(&view, "members").contains("n1.") && text(&view, "members").contains("n3."), "{view}");
        assert_eq!((text(&view, "level"), text(&view, "primary")), ("WARN", "pending"), "{view}");
        assert_eq!(view["span"]["cluster"], world.cluster.as_str(), "{view}");
        let settled = event(daemon, "groups agreed, messages flow", "", "");
        assert_eq!(settled["view"], view["view"]);
        // A busy host may first find it kept out for a while.
        let silent = event(daemon, "node is not reached", "state", "silent");
        assert_eq!(text(&silent, "node"), "n2", "{silent}");
    }
    let _back = world.daemon_as(&["daemon", "--config", &file, "--node", "2"]);
    event(&daemons[0], "node is heard", "node", "n2");
    event(&daemons[2], "view installed", "joined", "n2");
}

#[test]
fn a_daemon_left_alone_says_that_it_is_not_primary_any_more() {
    let world = World::new();
    let (mut daemons, _) = daemons(&world, &[]);
    daemons[0].says("the view is primary");
    daemons.drain(1..).for_each(|mut daemon| daemon.kill());
    let line = daemons[0].says("is not primary any more");
    assert!(line.contains("WARN") && line.contains(&format!("cluster={} node=1", world.cluster)), "{line}");
}

#[test]
fn clients_come_and_go_with_name_and_reason() {
    let world = World::new();
    let daemon = world.daemon(&["--nodes", "1", "--log-format", "json"]);
    let options = ConnectOptions::default().called("desk").unwrap();
    let client = Client::connect(&Address::Unix(world.socket_path(1)), &options).unwrap();
    let connected = event(&daemon, "client connected", "name", "desk");
    assert_eq!(text(&connected, "transport"), "unix");
    drop(client);
    let gone = event(&daemon, "client disconnected", "name", "desk");
    assert_eq!(gone["client"], connected["client"]);
    let mut stranger = std::os::unix::net::UnixStream::connect(world.socket_path(1)).unwrap();
    stranger.write_all(&[0xff; 64]).unwrap();
    let away = event(&daemon, "client sent away", "reason", "malformed");
    assert_eq!(text(&away, "level"), "WARN");
}

#[test]
fn a_signal_has_the_log_tell_more() {
    let world = World::new();
    let daemon = world.daemon(&["--nodes", "1", "--log", "warn"]);
    daemon.signal(Signal::USR1);
    daemon.says("told by SIGUSR1 to log more");
    let _client = Client::connect(&Address::Unix(world.socket_path(1)), &ConnectOptions::default()).unwrap();
    daemon.says("client connected");
}

struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_whose_log_is_stuck_serves_on_and_ends() {
    let world = World::new();
    let (_stuck, mut log) = std::io::pipe().unwrap();
    log.write_all(&[b'.'; 64 << 10]).unwrap();
    let words = ["daemon", "--cluster", &world.cluster, "--nodes", "1"];
    let mut daemon = Killed(world.command(&words).stderr(log).spawn().unwrap());
    support::wait_until("it serves", || {
        let client = Client::connect(&Address::Unix(world.socket_path(1)), &ConnectOptions::default());
        client.is_ok_and(|mut client| client.status(std::time::Duration::from_secs(1)).is_ok())
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    support::wait_until("it ends", || daemon.0.try_wait().unwrap().is_some());
}

#[test]
fn a_filter_that_says_nothing_is_refused() {
    let world = World::new();
    for (words, problem) in [
        (["--log", "loud"], "--log: `loud` does not fit; give error, warn, info"),
        (["--log", "consort_net=loud"], "--log: `consort_net=loud` does not fit"),
        (["--log-format", "xml"], "--log-format: `xml` does not fit; give text or json"),
    ] {
        let ran = world.run(&[&["daemon"], &words[..]].concat());
        assert!(ran.code == 2 && ran.errors.contains(problem), "{ran:?}");
    }
}
