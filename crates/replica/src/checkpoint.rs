//! Checkpoints: the machine on disk, whole or not at all.
//!
//! A file begins with eight bytes that name its format; then the length of the head, the head, and the machine; the last
//! four bytes are the CRC-32 of all before. There are two kinds of heads: [`Line`]s, where the order forgets (`CONSREP1`),
//! and positions of a log that lasts (`CONSREP2`).
use crate::codec::read_u128;
use crate::frame::{put_others, put_saved_line, read_others, read_saved_line};
use crate::gift::{put_seen, read_seen};
use crate::line::{Line, Others, ReplicaId, Seen};
use crate::machine::StateMachine;
use bytes::{BufMut, BytesMut};
use consort_journal::{make_private, private};
use consort_wire::{Malformed, Reader};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The file of those that may go on without this replica, and its format.
const OTHERS: &str = "others";
const OTHERS_FORMAT: &[u8; 8] = b"CONSOTH1";
/// How files are called, with what orders them behind it.
const NAME: &str = "checkpoint-";
/// A checkpoint that is being written.
const UNFINISHED: &str = "unfinished";
/// So many are kept.
pub(crate) const KEPT: usize = 2;
/// The bytes after which the disk is waited for, because one wait for all of a large checkpoint would look like a disk
/// that hangs.
const SYNC_EACH: usize = 64 << 20;
/// The head may not be longer.
const HEAD_MAX: usize = 256 << 20;
/// The formats of heads.
const FORMATS: [&[u8; 8]; 2] = [b"CONSREP1", b"CONSREP2"];

/// What is in front of the machine.
pub(crate) trait CheckpointHead: Sized {
    /// The file's format.
    const FORMAT: &'static [u8; 8];

    /// What orders the files of a directory: a later checkpoint has a later text.
    fn rank(&self) -> String;

    fn put(&self, out: &mut BytesMut);

    /// # Errors
    /// The bytes are no such head.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// The head where the order forgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub id: ReplicaId,
    pub line: Line,
    pub seen: Seen,
}

impl CheckpointHead for Head {
    const FORMAT: &'static [u8; 8] = FORMATS[0];

    /// By view and position: a line that does not count any more may have been longer.
    fn rank(&self) -> String {
        format!("{:020}-{:020}", self.line.epoch, self.line.end.position)
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u128(self.id.0);
        put_saved_line(out, &self.line);
        put_seen(out, &self.seen);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = ReplicaId(read_u128(reader, "replica")?);
        let (line, seen) = (read_saved_line(reader)?, read_seen(reader)?);
        Ok(Self { id, line, seen })
    }
}

/// A directory of one replica's checkpoints, locked as long as it is used.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    directory: PathBuf,
    lock: File,
}

impl Checkpoints {
    pub fn open(directory: &Path) -> io::Result<Self> {
        make_private(directory)?;
        let lock = private().truncate(false).open(directory.join("lock"))?;
        lock.try_lock().map_err(|_| io::Error::other("another replica uses this directory; give each its own"))?;
        Ok(Self { directory: directory.to_owned(), lock })
    }

    /// As [`load`]. What is damaged is named in the log.
    ///
    /// # Errors
    /// As of [`load`].
    pub fn load<M: StateMachine, H: CheckpointHead>(&self, machine: &mut M) -> io::Result<Option<H>> {
        load(&self.directory, machine, &mut |_, why| tracing::warn!("{why}"))
    }

    /// The machine takes the state of this file, which is whole.
    ///
    /// # Errors
    /// The system's, or the machine's.
    pub fn restore<M: StateMachine, H: CheckpointHead>(&self, path: &Path, machine: &mut M) -> io::Result<H> {
        let (head, mut state) = open(path)?;
        machine.restore(&mut state)?;
        Ok(head)
    }

    /// The heads of those that are whole, oldest first.
    ///
    /// # Errors
    /// The system's.
    pub fn heads<H: CheckpointHead>(&self) -> io::Result<Vec<H>> {
        let whole = |path: &PathBuf| check(path).and_then(|()| open(path)).ok().map(|(head, _)| head);
        Ok(files(&self.directory)?.iter().filter_map(whole).collect())
    }

    /// These may go on without this replica: on disk once it returns.
    ///
    /// # Errors
    /// The system's.
    pub fn remember(&self, others: &Others) -> io::Result<()> {
        let mut out = BytesMut::from(&OTHERS_FORMAT[..]);
        put_others(&mut out, others);
        replace(&self.directory, OTHERS, out)
    }

    /// What was remembered last.
    ///
    /// # Errors
    /// The system's; or that the file is damaged.
    pub fn others(&self) -> io::Result<Option<Others>> {
        let path = self.directory.join(OTHERS);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let others = whole(&bytes).and_then(|bytes| bytes.strip_prefix(&OTHERS_FORMAT[..]));
        let others = others.and_then(|others| read_others(&mut Reader::new(others)).ok());
        others.map(Some).ok_or_else(|| {
            let remedy =
                "it names the replicas that may have gone on without this one; remove it once they are there, or lost";
            bad(&format!("{} is damaged: {remedy}", path.display()))
        })
    }

    /// The file that is locked; it is never replaced.
    pub const fn lock(&self) -> &File {
        &self.lock
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Replaces a small file, with a checksum: after a crash it is the old one or the new one.
///
/// # Errors
/// The system's.
pub(crate) fn replace(directory: &Path, name: &str, mut bytes: BytesMut) -> io::Result<()> {
    bytes.put_u32(crc32fast::hash(&bytes));
    let fresh = directory.join(format!("{name}.new"));
    let mut file = private().truncate(true).open(&fresh)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// The bytes before the checksum, if that is right.
pub(crate) fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let (front, sum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(front) == u32::from_be_bytes(*sum)).then_some(front)
}

/// The newest that is whole; the machine takes its state. Damaged ones are left alone, and `unused` is given the reason.
///
/// # Errors
/// The system's; that a checkpoint is of the other kind of order; or that the machine refused what is whole, and took no
/// other: it may have taken a part.
pub(crate) fn load<M: StateMachine, H: CheckpointHead>(
    directory: &Path,
    machine: &mut M,
    unused: &mut dyn FnMut(io::ErrorKind, String),
) -> io::Result<Option<H>> {
    let mut refused = None;
    for path in files(directory)?.into_iter().rev() {
        let opened = check(&path).and_then(|()| open(&path));
        let restored = opened.map(|(head, mut state)| machine.restore(&mut state).map(|()| head));
        match restored {
            Ok(Ok(head)) => return Ok(Some(head)),
            Ok(Err(error)) => {
                let kind = io::ErrorKind::InvalidData;
                unused(
                    kind,
                    format!("checkpoint {} is not used: its state cannot be restored: {error}", path.display()),
                );
                refused.get_or_insert((path, error));
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Err(error),
            Err(error) => unused(error.kind(), format!("checkpoint {} is not used: {error}", path.display())),
        }
    }
    let Some((path, error)) = refused else { return Ok(None) };
    let name = path.file_name().unwrap_or_default().display();
    Err(bad(&format!("the state in {name} cannot be restored: {error}; move the files away to begin without it")))
}

/// Writes one; the oldest go. For a separate thread. Counts in `written` the bytes that it has written, so that others see
/// that it goes on.
///
/// # Errors
/// The system's. What was written of it is taken away: where the disk is full others need the room.
pub(crate) fn save<M: StateMachine>(
    directory: &Path,
    head: &impl CheckpointHead,
    snapshot: M::Snapshot,
    written: &AtomicU64,
) -> io::Result<PathBuf> {
    let unfinished = directory.join(UNFINISHED);
    let saved = write::<M>(&unfinished, head, snapshot, written);
    if saved.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    saved?;
    enter(directory, &unfinished, head)
}

fn write<M: StateMachine>(
    path: &Path,
    head: &impl CheckpointHead,
    snapshot: M::Snapshot,
    written: &AtomicU64,
) -> io::Result<()> {
    let out = BufWriter::new(private().truncate(true).open(path)?);
    let mut out = Summed { out, sum: crc32fast::Hasher::new(), written, unsynced: 0 };
    out.write_all(&encode(head))?;
    M::write(snapshot, &mut out)?;
    let Summed { mut out, sum, .. } = out;
    out.write_all(&sum.finalize().to_be_bytes())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// A file that is whole and synced becomes a checkpoint of the directory; the oldest go.
///
/// # Errors
/// The system's.
pub(crate) fn enter(directory: &Path, file: &Path, head: &impl CheckpointHead) -> io::Result<PathBuf> {
    let path = directory.join(format!("{NAME}{}", head.rank()));
    fs::rename(file, &path)?;
    File::open(directory)?.sync_all()?;
    let files = files(directory)?;
    files[..files.len().saturating_sub(KEPT)].iter().try_for_each(fs::remove_file)?;
    Ok(path)
}

/// The checkpoints of a directory, oldest first.
///
/// # Errors
/// The system's.
pub(crate) fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    let is_one =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(NAME));
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).filter(is_one).collect();
    files.sort_unstable();
    Ok(files)
}

fn encode<H: CheckpointHead>(head: &H) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_slice(H::FORMAT);
    out.put_u64(0);
    head.put(&mut out);
    let len = out.len() as u64 - 16;
    out[8..16].copy_from_slice(&len.to_be_bytes());
    out
}

/// Reads all of it before the machine sees any.
pub(crate) fn check(path: &Path) -> io::Result<()> {
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

/// What is in front of the machine, and the machine to read.
pub(crate) fn open<H: CheckpointHead>(path: &Path) -> io::Result<(H, impl Read + use<H>)> {
    let len = fs::metadata(path)?.len();
    let mut input = BufReader::new(File::open(path)?.take(len.saturating_sub(4)));
    let mut front = [0; 16];
    input.read_exact(&mut front)?;
    let (format, head_len) = front.split_at(8);
    if format != H::FORMAT {
        let of_other_kind = FORMATS.iter().any(|other| &other[..] == format);
        return Err(if of_other_kind { other_kind() } else { bad("it is of another format") });
    }
    let head_len = head_len.iter().fold(0_u64, |len, byte| len << 8 | u64::from(*byte));
    let head_len = usize::try_from(head_len).ok().filter(|head_len| *head_len <= HEAD_MAX && *head_len as u64 <= len);
    let mut head = vec![0; head_len.ok_or_else(|| bad("its head is too long"))?];
    input.read_exact(&mut head)?;
    let mut reader = Reader::new(&head);
    let malformed = |error: Malformed| bad(&error.to_string());
    let head = H::read(&mut reader).map_err(malformed)?;
    reader.end("end of head").map_err(malformed)?;
    Ok((head, input))
}

fn other_kind() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "its checkpoints are of the other kind of order: of one that lasts (`paxos` with storage sync or async), or of one \
         that forgets, or of durable replicas; run the daemons as before, and replicas with or without `--durable` as before, or \
         give an empty directory",
    )
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
    use std::os::unix::fs::PermissionsExt as _;

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
        let counting = vec![[ReplicaId(9)].into()];
        let line = Line { history: 1, epoch: 2, step: 3, end, counting, ..Line::default() };
        let mut seen = Seen::default();
        seen.insert(Origin(1), 1, 1);
        Head { id: ReplicaId(9), line, seen }
    }

    #[test]
    fn other_users_cannot_read_what_is_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("a/b");
        let checkpoints = Checkpoints::open(&own).unwrap();
        checkpoints.remember(&Others::default()).unwrap();
        save::<Text>(&own, &head(1), "state".into(), &AtomicU64::new(0)).unwrap();
        let others = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
        let files: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!((files.len(), others(&own)), (3, 0));
        assert!(files.iter().all(|path| others(path) == 0), "{files:?}");
    }

    #[test]
    fn those_that_may_go_on_are_remembered_as_they_were_last_and_a_damaged_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path()).unwrap();
        assert_eq!(checkpoints.others().unwrap(), None);
        let others = |ids: &[u128]| {
            let ids = ids.iter().copied().map(ReplicaId).collect();
            Others { history: 3, epoch: 2, step: 7, ids }
        };
        for ids in [&[1, 1 << 100][..], &[], &[7]] {
            checkpoints.remember(&others(ids)).unwrap();
            assert_eq!(checkpoints.others().unwrap(), Some(others(ids)));
        }
        let path = directory.path().join(OTHERS);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            let error = checkpoints.others().unwrap_err().to_string();
            assert!(error.contains("others is damaged"), "{error}");
        }
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(checkpoints.others().is_err());
    }

    #[test]
    fn the_newest_whole_checkpoint_is_used_and_torn_or_wrong_ones_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path()).unwrap();
        let mut machine = Text(String::new());
        assert_eq!(checkpoints.load::<_, Head>(&mut machine).unwrap(), None);
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
        let error = checkpoints.load::<_, Head>(&mut machine).unwrap_err().to_string();
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
