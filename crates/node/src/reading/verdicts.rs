//! What this node knows of the places of its order: which messages it has told its members, and which were refused there.
use std::collections::{BTreeSet, VecDeque};

/// What became of the message at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceVerdict {
    /// Its receivers were told.
    Told,
    /// Nobody was: it was refused where it stands.
    Refused,
    /// This node was not told of it in its turn.
    Unknown,
}

/// The places that this node has taken in their order.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// The first and the last of each run of places, ascending.
    runs: VecDeque<(u64, u64)>,
    /// Those of them where a message was refused.
    refused: BTreeSet<u64>,
}

impl Verdicts {
    /// The last place that was taken.
    pub fn last(&self) -> Option<u64> {
        self.runs.back().map(|(_, last)| *last)
    }

    /// Takes the next place. Returns whether something may be forgotten: it takes more than it did before.
    pub fn take(&mut self, at: u64, refused: bool) -> bool {
        let follows = match self.runs.back_mut() {
            Some((_, last)) if at <= *last => return false,
            Some((_, last)) if at == *last + 1 => {
                *last = at;
                true
            }
            _ => false,
        };
        if !follows {
            self.runs.push_back((at, at));
        }
        if refused {
            self.refused.insert(at);
        }
        refused || !follows
    }

    /// Forgets what stands below a place; the last run is kept.
    pub fn forget_below(&mut self, at: u64) {
        while self.runs.len() > 1 && self.runs.front().is_some_and(|(_, last)| *last < at) {
            self.runs.pop_front();
        }
        self.refused = self.refused.split_off(&at);
    }

    /// What became of the message there.
    pub fn of(&self, at: u64) -> PlaceVerdict {
        let behind = self.runs.partition_point(|(first, _)| *first <= at);
        let run = behind.checked_sub(1).and_then(|run| self.runs.get(run));
        match run.is_some_and(|(_, last)| at <= *last) {
            true if self.refused.contains(&at) => PlaceVerdict::Refused,
            true => PlaceVerdict::Told,
            false => PlaceVerdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_of_what_was_taken_and_of_nothing_else() {
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.last(), None);
        for (at, refused, grows) in
            [(3, false, true), (4, false, false), (5, true, true), (9, false, true), (10, false, false)]
        {
            assert_eq!(verdicts.take(at, refused), grows, "{at}");
        }
        assert!(!verdicts.take(10, true) && !verdicts.take(2, true), "no place is taken twice");
        let known: Vec<_> = (2..=11).map(|at| verdicts.of(at)).collect();
        let (t, r, u) = (PlaceVerdict::Told, PlaceVerdict::Refused, PlaceVerdict::Unknown);
        assert_eq!(known, [u, t, t, r, u, u, u, t, t, u]);
        assert_eq!(verdicts.last(), Some(10));
    }

    #[test]
    fn what_is_not_retained_is_forgotten() {
        let mut verdicts = Verdicts::default();
        assert!((0..1_000).all(|n| verdicts.take(3 * n + 1, true)));
        verdicts.forget_below(2_995);
        assert_eq!((verdicts.runs.len(), verdicts.refused.len()), (2, 2));
        verdicts.forget_below(9_999);
        assert_eq!((verdicts.runs.len(), verdicts.refused.len(), verdicts.last()), (1, 0, Some(2_998)));
    }
}
