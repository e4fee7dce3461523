//! One connection: sealed on one side, plain on the other. It never waits.
use crate::config::{self, Belief};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::Connection;
use rustls::pki_types::UnixTime;
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;

/// How much is moved at once: a record of TLS.
const ROOM: usize = 16 << 10;
/// So often at most in one turn: others have theirs.
const ROUNDS: usize = 32;

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// An event will tell when there is more to do.
    Waits,
    /// There is more to do.
    More,
    /// Both sides have ended.
    Done,
}

pub(crate) struct Pump {
    tls: Connection,
    sealed: TcpStream,
    plain: UnixStream,
    /// What was opened and is to be written to the plain side, from `written` on.
    opened: Vec<u8>,
    written: usize,
    /// The sealed side says nothing more; the plain side was told so.
    sealed_ended: bool,
    plain_told: bool,
    /// The plain side says nothing more; the sealed side was told so.
    plain_ended: bool,
    sealed_told: bool,
}

impl Pump {
    pub(crate) fn new(tls: Connection, sealed: TcpStream, plain: UnixStream) -> Self {
        let (opened, written) = (Vec::with_capacity(ROOM), 0);
        let ends = (false, false, false, false);
        let (sealed_ended, plain_told, plain_ended, sealed_told) = ends;
        Self { tls, sealed, plain, opened, written, sealed_ended, plain_told, plain_ended, sealed_told }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut self.sealed, token, both)?;
        registry.register(&mut self.plain, token, both)
    }

    /// Whether the other end has not proven yet who it is.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// What rules call the other end's certificate, if it has shown one that has a name.
    pub(crate) fn subject(&self) -> Option<String> {
        self.tls.peer_certificates()?.first().and_then(config::subject)
    }

    /// Whether what the other end has shown is believed at this time.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, belief: &Belief, now: UnixTime) -> Result<(), rustls::Error> {
        belief.check(self.tls.peer_certificates(), now)
    }

    /// Moves what there is, in both directions.
    ///
    /// # Errors
    /// What broke the connection; the other end was told what TLS has a word for.
    pub(crate) fn turn(&mut self) -> io::Result<Turn> {
        for _ in 0..ROUNDS {
            let moved = [self.open()?, self.give_plain()?, self.take_plain()?, self.give_sealed()?];
            if self.is_done() {
                return Ok(Turn::Done);
            }
            if moved == [false; 4] {
                return Ok(Turn::Waits);
            }
        }
        Ok(Turn::More)
    }

    /// Whether the plain side says nothing more.
    pub(crate) const fn plain_has_ended(&self) -> bool {
        self.plain_ended
    }

    fn is_done(&self) -> bool {
        self.plain_told && self.plain_ended && !self.tls.wants_write()
    }

    /// Opens what came, unless what came before is not written yet.
    fn open(&mut self) -> io::Result<bool> {
        if self.written < self.opened.len() || self.sealed_ended {
            return Ok(false);
        }
        self.opened.resize(ROOM, 0);
        let read = self.tls.reader().read(&mut self.opened);
        self.opened.truncate(*read.as_ref().unwrap_or(&0));
        self.written = 0;
        match read {
            Ok(0) => self.sealed_ended = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return self.take_sealed(),
            // It ended without a word: what it said before is whole, for frames say how long they are.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.sealed_ended = true,
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn take_sealed(&mut self) -> io::Result<bool> {
        match self.tls.read_tls(&mut self.sealed) {
            Ok(0) if self.tls.is_handshaking() => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                self.tls.process_new_packets().map_err(|error| {
                    // The alert that says why.
                    let _ = self.tls.write_tls(&mut Quiet(&self.sealed));
                    io::Error::new(ErrorKind::InvalidData, error)
                })?;
                Ok(true)
            }
            Err(error) => blocked(error),
        }
    }

    fn give_plain(&mut self) -> io::Result<bool> {
        if self.written < self.opened.len() {
            return match Quiet(&self.plain).write(&self.opened[self.written..]) {
                Ok(n) => {
                    self.written += n;
                    Ok(n > 0)
                }
                Err(error) => blocked(error),
            };
        }
        if self.sealed_ended && !self.plain_told {
            self.plain_told = true;
            // It may have gone already.
            let _ = self.plain.shutdown(Shutdown::Write);
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes what is to be sealed, unless what was sealed before waits for the network.
    fn take_plain(&mut self) -> io::Result<bool> {
        if self.plain_ended || self.tls.is_handshaking() || self.tls.wants_write() {
            return Ok(false);
        }
        let mut room = [0; ROOM];
        match self.plain.read(&mut room) {
            Ok(0) => {
                self.plain_ended = true;
                self.tls.send_close_notify();
                Ok(true)
            }
            Ok(n) => self.tls.writer().write_all(&room[..n]).map(|()| true),
            Err(error) => blocked(error),
        }
    }

    fn give_sealed(&mut self) -> io::Result<bool> {
        if self.tls.wants_write() {
            return match self.tls.write_tls(&mut Quiet(&self.sealed)) {
                Ok(n) => Ok(n > 0),
                Err(error) => blocked(error),
            };
        }
        if self.plain_ended && !self.sealed_told {
            self.sealed_told = true;
            let _ = self.sealed.shutdown(Shutdown::Write);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Writes to a socket without the signal that would end a program in C when the other end is gone.
struct Quiet<'a, S>(&'a S);

impl<S: AsFd> Write for Quiet<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        SockRef::from(self.0).send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        SockRef::from(self.0).send_vectored_with_flags(parts, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nothing can be moved now, or the connection broke. What was interrupted is tried again: no event would tell of it.
fn blocked(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        ErrorKind::WouldBlock => Ok(false),
        ErrorKind::Interrupted => Ok(true),
        _ => Err(error),
    }
}
