//! The daemons: started, killed, stopped, asked to leave, and watched.
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions};
use consort_sim::fault::Disk;
use consort_sim::trace::witness::SessionEnding;
use rustix::process::Signal;

use super::board::Board;
use super::networks::networks;
use super::options::Retain;
use super::outcome::ChaosError;
use consort_daemon::config::{Protocol, Storage};
use consort_daemon::usage::resident;
use consort_testbed::SmallDisk;
use consort_testbed::network::Network;
use consort_testbed::network::memory::Course;
use consort_testbed::network::namespace::{NetworkError, failed};
use consort_testbed::network::process::Process;

/// The cluster's name.
pub const CLUSTER: &str = "chaos";
/// Where a daemon also serves clients within its namespace.
const LISTEN: &str = "127.0.0.1:4840";
/// How many bytes a disk that can be filled takes otherwise.
const DISK: u64 = 1 << 30;
/// How long a daemon may need to end when asked to.
const LEAVE: Duration = Duration::from_secs(15);
/// How long a daemon may take to say how it is.
const ANSWER: Duration = Duration::from_secs(2);

/// All daemons of a run.
pub struct Fleet<'a> {
    network: &'a Network,
    board: &'a Board,
    file: PathBuf,
    directory: PathBuf,
    homes: Vec<Home>,
    times_full: usize,
}

#[derive(Default)]
struct Home {
    running: Option<Process>,
    /// Asked to end, by then.
    leaving: Option<(Process, Instant)>,
    stopped: bool,
    /// Where its state is kept, if not on the disk of all.
    disk: Option<SmallDisk>,
    /// That disk is full, and its daemon is about to end.
    full: bool,
    incarnations: usize,
    memory: Course,
}

impl<'a> Fleet<'a> {
    /// Prepares the directory for daemons with these files; starts nothing yet. Each lives in the namespace of its number,
    /// or all in the one that there is.
    ///
    /// # Errors
    /// The system's.
    pub fn new(
        network: &'a Network,
        board: &'a Board,
        file: PathBuf,
        directory: &Path,
        files: &[String],
    ) -> Result<Self, NetworkError> {
        let homes = files.iter().map(|_| Home::default()).collect();
        let fleet = Self { network, board, file, directory: directory.to_owned(), homes, times_full: 0 };
        let write = || -> std::io::Result<()> {
            files.iter().enumerate().try_for_each(|(node, text)| {
                std::fs::create_dir(place(directory, node))?;
                std::fs::write(fleet.config(node), text)
            })
        };
        write().map_err(failed(format!("write to {}", directory.display())))?;
        Ok(fleet)
    }

    /// Starts a node's daemon; waits first for one that is still leaving.
    ///
    /// # Errors
    /// The system's; or that the one before does not end.
    pub fn start(&mut self, node: usize) -> Result<(), ChaosError> {
        while self.homes[node].leaving.is_some() {
            self.watch_leaving(node)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        let (config, state) = (self.config(node), self.state(node));
        let home = &mut self.homes[node];
        home.incarnations += 1;
        let name = incarnation_name(node, home.incarnations as u64);
        let mut command = Command::new(&self.file);
        command.arg("daemon").arg("--config").arg(config);
        command.args(["--node", &(node + 1).to_string(), "--while-stdin-open", "--state-dir"]);
        command.arg(state).env("CONSORT_RUNTIME_DIR", place(&self.directory, node));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        home.running =
            Some(Process::start(self.network, node % self.network.nodes(), &name, &self.directory, &mut command)?);
        home.stopped = false;
        self.board.begins(node);
        Ok(())
    }

    /// Kills a daemon; its state directory may go with it.
    ///
    /// # Errors
    /// That it had ended by itself; or the system's.
    pub fn kill(&mut self, node: usize, disk: Disk) -> Result<(), ChaosError> {
        self.runs(node)?;
        self.board.ends(node, SessionEnding::Crashed);
        self.homes[node].running = None;
        if disk == Disk::Lost {
            lose(&self.state(node)).map_err(failed("remove a state directory"))?;
        }
        Ok(())
    }

    /// A node's state is kept on a disk of its own from here on.
    ///
    /// # Errors
    /// The system's.
    pub fn give_small_disk(&mut self, node: usize) -> Result<(), ChaosError> {
        self.homes[node].disk =
            Some(SmallDisk::mount(&disk(&self.directory, node), DISK).map_err(failed("mount a disk"))?);
        Ok(())
    }

    /// The disk of a node's state takes nothing more.
    ///
    /// # Errors
    /// That its daemon had ended by itself; or the system's.
    pub fn fill(&mut self, node: usize) -> Result<(), ChaosError> {
        self.runs(node)?;
        self.board.ends(node, SessionEnding::Crashed);
        let home = &mut self.homes[node];
        home.full = true;
        let disk = home.disk.as_ref().ok_or(ChaosError::Bug("a disk that cannot be filled"))?;
        Ok(disk.fill().map_err(failed("fill a disk"))?)
    }

    /// There is room again. Its daemon must have ended and said why, unless it had nothing to write; it is started again.
    ///
    /// # Errors
    /// That it ended otherwise; or the system's.
    pub fn empty(&mut self, node: usize) -> Result<(), ChaosError> {
        let home = &mut self.homes[node];
        home.full = false;
        if let Some(mut process) = home.running.take()
            && let Some(status) = process.ended()?
        {
            // As it wrote to its records, or, just started, as it opened them.
            if status.code() != Some(1) || !process.has_said("; free some space and start again") {
                return Err(process.failed(format!("had a full disk and ended with {status}")).into());
            }
            self.times_full += 1;
        }
        home.disk.iter().try_for_each(|disk| disk.resize(DISK)).map_err(failed("empty a disk"))?;
        self.start(node)
    }

    /// How often a daemon ended because its disk was full, and said so.
    pub const fn times_full(&self) -> usize {
        self.times_full
    }

    /// Asks a daemon to end.
    ///
    /// # Errors
    /// That it had ended by itself.
    pub fn ask_to_leave(&mut self, node: usize) -> Result<(), ChaosError> {
        self.runs(node)?;
        self.board.ends(node, SessionEnding::Left);
        let home = &mut self.homes[node];
        if let Some(process) = home.running.take() {
            process.signal(Signal::TERM);
            home.leaving = Some((process, Instant::now() + LEAVE));
        }
        Ok(())
    }

    /// Stops a daemon, or lets it go on.
    pub fn stop(&mut self, node: usize, stopped: bool) {
        let home = &mut self.homes[node];
        home.stopped = stopped;
        if let Some(process) = &home.running {
            process.signal(if stopped { Signal::STOP } else { Signal::CONT });
        }
    }

    /// The same for all.
    pub fn stop_all(&mut self, stopped: bool) {
        (0..self.homes.len()).for_each(|node| self.stop(node, stopped));
    }

    /// Brings everybody back: daemons that are down are started, those that are stopped go on.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn revive(&mut self) -> Result<(), ChaosError> {
        for node in 0..self.homes.len() {
            if self.homes[node].full {
                self.empty(node)?;
            } else if self.homes[node].running.is_none() {
                self.start(node)?;
            } else if self.homes[node].stopped {
                self.stop(node, false);
            }
        }
        Ok(())
    }

    /// Sees that every daemon runs that should, and that those asked to leave do.
    ///
    /// # Errors
    /// That one has ended by itself, or badly, or not in time.
    pub fn watch(&mut self) -> Result<(), ChaosError> {
        for node in 0..self.homes.len() {
            self.runs(node)?;
            self.watch_leaving(node)?;
        }
        Ok(())
    }

    /// Notes what each daemon holds in memory.
    pub fn sample(&mut self) {
        for home in &mut self.homes {
            let held = home.running.as_ref().and_then(|process| resident(process.id()));
            held.into_iter().for_each(|bytes| home.memory.push(bytes));
        }
    }

    /// How often daemons started anew by themselves.
    pub fn times_started_anew(&self) -> usize {
        let incarnations =
            |node: usize| (1..=self.homes[node].incarnations as u64).map(move |incarnation| (node, incarnation));
        let all = (0..self.homes.len()).flat_map(incarnations);
        all.map(|(node, incarnation)| times_started_anew(&self.directory, node, incarnation)).sum()
    }

    /// Ends all daemons in good order and says what became of each: how many incarnations it had, and its memory.
    ///
    /// # Errors
    /// That one does not end, or badly.
    pub fn finish(mut self) -> Result<Vec<(usize, Course)>, ChaosError> {
        (0..self.homes.len()).try_for_each(|node| self.ask_to_leave(node))?;
        while self.homes.iter().any(|home| home.leaving.is_some()) {
            (0..self.homes.len()).try_for_each(|node| self.watch_leaving(node))?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self.homes.into_iter().map(|home| (home.incarnations, home.memory)).collect())
    }

    /// Writes down what each daemon that answers says of itself, for whoever looks into a red run.
    pub fn describe(&self) {
        for node in (0..self.homes.len()).filter(|node| !self.homes[*node].stopped) {
            let text = match self.status(node) {
                Ok(status) => status.iter().map(|(key, value)| format!("{key:<28} {value}\n")).collect(),
                Err(error) => format!("{error}\n"),
            };
            // What cannot be written is missed in the directory.
            let _ = std::fs::write(self.directory.join(format!("status-{}.txt", node + 1)), text);
        }
    }

    /// What a daemon says of itself.
    ///
    /// # Errors
    /// That it does not answer in time.
    pub fn status(&self, node: usize) -> Result<consort::Status, consort::Error> {
        let options = ConnectOptions::default().connect_within(ANSWER);
        Client::connect(&address(&self.directory, node), &options).and_then(|mut me| me.status(ANSWER))
    }

    /// Has a node's daemon read its files again.
    pub fn reload(&self, node: usize) {
        self.homes[node].running.iter().for_each(|process| process.signal(Signal::HUP));
    }

    /// Whether a node's daemon that runs has said this on its standard error.
    pub fn has_said(&self, node: usize, words: &str) -> bool {
        self.homes[node].running.as_ref().is_some_and(|process| process.has_said(words))
    }

    /// Whether a node's daemon runs and is not stopped.
    pub fn answers(&self, node: usize) -> bool {
        self.homes[node].running.is_some() && !self.homes[node].stopped
    }

    /// The process of a daemon that runs.
    pub fn id(&self, node: usize) -> Option<u32> {
        self.homes[node].running.as_ref().map(Process::id)
    }

    fn runs(&mut self, node: usize) -> Result<(), ChaosError> {
        let home = &mut self.homes[node];
        home.running.as_mut().filter(|_| !home.full).map_or(Ok(()), |process| Ok(process.runs()?))
    }

    /// One that is asked to leave before it listens to signals dies of it: that is no fault.
    fn watch_leaving(&mut self, node: usize) -> Result<(), ChaosError> {
        let home = &mut self.homes[node];
        let Some((process, deadline)) = &mut home.leaving else { return Ok(()) };
        match process.ended()? {
            Some(status) if status.success() => home.leaving = None,
            Some(status) if status.signal() == Some(Signal::TERM.as_raw()) && !process.has_said("serving") => {
                home.leaving = None;
            }
            Some(status) => return Err(process.failed(format!("was asked to leave and ended with {status}")).into()),
            None if Instant::now() > *deadline => {
                return Err(process.failed(format!("was asked to leave and runs on after {LEAVE:?}")).into());
            }
            None => {}
        }
        Ok(())
    }

    /// Where a node's daemon keeps its state.
    fn state(&self, node: usize) -> PathBuf {
        match self.homes[node].disk {
            Some(_) => disk(&self.directory, node).join("state"),
            None => state(&self.directory, node),
        }
    }

    /// The file of a node's daemon.
    pub fn config(&self, node: usize) -> PathBuf {
        self.directory.join(format!("consort-{}.toml", node + 1))
    }
}

/// How often a node's daemon, in this incarnation of its process, gave up its membership and started anew.
pub fn times_started_anew(directory: &Path, node: usize, incarnation: u64) -> usize {
    let log = directory.join(incarnation_name(node, incarnation)).with_extension("log");
    std::fs::read_to_string(log).map_or(0, |log| log.matches(": starts anew cause=").count())
}

fn incarnation_name(node: usize, incarnation: u64) -> String {
    format!("daemon-{}-incarnation-{incarnation}", node + 1)
}

/// Where clients reach a node's daemon from everywhere.
pub fn address(directory: &Path, node: usize) -> Address {
    Address::Unix(place(directory, node).join(CLUSTER).join(format!("node-{}.sock", node + 1)))
}

/// Where clients within a node's namespace reach its daemon.
pub fn inner_address() -> Result<Address, ChaosError> {
    LISTEN.parse().map_err(|_| ChaosError::Bug("the daemons' address within their namespaces"))
}

fn place(directory: &Path, node: usize) -> PathBuf {
    directory.join(format!("node-{}", node + 1))
}

fn disk(directory: &Path, node: usize) -> PathBuf {
    place(directory, node).join("disk")
}

fn state(directory: &Path, node: usize) -> PathBuf {
    place(directory, node).join("state")
}

fn lose(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The files of all nodes: they differ in nothing but where Spread clients come in.
pub fn configs(orders: (Protocol, Storage, Retain), nodes: u16, directory: &Path) -> Vec<String> {
    (0..nodes.into()).map(|node| config(orders, nodes, &spread_socket(directory, node))).collect()
}

/// How many bytes of the order are retained: so few that runs reach the end of them, or more than any run says.
const fn retained(retain: Retain) -> usize {
    match retain {
        Retain::None | Retain::Little => 4 << 20,
        Retain::All => 2 << 30,
    }
}

fn config((protocol, storage, retain): (Protocol, Storage, Retain), nodes: u16, spread: &Path) -> String {
    let sessions = if retain == Retain::None { "\n[sessions]\nretain = 0\n" } else { "" };
    let reads = if retain == Retain::None { "groups" } else { "all" };
    let retain = retained(retain);
    let head = format!("cluster = \"{CLUSTER}\"\nprotocol = \"{}\"\nprimary = \"majority\"\n", protocol.name());
    let head = format!(
        "{head}\n[clients]\nlisten = [\"{LISTEN}\"]\n{sessions}\n[spread]\nport = 4803\nunix = \"{}\"\n",
        spread.display()
    );
    let node = |node| format!("\n[[node]]\nid = {}\naddress = \"{}\"\n", node + 1, Network::address(node));
    let acceptors = if nodes < 3 { "1" } else { "1, 2, 3" };
    let storage = storage.name();
    let paxos = format!("\n[paxos]\nacceptors = [{acceptors}]\nstorage = \"{storage}\"\nretain = {retain}\n");
    let rings = format!(
        "\n[paxos]\nretain = {retain}\nreads = \"{reads}\"\n[[ring]]\nid = 1\nacceptors = [{acceptors}]\nglobal = true\n\
         [[ring]]\nid = 2\nacceptors = [{acceptors}]\n[[ring]]\nid = 3\nacceptors = [{acceptors}]\n"
    );
    let tail = match protocol {
        Protocol::Paxos => &paxos[..],
        Protocol::MultiRingPaxos => &rings[..],
        Protocol::MultiRing => return head + &described(&networks(protocol, nodes)),
        Protocol::Ring | Protocol::Toto | Protocol::Plato => "",
    };
    (0..usize::from(nodes)).map(node).fold(head, |file, node| file + &node) + tail
}

/// Networks with the addresses that nodes have there.
pub fn described(networks: &[Vec<usize>]) -> String {
    let node = |network, node: &usize| {
        format!("[[network.node]]\nid = {}\naddress = \"{}\"\n", node + 1, Network::address_in(network, *node))
    };
    let network = |(number, nodes): (usize, &Vec<usize>)| {
        let nodes: String = nodes.iter().map(|standing| node(number, standing)).collect();
        format!("\n[[network]]\nid = {}\n{nodes}", number + 1)
    };
    networks.iter().enumerate().map(network).collect()
}

/// Where a node's daemon serves Spread clients.
pub fn spread_socket(directory: &Path, node: usize) -> PathBuf {
    directory.join(format!("spread-{}.sock", node + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_node_and_the_addresses_fit_it() {
        let file = config((Protocol::Toto, Storage::Sync, Retain::Little), 2, Path::new("/d/spread-1.sock"));
        assert!(file.contains("protocol = \"toto\"\n"), "{file}");
        assert!(file.contains("primary = \"majority\"") && file.contains("id = 2\naddress = \"10.77.0.2\""), "{file}");
        let rings = config((Protocol::MultiRing, Storage::Sync, Retain::Little), 5, Path::new("/d/spread-1.sock"));
        let gateway = |network| rings.contains(&format!("id = 2\naddress = \"10.77.{network}.2\""));
        assert!(gateway(0) && gateway(1) && !gateway(2) && !rings.contains("[[node]]"), "{rings}");
        assert_eq!(rings.matches("[[network]]").count(), 3, "{rings}");
        assert!(!rings.contains("[sessions]"), "{rings}");
        let filters = config((Protocol::MultiRing, Storage::Sync, Retain::None), 5, Path::new("/d/spread-1.sock"));
        assert!(filters.contains("\n[sessions]\nretain = 0\n"), "{filters}");
        assert!(file.contains(&inner_address().unwrap().to_string()));
        let outer = address(Path::new("/d"), 1).to_string();
        assert!(outer.ends_with("/d/node-2/chaos/node-2.sock"), "{outer}");
    }

    #[test]
    fn a_state_that_was_never_written_can_be_lost() {
        let directory = tempfile::tempdir().unwrap();
        lose(&state(directory.path(), 0)).unwrap();
        std::fs::create_dir_all(state(directory.path(), 0)).unwrap();
        lose(&state(directory.path(), 0)).unwrap();
        assert!(!state(directory.path(), 0).exists());
    }

    #[test]
    fn a_log_tells_how_often_a_daemon_started_anew() {
        let directory = tempfile::tempdir().unwrap();
        let anew = "WARN consort{cluster=chaos node=1}: starts anew cause=\"the other nodes retain\"\n";
        let sent_away = "WARN consort{cluster=chaos node=1}: client sent away: the daemon starts anew: the others\n";
        std::fs::write(directory.path().join("daemon-1-incarnation-2.log"), [anew, sent_away, anew].concat()).unwrap();
        let times = |incarnation| times_started_anew(directory.path(), 0, incarnation);
        assert_eq!((times(1), times(2)), (0, 2));
    }
}
