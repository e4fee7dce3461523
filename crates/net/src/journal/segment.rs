//! One file of the log: a head of 16 bytes (what it is, and the number of its first record), then records.
use super::frame::{self, End, SEGMENT_HEAD};
use super::{Keep, Unusable, sync_directory};
use bytes::Bytes;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::{Path, PathBuf};

const ENDING: &str = "records";
/// A segment of that many bytes takes no further record.
const FULL: u64 = 8 << 20;
/// So many slices go into one system call: two a record.
const SLICES: usize = 512;

#[derive(Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub file: File,
    /// The number of its first record.
    pub first: u64,
    /// How many it holds.
    pub count: u64,
    pub bytes: u64,
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
    /// A new one, on the disk with its name and head.
    pub fn create(directory: &Path, first: u64) -> io::Result<Self> {
        let path = directory.join(format!("{first:016x}.{ENDING}"));
        let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        file.write_all(&frame::segment_head(first))?;
        file.sync_all()?;
        sync_directory(directory)?;
        Ok(Self { path, file, first, count: 0, bytes: SEGMENT_HEAD as u64 })
    }

    /// One that was found, with its records. The last one may end in the middle of a record, which is taken off; one that
    /// does not even have its head holds nothing, and goes.
    pub fn read(
        path: PathBuf,
        first: u64,
        end: &End,
        keep: Keep,
        records: &mut Vec<Bytes>,
    ) -> Result<Option<Self>, Unusable> {
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
        Ok(Some(Self { path, file, first, count, bytes: at as u64 }))
    }

    /// The number after its last record.
    pub const fn end(&self) -> u64 {
        self.first + self.count
    }

    pub const fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Appends the first of these records, as many as there is room for and one system call takes; returns how many.
    pub fn append(&mut self, records: &[Bytes]) -> io::Result<usize> {
        let mut room = FULL.saturating_sub(self.bytes);
        let fits = records.iter().take(SLICES / 2).take_while(|record| {
            let had_room = room > 0;
            room = room.saturating_sub((frame::HEAD + record.len()) as u64);
            had_room
        });
        let records = &records[..fits.count()];
        let numbered = (self.end()..).zip(records);
        let heads = numbered.map(|(number, record)| frame::head(number, record)).collect::<Option<Vec<_>>>();
        let heads = heads.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
        let both = heads.iter().zip(records);
        let mut slices: Vec<_> = both.flat_map(|(head, record)| [IoSlice::new(head), IoSlice::new(record)]).collect();
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        write_all(&mut self.file, &mut slices)?;
        self.count += records.len() as u64;
        self.bytes += bytes as u64;
        Ok(records.len())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Writes what was found to another file, which takes the first one's place once it is synced. The kernel may hold what a
/// failed sync has not brought to the disk, and says of the next sync that it succeeded.
fn rewrite(path: &Path, all: &[u8]) -> io::Result<File> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(all)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))?;
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
