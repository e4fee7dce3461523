use super::*;
use crate::offer::{MemoryOffer, RING_MIN};
use consort_types::Rng;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

const RING: usize = RING_MIN;

struct End {
    writer: RingWriter,
    reader: RingReader,
}

/// Two ends with rings of these lengths.
fn pair(here: usize, there: usize) -> (End, End) {
    let (here, there) = (MemoryOffer::new(here).unwrap(), MemoryOffer::new(there).unwrap());
    let (to_here, to_there) = (there.file().try_clone_to_owned().unwrap(), here.file().try_clone_to_owned().unwrap());
    let end = |offer: MemoryOffer, theirs| {
        let (writer, reader) = offer.accept(theirs, usize::MAX).unwrap();
        End { writer, reader }
    };
    (end(here, to_here), end(there, to_there))
}

/// Two ends that got each other's memory through sockets, as processes of one user do.
fn introduced() -> (End, End) {
    let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
    let offers = [MemoryOffer::new(RING).unwrap(), MemoryOffer::new(RING).unwrap()];
    let mut ends = offers.into_iter().zip([(&left, &right), (&right, &left)]).map(|(offer, (own, other))| {
        crate::send(own.as_fd(), b"x", offer.file()).unwrap();
        (offer, other)
    });
    let (here, there) = (ends.next().unwrap(), ends.next().unwrap());
    let end = |offer: MemoryOffer, socket: &std::os::unix::net::UnixStream| {
        let (_, memory) = crate::receive(socket.as_fd(), &mut [0]).unwrap();
        let (writer, reader) = offer.accept(memory.unwrap(), RING).unwrap();
        End { writer, reader }
    };
    (end(here.0, &left), end(there.0, &right))
}

#[test]
fn what_waits_is_seen_in_one_piece_where_it_lies_also_where_the_ring_begins_again() {
    let (mut here, mut there) = introduced();
    assert!(there.reader.reads_in_place());
    let mut rng = Rng::new(3);
    let (mut written, mut passed) = (0u32, 0u32);
    let byte = |at: u32| (at % 251) as u8;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..rng.below(3_000) as u32).map(|at| byte(written + at)).collect();
        written += write(&mut here, &bytes) as u32;
        let view = there.reader.view().unwrap();
        assert_eq!(view.len() as u32, written - passed);
        assert!(view.iter().zip(passed..).all(|(seen, at)| *seen == byte(at)));
        let n = rng.below(view.len() as u64 + 1) as u32;
        there.reader.pass(n as usize).unwrap();
        passed += n;
    }
    assert!(passed > 20 * RING as u32);
}

#[test]
fn what_is_looked_at_is_not_written_over_however_much_more_would_come() {
    let (mut here, mut there) = introduced();
    assert_eq!(write(&mut here, &[1; RING]), RING);
    let view = there.reader.view().unwrap();
    assert_eq!(write(&mut here, &[2; RING]), 0);
    assert!(view.len() == RING && view.iter().all(|byte| *byte == 1));
    there.reader.pass(100).unwrap();
    assert_eq!(write(&mut here, &[2; RING]), 100);
    let view = there.reader.view().unwrap();
    assert!(view.len() == RING && view[..RING - 100].iter().all(|byte| *byte == 1));
    there.reader.pass(usize::MAX).unwrap();
    assert_eq!(there.reader.view().unwrap(), b"");
}

#[test]
fn nothing_is_looked_at_where_it_lies_whose_maker_is_unknown() {
    let (mut here, mut there) = pair(RING, RING);
    write(&mut here, b"bytes");
    assert!(!there.reader.reads_in_place());
    assert_eq!((there.reader.waiting().unwrap(), there.reader.view().unwrap()), (5, &b""[..]));
    assert_eq!(there.reader.read(&mut [0; 9]).unwrap(), 5);
}

#[test]
fn a_count_that_cannot_be_true_shows_nothing() {
    let (here, mut there) = introduced();
    here.writer.own.store(CounterOffset::Written, RING as u32 + 1);
    assert!(there.reader.view().is_err() && there.reader.pass(1).is_err());
    here.writer.own.store(CounterOffset::Written, RING as u32);
    assert_eq!(there.reader.view().unwrap().len(), RING);
}

/// An end whose counters stand shortly before they begin again from zero.
fn late_pair() -> (End, End) {
    let (mut here, mut there) = pair(RING, RING);
    let late = u32::MAX - 1_000;
    here.writer.written = late;
    there.reader.read = late;
    here.writer.own.store(CounterOffset::Written, late);
    there.reader.own.store(CounterOffset::Read, late);
    (here, there)
}

fn write(end: &mut End, bytes: &[u8]) -> usize {
    end.writer.write(&[IoSlice::new(bytes)]).unwrap()
}

#[test]
fn whatever_is_written_is_read_in_order_by_any_steps() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (mut here, mut there) = if seed % 2 == 0 { pair(RING, 4 * RING) } else { late_pair() };
        let (mut next, mut expected) = (0u8, VecDeque::new());
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..rng.below(3_000)).map(|i| next.wrapping_add(i as u8)).collect();
            let cut = rng.below(bytes.len() as u64 + 1) as usize;
            let pieces = [IoSlice::new(&bytes[..cut]), IoSlice::new(&bytes[cut..])];
            let n = here.writer.write(&pieces).unwrap();
            assert_eq!(n, bytes.len().min(RING - expected.len()));
            next = next.wrapping_add(n as u8);
            expected.extend(&bytes[..n]);
            assert_eq!(
                (here.writer.room().unwrap(), there.reader.waiting().unwrap()),
                (RING - expected.len(), expected.len())
            );
            let mut into = vec![0; rng.below(3_000) as usize];
            let n = there.reader.read(&mut into).unwrap();
            assert_eq!(n, into.len().min(expected.len()));
            assert!(into[..n].iter().copied().eq(expected.drain(..n)));
        }
    }
}

#[test]
fn the_two_directions_know_nothing_of_each_other() {
    let (mut here, mut there) = pair(RING, 2 * RING);
    assert_eq!(write(&mut here, &[1; 9_000]), RING);
    assert_eq!(write(&mut there, &[2; 9_000]), 2 * RING);
    let mut bytes = [0; 9_000];
    assert_eq!(here.reader.read(&mut bytes).unwrap(), 2 * RING);
    assert!(bytes[..2 * RING].iter().all(|byte| *byte == 2));
    assert_eq!(there.reader.read(&mut bytes).unwrap(), RING);
    assert!(bytes[..RING].iter().all(|byte| *byte == 1));
}

#[test]
fn a_sleeper_is_woken_once_for_each_sleep_and_only_when_there_is_something() {
    let (mut here, mut there) = pair(RING, RING);
    write(&mut here, b"a");
    assert!(!here.writer.wakes_reader(), "nobody sleeps");
    assert!(!there.reader.begin_sleep().unwrap(), "something came before");
    write(&mut here, b"b");
    assert!(here.writer.wakes_reader() && !here.writer.wakes_reader());
    there.reader.end_sleep();
    write(&mut here, b"c");
    assert!(!here.writer.wakes_reader());
    there.reader.read(&mut [0; 3]).unwrap();
    assert!(there.reader.begin_sleep().unwrap());
    assert!(there.reader.begin_sleep().unwrap());
    write(&mut here, b"d");
    assert!(here.writer.wakes_reader() && !here.writer.wakes_reader());

    write(&mut here, &[0; RING]);
    assert!(!there.reader.wakes_writer());
    assert!(here.writer.begin_sleep().unwrap());
    there.reader.read(&mut [0]).unwrap();
    assert!(there.reader.wakes_writer() && !there.reader.wakes_writer());
    assert!(!here.writer.begin_sleep().unwrap());
}

#[test]
fn counters_that_cannot_be_true_are_told_and_nothing_panics() {
    let mut rng = Rng::new(9);
    let (mut here, there) = pair(RING, RING);
    let mut broken = 0;
    for _ in 0..20_000 {
        let near = there.reader.read.wrapping_add(rng.below(3 * RING as u64) as u32).wrapping_sub(RING as u32);
        let value = if rng.below(2) == 0 { near } else { rng.next_u64() as u32 };
        let word = [
            CounterOffset::Written,
            CounterOffset::Read,
            CounterOffset::ReaderSleeps,
            CounterOffset::WriterSleeps,
            CounterOffset::Magic,
        ][rng.below(5) as usize];
        // What `there` says is garbage; `here` must bear it.
        there.writer.own.store(word, value);
        let waiting = value.wrapping_sub(here.reader.read) as usize;
        if let CounterOffset::Written = word {
            assert_eq!(here.reader.waiting().is_err(), waiting > RING);
        }
        broken += u32::from(here.reader.read(&mut [0; 500]).is_err());
        let room = here.writer.write(&[IoSlice::new(&[7; 500])]);
        assert!(room.is_ok_and(|n| n <= 500) || here.writer.room().is_err());
        here.writer.wakes_reader();
        here.reader.wakes_writer();
        let _ = (here.writer.begin_sleep(), here.reader.begin_sleep());
        here.writer.end_sleep();
        here.reader.end_sleep();
    }
    assert!(broken > 1_000);
    let error = std::io::Error::from(Broken { what: "read", bytes: 5_000, ring: RING });
    assert_eq!(error.to_string(), "the other end's read counter says 5000 bytes of a ring of 4096");
}

#[test]
fn bytes_that_change_while_they_are_read_are_some_bytes() {
    let (mut here, there) = pair(RING, RING);
    there.writer.own.put(0, &[1; RING]);
    there.writer.own.store(CounterOffset::Written, RING as u32);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                there.writer.own.put(0, &[2; RING]);
                there.writer.own.put(0, &[1; RING]);
                there.writer.own.store(CounterOffset::Written, here_read(&there).wrapping_add(RING as u32));
            }
        });
        let mut bytes = [0; RING];
        for _ in 0..10_000 {
            let n = here.reader.read(&mut bytes).unwrap();
            let copied = bytes;
            assert!(copied[..n].iter().all(|byte| matches!(byte, 1 | 2)));
            assert_eq!(copied, bytes);
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn here_read(there: &End) -> u32 {
    there.writer.theirs.load(CounterOffset::Read)
}

#[test]
fn a_wake_that_comes_before_a_sleep_by_the_counter_is_not_the_last() {
    let (mut here, mut there) = pair(RING, RING);
    assert_eq!(write(&mut here, &[1; RING + 1]), RING);
    // The writer lies down, knowing all that was read. The reader looks late, and sees it; the wake finds nobody yet.
    here.writer.sleep.begin(&here.writer.own, CounterOffset::WriterSleeps, Waking::Counter);
    assert!(!there.reader.wakes_writer());
    there.reader.read(&mut [0; 100]).unwrap();
    assert_eq!(there.reader.bell.due(&there.reader.theirs, CounterOffset::WriterSleeps), Some(Waking::Counter));
    here.writer.end_sleep();
    assert_eq!(there.reader.bell.due(&there.reader.theirs, CounterOffset::WriterSleeps), None);
}

/// Says so when the test's reader is gone, be it by a failed assertion: the writer would wait for it for ever.
struct Gone<'a>(&'a AtomicBool);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_threads_that_sleep_by_the_counter_and_by_a_bell_lose_no_wake() {
    let (mut here, mut there) = pair(RING, RING);
    let (bell, rung) = std::sync::mpsc::channel();
    const TOTAL: usize = 3_000_000;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            let bytes: Vec<u8> = (0..=255).cycle().take(7_000).collect();
            let mut sent = 0;
            while sent < TOTAL {
                let n = 1 + sent * 7 % 3_000;
                let from = sent % 256;
                let n = write(&mut here, &bytes[from..from + n.min(TOTAL - sent)]);
                sent += n;
                if here.writer.wakes_reader() {
                    bell.send(()).unwrap();
                }
                if n == 0 {
                    here.writer.sleep(Duration::from_secs(60)).unwrap();
                    assert!(!over.load(Ordering::Relaxed), "the reader gave up");
                }
            }
        });
        let _gone = Gone(over);
        let mut bytes = [0; 2_000];
        let mut read = 0;
        while read < TOTAL {
            let n = there.reader.read(&mut bytes).unwrap();
            assert!(bytes[..n].iter().enumerate().all(|(i, byte)| usize::from(*byte) == (read + i) % 256));
            read += n;
            assert!(!there.reader.wakes_writer(), "no bell is wanted for room");
            if n == 0 && there.reader.begin_sleep().unwrap() {
                rung.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            there.reader.end_sleep();
        }
    });
}
