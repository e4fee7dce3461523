//! Nodes of JGroups: programs in Java that are members themselves, ordered by its SEQUENCER.

mod clients;

use crate::tools::{address, free_addresses, quoted, runs};
use crate::{Peer, Tuning, WARM_UP, Work};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::job::{Job, Load, Pace};
use consort_testbed::{Door, Hosted, Listener, Round, Speaker, System, Testbed};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The compiler, which a JDK has as a module of `java` itself.
const COMPILER: [&str; 2] = ["-m", "jdk.compiler/com.sun.tools.javac.Main"];
/// The first version with today's messages.
const OLDEST: u32 = 5;
/// The node's program.
const NODE: &str = include_str!("JGroupsNode.java");

/// JGroups 5, ordered by its SEQUENCER. It has no daemons: its nodes are members themselves.
pub struct JGroups;

impl System for JGroups {
    fn name(&self) -> &'static str {
        "JGroups"
    }

    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Ok(Box::new(clients::JGroupsSpeaker::connect(job, address(at)?)?))
    }

    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>> {
        Ok(Box::new(clients::JGroupsListener::join(job, address(at)?)?))
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
    if let Err(error) = fs::File::open(jar) {
        return Some(format!("--jgroups: cannot read {}: {error}", jar.display()));
    }
    if !runs("java", &[&COMPILER[..], &["-version"]].concat()) {
        return Some("`java` with its compiler, as a JDK of version 11 or later has it, is not installed".into());
    }
    if !runs("setpriv", &["--version"]) {
        return Some("`setpriv` is not installed".into());
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
    let (shared, doors) = addresses.split_first().ok_or_else(|| Failure::new("no node is to run"))?;
    let mut testbed = Testbed::host("jgroups", work.nodes, |directory| {
        compile(&jar, directory)?;
        let path = directory.join("jgroups.sh");
        let text = script(&jar, shared.port(), doors, directory, tuning);
        fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))?;
        let words = ["sh".into(), path.display().to_string()].into();
        Ok(Hosted {
            words,
            doors: doors.iter().map(|address| Door::other(JGroups.name(), address)).collect(),
            members_only: false,
        })
    })?;
    let warmed = warm_up(work).run(&mut testbed, &mut |_| {});
    warmed.map_err(|failure| failure.about("JGroups, while it warmed up"))?;
    Ok(testbed)
}

/// All nodes send all they may before anything is measured, for what Java compiles while it runs.
fn warm_up(work: &Work) -> Round {
    Round {
        group: "warm-up".into(),
        service: work.service.name().into(),
        load: Load::Made(work.size),
        pace: Pace::Max,
        cut: false,
        senders: work.senders,
        receivers: None,
        unbatched: work.unbatched,
        sockets: false,
        digest: false,
        warm_up: WARM_UP,
        span: Duration::from_millis(100),
    }
}

fn compile(jar: &Path, directory: &Path) -> Outcome {
    let source = directory.join("JGroupsNode.java");
    fs::write(&source, NODE).trying(|| format!("cannot write {}", source.display()))?;
    let mut command = Command::new("java");
    command.args(COMPILER).arg("-cp").arg(jar).arg("-d").arg(directory).arg(source).stdin(Stdio::null());
    let output = command.output().trying(|| "cannot run java".into())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Failure::new(format!("the node of JGroups does not compile with {}:\n{said}", jar.display())))
        }
    }
}

/// The first node is alone for a moment: those that start together would each found a cluster, and merge late.
fn script(jar: &Path, shared: u16, doors: &[SocketAddr], directory: &Path, tuning: &Tuning) -> String {
    let (stack, window) = (tuning.stack.file(), tuning.jgroups_window);
    let ports: Vec<String> = doors.iter().map(|door| door.port().to_string()).collect();
    let (jar, directory, ports) = (quoted(jar), quoted(directory), ports.join(" "));
    format!(
        "cd {directory}
joined() {{
  tries=0
  while [ ! -e jgroups-$1.joined ]; do
    tries=$((tries + 1))
    if [ $tries -gt 500 ] || ! kill -0 $2; then tail -n 5 jgroups-$1.log >&2; exit 1; fi
    sleep 0.05
  done
}}
node=0
pids=
for port in {ports}; do
  node=$((node + 1))
  setpriv --pdeathsig KILL java -Djava.net.preferIPv4Stack=true -Djgroups.bind_addr=127.0.0.1 \\
    -Djgroups.udp.mcast_port={shared} -cp {jar}:. JGroupsNode {stack} bench-{shared} $port jgroups-$node.joined {window} \\
    < /dev/null > jgroups-$node.log 2>&1 &
  pids=\"$pids $!\"
  if [ $node = 1 ]; then joined 1 $!; fi
done
node=0
for pid in $pids; do
  node=$((node + 1))
  joined $node $pid
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
        let doors = [5, 6].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let text = script(Path::new("/opt/it's/jgroups.jar"), 7, &doors, directory.path(), &Tuning::default());
        assert!(text.contains("JGroupsNode udp.xml bench-7 $port jgroups-$node.joined 2000 "), "{text}");
        assert!(text.contains("for port in 5 6; do") && text.contains(r"-cp '/opt/it'\''s/jgroups.jar':."), "{text}");
        std::fs::write(&file, text).unwrap();
        assert!(runs("sh", &["-n", &file.display().to_string()]));
    }
}
