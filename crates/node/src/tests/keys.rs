//! A key is adopted by all nodes at one place, and whoever asked is told what became of it.
use super::*;
use crate::{KeyName, Notice};
use consort_session::{RotationRefusalCause, RotationStatus};
use consort_types::Duration;

fn names(epochs: &[u16]) -> Vec<KeyName> {
    epochs.iter().map(|epoch| KeyName { epoch: *epoch, fingerprint: 7 }).collect()
}

/// Three nodes that hold keys of these epochs each, and an owner's client of the first.
fn world(held: [&[u16]; 3]) -> (World, usize) {
    let mut world = World::new(3, Limits::default());
    for (node, epochs) in world.nodes.iter_mut().zip(held) {
        node.hold_keys(names(epochs));
    }
    let owner = world.connect(0, "owner");
    let id = world.programs[owner].id;
    world.nodes[0].note_owner(id);
    (world, owner)
}

fn rotate(world: &mut World, program: usize) -> RotationStatus {
    world.programs[program].client.rotate();
    world.settle();
    let told = world.programs[program].events.iter().rev().find_map(|event| match event {
        DaemonEvent::Rotated(status) => Some(status.clone()),
        _ => None,
    });
    told.expect("it is answered")
}

#[test]
fn all_nodes_are_told_to_take_it_and_then_to_seal_with_it() {
    //= K03 test
    //= K04 test
    let (mut world, owner) = world([&[1, 2], &[1, 2], &[1, 2]]);
    assert_eq!(rotate(&mut world, owner), RotationStatus { epoch: 2, refused: None });
    for node in 0..3 {
        let own: Vec<_> = world.key_effects.iter().filter(|(at, _)| *at == node).map(|(_, effect)| effect).collect();
        let [Effect::PromiseKey { epoch: Some(2) }, Effect::SealWith { epoch: 2, members }] = own.as_slice() else {
            panic!("{own:?}")
        };
        assert_eq!(*members, [member(0), member(1), member(2)]);
        let mut notices = std::iter::from_fn(|| world.nodes[node].poll_notice()).map(|(notice, _)| notice);
        assert!(notices.any(|notice| notice == Notice::KeyAdopted { epoch: 2, members: 3 }));
    }
    let again = rotate(&mut world, owner);
    let refused = again.refused.unwrap();
    assert_eq!((refused.cause, again.epoch), (RotationRefusalCause::NothingNewer, 2));
    assert!(refused.text.contains("key epoch 2 is in use") && refused.text.contains("consort key next"), "{refused}");
}

#[test]
fn who_asks_again_before_the_answer_is_told_to_wait() {
    let (mut world, owner) = world([&[1, 2], &[1, 2], &[1, 2]]);
    for _ in 0..5 {
        world.programs[owner].client.rotate();
    }
    world.settle();
    let told = world.programs[owner].events.iter().filter_map(|event| match event {
        DaemonEvent::Rotated(status) => Some(status.refused.as_ref().map(|refused| refused.cause)),
        _ => None,
    });
    let busy = Some(RotationRefusalCause::Busy);
    assert_eq!(told.collect::<Vec<_>>(), [busy, busy, busy, busy, None]);
}

#[test]
fn one_that_lacks_it_is_named_and_stands_in_the_status_of_all() {
    //= K09 test
    //= K10 test
    let (mut world, owner) = world([&[1, 2], &[1, 2], &[1]]);
    let refused = rotate(&mut world, owner).refused.unwrap();
    assert_eq!(refused.cause, RotationRefusalCause::Lacks);
    assert!(refused.text.contains("n2 lacks it: copy the key file to that node"), "{refused}");
    assert!(world.key_effects.iter().all(|(_, effect)| !matches!(effect, Effect::SealWith { .. })));
    for node in &world.nodes {
        let told = node.status().into_iter().find(|(key, _)| key == "keys_lacking").unwrap().1;
        assert_eq!(told, "n2 lacks the key of epoch 2");
    }
    world.nodes[2].hold_keys(names(&[1, 2]));
    assert_eq!(rotate(&mut world, owner).refused, None);
}

#[test]
fn only_the_owner_may_ask_and_without_keys_there_is_nothing_to_ask() {
    let (mut world, _) = world([&[1, 2], &[1, 2], &[1, 2]]);
    let other = world.connect(1, "other");
    let refused = rotate(&mut world, other).refused.unwrap();
    assert_eq!(refused.cause, RotationRefusalCause::NotAllowed);
    let (mut world, owner) = self::world([&[], &[], &[]]);
    assert_eq!(rotate(&mut world, owner).refused.unwrap().cause, RotationRefusalCause::Plain);
}

#[test]
fn who_heard_others_use_a_newer_key_has_its_view_take_it_up() {
    //= K06 test
    let (mut world, _) = world([&[1, 2], &[1, 2], &[1, 2]]);
    world.now += Duration::from_secs(1);
    let now = world.now;
    world.nodes[2].follow_key(now, 2);
    world.drain(2);
    world.settle();
    let adopted = world.key_effects.iter().filter(|(_, effect)| matches!(effect, Effect::SealWith { epoch: 2, .. }));
    assert_eq!(adopted.count(), 3);
}
