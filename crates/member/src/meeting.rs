//! What a view that works makes of others: of whoever asks for another view, and of other views that it could merge with.
use crate::{Hearing, Presence, Proposal, Reason, Why};
use consort_types::{Instant, MemberId, NodeId, View, ViewCause};
use std::collections::BTreeSet;

/// What a JOIN means to a member of a view that works.
#[derive(Clone, Debug)]
pub enum Summons {
    /// Nothing: it is late, or a good-bye of somebody else.
    Late,
    /// A member of the view lists this one as failed.
    Unwanted,
    /// It comes from a stranger that may not tear the view down.
    Unheeded,
    /// The view is over: gather.
    Gather(Why),
}

/// What came of looking for other views.
#[derive(Clone, Debug)]
pub struct Encounter {
    /// Whether this view wants another one than before: the others should learn of it soon.
    pub news: bool,
    /// Why to gather, if both want each other and this one is the lower.
    pub why: Option<Why>,
}

impl Presence {
    /// Somebody asks for another view than the one that works here.
    pub fn summons(&self, now: Instant, view: &View, from: MemberId, join: &Proposal) -> Summons {
        //= M11
        match incarnation_in(view, from.node) {
            Some(member) if member == from => called_by_member(view, self.me, from, join),
            Some(earlier) if from.incarnation > earlier.incarnation && !join.leave => {
                //= M16
                let trigger = ViewCause::Restarted { nodes: vec![from.node] };
                Summons::Gather(Why::new(trigger).adding([from]).failing(earlier, Reason::Restarted))
            }
            _ if join.leave => Summons::Late,
            _ if self.heeds_stranger(now, view, from, join) => Summons::Gather(stranger_wants(view, join)),
            _ => Summons::Unheeded,
        }
    }

    /// Whether a stranger may tear this view down: only if it, and all it brings, and all members hear each other, and it
    /// wants none of them out.
    fn heeds_stranger(&self, now: Instant, view: &View, from: MemberId, join: &Proposal) -> bool {
        //= M17
        let brought = join.proc.difference(&join.fail).copied().chain([from]);
        let mut nodes: BTreeSet<NodeId> = view.members.iter().map(|member| member.node).collect();
        for member in brought {
            let stale = incarnation_in(view, member.node).is_some_and(|known| known != member);
            if stale || self.quarantine.holds(member.node, now) {
                return false;
            }
            nodes.insert(member.node);
        }
        let wants_all = view.members.iter().all(|member| !join.fail.contains(member));
        wants_all && self.heard.all_mutual(self.me.node, &nodes, now)
    }

    /// At the representative: a beacon of another view came, perhaps there is one to merge with.
    pub fn meet(&mut self, now: Instant, view: &View) -> Encounter {
        //= M51
        let willing = self.views_to_merge(now, view);
        let best = willing.first().map(|hearing| hearing.view);
        let agreed = willing.iter().filter(|other| other.member > self.me && other.wants == Some(view.id));
        let strangers: Vec<_> = agreed.flat_map(|other| other.members.iter().copied()).collect();
        let trigger = ViewCause::Merged { nodes: strangers.iter().map(|member| member.node).collect() };
        let why = (!strangers.is_empty()).then(|| Why::new(trigger).adding(strangers));
        let news = self.wants != best;
        self.wants = best;
        Encounter { news, why }
    }

    /// The representatives of the settled views with whose members all members hear each other, lowest first.
    fn views_to_merge(&self, now: Instant, view: &View) -> Vec<&Hearing> {
        //= M51
        let mine: BTreeSet<NodeId> = view.members.iter().map(|member| member.node).collect();
        let leads = |hearing: &&Hearing| {
            hearing.settled && hearing.view != view.id && hearing.view.representative == hearing.member
        };
        let fits = self.heard.iter(now).filter(leads).filter(|hearing| self.is_mergeable(now, &mine, hearing));
        let mut views: Vec<_> = fits.collect();
        views.sort_by_key(|hearing| hearing.member);
        views
    }

    fn is_mergeable(&self, now: Instant, mine: &BTreeSet<NodeId>, hearing: &Hearing) -> bool {
        let there = |member: &MemberId| {
            self.heard.get(member.node, now).is_some_and(|known| known.member == *member && known.view == hearing.view)
        };
        let free = |member: &MemberId| !self.quarantine.holds(member.node, now) && !mine.contains(&member.node);
        let all: BTreeSet<_> = mine.iter().copied().chain(hearing.members.iter().map(|member| member.node)).collect();
        hearing.members.iter().all(|member| there(member) && free(member))
            && self.heard.all_mutual(self.me.node, &all, now)
    }

    /// While gathering: a stranger is let in if it hears this node, and is not in quarantine.
    pub(crate) fn admits(&self, now: Instant, from: MemberId, join: &Proposal) -> bool {
        //= M17
        join.heard.contains(&self.me.node) && !join.fail.contains(&self.me) && !self.quarantine.holds(from.node, now)
    }
}

fn called_by_member(view: &View, me: MemberId, from: MemberId, join: &Proposal) -> Summons {
    //= M11
    if join.leave {
        //= M15
        return Summons::Gather(Why::new(ViewCause::Left { nodes: vec![from.node] }).failing(from, Reason::Left));
    }
    if join.number < view.id.number {
        return Summons::Late;
    }
    if join.fail.contains(&me) {
        return Summons::Unwanted;
    }
    let why = Why::new(ViewCause::Asked { node: from.node }).adding(join.proc.iter().copied());
    Summons::Gather(join.fail.iter().fold(why, |why, member| why.failing(*member, Reason::Apart)))
}

/// Why to gather with a stranger that is heeded.
pub fn stranger_wants(view: &View, join: &Proposal) -> Why {
    let nodes = join.proc.iter().map(|member| member.node).filter(|node| incarnation_in(view, *node).is_none());
    Why::new(ViewCause::Merged { nodes: nodes.collect() }).adding(join.proc.iter().copied())
}

fn incarnation_in(view: &View, node: NodeId) -> Option<MemberId> {
    view.members.iter().copied().find(|member| member.node == node)
}
