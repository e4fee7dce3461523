//! The connections of a hostile client. It reads what it is answered, and only counts it.
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use consort::{Address, GroupName};
use consort_types::Rng;

use super::answers::{Answers, Inbox};
use super::attacks::{Attack, Kind, Source};

/// How long a connection may take, because the attack must end in time.
const DIAL: Duration = Duration::from_millis(20);
/// How long to wait where no connection can be read or written.
const PAUSE: Duration = Duration::from_millis(1);
/// How many bytes are read at once, and how often before the next connection has its turn.
const READ: usize = 64 << 10;
const READS: usize = 4;

/// One attack at one door.
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
    /// A socket of either kind: the kernel reads and writes both in the same way.
    stream: UnixStream,
    inbox: Inbox,
    /// What is to be sent next.
    output: BytesMut,
    source: Source<'a>,
}

impl<'a> Raid<'a> {
    /// Sends and reads until it is over. One thread serves all connections: it is faster than the daemon, and does not take
    /// the processor from the good clients as a thread for each connection would.
    ///
    /// # Errors
    /// The other end sent what is no answer.
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
        let read = if self.attack.kind == Kind::Deaf { Ok(false) } else { open.read(room, answers) };
        let exchanged = read.and_then(|has_read| Ok(open.write(answers)? || has_read));
        match exchanged {
            Ok(has_moved) if self.attack.kind != Kind::Silent => return Ok(has_moved),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(format!("{}: what came is no answer: {error}", self.attack.name));
            }
            Err(_) => answers.closed += 1,
        }
        *line = None;
        Ok(true)
    }

    /// Makes a connection. If none is accepted in time, it is tried again in the next turn.
    fn open(&self, rng: &mut Rng, answers: &mut Answers) -> Option<Line<'a>> {
        let stream = UnixStream::from(self.at.dial(DIAL).ok()?);
        stream.set_nonblocking(true).ok()?;
        answers.opened += 1;
        let mut source = Source::new(rng.fork(answers.opened), self.names);
        let output = self.attack.opening(&mut source);
        Some(Line { stream, inbox: Inbox::new(self.attack.door), output, source })
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
            self.inbox.take(&room[..len], answers)?;
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

#[cfg(test)]
mod tests {
    use super::super::attacks::{Door, all};
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    /// Runs the first attack at a door, which two connections make, until `meanwhile` is over.
    fn raided(at: &Address, door: Door, meanwhile: impl FnOnce()) -> Answers {
        let over = AtomicBool::new(false);
        let attack = all().find(|attack| attack.door == door).unwrap();
        let raid = Raid { at, attack, connections: 2, names: &[] };
        std::thread::scope(|scope| {
            let running = scope.spawn(|| raid.run(Rng::new(1), &over));
            meanwhile();
            over.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap()
        })
    }

    #[test]
    fn connections_that_are_closed_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = raided(&Address::Unix(path), Door::Session, || {
            (0..5).for_each(|_| drop(listener.accept().unwrap()));
        });
        assert!(answers.opened >= 5 && answers.opened - answers.closed <= 2, "{answers:?}");
    }

    #[test]
    fn a_port_of_tcp_is_read_and_written_like_a_socket_file() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string().parse().unwrap();
        let answers = raided(&at, Door::Store, || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut begun = [0; 4];
            stream.read_exact(&mut begun).unwrap();
            assert_eq!(begun, *b"*3\r\n");
            stream.write_all(b"+OK\r\n").unwrap();
            // More than the kernel keeps: the rest is written once the answer is read.
            stream.read_exact(&mut vec![0_u8; 16 << 20]).unwrap();
        });
        assert!(answers.frames == 1 && answers.bytes > 0, "{answers:?}");
    }
}
