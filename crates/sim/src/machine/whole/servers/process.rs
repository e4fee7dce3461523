//! One start of a server, of whichever kind.
use super::directory::{Checkpoint, Directory};
use super::lasting::{self, Ask, Beginning, End, Here, Kind, Settings};
use super::{ServerTouch, forgetting};
use crate::trace::{RegisterCommand, ReplicaRecord};
use bytes::Bytes;
use consort_session::{DaemonEvent, Target, Welcome};
use consort_types::{GroupName, Instant, Rng, Service};

/// One start of a server.
#[derive(Debug)]
pub(super) enum Process {
    /// Its history is a log that lasts, the daemons' or its own.
    Lasting(Box<lasting::Process>),
    /// The history is what the members of the group have in memory.
    Forgetting(Box<forgetting::Process>),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($process:expr, $name:ident => $what:expr) => {
        match $process {
            Process::Lasting($name) => $what,
            Process::Forgetting($name) => $what,
        }
    };
}

impl Process {
    pub fn start(settings: Settings, directory: &mut Directory, beginning: &Beginning, touch: &ServerTouch) -> Self {
        if settings.kind == Kind::Forgetting {
            return Self::Forgetting(Box::new(forgetting::Process::start(settings, directory, beginning)));
        }
        Self::Lasting(Box::new(lasting::Process::start(settings, directory, beginning, touch)))
    }

    /// What it says of itself since it was asked last.
    pub fn told(&mut self) -> Vec<ReplicaRecord> {
        each!(self, process => std::mem::take(&mut process.told))
    }

    pub fn group(&self) -> &GroupName {
        each!(self, process => process.group())
    }

    /// How many commands and reads wait for an answer.
    pub fn waiting(&self) -> usize {
        each!(self, process => process.waiting())
    }

    /// A command is called here.
    pub fn call(&mut self, call: u64, command: RegisterCommand, len: usize) {
        each!(self, process => process.call(call, command, len));
    }

    /// The state is read: all that was answered before is in it.
    pub fn read(&mut self, call: u64, key: u8) {
        each!(self, process => process.read(call, key));
    }

    /// It has a connection, and was welcomed.
    pub fn on_connected(&mut self, now: Instant, welcome: &Welcome) {
        match self {
            Self::Lasting(process) => process.on_connected(now, welcome.message_max as usize),
            Self::Forgetting(process) => process.on_connected(welcome),
        }
    }

    /// The connection is lost: what was sent may be ordered or not.
    pub fn on_lost(&mut self) {
        each!(self, process => process.on_lost());
    }

    /// What was sent waits for room in the log: whether it is to go on elsewhere.
    pub fn gives_way(&mut self, now: Instant) -> bool {
        match self {
            Self::Lasting(process) => process.gives_way(now),
            Self::Forgetting(_) => false,
        }
    }

    /// Time has passed.
    pub fn pass(&mut self, here: &mut Here<'_>) {
        each!(self, process => process.pass(here));
    }

    /// What the process's daemon said.
    ///
    /// # Errors
    /// It ends.
    pub fn on_event(&mut self, event: DaemonEvent, here: &mut Here<'_>) -> Result<(), End> {
        match self {
            Self::Lasting(process) => process.on_event(event, here),
            Self::Forgetting(process) => {
                process.on_event(&event, here.directory);
                Ok(())
            }
        }
    }

    /// What it asks its daemon for next.
    pub fn next_ask(&mut self) -> Option<Ask> {
        each!(self, process => process.asks.pop_front())
    }

    /// There was no credit for it.
    pub fn ask_again(&mut self, ask: Ask) {
        each!(self, process => process.asks.push_front(ask));
    }

    /// What it sends next.
    pub fn next_send(&self) -> Option<(Service, Target, Bytes)> {
        each!(self, process => process.next_send())
    }

    /// That is under way.
    pub fn sent(&mut self) {
        match self {
            Self::Lasting(process) => drop(process.outbox.pop_front()),
            Self::Forgetting(process) => process.sent(),
        }
    }

    /// Begins to fetch a checkpoint, if it lacks one.
    ///
    /// # Errors
    /// It cannot go on.
    pub fn begin_fetch(&mut self, now: Instant, rng: &mut Rng) -> Result<(), End> {
        match self {
            Self::Lasting(process) => process.begin_fetch(now, rng),
            Self::Forgetting(_) => Ok(()),
        }
    }

    /// The next server that has sent it a checkpoint by now, or that it has none.
    pub fn fetched_from(&mut self, now: Instant) -> Option<u16> {
        match self {
            Self::Lasting(process) => process.fetched_from(now),
            Self::Forgetting(_) => None,
        }
    }

    /// Takes another's checkpoint instead of what it has, if it can go on from it.
    pub fn restore(&mut self, newest: Option<Checkpoint>, here: &mut Here<'_>) {
        if let Self::Lasting(process) = self {
            process.restore(newest, here);
        }
    }

    /// It is stopped: all that was applied is on disk then.
    pub fn keep_last(&mut self, directory: &mut Directory) {
        each!(self, process => process.keep_last(directory));
    }

    /// It is killed: of what its disk owes it may have a part.
    pub fn crash(&mut self, directory: &mut Directory, rng: &mut Rng) {
        if let Self::Lasting(process) = self {
            process.crash(directory, rng);
        }
    }
}
