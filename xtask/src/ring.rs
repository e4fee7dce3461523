//! The ring in the simulator: settings drawn by the seed, limits that its memory must keep.
use consort_node::Limits;
use consort_ring::{Acceleration, Config, Idling, Priority, Ring, Windows};
use consort_sim::checkers::Bounds;
use consort_sim::machine::{Bare, Whole};
use consort_sim::message;
use consort_sim::plan::Plan;
use consort_types::{ClusterId, ConfigHash, Duration, GroupName, MemberId, Rng};
use consort_wire::{DatagramSize, Identity};

/// The settings of one run; all nodes share them.
pub fn settings(plan: &Plan) -> Config {
    let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
    let mut rng = Rng::new(plan.seed).fork(0x2196);
    let mut config = Config::new(members[0], members);
    config.datagram = DatagramSize::new(plan.datagram).unwrap_or_default();
    config.acceleration = if rng.chance(0.75) { Acceleration::Accelerated } else { Acceleration::Original };
    config.priority = if rng.chance(0.5) { Priority::Method1 } else { Priority::Method2 };
    config.starvation_guard = [None, Some(16), Some(1024)][rng.below(3) as usize];
    config.idling =
        Idling { rounds: rng.between(2, 4) as u8, linger: Duration::from_millis([0, 0, 0, 50][rng.below(4) as usize]) };
    config.windows = windows(plan, &mut rng);
    config.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
    config.queue_bytes = config.message_max * [1, 4, 64][rng.below(3) as usize];
    let share = plan.datagram as f64 / (plan.datagram + plan.host.overhead) as f64;
    config.receive_room = (plan.host.socket.min(1 << 30) as f64 * share) as usize;
    config
}

fn windows(plan: &Plan, rng: &mut Rng) -> Windows {
    match rng.below(4) {
        0 => Windows::default(),
        1 => Windows { store_bytes: 1600 * plan.datagram as u32, ..Windows::SPREAD },
        _ => {
            let personal = rng.between(1, 30) as u32;
            let global = personal * rng.between(1, 6) as u32;
            let store = global * rng.between(4, 12) as u32;
            Windows {
                personal,
                global,
                accelerated: rng.below(u64::from(personal) + 1) as u32,
                accelerated_from: rng.between(1, 5) as u32,
                store,
                store_bytes: store * plan.datagram as u32,
                ..Windows::default()
            }
        }
    }
}

/// The settings that a daemon has where its file says nothing.
pub fn defaults(config: &Config) -> Config {
    Config::new(config.me, config.members.clone())
}

/// Says what every node's settings are in the end.
pub type Adjust<'a> = &'a dyn Fn(&mut Config);

/// All nodes of the run, their engines alone.
///
/// # Errors
/// What is wrong with the settings.
pub fn bare(plan: &Plan, adjust: Adjust<'_>) -> Result<Vec<Bare<Ring>>, String> {
    let node = |(member, ring)| Bare::new(identity(member), ring, Some(Ring::holds));
    Ok(rings(plan, adjust)?.into_iter().map(node).collect())
}

/// All nodes of the run, with their clients.
///
/// # Errors
/// What is wrong with the settings.
pub fn whole(plan: &Plan, adjust: Adjust<'_>) -> Result<Vec<Whole<Ring>>, String> {
    let group = GroupName::new(b"all").map_err(|error| error.to_string())?;
    let mut rng = Rng::new(plan.seed).fork(0x11b175);
    let limits = Limits {
        message_max: message::LARGEST,
        credit: [16 << 10, 128 << 10, 512 << 10][rng.below(3) as usize],
        ..Limits::default()
    };
    let node = |(member, ring)| Whole::new(plan, identity(member), ring, limits, group.clone(), Some(Ring::holds));
    Ok(rings(plan, adjust)?.into_iter().map(node).collect())
}

fn rings(plan: &Plan, adjust: Adjust<'_>) -> Result<Vec<(MemberId, Ring)>, String> {
    let settings = settings(plan);
    let ring = |member: MemberId| {
        let mut config = Config { me: member.node, ..settings.clone() };
        adjust(&mut config);
        let ring = Ring::new(config, member.incarnation).map_err(|error| error.to_string())?;
        Ok((member, ring))
    };
    plan.members().into_iter().map(ring).collect()
}

fn identity(me: MemberId) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(1), me }
}

/// What the ring's gauges may show in a run.
pub fn bounds(plan: &Plan) -> Bounds {
    let config = settings(plan);
    let windows = config.windows;
    let ahead = u64::from(windows.store) + u64::from(windows.global) + u64::from(windows.personal);
    let running = [
        ("store_packets", ahead),
        ("store_bytes", ahead * plan.datagram as u64),
        ("queued_bytes", (config.queue_bytes + config.message_max) as u64),
        ("assembly_bytes", u64::from(plan.nodes) * 2 * config.message_max as u64),
    ];
    let quiet = ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes"];
    // A guard that soon takes the token reads it before data that has arrived, and asks for what waits in the socket.
    let is_patient = config.starvation_guard.is_none_or(|packets| packets >= 1024);
    let repetitions = ["requests_made", "retransmissions_sent"];
    Bounds {
        running: running.into(),
        quiet: quiet.map(|name| (name, 0)).into(),
        needless: if plan.keeps_order() && is_patient { repetitions.into() } else { [].into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::digest::Digest;
    use consort_sim::fault::Kinds;
    use consort_sim::world::{Options, World};
    use consort_types::Instant;

    /// Everything that the nodes of a run sent, delivered and installed, each with its time.
    fn digest(plan: &Plan, adjust: Adjust<'_>) -> Digest {
        let options = Options { bounds: bounds(plan), ..Options::default() };
        let outcome = World::new(plan.clone(), options, bare(plan, adjust).unwrap()).run();
        assert_eq!((outcome.violations, outcome.mishaps), (vec![], 0), "seed {}", plan.seed);
        outcome.digest
    }

    fn accelerated(config: &mut Config, window: u32) {
        config.acceleration = Acceleration::Accelerated;
        config.windows.accelerated = window.min(config.windows.personal);
        config.windows.accelerated_from = 1;
        config.priority = Priority::Method2;
        config.starvation_guard = None;
    }

    fn original(config: &mut Config) {
        accelerated(config, 0);
        config.acceleration = Acceleration::Original;
    }

    #[test]
    fn an_accelerated_window_of_zero_is_the_original_ring_packet_for_packet() {
        //= R32 test
        let plans = (1..80).map(|seed| {
            let plan = Plan::draw_bare(seed, &Kinds::none());
            Plan { calm: Instant(1_500_000_000), end: Instant(2_500_000_000), ..plan }
        });
        let plans: Vec<_> = plans.filter(|plan| plan.keeps_order() && plan.nodes > 1).take(12).collect();
        assert_eq!(plans.len(), 12);
        let mut differ = 0;
        for plan in &plans {
            let of_original = digest(plan, &original);
            assert_eq!(digest(plan, &|config| accelerated(config, 0)), of_original, "seed {}", plan.seed);
            differ += usize::from(digest(plan, &|config| accelerated(config, 8)) != of_original);
        }
        assert!(differ > 6, "a window of 8 must show: it did in {differ} of 12 runs");
    }

    #[test]
    fn a_seed_gives_one_run() {
        for seed in [1, 2] {
            let run = || crate::sim::run(seed, &Kinds::all(), &|_| {}, false).unwrap();
            let (first, second) = (run(), run());
            assert_eq!(first.violations, []);
            assert_eq!((first.digest, first.totals), (second.digest, second.totals));
        }
    }

    #[test]
    fn drawn_settings_are_valid_and_differ() {
        let settings: Vec<_> = (1..200).map(|seed| settings(&Plan::draw_bare(seed, &Kinds::all()))).collect();
        assert!(settings.iter().all(|config| config.validate().is_ok()));
        for acceleration in [Acceleration::Accelerated, Acceleration::Original] {
            assert!(settings.iter().any(|config| config.acceleration == acceleration));
        }
        for priority in [Priority::Method1, Priority::Method2] {
            assert!(settings.iter().any(|config| config.priority == priority));
        }
    }
}
