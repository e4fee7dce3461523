//! Which sequence numbers somebody misses, as runs on the token.
use bytes::{BufMut, BytesMut};
use consort_types::Seq;
use consort_wire::{Malformed, Reader, Writer};

/// The bytes of one run of requests.
pub const RUN_LEN: usize = 12;

/// Consecutive sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRun {
    /// The first sequence number.
    pub first: Seq,
    /// How many; at least 1.
    pub len: u32,
}

impl SeqRun {
    const fn end(self) -> u64 {
        self.first.0 + self.len as u64
    }
}

/// Runs of sequence numbers, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(Vec<SeqRun>);

impl Requests {
    /// Whether nothing is asked for.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many runs there are.
    pub const fn runs(&self) -> usize {
        self.0.len()
    }

    /// The highest sequence number asked for.
    pub fn highest(&self) -> Seq {
        self.0.last().map_or(Seq(0), |run| Seq(run.end() - 1))
    }

    /// All sequence numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Seq> {
        self.0.iter().flat_map(|run| (run.first.0..run.end()).map(Seq))
    }

    /// Keeps the sequence numbers for which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Seq) -> bool) {
        let kept: Vec<Seq> = self.iter().filter(|seq| keep(*seq)).collect();
        self.0.clear();
        kept.into_iter().for_each(|seq| self.push(seq));
    }

    /// Adds ascending sequence numbers, those already there once, and keeps at most `max_runs` runs: the lowest, because
    /// nothing is delivered past a hole.
    pub(crate) fn merge(&mut self, missing: impl Iterator<Item = Seq>, max_runs: usize) {
        //= R14
        let old = std::mem::take(&mut self.0);
        let (mut a, mut b) =
            (old.iter().flat_map(|run| run.first.0..run.end()).map(Seq).peekable(), missing.peekable());
        while let Some(next) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => Some(*x.min(y)),
            (x, y) => x.or(y).copied(),
        } {
            a.next_if_eq(&next);
            b.next_if_eq(&next);
            if self.0.len() == max_runs && self.0.last().is_some_and(|run| run.end() != next.0) {
                return;
            }
            self.push(next);
        }
    }

    fn push(&mut self, seq: Seq) {
        match self.0.last_mut() {
            Some(run) if run.end() == seq.0 && run.len < u32::MAX => run.len += 1,
            _ => self.0.push(SeqRun { first: seq, len: 1 }),
        }
    }

    pub(crate) fn encode(&self, head: &mut BytesMut) {
        head.put_count(self.0.len());
        for run in &self.0 {
            head.put_u64(run.first.0);
            head.put_u32(run.len);
        }
    }

    /// Reads runs that are ascending, apart, not empty, and not beyond `seq`. A run may claim at most
    /// [`Requests::SEQS_MAX`] sequence numbers in all, so that walking it is bounded.
    pub(crate) fn decode(reader: &mut Reader<'_>, seq: Seq) -> Result<Self, Malformed> {
        let n = reader.count(RUN_LEN, "requests")?;
        let (mut runs, mut end, mut seqs) = (Vec::with_capacity(n), 0, 0u64);
        for _ in 0..n {
            let run = SeqRun { first: Seq(reader.u64("request")?), len: reader.u32("request")? };
            seqs += u64::from(run.len);
            let apart = runs.is_empty() || run.first.0 > end;
            if run.first.0 == 0 || run.len == 0 || !apart || run.first.0 > seq.0 || run.end() > seq.0 + 1 {
                return Err(reader.bad("request"));
            }
            if seqs > Self::SEQS_MAX {
                return Err(reader.bad("too many requests"));
            }
            end = run.end();
            runs.push(run);
        }
        Ok(Self(runs))
    }

    /// The most sequence numbers a token may ask for.
    pub const SEQS_MAX: u64 = 1 << 17;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seqs(list: &[u64]) -> impl Iterator<Item = Seq> {
        list.iter().copied().map(Seq)
    }

    fn asked(list: &[u64]) -> Requests {
        let mut requests = Requests::default();
        requests.merge(seqs(list), 100);
        requests
    }

    #[test]
    fn places_merge_into_runs_without_repetition() {
        //= R14 test
        let mut requests = asked(&[1, 2, 3, 7]);
        assert_eq!(requests.runs(), 2);
        requests.merge(seqs(&[2, 4, 7, 9]), 100);
        assert_eq!(requests.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2, 3, 4, 7, 9]);
        assert_eq!(requests.runs(), 3);
        requests.retain(|seq| seq.0 != 3);
        assert_eq!(requests.runs(), 4);
    }

    #[test]
    fn the_list_is_capped_from_above() {
        //= R14 test
        let mut requests = Requests::default();
        requests.merge(seqs(&[1, 3, 5, 6, 9, 11]), 3);
        assert_eq!(requests.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 3, 5, 6]);
    }
}
