//! What was released becomes deliveries: in order, whole, safe messages only once all hold them.
use crate::config::{Early, TotoConfig};
use crate::dag::DagMark;
use crate::packet::{DagContent, TotoPacket};
use consort_member::vs::PrimaryCall;
use consort_order::{Delivery, Output, SubmitQueue};
use consort_types::{MemberId, OrderStream, Position, Service, ViewId};
use consort_wire::pack::{AssembledMessage, Assembly, Body};
use std::collections::VecDeque;

/// Released messages of one view on their way up.
#[derive(Clone, Debug)]
pub(crate) struct DagDeliverer {
    view: ViewId,
    members: Vec<MemberId>,
    me: usize,
    /// Released, not delivered: where a safe message waits, all that follow wait.
    released: VecDeque<(u64, DagMark, DagContent)>,
    /// How many were released.
    count: u64,
    /// Delivered, not yet known to be held by all.
    unstable: VecDeque<(u64, DagMark)>,
    /// Messages put together from their pieces, by sender: those of the one order, and those before it.
    ordered: Vec<Assembly>,
    early: Vec<Assembly>,
    /// Pieces that fitted nowhere.
    pub torn: u64,
    /// Whether the view is called primary.
    pub call: PrimaryCall,
}

/// The position of the message at `index` in the packet that was released as the `count`-th of its view.
const fn position(count: u64, index: u64) -> Position {
    Position(count << 16 | if index < 0xffff { index } else { 0xffff })
}

/// What deliveries need beside the deliverer.
pub(crate) struct DeliveryContext<'a> {
    pub config: &'a TotoConfig,
    pub queue: &'a mut SubmitQueue,
    pub output: &'a mut VecDeque<Output<TotoPacket>>,
}

impl DagDeliverer {
    pub fn new(view: ViewId, members: Vec<MemberId>, me: usize) -> Self {
        let n = members.len();
        let assemblies = || vec![Assembly::default(); n];
        let (ordered, early) = (assemblies(), assemblies());
        let (released, unstable) = (VecDeque::new(), VecDeque::new());
        let call = PrimaryCall::default();
        Self { view, members, me, released, count: 0, unstable, ordered, early, torn: 0, call }
    }

    /// These stand next.
    pub fn release(&mut self, mark: DagMark, content: DagContent) {
        self.count += 1;
        self.released.push_back((self.count, mark, content));
    }

    /// Delivers what may be delivered in the view.
    pub fn advance(&mut self, way: &mut DeliveryContext<'_>, stable: &[u64]) {
        //= A21
        while let Some((count, mark, content)) = self.released.front() {
            let is_safe = matches!(content, DagContent::Body(body) if body.is_safe());
            if is_safe && mark.1 > stable[mark.0] && !crate::mutated!(way.config, SafeAsAgreed) {
                return;
            }
            let (count, mark, content) = (*count, *mark, content.clone());
            self.released.pop_front();
            self.unstable.push_back((count, mark));
            self.deliver(way, count, mark, &content, false);
        }
    }

    /// The last position up to which everything delivered is known to be held by all, if it has moved.
    pub fn stable(&mut self, stable: &[u64]) -> Option<Position> {
        let mut last = None;
        while let Some((count, _)) = self.unstable.front().filter(|(_, mark)| mark.1 <= stable[mark.0]) {
            last = Some(position(*count, 0xffff));
            self.unstable.pop_front();
        }
        last
    }

    /// Delivers all the rest while the view is closed: everybody that moves along holds it.
    pub fn finish(&mut self, way: &mut DeliveryContext<'_>) {
        //= A33
        while let Some((count, mark, content)) = self.released.pop_front() {
            self.deliver(way, count, mark, &content, true);
        }
    }

    fn deliver(
        &mut self,
        way: &mut DeliveryContext<'_>,
        count: u64,
        mark: DagMark,
        content: &DagContent,
        closing: bool,
    ) {
        match content {
            DagContent::Body(body) => self.deliver_body(way, Some(count), mark.0, body),
            DagContent::Primary if self.may_call(closing) || crate::mutated!(way.config, PrimaryWhileClosed) => {
                //= A24
                self.call = PrimaryCall::Made;
                way.output.push_back(Output::Primary(self.view));
            }
            DagContent::Primary | DagContent::Null => {}
        }
    }

    /// Whether the event that makes the view primary counts.
    fn may_call(&self, closing: bool) -> bool {
        //= V19
        !closing && self.call != PrimaryCall::Renounced
    }

    /// Delivers messages outside the one order, which have no position in it.
    pub fn deliver_early(&mut self, way: &mut DeliveryContext<'_>, place: usize, body: &Body) {
        //= A22
        self.deliver_body(way, None, place, body);
    }

    fn deliver_body(&mut self, way: &mut DeliveryContext<'_>, count: Option<u64>, place: usize, body: &Body) {
        //= A23
        for (index, chunk) in (0..).zip(body.chunks()) {
            let assembly = if count.is_some() { &mut self.ordered[place] } else { &mut self.early[place] };
            match assembly.push(chunk) {
                Ok(None) => {}
                Err(_) => self.torn += 1,
                Ok(Some(message)) => {
                    let position = count.map_or(Position::OUTSIDE, |count| position(count, index));
                    self.hand_up(way, position, place, message);
                }
            }
        }
    }

    fn hand_up(&self, way: &mut DeliveryContext<'_>, position: Position, place: usize, message: AssembledMessage) {
        let AssembledMessage { class, service, payload } = message;
        let id = if place == self.me { way.queue.delivered(class, service) } else { None };
        let sender = self.members[place];
        way.output.push_back(Output::Deliver(Delivery {
            stream: OrderStream(0),
            position,
            sender,
            id,
            class,
            service,
            payload,
        }));
    }

    /// Bytes of messages that are not complete.
    pub fn held(&self) -> usize {
        self.ordered.iter().chain(&self.early).map(Assembly::held).sum()
    }

    /// How many released messages wait to be held by all.
    pub fn waiting(&self) -> usize {
        self.released.len()
    }
}

/// Whether a packet stands in the one order.
pub(crate) fn is_ordered(config: &TotoConfig, content: &DagContent) -> bool {
    match content {
        DagContent::Null => false,
        DagContent::Primary => true,
        DagContent::Body(_) if config.early == Early::No => true,
        DagContent::Body(body) => {
            body.chunk_at(0).is_none_or(|(chunk, _)| config.level(chunk.service) >= Service::Agreed)
        }
    }
}
