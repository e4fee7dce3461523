//! Every knob of the engine, with its advice.
use crate::carrier::{CARRIED_LEAST, HEADER, TOPICS_LEN};
use crate::layout::{Layout, RingNodes};
use crate::packet::RING_LEN;
use crate::tree::RINGS_MAX;
use consort_member::vs::{MembershipSettings, MembershipTimeouts};
use consort_ring::{RingConfig, RingTimeouts};
use consort_types::{Duration, NodeId};
use consort_wire::DatagramSize;
use std::collections::BTreeSet;

/// How the engine is set up. Members whose shared settings differ must not talk: see [`Config::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What all rings share: this node, all nodes of all rings, datagrams, windows. Its timers are those of no ring.
    pub ring: RingConfig,
    /// The rings. Each node is reached from each other; there may be several ways. Shared.
    pub rings: Vec<RingNodes>,
    /// When the membership of the whole network acts though nothing came: rings notice sooner.
    pub membership: MembershipTimeouts,
    /// Those of each ring; where nothing is said, the defaults for its size.
    pub timers: Option<RingTimeouts>,
    /// All timers at so many percent: those of each ring, and those of the membership of what they are.
    pub timers_percent: u32,
    /// How many bytes of a node's messages may be under way that are not known to be handed out by all members.
    pub credit: usize,
    /// How soon a node tells what it has handed out.
    pub tell: Duration,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

/// A setting that cannot work. Names the setting, what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct ConfigError {
    /// The setting, by its name in the configuration file.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

const fn wrong(setting: &'static str, problem: String) -> Result<(), ConfigError> {
    Err(ConfigError { setting, problem })
}

/// The longest way that a ring can have.
pub use consort_member::DELAY_MOST;

impl Config {
    /// The defaults for these rings.
    pub fn new(me: NodeId, rings: Vec<RingNodes>) -> Self {
        let nodes: BTreeSet<_> = rings.iter().flat_map(|ring| ring.nodes.iter().copied()).collect();
        Self {
            ring: RingConfig { stamped: true, ..RingConfig::new(me, nodes.into_iter().collect()) },
            rings,
            membership: timeouts(),
            timers: None,
            timers_percent: 100,
            credit: 4 << 20,
            tell: Duration::from_millis(5),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// The settings of one ring: it takes messages with what stands before them here.
    pub fn of_ring(&self, ring: &RingNodes) -> RingConfig {
        let message_max = (self.ring.message_max + TOPICS_LEN + HEADER).max(CARRIED_LEAST);
        RingConfig {
            members: ring.nodes.clone(),
            // Its packets travel behind the ring's number.
            datagram: DatagramSize::new(self.ring.datagram.get() - RING_LEN).unwrap_or(self.ring.datagram),
            timers: self.timers_of(ring),
            delay: ring.delay,
            queue_bytes: message_max.max(1 << 20),
            message_max,
            primary: consort_member::Policy::None,
            stamped: true,
            ..self.ring.clone()
        }
    }

    fn timers_of(&self, ring: &RingNodes) -> RingTimeouts {
        let n = ring.nodes.len();
        scaled(&self.timers.unwrap_or(RingTimeouts::lan(n)), self.timers_percent)
    }

    /// Those of the membership of the whole network.
    pub(crate) fn membership(&self) -> MembershipSettings {
        let mut settings = MembershipSettings::new(self.ring.me, self.ring.members.clone());
        settings.primary = self.ring.primary.clone();
        //= TM06
        settings.delay = self.rings.iter().map(|ring| ring.delay).sum();
        settings.timers = self.membership.scaled(self.membership_percent());
        settings.packet_room = self.ring.datagram.packet_room() - crate::packet::AROUND;
        settings
    }

    /// Rings that notice a loss later than usual have a membership that waits for them longer, by as much.
    fn membership_percent(&self) -> u32 {
        let usual = RingTimeouts::lan(self.ring.members.len()).token_loss.as_nanos();
        let set = self.timers.map_or(usual, |timers| timers.token_loss.as_nanos()).max(usual);
        u32::try_from(u128::from(self.timers_percent) * set / usual.max(1)).unwrap_or(u32::MAX)
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_rings()?;
        self.validate_ways()?;
        let least = DatagramSize::MIN + RING_LEN;
        if self.ring.datagram.get() < least {
            let bytes = self.ring.datagram.get();
            return wrong("datagram", format!("{bytes} bytes leave no room for a ring's number; use {least} or more"));
        }
        if self.credit == 0 {
            return wrong("multiring.credit", "0; let at least one message be under way".into());
        }
        if self.tell.is_zero() {
            return wrong("multiring.tell", "0; a repetition without a pause would never let the network rest".into());
        }
        self.membership().validate().map_err(|error| ConfigError { setting: error.setting, problem: error.problem })?;
        consort_order::SubmitQueue::check(self.ring.queue_bytes, self.ring.message_max)
            .map_err(|(setting, problem)| ConfigError { setting, problem })?;
        let own = self.rings.iter().filter(|ring| ring.nodes.contains(&self.ring.me));
        own.map(|ring| self.of_ring(ring)).try_for_each(|ring| {
            ring.validate().map_err(|error| ConfigError { setting: error.setting, problem: error.problem })
        })
    }

    fn validate_rings(&self) -> Result<(), ConfigError> {
        //= TM01
        if self.rings.is_empty() {
            return wrong("ring", "there is none; describe at least one".into());
        }
        if self.rings.len() > RINGS_MAX {
            return wrong("ring", format!("there are {}; describe at most {RINGS_MAX}", self.rings.len()));
        }
        for (at, ring) in self.rings.iter().enumerate() {
            let id = ring.id;
            if id.0 == 0 {
                return wrong("ring.id", "0 is no ring; use 1 to 255".into());
            }
            if self.rings[..at].iter().any(|other| other.id == id) {
                return wrong("ring.id", format!("{id} is described twice; number each ring once"));
            }
            if ring.delay > DELAY_MOST {
                return wrong("ring.delay", format!("{:?} in {id}; use {DELAY_MOST:?} at most", ring.delay));
            }
            if ring.nodes.is_empty() {
                return wrong("ring.nodes", format!("{id} has none; list the nodes that stand in it"));
            }
            let mut nodes = ring.nodes.clone();
            nodes.sort_unstable();
            if let Some(twice) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
                return wrong("ring.nodes", format!("{} is listed twice in {id}; list it once", twice[0]));
            }
        }
        let all: BTreeSet<_> = self.rings.iter().flat_map(|ring| &ring.nodes).collect();
        match self.ring.members.iter().find(|node| !all.contains(node)) {
            Some(node) => wrong("ring.nodes", format!("{node} stands in no ring; add it to one")),
            None if all.len() > self.ring.members.len() => {
                wrong("node", "a ring has a node that is not described; describe each node".into())
            }
            None => Ok(()),
        }
    }

    /// From each node there must be a way to each other.
    fn validate_ways(&self) -> Result<(), ConfigError> {
        //= TM01
        let layout = Layout::new(self.ring.me, &self.rings);
        let (rings, _) = layout.reached(self.rings[0].id, &|_| true);
        if let Some(apart) = self.rings.iter().find(|ring| !rings.contains(&ring.id)) {
            let (first, apart) = (self.rings[0].id, apart.id);
            let problem = format!("no gateway leads from {first} to {apart}; let a node stand in rings of both sides");
            return wrong("ring.nodes", problem);
        }
        Ok(())
    }

    /// The settings that all members must share, as text to be hashed into every envelope.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let ring = |ring: &RingNodes| {
            let mut nodes = ring.nodes.clone();
            nodes.sort_unstable();
            let nodes: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
            let far = if ring.delay.is_zero() { String::new() } else { format!(" within {:?}", ring.delay) };
            format!("{}: {}{far}", ring.id, nodes.join(" "))
        };
        let mut rings: Vec<_> = self.rings.iter().map(ring).collect();
        rings.sort_unstable();
        let shared = self.ring.shared_settings().into_iter().filter(|(name, _)| *name != "protocol");
        [("protocol", "multiring".into()), ("rings", rings.join(", "))].into_iter().chain(shared).collect()
    }
}

/// A ring notices a loss by its token, and forms anew before the membership of the whole network asks who is there: a node tells
/// what it holds only once its rings have closed.
fn timeouts() -> MembershipTimeouts {
    let heartbeat = Duration::from_millis(100);
    MembershipTimeouts { heartbeat, silence: heartbeat * 12, consensus: heartbeat * 10, ..MembershipTimeouts::lan(1) }
}

fn scaled(timers: &RingTimeouts, percent: u32) -> RingTimeouts {
    let scaled = |span: Duration| span * percent / 100;
    RingTimeouts {
        token_retransmit: scaled(timers.token_retransmit),
        token_retransmit_idle: scaled(timers.token_retransmit_idle),
        token_loss: scaled(timers.token_loss),
        hold: scaled(timers.hold),
        hold_cancel: scaled(timers.hold_cancel),
        join: scaled(timers.join),
        consensus: scaled(timers.consensus),
        beacon: scaled(timers.beacon),
        recovery_max: scaled(timers.recovery_max),
        leave: scaled(timers.leave),
        ..*timers
    }
}
