//! Servers of the store, as processes.
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use consort_kv::{Connected, Reply};
use rustix::process::Signal;

use super::super::stage::{Stage, text};
use crate::chaos::fleet::address;

/// The large state's values, and how many are put at a time.
const VALUE: usize = 16 << 10;
const AHEAD: usize = 32;
/// How long a server may take to answer, and to come back with its state.
const PATIENCE: Duration = Duration::from_secs(30);
const BACK: Duration = Duration::from_secs(120);
/// One in so many of the large values is looked at in the end.
const SAMPLE: usize = 97;

/// What becomes of the files of a server that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    Kept,
    Lost,
}

impl Files {
    pub const fn told(self) -> &'static str {
        match self {
            Self::Kept => "back with its files",
            Self::Lost => "back without its files",
        }
    }

    /// What the others must keep of their calls in the worst second; in a quiet one they keep 95 to 99 %. A server that was sent
    /// the state does in one go what it missed meanwhile, by the processors that it shares with them.
    pub const fn worst(self) -> f64 {
        match self {
            Self::Kept => 0.9,
            Self::Lost => 0.78,
        }
    }
}

/// A server that runs, or did; killed when dropped.
pub struct Server {
    file: PathBuf,
    state: PathBuf,
    node: usize,
    child: Child,
    said: Receiver<String>,
    pub address: String,
}

impl Server {
    /// One that joins at this node's daemon.
    pub fn start(file: &Path, directory: &Path, node: usize) -> Result<Self, String> {
        let state = directory.join(format!("store-{node}"));
        let (child, said) = spawn(Command::new(file), &state, &daemon(directory, node))?;
        Ok(Self { file: file.to_owned(), state, node, child, said, address: String::new() })
    }

    /// Whether it is up to date. Then its address is known.
    pub fn is_ready(&mut self) -> Result<bool, String> {
        match self.said.try_recv() {
            Ok(line) => {
                self.address = line.rsplit_once(' ').map(|(_, address)| address.to_owned()).unwrap_or_default();
                Ok(true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(format!("the server at node {} has ended", self.node + 1)),
        }
    }

    pub fn ready(&mut self, stage: &mut Stage<'_>, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        while !self.is_ready()? {
            if Instant::now() > deadline {
                return Err(format!("the server at node {} is not ready within {within:?}", self.node + 1));
            }
            stage.pass(Duration::from_millis(20))?;
        }
        Ok(())
    }

    pub fn kill(&mut self, files: Files) -> Result<(), String> {
        self.child.kill().map_err(text)?;
        self.child.wait().map_err(text)?;
        if files == Files::Lost { std::fs::remove_dir_all(&self.state).map_err(text) } else { Ok(()) }
    }

    /// Starts again with what it has kept, behind all others: on a host of its own it would take no processor from them.
    pub fn begin(&mut self, directory: &Path) -> Result<(), String> {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(&self.file);
        (self.child, self.said) = spawn(command, &self.state, &daemon(directory, self.node))?;
        Ok(())
    }

    /// Ends it in good order, with a checkpoint of all, and starts it again.
    pub fn start_again(&mut self, stage: &mut Stage<'_>) -> Result<(), String> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, Signal::TERM).map_err(text)?;
        let deadline = Instant::now() + BACK;
        while self.child.try_wait().map_err(text)?.is_none() {
            if Instant::now() > deadline {
                return Err(format!("the server at node {} does not end", self.node + 1));
            }
            stage.pass(Duration::from_millis(20))?;
        }
        self.begin(stage.directory)?;
        self.ready(stage, BACK)
    }

    pub fn connect(&self) -> Result<Connected, String> {
        let mut connected = Connected::to(&self.address, PATIENCE).map_err(text)?;
        connected.set_timeout(Some(PATIENCE)).map_err(text)?;
        Ok(connected)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill(Files::Kept);
    }
}

fn daemon(directory: &Path, node: usize) -> String {
    address(directory, node).to_string()
}

/// Only a checkpoint at its end is wanted: one in between would be measured, too.
fn spawn(mut command: Command, state: &Path, daemon: &str) -> Result<(Child, Receiver<String>), String> {
    command.args(["kv", "serve", "--listen", "127.0.0.1:0", "--partitions", "2", "--founders", "2"]);
    // A server with its files is then sent what it missed, and not the whole state.
    command.args(["--memory", "16GiB", "--log-bytes", "1GiB", "--checkpoint-every", "100000000"]);
    command.args(["--daemon", daemon, "--state"]).arg(state);
    let log = File::options().create(true).append(true).open(state.with_extension("log")).map_err(text)?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().map_err(text)?;
    let out = child.stdout.take().ok_or("a server has no standard output")?;
    let (tell, said) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.filter(|line| line.starts_with("ready:")).try_for_each(|line| tell.send(line))
    });
    Ok((child, said))
}

fn key(at: u64) -> String {
    format!("large:{at}")
}

fn value(at: u64) -> Vec<u8> {
    at.to_be_bytes().into_iter().cycle().take(VALUE).collect()
}

/// Puts values until there are so many bytes; returns how many there are.
pub fn fill(stage: &mut Stage<'_>, servers: &[Server], bytes: u64) -> Result<u64, String> {
    let (count, mut store) = (bytes.div_ceil(VALUE as u64), servers[0].connect()?);
    let mut under_way = 0;
    for at in 0..count {
        store.add(&[b"SET", key(at).as_bytes(), &value(at)]);
        under_way += 1;
        if under_way == AHEAD || at + 1 == count {
            store.flush().map_err(text)?;
            for _ in 0..under_way {
                done(&store.receive().map_err(text)?)?;
            }
            under_way = 0;
            stage.pass(Duration::ZERO)?;
        }
    }
    Ok(count * VALUE as u64)
}

fn done(reply: &Reply) -> Result<(), String> {
    if *reply == Reply::Simple("OK") { Ok(()) } else { Err(format!("a SET was answered {reply:?}")) }
}

/// What servers hold otherwise than each other, or than they should: how many keys, or a value of a sample.
pub fn same(servers: &[Server], bytes: u64) -> Result<Option<String>, String> {
    let mut all = servers.iter().map(Server::connect).collect::<Result<Vec<_>, _>>()?;
    let mut ask = |words: &[Vec<u8>]| {
        all.iter_mut().map(|server| server.call(words).map_err(text)).collect::<Result<Vec<_>, _>>()
    };
    let counts = ask(&[b"DBSIZE".to_vec()])?;
    if counts.iter().any(|other| *other != counts[0]) {
        return Ok(Some(format!("the servers hold {counts:?} keys")));
    }
    for at in (0..bytes / VALUE as u64).step_by(SAMPLE) {
        let values = ask(&[b"GET".to_vec(), key(at).into_bytes()])?;
        if let Some(node) = values.iter().position(|held| *held != Reply::Bulk(value(at).into())) {
            return Ok(Some(format!("the server at node {} does not hold the value of {}", node + 1, key(at))));
        }
    }
    Ok(None)
}
