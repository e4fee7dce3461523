//! What is done about a client that does not read, and how slow it is now.
use consort_session::{Limits, SlowPolicy, SlowRequest};
use consort_types::{Duration, Instant};

/// What is done about a client, and what it may cost before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowTerms {
    pub policy: SlowPolicy,
    /// With more bytes waiting for it than this it is looked at.
    pub from: usize,
    /// How much may lie on disk for it.
    pub disk: u64,
    /// For how long it may read nothing, or have others wait.
    pub time: Option<Duration>,
    /// All its groups wait for it, not only those of which configuration says so.
    pub everywhere: bool,
}

impl SlowTerms {
    pub fn new(policy: SlowPolicy, asked: Option<SlowRequest>, limits: &Limits) -> Self {
        let slow = &limits.slow;
        let asked_bytes = asked.map_or(0, |asked| asked.bytes);
        let within = |most: usize| match usize::try_from(asked_bytes) {
            Ok(0) | Err(_) => most,
            Ok(asked) => asked.min(most),
        };
        let (from, time) = match policy {
            SlowPolicy::Disconnect => (within(limits.output_max), slow.unread_for),
            SlowPolicy::Spool => (slow.spool_from.min(limits.output_max), slow.unread_for),
            SlowPolicy::Demote => (within(limits.output_max / 2), slow.unread_for),
            SlowPolicy::Block => (within(slow.block).min(limits.output_max), Some(slow.block_for)),
        };
        let disk = if asked_bytes == 0 { slow.spool } else { asked_bytes.min(slow.spool) };
        let asked_time = asked.and_then(|asked| asked.time);
        let time = time.into_iter().chain(asked_time).min();
        Self { policy, from, disk, time, everywhere: true }
    }
}

/// How a client is slow now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlowState {
    /// Since when it has read nothing of what waits for it.
    pub unread_since: Option<Instant>,
    /// Since when others wait for it.
    pub holds_since: Option<Instant>,
    /// Bytes on their way to disk.
    pub unwritten: usize,
    /// What is counted of it in all together.
    pub spooled: u64,
    /// The disk keeps something for it, or has to forget it.
    pub on_disk: bool,
}

impl SlowState {
    /// Whether it has read nothing for a while, or has others wait.
    pub const fn is_slow(&self) -> bool {
        self.unread_since.is_some() || self.holds_since.is_some()
    }

    pub const fn holds(&self) -> bool {
        self.holds_since.is_some()
    }
}
