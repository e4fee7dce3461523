//! A trace of real sessions that breaks nothing, and the same trace with one thing about it untrue: the judge sees it.
use super::stage::{Stage, broken, member};
use crate::trace::Trace;
use crate::trace::witness::SessionEnding;
use consort_types::Primary;
use consort_types::Service::{Agreed, Safe};

/// Two clients at two daemons talk, are parted and meet again; then all is calm.
fn stage() -> Stage {
    let mut stage = Stage::new();
    for node in [1, 2] {
        stage.welcome(node, member(node), &[&["g"]]);
    }
    stage.install(&[1, 2], 5, Primary::Pending);
    stage.join("g", &[1], 5, 1);
    stage.join("g", &[1, 2], 5, 2);
    stage.install(&[1, 2], 5, Primary::Yes);
    let first = stage.send(1, Agreed, &["g"]);
    let second = stage.send(2, Safe, &["g"]);
    for sent in [&first, &second] {
        stage.deliver(&[1, 2], sent);
    }
    stage.acknowledge(1);
    stage.acknowledge(2);
    for (node, alone) in [(1, 9), (2, 10)] {
        stage.close(&[node], 5);
        stage.signal("g", node, 5, 2);
        stage.install(&[node], alone, Primary::No);
        stage.close(&[node], alone);
    }
    stage.install(&[1, 2], 14, Primary::Pending);
    stage.regroup("g", &[1, 2], 14);
    let third = stage.send(1, Safe, &["g"]);
    let fourth = stage.send(2, Agreed, &["g"]);
    let fifth = stage.send(2, Agreed, &["g"]);
    for sent in [&third, &fourth, &fifth] {
        stage.deliver(&[1, 2], sent);
    }
    stage.acknowledge(1);
    stage.close(&[1, 2], 14);
    stage.install(&[1, 2], 18, Primary::No);
    let last = stage.send(1, Agreed, &["g"]);
    stage.deliver(&[1, 2], &last);
    stage.acknowledge(1);
    stage
}

/// What the judge says of the trace once someone has worked on its lines.
fn doctored(work: impl FnOnce(&mut Vec<String>)) -> Vec<&'static str> {
    let mut lines: Vec<_> = stage().trace(0).to_string().lines().map(str::to_owned).collect();
    work(&mut lines);
    broken(&lines.join("\n").parse::<Trace>().unwrap())
}

/// Where the one line is in which all these words stand.
fn place(lines: &[String], words: &[&str]) -> usize {
    let has = |line: &String| words.iter().all(|word| line.split_whitespace().any(|it| it == *word));
    let mut found = lines.iter().enumerate().filter(|(_, line)| has(line));
    let (at, _) = found.next().unwrap_or_else(|| panic!("no line with {words:?}"));
    assert!(found.next().is_none(), "more than one line with {words:?}");
    at
}

fn without(words: &[&str]) -> Vec<&'static str> {
    doctored(|lines| drop(lines.remove(place(lines, words))))
}

/// One line says `new` where it said `old`.
fn altered(words: &[&str], old: &str, new: &str) -> Vec<&'static str> {
    doctored(|lines| {
        let at = place(lines, words);
        assert!(lines[at].contains(old), "{}", lines[at]);
        lines[at] = lines[at].replace(old, new);
    })
}

/// The line of the first stands where that of the second stood, and the other way round.
fn swapped(first: &[&str], second: &[&str]) -> Vec<&'static str> {
    doctored(|lines| {
        let (first, second) = (place(lines, first), place(lines, second));
        lines.swap(first, second);
    })
}

const SECOND_AT_2: &[&str] = &["n2c0", "deliver", "mark=n2c0#1"];
const THIRD_AT_2: &[&str] = &["n2c0", "deliver", "mark=n1c0#2"];
const FOURTH_AT_1: &[&str] = &["n1c0", "deliver", "mark=n2c0#2"];
const LAST_AT_1: &[&str] = &["n1c0", "deliver", "mark=n1c0#3"];
const LAST_AT_2: &[&str] = &["n2c0", "deliver", "mark=n1c0#3"];
const JOINED: &str = "id=14@n1.101";
const LATEST: &str = "id=18@n1.101";

#[test]
fn the_whole_truth_breaks_nothing() {
    assert_eq!(doctored(|_| ()), [""; 0]);
}

#[test]
fn nc_a_message_that_nobody_sent_is_noticed() {
    assert_eq!(without(&["n2c0", "submit", "count=3"]), ["NC"]);
    assert_eq!(altered(LAST_AT_2, "intact=true", "intact=false"), ["NC"]);
    assert_eq!(altered(THIRD_AT_2, "service=safe", "service=fifo"), ["NC", "SF1"]);
    assert_eq!(altered(LAST_AT_2, "client=0", "client=1"), ["NC"], "said to come from another client");
}

#[test]
fn nd_a_message_that_comes_twice_is_noticed() {
    let twice = doctored(|lines| {
        let at = place(lines, LAST_AT_2);
        lines.insert(at, lines[at].clone());
    });
    assert!(twice.contains(&"ND"), "{twice:?}");
}

#[test]
fn fifo_and_to1_messages_in_another_order_are_noticed() {
    let senders = swapped(&["n2c0", "deliver", "mark=n2c0#2"], &["n2c0", "deliver", "mark=n2c0#3"]);
    assert!(senders.contains(&"FIFO") && senders.contains(&"TO1"), "{senders:?}");
    let others = swapped(THIRD_AT_2, &["n2c0", "deliver", "mark=n2c0#2"]);
    assert!(others.contains(&"TO1") && !others.contains(&"FIFO"), "{others:?}");
}

#[test]
fn to2_a_message_left_out_in_the_middle_is_noticed() {
    assert_eq!(without(THIRD_AT_2), ["SF1", "TO2", "VS"]);
    let agreed = without(FOURTH_AT_1);
    assert!(agreed.contains(&"TO2") && agreed.contains(&"VS") && !agreed.contains(&"SF1"), "{agreed:?}");
}

#[test]
fn vs_the_last_message_of_a_view_left_out_by_one_is_noticed() {
    assert_eq!(without(&["n1c0", "deliver", "mark=n2c0#3"]), ["VS"]);
}

#[test]
fn lv_the_last_message_of_all_left_out_by_one_is_noticed() {
    assert_eq!(without(LAST_AT_2), ["LV"]);
}

#[test]
fn ak_and_sd_a_lost_message_that_was_acknowledged_is_noticed() {
    let lost = doctored(|lines| {
        lines.remove(place(lines, LAST_AT_1));
        lines.remove(place(lines, LAST_AT_2));
    });
    assert_eq!(lost, ["AK", "SD"]);
    let unknown = doctored(|lines| {
        lines.remove(place(lines, LAST_AT_1));
        lines.remove(place(lines, LAST_AT_2));
        lines.remove(place(lines, &["n1c0", "ordered", "count=3"]));
    });
    assert_eq!(unknown, ["SD"], "its sender lives");
}

#[test]
fn sf1_a_safe_message_that_dies_with_those_that_delivered_it_is_noticed() {
    let mut stage = stage();
    let safe = stage.send(1, Safe, &["g"]);
    stage.deliver(&[1], &safe);
    stage.end(1, SessionEnding::Crashed);
    stage.close(&[2], 18);
    stage.signal("g", 2, 14, 0);
    stage.install(&[2], 22, Primary::No);
    stage.regroup("g", &[2], 22);
    assert_eq!(broken(&stage.trace(0)), ["SF1"]);
}

#[test]
fn ca_a_message_before_one_that_its_sender_knew_is_noticed() {
    let told = |order: [usize; 2]| {
        let mut stage = stage();
        let question = stage.send(1, Agreed, &["g"]);
        stage.deliver(&[2], &question);
        let answer = stage.send(2, Agreed, &["g"]);
        stage.deliver(&[2], &answer);
        order.into_iter().for_each(|at| stage.deliver(&[1], [&question, &answer][at]));
        broken(&stage.trace(0))
    };
    assert_eq!(told([0, 1]), [""; 0]);
    assert!(told([1, 0]).contains(&"CA"));
}

#[test]
fn d2_a_message_in_two_views_is_noticed() {
    let late = doctored(|lines| {
        let delivery = lines.remove(place(lines, SECOND_AT_2));
        let at = place(lines, &["n2c0", "view", "transitional=false", "id=10@n1.101"]);
        lines.insert(at + 1, delivery);
    });
    assert!(late.contains(&"D2"), "{late:?}");
}

#[test]
fn w1_a_view_without_its_transitional_one_is_noticed() {
    let none = without(&["n1c0", "view", "transitional=true", JOINED]);
    assert!(none.contains(&"W1"), "{none:?}");
    let after = doctored(|lines| {
        let at = lines.len() - 1;
        lines.insert(at - 3, format!("{} n2c0 crash", u64::MAX));
    });
    assert!(after.contains(&"W1"), "something after the end: {after:?}");
}

#[test]
fn w2_a_view_forged_to_have_other_members_is_noticed() {
    let words = ["n1c0", "view", "transitional=false", LATEST];
    let forged = altered(&words, "members=n1,n2", "members=n1,n2,n3");
    assert!(forged.contains(&"W2"), "{forged:?}");
    let stranger = altered(&words, "members=n1,n2", "members=n2");
    assert!(stranger.contains(&"W2"), "{stranger:?}");
}

#[test]
fn w3_a_view_numbered_downwards_is_noticed() {
    let down = altered(&["n1c0", "view", "transitional=false", LATEST], LATEST, "id=13@n1.101");
    assert!(down.contains(&"W3"), "{down:?}");
}

#[test]
fn w4_a_lie_about_who_moved_together_is_noticed() {
    let words = ["n1c0", "view", "transitional=true", JOINED];
    let alone = altered(&words, "members=n1,n2 together=n1,n2", "members=n1 together=n1");
    assert!(alone.contains(&"W4"), "{alone:?}");
}

#[test]
fn w5_and_cc_whoever_is_in_another_view_in_the_end_is_noticed() {
    let last = ["n2c0", "view", "transitional=false", LATEST];
    let behind = without(&last);
    assert!(behind.contains(&"W5") && behind.contains(&"CC"), "{behind:?}");
    let mut stage = stage();
    stage.end(2, SessionEnding::Left);
    let dead = broken(&stage.trace(0));
    assert!(dead.contains(&"W5") && dead.contains(&"CC"), "n1 is in a view with the dead: {dead:?}");
}

#[test]
fn pr_a_forged_primary_view_is_noticed() {
    let words = ["n1c0", "primary"];
    assert!(altered(&words, "id=5@", "id=6@").contains(&"PR"), "not in it");
    let pending = ["n1c0", "view", "transitional=false", "id=5@n1.101"];
    assert!(altered(&pending, "pending=true", "pending=false").contains(&"PR"), "never pending");
    let told_one = without(&words);
    assert!(!told_one.contains(&"VS"), "they did not move together: {told_one:?}");
}

#[test]
fn gv_a_forged_group_is_noticed() {
    let words = ["n2c0", "group", "change=2"];
    assert!(altered(&words, "members=n1c0,n2c0", "members=n1c0,n2c0,n2c7").contains(&"GV"), "others elsewhere");
    assert!(altered(&words, "members=n1c0,n2c0", "members=n1c0").contains(&"GV"), "without itself");
}

#[test]
fn lv_a_refusal_is_noticed_unless_the_daemon_leaves() {
    let mut stage = stage();
    stage.refuse(2, Some(9));
    assert_eq!(broken(&stage.trace(0)), ["LV"]);
    let mut stage = self::stage();
    stage.witness(2).leaves();
    stage.refuse(2, Some(9));
    assert_eq!(broken(&stage.trace(0)), [""; 0]);
}

#[test]
fn ak_sees_on_after_a_refusal() {
    let mut stage = stage();
    stage.witness(2).leaves();
    stage.refuse(2, Some(99));
    stage.send(2, Agreed, &["g"]);
    stage.acknowledge(2);
    assert!(broken(&stage.trace(0)).contains(&"AK"), "a request that was none of its messages was refused");
    let mut stage = self::stage();
    stage.witness(2).leaves();
    stage.send(2, Agreed, &["g"]);
    stage.refuse(2, None);
    stage.acknowledge(2);
    assert!(!broken(&stage.trace(0)).contains(&"AK"), "what was refused is not called ordered");
    stage.send(2, Agreed, &["g"]);
    stage.acknowledge(2);
    assert!(broken(&stage.trace(0)).contains(&"AK"), "the next one is");
}

#[test]
fn lv_a_client_that_never_comes_in_is_noticed() {
    let mut stage = stage();
    stage.welcome(3, member(3), &[&["g"]]);
    let rules = broken(&stage.trace(0));
    assert!(rules.contains(&"LV") && rules.contains(&"W5"), "{rules:?}");
}

#[test]
fn af_a_failed_assertion_is_noticed() {
    let mut stage = stage();
    stage.witness(1).gauge(consort_types::Instant(u64::MAX - 1), "assertion_failures", 1);
    assert_eq!(broken(&stage.trace(0)), ["AF"]);
}

#[test]
fn af_and_gh_what_a_daemon_counts_that_must_never_happen_is_noticed() {
    let told = |name: &str, value: &str| {
        let mut stage = stage();
        let pairs = [("protocol", "ring"), (name, value)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        stage.witness(1).status(consort_types::Instant(u64::MAX - 1), &pairs);
        broken(&stage.trace(0))
    };
    assert_eq!(told("assertion_failures", "2"), ["AF"]);
    for name in ["group_hash_mismatches", "group_early_messages", "group_parts_broken", "ordered_malformed"] {
        assert_eq!((told(name, "1"), told(name, "0")), (vec!["GH"], vec![]), "{name}");
    }
    assert_eq!(told("rotations", "7"), [""; 0]);
}

#[test]
fn a_message_before_any_group_is_not_passed_over() {
    let mut stage = Stage::new();
    stage.welcome(1, member(1), &[&["g"]]);
    stage.welcome(2, member(2), &[&["g"]]);
    stage.install(&[1, 2], 5, Primary::No);
    stage.join("g", &[1], 5, 1);
    let sent = stage.send(1, Agreed, &["g"]);
    stage.deliver(&[1, 2], &sent);
    stage.join("g", &[1, 2], 5, 2);
    assert_eq!(broken(&stage.trace(0)), ["W1"]);
}
