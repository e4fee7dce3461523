//! The good clients beside a hostile one: they show a token, and are measured.
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, Event, Fate, GroupName, Service, Session, SessionEvent, SessionOptions};

use super::times::Times;
use crate::chaos::fleet::address;
use crate::trials::stage::text;

/// How large a message is, and how often each client sends one.
const LEN: usize = 200;
const EVERY: Duration = Duration::from_millis(2);
/// How long a client may take to send one message.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a new session may take until its message is ordered.
const ADMITTED: Duration = Duration::from_secs(5);

/// What the good clients share.
pub struct Good<'a> {
    directory: &'a Path,
    token: &'a str,
    group: GroupName,
    epoch: Instant,
    /// When each message of another client was sent, and how long it took.
    pub took: Times,
    pub over: AtomicBool,
}

impl<'a> Good<'a> {
    /// Their token is in the file of the daemons that are in this directory.
    ///
    /// # Errors
    /// A mistake in this file.
    pub fn new(directory: &'a Path, token: &'a str) -> Result<Self, String> {
        let group = GroupName::new("good").map_err(text)?;
        let (epoch, took, over) = (Instant::now(), Times::default(), AtomicBool::new(false));
        Ok(Self { directory, token, group, epoch, took, over })
    }

    fn options(&self) -> ConnectOptions {
        ConnectOptions::default().showing(self.token).connect_within(ADMITTED)
    }

    /// One client sends and receives until all is over.
    ///
    /// # Errors
    /// Its connection has ended.
    pub fn run(&self, node: usize) -> Result<(), String> {
        let failed = |error: consort::Error| format!("the good client of daemon {}: {error}", node + 1);
        let mut client = Client::connect(&address(self.directory, node), &self.options()).map_err(failed)?;
        client.join(&self.group).map_err(failed)?;
        // The clients do not send at the same time.
        let mut next = Instant::now() + EVERY * node as u32 / 2;
        while !self.over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next {
                let mut bytes = vec![0; LEN];
                bytes[..8].copy_from_slice(&(self.epoch.elapsed().as_nanos() as u64).to_be_bytes());
                bytes[8] = node as u8;
                let to = std::slice::from_ref(&self.group);
                client.multicast_within(Service::Agreed, to, &bytes, PATIENCE).map_err(failed)?;
                next = (next + EVERY).max(now);
            }
            let wait = next.saturating_duration_since(Instant::now());
            if let Some(Event::Message(message)) = client.receive(wait).map_err(failed)? {
                self.note(node, message.payload());
            }
        }
        Ok(())
    }

    /// A message came to a client. What it sent itself, and what a new session sent, says nothing.
    fn note(&self, node: usize, payload: &[u8]) {
        let Some((sent, [from, ..])) = payload.split_first_chunk::<8>() else { return };
        if usize::from(*from) != node {
            self.took.note(self.epoch + Duration::from_nanos(u64::from_be_bytes(*sent)));
        }
    }

    /// A new session at a daemon sends a message.
    ///
    /// # Errors
    /// It is not admitted, or the message is not ordered, or not in time.
    pub fn send_in_new_session(&self, node: usize) -> Result<(), String> {
        let begun = Instant::now();
        let options = SessionOptions::default().connect(self.options()).reconnect_within(ADMITTED);
        let mut session = Session::connect(&[address(self.directory, node)], options).map_err(text)?;
        session.send(Service::Agreed, std::slice::from_ref(&self.group), b"").map_err(text)?;
        let events = session.finish(ADMITTED).map_err(text)?;
        let is_ordered = |event: &SessionEvent| matches!(event, SessionEvent::Sent { fate: Fate::Ordered { .. }, .. });
        let took = begun.elapsed();
        match events.iter().any(is_ordered) {
            true if took <= ADMITTED => Ok(()),
            true => Err(format!("its message took {} ms", took.as_millis())),
            false => Err("its message is not ordered".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_other_client_count_when_they_were_sent() {
        let good = Good::new(Path::new("/nowhere"), "token").unwrap();
        let message = |ms: u64, node: u8| [&(ms * 1_000_000).to_be_bytes()[..], &[node, 0]].concat();
        good.note(0, &message(0, 1));
        good.note(0, &message(0, 0));
        good.note(0, b"");
        let soon = good.epoch + Duration::from_millis(1);
        assert_eq!(good.took.between(good.epoch, soon).len(), 1, "not its own, and not one of a new session");
        assert!(good.took.between(soon, soon + Duration::from_secs(1)).is_empty());
    }
}
