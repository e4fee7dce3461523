//! What a client and a daemon say to each other when both are right.
use super::*;
use crate::request;
use bytes::BytesMut;
use consort_wire::Payload;

fn payload_of(ask: &Ask) -> Option<Bytes> {
    if let Ask::Multicast { payload, .. } = ask { Some(payload.to_bytes()) } else { None }
}

#[test]
fn the_daemon_names_a_client_that_did_not() {
    let mut pair = Pair::new(Limits::default());
    assert!(pair.session.is_silent() && !pair.session.is_open());
    pair.serve().unwrap();
    let events = pair.events();
    let [DaemonEvent::Welcome(welcome)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((welcome.name.as_str(), welcome.client, welcome.daemon), ("c7", ClientId(7), MemberId::new(1, 5)));
    assert_eq!((welcome.credit, welcome.message_max, welcome.groups_max), (256 << 10, 16 << 20, 1_000));
    assert!(pair.session.is_open() && pair.session.wants_views());
}

#[test]
fn requests_come_out_as_they_were_sent_and_are_numbered() {
    let mut pair = Pair::open(Limits::default());
    assert_eq!(pair.client.join(&group("g")), Ok(1));
    assert_eq!(pair.multicast(b"one"), 2);
    pair.client.status();
    assert_eq!(pair.client.leave(&group("g")), Ok(3));
    pair.client.goodbye();
    pair.asks.clear();
    pair.serve().unwrap();
    let body = b"\x01\0\0\0\x07\x02c7\0\x01\x01gone";
    assert!(matches!(
        &pair.asks[..],
        [Ask::Join { .. }, Ask::Multicast { .. }, Ask::Status, Ask::Leave(_), Ask::Goodbye]
    ));
    assert_eq!(payload_of(&pair.asks[1]).unwrap(), &body[..]);
}

#[test]
fn the_payload_shares_the_bytes_that_were_read() {
    let mut pair = Pair::open(Limits::default());
    pair.multicast(b"payload");
    let bytes = pair.client.take_output();
    pair.session.feed(bytes.clone());
    let ask = pair.session.next(&pair.limits).unwrap().unwrap();
    let Ask::Multicast { payload, .. } = ask else { panic!("{ask:?}") };
    let shared = payload.parts().nth(1).unwrap();
    assert_eq!(shared.as_ptr(), bytes[crate::frame::HEAD_LEN..].as_ptr());
}

#[test]
fn a_request_that_is_not_settled_is_asked_again_and_nothing_overtakes_it() {
    let mut pair = Pair::open(Limits::default());
    pair.multicast(b"one");
    pair.multicast(b"two");
    let bytes = pair.client.take_output();
    pair.session.feed(bytes);
    let first = pair.session.next(&pair.limits).unwrap().unwrap();
    assert_eq!(pair.session.next(&pair.limits).unwrap().unwrap(), first);
    pair.session.accept();
    let second = pair.session.next(&pair.limits).unwrap().unwrap();
    assert!(payload_of(&second).unwrap().ends_with(b"two"));
    assert_eq!(pair.session.outstanding(), request::multicast_len(&[group("g")], 3));
}

#[test]
fn a_ping_is_answered_at_once_and_in_its_place() {
    let mut pair = Pair::open(Limits::default());
    pair.client.ping(99);
    pair.serve().unwrap();
    assert_eq!(pair.events(), [DaemonEvent::Pong(99)]);
}

#[test]
fn any_cut_of_the_stream_gives_the_same_requests() {
    let mut whole = Pair::open(Limits::default());
    whole.client.join(&group("orders")).unwrap();
    whole.client.multicast(Service::Safe, &[group("a"), group("bcd")], b"payload").unwrap();
    whole.client.ping(1);
    whole.client.multicast(Service::Fifo, &[group("a")], b"").unwrap();
    let bytes = whole.client.take_output();
    whole.session.feed(bytes.clone());
    whole.take().unwrap();
    for first in 0..=bytes.len() {
        for second in (first..=bytes.len()).step_by(7) {
            let mut cut = Pair::open(Limits::default());
            for part in [bytes.slice(..first), bytes.slice(first..second), bytes.slice(second..)] {
                cut.session.feed(part);
                cut.take().unwrap();
            }
            assert_eq!(cut.asks, whole.asks);
            assert_eq!(cut.ordered, whole.ordered);
        }
    }
}

#[test]
fn messages_and_frames_reach_the_client_in_their_order() {
    let mut pair = Pair::open(Limits::default());
    let ordered: Payload = Bytes::from_static(b"\x01\0\0\0\x07\x02c7\0\x01\x01gpayload").into();
    pair.session.tell_message(Pair::sender(), Service::Agreed, &ordered, &told_of(&ordered));
    let mut frames = BytesMut::new();
    crate::event::put_status(&mut frames, &[("key".into(), "value".into())]);
    pair.session.tell(&frames);
    pair.session.tell_message(Pair::sender(), Service::Agreed, &ordered, &told_of(&ordered));
    assert!(pair.session.wakes() && !pair.session.wakes());
    let events = pair.events();
    assert!(
        matches!(&events[..], [DaemonEvent::Message(_), DaemonEvent::Status(_), DaemonEvent::Message(m)] if m.payload() == b"payload")
    );
}
