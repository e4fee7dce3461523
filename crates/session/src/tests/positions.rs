//! Messages that say where they stand, and reading by position.
use super::*;
use crate::event::ToldAs;
use crate::frame::{self, HEAD_LEN};
use crate::reading::{self, ReadRequest, ReadingEnd, ReadingStatus};
use crate::{Place, ReadingEndCause, ViewClosing, ViewPlace, ViewTrail};
use bytes::{BufMut, BytesMut};
use consort_group::ClientName;
use consort_types::{Position, ViewId};

const MESSAGE: &[u8] = b"\0\x01\x01gtea";
const BATCH: &[u8] = b"\0\0\0\x07\x14\0\x01\x01gab\0\0\0\x05\x14\0\x01\x01g\0\0\0\x06\x14\0\x01\x01gc";

fn bob() -> ClientName {
    ClientName::new(b"bob").unwrap()
}

fn message() -> Payload {
    [ordered::multicast_prefix(ClientId(9), &bob()), Bytes::from_static(MESSAGE)].into_iter().collect()
}

fn batch() -> Payload {
    [ordered::batch_prefix(ClientId(9), &bob()), Bytes::from_static(BATCH)].into_iter().collect()
}

fn tell(pair: &mut Pair, sender: MemberId, payload: &Payload, told_as: ToldAs) {
    pair.session.tell_placed(sender, Service::Agreed, payload, &told_of(payload), told_as);
}

fn with_positions() -> Pair {
    let mut pair = Pair::new(Limits::default());
    pair.client = ClientEnd::new(&Hello { wants_positions: true, ..Hello::default() });
    pair.serve().unwrap();
    pair.events();
    assert!(pair.session.wants_positions());
    pair
}

/// Every frame that has to do with positions.
fn every_frame() -> Vec<Bytes> {
    let mut pair = with_positions();
    let place = Place { position: 1 << 40, index: 0 };
    let mut frames = Vec::new();
    for payload in [message(), batch()] {
        for told_as in [ToldAs::Member(place), ToldAs::Reader(place)] {
            tell(&mut pair, MemberId::new(3, 70), &payload, told_as);
        }
    }
    let mut bytes: Bytes = pair.session.output().pieces().flatten().copied().collect();
    let mut out = BytesMut::new();
    every_reading().iter().for_each(|reading| reading.put(&mut out));
    for mut bytes in [std::mem::take(&mut bytes), out.freeze()] {
        while !bytes.is_empty() {
            frames.push(bytes.split_to(frame::len_of(&bytes)));
        }
    }
    frames
}

fn every_reading() -> [ReadingStatus; 10] {
    let view = ViewId { number: 1 << 50, representative: MemberId::new(2, 99) };
    let [place, later] = [3, 4].map(|at| ViewPlace { view, at: Position(at << 40), index: 5 });
    let closing = Some(ViewClosing { line: Position(8), together: 1 << 60 });
    let parted = |common| {
        ReadingStatus::Ended(ReadingEnd {
            cause: ReadingEndCause::Parted,
            oldest: 0,
            newest: 0,
            text: "b".into(),
            common,
        })
    };
    [
        ReadingStatus::InView { view, line: Position(7), closing: None },
        ReadingStatus::InView { view, line: Position(7), closing },
        ReadingStatus::Gap { from: place, to: later, closing },
        parted(None),
        parted(Some(place)),
        ReadingStatus::Ended(ReadingEnd {
            cause: ReadingEndCause::Ended,
            oldest: 1,
            newest: 2,
            text: String::new(),
            common: None,
        }),
        ReadingStatus::Began { order: 7, from: Place { position: 3, index: 4 }, oldest: 1, newest: 9 },
        ReadingStatus::CaughtUp { position: 9 },
        ReadingStatus::Lost { from: 2, to: 5 },
        ReadingStatus::Ended(ReadingEnd {
            cause: ReadingEndCause::Trimmed,
            oldest: 3,
            newest: 9,
            text: "ä".into(),
            common: None,
        }),
    ]
}

#[test]
fn a_message_says_where_it_stands_and_who_sent_it() {
    let mut pair = with_positions();
    let (one, two) = (MemberId::new(3, 70), MemberId::new(3, 71));
    let places = [Place::at(4), Place::at(5), Place::at(6)];
    tell(&mut pair, one, &message(), ToldAs::Member(places[0]));
    tell(&mut pair, one, &message(), ToldAs::Member(places[1]));
    tell(&mut pair, two, &message(), ToldAs::Reader(places[2]));
    let events = pair.events();
    let [DaemonEvent::Message(first), DaemonEvent::Message(second), DaemonEvent::Read(third)] = &events[..] else {
        panic!("{events:?}")
    };
    for (message, position, daemon) in [(first, 4, one), (second, 5, one), (third, 6, two)] {
        assert_eq!((message.position(), message.sender_daemon()), (Some(position), Some(daemon)));
        assert_eq!(
            (message.sender(), message.sender_name(), message.payload()),
            ((NodeId(3), ClientId(9)), "bob", &b"tea"[..])
        );
        assert_eq!(message.placement().unwrap().next, Place::at(position + 1));
        assert_eq!(message.borrowed().to_kept(), *message);
    }
    assert!(!first.is_read() && third.is_read());
}

#[test]
fn it_costs_eight_bytes_a_message_and_an_incarnation_once() {
    let mut pair = with_positions();
    let sender = MemberId::new(3, 70);
    tell(&mut pair, sender, &message(), ToldAs::Member(Place::at(1)));
    let told = |pair: &Pair| pair.session.output().len();
    let first = told(&pair);
    tell(&mut pair, sender, &message(), ToldAs::Member(Place::at(2)));
    let second = told(&pair) - first;
    pair.session.tell_message(NodeId(3), Service::Agreed, &message(), &told_of(&message()));
    assert_eq!(second, told(&pair) - first - second + 8);
    assert_eq!(first - second, HEAD_LEN + 10);
}

#[test]
fn messages_of_a_batch_have_one_position_and_are_counted() {
    //= G09 test
    let mut pair = with_positions();
    tell(&mut pair, MemberId::new(3, 70), &batch(), ToldAs::Member(Place::at(8)));
    tell(&mut pair, MemberId::new(3, 70), &batch(), ToldAs::Reader(Place { position: 9, index: 5 }));
    let events = pair.events();
    let placement = |event: &DaemonEvent| match event {
        DaemonEvent::Message(message) if !message.is_read() => message.placement().unwrap(),
        DaemonEvent::Read(message) if message.is_read() => message.placement().unwrap(),
        other => panic!("{other:?}"),
    };
    let found: Vec<_> = events.iter().map(|event| (placement(event).place, placement(event).next)).collect();
    let at = |position, index| Place { position, index };
    assert_eq!(found[..3], [(at(8, 0), at(8, 1)), (at(8, 1), at(8, 2)), (at(8, 2), at(9, 0))]);
    assert_eq!(found[3..], [(at(9, 5), at(9, 6)), (at(9, 6), at(9, 7)), (at(9, 7), at(10, 0))]);
    assert!(events.iter().all(|event| placement(event).incarnation.is_some()));
}

#[test]
fn a_large_message_says_so_where_it_lies() {
    let large = Bytes::from(vec![7; 8 << 10]);
    let payload: Payload = [ordered::multicast_prefix(ClientId(9), &bob()), Bytes::from_static(b"\0\x01\x01g"), large]
        .into_iter()
        .collect();
    let told_as = ToldAs::Member(Place::at(12));
    let frame = crate::event::placed(NodeId(3), Service::Safe, &payload, &told_of(&payload), told_as);
    let Ok(crate::event::InPlace::Message(message, len)) = crate::event::look(&frame) else { panic!("no message") };
    assert_eq!((len, message.position(), message.payload().len()), (frame.len(), Some(12), 8 << 10));
    consort_wire::mutate::each(&frame, 2_000, |bytes| drop(crate::event::look(bytes)));
}

#[test]
fn every_word_of_a_reading_reads_back() {
    let mut pair = Pair::open(Limits::default());
    let mut out = BytesMut::new();
    every_reading().iter().for_each(|reading| reading.put(&mut out));
    pair.session.tell(&out);
    let told: Vec<_> = every_reading().into_iter().map(DaemonEvent::Reading).collect();
    assert_eq!(pair.events(), told);
}

#[test]
fn a_request_to_read_reads_back_and_no_mutation_panics() {
    let groups = [group("orders"), group("g")];
    let mut out = BytesMut::new();
    reading::put_read(&mut out, 5, Place { position: 1 << 33, index: 7 }, &groups);
    let mut pair = Pair::open(Limits::default());
    pair.client.read(5, Place { position: 1 << 33, index: 7 }, &groups);
    pair.client.read(0, Place::default(), &[]);
    pair.serve().unwrap();
    let names = vec![b"orders".to_vec(), b"g".to_vec()];
    let meant = ReadRequest { order: 5, from: Place { position: 1 << 33, index: 7 }, trail: None, groups: names };
    let ends = ReadRequest { order: 0, from: Place::default(), trail: None, groups: Vec::new() };
    assert_eq!(pair.asks[1..], [Ask::Read(meant), Ask::Read(ends)]);
    assert_eq!(pair.session.outstanding(), 0, "it is not numbered");
    consort_wire::mutate::each(&out, 3_000, |bytes| {
        let mut pair = Pair::open(Limits { frames_max: 1 << 10, ..Limits::default() });
        pair.session.feed(Bytes::copy_from_slice(bytes));
        if pair.take().is_ok() {
            assert!(pair.asks.len() <= 1 + bytes.len() / HEAD_LEN);
        }
    });
}

#[test]
fn a_request_to_read_on_reads_back_and_no_mutation_panics() {
    let view = |number| ViewId { number, representative: MemberId::new(3, 70) };
    let before = (0..16).map(|n| (view(n), Position(n << 16))).collect();
    let closing = Some(ViewClosing { line: Position(9), together: 1 << 63 });
    let (trail, from) = (ViewTrail { view: view(40), closing, before }, Place { position: 1 << 33, index: 7 });
    let mut out = BytesMut::new();
    reading::put_read_on(&mut out, &trail, from, &[group("g")]);
    let mut pair = Pair::open(Limits::default());
    pair.client.read_on(&trail, from, &[group("g")]);
    pair.serve().unwrap();
    let meant = ReadRequest { order: 0, from, trail: Some(Box::new(trail)), groups: vec![b"g".to_vec()] };
    assert_eq!(pair.asks[1..], [Ask::Read(meant)]);
    consort_wire::mutate::each(&out, 3_000, |bytes| {
        let mut pair = Pair::open(Limits { frames_max: 1 << 10, ..Limits::default() });
        pair.session.feed(Bytes::copy_from_slice(bytes));
        if pair.take().is_ok() {
            assert!(pair.asks.len() <= 1 + bytes.len() / HEAD_LEN);
        }
    });
    let more = 17_u16.to_be_bytes();
    let wrong = [&out[5..33], &[0], &more, &[0; 17 * 26], &[0, 0]].concat();
    let mut raw = BytesMut::new();
    frame::put(&mut raw, 0x0e, |out| out.put_slice(&wrong));
    let mut pair = Pair::open(Limits::default());
    pair.session.feed(raw.freeze());
    assert_eq!(pair.take().unwrap_err().text, "malformed view count at byte 36 of frame 2");
}

#[test]
fn a_request_to_read_more_than_there_may_be_is_malformed() {
    let read = |body: &[u8]| {
        let mut pair = Pair::open(Limits::default());
        let mut raw = BytesMut::new();
        frame::put(&mut raw, 0x0b, |out| out.put_slice(body));
        pair.session.feed(raw.freeze());
        pair.take().unwrap_err().text
    };
    let front = [0; 18];
    let many = [&front[..], &[3, 0xe9], &[0; 2_000]].concat();
    assert_eq!(read(&many), "malformed group count at byte 25 of frame 2");
    assert_eq!(read(&[&front[..], &[0, 2, 1, b'g', 9]].concat()), "malformed group name at byte 28 of frame 2");
    assert_eq!(read(&[&front[..], &[0, 0, 7]].concat()), "malformed end of request at byte 25 of frame 2");
    assert_eq!(read(&front[..9]), "malformed position at byte 13 of frame 2");
}

#[test]
fn no_mutation_of_a_frame_with_positions_panics() {
    let frames = every_frame();
    assert_eq!(frames.len(), 5 + 10);
    for whole in frames {
        consort_wire::mutate::each(&whole, 3_000, |bytes| {
            let mut client = ClientEnd::new(&Hello::default());
            client.feed(Bytes::copy_from_slice(bytes));
            while let Ok(Some(event)) = client.next_event() {
                if let DaemonEvent::Message(message) | DaemonEvent::Read(message) = event {
                    assert!(message.payload().len() < bytes.len() && !message.sender_name().is_empty());
                }
            }
        });
        let longer = [&whole[HEAD_LEN..], &[0]].concat();
        let kind = whole[HEAD_LEN - 1];
        let taken = DaemonEvent::decode(kind, longer.into()).is_ok();
        assert_eq!(taken, [0xc4, 0xe4].contains(&kind), "{kind:x}");
    }
}
