//! What the log means for this node: messages and views, in their order.
use super::{LeaveStage, Paxos};
use crate::ballot::ValueId;
use crate::coordinator::Role;
use crate::learner::{Meaning, Present};
use consort_order::{Delivery, Output};
use consort_types::{Instant, MemberId, NodeId, OrderStream, Position, Primary, View, ViewCause, ViewId, ViewKind};
use consort_wire::pack::Body;

impl Paxos {
    pub(super) fn on_meaning(&mut self, now: Instant, meaning: Meaning) {
        match meaning {
            Meaning::Messages { id, body, place } => self.on_messages(id, &body, place),
            Meaning::View { before } => self.on_view(now, &before),
            Meaning::Primary => {
                let view = self.inside.as_ref().filter(|_| self.is_member(self.learner.present().number));
                let primary = view.map(|view| Output::Primary(view.id));
                self.output.extend(primary);
            }
            Meaning::Void(_) | Meaning::Nothing => {}
        }
    }

    fn on_messages(&mut self, id: ValueId, body: &Body, place: u64) {
        self.pool.remove(&id);
        let own = id.sender == self.me && !self.is_member_in_name();
        if own {
            let placed = self.proposer.placed(id);
            self.check(placed, "X54: own values get their places in their order");
        }
        if !self.is_member(self.learner.present().number) {
            return;
        }
        for (chunk, place) in body.chunks().zip(place..) {
            let queue = &mut self.proposer.queue;
            let message = if own { queue.delivered(chunk.class, chunk.service) } else { None };
            self.output.push_back(Output::Deliver(Delivery {
                stream: OrderStream(0),
                position: Position(place),
                sender: id.sender,
                id: message,
                class: chunk.class,
                service: chunk.service,
                payload: chunk.bytes.into(),
            }));
        }
    }

    /// The next view holds from here on.
    fn on_view(&mut self, now: Instant, before: &Present) {
        let number = self.learner.present().number;
        let members: Vec<_> = self.learner.present().last.keys().copied().collect();
        let (ahead, keeps) = (self.named(), crate::mutated!(self.config, PoolKept));
        self.pool.retain(|id, _| id.view >= number || ahead.contains(id) || keeps);
        if let Role::Leading(leading) = &mut self.role {
            leading.offered.clear();
        }
        let member = self.is_member(before.number);
        //= X45
        self.missed_primary |= !member && before.primary;
        if !members.contains(&self.me) {
            return if member {
                self.go_away(now)
            };
        }
        let with_me: Box<dyn Fn(&MemberId) -> bool> = match self.inside.as_ref().map(|view| view.id.number) {
            //= X44
            _ if member => Box::new(|other| before.last.contains_key(other)),
            //= X45
            Some(last) if last > 0 => Box::new(move |other| before.away.get(other) == Some(&last)),
            _ => Box::new(|other| *other == self.me),
        };
        let together: Vec<_> = members.iter().copied().filter(|other| with_me(other)).collect();
        drop(with_me);
        let known: Vec<_> = before.last.keys().map(|other| other.node).filter(|_| member).collect();
        let causes = self.causes(now, &known, &members, &together);
        self.install(number, members, together, causes);
    }

    /// Why a view replaces the one of these nodes, as far as this node can tell: who is gone, and who came.
    fn causes(&self, now: Instant, known: &[NodeId], members: &[MemberId], together: &[MemberId]) -> Vec<ViewCause> {
        let gone = known.iter().filter(|node| members.iter().all(|member| member.node != **node));
        let mut causes: Vec<_> = gone.map(|node| self.absence(now, *node)).collect();
        let was_alone = self.inside.as_ref().is_none_or(|view| view.id.number == 0);
        if was_alone && together == [self.me] && causes.is_empty() {
            return vec![ViewCause::Formed];
        }
        let new = members.iter().filter(|member| !together.contains(member)).map(|member| member.node);
        let (restarted, joined): (Vec<_>, Vec<_>) = new.partition(|node| known.contains(node));
        causes.extend((!restarted.is_empty()).then_some(ViewCause::Restarted { nodes: restarted }));
        causes.extend((!joined.is_empty()).then_some(ViewCause::Merged { nodes: joined }));
        causes
    }

    /// Why a node is gone.
    fn absence(&self, now: Instant, node: NodeId) -> ViewCause {
        let nodes = vec![node];
        match self.peers.get(&node) {
            Some(peer) if peer.beat.reserved => ViewCause::HeldUp { nodes },
            Some(peer) if peer.beat.leaving => ViewCause::Left { nodes },
            Some(peer) if !self.is_near(peer, now) => ViewCause::Silent { nodes, since: now.since(peer.at) },
            _ => ViewCause::Apart { nodes },
        }
    }

    /// Others go on without this node.
    fn go_away(&mut self, now: Instant) {
        self.proposer.enter(None);
        if matches!(self.leave_stage, LeaveStage::Leaving { .. }) {
            self.beat_at = now;
        }
    }

    /// Whether this node is in the view of this number. The one in which it is alone at first is none of the log's.
    pub(super) fn is_member(&self, number: u64) -> bool {
        number > 0 && self.inside.as_ref().is_some_and(|view| view.id.number == number)
    }

    fn close_view(&mut self, together: Vec<MemberId>) {
        if let Some(old) = self.inside.take() {
            self.output.push_back(Output::Install(closing(old, together)));
        }
    }

    fn install(&mut self, number: u64, members: Vec<MemberId>, together: Vec<MemberId>, causes: Vec<ViewCause>) {
        self.close_view(together.clone());
        let representative = members.first().copied().unwrap_or(self.me);
        let id = ViewId { number, representative };
        let mut causes = causes.into_iter();
        let view = View {
            id,
            kind: ViewKind::Regular,
            cause: causes.next().unwrap_or(ViewCause::Formed),
            members,
            moved_together: together,
            primary: Primary::Pending,
            evidence: causes.collect(),
            missed_primary: std::mem::take(&mut self.missed_primary),
        };
        self.inside = Some(view.clone());
        self.proposer.enter(Some(id));
        self.output.push_back(Output::Install(view));
    }

    /// Before a node is in any view of the log it is alone.
    pub(super) fn begin_alone(&mut self) {
        //= X55
        let alone = vec![self.me];
        let view = View {
            id: ViewId { number: 0, representative: self.me },
            kind: ViewKind::Regular,
            members: alone.clone(),
            moved_together: alone,
            primary: Primary::No,
            cause: ViewCause::Started,
            evidence: Vec::new(),
            missed_primary: false,
        };
        self.inside = Some(view.clone());
        self.output.push_back(Output::Install(view));
    }
}

/// The view that closes another, with those that stay.
fn closing(view: View, together: Vec<MemberId>) -> View {
    View { kind: ViewKind::Transitional, members: together.clone(), moved_together: together, ..view }
}
