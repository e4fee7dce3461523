//! Messages offered before their place is final.
use super::*;
use crate::STREAM;
use consort_group::{ordered, targets};
use consort_order::{Delivery, EarlyDelivery, Output};
use consort_session::Undo;
use consort_types::{Class, Duration, OfferId, Position};

/// Connects an optimistic client and has it join.
fn optimistic_client(world: &mut World, name: &str, undo: Undo) -> usize {
    let hello = Hello { name: ClientName::new(name.as_bytes()), optimistic: Some(undo), ..Hello::default() };
    world.connect_with(0, ClientEnd::new(&hello))
}

/// What another daemon's client sends.
fn message(position: u64, to: &str, text: &str) -> Delivery {
    let mut body = BytesMut::new();
    assert!(targets::encode([group(to)].iter(), &mut body));
    body.extend_from_slice(text.as_bytes());
    let prefix = ordered::multicast_prefix(ClientId(9), &ClientName::new(b"zoe").unwrap());
    Delivery {
        stream: STREAM,
        position: Position(position),
        sender: member(1),
        id: None,
        class: Class::Client,
        service: Service::Agreed,
        payload: [prefix, body.freeze()].into_iter().collect(),
    }
}

fn offer(world: &mut World, id: u64, to: &str) {
    let free_until = world.now + Duration::from_micros(128);
    let offer = EarlyDelivery { id: OfferId(id), free_until, delivery: message(0, to, &format!("m{id}")) };
    say(world, Output::Offer(offer));
}

fn revoke(world: &mut World, id: u64) {
    say(world, Output::Revoke { stream: STREAM, offer: OfferId(id) });
}

fn confirm(world: &mut World, id: u64, to: &str) {
    let delivery = message(1_000 + id, to, &format!("m{id}"));
    say(world, Output::Confirm { offer: OfferId(id), delivery });
}

fn say(world: &mut World, output: Output<super::engine::Numbered>) {
    world.nodes[0].engine.put_out(output);
    world.drain(0);
}

#[test]
fn where_nothing_is_offered_optimists_are_told_offer_and_confirm_at_once() {
    //= G42 test
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (optimistic_client(&mut world, "ann", Undo::Latest), world.connect(1, "bob"));
    world.join(ann, "g");
    world.join(bob, "g");
    world.multicast(bob, &["g"], "one");
    world.multicast(ann, &["g"], "two");
    world.settle();
    let places = ["n1/c2 g: one", "n0/c1 g: two"];
    let seen = world.story(bob)[1..].to_vec();
    assert!(places.iter().all(|place| seen.iter().any(|line| line == place)), "{seen:?}");
    let told = [format!("+1 in 0 us {}", seen[0]), "=1".into(), format!("+2 in 0 us {}", seen[1]), "=2".into()];
    assert_eq!(world.story(ann)[2..], told);
}

#[test]
fn optimists_are_told_each_message_of_a_batch_by_itself() {
    //= G42 test
    //= G09 test
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (optimistic_client(&mut world, "ann", Undo::Any), world.connect(1, "bob"));
    world.join(ann, "g");
    let numbered = world.nodes[0].engine.numbered;
    ["one", "", "three"].iter().for_each(|text| world.send_as(bob, Service::Agreed, &["g", "h"], text));
    world.settle();
    assert_eq!(world.nodes[0].engine.numbered, numbered + 1);
    let told = ["+1 in 0 us n1/c2 g+h: one", "=1", "+2 in 0 us n1/c2 g+h: ", "=2", "+3 in 0 us n1/c2 g+h: three", "=3"];
    assert_eq!(world.story(ann)[1..], told);
}

#[test]
fn an_offer_reaches_only_optimists_that_would_get_the_message() {
    //= G40 test
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (optimistic_client(&mut world, "ann", Undo::Any), optimistic_client(&mut world, "bob", Undo::Any));
    let eve = world.connect(0, "eve");
    world.join(ann, "g");
    world.join(bob, "h");
    world.join(eve, "g");
    let before = [ann, bob, eve].map(|at| world.story(at).len());
    offer(&mut world, 1, "g");
    offer(&mut world, 2, "h");
    assert_eq!(world.story(ann)[before[0]..], ["+1 in 128 us n1/c9 g: m1"]);
    assert_eq!(world.story(bob)[before[1]..], ["+1 in 128 us n1/c9 h: m2"]);
    confirm(&mut world, 2, "h");
    revoke(&mut world, 1);
    offer(&mut world, 1, "g");
    confirm(&mut world, 1, "g");
    assert_eq!(world.story(ann)[before[0] + 1..], ["-1", "+2 in 128 us n1/c9 g: m1", "=2"]);
    assert_eq!(world.story(bob)[before[1] + 1..], ["=1"]);
    assert_eq!(world.story(eve)[before[2]..], ["n1/c9 g: m1"]);
    assert_eq!((world.counter(0, "messages_offered"), world.counter(0, "messages_revoked")), (3, 1));
}

#[test]
fn who_gets_a_message_is_found_out_anew_where_it_has_its_place() {
    //= G41 test
    let mut world = World::new(1, Limits::default());
    let (ann, bob) = (optimistic_client(&mut world, "ann", Undo::Any), optimistic_client(&mut world, "bob", Undo::Any));
    world.join(ann, "g");
    offer(&mut world, 1, "g");
    world.client(ann).leave(&group("g")).unwrap();
    world.join(bob, "g");
    confirm(&mut world, 1, "g");
    assert_eq!(world.story(ann)[1..], ["+1 in 128 us n1/c9 g: m1", "g leave ann -> ", "-1"]);
    assert_eq!(world.story(bob), ["g join bob -> bob", "+1 in 0 us n1/c9 g: m1", "=1"]);
}

#[test]
fn what_is_revoked_or_confirmed_without_an_offer_and_what_is_no_clients_message_does_no_harm() {
    let mut world = World::new(1, Limits::default());
    let ann = optimistic_client(&mut world, "ann", Undo::Latest);
    world.join(ann, "g");
    revoke(&mut world, 7);
    let join = ordered::join(ClientId(9), &ClientName::new(b"zoe").unwrap(), &group("g"), false);
    let garbage = [join, Bytes::from_static(b"\x01garbage"), Bytes::new()];
    for (payload, id) in garbage.into_iter().zip(20..) {
        let delivery = Delivery { payload: payload.into(), ..message(0, "g", "") };
        let offer = EarlyDelivery { id: OfferId(id), free_until: world.now, delivery };
        say(&mut world, Output::Offer(offer));
    }
    confirm(&mut world, 8, "g");
    assert_eq!(world.story(ann)[1..], ["+1 in 0 us n1/c9 g: m8", "=1"]);
    offer(&mut world, 9, "g");
    world.vanish(ann);
    revoke(&mut world, 9);
    assert_eq!(world.counter(0, "clients_optimistic"), 0);
}
