//! The election without clock or connection: what happened comes in, what is to be sent and told comes out.
//!
//! The rules are in `docs/protocols/leadership.md`. A driver hands in each event of a session in the order in which it was
//! received, with the time at which it was received, and takes all effects before the next one.
use crate::{Act, CandidateId, Command, Fence, Timing};
use consort_types::Instant;
use std::collections::VecDeque;
use std::time::Duration;

#[cfg(any(test, feature = "mutants"))]
mod broken;
#[cfg(any(test, feature = "mutants"))]
pub use self::broken::Mutant;

#[cfg(any(test, feature = "mutants"))]
macro_rules! mutated {
    ($election:expr, $mutant:ident) => {
        $election.broken == Some(Mutant::$mutant)
    };
}
#[cfg(not(any(test, feature = "mutants")))]
macro_rules! mutated {
    ($election:expr, $mutant:ident) => {
        false
    };
}

/// So many messages may be under way, of views that are over, too.
const UNSETTLED_MAX: usize = 3;

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this to the group, numbered and *safe*.
    Send(Command),
    /// Tell the program.
    Tell(Notice),
}

/// What a program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This candidate leads from here on, until its lease ends; the lease is renewed without a word.
    Elected {
        /// Its fence.
        fence: Fence,
        /// When its lease ends as of now, on its own clock.
        until: Instant,
    },
    /// This candidate leads no more.
    Lost {
        /// Under this fence.
        fence: Fence,
        /// Why.
        cause: LostCause,
    },
    /// A candidate leads, which may be this one: as far as the order has been received.
    Leader {
        /// Who.
        candidate: CandidateId,
        /// Its fence.
        fence: Fence,
    },
    /// The leader resigned.
    NoLeader,
}

/// Why a candidate leads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// Its lease ended before it was renewed.
    Expired,
    /// It wanted so.
    Resigned,
    /// Another candidate has claimed.
    Replaced,
}

/// One candidate's part of the election of one group.
#[derive(Debug)]
pub struct Election {
    me: CandidateId,
    timing: Timing,
    stands: bool,
    view: Option<OpenView>,
    leader: Option<Known>,
    lease: Option<Lease>,
    flight: Option<Flight>,
    /// The serials of what has no fate yet.
    unsettled: Vec<u64>,
    serial: u64,
    effects: VecDeque<Effect>,
    #[cfg(any(test, feature = "mutants"))]
    broken: Option<Mutant>,
}

/// The regular view in which what is received stands.
#[derive(Clone, Copy, Debug)]
struct OpenView {
    number: u64,
    stage: Stage,
    /// Where the first message of any candidate stands that was received in it.
    start: Option<u128>,
    /// Where the last claim, renewal or resignation stands.
    touched: Option<u128>,
    /// When `start` or `touched` was received.
    since: Instant,
    /// Its leader resigned, and nothing happened since.
    free: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Regular,
    Closing,
}

/// The leader as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    candidate: CandidateId,
    fence: Fence,
    /// Its election was seen, or nothing before its renewal was missed.
    sure: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    fence: Fence,
    until: Instant,
    renew_at: Instant,
}

/// What was sent, until it is received.
#[derive(Clone, Copy, Debug)]
struct Flight {
    serial: u64,
    sent: Instant,
}

/// What a claim or a resignation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Effective,
    Void,
    /// What stands before its anchor was not received, and nothing behind it that touched the lease: it may be either.
    Unsure,
}

impl OpenView {
    const fn new(number: u64, now: Instant) -> Self {
        Self { number, stage: Stage::Regular, start: None, touched: None, since: now, free: false }
    }

    const fn touch(&mut self, now: Instant, position: u128) {
        //= L05
        self.touched = Some(position);
        self.since = now;
        self.free = false;
    }

    fn verdict(&self, anchor: u128) -> Verdict {
        //= L06
        match (self.start.is_some_and(|start| start <= anchor), self.touched.is_none_or(|touched| touched <= anchor)) {
            (_, false) => Verdict::Void,
            (false, true) => Verdict::Unsure,
            (true, true) => Verdict::Effective,
        }
    }
}

impl Election {
    /// A candidate's part, before anything was received. It leads only while it *stands*: [`Self::stand`].
    pub const fn new(me: CandidateId, timing: Timing) -> Self {
        Self {
            me,
            timing,
            stands: false,
            view: None,
            leader: None,
            lease: None,
            flight: None,
            unsettled: Vec::new(),
            serial: 0,
            effects: VecDeque::new(),
            #[cfg(any(test, feature = "mutants"))]
            broken: None,
        }
    }

    /// Whose part it is.
    pub const fn candidate(&self) -> CandidateId {
        self.me
    }

    /// The fence under which it leads at a time on its own clock.
    pub fn leads(&self, now: Instant) -> Option<Fence> {
        self.lease.filter(|lease| now < lease.until).map(|lease| lease.fence)
    }

    /// Its fence and when its lease ends, if it has one.
    pub fn lease(&self) -> Option<(Fence, Instant)> {
        self.lease.map(|lease| (lease.fence, lease.until))
    }

    /// Who leads, as far as is known.
    pub fn leader(&self) -> Option<(CandidateId, Fence)> {
        self.leader.map(|leader| (leader.candidate, leader.fence))
    }

    /// What is to be done next.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ends = self.lease.map(|lease| lease.until);
        let lands = self.flight.map(|flight| flight.sent + self.timing.lease());
        let acts = self.view.as_ref().filter(|_| self.may_send()).and_then(|view| match self.lease {
            Some(lease) => Some(lease.renew_at),
            None if self.stands && view.start.is_some() => Some(view.since + self.patience()),
            None => None,
        });
        [ends, lands, acts].into_iter().flatten().min()
    }

    /// It wants to lead, from now on.
    pub fn stand(&mut self, now: Instant) {
        self.stands = true;
        self.act(now);
    }

    /// It wants to lead no more. If it leads it stops at once, and others need not wait.
    pub fn resign(&mut self, now: Instant) {
        //= L10
        self.stands = false;
        let leads = self.leads(now).is_some();
        self.lose(LostCause::Resigned);
        let open = self.view.filter(|view| view.stage == Stage::Regular && leads);
        if let Some(anchor) = open.and_then(|view| view.touched) {
            self.flight = None;
            self.send(now, Act::Resign { anchor });
        }
    }

    /// A regular view begins, or is the one in which a new connection stands.
    pub fn handle_view(&mut self, now: Instant, number: u64) {
        //= L03
        if mutated!(self, HolesIgnored) && self.view.is_some_and(|view| view.number == number) {
            return;
        }
        let since = self.view.map(|view| view.since);
        if !mutated!(self, AnyViewCounts) {
            self.flight = None;
        }
        self.view = Some(OpenView::new(number, now));
        if let (Some(view), Some(since)) = (&mut self.view, since)
            && mutated!(self, WaitGoesOn)
        {
            (view.start, view.since) = (Some(0), since);
        }
        self.doubt();
        if let Some(lease) = &mut self.lease {
            lease.renew_at = now;
        }
        self.act(now);
    }

    /// The view is closing.
    pub fn handle_closing(&mut self, now: Instant) {
        //= L04
        if mutated!(self, ClosingCounts) {
            return;
        }
        self.flight = None;
        if let Some(view) = &mut self.view {
            view.stage = Stage::Closing;
        }
        self.act(now);
    }

    /// The connection was lost: what is received next does not follow what was received last.
    pub fn handle_hole(&mut self, now: Instant) {
        //= L08
        if mutated!(self, HolesIgnored) {
            return;
        }
        self.flight = None;
        self.view = None;
        self.doubt();
        self.act(now);
    }

    /// A message of this election was received, in the order.
    pub fn handle_command(&mut self, now: Instant, position: u128, command: &Command) {
        // A renewal that is received too late finds no lease.
        self.expire(now);
        let flight = self.flight.filter(|flight| command.candidate == self.me && command.serial == flight.serial);
        self.flight = self.flight.filter(|_| flight.is_none());
        let any_view = mutated!(self, AnyViewCounts);
        let Some(view) = self.view.as_mut().filter(|view| any_view || view.number == command.view) else {
            return self.act(now);
        };
        if view.start.is_none() {
            //= L02
            (view.start, view.since) = (Some(position), now);
        }
        let flight = flight.map(|flight| if mutated!(self, LeaseFromReceipt) { now } else { flight.sent });
        match command.act {
            Act::Stand | Act::Say(_) | Act::Decide(..) => {}
            Act::Claim { anchor } => self.on_claim(now, position, (command.candidate, anchor), flight),
            Act::Renew { fence } => self.on_renew(now, position, (command.candidate, fence), flight),
            Act::Resign { anchor } => self.on_resign(now, position, anchor),
        }
        self.act(now);
    }

    /// What became of a message is known. One that is not ordered is no longer waited for.
    pub fn handle_settled(&mut self, now: Instant, serial: u64, ordered: bool) {
        self.unsettled.retain(|unsettled| *unsettled != serial);
        self.flight = self.flight.filter(|flight| ordered || flight.serial != serial);
        self.act(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.act(now);
    }

    /// Whether what was decided under a fence counts where the last message stands: no later leader is known there.
    pub fn is_current(&self, fence: Fence) -> bool {
        //= L11
        self.leader.is_none_or(|leader| fence >= leader.fence)
    }

    /// Names a message that a program sends through the election.
    pub const fn command(&mut self, act: Act) -> Command {
        self.serial += 1;
        let view = match &self.view {
            Some(view) => view.number,
            None => 0,
        };
        Command { candidate: self.me, serial: self.serial, view, act }
    }

    fn on_claim(&mut self, now: Instant, position: u128, claim: (CandidateId, u128), sent: Option<Instant>) {
        let Some(view) = &mut self.view else { return };
        let number = view.number;
        let verdict = match view.verdict(claim.1) {
            _ if mutated!(self, AnchorIgnored) => Verdict::Effective,
            Verdict::Unsure if mutated!(self, UnsureIsVoid) => return,
            verdict => verdict,
        };
        view.touch(now, position);
        if verdict == Verdict::Void {
            return;
        }
        let fence = if mutated!(self, FenceFromView) { Fence::new(number, 0) } else { Fence::new(number, position) };
        if claim.0 != self.me {
            self.lose(LostCause::Replaced);
        }
        self.know(Known { candidate: claim.0, fence, sure: verdict == Verdict::Effective });
        if let Some(sent) = sent.filter(|_| verdict == Verdict::Effective && claim.0 == self.me) {
            self.lead(now, fence, sent);
        }
    }

    fn on_renew(&mut self, now: Instant, position: u128, renewed: (CandidateId, Fence), sent: Option<Instant>) {
        let Some(view) = &mut self.view else { return };
        let first = view.touched.is_none();
        view.touch(now, position);
        let (candidate, fence) = renewed;
        if self.leader.is_some_and(|leader| leader.sure && leader.fence > fence) {
            return;
        }
        if candidate != self.me && self.lease.is_some_and(|lease| lease.fence < fence) {
            self.lose(LostCause::Replaced);
        }
        let same = self.leader.is_some_and(|leader| leader.sure && leader.fence == fence);
        self.know(Known { candidate, fence, sure: same || first });
        let held = self.lease.filter(|lease| lease.fence == fence && candidate == self.me);
        if let (Some(_), Some(sent)) = (held, sent) {
            self.lead(now, fence, sent);
        }
    }

    fn on_resign(&mut self, now: Instant, position: u128, anchor: u128) {
        //= L10
        let Some(view) = &mut self.view else { return };
        let verdict = view.verdict(anchor);
        view.touch(now, position);
        if verdict == Verdict::Effective {
            view.free = true;
            if self.leader.take().is_some() {
                self.effects.push_back(Effect::Tell(Notice::NoLeader));
            }
        }
    }

    /// A claim or renewal of its own stands, and the view is not closing.
    fn lead(&mut self, now: Instant, fence: Fence, sent: Instant) {
        //= L01
        let until = sent + self.timing.lease();
        if now >= until {
            return;
        }
        let elected = self.lease.is_none();
        self.lease = Some(Lease { fence, until, renew_at: sent + self.timing.renew() });
        if elected {
            self.effects.push_back(Effect::Tell(Notice::Elected { fence, until }));
        }
    }

    fn lose(&mut self, cause: LostCause) {
        if let Some(lease) = self.lease.take() {
            self.effects.push_back(Effect::Tell(Notice::Lost { fence: lease.fence, cause }));
        }
    }

    fn know(&mut self, leader: Known) {
        let before = self.leader.replace(leader);
        if before.is_none_or(|before| (before.candidate, before.fence) != (leader.candidate, leader.fence)) {
            let Known { candidate, fence, .. } = leader;
            self.effects.push_back(Effect::Tell(Notice::Leader { candidate, fence }));
        }
    }

    const fn doubt(&mut self) {
        if let Some(leader) = &mut self.leader {
            leader.sure = false;
        }
    }

    fn expire(&mut self, now: Instant) {
        //= L01
        if self.lease.is_some_and(|lease| now >= lease.until) {
            self.lose(LostCause::Expired);
        }
    }

    /// Does what is due.
    fn act(&mut self, now: Instant) {
        self.expire(now);
        // What is received so late is worth nothing.
        self.flight = self.flight.filter(|flight| now < flight.sent + self.timing.lease());
        let Some(view) = self.view.filter(|_| self.may_send()) else { return };
        match self.lease {
            //= L03
            Some(lease) if now >= lease.renew_at => self.send(now, Act::Renew { fence: lease.fence }),
            Some(_) => {}
            None => self.act_as_follower(now, &view),
        }
    }

    fn act_as_follower(&mut self, now: Instant, view: &OpenView) {
        let Some(start) = view.start else { return self.send(now, Act::Stand) };
        //= L07
        if self.stands && (view.free || now >= view.since + self.patience()) {
            self.send(now, Act::Claim { anchor: view.touched.unwrap_or(start) });
        }
    }

    fn patience(&self) -> Duration {
        if mutated!(self, NoWait) {
            return Duration::ZERO;
        }
        if mutated!(self, WaitOfOneLease) { self.timing.lease() } else { self.timing.wait() }
    }

    fn may_send(&self) -> bool {
        let regular = self.view.is_some_and(|view| view.stage == Stage::Regular);
        regular && self.flight.is_none() && self.unsettled.len() < UNSETTLED_MAX
    }

    fn send(&mut self, now: Instant, act: Act) {
        let command = self.command(act);
        self.flight = Some(Flight { serial: command.serial, sent: now });
        self.unsettled.push(command.serial);
        self.effects.push_back(Effect::Send(command));
    }
}
