//! The daemon's command line.
use crate::args::Args;
use crate::config::{
    self, PROFILES, PROTOCOLS, Profile, Protocol, RINGS, SCHEDULINGS, SLOW_POLICIES, STORAGES, Scheduling, Settings,
    SpreadListener,
};
use crate::failure::{Failure, Outcome};
use crate::local;
use crate::log::{FORMATS, Format};
use consort_node::SlowPolicy;
use consort_paxos::Storage;
use consort_ring::Acceleration;
use consort_wire::DatagramSize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What `consort daemon --help` prints.
pub const HELP: &str = "\
Usage: consort daemon [options]

Runs one node of a cluster. Without a file, all nodes live on this machine: each
daemon takes the lowest free place, and those that run find each other.

  consort daemon                      useful at once; start it again for a
                                      second node, up to eight
  consort daemon --config prod.toml   several machines: the same file on each
  consort daemon --example            shows such a file, with every setting

On one machine:
  --cluster NAME     which cluster [default]
  --nodes N          how many nodes it may have, 1 to 64; the same for all [8]
  --protocol NAME    ring, toto, plato, paxos, multiring-paxos or multiring:
                     what orders the messages [ring]. With paxos up to seven
                     of the N nodes vote, and a majority of them must run:
                     `--nodes 1` needs one daemon, and 8 nodes need four
  --storage KIND     what acceptors of paxos keep: memory, async or sync [sync]
  --ring KIND        accelerated or original [accelerated]
  --datagram SIZE    bytes of one datagram, 576 to 65000 [1472]

With a file:
  --config FILE      the cluster's settings (TOML)

Always:
  --node ID          which node this is [the lowest free one at home here]
  --idling PROFILE   latency, balanced or frugal: how much CPU a quick answer
                     is worth [balanced]
  --scheduling CLASS normal, auto (real time where permitted) or realtime, which
                     runs before all of ordinary priority [normal]
  --listen ADDR      serve clients at this TCP address too, not encrypted;
                     may be given several times
  --spread [PORT]    serve existing Spread clients at this port of this machine
                     and at /tmp/PORT, not encrypted [4803]
  --client-output SIZE  how much may wait for a client before it is sent away as
                     slow, 64KiB to 4GiB [64MiB]
  --slow POLICY      what is done about a client that does not read: disconnect,
                     spool (to disk), block (its groups wait) or demote (it
                     leaves its groups) [disconnect]
  --client-credit SIZE  how much of one client's requests may be under way, 4KiB
                     to 1GiB [256KiB]
  --metrics ADDR     tell Prometheus at this TCP address (127.0.0.1:9464), page
                     /metrics; /ready answers 200 when a write is ordered
                     soon, /live when the daemon answers at all
  --state-dir DIR    where the node keeps its incarnation number, and with
                     paxos what it voted
                     [~/.local/state/consort]
  --key FILE         seal what daemons say to each other with this key, which
                     consort keygen writes; the same at all nodes
  --log FILTER       error, warn, info, debug or trace, for all or a part of the
                     program: info,consort_net=debug [info]; also CONSORT_LOG
  --log-format FORM  text, or json: one object a line [text]
  --while-stdin-open end when the standard input is closed

Memory: about 5 MiB at rest. Under load at most 16 MiB of packets, 32 MiB of
messages that wait for their place, and what waits for clients come on top.
SIGTERM and Ctrl-C end it cleanly, a second one at once; SIGUSR1 has it log all
of level debug for a minute; SIGHUP has it read rules, tokens, certificates and
keys in its file again, and is ignored if there is no file. Signals that were
ignored when it started stay ignored, for example SIGHUP below nohup. Sockets
for clients of this machine live in $XDG_RUNTIME_DIR/consort,
without that in consort-UID below $TMPDIR or /tmp, or where CONSORT_RUNTIME_DIR
says. Lock files stay there when a daemon ends; they are of no account then.
";

/// What was given on the command line.
#[derive(Debug, Default)]
pub struct Options {
    cluster: Option<String>,
    nodes: Option<u16>,
    protocol: Option<Protocol>,
    storage: Option<Storage>,
    ring: Option<Acceleration>,
    datagram: Option<DatagramSize>,
    config: Option<PathBuf>,
    idling: Option<Profile>,
    scheduling: Option<Scheduling>,
    listen: Vec<SocketAddr>,
    spread: Option<u16>,
    client_output: Option<usize>,
    client_credit: Option<usize>,
    slow: Option<SlowPolicy>,
    metrics: Option<SocketAddr>,
    state: Option<PathBuf>,
    key: Option<PathBuf>,
    /// Which node it is to be.
    pub node: Option<u16>,
    /// What the log tells, and how.
    pub log: Option<String>,
    /// How events are written.
    pub log_format: Format,
    /// Ends with its input.
    pub while_stdin_open: bool,
    example: bool,
}

/// Reads the command line.
pub fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options::default();
    Args::only_options(words, HELP, |option, args| options.take(option, args))?;
    if options.example {
        return Err(Failure::shown(config::EXAMPLE));
    }
    Ok(options)
}

/// Reads the command line of `consort abandon` and `consort adopt`: some of the daemon's options, and whether it is meant.
pub fn of_abandon(words: Vec<OsString>, help: &'static str) -> Outcome<(Options, bool)> {
    let (mut options, mut yes) = (Options::default(), false);
    Args::only_options(words, help, |option, args| match option {
        "--yes" => {
            yes = true;
            Ok(true)
        }
        "--config" | "--cluster" | "--nodes" | "--node" | "--state-dir" => options.take(option, args),
        _ => Ok(false),
    })?;
    if options.config.is_none() {
        options.protocol = Some(Protocol::Paxos);
    }
    Ok((options, yes))
}

impl Options {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--cluster" => self.cluster = Some(args.cluster()?),
            "--nodes" => self.nodes = Some(args.number(1..=u64::from(local::NODES_MAX))? as u16),
            "--protocol" => self.protocol = Some(args.choice(&PROTOCOLS)?),
            "--storage" => self.storage = Some(args.choice(&STORAGES)?),
            "--ring" => self.ring = Some(args.choice(&RINGS)?),
            "--datagram" => self.datagram = Some(datagram(args)?),
            "--config" => self.config = Some(args.path()?),
            "--node" => self.node = Some(args.number(1..=u64::from(u16::MAX))? as u16),
            "--idling" => self.idling = Some(args.choice(&PROFILES)?),
            "--scheduling" => self.scheduling = Some(args.choice(&SCHEDULINGS)?),
            "--listen" => self.listen.push(args.parsed("ADDRESS:PORT, such as 127.0.0.1:4840")?),
            "--spread" => {
                let port = args.optional_number(1..=u64::from(u16::MAX))?;
                self.spread = Some(port.map_or(consort_spread::PORT, |port| port as u16));
            }
            "--client-output" => self.client_output = Some(args.size(65_536..=1 << 32)? as usize),
            "--slow" => self.slow = Some(args.choice(&SLOW_POLICIES)?),
            "--client-credit" => self.client_credit = Some(args.size(4_096..=1 << 30)? as usize),
            "--metrics" => self.metrics = Some(args.parsed("ADDRESS:PORT, such as 127.0.0.1:9464")?),
            "--state-dir" => self.state = Some(args.path()?),
            "--key" => self.key = Some(args.path()?),
            "--log" => self.log = Some(args.text()?),
            "--log-format" => self.log_format = args.choice(&FORMATS)?,
            "--example" => self.example = true,
            "--while-stdin-open" => self.while_stdin_open = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there is a file that can be read again.
    pub const fn reloads(&self) -> bool {
        self.config.is_some()
    }

    /// The settings that follow from file and command line.
    pub fn settings(&self) -> Outcome<Settings> {
        let mut settings = match &self.config {
            Some(file) => self.only_without_file().and_then(|()| config::read(file))?,
            None => self.local(),
        };
        settings.profile = self.idling.unwrap_or(settings.profile);
        settings.scheduling = self.scheduling.unwrap_or(settings.scheduling);
        settings.listen.extend(&self.listen);
        settings.spread = self.spread.map(SpreadListener::at).or(settings.spread);
        settings.limits.output_max = self.client_output.unwrap_or(settings.limits.output_max);
        settings.limits.slow.policy = self.slow.unwrap_or(settings.limits.slow.policy);
        settings.limits.credit = self.client_credit.unwrap_or(settings.limits.credit);
        settings.metrics = self.metrics.or(settings.metrics);
        settings.state = self.state.clone().or(settings.state);
        settings.key = self.key.clone().or(settings.key);
        settings.hand_on();
        settings.validate().map_err(|(setting, problem)| Failure::usage(format!("{setting}: {problem}")))?;
        Ok(settings)
    }

    fn local(&self) -> Settings {
        let mut settings =
            Settings::local(self.cluster.as_deref().unwrap_or("default"), self.nodes.unwrap_or(local::NODES));
        settings.protocol = self.protocol.unwrap_or(settings.protocol);
        settings.paxos.storage = self.storage;
        settings.ring.acceleration = self.ring.unwrap_or(settings.ring.acceleration);
        settings.ring.datagram = self.datagram.unwrap_or(settings.ring.datagram);
        settings
    }

    /// What all members share comes from the file or from the command line, never from both.
    fn only_without_file(&self) -> Outcome {
        let given = [
            ("--cluster", self.cluster.is_some(), "cluster"),
            ("--nodes", self.nodes.is_some(), "[[node]]"),
            ("--protocol", self.protocol.is_some(), "protocol"),
            ("--storage", self.storage.is_some(), "storage below [paxos]"),
            ("--ring", self.ring.is_some(), "protocol below [ring]"),
            ("--datagram", self.datagram.is_some(), "datagram"),
        ];
        match given.iter().find(|(_, given, _)| *given) {
            None => Ok(()),
            Some((option, _, key)) => Err(Failure::usage(format!(
                "{option} does not go with --config; set {key} in the file, for all nodes alike"
            ))),
        }
    }
}

fn datagram(args: &mut Args) -> Outcome<DatagramSize> {
    let bytes = args.size(DatagramSize::MIN as u64..=DatagramSize::MAX as u64)?;
    DatagramSize::new(bytes as usize).map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    fn problem(line: &str) -> String {
        options(line).and_then(|options| options.settings()).map(|_| ()).unwrap_err().message
    }

    #[test]
    fn nothing_is_needed() {
        let settings = options("").unwrap().settings().unwrap();
        assert_eq!((settings.cluster.as_str(), settings.nodes.len()), ("default", 8));
        assert_eq!((settings.profile, settings.ring.acceleration), (Profile::Balanced, Acceleration::Accelerated));
    }

    #[test]
    fn the_command_line_shapes_the_cluster() {
        let line = "--cluster c --nodes 3 --ring original --idling frugal --datagram 8000 --listen 127.0.0.1:4840 --client-output 1MiB --client-credit 8KiB";
        let settings = options(line).unwrap().settings().unwrap();
        assert_eq!((settings.cluster.as_str(), settings.nodes.len(), settings.listen.len()), ("c", 3, 1));
        assert_eq!((settings.profile, settings.ring.acceleration), (Profile::Frugal, Acceleration::Original));
        assert_eq!((settings.ring.datagram.get(), settings.limits.output_max), (8000, 1 << 20));
        assert_eq!(settings.limits.credit, 8_192);
    }

    #[test]
    fn the_protocol_is_chosen_on_the_command_line() {
        let settings = options("--protocol toto --nodes 3").unwrap().settings().unwrap();
        assert_eq!(settings.protocol, Protocol::Toto);
        assert!(settings.summary().starts_with("3 nodes, toto with phi 50%"), "{}", settings.summary());
        let settings = options("--protocol plato --nodes 3").unwrap().settings().unwrap();
        assert!(settings.summary().starts_with("3 nodes, plato, "), "{}", settings.summary());
        let settings = options("--protocol paxos --nodes 3").unwrap().settings().unwrap();
        assert!(
            settings.summary().starts_with("3 nodes, paxos with acceptors 1 2 3, storage sync, "),
            "{}",
            settings.summary()
        );
        let settings = options("--protocol multiring --nodes 5").unwrap().settings().unwrap();
        assert!(
            settings.summary().starts_with("5 nodes, multiring with 2 rings joined by 3 4, "),
            "{}",
            settings.summary()
        );
    }

    #[test]
    fn spread_listens_at_its_usual_port_or_another() {
        let listener = |line: &str| options(line).unwrap().settings().unwrap().spread;
        assert_eq!(listener(""), None);
        assert_eq!(listener("--spread"), Some(SpreadListener::at(4803)));
        assert_eq!(listener("--spread --nodes 2"), Some(SpreadListener::at(4803)));
        assert_eq!(listener("--spread 5000 --nodes 2"), Some(SpreadListener::at(5000)));
        assert_eq!(listener("--spread=5000"), Some(SpreadListener::at(5000)));
        assert_eq!(problem("--spread 65536"), "--spread: `65536` does not fit; give a number from 1 to 65535");
    }

    #[test]
    fn metrics_are_told_where_the_command_line_says() {
        let at = |line: &str| options(line).unwrap().settings().unwrap().metrics;
        assert_eq!((at(""), at("--metrics 127.0.0.1:9464")), (None, Some(([127, 0, 0, 1], 9464).into())));
    }

    #[test]
    fn a_key_is_named_on_the_command_line() {
        let key = |line: &str| options(line).unwrap().settings().unwrap().key;
        assert_eq!((key(""), key("--key /etc/k")), (None, Some("/etc/k".into())));
        assert!(problem("--key k --datagram 580").contains("use at least 600"));
    }

    #[test]
    fn wrong_lines_say_what_is_wrong_and_what_to_do() {
        assert_eq!(problem("--nods 3"), "--nods: there is no such option; did you mean --nodes?");
        assert_eq!(problem("--nodes 65"), "--nodes: `65` does not fit; give a number from 1 to 64");
        assert_eq!(
            problem("--metrics 9464"),
            "--metrics: `9464` does not fit; give ADDRESS:PORT, such as 127.0.0.1:9464"
        );
        assert_eq!(problem("--storage disk"), "--storage: `disk` does not fit; give memory, async or sync");
        assert_eq!(
            problem("--protocol vote"),
            "--protocol: `vote` does not fit; give ring, toto, plato, paxos, multiring-paxos or multiring"
        );
        assert_eq!(problem("--scheduling fast"), "--scheduling: `fast` does not fit; give normal, auto or realtime");
        assert!(problem("--scheduling realtime --idling latency").starts_with("scheduling: idling `latency` yields"));
        assert_eq!(problem("--slow wait"), "--slow: `wait` does not fit; give disconnect, spool, block or demote");
        assert_eq!(problem("--ring fast"), "--ring: `fast` does not fit; give accelerated or original");
        assert_eq!(problem("extra"), "`extra` is not an option; options start with -- (see --help)");
        assert_eq!(
            problem("--config x.toml --nodes 3"),
            "--nodes does not go with --config; set [[node]] in the file, for all nodes alike"
        );
        assert!(problem("--config /nowhere.toml").starts_with("cannot read /nowhere.toml: "));
        assert!(problem("--cluster a/b").starts_with("--cluster: `a/b` is no cluster name"));
        assert!(problem("--listen here").ends_with("give ADDRESS:PORT, such as 127.0.0.1:4840"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}
