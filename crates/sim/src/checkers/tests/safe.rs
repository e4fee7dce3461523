//! What safe means.
use super::script::{PAIR, broken, pair};

const SENT: &str = "n0 sends 1 safe\nn0 delivers n0#1 back";

#[test]
fn sf1_what_one_delivers_as_safe_all_deliver() {
    let alone = "n1 closes 5 with n1\nn1 installs 9 of n1";
    assert!(pair(&format!("{SENT}\nn1 delivers n0#1\n{alone}")).is_empty());
    assert!(pair(&format!("{SENT}\nn1 closes 5 with n1\nn1 delivers n0#1\nn1 installs 9 of n1")).is_empty());
    assert!(pair(&format!("{SENT}\nn1 crashes")).is_empty(), "who fails owes nothing");
    assert_eq!(pair(&format!("{SENT}\n{alone}")), ["SF1"], "n1 goes on without it");
    assert_eq!(pair(&format!("{alone}\n{SENT}")), ["SF1"], "n1 has gone on without it");
    assert_eq!(pair(&format!("{SENT}\ncalm")), ["LV", "SF1"], "n1 never delivers it");
}

#[test]
fn sf2_what_one_delivers_as_safe_all_members_have_installed_the_view_of() {
    let early = PAIR.trim_end().strip_suffix("n1 installs 5 of n0 n1 pending").unwrap();
    assert_eq!(broken(&format!("{early}\n{SENT}")), ["SF2"]);
    assert!(broken(&format!("{early}\nn1 crashes\n{SENT}")).is_empty());
}

#[test]
fn sf3_safe_in_transition_is_for_those_that_move_along() {
    let closing = "n0 sends 1 safe\nn0 closes 5 with n0 n1\nn0 delivers n0#1 back";
    let alone = "n1 closes 5 with n1\nn1 installs 10 of n1";
    assert_eq!(pair(&format!("{closing}\n{alone}")), ["SF3"], "n1 moved along, as n0 was told");
    let without = "n0 sends 1 safe\nn0 closes 5 with n0\nn0 delivers n0#1 back";
    assert!(pair(&format!("{without}\n{alone}")).is_empty(), "n0 was told that n1 does not");
}

#[test]
fn sf4_what_one_delivers_as_safe_all_hold() {
    assert_eq!(pair("n0 sends 1 safe\nn0 delivers n0#1 back without n1"), ["SF4"]);
    assert_eq!(pair("n0 stable 9 without n1"), ["SF4"]);
}
