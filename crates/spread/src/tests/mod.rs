//! A daemon's end against a client that knows nothing of it: [`client`] was written from the page that describes the
//! protocol, and shares no line with the codec.
mod client;
mod garbage;
mod handshake;
mod limits;
mod transcript;
mod views;

use crate::session::{SpreadRequest, SpreadSession};
use bytes::{BufMut, Bytes, BytesMut};
use consort_group::{ClientName, GroupViewId, Member, Targets};
use consort_types::{ClientId, GroupName, MemberId, ViewId};
use consort_wire::Payload;

/// A hello of the library 5.0.1 that wants to read of members.
fn hello(name: &str) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(&[5, 0, 1, 1, name.len() as u8]);
    out.put_slice(name.as_bytes());
    out.freeze()
}

/// The choice of NULL.
fn choice() -> Bytes {
    let mut choice = [0; 90];
    choice[..4].copy_from_slice(b"NULL");
    Bytes::copy_from_slice(&choice)
}

/// Bytes written as in a transcript: hex, where `x5` is five zeros and `|` means nothing.
fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace().filter(|word| *word != "|") {
        match word.strip_prefix('x') {
            Some(zeros) => bytes.resize(bytes.len() + zeros.parse::<usize>().unwrap(), 0),
            None => bytes.push(u8::from_str_radix(word, 16).unwrap()),
        }
    }
    bytes
}

/// Everything the session has to say.
fn read(session: &mut SpreadSession) -> Vec<u8> {
    let said: Vec<u8> = session.output().pieces().flatten().copied().collect();
    session.written(said.len());
    said
}

/// A session that was let in as `#<name>#d1`, its output read.
fn open(name: &str) -> SpreadSession {
    let mut session = SpreadSession::new();
    session.feed(hello(name));
    assert_eq!(session.ask(), Ok(Some(SpreadRequest::Name(ClientName::new(name.as_bytes())))));
    session.name(&format!("#{name}#d1"));
    session.feed(choice());
    assert_eq!(session.ask(), Ok(Some(SpreadRequest::Entered)));
    read(&mut session);
    session
}

fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

fn member(node: u16, client: u32, name: &str) -> Member {
    Member { daemon: MemberId::new(node, 1), client: ClientId(client), name: ClientName::new(name.as_bytes()).unwrap() }
}

fn view_id(number: u64, change: u64) -> GroupViewId {
    GroupViewId { view: ViewId { number, representative: MemberId::new(1, 1) }, change }
}

/// Gives the session back a message that it asked to have ordered.
fn echo(session: &mut SpreadSession, sender: &str, ask: &SpreadRequest, own: bool) {
    let SpreadRequest::Multicast { note, targets, data, .. } = ask else { panic!("{ask:?}") };
    let payload = Payload::from(data.clone());
    let targets = Targets::read(targets).unwrap();
    session.tell_message(
        &crate::messages::RegularMessage { sender, note: *note, targets, payload: &payload, from: 0 },
        own,
    );
}
