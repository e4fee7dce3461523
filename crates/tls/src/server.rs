//! A daemon's listeners.
use crate::config::{Belief, ServerTls};
use crate::pump::{Pump, Turn};
use mio::net::{TcpListener, TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token};
use rustls::ServerConnection;
use rustls::pki_types::UnixTime;
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// So long a handshake has at least, where others wait for its place.
const HANDSHAKE_LEAST: Duration = Duration::from_secs(2);
/// How long a client may take the rest in which its daemon has left.
const LINGER: Duration = Duration::from_secs(5);
/// How often the certificates of all connections are checked again, because they may have expired.
const RECHECK: Duration = Duration::from_secs(10);
/// How many are checked before others have their turn.
const CHECKS: usize = 16;
/// How long it takes at most until it is seen that others are believed from now on.
const LOOK: Duration = Duration::from_secs(1);
/// How long dropping waits for the thread to close its sockets, at most.
const CLOSING: Duration = Duration::from_secs(2);
/// How long nobody is let in where there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// What the daemon holds; listeners follow, then connections.
const LIFELINE: Token = Token(0);
const FIRST_LISTENER: usize = 1;
const FIRST: usize = 1 << 10;

/// A client that has connected.
#[derive(Debug)]
pub struct Arrival {
    /// What it says and is told, plain. It does not block.
    pub stream: StdUnixStream,
    /// Its address.
    pub peer: SocketAddr,
    /// What rules call its certificate: the first DNS name in it, else the first URI.
    pub certificate: Option<String>,
}

/// Listeners for TLS, whose work is done by a thread. Dropped, nobody is let in any more; connections that there are go on
/// until they end, for what stands in them is to be told.
#[derive(Debug)]
pub struct TlsListener {
    arrivals: Receiver<Arrival>,
    lifeline: StdUnixStream,
    addresses: Vec<SocketAddr>,
}

impl TlsListener {
    /// Binds the addresses and lets at most so many clients in at a time.
    ///
    /// # Errors
    /// Those of binding, and of beginning a thread.
    pub fn open(addresses: &[SocketAddr], tls: &ServerTls, most: usize) -> io::Result<Self> {
        let listeners = addresses.iter().map(|address| TcpListener::bind(*address)).collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let (lifeline, other) = StdUnixStream::pair()?;
        lifeline.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let (teller, arrivals) = channel();
        let hall = Hall::new(listeners, tls.clone(), UnixStream::from_std(other), teller, most)?;
        std::thread::Builder::new().name("consort-tls".into()).spawn(move || hall.run())?;
        Ok(Self { arrivals, lifeline, addresses })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The next client that has come in, if there is one; never waits.
    pub fn next_arrival(&self) -> Option<Arrival> {
        // Bells are read before what they ring for.
        while matches!((&self.lifeline).read(&mut [0; 64]), Ok(n) if n > 0) {}
        self.arrivals.try_recv().ok()
    }

    /// What can be read from whenever somebody has come in.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.lifeline.as_fd()
    }
}

impl Drop for TlsListener {
    /// Its addresses are free when this is done.
    fn drop(&mut self) {
        let _ = self.lifeline.shutdown(Shutdown::Write);
        let _ = self.lifeline.set_nonblocking(false);
        let _ = self.lifeline.set_read_timeout(Some(CLOSING));
        while matches!((&self.lifeline).read(&mut [0; 64]), Ok(n) if n > 0) {}
    }
}

/// What the thread holds.
struct Hall {
    poll: Poll,
    listeners: Vec<TcpListener>,
    tls: ServerTls,
    lifeline: UnixStream,
    teller: Sender<Arrival>,
    most: usize,
    guests: BTreeMap<usize, Guest>,
    next: usize,
    /// Those that have more to do, and listeners at which somebody may wait.
    busy: BTreeSet<usize>,
    ready: BTreeSet<usize>,
    paused_until: Option<Instant>,
    recheck: Recheck,
}

/// How far the certificates of all connections are checked again.
struct Recheck {
    belief: Belief,
    /// Those from this one on are not checked yet; `None` if all are.
    reached: Option<usize>,
    /// When all are checked once more.
    next: Instant,
}

/// Whether an error says that a certificate is not believed any more. A clock that was set back, or a list of revocations that
/// is of no use, says nothing of a certificate that was believed.
fn is_final(error: &rustls::Error) -> bool {
    use rustls::{CertificateError as Found, Error};
    let found = match error {
        Error::NoCertificatesPresented => return true,
        Error::InvalidCertificate(found) => found,
        _ => return false,
    };
    matches!(found, Found::Expired | Found::ExpiredContext { .. } | Found::Revoked | Found::UnknownIssuer)
}

struct Guest {
    pump: Pump,
    peer: SocketAddr,
    /// The plain end, until the handshake is over, and when it must be.
    waits: Option<(StdUnixStream, Instant)>,
    /// Once its daemon has left it, when it must be gone.
    lingers: Option<Instant>,
}

impl Guest {
    fn deadline(&self) -> Option<Instant> {
        self.waits.as_ref().map(|(_, until)| *until).or(self.lingers)
    }
}

impl Hall {
    fn new(
        mut listeners: Vec<TcpListener>,
        tls: ServerTls,
        mut lifeline: UnixStream,
        teller: Sender<Arrival>,
        most: usize,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry().register(&mut lifeline, LIFELINE, Interest::READABLE)?;
        for (at, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(FIRST_LISTENER + at), Interest::READABLE)?;
        }
        let ready = (0..listeners.len()).collect();
        let (guests, busy, next, paused_until) = (BTreeMap::new(), BTreeSet::new(), FIRST, None);
        let recheck = Recheck { belief: tls.belief(), reached: None, next: Instant::now() + RECHECK };
        Ok(Self { poll, listeners, tls, lifeline, teller, most, guests, next, busy, ready, paused_until, recheck })
    }

    /// Works until the listener is dropped and the last connection has ended.
    fn run(mut self) {
        let (mut events, mut is_shut) = (Events::with_capacity(256), false);
        while !is_shut || !self.guests.is_empty() {
            let is_busy = !self.busy.is_empty() || self.recheck.reached.is_some();
            let within = if is_busy { Some(Duration::ZERO) } else { self.next_deadline() };
            match self.poll.poll(&mut events, within) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    tracing::error!(%error, "TLS ends: cannot wait for events");
                    return;
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LIFELINE => is_shut |= !self.lives(),
                    Token(listener) if listener < FIRST => drop(self.ready.insert(listener - FIRST_LISTENER)),
                    Token(guest) => drop(self.busy.insert(guest)),
                }
            }
            if is_shut {
                self.shut();
            }
            self.admit();
            for id in std::mem::take(&mut self.busy) {
                self.serve(id);
            }
            self.end_late();
            self.end_unbelieved();
        }
    }

    /// Whether the listener is there still; nothing is ever said to it.
    fn lives(&mut self) -> bool {
        !matches!(self.lifeline.read(&mut [0; 8]), Ok(0))
    }

    /// Nobody is let in any more, and the listener may go.
    fn shut(&mut self) {
        self.listeners.clear();
        self.ready.clear();
        self.guests.retain(|_, guest| guest.waits.is_none());
        let _ = self.lifeline.shutdown(Shutdown::Both);
    }

    fn next_deadline(&self) -> Option<Duration> {
        let late = self.guests.values().filter_map(Guest::deadline);
        let paused = self.paused_until.filter(|_| !self.ready.is_empty());
        let look = (!self.guests.is_empty()).then(|| Instant::now() + LOOK);
        late.chain(paused)
            .chain(look)
            .min()
            .map(|until| until.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn admit(&mut self) {
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.paused_until = None;
        while let Some(at) = self.ready.pop_first() {
            loop {
                if self.guests.len() >= self.most && !self.make_room() {
                    return self.pause(at);
                }
                match self.listeners[at].accept() {
                    Ok((stream, peer)) => self.receive(stream, peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a client; trying again in {} ms", PAUSE.as_millis());
                        return self.pause(at);
                    }
                }
            }
        }
    }

    /// Who has begun a handshake long ago, and not ended it, makes room for another. Whether there is some.
    fn make_room(&mut self) -> bool {
        let long_ago = Instant::now() + HANDSHAKE.saturating_sub(HANDSHAKE_LEAST);
        let waits = |guest: &Guest| guest.waits.as_ref().is_some_and(|(_, until)| *until <= long_ago);
        let Some((oldest, _)) = self.guests.iter().find(|(_, guest)| waits(guest)) else { return false };
        self.end(*oldest, &io::Error::new(ErrorKind::TimedOut, "no whole handshake yet, and others wait"));
        true
    }

    fn pause(&mut self, listener: usize) {
        self.ready.insert(listener);
        self.paused_until = Some(Instant::now() + PAUSE);
    }

    fn receive(&mut self, stream: TcpStream, peer: SocketAddr) {
        match self.begin(stream, peer) {
            Ok(guest) => {
                self.guests.insert(self.next, guest);
                self.busy.insert(self.next);
                self.next += 1;
            }
            Err(error) => tracing::warn!(%error, who = %peer, "cannot serve a client"),
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<Guest> {
        stream.set_nodelay(true)?;
        let watch = TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(1));
        SockRef::from(&stream).set_tcp_keepalive(&watch.with_retries(5))?;
        let (own, other) = StdUnixStream::pair()?;
        own.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let tls = ServerConnection::new(self.tls.config()).map_err(io::Error::other)?;
        let mut pump = Pump::new(tls.into(), stream, UnixStream::from_std(own));
        pump.register(self.poll.registry(), Token(self.next))?;
        Ok(Guest { pump, peer, waits: Some((other, Instant::now() + HANDSHAKE)), lingers: None })
    }

    fn serve(&mut self, id: usize) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let turn = guest.pump.turn();
        if turn.is_ok() && !guest.pump.is_handshaking() && guest.waits.is_some() {
            self.hand_over(id);
        }
        if let Some(guest) = self.guests.get_mut(&id).filter(|guest| guest.pump.plain_has_ended()) {
            guest.lingers.get_or_insert_with(|| Instant::now() + LINGER);
        }
        match turn {
            Ok(Turn::Waits) => {}
            Ok(Turn::More) => drop(self.busy.insert(id)),
            Ok(Turn::Done) => drop(self.guests.remove(&id)),
            Err(error) => self.end(id, &error),
        }
    }

    /// A client has proven what it had to: the daemon may have it.
    fn hand_over(&mut self, id: usize) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let Some((stream, _)) = guest.waits.take() else { return };
        let arrival = Arrival { stream, peer: guest.peer, certificate: guest.pump.subject() };
        if self.teller.send(arrival).is_ok() {
            // Where the socket takes no more, bells enough wait in it.
            let _ = (&self.lifeline).write(&[1]);
        }
    }

    fn end(&mut self, id: usize, error: &io::Error) {
        let Some(guest) = self.guests.remove(&id) else { return };
        let who = guest.peer;
        match guest.waits {
            Some(_) => tracing::warn!(target: "consort::audit", %who, "client refused by TLS: {error}"),
            None => tracing::debug!(%who, %error, "connection broke"),
        }
    }

    /// Ends connections whose certificates have expired since they came in, or are not believed any more since a reload. It
    /// looks at a few in each turn, because that takes as long as a handshake.
    fn end_unbelieved(&mut self) {
        let belief = self.tls.belief();
        let is_due = self.recheck.reached.is_none() && self.recheck.next <= Instant::now();
        if is_due || !belief.is(&self.recheck.belief) {
            self.recheck = Recheck { belief, reached: Some(0), next: Instant::now() + RECHECK };
        }
        let Some(reached) = self.recheck.reached else { return };
        let now = UnixTime::now();
        // Those in their handshake are checked by it.
        let settled = self.guests.range(reached..).filter(|(_, guest)| guest.waits.is_none());
        let some: Vec<_> = settled.take(CHECKS).collect();
        self.recheck.reached = some.last().filter(|_| some.len() == CHECKS).map(|(id, _)| *id + 1);
        let refused = |(id, guest): &(&usize, &Guest)| {
            let error = guest.pump.check(&self.recheck.belief, now).err()?;
            is_final(&error).then_some((**id, error))
        };
        for (id, error) in some.iter().filter_map(refused).collect::<Vec<_>>() {
            let Some(Guest { peer: who, .. }) = self.guests.remove(&id) else { continue };
            tracing::warn!(target: "consort::audit", %who, "client sent away by TLS: {error}");
        }
    }

    fn end_late(&mut self) {
        let now = Instant::now();
        let late = |guest: &Guest| guest.deadline().is_some_and(|until| until <= now);
        let late: Vec<usize> = self.guests.iter().filter(|(_, guest)| late(guest)).map(|(id, _)| *id).collect();
        let error = io::Error::new(ErrorKind::TimedOut, "no whole handshake, or no end, in time");
        late.into_iter().for_each(|id| self.end(id, &error));
    }
}
