//! One session, whatever it speaks.
use bytes::Bytes;
use consort_group::ordered::{self, Told};
use consort_group::{ClientName, Misfit, Targets, batch};
use consort_session::{
    Ask, Farewell, Limits, Offered, Output, Parting, Refusal, RefusalCause, Session, Waits, request,
};
use consort_spread::told::{self, Message};
use consort_spread::{Ask as SpreadAsk, Note, Reject, Session as SpreadSession};
use consort_types::{ClientId, GroupName, Hold, Instant, MemberId, NodeId, OfferId, Service};
use consort_wire::Payload;

/// A client's session at the door through which it came.
#[derive(Debug)]
pub(crate) enum Door {
    Native(Session),
    Spread { session: SpreadSession, client: ClientId, name: Option<ClientName> },
}

/// What a client asks of its node.
#[derive(Debug)]
pub(crate) enum Wish {
    /// What clients of every door ask.
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
    pub told: Told,
    /// What optimistic clients know it by.
    pub offer: OfferId,
    pub now: Instant,
}

impl Telling<'_> {
    /// As an offer that is confirmed at once, if it was not made before.
    fn offered(&self, multicast: Payload, told_at: usize) -> Offered {
        let (sender, service) = (self.sender.0.node, self.service);
        Offered { id: self.offer, free_until: self.now, sender, service, multicast, told_at }
    }

    /// Tells an optimistic client. Batches are not on offer before: their messages are offered one by one.
    fn confirm(&self, session: &mut Session) {
        //= G42
        if !self.told.batch {
            return session.tell_confirm(self.now, &self.offered(self.payload.clone(), self.told.at));
        }
        self.each_apart(|_, message| session.tell_confirm(self.now, &self.offered(message, 0)));
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

impl Door {
    pub fn new(client: ClientId) -> Self {
        if client.speaks_spread() {
            Self::Spread { session: SpreadSession::new(), client, name: None }
        } else {
            Self::Native(Session::new(client))
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
    pub fn tell_waiting(&mut self, hold: Option<Hold>) -> Waits {
        match self {
            Self::Native(session) => session.tell_waiting(hold),
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

    pub fn next(&mut self, limits: &Limits) -> Result<Option<Wish>, Farewell> {
        match self {
            Self::Native(session) => session.next(limits).map(|ask| ask.map(Wish::Common)),
            Self::Spread { session, client, name } => Ok(session.ask()?.map(|ask| wish(ask, *client, name.as_ref()))),
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
    pub fn reject_name(&mut self, name: &ClientName) -> Farewell {
        let text = format!("another client of this daemon is called {name}; choose another name, or none");
        match self {
            Self::Native(_) => Farewell::new(Parting::NameTaken, text),
            Self::Spread { session, .. } => {
                Farewell { parting: Parting::NameTaken, ..session.reject(Reject::NotUnique) }
            }
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
    pub fn order(&mut self, placed: Placed<'_>, refusal: Option<&Refusal>) {
        match self {
            Self::Native(session) => {
                let first = match placed {
                    Placed::Membership(group) => session.order(request::membership_len(group)),
                    Placed::Multicasts { messages, len } => session.order_multicasts(messages, len),
                };
                if let Some(refusal) = refusal {
                    (first..first + placed.requests()).for_each(|number| session.tell_refused(number, refusal));
                }
            }
            //= S24
            Self::Spread { session, .. } => session.order(refusal.is_some_and(|refusal| {
                !matches!(refusal.cause, RefusalCause::AlreadyMember | RefusalCause::NotMember)
            })),
        }
    }

    /// Appends a message. False if it cannot be told at this door.
    pub fn tell_message(&mut self, telling: &Telling<'_>) -> bool {
        match self {
            //= G42
            Self::Native(session) if session.is_optimistic() => {
                telling.confirm(session);
                true
            }
            Self::Native(session) => {
                let Telling { sender, service, payload, told, .. } = telling;
                session.tell_message(sender.0.node, *service, payload, told);
                true
            }
            Self::Spread { session, client, .. } => tell_spread(session, telling, telling.own == Some(*client)),
        }
    }

    /// Whether it is offered messages before their place is final.
    pub const fn is_optimistic(&self) -> bool {
        matches!(self, Self::Native(session) if session.is_optimistic())
    }

    pub fn tell_offer(&mut self, now: Instant, offered: &Offered) {
        if let Self::Native(session) = self {
            session.tell_offer(now, offered);
        }
    }

    /// False if it is not on offer.
    pub fn tell_revoke(&mut self, now: Instant, offer: OfferId) -> bool {
        if let Self::Native(session) = self { session.tell_revoke(now, offer) } else { false }
    }

    /// Appends frames that [`consort_session::event`] has written.
    pub fn tell(&mut self, frames: &[u8]) {
        if let Self::Native(session) = self {
            session.tell(frames);
        }
    }

    /// The same for frames that `readers` clients are told.
    pub fn tell_shared(&mut self, frames: &Bytes, readers: usize) {
        if let Self::Native(session) = self {
            session.tell_shared(frames, readers);
        }
    }

    /// The frame that it has begun and not finished, where that matters.
    pub fn begun(&self) -> Option<(u64, usize)> {
        match self {
            Self::Native(session) => session.begun(),
            Self::Spread { .. } => None,
        }
    }

    /// Appends what [`consort_spread::told`] has written.
    pub fn tell_membership(&mut self, written: &Bytes, readers: usize) {
        if let Self::Spread { session, .. } = self {
            session.tell_membership(written, readers);
        }
    }

    /// Appends that a Spread client has left a group.
    pub fn tell_self_leave(&mut self, group: &GroupName) {
        if let Self::Spread { session, .. } = self {
            session.tell_self_leave(group);
        }
    }

    pub fn close(&mut self, farewell: &Farewell) {
        match self {
            Self::Native(session) => session.close(farewell),
            Self::Spread { session, .. } => session.close(farewell.parting == Parting::Slow),
        }
    }

    pub const fn output(&self) -> &Output {
        match self {
            Self::Native(session) => session.output(),
            Self::Spread { session, .. } => session.output(),
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

fn wish(ask: SpreadAsk, client: ClientId, name: Option<&ClientName>) -> Wish {
    Wish::Common(match ask {
        SpreadAsk::Name(chosen) => return Wish::Name(chosen),
        SpreadAsk::Entered => return Wish::Entered,
        SpreadAsk::Join(group) => Ask::Join { group, closed: false },
        SpreadAsk::Leave(group) => Ask::Leave(group),
        SpreadAsk::Kill => Ask::Goodbye,
        SpreadAsk::Multicast { service, note, targets, data } => {
            let name = name.cloned().unwrap_or_else(|| ClientName::unchosen(client));
            let mut head = ordered::noted_prefix(client, &name, note.encode());
            head.extend_from_slice(&targets);
            Ask::Multicast { service, payload: [head.freeze(), data].into_iter().collect() }
        }
    })
}

fn tell_spread(session: &mut SpreadSession, telling: &Telling<'_>, own: bool) -> bool {
    let Telling { sender, service, payload, told, .. } = telling;
    let sender = told::private_text(&told.name(payload), sender.0.node);
    let note = told.note.map_or(Note::of(*service), Note::decode);
    let mut tell = |targets: Targets<'_>, payload: &Payload, from| {
        let fits = Misfit::of(targets, payload.len().saturating_sub(from)).is_none();
        if fits {
            session.tell_message(&Message { sender: &sender, note, targets, payload, from }, own);
        }
        fits
    };
    if !told.batch {
        let tell = |targets: Targets<'_>| tell(targets, payload, told.targets_at + targets.encoded_len());
        return Targets::of(payload, told.targets_at, tell).unwrap_or(false);
    }
    let mut all = true;
    let name = told.body_at() - told.at;
    telling.each_apart(|targets, message| all &= tell(targets, &message, name + targets.encoded_len()));
    all
}
