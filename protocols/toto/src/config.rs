//! Every knob of the engine, with its advice.
use consort_member::Policy;
use consort_member::vs::{MembershipSettings, MembershipTimeouts, SettingsError};
use consort_types::{Duration, NodeId, Service};
use consort_wire::DatagramSize;

/// How the engine is set up. Members whose shared settings differ must not talk: see [`TotoConfig::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct TotoConfig {
    /// This node.
    pub me: NodeId,
    /// All members, this node among them, in any order.
    pub members: Vec<NodeId>,
    /// The size of a datagram, envelope included. One message packet is one datagram. Shared.
    pub datagram: DatagramSize,
    /// How many must approve. Shared.
    pub phi: Phi,
    /// Whether the paper's redundant clause is kept: every source must be acknowledged by at least n - Phi machines.
    /// It only delays. Shared.
    pub ack_floor: bool,
    /// Whether causal messages are delivered before the one order. Shared.
    pub early: Early,
    /// How many packets with messages one member may have under way: sent, but not known to be held by all.
    pub window: u64,
    /// The same for all members together, as far as this one knows.
    pub window_all: u64,
    /// How long a message may wait for an acknowledgement of ours before one is sent that carries nothing else. `None`
    /// adapts to the rate: at once where this vote is awaited and this member was silent for [`ACK_GAP`], else [`ACK`].
    pub ack: Option<Duration>,
    /// After how many messages of others an acknowledgement is sent at once.
    pub ack_every: u64,
    /// How long to wait for a missing packet before it is asked for; doubles up to 16 times as long.
    pub nak: Duration,
    /// How long a member may take in nothing new that others hold, though it is heard, before it is called deaf.
    pub deaf: Duration,
    /// When the membership acts though nothing came.
    pub timers: MembershipTimeouts,
    /// How many bytes of accepted messages may wait, for each class.
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
    pub vs_mutant: Option<consort_member::vs::Mutant>,
}

/// The threshold Phi: more than so many of the n members must approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phi {
    /// Phi = n / 2: the fastest.
    Half,
    /// Phi = n: waits for everybody. This is all-ack.
    All,
    /// Phi = this many hundredths of n, 50 to 99.
    Percent(u8),
}

/// Whether causal messages, and what is weaker, are delivered as soon as all they depend on is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// They ride as agreed: one order for everything. What process groups need.
    No,
    /// They are delivered early, outside the one order.
    Causal,
}

impl Phi {
    /// Phi as hundredths of n.
    pub const fn percent(self) -> u64 {
        match self {
            Self::Half => 50,
            Self::All => 100,
            Self::Percent(percent) => percent as u64,
        }
    }
}

/// A setting that cannot work. Names the setting, what is wrong, and what would be right.
pub type TotoConfigError = SettingsError;

/// The bytes that must be left for messages in a packet that acknowledges all other members.
const BODY_LEAST: usize = 64;

impl TotoConfig {
    /// The defaults for these members.
    pub fn new(me: NodeId, members: Vec<NodeId>) -> Self {
        let n = members.len() as u64;
        Self {
            me,
            timers: MembershipTimeouts::lan(members.len()),
            members,
            datagram: DatagramSize::DEFAULT,
            phi: Phi::Half,
            ack_floor: false,
            early: Early::No,
            window: 64,
            window_all: 64 * n,
            ack: None,
            ack_every: 16,
            nak: Duration::from_millis(4),
            deaf: Duration::from_millis(1_500),
            queue_bytes: 32 << 20,
            message_max: consort_wire::MESSAGE_MAX,
            primary: Policy::None,
            #[cfg(feature = "mutants")]
            mutant: None,
            #[cfg(feature = "mutants")]
            vs_mutant: None,
        }
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`TotoConfigError`] found.
    pub fn validate(&self) -> Result<(), TotoConfigError> {
        self.membership().validate()?;
        let percent = self.phi.percent();
        check((50..=100).contains(&percent), "toto.phi", || {
            format!("{percent} hundredths; below half two groups could order differently, use 50 to 100")
        })?;
        check(self.window >= 1 && self.window <= WINDOW_MAX, "toto.window", || {
            format!("{} packets; use 1 to {WINDOW_MAX}", self.window)
        })?;
        check(self.window_all >= self.window, "toto.window_all", || {
            format!("{} is below window {}; make it at least as large", self.window_all, self.window)
        })?;
        check(self.ack_every >= 1, "toto.ack_every", || "0; acknowledging nothing at once makes no sense".into())?;
        for (setting, span) in [("toto.ack", self.ack.unwrap_or(ACK)), ("toto.nak", self.nak), ("toto.deaf", self.deaf)]
        {
            check(!span.is_zero(), setting, || "0; give others time to speak".into())?;
        }
        let least = crate::packet::HEAD_LEN + crate::packet::ACK_LEN * (self.members.len() - 1) + BODY_LEAST;
        check(self.datagram.packet_room() >= least, "datagram", || {
            format!("acknowledging {} members leaves no room for messages; raise it", self.members.len() - 1)
        })?;
        let checked = consort_order::SubmitQueue::check(self.queue_bytes, self.message_max);
        checked.map_err(|(setting, problem)| TotoConfigError { setting, problem })
    }

    /// What the membership must know.
    pub(crate) fn membership(&self) -> MembershipSettings {
        MembershipSettings {
            primary: self.primary.clone(),
            timers: self.timers,
            packet_room: self.datagram.packet_room(),
            #[cfg(feature = "mutants")]
            mutant: self.vs_mutant,
            ..MembershipSettings::new(self.me, self.members.clone())
        }
    }

    /// As which level a message rides.
    pub(crate) fn level(&self, service: Service) -> Service {
        rides(self.early)(service)
    }

    /// The settings that all members must share, as text to be hashed into every envelope.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let mut members = self.members.clone();
        members.sort_unstable();
        vec![
            ("protocol", "toto".into()),
            ("nodes", members.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ")),
            ("datagram", self.datagram.get().to_string()),
            ("primary", format!("{:?}", self.primary)),
            ("toto.phi", format!("{}%", self.phi.percent())),
            ("toto.ack_floor", self.ack_floor.to_string()),
            ("toto.early", format!("{:?}", self.early)),
            ("largest frame", self.message_max.to_string()),
        ]
    }
}

/// How long a message waits for an acknowledgement that adapts to the rate, at most.
pub const ACK: Duration = Duration::from_millis(2);

/// How long a member whose acknowledgements adapt is silent between two that carry nothing else. Shorter than messages
/// stand apart where latency counts, longer where packets do.
pub const ACK_GAP: Duration = Duration::from_micros(500);

/// The largest window, in packets.
pub const WINDOW_MAX: u64 = 4_096;

/// How messages ride.
pub(crate) const fn rides(early: Early) -> consort_order::Rides {
    match early {
        Early::No => |service| service.max(Service::Agreed),
        Early::Causal => |service| service.max(Service::Causal),
    }
}

fn check(ok: bool, setting: &'static str, problem: impl FnOnce() -> String) -> Result<(), TotoConfigError> {
    if ok { Ok(()) } else { Err(TotoConfigError { setting, problem: problem() }) }
}
