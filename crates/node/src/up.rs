//! Up: engine, group, session, client.
use crate::upward::Up;
use crate::{Change, Effect, Node};
use consort_group::table::Asked;
use consort_group::{Delivered, Groups, Ignored, ordered};
use consort_order::{Delivery, Engine, Output};
use consort_session::{Refusal, RefusalCause, event, request};
use consort_types::{Class, ClientId, Primary, Service, View, ViewId, ViewKind};

/// How many changes of the view are remembered.
const HISTORY: usize = 64;

impl<E: Engine> Node<E> {
    /// What the engine decided: for the driver, for the clients, or for nobody yet.
    pub(crate) fn on_output(&mut self, output: Output<E::Packet>) -> Option<Effect> {
        match output {
            Output::Send { to, lane, packet } => {
                return Some(Effect::Send { to, lane, datagram: self.datagrams.seal(lane, &packet) });
            }
            Output::Persist { ticket, record, sync } => return Some(Effect::Persist { ticket, record, sync }),
            Output::Trim { up_to } => return Some(Effect::Trim { up_to }),
            Output::Deliver(delivery) if self.has_to_tell() || !self.upward.may_tell() => {
                self.upward.push(Up::Deliver(delivery));
            }
            Output::Deliver(delivery) => self.deliver(delivery),
            Output::Install(view) => self.upward.push(Up::Install(view)),
            Output::Primary(view) => self.upward.push(Up::Primary(view)),
            Output::Left => return Some(Effect::Left),
            Output::Room => self.full = false,
            // Asked of engines whose capability says so; no session asks yet.
            Output::Offer(_) | Output::Revoke { .. } | Output::Confirm { .. } => self.counts.optimistic_ignored += 1,
            // Nobody annotates, so no annotation says anything.
            Output::Beacon { .. } => {}
            // What is stable matters to those who keep messages for a client's return; nobody does yet.
            Output::Stable { .. } => {}
        }
        None
    }

    /// Whether something waits to be told to clients.
    pub(crate) fn has_to_tell(&self) -> bool {
        self.groups.has_changes() || self.settling.is_some() || !self.upward.is_empty()
    }

    /// Tells the next thing, if this slice has room for it. The engine is drained: it may be resumed here.
    pub(crate) fn tell_next(&mut self) -> bool {
        if !self.has_to_tell() || !self.upward.may_tell() {
            return false;
        }
        if self.tell_next_change() {
            return true;
        }
        if let Some(view) = self.settling.take() {
            self.announce();
            self.engine.resume(self.now, view);
            return true;
        }
        match self.upward.pop() {
            Some(Up::Deliver(delivery)) => self.deliver(delivery),
            Some(Up::Install(view)) => self.install(view),
            Some(Up::Primary(view)) => self.become_primary(view),
            None => {}
        }
        true
    }

    /// Tells members that came from elsewhere which groups this node's clients are in. It is ordered before anything that
    /// clients send in the new view, for the engine is resumed only then.
    fn announce(&mut self) {
        if !std::mem::take(&mut self.newcomers) {
            return;
        }
        let joins: Vec<_> = self.groups.own_joins().collect();
        for join in joins {
            if self.hand_over(Class::Control, Service::Agreed, join.into()).is_err() {
                self.counts.announcements_refused += 1;
            }
        }
    }

    fn tell_next_change(&mut self) -> bool {
        let Some(change) = self.groups.next_change() else { return false };
        self.frames.clear();
        if !change.notify.is_empty() {
            event::put_group_view(&mut self.frames, &change);
        }
        for client in change.notify {
            self.clients.tell(*client, &self.frames);
        }
        self.upward.spend(self.frames.len() * change.notify.len());
        true
    }

    /// All members have installed the view: it is told once more, now as primary.
    fn become_primary(&mut self, id: ViewId) {
        let Some(view) = self.view.as_mut().filter(|view| view.id == id) else { return };
        view.primary = Primary::Yes;
        self.frames.clear();
        event::put_view(&mut self.frames, view);
        self.clients.tell_viewers(&self.frames);
        self.upward.spend(self.frames.len() * self.clients.len());
        self.remember(Change::Primary { id });
    }

    fn remember(&mut self, change: Change) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((self.now, change));
    }

    fn install(&mut self, view: View) {
        self.groups.install(&view);
        if view.kind == ViewKind::Regular {
            self.settling = Some(view.id);
            self.newcomers |= view.members.iter().any(|member| !view.moved_together.contains(member));
        }
        self.frames.clear();
        event::put_view(&mut self.frames, &view);
        self.clients.tell_viewers(&self.frames);
        self.upward.spend(self.frames.len() * self.clients.len());
        self.remember(Change::from(&view));
        self.view = Some(view);
    }

    fn deliver(&mut self, delivery: Delivery) {
        if delivery.class == Class::Control {
            // What a daemon's clients were in before the view; known or not, nobody here asked for it.
            let told = self.groups.deliver(delivery.sender, &delivery.payload).is_ok();
            self.counts.ordered_malformed += u64::from(!told);
            return;
        }
        let Delivery { sender, service, payload, .. } = &delivery;
        let own = *sender == self.datagrams.identity().me;
        match self.groups.deliver(*sender, payload) {
            Ok(Delivered::Multicast { client, recipients }) => {
                if own {
                    self.clients.order(client, payload.len());
                }
                self.upward.spend(recipients.len() * payload.len());
                for recipient in recipients {
                    self.clients.tell_message(
                        *recipient,
                        (sender.node, client),
                        *service,
                        payload,
                        ordered::PREFIX_LEN,
                    );
                }
            }
            Ok(Delivered::Changes { client, asked: Some(asked) }) if own => self.settle(client, &asked),
            Ok(Delivered::Changes { .. }) => {}
            Err(_) => self.counts.ordered_malformed += 1,
        }
    }

    /// An own client's join or leave has its place.
    fn settle(&mut self, client: ClientId, asked: &Asked) {
        let number = self.clients.order(client, request::membership_len(&asked.group));
        if let (Some(number), Some(ignored)) = (number, asked.ignored) {
            self.clients.tell_refused(client, number, &refusal(asked, ignored));
        }
    }
}

fn refusal(asked: &Asked, ignored: Ignored) -> Refusal {
    let group = &asked.group;
    match ignored {
        Ignored::AlreadyMember => Refusal::new(RefusalCause::AlreadyMember, format!("already a member of {group}")),
        Ignored::NotMember => Refusal::new(RefusalCause::NotMember, format!("not a member of {group}")),
        Ignored::TooManyGroups => {
            let text = format!("a member of {} groups, which is all one client may be in", Groups::PER_CLIENT);
            Refusal::new(RefusalCause::TooManyGroups, text)
        }
    }
}
