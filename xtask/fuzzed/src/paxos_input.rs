//! Forged packets into one of three nodes of Ring Paxos: it stands, and keeps no more than it was sent. Each is one that was
//! really sent, with some bytes replaced.
use crate::paxos::Trio;
use crate::pieces;
use consort_types::Duration;

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut trio = Trio::formed();
    let mut rests = RESTS;
    for piece in pieces(bytes).take(PIECES) {
        match *piece {
            [back, at, ref bytes @ ..] => trio.forge(back, at, bytes),
            [node] => trio.submit(usize::from(node % 3)),
            [] if rests > 0 => {
                rests -= 1;
                trio.run(Duration::from_millis(300));
            }
            [] => {}
        }
        trio.run(Duration::from_micros(50));
    }
    trio.run(AFTER);
    trio.check();
}

/// More only takes longer.
const PIECES: usize = 32;
/// After 250 ms without its beats a coordinator is replaced.
const RESTS: u32 = 4;
/// Some beats, in which whatever was lost is asked for again.
const AFTER: Duration = Duration::from_millis(100);
