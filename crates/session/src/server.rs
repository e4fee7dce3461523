//! A daemon's end of one connection.
use crate::declaring::DeclareRequest;
use crate::event::{self, ToldAs, Welcome};
use crate::frame::{self, Alike, Frames, HEAD_LEN, Head};
use crate::ledger::RequestLedger;
use crate::limits::SMALL_FRAME;
use crate::listing::ListQuery;
use crate::numbering::{Numbering, ProducerStatus};
use crate::offers::{OpenOffers, PendingOffer};
use crate::output::FrameQueue;
use crate::reading::ReadRequest;
use crate::request::{self, Hello, NotHello, Request};
use crate::watch::{WaitWatch, Waits};
use crate::{Disconnect, DisconnectReason, Limits, Refusal, RefusalCause, SlowRequest, VERSION};
use bytes::Bytes;
use consort_group::OpenRequest;
use consort_group::ordered::{self, MulticastLayout};
use consort_group::{ClientName, Numbered, batch};
use consort_types::{
    Binding, ClientId, Duration, GroupName, Holder, Incarnation, Instant, MemberId, NodeId, OfferId, OrderWait, Service,
};
use consort_wire::{Malformed, Payload};
use std::collections::BTreeMap;

/// So far it is looked ahead in what a client has sent.
const AHEAD: usize = 16 << 10;

/// One client of a daemon: what it said and was not yet taken, what it has under way, what it is to read.
///
/// Bytes go in by [`Self::feed`]; [`Self::next`] says what the client asks. A numbered request stays at the front until
/// [`Self::accept`] or [`Self::refuse`] settles it, so one that cannot be taken now is simply asked for again later and
/// nothing overtakes it.
#[derive(Debug)]
pub struct DaemonEnd {
    client: ClientId,
    stage: SessionStage,
    name: ClientName,
    wants_views: bool,
    only_asks: bool,
    wants_positions: bool,
    /// How often it is told that this daemon is at work.
    heartbeats: Option<Duration>,
    /// What is to be done if it does not read, if it said so.
    slow: Option<SlowRequest>,
    /// What it showed, until it is looked at.
    token: Option<String>,
    /// Of each node the incarnation that the client was told last.
    told_incarnations: BTreeMap<NodeId, Incarnation>,
    offers: Option<OpenOffers>,
    prefix: Bytes,
    batch_prefix: Bytes,
    input: Frames,
    /// What [`Self::next`] returned and is not settled.
    asked: Option<Alike>,
    /// Whether that is a multicast.
    asks_multicast: bool,
    ledger: RequestLedger,
    numbering: Numbering,
    refused: u64,
    progress_due: bool,
    watch: WaitWatch,
    output: FrameQueue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    /// Waits for a hello.
    Silent,
    /// Takes requests.
    Open,
    /// Said its farewell; only its output still matters.
    Closed,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To be let in under this name, or one that the daemon chooses; answer with [`DaemonEnd::welcome`].
    Hello(Option<ClientName>),
    /// To join a group. Numbered.
    Join {
        /// Which one.
        group: GroupName,
        /// Only members may send to it, if it has none yet.
        closed: bool,
    },
    /// To leave a group. Numbered.
    Leave(GroupName),
    /// To have a message ordered, or a batch of them. Each is numbered.
    Multicast {
        /// How strongly.
        service: Service,
        /// The whole payload for the order, its prefix included; shares the bytes that were read.
        payload: Payload,
    },
    /// The daemon's status; answer with [`DaemonEnd::tell`].
    Status,
    /// Nothing any more: what it has asked is refused already, because it is beyond a budget.
    Refused,
    /// An answer with this number, which shows that the daemon is at work: [`event::put_pong`].
    Ping(u64),
    /// A page of a list; answer with [`DaemonEnd::tell`].
    List(ListQuery),
    /// To read by position, or to end it; answer with [`DaemonEnd::tell`].
    Read(ReadRequest),
    /// To have its sends numbered; answer with [`DaemonEnd::tell_producer`] and [`DaemonEnd::number`]. Sends are refused until
    /// then.
    Open(OpenRequest),
    /// To have its producer forgotten.
    Forget,
    /// To have it known what it keeps by itself; answer with [`DaemonEnd::tell`].
    Declare(DeclareRequest),
    /// What the order knows of the copies of a holder's program; answer with [`DaemonEnd::tell`].
    Copies(Holder),
    /// To have a copy of a program bound; answer with [`DaemonEnd::tell`].
    Bind(Binding),
    /// That all daemons seal with the next key; answer with [`DaemonEnd::tell`].
    Rotate,
    /// To end the session; all it sent is in the order or on its way there.
    Goodbye,
}

impl DaemonEnd {
    /// A connection that has not said anything.
    pub fn new(client: ClientId) -> Self {
        let name = ClientName::unchosen(client);
        Self {
            client,
            stage: SessionStage::Silent,
            wants_views: false,
            only_asks: false,
            wants_positions: false,
            heartbeats: None,
            slow: None,
            token: None,
            told_incarnations: BTreeMap::new(),
            offers: None,
            prefix: ordered::multicast_prefix(client, &name),
            batch_prefix: ordered::batch_prefix(client, &name),
            name,
            input: Frames::new(HEAD_LEN + request::BODY_MAX),
            asked: None,
            asks_multicast: false,
            ledger: RequestLedger::default(),
            numbering: Numbering::Off,
            refused: 0,
            progress_due: false,
            watch: WaitWatch::default(),
            output: FrameQueue::default(),
        }
    }

    /// What the client is called.
    pub const fn name(&self) -> &ClientName {
        &self.name
    }

    /// Whether it takes requests: it was let in and has not been sent away.
    pub fn is_open(&self) -> bool {
        self.stage == SessionStage::Open
    }

    /// Whether it was sent away.
    pub fn is_closed(&self) -> bool {
        self.stage == SessionStage::Closed
    }

    /// Whether its hello is still missing.
    pub fn is_silent(&self) -> bool {
        self.stage == SessionStage::Silent
    }

    /// Whether it wants to read of network views.
    pub const fn wants_views(&self) -> bool {
        self.wants_views
    }

    /// Whether it said that it only asks: it may not join, leave or send.
    pub const fn only_asks(&self) -> bool {
        self.only_asks
    }

    /// Whether its messages come with their position and their sender's incarnation.
    pub const fn wants_positions(&self) -> bool {
        self.wants_positions
    }

    /// How often it wants to be told that this daemon is at work, if at all.
    pub const fn heartbeats(&self) -> Option<Duration> {
        self.heartbeats
    }

    /// What it said is to be done if it does not read.
    pub const fn slow(&self) -> Option<SlowRequest> {
        self.slow
    }

    /// The token that it showed in its hello; once.
    pub const fn take_token(&mut self) -> Option<String> {
        self.token.take()
    }

    /// Whether it is offered messages before their place is final.
    pub const fn is_optimistic(&self) -> bool {
        self.offers.is_some()
    }

    /// The frame that it has begun and not finished, by its number in the session, and its length.
    pub fn begun(&self) -> Option<(u64, usize)> {
        self.input.begun().map(|len| (self.input.passed(), len))
    }

    /// How many bytes it sent that were not taken yet.
    pub const fn input_held(&self) -> usize {
        self.input.held()
    }

    /// How many bytes of its requests are under way.
    pub const fn outstanding(&self) -> usize {
        self.ledger.outstanding()
    }

    /// The groups that the client asks to join in what it has sent so far and was not taken yet.
    pub fn joins_ahead(&self) -> Vec<GroupName> {
        let frames = self.input.ahead(AHEAD).into_iter();
        frames.filter_map(|(kind, body)| request::joined_group(kind, &body)).collect()
    }

    /// The client's next bytes. A closed session takes none.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.stage != SessionStage::Closed {
            self.input.push(bytes);
        }
    }

    /// What the client asks next; `None` until more bytes come.
    ///
    /// # Errors
    /// The [`Disconnect`] for a client that breaks the protocol; hand it to [`Self::close`].
    pub fn next(&mut self, limits: &Limits) -> Result<Option<Ask>, Disconnect> {
        if self.stage == SessionStage::Closed {
            return Ok(None);
        }
        let whole = self.input.whole();
        let Some(head) = whole.map_err(|error| self.malformed(error))? else { return Ok(None) };
        self.asked = Some(head.into());
        let service = request::multicast_service(head.kind);
        self.asks_multicast = service.is_some();
        let ask = match (self.stage, service) {
            (SessionStage::Silent, _) => self.on_hello(head, limits)?,
            (_, Some(service)) => self.on_multicast(head, service, limits).map_err(|e| self.in_body(e))?,
            (_, None) => self.on_other(head, limits).map_err(|e| self.in_body(e))?,
        };
        Ok(Some(ask))
    }

    fn on_hello(&mut self, head: Head, limits: &Limits) -> Result<Ask, Disconnect> {
        if !request::is_hello(head.kind) {
            return Err(self.malformed(Malformed { what: "hello", at: 0 }));
        }
        let hello = Hello::decode(&self.body(head, Payload::new()).to_bytes()).map_err(|error| match error {
            NotHello::Version(version) => Disconnect::new(
                DisconnectReason::Version,
                format!("this daemon speaks version {VERSION} of the client protocol, not {version}"),
            ),
            NotHello::Malformed(error) => self.in_body(error),
        })?;
        self.settle();
        self.stage = SessionStage::Open;
        self.input.allow(limits.frame_max());
        (self.wants_views, self.only_asks) = (hello.wants_views, hello.only_asks);
        (self.wants_positions, self.heartbeats) = (hello.wants_positions, hello.heartbeats);
        self.slow = hello.slow;
        self.offers = hello.optimistic.map(OpenOffers::new);
        self.token = hello.token;
        Ok(Ask::Hello(hello.name))
    }

    fn on_multicast(&mut self, head: Head, service: Service, limits: &Limits) -> Result<Ask, Malformed> {
        self.may_do_more_than_ask()?;
        let payload = self.body(head, self.prefix.clone().into());
        let (groups, len) = request::check_multicast(&payload, self.prefix.len())?;
        let refusal = if len > limits.message_max {
            let text = format!("a message of {len} bytes; this cluster allows {}", limits.message_max);
            Refusal::new(RefusalCause::TooLarge, text)
        } else if groups > limits.groups_max {
            let text = format!("a message to {groups} groups; this daemon allows {}", limits.groups_max);
            Refusal::new(RefusalCause::TooManyTargets, text)
        } else if let Some(refusal) = self.numbering.refusal().or_else(|| self.over_budget(head, limits)) {
            refusal
        } else {
            let targets = payload.len() - self.prefix.len() - len;
            let batch = if service < limits.batch_from { None } else { self.batch(head, targets, limits) };
            let mut payload = batch.unwrap_or(payload);
            if let Some(prefix) = self.numbering.prefix() {
                payload = std::iter::once(prefix).chain(payload.parts().cloned()).collect();
            }
            return Ok(Ask::Multicast { service, payload });
        };
        self.refuse(&refusal);
        Ok(Ask::Refused)
    }

    /// The multicast at the front together with those behind it that are alike, if there are any.
    fn batch(&mut self, head: Head, targets: usize, limits: &Limits) -> Option<Payload> {
        //= G09
        let credit = limits.credit.saturating_sub(self.ledger.outstanding());
        let most = limits.batch_max.min(batch::MAX).min(limits.message_max).min(credit);
        let alike = self.input.alike(head, targets, most);
        (alike.frames > 1).then(|| {
            self.asked = Some(alike);
            [self.batch_prefix.clone(), self.input.front_piece(alike.len)].into_iter().collect()
        })
    }

    fn on_other(&mut self, head: Head, limits: &Limits) -> Result<Ask, Malformed> {
        let ask = match request::decode(head, &self.body(head, Payload::new()))? {
            Request::Join { group, closed } => Ask::Join { group, closed },
            Request::Leave(group) => Ask::Leave(group),
            Request::Status => return Ok(self.settled(Ask::Status)),
            Request::List(question) => return Ok(self.settled(Ask::List(question))),
            Request::Read(request) => {
                self.may_do_more_than_ask()?;
                return Ok(self.settled(Ask::Read(request)));
            }
            Request::Open(request) => {
                self.may_do_more_than_ask()?;
                self.numbering = Numbering::Ended;
                return Ok(self.settled(Ask::Open(request)));
            }
            Request::Forget => {
                self.may_do_more_than_ask()?;
                self.numbering = Numbering::Off;
                return Ok(self.settled(Ask::Forget));
            }
            Request::Declare(request) => {
                self.may_do_more_than_ask()?;
                return Ok(self.settled(Ask::Declare(request)));
            }
            Request::Copies(holder) => return Ok(self.settled(Ask::Copies(holder))),
            Request::Bind(binding) => {
                self.may_do_more_than_ask()?;
                return Ok(self.settled(Ask::Bind(binding)));
            }
            Request::Rotate => {
                self.may_do_more_than_ask()?;
                return Ok(self.settled(Ask::Rotate));
            }
            Request::Goodbye => return Ok(self.settled(Ask::Goodbye)),
            Request::Ping(token) => return Ok(self.settled(Ask::Ping(token))),
        };
        self.may_do_more_than_ask()?;
        if let Some(refusal) = self.over_budget(head, limits) {
            self.refuse(&refusal);
            return Ok(Ask::Refused);
        }
        Ok(ask)
    }

    const fn may_do_more_than_ask(&self) -> Result<(), Malformed> {
        if self.only_asks { Err(Malformed { what: "request of a client that only asks", at: 0 }) } else { Ok(()) }
    }

    fn over_budget(&self, head: Head, limits: &Limits) -> Option<Refusal> {
        if self.ledger.admits(head.len, limits.credit) {
            return None;
        }
        let text = format!(
            "{} bytes are under way and this takes {} more; the credit is {}",
            self.ledger.outstanding(),
            head.len,
            limits.credit
        );
        Some(Refusal::new(RefusalCause::Budget, text))
    }

    /// What [`Self::next`] returned is on its way into the order. Returns how many numbered requests that are.
    pub fn accept(&mut self) -> u64 {
        let Alike { frames, len } = self.settle();
        self.ledger.accept(frames, len);
        if self.asks_multicast {
            self.numbering.accept(frames);
        }
        frames
    }

    /// From here on multicasts are numbered, this one first.
    pub const fn number(&mut self, first: Numbered) {
        self.numbering = Numbering::On(first);
    }

    /// Multicasts are not numbered any more: they are refused until the producer is opened again. Whether that is new.
    pub const fn end_numbering(&mut self) -> bool {
        self.numbering.end()
    }

    /// Tells the client how its producer is.
    pub fn tell_producer(&mut self, status: &ProducerStatus) {
        if self.is_open() {
            status.put(self.output.put(SMALL_FRAME));
        }
    }

    /// What [`Self::next`] returned is not taken; if it is a batch, none of it.
    pub fn refuse(&mut self, refusal: &Refusal) {
        if self.asks_multicast {
            self.numbering.end();
        }
        let Alike { frames, len } = self.settle();
        for frame in 0..frames {
            let number = self.ledger.refuse(if frame == 0 { len } else { 0 });
            event::put_refused(self.output.put(SMALL_FRAME), number, refusal);
        }
        self.refused += frames;
        self.progress_due = true;
    }

    /// The oldest request under way, whose frame had `cost` bytes, has its place in the order. Returns its number.
    /// [`Self::progress_is_due`] from here on.
    pub fn order(&mut self, cost: usize) -> u64 {
        self.progress_due = true;
        self.ledger.order(1, cost)
    }

    /// The same for so many multicasts, more than one as a batch, with `len` bytes of ordered payload. Returns the first
    /// one's number.
    pub fn order_multicasts(&mut self, messages: usize, len: usize) -> u64 {
        self.progress_due = true;
        let head = if messages > 1 { 0 } else { HEAD_LEN };
        self.ledger.order(messages as u64, (len + head).saturating_sub(self.prefix.len()))
    }

    /// How many requests were refused before they stood in the order.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether the client is to be told how far its requests are.
    pub const fn progress_is_due(&self) -> bool {
        self.progress_due
    }

    /// Tells the client how far its requests are, if that has changed. Once a turn is enough: the counts add up.
    pub fn tell_progress(&mut self) {
        if std::mem::take(&mut self.progress_due) && self.is_open() {
            event::put_progress(self.output.put(SMALL_FRAME), self.ledger.progress());
        }
    }

    /// Looks how long its requests wait, from one call to the next, and tells the client what for if they wait for long
    /// and it does not know.
    pub fn tell_waiting(&mut self, cause: Option<OrderWait>) -> Waits {
        let progress = self.ledger.progress();
        // The one that waits at the front was read, too.
        let read = progress.accepted + self.asked.map_or(0, |asked| asked.frames);
        let waits = self.watch.look(read, progress.ordered);
        if let Some(cause) = cause.filter(|_| waits == Waits::Long && self.is_open())
            && let Some(waiting) = self.watch.tell(progress.ordered, cause)
        {
            event::put_waiting(self.output.put(SMALL_FRAME), waiting);
        }
        waits
    }

    /// Tells the client that request number `request`, which is in the order, changed nothing.
    pub fn tell_refused(&mut self, request: u64, refusal: &Refusal) {
        if self.is_open() {
            event::put_refused(self.output.put(SMALL_FRAME), request, refusal);
        }
    }

    /// Tells the client that this daemon is at work, unless it has yet to read what stands in its output: that says as
    /// much, and a client that does not read is not told ever more.
    pub fn tell_heartbeat(&mut self) {
        if self.is_open() && self.output.is_empty() {
            event::put_heartbeat(self.output.put(HEAD_LEN));
        }
    }

    /// Lets the client in under this name. One that wants heartbeats is told the first one behind it: it learns so that it
    /// can count on them.
    pub fn welcome(&mut self, name: ClientName, daemon: MemberId, daemon_name: &str, limits: &Limits) {
        self.prefix = ordered::multicast_prefix(self.client, &name);
        self.batch_prefix = ordered::batch_prefix(self.client, &name);
        self.name = name;
        let welcome = Welcome {
            version: VERSION,
            daemon,
            session: u64::from(self.client.0),
            client: self.client,
            daemon_name: daemon_name.to_owned(),
            name: self.name.clone(),
            message_max: u32::try_from(limits.message_max).unwrap_or(u32::MAX),
            credit: u32::try_from(limits.credit).unwrap_or(u32::MAX),
            groups_max: u16::try_from(limits.groups_max).unwrap_or(u16::MAX),
        };
        event::put_welcome(self.output.put(SMALL_FRAME), &welcome);
        if self.heartbeats.is_some() {
            event::put_heartbeat(self.output.put(HEAD_LEN));
        }
    }

    /// Appends a message of a client of node `sender`, or a batch.
    pub fn tell_message(&mut self, sender: NodeId, service: Service, multicast: &Payload, told: &MulticastLayout) {
        event::put_message(&mut self.output, sender, service, multicast, told);
    }

    /// The same with where it stands: in the order for a member, or by position for a reader.
    pub fn tell_placed(
        &mut self,
        sender: MemberId,
        service: Service,
        multicast: &Payload,
        told: &MulticastLayout,
        told_as: ToldAs,
    ) {
        self.tell_incarnation(sender);
        event::put_placed(&mut self.output, sender.node, service, multicast, told, told_as);
    }

    /// The same for frames that [`event::placed`] has written and other clients are told, too.
    pub fn tell_placed_shared(&mut self, sender: MemberId, frames: &Bytes) {
        self.tell_incarnation(sender);
        self.output.share(frames);
    }

    /// Tells the incarnation of a node, if the client does not know it.
    fn tell_incarnation(&mut self, sender: MemberId) {
        let told = self.told_incarnations.insert(sender.node, sender.incarnation);
        if told != Some(sender.incarnation) {
            event::put_incarnation(self.output.put(SMALL_FRAME), sender);
        }
    }

    /// Offers a message to an optimistic client, unless it is on offer; nothing to any other.
    pub fn tell_offer(&mut self, now: Instant, offered: &PendingOffer) {
        if let Some(offers) = &mut self.offers {
            offers.offer(&mut self.output, now, offered);
        }
    }

    /// Revokes the offer of a message. False where it is not on offer.
    pub fn tell_revoke(&mut self, now: Instant, offer: OfferId) -> bool {
        let out = &mut self.output;
        self.offers.as_mut().is_some_and(|offers| offers.revoke(out, now, offer))
    }

    /// Tells an optimistic client that a message is the next one of the order, on offer or not; nothing to any other.
    pub fn tell_confirm(&mut self, now: Instant, offered: &PendingOffer) {
        if let Some(offers) = &mut self.offers {
            offers.confirm(&mut self.output, now, offered);
        }
    }

    /// What is on offer, in the order in which it was offered.
    pub fn on_offer(&self) -> impl Iterator<Item = OfferId> {
        self.offers.iter().flat_map(OpenOffers::open)
    }

    /// Appends frames that [`crate::event`] has written.
    pub fn tell(&mut self, frames: &[u8]) {
        self.output.put(frames.len()).extend_from_slice(frames);
    }

    /// The same for frames that other clients are told, too.
    pub fn tell_shared(&mut self, frames: &Bytes) {
        self.output.share(frames);
    }

    /// Sends the client away: what it sent and was not taken is forgotten, and nothing but this follows in its output. Who
    /// is too slow for what waits is not made to read it all before this: it goes behind the frame that is being read.
    pub fn close(&mut self, farewell: &Disconnect) {
        let too_much = matches!(farewell.reason, DisconnectReason::Slow | DisconnectReason::SpoolFailed);
        if too_much || self.output.is_spooling() {
            self.output.cut(frame::len_of);
        }
        if self.stage != SessionStage::Closed {
            self.stage = SessionStage::Closed;
            self.input.clear();
            event::put_disconnect(self.output.put(SMALL_FRAME), farewell);
        }
    }

    /// What the client is to read.
    pub const fn output(&self) -> &FrameQueue {
        &self.output
    }

    /// The same, for keeping some of it on disk.
    pub const fn output_mut(&mut self) -> &mut FrameQueue {
        &mut self.output
    }

    /// The first `n` bytes of the output are written.
    pub fn written(&mut self, n: usize) {
        self.output.written(n);
    }

    /// Whether there is output that nobody was told of yet; says so once, until all of it is written.
    pub fn wakes(&mut self) -> bool {
        self.output.wakes()
    }

    fn body(&self, head: Head, mut front: Payload) -> Payload {
        self.input.body(head, &mut front);
        front
    }

    /// Goes on behind what was asked.
    fn settle(&mut self) -> Alike {
        let asked = self.asked.take().unwrap_or(Alike { frames: 0, len: 0 });
        self.input.consume(asked);
        asked
    }

    fn settled(&mut self, ask: Ask) -> Ask {
        self.settle();
        ask
    }

    fn in_body(&self, error: Malformed) -> Disconnect {
        self.malformed(Malformed { at: error.at + HEAD_LEN, ..error })
    }

    fn malformed(&self, error: Malformed) -> Disconnect {
        Disconnect::malformed(error, self.input.passed() + 1)
    }
}
