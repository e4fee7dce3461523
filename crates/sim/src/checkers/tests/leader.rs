//! Candidates of an election.
use crate::checkers::{Bounds, judge};
use crate::message::Process;
use crate::trace::{InstallRecord, LedRecord, LedStep, NumberedRecord, NumberedStep, Occurrence, Trace, TraceEvent};
use LedStep::{Acts, Hole, Leads, Sent, Stops};
use consort_types::{Instant, MemberId, NodeId, ViewId};

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

#[test]
fn fences_fall_only_where_no_majority_remembers_and_disks_forget() {
    let falls = |ends: usize, disks_last| {
        let incarnations: Vec<_> = (0..3).map(|node| Process::new(NodeId(node), 0)).collect();
        let members = incarnations.iter().map(|process| process.incarnation()).collect::<Vec<_>>();
        let mut events = Vec::new();
        let mut push = |at, process, what| events.push(TraceEvent { at: Instant(at), process, what });
        let id = ViewId { number: 7, representative: MemberId::new(0, 1) };
        let view = InstallRecord { id, members, ..InstallRecord::default() };
        let table = NumberedRecord { view: 7, number: 7, flag: true, ..NumberedRecord::of(NumberedStep::Table) };
        for process in &incarnations {
            push(1, *process, Occurrence::Start { late: false });
            push(2, *process, Occurrence::Network(Box::new(view.clone())));
            push(3, *process, Occurrence::Numbered(table));
        }
        let led = |step, serial, fence, until| {
            Occurrence::Led(Box::new(LedRecord {
                step,
                candidate: 1,
                serial,
                fence,
                until: Instant(until),
                lease: 100,
            }))
        };
        push(10, incarnations[0], led(Sent, 1, 0, 0));
        push(11, incarnations[0], led(Leads, 1, 5, 100));
        (0..ends).for_each(|at| push(150, incarnations[at], Occurrence::Crash));
        push(200, incarnations[2], led(Sent, 2, 0, 0));
        push(201, incarnations[2], led(Leads, 2, 4, 290));
        let mut bounds = Bounds { disks_last, ..Bounds::default() };
        bounds.views.nodes = 3;
        judge(&Trace { events }, bounds).iter().any(|broken| broken.rule.id == "OL")
    };
    assert!(!falls(2, false), "one of three remembers, and its disk may be an old one");
    assert!(falls(1, false), "two of three remember");
    assert!(falls(2, true), "disks remember");
}
