//! A client's end of one connection.
use crate::config::{ClientTls, server_name};
use crate::pump::{Pump, Turn};
use mio::net::{TcpStream, UnixStream};
use mio::{Events, Poll, Token};
use rustls::ClientConnection;
use std::io::{self, ErrorKind};
use std::net::TcpStream as StdTcpStream;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Why a connection broke, once it has: a daemon refuses a client's certificate when the client is through already.
#[derive(Clone, Debug, Default)]
pub struct Problem(Arc<OnceLock<String>>);

/// A connection that has proven whose it is.
#[derive(Debug)]
pub struct Bridge {
    /// What is said and told, plain.
    pub stream: StdUnixStream,
    /// Why it broke, once it has.
    pub problem: Problem,
}

impl Problem {
    /// Why the connection broke; `None` where it did not, or simply ended.
    pub fn text(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl ClientTls {
    /// Speaks TLS over a connection to `host`, whose certificate must name it, or what [`Self::named`] said. A thread does so from here on; it ends with
    /// the connection.
    ///
    /// # Errors
    /// The daemon's certificate is not to be believed, is another's, or did not come in time.
    pub fn bridge(&self, socket: StdTcpStream, host: &str, within: Duration) -> io::Result<Bridge> {
        let until = Instant::now() + within;
        let name = self.server.clone().map_or_else(|| server_name(host), Ok);
        let name = name.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let tls = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        socket.set_nonblocking(true)?;
        let (stream, own) = StdUnixStream::pair()?;
        own.set_nonblocking(true)?;
        let pump = Pump::new(tls.into(), TcpStream::from_std(socket), UnixStream::from_std(own));
        let mut side = Side { poll: Poll::new()?, pump };
        side.pump.register(side.poll.registry(), Token(0))?;
        side.shake_hands(until)?;
        let problem = Problem::default();
        let told = problem.clone();
        std::thread::Builder::new().name("consort-tls".into()).spawn(move || side.run(&told))?;
        Ok(Bridge { stream, problem })
    }
}

/// Whether a handshake failed because the other end says nothing, or nothing that is TLS.
pub fn is_no_tls(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::InvalidData => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            matches!(inner, Some(rustls::Error::InvalidMessage(_)))
        }
        kind => matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::TimedOut),
    }
}

struct Side {
    poll: Poll,
    pump: Pump,
}

impl Side {
    fn shake_hands(&mut self, until: Instant) -> io::Result<()> {
        let mut events = Events::with_capacity(4);
        loop {
            let turn = self.pump.turn()?;
            if !self.pump.is_handshaking() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "no whole TLS handshake in time"));
            }
            let within = if turn == Turn::More { Duration::ZERO } else { left };
            wait(&mut self.poll, &mut events, Some(within))?;
        }
    }

    fn run(mut self, problem: &Problem) {
        let mut events = Events::with_capacity(4);
        loop {
            match self.pump.turn().and_then(|turn| match turn {
                Turn::Done => Ok(true),
                Turn::More => Ok(false),
                Turn::Waits => wait(&mut self.poll, &mut events, None).map(|()| false),
            }) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    // Before the plain side is closed: whoever sees that finds it.
                    let _ = problem.0.set(error.to_string());
                    return;
                }
            }
        }
    }
}

fn wait(poll: &mut Poll, events: &mut Events, within: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, within) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        waited => waited,
    }
}
