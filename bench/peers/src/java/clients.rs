//! The two ends of a client of a node in Java (`MeasuredNode.java`), which sends and receives in its own process. What runs
//! here tells it what to send when, and judges what it says was delivered.
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::job::{Go, Job, Load, Pace, Sent};
use consort_testbed::{HEADER, Listener, Schedule, Speaker, Take};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What a node tells of one delivery: when, how many bytes, and the first of them.
const RECORD: usize = 8 + 4 + HEADER;
const READ: usize = 256 << 10;
/// A sender's messages at a rate, so that their times fit into memory.
const DUE_MAX: usize = 10_000_000;
/// No message is longer; a record that says so is none.
const LONGEST: usize = consort_wire::MESSAGE_MAX;

/// A connection to a node that is together with all others.
struct Wire {
    system: &'static str,
    stream: BufReader<TcpStream>,
}

impl Wire {
    fn open(system: &'static str, address: SocketAddr, sends: bool, members: u16) -> Outcome<Self> {
        let what = || format!("the node of {system} at {address}");
        let stream = TcpStream::connect(address).trying(what)?;
        stream.set_nodelay(true).trying(what)?;
        let mut wire = Self { system, stream: BufReader::with_capacity(READ, stream) };
        let mut question = vec![u8::from(sends)];
        question.extend(u32::from(members).to_be_bytes());
        let asked = now_ns();
        wire.write(&question)?;
        let said = wire.answer()?;
        match (asked..=now_ns()).contains(&said) {
            true => Ok(wire),
            false => Err(Failure::new("the clock of this Java is not the one of the system: latencies would be wrong")),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome {
        let system = self.system;
        self.stream.get_mut().write_all(bytes).trying(|| gone(system))
    }

    fn read<const LEN: usize>(&mut self) -> Outcome<[u8; LEN]> {
        let (system, mut bytes) = (self.system, [0; LEN]);
        self.stream.read_exact(&mut bytes).trying(|| gone(system))?;
        Ok(bytes)
    }

    /// A number, or why there is none.
    fn answer(&mut self) -> Outcome<u64> {
        let system = self.system;
        match self.read()? {
            [0] => {
                let mut problem = vec![0; u16::from_be_bytes(self.read()?).into()];
                self.stream.read_exact(&mut problem).trying(|| gone(system))?;
                Err(Failure::new(format!("{system}: {}", String::from_utf8_lossy(&problem))))
            }
            _ => Ok(u64::from_be_bytes(self.read()?)),
        }
    }
}

fn gone(system: &str) -> String {
    format!("the node of {system} ended the connection")
}

/// A sender: the node sends by itself once it is told when.
pub struct NodeSpeaker<'j> {
    wire: Wire,
    job: &'j Job,
    size: usize,
}

impl<'j> NodeSpeaker<'j> {
    /// Connects, and waits until all nodes are together.
    pub fn connect(system: &'static str, job: &'j Job, address: SocketAddr) -> Outcome<Self> {
        let Load::Made(size) = job.load else {
            return Err(Failure::new(format!("a node of {system} sends made messages only, not the lines of a file")));
        };
        Ok(Self { wire: Wire::open(system, address, true, job.receivers)?, job, size })
    }

    fn have_all_sent(&mut self, go: Go) -> Outcome<Sent> {
        let due = match self.job.pace {
            Pace::Max => None,
            Pace::Even(_) | Pace::Poisson(_) => Some(due_times(self.job, go)?),
        };
        self.wire.write(&orders(self.job, self.size, go, due.as_deref()))?;
        let messages = self.wire.answer()?;
        let unsent = due.map_or(0, |due| (due.len() as u64).saturating_sub(messages));
        Ok(Sent { messages, unsent })
    }
}

impl Speaker for NodeSpeaker<'_> {
    fn multicast(&mut self, _message: &[u8]) -> Outcome {
        Err(Failure::new("a node in Java sends by itself"))
    }

    fn flush(&mut self) -> Outcome {
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        Ok(())
    }

    fn send_all(&mut self, go: Go) -> Option<Outcome<Sent>> {
        Some(self.have_all_sent(go))
    }
}

/// All times at which messages are due.
fn due_times(job: &Job, go: Go) -> Outcome<Vec<u64>> {
    let mut schedule = Schedule::new(job, go);
    // Asked before the start, it gives up none.
    let due: Vec<u64> = std::iter::from_fn(|| schedule.next(0)).take(DUE_MAX + 1).collect();
    match due.len() <= DUE_MAX {
        true => Ok(due),
        false => Err(Failure::new(format!(
            "a node in Java is told beforehand when {DUE_MAX} messages are due at most; give a lower rate or less time"
        ))),
    }
}

fn orders(job: &Job, size: usize, go: Go, due: Option<&[u64]>) -> Vec<u8> {
    let mut orders = job.index.to_be_bytes().to_vec();
    orders.extend((size.max(HEADER) as u32).to_be_bytes());
    orders.push(job.cut.into());
    [go.start, go.from, go.until].iter().for_each(|time| orders.extend(time.to_be_bytes()));
    orders.push(due.is_some().into());
    let due = due.unwrap_or_default();
    orders.extend((due.len() as u32).to_be_bytes());
    due.iter().for_each(|time| orders.extend(time.to_be_bytes()));
    orders
}

/// A receiver: judges what the node was given.
pub struct NodeListener {
    wire: Wire,
    /// Stands for a message: its stamp and as many more bytes as it had.
    message: Vec<u8>,
}

impl NodeListener {
    /// Connects, and waits until all nodes are together.
    pub fn join(system: &'static str, job: &Job, address: SocketAddr) -> Outcome<Self> {
        if job.digest {
            return Err(Failure::new(format!(
                "a node of {system} tells the stamps of messages only, not all their bytes"
            )));
        }
        Ok(Self { wire: Wire::open(system, address, false, job.receivers)?, message: Vec::new() })
    }
}

impl Listener for NodeListener {
    fn receive(&mut self, take: Take<'_>) -> Outcome {
        loop {
            let record: [u8; RECORD] = self.wire.read()?;
            let (at, len, stamp) = read(&record)?;
            if self.message.len() < len.max(HEADER) {
                self.message.resize(len.max(HEADER), b'.');
            }
            self.message[..HEADER].copy_from_slice(stamp);
            take(at, &self.message[..len])?;
            if self.wire.stream.buffer().len() < RECORD {
                return Ok(());
            }
        }
    }
}

/// When a message came, its length and its stamp.
fn read(record: &[u8; RECORD]) -> Outcome<(u64, usize, &[u8])> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (at, len) = (number(&record[..8]), number(&record[8..12]));
    match usize::try_from(len) {
        Ok(len) if len <= LONGEST => Ok((at, len, &record[12..])),
        _ => Err(Failure::new(format!("the node told of a message of {len} bytes, which nobody sent"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_testbed::ClientAddress;
    use consort_testbed::job::Role;
    use consort_testbed::{Kind, Stamp};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    const GO: Go = Go { start: 1_000, from: 501_000, until: 1_001_000 };

    fn job(address: SocketAddr, pace: Pace) -> Job {
        Job {
            role: Role::Sender,
            address: ClientAddress::other("JGroups", address),
            index: 1,
            senders: 2,
            receivers: 3,
            group: "g".into(),
            service: "agreed".into(),
            load: Load::Made(100),
            pace,
            cut: true,
            unbatched: false,
            sockets: false,
            digest: false,
        }
    }

    /// A node that reads a question of so many bytes, answers, and does so again; gives what it was asked.
    fn node(steps: Vec<(usize, Vec<u8>)>) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = |(len, answer): (usize, Vec<u8>)| {
                let mut question = vec![0; len];
                stream.read_exact(&mut question).unwrap();
                let answer = if answer.is_empty() { number(now_ns()) } else { answer };
                stream.write_all(&answer).unwrap();
                question
            };
            steps.into_iter().map(asked).collect()
        });
        (address, thread)
    }

    fn number(number: u64) -> Vec<u8> {
        [&[1], &number.to_be_bytes()[..]].concat()
    }

    fn record(at: u64, len: u32, stamp: &[u8]) -> Vec<u8> {
        [&at.to_be_bytes(), &len.to_be_bytes()[..], stamp].concat()
    }

    #[test]
    fn a_node_is_told_all_due_times_beforehand_and_what_it_did_not_send_is_counted() {
        let orders_len = 2 + 4 + 1 + 24 + 1 + 4;
        let (address, node) = node(vec![(5, Vec::new()), (orders_len + 8 * 4, number(3))]);
        // Of the second of two senders, every 250 us, from half of that on.
        let job = job(address, Pace::Even(4_000.0));
        let sent = NodeSpeaker::connect("JGroups", &job, address).unwrap().have_all_sent(GO).unwrap();
        assert_eq!((sent.messages, sent.unsent), (3, 1));
        let asked = node.join().unwrap();
        assert_eq!(asked[0], [1, 0, 0, 0, 3]);
        let due: Vec<u8> = [126_000u64, 376_000, 626_000, 876_000].iter().flat_map(|time| time.to_be_bytes()).collect();
        assert!(asked[1].starts_with(&[0, 1, 0, 0, 0, 100, 1]) && asked[1].ends_with(&due), "{asked:?}");
        assert_eq!(orders(&job, 100, GO, None).len(), orders_len);
    }

    #[test]
    fn more_due_times_than_fit_are_refused() {
        let job = job("127.0.0.1:1".parse().unwrap(), Pace::Even(1e14));
        let problem = due_times(&job, GO).unwrap_err().message;
        assert!(
            problem.ends_with("when 10000000 messages are due at most; give a lower rate or less time"),
            "{problem}"
        );
    }

    #[test]
    fn deliveries_are_judged_by_their_stamps_and_lengths() {
        let mut stamp = [0; HEADER];
        Stamp { at: 5, number: 7, sender: 1, kind: Kind::Measured }.write(&mut stamp);
        let records = [record(9, 100, &stamp), record(10, 24, &stamp), record(11, 8, &stamp)].concat();
        let (address, _node) = node(vec![(5, [number(now_ns() + 1_000_000_000), records].concat())]);
        // Its clock is ahead: nothing that it says of times could be believed.
        let problem = NodeListener::join("JGroups", &job(address, Pace::Max), address).err().unwrap().message;
        assert!(problem.starts_with("the clock of this Java is not the one of the system"), "{problem}");
        let records = [record(9, 100, &stamp), record(10, 24, &stamp), record(11, 8, &stamp)].concat();
        let (address, _node) = self::node(vec![(5, Vec::new()), (0, records)]);
        let mut ear = NodeListener::join("JGroups", &job(address, Pace::Max), address).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 3 {
            ear.receive(&mut |at, message| {
                seen.push((at, message.len(), Stamp::read(message).map(|stamp| stamp.number)));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(seen, [(9, 100, Some(7)), (10, 24, Some(7)), (11, 8, None)]);
        let problem = ear.receive(&mut |_, _| Ok(())).unwrap_err().message;
        assert!(problem.starts_with("the node of JGroups ended the connection"), "{problem}");
    }

    #[test]
    fn what_a_node_cannot_do_and_what_no_node_says_is_told() {
        let (address, _node) = node(vec![(5, [&[0, 0, 4], &b"oops"[..]].concat())]);
        let job = job(address, Pace::Max);
        assert_eq!(NodeSpeaker::connect("JGroups", &job, address).err().unwrap().message, "JGroups: oops");
        let lines = Job { load: Load::Lines("x".into()), ..job.clone() };
        let problem = NodeSpeaker::connect("JGroups", &lines, address).err().unwrap().message;
        assert_eq!(problem, "a node of JGroups sends made messages only, not the lines of a file");
        let digest = Job { digest: true, ..job };
        assert!(NodeListener::join("JGroups", &digest, address).is_err());
        let long: [u8; RECORD] = record(1, u32::MAX, &[0; HEADER]).try_into().unwrap();
        let problem = read(&long).unwrap_err().message;
        assert_eq!(problem, "the node told of a message of 4294967295 bytes, which nobody sent");
    }
}
