//! Which groups were named lately: most messages go where the last ones went.
use consort_types::GroupName;

const SLOTS: usize = 256;

/// A guess from a name to a place in the table. A guess may be wrong and must be checked; it is never needed.
#[derive(Debug)]
pub(crate) struct Recent(Box<[u32; SLOTS]>);

impl Recent {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; SLOTS]))
    }

    pub(crate) fn guess(&self, name: &[u8]) -> u32 {
        self.0[slot(name)]
    }

    pub(crate) fn remember(&mut self, name: &GroupName, index: u32) {
        self.0[slot(name.as_bytes())] = index;
    }
}

/// FNV-1a over the name. Names made to collide cost their senders the short cut and nothing else.
fn slot(name: &[u8]) -> usize {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = name.iter().fold(0x811c_9dc5, mix);
    (hash ^ hash >> 16) as usize % SLOTS
}
