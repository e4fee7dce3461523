//! Holds a lock while a command runs: `flock` for several machines.
//!
//! `cargo run -p consort-leader --example lock -- 10.0.0.1:4840 GROUP -- make deploy`
#![allow(clippy::disallowed_methods, reason = "it looks at its lock and at its command in turn")]
use consort::{Address, GroupName};
use consort_leader::{LeadershipOptions, Lock};
use std::error::Error;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    if run(&std::env::args().skip(1).collect::<Vec<_>>())? { Ok(()) } else { Err("the command was stopped".into()) }
}

/// Runs the command; false if the lock was lost before its end. It finds the fence in its environment.
pub fn run(words: &[String]) -> Result<bool, Box<dyn Error>> {
    let usage = "give the addresses of daemons, a group, --, and a command";
    let (to, command) = words.split_at(words.iter().position(|word| word == "--").ok_or(usage)?);
    let ((group, daemons), [_, program, rest @ ..]) = (to.split_last().ok_or(usage)?, command) else {
        return Err(usage.into());
    };
    let daemons = daemons.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let mut lock = Lock::open(&daemons, &GroupName::new(group)?, LeadershipOptions::default())?;
    let guard = lock.acquire(Duration::from_secs(60))?;
    let mut child = Command::new(program).args(rest).env("FENCE", guard.fence().to_string()).spawn()?;
    while child.try_wait()?.is_none() {
        if !guard.is_held() {
            child.kill()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
