//! Four feeds, and a reader that has each of their lines exactly once, whichever daemons are lost meanwhile.
//!
//! `cargo run -p consort --example four_feeds -- tea 10.0.0.1:4840 10.0.0.2:4840 10.0.0.3:4840`
use consort::{Address, Event, GroupName, ReadFrom, ReadingStatus, Service, Session, SessionEvent, ViewPlace};
use std::{env, error::Error, thread, time::Duration};

fn feed(daemons: &[Address], group: &[GroupName], name: &str, lines: usize) -> Result<(), consort::Error> {
    let mut session = Session::connect(daemons, Default::default())?;
    for n in 1..=lines {
        session.send(Service::Agreed, group, format!("{name} {n}").as_bytes())?;
    }
    session.finish(None).map(drop)
}

/// Has each of four send so many lines, and returns what is read of them.
pub fn run(daemons: &[Address], group: &[GroupName], lines: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let mut reader = Session::connect(daemons, Default::default())?;
    reader.read(group, ReadFrom::New)?;
    let order = |place: ViewPlace| (place.view.number, place.at, place.index);
    thread::scope(|scope| {
        let (mut feeds, mut all) = (vec!["a", "b", "c", "d"], Vec::new());
        while all.len() < 4 * lines {
            match reader.receive(Duration::from_secs(60))?.ok_or("nothing came for a minute")? {
                SessionEvent::Event(Event::Reading(ReadingStatus::CaughtUp { .. })) => {
                    for name in feeds.drain(..) {
                        scope.spawn(move || feed(daemons, group, name, lines).map_err(|e| eprintln!("{name}: {e}")));
                    }
                }
                SessionEvent::Event(Event::Read(message)) => {
                    all.push((reader.place().map(order), String::from_utf8_lossy(message.payload()).into_owned()));
                }
                // What only a lost daemon had is sent again: what was read of it is taken back.
                SessionEvent::Parted { common } => all.retain(|(read, _)| *read <= common.map(order)),
                SessionEvent::Gap { from, to } => return Err(format!("missing from {from} to {to}").into()),
                _ => {}
            }
        }
        Ok(all.into_iter().map(|(_, line)| line).collect())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (group, daemons) = (env::args().nth(1).unwrap_or_default().parse()?, env::args().skip(2));
    let daemons = daemons.map(|word| word.parse()).collect::<Result<Vec<_>, _>>()?;
    run(&daemons, &[group], 1_000)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
