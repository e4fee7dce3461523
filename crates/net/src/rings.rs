//! A client's bytes through shared memory.
use consort_shm::{Broken, InvalidMemory, MemoryFile, MemoryOffer, RingReader, RingWriter, memory_of};
use mio::net::UnixStream;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;

/// How many bytes may wait in shared memory for a client: all that four others with the usual credit have under way.
pub(crate) const RING: usize = 1 << 20;
/// The largest ring that a client may bring.
const RING_MAX: usize = 256 << 10;
/// How much memory one such client may take.
pub(crate) const EACH: usize = memory_of(RING) + memory_of(RING_MAX);
/// What the daemon says on the socket when it takes an offer; no frame begins so.
const TAKEN: &[u8] = &[0xff];
/// How often the bell may have been rung before its bytes are read.
const RUNG_MAX: u32 = 32;

/// Both rings of a client. Its socket carries bells from here on, and says when it ends.
#[derive(Debug)]
pub(crate) struct Rings {
    writer: RingWriter,
    reader: RingReader,
    /// How often the bell was rung since its bytes were read.
    rung: u32,
    has_ended: bool,
}

/// Why a client's offer is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Declined {
    #[error("shared memory is all in use, or switched off: see shared_memory below [clients]")]
    Budget,
    #[error("the client's memory is invalid: {0}")]
    InvalidMemory(#[from] InvalidMemory),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Rings {
    /// Takes the offer of the client at that socket, and tells it.
    pub(crate) fn open(socket: &UnixStream, theirs: MemoryFile) -> Result<Self, Declined> {
        let offer = MemoryOffer::new(RING)?;
        let file = offer.file().try_clone_to_owned()?;
        let (writer, reader) = offer.accept(theirs, RING_MAX)?;
        consort_shm::send(socket.as_fd(), TAKEN, file.as_fd())?;
        Ok(Self { writer, reader, rung: 0, has_ended: false })
    }

    /// Something happened at the socket. Its bells are read now and then, so that there is always room for another.
    pub(crate) fn event(&mut self, socket: &mut UnixStream, has_ended: bool) {
        self.has_ended |= has_ended;
        self.rung += 1;
        if self.rung >= RUNG_MAX {
            self.rung = 0;
            // Its end is told by an event.
            let _ = socket.read(&mut [0; 256]);
        }
    }

    /// As a socket reads: nothing at the end, and an error where there is nothing yet.
    pub(crate) fn read(&mut self, socket: &mut UnixStream, room: &mut [u8]) -> io::Result<usize> {
        // What was written before the end stands before it.
        let has_ended = self.has_ended;
        let n = self.reader.read(room)?;
        if self.reader.wakes_writer() {
            ring(socket);
        }
        if n > 0 || has_ended { Ok(n) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// As a socket writes: an error where there is no room.
    pub(crate) fn write(&mut self, socket: &mut UnixStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // Whoever tells lies has said all that is heard of it.
        let n = self.writer.write(pieces).inspect_err(|_| self.has_ended = true)?;
        if self.writer.wakes_reader() {
            ring(socket);
        }
        if n > 0 { Ok(n) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// Whether there is something to read, be it the end or an error.
    pub(crate) fn has_bytes(&self) -> bool {
        self.has_ended || self.reader.waiting() != Ok(0)
    }

    /// Whether something can be written, or never again.
    pub(crate) fn has_room(&self) -> bool {
        self.writer.room() != Ok(0)
    }

    /// The client is not looked at until its bell rings: for bytes, and for room. Returns whether neither is there still.
    pub(crate) fn begin_sleep(&mut self, bytes: bool, room: bool) -> bool {
        let still = |empty: Result<bool, Broken>| empty == Ok(true);
        (!bytes || still(self.reader.begin_sleep())) && (!room || still(self.writer.begin_sleep()))
    }

    /// The client is looked at without a bell.
    pub(crate) fn end_sleep(&mut self) {
        self.reader.end_sleep();
        self.writer.end_sleep();
    }
}

/// Wakes the client. Where the socket takes no more, bells enough wait for it.
fn ring(socket: &mut UnixStream) {
    let _ = socket.write(&[0]);
}
