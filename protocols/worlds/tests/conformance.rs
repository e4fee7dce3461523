//! Every engine by its own word: what its capability record says, it does; and one workload for all of them.
use crate::{plato, ring, toto};
use consort_order::{AcrossPartitions, Capability, Engine};
use consort_sim::checkers::{Bounds, PromisedOrder, Suite};
use consort_sim::machine::{Machine, SubmitAnswer};
use consort_sim::message::{HEADER, Mark, Process};
use consort_sim::plan::RunPlan;
use consort_sim::trace::{DeliveryRecord, Occurrence, Trace};
use consort_sim::world::{DatagramView, RunOptions as Keep, RunOutcome, SimWorld};
use consort_types::{Class, Duration, Incarnation, Instant, NodeId, Rng, Service};
use std::collections::{BTreeMap, BTreeSet};

const NODES: u16 = 4;
/// By when all are in one view, whatever orders.
const TOGETHER: Instant = Instant(2_000_000_000);

/// A world of whichever engine.
trait Lab {
    fn submit(&mut self, process: Process, service: Service, len: usize) -> Result<Mark, SubmitAnswer>;
    fn run_until(&mut self, end: Instant);
    fn filter(&mut self, filter: fn(DatagramView<'_>) -> bool);
    fn now(&self) -> Instant;
    fn finish(self: Box<Self>) -> RunOutcome;
}

impl<M: Machine> Lab for SimWorld<'_, M> {
    fn submit(&mut self, process: Process, service: Service, len: usize) -> Result<Mark, SubmitAnswer> {
        Self::submit(self, process, Class::Client, service, len)
    }

    fn run_until(&mut self, end: Instant) {
        Self::run_until(self, end);
    }

    fn filter(&mut self, filter: fn(DatagramView<'_>) -> bool) {
        Self::filter(self, filter);
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }

    fn finish(self: Box<Self>) -> RunOutcome {
        Self::finish(*self)
    }
}

/// An engine with its word, in a world that keeps its trace and judges by that word.
struct Tried {
    capability: Capability,
    lab: Box<dyn Lab>,
}

/// All there are, each on four nodes of a switched network.
fn all() -> [Tried; 3] {
    let plan = RunPlan { seed: 7, ..RunPlan::lan(NODES) };
    let keep = |capability: &Capability| Keep {
        bounds: Bounds { promised: PromisedOrder::of(capability), ..Bounds::default() },
        story: false,
        trace: true,
    };
    let life = Incarnation(1);
    let of_ring = consort_ring::Ring::new(ring::settings(&plan), life).unwrap().capability();
    let of_toto = consort_toto::Toto::new(toto::settings(&plan, true), life).unwrap().capability();
    let of_plato = consort_plato::Plato::new(plato::settings(&plan), life).unwrap().capability();
    let predicts = &|config: &mut consort_plato::PlatoConfig| config.prediction = consort_plato::Prediction::default();
    let ordered = &|config: &mut consort_toto::TotoConfig| config.early = consort_toto::Early::No;
    [
        Tried { lab: Box::new(ring::bare(plan.clone(), keep(&of_ring), &|_| {}).unwrap()), capability: of_ring },
        Tried { lab: Box::new(toto::bare(plan.clone(), keep(&of_toto), ordered).unwrap()), capability: of_toto },
        Tried { lab: Box::new(plato::bare(plan, keep(&of_plato), predicts).unwrap()), capability: of_plato },
    ]
}

/// Four nodes submit these, whatever the engine makes of it; one that has no room is asked again a little later.
fn feed(lab: &mut dyn Lab, seed: u64) -> BTreeSet<Mark> {
    let mut rng = Rng::new(seed);
    let mut accepted = BTreeSet::new();
    lab.run_until(TOGETHER);
    for _ in 0..400 {
        let process = Process::new(NodeId(rng.below(NODES.into()) as u16), 0);
        let service = if rng.chance(0.3) { Service::Safe } else { Service::Agreed };
        let len = HEADER + rng.below(3_000) as usize;
        while !matches!(lab.submit(process, service, len).map(|mark| accepted.insert(mark)), Ok(true)) {
            lab.run_until(lab.now() + Duration::from_millis(5));
        }
        lab.run_until(lab.now() + Duration::from_micros(rng.below(1_500)));
    }
    lab.run_until(lab.now() + Duration::from_secs(2));
    accepted
}

fn deliveries(trace: &Trace) -> impl Iterator<Item = (Process, &DeliveryRecord)> {
    trace.events.iter().filter_map(|event| match &event.what {
        Occurrence::Deliver(delivered) => Some((event.process, delivered)),
        _ => None,
    })
}

/// What each process was given, in its order.
fn orders(trace: &Trace) -> BTreeMap<Process, Vec<Mark>> {
    let mut orders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    deliveries(trace).for_each(|(process, delivered)| orders.entry(process).or_default().extend(delivered.mark));
    orders
}

#[test]
fn one_workload_gives_the_same_messages_by_every_engine_each_in_an_order_of_its_own() {
    for seed in 1..=3 {
        let mut fed = Vec::new();
        for Tried { mut lab, capability } in all() {
            let name = capability.protocol;
            let accepted = feed(&mut *lab, seed);
            let outcome = lab.finish();
            assert_eq!(outcome.violations, [], "{name}, seed {seed}");
            let orders = orders(&outcome.trace.unwrap());
            assert_eq!(orders.len(), usize::from(NODES), "{name}");
            let first = orders.values().next().unwrap();
            assert!(orders.values().all(|order| order == first), "{name}: all nodes deliver in one order");
            assert_eq!(first.len(), accepted.len(), "{name}: each once");
            assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), accepted, "{name}");
            fed.push(accepted);
        }
        assert!(fed.windows(2).all(|pair| pair[0] == pair[1]), "all were given the same");
    }
}

#[test]
fn every_level_of_the_record_is_delivered_as_that_level() {
    for Tried { mut lab, capability } in all() {
        lab.run_until(TOGETHER);
        let sent: BTreeMap<_, _> = capability
            .services
            .iter()
            .map(|service| (lab.submit(Process::new(NodeId(1), 0), *service, 50).unwrap(), *service))
            .collect();
        lab.run_until(lab.now() + Duration::from_secs(1));
        let outcome = lab.finish();
        assert_eq!(outcome.violations, [], "{}", capability.protocol);
        let trace = outcome.trace.unwrap();
        let got: BTreeSet<_> = deliveries(&trace).map(|(at, got)| (at, got.mark.unwrap(), got.service)).collect();
        assert_eq!(got.len(), sent.len() * usize::from(NODES), "{}: {got:?}", capability.protocol);
        assert!(got.iter().all(|(_, mark, service)| sent[mark] == *service), "{}: {got:?}", capability.protocol);
    }
}

#[test]
fn engines_that_are_optimistic_by_their_record_offer_and_no_others_do() {
    for Tried { mut lab, capability } in all() {
        feed(&mut *lab, 9);
        let trace = lab.finish().trace.unwrap();
        let count = |wanted: fn(&Occurrence) -> bool| trace.events.iter().filter(|event| wanted(&event.what)).count();
        let offers = count(|what| matches!(what, Occurrence::Offer(_)));
        let closed = count(|what| matches!(what, Occurrence::Revoke(_) | Occurrence::Confirm { .. }));
        assert_eq!(offers > 0, capability.optimistic, "{}: {offers} offers", capability.protocol);
        assert_eq!(offers, closed, "{}", capability.protocol);
    }
}

#[test]
fn a_minority_goes_on_where_the_record_says_so() {
    for Tried { mut lab, capability } in all() {
        lab.run_until(TOGETHER);
        lab.filter(|frame| (frame.from == NodeId(0)) == (frame.to == NodeId(0)));
        lab.run_until(lab.now() + Duration::from_secs(3));
        let alone = lab.submit(Process::new(NodeId(0), 0), Service::Safe, 50).unwrap();
        let others = lab.submit(Process::new(NodeId(2), 0), Service::Safe, 50).unwrap();
        lab.run_until(lab.now() + Duration::from_secs(1));
        let outcome = lab.finish();
        assert_eq!(outcome.violations, [], "{}", capability.protocol);
        let orders = orders(&outcome.trace.unwrap());
        let got = |node| orders.get(&Process::new(NodeId(node), 0)).cloned().unwrap_or_default();
        let expected = if capability.continues_in_minority { vec![alone] } else { vec![] };
        assert_eq!(got(0), expected, "{}", capability.protocol);
        assert!((1..NODES).all(|node| got(node) == [others]), "{}: {orders:?}", capability.protocol);
    }
}

#[test]
fn what_stands_in_the_record_decides_which_checkers_judge() {
    for Tried { capability, .. } in all() {
        let bounds = Bounds { promised: PromisedOrder::of(&capability), ..Bounds::default() };
        let judges = |id| Suite::new(bounds.clone()).rules().any(|rule| rule.id == id);
        assert_eq!(judges("TO3"), capability.across_partitions == AcrossPartitions::Evs, "{}", capability.protocol);
        assert!(["TO1", "TO1p", "VS", "GM", "OF"].into_iter().all(judges));
        assert!(
            !capability.quorum && !capability.durable,
            "no engine needs a quorum or a disk yet: judge it here then"
        );
    }
}
