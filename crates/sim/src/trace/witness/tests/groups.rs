//! Clients in several groups: a trace for each group, and one for all of them together.
use super::stage::{Stage, broken, member};
use consort_types::Primary;
use consort_types::Service::{Agreed, Safe};

/// The client at node 1 is in both groups, node 2's in both, node 3's in the second only.
fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.welcome(1, member(1), &[&["a"], &["b"], &["a", "b"]]);
    stage.welcome(2, member(2), &[&["a"], &["b"], &["a", "b"]]);
    stage.welcome(3, member(3), &[&["unused"], &["b"]]);
    stage.install(&[1, 2, 3], 5, Primary::No);
    stage.join("a", &[1], 5, 1);
    stage.join("a", &[1, 2], 5, 2);
    stage.join("b", &[1], 5, 3);
    stage.join("b", &[1, 2], 5, 4);
    stage.join("b", &[1, 2, 3], 5, 5);
    stage
}

fn all(stage: &mut Stage) -> [Vec<&'static str>; 2] {
    // The third client's first witness never joins: its trace is not for judging.
    [broken(&stage.trace(1)), broken(&stage.trace(2))]
}

#[test]
fn each_group_has_a_trace_without_gaps_in_the_senders_numbers() {
    let mut stage = stage();
    let sent = [
        stage.send(1, Agreed, &["a"]),
        stage.send(1, Agreed, &["b"]),
        stage.send(1, Safe, &["a", "b"]),
        stage.send(2, Agreed, &["b"]),
    ];
    for (one, to) in sent.iter().zip([&[1, 2][..], &[1, 2, 3], &[1, 2, 3], &[1, 2, 3]]) {
        stage.deliver(to, one);
    }
    stage.acknowledge(1);
    let only_b = stage.trace(1).to_string();
    assert!(only_b.contains("n3c0 deliver mark=n1c0#2") && !only_b.contains("mark=n1c0#3"), "{only_b}");
    assert!(only_b.contains("n1c0 ordered count=2"), "{only_b}");
    assert_eq!(broken(&only_b.parse().unwrap()), [""; 0]);
    assert_eq!(broken(&stage.trace(2)), ["W5"], "nobody at n3 is in both groups");
}

#[test]
fn an_order_that_differs_only_between_groups_is_noticed_where_both_are_heard() {
    let mut stage = stage();
    let (a, b) = (stage.send(1, Agreed, &["a"]), stage.send(2, Agreed, &["b"]));
    stage.deliver(&[1, 3], &b);
    stage.deliver(&[1, 2], &a);
    stage.deliver(&[2], &b);
    let [only_b, both] = all(&mut stage);
    assert_eq!(only_b, [""; 0]);
    assert!(both.contains(&"TO1"), "{both:?}");
}

#[test]
fn what_comes_for_another_group_before_all_are_joined_does_not_count() {
    let mut stage = Stage::new();
    stage.welcome(1, member(1), &[&["a"], &["b"], &["a", "b"]]);
    stage.install(&[1], 5, Primary::No);
    stage.join("a", &[1], 5, 1);
    let early = stage.send(1, Agreed, &["a", "b"]);
    stage.deliver(&[1], &early);
    stage.join("b", &[1], 5, 2);
    assert!(stage.trace(0).to_string().contains("deliver"));
    assert!(!stage.trace(1).to_string().contains("deliver") && !stage.trace(2).to_string().contains("deliver"));
}

#[test]
fn a_client_that_sends_to_groups_it_is_not_in_is_served_by_others_at_its_daemon() {
    let told = |own: bool, others: bool| {
        let mut stage = Stage::new();
        stage.welcome(1, member(1), &[&["a", "b"]]);
        stage.welcome(2, member(2), &[&["a", "b"]]);
        stage.welcome(3, member(2), &[&["-", "a", "b"], &["b"]]);
        stage.install(&[1, 2, 3], 5, Primary::No);
        for (change, name) in [(1, "a"), (2, "b")] {
            stage.join(name, &[1, 2], 5, change);
        }
        stage.join("b", &[1, 2, 3], 5, 3);
        let sent = stage.send(3, Agreed, &["b"]);
        let to: Vec<_> = [(others, 1), (own, 2)].into_iter().filter(|(gets, _)| *gets).map(|(_, to)| to).collect();
        stage.deliver(&to, &sent);
        stage.acknowledge(3);
        let trace = stage.trace(0);
        assert!(!trace.to_string().contains("n2c1 start"), "it takes no part");
        broken(&trace)
    };
    assert_eq!(told(true, true), [""; 0]);
    assert_eq!(told(false, false), ["SD"], "lost");
    assert_eq!(told(false, true), ["SD"], "lost at its own daemon");
}
