//! What is decided while a reader that comes back waits for a checkpoint. It disturbs nobody: it reads what all are told, and
//! asks for nothing that was decided before.
use crate::log::LogState;
use crate::merge::{Checkpoint, Config, Merge};
use crate::mutated;
use crate::slot::RingId;
use std::collections::{BTreeMap, VecDeque};

/// See the module.
#[derive(Clone, Debug)]
pub struct Cache<S: LogState> {
    config: Config,
    rings: BTreeMap<RingId, Cached<S::Entry>>,
}

/// Entries of one ring that follow each other.
#[derive(Clone, Debug)]
struct Cached<E> {
    first: u64,
    entries: VecDeque<E>,
    bytes: usize,
}

impl<E> Cached<E> {
    const fn from(first: u64) -> Self {
        Self { first, entries: VecDeque::new(), bytes: 0 }
    }
}

impl<S: LogState> Cache<S> {
    /// Nothing is cached yet.
    pub const fn new(config: Config) -> Self {
        Self { config, rings: BTreeMap::new() }
    }

    /// A ring is heard from this index on.
    pub fn listen(&mut self, ring: RingId, index: u64) {
        //= MP31
        self.rings.entry(ring).or_insert_with(|| Cached::from(index));
    }

    /// Caches an entry. What it does not follow is dropped, and the oldest where the budget is used up: a later checkpoint
    /// must make up for it.
    pub fn push(&mut self, ring: RingId, index: u64, entry: S::Entry) {
        //= MP31
        let cached = self.rings.entry(ring).or_insert_with(|| Cached::from(index));
        let end = cached.first + cached.entries.len() as u64;
        if index < end {
            return;
        }
        if index > end {
            *cached = Cached::from(index);
        }
        cached.bytes += S::bytes(&entry);
        cached.entries.push_back(entry);
        let keeps = mutated!(self.config, BudgetIgnored);
        while cached.bytes > self.config.budget && cached.entries.len() > 1 && !keeps {
            let Some(oldest) = cached.entries.pop_front() else { break };
            cached.bytes -= S::bytes(&oldest);
            cached.first += 1;
        }
    }

    /// The index that a ring is to bring next, where it is heard.
    pub fn end(&self, ring: RingId) -> Option<u64> {
        self.rings.get(&ring).map(|cached| cached.first + cached.entries.len() as u64)
    }

    /// What is cached of a ring, in bytes.
    pub fn bytes(&self, ring: RingId) -> usize {
        self.rings.get(&ring).map_or(0, |cached| cached.bytes)
    }

    /// Whether nothing is missing between a checkpoint and what is cached.
    pub fn is_reached_by(&self, checkpoint: &Checkpoint<S>) -> bool {
        //= MP32
        let reaches = |(ring, (state, _)): (&RingId, &(S, _))| {
            self.rings.get(ring).is_some_and(|cached| state.index() >= cached.first)
        };
        checkpoint.rings.iter().all(reaches) || mutated!(self.config, UncoveredInstalled)
    }

    /// Goes on from a checkpoint that reaches what is cached: drops what the checkpoint covers, and takes the rest.
    pub fn install(self, checkpoint: Checkpoint<S>) -> Merge<S> {
        //= MP33
        let mut merge = Merge::restore(self.config, checkpoint);
        for (ring, cached) in self.rings {
            for (index, entry) in (cached.first..).zip(cached.entries) {
                // What is not taken is read from the log.
                if merge.push(ring, index, entry).is_err() {
                    break;
                }
            }
        }
        merge
    }
}
