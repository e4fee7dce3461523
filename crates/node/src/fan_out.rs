//! Messages for many clients: written once, and told to a few of them at a time.
use crate::Node;
use crate::clients::client_session::{Placed, Telling, Written};
use crate::mutant::mutated;
use consort_group::ordered::{self, MulticastLayout};
use consort_order::{Delivery, Engine};
use consort_session::Place;
use consort_types::{ClientId, OfferId};

/// So many receivers of a message, and more, share what was written for all.
pub(crate) const SHARED_BY: usize = 4;
/// How many clients are told at once: many of them are no reason to keep the token waiting.
pub(crate) const READERS: usize = 8;
/// What telling one of many costs, counted as bytes copied: its session lies in no cache.
pub(crate) const READER: usize = 512;

/// A message that is being told.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub delivery: Delivery,
    /// The sender's client, and how many messages it has sent in one.
    pub client: ClientId,
    pub messages: usize,
    pub told: MulticastLayout,
    /// What optimistic clients know it by, and who has it on offer.
    pub offer: OfferId,
    pub offered: Vec<ClientId>,
    pub written: Written,
    /// How many of the receivers know it.
    pub reached: usize,
}

impl FanOut {
    /// Nobody was told of it yet.
    #[cold]
    pub fn new(delivery: &Delivery, telling: &Telling<'_>, offered: Vec<ClientId>, written: Written) -> Box<Self> {
        let Telling { sender: (_, client), messages, told, offer, .. } = *telling;
        Box::new(Self { delivery: delivery.clone(), client, messages, told, offer, offered, written, reached: 0 })
    }
}

impl<E: Engine> Node<E> {
    /// Tells a few more receivers of the message that is being told.
    pub(crate) fn notify_fan_out(&mut self) -> bool {
        let Some(fan_out) = &mut self.fan_out else { return false };
        let Delivery { sender, position, service, payload, .. } = &fan_out.delivery;
        let readers = self.groups.last_recipients();
        let at_once = if mutated!(self, CrowdAtOnce) { readers.len() } else { READERS };
        let end = readers.len().min(fan_out.reached + at_once);
        let some = &readers[fan_out.reached..end];
        let own = (*sender == self.datagrams.identity().me).then_some(fan_out.client);
        let telling = Telling {
            sender: (*sender, fan_out.client),
            own,
            service: *service,
            messages: fan_out.messages,
            payload,
            told: fan_out.told,
            place: Place::at(position.0),
            offer: fan_out.offer,
            now: self.now,
            written: Some(&fan_out.written).filter(|_| !mutated!(self, CopiedForEach)),
        };
        some.iter().for_each(|client| self.clients.tell_message(*client, &telling));
        let copied = if self.clients.has_optimistic() { payload.len() } else { fan_out.written.copied() };
        self.pending.spend(some.len() * (READER + copied) + self.clients.take_work());
        fan_out.reached = end;
        if end == readers.len() {
            let offered = std::mem::take(&mut fan_out.offered);
            let offer = fan_out.offer;
            if let Some(client) = own {
                let placed = Placed::Multicasts { messages: fan_out.messages, len: ordered::client_len(payload) };
                self.clients.order(client, placed, None);
            }
            self.fan_out = None;
            self.take_back(offered, offer);
        }
        true
    }
}
