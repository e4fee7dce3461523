//! Every engine by its own word: what its capability record says, it does; and one workload for all of them.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_order::{AcrossPartitions, Capability, Offers};
use consort_plato::{Plato, Prediction};
use consort_ring::Ring;
use consort_sim::checkers::{Bounds, PromisedOrder, Suite};
use consort_sim::machine::{Machine, SubmitAnswer};
use consort_sim::message::{HEADER, Mark, Process};
use consort_sim::plan::RunPlan;
use consort_sim::trace::{DeliveryRecord, Occurrence, Trace};
use consort_sim::world::{DatagramView, RunOptions as Keep, RunOutcome, SimWorld};
use consort_toto::{Early, Toto};
use consort_types::{Class, Duration, Incarnation, Instant, NodeId, Rng, Service};
use consort_worlds::{Adjust, Simulated, bare};
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
    let predicts: Adjust<'_, Plato> = &|config| config.prediction = Prediction::default();
    let ordered: Adjust<'_, Toto> = &|config| config.early = Early::No;
    [tried::<Ring>(&|_| {}), tried::<Toto>(ordered), tried::<Plato>(predicts)]
}

fn tried<E: Simulated>(adjust: Adjust<'static, E>) -> Tried {
    let plan = RunPlan { seed: 7, ..RunPlan::lan(NODES) };
    let capability = E::create(E::settings(&plan, true), Incarnation(1)).unwrap().capability();
    let bounds = Bounds { promised: PromisedOrder::of(&capability), ..Bounds::default() };
    let world = bare::<E>(plan, Keep { bounds, story: false, trace: true }, adjust).unwrap();
    Tried { lab: Box::new(world), capability }
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
        assert_eq!(offers > 0, capability.offers == Offers::Likely, "{}: {offers} offers", capability.protocol);
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
