//! Orders that no simple flaw brings about, and what must not be called broken.
use super::script::broken as broken_script;

/// Three nodes in one view; `n0! n0#1` submits, `n1: n0#1 n0#2` delivers, with `S` before the mark safely.
fn broken(lines: &[&str]) -> Vec<&'static str> {
    broken_of(3, lines)
}

fn broken_of(nodes: usize, lines: &[&str]) -> Vec<&'static str> {
    let members: Vec<_> = (0..nodes).map(|node| format!("n{node}")).collect();
    let all = members.join(" ");
    let form =
        |n: &String| format!("{n} starts\n{n} installs 1 of {n}\n{n} closes 1 with {n}\n{n} installs 5 of {all}\n");
    let mut script: String = members.iter().map(form).collect();
    script.extend(lines.iter().map(|line| expand(line)));
    broken_script(&format!("{script}\ncalm"))
}

fn expand(line: &str) -> String {
    let (node, rest) = line.split_at(2);
    let (sign, marks) = rest.split_at(1);
    let each = |mark: &str| {
        let (service, mark) = mark.strip_prefix('S').map_or(("", mark), |mark| ("safe", mark));
        let (origin, count) = mark.split_once('#').unwrap();
        match sign {
            "!" => format!("{node} sends {count} {service}\n"),
            _ => format!("{node} delivers {mark} {}\n", if origin == node { "back" } else { "" }),
        }
    };
    marks.split_whitespace().map(each).collect()
}

#[test]
fn what_is_right_is_not_called_broken() {
    let all = "n0#1 n1#1 Sn2#1 n0#2";
    let lines = ["n0! n0#1 n0#2", "n1! n1#1", "n2! Sn2#1"].map(String::from);
    let delivered = (0..3).map(|node| format!("n{node}: {all}"));
    let lines: Vec<_> = lines.into_iter().chain(delivered).collect();
    assert_eq!(broken(&lines.iter().map(String::as_str).collect::<Vec<_>>()), [""; 0]);
}

#[test]
fn orders_that_close_a_cycle_over_three_processes_are_no_total_order() {
    // No two of them deliver the same two messages in different order.
    let lines = ["n0! n0#1", "n1! n1#1", "n2! n2#1", "n0: n0#1 n1#1", "n1: n1#1 n2#1", "n2: n2#1 n0#1"];
    assert!(broken(&lines).contains(&"TO1"));
    let lines = ["n0! n0#1", "n1! n1#1", "n2! n2#1", "n0: n0#1 n1#1", "n1: n1#1 n2#1", "n2: n0#1 n2#1"];
    assert!(!broken(&lines).contains(&"TO1"), "a gap is no disorder");
}

#[test]
fn a_message_before_what_its_sender_knew_is_not_causal() {
    let submits_after = ["n0! n0#1", "n1: n0#1", "n1! n1#1"];
    let ends = |last: &'static [&'static str]| [&submits_after, last].concat();
    assert!(broken_of(2, &ends(&["n0: n1#1 n0#1", "n1: n1#1"])).contains(&"CA"));
    assert_eq!(broken_of(2, &ends(&["n0: n0#1 n1#1", "n1: n1#1"])), [""; 0]);
    let concurrent = ["n0! n0#1", "n1! n1#1", "n0: n1#1 n0#1", "n1: n1#1 n0#1"];
    assert_eq!(broken_of(2, &concurrent), [""; 0]);
}

#[test]
fn safe_messages_are_owed_by_all_members_agreed_ones_are_a_matter_of_liveness() {
    let rules = broken_of(2, &["n0! Sn0#1", "n0: Sn0#1"]);
    assert_eq!(rules, ["LV", "SF1"]);
    assert_eq!(broken_of(2, &["n0! n0#1", "n0: n0#1"]), ["LV"]);
}

#[test]
fn a_message_that_only_its_sender_lacks_breaks_self_delivery() {
    assert_eq!(broken_of(2, &["n0! n0#1", "n1: n0#1"]), ["LV", "SD"]);
}

#[test]
fn what_nobody_submitted_is_created_and_what_comes_twice_is_a_duplicate() {
    assert!(broken_of(1, &["n0: n0#1"]).contains(&"NC"));
    assert_eq!(broken_of(1, &["n0! n0#1", "n0: n0#1 n0#1"]), ["FIFO", "ND"]);
    assert_eq!(broken_of(1, &["n0! n0#1 n0#2", "n0: n0#2 n0#1"]), ["FIFO"]);
    assert!(broken_of(1, &["n0! n0#1 n0#2 n0#3", "n0: n0#1 n0#3"]).contains(&"FIFO"));
}

#[test]
fn a_message_left_out_in_a_view_is_a_gap_and_whoever_lags_leaves_none() {
    let submits = ["n0! n0#1", "n1! n1#1", "n0: n0#1 n1#1"];
    assert!(broken_of(2, &[&submits[..], &["n1: n1#1"]].concat()).contains(&"TO2"));
    assert_eq!(broken_of(2, &[&submits[..], &["n1: n0#1"]].concat()), ["LV", "SD"]);
}
