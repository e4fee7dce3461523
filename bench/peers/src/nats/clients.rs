//! Clients of NATS with JetStream, by its text protocol: a stream of the group's name is the order, each receiver has a
//! consumer of it from the beginning.
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Code, Failure, Outcome, Trying};
use consort_testbed::job::Job;
use consort_testbed::{Listener, Speaker, Take};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Collected messages are written from so many bytes on, as our own library does; and so much is read at once.
const WRITE: usize = 64 << 10;
const READ: usize = 256 << 10;
/// How many messages of one sender may wait for their acknowledgement: more only wait longer.
const WINDOW: u64 = 1_000;
/// The numbers of a connection's subscriptions: to answers, and to what it is there for.
const ANSWERS: &str = "1";
const NEWS: &str = "2";
/// The header of what has nothing to say in it.
const PLAIN: &str = "NATS/1.0\r\n\r\n";
/// What is to be stored only in a stream that nobody has is refused by the stream's leader, and stored by nobody.
const PROBE: &str = "NATS/1.0\r\nNats-Expected-Stream: none\r\n\r\n";
/// The number of the error with which a leader refuses it.
const OTHER_STREAM: u64 = 10_060;
/// How long in all, and how long each time, a cluster that just started is asked until it has a leader: that may take two elections.
const ELECTIONS: Duration = Duration::from_secs(25);
const ANSWER: Duration = Duration::from_millis(500);
/// For the last acknowledgements.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection, with what was read and not yet taken.
struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    room: Vec<u8>,
}

/// One message of the server.
struct Frame<'f> {
    reply: &'f str,
    /// Empty, or a status and further lines.
    header: &'f str,
    payload: &'f [u8],
}

/// What the acknowledgements of a sender came to.
#[derive(Default)]
struct Acked {
    count: Mutex<(u64, Option<String>)>,
    news: Condvar,
}

/// A client that sends.
pub struct NatsSpeaker {
    stream: TcpStream,
    group: String,
    inbox: String,
    unbatched: bool,
    collected: Vec<u8>,
    sent: u64,
    acked: Arc<Acked>,
}

/// A client that receives.
pub struct NatsListener {
    wire: Wire,
}

impl Wire {
    fn open(address: SocketAddr) -> Outcome<Self> {
        let what = || format!("the NATS server at {address}");
        let stream = TcpStream::connect(address).trying(what)?;
        stream.set_nodelay(true).trying(what)?;
        let mut wire = Self { stream, unread: Vec::new(), room: vec![0; READ] };
        wire.write("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n")?;
        Ok(wire)
    }

    fn write(&mut self, text: &str) -> Outcome {
        self.stream.write_all(text.as_bytes()).trying(|| "cannot write to a NATS server".into())
    }

    /// Reads what there is; whether anything came before the stream's own time was up.
    fn read(&mut self) -> Outcome<bool> {
        match self.stream.read(&mut self.room) {
            Ok(0) => Err(Failure::new("the NATS server ended the connection")),
            Ok(read) => {
                self.unread.extend_from_slice(&self.room[..read]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error).trying(|| "cannot read from a NATS server".into()),
        }
    }

    /// Hands over each whole message of one subscription; answers whether the client still incarnations.
    fn each(&mut self, of: &str, take: &mut dyn FnMut(&Frame) -> Outcome) -> Outcome {
        let (mut at, mut asked) = (0, false);
        while let Some((end, line)) = line_of(&self.unread[at..]) {
            let words: Vec<&str> = line.split(' ').collect();
            let lengths = match words[..] {
                ["MSG", _, to, len] => Some((to, "", "0", len)),
                ["MSG", _, to, reply, len] => Some((to, reply, "0", len)),
                ["HMSG", _, to, header, len] => Some((to, "", header, len)),
                ["HMSG", _, to, reply, header, len] => Some((to, reply, header, len)),
                _ => None,
            };
            let Some((to, reply, header, len)) = lengths else {
                asked |= line == "PING";
                if line.starts_with("-ERR") {
                    return Err(Failure::new(format!("the NATS server said `{line}`")));
                }
                at += end;
                continue;
            };
            let number = |text: &str| text.parse::<usize>().trying(|| format!("the NATS server said `{line}`"));
            let (header, len) = (number(header)?, number(len)?);
            let Some(body) = self.unread.get(at + end..at + end + len + 2) else { break };
            let (header, payload) = body[..len].split_at(header.min(len));
            if to == of {
                take(&Frame { reply, header: std::str::from_utf8(header).unwrap_or_default(), payload })?;
            }
            at += end + len + 2;
        }
        self.unread.drain(..at);
        if asked { self.write("PONG\r\n") } else { Ok(()) }
    }

    /// Asks again and again until the answer is no error.
    fn ask(&mut self, subject: &str, question: &Value) -> Outcome {
        self.ask_until(subject, PLAIN, &question.to_string(), |answer| answer.get("error").is_none())
    }

    /// Waits until what this client publishes reaches the stream's leader. A cluster says that there is a stream before
    /// it has elected one, and what is published until then reaches nobody: it is lost, and never acknowledged.
    fn await_leader(&mut self, group: &str) -> Outcome {
        let waited = self.ask_until(group, PROBE, "", |answer| answer["error"]["err_code"] == OTHER_STREAM);
        waited.map_err(|failure| failure.about("the stream has no leader that takes messages"))
    }

    fn ask_until(&mut self, subject: &str, header: &str, text: &str, good: impl Fn(&Value) -> bool) -> Outcome {
        let inbox = format!("_INBOX.{}.{subject}", std::process::id());
        self.write(&format!("SUB {inbox} {ANSWERS}\r\n"))?;
        self.stream.set_read_timeout(Some(ANSWER)).trying(|| "a socket".into())?;
        let (front, len) = (header.len(), header.len() + text.len());
        let mut last = "nothing".to_owned();
        let began = Instant::now();
        while began.elapsed() < ELECTIONS {
            self.write(&format!("HPUB {subject} {inbox} {front} {len}\r\n{header}{text}\r\n"))?;
            last = self.answer()?.unwrap_or(last);
            if serde_json::from_str(&last).is_ok_and(|answer| good(&answer)) {
                self.stream.set_read_timeout(None).trying(|| "a socket".into())?;
                return self.write(&format!("UNSUB {ANSWERS}\r\n"));
            }
            std::thread::sleep(ANSWER / 5);
        }
        Err(Failure::new(format!("{subject}: the NATS server answered {last}")).with(Code::Timeout))
    }

    /// What is answered, if anything is in time.
    fn answer(&mut self) -> Outcome<Option<String>> {
        let mut answer = None;
        while answer.is_none() && self.read()? {
            self.each(ANSWERS, &mut |frame| {
                answer = Some(frame.text());
                Ok(())
            })?;
        }
        Ok(answer)
    }
}

impl Frame<'_> {
    /// What it says, for people: its payload, or the status of one that has none.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(self.payload);
        if text.is_empty() { self.header.trim().to_owned() } else { text.into_owned() }
    }
}

/// The first line, and where the next begins.
fn line_of(bytes: &[u8]) -> Option<(usize, &str)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((end + 2, std::str::from_utf8(&bytes[..end]).unwrap_or("-ERR unreadable")))
}

impl NatsSpeaker {
    /// Connects, and waits until the stream takes messages.
    pub fn connect(job: &Job, address: SocketAddr) -> Outcome<Self> {
        let mut wire = Wire::open(address)?;
        wire.await_leader(&job.group)?;
        let inbox = format!("_INBOX.{}.sent", std::process::id());
        wire.write(&format!("SUB {inbox} {NEWS}\r\n"))?;
        let stream = wire.stream.try_clone().trying(|| "a socket".into())?;
        let acked = Arc::new(Acked::default());
        let told = Arc::clone(&acked);
        std::thread::spawn(move || told.listen(wire));
        let (group, unbatched) = (job.group.clone(), job.unbatched);
        Ok(Self { stream, group, inbox, unbatched, collected: Vec::with_capacity(2 * WRITE), sent: 0, acked })
    }

    fn await_acked(&self, count: u64) -> Outcome {
        let all = self.acked.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.acked.news.wait_timeout_while(all, PATIENCE, |(acked, end)| *acked < count && end.is_none());
        let (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*all {
            (_, Some(end)) => Err(Failure::new(end.clone())),
            (acked, None) if *acked < count => {
                Err(Failure::new("waited too long for NATS to acknowledge").with(Code::Timeout))
            }
            _ => Ok(()),
        }
    }
}

impl Acked {
    fn listen(&self, mut wire: Wire) {
        loop {
            let mut refused = None;
            let mut count = 0;
            let heard = wire.read().and_then(|_| {
                wire.each(NEWS, &mut |frame| {
                    count += 1;
                    refused = refused.take().or_else(|| refusal(frame));
                    Ok(())
                })
            });
            let mut all = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            all.0 += count;
            all.1 = refused.or(heard.err().map(|failure| failure.message));
            self.news.notify_all();
            if all.1.is_some() {
                return;
            }
        }
    }
}

/// Why a message was not taken, if it was not. It cannot be published again: those behind it may have their places.
fn refusal(frame: &Frame) -> Option<String> {
    match frame.payload {
        [] => {
            Some(format!("NATS answered `{}`: the stream has lost its leader while messages were sent", frame.text()))
        }
        payload if payload.starts_with(b"{\"stream\"") => None,
        _ => Some(format!("NATS answered {}", frame.text())),
    }
}

impl Speaker for NatsSpeaker {
    fn multicast(&mut self, message: &[u8]) -> Outcome {
        let front = format!("PUB {} {} {}\r\n", self.group, self.inbox, message.len());
        self.collected.extend_from_slice(front.as_bytes());
        self.collected.extend_from_slice(message);
        self.collected.extend_from_slice(b"\r\n");
        self.sent += 1;
        if self.unbatched || self.collected.len() >= WRITE || self.sent.is_multiple_of(WINDOW / 4) {
            self.flush()?;
        }
        self.await_acked(self.sent.saturating_sub(WINDOW))
    }

    fn flush(&mut self) -> Outcome {
        self.stream.write_all(&self.collected).trying(|| "the NATS server ended the connection".into())?;
        self.collected.clear();
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        self.flush()?;
        self.await_acked(self.sent)
    }
}

impl NatsListener {
    /// Connects, and makes the stream and its own consumer of it.
    pub fn join(job: &Job, address: SocketAddr, storage: &str) -> Outcome<Self> {
        let mut wire = Wire::open(address)?;
        let (group, replicas) = (&job.group, job.receivers.min(5));
        let stream = json!({
            "name": group, "subjects": [group], "retention": "limits", "storage": storage, "discard": "old",
            "num_replicas": replicas, "max_bytes": 1_000_000_000, "max_msgs": -1, "max_consumers": -1, "max_age": 0,
        });
        wire.ask(&format!("$JS.API.STREAM.CREATE.{group}"), &stream)?;
        let subject = format!("_DELIVER.{}", std::process::id());
        wire.write(&format!("SUB {subject} {NEWS}\r\n"))?;
        let consumer = json!({ "stream_name": group, "config": {
            "deliver_subject": subject, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant",
            "flow_control": true, "idle_heartbeat": 5_000_000_000u64, "max_deliver": 1, "mem_storage": true,
            "num_replicas": 1,
        } });
        wire.ask(&format!("$JS.API.CONSUMER.CREATE.{group}"), &consumer)?;
        Ok(Self { wire })
    }
}

impl Listener for NatsListener {
    fn receive(&mut self, take: Take<'_>) -> Outcome {
        self.wire.read()?;
        let now = now_ns();
        let mut answers = String::new();
        self.wire.each(NEWS, &mut |frame| {
            if frame.header.is_empty() {
                return take(now, frame.payload);
            }
            // The server asks how far this client is, or says that it has waited for that in vain.
            let stalled = frame.header.lines().find_map(|line| line.strip_prefix("Nats-Consumer-Stalled: "));
            for to in [frame.reply, stalled.unwrap_or_default()].into_iter().filter(|to| !to.is_empty()) {
                answers.push_str(&format!("PUB {to} 0\r\n\r\n"));
            }
            Ok(())
        })?;
        if answers.is_empty() { Ok(()) } else { self.wire.write(&answers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// A connection on which this was read, and its other end.
    fn wire(said: &[u8]) -> (Wire, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut wire = Wire::open(listener.local_addr().unwrap()).unwrap();
        wire.unread.extend_from_slice(said);
        (wire, listener)
    }

    #[test]
    fn messages_are_taken_whole_and_what_is_not_whole_waits() {
        let (mut wire, _server) = wire(
            b"INFO {}\r\nMSG a 1 3\r\nab\n\r\nPING\r\nHMSG a 1 to 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG a 1 re 5\r\nhel",
        );
        let mut seen = Vec::new();
        wire.each(ANSWERS, &mut |frame| {
            seen.push((frame.reply.to_owned(), frame.header.len(), frame.payload.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(String::new(), 0, b"ab\n".to_vec()), ("to".to_owned(), 12, b"hi".to_vec())]);
        assert_eq!(wire.unread, b"MSG a 1 re 5\r\nhel");
    }

    #[test]
    fn what_the_server_refuses_is_told() {
        let problem = |said: &[u8]| wire(said).0.each(NEWS, &mut |_| Ok(())).unwrap_err().message;
        assert_eq!(problem(b"-ERR 'Stale Connection'\r\n"), "the NATS server said `-ERR 'Stale Connection'`");
        assert!(problem(b"MSG a 1 many\r\n").starts_with("the NATS server said `MSG a 1 many`: "));
    }

    #[test]
    fn what_is_of_another_subscription_is_left_alone() {
        let (mut wire, _server) = wire(b"MSG a 1 4\r\nlate\r\nMSG b 2 3\r\nnew\r\n");
        let mut seen = Vec::new();
        wire.each(NEWS, &mut |frame| {
            seen.push(frame.text());
            Ok(())
        })
        .unwrap();
        assert!(seen == ["new"] && wire.unread.is_empty(), "{seen:?}");
    }

    /// A server that gives each message of a client the next of these answers; tells what all of them were.
    fn server(answers: Vec<String>) -> (SocketAddr, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let (mut lines, mut to) = (BufReader::new(&stream).lines().map_while(Result::ok), &stream);
            let mut answers = answers.into_iter();
            let mut asked = Vec::new();
            while !answers.as_slice().is_empty() {
                let line = lines.next().unwrap();
                if line.starts_with("HPUB") {
                    asked.push(lines.by_ref().take(4).collect::<Vec<_>>().join("|"));
                    to.write_all(answers.next().unwrap().as_bytes()).unwrap();
                }
            }
            asked
        });
        (address, serving)
    }

    #[test]
    fn a_stream_is_awaited_until_its_leader_refuses_what_is_for_another() {
        let status = "HMSG i 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n".to_owned();
        let answer = |code: u64| {
            let text = json!({ "error": { "code": 400, "err_code": code }, "stream": "g", "seq": 0 }).to_string();
            format!("MSG i 1 {}\r\n{text}\r\n", text.len())
        };
        let (address, serving) = server(vec![status, answer(10_008), answer(OTHER_STREAM)]);
        Wire::open(address).unwrap().await_leader("g").unwrap();
        assert_eq!(serving.join().unwrap(), ["NATS/1.0|Nats-Expected-Stream: none||"; 3]);
    }

    #[test]
    fn a_message_that_nobody_took_is_told() {
        let refused = |said: &[u8]| {
            let mut refused = None;
            let told = wire(said).0.each(NEWS, &mut |frame| {
                refused = refusal(frame);
                Ok(())
            });
            told.unwrap();
            refused
        };
        assert_eq!(refused(b"MSG i 2 25\r\n{\"stream\":\"g\", \"seq\": 17}\r\n"), None);
        let nobody = refused(b"HMSG i 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n").unwrap();
        assert!(nobody.starts_with("NATS answered `NATS/1.0 503`: the stream has lost its leader"), "{nobody}");
        assert_eq!(refused(b"MSG i 2 13\r\n{\"error\": {}}\r\n").as_deref(), Some("NATS answered {\"error\": {}}"));
    }
}
