//! Which protocol orders the messages, and the own knobs of those that are not the ring.
use super::reader::{self, Section};
use super::{Profile, Scheduling, Settings};
use consort_multiring_paxos::Reads;
use consort_paxos::{Config as PaxosConfig, OnBudget, Storage};
use consort_plato::{PlatoConfig, Prediction};
use consort_ring::Policy;
use consort_seal::OVERHEAD;
use consort_toto::{Early, Phi, TotoConfig};
use consort_types::{Duration, NodeId};
use consort_wire::DatagramSize;

/// Which protocol orders the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A token circulates.
    #[default]
    Ring,
    /// Messages vote for each other.
    Toto,
    /// One member says the order, the others predict it.
    Plato,
    /// A majority of acceptors keeps the order.
    Paxos,
    /// Many such orders, merged into one.
    MultiRingPaxos,
    /// Many tokens, each in a network of its own, and one order over all.
    MultiRing,
}

/// How the protocols are named.
pub const PROTOCOLS: [(&str, Protocol); 6] = [
    ("ring", Protocol::Ring),
    ("toto", Protocol::Toto),
    ("plato", Protocol::Plato),
    ("paxos", Protocol::Paxos),
    ("multiring-paxos", Protocol::MultiRingPaxos),
    ("multiring", Protocol::MultiRing),
];

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        PROTOCOLS.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// What of ToTo can be set; the rest it shares with the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toto {
    /// How many must approve.
    pub phi: Phi,
    /// Packets of one node that may be under way.
    pub window: u64,
    /// How long an acknowledgement may wait; where nothing is said it adapts.
    pub ack: Option<Duration>,
    /// After how many messages of others one is sent at once.
    pub ack_every: u64,
    /// Whether every source must be acknowledged by at least n - Phi, as in the paper.
    pub ack_floor: bool,
    /// Whether causal messages are delivered before the one order.
    pub early: bool,
    /// A member that is silent for so long is left out.
    pub silence: Option<Duration>,
}

impl Default for Toto {
    fn default() -> Self {
        Self { phi: Phi::Half, window: 64, ack: None, ack_every: 16, ack_floor: false, early: false, silence: None }
    }
}

/// What of PLATO can be set; the rest it shares with the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plato {
    /// After how many packets the sequencer tells their places.
    pub every: u32,
    /// After how long at the latest; where nothing is said it adapts.
    pub within: Option<Duration>,
    /// What receivers believe of places that they were not told yet.
    pub delta: Prediction,
    /// A member that is silent for so long is left out.
    pub silence: Option<Duration>,
}

impl Default for Plato {
    fn default() -> Self {
        Self { every: 10, within: None, delta: Prediction::default(), silence: None }
    }
}

/// What of Ring Paxos can be set; the rest it shares with the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paxos {
    /// Who votes; where nothing is said the first up to seven nodes, an odd number of them.
    pub acceptors: Option<Vec<NodeId>>,
    /// What acceptors keep through a restart; where nothing is said everything, or with many rings nothing.
    pub storage: Option<Storage>,
    /// How many bytes of the order are retained, of all rings together.
    pub retain: Option<usize>,
    /// For how long at most.
    pub retain_for: Option<Duration>,
    /// What is done once the order is full of what copies of programs lack; where nothing is said clients wait.
    pub on_budget: Option<OnBudget>,
    /// Which of many rings a daemon takes part in; where nothing is said all.
    pub reads: Option<Reads>,
}

/// What acceptors may keep, by name.
pub const STORAGES: [(&str, Storage); 3] =
    [("memory", Storage::Memory), ("async", Storage::Async), ("sync", Storage::Sync)];

/// What may be done once the order is full, by name.
const ON_BUDGET: [(&str, OnBudget); 2] =
    [(OnBudget::Wait.name(), OnBudget::Wait), (OnBudget::LetGo.name(), OnBudget::LetGo)];

/// Why `on_budget` is refused.
pub const ON_BUDGET_UNUSED: &str =
    "with storage = \"memory\" nothing is kept for copies of programs; leave it out, or use \"sync\" or \"async\"";

/// Reads the section `[paxos]`.
pub fn read_paxos(section: &mut Section<'_, '_>, paxos: &mut Paxos) {
    let acceptors = section.numbers("acceptors", 1..=u16::MAX);
    paxos.acceptors = acceptors.map(|nodes| nodes.into_iter().map(NodeId).collect());
    paxos.storage = section.choice("storage", &STORAGES);
    paxos.retain = section.number("retain", RETAIN_LEAST..=RETAIN_MOST);
    paxos.retain_for = section.duration("retain_for");
    paxos.on_budget = section.choice("on_budget", &ON_BUDGET);
    paxos.reads = section.choice("reads", &Reads::NAMED);
    section.finish();
}

/// Bytes of the order that may be retained.
const RETAIN_LEAST: usize = 1 << 20;
const RETAIN_MOST: usize = 64 << 30;

/// Reads the section `[plato]`.
pub fn read_plato(section: &mut Section<'_, '_>, plato: &mut Plato) {
    plato.every = section.number("every", 1..=PlatoConfig::EVERY_MAX).unwrap_or(plato.every);
    plato.within = adaptive(section, "within").unwrap_or(plato.within);
    plato.delta = section.text("delta", delta).unwrap_or(plato.delta);
    plato.silence = section.duration("silence").or(plato.silence);
    section.finish();
}

/// Reads the section `[toto]`.
pub fn read(section: &mut Section<'_, '_>, toto: &mut Toto) {
    let phi = section.text("phi", phi);
    toto.phi = phi.unwrap_or(toto.phi);
    toto.window = section.number("window", 1..=consort_toto::config::WINDOW_MAX).unwrap_or(toto.window);
    toto.ack = adaptive(section, "ack").unwrap_or(toto.ack);
    toto.ack_every = section.number("ack_every", 1..=1_000_000).unwrap_or(toto.ack_every);
    toto.ack_floor = section.switch("ack_floor").unwrap_or(toto.ack_floor);
    toto.early = section.switch("early").unwrap_or(toto.early);
    toto.silence = section.duration("silence").or(toto.silence);
    section.finish();
}

/// Reads a span of time, or `adaptive`, which is none.
fn adaptive(section: &mut Section<'_, '_>, key: &'static str) -> Option<Option<Duration>> {
    section.text(key, |text| match text {
        "adaptive" => Ok(None),
        text => reader::span(text).map(Some).map_err(|message| format!("{message}; or write \"adaptive\"")),
    })
}

/// Reads what is suspected: a span of time, zero to predict nothing, or by which rule it adapts.
fn delta(text: &str) -> Result<Prediction, String> {
    match text {
        "adaptive" => Ok(Prediction::default()),
        "paper" => Ok(Prediction::paper()),
        text => match reader::span(text) {
            Ok(span) if span.is_zero() => Ok(Prediction::Off),
            Ok(span) => Ok(Prediction::Fixed(span)),
            Err(message) => Err(format!("{message}; or write \"adaptive\" or \"paper\"")),
        },
    }
}

/// Reads `half`, `all` or `75%`.
fn phi(text: &str) -> Result<Phi, String> {
    let percent = |text: &str| text.strip_suffix('%')?.parse().ok().filter(|percent| (50..=99).contains(percent));
    match text {
        "half" => Ok(Phi::Half),
        "all" => Ok(Phi::All),
        text => percent(text).map(Phi::Percent).ok_or_else(|| {
            format!("\"{text}\" is no share of the members; use \"half\", \"all\", or one from \"50%\" to \"99%\"")
        }),
    }
}

/// The same for PLATO, whose own settings are named after their sections.
fn plato_key(setting: &'static str) -> &'static str {
    match setting {
        "silence" | "heartbeat" | "consensus" => "plato.silence",
        "sequencing.every" => "plato.every",
        "sequencing.within" => "plato.within",
        "prediction" => "plato.delta",
        other => other,
    }
}

/// What the membership derives from `silence` is wrong where that is.
fn key(setting: &'static str) -> &'static str {
    if matches!(setting, "silence" | "heartbeat" | "consensus") { "toto.silence" } else { setting }
}

impl Settings {
    /// ToTo's settings: what it shares with the ring is set in one place.
    pub fn toto_config(&self) -> TotoConfig {
        let ring = &self.ring;
        let mut config = TotoConfig::new(ring.me, ring.members.clone());
        config.datagram = ring.datagram;
        config.message_max = ring.message_max;
        config.queue_bytes = ring.queue_bytes;
        config.primary = ring.primary.clone();
        config.phi = self.toto.phi;
        config.window = self.toto.window;
        config.window_all = self.toto.window * ring.members.len() as u64;
        config.ack = self.toto.ack;
        config.ack_every = self.toto.ack_every;
        config.ack_floor = self.toto.ack_floor;
        config.early = if self.toto.early { Early::Causal } else { Early::No };
        if let Some(silence) = self.toto.silence {
            config.timers.silence = silence;
            config.timers.heartbeat = silence / 8;
            config.timers.consensus = silence.max(config.timers.join * 8);
        }
        config
    }

    /// PLATO's settings: what it shares with the ring is set in one place.
    pub fn plato_config(&self) -> PlatoConfig {
        let ring = &self.ring;
        let mut config = PlatoConfig::new(ring.me, ring.members.clone());
        config.datagram = ring.datagram;
        config.message_max = ring.message_max;
        config.queue_bytes = ring.queue_bytes;
        config.primary = ring.primary.clone();
        config.window.bytes = config.window.bytes.max(16 * ring.datagram.get() as u32);
        config.sequencing.every = self.plato.every;
        config.sequencing.within = self.plato.within;
        config.prediction = self.plato.delta;
        if let Some(silence) = self.plato.silence {
            config.membership.silence = silence;
            config.membership.heartbeat = silence / 8;
            config.membership.consensus = silence.max(config.membership.join * 8);
        }
        config
    }

    /// Ring Paxos' settings: what it shares with the ring is set in one place.
    pub fn paxos_config(&self) -> PaxosConfig {
        let ring = &self.ring;
        let mut config = PaxosConfig::new(ring.me, ring.members.clone());
        if let Some(acceptors) = &self.paxos.acceptors {
            config.acceptors.clone_from(acceptors);
        }
        config.storage = self.paxos.storage.unwrap_or(config.storage);
        config.retain = self.paxos.retain.unwrap_or(config.retain);
        config.retain_for = self.paxos.retain_for.unwrap_or(config.retain_for);
        config.on_budget = self.paxos.on_budget.unwrap_or(config.on_budget);
        config.message_max = ring.message_max;
        config.queue_bytes = ring.queue_bytes;
        config
    }

    fn validate_paxos(&self) -> Result<(), (&'static str, String)> {
        if self.from_file && self.ring.primary != Policy::Majority {
            let remedy = "with protocol = \"paxos\" the majority of the acceptors is primary; leave it out";
            return Err(("primary", remedy.into()));
        }
        if self.paxos.reads.is_some() {
            let remedy = "there is one ring; leave it out, or take protocol = \"multiring-paxos\"";
            return Err(("paxos.reads", remedy.into()));
        }
        if self.paxos.on_budget.is_some() && self.paxos_config().storage == Storage::Memory {
            return Err(("paxos.on_budget", ON_BUDGET_UNUSED.into()));
        }
        let most = consort_net::LINK_MESSAGE_MAX;
        if self.ring.message_max > most {
            let (given, most) = (self.limits.message_max, most >> 20);
            let problem = format!("{given} bytes; with protocol = \"paxos\" use less than {most} MiB");
            return Err(("limits.message", problem));
        }
        self.paxos_config().validate().map_err(|error| (error.setting, error.problem))
    }

    fn validate_key(&self) -> Result<(), (&'static str, String)> {
        let (given, least) = (self.ring.datagram.get(), DatagramSize::MIN + OVERHEAD);
        if self.key.is_none() || given >= least {
            return Ok(());
        }
        Err(("datagram", format!("{given} bytes; with a key {OVERHEAD} of them are the seal's: use at least {least}")))
    }

    /// Checks that the settings of the chosen protocol can work together.
    ///
    /// # Errors
    /// Which setting, by its name in the file, and what is wrong with it.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        if (self.scheduling, self.profile) == (Scheduling::RealTime, Profile::Latency) {
            let remedy = "idling `latency` yields, which in real time starves all others; take `balanced` or `frugal`";
            return Err(("scheduling", remedy.into()));
        }
        self.validate_key()?;
        self.ring.validate().map_err(|error| (error.setting, error.problem))?;
        match self.protocol {
            Protocol::Ring => Ok(()),
            Protocol::Toto => self.toto_config().validate().map_err(|error| (key(error.setting), error.problem)),
            Protocol::Plato => {
                self.plato_config().validate().map_err(|error| (plato_key(error.setting), error.problem))
            }
            Protocol::Paxos => self.validate_paxos(),
            Protocol::MultiRingPaxos => self.validate_rings(),
            Protocol::MultiRing => self.validate_networks(),
        }
    }
}
