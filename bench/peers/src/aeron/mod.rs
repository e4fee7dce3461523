//! Nodes of an Aeron cluster: media driver, archive, consensus module and service in one process each, ordered by a majority.

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

/// The node's program.
const NODE: (&str, &str) = ("AeronNode.java", include_str!("AeronNode.java"));
/// Ports of a node beside that for clients: ingress, consensus, log, catch-up, archive.
const PORTS: usize = 5;

/// Aeron Cluster. Its archives stand in the directory of temporary files.
pub struct Aeron;

impl System for Aeron {
    fn name(&self) -> &'static str {
        "Aeron Cluster"
    }

    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Ok(Box::new(java::NodeSpeaker::connect(self.name(), job, address(at)?)?))
    }

    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>> {
        Ok(Box::new(java::NodeListener::join(self.name(), job, address(at)?)?))
    }
}

impl Peer for Aeron {
    fn option(&self) -> (&'static str, &'static str) {
        ("--aeron", "JAR")
    }

    fn obstacle(&self, jar: &Path, _work: &Work) -> Option<String> {
        java::obstacle("--aeron", jar).or_else(|| has_no_cluster(jar))
    }

    fn start(&self, jar: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed> {
        let jar = fs::canonicalize(jar).trying(|| format!("--aeron: {}", jar.display()))?;
        let nodes = usize::from(work.nodes);
        let addresses = free_addresses(nodes * (PORTS + 1))?;
        let (client_addresses, ports) = addresses.split_at(nodes);
        let mut testbed = Testbed::host("aeron", work.nodes, |directory| {
            java::compile(self.name(), &jar, directory, NODE)?;
            let path = directory.join("aeron.sh");
            let text = script(&jar, client_addresses, ports, directory, tuning);
            fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))?;
            Ok(Hosted {
                words: ["sh".into(), path.display().to_string()].into(),
                addresses: client_addresses.iter().map(|address| ClientAddress::other(self.name(), address)).collect(),
                members_only: false,
            })
        })?;
        let warmed = java::warm_up(work).run(&mut testbed, &mut |_| {});
        warmed.map_err(|failure: Failure| failure.about("Aeron, while it warmed up"))?;
        Ok(testbed)
    }
}

/// Why a jar does not serve that is none of Aeron's, or not all of it.
fn has_no_cluster(jar: &Path) -> Option<String> {
    let mut command = Command::new("java");
    command.args(["-m", "jdk.jartool/sun.tools.jar.Main", "--list", "--file"]).arg(jar);
    let said = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let has = said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("ClusteredMediaDriver"));
    (!has).then(|| format!("--aeron: {} has no Aeron Cluster in it; give the jar of aeron-all", jar.display()))
}

/// All nodes start together: none is there before they have a leader. They take no heed of a gentler signal.
fn script(
    jar: &Path,
    client_addresses: &[SocketAddr],
    ports: &[SocketAddr],
    directory: &Path,
    tuning: &Tuning,
) -> String {
    let words = |addresses: &[SocketAddr]| {
        let ports: Vec<_> = addresses.iter().map(|address| address.port().to_string()).collect();
        ports.join(" ")
    };
    let (jar, directory) = (quoted(jar), quoted(directory));
    let (frame, window) = (tuning.aeron_frame, tuning.aeron_window);
    let (client_addresses, ports) = (words(client_addresses), words(ports));
    format!(
        "cd {directory}
{JOINED}node=0
pids=
for address in {client_addresses}; do
  setpriv --pdeathsig KILL java --add-opens java.base/sun.nio.ch=ALL-UNNAMED \\
    --add-opens java.base/jdk.internal.misc=ALL-UNNAMED -cp {jar}:. AeronNode \\
    $node node-$node {frame} {window} $address aeron-$node.joined {ports} < /dev/null > aeron-$node.log 2>&1 &
  pids=\"$pids $!\"
  node=$((node + 1))
done
node=0
for pid in $pids; do
  joined aeron-$node $pid
  node=$((node + 1))
  echo pid $pid
done
echo ready
cat > /dev/null
kill -KILL $pids
wait
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_script_is_one_that_a_shell_understands() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let at = |ports: std::ops::Range<u16>| ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let (client_addresses, ports): (Vec<_>, Vec<_>) = (at(5..7).collect(), at(10..20).collect());
        let jar = Path::new("/opt/it's/aeron-all.jar");
        let text = script(jar, &client_addresses, &ports, directory.path(), &Tuning::default());
        assert!(text.contains("for address in 5 6; do") && text.contains(" 8192 2000 $address "), "{text}");
        assert!(
            text.contains("10 11 12 13 14 15 16 17 18 19 < /dev/null") && text.contains(r"-cp '/opt/it'\''s/"),
            "{text}"
        );
        std::fs::write(&file, text).unwrap();
        assert!(crate::tools::runs("sh", &["-n", &file.display().to_string()]));
    }

    #[test]
    fn a_jar_without_a_cluster_is_told_with_what_would_do() {
        let problem = has_no_cluster(Path::new("/nowhere.jar")).unwrap();
        assert_eq!(problem, "--aeron: /nowhere.jar has no Aeron Cluster in it; give the jar of aeron-all");
    }
}
