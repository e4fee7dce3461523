//! One engine of Ring Paxos for each ring, and the merge of what they decide.
use crate::config::{Config, ConfigError, Reads};
use crate::merge::{Config as MergeConfig, Merge};
use crate::outgoing::Outgoing;
use crate::pace::{Pace, SlotClock};
use crate::packet::Packet;
use crate::slot::{RingId, Slot};
use crate::subscription::SubscriberId;
use crate::turns::Turns;
use bytes::Bytes;
use consort_order::{Engine, Output};
use consort_paxos::Paxos;
use consort_paxos::learner::Checkpoint;
use consort_types::{Duration, Incarnation, Instant, MemberId, Position, Service, View, ViewId};
use dead_rings::{DeadRings, HoldUp};
use reading::Reading;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod contract;
mod dead_rings;
mod merging;
mod reading;
mod restart;
mod rings;
mod skipping;
mod told;

/// An ordering engine: takes part in all rings, and hands out what they decide in one order.
#[derive(Clone, Debug)]
pub struct MultiRingPaxos {
    config: Config,
    me: MemberId,
    /// The rings that this node takes part in.
    rings: BTreeMap<RingId, Paxos>,
    /// How far it is with reading each.
    readings: BTreeMap<RingId, Reading>,
    /// The rings that it was told to read; before the first word all.
    wanted: Option<BTreeSet<RingId>>,
    /// Rings that were read when the merge began anew: joins were proposed that count on them.
    owed: BTreeSet<RingId>,
    merge: Merge<Checkpoint>,
    turns: Turns<Message>,
    /// The position of the last message; before the first one of a view, that of the view.
    place: Position,
    views: Views,
    /// The number of the view that is current where the merge stands.
    current: u64,
    /// That view, where this node is in it.
    inside: Option<ViewId>,
    /// Whether this node has asked to be let in: from then on it may miss nothing.
    asked: bool,
    /// Client messages may go.
    open: bool,
    outgoing: Outgoing,
    farewell: Farewell,
    /// Rings that this node has left.
    left: BTreeSet<RingId>,
    clock: SlotClock,
    paces: BTreeMap<RingId, Pace>,
    /// Rings that messages wait for.
    waits: BTreeMap<RingId, Waiting>,
    hold_up: HoldUp,
    /// Those that lack a majority of their acceptors, as far as this node knows.
    dead_rings: DeadRings,
    output: VecDeque<Output<Packet>>,
    counters: Counters,
}

/// A message that stands in the merged order.
#[derive(Clone, Debug)]
struct Message {
    service: Service,
    bytes: Bytes,
}

/// What the global ring has told of its views, before the merge comes to them.
#[derive(Clone, Debug, Default)]
struct Views {
    /// The view that closes the one before.
    closing: Option<View>,
    /// What is installed, by the number of the new view.
    installs: BTreeMap<u64, Vec<View>>,
    /// Views that this node is to call primary.
    primaries: BTreeMap<u64, ViewId>,
}

/// Whether messages wait for a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// The slot that it must reach, while they do.
    slot: Option<Slot>,
    since: Instant,
    /// Not before this time it is asked again.
    ask_at: Instant,
}

/// How far this node is with leaving.
///
/// | from | to | when |
/// |---|---|---|
/// | `Stays` | `Sends` | it is asked to leave |
/// | `Sends` | `Leaves` | what it accepted is handed out, or its time is over |
/// | any | `Restarts` | it cannot go on in this incarnation |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    Stays,
    Sends { until: Instant },
    Leaves,
    Restarts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    handed_out: u64,
    voided: u64,
    skips: u64,
    asked: u64,
    longest_wait: Duration,
    unplaced: u64,
}

impl MultiRingPaxos {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`ConfigError`] if the settings cannot work.
    pub fn new(config: Config, incarnation: Incarnation) -> Result<Self, ConfigError> {
        config.validate()?;
        let engine = |ring: &crate::config::Ring| Ok((ring.id, Paxos::new(config.of_ring(ring), incarnation)?));
        let takes_part = |ring: &&crate::config::Ring| {
            config.reads == Reads::All || ring.id == config.global || ring.acceptors.contains(&config.paxos.me)
        };
        let mut rings =
            config.rings.iter().filter(takes_part).map(engine).collect::<Result<BTreeMap<_, _>, ConfigError>>()?;
        let readings: BTreeMap<_, _> =
            config.rings.iter().map(|ring| (ring.id, Reading::at_first(&config, ring.id))).collect();
        if let Some(global) = rings.get_mut(&config.global) {
            global.note_installed(0);
        }
        let read = readings.iter().filter(|(_, reading)| **reading == Reading::Read);
        let merge = Merge::new(merge_config(&config), read.map(|(ring, _)| (*ring, Checkpoint::default())));
        Ok(Self {
            me: MemberId { node: config.paxos.me, incarnation },
            merge,
            turns: Turns::default(),
            place: Position(0),
            views: Views::default(),
            current: 0,
            inside: None,
            asked: false,
            open: false,
            outgoing: Outgoing::new(
                config.reads,
                config.paxos.queue_bytes,
                config.paxos.message_max,
                config.paxos.credit,
            ),
            farewell: Farewell::Stays,
            left: BTreeSet::new(),
            clock: SlotClock::default(),
            paces: readings.keys().map(|ring| (*ring, Pace::default())).collect(),
            waits: BTreeMap::new(),
            hold_up: HoldUp::default(),
            dead_rings: DeadRings::default(),
            output: VecDeque::new(),
            counters: Counters::default(),
            rings,
            readings,
            wanted: None,
            owed: BTreeSet::new(),
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What takes part in a ring.
    pub fn ring(&self, ring: RingId) -> Option<&Paxos> {
        self.rings.get(&ring)
    }

    /// Whatever follows from an input.
    fn settle(&mut self, now: Instant) {
        while self.farewell != Farewell::Restarts {
            self.drain_rings(now);
            self.read_on(now);
            let handed_out = self.merge_on();
            let sent = self.send_on(now);
            if !(handed_out || sent) {
                break;
            }
        }
        self.ask_for_slots(now);
        self.note_hold_up(now);
        self.ask_to_be_let_in(now);
        self.leave_on(now);
        if self.outgoing.has_room_again() {
            self.output.push_back(Output::Room);
        }
    }

    /// Once all rings are read up to their ends, messages of views to come stand where this node reads. Who was left out
    /// catches up before it comes back: a view that it cannot install would not become primary.
    fn ask_to_be_let_in(&mut self, now: Instant) {
        //= MP55
        let caught_up = self.reads_enough() && self.read_rings().all(|ring| ring.is_caught_up(now));
        self.ask_at_first(now, caught_up);
        //= MP79
        let may_be_in = self.asked && !self.hold_up.keeps_apart();
        if let Some(global) = self.rings.get_mut(&self.config.global) {
            global.reserve(!(may_be_in && (caught_up || global.members().is_some())));
        }
    }

    fn read_rings(&self) -> impl Iterator<Item = &Paxos> {
        self.merge.rings().filter_map(|ring| self.rings.get(&ring))
    }

    /// The first time this node lacks nothing of any ring: from then on it may miss nothing.
    fn ask_at_first(&mut self, now: Instant, caught_up: bool) {
        //= MP55
        if self.asked || !caught_up || !self.read_rings().all(|ring| ring.is_level(now)) {
            return;
        }
        self.asked = true;
        //= MP56
        let read = self.rings.iter_mut().filter(|(ring, _)| self.readings.get(ring) == Some(&Reading::Read));
        read.for_each(|(_, ring)| ring.miss_nothing(true));
    }

    /// Leaves the rings once they have all that was accepted.
    fn leave_on(&mut self, now: Instant) {
        let Farewell::Sends { until } = self.farewell else { return };
        if self.outgoing.is_empty() || now >= until {
            self.farewell = Farewell::Leaves;
            self.rings.values_mut().for_each(|ring| ring.leave(now));
            self.drain_rings(now);
        }
    }
}

fn merge_config(config: &Config) -> MergeConfig {
    let merge = MergeConfig::new(SubscriberId(0), config.merge_bytes);
    #[cfg(feature = "mutants")]
    let merge = MergeConfig { mutant: config.mutant, ..merge };
    merge
}
