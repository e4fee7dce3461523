//! What programs say of their copies, on its way into the log.
use super::Paxos;
use crate::ballot::Item;
use crate::checkpoints::{Statement, Verdict};
use crate::config::Storage;
use crate::coordinator::Role;
use crate::packet::Content;
use consort_order::{Declaration, DeclarationKind, DeclareProgress};
use consort_types::{Copies, Holder, Instant, Position, Seat};
use std::collections::BTreeMap;

/// What this node has asked the coordinator for, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclareRequests(BTreeMap<(Holder, DeclarationKind), Request>);

#[derive(Clone, Debug)]
struct Request {
    declaration: Declaration,
    /// What is asked for. A withdrawal is of the epoch that there was when it was asked for first.
    statement: Statement,
    at: Instant,
}

impl Paxos {
    /// Asks the coordinator, again after `retry`, until the log says so.
    pub(super) fn ask_to_declare(&mut self, now: Instant, declaration: &Declaration) -> DeclareProgress {
        //= X87
        let key = (declaration.holder().clone(), declaration.kind());
        if matches!(declaration, Declaration::Bind(_)) && self.config.storage == Storage::Memory {
            return DeclareProgress::Unsupported;
        }
        let known = self.requests.0.get(&key).filter(|known| known.declaration == *declaration);
        let statement = known.map_or_else(|| self.statement_of(declaration), |known| known.statement.clone());
        let verdict = self.learner.head().declared.judge(self.learner.place(), &statement);
        if verdict != Verdict::Counts {
            self.requests.0.remove(&key);
            return progress(verdict);
        }
        let retry = self.config.retry;
        let is_due = known.is_none_or(|known| now.since(known.at) >= retry);
        if is_due && let Some(leader) = self.lead().or_else(|| self.leader.clone()) {
            // Those that no client asks about any more are forgotten.
            self.requests.0.retain(|_, request| now.since(request.at) < retry * 4);
            let request = Request { declaration: declaration.clone(), statement: statement.clone(), at: now };
            self.requests.0.insert(key, request);
            self.send(leader.ballot.owner.node, Content::Declare(Box::new(statement)));
        }
        DeclareProgress::Pending
    }

    fn statement_of(&self, declaration: &Declaration) -> Statement {
        match declaration {
            Declaration::Keep { holder, epoch, from } => {
                Statement::Declare { holder: holder.clone(), epoch: *epoch, from: Some(from.0) }
            }
            Declaration::Bind(binding) => Statement::Bind(binding.into()),
            //= X106
            Declaration::Withdraw(holder) => {
                let epoch = self.learner.head().declared.epoch(holder);
                Statement::Declare { holder: holder.clone(), epoch, from: None }
            }
        }
    }

    /// A node asks this coordinator to put a statement into the log.
    pub(super) fn on_declare(&mut self, now: Instant, statement: Statement) {
        let head = self.learner.head();
        let binds = matches!(statement, Statement::Bind(_));
        if binds && self.config.storage == Storage::Memory
            || head.declared.judge(head.place, &statement) != Verdict::Counts
        {
            return;
        }
        let item = Item::Declare(Box::new(statement));
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.open.len() >= self.config.window || leading.open.values().any(|open| open.item == item) {
            return;
        }
        let at = leading.next;
        leading.next += 1;
        self.propose(now, at, item);
    }

    /// What the log says of the copies of a holder's program.
    pub(super) fn copies_of(&self, holder: &Holder) -> Copies {
        let mut copies = Copies::unsupported(holder.clone());
        copies.lasts = self.config.storage != Storage::Memory;
        let Some(retained) = self.retained_places().filter(|_| copies.lasts) else { return copies };
        (copies.order, copies.first, copies.last) = (retained.order, retained.first, retained.last);
        (copies.held, copies.budget) = (self.learner.bytes() as u64, self.budget() as u64);
        copies.voters = u16::try_from(self.config.acceptors.len()).unwrap_or(u16::MAX);
        if let Some(program) = self.learner.head().declared.program(holder) {
            (copies.copies, copies.began) = (program.copies(), Position(program.began()));
            copies.seats = program.seats().iter().map(seat).collect();
        }
        copies
    }
}

fn seat((holder, seat): (&Holder, &crate::checkpoints::Seat)) -> Seat {
    let bound = seat.bound.as_ref();
    Seat {
        holder: holder.clone(),
        epoch: seat.epoch,
        token: bound.map_or(0, |bound| bound.token),
        from: Position(bound.map_or(0, |bound| bound.from)),
        label: bound.map_or("", |bound| &bound.label).to_owned(),
    }
}

fn progress(verdict: Verdict) -> DeclareProgress {
    match verdict {
        Verdict::Counts => DeclareProgress::Pending,
        Verdict::Stands => DeclareProgress::Stands,
        Verdict::Bound(epoch) => DeclareProgress::Bound { epoch },
        Verdict::Superseded { epoch, label } => DeclareProgress::Superseded { epoch, label: label.into() },
        Verdict::SeatsTaken(copies) => DeclareProgress::SeatsTaken { copies },
        Verdict::Full => DeclareProgress::Full,
    }
}
