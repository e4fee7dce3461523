//! Multi-Ring Paxos in the simulator: rings drawn by the seed, all with the same acceptors, and faults that it is made for.
use crate::Simulated;
use crate::paxos::suited;
use consort_multiring_paxos::{Config, MultiRingPaxos, Reads, Ring, RingId};
use consort_node::streams::{GroupStreams, StreamGroups};
use consort_order::Engine;
use consort_sim::checkers::Bounds;
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::RunPlan;
use consort_types::{Duration, Incarnation, NodeId, OrderStream, Rng};

/// What is retained where the log is to be trimmed: four times that holds what all nodes may have under way.
const ENOUGH: usize = 2 << 20;

impl Simulated for MultiRingPaxos {
    type Config = Config;
    const HOLDS: Option<Holds<Self>> = None;

    fn settings(plan: &RunPlan, whole: bool) -> Config {
        let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
        let mut rng = Rng::new(plan.seed).fork(0x3e2a);
        let mut acceptors = consort_paxos::Config::new(members[0], members.clone()).acceptors;
        let most = acceptors.len();
        acceptors.truncate([most, most, 3, 1][rng.below(4) as usize].min(most));
        let ring = |id| Ring { id: RingId(id), acceptors: acceptors.clone() };
        let rings: Vec<_> = (1..=rng.between(1, 4) as u8).map(ring).collect();
        let mut config = Config::new(members[0], members, rings);
        config.global = RingId(rng.between(1, config.rings.len() as u64) as u8);
        config.delta_t = Duration::from_millis(rng.between(1, 6));
        config.paxos.retain = [config.paxos.retain, ENOUGH][rng.below(2) as usize];
        // An engine by itself is handed messages for all rings at once.
        if whole && Rng::new(plan.seed).fork(0x9e4d5).chance(0.5) {
            config.reads = Reads::Groups;
        }
        if !plan.shipped {
            config.merge_bytes = [4 << 20, 20_000][rng.below(2) as usize];
            config.paxos.window = [256, rng.between(1, 8) as usize][rng.below(2) as usize];
            config.paxos.values = [16, rng.between(1, 4) as usize][rng.below(2) as usize];
            config.paxos.value = [64 << 10, rng.between(1_024, 9_000) as usize][rng.below(2) as usize];
            config.paxos.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
            config.paxos.queue_bytes = config.paxos.message_max * [1, 4, 64][rng.below(3) as usize];
        }
        config
    }

    fn at(config: &Config, me: NodeId) -> Config {
        let mut config = config.clone();
        config.paxos.me = me;
        config
    }

    fn create(config: Config, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, _whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, true);
        let multi = Self::create(config.clone(), Incarnation(1))?;
        let (paxos, rings) = (config.of_ring(&config.rings[0]), config.rings.len() as u64);
        let value = paxos.value.max(paxos.message_max + 4);
        let of_ring = 2 * (paxos.queue_bytes + paxos.message_max + value * paxos.values) as u64;
        let own = 2 * (config.paxos.queue_bytes + config.paxos.message_max) as u64 + of_ring;
        let running = [
            ("queued_bytes", own + rings * of_ring),
            ("under_way_bytes", rings * paxos.credit.max(value) as u64),
            ("open_instances", rings * (paxos.window as u64 + 3)),
            ("retained_bytes", rings * (4 * paxos.retain + (2 << 20)) as u64),
            ("turn_waiting_bytes", 2 * plan.members().len() as u64 * config.paxos.credit as u64),
            ("merge_waiting_bytes", rings * (config.merge_bytes.max(value + 1024) as u64)),
        ];
        let quiet = ["queued_bytes", "under_way_bytes", "merge_waiting_bytes", "turn_waiting_bytes"];
        // It repeats what is late, not only what is lost.
        Ok(crate::bounds(plan, &multi.capability(), running, quiet, ["NR"]))
    }

    fn streams(config: &Config) -> u16 {
        config.rings.len() as u16
    }

    /// One ring has groups by name, the others share the rest, and the one of the views is global.
    fn group_streams(config: &Config) -> GroupStreams {
        let named = config.rings.iter().map(|ring| ring.id).find(|ring| *ring != config.global);
        let stream = |ring: &Ring| StreamGroups {
            stream: OrderStream(ring.id.0.into()),
            name: ring.id.to_string(),
            patterns: if named == Some(ring.id) { vec!["few1".into(), "many*".into()] } else { Vec::new() },
            global: ring.id == config.global,
        };
        GroupStreams::new(config.rings.iter().map(stream).collect())
    }

    fn suited(plan: RunPlan, whole: bool) -> RunPlan {
        let config = Self::settings(&plan, whole);
        suited(plan, &config.of_ring(&config.rings[0]))
    }
}
