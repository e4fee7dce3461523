//! Which state handles which input: the table, and nothing else.
use crate::config::{Config, ConfigError};
use crate::packet::Packet;
use crate::queue::Queue;
use crate::state::{Forming, Operational};
use crate::timer::{Timer, Timers};
use bytes::Bytes;
use consort_order::{AcrossPartitions, Arrival, Capability, Engine, Link, Output, Refused, Submission, To};
use consort_types::{
    Incarnation, Instant, MemberId, MessageId, NodeId, Position, Service, Stream, Ticket, View, ViewId,
};
use consort_wire::Lane;
use std::collections::VecDeque;

/// One node of a ring.
#[derive(Debug)]
pub struct Ring {
    io: Io,
    state: State,
}

/// Each state owns its data. What a changing membership adds (Gather, Commit, Recovery) stands here beside these.
#[derive(Debug)]
enum State {
    /// The configured members look for each other.
    Forming(Forming),
    /// The token circulates.
    Operational(Box<Operational>),
}

/// What all states share: the way out, the queue of what clients want sent, the timers, the settings.
#[derive(Debug)]
pub(crate) struct Io {
    pub config: Config,
    pub me: MemberId,
    pub queue: Queue,
    pub timers: Timers,
    pub output: VecDeque<Output<Packet>>,
    pub counters: Counters,
}

impl Io {
    pub fn send(&mut self, to: To, lane: Lane, packet: Packet) {
        self.output.push_back(Output::Send { to, lane, packet });
    }

    /// Notes a broken invariant: counted in every build, and fatal in debug builds, so that tests stop where it broke.
    pub fn check(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.counters.assertion_failures += 1;
            self.counters.last_assertion = Some(rule);
            if cfg!(all(debug_assertions, not(feature = "mutants"))) {
                panic!("{rule}");
            }
        }
    }
}

macro_rules! counters {
    ($($name:ident $what:literal),* $(,)?) => {
        /// What happened so far. Shown by `status`, exported as metrics, read by tests.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counters {
            $(#[doc = $what] pub $name: u64,)*
            /// The rule that was broken last.
            pub last_assertion: Option<&'static str>,
        }

        impl Counters {
            fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
                $(see(stringify!($name), self.$name);)*
            }
        }
    };
}

counters!(
    visits "Visits of the token.",
    packets_sent "Numbered packets sent for the first time.",
    packets_sent_after_token "Those of them that left after the token.",
    retransmissions_sent "Packets sent again because they were asked for.",
    requests_made "Places asked for.",
    needless_retransmissions "Retransmissions that arrived where the packet was held already.",
    duplicates "Data packets that were held already.",
    duplicate_tokens "Tokens that were accepted before.",
    tokens_retransmitted "Tokens sent again.",
    token_losses "Times that no token came for token_loss.",
    holds "Times that the token was parked.",
    hold_cancels_sent "Times that a parked token was asked for.",
    foreign_ring "Packets of another ring.",
    wrong_sender "Tokens from somebody who is not the predecessor.",
    old_incarnation "Packets from an earlier life of a member.",
    new_incarnation "Packets from a later life of a member: it was restarted.",
    strangers "Packets from nodes that are not configured.",
    beyond_window "Data packets too far ahead to be kept.",
    unexpected "Packets that have no meaning in this state.",
    assertion_failures "Invariants found broken. Always 0.",
);

impl Ring {
    /// A node that is about to start; `incarnation` is this life of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`ConfigError`] if the settings cannot work.
    pub fn new(mut config: Config, incarnation: Incarnation) -> Result<Self, ConfigError> {
        config.validate()?;
        config.members.sort_unstable();
        let me = MemberId { node: config.me, incarnation };
        let queue = Queue::new(config.queue_bytes, config.message_max);
        let (timers, output, counters) = (Timers::default(), VecDeque::new(), Counters::default());
        let state = State::Forming(Forming::default());
        Ok(Self { io: Io { config, me, queue, timers, output, counters }, state })
    }

    /// Whether this node holds the packet of a position, or once held it and knows that all others do.
    pub fn holds(&self, position: Position) -> bool {
        let seq = crate::delivery::seq_of(position);
        match &self.state {
            State::Forming(_) => false,
            State::Operational(ring) => ring.holds(seq),
        }
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.io.config
    }

    #[cfg(test)]
    pub(crate) fn received_for_test(&self) -> u64 {
        let State::Operational(ring) = &self.state else { return 0 };
        ring.received
    }

    /// The rule whose assertion failed last, if any did.
    pub const fn last_assertion(&self) -> Option<&'static str> {
        self.io.counters.last_assertion
    }

    fn begin(&mut self, now: Instant, view: View) -> &mut Operational {
        self.io.queue.close_gate(view.id);
        let ring = Operational::install(&mut self.io, now, view);
        self.state = State::Operational(Box::new(ring));
        let State::Operational(ring) = &mut self.state else { unreachable!("assigned above") };
        ring
    }

    fn begin_and_originate(&mut self, now: Instant, view: View) {
        self.begin(now, view);
        if let State::Operational(ring) = &mut self.state {
            ring.originate(&mut self.io, now);
        }
    }

    /// A regular packet reached us while forming: if its ring is the one all agreed on, the ring runs.
    fn regular_while_forming(&mut self, now: Instant, from: MemberId, packet: Packet) {
        let State::Forming(forming) = &mut self.state else { return };
        let ring = match &packet {
            Packet::Data(data) => data.ring,
            Packet::Token(token) => token.ring,
            _ => return,
        };
        match forming.agreed_view(ring, self.io.me) {
            Some(view) => {
                self.begin(now, view);
                self.dispatch(now, from, packet);
            }
            None => self.io.counters.foreign_ring += 1,
        }
    }

    /// Packet x state.
    fn dispatch(&mut self, now: Instant, from: MemberId, packet: Packet) {
        let io = &mut self.io;
        match (&mut self.state, packet) {
            (State::Operational(ring), Packet::Data(data)) => ring.on_data(io, from, data),
            (State::Operational(ring), Packet::Token(token)) => ring.on_token(io, now, from, token),
            (State::Operational(ring), Packet::HoldCancel(cancel)) => ring.on_hold_cancel(io, now, cancel),
            // Its sender has not seen the first token yet, or was restarted; either way nothing here changes.
            (State::Operational(_), Packet::Form(_)) => io.counters.unexpected += 1,
            (State::Forming(forming), Packet::Form(form)) => {
                if let Some(view) = forming.on_form(io, now, from, form) {
                    self.begin_and_originate(now, view);
                }
            }
            // No ring runs here, so no token can be parked here.
            (State::Forming(_), Packet::HoldCancel(_)) => io.counters.unexpected += 1,
            (State::Forming(_), packet) => self.regular_while_forming(now, from, packet),
        }
    }

    /// Timer x state.
    fn expire(&mut self, now: Instant, timer: Timer) {
        let io = &mut self.io;
        match (&mut self.state, timer) {
            (State::Operational(ring), Timer::TokenRetransmit) => ring.on_token_retransmit(io, now),
            (State::Operational(ring), Timer::TokenLoss) => ring.on_token_loss(io, now),
            (State::Operational(ring), Timer::Hold) => ring.on_hold_end(io, now),
            (State::Operational(ring), Timer::HoldCancel) => ring.on_hold_cancel_again(io, now),
            (State::Forming(forming), Timer::Form) => forming.on_form_again(io, now),
            (State::Forming(forming), Timer::Propose) => forming.propose(io, now),
            (State::Operational(_), Timer::Form | Timer::Propose) | (State::Forming(_), _) => {}
        }
    }

    fn tell_room(&mut self) {
        if self.io.queue.has_room_again() {
            self.io.output.push_back(Output::Room);
        }
    }
}

impl Engine for Ring {
    type Packet = Packet;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "ring",
            services: &[Service::Agreed, Service::Safe],
            optimistic: false,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            continues_in_minority: true,
            across_partitions: AcrossPartitions::Evs,
        }
    }

    fn start(&mut self, now: Instant, _records: &[Bytes]) {
        let State::Forming(forming) = &mut self.state else { return };
        if let Some(view) = forming.start(&mut self.io, now) {
            self.begin_and_originate(now, view);
        }
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if submission.stream != Stream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        let id = self.io.queue.push(submission)?;
        if let State::Operational(ring) = &mut self.state {
            ring.nudge(&mut self.io, now);
        }
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        if !self.io.config.members.contains(&arrival.from.node) {
            self.io.counters.strangers += 1;
            return;
        }
        let State::Operational(ring) = &mut self.state else { return self.dispatch(now, arrival.from, packet) };
        if ring.knows(&mut self.io, arrival.from) {
            self.dispatch(now, arrival.from, packet);
            self.tell_room();
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.io.timers.take_due(now) {
            self.expire(now, timer);
        }
        self.tell_room();
    }

    // The ring keeps nothing on disk and uses no reliable lane; a configured membership sends no beacons.
    fn handle_persisted(&mut self, _now: Instant, _ticket: Ticket) {}
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}
    fn annotate(&mut self, _annotation: Bytes) {}

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.io.queue.open_gate(view)
            && let State::Operational(ring) = &mut self.state
        {
            ring.nudge(&mut self.io, now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.io.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.io.timers.next()
    }

    fn reads_first(&self) -> Lane {
        match &self.state {
            State::Forming(_) => Lane::Token,
            State::Operational(ring) => ring.reads_first(),
        }
    }

    fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.io.counters.observe(see);
        see("queued_bytes", self.io.queue.bytes() as u64);
        if let State::Operational(ring) = &self.state {
            ring.observe(see);
        }
    }

    fn describe(&self, now: Instant) -> String {
        match &self.state {
            State::Forming(forming) => forming.describe(&self.io),
            State::Operational(ring) => ring.describe(now),
        }
    }
}
