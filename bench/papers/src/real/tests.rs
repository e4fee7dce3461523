//! Needs root, `ip` and TUN; elsewhere the test says why it is skipped, and fails if `CONSORT_REQUIRE_NETNS=1`.
use super::*;
use consort_testbed::network::program::program_for_tests;

/// Whether this machine can have a lab; if not, the reason is printed.
fn has_namespaces() -> bool {
    let missing = namespace::requirements().err();
    if let Some(reason) = &missing {
        assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
        eprintln!("SKIPPED: {reason}");
    }
    missing.is_none()
}

/// Daemons of both protocols in small labs of their own.
#[test]
fn real_daemons_print_the_same_columns() {
    if !has_namespaces() {
        return;
    }
    let program = Some(program_for_tests().unwrap());
    let toto = toto::Lab { nodes: 3, seconds: 2, only: Some(200), program: program.clone(), ..toto::Lab::default() };
    let text = toto::table(1, &toto).unwrap();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with(" 200 ")).collect();
    assert!(
        matches!(rows[..], [periodic, poisson] if periodic.contains("periodic") && poisson.contains("Poisson")),
        "{text}"
    );
    assert!(rows.iter().all(|row| !row.contains("NaN")) && text.contains("This machine: "), "{text}");

    let plato = plato::Lab { seconds: 2, only: Some(plato::Only::Every(10)), program, ..plato::Lab::default() };
    let text = plato::table(1, &plato).unwrap();
    let rows: Vec<_> = text.lines().filter(|line| line.ends_with("| > 2") || line.ends_with("| > 1")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows.iter().all(|row| !row.contains("NaN")) && !text.contains("spike"), "{text}");
}

/// Both rings on a small Ethernet. How fast they are is not judged; what they did with the token is.
#[test]
fn both_rings_are_measured_and_only_one_sends_behind_the_token() {
    if !has_namespaces() {
        return;
    }
    let lab = rings::Lab {
        loads: vec![30],
        runs: 1,
        millis: 300,
        json: true,
        program: Some(program_for_tests().unwrap()),
        ..rings::Lab::default()
    };
    let told: serde_json::Value = serde_json::from_str(&rings::table(1, &lab).unwrap()).unwrap();
    let cells = told["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell["load_percent"].as_u64()).collect::<Vec<_>>(), [None, Some(30)]);
    for cell in cells {
        let figure = |ring: &str, name: &str| cell[ring]["median"][name].as_f64().unwrap();
        assert_eq!(figure("original", "behind_token_percent"), 0.0, "{told}");
        assert!(figure("accelerated", "behind_token_percent") > 0.0, "{told}");
        assert!(["original", "accelerated"].iter().all(|ring| figure(ring, "mbits") > 0.0), "{told}");
    }
}
