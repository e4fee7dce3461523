//! Where the counters of an area stand.

/// Counters in an area.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterOffset {
    Magic = 0,
    Version = 4,
    Written = 64,
    Read = 128,
    ReaderSleeps = 192,
    WriterSleeps = 256,
}
