//! One node: its streams, its place in the order, and the views around them.
//!
//! ```text
//! contract  the node as an engine        views  what the membership asks for        links  requests, status, own packets
//! ```
mod contract;
mod links;
mod views;

use crate::config::{PlatoConfig, PlatoConfigError};
use crate::delta::Delta;
use crate::loopback::Loopback;
use crate::packet::{PlatoPacket, StreamContent, StreamPacket};
use crate::pipeline::PacketKey;
use crate::receiver::{ReceiverIo, ViewReceiver};
use crate::sequencer::Sequencer;
use crate::streams::Streams;
use consort_member::vs::{AgreedSet, Laggards, Membership, PrimaryCall};
use consort_order::{Destination, Output, SubmitQueue};
use consort_types::{Duration, Incarnation, Instant, MemberId, Position, Service, ViewId};
use consort_wire::Lane;
use links::Patience;

/// One node.
#[derive(Clone, Debug)]
pub struct Plato {
    config: PlatoConfig,
    io: ReceiverIo,
    membership: Membership,
    stage: ViewStage,
    streams: Streams,
    receiver: ViewReceiver,
    sequencer: Sequencer,
    loopback: Loopback,
    patience: Patience,
    laggards: Laggards,
    /// The view is to be called primary, once that may be said.
    settled: bool,
    now: Instant,
}

/// What may still happen in the installed view.
#[derive(Clone, Debug)]
enum ViewStage {
    /// Everything.
    Open,
    /// Nothing new is sent.
    Halted,
    /// Nothing more is taken in.
    Frozen,
    /// But what is lacking of the agreed set.
    Fetching(Box<AgreedSet>),
}

/// As which level a message rides.
fn rides(service: Service) -> Service {
    service.max(Service::Agreed)
}

impl Plato {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`PlatoConfigError`] if the settings cannot work.
    pub fn new(mut config: PlatoConfig, incarnation: Incarnation) -> Result<Self, PlatoConfigError> {
        config.validate()?;
        config.members.sort_unstable();
        let membership = Membership::new(config.membership(), incarnation)?;
        let me = membership.me();
        let queue = SubmitQueue::new(config.queue_bytes, config.message_max, rides);
        let io = ReceiverIo::new(queue, Delta::new(config.prediction));
        Ok(Self {
            io,
            membership,
            stage: ViewStage::Open,
            streams: Streams::new(ViewId::default(), &[me], me, config.window.packets),
            receiver: ViewReceiver::new(ViewId::default(), &[me], me),
            sequencer: Sequencer::default(),
            loopback: Loopback::default(),
            patience: Patience::default(),
            laggards: links::laggards(&config, Instant::ZERO, 1),
            settled: false,
            now: Instant::ZERO,
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &PlatoConfig {
        &self.config
    }

    /// Whether this node holds the packet of a position of a view, or once held it and knows that all do; `None` if it has
    /// not installed that view, or has gone on from it.
    pub fn holds_in(&self, view: ViewId, position: Position) -> Option<bool> {
        (self.view() == view).then(|| self.receiver.has(position))
    }

    pub(crate) fn view(&self) -> ViewId {
        self.membership.view().id
    }

    fn members(&self) -> &[MemberId] {
        &self.membership.view().members
    }

    fn me(&self) -> MemberId {
        self.membership.me()
    }

    /// Whether this node says the order of the installed view.
    fn is_sequencer(&self) -> bool {
        self.members().first() == Some(&self.me())
    }

    fn send(&mut self, to: Destination, lane: Lane, packet: PlatoPacket) {
        if to == Destination::All {
            self.membership.spoke(self.now);
        }
        self.io.output.push_back(Output::Send { to, lane, packet });
    }

    /// Sends the next packet of the own stream, and takes it in.
    fn originate(&mut self, content: StreamContent) -> PacketKey {
        //= P01
        let after = self.receiver.delivered();
        let data = StreamPacket { view: self.view(), key: self.streams.next_key(), after, repair: false, content };
        self.streams.append(self.now, data.clone());
        if self.members().len() > 1 {
            self.send(Destination::All, Lane::Data, PlatoPacket::Data(data.clone()));
        }
        self.take_in(&data, None);
        data.key
    }

    /// A packet is the next of its stream. Others' have arrived; own ones do so later.
    fn take_in(&mut self, data: &StreamPacket, arrived: Option<Instant>) {
        let (now, key) = (self.now, data.key);
        let Some(index) = self.streams.index(key.origin) else { return };
        if let StreamContent::Orders { first, keys } = &data.content {
            return self.on_orders(index, key, *first, keys);
        }
        self.receiver.take(&mut self.io, index, data);
        match arrived {
            Some(at) => self.arrive(key, at),
            None if self.is_sequencer() => self.arrive(key, now),
            None => self.loopback.send(now, key),
        }
    }

    /// A packet arrived: those of our own that have arrived before it go first.
    fn arrive(&mut self, key: PacketKey, at: Instant) {
        self.arrive_own(at);
        self.settle_place(key, at);
    }

    fn arrive_own(&mut self, now: Instant) {
        while let Some((at, key)) = self.loopback.arrived(now) {
            self.settle_place(key, at);
        }
    }

    fn settle_place(&mut self, key: PacketKey, at: Instant) {
        let open = matches!(self.stage, ViewStage::Open);
        let gives = self.is_sequencer() && (open || crate::mutated!(self.config, PlacesAfterEnd));
        if gives {
            //= P10
            let never = crate::mutated!(self.config, ListNeverFlushed);
            let lazy = crate::mutated!(self.config, PlacesHeldBack).then_some(Duration::from_millis(5));
            let within =
                if never { Some(Duration::from_secs(1_000_000)) } else { self.config.sequencing.within.or(lazy) };
            self.sequencer.give(self.now, key, within);
            self.receiver.order(&mut self.io, self.now, &[key], None);
        }
        self.receiver.arrive(&mut self.io, self.now, key, at, open);
    }

    /// The sequencer told places. Its own it knows already.
    fn on_orders(&mut self, index: usize, key: PacketKey, first: u64, keys: &[PacketKey]) {
        if matches!(self.stage, ViewStage::Fetching(_)) && crate::mutated!(self.config, PlacesForgotten) {
            return;
        }
        if index != 0 || !self.receiver.is_next_place(first) {
            self.io.counters.wrong += 1;
            return;
        }
        if self.is_sequencer() {
            return self.receiver.told(keys.len(), key.seq);
        }
        let me = self.me().node;
        let last_own = keys.iter().filter(|key| key.origin == me).map(|key| key.seq).max();
        if let Some(seq) = last_own {
            self.loopback.placed(self.now, seq);
            self.arrive_own(self.now);
        }
        self.receiver.order(&mut self.io, self.now, keys, Some(key.seq));
    }

    /// Tells places that are due.
    fn tell_places(&mut self, end: bool) {
        while let Some((first, keys)) = self.sequencer.tell(self.now, &self.config.sequencing, end) {
            self.io.counters.orders += 1;
            self.originate(StreamContent::Orders { first, keys });
        }
    }

    /// Sends what may be sent now.
    fn pump(&mut self) {
        if !matches!(self.stage, ViewStage::Open) {
            return;
        }
        if std::mem::take(&mut self.settled) {
            self.originate(StreamContent::Primary);
        }
        let room = self.config.datagram.packet_room() - crate::packet::DATA_LEN;
        while self.may_send() {
            let Some(body) = self.io.queue.next_body(room) else { break };
            self.io.counters.sent += 1;
            self.originate(StreamContent::Messages(body));
            self.tell_places(false);
        }
        self.tell_places(false);
        if self.io.queue.has_room_again() {
            self.io.output.push_back(Output::Room);
        }
    }

    fn may_send(&self) -> bool {
        //= P06
        let window = self.config.window;
        let packets = self.streams.under_way() < u64::from(window.packets) + self.orders_allowed();
        let bytes = self.streams.bytes_under_way() < window.bytes as usize;
        let delivers = self.receiver.own_waiting() < u64::from(window.packets);
        packets && bytes && delivers || crate::mutated!(self.config, WindowIgnored)
    }

    /// The sequencer's packets of places stand in its stream, too, and must not take the room of its messages.
    fn orders_allowed(&self) -> u64 {
        if self.is_sequencer() { self.streams.own_orders() } else { 0 }
    }

    /// After every input: deliver, send, and see to what is to be told and asked.
    fn settle(&mut self) {
        self.laggards.awake(self.now);
        self.do_acts();
        self.deliver();
        self.pump();
        self.deliver();
        self.see_to_links();
        self.see_to_leaving();
        self.do_acts();
    }

    /// What a frozen node finds out by itself it must not go by: the others do not know of it.
    pub(super) fn deliver(&mut self) {
        //= P43
        let alone = crate::mutated!(self.config, KnowsAlone);
        if matches!(self.stage, ViewStage::Open | ViewStage::Halted) || alone {
            self.receiver.learn(self.streams.stable());
        }
        self.receiver.deliver(&mut self.io);
        if self.receiver.call == PrimaryCall::Made {
            self.membership.became_primary();
        }
    }

    /// All that a leaving node has sent is delivered and held by all, and so are the places that it has delivered by: it may
    /// go.
    fn see_to_leaving(&mut self) {
        let done = self.io.queue.is_empty() && self.io.queue.all_delivered() && self.streams.under_way() == 0;
        if !self.membership.is_leaving() || !done {
            return;
        }
        //= P40
        if matches!(self.stage, ViewStage::Open) {
            self.tell_places(true);
        }
        if self.streams.under_way() == 0 {
            self.membership.depart(self.now);
        }
    }

    /// When something of the engine's own is due.
    fn next_due(&self) -> Option<Instant> {
        let open = matches!(self.stage, ViewStage::Open);
        let places = self.sequencer.due().filter(|_| open);
        [places, self.loopback.due(), self.patience.due()].into_iter().flatten().min()
    }
}

/// A span of time, doubled some times, up to a limit.
fn backed_off(span: Duration, times: u32, most: Duration) -> Duration {
    span.saturating_mul(1 << times.min(16)).min(most)
}
