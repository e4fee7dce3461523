//! The helper thread that writes: it takes all that waits, writes it, syncs once, reports, and begins again.
use super::Journal;
use bytes::Bytes;
use consort_types::Ticket;
use mio::Waker;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

enum WriteOrder {
    Write { ticket: Ticket, record: Bytes, sync: bool },
    Trim { up_to: Ticket },
}

/// The loop's end of the helper thread. What waits in it is bounded by the engine, which is told
/// of each record that is kept.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    pub(crate) path: PathBuf,
    orders: Option<Sender<WriteOrder>>,
    done: Receiver<io::Result<Ticket>>,
    thread: Option<JoinHandle<()>>,
    /// Kept so that the thread's last wake-up is not lost with its waker.
    _waker: Arc<Waker>,
}

impl Journal {
    /// Starts the helper thread; it wakes the loop by `waker` whenever something is done.
    pub(crate) fn start(self, waker: Arc<Waker>) -> io::Result<JournalWriter> {
        let (orders, to_do) = channel();
        let (results, done) = channel();
        let path = self.options.directory.clone();
        let worker = JournalWorker { journal: self, results, waker: Arc::clone(&waker) };
        let work = move || worker.work(&to_do);
        let thread = std::thread::Builder::new().name("records".to_owned()).spawn(work)?;
        Ok(JournalWriter { path, orders: Some(orders), done, thread: Some(thread), _waker: waker })
    }
}

impl JournalWriter {
    /// Has a record written; [`Self::next_done`] tells when it is. Tickets go on from those of the records that were found.
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
            let batch = std::iter::once(first).chain(orders.try_iter()).collect();
            let result = self.carry_out(batch);
            let failed = result.is_err();
            match result {
                Ok(done) => done.into_iter().for_each(|ticket| drop(self.results.send(Ok(ticket)))),
                Err(error) => drop(self.results.send(Err(error))),
            }
            if self.waker.wake().is_err() || failed {
                return;
            }
        }
        if let Err(error) = self.journal.close() {
            tracing::error!(%error, "cannot write the last records");
        }
    }

    /// Returns whose records are kept.
    fn carry_out(&mut self, batch: Vec<WriteOrder>) -> io::Result<Vec<Ticket>> {
        //= X04
        let (mut done, mut records, mut to_sync) = (Vec::new(), Vec::new(), false);
        for order in batch {
            match order {
                WriteOrder::Write { ticket, record, sync } => {
                    done.push(ticket);
                    records.push(record);
                    to_sync |= sync;
                }
                WriteOrder::Trim { up_to } => {
                    self.journal.append(&std::mem::take(&mut records))?;
                    self.journal.trim(up_to)?;
                }
            }
        }
        self.journal.append(&records)?;
        if to_sync {
            self.journal.sync()?;
        }
        Ok(done)
    }
}
