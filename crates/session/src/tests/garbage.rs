//! What a client must not send, and what it is told.
use super::*;
use crate::{DisconnectReason, SlowPolicy, frame, request};
use bytes::{BufMut, BytesMut};

/// What a fresh session says to these bytes.
fn to_fresh(bytes: &[u8]) -> Disconnect {
    let mut session = DaemonEnd::new(ClientId(1));
    session.feed(Bytes::copy_from_slice(bytes));
    session.next(&Limits::default()).unwrap_err()
}

/// What an open session says to one frame, the second of its connection.
fn to_open(kind: u8, body: &[u8]) -> String {
    let mut pair = Pair::open(Limits::default());
    let mut raw = BytesMut::new();
    frame::put(&mut raw, kind, |out| out.put_slice(body));
    pair.session.feed(raw.freeze());
    let farewell = pair.take().unwrap_err();
    assert_eq!(farewell.reason, DisconnectReason::Malformed);
    farewell.text
}

#[test]
fn whoever_does_not_speak_the_protocol_is_told_so() {
    assert_eq!(to_fresh(b"GET / HTTP/1.1\r\n\r\n").text, "malformed frame length at byte 0 of frame 1");
    assert_eq!(to_fresh(&[0, 0, 0, 1, 6]).text, "malformed hello at byte 0 of frame 1");
    let mut hello = BytesMut::new();
    Hello::default().put(&mut hello);
    hello[frame::HEAD_LEN] = 0;
    assert_eq!(to_fresh(&hello).text, "malformed magic at byte 5 of frame 1");
}

#[test]
fn a_hello_with_flags_that_mean_nothing_is_refused() {
    for flags in [4, 5, 9, 10, 14, 16 | 2, 16 | 6, 16 | 8, 32 | 8, 32 | 4, 64 | 8, 64 | 4, 128 | 4, 128 | 8 | 1] {
        let mut hello = BytesMut::new();
        Hello::default().put(&mut hello);
        hello[frame::HEAD_LEN + 6] = flags;
        assert_eq!(to_fresh(&hello).text, "malformed flags at byte 12 of frame 1", "{flags}");
    }
}

#[test]
fn a_hello_that_says_no_policy_or_half_of_one_is_refused() {
    let mut hello = BytesMut::new();
    Hello { slow: Some(SlowPolicy::Spool.into()), ..Hello::default() }.put(&mut hello);
    let policy = hello.len() - 13;
    for unknown in [0, 5, 0xff] {
        hello[policy] = unknown;
        assert_eq!(to_fresh(&hello).text, format!("malformed slow policy at byte {policy} of frame 1"));
    }
    let mut short = BytesMut::new();
    Hello::default().put(&mut short);
    short[frame::HEAD_LEN + 6] = 64;
    assert_eq!(to_fresh(&short).text, format!("malformed slow policy at byte {} of frame 1", short.len()));
}

#[test]
fn another_version_is_told_apart_from_garbage() {
    let mut hello = BytesMut::new();
    Hello::default().put(&mut hello);
    hello[frame::HEAD_LEN + 5] = 9;
    let farewell = to_fresh(&hello);
    assert_eq!(farewell.reason, DisconnectReason::Version);
    assert_eq!(farewell.text, "this daemon speaks version 2 of the client protocol, not 9");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(to_open(0x42, b""), "malformed kind at byte 5 of frame 2");
    assert_eq!(to_open(0x01, b""), "malformed second hello at byte 5 of frame 2");
    assert_eq!(to_open(0x02, b"\x03a b"), "malformed group name at byte 5 of frame 2");
    assert_eq!(to_open(0x02, b"\x01ab"), "malformed end of request at byte 7 of frame 2");
    assert_eq!(to_open(0x04, b"x"), "malformed end of request at byte 5 of frame 2");
    assert_eq!(to_open(0x14, b"\0\0"), "malformed group count at byte 7 of frame 2");
    assert_eq!(to_open(0x14, b"\0\x01\x05ab"), "malformed group name at byte 10 of frame 2");
    assert_eq!(to_open(0x16, b"\0\x01\x01g"), "malformed kind at byte 5 of frame 2");
    assert_eq!(to_open(0x05, &[0; 300]), "malformed frame length at byte 5 of frame 2");
}

#[test]
fn a_closed_session_takes_nothing_and_says_its_farewell_last() {
    let mut pair = Pair::open(Limits::default());
    pair.multicast(b"never taken");
    let bytes = pair.client.take_output();
    pair.session.feed(bytes);
    let farewell = Disconnect::new(DisconnectReason::Slow, "too slow");
    pair.session.close(&farewell);
    pair.session.close(&Disconnect::new(DisconnectReason::Stopping, "only the first counts"));
    pair.session.feed(Bytes::from_static(b"more"));
    assert_eq!((pair.session.next(&pair.limits), pair.session.input_held()), (Ok(None), 0));
    assert_eq!(pair.events(), [DaemonEvent::Disconnect(farewell)]);
    assert!(!pair.session.is_open());
}

#[test]
fn no_stream_of_mutated_requests_panics_or_stalls() {
    let mut good = BytesMut::new();
    Hello::default().put(&mut good);
    request::put_join(&mut good, &group("orders"), false);
    request::put_join(&mut good, &group("closed"), true);
    request::put_multicast(&mut good, Service::Safe, &[group("a"), group("b")], b"payload");
    request::put_ping(&mut good, 1);
    request::put_leave(&mut good, &group("orders"));
    request::put_status(&mut good);
    super::codecs::every_question().iter().for_each(|question| question.put(&mut good));
    request::put_goodbye(&mut good);
    let limits = Limits { message_max: 1_000, ..Limits::default() };
    consort_wire::mutate::each(&good, 10_000, |bytes| {
        let mut session = DaemonEnd::new(ClientId(1));
        let (front, back) = bytes.split_at(bytes.len() / 2);
        for part in [front, back] {
            session.feed(Bytes::copy_from_slice(part));
            while let Ok(Some(ask)) = session.next(&limits) {
                if matches!(ask, Ask::Join { .. } | Ask::Leave(_) | Ask::Multicast { .. }) {
                    session.accept();
                }
            }
        }
    });
}
