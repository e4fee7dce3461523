//! A replicated counter that does not wait for the order: it takes each message as soon as it is offered, shows what the
//! value will likely be, and undoes what turns out to stand elsewhere. Doubling and adding do not commute, so the order
//! matters: once everything is confirmed all counters show the same.
//!
//! All of them begin at zero; how a newcomer is told the value is shown in the example `counter`.
//!
//! `cargo run -p consort --example undo -- 127.0.0.1:4840 tea`, and then numbers, or `double`, on standard input.
pub mod common;
use common::Arguments;
use consort::{Client, ConnectOptions, Error, Event, GroupName, Service, Undo};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(50);
const LAST_WORDS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let options = ConnectOptions::default().optimistic(Undo::Latest);
    let counted = Arguments::connect_with("undo", options)
        .and_then(|(client, group)| count_lines(client, group).map_err(|error| error.to_string()));
    if let Err(problem) = counted {
        eprintln!("undo: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn count_lines(client: Client, group: GroupName) -> Result<(), Error> {
    let lines = common::lines_of_stdin();
    let mut counter = Counter::join(client, group)?;
    loop {
        match lines.try_recv().map(|line| (Change::read(&line), line)) {
            Ok((Some(change), _)) => counter.ask(change)?,
            Ok((None, line)) => eprintln!("undo: `{line}` is neither a whole number nor `double`"),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return counter.close(),
        }
        if counter.step(STEP)? {
            println!("{} now, {} for certain", counter.log().likely(), counter.log().certain());
        }
    }
}

/// What is done to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A number is added.
    Add(i64),
    /// It is doubled.
    Double,
}

impl Change {
    /// Reads what somebody typed, or sent.
    pub fn read(line: &str) -> Option<Self> {
        match line.trim() {
            "double" => Some(Self::Double),
            number => number.parse().ok().map(Self::Add),
        }
    }

    fn words(self) -> String {
        match self {
            Self::Add(number) => number.to_string(),
            Self::Double => "double".to_owned(),
        }
    }

    const fn apply(self, value: i64) -> i64 {
        match self {
            Self::Add(number) => value.wrapping_add(number),
            Self::Double => value.wrapping_mul(2),
        }
    }
}

/// A value, and how to undo its last changes.
#[derive(Debug, Default)]
pub struct Log {
    value: i64,
    /// Which offers are open, the oldest first, and what the value was before each.
    open: VecDeque<(u64, i64)>,
}

impl Log {
    /// The value if all offers hold.
    pub const fn likely(&self) -> i64 {
        self.value
    }

    /// The value by what is confirmed.
    pub fn certain(&self) -> i64 {
        self.open.front().map_or(self.value, |(_, before)| *before)
    }

    /// How many offers are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A change is offered: done at once. What is no change is remembered all the same, for it will be closed, too.
    pub fn offer(&mut self, offer: u64, change: Option<Change>) {
        self.open.push_back((offer, self.value));
        self.value = change.map_or(self.value, |change| change.apply(self.value));
    }

    /// The latest change is undone. False if that is not the one.
    pub fn revoke(&mut self, offer: u64) -> bool {
        let Some((_, before)) = self.open.back().filter(|(latest, _)| *latest == offer) else { return false };
        self.value = *before;
        self.open.pop_back();
        true
    }

    /// The oldest change holds for good. False if that is not the one.
    pub fn confirm(&mut self, offer: u64) -> bool {
        let oldest = self.open.front().is_some_and(|(oldest, _)| *oldest == offer);
        if oldest {
            self.open.pop_front();
        }
        oldest
    }
}

/// One replica.
pub struct Counter {
    client: Client,
    group: GroupName,
    log: Log,
    members: usize,
    confirmed: usize,
}

impl Counter {
    /// Joins the counter that the members of a group share. The client must be optimistic and undo the latest only.
    pub fn join(mut client: Client, group: GroupName) -> Result<Self, Error> {
        client.join(&group)?;
        Ok(Self { client, group, log: Log::default(), members: 0, confirmed: 0 })
    }

    /// The value, likely and certain.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// How many share the counter.
    pub const fn members(&self) -> usize {
        self.members
    }

    /// How many messages are confirmed.
    pub const fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// Asks for a change, for all.
    pub fn ask(&mut self, change: Change) -> Result<(), Error> {
        let to = std::slice::from_ref(&self.group);
        self.client.multicast(Service::Agreed, to, change.words().as_bytes())?;
        self.client.flush()
    }

    /// Takes the next event; true if there was one.
    pub fn step(&mut self, within: Duration) -> Result<bool, Error> {
        let Some(event) = self.client.receive(within)? else { return Ok(false) };
        let fits = match event {
            Event::Offer(offer) => {
                let words = String::from_utf8_lossy(offer.message.payload());
                self.log.offer(offer.number, Change::read(&words));
                true
            }
            Event::Revoke { offer } => self.log.revoke(offer),
            Event::Confirm { offer } => {
                self.confirmed += 1;
                self.log.confirm(offer)
            }
            Event::GroupView(view) => {
                self.members = view.members.len();
                true
            }
            _ => true,
        };
        if !fits {
            eprintln!("undo: the daemon closed an offer out of its turn");
        }
        Ok(true)
    }

    /// Leaves once all that was asked for is ordered.
    pub fn close(mut self) -> Result<(), Error> {
        self.client.wait_ordered(LAST_WORDS)?;
        self.client.close(LAST_WORDS)
    }
}
