//! Totem's multiple rings in the simulator: rings drawn by the seed, in trees and in loops. All rings share the network; only their own nodes
//! read what is sent on them.
use crate::Simulated;
use consort_member::Policy;
use consort_multiring::{Config, MultiRing, RingNodes, RingNumber};
use consort_order::Engine;
use consort_ring::{Acceleration, IdleHold, RingConfig};
use consort_sim::checkers::Bounds;
use consort_sim::fault::Fault;
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::RunPlan;
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};
use consort_wire::DatagramSize;

/// The smallest datagram that has room for a ring's number.
const DATAGRAM: usize = DatagramSize::MIN + 24;

impl Simulated for MultiRing {
    type Config = Config;
    const HOLDS: Option<Holds<Self>> = None;

    fn settings(plan: &RunPlan, _whole: bool) -> Config {
        let mut rng = Rng::new(plan.seed).fork(0x6a7e);
        let mut rings = tree(plan.nodes, &mut rng);
        close_loops(plan.seed, &mut rings);
        let mut config = Config::new(NodeId(0), rings);
        config.ring.datagram = DatagramSize::new(plan.datagram.max(DATAGRAM)).unwrap_or_default();
        config.ring.primary = crate::policy(plan, &mut rng);
        let share = plan.datagram as f64 / (plan.datagram + plan.host.overhead) as f64;
        config.ring.receive_room = (plan.host.socket.min(1 << 30) as f64 * share) as usize;
        if !plan.shipped {
            config.timers_percent = plan.timers.clamp(100, 200);
            config.tell = Duration::from_millis(rng.between(1, 20));
            config.credit = [4 << 20, rng.between(4_096, 40_000) as usize][rng.below(2) as usize];
            config.ring.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
            config.ring.queue_bytes = config.ring.message_max * [1, 4, 64][rng.below(3) as usize];
            config.ring.acceleration =
                if rng.chance(0.75) { Acceleration::Accelerated } else { Acceleration::Original };
            config.ring.idling = IdleHold {
                rounds: rng.between(1, 4) as u8,
                linger: Duration::from_millis([0, 0, 0, 50][rng.below(4) as usize]),
            };
        }
        config
    }

    fn for_servers(config: Config) -> Config {
        Config { ring: RingConfig { primary: Policy::Majority, ..config.ring }, ..config }
    }

    fn at(config: &Config, me: NodeId) -> Config {
        Config { ring: RingConfig { me, ..config.ring.clone() }, ..config.clone() }
    }

    fn create(config: Config, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, whole);
        let multi = Self::create(config.clone(), Incarnation(1))?;
        let message_max = config.ring.message_max.min(message::LARGEST + 1024) as u64;
        let windows = config.ring.windows.largest();
        let ahead = u64::from(windows.store) + u64::from(windows.global) + u64::from(windows.personal);
        let rings = config.rings.len() as u64;
        // What is under way of all nodes, as TM23 says: once by the rings, and once more while a view is closed.
        let under_way = u64::from(plan.nodes) * (config.credit as u64 + message_max + 4096);
        let own = 2 * (config.ring.queue_bytes as u64 + config.ring.message_max as u64);
        let running = [
            ("store_packets", rings * ahead),
            ("store_bytes", rings * ahead * plan.datagram.max(DATAGRAM) as u64),
            ("queued_bytes", own + rings * (under_way + 2 * (message_max + (1 << 20)))),
            ("assembly_bytes", rings * u64::from(plan.nodes) * 2 * (message_max + 1024)),
            ("held_bytes", 2 * under_way),
        ];
        let quiet =
            ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes", "held_bytes", "waiting_messages"];
        // It does not tell which positions it holds.
        let mut bounds = crate::bounds(plan, &multi.capability(), running, quiet, ["NR", "SF4"]);
        // Whoever hears each other on the common network need not be joined by rings.
        bounds.views.spans = Vec::new();
        bounds.views.standstill = None;
        bounds.views.whole_by = bounds.views.whole_by.map(|_| WHOLE_BY);
        bounds.goodbye = bounds.goodbye.map(|_| GOODBYE);
        Ok(bounds)
    }

    fn suited(mut plan: RunPlan, whole: bool) -> RunPlan {
        plan.datagram = plan.datagram.max(DATAGRAM);
        let rings = Self::settings(&plan, whole).rings;
        let gateway = |node: NodeId| rings.iter().filter(|ring| ring.nodes.contains(&node)).count() > 1;
        for begun in &mut plan.faults {
            // Without one of them the others are parted for good.
            if let Fault::Crash { node, stays, .. } | Fault::Leave { node, stays } = &mut begun.fault {
                *stays &= !gateway(*node);
            }
        }
        crate::far_apart(plan)
    }
}

/// Rings of two to five nodes; each after the first shares one of its nodes with an earlier one.
fn tree(nodes: u16, rng: &mut Rng) -> Vec<RingNodes> {
    let mut rings: Vec<Vec<NodeId>> = Vec::new();
    let mut next = 0;
    while next < nodes {
        let many = rng.between(1, 4) as u16 + u16::from(rings.is_empty());
        let mut ring: Vec<_> = (next..(next + many).min(nodes)).map(NodeId).collect();
        if !rings.is_empty() {
            let earlier = &rings[rng.below(rings.len() as u64) as usize];
            ring.push(earlier[rng.below(earlier.len() as u64) as usize]);
        }
        next += many;
        rings.push(ring);
    }
    let numbered = (1..).zip(rings);
    numbered.map(|(number, nodes)| RingNodes { id: RingNumber(number), nodes, delay: Duration::ZERO }).collect()
}

/// In half of the runs some nodes stand in one ring more, so that there are several ways.
fn close_loops(seed: u64, rings: &mut [RingNodes]) {
    let mut rng = Rng::new(seed).fork(0x100b);
    for _ in 0..[0, 0, 1, 2][rng.below(4) as usize] {
        let from = &rings[rng.below(rings.len() as u64) as usize].nodes;
        let node = from[rng.below(from.len() as u64) as usize];
        let to = &mut rings[rng.below(rings.len() as u64) as usize].nodes;
        if !to.contains(&node) {
            to.push(node);
        }
    }
}

/// By when nodes that start together are in one view.
const WHOLE_BY: Instant = Instant(4_000_000_000);
/// Within what time a good-bye is heard: those behind a gateway that leaves must be missed first.
const GOODBYE: Duration = Duration::from_secs(3);
