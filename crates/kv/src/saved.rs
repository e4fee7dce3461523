//! What a server's directory has of a store, read without the server.
use crate::partition::Partition;
use consort_replica::{Error, SavedState, read_checkpoint};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How the directories of partitions are called, with the partition's number behind it.
const NAME: &str = "partition-";

/// Where a server that has this directory keeps a partition, counted from 1.
pub fn directory(state: &Path, partition: usize) -> PathBuf {
    state.join(format!("{NAME}{partition}"))
}

/// The partitions, counted from 1 and ascending, that a server's directory has.
///
/// # Errors
/// The system's.
pub fn partitions(state: &Path) -> io::Result<Vec<usize>> {
    let entries = fs::read_dir(state)?.collect::<Result<Vec<_>, _>>()?;
    let number = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix(NAME)?.parse().ok()?;
        (directory(state, number).file_name() == Some(&entry.file_name())).then_some(number)
    };
    let mut found: Vec<usize> = entries.into_iter().filter_map(number).collect();
    found.sort_unstable();
    Ok(found)
}

/// A partition as its newest checkpoint that is whole has it. `None` if there is none. Nothing is changed.
///
/// # Errors
/// As of [`read_checkpoint`].
pub fn read(state: &Path, partition: usize) -> Result<Option<(SavedState, Partition)>, Error> {
    let mut machine = Partition::default();
    let found = read_checkpoint(&directory(state, partition), &mut machine)?;
    Ok(found.map(|saved| (saved, machine)))
}
