//! Safe messages while the token rests: members say at once what they hold, and no rotation has to collect it.
use super::Circle;
use super::idle::Wanted;
use crate::engine::Io;
use crate::packet::{Data, Held, Packet};
use crate::timer::Timer;
use consort_order::To;
use consort_types::{Duration, MemberId, Seq};
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
    /// Who asked last, and up to where; it is told once all that is held here.
    asked: Option<(MemberId, Seq)>,
    /// The last place that anybody asked for.
    last_asked: Seq,
    /// The first and the last place that this node asked for and has told nobody to be stable.
    untold: Option<(Seq, Seq)>,
}

impl Said {
    /// Nothing was said in a ring of so many.
    pub fn of(members: usize) -> Self {
        Self { held: vec![Seq(0); members], proven: Seq(0), asked: None, last_asked: Seq(0), untold: None }
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
        let Some(last) = self.fresh.last_mut().filter(|_| safe) else { return };
        last.asks = true;
        self.said.last_asked = last.seq;
        let untold = self.said.untold.filter(|(_, known)| *known > self.stable);
        let first = untold.map_or(last.seq, |(first, _)| first);
        self.said.untold = Some((first, last.seq));
    }

    /// Tells whoever asked, now or before, once everything up to there is held. Whether the stable line moved.
    pub fn say_what_is_held(&mut self, io: &mut Io, asks: Option<(MemberId, Seq)>) -> bool {
        //= R48
        if let Some((by, seq)) = asks {
            self.said.asked = Some((by, seq));
            self.said.last_asked = self.said.last_asked.max(seq);
            // It gave the token back, so it lacked nothing.
            self.note_held(by, seq);
        }
        let aru = self.store.aru();
        let blindly = crate::mutated!(io.config, HeldBlindly);
        let Some((by, seq)) = self.said.asked.filter(|(_, seq)| aru >= *seq || blindly) else { return false };
        self.said.asked = None;
        self.send_held(io, To::One(by.node), if blindly { aru.max(seq) } else { aru });
        self.prove(io)
    }

    /// A member says what it holds. Whether the stable line moved.
    pub fn on_held(&mut self, io: &mut Io, from: MemberId, held: Held) -> bool {
        //= R48
        if held.ring != self.ring {
            io.counters.unexpected += 1;
            return false;
        }
        self.note_held(from, held.aru);
        self.said.proven = self.said.proven.max(held.stable);
        self.prove(io)
    }

    /// Whether something safe was numbered while the token was lent that is not known to be held by all.
    pub(super) fn awaits_proof(&self) -> bool {
        self.stable < self.said.last_asked
    }

    /// How long the representative waits for what members hold before it sends the token round.
    pub(super) fn patience(io: &Io) -> Duration {
        //= R48
        io.config.timers.hold / 25
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
        if proven <= self.stable {
            return false;
        }
        self.stable = proven;
        self.tell_all(io);
        if self.idle.parked.is_some() && self.idle.wanted == Wanted::ByNobody && !self.awaits_proof() {
            io.timers.arm(Timer::Hold, self.idle.round_at);
        }
        true
    }

    /// Tells all that what this node asked for is stable, where the others did not hear each other.
    fn tell_all(&mut self, io: &mut Io) {
        //= R48
        let Some((_, last)) = self.said.untold.filter(|(first, _)| self.stable >= *first) else { return };
        self.said.untold = (self.stable < last).then_some((self.stable.next(), last));
        if self.members.len() > FEW {
            self.send_held(io, To::All, self.store.aru());
        }
    }

    fn send_held(&self, io: &mut Io, to: To, aru: Seq) {
        let to = if self.members.len() > FEW { to } else { To::All };
        let lane = if to == To::All { Lane::Data } else { Lane::Token };
        io.send(to, lane, Packet::Held(Held { ring: self.ring, aru, stable: self.stable }));
    }
}
