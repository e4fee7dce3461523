//! What a majority has ordered stands for all: in every view, in every incarnation.
use super::script::{PAIR, broken_with};
use crate::checkers::{Bounds, PromisedOrder};

fn broken(more: &str) -> Vec<&'static str> {
    let promised = PromisedOrder { quorum: true, ..PromisedOrder::default() };
    broken_with(&format!("{PAIR}{more}"), Bounds { promised, ..Bounds::default() })
}

#[test]
fn one_order_through_views_and_incarnations_is_right() {
    let script = "
        n0 sends 1
        n0 delivers n0#1 at 1 back
        n1 delivers n0#1 at 1
        n1 crashes
        n0 closes 5 with n0
        n0 installs 6 of n0 pending
        n0 sends 2
        n0 delivers n0#2 at 2 back
        n0 closes 6 with n0
        n0 installs 7 of n0 n1.2 pending
        n1.2 starts
        n1.2 installs 1 of n1.2
        n1.2 closes 1 with n1.2
        n1.2 installs 7 of n0 n1.2 pending
        n0 sends 3
        n0 delivers n0#3 at 3 back
        n1.2 delivers n0#3 at 3
    ";
    assert_eq!(broken(script), [""; 0]);
}

#[test]
fn positions_leave_the_same_gaps_for_all_or_none() {
    let script = "
        n0 sends 1
        n0 sends 2
        n0 sends 3
        n0 delivers n0#1 at 10 back
        n0 delivers n0#2 at 20 back
        n0 delivers n0#3 at 30 back
        n1 delivers n0#1 at 10
        n1 delivers n0#2 at 20
        n1 delivers n0#3 at 30
    ";
    let broken_with_gaps = |more: &str| {
        let promised = PromisedOrder { quorum: true, gaps: true, ..PromisedOrder::default() };
        broken_with(&format!("{PAIR}{more}"), Bounds { promised, ..Bounds::default() })
    };
    assert_eq!((broken_with_gaps(script), broken(script)), (vec![], vec!["UA"]));
    let skips = script.replace("        n1 delivers n0#2 at 20\n", "");
    assert!(broken_with_gaps(&skips).contains(&"UA"));
}

#[test]
fn a_position_that_means_another_message_in_a_later_view_is_noticed() {
    let script = "
        n0 sends 1
        n1 delivers n0#1 at 1
        n1 crashes
        n0 delivers n0#1 at 1 back
        n0 closes 5 with n0
        n0 installs 6 of n0 pending
        n0 sends 2
        n0 delivers n0#2 at 1 back
    ";
    assert_eq!(broken(script), ["UA"]);
}

#[test]
fn what_only_the_dead_were_given_is_noticed() {
    let script = "
        n1 sends 1
        n1 delivers n1#1 at 1 back
        n1 crashes
        n0 closes 5 with n0
        n0 installs 6 of n0 pending
    ";
    assert_eq!(broken(script), ["UA"], "it was given to one, and the one that goes on skips it");
    let late = "
        n1 sends 1
        n0 closes 5 with n0
        n0 installs 6 of n0 pending
        n1 delivers n1#1 at 1 back
        n1 crashes
    ";
    assert_eq!(broken(late), ["UA"], "the one that goes on skips it before");
}

#[test]
fn a_position_that_is_skipped_is_noticed() {
    let script = "
        n0 sends 1
        n0 sends 2
        n0 delivers n0#1 at 1 back
        n0 delivers n0#2 at 3 back
        n1 delivers n0#1 at 1
        n1 delivers n0#2 at 3
    ";
    assert_eq!(broken(script), ["UA"]);
}

#[test]
fn only_a_majority_promises_that() {
    let script = "
        n1 sends 1
        n1 delivers n1#1 at 1 back
        n1 crashes
        n0 closes 5 with n0
        n0 installs 6 of n0 pending
    ";
    assert_eq!(super::script::pair(script), [""; 0]);
}
