//! This project's own client passes every scenario, and what is wrong is noticed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests run real processes")]

use consort_conformance::{Program, SCENARIOS, play};
use std::collections::BTreeSet;
use std::process::Command;

/// What a program came to at each listener: the scenarios that it lacks, how many were played, and what was wrong.
#[derive(Debug, Default)]
struct Played {
    listeners: BTreeSet<String>,
    lacked: BTreeSet<(String, &'static str)>,
    played: usize,
    wrong: Vec<String>,
}

fn play_all(program: &Program) -> Played {
    let consort = consort_testbed::program_for_tests().unwrap();
    let mut all = Played::default();
    let failed = play(program, &consort, "", |listener, scenario, outcome| {
        all.listeners.insert(listener.to_owned());
        match outcome {
            None => {
                assert!(all.lacked.insert((listener.to_owned(), scenario.name)), "{listener}, {}: twice", scenario.name)
            }
            Some(outcome) => {
                all.played += 1;
                let error = outcome.as_ref().err();
                all.wrong.extend(error.map(|error| format!("{listener}, {}: {error}", scenario.name)));
            }
        }
    });
    assert_eq!(failed, Ok(all.wrong.len()));
    all
}

#[test]
fn the_own_client_passes() {
    let all = play_all(&Program(vec![env!("CARGO_BIN_EXE_conformance-client").into()]));
    assert_eq!((all.wrong, all.lacked), (Vec::new(), BTreeSet::new()));
    assert_eq!(all.listeners, ["tcp", "unix"].map(String::from).into());
    assert_eq!(all.played, 2 * SCENARIOS.len());
}

/// What Spread's session protocol has nothing for.
const BEYOND_SPREAD: [&str; 8] = [
    "is told the view of the network where it asks",
    "is told whether a group is open, of the primary part, and who remains where it leaves",
    "is told which send was refused, and why",
    "is kept out of a closed group",
    "is told positions where it asks",
    "is told that its daemon stops",
    "is told that its daemon is silent",
    "goes on at another daemon, with each message once",
];

#[test]
fn a_client_of_spread_passes_what_its_protocol_has() {
    let all = play_all(&Program(vec![env!("CARGO_BIN_EXE_conformance-spread").into()]));
    let listeners = ["spread tcp", "spread unix"].map(String::from);
    let lacked = listeners.iter().flat_map(|listener| BEYOND_SPREAD.map(|name| (listener.clone(), name))).collect();
    assert_eq!((all.wrong, all.lacked), (Vec::new(), lacked));
    assert_eq!(all.listeners, listeners.into());
    assert_eq!((all.played, SCENARIOS.len()), (2 * 17, 25));
}

/// Programs that do not do what is asked fail every scenario, with what was wrong.
#[test]
fn programs_that_are_no_clients_fail() {
    let consort = consort_testbed::program_for_tests().unwrap();
    for (words, said) in [
        (vec!["cat"], "came instead of"),
        (vec!["true"], "the program"),
        (vec!["/nowhere/at/all"], "cannot start /nowhere/at/all"),
        (vec![], "no program was given"),
        // It says that it has Spread's protocol, whatever is asked.
        (vec!["sh", "-c", "while read -r line; do echo ok; done"], "`ok` came instead of"),
    ] {
        let program = Program(words.into_iter().map(String::from).collect());
        let mut errors = Vec::new();
        let only = "connects under a name";
        let failed = play(&program, &consort, only, |_, _, outcome| {
            errors.extend(outcome.cloned().and_then(Result::err));
        });
        assert_eq!(failed, Ok(2), "{program:?}");
        assert!(errors.iter().all(|error| error.contains(said)), "{errors:?}");
    }
    let program = Program(vec!["cat".into()]);
    let mut lacking = 0;
    let failed =
        play(&program, &consort, "at another daemon", |_, _, outcome| lacking += usize::from(outcome.is_none()));
    assert_eq!((failed, lacking), (Ok(0), 2), "who has no session does not fail");
    let unknown = play(&program, &consort, "dances", |_, _, _| panic!("none is played"));
    assert!(unknown.unwrap_err().contains("no scenario is called like `dances`"));
}

#[test]
fn the_program_says_what_it_lacks() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_consort-conformance")).args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, errors) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("no client is named"), "{errors}");
    assert!(run(&["--louder"]).2.contains("--help lists the options"));
    let (code, out, _) = run(&["--list"]);
    assert_eq!((code, out.lines().count()), (Some(0), SCENARIOS.len()));
}
