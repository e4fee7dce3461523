//! Real daemons on this machine, and the commands that talk to them.

use crate::support::{self, World, free_port};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

fn lines(prefix: &str, count: usize) -> String {
    (1..=count).map(|line| format!("{prefix} {line}\n")).collect()
}

#[test]
fn one_daemon_serves_a_sender_and_a_receiver_without_any_configuration() {
    let world = World::new();
    let daemon = world.daemon(&[]);
    assert_eq!(
        daemon.ready,
        format!("ready: node 1 of cluster {} serves clients at {}", world.cluster, world.socket_path(1).display())
    );
    let mut receive = world.start(&["receive", "--count", "3", "--timeout", "30s"], None);
    receive.says("1 member");
    let sent = world.run(&["send", "one", "two", "three"]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert!(sent.errors.contains("sent 3 messages"), "{}", sent.errors);
    let received = receive.wait();
    assert_eq!((received.code, received.out.as_str()), (0, "one\ntwo\nthree\n"));
}

#[test]
fn an_optimistic_receiver_prints_offers_and_confirms_and_counts_what_is_confirmed() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let receive = |more: &[&str]| {
        world.start(&[&["receive", "--optimistic", "--until", "two", "--timeout", "30s"], more].concat(), None)
    };
    let mut receivers = [receive(&["--undo", "latest"]), receive(&["--json"]), receive(&["--quiet", "--digest"])];
    receivers[0].says("3 members");
    assert_eq!(world.run(&["send", "one", "two"]).code, 0);
    let [text, json, digest] = receivers.each_mut().map(support::Running::wait);
    assert_eq!((text.code, text.out.as_str()), (0, "offer 1: one\nconfirm 1\noffer 2: two\nconfirm 2\n"));
    let told: Vec<serde_json::Value> = json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = told.iter().filter(|event| event.get("offer").is_some()).collect();
    assert_eq!((told.len(), &told[0]["event"], &told[0]["text"]), (4, &"offer".into(), &"one".into()));
    assert_eq!((&told[0]["free_us"], &told[3]["event"], &told[3]["offer"]), (&0.into(), &"confirm".into(), &2.into()));
    assert!(digest.out.ends_with(" 2\n"), "{}", digest.out);
}

#[test]
fn three_daemons_deliver_one_order() {
    one_order_of_three(&[]);
}

#[test]
fn three_daemons_with_a_sequencer_deliver_one_order() {
    one_order_of_three(&["--protocol", "plato"]);
}

#[test]
fn three_daemons_of_which_a_majority_keeps_the_order_deliver_one() {
    one_order_of_three(&["--protocol", "paxos"]);
}

fn one_order_of_three(options: &[&str]) {
    let world = World::new();
    let _daemons = world.daemons(3, options);
    let receive = |node: &str| {
        world.start(&["receive", "--node", node, "--count", "3000", "--timeout", "50s", "--quiet", "--digest"], None)
    };
    let mut receivers = ["1", "2", "3"].map(receive);
    receivers.iter_mut().for_each(|receiver| drop(receiver.says("3 members")));
    let mut senders =
        ["1", "2", "3"].map(|node| world.start(&["send", "--node", node], Some(lines(node, 1000).as_bytes())));
    for sender in &mut senders {
        let ran = sender.wait();
        assert_eq!(ran.code, 0, "{}", ran.errors);
    }
    let [one, two, three] = receivers.each_mut().map(support::Running::wait);
    assert_eq!((one.code, two.code, three.code), (0, 0, 0), "{}", one.errors);
    assert_eq!(one.out.split_whitespace().nth(1), Some("3000"), "{}", one.out);
    assert!(one.out == two.out && two.out == three.out, "{} {} {}", one.out, two.out, three.out);
}

#[test]
fn the_printed_digest_is_that_of_the_printed_messages() {
    use sha2::{Digest, Sha256};
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let mut receive = world.start(&["receive", "--until", "end", "--digest", "--timeout", "30s"], None);
    receive.says("1 member");
    assert_eq!(world.run_with(&["send"], b"a\nb\nend\n").code, 0);
    let out = receive.wait().out;
    let hash: String = Sha256::digest(b"a\nb\nend\n").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(out, format!("a\nb\nend\n{hash} 3\n"));
}

/// Waits until the sender's first message has come back.
fn connected(world: &World, sender: &mut support::Running) {
    let mut receive = world.start(&["receive", "--count", "1"], None);
    receive.says("1 member");
    sender.tell("first of all\n");
    assert_eq!(receive.wait().code, 0);
}

#[test]
fn when_its_daemon_dies_a_sender_tells_which_sends_are_of_unknown_fate() {
    let world = World::new();
    let mut daemon = world.daemon(&[]);
    let mut sender = world.start(&["send"], None);
    connected(&world, &mut sender);
    // A daemon that does not run orders nothing.
    daemon.signal(Signal::STOP);
    sender.tell("first\nsecond\nthird\n");
    // Whether the first one is known to be ordered depends on when the daemon was stopped.
    sender.says(" messages are under way");
    daemon.kill();
    let ran = sender.wait();
    assert_eq!(ran.code, 4, "{}", ran.errors);
    let unknown = |first| ran.errors.contains(&format!("messages {first} to 4 may or may not have been ordered"));
    assert!(unknown(1) || unknown(2), "{}", ran.errors);
}

#[test]
fn when_its_daemon_dies_a_receiver_ends_with_an_error() {
    let world = World::new();
    let mut daemon = world.daemon(&[]);
    let mut receive = world.start(&["receive"], None);
    receive.says("1 member");
    daemon.kill();
    let ran = receive.wait();
    assert_eq!(ran.code, 3, "{}", ran.errors);
}

#[test]
fn a_receiver_whose_time_runs_out_says_so() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let ran = world.run(&["receive", "--count", "1", "--timeout", "300ms"]);
    assert_eq!(ran.code, 5);
    assert!(ran.errors.contains("time ran out"), "{}", ran.errors);
}

#[test]
fn a_sender_whose_time_runs_out_says_how_far_it_came() {
    let world = World::new();
    let daemon = world.daemon(&[]);
    let mut sender = world.start(&["send", "--timeout", "300ms"], None);
    connected(&world, &mut sender);
    daemon.signal(Signal::STOP);
    sender.tell("hello\n");
    sender.close_input();
    let ran = sender.wait();
    assert_eq!(ran.code, 5, "{}", ran.errors);
    assert!(ran.errors.contains("of what was sent, 1 message is ordered, 1 more may still be"), "{}", ran.errors);
}

#[test]
fn a_message_that_is_too_large_is_named_with_the_limit() {
    let world = World::new();
    let text = format!(
        "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n[limits]\nmessage = 10\n",
        world.cluster,
        free_port()
    );
    let file = world.write("consort.toml", &text);
    let _daemon = world.daemon_as(&["daemon", "--config", &file]);
    let ran = world.run(&["send", "fits", "does not fit"]);
    assert_eq!(ran.code, 2, "{}", ran.errors);
    assert!(ran.errors.contains("message 2: a message of 12 bytes; this cluster allows 10"), "{}", ran.errors);
}

#[test]
fn daemons_of_several_clusters_must_be_told_apart() {
    let world = World::new();
    let other = format!("{}b", world.cluster);
    let _daemons = [world.daemon(&[]), world.daemon_as(&["daemon", "--cluster", &other])];
    let ran = world.run(&["send", "hello"]);
    assert_eq!(ran.code, 2);
    assert!(ran.errors.contains(&format!("{other}/1")) && ran.errors.contains("--cluster NAME"), "{}", ran.errors);
    assert_eq!(world.run(&["send", "--cluster", &other, "hello"]).code, 0);
}

#[test]
fn events_are_told_to_programs_as_json() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let mut receive = world.start(&["receive", "--json", "--count", "2", "--timeout", "30s"], None);
    let view: serde_json::Value = serde_json::from_str(&receive.prints("group_view")).unwrap();
    assert_eq!((&view["group"], view["members"].as_array().map(Vec::len)), (&"lobby".into(), Some(1)));
    assert_eq!(world.run_with(&["send", "--service", "safe"], b"text\n\xff\x00\n").code, 0);
    let ran = receive.wait();
    let messages: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&messages[0]["text"], &messages[1]["hex"]), (&"text".into(), &"ff00".into()));
    assert_eq!((&messages[0]["service"], &messages[0]["node"]), (&"safe".into(), &1.into()));
}

#[test]
fn what_was_sent_is_told_to_programs_as_json() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let file = world.write("lines", "one\ntwo\nthree\n");
    let ran = world.run(&["send", "--from-file", &file, "--group", "a", "--group", "b", "--service", "safe", "--json"]);
    assert_eq!((ran.code, ran.errors.as_str()), (0, ""));
    let sent: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&sent["messages"], &sent["bytes"], &sent["service"]), (&3.into(), &11.into(), &"safe".into()));
    assert_eq!((&sent["groups"], sent["seconds"].as_f64().is_some()), (&vec!["a", "b"].into(), true));
    let ran = world.run(&["send", "--from-file", "/nowhere", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.errors.contains("cannot read /nowhere: "), "{}", ran.errors);
}

#[test]
fn a_full_disk_ends_a_receiver_with_a_clear_error() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut receive = world.start_into(&["receive", "--count", "1", "--timeout", "30s"], full.into());
    receive.says("1 member");
    assert_eq!(world.run(&["send", "hello"]).code, 0);
    let ran = receive.wait();
    assert_eq!(ran.code, 1, "{}", ran.errors);
    assert!(ran.errors.contains("cannot write what was received: No space left on device"), "{}", ran.errors);
}

#[test]
fn sigterm_ends_a_daemon_cleanly_and_frees_its_place() {
    let world = World::new();
    let mut daemon = world.daemon(&[]);
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.wait();
    assert_eq!(code, 0, "{log}");
    assert!(!world.socket_path(1).exists());
    let again = world.daemon(&[]);
    assert!(again.ready.starts_with("ready: node 1 "));
}

#[test]
fn a_killed_daemon_leaves_nothing_in_the_way() {
    let world = World::new();
    world.daemon(&[]).kill();
    let again = world.daemon(&[]);
    assert!(again.ready.starts_with("ready: node 1 "));
}

#[test]
fn daemons_started_one_after_another_form_one_ring_without_being_told_how_many() {
    let world = World::new();
    let daemons: Vec<_> = (1..=3).map(|_| world.daemon(&[])).collect();
    for (daemon, node) in daemons.iter().zip(1..) {
        assert!(daemon.ready.starts_with(&format!("ready: node {node} of ")), "{}", daemon.ready);
    }
    let together = || {
        let answers: serde_json::Value = serde_json::from_str(&world.run(&["status", "--json"]).out).unwrap();
        let views: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["status"]["view"]).collect();
        let members = answers[0]["status"]["members"].as_str().unwrap().split_whitespace().count();
        views.len() == 3 && views.iter().all(|view| *view == views[0]) && members == 3
    };
    support::wait_until("three daemons are in one view", together);
}

#[test]
fn one_daemon_too_many_is_told_who_is_there() {
    let world = World::new();
    let daemons = world.daemons(2, &[]);
    let ran = world.run(&["daemon", "--cluster", &world.cluster, "--nodes", "2"]);
    assert_eq!(ran.code, 1);
    assert!(ran.errors.contains("all 2 nodes"), "{}", ran.errors);
    for daemon in &daemons {
        assert!(ran.errors.contains(&daemon.id().to_string()), "{}", ran.errors);
    }
}

#[test]
fn a_daemon_with_other_settings_is_refused_beside_its_siblings() {
    let world = World::new();
    let _first = world.daemon(&["--nodes", "2"]);
    let ran = world.run(&["daemon", "--cluster", &world.cluster, "--nodes", "2", "--ring", "original"]);
    assert_eq!(ran.code, 2);
    assert!(ran.errors.contains("runs here with other settings"), "{}", ran.errors);
    assert!(ran.errors.contains("ring.protocol: it has Accelerated, asked is Original"), "{}", ran.errors);
}

#[test]
fn a_used_port_is_named() {
    let world = World::new();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!("cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"{address}\"\n", world.cluster);
    let file = world.write("consort.toml", &text);
    let ran = world.run(&["daemon", "--config", &file]);
    assert_eq!(ran.code, 1, "{}", ran.errors);
    assert!(ran.errors.contains(&address.to_string()) && ran.errors.contains("in use"), "{}", ran.errors);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let world = World::new();
    let text = format!(
        "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:0\"\ninterface = \"192.0.2.77\"\n",
        world.cluster
    );
    let file = world.write("consort.toml", &text.replace(":0", &format!(":{}", free_port())));
    let waits = world.start(&["daemon", "--config", &file], None);
    assert!(waits.says("none of").contains("127.0.0.1 (lo)"));
    let waits = world.start(&["daemon", "--config", &file, "--node", "1"], None);
    waits.says("node 1 needs 192.0.2.77, which this machine does not have");
}

#[test]
fn a_runtime_directory_that_was_removed_is_made_again_and_clients_find_the_daemon() {
    let world = World::new();
    let daemon = world.daemon(&[]);
    std::fs::remove_dir_all(world.path("run")).unwrap();
    support::wait_until("a client finds the daemon", || world.run(&["send", "--timeout", "5s", "hello"]).code == 0);
    let listed = || world.run(&["status", "--cluster", &world.cluster]).out.contains(&world.cluster);
    support::wait_until("commands list it by its lock file", listed);
    let second = world.run(&["daemon", "--cluster", &world.cluster, "--node", "1"]);
    assert!(second.code != 0 && second.errors.contains("runs on this machine already"), "{}", second.errors);
    drop(daemon);
}

#[test]
fn a_client_that_talks_nonsense_disturbs_nobody() {
    let world = World::new();
    let mut daemon = world.daemon(&[]);
    let mut receive = world.start(&["receive", "--count", "1", "--timeout", "30s"], None);
    receive.says("1 member");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[0, 0, 0, 0], &[]] {
        let mut stream = UnixStream::connect(world.socket_path(1)).unwrap();
        // The daemon may have hung up already: then it has made up its mind.
        let _ = stream.write_all(garbage);
    }
    assert_eq!(world.run(&["send", "still here"]).code, 0);
    assert_eq!(receive.wait().out, "still here\n");
    assert!(daemon.incarnations());
}

#[test]
fn status_shows_every_daemon_and_what_it_costs() {
    let world = World::new();
    let daemons = world.daemons(2, &[]);
    let ran = world.run(&["status"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    for daemon in &daemons {
        assert!(ran.out.contains(&daemon.id().to_string()), "{}", ran.out);
    }
    let ran = world.run(&["status", "--json"]);
    let daemons: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let resident = daemons[1]["resident_bytes"].as_u64().unwrap();
    assert!((1 << 20..256 << 20).contains(&resident), "{resident} bytes");
    assert_eq!(daemons[0]["node"], 1);
    assert!(
        daemons[0]["status"].as_object().is_some_and(|status| status.contains_key("retransmissions_sent")),
        "{daemons}"
    );
}

#[test]
fn explain_tells_who_came_and_who_went_and_why() {
    let world = World::new();
    let mut daemons = world.daemons(3, &[]);
    let members = |wanted: usize| {
        let ran = world.run(&["explain", "--json"]);
        let story: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (story["members"].as_array().map(Vec::len) == Some(wanted)).then_some(story)
    };
    support::wait_until("all three are in one view", || members(3).is_some());
    daemons[1].kill();
    support::wait_until("two are left", || members(2).is_some());
    let story = members(2).unwrap();
    let last = story["changes"].as_array().unwrap().iter().rfind(|change| change["what"] == "view").unwrap();
    assert_eq!((&last["gone"], &last["primary"]), (&vec![2].into(), &"no policy".into()), "{story}");
    assert!(last["why"].as_str().unwrap().contains("n2 silent for"), "{story}");
    daemons[1] = world.daemon(&["--nodes", "3"]);
    support::wait_until("it is back", || {
        members(3).is_some() && world.run(&["explain", "--node", "3"]).out.contains("Now operational; view ")
    });
    let ran = world.run(&["explain", "--node", "3", "--last", "2"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    for part in ["Node 3 of cluster test-", "n2 gone: n1 n3\n", "n2 came: n1-n3\n", "Now operational; view "] {
        assert!(ran.out.contains(part), "`{part}` is missing in:\n{}", ran.out);
    }
    assert!(!ran.out.contains("primary"), "without a file there is no policy:\n{}", ran.out);
    support::wait_until("each hears the others", || {
        world.run(&["status"]).out.contains("node 1 hears both ways n2 n3\n")
    });
}

#[test]
fn a_daemon_that_listens_to_the_network_warns_that_it_is_not_encrypted() {
    let world = World::new();
    let port = free_port();
    let mut daemon = world.daemon(&["--listen", &format!("0.0.0.0:{port}")]);
    let address = format!("127.0.0.1:{port}");
    assert_eq!(world.run(&["send", "--daemon", &address, "over tcp"]).code, 0);
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.wait();
    assert_eq!(code, 0);
    assert!(log.contains("is not encrypted"), "{log}");
}

#[test]
fn a_daemon_can_be_told_to_end_with_its_standard_input() {
    let world = World::new();
    let mut running = world.start(&["daemon", "--cluster", &world.cluster, "--while-stdin-open"], None);
    running.says("serving");
    running.close_input();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_log_level_that_does_not_exist_is_refused() {
    let world = World::new();
    for words in [&["daemon", "--log", "warning"][..], &["daemon", "--log", "consort=loud"]] {
        let ran = world.run(words);
        assert!(ran.code == 2 && ran.errors.contains("give error, warn, info, debug or trace"), "{ran:?}");
    }
}

#[test]
fn a_daemon_whose_log_nobody_reads_serves_on_and_ends_well() {
    let world = World::new();
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let mut command = world.command(&["daemon", "--cluster", &world.cluster, "--log", "debug"]);
    let mut daemon = command.stderr(writes).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready: "), "{ready}");
    let mut stranger = UnixStream::connect(world.socket_path(1)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut turned_away = Vec::new();
    let _ = stranger.read_to_end(&mut turned_away);
    assert_eq!(world.run(&["status", "--cluster", &world.cluster]).code, 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_daemon_whose_output_nobody_reads_serves() {
    let world = World::new();
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let mut daemon = world.start_into(&["daemon", "--cluster", &world.cluster], writes.into());
    daemon.says("serving");
    support::wait_until("it serves", || world.run(&["status", "--cluster", &world.cluster]).code == 0);
    daemon.kill();
}

/// What `receive` prints of a message on a terminal.
fn on_a_terminal(world: &World, more: &[&str], message: &str) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = std::fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let words = [&["receive", "--group", "g", "--count", "1"], more].concat();
    let mut receiver = world.start_into(&words, Stdio::from(side));
    support::wait_until("it has joined", || world.run(&["groups", "g"]).code == 0);
    assert_eq!(world.run(&["send", "--group", "g", message]).code, 0);
    assert_eq!(receiver.wait().code, 0);
    let (mut terminal, mut printed) = (std::fs::File::from(terminal), [0; 4096]);
    let n = terminal.read(&mut printed).unwrap();
    String::from_utf8_lossy(&printed[..n]).into_owned()
}

#[test]
fn a_terminal_is_shown_no_control_character_of_a_message_unless_that_is_wanted() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let message = "clear\u{1b}[2Jand\nlie";
    assert_eq!(on_a_terminal(&world, &[], message), "clear\\x1b[2Jand\\nlie\r\n");
    assert_eq!(on_a_terminal(&world, &["--raw"], message), "clear\u{1b}[2Jand\r\nlie\r\n");
    let json = on_a_terminal(&world, &["--json"], "title\u{9b}0m");
    assert!(json.contains("title\\u009b0m") && !json.contains('\u{9b}'), "{json}");
}
