//! Needs root, `ip` and TUN; elsewhere the test says why it is skipped, and fails if `CONSORT_REQUIRE_NETNS=1`.
use super::*;
use crate::netlab::program::built_for_tests;

/// Daemons of both protocols in small labs of their own.
#[test]
fn real_daemons_print_the_same_columns() {
    if let Err(reason) = namespace::requirements() {
        assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let program = Some(built_for_tests().unwrap());
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
