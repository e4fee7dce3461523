//! PendingDelivery: engine, group, session, client.
use crate::clients::client_session::{Placed, Telling, Written};
use crate::fan_out::{FanOut, READER, READERS, SHARED_BY};
use crate::pending_deliveries::PendingDelivery;
use crate::{Effect, NetworkChange, Node, Notice};
use bytes::{Bytes, BytesMut};
use consort_group::{
    Asked, ChangeCause, GroupDelivery, GroupStep, Groups, Ignored, Member, NotRepresentable, PrivateName, ordered,
};
use consort_order::{Delivery, Engine, Output, Packet, Refused};
use consort_session::{Place, Refusal, RefusalCause, event};
use consort_spread::messages::{self, MembershipMessage};
use consort_types::{
    Class, ClientId, GroupName, MemberId, OfferId, Position, Primary, Service, View, ViewId, ViewKind,
};
use consort_wire::Payload;

/// How many changes of the view are remembered.
const HISTORY: usize = 64;
/// More bytes than a digest has.
const DIGEST: usize = 64;

/// A group's change that is being told.
#[derive(Debug)]
pub(crate) struct GroupNotice {
    /// As clients of each session protocol read it.
    native: Bytes,
    spread: Bytes,
    /// How many of those that are to know do.
    notified: usize,
}

impl<E: Engine> Node<E> {
    /// What the engine decided: for the driver, for the clients, or for nobody yet.
    pub(crate) fn on_output(&mut self, output: Output<E::Packet>) -> Option<Effect> {
        match output {
            Output::Send { to, lane, packet } => {
                let network = packet.network();
                return Some(Effect::Send { to, lane, network, datagram: self.datagrams.seal(lane, &packet) });
            }
            Output::Persist { ticket, record, sync } => return Some(Effect::Persist { ticket, record, sync }),
            Output::Trim { up_to } => return Some(Effect::Trim { up_to }),
            Output::Restart { cause, records, exceed } => {
                return Some(Effect::Restart { cause, records, exceed });
            }
            Output::Deliver(delivery) => self.on_place(delivery, None),
            Output::Confirm { offer, delivery } => self.on_place(delivery, Some(offer)),
            Output::Offer(offer) => self.on_offer(PendingDelivery::Offer(offer)),
            Output::Revoke { offer, .. } => self.on_offer(PendingDelivery::Revoke(offer)),
            Output::Install(view) => self.pending.push(PendingDelivery::Install(view)),
            Output::Primary(view) => self.pending.push(PendingDelivery::Primary(view)),
            Output::Interrupted { cause, out } => self.clients.notices.push(Notice::Interrupted { cause, out }),
            Output::Left => return Some(Effect::Left),
            Output::Room => (self.full, self.control_full) = (false, false),
            Output::Beacon { from, annotation } => self.on_digest(from, &annotation),
            // What is stable matters to those who keep messages for a client's return; nobody does yet.
            Output::Stable { .. } => {}
            Output::Passed { position, .. } => self.pending.push(PendingDelivery::Passed(position)),
        }
        None
    }

    /// Whether something waits to be told to clients.
    pub(crate) fn has_to_tell(&self) -> bool {
        self.fan_out.is_some()
            || self.notice.is_some()
            || self.groups.has_work()
            || self.may_say_part()
            || self.may_resume()
            || !self.pending.is_empty()
    }

    fn may_say_part(&self) -> bool {
        !self.control_full && (self.pending_state_part.is_some() || self.groups.has_part())
    }

    fn may_resume(&self) -> bool {
        self.settling.is_some() && self.groups.is_settled()
    }

    /// Tells the next thing, if this slice has room for it. The engine is drained: it may be resumed here.
    pub(crate) fn notify_next(&mut self) -> bool {
        self.has_to_tell() && self.pending.may_tell() && self.tell_next()
    }

    // Seldom and large: out of line, so that what is asked after every packet stays small.
    #[inline(never)]
    fn tell_next(&mut self) -> bool {
        if self.notify_fan_out() || self.notify_batch() || self.tell_next_step() || self.send_state_part() {
            return true;
        }
        if let Some(view) = self.settling.filter(|_| self.groups.is_settled()) {
            //= G19
            self.settling = None;
            self.retention.settle(self.groups.took_history());
            // Where a quorum orders, a node begins in a view of itself alone, in which nothing flows.
            if view.number > 0 || !self.engine.capability().quorum {
                self.clients.notices.push(self.log.settled(self.now, view));
            }
            self.engine.resume(self.now, view);
            self.tell_openings();
            return true;
        }
        if let Some(pending) = self.pending.pop() {
            self.deliver_pending(pending);
        }
        true
    }

    pub(crate) fn deliver_pending(&mut self, pending: PendingDelivery) {
        match pending {
            PendingDelivery::Deliver(delivery, offer) => self.deliver(&delivery, offer),
            PendingDelivery::Offer(offer) => self.offer(&offer),
            PendingDelivery::Revoke(offer) => self.revoke(offer),
            PendingDelivery::Install(view) => self.install(view),
            PendingDelivery::Primary(view) => self.become_primary(view),
            PendingDelivery::Passed(position) => self.retention.note(position),
        }
    }

    /// A message has its place: it is told now, or behind all that is to be told before it.
    fn on_place(&mut self, delivery: Delivery, offer: Option<OfferId>) {
        if self.has_to_tell() || !self.pending.may_tell() {
            self.pending.push(PendingDelivery::Deliver(delivery, offer));
        } else {
            self.deliver(&delivery, offer);
        }
    }

    /// Says the next part of what this node's clients are in, to members that came from elsewhere. It is ordered before
    /// anything that clients send in the new view, for the engine is resumed only once all have said everything.
    fn send_state_part(&mut self) -> bool {
        //= G14
        if !self.may_say_part() {
            return false;
        }
        self.retention.tell_newcomers();
        if self.retention.has_to_say() && self.say_reads() {
            return true;
        }
        let Some(part) = self.pending_state_part.take().or_else(|| self.groups.next_part()) else { return false };
        self.pending.spend(part.len());
        match self.hand_over(Class::Control, Service::Agreed, part.clone().into()) {
            Ok(()) => {}
            // All of it must be said: once there is room again.
            Err(Refused::Full { .. }) => self.pending_state_part = Some(part),
            // An engine that is leaving: the others go on without this node.
            Err(_) => self.counts.parts_refused += 1,
        }
        true
    }

    fn tell_next_step(&mut self) -> bool {
        let Some(step) = self.groups.advance() else { return false };
        let (me, out) = (self.datagrams.identity().me, &mut self.frames);
        let speaks = |spread: bool| step.notify().iter().any(|client| client.speaks_spread() == spread);
        out.clear();
        match &step {
            GroupStep::View(change) if speaks(false) => event::put_group_view(out, change),
            GroupStep::Signal(signal) if speaks(false) => event::put_group_signal(out, signal),
            _ => {}
        }
        let native = self.clients.keep(out);
        if speaks(true) {
            put_spread(&step, me, out);
        }
        let spread = self.clients.keep(out);
        self.pending.spend(native.len() + spread.len());
        self.notice = (!step.notify().is_empty()).then_some(GroupNotice { native, spread, notified: 0 });
        true
    }

    /// Tells a few more clients of the last step: a large group is no reason to keep the token waiting.
    fn notify_batch(&mut self) -> bool {
        //= G21
        let Some(notice) = &mut self.notice else { return false };
        let (step, me) = (self.groups.last_step(), self.datagrams.identity().me);
        let readers = step.notify().len();
        let some = &step.notify()[notice.notified..readers.min(notice.notified + READERS)];
        for client in some {
            match self_leave(&step, me, *client) {
                _ if !client.speaks_spread() => self.clients.tell_shared(*client, &notice.native),
                Some(group) => self.clients.tell_self_leave(*client, group),
                None => self.clients.tell_membership(*client, &notice.spread),
            }
        }
        self.pending.spend(some.len() * READER + self.clients.take_work());
        notice.notified += some.len();
        if notice.notified == readers {
            self.notice = None;
        }
        true
    }

    /// Has the engine's beacons carry where this node stands and the hash of its groups.
    pub(crate) fn annotate(&mut self) {
        //= G31
        let digest = self.digests.room(DIGEST);
        self.groups.put_state_digest(digest);
        if self.state_digest[..] != digest[..] {
            self.state_digest = self.digests.take();
            self.engine.annotate(self.state_digest.clone());
        }
    }

    fn on_digest(&mut self, from: MemberId, annotation: &[u8]) {
        if annotation.is_empty() {
            return;
        }
        match self.groups.on_digest(from, annotation) {
            Ok(None) => {}
            Ok(Some(mismatch)) if self.mismatch.as_ref() == Some(&mismatch) => {}
            Ok(Some(mismatch)) => {
                self.clients.notices.push(Notice::GroupMismatch { member: mismatch.member, at: mismatch.at });
                self.mismatch = Some(mismatch);
            }
            Err(_) => self.counts.digests_malformed += 1,
        }
    }

    /// All members have installed the view: it is told once more, now as primary.
    fn become_primary(&mut self, id: ViewId) {
        let Some(view) = self.view.as_mut().filter(|view| view.id == id) else { return };
        view.primary = Primary::Yes;
        self.frames.clear();
        event::put_view(&mut self.frames, view);
        self.tell_viewers();
        self.groups.become_primary();
        self.log.primary(id, Primary::Yes).into_iter().for_each(|notice| self.clients.notices.push(notice));
        self.remember(NetworkChange::Primary { id });
    }

    fn tell_viewers(&mut self) {
        let view = self.clients.keep(&mut self.frames);
        self.clients.tell_viewers(&view);
        self.pending.spend(READER * self.clients.len());
    }

    fn remember(&mut self, change: NetworkChange) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((self.now, change));
    }

    fn install(&mut self, view: View) {
        self.pending_state_part = None;
        self.groups.install(&view);
        self.retention.install(&view);
        self.keys.rotation.install(&view);
        self.take_key_steps();
        if view.kind == ViewKind::Regular {
            self.settling = Some(view.id);
            self.renew_holds();
            self.log.install(self.now, &view).into_iter().for_each(|notice| self.clients.notices.push(notice));
        }
        self.frames.clear();
        event::put_view(&mut self.frames, &view);
        self.tell_viewers();
        self.remember(NetworkChange::from(&view));
        self.view = Some(view);
        self.end_numberings();
    }

    fn deliver(&mut self, delivery: &Delivery, offer: Option<OfferId>) {
        let Delivery { sender, position, service, payload, .. } = delivery;
        let (offer, offered) = self.offers.close(offer);
        self.retention.note(*position);
        let own = *sender == self.datagrams.identity().me;
        if own && self.lines.is_on() {
            self.note_line(delivery.id);
        }
        self.clients.ordered(payload.len());
        let delivered = self.groups.deliver(*sender, *position, payload);
        let len = || ordered::client_len(payload);
        let refused = matches!(
            delivered,
            Ok(GroupDelivery::Shut { .. } | GroupDelivery::NotRepresentable { .. } | GroupDelivery::NotNumbered { .. })
        );
        match delivered {
            Ok(GroupDelivery::Multicast { client, messages, told, numbered, recipients }) => {
                self.counts.messages_ordered += messages as u64;
                if self.retention.is_of_use() {
                    self.retention.take(delivery, client, messages, told, self.now);
                }
                self.counts.message_bytes_ordered += payload.len() as u64;
                let shared = recipients.len() >= SHARED_BY;
                if own {
                    // Who is told of it in slices is told of its place behind it.
                    if !shared {
                        self.clients.order(client, Placed::Multicasts { messages, len: len() }, None);
                    }
                    if let Some(numbered) = numbered {
                        self.producers.note(client, numbered.number.saturating_add(messages as u64 - 1), *position);
                    }
                }
                let (sender, own) = ((*sender, client), own.then_some(client));
                let (service, now, written) = (*service, self.now, None);
                let place = Place::at(position.0);
                let telling = Telling { sender, own, service, messages, payload, told, place, offer, now, written };
                if shared {
                    let written = Written::new(&telling, recipients, &self.clients);
                    self.pending.spend(payload.len());
                    self.fan_out = Some(FanOut::new(delivery, &telling, offered, written));
                    self.note_verdict(*position, false);
                    self.settle_at_once();
                    return;
                }
                self.pending.spend(recipients.len() * payload.len());
                for recipient in recipients {
                    self.clients.tell_message(*recipient, &telling);
                }
            }
            Ok(GroupDelivery::Shut { client, messages, group }) if own => {
                let text = format!("{group} is closed: only its members may send to it");
                self.refuse_placed(client, (messages, payload), Refusal::new(RefusalCause::Closed, text), *position);
            }
            Ok(GroupDelivery::NotRepresentable { client, messages, cause, member }) if own => {
                let refusal = not_representable(cause, &member);
                self.refuse_placed(client, (messages, payload), refusal, *position);
            }
            Ok(GroupDelivery::NotNumbered { client, messages, cause }) if own => {
                self.not_numbered(client, Placed::Multicasts { messages, len: len() }, cause, *position);
            }
            Ok(GroupDelivery::Opened { client, opened }) if own => self.on_opened(client, opened),
            Ok(GroupDelivery::Reads(groups)) => self.on_reads(groups),
            Ok(GroupDelivery::Hold { client, targets_at }) => self.on_hold((*sender, client), payload, targets_at),
            Ok(GroupDelivery::Keys(said)) => self.on_key_message(*sender, said),
            Ok(GroupDelivery::Confirm) if own => self.on_confirmed(*position),
            Ok(GroupDelivery::Changes { client, asked: Some(asked) }) if own => {
                self.note_placed(payload, &asked.group);
                self.settle(client, &asked);
            }
            Ok(GroupDelivery::Changes { client, asked: None }) if own => self.clients.gone(client),
            Ok(
                GroupDelivery::Shut { .. }
                | GroupDelivery::NotRepresentable { .. }
                | GroupDelivery::NotNumbered { .. }
                | GroupDelivery::Opened { .. }
                | GroupDelivery::Changes { .. }
                | GroupDelivery::Completed
                | GroupDelivery::Confirm
                | GroupDelivery::Part,
            ) => {}
            Err(_) => self.counts.ordered_malformed += 1,
        }
        self.note_verdict(*position, refused);
        self.take_back(offered, offer);
        self.settle_at_once();
    }

    /// Those who still have a message on offer that has its place were members then and are none now.
    pub(crate) fn take_back(&mut self, offered: Vec<ClientId>, offer: OfferId) {
        //= G41
        offered.into_iter().for_each(|client| self.clients.tell_revoke(client, self.now, offer));
    }

    /// An own client's messages have their place, and nobody gets them.
    fn refuse_placed(
        &mut self,
        client: ClientId,
        (messages, payload): (usize, &Payload),
        refusal: Refusal,
        at: Position,
    ) {
        //= G07
        //= S21
        let placed = Placed::Multicasts { messages, len: ordered::client_len(payload) };
        if ordered::is_numbered(payload) {
            self.refuse_numbered(client, placed, refusal, at);
        } else {
            self.clients.order(client, placed, Some(&refusal));
        }
    }

    /// An own client's join or leave has its place.
    fn settle(&mut self, client: ClientId, asked: &Asked) {
        if !self.end_step(client, &asked.group, asked.ignored.is_none()) {
            return;
        }
        let refusal = asked.ignored.map(|ignored| refusal(asked, ignored));
        self.clients.order(client, Placed::Membership(&asked.group), refusal.as_ref());
    }
}

/// One of its receivers could not be told it.
fn not_representable(cause: NotRepresentable, member: &Member) -> Refusal {
    let name = PrivateName::new(&member.name, member.daemon.node);
    Refusal::new(RefusalCause::NotRepresentable, format!("{name} cannot be told it: {cause}"))
}

/// What Spread clients here read of a step.
fn put_spread(step: &GroupStep<'_>, me: MemberId, out: &mut BytesMut) {
    match step {
        GroupStep::Quiet => {}
        GroupStep::View(change) => {
            let consort_group::GroupChange { group, id, members, sets, cause, who, .. } = *change;
            messages::put_view(out, &MembershipMessage { group, id, cause, members, sets, who, me });
        }
        GroupStep::Signal(signal) => messages::put_signal(out, signal.group, signal.id),
    }
}

/// The group that this client has left with this step.
fn self_leave<'a>(step: &GroupStep<'a>, me: MemberId, client: ClientId) -> Option<&'a GroupName> {
    match step {
        GroupStep::View(consort_group::GroupChange { cause: ChangeCause::Leave, who: [member], group, .. })
            if member.key() == (me, client) =>
        {
            Some(group)
        }
        _ => None,
    }
}

fn refusal(asked: &Asked, ignored: Ignored) -> Refusal {
    let group = &asked.group;
    match ignored {
        Ignored::AlreadyMember => Refusal::new(RefusalCause::AlreadyMember, format!("already a member of {group}")),
        Ignored::NotMember => Refusal::new(RefusalCause::NotMember, format!("not a member of {group}")),
        Ignored::Full => {
            let text = format!("all groups together take {} MiB, which is all they may", Groups::BUDGET >> 20);
            Refusal::new(RefusalCause::GroupsFull, text)
        }
        Ignored::TooManyGroups => {
            let text = format!("a member of {} groups, which is all one client may be in", Groups::PER_CLIENT);
            Refusal::new(RefusalCause::TooManyGroups, text)
        }
    }
}
