//! From one view to the next: what the membership asks for.
use super::room::Room;
use super::{ClosingStage, Toto};
use crate::delivery::DeliveryContext;
use crate::packet::TotoPacket;
use consort_member::vs::{Holdings, MembershipAction, PrimaryCall, ViewChange};
use consort_order::{Lane, Output};
use consort_types::Instant;

impl Toto {
    /// Does what the membership asks for.
    pub(super) fn obey(&mut self, now: Instant) {
        while let Some(act) = self.vs.poll() {
            match act {
                MembershipAction::Send { to, packet } => {
                    self.output.push_back(Output::Send { to, lane: Lane::Control, packet: TotoPacket::Member(packet) });
                }
                MembershipAction::Persist { ticket, record } => {
                    self.output.push_back(Output::Persist { ticket, record, sync: true });
                }
                MembershipAction::Trim { up_to } => self.output.push_back(Output::Trim { up_to }),
                MembershipAction::Beacon { from, annotation } => {
                    self.output.push_back(Output::Beacon { from, annotation })
                }
                MembershipAction::Speak => self.speak(now),
                MembershipAction::Halt => self.halt(),
                MembershipAction::Tell => self.tell(now),
                MembershipAction::Fetch(cut) => {
                    self.stage = ClosingStage::Fetching(*cut);
                    self.begin_fetch(now);
                }
                MembershipAction::Install(change) => self.install(now, *change),
                MembershipAction::Settled => self.primary_due = true,
                MembershipAction::Renounce => self.renounce(),
                MembershipAction::Left => self.output.push_back(Output::Left),
            }
        }
    }

    fn renounce(&mut self) {
        //= V19
        if let Some(room) = &mut self.room {
            room.deliverer.call = PrimaryCall::Renounced;
        }
    }

    fn halt(&mut self) {
        self.stage = ClosingStage::Halted;
        self.primary_due = false;
        self.ack_at = None;
    }

    /// From here on what is held is what is told, and nothing is delivered: what one has delivered must follow from what
    /// all go by.
    fn tell(&mut self, now: Instant) {
        //= A30
        self.stage = ClosingStage::Frozen;
        let holding = match &self.room {
            Some(room) => {
                Holdings { held: room.dag.held_vector(), stable: room.dag.stable().to_vec(), ..Holdings::default() }
            }
            None => Holdings::default(),
        };
        self.vs.tell(now, holding);
    }

    fn begin_fetch(&mut self, now: Instant) {
        if let Some(room) = &mut self.room {
            room.repair.forget();
        }
        #[cfg(feature = "mutants")]
        if crate::mutated!(self.config, CrashEarly)
            && let (Some(room), ClosingStage::Fetching(cut)) = (&mut self.room, &self.stage)
        {
            let stays: Vec<_> = room.view.members.iter().map(|member| cut.together.contains(member)).collect();
            room.votes.close(&stays);
            self.release();
            self.deliver();
        }
        self.fetch(now);
    }

    /// Says so once the whole agreed set is held.
    pub(super) fn fetch(&mut self, now: Instant) {
        let (Some(room), ClosingStage::Fetching(cut)) = (&self.room, &self.stage) else { return };
        let complete = (0..room.dag.n()).all(|place| room.dag.held(place) >= cut.held[place]);
        if complete || crate::mutated!(self.config, InsertedBlindly) {
            self.vs.complete(now);
        }
    }

    /// Closes the view and installs the next, in one step.
    fn install(&mut self, now: Instant, change: ViewChange) {
        //= A33
        let me = self.vs.me();
        if let (Some(mut room), Some(closing)) = (self.room.take(), &change.closing) {
            let agreed = room.dag.held_vector() == change.cut.held || cfg!(feature = "mutants");
            self.check(agreed, "A30: what is held is the agreed set");
            self.close(&mut room, &change);
            self.output.push_back(Output::Install(closing.clone()));
            self.finish_room(&mut room, &change);
            let told = self.queue.all_delivered() || cfg!(feature = "mutants");
            self.check(told, "A33: all own messages of the old view are delivered");
            if !crate::mutated!(self.config, PartForgotten) {
                self.queue.begin_anew();
            }
            self.queue.close_gate(change.view.id);
        }
        self.room = Some(Room::new(&self.config, change.view.clone(), me, now));
        self.output.push_back(Output::Install(change.view));
        self.stage = ClosingStage::Open;
        self.primary_due = false;
        self.ack_at = None;
    }

    /// The regular part: what the agreed set gives by the votes in it, whoever is gone.
    fn close(&mut self, room: &mut Room, change: &ViewChange) {
        //= A30
        if crate::mutated!(self.config, ClosesTooSoon) {
            return;
        }
        self.release_in(room);
        // Not by what this member alone has learnt to be stable since it told: the others would stop elsewhere.
        let alone = crate::mutated!(self.config, KnowsAlone);
        let stable = if alone { room.dag.stable() } else { &change.cut.stable };
        let mut way = DeliveryContext { config: &self.config, queue: &mut self.queue, output: &mut self.output };
        room.deliverer.advance(&mut way, stable);
    }

    /// The transitional part: what remains is decided by who is gone, and that whoever stays holds it all.
    fn finish_room(&mut self, room: &mut Room, change: &ViewChange) {
        //= A31
        //= A33
        let together = &change.cut.together;
        let stays: Vec<_> = room.view.members.iter().map(|member| together.contains(member)).collect();
        room.votes.close(&stays);
        if !crate::mutated!(self.config, RestLeftOut) {
            self.release_in(room);
        }
        let mut way = DeliveryContext { config: &self.config, queue: &mut self.queue, output: &mut self.output };
        room.deliverer.finish(&mut way);
        self.counters.torn += room.deliverer.torn;
        self.counters.activations += room.votes.activations;
        let rest = room.votes.waiting() == 0 || cfg!(feature = "mutants");
        self.check(rest, "A32: with all votes cast nothing remains undecided");
    }
}
