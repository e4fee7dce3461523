//! Guests: clients that come and go during storms. Nobody judges what they see; others see them in their groups.
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use consort::{Client, ConnectOptions, Error, GroupName, Service};
use consort_types::Rng;

use super::board::Board;
use super::fleet::door;

/// How long a guest waits between two visits, or for its daemon.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a guest waits for news before it looks at something else.
const TURN: Duration = Duration::from_millis(10);

/// Visits a node's daemon again and again, until told to stop. Joins some of these groups; what it sends goes to the last,
/// which is the guests' own.
pub fn visit(node: usize, directory: &Path, groups: &[GroupName], board: &Board, seed: u64) {
    let mut rng = Rng::new(seed);
    let door = door(directory, node);
    let options = ConnectOptions { connect_within: PATIENCE, ..ConnectOptions::default() };
    while !board.stop.load(Ordering::Relaxed) {
        if board.talk.load(Ordering::Relaxed)
            && let Ok(client) = Client::connect(&door, &options)
        {
            // That its daemon is killed under it is what a guest must reckon with.
            let _ = stay(client, groups, board, &mut rng);
        }
        std::thread::sleep(PAUSE);
    }
}

/// One visit. Some guests leave their groups, some say good-bye, some just go.
fn stay(mut client: Client, groups: &[GroupName], board: &Board, rng: &mut Rng) -> Result<(), Error> {
    let joined: Vec<_> = groups.iter().filter(|_| rng.chance(0.6)).collect();
    joined.iter().try_for_each(|group| client.join(group).map(drop))?;
    let turns = rng.between(1, 80);
    for _ in 0..turns {
        if !board.talk.load(Ordering::Relaxed) {
            break;
        }
        if let (true, Some(own)) = (rng.chance(0.2), groups.last()) {
            let payload = vec![0; rng.below(2_000) as usize];
            client.try_multicast(Service::Agreed, std::slice::from_ref(own), &payload)?;
        }
        while client.receive(TURN)?.is_some() {}
    }
    match rng.below(3) {
        0 => joined.iter().try_for_each(|group| client.leave(group).map(drop)),
        1 => client.close(PATIENCE),
        _ => Ok(()),
    }
}
