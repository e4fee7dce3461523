//! What each payload and view does, said as a dialogue.
use super::*;
use crate::table::{Asked, Ignored};

#[test]
fn joins_and_leaves_change_the_group_where_they_stand_in_the_order() {
    let mut groups = installed(0, &[0, 1]);
    assert_eq!(step(&mut groups, 0, &join(7, "g")), ["1 g join n0c7 -> [n0c7] tell [c7]"]);
    assert_eq!(step(&mut groups, 1, &join(7, "g")), ["2 g join n1c7 -> [n0c7 n1c7] tell [c7]"]);
    assert_eq!(step(&mut groups, 0, &join(3, "g")), ["3 g join n0c3 -> [n0c3 n0c7 n1c7] tell [c7 c3]"]);
    assert_eq!(step(&mut groups, 0, &leave(7, "g")), ["4 g leave n0c7 -> [n0c3 n1c7] tell [c7 c3]"]);
    assert_eq!(step(&mut groups, 1, &leave(7, "g")), ["5 g leave n1c7 -> [n0c3] tell [c3]"]);
    assert_eq!(step(&mut groups, 0, &leave(3, "g")), ["6 g leave n0c3 -> [] tell [c3]"]);
    assert!(groups.is_empty() && groups.members(b"g").is_none());
}

#[test]
fn a_message_goes_once_to_each_local_member_of_any_target_and_anyone_may_send() {
    let mut groups = installed(0, &[0, 1]);
    for (client, name) in [(1, "a"), (2, "a"), (2, "b"), (3, "b"), (4, "c")] {
        step(&mut groups, 0, &join(client, name));
    }
    step(&mut groups, 1, &join(9, "a"));
    assert_eq!(recipients(&mut groups, &multicast(77, &["a"], b"x")), [1, 2]);
    assert_eq!(recipients(&mut groups, &multicast(77, &["b", "a", "b"], b"x")), [1, 2, 3]);
    assert_eq!(recipients(&mut groups, &multicast(77, &["nobody"], b"x")), [0; 0]);
    step(&mut groups, 0, &leave(4, "c"));
    assert_eq!(recipients(&mut groups, &multicast(77, &["c"], b"x")), [0; 0]);
}

#[test]
fn a_place_in_the_table_that_is_used_again_belongs_to_the_new_group_only() {
    let mut groups = installed(0, &[0]);
    step(&mut groups, 0, &join(1, "old"));
    assert_eq!(recipients(&mut groups, &multicast(1, &["old"], b"")), [1]);
    step(&mut groups, 0, &leave(1, "old"));
    step(&mut groups, 0, &join(2, "new"));
    assert_eq!(recipients(&mut groups, &multicast(1, &["old"], b"")), [0; 0]);
    assert_eq!(recipients(&mut groups, &multicast(1, &["new"], b"")), [2]);
}

#[test]
fn a_client_that_is_gone_leaves_all_its_groups_and_is_told_nothing() {
    let mut groups = installed(0, &[0, 1]);
    for (client, name) in [(1, "a"), (1, "b"), (2, "b")] {
        step(&mut groups, 0, &join(client, name));
    }
    let told = ["4 a disconnect n0c1 -> [] tell []", "5 b disconnect n0c1 -> [n0c2] tell [c2]"];
    assert_eq!(step(&mut groups, 0, &disconnect(1)), told);
    assert_eq!(step(&mut groups, 0, &disconnect(1)), [""; 0]);
    assert_eq!(groups.len(), 1);
}

#[test]
fn a_regular_view_takes_the_clients_of_gone_daemons_out_and_numbers_anew() {
    let mut groups = installed(0, &[0, 1, 2]);
    for (node, client, name) in [(0, 1, "a"), (1, 1, "a"), (2, 5, "a"), (2, 5, "b"), (1, 2, "c"), (0, 2, "c")] {
        step(&mut groups, node, &join(client, name));
    }
    let mut transitional = view(1, &[0]);
    transitional.kind = ViewKind::Transitional;
    groups.install(&transitional);
    assert_eq!(drain(&mut groups), [""; 0], "a transitional view only closes the one before");
    groups.install(&view(2, &[0]));
    assert!(groups.has_changes());
    let told = [
        "1 a network n1c1 n2c5 -> [n0c1] tell [c1]",
        "2 b network n2c5 -> [] tell []",
        "3 c network n1c2 -> [n0c2] tell [c2]",
    ];
    assert_eq!(drain(&mut groups), told);
    assert!(!groups.has_changes());
    assert_eq!(groups.all().map(|(name, ..)| name.to_string()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_new_incarnation_is_another_daemon() {
    let mut groups = installed(0, &[0, 1]);
    step(&mut groups, 1, &join(1, "g"));
    let mut next = view(2, &[0, 1]);
    next.members[1] = MemberId::new(1, 999);
    groups.install(&next);
    assert_eq!(drain(&mut groups), ["1 g network n1c1 -> [] tell []"]);
}

#[test]
fn what_changes_nothing_says_why() {
    let mut groups = installed(0, &[0]);
    let mut ask = |payload: &Payload| match groups.deliver(daemon(0), payload).unwrap() {
        Delivered::Changes { asked: Some(Asked { ignored, .. }), .. } => {
            drain(&mut groups);
            ignored
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&leave(1, "g")), Some(Ignored::NotMember));
    assert_eq!(ask(&join(1, "g")), None);
    assert_eq!(ask(&join(1, "g")), Some(Ignored::AlreadyMember));
    assert_eq!(ask(&leave(2, "g")), Some(Ignored::NotMember));
    assert_eq!(ask(&leave(1, "g")), None);
    assert_eq!(ask(&leave(1, "g")), Some(Ignored::NotMember));
}

#[test]
fn a_client_cannot_be_in_more_groups_than_the_budget_allows() {
    let mut groups = installed(0, &[0]);
    for n in 0..Groups::PER_CLIENT {
        assert_eq!(step(&mut groups, 0, &join(1, &format!("g{n}"))).len(), 1);
    }
    let one_more = join(1, "one-more");
    let refused = groups.deliver(daemon(0), &one_more).unwrap();
    assert!(matches!(
        refused,
        Delivered::Changes { asked: Some(Asked { ignored: Some(Ignored::TooManyGroups), .. }), .. }
    ));
    assert_eq!(groups.len(), Groups::PER_CLIENT, "and no empty group is left behind");
    assert_eq!(step(&mut groups, 0, &disconnect(1)).len(), Groups::PER_CLIENT);
    assert!(groups.is_empty());
}

#[test]
fn a_payload_no_daemon_writes_changes_nothing() {
    let mut groups = installed(0, &[0]);
    step(&mut groups, 0, &join(1, "g"));
    let before = format!("{:?}", groups.all().collect::<Vec<_>>());
    for payload in [join(2, "g"), leave(1, "g"), multicast(1, &["g"], b"x")] {
        let good = payload.to_bytes();
        for cut in 0..good.len() - 1 {
            assert!(groups.deliver(daemon(0), &good.slice(..cut).into()).is_err(), "{cut}");
        }
    }
    assert_eq!(format!("{:?}", groups.all().collect::<Vec<_>>()), before);
}
