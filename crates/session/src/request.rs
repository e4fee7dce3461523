//! What clients say.
//!
//! | kind | request | body |
//! |---|---|---|
//! | 01 | hello | magic (4), version (2), flags (1: bit 0 wants views, 1 offers, 2 undoes the latest only, 3 only asks, 4 wants positions, 5 wants heartbeats, 6 says what is to be done if it does not read, 7 shows a token), name (1 + n), session (8), position (8), with bit 5 the interval in ms (4), with bit 6 the policy (1), bytes (8) and ms (4), with bit 7 the token (1 + n) |
//! | 02 | join | group (1 + n) |
//! | 03 | leave | group (1 + n) |
//! | 04 | status | |
//! | 05 | ping | token (8) |
//! | 06 | goodbye | |
//! | 07 | join that closes the group if it opens it | group (1 + n) |
//! | 08-0a | questions: see [`crate::listing`] | |
//! | 0b, 0e | read by position: see [`crate::reading`] | |
//! | 0c, 0d | producers: see [`crate::numbering`] | |
//! | 0f, 23 | checkpoints: see [`crate::declaring`] | |
//! | 21, 22 | copies of programs: see [`crate::copies`] | |
//! | 20 | the next key: see [`crate::keys`] | |
//! | 11-15 | multicast; the second digit is the service | targets, payload |
//!
//! Joins, leaves and multicasts are numbered.
use crate::copies::{ASK_COPIES, BIND, read_bind};
use crate::declaring::{DECLARE, DECLARE_BOUND, DeclareRequest, read_holder};
use crate::frame::{self, HEAD_LEN, Head};
use crate::keys::ROTATE;
use crate::listing::{self, ListQuery};
use crate::numbering;
use crate::reading::{READ, READ_ON, ReadRequest};
use crate::{MAGIC, SlowRequest, Undo, VERSION};
use bytes::{BufMut, BytesMut};
use consort_group::OpenRequest;
use consort_group::{Addressee, ClientName, Targets, targets};
use consort_types::{Binding, Duration, GroupName, Holder, Service};
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
/// With no other flag but a token's.
const ONLY_ASKS: u8 = 8;
const WANTS_POSITIONS: u8 = 16;
const WANTS_HEARTBEATS: u8 = 32;
const SAYS_SLOW: u8 = 64;
/// With any other.
const SHOWS_TOKEN: u8 = 128;
/// No body but a multicast's is longer.
pub(crate) const BODY_MAX: usize = 256;
/// No token is longer.
pub const TOKEN_MAX: usize = 160;

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
    /// How often it wants to be told that the daemon is at work, if at all; told in whole milliseconds, 1 at least. Not for
    /// clients that only ask.
    pub heartbeats: Option<Duration>,
    /// What is to be done if it does not read; what the daemon does where it does not say. Not for clients that only ask.
    pub slow: Option<SlowRequest>,
    /// What proves who the client is, at a daemon that has given it out; 1 to 160 bytes.
    pub token: Option<String>,
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
            if let Some(interval) = self.heartbeats.filter(|_| !self.only_asks) {
                out.put_u32(u32::try_from(interval.as_millis()).unwrap_or(u32::MAX).max(1));
            }
            if let Some(slow) = self.slow.filter(|_| !self.only_asks) {
                slow.put(out);
            }
            if let Some(token) = self.shown_token() {
                targets::put_name(token, out);
            }
        });
    }

    /// The token as it is told: of what is too long so much that it is seen to be none.
    fn shown_token(&self) -> Option<&[u8]> {
        let token = self.token.as_deref().filter(|token| !token.is_empty())?;
        Some(&token.as_bytes()[..token.len().min(TOKEN_MAX)])
    }

    fn flags(&self) -> u8 {
        let shows = if self.shown_token().is_some() { SHOWS_TOKEN } else { 0 };
        if self.only_asks {
            return ONLY_ASKS | shows;
        }
        let offers = match self.optimistic {
            None => 0,
            Some(Undo::Any) => WANTS_OFFERS,
            Some(Undo::Latest) => WANTS_OFFERS_UNDOES_LATEST,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let views = flag(self.wants_views, WANTS_VIEWS);
        let heartbeats = flag(self.heartbeats.is_some(), WANTS_HEARTBEATS);
        let slow = flag(self.slow.is_some(), SAYS_SLOW);
        offers | shows | views | heartbeats | slow | flag(self.wants_positions, WANTS_POSITIONS)
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
        let only_asks = flags & !SHOWS_TOKEN == ONLY_ASKS;
        let optimistic = match flags & !(WANTS_VIEWS | WANTS_HEARTBEATS | SAYS_SLOW | SHOWS_TOKEN) {
            _ if only_asks => None,
            0 | WANTS_POSITIONS => None,
            WANTS_OFFERS => Some(Undo::Any),
            WANTS_OFFERS_UNDOES_LATEST => Some(Undo::Latest),
            _ => return Err(reader.bad("flags").into()),
        };
        let name = listing::read_client_name(&mut reader)?;
        let (session, position) = (reader.u64("session")?, reader.u64("position")?);
        let heartbeats = if flags & WANTS_HEARTBEATS != 0 { Some(read_interval(&mut reader)?) } else { None };
        let slow = if flags & SAYS_SLOW != 0 { Some(SlowRequest::read(&mut reader)?) } else { None };
        let token = if flags & SHOWS_TOKEN != 0 { Some(read_token(&mut reader)?) } else { None };
        reader.end("end of hello")?;
        let (wants_views, wants_positions) = (flags & WANTS_VIEWS != 0, flags & WANTS_POSITIONS != 0);
        Ok(Self {
            name,
            wants_views,
            optimistic,
            only_asks,
            wants_positions,
            heartbeats,
            slow,
            token,
            session,
            position,
        })
    }
}

/// What is shown may be no token, which is the daemon's to say; but it has a token's length, and is text.
fn read_token(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u8("token")?);
    let token = std::str::from_utf8(reader.take(len, "token")?).ok();
    token.filter(|token| (1..=TOKEN_MAX).contains(&token.len())).map(str::to_owned).ok_or(before.bad("token"))
}

fn read_interval(reader: &mut Reader<'_>) -> Result<Duration, Malformed> {
    let before = reader.clone();
    match reader.u32("heartbeat interval")? {
        0 => Err(before.bad("heartbeat interval")),
        ms => Ok(Duration::from_millis(u64::from(ms))),
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
    Open(OpenRequest),
    Forget,
    Declare(DeclareRequest),
    Copies(Holder),
    Bind(Binding),
    Rotate,
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

/// The group that a frame asks to join, if it does.
pub(crate) fn joined_group(kind: u8, body: &[u8]) -> Option<GroupName> {
    let joins = matches!(kind, JOIN | JOIN_CLOSED);
    joins.then(|| targets::read_group(&mut Reader::new(body)).ok()).flatten()
}

/// Reads any frame but a hello and a multicast.
pub(crate) fn decode(head: Head, body: &Payload) -> Result<Request, Malformed> {
    let most = if matches!(head.kind, READ | READ_ON) { Targets::MAX_LEN } else { BODY_MAX };
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
        READ | READ_ON => Request::Read(ReadRequest::read(head.kind, &mut reader)?),
        numbering::OPEN => Request::Open(OpenRequest::read(&mut reader)?),
        numbering::FORGET => Request::Forget,
        ROTATE => Request::Rotate,
        kind @ (DECLARE | DECLARE_BOUND) => Request::Declare(DeclareRequest::read(kind, &mut reader)?),
        ASK_COPIES => Request::Copies(read_holder(&mut reader)?),
        BIND => Request::Bind(read_bind(&mut reader)?),
        PING => Request::Ping(reader.u64("token")?),
        GOODBYE => Request::Goodbye,
        HELLO => return Err(Malformed { what: "second hello", at: 0 }),
        _ => return Err(Malformed { what: "kind", at: 0 }),
    };
    reader.end("end of request")?;
    Ok(request)
}
