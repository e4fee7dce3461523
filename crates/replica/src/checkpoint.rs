//! Checkpoints: the machine on disk, whole or not at all.
//!
//! A file begins with `CONSREP1`; then the replica, its line, what it has seen, the length of these three in front, and
//! the machine; the last four bytes are the CRC-32 of all before.
use crate::frame::{put_line, read_line, read_u128};
use crate::gift::{put_seen, read_seen};
use crate::line::{Line, ReplicaId, Seen};
use crate::machine::StateMachine;
use bytes::{BufMut, BytesMut};
use consort_wire::{Malformed, Reader};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 8] = b"CONSREP1";
/// How files are called, with the view that was followed last and the position behind it.
const NAME: &str = "checkpoint-";
/// So many are kept.
const KEPT: usize = 2;
/// The bytes after which the disk is waited for, because one wait for all of a large checkpoint would look like a disk
/// that hangs.
const SYNC_EACH: usize = 64 << 20;
/// The head may not be longer.
const HEAD_MAX: usize = 256 << 20;

/// What stands in front of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub id: ReplicaId,
    pub line: Line,
    pub seen: Seen,
}

/// A directory of one replica's checkpoints, locked as long as it is used.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    directory: PathBuf,
    _lock: File,
}

impl Checkpoints {
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let lock = File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
        lock.try_lock().map_err(|_| io::Error::other("another replica uses this directory; give each its own"))?;
        Ok(Self { directory: directory.to_owned(), _lock: lock })
    }

    /// The newest that is whole; the machine takes its state. Others are told in the log and left alone.
    ///
    /// # Errors
    /// The system's; or that the machine refused what is whole, and took no other: it may have taken a part.
    pub fn load<M: StateMachine>(&self, machine: &mut M) -> io::Result<Option<Head>> {
        let mut refused = None;
        for path in files(&self.directory)?.into_iter().rev() {
            let opened = check(&path).and_then(|()| open(&path));
            let restored = opened.map(|(head, mut state)| machine.restore(&mut state).map(|()| head));
            match restored {
                Ok(Ok(head)) => return Ok(Some(head)),
                Ok(Err(error)) => {
                    tracing::warn!("checkpoint {} is not used: its state cannot be restored: {error}", path.display());
                    refused.get_or_insert((path, error));
                }
                Err(error) => tracing::warn!("checkpoint {} is not used: {error}", path.display()),
            }
        }
        let Some((path, error)) = refused else { return Ok(None) };
        let name = path.file_name().unwrap_or_default().display();
        Err(bad(&format!("the state in {name} cannot be restored: {error}; move the files away to begin without it")))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Writes one; the oldest go. For a separate thread. Counts in `written` the bytes that it has written, so that others see
/// that it goes on.
pub(crate) fn save<M: StateMachine>(
    directory: &Path,
    head: &Head,
    snapshot: M::Snapshot,
    written: &AtomicU64,
) -> io::Result<()> {
    let unfinished = directory.join("unfinished");
    let out = BufWriter::new(File::create(&unfinished)?);
    let mut out = Summed { out, sum: crc32fast::Hasher::new(), written, unsynced: 0 };
    out.write_all(&encode(head))?;
    M::write(snapshot, &mut out)?;
    let Summed { mut out, sum, .. } = out;
    out.write_all(&sum.finalize().to_be_bytes())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    let (epoch, position) = (head.line.epoch, head.line.end.position);
    fs::rename(&unfinished, directory.join(format!("{NAME}{epoch:020}-{position:020}")))?;
    File::open(directory)?.sync_all()?;
    let files = files(directory)?;
    files[..files.len().saturating_sub(KEPT)].iter().try_for_each(fs::remove_file)
}

/// By view and position: a line that does not count any more may have been longer.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    let is_one =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(NAME));
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).filter(is_one).collect();
    // Names that earlier versions gave have no view: they are older.
    files.sort_by_key(|path| {
        (path.to_string_lossy().rsplit(NAME).next().is_some_and(|name| name.contains('-')), path.clone())
    });
    Ok(files)
}

fn encode(head: &Head) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    out.put_u64(0);
    out.put_u128(head.id.0);
    put_line(&mut out, &head.line);
    put_seen(&mut out, &head.seen);
    let len = out.len() as u64 - 16;
    out[8..16].copy_from_slice(&len.to_be_bytes());
    out
}

/// Reads all of it before the machine sees any.
fn check(path: &Path) -> io::Result<()> {
    let (mut input, len) = (BufReader::with_capacity(1 << 20, File::open(path)?), fs::metadata(path)?.len());
    let mut sum = crc32fast::Hasher::new();
    let (mut left, mut buffer) = (len.checked_sub(4).ok_or_else(|| bad("it is cut short"))?, vec![0; 1 << 16]);
    while left > 0 {
        let take = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        input.read_exact(&mut buffer[..take])?;
        sum.update(&buffer[..take]);
        left -= take as u64;
    }
    let mut end = [0; 4];
    input.read_exact(&mut end)?;
    if sum.finalize() == u32::from_be_bytes(end) { Ok(()) } else { Err(bad("its checksum is wrong")) }
}

/// What stands in front of the machine, and the machine to read.
fn open(path: &Path) -> io::Result<(Head, impl Read)> {
    let len = fs::metadata(path)?.len();
    let mut input = BufReader::new(File::open(path)?.take(len.saturating_sub(4)));
    let mut front = [0; 16];
    input.read_exact(&mut front)?;
    let (magic, head_len) = front.split_at(8);
    if magic != MAGIC {
        return Err(bad("it is of another format"));
    }
    let head_len = head_len.iter().fold(0_u64, |len, byte| len << 8 | u64::from(*byte));
    let head_len = usize::try_from(head_len).ok().filter(|len| *len <= HEAD_MAX && *len as u64 <= front_max(path));
    let mut head = vec![0; head_len.ok_or_else(|| bad("its head is too long"))?];
    input.read_exact(&mut head)?;
    let head = decode(&head).map_err(|error| bad(&error.to_string()))?;
    Ok((head, input))
}

fn front_max(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn decode(bytes: &[u8]) -> Result<Head, Malformed> {
    let mut reader = Reader::new(bytes);
    let id = ReplicaId(read_u128(&mut reader, "replica")?);
    let (line, seen) = (read_line(&mut reader)?, read_seen(&mut reader)?);
    reader.end("end of head")?;
    Ok(Head { id, line, seen })
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

struct Summed<'a> {
    out: BufWriter<File>,
    sum: crc32fast::Hasher,
    written: &'a AtomicU64,
    unsynced: usize,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.unsynced += written;
        if self.unsynced >= SYNC_EACH {
            self.unsynced = 0;
            self.out.flush()?;
            self.out.get_ref().sync_data()?;
        }
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{Digest, Origin, Point};
    use crate::machine::Position;

    struct Text(String);

    impl StateMachine for Text {
        type Snapshot = String;

        fn apply(&mut self, _: Position, command: &[u8]) -> Vec<u8> {
            self.0.push_str(&String::from_utf8_lossy(command));
            Vec::new()
        }

        fn snapshot(&self) -> String {
            self.0.clone()
        }

        fn write(snapshot: String, out: &mut dyn Write) -> io::Result<()> {
            out.write_all(snapshot.as_bytes())
        }

        fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
            self.0.clear();
            state.read_to_string(&mut self.0).map(drop)
        }
    }

    fn head(position: u64) -> Head {
        let end = Point { position, digest: Digest(7) };
        let line =
            Line { history: 1, epoch: 2, step: 3, end, current: [ReplicaId(9)].into(), firm: [ReplicaId(9)].into() };
        let mut seen = Seen::default();
        seen.insert(Origin(1), 1, 1);
        Head { id: ReplicaId(9), line, seen }
    }

    #[test]
    fn the_newest_whole_checkpoint_is_used_and_torn_or_wrong_ones_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path()).unwrap();
        let mut machine = Text(String::new());
        assert_eq!(checkpoints.load(&mut machine).unwrap(), None);
        for position in 1..=3 {
            save::<Text>(directory.path(), &head(position), format!("state {position}"), &AtomicU64::new(0)).unwrap();
        }
        let kept = files(directory.path()).unwrap();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(checkpoints.load(&mut machine).unwrap(), Some(head(3)));
        assert_eq!(machine.0, "state 3");
        let whole = fs::read(&kept[1]).unwrap();
        for len in 0..whole.len() {
            fs::write(&kept[1], &whole[..len]).unwrap();
            assert_eq!(checkpoints.load(&mut machine).unwrap(), Some(head(2)), "cut to {len}");
            assert_eq!(machine.0, "state 2");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            fs::write(&kept[1], &changed).unwrap();
            assert_eq!(checkpoints.load(&mut machine).unwrap(), Some(head(2)), "changed at {at}");
        }
    }

    #[test]
    fn a_line_that_counts_is_newer_than_a_longer_one_that_it_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path()).unwrap();
        for position in [119, 120] {
            save::<Text>(directory.path(), &head(position), format!("old {position}"), &AtomicU64::new(0)).unwrap();
        }
        let mut counts = head(112);
        counts.line.epoch += 7;
        save::<Text>(directory.path(), &counts, "counts".into(), &AtomicU64::new(0)).unwrap();
        let mut machine = Text(String::new());
        assert_eq!(checkpoints.load(&mut machine).unwrap(), Some(counts));
        assert_eq!((machine.0.as_str(), files(directory.path()).unwrap().len()), ("counts", KEPT));
    }

    /// Takes a part of what it refuses.
    struct Picky(String);

    impl StateMachine for Picky {
        type Snapshot = String;

        fn apply(&mut self, _: Position, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn snapshot(&self) -> String {
            self.0.clone()
        }

        fn write(snapshot: String, out: &mut dyn Write) -> io::Result<()> {
            out.write_all(snapshot.as_bytes())
        }

        fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
            self.0.clear();
            state.read_to_string(&mut self.0)?;
            if self.0.starts_with("new") { Err(bad("a form that is not known")) } else { Ok(()) }
        }
    }

    #[test]
    fn a_machine_that_refuses_every_whole_checkpoint_does_not_begin_with_a_part_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path()).unwrap();
        save::<Picky>(directory.path(), &head(1), "old".into(), &AtomicU64::new(0)).unwrap();
        save::<Picky>(directory.path(), &head(2), "new form".into(), &AtomicU64::new(0)).unwrap();
        let mut machine = Picky(String::new());
        assert_eq!(checkpoints.load(&mut machine).unwrap(), Some(head(1)));
        assert_eq!(machine.0, "old");
        save::<Picky>(directory.path(), &head(3), "new form".into(), &AtomicU64::new(0)).unwrap();
        let error = checkpoints.load(&mut machine).unwrap_err().to_string();
        assert!(error.contains("-00000000000000000003 cannot be restored: a form that is not known; move"), "{error}");
    }

    #[test]
    fn a_directory_serves_one_replica() {
        let directory = tempfile::tempdir().unwrap();
        let first = Checkpoints::open(directory.path()).unwrap();
        let second = Checkpoints::open(directory.path()).unwrap_err();
        assert!(second.to_string().contains("another replica"), "{second}");
        drop(first);
        Checkpoints::open(directory.path()).unwrap();
    }
}
