//! Readers that are cut off while daemons are killed: each message once, in its order.
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use consort::{
    Address, Event, GroupName, ReadFrom, ReadingStatus, Session, SessionEvent, SessionOptions, ViewId, ViewPlace,
};

use super::relay::Relay;
use super::stage::text;

/// How many sessions send at a time.
pub const SESSIONS: usize = 4;
/// How long all may need to come to an end.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a reader read: of each sender the numbers, and how often it was parted from what it had read.
#[derive(Debug, Default)]
pub struct Read {
    pub numbers: Vec<Vec<u64>>,
    pub parted: u64,
}

/// A message that was read, and where.
#[derive(Debug)]
struct Placed {
    /// The number of the view among those that were read.
    view: usize,
    at: u64,
    sender: u64,
    number: u64,
}

/// What was read so far; what another history lacks is taken back.
#[derive(Debug, Default)]
struct Reader {
    views: Vec<ViewId>,
    all: Vec<Placed>,
    parted: u64,
}

/// Starts a reader of a group; it has begun when this returns.
///
/// # Errors
/// What the client library says.
pub fn start(
    which: usize,
    relays: &[Relay],
    group: &GroupName,
    options: SessionOptions,
) -> Result<JoinHandle<Result<Read, String>>, String> {
    let addresses: Vec<_> = (0..3).map(|at| Address::Unix(relays[(which + at) % 3].path().to_owned())).collect();
    let mut session = Session::connect(&addresses, options).map_err(text)?;
    session.read(std::slice::from_ref(group), ReadFrom::New).map_err(text)?;
    let (mut reader, deadline) = (Reader::default(), Instant::now() + PATIENCE);
    loop {
        let event = session.receive(Duration::from_millis(100)).map_err(text)?;
        if let Some(event) = event {
            let begun = matches!(event, SessionEvent::Event(Event::Reading(ReadingStatus::CaughtUp { .. })));
            reader.take(&event)?;
            if begun {
                break;
            }
        }
        if Instant::now() > deadline {
            return Err("a reading does not begin".into());
        }
    }
    Ok(thread::spawn(move || {
        loop {
            let event = session.receive(2 * PATIENCE).map_err(text)?.ok_or("nothing more came to a reader")?;
            if reader.take(&event)? {
                return Ok(reader.read());
            }
        }
    }))
}

impl Reader {
    /// Takes what a session says; whether that was the end.
    fn take(&mut self, event: &SessionEvent) -> Result<bool, String> {
        match event {
            SessionEvent::Event(Event::Read(message)) => {
                let Some((sender, number)) = message.payload().split_first_chunk::<8>() else { return Ok(true) };
                let number = u64::from_be_bytes(number.try_into().map_err(|_| "a message that nobody sends")?);
                let (at, sender) = (message.position().unwrap_or_default(), u64::from_be_bytes(*sender));
                self.all.push(Placed { view: self.views.len(), at, sender, number });
            }
            SessionEvent::Event(Event::Reading(ReadingStatus::InView { view, .. })) => {
                // Where it goes back to an earlier view, nothing was read since.
                let known = self.views.iter().position(|read| read == view);
                self.views.truncate(known.unwrap_or(self.views.len()));
                self.views.push(*view);
            }
            SessionEvent::Event(Event::Reading(ReadingStatus::Ended(end))) => return Err(end.to_string()),
            SessionEvent::Gap { from, to } => return Err(format!("a gap, {from} to {to}, though all is retained")),
            SessionEvent::Parted { common } => self.part(common.ok_or("no view in common")?)?,
            _ => {}
        }
        Ok(false)
    }

    /// What was read from there on is not in the history that follows.
    fn part(&mut self, common: ViewPlace) -> Result<(), String> {
        self.parted += 1;
        let at = self.views.iter().rposition(|view| *view == common.view);
        let view = 1 + at.ok_or_else(|| format!("in common is {}, which was not read", common.view))?;
        self.all.retain(|placed| (placed.view, placed.at) < (view, common.at.0));
        self.views.truncate(view);
        Ok(())
    }

    fn read(self) -> Read {
        let mut numbers = vec![Vec::new(); SESSIONS];
        for Placed { sender, number, .. } in self.all {
            if let Some(own) = usize::try_from(sender).ok().and_then(|sender| numbers.get_mut(sender)) {
                own.push(number);
            }
        }
        Read { numbers, parted: self.parted }
    }
}
