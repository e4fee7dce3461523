//! Candidates of an election.
use crate::checkers::{Bounds, judge};
use crate::message::Process;
use crate::trace::{LedRecord, LedStep, Occurrence, Trace, TraceEvent};
use LedStep::{Acts, Hole, Leads, Sent, Stops};
use consort_types::{Instant, NodeId};

/// What the checkers say of steps: when each is, of which candidate, by which message, under which fence and until when.
fn broken(steps: &[(u64, LedStep, u16, u64, u128, u64)]) -> Vec<&'static str> {
    let event = |&(at, step, candidate, serial, fence, until): &(u64, LedStep, u16, u64, u128, u64)| {
        let step = LedRecord { step, candidate, serial, fence, until: Instant(until), lease: 100 };
        let process = Process::new(NodeId(candidate), 7);
        TraceEvent { at: Instant(at), process, what: Occurrence::Led(Box::new(step)) }
    };
    let trace = Trace { events: steps.iter().map(event).collect() };
    judge(&trace, Bounds::default()).iter().map(|broken| broken.rule.id).collect()
}

#[test]
fn one_leads_at_a_time() {
    let first = [(10, Sent, 1, 1, 0, 0), (20, Leads, 1, 1, 5, 110)];
    let second = |at| [(at, Sent, 2, 1, 0, 0), (at + 1, Leads, 2, 1, 6, at + 90)];
    let both = |at| [first, second(at)].concat();
    assert_eq!(broken(&both(120)), [""; 0]);
    assert_eq!(broken(&both(100)), ["OL"], "the first leads until 110");
    let mut resigned = first.to_vec();
    resigned.push((50, Stops, 1, 0, 0, 0));
    assert_eq!(broken(&[resigned, second(60).to_vec()].concat()), [""; 0]);
}

#[test]
fn a_lease_ends_in_time() {
    let leads = |until| [(10, Sent, 1, 1, 0, 0), (20, Leads, 1, 1, 5, until)];
    assert_eq!(broken(&leads(110)), [""; 0]);
    assert_eq!(broken(&leads(120)), ["OL"], "it was counted from its receipt");
    let acts = |at| [leads(110).to_vec(), vec![(at, Acts, 1, 0, 5, 0)]].concat();
    assert_eq!(broken(&acts(105)), [""; 0]);
    assert_eq!(broken(&acts(115)), ["OL"], "its lease has ended");
    let cut_off = [(10, Sent, 1, 1, 0, 0), (15, Hole, 1, 0, 0, 0), (20, Leads, 1, 1, 5, 110)];
    assert_eq!(broken(&cut_off), ["OL"], "that was sent before it lost its connection");
    assert_eq!(broken(&[(20, Leads, 1, 1, 5, 110)]), ["OL"], "it rests on nothing");
}

#[test]
fn fences_rise() {
    let elected =
        |at, candidate, fence| [(at, Sent, candidate, at, 0, 0), (at + 1, Leads, candidate, at, fence, at + 90)];
    assert_eq!(broken(&[elected(10, 1, 5), elected(200, 2, 6)].concat()), [""; 0]);
    assert_eq!(broken(&[elected(10, 1, 5), elected(200, 2, 5)].concat()), ["OL"]);
    assert_eq!(broken(&[elected(10, 1, 5), elected(60, 1, 5)].concat()), [""; 0], "it renews its lease");
    assert_eq!(broken(&[elected(10, 1, 5), elected(200, 1, 5)].concat()), ["OL"], "it had to claim again");
}
