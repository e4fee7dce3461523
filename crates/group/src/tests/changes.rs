//! What each payload and view does, said as a dialogue.
use super::*;
use crate::{Asked, ClientName, Ignored};

#[test]
fn joins_and_leaves_change_the_group_where_they_stand_in_the_order() {
    //= G01 test
    //= G02 test
    //= G03 test
    let mut groups = installed(0, &[0, 1]);
    assert_eq!(step(&mut groups, 0, &join(7, "g")), ["1 g join n0c7 -> [n0c7] tell [c7]"]);
    assert_eq!(step(&mut groups, 1, &join(7, "g")), ["2 g join n1c7 -> [n0c7 n1c7/1] tell [c7]"]);
    assert_eq!(step(&mut groups, 0, &join(3, "g")), ["3 g join n0c3 -> [n0c3/1 n0c7 n1c7] tell [c7 c3]"]);
    assert_eq!(step(&mut groups, 0, &leave(7, "g")), ["4 g leave n0c7 -> [n0c3 n1c7] tell [c3 c7]"]);
    assert_eq!(step(&mut groups, 1, &leave(7, "g")), ["5 g leave n1c7 -> [n0c3] tell [c3]"]);
    assert_eq!(step(&mut groups, 0, &leave(3, "g")), ["6 g leave n0c3 -> [] tell [c3]"]);
    assert!(groups.is_empty() && groups.members(b"g").is_none());
}

#[test]
fn a_message_goes_once_to_each_local_member_of_any_target_and_anyone_may_send() {
    //= G05 test
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
    //= G02 test
    //= G03 test
    let mut groups = installed(0, &[0, 1]);
    for (client, name) in [(1, "a"), (1, "b"), (2, "b")] {
        step(&mut groups, 0, &join(client, name));
    }
    let told = ["4 a disconnect n0c1 -> [] tell []", "4 b disconnect n0c1 -> [n0c2] tell [c2]"];
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
    assert_eq!(drain(&mut groups), ["a closing tell [c1]", "c closing tell [c2]"]);
    groups.install(&view(2, &[0]));
    assert!(groups.has_work());
    let told = ["0 a network n1c1 n2c5 -> [n0c1] tell [c1]", "0 c network n1c2 -> [n0c2] tell [c2]"];
    assert_eq!(drain(&mut groups), told);
    assert!(!groups.has_work() && groups.is_settled());
    assert_eq!(groups.all().map(|(name, ..)| name.to_string()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(step(&mut groups, 0, &leave(2, "c")), ["1 c leave n0c2 -> [] tell [c2]"]);
}

#[test]
fn who_joins_while_a_view_is_closing_gets_the_signal_behind_its_group_view() {
    //= G10 test
    let mut groups = installed(0, &[0, 1]);
    step(&mut groups, 1, &join(1, "parts"));
    let mut transitional = view(1, &[0]);
    transitional.kind = ViewKind::Transitional;
    groups.install(&transitional);
    assert_eq!(drain(&mut groups), [""; 0], "no member here");
    let told = step(&mut groups, 0, &join(1, "parts"));
    assert!(told[0].ends_with(" parts join n0c1 -> [n0c1/1 n1c1] tell [c1]"), "{told:?}");
    assert_eq!(told[1..], ["parts closing tell [c1]"]);
    assert_eq!(step(&mut groups, 0, &join(1, "whole")).len(), 1);
    let told = step(&mut groups, 1, &join(1, "whole"));
    assert_eq!((told.len(), &told[1][..]), (2, "whole closing tell [c1]"), "the first that does not move along");
    assert_eq!(step(&mut groups, 1, &join(2, "whole")).len(), 1);
}

#[test]
fn changes_while_a_view_is_closing_are_named_by_who_moves_along() {
    //= G02 test
    let named = |me: u16, along: &[u16]| {
        let mut groups = installed(me, &[0, 1, 2]);
        step(&mut groups, 0, &join(1, "g"));
        let regular = groups.all().next().unwrap().1;
        groups.install(&View { kind: ViewKind::Transitional, ..view(1, along) });
        drain(&mut groups);
        step(&mut groups, 0, &join(2, "g"));
        let closing = groups.all().next().unwrap().1;
        groups.install(&view(2, along));
        drain(&mut groups);
        step(&mut groups, 0, &join(3, "g"));
        let next = groups.all().next().unwrap().1;
        assert!(regular < closing && closing < next);
        closing
    };
    assert_eq!(named(0, &[0, 1]), named(1, &[0, 1]));
    assert_ne!(named(0, &[0, 1]), named(0, &[0, 2]));
    assert_ne!(named(0, &[0, 1]), named(0, &[0]));
}

#[test]
fn a_new_incarnation_is_another_daemon() {
    let mut groups = installed(0, &[0, 1]);
    step(&mut groups, 1, &join(1, "g"));
    let mut next = view(2, &[0, 1]);
    next.members[1] = MemberId::new(1, 999);
    next.moved_together = vec![daemon(0)];
    groups.install(&next);
    assert_eq!(drain(&mut groups), [""; 0]);
    assert!(groups.is_empty() && !groups.is_settled(), "nobody knows what the new one has");
}

#[test]
fn what_changes_nothing_says_why() {
    //= G04 test
    let mut groups = installed(0, &[0]);
    let mut ask = |payload: &Payload| match deliver(&mut groups, 0, payload) {
        GroupDelivery::Changes { asked: Some(Asked { ignored, .. }), .. } => {
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
    //= G08 test
    for n in 0..Groups::PER_CLIENT {
        assert_eq!(step(&mut groups, 0, &join(1, &format!("g{n}"))).len(), 1);
    }
    let one_more = join(1, "one-more");
    let refused = deliver(&mut groups, 0, &one_more);
    assert!(matches!(
        refused,
        GroupDelivery::Changes { asked: Some(Asked { ignored: Some(Ignored::TooManyGroups), .. }), .. }
    ));
    assert_eq!(groups.len(), Groups::PER_CLIENT, "and no empty group is left behind");
    assert_eq!(step(&mut groups, 0, &disconnect(1)).len(), Groups::PER_CLIENT);
    assert!(groups.is_empty());
}

#[test]
fn a_payload_no_daemon_writes_changes_nothing() {
    //= G01 test
    let mut groups = installed(0, &[0]);
    step(&mut groups, 0, &join(1, "g"));
    let before = format!("{:?}", groups.all().collect::<Vec<_>>());
    for payload in [join(2, "g"), leave(1, "g"), multicast(1, &["g"], b"x")] {
        let good = payload.to_bytes();
        for cut in 0..good.len() - 1 {
            assert!(groups.deliver(daemon(0), Position(9), &good.slice(..cut).into()).is_err(), "{cut}");
        }
    }
    assert_eq!(format!("{:?}", groups.all().collect::<Vec<_>>()), before);
}

#[test]
fn a_closed_group_takes_messages_from_its_members_only_until_it_is_empty() {
    //= G07 test
    let mut groups = installed(0, &[0, 1]);
    step(&mut groups, 0, &join_closed(1, "g"));
    step(&mut groups, 1, &join(1, "g"));
    step(&mut groups, 0, &join(2, "open"));
    assert!(groups.is_closed(b"g") && !groups.is_closed(b"open"));
    assert_eq!(recipients(&mut groups, &multicast(1, &["g"], b"")), [1]);
    let both = multicast(2, &["open", "g"], b"");
    assert_eq!(
        deliver(&mut groups, 0, &both),
        GroupDelivery::Shut { client: ClientId(2), messages: 1, group: group("g") }
    );
    let member = multicast(1, &["g"], b"");
    assert!(matches!(deliver(&mut groups, 1, &member), GroupDelivery::Multicast { recipients: [ClientId(1)], .. }));
    step(&mut groups, 0, &join_closed(3, "open"));
    assert!(!groups.is_closed(b"open"), "only who opens a group can close it");
    step(&mut groups, 0, &leave(1, "g"));
    step(&mut groups, 1, &leave(1, "g"));
    step(&mut groups, 0, &join(9, "g"));
    assert_eq!(recipients(&mut groups, &multicast(2, &["g"], b"")), [9]);
}

#[test]
fn a_private_name_reaches_one_client_and_a_name_is_one_clients() {
    //= G06 test
    let mut groups = installed(0, &[0, 1]);
    let name = |text: &str| ClientName::new(text.as_bytes()).unwrap();
    assert!(groups.enter(ClientId(4), &name("bob")) && groups.enter(ClientId(5), &name("eve")));
    assert!(!groups.enter(ClientId(6), &name("bob")));
    step(&mut groups, 0, &join(4, "g"));
    assert_eq!(recipients(&mut groups, &multicast(1, &["#bob#n0", "g", "#eve#n0"], b"")), [4, 5]);
    assert_eq!(recipients(&mut groups, &multicast(1, &["#bob#n1"], b"")), [0; 0], "another daemon's");
    assert_eq!(recipients(&mut groups, &multicast(1, &["#ann#n0"], b"")), [0; 0], "nobody");
    groups.exit(ClientId(6), &name("bob"));
    assert_eq!(groups.called("bob"), Some(ClientId(4)));
    groups.exit(ClientId(4), &name("bob"));
    assert_eq!(recipients(&mut groups, &multicast(1, &["#bob#n0"], b"")), [0; 0]);
    assert!(groups.enter(ClientId(6), &name("bob")));
}

#[test]
fn the_sum_is_that_of_the_table_whatever_came_before() {
    //= G30 test
    let mut one = installed(0, &[0, 1]);
    let mut other = installed(1, &[0, 1]);
    let empty = one.hash();
    for groups in [&mut one, &mut other] {
        step(groups, 0, &join(1, "a"));
        step(groups, 1, &join(1, "a"));
        step(groups, 1, &join_closed(1, "b"));
    }
    let all = one.hash();
    assert_eq!((all, one.bytes()), (other.hash(), other.bytes()));
    step(&mut one, 1, &leave(1, "b"));
    assert_ne!(one.hash(), all);
    step(&mut one, 1, &disconnect(1));
    step(&mut one, 0, &disconnect(1));
    assert_eq!((one.hash(), one.bytes()), (empty, 0));
}

#[test]
fn joins_beyond_the_budget_are_refused_and_what_leaves_makes_room() {
    //= G08 test
    let mut groups = installed(0, &[0]);
    let cost = |name: &str| 192 + 2 * name.len() + 96;
    step(&mut groups, 0, &join(1, "g"));
    assert_eq!(groups.bytes(), cost("g"));
    groups.table.burden(Groups::BUDGET - cost("g") - cost("abc"));
    let refused = |groups: &mut Groups, payload: &Payload| match deliver(groups, 0, payload) {
        GroupDelivery::Changes { asked: Some(Asked { ignored, .. }), .. } => ignored,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut groups, &join(1, "abcd")), Some(Ignored::Full));
    assert_eq!(refused(&mut groups, &join(1, "abc")), None);
    drain(&mut groups);
    assert_eq!(refused(&mut groups, &join(2, "g")), Some(Ignored::Full));
    step(&mut groups, 0, &leave(1, "abc"));
    assert_eq!(refused(&mut groups, &join(2, "g")), None);
}
