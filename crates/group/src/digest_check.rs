//! Whether the others have the same table, seen by the hashes that they say they had at places in the order.
use bytes::{BufMut, BytesMut};
use consort_types::{MemberId, Position, ViewId};
use consort_wire::{Malformed, Reader, Writer};
use std::collections::{BTreeMap, VecDeque};

/// How many changes of the own hash are remembered. A digest from before them is not judged.
const STEPS: usize = 1_024;
const VERSION: u8 = 1;

/// What a daemon says of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateDigest {
    view: ViewId,
    at: Position,
    hash: u64,
}

/// Own hashes of the view that is on, and what others digest and cannot be judged yet.
#[derive(Debug, Default)]
pub(crate) struct DigestCheck {
    view: ViewId,
    /// From which position on there was which hash.
    steps: VecDeque<(Position, u64)>,
    open: BTreeMap<MemberId, StateDigest>,
    frozen: bool,
    pub compared: u64,
    pub mismatches: u64,
}

/// Somebody has another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Who.
    pub member: MemberId,
    /// After which message of the view.
    pub at: Position,
}

impl DigestCheck {
    /// A view begins.
    pub fn begin(&mut self, view: ViewId) {
        self.steps.clear();
        self.open.clear();
        (self.view, self.frozen) = (view, false);
    }

    /// The view is closing: from here on not all of its members are given the same.
    pub fn freeze(&mut self) {
        self.open.clear();
        self.frozen = true;
    }

    /// From this position on the table has this hash.
    pub fn note(&mut self, at: Position, hash: u64) {
        if self.frozen || self.steps.back().is_some_and(|(_, last)| *last == hash) {
            return;
        }
        if self.steps.len() == STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back((at, hash));
    }

    /// What this daemon digests of its table at this position.
    pub fn state_digest(&self, at: Position) -> Option<StateDigest> {
        let (_, hash) = self.steps.back().filter(|_| !self.frozen)?;
        Some(StateDigest { view: self.view, at, hash: *hash })
    }

    /// Another daemon's digest. One that was not judged yet is kept in its place; the next beacon brings another.
    pub fn on_digest(&mut self, member: MemberId, digest: StateDigest) {
        //= G31
        if digest.view == self.view && !self.frozen {
            self.open.entry(member).or_insert(digest);
        }
    }

    /// Judges the digests of positions up to `at`, which this daemon has come to and settled at.
    pub fn check(&mut self, at: Position) -> Option<Mismatch> {
        let mut wrong = None;
        let due: Vec<_> = self.open.iter().filter(|(_, digest)| digest.at <= at).map(|(member, _)| *member).collect();
        for member in due {
            let Some(digest) = self.open.remove(&member) else { continue };
            let Some(own) = self.hash_at(digest.at) else { continue };
            self.compared += 1;
            if own != digest.hash {
                self.mismatches += 1;
                wrong = Some(Mismatch { member, at: digest.at });
            }
        }
        wrong
    }

    /// The own hash at a position; `None` if that is forgotten or was before the table was settled.
    fn hash_at(&self, at: Position) -> Option<u64> {
        let after = self.steps.partition_point(|(from, _)| *from <= at);
        after.checked_sub(1).map(|last| self.steps[last].1)
    }
}

impl StateDigest {
    pub fn put(self, out: &mut BytesMut) {
        out.put_u8(VERSION);
        out.put_view_id(self.view);
        out.put_u64(self.at.0);
        out.put_u64(self.hash);
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version")? != VERSION {
            return Err(Malformed { what: "version", at: 0 });
        }
        let digest =
            Self { view: reader.view_id("view")?, at: Position(reader.u64("position")?), hash: reader.u64("hash")? };
        reader.end("end of digest")?;
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: ViewId = ViewId { number: 3, representative: MemberId::new(0, 1) };
    const PEER: MemberId = MemberId::new(1, 1);

    fn digest(at: u64, hash: u64) -> StateDigest {
        StateDigest { view: VIEW, at: Position(at), hash }
    }

    fn check(steps: &[(u64, u64)]) -> DigestCheck {
        let mut check = DigestCheck::default();
        check.begin(VIEW);
        steps.iter().for_each(|(at, hash)| check.note(Position(*at), *hash));
        check
    }

    #[test]
    fn a_claim_is_held_against_the_own_sum_at_its_place() {
        //= G31 test
        let mut check = check(&[(5, 50), (9, 90)]);
        for (at, hash, wrong) in [(5, 50, false), (8, 50, false), (8, 90, true), (9, 90, false), (20, 91, true)] {
            check.on_digest(PEER, digest(at, hash));
            let mismatch = check.check(Position(30)).map(|mismatch| mismatch.at.0);
            assert_eq!(mismatch, wrong.then_some(at), "{at} {hash}");
        }
        assert_eq!((check.compared, check.mismatches), (5, 2));
        check.on_digest(PEER, digest(4, 1));
        assert_eq!((check.check(Position(30)), check.compared), (None, 5), "before it had settled");
    }

    #[test]
    fn a_claim_from_further_on_waits_until_we_are_there() {
        //= G31 test
        let mut check = check(&[(5, 50)]);
        check.on_digest(PEER, digest(9, 90));
        assert_eq!(check.check(Position(8)), None);
        check.on_digest(PEER, digest(11, 7));
        check.note(Position(9), 91);
        assert_eq!(check.check(Position(10)), Some(Mismatch { member: PEER, at: Position(9) }));
    }

    #[test]
    fn other_views_and_closing_ones_are_not_judged() {
        let mut check = check(&[(5, 50)]);
        check.on_digest(PEER, StateDigest { view: ViewId::default(), ..digest(5, 1) });
        check.on_digest(PEER, digest(6, 1));
        check.freeze();
        check.on_digest(PEER, digest(7, 1));
        check.note(Position(8), 80);
        assert_eq!((check.check(Position(9)), check.state_digest(Position(9))), (None, None));
        check.begin(ViewId { number: 4, ..VIEW });
        assert_eq!(check.state_digest(Position(0)), None, "nothing is settled yet");
    }

    #[test]
    fn what_is_forgotten_is_not_judged() {
        let all: Vec<_> = (0..2 * STEPS as u64).map(|n| (n, n)).collect();
        let mut check = check(&all);
        check.on_digest(PEER, digest(10, 99));
        assert_eq!((check.check(Position(1 << 20)), check.compared), (None, 0));
    }

    #[test]
    fn claims_read_back_and_no_mutation_panics() {
        let mut bytes = BytesMut::new();
        digest(77, 88).put(&mut bytes);
        assert!(bytes.len() <= 64, "beacons have room for 64 bytes");
        assert_eq!(StateDigest::decode(&bytes), Ok(digest(77, 88)));
        consort_wire::mutate::each(&bytes, 5_000, |bytes| {
            let _ = StateDigest::decode(bytes);
        });
    }
}
