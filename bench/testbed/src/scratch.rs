//! A directory that goes away with its owner. One whose owner was killed is removed by the next who makes one.
use consort_daemon::failure::{Outcome, Trying};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

/// What the directories' names begin with.
const PREFIX: &str = "consort-testbed-";
/// The file in it that its owner holds locked.
const OWNER: &str = "owner";

/// A directory of our own among the temporary ones.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    /// Locked for as long as the owner lives, however it ends.
    _owner: File,
}

impl Scratch {
    /// Makes one, and removes those that were left behind.
    pub fn new() -> Outcome<Self> {
        let root = std::env::temp_dir();
        remove_orphans(&root);
        Self::within(&root)
    }

    fn within(root: &Path) -> Outcome<Self> {
        let what = || format!("cannot make a directory in {}; set TMPDIR to one with room", root.display());
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root).trying(what)?;
        let owner = File::create(directory.path().join(OWNER)).trying(what)?;
        owner.lock().trying(what)?;
        Ok(Self { directory, _owner: owner })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// What cannot be removed is left to the next: it may be in use at this moment, or somebody else's.
fn remove_orphans(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && is_orphan(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a directory is this user's and nobody holds it. One that is just being made has no owner's file yet.
fn is_orphan(path: &Path) -> bool {
    let me = rustix::process::getuid().as_raw();
    let mine = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == me);
    mine && File::open(path.join(OWNER)).is_ok_and(|owner| owner.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_owner_left_is_removed_and_what_is_held_or_strange_is_not() {
        let root = tempfile::tempdir().unwrap();
        let held = Scratch::within(root.path()).unwrap();
        let orphan = root.path().join(format!("{PREFIX}orphan"));
        let strange = root.path().join(format!("{PREFIX}without-owner"));
        let other = root.path().join("other");
        for directory in [&orphan, &strange, &other] {
            fs::create_dir(directory).unwrap();
        }
        for directory in [&orphan, &other] {
            fs::write(directory.join(OWNER), "").unwrap();
        }
        let link = root.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        remove_orphans(root.path());
        assert!(!orphan.exists());
        assert!(held.path().exists() && strange.exists() && other.join(OWNER).exists() && link.exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
