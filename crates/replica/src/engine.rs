//! The protocol of replicas: events of a group in, effects out. It has no clock, no thread and no socket.
//!
//! A replica is *following* where it takes every event of the group at its place, or *lagging*. All that follow know
//! alike which replicas *count*: those change at messages of the order alone, which are safe, and which one that counts has
//! sent. In a new view those that came together go on if they are a majority of those that count; otherwise they lag.
//! Whoever lags says hello. The lowest that counts sends it what it lacks. It is up to date then, and counts once one that
//! counted before has said in the order that it received that: see [`serve`]. Where all members of the group say hello
//! there is nobody to ask, and all conclude from the hellos alike who is furthest: see [`elect`].
//!
//! Commands that come while a view is closing are kept in the line and held back from the machine until a message of the
//! next view shows that its members go on. So are those that come to a replica before it counts. So a machine never has to
//! undo a command.
#![doc(hidden)]
mod claim;
mod elect;
mod serve;

use crate::frame::{Claim, Frame, Hello, Peer};
use crate::line::{Entry, Line, Log, Origin, Others, Point, ReplicaId, Seen, is_majority};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a replica takes part.
#[derive(Clone, Debug)]
pub struct Settings {
    pub id: ReplicaId,
    pub origin: Origin,
    /// How many replicas begin a history.
    pub founders: usize,
    /// It counts as all that is left.
    pub forces: bool,
    /// How many bytes of commands are kept for those who missed them.
    pub log_bytes: usize,
}

/// Who is in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The number of the network view, and of the change within it: names the membership, at all members alike.
    pub at: (u64, u64),
    /// A new view of the network, not a join or leave within one.
    pub is_new_view: bool,
    pub members: BTreeSet<Peer>,
    /// Those that received the same as this one.
    pub together: BTreeSet<Peer>,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To the group, once, safe.
    Send(Frame),
    /// The machine's next command.
    Apply { at: Point, entry: Entry },
    /// An own mark was passed: the machine has all that was answered before it was sent.
    Passed { number: u64 },
    /// Where machines of several groups are looked at.
    Cut { origin: Origin, number: u64 },
    /// Send the machine as it is now, or commands, and this with it.
    Donate { id: ReplicaId, peer: Peer, gift: Box<Gift> },
    /// What was donated to it is of no use any more.
    StopDonating { id: ReplicaId },
    /// An own command is in the history, and the machine got its effect with a snapshot.
    Unseen { number: u64 },
    /// This replica is up to date from here, or is no more.
    Current(bool),
    /// These may go on without it. Its next start must know that, so its directory must have it before what follows is done.
    Remember(Others),
}

/// What one is given who lags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    pub ask: u64,
    /// So many steps of what it received since it asked are in it.
    pub covers: u64,
    pub base: Base,
    pub line: Line,
    pub bound: BTreeMap<ReplicaId, Peer>,
    pub asks: Vec<(Hello, u64)>,
    pub seen: Seen,
    /// By which the donor goes on in this view.
    pub claim: Option<Claim>,
}

/// On what a gift stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// On the asker's whole line: these commands follow.
    Line(Vec<Entry>),
    /// On what its machine has; what it held back was never ordered.
    Applied(Vec<Entry>),
    /// On nothing: the machine's snapshot. Whether the asker's machine is known to have parted from the history.
    Snapshot { parted: bool },
}

#[derive(Clone, Debug)]
enum Input {
    Changed(Membership),
    Frame(Frame),
}

/// What came since the last question came back, and in which membership that was.
#[derive(Clone, Debug)]
struct Buffer {
    at: (u64, u64),
    members: BTreeSet<Peer>,
    inputs: Vec<Input>,
}

/// One replica.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    me: Option<Peer>,
    follows: bool,
    closing: bool,
    clean: bool,
    at: (u64, u64),
    members: BTreeSet<Peer>,
    line: Line,
    /// Of those that were up to date, those that came into a view that has shown nothing yet.
    came: Option<BTreeSet<ReplicaId>>,
    /// By which its line goes on in this view, if it was not elected there.
    claim: Option<Claim>,
    /// Epochs of views that its line went through since it took something. Who took something there, alone, is of the same line.
    silent: BTreeSet<u64>,
    bound: BTreeMap<ReplicaId, Peer>,
    /// Those that asked, at which step.
    asks: BTreeMap<ReplicaId, (Hello, u64)>,
    seen: Seen,
    log: Log,
    applied: Point,
    held: VecDeque<Effect>,
    /// The line before what is held back.
    flushed: Option<Line>,
    donating: BTreeMap<ReplicaId, u64>,
    /// Those that were said to be gone, with the numbers of their questions.
    goodbyes: BTreeSet<(Peer, u64)>,
    // Of one who lags:
    hellos: BTreeMap<Peer, Hello>,
    ask: u64,
    /// The epoch of the latest view in which others went on before its eyes.
    heard: (u64, BTreeSet<ReplicaId>),
    buffer: Option<Buffer>,
    /// Who has begun to send what it lacks.
    donor: Option<Peer>,
    told_current: bool,
    /// What its directory had of others when it started, until it follows.
    recalls: Option<Others>,
    /// Those that its directory has been given since it started, and whether others may go on now.
    remembered: BTreeSet<ReplicaId>,
    may_differ: bool,
    // Own commands and marks:
    unapplied: BTreeMap<u64, Bytes>,
    number: u64,
    mark: u64,
    effects: VecDeque<Effect>,
}

impl Engine {
    /// One whose machine is there, which followed this line.
    pub fn new(settings: Settings, line: Line, seen: Seen) -> Self {
        let mut log = Log::new(settings.log_bytes);
        log.restart(line.end);
        Self {
            me: None,
            follows: false,
            closing: false,
            clean: false,
            at: (0, 0),
            members: BTreeSet::new(),
            applied: line.end,
            line,
            came: None,
            claim: None,
            silent: BTreeSet::new(),
            bound: BTreeMap::new(),
            asks: BTreeMap::new(),
            seen,
            log,
            held: VecDeque::new(),
            flushed: None,
            donating: BTreeMap::new(),
            goodbyes: BTreeSet::new(),
            hellos: BTreeMap::new(),
            // What answers an earlier start of a replica of this name answers none of this one's questions.
            ask: first_ask(settings.origin),
            heard: (0, BTreeSet::new()),
            buffer: None,
            donor: None,
            told_current: false,
            recalls: None,
            remembered: BTreeSet::new(),
            may_differ: false,
            unapplied: BTreeMap::new(),
            number: 0,
            mark: 0,
            effects: VecDeque::new(),
            settings,
        }
    }

    /// What its directory has of others, beside the checkpoint that it begins from.
    pub fn recall(&mut self, others: Others) {
        let line = &self.line;
        let is_later = others.history == line.history && (others.epoch, others.step) > (line.epoch, line.step);
        self.recalls = Some(others).filter(|_| is_later);
    }

    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The line as the machine has it: for a checkpoint. What is held back is not in it.
    pub fn line_of_machine(&self) -> (Line, Seen) {
        let mut seen = self.seen.clone();
        self.held.iter().rev().filter_map(claim::held_back).for_each(|(origin, number)| seen.remove(origin, number));
        (self.flushed.as_ref().unwrap_or(&self.line).clone(), seen)
    }

    pub const fn origin(&self) -> Origin {
        self.settings.origin
    }

    pub const fn history(&self) -> u64 {
        self.line.history
    }

    pub const fn id(&self) -> ReplicaId {
        self.settings.id
    }

    pub const fn applied(&self) -> Point {
        self.applied
    }

    pub const fn is_current(&self) -> bool {
        self.told_current
    }

    /// Why it is not up to date, in words.
    pub fn waits_for(&self) -> String {
        if self.me.is_none() {
            return "it is in the group of no daemon".to_owned();
        }
        if self.follows {
            return "no other replica has confirmed yet that this one is up to date".to_owned();
        }
        if self.donor.is_some() {
            return "it is sent what it lacks".to_owned();
        }
        let silent = self.members.len().saturating_sub(self.hellos.len());
        if silent > 0 {
            return format!("{silent} members of the group have yet to speak");
        }
        elect::lacks(&self.hellos, self.settings.founders)
    }

    /// A command of this replica; returns its number. It is sent once the replica is up to date: otherwise its effect
    /// might come with a snapshot, and its response not at all.
    pub fn call(&mut self, body: Bytes) -> u64 {
        self.number += 1;
        self.unapplied.insert(self.number, body);
        if self.told_current {
            self.resend(self.number);
        }
        self.number
    }

    /// Nobody knows whether the command was ordered: again. It is applied once all the same.
    pub fn resend(&mut self, number: u64) {
        if let Some(body) = self.unapplied.get(&number) {
            let (origin, body) = (self.settings.origin, body.clone());
            self.effects.push_back(Effect::Send(Frame::Command { origin, number, body }));
        }
    }

    /// The command was refused, and never will be ordered.
    pub fn forget(&mut self, number: u64) {
        self.unapplied.remove(&number);
    }

    /// Readers wait; returns the number of their mark.
    pub fn send_mark(&mut self) -> u64 {
        self.mark += 1;
        self.effects.push_back(Effect::Send(Frame::Mark { origin: self.settings.origin, number: self.mark }));
        self.mark
    }

    /// It has a new connection, as this member.
    pub fn on_connected(&mut self, me: Peer) {
        self.me = Some(me);
    }

    /// It has no connection, and misses what comes.
    pub fn on_lost(&mut self) {
        // It may miss the rest of its view, or that others went on by its own hello.
        self.clean = false;
        self.me = None;
        self.lag();
        self.members.clear();
    }

    /// What comes from here on may not come to those that do not move along.
    pub fn on_signal(&mut self) {
        self.closing = true;
    }

    /// A new view is primary, and the group is the same there as at the end of the one that was closing: all of its members
    /// came along. So no membership says that what was held back counts.
    pub fn on_same_group(&mut self) {
        if self.me.is_none() || !self.closing {
            return;
        }
        let came = self.came_along(&self.members);
        if !self.follows {
            self.closing = false;
        } else if self.goes_on_with(&came) {
            self.closing = false;
            self.after_step();
        } else {
            self.step_down(self.knows_that_none_goes_on(&came));
        }
    }

    /// The daemons have forgotten the question with this number: it asks by another, because the same one must not come twice.
    pub fn on_forgotten(&mut self, question: u64) {
        let waits = !self.follows && question == self.ask;
        if let Some(me) = self.me.filter(|me| waits && self.members.contains(me)) {
            self.say_hello(me);
        }
    }

    /// The group has changed.
    pub fn on_membership(&mut self, membership: Membership) {
        let Some(me) = self.me.filter(|me| membership.members.contains(me)) else { return };
        if membership.is_new_view {
            self.on_view(membership);
        } else if self.follows {
            self.take_change(membership);
        } else {
            (self.at, self.members) = (membership.at, membership.members.clone());
            // What was said in the membership before elects none in this one.
            self.hellos.clear();
            // If its donor has left, all others may lag, too, and wait for its hello.
            let goes_on = self.donor.is_some_and(|donor| membership.members.contains(&donor));
            match &mut self.buffer {
                Some(buffer) if goes_on => buffer.inputs.push(Input::Changed(membership)),
                _ => self.say_hello(me),
            }
        }
    }

    /// A message of the group.
    pub fn on_frame(&mut self, frame: Frame) {
        if self.is_behind(&frame) {
            self.yield_to(frame);
        } else if self.follows {
            self.take(frame);
        } else {
            self.note(frame);
        }
    }

    /// What this one was to be sent could not be written.
    pub fn on_not_donated(&mut self, id: ReplicaId) {
        if self.donating.remove(&id).is_some() && self.follows {
            self.after_step();
        }
    }

    /// What was donated begins to come, from this member.
    pub fn on_served(&mut self, ask: u64, donor: Peer) {
        if ask == self.ask && !self.follows {
            self.donor = Some(donor);
        }
    }

    /// Whether a gift is of use: it answers the last question.
    pub const fn awaits(&self, ask: u64) -> bool {
        !self.follows && ask == self.ask && self.buffer.is_some()
    }

    fn on_view(&mut self, membership: Membership) {
        let Membership { at, members, together, .. } = membership;
        let left = self.epoch_here();
        self.at = at;
        (self.members, self.closing) = (members, false);
        self.goodbyes.clear();
        self.stop_donating(|_| true);
        self.asks.clear();
        self.hellos.clear();
        if self.follows {
            let came = self.came_along(&together);
            if self.goes_on_with(&came) {
                return self.go_on(left, came);
            }
            self.clean = self.knows_that_none_goes_on(&came);
        }
        self.lag();
        if let Some(me) = self.me {
            self.say_hello(me);
        }
    }

    /// Those up to date that are among these members.
    fn came_along(&self, together: &BTreeSet<Peer>) -> BTreeSet<ReplicaId> {
        let mut before = self.came.clone().unwrap_or_else(|| self.line.up_to_date());
        before.retain(|id| self.bound.get(id).is_some_and(|peer| together.contains(peer)));
        before
    }

    /// Whether these are enough to go on, and it is one of them.
    fn goes_on_with(&self, came: &BTreeSet<ReplicaId>) -> bool {
        came.contains(&self.settings.id) && self.line.has_majorities_in(came)
    }

    /// Whether none of those that came with it goes on. They may know of fewer sets than this one, because the view closed
    /// later for them; but all know the last one.
    fn knows_that_none_goes_on(&self, came: &BTreeSet<ReplicaId>) -> bool {
        !is_majority(came, self.line.counts())
    }

    /// It follows no more, and asks. Those that have asked in this membership do not ask again.
    pub(crate) fn step_down(&mut self, clean: bool) {
        let Some(me) = self.me else { return };
        self.clean = clean;
        let asks = std::mem::take(&mut self.asks).into_values();
        self.lag();
        self.hellos = asks.map(|(hello, _)| (hello.peer, hello)).filter(|(_, hello)| self.is_of_now(hello)).collect();
        self.say_hello(me);
    }

    fn lag(&mut self) {
        (self.follows, self.closing, self.came, self.claim) = (false, false, None, None);
        self.silent.clear();
        self.stop_donating(|_| true);
        self.hellos.clear();
        (self.buffer, self.donor) = (None, None);
        // What it lacks may come behind a mark that was ordered later.
        self.held.retain(|effect| matches!(effect, Effect::Apply { .. }));
        self.tell_current(false);
    }

    fn say_hello(&mut self, peer: Peer) {
        self.ask += 1;
        (self.buffer, self.donor) = (None, None);
        let Settings { id, forces, .. } = self.settings;
        let (ask, at, clean) = (self.ask, self.at, self.clean);
        let (line, applied) = (self.line.clone(), self.applied);
        let (heard, recalls) = (self.heard.clone(), self.recalls.clone());
        let hello = Hello { id, peer, ask, at, clean, forces, heard, line, applied, recalls };
        self.effects.push_back(Effect::Send(Frame::Hello(Box::new(hello))));
    }

    fn empty_buffer(&self) -> Buffer {
        Buffer { at: self.at, members: self.members.clone(), inputs: Vec::new() }
    }

    /// One who lags takes a message.
    fn note(&mut self, frame: Frame) {
        if let Some(buffer) = &mut self.buffer {
            buffer.inputs.push(Input::Frame(frame.clone()));
        }
        let hello = match frame {
            Frame::Hello(hello) if self.is_of_now(&hello) => hello,
            // It is up to date, and its hello is over.
            Frame::Ready { peer, .. } => return drop(self.hellos.remove(&peer)),
            _ => return,
        };
        if Some(hello.peer) == self.me && hello.ask == self.ask {
            self.buffer = Some(self.empty_buffer());
        }
        let is_of_donor = self.donor == Some(hello.peer);
        self.hellos.insert(hello.peer, *hello);
        if let Some(me) = self.me.filter(|me| is_of_donor && !self.hellos.contains_key(me)) {
            // Its donor lags itself, so what it sends never ends. All others may wait for the hello of this one, because its
            // last is of an earlier membership.
            return self.say_hello(me);
        }
        self.conclude();
    }

    /// Elects, if all have spoken: as all others that lag do here, from the same hellos. Its own last one counts until the next
    /// is ordered.
    fn conclude(&mut self) {
        if self.members.iter().all(|member| self.hellos.contains_key(member))
            && let Some(elected) = elect::elect(&self.hellos, self.settings.founders)
        {
            self.take_election(elected);
        }
    }

    fn take_election(&mut self, elected: elect::Elected) {
        // Who comes from another part of the network may have followed a view with a greater number there.
        let latest = self.hellos.values().map(|hello| hello.line.epoch).max().unwrap_or(0);
        let epoch = self.at.0.max(latest.saturating_add(1));
        if !elected.current.contains_key(&self.settings.id) {
            // What came before is in nobody's history. Those elected count from here.
            self.buffer = self.buffer.is_some().then(|| self.empty_buffer());
            self.hellos.retain(|_, hello| !elected.current.contains_key(&hello.id));
            self.heard = (epoch, elected.current.into_keys().collect());
            return;
        }
        self.line = Line { epoch, fresh: BTreeMap::new(), ..elected.line };
        self.line.set_counts(elected.current.keys().copied().collect());
        self.bound = elected.current;
        (self.follows, self.recalls) = (true, None);
        self.buffer = None;
        let step = self.line.step;
        let others = std::mem::take(&mut self.hellos).into_values();
        let others = others.filter(|hello| !self.bound.contains_key(&hello.id));
        self.asks = others.map(|hello| (hello.id, (hello, step))).collect();
        // Before anything is answered.
        self.remember();
        self.after_step();
        self.become_current();
    }

    /// Within a view somebody came or went.
    fn take_change(&mut self, membership: Membership) {
        (self.at, self.members) = (membership.at, membership.members);
        let members = &self.members;
        let left = self.asks.values().filter(|(hello, _)| !members.contains(&hello.peer));
        let left: BTreeSet<_> = left.map(|(hello, _)| hello.id).collect();
        self.asks.retain(|id, _| !left.contains(id));
        self.stop_donating(|id| left.contains(id));
        if !self.leave_if_unknown() {
            self.tell_gone();
        }
    }

    /// One who follows takes a message.
    fn take(&mut self, frame: Frame) {
        if self.holds_back() {
            self.keep_line_of_machine();
        }
        self.line.step += 1;
        self.line.epoch = self.epoch_here();
        self.silent.clear();
        if let Some(came) = self.came.take() {
            self.bound.retain(|id, _| came.contains(id));
            self.line.fresh.retain(|id, _| came.contains(id));
            self.line.set_counts(self.line.counts() & &came);
            self.may_differ = true;
        }
        match frame {
            Frame::Command { origin, number, body } if !self.seen.contains(origin, number) => {
                self.append(Entry { origin, number, body });
            }
            Frame::Mark { origin, number } if origin == self.settings.origin && number > 0 => {
                self.held.push_back(Effect::Passed { number });
            }
            Frame::Cut { origin, number } => self.held.push_back(Effect::Cut { origin, number }),
            // The last three are of other kinds of replicas.
            Frame::Command { .. }
            | Frame::Mark { .. }
            | Frame::Claim(_)
            | Frame::Open { .. }
            | Frame::Numbered { .. }
            | Frame::Said(_) => {}
            Frame::Hello(hello) => self.take_hello(*hello),
            Frame::Ready { id, peer, ask } => self.take_ready(id, peer, ask),
            Frame::Admit { id, ask } => self.take_admit(id, ask),
            Frame::Gone { id, peer, ask } => self.take_gone(id, peer, ask),
        }
        self.after_step();
    }

    fn append(&mut self, entry: Entry) {
        let position = self.line.end.position + 1;
        self.seen.insert(entry.origin, entry.number, position);
        let at = Point { position, digest: self.line.end.digest.then(entry.origin, entry.number) };
        self.line.end = at;
        self.log.push(at, entry.clone());
        self.held.push_back(Effect::Apply { at, entry });
    }

    fn keep_line_of_machine(&mut self) {
        if self.flushed.is_none() {
            self.flushed = Some(self.line.clone());
        }
    }

    fn flush(&mut self) {
        self.flushed = None;
        while let Some(effect) = self.held.pop_front() {
            if let Effect::Apply { at, entry } = &effect {
                self.applied = *at;
                if entry.origin == self.settings.origin {
                    self.unapplied.remove(&entry.number);
                }
            }
            self.effects.push_back(effect);
        }
    }

    fn become_current(&mut self) {
        self.remember();
        self.clean = true;
        let own = self.settings.origin;
        let unapplied: Vec<_> = self.unapplied.keys().copied().collect();
        for number in unapplied {
            let is_held = |effect: &Effect| matches!(effect, Effect::Apply { entry, .. } if entry.origin == own && entry.number == number);
            if !self.seen.contains(own, number) {
                self.resend(number);
            } else if !self.held.iter().any(is_held) {
                self.unapplied.remove(&number);
                self.effects.push_back(Effect::Unseen { number });
            }
        }
        self.tell_current(true);
    }

    fn remember(&mut self) {
        let ids = self.line.may_go_on();
        if self.counts() && ids != self.remembered {
            let Line { history, epoch, step, .. } = self.line;
            self.effects.push_back(Effect::Remember(Others { history, epoch, step, ids: ids.clone() }));
            self.remembered = ids;
        }
    }

    fn tell_current(&mut self, current: bool) {
        if std::mem::replace(&mut self.told_current, current) != current {
            self.effects.push_back(Effect::Current(current));
        }
    }
}

/// The number before that of the first question: another one at each start.
const fn first_ask(origin: Origin) -> u64 {
    (origin.0 ^ origin.0 >> 64) as u64 >> 1
}
