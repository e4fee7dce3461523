//! What goes wrong.
use crate::Fence;
use consort::{GroupName, Refusal};
use std::sync::Arc;
use std::time::Duration;

/// Why something could not be done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no daemon to speak to.
    #[error("no addresses: name at least one daemon, better each of the cluster")]
    NoAddresses,
    /// The session has ended, and with it everything that stands on it.
    #[error("the session has ended: {0}")]
    Session(Arc<consort::Error>),
    /// The group takes no further member.
    #[error("cannot join `{group}`: {refusal}")]
    JoinRefused {
        /// Which.
        group: GroupName,
        /// Why.
        refusal: Refusal,
    },
    /// It took longer than was allowed.
    #[error("not within {within:?}")]
    TimedOut {
        /// How long it was waited.
        within: Duration,
    },
    /// This candidate does not lead.
    #[error("this candidate does not lead, or no more: what was decided under {fence:?} was not sent")]
    NotLeader {
        /// The fence that was given.
        fence: Fence,
    },
    /// The program did not take its events.
    #[error("the program did not take its events, and the session has ended")]
    Unread,
    /// The thread that holds the session is gone.
    #[error("the thread of the session is gone")]
    Gone,
    /// A number that makes no sense.
    #[error("{what} must be {least} to {most}, not {given}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// What was given.
        given: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl From<consort::Error> for Error {
    fn from(error: consort::Error) -> Self {
        Self::Session(Arc::new(error))
    }
}
