//! `consort-chaos candidate`: one candidate as a process of its own, which trials stop and kill. It prints each look at its
//! lease: `fence read until`, times in nanoseconds of `CLOCK_BOOTTIME`.
use consort::{Address, ConnectOptions, GroupName, SessionOptions};
use consort_leader::{Fence, Leadership, LeadershipEvent, LeadershipOptions, Timing};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long its lease lasts.
pub const LEASE: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
const GROUP: &str = "lead";

/// A lease as a candidate saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Look {
    /// When.
    pub read: u64,
    pub fence: Fence,
    pub until: u64,
    /// Which of the processes.
    pub candidate: u64,
}

/// A candidate that runs; killed when dropped.
#[derive(Debug)]
pub struct Candidate {
    child: Child,
    number: u64,
    looks: Receiver<Look>,
}

/// Runs the task with the addresses of daemons.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("candidate: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let daemons = words.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
    let connect = ConnectOptions::default().without_shared_memory();
    let session = SessionOptions::default().connect(connect).reconnect_within(Duration::from_secs(120));
    let options = LeadershipOptions::default().session(session).timing(Timing::new(LEASE, 1_000)?);
    let leadership = Leadership::join(&daemons, &GroupName::new(GROUP)?, options)?;
    let mut out = std::io::stdout().lock();
    loop {
        if let Some(lease) = leadership.lease() {
            writeln!(out, "{} {} {}", lease.fence, lease.read.0, lease.until.0)?;
        }
        if let Some(LeadershipEvent::Ended(error)) = leadership.receive(LOOK)? {
            return Err(error.into());
        }
    }
}

impl Candidate {
    /// Starts a process, the one of this number.
    pub fn start(daemons: &[String], number: u64) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg("candidate").args(daemons).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| std::io::Error::other("a candidate has no standard output"))?;
        let (tell, looks) = channel();
        let read = move |line: String| {
            let mut words = line.split(' ');
            let fence = words.next()?.parse().ok()?;
            let (read, until) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Look { read, fence, until, candidate: number })
        };
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.filter_map(read).try_for_each(|look| tell.send(look))
        });
        Ok(Self { child, number, looks })
    }

    /// Which of the processes it is.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// What it has seen since this was asked last.
    pub fn looks(&self) -> impl Iterator<Item = Look> {
        self.looks.try_iter()
    }

    pub fn signal(&self, signal: rustix::process::Signal) -> Result<(), String> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).map_err(|error| format!("a candidate has ended by itself: {error}"))
    }

    /// Whether it still runs.
    pub fn incarnations(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
