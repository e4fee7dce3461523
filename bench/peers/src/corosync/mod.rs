//! Daemons of Corosync, in a network namespace of their own, each with files of its own: they have fixed places for their
//! locks, sockets and shared memory.

mod clients;

use crate::tools::{quoted, runs};
use crate::{Peer, Tuning, Work};
use clients::{INSIDE, MEMBERS_MAX, compile};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::job::Job;
use consort_testbed::{ClientAddress, Hosted, Listener, Speaker, System, Testbed};
use consort_types::Service;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The programs that the scripts need.
const TOOLS: [&str; 6] = ["unshare", "nsenter", "setpriv", "mount", "ip", "cc"];
/// What a daemon and its clients see of their own instead of the machine's.
const PRIVATE: [&str; 3] = ["/run", "/tmp", "/dev/shm"];

/// Corosync 3. Only members of a group may send to it.
pub struct Corosync;

impl System for Corosync {
    fn name(&self) -> &'static str {
        "Corosync"
    }

    fn speak<'j>(&self, _job: &'j Job, _at: &str) -> Outcome<Box<dyn Speaker + 'j>> {
        Err(clients::apart())
    }

    fn listen(&self, _job: &Job, _at: &str) -> Outcome<Box<dyn Listener>> {
        Err(clients::apart())
    }

    fn become_client(&self, job: &Job, at: &str) -> Option<Failure> {
        clients::become_client(job, Path::new(at)).err()
    }
}

impl Peer for Corosync {
    fn option(&self) -> (&'static str, &'static str) {
        ("--corosync", "PROGRAM")
    }

    fn obstacle(&self, program: &Path, work: &Work) -> Option<String> {
        obstacle(program, work)
    }

    fn start(&self, program: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed> {
        start(program, work.nodes, tuning)
    }
}

fn obstacle(program: &Path, work: &Work) -> Option<String> {
    unfit(work).or_else(|| lacking(program)).or_else(unbuildable)
}

/// What it does not offer.
fn unfit(work: &Work) -> Option<String> {
    if work.service == Service::Safe {
        return Some("it has no safe delivery; leave --service safe out".into());
    }
    let members = work.senders.unwrap_or(work.nodes);
    (members > MEMBERS_MAX)
        .then(|| format!("senders are members, and its groups have {MEMBERS_MAX} at most; give fewer --senders"))
}

/// What is not installed, or not allowed.
fn lacking(program: &Path) -> Option<String> {
    if !runs(&program.display().to_string(), &["-v"]) {
        return Some(format!("--corosync: cannot run {} -v", program.display()));
    }
    let place = PRIVATE.into_iter().find(|place| fs::canonicalize(program).is_ok_and(|path| path.starts_with(place)));
    if let Some(place) = place {
        let program = program.display();
        return Some(format!(
            "--corosync: {program} is in {place}, which its daemons do not see; install it elsewhere"
        ));
    }
    let lacking = TOOLS.into_iter().find(|tool| !runs(tool, &["--version"]) && !runs(tool, &["-V"]));
    if let Some(tool) = lacking {
        return Some(format!("`{tool}` is not installed"));
    }
    let namespaces = ["--net", "--mount", "--ipc", "--uts", "ip", "link", "set", "lo", "up"];
    (!runs("unshare", &namespaces)).then(|| "namespaces cannot be made; run this as root".into())
}

/// Why there is no client for it, if there is none.
fn unbuildable() -> Option<String> {
    let directory = tempfile::tempdir().trying(|| "cannot make a directory".into());
    let problem = directory.and_then(|directory| compile(directory.path())).err()?;
    Some(format!("its client cannot be built, install libcpg-dev: {}", problem.message))
}

fn start(program: &Path, nodes: u16, tuning: &Tuning) -> Outcome<Testbed> {
    let program = fs::canonicalize(program).trying(|| format!("--corosync: {}", program.display()))?;
    Testbed::host("corosync", nodes, |directory| {
        compile(directory).map_err(|failure| failure.about("the client for Corosync"))?;
        let write = |name: String, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).trying(|| format!("cannot write {}", path.display()))
        };
        for node in 1..=nodes {
            let state = directory.join(format!("corosync-{node}"));
            fs::create_dir(&state).trying(|| format!("cannot make {}", state.display()))?;
            write(format!("corosync-{node}.conf"), configuration(node, nodes, tuning))?;
        }
        write("corosync.sh".into(), script(nodes, directory))?;
        write("corosync-node.sh".into(), node_script(&program))?;
        let file = directory.join("corosync.sh").display().to_string();
        let words = ["unshare", "--net", "sh", &file].map(String::from).into();
        let address = |node| ClientAddress::other(Corosync.name(), pid_file(directory, node).display());
        Ok(Hosted { words, addresses: (1..=nodes).map(address).collect(), members_only: true })
    })
}

fn pid_file(directory: &Path, node: u16) -> PathBuf {
    directory.join(format!("corosync-{node}.pid"))
}

/// Its defaults but for what it is tuned by. The transport, knet, and that nothing is encrypted are named: these defaults
/// have changed before.
fn configuration(node: u16, nodes: u16, tuning: &Tuning) -> String {
    let mut text = String::from(
        "totem {\n  version: 2\n  cluster_name: bench\n  transport: knet\n  crypto_cipher: none\n  crypto_hash: none\n",
    );
    for (name, value) in tuning.corosync().into_iter().filter(|(_, value)| *value > 0) {
        let _ = writeln!(text, "  {name}: {value}");
    }
    text.push_str("}\nnodelist {\n");
    for node in 1..=nodes {
        let _ =
            writeln!(text, "  node {{\n    name: n{node}\n    nodeid: {node}\n    ring0_addr: 127.0.0.{node}\n  }}");
    }
    let _ = writeln!(
        text,
        "}}\nlogging {{\n  to_stderr: yes\n  to_syslog: no\n  to_logfile: no\n}}\n\
         system {{\n  sched_rr: {}\n  state_dir: {INSIDE}/corosync-{node}\n}}",
        if tuning.realtime { "yes" } else { "no" }
    );
    text
}

/// Starts all, and waits until each says that it sees all. They find each other's largest datagram within the last second.
fn script(nodes: u16, directory: &Path) -> String {
    let directory = quoted(directory);
    format!(
        "set -e
cd {directory}
ip link set lo up
pids=
for node in $(seq 1 {nodes}); do
  setpriv --pdeathsig KILL unshare --mount --ipc --uts sh corosync-node.sh $node < /dev/null > corosync-$node.log 2>&1 &
  echo $! > corosync-$node.pid
  pids=\"$pids $!\"
  echo pid $!
done
for node in $(seq 1 {nodes}); do
  tries=0
  while ! grep -q 'embers\\[{nodes}\\]' corosync-$node.log; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 $(cat corosync-$node.pid); then tail -n 5 corosync-$node.log >&2; exit 1; fi
    sleep 0.1
  done
done
sleep 1
echo ready
cat > /dev/null
kill $pids
wait
"
    )
}

/// Becomes one daemon. All have one loopback interface, so they know by the host's name which they are, and their sockets
/// must be files: else all would have the same names. What is mounted here nobody else sees, and it goes with the last
/// process that does.
fn node_script(program: &Path) -> String {
    let program = quoted(program);
    format!(
        "set -e
echo n$1 > /proc/sys/kernel/hostname
mount -t tmpfs tmpfs /run
mkdir {INSIDE}
mount --no-canonicalize --bind . {INSIDE}
cp -a /etc /run/etc
mkdir -p /run/etc/libqb
: > /run/etc/libqb/force-filesystem-sockets
mount --bind /run/etc /etc
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
exec {program} -f -c {INSIDE}/corosync-$1.conf
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work { nodes: 3, size: 100, senders: None, service: Service::Agreed, unbatched: false };

    #[test]
    fn each_daemon_knows_all_and_has_a_place_of_its_own() {
        let text = configuration(2, 3, &Tuning::default());
        assert!(text.contains("  crypto_hash: none\n}\nnodelist {\n"), "{text}");
        let tuned = Tuning { realtime: true, netmtu: 8_900, window_size: 300, max_messages: 100, ..Tuning::default() };
        let tuned = configuration(2, 3, &tuned);
        assert!(tuned.contains("  netmtu: 8900\n  window_size: 300\n  max_messages: 100\n}\nnodelist {\n"), "{tuned}");
        assert!(tuned.contains("system {\n  sched_rr: yes\n"), "{tuned}");
        assert!(text.contains("  node {\n    name: n3\n    nodeid: 3\n    ring0_addr: 127.0.0.3\n  }\n}\n"), "{text}");
        assert!(text.contains("  transport: knet\n  crypto_cipher: none\n"), "{text}");
        assert!(text.ends_with("system {\n  sched_rr: no\n  state_dir: /run/bench/corosync-2\n}\n"), "{text}");
    }

    #[test]
    fn the_scripts_are_some_that_a_shell_understands() {
        let directory = tempfile::tempdir().unwrap();
        let node = node_script(Path::new("/opt/it's/corosync"));
        assert!(node.contains(r"exec '/opt/it'\''s/corosync' -f -c /run/bench/corosync-$1.conf"), "{node}");
        for text in [node, script(3, directory.path())] {
            let file = directory.path().join("script");
            fs::write(&file, text).unwrap();
            assert!(runs("sh", &["-n", &file.display().to_string()]));
        }
    }

    #[test]
    fn what_it_has_not_and_what_is_not_there_is_told() {
        let reason = |work: Work| obstacle(Path::new("/nowhere/corosync"), &work).unwrap();
        assert_eq!(reason(WORK), "--corosync: cannot run /nowhere/corosync -v");
        let safe = Work { service: Service::Safe, ..WORK };
        assert_eq!(reason(safe), "it has no safe delivery; leave --service safe out");
        let many = Work { senders: Some(129), ..WORK };
        assert_eq!(reason(many), "senders are members, and its groups have 128 at most; give fewer --senders");
    }

    #[test]
    fn a_program_that_its_daemons_would_not_see_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let program = directory.path().join("corosync");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let reason = lacking(&program).unwrap();
        assert!(reason.ends_with("is in /tmp, which its daemons do not see; install it elsewhere"), "{reason}");
    }
}
