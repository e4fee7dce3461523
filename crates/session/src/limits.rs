//! What one client may ask of a daemon.
use consort_types::Duration;

/// The budgets of one client session. Whoever exceeds one is refused or disconnected with a reason that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload of one multicast, in bytes.
    pub message_max: usize,
    /// How many bytes of one client may be accepted and not yet ordered. Saturated latency grows with it; 128 to
    /// 512 KiB cost little throughput.
    pub credit: usize,
    /// How many groups one multicast may name.
    pub groups_max: usize,
    /// How many bytes may wait for one client to read them; a client further behind is disconnected as slow.
    pub output_max: usize,
    /// How long a connection may stay silent before its hello is complete.
    pub hello_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_max: consort_wire::MESSAGE_MAX,
            credit: 512 << 10,
            groups_max: 1_000,
            output_max: 64 << 20,
            hello_within: Duration::from_secs(10),
        }
    }
}
