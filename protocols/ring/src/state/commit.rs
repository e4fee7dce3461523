//! Commit: the agreed members tell each other what they hold of their old rings. From here on the old ring's store is
//! frozen: what arrives now was not told, and must not make a difference.
//!
//! Leaves for Recovery with the second rotation, or back to Gather.
use super::StateChange;
use super::{Sets, Why};
use crate::RingId;
use crate::installation::Old;
use crate::io::RingIo;
use crate::packet::{Commit, DataPacket, OldRing, Proposal, RingPacket, SEQS_ALL};
use crate::timer::{Span, Timer};
use consort_order::Destination;
use consort_types::{Instant, MemberId, Seq};
use consort_wire::Lane;

/// The state's data.
#[derive(Clone, Debug)]
pub(crate) struct Committing {
    pub old: Old,
    pub sets: Sets,
    /// What this member passed on, with its own entry.
    commit: Commit,
}

impl Committing {
    /// Whether a commit token is one to take part in: in its first rotation, from this member's predecessor on the ring
    /// to be, next to be told by this member, and newer than any other it took part in.
    pub fn is_my_turn(io: &RingIo, from: MemberId, commit: &Commit) -> bool {
        //= M21
        //= M03
        let told = commit.told();
        let mine = commit.members.get(told).is_some_and(|(member, _)| *member == io.me);
        let of_predecessor = told > 0 && commit.members[told - 1].0 == from;
        let newer = io.attempt.is_none_or(|attempt| commit.ring.number > attempt.number)
            && commit.ring.number > io.installed_number
            || crate::mutated!(io.config, NumberReused);
        commit.rotation == 1 && mine && of_predecessor && newer && io.presence.numbers.may_use(commit.ring.number)
    }

    /// Enters with a token in which this member is the next to tell; `None` where what it holds does not fit into it.
    pub fn enter(
        io: &mut RingIo,
        now: Instant,
        mut old: Old,
        sets: Sets,
        mut commit: Commit,
    ) -> Result<Self, Box<(Old, Sets)>> {
        //= M22
        io.timers.disarm_all_but(&[Timer::Beacon, Timer::Leave]);
        if !tell(io, &old, &mut commit) {
            return Err(Box::new((old, sets)));
        }
        old.freeze();
        io.take_part(commit.ring);
        let committing = Self { old, sets, commit };
        committing.pass_on(io, now);
        io.wait(Timer::TokenLoss, now, Span::TokenLoss);
        Ok(committing)
    }

    /// What a ring of one commits to: the token has already been everywhere.
    pub fn alone(&self) -> Commit {
        Commit { rotation: 2, ..self.commit.clone() }
    }

    fn pass_on(&self, io: &mut RingIo, now: Instant) {
        send(io, &self.commit);
        io.timers.arm(Timer::TokenRetransmit, now + io.timeouts.token_retransmit);
    }

    /// Nothing shows that the commit token moved on.
    pub fn on_retransmit(&self, io: &mut RingIo, now: Instant) {
        io.counters.tokens_retransmitted += 1;
        self.pass_on(io, now);
        //= M23
        io.send(Destination::All, Lane::Control, RingPacket::Commit(self.commit.clone()));
    }

    /// The token came back, or came by a second time.
    pub fn on_commit(&mut self, io: &mut RingIo, now: Instant, from: MemberId, commit: Commit) -> StateChange {
        //= M23
        let mine = commit.ring == self.commit.ring && self.stands_in(&commit);
        let place = commit.members.iter().position(|(member, _)| *member == io.me).unwrap_or(0);
        let n = commit.members.len();
        let of_predecessor = commit.members[(place + n - 1) % n].0 == from;
        match (mine && of_predecessor, commit.rotation, place) {
            (true, 1, 0) | (true, 2, 1..) => StateChange::Recover(Commit { rotation: 2, ..commit }),
            _ if commit.member_ids() == self.commit.member_ids() && Self::is_my_turn(io, from, &commit) => {
                // The same members try again: what this member told stands, for nothing was added to it since.
                self.commit = commit;
                if !tell(io, &self.old, &mut self.commit) {
                    return StateChange::Stay;
                }
                io.take_part(self.commit.ring);
                self.pass_on(io, now);
                StateChange::Stay
            }
            _ => {
                io.counters.unexpected += 1;
                StateChange::Stay
            }
        }
    }

    /// Whether all have told, and what this member told stands: others may only have widened it. Recovery makes room for
    /// whatever the token says is held.
    fn stands_in(&self, commit: &Commit) -> bool {
        //= M23
        let place = self.commit.told().saturating_sub(1);
        let mine = |commit: &Commit| -> Option<(RingId, Seq, Seq)> {
            let index = commit.members.get(place)?.1?;
            let old = commit.olds.get(usize::from(index))?;
            Some((old.ring, old.held.base(), old.held.highest()))
        };
        let (Some(told), Some(says)) = (mine(&self.commit), mine(commit)) else { return false };
        let widened = says.0 == told.0 && says.1 <= told.1 && says.2 >= told.2;
        widened && commit.told() == commit.members.len() && commit.member_ids() == self.commit.member_ids()
    }

    /// A member of the ring to be has gone back to gathering.
    pub fn on_join(&self, io: &RingIo, from: MemberId, join: &Proposal) -> StateChange {
        //= M24
        gave_up(&self.commit, &self.sets, io, from, join)
    }

    /// A packet of the old ring, too late: others were told what is held.
    pub fn on_data(&mut self, io: &mut RingIo, data: DataPacket) {
        //= M24
        if crate::mutated!(io.config, StoreUnfrozen) && data.ring == self.old.installed.view.id {
            self.old.store.insert(data);
            return;
        }
        io.counters.unexpected += 1;
    }

    /// Who is to be in the ring.
    pub fn candidates(&self) -> Vec<MemberId> {
        self.commit.member_ids()
    }

    /// For `status`.
    pub fn describe(&self) -> String {
        format!("committing to ring {} of {}", self.commit.ring, self.commit.members.len())
    }
}

/// A JOIN in Commit or Recovery: news from a member that knows of this attempt and has left it, or a good-bye.
pub(super) fn gave_up(commit: &Commit, sets: &Sets, io: &RingIo, from: MemberId, join: &Proposal) -> StateChange {
    //= M40
    let member = commit.members.iter().any(|(member, _)| *member == from);
    if !member || join.number < commit.ring.number && !join.leave || join.fail.contains(&io.me) && !join.leave {
        return StateChange::Stay;
    }
    let mut why = Why::new(sets.trigger.clone());
    if join.leave {
        why = why.failing(from, super::Reason::Left);
    }
    StateChange::gather(why)
}

/// Passes a commit token to the next member.
pub(super) fn send(io: &mut RingIo, commit: &Commit) {
    let place = commit.members.iter().position(|(member, _)| *member == io.me).unwrap_or(0);
    let successor = commit.members[(place + 1) % commit.members.len()].0;
    if successor != io.me {
        io.send(Destination::One(successor.node), Lane::Token, RingPacket::Commit(commit.clone()));
    }
}

/// Adds what this member holds of its old ring.
fn tell(io: &RingIo, old: &Old, commit: &mut Commit) -> bool {
    //= M22
    let Some(place) = commit.members.iter().position(|(member, _)| *member == io.me) else { return false };
    let ring = old.installed.view.id;
    let known = commit.olds.iter().position(|known| known.ring == ring);
    let index = known.unwrap_or(commit.olds.len());
    let first = known.and_then(|known| commit.members.iter().position(|(_, from)| *from == Some(known as u8)));
    if known.is_none() {
        let (obligations, held) = Default::default();
        commit.olds.push(OldRing { ring, line: old.line(), obligations, held });
    }
    let (Ok(index), Ok(place)) = (u8::try_from(index), u8::try_from(place)) else { return false };
    let entry = &mut commit.olds[usize::from(index)];
    entry.line = entry.line.max(old.line());
    if !crate::mutated!(io.config, ObligationsForgotten) {
        entry.obligations.extend(&old.installed.obligations);
    }
    commit.members[usize::from(place)].1 = Some(index);
    let store = &old.store;
    let holds = |seq| store.get(seq).is_some() || crate::mutated!(io.config, ToldUnheld);
    let forgets = crate::mutated!(io.config, MapNotExtended) && known.is_some();
    let aru = if forgets { store.aru().max(entry.held.base()) } else { store.aru() };
    let fits = entry.held.tell(place, first.map(|first| first as u8), aru, store.highest().max(aru), holds);
    fits && commit.seqs() <= SEQS_ALL
}
