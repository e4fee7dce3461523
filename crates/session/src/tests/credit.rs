//! Numbers, progress and budgets.
use super::*;
use crate::client::{NotSent, unknown_fate};
use crate::{Progress, RefusalCause, request};

fn tight() -> Limits {
    Limits { credit: 100, message_max: 1_000, groups_max: 3, ..Limits::default() }
}

/// The bytes of a multicast to `g` around its payload.
fn overhead() -> usize {
    request::multicast_len(&[group("g")], 0)
}

#[test]
fn credit_comes_back_when_a_request_is_ordered_and_not_before() {
    let mut pair = Pair::open(tight());
    pair.multicast(&[0; 40]);
    pair.multicast(&[0; 20]);
    let cost = overhead() + 60;
    assert_eq!(pair.client.free(), 100 - cost - overhead());
    let refused = pair.client.multicast(Service::Agreed, &[group("g")], &[0; 40]);
    assert_eq!(refused, Err(NotSent::Credit { needs: overhead() + 40, free: 100 - cost - overhead() }));
    pair.serve().unwrap();
    assert_eq!(pair.events(), [], "nothing is ordered yet");
    assert_eq!(pair.order(), 1);
    let credit = (overhead() + 40) as u64;
    assert_eq!(pair.events(), [DaemonEvent::Progress(Progress { accepted: 2, ordered: 1, credit })]);
    assert_eq!(pair.multicast(&[0; 40]), 3);
}

#[test]
fn progress_is_told_once_however_much_was_ordered() {
    let mut pair = Pair::open(tight());
    (1..=5).for_each(|number| assert_eq!(pair.multicast(b"x"), number));
    pair.serve().unwrap();
    (1..=5).for_each(|number| assert_eq!(pair.order(), number));
    assert!(pair.session.progress_is_due());
    let events = pair.events();
    assert!(matches!(events[..], [DaemonEvent::Progress(Progress { accepted: 5, ordered: 5, .. })]), "{events:?}");
    assert_eq!(pair.events(), []);
}

#[test]
fn a_message_larger_than_all_credit_goes_alone() {
    let mut pair = Pair::open(tight());
    pair.multicast(&[0; 900]);
    let next = pair.client.multicast(Service::Agreed, &[group("g")], b"");
    assert_eq!(next, Err(NotSent::Credit { needs: overhead(), free: 0 }));
    pair.serve().unwrap();
    pair.order();
    pair.events();
    assert_eq!(pair.client.free(), 100);
    pair.multicast(b"x");
    assert!(pair.client.multicast(Service::Agreed, &[group("g")], &[0; 900]).is_err(), "not beside another");
}

#[test]
fn a_client_that_overruns_its_credit_is_refused_that_message_and_no_other() {
    let mut pair = Pair::open(tight());
    let mut greedy = bytes::BytesMut::new();
    (0..3).for_each(|_| request::put_multicast(&mut greedy, Service::Agreed, &[group("g")], &[0; 50]));
    request::put_join(&mut greedy, &group("g"), false);
    pair.session.feed(greedy.freeze());
    pair.take().unwrap();
    assert_eq!(pair.ordered.len(), 2, "the first multicast and the join");
    pair.order();
    pair.order();
    let events = pair.events();
    let [
        DaemonEvent::Refused { request: 2, refusal },
        DaemonEvent::Refused { request: 3, .. },
        DaemonEvent::Progress(progress),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((refusal.cause, progress.accepted, progress.ordered), (RefusalCause::Budget, 4, 4));
}

#[test]
fn what_is_too_large_is_refused_at_both_ends() {
    let mut pair = Pair::open(tight());
    let too_large = pair.client.multicast(Service::Agreed, &[group("g")], &[0; 1_001]);
    assert_eq!(too_large, Err(NotSent::TooLarge { len: 1_001, max: 1_000 }));
    let many = vec![group("g"); 4];
    let targets = pair.client.multicast(Service::Agreed, &many, b"");
    assert_eq!(targets, Err(NotSent::Targets { count: 4, max: 3 }));
    assert_eq!(
        pair.client.multicast(Service::Agreed, &[] as &[GroupName], b""),
        Err(NotSent::Targets { count: 0, max: 3 })
    );
    let mut raw = bytes::BytesMut::new();
    request::put_multicast(&mut raw, Service::Agreed, &[group("g")], &[0; 1_001]);
    request::put_multicast(&mut raw, Service::Agreed, &many, b"");
    pair.session.feed(raw.freeze());
    pair.take().unwrap();
    let causes = pair.events().into_iter().filter_map(|event| match event {
        DaemonEvent::Refused { refusal, .. } => Some(refusal.cause),
        _ => None,
    });
    assert_eq!(causes.collect::<Vec<_>>(), [RefusalCause::TooLarge, RefusalCause::TooManyTargets]);
    assert!(pair.ordered.is_empty());
}

#[test]
fn nothing_is_sent_before_the_welcome() {
    let mut client = ClientEnd::new(&Hello::default());
    assert_eq!(client.join(&group("g")), Err(NotSent::NotOpen));
    assert_eq!(client.free(), 0);
}

#[test]
fn the_unknown_fate_is_what_was_sent_and_not_told_to_be_ordered() {
    let known = Progress { accepted: 9, ordered: 7, credit: 0 };
    assert_eq!(unknown_fate(10, known), 8..11);
    assert!(unknown_fate(7, known).is_empty());
}
