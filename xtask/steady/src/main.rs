//! Steady traffic, to be run under a profiler: `consort-steady TRAFFIC`, where the traffic is one of `rest`, `100` and `1350`.
use consort_steady::{Traffic, World, operations};
use std::process::ExitCode;

/// Until all buffers have grown to what they need.
const WARM_UP: usize = 60;
/// Many packets of each kind.
const ROUNDS: usize = 20;
/// In a ring at rest few tokens go round.
const AT_REST: usize = 2_000;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(traffic) = Traffic::ALL.iter().find(|traffic| traffic.name == name) else {
        let names = Traffic::ALL.map(|traffic| traffic.name).join(", ");
        eprintln!("there is no traffic `{name}`; there are {names}");
        return ExitCode::from(2);
    };
    let mut world = World::new();
    world.rounds(traffic, WARM_UP);
    let rounds = if *traffic == Traffic::REST { AT_REST } else { ROUNDS };
    operations::steady(&mut world, traffic, rounds);
    println!("{} datagrams; clients were told {:?} bytes", world.datagrams(), world.told());
    ExitCode::SUCCESS
}
