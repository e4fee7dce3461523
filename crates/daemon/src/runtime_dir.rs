//! Where daemons and clients of one machine find each other: a directory per cluster with, for each node, a lock that
//! its daemon holds while it lives, a card that says what it is, and the socket at which it serves clients.
//!
//! ```text
//! $XDG_RUNTIME_DIR/consort/<cluster>/node-1.lock   held and written by the daemon of node 1
//!                                    node-1.sock   its socket for clients
//! ```
use crate::failure::{Failure, Outcome, Trying};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked whether the directory is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Names another runtime directory.
pub const VARIABLE: &str = "CONSORT_RUNTIME_DIR";

/// What a running daemon tells about itself in its lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its process.
    pub pid: u32,
    /// Its node.
    pub node: u16,
    /// The cluster's name.
    pub cluster: String,
    /// The hash of all settings that members must share, in hexadecimal.
    pub settings: String,
    /// The same settings for people.
    pub summary: String,
    /// Each of them by name.
    #[serde(default)]
    pub shared: Vec<(String, String)>,
    /// Its socket for clients on this machine.
    pub socket: PathBuf,
    /// Further addresses at which it serves clients.
    pub listen: Vec<String>,
}

/// The directory of one cluster.
#[derive(Clone, Debug)]
pub struct RuntimeDir {
    directory: PathBuf,
    cluster: String,
}

/// An identity that is held: no other daemon of this machine gets it until this is dropped.
#[derive(Debug)]
pub struct Seat {
    lock: File,
    lock_path: PathBuf,
    socket: PathBuf,
    /// What is written into the lock file.
    card: Vec<u8>,
}

/// The runtime directory of this user: `CONSORT_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/consort`, else a private directory
/// among the temporary ones.
pub fn runtime_directory() -> PathBuf {
    if let Some(chosen) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return chosen.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir()) {
        Some(runtime) => runtime.join("consort"),
        None => std::env::temp_dir().join(format!("consort-{}", rustix::process::getuid().as_raw())),
    }
}

/// Checks a cluster's name: it becomes a directory and part of a socket's path.
pub fn check_cluster(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 32 || name.starts_with('.') || !name.chars().all(fits) {
        return Err(format!(
            "`{name}` is no cluster name; use 1 to 32 letters, digits, - _ and . and no . at the start"
        ));
    }
    Ok(())
}

/// The cards of all daemons that run under this runtime directory, ordered by cluster and node.
pub fn all_running(runtime: &Path) -> Vec<Card> {
    let mut cards = Vec::new();
    for entry in fs::read_dir(runtime).into_iter().flatten().flatten() {
        let Ok(cluster) = entry.file_name().into_string() else { continue };
        cards.extend(RuntimeDir { directory: entry.path(), cluster }.running());
    }
    cards.sort_by(|a, b| (&a.cluster, a.node).cmp(&(&b.cluster, b.node)));
    cards
}

impl RuntimeDir {
    /// The directory of a cluster, for looking; it need not exist.
    pub fn of(runtime: &Path, cluster: &str) -> Self {
        Self { directory: runtime.join(cluster), cluster: cluster.into() }
    }

    /// The directory of a cluster, made if need be, and safe from other users.
    pub fn open(runtime: &Path, cluster: &str) -> Outcome<Self> {
        let dir = Self::of(runtime, cluster);
        for directory in [runtime, &dir.directory] {
            private_directory(directory)?;
        }
        Ok(dir)
    }

    /// Lets other users go through to the sockets, without seeing what else is there.
    pub fn let_others_pass(&self) -> Outcome {
        for directory in [self.directory.parent(), Some(&self.directory)].into_iter().flatten() {
            let what = || format!("cannot open {} to other users", directory.display());
            let mode = fs::metadata(directory).trying(what)?.permissions().mode();
            fs::set_permissions(directory, Permissions::from_mode(mode | 0o011)).trying(what)?;
        }
        Ok(())
    }

    /// The socket at which a node's daemon serves clients of this machine.
    pub fn socket_file(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}.sock"))
    }

    /// Takes a node's identity, if it is free.
    pub fn claim(&self, node: u16) -> Outcome<Option<Seat>> {
        let path = self.lock(node);
        let what = || format!("cannot open {}", path.display());
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).trying(what)?;
        for _ in 0..50 {
            match lock.try_lock() {
                Ok(()) => {
                    let (socket, card) = (self.socket_file(node), Vec::new());
                    return Ok(Some(Seat { lock, lock_path: path, socket, card }));
                }
                Err(TryLockError::WouldBlock) if read_card(&path).is_some_and(|card| lives(card.pid)) => {
                    return Ok(None);
                }
                // Someone who only looks whether the lock is held holds it for a moment: try again.
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
                Err(TryLockError::Error(error)) => {
                    return Err(error).trying(|| format!("cannot lock {}", path.display()));
                }
            }
        }
        Ok(None)
    }

    /// The cards of the daemons that run here, by node.
    pub fn running(&self) -> Vec<Card> {
        let mut cards: Vec<Card> = self.locks().iter().filter_map(|path| read_held(path)).collect();
        cards.retain(|card| card.cluster == self.cluster);
        cards.sort_by_key(|card| card.node);
        cards
    }

    /// The error for a daemon that finds all of `wanted` taken.
    pub fn taken(&self, wanted: &[u16], remedy: &str) -> Failure {
        let cluster = &self.cluster;
        let what = match wanted {
            [one] => format!("node {one} of cluster `{cluster}` runs on this machine already"),
            all => format!("all {} nodes of cluster `{cluster}` run on this machine already", all.len()),
        };
        let holders: Vec<_> =
            self.running().iter().map(|card| format!("node {} as process {}", card.node, card.pid)).collect();
        Failure::new(format!("{what} ({}). Stop one, or {remedy}", holders.join(", ")))
    }

    fn lock(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}.lock"))
    }

    fn locks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "lock")).collect()
    }
}

impl Seat {
    /// Writes the card and clears the way for the socket: a file left by a daemon that was killed.
    pub fn furnish(&mut self, card: &Card) -> Outcome {
        let path = self.socket.display().to_string();
        match fs::remove_file(&self.socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).trying(|| format!("cannot remove the old socket {path}"));
            }
            _ => {}
        }
        self.card = serde_json::to_vec(card).trying(|| "cannot write the daemon's card".into())?;
        self.rewrite().trying(|| format!("cannot write beside {path}"))
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        self.lock.write_all(&self.card)
    }

    /// Makes the runtime directory and the lock file again where they were removed, for example by a program that
    /// removes old files. Returns whether that was so.
    fn restore(&mut self) -> Outcome<bool> {
        if self.lock_path.exists() {
            return Ok(false);
        }
        let directory = self.lock_path.parent().unwrap_or(Path::new("/"));
        [directory.parent(), Some(directory)].into_iter().flatten().try_for_each(private_directory)?;
        let what = || format!("cannot make {} again", self.lock_path.display());
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create_new(true).mode(0o600).open(&self.lock_path).trying(what)?;
        lock.try_lock().map_err(io::Error::from).trying(what)?;
        self.lock = lock;
        self.rewrite().trying(|| format!("cannot write to {}", self.lock_path.display()))?;
        Ok(true)
    }
}

/// A seat whose files are looked after from a thread, until this is dropped. The driver does so with the sockets.
#[derive(Debug)]
pub struct KeptSeat {
    _seat: Arc<Mutex<Seat>>,
}

impl KeptSeat {
    /// Begins to look after the files; `opened` lets other users through to a directory that was made again.
    ///
    /// # Errors
    /// Those of beginning a thread.
    pub fn keep(seat: Seat, opened: impl Fn() -> Outcome + Send + 'static) -> io::Result<Self> {
        let seat = Arc::new(Mutex::new(seat));
        let kept = Arc::downgrade(&seat);
        let look = move || {
            let mut failed = false;
            while let Some(seat) = kept.upgrade() {
                let restored = seat.lock().unwrap_or_else(PoisonError::into_inner).restore();
                drop(seat);
                match restored.and_then(|restored| if restored { opened().map(|()| true) } else { Ok(false) }) {
                    Ok(true) => tracing::warn!("the runtime directory was removed, and is made again"),
                    Ok(false) => failed = false,
                    Err(error) if !std::mem::replace(&mut failed, true) => {
                        tracing::warn!("the runtime directory was removed: {}", error.message);
                    }
                    Err(_) => {}
                }
                std::thread::sleep(LOOK);
            }
        };
        std::thread::Builder::new().name("runtime-dir".into()).spawn(look)?;
        Ok(Self { _seat: seat })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The lock file stays: removing one that another process is about to lock would give two holders.
        let _ = self.lock.set_len(0);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Reads a card whose daemon lives.
fn read_held(path: &Path) -> Option<Card> {
    let file = File::open(path).ok()?;
    let held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    if held { read_card(path) } else { None }
}

/// Reads the card of whoever held the lock last.
fn read_card(path: &Path) -> Option<Card> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Whether such a process is there; one that this user may not signal is.
fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Makes a directory of mode 0700, and refuses one that another user could reach into.
fn private_directory(path: &Path) -> Outcome {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.trying(|| format!("cannot make the runtime directory {}; name another by {VARIABLE}", path.display()))?;
    let about = fs::symlink_metadata(path).trying(|| format!("cannot look at {}", path.display()))?;
    let ours = about.uid() == rustix::process::getuid().as_raw();
    if !about.is_dir() || !ours || about.permissions().mode() & 0o022 != 0 {
        return Err(Failure::new(format!(
            "{} is not a directory of this user alone, so others could pose as a daemon in it; remove it or name another by {VARIABLE}",
            path.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(node: u16) -> Card {
        Card { pid: 7, node, cluster: "test".into(), ..Card::default() }
    }

    #[test]
    fn an_identity_is_held_by_one_and_comes_back() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(runtime.path(), "test").unwrap();
        let mut seat = dir.claim(1).unwrap().unwrap();
        let _other = dir.claim(2).unwrap().unwrap();
        assert!(dir.claim(1).unwrap().is_none());
        seat.furnish(&card(1)).unwrap();
        assert_eq!(
            dir.taken(&[1, 2], "do without").message,
            "all 2 nodes of cluster `test` run on this machine already (node 1 as process 7). Stop one, or do without"
        );
        drop(seat);
        assert!(dir.claim(1).unwrap().is_some());
    }

    #[test]
    fn a_place_that_somebody_only_looks_at_is_waited_for() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(runtime.path(), "test").unwrap();
        let mut seat = dir.claim(1).unwrap().unwrap();
        // A killed daemon's card stays; no process has this number.
        seat.furnish(&Card { pid: i32::MAX as u32, ..card(1) }).unwrap();
        let card = fs::read(dir.lock(1)).unwrap();
        drop(seat);
        fs::write(dir.lock(1), card).unwrap();
        let looker = File::open(dir.lock(1)).unwrap();
        looker.try_lock_shared().unwrap();
        let looks = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(8));
            drop(looker);
        });
        assert!(dir.claim(1).unwrap().is_some());
        looks.join().unwrap();
    }

    #[test]
    fn only_living_daemons_are_listed() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(runtime.path(), "test").unwrap();
        let mut seats: Vec<Seat> = (1..=2).map(|node| dir.claim(node).unwrap().unwrap()).collect();
        for (seat, node) in seats.iter_mut().zip(1..) {
            seat.furnish(&card(node)).unwrap();
        }
        assert_eq!(dir.running(), [card(1), card(2)]);
        assert_eq!(all_running(runtime.path()), [card(1), card(2)]);
        drop(seats.remove(0));
        assert_eq!(dir.running(), [card(2)]);
        drop(seats);
        assert_eq!(dir.running(), []);
    }

    #[test]
    fn a_directory_that_was_removed_is_made_again_and_the_identity_stays_held() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(&runtime.path().join("run"), "test").unwrap();
        let mut seat = dir.claim(1).unwrap().unwrap();
        let alive = Card { pid: std::process::id(), ..card(1) };
        seat.furnish(&alive).unwrap();
        assert!(!seat.restore().unwrap());
        fs::remove_dir_all(runtime.path().join("run")).unwrap();
        assert!(seat.restore().unwrap());
        assert_eq!((dir.running(), dir.claim(1).unwrap().is_none()), (vec![alive], true));
        let mode = fs::metadata(runtime.path().join("run")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
    }

    #[test]
    fn a_killed_daemons_socket_is_cleared_away() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(runtime.path(), "test").unwrap();
        fs::write(dir.socket_file(1), "left behind").unwrap();
        dir.claim(1).unwrap().unwrap().furnish(&card(1)).unwrap();
        assert!(!dir.socket_file(1).exists());
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let runtime = tempfile::tempdir().unwrap();
        let open = runtime.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let message = RuntimeDir::open(&open, "test").unwrap_err().message;
        assert!(message.contains("not a directory of this user alone"), "{message}");
    }

    #[test]
    fn cluster_names_are_checked() {
        assert!(check_cluster("prod-eu.1").is_ok());
        for bad in ["", ".", "..", "a/b", "a b", &"x".repeat(33)] {
            assert!(check_cluster(bad).unwrap_err().contains("is no cluster name"), "{bad}");
        }
    }
}
