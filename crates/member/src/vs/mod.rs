//! View-synchronous membership for engines without a token: who is there, what all that go on together deliver of the old
//! view, and the install of the next view in one step.
//!
//! # What it asks of an engine
//! In each view every member multicasts packets numbered from 1 without a gap. What a member holds of its view is then one
//! *vector*: for each member, by ascending node, how many of its packets were taken in one after the other. The *agreed
//! set* of old messages is the largest of these numbers, taken over all that come from the same view together; where the
//! engine takes in a packet only after all that it depends on, nothing in that set depends on anything outside.
//!
//! # The rhythm
//! One input, then [`Membership::poll`] until `None`. The engine does what each [`MembershipAction`] says, in that order.
//!
//! 1. [`MembershipAction::Halt`]: the installed view ends. The engine sends nothing new in it.
//! 2. [`MembershipAction::Tell`]: the engine takes in nothing more, and answers with [`Membership::tell`]. May come again.
//! 3. [`MembershipAction::Fetch`]: the engine gets what it lacks of the agreed set from those that hold it, then says
//!    [`Membership::complete`].
//! 4. [`MembershipAction::Install`]: it delivers what the agreed set gives without knowing who is gone; then the transitional view;
//!    then, knowing who is gone, all the rest; then the new view.
//!
//! Rules: `docs/protocols/vs.md`, and `docs/protocols/membership.md` where both memberships do the same.
mod action;
mod attempt;
mod dispatch;
mod gaps;
mod gather;
mod io;
mod laggards;
#[cfg(feature = "mutants")]
mod mutant;
mod packet;
mod settings;
mod timer;
mod working;

#[cfg(test)]
mod tests;

pub use crate::packet::ANNOTATION_MAX;
pub use action::{AgreedSet, Holdings, Link, MembershipAction, PrimaryCall, ViewChange};
pub use gaps::missing;
pub use laggards::Laggards;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use packet::MembershipPacket;
pub use settings::{MEMBERS_MAX, MembershipSettings, MembershipTimeouts, SettingsError};

use crate::sets::{Reason, Sets, Why};
use attempt::Attempt;
use bytes::Bytes;
use consort_order::{Obstacle, PeerReach};
use consort_types::{Incarnation, Instant, MemberId, Primary, View, ViewCause, ViewId};
use gather::GatherState;
use io::MembershipIo;
use timer::MembershipTimer;
use working::Working;

/// Whether the membership under test breaks this rule on purpose. Without the feature there is nothing to ask.
macro_rules! mutated {
    ($io:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let broken = $io.settings.mutant == Some($crate::vs::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let broken = {
            let _ = &$io;
            false
        };
        broken
    }};
}
pub(crate) use mutated;

/// One node's part in the membership.
#[derive(Clone, Debug)]
pub struct Membership {
    io: MembershipIo,
    state: MembershipState,
}

/// Each state owns its data.
#[derive(Clone, Debug)]
enum MembershipState {
    /// Not started, or between two states.
    Still,
    /// Members look for each other.
    Gather(Box<GatherState>),
    /// They agree on what to deliver of the old views.
    Attempt(Box<Attempt>),
    /// The installed view works.
    Working(Box<Working>),
    /// It said good-bye.
    Left,
}

/// Where an input leads.
#[derive(Debug)]
enum NextState {
    Stay,
    Gather(Box<Why>),
    Attempt { view: ViewId, members: Vec<MemberId> },
    Install,
    Leave,
}

impl NextState {
    fn gather(why: Why) -> Self {
        Self::Gather(Box::new(why))
    }
}

impl Membership {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings cannot work.
    pub fn new(mut settings: MembershipSettings, incarnation: Incarnation) -> Result<Self, SettingsError> {
        settings.validate()?;
        settings.nodes.sort_unstable();
        Ok(Self { io: MembershipIo::new(settings, incarnation), state: MembershipState::Still })
    }

    /// The first input, with the durable records of an earlier incarnation: installs a view of this node alone, and gathers.
    pub fn start(&mut self, now: Instant, records: &[Bytes]) {
        //= M04
        self.io.recall(records);
        let view = self.io.presence.first_view(self.io.settings.primary.never());
        self.io.installed = view.clone();
        self.io.acts.push_back(MembershipAction::Install(Box::new(ViewChange {
            closing: None,
            cut: AgreedSet::default(),
            view,
            links: Vec::new(),
        })));
        self.io.send_beacon(now, false);
        self.finish(now, NextState::gather(Why::new(ViewCause::Started)));
    }

    /// The engine multicast something in the installed view: nobody needs a heartbeat now.
    pub fn spoke(&mut self, now: Instant) {
        //= V03
        if let MembershipState::Working(_) = &self.state {
            self.io.timers.arm(MembershipTimer::Heartbeat, now + self.io.timeouts.heartbeat);
        }
    }

    /// Answers [`MembershipAction::Tell`]: what the engine holds of the installed view. From here on it takes in only what it fetches.
    pub fn tell(&mut self, now: Instant, holding: Holdings) {
        let next = match &mut self.state {
            MembershipState::Attempt(attempt) => attempt.tell(&mut self.io, now, holding),
            _ => NextState::Stay,
        };
        self.finish(now, next);
    }

    /// Answers [`MembershipAction::Fetch`]: the engine holds the whole agreed set.
    pub fn complete(&mut self, now: Instant) {
        let next = match &mut self.state {
            MembershipState::Attempt(attempt) => attempt.complete(&mut self.io, now),
            _ => NextState::Stay,
        };
        self.finish(now, next);
    }

    /// A member of the installed view does not receive: go on without it. If it is this node, it goes alone, for the
    /// others must not suffer.
    pub fn exclude(&mut self, now: Instant, deaf: MemberId) {
        //= M53
        //= M52
        if !self.is_working() || !self.is_member(deaf) {
            return;
        }
        let mut why = Why::new(ViewCause::Deaf { nodes: vec![deaf.node] });
        let (me, members) = (self.io.me, self.io.installed.members.clone());
        for member in members.into_iter().filter(|member| *member != me && (deaf == me || *member == deaf)) {
            self.io.presence.quarantine.put(member.node, now);
            why = why.failing(member, Reason::Deaf);
        }
        self.finish(now, NextState::gather(why));
    }

    /// The engine knows that these members of the installed view are not reached any more: go on without them. Unlike those
    /// of [`Membership::exclude`] they are welcome as soon as they are heard again.
    pub fn part(&mut self, now: Instant, gone: &[MemberId]) {
        //= V20
        let gone: Vec<_> = gone.iter().copied().filter(|one| *one != self.io.me && self.is_member(*one)).collect();
        if gone.is_empty() {
            return self.renew(now);
        }
        if !self.is_working() {
            return self.part_while_forming(now, &gone);
        }
        let nodes: Vec<_> = gone.iter().map(|member| member.node).collect();
        // They went before their silence was long enough for this membership.
        let heard = self.reachability(now).into_iter().filter(|reach| nodes.contains(&reach.node));
        let since = heard.filter_map(|reach| reach.heard).min().unwrap_or(self.io.timeouts.silence);
        let why = Why::new(ViewCause::Silent { nodes, since });
        self.finish(now, NextState::gather(gone.into_iter().fold(why, |why, one| why.failing(one, Reason::Silent))));
    }

    /// A new view is being formed already: it will be one without them.
    fn part_while_forming(&mut self, now: Instant, gone: &[MemberId]) {
        //= V20
        let next = match &mut self.state {
            MembershipState::Gather(gather) => gather.go_without(&mut self.io, now, gone),
            MembershipState::Attempt(attempt) => attempt.go_without(gone),
            _ => NextState::Stay,
        };
        self.finish(now, next);
    }

    /// The engine wants a new view of the same members: its numbers run out.
    pub fn renew(&mut self, now: Instant) {
        if self.is_working() {
            let node = self.io.me.node;
            self.finish(now, NextState::gather(Why::new(ViewCause::Asked { node })));
        }
    }

    /// What the layer above wants carried in beacons from now on; at most [`ANNOTATION_MAX`] bytes of it.
    pub fn annotate(&mut self, annotation: Bytes) {
        self.io.presence.annotate(&annotation);
    }

    /// The node is to leave: [`MembershipAction::Left`] follows, after [`Membership::depart`] or a bounded time.
    pub fn leave(&mut self, now: Instant) {
        //= M15
        if std::mem::replace(&mut self.io.leaving, true) {
            return;
        }
        self.io.timers.arm(MembershipTimer::Leave, now + self.io.timeouts.leave);
        let next = if self.is_working() { NextState::Stay } else { NextState::Leave };
        self.finish(now, next);
    }

    /// All that a leaving node sent is known to be held by all: it says good-bye.
    pub fn depart(&mut self, now: Instant) {
        //= M15
        if self.io.leaving {
            self.finish(now, NextState::Leave);
        }
    }

    /// A record is on the disk.
    pub fn handle_persisted(&mut self, now: Instant) {
        //= M03
        self.io.presence.numbers.reserved();
        let next = match &mut self.state {
            MembershipState::Gather(gather) => gather.try_propose(&mut self.io, now),
            _ => NextState::Stay,
        };
        self.finish(now, next);
    }

    /// The time that `poll_timeout` named has come. Harmless if it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.wake(now);
        while let Some(timer) = self.io.timers.take_due(now) {
            let next = self.expire(now, timer);
            self.go(now, next);
        }
        self.follow();
        self.finish(now, NextState::Stay);
    }

    /// Time has come to this: to be called before anything is sent or delivered by an input that the membership does not see.
    /// Harmless at any time.
    pub fn wake(&mut self, now: Instant) {
        //= V19
        let timers = self.io.timeouts;
        let asleep = self.io.note_pause(now).filter(|late| *late + timers.heartbeat >= timers.silence);
        let Some(since) = asleep.filter(|_| self.is_working() && self.io.may_be_passed()) else { return };
        if mutated!(self.io, OversleptStays) {
            return;
        }
        let others: Vec<_> = self.view().members.iter().copied().filter(|member| *member != self.io.me).collect();
        let nodes = others.iter().map(|member| member.node).collect();
        let why = Why::new(ViewCause::Silent { nodes, since });
        self.io.acts.push_back(MembershipAction::Renounce);
        self.finish(now, NextState::gather(others.into_iter().fold(why, |why, one| why.failing(one, Reason::Silent))));
    }

    /// The engine's clients were told that the installed view is primary.
    pub const fn became_primary(&mut self) {
        self.io.installed.primary = Primary::Yes;
    }

    /// The next thing to do; `None` when all is done.
    pub fn poll(&mut self) -> Option<MembershipAction> {
        self.io.acts.pop_front()
    }

    /// When to call `handle_timeout`, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.io.timers.next()
    }

    /// The installed view.
    pub const fn view(&self) -> &View {
        &self.io.installed
    }

    /// This incarnation of this node.
    pub const fn me(&self) -> MemberId {
        self.io.me
    }

    /// Where a member of the installed view stands in its vectors.
    pub fn index(&self, member: MemberId) -> Option<usize> {
        self.io.installed.members.binary_search(&member).ok()
    }

    /// Whether this incarnation of a node is in the installed view.
    pub fn is_member(&self, member: MemberId) -> bool {
        self.index(member).is_some()
    }

    /// Whether the installed view goes on.
    pub const fn is_working(&self) -> bool {
        matches!(self.state, MembershipState::Working(_))
    }

    /// Whether this node was asked to leave.
    pub const fn is_leaving(&self) -> bool {
        self.io.leaving
    }

    /// Why nothing is ordered soon, if that is so: this node is leaving, or no view goes on.
    pub const fn obstacle(&self) -> Option<Obstacle> {
        //= V21
        match (self.is_leaving(), self.is_working()) {
            (true, _) => Some(Obstacle::Leaving),
            (false, true) => None,
            (false, false) => Some(Obstacle::Membership),
        }
    }

    /// Counters by name.
    pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.io.counters.observe(see);
    }

    /// How each other node is reached, as far as this one knows.
    pub fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        self.io.presence.reachability(&self.io.settings.nodes, now)
    }

    /// In which state it is and, where it waits, for what, in one line.
    pub fn describe(&self, now: Instant) -> String {
        let told = match &self.state {
            MembershipState::Still => "not started".into(),
            MembershipState::Gather(gather) => gather.gathering.describe("proposal"),
            MembershipState::Attempt(attempt) => attempt.describe(&self.io),
            MembershipState::Working(_) => {
                format!("operational: view {} of {}", self.view().id, self.view().members.len())
            }
            MembershipState::Left => "left".into(),
        };
        self.io.presence.describe(now, told)
    }

    /// Goes wherever the answer leads, and where that leads.
    fn go(&mut self, now: Instant, mut next: NextState) {
        while !matches!(next, NextState::Stay) {
            next = self.enter(now, next);
            self.follow();
        }
    }

    /// State x step: makes the state that follows out of the one that ends.
    fn enter(&mut self, now: Instant, answer: NextState) -> NextState {
        let state = std::mem::replace(&mut self.state, MembershipState::Still);
        let next;
        (self.state, next) = match (state, answer) {
            (MembershipState::Left, _) => (MembershipState::Left, NextState::Stay),
            (state, NextState::Leave) => {
                //= M15
                if let MembershipState::Working(_) = state {
                    self.io.acts.push_back(MembershipAction::Halt);
                }
                self.io.say_goodbye();
                (MembershipState::Left, NextState::Stay)
            }
            (MembershipState::Still | MembershipState::Working(_), NextState::Gather(why)) => {
                self.io.presence.episode += 1;
                self.io.presence.distances.measure_anew(now);
                self.io.acts.push_back(MembershipAction::Halt);
                let sets = Sets::new(self.io.me, &self.io.installed.members, why.trigger.clone());
                self.gather(now, sets, &why)
            }
            (MembershipState::Attempt(attempt), NextState::Gather(why)) => self.gather(now, attempt.sets, &why),
            (MembershipState::Gather(gather), NextState::Attempt { view, members }) => {
                let attempt = Attempt::enter(&mut self.io, now, gather.gathering.sets, view, members);
                (MembershipState::Attempt(Box::new(attempt)), NextState::Stay)
            }
            (MembershipState::Attempt(attempt), NextState::Attempt { view, members }) => {
                let attempt = Attempt::enter(&mut self.io, now, attempt.sets, view, members);
                (MembershipState::Attempt(Box::new(attempt)), NextState::Stay)
            }
            (MembershipState::Attempt(attempt), NextState::Install) => {
                let working = attempt.install(&mut self.io, now);
                (MembershipState::Working(Box::new(working)), NextState::Stay)
            }
            (state, _) => (state, NextState::Stay),
        };
        next
    }

    /// The timers follow how far those are with whom this node is, or wants to be.
    fn follow(&mut self) {
        //= M60
        match &self.state {
            MembershipState::Working(_) => {
                let members = self.io.installed.members.clone();
                self.io.follow(&members);
            }
            MembershipState::Gather(gather) => self.io.follow(&gather.gathering.sets.candidates()),
            MembershipState::Attempt(attempt) => self.io.follow(&attempt.members),
            MembershipState::Still | MembershipState::Left => {}
        }
    }

    fn gather(&mut self, now: Instant, mut sets: Sets, why: &Why) -> (MembershipState, NextState) {
        //= M10
        self.io.presence.wants = None;
        sets.take(self.io.me, why);
        let mut gather = GatherState::enter(&mut self.io, now, sets);
        let next = gather.try_propose(&mut self.io, now);
        (MembershipState::Gather(Box::new(gather)), next)
    }

    fn finish(&mut self, now: Instant, next: NextState) {
        self.go(now, next);
        if !matches!(self.state, MembershipState::Still | MembershipState::Left) {
            self.io.reserve();
        }
    }
}
