//! Each promise, kept and then broken by hand: a checker that cannot fail proves nothing.
use super::*;
use consort_types::{Primary, ViewCause};

fn member(node: u16) -> MemberId {
    MemberId::new(node, 1)
}

fn members(nodes: &[u16]) -> Vec<MemberId> {
    nodes.iter().copied().map(member).collect()
}

fn view(kind: ViewKind, number: u64, nodes: &[u16], together: &[u16]) -> EvsEvent {
    let id = ViewId { number, representative: member(nodes[0]) };
    let (members, moved_together) = (members(nodes), members(together));
    let (primary, cause, evidence) = (Primary::No, ViewCause::Started, Vec::new());
    EvsEvent::Installed(View { id, kind, members, moved_together, primary, cause, evidence, missed_primary: false })
}

fn regular(number: u64, nodes: &[u16], together: &[u16]) -> EvsEvent {
    view(ViewKind::Regular, number, nodes, together)
}

/// Closes the view `number` of `first`.
fn closing(number: u64, first: u16, nodes: &[u16]) -> EvsEvent {
    let EvsEvent::Installed(mut view) = view(ViewKind::Transitional, number, nodes, nodes) else { unreachable!() };
    view.id.representative = member(first);
    EvsEvent::Installed(view)
}

fn message(seq: u64, sender: u16, safe: bool) -> EvsEvent {
    let text = format!("{seq} of {sender}");
    EvsEvent::Delivered(EvsMessage { position: Position(seq << 16), sender: member(sender), safe, text })
}

fn agreed(seq: u64, sender: u16) -> EvsEvent {
    message(seq, sender, false)
}

fn safe(seq: u64, sender: u16) -> EvsEvent {
    message(seq, sender, true)
}

/// Three nodes that come into view 10 together, and what each is told from then on.
fn world(told: [Vec<EvsEvent>; 3]) -> Vec<EvsTrace> {
    let incarnation = |(i, told): (usize, Vec<EvsEvent>)| {
        let me = i as u16 + 1;
        let mut events = vec![regular(u64::from(me), &[me], &[me]), closing(u64::from(me), me, &[me])];
        events.push(regular(10, &[1, 2, 3], &[me]));
        events.extend(told);
        EvsTrace { me: member(me), over: false, events }
    };
    told.into_iter().enumerate().map(incarnation).collect()
}

/// Node 3 is lost; the other two go on together into view 20, with something before and after the closing of view 10.
fn split(first: [Vec<EvsEvent>; 2], after: [Vec<EvsEvent>; 2], third: Vec<EvsEvent>) -> Vec<EvsTrace> {
    let [(a, b), (c, d)] = {
        let [a, c] = first;
        let [b, d] = after;
        [(a, b), (c, d)]
    };
    let told = |before: Vec<EvsEvent>, after: Vec<EvsEvent>| {
        let mut told = before;
        told.push(closing(10, 1, &[1, 2]));
        told.extend(after);
        told.push(regular(20, &[1, 2], &[1, 2]));
        told
    };
    let mut traces = world([told(a, b), told(c, d), third]);
    traces[2].over = true;
    traces
}

fn broken(traces: &[EvsTrace]) -> String {
    check(traces).unwrap_err().chars().take_while(|c| *c != ':').collect()
}

#[test]
fn kept_promises_pass() {
    let all = || vec![agreed(1, 1), safe(2, 2)];
    let traces =
        split([all(), all()], [vec![agreed(4, 2)], vec![agreed(4, 2)]], vec![agreed(1, 1), safe(2, 2), agreed(3, 3)]);
    assert_eq!(check(&traces), Ok(()));
    assert_eq!(check_end(&traces), Ok(()));
}

#[test]
fn broken_views_are_found() {
    let nothing = || [vec![], vec![], vec![]];
    let mut traces = world(nothing());
    traces[0].events.remove(0);
    assert_eq!(broken(&traces), "W1", "does not start with a view of its own");
    let mut traces = world(nothing());
    traces[0].events.remove(1);
    assert_eq!(broken(&traces), "W1", "no transitional view between two regular ones");
    let mut traces = world(nothing());
    traces[1].events[2] = regular(10, &[1, 2], &[2]);
    assert_eq!(broken(&traces), "W2", "one name, two sets of members");
    let back = vec![closing(10, 1, &[1, 2, 3]), regular(9, &[1, 2, 3], &[1, 2, 3])];
    assert_eq!(broken(&world([back.clone(), back.clone(), back])), "W3");
    let mut traces = split([vec![], vec![]], [vec![], vec![]], vec![]);
    traces[1].events[3] = closing(10, 1, &[2]);
    assert_eq!(broken(&traces), "W4", "one says they moved together, the other does not");
}

#[test]
fn broken_orders_are_found() {
    let one = |told| world([told, vec![], vec![]]);
    assert_eq!(broken(&one(vec![agreed(1, 1), closing(10, 1, &[1]), agreed(1, 1)])), "D1");
    assert_eq!(broken(&one(vec![agreed(1, 9)])), "D1", "a stranger's message");
    assert_eq!(broken(&one(vec![agreed(2, 1), agreed(1, 1)])), "TO1");
    assert_eq!(broken(&world([vec![agreed(1, 1)], vec![agreed(1, 2)], vec![]])), "TO1", "one place, two messages");
    assert_eq!(broken(&world([vec![agreed(1, 1), agreed(2, 1)], vec![agreed(2, 1)], vec![]])), "TO2");
    let numbered = EvsEvent::Numbered(ViewId { number: 9, representative: member(1) }, Seq(1));
    assert_eq!(broken(&one(vec![numbered])), "D3", "numbered for another view than the one it is in");
    let gap = vec![closing(10, 1, &[1, 2]), agreed(2, 3)];
    assert_eq!(broken(&world([gap, vec![agreed(1, 2)], vec![]])), "TO3", "node 2 moves along, its message is left out");
}

#[test]
fn broken_virtual_synchrony_is_found() {
    let traces = split([vec![agreed(1, 1)], vec![]], [vec![], vec![agreed(1, 1)]], vec![]);
    assert_eq!(broken(&traces), "VS", "the same messages, but on different sides of the closing view");
    let traces = split([vec![], vec![]], [vec![agreed(1, 1)], vec![]], vec![]);
    assert_eq!(broken(&traces), "VS");
}

#[test]
fn broken_safety_is_found() {
    // Node 1 delivers it as safe in view 10; node 2 goes on without it, by itself.
    let first = vec![safe(1, 1), closing(10, 1, &[1]), regular(30, &[1], &[1])];
    let second = vec![closing(10, 1, &[2]), regular(20, &[2], &[2])];
    assert_eq!(broken(&world([first, second, vec![]])), "SF1");
    let mut traces = world([vec![safe(1, 1)], vec![safe(1, 1)], vec![]]);
    traces[2].events.truncate(1);
    assert_eq!(broken(&traces), "SF2", "node 3 has not even installed the view");
    // In the closing view it is safe for those that move along: node 2 is one of them, but went another way without it.
    let first = vec![closing(10, 1, &[1, 2]), safe(1, 3)];
    let second = vec![closing(10, 1, &[2]), regular(20, &[2], &[2])];
    assert_eq!(broken(&world([first, second, vec![]])), "SF3");
}

#[test]
fn broken_causality_is_found() {
    let ring = ViewId { number: 10, representative: member(1) };
    let effect = |knows| {
        let mut told = vec![agreed(1, 3)];
        told.insert(usize::from(knows), EvsEvent::Numbered(ring, Seq(2)));
        told.push(agreed(2, 2));
        told
    };
    let lacks = || vec![closing(10, 1, &[1]), agreed(2, 2)];
    assert_eq!(broken(&world([lacks(), effect(true), vec![]])), "CA", "node 2 knew the message that is left out");
    assert_eq!(check(&world([lacks(), effect(false), vec![]])), Ok(()), "it did not");
}

#[test]
fn what_is_owed_at_the_end_is_found() {
    let mut traces = world([vec![], vec![], vec![]]);
    traces[1].events.push(EvsEvent::Accepted("lost".into()));
    assert!(check(&traces).is_ok());
    assert!(check_end(&traces).unwrap_err().starts_with("SD"));
    let mut traces = world([vec![], vec![], vec![]]);
    traces[2].over = true;
    assert!(check_end(&traces).unwrap_err().starts_with("W5"), "the view still holds a node that is gone");
}

#[test]
fn primary_views_that_are_told_too_early_or_twice_are_found() {
    let ring = ViewId { number: 10, representative: member(1) };
    let mut traces = world([vec![EvsEvent::Primary(ring)], vec![], vec![]]);
    assert_eq!(check(&traces), Ok(()));
    traces[2].events.truncate(1);
    assert_eq!(broken(&traces), "PR", "node 3 has not installed it");
    let alone = |node: u16, number| {
        let id = ViewId { number, representative: member(node) };
        vec![closing(10, 1, &[node]), regular(number, &[node], &[node]), EvsEvent::Primary(id)]
    };
    assert_eq!(broken(&world([alone(1, 20), alone(2, 21), vec![]])), "PR", "two that share nobody");
}
