//! Callers of the store: some ask for as much as they are to, and count; some keep a history that is judged.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use consort_kv::{Connected, Reply};
use consort_types::Rng;

use super::super::stage::{Stage, text};
use super::server::Server;
use crate::chaos::registers::operation::{Answer, Call, KEYS, Operation, Request};
use crate::keeper::now;

/// How many count, and how many keep a history.
const COUNTING: usize = 64;
const RECORDING: u64 = 3;
/// How long one that keeps a history thinks between two calls, in the mean, in seconds.
const THINKS: f64 = 0.01;
/// How long is waited for the first call.
const LATE: Duration = Duration::from_millis(200);

/// What callers share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    answered: AtomicU64,
    /// Nanoseconds between two calls of one caller; 0 where each follows the answer to the one before.
    apart: AtomicU64,
}

type Recorder = JoinHandle<Result<Vec<Operation>, String>>;

/// Callers that run; they end when dropped.
pub struct Callers {
    shared: Arc<Shared>,
    counting: Vec<JoinHandle<Result<(), String>>>,
    recording: Vec<Recorder>,
}

impl Callers {
    /// Starts them, in turn at these servers.
    pub fn start(servers: &[Server]) -> Result<Self, String> {
        let shared = Arc::<Shared>::default();
        let mut places = servers.iter().cycle();
        let mut connect = || places.next().ok_or("there is no server")?.connect();
        let mut counting = Vec::new();
        for number in 0..COUNTING {
            let (store, shared) = (connect()?, Arc::clone(&shared));
            counting.push(thread::spawn(move || count(store, number, &shared)));
        }
        let mut recording = Vec::new();
        for number in 0..RECORDING {
            let (store, shared) = (connect()?, Arc::clone(&shared));
            recording.push(thread::spawn(move || record(store, number, &shared)));
        }
        Ok(Self { shared, counting, recording })
    }

    /// From here on those that count make so many calls a second together, or as many as are answered.
    pub fn pace(&self, calls: f64) {
        let apart = Duration::from_secs_f64(COUNTING as f64 / calls.max(1.0));
        self.shared.apart.store(apart.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How many calls are answered in each second.
    pub fn seconds(&self, stage: &mut Stage<'_>, time: Duration) -> Result<Vec<u64>, String> {
        let (mut seconds, mut next) = (Vec::new(), Instant::now());
        let mut known = self.shared.answered.load(Ordering::Relaxed);
        for _ in 0..time.as_secs() {
            next += Duration::from_secs(1);
            stage.pass(next.saturating_duration_since(Instant::now()))?;
            let answered = self.shared.answered.load(Ordering::Relaxed);
            seconds.push(answered - known);
            known = answered;
        }
        Ok(seconds)
    }

    /// Ends them; returns the history.
    ///
    /// # Errors
    /// What a caller was told that cannot be, or why it got no answer.
    pub fn end(mut self) -> Result<Vec<Operation>, String> {
        self.shared.over.store(true, Ordering::Relaxed);
        for counting in std::mem::take(&mut self.counting) {
            counting.join().map_err(|_| "a caller failed".to_owned())??;
        }
        let mut operations = Vec::new();
        for recording in std::mem::take(&mut self.recording) {
            operations.extend(recording.join().map_err(|_| "a caller failed".to_owned())??);
        }
        Ok(operations)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

/// Sets a key of its own to the next number, if it holds the last one: a call that was lost, or came twice, shows at once.
fn count(mut store: Connected, number: usize, shared: &Shared) -> Result<(), String> {
    let (key, mut last, mut due) = (format!("count:{number}"), 0_u64, Instant::now());
    done(&store.call(&["SET", &key, "0", "NX"]).map_err(text)?)?;
    while !shared.over.load(Ordering::Relaxed) {
        let apart = Duration::from_nanos(shared.apart.load(Ordering::Relaxed));
        // Who is far behind starts afresh: a burst would not be the load that is asked for.
        due = (due + apart).max(Instant::now() - LATE);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let (old, new) = (last.to_string(), (last + 1).to_string());
        done(&store.call(&["SET", &key, &new, "IFEQ", &old]).map_err(text)?)?;
        last += 1;
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
    let held = store.call(&["GET", &key]).map_err(text)?;
    if held == Reply::Bulk(last.to_string().into()) { Ok(()) } else { Err(format!("{key} holds {held:?}, not {last}")) }
}

fn done(reply: &Reply) -> Result<(), String> {
    if *reply == Reply::Simple("OK") { Ok(()) } else { Err(format!("a call was lost or done twice: {reply:?}")) }
}

/// Reads and writes registers, and notes when.
fn record(mut store: Connected, caller: u64, shared: &Shared) -> Result<Vec<Operation>, String> {
    let (mut rng, mut operations) = (Rng::new(caller), Vec::new());
    while !shared.over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs_f64(rng.exponential(THINKS)));
        let key = rng.below(KEYS as u64) as usize;
        let number = operations.len() as u64 + 1;
        // No two requests write the same.
        let request = if rng.chance(0.5) { Request::Read } else { Request::Write(((caller + 1) << 32) + number) };
        let call = Call { caller, number, key, request };
        let from = now();
        let answer = ask(&mut store, &call)?;
        operations.push(Operation { call, from, outcome: Some((now(), answer)) });
    }
    Ok(operations)
}

fn ask(store: &mut Connected, call: &Call) -> Result<Answer, String> {
    let name = format!("register:{}", call.key);
    match call.request.written() {
        Some(value) => done(&store.call(&["SET", &name, &value.to_string()]).map_err(text)?).map(|()| Answer::Done),
        None => match store.call(&["GET", &name]).map_err(text)? {
            Reply::Nil => Ok(Answer::Held(0)),
            Reply::Bulk(value) => {
                let value = std::str::from_utf8(&value).ok().and_then(|value| value.parse().ok());
                value.map(Answer::Held).ok_or_else(|| format!("{name} holds no number"))
            }
            other => Err(format!("GET {name} was answered {other:?}")),
        },
    }
}
