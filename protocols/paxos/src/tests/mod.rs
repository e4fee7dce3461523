//! Whole engines over links and disks of their own, decided by a seed; and the promises judged after each event.
mod advice;
mod away;
mod by_position;
mod copies;
mod hostile;
mod judge;
mod lost_logs;
mod many;
#[cfg(feature = "mutants")]
mod mutants;
mod packets;
mod parts;
mod put_back;
mod readiness;
mod replays;
mod retention;
mod scenes;
mod seeds;
mod solo;
mod stalls;
mod violations;
mod world;

use bytes::{Bytes, BytesMut};
use consort_types::{Class, Service};
use consort_wire::pack::{Body, OutgoingMessage};

/// A value's payload that holds these messages.
fn body(texts: &[&'static str]) -> Body {
    let mut body = BytesMut::new();
    for text in texts {
        let payload = Bytes::from_static(text.as_bytes()).into();
        assert!(OutgoingMessage::new(Class::Client, Service::Agreed, payload).pack(&mut body, 1_000));
    }
    Body::new(body.freeze()).unwrap()
}
