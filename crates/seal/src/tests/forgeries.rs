//! Whatever is not exactly what a node of this cluster sealed is refused.
use super::*;

#[test]
fn a_datagram_with_any_bit_changed_is_refused() {
    let (mut one, mut two) = pair();
    for kind in [0, 1, 2, 3, 16, 17, 18, greeting::KIND] {
        let sealed = one.seal(kind, &[7; 40]);
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut bad = sealed.clone();
                bad[at] ^= 1 << bit;
                let refused = two.open(&bad).expect_err("it was changed");
                let expected = match at {
                    0 | 1 => "foreign",
                    2 => "version",
                    4..12 => "cluster",
                    _ => "",
                };
                assert!(expected.is_empty() || refused.name() == expected, "byte {at}: {refused}");
                // Other kinds have counters of their own, and greetings came before.
                let may_have_come = at == 3 || kind == greeting::KIND;
                assert!(may_have_come || refused != Unopened::Replayed, "byte {at}: nothing was taken yet");
            }
        }
        match two.open(&sealed) {
            Ok(Opened::Datagram { from, .. }) => assert_eq!(from, one.identity.me),
            other => assert_eq!((kind, other), (greeting::KIND, Err(Unopened::Malformed(NodeId(1))))),
        }
    }
}

#[test]
fn a_datagram_cut_at_any_length_or_made_longer_is_refused() {
    let (mut one, mut two) = pair();
    let sealed = one.seal(1, &[7; 100]);
    for len in 0..sealed.len() {
        assert!(two.open(&sealed[..len]).is_err(), "{len} bytes");
    }
    let longer = [&sealed[..], &[0]].concat();
    assert!(two.open(&longer).is_err());
    assert_eq!(two.packet(&sealed), Ok(vec![7; 100]));
}

#[test]
fn who_has_another_key_or_none_is_not_heard_and_hears_nothing() {
    let mut one = End::start(1, 77, 11);
    let mut other = End::new(identity(2), &ring(9), salt(Cipher::preferred(), 9));
    let mut seen = BytesMut::new();
    meet(&mut { Instant::ZERO }, &mut [&mut one, &mut other], |greeting| seen = greeting.clone());
    assert!(!other.hears(&one) && !one.hears(&other));
    let greeting = other.greet(Instant::ZERO + Duration::from_secs(60)).unwrap();
    assert_eq!(one.open(&greeting), Err(Unopened::Forged(NodeId(2))));
    let sealed = other.seal(1, b"forged");
    assert_eq!(one.open(&sealed), Err(Unopened::Unproven(NodeId(2))), "its start says nothing that opens");
    assert_eq!(one.open(&plain(&identity(2), 1, b"plain")), Err(Unopened::Plain(NodeId(2))));
}

#[test]
fn who_takes_the_name_of_a_start_that_is_heard_is_not_heard() {
    let (mut one, two) = pair();
    let mut thief = End::new(two.identity, &ring(9), *two.sealer.salt());
    assert_eq!(one.open(&thief.seal(1, b"stolen")), Err(Unopened::Forged(NodeId(2))));
}

#[test]
fn own_datagrams_come_back_and_are_not_taken() {
    let (mut one, _) = pair();
    let sealed = one.seal(1, b"mine");
    assert_eq!(one.open(&sealed), Err(Unopened::Own));
}

#[test]
fn nodes_that_are_not_configured_and_clusters_that_are_not_this_one_are_refused() {
    let (mut one, _) = pair();
    let mut stranger = End::new(identity(4), &ring(1), salt(Cipher::preferred(), 4));
    assert_eq!(one.open(&stranger.seal(1, b"x")), Err(Unopened::Stranger(NodeId(4))));
    let elsewhere = Identity { cluster: ClusterId(8), ..identity(2) };
    let mut elsewhere = End::new(elsewhere, &ring(1), salt(Cipher::preferred(), 5));
    assert_eq!(one.open(&elsewhere.seal(1, b"x")), Err(Unopened::Cluster(ClusterId(8))));
}

#[test]
fn nothing_that_chance_makes_of_a_datagram_panics_or_opens() {
    let (mut one, mut two) = pair();
    for kind in [1, greeting::KIND] {
        let sealed = one.seal(kind, &[5; 80]);
        consort_wire::mutate::each(&sealed, 20_000, |bytes| {
            assert!(bytes == &sealed[..] || two.open(bytes).is_err());
        });
    }
}
