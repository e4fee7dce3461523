//! Clients in shared memory.
use super::*;
use crate::rings::{self, EACH};
use consort_shm::{MemoryOffer, RingReader, RingWriter};
use std::os::fd::AsFd;

const RING: usize = 256 << 10;
/// No client of these tests is quiet for longer.
const LONG: Duration = Duration::from_secs(30);

struct Peer {
    stream: UnixStream,
    writer: RingWriter,
    reader: RingReader,
}

impl Bench {
    fn sharing() -> Self {
        let mut bench = Self::new();
        bench.clients.allow_sharing(2 * EACH);
        bench
    }

    /// Connects and says hello with an offer; the daemon's answer is not read yet.
    fn offer(&mut self) -> (UnixStream, ClientId, MemoryOffer) {
        let (stream, id) = self.connect();
        let offer = MemoryOffer::new(RING).unwrap();
        assert_eq!(consort_shm::send(stream.as_fd(), b"hello", offer.file()).unwrap(), 5);
        let heard = self.hear(|heard| bytes_of(heard, id) == 5);
        assert_eq!(all_bytes(&heard), b"hello");
        (stream, id, offer)
    }

    /// A client whose offer was taken.
    fn share(&mut self) -> (Peer, ClientId) {
        let (stream, id, offer) = self.offer();
        let mut answer = [0; 9];
        let (n, file) = consort_shm::receive(stream.as_fd(), &mut answer).unwrap();
        assert_eq!(&answer[..n], [0xff]);
        let (writer, reader) = offer.accept(file.unwrap(), consort_shm::RING_MAX).unwrap();
        (Peer { stream, writer, reader }, id)
    }

    /// Looks and sleeps as the loop does, until there is something to do.
    fn rest(&mut self) {
        self.clients.look();
        let deadline = std::time::Instant::now() + LONG;
        while !self.clients.has_more() {
            assert!(std::time::Instant::now() < deadline, "nobody rang");
            if self.clients.begin_sleep() {
                self.wait();
            }
        }
    }

    /// As [`Bench::hear`], by turns of the loop.
    fn hear_in_turns(&mut self, until: impl Fn(&[(ClientId, ReadOutcome)]) -> bool) -> Vec<(ClientId, ReadOutcome)> {
        let mut heard = Vec::new();
        while !until(&heard) {
            self.rest();
            while self.clients.next_deafened().is_some() {}
            while let Some(id) = self.clients.next_readable() {
                let said = self.clients.read(id, &mut self.counters);
                if !matches!(said, ReadOutcome::Nothing) {
                    heard.push((id, said));
                }
            }
        }
        heard
    }

    /// Writes once to whom it is due.
    fn write(&mut self, id: ClientId, bytes: &[u8]) -> Wrote {
        assert_eq!(self.clients.next_writable(), Some(id));
        self.clients.write(id, &[IoSlice::new(bytes)], &mut self.counters)
    }
}

impl Peer {
    fn send(&mut self, bytes: &[u8]) -> usize {
        let n = self.writer.write(&[IoSlice::new(bytes)]).unwrap();
        if self.writer.wakes_reader() {
            self.stream.write_all(&[0]).unwrap();
        }
        n
    }

    /// Sends all of it, and then goes.
    fn send_all(mut self, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            let end = bytes.len().min(sent + 10_000);
            match self.send(&bytes[sent..end]) {
                0 => self.writer.sleep(Duration::from_secs(10)).unwrap(),
                n => sent += n,
            }
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> usize {
        let n = self.reader.read(into).unwrap();
        if self.reader.wakes_writer() {
            self.stream.write_all(&[0]).unwrap();
        }
        n
    }

    /// Receives so many bytes, and sleeps where there are none.
    fn receive_all(&mut self, len: usize) -> Vec<u8> {
        let (mut read, mut room) = (Vec::new(), vec![0; 50_000]);
        while read.len() < len {
            let n = self.receive(&mut room);
            read.extend_from_slice(&room[..n]);
            if n == 0 && self.reader.begin_sleep().unwrap() {
                assert!(self.stream.read(&mut [0; 64]).unwrap() > 0);
            }
            self.reader.end_sleep();
        }
        read
    }
}

fn ended(heard: &[(ClientId, ReadOutcome)]) -> bool {
    heard.iter().any(|(_, said)| matches!(said, ReadOutcome::Ended))
}

fn all_bytes(heard: &[(ClientId, ReadOutcome)]) -> Vec<u8> {
    let bytes =
        heard.iter().filter_map(|(_, said)| if let ReadOutcome::Bytes(bytes) = said { Some(bytes) } else { None });
    bytes.flatten().copied().collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn a_client_that_was_left_with_unread_bytes_is_heard_after_they_were_read() {
    let mut bench = Bench::sharing();
    let (mut peer, id) = bench.share();
    bench.clients.pause(id);
    peer.send(b"first");
    (0..1_000).for_each(|_| bench.clients.look());
    assert!(bench.clients.begin_sleep());
    bench.clients.resume(id);
    assert_eq!(all_bytes(&bench.hear_in_turns(|heard| bytes_of(heard, id) == 5)), b"first");
    assert!(bench.clients.begin_sleep());
    peer.send(b"second");
    assert_eq!(all_bytes(&bench.hear_in_turns(|heard| bytes_of(heard, id) == 6)), b"second");
}

#[test]
fn what_is_sent_through_memory_is_read_to_the_last_byte_before_the_end() {
    let mut bench = Bench::sharing();
    let (peer, _) = bench.share();
    let sends = std::thread::spawn(move || peer.send_all(&pattern(3_000_000)));
    let heard = bench.hear_in_turns(ended);
    assert!(all_bytes(&heard) == pattern(3_000_000));
    sends.join().unwrap();
    assert_eq!((bench.clients.count(), bench.clients.sharing), (0, 0));
    assert_eq!((bench.counters.clients_shared, bench.counters.clients_not_shared), (1, 0));
    assert_eq!(bench.counters.client_in_bytes, 3_000_005);
}

#[test]
fn what_a_client_in_memory_is_to_read_is_written_as_it_reads_and_nothing_spins_meanwhile() {
    let mut bench = Bench::sharing();
    let (mut peer, first) = bench.share();
    let output = pattern(3_000_000);
    bench.clients.queue_writing(first);
    assert_eq!(bench.write(first, &output), Wrote::Bytes(rings::RING));
    assert_eq!(bench.write(first, &output[rings::RING..]), Wrote::Bytes(0));
    bench.clients.queue_writing(first);
    assert_eq!(bench.clients.next_writable(), None, "a full client waits for room");
    while let Some(id) = bench.clients.next_readable() {
        assert!(matches!(bench.clients.read(id, &mut bench.counters), ReadOutcome::Nothing));
    }
    assert!(bench.clients.begin_sleep() && !bench.clients.has_more(), "nothing is to be done until it reads");
    let reads = std::thread::spawn(move || (peer.receive_all(3_000_000), peer));
    let mut written = rings::RING;
    while written < output.len() {
        bench.rest();
        while let Some(id) = bench.clients.next_readable() {
            assert!(matches!(bench.clients.read(id, &mut bench.counters), ReadOutcome::Nothing));
        }
        while let Some(id) = bench.clients.next_writable() {
            match bench.clients.write(id, &[IoSlice::new(&output[written..])], &mut bench.counters) {
                Wrote::Bytes(n) => written += n,
                Wrote::Ended => panic!("ended"),
            }
        }
    }
    assert!(reads.join().unwrap().0 == output);
    assert_eq!(bench.counters.client_out_bytes, 3_000_000);
}

#[test]
fn a_paused_client_in_memory_is_left_alone_and_lets_the_loop_sleep() {
    let mut bench = Bench::sharing();
    let (mut peer, id) = bench.share();
    bench.clients.pause(id);
    assert_eq!(peer.send(b"later"), 5);
    bench.clients.look();
    assert_eq!(bench.clients.next_readable(), None);
    assert!(bench.clients.begin_sleep() && !bench.clients.has_more());
    bench.clients.resume(id);
    let heard = bench.hear_in_turns(|heard| !heard.is_empty());
    assert_eq!(all_bytes(&heard), b"later");
}

#[test]
fn a_client_that_is_quiet_is_looked_at_no_more_until_it_rings() {
    let mut bench = Bench::sharing();
    let (mut peer, _) = bench.share();
    (0..100).for_each(|_| bench.clients.look());
    assert!(bench.clients.watched.is_empty());
    assert_eq!(peer.send(b"again"), 5);
    let heard = bench.hear_in_turns(|heard| !heard.is_empty());
    assert_eq!((all_bytes(&heard), bench.clients.watched.len()), (b"again".to_vec(), 1));
}

#[test]
fn bells_are_rung_for_years_and_none_is_lost() {
    let mut bench = Bench::sharing();
    let (mut peer, _) = bench.share();
    for round in 0..2_000 {
        assert!(bench.clients.begin_sleep() || bench.clients.has_more());
        assert_eq!(peer.send(b"x"), 1, "{round}");
        assert_eq!(all_bytes(&bench.hear_in_turns(|heard| !heard.is_empty())), b"x");
    }
}

#[test]
fn a_dismissed_client_in_memory_reads_its_output_and_the_end() {
    let mut bench = Bench::sharing();
    let (mut peer, id) = bench.share();
    peer.send(b"garbage");
    bench.clients.dismiss(id, NOW);
    assert_eq!(bench.write(id, b"farewell"), Wrote::Bytes(8));
    assert_eq!(bench.write(id, b""), Wrote::Bytes(0));
    assert_eq!(peer.receive_all(8), b"farewell");
    assert_eq!(peer.stream.read(&mut [0; 9]).unwrap(), 0);
    drop(peer);
    let heard = bench.hear_in_turns(|heard| !heard.is_empty());
    assert!(matches!(heard[..], [(who, ReadOutcome::Ended)] if who == id));
    assert_eq!(bench.clients.sharing, 0);
}

/// Rings at whose other end sits an accomplice instead of the daemon: so what they say to the daemon is a lie.
fn lies(offer: MemoryOffer) -> (RingWriter, RingReader, (RingWriter, RingReader)) {
    let accomplice = MemoryOffer::new(RING).unwrap();
    let (file, his) = (offer.file().try_clone_to_owned().unwrap(), accomplice.file().try_clone_to_owned().unwrap());
    let (writer, reader) = offer.accept(his, RING).unwrap();
    (writer, reader, accomplice.accept(file, RING).unwrap())
}

#[test]
fn a_client_that_says_it_wrote_more_than_there_is_room_for_is_closed() {
    let mut bench = Bench::sharing();
    let (_stream, id, offer) = bench.offer();
    let (mut writer, _, (_, mut accomplice)) = lies(offer);
    for _ in 0..2 {
        assert_eq!(writer.write(&[IoSlice::new(&[7; RING])]).unwrap(), RING);
        assert_eq!(accomplice.read(&mut [0; RING]).unwrap(), RING);
    }
    let heard = bench.hear_in_turns(|heard| !heard.is_empty());
    assert!(matches!(heard[..], [(who, ReadOutcome::Ended)] if who == id), "{heard:?}");
    assert_eq!((bench.clients.count(), bench.clients.sharing), (0, 0));
}

#[test]
fn a_client_that_says_it_read_what_was_not_written_is_closed() {
    let mut bench = Bench::sharing();
    let (_stream, id, offer) = bench.offer();
    let (_, mut reader, (mut accomplice, _)) = lies(offer);
    accomplice.write(&[IoSlice::new(&[7; 1000])]).unwrap();
    assert_eq!(reader.read(&mut [0; 1000]).unwrap(), 1000);
    bench.clients.queue_writing(id);
    assert_eq!(bench.write(id, b"news"), Wrote::Bytes(0));
    let heard = bench.hear_in_turns(|heard| !heard.is_empty());
    assert!(matches!(heard[..], [(who, ReadOutcome::Ended)] if who == id), "{heard:?}");
    assert_eq!((bench.clients.count(), bench.clients.sharing), (0, 0));
}

#[test]
fn who_gets_no_memory_or_brings_none_that_is_fit_stays_at_its_socket() {
    let mut bench = Bench::sharing();
    let two = [bench.share(), bench.share()];
    let (mut late, id, _) = bench.offer();
    assert_eq!(bench.counters.clients_not_shared, 1);
    bench.clients.queue_writing(id);
    assert_eq!(bench.write(id, b"news"), Wrote::Bytes(4));
    let mut bytes = [0; 4];
    late.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"news");
    drop(two);
    bench.hear_in_turns(|heard| heard.len() == 2);
    let (mut odd, id) = bench.connect();
    consort_shm::send(odd.as_fd(), b"hello", odd.as_fd()).unwrap();
    bench.hear_in_turns(|heard| bytes_of(heard, id) == 5);
    assert_eq!((bench.counters.clients_not_shared, bench.clients.sharing), (2, 0));
    odd.write_all(b"more").unwrap();
    bench.hear_in_turns(|heard| bytes_of(heard, id) == 4);
    assert_eq!(bench.share().0.send(b"there is memory again"), 21);
}
