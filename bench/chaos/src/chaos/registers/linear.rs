//! Whether one order of calls explains all answers, with each call taking effect between its begin and its answer.
//!
//! After Lowe, *Testing for Linearizability*: "just in time". Calls and answers are taken in the order of time. At an answer,
//! all states are kept that calls under way can lead to, that one among them. Where none is left, nothing explains the answer.
//!
//! What became of a call without an answer is found out first, which needs that no two calls write the same value. If
//! nobody saw what it would have written, the history holds without it, too. Otherwise it took effect before the first
//! that saw it was answered.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use consort_types::Instant;

use super::operation::{Answer, KEYS, Operation, Request, Value};

/// How many states are looked at for one answer. Runs need some hundred.
const BUDGET: usize = 50_000;

/// Why a history is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// No order explains this operation's answer.
    Unexplained {
        /// Its answer is the first that does not fit.
        operation: Operation,
        /// What the register could hold before.
        held: BTreeSet<Value>,
    },
    /// Two calls write the same value, or one the value that a register begins with: nothing can be concluded then.
    Ambiguous(Value),
    /// More states than are looked at.
    Undecided(Operation),
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexplained { operation, held } => {
                let held: Vec<_> = held.iter().map(ToString::to_string).collect();
                write!(f, "not linearizable: nothing explains `{operation}`; before, there was {}", held.join(" or "))
            }
            Self::Ambiguous(value) => write!(f, "{value} is written twice: no verdict"),
            Self::Undecided(operation) => write!(f, "more than {BUDGET} states at `{operation}`: no verdict"),
        }
    }
}

/// Judges the operations on all registers; each by itself, which suffices.
///
/// # Errors
/// The first contradiction of a register.
pub fn judge(operations: &[Operation]) -> Result<(), Contradiction> {
    (0..KEYS).try_for_each(|key| {
        let own: Vec<_> = operations.iter().filter(|operation| operation.call.key == key).copied().collect();
        let spans = spans(&own)?;
        Search { operations: &own, open: BTreeSet::new(), states: [State::default()].into() }.run(&spans)
    })
}

/// The operations that are known to have taken effect, by when each has at the latest.
fn spans(operations: &[Operation]) -> Result<BTreeMap<usize, Instant>, Contradiction> {
    let mut writers = BTreeMap::new();
    for (number, operation) in operations.iter().enumerate() {
        if let Some(value) = operation.call.request.written()
            && (value == 0 || writers.insert(value, number).is_some())
        {
            return Err(Contradiction::Ambiguous(value));
        }
    }
    let mut spans = BTreeMap::new();
    let known = operations.iter().enumerate().filter_map(|(number, operation)| Some((number, operation.outcome?)));
    let mut seen: Vec<(Value, Instant)> = Vec::new();
    for (number, (until, answer)) in known {
        spans.insert(number, until);
        seen.extend(match answer {
            Answer::Held(value) => Some((value, until)),
            Answer::Done => None,
        });
    }
    while let Some((value, until)) = seen.pop() {
        let Some(writer) = writers.get(&value).copied() else { continue };
        if operations[writer].outcome.is_some() || spans.get(&writer).is_some_and(|known| *known <= until) {
            continue;
        }
        spans.insert(writer, until);
        // A write that is conditional has itself seen what it expected.
        if let Request::CompareAndSet { expected, .. } = operations[writer].call.request {
            seen.push((expected, until));
        }
    }
    Ok(spans)
}

/// What a register may hold, and which calls under way have taken effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    held: Value,
    done: BTreeSet<usize>,
}

struct Search<'a> {
    operations: &'a [Operation],
    /// Those under way.
    open: BTreeSet<usize>,
    states: BTreeSet<State>,
}

impl Search<'_> {
    fn run(mut self, spans: &BTreeMap<usize, Instant>) -> Result<(), Contradiction> {
        // Calls come before answers of the same instant: these two are not ordered.
        let calls = spans.keys().map(|number| (self.operations[*number].from, false, *number));
        let answers = spans.iter().map(|(number, until)| (*until, true, *number));
        let mut events: Vec<_> = calls.chain(answers).collect();
        events.sort_unstable();
        for (_, is_answer, number) in events {
            if is_answer {
                self.answered(number)?;
            } else {
                self.open.insert(number);
            }
        }
        Ok(())
    }

    /// Keeps the states that calls under way lead to, this one among them.
    fn answered(&mut self, number: usize) -> Result<(), Contradiction> {
        let mut kept = BTreeSet::new();
        let mut looked_at = self.states.clone();
        let mut waiting: Vec<_> = self.states.iter().cloned().collect();
        while let Some(mut state) = waiting.pop() {
            if state.done.remove(&number) {
                kept.insert(state);
                continue;
            }
            let next = self.open.iter().filter_map(|call| self.after(&state, *call));
            waiting.extend(next.filter(|state| looked_at.insert(state.clone())));
            if looked_at.len() > BUDGET {
                return Err(Contradiction::Undecided(self.operations[number]));
            }
        }
        if kept.is_empty() {
            let held = self.states.iter().map(|state| state.held).collect();
            return Err(Contradiction::Unexplained { operation: self.operations[number], held });
        }
        self.open.remove(&number);
        self.states = kept;
        Ok(())
    }

    /// The state after a call takes effect, unless it already has, or would have been answered otherwise.
    fn after(&self, state: &State, number: usize) -> Option<State> {
        let Operation { call, outcome, .. } = self.operations[number];
        let fits = match outcome {
            Some((_, answer)) => call.request.answer(state.held) == answer,
            // It is known to have written.
            None => call.request.applied_to(state.held) != state.held,
        };
        if !fits || state.done.contains(&number) {
            return None;
        }
        let mut done = state.done.clone();
        done.insert(number);
        Some(State { held: call.request.applied_to(state.held), done })
    }
}

#[cfg(test)]
#[path = "linear/tests.rs"] // also where a test of another crate takes this file in
mod tests;
