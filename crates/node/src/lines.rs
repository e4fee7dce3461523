//! Order of what a client sends where nodes read only the streams that they need.
//!
//! Nobody but the sender can see to it then: two streams know nothing of each other, and a reader of one of them must not wait for
//! what stands in the other. So a client's request goes to another stream once all that it sent before has its place here.
use crate::mutant::mutated;
use crate::{Node, STREAM};
use consort_order::{Engine, Topic};
use consort_types::{ClientId, MessageId, OrderStream};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LineDesk {
    on: bool,
    /// In which stream something of a client is under way, and how many requests.
    clients: BTreeMap<ClientId, (OrderStream, usize)>,
    under_way: BTreeMap<MessageId, ClientId>,
    /// Clients whose next request waits for that.
    waiting: BTreeSet<ClientId>,
}

impl LineDesk {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// Whether streams are read apart.
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether something of a client is under way in another stream than this.
    pub(crate) fn waits(&self, client: ClientId, stream: OrderStream) -> bool {
        self.clients.get(&client).is_some_and(|(of, _)| *of != stream)
    }

    /// A client's request was accepted for a stream.
    #[cold]
    pub(crate) fn note(&mut self, client: ClientId, stream: OrderStream, id: MessageId) {
        let (of, count) = self.clients.entry(client).or_insert((stream, 0));
        (*of, *count) = (stream, *count + 1);
        self.under_way.insert(id, client);
    }

    /// A request has its place: the client whose next one waited for that, if one did.
    fn placed(&mut self, id: MessageId) -> Option<ClientId> {
        let client = self.under_way.remove(&id)?;
        let (_, count) = self.clients.get_mut(&client)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.clients.remove(&client);
        self.waiting.remove(&client).then_some(client)
    }
}

impl<E: Engine> Node<E> {
    /// Whether a client's request may go to a stream now, where streams are read apart. If not, the client waits.
    #[cold]
    pub(crate) fn may_send(&mut self, client: ClientId, stream: OrderStream) -> bool {
        //= MP76
        if self.lines.waits(client, stream) && !mutated!(self, StreamsAtOnce) {
            self.lines.waiting.insert(client);
            self.clients.park(client);
            return false;
        }
        if stream != STREAM && !self.reads_to_send(Topic(stream.0)) {
            self.look_again(client, Topic(stream.0));
            return false;
        }
        true
    }

    /// The next client whose going can be ordered: all that it sent has its place, or none of it is apart.
    pub(crate) fn next_leaving(&self) -> Option<ClientId> {
        self.clients.leaving().find(|client| !self.lines.waits(*client, STREAM))
    }

    /// A request of an own client has its place.
    #[cold]
    pub(crate) fn note_line(&mut self, id: Option<MessageId>) {
        if let Some(client) = id.and_then(|id| self.lines.placed(id)) {
            self.clients.unpark(client);
        }
    }
}
