//! Every knob, with its advice.
use crate::packet::{members_in, places_in};
use consort_member::{Policy, vs};
use consort_order::SubmitQueue;
use consort_types::{Duration, NodeId};
use consort_wire::DatagramSize;

/// How a node is set up. Members whose shared settings differ must not talk: see [`PlatoConfig::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlatoConfig {
    /// This node.
    pub me: NodeId,
    /// All nodes, this one among them. The lowest of a view is its sequencer.
    pub members: Vec<NodeId>,
    /// The size of a datagram, envelope included. One packet is one datagram. Shared.
    pub datagram: DatagramSize,
    /// When the sequencer tells places.
    pub sequencing: Sequencing,
    /// What receivers believe of places that they were not told yet.
    pub prediction: Prediction,
    /// How much of its own a node may have under way. Shared.
    pub window: Window,
    /// When to ask, and when to tell.
    pub links: LinkTimers,
    /// The timers of the membership.
    pub membership: vs::MembershipTimeouts,
    /// How many bytes of accepted messages may wait to be sent. Sessions grant far less to each client.
    pub queue_bytes: usize,
    /// The largest message, in bytes. Shared.
    pub message_max: usize,
    /// Which view is primary. Shared.
    pub primary: Policy,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
    /// The rule of the membership that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub membership_mutant: Option<vs::Mutant>,
}

/// When the sequencer tells places. A packet of places costs as much as one of messages; waiting for more costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencing {
    /// After so many packets: the paper's trade-off k.
    pub every: u32,
    /// After so long at the latest. (The paper knows no such limit: the last places would never be told.) `None` adapts to
    /// the rate: at once where none were told for [`Sequencing::GAP`].
    pub within: Option<Duration>,
}

impl Sequencing {
    /// How long a sequencer that adapts to the rate waits between two packets of places, unless there are enough for one.
    /// Shorter than messages stand apart where latency counts, longer where packets do.
    pub const GAP: Duration = Duration::from_micros(250);
}

/// What receivers believe of places that they were not told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// Nothing: messages are delivered when their place is known, as from a plain sequencer.
    Off,
    /// Packets that come within this time of each other may have been swapped; others were not.
    Fixed(Duration),
    /// The same with a time that is as short as mistakes in less than one of a hundred packets allow.
    Adaptive {
        /// What to begin with.
        start: Duration,
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
        /// How fast it follows mistakes.
        pace: AdaptationPace,
    },
}

/// How fast the time within which packets are suspected follows mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdaptationPace {
    /// Mistakes are counted over ten seconds, and raise it once each.
    #[default]
    Calm,
    /// As the paper has it: over one second; each packet that is revoked too late raises it.
    Paper,
}

/// How much of its own a node may have under way: sent, and not known to be held by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In packets.
    pub packets: u32,
    /// In bytes of packets.
    pub bytes: u32,
}

/// When to ask, and when to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTimers {
    /// How long to wait for a missing packet before it is asked for. Swapped packets should come by then.
    pub request: Duration,
    /// How long to wait for the answer at most; the time doubles with each request.
    pub request_max: Duration,
    /// How long to collect what was received before it is told.
    pub status: Duration,
    /// The same while a safe message waits for it.
    pub status_safe: Duration,
}

impl PlatoConfig {
    /// The defaults for a switched LAN.
    pub fn new(me: NodeId, members: Vec<NodeId>) -> Self {
        let membership = vs::MembershipTimeouts::lan(members.len());
        Self {
            me,
            members,
            datagram: DatagramSize::DEFAULT,
            sequencing: Sequencing { every: 10, within: None },
            prediction: Prediction::default(),
            window: Window { packets: 256, bytes: 256 << 10 },
            links: LinkTimers {
                request: Duration::from_millis(1),
                request_max: Duration::from_millis(20),
                status: Duration::from_millis(5),
                status_safe: Duration::from_micros(500),
            },
            membership,
            queue_bytes: 32 << 20,
            message_max: consort_wire::MESSAGE_MAX,
            primary: Policy::None,
            #[cfg(feature = "mutants")]
            mutant: None,
            #[cfg(feature = "mutants")]
            membership_mutant: None,
        }
    }

    /// The settings that all members must share, by name and for people: members that differ must not talk.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let mut members = self.members.clone();
        members.sort_unstable();
        vec![
            ("protocol", "plato".into()),
            ("nodes", members.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ")),
            ("datagram", self.datagram.get().to_string()),
            ("primary", format!("{:?}", self.primary)),
            ("plato.window", format!("{:?}", self.window)),
            ("largest frame", self.message_max.to_string()),
        ]
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`PlatoConfigError`] found.
    pub fn validate(&self) -> Result<(), PlatoConfigError> {
        let spans = [
            ("sequencing.within", self.sequencing.within.unwrap_or(Sequencing::GAP)),
            ("links.request", self.links.request),
            ("links.status", self.links.status),
            ("links.status_safe", self.links.status_safe),
        ];
        if let Some((setting, _)) = spans.into_iter().find(|(_, span)| span.is_zero()) {
            return wrong(setting, "0; a repetition without a pause would never let the network rest".into());
        }
        if !(1..=Self::EVERY_MAX).contains(&self.sequencing.every) {
            let problem = format!("{} packets; use 1 to {}", self.sequencing.every, Self::EVERY_MAX);
            return wrong("sequencing.every", problem);
        }
        if self.links.request_max < self.links.request {
            let problem = format!("{:?} is shorter than links.request; use at least that", self.links.request_max);
            return wrong("links.request_max", problem);
        }
        if self.window.packets == 0 || (self.window.bytes as usize) < self.datagram.get() {
            return wrong(
                "window",
                format!("leaves no room for one packet of {} bytes; raise it", self.datagram.get()),
            );
        }
        if self.members.len() > members_in(self.datagram.packet_room()) {
            let problem = format!("cannot tell what {} members hold; raise it", self.members.len());
            return wrong("datagram", problem);
        }
        SubmitQueue::check(self.queue_bytes, self.message_max).or_else(|(setting, problem)| wrong(setting, problem))?;
        self.membership().validate()?;
        self.prediction.validate()
    }

    /// The most packets whose places are told at once: fits the smallest datagram.
    pub const EVERY_MAX: u32 = 40;

    /// What the membership needs to know.
    pub fn membership(&self) -> vs::MembershipSettings {
        vs::MembershipSettings {
            primary: self.primary.clone(),
            timers: self.membership,
            packet_room: self.datagram.packet_room(),
            #[cfg(feature = "mutants")]
            mutant: self.membership_mutant,
            ..vs::MembershipSettings::new(self.me, self.members.clone())
        }
    }
}

const _: () = assert!(PlatoConfig::EVERY_MAX as usize <= places_in(DatagramSize::MIN - consort_wire::envelope::LEN));

impl Default for Prediction {
    /// Adaptive, from what suffices for nearly all swaps in a data centre.
    fn default() -> Self {
        Self::Adaptive {
            start: Duration::from_micros(128),
            least: Duration::from_micros(5),
            most: Duration::from_millis(20),
            pace: AdaptationPace::Calm,
        }
    }
}

impl Prediction {
    /// Adaptive by the rule of the paper.
    pub fn paper() -> Self {
        match Self::default() {
            Self::Adaptive { start, least, most, .. } => {
                Self::Adaptive { start, least, most, pace: AdaptationPace::Paper }
            }
            other => other,
        }
    }

    fn validate(self) -> Result<(), PlatoConfigError> {
        match self {
            Self::Adaptive { start, least, most, .. } if !(least <= start && start <= most) || least.is_zero() => {
                let problem = format!("{start:?} is not between {least:?} and {most:?}, or 0 is allowed; put it there");
                wrong("prediction", problem)
            }
            _ => Ok(()),
        }
    }
}

/// A setting that cannot work. Names the setting, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct PlatoConfigError {
    /// The setting, by its name in the configuration file.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

impl From<vs::SettingsError> for PlatoConfigError {
    fn from(error: vs::SettingsError) -> Self {
        Self { setting: error.setting, problem: error.problem }
    }
}

const fn wrong(setting: &'static str, problem: String) -> Result<(), PlatoConfigError> {
    Err(PlatoConfigError { setting, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PlatoConfig {
        PlatoConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)])
    }

    #[test]
    fn the_defaults_work_and_what_cannot_work_is_named() {
        assert_eq!(config().validate(), Ok(()));
        let adaptive = |start, least, most| {
            let us = Duration::from_micros;
            Prediction::Adaptive { start: us(start), least: us(least), most: us(most), pace: AdaptationPace::Paper }
        };
        let links = config().links;
        let least = DatagramSize::new(DatagramSize::MIN).unwrap();
        for (broken, setting) in [
            (
                PlatoConfig { sequencing: Sequencing { every: 0, ..config().sequencing }, ..config() },
                "sequencing.every",
            ),
            (
                PlatoConfig { sequencing: Sequencing { every: 41, ..config().sequencing }, ..config() },
                "sequencing.every",
            ),
            (
                PlatoConfig { sequencing: Sequencing { within: Some(Duration::ZERO), every: 1 }, ..config() },
                "sequencing.within",
            ),
            (
                PlatoConfig { links: LinkTimers { request_max: Duration::ZERO, ..links }, ..config() },
                "links.request_max",
            ),
            (PlatoConfig { links: LinkTimers { status: Duration::ZERO, ..links }, ..config() }, "links.status"),
            (PlatoConfig { window: Window { packets: 0, bytes: 1 << 20 }, ..config() }, "window"),
            (PlatoConfig { window: Window { packets: 9, bytes: 100 }, ..config() }, "window"),
            (PlatoConfig { prediction: adaptive(1, 5, 9), ..config() }, "prediction"),
            (PlatoConfig { prediction: adaptive(7, 0, 9), ..config() }, "prediction"),
            (PlatoConfig { me: NodeId(9), ..config() }, "node"),
            (PlatoConfig { message_max: 0, ..config() }, "limits.message"),
            (PlatoConfig { queue_bytes: 9, ..config() }, "limits.queue"),
            (PlatoConfig { members: (1..=99).map(NodeId).collect(), datagram: least, ..config() }, "datagram"),
        ] {
            let error = broken.validate().unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
        }
    }
}
