//! The connections of readers that outlive their daemons, as one node has them, and what its first client is given of what
//! they read.
use super::resuming_readers::{ResumingDeed, ResumingReaders, place_in};
use super::{ClientSeat, MachineOutput, Whole, client_at, seat_of, sum};
use crate::plan::RunPlan;
use crate::trace::{ResumedRecord, ResumedStep};
use bytes::{BufMut, BytesMut};
use consort_order::Engine;
use consort_session::{
    Hello, Message, Place, ReachedPlace, ReadRequest, ReadingEnd, ReadingEndCause, ReadingStatus, ViewTrail,
};
use consort_types::{ClientId, Duration, GroupName, Instant, NodeId, Position, Rng, Service, ViewId};
use std::collections::BTreeMap;

/// Between two turns, while faults come and later.
const EVERY: Duration = Duration::from_millis(12);
const EVERY_CALM: Duration = Duration::from_millis(60);
/// The first bit stands for the group of the workload, the second for this one.
const APART: &[u8] = b"apart";
const OF_WORKLOAD: u8 = 1;
const OF_APART: u8 = 2;
/// What messages to the second group begin with.
const MAGIC: &[u8] = b"apart:";

/// What a node has of the readers that outlive it.
#[derive(Debug)]
pub(super) struct Resumers {
    readers: ResumingReaders,
    rng: Rng,
    next: Instant,
    until: Instant,
    apart: GroupName,
    said: u64,
    /// Which reader each of these clients is, or was.
    connections: BTreeMap<usize, ResumerConnection>,
    /// The view that the first client was told last.
    view: Option<ViewId>,
    /// What is being read now has waited.
    late: bool,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
struct ResumerConnection {
    reader: usize,
    stage: ResumerStage,
}

/// What a connection is told concerns its reading, or one that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResumerStage {
    /// It waits for the welcome.
    Waits,
    Reads,
    /// It has asked for something else, and what comes is of its former reading until that has ended.
    Ends,
}

impl Resumers {
    pub fn new(plan: &RunPlan, node: NodeId, readers: ResumingReaders) -> Self {
        let rng = Rng::new(plan.seed).fork(0x4e53 ^ u64::from(node.0) << 16);
        let apart = GroupName::new(APART).unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            readers,
            rng,
            next: Instant(30_000_000),
            until: plan.calm,
            apart,
            said: 0,
            connections: BTreeMap::new(),
            view: None,
            late: false,
        }
    }

    pub fn has(&self, seat: usize) -> bool {
        self.connections.contains_key(&seat)
    }

    /// When it has its next turn.
    pub const fn next(&self) -> Instant {
        self.next
    }

    pub fn is_stalled(&self, seat: usize) -> bool {
        let stalls =
            |connection: &ResumerConnection| self.readers.reader(connection.reader, |reader| reader.stalled.is_some());
        self.connections.get(&seat).is_some_and(stalls)
    }

    fn groups(&self, bits: u8, workload: &GroupName) -> Vec<GroupName> {
        let both = [(OF_WORKLOAD, workload), (OF_APART, &self.apart)];
        both.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, group)| group.clone()).collect()
    }

    fn bits(&self, message: &Message, workload: &GroupName) -> u8 {
        let names = |group: &GroupName| message.groups().any(|name| name == group.as_str());
        (u8::from(names(workload)) * OF_WORKLOAD) | (u8::from(names(&self.apart)) * OF_APART)
    }
}

impl<E: Engine> Whole<E> {
    pub(super) fn pass_resumers(&mut self, now: Instant) {
        let Some(resumers) = self.resumers.as_mut().filter(|resumers| now >= resumers.next) else { return };
        let calm = now >= resumers.until;
        let every = if calm { EVERY_CALM } else { EVERY };
        resumers.next = now + Duration::from_nanos(resumers.rng.exponential(every.as_nanos() as f64) as u64 + 1);
        let readers = resumers.readers.clone();
        for at in 0..readers.with(|resuming| resuming.readers.len()) {
            let seat = readers.reader(at, |reader| reader.home.link.map(|(_, seat)| seat));
            match (readers.with(|resuming| resuming.turn(at, self.me, now, calm)), seat) {
                (ResumingDeed::Connect, _) => self.connect_resumer(at),
                (ResumingDeed::Move { stays }, Some(seat)) => self.move_resumer(seat, at, stays),
                (ResumingDeed::Stall(long), _) => readers.reader(at, |reader| reader.stalled = Some(now + long)),
                (ResumingDeed::GoOn, Some(seat)) => self.go_on(seat),
                (ResumingDeed::Anew, Some(seat)) => self.read_anew(seat, at),
                (ResumingDeed::Move { .. } | ResumingDeed::GoOn | ResumingDeed::Anew, None)
                | (ResumingDeed::Nothing, _) => {}
            }
        }
        if !calm {
            self.speak_apart();
        }
    }

    /// The first client of each node is in both groups.
    pub(super) fn join_apart(&mut self, at: usize) {
        if let Some(resumers) = self.resumers.as_ref().filter(|_| at == 0) {
            let apart = resumers.apart.clone();
            self.join(at, &apart, false);
        }
    }

    /// Now and then the first client says something to the second group.
    fn speak_apart(&mut self) {
        let Some(resumers) = self.resumers.as_mut() else { return };
        if !resumers.rng.chance(0.2) {
            return;
        }
        resumers.said += 1;
        let mut payload = BytesMut::from(MAGIC);
        payload.put_u16(self.me.node.0);
        payload.put_u64(self.me.incarnation.0);
        payload.put_u64(resumers.said);
        let len = resumers.rng.below(2_000) as usize;
        payload.resize(payload.len() + len, 7);
        let to = std::slice::from_ref(&resumers.apart);
        let asked = self.seats[0].client.multicast(Service::Agreed, to, &payload);
        self.dare(0, asked);
    }

    fn connect_resumer(&mut self, at: usize) {
        let seat = self.seats.len();
        self.seats.push(ClientSeat::with(&self.group, &Hello::default()));
        self.node.open_client(self.now, client_at(seat));
        let Some(resumers) = &mut self.resumers else { return };
        resumers.connections.insert(seat, ResumerConnection { reader: at, stage: ResumerStage::Waits });
        let me = self.me;
        resumers.readers.reader(at, |reader| reader.home.link = Some((me, seat)));
    }

    fn move_resumer(&mut self, seat: usize, at: usize, stays: bool) {
        self.tell_resumed(seat, at, ResumedRecord::of(ResumedStep::Away));
        if stays {
            return;
        }
        self.seats[seat].gone = true;
        self.acts.push_back(MachineOutput::Gone { client: seat as u16 });
        self.node.close_client(self.now, client_at(seat));
    }

    fn go_on(&mut self, seat: usize) {
        self.set_late(true);
        self.read(client_at(seat));
        self.set_late(false);
    }

    fn set_late(&mut self, late: bool) {
        self.resumers.iter_mut().for_each(|resumers| resumers.late = late);
    }

    fn read_anew(&mut self, seat: usize, at: usize) {
        let Some(resumers) = &mut self.resumers else { return };
        resumers.readers.reader(at, |reader| reader.forget());
        let connection =
            resumers.connections.get_mut(&seat).filter(|connection| connection.stage == ResumerStage::Reads);
        let Some(connection) = connection else { return };
        connection.stage = ResumerStage::Ends;
        self.tell_resumed(seat, at, ResumedRecord::of(ResumedStep::Fresh));
        self.ask_resumer(seat, at);
    }

    /// Which reader's connection this is, if it still is.
    fn resumer(&self, seat: usize) -> Option<usize> {
        let resumers = self.resumers.as_ref()?;
        let at = resumers.connections.get(&seat)?.reader;
        resumers.readers.reader(at, |reader| reader.home.link == Some((self.me, seat))).then_some(at)
    }

    pub(super) fn welcome_resumer(&mut self, seat: usize) {
        if let Some(at) = self.resumer(seat) {
            self.set_stage(seat, ResumerStage::Reads);
            self.ask_resumer(seat, at);
        }
    }

    fn set_stage(&mut self, seat: usize, stage: ResumerStage) {
        let connection = self.resumers.as_mut().and_then(|resumers| resumers.connections.get_mut(&seat));
        connection.into_iter().for_each(|connection| connection.stage = stage);
    }

    /// The reader whose reading this connection is told of.
    fn reads(&self, seat: usize) -> Option<usize> {
        let at = self.resumer(seat)?;
        let stage = self.resumers.as_ref()?.connections.get(&seat)?.stage;
        (stage == ResumerStage::Reads).then_some(at)
    }

    /// Asks for what follows the last place that is known.
    fn ask_resumer(&mut self, seat: usize, at: usize) {
        let Some(resumers) = &mut self.resumers else { return };
        let (from, bits) = resumers.readers.reader(at, |reader| (reader.from.clone(), reader.groups));
        let groups = resumers.groups(bits, &self.group);
        let is_new = from.is_none() && resumers.rng.chance(0.2);
        let client = &mut self.seats[seat].client;
        let mut step = ResumedRecord { groups: bits, ..ResumedRecord::of(ResumedStep::Asked) };
        let trail = from.as_ref().and_then(|place| place.trail.as_deref());
        match (&from, trail) {
            (Some(place), Some(trail)) => {
                client.read_on(trail, place.next, &groups);
                (step.view, step.at) = place_in(place);
                step.to = Place::at(trail.closing.map_or(u64::MAX, |closing| closing.line.0));
                step.flag = true;
            }
            (Some(place), None) => {
                client.read(place.order, place.next, &groups);
                step.at = place.next;
            }
            (None, _) => client.read(0, Place::at(if is_new { ReadRequest::NEW } else { 0 }), &groups),
        }
        resumers.readers.reader(at, |reader| reader.progress.ask(trail));
        self.tell_resumed(seat, at, step);
    }

    /// The first client was told which view it is in.
    pub(super) fn note_view(&mut self, at: usize, view: ViewId) {
        self.resumers.iter_mut().filter(|_| at == 0).for_each(|resumers| resumers.view = Some(view));
    }

    /// A client was given a message of a group that is read; whether it is one of the second group.
    pub(super) fn on_given(&mut self, at: usize, message: &Message) -> bool {
        let Some(resumers) = &self.resumers else { return false };
        let groups = resumers.bits(message, &self.group);
        let view = if self.node.engine().capability().replays { None } else { resumers.view };
        if let Some(placement) = message.placement().filter(|_| at == 0 && groups != 0) {
            let (place, view) = (placement.place, view.unwrap_or_default());
            if place.position != Position::OUTSIDE.0 {
                let step = ResumedRecord { view, at: place, groups, ..ResumedRecord::of(ResumedStep::Given) };
                self.tell_message(at, 0, step, message);
            }
        }
        groups & OF_APART != 0 && message.payload().starts_with(MAGIC)
    }

    fn tell_message(&mut self, seat: usize, reader: usize, step: ResumedRecord, message: &Message) {
        let payload = message.clone().into_payload();
        let len = payload.len() as u64;
        self.tell_resumed(seat, reader, ResumedRecord { sum: sum(&payload.into()), len, ..step });
    }

    /// A reader was told a message; false where it is none of these.
    pub(super) fn on_resumed_read(&mut self, seat: usize, message: &Message) -> bool {
        let Some(resumers) = self.resumers.as_ref().filter(|resumers| resumers.has(seat)) else { return false };
        let (Some(at), Some(placement)) = (self.reads(seat), message.placement()) else { return true };
        let flag = !resumers.late;
        let view = resumers.readers.reader(at, |reader| {
            reader.progress.on_next(placement.next);
            reader.place().0
        });
        let groups = resumers.bits(message, &self.group);
        let step = ResumedRecord {
            view,
            at: placement.place,
            to: placement.next,
            groups,
            flag,
            ..ResumedRecord::of(ResumedStep::Message)
        };
        self.tell_message(seat, at, step, message);
        self.leave_suddenly(seat, at);
        true
    }

    /// Now and then a reader takes no more of what it was told, be it the rest of a batch, and goes on elsewhere.
    fn leave_suddenly(&mut self, seat: usize, at: usize) {
        let Some(resumers) = self.resumers.as_mut().filter(|resumers| self.now < resumers.until) else { return };
        if resumers.rng.chance(0.003) {
            let readers = resumers.readers.clone();
            readers.with(|resuming| resuming.send_away(at));
            self.tell_resumed(seat, at, ResumedRecord::of(ResumedStep::Away));
        }
    }

    /// A reader was told something else; false where it is none of these.
    pub(super) fn on_resumed(&mut self, seat: usize, status: &ReadingStatus) -> bool {
        let Some(resumers) = self.resumers.as_ref().filter(|resumers| resumers.has(seat)) else { return false };
        let Some(at) = self.reads(seat) else {
            if matches!(status, ReadingStatus::Ended(_)) && self.resumer(seat).is_some() {
                self.set_stage(seat, ResumerStage::Reads);
            }
            return true;
        };
        let view = resumers.readers.reader(at, |reader| {
            reader.progress.on_status(status);
            reader.place().0
        });
        let of = ResumedRecord::of;
        let step = match *status {
            ReadingStatus::Began { from, .. } => ResumedRecord { at: from, ..of(ResumedStep::Began) },
            ReadingStatus::CaughtUp { position } => {
                ResumedRecord { view, at: Place::at(position.saturating_add(1)), ..of(ResumedStep::CaughtUp) }
            }
            ReadingStatus::Lost { from, to } => {
                ResumedRecord { at: Place::at(from), to: Place::at(to.saturating_add(1)), ..of(ResumedStep::Gap) }
            }
            ReadingStatus::InView { view, line, closing } => {
                let (at, to) = (Place::at(line.0), Place::at(closing.map_or(0, |closing| closing.line.0)));
                ResumedRecord { view, at, to, flag: closing.is_some(), ..of(ResumedStep::InView) }
            }
            ReadingStatus::Gap { from, to, closing } => {
                let place = |place: consort_session::ViewPlace| Place { position: place.at.0, index: place.index };
                let (from_at, to_at, flag) = (place(from), place(to), closing.is_some());
                ResumedRecord {
                    view: from.view,
                    at: from_at,
                    to_view: to.view,
                    to: to_at,
                    flag,
                    ..of(ResumedStep::Gap)
                }
            }
            ReadingStatus::Ended(ref end) => {
                self.on_resumed_end(seat, at, end);
                return true;
            }
        };
        self.tell_resumed(seat, at, step);
        true
    }

    /// Where histories part it goes on where both are the same; what is not retained any more it begins anew.
    fn on_resumed_end(&mut self, seat: usize, at: usize, end: &ReadingEnd) {
        let readers = match &self.resumers {
            Some(resumers) => resumers.readers.clone(),
            None => return,
        };
        match (end.cause, end.common) {
            (ReadingEndCause::Ended, _) => return,
            (ReadingEndCause::Parted, Some(common)) => {
                let next = Place { position: common.at.0, index: common.index };
                let trail = Some(Box::new(ViewTrail::new(common.view)));
                let step = ResumedRecord {
                    to_view: common.view,
                    to: next,
                    flag: true,
                    ..ResumedRecord::of(ResumedStep::Parted)
                };
                self.tell_resumed(seat, at, step);
                readers.reader(at, |reader| {
                    reader.forget();
                    reader.from = Some(ReachedPlace { order: 0, next, trail });
                });
            }
            (cause, _) => {
                let may_be =
                    matches!(cause, ReadingEndCause::Parted | ReadingEndCause::Trimmed | ReadingEndCause::BeyondEnd);
                if !may_be {
                    return self.refuse(seat, format!("its reading ends: {}", end.text));
                }
                let step = if cause == ReadingEndCause::Parted { ResumedStep::Parted } else { ResumedStep::Fresh };
                self.tell_resumed(seat, at, ResumedRecord::of(step));
                readers.reader(at, |reader| reader.forget());
            }
        }
        self.ask_resumer(seat, at);
    }

    fn tell_resumed(&mut self, seat: usize, reader: usize, step: ResumedRecord) {
        let step = ResumedRecord { reader: reader as u16, ..step };
        self.acts.push_back(MachineOutput::Resumed { client: seat as u16, step: Box::new(step) });
    }

    /// Whether a client reads nothing now.
    pub(super) fn is_stalled(&self, client: ClientId) -> bool {
        let seat = seat_of(client);
        self.reader.as_ref().is_some_and(|reader| reader.is_stalled(seat))
            || self.resumers.as_ref().is_some_and(|resumers| resumers.is_stalled(seat))
            || self.is_paused(seat)
            || self.is_stalled_server(seat)
    }
}
