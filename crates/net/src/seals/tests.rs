use super::*;
use crate::driver_packets::tests::{identity, sealed_driver_packets_of};
use consort_seal::{Cipher, KeyEpoch, KeyRing, Salt};
use consort_wire::path_mtu::{self, ALWAYS, Probe, Shape};
use consort_wire::{Lane, envelope};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

fn peers() -> Vec<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    (0..3).map(|node| Peer { node: NodeId(node), token: address, data: address }).collect()
}

fn security(secret: u8, chance: u8) -> Option<Security> {
    let keys = KeyRing::new(KeyEpoch::new(1).unwrap(), &[secret; 32]);
    Some(Security { keys, salt: Salt::new(Cipher::preferred(), [chance; 15]) })
}

fn seals(node: u16, secret: u8) -> Rc<Seals> {
    of(identity(node), secret, &peers())
}

/// The seals of a node that speaks as `identity` among these, with that secret.
pub(crate) fn of(identity: Identity, secret: u8, peers: &[Peer]) -> Rc<Seals> {
    Rc::new(Seals::new(identity, security(secret, identity.me.node.0 as u8), peers).unwrap())
}

/// What a node greets with, as it travels.
fn greet(from: &Seals, now: u64) -> Option<BytesMut> {
    let head = from.greeting(Instant(now))?;
    let sealed = from.seal(None, Datagram { head, body: Bytes::new() })?;
    Some(BytesMut::from(&sealed.head[..]))
}

/// Lets these greet each other until they have nothing more to say.
pub(crate) fn meet(all: &[&Seals]) {
    for now in (0..100).map(|n| n * 20_000_000) {
        for (at, from) in all.iter().enumerate() {
            let Some(greeting) = greet(from, now) else { continue };
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, other)| assert_eq!(other.open(greeting.clone()), None, "it is for the seals alone"));
        }
    }
}

/// Nodes 1 and 2, which hear each other.
fn pair() -> (Rc<Seals>, Rc<Seals>) {
    let (one, two) = (seals(1, 7), seals(2, 7));
    meet(&[&one, &two]);
    assert_eq!((one.proven(), two.proven()), (1, 1));
    (one, two)
}

/// A datagram as a node hands it over.
fn datagram(from: u16, lane: Lane, fields: &[u8], body: &[u8]) -> Datagram {
    let mut head = BytesMut::new();
    envelope::reserve(&mut head);
    head.extend_from_slice(fields);
    envelope::stamp_unsummed(&identity(from), lane as u8, &mut head);
    Datagram { head: head.freeze(), body: Bytes::copy_from_slice(body) }
}

fn arrive(sealed: &Datagram) -> BytesMut {
    assert!(sealed.body.is_empty(), "one piece leaves");
    BytesMut::from(&sealed.head[..])
}

fn dropped(seals: &Seals, cause: &str) -> u64 {
    let mut found = 0;
    seals.observe(&mut |name, value| found += u64::from(name == format!("unopened_{cause}")) * value);
    found
}

#[test]
fn what_leaves_in_two_parts_comes_as_one_and_opens_once() {
    let (one, two) = pair();
    for (lane, body) in [(Lane::Token, 0), (Lane::Data, 1_350), (Lane::Control, 9), (Lane::Data, 60_000)] {
        let sealed = one.seal(None, datagram(1, lane, b"fields", &vec![5; body])).unwrap();
        let opened = two.open(arrive(&sealed)).unwrap();
        let (envelope, packet) = envelope::open_as(&identity(2), two.proof(), opened).unwrap();
        assert_eq!((envelope.from, envelope.lane), (identity(1).me, lane));
        assert_eq!((&packet[..6], packet.len()), (&b"fields"[..], 6 + body));
        assert_eq!(two.open(arrive(&sealed)), None);
    }
    assert_eq!(dropped(&two, "replayed"), 4);
}

#[test]
fn without_a_key_nothing_changes_and_sealed_datagrams_are_told_of() {
    let (one, _) = pair();
    let plain = Seals::new(identity(2), None, &peers()).unwrap();
    let sealed = one.seal(None, datagram(1, Lane::Data, b"x", b"y")).unwrap();
    assert_eq!((plain.overhead(), plain.proof(), plain.poll_timeout()), (0, Proof::Checksum, None));
    assert_eq!(plain.open(arrive(&sealed)).unwrap(), sealed.head, "the node counts it");
    let handed = datagram(2, Lane::Data, b"x", b"y");
    assert_eq!(plain.seal(None, handed.clone()), Some(handed));
    let drops = Drops { datagrams: 1, last: Dropped::Sealed(NodeId(1)) };
    assert_eq!((plain.news(Instant(1)), plain.news(Instant(2))), (vec![drops], vec![]));
    assert!(plain.words().starts_with("plain"), "{}", plain.words());
}

#[test]
fn causes_are_counted_and_told_at_once_and_then_once_a_minute() {
    let (one, _) = pair();
    let other = Seals::new(identity(2), security(8, 99), &peers()).unwrap();
    let second = 1_000_000_000;
    for n in 0..100 {
        assert_eq!(one.open(greet(&other, n * second).unwrap()), None);
        assert_eq!(one.open(arrive(&datagram(2, Lane::Data, b"plain", b""))), None);
    }
    assert_eq!((dropped(&one, "forged"), dropped(&one, "plain")), (100, 100));
    let told = |at: u64| one.news(Instant(at * second)).iter().map(|drops| drops.datagrams).collect::<Vec<_>>();
    assert_eq!((told(1), told(2)), (vec![100, 100], vec![]));
    assert_eq!(one.open(greet(&other, 200 * second).unwrap()), None);
    assert_eq!((told(60), told(61)), (vec![], vec![1]));
    // What any start does before it has proven itself is told to nobody.
    assert_eq!(one.open(arrive(&other.seal(None, datagram(2, Lane::Data, b"", b"")).unwrap())), None);
    assert_eq!((dropped(&one, "unproven"), told(200)), (1, vec![]));
    assert!(one.words().contains("1 of 2 other nodes"), "{}", one.words());
}

#[test]
fn pieces_are_opened_each_and_what_they_make_once_more() {
    let (one, two) = pair();
    let mut driver_packets = sealed_driver_packets_of(2, Rc::clone(&two));
    let pieces = |sealed: &Datagram, id| -> Vec<BytesMut> {
        let shape = Shape::new(sealed.head.len(), ALWAYS - OVERHEAD).unwrap();
        let cut = path_mtu::cut(identity(1), id, shape, &sealed.head, &[]);
        cut.map(|head| arrive(&one.seal(Some(NodeId(2)), Datagram { head, body: Bytes::new() }).unwrap())).collect()
    };
    let mut take = |pieces: Vec<BytesMut>| -> Vec<Bytes> {
        assert!(pieces.iter().all(|piece| piece.len() <= ALWAYS));
        let opened = pieces.into_iter().filter_map(|piece| two.open(piece));
        opened.filter_map(|piece| driver_packets.take(Instant(1), piece, false)).collect()
    };
    let sealed = one.seal(None, datagram(1, Lane::Data, b"fields", &[5; 2_000])).unwrap();
    let whole = take(pieces(&sealed, 1));
    let (_, packet) = envelope::open_as(&identity(2), two.proof(), whole[0].clone()).unwrap();
    assert_eq!((whole.len(), packet.len()), (1, 2_006));
    // The front of one and the back of another, under one number: all pieces open, and the whole does not.
    let halves = [1, 2].map(|n| one.seal(None, datagram(1, Lane::Data, b"fields", &[n; 2_000])).unwrap());
    let [front, back] = halves.map(|half| pieces(&half, 2));
    let mixed = front.into_iter().take(2).chain(back.into_iter().skip(2)).collect();
    assert_eq!((take(mixed), dropped(&two, "forged")), (vec![], 1));
}

#[test]
fn a_probe_counts_with_the_length_that_it_has_on_its_way() {
    let (one, two) = pair();
    let mut driver_packets = sealed_driver_packets_of(2, Rc::clone(&two));
    let probe = Probe { round: 3, reports: Vec::new() }.seal(&identity(1), 1_472 - OVERHEAD);
    let sealed = one.seal(None, Datagram { head: probe, body: Bytes::new() }).unwrap();
    assert_eq!(sealed.head.len(), 1_472);
    let opened = two.open(arrive(&sealed)).unwrap();
    assert_eq!(driver_packets.take(Instant(1), opened, false), None);
    assert_eq!(driver_packets.next_probe().unwrap().size, 1_472);
}

#[test]
fn frames_of_a_link_are_taken_in_their_order_alone() {
    let (one, two) = pair();
    let frame = |n: u8| datagram(1, Lane::Reliable, &[n], &[n; 100]);
    let (first, chain) = one.seal_frame(NodeId(2), 0, frame(1)).unwrap();
    let (second, chain) = one.seal_frame(NodeId(2), chain, frame(2)).unwrap();
    let (third, _) = one.seal_frame(NodeId(2), chain, frame(3)).unwrap();
    let (_, chain) = two.open_frame(0, arrive(&first)).unwrap();
    assert_eq!(two.open_frame(chain, arrive(&third)), Err(BadFrame::Misplaced), "the second is missing");
    assert_eq!(two.open_frame(0, arrive(&first)), Err(BadFrame::Unopened(Unopened::Replayed)));
    assert!(two.open_frame(chain, arrive(&second)).is_ok());
    let (elsewhere, _) = one.seal_frame(NodeId(5), 0, frame(1)).unwrap();
    assert_eq!(two.open_frame(0, arrive(&elsewhere)), Err(BadFrame::Unopened(Unopened::Misdirected(NodeId(5)))));
    let data = one.seal(Some(NodeId(2)), datagram(1, Lane::Data, b"x", b"")).unwrap();
    assert_eq!(two.open_frame(0, arrive(&data)), Err(BadFrame::Misplaced), "it is for another lane");
}

#[test]
fn other_nodes_multicast_probes_are_nobodys_fault() {
    let (one, _) = pair();
    assert_eq!(one.open(BytesMut::from(&b"consort?12345678"[..])), None);
    assert_eq!((dropped(&one, "foreign"), one.open(BytesMut::new())), (0, None));
    assert_eq!(dropped(&one, "foreign"), 1);
}

#[test]
fn when_counters_are_used_up_nothing_leaves_and_the_daemon_is_told_to_stop() {
    let (one, two) = pair();
    one.wear_out();
    let last = one.seal(None, datagram(1, Lane::Data, b"last", b"")).unwrap();
    assert_eq!(one.exhausted(), None);
    assert_eq!(one.seal(None, datagram(1, Lane::Data, b"more", b"")), None);
    let error = crate::RunError::from(one.exhausted().unwrap()).to_string();
    assert!(error.contains("start the daemon again, which draws a new salt"), "{error}");
    assert!(two.open(arrive(&last)).is_some());
}

#[test]
fn a_key_is_adopted_by_one_after_the_other_and_status_tells_how_it_stands() {
    //= K05 test
    let epoch = |number| KeyEpoch::new(number).unwrap();
    let keys = KeyRing::new(epoch(1), &[7; 32]).with_other(epoch(2), &[8; 32]);
    let (one, two) = pair();
    [&one, &two].iter().for_each(|seals| seals.hold(&keys));
    assert_eq!((one.epochs(), one.key_names().len()), ("1 in use, 2 next".to_owned(), 2));
    [&one, &two].iter().for_each(|seals| seals.promise(Some(2)));
    let members = [identity(1).me, identity(2).me];
    assert_eq!(one.adopt(Instant::ZERO, 2, &members), Some(epoch(2)));
    assert_eq!(one.adopt(Instant::ZERO, 3, &members), None, "there is no key of it");
    let (new, old) = (datagram(1, Lane::Data, b"new", b""), datagram(2, Lane::Data, b"old", b""));
    let (new, old) = (one.seal(None, new).unwrap(), two.seal(None, old).unwrap());
    assert!(two.open(arrive(&new)).is_some() && one.open(arrive(&old)).is_some());
    assert_eq!((one.epochs(), one.epoch(), two.epoch()), ("1 old, 2 in use".to_owned(), 2, 1));
    let later = Instant(61_000_000_000);
    assert_eq!((one.expire(later), one.epochs()), (Some(epoch(1)), "2 in use".to_owned()));
    let old = two.seal(None, datagram(2, Lane::Data, b"old", b"")).unwrap();
    assert_eq!((one.open(arrive(&old)), dropped(&one, "key_epoch")), (None, 1));
    assert_eq!(one.apart(Instant::ZERO), "n2 uses epoch 1: it lacks the key of epoch 2, or is about to adopt it");
    assert_eq!(one.apart(later), "", "it was not heard lately");
}
