//! Real daemons and real clients, each a process of this program, set up for a demonstration or a measurement and gone
//! when it is over.

pub mod figures;
mod floods;
pub mod helper;
pub mod job;
mod message;
mod process;
mod receiver;
mod round;
mod sender;
mod sequence;
mod watch;

pub use floods::FloodPlan;
pub use message::HEADER;
pub use process::{Line, Process};
pub use round::{Result as RoundResult, Round};

use crate::clock;
use crate::failure::{Code, Failure, Outcome, Trying};
use crate::local::LocalCluster;
use crate::place::{Card, Place};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A receiver that gets no CPU time for a while on a crowded machine is slow, not wrong.
const CLIENT_OUTPUT: &str = "512MiB";

/// Daemons on this machine, in a directory and a cluster of their own.
pub struct Lab {
    // Dropped in this order: processes before the directory they live in.
    daemons: Vec<Process>,
    lines: Receiver<Line>,
    tell: Sender<Line>,
    interrupted: Arc<AtomicBool>,
    cluster: String,
    directory: TempDir,
    /// How many processes were started so far; each is known by its number.
    started: usize,
}

impl Lab {
    /// Starts `nodes` daemons with further options, and waits until each serves clients.
    pub fn start(nodes: u16, options: &[String]) -> Outcome<Self> {
        let directory = tempfile::Builder::new().prefix("consort-").tempdir();
        let directory = directory.trying(|| "cannot make a temporary directory; set TMPDIR to one with room".into())?;
        let (tell, lines) = channel();
        let cluster = unused_cluster(nodes);
        let interrupted = watch_for_interrupt()?;
        let mut lab = Self { daemons: Vec::new(), lines, tell, interrupted, cluster, directory, started: 0 };
        for node in 1..=nodes {
            lab.start_daemon(node, nodes, options)?;
        }
        let deadline = clock::now_ns() + 10_000_000_000;
        for _ in 0..nodes {
            let line = lab.line(deadline, "the daemons to start")?;
            if !line.text.is_some_and(|text| text.starts_with("ready")) {
                return Err(lab.daemons[line.from].ended());
            }
        }
        Ok(lab)
    }

    fn start_daemon(&mut self, node: u16, nodes: u16, options: &[String]) -> Outcome {
        let state = self.directory.path().join("state").display().to_string();
        let numbers = [node, nodes].map(|number| number.to_string());
        let fixed = ["daemon", "--while-stdin-open", "--log", "warn", "--client-output", CLIENT_OUTPUT];
        let mut words = fixed.map(String::from).to_vec();
        let own =
            [("--cluster", &self.cluster), ("--state-dir", &state), ("--node", &numbers[0]), ("--nodes", &numbers[1])];
        words.extend(own.into_iter().flat_map(|(option, value)| [option.to_owned(), value.clone()]));
        words.extend_from_slice(options);
        let number = self.daemons.len();
        let process = Process::start(number, &format!("daemon-{node}"), &words, self.directory.path(), &self.tell)?;
        self.daemons.push(process);
        self.started += 1;
        Ok(())
    }

    /// The daemons' processes.
    pub fn daemons(&self) -> &[Process] {
        &self.daemons
    }

    /// The directory that goes away with the lab.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The socket of a node's daemon.
    pub fn door(&self, node: u16) -> PathBuf {
        self.place().door(node)
    }

    /// The daemons' cards.
    pub fn cards(&self) -> Vec<Card> {
        self.place().running()
    }

    fn place(&self) -> Place {
        Place::of(&self.directory.path().join("run"), &self.cluster)
    }

    /// The next line of any process; an error on Ctrl-C, when time is up, or when a daemon is gone.
    fn line(&mut self, deadline: u64, waiting_for: &str) -> Outcome<Line> {
        loop {
            self.check()?;
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if clock::now_ns() < deadline => {}
                Err(_) => return Err(Failure::new(format!("waited too long for {waiting_for}")).with(Code::Timeout)),
            }
        }
    }

    /// Sleeps until a time of the shared clock, unless something goes wrong before.
    fn sleep_until(&mut self, at: u64) -> Outcome {
        while let Some(left) = at.checked_sub(clock::now_ns()).filter(|left| *left > 0) {
            self.check()?;
            std::thread::sleep(Duration::from_nanos(left.min(50_000_000)));
        }
        Ok(())
    }

    fn check(&mut self) -> Outcome {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted; all processes were ended").with(Code::Interrupted));
        }
        match self.daemons.iter_mut().find_map(|daemon| daemon.has_ended().then(|| daemon.ended())) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Ends the daemons in good order.
    pub fn stop(mut self) {
        self.daemons.drain(..).for_each(Process::stop);
    }
}

/// The lines of a text, without the ends; a last one without an end counts too.
pub fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let count = if text.is_empty() { 0 } else { usize::MAX };
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').take(count)
}

/// Ctrl-C and SIGTERM set a flag, so that everything is put away on the way out.
fn watch_for_interrupt() -> Outcome<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).trying(|| "cannot watch for Ctrl-C".into())?;
    }
    Ok(flag)
}

/// A cluster name of our own, whose ports nobody uses.
fn unused_cluster(nodes: u16) -> String {
    let name = |attempt: u32| format!("lab-{}-{attempt}", std::process::id());
    let free = |name: &String| {
        let addresses = LocalCluster::new(name, nodes);
        (1..=nodes)
            .flat_map(|node| [addresses.token(node), addresses.data(node)])
            .all(|address| UdpSocket::bind(address).is_ok())
    };
    (0..100).map(name).find(free).unwrap_or_else(|| name(0))
}
