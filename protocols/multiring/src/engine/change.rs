//! From one view to the next: what the membership of the whole network asks for.
use super::{MultiRing, Room, Stage};
use crate::key::RingNumber;
use crate::packet::RelayedContent;
use crate::port::{Part, Port};
use crate::tree::Tree;
use consort_member::vs::{Holdings, Link, MembershipAction, PrimaryCall, ViewChange};
use consort_order::{Destination, Engine, Output};
use consort_types::{Instant, View, ViewId, ViewKind};

impl MultiRing {
    /// Does what the membership asks for. Whether it asked for anything.
    pub(super) fn obey(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(act) = self.vs.poll() {
            any = true;
            match act {
                MembershipAction::Send { to, packet } => {
                    let to = match to {
                        Destination::All => None,
                        Destination::One(node) => Some(node),
                    };
                    self.say(to, RelayedContent::Member(packet));
                }
                MembershipAction::Persist { ticket, record } => {
                    let (ticket, record) = self.journal.add(0, ticket, &record);
                    self.output.push_back(Output::Persist { ticket, record, sync: true });
                }
                MembershipAction::Trim { up_to } => {
                    let up_to = self.journal.trim(0, up_to);
                    self.output.extend(up_to.map(|up_to| Output::Trim { up_to }));
                }
                MembershipAction::Beacon { from, annotation } => {
                    self.output.push_back(Output::Beacon { from, annotation });
                }
                MembershipAction::Speak => {
                    self.speak(now);
                    self.mend(now);
                }
                MembershipAction::Halt => self.halt(),
                MembershipAction::Tell => self.tell_due = true,
                MembershipAction::Fetch(cut) => self.begin_closing(now, *cut),
                MembershipAction::Install(change) => self.install(now, *change),
                MembershipAction::Settled => self.primary_due = true,
                MembershipAction::Renounce => {
                    //= V19
                    if let Some(room) = &mut self.room {
                        room.call = PrimaryCall::Renounced;
                    }
                }
                MembershipAction::Left => self.ports.values_mut().for_each(|port| port.ring.leave(now)),
            }
        }
        any
    }

    /// A ring has said good-bye: once all have, this node is gone.
    pub(super) fn on_ring_left(&mut self, ring: RingNumber) {
        if let Some(port) = self.ports.get_mut(&ring) {
            port.left = true;
        }
        if self.ports.values().all(|port| port.left) {
            self.output.push_back(Output::Left);
        }
    }

    fn halt(&mut self) {
        //= TM32
        self.stage = Stage::Halted;
        self.primary_due = false;
        self.end();
    }

    /// Tells what is held once every ring has closed here: from then on nothing of the view comes by any of them.
    pub(super) fn answer_tell(&mut self, now: Instant) -> bool {
        //= TM34
        let closed = self.ports.values().all(|port| port.part != Part::Begun);
        if !self.tell_due || !closed && !crate::mutated!(self.config, TellsUnclosed) {
            return false;
        }
        self.tell_due = false;
        self.stage = Stage::Frozen;
        let links = self.links();
        let holding = self.room.as_ref().map_or_else(Holdings::default, |room| Holdings {
            held: room.store.held().to_vec(),
            stable: room.store.stable(),
            //= TM43
            hollow: room.store.is_hollow() && !crate::mutated!(self.config, BetweenIgnored),
            links,
        });
        self.vs.tell(now, holding);
        true
    }

    /// Where this node stands.
    fn links(&self) -> Vec<Link> {
        //= TM60
        let link = |port: &Port| {
            let before = port.in_view.map_or(0, |ring| ring.0);
            port.view.as_ref().map(|view| Link { network: port.number.0, configuration: view.id, before })
        };
        self.ports.values().filter_map(link).collect()
    }

    /// Closes the view and installs the next, in one step.
    fn install(&mut self, now: Instant, change: ViewChange) {
        //= TM40
        let me = self.me();
        let stage = std::mem::replace(&mut self.stage, Stage::Open);
        if let (Some(mut room), Some(closing)) = (self.room.take(), &change.closing) {
            self.close(&mut room, stage, &change.cut);
            self.output.push_back(Output::Install(closing.clone()));
            self.hand_out_rest(&mut room);
            self.revoke_rest(&mut room);
            self.take_back(&mut room);
            self.queue.close_gate(change.view.id);
            if change.cut.apart {
                self.install_between(closing, &change.view);
            }
        }
        (self.tell_due, self.primary_due) = (false, false);
        let view = change.view;
        let tree = Tree::new(me, &view.members, &change.links);
        self.ports.values_mut().for_each(|port| port.begin_view(view.id, tree.carries_by(port.number)));
        self.room = Some(Room::new(view.clone(), me, tree));
        self.output.push_back(Output::Install(view));
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            self.begin(ring);
        }
        self.begin_reads();
        self.tell_soon(now);
        self.mend(now);
    }

    /// Others of the old view come to the next one apart from this side. So this side has a view of its own between the two, in
    /// which nothing is sent. Numbers of views leave gaps, and one has one only by its representative.
    fn install_between(&mut self, closing: &View, next: &View) {
        //= TM43
        let Some(representative) = closing.members.first().copied() else { return };
        let id = ViewId { number: next.id.number - 1, representative };
        for kind in [ViewKind::Regular, ViewKind::Transitional] {
            self.output.push_back(Output::Install(View { id, kind, ..closing.clone() }));
        }
    }

    /// What no ring took into the view that ended is sent anew, in its order.
    fn take_back(&mut self, room: &mut Room) {
        //= TM24
        let bodies: Vec<_> = room.sent.drain(..).filter_map(|(_, body)| body).collect();
        self.counters.sent_again += bodies.len() as u64;
        if !crate::mutated!(self.config, VoidLost) {
            self.queue.take_back(bodies.into_iter());
        }
        let told = self.queue.all_delivered() || cfg!(feature = "mutants");
        self.check(told, "TM24: all own messages that a ring took in are handed out");
    }
}
