//! Clients that send many writes before they read an answer, and a ledger of which writes were answered.
use consort_kv::{Connected, Reply};
use consort_types::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many writes of a client are under way at most. A connection begins with one, because the daemons may be gone.
const WINDOW: usize = 64;
/// How long a client waits before it tries another server.
const AGAIN: Duration = Duration::from_millis(20);
/// A client gives a server up if it is silent for this time.
const SILENCE: Duration = Duration::from_secs(1);
/// How long it may take until the next thousand writes are answered.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many examples a report of lost writes has.
const EXAMPLES: usize = 3;

/// What was written to a key. Each value has a number that only grows.
#[derive(Debug, Default)]
struct Writes {
    /// The last that was answered, or seen by a reader.
    answered: Option<u64>,
    /// Those sent later, whose fate is not known.
    open: Vec<u64>,
}

/// All that was sent to a store, and what of it was answered. A key belongs to one connection, because a write of unknown fate
/// may be carried out later than one that is sent over another connection.
#[derive(Debug, Default)]
pub struct Ledger {
    keys: BTreeMap<String, Writes>,
    /// How many writes were answered.
    pub answered: u64,
    /// How many were sent and never answered.
    pub unanswered: u64,
}

impl Ledger {
    fn sent(&mut self, key: &str, number: u64) -> String {
        self.keys.entry(key.to_owned()).or_default().open.push(number);
        value(key, number)
    }

    fn answered(&mut self, key: &str, number: u64) {
        if let Some(writes) = self.keys.get_mut(key) {
            writes.answered = Some(number);
            writes.open.retain(|open| *open > number);
        }
        self.answered += 1;
    }

    fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.answered += other.answered;
        self.unanswered += other.unanswered;
    }

    /// All keys that were ever sent.
    pub fn keys(&self) -> Vec<&str> {
        self.keys.keys().map(String::as_str).collect()
    }

    /// How many keys a store has at least, and at most.
    pub fn sizes(&self) -> (usize, usize) {
        (self.keys.values().filter(|writes| writes.answered.is_some()).count(), self.keys.len())
    }

    /// Writes a new key at this server and waits until that is answered, so that what the server sent before is ordered.
    ///
    /// # Errors
    /// No write is answered in time.
    pub fn mark(&mut self, address: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < deadline {
            let key = format!("mark-{}", self.keys.len());
            let value = self.sent(&key, 0);
            match connect(address).and_then(|mut server| server.call(&["SET", &key, &value])) {
                Ok(Reply::Simple(_)) => {
                    self.answered(&key, 0);
                    return Ok(());
                }
                other => last = format!("{other:?}"),
            }
            self.unanswered += 1;
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server at {address} took no write within {PATIENCE:?}, but said: {last}"))
    }

    /// Compares what a reader of all keys got, in their order, an empty text where there is nothing. What was seen must not go
    /// back later.
    ///
    /// # Errors
    /// Which answered writes are lost, or which values were never written.
    pub fn judge(&mut self, found: &[String]) -> Result<(), String> {
        assert_eq!(found.len(), self.keys.len());
        let mut wrong = Vec::new();
        for ((key, writes), found) in self.keys.iter_mut().zip(found) {
            let number = found.split_once(' ').and_then(|(number, _)| number.parse().ok());
            let is_right = match number {
                None => found.is_empty() && writes.answered.is_none(),
                Some(number) => {
                    let known = writes.answered == Some(number) || writes.open.contains(&number);
                    known && *found == value(key, number)
                }
            };
            if !is_right {
                wrong.push(format!("{key} is {found:?} where {writes:?} were written"));
            } else if number.is_some() {
                writes.answered = number;
                writes.open.retain(|open| Some(*open) > number);
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let (count, all) = (wrong.len(), self.keys.len());
        wrong.truncate(EXAMPLES);
        Err(format!("{count} of {all} keys lack an answered write, for example {}", wrong.join(", ")))
    }
}

fn value(key: &str, number: u64) -> String {
    format!("{number} of {key}")
}

fn connect(address: &str) -> std::io::Result<Connected> {
    let mut server = Connected::to(address, SILENCE)?;
    server.set_timeout(Some(SILENCE))?;
    Ok(server)
}

/// Clients that write, one for each server at first.
pub struct Writers {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Ledger>>,
}

impl Writers {
    /// They begin; `run` is a name that no earlier writers had.
    pub fn start(addresses: &[String], run: u64, rng: &mut Rng) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = |first: usize| {
            let addresses = addresses.to_vec();
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let (rng, ledger) = (rng.fork(first as u64), Ledger::default());
            thread::spawn(move || {
                let mut writer = Writer { name: format!("{run}-{first}"), ledger, stop, answered, rng, number: 0 };
                writer.run(&addresses, first);
                writer.ledger
            })
        };
        let threads = (0..addresses.len()).map(thread).collect();
        Self { stop, answered, threads }
    }

    /// Waits until they have got this number of answers.
    pub fn wait_for(&self, answers: u64) {
        let mut deadline = Instant::now() + PATIENCE;
        let mut before = 0;
        loop {
            let now = self.answered.load(Ordering::Relaxed);
            if now >= answers {
                return;
            }
            if now > before + 1_000 {
                (before, deadline) = (now, Instant::now() + PATIENCE);
            }
            assert!(Instant::now() < deadline, "only {now} of {answers} writes were answered");
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// How many answers they got so far.
    pub fn count(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends them and adds what they know.
    pub fn end(mut self, ledger: &mut Ledger) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| ledger.add(thread.join().unwrap()));
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One client.
struct Writer {
    name: String,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    rng: Rng,
    number: u64,
}

impl Writer {
    fn run(&mut self, addresses: &[String], first: usize) {
        for connection in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Ok(server) = connect(&addresses[(first + connection) % addresses.len()]) {
                let prefix = format!("{}-{connection}", self.name);
                self.ledger.unanswered += self.write(server, &prefix) as u64;
            }
            thread::sleep(AGAIN);
        }
    }

    /// Writes over one connection as long as all is well; returns how many writes have no answer then.
    fn write(&mut self, mut server: Connected, prefix: &str) -> usize {
        let mut waiting: VecDeque<(String, u64)> = VecDeque::new();
        let (mut keys, mut window) = (0, 1);
        while !self.stop.load(Ordering::Relaxed) {
            while waiting.len() < window {
                let write = self.next(prefix, &mut keys);
                let value = self.ledger.sent(&write.0, write.1);
                server.add(&["SET", &write.0, &value]);
                waiting.push_back(write);
            }
            if server.flush().is_err() {
                break;
            }
            if !self.take_answers(&mut server, &mut waiting, window.div_ceil(2)) {
                return waiting.len();
            }
            window = (2 * window).min(WINDOW);
        }
        let rest = waiting.len();
        self.take_answers(&mut server, &mut waiting, rest);
        waiting.len()
    }

    /// False where the connection is of no use any more, for example because the daemons are gone.
    fn take_answers(&mut self, server: &mut Connected, waiting: &mut VecDeque<(String, u64)>, count: usize) -> bool {
        for _ in 0..count {
            match server.receive() {
                Ok(Reply::Simple(_)) => {}
                Ok(Reply::Error(_)) | Err(_) => return false,
                Ok(other) => panic!("SET was answered with {other:?}"),
            }
            let (key, number) = waiting.pop_front().unwrap();
            self.ledger.answered(&key, number);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// A new key, or one that was written before.
    fn next(&mut self, prefix: &str, keys: &mut u64) -> (String, u64) {
        self.number += 1;
        let key = if *keys == 0 || self.rng.chance(0.5) { *keys } else { self.rng.below(*keys) };
        *keys = (*keys).max(key + 1);
        (format!("{prefix}-{key}"), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(found: &str) -> Result<(), String> {
        let mut ledger = Ledger::default();
        (1..=3).for_each(|number| drop(ledger.sent("a", number)));
        ledger.answered("a", 2);
        ledger.judge(&[found.to_owned()])
    }

    #[test]
    fn a_key_has_its_last_answered_write_or_a_later_one() {
        judged("2 of a").unwrap();
        judged("3 of a").unwrap();
        for lost in ["", "1 of a", "4 of a", "2 of b"] {
            assert!(judged(lost).unwrap_err().starts_with("1 of 1 keys lack an answered write"), "{lost}");
        }
    }

    #[test]
    fn what_a_reader_saw_must_not_go_back() {
        let mut ledger = Ledger::default();
        drop(ledger.sent("a", 1));
        ledger.judge(&[String::new()]).unwrap();
        ledger.judge(&["1 of a".to_owned()]).unwrap();
        ledger.judge(&[String::new()]).unwrap_err();
    }
}
