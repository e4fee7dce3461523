//! What a view changed, compared with the one before.
use super::{Notice, peers::Peers};
use crate::readiness::Unready;
use consort_types::{Duration, Instant, MemberId, NodeId, Primary, View, ViewId};

/// Starts and changes of the view take less: a node that is not ready for this time has another reason.
const UNREADY_FOR: Duration = Duration::from_secs(3);

/// What the log was told last, to tell only what is new.
#[derive(Debug, Default)]
pub(crate) struct LoggedState {
    pub peers: Peers,
    members: Vec<MemberId>,
    installed: Instant,
    primary: bool,
    trouble: Option<String>,
    readiness: LoggedReadiness,
}

/// Whether the node is ready, as it was logged last.
#[derive(Debug, Default)]
enum LoggedReadiness {
    /// It has yet to be asked.
    #[default]
    Begins,
    Ready,
    /// It is not ready, which was not logged.
    Lapses {
        since: Instant,
        was_ready: bool,
    },
    Unready(Unready),
}

impl LoggedState {
    /// A regular view was installed.
    pub fn install(&mut self, now: Instant, view: &View) -> Vec<Notice> {
        let before = std::mem::replace(&mut self.members, view.members.clone());
        self.installed = now;
        let told = Notice::View {
            id: view.id,
            members: view.members.clone(),
            joined: without(&view.members, &before),
            lost: without(&before, &view.members),
            primary: view.primary,
            cause: view.why(),
        };
        std::iter::once(told).chain(self.primary(view.id, view.primary)).collect()
    }

    /// What is known of the view's being primary. One that is likely to be, soon, has lost nothing yet.
    pub fn primary(&mut self, view: ViewId, primary: Primary) -> Option<Notice> {
        let gained = match primary {
            Primary::Yes => true,
            Primary::Pending => return None,
            Primary::No | Primary::NoPolicy => false,
        };
        let before = std::mem::replace(&mut self.primary, gained);
        (before != gained).then_some(Notice::Primary { view, gained })
    }

    /// What keeps the node from taking part now; returns whether that is news.
    pub fn note_trouble(&mut self, trouble: Option<&str>) -> bool {
        let is_news = self.trouble.as_deref() != trouble;
        self.trouble = trouble.map(str::to_owned);
        is_news
    }

    /// Whether the node is ready now; returns what is new. Starts and changes of the view take a moment, and are no news.
    pub fn note_readiness(&mut self, now: Instant, unready: Option<Unready>) -> Option<Notice> {
        use LoggedReadiness::{Begins, Lapses, Ready, Unready as Logged};
        match (unready, &self.readiness) {
            (None, Ready) => None,
            (None, Lapses { was_ready: true, .. }) => {
                self.readiness = Ready;
                None
            }
            (None, Begins | Lapses { .. } | Logged(_)) => {
                self.readiness = Ready;
                Some(Notice::Ready)
            }
            (Some(_), Begins | Ready) => {
                self.readiness = Lapses { since: now, was_ready: matches!(self.readiness, Ready) };
                None
            }
            (Some(_), Lapses { since, .. }) if now.since(*since) < UNREADY_FOR => None,
            (Some(reason), Logged(logged)) if *logged == reason => None,
            (Some(reason), Lapses { .. } | Logged(_)) => {
                self.readiness = Logged(reason.clone());
                Some(Notice::Unready { reason })
            }
        }
    }

    /// The daemons have told each other their groups.
    pub const fn settled(&self, now: Instant, view: ViewId) -> Notice {
        Notice::Settled { view, after: now.since(self.installed) }
    }
}

/// The nodes of those members that the others have not.
fn without(members: &[MemberId], others: &[MemberId]) -> Vec<NodeId> {
    members.iter().filter(|member| !others.contains(member)).map(|member| member.node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::{ViewCause, ViewKind};

    fn view(members: &[(u16, u64)], primary: Primary) -> View {
        View {
            id: ViewId::default(),
            kind: ViewKind::Regular,
            members: members.iter().map(|(node, incarnation)| MemberId::new(*node, *incarnation)).collect(),
            moved_together: Vec::new(),
            primary,
            cause: ViewCause::Started,
            evidence: Vec::new(),
            missed_primary: false,
        }
    }

    fn came_and_went(notices: &[Notice]) -> (Vec<u16>, Vec<u16>) {
        let Some(Notice::View { joined, lost, .. }) = notices.first() else { panic!("{notices:?}") };
        (joined.iter().map(|node| node.0).collect(), lost.iter().map(|node| node.0).collect())
    }

    #[test]
    fn who_came_and_who_went_is_told_also_of_one_that_did_both() {
        let mut log = LoggedState::default();
        let first = log.install(Instant::ZERO, &view(&[(1, 1), (2, 1), (3, 1)], Primary::Pending));
        assert_eq!(came_and_went(&first), (vec![1, 2, 3], vec![]));
        let second = log.install(Instant::ZERO, &view(&[(1, 1), (2, 2)], Primary::Pending));
        assert_eq!(came_and_went(&second), (vec![2], vec![2, 3]));
    }

    #[test]
    fn a_majority_that_changes_keeps_its_primary_without_a_word() {
        let mut log = LoggedState::default();
        assert_eq!(log.install(Instant::ZERO, &view(&[(1, 1)], Primary::Pending)).len(), 1);
        let gained = |gained| Some(Notice::Primary { view: ViewId::default(), gained });
        assert_eq!(log.primary(ViewId::default(), Primary::Yes), gained(true));
        assert_eq!(log.install(Instant::ZERO, &view(&[(1, 1), (2, 1)], Primary::Pending)).len(), 1);
        assert_eq!(log.primary(ViewId::default(), Primary::Yes), None);
        assert_eq!(log.install(Instant::ZERO, &view(&[(1, 1)], Primary::No)).pop(), gained(false));
    }
}
