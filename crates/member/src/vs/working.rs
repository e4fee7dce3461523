//! Working: the installed view goes on. Members are heard, others are looked for.
//!
//! Leaves for Gather: a member is silent, left, restarted or went another way; or others were found.
use super::MembershipAction;
use super::NextState;
use super::io::MembershipIo;
use super::packet::{JoinProposal, MembershipPacket};
use super::timer::MembershipTimer;
use crate::{Hearing, Reason, Why};
use consort_order::Destination;
use consort_types::{Instant, MemberId, NodeId, Primary, ViewCause, ViewId};
use std::collections::BTreeSet;

/// The state's data.
#[derive(Clone, Debug)]
pub(super) struct Working {
    since: Instant,
    /// When each member was heard last in this view.
    alive: Vec<Instant>,
    /// Which of them are known to have installed it.
    installed: Vec<bool>,
    /// Whether the engine still has to be told that all have.
    settling: bool,
}

/// A view that loses a member that it let in within so many times `silence` was not worth forming with it.
const YOUNG: u32 = 4;

impl Working {
    /// Enters with the view that was just installed.
    pub fn enter(io: &mut MembershipIo, now: Instant) -> Self {
        io.timers.disarm_state();
        io.counters.views += 1;
        io.blamed.clear();
        let n = io.installed.members.len();
        let settling = io.leads() && io.installed.primary == Primary::Pending;
        let mut working = Self { since: now, alive: vec![now; n], installed: vec![false; n], settling };
        //= V03
        io.timers.arm(MembershipTimer::Heartbeat, now);
        io.timers.arm(MembershipTimer::Silence, now + io.settings.timers.silence);
        working.note_installed(io, io.me);
        working
    }

    /// A member was heard in this view: it lives, and has installed it.
    pub fn hear(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId) {
        //= V02
        let Ok(index) = io.installed.members.binary_search(&from) else { return };
        self.alive[index] = now;
        if self.settling {
            self.note_installed(io, from);
        }
    }

    fn note_installed(&mut self, io: &mut MembershipIo, member: MemberId) {
        //= V18
        if let Ok(index) = io.installed.members.binary_search(&member) {
            self.installed[index] = true;
        }
        let all = self.installed.iter().all(|installed| *installed) || super::mutated!(io, SettledAtInstall);
        if self.settling && all {
            self.settling = false;
            io.acts.push_back(MembershipAction::Settled);
        }
    }

    /// Nothing was said for a while.
    pub fn speak(&mut self, io: &mut MembershipIo, now: Instant) {
        //= V03
        if io.installed.members.len() > 1 && !super::mutated!(io, NoHeartbeat) {
            io.acts.push_back(MembershipAction::Speak);
        }
        io.timers.arm(MembershipTimer::Heartbeat, now + io.settings.timers.heartbeat);
    }

    /// Looks for members that were not heard for too long.
    pub fn on_silence(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V02
        let span = io.settings.timers.silence;
        let others = || io.installed.members.iter().zip(&self.alive).filter(|(member, _)| **member != io.me);
        let silent: Vec<_> = others().filter(|(_, at)| now.since(**at) >= span).map(|(member, _)| *member).collect();
        let earliest = others().map(|(_, at)| *at).min().unwrap_or(now);
        io.timers.arm(MembershipTimer::Silence, (earliest + span).max(now + io.settings.timers.heartbeat));
        if silent.is_empty() || super::mutated!(io, SilenceIgnored) {
            return NextState::Stay;
        }
        self.quarantine_young(io, now, &silent);
        let nodes = silent.iter().map(|member| member.node).collect();
        let since = now.since(earliest);
        let why = Why::new(ViewCause::Silent { nodes, since });
        NextState::gather(silent.into_iter().fold(why, |why, member| why.failing(member, Reason::Silent)))
    }

    /// Members that were let in and fell silent at once are kept out for a while.
    fn quarantine_young(&self, io: &mut MembershipIo, now: Instant, silent: &[MemberId]) {
        //= M52
        if now.since(self.since) >= io.settings.timers.silence * YOUNG {
            return;
        }
        for member in silent.iter().filter(|member| !io.installed.moved_together.contains(member)) {
            io.quarantine.put(member.node, now);
        }
    }

    /// Somebody asks for another view.
    pub fn on_join(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, join: &JoinProposal) -> NextState {
        //= M11
        match member_of(io, from.node) {
            Some(member) if member == from => {
                if join.leave {
                    //= M15
                    return NextState::gather(
                        Why::new(ViewCause::Left { nodes: vec![from.node] }).failing(from, Reason::Left),
                    );
                }
                if join.number < io.installed.id.number {
                    return NextState::Stay;
                }
                if join.fail.contains(&io.me) {
                    //= V04
                    return NextState::gather(
                        Why::new(ViewCause::Apart { nodes: vec![from.node] }).failing(from, Reason::Apart),
                    );
                }
                let mut why = Why::new(ViewCause::Asked { node: from.node }).adding(join.proc.iter().copied());
                for member in &join.fail {
                    why = why.failing(*member, Reason::Apart);
                }
                NextState::gather(why)
            }
            Some(earlier) if from.incarnation > earlier.incarnation && !join.leave => {
                //= M16
                let trigger = ViewCause::Restarted { nodes: vec![from.node] };
                NextState::gather(Why::new(trigger).adding([from]).failing(earlier, Reason::Restarted))
            }
            _ if join.leave => NextState::Stay,
            _ if self.admits(io, now, from, join) => {
                let nodes = join.proc.iter().map(|member| member.node).filter(|node| member_of(io, *node).is_none());
                let trigger = ViewCause::Merged { nodes: nodes.collect() };
                NextState::gather(Why::new(trigger).adding(join.proc.iter().copied()))
            }
            _ => {
                //= M19
                io.beacon_soon(now);
                NextState::Stay
            }
        }
    }

    /// Whether a stranger may tear this view down: only if it, and all it brings, and all members hear each other, and it
    /// wants none of them out.
    fn admits(&self, io: &MembershipIo, now: Instant, from: MemberId, join: &JoinProposal) -> bool {
        //= M17
        if super::mutated!(io, StrangersAdmitted) {
            return true;
        }
        let brought = join.proc.difference(&join.fail).copied().chain([from]);
        let mut nodes: BTreeSet<NodeId> = io.installed.members.iter().map(|member| member.node).collect();
        for member in brought {
            let stale = member_of(io, member.node).is_some_and(|known| known != member);
            if stale || io.quarantine.holds(member.node, now) {
                return false;
            }
            nodes.insert(member.node);
        }
        let wants_all = io.installed.members.iter().all(|member| !join.fail.contains(member));
        wants_all && io.heard.all_mutual(io.me.node, &nodes, now)
    }

    /// A beacon of another view came: perhaps there is one to merge with.
    pub fn on_beacon(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= M51
        if !io.leads() {
            return NextState::Stay;
        }
        let willing = views_to_merge(io, now);
        let best = willing.first().map(|(view, _)| *view);
        if io.wants != best {
            io.wants = best;
            io.beacon_soon(now);
        }
        let mine = io.installed.id;
        let agreed = willing.into_iter().filter(|(view, wants)| view.representative > io.me && *wants == Some(mine));
        let strangers: Vec<_> = agreed.flat_map(|(view, _)| members_of(io, now, view)).collect();
        if strangers.is_empty() {
            return NextState::Stay;
        }
        let trigger = ViewCause::Merged { nodes: strangers.iter().map(|member| member.node).collect() };
        NextState::gather(Why::new(trigger).adding(strangers))
    }

    /// A member is still ready for this view: it has not heard that it stands.
    pub fn on_ready(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, view: ViewId, done: bool) {
        //= V14
        let Ok(index) = io.installed.members.binary_search(&from) else { return };
        if view != io.installed.id || !done {
            return;
        }
        self.alive[index] = now;
        if !super::mutated!(io, NewViewIgnored) {
            io.send(Destination::One(from.node), MembershipPacket::Install { view });
        }
    }
}

/// The settled views with whose members all members hear each other, and which view each of them wants; lowest
/// representative first.
fn views_to_merge(io: &MembershipIo, now: Instant) -> Vec<(ViewId, Option<ViewId>)> {
    //= M51
    let mine: BTreeSet<NodeId> = io.installed.members.iter().map(|member| member.node).collect();
    let leads = |hearing: &&Hearing| {
        hearing.settled && hearing.view != io.installed.id && hearing.view.representative == hearing.member
    };
    let fits = io.heard.iter(now).filter(leads).filter(|hearing| is_mergeable(io, now, &mine, hearing));
    let mut views: Vec<_> = fits.map(|hearing| (hearing.view, hearing.wants)).collect();
    views.sort_by_key(|(view, _)| view.representative);
    views
}

fn is_mergeable(io: &MembershipIo, now: Instant, mine: &BTreeSet<NodeId>, hearing: &Hearing) -> bool {
    let there = |member: &MemberId| {
        io.heard.get(member.node, now).is_some_and(|known| known.member == *member && known.view == hearing.view)
    };
    let free = |member: &MemberId| !io.quarantine.holds(member.node, now) && !mine.contains(&member.node);
    let all: BTreeSet<_> = mine.iter().copied().chain(hearing.members.iter().map(|member| member.node)).collect();
    hearing.members.iter().all(|member| there(member) && free(member)) && io.heard.all_mutual(io.me.node, &all, now)
}

fn members_of(io: &MembershipIo, now: Instant, view: ViewId) -> Vec<MemberId> {
    io.heard.get(view.representative.node, now).map(|hearing| hearing.members.clone()).unwrap_or_default()
}

fn member_of(io: &MembershipIo, node: NodeId) -> Option<MemberId> {
    io.installed.members.iter().copied().find(|member| member.node == node)
}
