//! No nonce is used twice with one key, whatever is lost.
use super::*;
use consort_types::Rng;
use std::collections::BTreeSet;

/// What a datagram was sealed with: what its key follows from, and its nonce.
fn used(sealed: &[u8]) -> Vec<u8> {
    let (node, epoch_and_incarnation, salt) = (&sealed[20..22], &sealed[22..32], &sealed[40..56]);
    let (cluster, kind, trailer) = (&sealed[4..12], &sealed[3..4], &sealed[sealed.len() - 8..]);
    [cluster, node, epoch_and_incarnation, salt, kind, trailer].concat()
}

#[test]
fn no_start_uses_what_another_has_used_though_state_is_lost_and_clocks_are_set_back() {
    let (mut chance, mut seen) = (Rng::new(52), BTreeSet::new());
    let (mut clock, mut stored) = (1_000_u64, None);
    for _ in 0..2_000 {
        // Each start: the clock stands still, goes on or is set back; the disk keeps the number or has lost it.
        clock = [clock, clock + 1, clock + 1_000, 1_000][chance.below(4) as usize];
        stored = stored.filter(|_| chance.chance(0.5));
        let incarnation = stored.map_or(clock, |last: u64| clock.max(last + 1));
        stored = Some(incarnation);
        let mut drawn = [0; SALT - 1];
        drawn.iter_mut().for_each(|byte| *byte = chance.next_u64() as u8);
        let identity = Identity { me: MemberId::new(1, incarnation), ..identity(1) };
        let mut end = End::new(identity, &ring(1), Salt::new(Cipher::preferred(), drawn));
        for n in 0..chance.below(20) {
            let to = (n % 3 == 0).then_some(NodeId(2));
            let mut datagram = plain(&identity, [0, 1, 2, 3, 16, 17, 18][n as usize % 7], b"same");
            end.sealer.seal(to, &mut datagram).unwrap();
            assert!(seen.insert(used(&datagram)), "used twice in incarnation {incarnation}");
        }
    }
    assert!(seen.len() > 10_000);
}

#[test]
fn whatever_differs_gives_another_key() {
    let (mut streams, chance) = (BTreeSet::new(), Salt::new(Cipher::Aes256Gcm, [3; SALT - 1]));
    let epoch = |number| KeyEpoch::new(number).unwrap();
    let mut stream = |ring: &KeyRing, identity: Identity, salt: Salt| {
        let mut datagram = plain(&identity, 1, &[0; 32]);
        Sealer::new(ring, &identity, salt).unwrap().seal(None, &mut datagram).unwrap();
        assert!(streams.insert(datagram[envelope::LEN..envelope::LEN + 32].to_vec()), "the same key again");
    };
    stream(&ring(1), identity(1), chance);
    stream(&ring(2), identity(1), chance);
    stream(&KeyRing::new(epoch(2), &[1; KEY]), identity(1), chance);
    stream(&ring(1), identity(2), chance);
    stream(&ring(1), Identity { cluster: ClusterId(2), ..identity(1) }, chance);
    stream(&ring(1), Identity { me: MemberId::new(1, 78), ..identity(1) }, chance);
    stream(&ring(1), identity(1), Salt::new(Cipher::Aes256Gcm, [4; SALT - 1]));
    stream(&ring(1), identity(1), Salt::new(Cipher::ChaCha20Poly1305, [3; SALT - 1]));
}

#[test]
fn kind_addressee_and_counter_make_the_nonce() {
    let mut seen = BTreeSet::new();
    for kind in crate::KINDS {
        for to in [0, 1, 256, u16::MAX] {
            for counter in [0, 1, 255, 1 << 32, crate::COUNTER_LAST] {
                assert!(seen.insert(crate::sealer::nonce(kind, to, counter)));
            }
        }
    }
}
