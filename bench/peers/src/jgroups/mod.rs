//! Nodes of JGroups: programs in Java that are members themselves, ordered by its SEQUENCER.

use crate::java::{self, JOINED};
use crate::tools::{address, free_addresses, quoted};
use crate::{Peer, Tuning, Work};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::job::Job;
use consort_testbed::{ClientAddress, Hosted, Listener, Speaker, System, Testbed};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first version with today's messages.
const OLDEST: u32 = 5;
/// The node's program.
const NODE: (&str, &str) = ("JGroupsNode.java", include_str!("JGroupsNode.java"));

/// JGroups 5, ordered by its SEQUENCER. It has no daemons: its nodes are members themselves.
pub struct JGroups;

impl System for JGroups {
    fn name(&self) -> &'static str {
        "JGroups"
    }

    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Ok(Box::new(java::NodeSpeaker::connect(self.name(), job, address(at)?)?))
    }

    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>> {
        Ok(Box::new(java::NodeListener::join(self.name(), job, address(at)?)?))
    }
}

impl Peer for JGroups {
    fn option(&self) -> (&'static str, &'static str) {
        ("--jgroups", "JAR")
    }

    fn obstacle(&self, jar: &Path, _work: &Work) -> Option<String> {
        obstacle(jar)
    }

    fn start(&self, jar: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed> {
        start(jar, work, tuning)
    }
}

fn obstacle(jar: &Path) -> Option<String> {
    let problem = java::obstacle("--jgroups", jar);
    if problem.is_some() {
        return problem;
    }
    let mut command = Command::new("java");
    command.arg("-cp").arg(jar).arg("org.jgroups.Version").stdin(Stdio::null()).stderr(Stdio::null());
    let said = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let problem = unfit(&said.unwrap_or_default())?;
    Some(format!("--jgroups: {} {problem}", jar.display()))
}

/// Why a jar does not serve whose JGroups says this of its version.
fn unfit(said: &str) -> Option<String> {
    let version = said.lines().find_map(|line| line.trim().strip_prefix("Version:")).map(str::trim);
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (version, major) {
        (_, Some(major)) if major >= OLDEST => None,
        (Some(version), Some(_)) => Some(format!("is JGroups {version}; give the jar of version {OLDEST}.0 or later")),
        _ => Some("is not the jar of JGroups; `java -cp JAR org.jgroups.Version` must tell its version".into()),
    }
}

/// Starts so many nodes, and has them run until they are warm.
fn start(jar: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed> {
    let jar = fs::canonicalize(jar).trying(|| format!("--jgroups: {}", jar.display()))?;
    let addresses = free_addresses(usize::from(work.nodes) + 1)?;
    let (shared, client_addresses) = addresses.split_first().ok_or_else(|| Failure::new("no node is to run"))?;
    let mut testbed = Testbed::host("jgroups", work.nodes, |directory| {
        java::compile(JGroups.name(), &jar, directory, NODE)?;
        let path = directory.join("jgroups.sh");
        let text = script(&jar, shared.port(), client_addresses, directory, tuning);
        fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))?;
        let words = ["sh".into(), path.display().to_string()].into();
        Ok(Hosted {
            words,
            addresses: client_addresses.iter().map(|address| ClientAddress::other(JGroups.name(), address)).collect(),
            members_only: false,
        })
    })?;
    let warmed = java::warm_up(work).run(&mut testbed, &mut |_| {});
    warmed.map_err(|failure| failure.about("JGroups, while it warmed up"))?;
    Ok(testbed)
}

/// The first node is alone for a moment: those that start together would each found a cluster, and merge late.
fn script(jar: &Path, shared: u16, client_addresses: &[SocketAddr], directory: &Path, tuning: &Tuning) -> String {
    let (stack, window) = (tuning.stack.file(), tuning.jgroups_window);
    let ports: Vec<String> = client_addresses.iter().map(|address| address.port().to_string()).collect();
    let (jar, directory, ports) = (quoted(jar), quoted(directory), ports.join(" "));
    format!(
        "cd {directory}
{JOINED}node=0
pids=
for port in {ports}; do
  node=$((node + 1))
  setpriv --pdeathsig KILL java -Djava.net.preferIPv4Stack=true -Djgroups.bind_addr=127.0.0.1 \\
    -Djgroups.udp.mcast_port={shared} -cp {jar}:. JGroupsNode {stack} bench-{shared} $port jgroups-$node.joined {window} \\
    < /dev/null > jgroups-$node.log 2>&1 &
  pids=\"$pids $!\"
  if [ $node = 1 ]; then joined jgroups-1 $!; fi
done
node=0
for pid in $pids; do
  node=$((node + 1))
  joined jgroups-$node $pid
  echo pid $pid
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
    fn a_jar_that_does_not_serve_is_told_with_what_would() {
        assert_eq!(unfit("\nVersion: 5.3.18.Final (Zoncolan)\n"), None);
        assert_eq!(unfit("Version: 10.0\n"), None);
        let old = unfit("Version:      4.2.30.Final (Julier)\n").unwrap();
        assert_eq!(old, "is JGroups 4.2.30.Final (Julier); give the jar of version 5.0 or later");
        for strange in ["", "Version: new", "usage: java"] {
            assert!(unfit(strange).unwrap().starts_with("is not the jar of JGroups; "), "{strange}");
        }
    }

    #[test]
    fn the_script_is_one_that_a_shell_understands() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let client_addresses = [5, 6].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let text =
            script(Path::new("/opt/it's/jgroups.jar"), 7, &client_addresses, directory.path(), &Tuning::default());
        assert!(text.contains("JGroupsNode udp.xml bench-7 $port jgroups-$node.joined 2000 "), "{text}");
        assert!(text.contains("for port in 5 6; do") && text.contains(r"-cp '/opt/it'\''s/jgroups.jar':."), "{text}");
        std::fs::write(&file, text).unwrap();
        assert!(crate::tools::runs("sh", &["-n", &file.display().to_string()]));
    }
}
