//! What C cannot try: numbers that agree with the library's, panics, two threads at once.
#![allow(clippy::disallowed_methods, reason = "a test has two threads")]

use crate::border::{call, tell};
use crate::client::{Half, consort_client};
use crate::codes::{self, *};
use crate::event::consort_event;
use crate::failure::c_text;
use crate::last::{consort_last_error, consort_last_reason, consort_last_unknown_fate};
use crate::options::consort_options;
use crate::session::consort_session;
use consort::{
    ChangeCause, ClientId, ClientName, Disconnect, DisconnectReason, Error, MemberId, Primary, ReadingEndCause,
    RefusalCause, Service, SlowPolicy, Welcome,
};
use std::ffi::CStr;

fn last_error() -> String {
    // SAFETY: it is a text that lives until the next call that fails.
    unsafe { CStr::from_ptr(consort_last_error()) }.to_str().unwrap().to_owned()
}

fn closed() -> consort_client {
    consort_client::new(
        Half::Closed,
        Welcome {
            version: 2,
            daemon: MemberId::new(3, 7),
            session: 1,
            client: ClientId(5),
            daemon_name: "n3".into(),
            name: ClientName::new(b"ann").unwrap(),
            message_max: 9,
            credit: 9,
            groups_max: 9,
        },
    )
}

#[test]
fn numbers_are_the_librarys() {
    let services = [
        consort_service::CONSORT_RELIABLE,
        consort_service::CONSORT_FIFO,
        consort_service::CONSORT_CAUSAL,
        consort_service::CONSORT_AGREED,
        consort_service::CONSORT_SAFE,
    ];
    let read: Vec<_> = services.into_iter().map(|number| codes::service(number as i32)).collect();
    assert_eq!(read, Service::ALL.map(Some));
    assert_eq!([0, 6, -1, 256, 260, i32::MIN].map(codes::service), [None; 6]);
    assert_eq!(codes::cause(ChangeCause::Primary), consort_cause::CONSORT_CAUSE_PRIMARY as i32);
    assert_eq!(codes::cause(ChangeCause::Join), consort_cause::CONSORT_CAUSE_JOIN as i32);
    assert_eq!(codes::primary(Primary::Yes), consort_primary::CONSORT_PRIMARY_YES as i32);
    assert_eq!(codes::primary(Primary::NoPolicy), consort_primary::CONSORT_PRIMARY_NO_POLICY as i32);
    let last = (RefusalCause::ALL.len(), RefusalCause::AcrossRings);
    let number = consort_refusal::CONSORT_REFUSED_ACROSS_RINGS as i32;
    assert_eq!((last.0 as i32, codes::refusal(last.1), number), (18, number, 18));
    let last = (DisconnectReason::ALL.last(), DisconnectReason::TokenExpired);
    let number = consort_reason::CONSORT_REASON_TOKEN_EXPIRED as i32;
    assert_eq!((last.0, codes::reason(last.1), number), (Some(&last.1), number, 16));
}

/// Every number of the library has its line in the header, under the same name: a new one is not forgotten.
#[test]
fn every_cause_and_reason_stands_in_the_header() {
    let header = include_str!("../include/consort.h");
    let has = |kind: &str, name: &str, number: u8| {
        let line = format!("CONSORT_{kind}_{} = {number},", name.to_uppercase());
        assert!(header.contains(&line), "{line}");
    };
    RefusalCause::ALL.iter().for_each(|cause| has("REFUSED", cause.name(), *cause as u8));
    DisconnectReason::ALL.iter().for_each(|reason| has("REASON", reason.name(), *reason as u8));
    ReadingEndCause::ALL.iter().for_each(|cause| has("READING", cause.name(), *cause as u8));
    SlowPolicy::ALL.iter().for_each(|policy| has("SLOW", policy.name(), *policy as u8));
}

#[test]
fn no_panic_crosses_and_what_it_left_is_not_used_again() {
    let client = closed();
    let code = call(|| client.using::<()>(|_| panic!("on purpose")).map(|()| consort_code::CONSORT_OK));
    assert_eq!(code, consort_code::CONSORT_INTERNAL);
    assert!(last_error().contains("a fault of this library"), "{}", last_error());
    let again = call(|| client.using(|_| Ok(consort_code::CONSORT_OK)));
    assert_eq!(again, consort_code::CONSORT_INTERNAL);
    assert!(last_error().contains("broke this client earlier"), "{}", last_error());
    assert_eq!(tell(7, || panic!("on purpose")), 7);
}

/// What the header says of threads: objects may pass from one to another, and a client may be called by two.
#[test]
fn objects_pass_between_threads() {
    fn passes<T: Send + Sync>() {}
    passes::<consort_client>();
    passes::<consort_session>();
    passes::<consort_event>();
    passes::<consort_options>();
}

#[test]
fn a_second_thread_is_turned_away() {
    let client = closed();
    let code = client.using(|_| Ok(call(|| client.using(|_| Ok(consort_code::CONSORT_OK))))).ok();
    assert_eq!(code, Some(consort_code::CONSORT_BUSY));
    assert!(last_error().contains("another thread uses this client"));
}

#[test]
fn errors_keep_their_reason_and_fate_and_belong_to_their_thread() {
    let farewell = Disconnect::new(DisconnectReason::Slow, "slow\0reader");
    let error = || Error::Disconnected { farewell: farewell.clone(), unknown_fate: 4..6 };
    assert_eq!(call(|| Err(error().into())), consort_code::CONSORT_DISCONNECTED);
    assert_eq!(consort_last_reason(), consort_reason::CONSORT_REASON_SLOW as i32);
    let mut first = 0;
    // SAFETY: it points to a number.
    assert_eq!((unsafe { consort_last_unknown_fate(&mut first) }, first), (2, 4));
    assert!(last_error().contains("slowreader") && last_error().contains("sends 4 to 5"), "{}", last_error());
    std::thread::spawn(|| assert_eq!((last_error(), consort_last_reason()), (String::new(), 0))).join().unwrap();
    assert_eq!(call(|| Err(Error::NobodyReceives.into())), consort_code::CONSORT_NOBODY_RECEIVES);
    assert_eq!(consort_last_reason(), 0, "of the last error only");
}

#[test]
fn a_zero_byte_in_a_text_ends_nothing() {
    assert_eq!(c_text("a\0b").as_c_str(), c"ab");
}
