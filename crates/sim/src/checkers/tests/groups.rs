//! Groups.
use super::script::{PAIR, broken_with, pair};
use crate::checkers::{Bounds, Promised};

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
    let promised = Promised { per_component: true, ..Promised::default() };
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
