//! The one owner of a node's files: a lock beside them, held by its daemon for its whole life.
//!
//! The lock lies with the files and not in the runtime directory. So it also counts between containers and network
//! namespaces that share a volume, and between daemons that were given different runtime directories.
use crate::failure::{Failure, Outcome, Trying};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

const HOST: &str = "/proc/sys/kernel/hostname";
/// More is no name of a process.
const LONGEST: u64 = 512;
/// A process that was just killed may hold its files for a moment.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Held: no other process uses the files of this node until this is dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Another process uses the files.
    InUse(Failure),
    /// There can be no files.
    Unusable(Failure),
}

/// Takes the files of a node in this directory, which is made where it does not exist. Nothing else is read or changed.
///
/// # Errors
/// Another process that uses them, or a directory in which no file can be made.
pub(crate) fn claim(home: &Path, node: u16) -> Result<StateLock, NotLocked> {
    let mut file = open(home, node).map_err(NotLocked::Unusable)?;
    for tries in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if tries < TRIES => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(NotLocked::InUse(in_use(home, node, &mut file))),
            Err(TryLockError::Error(error)) => {
                let what = || format!("cannot lock the files of node {node} in {}", home.display());
                return Err(error).trying(what).map_err(NotLocked::Unusable);
            }
        }
    }
    let written = name_owner(&mut file);
    written.trying(|| cannot_write(home)).map_err(NotLocked::Unusable)?;
    Ok(StateLock { _file: file })
}

fn open(home: &Path, node: u16) -> Outcome<File> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.trying(|| format!("cannot make the state directory {}; name another with --state-dir", home.display()))?;
    let mut options = OpenOptions::new();
    let path = home.join(format!("node-{node}.owner"));
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    opened.trying(|| cannot_write(home))
}

fn cannot_write(home: &Path) -> String {
    let home = home.display();
    format!("cannot write in {home}; make room or rights there, or choose another directory with --state-dir")
}

fn name_owner(file: &mut File) -> io::Result<()> {
    let host = fs::read_to_string(HOST).unwrap_or_default();
    let (process, host) = (std::process::id(), host.trim());
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {process} on host {host}")
}

fn in_use(home: &Path, node: u16, file: &mut File) -> Failure {
    let mut owner = String::new();
    let read = file.take(LONGEST).read_to_string(&mut owner);
    let owner = match (read, owner.trim()) {
        (Err(_), _) | (_, "") => "another process".to_owned(),
        (Ok(_), owner) => owner.to_owned(),
    };
    Failure::new(format!(
        "the files of node {node} in {} are in use by {owner}, and two daemons that share them would lose messages; end \
         that daemon, or give this one its own directory with --state-dir",
        home.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_node_have_one_owner_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("cluster");
        let first = claim(&home, 1).unwrap();
        let _other_node = claim(&home, 2).unwrap();
        let Err(NotLocked::InUse(failure)) = claim(&home, 1) else { panic!("two owners") };
        let owner = format!("in use by process {} on host ", std::process::id());
        for part in [home.to_str().unwrap(), &owner, "node 1", "--state-dir"] {
            assert!(failure.message.contains(part), "{part}: {}", failure.message);
        }
        drop(first);
        claim(&home, 1).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let Err(NotLocked::Unusable(failure)) = claim(&file.join("cluster"), 1) else { panic!("it is a file") };
        assert!(failure.message.contains(file.to_str().unwrap()), "{}", failure.message);
    }
}
