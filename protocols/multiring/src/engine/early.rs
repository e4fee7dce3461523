//! Messages that are offered before their places are known.
use super::{MultiRing, Room, Stage};
use crate::carrier::Message;
use crate::key::Key;
use crate::packet::Packet;
use consort_order::{Delivery, EarlyDelivery, Output};
use consort_types::{Class, Instant, OfferId, OrderStream, Position, Service};
use std::collections::BTreeMap;

/// What of a view is on offer.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    /// What came since offers were made last: the members' indices, and the messages' numbers.
    came: Vec<(usize, u64)>,
    open: BTreeMap<Key, OfferId>,
}

/// Whether a message may be used ahead of its place: its sender asked for its own order alone.
pub(super) fn may_be_offered(message: &Message) -> bool {
    //= TM70
    message.service < Service::Causal && message.class == Class::Client && !message.passed
}

impl Early {
    /// A message came by a ring.
    pub(super) fn came(&mut self, member: usize, number: u64) {
        self.came.push((member, number));
    }

    /// What is told where a message has its place.
    pub(super) fn place(&mut self, key: Key, delivery: Delivery) -> Output<Packet> {
        //= TM71
        match self.open.remove(&key) {
            Some(offer) => Output::Confirm { offer, delivery },
            None => Output::Deliver(delivery),
        }
    }
}

impl MultiRing {
    /// Offers what has come and waits for its place.
    pub(super) fn offer(&mut self, now: Instant) {
        //= TM70
        let Some(room) = &mut self.room else { return };
        let came = std::mem::take(&mut room.early.came);
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        for (member, number) in came {
            if room.store.handed_out().get(member).is_none_or(|handed| *handed >= number) {
                continue;
            }
            let Some((key, message)) = room.store.message(member, number) else { continue };
            let delivery = Delivery {
                stream: OrderStream(0),
                position: Position(0),
                sender: room.view.members.get(member).copied().unwrap_or_default(),
                id: None,
                class: message.class,
                service: message.service,
                payload: message.clone().into_bytes(),
            };
            self.offered += 1;
            let id = OfferId(self.offered);
            if !crate::mutated!(self.config, OffersForgotten) {
                room.early.open.insert(key, id);
            }
            self.output.push_back(Output::Offer(EarlyDelivery { id, free_until: now, delivery }));
        }
    }

    /// Takes back what has no place in a view that ends.
    pub(super) fn revoke_rest(&mut self, room: &mut Room) {
        //= TM71
        let rest = std::mem::take(&mut room.early.open);
        let revoke = |offer| Output::Revoke { stream: OrderStream(0), offer };
        self.output.extend(rest.into_values().map(revoke));
    }
}
