//! Who hears whom: a matrix put together from beacons.
//!
//! A ring is only worth forming among nodes that hear each other. Each beacon tells whom its sender hears; together they
//! tell, before anything is torn down, whether a larger ring would stand.
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// The last that was heard of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// Which life of it.
    pub member: MemberId,
    /// When it was heard last.
    pub at: Instant,
    /// Whom it said it hears.
    pub hears: BTreeSet<NodeId>,
    /// The view it said it is in.
    pub view: ViewId,
    /// The members of that view.
    pub members: Vec<MemberId>,
    /// Which view its representative would like to merge with.
    pub wants: Option<ViewId>,
    /// Whether it said that it works in its view, and is not about to leave it.
    pub settled: bool,
}

/// Everything heard lately.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    nodes: BTreeMap<NodeId, Hearing>,
    latest: BTreeMap<NodeId, Incarnation>,
    fresh_for: Duration,
}

impl Heard {
    /// Forgets what was not heard again within `fresh_for`.
    pub fn new(fresh_for: Duration) -> Self {
        Self { fresh_for, ..Self::default() }
    }

    /// Whether this is the latest life heard of a node; notes it if it is.
    pub fn is_latest(&mut self, member: MemberId) -> bool {
        let latest = self.latest.entry(member.node).or_default();
        *latest = member.incarnation.max(*latest);
        *latest == member.incarnation
    }

    /// The latest life heard of a node, if any.
    pub fn latest(&self, node: NodeId) -> Option<MemberId> {
        Some(MemberId { node, incarnation: *self.latest.get(&node)? })
    }

    /// Notes all that a node told.
    pub fn note(&mut self, hearing: Hearing) {
        self.nodes.insert(hearing.member.node, hearing);
    }

    /// Notes whom a node said it hears, and that it was heard; keeps what else is known of this life of it.
    pub fn note_hears(&mut self, member: MemberId, at: Instant, hears: BTreeSet<NodeId>) {
        match self.nodes.get_mut(&member.node) {
            Some(known) if known.member == member => {
                known.at = at;
                known.hears = hears;
                known.settled = false;
            }
            _ => {
                let (view, members) = (ViewId::default(), Vec::new());
                self.note(Hearing { member, at, hears, view, members, wants: None, settled: false });
            }
        }
    }

    /// Notes that a known node was heard.
    pub fn refresh(&mut self, member: MemberId, at: Instant) {
        if let Some(known) = self.nodes.get_mut(&member.node).filter(|known| known.member == member) {
            known.at = at;
        }
    }

    /// What is known of a node that was heard lately.
    pub fn get(&self, node: NodeId, now: Instant) -> Option<&Hearing> {
        self.nodes.get(&node).filter(|hearing| now.since(hearing.at) < self.fresh_for)
    }

    /// All nodes heard lately.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = &Hearing> {
        self.nodes.values().filter(move |hearing| now.since(hearing.at) < self.fresh_for)
    }

    /// The indices of all nodes heard lately: what beacons carry.
    pub fn nodes(&self, now: Instant) -> Vec<NodeId> {
        self.iter(now).map(|hearing| hearing.member.node).collect()
    }

    /// When a node was heard last, if ever.
    pub fn last_heard(&self, node: NodeId) -> Option<Instant> {
        self.nodes.get(&node).map(|hearing| hearing.at)
    }

    /// Whether `me` and the node hear each other.
    pub fn mutual(&self, me: NodeId, node: NodeId, now: Instant) -> bool {
        node == me || self.get(node, now).is_some_and(|hearing| hearing.hears.contains(&me))
    }

    /// Whether all these nodes, `me` among them or not, hear each other pairwise as far as is known here.
    pub fn all_mutual(&self, me: NodeId, nodes: &BTreeSet<NodeId>, now: Instant) -> bool {
        let hears_all = |node: &NodeId| {
            *node == me && nodes.iter().all(|other| *other == me || self.get(*other, now).is_some())
                || self
                    .get(*node, now)
                    .is_some_and(|hearing| nodes.iter().all(|other| other == node || hearing.hears.contains(other)))
        };
        nodes.iter().all(hears_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000_000);

    fn heard(matrix: &[(u16, &[u16])]) -> Heard {
        let mut heard = Heard::new(Duration::from_millis(600));
        for (node, hears) in matrix {
            let member = MemberId::new(*node, 1);
            heard.note_hears(member, NOW, hears.iter().copied().map(NodeId).collect());
        }
        heard
    }

    fn nodes(list: &[u16]) -> BTreeSet<NodeId> {
        list.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn hearing_must_be_mutual_for_every_pair() {
        let whole = heard(&[(2, &[1, 3]), (3, &[1, 2])]);
        assert!(whole.all_mutual(NodeId(1), &nodes(&[1, 2, 3]), NOW));
        let one_way = heard(&[(2, &[1, 3]), (3, &[2])]);
        assert!(!one_way.all_mutual(NodeId(1), &nodes(&[1, 2, 3]), NOW), "3 does not hear 1");
        assert!(one_way.mutual(NodeId(1), NodeId(2), NOW) && !one_way.mutual(NodeId(1), NodeId(3), NOW));
        let cut = heard(&[(2, &[1]), (3, &[1])]);
        assert!(!cut.all_mutual(NodeId(1), &nodes(&[1, 2, 3]), NOW), "2 and 3 do not hear each other");
        assert!(cut.all_mutual(NodeId(1), &nodes(&[1, 2]), NOW));
    }

    #[test]
    fn what_is_not_heard_again_is_forgotten() {
        let heard = heard(&[(2, &[1])]);
        let later = NOW + Duration::from_millis(600);
        assert!(heard.mutual(NodeId(1), NodeId(2), NOW));
        assert!(!heard.mutual(NodeId(1), NodeId(2), later));
        assert_eq!((heard.nodes(later), heard.last_heard(NodeId(2))), (vec![], Some(NOW)));
    }

    #[test]
    fn an_earlier_life_is_known_as_such() {
        let mut heard = heard(&[]);
        assert!(heard.is_latest(MemberId::new(2, 7)));
        assert!(!heard.is_latest(MemberId::new(2, 6)));
        assert!(heard.is_latest(MemberId::new(2, 8)));
        assert_eq!(heard.latest(NodeId(2)), Some(MemberId::new(2, 8)));
    }
}
