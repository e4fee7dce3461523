//! What clients say.
//!
//! | kind | request | body |
//! |---|---|---|
//! | 01 | hello | magic (4), version (2), flags (1: bit 0 wants views, 1 offers, 2 undoes the latest only, 3 only asks, 4 wants positions), name (1 + n), session (8), position (8) |
//! | 02 | join | group (1 + n) |
//! | 03 | leave | group (1 + n) |
//! | 04 | status | |
//! | 05 | ping | token (8) |
//! | 06 | goodbye | |
//! | 07 | join that closes the group if it opens it | group (1 + n) |
//! | 08-0a | questions: see [`crate::listing`] | |
//! | 0b | read by position: see [`crate::reading`] | |
//! | 11-15 | multicast; the second digit is the service | targets, payload |
//!
//! Joins, leaves and multicasts are numbered.
use crate::frame::{self, HEAD_LEN, Head};
use crate::listing::{self, ListQuery};
use crate::reading::{READ, ReadRequest};
use crate::{MAGIC, Undo, VERSION};
use bytes::{BufMut, BytesMut};
use consort_group::{Addressee, ClientName, Targets, targets};
use consort_types::{GroupName, Service};
use consort_wire::{Malformed, Payload, Reader, append};

const HELLO: u8 = 0x01;
const JOIN: u8 = 0x02;
const LEAVE: u8 = 0x03;
const STATUS: u8 = 0x04;
const PING: u8 = 0x05;
const GOODBYE: u8 = 0x06;
const JOIN_CLOSED: u8 = 0x07;
const MULTICAST: u8 = 0x10;
const WANTS_VIEWS: u8 = 1;
const WANTS_OFFERS: u8 = 2;
const WANTS_OFFERS_UNDOES_LATEST: u8 = WANTS_OFFERS | 4;
/// With no other flag.
const ONLY_ASKS: u8 = 8;
const WANTS_POSITIONS: u8 = 16;
/// No body but a multicast's is longer.
pub(crate) const BODY_MAX: usize = 256;

/// How a client opens a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// What it wants to be called; the daemon finds a name where there is none.
    pub name: Option<ClientName>,
    /// Whether it wants to read of network views.
    pub wants_views: bool,
    /// Whether it wants to be offered messages before their place is final, and which offers it can undo.
    pub optimistic: Option<Undo>,
    /// Whether it will only ask, for status and lists: it is let in where others are turned back for want of a place.
    /// It wants neither views nor offers then.
    pub only_asks: bool,
    /// Whether messages are to come with their position and their sender's incarnation. Not for optimistic clients: offers
    /// have no position yet.
    pub wants_positions: bool,
    /// The session it wants to continue, 0 for a new one. This version knows none and always opens a new one.
    pub session: u64,
    /// The last position it has of that session; 0 with a new one.
    pub position: u64,
}

/// Why a hello is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotHello {
    Version(u16),
    Malformed(Malformed),
}

impl From<Malformed> for NotHello {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

impl Hello {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        frame::put(out, HELLO, |out| {
            out.put_u32(MAGIC);
            out.put_u16(VERSION);
            out.put_u8(self.flags());
            targets::put_name(self.name.as_ref().map_or(&[], |name| name.as_str().as_bytes()), out);
            out.put_u64(self.session);
            out.put_u64(self.position);
        });
    }

    fn flags(&self) -> u8 {
        if self.only_asks {
            return ONLY_ASKS;
        }
        let offers = match self.optimistic {
            None => 0,
            Some(Undo::Any) => WANTS_OFFERS,
            Some(Undo::Latest) => WANTS_OFFERS_UNDOES_LATEST,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        offers | flag(self.wants_views, WANTS_VIEWS) | flag(self.wants_positions, WANTS_POSITIONS)
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, NotHello> {
        let mut reader = Reader::new(body);
        if reader.u32("magic")? != MAGIC {
            return Err(Malformed { what: "magic", at: 0 }.into());
        }
        let version = reader.u16("version")?;
        if version != VERSION {
            return Err(NotHello::Version(version));
        }
        let flags = reader.u8("flags")?;
        let only_asks = flags == ONLY_ASKS;
        let optimistic = match flags & !WANTS_VIEWS {
            _ if only_asks => None,
            0 | WANTS_POSITIONS => None,
            WANTS_OFFERS => Some(Undo::Any),
            WANTS_OFFERS_UNDOES_LATEST => Some(Undo::Latest),
            _ => return Err(reader.bad("flags").into()),
        };
        let name = listing::read_client_name(&mut reader)?;
        let (session, position) = (reader.u64("session")?, reader.u64("position")?);
        reader.end("end of hello")?;
        let (wants_views, wants_positions) = (flags & WANTS_VIEWS != 0, flags & WANTS_POSITIONS != 0);
        Ok(Self { name, wants_views, optimistic, only_asks, wants_positions, session, position })
    }
}

/// Appends a join. If the group has no members yet, `closed` says whether only members may send to it.
pub fn put_join(out: &mut BytesMut, group: &GroupName, closed: bool) {
    let kind = if closed { JOIN_CLOSED } else { JOIN };
    frame::put(out, kind, |out| targets::put_name(group.as_bytes(), out));
}

/// Appends a leave.
pub fn put_leave(out: &mut BytesMut, group: &GroupName) {
    frame::put(out, LEAVE, |out| targets::put_name(group.as_bytes(), out));
}

/// Appends a request for the daemon's status.
pub fn put_status(out: &mut BytesMut) {
    frame::put_head(out, STATUS, 0);
}

/// Appends a ping; the daemon answers with the same token.
pub fn put_ping(out: &mut BytesMut, token: u64) {
    frame::put_head(out, PING, 8);
    out.put_u64(token);
}

/// Appends a good-bye: what was sent before is still ordered.
pub fn put_goodbye(out: &mut BytesMut) {
    frame::put_head(out, GOODBYE, 0);
}

/// Appends a multicast. `to` are 1 to 1000; the caller has checked it.
pub fn put_multicast<T: Addressee>(out: &mut BytesMut, service: Service, to: &[T], payload: &[u8]) {
    put_multicast_front(out, service, to, payload.len());
    append(out, payload);
}

/// Appends what stands before the payload of a multicast.
pub(crate) fn put_multicast_front<T: Addressee>(out: &mut BytesMut, service: Service, to: &[T], payload: usize) {
    frame::put_head(out, MULTICAST | service as u8, multicast_len(to, payload) - HEAD_LEN);
    targets::encode(to.iter(), out);
}

/// How long the frame of a join or leave is.
pub fn membership_len(group: &GroupName) -> usize {
    HEAD_LEN + 1 + group.as_bytes().len()
}

/// How long the frame of a multicast is.
pub fn multicast_len<T: Addressee>(to: &[T], payload: usize) -> usize {
    HEAD_LEN + 2 + to.iter().map(|name| 1 + name.target().len()).sum::<usize>() + payload
}

/// A frame of a client, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Join { group: GroupName, closed: bool },
    Leave(GroupName),
    Status,
    List(ListQuery),
    Read(ReadRequest),
    Ping(u64),
    Goodbye,
}

/// The service of a multicast's kind, if it is one.
pub(crate) const fn multicast_service(kind: u8) -> Option<Service> {
    if kind & 0xf0 == MULTICAST { Service::from_wire(kind & 0x0f) } else { None }
}

/// Whether a frame of this kind is a hello.
pub(crate) const fn is_hello(kind: u8) -> bool {
    kind == HELLO
}

/// Checks the targets of a multicast whose list starts at byte `at` of `payload`; returns how many groups it names and
/// how many bytes follow the list.
pub(crate) fn check_multicast(payload: &Payload, at: usize) -> Result<(usize, usize), Malformed> {
    let check = |targets: Targets<'_>| targets.check().map(|()| (targets.count(), targets.encoded_len()));
    let (count, len) = Targets::of(payload, at, check)??;
    Ok((count, payload.len() - at - len))
}

/// Reads any frame but a hello and a multicast.
pub(crate) fn decode(head: Head, body: &Payload) -> Result<Request, Malformed> {
    let most = if head.kind == READ { Targets::MAX_LEN } else { BODY_MAX };
    if body.len() > most {
        return Err(Malformed { what: "frame length", at: 0 });
    }
    let bytes = body.to_bytes();
    let mut reader = Reader::new(&bytes);
    let request = match head.kind {
        JOIN | JOIN_CLOSED => {
            Request::Join { group: targets::read_group(&mut reader)?, closed: head.kind == JOIN_CLOSED }
        }
        LEAVE => Request::Leave(targets::read_group(&mut reader)?),
        STATUS => Request::Status,
        kind if ListQuery::is_one(kind) => Request::List(ListQuery::read(kind, &mut reader)?),
        READ => Request::Read(ReadRequest::read(&mut reader)?),
        PING => Request::Ping(reader.u64("token")?),
        GOODBYE => Request::Goodbye,
        HELLO => return Err(Malformed { what: "second hello", at: 0 }),
        _ => return Err(Malformed { what: "kind", at: 0 }),
    };
    reader.end("end of request")?;
    Ok(request)
}
