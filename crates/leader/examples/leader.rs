//! Leads a group while it may, and says under which fence.
//!
//! `cargo run -p consort-leader --example leader -- 10.0.0.1:4840 10.0.0.2:4840 GROUP`
use consort::{Address, GroupName};
use consort_leader::{Leadership, LeadershipEvent, LeadershipOptions};
use std::error::Error;
use std::io::Write;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    lead(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout(), u32::MAX)
}

/// Leads until it has acted so many times.
pub fn lead(words: &[String], out: &mut impl Write, mut acts: u32) -> Result<(), Box<dyn Error>> {
    let (group, daemons) = words.split_last().ok_or("give the addresses of daemons, and a group")?;
    let daemons = daemons.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let leadership = Leadership::join(&daemons, &GroupName::new(group)?, LeadershipOptions::default())?;
    while acts > 0 {
        if let Some(lease) = leadership.lease() {
            writeln!(out, "act under {}, {:?} left", lease.fence, lease.left())?;
            acts -= 1;
        }
        match leadership.receive(Duration::from_millis(500))? {
            Some(LeadershipEvent::Ended(error)) => return Err(error.into()),
            Some(LeadershipEvent::Leader { candidate, fence }) => writeln!(out, "{candidate} leads under {fence}")?,
            _ => {}
        }
    }
    Ok(())
}
