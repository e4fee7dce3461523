//! Which partition holds a key: a ring of hashes, cut into one arc for each partition.

/// The most partitions that a store has.
pub const PARTITIONS_MAX: u16 = 64;

/// The ring of hashes, cut into equal arcs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arcs {
    partitions: u16,
}

impl Arcs {
    /// A ring with so many arcs, one at least.
    pub const fn new(partitions: u16) -> Self {
        Self { partitions: if partitions == 0 { 1 } else { partitions } }
    }

    /// How many there are.
    pub const fn partitions(self) -> u16 {
        self.partitions
    }

    /// The partition that holds a key.
    pub fn of(self, key: &[u8]) -> usize {
        self.at(hash(key))
    }

    /// The partition on whose arc a hash lies.
    pub const fn at(self, hash: u64) -> usize {
        ((hash as u128 * self.partitions as u128) >> 64) as usize
    }

    /// The first hash of the arc behind a partition's own; `None` behind the last.
    pub fn end_of(self, partition: usize) -> Option<u64> {
        let partitions = u128::from(self.partitions);
        u64::try_from(((partition as u128 + 1) << 64).div_ceil(partitions)).ok()
    }
}

/// Where a key lies on the ring: FNV-1a of 64 bits, mixed so that its high bits depend on all bytes.
pub fn hash(key: &[u8]) -> u64 {
    let fnv = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (fnv ^ fnv >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_follow_each_other_and_cover_the_ring() {
        for partitions in [1, 2, 3, 7, PARTITIONS_MAX] {
            let arcs = Arcs::new(partitions);
            assert_eq!((arcs.at(0), arcs.at(u64::MAX)), (0, usize::from(partitions) - 1));
            for partition in 0..usize::from(partitions) {
                match arcs.end_of(partition) {
                    Some(end) => assert_eq!((arcs.at(end - 1), arcs.at(end)), (partition, partition + 1)),
                    None => assert_eq!(partition, usize::from(partitions) - 1),
                }
            }
        }
    }

    #[test]
    fn keys_spread_and_lie_where_they_lay() {
        let arcs = Arcs::new(8);
        let mut counts = [0; 8];
        (0..8_000).for_each(|n| counts[arcs.of(format!("key:{n}").as_bytes())] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(hash(b"tea"), 0x274e_6f33_c949_7c61, "what is on disk depends on it");
    }
}
