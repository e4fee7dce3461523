//! A server of a store that joins at the attacked daemon, and the good client of it.
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use consort_daemon::usage::{memory, resident};
use consort_kv::limits::{ANSWER_MAX, REQUEST_MAX};
use consort_kv::{Connected, Limits, Reply};

use super::ATTACKED;
use super::attacks::stored;
use super::times::Times;
use crate::chaos::fleet::address;
use crate::trials::outcome::AT_REST;
use crate::trials::stage::{Stage, text};

/// What the server may hold of keys and values, and of commands for other servers; and how many connections it may have.
const VALUES: u64 = 64 << 20;
const COMMANDS: u64 = 16 << 20;
const CONNECTIONS: u64 = 128;
/// How long it may take to be ready, and how often that is asked.
const READY: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_millis(20);
/// How long it may take to answer, and how often the good client asks.
const PATIENCE: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(2);
/// The key of the good client.
const KEY: &str = "good";

/// A server that runs, or did; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
    pub address: String,
}

impl Server {
    /// One of an identity that is not the hostile client's. It has what the attacks read.
    ///
    /// # Errors
    /// It does not start, or takes nothing.
    pub fn start(stage: &mut Stage<'_>, program: &Path, token: &str) -> Result<Self, String> {
        let log = stage.directory.join("store.log");
        let mut command = Command::new(program);
        command.args(["kv", "serve", "--listen", "127.0.0.1:0", "--partitions", "2"]);
        for (option, value) in [("--memory", VALUES), ("--log-bytes", COMMANDS), ("--connections", CONNECTIONS)] {
            command.arg(option).arg(value.to_string());
        }
        command.arg("--daemon").arg(address(stage.directory, ATTACKED).to_string()).env("CONSORT_TOKEN", token);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log).map_err(text)?);
        let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let mut server = Self { child, log, address: String::new() };
        let out = server.child.stdout.take().ok_or("the store has no standard output")?;
        server.address = ready(stage, &lines(out))?;
        server.fill()?;
        Ok(server)
    }

    fn fill(&self) -> Result<(), String> {
        let mut store = connect(&self.address)?;
        for (key, value) in stored() {
            let reply = store.call(&["SET".as_bytes(), key.as_bytes(), value]).map_err(text)?;
            if reply != Reply::Simple("OK") {
                return Err(format!("the store answers {reply:?} to what it is to have"));
            }
        }
        Ok(())
    }

    /// What has become of it that must not; `None` while it is well.
    pub fn problem(&self) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let problem = match (log.contains("panicked at"), resident(self.child.id())) {
            (true, _) => "has panicked".to_owned(),
            (false, None) => format!("has ended: {}", log.lines().next_back().unwrap_or("it said nothing")),
            (false, Some(_)) => return None,
        };
        Some(format!("the server of the store {problem}"))
    }

    /// The most that it had resident, in bytes.
    pub fn peak(&self) -> u64 {
        memory(self.child.id(), "VmHWM:").unwrap_or(0)
    }

    /// What it may have resident, in bytes: twice what it holds, since a value that is replaced may still be read; what is on
    /// its way; and for each connection twice the largest request and the largest answer, because rooms that grow are doubled.
    pub fn budget() -> u64 {
        let each = 2 * (REQUEST_MAX + ANSWER_MAX) as u64;
        AT_REST + 2 * VALUES + COMMANDS + Limits::default().under_way as u64 + CONNECTIONS * each
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each line that says where a server is ready.
fn lines(out: ChildStdout) -> Receiver<String> {
    let (say, said) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.filter(|line| line.starts_with("ready:")).try_for_each(|line| say.send(line))
    });
    said
}

/// The address in the first of these lines, behind its last space.
fn ready(stage: &mut Stage<'_>, said: &Receiver<String>) -> Result<String, String> {
    let deadline = Instant::now() + READY;
    loop {
        match said.try_recv() {
            Ok(line) => return Ok(line.rsplit_once(' ').map(|(_, address)| address.to_owned()).unwrap_or_default()),
            Err(TryRecvError::Empty) if Instant::now() < deadline => stage.pass(TURN)?,
            Err(TryRecvError::Empty) => return Err(format!("the store is not ready within {READY:?}")),
            Err(TryRecvError::Disconnected) => return Err("the server of the store has ended".into()),
        }
    }
}

fn connect(address: &str) -> Result<Connected, String> {
    let mut store = Connected::to(address, PATIENCE).map_err(text)?;
    store.set_timeout(Some(PATIENCE)).map_err(text)?;
    Ok(store)
}

/// The good client of the store.
#[derive(Debug)]
pub struct Caller {
    address: String,
    /// When each call was sent, and how long it took.
    pub took: Times,
    has_ended: AtomicBool,
}

impl Caller {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), took: Times::default(), has_ended: AtomicBool::new(false) }
    }

    /// Sets and gets one key until all is over.
    ///
    /// # Errors
    /// Its connection has ended, or a call was not answered in time.
    pub fn run(&self, over: &AtomicBool) -> Result<(), String> {
        let called = self.call_until(over);
        self.has_ended.store(true, Ordering::Relaxed);
        called.map_err(|error| format!("the good client of the store: {error}"))
    }

    /// Whether it calls no more.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn call_until(&self, over: &AtomicBool) -> Result<(), String> {
        let (mut store, mut next) = (connect(&self.address)?, Instant::now());
        let calls: [&[&str]; 2] = [&["SET", KEY, "value"], &["GET", KEY]];
        for call in calls.into_iter().cycle() {
            if over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let begun = Instant::now();
            store.call(call).map_err(text)?;
            self.took.note(begun);
            next = (next + EVERY).max(begun);
        }
        Ok(())
    }
}
