//! Runs the real program: daemons in a directory and a cluster of their own, commands with a time limit, and nothing
//! left behind.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, reason = "tests run real processes")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program that is tried.
const PROGRAM: &str = match (option_env!("CARGO_BIN_EXE_consort"), option_env!("CARGO_BIN_EXE_consort-bench")) {
    (Some(consort), _) => consort,
    (None, Some(bench)) => bench,
    (None, None) => panic!("these tests belong to a program"),
};
/// No command of these tests takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// How many ports a node takes from its first on, and one.
const PORTS: u16 = 4;

/// A port that is free for UDP and for TCP at all addresses, as are the next ones that a node takes from there on. The
/// kernel never hands them out by itself, as it might its ephemeral ports, between this and their use.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(61);
    let free = |port: u16| UdpSocket::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok();
    let mut ports = std::iter::repeat_with(|| {
        let asked = first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        10_000 + PORTS * (asked % 5_000) as u16
    });
    let all_free = |first: &u16| (*first..*first + PORTS).all(free);
    ports.by_ref().take(1_000).find(all_free).expect("some of a thousand ports should be free")
}

/// A runtime directory, a state directory and a cluster of one test's own.
pub struct World {
    directory: TempDir,
    pub cluster: String,
}

/// A daemon that runs; killed when dropped.
pub struct Daemon {
    child: Child,
    pub ready: String,
    errors: Receiver<String>,
}

/// A command that runs; killed when dropped.
pub struct Running {
    child: Child,
    words: String,
    out: Receiver<String>,
    errors: Receiver<String>,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub errors: String,
}

impl World {
    pub fn new() -> Self {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new().prefix("consort-test-").tempdir().unwrap();
        Self { directory, cluster: format!("test-{}-{number}", std::process::id()) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Leaves all files where they are, for inspection; returns where that is.
    pub fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn socket_path(&self, node: u16) -> PathBuf {
        self.path("run").join(&self.cluster).join(format!("node-{node}.sock"))
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("CONSORT_RUNTIME_DIR", self.path("run")).env("XDG_STATE_HOME", self.path("state"));
        command.env_remove("CONSORT_LOG").env("TMPDIR", self.directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a daemon of this world's cluster and waits until it serves.
    pub fn daemon(&self, words: &[&str]) -> Daemon {
        let cluster = self.cluster.clone();
        let all: Vec<&str> = ["daemon", "--cluster", &cluster].iter().chain(words).copied().collect();
        self.daemon_as(&all)
    }

    /// Starts a daemon with exactly these words and waits until it serves.
    pub fn daemon_as(&self, words: &[&str]) -> Daemon {
        let mut running = self.start(words, None);
        match running.out.recv_timeout(PATIENCE) {
            Ok(ready) => {
                let (child, errors) = running.take();
                Daemon { child, ready, errors }
            }
            Err(_) => panic!("the daemon did not start: {:?}", running.wait()),
        }
    }

    pub fn daemons(&self, count: usize, words: &[&str]) -> Vec<Daemon> {
        let nodes = count.to_string();
        let all: Vec<&str> = ["--nodes", &nodes].iter().chain(words).copied().collect();
        (0..count).map(|_| self.daemon(&all)).collect()
    }

    /// Starts a command; `input` is what it reads, nothing where none is given but then its input stays open.
    pub fn start(&self, words: &[&str], input: Option<&[u8]>) -> Running {
        self.start_with(words, input, Stdio::piped())
    }

    /// Starts a command whose standard output goes elsewhere.
    pub fn start_into(&self, words: &[&str], out: Stdio) -> Running {
        self.start_with(words, None, out)
    }

    /// Starts a command as what another program starts, for example `nohup`; its input stays open.
    pub fn start_below(&self, front: &[&str], words: &[&str]) -> Running {
        let plain = self.command(words);
        let Some((program, options)) = front.split_first() else { return Self::begin(plain, words, None) };
        let mut command = Command::new(program);
        command.args(options).arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::begin(command, words, None)
    }

    fn start_with(&self, words: &[&str], input: Option<&[u8]>, out: Stdio) -> Running {
        let mut command = self.command(words);
        command.stdout(out);
        Self::begin(command, words, input)
    }

    /// Starts a command that was made elsewhere, for example one that runs as another user.
    pub fn begin(mut command: Command, words: &[&str], input: Option<&[u8]>) -> Running {
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().map_or_else(|| channel().1, forward);
        let errors = forward(child.stderr.take().unwrap());
        if let Some(input) = input {
            let (mut pipe, input) = (child.stdin.take().unwrap(), input.to_vec());
            std::thread::spawn(move || pipe.write_all(&input));
        }
        Running { child, words: words.join(" "), out, errors }
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&str]) -> Ran {
        self.run_with(words, b"")
    }

    pub fn run_with(&self, words: &[&str], input: &[u8]) -> Ran {
        self.start(words, Some(input)).wait()
    }
}

impl Running {
    /// The next line on standard error that contains `text`.
    pub fn says(&self, text: &str) -> String {
        self.find(&self.errors, text)
    }

    /// The next line on standard output that contains `text`.
    pub fn prints(&self, text: &str) -> String {
        self.find(&self.out, text)
    }

    fn find(&self, lines: &Receiver<String>, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("`consort {}` never said `{text}`, but: {seen:?}", self.words);
    }

    /// Writes to its standard input.
    pub fn tell(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("its input is open");
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).unwrap();
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Whether its process is there yet.
    pub fn goes_on(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn wait(&mut self) -> Ran {
        let code = wait(&mut self.child, &self.words);
        Ran { code, out: rest(&self.out), errors: rest(&self.errors) }
    }

    fn take(mut self) -> (Child, Receiver<String>) {
        let replace = || Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        (std::mem::replace(&mut self.child, replace()), std::mem::replace(&mut self.errors, channel().1))
    }
}

impl Daemon {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end and returns exit code and log.
    pub fn wait(&mut self) -> (i32, String) {
        (wait(&mut self.child, "daemon"), rest(&self.errors))
    }

    /// The next line of its log that contains `text`.
    pub fn says(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.errors.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("the daemon never said `{text}`");
    }

    pub fn incarnations(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process is there.
pub fn incarnations(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn forward(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

fn rest(lines: &Receiver<String>) -> String {
    lines.iter().map(|line| line + "\n").collect()
}

fn wait(child: &mut Child, words: &str) -> i32 {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("`consort {words}` did not end in {PATIENCE:?}");
}
