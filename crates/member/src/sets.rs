//! Who should be in the next view, who should not, and why.
use crate::HearingTable;
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId, Primary, View, ViewCause, ViewId, ViewKind};
use std::collections::{BTreeMap, BTreeSet};

type MemberSet = BTreeSet<MemberId>;

/// The sets of one gathering. They only grow until the next install; only then are they forgotten.
#[derive(Clone, Debug)]
pub struct Sets {
    /// Who was ever wanted in.
    pub proc: BTreeSet<MemberId>,
    /// Those of them that should be out.
    pub fail: BTreeSet<MemberId>,
    /// What set the gathering off.
    pub trigger: ViewCause,
    /// Why nodes were failed.
    pub reasons: BTreeMap<NodeId, Reason>,
}

/// The most members that are kept: all of them, wanted and failed, fit into one UDP datagram.
const SETS_MAX: usize = 3_000;

/// Why a node was failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It sent no JOIN that agrees.
    Silent,
    /// It said good-bye.
    Left,
    /// A later incarnation of it was heard.
    Restarted,
    /// It kept aru from moving, or commit tokens did not pass it.
    Deaf,
    /// It hears us or we hear it, but not both.
    OneWay,
    /// It failed us, or another said so.
    Apart,
    /// It was heard, but dropped: a later incarnation of it counts.
    Outdated,
}

/// What to gather with, beside the installed view's members.
#[derive(Clone, Debug)]
pub struct Why {
    /// What set the gathering off.
    pub trigger: ViewCause,
    /// Who should be in, too.
    pub add: BTreeSet<MemberId>,
    /// Who should be out.
    pub fail: Vec<(MemberId, Reason)>,
}

/// What one node has heard of the others lately.
#[derive(Clone, Copy, Debug)]
pub struct Hearsay<'a> {
    /// This node.
    pub me: NodeId,
    /// Whom it hears.
    pub heard: &'a HearingTable,
    /// When it is.
    pub now: Instant,
    /// Who was heard within this time is not silent.
    pub lately: Duration,
}

impl Hearsay<'_> {
    /// The incarnation in which a node speaks now, and the later one because of which it is not heard.
    fn outdated(&self, node: NodeId) -> Option<(MemberId, Incarnation)> {
        self.heard.outdated(node, self.now, self.lately)
    }
}

impl Why {
    /// A reason that names nobody yet.
    pub const fn new(trigger: ViewCause) -> Self {
        Self { trigger, add: BTreeSet::new(), fail: Vec::new() }
    }

    /// These should be in.
    pub fn adding(self, add: impl IntoIterator<Item = MemberId>) -> Self {
        Self { add: add.into_iter().collect(), ..self }
    }

    /// This one should be out.
    pub fn failing(mut self, member: MemberId, reason: Reason) -> Self {
        self.fail.push((member, reason));
        self
    }
}

impl Sets {
    /// Begins with the members of the installed view.
    pub fn new(me: MemberId, members: &[MemberId], trigger: ViewCause) -> Self {
        //= M10
        let mut proc: BTreeSet<_> = members.iter().copied().collect();
        proc.insert(me);
        Self { proc, fail: BTreeSet::new(), trigger, reasons: BTreeMap::new() }
    }

    /// Adds what a reason to gather brings; returns whether anything is new.
    pub fn take(&mut self, me: MemberId, why: &Why) -> bool {
        let mut news = false;
        for member in &why.add {
            news |= self.admit(me, *member);
        }
        for (member, reason) in &why.fail {
            news |= self.refuse(me, *member, *reason);
        }
        news
    }

    /// A member should be in. An earlier incarnation of the same node should then be out, but never this one for another that
    /// goes by its index.
    pub fn admit(&mut self, me: MemberId, member: MemberId) -> bool {
        //= M16
        if member.node == me.node && member > me || self.is_full() {
            return false;
        }
        let news = self.proc.insert(member);
        if news {
            let latest = if member.node == me.node { Some(me) } else { self.incarnations(member.node).max() };
            let earlier: Vec<_> =
                self.incarnations(member.node).filter(|incarnation| Some(*incarnation) != latest).collect();
            for incarnation in earlier {
                self.fail.insert(incarnation);
                self.reasons.insert(incarnation.node, Reason::Restarted);
            }
        }
        news
    }

    /// Whether more would not fit into a JOIN any more. So many incarnations no nodes have had: somebody makes them up.
    fn is_full(&self) -> bool {
        //= M10
        self.proc.len() >= SETS_MAX
    }

    fn incarnations(&self, node: NodeId) -> impl Iterator<Item = MemberId> {
        self.proc.iter().copied().filter(move |member| member.node == node)
    }

    /// A member should be out. Never this one.
    pub fn refuse(&mut self, me: MemberId, member: MemberId, reason: Reason) -> bool {
        //= M11
        let unknown = !self.proc.contains(&member);
        if member == me || self.fail.contains(&member) || unknown && self.is_full() {
            return false;
        }
        self.proc.insert(member);
        self.fail.insert(member);
        self.reasons.entry(member.node).or_insert(reason);
        true
    }

    /// Merges another's sets into these; returns whether anything is new.
    pub fn merge(&mut self, me: MemberId, from: MemberId, proc: &MemberSet, fail: &MemberSet) -> bool {
        //= M11
        let mut news = false;
        for member in proc {
            news |= self.admit(me, *member);
        }
        if fail.contains(&me) {
            return self.refuse(me, from, Reason::Apart) || news;
        }
        for member in fail {
            news |= self.refuse(me, *member, Reason::Apart);
        }
        news
    }

    /// The view that closes an old one for those that move on from it together.
    pub fn transitional(&self, old: ViewId, together: &[MemberId], primary: Primary) -> View {
        View {
            id: old,
            kind: ViewKind::Transitional,
            members: together.to_vec(),
            moved_together: together.to_vec(),
            primary,
            cause: self.trigger.clone(),
            evidence: Vec::new(),
            missed_primary: false,
        }
    }

    /// Whether `me` is in, all that are out were once in, and no node has two incarnations in.
    pub fn are_sound(&self, me: MemberId) -> bool {
        let candidates = self.candidates();
        let one_incarnation = candidates.is_sorted_by(|a, b| a.node < b.node);
        candidates.contains(&me) && self.fail.is_subset(&self.proc) && one_incarnation
    }

    /// Who would be in the ring: all that should be in and not out, by node.
    pub fn candidates(&self) -> Vec<MemberId> {
        self.proc.difference(&self.fail).copied().collect()
    }

    /// Whether a JOIN says nothing that these sets do not say.
    pub fn cover(&self, proc: &MemberSet, fail: &MemberSet) -> bool {
        proc.is_subset(&self.proc) && fail.is_subset(&self.fail)
    }

    /// Whether a JOIN says exactly what these sets say.
    pub fn equal(&self, proc: &MemberSet, fail: &MemberSet) -> bool {
        *proc == self.proc && *fail == self.fail
    }

    /// What can be told of the change to those that come along.
    pub fn evidence(&self, hearsay: &Hearsay<'_>, old: &[MemberId], new: &[MemberId]) -> Vec<ViewCause> {
        //= M56
        let gone: Vec<_> = old.iter().filter(|member| !new.contains(member)).map(|member| member.node).collect();
        let of = |reason| gone.iter().copied().filter(|node| self.reason(hearsay, *node) == reason).collect::<Vec<_>>();
        let silent = of(Reason::Silent);
        let heard = silent.iter().filter_map(|node| hearsay.heard.last_heard(*node)).max();
        let since = heard.map_or_else(Default::default, |at| hearsay.now.since(at));
        let joined: Vec<_> = new.iter().filter(|member| !old.contains(member)).map(|member| member.node).collect();
        let outdated: Vec<_> = of(Reason::Outdated).into_iter().filter_map(|node| hearsay.outdated(node)).collect();
        let causes = [
            (silent.is_empty(), ViewCause::Silent { nodes: silent, since }),
            (of(Reason::Left).is_empty(), ViewCause::Left { nodes: of(Reason::Left) }),
            (of(Reason::Restarted).is_empty(), ViewCause::Restarted { nodes: of(Reason::Restarted) }),
            (of(Reason::Deaf).is_empty(), ViewCause::Deaf { nodes: of(Reason::Deaf) }),
            (of(Reason::OneWay).is_empty(), ViewCause::OneWay { nodes: of(Reason::OneWay) }),
            (of(Reason::Apart).is_empty(), ViewCause::Apart { nodes: of(Reason::Apart) }),
            (outdated.is_empty(), ViewCause::Outdated { incarnations: outdated }),
            (joined.is_empty(), ViewCause::Merged { nodes: joined }),
        ];
        causes.into_iter().filter(|(nobody, _)| !nobody).map(|(_, cause)| cause).collect()
    }

    /// Why a node is missing. What others said is made more precise by what was heard here.
    fn reason(&self, hearsay: &Hearsay<'_>, node: NodeId) -> Reason {
        let Hearsay { me, heard, now, lately } = *hearsay;
        let told = self.reasons.get(&node).copied().unwrap_or(Reason::Apart);
        if !matches!(told, Reason::Apart | Reason::Silent) {
            return told;
        }
        if hearsay.outdated(node).is_some() {
            return Reason::Outdated;
        }
        let recent = heard.last_heard(node).is_some_and(|at| now.since(at) < lately);
        match (recent, heard.mutual(me, node, now)) {
            (false, _) => Reason::Silent,
            (true, false) => Reason::OneWay,
            (true, true) => Reason::Apart,
        }
    }
}
