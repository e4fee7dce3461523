//! One file of the log: a head of 16 bytes (what it is, and the number of its first record), then records.
use super::frame::{self, End, SEGMENT_HEAD};
use super::{Directory, Keep, Unusable, private};
use bytes::Bytes;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const ENDING: &str = "records";
/// A segment of that many bytes takes no further record.
const FULL: u64 = 8 << 20;
/// So many slices go into one system call: two a record.
const SLICES: usize = 512;

/// One that is full, or was found: nothing is open.
#[derive(Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    /// The number of its first record.
    pub first: u64,
    /// How many it holds.
    pub count: u64,
    pub bytes: u64,
}

/// The one that is appended to.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub segment: Segment,
    pub file: File,
    /// A write has failed, so that a part of it may be at the end.
    torn: bool,
}

/// A file that becomes the next segment. It is made long before it is needed, because a process that has used up its
/// descriptors by then could not open one.
//= X08
#[derive(Debug)]
pub(super) struct Spare(File);

impl Spare {
    const NAME: &'static str = "next";

    /// Makes it; what an earlier incarnation left of the kind is empty, or the beginning of a head.
    pub fn make(directory: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let path = directory.join(Self::NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self(options.append(true).create_new(true).mode(0o600).open(path)?))
    }

    /// Makes it a segment, on the disk with its name and head. Where that fails it can be tried again.
    fn become_segment(&mut self, directory: &Directory, first: u64) -> io::Result<PathBuf> {
        self.0.set_len(0)?;
        self.0.write_all(&frame::segment_head(first))?;
        self.0.sync_all()?;
        let path = directory.path.join(format!("{first:016x}.{ENDING}"));
        fs::rename(directory.path.join(Self::NAME), &path)?;
        directory.sync()?;
        Ok(path)
    }
}

/// The segments of a directory, by the number of their first record.
pub(super) fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_segment = path.extension().is_some_and(|ending| ending == ENDING);
        let first = path.file_stem().and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok());
        found.extend(first.filter(|_| is_segment).map(|first| (first, path)));
    }
    found.sort_unstable();
    Ok(found)
}

impl Segment {
    /// One that was found, with its records. The last one may end in the middle of a record, which is taken off; one that
    /// does not even have its head holds nothing, and goes.
    pub fn read(
        path: PathBuf,
        first: u64,
        end: &End,
        keep: Keep,
        records: &mut Vec<Bytes>,
    ) -> Result<Option<OpenSegment>, Unusable> {
        let mut file = OpenOptions::new().read(true).append(true).open(&path)?;
        if !file.metadata()?.is_file() {
            return Err(Unusable::Failed(io::Error::new(ErrorKind::InvalidInput, "not a regular file")));
        }
        let mut all = Vec::new();
        file.read_to_end(&mut all)?;
        let all = Bytes::from(all);
        if end.is_last && all.len() < SEGMENT_HEAD {
            fs::remove_file(&path)?;
            return Ok(None);
        }
        let before = records.len();
        let at = match frame::parse(&all, first, end, records) {
            Ok(at) => at,
            Err(what) => return Err(Unusable::Damaged(path, what)),
        };
        let count = (records.len() - before) as u64;
        if at < all.len() {
            tracing::warn!(path = %path.display(), bytes = all.len() - at, "taking off a half-written record");
            file.set_len(at as u64)?;
        }
        //= X07
        if end.is_last && keep == Keep::Synced && first + count > end.synced + 1 {
            file = rewrite(&path, &all[..at])?;
        }
        let segment = Self { path, first, count, bytes: at as u64 };
        Ok(Some(OpenSegment { segment, file, torn: false }))
    }

    /// The number after its last record.
    pub const fn end(&self) -> u64 {
        self.first + self.count
    }

    pub const fn is_full(&self) -> bool {
        self.bytes >= FULL
    }
}

impl OpenSegment {
    /// A new one. The spare file is used up; without one another is made.
    pub fn begin(directory: &Directory, spare: &mut Option<Spare>, first: u64) -> io::Result<Self> {
        let mut file = match spare.take() {
            Some(file) => file,
            None => Spare::make(&directory.path)?,
        };
        match file.become_segment(directory, first) {
            Ok(path) => {
                let segment = Segment { path, first, count: 0, bytes: SEGMENT_HEAD as u64 };
                Ok(Self { segment, file: file.0, torn: false })
            }
            Err(error) => {
                *spare = Some(file);
                Err(error)
            }
        }
    }

    /// One that was read before takes further records.
    pub fn again(segment: Segment) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(&segment.path)?;
        Ok(Self { segment, file, torn: false })
    }

    /// Takes off what a write has left that failed: on a full disk a part of it may be there.
    pub fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.segment.bytes)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Appends the first of these records, as many as one system call takes and there is room for; a segment that is full
    /// takes as many as another would. Returns how many.
    pub fn append(&mut self, records: &[Bytes]) -> io::Result<usize> {
        let mut room = match FULL.saturating_sub(self.segment.bytes) {
            0 => FULL,
            room => room,
        };
        let fits = records.iter().take(SLICES / 2).take_while(|record| {
            let had_room = room > 0;
            room = room.saturating_sub((frame::HEAD + record.len()) as u64);
            had_room
        });
        let records = &records[..fits.count()];
        let numbered = (self.segment.end()..).zip(records);
        let heads = numbered.map(|(number, record)| frame::head(number, record)).collect::<Option<Vec<_>>>();
        let heads = heads.ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
        let both = heads.iter().zip(records);
        let mut slices: Vec<_> = both.flat_map(|(head, record)| [IoSlice::new(head), IoSlice::new(record)]).collect();
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        self.cut()?;
        self.torn = true;
        write_all(&mut self.file, &mut slices)?;
        self.torn = false;
        self.segment.count += records.len() as u64;
        self.segment.bytes += bytes as u64;
        Ok(records.len())
    }
}

/// Writes what was found to another file, which takes the first one's place once it is synced. The kernel may hold what a
/// failed sync has not brought to the disk, and says of the next sync that it succeeded.
fn rewrite(path: &Path, all: &[u8]) -> io::Result<File> {
    let fresh = path.with_extension("new");
    let mut file = private().truncate(true).open(&fresh)?;
    file.write_all(all)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    OpenOptions::new().append(true).open(path)
}

fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
