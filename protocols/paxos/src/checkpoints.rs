//! What programs keep by themselves: the copies that they have bound, and plain holders. Nothing of it need be retained for
//! them. The table is the same at every node at an instance of the log, and part of each checkpoint of the log.
use consort_types::{Binding, Holder};
use std::collections::BTreeMap;

mod program;

pub use program::{Bound, Program, Seat};

/// What a program says of one of its copies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// It keeps by itself what is below a position, or holds nothing any more.
    Declare {
        /// Which copy of which program.
        holder: Holder,
        /// The epoch of the copy that says so; 0 for a plain holder, and for a copy that was never bound.
        epoch: u64,
        /// The first position that it does not keep yet; none where it holds nothing any more.
        from: Option<u64>,
    },
    /// It starts, in this state.
    Bind(Bind),
}

/// A copy starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bind {
    /// Which copy of which program.
    pub holder: Holder,
    /// Names this start of it.
    pub token: u128,
    /// The epoch that it replaces; 0 where it was never bound.
    pub replaces: u64,
    /// The first position that it has no checkpoint of.
    pub from: u64,
    /// How many copies the program has; 0 for as many as the log says.
    pub copies: u16,
    /// For people: which server it is, and where.
    pub label: Box<str>,
}

impl From<&Binding> for Bind {
    fn from(binding: &Binding) -> Self {
        let Binding { holder, token, replaces, from, copies, label, .. } = binding.clone();
        Self { holder, token, replaces, from: from.0, copies, label: label.into() }
    }
}

impl Statement {
    /// Which copy it is about.
    pub const fn holder(&self) -> &Holder {
        match self {
            Self::Declare { holder, .. } => holder,
            Self::Bind(bind) => &bind.holder,
        }
    }
}

/// What would become of a statement at the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would count.
    Counts,
    /// Nothing is left to be done for it.
    Stands,
    /// The same of a binding: this is its epoch.
    Bound(u64),
    /// It is for another epoch than the present one, which is 0 where the copy is not bound.
    Superseded {
        /// The present epoch.
        epoch: u64,
        /// The label of the copy that is bound there.
        label: Box<str>,
    },
    /// The program has this number of copies, and all are bound, or another number was given; 0 where none is known.
    SeatsTaken(u16),
    /// As many entries are known as there may be.
    Full,
}

/// What the log knows of copies and holders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Of each plain holder the first position that it does not keep yet.
    holders: BTreeMap<Holder, u64>,
    /// By name.
    programs: BTreeMap<Box<str>, Program>,
    /// The first position that some program of plain holders, or of copies, still needs: known without a look at all of them.
    holders_need: Option<u64>,
    copies_need: Option<u64>,
}

impl Declared {
    /// How many entries there are at most. Part of the protocol: every node must refuse the same.
    pub const MOST: usize = 4_096;

    /// Takes what the log says. `at` is the number of instances up to and with it, `place` that of the last message.
    pub fn take(&mut self, at: u64, place: u64, statement: Statement) {
        if self.judge(place, &statement) != Verdict::Counts {
            return;
        }
        match statement {
            Statement::Bind(bind) => self.bind(at, place, bind),
            Statement::Declare { holder, from, .. } => match self.programs.get_mut(holder.program()) {
                Some(program) => {
                    program.declare(at, &holder, from.map(|from| from.min(place + 1)));
                    if program.is_over() {
                        self.programs.remove(holder.program());
                    }
                }
                None => self.declare_plain(holder, from),
            },
        }
        self.look();
    }

    /// A checkpoint of a plain holder never moves back: what was released does not return.
    fn declare_plain(&mut self, holder: Holder, from: Option<u64>) {
        //= X87
        match from {
            None => drop(self.holders.remove(&holder)),
            Some(from) => {
                let known = self.holders.entry(holder).or_default();
                *known = from.max(*known);
            }
        }
    }

    fn bind(&mut self, at: u64, place: u64, bind: Bind) {
        //= X103
        let name = bind.holder.program();
        if !self.programs.contains_key(name) {
            self.holders.retain(|holder, _| holder.program() != name);
            self.programs.insert(name.into(), Program::new(bind.copies, place + 1));
        }
        if let Some(program) = self.programs.get_mut(bind.holder.program()) {
            program.bind(at, place, bind);
        }
    }

    /// What would become of a statement behind the message at `place`.
    pub fn judge(&self, place: u64, statement: &Statement) -> Verdict {
        let program = self.programs.get(statement.holder().program());
        let is_full = self.len() >= Self::MOST;
        match (statement, program) {
            (Statement::Bind(bind), Some(program)) => program.judge_bind(bind, is_full),
            //= X102
            (Statement::Bind(bind), None) if bind.replaces != 0 => superseded(None),
            //= X103
            (Statement::Bind(bind), None) if bind.copies == 0 => Verdict::SeatsTaken(0),
            (Statement::Bind(_), None) if is_full => Verdict::Full,
            (Statement::Bind(_), None) => Verdict::Counts,
            (Statement::Declare { holder, epoch, from }, Some(program)) => {
                program.judge_declare(holder, *epoch, from.map(|from| from.min(place + 1)), is_full)
            }
            (Statement::Declare { epoch, from: Some(_), .. }, None) if *epoch != 0 => superseded(None),
            (Statement::Declare { holder, from, .. }, None) => self.judge_plain(holder, *from, is_full),
        }
    }

    fn judge_plain(&self, holder: &Holder, from: Option<u64>, is_full: bool) -> Verdict {
        match (self.holders.get(holder), from) {
            (None, None) => Verdict::Stands,
            (Some(known), Some(from)) if *known >= from => Verdict::Stands,
            (None, Some(_)) if is_full => Verdict::Full,
            _ => Verdict::Counts,
        }
    }

    /// The present epoch of a copy; 0 where it was never bound.
    pub fn epoch(&self, holder: &Holder) -> u64 {
        let seat = self.program(holder).and_then(|program| program.seats().get(holder));
        seat.map_or(0, |seat| seat.epoch)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.holders.len() + self.programs.values().map(|program| program.seats().len()).sum::<usize>()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The program of a holder, where one of its copies is bound.
    pub fn program(&self, holder: &Holder) -> Option<&Program> {
        self.programs.get(holder.program())
    }

    /// All programs with copies, by name.
    pub fn programs(&self) -> impl ExactSizeIterator<Item = (&str, &Program)> {
        self.programs.iter().map(|(name, program)| (&**name, program))
    }

    /// All plain holders, by name.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = (&Holder, u64)> {
        self.holders.iter().map(|(holder, from)| (holder, *from))
    }

    /// The first position that a majority of the holders of some program does not keep yet.
    pub const fn needed_by_holders(&self) -> Option<u64> {
        self.holders_need
    }

    /// The same of the copies of programs.
    pub const fn needed_by_copies(&self) -> Option<u64> {
        self.copies_need
    }

    /// A table that was written down.
    pub fn of(holders: BTreeMap<Holder, u64>, programs: BTreeMap<Box<str>, Program>) -> Self {
        let mut declared = Self { holders, programs, ..Self::default() };
        declared.look();
        declared
    }

    fn look(&mut self) {
        //= X87
        let mut holders: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (holder, from) in &self.holders {
            holders.entry(holder.program()).or_default().push(*from);
        }
        let needed = holders.into_values().filter_map(|mut copies| {
            copies.sort_unstable_by(|one, other| other.cmp(one));
            copies.get(copies.len() / 2).copied()
        });
        self.holders_need = needed.min();
        self.copies_need = self.programs.values().filter_map(Program::needed).min();
    }
}

fn superseded(seat: Option<&Seat>) -> Verdict {
    let label = seat.and_then(|seat| seat.bound.as_ref()).map_or("", |bound| &bound.label).into();
    Verdict::Superseded { epoch: seat.map_or(0, |seat| seat.epoch), label }
}

#[cfg(test)]
mod tests;
