//! Daemons of Spread, in a network namespace of their own: they want addresses that a loopback interface has not by
//! itself, and to be alone at their port.

mod clients;

use crate::tools::{quoted, runs};
use crate::{Peer, Tuning, Work};
use clients::PAYLOAD_MAX;
use consort_daemon::failure::{Outcome, Trying};
use consort_testbed::job::Job;
use consort_testbed::{ClientAddress, Hosted, Listener, Speaker, System, Testbed};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The programs that the script needs.
const TOOLS: [&str; 3] = ["unshare", "ip", "setpriv"];

/// Spread 5.
pub struct Spread;

impl System for Spread {
    fn name(&self) -> &'static str {
        "Spread"
    }

    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Ok(Box::new(clients::SpreadSpeaker::connect(job, Path::new(at))?))
    }

    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>> {
        Ok(Box::new(clients::SpreadListener::join(job, Path::new(at))?))
    }
}

impl Peer for Spread {
    fn option(&self) -> (&'static str, &'static str) {
        ("--spread", "PROGRAM")
    }

    fn obstacle(&self, program: &Path, work: &Work) -> Option<String> {
        obstacle(program, work)
    }

    fn start(&self, program: &Path, work: &Work, _tuning: &Tuning) -> Outcome<Testbed> {
        start(program, work.nodes)
    }
}

fn obstacle(program: &Path, work: &Work) -> Option<String> {
    if work.size > PAYLOAD_MAX {
        return Some(format!("it takes messages of {} bytes at most; give a smaller --size", PAYLOAD_MAX));
    }
    // It says its version, or nothing, on a word that it does not know; whether it runs is what counts.
    let tried =
        Command::new(program).arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = tried {
        return Some(format!("--spread: cannot run {}: {error}", program.display()));
    }
    let lacking = TOOLS.into_iter().find(|tool| !runs(tool, &["--version"]) && !runs(tool, &["-V"]));
    if let Some(tool) = lacking {
        return Some(format!("`{tool}` is not installed"));
    }
    (!runs("unshare", &["--net", "ip", "link", "set", "lo", "up"]))
        .then(|| "a network namespace cannot be made; run this as root".into())
}

fn start(program: &Path, nodes: u16) -> Outcome<Testbed> {
    let program = fs::canonicalize(program).trying(|| format!("--spread: {}", program.display()))?;
    Testbed::host("spread", nodes, |directory| {
        let port = free_port();
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))
        };
        write("spread.conf", configuration(nodes, port, directory))?;
        write("spread.sh", script(&program, nodes, port, directory))?;
        let file = directory.join("spread.sh").display().to_string();
        let words = ["unshare", "--net", "sh", &file].map(String::from).into();
        let address = |node| ClientAddress::other(Spread.name(), directory.join(socket(node)).display());
        let addresses = (1..=nodes).map(address).collect();
        Ok(Hosted { words, addresses, members_only: false })
    })
}

/// A port whose socket file nobody has: it lies where every Spread of this machine has it.
fn free_port() -> u16 {
    let first = 15_000 + (std::process::id() % 10_000) as u16;
    (first..first + 1_000).find(|port| !Path::new(&format!("/tmp/{port}")).exists()).unwrap_or(first)
}

fn socket(node: u16) -> String {
    format!("spread-{node}.sock")
}

fn configuration(nodes: u16, port: u16, directory: &Path) -> String {
    let mut text = format!("Spread_Segment 239.193.7.7:{port} {{\n");
    for node in 1..=nodes {
        let address = format!("127.0.0.{node}");
        let _ = writeln!(text, "  n{node} {address} {{ D {address} C {address} }}");
    }
    // Else a receiver that pauses for a moment is dropped; and as root it would look for a user of its own.
    let _ = writeln!(
        text,
        "}}\nEventLogFile = /dev/stderr\nEventPriority = WARNING\nMaxSessionMessages = 1000000\nSocketPortReuse = ON\n\
         RuntimeDir = {}\nDaemonUser = root\nDaemonGroup = root",
        directory.display()
    );
    text
}

/// Each daemon makes its socket file at one and the same place: it is moved away before the next one starts.
fn script(program: &Path, nodes: u16, port: u16, directory: &Path) -> String {
    let (program, directory) = (quoted(program), quoted(directory));
    format!(
        "set -e
cd {directory}
ip link set lo up multicast on
for node in $(seq 2 {nodes}); do ip addr add 127.0.0.$node/8 dev lo; done
ip route add 239.0.0.0/8 dev lo
pids=
for node in $(seq 1 {nodes}); do
  setpriv --pdeathsig KILL {program} -c spread.conf -n n$node < /dev/null > spread-$node.log 2>&1 &
  pids=\"$pids $!\"
  tries=0
  while [ ! -S /tmp/{port} ]; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ]; then tail -n 5 spread-$node.log >&2; exit 1; fi
    sleep 0.05
  done
  mv /tmp/{port} spread-$node.sock
  echo pid $!
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

    #[test]
    fn each_daemon_has_an_address_and_a_name() {
        let text = configuration(2, 4_803, Path::new("/tmp/x"));
        assert!(text.starts_with("Spread_Segment 239.193.7.7:4803 {\n  n1 127.0.0.1 { D 127.0.0.1 C 127.0.0.1 }\n"));
        assert!(text.contains("  n2 127.0.0.2 {") && text.contains("}\nEventLogFile"), "{text}");
    }

    #[test]
    fn the_script_is_one_that_a_shell_understands() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let text = script(Path::new("/opt/it's/spread"), 3, 4_803, directory.path());
        assert!(text.contains(r"'/opt/it'\''s/spread' -c spread.conf"), "{text}");
        std::fs::write(&file, text).unwrap();
        assert!(runs("sh", &["-n", &file.display().to_string()]));
    }
}
