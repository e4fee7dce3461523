//! Safe messages while the token rests: members say at once what they hold, and no rotation has to collect it.
use super::Circle;
use super::idle::Wanted;
use crate::engine::Io;
use crate::flow;
use crate::packet::{Data, Held, Packet};
use crate::timer::Timer;
use consort_order::To;
use consort_types::{Instant, MemberId, Seq};
use consort_wire::Lane;

/// So few members tell each other what they hold. More of them tell the one that asks, which tells all: that takes a hop more, and
/// packets in proportion to the members, not to their square.
const FEW: usize = 3;

/// What members said outside of rotations.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// What each member said it holds everything up to, in the order of the ring.
    held: Vec<Seq>,
    /// What somebody said that all hold everything up to.
    proven: Seq,
    /// Who is told, once this node holds everything up to there.
    owed: Option<(MemberId, Seq)>,
    /// Somebody asked who holds everything up to here.
    in_question: Seq,
    /// What this node has asked for and the others have not been told of.
    untold: Option<Untold>,
    /// Until then the representative waits for what members say.
    pub(super) patience: Option<Instant>,
}

/// Places of packets that asked.
#[derive(Clone, Copy, Debug)]
struct Untold {
    first: Seq,
    last: Seq,
}

impl Said {
    /// Nothing was said in a ring of so many.
    pub fn of(members: usize) -> Self {
        let none = Seq(0);
        Self { held: vec![none; members], proven: none, owed: None, in_question: none, untold: None, patience: None }
    }
}

impl Data {
    /// Whether the one that it comes from wants to know who holds it.
    pub fn asks_for(&self, from: MemberId) -> bool {
        self.asks && !self.retransmission && self.originator == from.node
    }
}

impl Circle {
    /// Marks the last of the packets that are about to be sent while the token is lent, if one of them is safe.
    pub(super) fn ask_who_holds(&mut self) {
        //= R48
        let safe = self.fresh.iter().any(|data| data.content.is_safe());
        let Some(packet) = self.fresh.last_mut().filter(|_| safe) else { return };
        packet.asks = true;
        let last = packet.seq;
        self.said.in_question = last;
        let untold = self.said.untold.filter(|untold| untold.last > self.stable);
        self.said.untold = Some(Untold { first: untold.map_or(last, |untold| untold.first), last });
    }

    /// A packet came that asks. Whether the stable line moved.
    pub fn on_asked(&mut self, io: &mut Io, by: MemberId, seq: Seq) -> bool {
        //= R48
        self.said.in_question = self.said.in_question.max(seq);
        // It gave the token back, so it lacked nothing.
        self.note_held(by, seq);
        // Who asked for less hears of it from the one that asked for more.
        if self.said.owed.is_none_or(|(_, known)| known < seq) {
            self.said.owed = Some((by, seq));
        }
        self.say_what_is_owed(io)
    }

    /// Tells whoever asked, once everything up to there is held. Whether the stable line moved.
    pub fn say_what_is_owed(&mut self, io: &mut Io) -> bool {
        //= R48
        let held = |seq| self.store.aru() >= seq || crate::mutated!(io.config, HeldBlindly);
        let Some((by, _)) = self.said.owed.filter(|(_, seq)| held(*seq)) else { return false };
        self.said.owed = None;
        if self.are_few() {
            self.say_to_all(io);
        } else {
            self.say(io, To::One(by.node), Lane::Token);
        }
        self.prove(io)
    }

    /// A member says what it holds. Whether the stable line moved.
    pub fn on_held(&mut self, io: &mut Io, from: MemberId, held: Held) -> bool {
        //= R48
        if held.ring != self.ring {
            io.counters.foreign_ring += 1;
            return false;
        }
        //= R24
        if held.aru > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
            return false;
        }
        self.note_held(from, held.aru);
        self.said.proven = self.said.proven.max(held.stable);
        self.prove(io)
    }

    /// Whether somebody asked who holds a safe message that is not known to be held by all.
    pub(super) fn awaits_proof(&self) -> bool {
        self.stable < self.said.in_question
    }

    /// Until when the token may rest that is back: not for long while something is in question.
    pub(super) fn rests_until(&mut self, io: &Io, now: Instant) -> Instant {
        //= R48
        if !self.awaits_proof() {
            self.said.patience = None;
            return self.idle.round_at;
        }
        let patience = *self.said.patience.get_or_insert(now + io.config.timers.hold / 25);
        patience.min(self.idle.round_at)
    }

    fn are_few(&self) -> bool {
        self.members.len() <= FEW
    }

    fn note_held(&mut self, member: MemberId, aru: Seq) {
        let place = self.members.iter().position(|known| *known == member);
        if let Some(held) = place.and_then(|place| self.said.held.get_mut(place)) {
            *held = aru.max(*held);
        }
    }

    /// Moves the stable line to what all others said they hold, as far as this node holds it, too.
    fn prove(&mut self, io: &mut Io) -> bool {
        //= R48
        let others = self.members.iter().zip(&self.said.held).filter(|(member, _)| **member != self.me);
        let others = others.map(|(_, held)| *held);
        let least = if crate::mutated!(io.config, HeldByOne) { others.max() } else { others.min() };
        let proven = least.unwrap_or_default().max(self.said.proven).min(self.store.aru());
        let before = self.stable;
        if proven <= before {
            return false;
        }
        self.stable = proven;
        self.tell_what_is_proven(io, before);
        if !self.awaits_proof() {
            self.said.patience = None;
            if self.idle.parked.is_some() && self.idle.wanted == Wanted::ByNobody {
                io.timers.arm(Timer::Hold, self.idle.round_at);
            }
        }
        true
    }

    /// Tells all that what this node asked for is stable, unless they heard each other or a rotation proved it.
    fn tell_what_is_proven(&mut self, io: &mut Io, before: Seq) {
        //= R48
        let Some(untold) = self.said.untold.filter(|untold| untold.first <= self.stable) else { return };
        self.said.untold = (self.stable < untold.last).then_some(Untold { first: self.stable.next(), ..untold });
        if before < untold.last && !self.are_few() {
            self.say_to_all(io);
        }
    }

    fn say_to_all(&self, io: &mut Io) {
        self.say(io, To::All, Lane::Data);
    }

    fn say(&self, io: &mut Io, to: To, lane: Lane) {
        let mut held = Held { ring: self.ring, aru: self.store.aru(), stable: self.stable };
        if crate::mutated!(io.config, HeldBlindly) {
            held.aru = held.aru.max(self.said.in_question);
        }
        io.send(to, lane, Packet::Held(held));
    }
}
