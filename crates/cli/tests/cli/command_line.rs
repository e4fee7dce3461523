//! What the program says to people: help, versions, and what is wrong with a command line or a file.

use crate::support::World;

#[test]
fn help_and_version_go_to_standard_output_and_end_well() {
    let world = World::new();
    for (words, start) in
        [(&["--help"][..], "Consort: "), (&["--version"], "consort 0"), (&["send", "-h"], "Usage: consort send")]
    {
        let ran = world.run(words);
        assert_eq!((ran.code, ran.errors.as_str()), (0, ""), "{words:?}");
        assert!(ran.out.starts_with(start), "{words:?}: {}", ran.out);
    }
}

#[test]
fn a_wrong_command_line_names_the_nearest_right_one() {
    let world = World::new();
    for (words, message) in [
        (&["sned"][..], "consort: `sned` is not a command; did you mean send?\n"),
        (&["receive", "--grop", "x"], "consort: --grop: there is no such option; did you mean --group?\n"),
        (
            &["send", "--service", "best", "x"],
            "consort: --service: `best` does not fit; give reliable, fifo, causal, agreed or safe\n",
        ),
        (
            &["daemon", "--log", "loud"],
            "consort: --log: `loud` does not fit; give error, warn, info, debug or trace, or those for parts of the program: info,consort_net=debug\n",
        ),
        (
            &["daemon", "--example", "--idlig", "x"],
            "consort: --idlig: there is no such option; did you mean --idling?\n",
        ),
        (
            &["send", "--cluster", "a b", "x"],
            "consort: --cluster: `a b` is no cluster name; use 1 to 32 letters, digits, - _ and . and no . at the start\n",
        ),
    ] {
        let ran = world.run(words);
        assert_eq!((ran.code, ran.errors.as_str()), (2, message), "{words:?}");
    }
}

#[test]
fn a_group_name_that_cannot_be_is_refused() {
    let ran = World::new().run(&["receive", "--group", "two words"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.errors.starts_with("consort: --group: a group name has byte 0x20 at 3; use printable"),
        "{}",
        ran.errors
    );
}

#[test]
fn lists_want_their_own_words_only() {
    let world = World::new();
    for (words, message) in [
        (&["groups", "--member"][..], "consort: --member: there is no such option; did you mean --members?\n"),
        (&["groups", "#bob#n1"], "consort: GROUP `#bob#n1`: a group name has byte 0x23 at 0"),
        (&["clients", "bob"], "consort: `bob` is not an option; options start with -- (see --help)\n"),
        (&["clients", "--node", "0"], "consort: --node: `0` does not fit; give a number from 1 to 65535\n"),
        (&["client"], "consort: `client` is not a command; did you mean clients?\n"),
    ] {
        let ran = world.run(words);
        assert_eq!(ran.code, 2, "{words:?}");
        assert!(ran.errors.starts_with(message), "{words:?}: {}", ran.errors);
    }
}

#[test]
fn without_a_daemon_the_way_to_one_is_told() {
    let world = World::new();
    for words in [
        &["send", "hello"][..],
        &["receive"],
        &["status"],
        &["groups"],
        &["clients"],
        &["explain"],
        &["explain", "--node", "3"],
    ] {
        let ran = world.run(words);
        assert_eq!(ran.code, 3, "{words:?}: {}", ran.errors);
        assert!(ran.errors.contains("start one with `consort daemon`"), "{words:?}: {}", ran.errors);
    }
    for words in [&["send", "hello"][..], &["explain"], &["groups"], &["groups", "lobby"], &["clients"]] {
        let words = &[words, &["--daemon", "/nowhere/node-1.sock"]].concat();
        let ran = world.run(words);
        assert_eq!(ran.code, 3, "{words:?}");
        assert!(ran.errors.contains("/nowhere/node-1.sock"), "{}", ran.errors);
    }
}

#[test]
fn a_wrong_file_names_line_key_and_remedy_and_starts_nothing() {
    let world = World::new();
    let file = world.write(
        "consort.toml",
        "cluster = \"prod\"\n\n[[node]]\nid = 1\nadress = \"127.0.0.1\"\n[ring]\nprotocol = 3\n",
    );
    let ran = world.run(&["daemon", "--config", &file]);
    assert_eq!(ran.code, 2);
    let problems: Vec<&str> = ran.errors.lines().map(str::trim).collect();
    assert_eq!(
        problems,
        [
            format!("consort: {file}:3: node.address: is missing; say where the node is: address = \"192.0.2.11\"")
                .as_str(),
            &format!("{file}:5: node.adress: there is no such key; did you mean address?"),
            &format!("{file}:7: ring.protocol: 3 is not a text; put it in \"quotes\""),
        ]
    );
}

#[test]
fn a_file_without_this_machine_in_it_is_waited_with_and_says_so() {
    let world = World::new();
    let file = world.write("consort.toml", "cluster = \"prod\"\n[[node]]\nid = 1\naddress = \"192.0.2.11\"\n");
    // At boot it may get the address later, so the daemon waits, until it is told to end.
    for (words, says) in
        [(&[][..], "none of 192.0.2.11, which"), (&["--node", "1"][..], "node 1 needs 192.0.2.11, which")]
    {
        let mut waits = world.start(&[&["daemon", "--config", &file], words].concat(), None);
        assert!(waits.says(says).contains("; the daemon waits for it"));
        waits.signal(rustix::process::Signal::TERM);
        let ran = waits.wait();
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.errors);
    }
    let ran = world.run(&["daemon", "--config", &file, "--node", "7"]);
    assert!(ran.errors.contains("node 7: cluster `prod` has no such node; it has 1"), "{}", ran.errors);
}

#[test]
fn a_command_that_is_a_program_of_its_own_says_how_to_install_it() {
    let world = World::new();
    let consort = world.path("consort");
    std::fs::copy(env!("CARGO_BIN_EXE_consort"), &consort).unwrap();
    let run = |command: &str| {
        let start = || std::process::Command::new(&consort).args([command, "ring"]).env("PATH", "").output();
        // A process that another test has just forked may still hold the copy open for writing.
        let busy = |ran: &std::io::Result<_>| {
            ran.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy)
        };
        let mut ran = start();
        while busy(&ran) {
            std::thread::sleep(std::time::Duration::from_millis(10));
            ran = start();
        }
        let ran = ran.unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    for (command, folder) in [("top", "crates/top"), ("bench", "bench/bench"), ("lab", "bench/papers")] {
        let (code, errors) = run(command);
        assert!(errors.starts_with(&format!("consort: `consort {command}` is a program of its own, ")), "{errors}");
        assert!(code == Some(1) && errors.ends_with(&format!("--path {folder} installs it\n")), "{errors}");
    }
    // One that lies beside it is started with the words.
    std::os::unix::fs::symlink("/bin/echo", world.path("consort-bench")).unwrap();
    let ran = std::process::Command::new(&consort).args(["bench", "ring"]).env("PATH", "").output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "ring\n");
}
