//! Attempt: the members of a view to be tell what they hold of their old views, learn what all hold together, fetch what
//! they lack of it, and install once everybody has it.
//!
//! Leaves for Working, or back to Gather with nothing lost.
use super::gather::is_acceptable;
use super::io::MembershipIo;
use super::packet::{HoldingsEntry, HoldingsPlan, MembershipPacket, OldView};
use super::timer::{MembershipTimer, Span};
use super::working::Working;
use super::{AgreedSet, Holdings, Link, MembershipAction, NextState, ViewChange};
use crate::{Policy, Proposal, Reason, Sets, Why};
use consort_order::Destination;
use consort_types::{Instant, MemberId, Primary, View, ViewId, ViewKind};
use std::collections::{BTreeMap, BTreeSet};

/// The state's data.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub sets: Sets,
    view: ViewId,
    pub members: Vec<MemberId>,
    /// What this member told; nothing may be added to it but what is fetched.
    told: Option<Holdings>,
    stage: AttemptStage,
    /// When each member was heard last in this attempt.
    alive: BTreeMap<MemberId, Instant>,
    /// How often this member has said again what the proposer waits for.
    repeated: u32,
    /// Where the members stand, once the proposer has told.
    links: Vec<(MemberId, Link)>,
    /// At the proposer.
    lead: Lead,
}

/// Of so many repetitions to the proposer one goes to all.
const TO_ALL: u32 = 3;

/// How far this member is.
#[derive(Clone, Debug)]
enum AttemptStage {
    /// It has told, or is about to.
    Telling,
    /// It gets what it lacks.
    Fetching(AgreedSet),
    /// It holds everything.
    Ready(AgreedSet),
}

/// What the proposer knows of the others.
#[derive(Clone, Debug, Default)]
struct Lead {
    told: BTreeMap<MemberId, Told>,
    plan: Option<HoldingsPlan>,
    ready: BTreeSet<MemberId>,
}

/// What a member told of its old view, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub old: ViewId,
    pub holding: Vec<(u64, u64)>,
    pub hollow: bool,
    pub links: Vec<Link>,
}

impl Attempt {
    /// Enters with a view that all its members agree on. The engine is asked what it holds.
    pub fn enter(io: &mut MembershipIo, now: Instant, sets: Sets, view: ViewId, members: Vec<MemberId>) -> Self {
        //= V11
        io.timers.disarm_state();
        io.counters.attempts += 1;
        io.presence.numbers.saw(view.number);
        io.taken = view.number;
        io.timers.arm(MembershipTimer::Repeat, now + io.timeouts.repeat);
        io.wait(MembershipTimer::Silence, now, Span::Silence);
        io.wait(MembershipTimer::AttemptMax, now, Span::AttemptMax);
        let alive = members.iter().map(|member| (*member, now)).collect();
        let (stage, lead) = (AttemptStage::Telling, Lead::default());
        let attempt = Self { sets, view, members, told: None, stage, alive, repeated: 0, links: Vec::new(), lead };
        if attempt.leads(io) && attempt.members.len() > 1 {
            io.send(Destination::All, attempt.proposal());
        }
        io.acts.push_back(MembershipAction::Tell);
        attempt
    }

    fn leads(&self, io: &MembershipIo) -> bool {
        self.view.representative == io.me
    }

    fn proposal(&self) -> MembershipPacket {
        MembershipPacket::Propose { view: self.view, members: self.members.clone() }
    }

    fn send_to_proposer(&self, io: &mut MembershipIo, packet: MembershipPacket) {
        io.send(Destination::One(self.view.representative.node), packet);
    }

    /// Says something again to the proposer: perhaps what goes to it alone does not arrive.
    fn repeat_to_proposer(&mut self, io: &mut MembershipIo, packet: MembershipPacket) {
        //= V14
        self.repeated += 1;
        if self.repeated.is_multiple_of(TO_ALL) && !super::mutated!(io, RepeatsAlone) {
            io.send(Destination::All, packet);
        } else {
            self.send_to_proposer(io, packet);
        }
    }

    /// The engine has told what it holds.
    pub fn tell(&mut self, io: &mut MembershipIo, now: Instant, mut holding: Holdings) -> NextState {
        //= V01
        //= V11
        if !matches!(self.stage, AttemptStage::Telling) {
            return NextState::Stay;
        }
        let n = io.installed.members.len();
        holding.held.resize(n, 0);
        holding.stable.resize(n, 0);
        let told = Told::by(io.installed.id, &holding);
        self.told = Some(holding);
        if self.leads(io) {
            let me = io.me;
            return self.on_told(io, now, me, self.view, told);
        }
        if let Some(packet) = self.told_packet(io) {
            self.send_to_proposer(io, packet);
        }
        NextState::Stay
    }

    fn told_packet(&self, io: &MembershipIo) -> Option<MembershipPacket> {
        let Told { old, holding, hollow, links } = Told::by(io.installed.id, self.told.as_ref()?);
        Some(MembershipPacket::Told { view: self.view, old, holding, hollow, links })
    }

    /// The proposal came again, or a newer one for the same members.
    pub fn on_propose(
        &mut self,
        io: &mut MembershipIo,
        now: Instant,
        from: MemberId,
        view: ViewId,
        members: Vec<MemberId>,
    ) -> NextState {
        //= V10
        if view == self.view {
            self.alive.insert(from, now);
            if let Some(packet) = self.told_packet(io) {
                self.repeat_to_proposer(io, packet);
            }
        } else if members == self.members && is_acceptable(io, from, view, &members) {
            return NextState::Attempt { view, members };
        }
        NextState::Stay
    }

    /// At the proposer: a member told what it holds.
    pub fn on_told(
        &mut self,
        io: &mut MembershipIo,
        now: Instant,
        from: MemberId,
        view: ViewId,
        told: Told,
    ) -> NextState {
        //= V12
        if view != self.view || !self.leads(io) || !self.members.contains(&from) {
            return NextState::Stay;
        }
        let misfits = |known: &Told| known.old == told.old && known.holding.len() != told.holding.len();
        if self.lead.told.values().any(misfits) {
            io.counters.implausible += 1;
            return NextState::Stay;
        }
        self.alive.insert(from, now);
        self.lead.told.entry(from).or_insert(told);
        if self.lead.plan.is_some() || self.lead.told.len() < self.members.len() {
            return NextState::Stay;
        }
        let plan = self.plan(io);
        self.lead.plan = Some(plan.clone());
        if self.members.len() > 1 {
            io.send(Destination::All, MembershipPacket::Plan(plan.clone()));
        }
        let me = io.me;
        self.on_plan(io, now, me, plan)
    }

    /// Puts together what the members hold of each old view.
    fn plan(&self, io: &MembershipIo) -> HoldingsPlan {
        //= V12
        let mut olds: Vec<OldView> = Vec::new();
        for (index, member) in (0..).zip(&self.members) {
            let Some(Told { old: view, holding, hollow, .. }) = self.lead.told.get(member) else { continue };
            let side = self.side(io, *member, *view);
            let joins = |old: &OldView| old.view == *view && old.from.first().is_some_and(|one| side.contains(one));
            let at = olds.iter().position(joins).unwrap_or_else(|| {
                let entries = vec![HoldingsEntry { holder: index, ..HoldingsEntry::default() }; holding.len()];
                olds.push(OldView { view: *view, hollow: false, from: Vec::new(), entries });
                olds.len() - 1
            });
            olds[at].from.push(index);
            olds[at].hollow |= hollow;
            if olds[at].from.len() > 1 && super::mutated!(io, FirstTellerOnly) {
                continue;
            }
            for (entry, (held, stable)) in olds[at].entries.iter_mut().zip(holding) {
                if *held > entry.held {
                    (entry.held, entry.holder) = (*held, index);
                }
                entry.stable = entry.stable.max(*stable);
            }
        }
        HoldingsPlan { view: self.view, members: self.members.clone(), olds, links: self.links() }
    }

    /// Where the members of the view to be stand.
    fn links(&self) -> Vec<(u16, Link)> {
        let told = (0..).zip(&self.members).filter_map(|(index, member)| Some((index, self.lead.told.get(member)?)));
        told.flat_map(|(index, told)| told.links.iter().map(move |link| (index, *link))).collect()
    }

    /// The members that come from the same old view as this one. Where some of them hold places alone: of these those to which
    /// the way that packets of the old view took still leads, by others of them.
    fn side(&self, io: &MembershipIo, member: MemberId, view: ViewId) -> BTreeSet<u16> {
        //= V12
        let told = |(index, other): (u16, &MemberId)| Some((index, self.lead.told.get(other)?));
        let old = (0..).zip(&self.members).filter_map(told).filter(|(_, told)| told.old == view);
        let old: Vec<(u16, &Told)> = old.collect();
        let Some(first) = self.lead.told.get(&member) else { return BTreeSet::new() };
        if old.iter().all(|(_, told)| !told.hollow) || super::mutated!(io, LinksIgnored) {
            return old.into_iter().map(|(index, _)| index).collect();
        }
        let (mut reached, mut open) = (BTreeSet::new(), vec![first]);
        while let Some(one) = open.pop() {
            let next = old.iter().filter(|(_, other)| std::ptr::eq(one, *other) || one.hears(other));
            open.extend(next.filter(|(index, _)| reached.insert(*index)).map(|(_, other)| *other));
        }
        reached
    }

    /// The proposer told what all hold together.
    pub fn on_plan(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, plan: HoldingsPlan) -> NextState {
        //= V13
        if plan.view != self.view || plan.members != self.members || from != self.view.representative {
            return NextState::Stay;
        }
        self.alive.insert(from, now);
        match &self.stage {
            AttemptStage::Telling => self.fetch(io, &plan),
            AttemptStage::Fetching(_) | AttemptStage::Ready(_) => {
                let done = matches!(self.stage, AttemptStage::Ready(_));
                if from != io.me {
                    self.repeat_to_proposer(io, MembershipPacket::Ready { view: self.view, done });
                }
            }
        }
        NextState::Stay
    }

    fn fetch(&mut self, io: &mut MembershipIo, plan: &HoldingsPlan) {
        //= V13
        let Some(told) = &self.told else { return };
        match cut(io, plan, told) {
            Some(cut) => {
                let name = |(index, link): &(u16, Link)| Some((*plan.members.get(usize::from(*index))?, *link));
                self.links = plan.links.iter().filter_map(name).collect();
                io.acts.push_back(MembershipAction::Fetch(Box::new(cut.clone())));
                self.stage = AttemptStage::Fetching(cut);
            }
            None => io.counters.implausible += 1,
        }
    }

    /// The engine holds the whole agreed set.
    pub fn complete(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V14
        let AttemptStage::Fetching(cut) = &self.stage else { return NextState::Stay };
        self.stage = AttemptStage::Ready(cut.clone());
        if super::mutated!(io, InstallsUnready) {
            return NextState::Install;
        }
        if self.leads(io) {
            let (me, view) = (io.me, self.view);
            return self.on_ready(io, now, me, view, true);
        }
        self.send_to_proposer(io, MembershipPacket::Ready { view: self.view, done: true });
        NextState::Stay
    }

    /// At the proposer: a member says how far it is.
    pub fn on_ready(
        &mut self,
        io: &mut MembershipIo,
        now: Instant,
        from: MemberId,
        view: ViewId,
        done: bool,
    ) -> NextState {
        //= V14
        //= V16
        if view != self.view || !self.leads(io) || !self.members.contains(&from) {
            return NextState::Stay;
        }
        self.alive.insert(from, now);
        if done {
            self.lead.ready.insert(from);
        }
        if self.lead.ready.len() < self.members.len() {
            return NextState::Stay;
        }
        if self.members.len() > 1 {
            io.send(Destination::All, MembershipPacket::Install { view });
        }
        NextState::Install
    }

    /// Something shows that the view stands: whoever is ready for it installs it.
    pub fn hear(&self, io: &MembershipIo, from: MemberId, view: ViewId) -> NextState {
        //= V14
        let ready = matches!(self.stage, AttemptStage::Ready(_));
        let stands = view == self.view && ready && self.members.contains(&from);
        if stands && !super::mutated!(io, NewViewIgnored) { NextState::Install } else { NextState::Stay }
    }

    /// Somebody gathers.
    pub fn on_join(&self, io: &MembershipIo, from: MemberId, join: &Proposal) -> NextState {
        //= V15
        let why = || Why::new(self.sets.trigger.clone());
        if self.members.contains(&from) {
            if join.leave {
                //= M15
                return NextState::gather(why().failing(from, Reason::Left));
            }
            let gave_up = join.number >= self.view.number;
            if !gave_up && self.sets.cover(&join.proc, &join.fail) {
                return NextState::Stay;
            }
            if join.fail.contains(&io.me) {
                return NextState::gather(why().failing(from, Reason::Apart));
            }
            let why = why().adding(join.proc.iter().copied());
            return NextState::gather(join.fail.iter().fold(why, |why, member| why.failing(*member, Reason::Apart)));
        }
        match self.members.iter().find(|member| member.node == from.node) {
            Some(earlier) if from.incarnation > earlier.incarnation && !join.leave => {
                //= M16
                NextState::gather(why().adding([from]).failing(*earlier, Reason::Restarted))
            }
            _ => NextState::Stay,
        }
    }

    /// Says again what an answer is owed to, or that this member is ready.
    pub fn on_repeat(&mut self, io: &mut MembershipIo, now: Instant) {
        //= V14
        io.timers.arm(MembershipTimer::Repeat, now + io.timeouts.repeat);
        if self.leads(io) {
            let packet = self.lead.plan.clone().map_or_else(|| self.proposal(), MembershipPacket::Plan);
            io.send(Destination::All, packet);
        } else if matches!(self.stage, AttemptStage::Ready(_)) {
            self.repeat_to_proposer(io, MembershipPacket::Ready { view: self.view, done: true });
        }
    }

    /// Looks for those that do not answer: the proposer for all others, the others for the proposer.
    pub fn on_silence(&self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V15
        let span = io.timeouts.silence;
        let (me, leads) = (io.me, self.leads(io));
        let watched = |member: &MemberId| *member != me && (leads || *member == self.view.representative);
        let last = self.alive.iter().filter(|(member, _)| watched(member));
        let silent: Vec<_> = last.clone().filter(|(_, at)| now.since(**at) >= span).map(|(m, _)| *m).collect();
        let earliest = last.map(|(_, at)| *at).min().unwrap_or(now);
        io.wait(MembershipTimer::Silence, earliest, Span::Silence);
        io.timers.postpone(MembershipTimer::Silence, now + io.timeouts.repeat);
        if silent.is_empty() { NextState::Stay } else { self.blame(io, now, &silent) }
    }

    /// The engine knows that these are not reached any more: there will be no view with them.
    pub fn go_without(&self, gone: &[MemberId]) -> NextState {
        //= V20
        let gone: Vec<_> = gone.iter().filter(|member| self.members.contains(member)).collect();
        if gone.is_empty() {
            return NextState::Stay;
        }
        let why = Why::new(self.sets.trigger.clone());
        NextState::gather(gone.into_iter().fold(why, |why, member| why.failing(*member, Reason::Silent)))
    }

    /// It takes too long.
    pub fn give_up(&self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V15
        let late = self.members.iter().filter(|member| !self.lead.ready.contains(member) && **member != io.me);
        let late: Vec<_> = late.copied().collect();
        let late = if self.leads(io) { late } else { Vec::new() };
        self.blame(io, now, &late)
    }

    /// Gathers again. Who is not heard at all is failed; who is heard, but did not take part, is failed the second time.
    fn blame(&self, io: &mut MembershipIo, now: Instant, members: &[MemberId]) -> NextState {
        //= V15
        let mut why = Why::new(self.sets.trigger.clone());
        for member in members {
            let heard = io.presence.heard.last_heard(member.node);
            if heard.is_none_or(|at| now.since(at) >= io.timeouts.silence) {
                why = why.failing(*member, Reason::Silent);
            } else if !io.blamed.insert(*member) {
                //= M52
                io.presence.quarantine.put(member.node, now);
                why = why.failing(*member, Reason::Deaf);
            }
        }
        NextState::gather(why)
    }

    /// Everybody holds the agreed set: closes the old view and installs the new one.
    pub fn install(mut self, io: &mut MembershipIo, now: Instant) -> Working {
        //= V17
        let (AttemptStage::Ready(cut) | AttemptStage::Fetching(cut)) = self.stage.clone() else {
            return Working::enter(io, now); // only who is ready installs
        };
        let mut together = cut.together.clone();
        if super::mutated!(io, AllMovedTogether) {
            together.clone_from(&self.members);
        }
        let links = std::mem::take(&mut self.links);
        let closing = self.sets.transitional(io.installed.id, &together, io.settings.primary.never());
        let view = self.regular(io, now, together);
        //= V19
        if closing.members.len() == 1 && io.installed.members.len() > 1 && io.may_be_passed() {
            io.acts.push_back(MembershipAction::Renounce);
        }
        io.installed = view.clone();
        io.acts.push_back(MembershipAction::Install(Box::new(ViewChange { closing: Some(closing), cut, view, links })));
        Working::enter(io, now)
    }

    fn regular(&self, io: &MembershipIo, now: Instant, moved_together: Vec<MemberId>) -> View {
        //= M55
        //= M56
        let policy = &io.settings.primary;
        let anywhere = super::mutated!(io, PrimaryAnywhere) && *policy != Policy::None;
        let at_install = policy.at_install(&io.settings.nodes, &self.members);
        View {
            id: self.view,
            kind: ViewKind::Regular,
            members: self.members.clone(),
            moved_together,
            primary: if anywhere { Primary::Pending } else { at_install },
            cause: self.sets.trigger.clone(),
            evidence: self.sets.evidence(&io.hearsay(now), &io.installed.members, &self.members),
            missed_primary: false,
        }
    }

    /// For `status`.
    pub fn describe(&self, io: &MembershipIo) -> String {
        let view = self.view;
        let names =
            |members: &[MemberId]| members.iter().map(|member| member.node.to_string()).collect::<Vec<_>>().join(", ");
        match (&self.stage, self.leads(io)) {
            (AttemptStage::Fetching(_), _) => format!("forming view {view}: fetching what others hold of the old one"),
            (_, false) => format!("forming view {view}: waiting for {}", self.view.representative.node),
            (_, true) => {
                let known = |member: &&MemberId| match self.lead.plan {
                    Some(_) => !self.lead.ready.contains(member),
                    None => !self.lead.told.contains_key(member),
                };
                let late: Vec<_> = self.members.iter().filter(known).copied().collect();
                format!("forming view {view}: waiting for {}", names(&late))
            }
        }
    }
}

impl Told {
    fn by(old: ViewId, holdings: &Holdings) -> Self {
        let pairs = holdings.held.iter().zip(&holdings.stable);
        let holding = pairs.map(|(held, stable)| (*held, *held.min(stable))).collect();
        Self { old, holding, hollow: holdings.hollow, links: holdings.links.clone() }
    }

    /// Whether packets of the old view came to both by one link of it that still stands.
    fn hears(&self, other: &Self) -> bool {
        let both = |a: &Link, b: &Link| a.before != 0 && (a.before, a.configuration) == (b.before, b.configuration);
        self.links.iter().any(|link| other.links.iter().any(|theirs| both(link, theirs)))
    }
}

/// What the plan says of this member's own old view; `None` where it cannot be true.
fn cut(io: &MembershipIo, plan: &HoldingsPlan, told: &Holdings) -> Option<AgreedSet> {
    //= V12
    let name = |index: &u16| plan.members.get(usize::from(*index)).copied();
    let is_mine =
        |old: &&OldView| old.view == io.installed.id && old.from.iter().any(|index| name(index) == Some(io.me));
    let old = plan.olds.iter().find(is_mine)?;
    let together = old.from.iter().map(name).collect::<Option<Vec<_>>>()?;
    let holders = old.entries.iter().map(|entry| name(&entry.holder)).collect::<Option<Vec<_>>>()?;
    let less = old.entries.iter().zip(&told.held).any(|(entry, held)| entry.held < *held);
    let lossy = super::mutated!(io, FirstTellerOnly);
    if old.entries.len() != told.held.len() || less && !lossy || !together.contains(&io.me) {
        return None;
    }
    let mut held: Vec<_> = old.entries.iter().map(|entry| entry.held).collect();
    let mut stable: Vec<_> = old.entries.iter().map(|entry| entry.stable).collect();
    if super::mutated!(io, OwnCut) {
        held.clone_from(&told.held);
    }
    if super::mutated!(io, OwnStable) {
        stable.clone_from(&told.stable);
    }
    let apart = plan.olds.iter().filter(|other| other.view == old.view).count() > 1;
    Some(AgreedSet { together, held, holders, stable, apart, hollow: old.hollow })
}
