//! A node of a cluster within the program that uses it: no daemon to start, watch and stop beside it.
//!
//! It is the daemon, on a thread of its own: it takes its place among the nodes of the cluster, daemons or embedded ones,
//! serves whoever connects, and shows in `consort status`. The program talks to it as to any daemon, with a [`Client`].
//!
//! ```no_run
//! use consort::embedded::Builder;
//! use consort::{ConnectOptions, GroupName, Service};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Builder::from_file("consort.toml").node(2).start()?;
//! let mut client = node.connect(&ConnectOptions::default())?;
//! let orders = GroupName::new("orders")?;
//! client.join(&orders)?;
//! client.multicast(Service::Safe, &[orders], b"a pound of tea")?;
//! client.wait_ordered(None)?;
//! node.leave()?;
//! # Ok(())
//! # }
//! ```
use crate::{Address, Client, ConnectOptions, Error, Status};
use consort_daemon::config::{self, Settings};
use consort_daemon::failure::{Failure, Outcome};
use consort_daemon::metrics::NoStatus;
use consort_daemon::run::{Ready, prepare};
use consort_daemon::runtime_dir::check_cluster;
use consort_net::Stop;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a node does not start, or ended. The text says what is wrong, where, and what to do.
#[derive(Debug)]
pub struct EmbedError(String);

impl std::fmt::Display for EmbedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EmbedError {}

impl From<Failure> for EmbedError {
    fn from(failure: Failure) -> Self {
        Self(failure.message)
    }
}

/// Which node of which cluster.
#[derive(Clone, Debug)]
pub struct Builder {
    source: SettingsSource,
    node: Option<u16>,
    state: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum SettingsSource {
    File(PathBuf),
    Local { cluster: String, nodes: u16 },
    Given(Box<Settings>),
}

impl Builder {
    /// A node of the cluster that this TOML file describes, the same file as the daemons'.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self { source: SettingsSource::File(path.into()), node: None, state: None }
    }

    /// A node of a cluster of up to so many nodes, 1 to 64, that all live on this machine: what `consort daemon --cluster
    /// NAME --nodes N` starts.
    pub fn on_this_machine(cluster: impl Into<String>, nodes: u16) -> Self {
        Self { source: SettingsSource::Local { cluster: cluster.into(), nodes }, node: None, state: None }
    }

    /// A node with settings that this program has made itself.
    #[doc(hidden)]
    pub fn from_settings(settings: Settings) -> Self {
        Self { source: SettingsSource::Given(Box::new(settings)), node: None, state: None }
    }

    /// Which node; without it the lowest free one that is at home on this machine.
    #[must_use]
    pub const fn node(mut self, id: u16) -> Self {
        self.node = Some(id);
        self
    }

    /// Where the node keeps its incarnation number, and with Ring Paxos its votes; without it `~/.local/state/consort`.
    #[must_use]
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// Starts it. Whether others are there shows in the views that a client asks for.
    ///
    /// # Errors
    /// A file with mistakes, a name or a number out of range, a node that is taken, addresses that are not this machine's.
    pub fn start(self) -> Result<Node, EmbedError> {
        let ready = prepare(self.settings()?, self.node, ask)?;
        let stop = Stop::new().map_err(|error| EmbedError(format!("cannot make a pair of sockets: {error}")))?;
        let address = Address::Unix(ready.card.socket.clone());
        let id = ready.card.node;
        let thread = run(ready, stop.clone(), id)?;
        Ok(Node { id, address, stop, thread: Some(thread) })
    }

    fn settings(&self) -> Outcome<Settings> {
        let mut settings = match &self.source {
            SettingsSource::File(path) => config::read(path)?,
            SettingsSource::Given(settings) => (**settings).clone(),
            SettingsSource::Local { cluster, nodes } => {
                check_cluster(cluster).map_err(|problem| Failure::usage(format!("cluster: {problem}")))?;
                if !(1..=64).contains(nodes) {
                    return Err(Failure::usage(format!("nodes: {nodes} does not fit; give a number from 1 to 64")));
                }
                Settings::local(cluster, *nodes)
            }
        };
        if let Some(state) = &self.state {
            settings.state = Some(state.clone());
        }
        settings.hand_on();
        Ok(settings)
    }
}

/// The metrics ask like any client.
fn ask(socket: &Path) -> Result<Vec<(String, String)>, NoStatus> {
    let options = ConnectOptions::default().without_shared_memory();
    let asked = Client::connect(&Address::Unix(socket.into()), &options)
        .and_then(|mut client| client.status(Duration::from_secs(5)).map(Status::into_pairs));
    asked.map_err(|error| match error {
        Error::Connect { .. } | Error::TimedOut { .. } | Error::ConnectionLost { .. } => {
            NoStatus::Silent(error.to_string())
        }
        _ => NoStatus::Refused(error.to_string()),
    })
}

fn run(ready: Ready, stop: Stop, id: u16) -> Result<JoinHandle<Outcome>, EmbedError> {
    let thread = std::thread::Builder::new().name(format!("consort-n{id}"));
    thread.spawn(|| ready.serve(stop)).map_err(|error| EmbedError(format!("cannot start a thread: {error}")))
}

/// A node that runs. Dropped, it leaves in good order, which takes at most about half a second.
#[derive(Debug)]
pub struct Node {
    id: u16,
    address: Address,
    stop: Stop,
    thread: Option<JoinHandle<Outcome>>,
}

impl Node {
    /// Which node of the cluster it is.
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Where it serves clients of this machine.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// A client of it. There may be many.
    ///
    /// # Errors
    /// As [`Client::connect`]; also when the node has ended.
    pub fn connect(&self, options: &ConnectOptions) -> Result<Client, Error> {
        Client::connect(&self.address, options)
    }

    /// Leaves the cluster in good order: the others are told, and its clients read what waits for them.
    ///
    /// # Errors
    /// Why it had ended before, if it had.
    pub fn leave(mut self) -> Result<(), EmbedError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), EmbedError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.stop.set();
        match thread.join() {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(EmbedError("the node's thread has panicked; the output of this program says where".into())),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "an embedded node had ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_the_same_to_it_as_to_a_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("consort.toml");
        let text = "cluster = \"c\"\nidling = \"latency\"\n[[node]]\nid = 1\naddress = \"127.0.0.1\"\n\
                    [spread]\nport = 4803\nmessages = 77\n";
        std::fs::write(&file, text).unwrap();
        let settings = Builder::from_file(&file).settings().unwrap();
        let daemon = {
            let mut settings = config::read(&file).unwrap();
            settings.hand_on();
            settings
        };
        assert_eq!((settings.ring.idling, settings.limits), (daemon.ring.idling, daemon.limits));
        assert_eq!(settings.profile, config::Profile::Latency);
        assert_eq!(settings.limits.spread_messages, Some(77));
    }

    #[test]
    fn what_cannot_start_says_why() {
        let problem = |builder: Builder| builder.start().unwrap_err().to_string();
        assert!(problem(Builder::on_this_machine("a/b", 3)).starts_with("cluster: `a/b` is no cluster name"));
        assert_eq!(problem(Builder::on_this_machine("c", 65)), "nodes: 65 does not fit; give a number from 1 to 64");
        assert!(problem(Builder::from_file("/nowhere.toml")).starts_with("cannot read /nowhere.toml: "));
        let stranger = Builder::on_this_machine("embedded-strangers", 2).node(3);
        assert_eq!(problem(stranger), "node 3: cluster `embedded-strangers` has no such node; it has 1, 2");
    }
}
