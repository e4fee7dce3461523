//! One session, whatever it speaks.
use crate::clients::Sessions;
use bytes::{Bytes, BytesMut};
use consort_group::ordered::{self, MulticastLayout};
use consort_group::{ClientName, NotRepresentable, Numbered, Targets, batch};
use consort_session::event::ToldAs;
use consort_session::{
    Ask, DaemonEnd, Disconnect, DisconnectReason, FrameQueue, Limits, PendingOffer, Place, ProducerStatus, Refusal,
    RefusalCause, SHARED, SlowRequest, Waits, event, request,
};
use consort_spread::messages::{self, RegularMessage};
use consort_spread::{MulticastNote, Reject, SpreadRequest, SpreadSession};
use consort_types::{ClientId, Duration, GroupName, Instant, MemberId, NodeId, OfferId, OrderWait, Service};
use consort_wire::Payload;
use std::ops::Range;

/// A client's session in the protocol of the listener that took it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are native, and none is to cost a step more for the others")]
pub(crate) enum ClientSession {
    Native(DaemonEnd),
    Spread { session: SpreadSession, client: ClientId, name: Option<ClientName> },
}

/// What a client asks of its node.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    /// What clients of either session protocol ask.
    Common(Ask),
    /// To be let in under this name, or one that the daemon chooses.
    Name(Option<ClientName>),
    /// Nothing: the handshake is over.
    Entered,
}

/// A numbered request that has its place in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placed<'a> {
    /// A join or leave.
    Membership(&'a GroupName),
    /// A message, or a batch of so many; so many bytes in the order.
    Multicasts { messages: usize, len: usize },
}

impl Placed<'_> {
    /// How many requests have their place.
    pub const fn requests(self) -> u64 {
        match self {
            Self::Membership(_) => 1,
            Self::Multicasts { messages, .. } => messages as u64,
        }
    }
}

/// A message for clients here, or a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling<'a> {
    pub sender: (MemberId, ClientId),
    /// The sender, if it is a client of this node.
    pub own: Option<ClientId>,
    pub service: Service,
    pub messages: usize,
    pub payload: &'a Payload,
    pub told: MulticastLayout,
    /// Where it stands.
    pub place: Place,
    /// What optimistic clients know it by.
    pub offer: OfferId,
    pub now: Instant,
    /// What was written for all of many receivers.
    pub written: Option<&'a Written>,
}

/// A message as many clients read it, in each session protocol.
#[derive(Debug)]
pub(crate) struct Written {
    native: Bytes,
    /// For native clients that want positions.
    placed: Bytes,
    spread: Vec<Bytes>,
    /// Some message of it cannot be told to Spread clients.
    not_representable: bool,
}

impl Written {
    /// Writes it for those session protocols that have readers.
    pub fn new(telling: &Telling<'_>, readers: &[ClientId], clients: &Sessions) -> Self {
        let Telling { sender, service, payload, told, .. } = telling;
        let native = match readers.iter().any(|client| !client.speaks_spread()) {
            true => clients.keep_all(event::message(sender.0.node, *service, payload, told)),
            false => Bytes::new(),
        };
        let told_as = ToldAs::Member(telling.place);
        let placed = match readers.iter().any(|client| clients.wants_positions(*client)) {
            true => clients.keep_all(event::placed(sender.0.node, *service, payload, told, told_as)),
            false => Bytes::new(),
        };
        let (mut spread, mut not_representable) = (Vec::new(), false);
        if readers.iter().any(|client| client.speaks_spread()) {
            not_representable = !telling.each_for_spread(|message| {
                let mut out = BytesMut::new();
                messages::put_message(&mut out, message);
                spread.push(clients.keep(&mut out));
            });
        }
        Self { native, placed, spread, not_representable }
    }

    /// How many bytes of it are copied for each reader.
    pub fn copied(&self) -> usize {
        let small = |frame: &&Bytes| frame.len() < SHARED;
        [&self.native, &self.placed].into_iter().chain(&self.spread).filter(small).map(Bytes::len).sum()
    }
}

impl Telling<'_> {
    /// As an offer that is confirmed at once, if it was not made before.
    fn offered(&self, multicast: Payload, told_at: usize) -> PendingOffer {
        let (sender, service) = (self.sender.0.node, self.service);
        PendingOffer { id: self.offer, free_until: self.now, sender, service, multicast, told_at }
    }

    /// Tells an optimistic client. Batches are not on offer before: their messages are offered one by one.
    fn confirm(&self, session: &mut DaemonEnd) {
        //= G42
        if !self.told.batch {
            return session.tell_confirm(self.now, &self.offered(self.payload.clone(), self.told.at));
        }
        self.each_apart(|_, message| session.tell_confirm(self.now, &self.offered(message, 0)));
    }

    /// Tells a native client that wants positions.
    fn tell_placed(&self, session: &mut DaemonEnd) {
        let Telling { sender, service, payload, told, place, written, .. } = self;
        match written {
            Some(written) => session.tell_placed_shared(sender.0, &written.placed),
            None => session.tell_placed(sender.0, *service, payload, told, ToldAs::Member(*place)),
        }
    }

    /// Calls `see` with each message as Spread clients are told it; false if some cannot be told.
    fn each_for_spread(&self, mut see: impl FnMut(&RegularMessage<'_>)) -> bool {
        let Self { sender, service, payload, told, .. } = self;
        let sender = messages::private_text(&told.name(payload), sender.0.node);
        let note = told.note.map_or(MulticastNote::of(*service), MulticastNote::decode);
        let mut see = |targets: Targets<'_>, payload: &Payload, from| {
            let fits = NotRepresentable::of(targets, payload.len().saturating_sub(from)).is_none();
            if fits {
                see(&RegularMessage { sender: &sender, note, targets, payload, from });
            }
            fits
        };
        if !told.batch {
            let see = |targets: Targets<'_>| see(targets, payload, told.targets_at + targets.encoded_len());
            return Targets::of(payload, told.targets_at, see).unwrap_or(false);
        }
        let mut all = true;
        let name = told.body_at() - told.at;
        self.each_apart(|targets, message| all &= see(targets, &message, name + targets.encoded_len()));
        all
    }

    /// Tells a Spread client; false if some of it cannot be told.
    fn tell_spread(&self, session: &mut SpreadSession, own: bool) -> bool {
        let Some(written) = self.written else {
            return self.each_for_spread(|message| session.tell_message(message, own));
        };
        let note = self.told.note.map_or(MulticastNote::of(self.service), MulticastNote::decode);
        if !(own && note.is_self_discard()) {
            written.spread.iter().for_each(|frame| session.tell_shared(frame));
        }
        !written.not_representable
    }

    /// Calls `see` with each message of a batch: its targets, and all that receivers are told of it.
    fn each_apart(&self, mut see: impl FnMut(Targets<'_>, Payload)) {
        let Self { payload, told, .. } = *self;
        let mut frames = Payload::clone(payload);
        frames.split_to(told.at);
        let sender = frames.split_to(told.body_at() - told.at);
        let frames = frames.to_bytes();
        let _ = Targets::of(payload, told.targets_at, |targets| {
            let len = targets.encoded_len();
            for data in batch::messages(&frames, len) {
                let body = frames.slice(data.start - len..data.end);
                see(targets, sender.parts().cloned().chain([body]).collect());
            }
        });
    }
}

impl ClientSession {
    pub fn new(client: ClientId) -> Self {
        if client.speaks_spread() {
            Self::Spread { session: SpreadSession::new(), client, name: None }
        } else {
            Self::Native(DaemonEnd::new(client))
        }
    }

    /// What the client is called, once it was let in or is being let in under it.
    pub fn named(&self) -> Option<&ClientName> {
        match self {
            Self::Native(session) => Some(session.name()).filter(|_| session.is_open()),
            Self::Spread { session, name, .. } => name.as_ref().filter(|_| !session.is_closed()),
        }
    }

    pub fn is_open(&self) -> bool {
        match self {
            Self::Native(session) => session.is_open(),
            Self::Spread { session, .. } => session.is_open(),
        }
    }

    pub fn is_closed(&self) -> bool {
        match self {
            Self::Native(session) => session.is_closed(),
            Self::Spread { session, .. } => session.is_closed(),
        }
    }

    pub fn wants_views(&self) -> bool {
        matches!(self, Self::Native(session) if session.wants_views())
    }

    /// Whether it said that it only asks.
    pub const fn only_asks(&self) -> bool {
        matches!(self, Self::Native(session) if session.only_asks())
    }

    /// How often it wants to be told that this daemon is at work, if at all.
    pub const fn heartbeats(&self) -> Option<Duration> {
        match self {
            Self::Native(session) => session.heartbeats(),
            Self::Spread { .. } => None,
        }
    }

    pub fn tell_heartbeat(&mut self) {
        if let Self::Native(session) = self {
            session.tell_heartbeat();
        }
    }

    pub fn refused(&self) -> u64 {
        match self {
            Self::Native(session) => session.refused(),
            Self::Spread { session, .. } => session.refused(),
        }
    }

    pub fn progress_is_due(&self) -> bool {
        matches!(self, Self::Native(session) if session.progress_is_due())
    }

    pub fn tell_progress(&mut self) {
        if let Self::Native(session) = self {
            session.tell_progress();
        }
    }

    /// Tells a native client what its requests wait for, if they do for long; the others cannot be told.
    pub fn tell_waiting(&mut self, cause: Option<OrderWait>) -> Waits {
        match self {
            Self::Native(session) => session.tell_waiting(cause),
            Self::Spread { .. } => Waits::No,
        }
    }

    /// Whether its requests must wait until others of it have their place. Native clients are told by refusals instead.
    pub fn is_held_back(&self, limits: &Limits) -> bool {
        matches!(self, Self::Spread { session, .. } if session.is_held_back(limits.credit))
    }

    /// How many bytes of its requests are under way.
    pub fn outstanding(&self) -> usize {
        match self {
            Self::Native(session) => session.outstanding(),
            Self::Spread { session, .. } => session.outstanding(),
        }
    }

    /// How many messages wait, where that matters.
    pub fn messages_waiting(&self) -> usize {
        match self {
            Self::Native(_) => 0,
            Self::Spread { session, .. } => session.messages_waiting(),
        }
    }

    pub fn feed(&mut self, bytes: Bytes) {
        match self {
            Self::Native(session) => session.feed(bytes),
            Self::Spread { session, .. } => session.feed(bytes),
        }
    }

    pub fn next(&mut self, limits: &Limits) -> Result<Option<ClientRequest>, Disconnect> {
        match self {
            Self::Native(session) => session.next(limits).map(|ask| ask.map(ClientRequest::Common)),
            Self::Spread { session, client, name } => {
                Ok(session.ask()?.map(|ask| client_request(ask, *client, name.as_ref())))
            }
        }
    }

    /// The groups that it asks to join in what was not taken yet. A Spread client waits for each.
    pub fn joins_ahead(&self) -> Vec<GroupName> {
        match self {
            Self::Native(session) => session.joins_ahead(),
            Self::Spread { .. } => Vec::new(),
        }
    }

    /// Lets a Spread client go on with its handshake under this name.
    pub fn name(&mut self, chosen: ClientName, node: NodeId) {
        if let Self::Spread { session, name, .. } = self {
            session.name(&format!("#{chosen}#{node}"));
            *name = Some(chosen);
        }
    }

    /// The farewell of a client whose name is another's.
    pub fn reject_name(&mut self, name: &ClientName) -> Disconnect {
        let text = format!("another client of this daemon is called {name}; choose another name, or none");
        match self {
            Self::Native(_) => Disconnect::new(DisconnectReason::NameTaken, text),
            Self::Spread { session, .. } => {
                Disconnect { reason: DisconnectReason::NameTaken, ..session.reject(Reject::NotUnique) }
            }
        }
    }

    /// The farewell of a client for which there is no place.
    pub fn turn_back(&mut self, text: String) -> Disconnect {
        //= S07
        if let Self::Spread { session, .. } = self {
            session.reject(Reject::Quota);
        }
        Disconnect::new(DisconnectReason::TooManyClients, text)
    }

    /// The token that it showed, once.
    pub const fn take_token(&mut self) -> Option<String> {
        match self {
            Self::Native(session) => session.take_token(),
            Self::Spread { .. } => None,
        }
    }

    /// Says in the Spread protocol that the client may not come in.
    pub fn deny(&mut self) {
        if let Self::Spread { session, .. } = self {
            session.reject(Reject::Auth);
        }
    }

    pub fn welcome(&mut self, name: ClientName, me: MemberId, limits: &Limits) {
        if let Self::Native(session) = self {
            session.welcome(name, me, &me.node.to_string(), limits);
        }
    }

    /// Returns how many requests were accepted.
    pub fn accept(&mut self) -> u64 {
        match self {
            Self::Native(session) => session.accept(),
            Self::Spread { session, .. } => {
                session.accept();
                1
            }
        }
    }

    pub fn refuse(&mut self, refusal: &Refusal) {
        match self {
            Self::Native(session) => session.refuse(refusal),
            Self::Spread { session, .. } => session.refuse(),
        }
    }

    /// The oldest request under way has its place, and changed nothing if there is a refusal.
    pub fn order(&mut self, placed: Placed<'_>, refusal: Option<&Refusal>) -> Range<u64> {
        match self {
            Self::Native(session) => {
                let first = match placed {
                    Placed::Membership(group) => session.order(request::membership_len(group)),
                    Placed::Multicasts { messages, len } => session.order_multicasts(messages, len),
                };
                first..first + placed.requests()
            }
            //= S24
            Self::Spread { session, .. } => {
                session.order(refusal.is_some_and(|refusal| {
                    !matches!(refusal.cause, RefusalCause::AlreadyMember | RefusalCause::NotMember)
                }));
                0..placed.requests()
            }
        }
    }

    /// Tells that requests are refused; in the Spread protocol the answer was their place.
    pub fn tell_refused(&mut self, requests: Range<u64>, refusal: &Refusal) {
        if let Self::Native(session) = self {
            requests.for_each(|number| session.tell_refused(number, refusal));
        }
    }

    /// Appends a message. False if it cannot be told in its session protocol.
    pub fn tell_message(&mut self, telling: &Telling<'_>) -> bool {
        match self {
            //= G42
            Self::Native(session) if session.is_optimistic() => {
                telling.confirm(session);
                true
            }
            Self::Native(session) if session.wants_positions() => {
                telling.tell_placed(session);
                true
            }
            Self::Native(session) => {
                let Telling { sender, service, payload, told, written, .. } = telling;
                match written {
                    Some(written) => session.tell_shared(&written.native),
                    None => session.tell_message(sender.0.node, *service, payload, told),
                }
                true
            }
            Self::Spread { session, client, .. } => telling.tell_spread(session, telling.own == Some(*client)),
        }
    }

    /// Appends a message that a reader is told.
    pub fn tell_read(&mut self, telling: &Telling<'_>) {
        if let Self::Native(session) = self {
            let Telling { sender, service, payload, told, place, .. } = telling;
            session.tell_placed(sender.0, *service, payload, told, ToldAs::Reader(*place));
        }
    }

    /// Whether its messages come with their position.
    pub const fn wants_positions(&self) -> bool {
        matches!(self, Self::Native(session) if session.wants_positions())
    }

    /// Whether it is offered messages before their place is final.
    pub const fn is_optimistic(&self) -> bool {
        matches!(self, Self::Native(session) if session.is_optimistic())
    }

    pub fn tell_offer(&mut self, now: Instant, offered: &PendingOffer) {
        if let Self::Native(session) = self {
            session.tell_offer(now, offered);
        }
    }

    /// False if it is not on offer.
    pub fn tell_revoke(&mut self, now: Instant, offer: OfferId) -> bool {
        if let Self::Native(session) = self { session.tell_revoke(now, offer) } else { false }
    }

    /// Tells a native client how its producer is.
    pub fn tell_producer(&mut self, status: &ProducerStatus) {
        if let Self::Native(session) = self {
            session.tell_producer(status);
        }
    }

    /// From here on a native client's multicasts are numbered.
    pub const fn number(&mut self, first: Numbered) {
        if let Self::Native(session) = self {
            session.number(first);
        }
    }

    /// Its multicasts are refused until its producer is opened again. Whether that is new.
    pub const fn end_numbering(&mut self) -> bool {
        match self {
            Self::Native(session) => session.end_numbering(),
            Self::Spread { .. } => false,
        }
    }

    /// Appends frames that [`consort_session::event`] has written.
    pub fn tell(&mut self, frames: &[u8]) {
        if let Self::Native(session) = self {
            session.tell(frames);
        }
    }

    /// The same for frames that other clients are told, too.
    pub fn tell_shared(&mut self, frames: &Bytes) {
        if let Self::Native(session) = self {
            session.tell_shared(frames);
        }
    }

    /// The frame that it has begun and not finished.
    pub fn begun(&self) -> Option<(u64, usize)> {
        match self {
            Self::Native(session) => session.begun(),
            Self::Spread { session, .. } => session.begun(),
        }
    }

    /// Appends what [`consort_spread::messages`] has written.
    pub fn tell_membership(&mut self, written: &Bytes) {
        if let Self::Spread { session, .. } = self {
            session.tell_membership(written);
        }
    }

    /// Appends that a Spread client has left a group.
    pub fn tell_self_leave(&mut self, group: &GroupName) {
        if let Self::Spread { session, .. } = self {
            session.tell_self_leave(group);
        }
    }

    pub fn close(&mut self, farewell: &Disconnect) {
        match self {
            Self::Native(session) => session.close(farewell),
            Self::Spread { session, .. } => session.close(farewell.reason == DisconnectReason::Slow),
        }
    }

    pub const fn output(&self) -> &FrameQueue {
        match self {
            Self::Native(session) => session.output(),
            Self::Spread { session, .. } => session.output(),
        }
    }

    /// What it said is to be done if it does not read.
    pub const fn slow(&self) -> Option<SlowRequest> {
        match self {
            Self::Native(session) => session.slow(),
            Self::Spread { .. } => None,
        }
    }

    /// The output, where it can be kept on disk.
    pub const fn spoolable(&mut self) -> Option<&mut FrameQueue> {
        match self {
            Self::Native(session) => Some(session.output_mut()),
            Self::Spread { .. } => None,
        }
    }

    pub fn written(&mut self, n: usize) {
        match self {
            Self::Native(session) => session.written(n),
            Self::Spread { session, .. } => session.written(n),
        }
    }

    pub fn wakes(&mut self) -> bool {
        match self {
            Self::Native(session) => session.wakes(),
            Self::Spread { session, .. } => session.wakes(),
        }
    }
}

fn client_request(ask: SpreadRequest, client: ClientId, name: Option<&ClientName>) -> ClientRequest {
    ClientRequest::Common(match ask {
        SpreadRequest::Name(chosen) => return ClientRequest::Name(chosen),
        SpreadRequest::Entered => return ClientRequest::Entered,
        SpreadRequest::Join(group) => Ask::Join { group, closed: false },
        SpreadRequest::Leave(group) => Ask::Leave(group),
        SpreadRequest::GivenBack => Ask::Refused,
        SpreadRequest::Kill => Ask::Goodbye,
        SpreadRequest::Multicast { service, note, targets, data } => {
            let name = name.cloned().unwrap_or_else(|| ClientName::unchosen(client));
            let mut head = ordered::noted_prefix(client, &name, note.encode());
            head.extend_from_slice(&targets);
            Ask::Multicast { service, payload: [head.freeze(), data].into_iter().collect() }
        }
    })
}
