//! Three machines, each with a daemon and a server of a store, as processes that are killed, stopped and started again.
use crate::support::{Ran, World, free_port};
use consort_testbed::{Line, Process};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How many machines there are; a majority of them keeps the order.
pub const COUNT: usize = 3;
/// Who keeps what was answered, on which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The daemons, with `paxos` and storage `sync`.
    ByDaemons,
    /// The servers, with `--durable`, on daemons that run `ring`.
    ByServers,
}

impl Kept {
    /// What the file of the daemons says of it.
    const fn settings(self) -> [&'static str; 2] {
        match self {
            Self::ByDaemons => ["protocol = \"paxos\"\n", "[paxos]\nstorage = \"sync\"\n"],
            Self::ByServers => ["protocol = \"ring\"\nprimary = \"majority\"\n", ""],
        }
    }

    /// What makes a server one of a store that all machines keep.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::ByDaemons => &["--copies", "3"],
            Self::ByServers => &["--copies", "3", "--durable"],
        }
    }
}
/// How long a start may take, and how long it may take until an order to stop is carried out.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often something that has to come is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// How many lines of each log a failed test prints.
const LAST_LINES: usize = 10;

/// What a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Daemon,
    Server,
}

/// A process: what it is, and at which machine, counted from 0.
pub type Id = (Part, usize);

pub const DAEMONS: [Id; COUNT] = [(Part::Daemon, 0), (Part::Daemon, 1), (Part::Daemon, 2)];
pub const SERVERS: [Id; COUNT] = [(Part::Server, 0), (Part::Server, 1), (Part::Server, 2)];

/// All processes, daemons first.
pub fn all() -> Vec<Id> {
    [DAEMONS, SERVERS].concat()
}

/// A process that was started, and what it has said since.
struct Started {
    process: Process,
    number: usize,
    log_from: usize,
    /// Its start was waited for.
    awaited: bool,
}

/// How a start ended.
#[derive(Debug)]
pub enum Start {
    Ready,
    /// The process ended instead, and logged this.
    Refused(String),
}

/// The machines. If a test fails, the ends of all logs are printed and the directory is left for inspection.
pub struct Machines {
    processes: BTreeMap<Id, Started>,
    addresses: [String; COUNT],
    lines: Receiver<Line>,
    sender: Sender<Line>,
    /// Of each start the line that says that it is ready, or none if it ended before, until that is waited for.
    said: BTreeMap<usize, Option<String>>,
    started: usize,
    /// What comes before the words of each command, for example to change its environment.
    prefix: Vec<String>,
    store: &'static str,
    kept: Kept,
    world: World,
}

impl Machines {
    /// Nothing runs yet, and nothing is on any disk.
    pub fn new(kept: Kept) -> Self {
        let world = World::new();
        let node = |id| format!("[[node]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", free_port());
        let [front, tables] = kept.settings();
        let head = format!("cluster = \"{}\"\n{front}", world.cluster);
        let multicast = format!("multicast = \"239.192.1.7:{}\"\n", free_port());
        let nodes: String = (1..=COUNT).map(node).collect();
        world.write("consort.toml", &(head + &multicast + &nodes + tables));
        let (sender, lines) = channel();
        let (processes, addresses) = (BTreeMap::new(), Default::default());
        Self {
            processes,
            addresses,
            lines,
            sender,
            said: BTreeMap::new(),
            started: 0,
            prefix: Vec::new(),
            store: "main",
            kept,
            world,
        }
    }

    /// From now on commands are run by this one.
    pub fn run_by(&mut self, prefix: &[&str]) {
        self.prefix = prefix.iter().map(ToString::to_string).collect();
    }

    /// From now on servers serve the store of this name.
    pub fn serve_store(&mut self, name: &'static str) {
        self.store = name;
    }

    /// A file or directory of this test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// All that a machine has on its disk.
    pub fn disk(&self, machine: usize) -> PathBuf {
        self.path(&format!("machine-{}", machine + 1))
    }

    /// Where a daemon or server keeps its state.
    pub fn state(&self, (part, machine): Id) -> PathBuf {
        self.disk(machine).join(if part == Part::Daemon { "daemon" } else { "store" })
    }

    /// Where the servers serve their clients; an address of a server that does not run is an old one.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&str]) -> Ran {
        self.world.run(words)
    }

    /// The words of a command, with its state in this directory.
    fn words(&self, (part, machine): Id, state: &Path) -> Vec<String> {
        let (node, state) = ((machine + 1).to_string(), state.display().to_string());
        let file = self.path("consort.toml").display().to_string();
        let words: Vec<&str> = match part {
            Part::Daemon => vec!["daemon", "--config", &file, "--node", &node, "--state-dir", &state],
            Part::Server => {
                let serve = ["kv", "serve", "--cluster", &self.world.cluster, "--node", &node, "--name", self.store];
                [&serve[..], self.kept.options(), &["--listen", "127.0.0.1:0", "--state", &state]].concat()
            }
        };
        words.into_iter().map(str::to_owned).collect()
    }

    fn name((part, machine): Id) -> String {
        format!("{}-{}", if part == Part::Daemon { "daemon" } else { "server" }, machine + 1)
    }

    fn log(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(&format!("{name}.log"))).unwrap_or_default()).into_owned()
    }

    /// Starts a process whose log has this name.
    fn spawn(&mut self, name: &str, prefix: &[String], words: &[String]) -> Started {
        let program = vec![env!("CARGO_BIN_EXE_consort").to_owned()];
        let command = [prefix, &program, words].concat();
        let (number, log_from) = (self.started, self.log(name).len());
        self.started += 1;
        let (program, directory) = (Path::new(&command[0]), self.path(""));
        let process = Process::start_program(number, name, program, &command[1..], &directory, &self.sender);
        Started { process: process.unwrap(), number, log_from, awaited: false }
    }

    /// Starts these without waiting for them.
    pub fn launch(&mut self, ids: &[Id]) {
        for id in ids {
            let words = self.words(*id, &self.state(*id));
            let prefix = self.prefix.clone();
            let started = self.spawn(&Self::name(*id), &prefix, &words);
            self.processes.insert(*id, started);
        }
    }

    /// Waits until each of these serves its clients, or has ended.
    ///
    /// # Errors
    /// One does neither in time.
    pub fn await_each(&mut self, ids: &[Id]) -> Result<Vec<Start>, String> {
        let mut waiting: BTreeSet<Id> = ids.iter().copied().collect();
        let mut refused = BTreeMap::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = |id: &Id| self.said.remove(&self.processes[id].number).map(|line| (*id, line));
            for (id, line) in waiting.iter().filter_map(said).collect::<Vec<_>>() {
                waiting.remove(&id);
                match line {
                    Some(ready) => self.is_ready(id, &ready),
                    None => drop(refused.insert(id, self.last_words(id))),
                }
            }
            if waiting.is_empty() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let names: Vec<_> = waiting.iter().map(|id| Self::name(*id)).collect();
                return Err(format!("{} did not serve within {PATIENCE:?}, nor end", names.join(" and ")));
            };
            if line.text.as_ref().is_none_or(|text| text.starts_with("ready:")) {
                self.said.entry(line.from).or_insert(line.text);
            }
        }
        Ok(ids.iter().map(|id| refused.remove(id).map_or(Start::Ready, Start::Refused)).collect())
    }

    fn is_ready(&mut self, (part, machine): Id, line: &str) {
        self.processes.get_mut(&(part, machine)).into_iter().for_each(|started| started.awaited = true);
        if part == Part::Server {
            line.rsplit_once(' ').unwrap().1.clone_into(&mut self.addresses[machine]);
        }
    }

    /// What a process that has ended logged since its start.
    fn last_words(&mut self, id: Id) -> String {
        let ended = self.processes.remove(&id).unwrap();
        self.log(&Self::name(id))[ended.log_from..].to_owned()
    }

    /// Starts these and waits until all of them serve.
    ///
    /// # Errors
    /// One ends, or does not serve in time.
    pub fn start(&mut self, ids: &[Id]) -> Result<(), String> {
        self.launch(ids);
        self.await_ready(ids)
    }

    /// Waits until all of these, which were launched, serve.
    ///
    /// # Errors
    /// One ends, or does not serve in time.
    pub fn await_ready(&mut self, ids: &[Id]) -> Result<(), String> {
        let starts = self.await_each(ids)?;
        let refused = ids.iter().zip(starts).find_map(|(id, start)| match start {
            Start::Ready => None,
            Start::Refused(log) => Some(format!("{} ended at its start: {log}", Self::name(*id))),
        });
        refused.map_or(Ok(()), Err)
    }

    /// Starts all that does not run, daemons first.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_all(&mut self) -> Result<(), String> {
        for part in [DAEMONS, SERVERS] {
            let missing: Vec<_> = part.into_iter().filter(|id| !self.processes.contains_key(id)).collect();
            self.start(&missing)?;
        }
        Ok(())
    }

    /// Kills these at once, as a crash does.
    pub fn kill(&mut self, ids: &[Id]) {
        for started in ids.iter().filter_map(|id| self.processes.get(id)) {
            started.process.signal(Signal::KILL).unwrap();
        }
        ids.iter().for_each(|id| drop(self.processes.remove(id)));
    }

    /// Sends SIGTERM to one.
    pub fn terminate(&self, id: Id) {
        self.signal(id, Signal::TERM);
    }

    pub fn signal(&self, id: Id, signal: Signal) {
        self.processes[&id].process.signal(signal).unwrap();
    }

    /// Whether it was started, and not ended since.
    pub fn runs(&self, id: Id) -> bool {
        self.processes.contains_key(&id)
    }

    /// Whether it was launched, and not waited for since.
    pub fn is_new(&self, id: Id) -> bool {
        self.processes.get(&id).is_some_and(|started| !started.awaited)
    }

    /// All that a process has logged.
    pub fn log_of(&self, id: Id) -> String {
        self.log(&Self::name(id))
    }

    /// Waits until these, which were sent SIGTERM, have ended.
    pub fn await_end(&mut self, ids: &[Id]) {
        for id in ids {
            let mut started = self.processes.remove(id).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while !started.process.has_ended() {
                let name = Self::name(*id);
                assert!(Instant::now() < deadline, "{name} did not end within {PATIENCE:?} after SIGTERM");
                thread::sleep(LOOK);
            }
        }
    }

    /// Stops these by SIGTERM, in this order but without waiting in between.
    pub fn stop(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.terminate(*id));
        self.await_end(ids);
    }

    /// Those that have ended although nothing made them end are taken for stopped; returns what they logged.
    pub fn take_ended(&mut self) -> Vec<(Id, String)> {
        let ended = |started: &mut Started| started.process.has_ended();
        let ids: Vec<Id> =
            self.processes.iter_mut().filter_map(|(id, started)| ended(started).then_some(*id)).collect();
        ids.into_iter().map(|id| (id, self.last_words(id))).collect()
    }

    /// All that was started and not stopped still runs.
    pub fn assert_all_run(&mut self) {
        let ended = self.take_ended();
        assert!(ended.is_empty(), "these ended although nothing ended them: {ended:#?}");
    }

    /// Starts one more process on this state, while the one that owns it runs; returns what it says as it refuses.
    pub fn refusal_beside(&mut self, id: Id, prefix: &[&str]) -> String {
        let (words, name) = (self.words(id, &self.state(id)), format!("second-{}", Self::name(id)));
        let prefix: Vec<String> = prefix.iter().map(ToString::to_string).collect();
        let mut second = self.spawn(&name, &prefix, &words);
        let deadline = Instant::now() + PATIENCE;
        while !second.process.has_ended() {
            assert!(Instant::now() < deadline, "a second process runs on {}", self.state(id).display());
            thread::sleep(LOOK);
        }
        assert!(second.process.has_failed(), "a second process ended as if all was well");
        self.log(&name)[second.log_from..].to_owned()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut names: Vec<_> = all().into_iter().map(Self::name).collect();
        names.extend(SERVERS.iter().chain(&DAEMONS).map(|id| format!("second-{}", Self::name(*id))));
        for name in names {
            let log = self.log(&name);
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            if !last.is_empty() {
                eprintln!("--- {name} logged last:\n{}", last.join("\n"));
            }
        }
        eprintln!("--- all files of this test are in {}", self.world.keep().display());
    }
}
