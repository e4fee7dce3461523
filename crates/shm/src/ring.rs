//! Bytes in, bytes out, and who is to be woken.
use crate::area::{OwnArea, Theirs};
use crate::counter::CounterOffset;
use crate::sync::{Ordering, fence};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

/// The other end's counters cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end's {what} counter says {bytes} bytes of a ring of {ring}")]
pub struct Broken {
    /// Which one.
    pub what: &'static str,
    /// What follows from it.
    pub bytes: u32,
    /// The length of the ring.
    pub ring: usize,
}

impl From<Broken> for std::io::Error {
    fn from(broken: Broken) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, broken)
    }
}

/// Writes what the other end reads.
#[derive(Debug)]
pub struct RingWriter {
    own: Arc<OwnArea>,
    theirs: Arc<Theirs>,
    /// What we know ourselves is not read back from where it is told.
    written: u32,
    bell: Bell,
    sleep: Sleep,
}

/// Reads what the other end writes.
#[derive(Debug)]
pub struct RingReader {
    own: Arc<OwnArea>,
    theirs: Arc<Theirs>,
    read: u32,
    bell: Bell,
    sleep: Sleep,
}

/// For which sleep of the other end its bell was rung last.
#[derive(Debug, Default)]
struct Bell(u32);

impl Bell {
    /// How the other end is to be woken, if it sleeps and was not yet.
    fn due(&mut self, theirs: &Theirs, word: CounterOffset) -> Option<Waking> {
        // What we have told stands before our look at whether it sleeps, as its look at what we told stands behind its
        // telling that it sleeps: one of us sees the other.
        fence(Ordering::SeqCst);
        let sleep = theirs.load(word);
        let rung = std::mem::replace(&mut self.0, sleep) == sleep;
        match sleep % 4 {
            1 if !rung => Some(Waking::Bell),
            // A bell that rings before its owner lies down is heard then; a wake finds who sleeps already, or nobody: it
            // is worth nothing if what we told last was known when the sleep began. So each look wakes.
            2 => Some(Waking::Counter),
            _ => None,
        }
    }
}

/// How a sleeper wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waking {
    Bell = 1,
    Counter = 2,
}

/// Our own sleeps.
#[derive(Debug, Default)]
struct Sleep(u32);

impl Sleep {
    fn begin(&mut self, own: &OwnArea, word: CounterOffset, waking: Waking) {
        if self.0.is_multiple_of(4) {
            self.0 |= waking as u32;
            own.store(word, self.0);
        }
        fence(Ordering::SeqCst);
    }

    fn end(&mut self, own: &OwnArea, word: CounterOffset) {
        if !self.0.is_multiple_of(4) {
            self.0 = (self.0 | 3).wrapping_add(1);
            own.store(word, self.0);
        }
    }
}

impl RingWriter {
    pub(crate) fn new(own: Arc<OwnArea>, theirs: Arc<Theirs>) -> Self {
        let written = own.load(CounterOffset::Written);
        Self { own, theirs, written, bell: Bell::default(), sleep: Sleep::default() }
    }

    /// How many bytes the ring takes now.
    ///
    /// # Errors
    /// [`Broken`] where the other end says that it read what was not written.
    pub fn room(&self) -> Result<usize, Broken> {
        let (ring, bytes) = (self.own.ring(), self.written.wrapping_sub(self.theirs.load(CounterOffset::Read)));
        ring.checked_sub(bytes as usize).ok_or(Broken { what: "read", bytes, ring })
    }

    /// Whether the other end has read all that was written.
    ///
    /// # Errors
    /// As [`Self::room`].
    pub fn is_read(&self) -> Result<bool, Broken> {
        Ok(self.room()? == self.own.ring())
    }

    /// Writes the front of these pieces, as far as there is room; returns how many bytes.
    ///
    /// # Errors
    /// As [`Self::room`].
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Broken> {
        let room = self.room()?;
        let mut left = room;
        for piece in pieces {
            let n = piece.len().min(left);
            self.own.put(self.written, &piece[..n]);
            self.written = self.written.wrapping_add(n as u32);
            left -= n;
        }
        self.own.store(CounterOffset::Written, self.written);
        Ok(room - left)
    }

    /// Whether the reader sleeps and the bell is to be rung: to be asked after a write.
    pub fn wakes_reader(&mut self) -> bool {
        self.bell.due(&self.theirs, CounterOffset::ReaderSleeps).is_some()
    }

    /// Says that we sleep until there is room, and want the bell then. Returns whether there is none still; only then may
    /// we.
    ///
    /// # Errors
    /// As [`Self::room`].
    pub fn begin_sleep(&mut self) -> Result<bool, Broken> {
        self.sleep.begin(&self.own, CounterOffset::WriterSleeps, Waking::Bell);
        Ok(self.room()? == 0)
    }

    /// We sleep no more.
    pub fn end_sleep(&mut self) {
        self.sleep.end(&self.own, CounterOffset::WriterSleeps);
    }

    /// Sleeps until there is room, at most that long, without a bell: for a thread that leaves the socket to another.
    ///
    /// # Errors
    /// As [`Self::room`].
    pub fn sleep(&mut self, within: Duration) -> Result<(), Broken> {
        let seen = self.theirs.load(CounterOffset::Read);
        self.sleep.begin(&self.own, CounterOffset::WriterSleeps, Waking::Counter);
        let none = self.room().map(|room| room == 0);
        if none == Ok(true) {
            self.theirs.wait(CounterOffset::Read, seen, within);
        }
        self.end_sleep();
        none.map(drop)
    }
}

impl RingReader {
    pub(crate) fn new(own: Arc<OwnArea>, theirs: Arc<Theirs>) -> Self {
        let read = own.load(CounterOffset::Read);
        Self { own, theirs, read, bell: Bell::default(), sleep: Sleep::default() }
    }

    /// How many bytes wait.
    ///
    /// # Errors
    /// [`Broken`] where the other end says that it wrote more than its ring has room for.
    pub fn waiting(&self) -> Result<usize, Broken> {
        let (ring, bytes) = (self.theirs.ring(), self.theirs.load(CounterOffset::Written).wrapping_sub(self.read));
        if bytes as usize <= ring { Ok(bytes as usize) } else { Err(Broken { what: "written", bytes, ring }) }
    }

    /// Reads into the front of `into` what there is; returns how many bytes.
    ///
    /// # Errors
    /// As [`Self::waiting`].
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let n = self.waiting()?.min(into.len());
        if n > 0 {
            self.theirs.get(self.read, &mut into[..n]);
            self.read = self.read.wrapping_add(n as u32);
            self.own.store(CounterOffset::Read, self.read);
        }
        Ok(n)
    }

    /// Whether bytes can be read where they lie: the other end is a process of our own user, or root's.
    pub fn reads_in_place(&self) -> bool {
        self.theirs.bytes(self.read, 0).is_some()
    }

    /// The bytes that wait, all in one piece where they lie. None at all where [`Self::reads_in_place`] is false.
    ///
    /// # Errors
    /// As [`Self::waiting`].
    pub fn view(&self) -> Result<&[u8], Broken> {
        Ok(self.theirs.bytes(self.read, self.waiting()?).unwrap_or_default())
    }

    /// The first `n` bytes of those that wait are read; all of them, if there are fewer.
    ///
    /// # Errors
    /// As [`Self::waiting`].
    pub fn pass(&mut self, n: usize) -> Result<(), Broken> {
        let n = self.waiting()?.min(n);
        self.read = self.read.wrapping_add(n as u32);
        self.own.store(CounterOffset::Read, self.read);
        Ok(())
    }

    /// Whether the writer sleeps and the bell is to be rung: to be asked after a read. Who sleeps without a bell is woken
    /// here.
    pub fn wakes_writer(&mut self) -> bool {
        let waking = self.bell.due(&self.theirs, CounterOffset::WriterSleeps);
        if waking == Some(Waking::Counter) {
            self.own.wake(CounterOffset::Read);
        }
        waking == Some(Waking::Bell)
    }

    /// Says that we sleep until there are bytes. Returns whether there are none still; only then may we.
    ///
    /// # Errors
    /// As [`Self::waiting`].
    pub fn begin_sleep(&mut self) -> Result<bool, Broken> {
        self.sleep.begin(&self.own, CounterOffset::ReaderSleeps, Waking::Bell);
        Ok(self.waiting()? == 0)
    }

    /// We sleep no more.
    pub fn end_sleep(&mut self) {
        self.sleep.end(&self.own, CounterOffset::ReaderSleeps);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
