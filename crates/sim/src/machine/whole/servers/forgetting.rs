//! One start of a server on an order that forgets: the engine of the product and, around it, what the product's driver does
//! with connection, directory and time. Its connection has no session behind it, so that it does by itself what a session does:
//! it sends only where the view is primary, takes nothing that was ordered elsewhere, and sends that again. What is of unknown
//! fate is sent again once the server is up to date, as the product does where a daemon has forgotten its session.
use super::commands;
use super::directory::{Directory, ReplicaCheckpoint, bytes_of, registers_of, sum_of};
use super::lasting::{Ask, Beginning, Here, Settings};
use crate::trace::{REGISTERS, RegisterCommand, ReplicaRecord, ReplicaStep};
use bytes::Bytes;
use consort_replica::simulated::forgetting::Settings as EngineSettings;
use consort_replica::simulated::forgetting::{
    Base, Effect, Engine, Entry, Gift, Incoming, Line, Membership, Others, Parts, Point, Private, ReplicaId, Seen,
    encode,
};
use consort_replica::simulated::{Frame, Origin, Peer};
use consort_session::{ChangeCause, DaemonEvent, GroupView, Message, PrivateName, Target, Welcome};
use consort_types::{ClientId, Duration, GroupName, Instant, NodeId, Primary, Service, ViewKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;

/// The bytes of a part of a transfer, and the most parts: each waits for the one before, and there is an end to the calm.
const CHUNK: usize = 1_500;
const PARTS_MOST: usize = 48;
/// A checkpoint is due after this time, if anything was applied.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long it takes to write a checkpoint, at most.
const WRITES: Duration = Duration::from_millis(40);
/// Bytes of commands that are kept for those who missed them.
const LOG_BYTES: [usize; 2] = [64 << 20, 3_000];

/// A transfer under way: one part at a time.
#[derive(Debug)]
struct Donation {
    peer: Peer,
    ask: u64,
    chunks: VecDeque<Bytes>,
    next: u64,
    acknowledged: u64,
}

/// One start of a server.
#[derive(Debug)]
pub(super) struct Process {
    settings: Settings,
    engine: Engine,
    registers: [u64; REGISTERS],
    /// The last command that is in them.
    at: u64,
    names: BTreeMap<Peer, PrivateName>,
    me: Option<Peer>,
    /// Which call each own command is, by number, and what waits for each mark.
    calls: BTreeMap<u64, u64>,
    readers: BTreeMap<u64, Vec<(u64, u8)>>,
    donations: BTreeMap<ReplicaId, Donation>,
    incoming: Incoming,
    saving: Option<(ReplicaCheckpoint, Instant)>,
    /// Those that may go on without it.
    others: Option<Others>,
    /// The last command of the last checkpoint, and when that was begun.
    saved: (u64, Instant),
    pub outbox: VecDeque<(Service, Target, Bytes)>,
    /// Whether what is ordered now counts: the view is primary, or was before it began to close.
    counts: bool,
    /// Frames for the group that were sent and have not come back.
    under_way: VecDeque<(Service, Target, Bytes)>,
    /// The last question of each member. One that comes again has no effect, as nothing has that a session sends again.
    asked: BTreeMap<Peer, u64>,
    pub asks: VecDeque<Ask>,
    pub told: Vec<ReplicaRecord>,
}

impl Process {
    /// Takes the newest checkpoint that is whole.
    pub fn start(settings: Settings, directory: &Directory, beginning: &Beginning) -> Self {
        let origin = Origin(u128::from(beginning.start) << 64);
        let newest = directory.newest_of_replica().cloned().unwrap_or_else(|| ReplicaCheckpoint {
            id: ReplicaId(origin.0),
            line: Line::default(),
            seen: Seen::default(),
            registers: [0; REGISTERS],
            damaged: false,
        });
        let ReplicaCheckpoint { id, line, seen, registers, .. } = newest;
        let record = ReplicaRecord {
            at: line.end.position,
            sum: sum_of(&registers),
            ..ReplicaRecord::of(ReplicaStep::Starts, settings.server)
        };
        let of_engine = EngineSettings {
            id,
            origin,
            founders: usize::from(settings.copies),
            forces: false,
            log_bytes: LOG_BYTES[beginning.start as usize % LOG_BYTES.len()],
        };
        let saved = (line.end.position, beginning.now);
        let mut engine = Engine::new(of_engine, line, seen);
        directory.others.iter().for_each(|others| engine.recall(others.clone()));
        Self {
            saved,
            engine,
            registers,
            at: record.at,
            names: BTreeMap::new(),
            me: None,
            calls: BTreeMap::new(),
            readers: BTreeMap::new(),
            donations: BTreeMap::new(),
            incoming: Incoming::default(),
            saving: None,
            others: directory.others.clone(),
            outbox: VecDeque::new(),
            counts: false,
            under_way: VecDeque::new(),
            asked: BTreeMap::new(),
            asks: VecDeque::new(),
            told: vec![record],
            settings,
        }
    }

    pub const fn group(&self) -> &GroupName {
        &self.settings.group
    }

    pub const fn id(&self) -> ReplicaId {
        self.engine.id()
    }

    /// How far it has followed the history, as its machine has it.
    pub fn line(&self) -> Line {
        self.engine.line_of_machine().0
    }

    /// How many commands and reads wait for an answer.
    pub fn waiting(&self) -> usize {
        self.calls.len() + self.readers.values().map(Vec::len).sum::<usize>()
    }

    fn tell(&mut self, step: ReplicaStep, record: impl FnOnce(&mut ReplicaRecord)) {
        let mut told = ReplicaRecord::of(step, self.settings.server);
        record(&mut told);
        self.told.push(told);
    }

    /// A command is called here.
    pub fn call(&mut self, call: u64, command: RegisterCommand, len: usize) {
        self.tell(ReplicaStep::Called, |told| (told.call, told.command) = (call, command));
        let number = self.engine.call(commands::encode(call, &command, len));
        self.calls.insert(number, call);
        self.act();
    }

    /// The state is read: all that was answered before is in it.
    pub fn read(&mut self, call: u64, key: u8) {
        self.tell(ReplicaStep::Reads, |told| (told.call, told.command.key) = (call, key));
        let mark = self.engine.send_mark();
        self.readers.entry(mark).or_default().push((call, key));
        self.act();
    }

    /// It has a connection, as this member.
    pub fn on_connected(&mut self, welcome: &Welcome) {
        let me = (welcome.daemon, welcome.client);
        self.me = Some(me);
        self.engine.on_connected(me);
        self.asks.push_back(Ask::Join);
    }

    /// The connection is lost: what was sent may be ordered or not.
    pub fn on_lost(&mut self) {
        self.me = None;
        self.engine.on_lost();
        (self.outbox, self.under_way, self.counts) = (VecDeque::new(), VecDeque::new(), false);
        self.asks.clear();
        self.act();
    }

    /// Time has passed.
    pub fn pass(&mut self, here: &mut Here<'_>) {
        self.send_gifts();
        if let Some((checkpoint, _)) = self.saving.take_if(|(_, done)| here.now >= *done) {
            here.directory.keep_replica(checkpoint);
        }
        let applied = self.engine.applied().position;
        let news = applied.saturating_sub(self.saved.0);
        let is_due = news >= self.settings.checkpoint_every || news > 0 && here.now.since(self.saved.1) >= SAVE_EVERY;
        if self.saving.is_none() && is_due {
            let takes = Duration::from_nanos(applied.wrapping_mul(0x9e37_79b9) % WRITES.as_nanos() as u64);
            self.saving = Some((self.checkpoint(), here.now + takes));
            self.saved = (applied, here.now);
        }
    }

    fn checkpoint(&self) -> ReplicaCheckpoint {
        let (line, seen) = self.engine.line_of_machine();
        ReplicaCheckpoint { id: self.engine.id(), line, seen, registers: self.registers, damaged: false }
    }

    /// It is stopped: all that was applied is on disk then.
    pub fn keep_last(&mut self, directory: &mut Directory) {
        self.saving.take().into_iter().for_each(|(checkpoint, _)| directory.keep_replica(checkpoint));
        directory.keep_replica(self.checkpoint());
    }

    /// What it sends next.
    pub fn next_send(&self) -> Option<(Service, Target, Bytes)> {
        self.outbox.front().filter(|_| self.counts).cloned()
    }

    /// That is under way.
    pub fn sent(&mut self) {
        let is_for_group = |sent: &(Service, Target, Bytes)| matches!(sent.1, Target::Group(_));
        self.under_way.extend(self.outbox.pop_front().filter(is_for_group));
    }

    fn send_to(&mut self, name: PrivateName, private: &Private) {
        self.outbox.push_back((Service::Agreed, Target::Client(name), private.encode()));
    }

    fn send_gifts(&mut self) {
        let mut due = Vec::new();
        for donation in self.donations.values_mut() {
            let Some(name) = self.names.get(&donation.peer).filter(|_| donation.next == donation.acknowledged) else {
                continue;
            };
            if let Some(bytes) = donation.chunks.pop_front() {
                let (ask, number, last) = (donation.ask, donation.next, donation.chunks.is_empty());
                donation.next += 1;
                due.push((name.clone(), Private::Part { ask, number, last, bytes }));
            }
        }
        due.iter().for_each(|(name, part)| self.send_to(name.clone(), part));
    }

    /// What the process's daemon said.
    pub fn on_event(&mut self, event: &DaemonEvent, directory: &mut Directory) {
        match event {
            // While it is closing the view before still counts.
            DaemonEvent::View(view) => self.counts &= view.kind == ViewKind::Transitional,
            DaemonEvent::GroupView(view) => self.on_view(view),
            DaemonEvent::GroupSignal(_) => self.engine.on_signal(),
            DaemonEvent::Message(message) => self.on_message(message),
            _ => {}
        }
        self.act();
        // It is on disk before anything more is sent.
        directory.others.clone_from(&self.others);
        self.send_gifts();
    }

    fn on_view(&mut self, view: &GroupView) {
        let Some(me) = self.me else { return };
        if view.primary == Primary::Yes && !self.counts {
            self.counts = true;
            self.under_way.append(&mut self.outbox);
            std::mem::swap(&mut self.under_way, &mut self.outbox);
        }
        if view.cause == ChangeCause::Primary {
            if view.primary == Primary::Yes {
                self.engine.on_same_group();
            }
            return;
        }
        let name =
            |member: &consort_session::Member| (member.key(), PrivateName::new(&member.name, member.daemon.node));
        self.names = view.members.iter().map(name).collect();
        let together: BTreeSet<_> = view.together_with(me).map(consort_session::Member::key).collect();
        self.engine.on_membership(Membership {
            at: (view.id.view.number, view.id.change),
            is_new_view: view.cause == ChangeCause::Network,
            members: view.members.iter().map(consort_session::Member::key).collect(),
            together,
        });
    }

    fn on_message(&mut self, message: &Message) {
        let bytes = Bytes::copy_from_slice(message.payload());
        let group = self.settings.group.to_string();
        if message.groups().any(|of| of == group) {
            // A session's message has no effect where the view does not count, and is sent again.
            if !self.counts {
                return;
            }
            if self.me.is_some_and(|me| (me.0.node, me.1) == message.sender()) {
                // What was sent again may come twice.
                let at = self.under_way.iter().position(|(.., sent)| *sent == bytes);
                at.map(|at| self.under_way.remove(at));
            }
            if let Some(frame) = Frame::decode(&bytes).ok().filter(|frame| self.is_first(frame)) {
                self.engine.on_frame(frame);
            }
            return;
        }
        // A session would send these again, too; nothing here says to the sender that it has to.
        match Private::decode(&bytes) {
            Ok(Private::Part { ask, number, last, bytes }) => {
                self.take_part(message.sender(), (ask, number, last), bytes);
            }
            Ok(Private::Received { id, ask, next }) => {
                let donation = self.donations.get_mut(&id).filter(|donation| donation.ask == ask);
                if let Some(donation) = donation.filter(|donation| next <= donation.next) {
                    donation.acknowledged = donation.acknowledged.max(next);
                }
            }
            Err(_) => {}
        }
    }

    /// Whether it has not come before. Commands and marks may come again: their numbers are known.
    fn is_first(&mut self, frame: &Frame) -> bool {
        let Frame::Hello(hello) = frame else { return true };
        let last = self.asked.entry(hello.peer).or_default();
        let is_first = hello.ask > *last;
        *last = hello.ask.max(*last);
        is_first
    }

    fn take_part(&mut self, from: (NodeId, ClientId), (ask, number, last): (u64, u64, bool), bytes: Bytes) {
        if !self.engine.awaits(ask) {
            return;
        }
        let donor = self.names.iter().find(|(peer, _)| (peer.0.node, peer.1) == from);
        let Some((peer, donor)) = donor.map(|(peer, name)| (*peer, name.clone())) else { return };
        self.engine.on_served(ask, peer);
        let whole = self.incoming.take(from, (ask, number, last), bytes);
        let (id, next) = (self.engine.id(), self.incoming.next());
        self.send_to(donor, &Private::Received { id, ask, next });
        whole.into_iter().for_each(|parts| self.take_gift(parts));
    }

    fn take_gift(&mut self, mut parts: Parts) {
        let gift = parts.gift().unwrap_or_else(|error| unreachable!("{error}"));
        if matches!(gift.base, Base::Snapshot { .. }) {
            let mut bytes = Vec::new();
            let read = parts.read_to_end(&mut bytes);
            read.unwrap_or_else(|error| unreachable!("{error}"));
            self.registers = registers_of(&bytes);
            let (at, sum) = (gift.line.end.position, sum_of(&self.registers));
            self.tell(ReplicaStep::Restored, |told| (told.at, told.sum) = (at, sum));
            (self.at, self.saved.0) = (at, self.saved.0.min(at));
        }
        self.engine.on_gift(gift);
    }

    fn donate(&mut self, id: ReplicaId, peer: Peer, gift: &Gift) {
        let mut bytes = encode(gift).to_vec();
        if matches!(gift.base, Base::Snapshot { .. }) {
            bytes.extend(bytes_of(&self.registers));
        }
        let chunks = bytes.chunks(bytes.len().div_ceil(PARTS_MOST).max(CHUNK)).map(Bytes::copy_from_slice).collect();
        self.donations.insert(id, Donation { peer, ask: gift.ask, chunks, next: 0, acknowledged: 0 });
    }

    /// Does what the engine says.
    fn act(&mut self) {
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Send(frame) => {
                    let group = Target::Group(self.settings.group.clone());
                    self.outbox.push_back((Service::Safe, group, frame.encode()));
                }
                Effect::Apply { at, entry } => self.apply(at, &entry),
                Effect::Passed { number } => {
                    let readers = self.readers.remove(&number).into_iter().flatten();
                    readers.for_each(|(call, key)| self.tell_read(call, key));
                }
                Effect::Cut { .. } => {}
                Effect::Donate { id, peer, gift } => self.donate(id, peer, &gift),
                Effect::StopDonating { id } => drop(self.donations.remove(&id)),
                Effect::Unseen { number } => {
                    if let Some(call) = self.calls.remove(&number) {
                        self.tell(ReplicaStep::Lost, |told| (told.call, told.at) = (call, 1));
                    }
                }
                Effect::Current(current) => self.on_current(current),
                Effect::Remember(others) => self.others = Some(others),
            }
        }
    }

    fn apply(&mut self, at: Point, entry: &Entry) {
        let Some((call, command)) = commands::decode(&entry.body) else { return };
        let (at, response) = (at.position, command.apply(&mut self.registers));
        let sum = sum_of(&self.registers);
        self.at = at;
        self.tell(ReplicaStep::Applied, |told| (told.call, told.at, told.sum) = (call, at, sum));
        if entry.origin == self.engine.origin()
            && let Some(call) = self.calls.remove(&entry.number)
        {
            self.tell(ReplicaStep::Answered, |told| (told.call, told.at, told.sum) = (call, at, response));
        }
    }

    fn tell_read(&mut self, call: u64, key: u8) {
        let (at, sum) = (self.at, self.registers[usize::from(key)]);
        self.tell(ReplicaStep::Read, |told| {
            (told.call, told.at, told.sum, told.command.key) = (call, at, sum, key);
        });
    }

    /// Marks that passed while it was away said nothing to it.
    fn on_current(&mut self, current: bool) {
        if current {
            self.tell(ReplicaStep::Serves, |_| ());
        }
        let readers: Vec<_> = std::mem::take(&mut self.readers).into_values().flatten().collect();
        if !readers.is_empty() {
            let mark = if current { self.engine.send_mark() } else { 0 };
            self.readers.insert(mark, readers);
        }
    }
}
