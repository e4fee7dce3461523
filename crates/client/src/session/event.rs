//! What a session tells its program.
use crate::{Address, Event, GroupName, Refusal, ViewPlace};
use consort_session::{HistoryPlace, OpeningWait};

/// What became of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is ordered, once, and stays so.
    Ordered {
        /// Where. Unknown where only a later send's place was learned, from another daemon: it stands before that.
        at: Option<HistoryPlace>,
    },
    /// It is not ordered, and never will be.
    Refused(Refusal),
    /// Nobody knows: it may be ordered or not. The daemons have forgotten this producer, because too many of them started
    /// anew at a time, or because it sent nothing for longer than they remember: `producers_for`, an hour.
    Forgotten,
}

/// What a [`Session`](crate::Session) receives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// What a client receives: messages, views.
    Event(Event),
    /// What became of one of its sends.
    Sent {
        /// Its number.
        send: u64,
        /// Its fate.
        fate: Fate,
    },
    /// A join was refused.
    JoinRefused {
        /// Of this group.
        group: GroupName,
        /// Why.
        refusal: Refusal,
    },
    /// It is connected, at first or again. Groups were joined again: messages between the loss and the group's next view
    /// are not received. What is read goes on where it was.
    Connected {
        /// Where.
        address: Address,
    },
    /// The connection was lost, or left for a daemon that may know what was read, or have what follows; others are tried.
    Lost {
        /// Why.
        why: String,
    },
    /// The daemon does not have what was sent to the groups that are read, from one place to another; that one is not
    /// included. It retains it no more, or was cut off when others ordered it. No other daemon that was asked has it, or
    /// lacks less. The reading goes on there.
    Gap {
        /// The first place that may be missing.
        from: ViewPlace,
        /// The first that is not.
        to: ViewPlace,
    },
    /// The daemon's history is another than the one that was read: behind a place that both have, or, where there is none, at
    /// all. No other daemon that was asked goes on either. What was read behind that place is not in it. The reading goes on
    /// there, or with the oldest that is retained: restore what follows from what was read.
    Parted {
        /// The first place that they have not in common. All that was read of its view before that, both have.
        common: Option<ViewPlace>,
    },
    /// Sends wait.
    Waits(OpeningWait),
    /// The session goes on with a producer that it was given: [`SessionOptions::producer`](crate::SessionOptions::producer).
    Resumed {
        /// How many sends of the producer are ordered, over all its sessions; nothing of earlier sessions is ordered any
        /// more. `None` if nobody knows of it: it sent nothing before, or it was forgotten.
        ordered: Option<u64>,
    },
}

impl SessionEvent {
    /// How many bytes it keeps.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Event(event) => event.weight(),
            _ => size_of::<Self>(),
        }
    }
}
