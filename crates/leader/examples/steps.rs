//! Goes through steps together with others: a line of the input is printed once all parties have reached theirs.
//!
//! `cargo run -p consort-leader --example steps -- 10.0.0.1:4840 GROUP PARTIES < lines`
use consort::{Address, GroupName};
use consort_leader::{Barrier, LeadershipOptions};
use std::error::Error;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), std::io::stdin().lock(), std::io::stdout().lock())
}

/// Prints each line with the number of its round.
pub fn run(words: &[String], lines: impl BufRead, mut out: impl Write) -> Result<(), Box<dyn Error>> {
    let [daemons @ .., group, parties] = words else {
        return Err("give the addresses of daemons, a group, and the number of parties".into());
    };
    let daemons = daemons.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let mut barrier = Barrier::join(&daemons, &GroupName::new(group)?, parties.parse()?, LeadershipOptions::default())?;
    for line in lines.lines() {
        let line = line?;
        let round = barrier.wait(None)?;
        writeln!(out, "{}: {line}", round.number)?;
    }
    Ok(())
}
