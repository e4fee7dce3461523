//! The connections of a hostile client. It reads what the daemon answers, and only counts it.
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use consort::{Address, GroupName};
use consort_session::frame::Frames;
use consort_types::Rng;

use super::attacks::{Attack, Kind, Source};

/// How long a connection may take, because the attack must end in time.
const DIAL: Duration = Duration::from_millis(20);
/// How long to wait where no connection can be read or written.
const PAUSE: Duration = Duration::from_millis(1);
/// How many bytes are read at once, and how often before the next connection has its turn.
const READ: usize = 64 << 10;
const READS: usize = 4;
/// No daemon sends a larger frame.
const LARGEST: usize = 256 << 20;
/// The frame that refuses a numbered request, and others that are refusals unless their cause is 0: *declared*, *rotated*,
/// *bound*, *no reading* and *not opened*.
const REFUSED: u8 = 0x83;
const OUTCOMES: [u8; 5] = [0xe8, 0xe9, 0xeb, 0xf9, 0xff];

/// What the hostile client got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Connections that it made, and those of them that the daemon closed.
    pub opened: u64,
    pub closed: u64,
    /// Bytes that it sent.
    pub bytes: u64,
    /// Frames that came, and refusals among them.
    pub frames: u64,
    pub refused: u64,
}

/// One attack at one daemon.
#[derive(Clone, Copy, Debug)]
pub struct Raid<'a> {
    pub at: &'a Address,
    pub attack: &'static Attack,
    pub connections: usize,
    /// Groups that exist.
    pub names: &'a [GroupName],
}

/// One connection.
#[derive(Debug)]
struct Line<'a> {
    stream: UnixStream,
    frames: Frames,
    /// What is to be sent next.
    output: BytesMut,
    source: Source<'a>,
}

impl<'a> Raid<'a> {
    /// Sends and reads until it is over. One thread serves all connections: it is faster than the daemon, and does not take
    /// the processor from the good clients as a thread for each connection would.
    ///
    /// # Errors
    /// The daemon sent what is no frame.
    pub fn run(&self, mut rng: Rng, over: &AtomicBool) -> Result<Answers, String> {
        let mut answers = Answers::default();
        let mut lines: Vec<Option<Line<'a>>> = (0..self.connections).map(|_| None).collect();
        let mut room = vec![0; READ];
        while !over.load(Ordering::Relaxed) {
            let mut has_moved = false;
            for line in &mut lines {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                has_moved |= self.turn(line, &mut rng, &mut room, &mut answers)?;
            }
            if !has_moved {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(answers)
    }

    /// One connection reads and writes, or is made again. Whether it could do anything.
    fn turn(
        &self,
        line: &mut Option<Line<'a>>,
        rng: &mut Rng,
        room: &mut [u8],
        answers: &mut Answers,
    ) -> Result<bool, String> {
        let Some(open) = line else {
            *line = self.open(rng, answers);
            return Ok(line.is_some());
        };
        if open.output.is_empty() {
            self.attack.fill(&mut open.source, &mut open.output);
        }
        let exchanged = open.read(room, answers).and_then(|has_read| Ok(open.write(answers)? || has_read));
        match exchanged {
            Ok(has_moved) if self.attack.kind != Kind::Silent => return Ok(has_moved),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(format!("{}: the daemon sent what is no frame: {error}", self.attack.name));
            }
            Err(_) => answers.closed += 1,
        }
        *line = None;
        Ok(true)
    }

    /// Makes a connection. If the daemon accepts none in time, it is tried again in the next turn.
    fn open(&self, rng: &mut Rng, answers: &mut Answers) -> Option<Line<'a>> {
        let stream = UnixStream::from(self.at.dial(DIAL).ok()?);
        stream.set_nonblocking(true).ok()?;
        answers.opened += 1;
        let source = Source::new(rng.fork(answers.opened), self.names);
        Some(Line { stream, frames: Frames::new(LARGEST), output: self.attack.opening(), source })
    }
}

impl Line<'_> {
    /// Reads and counts what has come. Whether anything has.
    fn read(&mut self, room: &mut [u8], answers: &mut Answers) -> io::Result<bool> {
        let mut has_read = false;
        for _ in 0..READS {
            let len = match self.stream.read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if must_wait(&error) => break,
                Err(error) => return Err(error),
            };
            has_read = true;
            self.frames.push(Bytes::copy_from_slice(&room[..len]));
            let malformed = |error: consort_wire::Malformed| io::Error::new(ErrorKind::InvalidData, error.to_string());
            while let Some(head) = self.frames.whole().map_err(malformed)? {
                let body = self.frames.take_body(head);
                answers.note(head.kind, &body);
            }
        }
        Ok(has_read)
    }

    /// Writes as much as the socket takes. Whether it took anything.
    fn write(&mut self, answers: &mut Answers) -> io::Result<bool> {
        if self.output.is_empty() {
            return Ok(false);
        }
        match self.stream.write(&self.output) {
            Ok(len) => {
                answers.bytes += len as u64;
                self.output.advance(len);
                Ok(len > 0)
            }
            Err(error) if must_wait(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn must_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Answers {
    fn note(&mut self, kind: u8, body: &[u8]) {
        let has_cause = OUTCOMES.contains(&kind) && body.first().is_some_and(|cause| *cause != 0);
        self.frames += 1;
        self.refused += u64::from(kind == REFUSED || has_cause);
    }
}

impl Display for Answers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { opened, closed, bytes, frames, refused } = self;
        write!(
            f,
            "{} KiB sent, {refused} refusals in {frames} frames, {closed} of {opened} connections closed",
            bytes >> 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::attacks::ATTACKS;
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn refusals_are_counted_among_what_comes() {
        let mut answers = Answers::default();
        let frames: [(u8, &[u8]); 5] = [(0x83, &[0; 11]), (0x86, &[0; 2]), (0xe8, &[0]), (0xe8, &[2]), (0xff, &[2])];
        frames.iter().for_each(|(kind, body)| answers.note(*kind, body));
        assert_eq!((answers.frames, answers.refused), (5, 3));
        let shown = "0 KiB sent, 3 refusals in 5 frames, 0 of 0 connections closed";
        assert_eq!(answers.to_string(), shown);
    }

    #[test]
    fn connections_that_are_closed_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (over, at) = (AtomicBool::new(false), Address::Unix(path));
        let raid = Raid { at: &at, attack: &ATTACKS[0], connections: 2, names: &[] };
        let answers = std::thread::scope(|scope| {
            let running = scope.spawn(|| raid.run(Rng::new(1), &over));
            (0..5).for_each(|_| drop(listener.accept().unwrap()));
            over.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap()
        });
        assert!(answers.opened >= 5 && answers.opened - answers.closed <= 2, "{answers:?}");
    }
}
