//! Frames to events. Whatever a daemon sends, the answer is an event or a [`Malformed`].
use super::{
    CLOSED, CONFIRM, DISCONNECT, DaemonEvent, GROUP_SIGNAL, GROUP_VIEW, GroupSignal, GroupView, HEARTBEAT, INCARNATION,
    MEMBERSHIP, MESSAGE, Message, NetworkView, OFFER, OFFER_LEN, Offer, PLACED, PLACED_BATCH, PLACED_LEN, PONG,
    PROGRESS, Placement, Progress, QUORUM, READ_BATCH, READ_MESSAGE, REFUSED, RETENTION, REVOKE, RING, SLOW,
    SLOW_CLIENT, STATUS, VIEW, WAITING, WELCOME, WINDOW, WaitNotice, Welcome,
};
use crate::copies::read_copies;
use crate::{
    Bound, DeclareStatus, Disconnect, DisconnectReason, Place, ProducerStatus, ReadingStatus, Refusal, RefusalCause,
    RotationStatus, text,
};
use bytes::Bytes;
use consort_group::{ChangeCause, ClientName, GroupViewId, Member, Targets, ordered, targets};
use consort_types::{ClientId, Duration, MemberId, NodeId, OrderWait, Primary, Service, ViewKind};
use consort_wire::{MEMBER_LEN, Malformed, Reader};
use std::ops::Range;

/// The least bytes of one client in a list.
const CLIENT_LEN: usize = MEMBER_LEN + 4 + 2;

impl DaemonEvent {
    /// Reads the body of a frame of this kind.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn decode(kind: u8, body: Bytes) -> Result<Self, Malformed> {
        match kind & 0xf0 {
            MESSAGE => return MessageFront::read(kind, &body, 0).map(|front| Self::Message(front.whole(body))),
            PLACED => return read_placed(kind, body).map(Self::Message),
            READ_MESSAGE if Service::from_wire(kind & 0x0f).is_some() => {
                return read_placed(kind, body).map(Self::Read);
            }
            _ => {}
        }
        if kind & 0xf0 == OFFER {
            return read_offer(kind, body).map(Self::Offer);
        }
        let mut reader = Reader::new(&body);
        let event = match kind {
            WELCOME => Self::Welcome(read_welcome(&mut reader)?),
            PROGRESS => Self::Progress(read_progress(&mut reader)?),
            WAITING => Self::Waiting(read_waiting(&mut reader)?),
            REFUSED => read_refused(&mut reader)?,
            VIEW => Self::View(read_view(&mut reader)?),
            GROUP_VIEW => Self::GroupView(read_group_view(&mut reader)?),
            GROUP_SIGNAL => Self::GroupSignal(GroupSignal {
                group: targets::read_group(&mut reader)?,
                id: read_group_view_id(&mut reader)?,
            }),
            REVOKE => Self::Revoke(reader.u64("offer")?),
            CONFIRM => Self::Confirm(reader.u64("offer")?),
            STATUS => Self::Status(read_status(&mut reader)?),
            HEARTBEAT => Self::Heartbeat,
            PONG => Self::Pong(reader.u64("token")?),
            DISCONNECT => Self::Disconnect(read_disconnect(&mut reader)?),
            INCARNATION => Self::Incarnation(reader.member("sender")?),
            kind => match ProducerStatus::read(kind, &mut reader)? {
                Some(status) => Self::Producer(status),
                None => read_seldom(kind, &mut reader)?,
            },
        };
        reader.end("end of event")?;
        Ok(event)
    }
}

fn read_seldom(kind: u8, reader: &mut Reader<'_>) -> Result<DaemonEvent, Malformed> {
    if let Some(status) = DeclareStatus::read(kind, reader)? {
        return Ok(DaemonEvent::Declared(status));
    }
    if let Some(copies) = read_copies(kind, reader)? {
        return Ok(DaemonEvent::Copies(copies));
    }
    if let Some(bound) = Bound::read(kind, reader)? {
        return Ok(DaemonEvent::Bound(bound));
    }
    if let Some(status) = RotationStatus::read(kind, reader)? {
        return Ok(DaemonEvent::Rotated(status));
    }
    Ok(DaemonEvent::Reading(ReadingStatus::read(kind, reader)?.ok_or(reader.bad("kind"))?))
}

/// What stands before the client's bytes of a message, or of the first one of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageFront {
    pub sender: (NodeId, ClientId),
    pub placement: Option<Placement>,
    service: Service,
    pub name_end: usize,
    targets_at: usize,
    pub targets_len: usize,
}

impl MessageFront {
    /// Reads it; the targets stand so many bytes behind the name.
    pub fn read(kind: u8, body: &[u8], before_targets: usize) -> Result<Self, Malformed> {
        let service = Service::from_wire(kind & 0x0f).ok_or(Malformed { what: "service", at: 0 })?;
        let mut reader = Reader::new(body);
        let sender = (NodeId(reader.u16("sender")?), ClientId(reader.u32("sender")?));
        let before = reader.clone();
        let len = usize::from(reader.u8("sender's name")?);
        // Not made a name of its own here: most receivers never look at it.
        if !ClientName::is_name(reader.take(len, "sender's name")?) {
            return Err(before.bad("sender's name"));
        }
        let name_end = reader.at();
        reader.take(before_targets, "message of a batch")?;
        let targets_at = reader.at();
        let targets = Targets::read(reader.rest()).map_err(|error| Malformed { at: error.at + targets_at, ..error })?;
        let targets_len = targets.encoded_len();
        Ok(Self { sender, placement: None, service, name_end, targets_at, targets_len })
    }

    /// The same where it is known where the message stands.
    pub const fn placement(self, placement: Option<Placement>) -> Self {
        Self { placement, ..self }
    }

    /// The message whose frame has this body.
    pub fn whole<B: AsRef<[u8]>>(self, body: B) -> Message<B> {
        let payload = self.targets_at + self.targets_len..body.as_ref().len();
        self.message(body, payload)
    }

    /// The message whose bytes stand there in this body.
    #[inline]
    pub fn message<B>(self, body: B, payload: Range<usize>) -> Message<B> {
        let Self { sender, placement, service, name_end, targets_at, .. } = self;
        // A frame's length has 32 bits.
        let (name_end, targets_at) = (name_end as u32, targets_at as u32);
        let payload = payload.start as u32..payload.end as u32;
        Message { sender, placement, service, body, name_end, targets_at, payload }
    }
}

/// Where the message stands whose frame has this body.
pub(super) fn read_placement(kind: u8, body: &[u8]) -> Result<Placement, Malformed> {
    let mut reader = Reader::new(body);
    let (position, kind) = (reader.u64("position")?, kind & 0xf0);
    let is_batch = matches!(kind, PLACED_BATCH | READ_BATCH);
    let index = if is_batch { reader.u16("index")? } else { 0 };
    let next = Place::at(position.saturating_add(1));
    let is_read = matches!(kind, READ_MESSAGE | READ_BATCH);
    Ok(Placement { place: Place { position, index }, next, incarnation: None, is_read })
}

fn read_placed(kind: u8, mut body: Bytes) -> Result<Message, Malformed> {
    let placement = Some(read_placement(kind, &body)?);
    let body = body.split_off(PLACED_LEN);
    let front = MessageFront::read(kind, &body, 0).map_err(|error| Malformed { at: error.at + PLACED_LEN, ..error })?;
    Ok(front.placement(placement).whole(body))
}

fn read_offer(kind: u8, mut body: Bytes) -> Result<Offer, Malformed> {
    let mut reader = Reader::new(&body);
    let (number, free) = (reader.u64("offer")?, Duration::from_micros(reader.u32("free time")?.into()));
    let body = body.split_off(OFFER_LEN);
    let front = MessageFront::read(kind, &body, 0).map_err(|error| Malformed { at: error.at + OFFER_LEN, ..error })?;
    Ok(Offer { number, free, message: front.whole(body) })
}

fn read_welcome(reader: &mut Reader<'_>) -> Result<Welcome, Malformed> {
    Ok(Welcome {
        version: reader.u16("version")?,
        daemon: reader.member("daemon")?,
        session: reader.u64("session")?,
        client: ClientId(reader.u32("client")?),
        daemon_name: text::read(reader, "daemon name")?,
        name: ordered::read_client(reader)?,
        message_max: reader.u32("largest message")?,
        credit: reader.u32("credit")?,
        groups_max: reader.u16("most groups")?,
    })
}

fn read_progress(reader: &mut Reader<'_>) -> Result<Progress, Malformed> {
    let (accepted, ordered) = (reader.u64("accepted")?, reader.u64("ordered")?);
    Ok(Progress { accepted, ordered, credit: reader.u64("credit")? })
}

fn read_waiting(reader: &mut Reader<'_>) -> Result<WaitNotice, Malformed> {
    let (up_to, cause, node) = (reader.u64("up to")?, reader.u8("cause")?, reader.u16("node")?);
    let cause = match (cause, node) {
        (WINDOW, 0) => OrderWait::Window,
        (MEMBERSHIP, 0) => OrderWait::Membership,
        (RETENTION, 0) => OrderWait::Retention,
        (QUORUM, 0) => OrderWait::Quorum,
        (RING, ring @ 1..) => OrderWait::Ring(ring),
        (SLOW, node) => OrderWait::Slow(NodeId(node)),
        (SLOW_CLIENT, node) => OrderWait::SlowClient(NodeId(node), ClientId(reader.u32("client")?)),
        _ => return Err(reader.bad("cause")),
    };
    Ok(WaitNotice { up_to, cause })
}

fn read_refused(reader: &mut Reader<'_>) -> Result<DaemonEvent, Malformed> {
    let request = reader.u64("request")?;
    let cause = RefusalCause::from_wire(reader.u8("cause")?).ok_or(reader.bad("cause"))?;
    Ok(DaemonEvent::Refused { request, refusal: Refusal { cause, text: text::read(reader, "text")? } })
}

fn read_disconnect(reader: &mut Reader<'_>) -> Result<Disconnect, Malformed> {
    let parting = DisconnectReason::from_wire(reader.u8("parting")?).ok_or(reader.bad("parting"))?;
    Ok(Disconnect { reason: parting, text: text::read(reader, "text")? })
}

fn read_view(reader: &mut Reader<'_>) -> Result<NetworkView, Malformed> {
    let id = reader.view_id("view")?;
    let kind = match reader.u8("kind of view")? {
        1 => ViewKind::Regular,
        2 => ViewKind::Transitional,
        _ => return Err(reader.bad("kind of view")),
    };
    let primary = read_primary(reader)?;
    let (members, moved_together) = (read_daemons(reader)?, read_daemons(reader)?);
    Ok(NetworkView { id, kind, primary, members, moved_together, cause: text::read(reader, "cause")? })
}

fn read_primary(reader: &mut Reader<'_>) -> Result<Primary, Malformed> {
    Primary::from_wire(reader.u8("primary")?).ok_or(reader.bad("primary"))
}

fn read_group_view(reader: &mut Reader<'_>) -> Result<GroupView, Malformed> {
    let group = targets::read_group(reader)?;
    let id = read_group_view_id(reader)?;
    let flags = reader.u8("flags")?;
    if flags & !CLOSED != 0 {
        return Err(reader.bad("flags"));
    }
    let primary = read_primary(reader)?;
    let cause = ChangeCause::from_wire(reader.u8("cause")?).ok_or(reader.bad("cause"))?;
    let who = read_list(reader, CLIENT_LEN, read_client)?;
    let listed = read_list(reader, CLIENT_LEN + 2, |reader| Ok((read_client(reader)?, reader.u16("set")?)))?;
    let (members, sets) = listed.into_iter().unzip();
    Ok(GroupView { group, id, closed: flags & CLOSED != 0, primary, cause, who, members, sets })
}

fn read_group_view_id(reader: &mut Reader<'_>) -> Result<GroupViewId, Malformed> {
    Ok(GroupViewId { view: reader.view_id("view")?, change: reader.u64("change")? })
}

fn read_status(reader: &mut Reader<'_>) -> Result<Vec<(String, String)>, Malformed> {
    let count = reader.count(4, "pairs")?;
    (0..count).map(|_| Ok((text::read(reader, "key")?, text::read(reader, "value")?))).collect()
}

fn read_daemons(reader: &mut Reader<'_>) -> Result<Vec<MemberId>, Malformed> {
    let count = reader.count(MEMBER_LEN, "daemons")?;
    (0..count).map(|_| reader.member("daemon")).collect()
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    least: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.u32("members")? as usize;
    if count.saturating_mul(least) > reader.left() {
        return Err(reader.bad("members"));
    }
    (0..count).map(|_| read(reader)).collect()
}

fn read_client(reader: &mut Reader<'_>) -> Result<Member, Malformed> {
    let daemon = reader.member("daemon")?;
    let client = ClientId(reader.u32("client")?);
    Ok(Member { daemon, client, name: ordered::read_client(reader)? })
}
