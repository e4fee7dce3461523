//! Replicas of a state.
use crate::checkers::{Bounds, judge};
use crate::digest::TraceDigest;
use crate::message::Process;
use crate::trace::{
    Occurrence, REGISTERS, RegisterCommand, RegisterDeed, ReplicaRecord, ReplicaStep, Trace, TraceEvent,
};
use ReplicaStep::{Answered, Applied, Called, Ends, Lost, Read, Reads, Restored, Serves, Starts};
use consort_types::{Instant, NodeId};

/// A sum of a state whose first register is this.
fn sum(first: u64) -> u64 {
    let mut registers = [0; REGISTERS];
    registers[0] = first;
    let mut sum = TraceDigest::default();
    registers.iter().for_each(|register| sum.add(*register));
    sum.0
}

/// What the checkers say of steps of servers: which, of which call, at which number, and with which sum. Each command sets the
/// first register to the number of its call.
fn broken(steps: &[(ReplicaStep, u16, u64, u64, u64)]) -> Vec<&'static str> {
    let event = |what, at| TraceEvent { at: Instant(at), process: Process::new(NodeId(0), 7), what };
    let step = |(&(step, server, call, at, sum), time): (&(ReplicaStep, u16, u64, u64, u64), u64)| {
        let deed = if step == Called { RegisterDeed::Set } else { RegisterDeed::Get };
        let command = RegisterCommand { deed, key: 0, value: call, expected: 0 };
        event(Occurrence::Replica(Box::new(ReplicaRecord { step, server, call, at, sum, command })), time)
    };
    let mut events: Vec<_> = steps.iter().zip(1..).map(step).collect();
    events.push(event(Occurrence::Calm, 99));
    let broken = judge(&Trace { events }, Bounds::default());
    broken.iter().map(|broken| broken.rule.id).filter(|id| *id == "RE").collect()
}

/// Two servers serve, and the first has answered call 5, which it and the other have applied.
fn answered() -> Vec<(ReplicaStep, u16, u64, u64, u64)> {
    let starts = [0, 1].map(|server| [(Starts, server, 0, 0, sum(0)), (Serves, server, 0, 0, 0)]);
    let call = [(Called, 0, 5, 0, 0), (Applied, 0, 5, 1, sum(5)), (Answered, 0, 5, 1, 0), (Applied, 1, 5, 1, sum(5))];
    [starts.concat(), call.to_vec()].concat()
}

fn then(steps: &[(ReplicaStep, u16, u64, u64, u64)]) -> Vec<&'static str> {
    broken(&[answered(), steps.to_vec()].concat())
}

#[test]
fn states_are_what_one_history_makes() {
    assert_eq!(then(&[]), [""; 0]);
    let call = (Called, 1, 6, 0, 0);
    let rest = [(Answered, 1, 6, 2, 5), (Applied, 0, 6, 2, sum(6))];
    let next = |at, sum| [&[call, (Applied, 1, 6, at, sum)][..], &rest].concat();
    assert_eq!(then(&next(2, sum(6))), [""; 0]);
    assert!(!then(&next(2, sum(7))).is_empty(), "another state");
    assert!(!then(&next(3, sum(6))).is_empty(), "one is left out");
    assert!(!then(&[(Applied, 0, 9, 2, sum(9)), (Applied, 1, 9, 2, sum(9))]).is_empty(), "that was never called");
    assert!(!then(&[(Applied, 0, 5, 2, sum(5)), (Applied, 1, 5, 2, sum(5))]).is_empty(), "twice");
    assert!(!then(&[call, (Applied, 1, 6, 2, sum(6)), rest[0]]).is_empty(), "the other never comes so far");
}

#[test]
fn what_was_answered_outlives_all_servers() {
    let again = |at, sum| vec![(Ends, 0, 0, 0, 0), (Starts, 0, 0, at, sum), (Serves, 0, 0, 0, 0)];
    assert_eq!(then(&again(1, sum(5))), [""; 0]);
    assert_eq!(then(&[again(0, sum(0)), vec![(Applied, 0, 5, 1, sum(5))]].concat()), [""; 0]);
    assert_eq!(then(&[again(0, sum(0)), vec![(Restored, 0, 0, 1, sum(5))]].concat()), [""; 0]);
    assert!(!then(&again(0, sum(0))).is_empty(), "it is lost");
    assert!(!then(&again(2, sum(5))).is_empty(), "nothing was there");
    assert!(!then(&[again(0, sum(0)), vec![(Called, 0, 6, 0, 0), (Applied, 0, 6, 1, sum(6))]].concat()).is_empty());
    assert!(!then(&[(Ends, 0, 0, 0, 0), (Starts, 0, 0, 1, sum(5))]).is_empty(), "it never serves");
}

#[test]
fn calls_and_reads_see_all_that_was_answered_before() {
    let read = |at, sum| [(Reads, 1, 7, 0, 0), (Read, 1, 7, at, sum)];
    assert_eq!(then(&read(1, 5)), [""; 0]);
    assert!(!then(&read(1, 0)).is_empty(), "that is not in the state");
    assert!(!then(&read(0, 0)).is_empty(), "an old state");
    assert!(!then(&read(1, 5)[..1]).is_empty(), "it is never answered");
    let lost = |at| [(Called, 1, 6, 0, 0), (Lost, 1, 6, at, 0)];
    assert_eq!(then(&lost(0)), [""; 0], "perhaps it will never count");
    assert!(!then(&lost(1)).is_empty(), "it is not in the state");
}
