//! Scenes of PLATO: mostly, how a view ends that has lost its sequencer.
use super::{AT_ONCE, Play, Playable, Scene, ms, unless, us};
use crate::Adjust;
use consort_member::{Policy, vs};
use consort_plato::{Plato, PlatoConfig, PlatoPacket, Prediction, Sequencing, StreamContent, StreamPacket};
use consort_sim::machine::Bare;
use consort_sim::world::{RunOutcome, SimWorld};
use consort_types::{NodeId, Service};

/// All scenes, with something adjusted in every node.
pub fn plato<'a>(adjust: Adjust<'a, Plato>, story: bool) -> impl Iterator<Item = Playable<'a>> {
    let playable = move |scene: &'static Scene<Plato>| -> Playable<'a> {
        (scene.name, Box::new(move || played(scene, adjust, story)))
    };
    SCENES.iter().map(playable)
}

fn played(scene: &Scene<Plato>, adjust: Adjust<'_, Plato>, story: bool) -> Result<RunOutcome, String> {
    let set = |config: &mut PlatoConfig| {
        *config = PlatoConfig { me: config.me, ..PlatoConfig::new(config.me, config.members.clone()) };
        config.prediction = Prediction::Fixed(us(100));
        config.sequencing = Sequencing { every: 2, within: Some(ms(5)) };
        (scene.adjust)(config);
        adjust(config);
    };
    scene.played(&set, story)
}

type Stage<'a> = SimWorld<'a, Bare<Plato>>;

const SCENES: &[Scene<Plato>] = &[
    Scene { name: "a-single-word", nodes: 3, adjust: |_| {}, play: a_single_word },
    Scene { name: "one-knows-the-places", nodes: 4, adjust: |_| {}, play: one_knows_the_places },
    Scene { name: "gaps", nodes: 4, adjust: |_| {}, play: gaps },
    Scene { name: "effect-without-cause", nodes: 4, adjust: |_| {}, play: effect_without_cause },
    Scene { name: "one-knows-more", nodes: 4, adjust: |_| {}, play: one_knows_more },
    Scene {
        name: "primary-too-late",
        nodes: 3,
        adjust: |config| config.primary = Policy::Majority,
        play: primary_too_late,
    },
];

const fn is_plan(packet: &PlatoPacket) -> bool {
    matches!(packet, PlatoPacket::Membership(vs::MembershipPacket::Plan(_)))
}

const fn is_places(packet: &PlatoPacket) -> bool {
    matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Orders { .. }, .. }))
}

/// Nobody says anything more, so no list of places fills.
fn a_single_word(world: &mut Stage<'_>) {
    world.say(2, Service::Agreed);
    world.pass(ms(1_000));
}

/// The sequencer dies, and one alone has heard its last places.
fn one_knows_the_places(world: &mut Stage<'_>) {
    world.decide(|from, to, packet| unless(from == 0 && is_places(packet) && to != 2));
    for node in [3, 2, 1] {
        world.say(node, Service::Agreed);
        world.pass(us(400));
    }
    world.kill(NodeId(0));
    world.pass(ms(1_000));
}

/// Of three packets of one that dies one survivor lacks the first, another the last.
fn gaps(world: &mut Stage<'_>) {
    let mut frozen = false;
    world.decide(move |from, to, packet| {
        frozen |= is_plan(packet);
        match packet {
            PlatoPacket::Data(data) if from == 3 => unless(to == 0 || [(1, 1), (2, 3)].contains(&(to, data.key.seq))),
            PlatoPacket::Request(_) => unless(!frozen),
            _ => AT_ONCE,
        }
    });
    for _ in 0..3 {
        world.say(3, Service::Agreed);
        world.pass(us(400));
    }
    world.kill(NodeId(0));
    world.kill(NodeId(3));
    world.pass(ms(1_000));
}

/// The one that lives on has heard an answer, but neither the question nor its place.
fn effect_without_cause(world: &mut Stage<'_>) {
    world.decide(|from, to, packet| unless(to == 1 && (from == 3 || is_places(packet))));
    world.say(3, Service::Agreed);
    world.say(3, Service::Agreed);
    world.pass(ms(2));
    world.say(2, Service::Agreed);
    world.pass(us(500));
    [0, 2, 3].into_iter().for_each(|node| world.kill(NodeId(node)));
    world.pass(ms(1_000));
}

/// One lacks a safe message until it has told what it holds, and alone has heard that the dead one held it.
fn one_knows_more(world: &mut Stage<'_>) {
    let mut frozen = false;
    world.decide(move |from, to, packet| {
        frozen |= is_plan(packet);
        match packet {
            PlatoPacket::Data(data) if data.key.origin == NodeId(1) => unless(to == 2 && !frozen),
            PlatoPacket::Request(_) => unless(!frozen),
            PlatoPacket::Status(_) => unless(from == 3 && to != 2),
            _ => AT_ONCE,
        }
    });
    world.say(1, Service::Safe);
    world.pass(ms(40));
    world.kill(NodeId(3));
    world.pass(ms(1_000));
}

/// The event that makes a view primary gets no place before the view ends.
fn primary_too_late(world: &mut Stage<'_>) {
    world.kill(NodeId(2));
    world.decide(|_, _, packet| unless(is_places(packet)));
    world.pass(ms(400));
    world.kill(NodeId(0));
    world.pass(ms(1_000));
}
