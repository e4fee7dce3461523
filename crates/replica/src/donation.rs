//! What a donor sends: written by a thread of its own, taken from it as the receiver acknowledges.
use crate::engine::{Base, Gift};
use crate::frame::Peer;
use crate::gift::{CHUNK, Private, WINDOW, encode};
use crate::machine::StateMachine;
use bytes::{Bytes, BytesMut};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Instant;

/// So many chunks wait to be sent; then the writer waits.
const AHEAD: usize = 4;

/// One gift under way.
#[derive(Debug)]
pub(crate) struct Donation {
    pub peer: Peer,
    ask: u64,
    chunks: Receiver<io::Result<Bytes>>,
    /// The chunk behind, of which it is not known yet whether it is the last.
    ready: Option<Bytes>,
    next: u64,
    acknowledged: u64,
    over: bool,
    /// Since when, how much was sent, and how much may be a second.
    since: Instant,
    sent: u64,
    rate: u64,
}

impl Donation {
    /// Takes the snapshot here, and writes it in a thread. `wake` is called when there is something to send.
    pub fn new<M: StateMachine>(
        peer: Peer,
        gift: &Gift,
        machine: &M,
        rate: u64,
        wake: impl Fn() + Send + 'static,
    ) -> Self {
        let (tell, chunks) = sync_channel(AHEAD);
        let head = encode(gift);
        let snapshot = matches!(gift.base, Base::Snapshot { .. }).then(|| machine.snapshot());
        thread::spawn(move || {
            let mut out = Chunks { tell, bytes: BytesMut::new(), wake };
            let written = out.write_all(&head);
            let written = written.and_then(|()| snapshot.map_or(Ok(()), |snapshot| M::write(snapshot, &mut out)));
            let end = written.map(|()| out.bytes.split().freeze());
            let _ = out.tell.send(end);
            (out.wake)();
        });
        Self {
            peer,
            ask: gift.ask,
            chunks,
            ready: None,
            next: 0,
            acknowledged: 0,
            over: false,
            since: Instant::now(),
            sent: 0,
            rate,
        }
    }

    pub const fn acknowledge(&mut self, ask: u64, next: u64) {
        if ask == self.ask && next > self.acknowledged && next <= self.next {
            self.acknowledged = next;
        }
    }

    /// Whether it has sent as much as it may by now.
    fn is_ahead(&self) -> bool {
        self.sent as f64 > self.since.elapsed().as_secs_f64() * self.rate as f64
    }

    /// The next to send, if it may be sent and is written.
    pub fn next(&mut self) -> io::Result<Option<Private>> {
        if self.over || self.next - self.acknowledged >= WINDOW || self.is_ahead() {
            return Ok(None);
        }
        let (bytes, last) = match self.chunks.try_recv() {
            Ok(chunk) => match self.ready.replace(chunk?) {
                Some(before) => (before, false),
                None => return self.next(),
            },
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => match self.ready.take() {
                Some(last) => (last, true),
                None => return Err(io::Error::other("the snapshot's writer ended before its end")),
            },
        };
        let number = self.next;
        (self.next, self.over) = (number + 1, last);
        self.sent += bytes.len() as u64;
        Ok(Some(Private::Part { ask: self.ask, number, last, bytes }))
    }
}

struct Chunks<W> {
    tell: SyncSender<io::Result<Bytes>>,
    bytes: BytesMut,
    wake: W,
}

impl<W: Fn()> Write for Chunks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(CHUNK - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..take]);
        if self.bytes.len() == CHUNK {
            let full = self.bytes.split().freeze();
            self.tell.send(Ok(full)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            (self.wake)();
        }
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
