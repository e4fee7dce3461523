//! Every knob of the membership, with its advice.
use crate::Policy;
use consort_types::{Duration, NodeId};

/// The most nodes there can be.
pub const MEMBERS_MAX: usize = 128;

/// How the membership is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct MembershipSettings {
    /// This node.
    pub me: NodeId,
    /// All nodes, this one among them.
    pub nodes: Vec<NodeId>,
    /// Which view is primary. Shared.
    pub primary: Policy,
    /// When to act though nothing came, where packets take no time on their way.
    pub timers: MembershipTimeouts,
    /// How long packets are under way at least, as far as the timers go, one way. What is measured and is longer takes its
    /// place.
    pub delay: Duration,
    /// How many bytes one packet may take: some beacons are padded to it.
    pub packet_room: usize,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<super::Mutant>,
}

/// When to act though nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipTimeouts {
    /// Who multicast nothing for so long speaks.
    pub heartbeat: Duration,
    /// A member that was not heard for so long is failed.
    pub silence: Duration,
    /// How often JOIN is sent again; up to half of it is added by chance.
    pub join: Duration,
    /// How long to wait for equal JOINs before those that did not send one are failed.
    pub consensus: Duration,
    /// How often the proposer repeats what it waits to be answered, and how often readiness is told again.
    pub repeat: Duration,
    /// How long an attempt at a view may take, fetching included.
    pub attempt_max: Duration,
    /// How often a beacon is sent, give or take a tenth.
    pub beacon: Duration,
    /// How long a leaving node tries to get its last messages delivered.
    pub leave: Duration,
}

impl MembershipTimeouts {
    /// The defaults for a switched LAN and `n` nodes.
    pub fn lan(n: usize) -> Self {
        let heartbeat = Duration::from_micros(25_000 + 250 * n as u64);
        Self {
            heartbeat,
            silence: heartbeat * 8,
            join: Duration::from_millis(20),
            consensus: heartbeat * 8,
            repeat: Duration::from_millis(20),
            attempt_max: Duration::from_secs(5),
            beacon: Duration::from_millis(200),
            leave: Duration::from_millis(300),
        }
    }
}

/// A setting that cannot work. Names the setting, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct SettingsError {
    /// The setting, by its name in the configuration file.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

impl MembershipSettings {
    /// The defaults for these nodes.
    pub fn new(me: NodeId, nodes: Vec<NodeId>) -> Self {
        let timers = MembershipTimeouts::lan(nodes.len());
        Self {
            me,
            nodes,
            primary: Policy::None,
            timers,
            delay: Duration::ZERO,
            packet_room: consort_wire::DatagramSize::DEFAULT.packet_room(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// When to act though nothing came, where a packet was measured to take so long on its way.
    pub(super) fn timeouts(&self, measured: Duration) -> MembershipTimeouts {
        //= M60
        self.timers.far(self.delay.max(measured))
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`SettingsError`] found.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.validate_nodes()?;
        self.timers.validate()
    }

    fn validate_nodes(&self) -> Result<(), SettingsError> {
        let mut sorted = self.nodes.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong("node", format!("{} is listed twice; give every node an id of its own", twice[0]));
        }
        if !sorted.contains(&self.me) {
            return wrong("node", format!("{} is not among the nodes; add it", self.me));
        }
        if sorted.len() > MEMBERS_MAX {
            return wrong("node", format!("{} nodes; at most {MEMBERS_MAX} can be members", sorted.len()));
        }
        self.primary.validate(&sorted).or_else(|error| wrong("primary", error.to_string()))
    }
}

impl MembershipTimeouts {
    /// All at so many percent of what they are.
    #[must_use]
    pub fn scaled(&self, percent: u32) -> Self {
        let scaled = |span: Duration| span * percent / 100;
        Self {
            heartbeat: scaled(self.heartbeat),
            silence: scaled(self.silence),
            join: scaled(self.join),
            consensus: scaled(self.consensus),
            repeat: scaled(self.repeat),
            attempt_max: scaled(self.attempt_max),
            beacon: scaled(self.beacon),
            leave: scaled(self.leave),
        }
    }

    /// The same where packets take up to `delay` longer on their way.
    #[must_use]
    pub fn far(&self, delay: Duration) -> Self {
        //= TM06
        Self {
            silence: self.silence + delay * 8,
            join: self.join + delay,
            consensus: self.consensus + delay * 8,
            repeat: self.repeat + delay,
            attempt_max: self.attempt_max + delay * 8,
            leave: self.leave + delay * 4,
            ..*self
        }
    }

    fn validate(&self) -> Result<(), SettingsError> {
        let spans = [
            ("heartbeat", self.heartbeat),
            ("join", self.join),
            ("repeat", self.repeat),
            ("beacon", self.beacon),
            ("attempt_max", self.attempt_max),
        ];
        if let Some((setting, _)) = spans.into_iter().find(|(_, span)| span.is_zero()) {
            return wrong(setting, "0; a repetition without a pause would never let the network rest".into());
        }
        if self.silence < self.heartbeat * 4 {
            let least = self.heartbeat * 4;
            return wrong(
                "silence",
                format!("{:?} survives no 3 lost heartbeats; use {least:?} or more", self.silence),
            );
        }
        if self.consensus <= 5 * self.join * 3 / 2 {
            let problem = format!("{:?} leaves no time for 5 JOINs of {:?}; raise it", self.consensus, self.join);
            return wrong("consensus", problem);
        }
        if self.silence < self.repeat * 4 {
            let least = self.repeat * 4;
            return wrong("silence", format!("{:?} leaves no time for 4 repetitions; use {least:?}", self.silence));
        }
        Ok(())
    }
}

const fn wrong(setting: &'static str, problem: String) -> Result<(), SettingsError> {
    Err(SettingsError { setting, problem })
}
