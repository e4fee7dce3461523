//! Views and their changes.
use super::script::{PAIR, broken, broken_with, pair};
use crate::checkers::{Bounds, Calmness, ConstantSpan, Core, IdleWaits};
use crate::fault::NodeSet;
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
    assert_eq!(pair("n2 joins\nn2 installs 6 of n0 n0.2 n2"), ["W2"], "two incarnations of one node");
}

#[test]
fn w3_views_are_numbered_upwards() {
    assert_eq!(pair("n0 closes 5 with n0\nn0 installs 4 of n0"), ["W3"]);
    let again = |number| {
        let bounds = Bounds { disks_last: true, ..Bounds::default() };
        broken_with(&format!("{PAIR}n1 crashes\nn1.2 starts\nn1.2 installs {number} of n1.2"), bounds)
    };
    assert!(again(6).is_empty(), "above all that the first incarnation formed");
    assert_eq!(again(5), ["W3"]);
    assert!(pair("n1 crashes\nn1.2 starts\nn1.2 installs 1 of n1.2").is_empty(), "its disk may be new");
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
    let restarted = "n0.2 starts\nn0.2 installs 3 of n0.2\nn0.2 closes 3 with n0.2\n";
    let later = "n0.2 installs 9 of n0.2 n2 pending\nn2 joins\nn2 installs 9 of n0.2 n2 pending\nn2 calls 9 primary\n";
    let overtaken = format!("n0 crashes\n{restarted}{later}");
    assert!(
        pair(&format!("n1 calls 5 primary\n{overtaken}n1 calls 5 primary")).is_empty(),
        "told late of what was before"
    );
    assert_eq!(pair(&format!("{overtaken}n1 calls 5 primary")), ["PR"], "it comes after one of n0's later incarnation");
    let back = later.replace('9', "4");
    assert_eq!(pair(&format!("n0 crashes\n{restarted}{back}n1 calls 5 primary")), ["PR"], "whatever the numbers say");
    let crossed = "n2 joins\nn2 installs 9 of n0.2 n1 n2 pending\nn0 crashes\nn2 calls 9 primary\nn1 crashes\n
        n1.2 joins\nn1.2 installs 11 of n0 n1.2 pending\nn1.2 calls 11 primary";
    assert!(pair(crossed).contains(&"PR"), "n0 says that one was later, n1 the other");
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
    assert_eq!(expecting(Calmness { changes: Some(0), ..Calmness::default() }, apart), ["NV"], "nothing was wrong");
    let one = Calmness { changes: Some(1), ..Calmness::default() };
    assert!(expecting(one.clone(), apart).is_empty(), "one change is forced");
    assert_eq!(expecting(one, &format!("{apart}\nn0 closes 9 with n0\nn0 installs 13 of n0")), ["NV"]);
    let by = |at| Calmness { whole_by: Some(Instant(at)), ..Calmness::default() };
    assert!(expecting(by(8), "calm").is_empty());
    assert_eq!(expecting(by(7), "calm"), ["NV"], "n1 comes at the eighth nanosecond");
}

/// A time without changes from the ninth event on, and views of n0 alone at these nanoseconds after it.
fn changes(at: &[u64]) -> Vec<&'static str> {
    changes_with(0, at)
}

/// The same while so many faults part somebody.
fn changes_with(faults: u32, at: &[u64]) -> Vec<&'static str> {
    let span = ConstantSpan { from: Instant(9), until: Instant(20_000_000_000), faults, ..ConstantSpan::default() };
    let views = Calmness { nodes: 2, spans: vec![span], ..Calmness::default() };
    let numbers = (0..at.len() as u64).map(|n| (if n == 0 { 5 } else { 9 + 4 * (n - 1) }, 9 + 4 * n));
    let lines =
        numbers.zip(at).map(|((old, new), at)| format!("at {at}\nn0 closes {old} with n0\nn0 installs {new} of n0\n"));
    broken_with(&format!("{PAIR}{}", lines.collect::<String>()), Bounds { views, ..Bounds::default() })
}

#[test]
fn nv_all_settle_down_after_three_tries() {
    let s = |tenths: u64| tenths * 100_000_000;
    assert!(changes(&[s(1), s(2), s(3), s(4), s(5)]).is_empty(), "one try of five views");
    assert_eq!(changes(&[s(1), s(2), s(3), s(4), s(5), s(6)]), ["NV"], "six in a row");
    assert!(changes(&[s(1), s(11), s(31)]).is_empty(), "three tries");
    assert_eq!(changes(&[s(1), s(11), s(31), s(71)]), ["NV"], "a fourth");
    let twice_a_second: Vec<_> = (1..9).map(|n| s(5 * n)).collect();
    assert_eq!(changes(&twice_a_second), ["NV"]);
    assert!(changes(&[s(1), s(11), s(31), s(201)]).is_empty(), "the fourth comes after something has changed");
    let seven: Vec<_> = (0..7).map(|n| s(1 + 10 * n)).collect();
    assert!(changes_with(2, &seven[..6]).is_empty(), "three for each of two faults");
    assert_eq!(changes_with(2, &seven), ["NV"]);
}

/// Seed 2325 of Ring Paxos.
#[test]
fn nv_who_reads_the_order_late_takes_its_views_late() {
    let late = |from| {
        let span = ConstantSpan { from: Instant(from), until: Instant(20_000_000_000), ..ConstantSpan::default() };
        let views = Calmness { nodes: 2, spans: vec![span], ..Calmness::default() };
        let take = |node, n: u64| {
            let old = if n == 0 { 5 } else { 9 + 4 * (n - 1) };
            format!("n{node} closes {old} with n{node}\nn{node} installs {} of n0 n1\n", 9 + 4 * n)
        };
        let first = (0..6_u64).map(|n| format!("at {}\n{}", (n + 1) * 100_000_000, take(0, n)));
        let second = (0..6_u64).map(|n| format!("at {}\n{}", (n + 10) * 100_000_000, take(1, n)));
        let script = format!("{PAIR}{}", first.chain(second).collect::<String>());
        broken_with(&script, Bounds { views, ..Bounds::default() }).contains(&"NV")
    };
    assert!(!late(900_000_000), "they were formed before");
    assert!(late(9), "while nothing changed");
    assert!(!late(200_000_000), "five of them were");
}

#[test]
fn nv_a_node_that_starts_anew_changes_something() {
    let span = ConstantSpan { from: Instant(9), until: Instant(20_000_000_000), ..ConstantSpan::default() };
    let tries = |between: &str| {
        let lines = (1..=4).map(|n| {
            let (at, old) = (n * 1_000_000_000_u64, if n == 1 { 5 } else { 1 + 4 * n });
            let more = if n == 3 { between } else { "" };
            format!("at {at}\n{more}n0 closes {old} with n0\nn0 installs {} of n0\n", 5 + 4 * n)
        });
        let views = Calmness { nodes: 2, spans: vec![span.clone()], ..Calmness::default() };
        broken_with(&format!("{PAIR}{}", lines.collect::<String>()), Bounds { views, ..Bounds::default() })
    };
    assert_eq!(tries(""), ["NV"], "a fourth try");
    assert!(tries("n1 crashes\n").is_empty(), "two before, two since then");
}

#[test]
fn nv_each_other_part_is_tried_three_times() {
    let span = ConstantSpan { from: Instant(20), until: Instant(20_000_000_000), ..ConstantSpan::default() };
    let third = "n2 starts\nn2 installs 1 of n2\nn0 closes 5 with n0\nn0 installs 9 of n0\n";
    let tries = |most: u64| {
        let lines = (1..=most).map(|n| {
            let (at, old) = (n * 1_000_000_000, 5 + 4 * n);
            format!("at {at}\nn0 closes {old} with n0\nn0 installs {} of n0\n", old + 4)
        });
        let views = Calmness { nodes: 3, spans: vec![span.clone()], ..Calmness::default() };
        let script = format!("{PAIR}{third}{}", lines.collect::<String>());
        broken_with(&script, Bounds { views, ..Bounds::default() })
    };
    assert!(tries(6).is_empty(), "three with n1, three with n2");
    assert_eq!(tries(7), ["NV"]);
}

/// n0 and n1 hear each other from the ninth event on, and a standstill of a second is allowed.
fn available(script: &str) -> Vec<&'static str> {
    available_within(Duration::from_secs(1), script)
}

fn available_within(standstill: Duration, script: &str) -> Vec<&'static str> {
    let span = ConstantSpan {
        from: Instant(9),
        until: Instant(9_000_000_000),
        faults: 1,
        cores: [3, 4].map(|nodes| Core { nodes: NodeSet(nodes), united: true }).into(),
    };
    expecting(Calmness { spans: vec![span], standstill: Some(standstill), ..Calmness::default() }, script)
}

#[test]
fn av_members_that_hear_each_other_order_messages() {
    let sent = "n0 sends 1\n";
    let look = "n0 gauge x 0";
    assert_eq!(available(&format!("{sent}at 1100000000\n{look}")), ["AV"], "given nothing for longer than a second");
    assert!(available(&format!("{sent}at 900000000\n{look}")).is_empty());
    assert_eq!(
        available(&format!("{sent}at 900000000\nn0 delivers n0#1 back\nat 5000000000\n{look}")),
        [""; 0],
        "its own came"
    );
    assert!(available(&format!("at 5000000000\n{look}")).is_empty(), "nobody has sent anything");
    let other = "at 900000000\nn1 sends 1\nn0 delivers n1#1\n";
    assert_eq!(available(&format!("{sent}{other}at 1800000000\n{look}")), [""; 0], "it is given another's");
    assert_eq!(available(&format!("{sent}{other}at 2000000000\n{look}")), ["AV"], "and then nothing more");
    assert!(available(&format!("{sent}at 9100000000\n{look}")).is_empty(), "something has changed meanwhile");
}

#[test]
fn av_members_that_hear_each_other_are_together() {
    let apart = "n0 closes 5 with n0\nn0 installs 9 of n0\nn0 gauge x 0\nat 1100000000\nn1 gauge x 0";
    assert_eq!(available(apart), ["AV"]);
    let others = "n2 starts\nn2 installs 1 of n2\nn0 gauge x 0\nat 1100000000\nn1 gauge x 0\nn2 gauge x 0";
    assert!(available(others).is_empty(), "n2 is in a part of its own");
    let change = |node| format!("{node} closes 5 with n0 n1\n{node} installs 9 of n0 n1\nn0 gauge x 0\n");
    let met = format!("at 900000000\n{}at 1800000000\n{}", change("n0"), change("n1"));
    assert!(available(&met).is_empty(), "one comes later than the other");
}

/// One that was kept out before is kept out for longer the next time.
#[test]
fn av_members_may_be_apart_for_as_long_as_one_was_kept_out_before() {
    let apart = "n0 closes 5 with n0\nn0 installs 9 of n0\n";
    let within = |script: &str| available_within(Duration::from_millis(1_500), script);
    let kept = |from: u64, until: u64, look: u64| {
        let [from, until, look] = [from, until, look].map(|ms| ms * 1_000_000);
        let kept = format!("at {from}\nn0 gauge kept_out 2\nat {until}\nn0 gauge kept_out 2\nn0 gauge kept_out 0\n");
        within(&format!("{apart}{kept}at {look}\nn0 gauge x 0"))
    };
    assert_eq!(kept(1, 2_100, 2_600), [""; 0]);
    assert_eq!(kept(1, 2_100, 2_602), ["AV"], "it is over");
    assert_eq!(kept(1, 900, 1_502), ["AV"], "a first term is allowed for");
    assert_eq!(kept(300, 2_100, 2_200), [""; 0], "what went wrong before was just noticed");
    assert_eq!(kept(500, 2_100, 2_200), ["AV"], "it began too late to be because of that");
    let kept = |by: &str, whom: u64, then: &str| {
        let look = format!("at 2000000000\n{by} gauge kept_out {whom}\n");
        within(&format!("{apart}{by} gauge kept_out {whom}\n{then}{look}"))
    };
    assert_eq!(kept("n0", 2, ""), [""; 0]);
    assert_eq!(kept("n0", 4, ""), ["AV"], "who is kept out is in another part");
    let again =
        "at 1000000000\nn1 crashes\nn1.2 starts\nn1.2 installs 1 of n1.2\nat 2000000000\nn1.2 gauge kept_out 0\n";
    assert_eq!(within(&format!("{apart}n1 gauge kept_out 1\n{again}")), ["AV"], "a new incarnation keeps nobody out");
}

#[test]
fn pl_a_good_bye_is_heard_at_once() {
    let bounds = Bounds { goodbye: Some(Duration::from_nanos(2)), ..Bounds::default() };
    let heard = "n1 leaves\nn1 left\nn0 closes 5 with n0\nn0 installs 9 of n0";
    assert!(broken_with(&format!("{PAIR}{heard}\ncalm"), bounds.clone()).is_empty());
    let late = "n1 leaves\nn1 left\nn0 sends 1\nn0 sends 2\nn0 sends 3";
    assert_eq!(broken_with(&format!("{PAIR}{late}"), bounds), ["PL"]);
}

/// A lone message takes 100 ns at most, a safe one 200; the counter `visits` stands still for 50 ms at most.
fn idle(script: &str) -> Vec<&'static str> {
    let nanos = Duration::from_nanos;
    let counter = Some(("visits", Duration::from_millis(50)));
    let waits = Some(IdleWaits { from: Instant::ZERO, agreed: nanos(100), safe: nanos(200), counter });
    broken_with(&format!("{PAIR}{script}"), Bounds { waits, ..Bounds::default() })
}

#[test]
fn iw_lone_messages_come_back_soon() {
    let back = |at: u64| format!("at {at}\nn0 delivers n0#1 back");
    assert!(idle(&format!("n0 sends 1\n{}", back(100))).is_empty());
    assert_eq!(idle(&format!("n0 sends 1\n{}", back(120))), ["IW"]);
    assert!(idle(&format!("n0 sends 1 safe\n{}", back(120))).is_empty(), "a safe one takes longer");
    assert_eq!(idle(&format!("n0 sends 1 safe\n{}", back(220))), ["IW"]);
    assert!(idle(&format!("n1 sends 1\nn0 sends 1\n{}", back(120))).is_empty(), "not alone under way");
    assert_eq!(idle("n0 sends 1\nat 120\nn1 gauge visits 1"), ["IW"], "it need not come back to be late");
    let uncounted = "n1 speaks 1 to n0\n";
    assert!(idle(&format!("{uncounted}n0 sends 1\n{}", back(120))).is_empty(), "a word by name may be under way");
    assert_eq!(idle(&format!("{uncounted}at 400\nn0 sends 1\n{}", back(520))), ["IW"], "no longer");
    let apart = "n1 closes 5 with n1\nn1 installs 9 of n1\n";
    assert!(idle(&format!("{apart}n0 sends 1\n{}", back(150))).is_empty(), "they look for each other");
}

#[test]
fn iw_a_counter_goes_on_while_nothing_is_said() {
    let looks = |first: u64, second: u64| {
        format!("n0 gauge visits 1\nat 40000000\nn0 gauge visits {first}\nat 80000000\nn0 gauge visits {second}")
    };
    assert!(idle(&looks(1, 2)).is_empty());
    assert!(idle(&looks(2, 2)).is_empty());
    assert_eq!(idle(&looks(1, 1)), ["IW"]);
    let alone = "n2 starts\nn2 installs 1 of n2\nn2 gauge visits 1\nat 80000000\nn2 gauge visits 1";
    assert!(idle(alone).is_empty(), "of those alone nothing is expected");
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
