//! Whether a group is the primary part, told with its members.
use super::*;
use crate::ChangeCause;
use crate::tests::exchange::Cluster;

/// What is told as `g join yes [1] tell [c1]`: group, cause, state, how many members, to whom; or `g closing`.
pub(super) fn told(groups: &mut Groups) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(step) = groups.advance() {
        match step {
            GroupStep::Quiet => {}
            GroupStep::Signal(signal) => lines.push(format!("{} closing", signal.group)),
            GroupStep::View(change) => {
                let tell: Vec<_> = change.notify.iter().map(ClientId::to_string).collect();
                if change.cause == ChangeCause::Primary {
                    assert!(change.who.is_empty() && change.sets.iter().all(|set| *set == 0));
                }
                let (group, cause, primary) = (change.group, change.cause, change.primary.word());
                lines.push(format!("{group} {cause} {primary} [{}] tell [{}]", change.members.len(), tell.join(" ")));
            }
        }
    }
    lines
}

fn after(groups: &mut Groups, sender: u16, payload: &Payload) -> Vec<String> {
    deliver(groups, sender, payload);
    told(groups)
}

fn close(groups: &mut Groups, along: &[u16]) -> Vec<String> {
    let members: Vec<_> = along.iter().map(|node| daemon(*node)).collect();
    let closing =
        View { kind: ViewKind::Transitional, members: members.clone(), primary: Primary::No, ..view(1, &[0]) };
    groups.install(&View { moved_together: members, ..closing });
    told(groups)
}

#[test]
fn members_are_told_when_their_view_becomes_primary_and_when_it_closes() {
    //= G22 test
    //= G23 test
    let mut groups = installed(0, &[0, 1]);
    assert_eq!(after(&mut groups, 0, &join(1, "g")), ["g join pending [1] tell [c1]"]);
    let before = groups.hash();
    groups.become_primary();
    assert_eq!(told(&mut groups), ["g primary yes [1] tell [c1]"]);
    assert_eq!(groups.hash(), before, "the same membership");
    assert_eq!(after(&mut groups, 1, &join(2, "g")), ["g join yes [2] tell [c1]"]);
    assert_eq!(after(&mut groups, 1, &join(2, "h")), ["h join yes [1] tell []"]);
    assert_eq!(close(&mut groups, &[0]), ["g primary no [2] tell [c1]", "g closing"], "before the signals");
    assert_eq!(after(&mut groups, 0, &join(3, "g"))[0], "g join no [3] tell [c1 c3]");
}

#[test]
fn spread_clients_and_groups_without_a_policy_are_told_nothing_more() {
    let mut groups = installed(0, &[0]);
    let guest = 9 | ClientId::SPREAD;
    assert_eq!(after(&mut groups, 0, &join(guest, "g")).len(), 1);
    groups.become_primary();
    assert_eq!(told(&mut groups), ["g primary yes [1] tell []"]);
    let mut groups = at(0);
    groups.install(&View { primary: Primary::NoPolicy, ..view(1, &[0]) });
    told(&mut groups);
    assert_eq!(after(&mut groups, 0, &join(1, "g")), ["g join no policy [1] tell [c1]"]);
    groups.install(&View { kind: ViewKind::Transitional, primary: Primary::NoPolicy, ..view(1, &[0]) });
    assert_eq!(told(&mut groups), [""; 0]);
    groups.install(&View { primary: Primary::NoPolicy, ..view(2, &[0]) });
    assert_eq!(told(&mut groups), [""; 0]);
}

#[test]
fn who_meets_is_primary_only_behind_the_exchange() {
    //= G22 test
    //= G23 test
    let mut cluster = Cluster::new(2);
    cluster.install(&[0]);
    cluster.install(&[1]);
    for node in [0, 1] {
        cluster.join(node, 1, "g");
    }
    cluster.join(0, 2, "here");
    [0, 1].iter().for_each(|node| drop(cluster.told(*node)));
    cluster.install(&[0, 1]);
    let groups = cluster.groups(0);
    groups.become_primary();
    assert_eq!(told(groups), [""; 0], "the other members of g are not known yet");
    let parts: Vec<_> =
        [0, 1].into_iter().flat_map(|node| cluster.parts(node).into_iter().map(move |part| (node, part))).collect();
    let groups = cluster.groups(0);
    let all: Vec<_> = parts.iter().flat_map(|(sender, part)| after(groups, *sender, part)).collect();
    assert_eq!(all, ["g network yes [2] tell [c1]", "here primary yes [1] tell [c2]"]);
    assert!(groups.is_settled());
}
