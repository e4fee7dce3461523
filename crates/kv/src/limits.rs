//! What a server takes at most.

/// The longest key, in bytes.
pub const KEY_MAX: usize = 4 << 10;
/// The longest value, in bytes.
pub const VALUE_MAX: usize = 1 << 20;
/// The longest command that a client sends, in bytes of all its words.
pub const REQUEST_MAX: usize = 4 << 20;
/// The most words of a command.
pub const WORDS_MAX: usize = 16_384;
/// The most entries of one answer to a range.
pub const RANGE_MAX: usize = 10_000;
/// The bytes of keys and values behind which an answer to a range, a scan or MGET takes no more.
pub const ANSWER_MAX: usize = 8 << 20;
/// The longest pattern of a scan, in bytes.
pub const PATTERN_MAX: usize = 256;
/// The bytes of keys behind which a scan with a short pattern looks at no more. With a longer one there are fewer, because
/// comparing may take as many steps as the product of both lengths.
pub const SCAN_MAX: usize = 256 << 10;
/// The longest pattern with which a scan looks at all of these bytes.
pub const SHORT_PATTERN: usize = 16;
/// What an entry costs of the memory besides the bytes of its key and value.
pub const ENTRY: u64 = 200;

/// What a server takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Commands of one connection that are not answered yet; the rest stays in its socket.
    pub pipeline: usize,
    /// Bytes of all keys and values, with 200 for each entry; more is refused. All partitions together.
    pub memory: u64,
    /// Bytes of writes of all clients that are not applied yet; more is refused.
    pub under_way: usize,
}

impl Default for Limits {
    /// 256 connections, 1,024 commands of each, 1 GiB, 64 MiB under way.
    fn default() -> Self {
        Self { connections: 256, pipeline: 1_024, memory: 1 << 30, under_way: 64 << 20 }
    }
}
