use super::map::Map;
use super::sync::{Break, break_rule};
use crate::area::{OwnArea, Theirs};
use crate::ring::{RingReader, RingWriter};
use loom::sync::{Condvar, Mutex};
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// So short that the writer waits for room.
const RING: usize = 2;
const BYTES: [u8; 3] = [7, 8, 9];

/// How the writer waits for room.
#[derive(Clone, Copy, Debug)]
enum Waits {
    ByCounter,
    ByBell,
}

/// What wakes who sleeps; one rings it, another awaits it. It may have been rung for an earlier sleep.
#[derive(Debug, Default)]
struct Signal(Mutex<bool>, Condvar);

impl Signal {
    fn ring(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.lock().unwrap();
        while !std::mem::take(&mut *rung) {
            rung = self.1.wait(rung).unwrap();
        }
    }
}

/// Every order in which one thread writes and another reads, with the rule that each breaks.
fn explore(waits: Waits, writer_breaks: Option<Break>, reader_breaks: Option<Break>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (here, there) = (Map::new(RING), Map::new(RING));
        let theirs = |map: &Map| Arc::new(Theirs { map: map.clone(), is_trusted: false });
        let writer = RingWriter::new(Arc::new(OwnArea(here.clone())), theirs(&there));
        let reader = RingReader::new(Arc::new(OwnArea(there)), theirs(&here));
        let signals = Arc::new([Signal::default(), Signal::default()]);
        let to_writer = Arc::clone(&signals);
        let writing = loom::thread::spawn(move || {
            break_rule(writer_breaks);
            write(writer, waits, &to_writer[0], &to_writer[1]);
        });
        break_rule(reader_breaks);
        read(reader, &signals[1], &signals[0]);
        writing.join().unwrap();
    });
}

fn write(mut writer: RingWriter, waits: Waits, theirs: &Signal, ours: &Signal) {
    let mut sent = 0;
    while sent < BYTES.len() {
        let n = writer.write(&[IoSlice::new(&BYTES[sent..])]).unwrap();
        sent += n;
        if writer.wakes_reader() {
            theirs.ring();
        }
        if n == 0 {
            match waits {
                Waits::ByCounter => writer.sleep(Duration::MAX).unwrap(),
                Waits::ByBell => {
                    if writer.begin_sleep().unwrap() {
                        ours.wait();
                    }
                    writer.end_sleep();
                }
            }
        }
    }
}

fn read(mut reader: RingReader, theirs: &Signal, ours: &Signal) {
    let mut read = Vec::new();
    while read.len() < BYTES.len() {
        let mut bytes = [0; RING];
        let n = reader.read(&mut bytes).unwrap();
        read.extend_from_slice(&bytes[..n]);
        if reader.wakes_writer() {
            theirs.ring();
        }
        if n == 0 && reader.begin_sleep().unwrap() {
            ours.wait();
        }
        reader.end_sleep();
    }
    assert_eq!(read, BYTES);
}

/// What loom says of it.
fn verdict(waits: Waits, writer_breaks: Option<Break>, reader_breaks: Option<Break>) -> String {
    let explored = catch_unwind(AssertUnwindSafe(|| explore(waits, writer_breaks, reader_breaks)));
    let Err(panic) = explored else { return "nothing".into() };
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".into())
}

#[test]
fn no_byte_is_torn_and_no_wake_is_lost_where_the_writer_waits_by_the_counter() {
    explore(Waits::ByCounter, None, None);
}

#[test]
fn no_byte_is_torn_and_no_wake_is_lost_where_both_wait_by_bells() {
    explore(Waits::ByBell, None, None);
}

#[test]
fn each_order_that_is_left_out_by_either_end_is_noticed() {
    let torn = "Causality violation";
    for waits in [Waits::ByCounter, Waits::ByBell] {
        for (rule, expected) in [(Break::Release, torn), (Break::Acquire, torn), (Break::Fence, "deadlock")] {
            for (writer, reader) in [(Some(rule), None), (None, Some(rule))] {
                let said = verdict(waits, writer, reader);
                assert!(
                    said.starts_with(expected),
                    "{waits:?}: writer without {writer:?}, reader without {reader:?}: {said}"
                );
            }
        }
    }
    assert!(verdict(Waits::ByCounter, None, Some(Break::Wake)).starts_with("deadlock"));
}
