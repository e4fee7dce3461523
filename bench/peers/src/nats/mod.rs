//! A cluster of NATS servers with JetStream.

mod clients;

use crate::tools::{address, free_addresses, quoted, runs};
use crate::{Peer, Tuning, Work};
use consort_daemon::failure::{Outcome, Trying};
use consort_testbed::job::Job;
use consort_testbed::{ClientAddress, Hosted, Listener, Speaker, System, Testbed};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The largest message that a server takes unless it is told otherwise.
const PAYLOAD_MAX: usize = 1 << 20;

/// NATS with JetStream.
pub struct Nats;

impl System for Nats {
    fn name(&self) -> &'static str {
        "NATS"
    }

    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Ok(Box::new(clients::NatsSpeaker::connect(job, address(place(at).0)?)?))
    }

    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>> {
        let (at, storage) = place(at);
        Ok(Box::new(clients::NatsListener::join(job, address(at)?, storage)?))
    }
}

impl Peer for Nats {
    fn option(&self) -> (&'static str, &'static str) {
        ("--nats", "PROGRAM")
    }

    fn obstacle(&self, program: &Path, work: &Work) -> Option<String> {
        obstacle(program, work)
    }

    fn start(&self, program: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed> {
        start(program, work.nodes, tuning.nats_storage.name())
    }
}

fn obstacle(program: &Path, work: &Work) -> Option<String> {
    if work.size > PAYLOAD_MAX {
        return Some(format!("it takes messages of {PAYLOAD_MAX} bytes at most; give a smaller --size"));
    }
    if !runs(&program.display().to_string(), &["--version"]) {
        return Some(format!("--nats: cannot run {} --version", program.display()));
    }
    (!runs("setpriv", &["--version"])).then(|| "`setpriv` is not installed".into())
}

/// A client's address, and where the stream that it makes keeps messages.
fn place(at: &str) -> (&str, &str) {
    at.split_once('/').unwrap_or((at, "memory"))
}

fn start(program: &Path, nodes: u16, storage: &str) -> Outcome<Testbed> {
    let program = fs::canonicalize(program).trying(|| format!("--nats: {}", program.display()))?;
    let addresses = free_addresses(2 * usize::from(nodes))?;
    let (clients, routes) = addresses.split_at(nodes.into());
    Testbed::host("nats", nodes, |directory| {
        let write = |name: String, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))
        };
        for node in 0..usize::from(nodes) {
            write(format!("nats-{}.conf", node + 1), configuration(node, clients, routes, directory))?;
        }
        write("nats.sh".into(), script(&program, nodes, directory))?;
        let file = directory.join("nats.sh").display().to_string();
        let addresses = clients.iter().map(|address| format!("{address}/{storage}"));
        let addresses = addresses.map(|at| ClientAddress::other(Nats.name(), at)).collect();
        Ok(Hosted { words: ["sh", &file].map(String::from).into(), addresses, members_only: false })
    })
}

fn configuration(node: usize, clients: &[SocketAddr], routes: &[SocketAddr], directory: &Path) -> String {
    let all: Vec<String> = routes.iter().map(|route| format!("nats-route://{route}")).collect();
    let cluster = match clients.len() {
        1 => String::new(),
        _ => format!("cluster {{\n  name: bench\n  listen: \"{}\"\n  routes: [{}]\n}}\n", routes[node], all.join(", ")),
    };
    format!(
        "server_name: n{0}\nlisten: \"{1}\"\njetstream {{\n  store_dir: \"{2}/nats-{0}\"\n  max_mem: 3G\n  max_file: 1G\n}}\n{cluster}",
        node + 1,
        clients[node],
        directory.display()
    )
}

fn script(program: &Path, nodes: u16, directory: &Path) -> String {
    let (program, directory) = (quoted(program), quoted(directory));
    format!(
        "cd {directory}
pids=
for node in $(seq 1 {nodes}); do
  setpriv --pdeathsig KILL {program} -c nats-$node.conf < /dev/null > nats-$node.log 2>&1 &
  pids=\"$pids $!\"
  echo pid $!
done
sleep 1
for pid in $pids; do
  if ! kill -0 $pid; then tail -n 5 nats-*.log >&2; exit 1; fi
done
echo ready
cat > /dev/null
kill $pids
wait
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn each_server_knows_all_routes_and_one_alone_none() {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let text = configuration(1, &[at(1), at(2)], &[at(3), at(4)], Path::new("/tmp/x"));
        assert!(text.contains("server_name: n2\nlisten: \"127.0.0.1:2\"\n"), "{text}");
        assert!(
            text.contains("listen: \"127.0.0.1:4\"\n  routes: [nats-route://127.0.0.1:3, nats-route://127.0.0.1:4]")
        );
        assert!(!configuration(0, &[at(1)], &[at(3)], Path::new("/tmp/x")).contains("cluster"));
    }

    #[test]
    fn an_address_says_where_messages_are_kept() {
        assert_eq!(place("127.0.0.1:4222/file"), ("127.0.0.1:4222", "file"));
        assert_eq!(place("127.0.0.1:4222"), ("127.0.0.1:4222", "memory"));
    }

    #[test]
    fn the_script_is_one_that_a_shell_understands() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        std::fs::write(&file, script(Path::new("/opt/it's/nats"), 3, directory.path())).unwrap();
        assert!(runs("sh", &["-n", &file.display().to_string()]));
    }
}
