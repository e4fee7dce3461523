//! Keys that change while messages flow, with real daemons: nothing is lost, and whoever lacks a key is named.

use crate::support::{self, Daemon, World, free_port, wait_until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Three nodes, each with a file of settings and a key file of its own.
struct Cluster {
    world: World,
    protocol: &'static str,
    nodes: String,
}

impl Cluster {
    fn new(protocol: &'static str) -> Self {
        let (world, ports) = (World::new(), [free_port(), free_port(), free_port()]);
        let node = |(id, port): (usize, &u16)| format!("[[node]]\nid = {}\naddress = \"127.0.0.1:{port}\"\n", id + 1);
        let nodes: String = ports.iter().enumerate().map(node).collect();
        let cluster = Self { world, protocol, nodes };
        assert_eq!(cluster.world.run(&["keygen", &cluster.key(1)]).code, 0);
        cluster.copy_key(2);
        cluster.copy_key(3);
        cluster
    }

    /// The key file of a node.
    fn key(&self, node: u16) -> String {
        self.world.path(&format!("key-{node}")).display().to_string()
    }

    fn copy_key(&self, to: u16) {
        fs::copy(self.key(1), self.key(to)).unwrap();
    }

    fn daemon(&self, node: u16) -> Daemon {
        let Self { nodes, protocol, .. } = self;
        let (cluster, key) = (&self.world.cluster, self.key(node));
        let head = format!("cluster = \"{cluster}\"\nprotocol = \"{protocol}\"\nmulticast = \"off\"\n");
        let text = format!("{head}{nodes}[security]\nkey = \"{key}\"\n");
        let file = self.world.write(&format!("node-{node}.toml"), &text);
        self.world.daemon_as(&["daemon", "--config", &file, "--node", &node.to_string()])
    }

    fn status(&self, node: u16) -> serde_json::Value {
        let ran = self.world.run(&["status", "--node", &node.to_string(), "--json"]);
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap_or_default()[0]["status"].clone()
    }

    fn text(&self, node: u16, key: &str) -> String {
        self.status(node)[key].as_str().unwrap_or_default().to_owned()
    }

    fn count(&self, node: u16, key: &str) -> u64 {
        self.status(node)[key].as_u64().unwrap_or(0)
    }

    fn members(&self, node: u16) -> usize {
        self.text(node, "members").split_whitespace().count()
    }

    fn wait_for(&self, nodes: &[u16]) {
        wait_until("they are in one view", || nodes.iter().all(|node| self.members(*node) == nodes.len()));
    }

    /// How much was dropped for its key.
    fn refused(&self) -> u64 {
        let causes = ["forged", "key_epoch", "superseded", "not_adopted"].map(|cause| format!("unopened_{cause}"));
        (1..=3).map(|node| causes.iter().map(|cause| self.count(node, cause)).sum::<u64>()).sum()
    }

    /// Puts the next key into the first node's file, in place of an old one if there is one.
    fn next_key(&self) {
        let text = fs::read_to_string(self.key(1)).unwrap();
        let keys: Vec<_> = text.lines().filter(|line| line.starts_with("key")).collect();
        fs::write(self.key(1), format!("{}\n", keys.last().unwrap())).unwrap();
        let ran = self.world.run(&["key", "next", &self.key(1)]);
        assert_eq!(ran.code, 0, "{}", ran.errors);
    }

    /// Has a daemon read its key file again, and waits until it holds that epoch.
    fn reload(&self, daemon: &Daemon, node: u16, epoch: u16) {
        daemon.signal(Signal::HUP);
        wait_until("it holds the key", || self.text(node, "key_epochs").contains(&format!("{epoch} next")));
    }

    fn rotate(&self, node: u16) -> support::Ran {
        self.world.run(&["key", "rotate", "--node", &node.to_string(), "--timeout", "30s"])
    }
}

#[test]
fn keys_change_under_load_and_amid_a_kill_and_nothing_is_lost() {
    let cluster = Cluster::new("ring");
    let mut daemons: Vec<_> = (1..=3).map(|node| cluster.daemon(node)).collect();
    cluster.wait_for(&[1, 2, 3]);
    let receive = |node| cluster.world.start(&["receive", "--node", node, "--until", "end", "--timeout", "110s"], None);
    let mut receivers = ["1", "2"].map(receive);
    receivers.iter().for_each(|receiver| drop(receiver.says("2 members")));
    let mut expected = String::new();
    for epoch in 2..=5_u16 {
        let lines: String = (0..10_000).map(|n| format!("epoch {epoch} line {n} {}\n", "x".repeat(n % 300))).collect();
        expected.push_str(&lines);
        cluster.next_key();
        cluster.copy_key(2);
        cluster.copy_key(3);
        (1..=3).zip(&daemons).for_each(|(node, daemon)| cluster.reload(daemon, node, epoch));
        let before = (cluster.text(1, "view"), cluster.refused());
        // One is killed before it is asked, one while members answer.
        let kills = epoch == 4 || epoch == 5;
        std::thread::scope(|scope| {
            let sent =
                scope.spawn(|| cluster.world.run_with(&["send", "--node", "2", "--timeout", "100s"], lines.as_bytes()));
            if epoch == 4 {
                daemons[2].kill();
            }
            let rotated = scope.spawn(|| cluster.rotate(1 + epoch % 2));
            if epoch == 5 {
                daemons[2].kill();
            }
            let ran = rotated.join().unwrap();
            assert_eq!(ran.code, 0, "{}", ran.errors);
            assert!(ran.out.contains(&format!("the key of epoch {epoch}")), "{}", ran.out);
            assert_eq!(sent.join().unwrap().code, 0);
        });
        if kills {
            daemons[2] = cluster.daemon(3);
        }
        cluster.wait_for(&[1, 2, 3]);
        let all_use_it = || (1..=3).all(|node| cluster.count(node, "key_epoch") == u64::from(epoch));
        wait_until("all seal with it", all_use_it);
        let after = (cluster.text(1, "view"), cluster.refused());
        assert!(kills || after == before, "no view changes for a key, and nothing is refused: {before:?}, {after:?}");
    }
    assert_eq!(cluster.world.run(&["send", "--node", "1", "end"]).code, 0);
    let [one, two] = receivers.each_mut().map(|receiver| receiver.wait().out);
    expected.push_str("end\n");
    assert!(one == expected && one == two, "all lines came, once, in their order");
    for key in ["unopened_forged", "unopened_key_epoch"] {
        assert_eq!((cluster.count(1, key), cluster.count(2, key)), (0, 0), "{key}");
    }
}

#[test]
fn with_each_protocol_a_node_that_was_away_and_forgot_learns_which_key_is_in_use() {
    //= K07 test
    for protocol in ["toto", "plato", "paxos"] {
        let cluster = Cluster::new(protocol);
        let mut daemons: Vec<_> = (1..=3).map(|node| cluster.daemon(node)).collect();
        cluster.wait_for(&[1, 2, 3]);
        cluster.next_key();
        cluster.copy_key(2);
        cluster.copy_key(3);
        (1..=3).zip(&daemons).for_each(|(node, daemon)| cluster.reload(daemon, node, 2));
        let ran = cluster.rotate(3);
        assert_eq!(ran.code, 0, "{protocol}: {}", ran.errors);
        daemons[2].kill();
        let kept = find(&cluster.world.path("state"), "node-3.key-epoch").expect("it is kept");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "2\n");
        fs::remove_file(kept).unwrap();
        cluster.wait_for(&[1, 2]);
        daemons[2] = cluster.daemon(3);
        daemons[2].says("others seal with this key");
        cluster.wait_for(&[1, 2, 3]);
        assert!((1..=3).all(|node| cluster.count(node, "key_epoch") == 2), "{protocol}");
    }
}

/// The file of that name, somewhere below a directory.
fn find(below: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    fs::read_dir(below).ok()?.flatten().find_map(|entry| match entry.path() {
        path if path.is_dir() => find(&path, name),
        path => (path.file_name()? == name).then_some(path),
    })
}

#[test]
fn a_node_that_lacks_the_key_stops_it_is_told_and_comes_back_once_it_has_it() {
    //= K09 test
    let cluster = Cluster::new("ring");
    let mut daemons: Vec<_> = (1..=3).map(|node| cluster.daemon(node)).collect();
    cluster.wait_for(&[1, 2, 3]);
    let refused = cluster.rotate(1);
    assert_eq!(refused.code, 1, "{}", refused.errors);
    assert!(refused.errors.contains("key epoch 1 is in use") && refused.errors.contains("consort key next"));
    cluster.next_key();
    let twice = cluster.world.run(&["key", "next", &cluster.key(1)]);
    assert!(twice.code == 1 && twice.errors.contains("holds two keys already"), "{}", twice.errors);
    cluster.copy_key(2);
    cluster.reload(&daemons[0], 1, 2);
    cluster.reload(&daemons[1], 2, 2);
    let refused = cluster.rotate(2);
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("n3 lacks it: copy the key file to that node"), "{}", refused.errors);
    assert!((1..=3).all(|node| cluster.text(node, "keys_lacking") == "n3 lacks the key of epoch 2"));
    daemons[2].says("key not adopted: n3 lacks it");
    // It is away: the others go on without it, and it comes back without the key.
    daemons[2].kill();
    cluster.wait_for(&[1, 2]);
    assert_eq!(cluster.rotate(1).code, 0);
    daemons[2] = cluster.daemon(3);
    daemons[2].says("the node seals with a key that this node lacks");
    wait_until("it is told what it lacks", || {
        cluster.text(3, "keys_apart").contains("this node lacks the key of epoch 2")
            && cluster.text(1, "keys_apart").contains("n3 uses epoch 1")
    });
    assert!(cluster.count(3, "unopened_key_epoch") > 0 && cluster.count(1, "unopened_superseded") > 0);
    assert_eq!(cluster.members(1), 2, "nobody was disturbed");
    let shown = cluster.world.run(&["status"]).out;
    assert!(shown.contains("node 3: this node lacks the key of epoch 2"), "{shown}");
    cluster.copy_key(3);
    cluster.reload(&daemons[2], 3, 2);
    cluster.wait_for(&[1, 2, 3]);
    assert!((1..=3).all(|node| cluster.count(node, "key_epoch") == 2));
}

#[test]
fn a_key_file_that_is_not_right_changes_nothing_and_the_log_says_why() {
    //= K08 test
    let cluster = Cluster::new("ring");
    let daemon = cluster.daemon(1);
    wait_until("it runs", || cluster.members(1) == 1);
    let good = fs::read_to_string(cluster.key(1)).unwrap();
    let hangup = |text: &str, says: &str| {
        fs::write(cluster.key(1), text).unwrap();
        daemon.signal(Signal::HUP);
        daemon.says(says);
        assert_eq!(cluster.text(1, "key_epochs"), "1 in use");
    };
    hangup("key 2 secret\n", "line 1 is not `key EPOCH HEX`");
    hangup(&good.replace("key 1", "key 2"), "the key in use, of epoch 1, is not in it");
    fs::set_permissions(cluster.key(1), fs::Permissions::from_mode(0o660)).unwrap();
    hangup(&good, "mode 0660");
    fs::set_permissions(cluster.key(1), fs::Permissions::from_mode(0o600)).unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("told by SIGHUP: key file read again");
    let refused = cluster.rotate(1);
    assert!(refused.code == 1 && refused.errors.contains("no newer one"), "{}", refused.errors);
}

#[test]
fn a_daemon_without_a_key_has_none_to_change() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let refused = world.run(&["key", "rotate"]);
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("no key is configured"), "{}", refused.errors);
    let nothing = world.run(&["key", "next", &world.path("none").display().to_string()]);
    assert!(nothing.code == 2 && nothing.errors.contains("consort keygen"), "{}", nothing.errors);
}
