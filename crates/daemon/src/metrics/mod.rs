//! Metrics for Prometheus, and whether the daemon is ready, over HTTP.
//!
//! A few threads beside the daemon's own: they ask it for its status over its local socket like any client, so nothing
//! that comes to this port reaches the loop that orders messages.
mod http;
mod table;
mod text;

use crate::clock;
use crate::connect;
use crate::failure::{Failure, Outcome};
use consort::Address;
use http::{Request, Response};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many connections are served at once; others wait.
const WORKERS: usize = 4;
/// How long a connection may take to say what it wants, and to take one piece of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer of the daemon is good for so long, in nanoseconds: many who ask at once cost it one question.
const FRESH: u64 = 100_000_000;
/// How long nobody is let in after that failed.
const SHUT: Duration = Duration::from_millis(100);
/// How much of what nobody reads is thrown away before a connection is closed.
const LEFTOVERS: usize = 16;

type Status = BTreeMap<String, String>;
/// A daemon's status, or why there is none.
type Answer = Result<Arc<Status>, String>;

/// The daemon that is asked.
pub struct Daemon {
    /// Where it serves clients of this machine.
    pub door: Address,
    /// Its cluster's name.
    pub cluster: String,
    /// When it was asked last, and what it said.
    last: Mutex<Option<(u64, Answer)>>,
}

impl Daemon {
    /// The one behind this door.
    pub fn new(door: Address, cluster: String) -> Self {
        Self { door, cluster, last: Mutex::new(None) }
    }

    fn status(&self) -> Answer {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &*last
            && clock::now_ns() < at + FRESH
        {
            return answer.clone();
        }
        let asked = connect::status(&self.door).map(|pairs| Arc::new(pairs.into_iter().collect()));
        let answer = asked.map_err(|failure| failure.message);
        *last = Some((clock::now_ns(), answer.clone()));
        answer
    }

    fn answer(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => self.status().map_or_else(Response::unavailable, |status| {
                Response::metrics(text::exposition(&status, &self.cluster, std::process::id()))
            }),
            "/ready" => match self.status().and_then(|status| ready(&status)) {
                Ok(()) => Response::text("200 OK", "ready"),
                Err(why) => Response::unavailable(why),
            },
            _ => Response::text("404 Not Found", "here are /metrics and /ready"),
        }
    }
}

/// Whether the node takes part in full; else why not.
fn ready(status: &Status) -> Result<(), String> {
    match status.get("ready").map(String::as_str) {
        Some("yes") => Ok(()),
        Some(why) => Err(format!("not ready: {why}")),
        None => Err("not ready: the daemon does not tell".into()),
    }
}

/// Opens the port.
pub fn open(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::new(format!("cannot serve metrics at {address}: {error}; choose another address with --metrics"))
    })
}

/// Serves from here on, until the program ends.
pub fn serve(listener: TcpListener, daemon: Daemon) {
    let shared = Arc::new((listener, daemon));
    for _ in 0..WORKERS {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || work(&shared.0, &shared.1));
    }
}

fn work(listener: &TcpListener, daemon: &Daemon) -> ! {
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                // Whoever hangs up early has made up its mind.
                let served = attend(&stream, daemon);
                tracing::debug!(%from, ?served, "asked for metrics");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                std::thread::sleep(SHUT);
            }
        }
    }
}

fn attend(mut stream: &TcpStream, daemon: &Daemon) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = hear(stream)?;
    let (response, with_body) = match &asked {
        Ok(request) => (daemon.answer(request), !request.head_only),
        Err(response) => (response.clone(), true),
    };
    stream.write_all(&response.bytes(with_body))?;
    stream.shutdown(Shutdown::Write)?;
    forget_the_rest(stream)
}

/// Reads a request; in time, or not at all.
fn hear(mut stream: &TcpStream) -> io::Result<Result<Request, Response>> {
    let deadline = clock::now_ns() + PATIENCE.as_nanos() as u64;
    let (mut bytes, mut room) = (Vec::new(), [0; 1024]);
    loop {
        if let Some(request) = http::read(&bytes) {
            return Ok(request);
        }
        let Some(left) = deadline.checked_sub(clock::now_ns()).filter(|left| *left > 1_000) else {
            return Ok(Err(Response::text("408 Request Timeout", "no request came in time")));
        };
        stream.set_read_timeout(Some(Duration::from_nanos(left)))?;
        match stream.read(&mut room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes.extend_from_slice(&room[..n]),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Closing a connection with bytes unread would make TCP take the answer back.
fn forget_the_rest(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SHUT))?;
    let mut room = [0; 4096];
    for _ in 0..LEFTOVERS {
        if stream.read(&mut room)? == 0 {
            break;
        }
    }
    Ok(())
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_what_the_daemon_says() {
        let status = |pairs: &[(&str, &str)]| -> Status {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(ready(&status(&[("ready", "yes")])), Ok(()));
        assert_eq!(ready(&status(&[("ready", "the view is closing")])), Err("not ready: the view is closing".into()));
        assert_eq!(ready(&status(&[])), Err("not ready: the daemon does not tell".into()));
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_unavailable() {
        let daemon = Daemon::new(Address::Unix("/nowhere/node-1.sock".into()), "c".into());
        for path in ["/metrics", "/ready"] {
            let response = daemon.answer(&Request { head_only: false, path: path.into() });
            assert!(response.status.starts_with("503"), "{response:?}");
            assert!(response.body.contains("/nowhere/node-1.sock"), "{response:?}");
        }
    }
}
