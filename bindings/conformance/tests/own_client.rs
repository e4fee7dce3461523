//! This project's own client passes every scenario, and what is wrong is noticed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests run real processes")]

use consort_conformance::{Program, SCENARIOS, play};
use std::process::Command;

#[test]
fn the_own_client_passes() {
    let program = Program(vec![env!("CARGO_BIN_EXE_conformance-client").into()]);
    let consort = consort_testbed::program_for_tests().unwrap();
    let (mut wrong, mut played) = (Vec::new(), 0);
    let failed = play(&program, &consort, "", |door, scenario, outcome| {
        played += usize::from(outcome.is_some());
        wrong.extend(
            outcome
                .and_then(|outcome| outcome.as_ref().err())
                .map(|error| format!("{door}, {}: {error}", scenario.name)),
        );
    });
    assert_eq!((failed, wrong), (Ok(0), Vec::new()));
    assert_eq!(played, 2 * SCENARIOS.len());
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
