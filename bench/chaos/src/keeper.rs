//! `consort-chaos keeper`: a replica of registers as a process of its own, with callers, which trials stop and kill. It prints
//! each call twice: before it is made, as one of unknown outcome, and once it is answered. Where its input ends each
//! register is read a last time, and so does the process.
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use consort::{Address, ConnectOptions, GroupName, SessionOptions};
use consort_replica::{Error, Options, Position, Replica, StateMachine};
use consort_types::{Instant, Rng};
use rustix::time::{ClockId, clock_gettime};

use crate::chaos::options::{READS, one_of};
use crate::chaos::registers::operation::{Answer, Call, KEYS, Operation, Request, Value};
use crate::chaos::registers::{GROUP, Reads, Registers};

/// So many of them begin the history: a majority of all, so that none begins one by itself.
pub const FOUNDERS: usize = 3;
/// How many call in each, the last reader among them.
const CALLERS: u64 = 3;
/// How long a caller thinks between an answer and the next call, in the mean, in seconds.
const THINKS: f64 = 0.02;
/// Commands between two checkpoints.
const CHECKPOINT_EVERY: u64 = 500;
/// How often it says what it waits for.
const LONG: Duration = Duration::from_secs(15);
/// How long its daemons may be away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The registers as a replicated machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept(Registers);

impl StateMachine for Kept {
    type Snapshot = Registers;

    fn apply(&mut self, _at: Position, command: &[u8]) -> Vec<u8> {
        let call: Option<Call> = std::str::from_utf8(command).ok().and_then(|text| text.parse().ok());
        match call.map(|call| self.0.apply(&call)) {
            Some(Answer::Held(value)) => value.to_be_bytes().into(),
            Some(Answer::Done) | None => Vec::new(),
        }
    }

    fn snapshot(&self) -> Registers {
        self.0
    }

    fn write(snapshot: Registers, out: &mut dyn Write) -> io::Result<()> {
        (0..KEYS).try_for_each(|key| out.write_all(&snapshot.value(key).to_be_bytes()))
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let mut values = [Value::default(); KEYS];
        for value in &mut values {
            let mut bytes = [0; 8];
            state.read_exact(&mut bytes)?;
            *value = Value::from_be_bytes(bytes);
        }
        self.0 = Registers::of(values);
        Ok(())
    }
}

/// Runs the task with its number, its directory, how it reads, and the addresses of daemons.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(&words.into_iter().collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keeper: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[OsString]) -> Result<(), Box<dyn std::error::Error>> {
    let [number, directory, reads, addresses @ ..] = words else {
        return Err("it needs three words and daemons".into());
    };
    let number: u64 = number.to_string_lossy().parse()?;
    let reads = one_of(("reads", "no keeper reads"), reads, &READS)?;
    let daemons = addresses.iter().map(|address| address.to_string_lossy().parse());
    let daemons = daemons.collect::<Result<Vec<Address>, _>>()?;
    let connect = ConnectOptions::default().without_shared_memory();
    let session = SessionOptions::default().connect(connect).reconnect_within(PATIENCE);
    let options = Options::at(&daemons).session(session).founders(FOUNDERS);
    let options = options.checkpoints(PathBuf::from(directory)).checkpoint_every(CHECKPOINT_EVERY);
    let replica = Replica::start(Kept::default(), &GroupName::new(GROUP)?, options)?;
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let waiting = replica.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(LONG);
            waiting
                .waits_for()
                .into_iter()
                .for_each(|why| eprintln!("keeper {number} waits at {:?}: {why}", waiting.position()));
        }
    });
    thread::spawn(move || {
        // Whoever started it closes its input, or has ended.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ends.store(true, Ordering::Relaxed);
    });
    thread::scope(|scope| {
        let callers = [0, 1].map(|which| {
            let (mut caller, over) = (Caller::new(number, which, reads, &replica), &over);
            scope.spawn(move || caller.live(over))
        });
        callers.into_iter().try_for_each(|caller| caller.join().map_err(|_| "a caller panicked".to_owned())?)
    })?;
    let mut last = Caller::new(number, 2, Reads::Ordered, &replica);
    (0..KEYS).try_for_each(|key| last.call(key, Request::Read))?;
    Ok(replica.stop()?)
}

/// Who calls, one call after the other.
struct Caller<'a> {
    number: u64,
    reads: Reads,
    replica: &'a Replica<Kept>,
    count: u64,
    rng: Rng,
}

impl<'a> Caller<'a> {
    fn new(keeper: u64, which: u64, reads: Reads, replica: &'a Replica<Kept>) -> Self {
        let number = keeper * CALLERS + which;
        Self { number, reads, replica, count: 0, rng: Rng::new(number) }
    }

    fn live(&mut self, over: &AtomicBool) -> Result<(), String> {
        while !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_secs_f64(self.rng.exponential(THINKS)));
            let key = self.rng.below(KEYS as u64) as usize;
            // No two requests write the same.
            let new = ((self.number + 1) << 32) + self.count + 1;
            let request = match self.rng.below(4) {
                0 => Request::Read,
                1 => Request::Write(new),
                _ => Request::CompareAndSet { expected: self.replica.read(|kept| kept.0.value(key)), new },
            };
            if let Err(error) = self.call(key, request) {
                over.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes a call, and says so.
    ///
    /// # Errors
    /// What ended the replica, or an answer that is none.
    fn call(&mut self, key: usize, request: Request) -> Result<(), String> {
        self.count += 1;
        let call = Call { caller: self.number, number: self.count, key, request };
        let operation = Operation { call, from: now(), outcome: None };
        println!("{operation}");
        let answer = match self.answer(&call) {
            Ok(answer) => answer,
            // Once, or never: that is what a call of unknown outcome says.
            Err(Error::Unseen | Error::Outside(_) | Error::Refused(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        println!("{}", Operation { outcome: Some((now(), answer)), ..operation });
        Ok(())
    }

    fn answer(&self, call: &Call) -> Result<Answer, Error> {
        let look = |kept: &Kept| Answer::Held(kept.0.value(call.key));
        match (call.request, self.reads) {
            (Request::Read, Reads::Ordered) => self.replica.read_latest(look),
            (Request::Read, Reads::Local) => Ok(self.replica.read(look)),
            _ => {
                let bytes = self.replica.call(call.to_string())?.bytes;
                Ok(bytes.try_into().map_or(Answer::Done, |bytes| Answer::Held(Value::from_be_bytes(bytes))))
            }
        }
    }
}

/// The time, on a clock that all processes share.
pub fn now() -> Instant {
    let read = clock_gettime(ClockId::Monotonic);
    Instant(read.tv_sec as u64 * 1_000_000_000 + read.tv_nsec as u64)
}

/// A keeper that runs; killed when dropped.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Operation>,
}

impl Keeper {
    /// Starts a process, the one of this number, which keeps its checkpoints there.
    pub fn start(number: u64, directory: &Path, reads: &str, addresses: &[String]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("keeper").arg(number.to_string()).arg(directory).arg(reads).args(addresses);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("a keeper has no standard output"))?;
        let (tell, said) = channel();
        thread::spawn(move || {
            // A line may be cut short where it is killed: the call stays unknown then.
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.filter_map(|line| line.parse().ok()).try_for_each(|operation| tell.send(operation))
        });
        Ok(Self { input: child.stdin.take(), child, said })
    }

    /// What it has said since this was asked last.
    pub fn said(&self) -> impl Iterator<Item = Operation> {
        self.said.try_iter()
    }

    pub fn signal(&self, signal: rustix::process::Signal) -> Result<(), String> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).map_err(|error| format!("a keeper has ended by itself: {error}"))
    }

    /// Kills it; returns all that it had said.
    pub fn kill(mut self) -> Vec<Operation> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.said.iter().collect()
    }

    /// Has it make its last calls, and end.
    pub fn finish(&mut self) {
        self.input = None;
    }

    /// How it has ended; `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_answers_calls_is_what_was_written_and_refuses_what_is_cut_short() {
        let call = |number, request| Call { caller: 1, number, key: 2, request }.to_string().into_bytes();
        let mut kept = Kept::default();
        assert!(kept.apply(Position(1), &call(1, Request::Write(7))).is_empty());
        assert!(kept.apply(Position(2), b"no call").is_empty());
        let set = Request::CompareAndSet { expected: 7, new: 8 };
        assert_eq!(kept.apply(Position(3), &call(2, set)), 7_u64.to_be_bytes());
        let mut bytes = Vec::new();
        Kept::write(kept.snapshot(), &mut bytes).unwrap();
        let mut other = Kept::default();
        other.restore(&mut &bytes[..]).unwrap();
        assert_eq!((other, other.0.value(2)), (kept, 8));
        (0..bytes.len()).for_each(|len| assert!(Kept::default().restore(&mut &bytes[..len]).is_err(), "{len}"));
    }

    #[test]
    fn the_clock_does_not_stand_still() {
        let before = now();
        thread::sleep(Duration::from_millis(1));
        assert!(now() > before);
    }
}
