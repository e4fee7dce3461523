//! A feed: each line of standard input is ordered once, whichever daemons are lost meanwhile.
//!
//! `cargo run -p consort --example feed -- 10.0.0.1:4840 10.0.0.2:4840 tea`
use consort::{Address, Error, Fate, GroupName, Service, Session, SessionEvent, SessionOptions};
use std::error::Error as StdError;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    if let Err(problem) = run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        eprintln!("feed: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(words: &[String]) -> Result<(), Box<dyn StdError>> {
    let Some((group, daemons)) = words.split_last().filter(|(_, daemons)| !daemons.is_empty()) else {
        return Err("give the addresses of daemons, and a group: feed HOST:PORT... GROUP".into());
    };
    let daemons = daemons.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let session = Session::connect(&daemons, SessionOptions::default())?;
    let lines = std::io::stdin().lines().map_while(Result::ok);
    let problems = feed(session, &GroupName::new(group)?, lines)?;
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Sends all lines; returns what became of those that are not ordered.
pub fn feed(
    mut session: Session,
    group: &GroupName,
    lines: impl Iterator<Item = String>,
) -> Result<Vec<String>, Error> {
    let (mut events, mut problems) = (Vec::new(), Vec::new());
    for line in lines {
        session.send(Service::Agreed, std::slice::from_ref(group), line.as_bytes())?;
        while let Some(event) = session.receive(Duration::ZERO)? {
            events.push(event);
        }
    }
    events.extend(session.finish(None)?);
    for event in events {
        match event {
            SessionEvent::Sent { send, fate: Fate::Refused(why) } => problems.push(format!("line {send}: {why}")),
            SessionEvent::Sent { send, fate: Fate::Forgotten } => problems.push(format!("line {send}: nobody knows")),
            _ => {}
        }
    }
    Ok(problems)
}
