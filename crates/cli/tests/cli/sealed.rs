//! Daemons with a key: those that have it order messages, and whoever has another or none is kept out and told why.

use crate::support::{World, free_port, wait_until};
use std::os::unix::fs::PermissionsExt;

/// A key file of this world.
fn key(world: &World, name: &str) -> String {
    let path = world.path(name).display().to_string();
    let ran = world.run(&["keygen", &path]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    path
}

fn status(world: &World, node: u16) -> serde_json::Value {
    let ran = world.run(&["status", "--node", &node.to_string(), "--json"]);
    serde_json::from_str::<serde_json::Value>(&ran.out).unwrap_or_default()[0]["status"].clone()
}

fn members(world: &World, node: u16) -> usize {
    status(world, node)["members"].as_str().unwrap_or_default().split_whitespace().count()
}

fn count(world: &World, node: u16, key: &str) -> u64 {
    status(world, node)[key].as_u64().unwrap_or(0)
}

#[test]
fn three_daemons_with_a_key_order_messages_with_each_protocol() {
    for protocol in ["ring", "toto", "plato", "paxos"] {
        let world = World::new();
        let key = key(&world, "key");
        let _daemons = world.daemons(3, &["--key", &key, "--protocol", protocol]);
        wait_until("all are in one view", || (1..=3).all(|node| members(&world, node) == 3));
        let receive = |node: &str| {
            let receiver = world.start(&["receive", "--node", node, "--until", "end", "--timeout", "55s"], None);
            receiver.says("member");
            receiver
        };
        let mut receivers = ["1", "2", "3"].map(receive);
        let lines: String = (0..2_000).map(|n| format!("line {n} {}\n", "x".repeat(n % 700))).collect();
        for node in ["1", "2", "3"] {
            let sent = world.run_with(&["send", "--node", node, "--timeout", "50s"], lines.as_bytes());
            assert_eq!(sent.code, 0, "{protocol}: {}", sent.errors);
        }
        let large = "large ".repeat(100_000) + "\n";
        assert_eq!(world.run_with(&["send", "--node", "2"], large.as_bytes()).code, 0);
        assert_eq!(world.run(&["send", "--node", "1", "end"]).code, 0);
        let received = receivers.each_mut().map(|receiver| receiver.wait().out);
        assert_eq!(received[0].lines().count(), 3 * 2_000 + 2, "{protocol}");
        assert!(received[0] == received[1] && received[1] == received[2], "{protocol}: one order");
        let security = status(&world, 1)["security"].as_str().unwrap_or_default().to_owned();
        assert!(security.starts_with("sealed with ") && security.contains("key epoch 1; 2 of 2"), "{security}");
        assert_eq!((1..=3).map(|node| count(&world, node, "unopened_forged")).sum::<u64>(), 0);
    }
}

#[test]
fn each_node_by_itself_is_sealed_to_as_well_and_a_key_may_stand_in_the_file() {
    let (world, ports) = (World::new(), [free_port(), free_port(), free_port()]);
    let node = |(id, port): (usize, &u16)| format!("[[node]]\nid = {}\naddress = \"127.0.0.1:{port}\"\n", id + 1);
    let nodes: String = ports.iter().enumerate().map(node).collect();
    let security = format!("[security]\nkey = \"{}\"\n", key(&world, "key"));
    let text = format!("cluster = \"{}\"\nmulticast = \"off\"\ndatagram = 600\n{nodes}{security}", world.cluster);
    let file = world.write("cluster.toml", &text);
    let daemon = |node| world.daemon_as(&["daemon", "--config", &file, "--node", node]);
    let _daemons = ["1", "2", "3"].map(daemon);
    wait_until("all are in one view", || (1..=3).all(|node| members(&world, node) == 3));
    let receive = |node| world.start(&["receive", "--node", node, "--until", "end", "--timeout", "55s"], None);
    let mut receivers = ["1", "3"].map(receive);
    receivers.iter().for_each(|receiver| drop(receiver.says("2 members")));
    let lines: String = (0..1_000).map(|n| format!("line {n} {}\n", "x".repeat(n))).collect();
    assert_eq!(world.run_with(&["send", "--node", "2"], lines.as_bytes()).code, 0);
    assert_eq!(world.run(&["send", "--node", "2", "end"]).code, 0);
    let [one, three] = receivers.each_mut().map(|receiver| receiver.wait().out);
    assert!(one == lines + "end\n" && one == three);
}

#[test]
fn who_has_another_key_or_none_is_kept_out_and_all_are_told_why() {
    let world = World::new();
    let (good, other) = (key(&world, "good"), key(&world, "other"));
    let pair = [(); 2].map(|()| world.daemon(&["--nodes", "3", "--key", &good]));
    wait_until("two are in one view", || (1..=2).all(|node| members(&world, node) == 2));
    let view = || (status(&world, 1)["view"].clone(), status(&world, 2)["view"].clone());
    let before = view();
    let mut third = world.daemon(&["--nodes", "3", "--key", &other]);
    for daemon in pair.iter().chain([&third]) {
        let line = daemon.says("do not open: it has another key");
        assert!(line.contains("give all nodes the same key file"), "{line}");
    }
    assert!(count(&world, 1, "unopened_forged") > 0 && count(&world, 3, "unopened_forged") > 0);
    third.kill();
    let mut third = world.daemon(&["--nodes", "3"]);
    pair.iter().for_each(|daemon| drop(daemon.says("plain datagrams come that say they are of the node")));
    third.says("sealed datagrams come, and no key is configured here");
    assert!(count(&world, 1, "unopened_plain") > 0 && count(&world, 3, "unopened_sealed") > 0);
    assert_eq!((members(&world, 3), view()), (1, before), "nobody was disturbed");
    third.kill();
    let _third = world.daemon(&["--nodes", "3", "--key", &good]);
    wait_until("the third is let in with the key", || (1..=3).all(|node| members(&world, node) == 3));
}

#[test]
fn a_daemon_that_is_killed_comes_back_with_new_seals_though_its_state_is_lost() {
    let world = World::new();
    let key = key(&world, "key");
    let mut daemons = world.daemons(3, &["--key", &key]);
    wait_until("all are in one view", || (1..=3).all(|node| members(&world, node) == 3));
    for round in 0..3 {
        daemons[2].kill();
        wait_until("one is missed", || members(&world, 1) == 2);
        if round > 0 {
            let _ = std::fs::remove_dir_all(world.path("state"));
        }
        daemons[2] = world.daemon(&["--nodes", "3", "--node", "3", "--key", &key]);
        wait_until("it is back", || (1..=3).all(|node| members(&world, node) == 3));
    }
}

#[test]
fn a_key_is_written_once_and_only_for_its_owner() {
    let world = World::new();
    let path = key(&world, "key");
    let again = world.run(&["keygen", &path]);
    assert_eq!(again.code, 1);
    assert!(again.errors.contains("it exists"), "{}", again.errors);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = world.run(&["daemon", "--key", &path]);
    assert_eq!(ran.code, 2, "{}", ran.errors);
    assert!(ran.errors.contains("mode 0644") && ran.errors.contains(&format!("chmod 600 {path}")), "{}", ran.errors);
    // As Kubernetes mounts it: for a group of the daemon to read.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).unwrap();
    let _daemon = world.daemon(&["--key", &path]);
    assert_eq!(world.run(&["send", "--quiet", "sealed"]).code, 0);
}
