//! Reading by position: what the engine has retained of an order that lasts is told once more, and then what comes.
//!
//! A reader is told from the log alone, also what is new: as much as its client reads, in the order, each message once. So
//! it holds no memory but its place, and nobody waits for it. Where positions belong to views, the node keeps the log
//! itself, for a while.
mod history;
mod readers;
mod retention;
mod verdicts;

pub(crate) use readers::Readers;
pub(crate) use retention::Retention;
pub(crate) use verdicts::Verdicts;

use crate::Node;
use crate::clients::client_session::Telling;
use crate::mutant::mutated;
use bytes::BytesMut;
use consort_group::ordered::{self, MulticastLayout, Ordered};
use consort_group::{Groups, Targets, ViewPlace, batch};
use consort_order::{Delivery, Engine, Retained};
use consort_session::{Place, ReadRequest, ReadingEnd, ReadingEndCause, ReadingStatus};
use consort_types::{ClientId, GroupName, OfferId, Position};
use consort_wire::Payload;
use readers::{PositionReader, ReaderWait, ReadingStage};
use verdicts::PlaceVerdict;

/// While so many bytes wait for a reader, it is told no more.
const AHEAD: usize = 64 << 10;
/// What looking at one message of the log costs, counted as bytes copied.
const LOOK: usize = 128;

/// A message that a reader is to be told.
struct FoundMessage {
    sender: consort_types::MemberId,
    client: ClientId,
    service: consort_types::Service,
    messages: usize,
    payload: Payload,
    told: MulticastLayout,
    place: Place,
}

impl<E: Engine> Node<E> {
    /// A client asks to read, or to read no more.
    pub(crate) fn on_read(&mut self, client: ClientId, request: &ReadRequest) {
        //= G55
        let reads = self.readers.remove(client).is_some();
        self.hold_unread();
        if reads || request.groups.is_empty() {
            self.end_reading(client, ReadingEndCause::Ended, "the client reads no more, or something else".to_owned());
        }
        if request.groups.is_empty() {
            return;
        }
        let groups = groups_of(request);
        self.admit_reader(client, request, groups);
    }

    /// Lets a client read; false if it is told why not.
    fn admit_reader(
        &mut self,
        client: ClientId,
        request: &ReadRequest,
        groups: Result<Vec<GroupName>, String>,
    ) -> bool {
        let capability = self.engine.capability();
        if !capability.replays && self.retention.is_off() {
            let text = format!(
                "the daemons order with `{}`, and this one is configured to retain nothing (retain or retain_for below \
                 [sessions] is 0)",
                capability.protocol
            );
            self.end_reading(client, ReadingEndCause::Unsupported, text);
            return false;
        }
        match groups {
            Ok(groups) => {
                self.readers.insert(client, PositionReader::new(request, groups));
                true
            }
            Err(text) => {
                self.end_reading(client, ReadingEndCause::BadGroup, text);
                false
            }
        }
    }

    /// A client that has left its groups reads what they are sent from this place on, unless it reads already.
    pub(crate) fn read_from_here(&mut self, client: ClientId, groups: Vec<GroupName>) {
        //= G65
        if self.readers.get_mut(client).is_some() {
            return;
        }
        let (from, groups) = (Place::at(ReadRequest::NEW), each_once(groups));
        let request = ReadRequest { order: 0, from, trail: None, groups: Vec::new() };
        if !self.admit_reader(client, &request, groups) {
            return;
        }
        if self.replays {
            let readable = self.readable();
            let begins = readable.map(|readable| (readable, Place::at(readable.last.0 + 1)));
            begins.into_iter().for_each(|(readable, from)| self.start_reading(client, readable, from));
        } else if let Some(end) = self.retention.end() {
            self.start_kept(client, end);
        }
        self.hold_unread();
    }

    /// Whether some reader may be told something.
    pub(crate) fn has_to_read(&self) -> bool {
        !self.readers.is_empty() && self.readers.has_turn(self.place_in_order())
    }

    /// Tells the next reader a little, if this slice has room for it.
    pub(crate) fn read_next(&mut self) -> bool {
        if self.readers.is_empty() || !self.readers.may_read() {
            return false;
        }
        self.readers.wake(self.now, self.place_in_order());
        let Some(client) = self.readers.next_turn() else { return false };
        let waits = self.serve_reader(client);
        self.readers.waits(client, waits);
        self.hold_unread();
        true
    }

    /// Tells the engine what readers have yet to read.
    pub(crate) fn hold_unread(&mut self) {
        //= G57
        if !self.replays {
            return;
        }
        let first = self.readers.first_unread().map(Position);
        if std::mem::replace(&mut self.held, first) != first {
            self.engine.hold(first);
        }
    }

    /// How far this node has taken the order, and whether it knows where it stands.
    fn place_in_order(&self) -> (Option<u64>, bool) {
        let last = if self.replays { self.verdicts.last() } else { Some(self.retention.version()) };
        (last, self.settling.is_none() && self.groups.is_settled())
    }

    /// The order as far as readers are told of it: nobody reads what members have yet to be told.
    fn readable(&self) -> Option<Retained> {
        let retained = self.engine.retained()?;
        // An order in which nothing stands yet, as the node is in a view of it.
        let is_empty = || retained.last.0 == 0 && self.view.as_ref().is_some_and(|view| view.id.number > 0);
        let last = self.verdicts.last().or_else(|| is_empty().then_some(0))?;
        // A node that was left out may have trimmed more than it has told its members.
        Some(Retained { last: Position(last), ..retained }).filter(|readable| readable.first.0 <= last + 1)
    }

    fn serve_reader(&mut self, client: ClientId) -> ReaderWait {
        //= G56
        self.readers.spend(LOOK);
        let waiting = self.clients.get(client).map_or(0, |session| session.output().len());
        if waiting >= AHEAD {
            return ReaderWait::Room;
        }
        if !self.replays {
            return if self.may_go_on(client) { self.serve_kept(client, AHEAD - waiting) } else { ReaderWait::Order };
        }
        let Some(readable) = self.readable() else { return ReaderWait::Order };
        if !self.may_go_on(client) {
            return ReaderWait::Order;
        }
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        if matches!(reader.stage, ReadingStage::Asked { .. }) {
            return self.begin_reading(client, readable);
        }
        self.read_on(client, readable, AHEAD - waiting)
    }

    /// Ends the reading of one that may not read a group any more, or not yet.
    fn may_go_on(&mut self, client: ClientId) -> bool {
        //= G52
        let (me, now) = (self.datagrams.identity().me, self.groups.hash());
        let Some(reader) = self.readers.get_mut(client) else { return false };
        let now = (now, self.rights.version());
        if reader.seen_groups == Some(now) {
            return true;
        }
        reader.seen_groups = Some(now);
        let groups = &self.groups;
        let shut = |group: &&GroupName| groups.is_closed(group.as_bytes()) && !groups.is_in((me, client), group);
        let Some(group) = reader.groups.iter().find(shut).cloned() else {
            let read = reader.groups.clone();
            let Some(text) = read.iter().find_map(|group| self.reading_denial(client, group)) else { return true };
            self.end_reading(client, ReadingEndCause::Denied, text);
            return false;
        };
        let text = format!("{group} is closed: only its members may read it; join it first");
        self.end_reading(client, ReadingEndCause::Closed, text);
        false
    }

    fn begin_reading(&mut self, client: ClientId, readable: Retained) -> ReaderWait {
        let (now, is_settled) = (self.now, self.place_in_order().1);
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        if !is_settled {
            reader.stage = ReadingStage::Asked { until: None };
            return ReaderWait::Order;
        }
        let Retained { order, first: Position(oldest), last: Position(newest) } = readable;
        if reader.trail.is_some() {
            let text = "the position belongs to a view, and here positions last: the daemons order otherwise than those \
                        that were read from; read from the start";
            self.end_reading(client, ReadingEndCause::OtherOrder, text.to_owned());
            return ReaderWait::Turn;
        }
        if reader.next.position == ReadRequest::NEW {
            reader.next = Place::at(newest + 1);
        }
        let (from, wanted) = (reader.next.position, reader.order);
        if wanted != 0 && wanted != order {
            let text = format!(
                "position {from} is of the order {wanted:016x}, and this is the order {order:016x}: it was begun anew, with \
                 other messages; read from the start"
            );
            self.end_reading(client, ReadingEndCause::OtherOrder, text);
        } else if from > newest + 1 {
            if self.readers.is_patient(client, now) {
                return ReaderWait::Order;
            }
            let text = format!(
                "position {from} is beyond the end: the newest message of this order is at {newest}; if it was begun anew, \
                 read from the start"
            );
            self.end_reading(client, ReadingEndCause::BeyondEnd, text);
        } else if from > 0 && from < oldest {
            let text = format!(
                "position {from} is not retained any more: the oldest there is is {oldest}; restore what you know from \
                 elsewhere, or read from the start"
            );
            self.end_reading(client, ReadingEndCause::Trimmed, text);
        } else {
            let from = if from == 0 { Place::at(oldest) } else { reader.next };
            self.start_reading(client, readable, from);
        }
        ReaderWait::Turn
    }

    fn start_reading(&mut self, client: ClientId, readable: Retained, from: Place) {
        let Retained { order, first: Position(oldest), last: Position(newest) } = readable;
        if let Some(reader) = self.readers.get_mut(client) {
            (reader.stage, reader.order, reader.next) = (ReadingStage::Begun, order, from);
            self.say(client, &ReadingStatus::Began { order, from, oldest, newest });
        }
    }

    /// Tells a reader what follows, as far as there is room.
    fn read_on(&mut self, client: ClientId, readable: Retained, room: usize) -> ReaderWait {
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        let (next, oldest) = (reader.next.position, readable.first.0);
        if next < oldest {
            //= G54
            reader.next = Place::at(oldest);
            if !mutated!(self, TrimmedUntold) {
                self.say(client, &ReadingStatus::Lost { from: next, to: oldest - 1 });
            }
            return ReaderWait::Turn;
        }
        if next > readable.last.0 {
            if std::mem::replace(&mut reader.stage, ReadingStage::Live) != ReadingStage::Live {
                self.say(client, &ReadingStatus::CaughtUp { position: readable.last.0 });
                #[cfg(feature = "mutants")]
                if mutated!(self, SeamRepeated) {
                    self.step_back(client);
                }
            }
            return ReaderWait::Order;
        }
        match self.tell_from_log(client, readable.last, room) {
            true => ReaderWait::Turn,
            false => ReaderWait::Order,
        }
    }

    /// Has a reader read the newest message again, where a rule is broken on purpose.
    #[cfg(feature = "mutants")]
    fn step_back(&mut self, client: ClientId) {
        if let Some(reader) = self.readers.get_mut(client) {
            reader.next = Place::at(reader.next.position.saturating_sub(1).max(1));
        }
    }

    /// Looks at the log from a reader's place on, and tells it what is for it, until so many bytes are told or looked at.
    /// False where the log shows nothing.
    fn tell_from_log(&mut self, client: ClientId, last: Position, room: usize) -> bool {
        //= G50
        //= G51
        let most = room.min(self.readers.left()).max(1);
        let Self { engine, readers, groups, verdicts, .. } = self;
        let Some(reader) = readers.get_mut(client) else { return false };
        let (mut found, mut lost, mut spent, from) = (Vec::new(), None, 0, reader.next);
        engine.replay(Position(from.position), &mut |delivery| {
            let at = delivery.position;
            if at > last || lost.is_some() || spent >= most {
                return false;
            }
            spent += LOOK;
            let skipped = if at.0 == from.position { from.index } else { 0 };
            match look(delivery, skipped, &reader.groups, verdicts, groups) {
                Look::Other => {}
                Look::Lost => lost = Some(at.0),
                Look::Found(message) => {
                    spent += message.payload.len();
                    found.push(message);
                }
            }
            reader.next = Place::at(at.0 + 1);
            true
        });
        readers.spend(spent);
        if mutated!(self, ReadSkips) && found.len() > 1 {
            found.pop();
        }
        found.iter().for_each(|message| self.tell_read(client, message));
        if let Some(at) = lost {
            //= G53
            self.say(client, &ReadingStatus::Lost { from: at, to: at });
        }
        spent > 0
    }

    fn tell_read(&mut self, client: ClientId, found: &FoundMessage) {
        let FoundMessage { sender, service, messages, payload, told, place, .. } = found;
        self.readers.messages += *messages as u64;
        let telling = Telling {
            sender: (*sender, found.client),
            own: None,
            service: *service,
            messages: *messages,
            payload,
            told: *told,
            place: *place,
            offer: OfferId(0),
            now: self.now,
            written: None,
        };
        self.clients.tell_read(client, &telling);
    }

    fn end_reading(&mut self, client: ClientId, cause: ReadingEndCause, text: String) {
        self.end_reading_at(client, cause, text, None);
    }

    fn end_reading_at(&mut self, client: ClientId, cause: ReadingEndCause, text: String, common: Option<ViewPlace>) {
        self.readers.remove(client);
        self.hold_unread();
        let (oldest, newest) = self.readable().map_or((0, 0), |readable| (readable.first.0, readable.last.0));
        let end = ReadingStatus::Ended(ReadingEnd { cause, oldest, newest, text, common });
        self.frames.clear();
        end.put(&mut self.frames);
        // It may ask as often as it likes, but must read the answers.
        self.answer(client);
    }

    fn say(&mut self, client: ClientId, reading: &ReadingStatus) {
        let mut frame = BytesMut::new();
        reading.put(&mut frame);
        self.clients.tell_reader(client, &frame);
    }

    /// A message has its place: what became of it there.
    pub(crate) fn note_verdict(&mut self, at: Position, refused: bool) {
        if !self.replays || at == Position::OUTSIDE || !self.verdicts.take(at.0, refused) {
            return;
        }
        if let Some(retained) = self.engine.retained() {
            self.verdicts.forget_below(retained.first.0);
        }
    }
}

/// The groups that a request names, each once.
fn groups_of(request: &ReadRequest) -> Result<Vec<GroupName>, String> {
    let name = |name: &Vec<u8>| {
        let text = String::from_utf8_lossy(name);
        GroupName::new(name).map_err(|problem| format!("no group can be called {text:?}: {problem}"))
    };
    within_most(request.groups.len())?;
    each_once(request.groups.iter().map(name).collect::<Result<_, _>>()?)
}

fn within_most(count: usize) -> Result<(), String> {
    let most = ReadRequest::GROUPS_MAX;
    if count <= most { Ok(()) } else { Err(format!("{count} groups; one reading may name {most}")) }
}

fn each_once(mut groups: Vec<GroupName>) -> Result<Vec<GroupName>, String> {
    within_most(groups.len())?;
    groups.sort_unstable();
    groups.dedup();
    Ok(groups)
}

/// What a reader makes of a message.
enum Look {
    /// It is not for it.
    Other,
    /// It may be for it, but nobody here knows whether it was refused.
    Lost,
    Found(FoundMessage),
}

fn look(delivery: &Delivery, skipped: u16, wanted: &[GroupName], verdicts: &Verdicts, groups: &Groups) -> Look {
    let Delivery { sender, position, service, payload, .. } = delivery;
    let Ok(Ordered::Multicast { client, told, .. }) = ordered::decode(payload) else { return Look::Other };
    let verdict = verdicts.of(position.0);
    let is_wanted = |name: &[u8]| wanted.binary_search_by(|group| group.as_bytes().cmp(name)).is_ok();
    let judge = |targets: Targets<'_>| {
        let names = targets.names().any(is_wanted);
        let in_doubt = verdict == PlaceVerdict::Unknown && targets.names().any(|name| groups.is_closed(name));
        (names && verdict != PlaceVerdict::Refused, in_doubt, targets.encoded_len())
    };
    let (is_for_it, in_doubt, len) = match Targets::of(payload, told.targets_at, judge) {
        Ok(judged) => judged,
        Err(_) => return Look::Other,
    };
    let whole = if told.batch { batch::check(payload, told.body_at(), len) } else { Ok(1) };
    let (true, Ok(messages)) = (is_for_it, whole) else { return Look::Other };
    if in_doubt {
        return Look::Lost;
    }
    let index = usize::from(skipped);
    let place = Place { position: position.0, index: skipped };
    let payload = match (index, told.batch) {
        (0, _) => payload.clone(),
        (_, false) => return Look::Other,
        (_, true) => match batch::behind(payload, told.body_at(), index) {
            Some(rest) => rest,
            None => return Look::Other,
        },
    };
    let messages = messages - index.min(messages);
    Look::Found(FoundMessage { sender: *sender, client, service: *service, messages, payload, told, place })
}
