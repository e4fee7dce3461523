//! Forged packets into a working ring of two: it stands. Each is one that was really sent, with some bytes replaced.
use crate::{Pair, pieces};
use consort_types::{Duration, Service};
use consort_wire::Lane;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut pair = Pair::formed();
    let mut rests = RESTS;
    for piece in pieces(bytes).take(PIECES) {
        match *piece {
            [back, at, ref bytes @ ..] => {
                if let Some(packet) = pair.forge(back, at, bytes) {
                    pair.hand_over(Lane::Token, packet);
                }
            }
            [service] => pair.submit(Service::from_wire(service % 8).unwrap_or(Service::Safe)),
            [] if rests > 0 => {
                rests -= 1;
                pair.run(Duration::from_millis(50));
            }
            [] => {}
        }
        pair.run(Duration::from_micros(50));
    }
    pair.run(AFTER);
}

/// More only takes longer.
const PIECES: usize = 32;
/// A parked token goes round every 25 ms; after 151 ms without one the ring is lost.
const RESTS: u32 = 4;
/// The token rests and goes round once more, and whatever was lost on the way is sent again.
const AFTER: Duration = Duration::from_millis(40);
