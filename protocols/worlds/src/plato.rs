//! PLATO in the simulator: settings drawn by the seed, limits that its memory must keep.
use crate::Simulated;
use consort_member::Policy;
use consort_order::Engine;
use consort_plato::{Plato, PlatoConfig, Prediction, Sequencing, Window};
use consort_sim::checkers::Bounds;
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::RunPlan;
use consort_types::{Duration, Incarnation, NodeId, Rng};
use consort_wire::DatagramSize;

impl Simulated for Plato {
    type Config = PlatoConfig;
    const HOLDS: Option<Holds<Self>> = Some(Self::holds_in);

    fn settings(plan: &RunPlan, _whole: bool) -> PlatoConfig {
        let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
        let mut rng = Rng::new(plan.seed).fork(0x91a70);
        let mut config = PlatoConfig::new(members[0], members);
        config.datagram = DatagramSize::new(plan.datagram).unwrap_or_default();
        config.membership = config.membership.scaled(plan.timers);
        config.sequencing = Sequencing {
            every: [1, 10, 25, rng.between(1, 40) as u32][rng.below(4) as usize],
            within: rng.chance(0.5).then(|| Duration::from_micros(rng.between(200, 10_000))),
        };
        config.prediction = prediction(&mut rng);
        let packets = [256, rng.between(1, 32) as u32][rng.below(2) as usize];
        config.window = Window { packets, bytes: packets * plan.datagram as u32 };
        config.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
        config.queue_bytes = config.message_max * [1, 4, 64][rng.below(3) as usize];
        config.primary = crate::policy(plan, &mut rng);
        if plan.shipped {
            let PlatoConfig { me, members, datagram, primary, .. } = config;
            return PlatoConfig { datagram, primary, ..PlatoConfig::new(me, members) };
        }
        config
    }

    fn for_servers(config: PlatoConfig) -> PlatoConfig {
        PlatoConfig { primary: Policy::Majority, ..config }
    }

    fn at(config: &PlatoConfig, me: NodeId) -> PlatoConfig {
        PlatoConfig { me, ..config.clone() }
    }

    fn create(config: PlatoConfig, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, _whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, true);
        let n = u64::from(plan.nodes);
        let plato = Self::create(config.clone(), Incarnation(1))?;
        // Each member's window, and the sequencer's packets of places for all of them; some more is believed behind gaps.
        let packets = n * (u64::from(config.window.packets) * (n + 1) + 64);
        let running = [
            ("store_packets", packets),
            ("store_bytes", packets * plan.datagram as u64),
            ("packets_undelivered", packets),
            ("queued_bytes", 2 * (config.queue_bytes + config.message_max) as u64),
            ("assembly_bytes", n * 2 * config.message_max as u64),
        ];
        let quiet =
            ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes", "packets_undelivered", "places_awaited"];
        // None of its gauges counts what is repeated without need.
        Ok(crate::bounds(plan, &plato.capability(), running, quiet, ["NR"]))
    }

    fn suited(plan: RunPlan, _whole: bool) -> RunPlan {
        crate::with_kinds(plan, 5)
    }
}

/// Nothing offered, everything offered, and what lies between.
fn prediction(rng: &mut Rng) -> Prediction {
    match rng.below(6) {
        0 => Prediction::Off,
        1 => Prediction::Fixed(Duration::ZERO),
        2 => Prediction::Fixed(Duration::from_micros(rng.between(10, 2_000))),
        3 => Prediction::paper(),
        _ => Prediction::default(),
    }
}
