//! A stock list that is never sent: each program builds it by reading all changes again from the start, and then follows
//! what comes. Nobody joins a group, and a program that was away misses nothing.
//!
//! A change is two words, an article and a number: `tea 5`, `tea -2`. Where the daemon cannot tell a part of the order
//! any more, the list would be wrong: it ends there. A program that must go on then keeps the list itself from time to time,
//! with its bookmark.
//!
//! `cargo run -p consort --example replay -- 127.0.0.1:4840 stock`, with daemons that run `protocol = "paxos"`; change it
//! by `consort send --group stock "tea 5"`.
pub mod common;
use common::Arguments;
use consort::{Bookmark, Client, Error, Event, GroupName, ReadFrom, ReadingStatus};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let followed = Arguments::connect("replay").and_then(|(client, group)| follow(client, &group));
    if let Err(problem) = followed {
        eprintln!("replay: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn follow(client: Client, group: &GroupName) -> Result<(), String> {
    let mut stock = Stock::read(client, group, ReadFrom::Start).map_err(|error| error.to_string())?;
    loop {
        if stock.step(Duration::from_secs(1))? && stock.is_current() {
            println!("{:?}", stock.articles());
        }
    }
}

/// How many there are of each article.
pub struct Stock {
    client: Client,
    articles: BTreeMap<String, i64>,
    is_current: bool,
}

impl Stock {
    /// Reads all changes, from the start or from a bookmark on.
    pub fn read(mut client: Client, group: &GroupName, from: ReadFrom) -> Result<Self, Error> {
        client.read(std::slice::from_ref(group), from)?;
        Ok(Self { client, articles: BTreeMap::new(), is_current: false })
    }

    /// What there is, as far as the changes were read.
    pub const fn articles(&self) -> &BTreeMap<String, i64> {
        &self.articles
    }

    /// Whether all that was changed before has been read.
    pub const fn is_current(&self) -> bool {
        self.is_current
    }

    /// Where to read on.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.client.bookmark()
    }

    /// Takes the next event; true if there was one.
    pub fn step(&mut self, within: Duration) -> Result<bool, String> {
        match self.client.receive(within).map_err(|error| error.to_string())? {
            Some(Event::Read(message)) => self.change(&String::from_utf8_lossy(message.payload())),
            Some(Event::Reading(ReadingStatus::CaughtUp { .. })) => self.is_current = true,
            Some(Event::Reading(ReadingStatus::Lost { from, to })) => {
                return Err(format!("the changes from {from} to {to} are lost"));
            }
            Some(Event::Reading(ReadingStatus::Gap { from, to, .. })) => {
                return Err(format!("the changes from {from} to {to} are lost"));
            }
            Some(Event::Reading(ReadingStatus::Ended(end))) => return Err(end.to_string()),
            other => return Ok(other.is_some()),
        }
        Ok(true)
    }

    fn change(&mut self, words: &str) {
        if let Some((article, number)) = words.split_once(' ')
            && let Ok(number) = number.trim().parse::<i64>()
        {
            let count = self.articles.entry(article.to_owned()).or_default();
            *count = count.saturating_add(number);
        }
    }
}
