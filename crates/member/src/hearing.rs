//! Who hears whom: a matrix put together from beacons.
//!
//! A ring is only worth forming among nodes that hear each other. Each beacon tells whom its sender hears; together they
//! tell, before anything is torn down, whether a larger ring would stand.
use consort_order::PeerReach;
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// The last that was heard of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// Which incarnation of it.
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
pub struct HearingTable {
    nodes: BTreeMap<NodeId, Hearing>,
    incarnations: BTreeMap<NodeId, LatestIncarnation>,
    fresh_for: Duration,
}

/// Which incarnation of a node counts.
#[derive(Clone, Copy, Debug)]
struct LatestIncarnation {
    latest: Incarnation,
    /// When it was heard last.
    at: Instant,
    /// An earlier one that was heard since, and when.
    outdated: Option<(Incarnation, Instant)>,
}

impl LatestIncarnation {
    const fn new(latest: Incarnation, at: Instant) -> Self {
        Self { latest, at, outdated: None }
    }
}

impl HearingTable {
    /// Forgets what was not heard again within `fresh_for`.
    pub fn new(fresh_for: Duration) -> Self {
        Self { fresh_for, ..Self::default() }
    }

    /// How long what was heard counts.
    pub const fn fresh_for(&self) -> Duration {
        self.fresh_for
    }

    /// Whether this is the latest incarnation heard of a node; notes that it, or that an earlier one, was heard. An
    /// incarnation that is not heard any more is forgotten when an earlier one is: it may never have been, and who
    /// speaks lives.
    pub fn is_latest(&mut self, member: MemberId, now: Instant) -> bool {
        //= M02
        //= M07
        let fresh_for = self.fresh_for;
        let known = self.incarnations.entry(member.node).or_insert(LatestIncarnation::new(member.incarnation, now));
        if member.incarnation >= known.latest || now.since(known.at) >= fresh_for {
            *known = LatestIncarnation::new(member.incarnation, now);
            return true;
        }
        known.outdated = Some((member.incarnation, now));
        false
    }

    /// The latest incarnation heard of a node, if any.
    pub fn latest(&self, node: NodeId) -> Option<MemberId> {
        Some(MemberId { node, incarnation: self.incarnations.get(&node)?.latest })
    }

    /// Who goes by this node's index in a later incarnation, if that was heard lately, from it or of it.
    pub fn twin(&self, me: MemberId, now: Instant) -> Option<MemberId> {
        let known = self.incarnations.get(&me.node).filter(|known| now.since(known.at) < self.fresh_for)?;
        Some(MemberId { incarnation: known.latest, ..me }).filter(|twin| *twin > me)
    }

    /// Others name this node in a later incarnation.
    pub fn note_named<'a>(&mut self, me: MemberId, members: impl IntoIterator<Item = &'a MemberId>, now: Instant) {
        //= M07
        for member in members.into_iter().filter(|member| member.node == me.node && **member > me) {
            self.is_latest(*member, now);
        }
    }

    /// What was heard of a node within this time though it does not count, and the incarnation that does.
    pub fn outdated(&self, node: NodeId, now: Instant, lately: Duration) -> Option<(MemberId, Incarnation)> {
        let known = self.incarnations.get(&node)?;
        let (incarnation, at) = known.outdated?;
        (now.since(at) < lately).then_some((MemberId { node, incarnation }, known.latest))
    }

    /// How a node is reached, for telling people.
    pub fn reach(&self, me: NodeId, node: NodeId, now: Instant) -> PeerReach {
        PeerReach {
            node,
            heard: self.last_heard(node).map(|at| now.since(at)),
            hears_us: self.mutual(me, node, now),
            quarantined: false,
            outdated: self.outdated(node, now, self.fresh_for).map(|(member, latest)| (member.incarnation, latest)),
        }
    }

    /// Notes all that a node told.
    pub fn note(&mut self, hearing: Hearing) {
        self.nodes.insert(hearing.member.node, hearing);
    }

    /// Notes whom a node said it hears, and that it was heard; keeps what else is known of this incarnation of it.
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
        if let Some(known) = self.incarnations.get_mut(&member.node).filter(|known| known.latest == member.incarnation)
        {
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

    fn heard(matrix: &[(u16, &[u16])]) -> HearingTable {
        let mut heard = HearingTable::new(Duration::from_millis(600));
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
    fn an_earlier_incarnation_is_known_as_such() {
        let mut heard = heard(&[]);
        assert!(heard.is_latest(MemberId::new(2, 7), NOW));
        assert!(!heard.is_latest(MemberId::new(2, 6), NOW));
        assert!(heard.is_latest(MemberId::new(2, 8), NOW));
        assert_eq!(heard.latest(NodeId(2)), Some(MemberId::new(2, 8)));
    }

    #[test]
    fn a_later_incarnation_counts_as_long_as_it_is_heard() {
        //= M07 test
        let (mut heard, lately) = (heard(&[]), Duration::from_millis(600));
        let (earlier, later) = (MemberId::new(2, 6), MemberId::new(2, 7));
        let at = |ms| NOW + Duration::from_millis(ms);
        assert!(heard.is_latest(later, NOW) && !heard.is_latest(earlier, at(599)));
        assert_eq!(heard.outdated(NodeId(2), at(600), lately), Some((earlier, later.incarnation)));
        heard.refresh(later, at(599));
        assert!(!heard.is_latest(earlier, at(1_198)), "any packet of it will do");
        assert!(heard.is_latest(earlier, at(1_199)));
        assert_eq!(heard.outdated(NodeId(2), at(1_199), lately), None);
        assert!(heard.is_latest(later, at(1_200)), "a later incarnation is believed at once");
    }

    /// Incarnations of one node begin in any order of numbers, some speak once, others go on; packets come late or never.
    #[test]
    fn who_alone_speaks_is_heard_and_of_two_that_speak_the_later() {
        //= M07 test
        for seed in 0..300 {
            let (mut rng, mut heard) = (consort_types::Rng::new(seed), heard(&[]));
            let mut spoke: BTreeMap<u64, u64> = BTreeMap::new();
            let mut speaker = 5;
            for ms in (0..60_000).step_by(200) {
                if rng.chance(0.01) {
                    speaker = rng.between(1, 9);
                }
                let late = rng.chance(0.02).then(|| rng.between(1, 9));
                for incarnation in [late, (!rng.chance(0.1)).then_some(speaker)].into_iter().flatten() {
                    let rival = spoke.iter().filter(|(other, at)| **other > incarnation && ms - **at < 600).count() > 0;
                    let heeded = heard.is_latest(MemberId::new(2, incarnation), Instant(ms * 1_000_000));
                    assert!(heeded || rival, "seed {seed}: {incarnation} alone spoke for three beacons, {ms}");
                    if heeded {
                        spoke.insert(incarnation, ms);
                    }
                }
            }
        }
    }
}
