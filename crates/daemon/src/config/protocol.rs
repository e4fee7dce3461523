//! Which ordering protocol a cluster runs.
use super::Settings;
use consort_plato::{Config as PlatoConfig, Prediction};
use consort_types::Duration;

/// Which ordering protocol; all nodes of a cluster run the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The token ring.
    #[default]
    Ring,
    /// A sequencer whose receivers predict what it will say.
    Plato,
}

/// How the ordering protocols are named.
pub const ENGINES: [(&str, Protocol); 2] = [("ring", Protocol::Ring), ("plato", Protocol::Plato)];

impl Protocol {
    /// The protocol's name.
    pub fn name(self) -> &'static str {
        ENGINES.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// What is PLATO's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatoSettings {
    /// After how many packets the sequencer tells their places.
    pub every: u32,
    /// After how long at the latest.
    pub within: Duration,
    /// How close two packets must come to be suspected: a time, nothing for none, and adaptive where nothing is said.
    pub delta: Option<Duration>,
}

impl Default for PlatoSettings {
    fn default() -> Self {
        Self { every: 10, within: Duration::from_millis(5), delta: None }
    }
}

impl Settings {
    /// PLATO's settings: what all protocols share, and its own.
    pub fn plato(&self) -> PlatoConfig {
        let ring = &self.ring;
        let mut config = PlatoConfig::new(ring.me, ring.members.clone());
        config.datagram = ring.datagram;
        config.queue_bytes = ring.queue_bytes;
        config.message_max = ring.message_max;
        config.primary = ring.primary.clone();
        config.window.bytes = config.window.bytes.max(16 * ring.datagram.get() as u32);
        config.sequencing.every = self.plato.every;
        config.sequencing.within = self.plato.within;
        config.prediction = match self.plato.delta {
            None => Prediction::default(),
            Some(delta) if delta.is_zero() => Prediction::Off,
            Some(delta) => Prediction::Fixed(delta),
        };
        config
    }

    /// What all members must share, as a text to be hashed.
    pub(super) fn shared(&self) -> String {
        match self.protocol {
            Protocol::Ring => self.ring.shared_settings(),
            Protocol::Plato => self.plato().shared_settings(),
        }
    }

    /// Says which setting cannot work, and what would.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        match self.protocol {
            Protocol::Ring => self.ring.validate().map_err(|error| (error.setting, error.problem)),
            Protocol::Plato => self.plato().validate().map_err(|error| (error.setting, error.problem)),
        }
    }
}
