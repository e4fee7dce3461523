//! Messages that clients were offered before their place is final.
use crate::Node;
use crate::pending_deliveries::PendingDelivery;
use consort_order::{EarlyDelivery, Engine};
use consort_session::PendingOffer;
use consort_types::{ClientId, OfferId};
use std::collections::BTreeMap;

/// Where the numbers begin that a node gives to messages that its engine has not offered.
const OWN: u64 = 1 << 63;

/// Which clients have which message on offer.
#[derive(Debug, Default)]
pub(crate) struct OfferTable {
    open: BTreeMap<OfferId, Vec<ClientId>>,
    own: u64,
}

impl OfferTable {
    /// A message has its place: the number by which optimistic clients know it, and to whom it was offered.
    pub fn close(&mut self, offer: Option<OfferId>) -> (OfferId, Vec<ClientId>) {
        let Some(offer) = offer else {
            self.own += 1;
            return (OfferId(OWN | self.own), Vec::new());
        };
        (offer, self.open.remove(&offer).unwrap_or_default())
    }
}

impl<E: Engine> Node<E> {
    /// Tells of an offer now, or behind all that is to be told before it.
    pub(crate) fn on_offer(&mut self, pending: PendingDelivery) {
        if self.has_to_tell() || !self.pending.may_tell() {
            self.pending.push(pending);
        } else {
            self.deliver_pending(pending);
        }
    }

    /// Offers a message to the optimistic clients among those who would get it if its place were here.
    pub(crate) fn offer(&mut self, offer: &EarlyDelivery) {
        //= G40
        if !self.clients.has_optimistic() {
            return;
        }
        let delivery = &offer.delivery;
        let Some((told, recipients)) = self.groups.recipients(delivery.sender, &delivery.payload) else { return };
        // What is offered goes into no batch (G09).
        if told.batch {
            return;
        }
        let optimistic = recipients.iter().copied().filter(|client| self.clients.is_optimistic(*client));
        let optimistic: Vec<_> = optimistic.collect();
        let offered = PendingOffer {
            id: offer.id,
            free_until: offer.free_until,
            sender: delivery.sender.node,
            service: delivery.service,
            multicast: delivery.payload.clone(),
            told_at: told.at,
        };
        self.pending.spend(optimistic.len() * delivery.payload.len());
        optimistic.iter().for_each(|client| self.clients.tell_offer(*client, self.now, &offered));
        self.offers.open.insert(offer.id, optimistic);
    }

    /// Takes an offer back from all who have it.
    pub(crate) fn revoke(&mut self, offer: OfferId) {
        let clients = self.offers.open.remove(&offer).unwrap_or_default();
        self.pending.spend(0);
        clients.into_iter().for_each(|client| self.clients.tell_revoke(client, self.now, offer));
    }
}
