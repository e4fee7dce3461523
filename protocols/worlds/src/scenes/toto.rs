//! Scenes of ToTo, and of the view-synchronous membership under it.
use super::{AT_ONCE, Play, Playable, Scene, ms, unless};
use crate::Adjust;
use consort_sim::machine::Bare;
use consort_sim::world::{RunOutcome, SimWorld};
use consort_toto::packet::TotoPacket;
use consort_toto::{Toto, TotoConfig, vs};
use consort_types::{NodeId, Service};

/// All scenes, with something adjusted in every node.
pub fn toto<'a>(adjust: Adjust<'a, Toto>, story: bool) -> impl Iterator<Item = Playable<'a>> {
    let playable = move |scene: &'static Scene<Toto>| -> Playable<'a> {
        (scene.name, Box::new(move || played(scene, adjust, story)))
    };
    SCENES.iter().map(playable)
}

fn played(scene: &Scene<Toto>, adjust: Adjust<'_, Toto>, story: bool) -> Result<RunOutcome, String> {
    let set = |config: &mut TotoConfig| {
        *config = TotoConfig { me: config.me, ..TotoConfig::new(config.me, config.members.clone()) };
        (scene.adjust)(config);
        adjust(config);
    };
    scene.played(&set, story)
}

type Stage<'a> = SimWorld<'a, Bare<Toto>>;

const SCENES: &[Scene<Toto>] = &[
    Scene { name: "late-words", nodes: 4, adjust: |_| {}, play: late_words },
    Scene { name: "parked-words", nodes: 4, adjust: |_| {}, play: parked_words },
    Scene { name: "one-knows-more", nodes: 5, adjust: |_| {}, play: one_knows_more },
];

/// Whether it ends the taking in of packets.
const fn is_plan(packet: &TotoPacket) -> bool {
    matches!(packet, TotoPacket::Member(vs::MembershipPacket::Plan(_)))
}

/// What the dead member said comes to one member only, after that has told what it holds and before all know it.
fn late_words(world: &mut Stage<'_>) {
    world.decide(|from, to, packet| match packet {
        TotoPacket::Message(message) if message.sender == 3 => (from == 3 && to == 0).then_some(ms(260)),
        TotoPacket::Member(vs::MembershipPacket::Told { .. }) => Some(ms(100)),
        _ => AT_ONCE,
    });
    world.say(3, Service::Agreed);
    world.kill(NodeId(3));
    world.pass(ms(1_000));
}

/// Of two messages of the dead member, one lacks the first, and alone has the second.
fn parked_words(world: &mut Stage<'_>) {
    let mut frozen = false;
    world.decide(move |from, to, packet| {
        frozen |= is_plan(packet);
        match packet {
            TotoPacket::Message(message) if from == 3 => unless((message.k == 1) == (to == 0)),
            TotoPacket::Nak(_) => unless(!frozen),
            _ => AT_ONCE,
        }
    });
    world.say(3, Service::Agreed);
    world.say(3, Service::Agreed);
    world.kill(NodeId(3));
    world.pass(ms(1_000));
}

/// One lacks a safe message until it has told what it holds, and alone has heard that the dead one held it.
fn one_knows_more(world: &mut Stage<'_>) {
    let mut frozen = false;
    world.decide(move |from, to, packet| {
        frozen |= is_plan(packet);
        match packet {
            TotoPacket::Message(message) if message.sender == 1 && to == 2 => unless(!frozen),
            TotoPacket::Message(_) | TotoPacket::Status(_) if from == 3 => unless(to != 2),
            TotoPacket::Nak(_) => unless(!frozen),
            _ => AT_ONCE,
        }
    });
    world.say(1, Service::Safe);
    world.pass(ms(60));
    world.kill(NodeId(3));
    world.pass(ms(1_000));
}
