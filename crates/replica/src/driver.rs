//! The thread that runs a replica: session, engine, machine.
mod gifts;

use crate::checkpoint::{self, Checkpoints, Head};
use crate::donation::Donation;
use crate::engine::{Effect, Engine, Membership};
use crate::frame::{Frame, Peer};
use crate::gift::{Incoming, Private, chunk_of};
use crate::line::{Entry, Line, Others, Point, ReplicaId};
use crate::machine::{Position, StateMachine};
use crate::options::{Error, Options, Outside, Response};
use crate::pending::Answer;
use crate::shared::{CutId, Request, Shared};
use bytes::Bytes;
use consort::{
    ChangeCause, Event, Fate, GroupName, GroupView, Message, Primary, PrivateName, Service, Session, SessionEvent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So many events are taken before calls are looked at.
const EVENTS: usize = 512;
/// Commands beyond this wait unsent.
const UNDER_WAY_MAX: usize = 16 << 20;
/// What a command costs besides its bytes.
const COMMAND: usize = 256;
/// How long it waits without a look at the session.
const STEP: Duration = Duration::from_millis(50);
/// A checkpoint is due after this time, if anything was applied. One that takes long leaves four times as long between two.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(crate) struct Driver<M: StateMachine> {
    engine: Engine,
    session: Session,
    group: GroupName,
    shared: Arc<Shared<M>>,
    options: Options,
    checkpoints: Option<Checkpoints>,
    names: BTreeMap<Peer, PrivateName>,
    calls: BTreeMap<u64, (Answer<Response>, usize)>,
    /// What each send is.
    sends: BTreeMap<u64, Sent>,
    /// What is to be sent again, because daemons have forgotten it.
    again: Vec<Frame>,
    under_way: usize,
    readers: BTreeMap<u64, Vec<Answer<()>>>,
    waits: Option<String>,
    donations: BTreeMap<ReplicaId, Donation>,
    /// Those whose snapshot could not be written, and when it is tried again.
    failed: Vec<(ReplicaId, Instant)>,
    incoming: Incoming,
    saving: Option<JoinHandle<std::io::Result<Line>>>,
    saved: u64,
    /// The line of the last checkpoint that is whole.
    kept: Line,
    /// When the last checkpoint was begun, and when the next is due if anything was applied since.
    save_times: (Instant, Instant),
    origin: crate::line::Origin,
    /// It was said that others are of another kind.
    warned: bool,
}

/// What was sent, of which the fate counts.
#[derive(Clone, Debug)]
enum Sent {
    /// The command of this number.
    Command(u64),
    Cut(CutId),
    /// The mark of this number.
    Mark(u64),
    /// The question of this number.
    Question(u64),
    /// What else replicas say to each other.
    Other(Box<Frame>),
}

/// Why the loop ends.
enum End {
    Asked(Answer<()>),
    NobodyAsks,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<consort::Error> for End {
    fn from(error: consort::Error) -> Self {
        Self::Failed(Error::Session(error.to_string()))
    }
}

impl<M: StateMachine> Driver<M> {
    pub fn new(
        engine: Engine,
        session: Session,
        group: GroupName,
        shared: Arc<Shared<M>>,
        options: Options,
        checkpoints: Option<Checkpoints>,
    ) -> Self {
        Self {
            saved: engine.applied().position,
            kept: engine.line_of_machine().0,
            origin: engine.origin(),
            engine,
            session,
            group,
            shared,
            options,
            checkpoints,
            names: BTreeMap::new(),
            calls: BTreeMap::new(),
            sends: BTreeMap::new(),
            again: Vec::new(),
            under_way: 0,
            readers: BTreeMap::new(),
            waits: None,
            donations: BTreeMap::new(),
            failed: Vec::new(),
            incoming: Incoming::default(),
            saving: None,
            warned: false,
            save_times: (Instant::now(), Instant::now() + SAVE_EVERY),
        }
    }

    pub fn run(mut self, requests: &Receiver<Request>) {
        let end = loop {
            if let Err(end) = self.turn(requests) {
                break end;
            }
        };
        let (answer, error) = match end {
            End::Asked(answer) => (Some(answer), None),
            End::NobodyAsks => (None, None),
            End::Failed(error) => (None, Some(error)),
        };
        let error_told = error.clone().unwrap_or(Error::Stopped);
        self.shared.end(requests, &error_told);
        let calls = std::mem::take(&mut self.calls).into_values();
        calls.for_each(|(answer, _)| answer.give(Err(error_told.clone())));
        let readers = std::mem::take(&mut self.readers).into_values().flatten();
        readers.for_each(|answer| answer.give(Err(error_told.clone())));
        if let Some(error) = &error {
            tracing::warn!("the replica of group {} has ended: {error}", self.group);
        }
        let (shared, group) = (Arc::clone(&self.shared), self.group.clone());
        let finished = self.finish();
        if let (None, Err(error)) = (&answer, &finished) {
            tracing::warn!("the replica of group {group} has ended without a last checkpoint: {error}");
        }
        answer.into_iter().for_each(|answer| answer.give(finished.clone()));
        shared.finish(&error_told);
    }

    fn turn(&mut self, requests: &Receiver<Request>) -> Result<(), End> {
        let asked = self.take_requests(requests)?;
        let came = self.take_events()?;
        let now = Instant::now();
        let sent = self.send_gifts(now)?;
        self.checkpoint();
        if !asked && !came && !sent {
            self.wait(now);
        }
        Ok(())
    }

    /// Waits for the session, for calls and for donations: for the time of those that were not due by now. The others wait
    /// for their writers, which wake.
    fn wait(&self, now: Instant) {
        let waker = &self.shared.wake;
        let mut fds = vec![PollFd::new(waker, PollFlags::IN)];
        fds.extend(self.session.descriptor().as_ref().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let rests = self.donations.values().filter_map(|donation| donation.rests(now).filter(|rest| !rest.is_zero()));
        let step = rests.fold(STEP, Duration::min);
        let step = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&step));
        let _ = rustix::io::read(waker, &mut [0_u8; 8]);
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
                Ok(Request::Cut(id, groups)) => self.cut(id, &groups)?,
                Ok(Request::Stop(answer)) => return Err(End::Asked(answer)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(End::NobodyAsks),
            }
            any = true;
        }
        if !marks.is_empty() {
            let number = self.engine.send_mark();
            self.readers.insert(number, marks);
        }
        self.act()?;
        Ok(any)
    }

    fn refuses(&self) -> Option<String> {
        if self.under_way >= UNDER_WAY_MAX && self.shared.stops.load(Ordering::Relaxed) {
            return Some("the replica is being stopped".to_owned());
        }
        self.waits.clone().filter(|_| self.options.outside == Outside::Refused)
    }

    fn call(&mut self, command: Bytes, answer: Answer<Response>) {
        let most = self.message_max();
        if command.len() + Frame::COMMAND_HEAD > most {
            let why = format!("a command of {} bytes; {} are allowed", command.len(), most - Frame::COMMAND_HEAD);
            return answer.give(Err(Error::Refused(why)));
        }
        let cost = COMMAND + command.len();
        let number = self.engine.call(command);
        self.under_way += cost;
        self.calls.insert(number, (answer, cost));
    }

    /// Bytes of a message at most.
    fn message_max(&self) -> usize {
        self.session.welcome().map_or(usize::MAX, |welcome| welcome.message_max as usize)
    }

    /// Behind all that was begun here before.
    fn cut(&mut self, id: CutId, groups: &[GroupName]) -> Result<(), End> {
        self.act()?;
        if let Some(why) = self.refuses() {
            self.shared.miss(id, Error::Outside(why));
        } else {
            let cut = Frame::Cut { origin: id.0, number: id.1 };
            let send = self.session.send(Service::Safe, groups, &cut.encode())?;
            self.sends.insert(send, Sent::Cut(id));
        }
        Ok(())
    }

    fn answer(&mut self, number: u64, answer: Result<Response, Error>) {
        if let Some((call, cost)) = self.calls.remove(&number) {
            self.under_way -= cost;
            call.give(answer);
        }
    }

    fn take_events(&mut self) -> Result<bool, End> {
        for taken in 0..EVENTS {
            let Some(event) = self.session.receive(Duration::ZERO)? else { return Ok(taken > 0) };
            self.take(event)?;
            self.act()?;
        }
        Ok(true)
    }

    fn take(&mut self, event: SessionEvent) -> Result<(), End> {
        match event {
            SessionEvent::Connected { .. } => {
                if let Some(welcome) = self.session.welcome() {
                    self.engine.on_connected((welcome.daemon, welcome.client));
                }
            }
            SessionEvent::Lost { why } => {
                tracing::warn!("the replica of group {} lost its daemon: {why}", self.group);
                self.engine.on_lost();
            }
            SessionEvent::Waits(wait) => return self.note_wait(wait.text()),
            SessionEvent::Sent { send, fate } => self.take_fate(send, fate),
            SessionEvent::JoinRefused { refusal, .. } => return Err(Error::Session(refusal.to_string()).into()),
            // It was made to leave the group, for example because it did not read.
            SessionEvent::Event(Event::Refused { send: 0, refusal }) => {
                return Err(Error::Session(refusal.to_string()).into());
            }
            SessionEvent::Event(Event::GroupView(view)) => self.take_view(&view),
            SessionEvent::Event(Event::GroupSignal(_)) => self.engine.on_signal(),
            SessionEvent::Event(Event::Message(message)) => return self.take_message(&message),
            _ => {}
        }
        Ok(())
    }

    /// Nothing is ordered here now. The fate of a send tells the end of it: where commands are refused, of one for this.
    fn note_wait(&mut self, why: &str) -> Result<(), End> {
        self.waits = Some(why.to_owned());
        if self.session.unsettled() == 0 {
            self.send(&Frame::Mark { origin: self.origin, number: 0 })?;
        }
        Ok(())
    }

    fn take_fate(&mut self, send: u64, fate: Fate) {
        self.waits = None;
        let Some(sent) = self.sends.remove(&send) else { return };
        match (sent, fate) {
            (_, Fate::Ordered { .. }) => {}
            (Sent::Command(number), Fate::Forgotten) => self.engine.resend(number),
            (Sent::Question(ask), Fate::Forgotten) => self.engine.on_forgotten(ask),
            // It has no effect where it comes twice.
            (Sent::Other(frame), Fate::Forgotten) => self.again.push(*frame),
            (Sent::Mark(number), Fate::Forgotten) => {
                self.again.push(Frame::Mark { origin: self.origin, number });
            }
            (Sent::Mark(number), Fate::Refused(refusal)) => {
                let readers = self.readers.remove(&number).into_iter().flatten();
                readers.for_each(|answer| answer.give(Err(Error::Refused(refusal.to_string()))));
            }
            (Sent::Question(_) | Sent::Other(_), Fate::Refused(refusal)) => {
                tracing::warn!("the replica of group {} may wait: its message was refused: {refusal}", self.group);
            }
            (Sent::Command(number), Fate::Refused(refusal)) => {
                self.engine.forget(number);
                self.answer(number, Err(Error::Refused(refusal.to_string())));
            }
            // Sent again it would have another place, and some may have passed this one.
            (Sent::Cut(id), Fate::Forgotten) => self.shared.miss(id, missed()),
            (Sent::Cut(id), Fate::Refused(refusal)) => self.shared.miss(id, Error::Refused(refusal.to_string())),
        }
    }

    fn take_view(&mut self, view: &GroupView) {
        if view.cause == ChangeCause::Primary {
            if view.primary == Primary::Yes {
                self.engine.on_same_group();
            }
            return;
        }
        let Some(me) = self.session.welcome().map(|welcome| (welcome.daemon, welcome.client)) else { return };
        self.names = view
            .members
            .iter()
            .map(|member| (member.key(), PrivateName::new(&member.name, member.daemon.node)))
            .collect();
        self.engine.on_membership(Membership {
            at: (view.id.view.number, view.id.change),
            is_new_view: view.cause == ChangeCause::Network,
            members: view.members.iter().map(consort::Member::key).collect(),
            together: view.together_with(me).map(consort::Member::key).collect(),
        });
    }

    fn take_message(&mut self, message: &Message) -> Result<(), End> {
        let bytes = Bytes::copy_from_slice(message.payload());
        if message.groups().any(|group| group.as_bytes() == self.group.as_bytes()) {
            match Frame::decode(&bytes) {
                Ok(Frame::Said(_)) => self.warn_of_durable(message.sender_name()),
                Ok(frame) => self.engine.on_frame(frame),
                Err(error) => tracing::warn!("{} sent what is no command: {error}", message.sender_name()),
            }
            return Ok(());
        }
        match Private::decode(&bytes) {
            Ok(Private::Part { ask, number, last, bytes }) => {
                self.take_part(message.sender(), (ask, number, last), bytes)
            }
            Ok(Private::Received { id, ask, next }) => {
                self.donations.get_mut(&id).into_iter().for_each(|donation| donation.acknowledge(ask, next));
                Ok(())
            }
            Err(error) => {
                tracing::warn!("{} sent what is no part of a state: {error}", message.sender_name());
                Ok(())
            }
        }
    }

    /// Others of the group keep a log of their own.
    fn warn_of_durable(&mut self, who: impl std::fmt::Display) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                "{who} is a durable replica of group {}, and this one is not, so that neither takes what the other sends: \
                 start all of them alike",
                self.group
            );
        }
    }

    /// Does what the engine says.
    fn act(&mut self) -> Result<(), End> {
        for frame in std::mem::take(&mut self.again) {
            self.send(&frame)?;
        }
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Send(frame) => self.send(&frame)?,
                Effect::Apply { at, entry } => self.apply(at, &entry),
                Effect::Passed { number } => {
                    let readers = self.readers.remove(&number).into_iter().flatten();
                    readers.for_each(|answer| answer.give(Ok(())));
                }
                Effect::Cut { origin, number } => self.shared.pass((origin, number)),
                Effect::Donate { id, peer, gift } => {
                    let shared = Arc::clone(&self.shared);
                    let machine = self.shared.machine.read().unwrap_or_else(PoisonError::into_inner);
                    let pace = (chunk_of(self.message_max()), self.options.transfer_rate);
                    let donation = Donation::new(peer, &gift, &*machine, pace, move || shared.wake());
                    drop(machine);
                    self.donations.insert(id, donation);
                }
                Effect::StopDonating { id } => {
                    self.failed.retain(|(failed, _)| *failed != id);
                    self.donations.remove(&id);
                }
                Effect::Unseen { number } => self.answer(number, Err(Error::Unseen)),
                Effect::Current(current) => self.on_current(current),
                Effect::Remember(others) => self.remember(&others),
            }
        }
        let waits = if self.engine.is_current() { self.waits.clone() } else { Some(self.engine.waits_for()) };
        let mut state = self.shared.state();
        if state.waits != waits {
            state.waits = waits;
        }
        Ok(())
    }

    /// A replica whose directory cannot be written goes on, as with checkpoints.
    fn remember(&self, others: &Others) {
        let Some(checkpoints) = &self.checkpoints else { return };
        if let Err(error) = checkpoints.remember(others) {
            let directory = checkpoints.directory().display();
            let risk = "a later start of this replica may not know which others went on without it";
            tracing::warn!("{directory} cannot be written: {error}; {risk}");
        }
    }

    fn send(&mut self, frame: &Frame) -> Result<(), End> {
        let send = self.session.send(Service::Safe, std::slice::from_ref(&self.group), &frame.encode())?;
        let sent = match frame {
            Frame::Command { number, .. } => Sent::Command(*number),
            Frame::Mark { number, .. } => Sent::Mark(*number),
            Frame::Hello(hello) => Sent::Question(hello.ask),
            other => Sent::Other(Box::new(other.clone())),
        };
        self.sends.insert(send, sent);
        Ok(())
    }

    fn apply(&mut self, at: Point, entry: &Entry) {
        let position = Position(at.position);
        let mut machine = self.shared.machine.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = machine.apply(position, &entry.body);
        drop(machine);
        self.shared.state().position = position;
        if entry.origin == self.origin {
            self.answer(entry.number, Ok(Response { at: position, bytes }));
        }
    }

    /// Marks that passed while it was away said nothing to it.
    fn on_current(&mut self, current: bool) {
        tracing::info!("the replica of group {} is {}up to date", self.group, if current { "" } else { "not " });
        self.shared.told_current(current, &missed());
        let readers: Vec<_> = std::mem::take(&mut self.readers).into_values().flatten().collect();
        if current && !readers.is_empty() {
            let number = self.engine.send_mark();
            self.readers.insert(number, readers);
        } else if !readers.is_empty() {
            self.readers.insert(0, readers);
        }
    }

    /// Makes a checkpoint if it is time, in a thread.
    fn checkpoint(&mut self) {
        let Some(checkpoints) = &self.checkpoints else { return };
        if self.saving.as_ref().is_some_and(JoinHandle::is_finished) {
            self.collect();
            return;
        }
        let (news, now) = (self.engine.applied().position.saturating_sub(self.saved), Instant::now());
        let is_due = news >= self.options.checkpoint_every || news > 0 && now >= self.save_times.1;
        if self.saving.is_some() || !is_due {
            return;
        }
        let head = self.head();
        self.saved = head.line.end.position;
        self.save_times.0 = now;
        let machine = self.shared.machine.read().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, directory) = (machine.snapshot(), checkpoints.directory().to_owned());
        drop(machine);
        let (line, shared) = (head.line.clone(), Arc::clone(&self.shared));
        let save = move || checkpoint::save::<M>(&directory, &head, snapshot, &shared.written).map(|_| line);
        self.saving = Some(thread::spawn(save));
    }

    fn head(&self) -> Head {
        let (line, seen) = self.engine.line_of_machine();
        Head { id: self.engine.id(), line, seen }
    }

    fn collect(&mut self) {
        let now = Instant::now();
        self.save_times.1 = now + SAVE_EVERY.max(4 * now.saturating_duration_since(self.save_times.0));
        let saved = self.saving.take().map(JoinHandle::join);
        match saved {
            Some(Ok(Ok(line))) => self.kept = line,
            Some(Ok(Err(error))) => tracing::warn!("a checkpoint could not be written: {error}"),
            Some(Err(_)) => tracing::warn!("a checkpoint could not be written: its thread panicked"),
            None => {}
        }
    }

    /// The last checkpoint, and a farewell.
    fn finish(mut self) -> Result<(), Error> {
        self.collect();
        let (mut saved, head) = (Ok(()), self.head());
        // Also if no command came since: others may have come up to date or gone, and who goes on depends on that.
        if let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| head.line != self.kept) {
            let machine = self.shared.machine.read().unwrap_or_else(PoisonError::into_inner);
            let snapshot = machine.snapshot();
            let directory = checkpoints.directory();
            let failed = |error: std::io::Error| Error::directory(directory, &error);
            saved = checkpoint::save::<M>(directory, &head, snapshot, &self.shared.written).map(drop).map_err(failed);
        }
        if self.checkpoints.is_some() && saved.is_ok() {
            let (group, position) = (&self.group, head.line.end.position);
            tracing::info!("the replica of group {group} ends at command {position}, with a whole checkpoint");
        }
        let _ = self.session.finish(LAST_WORDS);
        saved
    }
}

fn missed() -> Error {
    Error::Outside("the replica was away, or its daemons were; ask again".to_owned())
}
