//! Durable records: an append-only log of segments, written and synced on a helper thread so that no disk stalls the loop
//! that asks for them.
//!
//! [`Journal::open`] reads what a directory holds and checks whose it is. [`Journal::start`] makes it a [`JournalWriter`],
//! which takes records and reports them in order once they are written, and synced where that was asked for.
//!
//! | module | what |
//! |---|---|
//! | `frame` | a segment's bytes; of each record length, checksum, bytes |
//! | `segment` | one file: appended to, read back, checked |
//! | `mark` | up to which record all are synced |
//! | `owner` | whose the directory is, how it is kept, and whether the machine has stopped since |
//! | `writer` | the helper thread: many records a sync, and patience where the disk takes nothing |
//! | `error` | why a directory cannot be used, and what to do about it |
//!
//! Records are numbered through all incarnations; a segment is named after its first. Whole segments go when all their
//! records are trimmed, so that an engine may see some trimmed records again after a restart.
#![allow(clippy::disallowed_methods, reason = "the helper thread sleeps while the disk takes nothing")]

mod error;
mod frame;
mod mark;
mod owner;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{OpenError, room_hint};
pub use owner::{Keep, Records, adopt};
pub use writer::JournalWriter;

use self::frame::End;
use self::mark::Mark;
use self::owner::{Left, Owner};
use self::segment::{OpenSegment, Segment, Spare};
use bytes::Bytes;
use consort_types::{Incarnation, Ticket};
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The records of earlier incarnations, and the segments that take those of this one.
#[derive(Debug)]
pub struct Journal {
    options: Records,
    directory: Directory,
    owner: Owner,
    /// Those that are full, oldest first.
    full: VecDeque<Segment>,
    /// The one that is appended to.
    last: OpenSegment,
    /// The file that becomes the next one; none where it could not be made so far.
    spare: Option<Spare>,
    /// The number of the record before the one with ticket 1.
    base: u64,
    records: Vec<Bytes>,
    /// Something is written and not synced.
    dirty: bool,
    /// A sync has failed: what was written may be lost although the next sync succeeds.
    lost: bool,
    mark: Mark,
}

/// The directory, open for as long as the journal is: syncing it needs no further descriptor.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    file: File,
}

impl Directory {
    /// Opens it, and makes it where it does not exist, for this user alone.
    fn open(path: &Path) -> io::Result<Self> {
        make_private(path)?;
        Ok(Self { path: path.to_owned(), file: File::open(path)? })
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Why a directory cannot be used.
#[derive(Debug)]
enum Unusable {
    Failed(io::Error),
    Damaged(PathBuf, String),
    Kept(&'static str),
    /// It belongs to another node, or to another cluster.
    Foreign {
        cluster: String,
        node: u16,
    },
    /// It has records, and nothing says whose.
    Unnamed,
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Journal {
    /// Opens or makes the directory. A record at the end that was only half written is taken off: nobody was told that it
    /// was durable. What cannot be right in any other way is left as it is.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the directory, and what to do about it.
    pub fn open(options: &Records) -> Result<Self, OpenError> {
        Self::read(options).map_err(|wrong| unusable(options, wrong))
    }

    fn read(options: &Records) -> Result<Self, Unusable> {
        let directory = &options.directory;
        if directory.is_file() {
            return Err(Unusable::Damaged(directory.clone(), "it is a file, as earlier versions wrote it".into()));
        }
        let open = Directory::open(directory)?;
        let (owner, left) = Owner::last(options, !segment::list(directory)?.is_empty())?;
        if left == Left::Forgotten {
            forget(&open)?;
        }
        let paths = segment::list(directory)?;
        check_size(directory, &paths, options.most)?;
        let synced = Mark::last(directory)?.unwrap_or(0);
        let end = End { is_last: false, synced, may_lack_sectors: options.keep == Keep::Synced };
        let (full, last, records) = read_segments(paths, end, options.keep)?;
        let base =
            full.front().or(last.as_ref().map(|last| &last.segment)).map_or(synced + 1, |segment| segment.first) - 1;
        let next = last.as_ref().map_or(base + 1, |last| last.segment.end());
        if next <= synced || last.is_none() && synced > 0 {
            let what = format!("its records end before {next}, but those up to {synced} were synced: some are missing");
            return Err(Unusable::Damaged(directory.to_owned(), what));
        }
        let all_synced = options.keep == Keep::Synced;
        let mark = Mark::begin(directory, if all_synced { next - 1 } else { synced })?;
        owner.claim(options)?;
        let mut spare = None;
        let last = match last {
            Some(last) => last,
            None => OpenSegment::begin(&open, &mut spare, next)?,
        };
        let (directory, options, dirty) = (open, options.clone(), !all_synced);
        let mut journal =
            Self { options, directory, owner, full, last, spare, base, records, dirty, lost: false, mark };
        journal.make_spare();
        Ok(journal)
    }

    /// The incarnation that found the directory to be a copy of the one that a daemon wrote; 0 for none.
    pub const fn copied(&self) -> Incarnation {
        self.owner.copied
    }

    /// The records that were found, oldest first: they have the tickets from 1 on. A second call returns none.
    pub fn take_records(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.records)
    }

    /// Appends records, in as few system calls as go; a new segment may begin before each. Returns how many were appended,
    /// also where it fails.
    fn append(&mut self, records: &[Bytes]) -> (usize, io::Result<()>) {
        let mut done = 0;
        while done < records.len() {
            match self.append_some(&records[done..]) {
                Ok(some) => done += some,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    fn append_some(&mut self, records: &[Bytes]) -> io::Result<usize> {
        if self.last.segment.is_full() {
            self.roll()?;
        }
        self.dirty = true;
        match self.last.append(records) {
            // The files of this process may not grow as long as a segment does.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge && self.last.segment.count > 0 => {
                self.roll()?;
                self.dirty = true;
                self.last.append(records)
            }
            appended => appended,
        }
    }

    /// Goes on in a new segment. The old one is synced first: a crash must not lose its end and keep what follows. Where no
    /// file can be opened for it, the old one grows on.
    fn roll(&mut self) -> io::Result<()> {
        self.last.cut()?;
        self.sync()?;
        match OpenSegment::begin(&self.directory, &mut self.spare, self.last.segment.end()) {
            Ok(next) => {
                self.full.push_back(std::mem::replace(&mut self.last, next).segment);
                self.make_spare();
                Ok(())
            }
            Err(error) if lacks_descriptors(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes the file of the next segment, or tries it again with the next records.
    fn make_spare(&mut self) {
        if self.spare.is_none() {
            self.spare = Spare::make(&self.directory.path).ok();
        }
    }

    /// Syncs what is written, and then says so.
    fn sync(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.lost = true;
        self.last.file.sync_data()?;
        self.lost = false;
        //= X06
        self.mark.note(self.last.segment.end() - 1)?;
        self.dirty = false;
        Ok(())
    }

    /// Removes the segments whose records are all trimmed, the oldest first. What was written since is synced before: it may
    /// be what makes the others needless.
    fn trim(&mut self, up_to: Ticket) -> io::Result<()> {
        let end = self.base + up_to.0 + 1;
        while self.full.front().is_some_and(|segment| segment.end() <= end) {
            self.sync()?;
            if let Some(gone) = self.full.front() {
                fs::remove_file(&gone.path)?;
                self.full.pop_front();
                self.directory.sync()?;
            }
        }
        Ok(())
    }

    /// All is written: what an earlier stop of the machine could not have lost.
    fn close(mut self) -> io::Result<()> {
        self.dirty = true;
        self.sync()?;
        self.owner.leave(&self.options)
    }
}

fn unusable(options: &Records, wrong: Unusable) -> OpenError {
    let path = options.directory.clone();
    match wrong {
        Unusable::Failed(source) => OpenError::Records { path, source },
        Unusable::Damaged(path, what) => OpenError::Damaged { path, what },
        Unusable::Kept(was) => OpenError::Kept { path, was, now: options.keep.name() },
        Unusable::Unnamed => OpenError::Unnamed { path },
        Unusable::Foreign { cluster, node } => {
            let (me, my_cluster) = (options.node, options.cluster.clone());
            OpenError::Foreign { path, node, cluster, me, my_cluster }
        }
    }
}

/// Whether the process, or the whole machine, has no descriptor left.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// What was found: segments that are full, oldest first; the last one, open; and all their records.
type Found = (VecDeque<Segment>, Option<OpenSegment>, Vec<Bytes>);

fn read_segments(paths: Vec<(u64, PathBuf)>, end: End, keep: Keep) -> Result<Found, Unusable> {
    let (mut full, mut last, mut records) = (VecDeque::<Segment>::new(), None::<OpenSegment>, Vec::new());
    let count = paths.len();
    for (at, (first, path)) in paths.into_iter().enumerate() {
        full.extend(last.take().map(|found: OpenSegment| found.segment));
        let expected = full.back().map_or(first, Segment::end);
        if first != expected {
            let what = format!("it begins with record {first}, but record {expected} is missing before it");
            return Err(Unusable::Damaged(path, what));
        }
        let end = End { is_last: at + 1 == count, ..end };
        last = Segment::read(path, first, &end, keep, &mut records)?;
        // One without its head held nothing, and has gone: the one before takes what comes.
        if last.is_none()
            && let Some(before) = full.pop_back()
        {
            last = Some(OpenSegment::again(before)?);
        }
    }
    Ok((full, last, records))
}

/// The machine has stopped with writes that were not synced: nothing that is left counts.
fn forget(directory: &Directory) -> io::Result<()> {
    for (_, path) in segment::list(&directory.path)? {
        tracing::warn!(path = %path.display(), "the machine has stopped since this was written: it counts as lost");
        fs::remove_file(path)?;
        directory.sync()?;
    }
    // The mark names none of them any more. It goes last, because what it names must not be missing after a crash.
    Mark::begin(&directory.path, 0).map(drop)
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

/// Replaces a file as a whole: after a crash it holds the old text or the new one, which may name the very file.
fn replace(directory: &Path, name: &str, text: impl FnOnce(&File) -> io::Result<String>) -> io::Result<()> {
    let fresh = directory.join(format!("{name}.new"));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private().create_new(true).open(&fresh)?;
    file.write_all(text(&file)?.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Makes a directory that no other user of the machine can look into; one that exists is left as it is.
///
/// # Errors
/// The system's.
pub fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Options to make and write a file that no other user of the machine can read, whatever the umask, because it holds payloads.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}
