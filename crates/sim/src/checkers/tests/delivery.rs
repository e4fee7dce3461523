//! Messages and their order.
use super::script::{broken_with, pair};
use crate::checkers::Bounds;

/// Both change to view 9 together.
const BOTH_GO_ON: &str = "
    n0 closes 5 with n0 n1
    n0 installs 9 of n0 n1
    n1 closes 5 with n0 n1
    n1 installs 9 of n0 n1
";

#[test]
fn what_both_deliver_alike_breaks_nothing() {
    let good = "
        n0 sends 1
        n1 sends 1 safe
        n0 delivers n0#1 back at 1
        n0 delivers n1#1 at 2
        n1 delivers n0#1 at 1
        n1 delivers n1#1 back at 2
        calm
    ";
    assert!(pair(good).is_empty());
}

#[test]
fn nc_nothing_is_created() {
    assert_eq!(pair("n0 delivers n1#1"), ["NC"], "never sent");
    assert_eq!(pair("n1 sends 1\nn0 delivers n1#1 changed"), ["NC"], "other bytes");
}

#[test]
fn nd_nothing_is_delivered_twice() {
    assert_eq!(pair("n1 sends 1\nn0 delivers n1#1\nn0 delivers n1#1"), ["FIFO", "ND"]);
}

#[test]
fn d2_a_message_belongs_to_one_view() {
    let alone = "n1 closes 5 with n1\nn1 installs 9 of n1\nn1 sends 1\nn1 delivers n1#1 back";
    assert!(pair(alone).is_empty());
    assert_eq!(pair(&format!("{alone}\nn0 delivers n1#1")), ["D2"], "n0 is still in view 5");
    let not_a_member = "n0 closes 5 with n0\nn0 installs 9 of n0\nn1 sends 1\nn0 delivers n1#1";
    assert_eq!(pair(not_a_member), ["D2"]);
}

#[test]
fn fifo_a_senders_messages_stay_in_their_order() {
    assert_eq!(pair("n1 sends 1\nn1 sends 2\nn0 delivers n1#2\nn0 delivers n1#1"), ["FIFO"]);
    assert_eq!(pair("n1 sends 1\nn1 sends 2\nn1 sends 3\nn0 delivers n1#1\nn0 delivers n1#3"), ["FIFO"], "a gap");
}

#[test]
fn ca_a_message_comes_after_all_its_sender_knew_of() {
    let knew = "n1 sends 1\nn0 delivers n1#1\nn0 sends 1";
    assert!(pair(&format!("{knew}\nn1 delivers n1#1 back\nn1 delivers n0#1")).is_empty());
    assert_eq!(pair(&format!("{knew}\nn1 delivers n0#1")), ["CA", "TO2"]);
}

#[test]
fn to1_there_is_one_total_order_across_views() {
    let parted = "
        n0 sends 1
        n1 sends 1
        n0 closes 5 with n0
        n1 closes 5 with n1
        n0 delivers n0#1 back
        n0 delivers n1#1
    ";
    assert!(pair(&format!("{parted}\nn1 delivers n0#1\nn1 delivers n1#1 back")).is_empty());
    assert_eq!(pair(&format!("{parted}\nn1 delivers n1#1 back\nn1 delivers n0#1")), ["TO1"]);
}

#[test]
fn to1p_positions_mean_what_they_say() {
    let sent = "n1 sends 1\nn1 sends 2\nn0 delivers n1#1 at 7";
    assert!(pair(&format!("{sent}\nn0 delivers n1#2 at 9")).is_empty());
    assert_eq!(pair(&format!("{sent}\nn0 delivers n1#2 at 6")), ["TO1p"], "backwards");
    assert_eq!(pair(&format!("{sent}\nn1 delivers n1#1 back at 8")), ["TO1p"], "another position elsewhere");
    let next_view = format!("{sent}\nn1 delivers n1#1 back at 7\n{BOTH_GO_ON}\nn0 delivers n1#2 at 1");
    assert!(pair(&next_view).is_empty(), "positions begin anew in each view");
}

#[test]
fn to2_nobody_leaves_out_what_another_delivered() {
    let first = "n0 sends 1\nn1 sends 1\nn1 delivers n0#1\nn1 delivers n1#1 back";
    assert!(pair(&format!("{first}\nn0 delivers n0#1 back\nn0 delivers n1#1")).is_empty());
    assert_eq!(pair(&format!("{first}\nn0 delivers n1#1")), ["TO2"]);
}

#[test]
fn to3_what_is_left_out_has_no_sender_here() {
    let parted = "
        n0 sends 1
        n1 sends 1
        n1 delivers n0#1 at 1
        n1 delivers n1#1 back at 2
    ";
    let dead = "n0 closes 5 with n0\nn0 delivers n1#1 at 2\nn0 installs 9 of n0";
    assert_eq!(pair(&format!("{parted}\n{dead}")), ["SD", "TO3"], "it left out its own");
    let stranger = "
        n0 sends 1
        n1 sends 1
        n1 sends 2
        n0 closes 5 with n0
        n1 delivers n1#1 back at 1
        n1 delivers n0#1 at 2
        n0 delivers n0#1 back at 2
        n0 installs 9 of n0
    ";
    assert!(pair(stranger).is_empty(), "what n1 numbered before it may be missing");
}

#[test]
fn vs_who_moves_together_delivers_the_same() {
    let sent = "n1 sends 1\nn1 delivers n1#1 back";
    assert!(pair(&format!("{sent}\nn0 delivers n1#1\n{BOTH_GO_ON}")).is_empty());
    assert_eq!(pair(&format!("{sent}\n{BOTH_GO_ON}")), ["VS"], "n0 never delivered it");
    let split = "n0 closes 5 with n0 n1\nn0 delivers n1#1\nn0 installs 9 of n0 n1";
    let split = format!("{sent}\n{split}\nn1 closes 5 with n0 n1\nn1 installs 9 of n0 n1");
    assert_eq!(pair(&split), ["VS"], "one in the view, the other while it was closed");
    assert_eq!(pair(&format!("n0 calls 5 primary\n{BOTH_GO_ON}")), ["VS"], "one was told that it was primary");
}

#[test]
fn sd_whoever_stays_delivers_its_own() {
    assert_eq!(pair("n0 sends 1\ncalm"), ["SD"], "accepted, never delivered");
    assert_eq!(pair("n0 sends 1\nn0 delivers n0#1"), ["SD"], "without its id");
    let left_behind = "n0 sends 1\nn1 delivers n0#1\nn0 closes 5 with n0\nn0 installs 9 of n0";
    assert_eq!(pair(left_behind), ["SD"], "n0 went on without it");
    let too_late = "n0 sends 1\nn0 closes 5 with n0\nn0 installs 9 of n0\nn1 delivers n0#1";
    assert_eq!(pair(too_late), ["SD"], "n1 delivers what n0 has left without");
    assert!(pair("n1 sends 1\nn1 crashes").is_empty(), "who crashes owes nothing");
}

#[test]
fn lv_all_come_to_the_same_end() {
    assert_eq!(pair("n0 sends 1\nn0 delivers n0#1 back\ncalm"), ["LV"], "n1 never delivers it");
    assert_eq!(pair("n0 waits\ncalm"), ["LV"]);
    assert_eq!(pair("n0 leaves\ncalm"), ["LV"]);
    assert_eq!(pair("n0 spins"), ["LV"]);
}

#[test]
fn bm_and_af_watch_gauges() {
    let bounds = Bounds { running: [("store_packets", 8)].into(), ..Bounds::default() };
    assert!(broken_with("n0 gauge store_packets 8", bounds.clone()).is_empty());
    assert_eq!(broken_with("n0 gauge store_packets 9", bounds), ["BM"]);
    assert_eq!(pair("n0 gauge assertion_failures 1"), ["AF"]);
    let bounds = Bounds { needless: ["requests_made"].into(), ..Bounds::default() };
    assert_eq!(broken_with("n0 gauge requests_made 1", bounds), ["NR"]);
}
