//! What sealing costs, in nanoseconds a datagram: `cargo run --release -p consort-seal --example cost`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, reason = "it measures and prints")]
use consort_seal::greeting::{self, Greeting};
use consort_seal::{Cipher, KeyEpoch, KeyRing, Opener, Salt, Sealer};
use consort_types::{ClusterId, ConfigHash, Instant, MemberId, NodeId};
use consort_wire::{BytesMut, Identity, envelope};
use std::time::Duration;

const ROUNDS: usize = 50_000;

fn identity(node: u16) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, 77) }
}

fn ring() -> KeyRing {
    KeyRing::new(KeyEpoch::new(1).unwrap(), &[7; 32])
}

fn plain(kind: u8, size: usize) -> BytesMut {
    let mut datagram = BytesMut::with_capacity(size + 100);
    datagram.resize(envelope::LEN.max(size), 5);
    envelope::stamp_unsummed(&identity(1), kind, &mut datagram);
    datagram
}

/// Two nodes that hear each other.
fn pair(cipher: Cipher) -> (Sealer, Opener) {
    let start = |node: u16| {
        let salt = Salt::new(cipher, [node as u8; 15]);
        let opener = Opener::new(ring(), identity(node), salt, [1, 2].map(NodeId));
        (Sealer::new(&ring(), &identity(node), salt).unwrap(), opener)
    };
    let (mut one, mut two) = (start(1), start(2));
    for now in (0..10).map(|n| Instant(n * 20_000_000)) {
        for (from, to) in [(0, 1), (1, 0)] {
            let both = [&mut one, &mut two];
            let (sealer, opener) = &mut *both[from];
            let Some(mut said) = opener.greeting(now, sealer.counters()) else { continue };
            sealer.seal(None, &mut said).unwrap();
            both[to].1.open(&mut said).unwrap();
        }
    }
    assert_eq!(two.1.proven_count(), 1);
    (one.0, two.1)
}

/// Nanoseconds a call, the least of five runs, each datagram made before the clock runs.
fn measure(make: &mut dyn FnMut() -> BytesMut, run: &mut dyn FnMut(&mut BytesMut)) -> u128 {
    let mut least = u128::MAX;
    for _ in 0..5 {
        let mut spent = Duration::ZERO;
        for _ in 0..ROUNDS / 500 {
            let mut batch: Vec<_> = (0..100).map(|_| make()).collect();
            let began = std::time::Instant::now();
            batch.iter_mut().for_each(&mut *run);
            spent += began.elapsed();
        }
        least = least.min(spent.as_nanos() / (ROUNDS as u128 / 500 * 100));
    }
    least
}

fn main() {
    println!("{:18} {:>6} {:>8} {:>8} {:>10}", "cipher", "bytes", "seal", "open", "forged");
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let (sealer, mut opener) = pair(cipher);
        let sealer = std::cell::RefCell::new(sealer);
        for size in [156, 1_448, 8_900] {
            let seal = |datagram: &mut BytesMut| {
                sealer.borrow_mut().seal(None, datagram).unwrap();
            };
            let sealed = || {
                let mut datagram = plain(1, size);
                seal(&mut datagram);
                datagram
            };
            let sealing = measure(&mut || plain(1, size), &mut |datagram| seal(datagram));
            let opening = measure(&mut || sealed(), &mut |datagram| {
                let _ = opener.open(datagram).unwrap();
            });
            let forge = || {
                let mut datagram = sealed();
                datagram[envelope::LEN] ^= 1;
                datagram
            };
            let forged = measure(&mut || forge(), &mut |datagram| {
                let _ = opener.open(datagram).unwrap_err();
            });
            println!("{:18} {size:>6} {sealing:>8} {opening:>8} {forged:>10}", cipher.name());
        }
        let said = Greeting { counters: [0; 8], entries: Vec::new() }.encode(&identity(1));
        let mut chance = 0_u64;
        let mut strange = || {
            let mut datagram = said.clone();
            datagram[envelope::KIND_AT] = greeting::KIND;
            chance += 1;
            let mut salt = [cipher.code(); 16];
            salt[8..].copy_from_slice(&chance.to_be_bytes());
            envelope::mark_sealed(&mut datagram, 1, &salt);
            datagram.resize(400, 0);
            datagram
        };
        let derived = measure(&mut strange, &mut |datagram| {
            let _ = opener.open(datagram).unwrap_err();
        });
        println!("{:18} forged greeting of an unknown start: {derived}", cipher.name());
    }
}
