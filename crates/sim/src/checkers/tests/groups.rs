//! Groups.
use super::script::{PAIR, broken_with, pair};
use crate::checkers::{Bounds, PromisedOrder};

/// All of them in one group, n1's guest among them.
const IN_GROUP: &str = "
    n0 groups 5.1 of n0 n1
    n1 groups 5.1 of n0 n1
";

/// Two messages, the other way round at the two nodes.
const CROSSED: &str = "
    n0 is given n0#1
    n0 is given n1#1
    n1 is given n1#1
    n1 is given n0#1
";

fn per_component(more: &str) -> Vec<&'static str> {
    let promised = PromisedOrder { per_component: true, ..PromisedOrder::default() };
    broken_with(&format!("{PAIR}{IN_GROUP}{more}"), Bounds { promised, ..Bounds::default() })
}

#[test]
fn gm_no_two_see_two_messages_the_other_way_round() {
    assert_eq!(pair(&format!("{IN_GROUP}{CROSSED}")), ["GM"]);
    assert_eq!(per_component(CROSSED), ["GM"], "in a regular view there is one order");
    let apart = "n0 closes 5 with n0\n n1 closes 5 with n1\n";
    assert_eq!(pair(&format!("{IN_GROUP}{apart}{CROSSED}")), ["GM"]);
    assert_eq!(per_component(&format!("{apart}{CROSSED}")), [""; 0]);
    let along = "n0 closes 5 with n0 n1\n n1 closes 5 with n0 n1\n";
    assert_eq!(per_component(&format!("{along}{CROSSED}")), ["GM"], "those that move together have one order");
    let one = "n1 closes 5 with n1\n";
    assert_eq!(per_component(&format!("{one}{CROSSED}")), [""; 0]);
}

#[test]
fn gm_who_takes_no_part_is_judged_by_the_views_of_its_node() {
    let guest = CROSSED.replace("n1 is", "n1 guest is").replace("n0 is", "n0 guest is");
    let group = "n0 guest groups 5.2 of n0 n1\n n1 guest groups 5.2 of n0 n1\n";
    assert!(per_component(&format!("{group}{guest}")).contains(&"GM"));
    let apart = "n0 guest closes 5 with n0\n n1 guest closes 5 with n1\n";
    assert!(!per_component(&format!("{group}{apart}{guest}")).contains(&"GM"));
}

#[test]
fn gv_whoever_is_listed_and_seen_was_told_so() {
    let one = "n0 groups 5.1 of n0 n1\n";
    assert_eq!(pair(one), ["GV"], "n1 is there, and knows nothing of it");
    assert_eq!(pair(&format!("{one}n1 groups 5.1 of n0 n1")), [""; 0]);
    assert_eq!(pair("n0 groups 5.1 of n0 n7"), [""; 0], "what n7 is told is not in the trace");
    assert_eq!(pair(&format!("{one}n1 guest closes 5 with n0 n1\nn1 groups 5.1 of n0 n1")), [""; 0]);
}

#[test]
fn gv_what_is_told_once_more_was_told_last_though_another_client_of_its_daemon_heard_of_the_end() {
    let told = "n1 guest groups 5.2 of n1\n";
    let again = "n1 guest groups 5.2 again of n1\n";
    assert_eq!(pair(again), ["GV"]);
    assert_eq!(pair(&format!("{told}{again}")), [""; 0]);
    assert_eq!(pair(&format!("{told}n1 left\n{again}")), [""; 0]);
    let listed = "n0 groups 5.1 of n0 n1\nn1 groups 5.1 of n0 n1\nn1 left";
    assert_eq!(pair(listed), ["GV"], "n1 is not there in the end");
}

#[test]
fn gs_whoever_is_in_one_group_view_in_the_end_was_given_the_same() {
    let one = format!("{IN_GROUP}n0 is given n1#1\n");
    assert_eq!(pair(&format!("{one}quiet")), ["GS"]);
    assert_eq!(pair(&format!("{one}n1 is given n1#1\nquiet")), [""; 0]);
    assert!(!pair(&format!("{one}n1 crashes\nquiet")).contains(&"GS"), "who crashes owes nothing");
}

#[test]
fn gs_what_a_guest_was_told_before_its_daemon_left_may_be_seen_behind_that() {
    let guests = "n0 guest groups 5.1 of n0 n1\n n1 guest groups 5.1 of n0 n1\n";
    let told = "n1 left\n n1 guest is told of closing\n";
    assert!(!pair(&format!("{guests}{told}quiet")).contains(&"GS"));
    assert!(pair(told).contains(&"GS"), "it is in no group");
}

#[test]
fn gm_a_message_to_one_by_name_comes_where_both_stay() {
    let sent = "n0 speaks 1 to n1\n";
    assert_eq!(pair(&format!("{sent}quiet")), ["GM"]);
    assert_eq!(pair(&format!("{sent}n1 is given n0#1 by name\nquiet")), [""; 0]);
    assert!(!pair(&format!("{sent}n1 crashes\nquiet")).contains(&"GM"), "to one that crashes");
    assert!(!pair(&format!("{sent}n0 crashes\nquiet")).contains(&"GM"), "from one that crashes");
    let apart = "n0 closes 5 with n0\nn0 installs 9 of n0\n";
    assert!(!pair(&format!("{sent}{apart}quiet")).contains(&"GM"), "the network came between");
    let along = "n0 closes 5 with n0 n1\nn1 closes 5 with n0 n1\nn0 installs 9 of n0 n1\nn1 installs 9 of n0 n1\n";
    assert_eq!(pair(&format!("{sent}{along}quiet")), ["GM"], "they went on together");
}
