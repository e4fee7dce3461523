//! Submission: client, session, engine.
use crate::clients::client_session::ClientRequest;
use crate::rights::{COMPARE, MembershipStep, NO_REQUEST, denied};
use crate::{Effect, Node, Reading, STREAM};
use consort_group::{ClientName, ordered};
use consort_order::{Engine, Refused, Submission};
use consort_rights::Denial;
use consort_session::listing::Listing;
use consort_session::{Ask, Disconnect, DisconnectReason, ListQuery, Refusal, RefusalCause, event};
use consort_types::{Class, ClientId, Duration, GroupName, Instant, MessageId, OrderStream, Service};
use consort_wire::Payload;

/// How many bytes of status and lists are told in one slice. They cost far more than their copying, and a client can ask
/// for a thousand with one write: the token must not wait for all of them.
const ANSWERS: usize = 64 << 10;
/// More than that does not count in the slices behind it.
const DEBT: usize = 16 * ANSWERS;
/// What a request costs beside its answer, which is no message to be ordered, and what one costs that is refused at once.
const REQUEST: usize = 512;
/// Status costs as much as its bytes and this many times that, because the whole node is looked at for it.
const STATUS: usize = 3;
const REFUSED: usize = 256;
/// What a request costs that only its client would notice, which has closed its connection.
const UNHEARD: usize = 16;
/// What ordering that a client has gone costs, counted as bytes copied.
const LEAVING: usize = 1 << 10;
/// How long such a slice lasts, however many inputs come in it.
const ANSWERS_EACH: Duration = Duration::from_millis(2);

impl<E: Engine> Node<E> {
    /// Takes what a client asks, as far as there is room for it.
    pub(crate) fn serve(&mut self, client: ClientId) -> Reading {
        if !self.list_on(client) {
            self.clients.pause_asking(client);
            return Reading::Pause;
        }
        while let Some(request) = self.clients.next(self.now, client) {
            // Messages have their price in the order.
            let sends = matches!(request, ClientRequest::Common(Ask::Multicast { .. }));
            let before = self.answered;
            if !sends {
                self.answered += self.price(client, &request);
            }
            let goes_on = (!sends && self.passes_over(client, &request)) || self.handle_request(client, request);
            if self.rights.is_on() {
                self.answered += self.rights.take_judged() * COMPARE;
            }
            if !goes_on {
                // One that waits for a slow client, or has sent as much as it may, is paused already.
                if !self.clients.waits_for_client(client) {
                    self.clients.pause(client);
                }
                return Reading::Pause;
            }
            if self.answered > before && (self.has_answered_enough() || self.scans.contains_key(&client)) {
                self.clients.pause_asking(client);
                return Reading::Pause;
            }
        }
        if self.clients.may_read(client) { Reading::Go } else { Reading::Pause }
    }

    /// What a request that is no message costs beside its answer and beside ordering it.
    #[inline(never)]
    fn price(&self, client: ClientId, request: &ClientRequest) -> usize {
        let ClientRequest::Common(ask) = request else { return REQUEST };
        match ask {
            Ask::Refused => REFUSED,
            Ask::Join { .. } if self.clients.is_deaf(client) => REFUSED,
            _ if asks(ask) && self.clients.is_deaf(client) => UNHEARD,
            _ => REQUEST,
        }
    }

    /// Leaves out a request that only its client would notice, which has closed its connection. It may be sending to a closed
    /// group, though, for which it must be a member.
    #[inline(never)]
    fn passes_over(&mut self, client: ClientId, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::Common(ask) if asks(ask) => self.clients.is_deaf(client),
            ClientRequest::Common(Ask::Join { group, closed: false })
                if self.clients.is_deaf(client) && !self.groups.is_closed(group.as_bytes()) =>
            {
                let text = "its connection is closed".to_owned();
                self.clients.refuse(client, &Refusal::new(RefusalCause::Leaving, text));
                true
            }
            _ => false,
        }
    }

    /// Grants one request; false where it must wait for room.
    fn handle_request(&mut self, client: ClientId, request: ClientRequest) -> bool {
        match request {
            ClientRequest::Common(ask) => return self.take(client, ask),
            ClientRequest::Name(name) => self.on_name(client, name),
            ClientRequest::Entered => self.clients.entered(client),
        }
        true
    }

    /// Takes one request; false where it must wait for room.
    fn take(&mut self, client: ClientId, ask: Ask) -> bool {
        match ask {
            Ask::Multicast { payload, .. } if self.is_held(client, &payload) => return false,
            Ask::Multicast { service, payload } => {
                if self.rights.is_on() {
                    match self.may_say(client, &payload) {
                        Some(true) => {}
                        Some(false) => return self.charge_refusal(),
                        None => return false,
                    }
                }
                let mut stream = STREAM;
                if self.streams.are_many() {
                    let Some(found) = self.stream_or_refuse(client, &payload) else { return self.charge_refusal() };
                    stream = found;
                }
                if self.lines.is_on() && !self.may_send(client, stream) {
                    return false;
                }
                if self.rights.is_on() && !self.has_rate(client, &payload) {
                    return false;
                }
                return self.submit(client, (service, stream), payload, None);
            }
            //= MP59
            Ask::Join { group, closed } => {
                if let Some(refusal) = self.join_refusal(client, &group, closed) {
                    self.clients.refuse(client, &refusal);
                } else if !self.may_join(client, &group) || self.lines.is_on() && !self.may_send(client, STREAM) {
                    return false;
                } else if let Some(name) = self.clients.name_for_join(client) {
                    self.clients.note_group(client, &group);
                    let payload = ordered::join(client, &name, &group, closed).into();
                    let to = (Service::Agreed, self.stream_of_step(&group));
                    self.note_joining(&group, true);
                    let had_room = self.submit(client, to, payload, Some((MembershipStep::Join, &group)));
                    if !had_room {
                        self.note_joining(&group, false);
                    }
                    return had_room;
                }
            }
            Ask::Leave(group) => {
                if self.lines.is_on() && !self.may_send(client, STREAM) {
                    return false;
                }
                self.note_leaving(&group);
                let payload = ordered::leave(client, &group).into();
                let to = (Service::Agreed, self.stream_of_step(&group));
                return self.submit(client, to, payload, Some((MembershipStep::Leave, &group)));
            }
            Ask::Hello(name) => self.on_hello(client, name),
            Ask::Status => self.on_status(client),
            Ask::Ping(token) => self.on_ping(client, token),
            Ask::Refused => {}
            Ask::List(question) => self.on_question(client, &question),
            Ask::Read(request) => self.on_read(client, &request),
            Ask::Open(request) => self.on_open(client, request),
            Ask::Forget => self.on_forget(client),
            Ask::Declare(request) => self.on_declare(client, request),
            Ask::Copies(holder) => self.on_ask_copies(client, holder),
            Ask::Bind(binding) => self.on_bind(client, binding),
            Ask::Rotate => self.on_rotate(client),
            Ask::Goodbye => self.clients.end(client, &Disconnect::new(DisconnectReason::Goodbye, "good-bye")),
        }
        true
    }

    /// A message was refused, which would have cost nothing else here.
    const fn charge_refusal(&mut self) -> bool {
        self.answered += REFUSED;
        true
    }

    fn submit(
        &mut self,
        client: ClientId,
        (service, stream): (Service, OrderStream),
        payload: Payload,
        step: Option<(MembershipStep, &GroupName)>,
    ) -> bool {
        self.watch_waits();
        if self.full {
            return false;
        }
        let answer = self.ask_engine(Submission { class: Class::Client, service, stream, payload });
        // Before the drain: an engine may deliver at once what it has just accepted.
        match answer {
            Ok(id) => {
                if self.lines.is_on() {
                    self.lines.note(client, stream, id);
                }
                let members = |group: &GroupName| self.groups.members(group.as_bytes()).map_or(0, <[_]>::len);
                self.clients.accept(client, step.as_ref().map(|(_, group)| members(group)));
                step.into_iter().for_each(|(step, _)| self.rights.begin_step(client, step));
            }
            Err(Refused::Full { .. }) => {}
            Err(refused) => self.clients.refuse(client, &refusal(refused)),
        }
        self.drain_engine();
        !self.full
    }

    /// One input of the engine, drained.
    pub(crate) fn hand_over(&mut self, class: Class, service: Service, payload: Payload) -> Result<(), Refused> {
        let answer = self.ask_engine(Submission { class, service, stream: STREAM, payload });
        self.drain_engine();
        answer.map(drop)
    }

    /// A leave that the client did not ask for; the engine is not drained.
    pub(crate) fn ask_leave(&mut self, client: ClientId, group: &GroupName) -> Result<(), Refused> {
        let (stream, payload) = (self.stream_of_step(group), ordered::leave(client, group).into());
        self.ask_engine(Submission { class: Class::Client, service: Service::Agreed, stream, payload }).map(drop)
    }

    fn ask_engine(&mut self, submission: Submission) -> Result<MessageId, Refused> {
        let class = submission.class;
        let answer = self.submit_to_topics(submission);
        let full = matches!(answer, Err(Refused::Full { .. }));
        match class {
            Class::Client => self.full = full,
            Class::Control => self.control_full = full,
        }
        answer
    }

    pub(crate) fn drain_engine(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            let effect = self.on_output(output);
            self.effects.extend(effect);
        }
    }

    /// Takes up what waits for room: first the going of clients, then the client that was paused first.
    pub(crate) fn submit_next(&mut self) -> bool {
        if self.tell_topics() {
            return true;
        }
        // Answers need no room in the order.
        if self.serve_asking() {
            return true;
        }
        if self.full {
            return false;
        }
        if self.clients.has_leaving()
            && let Some(client) = self.next_leaving()
        {
            // A thousand may go at once.
            if !self.pending.may_tell() {
                return false;
            }
            self.pending.spend(LEAVING);
            let left = self.hand_over(Class::Client, Service::Agreed, ordered::disconnect(client).into());
            // Any other refusal than for room means that this node itself is leaving, and takes its clients with it.
            if !matches!(left, Err(Refused::Full { .. })) {
                self.clients.has_left(client);
            }
            if matches!(left, Err(refused) if !matches!(refused, Refused::Full { .. })) {
                self.clients.gone(client);
            }
            return true;
        }
        let leaves = self.expel_next() || self.demote_next();
        let said = leaves || self.say_hold() || self.say_key() || self.confirm_next() || self.open_next();
        if said || self.retention.has_to_say() && self.say_reads() {
            return true;
        }
        let Some(client) = self.clients.next_paused() else { return false };
        self.serve_again(client);
        true
    }

    /// Goes on with the next client that is owed answers, if this slice has room for them.
    fn serve_asking(&mut self) -> bool {
        let next = if self.has_answered_enough() { None } else { self.clients.next_asking() };
        next.map(|client| self.serve_again(client)).is_some()
    }

    fn serve_again(&mut self, client: ClientId) {
        if self.serve(client) == Reading::Go {
            self.effects.push_back(Effect::ReadAgain { client });
        }
    }

    fn on_hello(&mut self, client: ClientId, chosen: Option<ClientName>) {
        if !self.clients.seat(client) {
            return;
        }
        if let Err(farewell) = self.prove(client).and_then(|()| self.clients.agree(client)) {
            return self.clients.end_unwelcome(client, &farewell);
        }
        let Some(name) = self.claim_name(client, chosen) else { return };
        self.clients.welcome(self.now, client, name, self.datagrams.identity().me);
        let wants_views = self.clients.get(client).is_some_and(|session| session.wants_views());
        if let Some(view) = self.view.as_ref().filter(|_| wants_views) {
            self.frames.clear();
            event::put_view(&mut self.frames, view);
            self.clients.tell(client, &self.frames);
        }
    }

    fn on_name(&mut self, client: ClientId, chosen: Option<ClientName>) {
        let _may_ask_for_nothing = self.clients.agree(client);
        if let Some(name) = self.claim_name(client, chosen) {
            self.clients.name(client, name, self.datagrams.identity().me.node);
        }
    }

    /// The name under which the client is let in. One who asked for another's is sent away.
    fn claim_name(&mut self, client: ClientId, chosen: Option<ClientName>) -> Option<ClientName> {
        //= S06
        self.free_names();
        if let Some(farewell) = self.entry_denial(client, chosen.as_ref()) {
            self.clients.deny(client, &farewell);
            return None;
        }
        let name = match chosen {
            Some(name) if !self.groups.enter(client, &name) => {
                self.clients.reject_name(client, &name);
                return None;
            }
            Some(name) => name,
            None => self.groups.enter_unnamed(client),
        };
        if self.clients.get(client).is_some_and(|session| !session.only_asks()) {
            self.rights.admit(client);
        }
        Some(name)
    }

    fn on_status(&mut self, client: ClientId) {
        let status = self.status();
        self.frames.clear();
        event::put_status(&mut self.frames, &status);
        self.answered += self.frames.len() * STATUS;
        self.answer(client);
    }

    fn on_ping(&mut self, client: ClientId, token: u64) {
        self.frames.clear();
        event::put_pong(&mut self.frames, token);
        self.answer(client);
    }

    fn on_question(&mut self, client: ClientId, question: &ListQuery) {
        if let Some(listing) = self.list_for(client, question) {
            self.answer_list(client, listing);
        }
    }

    pub(crate) fn answer_list(&mut self, client: ClientId, listing: Result<Listing, Denial>) {
        self.frames.clear();
        match listing {
            Ok(listing) => listing.put(&mut self.frames),
            Err(denial) => event::put_refused(&mut self.frames, NO_REQUEST, &denied(denial)),
        }
        self.answer(client);
    }

    pub(crate) fn answer(&mut self, client: ClientId) {
        self.clients.tell(client, &self.frames);
        self.answered += self.frames.len();
    }

    /// How much answers may still take of this slice.
    pub(crate) const fn left_to_answer(&self) -> usize {
        ANSWERS.saturating_sub(self.answered)
    }

    /// Begins another slice of answers once the last one is over. Answers beyond the last one's share count in this one.
    pub(crate) fn begin_answers(&mut self) {
        if self.now >= self.next_answers() {
            let slices = self.now.since(self.answers_since).as_nanos() / ANSWERS_EACH.as_nanos();
            let slices = usize::try_from(slices).unwrap_or(usize::MAX);
            self.answered = self.answered.min(DEBT).saturating_sub(ANSWERS.saturating_mul(slices));
            self.answers_since = self.now;
        }
    }

    /// When there is time for answers again.
    pub(crate) fn next_answers(&self) -> Instant {
        self.answers_since + ANSWERS_EACH
    }

    /// Whether answers have taken their share of this slice: who asks for more waits for the next one.
    pub(crate) const fn has_answered_enough(&self) -> bool {
        self.answered >= ANSWERS
    }
}

/// Whether only the answer matters.
const fn asks(ask: &Ask) -> bool {
    matches!(ask, Ask::Status | Ask::Ping(_) | Ask::List(_) | Ask::Read(_) | Ask::Copies(_))
}

fn refusal(refused: Refused) -> Refusal {
    let cause = match refused {
        Refused::Full { .. } => RefusalCause::Budget,
        Refused::TooLarge { .. } => RefusalCause::TooLarge,
        Refused::NoSuchStream { .. } => RefusalCause::Unsupported,
        Refused::Leaving => RefusalCause::Leaving,
    };
    Refusal::new(cause, refused.to_string())
}
