//! Messages that stand in the order as one.
use super::*;
use crate::request::multicast_len;
use crate::{Progress, Refusal, RefusalCause};
use consort_group::batch;

/// What the daemon is asked after a client has sent these to `g`, agreed.
fn asked(pair: &mut Pair, messages: &[&[u8]]) -> Ask {
    messages.iter().for_each(|message| send(pair, message));
    let bytes = pair.client.take_output();
    pair.session.feed(bytes);
    next(pair)
}

fn send(pair: &mut Pair, message: &[u8]) {
    pair.client.multicast(Service::Agreed, &[group("g")], message).unwrap();
}

fn next(pair: &mut Pair) -> Ask {
    pair.session.next(&pair.limits).unwrap().unwrap()
}

fn payload_of(ask: &Ask) -> &Payload {
    let Ask::Multicast { service: Service::Agreed, payload } = ask else { panic!("{ask:?}") };
    payload
}

/// How many messages it asks to be ordered together.
fn together(ask: &Ask) -> usize {
    let payload = payload_of(ask);
    let told = told_of(payload);
    if told.batch { batch::check(payload, told.body_at(), 4).unwrap() } else { 1 }
}

#[test]
fn messages_that_are_alike_are_ordered_and_told_as_one() {
    //= G09 test
    let mut pair = Pair::open(Limits::default());
    let ask = asked(&mut pair, &[b"one", b"", b"three"]);
    assert_eq!(together(&ask), 3);
    assert_eq!(pair.session.accept(), 3);
    let cost = |len| multicast_len(&[group("g")], len);
    assert_eq!(pair.session.outstanding(), cost(3) + cost(0) + cost(5));
    let payload = payload_of(&ask);
    assert_eq!(pair.session.order_multicasts(3, payload.len()), 1);
    assert_eq!(pair.session.outstanding(), 0);
    pair.session.tell_message(NodeId(1), Service::Agreed, payload, &told_of(payload));
    pair.session.tell_progress();
    let events = pair.events();
    let [
        DaemonEvent::Message(one),
        DaemonEvent::Message(two),
        DaemonEvent::Message(three),
        DaemonEvent::Progress(progress),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!([one.payload(), two.payload(), three.payload()], [&b"one"[..], b"", b"three"]);
    for message in [one, two, three] {
        assert_eq!((message.sender_name(), message.sender()), ("c7", (NodeId(1), ClientId(7))));
        assert_eq!((message.service(), message.groups().collect::<Vec<_>>()), (Service::Agreed, vec!["g"]));
    }
    assert_eq!(three.clone().into_payload(), b"three"[..]);
    let credit = (cost(3) + cost(0) + cost(5)) as u64;
    assert_eq!(*progress, Progress { accepted: 3, ordered: 3, credit });
}

#[test]
fn what_differs_in_service_or_targets_or_is_of_another_kind_ends_a_batch() {
    //= G09 test
    let mut pair = Pair::open(Limits::default());
    let (g, h) = ([group("g")], [group("h")]);
    for (service, to) in [
        (Service::Agreed, &g),
        (Service::Agreed, &g),
        (Service::Safe, &g),
        (Service::Agreed, &h),
        (Service::Agreed, &h),
    ] {
        pair.client.multicast(service, to, b"x").unwrap();
    }
    pair.client.join(&g[0]).unwrap();
    pair.client.multicast(Service::Agreed, &[group("h"), group("g")], b"x").unwrap();
    let bytes = pair.client.take_output();
    pair.session.feed(bytes);
    let mut accepted = Vec::new();
    while pair.session.next(&pair.limits).unwrap().is_some() {
        accepted.push(pair.session.accept());
    }
    assert_eq!(accepted, [2, 1, 2, 1, 1]);
}

#[test]
fn a_batch_ends_where_a_piece_of_the_stream_or_the_credit_or_its_size_does() {
    let mut pair = Pair::open(Limits::default());
    let messages: Vec<_> = (0..40).map(|_| vec![7; 1_000]).collect();
    let messages: Vec<_> = messages.iter().map(Vec::as_slice).collect();
    let ask = asked(&mut pair, &messages);
    assert_eq!(together(&ask), 16, "what fits into 16 KiB");
    pair.limits.batch_max = 0;
    assert_eq!(together(&next(&mut pair)), 1);
    pair.limits = Limits { message_max: 5_100, ..Limits::default() };
    assert_eq!(together(&next(&mut pair)), 5, "a batch is no larger than a message may be");
    pair.limits.credit = 2_500;
    assert_eq!(together(&next(&mut pair)), 2, "asked again with less credit");
    assert_eq!(pair.session.accept(), 2);
    pair.session.order(2 * multicast_len(&[group("g")], 1_000));
    let cut = pair.session.input_held();
    assert_eq!(cut, 38 * 1_009);
    let mut pair = Pair::open(Limits::default());
    messages[..3].iter().for_each(|message| send(&mut pair, message));
    let bytes = pair.client.take_output();
    pair.session.feed(bytes.slice(..2_500));
    pair.session.feed(bytes.slice(2_500..));
    assert_eq!(together(&next(&mut pair)), 2);
    pair.session.accept();
    assert_eq!(together(&next(&mut pair)), 1);
}

#[test]
fn a_batch_that_is_refused_is_refused_message_by_message() {
    let mut pair = Pair::open(Limits::default());
    asked(&mut pair, &[b"one", b"two"]);
    pair.session.refuse(&Refusal::new(RefusalCause::Leaving, "leaving"));
    assert_eq!((pair.session.refused(), pair.session.outstanding()), (2, 0));
    pair.session.tell_progress();
    let events = pair.events();
    assert!(matches!(
        &events[..],
        [DaemonEvent::Refused { request: 1, .. }, DaemonEvent::Refused { request: 2, .. }, DaemonEvent::Progress(progress)]
            if progress.ordered == 2 && progress.credit == 2 * multicast_len(&[group("g")], 3) as u64
    ));
}

#[test]
fn no_mutation_of_a_batch_panics() {
    let mut pair = Pair::open(Limits::default());
    let ask = asked(&mut pair, &[b"one", b"two"]);
    let payload = payload_of(&ask);
    pair.session.tell_message(NodeId(1), Service::Agreed, payload, &told_of(payload));
    let good = Bytes::copy_from_slice(pair.session.output().front());
    consort_wire::mutate::each(&good, 5_000, |bytes| {
        let mut client = ClientEnd::new(&crate::Hello::default());
        client.feed(Bytes::copy_from_slice(bytes));
        while let Ok(Some(event)) = client.next_event() {
            if let DaemonEvent::Message(message) = event {
                assert!(message.payload().len() <= bytes.len() && !message.sender_name().is_empty());
            }
        }
    });
}
