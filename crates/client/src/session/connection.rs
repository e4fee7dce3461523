//! What a session asks of a connection, of either kind.
use crate::{Client, Error, Event, GroupName, ReadFrom, Service, Target};
use consort_session::OpenRequest;

/// What a session asks of a connection. Nothing here waits for an answer.
pub(super) trait Connection {
    fn open_producer(&mut self, open: &OpenRequest) -> Result<(), Error>;
    /// [`Error::WouldBlock`] or [`Error::TimedOut`] where there is no credit now; nothing was sent.
    fn try_join(&mut self, group: &GroupName, closed: bool) -> Result<u64, Error>;
    fn try_leave(&mut self, group: &GroupName) -> Result<u64, Error>;
    fn try_multicast(&mut self, service: Service, to: &[Target], payload: &[u8]) -> Result<u64, Error>;
    fn begin_reading(&mut self, groups: &[GroupName], from: &ReadFrom) -> Result<(), Error>;
    /// The next event of those that were read already.
    fn next_read(&mut self) -> Result<Option<Event>, Error>;
}

/// What an error ends.
#[derive(Debug)]
pub(super) enum Broken {
    Connection(Error),
    Session(Error),
}

/// What ends a connection does not end the session.
impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        match error {
            Error::ConnectionLost { .. } | Error::Disconnected { .. } | Error::NobodyReceives => {
                Self::Connection(error)
            }
            error => Self::Session(error),
        }
    }
}

impl Connection for Client {
    fn open_producer(&mut self, open: &OpenRequest) -> Result<(), Error> {
        written(self.open_producer(open))
    }

    fn try_join(&mut self, group: &GroupName, closed: bool) -> Result<u64, Error> {
        if closed { self.join_closed(group) } else { self.join(group) }
    }

    fn try_leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.leave(group)
    }

    fn try_multicast(&mut self, service: Service, to: &[Target], payload: &[u8]) -> Result<u64, Error> {
        self.try_multicast(service, to, payload)
    }

    fn begin_reading(&mut self, groups: &[GroupName], from: &ReadFrom) -> Result<(), Error> {
        written(self.read(groups, from.clone()))
    }

    fn next_read(&mut self) -> Result<Option<Event>, Error> {
        self.receive_buffered()
    }
}

/// What was collected is written with the next request at the latest.
fn written(asked: Result<(), Error>) -> Result<(), Error> {
    match asked {
        Err(Error::TimedOut { .. }) => Ok(()),
        asked => asked,
    }
}
