//! What all measurements of a cluster have in common: its daemons, its messages, how often, and where the result goes.
use crate::args::Args;
use crate::config::{PROFILES, PROTOCOLS, Profile, Protocol, RINGS, STORAGES, Storage};
use crate::failure::{Failure, Outcome, Trying};
use crate::local::NODES_MAX;
use consort_daemon::security;
use consort_node::Limits;
use consort_ring::Acceleration;
use consort_testbed::{HEADER, Testbed};
use consort_types::Service;
use consort_wire::DatagramSize;
use std::path::PathBuf;
use std::time::Duration;

/// The lines of a help text that show these options.
macro_rules! shared_help {
    () => {
        "  --nodes N          daemons, 1 to 64 [3]
  --size BYTES       payload of a message, 24 to 16MiB [1350]
  --service LEVEL    agreed or safe [agreed]
  --protocol NAME    ring, toto, plato, paxos, multiring-paxos or multiring:
                     what orders the messages [ring]
  --storage KIND     what acceptors of paxos keep: memory, async or sync [sync]
  --ring KIND        accelerated or original [accelerated]
  --idling PROFILE   latency, balanced or frugal [balanced]
  --datagram SIZE    bytes of one datagram, 576 to 65000 [1472]
  --credit SIZE      what one client may have under way, 4KiB to 1GiB [256KiB]
  --senders N        sending clients, spread over the daemons [one at each]
  --unbatched        each sender writes one message at a time
  --sealed           daemons seal what they say to each other, with a new key
  --sockets          clients use their sockets, not shared memory
  --embedded         no daemons: a node and its clients are threads of one
                     process, whose memory is told; the node's count as daemon
  --seconds S        how long to measure [3]
  --warm-up S        how long to run before [1]
  --runs N           how often, 1 to 100; medians are told [1]
  --compare WHAT     measures the others of writes, services, rings, idlings,
                     protocols, storages (of paxos), seals, carriers or hosts
                     too, in turn: to and fro; hosts are daemons and --embedded
  --json             print one JSON object
  --report FILE      also write a page for a browser; the name ends in .html
"
    };
}
pub(super) use shared_help;

/// Services by name.
pub const SERVICES: [(&str, Service); 2] = [("agreed", Service::Agreed), ("safe", Service::Safe)];
/// More clients than this many processes say nothing about a daemon.
pub const CLIENTS_MAX: u16 = 256;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    pub nodes: u16,
    pub size: usize,
    pub service: Service,
    pub protocol: Protocol,
    pub storage: Storage,
    pub ring: Acceleration,
    pub idling: Profile,
    pub datagram: DatagramSize,
    pub credit: usize,
    /// How many clients send; one at each node where none is given.
    pub senders: Option<u16>,
    pub unbatched: bool,
    /// Clients use their sockets, not shared memory.
    pub sockets: bool,
    /// Daemons seal what they say to each other.
    pub sealed: bool,
    /// Nodes are threads of their clients' processes, not daemons.
    pub embedded: bool,
    pub seconds: Duration,
    pub warm_up: Duration,
    pub runs: u32,
    pub compare: Option<Compare>,
    pub outlet: Outlet,
}

/// Where the result goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlet {
    pub json: bool,
    pub report: Option<PathBuf>,
}

/// In what the cases that are compared differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Writes,
    Services,
    Rings,
    Idlings,
    Protocols,
    Storages,
    Carriers,
    Hosts,
    Seals,
}

const COMPARES: [(&str, Compare); 9] = [
    ("writes", Compare::Writes),
    ("services", Compare::Services),
    ("rings", Compare::Rings),
    ("idlings", Compare::Idlings),
    ("protocols", Compare::Protocols),
    ("storages", Compare::Storages),
    ("carriers", Compare::Carriers),
    ("hosts", Compare::Hosts),
    ("seals", Compare::Seals),
];

impl Default for Setup {
    fn default() -> Self {
        Self {
            nodes: 3,
            size: 1_350,
            service: Service::Agreed,
            protocol: Protocol::Ring,
            storage: Storage::Sync,
            ring: Acceleration::Accelerated,
            idling: Profile::Balanced,
            datagram: DatagramSize::DEFAULT,
            credit: Limits::default().credit,
            senders: None,
            unbatched: false,
            sockets: false,
            sealed: false,
            embedded: false,
            seconds: Duration::from_secs(3),
            warm_up: Duration::from_secs(1),
            runs: 1,
            compare: None,
            outlet: Outlet::default(),
        }
    }
}

impl Outlet {
    /// Takes an option about the result; whether it was one.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--json" => self.json = true,
            "--report" => self.report = Some(page_path(args)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Setup {
    /// Refuses options that choose what to compare, for measurements that have their own.
    pub fn compares_by_itself(&self) -> Outcome {
        match (self.compare, self.unbatched) {
            (None, false) => Ok(()),
            (Some(_), _) => Err(Failure::usage("--compare has no meaning here; leave it out")),
            (None, true) => Err(Failure::usage("both kinds of writes are measured anyway; leave --unbatched out")),
        }
    }

    /// Takes an option that all measurements have; whether it was one.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--nodes" => self.nodes = args.number(1..=NODES_MAX.into())? as u16,
            "--size" => self.size = args.size(HEADER as u64..=consort_wire::MESSAGE_MAX as u64)? as usize,
            "--service" => self.service = args.choice(&SERVICES)?,
            "--protocol" => self.protocol = args.choice(&PROTOCOLS)?,
            "--storage" => self.storage = args.choice(&STORAGES)?,
            "--ring" => self.ring = args.choice(&RINGS)?,
            "--idling" => self.idling = args.choice(&PROFILES)?,
            "--datagram" => {
                let bytes = args.size(DatagramSize::MIN as u64..=DatagramSize::MAX as u64)?;
                self.datagram = DatagramSize::new(bytes as usize).map_err(Failure::usage)?;
            }
            "--credit" => self.credit = args.size(4_096..=1 << 30)? as usize,
            "--senders" => self.senders = Some(args.number(1..=u64::from(CLIENTS_MAX))? as u16),
            "--unbatched" => self.unbatched = true,
            "--sealed" => self.sealed = true,
            "--sockets" => self.sockets = true,
            "--embedded" => self.embedded = true,
            "--seconds" => self.seconds = args.duration()?.max(Duration::from_millis(100)),
            "--warm-up" => self.warm_up = args.duration()?,
            "--runs" => self.runs = args.number(1..=100)? as u32,
            "--compare" => self.compare = Some(args.choice(&COMPARES)?),
            _ => return self.outlet.take(option, args),
        }
        Ok(true)
    }

    /// The protocol's name, for a ring which kind of it.
    pub fn order_name(&self) -> &'static str {
        if self.protocol == Protocol::Ring { self.ring_name() } else { self.protocol.name() }
    }

    /// How senders write.
    pub const fn writes_name(&self) -> &'static str {
        if self.unbatched { "unbatched" } else { "batched" }
    }

    /// How clients' bytes go to and fro.
    pub const fn carrier_name(&self) -> &'static str {
        if self.sockets { "sockets" } else { "memory" }
    }

    /// How daemons' datagrams travel.
    pub const fn seal_name(&self) -> &'static str {
        if self.sealed { "sealed" } else { "plain" }
    }

    /// What the nodes run in.
    pub const fn host_name(&self) -> &'static str {
        if self.embedded { "embedded" } else { "daemons" }
    }

    fn ring_name(&self) -> &'static str {
        RINGS.iter().find(|(_, kind)| *kind == self.ring).map_or("", |(name, _)| name)
    }

    /// Starts the nodes.
    pub fn testbed(&self) -> Outcome<Testbed> {
        let start = if self.embedded { Testbed::embed } else { Testbed::start };
        let mut options = self.daemon_options();
        // Daemons read the key when they start, and not again.
        let folder = tempfile::tempdir().trying(|| "cannot make a folder for a key".into())?;
        if self.sealed {
            let key = folder.path().join("key");
            security::generate(&key)?;
            options.extend(["--key".into(), key.display().to_string()]);
        }
        start(self.nodes, &options)
    }

    /// What the daemons are told on their command lines.
    fn daemon_options(&self) -> Vec<String> {
        let numbers = [self.datagram.get(), self.credit].map(|number| number.to_string());
        let options = [
            ("--protocol", self.protocol.name()),
            ("--ring", self.ring_name()),
            ("--idling", self.idling.name()),
            ("--datagram", &numbers[0]),
            ("--client-credit", &numbers[1]),
        ];
        let storage = (self.protocol == Protocol::Paxos).then_some(("--storage", self.storage.name()));
        options.into_iter().chain(storage).flat_map(|(option, value)| [option.to_owned(), value.to_owned()]).collect()
    }

    /// This and what it is compared with, by name; this one first.
    pub fn variants(&self) -> Vec<(&'static str, Self)> {
        let mut all = match self.compare {
            None => vec![(self.order_name(), self.clone())],
            Some(Compare::Writes) => [false, true]
                .map(|unbatched| Self { unbatched, ..self.clone() })
                .map(|setup| (setup.writes_name(), setup))
                .into(),
            Some(Compare::Carriers) => [false, true]
                .map(|sockets| Self { sockets, ..self.clone() })
                .map(|setup| (setup.carrier_name(), setup))
                .into(),
            Some(Compare::Hosts) => [false, true]
                .map(|embedded| Self { embedded, ..self.clone() })
                .map(|setup| (setup.host_name(), setup))
                .into(),
            Some(Compare::Seals) => [false, true]
                .map(|sealed| Self { sealed, ..self.clone() })
                .map(|setup| (setup.seal_name(), setup))
                .into(),
            Some(Compare::Services) => SERVICES.map(|(name, service)| (name, Self { service, ..self.clone() })).into(),
            Some(Compare::Rings) => {
                RINGS.map(|(name, ring)| (name, Self { ring, protocol: Protocol::Ring, ..self.clone() })).into()
            }
            Some(Compare::Idlings) => PROFILES.map(|(name, idling)| (name, Self { idling, ..self.clone() })).into(),
            Some(Compare::Storages) => STORAGES
                .map(|(name, storage)| (name, Self { storage, protocol: Protocol::Paxos, ..self.clone() }))
                .into(),
            Some(Compare::Protocols) => {
                PROTOCOLS.map(|(name, protocol)| (name, Self { protocol, ..self.clone() })).into()
            }
        };
        let own = all.iter().position(|(_, other)| other.is_like(self)).unwrap_or(0);
        all[..=own].rotate_right(1);
        all
    }

    fn is_like(&self, other: &Self) -> bool {
        let key = |setup: &Self| {
            let clients = (setup.unbatched, setup.sockets, setup.embedded, setup.sealed);
            (clients, setup.service, setup.order_name(), setup.idling, setup.storage.name())
        };
        key(self) == key(other)
    }

    /// What must be said of the figures of embedded nodes, where there are any.
    pub fn remark(&self) -> Option<String> {
        let any = self.embedded || self.compare == Some(Compare::Hosts);
        let remark = "embedded: a node and its clients are threads of one process; its own threads count as daemon, \
                      and the memory is that of the whole process";
        any.then(|| remark.into())
    }

    /// A line about all that is not told elsewhere.
    pub fn line(&self) -> String {
        format!(
            "{}, {} {}, {}, {} B messages, {} senders, {}, idling {}, {} datagrams of {} B, {:.1} s",
            self.order_name(),
            self.nodes,
            if self.embedded { "embedded nodes" } else { "daemons" },
            self.service.name(),
            crate::figures::thousands(self.size as u64),
            self.writes_name(),
            self.carrier_name(),
            self.idling.name(),
            self.seal_name(),
            self.datagram.get(),
            self.seconds.as_secs_f64()
        )
    }
}

fn page_path(args: &mut Args) -> Outcome<PathBuf> {
    let path = args.path()?;
    match path.extension().is_some_and(|end| end == "html") {
        true => Ok(path),
        false => Err(args.wrong(&path.display().to_string(), "a file name that ends in .html")),
    }
}

/// Reads messages a second.
pub fn rate(args: &mut Args) -> Outcome<f64> {
    let text = args.text()?;
    match crate::args::size(&text).filter(|rate| (1..=100_000_000).contains(rate)) {
        Some(rate) => Ok(rate as f64),
        None => Err(args.wrong(&text, "messages a second such as 1000 or 10k")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn setup(line: &str) -> Outcome<Setup> {
        let mut args = Args::new(line.split_whitespace().map(OsString::from), shared_help!());
        let mut setup = Setup::default();
        while let Some(option) = args.next()? {
            if !setup.take(&option, &mut args)? {
                return Err(args.unknown());
            }
        }
        Ok(setup)
    }

    #[test]
    fn all_that_help_shows_is_read() {
        let given = setup(
            "--nodes 8 --size 64KiB --service safe --protocol plato --storage memory --ring original --idling frugal --datagram 9000 \
             --credit 1MiB --senders 5 --unbatched --sockets --embedded --seconds 2 --warm-up 1s --runs 7 --compare rings \
             --json --report a/b.html",
        )
        .unwrap();
        assert_eq!((given.nodes, given.size, given.service, given.senders), (8, 65_536, Service::Safe, Some(5)));
        assert_eq!((given.order_name(), given.writes_name(), given.runs), ("plato", "unbatched", 7));
        assert_eq!((given.carrier_name(), given.host_name()), ("sockets", "embedded"));
        assert!(given.line().starts_with("plato, 8 embedded nodes, safe, "), "{}", given.line());
        assert_eq!(given.outlet, Outlet { json: true, report: Some("a/b.html".into()) });
        let told = given.daemon_options().join(" ");
        let kept = setup("--protocol paxos --storage async").unwrap().daemon_options().join(" ");
        assert!(kept.starts_with("--protocol paxos ") && kept.ends_with(" --storage async"), "{kept}");
        assert_eq!(told, "--protocol plato --ring original --idling frugal --datagram 9000 --client-credit 1048576");
        for option in crate::args::options_of(shared_help!()) {
            assert!(!setup(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let problem = |line: &str| setup(line).unwrap_err().message;
        assert_eq!(problem("--senders 0"), "--senders: `0` does not fit; give a number from 1 to 256");
        assert_eq!(problem("--nodes 65"), "--nodes: `65` does not fit; give a number from 1 to 64");
        assert_eq!(problem("--runs 101"), "--runs: `101` does not fit; give a number from 1 to 100");
        assert!(problem("--size 10").starts_with("--size: `10` does not fit; give a size from 24 to"));
        assert!(problem("--service causal").ends_with("give agreed or safe"));
        assert!(problem("--compare apples").starts_with("--compare: `apples` does not fit; give writes, services"));
        assert_eq!(problem("--report a.pdf"), "--report: `a.pdf` does not fit; give a file name that ends in .html");
    }

    #[test]
    fn what_was_asked_for_comes_first_and_each_other_case_once() {
        let names = |line: &str| setup(line).unwrap().variants().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(""), ["accelerated"]);
        assert_eq!(names("--compare writes"), ["batched", "unbatched"]);
        assert_eq!(names("--compare writes --unbatched"), ["unbatched", "batched"]);
        assert_eq!(names("--compare rings --ring original"), ["original", "accelerated"]);
        assert_eq!(names("--compare carriers --sockets"), ["sockets", "memory"]);
        assert_eq!(names("--compare seals"), ["plain", "sealed"]);
        assert_eq!(names("--compare seals --sealed"), ["sealed", "plain"]);
        assert_eq!(names("--compare hosts"), ["daemons", "embedded"]);
        assert_eq!(names("--compare hosts --embedded"), ["embedded", "daemons"]);
        assert_eq!(names("--compare idlings"), ["balanced", "latency", "frugal"]);
        assert_eq!(names("--compare storages --protocol paxos --storage async"), ["async", "memory", "sync"]);
        assert_eq!(
            names("--compare protocols --protocol plato"),
            ["plato", "ring", "toto", "paxos", "multiring-paxos", "multiring"]
        );
    }
}
