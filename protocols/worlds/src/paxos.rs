//! Ring Paxos in the simulator: settings drawn by the seed, and faults that it is made for.
use crate::Simulated;
use consort_order::Engine;
use consort_paxos::{Config, Paxos, Storage};
use consort_sim::checkers::Bounds;
use consort_sim::fault::{Activation, Disk, Fault};
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::{RunPlan, Tears};
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};

/// A small `retain`.
const LITTLE: usize = 96 << 10;

impl Simulated for Paxos {
    type Config = Config;
    const HOLDS: Option<Holds<Self>> = None;

    fn settings(plan: &RunPlan, _whole: bool) -> Config {
        let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
        let mut rng = Rng::new(plan.seed).fork(0x7a05);
        let mut config = Config::new(members[0], members);
        let most = config.acceptors.len();
        config.acceptors.truncate([most, most, 3, 1][rng.below(4) as usize].min(most));
        config.storage = [Storage::Sync, Storage::Memory, Storage::Async][rng.below(3) as usize];
        // Runs are too short to fill what ships: with less they meet nodes that missed more than is retained.
        config.retain = [config.retain, LITTLE][rng.below(2) as usize];
        if !plan.shipped {
            config.window = [256, rng.between(1, 8) as usize][rng.below(2) as usize];
            config.values = [16, rng.between(1, 4) as usize][rng.below(2) as usize];
            config.value = [64 << 10, rng.between(1_024, 9_000) as usize][rng.below(2) as usize];
            config.credit = [config.credit, config.value * 2][rng.below(2) as usize];
            config.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
            config.queue_bytes = config.message_max * [1, 4, 64][rng.below(3) as usize];
        }
        config
    }

    fn lasts(config: &Config) -> bool {
        config.storage != Storage::Memory
    }

    fn for_servers(config: Config) -> Config {
        Config { retain: config.retain.max(LITTLE + 1), ..config }
    }

    fn at(config: &Config, me: NodeId) -> Config {
        Config { me, retain: retain(config, me), ..config.clone() }
    }

    fn create(config: Config, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, _whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, true);
        let paxos = Self::create(config.clone(), Incarnation(1))?;
        let value = config.value.max(config.message_max + 4);
        // What was taken before the budget was reached is still ordered; many nodes have more under way together.
        let under_way = (config.members.len() * config.credit.max(value)).max(2 << 20);
        let running = [
            ("queued_bytes", 2 * (config.queue_bytes + config.message_max + value * config.values) as u64),
            ("under_way_bytes", config.credit.max(value) as u64),
            ("open_instances", config.window as u64 + 2),
            ("retained_bytes", (4 * retain(&config, NodeId(1)) + under_way) as u64),
        ];
        let quiet = ["queued_bytes", "under_way_bytes", "open_instances"];
        // It repeats what is late, not only what is lost.
        Ok(crate::bounds(plan, &paxos.capability(), running, quiet, ["NR"]))
    }

    /// A plan whose disks tear, and in which no more acceptors ever forget than may: all but a majority of the others.
    fn suited(plan: RunPlan, whole: bool) -> RunPlan {
        let config = Self::settings(&plan, whole);
        suited(plan, &config)
    }
}

/// A plan as far as acceptors of these settings are made for it.
pub fn suited(mut plan: RunPlan, config: &Config) -> RunPlan {
    let mut rng = Rng::new(plan.seed).fork(0xf09e7);
    let mut forgetful = config.acceptors.clone();
    while forgetful.len() > config.acceptors.len() - config.quorum() {
        forgetful.swap_remove(rng.below(forgetful.len() as u64) as usize);
    }
    let keeps = |node: NodeId| config.is_acceptor(node) && !forgetful.contains(&node);
    // With `async` it is the process that crashes, or the machine: then the disk counts as lost.
    plan.tears = if config.storage == Storage::Async { Tears::Unwritten } else { Tears::Unsynced };
    // Whoever starts reads the log from its beginning: with less, runs end before some have read it.
    plan.network.rate = plan.network.rate.map(|rate| rate.max(1_000_000_000));
    plan.host.disk = Duration::from_micros(20);
    plan.faults.append(&mut plan.advice);
    plan.faults.sort_by_key(|begun| begun.from);
    plan.faults = plan.faults.into_iter().filter_map(|fault| suit(fault, config, &keeps)).collect();
    plan
}

/// By when acceptors have begun a log, unless some come late.
const SETTLED: Instant = Instant(2_000_000_000);

fn suit(mut begun: Activation, config: &Config, keeps: &dyn Fn(NodeId) -> bool) -> Option<Activation> {
    let memory = config.storage == Storage::Memory;
    let early = begun.from < SETTLED;
    match &mut begun.fault {
        // One that stops before its disk holds the log's name comes back like one that forgot.
        Fault::Crash { node, .. } | Fault::BadDisk { node } if early && keeps(*node) => return None,
        Fault::Aimed { .. } if early => return None,
        // A later incarnation must have a larger number: neither disk nor clock may tell it otherwise.
        Fault::Clock { .. } => return None,
        Fault::Crash { node, .. } if memory && keeps(*node) => return None,
        // A majority stays.
        Fault::Leave { node, .. } if keeps(*node) => return None,
        Fault::Aimed { .. } if memory => return None,
        Fault::Aimed { disk, .. } => *disk = Disk::Kept,
        Fault::Leave { node, stays } => *stays &= !config.is_acceptor(*node),
        Fault::Crash { node, disk, stays, .. } => {
            *stays &= !config.is_acceptor(*node);
            let lost = *disk != Disk::Kept && !keeps(*node);
            *disk = if lost { Disk::Lost } else { Disk::Kept };
        }
        _ => {}
    }
    Some(begun)
}

/// Where little is retained, every third node retains four times as much.
fn retain(config: &Config, node: NodeId) -> usize {
    let more = config.retain == LITTLE && node.0 % 3 == 1;
    config.retain * if more { 4 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::fault::Kinds;

    #[test]
    fn a_registry_advises_engines_that_heed_it_and_nothing_else_changes() {
        let told = |plan: &RunPlan| plan.faults.iter().filter(|a| matches!(a.fault, Fault::Advice { .. })).count();
        let mut seen = [0; 2];
        for seed in 1..60 {
            let [all, without] = ["all", "crash"].map(|kinds| kinds.parse::<Kinds>().unwrap());
            let plan = RunPlan::draw_whole(seed, &all);
            assert_eq!(told(&plan), 0);
            let advised = plan.advice.len();
            assert_eq!(told(&Paxos::suited(plan.clone(), true)), advised);
            let suited = Paxos::suited(plan, true);
            assert!(suited.faults.is_sorted_by_key(|begun| begun.from) && suited.advice.is_empty());
            assert!(RunPlan::draw_whole(seed, &without).advice.is_empty());
            seen[usize::from(advised > 0)] += 1;
        }
        assert!(seen.iter().all(|runs| *runs > 10), "{seen:?}");
    }
}
