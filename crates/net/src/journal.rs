//! Durable records: one file, appended and synced on a helper thread so that no disk stalls the loop.
//!
//! A record stands in the file as its length (4 bytes), a CRC-32 of the rest (4), its ticket (8) and its bytes. Tickets
//! ascend. What was trimmed is cut off once it is most of the file; an engine may see trimmed records again after a
//! restart.
use crate::error::BindError;
use bytes::Bytes;
use consort_types::Ticket;
use mio::Waker;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The bytes before each record.
const HEAD: usize = 16;
/// Trimmed bytes below that number are left where they are.
const WORTH_CUTTING: u64 = 1 << 20;
/// No record is longer, in bytes.
const RECORD_MAX: usize = 1 << 20;
/// No file is longer, in bytes: what was trimmed is cut off long before.
const FILE_MAX: u64 = 64 << 20;

/// The records of an earlier life, and the file that takes those of this one.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    index: VecDeque<(Ticket, u64)>,
    records: Vec<Bytes>,
}

impl Journal {
    /// Opens or makes the file. A record at its end that was only half written is taken off: nobody was told that it was
    /// durable. What cannot be right in any other way is left as it is.
    pub(crate) fn open(path: &Path) -> Result<Self, BindError> {
        Self::read(path).map_err(|wrong| match wrong {
            UnusableFile::Failed(source) => BindError::Records { path: path.to_owned(), source },
            UnusableFile::Damaged(what) => BindError::Damaged { path: path.to_owned(), what },
        })
    }

    fn read(path: &Path) -> Result<Self, UnusableFile> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(UnusableFile::Failed(io::Error::new(ErrorKind::InvalidInput, "not a regular file")));
        }
        if about.len() > FILE_MAX {
            return Err(UnusableFile::Damaged(format!(
                "it has {} bytes, where at most {FILE_MAX} can be right",
                about.len()
            )));
        }
        let mut all = Vec::new();
        file.read_to_end(&mut all)?;
        let all = Bytes::from(all);
        let (mut at, mut index, mut records) = (0, VecDeque::new(), Vec::new());
        while let Some((ticket, record)) = record_at(&all, at).map_err(UnusableFile::Damaged)? {
            let len = HEAD + record.len();
            index.push_back((ticket, len as u64));
            records.push(record);
            at += len;
        }
        if at < all.len() {
            tracing::warn!(path = %path.display(), bytes = all.len() - at, "taking off a half-written record");
            file.set_len(at as u64)?;
        }
        file.seek(SeekFrom::Start(at as u64))?;
        Ok(Self { path: path.to_owned(), file, index, records })
    }

    /// The records that were found, oldest first.
    pub(crate) fn take_records(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.records)
    }

    /// Starts the helper thread; it wakes the loop by `waker` whenever something is done.
    pub(crate) fn start(self, waker: Waker) -> io::Result<JournalWriter> {
        let (orders, to_do) = channel();
        let (results, done) = channel();
        let (path, waker) = (self.path.clone(), Arc::new(waker));
        let worker = JournalWorker { journal: self, results, waker: Arc::clone(&waker) };
        let work = move || worker.work(&to_do);
        let thread = std::thread::Builder::new().name("records".to_owned()).spawn(work)?;
        Ok(JournalWriter { path, orders: Some(orders), done, thread: Some(thread), _waker: waker })
    }

    fn append(&mut self, ticket: Ticket, record: &[u8]) -> io::Result<()> {
        let fitting = u32::try_from(record.len()).ok().filter(|_| record.len() <= RECORD_MAX);
        let len = fitting.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
        let mut frame = Vec::with_capacity(HEAD + record.len());
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&ticket.0.to_be_bytes());
        frame.extend_from_slice(record);
        let sum = crc32fast::hash(&frame[8..]);
        frame[4..8].copy_from_slice(&sum.to_be_bytes());
        self.file.write_all(&frame)?;
        self.index.push_back((ticket, frame.len() as u64));
        Ok(())
    }

    fn trim(&mut self, up_to: Ticket) -> io::Result<()> {
        let gone = self.index.iter().take_while(|(ticket, _)| *ticket <= up_to).count();
        let bytes = |index: &mut dyn Iterator<Item = &(Ticket, u64)>| index.map(|(_, len)| len).sum::<u64>();
        let (dead, live) = (bytes(&mut self.index.iter().take(gone)), bytes(&mut self.index.iter().skip(gone)));
        if dead < WORTH_CUTTING || dead < live {
            return Ok(());
        }
        self.cut_off(dead)?;
        self.index.drain(..gone);
        Ok(())
    }

    /// Puts a file without the first `dead` bytes in place of this one.
    fn cut_off(&mut self, dead: u64) -> io::Result<()> {
        let fresh_path = self.path.with_extension("new");
        let mut fresh = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&fresh_path)?;
        self.file.seek(SeekFrom::Start(dead))?;
        io::copy(&mut self.file, &mut fresh)?;
        fresh.sync_all()?;
        fs::rename(&fresh_path, &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        self.file = fresh;
        Ok(())
    }
}

/// Why a file cannot be used.
enum UnusableFile {
    Failed(io::Error),
    Damaged(String),
}

impl From<io::Error> for UnusableFile {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// The record that begins at `at`; none where the file ends, be it in the middle of one.
fn record_at(all: &Bytes, at: usize) -> Result<Option<(Ticket, Bytes)>, String> {
    let damaged = |what| Err(format!("{what} of the record at byte {at} is damaged"));
    let number = |from: usize| all.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (Some(len), Some(sum)) = (number(at), number(at + 4)) else { return Ok(None) };
    let end = at + HEAD + len as usize;
    if len as usize > RECORD_MAX {
        return damaged("the length");
    }
    let Some(summed) = all.get(at + 8..end) else {
        // Half written, unless some other length makes the sum right.
        return if is_sum_of_a_part(&all[at + 8..], sum) { damaged("the length") } else { Ok(None) };
    };
    if crc32fast::hash(summed) != sum {
        // A crash of the machine may leave a file that has grown, but not what was to stand there: zeroes.
        let is_last = all[end..].iter().all(|byte| *byte == 0);
        return if is_last { Ok(None) } else { damaged("the content") };
    }
    let ticket = summed[..8].try_into().map(u64::from_be_bytes).unwrap_or_default();
    Ok(Some((Ticket(ticket), all.slice(at + HEAD..end))))
}

/// Whether a sum is that of a ticket and any number of the bytes after it.
fn is_sum_of_a_part(bytes: &[u8], sum: u32) -> bool {
    let Some((ticket, rest)) = bytes.split_at_checked(HEAD - 8) else { return false };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(ticket);
    let mut fits = hasher.clone().finalize() == sum;
    for byte in rest {
        hasher.update(std::slice::from_ref(byte));
        fits |= hasher.clone().finalize() == sum;
    }
    fits
}

enum WriteOrder {
    Write { ticket: Ticket, record: Bytes, sync: bool },
    Trim { up_to: Ticket },
}

/// The loop's end of the helper thread.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    pub(crate) path: PathBuf,
    orders: Option<Sender<WriteOrder>>,
    done: Receiver<io::Result<Ticket>>,
    thread: Option<JoinHandle<()>>,
    /// Kept so that the thread's last wake-up is not lost with its waker.
    _waker: Arc<Waker>,
}

impl JournalWriter {
    /// Has a record written; [`Self::next_done`] tells when it is.
    pub(crate) fn write(&self, ticket: Ticket, record: Bytes, sync: bool) {
        self.order(WriteOrder::Write { ticket, record, sync });
    }

    /// Records up to this one may go.
    pub(crate) fn trim(&self, up_to: Ticket) {
        self.order(WriteOrder::Trim { up_to });
    }

    /// The next write that is done, in the order in which they were asked for.
    ///
    /// # Errors
    /// The first failure; nothing is written after it.
    pub(crate) fn next_done(&self) -> io::Result<Option<Ticket>> {
        self.done.try_recv().ok().transpose()
    }

    fn order(&self, order: WriteOrder) {
        if let Some(orders) = &self.orders {
            let _fails_only_after_an_error_was_reported = orders.send(order);
        }
    }
}

impl Drop for JournalWriter {
    /// Waits until everything that was asked for is written.
    fn drop(&mut self) {
        self.orders = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes records has failed");
        }
    }
}

struct JournalWorker {
    journal: Journal,
    results: Sender<io::Result<Ticket>>,
    waker: Arc<Waker>,
}

impl JournalWorker {
    /// Takes all orders that wait, carries them out, syncs once for all of them, and reports.
    fn work(mut self, orders: &Receiver<WriteOrder>) {
        while let Ok(first) = orders.recv() {
            let batch: Vec<_> = std::iter::once(first).chain(orders.try_iter()).collect();
            let result = self.carry_out(&batch);
            let failed = result.is_err();
            let done = batch.iter().filter_map(|order| match order {
                WriteOrder::Write { ticket, .. } => Some(*ticket),
                WriteOrder::Trim { .. } => None,
            });
            match result {
                Ok(()) => done.for_each(|ticket| drop(self.results.send(Ok(ticket)))),
                Err(error) => drop(self.results.send(Err(error))),
            }
            if self.waker.wake().is_err() || failed {
                return;
            }
        }
    }

    fn carry_out(&mut self, batch: &[WriteOrder]) -> io::Result<()> {
        let mut to_sync = false;
        for order in batch {
            match order {
                WriteOrder::Write { ticket, record, sync } => {
                    self.journal.append(*ticket, record)?;
                    to_sync |= sync;
                }
                WriteOrder::Trim { up_to } => self.journal.trim(*up_to)?,
            }
        }
        if to_sync { self.journal.file.sync_data() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
