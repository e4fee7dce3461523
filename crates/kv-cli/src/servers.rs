//! Which servers are asked, and how long.
use crate::args::Args;
use crate::clock;
use crate::failure::{Code, Failure, Outcome};
use consort_kv::{Connected, Reply};
use std::io;
use std::time::Duration;

/// Where a server listens if nothing else is said.
pub const ADDRESS: &str = "127.0.0.1:6379";
/// How long a connection may take, if others are left to try.
const CONNECT: Duration = Duration::from_secs(1);
/// How long it waits before it asks again.
const PAUSE: Duration = Duration::from_millis(50);

/// The servers, in the order in which they are tried.
#[derive(Clone, Debug)]
pub struct Servers {
    addresses: Vec<String>,
    timeout: Duration,
}

impl Default for Servers {
    fn default() -> Self {
        Self { addresses: Vec::new(), timeout: Duration::from_secs(10) }
    }
}

/// Whether a command may be sent again where it is not known whether it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It only reads.
    Harmless,
    /// It may have been done.
    Never,
}

impl Servers {
    /// Takes `--server` or `--timeout`; false for any other option.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--server" => self.addresses.push(args.text()?),
            "--timeout" => self.timeout = args.duration()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The servers' addresses.
    pub fn addresses(&self) -> Vec<&str> {
        let given: Vec<_> = self.addresses.iter().map(String::as_str).collect();
        if given.is_empty() { vec![ADDRESS] } else { given }
    }

    /// How long an answer may take.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Has one of the servers carry out a command: the first that can be reached and orders anything.
    pub fn ask(&self, words: &[&[u8]], repeat: Repeat) -> Outcome<Reply> {
        self.ask_one(words, repeat).map(|(_, reply)| reply)
    }

    /// The same, with the address of the server that answered.
    pub fn ask_one(&self, words: &[&[u8]], repeat: Repeat) -> Outcome<(&str, Reply)> {
        let deadline = clock::now_ns() + self.timeout.as_nanos() as u64;
        let mut last = Failure::new("no server was asked");
        loop {
            let mut any_answers = false;
            for address in self.addresses() {
                let left = Duration::from_nanos(deadline.saturating_sub(clock::now_ns())).max(Duration::from_millis(1));
                let mut server = match connect(address, left) {
                    Ok(server) => server,
                    Err(failure) => {
                        last = failure;
                        continue;
                    }
                };
                any_answers = true;
                let asked = server.set_timeout(Some(left)).and_then(|()| server.call(words));
                match asked {
                    Ok(Reply::Error(why)) if why.starts_with("CLUSTERDOWN ") || why.starts_with("BUSY ") => {
                        last = Failure::new(format!("{address}: {why}")).with(Code::Timeout);
                    }
                    Ok(Reply::Error(why)) if why.starts_with("UNKNOWN ") => {
                        return Err(Failure::new(format!("{address}: {why}")).with(Code::UnknownFate));
                    }
                    Ok(Reply::Error(why)) => return Err(Failure::new(format!("{address}: {why}"))),
                    Ok(reply) => return Ok((address, reply)),
                    Err(error) => last = lost(address, &error, repeat)?,
                }
            }
            if clock::now_ns() + PAUSE.as_nanos() as u64 >= deadline || !any_answers {
                return Err(last);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Connects to a server.
pub fn connect(address: &str, within: Duration) -> Outcome<Connected> {
    Connected::to(address, within.min(CONNECT)).map_err(|error| {
        let text = format!("{address}: no server of a store answers ({error}); start one with `consort kv serve`");
        Failure::new(text).with(Code::NoDaemon)
    })
}

/// The connection was lost while a command was under way.
fn lost(address: &str, error: &io::Error, repeat: Repeat) -> Outcome<Failure> {
    let late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let why = if late { "no answer in time".to_owned() } else { error.to_string() };
    match repeat {
        Repeat::Harmless if late => Err(Failure::new(format!("{address}: {why}")).with(Code::Timeout)),
        Repeat::Harmless => Ok(Failure::new(format!("{address}: {why}"))),
        Repeat::Never => {
            let text = format!("{address}: {why}; the command may be done, or not");
            Err(Failure::new(text).with(Code::UnknownFate))
        }
    }
}
