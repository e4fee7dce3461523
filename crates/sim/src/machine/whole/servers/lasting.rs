//! One start of a server on an order that lasts: the engine of the product and, around it, what the product's driver does
//! with connection, directory and time. It has none of these itself: what it wants from its daemon are [`Ask`]s.
use super::ServerTouch;
use super::commands;
use super::directory::{Checkpoint, Directory, sum_of};
use super::flaw::ServerFlaw;
use crate::trace::{REGISTERS, RegisterCommand, ReplicaRecord, ReplicaStep};
use bytes::Bytes;
use consort_replica::simulated::lasting::{Effect, Engine, Kept, Origins, Progress};
use consort_replica::simulated::{Frame, Origin};
use consort_session::{DaemonEvent, DeclareRequest, Message, Place, Target};
use consort_types::{Binding, Copies, Duration, GroupName, Holder, Instant, Service};
use own::OwnLog;
use std::collections::{BTreeMap, VecDeque};

mod consume;
mod fetch;
mod own;

/// How often the order is asked for the copies while something may have changed.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long it waits before it sends again what the daemon refused, and asks again for a checkpoint.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it sends nothing because the log was full.
const FULL: Duration = Duration::from_secs(5);
/// How long it waits before it asks again for an order that the daemon does not know yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What is the same for all starts of a server.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub server: u16,
    pub group: GroupName,
    pub copies: u16,
    /// A checkpoint is due behind this number of commands.
    pub checkpoint_every: u64,
    /// How many origins are remembered.
    pub origins: usize,
    pub flaw: Option<ServerFlaw>,
    pub kind: Kind,
}

/// Where the history of the servers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// On the disks of the daemons.
    Lasting,
    /// On the disk of each server.
    Durable,
    /// In memory.
    Forgetting,
}

/// What a server asks its daemon for.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Copies(Holder),
    Bind(Binding),
    Declare(DeclareRequest),
    Read { order: u64, from: Place },
    Join,
}

/// Why a server ends by itself.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// It cannot begin with its directory, here.
    Directory(String),
    /// The order is not what it was.
    Order(String),
}

/// How far it has come since it started.
#[derive(Clone, Debug)]
enum Stage {
    /// It asks the order for the copies of its group.
    Asks,
    /// It asks the order to bind its copy.
    Binds(Binding),
    /// It lacks what the log does not have any more; from which position on it must have the state.
    Lacks { seat: Holder, epoch: u64, from: u64, fetch: Option<Fetch> },
    /// It consumes the log.
    Consumes { seat: Holder, epoch: u64 },
}

/// A checkpoint of another server is on its way: the donors that were not tried yet, and when the first has sent it.
#[derive(Clone, Debug)]
struct Fetch {
    donors: Vec<u16>,
    done: Instant,
}

/// One start of a server.
#[derive(Debug)]
pub(super) struct Process {
    settings: Settings,
    engine: Engine,
    /// The log of a durable copy.
    own: Option<Box<OwnLog>>,
    /// It cannot go on.
    end: Option<End>,
    registers: [u64; REGISTERS],
    has_state: bool,
    /// Which copy it is to be, if an operator says so.
    takes: Option<u16>,
    /// Its directory was put back, and no operator has said that it may be used.
    put_back: bool,
    stage: Stage,
    /// The log is read from where the state ends: what comes is the next.
    reads: bool,
    kept: Kept,
    serial: u64,
    since: Instant,
    /// A checkpoint is being written, until then.
    saving: Option<(Checkpoint, Instant)>,
    order: u64,
    copies: Option<Copies>,
    ask_at: Instant,
    fetch_at: Instant,
    /// When it sends again what the daemon refused.
    refused: Option<Instant>,
    beyond_since: Option<Instant>,
    /// The log was full: nothing is sent until it has room, or until then.
    full_until: Option<Instant>,
    connected: bool,
    /// Which call each own command is, by number, and what waits for each mark.
    calls: BTreeMap<u64, u64>,
    readers: BTreeMap<u64, Vec<(u64, u8)>>,
    pub outbox: VecDeque<Frame>,
    pub asks: VecDeque<Ask>,
    pub told: Vec<ReplicaRecord>,
}

/// What a server starts with.
pub(super) struct Beginning {
    pub now: Instant,
    /// Which of all starts it is.
    pub start: u64,
    pub takes: Option<u16>,
}

/// Where a server acts: the time, its disk, and the next token of a binding.
pub(super) struct Here<'a> {
    pub now: Instant,
    /// The number of the daemon that it is connected to.
    pub node: u16,
    pub directory: &'a mut Directory,
    pub token: u128,
}

impl Process {
    /// Takes the newest checkpoint that is whole.
    pub fn start(settings: Settings, directory: &mut Directory, beginning: &Beginning, touch: &ServerTouch) -> Self {
        let newest = directory.whole().last().cloned();
        let own = (settings.kind == Kind::Durable)
            .then(|| OwnLog::open(&settings, directory, newest.as_ref(), beginning, touch));
        let whole: Vec<_> = directory.whole().collect();
        let empty = || Progress { origins: Origins::of_most(settings.origins), ..Progress::default() };
        let progress = newest.as_ref().map_or_else(empty, |newest| newest.progress.clone());
        let registers = newest.as_ref().map_or([0; REGISTERS], |newest| newest.registers);
        let record = ReplicaRecord {
            at: progress.applied,
            sum: sum_of(&registers),
            ..ReplicaRecord::of(ReplicaStep::Starts, settings.server)
        };
        let positions = whole.iter().map(|checkpoint| checkpoint.progress.next.position).collect();
        let made = Engine::new(Origin(u128::from(beginning.start) << 64), progress);
        let order = directory.identity.as_ref().map(|identity| identity.order);
        Self {
            engine: touch.engine.as_ref().map_or_else(|| made.clone(), |touch| touch(made.clone())),
            own: own.map(Box::new),
            end: None,
            registers,
            has_state: newest.is_some(),
            takes: beginning.takes,
            put_back: beginning.takes.is_none() && newest.is_some() && !directory.is_own(),
            stage: Stage::Asks,
            reads: false,
            kept: Kept::new(positions),
            serial: whole.iter().map(|checkpoint| checkpoint.serial).max().unwrap_or(0),
            since: beginning.now,
            saving: None,
            order: order.or(newest.map(|newest| newest.order)).unwrap_or(0),
            copies: None,
            ask_at: beginning.now,
            fetch_at: beginning.now,
            refused: None,
            beyond_since: None,
            full_until: None,
            connected: false,
            calls: BTreeMap::new(),
            readers: BTreeMap::new(),
            outbox: VecDeque::new(),
            asks: VecDeque::new(),
            told: vec![record],
            settings,
        }
    }

    fn is(&self, flaw: ServerFlaw) -> bool {
        self.settings.flaw == Some(flaw)
    }

    pub const fn group(&self) -> &GroupName {
        &self.settings.group
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
        if self.is(ServerFlaw::AnswersSent) {
            self.calls.remove(&number);
            let (at, sum) = (self.engine.progress().applied + 1, self.registers[usize::from(command.key)]);
            self.tell(ReplicaStep::Answered, |told| (told.call, told.at, told.sum) = (call, at, sum));
        }
        self.act();
    }

    /// The state is read: all that was answered before is in it.
    pub fn read(&mut self, call: u64, key: u8) {
        self.tell(ReplicaStep::Reads, |told| (told.call, told.command.key) = (call, key));
        if self.is(ServerFlaw::ReadsAtOnce) {
            return self.tell_read(call, key);
        }
        let mark = self.engine.send_mark();
        self.readers.entry(mark).or_default().push((call, key));
        self.act();
    }

    fn tell_read(&mut self, call: u64, key: u8) {
        let (at, sum) = (self.engine.progress().applied, self.registers[usize::from(key)]);
        self.tell(ReplicaStep::Read, |told| {
            (told.call, told.at, told.sum, told.command.key) = (call, at, sum, key);
        });
    }

    /// Does what the engine says.
    fn act(&mut self) {
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Send(frame) => self.outbox.push_back(frame),
                Effect::Apply { at, own, body } => self.apply(at, own, &body),
                Effect::Passed { mark } => {
                    let later = self.readers.split_off(&(mark + 1));
                    let passed = std::mem::replace(&mut self.readers, later).into_values().flatten();
                    passed.for_each(|(call, key)| self.tell_read(call, key));
                }
                Effect::Cut(_) => {}
                Effect::Lost { number, applied } => {
                    if let Some(call) = self.calls.remove(&number) {
                        self.tell(ReplicaStep::Lost, |told| (told.call, told.at) = (call, applied.into()));
                    }
                }
                Effect::Serves => {
                    let put_back = self.put_back;
                    self.tell(ReplicaStep::Serves, |told| told.at = put_back.into());
                }
            }
        }
    }

    fn apply(&mut self, at: u64, own: Option<u64>, body: &Bytes) {
        let Some((call, command)) = commands::decode(body) else { return };
        let response = command.apply(&mut self.registers);
        self.kept.applied(body.len());
        let sum = sum_of(&self.registers);
        self.tell(ReplicaStep::Applied, |told| (told.call, told.at, told.sum) = (call, at, sum));
        if let Some(call) = own.and_then(|own| self.calls.remove(&own)) {
            self.tell(ReplicaStep::Answered, |told| (told.call, told.at, told.sum) = (call, at, response));
        }
    }

    /// It has a connection, whose messages have this number of bytes at most.
    pub fn on_connected(&mut self, now: Instant, message_max: usize) {
        self.connected = true;
        if self.own.is_some() {
            self.asks.push_back(Ask::Join);
            return self.join(message_max);
        }
        self.ask_at = now;
        self.kept.asks_again();
        if matches!(self.stage, Stage::Consumes { .. }) {
            self.consume();
        } else if !matches!(self.stage, Stage::Lacks { .. }) {
            self.stage = Stage::Asks;
        }
        self.ask(now);
    }

    /// The connection is lost: what was sent may be ordered or not.
    pub fn on_lost(&mut self) {
        (self.connected, self.reads, self.refused) = (false, false, None);
        self.own.iter_mut().for_each(|own| own.on_lost());
        self.engine.on_lost();
        self.outbox.clear();
        self.asks.clear();
    }

    /// What was sent waits for room in the log, and all that is said after it: whether it is to go on elsewhere.
    pub fn gives_way(&mut self, now: Instant) -> bool {
        let gives_way = matches!(self.stage, Stage::Consumes { .. });
        if gives_way {
            (self.full_until, self.copies) = (Some(now + FULL), None);
        }
        gives_way
    }

    /// What it sends next: nothing where that would wait for room in the log.
    pub fn next_send(&self) -> Option<(Service, Target, Bytes)> {
        let frame = self.outbox.front().filter(|_| self.full_until.is_none())?;
        Some((self.service_of(frame), Target::Group(self.settings.group.clone()), frame.encode()))
    }

    /// Time has passed.
    pub fn pass(&mut self, here: &mut Here<'_>) {
        let has_room = self.copies.as_ref().is_some_and(|copies| copies.held < copies.budget);
        self.full_until = self.full_until.filter(|until| here.now < *until && !has_room);
        self.take_written(here.now, here.directory);
        self.collect(here);
        self.keep(here);
        if self.connected && self.own.is_none() {
            self.send_again(here.now);
            self.ask(here.now);
        }
    }

    /// Asks the order for the copies where something of them may be news.
    fn ask(&mut self, now: Instant) {
        if now >= self.ask_at {
            self.ask_at = now + ASK_EVERY;
            self.asks.push_back(Ask::Copies(consort_replica::simulated::lasting::any_of(&self.settings.group)));
        }
    }

    fn send_again(&mut self, now: Instant) {
        if self.refused.is_some_and(|again| now >= again) {
            self.refused = None;
            self.outbox.clear();
            self.engine.on_lost();
            self.engine.on_connected();
            self.act();
        }
    }

    /// What the process's daemon said.
    ///
    /// # Errors
    /// It ends.
    pub fn on_event(&mut self, event: DaemonEvent, here: &mut Here<'_>) -> Result<(), End> {
        self.on_own_event(&event);
        self.act_for_own_log(here.now);
        self.take_written(here.now, here.directory);
        match event {
            DaemonEvent::Read(message) => self.on_message(&message),
            DaemonEvent::Reading(status) => self.on_reading(&status, here.now)?,
            DaemonEvent::Copies(copies) => self.on_copies(copies, here)?,
            DaemonEvent::Bound(bound) => self.on_bound(&bound, here)?,
            DaemonEvent::Declared(status) => self.on_declared(&status, here.now),
            DaemonEvent::Refused { .. } => self.refused = self.refused.or(Some(here.now + AGAIN)),
            _ => {}
        }
        self.act();
        self.end.take().map_or(Ok(()), Err)
    }

    fn on_message(&mut self, message: &Message) {
        // What comes before the reading begins is of an earlier one, which may have left something out.
        let Some(placement) = message.placement().filter(|_| self.reads) else { return };
        match Frame::decode(&Bytes::copy_from_slice(message.payload())) {
            Ok(Frame::Hello(_) | Frame::Command { .. } | Frame::Claim(_)) | Err(_) => {
                self.engine.on_nothing_before(placement.next);
            }
            Ok(frame) => self.engine.on_frame(frame, placement.place, placement.next),
        }
    }
}
