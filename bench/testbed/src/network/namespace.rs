//! Network namespaces: made, entered, filled with processes, and always removed.
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";
/// What all our namespaces begin with.
const PREFIX: &str = "consort-";

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The program that makes namespaces is not there.
    #[error("`ip` is not installed: install iproute2 (Debian, Ubuntu: apt-get install iproute2)")]
    NoIp,
    /// The kernel has no TUN/TAP, or its device file is not there.
    #[error(
        "{NO_TUN} cannot be opened ({0}): TAP devices need a kernel with CONFIG_TUN; in a container pass --device {NO_TUN}"
    )]
    NoTun(io::Error),
    /// The user may not make namespaces and interfaces.
    #[error("not root: network namespaces and TAP devices need CAP_SYS_ADMIN and CAP_NET_ADMIN; run this as root")]
    NotRoot,
    /// `ip` refused.
    #[error("`ip {arguments}` failed: {reason}")]
    Ip {
        /// What it was asked.
        arguments: String,
        /// What it said.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
}

const NO_TUN: &str = "/dev/net/tun";

/// Says what to `map_err` when `what` failed.
pub fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> NetworkError {
    move |error| NetworkError::System { what: what.into(), source: error.into() }
}

/// Whether this machine and this user can have a network.
///
/// # Errors
/// The first thing that is missing.
pub fn requirements() -> Result<(), NetworkError> {
    ip(&["-V"], "")?;
    if !rustix::process::geteuid().is_root() {
        return Err(NetworkError::NotRoot);
    }
    File::options().read(true).write(true).open(NO_TUN).map_err(NetworkError::NoTun)?;
    Ok(())
}

/// Runs `ip` with these arguments and this input, and returns what it printed.
fn ip(arguments: &[&str], input: &str) -> Result<String, NetworkError> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NetworkError::NoIp,
            _ => NetworkError::System { what: "run `ip`".into(), source: error },
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ended early says why on its own; its exit code is what counts.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed("wait for `ip`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NetworkError::Ip { arguments: arguments.join(" "), reason })
}

/// One network namespace of a network. Dropping it ends every process in it and removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    handle: File,
}

impl Namespace {
    /// Makes a namespace of this process's: `serial` tells its networks apart, `node` the namespaces of a network.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn create(serial: usize, node: usize) -> Result<Self, NetworkError> {
        let name = format!("{PREFIX}{}-{serial}-{node}", owner());
        ip(&["netns", "add", &name], "")?;
        let handle = File::open(Path::new(NAMES).join(&name)).map_err(|source| {
            remove(&name);
            NetworkError::System { what: format!("open namespace {name}"), source }
        })?;
        Ok(Self { name, handle })
    }

    /// Its name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `inside` on a thread of its own within the namespace: sockets opened, processes started and `/proc/sys/net`
    /// written there belong to it.
    ///
    /// # Errors
    /// The system's, if the namespace cannot be entered.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        let within = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let entered = move_into_link_name_space(self.handle.as_fd(), Some(LinkNameSpaceType::Network));
                    entered.map(|()| inside())
                })
                .join()
        });
        let entered = within.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        entered.map_err(failed(format!("enter namespace {}", self.name)))
    }

    /// Starts a process within the namespace.
    ///
    /// # Errors
    /// The system's, if it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, NetworkError> {
        let what = format!("start {} in {}", PathBuf::from(command.get_program()).display(), self.name);
        self.enter(|| command.spawn())?.map_err(failed(what))
    }

    /// Runs a batch of `ip` commands within the namespace, one a line.
    ///
    /// # Errors
    /// [`NetworkError::Ip`] with what `ip` said of the first that failed.
    pub fn configure(&self, batch: &str) -> Result<(), NetworkError> {
        ip(&["-n", &self.name, "-batch", "-"], batch).map(drop)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Ends what runs in a namespace and removes its name. Nothing more can be done where that fails.
fn remove(name: &str) {
    for pid in ip(&["netns", "pids", name], "").unwrap_or_default().split_whitespace() {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    if let Err(error) = ip(&["netns", "delete", name], "") {
        eprintln!("network: namespace {name} stays behind: {error}");
    }
}

/// Removes the namespaces of networks whose process is gone.
pub fn remove_stale() {
    stale(Path::new(NAMES), PREFIX).iter().filter_map(|path| path.file_name()?.to_str()).for_each(remove);
}

/// This process, in the names of what it makes: [`stale`] tells by it that it is gone. The time of birth tells it from a
/// later process of the same id.
pub fn owner() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", birth(pid).unwrap_or_default())
}

/// What stands in a directory under `prefix` and the [`owner`] of a process that is gone.
pub fn stale(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_stale = |path: &PathBuf| path.file_name().and_then(|name| is_orphan(name.to_str()?, prefix)) == Some(true);
    entries.map(|entry| entry.path()).filter(is_stale).collect()
}

/// `None` for a name that is not of this kind.
fn is_orphan(name: &str, prefix: &str) -> Option<bool> {
    let mut parts = name.strip_prefix(prefix)?.split('-');
    let (pid, born) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?);
    parts.next()?;
    Some(birth(pid) != Some(born))
}

/// When a process was started, in the kernel's ticks since boot; `None` if there is no such process, or only its corpse.
fn birth(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold spaces. What follows it begins with the state, the third field of proc(5); the
    // birth is the 22nd.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") { None } else { fields.get(19)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_networks_of_dead_processes_are_stale() {
        let ours = format!("consort-{}-0-1", owner());
        assert_eq!(is_orphan(&ours, PREFIX), Some(false));
        let reborn = ours.replace(&owner(), &format!("{}-1", std::process::id()));
        assert_eq!(is_orphan(&reborn, PREFIX), Some(true), "another process had this id");
        assert_eq!(is_orphan("consort-4294967295-1-0-1", PREFIX), Some(true));
        for foreign in ["consort-", "consort-1-2", "consort-x-1-0-1", "other-4294967295-1-0-1", ""] {
            assert_eq!(is_orphan(foreign, PREFIX), None, "{foreign}");
        }
    }

    #[test]
    fn what_dead_processes_left_is_found_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["network-4294967295-1-x", &format!("network-{}-x", owner()), "network-", "other-4294967295-1-x"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(stale(directory.path(), "network-"), [directory.path().join("network-4294967295-1-x")]);
        assert!(stale(Path::new("/nowhere"), "network-").is_empty());
    }
}
