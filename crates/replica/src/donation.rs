//! What a donor sends: written by a thread of its own, one chunk under way, at a rate.
use crate::engine::{Base, Gift};
use crate::frame::Peer;
use crate::gift::{Private, encode};
use crate::machine::StateMachine;
use bytes::{Bytes, BytesMut};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// So many chunks wait to be sent; then the writer waits.
const AHEAD: usize = 4;

/// Bytes, and whether they are the last.
type Chunk = (Bytes, bool);

/// One gift under way.
#[derive(Debug)]
pub(crate) struct Donation {
    pub peer: Peer,
    ask: u64,
    chunks: Receiver<io::Result<Chunk>>,
    next: u64,
    acknowledged: u64,
    over: bool,
    /// From one chunk to the next, and when that may be sent.
    pause: Duration,
    due: Instant,
}

impl Donation {
    /// Takes the snapshot here, and writes it in a thread, in chunks of so many bytes, of which `rate` go a second. `wake`
    /// is called when there is something to send.
    pub fn new<M: StateMachine>(
        peer: Peer,
        gift: &Gift,
        machine: &M,
        (chunk, rate): (usize, u64),
        wake: impl Fn() + Send + 'static,
    ) -> Self {
        let (tell, chunks) = sync_channel(AHEAD);
        let head = encode(gift);
        let snapshot = matches!(gift.base, Base::Snapshot { .. }).then(|| machine.snapshot());
        thread::spawn(move || {
            let mut out = Chunks { tell, chunk, bytes: BytesMut::new(), wake };
            let written = out.write_all(&head);
            let written = written.and_then(|()| snapshot.map_or(Ok(()), |snapshot| M::write(snapshot, &mut out)));
            let end = written.map(|()| (out.bytes.split().freeze(), true));
            let Chunks { tell, wake, .. } = out;
            let _ = tell.send(end);
            wake();
        });
        Self {
            peer,
            ask: gift.ask,
            chunks,
            next: 0,
            acknowledged: 0,
            over: false,
            pause: Duration::from_secs_f64(chunk as f64 / rate as f64),
            due: Instant::now(),
        }
    }

    pub const fn acknowledge(&mut self, ask: u64, next: u64) {
        if ask == self.ask && next > self.acknowledged && next <= self.next {
            self.acknowledged = next;
        }
    }

    /// How long until the next may be sent, if it is written by then; `None` while one is under way.
    pub fn rests(&self, now: Instant) -> Option<Duration> {
        (!self.over && self.next == self.acknowledged).then(|| self.due.saturating_duration_since(now))
    }

    /// The next to send, if it may be sent and is written.
    pub fn next(&mut self, now: Instant) -> io::Result<Option<Private>> {
        if self.rests(now) != Some(Duration::ZERO) {
            return Ok(None);
        }
        let (bytes, last) = match self.chunks.try_recv() {
            Ok(chunk) => chunk?,
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("the snapshot's writer has panicked")),
        };
        let number = self.next;
        (self.next, self.over) = (number + 1, last);
        self.due = now + self.pause;
        Ok(Some(Private::Part { ask: self.ask, number, last, bytes }))
    }
}

struct Chunks<W> {
    tell: SyncSender<io::Result<Chunk>>,
    chunk: usize,
    bytes: BytesMut,
    wake: W,
}

impl<W: Fn()> Write for Chunks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(self.chunk - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..take]);
        if self.bytes.len() == self.chunk {
            let full = self.bytes.split().freeze();
            self.tell.send(Ok((full, false))).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            (self.wake)();
        }
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::machine::Position;
    use consort::ClientId;
    use consort_types::MemberId;
    use std::io::Read;
    use std::sync::mpsc::channel;

    const PEER: Peer = (MemberId::new(1, 1), ClientId(1));
    const ASK: u64 = 3;

    struct Zeros(usize);

    impl StateMachine for Zeros {
        type Snapshot = usize;

        fn apply(&mut self, _at: Position, _command: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn snapshot(&self) -> usize {
            self.0
        }

        fn write(len: usize, out: &mut dyn Write) -> io::Result<()> {
            out.write_all(&vec![0; len])
        }

        fn restore(&mut self, _state: &mut dyn Read) -> io::Result<()> {
            Ok(())
        }
    }

    fn gift() -> Gift {
        let (line, base) = (Line::default(), Base::Snapshot { parted: false });
        let (bound, asks, seen) = Default::default();
        Gift { ask: ASK, covers: 0, base, line, bound, asks, seen, claim: None }
    }

    /// A donation, and what is heard when its writer wakes.
    fn donation(chunk: usize, rate: u64) -> (Donation, Receiver<()>) {
        let (wake, woken) = channel();
        let wake = move || wake.send(()).unwrap_or_default();
        (Donation::new(PEER, &gift(), &Zeros(10_000), (chunk, rate), wake), woken)
    }

    /// The next chunk, which may be sent at this time, once its writer wakes.
    fn take((donation, woken): &mut (Donation, Receiver<()>), now: Instant) -> (Bytes, bool) {
        assert_eq!(donation.rests(now), Some(Duration::ZERO));
        loop {
            match donation.next(now).unwrap() {
                Some(Private::Part { bytes, last, .. }) => return (bytes, last),
                Some(other) => panic!("{other:?}"),
                None => woken.recv().unwrap(),
            }
        }
    }

    #[test]
    fn the_next_chunk_waits_for_the_one_before_and_for_its_time() {
        let mut both = donation(1_000, 100_000);
        let (pause, mut now, mut number, mut sum) = (Duration::from_millis(10), Instant::now(), 0, 0);
        loop {
            let (bytes, last) = take(&mut both, now);
            let donation = &mut both.0;
            sum += bytes.len();
            if last {
                break;
            }
            number += 1;
            assert_eq!(bytes.len(), 1_000);
            assert_eq!(donation.next(now + pause).unwrap(), None, "one is under way");
            donation.acknowledge(ASK + 1, number);
            donation.acknowledge(ASK, number + 1);
            assert_eq!(donation.rests(now), None, "that was another");
            donation.acknowledge(ASK, number);
            assert_eq!(donation.rests(now + pause / 2), Some(pause / 2));
            assert_eq!(donation.next(now + pause / 2).unwrap(), None);
            now += pause;
        }
        assert!(number >= 10 && sum > 10_000, "{number} chunks, {sum} bytes");
        both.0.acknowledge(ASK, number + 1);
        assert_eq!(both.0.rests(now), None, "nothing follows");
    }

    struct Panics;

    impl StateMachine for Panics {
        type Snapshot = ();

        fn apply(&mut self, _at: Position, _command: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn snapshot(&self) {}

        fn write((): (), out: &mut dyn Write) -> io::Result<()> {
            out.write_all(&[0; 2_000])?;
            panic!("a machine of a test does not write its end");
        }

        fn restore(&mut self, _state: &mut dyn Read) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_state_whose_writer_panics_has_no_last_chunk() {
        let mut donation = Donation::new(PEER, &gift(), &Panics, (1_000, 1 << 30), || ());
        let mut number = 0;
        let error = loop {
            match donation.next(Instant::now()) {
                Ok(Some(Private::Part { last, .. })) => {
                    assert!(!last);
                    number += 1;
                    donation.acknowledge(ASK, number);
                }
                Ok(_) => thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(number > 0 && error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn a_chunk_fits_into_a_message_of_the_daemons() {
        for message_max in [0, 19, 1_000, 1 << 20] {
            let chunk = crate::gift::chunk_of(message_max);
            let part = Private::Part { ask: 1, number: 1, last: true, bytes: vec![0; chunk].into() };
            assert!(part.encode().len() <= message_max.max(19) && chunk <= 128 << 10, "{message_max}");
        }
    }
}
