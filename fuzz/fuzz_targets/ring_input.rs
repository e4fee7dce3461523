//! Forged packets into a working ring of two: it stands. Each is one that was really sent, with some bytes replaced.
#![no_main]
use consort_fuzz::{Pair, pieces};
use consort_types::{Duration, Service};
use consort_wire::Lane;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut pair = Pair::formed();
    for piece in pieces(bytes) {
        match *piece {
            [back, at, ref bytes @ ..] => {
                if let Some(packet) = pair.forge(back, at, bytes) {
                    pair.hand_over(Lane::Token, packet);
                }
            }
            [service] => pair.submit(Service::from_wire(service % 8).unwrap_or(Service::Safe)),
            [] => pair.run(Duration::from_millis(100)),
        }
        pair.run(Duration::from_micros(50));
    }
    pair.run(Duration::from_millis(500));
});
