//! What a daemon tells over HTTP, and that nothing that comes to that port disturbs anybody.

use crate::support::{self, Daemon, World};
use consort_types::Rng;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A daemon with metrics at a port that nobody else has, and where that is.
fn measured(world: &World) -> (Daemon, String) {
    let daemon = world.daemon(&["--nodes", "2", "--metrics", "127.0.0.1:0"]);
    let line = daemon.says("tells metrics");
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    (daemon, address)
}

#[test]
fn a_daemon_that_no_quorum_has_let_in_is_not_ready() {
    let world = World::new();
    let daemon = world.daemon(&["--nodes", "3", "--protocol", "paxos", "--metrics", "127.0.0.1:0"]);
    let line = daemon.says("tells metrics");
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    support::wait_until("it says why", || {
        get(address, "/ready").contains("one begins once all 3 acceptors run, and 1 does")
    });
    assert!(get(address, "/ready").starts_with("HTTP/1.1 503"), "{}", get(address, "/ready"));
    assert!(get(address, "/live").starts_with("HTTP/1.1 200"), "to start it again would not help");
    assert!(get(address, "/metrics").contains("consort_primary 0"));
    assert!(daemon.says("not ready: ").contains("and 1 does"));
}

/// Says something, and reads the answer to its end.
fn say(address: &str, what: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // Whoever answers before all is said may hang up.
    let _ = stream.write_all(what);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: &str, path: &str) -> String {
    say(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
}

fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn every_number_of_the_status_is_a_metric_with_a_help_text() {
    let world = World::new();
    let (_daemon, address) = measured(&world);
    support::wait_until("it is ready", || get(&address, "/ready").starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(world.run(&["send", "--count", "7", "x"]).code, 0);
    let receive = world.start(&["receive", "--quiet"], None);
    receive.says("1 member");
    support::wait_until("seven messages are counted", || {
        value(&get(&address, "/metrics"), "consort_requests_accepted_total") == Some(8.0)
    });
    let page = get(&address, "/metrics");
    assert!(page.contains("Content-Type: text/plain; version=0.0.4"), "{page}");
    assert_eq!((value(&page, "consort_ready"), value(&page, "consort_members")), (Some(1.0), Some(1.0)));
    assert_eq!(
        (value(&page, "consort_groups"), value(&page, "consort_assertion_failures_total")),
        (Some(1.0), Some(0.0))
    );
    assert!(page.contains(&format!("consort_info{{cluster=\"{}\",node=\"1\"", world.cluster)), "{page}");
    let status: serde_json::Value = serde_json::from_str(&world.run(&["status", "--json"]).out).unwrap();
    for (key, told) in status[0]["status"].as_object().unwrap() {
        let labelled =
            ["sessions_ended_", "requests_waited_", "datagrams_rejected_"].iter().any(|prefix| key.starts_with(prefix));
        let number = key != "incarnation" && (told.is_number() || told.as_str().unwrap().parse::<u64>().is_ok());
        let names = [format!("# HELP consort_{key} "), format!("# HELP consort_{key}_total ")];
        let has_help = names.iter().any(|name| page.contains(name));
        assert!(
            !number || labelled || has_help || key.chars().all(|c| c.is_ascii_digit()),
            "{key} = {told} is no metric"
        );
    }
}

#[test]
fn other_questions_are_answered_with_what_is_wrong() {
    let world = World::new();
    let (_daemon, address) = measured(&world);
    for (what, code) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"hello\r\n\r\n", "400"),
        (&[b'x'; 9_000], "431"),
    ] {
        let answer = say(&address, what);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    }
    let head = say(&address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_used_port_for_metrics_is_named() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = world.run(&["daemon", "--cluster", &world.cluster, "--metrics", &address]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.errors.contains(&format!("cannot serve metrics at {address}: Address already in use")),
        "{}",
        ran.errors
    );
}

#[test]
fn metrics_beyond_this_machine_are_warned_of() {
    let world = World::new();
    let mut daemon = world.daemon(&["--metrics", "0.0.0.0:0"]);
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.wait();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("metrics are told at 0.0.0.0:0: they are not encrypted"), "{log}");
}

#[test]
fn garbage_and_silence_at_the_port_disturb_nobody() {
    let world = World::new();
    let (mut daemon, address) = measured(&world);
    let mut receive = world.start(&["receive", "--count", "50", "--timeout", "50s"], None);
    receive.says("1 member");
    let mut rng = Rng::new(11);
    let mut open: Vec<TcpStream> = Vec::new();
    for round in 0..200 {
        let len = rng.below(12_000) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write_all(&bytes);
        // Some hang up at once, some later, some say nothing at all for long.
        if round % 50 == 0 {
            open.push(stream);
        }
    }
    let sent = world.run(&["send", "--count", "50", "still here"]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let ran = receive.wait();
    assert_eq!((ran.code, ran.out.lines().count()), (0, 50), "{}", ran.errors);
    support::wait_until("the port answers again", || get(&address, "/ready").starts_with("HTTP/1.1 200 OK"));
    assert!(daemon.incarnations());
}
