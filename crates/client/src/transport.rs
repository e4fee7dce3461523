//! The ways on which bytes go: a socket, or memory that is shared with a daemon on this machine.
use crate::stream::{DaemonStream, until};
use consort_shm::{MemoryFile, MemoryOffer, RingReader, RingWriter};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How many bytes may wait in shared memory for the daemon: all that credit allows, and a little more.
const RING: usize = 256 << 10;
/// The largest ring that a daemon may bring.
const RING_MAX: usize = 16 << 20;
/// With what a daemon takes an offer; no frame begins so.
const TAKEN: u8 = 0xff;
/// How long a writer sleeps before it looks whether the daemon is there still.
const NAP: Duration = Duration::from_millis(10);

/// Memory for a daemon at a Unix socket. Where there is none, the socket does.
pub(crate) fn offer() -> Option<MemoryOffer> {
    MemoryOffer::new(RING).ok()
}

/// Takes the daemon's answer to an offer, its first bytes: both rings, if it takes the offer, else nothing.
pub(crate) fn answered(
    offer: MemoryOffer,
    first: &[u8],
    memory: Option<MemoryFile>,
) -> io::Result<Option<(RingWriter, RingReader)>> {
    if first.first() != Some(&TAKEN) {
        return Ok(None);
    }
    let memory =
        memory.ok_or_else(|| io::Error::other("no descriptor was left for the memory that the daemon shares"))?;
    let unfit = |why| io::Error::other(format!("the memory that the daemon shares is of no use: {why}"));
    offer.accept(memory, RING_MAX).map(Some).map_err(unfit)
}

/// What comes from the daemon.
#[derive(Debug)]
pub(crate) struct TransportReader {
    stream: DaemonStream,
    stage: TransportStage,
    /// The other direction, until somebody takes it.
    writer: Option<RingWriter>,
}

#[derive(Debug)]
enum TransportStage {
    Socket,
    /// The daemon has not said yet whether it takes the offer.
    Offered(MemoryOffer),
    Memory(RingReader),
    /// The daemon's end was heard: what it wrote before is still to be read.
    Ended(RingReader),
}

impl TransportReader {
    pub(crate) fn new(stream: DaemonStream, offer: Option<MemoryOffer>) -> Self {
        Self { stream, stage: offer.map_or(TransportStage::Socket, TransportStage::Offered), writer: None }
    }

    /// The way back, once the daemon has spoken.
    pub(crate) fn outgoing(&mut self, stream: DaemonStream) -> TransportWriter {
        TransportWriter { stream, memory: self.writer.take(), stuck: 0 }
    }

    /// Reads what there is; nothing if nothing came in time. With no time at all it only looks.
    pub(crate) fn read(&mut self, into: &mut [u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        match std::mem::replace(&mut self.stage, TransportStage::Socket) {
            TransportStage::Socket => self.stream.read(into, within),
            TransportStage::Offered(offer) => self.read_first(offer, into, within),
            TransportStage::Memory(mut reader) => {
                let read = read_memory(&mut reader, &self.stream, into, within);
                let ended = matches!(read, Ok(MemoryRead::Ended));
                self.stage = if ended { TransportStage::Ended(reader) } else { TransportStage::Memory(reader) };
                match read? {
                    MemoryRead::Bytes(n) => Ok(Some(n)),
                    MemoryRead::Nothing => Ok(None),
                    MemoryRead::Ended => self.read(into, within),
                }
            }
            TransportStage::Ended(mut reader) => {
                let read = reader.read(into);
                self.stage = TransportStage::Ended(reader);
                Ok(Some(read?))
            }
        }
    }

    /// What can be waited at, where all that comes comes through the socket.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        matches!(self.stage, TransportStage::Socket).then(|| self.stream.descriptor())
    }

    /// Whether what comes can be looked at where it lies.
    pub(crate) fn reads_in_place(&self) -> bool {
        matches!(&self.stage, TransportStage::Memory(reader) | TransportStage::Ended(reader) if reader.reads_in_place())
    }

    /// Waits until there is something to look at. False if nothing came in time; at the end there is nothing, but that is
    /// true.
    pub(crate) fn await_bytes(&mut self, within: Option<Duration>) -> io::Result<bool> {
        match std::mem::replace(&mut self.stage, TransportStage::Socket) {
            TransportStage::Memory(mut reader) => {
                let waited = await_memory(&mut reader, &self.stream, within);
                let ended = matches!(waited, Ok(MemoryWait::Ended));
                self.stage = if ended { TransportStage::Ended(reader) } else { TransportStage::Memory(reader) };
                waited.map(|waited| !matches!(waited, MemoryWait::Nothing))
            }
            other => {
                self.stage = other;
                Ok(true)
            }
        }
    }

    /// What waits, where it lies.
    pub(crate) fn view(&self) -> io::Result<&[u8]> {
        match &self.stage {
            TransportStage::Memory(reader) | TransportStage::Ended(reader) => Ok(reader.view()?),
            TransportStage::Socket | TransportStage::Offered(_) => Ok(&[]),
        }
    }

    /// The first `n` bytes of what waits are done with.
    pub(crate) fn pass(&mut self, n: usize) -> io::Result<()> {
        if let TransportStage::Memory(reader) | TransportStage::Ended(reader) = &mut self.stage {
            reader.pass(n)?;
            if reader.wakes_writer() {
                self.stream.ring();
            }
        }
        Ok(())
    }

    fn read_first(
        &mut self,
        offer: MemoryOffer,
        into: &mut [u8],
        within: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        let deadline = until(within);
        let Some((n, memory)) = self.stream.read_first(into, within)? else {
            self.stage = TransportStage::Offered(offer);
            return Ok(None);
        };
        let Some((writer, reader)) = answered(offer, &into[..n], memory)? else { return Ok(Some(n)) };
        self.stage = TransportStage::Memory(reader);
        self.writer = Some(writer);
        self.read(into, deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    }
}

/// What reading from memory gave.
enum MemoryRead {
    Bytes(usize),
    /// Nothing came in time.
    Nothing,
    /// The daemon's end was heard.
    Ended,
}

/// What waiting for memory gave.
enum MemoryWait {
    Bytes,
    /// Nothing came in time.
    Nothing,
    /// The daemon's end was heard.
    Ended,
}

/// Reads what there is; waits for it.
fn read_memory(
    reader: &mut RingReader,
    bell: &DaemonStream,
    into: &mut [u8],
    within: Option<Duration>,
) -> io::Result<MemoryRead> {
    match await_memory(reader, bell, within)? {
        MemoryWait::Bytes => {
            let n = reader.read(into)?;
            if reader.wakes_writer() {
                bell.ring();
            }
            Ok(MemoryRead::Bytes(n))
        }
        MemoryWait::Nothing => Ok(MemoryRead::Nothing),
        MemoryWait::Ended => Ok(MemoryRead::Ended),
    }
}

/// Waits until there is something to read.
fn await_memory(reader: &mut RingReader, bell: &DaemonStream, within: Option<Duration>) -> io::Result<MemoryWait> {
    let (deadline, mut left) = (until(within), within);
    loop {
        if reader.waiting()? > 0 {
            return Ok(MemoryWait::Bytes);
        }
        if left.is_some_and(|left| left.is_zero()) || reader.begin_sleep()? {
            let heard = bell.hear(left);
            reader.end_sleep();
            match heard? {
                Some(true) => {}
                Some(false) => return Ok(MemoryWait::Ended),
                None => return Ok(MemoryWait::Nothing),
            }
        }
        left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    }
}

/// Waits until something can be read or written. False if neither came in time.
pub(crate) fn await_either(
    incoming: &mut TransportReader,
    outgoing: &mut TransportWriter,
    within: Option<Duration>,
) -> io::Result<bool> {
    let (TransportStage::Memory(reader), Some(writer)) = (&mut incoming.stage, &mut outgoing.memory) else {
        return incoming.stream.await_either(within);
    };
    let sleeps = reader.begin_sleep()? && writer.begin_sleep()?;
    let heard = if sleeps { incoming.stream.hear(within) } else { Ok(Some(true)) };
    reader.end_sleep();
    writer.end_sleep();
    let heard = heard?;
    if heard == Some(false)
        && let TransportStage::Memory(reader) = std::mem::replace(&mut incoming.stage, TransportStage::Socket)
    {
        incoming.stage = TransportStage::Ended(reader);
    }
    Ok(heard.is_some())
}

/// What goes to the daemon.
#[derive(Debug)]
pub(crate) struct TransportWriter {
    stream: DaemonStream,
    memory: Option<RingWriter>,
    /// How often something was written since the daemon has read everything.
    stuck: u32,
}

impl TransportWriter {
    /// Writes to the memory that the daemon shares what there is room for; to a socket nothing.
    pub(crate) fn write_now(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(writer) = &mut self.memory else { return Ok(0) };
        check_there(writer, &mut self.stuck, || self.stream.is_open())?;
        let n = writer.write(pieces)?;
        if writer.wakes_reader() {
            self.stream.ring();
        }
        Ok(n)
    }

    /// Writes some of `bytes`; nothing if nothing could be written in time.
    pub(crate) fn write(&mut self, bytes: &[u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        let Some(writer) = &mut self.memory else { return self.stream.write(bytes, within) };
        let deadline = until(within);
        loop {
            check_there(writer, &mut self.stuck, || self.stream.is_open())?;
            let n = writer.write(&[IoSlice::new(bytes)])?;
            if writer.wakes_reader() {
                self.stream.ring();
            }
            if n > 0 {
                return Ok(Some(n));
            }
            let left = deadline.map_or(NAP, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            writer.sleep(left.min(NAP))?;
            self.stuck = 0;
        }
    }
}

/// Memory takes what nobody reads: where the daemon is behind, looks whether it is there, ever more rarely.
pub(crate) fn check_there(writer: &RingWriter, stuck: &mut u32, is_open: impl FnOnce() -> bool) -> io::Result<()> {
    if writer.is_read()? {
        *stuck = 0;
        return Ok(());
    }
    *stuck += 1;
    if stuck.is_power_of_two() && !is_open() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
