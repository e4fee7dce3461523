//! `cargo chaos crowd`: real daemons on this machine, one of them with many clients that never read.
//!
//! Its clients join one group and leave all that is told to them unread, while a client of another daemon fills that group
//! and a third one reads. Then they go, all at once. No token may be lost, no view may change, and memory stays within
//! what the daemon promises.
use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
use consort_testbed::network::directory;
use consort_testbed::network::memory::resident;
use consort_testbed::units::number;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HELP: &str = "\
cargo chaos crowd [options]

Runs daemons on this machine, one of them with many clients that never read what their group is told.
Fails if a token is lost, a view changes, a message does not come to who reads, or memory grows beyond its budget.

  --clients N      how many never read (300)
  --mib N          how much is sent to them (60)
  --size N         bytes of each message (16384)
  --daemons N      how many daemons (3)
  --budget MIB     what the crowd's daemon may have resident (1024)
  --program FILE   the daemon; built from this tree where none is named
";
const DAEMONS_MAX: usize = 16;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the daemons are looked at once the crowd has gone.
const AFTER: Duration = Duration::from_secs(3);
type Failure = Box<dyn std::error::Error + Send + Sync>;
/// When nothing is told for so long, all is.
const STILL: Duration = Duration::from_millis(300);
const GROUP: &str = "crowd";

/// What is run.
#[derive(Debug)]
pub struct Options {
    /// How many clients never read.
    pub clients: usize,
    /// How many MiB are sent to them.
    pub mib: usize,
    /// Bytes of each message.
    pub size: usize,
    /// How many daemons there are, the crowd's included.
    pub daemons: usize,
    /// How many MiB the crowd's daemon may have resident.
    pub budget: usize,
    /// The daemon's program; built where none is named.
    pub program: Option<PathBuf>,
}

/// What a run showed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How long sending took, until who reads had all.
    pub took: Duration,
    /// The most that the crowd's daemon had resident, in bytes.
    pub peak: u64,
    /// What it had resident once the crowd was gone, in bytes.
    pub after: u64,
    /// Of all daemons.
    pub token_losses: u64,
    /// Views installed while the crowd was there, of all daemons.
    pub views: u64,
    /// How many of the crowd were sent away as slow.
    pub slow: u64,
    /// What the crowd's daemon counted as its clients' memory before they went, in bytes.
    pub counted: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} s; token losses {}, views {}; resident at most {} MiB, {} MiB once all had gone; counted {} MiB; {} were sent away as slow",
            self.took.as_secs_f64(),
            self.token_losses,
            self.views,
            self.peak >> 20,
            self.after >> 20,
            self.counted >> 20,
            self.slow
        )
    }
}

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match read(words) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(misuse) => {
            eprintln!("crowd: {misuse}; see cargo chaos crowd --help");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(outcome) => {
            println!("crowd: {} clients, {} MiB of {} bytes: {outcome}", options.clients, options.mib, options.size);
            let well = outcome.token_losses + outcome.views == 0 && outcome.peak >> 20 <= options.budget as u64;
            if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("crowd: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options { clients: 300, mib: 60, size: 16_384, daemons: 3, budget: 1_024, program: None };
    let mut parser = lexopt::Parser::from_args(words);
    let count = |parser: &mut lexopt::Parser, allowed: RangeInclusive<usize>| {
        let inside = |text: &str| number(text).and_then(|n| usize::try_from(n).ok()).filter(|n| allowed.contains(n));
        let wrong = || format!("not a number from {} to {}", allowed.start(), allowed.end());
        parser.value()?.parse_with(|text| inside(text).ok_or_else(wrong))
    };
    while let Some(word) = parser.next()? {
        match word {
            Long("clients") => options.clients = count(&mut parser, 1..=100_000)?,
            Long("mib") => options.mib = count(&mut parser, 1..=1 << 20)?,
            Long("size") => options.size = count(&mut parser, 1..=16 << 20)?,
            Long("daemons") => options.daemons = count(&mut parser, 2..=DAEMONS_MAX)?,
            Long("budget") => options.budget = count(&mut parser, 1..=1 << 20)?,
            Long("program") => options.program = Some(parser.value()?.into()),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

/// Runs it.
///
/// # Errors
/// Where a daemon does not start, a client is refused, or a message does not come in time.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    allow_many_files();
    let program = match &options.program {
        Some(program) => program.clone(),
        None => consort_testbed::program("consort-cli", "release")?,
    };
    let place = directory("consort-crowd-")?;
    let fleet = Fleet::start(&program, place.path(), options.daemons)?;
    fleet.wait_for_all()?;
    let before = fleet.sums()?;
    let crowd = gather(&fleet, options.clients)?;
    let reader = listen(fleet.door(options.daemons), options)?;
    let began = Instant::now();
    fill(&fleet, options)?;
    reader.join().map_err(|_| "the reader panicked")??;
    let mut outcome = Outcome { took: began.elapsed(), ..Outcome::default() };
    let mut asker = connect(&fleet.door(1))?;
    let pairs = wait_until_told(&mut asker)?;
    outcome.counted = value(&pairs, "client_output_memory_bytes");
    outcome.slow = value(&pairs, "sessions_ended_slow");
    drop(crowd);
    std::thread::sleep(AFTER);
    let sums = fleet.sums()?;
    (outcome.token_losses, outcome.views) = (sums.0 - before.0, sums.1 - before.1);
    outcome.peak = fleet.peak(1).unwrap_or_default();
    outcome.after = fleet.daemons.first().and_then(|daemon| resident(daemon.id())).unwrap_or_default();
    Ok(outcome)
}

/// Waits until all that is to be told to the crowd was; returns what its daemon says then.
fn wait_until_told(asker: &mut Client) -> Result<Vec<(String, String)>, Failure> {
    let mut told = None;
    loop {
        let pairs = asker.status(PATIENCE)?;
        let now = value(&pairs, "messages_delivered");
        if told.replace(now) == Some(now) {
            return Ok(pairs);
        }
        std::thread::sleep(STILL);
    }
}

/// Each of the crowd has two files in this process, and in its daemon.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn connect(door: &Path) -> Result<Client, Failure> {
    let options = ConnectOptions::default().connect_within(PATIENCE).send_within(PATIENCE);
    Ok(Client::connect(&Address::Unix(door.to_owned()), &options)?)
}

fn group() -> Result<GroupName, Failure> {
    Ok(GroupName::new(GROUP.as_bytes())?)
}

/// Those that never read, all of them members.
fn gather(fleet: &Fleet, clients: usize) -> Result<Vec<Client>, Failure> {
    let group = group()?;
    let mut crowd = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut client = connect(&fleet.door(1))?;
        client.join(&group)?;
        client.flush()?;
        crowd.push(client);
    }
    let mut asker = connect(&fleet.door(1))?;
    let until = Instant::now() + PATIENCE;
    while value(&asker.status(PATIENCE)?, "requests_accepted") < clients as u64 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(crowd)
}

/// One that reads all, at another daemon.
fn listen(door: PathBuf, options: &Options) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let mut client = connect(&door)?;
    client.join(&group()?)?;
    client.wait_ordered(PATIENCE)?;
    let mut left = messages(options);
    Ok(std::thread::spawn(move || {
        while left > 0 {
            let event = client.receive(PATIENCE)?.ok_or_else(|| format!("{left} messages did not come"))?;
            left -= usize::from(matches!(event, Event::Message(_)));
        }
        Ok(())
    }))
}

const fn messages(options: &Options) -> usize {
    (options.mib << 20) / options.size
}

fn fill(fleet: &Fleet, options: &Options) -> Result<(), Failure> {
    let mut client = connect(&fleet.door(2))?;
    let (group, payload) = (group()?, vec![7; options.size]);
    for _ in 0..messages(options) {
        client.multicast(Service::Agreed, std::slice::from_ref(&group), &payload)?;
    }
    Ok(client.wait_ordered(PATIENCE)?)
}

fn value(pairs: &[(String, String)], name: &str) -> u64 {
    pairs.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
}

/// Daemons of one cluster, killed when dropped.
struct Fleet {
    daemons: Vec<Child>,
    place: PathBuf,
    cluster: String,
}

impl Fleet {
    fn start(program: &Path, place: &Path, daemons: usize) -> io::Result<Self> {
        let cluster = format!("crowd-{}", std::process::id());
        let mut fleet = Self { daemons: Vec::new(), place: place.to_owned(), cluster };
        for node in 1..=daemons {
            let mut command = Command::new(program);
            command.args(["daemon", "--cluster", &fleet.cluster]);
            command.args(["--node", &node.to_string(), "--nodes", &daemons.to_string()]);
            command.env("CONSORT_RUNTIME_DIR", place.join("run")).env("XDG_STATE_HOME", place.join("state"));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let log = std::fs::File::create(place.join(format!("log-{node}")))?;
            fleet.daemons.push(command.stderr(log).spawn()?);
        }
        Ok(fleet)
    }

    fn door(&self, node: usize) -> PathBuf {
        self.place.join("run").join(&self.cluster).join(format!("node-{node}.sock"))
    }

    /// Waits until each daemon serves, in one view with all others.
    fn wait_for_all(&self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        let members = |node| -> Result<usize, Failure> {
            let pairs = connect(&self.door(node))?.status(PATIENCE)?;
            let members = pairs.iter().find(|(name, _)| name == "members");
            Ok(members.map_or(0, |(_, members)| members.split_whitespace().count()))
        };
        for node in (1..).take(self.daemons.len()) {
            while !matches!(members(node), Ok(there) if there == self.daemons.len()) {
                if Instant::now() > until {
                    return Err(format!("daemon {node} is not in a view of all").into());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    /// Token losses and views, of all daemons.
    fn sums(&self) -> Result<(u64, u64), Failure> {
        let mut sums = (0, 0);
        for node in (1..).take(self.daemons.len()) {
            let pairs = connect(&self.door(node))?.status(PATIENCE)?;
            sums.0 += value(&pairs, "token_losses");
            sums.1 += value(&pairs, "views");
        }
        Ok(sums)
    }

    /// The most a daemon had resident, in bytes.
    fn peak(&self, node: usize) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemons.get(node - 1)?.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
