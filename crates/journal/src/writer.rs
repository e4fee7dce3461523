//! The helper thread that writes: it takes all that waits, writes it, syncs once, reports, and begins again. Where the disk
//! takes nothing more it keeps what waits, and tries again.
use super::{Journal, lacks_descriptors};
use bytes::Bytes;
use consort_types::{Instant, Ticket};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// After what time a disk that took nothing is tried again.
const AGAIN: Duration = Duration::from_millis(250);

enum WriteOrder {
    Write { ticket: Ticket, record: Bytes, sync: bool },
    Trim { up_to: Ticket },
}

enum Report {
    Done(Ticket),
    /// The disk takes nothing for this reason, and is tried again.
    Waits(io::Error),
    /// It takes what waits again.
    GoesOn,
    /// Nothing is written any more.
    Failed(io::Error),
}

/// Wakes the loop from the helper thread.
#[derive(Clone)]
struct Wake(Arc<dyn Fn() -> io::Result<()> + Send + Sync>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// The loop's end of the helper thread. What waits in it is bounded by the engine, which is notified
/// of each record that is kept.
///
/// To drop it takes until everything that was asked for is written and synced, or cannot be.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    orders: Option<Sender<WriteOrder>>,
    done: Receiver<Report>,
    /// Writes that are not reported as done, and since when they wait.
    waiting: VecDeque<(Ticket, Instant)>,
    /// Why the disk takes nothing now.
    refusal: Option<io::Error>,
    thread: Option<JoinHandle<()>>,
    /// Kept so that the thread's last wake-up is not lost with what wakes.
    _wake: Wake,
}

impl Journal {
    /// Starts the helper thread, which is named `records`. It calls `wake` whenever something is done, or the disk refuses
    /// or fails; then [`JournalWriter::next_done`] says what. Where `wake` fails the thread ends, and writes nothing more.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(self, wake: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> io::Result<JournalWriter> {
        let wake = Wake(Arc::new(wake));
        let (orders, to_do) = channel();
        let (results, done) = channel();
        let path = self.options.directory.clone();
        let queue = Queue { orders: VecDeque::new(), written: Vec::new(), to_sync: false };
        let worker = JournalWorker { journal: self, queue, results, wake: wake.clone(), waits: false };
        let work = move || worker.work(&to_do);
        let thread = std::thread::Builder::new().name("records".to_owned()).spawn(work)?;
        Ok(JournalWriter {
            path,
            orders: Some(orders),
            done,
            waiting: VecDeque::new(),
            refusal: None,
            thread: Some(thread),
            _wake: wake,
        })
    }
}

impl JournalWriter {
    /// The directory of the records.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has a record of at most 64 MiB written, and with `sync` also synced; [`Self::next_done`] returns its ticket when it
    /// is. Tickets go on from those of the records that were found. `now` is what [`Self::waits_since`] returns while this
    /// is the oldest one that waits.
    pub fn write(&mut self, now: Instant, ticket: Ticket, record: Bytes, sync: bool) {
        self.waiting.push_back((ticket, now));
        self.order(WriteOrder::Write { ticket, record, sync });
    }

    /// Records up to this one may go; they go by whole segments, so that some may be found again.
    pub fn trim(&self, up_to: Ticket) {
        self.order(WriteOrder::Trim { up_to });
    }

    /// The next write that is done, in the order in which they were asked for; none where no further one is done yet.
    ///
    /// # Errors
    /// The first failure that trying again does not help against; nothing is written after it.
    pub fn next_done(&mut self) -> io::Result<Option<Ticket>> {
        while let Ok(report) = self.done.try_recv() {
            match report {
                Report::Done(ticket) => {
                    let done = self.waiting.iter().take_while(|(waiting, _)| *waiting <= ticket).count();
                    self.waiting.drain(..done);
                    return Ok(Some(ticket));
                }
                Report::Waits(why) => self.refusal = Some(why),
                Report::GoesOn => self.refusal = None,
                Report::Failed(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Since when the oldest write waits, by the caller's clock, if one does. [`Self::next_done`] brings it up to date.
    pub fn waits_since(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, since)| *since)
    }

    /// Why the disk takes nothing now, if it refuses writes: room has to be made, a limit raised, or files closed. It is
    /// tried again each 250 ms. [`Self::next_done`] brings it up to date.
    pub const fn refusal(&self) -> Option<&io::Error> {
        self.refusal.as_ref()
    }

    fn order(&self, order: WriteOrder) {
        if let Some(orders) = &self.orders {
            let _fails_only_after_an_error_was_reported = orders.send(order);
        }
    }
}

impl Drop for JournalWriter {
    /// Waits until everything that was asked for is written, or cannot be.
    fn drop(&mut self) {
        self.orders = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes records has failed");
        }
    }
}

struct JournalWorker {
    journal: Journal,
    queue: Queue,
    results: Sender<Report>,
    wake: Wake,
    /// The disk has refused what waits.
    waits: bool,
}

/// What is to be done, and what is done and not reported.
struct Queue {
    orders: VecDeque<WriteOrder>,
    written: Vec<Ticket>,
    to_sync: bool,
}

impl JournalWorker {
    /// Takes all orders that wait, carries them out, syncs once for all of them, and reports.
    fn work(mut self, orders: &Receiver<WriteOrder>) {
        while self.take(orders) {
            let outcome = self.carry_out();
            // What is written is synced and reported also where the rest has to wait.
            let outcome = self.finish().and(outcome);
            let failed = self.report(outcome);
            if (self.wake.0)().is_err() || failed {
                return;
            }
        }
        if !self.queue.orders.is_empty() {
            let records = self.queue.orders.len();
            return tracing::error!(records, "the last records are not written: the disk took nothing until the end");
        }
        if let Err(error) = self.journal.close() {
            tracing::error!(%error, "cannot write the last records");
        }
    }

    /// Waits for orders, or until the disk is to be tried again; returns whether to go on.
    fn take(&mut self, orders: &Receiver<WriteOrder>) -> bool {
        let first = if self.waits {
            match orders.recv_timeout(AGAIN) {
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return false,
                Ok(first) => {
                    // More work is no reason to try earlier.
                    std::thread::sleep(AGAIN);
                    Some(first)
                }
            }
        } else {
            match orders.recv() {
                Ok(first) => Some(first),
                Err(_) => return false,
            }
        };
        self.queue.orders.extend(first.into_iter().chain(orders.try_iter()));
        true
    }

    fn carry_out(&mut self) -> io::Result<()> {
        let Queue { orders, written, to_sync } = &mut self.queue;
        self.journal.make_spare();
        loop {
            if let Some(WriteOrder::Trim { up_to }) = orders.front() {
                self.journal.trim(*up_to)?;
                orders.pop_front();
                continue;
            }
            let record = |order: &WriteOrder| match order {
                WriteOrder::Write { record, .. } => Some(record.clone()),
                WriteOrder::Trim { .. } => None,
            };
            let records: Vec<_> = orders.iter().map_while(record).collect();
            if records.is_empty() {
                return Ok(());
            }
            let (n, outcome) = self.journal.append(&records);
            for order in orders.drain(..n) {
                if let WriteOrder::Write { ticket, sync, .. } = order {
                    written.push(ticket);
                    *to_sync |= sync;
                }
            }
            outcome?;
        }
    }

    /// Syncs what is written where that was asked for, and reports it.
    fn finish(&mut self) -> io::Result<()> {
        //= X04
        if self.queue.to_sync {
            self.journal.sync()?;
            self.queue.to_sync = false;
        }
        self.queue.written.drain(..).for_each(|ticket| drop(self.results.send(Report::Done(ticket))));
        Ok(())
    }

    /// Says how the disk took it; returns whether that is the end.
    fn report(&mut self, outcome: io::Result<()>) -> bool {
        let before = self.waits;
        self.waits = !self.journal.lost && outcome.as_ref().is_err_and(may_pass);
        let report = match outcome {
            Ok(()) if before => Report::GoesOn,
            Ok(()) => return false,
            Err(error) if self.waits => Report::Waits(error),
            Err(error) => Report::Failed(error),
        };
        let failed = matches!(report, Report::Failed(_));
        drop(self.results.send(report));
        failed
    }
}

/// Whether trying again may help, because room can be made, a limit raised, or files closed.
fn may_pass(error: &io::Error) -> bool {
    //= X08
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) || lacks_descriptors(error)
}
