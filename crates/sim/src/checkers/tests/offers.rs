//! Offers.
use super::script::pair;

#[test]
fn an_offer_is_closed_once_by_a_revoke_or_a_confirm() {
    assert_eq!(pair("n0 offers 1\n n0 revokes 1\n n0 offers 1\n n0 confirms 1\n quiet"), [""; 0]);
    assert_eq!(pair("n0 offers 1\n n0 offers 1"), ["OF"]);
    assert_eq!(pair("n0 revokes 1"), ["OF"]);
    assert_eq!(pair("n0 confirms 1"), ["OF"]);
    assert_eq!(pair("n0 offers 1\n n0 confirms 1\n n0 confirms 1"), ["OF"]);
    assert_eq!(pair("n0 offers 1\n n0 confirms 1\n n0 offers 1"), ["OF"]);
    assert_eq!(pair("n0 offers 1\n n0 confirms 1 changed"), ["OF"]);
}

#[test]
fn nothing_overtakes_what_was_offered_before_it() {
    assert_eq!(pair("n0 offers 1\n n0 offers 2\n n0 confirms 1\n n0 confirms 2"), [""; 0]);
    assert_eq!(pair("n0 offers 1\n n0 offers 2\n n0 confirms 2"), ["OF"]);
    assert_eq!(pair("n0 offers 1 loosely\n n0 offers 2 loosely\n n0 confirms 2"), [""; 0]);
    let sent = "n1 sends 1\n n0 offers 1\n";
    assert_eq!(pair(&format!("{sent} n0 confirms 1\n n0 delivers n1#1 at 1")), [""; 0]);
    assert_eq!(pair(&format!("{sent} n0 delivers n1#1 at 1")), ["OF"]);
}

#[test]
fn nothing_stays_on_offer() {
    assert_eq!(pair("n0 offers 1\n n0 closes 5 with n0 n1\n n0 revokes 1"), [""; 0]);
    assert!(pair("n0 offers 1\n n0 closes 5 with n0\n n0 installs 7 of n0").contains(&"OF"));
    assert_eq!(pair("n0 guest offers 1\n n0 guest closes 5 with n0\n n0 guest installs 7 of n0"), ["OF"]);
    assert_eq!(pair("n0 offers 1\n quiet"), ["OF"]);
    assert_eq!(pair("n0 offers 1\n n0 crashes\n quiet"), [""; 0]);
}

#[test]
fn who_is_told_late_where_it_stands_has_open_offers() {
    let late = "n0 guest offers 1\n n0 guest joins\n n0 guest stands in 5 of n0 n1\n n0 guest revokes 1";
    assert_eq!(pair(late), [""; 0]);
}
