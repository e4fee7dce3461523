//! Whether the others have the same table, seen by the sums that they say they had at places in the order.
use bytes::{BufMut, BytesMut};
use consort_types::{MemberId, Position, ViewId};
use consort_wire::{Malformed, Reader, Writer};
use std::collections::{BTreeMap, VecDeque};

/// How many changes of the own sum are remembered. A claim from before them is not judged.
const STEPS: usize = 1_024;
const VERSION: u8 = 1;

/// What a daemon says of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateDigest {
    view: ViewId,
    at: Position,
    hash: u64,
}

/// Own sums of the view that is on, and what others claim and cannot be judged yet.
#[derive(Debug, Default)]
pub(crate) struct DigestCheck {
    view: ViewId,
    /// From which position on there was which sum.
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

    /// From this position on the table has this sum.
    pub fn note(&mut self, at: Position, sum: u64) {
        if self.frozen || self.steps.back().is_some_and(|(_, last)| *last == sum) {
            return;
        }
        if self.steps.len() == STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back((at, sum));
    }

    /// What this daemon claims of its table at this position.
    pub fn state_digest(&self, at: Position) -> Option<StateDigest> {
        let (_, sum) = self.steps.back().filter(|_| !self.frozen)?;
        Some(StateDigest { view: self.view, at, hash: *sum })
    }

    /// Another daemon's claim. One that was not judged yet is kept in its place; the next beacon brings another.
    pub fn on_digest(&mut self, member: MemberId, claim: StateDigest) {
        //= G31
        if claim.view == self.view && !self.frozen {
            self.open.entry(member).or_insert(claim);
        }
    }

    /// Judges the claims of positions up to `at`, which this daemon has come to and settled at.
    pub fn check(&mut self, at: Position) -> Option<Mismatch> {
        let mut wrong = None;
        let due: Vec<_> = self.open.iter().filter(|(_, claim)| claim.at <= at).map(|(member, _)| *member).collect();
        for member in due {
            let Some(claim) = self.open.remove(&member) else { continue };
            let Some(own) = self.hash_at(claim.at) else { continue };
            self.compared += 1;
            if own != claim.hash {
                self.mismatches += 1;
                wrong = Some(Mismatch { member, at: claim.at });
            }
        }
        wrong
    }

    /// The own sum at a position; `None` if that is forgotten or was before the table was settled.
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
        let claim =
            Self { view: reader.view_id("view")?, at: Position(reader.u64("position")?), hash: reader.u64("sum")? };
        reader.end("end of claim")?;
        Ok(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: ViewId = ViewId { number: 3, representative: MemberId::new(0, 1) };
    const PEER: MemberId = MemberId::new(1, 1);

    fn claim(at: u64, sum: u64) -> StateDigest {
        StateDigest { view: VIEW, at: Position(at), hash: sum }
    }

    fn witness(steps: &[(u64, u64)]) -> DigestCheck {
        let mut witness = DigestCheck::default();
        witness.begin(VIEW);
        steps.iter().for_each(|(at, sum)| witness.note(Position(*at), *sum));
        witness
    }

    #[test]
    fn a_claim_is_held_against_the_own_sum_at_its_place() {
        //= G31 test
        let mut witness = witness(&[(5, 50), (9, 90)]);
        for (at, sum, wrong) in [(5, 50, false), (8, 50, false), (8, 90, true), (9, 90, false), (20, 91, true)] {
            witness.on_digest(PEER, claim(at, sum));
            let mismatch = witness.check(Position(30)).map(|mismatch| mismatch.at.0);
            assert_eq!(mismatch, wrong.then_some(at), "{at} {sum}");
        }
        assert_eq!((witness.compared, witness.mismatches), (5, 2));
        witness.on_digest(PEER, claim(4, 1));
        assert_eq!((witness.check(Position(30)), witness.compared), (None, 5), "before it had settled");
    }

    #[test]
    fn a_claim_from_further_on_waits_until_we_are_there() {
        //= G31 test
        let mut witness = witness(&[(5, 50)]);
        witness.on_digest(PEER, claim(9, 90));
        assert_eq!(witness.check(Position(8)), None);
        witness.on_digest(PEER, claim(11, 7));
        witness.note(Position(9), 91);
        assert_eq!(witness.check(Position(10)), Some(Mismatch { member: PEER, at: Position(9) }));
    }

    #[test]
    fn other_views_and_closing_ones_are_not_judged() {
        let mut witness = witness(&[(5, 50)]);
        witness.on_digest(PEER, StateDigest { view: ViewId::default(), ..claim(5, 1) });
        witness.on_digest(PEER, claim(6, 1));
        witness.freeze();
        witness.on_digest(PEER, claim(7, 1));
        witness.note(Position(8), 80);
        assert_eq!((witness.check(Position(9)), witness.state_digest(Position(9))), (None, None));
        witness.begin(ViewId { number: 4, ..VIEW });
        assert_eq!(witness.state_digest(Position(0)), None, "nothing is settled yet");
    }

    #[test]
    fn what_is_forgotten_is_not_judged() {
        let all: Vec<_> = (0..2 * STEPS as u64).map(|n| (n, n)).collect();
        let mut witness = witness(&all);
        witness.on_digest(PEER, claim(10, 99));
        assert_eq!((witness.check(Position(1 << 20)), witness.compared), (None, 0));
    }

    #[test]
    fn claims_read_back_and_no_mutation_panics() {
        let mut bytes = BytesMut::new();
        claim(77, 88).put(&mut bytes);
        assert!(bytes.len() <= 64, "beacons have room for 64 bytes");
        assert_eq!(StateDigest::decode(&bytes), Ok(claim(77, 88)));
        consort_wire::mutate::each(&bytes, 5_000, |bytes| {
            let _ = StateDigest::decode(bytes);
        });
    }
}
