//! One key follows another while datagrams are under way.
use super::*;
use crate::epochs::OLD_KEPT;

fn epoch(number: u16) -> KeyEpoch {
    KeyEpoch::new(number).unwrap()
}

/// A ring with the keys of these epochs, the first to seal with.
fn ring_of(epochs: &[u16]) -> KeyRing {
    let first = KeyRing::new(epoch(epochs[0]), &[epochs[0] as u8; KEY]);
    epochs[1..].iter().fold(first, |ring, number| ring.with_other(epoch(*number), &[*number as u8; KEY]))
}

fn end(node: u16, epochs: &[u16]) -> End {
    End::new(identity(node), &ring_of(epochs), salt(Cipher::preferred(), node as u8))
}

fn adopt(end: &mut End, number: u16, members: &[MemberId], now: Instant) {
    assert!(end.opener.adopt(epoch(number), members, now));
    assert!(end.sealer.change_key(end.opener.ring(), &end.identity));
}

/// Two starts with keys of epochs 1 and 2 that hear each other in epoch 1.
fn pair() -> (Instant, End, End) {
    let (mut now, mut one, mut two) = (Instant::ZERO, end(1, &[1, 2]), end(2, &[1, 2]));
    meet(&mut now, &mut [&mut one, &mut two], |_| {});
    assert!(one.hears(&two) && two.hears(&one));
    (now, one, two)
}

#[test]
fn who_holds_a_newer_key_opens_greetings_with_it_and_learns_that_it_is_in_use() {
    //= K06 test
    let (mut now, mut one, mut two) = (Instant::ZERO, end(1, &[1, 2]), end(2, &[2, 1]));
    meet(&mut now, &mut [&mut one, &mut two], |_| {});
    assert!(one.hears(&two) && two.hears(&one), "their greetings are opened");
    assert_eq!(one.opener.epochs().newer().map(|(newer, from, _)| (newer, from)), Some((epoch(2), NodeId(2))));
    let (new, old) = (two.seal(1, b"new"), one.seal(1, b"old"));
    assert_eq!(one.open(&new), Err(Unopened::NotAdopted(NodeId(2))));
    assert_eq!(two.open(&old), Err(Unopened::Superseded(NodeId(1))));
    let me = one.identity.me;
    adopt(&mut one, 2, &[me], now);
    let (here, there) = (two.seal(1, b"new"), one.seal(1, b"new"));
    assert!(one.open(&here).is_ok() && two.open(&there).is_ok());
}

#[test]
fn nothing_is_lost_while_one_has_adopted_and_the_other_has_only_promised() {
    //= K03 test
    //= K05 test
    let (now, mut one, mut two) = pair();
    let members = [one.identity.me, two.identity.me];
    one.opener.promise(Some(epoch(2)));
    two.opener.promise(Some(epoch(2)));
    let under_way = two.seal(1, b"sealed before");
    adopt(&mut one, 2, &members, now);
    for _ in 0..3 {
        let (new, old) = (one.seal(1, b"new"), two.seal(1, b"old"));
        assert_eq!((two.packet(&new), one.packet(&old)), (Ok(b"new".to_vec()), Ok(b"old".to_vec())));
    }
    assert_eq!(one.packet(&under_way), Ok(b"sealed before".to_vec()));
    assert_eq!(one.open(&under_way), Err(Unopened::Replayed), "the windows go on");
    adopt(&mut two, 2, &members, now);
    let sealed = two.seal(1, b"new");
    assert_eq!((sealed[23], one.packet(&sealed)), (2, Ok(b"new".to_vec())));
}

#[test]
fn the_old_key_is_dropped_after_its_time_and_opens_not_even_greetings() {
    //= K05 test
    let (now, mut one, mut two) = pair();
    let members = [one.identity.me, two.identity.me];
    adopt(&mut one, 2, &members, now);
    let late = two.seal(1, b"late");
    assert_eq!(one.opener.expire(now), None);
    assert_eq!(one.opener.expire(now + OLD_KEPT), Some(epoch(1)));
    assert_eq!(one.open(&late), Err(Unopened::KeyEpoch(1, NodeId(2))));
    let greeting = two.greet(now + OLD_KEPT).or_else(|| Some(two.seal(greeting::KIND, b"")));
    assert_eq!(one.open(&greeting.unwrap()), Err(Unopened::KeyEpoch(1, NodeId(2))));
    assert_eq!(one.opener.ring().epochs().collect::<Vec<_>>(), [epoch(2)]);
    assert!(one.opener.hold(&ring_of(&[1, 2])), "the file still has it");
    assert_eq!(one.opener.ring().epochs().collect::<Vec<_>>(), [epoch(2)], "and it is not taken up again");
}

#[test]
fn keys_are_taken_up_while_the_one_in_use_stays_and_not_else() {
    //= K08 test
    let (_, mut one, mut two) = pair();
    let epochs = |end: &End| end.opener.ring().epochs().map(KeyEpoch::get).collect::<Vec<_>>();
    assert!(!one.opener.hold(&ring_of(&[2, 3])), "epoch 1 is in use");
    let other = KeyRing::new(epoch(1), &[9; KEY]);
    assert!(!one.opener.hold(&other), "that is another key of epoch 1");
    assert_eq!(epochs(&one), [1, 2]);
    // The next key was a wrong one: another takes its place, and what was derived of it is forgotten.
    two.opener.promise(Some(epoch(2)));
    let mut wrong = end(3, &[2]);
    assert!(two.opener.hold(&ring_of(&[1]).with_other(epoch(2), &[77; KEY])));
    assert_eq!(two.open(&wrong.greet(Instant::ZERO).unwrap()), Err(Unopened::Forged(NodeId(3))));
    assert!(two.opener.hold(&ring_of(&[1])));
    assert_eq!(epochs(&two), [1]);
}

#[test]
fn a_fingerprint_tells_keys_apart_and_nothing_else() {
    let prints = |ring: &KeyRing| ring.fingerprints().collect::<Vec<_>>();
    assert_eq!(prints(&ring_of(&[1, 2])), prints(&ring_of(&[1, 2])));
    let other = KeyRing::new(epoch(1), &[9; KEY]);
    assert_ne!(prints(&ring_of(&[1]))[0].1, prints(&other)[0].1);
}

#[test]
fn who_lacks_the_epoch_is_told_which_and_whose() {
    //= K09 test
    let (mut now, mut one, mut two) = (Instant::ZERO, end(1, &[1]), end(2, &[2]));
    meet(&mut now, &mut [&mut one, &mut two], |_| {});
    assert!(!two.hears(&one) && !one.hears(&two));
    let (new, old) = (two.seal(1, b"new"), one.seal(1, b"old"));
    assert_eq!(one.open(&new), Err(Unopened::KeyEpoch(2, NodeId(2))));
    assert_eq!(two.open(&old), Err(Unopened::KeyEpoch(1, NodeId(1))));
}

/// Somebody with the key of epoch 1 seals in the name of `one`, with a counter that is far ahead in each kind.
fn far_ahead(one: &End) -> Vec<BytesMut> {
    let mut other = Sealer::new(&ring_of(&[1]), &one.identity, *one.sealer.salt()).unwrap();
    other.skip_to(1 << 40);
    let seal = |kind: u8| {
        let mut datagram = plain(&one.identity, kind, b"of somebody else");
        other.seal(None, &mut datagram).unwrap();
        datagram
    };
    [0, 1, 2, 3, 16, 17, 18].map(seal).into()
}

#[test]
fn whoever_is_kept_out_by_what_another_sealed_in_its_name_is_heard_with_the_next_key() {
    //= K11 test
    let (now, mut one, mut two) = pair();
    assert!(far_ahead(&one).iter().all(|sealed| two.open(sealed).is_ok()), "the key is the same");
    let kept_out = one.seal(1, b"kept out");
    assert_eq!(two.open(&kept_out), Err(Unopened::Replayed));
    let members = [one.identity.me, two.identity.me];
    adopt(&mut one, 2, &members, now);
    adopt(&mut two, 2, &members, now);
    for kind in [0, 1, 2, 3, 16, 17, 18] {
        let sealed = one.seal(kind, b"heard again");
        assert_eq!(two.packet(&sealed), Ok(b"heard again".to_vec()), "kind {kind}");
        assert_eq!(two.open(&sealed), Err(Unopened::Replayed), "kind {kind}");
    }
    assert_eq!(two.open(&kept_out), Err(Unopened::Replayed), "the old key's windows go on while it is held");
}

#[test]
fn what_was_sealed_with_a_key_before_its_sender_was_believed_is_not_taken_with_it() {
    let (mut now, mut one, mut two) = (Instant::ZERO, end(1, &[2, 1]), end(2, &[2, 1]));
    meet(&mut now, &mut [&mut one, &mut two], |_| {});
    let recorded: Vec<_> = [0, 1, 2].map(|kind| one.seal(kind, b"recorded")).into();
    // The receiver starts anew.
    let mut anew = End::new(two.identity, &ring_of(&[2, 1]), salt(Cipher::preferred(), 99));
    meet(&mut now, &mut [&mut one, &mut anew], |_| {});
    assert!(anew.hears(&one));
    for sealed in &recorded {
        assert_eq!(anew.open(sealed), Err(Unopened::Replayed));
    }
}

#[test]
fn a_next_key_that_was_lost_and_came_back_opens_nothing_twice() {
    let (mut now, mut one, mut two) = (Instant::ZERO, end(1, &[1, 2]), end(2, &[2, 1]));
    meet(&mut now, &mut [&mut one, &mut two], |_| {});
    let early = two.seal(1, b"early");
    assert_eq!(one.open(&early), Err(Unopened::NotAdopted(NodeId(2))));
    assert!(one.opener.hold(&ring_of(&[1])) && one.opener.hold(&ring_of(&[1, 2])));
    let me = one.identity.me;
    adopt(&mut one, 2, &[me], now);
    assert_eq!(one.open(&early), Err(Unopened::Replayed));
    let live = two.seal(1, b"live");
    assert_eq!(one.packet(&live), Ok(b"live".to_vec()));
}
