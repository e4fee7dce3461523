//! The thread that runs a replica whose history is a log that lasts: connection, engine, machine, checkpoints.
mod consume;
mod keep;
mod own;

use super::engine::{Effect, Engine};
use super::identity::Identity;
use super::link::Link;
use super::transfer::{Fetched, Served};
use crate::checkpoint::Checkpoints;
use crate::durable::OwnLog;
use crate::frame::Frame;
use crate::machine::{Position, StateMachine};
use crate::options::{Error, Options, Outside, Response};
use crate::pending::Answer;
use crate::shared::{CutId, Request, Shared};
use bytes::Bytes;
use consort::{Binding, Client, Copies, GroupName, Holder, Service, WaitCause};
use keep::Keeping;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The number of events that are taken before calls are looked at.
const EVENTS: usize = 512;
/// Commands beyond this wait unsent.
const UNDER_WAY_MAX: usize = 16 << 20;
/// What a command costs besides its bytes.
const COMMAND: usize = 256;
/// What a message has besides a command's own bytes, also if it goes to another copy as a part of the log.
const FRAME: usize = Frame::NUMBERED_HEAD + 64;
/// How long it waits without a look at the connection.
const STEP: Duration = Duration::from_millis(50);
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Sends that wait for longer wait for something that clients should know.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the order is asked for the copies while something may have changed, and for what it does not say yet.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// What is given to the thread.
pub(crate) struct Parts<M> {
    pub engine: Engine,
    pub link: Link,
    pub group: GroupName,
    pub shared: Arc<Shared<M>>,
    pub options: Options,
    pub checkpoints: Checkpoints,
    pub identity: Option<Identity>,
    /// This server and where others fetch its checkpoints.
    pub name: String,
    pub address: String,
    /// The machine took the state of a checkpoint.
    pub has_state: bool,
    /// What copies of the directory do not share.
    pub mark: u128,
    /// Where all servers of the group keep a checkpoint for those that lack one.
    pub shared_directory: Option<PathBuf>,
    pub source: Source,
    /// Others are served as long as this is here.
    pub _served: Arc<Served>,
}

/// Who keeps the log.
pub(crate) enum Source {
    /// The daemons: it is read from them by position.
    Daemons,
    /// The replicas, each on its own disk.
    Own(Box<OwnLog>),
}

/// What the directory keeps: the positions behind its checkpoints, the order that they are of, and the latest serial.
pub(crate) fn keeping(kept: Vec<u64>, order: u64, serial: u64) -> Keeping {
    Keeping::new(kept, order, serial)
}

pub(crate) struct Driver<M: StateMachine> {
    parts: Parts<M>,
    stage: Stage,
    /// The log is read from where the state ends: what comes is the next.
    reads: bool,
    keeping: Keeping,
    outbox: VecDeque<Frame>,
    /// Cuts under way, by the number of their request.
    cuts: BTreeMap<u64, CutId>,
    calls: BTreeMap<u64, (Answer<Response>, usize)>,
    under_way: usize,
    readers: BTreeMap<u64, Vec<Answer<()>>>,
    /// What the order said of the copies last.
    copies: Option<Copies>,
    ask_at: Instant,
    /// Since when sends wait, and for what.
    waits: Option<(Instant, String)>,
    /// The daemon refused what was sent: when it is sent again, and why.
    refused: Option<(Instant, String)>,
    told_waits: Option<String>,
}

/// How far it has come since it started.
pub(super) enum Stage {
    /// It asks the order for the copies of its group.
    Asks,
    /// It asks the order to bind its copy.
    Binds(Binding),
    /// It lacks what the log does not have any more, and fetches another's checkpoint; why it has none yet.
    Lacks { bound: Bound, fetch: Option<Receiver<Result<Fetched, String>>>, why: String },
    /// It consumes the log.
    Consumes(Bound),
}

/// The copy that it is.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub seat: Holder,
    pub epoch: u64,
}

/// Why the loop ends.
pub(super) enum End {
    Asked(Answer<()>),
    NobodyAsks,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<M: StateMachine> Driver<M> {
    pub fn new(parts: Parts<M>, keeping: Keeping) -> Self {
        Self {
            keeping,
            parts,
            stage: Stage::Asks,
            reads: false,
            outbox: VecDeque::new(),
            cuts: BTreeMap::new(),
            calls: BTreeMap::new(),
            under_way: 0,
            readers: BTreeMap::new(),
            copies: None,
            ask_at: Instant::now(),
            waits: None,
            refused: None,
            told_waits: None,
        }
    }

    pub fn run(mut self, requests: &Receiver<Request>) {
        // The connection by which the daemon said what order it keeps is the first.
        let mut turned = self.join();
        let end = loop {
            match turned {
                Ok(()) => turned = self.turn(requests),
                Err(end) => break end,
            }
        };
        let (answer, error) = match end {
            End::Asked(answer) => (Some(answer), None),
            End::NobodyAsks => (None, None),
            End::Failed(error) => (None, Some(error)),
        };
        if let Some(error) = &error {
            tracing::warn!("the replica of group {} has ended: {error}", self.parts.group);
        }
        let error = error.unwrap_or(Error::Stopped);
        self.parts.shared.end(requests, &error);
        let calls = std::mem::take(&mut self.calls).into_values();
        calls.for_each(|(answer, _)| answer.give(Err(error.clone())));
        let readers = std::mem::take(&mut self.readers).into_values().flatten();
        readers.for_each(|answer| answer.give(Err(error.clone())));
        let (shared, group) = (Arc::clone(&self.parts.shared), self.parts.group.clone());
        let finished = self.finish();
        if let (None, Err(error)) = (&answer, &finished) {
            tracing::warn!("the replica of group {group} has ended without a last checkpoint: {error}");
        }
        answer.into_iter().for_each(|answer| answer.give(finished.clone()));
        shared.finish(&error);
    }

    fn turn(&mut self, requests: &Receiver<Request>) -> Result<(), End> {
        let asked = self.take_requests(requests)?;
        let now = Instant::now();
        self.connect(now)?;
        let came = self.take_events()? | self.take_written()?;
        self.take_fetched(now)?;
        self.ask(now);
        self.keep(now);
        self.send_out(now);
        self.note_waits(now);
        if !asked && !came {
            self.wait(now);
        }
        Ok(())
    }

    /// Waits for the connection and for calls.
    fn wait(&self, now: Instant) {
        let Parts { shared, link, .. } = &self.parts;
        let mut fds = vec![PollFd::new(&shared.wake, PollFlags::IN)];
        let descriptor = link.seen().and_then(Client::descriptor);
        fds.extend(descriptor.as_ref().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let step = link.rests(now).map_or(STEP, |rests| rests.min(STEP));
        let step = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&step));
        let _ = rustix::io::read(&shared.wake, &mut [0_u8; 8]);
    }

    fn connect(&mut self, now: Instant) -> Result<(), End> {
        match self.parts.link.connect(now) {
            Ok(true) => self.on_connected(),
            Ok(false) => Ok(()),
            Err(error) => Err(Error::Session(error.to_string()).into()),
        }
    }

    /// The connection is lost: what was sent may be ordered or not.
    fn lose(&mut self, why: &consort::Error) {
        tracing::warn!("the replica of group {} lost its daemon: {why}", self.parts.group);
        self.parts.link.lose(why, Instant::now());
        self.reads = false;
        if let Source::Own(own) = &mut self.parts.source {
            own.engine.on_lost();
        }
        self.parts.engine.on_lost();
        self.outbox.clear();
        (self.waits, self.refused) = (None, None);
        // A second copy of a cut would have another position, and some may have passed the first.
        std::mem::take(&mut self.cuts).into_values().for_each(|id| self.parts.shared.miss(id, missed()));
    }

    fn take_requests(&mut self, requests: &Receiver<Request>) -> Result<bool, End> {
        let (mut any, mut marks) = (false, Vec::new());
        while self.under_way < UNDER_WAY_MAX || self.refuses().is_some() {
            match requests.try_recv() {
                Ok(Request::Call(command, answer)) => match self.refuses() {
                    Some(why) => answer.give(Err(Error::Outside(why))),
                    None => self.call(command, answer),
                },
                Ok(Request::Mark(answer)) => match self.refuses() {
                    Some(why) => answer.give(Err(Error::Outside(why))),
                    None => marks.push(answer),
                },
                Ok(Request::Cut(id, groups)) => {
                    self.act()?;
                    self.cut(id, &groups);
                }
                Ok(Request::Stop(answer)) => return Err(End::Asked(answer)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(End::NobodyAsks),
            }
            any = true;
        }
        if !marks.is_empty() {
            let mark = self.parts.engine.send_mark();
            self.readers.insert(mark, marks);
        }
        self.act()?;
        Ok(any)
    }

    fn refuses(&self) -> Option<String> {
        if self.under_way >= UNDER_WAY_MAX && self.parts.shared.stops.load(Ordering::Relaxed) {
            return Some("the replica is being stopped".to_owned());
        }
        self.told_waits.clone().filter(|_| self.parts.options.outside == Outside::Refused)
    }

    fn call(&mut self, command: Bytes, answer: Answer<Response>) {
        let most = self.parts.link.seen().map_or(usize::MAX, |client| client.welcome().message_max as usize);
        if command.len().saturating_add(FRAME) > most {
            let why = format!("a command of {} bytes; {} are allowed", command.len(), most.saturating_sub(FRAME));
            return answer.give(Err(Error::Refused(why)));
        }
        let cost = COMMAND + command.len();
        let number = self.parts.engine.call(command);
        self.under_way += cost;
        self.calls.insert(number, (answer, cost));
    }

    /// Behind all that was begun here before.
    fn cut(&mut self, id: CutId, groups: &[GroupName]) {
        self.send_out(Instant::now());
        let why = self.refuses().or_else(|| (!self.outbox.is_empty()).then(|| "earlier commands wait".to_owned()));
        let sent = match (why, self.parts.link.client()) {
            (Some(why), _) => Err(Error::Outside(why)),
            (None, None) => Err(missed()),
            (None, Some(client)) => {
                let cut = Frame::Cut { origin: id.0, number: id.1 };
                client
                    .try_multicast(Service::Safe, groups, &cut.encode())
                    .map_err(|error| Error::Outside(error.to_string()))
            }
        };
        match sent {
            Ok(request) => drop(self.cuts.insert(request, id)),
            Err(error) => self.parts.shared.miss(id, error),
        }
    }

    fn answer(&mut self, number: u64, answer: Result<Response, Error>) {
        if let Some((call, cost)) = self.calls.remove(&number) {
            self.under_way -= cost;
            call.give(answer);
        }
    }

    /// Does what the engine says, and that of an own log.
    fn act(&mut self) -> Result<(), End> {
        self.act_for_own_log()?;
        while let Some(effect) = self.parts.engine.next_effect() {
            match effect {
                Effect::Send(frame) => self.outbox.push_back(frame),
                Effect::Apply { at, own, body } => self.apply(at, own, &body),
                Effect::Passed { mark } => {
                    let later = self.readers.split_off(&(mark + 1));
                    let passed = std::mem::replace(&mut self.readers, later).into_values().flatten();
                    passed.for_each(|answer| answer.give(Ok(())));
                }
                Effect::Cut(id) => self.pass(id),
                Effect::Lost { number, applied } => {
                    self.answer(number, Err(if applied { Error::Unseen } else { Error::Unknown }));
                }
                Effect::Serves => {
                    tracing::info!("the replica of group {} is up to date", self.parts.group);
                    self.parts.shared.told_current(true, &missed());
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, id: CutId) {
        self.cuts.retain(|_, cut| *cut != id);
        self.parts.shared.pass(id);
    }

    fn apply(&mut self, at: u64, own: Option<u64>, body: &[u8]) {
        let position = Position(at);
        let mut machine = self.parts.shared.machine.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = machine.apply(position, body);
        drop(machine);
        self.keeping.applied(body.len());
        self.parts.shared.state().position = position;
        if let Some(number) = own {
            //= RS04
            self.answer(number, Ok(Response { at: position, bytes }));
        }
    }

    /// Hands the daemon what waits, as far as there is credit. No session numbers it.
    fn send_out(&mut self, now: Instant) {
        //= RS02
        if let Some((again, _)) = &self.refused {
            if now < *again {
                return;
            }
            self.refused = None;
            self.outbox.clear();
            self.parts.engine.on_lost();
            self.parts.engine.on_connected();
            let _ = self.act();
        }
        let group = std::slice::from_ref(&self.parts.group);
        let Some(client) = self.parts.link.client().filter(|_| !self.keeping.is_full()) else { return };
        let is_own = matches!(self.parts.source, Source::Own(_));
        while let Some(frame) = self.outbox.front() {
            // What an own log says is safe once disks have it; a reader is to know that no copy has gone elsewhere.
            let is_safe = !is_own || matches!(frame, Frame::Mark { .. });
            let service = if is_safe { Service::Safe } else { Service::Agreed };
            match client.try_multicast(service, group, &frame.encode()) {
                Ok(_) => drop(self.outbox.pop_front()),
                Err(consort::Error::WouldBlock { .. } | consort::Error::TimedOut { .. }) => break,
                Err(error) => return self.lose(&error),
            }
        }
    }

    /// What commands wait for, as clients are answered.
    fn note_waits(&mut self, now: Instant) {
        let cause = self.parts.link.seen().and_then(Client::wait_cause).filter(consume::is_to_be_known);
        self.waits = match (cause, self.waits.take()) {
            (None, _) => None,
            (Some(cause), None) => Some((now, cause.explain())),
            (Some(cause), Some((since, _))) => Some((since, cause.explain())),
        };
        let waits = self.why_it_waits(now);
        if waits != self.told_waits {
            self.told_waits.clone_from(&waits);
            self.parts.shared.state().waits = waits;
        }
    }

    fn why_it_waits(&mut self, now: Instant) -> Option<String> {
        if let Some(why) = self.parts.link.why() {
            return Some(format!("no daemon is connected: {why}"));
        }
        let stage = match &self.stage {
            Stage::Asks => Some(self.copies.as_ref().map_or_else(
                || "the daemon was asked for the copies of this group".to_owned(),
                |_| "the daemon does not know the order yet: it waits for a majority of the acceptors".to_owned(),
            )),
            Stage::Binds(binding) => {
                Some(format!("the order is to bind copy {} first", super::seat::copy_of(&binding.holder)))
            }
            Stage::Lacks { why, .. } => Some(why.clone()),
            Stage::Consumes(_) => None,
        };
        let stage = stage.or_else(|| self.why_own_log_waits(now));
        let lags = matches!(self.stage, Stage::Consumes(_)) && !self.parts.engine.serves();
        let stage = stage.or_else(|| lags.then(|| self.how_far()));
        let refused = || self.refused.as_ref().map(|(_, why)| format!("the daemon refuses what is sent: {why}"));
        let waits = || {
            let long = self.waits.as_ref().filter(|(since, _)| now.saturating_duration_since(*since) >= PATIENCE);
            long.map(|(_, why)| why.clone())
        };
        let full = || self.keeping.is_full().then(|| WaitCause::Retention.explain());
        stage.or_else(refused).or_else(full).or_else(waits)
    }

    fn how_far(&self) -> String {
        let (next, last) = (self.parts.engine.progress().next, self.copies.as_ref().map_or(0, |copies| copies.last.0));
        format!("it takes up the log: it is at position {}, the log ended at {last}", next.position)
    }

    /// Makes the last checkpoint and closes the connection.
    fn finish(mut self) -> Result<(), Error> {
        let kept = self.keep_last();
        if let Ok(true) = kept {
            let (group, applied) = (&self.parts.group, self.parts.engine.progress().applied);
            tracing::info!("the replica of group {group} ends at command {applied}, with a whole checkpoint");
        }
        self.parts.link.close(LAST_WORDS);
        kept.map(drop)
    }
}

pub(super) fn missed() -> Error {
    Error::Outside("the replica was away, or its daemons were; ask again".to_owned())
}
