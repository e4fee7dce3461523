//! Reassembles the fragments of datagrams that were longer than their path MTU. Bounded: of each sender, so many datagrams and so many
//! bytes may be under way; the oldest is given up. A datagram of which a fragment is lost is lost, as it would be whole.
use bytes::Bytes;
use consort_types::{Duration, Instant, MemberId, NodeId};
use consort_wire::path_mtu::{Fragment, Shape};
use std::collections::{BTreeMap, VecDeque};

/// At most so many datagrams of one sender are remembered, done ones among them.
const DATAGRAMS: usize = 64;
/// At most so many bytes of one sender wait for their other fragments; one datagram always may.
const BYTES: usize = 512 << 10;
/// What has not come together after so long never will.
const PATIENCE: Duration = Duration::from_secs(1);

/// The datagrams under way, by sender.
#[derive(Debug, Default)]
pub(crate) struct Reassemblies {
    senders: BTreeMap<NodeId, VecDeque<Reassembly>>,
    /// Datagrams that came together.
    pub(crate) joined: u64,
    /// Datagrams of which fragments were missing for too long.
    pub(crate) given_up: u64,
}

/// One datagram. When it has come together it stays for a while without its bytes, so that duplicates are known as such.
#[derive(Debug)]
struct Reassembly {
    from: MemberId,
    id: u32,
    shape: Shape,
    since: Instant,
    bytes: Vec<u8>,
    /// Which fragments are there.
    have: [u64; 4],
    missing: usize,
}

impl Reassemblies {
    /// A fragment came from a node of the cluster. Returns the datagram if this was the last that was missing.
    pub(crate) fn take(&mut self, now: Instant, from: MemberId, fragment: &Fragment) -> Option<Bytes> {
        let joins = self.senders.entry(from.node).or_default();
        let known = joins.iter_mut().rev().find(|join| (join.from, join.id) == (from, fragment.id));
        let join = match known {
            Some(join) => join,
            None => {
                self.given_up += make_room(joins, fragment.shape.total());
                joins.push_back(Reassembly::new(now, from, fragment));
                joins.back_mut()?
            }
        };
        let whole = join.take(fragment)?;
        self.joined += 1;
        Some(whole)
    }

    /// Gives up what waits for too long, and forgets what is done.
    pub(crate) fn expire(&mut self, now: Instant) {
        for joins in self.senders.values_mut() {
            while joins.front().is_some_and(|join| now.since(join.since) >= PATIENCE) {
                self.given_up += joins.pop_front().map_or(0, |join| u64::from(join.missing > 0));
            }
        }
        self.senders.retain(|_, joins| !joins.is_empty());
    }
}

/// Makes room for one more datagram of so many bytes. Returns how many were given up for it.
//= W10
fn make_room(joins: &mut VecDeque<Reassembly>, total: usize) -> u64 {
    let mut waiting: usize = joins.iter().map(|join| join.bytes.len()).sum();
    let mut given_up = 0;
    while joins.len() >= DATAGRAMS || waiting > 0 && waiting + total > BYTES {
        let Some(oldest) = joins.pop_front() else { break };
        waiting -= oldest.bytes.len();
        given_up += u64::from(oldest.missing > 0);
    }
    given_up
}

impl Reassembly {
    fn new(now: Instant, from: MemberId, fragment: &Fragment) -> Self {
        let (id, shape) = (fragment.id, fragment.shape);
        Self { from, id, shape, since: now, bytes: vec![0; shape.total()], have: [0; 4], missing: shape.count() }
    }

    /// Puts a fragment to its place. One that is there already, or that was cut differently, is ignored.
    fn take(&mut self, fragment: &Fragment) -> Option<Bytes> {
        let (word, bit) = (usize::from(fragment.index / 64), 1 << (fragment.index % 64));
        if self.missing == 0 || self.shape != fragment.shape || self.have[word] & bit != 0 {
            return None;
        }
        self.have[word] |= bit;
        self.missing -= 1;
        self.bytes[self.shape.range(fragment.index)].copy_from_slice(&fragment.bytes);
        (self.missing == 0).then(|| std::mem::take(&mut self.bytes).into())
    }
}

#[cfg(test)]
mod tests;
