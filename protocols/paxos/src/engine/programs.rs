//! What the status says of programs with copies.
use super::Paxos;
use crate::checkpoints::{Bound, Program, Seat};
use consort_order::Fact;
use consort_types::Holder;

impl Paxos {
    /// A line for each program with copies, and counters of all.
    pub(super) fn each_program(&self, see: &mut dyn FnMut(Fact)) {
        let (mut bound, mut missing) = (0, 0);
        for (name, program) in self.learner.head().declared.programs() {
            bound += program.bound();
            missing += program.counted() - program.bound();
            see(Fact::Program { name: name.to_owned(), value: self.describe_program(program) });
        }
        see(Fact::Counter("copies_bound", bound as u64));
        see(Fact::Counter("copies_missing", missing as u64));
        see(Fact::Counter("retention_budget_bytes", self.budget() as u64));
        let held_back = self.overfull.as_ref().map_or(0, |overfull| overfull.programs.len());
        see(Fact::Counter("programs_holding_back", held_back as u64));
    }

    fn describe_program(&self, program: &Program) -> String {
        let last = self.learner.place();
        let mut words: Vec<_> =
            program.seats().iter().map(|(holder, seat)| describe_copy(holder, seat, last)).collect();
        let (copies, missing) = (program.copies(), program.counted() - program.bound());
        words.extend((missing > 0).then(|| format!("{missing} of {copies} copies were never bound and lack all")));
        let needed = program.needed().unwrap_or(last + 1);
        words.push(format!("a majority lacks what comes from {needed} on"));
        // The first message that is still there has the position behind that of the checkpoint.
        let first = self.learner.first().place + 1;
        words.extend((needed < first).then(|| {
            format!(
                "of that the log has released {needed} to {}, so that a stop of everything may lose it; have the copies \
                 make checkpoints",
                first - 1
            )
        }));
        words.join("; ")
    }
}

fn describe_copy(holder: &Holder, seat: &Seat, last: u64) -> String {
    let Some(Bound { from, label, .. }) = &seat.bound else { return format!("{holder} was withdrawn") };
    let lacks = (last + 1).saturating_sub(*from);
    let label = if label.is_empty() { String::new() } else { format!(" ({})", label.escape_debug()) };
    format!("{holder}{label} lacks {lacks} messages from {from} on")
}
