//! Promises about views: W, CC, and what primary means.
use super::{EvsVerdict, TraceByView};
use consort_types::{MemberId, View, ViewId};
use std::collections::BTreeMap;

pub(super) fn check(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    incarnations.iter().try_for_each(starts_alone_and_grows)?;
    one_id_one_view(incarnations)?;
    moved_together(incarnations)?;
    primary(incarnations)
}

/// W1, W2, W3.
fn starts_alone_and_grows(incarnation: &TraceByView<'_>) -> EvsVerdict {
    let me = incarnation.me;
    if incarnation.stays.first().is_some_and(|stay| stay.view.members != [me]) {
        return Err(format!("W1: {me} does not start alone"));
    }
    for stay in &incarnation.stays {
        let told = std::iter::once(stay.view).chain(stay.transitional);
        for view in told {
            if !view.members.contains(&me) {
                return Err(format!("W2: {me} is told of {:?} {} without itself", view.kind, view.id));
            }
            if !view.members.is_sorted_by(|a, b| a.node < b.node) {
                return Err(format!("W2: {} has two incarnations of a node, or no order: {:?}", view.id, view.members));
            }
        }
        if stay.view.members.first() != Some(&stay.view.id.representative) {
            return Err(format!("W2: {} is not named by its lowest member", stay.view.id));
        }
    }
    match incarnation.stays.is_sorted_by(|a, b| a.view.id.number < b.view.id.number) {
        true => Ok(()),
        false => Err(format!("W3: the numbers of {me}'s views do not increase")),
    }
}

/// W2, W3: a name means the same members to all.
fn one_id_one_view(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    let mut members: BTreeMap<ViewId, &View> = BTreeMap::new();
    for stay in incarnations.iter().flat_map(|incarnation| &incarnation.stays) {
        let first = *members.entry(stay.view.id).or_insert(stay.view);
        if first.members != stay.view.members {
            return Err(format!("W2: {} means {:?} and {:?}", first.id, first.members, stay.view.members));
        }
    }
    Ok(())
}

/// W4: who moved together says so of each other, and came from the same view.
fn moved_together(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    for p in incarnations {
        for pair in p.stays.windows(2) {
            let (from, to) = (&pair[0], &pair[1]);
            let together = from.moved();
            let within = |member: &MemberId| from.view.members.contains(member) && to.view.members.contains(member);
            if !together.iter().all(within) || to.view.moved_together != together {
                return Err(format!("W4: {} tells {together:?} from {} to {}", p.me, from.view.id, to.view.id));
            }
            for q in incarnations {
                agree_on_moving(p, q, (from.view.id, to.view.id), together)?;
            }
        }
    }
    Ok(())
}

fn agree_on_moving(
    p: &TraceByView<'_>,
    q: &TraceByView<'_>,
    (from, to): (ViewId, ViewId),
    together: &[MemberId],
) -> EvsVerdict {
    if q.stay(to).is_none() {
        return Ok(());
    }
    let before = q.before(to);
    let came = before.is_some_and(|before| before.view.id == from);
    let same = before.is_some_and(|before| before.moved() == together);
    match (together.contains(&q.me), came) {
        (true, true) if same => Ok(()),
        (false, false) => Ok(()),
        _ => Err(format!("W4: {} says {together:?} moved from {from} to {to}, {} sees it otherwise", p.me, q.me)),
    }
}

/// A view is primary only once all its members have installed it; two primary views share a node.
fn primary(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    let mut primaries: BTreeMap<ViewId, &View> = BTreeMap::new();
    for stay in incarnations.iter().flat_map(|incarnation| &incarnation.stays).filter(|stay| stay.primary) {
        primaries.insert(stay.view.id, stay.view);
    }
    for view in primaries.values() {
        for q in incarnations.iter().filter(|q| view.members.contains(&q.me) && !q.over) {
            if q.stay(view.id).is_none() {
                return Err(format!("PR: {} is primary, but {} has not installed it", view.id, q.me));
            }
        }
        let nodes = |view: &View| view.members.iter().map(|member| member.node).collect::<Vec<_>>();
        for other in primaries.values() {
            let (a, b) = (nodes(view), nodes(other));
            if !a.iter().any(|node| b.contains(node)) {
                return Err(format!("PR: {} and {} are primary and share nobody", view.id, other.id));
            }
        }
    }
    Ok(())
}

/// W5, CC: at rest all that live are in one view, which is exactly them.
pub(super) fn check_end(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    let mut living: Vec<_> = incarnations.iter().filter(|incarnation| !incarnation.over).collect();
    living.sort_by_key(|incarnation| incarnation.me);
    let members: Vec<_> = living.iter().map(|incarnation| incarnation.me).collect();
    for incarnation in &living {
        let last = incarnation.stays.last().map(|stay| stay.view);
        if last.is_none_or(|view| view.members != members) {
            let seen = last.map(|view| (view.id, &view.members));
            return Err(format!("W5: {members:?} live, but {} is in {seen:?}", incarnation.me));
        }
        let first = living[0].stays.last().map(|stay| stay.view.id);
        if last.map(|view| view.id) != first {
            return Err(format!("W5: {} is in {:?}, others in {first:?}", incarnation.me, last.map(|view| view.id)));
        }
    }
    Ok(())
}
