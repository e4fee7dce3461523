//! What clients have yet to read, kept on disk by a helper thread so that no disk stalls the loop.
//!
//! Each client's bytes lie in files of their own that have no name any more: the kernel gives their room back when they
//! are closed, also where the daemon dies. A block is written, and read back, as a whole, and shows by its checksum that it
//! is as it was. The thread starts with the first block.
use bytes::{Bytes, BytesMut};
use consort_types::ClientId;
use mio::Waker;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A file takes no more blocks from this length on, in bytes: its room is given back when they are read.
const SEGMENT: u64 = 64 << 20;

#[derive(Debug)]
enum SpoolOrder {
    Write(ClientId, Bytes),
    Read(ClientId),
    Forget(ClientId),
}

/// What became of an order.
#[derive(Debug)]
pub(crate) enum Spooled {
    /// So many bytes are written.
    Written(ClientId, usize),
    /// These were read.
    Read(ClientId, Bytes),
    /// It failed, and why.
    Failed(ClientId, String),
}

/// The loop's end of the helper thread. What waits in it is bounded by what the node lets be under way.
#[derive(Debug)]
pub(crate) struct Spool {
    orders: Option<Sender<SpoolOrder>>,
    done: Receiver<Spooled>,
    thread: Option<JoinHandle<()>>,
    /// Kept so that the thread's last wake-up is not lost with its waker.
    _waker: Arc<Waker>,
}

impl Spool {
    /// Starts the helper thread, which keeps its files in `directory`; it wakes the loop by `waker`.
    pub(crate) fn start(directory: PathBuf, waker: Arc<Waker>) -> io::Result<Self> {
        let (orders, to_do) = channel();
        let (results, done) = channel();
        let worker = SpoolWorker { directory, clients: BTreeMap::new(), results, waker: Arc::clone(&waker) };
        let thread = std::thread::Builder::new().name("spool".to_owned()).spawn(move || worker.work(&to_do))?;
        Ok(Self { orders: Some(orders), done, thread: Some(thread), _waker: waker })
    }

    pub(crate) fn write(&self, client: ClientId, bytes: Bytes) {
        self.order(SpoolOrder::Write(client, bytes));
    }

    pub(crate) fn read(&self, client: ClientId) {
        self.order(SpoolOrder::Read(client));
    }

    pub(crate) fn forget(&self, client: ClientId) {
        self.order(SpoolOrder::Forget(client));
    }

    /// What was done next, in the order of the orders.
    pub(crate) fn next_done(&self) -> Option<Spooled> {
        self.done.try_recv().ok()
    }

    fn order(&self, order: SpoolOrder) {
        if let Some(orders) = &self.orders {
            let _fails_only_where_the_thread_has_failed = orders.send(order);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.orders = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that spools has failed");
        }
    }
}

struct SpoolWorker {
    directory: PathBuf,
    clients: BTreeMap<ClientId, ClientFiles>,
    results: Sender<Spooled>,
    waker: Arc<Waker>,
}

impl SpoolWorker {
    fn work(mut self, orders: &Receiver<SpoolOrder>) {
        while let Ok(order) = orders.recv() {
            let Some(done) = self.carry_out(order) else { continue };
            if self.results.send(done).is_err() || self.waker.wake().is_err() {
                return;
            }
        }
    }

    fn carry_out(&mut self, order: SpoolOrder) -> Option<Spooled> {
        let (client, done) = match order {
            SpoolOrder::Forget(client) => {
                self.clients.remove(&client);
                return None;
            }
            SpoolOrder::Write(client, bytes) => {
                let files = self.clients.entry(client).or_default();
                let written = files.write(&self.directory, client, &bytes);
                (client, written.map(|()| Spooled::Written(client, bytes.len())))
            }
            SpoolOrder::Read(client) => {
                let files = self.clients.entry(client).or_default();
                (client, files.read().map(|bytes| Spooled::Read(client, bytes)))
            }
        };
        Some(done.unwrap_or_else(|error| Spooled::Failed(client, format!("{}: {error}", self.directory.display()))))
    }
}

/// What is kept of one client.
#[derive(Debug, Default)]
struct ClientFiles {
    /// Oldest first; the last one is written to.
    files: VecDeque<SpoolFile>,
}

#[derive(Debug)]
struct SpoolFile {
    file: File,
    end: u64,
    /// Those that were not read yet.
    blocks: VecDeque<SpoolBlock>,
}

#[derive(Clone, Copy, Debug)]
struct SpoolBlock {
    at: u64,
    len: usize,
    checksum: u32,
}

impl ClientFiles {
    fn write(&mut self, directory: &Path, client: ClientId, bytes: &[u8]) -> io::Result<()> {
        if self.files.back().is_none_or(|file| file.end >= SEGMENT) {
            let file = open_unnamed(directory, client)?;
            self.files.push_back(SpoolFile { file, end: 0, blocks: VecDeque::new() });
        }
        let Some(file) = self.files.back_mut() else { return Ok(()) };
        file.file.write_all_at(bytes, file.end)?;
        file.blocks.push_back(SpoolBlock { at: file.end, len: bytes.len(), checksum: crc32fast::hash(bytes) });
        file.end += bytes.len() as u64;
        Ok(())
    }

    /// The oldest block, which is forgotten by that.
    fn read(&mut self) -> io::Result<Bytes> {
        let nothing = || io::Error::new(io::ErrorKind::UnexpectedEof, "nothing is kept");
        let file = self.files.front_mut().ok_or_else(nothing)?;
        let block = file.blocks.pop_front().ok_or_else(nothing)?;
        let mut bytes = BytesMut::zeroed(block.len);
        file.file.read_exact_at(&mut bytes, block.at)?;
        if crc32fast::hash(&bytes) != block.checksum {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what was written is read back otherwise"));
        }
        if file.blocks.is_empty() {
            // What is written next begins a file anew.
            self.files.pop_front();
        }
        Ok(bytes.freeze())
    }
}

/// A file that only its descriptor keeps.
fn open_unnamed(directory: &Path, client: ClientId) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join(format!("{}-{}", std::process::id(), client.0));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;
    use mio::Token;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("consort-spool-{name}-{}", std::process::id()));
        let _is_not_there = fs::remove_dir_all(&path);
        path
    }

    fn next(spool: &Spool) -> Spooled {
        spool.done.recv().unwrap()
    }

    #[test]
    fn blocks_come_back_in_order_and_leave_no_file() {
        let (directory, wake) = (directory("order"), Wake::new(Token(1)).unwrap());
        let spool = Spool::start(directory.clone(), Arc::new(wake.waker(Token(2)).unwrap())).unwrap();
        let block = |client: u32, at: u32| Bytes::from(format!("{client} {at} ").repeat(at as usize + 1));
        for at in 0..100 {
            [1, 2].into_iter().for_each(|client| spool.write(ClientId(client), block(client, at)));
        }
        for _ in 0..200 {
            assert!(matches!(next(&spool), Spooled::Written(..)));
        }
        for at in 0..100 {
            for client in [2, 1] {
                spool.read(ClientId(client));
                match next(&spool) {
                    Spooled::Read(of, bytes) => assert_eq!((of, bytes), (ClientId(client), block(client, at))),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        drop(spool);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn long_spools_take_several_files_and_give_those_back_that_are_read() {
        let directory = directory("long");
        let mut files = ClientFiles::default();
        let block = vec![7; 8 << 20];
        (0..20).for_each(|_| files.write(&directory, ClientId(1), &block).unwrap());
        assert_eq!(files.files.len(), 3);
        (0..8).for_each(|_| assert_eq!(files.read().unwrap(), block));
        assert_eq!(files.files.len(), 2);
        (0..12).for_each(|_| assert_eq!(files.read().unwrap(), block));
        assert!(files.files.is_empty() && files.read().is_err());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_the_disk_changed_is_noticed() {
        let directory = directory("changed");
        let mut files = ClientFiles::default();
        files.write(&directory, ClientId(1), b"what was said").unwrap();
        files.files[0].file.write_all_at(b"W", 0).unwrap();
        assert!(files.read().unwrap_err().to_string().contains("read back otherwise"));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_is_told_with_its_name() {
        let wake = Wake::new(Token(1)).unwrap();
        let spool = Spool::start("/proc/no-such-place".into(), Arc::new(wake.waker(Token(2)).unwrap())).unwrap();
        spool.write(ClientId(1), Bytes::from_static(b"x"));
        match next(&spool) {
            Spooled::Failed(ClientId(1), why) => assert!(why.starts_with("/proc/no-such-place: "), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
