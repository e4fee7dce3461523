//! What the log means for this node: messages and views, in their order.
use super::{Farewell, Paxos};
use crate::ballot::ValueId;
use crate::coordinator::Role;
use crate::learner::{Meaning, Present};
use consort_order::{Delivery, Output};
use consort_types::{Instant, MemberId, OrderStream, Position, Primary, View, ViewCause, ViewId, ViewKind};
use consort_wire::pack::Body;

impl Paxos {
    pub(super) fn on_meaning(&mut self, now: Instant, meaning: Meaning) {
        match meaning {
            Meaning::Messages { id, body, place } => self.on_messages(id, &body, place),
            Meaning::View { before } => self.on_view(now, &before),
            Meaning::Primary => {
                let primary = self.inside.as_ref().map(|view| Output::Primary(view.id));
                self.output.extend(primary);
            }
            Meaning::Void(_) | Meaning::Nothing => {}
        }
    }

    fn on_messages(&mut self, id: ValueId, body: &Body, place: u64) {
        self.pool.remove(&id);
        let own = id.sender == self.me;
        if own {
            let placed = self.proposer.placed(id);
            self.check(placed || self.inside.is_none(), "X54: own values get their places in their order");
        }
        if self.inside.is_none() {
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
        self.pool.retain(|id, _| id.view >= number);
        if let Role::Leading(leading) = &mut self.role {
            leading.offered.clear();
        }
        let included = members.contains(&self.me);
        //= X44
        let stays: Vec<_> = members.iter().filter(|member| before.last.contains_key(member)).copied().collect();
        let old = self.inside.take();
        let together = match (&old, included) {
            (Some(_), true) => stays,
            _ => vec![self.me],
        };
        if let Some(old) = old {
            //= X45
            self.output.push_back(Output::Install(closing(old, together.clone())));
        }
        if included {
            self.install(now, number, members, together);
        } else {
            self.proposer.enter(None);
            self.gone(now);
        }
    }

    fn install(&mut self, _now: Instant, number: u64, members: Vec<MemberId>, together: Vec<MemberId>) {
        let representative = members.first().copied().unwrap_or(self.me);
        let id = ViewId { number, representative };
        let view = View {
            id,
            kind: ViewKind::Regular,
            cause: cause(&members, &together, self.me),
            members,
            moved_together: together,
            primary: Primary::Pending,
            evidence: Vec::new(),
        };
        self.inside = Some(view.clone());
        self.proposer.enter(Some(id));
        self.output.push_back(Output::Install(view));
    }

    fn gone(&mut self, now: Instant) {
        if matches!(self.farewell, Farewell::Leaving { .. }) {
            self.beat_at = now;
        }
    }
}

/// The view that closes another, with those that stay.
fn closing(view: View, together: Vec<MemberId>) -> View {
    View { kind: ViewKind::Transitional, members: together.clone(), moved_together: together, ..view }
}

fn cause(members: &[MemberId], together: &[MemberId], me: MemberId) -> ViewCause {
    let joined: Vec<_> = members.iter().filter(|member| !together.contains(member)).map(|member| member.node).collect();
    match (together == [me], joined.is_empty()) {
        (true, _) => ViewCause::Formed,
        (false, false) => ViewCause::Merged { nodes: joined },
        (false, true) => ViewCause::Apart { nodes: Vec::new() },
    }
}
