//! `consort groups` and `consort clients` with real daemons.

use crate::support::{self, Daemon, World, free_port};
use serde_json::Value;

fn json(world: &World, words: &[&str]) -> Value {
    let ran = world.run(&[words, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.errors);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn groups_are_listed_with_their_members_at_every_daemon() {
    let world = World::new();
    let _daemons = world.daemons(2, &[]);
    assert_eq!((world.run(&["groups"]).out.as_str(), json(&world, &["groups"])), ("", Value::Array(Vec::new())));
    let first = world.start(&["receive", "--node", "1", "--group", "orders", "--group", "audit"], None);
    first.says("audit: ");
    let second = world.start(&["receive", "--node", "2", "--group", "orders"], None);
    second.says("orders: ");
    for node in ["1", "2"] {
        support::wait_until("both daemons know", || json(&world, &["groups", "--node", node])[1]["members"] == 2);
        let ran = world.run(&["groups", "--node", node]);
        assert_eq!(ran.out, "MEMBERS  GROUP\n      1  audit\n      2  orders\n");
    }
    let ran = world.run(&["groups", "orders", "audit"]);
    assert!(ran.out.starts_with("orders: 2 members\n         #c"), "{}", ran.out);
    assert!(ran.out.contains("#n2\naudit: 1 member\n"), "{}", ran.out);
    let all = json(&world, &["groups", "--members"]);
    assert_eq!(
        (&all[0]["group"], &all[0]["list"][0]["node"], &all[0]["closed"]),
        (&"audit".into(), &1.into(), &false.into())
    );
    assert_eq!(all[1]["list"].as_array().unwrap().len(), 2);
    let ran = world.run(&["groups", "nobody"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.errors.ends_with("nobody: no group of that name has members; `consort groups` lists all\n"),
        "{}",
        ran.errors
    );
}

#[test]
fn clients_are_listed_with_listener_state_and_what_waits() {
    let world = World::new();
    let address = format!("127.0.0.1:{}", free_port());
    let _daemon = world.daemon(&["--listen", &address]);
    assert_eq!(json(&world, &["clients"]), Value::Array(Vec::new()), "who asks is left out");
    let near = world.start(&["receive", "--group", "orders"], None);
    near.says("1 member");
    let far = world.start(&["receive", "--daemon", &address, "--group", "orders", "--group", "audit"], None);
    far.says("audit: ");
    let _silent = std::os::unix::net::UnixStream::connect(world.socket_path(1)).unwrap();
    support::wait_until("all three are there", || json(&world, &["clients"]).as_array().unwrap().len() == 3);
    let clients = json(&world, &["clients"]);
    let told = |at: usize, key: &str| clients[at][key].to_string().replace('"', "");
    let row = |at: usize| {
        ["node", "listener", "transport", "state", "groups", "unread_bytes"].map(|key| told(at, key)).join(" ")
    };
    assert_eq!(
        [row(0), row(1), row(2)],
        ["1 native unix open 1 0", "1 native tcp open 2 0", "1 native unix connecting 0 0"]
    );
    assert_eq!((&clients[2]["name"], &clients[0]["credit_bytes"]), (&Value::Null, &262_144.into()));
    let ran = world.run(&["clients", "--daemon", &address]);
    assert!(ran.out.starts_with("CLUSTER  NODE  NAME") && ran.out.lines().count() == 4, "{}", ran.out);
}

/// A daemon with these settings of its clients.
fn daemon_with(world: &World, clients: &str) -> Daemon {
    let (cluster, port) = (&world.cluster, free_port());
    let node = format!("[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"");
    let text = format!("cluster = \"{cluster}\"\nmulticast = \"off\"\n{node}\n[clients]\n{clients}\n");
    world.daemon_as(&["daemon", "--config", &world.write("clients.toml", &text)])
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let world = World::new();
    let tcp = format!("127.0.0.1:{}", free_port());
    let _daemon = daemon_with(&world, &format!("most = 20\nlisten = [\"{tcp}\"]"));
    let silent: Vec<_> = (0..150).map(|_| std::net::TcpStream::connect(&tcp).unwrap()).collect();
    let began = std::time::Instant::now();
    let words = ["send", "--group", "g", "--timeout", "5s", "hello"];
    for words in [&words[..], &["status"], &[&words[..], &["--daemon", &tcp]].concat()] {
        let ran = world.run(words);
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.errors);
    }
    println!("{} silent connections, three commands in {:?}", silent.len(), began.elapsed());
}

#[test]
fn a_daemon_whose_places_are_taken_still_answers_who_only_asks() {
    let world = World::new();
    let _daemon = daemon_with(&world, "most = 1");
    let first = world.start(&["receive", "--group", "orders"], None);
    first.says("1 member");
    let refused = world.run(&["send", "hello"]);
    assert!(refused.code == 3 && refused.errors.contains("serves 1 clients"), "{refused:?}");
    for words in [&["status"][..], &["explain"], &["groups"], &["clients"]] {
        let ran = world.run(words);
        assert_eq!((ran.code, ran.out.is_empty()), (0, false), "{words:?}: {}", ran.errors);
    }
    let status = json(&world, &["status"]);
    assert_eq!(status[0]["status"]["sessions_ended_too_many_clients"], 1);
}
