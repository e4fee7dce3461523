//! Which life of its node a daemon lives: a number larger than that of every life before.
//!
//! The number is kept on disk where that is possible, and is never below the clock: either alone would do, together
//! they survive a clock that was set back as well as a disk that was replaced.
use crate::failure::{Failure, Outcome};
use consort_types::Incarnation;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number for the life that begins now. A directory that the user named must work; the usual one may fail, with a
/// warning.
pub fn begin(directory: Option<&Path>, cluster: &str, node: u16) -> Outcome<Incarnation> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let (root, named) = match (directory, usual_directory()) {
        (Some(directory), _) => (directory.to_owned(), true),
        (None, Some(directory)) => (directory, false),
        (None, None) => return Ok(Incarnation(clock)),
    };
    let path = root.join(cluster).join(format!("node-{node}.incarnation"));
    match follow(&path, clock) {
        Ok(number) => Ok(Incarnation(number)),
        Err(problem) if named => Err(Failure::new(problem)),
        Err(problem) => {
            tracing::warn!("{problem}; going by the clock alone");
            Ok(Incarnation(clock))
        }
    }
}

fn usual_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("consort"))
}

/// Reads the last life's number, and stores and returns the next.
fn follow(path: &Path, clock: u64) -> Result<u64, String> {
    let last = match fs::read_to_string(path) {
        Ok(text) => text.trim().parse::<u64>().map_err(|_| {
            format!("{} does not hold a number; if this node's daemon does not run, remove the file", path.display())
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let next = clock.max(last.saturating_add(1));
    store(path, next).map_err(|error| {
        format!(
            "cannot write {}: {error}; make room or rights there, or choose another directory with --state-dir",
            path.display()
        )
    })?;
    Ok(next)
}

/// Replaces the file as a whole: after a crash it holds the old number or the new one.
fn store(path: &Path, number: u64) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    writeln!(file, "{number}")?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_has_a_larger_number_even_if_the_clock_was_set_back() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("cluster/node-1.incarnation");
        assert_eq!(follow(&path, 1_000), Ok(1_000));
        assert_eq!(follow(&path, 500), Ok(1_001));
        assert_eq!(follow(&path, 2_000), Ok(2_000));
        let first = begin(Some(state.path()), "cluster", 1).unwrap();
        assert!(first < begin(Some(state.path()), "cluster", 1).unwrap());
    }

    #[test]
    fn a_spoiled_file_is_an_error_that_names_it() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("c")).unwrap();
        fs::write(state.path().join("c/node-1.incarnation"), "soup").unwrap();
        let message = begin(Some(state.path()), "c", 1).unwrap_err().message;
        assert!(message.contains("node-1.incarnation does not hold a number"), "{message}");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_with_a_remedy() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("file");
        fs::write(&file, "").unwrap();
        let message = begin(Some(&file), "c", 1).unwrap_err().message;
        assert!(message.starts_with("cannot "), "{message}");
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("node-1.incarnation");
        // Every write to this device fails for want of space.
        std::os::unix::fs::symlink("/dev/full", path.with_extension("new")).unwrap();
        let message = follow(&path, 1).unwrap_err();
        assert!(message.contains("No space left on device") && message.contains("--state-dir"), "{message}");
    }
}
