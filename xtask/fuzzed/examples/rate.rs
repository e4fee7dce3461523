//! How many inputs of its corpus a target takes in a second: `cargo run --profile tools -p consort-fuzzed --example rate -- TARGET`.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program talks, and reads a clock"
)]
use consort_fuzzed::TARGETS;
use std::time::{Duration, Instant};

fn main() {
    let wanted = std::env::args().nth(1);
    for (name, run) in TARGETS.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|wanted| wanted == *name)) {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
        let entries = std::fs::read_dir(format!("{corpus}{name}")).unwrap();
        let inputs: Vec<_> = entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        let (began, mut runs) = (Instant::now(), 0_u64);
        while began.elapsed() < Duration::from_secs(2) {
            inputs.iter().for_each(|input| run(input));
            runs += inputs.len() as u64;
        }
        println!("{name}: {:.0} executions a second", runs as f64 / began.elapsed().as_secs_f64());
    }
}
