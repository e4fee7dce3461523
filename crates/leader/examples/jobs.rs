//! Shares the lines of standard input among all that run this, and prints what came of each.
//!
//! `cargo run -p consort-leader --example jobs -- 10.0.0.1:4840 10.0.0.2:4840 GROUP < lines`
use consort::{Address, GroupName};
use consort_leader::{LeadershipOptions, WorkQueue};
use std::error::Error;
use std::io::Write;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let lines = std::io::stdin().lines().map_while(Result::ok);
    work(&std::env::args().skip(1).collect::<Vec<_>>(), lines, &mut std::io::stdout())
}

/// Submits all lines, and works until they are finished.
pub fn work(words: &[String], lines: impl Iterator<Item = String>, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (group, daemons) = words.split_last().ok_or("give the addresses of daemons, and a group")?;
    let daemons = daemons.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let mut queue = WorkQueue::join(&daemons, &GroupName::new(group)?, LeadershipOptions::default())?;
    let mut open = 0;
    for line in lines {
        queue.submit(line.as_bytes())?;
        open += 1;
    }
    while open > 0 {
        if let Some(job) = queue.next_job(Duration::from_millis(20))? {
            let upper = String::from_utf8_lossy(&job.payload).to_uppercase();
            queue.done(&job, upper.as_bytes())?;
        }
        while let Some((job, result)) = queue.finished(Duration::ZERO)? {
            writeln!(out, "{job}: {}", String::from_utf8_lossy(&result))?;
            open -= 1;
        }
    }
    Ok(())
}
