//! Every knob of the engine, with its advice.
use crate::packet::HEADER;
use crate::slot::RingId;
use consort_paxos::{Config as Paxos, Storage};
use consort_types::{Duration, NodeId};

/// How the engine is set up. Members whose shared settings differ must not talk: see [`Config::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What all rings share: this node, all nodes, times and bounds. Its acceptors are those of no ring.
    pub paxos: Paxos,
    /// The rings. Shared.
    pub rings: Vec<Ring>,
    /// The ring that carries views, control messages, and messages to groups of several rings. Shared.
    pub global: RingId,
    /// Which rings a node takes part in. Shared.
    pub reads: Reads,
    /// How often a ring skips while somebody waits for it: messages wait half of it on average for an idle ring.
    pub delta_t: Duration,
    /// Whether a ring skips further than its clock says where it comes late: it makes up for distance. Off only to
    /// show what that is worth.
    pub compensates: bool,
    /// Whether rings skip although nobody waits for them, as the paper's do. On only for its figures.
    pub skips_unasked: bool,
    /// How many bytes of each ring may wait for the others; the rest stays in the ring's log.
    pub merge_bytes: usize,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

/// Which rings a node takes part in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// In all. A sender's messages are handed out in its order, whichever rings they go to.
    #[default]
    All,
    /// In the global one, in those where it votes, and in those that it was told to read. Whoever sends sees to its order
    /// itself: it sends to another ring once all that it sent before is handed out.
    Groups,
}

impl Reads {
    /// Both, each with its name in a configuration.
    pub const NAMED: [(&'static str, Self); 2] = [("all", Self::All), ("groups", Self::Groups)];

    fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, reads)| *reads == self).map_or("all", |(name, _)| name)
    }
}

/// One ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Its number, from 1.
    pub id: RingId,
    /// The nodes that vote in it: 1, 3, 5 or 7.
    pub acceptors: Vec<NodeId>,
}

/// A setting that cannot work.
pub use consort_paxos::ConfigError;

impl Config {
    /// The defaults for these nodes and rings. The first ring is the global one.
    pub fn new(me: NodeId, members: Vec<NodeId>, rings: Vec<Ring>) -> Self {
        let mut paxos = Paxos::new(me, members);
        paxos.storage = Storage::Memory;
        paxos.retain = (paxos.retain / rings.len().max(1)).max(paxos.value);
        let global = rings.first().map_or(RingId(1), |ring| ring.id);
        Self {
            paxos,
            rings,
            global,
            reads: Reads::All,
            delta_t: Duration::from_millis(2),
            compensates: true,
            skips_unasked: false,
            merge_bytes: 4 << 20,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// The settings of one ring: each takes messages with what the merge puts before them.
    pub fn of_ring(&self, ring: &Ring) -> Paxos {
        let message_max = self.paxos.message_max + HEADER;
        let credit = (self.paxos.credit / self.rings.len().max(1)).max(1);
        let queue_bytes = message_max.max(self.paxos.value * 2);
        Paxos { acceptors: ring.acceptors.clone(), message_max, credit, queue_bytes, ..self.paxos.clone() }
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |setting, problem: String| Err(ConfigError { setting, problem });
        if self.rings.is_empty() {
            return wrong("ring", "there is none; describe at least one below [[ring]]".into());
        }
        for (at, ring) in self.rings.iter().enumerate() {
            if ring.id.0 == 0 {
                return wrong("ring.id", "0 is no ring; use 1 to 255".into());
            }
            if self.rings[..at].iter().any(|other| other.id == ring.id) {
                return wrong("ring.id", format!("{} is described twice; number each ring once", ring.id));
            }
        }
        if self.rings.iter().all(|ring| ring.id != self.global) {
            return wrong("ring.global", format!("{} is not described; make one that is global", self.global));
        }
        if self.paxos.storage != Storage::Memory {
            let name = self.paxos.storage.name();
            return wrong("paxos.storage", format!("{name} with many rings; use memory, or protocol = \"paxos\""));
        }
        if self.delta_t.is_zero() {
            return wrong("delta_t", "0; give rings time to decide".into());
        }
        consort_order::SubmitQueue::check(self.paxos.queue_bytes, self.paxos.message_max)
            .map_err(|(setting, problem)| ConfigError { setting, problem })?;
        self.rings.iter().try_for_each(|ring| self.of_ring(ring).validate())
    }

    /// The settings that all members must share, as text to be hashed into every envelope.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let ring = |ring: &Ring| {
            let mut nodes = ring.acceptors.clone();
            nodes.sort_unstable();
            let nodes: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
            format!("{}: {}", ring.id, nodes.join(" "))
        };
        let mut rings: Vec<_> = self.rings.iter().map(ring).collect();
        rings.sort_unstable();
        let shared = self.paxos.shared_settings().into_iter();
        let shared = shared.filter(|(name, _)| !["protocol", "paxos.acceptors"].contains(name));
        let own = [
            ("protocol", "multiring-paxos".into()),
            ("rings", rings.join(", ")),
            ("global ring", self.global.to_string()),
        ];
        let reads = (self.reads != Reads::All).then(|| ("rings read", self.reads.name().into()));
        own.into_iter().chain(reads).chain(shared).collect()
    }
}
