//! What can go wrong.
use crate::tls::NoTls;
use crate::{Address, WaitCause};
use consort_session::client::NotSent;
use consort_session::{Disconnect, DisconnectReason, OpenRefusal, Refusal};
use std::ops::Range;
use std::time::Duration;

/// An option of [`ConnectOptions`](crate::ConnectOptions) that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {given:?}; give a time from {least:?} to {most:?}")]
pub struct OptionError {
    /// Which one.
    pub option: &'static str,
    /// What was given.
    pub given: Duration,
    /// The least there may be.
    pub least: Duration,
    /// The most there may be.
    pub most: Duration,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of range; nobody was connected to.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// No connection came about.
    #[error("cannot connect to {address}{}", because_of(source))]
    Connect {
        /// Where a daemon was looked for.
        address: Address,
        /// What the operating system says, or TLS.
        source: std::io::Error,
    },
    /// No token is shown to a daemon of another user: it may pose as the one that is meant.
    #[error(
        "no token is shown to the daemon at {address}: it runs as user {user}, which is neither this user nor root, nor the \
         only one who may write to the socket's directory"
    )]
    Untrusted {
        /// Where a daemon was looked for.
        address: Address,
        /// The user it runs as.
        user: u32,
    },
    /// Something answers there, but not as a daemon does.
    #[error("{address} does not answer like a Consort daemon: {why}")]
    NoDaemon {
        /// Where a daemon was looked for.
        address: Address,
        /// What it did.
        why: String,
    },
    /// The daemon let nobody in.
    #[error("the daemon refused the session: {0}")]
    NotWelcome(Disconnect),
    /// Too many bytes are under way for this one to follow now. Nothing was sent; no number was used.
    #[error(
        "{needs} bytes of credit are needed, {free} are free until earlier sends are ordered ({cause}: {})",
        cause.explain()
    )]
    WouldBlock {
        /// How many bytes it takes.
        needs: usize,
        /// How many are free.
        free: usize,
        /// What those under way wait for.
        cause: WaitCause,
    },
    /// The time allowed was not enough. A send that was waited with was not sent; no number was used.
    #[error("the time allowed was not enough{}", because(*cause))]
    TimedOut {
        /// What sends under way wait for. A send always says one; other calls, where the daemon has named one.
        cause: Option<WaitCause>,
    },
    /// Larger than this cluster allows. Nothing was sent; no number was used.
    #[error("a message of {len} bytes; this cluster allows {max}")]
    TooLarge {
        /// The payload's length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// To no group, or to more than one multicast may name. Nothing was sent; no number was used.
    #[error("a message to {count} groups; name 1 to {max}")]
    Targets {
        /// How many were named.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A value cannot be sent. Nothing was sent; no number was used.
    #[cfg(feature = "serde")]
    #[error(transparent)]
    Typed(#[from] crate::TypedError),
    /// A reading of no group, or of more than one may name. Nothing was sent.
    #[error("a reading of {count} groups; name 1 to {max}")]
    Groups {
        /// How many were named.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// So many events wait to be received that no more are read to make room for sending. Call
    /// [`Client::receive`](crate::Client::receive), or split the client.
    #[error("{bytes} bytes of events wait to be received; receive them before sending more")]
    Unread {
        /// How many bytes wait.
        bytes: usize,
    },
    /// The receiver was dropped, so nobody hears of free credit.
    #[error("the receiver was dropped; nothing more can be sent once the credit is used up")]
    NobodyReceives,
    /// Another session sends as this one's producer. What was not settled may be ordered, and is known to that one.
    #[error("another session sends as this one's producer; nothing more is sent here")]
    TakenOver,
    /// No daemon lets this session send exactly once.
    #[error("the daemons cannot keep account of what this session sends: {0}")]
    NotOpened(OpenRefusal),
    /// The daemon is leaving and takes no more. Others are asked; a session names this as the reason for which it left a
    /// daemon.
    #[error("the daemon is leaving and takes no more: {0}")]
    Leaving(Refusal),
    /// The daemon was not there when what was read was ordered, so it cannot go on with that. Others are asked; a session
    /// tells this as the reason for which it left a daemon.
    #[error("the daemon was not there when what was read was ordered; others are asked")]
    OtherHistory,
    /// The daemon lacks what follows behind what was read. Others are asked; a session tells this as the reason for which
    /// it left a daemon.
    #[error("the daemon lacks what follows behind what was read; others are asked")]
    Lacking,
    /// The client was made in another process, which has forked this one. It is that one's: here nothing is sent or received,
    /// and nothing ends by it.
    #[error("this client was made in process {process}; make one in each process after fork()")]
    Forked {
        /// The process id of the one that made it.
        process: u32,
    },
    /// No daemon could be reached for as long as was allowed.
    #[error("no daemon could be reached within {:?}: {last}", within)]
    Unreachable {
        /// For how long it was tried.
        within: std::time::Duration,
        /// What the last attempt met with.
        last: Box<Error>,
    },
    /// The connection to the daemon broke.
    #[error("the connection to the daemon was lost ({why}); {}", describe(unknown_fate))]
    ConnectionLost {
        /// What was seen of it.
        why: String,
        /// The numbers of the sends that may be ordered still, or never: all that the daemon had not said to be
        /// ordered. Empty if there are none.
        unknown_fate: Range<u64>,
    },
    /// The daemon ended the session and said why.
    #[error("the daemon ended the session: {farewell}; {}", describe(unknown_fate))]
    Disconnected {
        /// Why.
        farewell: Disconnect,
        /// As with [`Self::ConnectionLost`].
        unknown_fate: Range<u64>,
    },
}

impl Error {
    /// The sends whose fate this error leaves unknown, where it ends the session.
    pub const fn unknown_fate(&self) -> Option<&Range<u64>> {
        match self {
            Self::ConnectionLost { unknown_fate, .. } | Self::Disconnected { unknown_fate, .. } => Some(unknown_fate),
            _ => None,
        }
    }

    /// Whether a connection came about, but no TLS over it.
    pub fn is_of_tls(&self) -> bool {
        matches!(self, Self::Connect { source, .. } if NoTls::is_why(source))
    }
}

fn because_of(source: &std::io::Error) -> String {
    match NoTls::is_why(source) {
        true => format!(" by TLS: {source}"),
        false => format!(": {source}; is a daemon running there?"),
    }
}

fn describe(unknown: &Range<u64>) -> String {
    match unknown.end.saturating_sub(unknown.start) {
        0 => "there is no send of unknown fate".to_owned(),
        1 => format!("the fate of send {} is unknown", unknown.start),
        _ => format!("the fate of sends {} to {} is unknown", unknown.start, unknown.end - 1),
    }
}

fn because(cause: Option<WaitCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(" ({cause}: {})", cause.explain()))
}

impl Error {
    /// Whether a daemon that knows no heartbeats says so to a client that wants them.
    pub(crate) fn is_of_an_earlier_release(&self) -> bool {
        matches!(self, Self::NotWelcome(farewell) if farewell.reason == DisconnectReason::Malformed)
    }

    /// The same for a send, which waits for its own credit if for nothing else.
    pub(crate) fn of_send(self) -> Self {
        match self {
            Self::TimedOut { cause: None } => Self::TimedOut { cause: Some(WaitCause::Budget) },
            other => other,
        }
    }

    /// Why a request was not sent while others wait for `cause`.
    pub(crate) fn not_sent(why: NotSent, cause: WaitCause) -> Self {
        match why {
            NotSent::Credit { needs, free } => Self::WouldBlock { needs, free, cause },
            NotSent::TooLarge { len, max } => Self::TooLarge { len, max },
            NotSent::Targets { count, max } => Self::Targets { count, max },
            NotSent::NotOpen => Self::ConnectionLost { why: why.to_string(), unknown_fate: 1..1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_is_said_in_words() {
        let lost = |unknown_fate| Error::ConnectionLost { why: "end of stream".into(), unknown_fate }.to_string();
        assert!(lost(4..4).ends_with("(end of stream); there is no send of unknown fate"));
        assert!(lost(4..5).ends_with("the fate of send 4 is unknown"));
        assert!(lost(4..9).ends_with("the fate of sends 4 to 8 is unknown"));
    }

    #[test]
    fn what_waits_says_what_for() {
        let blocked = Error::WouldBlock { needs: 9, free: 2, cause: WaitCause::Window }.to_string();
        assert!(blocked.ends_with("are ordered (window: the daemons are offered more than they carry)"), "{blocked}");
        let late = |cause| Error::TimedOut { cause }.to_string();
        assert_eq!(late(None), "the time allowed was not enough");
        let slow = late(Some(WaitCause::Slow(crate::NodeId(3))));
        assert!(slow.ends_with("enough (slow:n3: all wait for daemon n3, which lags behind)"), "{slow}");
    }
}
