//! What a candidate is told.
use crate::{CandidateId, Error, Fence, LostCause, Notice};
use consort::{ClientId, Member, NodeId, OpeningWait};
use consort_types::Instant;

/// What a candidate is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeadershipEvent {
    /// It leads: until the lease ends, or longer, as it is renewed without a word. Ask [`Leadership::lease`](crate::Leadership::lease) before each act.
    Elected {
        /// Greater than that of every leader before.
        fence: Fence,
        /// When the lease ends, in the time of `CLOCK_BOOTTIME`.
        lease_until: Instant,
    },
    /// It leads no more.
    Lost {
        /// Under which fence it led.
        fence: Fence,
        /// Why.
        cause: LostCause,
    },
    /// Who leads, as far as the order has been received; it may be this candidate.
    Leader {
        /// Who.
        candidate: CandidateId,
        /// Its fence.
        fence: Fence,
    },
    /// The leader resigned.
    NoLeader,
    /// A candidate of the group said something: [`say`](crate::Leadership::say) and [`decide`](crate::Leadership::decide).
    Said {
        /// Who.
        candidate: CandidateId,
        /// As which client of which daemon.
        sender: (NodeId, ClientId),
        /// Its fence, if it said so as the leader. What an earlier leader decided too late is told nobody.
        fence: Option<Fence>,
        /// Where it stands: greater for what stands later.
        place: Fence,
        /// What.
        payload: Vec<u8>,
    },
    /// These clients are in the group now: who is not listed has left, or is cut off.
    Members(Vec<Member>),
    /// Nobody can be elected now.
    Waits(OpeningWait),
    /// The connection was lost; another daemon is tried.
    Disconnected {
        /// Why.
        why: String,
    },
    /// The session has ended; nothing follows.
    Ended(Error),
}

impl From<Notice> for LeadershipEvent {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Elected { fence, until } => Self::Elected { fence, lease_until: until },
            Notice::Lost { fence, cause } => Self::Lost { fence, cause },
            Notice::Leader { candidate, fence } => Self::Leader { candidate, fence },
            Notice::NoLeader => Self::NoLeader,
        }
    }
}
