//! The rings, the membership of the whole network, and the order of all rings, put together.
//!
//! ```text
//! contract  as an engine                    rings    what the rings' engines hand out
//! sending   what this node puts on rings    order    handing out by stamps, and letting go
//! relay     packets over several rings      change   from one view to the next
//! reading   what nodes read, so that gateways need not send on the rest
//! closing   what members that go on together tell and give each other before the next view
//! early     what is offered before its place is known
//! told      counters and state
//! ```
mod change;
mod closing;
mod contract;
mod early;
mod order;
mod reading;
mod relay;
mod rings;
mod sending;
mod told;

use crate::carrier::{MESSAGE_COST, TOPICS_LEN};
use crate::config::{Config, ConfigError};
use crate::heard::Heard;
use crate::horizon::Horizons;
use crate::journal::Journal;
use crate::key::RingNumber;
use crate::layout::Layout;
use crate::packet::Packet;
use crate::port::Port;
use crate::store::Store;
use crate::tree::Tree;
use closing::{Answer, Closing};
use consort_member::vs::{Membership, PrimaryCall};
use consort_order::{Output, SubmitQueue};
use consort_types::{Incarnation, Instant, MemberId, Service, View};
use consort_wire::pack::Body;
use early::Early;
use reading::{OwnReads, Readership};
use std::collections::{BTreeMap, VecDeque};

/// One node.
#[derive(Clone, Debug)]
pub struct MultiRing {
    config: Config,
    layout: Layout,
    vs: Membership,
    /// The rings that this node stands in.
    ports: BTreeMap<RingNumber, Port>,
    queue: SubmitQueue,
    journal: Journal,
    /// The highest stamp seen on any ring.
    clock: u64,
    /// What there is of the installed view; none before the first.
    room: Option<Room>,
    stage: Stage,
    /// What is held is to be told once all rings have closed.
    tell_due: bool,
    /// The event that makes the view primary is to be sent.
    primary_due: bool,
    own_reads: OwnReads,
    /// How many packets for other rings this node has sent, and which of those of others came.
    relayed: u64,
    heard: Heard,
    /// How many messages were offered.
    offered: u64,
    output: VecDeque<Output<Packet>>,
    counters: Counters,
}

/// What there is of one view.
#[derive(Clone, Debug)]
struct Room {
    view: View,
    store: Store,
    horizons: Horizons,
    /// Its rings.
    tree: Tree,
    /// The number of the last message that this node sent, or is about to.
    last: u64,
    /// What it sent that has not come back by its ring.
    sent: VecDeque<(u64, Option<Body>)>,
    /// The bytes of that.
    sent_bytes: usize,
    /// The highest stamps of messages, and of safe ones.
    wanted: u64,
    wanted_safe: u64,
    call: PrimaryCall,
    /// When to tell what was handed out.
    tell_at: Option<Instant>,
    /// What a member was given last that lacks messages at the end of the view.
    answer: Option<Answer>,
    readership: Readership,
    early: Early,
}

/// How far the installed view is from its end.
#[derive(Clone, Debug)]
enum Stage {
    /// It goes on.
    Open,
    /// Nothing new is sent in it.
    Halted,
    /// Nothing more is taken in or handed out: what is held was told.
    Frozen,
    /// Only what belongs to the agreed set is taken in.
    Closing(Box<Closing>),
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    handed_out: u64,
    forwarded: u64,
    filtered: u64,
    filtered_bytes: u64,
    passed: u64,
    reads_sent: u64,
    echoes_sent: u64,
    horizons_sent: u64,
    void: u64,
    refused: u64,
    unrelated: u64,
    unreadable: u64,
    relayed: u64,
    repeated: u64,
    pieces_sent: u64,
    sent_again: u64,
    assertion_failures: u64,
    last_assertion: Option<&'static str>,
}

/// Two levels, as the rings have.
fn rides(service: Service) -> Service {
    service.max(Service::Agreed)
}

/// What an own message counts while it is under way, as it does once it is held.
fn cost_of(body: Option<&Body>) -> usize {
    //= TM23
    MESSAGE_COST + body.map_or(0, |body| body.as_bytes().len())
}

impl MultiRing {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`ConfigError`] if the settings cannot work.
    pub fn new(config: Config, incarnation: Incarnation) -> Result<Self, ConfigError> {
        config.validate()?;
        let me = config.ring.me;
        let own = config.rings.iter().filter(|ring| ring.nodes.contains(&me));
        let ports = own.map(|ring| Ok((ring.id, Port::new(&config, ring, incarnation)?)));
        let ports = ports.collect::<Result<_, ConfigError>>()?;
        let vs = Membership::new(config.membership(), incarnation);
        Ok(Self {
            layout: Layout::new(me, &config.rings),
            vs: vs.map_err(|error| ConfigError { setting: error.setting, problem: error.problem })?,
            ports,
            queue: SubmitQueue::new(config.ring.queue_bytes, config.ring.message_max + TOPICS_LEN, rides),
            journal: Journal::default(),
            clock: 0,
            room: None,
            stage: Stage::Halted,
            tell_due: false,
            primary_due: false,
            own_reads: OwnReads::default(),
            relayed: 0,
            heard: Heard::default(),
            offered: 0,
            output: VecDeque::new(),
            counters: Counters::default(),
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// This incarnation of the node.
    pub const fn me(&self) -> MemberId {
        self.vs.me()
    }

    /// The rule whose assertion failed last, if any did.
    pub fn last_assertion(&self) -> Option<&'static str> {
        let of_rings = self.ports.values().find_map(|port| port.ring.last_assertion());
        self.counters.last_assertion.or(of_rings)
    }

    /// Notes a broken invariant: counted in every build, and fatal in debug builds, so that tests stop where it broke.
    fn check(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.counters.assertion_failures += 1;
            self.counters.last_assertion = Some(rule);
            if cfg!(all(debug_assertions, not(feature = "mutants"))) {
                panic!("{rule}");
            }
        }
    }

    /// The ring that this node sends its own messages on.
    fn home(&self) -> Option<RingNumber> {
        //= TM11
        let carried = self.ports.iter().filter(|(_, port)| port.in_view.is_some());
        carried.min_by_key(|(ring, port)| (port.delay, **ring)).map(|(ring, _)| *ring)
    }

    /// The rings by which the view's messages come to this node, but for one of them.
    fn carried_but(&self, ring: Option<RingNumber>) -> Vec<RingNumber> {
        let carried = self.ports.iter().filter(|(number, port)| port.in_view.is_some() && Some(**number) != ring);
        carried.map(|(number, _)| *number).collect()
    }
}

impl Room {
    fn new(view: View, me: MemberId, tree: Tree) -> Self {
        let index = view.members.binary_search(&me).unwrap_or(0);
        Self {
            store: Store::new(view.members.len(), index),
            horizons: Horizons::new(tree.all(), tree.carries_in()),
            last: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            wanted: 0,
            wanted_safe: 0,
            call: PrimaryCall::Awaited,
            tell_at: None,
            answer: None,
            readership: Readership::new(&tree, &view, index),
            early: Early::default(),
            tree,
            view,
        }
    }

    fn index(&self, member: MemberId) -> Option<usize> {
        self.view.members.binary_search(&member).ok()
    }
}
