//! Sends under producers.
use super::script::{PAIR, broken_with};
use crate::checkers::{Bounds, Calmness, PromisedOrder};

/// What the checkers say of a producer whose sends 1 and 2 went under way at n0.
fn sent(more: &str) -> Vec<&'static str> {
    let sends = "n0 numbers made send 1\n n0 numbers made send 2\n n0 numbers asked\n n0 numbers opened as 0\n \
                 n0 numbers sent send 1 as 1\n n0 numbers sent send 2 as 2\n";
    judged(&format!("{PAIR}{sends}{more}"))
}

fn judged(script: &str) -> Vec<&'static str> {
    let bounds = Bounds { views: Calmness { nodes: 3, ..Calmness::default() }, ..Bounds::default() };
    broken_with(script, bounds)
}

const SETTLED: &str = "n0 numbers settled as 1\n";

#[test]
fn what_was_told_as_ordered_stays_so() {
    assert_eq!(sent(&format!("{SETTLED} n1 numbers asked so\n n1 numbers opened as 1")), [""; 0]);
    assert_eq!(sent(&format!("{SETTLED} n1 numbers asked so\n n1 numbers opened as 0")), ["PF"], "1 is not known");
    assert_eq!(
        sent(&format!("n1 numbers asked so\n {SETTLED} n1 numbers opened as 0")),
        [""; 0],
        "it was asked before"
    );
    assert_eq!(
        sent("n1 numbers asked so\n n1 numbers opened as 2\n n1 numbers asked\n n1 numbers opened as 1"),
        ["PF"]
    );
    assert_eq!(sent(&format!("{SETTLED} n0 numbers refused send 1 as 1")), ["PF"], "two fates");
    let again =
        "n1 numbers asked so\n n1 numbers opened as 0\n n1 numbers sent send 1 try 3 as 1\n n1 numbers settled as 1\n";
    assert_eq!(sent(&format!("{again} n0 numbers refused send 1 as 1")), [""; 0], "that was an earlier attempt");
    assert_eq!(sent("n0 numbers settled as 3"), ["PF"], "it has sent no third");
}

#[test]
fn no_number_is_settled_for_two_sends() {
    let moved = "n1 numbers asked so\n n1 numbers opened as 1\n n1 numbers sent send 2 try 3 as 2\n";
    assert_eq!(
        sent(&format!("{SETTLED} {moved} n1 numbers settled as 2\n n0 numbers settled as 2")),
        [""; 0],
        "one send"
    );
    let other = "n0 numbers sent send 3 as 2 so\n";
    assert_eq!(sent(&format!("{SETTLED} {moved} n1 numbers settled as 2\n {other} n0 numbers settled as 2")), ["PF"]);
}

#[test]
fn a_producer_is_forgotten_only_where_no_majority_remembers() {
    let told = "n0 numbers table view 5 as 5 so\n n1 numbers table view 5 as 5 so\n n0 numbers opened as 2\n";
    let forgotten = "n1 numbers asked so\n n1 numbers opened so";
    assert_eq!(sent(&format!("{told} {forgotten}")), ["PF"]);
    assert_eq!(sent(&format!("{told} n0 crashes\n {forgotten}")), [""; 0], "of three, one is left that remembers");
}

#[test]
fn what_is_told_where_no_majority_remembers_is_forgotten_until_the_next_view_counts() {
    let table = |node: &str, view: u64| format!("{node} numbers table view {view} as {view} so\n");
    let before = format!("{}{} n0 crashes\n", table("n0", 5), table("n1", 5));
    let alone = "n0.2 starts\n n0.2 installs 6 of n0.2\n n0.2 closes 6 with n0.2\n n1 closes 5 with n1\n";
    let meet = format!("{alone} n0.2 installs 8 of n0.2 n1\n n1 installs 8 of n0.2 n1\n");
    let next = format!("{meet}{}{}", table("n0.2", 8), table("n1", 8));
    let (opened, forgotten) = ("n1 numbers opened as 0\n", "n1 numbers asked so\n n1 numbers opened so\n");
    let run = |script: &[&str]| judged(&format!("{PAIR}{}", script.concat()));
    assert_eq!(run(&[&before, opened, &next, forgotten]), [""; 0], "n1 alone remembered");
    assert_eq!(run(&[&before, opened, &meet, &table("n1", 5), forgotten]), ["PF"], "8 does not count");
    assert_eq!(run(&[&before, &next, opened, forgotten]), ["PF"], "both remember again");
}

#[test]
fn in_one_order_one_remembers_that_missed_no_primary_view() {
    let told =
        "n0 numbers table view 5 as 5 so\n n1 numbers table view 5 as 5 so\n n0 numbers opened as 2\n n0 crashes\n";
    let run = |then: &str| {
        let promised = PromisedOrder { quorum: true, ..PromisedOrder::default() };
        let views = Calmness { nodes: 3, ..Calmness::default() };
        let script = format!("{PAIR}{told} n1 closes 5 with n1\n {then} n1 numbers asked so\n n1 numbers opened so");
        broken_with(&script, Bounds { views, promised, ..Bounds::default() })
    };
    let left_out = |primary: &str| {
        run(&format!(
            "n2 starts\n n2 installs 6 of n2 pending\n {primary} n2 closes 6 with n2\n n1 installs 7 of n1 n2\n"
        ))
    };
    assert_eq!(run("n1 installs 6 of n1\n"), ["PF"], "n1 remembers");
    assert_eq!(left_out(""), ["PF"], "that view was not primary");
    assert_eq!(left_out("n2 calls 6 primary\n"), [""; 0], "it may have counted");
}

#[test]
fn who_took_the_table_of_a_view_of_the_same_number_as_its_own_does_not_remember() {
    let counts =
        |view: u64| format!("n0 numbers table view {view} as {view} so\n n1 numbers table view {view} as {view} so\n");
    let (five, seven) = (counts(5), counts(7));
    let apart = "n2 starts\n n2 installs 7 of n2\n n2 closes 7 with n2\n";
    let seventh = "n0 closes 5 with n0 n1\n n0 installs 7 of n0 n1\n n1 closes 5 with n0 n1\n n1 installs 7 of n0 n1\n";
    let meet = "n1 closes 7 with n0 n1\n n1 installs 8 of n0 n1 n2\n n2 installs 8 of n0 n1 n2\n n2 numbers table view 8 as 7\n";
    let forgotten = "n0 crashes\n n1 numbers asked so\n n1 numbers opened so";
    let script = format!("{five} n0 numbers opened as 2\n {seventh} {seven} {apart} {meet} {forgotten}");
    assert_eq!(sent(&script), [""; 0], "n1 alone remembers");
}

#[test]
fn in_the_end_all_sends_have_their_fate_where_a_view_counts() {
    let settled = "n0 numbers settled as 2\n";
    let counts = "n0 calls 5 primary\n n0 numbers table view 5 as 5 so\n n1 numbers table view 5 as 5 so\n";
    assert_eq!(sent(&format!("{counts} {settled} quiet")), [""; 0]);
    assert_eq!(sent(&format!("{counts} {SETTLED} quiet")), ["PF"], "the second has none");
    assert_eq!(sent(&format!("{SETTLED} quiet")), [""; 0], "the view is not primary");
}

#[test]
fn a_send_is_given_once_and_in_order() {
    assert_eq!(sent("n1 numbers given send 1 as 1\n n1 numbers given send 2 as 2"), [""; 0]);
    assert_eq!(sent("n1 numbers given send 2 as 2\n n1 numbers given send 1 as 1"), ["PD"]);
    assert_eq!(sent("n1 numbers given send 1 as 1\n n1 numbers given send 2 as 3"), ["PD"], "there is a gap");
    assert_eq!(sent("n1 numbers given send 1 as 1\n n1 numbers given send 1 try 3 as 2"), ["PD"], "twice in one view");
    assert_eq!(sent("n0 numbers refused send 2 as 2\n n1 numbers given send 2 as 2"), ["PD"]);
    assert_eq!(sent("n1 numbers given send 2 as 2\n n0 numbers refused send 2 as 2"), ["PD"]);
    let taken_over = "n1 numbers asked so\n n1 numbers opened as 2\n n0 numbers sent send 3 as 3 so\n";
    assert_eq!(sent(&format!("{taken_over} n1 numbers given send 3 as 3")), ["PD"], "another connection is open");
}

#[test]
fn only_who_left_without_those_whose_table_was_kept_is_given_a_send_again() {
    let table = |node: u64, view: u64| format!("n{node} numbers table view {view} as {view} so\n");
    let apart = "n0 closes 5 with n0\n n0 installs 6 of n0\n n1 closes 5 with n1\n n1 installs 7 of n1\n";
    let meet = "n0 closes 6 with n0\n n0 installs 8 of n0 n1\n n1 closes 7 with n1\n n1 installs 8 of n0 n1\n";
    let again = "n0 numbers given send 1 try 9 as 1\n";
    let run = |first: &str, of: [u64; 2]| {
        let tables = format!("{}{}", table(0, 8), table(1, 8));
        let before: String = of.iter().zip(0..).filter(|(of, _)| **of > 0).map(|(of, node)| table(node, *of)).collect();
        sent(&format!("{before} {first} {apart} {meet} {tables} {again}"))
    };
    let alone = "n0 numbers given send 1 as 1\n";
    assert_eq!(run(alone, [0, 5]), [""; 0], "the table of n1 was kept");
    assert_eq!(run(alone, [5, 5]), ["PD"], "its own table was kept");
    assert_eq!(run(&format!("{alone} n1 numbers given send 1 as 1\n"), [0, 5]), ["PD"], "n1 was given it, too");
}

#[test]
fn members_of_a_view_that_counts_have_one_table() {
    let table = "n0 numbers table view 5 at 8 as 5 sum 5 so\n";
    assert_eq!(sent(&format!("{table} n1 numbers table view 5 at 8 as 5 sum 5 so")), [""; 0]);
    assert_eq!(sent(&format!("{table} n1 numbers table view 5 at 8 as 5 sum 6 so")), ["PT"]);
    assert_eq!(sent(&format!("{table} n1 numbers table view 5 at 8 as 5 sum 5")), ["PT"], "it does not count there");
    assert_eq!(sent(&format!("{table} n1 numbers table view 5 at 9 as 5 sum 6 so")), [""; 0], "another place");
    assert_eq!(sent(&format!("{table} n1 numbers table view 5 at 9 as 5 sum 6 so\n quiet")), ["PT"], "in the end");
    let later = "n0 numbers table view 6 at 0 as 5 sum 6\n n1 numbers table view 6 at 0 as 5 sum 6";
    let late = format!("{table} n1 numbers table view 5 at 9 as 5 sum 6 so\n {later}\n quiet");
    assert_eq!(sent(&late), [""; 0], "a table in a view that programs are told of later is the last one, too");
}
