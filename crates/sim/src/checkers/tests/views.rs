//! Views and their changes.
use super::script::{PAIR, broken, broken_with, pair};
use crate::checkers::{Bounds, Calmness};
use consort_types::{Duration, Instant};

#[test]
fn a_pair_that_forms_parts_and_meets_again_breaks_nothing() {
    let parted_and_met = "
        n0 calls 5 primary
        n1 calls 5 primary
        n0 closes 5 with n0
        n0 installs 9 of n0
        n1 closes 5 with n1
        n1 installs 10 of n1
        n0 closes 9 with n0
        n0 installs 14 of n0 n1
        n1 closes 10 with n1
        n1 installs 14 of n0 n1
        calm
    ";
    assert!(pair(parted_and_met).is_empty());
}

#[test]
fn w1_views_alternate() {
    assert_eq!(broken("n0 starts\nn0 installs 1 of n0 n1"), ["W1"], "the first is of itself alone");
    assert_eq!(pair("n0 installs 9 of n0 n1 with n0 n1"), ["W1"], "no transitional view between");
    assert_eq!(pair("n0 closes 5 with n0\nn0 closes 5 with n0"), ["W1"], "two transitional views");
    assert_eq!(pair("n0 closes 1 with n0"), ["W1"], "the wrong one is closed");
    assert_eq!(broken("n0 starts\nn0 sends 1\nn0 delivers n0#1 back"), ["W1"], "no view at all");
    assert_eq!(pair("n0 crashes\nn0 closes 5 with n0"), ["W1"], "nothing follows a crash");
    assert!(
        broken("n0 joins\nn0 installs 5 of n0 n1\nn0 closes 5 with n0").is_empty(),
        "who comes late begins anywhere"
    );
}

#[test]
fn w2_views_mean_the_same_everywhere() {
    assert_eq!(pair("n2 joins\nn2 installs 6 of n0 n1"), ["W2"], "not a member of its view");
    assert_eq!(pair("n2 joins\nn2 installs 5 of n0 n2"), ["W2"], "other members elsewhere");
    assert_eq!(pair("n2 joins\nn2 installs 6 of n0 n0.2 n2"), ["W2"], "two lives of one node");
}

#[test]
fn w3_views_are_numbered_upwards() {
    assert_eq!(pair("n0 closes 5 with n0\nn0 installs 4 of n0"), ["W3"]);
}

#[test]
fn w4_who_moves_together_agrees() {
    let both = "n0 closes 5 with n0 n1\nn0 installs 9 of n0 n1\nn1 closes 5 with";
    assert!(pair(&format!("{both} n0 n1\nn1 installs 9 of n0 n1")).is_empty());
    assert_eq!(pair(&format!("{both} n1\nn1 installs 9 of n0 n1")), ["W4"], "one says alone, one together");
    assert_eq!(pair("n0 closes 5 with n0 n1\nn0 installs 9 of n0"), ["W4"], "n1 is not in the new view");
    assert_eq!(pair("n0 closes 5 with n0\nn0 installs 9 of n0 n1 with n0 n1"), ["W4"], "the new view says otherwise");
    let from_elsewhere = "
        n1 closes 5 with n1
        n1 installs 7 of n1
        n0 closes 5 with n0 n1
        n0 installs 9 of n0 n1
        n1 closes 7 with n1
        n1 installs 9 of n0 n1
    ";
    assert_eq!(pair(from_elsewhere), ["W4"], "n1 did not come from view 5");
}

#[test]
fn w5_one_ring_of_all_that_live() {
    assert!(pair("calm").is_empty());
    assert_eq!(pair("n2 starts\nn2 installs 1 of n2\ncalm"), ["W5"], "n2 lives and is not in the ring");
    assert_eq!(pair("n0 closes 5 with n0\ncalm"), ["W5"], "n0 has not arrived");
    assert!(pair("n1 crashes").is_empty(), "nothing is demanded before the calm");
}

#[test]
fn cc_changes_reach_everybody() {
    assert_eq!(pair("n1 crashes\ncalm"), ["CC", "W5"], "n0 stays behind in a view with the dead");
    let went_on = "n0 closes 5 with n0\nn0 installs 9 of n0 n1\ncalm";
    assert_eq!(pair(went_on), ["CC", "W5"], "n1 never comes to view 9");
}

#[test]
fn pr_one_primary_view() {
    assert!(pair("n0 calls 5 primary").is_empty());
    assert_eq!(pair("n0 closes 5 with n0\nn0 calls 5 primary"), ["PR"], "while it is closed");
    assert_eq!(pair("n0 calls 6 primary"), ["PR"], "not in it");
    assert_eq!(pair("n0 closes 5 with n0\nn0 installs 9 of n0\nn0 calls 9 primary"), ["PR"], "never pending");
    let early = PAIR.trim_end().strip_suffix("n1 installs 5 of n0 n1 pending").unwrap();
    assert_eq!(broken(&format!("{early}\nn0 calls 5 primary")), ["PR"], "n1 has not installed it");
    assert!(broken(&format!("{early}\nn1 crashes\nn0 calls 5 primary")).is_empty(), "n1 never will");
    let two = "
        n0 closes 5 with n0
        n0 installs 9 of n0 pending
        n0 calls 9 primary
        n1 closes 5 with n1
        n1 installs 10 of n1 pending
        n1 calls 10 primary
    ";
    assert_eq!(pair(two), ["PR"], "nobody in one knows of the other");
}

#[test]
fn gv_group_views_are_well_formed() {
    assert!(pair("n0 groups 5.1 of n0\nn0 groups 5.2 of n0 n1\nn1 groups 5.2 of n0 n1").is_empty());
    assert_eq!(pair("n0 groups 5.1 of n1"), ["GV"], "not a member");
    assert_eq!(pair("n0 groups 5.2 of n0\nn0 groups 5.1 of n0"), ["GV"], "backwards");
    assert_eq!(pair("n0 groups 5.1 of n0\nn1 groups 5.1 of n0 n1"), ["GV"], "other members elsewhere");
}

#[test]
fn a_restarted_node_is_another_process() {
    let restarted = "
        n1 crashes
        n1.2 starts
        n1.2 installs 1 of n1.2
        n0 closes 5 with n0
        n0 installs 9 of n0 n1.2
        n1.2 closes 1 with n1.2
        n1.2 installs 9 of n0 n1.2
        calm
    ";
    assert!(pair(restarted).is_empty());
}

fn expecting(views: Calmness, script: &str) -> Vec<&'static str> {
    broken_with(&format!("{PAIR}{script}"), Bounds { views: Calmness { nodes: 2, ..views }, ..Bounds::default() })
}

#[test]
fn nv_views_do_not_change_needlessly() {
    let apart = "n0 closes 5 with n0\nn0 installs 9 of n0";
    assert!(expecting(Calmness::default(), apart).is_empty());
    assert_eq!(expecting(Calmness { steady: true, ..Calmness::default() }, apart), ["NV"], "nothing was wrong");
    let by = |at| Calmness { whole_by: Some(Instant(at)), ..Calmness::default() };
    assert!(expecting(by(8), "calm").is_empty());
    assert_eq!(expecting(by(7), "calm"), ["NV"], "n1 comes at the eighth nanosecond");
    let constant = Calmness { constant_from: Some(Instant(9)), most: 1, ..Calmness::default() };
    assert!(expecting(constant, apart).is_empty());
    assert_eq!(expecting(constant, &format!("{apart}\nn0 closes 9 with n0\nn0 installs 13 of n0")), ["NV"]);
}

#[test]
fn pl_a_good_bye_is_heard_at_once() {
    let bounds = Bounds { goodbye: Some(Duration::from_nanos(2)), ..Bounds::default() };
    let heard = "n1 leaves\nn1 left\nn0 closes 5 with n0\nn0 installs 9 of n0";
    assert!(broken_with(&format!("{PAIR}{heard}\ncalm"), bounds.clone()).is_empty());
    let late = "n1 leaves\nn1 left\nn0 sends 1\nn0 sends 2\nn0 sends 3";
    assert_eq!(broken_with(&format!("{PAIR}{late}"), bounds), ["PL"]);
}

const PRIMARY: &str = "n1 starts
    n2 starts
    n1 installs 5 of n1 n2 pending
    n2 installs 5 of n1 n2 pending
";

/// What PG says of these events.
fn primary_group(more: &str) -> bool {
    broken(&format!("{PRIMARY}{more}")).contains(&"PG")
}

#[test]
fn one_membership_is_primary_until_its_view_closes() {
    let good = "n1 groups 5.0 of n1 n2 primary
        n2 groups 5.0 of n1 n2 primary
        n1 groups 5.1 of n1 primary
        n1 groups 5.1 of n1
        n1 closes 5 with n1
        n1 is told of closing";
    assert!(!primary_group(good));
    assert!(primary_group("n1 groups 3.2 of n1 primary\nn2 groups 4.0 of n2 primary"), "two that were there before");
    assert!(
        primary_group("n1 groups 5.0 of n1 primary\nn1 closes 5 with n1\nn1 is told of closing"),
        "kept while closing"
    );
    assert!(primary_group("n1 closes 5 with n1\nn1 groups 5.1 of n1 primary"), "begun while closing");
    assert!(primary_group("n1 groups 5.0 of n1 primary\nn1 installs 6 of n1"), "kept in the next view");
    assert!(primary_group("n1 installs 6 of n1\nn1 groups 6.0 of n1 primary"), "of a view that never may be");
    assert!(primary_group("n1 groups 5.0 of n1 n2\nn1 calls 5 primary\nquiet"), "never told");
}
