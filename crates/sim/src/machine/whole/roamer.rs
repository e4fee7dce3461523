//! The connections of sessions that roam, as one node has them: they open their producers, send, are moved and left behind.
use super::roaming_sessions::{RoamingDeed, RoamingMessage, RoamingSession, RoamingSessions, is_again};
use super::{ClientSeat, MachineOutput, Whole, client_at};
use crate::digest::TraceDigest;
use crate::plan::RunPlan;
use crate::trace::{NumberedRecord, NumberedStep};
use consort_order::Engine;
use consort_session::{Hello, HistoryPlace, Message, OpenRefusalCause, ProducerStatus, Refusal, RefusalCause, Target};
use consort_types::{Duration, GroupName, Instant, NodeId, Position, Rng, Service, ViewKind};
use std::collections::BTreeMap;

/// Between two turns.
const EVERY: Duration = Duration::from_millis(12);
/// So long elections go on when faults have stopped.
const ELECTS: Duration = Duration::from_millis(800);

/// What a node has of the sessions that roam.
#[derive(Debug)]
pub(super) struct Roamers {
    sessions: RoamingSessions,
    rng: Rng,
    next: Instant,
    until: Instant,
    /// Who sends there and who joins it.
    group: GroupName,
    /// A group that is closed now and then.
    other: GroupName,
    /// Whom candidates speak to: each other.
    leading: GroupName,
    /// The true time.
    pub time: Instant,
    connections: BTreeMap<usize, RoamerConnection>,
}

/// One connection, which may be a session's, or have been.
#[derive(Debug)]
struct RoamerConnection {
    session: usize,
    stage: RoamerStage,
    /// The number that was sent last, where it is left behind.
    numbered: u64,
    /// What each request is.
    sent: BTreeMap<u64, RoamingMessage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoamerStage {
    /// It waits for the welcome, or for the producer to be opened.
    Waits,
    Open,
    /// It does nothing any more.
    Over,
}

/// The table of producers as it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenTable {
    view: u64,
    at: Position,
    counts: bool,
    of: Option<u64>,
    sum: u64,
}

impl Roamers {
    pub fn new(plan: &RunPlan, node: NodeId, sessions: RoamingSessions) -> Self {
        let rng = Rng::new(plan.seed).fork(0x0a33 ^ u64::from(node.0) << 16);
        let named = |text: &str| GroupName::new(text.as_bytes()).unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            sessions,
            rng,
            next: Instant(50_000_000),
            until: plan.calm,
            group: named("roaming"),
            other: named("few0"),
            leading: named("leading"),
            time: Instant::ZERO,
            connections: BTreeMap::new(),
        }
    }

    pub fn has(&self, seat: usize) -> bool {
        self.connections.contains_key(&seat)
    }

    /// Whom its messages go to: the first client of each node is in it.
    pub const fn group(&self) -> &GroupName {
        &self.group
    }

    /// When it has its next turn.
    pub fn next(&self) -> Option<Instant> {
        let ends = self.next >= self.until + ELECTS && self.sessions.with(|roaming| roaming.is_done());
        (!ends).then_some(self.next)
    }

    fn targets(&mut self) -> Vec<Target> {
        let group = Target::Group(self.group.clone());
        if self.rng.chance(0.05) { vec![group, Target::Group(self.other.clone())] } else { vec![group] }
    }
}

impl<E: Engine> Whole<E> {
    pub(super) fn pass_roamers(&mut self, now: Instant) {
        let Some(roamers) = self.roamers.as_mut().filter(|roamers| now >= roamers.next) else { return };
        roamers.next = now + Duration::from_nanos(roamers.rng.exponential(EVERY.as_nanos() as f64) as u64 + 1);
        let (calm, sessions) = (now >= roamers.until, roamers.sessions.clone());
        let count = sessions.with(|roaming| roaming.sessions.len());
        for at in 0..count {
            self.pass_election(at, now);
            let link = sessions.session(at, |session| session.home.link);
            match sessions.with(|roaming| roaming.turn(at, self.me, calm)) {
                RoamingDeed::Connect => self.connect_roamer(at),
                RoamingDeed::Move { stays: true } | RoamingDeed::Nothing => {}
                RoamingDeed::Move { stays: false } => link.into_iter().for_each(|(_, seat)| self.part_roamer(seat)),
                RoamingDeed::Send(sends) => {
                    let Some((_, seat)) = link else { continue };
                    self.make_sends(seat, at, sends);
                    self.send_pending(seat);
                }
            }
        }
        if !calm {
            self.send_left_behind();
        }
    }

    /// The first client of each node is in their group.
    pub(super) fn join_roaming(&mut self, at: usize) {
        if let Some(roamers) = self.roamers.as_ref().filter(|_| at == 0) {
            let group = roamers.group().clone();
            self.join(at, &group, false);
        }
    }

    fn make_sends(&mut self, seat: usize, at: usize, sends: usize) {
        for _ in 0..sends {
            let Some(roamers) = &self.roamers else { return };
            let send = roamers.sessions.session(at, RoamingSession::push);
            self.tell_numbered(seat, at, NumberedRecord { send, ..NumberedRecord::of(NumberedStep::Made) });
        }
    }

    fn connect_roamer(&mut self, session: usize) {
        let seat = self.seats.len();
        let Some(roamers) = &mut self.roamers else { return };
        let elects = roamers.sessions.session(session, |session| session.candidate.is_some());
        let hello = Hello { wants_views: elects, wants_positions: elects, ..Hello::default() };
        self.seats.push(ClientSeat::with(&self.group, &hello));
        self.node.open_client(self.now, client_at(seat));
        let Some(roamers) = &mut self.roamers else { return };
        let connection = RoamerConnection { session, stage: RoamerStage::Waits, numbered: 0, sent: BTreeMap::new() };
        roamers.connections.insert(seat, connection);
        let me = self.me;
        roamers.sessions.session(session, |session| session.home.link = Some((me, seat)));
    }

    /// A connection ends without a word.
    fn part_roamer(&mut self, seat: usize) {
        self.end_roamer(seat);
        self.seats[seat].gone = true;
        self.acts.push_back(MachineOutput::Gone { client: seat as u16 });
        self.node.close_client(self.now, client_at(seat));
    }

    fn end_roamer(&mut self, seat: usize) {
        let connection = self.roamers.as_mut().and_then(|roamers| roamers.connections.get_mut(&seat));
        connection.into_iter().for_each(|connection| connection.stage = RoamerStage::Over);
    }

    /// The session whose connection this is now.
    fn current(&self, seat: usize) -> Option<(usize, bool)> {
        let roamers = self.roamers.as_ref()?;
        let at = roamers.connections.get(&seat)?.session;
        Some((at, roamers.sessions.session(at, |session| session.home.link == Some((self.me, seat)))))
    }

    pub(super) fn welcome_roamer(&mut self, seat: usize) {
        match self.current(seat) {
            Some((at, true)) => {
                self.join_election(seat, at);
                self.open_roamer(seat, at);
            }
            Some((_, false)) => self.part_roamer(seat),
            None => {}
        }
    }

    fn open_roamer(&mut self, seat: usize, at: usize) {
        let Some(roamers) = &mut self.roamers else { return };
        let request = roamers.sessions.session(at, RoamingSession::opening);
        if let Some(connection) = roamers.connections.get_mut(&seat) {
            connection.stage = RoamerStage::Waits;
        }
        self.seats[seat].client.open_producer(&request);
        self.tell_numbered(seat, at, NumberedRecord { flag: request.known, ..NumberedRecord::of(NumberedStep::Asked) });
    }

    fn is_open(&self, seat: usize) -> bool {
        let connection = self.roamers.as_ref().and_then(|roamers| roamers.connections.get(&seat));
        connection.is_some_and(|connection| connection.stage == RoamerStage::Open)
    }

    /// Sends what waits, as far as there is credit.
    pub(super) fn send_pending(&mut self, seat: usize) {
        let Some((at, true)) = self.current(seat) else { return };
        while self.is_open(seat) {
            let Some(roamers) = &mut self.roamers else { return };
            let Some((send, number)) = roamers.sessions.session(at, |session| session.next()) else { return };
            let Some(request) = self.send_roaming(seat, at, (send, number), false) else { return };
            if let Some(roamers) = &self.roamers {
                roamers.sessions.session(at, |session| session.sent(request));
            }
        }
    }

    fn send_roaming(&mut self, seat: usize, at: usize, (send, number): (u64, u64), flag: bool) -> Option<u64> {
        let roamers = self.roamers.as_mut()?;
        let attempt = roamers.sessions.session(at, RoamingSession::attempt);
        let message = RoamingMessage { session: at as u16, send, attempt, number };
        let (elects, command) =
            roamers.sessions.session(at, |session| (session.candidate.is_some(), session.command(send)));
        let (mut targets, safe) = (roamers.targets(), roamers.rng.chance(0.2));
        let mut safe = safe && self.node.engine().capability().services.contains(&Service::Safe);
        if elects {
            (targets, safe) = (vec![Target::Group(roamers.leading.clone())], true);
        }
        let service = if safe { Service::Safe } else { Service::Agreed };
        let payload = message.to_bytes(&command.unwrap_or_default());
        let request = self.seats[seat].client.multicast(service, &targets, &payload).ok()?;
        if let Some(connection) = self.roamers.as_mut().and_then(|roamers| roamers.connections.get_mut(&seat)) {
            connection.sent.insert(request, message);
            connection.numbered = number;
        }
        let step = NumberedRecord { send, attempt, number, flag, ..NumberedRecord::of(NumberedStep::Sent) };
        self.tell_numbered(seat, at, step);
        Some(request)
    }

    /// Connections that their sessions have left go on as if nothing had happened, until they are told.
    fn send_left_behind(&mut self) {
        let Some(roamers) = &self.roamers else { return };
        let open = roamers.connections.iter().filter(|(_, connection)| connection.stage == RoamerStage::Open);
        let open: Vec<_> = open.map(|(seat, connection)| (*seat, connection.session, connection.numbered)).collect();
        for (seat, at, numbered) in open {
            if matches!(self.current(seat), Some((_, false)))
                && let Some(roamers) = &mut self.roamers
                && roamers.rng.chance(0.5)
            {
                let send = roamers.sessions.session(at, RoamingSession::make);
                self.send_roaming(seat, at, (send, numbered + 1), true);
            }
        }
    }

    pub(super) fn on_producer(&mut self, seat: usize, status: &ProducerStatus) {
        let Some((at, current)) = self.current(seat) else { return };
        match *status {
            ProducerStatus::Opened { last, forgotten, at: place } if current => {
                let Some(roamers) = &mut self.roamers else { return };
                roamers.sessions.session(at, |session| session.open(last, forgotten));
                if let Some(connection) = roamers.connections.get_mut(&seat) {
                    (connection.stage, connection.numbered) = (RoamerStage::Open, last);
                }
                let step = NumberedRecord { number: last, flag: forgotten, ..NumberedRecord::of(NumberedStep::Opened) };
                self.tell_numbered(seat, at, NumberedRecord { view: place.view, at: place.at.0, ..step });
                self.send_pending(seat);
            }
            ProducerStatus::Settled { number, at: place } => {
                if let Some(roamers) = self.roamers.as_ref().filter(|_| current) {
                    roamers.sessions.session(at, |session| session.settle(number));
                }
                let step = NumberedRecord { number, ..NumberedRecord::of(NumberedStep::Settled) };
                self.tell_numbered(seat, at, NumberedRecord { view: place.view, at: place.at.0, ..step });
            }
            ProducerStatus::Refused(ref refusal) => self.on_not_opened(seat, at, refusal.cause, current),
            ProducerStatus::Ended => self.open_again(seat, at, current),
            ProducerStatus::Opened { .. } => self.part_roamer(seat),
            ProducerStatus::Waits(_) => {}
        }
    }

    /// A connection that its session has left is not opened again: it would take the producer over.
    fn open_again(&mut self, seat: usize, at: usize, current: bool) {
        match (current, self.is_open(seat)) {
            (true, true) => self.open_roamer(seat, at),
            (false, true) => self.end_roamer(seat),
            (_, false) => {}
        }
    }

    fn on_not_opened(&mut self, seat: usize, at: usize, cause: OpenRefusalCause, current: bool) {
        self.end_roamer(seat);
        let Some(roamers) = self.roamers.as_mut().filter(|_| current) else { return };
        match cause {
            OpenRefusalCause::NoPolicy => roamers.sessions.session(at, |session| session.over = true),
            OpenRefusalCause::Leaving => {
                let nodes = roamers.sessions.with(|roaming| roaming.nodes);
                let to = NodeId(roamers.rng.below(u64::from(nodes)) as u16);
                roamers.sessions.session(at, |session| session.leave(to));
            }
            _ => self.refuse(seat, format!("its producer is not opened: {cause:?}")),
        }
    }

    /// Whether it is one of theirs that was refused, and may be so.
    pub(super) fn on_refused_roamer(&mut self, seat: usize, request: u64, refusal: &Refusal) -> bool {
        let Some((at, current)) = self.current(seat) else { return false };
        let connection = self.roamers.as_mut().and_then(|roamers| roamers.connections.get_mut(&seat));
        let Some(message) = connection.and_then(|connection| connection.sent.remove(&request)) else { return false };
        let cause = refusal.cause;
        if !is_again(cause) && cause != RefusalCause::Closed {
            return false;
        }
        if current && cause == RefusalCause::Fenced {
            self.refuse(seat, "it is fenced, and nobody has taken it over".to_owned());
        }
        let RoamingMessage { send, attempt, number, .. } = message;
        let step = NumberedRecord { send, attempt, number, ..NumberedRecord::of(NumberedStep::Refused) };
        self.tell_numbered(
            seat,
            at,
            NumberedRecord { flag: !is_again(cause), sum: cause as u64, at: u64::from(!current), ..step },
        );
        if let Some(roamers) = self.roamers.as_ref().filter(|_| current) {
            roamers.sessions.session(at, |session| session.refuse(request, cause));
        }
        self.open_again(seat, at, current);
        true
    }

    /// A client is given a message of theirs; false if it is none.
    pub(super) fn on_numbered(&mut self, seat: usize, message: &Message) -> bool {
        let Some(read) = RoamingMessage::read(message.payload()).filter(|_| self.roamers.is_some()) else {
            return false;
        };
        self.elect_by(seat, message);
        let RoamingMessage { session, send, attempt, number } = read;
        let step = NumberedRecord { send, attempt, number, ..NumberedRecord::of(NumberedStep::Given) };
        self.tell_numbered(seat, usize::from(session), step);
        true
    }

    /// Looks whether the table of producers has changed, or has a place at which those of all nodes are compared.
    pub(super) fn look_at_table(&mut self) -> bool {
        if self.roamers.is_none() && self.resumers.is_none() {
            return false;
        }
        let groups = self.node.groups();
        let (producers, before) = (groups.producers(), self.seen_table);
        let HistoryPlace { view, at } = groups.place();
        let is_closing = self.node.view().is_none_or(|view| view.kind == consort_types::ViewKind::Transitional);
        if is_closing || (view, at, producers.counts()) == (before.view, before.at, before.counts) {
            return false;
        }
        let (counts, of) = (producers.counts(), producers.of());
        let mut sum = TraceDigest::default();
        for (producer, record) in producers.all() {
            sum.add_bytes(&producer.0);
            [record.epoch, record.at].iter().for_each(|place| sum.add(place.view << 32 | place.at.0));
            sum.add(record.last << 1 | u64::from(record.renewed));
            sum.add(record.opener.1);
        }
        self.seen_table = SeenTable { view, at, counts, of, sum: sum.0 };
        let changed = (counts, of, sum.0) != (before.counts, before.of, before.sum);
        if !changed && !at.0.is_multiple_of(8) {
            return false;
        }
        let step = NumberedRecord { view, at: at.0, flag: counts, ..NumberedRecord::of(NumberedStep::Table) };
        self.tell_numbered(0, 0, NumberedRecord { number: of.unwrap_or(0), sum: sum.0, ..step });
        true
    }

    /// Its candidate's time passes, whichever node looks after it; one that stood still reads on where it is connected.
    fn pass_election(&mut self, at: usize, now: Instant) {
        let Some(roamers) = &mut self.roamers else { return };
        let (time, over) = (roamers.time, now >= roamers.until + ELECTS);
        let (calm, me) = (now >= roamers.until, self.me);
        let sessions = &roamers.sessions;
        let (goes_on, here) = sessions.session(at, |session| {
            let link = session.home.link;
            let mine = link.is_none_or(|(incarnation, _)| incarnation == me);
            (mine && session.unpause(time), link.map(|(_, seat)| seat))
        });
        if let Some(seat) = here.filter(|_| goes_on) {
            self.read(client_at(seat));
        }
        if over {
            return;
        }
        let Some(Roamers { sessions, rng, .. }) = &mut self.roamers else { return };
        sessions.session(at, |session| session.pass_candidate(time, rng, calm));
        self.tell_election(at);
    }

    /// What its candidate has to send, and what is to be told of it.
    fn tell_election(&mut self, at: usize) {
        let Some(sessions) = self.roamers.as_ref().map(|roamers| roamers.sessions.clone()) else { return };
        let seat = sessions.session(at, |session| session.home.link).filter(|(incarnation, _)| *incarnation == self.me);
        let seat = seat.map_or(0, |(_, seat)| seat);
        let steps =
            sessions.session(at, |session| session.candidate.as_mut().map(|own| std::mem::take(&mut own.steps)));
        for step in steps.into_iter().flatten() {
            self.acts.push_back(MachineOutput::Led { client: seat as u16, step: Box::new(step) });
        }
        while let Some(send) = sessions.session(at, RoamingSession::push_command) {
            self.tell_numbered(seat, at, NumberedRecord { send, ..NumberedRecord::of(NumberedStep::Made) });
        }
    }

    fn join_election(&mut self, seat: usize, at: usize) {
        let Some(roamers) = &self.roamers else { return };
        if roamers.sessions.session(at, |session| session.candidate.is_some()) {
            let leading = roamers.leading.clone();
            self.join(seat, &leading, false);
        }
    }

    /// The session whose candidate hears what this client is told.
    fn elector(&self, seat: usize) -> Option<(usize, RoamingSessions, Instant)> {
        let (at, _) = self.current(seat).filter(|(_, current)| *current)?;
        let roamers = self.roamers.as_ref().filter(|roamers| self.now < roamers.until + ELECTS)?;
        Some((at, roamers.sessions.clone(), roamers.time))
    }

    /// A candidate is told a view.
    pub(super) fn view_election(&mut self, seat: usize, kind: ViewKind, number: u64) {
        let Some((at, sessions, time)) = self.elector(seat) else { return };
        sessions.session(at, |session| session.candidate_view(time, kind, number));
        self.tell_election(at);
        self.send_pending(seat);
    }

    /// A candidate is given a message to its group.
    fn elect_by(&mut self, seat: usize, message: &Message) {
        let Some((at, sessions, time)) = self.elector(seat) else { return };
        let command = message.payload().get(RoamingMessage::LEN..).unwrap_or_default();
        sessions.session(at, |session| session.candidate_given(time, message, command));
        self.tell_election(at);
        self.send_pending(seat);
    }

    /// Whether this client's candidate does nothing now.
    pub(super) fn is_paused(&self, seat: usize) -> bool {
        let Some((at, true)) = self.current(seat) else { return false };
        self.roamers.as_ref().is_some_and(|roamers| roamers.sessions.session(at, |session| session.is_paused()))
    }

    fn tell_numbered(&mut self, seat: usize, session: usize, step: NumberedRecord) {
        let step = NumberedRecord { producer: session as u16, ..step };
        self.acts.push_back(MachineOutput::Numbered { client: seat as u16, step });
    }
}
