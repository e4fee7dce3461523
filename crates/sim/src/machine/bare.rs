//! An engine alone.
use super::{Machine, MachineOutput, ReceivedMessage, SeenView, SubmitAnswer, observe_kept_out, sum};
use crate::trace::OfferRecord;
use bytes::{Bytes, BytesMut};
use consort_order::{
    Advice, Arrival, Delivery, Engine, Link, Offers, Output, Pressure, Refused, Submission, each_counter, state_of,
};
use consort_types::{Class, Instant, NodeId, OrderStream, Position, Primary, Service, Ticket, ViewId, ViewKind};
use consort_wire::{Identity, Lane, Packet, Payload, Rejected, envelope};
use std::collections::BTreeMap;

/// How to look into an engine for [`Machine::holds`].
pub type Holds<E> = fn(&E, ViewId, Position) -> Option<bool>;

/// The client number under which a bare engine's control messages are sent. It takes no deliveries.
pub const CONTROL: u16 = 1;

/// An engine alone: client 0 submits client messages and takes all deliveries, client [`CONTROL`] submits control
/// messages. After each view it resumes at once.
#[derive(Debug)]
pub struct Bare<E> {
    engine: E,
    identity: Identity,
    holds: Option<Holds<E>>,
    heads: BytesMut,
    resume: Option<ViewId>,
    /// A message whose offer was confirmed, to be delivered next.
    confirmed: Option<MachineOutput>,
    now: Instant,
    rejected: BTreeMap<&'static str, u64>,
    /// The highest stream that client messages are for, from 0 on, and how many there were.
    streams: u16,
    submitted: u64,
}

/// So many client messages in a row are for one stream.
const IN_A_ROW: u64 = 6;

/// How much is taken from the allocator at once for datagrams.
const BLOCK: usize = 64 << 10;

impl<E: Engine> Bare<E> {
    /// An engine that speaks as `identity`. With `holds` the run can tell who holds what.
    pub fn new(identity: Identity, engine: E, holds: Option<Holds<E>>) -> Self {
        let (heads, rejected) = (BytesMut::new(), BTreeMap::new());
        let (now, streams, submitted) = (Instant::ZERO, 0, 0);
        Self { engine, identity, holds, heads, resume: None, confirmed: None, now, rejected, streams, submitted }
    }

    /// Client messages are for this stream and those before it, in turn.
    #[must_use]
    pub fn over_streams(self, highest: u16) -> Self {
        Self { streams: highest, ..self }
    }

    fn next_stream(&mut self, class: Class) -> OrderStream {
        if class == Class::Control {
            return OrderStream(0);
        }
        self.submitted += 1;
        OrderStream((self.submitted / IN_A_ROW % (u64::from(self.streams) + 1)) as u16)
    }

    /// The engine, for looking at.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    fn open(&self, bytes: Bytes) -> Result<(envelope::Envelope, E::Packet), Rejected> {
        let (envelope, packet) = envelope::open(&self.identity, bytes)?;
        Ok((envelope, E::Packet::decode(packet)?))
    }

    fn seal(&mut self, lane: Lane, packet: &E::Packet) -> Bytes {
        if self.heads.capacity() < BLOCK / 16 {
            self.heads.reserve(BLOCK);
        }
        envelope::reserve(&mut self.heads);
        let body = packet.encode(&mut self.heads);
        envelope::seal(&self.identity, lane, &mut self.heads, &body);
        self.heads.extend_from_slice(&body);
        self.heads.split().freeze()
    }

    fn act(&mut self, output: Output<E::Packet>) -> Option<MachineOutput> {
        Some(match output {
            Output::Send { to, lane, packet } => MachineOutput::Send { to, lane, bytes: self.seal(lane, &packet) },
            Output::Deliver(delivery) => deliver(delivery),
            Output::Offer(offer) => MachineOutput::Offer {
                client: 0,
                offer: OfferRecord {
                    offer: offer.id.0,
                    sum: sum(&offer.delivery.payload),
                    strict: self.engine.capability().offers == Offers::Likely,
                },
            },
            Output::Revoke { offer, .. } => MachineOutput::Revoke { client: 0, offer: offer.0 },
            Output::Confirm { offer, delivery } => {
                let sum = sum(&delivery.payload);
                self.confirmed = Some(deliver(delivery));
                MachineOutput::Confirm { client: 0, offer: offer.0, sum }
            }
            Output::Install(view) => {
                let transitional = view.kind == ViewKind::Transitional;
                self.resume = (!transitional).then_some(view.id);
                let view = SeenView {
                    id: view.id,
                    transitional,
                    members: view.members,
                    together: view.moved_together,
                    pending: matches!(view.primary, Primary::Yes | Primary::Pending),
                };
                MachineOutput::View { client: 0, view }
            }
            Output::Primary(view) => MachineOutput::Primary { client: 0, view },
            Output::Stable { stream, up_to } => MachineOutput::Stable { stream, up_to },
            Output::Room => MachineOutput::Room { client: None },
            Output::Persist { ticket, record, sync } => MachineOutput::Persist { ticket, record, sync },
            Output::Trim { up_to } => MachineOutput::Trim { up_to },
            Output::Restart { cause, records, .. } => MachineOutput::Restart { cause, records },
            Output::Left => MachineOutput::Left,
            // For layers that a bare engine lacks.
            Output::Beacon { .. } | Output::Interrupted { .. } => return None,
            // It reads everything.
            Output::Passed { .. } => return None,
        })
    }
}

fn deliver(delivery: Delivery) -> MachineOutput {
    MachineOutput::Deliver {
        client: 0,
        message: ReceivedMessage {
            stream: delivery.stream,
            position: (delivery.position != Position::OUTSIDE).then_some(delivery.position),
            sender: delivery.sender.node,
            incarnation: Some(delivery.sender.incarnation),
            client: None,
            own: delivery.id,
            class: Some(delivery.class),
            service: delivery.service,
            payload: delivery.payload,
        },
    }
}

impl<E: Engine> Machine for Bare<E> {
    fn processes(&self) -> u16 {
        1
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.now = now;
        self.engine.start(now, records);
    }

    fn leave(&mut self, now: Instant) {
        self.now = now;
        self.engine.leave(now);
    }

    fn advise(&mut self, now: Instant, advice: Advice) {
        self.now = now;
        self.engine.advise(now, advice);
    }

    fn is_joined_late(&self) -> bool {
        false
    }

    fn needs_arrival_times(&self) -> bool {
        self.engine.capability().needs_arrival_times
    }

    fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes) {
        self.now = now;
        match self.open(bytes) {
            Ok((envelope, packet)) => {
                let arrival = Arrival { at: arrived, from: envelope.from, lane: envelope.lane };
                self.engine.handle_packet(now, arrival, packet);
            }
            Err(cause) => *self.rejected.entry(cause.name()).or_default() += 1,
        }
    }

    fn handle_overflow(&mut self, now: Instant) {
        self.now = now;
        self.engine.handle_pressure(Pressure::Overflow);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.engine.handle_timeout(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.now = now;
        self.engine.handle_persisted(now, ticket);
    }

    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        self.now = now;
        self.engine.handle_link(now, peer, link);
    }

    fn submit(&mut self, now: Instant, _client: u16, class: Class, service: Service, payload: Payload) -> SubmitAnswer {
        self.now = now;
        let stream = self.next_stream(class);
        match self.engine.submit(now, Submission { class, service, stream, payload }) {
            Ok(id) => SubmitAnswer::Accepted(Some(id)),
            Err(Refused::Full { .. }) => SubmitAnswer::Full,
            Err(Refused::Leaving) => SubmitAnswer::Leaving,
            Err(refused) => SubmitAnswer::Refused(refused.to_string()),
        }
    }

    fn poll(&mut self) -> Option<MachineOutput> {
        if let Some(act) = self.confirmed.take() {
            return Some(act);
        }
        loop {
            match self.engine.poll_output() {
                Some(output) => {
                    if let Some(act) = self.act(output) {
                        return Some(act);
                    }
                }
                None => self.engine.resume(self.now, self.resume.take()?),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    fn reads_first(&self) -> Lane {
        self.engine.reads_first()
    }

    fn holds(&self, view: ViewId, position: Position) -> Option<bool> {
        self.holds.and_then(|holds| holds(&self.engine, view, position))
    }

    fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        each_counter(&self.engine, self.now, &mut |name, value| see(name, value));
        observe_kept_out(&self.engine, self.now, see);
        self.rejected.iter().for_each(|(cause, count)| see(cause, *count));
    }

    fn describe(&self, now: Instant) -> String {
        state_of(&self.engine, now)
    }
}
