//! A daemon of one node, in a cluster and in folders of its own.
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// How often a start is tried: somebody else may take the port that was free.
const TRIES: usize = 5;
/// What stands in front of the socket's path in a daemon's first line.
const SERVES: &str = "serves clients at ";
/// What the socket file for clients of Spread is called.
const SPREAD_SOCKET: &str = "spread";

/// A running daemon. It is gone with its handle.
#[derive(Debug)]
pub struct Daemon {
    // Dropped in this order: the process before the folder it lives in.
    child: Process,
    unix: PathBuf,
    tcp: String,
    spread_tcp: String,
    tls: String,
    folder: TempDir,
}

/// Where its configuration stands.
#[derive(Clone, Copy)]
enum Configured<'a> {
    /// On its command line.
    Words { cluster: &'a str, words: &'a [&'a str] },
    /// In a file, which alone can place Spread's socket file.
    Spread { cluster: &'a str },
    /// In a file of this text, with TLS_PORT for its port of TLS.
    Sealed { text: &'a str, node: usize },
}

#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    /// Starts the program `consort` as a daemon that serves a Unix and a TCP socket, and waits until it does.
    ///
    /// # Errors
    /// If it cannot be started, or ends instead; its last words are told.
    pub fn start(program: &Path) -> io::Result<Self> {
        Self::start_in(program, Configured::Words { cluster: &new_cluster(), words: &["--nodes", "1"] })
    }

    /// As [`Self::start`], and it serves clients of Spread at sockets of its own.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_spread(program: &Path) -> io::Result<Self> {
        Self::start_in(program, Configured::Spread { cluster: &new_cluster() })
    }

    /// Starts three daemons of one cluster whose order lasts: two of them go on without the third.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_three(program: &Path) -> io::Result<[Self; 3]> {
        let cluster = new_cluster();
        let words = |node| ["--nodes", "3", "--protocol", "paxos", "--storage", "memory", "--node", node];
        let start = |node| Self::start_in(program, Configured::Words { cluster: &cluster, words: &words(node) });
        Ok([start("1")?, start("2")?, start("3")?])
    }

    /// Starts three daemons of one cluster that speak TLS with clients, with what else stands in their file: a section
    /// `[security]`, and rules.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_sealed(program: &Path, security: &str) -> io::Result<[Self; 3]> {
        tried(|| {
            let mut text = format!("cluster = \"{}\"\nmulticast = \"off\"\n", new_cluster());
            for node in 1..=3 {
                text += &format!("[[node]]\nid = {node}\naddress = \"127.0.0.1:{}\"\n", free_port()?);
            }
            text += &format!("[clients]\nlisten_tls = [\"127.0.0.1:TLS_PORT\"]\n{security}");
            let start = |node| Self::try_start(program, Configured::Sealed { text: &text, node });
            Ok([start(1)?, start(2)?, start(3)?])
        })
    }

    fn start_in(program: &Path, configured: Configured<'_>) -> io::Result<Self> {
        tried(|| Self::try_start(program, configured))
    }

    fn try_start(program: &Path, configured: Configured<'_>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("consort-conformance-").tempdir()?;
        let [tcp, spread_tcp, tls] = [free_port()?, free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let log = folder.path().join("log");
        let mut command = Command::new(program);
        command.args(["daemon", "--while-stdin-open", "--log", "warn", "--listen", &tcp]);
        match configured {
            Configured::Words { cluster, words } => command.args(words).args(["--cluster", cluster]),
            Configured::Spread { cluster } => {
                command.arg("--config").arg(configuration(folder.path(), cluster, &spread_tcp)?)
            }
            Configured::Sealed { text, node } => {
                let file = folder.path().join("consort.toml");
                fs::write(&file, text.replace("127.0.0.1:TLS_PORT", &tls))?;
                command.arg("--config").arg(file).args(["--node", &node.to_string()])
            }
        };
        command.arg("--state-dir").arg(folder.path().join("state"));
        command.env("CONSORT_RUNTIME_DIR", folder.path().join("run")).env_remove("CONSORT_LOG");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?).spawn()?;
        let mut child = Process(child);
        let mut ready = String::new();
        if let Some(out) = child.0.stdout.take() {
            BufReader::new(out).read_line(&mut ready)?;
        }
        let Some((_, unix)) = ready.trim_end().split_once(SERVES) else {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(io::Error::other(format!("the daemon did not start; it said: {said}")));
        };
        Ok(Self { child, unix: unix.into(), tcp, spread_tcp, tls, folder })
    }

    /// Where its Unix socket is.
    pub fn unix(&self) -> &Path {
        &self.unix
    }

    /// Its TCP address.
    pub fn tcp(&self) -> &str {
        &self.tcp
    }

    /// Where it speaks TLS, if it was started so.
    pub fn tls(&self) -> &str {
        &self.tls
    }

    /// Its socket file for clients of Spread, if it was started with one.
    pub fn spread_unix(&self) -> PathBuf {
        self.folder.path().join(SPREAD_SOCKET)
    }

    /// Its TCP address for clients of Spread, if it was started with one.
    pub fn spread_tcp(&self) -> &str {
        &self.spread_tcp
    }

    /// Asks it to end in good order, and waits until it has.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub fn stop(mut self) -> io::Result<()> {
        drop(self.child.0.stdin.take());
        let status = self.child.0.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("the daemon ended with {status}"))) }
    }

    /// Stops its process, so that it says nothing more and nothing tells that it is gone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn freeze(&self) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child.0), Signal::STOP).map_err(Into::into)
    }

    /// Ends it as a crash does.
    pub fn kill(self) {
        drop(self);
    }
}

/// Tries it again where it fails.
fn tried<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::other("it was not tried");
    for _ in 0..TRIES {
        match start() {
            Ok(started) => return Ok(started),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Writes the file of a cluster of one daemon that serves clients of Spread.
fn configuration(folder: &Path, cluster: &str, spread: &str) -> io::Result<PathBuf> {
    let node = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let (_, port) = spread.rsplit_once(':').unwrap_or_default();
    let socket = folder.join(SPREAD_SOCKET);
    let text = format!(
        "cluster = \"{cluster}\"\n[[node]]\nid = 1\naddress = \"{node}\"\n[spread]\nport = {port}\nunix = \"{}\"\n",
        socket.display()
    );
    let file = folder.join("consort.toml");
    fs::write(&file, text)?;
    Ok(file)
}

/// The name of a cluster of one's own.
fn new_cluster() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    format!("conformance-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}
