//! A session and its connection, of either kind, and what becomes of the session when that breaks.
use super::connection::{Broken, Connection};
use super::machine::SessionMachine;
use crate::{Error, Event};
use std::time::Instant;

/// A session, and the connection while there is one.
#[derive(Debug)]
pub(super) struct Roaming<C> {
    pub machine: SessionMachine,
    pub client: Option<C>,
}

impl<C: Connection> Roaming<C> {
    pub const fn new(machine: SessionMachine) -> Self {
        Self { machine, client: None }
    }

    /// The attempt to connect has come to its end.
    pub fn tried(&mut self, attempt: Result<C, Error>) -> Result<(), Error> {
        match attempt {
            Ok(client) => {
                self.client = Some(client);
                self.machine.connected();
                self.work()
            }
            Err(why) => self.machine.failed(why, Instant::now()),
        }
    }

    /// Asks and sends what is to be asked and sent, as far as there is credit.
    pub fn work(&mut self) -> Result<(), Error> {
        self.machine.origin.check()?;
        let Some(client) = &mut self.client else { return Ok(()) };
        let done = self.machine.work(client);
        self.heed(done).map(drop)
    }

    /// Takes this event and all others that were read.
    pub fn take_all(&mut self, first: Event) -> Result<(), Error> {
        let mut event = Some(first);
        while let Some(next) = event {
            let taken = self.machine.take(next);
            self.heed(taken)?;
            let Some(client) = &mut self.client else { return Ok(()) };
            let read = client.next_read();
            event = self.heed(read.map_err(Broken::from))?.flatten();
        }
        self.work()
    }

    /// Goes on without the connection where that is what broke.
    pub fn heed<T>(&mut self, done: Result<T, Broken>) -> Result<Option<T>, Error> {
        let heeded = match done {
            Ok(done) => Ok(Some(done)),
            Err(Broken::Connection(why)) => self.machine.lost(why, Instant::now()).map(|()| None),
            Err(Broken::Session(error)) => Err(error),
        };
        if !self.machine.is_up() {
            self.client = None;
        }
        heeded
    }
}
