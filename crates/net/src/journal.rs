//! Durable records: an append-only log of segments, written and synced on a helper thread so that no disk stalls the loop.
//!
//! | module | what |
//! |---|---|
//! | `frame` | a segment's bytes; of each record length, checksum, bytes |
//! | `segment` | one file: appended to, read back, checked |
//! | `mark` | up to which record all are synced |
//! | `owner` | how the directory is kept, and whether the machine has stopped since |
//! | `writer` | the helper thread: many records a sync |
//!
//! Records are numbered through all incarnations; a segment is named after its first. Whole segments go when all their
//! records are trimmed, so that an engine may see some trimmed records again after a restart.
mod frame;
mod mark;
mod owner;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use owner::{Keep, Records};
pub(crate) use writer::JournalWriter;

use self::frame::End;
use self::mark::Mark;
use self::owner::Owner;
use self::segment::Segment;
use crate::error::BindError;
use bytes::Bytes;
use consort_types::Ticket;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The records of earlier incarnations, and the segments that take those of this one.
#[derive(Debug)]
pub(crate) struct Journal {
    options: Records,
    /// Those that are full, oldest first.
    full: VecDeque<Segment>,
    /// The one that is appended to.
    last: Segment,
    /// The number of the record before the one with ticket 1.
    base: u64,
    records: Vec<Bytes>,
    /// Something is written and not synced.
    dirty: bool,
    mark: Mark,
}

/// Why a directory cannot be used.
#[derive(Debug)]
enum Unusable {
    Failed(io::Error),
    Damaged(PathBuf, String),
    Kept(&'static str),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Journal {
    /// Opens or makes the directory. A record at the end that was only half written is taken off: nobody was told that it
    /// was durable. What cannot be right in any other way is left as it is.
    pub(crate) fn open(options: &Records) -> Result<Self, BindError> {
        Self::read(options).map_err(|wrong| match wrong {
            Unusable::Failed(source) => BindError::Records { path: options.directory.clone(), source },
            Unusable::Damaged(path, what) => BindError::Damaged { path, what },
            Unusable::Kept(was) => BindError::Kept { path: options.directory.clone(), was, now: options.keep.name() },
        })
    }

    fn read(options: &Records) -> Result<Self, Unusable> {
        let directory = &options.directory;
        if directory.is_file() {
            return Err(Unusable::Damaged(directory.clone(), "it is a file, as earlier versions wrote it".into()));
        }
        fs::create_dir_all(directory)?;
        let crashed = match Owner::last(options)? {
            Owner::Counts => false,
            Owner::Crashed => true,
            Owner::Forgotten => {
                forget(directory)?;
                false
            }
            Owner::Other(was) => return Err(Unusable::Kept(was)),
        };
        let paths = segment::list(directory)?;
        check_size(directory, &paths, options.most)?;
        let synced = Mark::last(directory)?.unwrap_or(0);
        let end = End { is_last: false, synced, crashed };
        let (mut full, records) = read_segments(paths, end, options.keep)?;
        let base = full.front().map_or(synced + 1, |segment| segment.first) - 1;
        let next = full.back().map_or(base + 1, Segment::end);
        if next <= synced || full.is_empty() && synced > 0 {
            let what = format!("its records end before {next}, but those up to {synced} were synced: some are missing");
            return Err(Unusable::Damaged(directory.to_owned(), what));
        }
        let last = match full.pop_back() {
            Some(last) => last,
            None => Segment::create(directory, next)?,
        };
        let all_synced = options.keep == Keep::Synced;
        let mark = Mark::begin(directory, if all_synced { next - 1 } else { synced })?;
        Owner::claim(options)?;
        Ok(Self { options: options.clone(), full, last, base, records, dirty: !all_synced, mark })
    }

    /// The records that were found, oldest first: they have the tickets from 1 on.
    pub(crate) fn take_records(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.records)
    }

    /// Appends records, in as few system calls as go; the last segment may begin anew before each.
    fn append(&mut self, mut records: &[Bytes]) -> io::Result<()> {
        while !records.is_empty() {
            if self.last.is_full() {
                self.roll()?;
            }
            self.dirty = true;
            records = &records[self.last.append(records)?..];
        }
        Ok(())
    }

    /// Goes on in a new segment. The old one is synced first: a crash must not lose its end and keep what follows.
    fn roll(&mut self) -> io::Result<()> {
        self.sync()?;
        let next = Segment::create(&self.options.directory, self.last.end())?;
        self.full.push_back(std::mem::replace(&mut self.last, next));
        Ok(())
    }

    /// Syncs what is written, and then says so.
    fn sync(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.dirty) {
            return Ok(());
        }
        self.last.sync()?;
        //= X06
        self.mark.note(self.last.end() - 1)
    }

    /// Removes the segments whose records are all trimmed, the oldest first. What was written since is synced before: it may
    /// be what makes the others needless.
    fn trim(&mut self, up_to: Ticket) -> io::Result<()> {
        let end = self.base + up_to.0 + 1;
        while self.full.front().is_some_and(|segment| segment.end() <= end) {
            self.sync()?;
            if let Some(gone) = self.full.pop_front() {
                fs::remove_file(&gone.path)?;
                sync_directory(&self.options.directory)?;
            }
        }
        Ok(())
    }

    /// All is written: what an earlier stop of the machine could not have lost.
    fn close(mut self) -> io::Result<()> {
        self.dirty = true;
        self.sync()?;
        Owner::leave(&self.options)
    }
}

/// The segments, oldest first, and all their records.
fn read_segments(
    paths: Vec<(u64, PathBuf)>,
    end: End,
    keep: Keep,
) -> Result<(VecDeque<Segment>, Vec<Bytes>), Unusable> {
    let (mut full, mut records, count) = (VecDeque::new(), Vec::new(), paths.len());
    for (at, (first, path)) in paths.into_iter().enumerate() {
        let expected = full.back().map_or(first, Segment::end);
        if first != expected {
            let what = format!("it begins with record {first}, but record {expected} is missing before it");
            return Err(Unusable::Damaged(path, what));
        }
        let end = End { is_last: at + 1 == count, ..end };
        full.extend(Segment::read(path, first, &end, keep, &mut records)?);
    }
    Ok((full, records))
}

/// The machine has stopped with writes that were not synced: nothing that is left counts.
fn forget(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(mark::NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => sync_directory(directory)?,
    }
    for (_, path) in segment::list(directory)? {
        tracing::warn!(path = %path.display(), "the machine has stopped since this was written: it counts as lost");
        fs::remove_file(path)?;
        sync_directory(directory)?;
    }
    Ok(())
}

fn check_size(directory: &Path, paths: &[(u64, PathBuf)], most: u64) -> Result<(), Unusable> {
    let sizes = paths.iter().map(|(_, path)| Ok(fs::metadata(path)?.len())).collect::<io::Result<Vec<_>>>()?;
    let bytes: u64 = sizes.iter().sum();
    if bytes <= most {
        return Ok(());
    }
    let what = format!("its segments have {bytes} bytes, where at most {most} can be right");
    Err(Unusable::Damaged(directory.to_owned(), what))
}

/// Replaces a file as a whole: after a crash it holds the old text or the new one.
fn replace(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let fresh = directory.join(format!("{name}.new"));
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, directory.join(name))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
