//! What a ring runs on, what it is given to do, and what is measured.
use super::{ClientModel, LEN, Places};
use consort_sim::HostModel;
use consort_types::{Duration, Service};

/// What a ring runs on.
#[derive(Clone, Debug)]
pub struct Site {
    /// Of every interface and every port of the switch, in bits per second.
    pub rate: u64,
    /// From a sender's interface to the port of a receiver, and from there to its socket.
    pub delay: Duration,
    /// How many bytes a port of the switch holds.
    pub port: usize,
    /// How likely a packet is lost on its way to one receiver, whatever is sent.
    pub loss: f64,
    /// Every host.
    pub host: HostModel,
    /// What clients cost; without it messages come and go at no cost but the host's own for each.
    pub clients: Option<ClientModel>,
}

/// What the members send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// How much.
    pub load: Load,
    /// What is asked for each message.
    pub service: Service,
    /// How large each message is, in bytes: eight at least.
    pub len: usize,
    /// Who sends and who receives.
    pub places: Places,
}

impl Work {
    /// Agreed messages that fill a packet each.
    pub const fn agreed(load: Load) -> Self {
        Self { load, service: Service::Agreed, len: LEN, places: Places::Everywhere }
    }

    /// Safe messages that fill a packet each.
    pub const fn safe(load: Load) -> Self {
        Self { service: Service::Safe, ..Self::agreed(load) }
    }
}

/// How the members send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each always has something to send.
    Full,
    /// So many messages a second in all, at random times.
    Rate(f64),
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Payload that a receiver was given, in megabits per second.
    pub mbits: f64,
    /// From when a client writes a message to when a receiver has it, on average, in microseconds.
    pub mean_us: f64,
    /// 99 of a hundred were not above this.
    pub p99_us: f64,
    /// From when its sender took the token that let it send, and from when the sender had released the token before, to
    /// delivery: on average of both, in microseconds. A message made up at the token waits for nothing, one that comes
    /// right after it for a rotation.
    pub token_us: f64,
    /// From one visit of the token at a member to the next, on average, in microseconds.
    pub rotation_us: f64,
    /// Packets sent again, in a hundred.
    pub again: f64,
    /// Rings formed after the first.
    pub broken: u64,
    /// The personal window at the end.
    pub window: u64,
}
