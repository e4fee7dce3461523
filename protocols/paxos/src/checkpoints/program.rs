//! The copies of one program.
use super::{Bind, Verdict, superseded};
use consort_types::Holder;
use std::collections::BTreeMap;

/// A program with copies, from its first binding on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    copies: u16,
    began: u64,
    seats: BTreeMap<Holder, Seat>,
}

/// A copy that was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Names its binding or withdrawal: the number of instances up to it.
    pub epoch: u64,
    /// What it said when it was bound, and since; none where it was withdrawn.
    pub bound: Option<Bound>,
}

/// What a copy has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Names its start.
    pub token: u128,
    /// The first position that it has no checkpoint of.
    pub from: u64,
    /// For people.
    pub label: Box<str>,
}

impl Program {
    pub(super) const fn new(copies: u16, began: u64) -> Self {
        Self { copies, began, seats: BTreeMap::new() }
    }

    /// One that was written down.
    pub const fn of(copies: u16, began: u64, seats: BTreeMap<Holder, Seat>) -> Self {
        Self { copies, began, seats }
    }

    /// How many copies it has.
    pub const fn copies(&self) -> u16 {
        self.copies
    }

    /// The first position of its history.
    pub const fn began(&self) -> u64 {
        self.began
    }

    /// Those that are bound or withdrawn.
    pub const fn seats(&self) -> &BTreeMap<Holder, Seat> {
        &self.seats
    }

    /// How many copies are bound.
    pub fn bound(&self) -> usize {
        self.seats.values().filter(|seat| seat.bound.is_some()).count()
    }

    /// How many copies it counts a majority of: one less for each that was withdrawn and is not replaced.
    pub fn counted(&self) -> usize {
        //= X106
        let bound = self.bound();
        let withdrawn = self.seats.len() - bound;
        usize::from(self.copies).saturating_sub(withdrawn).max(bound)
    }

    /// Whether all its copies were withdrawn.
    pub(super) fn is_over(&self) -> bool {
        //= X106
        self.counted() == 0
    }

    /// The first position that a majority of the copies does not keep yet. Copies that were never bound keep nothing.
    pub fn needed(&self) -> Option<u64> {
        //= X105
        let copies = self.counted();
        (copies > 0).then(|| self.kept_by(copies / 2 + 1))
    }

    /// The first position that fewer copies keep.
    pub fn kept_by(&self, copies: usize) -> u64 {
        let mut from: Vec<_> = self.seats.values().filter_map(|seat| Some(seat.bound.as_ref()?.from)).collect();
        from.sort_unstable_by(|one, other| other.cmp(one));
        from.get(copies.saturating_sub(1)).map_or(self.began, |from| *from.max(&self.began))
    }

    pub(super) fn judge_bind(&self, bind: &Bind, is_full: bool) -> Verdict {
        let seat = self.seats.get(&bind.holder);
        let (epoch, bound) = (seat.map_or(0, |seat| seat.epoch), seat.and_then(|seat| seat.bound.as_ref()));
        //= X102
        if epoch != bind.replaces {
            let own = bound.is_some_and(|bound| bound.token == bind.token);
            return if own { Verdict::Bound(epoch) } else { superseded(seat) };
        }
        //= X103
        let is_further = bound.is_none() && self.bound() >= usize::from(self.copies);
        if is_further || bind.copies != 0 && bind.copies != self.copies {
            return Verdict::SeatsTaken(self.copies);
        }
        if seat.is_none() && is_full { Verdict::Full } else { Verdict::Counts }
    }

    /// A copy that starts may have less than it once declared.
    pub(super) fn bind(&mut self, at: u64, place: u64, bind: Bind) {
        //= X102
        let bound = Bound { token: bind.token, from: bind.from.min(place + 1), label: bind.label };
        self.seats.insert(bind.holder, Seat { epoch: at, bound: Some(bound) });
        // It has taken the seat of a copy that was withdrawn, the one that was withdrawn first.
        if self.seats.len() > usize::from(self.copies) {
            let withdrawn = self.seats.iter().filter(|(_, seat)| seat.bound.is_none());
            if let Some(holder) = withdrawn.min_by_key(|(_, seat)| seat.epoch).map(|(holder, _)| holder.clone()) {
                self.seats.remove(&holder);
            }
        }
    }

    pub(super) fn judge_declare(&self, holder: &Holder, epoch: u64, from: Option<u64>, is_full: bool) -> Verdict {
        let seat = self.seats.get(holder);
        match (seat, from) {
            //= X106
            (Some(Seat { bound: None, .. }), None) => Verdict::Stands,
            (None, None) if self.seats.len() >= usize::from(self.copies) => Verdict::Stands,
            (None, None) if is_full => Verdict::Full,
            //= X104
            _ if seat.map_or(0, |seat| seat.epoch) != epoch => superseded(seat),
            (Some(Seat { bound: Some(bound), .. }), Some(from)) if bound.from >= from => Verdict::Stands,
            (Some(Seat { bound: None, .. }) | None, Some(_)) => superseded(seat),
            _ => Verdict::Counts,
        }
    }

    /// A copy keeps more, or is withdrawn.
    pub(super) fn declare(&mut self, at: u64, holder: &Holder, from: Option<u64>) {
        match (self.seats.get_mut(holder).and_then(|seat| seat.bound.as_mut()), from) {
            (Some(bound), Some(from)) => bound.from = bound.from.max(from),
            //= X106
            (_, None) => drop(self.seats.insert(holder.clone(), Seat { epoch: at, bound: None })),
            (None, Some(_)) => {}
        }
    }
}
