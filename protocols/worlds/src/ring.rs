//! The ring in the simulator: settings drawn by the seed, limits that its memory must keep.
use crate::Simulated;
use consort_member::Policy;
use consort_member::Quarantine;
use consort_ring::{Acceleration, IdleHold, Priority, Ring, RingConfig, RingTimeouts, WindowTuning, Windows};
use consort_sim::checkers::{Bounds, Calmness, IdleWaits, PromisedOrder};
use consort_sim::machine::Holds;
use consort_sim::message;
use consort_sim::plan::{LifeSigns, RunPlan};
use consort_types::{Duration, Incarnation, Instant, NodeId, Rng};
use consort_wire::DatagramSize;

impl Simulated for Ring {
    type Config = RingConfig;
    const HOLDS: Option<Holds<Self>> = Some(Self::holds_in);

    fn settings(plan: &RunPlan, _whole: bool) -> RingConfig {
        let members: Vec<_> = plan.members().into_iter().map(|member| member.node).collect();
        let mut rng = Rng::new(plan.seed).fork(0x2196);
        let mut config = RingConfig::new(members[0], members);
        config.timers = timers(&config.timers, plan.timers);
        config.datagram = DatagramSize::new(plan.datagram).unwrap_or_default();
        config.acceleration = if rng.chance(0.75) { Acceleration::Accelerated } else { Acceleration::Original };
        config.priority = if rng.chance(0.5) { Priority::Method1 } else { Priority::Method2 };
        config.starvation_guard = [None, Some(16), Some(1024)][rng.below(3) as usize];
        config.idling = IdleHold {
            rounds: rng.between(1, 4) as u8,
            linger: Duration::from_millis([0, 0, 0, 50][rng.below(4) as usize]),
        };
        config.windows = windows(plan, &mut rng);
        config.message_max = message::LARGEST + 1024; // groups stand before a client's bytes
        config.queue_bytes = config.message_max * [1, 4, 64][rng.below(3) as usize];
        let share = plan.datagram as f64 / (plan.datagram + plan.host.overhead) as f64;
        config.primary = crate::policy(plan, &mut rng);
        config.receive_room = (plan.host.socket.min(1 << 30) as f64 * share) as usize;
        if plan.shipped {
            RingConfig { primary: config.primary.clone(), receive_room: config.receive_room, ..defaults(&config) }
        } else {
            config
        }
    }

    fn suited(plan: RunPlan, _whole: bool) -> RunPlan {
        crate::far_apart(plan)
    }

    fn for_servers(config: RingConfig) -> RingConfig {
        RingConfig { primary: Policy::Majority, ..config }
    }

    fn at(config: &RingConfig, me: NodeId) -> RingConfig {
        RingConfig { me, ..config.clone() }
    }

    fn create(config: RingConfig, incarnation: Incarnation) -> Result<Self, String> {
        Self::new(config, incarnation).map_err(|error| error.to_string())
    }

    fn bounds(plan: &RunPlan, whole: bool) -> Result<Bounds, String> {
        let config = Self::settings(plan, whole);
        let windows = config.windows.largest();
        let message_max = config.message_max.min(message::LARGEST + 1024);
        let ahead = u64::from(windows.store) + u64::from(windows.global) + u64::from(windows.personal);
        let running = [
            ("store_packets", ahead),
            ("store_bytes", ahead * plan.datagram as u64),
            ("queued_bytes", 2 * (config.queue_bytes + config.message_max) as u64),
            ("assembly_bytes", u64::from(plan.nodes) * 2 * message_max as u64),
            ("delivery_slice_max_bytes", TOLD_AT_ONCE + 4 * message_max as u64),
        ];
        let quiet = ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes"];
        // A guard that soon takes the token reads it before data that has arrived, and asks for what waits in the socket.
        let is_patient = config.starvation_guard.is_none_or(|packets| packets >= 1024);
        let repetitions = ["requests_made", "retransmissions_sent"];
        Ok(Bounds {
            promised: PromisedOrder::default(),
            running: running.into(),
            quiet: quiet.map(|name| (name, 0)).into(),
            needless: if plan.keeps_order() && is_patient { repetitions.into() } else { [].into() },
            views: Calmness {
                nodes: plan.nodes,
                whole_by: plan.faults.is_empty().then(|| whole_by(plan)),
                changes: (plan.nodes > 1 && plan.is_gentle(LifeSigns::Token)).then_some(0),
                spans: plan.constant_spans(LifeSigns::Token),
                standstill: Some(standstill(&config.timers)),
            },
            waits: plan.faults.is_empty().then(|| IdleWaits { from: whole_by(plan), ..idle_waits(plan) }),
            disks_last: plan.keeps_disks(),
            goodbye: plan.is_polite().then_some(config.timers.token_loss * 2 / 3),
            retained: None,
            unseen: [].into(),
        })
    }
}

/// How long members that hear each other may order nothing: whoever was kept out before comes back in that time, too.
fn standstill(timers: &RingTimeouts) -> Duration {
    let patience = timers.token_loss + timers.consensus;
    (patience * STANDSTILL).max(Quarantine::FIRST + patience * 2)
}

/// These timers at so many percent.
fn timers(timers: &RingTimeouts, percent: u32) -> RingTimeouts {
    let scaled = |span: Duration| span * percent / 100;
    RingTimeouts {
        token_retransmit: scaled(timers.token_retransmit),
        token_retransmit_idle: scaled(timers.token_retransmit_idle),
        token_loss: scaled(timers.token_loss),
        hold: scaled(timers.hold),
        hold_cancel: scaled(timers.hold_cancel),
        join: scaled(timers.join),
        consensus: scaled(timers.consensus),
        beacon: scaled(timers.beacon),
        recovery_max: scaled(timers.recovery_max),
        leave: scaled(timers.leave),
        ..*timers
    }
}

fn windows(plan: &RunPlan, rng: &mut Rng) -> Windows {
    match rng.below(4) {
        0 => Windows::default(),
        1 => Windows { store_bytes: 1600 * plan.datagram as u32, ..Windows::SPREAD },
        _ => {
            let personal = rng.between(1, 30) as u32;
            let global = personal * rng.between(1, 6) as u32;
            let store = global * rng.between(4, 12) as u32;
            let tuning = tuning(plan, personal);
            let grown = tuning.map_or(1, |tuning| tuning.most.div_ceil(personal));
            let store = store * grown;
            Windows {
                personal,
                global,
                accelerated: rng.below(u64::from(personal) + 1) as u32,
                accelerated_from: rng.between(1, 5) as u32,
                store,
                store_bytes: store * plan.datagram as u32,
                tuning,
                ..Windows::default()
            }
        }
    }
}

/// Every other run of those with windows of their own tunes them, between bounds of its own.
fn tuning(plan: &RunPlan, personal: u32) -> Option<WindowTuning> {
    let mut rng = Rng::new(plan.seed).fork(0x7e4e);
    let (least, most) = (rng.between(1, u64::from(personal)), u64::from(personal) * rng.between(1, 3));
    let brisk = Duration::from_millis(rng.between(1, 20));
    rng.chance(0.5).then_some(WindowTuning { least: least as u32, most: most as u32, brisk })
}

/// The settings that a daemon has where its file says nothing.
pub fn defaults(config: &RingConfig) -> RingConfig {
    RingConfig { datagram: config.datagram, ..RingConfig::new(config.me, config.members.clone()) }
}

/// How long waits are in a ring in which nothing is lost, by its timers and how long a rotation takes.
pub fn idle_waits(plan: &RunPlan) -> IdleWaits {
    let timers = Ring::settings(plan, false).timers;
    let rotation = rotation(plan);
    let agreed = rotation * 4 + SLACK;
    //= R30 test
    //= R48 test
    let safe = agreed + rotation * 4 + timers.hold / 25;
    //= R29 test
    let round = timers.hold + rotation * 4 + SAMPLE + SLACK;
    IdleWaits { from: Instant::ZERO, agreed, safe, counter: Some(("visits", round)) }
}

/// How long a token takes once round.
fn rotation(plan: &RunPlan) -> Duration {
    let link = &plan.network.token;
    (link.delay + link.jitter + HOP) * u32::from(plan.nodes)
}

/// By when nodes that start together are one ring, which its commit token goes round twice.
fn whole_by(plan: &RunPlan) -> Instant {
    Instant::ZERO + FOUND_WITHIN * plan.timers.max(100) / 100 + rotation(plan) * 3
}

/// What a token spends at one member that has a packet to send.
const HOP: Duration = Duration::from_micros(300);
/// What hosts add to a wait.
const SLACK: Duration = Duration::from_millis(5);
/// Counters are looked at so often.
const SAMPLE: Duration = Duration::from_millis(20);
/// So many bytes are told between two looks at the token, and a message's that is copied for a few clients.
const TOLD_AT_ONCE: u64 = 300 << 10;
/// By when nodes that start together have heard each other and agree.
const FOUND_WITHIN: Duration = Duration::from_millis(120);
/// For how many times the patience with a lost token members that hear each other may order nothing.
const STANDSTILL: u32 = 4;
