//! A model of daemons that send to many rings and read them all: abstract rings whose logs decide when they like, and the
//! outgoing queues, the merge and the turns of the product.
use crate::config::Reads;
use crate::log::LogState;
use crate::merge::{Config, Merge};
use crate::outgoing::{OVERHEAD, Outgoing};
use crate::slot::{RingId, Slot};
use crate::subscription::{Change, SubscriberId};
use crate::turns::{Line, Turn, Turns};
use bytes::Bytes;
use consort_types::{Class, MemberId, MessageId, Position, Service};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The promise that is broken, a colon, and how.
pub type Verdict = Result<(), String>;

/// What rings have of a class of a daemon, in bytes.
const CREDIT: usize = 4 * (OVERHEAD + 50);

/// Rules broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What comes before its turn is handed out at once.
    HandsOutEarly,
    /// What comes before its turn is void.
    DropsEarly,
    /// What is held outlives the view.
    HeldOverViews,
    /// Daemons number on over views.
    NumbersRunOn,
    /// Positions are counted on over views.
    PlacesRunOn,
    /// A daemon does not send again what a view has made void.
    NothingTakenBack,
    /// The last daemon does not read the last ring.
    ReadsSome,
}

/// One step. Numbers are taken modulo whatever they choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A daemon is given a message for a ring.
    Submit {
        daemon: u8,
        ring: u8,
        len: u8,
        control: bool,
    },
    /// A ring decides a sender's next messages.
    Decide {
        ring: u8,
        sender: u8,
        messages: u8,
    },
    /// A ring's view or coordinator changes: a sender's next message stands there and does not count, and is handed in again.
    Again {
        ring: u8,
        sender: u8,
    },
    /// A ring skips so far beyond the furthest one, or as far behind that.
    Skip {
        ring: u8,
        beyond: i8,
    },
    /// The global ring decides a view of some of the daemons that run.
    View {
        some: u8,
    },
    /// A daemon learns of so many entries of a ring.
    Read {
        daemon: u8,
        ring: u8,
        entries: u8,
    },
    /// It hands out so much.
    HandOut {
        daemon: u8,
        items: u8,
    },
    Crash {
        daemon: u8,
    },
    /// It begins anew, behind all that is decided.
    Restart {
        daemon: u8,
    },
}

/// The `number`-th message of a line.
type Name = (Line, u64);

/// What went to a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    name: Name,
    view: u64,
    turn: u64,
    len: usize,
}

#[derive(Clone, Debug)]
pub enum Entry {
    Message(Sent),
    Void,
    Skip(Slot),
    View(u64, BTreeSet<MemberId>),
}

#[derive(Clone, Debug)]
pub struct State {
    index: u64,
    slot: Slot,
}

impl LogState for State {
    type Entry = Entry;
    type Item = Entry;

    fn index(&self) -> u64 {
        self.index
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn items(&self, entry: &Entry) -> VecDeque<Entry> {
        let fills = matches!(entry, Entry::Message(_) | Entry::View(..));
        fills.then(|| entry.clone()).into_iter().collect()
    }

    fn pass(&mut self, entry: Entry) {
        self.index += 1;
        self.slot = match entry {
            Entry::Message(_) | Entry::View(..) => self.slot.plus(1),
            Entry::Skip(to) => self.slot.max(to),
            Entry::Void => self.slot,
        };
    }

    fn change(_item: &Entry) -> Option<Change> {
        None
    }

    fn bytes(_entry: &Entry) -> usize {
        1
    }
}

const START: State = State { index: 0, slot: Slot::FIRST };

struct Ring {
    log: Vec<Entry>,
    end: State,
    /// What has no place, in each line's order.
    waiting: BTreeMap<Line, VecDeque<Sent>>,
}

impl Ring {
    fn decide(&mut self, entry: Entry) {
        self.end.pass(entry.clone());
        self.log.push(entry);
    }

    fn line(&self, sender: u8) -> Option<Line> {
        let lines: Vec<_> = self.waiting.iter().filter(|(_, sent)| !sent.is_empty()).map(|(line, _)| *line).collect();
        lines.get(usize::from(sender) % lines.len().max(1)).copied()
    }
}

struct Daemon {
    me: MemberId,
    up: bool,
    merge: Merge<State>,
    outgoing: Outgoing,
    turns: Turns<Name>,
    current: u64,
    inside: bool,
    place: Position,
    /// What it has submitted and not been given, in order.
    owed: BTreeMap<Class, VecDeque<(MessageId, Name)>>,
    numbers: BTreeMap<Class, u64>,
    /// How many it sent, over views, where that rule is broken.
    sent: BTreeMap<Class, u64>,
    /// What it was given last of each line, and in which view; how many in this view; and where.
    last: BTreeMap<Line, (u64, u64)>,
    given: usize,
    last_place: Position,
}

pub struct World {
    flaw: Option<Flaw>,
    rings: Vec<Ring>,
    daemons: Vec<Daemon>,
    views: u64,
    /// What was given in each view, by the first to be given it; and how much to those who went on from it.
    in_view: BTreeMap<u64, Vec<(Position, Name)>>,
    closed: BTreeMap<u64, usize>,
    at: BTreeMap<Position, Name>,
    pub given: u64,
    pub held: u64,
}

fn ring_id(at: usize) -> RingId {
    RingId(at as u8 + 1)
}

impl World {
    pub fn new(rings: u8, daemons: u8, flaw: Option<Flaw>) -> Self {
        let ring = |_| Ring { log: Vec::new(), end: START, waiting: BTreeMap::new() };
        let mut world = Self {
            flaw,
            rings: (0..rings).map(ring).collect(),
            daemons: Vec::new(),
            views: 0,
            in_view: BTreeMap::new(),
            closed: BTreeMap::new(),
            at: BTreeMap::new(),
            given: 0,
            held: 0,
        };
        let all = (0..daemons).map(|node| world.begin(MemberId::new(node.into(), 1), daemons)).collect();
        world.daemons = all;
        world
    }

    fn begin(&self, me: MemberId, daemons: u8) -> Daemon {
        let some = self.flaw == Some(Flaw::ReadsSome) && me.node.0 + 1 == u16::from(daemons);
        let read = self.rings.len() - usize::from(some);
        let starts = (0..read).map(|at| (ring_id(at), self.rings[at].end.clone()));
        Daemon {
            me,
            up: true,
            merge: Merge::new(Config::new(SubscriberId(0), 1 << 20), starts),
            outgoing: Outgoing::new(Reads::All, 1 << 20, 1 << 10, CREDIT),
            turns: Turns::default(),
            current: self.views,
            inside: false,
            place: Position(0),
            owed: BTreeMap::new(),
            numbers: BTreeMap::new(),
            sent: BTreeMap::new(),
            last: BTreeMap::new(),
            given: 0,
            last_place: Position(0),
        }
    }

    pub fn play(&mut self, step: Step) -> Verdict {
        let ring = |of: &Self, ring: u8| usize::from(ring) % of.rings.len();
        let daemon = |of: &Self, daemon: u8| usize::from(daemon) % of.daemons.len();
        match step {
            Step::Submit { daemon: at, ring: to, len, control } => {
                let class = if control { Class::Control } else { Class::Client };
                self.submit(daemon(self, at), ring(self, to), class, len.into());
            }
            Step::Decide { ring: at, sender, messages } => {
                let at = ring(self, at);
                (0..messages).for_each(|_| self.decide(at, sender));
            }
            Step::Again { ring: at, sender } => {
                let at = ring(self, at);
                if self.rings[at].line(sender).is_some() {
                    self.rings[at].decide(Entry::Void);
                }
            }
            Step::Skip { ring: at, beyond } => {
                let (at, furthest) = (ring(self, at), self.furthest());
                self.rings[at].decide(Entry::Skip(Slot(furthest.0.saturating_add_signed(beyond.into()).max(1))));
            }
            Step::View { some } => self.decide_view(|at| some >> at & 1 == 1),
            Step::Read { daemon: at, ring: of, entries } => self.read(daemon(self, at), ring(self, of), entries.into()),
            Step::HandOut { daemon: at, items } => return self.hand_out(daemon(self, at), items.into()),
            Step::Crash { daemon: at } => {
                let at = daemon(self, at);
                self.daemons[at].up = false;
            }
            Step::Restart { daemon: at } => self.restart(daemon(self, at)),
        }
        Ok(())
    }

    fn furthest(&self) -> Slot {
        self.rings.iter().map(|ring| ring.end.slot).max().unwrap_or(Slot::FIRST)
    }

    fn submit(&mut self, at: usize, ring: usize, class: Class, len: usize) {
        let daemon = &mut self.daemons[at];
        if !daemon.up {
            return;
        }
        let payload = Bytes::from(vec![0; len]).into();
        if let Ok(id) = daemon.outgoing.push(class, ring_id(ring), Service::Agreed, payload) {
            let number = daemon.numbers.entry(class).or_default();
            *number += 1;
            daemon.owed.entry(class).or_default().push_back((id, ((daemon.me, class), *number)));
        }
        self.send_on(at);
    }

    /// Hands own messages to their rings, as the engine does. A ring takes few at a time.
    fn send_on(&mut self, at: usize) {
        let (daemon, runs_on) = (&mut self.daemons[at], self.flaw == Some(Flaw::NumbersRunOn));
        for class in [Class::Control, Class::Client] {
            while daemon.inside
                && let Some((turn, own)) = daemon.outgoing.next((class, None))
            {
                let line = (daemon.me, class);
                let waiting = self.rings[usize::from(own.ring.0) - 1].waiting.entry(line).or_default();
                let Some((_, name)) = daemon.owed[&class].iter().find(|(id, _)| *id == own.id) else { break };
                if waiting.len() >= 6 {
                    break;
                }
                let sent = daemon.sent.entry(class).or_default();
                *sent += 1;
                let turn = if runs_on { *sent } else { turn };
                waiting.push_back(Sent { name: *name, view: daemon.current, turn, len: own.payload.len() });
                daemon.outgoing.sent((class, None));
            }
        }
    }

    fn decide(&mut self, at: usize, sender: u8) {
        let ring = &mut self.rings[at];
        let Some(line) = ring.line(sender) else { return };
        if let Some(sent) = ring.waiting.get_mut(&line).and_then(VecDeque::pop_front) {
            ring.decide(Entry::Message(sent));
        }
    }

    fn decide_view(&mut self, some: impl Fn(usize) -> bool) {
        let up = self.daemons.iter().enumerate().filter(|(at, daemon)| daemon.up && some(*at));
        let members: BTreeSet<_> = up.map(|(_, daemon)| daemon.me).collect();
        if !members.is_empty() {
            self.views += 1;
            self.rings[0].decide(Entry::View(self.views, members));
        }
    }

    fn read(&mut self, at: usize, ring: usize, entries: usize) {
        let merge = &mut self.daemons[at].merge;
        for _ in 0..entries {
            let Some(end) = merge.end(ring_id(ring)) else { return };
            let Some(entry) = self.rings[ring].log.get(end as usize) else { return };
            let _ = merge.push(ring_id(ring), end, entry.clone());
        }
    }

    fn restart(&mut self, at: usize) {
        if !self.daemons[at].up {
            let MemberId { node, incarnation } = self.daemons[at].me;
            // What the last incarnation has in rings may be lost.
            let lost = |line: &Line| line.0 == self.daemons[at].me && incarnation.0 % 2 == 0;
            self.rings.iter_mut().for_each(|ring| ring.waiting.retain(|line, _| !lost(line)));
            self.daemons[at] = self.begin(MemberId::new(node.0, incarnation.0 + 1), self.daemons.len() as u8);
        }
    }

    fn hand_out(&mut self, at: usize, items: usize) -> Verdict {
        for _ in 0..items {
            if !self.daemons[at].up {
                break;
            }
            let Some(merged) = self.daemons[at].merge.hand_out() else { break };
            match merged.item {
                Entry::Message(sent) => self.on_message(at, sent)?,
                Entry::View(number, members) => self.on_view(at, merged.position, number, &members)?,
                Entry::Void | Entry::Skip(_) => return Err("slots: nothing has a place".into()),
            }
            self.send_on(at);
        }
        Ok(())
    }

    /// As the engine does.
    fn on_message(&mut self, at: usize, sent: Sent) -> Verdict {
        let (flaw, daemon) = (self.flaw, &mut self.daemons[at]);
        if sent.view != daemon.current || !daemon.inside {
            return Ok(());
        }
        let (line, number) = sent.name;
        if flaw == Some(Flaw::HandsOutEarly) {
            return self.give(at, (line, number));
        }
        let kept = daemon.turns.take(line, sent.turn, sent.len + OVERHEAD, (line, number));
        if kept == Turn::Void {
            return Err(format!("liveness: {:?} is void at {}", sent.name, daemon.me));
        }
        let mut turn = daemon.turns.next(line);
        self.held += u64::from(turn.is_none());
        if turn.is_none() && flaw == Some(Flaw::DropsEarly) {
            daemon.turns = Turns::default();
        }
        while let Some(name) = turn {
            self.give(at, name)?;
            turn = self.daemons[at].turns.next(line);
        }
        let daemons = self.daemons.len();
        let held = self.daemons[at].turns.bytes();
        check(held <= 2 * daemons * CREDIT, "memory", || format!("{held} bytes are held"))
    }

    fn give(&mut self, at: usize, name: Name) -> Verdict {
        let daemon = &mut self.daemons[at];
        let (me, view, (line, number)) = (daemon.me, daemon.current, name);
        daemon.place.0 += 1;
        let place = daemon.place;
        let (last, before) = daemon.last.insert(line, (number, view)).unwrap_or_default();
        check(number > last, "sender's order", || format!("{me} is given {name:?} after {last}"))?;
        let whole = last == 0 || before != view || number == last + 1;
        check(whole, "sender's order", || format!("{me} is given {name:?} after {last} in view {view}"))?;
        check(place > daemon.last_place, "order", || format!("{me} is given {name:?} at {place}"))?;
        daemon.last_place = place;
        let in_view = self.in_view.entry(view).or_default();
        let known = in_view.get(daemon.given).copied();
        check(known.is_none_or(|known| known == (place, name)), "agreement", || {
            format!("{me} is given {name:?} at {place} in view {view}, another {known:?}")
        })?;
        if known.is_none() {
            in_view.push((place, name));
        }
        daemon.given += 1;
        self.given += 1;
        let known = *self.at.entry(place).or_insert(name);
        check(known == name, "agreement", || format!("{me} is given {name:?} at {place}, where {known:?} stands"))?;
        if line.0 == me {
            let owed = daemon.owed.entry(line.1).or_default().pop_front();
            let placed = daemon.outgoing.placed((line.1, None));
            check(owed == placed.map(|id| (id, name)), "names", || format!("{name:?} is {placed:?}, owed {owed:?}"))?;
        }
        Ok(())
    }

    fn on_view(&mut self, at: usize, position: Position, number: u64, members: &BTreeSet<MemberId>) -> Verdict {
        let (flaw, daemon) = (self.flaw, &mut self.daemons[at]);
        let (me, given, before) = (daemon.me, daemon.given, daemon.current);
        if daemon.inside {
            let all = *self.closed.entry(before).or_insert(given);
            let whole = self.in_view.get(&before).map_or(0, Vec::len);
            check(given == all && given == whole, "agreement", || {
                format!("{me} was given {given} of view {before}, others {all} and {whole}")
            })?;
        }
        (daemon.current, daemon.inside, daemon.given) = (number, members.contains(&me), 0);
        if flaw != Some(Flaw::NothingTakenBack) {
            daemon.outgoing.take_back();
        }
        if flaw != Some(Flaw::PlacesRunOn) {
            daemon.place = position;
        }
        if flaw != Some(Flaw::HeldOverViews) {
            daemon.turns.begin();
        }
        Ok(())
    }

    /// Nothing goes wrong any more: in the end all are given all that those who run have sent.
    pub fn heal(&mut self) -> Verdict {
        (0..self.daemons.len()).for_each(|at| self.restart(at));
        self.decide_view(|_| true);
        for _ in 0..60 {
            for ring in 0..self.rings.len() {
                (0..200).for_each(|sender| self.decide(ring, sender));
            }
            let to = self.furthest().plus(1);
            self.rings.iter_mut().for_each(|ring| ring.decide(Entry::Skip(to)));
            for at in 0..self.daemons.len() {
                (0..self.rings.len()).for_each(|ring| self.read(at, ring, usize::MAX >> 1));
                self.hand_out(at, usize::MAX)?;
            }
        }
        let view = self.in_view.get(&self.views).map_or(0, Vec::len);
        for daemon in &self.daemons {
            let (me, owed, held) = (daemon.me, daemon.owed.values().flatten().next(), daemon.turns.bytes());
            let done = owed.is_none() && daemon.outgoing.is_empty() && held == 0 && daemon.given == view;
            check(done, "liveness", || {
                format!("{me} is owed {owed:?}, holds {held} bytes, was given {} of {view}", daemon.given)
            })?;
        }
        Ok(())
    }
}

fn check(holds: bool, promise: &str, how: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{promise}: {}", how())) }
}
