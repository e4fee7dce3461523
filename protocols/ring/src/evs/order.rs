//! Promises about messages: D, VS, TO, CA, SF, SD.
use super::{EvsMessage, EvsVerdict, TraceByView, ViewStay};
use consort_types::{MemberId, Position, ViewId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    incarnations.iter().try_for_each(once)?;
    incarnations.iter().try_for_each(in_order)?;
    one_place_one_message(incarnations)?;
    virtual_synchrony(incarnations)?;
    no_gaps(incarnations)?;
    causal(incarnations)?;
    safe(incarnations)?;
    one_order(incarnations)
}

fn texts(messages: &[&EvsMessage]) -> Vec<String> {
    messages.iter().map(|message| message.text.chars().take(24).collect()).collect()
}

/// D1: nothing twice, and only from members of the view.
fn once(incarnation: &TraceByView<'_>) -> EvsVerdict {
    let mut seen = BTreeSet::new();
    for stay in &incarnation.stays {
        for message in stay.delivered() {
            if !seen.insert((message.sender, &message.text)) {
                return Err(format!("D1: {} delivers {:?} twice", incarnation.me, message.text));
            }
            if !stay.view.members.contains(&message.sender) {
                return Err(format!(
                    "D1: {} delivers {:?} of a stranger in {}",
                    incarnation.me, message.text, stay.view.id
                ));
            }
        }
    }
    Ok(())
}

/// TO1: places increase while a view holds.
fn in_order(incarnation: &TraceByView<'_>) -> EvsVerdict {
    for stay in &incarnation.stays {
        let positions: Vec<_> = stay.delivered().map(|message| message.position).collect();
        if !positions.is_sorted_by(|a, b| a < b) {
            return Err(format!("TO1: {} delivers out of order in {}: {positions:?}", incarnation.me, stay.view.id));
        }
    }
    Ok(())
}

fn all_stays<'a>(incarnations: &'a [TraceByView<'a>]) -> impl Iterator<Item = (MemberId, &'a ViewStay<'a>)> {
    incarnations.iter().flat_map(|incarnation| incarnation.stays.iter().map(|stay| (incarnation.me, stay)))
}

/// TO1: a place means one message, and a message one place, whoever delivers it.
fn one_place_one_message(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    let mut at: BTreeMap<(ViewId, Position), &EvsMessage> = BTreeMap::new();
    let mut places: BTreeMap<(MemberId, &str), (ViewId, Position)> = BTreeMap::new();
    for (me, stay) in all_stays(incarnations) {
        for message in stay.delivered() {
            let place = (stay.view.id, message.position);
            let first = *at.entry(place).or_insert(message);
            if first != message {
                return Err(format!("TO1: {place:?} is {:?}, at {me} {:?}", first.text, message.text));
            }
            let known = *places.entry((message.sender, &message.text)).or_insert(place);
            if known != place {
                return Err(format!("TO1: {:?} stands at {known:?}, at {me} at {place:?}", message.text));
            }
        }
    }
    Ok(())
}

/// VS: who went together from one view to the next delivered the same in both its parts.
fn virtual_synchrony(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    for p in incarnations {
        for (pair, q) in p.stays.windows(2).flat_map(|pair| incarnations.iter().map(move |q| (pair, q))) {
            let (mine, Some(theirs)) = (&pair[0], q.before(pair[1].view.id)) else { continue };
            if mine.view.id != theirs.view.id {
                continue;
            }
            for (a, b, part) in [(&mine.regular, &theirs.regular, "in"), (&mine.after, &theirs.after, "after")] {
                if a != b {
                    let (a, b, view) = (texts(a), texts(b), mine.view.id);
                    return Err(format!("VS: {part} {view} {} delivers {a:?}, {} {b:?}", p.me, q.me));
                }
            }
        }
    }
    Ok(())
}

/// All messages of a view that anybody delivered.
fn known<'a>(incarnations: &'a [TraceByView<'a>]) -> BTreeMap<ViewId, BTreeMap<Position, &'a EvsMessage>> {
    let mut known: BTreeMap<ViewId, BTreeMap<Position, &EvsMessage>> = BTreeMap::new();
    for (_, stay) in all_stays(incarnations) {
        known.entry(stay.view.id).or_default().extend(stay.delivered().map(|message| (message.position, message)));
    }
    known
}

/// TO2, TO3: no gaps in the view itself; afterwards only messages of those that did not move along may be missing.
fn no_gaps(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    let known = known(incarnations);
    for (me, stay) in all_stays(incarnations) {
        let Some(last) = stay.delivered().last() else { continue };
        let mine: BTreeSet<_> = stay.delivered().map(|message| message.position).collect();
        let in_view = stay.regular.last().map(|message| message.position);
        for (position, missing) in known[&stay.view.id].range(..last.position) {
            if mine.contains(position) {
                continue;
            }
            if Some(*position) < in_view {
                return Err(format!("TO2: {me} leaves {:?} out in {}", missing.text, stay.view.id));
            }
            if stay.moved().contains(&missing.sender) {
                return Err(format!("TO3: {me} leaves {:?} out after {}", missing.text, stay.view.id));
            }
        }
    }
    Ok(())
}

/// CA: what the sender of a message had delivered before it numbered it, comes before it everywhere.
fn causal(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    for (me, mine) in all_stays(incarnations) {
        for q in incarnations.iter().filter(|q| q.me != me) {
            let Some(theirs) = q.stay(mine.view.id) else { continue };
            let own: BTreeSet<_> = mine.delivered().map(|message| message.position).collect();
            let Some((lacks, lacked)) = theirs.delivered().enumerate().find(|(_, m)| !own.contains(&m.position)) else {
                continue;
            };
            let knew: BTreeMap<_, _> = theirs.numbered.iter().copied().collect();
            let effect = mine
                .delivered()
                .filter(|message| message.sender == q.me && message.position > lacked.position)
                .find(|message| knew.get(&message.seq()).is_some_and(|delivered| *delivered > lacks));
            if let Some(effect) = effect {
                return Err(format!("CA: {me} delivers {:?} without {:?}", effect.text, lacked.text));
            }
        }
    }
    Ok(())
}

/// SF1, SF2, SF3: what one delivers as safe, all deliver that it is safe for.
fn safe(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    for (me, stay) in all_stays(incarnations) {
        for (part, scope, rule) in [(&stay.regular, &stay.view.members[..], "SF1"), (&stay.after, stay.moved(), "SF3")]
        {
            let Some(message) = part.iter().rfind(|message| message.safe) else { continue };
            for q in incarnations.iter().filter(|q| scope.contains(&q.me)) {
                let theirs = q.stay(stay.view.id);
                if theirs.is_none() && !q.over && rule == "SF1" {
                    let view = stay.view.id;
                    return Err(format!(
                        "SF2: {me} delivers {:?} as safe in {view}, {} is not in it",
                        message.text, q.me
                    ));
                }
                if let Some(theirs) = theirs {
                    all_safe_delivered(me, part, (q.me, theirs), rule)?;
                }
            }
        }
    }
    Ok(())
}

fn all_safe_delivered(
    me: MemberId,
    part: &[&EvsMessage],
    (q, theirs): (MemberId, &ViewStay<'_>),
    rule: &str,
) -> EvsVerdict {
    if !theirs.continues {
        return Ok(());
    }
    let delivered: BTreeSet<_> = theirs.delivered().map(|message| message.position).collect();
    match part.iter().find(|message| message.safe && !delivered.contains(&message.position)) {
        None => Ok(()),
        Some(message) => Err(format!("{rule}: {me} delivers {:?} as safe, {q} went on without it", message.text)),
    }
}

/// TO (K11): "delivered before" has no rotation, over all members and all views.
fn one_order(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    type Key = (ViewId, Position);
    let mut after: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    let mut waits: BTreeMap<Key, usize> = BTreeMap::new();
    for incarnation in incarnations {
        let keys =
            incarnation.stays.iter().flat_map(|stay| stay.delivered().map(|message| (stay.view.id, message.position)));
        let keys: Vec<_> = keys.collect();
        for key in &keys {
            waits.entry(*key).or_default();
        }
        for pair in keys.windows(2) {
            if after.entry(pair[0]).or_default().insert(pair[1]) {
                *waits.entry(pair[1]).or_default() += 1;
            }
        }
    }
    let mut free: Vec<Key> = waits.iter().filter(|(_, n)| **n == 0).map(|(key, _)| *key).collect();
    let mut done = 0;
    while let Some(key) = free.pop() {
        done += 1;
        for next in after.get(&key).into_iter().flatten() {
            let n = waits.entry(*next).or_default();
            *n -= 1;
            if *n == 0 {
                free.push(*next);
            }
        }
    }
    if done == waits.len() { Ok(()) } else { Err("TO: the order of deliveries has a rotation".into()) }
}

/// SD: at rest, whoever lives has delivered all it accepted.
pub(super) fn check_end(incarnations: &[TraceByView<'_>]) -> EvsVerdict {
    for incarnation in incarnations.iter().filter(|incarnation| !incarnation.over) {
        let own =
            incarnation.stays.iter().flat_map(ViewStay::delivered).filter(|message| message.sender == incarnation.me);
        let own: BTreeSet<_> = own.map(|message| message.text.as_str()).collect();
        if let Some(lost) = incarnation.accepted.iter().find(|text| !own.contains(*text)) {
            return Err(format!("SD: {} accepted {lost:?} and never delivered it", incarnation.me));
        }
    }
    Ok(())
}
