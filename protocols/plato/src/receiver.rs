//! From packets with and without a place to offered and delivered messages.
use crate::counters::Counters;
use crate::delta::Delta;
use crate::packet::{PlatoPacket, StreamContent, StreamPacket};
use crate::pipeline::{PacketKey, Pipeline, PipelineStep};
use consort_member::vs::PrimaryCall;
use consort_order::{Delivery, EarlyDelivery, Output, SubmitQueue};
use consort_types::{Instant, MemberId, OfferId, OrderStream, Position, ViewId};
use consort_wire::pack::{AssembledMessage, Assembly, Body};
use std::collections::{BTreeMap, VecDeque};

/// What the receivers of all views of a node share.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverIo {
    pub queue: SubmitQueue,
    pub output: VecDeque<Output<PlatoPacket>>,
    pub counters: Counters,
    pub delta: Delta,
    offers: u64,
}

impl ReceiverIo {
    pub fn new(queue: SubmitQueue, delta: Delta) -> Self {
        Self { queue, output: VecDeque::new(), counters: Counters::default(), delta, offers: 0 }
    }
}

/// One view's messages on their way to delivery.
#[derive(Clone, Debug)]
pub(crate) struct ViewReceiver {
    view: ViewId,
    me: MemberId,
    members: Vec<(MemberId, Assembly)>,
    /// Taken in, and not delivered.
    packets: BTreeMap<PacketKey, AcceptedPacket>,
    /// Those of them that are this node's own.
    own: u64,
    pipeline: Pipeline,
    steps: Vec<PipelineStep>,
    /// Those that have their place, in order; the first is `delivered + 1`.
    placed: VecDeque<PacketKey>,
    delivered: u64,
    /// How many places were told, up to each packet of the sequencer's stream that told them.
    told: VecDeque<(u64, u64)>,
    told_up_to: u64,
    /// How much of each stream all hold.
    stable: Vec<u64>,
    /// The view is closed: what is delivered now stands behind its transitional view.
    closing: bool,
    /// Whether it is called primary.
    pub call: PrimaryCall,
    /// Delivered, and not known to be held by all.
    unstable: VecDeque<PacketKey>,
    #[cfg(feature = "mutants")]
    mutant: Option<crate::mutant::Mutant>,
}

/// A packet that was taken in.
#[derive(Clone, Debug, Default)]
struct AcceptedPacket {
    messages: Vec<(OfferId, AssembledMessage)>,
    safe: bool,
    primary: bool,
    /// How many places its sender had delivered.
    after: u64,
    offered: bool,
}

/// Where the `index`-th message of the packet with the `place`-th place stands.
const fn position(place: u64, index: usize, closing: bool) -> Position {
    Position((closing as u64) << 63 | place << 16 | index as u64)
}

/// The place that a position of the regular part lies in; none where it is of the closing part, whose places are those
/// of this component alone.
const fn place_of(position: Position) -> Option<u64> {
    if position.0 >> 63 == 0 { Some(position.0 >> 16) } else { None }
}

impl ViewReceiver {
    pub fn new(view: ViewId, members: &[MemberId], me: MemberId) -> Self {
        Self {
            view,
            me,
            members: members.iter().map(|member| (*member, Assembly::default())).collect(),
            packets: BTreeMap::new(),
            own: 0,
            pipeline: Pipeline::default(),
            steps: Vec::new(),
            placed: VecDeque::new(),
            delivered: 0,
            told: VecDeque::new(),
            told_up_to: 0,
            stable: vec![0; members.len()],
            closing: false,
            call: PrimaryCall::default(),
            unstable: VecDeque::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    #[cfg(feature = "mutants")]
    pub const fn mutate(mut self, mutant: Option<crate::mutant::Mutant>) -> Self {
        self.mutant = mutant;
        self.pipeline.mutant = mutant;
        self
    }

    /// A packet of a stream was taken in: its messages are put together.
    pub fn take(&mut self, io: &mut ReceiverIo, index: usize, data: &StreamPacket) {
        let primary = data.content == StreamContent::Primary;
        let mut arrived = AcceptedPacket { primary, after: data.after, ..AcceptedPacket::default() };
        if let StreamContent::Messages(body) = &data.content {
            arrived.safe = body.is_safe();
            arrived.messages = self.put_together(io, index, body);
        }
        self.own += u64::from(data.key.origin == self.me.node);
        self.packets.insert(data.key, arrived);
    }

    fn put_together(&mut self, io: &mut ReceiverIo, index: usize, body: &Body) -> Vec<(OfferId, AssembledMessage)> {
        let mut messages = Vec::new();
        for chunk in body.chunks() {
            match self.members[index].1.push(chunk) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    io.offers += 1;
                    messages.push((OfferId(io.offers), message));
                }
                Err(_) => io.counters.torn += 1,
            }
        }
        messages
    }

    /// It arrived, as far as prediction is concerned. Where nothing is predicted it waits for its place.
    pub fn arrive(&mut self, io: &mut ReceiverIo, now: Instant, key: PacketKey, arrived: Instant, predicts: bool) {
        io.counters.packets += 1;
        io.delta.on_packet(now);
        let delta = io.delta.get().filter(|_| predicts);
        self.pipeline.on_data(key, arrived, delta, &mut self.steps);
        if crate::mutated!(self, ArrivalAsOrder) {
            self.pipeline.on_order(key, &mut self.steps);
        }
        self.follow(io, now);
    }

    /// The next places, told by packet `seq` of the sequencer's stream; none where it has not told them yet.
    pub fn order(&mut self, io: &mut ReceiverIo, now: Instant, keys: &[PacketKey], seq: Option<u64>) {
        self.told_up_to += if seq.is_some() { keys.len() as u64 } else { 0 };
        self.told.extend(seq.map(|seq| (self.told_up_to, seq)));
        if crate::mutated!(self, ArrivalAsOrder) {
            return;
        }
        for key in keys {
            if crate::mutated!(self, OrderWithoutPacket) && !self.packets.contains_key(key) {
                continue;
            }
            self.pipeline.on_order(*key, &mut self.steps);
        }
        self.follow(io, now);
    }

    /// The places that the sequencer gave itself before are told by packet `seq` of its stream.
    pub fn told(&mut self, count: usize, seq: u64) {
        self.told_up_to += count as u64;
        self.told.push_back((self.told_up_to, seq));
    }

    fn follow(&mut self, io: &mut ReceiverIo, now: Instant) {
        let late = io.counters.late;
        for step in std::mem::take(&mut self.steps) {
            match step {
                PipelineStep::Offer(key, free_until) => self.offer(io, key, free_until),
                PipelineStep::Revoke(key, free_until) => self.revoke(io, now, key, free_until),
                PipelineStep::Place(key) => self.place(io, now, key),
            }
        }
        if io.counters.late > late {
            io.delta.on_late(now, io.counters.late - late);
        }
    }

    /// What has its place is delivered, or, if it must wait, at least on offer before all that will be offered behind it.
    fn place(&mut self, io: &mut ReceiverIo, now: Instant, key: PacketKey) {
        self.placed.push_back(key);
        self.deliver(io);
        if self.packets.get(&key).is_some_and(|arrived| !arrived.offered) {
            self.offer(io, key, now);
        }
    }

    /// So much of each stream is held by all.
    pub fn learn(&mut self, stable: &[u64]) {
        self.stable.clear();
        self.stable.extend_from_slice(stable);
    }

    fn offer(&mut self, io: &mut ReceiverIo, key: PacketKey, free_until: Instant) {
        //= P28
        let Some(arrived) = self.packets.get_mut(&key) else { return };
        arrived.offered = true;
        let Some((sender, _)) = self.members.iter().find(|(member, _)| member.node == key.origin) else { return };
        for (id, message) in &arrived.messages {
            io.counters.offers += 1;
            let delivery = delivery(*sender, Position(0), message.clone());
            io.output.push_back(Output::Offer(EarlyDelivery { id: *id, free_until, delivery }));
        }
    }

    fn revoke(&mut self, io: &mut ReceiverIo, now: Instant, key: PacketKey, free_until: Instant) {
        //= P30
        if now > free_until {
            io.counters.late += 1;
        }
        let Some(arrived) = self.packets.get_mut(&key) else { return };
        arrived.offered = false;
        for (offer, _) in arrived.messages.iter().rev() {
            io.counters.revokes += 1;
            io.output.push_back(Output::Revoke { stream: OrderStream(0), offer: *offer });
        }
    }

    /// Delivers what has its place, up to the first that is safe and not stable.
    pub fn deliver(&mut self, io: &mut ReceiverIo) {
        //= P12
        while let Some(key) = self.placed.front().copied() {
            if !self.closing && self.waits(key) {
                return;
            }
            self.placed.pop_front();
            self.delivered += 1;
            self.unstable.push_back(key);
            self.tell(io, key);
        }
        while self.unstable.front().is_some_and(|key| self.is_stable(*key)) {
            self.unstable.pop_front();
        }
    }

    /// Whether a message must wait: it is safe, and not all hold it, all that stands before it, and its place.
    fn waits(&mut self, key: PacketKey) -> bool {
        //= P13
        if !self.packets.get(&key).is_some_and(|arrived| arrived.safe) || crate::mutated!(self, SafeAsAgreed) {
            return false;
        }
        let place = self.delivered + 1;
        while self.told.front().is_some_and(|(up_to, _)| *up_to < place) {
            self.told.pop_front();
        }
        while self.unstable.front().is_some_and(|key| self.is_stable(*key)) {
            self.unstable.pop_front();
        }
        let told = self.told.front().is_some_and(|(_, seq)| self.stable.first() >= Some(seq));
        let held = self.unstable.is_empty() && self.is_stable(key);
        !(held && (told || crate::mutated!(self, OrderUnheld)))
    }

    fn is_stable(&self, key: PacketKey) -> bool {
        let index = self.members.iter().position(|(member, _)| member.node == key.origin);
        index.is_some_and(|index| self.stable.get(index) >= Some(&key.seq))
    }

    fn tell(&mut self, io: &mut ReceiverIo, key: PacketKey) {
        let sender = self.members.iter().map(|(member, _)| *member).find(|member| member.node == key.origin);
        let (Some(arrived), Some(sender)) = (self.packets.remove(&key), sender) else {
            // What has its place is here, and its sender is a member.
            io.counters.assertions += 1;
            return;
        };
        self.own = self.own.saturating_sub(u64::from(sender == self.me));
        if arrived.primary && (self.may_call() || crate::mutated!(self, PrimaryWhileClosed)) {
            //= P46
            self.call = PrimaryCall::Made;
            io.output.push_back(Output::Primary(self.view));
        }
        for (index, (offer, message)) in arrived.messages.into_iter().enumerate() {
            let mut delivery = delivery(sender, position(self.delivered, index, self.closing), message);
            if sender == self.me {
                delivery.id = io.queue.delivered(delivery.class, delivery.service);
            }
            let left_open = self.closing && crate::mutated!(self, OffersLeftOpen);
            io.output.push_back(match arrived.offered && !left_open {
                true => Output::Confirm { offer, delivery },
                false => Output::Deliver(delivery),
            });
        }
    }

    /// Whether the event that makes the view primary counts.
    fn may_call(&self) -> bool {
        //= V19
        !self.closing && self.call != PrimaryCall::Renounced
    }

    /// The view is closed: all that has its place is delivered behind the transitional view.
    pub fn begin_to_close(&mut self, io: &mut ReceiverIo) {
        self.closing = true;
        self.deliver(io);
    }

    /// All that was taken in gets a place behind those that were given, by sender and number.
    pub fn close(&mut self, io: &mut ReceiverIo, now: Instant) {
        //= P42
        self.pipeline.forget_places();
        #[allow(unused_mut)]
        let mut rest = self.rest();
        #[cfg(feature = "mutants")]
        if crate::mutated!(self, ClosingByArrival) {
            rest = self.pipeline.by_arrival();
        }
        for key in rest {
            self.pipeline.on_order(key, &mut self.steps);
        }
        self.pipeline.close(&mut self.steps);
        self.follow(io, now);
    }

    /// What has no place, by sender and number. Who had delivered more than the places that are known here did not come
    /// along, and what it sent then may stand behind something that nobody here has: it is left out, and all that follows it.
    fn rest(&self) -> Vec<PacketKey> {
        //= P42
        let known = self.delivered + self.placed.len() as u64;
        let mut left_out = None;
        let unplaced = self.packets.iter().filter(|(key, _)| !self.placed.contains(key));
        let fits = |(key, arrived): (&PacketKey, &AcceptedPacket)| {
            if arrived.after > known && !crate::mutated!(self, CauseIgnored) {
                left_out = Some(key.origin);
            }
            (left_out != Some(key.origin)).then_some(*key)
        };
        unplaced.filter_map(fits).collect()
    }

    /// How many places are delivered.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether a safe message waits for others to hold it.
    pub fn waits_for_stability(&self) -> bool {
        self.placed.front().and_then(|key| self.packets.get(key)).is_some_and(|arrived| arrived.safe)
    }

    /// How many own packets are not delivered.
    pub const fn own_waiting(&self) -> u64 {
        self.own
    }

    /// How many packets are not delivered, how many places wait for their packets, and the bytes of incomplete messages.
    pub fn waiting(&self) -> (usize, usize, usize) {
        let held = self.members.iter().map(|(_, assembly)| assembly.held()).sum();
        (self.packets.len(), self.pipeline.awaited(), held)
    }

    /// Whether these places are the next that the sequencer tells.
    pub const fn is_next_place(&self, first: u64) -> bool {
        first == self.told_up_to + 1
    }

    /// Whether the packet of a position is here, or was, once it had its place.
    pub fn has(&self, position: Position) -> bool {
        let Some(place) = place_of(position) else { return false };
        place <= self.delivered + self.placed.len() as u64
    }
}

fn delivery(sender: MemberId, position: Position, message: AssembledMessage) -> Delivery {
    let AssembledMessage { class, service, payload } = message;
    Delivery { stream: OrderStream(0), position, sender, id: None, class, service, payload }
}
