//! A replica without state joins two that have much of it: what their callers notice, and how long it takes.
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use consort::{GroupName, Service};
use consort_replica::{Options, Pending, Position, Replica, Response, StateMachine};

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;

/// The large state's values, and how many of them are set at a time.
const VALUE: usize = 16 << 10;
const AHEAD: usize = 64;
/// What callers set meanwhile, and how many keys they have.
const SMALL: usize = 100;
const KEYS: u64 = 1_000;
/// How long is measured before and after.
const BESIDE: Duration = Duration::from_secs(20);
/// A state that comes slower than that many bytes a second does not come.
const SLOWEST: u64 = 1 << 20;
/// What the others must keep of their calls.
const KEPT: f64 = 0.9;
/// What may wait for a client that reads, beside what is counted at rest.
const OUTPUT: u64 = 64 << 20;

const BEAT: Beat = Beat { node: 2, every: Duration::from_millis(20), service: Service::Agreed };

/// Values by key.
#[derive(Debug, Default, PartialEq)]
struct Large(BTreeMap<u64, Bytes>);

impl StateMachine for Large {
    type Snapshot = BTreeMap<u64, Bytes>;

    fn apply(&mut self, _at: Position, command: &[u8]) -> Vec<u8> {
        if let Some((key, value)) = command.split_first_chunk() {
            self.0.insert(u64::from_be_bytes(*key), Bytes::copy_from_slice(value));
        }
        Vec::new()
    }

    fn snapshot(&self) -> Self::Snapshot {
        self.0.clone()
    }

    fn write(snapshot: Self::Snapshot, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(snapshot.len() as u64).to_be_bytes())?;
        snapshot.iter().try_for_each(|(key, value)| {
            out.write_all(&[*key, value.len() as u64].map(u64::to_be_bytes).concat())?;
            out.write_all(value)
        })
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let count = number(state)?;
        self.0.clear();
        for _ in 0..count {
            let (key, len) = (number(state)?, number(state)?);
            let mut value = Vec::new();
            if state.take(len).read_to_end(&mut value)? as u64 != len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.0.insert(key, value.into());
        }
        Ok(())
    }
}

fn number(state: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    state.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Who calls without end, at two replicas.
struct Callers {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// What was measured.
struct Measured {
    /// Calls a second before, while it joins, and after.
    rates: [f64; 3],
    took: Duration,
    bytes: u64,
}

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    let all = [0, 1, 2];
    with(site, &Setup { hosts: Hosts::Together, nodes: 3, first: &all, beat: BEAT, protocol: "ring" }, |stage| {
        let group = GroupName::new("large").map_err(text)?;
        let [first, second] = [0, 1].map(|node| replica(stage, node, &group, site.lengths.transfer));
        let (first, second) = (first?, second?);
        let bytes = fill(&first, site.lengths.state)?;
        second.catch_up().wait().map_err(text)?;
        stage.mark(&all);
        let joiner = |stage: &Stage<'_>| replica(stage, 2, &group, site.lengths.transfer);
        let (measured, joiner) = join(stage, joiner, [&first, &second], bytes)?;
        println!("\n{}", measured.table());
        let mut figures = stage.figures(&all, 0);
        figures.budget = AT_REST + OUTPUT;
        let kept = measured.kept();
        figures.wants(kept >= KEPT, || format!("the others kept {:.0} % of their calls", kept * 100.0));
        joiner.catch_up().wait().map_err(text)?;
        let same = [&first, &second].iter().all(|other| joiner.read(|own| other.read(|other| own == other)));
        figures.wants(same, || "the joiner's state is not that of the others".into());
        figures.notes.push(format!("caught up in {:.1} s", measured.took.as_secs_f64()));
        Ok(figures)
    })
}

fn replica(stage: &Stage<'_>, node: usize, group: &GroupName, transfer: Option<u64>) -> Result<Replica<Large>, String> {
    let options = Options::at(&[address(stage.directory, node)]).founders(2);
    let options = transfer.into_iter().fold(options, Options::transfer_rate);
    Replica::start(Large::default(), group, options).map_err(text)
}

/// Sets values until there are so many bytes; returns how many there are.
fn fill(replica: &Replica<Large>, bytes: u64) -> Result<u64, String> {
    let count = bytes.div_ceil(VALUE as u64);
    let mut under_way = VecDeque::new();
    for key in KEYS..KEYS + count {
        under_way.push_back(replica.begin(command(key, VALUE)));
        if under_way.len() == AHEAD {
            settle(&mut under_way)?;
        }
    }
    while !under_way.is_empty() {
        settle(&mut under_way)?;
    }
    Ok(count * VALUE as u64)
}

/// Waits for the answer to the oldest call.
fn settle(under_way: &mut VecDeque<Pending<Response>>) -> Result<(), String> {
    under_way.pop_front().map_or(Ok(()), |pending| pending.wait().map(drop).map_err(text))
}

fn command(key: u64, len: usize) -> Vec<u8> {
    let mut command = key.to_be_bytes().to_vec();
    command.resize(8 + len, key as u8);
    command
}

fn join(
    stage: &mut Stage<'_>,
    joiner: impl FnOnce(&Stage<'_>) -> Result<Replica<Large>, String>,
    others: [&Replica<Large>; 2],
    bytes: u64,
) -> Result<(Measured, Replica<Large>), String> {
    let callers = Callers::start(others);
    stage.pass(Duration::from_secs(1))?;
    let before = callers.rate(stage, BESIDE)?;
    let (began, answered) = (Instant::now(), callers.answered());
    let joiner = joiner(stage)?;
    let done = caught_up(&joiner);
    let deadline = began + Duration::from_secs(30 + bytes / SLOWEST);
    loop {
        stage.pass(Duration::from_millis(10))?;
        match done.try_recv() {
            Ok(caught_up) => break caught_up?,
            Err(TryRecvError::Disconnected) => return Err("the thread of the joiner failed".into()),
            Err(TryRecvError::Empty) if Instant::now() > deadline => {
                return Err(format!(
                    "a replica has not caught up within {:?}: {:?}",
                    began.elapsed(),
                    joiner.waits_for()
                ));
            }
            Err(TryRecvError::Empty) => {}
        }
    }
    let took = began.elapsed();
    let during = (callers.answered() - answered) as f64 / took.as_secs_f64();
    let after = callers.rate(stage, BESIDE)?;
    callers.end()?;
    Ok((Measured { rates: [before, during, after], took, bytes }, joiner))
}

/// Says when a replica has all that was answered before.
fn caught_up(joiner: &Replica<Large>) -> Receiver<Result<(), String>> {
    let (tell, done) = channel();
    let pending = joiner.catch_up();
    thread::spawn(move || tell.send(pending.wait().map_err(text)));
    done
}

impl Callers {
    fn start(replicas: [&Replica<Large>; 2]) -> Self {
        let (over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let threads = replicas.into_iter().map(|replica| {
            let (replica, over, answered) = (replica.clone(), Arc::clone(&over), Arc::clone(&answered));
            thread::spawn(move || call(&replica, &over, &answered))
        });
        let threads = threads.collect();
        Self { over, answered, threads }
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many calls a second are answered.
    fn rate(&self, stage: &mut Stage<'_>, time: Duration) -> Result<f64, String> {
        let (began, before) = (Instant::now(), self.answered());
        stage.pass(time)?;
        Ok((self.answered() - before) as f64 / began.elapsed().as_secs_f64())
    }

    fn end(mut self) -> Result<(), String> {
        self.over.store(true, Ordering::Relaxed);
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        threads.try_for_each(|thread| thread.join().map_err(|_| "a caller failed".to_owned())?)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// One call after the other: more would only show who gets a core.
fn call(replica: &Replica<Large>, over: &AtomicBool, answered: &AtomicU64) -> Result<(), String> {
    for key in (0..KEYS).cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        replica.call(command(key, SMALL)).map_err(text)?;
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Measured {
    /// Which share of their calls the others kept: of the mean before and after, as a host's speed drifts meanwhile.
    fn kept(&self) -> f64 {
        self.rates[1] / self.undisturbed()
    }

    fn undisturbed(&self) -> f64 {
        f64::midpoint(self.rates[0], self.rates[2])
    }

    fn table(&self) -> String {
        let undisturbed = self.undisturbed();
        let (megabytes, seconds) = (self.bytes as f64 / 1e6, self.took.as_secs_f64());
        let head = format!(
            "A replica that lacks {megabytes:.0} MB joins two; a caller at each of these sets values of {SMALL} bytes.\n\
             {:<10} {:>8} {:>8}",
            "", "calls/s", "kept"
        );
        let lines = ["before", "meanwhile", "after"].into_iter().zip(self.rates);
        let all = lines.fold(head, |all, (name, rate)| {
            format!("{all}\n{name:<10} {rate:>8.0} {:>8.1} %", rate / undisturbed * 100.0)
        });
        format!("{all}\ncaught up in {seconds:.1} s: {:.1} MB a second", megabytes / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_was_written_and_one_cut_short_is_refused() {
        let mut large = Large::default();
        (0..5).for_each(|key| drop(large.apply(Position(key), &command(key, 3 * key as usize))));
        assert!(large.apply(Position(6), b"short").is_empty() && large.0.len() == 5);
        let mut bytes = Vec::new();
        Large::write(large.snapshot(), &mut bytes).unwrap();
        let mut other = Large([(9, Bytes::new())].into());
        other.restore(&mut &bytes[..]).unwrap();
        assert_eq!(other, large);
        (0..bytes.len()).for_each(|len| assert!(Large::default().restore(&mut &bytes[..len]).is_err(), "{len}"));
    }

    #[test]
    fn the_share_is_of_the_calls_before_and_after() {
        let measured =
            Measured { rates: [5_200.0, 4_500.0, 4_800.0], took: Duration::from_secs(50), bytes: 1_000_000_000 };
        assert!(measured.kept() >= KEPT);
        let table = measured.table();
        assert!(
            table.contains("meanwhile      4500     90.0 %") && table.ends_with("50.0 s: 20.0 MB a second"),
            "{table}"
        );
    }
}
