//! ToTo in the simulator: settings drawn by the seed, limits that its memory must keep.
use crate::Simulated;
use consort_member::Policy;
use consort_order::Engine;
use consort_sim::checkers::Bounds;
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::RunPlan;
use consort_toto::{Early, Phi, Toto, TotoConfig};
use consort_types::{Duration, Incarnation, NodeId, Rng};
use consort_wire::DatagramSize;

impl Simulated for Toto {
    type Config = TotoConfig;
    const HOLDS: Option<Holds<Self>> = None;
    const CLOSES_APART: bool = true;

    fn settings(plan: &RunPlan, whole: bool) -> TotoConfig {
        let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
        let mut rng = Rng::new(plan.seed).fork(0x7070);
        let mut config = TotoConfig::new(members[0], members);
        config.datagram = DatagramSize::new(plan.datagram).unwrap_or_default();
        config.timers = config.timers.scaled(plan.timers);
        config.phi = [Phi::Half, Phi::Half, Phi::Half, Phi::Percent(75), Phi::All][rng.below(5) as usize];
        config.ack_floor = rng.chance(0.2);
        config.early = if !whole && rng.chance(0.5) { Early::Causal } else { Early::No };
        config.window = [64, rng.between(1, 16)][rng.below(2) as usize];
        config.window_all = config.window * [u64::from(plan.nodes), rng.between(1, 4)][rng.below(2) as usize];
        config.ack_every = rng.between(1, 32);
        config.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
        config.queue_bytes = config.message_max * [1, 4, 64][rng.below(3) as usize];
        config.primary = crate::policy(plan, &mut rng);
        config.ack = rng.chance(0.5).then(|| Duration::from_micros(rng.between(100, 10_000)));
        if plan.shipped {
            let TotoConfig { me, members, datagram, primary, .. } = config;
            return TotoConfig { datagram, primary, ..TotoConfig::new(me, members) };
        }
        config
    }

    fn for_servers(config: TotoConfig) -> TotoConfig {
        TotoConfig { primary: Policy::Majority, ..config }
    }

    fn at(config: &TotoConfig, me: NodeId) -> TotoConfig {
        TotoConfig { me, ..config.clone() }
    }

    fn create(config: TotoConfig, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, whole);
        let n = u64::from(plan.nodes);
        let toto = Self::create(config.clone(), Incarnation(1))?;
        // Each member's window, what others acknowledge of it one by one, and a little that was acknowledged before.
        let packets = config.window * n * (n + 1) + 64 * n;
        let running = [
            ("store_packets", packets),
            ("store_bytes", packets * plan.datagram as u64),
            ("queued_bytes", 2 * (config.queue_bytes + config.message_max) as u64),
            ("assembly_bytes", n * 3 * config.message_max as u64),
        ];
        let quiet = ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes", "undecided", "unstable"];
        // None of its gauges counts what is repeated without need, and it does not tell which positions it holds.
        Ok(crate::bounds(plan, &toto.capability(), running, quiet, ["NR", "SF4"]))
    }

    fn suited(plan: RunPlan, whole: bool) -> RunPlan {
        let plan = crate::with_kinds(plan, 3);
        if Self::settings(&plan, whole).early == Early::Causal { named(plan) } else { plan }
    }
}

/// Messages too short for a name are told by their turn among their sender's, which they do not keep where some are
/// delivered before others: every message gets a name.
fn named(mut plan: RunPlan) -> RunPlan {
    for sender in &mut plan.senders {
        (sender.sizes.small, sender.sizes.empty, sender.sizes.tiny) = (sender.sizes.small.max(1), 0, 0);
    }
    plan
}
