//! Daemons whose settings differ: they do not disturb each other, and each says in what they differ.

use crate::support::{World, free_port, wait_until};
use std::time::Duration;

/// A file of three nodes at these ports.
fn file(world: &World, name: &str, ports: [u16; 3], more: &str) -> String {
    file_of(world, name, &ports, ports[2] + 2, more)
}

/// A file of nodes at these ports, with this port for multicast.
fn file_of(world: &World, name: &str, ports: &[u16], multicast: u16, more: &str) -> String {
    let node = |(id, port): (usize, &u16)| format!("[[node]]\nid = {}\naddress = \"127.0.0.1:{port}\"\n", id + 1);
    let nodes: String = ports.iter().enumerate().map(node).collect();
    let text = format!("cluster = \"{}\"\nmulticast = \"239.192.1.7:{multicast}\"\n{nodes}{more}", world.cluster);
    world.write(name, &text)
}

#[test]
fn a_setting_that_differs_is_named_with_both_values() {
    let (world, ports) = (World::new(), [free_port(), free_port(), free_port()]);
    let one = file(&world, "one.toml", ports, "[limits]\nmessage = 2000\n");
    let _daemon = world.daemon_as(&["daemon", "--config", &one, "--node", "1"]);
    let other = file(&world, "other.toml", ports, "[limits]\nmessage = 1000\n");
    let ran = world.run(&["daemon", "--config", &other, "--node", "2"]);
    assert_eq!(ran.code, 2, "{}", ran.errors);
    assert!(ran.errors.contains("limits.message: it has 2000, asked is 1000"), "{}", ran.errors);
    assert!(!ran.errors.contains("datagram"), "what is the same is not told: {}", ran.errors);
}

#[test]
fn a_node_whose_file_gives_it_another_address_disturbs_nobody_and_all_are_told_why() {
    let (here, mut there) = (World::new(), World::new());
    there.cluster.clone_from(&here.cluster);
    let (ports, elsewhere) = ([free_port(), free_port(), free_port()], free_port());
    let good = file(&here, "good.toml", ports, "");
    let wrong = file(&there, "wrong.toml", [ports[0], elsewhere, ports[2]], "");
    let pair = ["1", "3"].map(|node| here.daemon_as(&["daemon", "--config", &good, "--node", node]));
    let changes = || {
        let ran = here.run(&["explain", "--node", "1", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (json["members"].as_array().unwrap().len(), json["changes"].as_array().unwrap().len())
    };
    wait_until("both are in one view", || changes().0 == 2);
    let third = there.daemon_as(&["daemon", "--config", &wrong, "--node", "2"]);
    let says =
        |theirs: u16, mine: u16| format!("address of node 2 is 127.0.0.1:{theirs} there and 127.0.0.1:{mine} here");
    let before = changes();
    for daemon in &pair {
        let line = daemon.says("the node has other settings");
        assert!(line.contains(&says(elsewhere, ports[1])) && line.contains("make the files alike"), "{line}");
    }
    let line = third.says("the node has other settings");
    assert!(line.contains(&says(ports[1], elsewhere)), "{line}");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(changes(), before, "the pair goes on as before");
    for (world, node, text) in [(&here, "1", says(elsewhere, ports[1])), (&there, "2", says(ports[1], elsewhere))] {
        for command in ["explain", "status"] {
            let mut words = vec![command];
            if command == "explain" {
                words.extend(["--node", node]);
            }
            let ran = world.run(&words);
            assert!(ran.out.contains(&text), "{command}: {}", ran.out);
        }
    }
}

#[test]
fn a_node_of_other_settings_beside_a_ring_that_lacks_nobody_is_told_why_and_so_is_the_ring() {
    let (here, mut there) = (World::new(), World::new());
    there.cluster.clone_from(&here.cluster);
    let ports = [free_port(), free_port(), free_port()];
    let pair = file_of(&here, "pair.toml", &ports[..2], ports[2] + 2, "");
    let three = file_of(&there, "three.toml", &ports, ports[2] + 2, "");
    let daemons = ["1", "2"].map(|node| here.daemon_as(&["daemon", "--config", &pair, "--node", node]));
    wait_until("both are in one view", || {
        let told: serde_json::Value =
            serde_json::from_str(&here.run(&["explain", "--node", "1", "--json"]).out).unwrap();
        told["members"].as_array().unwrap().len() == 2
    });
    let third = there.daemon_as(&["daemon", "--config", &three, "--node", "3"]);
    let line = third.says("the node has other settings");
    assert!(line.contains("nodes is n1 n2 there and n1 n2 n3 here"), "{line}");
    for daemon in &daemons {
        let line = daemon.says("the node has other settings");
        assert!(line.contains("nodes is n1 n2 n3 there and n1 n2 here"), "{line}");
    }
    let status = there.run(&["status"]).out;
    assert!(status.contains("its settings differ") && status.contains("n1 n2 there"), "{status}");
}
