//! Which incarnation of its node a daemon lives: a number larger than that of every incarnation before.
//!
//! The number is kept on disk where that is possible, and is never below the clock: either alone would do, together
//! they survive a clock that was set back as well as a disk that was replaced.
use crate::failure::{Failure, Outcome};
use crate::state_lock::{self, NotLocked, StateLock};
use consort_types::Incarnation;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that is longer does not hold a number.
const LONGEST: u64 = 64;

/// Why no number could be had from a file.
#[derive(Debug, PartialEq, Eq)]
enum NoNumber {
    /// It cannot be read or written.
    Unusable(String),
    /// What it holds, or the clock shows, cannot be right.
    Wrong(String),
}

/// The number for the incarnation that begins now. A directory that the user named must work; the usual one may fail, with a
/// warning. What cannot be right is never passed over: the number would be an earlier incarnation's. Other nodes may know one
/// that it must exceed.
pub fn begin(directory: Option<&Path>, cluster: &str, node: u16, exceed: Option<Incarnation>) -> Outcome<Incarnation> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let clock = exceed.map_or(clock, |known| clock.max(known.0.saturating_add(1)));
    let (root, named) = match (directory, usual_directory()) {
        (Some(directory), _) => (directory.to_owned(), true),
        (None, Some(directory)) => (directory, false),
        (None, None) => return possible(clock).map_err(|_| Failure::new(wrong_clock())),
    };
    let path = root.join(cluster).join(format!("node-{node}.incarnation"));
    match follow(&path, clock) {
        Ok(incarnation) => Ok(incarnation),
        Err(NoNumber::Unusable(problem)) if !named => {
            tracing::warn!("{problem}; going by the clock alone");
            possible(clock).map_err(|_| Failure::new(wrong_clock()))
        }
        Err(NoNumber::Unusable(problem) | NoNumber::Wrong(problem)) => Err(Failure::new(problem)),
    }
}

/// Takes the node's files for as long as the lock is held, before any of them is read. The usual directory may be one where
/// no file can be made: then there are none.
///
/// # Errors
/// Another daemon that uses them, or a directory that the user named and in which no file can be made.
pub(crate) fn take_files(directory: Option<&Path>, cluster: &str, node: u16) -> Outcome<Option<StateLock>> {
    let Some(home) = usual_home(directory, cluster) else { return Ok(None) };
    match state_lock::claim(&home, node) {
        Ok(lock) => Ok(Some(lock)),
        Err(NotLocked::InUse(failure)) => Err(failure),
        Err(NotLocked::Unusable(failure)) if directory.is_some() => Err(failure),
        // What follows says that the directory cannot be written.
        Err(NotLocked::Unusable(_)) => Ok(None),
    }
}

fn possible(number: u64) -> Result<Incarnation, u64> {
    Some(Incarnation(number)).filter(|incarnation| incarnation.is_plausible()).ok_or(number)
}

fn wrong_clock() -> String {
    "the clock shows a time after the year 2255; set it".into()
}

/// Where the node keeps files: beside the incarnation, if that could be stored.
pub fn home(directory: Option<&Path>, cluster: &str, node: u16) -> Option<PathBuf> {
    let home = usual_home(directory, cluster)?;
    home.join(format!("node-{node}.incarnation")).exists().then_some(home)
}

/// Where the nodes of a cluster keep files, whether or not they did.
pub fn usual_home(directory: Option<&Path>, cluster: &str) -> Option<PathBuf> {
    Some(directory.map(Path::to_owned).or_else(usual_directory)?.join(cluster))
}

fn usual_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("consort"))
}

/// Reads the last incarnation's number, and stores and returns the next.
fn follow(path: &Path, clock: u64) -> Result<Incarnation, NoNumber> {
    let name = path.display();
    let unusable = |what: &str, error| {
        let remedy = "make room or rights there, or choose another directory with --state-dir";
        NoNumber::Unusable(format!("cannot {what} {name}: {error}; {remedy}"))
    };
    let next = match read(path) {
        Ok(text) => after(&text).map_err(|what| {
            let remedy = "if this node's daemon does not run, remove the file: the clock gives a new number";
            NoNumber::Wrong(format!("{name} {what}; {remedy}"))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(unusable("read", error)),
    };
    let incarnation = possible(clock.max(next)).map_err(|_| NoNumber::Wrong(wrong_clock()))?;
    store(path, incarnation.0).map_err(|error| unusable("write", error))?;
    Ok(incarnation)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// The first number after the one that a file holds.
fn after(text: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() as u64 <= LONGEST);
    let last = text.and_then(|text| text.trim().parse::<u64>().ok()).ok_or("does not hold a number")?;
    let next = possible(last.saturating_add(1));
    next.map(|next| next.0).map_err(|_| format!("holds {last}, which the clock would show after the year 2255"))
}

/// Replaces the file as a whole: after a crash it holds the old number or the new one.
fn store(path: &Path, number: u64) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{number}")?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_incarnation_has_a_larger_number_even_if_the_clock_was_set_back() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("cluster/node-1.incarnation");
        assert_eq!(follow(&path, 1_000), Ok(Incarnation(1_000)));
        assert_eq!(follow(&path, 500), Ok(Incarnation(1_001)));
        assert_eq!(follow(&path, 2_000), Ok(Incarnation(2_000)));
        let first = begin(Some(state.path()), "cluster", 1, None).unwrap();
        assert!(first < begin(Some(state.path()), "cluster", 1, None).unwrap());
        let known = Incarnation(first.0 + 3_600_000_000);
        assert_eq!(begin(Some(state.path()), "cluster", 1, Some(known)).unwrap(), Incarnation(known.0 + 1));
    }

    #[test]
    fn a_spoiled_file_is_an_error_that_names_it() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("c")).unwrap();
        let with = |content: &[u8]| {
            fs::write(state.path().join("c/node-1.incarnation"), content).unwrap();
            begin(Some(state.path()), "c", 1, None).unwrap_err().message
        };
        let mut long = vec![b' '; 1 << 20];
        long.push(b'7');
        for content in [&b"soup"[..], b"", b"-1", b"\xff\xfe7", &long, b"99999999999999999999999999"] {
            let message = with(content);
            assert!(message.contains("node-1.incarnation does not hold a number"), "{message}");
            assert!(message.contains("remove the file"), "{message}");
        }
    }

    #[test]
    fn a_number_that_no_incarnation_can_have_stops_the_start_and_is_not_used_twice() {
        //= M07 test
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("node-1.incarnation");
        for number in [Incarnation::LAST.0, 1 << 63, u64::MAX] {
            fs::write(&path, number.to_string()).unwrap();
            let Err(NoNumber::Wrong(message)) = follow(&path, 1_000) else { panic!("{number} was used") };
            assert!(message.contains(&number.to_string()) && message.contains("remove the file"), "{message}");
        }
        fs::write(&path, (Incarnation::LAST.0 - 1).to_string()).unwrap();
        assert_eq!(follow(&path, 1_000), Ok(Incarnation::LAST), "the last there is");
        fs::remove_file(&path).unwrap();
        let Err(NoNumber::Wrong(message)) = follow(&path, u64::MAX) else { panic!("that clock is wrong") };
        assert_eq!(message, "the clock shows a time after the year 2255; set it");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_with_a_remedy() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("file");
        fs::write(&file, "").unwrap();
        let message = begin(Some(&file), "c", 1, None).unwrap_err().message;
        assert!(message.starts_with("cannot "), "{message}");
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("node-1.incarnation");
        // Every write to this device fails for want of space.
        std::os::unix::fs::symlink("/dev/full", path.with_extension("new")).unwrap();
        let Err(NoNumber::Unusable(message)) = follow(&path, 1) else { panic!("there is no room") };
        assert!(message.contains("No space left on device") && message.contains("--state-dir"), "{message}");
    }
}
