//! What operators are to read in the log: events of the node, each with its fields.
//!
//! A driver takes them with [`Node::poll_notice`](crate::Node::poll_notice) and writes them; nothing else depends on them,
//! and a driver that never asks loses nothing but the log. No kind floods it: of each a second tells so many, and the next
//! one says how many were left out.
mod peers;
mod views;

pub use peers::PeerState;
pub(crate) use views::LoggedState;

use crate::readiness::Unready;
use crate::rotation::NotAdopted;
use consort_order::PeerReach;
use consort_session::listing::Transport;
use consort_session::{ClientName, Disconnect, DisconnectReason, Refusal, RefusalCause};
use consort_types::{
    ClientId, Duration, GroupName, Instant, MemberId, NodeId, OrderWait, Position, Primary, ViewCause, ViewId,
};
use std::collections::VecDeque;

/// How many of one kind are told in a [`WINDOW`].
pub const BURST: u32 = 20;
/// As long as more come than are passed on, each window is twice as long as the one before; at most so often.
const WINDOW: Duration = Duration::from_secs(1);
const DOUBLED_MOST: u32 = 6;
/// How many wait for a driver that does not ask.
const WAITING: usize = 256;

/// One event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A regular view was installed.
    View {
        /// Which.
        id: ViewId,
        /// All its members.
        members: Vec<MemberId>,
        /// Members that the view before had not.
        joined: Vec<NodeId>,
        /// Members of the view before that are missing.
        lost: Vec<NodeId>,
        /// Whether it is the primary one.
        primary: Primary,
        /// Why it came.
        cause: String,
    },
    /// The view is given up, and nothing is ordered until members have found each other.
    Interrupted {
        /// Why.
        cause: ViewCause,
        /// Members that are to be in the next view no more.
        out: Vec<MemberId>,
    },
    /// Whether this node is in the primary view has changed.
    Primary {
        /// The view it is in.
        view: ViewId,
        /// Whether that is primary now.
        gained: bool,
    },
    /// The daemons have told each other their groups: clients' messages flow in the view.
    Settled {
        /// Which view.
        view: ViewId,
        /// How long that took after its installation.
        after: Duration,
    },
    /// Another node is reached otherwise than before.
    Peer {
        /// How it is reached now, in one word.
        state: PeerState,
        /// The same with figures.
        reach: PeerReach,
    },
    /// Another daemon has other groups than this one at the same place of the order: a fault of the program.
    GroupMismatch {
        /// Whose.
        member: MemberId,
        /// After which message of the view.
        at: Position,
    },
    /// Something keeps this node from taking part until a person does something, or does so no more.
    Trouble {
        /// What, where, and the remedy; none where it is over.
        text: Option<String>,
    },
    /// A write that is given to this node would be ordered soon from now on.
    Ready,
    /// It would not be, and that has been so for a while.
    Unready {
        /// Why.
        reason: Unready,
    },
    /// Clients' requests have begun to wait for long, or for something else.
    Waiting {
        /// What for.
        cause: OrderWait,
    },
    /// They do not wait any more.
    Flowing,
    /// A client has said hello and was let in.
    Connected {
        /// Its connection.
        client: ClientId,
        /// What it is called.
        name: ClientName,
        /// What carries its connection.
        transport: Transport,
        /// Who it is, as far as that is known: what [`ClientIdentity`](crate::ClientIdentity) writes.
        identity: String,
    },
    /// A client has become a member of a group, or is none any more by a leave.
    Membership {
        /// Its connection.
        client: ClientId,
        /// Which group.
        group: GroupName,
        /// What happened.
        change: MembershipChange,
    },
    /// A client's connection has ended without a good-bye.
    Disconnected {
        /// Its connection.
        client: ClientId,
        /// What it was called, if it was let in.
        name: Option<ClientName>,
    },
    /// A client was sent away, or has said good-bye.
    Ended {
        /// Its connection.
        client: ClientId,
        /// What it was called, if it was let in.
        name: Option<ClientName>,
        /// Who it is, as far as that is known.
        identity: String,
        /// Why, for programs.
        reason: DisconnectReason,
        /// Why, for people.
        text: String,
    },
    /// A client does not read, and those who send to its groups wait for it.
    Holds {
        /// Its connection.
        client: ClientId,
        /// What it is called.
        name: Option<ClientName>,
        /// How many bytes wait for it.
        waiting: usize,
    },
    /// A client does not read, and what it is told goes to disk until it does.
    Spools {
        /// Its connection.
        client: ClientId,
        /// What it is called.
        name: Option<ClientName>,
    },
    /// All members of the view seal with another key from here on; with none, this node alone, before its first view.
    KeyAdopted {
        /// Its epoch.
        epoch: u16,
        /// How many members the view has.
        members: usize,
    },
    /// A key that was proposed was not adopted.
    KeyNotAdopted {
        /// Its epoch.
        epoch: u16,
        /// Why.
        why: NotAdopted,
    },
    /// A client's request was refused.
    Refused {
        /// Its connection.
        client: ClientId,
        /// Why, for programs.
        cause: RefusalCause,
        /// Why, for people.
        text: String,
    },
}

impl Notice {
    pub(crate) fn refused(client: ClientId, refusal: &Refusal) -> Self {
        Self::Refused { client, cause: refusal.cause, text: refusal.text.clone() }
    }

    pub(crate) fn ended(client: ClientId, name: Option<ClientName>, identity: String, farewell: &Disconnect) -> Self {
        Self::Ended { client, name, identity, reason: farewell.reason, text: farewell.text.clone() }
    }

    /// The kind whose events are counted together.
    const fn kind(&self) -> NoticeKind {
        match self {
            Self::View { .. }
            | Self::Interrupted { .. }
            | Self::Primary { .. }
            | Self::Settled { .. }
            | Self::Ready
            | Self::Unready { .. }
            | Self::GroupMismatch { .. } => NoticeKind::View,
            Self::Peer { .. } => NoticeKind::Peer,
            Self::Trouble { .. } => NoticeKind::Trouble,
            Self::Waiting { .. } | Self::Flowing => NoticeKind::Waiting,
            Self::Connected { .. } | Self::Disconnected { .. } => NoticeKind::Connection,
            Self::Ended { .. } => NoticeKind::Ended,
            Self::Holds { .. } | Self::Spools { .. } => NoticeKind::Slow,
            Self::Membership { .. } => NoticeKind::Membership,
            Self::Refused { .. } => NoticeKind::Refused,
            Self::KeyAdopted { .. } | Self::KeyNotAdopted { .. } => NoticeKind::Keys,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum NoticeKind {
    View,
    Peer,
    Trouble,
    Waiting,
    Connection,
    Ended,
    Slow,
    Refused,
    Membership,
    Keys,
}

impl NoticeKind {
    /// How many there are: the last one's number, and one.
    const COUNT: usize = Self::Keys as usize + 1;
}

/// How a client's membership has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// It has joined.
    Joined,
    /// It has left.
    Left,
    /// It was made to leave, for rules have changed.
    Expelled,
    /// It was made to leave, for it does not read.
    Demoted,
}

/// Notices that wait for the driver, and how many of each kind a second has told.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    now: Instant,
    windows: [NoticeWindow; NoticeKind::COUNT],
    waiting: VecDeque<(Notice, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NoticeWindow {
    since: Instant,
    told: u32,
    left_out: u64,
    /// How often it was doubled.
    doubled: u32,
}

impl NoticeWindow {
    /// Begins another one if this is over.
    fn turn(&mut self, now: Instant) {
        let age = now.since(self.since);
        if age < WINDOW * 2_u32.pow(self.doubled) {
            return;
        }
        let floods = self.told == BURST && self.left_out > 0;
        self.doubled = if floods { DOUBLED_MOST.min(self.doubled + 1) } else { 0 };
        (self.since, self.told) = (now, 0);
    }
}

impl Notices {
    /// It is now that late.
    pub const fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    /// What the time is.
    pub const fn now(&self) -> Instant {
        self.now
    }

    pub fn push(&mut self, notice: Notice) {
        let window = &mut self.windows[notice.kind() as usize];
        window.turn(self.now);
        if window.told == BURST || self.waiting.len() == WAITING {
            window.left_out += 1;
            return;
        }
        window.told += 1;
        self.waiting.push_back((notice, std::mem::take(&mut window.left_out)));
    }

    pub fn pop(&mut self) -> Option<(Notice, u64)> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn flowing(left_out: u64) -> Option<(Notice, u64)> {
        Some((Notice::Flowing, left_out))
    }

    #[test]
    fn a_kind_that_floods_is_cut_and_says_by_how_much() {
        let mut notices = Notices::default();
        (0..BURST + 7).for_each(|_| notices.push(Notice::Flowing));
        for _ in 0..BURST {
            assert_eq!(notices.pop(), flowing(0));
        }
        assert_eq!(notices.pop(), None);
        notices.begin(Instant::ZERO + WINDOW);
        notices.push(Notice::Flowing);
        notices.push(Notice::Flowing);
        assert_eq!((notices.pop(), notices.pop()), (flowing(7), flowing(0)));
    }

    #[test]
    fn a_flood_that_lasts_is_logged_less_and_less_often() {
        let mut notices = Notices::default();
        let mut lines = Vec::new();
        for ms in (0..600_000).step_by(10) {
            notices.begin(Instant::ZERO + Duration::from_millis(ms));
            notices.push(Notice::Flowing);
            while let Some((_, left_out)) = notices.pop() {
                lines.extend((left_out > 0).then_some(left_out));
            }
        }
        assert!((8..=20).contains(&lines.len()), "ten minutes of a flood take few lines: {lines:?}");
        assert_eq!(lines[0], 100 - u64::from(BURST));
        notices.begin(Instant::ZERO + Duration::from_secs(900));
        notices.push(Notice::Flowing);
        drop(notices.pop());
        notices.begin(Instant::ZERO + Duration::from_secs(1_000));
        notices.push(Notice::Flowing);
        assert_eq!(notices.windows[NoticeKind::Waiting as usize].doubled, 0, "it is over");
    }

    #[test]
    fn one_kind_does_not_take_another_s_share() {
        let mut notices = Notices::default();
        (0..=BURST).for_each(|_| notices.push(Notice::Flowing));
        notices.push(Notice::Primary { view: ViewId::default(), gained: true });
        assert_eq!(std::iter::from_fn(|| notices.pop()).last().map(|(_, left_out)| left_out), Some(0));
        assert_eq!(notices.windows[NoticeKind::Waiting as usize].left_out, 1);
    }

    #[test]
    fn a_driver_that_never_asks_costs_no_more_than_so_much_memory() {
        let mut notices = Notices::default();
        for second in 0..1_000 {
            notices.begin(Instant::ZERO + Duration::from_secs(second));
            notices.push(Notice::Flowing);
        }
        assert_eq!(notices.waiting.len(), WAITING);
    }
}
