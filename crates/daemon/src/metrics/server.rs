//! The connections: all in one thread, and none can keep another from being answered.
use super::http::{self, HttpRequest, HttpResponse};
use super::port::{CONNECTIONS, MetricsPort};
use crate::clock;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a connection may take to say what it wants, and then to take the answer, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
/// How long a connection that has its answer may take to end. Closing it with bytes unread would make TCP take the
/// answer back.
const LINGER: u64 = 100_000_000;
/// How long no connection is accepted after that failed, in nanoseconds.
const CLOSED_FOR: u64 = 100_000_000;
const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// A port and its connections.
pub struct Server<A> {
    poll: Poll,
    port: MetricsPort,
    answer: A,
    /// The oldest first.
    connections: BTreeMap<usize, MetricsConnection>,
    next: usize,
    closed_until: Option<u64>,
    /// How often accepting has failed since it last succeeded.
    failures: u64,
    end: ServerEnd,
}

/// Ends a server, from any thread.
#[derive(Clone)]
pub struct ServerEnd {
    is_set: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl ServerEnd {
    /// The server stops serving and closes its port.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "cannot wake the server of metrics");
        }
    }
}

struct MetricsConnection {
    stream: UnixStream,
    stage: ConnectionStage,
    /// By when it must have come to the next stage.
    by: u64,
}

enum ConnectionStage {
    /// Said so much.
    Asking(Vec<u8>),
    /// Is told this.
    Told { answer: Vec<u8>, written: usize },
    /// Has read it all; whatever it still says is thrown away.
    Leaving,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum NextStep {
    Wait,
    Close,
}

impl<A: Fn(&HttpRequest) -> HttpResponse> Server<A> {
    /// Answers at this port by `answer`.
    ///
    /// # Errors
    /// What the operating system says about watching it.
    pub fn new(mut port: MetricsPort, answer: A) -> io::Result<Self> {
        let poll = Poll::new()?;
        port.register(poll.registry(), LISTENER)?;
        let end = ServerEnd { is_set: Arc::default(), waker: Arc::new(Waker::new(poll.registry(), WAKER)?) };
        Ok(Self {
            poll,
            port,
            answer,
            connections: BTreeMap::new(),
            next: WAKER.0 + 1,
            closed_until: None,
            failures: 0,
            end,
        })
    }

    /// What ends it.
    pub fn end(&self) -> ServerEnd {
        self.end.clone()
    }

    /// Serves until it is ended.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(CONNECTIONS);
        while !self.end.is_set.load(Ordering::Acquire) {
            self.turn(&mut events);
        }
    }

    fn turn(&mut self, events: &mut Events) {
        let soonest = self.connections.values().map(|connection| connection.by).chain(self.closed_until).min();
        let rest = soonest.map(|by| Duration::from_nanos(by.saturating_sub(clock::now_ns()) + 1_000_000));
        if let Err(error) = self.poll.poll(events, rest) {
            if error.kind() != ErrorKind::Interrupted {
                tracing::warn!(%error, "cannot wait for connections for metrics");
                std::thread::sleep(Duration::from_nanos(CLOSED_FOR));
            }
            return;
        }
        for event in events.iter() {
            match event.token() {
                LISTENER => self.accept(),
                WAKER => {}
                Token(connection) => self.attend(connection),
            }
        }
        let now = clock::now_ns();
        if self.closed_until.is_some_and(|until| until <= now) {
            self.accept();
        }
        let late: Vec<_> =
            self.connections.iter().filter(|(_, connection)| connection.by <= now).map(|(name, _)| *name).collect();
        for name in late {
            if let Some(mut connection) = self.connections.remove(&name) {
                connection.say_it_is_late();
            }
        }
    }

    fn accept(&mut self) {
        self.closed_until = None;
        loop {
            match self.port.accept() {
                Ok(stream) => {
                    self.failures = 0;
                    self.admit(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.failures += 1;
                    // What lasts is counted: the first, the tenth, the hundredth time are logged.
                    if 10_u64.pow(self.failures.ilog10()) == self.failures {
                        tracing::warn!(%error, times = self.failures, "cannot accept a connection for metrics");
                    }
                    // The listener tells only once of those that wait: they are to be remembered.
                    return self.closed_until = Some(clock::now_ns() + CLOSED_FOR);
                }
            }
        }
    }

    fn admit(&mut self, mut stream: UnixStream) {
        if self.connections.len() == CONNECTIONS {
            self.connections.pop_first();
        }
        let name = self.next;
        self.next += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(name), both) {
            return tracing::warn!(%error, "cannot watch a connection for metrics");
        }
        let connection =
            MetricsConnection { stream, stage: ConnectionStage::Asking(Vec::new()), by: clock::now_ns() + PATIENCE };
        self.connections.insert(name, connection);
        self.attend(name);
    }

    /// Does for a connection what can be done now.
    fn attend(&mut self, name: usize) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        // Whoever hangs up early has made up its mind.
        if connection.attend(&self.answer).unwrap_or(NextStep::Close) == NextStep::Close {
            self.connections.remove(&name);
        }
    }
}

impl MetricsConnection {
    fn attend(&mut self, answer: &impl Fn(&HttpRequest) -> HttpResponse) -> io::Result<NextStep> {
        let mut room = [0; 4 << 10];
        loop {
            let done = match &mut self.stage {
                ConnectionStage::Asking(said) => match http::read(said) {
                    None => match self.stream.read(&mut room) {
                        Ok(0) => return Ok(NextStep::Close),
                        other => other.map(|n| said.extend_from_slice(&room[..n])),
                    },
                    Some(asked) => {
                        self.tell(&asked, answer);
                        Ok(())
                    }
                },
                ConnectionStage::Told { answer, written } if *written == answer.len() => {
                    (self.stage, self.by) = (ConnectionStage::Leaving, clock::now_ns() + LINGER);
                    self.stream.shutdown(Shutdown::Write)
                }
                ConnectionStage::Told { answer, written } => {
                    self.stream.write(&answer[*written..]).map(|n| *written += n)
                }
                ConnectionStage::Leaving => match self.stream.read(&mut room) {
                    Ok(0) => return Ok(NextStep::Close),
                    other => other.map(drop),
                },
            };
            match done {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(NextStep::Wait),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.by <= clock::now_ns() {
                return Ok(NextStep::Wait); // one that never stops talking: it is late, too
            }
        }
    }

    fn tell(&mut self, asked: &Result<HttpRequest, HttpResponse>, answer: &impl Fn(&HttpRequest) -> HttpResponse) {
        let bytes = match asked {
            Ok(request) => answer(request).bytes(!request.head_only),
            Err(response) => response.bytes(true),
        };
        self.stage = ConnectionStage::Told { answer: bytes, written: 0 };
        self.by = clock::now_ns() + PATIENCE;
    }

    /// Tells one that has not said what it wants, as far as that can be told at once, that it is too late.
    fn say_it_is_late(&mut self) {
        if matches!(self.stage, ConnectionStage::Asking(_)) {
            let late = HttpResponse::text("408 HttpRequest Timeout", "no request came in time");
            let _ = self.stream.write(&late.bytes(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> std::net::SocketAddr {
        let port = MetricsPort::open("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = port.address().unwrap();
        let page = |request: &HttpRequest| HttpResponse::text("200 OK", request.path.repeat(100_000));
        let server = Server::new(port, page).unwrap();
        std::thread::spawn(move || server.run());
        address
    }

    fn connect(address: std::net::SocketAddr) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn read(mut stream: std::net::TcpStream) -> String {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_request_in_pieces_is_answered_whole_however_slowly_it_is_read() {
        let mut stream = connect(served());
        for piece in ["GET /x", "/y HTTP/1.1\r\n", "\r\n", "and more that nobody wants"] {
            stream.write_all(piece.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        let answer = read(stream);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("/x/y\n"));
        assert!(answer.len() > 400_000);
    }

    #[test]
    fn those_who_say_nothing_keep_nobody_from_being_answered() {
        let address = served();
        let silent: Vec<_> = (0..CONNECTIONS + 44).map(|_| connect(address)).collect();
        let mut stream = connect(address);
        stream.write_all(b"GET /z HTTP/1.1\r\n\r\n").unwrap();
        assert!(read(stream).starts_with("HTTP/1.1 200 OK"));
        let mut told: Vec<_> = silent.into_iter().map(read).collect();
        told.dedup();
        assert_eq!(told.len(), 2, "the oldest made room, the others are told in the end: {told:?}");
        assert!(told[0].is_empty() && told[1].starts_with("HTTP/1.1 408 "), "{told:?}");
    }
}
