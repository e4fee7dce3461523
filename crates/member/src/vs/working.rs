//! Working: the installed view goes on. Members are heard, others are looked for.
//!
//! Leaves for Gather: a member is silent, left, restarted or went another way; or others were found.
use super::MembershipAction;
use super::NextState;
use super::io::MembershipIo;
use super::packet::MembershipPacket;
use super::timer::{MembershipTimer, Span};
use crate::{Encounter, Proposal, Reason, Summons, Why, stranger_wants};
use consort_order::Destination;
use consort_types::{Instant, MemberId, Primary, ViewCause, ViewId};

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
        io.wait(MembershipTimer::Silence, now, Span::Silence);
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
        io.timers.arm(MembershipTimer::Heartbeat, now + io.timeouts.heartbeat);
    }

    /// Looks for members that were not heard for too long.
    pub fn on_silence(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V02
        let span = io.timeouts.silence;
        let others = || io.installed.members.iter().zip(&self.alive).filter(|(member, _)| **member != io.me);
        let silent: Vec<_> = others().filter(|(_, at)| now.since(**at) >= span).map(|(member, _)| *member).collect();
        let earliest = others().map(|(_, at)| *at).min().unwrap_or(now);
        io.wait(MembershipTimer::Silence, earliest, Span::Silence);
        io.timers.postpone(MembershipTimer::Silence, now + io.timeouts.heartbeat);
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
        if now.since(self.since) >= io.timeouts.silence * YOUNG {
            return;
        }
        for member in silent.iter().filter(|member| !io.installed.moved_together.contains(member)) {
            io.presence.quarantine.put(member.node, now);
        }
    }

    /// Somebody asks for another view.
    pub fn on_join(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, join: &Proposal) -> NextState {
        match io.presence.summons(now, &io.installed, from, join) {
            Summons::Gather(why) => NextState::gather(why),
            Summons::Late => NextState::Stay,
            Summons::Unwanted => {
                //= V04
                NextState::gather(Why::new(ViewCause::Apart { nodes: vec![from.node] }).failing(from, Reason::Apart))
            }
            Summons::Unheeded if super::mutated!(io, StrangersAdmitted) => {
                NextState::gather(stranger_wants(&io.installed, join))
            }
            Summons::Unheeded => {
                //= M19
                io.beacon_soon(now);
                NextState::Stay
            }
        }
    }

    /// A beacon of another view came: perhaps there is one to merge with.
    pub fn on_beacon(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= M51
        if !io.leads() {
            return NextState::Stay;
        }
        let Encounter { news, why } = io.presence.meet(now, &io.installed);
        if news {
            io.beacon_soon(now);
        }
        why.map_or(NextState::Stay, NextState::gather)
    }

    /// A member is still ready for this view: it has not heard that it stands.
    pub fn on_ready(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, view: ViewId, done: bool) {
        //= V14
        let Ok(index) = io.installed.members.binary_search(&from) else { return };
        if view != io.installed.id || !done {
            return;
        }
        self.alive[index] = now;
        // Where it says so to all, one answers.
        if io.leads() && !super::mutated!(io, NewViewIgnored) {
            io.send(Destination::One(from.node), MembershipPacket::Install { view });
        }
    }
}
