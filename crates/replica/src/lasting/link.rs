//! The connection to a daemon, and the next daemon's where it breaks. What is sent has no number of a session: the log alone
//! says which commands count.
use consort::{Address, Client, ConnectOptions, Error};
use std::time::{Duration, Instant};

/// How long it waits before it tries the next daemon, at first and at most.
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// The daemons of a replica, and the connection while there is one.
#[derive(Debug)]
pub(crate) struct Link {
    addresses: Vec<Address>,
    options: ConnectOptions,
    /// How long no daemon may be reached before the replica ends.
    within: Duration,
    turn: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// `trying` is taken away once this daemon was of use.
    Up {
        client: Box<Client>,
        trying: Option<Trying>,
    },
    Down {
        next: Instant,
        trying: Trying,
        why: String,
    },
}

/// Since when no daemon was of use, and how long to wait before the next one.
#[derive(Clone, Copy, Debug)]
struct Trying {
    since: Instant,
    backoff: Duration,
}

impl Link {
    /// Without a connection yet.
    pub fn new(addresses: Vec<Address>, options: ConnectOptions, within: Duration) -> Self {
        let now = Instant::now();
        let trying = Trying { since: now, backoff: BACKOFF };
        let state = State::Down { next: now, trying, why: "none was tried yet".to_owned() };
        Self { addresses, options, within, turn: 0, state }
    }

    /// The connection, while there is one.
    pub fn client(&mut self) -> Option<&mut Client> {
        match &mut self.state {
            State::Up { client, .. } => Some(client),
            State::Down { .. } => None,
        }
    }

    /// The same to look at.
    pub const fn seen(&self) -> Option<&Client> {
        match &self.state {
            State::Up { client, .. } => Some(client),
            State::Down { .. } => None,
        }
    }

    /// The daemon does what it is there for.
    pub const fn is_of_use(&mut self) {
        if let State::Up { trying, .. } = &mut self.state {
            *trying = None;
        }
    }

    /// The connection is of no use any more. One that never was is as good as none.
    pub fn lose(&mut self, why: &Error, now: Instant) {
        if let State::Up { trying, .. } = self.state {
            self.turn += 1;
            let wait = trying.map_or(Duration::ZERO, |trying| trying.backoff);
            let fresh = Trying { since: now, backoff: BACKOFF };
            let trying =
                trying.map_or(fresh, |trying| Trying { backoff: (trying.backoff * 2).min(BACKOFF_MAX), ..trying });
            self.state = State::Down { next: now + wait, trying, why: why.to_string() };
        }
    }

    /// Why there is no connection.
    pub fn why(&self) -> Option<&str> {
        match &self.state {
            State::Up { .. } => None,
            State::Down { why, .. } => Some(why),
        }
    }

    /// How long until the next attempt; `None` while there is a connection.
    pub fn rests(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Up { .. } => None,
            State::Down { next, .. } => Some(next.saturating_duration_since(now)),
        }
    }

    /// Tries the next daemon if it is time; true if there is a new connection.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if none could be reached for as long as is allowed, and options that no daemon takes.
    pub fn connect(&mut self, now: Instant) -> Result<bool, Error> {
        let State::Down { next, trying, .. } = self.state else { return Ok(false) };
        if now < next {
            return Ok(false);
        }
        match Client::connect(&self.addresses[self.turn % self.addresses.len()], &self.options) {
            Ok(client) => {
                self.state = State::Up { client: Box::new(client), trying: Some(trying) };
                Ok(true)
            }
            Err(error @ Error::Option(_)) => Err(error),
            Err(error) if now.saturating_duration_since(trying.since) >= self.within => {
                Err(Error::Unreachable { within: self.within, last: Box::new(error) })
            }
            Err(error) => {
                self.turn += 1;
                // All are tried before it waits for longer.
                let is_round = self.turn.is_multiple_of(self.addresses.len());
                let backoff = if is_round { (trying.backoff * 2).min(BACKOFF_MAX) } else { trying.backoff };
                let next = Instant::now() + if is_round { backoff } else { Duration::ZERO };
                self.state = State::Down { next, trying: Trying { backoff, ..trying }, why: error.to_string() };
                Ok(false)
            }
        }
    }

    /// Ends it.
    pub fn close(self, within: Duration) {
        if let State::Up { client, .. } = self.state {
            let _ = client.close(within);
        }
    }
}
