//! Three daemons of one protocol, each in a network namespace, and what can be seen of them from outside.
use crate::support::{World, free_port};
use consort::{Address, Client, ConnectOptions, Error, GroupName, Service};
use consort_testbed::network::process::Process;
use consort_testbed::network::{Network, Plan};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// A write goes through within this time if a daemon is ready.
const SOON: Duration = Duration::from_secs(2);
/// A daemon says within this time what has become of it, also on a machine that is busy.
const NOTICED: Duration = Duration::from_secs(15);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Whether all protocols go through all situations.
pub fn is_long() -> bool {
    std::env::var_os("CONSORT_LONG").is_some_and(|wanted| wanted == "1")
}

/// What a daemon says, and what a write at it comes to.
#[derive(Clone, Debug)]
pub struct Seen {
    pub live: String,
    pub ready: String,
    pub primary: Option<String>,
    /// Whether a write was ordered in time.
    pub goes: bool,
    pub cause: String,
    /// `/ready` said yes before and after a write that did not go through.
    pub lied: bool,
}

/// Lets sockets of a node's namespace be bound to any address, as load balancers need it: a daemon without `--node` must
/// find by the addresses of its interfaces which node it is.
fn bind_any(network: &Network, node: usize) {
    let set = || std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1");
    if let Err(error) = network.namespace(node).enter(set).unwrap() {
        // Then it finds itself where only its own addresses can be bound.
        eprintln!("SKIPPED: no address but its own can be bound at n{}: {error}", node + 1);
    }
}

/// Three daemons, which run or not.
pub struct Ground {
    pub name: &'static str,
    /// Whether a part of the cluster may be primary, so that `consort_primary` is there.
    pub has_policy: bool,
    daemons: [Option<Process>; 3],
    network: Network,
    world: World,
    file: String,
    port: u16,
    /// What stands in front of a daemon's command, for example assignments of variables.
    before: Vec<String>,
}

impl Ground {
    /// Daemons with these lines at the top of their file, and these at its end. None where this machine has no namespaces,
    /// with the reason printed.
    pub fn new(name: &'static str, protocol: &str, more: &str) -> Option<Self> {
        let plan = Plan { nodes: 3, mtu: 1_500, seed: 1, ethernet: None };
        let several = protocol == "multiring";
        let networks = if several { vec![vec![0, 1], vec![1, 2]] } else { vec![vec![0, 1, 2]] };
        let network = match Network::several(&plan, &networks) {
            Ok(network) => network,
            Err(reason) => {
                assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
                eprintln!("SKIPPED: {name} is not looked at: {reason}");
                return None;
            }
        };
        (0..3).for_each(|node| bind_any(&network, node));
        let (world, port) = (World::new(), free_port());
        let mut text = format!("cluster = \"{}\"\nprotocol = \"{protocol}\"\n{more}", world.cluster);
        text += &format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
        for (number, nodes) in networks.iter().enumerate() {
            if several {
                text += &format!("[[network]]\nid = {}\n", number + 1);
            }
            let head = if several { "network.node" } else { "node" };
            for node in nodes {
                let address = Network::address_in(number, *node);
                text += &format!("[[{head}]]\nid = {}\naddress = \"{address}\"\n", node + 1);
            }
        }
        let file = world.write("consort.toml", &text);
        let has_policy = !more.contains("primary = \"none\"");
        Some(Self { name, has_policy, daemons: [None, None, None], network, world, file, port, before: Vec::new() })
    }

    /// The directory of a daemon's state.
    pub fn state(&self, node: usize) -> std::path::PathBuf {
        self.world.path(&format!("state-{}", node + 1))
    }

    /// A path in the directory of this ground.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.world.path(name)
    }

    /// Daemons are started by a command behind these words.
    pub fn run_by(&mut self, words: &[&str]) {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
    }

    pub fn start(&mut self, node: usize) {
        let (number, state) = (node + 1, self.state(node).display().to_string());
        let plain = self.world.command(&["daemon", "--config", &self.file, "--state-dir", &state]);
        let mut command = match self.before.split_first() {
            None => plain,
            Some((program, words)) => {
                let mut command = std::process::Command::new(program);
                command.args(words).arg(plain.get_program()).args(plain.get_args());
                plain.get_envs().for_each(|(name, value)| {
                    value.map(|value| command.env(name, value));
                });
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let name = format!("{}-{number}", self.name);
        let started = Process::start(&self.network, node, &name, &self.world.path("."), &mut command).unwrap();
        self.daemons[node] = Some(started);
        self.wait_until("the daemon answers", |ground| ground.is_live(node));
    }

    /// Sees that something becomes so.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + NOTICED;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{}: not so after {NOTICED:?}: {what}", self.name);
            thread::sleep(LOOK);
        }
    }

    /// Nothing passes between these nodes and the others.
    pub fn split(&self, part: &[usize]) {
        self.network.split(part).unwrap();
    }

    fn signal(&self, nodes: &[usize], signal: Signal) {
        nodes.iter().for_each(|node| self.daemons[*node].as_ref().unwrap().signal(signal));
    }

    pub fn stop(&self, nodes: &[usize]) {
        self.signal(nodes, Signal::STOP);
    }

    pub fn go_on(&self, nodes: &[usize]) {
        self.signal(nodes, Signal::CONT);
    }

    pub fn kill(&mut self, node: usize) {
        self.daemons[node] = None;
    }

    /// Has a daemon leave, and waits until it has ended.
    pub fn leave(&mut self, node: usize) {
        self.daemons[node].take().unwrap().end(NOTICED).unwrap();
    }

    /// The log of a daemon since it was started last.
    pub fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.path(&format!("{}-{}.log", self.name, node + 1))).unwrap()
    }

    pub fn is_live(&self, node: usize) -> bool {
        self.get(node, "/live").starts_with("200")
    }

    /// Code and text of an answer.
    pub fn get(&self, node: usize, path: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let address = SocketAddr::from(([127, 0, 0, 1], self.port));
            let mut stream = TcpStream::connect_timeout(&address, SOON)?;
            stream.set_read_timeout(Some(SOON * 2))?;
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let asked = self.network.namespace(node).enter(ask).unwrap();
        let answer = asked.unwrap_or_else(|error| format!("- no answer: {error}\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let code = head.strip_prefix("HTTP/1.1 ").unwrap_or(head).split(' ').next().unwrap_or_default();
        format!("{code} {body}").trim().to_owned()
    }

    fn primary(&self, node: usize) -> Option<String> {
        let page = self.get(node, "/metrics");
        page.lines().find_map(|line| line.strip_prefix("consort_primary ").map(str::to_owned))
    }

    /// Whether a write at this daemon is ordered in time, and what it waits for where not.
    fn write(&self, node: usize) -> (bool, String) {
        let address = Address::Unix(self.world.socket_path(node as u16 + 1));
        let group = GroupName::new("orders").unwrap();
        let sent = Client::connect(&address, &ConnectOptions::default()).and_then(|mut client| {
            client.multicast_within(Service::Agreed, &[group], b"write", SOON)?;
            let goes = client.wait_ordered(SOON);
            Ok((goes, client.wait_cause()))
        });
        match sent {
            Ok((Ok(()), _)) => (true, String::new()),
            Ok((Err(Error::TimedOut { .. }), cause)) => {
                (false, cause.map_or_else(|| "none".into(), |cause| cause.to_string()))
            }
            Ok((Err(error), _)) | Err(error) => (false, error.to_string()),
        }
    }

    /// Writes, whatever comes of it.
    pub fn write_in_vain(&self, node: usize) {
        self.write(node);
    }

    fn look(&self, node: usize) -> Seen {
        let before = self.get(node, "/ready");
        let (goes, cause) = self.write(node);
        let ready = self.get(node, "/ready");
        let lied = !goes && [&before, &ready].iter().all(|said| said.starts_with("200"));
        Seen { live: self.get(node, "/live"), ready, primary: self.primary(node), goes, cause, lied }
    }

    /// Looks until something is so, or it should have become so.
    pub fn look_until(&self, node: usize, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + NOTICED;
        loop {
            let seen = self.look(node);
            if seen.lied || is_so(&seen) || Instant::now() > deadline {
                return seen;
            }
            thread::sleep(LOOK);
        }
    }
}
