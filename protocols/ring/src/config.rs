//! Every knob of the ring, with its advice.
use consort_types::{Duration, NodeId};
use consort_wire::DatagramSize;

/// How a ring is set up. Members whose shared settings differ must not talk: see [`RingConfig::shared_settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct RingConfig {
    /// This node.
    pub me: NodeId,
    /// All members, this node among them. Order does not matter: the ring runs by ascending index.
    pub members: Vec<NodeId>,
    /// The size of a datagram, envelope included. One packet is one datagram. Shared.
    pub datagram: DatagramSize,
    /// How much may be sent in one visit and one rotation. Shared.
    pub windows: Windows,
    /// Accelerated or original. Shared.
    pub acceleration: Acceleration,
    /// When a waiting token is read before waiting data.
    pub priority: Priority,
    /// When a waiting token is read although data still waits: after this many packets of data since the last token.
    /// `None` switches the guard off, as in the thesis.
    pub starvation_guard: Option<u32>,
    /// What the ring does while there is nothing to say.
    pub idling: IdleHold,
    /// When to give up waiting, where packets take no time on their way.
    pub timers: RingTimeouts,
    /// How long packets are under way between its members at least, as far as the timers go, one way. What is measured and is
    /// longer takes its place.
    pub delay: Duration,
    /// How many bytes of accepted messages may wait for their place. Sessions grant far less to each client.
    pub queue_bytes: usize,
    /// The largest message, in bytes. Shared.
    pub message_max: usize,
    /// How many bytes of datagrams this node can receive while it is busy elsewhere: the driver reads it back from the
    /// kernel. The least room of all members bounds what the ring sends in a rotation.
    pub receive_room: usize,
    /// After how many sequence numbers a ring is formed anew, long before they run out. Lower it only to try that. Shared.
    pub renew_after: u64,
    /// Which view is primary. Shared.
    pub primary: consort_member::Policy,
    /// No packet carries more bytes of messages, each counted with what stands before it. For figures of messages that are
    /// not packed: by default packets are filled.
    pub body_most: usize,
    /// Every message gets a stamp that rises in the order, above what [`Ring::raise_clock`](crate::Ring::raise_clock) told:
    /// its position then is its stamp. For whoever merges the orders of several rings. Shared.
    pub stamped: bool,
    /// The rule that is broken on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

/// Flow control, in packets and in bytes; whichever is used up first ends a visit. With [`Windows::tuning`] these are the
/// windows that a ring starts with; without it they stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Packets all members together may send in one rotation. (Spread: 160.)
    pub global: u32,
    /// Packets one member may send in one visit. (Spread: 20; half the throughput on a fast network.)
    pub personal: u32,
    /// Packets of a visit that may leave after the token. 0 passes the token on when all is sent. (Spread: 15.)
    pub accelerated: u32,
    /// From how many new packets in a visit on the accelerated window is used. Fewer leave before the token: a lone
    /// message sent after it makes the successors report a hole, which costs safe delivery a rotation. (Thesis: 1.)
    pub accelerated_from: u32,
    /// Bytes all members together may send in one rotation.
    pub global_bytes: u32,
    /// Bytes one member may send in one visit. The knee lies near 256 KiB on loopback.
    pub personal_bytes: u32,
    /// Packets that may be under way: numbered, but not known to be held by all. At least 4 times `global`, since a
    /// hole is noticed one rotation later than in the original ring and aru trails one more.
    pub store: u32,
    /// The same in bytes; bounds the memory of the store.
    pub store_bytes: u32,
    /// How the ring tunes its windows; `None` keeps them as they are.
    pub tuning: Option<WindowTuning>,
}

/// Between which bounds the ring tunes its personal window. The global and the accelerated window, and those in bytes,
/// follow in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTuning {
    /// The smallest personal window, in packets.
    pub least: u32,
    /// The largest.
    pub most: u32,
    /// A rotation that is shorter than this is worth filling, whatever the network's own delays are.
    pub brisk: Duration,
}

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceleration {
    /// Passes the token on when all packets are numbered; asks for holes one rotation later.
    Accelerated,
    /// Totem's: passes the token on when all packets are sent; asks for holes at once.
    Original,
}

/// When a waiting token goes before waiting data (thesis 3.1.4). Speed depends on it, safety never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Once any new packet of the predecessor's next visit was read: the token circulates fastest.
    Method1,
    /// Once a packet was read that the predecessor sent after its token: stricter flow control. Spread's choice.
    Method2,
}

/// When an idle token is parked at the representative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleHold {
    /// How many rotations must pass in which nothing was sent and nobody lacked anything. After one nobody lacks
    /// anything; after two all know it.
    pub rounds: u8,
    /// How long the token goes on circulating after the last message: costs CPU, saves the waking. Zero parks at once.
    pub linger: Duration,
}

/// When to act though nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingTimeouts {
    /// When to send the copy of the token again: at least this long, and at least two measured rotations.
    pub token_retransmit: Duration,
    /// The same while the token idles: longer than it is parked. From then on four times as often.
    pub token_retransmit_idle: Duration,
    /// When to call the ring broken: no new token for so long.
    pub token_loss: Duration,
    /// How long the representative parks an idle token before it sends it round once more.
    pub hold: Duration,
    /// How often to ask again for a parked token.
    pub hold_cancel: Duration,
    /// How often JOIN is sent again; up to half of it is added by chance.
    pub join: Duration,
    /// How long to wait for equal JOINs before those that did not send one are failed. At least 1.2 times
    /// `token_loss`: who loses the token last must not be failed for it.
    pub consensus: Duration,
    /// How often a beacon is sent, give or take a tenth.
    pub beacon: Duration,
    /// For how many rotations one member must keep aru from moving (and for 1.25 times `token_loss`) to be called deaf.
    pub fail_to_receive_rotations: u32,
    /// How long recovery may take.
    pub recovery_max: Duration,
    /// How long a leaving node tries to get its last messages delivered.
    pub leave: Duration,
}

impl Windows {
    /// The windows that Spread ships with, counted in packets alone.
    pub const SPREAD: Self = Self {
        global: 160,
        personal: 20,
        accelerated: 15,
        accelerated_from: 1,
        global_bytes: u32::MAX,
        personal_bytes: u32::MAX,
        store: 1600,
        store_bytes: u32::MAX,
        tuning: None,
    };

    /// These windows while the token says that a member may send so many packets in a visit: with tuning all in proportion
    /// to it, within the bounds, whatever the token says; else as they are. A datagram of `datagram` bytes always fits.
    pub(crate) fn tuned(&self, personal: u32, datagram: u32) -> Self {
        //= R42
        let Some(tuning) = self.tuning else { return *self };
        let personal = personal.clamp(tuning.least, tuning.most);
        let part = |whole: u32| {
            let part = u64::from(whole) * u64::from(personal) / u64::from(self.personal.max(1));
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        Self {
            personal,
            global: part(self.global).max(personal),
            accelerated: part(self.accelerated).min(personal),
            personal_bytes: part(self.personal_bytes).max(datagram),
            global_bytes: part(self.global_bytes).max(datagram),
            ..*self
        }
    }

    /// The largest that these windows can become.
    pub fn largest(&self) -> Self {
        self.tuning.map_or(*self, |tuning| self.tuned(tuning.most, 0))
    }
}

impl Default for WindowTuning {
    fn default() -> Self {
        Self { least: 20, most: 320, brisk: Duration::from_millis(2) }
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            global: 540,
            personal: 180,
            accelerated: 135,
            accelerated_from: 2,
            global_bytes: 768 << 10,
            personal_bytes: 256 << 10,
            store: 4096,
            store_bytes: 16 << 20,
            tuning: Some(WindowTuning::default()),
        }
    }
}

impl IdleHold {
    /// Parks an idle token at once.
    pub const PARK: Self = Self { rounds: 1, linger: Duration::ZERO };
    /// Keeps the token circulating for half a second after the last message.
    pub const CIRCULATE: Self = Self { rounds: 1, linger: Duration::from_millis(500) };
}

impl RingTimeouts {
    /// How long the others are asked for a token that does not come. It may have rested before.
    pub(crate) fn question(&self) -> Duration {
        //= M57
        self.consensus + self.hold
    }

    /// How long a member of a ring waits for the token.
    pub(crate) fn patience(&self) -> Duration {
        //= M57
        self.token_loss + self.question()
    }

    /// The same for `n` members where a packet takes up to `delay` longer on its way: nobody is held for silent who answers at
    /// once.
    #[must_use]
    pub fn far(self, n: usize, delay: Duration) -> Self {
        //= TM06
        let (way_and_back, rotation) = (delay * 2, delay * n.max(2) as u32);
        Self {
            token_retransmit: self.token_retransmit + way_and_back,
            token_retransmit_idle: self.token_retransmit_idle + way_and_back,
            token_loss: self.token_loss + rotation * 3 + way_and_back,
            hold_cancel: self.hold_cancel + way_and_back,
            join: self.join + delay,
            consensus: self.consensus + rotation * 4 + way_and_back * 2,
            recovery_max: self.recovery_max + rotation * 4,
            leave: self.leave + way_and_back * 2,
            ..self
        }
    }

    /// The defaults for a switched LAN and `n` members.
    pub fn lan(n: usize) -> Self {
        let token_loss = Duration::from_micros(150_000 + 500 * n as u64);
        Self {
            token_retransmit: Duration::from_millis(5),
            token_retransmit_idle: Duration::from_millis(32),
            token_loss,
            hold: Duration::from_millis(25),
            hold_cancel: Duration::from_millis(5),
            join: Duration::from_millis(20),
            consensus: token_loss * 5 / 4,
            beacon: Duration::from_millis(200),
            fail_to_receive_rotations: 30,
            recovery_max: Duration::from_secs(5),
            leave: Duration::from_millis(300),
        }
    }
}

/// A setting that cannot work. Names the setting, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct RingConfigError {
    /// The setting, by its name in the configuration file.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

/// The largest store window, in packets: what a token can ask for stays bounded.
pub const STORE_MAX: u32 = 1 << 16;

/// Half of all sequence numbers there are: whatever is under way when it is reached still finds room.
const RENEW_AFTER: u64 = crate::SEQ_END / 2;

/// The most members a ring can have.
pub const MEMBERS_MAX: usize = 128;

impl RingConfig {
    /// The defaults for these members.
    pub fn new(me: NodeId, members: Vec<NodeId>) -> Self {
        let timers = RingTimeouts::lan(members.len());
        Self {
            me,
            members,
            datagram: DatagramSize::DEFAULT,
            windows: Windows::default(),
            acceleration: Acceleration::Accelerated,
            priority: Priority::Method2,
            starvation_guard: Some(1024),
            idling: IdleHold::PARK,
            timers,
            delay: Duration::ZERO,
            queue_bytes: 32 << 20,
            message_max: consort_wire::MESSAGE_MAX,
            receive_room: u32::MAX as usize,
            renew_after: RENEW_AFTER,
            primary: consort_member::Policy::None,
            body_most: usize::MAX,
            stamped: false,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first [`RingConfigError`] found.
    pub fn validate(&self) -> Result<(), RingConfigError> {
        self.validate_members()?;
        self.validate_windows()?;
        self.validate_sizes()?;
        self.validate_timers()
    }

    fn validate_members(&self) -> Result<(), RingConfigError> {
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
        check(twice.is_none(), "node", || format!("{} is listed twice; give every node an id of its own", sorted[0]))?;
        check(sorted.contains(&self.me), "node", || format!("{} is not among the nodes; add it", self.me))?;
        let n = sorted.len();
        check(n <= MEMBERS_MAX, "node", || format!("{n} nodes; a ring has at most {MEMBERS_MAX}"))?;
        let policy = self.primary.validate(&sorted);
        policy.map_err(|error| RingConfigError { setting: "primary", problem: error.to_string() })
    }

    fn validate_windows(&self) -> Result<(), RingConfigError> {
        let w = &self.windows;
        check(w.personal >= 1, "ring.personal_window", || "0 packets; at least 1 is needed".into())?;
        check(w.global >= w.personal, "ring.global_window", || {
            format!("{} is below personal_window {}; make it at least as large", w.global, w.personal)
        })?;
        check(w.accelerated <= w.personal, "ring.accelerated_window", || {
            format!("{} is above personal_window {}; make it at most as large", w.accelerated, w.personal)
        })?;
        check(w.store <= STORE_MAX, "ring.store_window", || {
            format!("{} packets; a token can ask for {STORE_MAX} sequence numbers at most", w.store)
        })?;
        let global = w.largest().global;
        check(w.store >= global.saturating_mul(4), "ring.store_window", || {
            format!("{} is below 4 x global_window {global}; a hole is noticed up to two rotations late", w.store)
        })?;
        self.validate_tuning()?;
        let least = consort_wire::pack::FIRST_CHUNK_LEN + 1;
        check(self.body_most >= least, "ring.body_most", || {
            format!("{} leave no room for a part of a message; give {least} or more", self.body_most)
        })?;
        check((1..=RENEW_AFTER).contains(&self.renew_after), "ring.renew_after", || {
            format!("{} sequence numbers; use 1 to {RENEW_AFTER}", self.renew_after)
        })?;
        let least = self.datagram.get() as u32;
        for (setting, bytes) in [
            ("ring.personal_bytes", w.personal_bytes),
            ("ring.global_bytes", w.global_bytes),
            ("ring.store_bytes", w.store_bytes),
        ] {
            check(bytes >= least, setting, || format!("{bytes} is below one datagram of {least} bytes; raise it"))?;
        }
        Ok(())
    }

    fn validate_tuning(&self) -> Result<(), RingConfigError> {
        let (w, most_ever) = (&self.windows, u32::from(u16::MAX));
        let Some(WindowTuning { least, most, .. }) = w.tuning else { return Ok(()) };
        check(1 <= least && least <= w.personal && w.personal <= most && most <= most_ever, "ring.tuning", || {
            format!(
                "from {least} to {most} packets; give 1 or more, at most {most_ever}, and personal_window {} between",
                w.personal
            )
        })
    }

    fn validate_sizes(&self) -> Result<(), RingConfigError> {
        let checked = consort_order::SubmitQueue::check(self.queue_bytes, self.message_max);
        checked.map_err(|(setting, problem)| RingConfigError { setting, problem })
    }

    fn validate_timers(&self) -> Result<(), RingConfigError> {
        let t = &self.timers;
        check(t.token_loss >= 4 * t.token_retransmit_idle, "ring.token_loss", || {
            let least = 4 * t.token_retransmit_idle;
            format!("{:?} leaves no time for 12 idle retransmissions; make it at least {least:?}", t.token_loss)
        })?;
        check(t.hold < t.token_retransmit_idle, "ring.hold", || {
            format!("{:?} must be below token_retransmit_idle {:?}", t.hold, t.token_retransmit_idle)
        })?;
        check(t.hold <= t.token_loss / 6, "ring.hold", || {
            format!("{:?} must be at most a sixth of token_loss {:?}", t.hold, t.token_loss)
        })?;
        check(self.idling.rounds >= 1, "ring.idle_rounds", || {
            "0; a token must come by idle once before it rests".into()
        })?;
        check(t.consensus >= t.token_loss * 6 / 5, "ring.consensus", || {
            let least = t.token_loss * 6 / 5;
            format!("{:?} would fail members that lose the token last; make it at least {least:?}", t.consensus)
        })?;
        check(t.consensus > 5 * t.join * 3 / 2, "ring.consensus", || {
            format!("{:?} leaves no time for 5 JOINs of {:?}; raise it or lower ring.join", t.consensus, t.join)
        })?;
        for (setting, span) in [
            ("ring.token_retransmit", t.token_retransmit),
            ("ring.join", t.join),
            ("ring.beacon", t.beacon),
            ("ring.hold_cancel", t.hold_cancel),
        ] {
            check(!span.is_zero(), setting, || {
                "0; a repetition without a pause would never let the network rest".into()
            })?;
        }
        Ok(())
    }

    /// When to give up waiting among `n` members, where a packet was measured to take so long on its way.
    pub fn timeouts(&self, n: usize, measured: Duration) -> RingTimeouts {
        //= M60
        let delay = self.delay.max(measured);
        if delay.is_zero() { self.timers } else { self.timers.far(n, delay) }
    }

    /// The settings that all members must share, as text to be hashed into every envelope.
    pub fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let mut members = self.members.clone();
        members.sort_unstable();
        let w = &self.windows;
        vec![
            ("protocol", "ring".into()),
            ("nodes", members.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ")),
            ("datagram", self.datagram.get().to_string()),
            ("primary", format!("{:?}", self.primary)),
            ("ring.protocol", format!("{:?}", self.acceleration)),
            ("ring.global_window", w.global.to_string()),
            ("ring.personal_window", w.personal.to_string()),
            ("ring.accelerated_window", w.accelerated.to_string()),
            ("ring.accelerated_from", w.accelerated_from.to_string()),
            ("ring.global_bytes", w.global_bytes.to_string()),
            ("ring.personal_bytes", w.personal_bytes.to_string()),
            ("ring.store_window", w.store.to_string()),
            ("ring.store_bytes", w.store_bytes.to_string()),
            ("tuning of windows", format!("{:?}", w.tuning)),
            ("largest frame", self.message_max.to_string()),
            ("sequence numbers of a ring", self.renew_after.to_string()),
            ("stamps", self.stamped.to_string()),
        ]
    }

    /// The largest body of a data packet, in bytes: small enough to travel once more as a recovered packet.
    pub(crate) const fn body_room(&self) -> usize {
        let room = self.datagram.packet_room() - crate::packet::RECOVERED_LEN - self.stamp_len();
        if self.body_most < room { self.body_most } else { room }
    }

    /// The bytes that a stamp takes in each token and packet.
    pub(crate) const fn stamp_len(&self) -> usize {
        if self.stamped { crate::packet::STAMP_LEN } else { 0 }
    }

    /// The windows while the token says that a member may send so many packets in a visit.
    pub(crate) fn windows_at(&self, personal: u32) -> Windows {
        self.windows.tuned(personal, self.datagram.get() as u32)
    }
}

fn check(ok: bool, setting: &'static str, problem: impl FnOnce() -> String) -> Result<(), RingConfigError> {
    if ok { Ok(()) } else { Err(RingConfigError { setting, problem: problem() }) }
}
