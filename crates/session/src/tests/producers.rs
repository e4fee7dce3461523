//! Numbered sends: the frames, and what a daemon's end does with multicasts between its answers.
use super::*;
use crate::numbering::{OpenRefusal, OpeningWait, ProducerStatus};
use crate::{OpenRefusalCause, RefusalCause};
use bytes::BytesMut;
use consort_group::OpenRequest;
use consort_group::{HistoryPlace, Numbered, ProducerId};
use consort_types::Position;

const P: ProducerId = ProducerId([9; 16]);

fn place(at: u64) -> HistoryPlace {
    HistoryPlace { view: 4, at: Position(at) }
}

fn first(number: u64) -> Numbered {
    Numbered { producer: P, epoch: place(3), number }
}

/// The numbers of what was asked to be multicast.
fn numbers(pair: &Pair) -> Vec<Option<u64>> {
    let number = |payload: &Payload| match ordered::decode(payload) {
        Ok(Ordered::Multicast { numbered, .. }) => numbered.map(|numbered| numbered.number),
        other => panic!("{other:?}"),
    };
    pair.asks
        .iter()
        .filter_map(|ask| if let Ask::Multicast { payload, .. } = ask { Some(number(payload)) } else { None })
        .collect()
}

fn refusals(events: &[DaemonEvent]) -> Vec<(u64, RefusalCause)> {
    let refused = |event: &DaemonEvent| match event {
        DaemonEvent::Refused { request, refusal } => Some((*request, refusal.cause)),
        _ => None,
    };
    events.iter().filter_map(refused).collect()
}

fn every_status() -> Vec<ProducerStatus> {
    let text = "the table is full; try again later".to_owned();
    vec![
        ProducerStatus::Opened { last: 7, at: place(9), forgotten: false },
        ProducerStatus::Opened { last: 0, at: place(1), forgotten: true },
        ProducerStatus::Waits(OpeningWait::Membership),
        ProducerStatus::Waits(OpeningWait::Primary),
        ProducerStatus::Waits(OpeningWait::Memory),
        ProducerStatus::Refused(OpenRefusal { cause: OpenRefusalCause::Full, text }),
        ProducerStatus::Settled { number: 8, at: place(11) },
        ProducerStatus::Ended,
    ]
}

#[test]
fn every_status_reads_back_and_no_mutation_panics() {
    for status in every_status() {
        let mut frame = BytesMut::new();
        status.put(&mut frame);
        let (kind, body) = (frame[4], frame.freeze().split_off(5));
        assert_eq!(DaemonEvent::decode(kind, body.clone()), Ok(DaemonEvent::Producer(status)));
        for cut in 0..body.len() {
            assert!(DaemonEvent::decode(kind, body.slice(..cut)).is_err(), "{kind:02x} {cut}");
        }
        consort_wire::mutate::each(&body, 500, |bytes| {
            drop(DaemonEvent::decode(kind, Bytes::copy_from_slice(bytes)));
        });
    }
    for (kind, body) in [(0xfe, &[0][..]), (0xfe, &[4]), (0xff, &[9, 0, 0]), (0xf7, &[0])] {
        assert!(DaemonEvent::decode(kind, Bytes::copy_from_slice(body)).is_err(), "{kind:02x}");
    }
}

#[test]
fn multicasts_are_numbered_from_the_answer_on_and_refused_before_it() {
    //= E06 test
    let mut pair = Pair::open(Limits::default());
    pair.multicast(b"plain");
    let request = OpenRequest { producer: P, session: 7, attempt: 3, opened: 2, known: true };
    pair.client.open_producer(&request);
    pair.multicast(b"too soon");
    pair.serve().unwrap();
    assert!(pair.asks.contains(&Ask::Open(request)));
    assert_eq!(refusals(&pair.events()), [(2, RefusalCause::Missing)]);
    pair.session.number(first(5));
    (0..3).for_each(|_| _ = pair.multicast(b"x"));
    pair.serve().unwrap();
    assert_eq!(numbers(&pair), [None, Some(5), Some(6), Some(7)]);
    assert!(pair.session.end_numbering() && !pair.session.end_numbering());
    pair.multicast(b"x");
    pair.serve().unwrap();
    assert_eq!(refusals(&pair.events()), [(6, RefusalCause::Missing)]);
}

#[test]
fn a_batch_takes_a_number_for_each_of_its_messages() {
    let mut pair = Pair::open(Limits::default());
    pair.session.number(first(1));
    let send = |pair: &mut Pair, count: usize| {
        (0..count).for_each(|_| _ = pair.client.multicast(Service::Agreed, &[group("g")], b"alike").unwrap());
        pair.serve().unwrap();
    };
    send(&mut pair, 4);
    send(&mut pair, 1);
    assert_eq!(numbers(&pair), [Some(1), Some(5)]);
    let cost: usize = pair.ordered.iter().map(|(_, cost)| cost).sum();
    assert_eq!(pair.session.outstanding(), cost);
    for (ordered, messages) in [(0, 4), (1, 1)] {
        let payload: Payload = pair.ordered[ordered].0.clone().into();
        pair.session.order_multicasts(messages, ordered::client_len(&payload));
    }
    assert_eq!(pair.session.outstanding(), 0, "all credit is back: the number costs none");
}

#[test]
fn a_multicast_that_is_not_taken_ends_the_numbering() {
    //= E06 test
    let limits = Limits { message_max: 100, ..Limits::default() };
    let mut pair = Pair::new(Limits::default());
    pair.serve().unwrap();
    pair.events();
    pair.limits = limits;
    pair.session.number(first(1));
    pair.multicast(&[0; 101]);
    pair.multicast(b"behind it");
    pair.serve().unwrap();
    assert_eq!(refusals(&pair.events()), [(1, RefusalCause::TooLarge), (2, RefusalCause::Missing)]);
    assert_eq!(numbers(&pair), []);
}

#[test]
fn requests_of_producers_that_are_none_end_the_session() {
    for (kind, body) in
        [(0x0c, vec![0; 32]), (0x0c, [vec![0; 32], vec![4]].concat()), (0x0c, vec![0; 34]), (0x0d, vec![0])]
    {
        let mut pair = Pair::open(Limits::default());
        let mut frame = BytesMut::new();
        frame.extend_from_slice(&(1 + body.len() as u32).to_be_bytes());
        frame.extend_from_slice(&[kind]);
        frame.extend_from_slice(&body);
        pair.session.feed(frame.freeze());
        let end = pair.take().unwrap_err();
        assert_eq!(end.reason, crate::DisconnectReason::Malformed, "{kind:02x} {body:?}");
    }
}
