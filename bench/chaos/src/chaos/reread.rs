//! The whole order once more: at the end of a run two nodes tell it from its start. What they tell is the same, and holds all
//! that senders were told to be ordered.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Event, GroupName, Message, ReadFrom, ReadingStatus};
use sha2::{Digest as _, Sha256};

/// Names a message by its bytes.
pub type Digest = [u8; 32];

/// How long nothing may come while the order is told.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take altogether.
const LONGEST: Duration = Duration::from_secs(300);

/// What a node tells of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How many messages.
    pub messages: u64,
    /// The SHA-256 of all of them with places, senders and groups.
    pub sum: Digest,
    /// How many of them their senders knew to be ordered.
    pub acknowledged: usize,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, acknowledged) = (self.messages, self.acknowledged);
        write!(
            f,
            "read again at two nodes: {messages} messages, all {acknowledged} acknowledged ones among them, SHA-256 "
        )?;
        self.sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a message with this payload.
pub fn digest(payload: &[u8]) -> Digest {
    Sha256::digest(payload).into()
}

/// Reads these groups from their start at each of these daemons, and judges what was told.
///
/// # Errors
/// What cannot be.
pub fn judge(addresses: &[Address], groups: &[GroupName], said: &BTreeMap<Digest, String>) -> Result<Told, String> {
    let mut first: Option<Reread> = None;
    for address in addresses {
        let read = Reread::of(address, groups).map_err(|problem| format!("{address}: {problem}"))?;
        let lacking: Vec<_> = said.iter().filter(|(name, _)| !read.names.contains(*name)).collect();
        if let Some((_, first)) = lacking.first() {
            let (all, messages, lacking) = (said.len(), read.messages, lacking.len());
            return Err(format!(
                "{address}: {lacking} of {all} acknowledged messages are not among {messages} of the order, the first: {first}"
            ));
        }
        match &first {
            Some(first) if (first.messages, &first.sum) != (read.messages, &read.sum) => {
                return Err(format!(
                    "{address}: {} messages, others than the {} of {}",
                    read.messages, first.messages, addresses[0]
                ));
            }
            _ => first = Some(read),
        }
    }
    let read = first.ok_or("there is no node to read at")?;
    Ok(Told { messages: read.messages, sum: read.sum, acknowledged: said.len() })
}

/// What one daemon has told.
struct Reread {
    messages: u64,
    sum: Digest,
    names: BTreeSet<Digest>,
}

impl Reread {
    fn of(address: &Address, groups: &[GroupName]) -> Result<Self, String> {
        let connected = Client::connect(address, &ConnectOptions::default().connect_within(PATIENCE));
        let mut client = connected.map_err(|error| error.to_string())?;
        client.read(groups, ReadFrom::Start).map_err(|error| error.to_string())?;
        let (mut messages, mut all, mut names) = (0, Sha256::new(), BTreeSet::new());
        let began = Instant::now();
        while began.elapsed() < LONGEST {
            match client.receive(PATIENCE).map_err(|error| error.to_string())? {
                Some(Event::Read(message)) => {
                    messages += 1;
                    note(&mut all, &message);
                    names.insert(digest(message.payload()));
                }
                Some(Event::Reading(ReadingStatus::CaughtUp { .. })) => {
                    return Ok(Self { messages, sum: all.finalize().into(), names });
                }
                Some(Event::Reading(ReadingStatus::Began { from: _, oldest, .. })) if oldest > 1 => {
                    return Err(format!("it retains the order from position {oldest} on, and not from its start"));
                }
                Some(Event::Reading(ReadingStatus::Lost { from, to })) => {
                    return Err(format!("the positions from {from} to {to} are lost"));
                }
                Some(Event::Reading(ReadingStatus::Ended(end))) => return Err(end.to_string()),
                Some(_) => {}
                None => return Err(format!("nothing came for {PATIENCE:?} after {messages} messages")),
            }
        }
        Err(format!("it was not done after {LONGEST:?} and {messages} messages"))
    }
}

/// Adds where a message stands, who sent it, to whom, and what.
fn note(all: &mut Sha256, message: &Message) {
    all.update(message.position().unwrap_or_default().to_be_bytes());
    for word in std::iter::once(message.sender_name()).chain(message.groups()) {
        all.update((word.len() as u64).to_be_bytes());
        all.update(word.as_bytes());
    }
    all.update((message.payload().len() as u64).to_be_bytes());
    all.update(message.payload());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_shows_its_sum_in_whole() {
        let told = Told { messages: 3, sum: digest(b"abc"), acknowledged: 2 };
        let text = told.to_string();
        assert!(
            text.starts_with("read again at two nodes: 3 messages, all 2 acknowledged ones among them, "),
            "{text}"
        );
        assert!(text.ends_with("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "{text}");
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_named() {
        let nobody = Address::Unix("/nowhere/node-1.sock".into());
        let problem = judge(&[nobody], &[], &BTreeMap::new()).unwrap_err();
        assert!(problem.starts_with("unix:/nowhere/node-1.sock: "), "{problem}");
    }
}
