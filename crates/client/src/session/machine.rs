//! What a session decides: which daemon is next, what it is asked for, and what its answers mean. It has no socket and
//! reads no clock, and is the same for programs that wait and for those that do not.
use super::connection::{Broken, Connection};
use super::event::{Fate, SessionEvent};
use super::event_queue::EventQueue;
use super::pending::{PendingSends, RefusedAs};
use super::reading::{NextStep, Reading};
use super::{SessionOptions, random};
use crate::reading::Reached;
use crate::trace::Roams;
use crate::{
    Address, Addressee, Bookmark, Bytes, Error, Event, GroupName, Origin, ReadFrom, ReadingEnd, ReadingEndCause,
    ReadingStatus, Refusal, RefusalCause, Service, Target, ViewPlace,
};
use consort_session::{OpenRefusal, OpenRefusalCause, OpenRequest, ProducerId, ProducerStatus, ReadRequest};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long it waits before it tries the next daemon, at first and at most.
pub(super) const BACKOFF: Duration = Duration::from_millis(20);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The number of no request: that of a refusal which concerns none.
const NO_REQUEST: u64 = 0;
/// So many bytes of events wait for the program at most while it sends or settles.
const UNREAD_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct SessionMachine {
    pub origin: Origin,
    addresses: Vec<Address>,
    pub options: SessionOptions,
    producer: Producer,
    link: Link,
    /// Which address is next.
    turn: usize,
    /// The daemon at this address is to be asked next.
    asks: Option<usize>,
    pub pending: PendingSends,
    groups: BTreeMap<GroupName, bool>,
    reading: Option<Reading>,
    /// How far that has come by what daemons told. The program may not have received all of it.
    arrived: Reached,
    events: EventQueue,
    roams: Roams,
}

/// Whose sends these are.
#[derive(Debug)]
struct Producer {
    id: ProducerId,
    /// A number of the session's own, by which daemons tell its openings from those of others.
    session: u64,
    /// How often it has asked for the producer to be opened.
    attempts: u64,
    /// It was opened before, by this session or an earlier one.
    known: bool,
    /// The last of these times of which this session was told that it is open; 0 for none.
    opened: u64,
    /// Another session opened it, and what that one sent was not told yet.
    resumes: bool,
}

/// Since when daemons are tried, and how long to wait before the next.
#[derive(Clone, Copy, Debug)]
struct Trying {
    since: Instant,
    backoff: Duration,
}

/// The connection there is.
#[derive(Debug)]
enum Link {
    /// None; the next attempt is made then.
    Down {
        next: Instant,
        trying: Trying,
    },
    Up(Up),
    /// None any more: another session goes on with its producer, and must not be stopped in turn; or no daemon opens it,
    /// for this reason.
    Over(Option<OpenRefusal>),
}

#[derive(Debug)]
struct Up {
    /// What the daemon is still to be asked for.
    requests: VecDeque<SessionRequest>,
    /// Sends are numbered: the producer is open.
    is_open: bool,
    /// Which group each request to join is for.
    joins: BTreeMap<u64, GroupName>,
    /// Requests to read that it has yet to answer, those included that it is still to be asked: what it tells is of the
    /// last one only where there are none.
    unanswered: usize,
    /// It goes on with a reading.
    reads: bool,
    /// The program was told of a gap here that no daemon could fill.
    told_gap: bool,
    /// Until this daemon has done something for us.
    trying: Option<Trying>,
}

/// What a daemon is to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SessionRequest {
    Open,
    Join(GroupName, bool),
    Leave(GroupName),
    Read,
}

impl Up {
    /// The last request to read is the one that counts.
    fn request_reading(&mut self) {
        let before = self.requests.len();
        self.requests.retain(|request| *request != SessionRequest::Read);
        self.unanswered += usize::from(self.requests.len() == before);
        self.requests.push_back(SessionRequest::Read);
    }

    /// The daemon goes on with a reading, or with none; an answer, unless it is the end of one that it went on with.
    fn answered(&mut self, reads: bool) {
        if reads || !self.reads {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        self.reads = reads;
    }
}

impl SessionMachine {
    /// # Panics
    /// If there are no addresses, or the operating system has no random bytes.
    pub fn new(addresses: &[Address], options: SessionOptions, now: Instant) -> Self {
        assert!(!addresses.is_empty(), "a session needs the address of at least one daemon");
        let given = options.producer;
        let producer = Producer {
            id: given.unwrap_or_else(|| ProducerId(random())),
            session: u64::from_ne_bytes(random()),
            attempts: 0,
            known: given.is_some(),
            opened: 0,
            resumes: given.is_some(),
        };
        Self {
            origin: Origin::here(),
            addresses: addresses.to_vec(),
            options,
            producer,
            link: Link::Down { next: now, trying: Trying { since: now, backoff: BACKOFF } },
            turn: 0,
            asks: None,
            pending: PendingSends::default(),
            groups: BTreeMap::new(),
            reading: None,
            arrived: Reached::default(),
            events: EventQueue::default(),
            roams: Roams::default(),
        }
    }

    pub const fn producer(&self) -> ProducerId {
        self.producer.id
    }

    pub const fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Where the next connection is to be made, and when; nothing while there is one.
    ///
    /// # Errors
    /// [`Error::TakenOver`] and [`Error::NotOpened`] where there is to be none any more, [`Error::Forked`] where there is to be
    /// none in this process.
    pub fn next_attempt(&self) -> Result<Option<(Instant, &Address)>, Error> {
        self.origin.check()?;
        match &self.link {
            Link::Down { next, .. } => Ok(Some((*next, &self.addresses[self.at()]))),
            Link::Up(_) => Ok(None),
            Link::Over(why) => Err(why.clone().map_or(Error::TakenOver, Error::NotOpened)),
        }
    }

    fn at(&self) -> usize {
        self.turn % self.addresses.len()
    }

    /// The attempt has brought a connection: what is it asked for?
    pub fn connected(&mut self) {
        let Link::Down { trying, .. } = self.link else { return };
        let joins = self.groups.iter().map(|(group, closed)| SessionRequest::Join(group.clone(), *closed));
        let requests = std::iter::once(SessionRequest::Open).chain(joins).collect();
        let (joins, trying) = (BTreeMap::new(), Some(trying));
        let mut up = Up { requests, is_open: false, joins, unanswered: 0, reads: false, told_gap: false, trying };
        if self.reading.is_some() {
            up.request_reading();
        }
        self.link = Link::Up(up);
        let address = self.addresses[self.at()].clone();
        self.roams.connected(&address);
        self.events.push(SessionEvent::Connected { address });
    }

    /// The attempt has failed.
    ///
    /// # Errors
    /// [`Error::Option`], which no daemon mends; [`Error::Unreachable`] if that was so for as long as is allowed.
    pub fn failed(&mut self, why: Error, now: Instant) -> Result<(), Error> {
        let Link::Down { trying: Trying { since, backoff }, .. } = self.link else { return Ok(()) };
        if matches!(why, Error::Option(_)) {
            return Err(why);
        }
        self.roams.failed(&self.addresses[self.at()], &why);
        self.may_go_on_trying(since, why, now)?;
        // All are tried before it waits for longer.
        let round = self.turn_on();
        let backoff = if round { (backoff * 2).min(BACKOFF_MAX) } else { backoff };
        let next = now + if round { backoff } else { Duration::ZERO };
        self.link = Link::Down { next, trying: Trying { since, backoff } };
        Ok(())
    }

    /// The connection is of no use any more. A daemon that lets this session in and then sends it away is as good as none.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no daemon was of use for as long as is allowed.
    pub fn lost(&mut self, why: Error, now: Instant) -> Result<(), Error> {
        let Link::Up(up) = &self.link else { return Ok(()) };
        let fresh = Trying { since: now, backoff: BACKOFF };
        let again = |Trying { since, backoff }| Trying { since, backoff: (backoff * 2).min(BACKOFF_MAX) };
        // One that is leaving may let the session in again until it has left.
        let least = if matches!(why, Error::Leaving(_) | Error::NotOpened(_)) { BACKOFF } else { Duration::ZERO };
        let wait = up.trying.map_or(least, |trying| trying.backoff);
        let trying = up.trying.map_or(fresh, again);
        self.link = Link::Down { next: now + wait, trying };
        self.pending.disconnect();
        if let (Some(reading), Some(arrived)) = (&mut self.reading, self.arrived.bookmark()) {
            reading.from = ReadFrom::After(arrived);
        }
        self.roams.lost(&self.addresses[self.at()], &why);
        self.events.push(SessionEvent::Lost { why: why.to_string() });
        self.turn_on();
        self.may_go_on_trying(trying.since, why, now)
    }

    /// The next address is the one to be asked, or else the one behind. Whether all had their turn.
    fn turn_on(&mut self) -> bool {
        let (at, addresses) = (self.at(), self.addresses.len());
        if self.asks.is_none()
            && let Some(reading) = self.reading.as_mut().filter(|reading| reading.is_asking())
        {
            match reading.no_answer(at, addresses) {
                NextStep::Ask(next) => self.asks = Some(next),
                NextStep::Part(common) => self.part_reading(common),
                NextStep::Again | NextStep::Give => {}
            }
        }
        let steps = self.asks.take().map_or(1, |next| (next + addresses - at) % addresses);
        let before = self.turn;
        self.turn += steps;
        self.turn / addresses > before / addresses
    }

    fn may_go_on_trying(&self, since: Instant, last: Error, now: Instant) -> Result<(), Error> {
        let within = self.options.reconnect_within;
        let spent = now.saturating_duration_since(since);
        if spent >= within { Err(Error::Unreachable { within, last: Box::new(last) }) } else { Ok(()) }
    }

    /// Whether a send of so many bytes may be kept now.
    pub fn has_room(&self, payload: usize) -> bool {
        self.pending.has_room(payload, self.options.unsettled_max)
    }

    /// Keeps a send; returns its number.
    pub fn send(&mut self, service: Service, to: Vec<Target>, payload: Bytes) -> Result<u64, Error> {
        self.next_attempt()?;
        Ok(self.pending.push(service, to, payload))
    }

    pub fn join(&mut self, group: &GroupName, closed: bool) {
        self.groups.insert(group.clone(), closed);
        self.request(SessionRequest::Join(group.clone(), closed));
    }

    pub fn leave(&mut self, group: &GroupName) {
        self.groups.remove(group);
        self.request(SessionRequest::Leave(group.clone()));
    }

    pub fn read(&mut self, groups: &[GroupName], from: ReadFrom) -> Result<(), Error> {
        if groups.is_empty() || groups.len() > ReadRequest::GROUPS_MAX {
            return Err(Error::Groups { count: groups.len(), max: ReadRequest::GROUPS_MAX });
        }
        self.begin_reading(&from);
        self.reading = Some(Reading::new(groups.to_vec(), from));
        self.request_reading();
        Ok(())
    }

    /// What is told from here on is of a reading from there.
    fn begin_reading(&mut self, from: &ReadFrom) {
        self.arrived.begin(from);
        self.events.push_reading(from);
    }

    fn request_reading(&mut self) {
        if let Link::Up(up) = &mut self.link {
            up.request_reading();
        }
    }

    fn request(&mut self, request: SessionRequest) {
        if let Link::Up(up) = &mut self.link {
            up.requests.push_back(request);
        }
    }

    /// How far the program has read.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.events.bookmark()
    }

    pub fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.pop()
    }

    /// The fate of a send, if it waits to be told.
    pub fn take_fate(&mut self, send: u64) -> Option<Fate> {
        self.events.take_fate(send)
    }

    pub fn into_events(self) -> Vec<SessionEvent> {
        self.events.into_events()
    }

    /// Whether more may come in that waits for the program.
    pub fn may_keep(&self) -> Result<(), Error> {
        let bytes = self.events.bytes();
        if bytes < UNREAD_MAX { Ok(()) } else { Err(Error::Unread { bytes }) }
    }

    /// Whether the producer is open here, so that it can be forgotten.
    pub const fn is_open(&self) -> bool {
        matches!(&self.link, Link::Up(up) if up.is_open)
    }

    /// Asks the daemon for what it is to be asked for, and sends what waits, as far as there is credit.
    pub fn work(&mut self, daemon: &mut impl Connection) -> Result<(), Broken> {
        while let Link::Up(up) = &mut self.link
            && let Some(request) = up.requests.front().cloned()
        {
            if !self.ask(request, daemon)? {
                return Ok(());
            }
            if let Link::Up(up) = &mut self.link {
                up.requests.pop_front();
            }
        }
        self.send_pending(daemon)
    }

    /// False if there is no credit for it now.
    fn ask(&mut self, request: SessionRequest, daemon: &mut impl Connection) -> Result<bool, Broken> {
        match request {
            SessionRequest::Open => daemon.open_producer(&self.next_opening())?,
            SessionRequest::Join(group, closed) => {
                let Some(request) = later(daemon.try_join(&group, closed))? else { return Ok(false) };
                if let Link::Up(up) = &mut self.link {
                    up.joins.insert(request, group);
                }
            }
            SessionRequest::Leave(group) => return Ok(later(daemon.try_leave(&group))?.is_some()),
            SessionRequest::Read => {
                if let Some(reading) = &self.reading {
                    self.arrived.begin(&reading.from);
                    self.events.push_reading(&reading.from);
                    daemon.begin_reading(&reading.groups, &reading.from)?;
                }
            }
        }
        Ok(true)
    }

    fn next_opening(&mut self) -> OpenRequest {
        //= E12
        let Producer { id, session, attempts, known, opened, .. } = &mut self.producer;
        *attempts += 1;
        OpenRequest { producer: *id, session: *session, attempt: *attempts, opened: *opened, known: *known }
    }

    fn send_pending(&mut self, daemon: &mut impl Connection) -> Result<(), Broken> {
        let Link::Up(Up { is_open: true, .. }) = &self.link else { return Ok(()) };
        while let Some(next) = self.pending.next_unsent() {
            match later(daemon.try_multicast(next.service, &next.to, &next.payload)) {
                Ok(Some(request)) => self.pending.sent(request),
                Ok(None) => break,
                Err(error @ (Error::TooLarge { .. } | Error::Targets { .. })) => self.refuse_unsent(&error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn refuse_unsent(&mut self, error: &Error) {
        let cause = match error {
            Error::TooLarge { .. } => RefusalCause::TooLarge,
            _ => RefusalCause::TooManyTargets,
        };
        if let Some(send) = self.pending.refuse_unsent() {
            let fate = Fate::Refused(Refusal { cause, text: error.to_string() });
            self.events.push(SessionEvent::Sent { send, fate });
        }
    }

    /// Takes what a daemon said.
    pub fn take(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Producer(status) => return self.take_status(status),
            Event::Refused { send, refusal } => return self.take_refusal(send, refusal),
            Event::Read(_) | Event::Reading(_) => return self.take_reading(event),
            other => self.events.push(SessionEvent::Event(other)),
        }
        Ok(())
    }

    fn take_reading(&mut self, event: Event) -> Result<(), Broken> {
        if let Link::Up(up) = &mut self.link {
            match event {
                Event::Reading(ReadingStatus::Began { .. }) => up.answered(true),
                Event::Reading(ReadingStatus::Ended(_)) => up.answered(false),
                _ => {}
            }
        }
        // One that was replaced is over, whatever is told of it.
        if !matches!(&self.link, Link::Up(Up { unanswered: 0, .. })) {
            self.events.push_replaced(event);
            return Ok(());
        }
        match event {
            Event::Reading(ReadingStatus::Ended(end)) => self.on_reading_ended(end),
            Event::Reading(ReadingStatus::Gap { to, .. }) => self.on_gap(event, to),
            Event::Reading(ReadingStatus::CaughtUp { .. }) => self.on_caught_up(event),
            event => {
                self.tell_reading(event);
                Ok(())
            }
        }
    }

    /// It goes on, as the program is told.
    fn tell_reading(&mut self, event: Event) {
        if let Some(reading) = &mut self.reading {
            reading.goes_on(&event, &self.arrived);
        }
        if matches!(event, Event::Reading(ReadingStatus::Began { .. })) {
            self.roams.reads("the reading goes on");
        }
        self.arrived.on_event(&event);
        self.events.push(SessionEvent::Event(event));
    }

    /// The daemon does not go on with what was read, or not for this client.
    fn on_reading_ended(&mut self, end: ReadingEnd) -> Result<(), Broken> {
        let (at, addresses, is_other) = (self.at(), self.addresses.len(), end.cause == ReadingEndCause::Parted);
        let step = match &mut self.reading {
            Some(reading) if is_other => reading.is_other(at, end.common, addresses),
            // One that was asked because another one does not go on does not end the reading.
            Some(reading) if reading.is_asking() => reading.no_answer(at, addresses),
            _ => NextStep::Give,
        };
        match step {
            NextStep::Ask(next) => self.asks = Some(next),
            NextStep::Part(common) => self.part_reading(common),
            NextStep::Again => {}
            NextStep::Give => {
                self.tell_reading(Event::Reading(ReadingStatus::Ended(end)));
                return Ok(());
            }
        }
        match self.asks.filter(|next| *next != at) {
            Some(_) => Err(Broken::Connection(if is_other { Error::OtherHistory } else { Error::Lacking })),
            None => {
                self.asks = None;
                self.request_reading();
                Ok(())
            }
        }
    }

    /// The daemon lacks what follows, up to this place.
    fn on_gap(&mut self, gap: Event, to: ViewPlace) -> Result<(), Broken> {
        //= E30
        let (at, addresses) = (self.at(), self.addresses.len());
        // Where all have let go of what a slow program has yet to read, they soon have again.
        let is_slow = to.at.0 > 0 && matches!(&self.link, Link::Up(up) if up.told_gap);
        let may_ask = !is_slow && self.arrived.bookmark().is_some();
        if let Some(reading) = self.reading.as_mut().filter(|_| may_ask)
            && let Some(next) = reading.lacks(at, to, addresses)
        {
            return Err(self.leave_for(next));
        }
        if let Link::Up(up) = &mut self.link {
            up.told_gap = true;
        }
        self.roams.reads("what follows is missing: a gap");
        self.tell_reading(gap);
        Ok(())
    }

    /// The daemon has told all that it has.
    fn on_caught_up(&mut self, caught_up: Event) -> Result<(), Broken> {
        let (at, addresses) = (self.at(), self.addresses.len());
        if let Some(next) = self.reading.as_mut().and_then(|reading| reading.is_behind(at, &self.arrived, addresses)) {
            return Err(self.leave_for(next));
        }
        self.tell_reading(caught_up);
        Ok(())
    }

    fn leave_for(&mut self, next: usize) -> Broken {
        self.asks = Some(next);
        self.roams.reads("what follows is missing: others are asked");
        Broken::Connection(Error::Lacking)
    }

    /// The reading goes on where both histories are the same, or with the oldest that there is.
    fn part_reading(&mut self, common: Option<(ViewPlace, usize)>) {
        let place = common.map(|(place, _)| place);
        self.asks = common.map(|(_, at)| at);
        self.roams.reads("histories have parted");
        self.events.push(SessionEvent::Parted { common: place });
        if let Some(reading) = &mut self.reading {
            reading.part(place);
            let from = reading.from.clone();
            self.begin_reading(&from);
        }
    }

    fn take_status(&mut self, status: ProducerStatus) -> Result<(), Broken> {
        let (pending, events) = (&mut self.pending, &mut self.events);
        let mut tell = |send, fate| events.push(SessionEvent::Sent { send, fate });
        match status {
            ProducerStatus::Opened { last, at, forgotten } => {
                pending.open(last, at, forgotten, &mut tell);
                self.roams.opened(pending.len());
                if std::mem::take(&mut self.producer.resumes) {
                    let ordered = (!forgotten).then_some(last);
                    self.events.push(SessionEvent::Resumed { ordered });
                }
                (self.producer.known, self.producer.opened) = (true, self.producer.attempts);
                if let Link::Up(up) = &mut self.link {
                    (up.is_open, up.trying) = (true, None);
                }
            }
            ProducerStatus::Settled { number, at } => pending.settle(number, at, &mut tell),
            ProducerStatus::Ended => self.reopen(),
            ProducerStatus::Waits(wait) => {
                self.events.push(SessionEvent::Waits(wait));
                if let Link::Up(up) = &mut self.link {
                    up.trying = None;
                }
            }
            ProducerStatus::Refused(refusal) => match refusal.cause {
                OpenRefusalCause::Leaving => return Err(Broken::Connection(Error::NotOpened(refusal))),
                OpenRefusalCause::Fenced => return Err(self.end_taken_over()),
                _ => {
                    // Otherwise whatever waits for a fate would wait for ever.
                    self.link = Link::Over(Some(refusal.clone()));
                    return Err(Broken::Session(Error::NotOpened(refusal)));
                }
            },
        }
        Ok(())
    }

    fn take_refusal(&mut self, request: u64, refusal: Refusal) -> Result<(), Broken> {
        let events = &mut self.events;
        let mut tell = |send, fate| events.push(SessionEvent::Sent { send, fate });
        let refused = self.pending.refuse(request, &refusal, &mut tell);
        if refusal.cause == RefusalCause::Leaving {
            //= E13
            return Err(Broken::Connection(Error::Leaving(refusal)));
        }
        match refused {
            RefusedAs::Final | RefusedAs::Again => self.reopen(),
            RefusedAs::TakenOver => return Err(self.end_taken_over()),
            RefusedAs::Foreign => {
                if let Link::Up(up) = &mut self.link
                    && let Some(group) = up.joins.remove(&request)
                {
                    self.events.push(SessionEvent::JoinRefused { group, refusal });
                } else if request == NO_REQUEST {
                    // It was made to leave a group.
                    self.events.push(SessionEvent::Event(Event::Refused { send: request, refusal }));
                }
            }
        }
        Ok(())
    }

    /// Another session goes on with the producer.
    fn end_taken_over(&mut self) -> Broken {
        self.link = Link::Over(None);
        Broken::Session(Error::TakenOver)
    }

    /// The producer is to be opened again at this daemon, unless that was asked for already.
    fn reopen(&mut self) {
        if let Link::Up(up) = &mut self.link
            && std::mem::take(&mut up.is_open)
        {
            up.requests.push_back(SessionRequest::Open);
        }
    }
}

/// What there is no credit for is asked later.
fn later<T>(asked: Result<T, Error>) -> Result<Option<T>, Error> {
    match asked {
        Ok(done) => Ok(Some(done)),
        Err(Error::WouldBlock { .. } | Error::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Those to whom a send goes.
pub(crate) fn targets<T: Addressee>(to: &[T]) -> Result<Vec<Target>, Error> {
    let read = |name: &T| Target::read(name.target());
    let targets: Vec<_> = to.iter().filter_map(read).collect();
    if targets.is_empty() || targets.len() != to.len() {
        return Err(Error::Targets { count: targets.len(), max: consort_session::Targets::MAX });
    }
    Ok(targets)
}
