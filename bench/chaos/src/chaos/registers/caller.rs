//! A caller: sends its calls into the order, applies all that it reads there, and starts again when its daemon ends.
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use consort::{Bookmark, Client, ConnectOptions, Error, Event, GroupName, ReadFrom, ReadingEndCause, ReadingStatus};
use consort::{Message, Service};
use consort_types::{Instant, Rng};

use super::operation::{Answer, Call, KEYS, Operation, Request};
use super::{Copied, History, Reads, Registers};
use crate::chaos::board::Board;
use crate::chaos::fleet::address;

/// How many callers a node has.
pub const CALLERS: u64 = 2;
/// How long a caller waits for its daemon, or for another copy, before it tries again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a caller waits for news before it looks at something else.
const TURN: Duration = Duration::from_millis(5);
/// How long a caller thinks between an answer and the next call, in the mean, in seconds.
const THINKS: f64 = 0.06;
/// By when the last calls must be answered, for then all is at rest.
const LAST: Duration = Duration::from_secs(10);

/// What a caller is and knows of.
pub struct Caller<'a> {
    /// The node, from 0.
    pub node: usize,
    /// Its number among all callers.
    pub number: u64,
    /// The directory of the run.
    pub directory: &'a Path,
    /// The group that calls are sent to.
    pub group: &'a GroupName,
    /// Where all know of each other.
    pub board: &'a Board,
    /// What all did.
    pub history: &'a History,
    /// How it reads.
    pub reads: Reads,
    /// What its chance comes from.
    pub seed: u64,
}

impl Caller<'_> {
    /// Calls until the last call comes and is answered, or all are to stop.
    pub fn live(&self) {
        self.board.seated.fetch_add(1, Ordering::Relaxed);
        let mut replica = Replica::new(self);
        while !replica.is_done() {
            // That its daemon is killed under it is what a caller must reckon with.
            let _ = self.connect().and_then(|client| replica.attend(client));
            replica.gives_up();
            replica.look_at_the_clock();
            std::thread::sleep(PAUSE);
        }
        self.board.seated.fetch_sub(1, Ordering::Relaxed);
    }

    fn connect(&self) -> Result<Client, Error> {
        let options = ConnectOptions::default().connect_within(PATIENCE);
        Client::connect(&address(self.directory, self.node), &options)
    }

    fn is_over(&self) -> bool {
        self.board.stop.load(Ordering::Relaxed)
    }
}

/// Whether what is read can be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// It was asked to begin.
    Asked,
    /// It goes on where the copy ends.
    Follows,
    /// A part is missing up to this position: a copy of another caller must help.
    Gap(u64),
}

/// What is left to do once all is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is not.
    NotYet,
    /// To read the registers from this one on, by then.
    Reads(usize, Instant),
    /// Nothing.
    Done,
}

/// A copy of the registers, and the call that its keeper waits for.
struct Replica<'a> {
    caller: &'a Caller<'a>,
    rng: Rng,
    registers: Registers,
    at: Option<Bookmark>,
    reading: Reading,
    called: Option<Operation>,
    /// How many calls there were.
    count: u64,
    next: Instant,
    rest: Rest,
}

impl<'a> Replica<'a> {
    fn new(caller: &'a Caller<'a>) -> Self {
        Self {
            caller,
            rng: Rng::new(caller.seed),
            registers: Registers::default(),
            at: None,
            reading: Reading::Asked,
            called: None,
            count: 0,
            next: Instant::ZERO,
            rest: Rest::NotYet,
        }
    }

    fn is_done(&self) -> bool {
        self.caller.is_over() || self.rest == Rest::Done
    }

    /// The connection is gone, or cannot help: nobody will know whether the call takes effect.
    fn gives_up(&mut self) {
        self.called.take().into_iter().for_each(|operation| self.caller.history.add(operation));
        self.think();
    }

    /// One connection, until it ends or nothing is left to do.
    fn attend(&mut self, mut client: Client) -> Result<(), Error> {
        if let Reading::Gap(to) = self.reading
            && !self.is_restored(to)
        {
            return Ok(());
        }
        self.reading = Reading::Asked;
        let group = std::slice::from_ref(self.caller.group);
        client.read(group, self.at.clone().map_or(ReadFrom::Start, ReadFrom::After))?;
        while !self.is_done() && !matches!(self.reading, Reading::Gap(_)) {
            if let Some(event) = client.receive(TURN)? {
                self.on_event(&event);
                self.on_place(client.bookmark());
            }
            if let Some(call) = self.next_call() {
                client.multicast_within(Service::Agreed, group, call.to_string().as_bytes(), PATIENCE)?;
            }
            self.look_at_the_clock();
        }
        Ok(())
    }

    /// So much of the order is applied.
    fn on_place(&mut self, at: Option<Bookmark>) {
        if self.reading == Reading::Follows {
            self.at.clone_from(&at);
            let copied = at.map(|at| Copied { at, registers: self.registers });
            copied.into_iter().for_each(|copied| self.caller.history.keep(copied));
        }
    }

    /// Takes the copy of another caller that is behind the gap.
    fn is_restored(&mut self, to: u64) -> bool {
        let Some(copied) = self.caller.history.copied().filter(|copied| copied.at.next.position > to) else {
            return false;
        };
        (self.registers, self.at) = (copied.registers, Some(copied.at));
        true
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Read(message) => self.on_message(message),
            Event::Reading(status) => self.on_status(status),
            // Whether it was refused before or behind others does not matter: it is called no more.
            Event::Refused { .. } => self.gives_up(),
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Message) {
        let text = String::from_utf8_lossy(message.payload());
        match text.parse() {
            Ok(call) => self.on_call(&call),
            Err(wrong) => self.caller.history.broken(format!("caller {}: {wrong}", self.caller.number)),
        }
    }

    /// A call stands next in the order.
    fn on_call(&mut self, call: &Call) {
        let answer = self.registers.apply(call);
        if self.called.is_some_and(|operation| operation.call == *call) {
            self.answered(answer);
        }
    }

    fn answered(&mut self, answer: Answer) {
        let now = self.caller.board.now();
        if let Some(operation) = self.called.take() {
            self.caller.history.add(Operation { outcome: Some((now, answer)), ..operation });
        }
        self.think();
    }

    fn think(&mut self) {
        self.next = self.caller.board.now() + Duration::from_secs_f64(self.rng.exponential(THINKS));
    }

    fn on_status(&mut self, status: &ReadingStatus) {
        match status {
            ReadingStatus::Began { from, .. } if self.at.is_none() && from.position > 1 => {
                self.reading = Reading::Gap(from.position - 1);
            }
            ReadingStatus::Began { .. } => self.reading = Reading::Follows,
            // Positions of this order last.
            ReadingStatus::CaughtUp { .. } | ReadingStatus::InView { .. } | ReadingStatus::Gap { .. } => {}
            ReadingStatus::Lost { to, .. } => self.reading = Reading::Gap(*to),
            ReadingStatus::Ended(end) => {
                if end.cause == ReadingEndCause::OtherOrder {
                    self.caller.history.broken(format!("caller {}: {end}", self.caller.number));
                }
                self.reading = Reading::Gap(end.oldest.saturating_sub(1));
            }
        }
    }

    /// The call that is sent next, if there is one by now.
    fn next_call(&mut self) -> Option<Call> {
        if self.reading != Reading::Follows || self.called.is_some() {
            return None;
        }
        let board = self.caller.board;
        let (key, request) = match self.rest {
            Rest::Reads(key, until) => {
                self.rest = if key < KEYS { Rest::Reads(key + 1, until) } else { Rest::Done };
                (key < KEYS).then_some((key, Request::Read))?
            }
            Rest::NotYet if board.talk.load(Ordering::Relaxed) && board.now() >= self.next => self.draw(),
            _ => return None,
        };
        self.count += 1;
        let call = Call { caller: self.caller.number, number: self.count, key, request };
        self.called = Some(Operation { call, from: board.now(), outcome: None });
        if request == Request::Read && self.caller.reads == Reads::Local {
            self.answered(Answer::Held(self.registers.value(key)));
            return None;
        }
        Some(call)
    }

    /// What to ask of which register. What is written is written once only.
    fn draw(&mut self) -> (usize, Request) {
        let key = self.rng.below(KEYS as u64) as usize;
        let new = ((self.caller.number + 1) << 32) + self.count + 1;
        let request = match self.rng.below(4) {
            0 => Request::Read,
            1 => Request::Write(new),
            _ => Request::CompareAndSet { expected: self.registers.value(key), new },
        };
        (key, request)
    }

    /// Once all is at rest, each register is read a last time, and that must be answered.
    fn look_at_the_clock(&mut self) {
        let Caller { board, number, node, .. } = self.caller;
        match self.rest {
            Rest::NotYet if board.last_call.load(Ordering::Relaxed) => self.rest = Rest::Reads(0, board.now() + LAST),
            Rest::Reads(_, until) if board.now() > until => {
                let late = format!("caller {number} at n{}: no answer {LAST:?} after all was at rest", node + 1);
                self.caller.history.broken(late);
                self.rest = Rest::Done;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
