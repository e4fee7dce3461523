//! Scenes of the ring: faults of the field, one at a time, while members talk, and what each may cost at most.
use super::{AT_ONCE, BEGIN, Play, Playable, Scene, ms, unless};
use crate::{Adjust, Simulated, ring};
use consort_ring::packet::RingPacket;
use consort_ring::{Ring, RingConfig};
use consort_sim::checkers::IdleWaits;
use consort_sim::fault::{Activation, CrashTarget, Disk, Fault, FaultScope, Lanes, NodeSet};
use consort_sim::machine::Bare;
use consort_sim::plan::RunPlan;
use consort_sim::world::{RunOptions as Keep, RunOutcome, SimWorld};
use consort_types::{Instant, NodeId, Service};

/// A scene, and what is judged beside the promises.
struct RingScene {
    scene: Scene<Ring>,
    faults: &'static [Activation],
    /// How many views may follow the one of all, at each process.
    changes: u32,
    /// Which waits are bounded.
    waits: Waits,
}

/// How long lone messages may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing is said of that.
    Unjudged,
    /// As long as where nothing is lost.
    Short,
    /// Until a token that rests goes round unasked: all requests or acknowledgements are lost (R30, R48).
    Held,
}

/// All scenes, with something adjusted in every node.
pub fn ring<'a>(adjust: Adjust<'a, Ring>, story: bool) -> impl Iterator<Item = Playable<'a>> {
    let playable = move |scene: &'static RingScene| -> Playable<'a> {
        (scene.scene.name, Box::new(move || scene.played(adjust, story)))
    };
    SCENES.iter().map(playable)
}

impl RingScene {
    fn played(&self, adjust: Adjust<'_, Ring>, story: bool) -> Result<RunOutcome, String> {
        let Self { scene, faults, changes, waits } = self;
        let mut plan = scene.plan();
        plan.shipped = true;
        plan.faults = faults.to_vec();
        let set = |config: &mut RingConfig| {
            (scene.adjust)(config);
            adjust(config);
        };
        let mut bounds = Ring::bounds(&plan, false)?;
        bounds.views.changes = Some(*changes);
        bounds.waits = bound(*waits, &plan);
        scene.judged(plan, Keep { bounds, story, trace: false }, &set)
    }
}

fn bound(waits: Waits, plan: &RunPlan) -> Option<IdleWaits> {
    let (clean, hold) = (ring::idle_waits(plan), Ring::settings(plan, false).timers.hold);
    match waits {
        Waits::Unjudged => None,
        Waits::Short => Some(clean),
        Waits::Held => Some(IdleWaits { agreed: clean.agreed + hold, safe: clean.safe + hold, ..clean }),
    }
}

type Stage<'a> = SimWorld<'a, Bare<Ring>>;

const fn from(at: u64, until: u64, fault: Fault) -> Activation {
    Activation { from: Instant(at * 1_000_000), until: Instant(until * 1_000_000), fault }
}

const fn unicast(a: u16, b: u16) -> Fault {
    Fault::Cut { scope: FaultScope::Between(NodeId(a), NodeId(b)), lanes: Lanes::Unicast }
}

const fn pause(node: u16) -> Fault {
    Fault::Pause { node: NodeId(node) }
}

const fn crash(node: u16, disk: Disk) -> Fault {
    Fault::Crash { node: NodeId(node), disk, after: 0, stays: false }
}

const fn scene(name: &'static str, nodes: u16, play: fn(&mut Stage<'_>)) -> Scene<Ring> {
    Scene { name, nodes, adjust: |_| {}, play }
}

const SCENES: &[RingScene] = &[
    RingScene {
        // The first grant is lost, and its ring with it: nobody can tell whether it was used (R47).
        scene: scene("stale-arp", 4, talk),
        faults: &[from(2_500, 9_500, unicast(0, 2))],
        changes: 1,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("stale-arp-to-successor", 4, talk),
        faults: &[from(2_500, 9_500, unicast(0, 1))],
        changes: 1,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("stale-arp-back", 4, talk),
        faults: &[from(2_500, 9_500, unicast(2, 0))],
        changes: 0,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("all-paused", 5, talk),
        faults: &[from(3_000, 4_000, Fault::Stall { part: NodeSet(u64::MAX) })],
        changes: 0,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("short-pauses", 3, talk),
        faults: &[
            from(3_000, 3_160, pause(1)),
            from(4_000, 4_250, pause(0)),
            from(5_000, 5_330, pause(2)),
            from(6_000, 6_330, pause(0)),
        ],
        changes: 0,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("pause-of-400-ms", 3, talk),
        faults: &[from(3_000, 3_400, pause(1))],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("pause-of-600-ms", 3, talk),
        faults: &[from(3_000, 3_600, pause(0))],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("pause-of-2-s", 5, talk),
        faults: &[from(3_000, 5_000, pause(0))],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("representative-crashes", 4, talk_of_others),
        faults: &[from(3_000, 5_000, crash(0, Disk::Kept))],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("borrower-crashes", 4, last_words),
        faults: &[from(3_000, 5_000, Fault::Aimed { target: CrashTarget::Granted, disk: Disk::Kept, after: 0 })],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("old-disk", 3, talk_of_others),
        faults: &[
            from(2_500, 3_000, crash(0, Disk::Kept)),
            from(4_000, 4_500, crash(0, Disk::Kept)),
            from(5_500, 6_000, crash(0, Disk::Kept)),
            from(7_000, 8_000, crash(0, Disk::Old)),
        ],
        changes: 8,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("good-bye", 4, talk_of_others),
        faults: &[from(3_000, 5_000, Fault::Leave { node: NodeId(0), stays: false })],
        changes: 2,
        waits: Waits::Unjudged,
    },
    RingScene {
        scene: scene("deaf", 4, talk),
        faults: &[from(2_500, 9_500, Fault::Cut { scope: FaultScope::To(NodeId(3)), lanes: Lanes::Data })],
        changes: 8,
        waits: Waits::Unjudged,
    },
    RingScene {
        // It hears who is there, but no messages: it is let in again after each quarantine.
        scene: scene("deaf-to-messages", 4, talk),
        faults: &[from(2_500, 9_500, Fault::KindLoss { scope: FaultScope::To(NodeId(3)), kind: 1, p: 1.0 })],
        changes: 8,
        waits: Waits::Unjudged,
    },
    RingScene { scene: scene("few-words", 4, say_now_and_then), faults: &[], changes: 0, waits: Waits::Short },
    RingScene { scene: scene("requests-lost", 4, requests_lost), faults: &[], changes: 0, waits: Waits::Held },
    RingScene {
        scene: scene("acknowledgements-lost", 4, acknowledgements_lost),
        faults: &[],
        changes: 0,
        waits: Waits::Held,
    },
];

/// All say something in turn, for seven seconds.
fn talk(world: &mut Stage<'_>) {
    say_in_turn(world, 0, 700);
}

/// All but the first do.
fn talk_of_others(world: &mut Stage<'_>) {
    say_in_turn(world, 1, 700);
}

fn say_in_turn(world: &mut Stage<'_>, least: u16, words: u16) {
    for word in 0..words {
        let node = least + word % (3 - least);
        world.say(node, if word % 5 == 0 { Service::Safe } else { Service::Agreed });
        world.pass(ms(10));
    }
}

/// While the token rests one says something, is granted the token, and crashes; the others go on.
fn last_words(world: &mut Stage<'_>) {
    world.pass(ms(1_100));
    world.say(2, Service::Agreed);
    for word in 0..40 {
        world.pass(ms(113));
        world.say([1, 3][word % 2], Service::Agreed);
    }
}

/// Nobody is heard that asks for the token.
fn requests_lost(world: &mut Stage<'_>) {
    world.decide(|_, _, packet| unless(matches!(packet, RingPacket::TokenRequest(_))));
    say_now_and_then(world);
}

/// Nobody is told what others hold but by the token.
fn acknowledgements_lost(world: &mut Stage<'_>) {
    world.decide(|_, _, packet| if matches!(packet, RingPacket::Ack(_)) { None } else { AT_ONCE });
    say_now_and_then(world);
}

fn say_now_and_then(world: &mut Stage<'_>) {
    for word in 0..60 {
        world.say(word % 4, if word % 2 == 0 { Service::Safe } else { Service::Agreed });
        world.pass(ms(97));
    }
}

/// Scenes begin in a ring that stands.
const _: () = assert!(BEGIN.0 <= 2_500 * 1_000_000);
