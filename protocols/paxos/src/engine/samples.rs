//! Nodes compare what they know to be decided, a part with each beat: logs that contradict each other are named.
use super::Paxos;
use crate::packet::{Sample, put_item};
use bytes::BytesMut;
use consort_types::{MemberId, NodeId};

/// No part has more instances; parts begin at multiples of this number, or where the log does.
const PART: u64 = 128;

/// Where another log says something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction {
    /// Whose log that is.
    member: MemberId,
    from: u64,
    to: u64,
}

impl Paxos {
    /// The next part of what is retained; from the beginning once all was compared.
    pub(super) fn next_sample(&mut self) -> Sample {
        //= X108
        let (first, next) = (self.learner.first().at, self.learner.next());
        let from = if (first..next).contains(&self.sample_from) { self.sample_from } else { first };
        let to = ((from / PART + 1) * PART).min(next);
        self.sample_from = to;
        self.digest(from, to).map_or_else(Sample::default, |digest| Sample { from, to, digest })
    }

    /// What these instances come to; none where some are not known, or not retained.
    fn digest(&self, from: u64, to: u64) -> Option<u64> {
        if to <= from || to - from > PART {
            return None;
        }
        let (mut bytes, mut digest) = (BytesMut::new(), 0xcbf2_9ce4_8422_2325_u64);
        for at in from..to {
            bytes.clear();
            put_item(&mut bytes, &self.learner.entry(at)?.item);
            for byte in &bytes {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Some(digest)
    }

    /// Compares a part of another log with this one.
    pub(super) fn compare(&mut self, member: MemberId, sample: Sample) {
        //= X108
        let Sample { from, to, digest } = sample;
        if self.contradictions.get(&member.node).is_some_and(|known| known.member != member) {
            self.contradictions.remove(&member.node);
        }
        if self.digest(from, to).is_some_and(|own| own != digest) {
            self.contradictions.entry(member.node).or_insert(Contradiction { member, from, to });
        }
    }

    /// Which logs contradict this one, where, and what to do.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (_, Contradiction { from, to, .. }) = self.contradictions.first_key_value()?;
        let nodes: Vec<_> = self.contradictions.keys().map(NodeId::to_string).collect();
        let others = self.peers.values().filter(|peer| peer.log == self.log).count();
        let odd = match self.contradictions.len() {
            _ if others < 2 => "one of the two has",
            found if found * 2 > others => "this node probably has",
            _ => "the other node probably has",
        };
        Some(format!(
            "between its entries {from} and {to} the log of this node contradicts that of {}: what was ordered there is not the \
             same for all, for example because two daemons wrote to one directory; {odd} the wrong one. End the daemon \
             that contradicts the most others, move its state directory away and start it again: it takes the log from the others. \
             Programs at that node may have seen another order",
            nodes.join(" and ")
        ))
    }
}
