//! Why a request was not taken, and why a session ends.
use consort_wire::Malformed;
use std::fmt;

macro_rules! codes_of {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $code,)* }

        impl $name {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The one with this number on the wire.
            pub const fn from_wire(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in metrics, status and documents.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use codes_of as codes;

codes! {
    /// What kind of refusal.
    RefusalCause {
        /// More bytes under way than the credit allows.
        Budget = 1 "budget",
        /// Larger than this cluster allows.
        TooLarge = 2 "too_large",
        /// More groups than one multicast may name.
        TooManyTargets = 3 "too_many_targets",
        /// The daemon is leaving and takes no more.
        Leaving = 4 "leaving",
        /// The daemon's ordering protocol has no place for it.
        Unsupported = 5 "unsupported",
        /// A join of a group the client is in.
        AlreadyMember = 6 "already_member",
        /// A leave of a group the client is not in.
        NotMember = 7 "not_member",
        /// The client is in as many groups as it may be.
        TooManyGroups = 8 "too_many_groups",
        /// The message names a closed group that the client is not in.
        Closed = 9 "closed",
        /// All groups together take as much memory as they may.
        GroupsFull = 10 "groups_full",
        /// A Spread client among the receivers could not be told the message.
        NotRepresentable = 11 "not_representable",
        /// A producer's message in a part of the network that does not count for producers.
        NotPrimary = 12 "not_primary",
        /// A producer's message that does not follow its last one.
        Missing = 13 "missing",
        /// A producer's message after it was opened elsewhere.
        Fenced = 14 "fenced",
        /// A message of a producer that is not known any more.
        Forgotten = 15 "forgotten",
        /// The rules do not let the client do it.
        Denied = 16 "denied",
        /// The client does not read, and was made to leave the group.
        Demoted = 17 "demoted",
        /// A message to groups of rings that no ring covers together.
        AcrossRings = 18 "across_rings",
    }
}

codes! {
    /// Why a producer cannot be opened.
    OpenRefusalCause {
        /// No policy says which part of a parted network goes on.
        NoPolicy = 1 "no_policy",
        /// As many producers are known as there may be.
        Full = 2 "full",
        /// The daemon is leaving.
        Leaving = 3 "leaving",
        /// The session has opened it since, over another connection, or another session has claimed it.
        Fenced = 4 "fenced",
    }
}

codes! {
    /// Why there is no reading by position, or none any more.
    ReadingEndCause {
        /// What was asked for is not retained any more.
        Trimmed = 1 "trimmed",
        /// The order does not reach that far.
        BeyondEnd = 2 "beyond_end",
        /// The daemon's ordering protocol retains nothing.
        Unsupported = 3 "unsupported",
        /// A closed group that the client is not in.
        Closed = 4 "closed",
        /// What no group can be called.
        BadGroup = 5 "bad_group",
        /// The position belongs to another order than the daemon's.
        OtherOrder = 6 "other_order",
        /// The client ended it, or began another.
        Ended = 7 "ended",
        /// The daemon's history is another than the one that was read.
        Parted = 8 "parted",
        /// The rules do not let the client receive what is sent to a group.
        Denied = 9 "denied",
    }
}

codes! {
    /// Why a checkpoint was not declared.
    DeclareRefusalCause {
        /// There are as many holders as there may be.
        Full = 1 "full",
        /// The daemon's ordering protocol retains nothing for holders.
        Unsupported = 2 "unsupported",
        /// The position belongs to another order than the daemon's.
        OtherOrder = 3 "other_order",
        /// As many wait at the daemon as may.
        TooMany = 4 "too_many",
        /// The copy is bound again since, was withdrawn, or was never bound.
        Superseded = 5 "superseded",
        /// The rules do not let the client keep the log for that program.
        Denied = 6 "denied",
    }
}

codes! {
    /// Why a copy of a program was not bound.
    BindRefusalCause {
        /// The daemons keep no order that lasts.
        Unsupported = 1 "unsupported",
        /// The position belongs to another order than the daemon's.
        OtherOrder = 2 "other_order",
        /// The copy has another epoch than the one that was to be replaced.
        Superseded = 3 "superseded",
        /// All copies of the program are bound, another number of copies was given, or none where none is known.
        SeatsTaken = 4 "seats_taken",
        /// The order knows as many holders and copies as it can.
        Full = 5 "full",
        /// As many wait at the daemon as may.
        TooMany = 6 "too_many",
        /// The rules do not let the client bind copies of that program.
        Denied = 7 "denied",
    }
}

codes! {
    /// Why the next key was not adopted.
    RotationRefusalCause {
        /// The client is not of the daemon's own user, nor root's, at the daemon's Unix socket.
        NotAllowed = 1 "not_allowed",
        /// Datagrams are not sealed.
        Plain = 2 "plain",
        /// The daemon's key file has no newer key.
        NothingNewer = 3 "nothing_newer",
        /// The view is changing, or changed meanwhile: ask again.
        ViewChanged = 4 "view_changed",
        /// No majority of the configured nodes is here.
        Minority = 5 "minority",
        /// Another key is being proposed: ask again.
        Busy = 6 "busy",
        /// A member lacks the key.
        Lacks = 7 "lacks",
        /// A member has another key of that epoch.
        Differs = 8 "differs",
        /// A member uses a newer key.
        Superseded = 9 "superseded",
    }
}

codes! {
    /// What kind of end.
    DisconnectReason {
        /// The client said good-bye.
        Goodbye = 1 "goodbye",
        /// The client sent what is no frame of this protocol.
        Malformed = 2 "malformed",
        /// The client speaks another version.
        Version = 3 "version",
        /// The connection did not complete its hello, or a frame that it had begun, in time.
        Silent = 4 "silent",
        /// The client did not read what was waiting for it.
        Slow = 5 "slow",
        /// The daemon stops.
        Stopping = 6 "stopping",
        /// Another client of this daemon is called so.
        NameTaken = 7 "name_taken",
        /// The client's user may not use this daemon.
        NotAllowed = 8 "not_allowed",
        /// The daemon has as many clients as it may have.
        TooManyClients = 9 "too_many_clients",
        /// The daemon cannot go on as the member that it was, and starts anew: the others have let go of what it missed.
        Restarting = 10 "restarting",
        /// What was to be kept on disk for the client until it reads could not be kept there.
        SpoolFailed = 11 "spool_failed",
        /// The rules do not let the client be called so, or have one more connection.
        Denied = 12 "denied",
        /// The client has to prove who it is, by a token or a certificate, and has not.
        Unproven = 13 "unproven",
        /// What the client showed is no token.
        TokenMalformed = 14 "token_malformed",
        /// The client's token was not given out here, or not any more.
        TokenUnknown = 15 "token_unknown",
        /// The client's token is too old.
        TokenExpired = 16 "token_expired",
    }
}

/// Why one numbered request was not taken. It changed nothing and will never be ordered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// For programs.
    pub cause: RefusalCause,
    /// For people.
    pub text: String,
}

impl Refusal {
    /// A refusal in these words.
    pub fn new(cause: RefusalCause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }
}

/// Why a daemon ends a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Disconnect {
    /// For programs.
    pub reason: DisconnectReason,
    /// For people.
    pub text: String,
}

impl Disconnect {
    /// An end in these words.
    pub fn new(parting: DisconnectReason, text: impl Into<String>) -> Self {
        Self { reason: parting, text: text.into() }
    }

    /// The end of a client whose frame number `frame` (from 1) cannot be read.
    pub(crate) fn malformed(error: Malformed, frame: u64) -> Self {
        let Malformed { what, at } = error;
        Self::new(DisconnectReason::Malformed, format!("malformed {what} at byte {at} of frame {frame}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_has_a_name_of_its_own() {
        assert!(RefusalCause::ALL.iter().all(|cause| RefusalCause::from_wire(*cause as u8) == Some(*cause)));
        assert!(
            DisconnectReason::ALL.iter().all(|parting| DisconnectReason::from_wire(*parting as u8) == Some(*parting))
        );
        assert_eq!((RefusalCause::from_wire(0), DisconnectReason::from_wire(99)), (None, None));
        let mut names: Vec<_> = RefusalCause::ALL.iter().map(|cause| cause.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RefusalCause::ALL.len());
    }
}
