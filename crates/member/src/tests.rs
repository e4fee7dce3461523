//! The parts that both memberships share, by themselves: a gathering, and what a view makes of others.
use crate::{Beacon, Gathering, JoinEffect, Overdue, Presence, Proposal, Reason, Sets, Summons};
use bytes::Bytes;
use consort_types::{Duration, Instant, MemberId, NodeId, Primary, View, ViewCause, ViewId};

const NOW: Instant = Instant(1_000_000_000);
const GONE: &[Reason] = &[Reason::Left];

fn member(node: u16) -> MemberId {
    MemberId::new(node, 10)
}

/// Node 1 of a network in which all of `nodes` hear each other; each node from 4 on is a view by itself.
fn presence(nodes: &[u16]) -> Presence {
    let mut presence = Presence::new(member(1), Duration::from_millis(200));
    for node in nodes {
        let from = member(*node);
        let alone = ViewId { number: 8, representative: from };
        let heard = nodes.iter().copied().map(NodeId).chain([NodeId(1)]).collect();
        let beacon = Beacon {
            view: alone,
            members: vec![from],
            heard,
            wants: None,
            settled: true,
            clocks: Box::default(),
            annotation: Bytes::new(),
            padding: 0,
        };
        presence.note_beacon(NOW, from, beacon);
    }
    presence
}

/// The view of nodes 1 to 3.
fn view() -> View {
    let first = presence(&[]).first_view(Primary::NoPolicy);
    let id = ViewId { number: 9, representative: member(1) };
    View { id, members: [1, 2, 3].map(member).into(), ..first }
}

fn gathering() -> Gathering {
    Gathering::new(member(1), Sets::new(member(1), &view().members, ViewCause::Started), NOW)
}

fn join(proc: &[u16], fail: &[u16]) -> Proposal {
    let set = |nodes: &[u16]| nodes.iter().copied().map(member).collect();
    Proposal { proc: set(proc), fail: set(fail), number: 9, heard: [NodeId(1)].into(), ..Proposal::default() }
}

#[test]
fn all_must_say_the_same_and_every_change_undoes_agreement() {
    //= M10 test
    //= M11 test
    let (presence, mut gathering) = (presence(&[2, 3]), gathering());
    let hear = |gathering: &mut Gathering, from, join: &Proposal| gathering.on_join(&presence, NOW, member(from), join);
    let whole = join(&[1, 2, 3], &[]);
    assert_eq!(hear(&mut gathering, 2, &whole), JoinEffect::Noted);
    assert_eq!(gathering.consensus(GONE), None);
    assert_eq!(hear(&mut gathering, 3, &whole), JoinEffect::Noted);
    assert_eq!(gathering.consensus(GONE), Some([1, 2, 3].map(member).into()));
    assert_eq!(hear(&mut gathering, 2, &join(&[1, 2], &[])), JoinEffect::Noted, "it says nothing new");
    assert_eq!(hear(&mut gathering, 2, &join(&[1, 2, 3, 4], &[])), JoinEffect::Changed);
    let soon = gathering.restart(NOW);
    assert!(soon > NOW && gathering.consensus(GONE).is_none(), "a JOIN was sent a moment ago");
    assert_eq!(gathering.restart(soon), soon);
    assert_eq!(hear(&mut gathering, 3, &join(&[1, 3], &[1])), JoinEffect::Changed, "whoever fails us is failed");
    assert_eq!(gathering.sets.fail, [member(3)].into());
    assert_eq!(hear(&mut gathering, 3, &whole), JoinEffect::Ignored);
}

#[test]
fn the_lowest_leads_and_who_waits_for_it_in_vain_asks_again_and_then_fails_the_silent() {
    //= M12 test
    //= M13 test
    //= M20 test
    let mut gathering = gathering();
    gathering.agreed.extend(view().members);
    assert!(gathering.leads(&[1, 2].map(member)) && !gathering.leads(&[0, 1].map(member)));
    assert_eq!(gathering.consensus(GONE), None, "the lowest is awaited");
    assert_eq!(gathering.on_overdue(), Overdue::Forming);
    assert_eq!(gathering.on_overdue(), Overdue::Silent([2, 3].map(member).into()));
}

#[test]
fn being_alone_counts_after_a_wait_or_once_all_others_have_left() {
    //= M14 test
    //= M15 test
    let alone = Some(vec![member(1)]);
    let mut left = gathering();
    let goodbye = Proposal { leave: true, ..join(&[], &[]) };
    for node in [2, 3] {
        assert_eq!(left.consensus(GONE), None);
        assert_eq!(left.on_join(&presence(&[]), NOW, member(node), &goodbye), JoinEffect::Changed);
    }
    assert_eq!(left.consensus(GONE), alone);
    let mut silent = gathering();
    silent.refuse_all([2, 3].map(member), Reason::Silent);
    assert_eq!(silent.consensus(GONE), None);
    assert_eq!((silent.on_overdue(), silent.consensus(GONE)), (Overdue::Silent(Vec::new()), alone));
}

#[test]
fn a_stranger_gathers_a_view_only_if_all_hear_each_other_and_it_wants_none_out() {
    //= M17 test
    //= M16 test
    let asks = |presence: &Presence, from, join: &Proposal| match presence.summons(NOW, &view(), from, join) {
        Summons::Gather(_) => "gather",
        Summons::Unheeded => "unheeded",
        Summons::Unwanted => "unwanted",
        Summons::Late => "late",
    };
    let (all, stranger) = (presence(&[2, 3, 4]), join(&[1, 4], &[]));
    assert_eq!(asks(&all, member(4), &stranger), "gather");
    assert_eq!(asks(&all, member(4), &join(&[1, 4], &[2])), "unheeded");
    assert_eq!(asks(&presence(&[2, 4]), member(4), &stranger), "unheeded", "nobody knows whom node 3 hears");
    let mut kept_out = all.clone();
    kept_out.quarantine.put(NodeId(4), NOW);
    assert_eq!(asks(&kept_out, member(4), &stranger), "unheeded");
    assert_eq!(asks(&all, MemberId::new(3, 11), &join(&[], &[])), "gather", "a later incarnation");
    assert_eq!(asks(&all, member(3), &join(&[3], &[1])), "unwanted");
    assert_eq!(asks(&all, member(3), &Proposal { number: 8, ..join(&[3], &[]) }), "late");
}

#[test]
fn views_merge_once_both_want_it_and_the_lower_one_gathers() {
    //= M51 test
    let mut presence = presence(&[2, 3, 4]);
    let met = presence.meet(NOW, &view());
    assert!(met.news && met.why.is_none(), "the other must want it, too");
    let mut other = presence.heard.get(NodeId(4), NOW).unwrap().clone();
    other.wants = Some(view().id);
    presence.heard.note(other);
    let met = presence.meet(NOW, &view());
    assert_eq!((met.news, met.why.unwrap().add), (false, [member(4)].into()));
    // Whoever gathers takes a settled stranger in that all hear.
    let mut gathering = gathering();
    assert!(gathering.on_beacon(&presence, NOW, member(4)) && gathering.sets.proc.contains(&member(4)));
    assert!(!gathering.on_beacon(&presence, NOW, member(4)), "it is known now");
}
