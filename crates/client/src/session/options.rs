//! How a session behaves.
use crate::ConnectOptions;
use consort_session::ProducerId;
use std::time::Duration;

/// How a [`Session`](crate::Session) behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// How each connection is made.
    pub connect: ConnectOptions,
    /// How many bytes of sends are kept whose fate is not known; who sends more waits. 4 MiB.
    pub unsettled_max: usize,
    /// How long no daemon may be reached before the session gives up. A minute.
    pub reconnect_within: Duration,
    /// Whose sends these are; a producer of its own if there is none. With one that sent before, the session goes on
    /// behind its last send, and whoever else still sends under it is stopped.
    pub producer: Option<ProducerId>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            unsettled_max: 4 << 20,
            reconnect_within: Duration::from_secs(60),
            producer: None,
        }
    }
}

impl SessionOptions {
    /// How each connection is made.
    #[must_use]
    pub fn connect(self, connect: ConnectOptions) -> Self {
        Self { connect, ..self }
    }

    /// How many bytes of sends are kept whose fate is not known.
    #[must_use]
    pub fn unsettled_max(self, bytes: usize) -> Self {
        Self { unsettled_max: bytes, ..self }
    }

    /// How long no daemon may be reached before the session gives up.
    #[must_use]
    pub fn reconnect_within(self, within: Duration) -> Self {
        Self { reconnect_within: within, ..self }
    }

    /// Whose sends these are.
    #[must_use]
    pub fn producer(self, producer: ProducerId) -> Self {
        Self { producer: Some(producer), ..self }
    }
}
