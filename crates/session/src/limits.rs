//! What one client may ask of a daemon.
use crate::SlowLimits;
use crate::frame::HEAD_LEN;
use consort_group::{Targets, batch};
use consort_types::{Duration, Service};

/// About how many bytes a frame has that is neither a message nor a list.
pub(crate) const SMALL_FRAME: usize = 128;

/// The budgets of one client session. Whoever exceeds one is refused or disconnected with a reason that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many clients a daemon serves at a time; whoever comes then is turned back.
    pub clients_most: usize,
    /// The largest payload of one multicast, in bytes.
    pub message_max: usize,
    /// How many bytes of one client may be accepted and not yet ordered. Latency under full load grows with it; 128 to
    /// 512 KiB cost little throughput.
    pub credit: usize,
    /// How many bytes of frames are put into the order as one batch, at most [`batch::MAX`]. 0 for no batches.
    pub batch_max: usize,
    /// Messages of weaker services go into no batch.
    pub batch_from: Service,
    /// How many groups one multicast may name, at most 1000.
    pub groups_max: usize,
    /// How many bytes may wait for one client to read them; a client further behind is disconnected as slow.
    pub output_max: usize,
    /// How many bytes may wait for all clients together; beyond, the one with most of them is disconnected as slow.
    pub outputs_max: usize,
    /// What is done about clients that do not read.
    pub slow: SlowLimits,
    /// How many bytes the large frames may have together that clients have begun and not finished; whoever begins another
    /// is not read from meanwhile.
    pub frames_max: usize,
    /// How long a client that has begun a frame may say no more of it; and how long all of it may take, beside the time
    /// that its length takes at 64 KiB a second.
    pub frame_within: Duration,
    /// How many messages may wait for one Spread client; `None` for as many as the bytes allow.
    pub spread_messages: Option<usize>,
    /// How long a connection may take to complete its hello.
    pub hello_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients_most: 4_096,
            message_max: consort_wire::MESSAGE_MAX,
            credit: 256 << 10,
            batch_max: batch::MAX,
            batch_from: Service::Reliable,
            groups_max: Targets::MAX,
            output_max: 64 << 20,
            outputs_max: 1 << 30,
            slow: SlowLimits::default(),
            frames_max: 256 << 20,
            frame_within: Duration::from_secs(30),
            spread_messages: None,
            hello_within: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The largest frame a client may send, in bytes.
    pub const fn frame_max(&self) -> usize {
        HEAD_LEN + Targets::MAX_LEN + self.message_max
    }
}
