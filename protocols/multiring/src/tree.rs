//! The rings of one view, and which nodes carry its messages from one into another.
//!
//! Members tell where they stand when a view is formed. A ring that has split is several rings of the view: one for each of its
//! configurations. Where there are several ways from one node to another, all members leave out the same ones. A node that stands
//! in a ring and does not carry there stands by: it takes part in the ring, and takes in nothing of the view by it.
use crate::key::RingNumber;
use consort_member::vs::Link;
use consort_types::{MemberId, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// More rings than this are not described: there are numbers left for parts of them.
pub const RINGS_MAX: usize = 127;

/// The rings of a view as one member sees them. They go by numbers of the view: a ring's own where it is in one piece.
#[derive(Clone, Debug)]
pub struct Tree {
    me: MemberId,
    rings: BTreeMap<RingNumber, TreeRing>,
    /// For each ring that this member stands in: the number it has in the view.
    own: BTreeMap<RingNumber, RingNumber>,
    /// For each ring by which messages come to this member: the rings that lie on its side, itself among them.
    beyond: BTreeMap<RingNumber, BTreeSet<RingNumber>>,
    /// Each member is reached from each other.
    connected: bool,
}

/// One ring of a view.
#[derive(Clone, Debug, Default)]
struct TreeRing {
    /// The members that stand in it.
    stand: BTreeSet<MemberId>,
    /// Those of them that the view's messages come to by it.
    carry: BTreeSet<MemberId>,
    /// Those that stand in it, as far as they are known to hear each other there by now.
    parts: Vec<BTreeSet<MemberId>>,
}

impl Tree {
    /// The rings of a view, by what its members have told.
    pub fn new(me: MemberId, members: &[MemberId], links: &[(MemberId, Link)]) -> Self {
        //= TM60
        let numbers = numbers(links);
        let (mut rings, mut own) = (BTreeMap::<_, TreeRing>::new(), BTreeMap::new());
        let mut stands: BTreeMap<MemberId, Vec<RingNumber>> = members.iter().map(|member| (*member, vec![])).collect();
        for (member, link) in links {
            let Some(number) = numbers.get(&(link.network, link.configuration)) else { continue };
            let Some(rings_of) = stands.get_mut(member) else { continue };
            rings_of.push(*number);
            rings.entry(*number).or_default().stand.insert(*member);
            if *member == me {
                own.insert(RingNumber(link.network), *number);
            }
        }
        let mut tree = Self { me, rings, own, beyond: BTreeMap::new(), connected: false };
        tree.grow(&stands);
        tree.rings.values_mut().for_each(|ring| ring.parts.push(ring.stand.clone()));
        let mine: Vec<_> = tree.carried_by(me).collect();
        tree.beyond = mine.iter().map(|ring| (*ring, tree.reached(*ring, &|member| member != me).0)).collect();
        let reached = tree.beyond.keys().flat_map(|ring| tree.reached(*ring, &|_| true).1);
        let reached: BTreeSet<_> = reached.chain([me]).collect();
        tree.connected = members.iter().all(|member| reached.contains(member));
        tree
    }

    /// Lets each member carry in its first ring, then in others, as long as that leads somewhere new.
    fn grow(&mut self, stands: &BTreeMap<MemberId, Vec<RingNumber>>) {
        //= TM61
        for (member, rings) in stands {
            if let Some(ring) = rings.first().and_then(|ring| self.rings.get_mut(ring)) {
                ring.carry.insert(*member);
            }
        }
        for (member, rings) in stands {
            for ring in rings.iter().skip(1) {
                let joined = rings.first().is_some_and(|first| self.reached(*first, &|_| true).0.contains(ring));
                if let Some(ring) = self.rings.get_mut(ring).filter(|_| !joined) {
                    ring.carry.insert(*member);
                }
            }
        }
    }

    /// Whether each member is reached from each other.
    pub const fn is_connected(&self) -> bool {
        self.connected
    }

    /// All rings, ascending.
    pub fn all(&self) -> BTreeSet<RingNumber> {
        self.rings.keys().copied().collect()
    }

    /// The number in the view of a ring that this member stands in.
    pub fn number_of(&self, own: RingNumber) -> Option<RingNumber> {
        self.own.get(&own).copied()
    }

    /// The same, where this member carries messages by it.
    pub fn carries_by(&self, own: RingNumber) -> Option<RingNumber> {
        self.number_of(own).filter(|ring| self.beyond.contains_key(ring))
    }

    /// The rings that this member carries in.
    pub fn carries_in(&self) -> impl Iterator<Item = RingNumber> {
        self.beyond.keys().copied()
    }

    /// Who stands in a ring.
    pub fn standing(&self, ring: RingNumber) -> Option<&BTreeSet<MemberId>> {
        self.rings.get(&ring).map(|ring| &ring.stand)
    }

    /// Who carries in a ring.
    pub fn carrying(&self, ring: RingNumber) -> Option<&BTreeSet<MemberId>> {
        self.rings.get(&ring).map(|ring| &ring.carry)
    }

    /// The rings that a member carries in.
    fn carried_by(&self, member: MemberId) -> impl Iterator<Item = RingNumber> {
        self.rings.iter().filter(move |(_, ring)| ring.carry.contains(&member)).map(|(ring, _)| *ring)
    }

    /// Whether a member sends on from one ring into another.
    pub fn is_gateway(&self, member: MemberId) -> bool {
        self.carried_by(member).nth(1).is_some()
    }

    /// The rings on the side of one that this member carries in, that ring among them.
    pub fn beyond(&self, ring: RingNumber) -> impl Iterator<Item = RingNumber> {
        self.beyond.get(&ring).into_iter().flatten().copied()
    }

    /// Whether a member lies on the side of one of this member's rings.
    pub fn is_beyond(&self, ring: RingNumber, member: MemberId) -> bool {
        let carries = |ring| self.carrying(ring).is_some_and(|carry| carry.contains(&member));
        member != self.me && self.beyond(ring).any(carries)
    }

    /// Who leads to a ring in which this member does not carry: a member of the own ring on whose side it lies.
    pub fn gateway_to(&self, ring: RingNumber) -> Option<MemberId> {
        let (own, _) = self.beyond.iter().find(|(own, rings)| **own != ring && rings.contains(&ring))?;
        let leads = |member: MemberId| {
            let mut others = self.carried_by(member).filter(|other| other != own);
            others.any(|other| self.reached(other, &|next| next != member).0.contains(&ring))
        };
        self.carrying(*own)?.iter().copied().find(|member| *member != self.me && leads(*member))
    }

    /// Whether this member stands in a ring by which no messages of the view come to it.
    pub fn stands_by(&self, own: RingNumber) -> bool {
        self.number_of(own).is_some() && self.carries_by(own).is_none()
    }

    /// The rings and members that are reached from a ring by those that carry there, going only by members that `goes` allows.
    fn reached(&self, from: RingNumber, goes: &dyn Fn(MemberId) -> bool) -> (BTreeSet<RingNumber>, BTreeSet<MemberId>) {
        let (mut rings, mut members, mut open) = (BTreeSet::from([from]), BTreeSet::new(), vec![from]);
        while let Some(ring) = open.pop() {
            for member in self.carrying(ring).into_iter().flatten().filter(|member| goes(**member)) {
                if members.insert(*member) {
                    open.extend(self.carried_by(*member).filter(|ring| rings.insert(*ring)));
                }
            }
        }
        (rings, members)
    }

    /// Some that stand in a ring are known to hear each other there, and none of the others.
    pub fn part(&mut self, ring: RingNumber, together: &BTreeSet<MemberId>) {
        //= TM33
        let Some(ring) = self.rings.get_mut(&ring) else { return };
        let together: BTreeSet<_> = ring.stand.intersection(together).copied().collect();
        ring.parts.iter_mut().for_each(|part| part.retain(|member| !together.contains(member)));
        ring.parts.retain(|part| !part.is_empty());
        ring.parts.push(together);
    }

    /// The members that this one reaches on any way, by all rings in which they stand.
    pub fn within_reach(&self) -> BTreeSet<MemberId> {
        //= TM33
        let (mut reached, mut open) = (BTreeSet::from([self.me]), vec![self.me]);
        while let Some(member) = open.pop() {
            let parts = self.rings.values().flat_map(|ring| &ring.parts).filter(|part| part.contains(&member));
            open.extend(parts.flatten().copied().filter(|other| reached.insert(*other)));
        }
        reached
    }

    /// Whether somebody stands in another ring, too.
    pub fn stands_elsewhere(&self, ring: RingNumber, member: MemberId) -> bool {
        self.rings.iter().any(|(other, nodes)| *other != ring && nodes.stand.contains(&member))
    }
}

/// The number in the view of each configuration that somebody told of: the ring's own for the first, free ones for others.
fn numbers(links: &[(MemberId, Link)]) -> BTreeMap<(u8, ViewId), RingNumber> {
    //= TM60
    let told: BTreeSet<_> = links.iter().map(|(_, link)| (link.network, link.configuration)).collect();
    let mut numbers = BTreeMap::new();
    let mut used: BTreeSet<u8> = told.iter().map(|(network, _)| *network).collect();
    let mut before = None;
    for (network, configuration) in told {
        let first = before != Some(network);
        before = Some(network);
        let free = || (1..=u8::MAX).rev().find(|number| !used.contains(number));
        let Some(number) = (if first { Some(network) } else { free() }) else { continue };
        used.insert(number);
        numbers.insert((network, configuration), RingNumber(number));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16) -> MemberId {
        MemberId::new(node, 1)
    }

    fn tree(me: u16, rings: &[(u8, u64, &[u16])]) -> Tree {
        let link =
            |network, number| Link { network, configuration: ViewId { number, representative: member(1) }, before: 0 };
        let each = rings
            .iter()
            .flat_map(|(ring, number, nodes)| nodes.iter().map(move |node| (member(*node), link(*ring, *number))));
        let mut links: Vec<_> = each.collect();
        links.sort_unstable_by_key(|(member, link)| (*member, link.network));
        let members: BTreeSet<_> = links.iter().map(|(member, _)| *member).collect();
        Tree::new(member(me), &members.into_iter().collect::<Vec<_>>(), &links)
    }

    fn standing_by(rings: &[(u8, u64, &[u16])], nodes: &[u16]) -> Vec<(u16, u8)> {
        let each = nodes.iter().flat_map(|node| {
            let tree = tree(*node, rings);
            assert!(tree.is_connected(), "n{node}");
            let own = tree.own.keys().copied().filter(|own| tree.stands_by(*own)).collect::<Vec<_>>();
            own.into_iter().map(move |own| (*node, own.0))
        });
        each.collect()
    }

    #[test]
    fn of_two_gateways_the_second_stands_by_and_all_say_so() {
        //= TM61 test
        let rings: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 2, 3]), (2, 6, &[2, 3, 4])];
        assert_eq!(standing_by(rings, &[1, 2, 3, 4]), [(3, 2)]);
        assert_eq!(tree(1, rings).gateway_to(RingNumber(2)), Some(member(2)));
        assert!(tree(4, rings).is_gateway(member(2)) && !tree(4, rings).is_gateway(member(3)));
    }

    #[test]
    fn a_loop_of_three_rings_is_cut_at_the_last_gateway() {
        //= TM61 test
        let rings: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 2, 3]), (2, 6, &[2, 4, 5]), (3, 7, &[3, 5, 6])];
        assert_eq!(standing_by(rings, &[1, 2, 3, 4, 5, 6]), [(5, 3)]);
        let without: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 3]), (2, 6, &[4, 5]), (3, 7, &[3, 5, 6])];
        assert_eq!(standing_by(without, &[1, 3, 4, 5, 6]), []);
    }

    #[test]
    fn a_ring_that_has_split_is_two() {
        //= TM60 test
        let rings: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 3]), (1, 6, &[2, 4]), (2, 7, &[3, 4, 5])];
        assert_eq!(standing_by(rings, &[1, 2, 3, 4, 5]), []);
        let two = tree(2, rings);
        assert_eq!(two.number_of(RingNumber(1)), Some(RingNumber(255)));
        assert_eq!(two.gateway_to(RingNumber(1)), Some(member(4)));
        let apart: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 3]), (1, 6, &[2, 4]), (2, 7, &[3, 5])];
        assert!(!tree(1, apart).is_connected() && !tree(4, apart).is_connected());
    }

    #[test]
    fn who_is_out_of_all_its_rings_is_out_of_reach() {
        //= TM33 test
        let rings: &[(u8, u64, &[u16])] = &[(1, 5, &[1, 2, 3]), (2, 6, &[2, 3, 4])];
        let reached = |parts: &[(u8, &[u16])]| {
            let mut one = tree(1, rings);
            parts
                .iter()
                .for_each(|(ring, part)| one.part(RingNumber(*ring), &part.iter().copied().map(member).collect()));
            one.within_reach().into_iter().map(|member| member.node.0).collect::<Vec<_>>()
        };
        assert_eq!(reached(&[(1, &[1, 3])]), [1, 2, 3, 4], "by ring 2");
        assert_eq!(reached(&[(1, &[1, 3]), (2, &[3, 4])]), [1, 3, 4]);
        assert_eq!(reached(&[(1, &[2]), (2, &[3, 4])]), [1, 3, 4], "whoever tells of it");
        assert_eq!(reached(&[(1, &[3]), (2, &[3])]), [1, 2, 4]);
        assert_eq!(reached(&[(1, &[1])]), [1]);
        assert_eq!(reached(&[(1, &[1]), (1, &[1, 2, 3])]), [1, 2, 3, 4], "it has come back");
    }
}
