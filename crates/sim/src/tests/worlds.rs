//! What the world itself promises.
use super::sequencer::Flaw;
use super::{bounds, lightened, machines, plan, run, whole_machines};
use crate::checkers::judge;
use crate::fault::{Activation, Fault, FaultScope, Kinds, Lanes, NodeSet};
use crate::host::{CoreModel, HostModel};
use crate::machine::SubmitAnswer;
use crate::message::Process;
use crate::plan::RunPlan;
use crate::trace::{Occurrence, Trace};
use crate::workload::SendPace;
use crate::world::{RunOptions, SimWorld};
use consort_order::Lane;
use consort_types::{Class, Duration, Instant, NodeId, Service};
use std::cell::Cell;
use std::rc::Rc;

const CLIENT: Process = Process::new(NodeId(1), 5);

#[test]
fn one_seed_is_one_run_and_another_seed_is_another() {
    let digest = |seed| run(&plan(seed, "steady"), Flaw::None).digest;
    assert_eq!((digest(7), digest(8)), (digest(7), digest(8)));
    assert_ne!(digest(7), digest(8));
}

#[test]
fn the_trace_of_a_run_is_judged_alike_when_read_from_text() {
    for flaw in [Flaw::None, Flaw::Cut] {
        let plan = plan(5, "steady");
        let outcome = run(&plan, flaw);
        let text = outcome.trace.unwrap().to_string();
        let trace: Trace = text.parse().unwrap();
        let again = judge(&trace, bounds(&plan));
        let ended = outcome.violations.is_empty();
        let seen: Vec<_> = again.into_iter().filter(|violation| ended || violation.event.is_some()).collect();
        assert_eq!(seen, outcome.violations);
    }
}

#[test]
fn a_packet_that_fits_no_datagram_is_not_sent_and_makes_the_run_red() {
    let plan = RunPlan { datagram: 400, ..RunPlan::lan(3) };
    let mut world = SimWorld::new(plan, RunOptions::default(), machines(&RunPlan::lan(3), Flaw::None));
    world.run_until(Instant(1_000_000));
    world.submit(CLIENT, Class::Client, Service::Safe, 500).unwrap();
    world.run_until(Instant(100_000_000));
    assert_eq!(world.totals().delivered, 0);
    let violations = world.finish().violations;
    assert!(violations.iter().any(|v| v.to_string().contains("do not fit a datagram of 400")), "{violations:?}");
}

#[test]
fn a_filter_decides_what_passes_and_the_protocol_repairs_it() {
    let plan = RunPlan::lan(3);
    let mut world = SimWorld::new(plan.clone(), RunOptions::default(), machines(&plan, Flaw::None));
    world.run_until(Instant(1_000_000));
    let dropped = Rc::new(Cell::new(0));
    let count = Rc::clone(&dropped);
    world.filter(move |frame| {
        assert_eq!(frame.lane, Lane::Data);
        let drop = frame.from == NodeId(0) && frame.to == NodeId(2) && frame.bytes.len() > 400 && count.get() == 0;
        count.set(count.get() + u32::from(drop));
        !drop
    });
    let mark = world.submit(CLIENT, Class::Client, Service::Safe, 500).unwrap();
    assert_eq!((mark.origin, mark.count), (CLIENT, 1));
    world.run_until(Instant(100_000_000));
    assert_eq!((dropped.get(), world.gauge(NodeId(2), "asked")), (1, 1));
    assert_eq!(world.totals().delivered, 3);
    assert_eq!(world.machine(NodeId(1)).engine().observed("store_packets"), 0);
    assert!(world.finish().violations.is_empty());
}

#[test]
fn a_message_that_finds_no_room_is_refused_and_does_not_count() {
    let plan = RunPlan::lan(3);
    let mut world = SimWorld::new(plan.clone(), RunOptions::default(), machines(&plan, Flaw::None));
    world.run_until(Instant(1_000_000));
    let answers: Vec<_> =
        (0..5).map(|_| world.submit(CLIENT, Class::Client, Service::Agreed, 30_000).map(|mark| mark.count)).collect();
    assert_eq!(answers, [Ok(1), Ok(2), Ok(3), Err(SubmitAnswer::Full), Err(SubmitAnswer::Full)]);
}

#[test]
fn late_hosts_start_late_and_lost_datagrams_are_counted() {
    let late = (1..50).map(|seed| plan(seed, "late")).find(|plan| !plan.faults.is_empty()).unwrap();
    let outcome = run(&late, Flaw::None);
    let fault = late.faults[0];
    let starts =
        |event: &&crate::trace::TraceEvent| matches!(event.what, Occurrence::Start { .. }) && event.at == fault.until;
    assert!(outcome.trace.unwrap().events.iter().any(|event| starts(&event)));
    assert_eq!(outcome.totals.faults, late.faults.len() as u64);
    assert_eq!(outcome.violations, []);
    assert!(run(&plan(4, "data-loss"), Flaw::None).mishaps > 0);
    assert_eq!(run(&plan(4, "none"), Flaw::None).mishaps, 0);
}

/// How many deliveries come of five messages of the sequencer's own node while a fault lasts.
fn delivered_while(fault: Fault) -> u64 {
    let activation = Activation { from: Instant(0), until: Instant(1_000_000_000), fault };
    let plan = RunPlan { faults: vec![activation], ..RunPlan::lan(3) };
    let mut world = SimWorld::new(plan.clone(), RunOptions::default(), machines(&plan, Flaw::None));
    world.run_until(Instant(1_000_000));
    for _ in 0..5 {
        world.submit(Process::new(NodeId(0), 5), Class::Client, Service::Agreed, 100).unwrap();
    }
    world.run_until(Instant(900_000_000));
    world.totals().delivered
}

#[test]
fn faults_that_look_at_a_datagram_take_just_those_they_name() {
    let scope = FaultScope::All;
    let numbered = 1; // what the sequencer puts first in a message that has its place
    assert_eq!(delivered_while(Fault::KindLoss { scope, kind: 0xee, p: 1.0 }), 15, "of a kind that nobody sends");
    assert!(delivered_while(Fault::KindLoss { scope, kind: numbered, p: 1.0 }) < 15);
    assert_eq!(delivered_while(Fault::Cut { scope, lanes: Lanes::Unicast }), 15, "it multicasts what has its place");
    assert!(delivered_while(Fault::Cut { scope, lanes: Lanes::Data }) < 15);
}

#[test]
fn a_stalled_host_does_nothing_until_the_stall_ends() {
    let stall = Fault::Stall { part: NodeSet(0b001) };
    let until = Instant(500_000_000);
    let plan =
        RunPlan { faults: vec![Activation { from: Instant(2_000_000), until, fault: stall }], ..RunPlan::lan(3) };
    let mut world = SimWorld::new(plan.clone(), RunOptions::default(), machines(&plan, Flaw::None));
    world.run_until(Instant(3_000_000));
    world.submit(CLIENT, Class::Client, Service::Agreed, 100).unwrap();
    world.run_until(Instant(499_000_000));
    let before = world.totals().delivered;
    world.run_until(Instant(600_000_000));
    assert!(before < 3 && world.totals().delivered == 3, "{before}");
}

/// At which millisecond a node leaves that a fault asks from the 200th on, while it is paused from the 100th on.
fn leaves_at(paused_until: u64, back: u64, stays: bool) -> Option<u64> {
    let ms = |ms: u64| Instant(ms * 1_000_000);
    let node = NodeId(1);
    let faults = vec![
        Activation { from: ms(100), until: ms(paused_until), fault: Fault::Pause { node } },
        Activation { from: ms(200), until: ms(back), fault: Fault::Leave { node, stays } },
    ];
    let trace = run(&RunPlan { faults, calm: ms(1_000), ..RunPlan::lan(3) }, Flaw::None).trace.unwrap();
    trace.events.iter().find(|event| event.what == Occurrence::Leave).map(|event| event.at.0 / 1_000_000)
}

#[test]
fn a_node_that_cannot_be_asked_to_leave_before_it_is_to_be_back_stays() {
    assert_eq!(leaves_at(150, 400, false), Some(200));
    assert_eq!(leaves_at(300, 400, false), Some(300), "it hears of it once it runs");
    assert_eq!(leaves_at(500, 400, false), None, "nothing would start it again");
    assert_eq!(leaves_at(500, 400, true), Some(500), "nothing is to start it again");
    // The calm may leave no time between the two.
    assert_eq!(leaves_at(150, 200, false), Some(200));
    assert_eq!(leaves_at(201, 200, false), None);
}

#[test]
fn hosts_of_two_stages_keep_every_promise_and_their_interfaces_drop_what_finds_no_room() {
    let on = |host: &dyn Fn(HostModel) -> HostModel| {
        let plan = plan(3, "none");
        let plan = RunPlan { host: host(plan.host.clone()), ..plan };
        let outcome = run(&plan, Flaw::None);
        assert_eq!(outcome.violations, []);
        (outcome.digest, outcome.mishaps)
    };
    let core = |ring| Some(CoreModel { datagram: Duration::from_micros(1), picos_per_byte: 100, ring });
    let one = on(&|host| host);
    let free = CoreModel { datagram: Duration::ZERO, picos_per_byte: 0, ring: usize::MAX };
    assert_eq!(
        on(&|host| HostModel { core: Some(free.clone()), ..host }),
        one,
        "a core that costs nothing changes nothing"
    );
    let two = on(&|host| HostModel { core: core(4_096), wake: Duration::from_micros(5), ..host });
    assert!(two.0 != one.0 && two.1 == 0, "{two:?}");
    let slow = CoreModel { datagram: Duration::from_millis(2), picos_per_byte: 0, ring: 1 };
    assert!(on(&|host| HostModel { core: Some(slow.clone()), ..host }).1 > 0);
}

#[test]
fn a_host_that_is_slow_for_two_reasons_is_as_slow_as_for_the_worse_one() {
    let delivered = |factors: &[u32]| {
        let mut plan = plan(3, "none");
        let slow =
            |&factor| Activation { from: Instant(0), until: plan.calm, fault: Fault::Slow { node: NodeId(0), factor } };
        plan.faults = factors.iter().map(slow).collect();
        let outcome = run(&plan, Flaw::None);
        assert_eq!(outcome.violations, []);
        let events = outcome.trace.unwrap().events.into_iter();
        let delivers = events.filter(|event| matches!(event.what, Occurrence::Deliver { .. }));
        delivers.map(|event| event.at).collect::<Vec<_>>()
    };
    let worse = delivered(&[20]);
    assert_eq!(delivered(&[20, 2]), worse);
    assert_eq!(delivered(&[2, 20]), worse);
    assert_ne!(delivered(&[2]), worse);
}

#[test]
fn whole_nodes_and_their_clients_keep_every_promise() {
    for seed in 1..=12 {
        let mut plan = lightened(RunPlan::draw_whole(seed, &Kinds::steady()));
        plan.senders[0].pace = SendPace::Burst { every: Duration::from_millis(700), most: 80 };
        let options = RunOptions { bounds: bounds(&plan), ..RunOptions::default() };
        let outcome = SimWorld::new(plan.clone(), options, whole_machines(&plan)).run();
        assert_eq!(outcome.violations, [], "seed {seed}");
        assert!(outcome.totals.accepted > 50, "seed {seed}: {:?}", outcome.totals);
    }
}

#[test]
fn the_story_tells_what_happened() {
    let plan = plan(6, "steady");
    let options = RunOptions { bounds: bounds(&plan), story: true, trace: false };
    let story = SimWorld::new(plan.clone(), options, machines(&plan, Flaw::Cut)).run().story.unwrap().text(true);
    for words in ["starts", "installs 2@n0.1", "another length than when it was submitted", "delivered"] {
        assert!(story.contains(words), "{words} is missing in\n{story}");
    }
}
