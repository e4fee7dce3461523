//! What the membership asks for: the end of one view and the beginning of the next.
use super::{Plato, ViewStage};
use crate::packet::PlatoPacket;
use crate::receiver::ViewReceiver;
use crate::sequencer::Sequencer;
use crate::streams::Streams;
use consort_member::vs::{Holdings, MembershipAction, PrimaryCall, ViewChange};
use consort_order::Output;
use consort_wire::Lane;

impl Plato {
    /// Does what the membership asks for, until it asks for nothing more.
    pub(super) fn do_acts(&mut self) {
        while let Some(act) = self.membership.poll() {
            match act {
                MembershipAction::Send { to, packet } => {
                    let packet = PlatoPacket::Membership(packet);
                    self.io.output.push_back(Output::Send { to, lane: Lane::Control, packet });
                }
                MembershipAction::Persist { ticket, record } => {
                    self.io.output.push_back(Output::Persist { ticket, record, sync: true });
                }
                MembershipAction::Trim { up_to } => self.io.output.push_back(Output::Trim { up_to }),
                MembershipAction::Beacon { from, annotation } => {
                    self.io.output.push_back(Output::Beacon { from, annotation })
                }
                MembershipAction::Speak => self.speak(),
                MembershipAction::Halt => self.halt(),
                MembershipAction::Tell => self.freeze(),
                MembershipAction::Fetch(cut) => {
                    self.stage = ViewStage::Fetching(cut);
                    self.see_to_fetching();
                    self.see_to_links();
                }
                MembershipAction::Install(change) => self.install(&change),
                MembershipAction::Settled => self.settled = true,
                MembershipAction::Renounce => self.receiver.call = PrimaryCall::Renounced,
                MembershipAction::Left => self.io.output.push_back(Output::Left),
            }
        }
    }

    /// The view ends. What the sequencer has given away is told now: it may have delivered by it.
    fn halt(&mut self) {
        //= P40
        if !crate::mutated!(self.config, ListKept) {
            self.tell_places(true);
        }
        self.stage = ViewStage::Halted;
    }

    fn freeze(&mut self) {
        //= P41
        self.stage = ViewStage::Frozen;
        if !crate::mutated!(self.config, GapsKept) {
            self.streams.forget_parked();
        }
        self.deliver();
        let holding = Holdings {
            held: self.streams.held().to_vec(),
            stable: self.streams.stable().to_vec(),
            ..Holdings::default()
        };
        self.membership.tell(self.now, holding);
    }

    /// Closes the view and begins the next, in one step.
    fn install(&mut self, change: &ViewChange) {
        if let Some(closing) = &change.closing {
            //= P43
            let early = crate::mutated!(self.config, NoTransitional);
            if early {
                self.close();
            }
            if !crate::mutated!(self.config, KnowsAlone) {
                self.receiver.learn(&change.cut.stable);
            }
            self.receiver.deliver(&mut self.io);
            self.io.output.push_back(Output::Install(closing.clone()));
            if !early {
                self.close();
            }
        }
        self.begin(change);
    }

    /// Everything that was agreed on is delivered, in an order that all find out alike.
    fn close(&mut self) {
        //= P42
        self.receiver.begin_to_close(&mut self.io);
        let own: Vec<_> = self.loopback.end().collect();
        for key in own {
            self.receiver.arrive(&mut self.io, self.now, key, self.now, false);
        }
        self.receiver.close(&mut self.io, self.now);
    }

    fn begin(&mut self, change: &ViewChange) {
        //= P45
        let (view, me) = (&change.view, self.me());
        let _ = self.loopback.end().count();
        self.streams = Streams::new(view.id, &view.members, me, self.config.window.packets);
        self.receiver = ViewReceiver::new(view.id, &view.members, me);
        #[cfg(feature = "mutants")]
        {
            self.streams = self.streams.clone().mutate(self.config.mutant);
            self.receiver = self.receiver.clone().mutate(self.config.mutant);
        }
        self.sequencer = Sequencer::default();
        self.stage = ViewStage::Open;
        self.settled = false;
        self.forget_links();
        self.laggards = super::links::laggards(&self.config, self.now, view.members.len());
        if !crate::mutated!(self.config, PartForgotten) {
            self.io.queue.begin_anew();
        }
        self.io.queue.close_gate(view.id);
        if crate::mutated!(self.config, OpenGate) {
            self.io.queue.open_gate(view.id);
        }
        self.io.output.push_back(Output::Install(view.clone()));
    }
}
