//! Reliable links: one TCP connection to each other node, for engines that send on [`Lane::Reliable`](consort_wire::Lane).
//!
//! Of two nodes the lower dials. Each end first says who it is and whom it means; from then on the link is up. A frame is
//! its length in four bytes, then an envelope with its packet. A link that breaks loses what was in it, and is set up again.
mod connection;
mod hello;
mod sockets;

use crate::counters::DriverCounters;
use crate::options::Peer;
use crate::seals::Seals;
use crate::sys::Arena;
use connection::{LinkStage, PeerConnection, Read};
use consort_node::{Datagram, Destination};
use consort_order::Link;
use consort_types::{Instant, MemberId, NodeId};
use consort_wire::{Bytes, Identity};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use sockets::listen;

/// The longest frame: the largest message, and what engines say beside it.
const FRAME_MAX: usize = 32 << 20;
/// The longest message, in bytes, of an engine that sends through reliable links.
pub const LINK_MESSAGE_MAX: usize = FRAME_MAX - (1 << 20);
/// So many bytes may wait for a link. Beyond that it is broken: whoever reads so slowly is better told what it missed.
const BUDGET: usize = 64 << 20;
/// So many bytes that wait are written without waiting for more.
const FULL: usize = 1 << 16;
/// How much is read from one link before the next has its turn, in bytes.
const READ: usize = 256 << 10;
/// Memory is taken in chunks of that many bytes.
const CHUNK: usize = 1 << 20;
/// At most that many reads in one turn of the loop.
const READS: u32 = 32;
/// At most that many connections are accepted in one turn.
const ACCEPTS: usize = 16;
/// So many connections, beside one for each node, may be there whose other end has not yet said who it is.
const STRANGERS: usize = 16;
/// For how long the listener is left alone when there are no descriptors or no memory for another connection.
const CLOSED_FOR: Duration = Duration::from_millis(100);
/// How long it may take to connect and to be answered.
const GREETING: Duration = Duration::from_secs(2);
/// How long after a failure it is dialled again, at first and at most.
const REDIAL: Duration = Duration::from_millis(10);
const REDIAL_MAX: Duration = Duration::from_millis(100);
/// A link that stood for so long has shown that the other end is in order.
const STEADY: Duration = Duration::from_secs(1);

/// What links have brought.
#[derive(Debug)]
pub(crate) enum LinkInput {
    /// A frame from that incarnation; its envelope is not checked yet.
    Frame(MemberId, Bytes),
    /// A link came up or broke.
    Changed(NodeId, Link),
}

/// All links of one node.
pub(crate) struct Links {
    identity: Identity,
    seals: Rc<Seals>,
    /// This node's own address: whom it dials sees it from there.
    own: SocketAddr,
    registry: Registry,
    listener: TcpListener,
    listening: Listening,
    /// Events name connections by these, in turn.
    names: Range<usize>,
    next_name: usize,
    peers: BTreeMap<NodeId, PeerLink>,
    open: BTreeMap<usize, PeerConnection>,
    /// ClientConnections that may have something to read.
    turn: VecDeque<usize>,
    reads_left: u32,
    changes: VecDeque<(NodeId, Link)>,
    /// Bytes that were handed in since the last flush.
    fresh: usize,
    arena: Arena,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    /// Nobody waits.
    Idle,
    /// Somebody may wait.
    Ready,
    /// Not to be asked before that time.
    Closed(Instant),
}

/// The link to one other node.
#[derive(Debug)]
struct PeerLink {
    address: SocketAddr,
    /// The connection that carries it.
    up: Option<usize>,
    /// Unless the other dials.
    dial: Option<Dial>,
}

#[derive(Clone, Copy, Debug)]
struct Dial {
    /// When it is dialled next; nothing while there is a connection.
    at: Option<Instant>,
    /// How long it is waited after the next failure.
    wait: Duration,
}

impl Links {
    /// Links to all of `peers` but this node itself. Events name the listener by `name`, connections by `names`.
    pub(crate) fn new(
        identity: Identity,
        seals: Rc<Seals>,
        registry: Registry,
        mut listener: TcpListener,
        peers: &[Peer],
        name: Token,
        names: Range<usize>,
    ) -> io::Result<Self> {
        registry.register(&mut listener, name, Interest::READABLE)?;
        let me = identity.me.node;
        let dial = |node| (me < node).then_some(Dial { at: Some(Instant::ZERO), wait: REDIAL });
        let link = |peer: &Peer| (peer.node, PeerLink { address: peer.token, up: None, dial: dial(peer.node) });
        Ok(Self {
            identity,
            seals,
            own: listener.local_addr()?,
            registry,
            listener,
            listening: Listening::Ready,
            next_name: names.start,
            names,
            peers: peers.iter().filter(|peer| peer.node != me).map(link).collect(),
            open: BTreeMap::new(),
            turn: VecDeque::new(),
            reads_left: READS,
            changes: VecDeque::new(),
            fresh: 0,
            arena: Arena::new(CHUNK),
        })
    }

    /// Somebody waits at the listener.
    pub(crate) const fn on_listener_ready(&mut self) {
        if matches!(self.listening, Listening::Idle) {
            self.listening = Listening::Ready;
        }
    }

    /// Something happened on a connection.
    pub(crate) fn event(&mut self, now: Instant, event: &Event, counters: &mut DriverCounters) {
        let Token(name) = event.token();
        let Some(connection) = self.open.get_mut(&name) else { return };
        if event.is_writable() || event.is_error() {
            connection.unblock();
            if let Err(error) = connection.note_connected(&self.identity, &self.seals, now + GREETING) {
                return self.close(now, name, &error.to_string(), counters);
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.note_readable(event.is_read_closed() || event.is_error());
            self.queue_reading(name);
        }
    }

    /// After a pause: every connection may have something.
    pub(crate) fn mark_all(&mut self) {
        self.on_listener_ready();
        let names: Vec<_> = self.open.keys().copied().collect();
        for name in names {
            self.open.get_mut(&name).into_iter().for_each(|connection| connection.note_readable(false));
            self.queue_reading(name);
        }
    }

    fn queue_reading(&mut self, name: usize) {
        if !self.turn.contains(&name) {
            self.turn.push_back(name);
        }
    }

    /// Once a turn: lets in who waits, dials whom it is time to dial, and gives up whoever says nothing.
    pub(crate) fn tend(&mut self, now: Instant, counters: &mut DriverCounters) {
        self.reads_left = READS;
        self.accept(now, counters);
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let late: Vec<_> = self.open.iter().filter(|(_, one)| one.until().is_some_and(|at| at <= now)).collect();
        let late: Vec<_> = late.into_iter().map(|(name, _)| *name).collect();
        late.into_iter().for_each(|name| self.close(now, name, "said nothing in time", counters));
        let is_due = |link: &PeerLink| link.dial.and_then(|dial| dial.at).is_some_and(|at| at <= now);
        let due: Vec<_> = self.peers.iter().filter(|(_, link)| is_due(link)).map(|(node, _)| *node).collect();
        due.into_iter().for_each(|node| self.dial(now, node));
    }

    /// When to call [`Self::tend`], if nothing happens before.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let dials = self.peers.values().filter_map(|link| link.dial?.at);
        let greetings = self.open.values().filter_map(PeerConnection::until);
        let closed = if let Listening::Closed(until) = self.listening { Some(until) } else { None };
        dials.chain(greetings).chain(closed).min()
    }

    fn accept(&mut self, now: Instant, counters: &mut DriverCounters) {
        if matches!(self.listening, Listening::Closed(until) if until <= now) {
            self.listening = Listening::Ready;
        }
        for _ in 0..ACCEPTS {
            if self.listening != Listening::Ready {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.make_room(now, counters);
                    let admitted = sockets::prepare(&stream)
                        .and_then(|()| self.add(stream, LinkStage::Greeting { peer: None, until: now + GREETING }));
                    if let Err(error) = admitted {
                        tracing::debug!(%error, "cannot take a connection of another node");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.listening = Listening::Idle,
                // Whoever waited has gone again.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {
                }
                Err(error) => {
                    counters.accept_failures += 1;
                    tracing::warn!(%error, "cannot accept a link; trying again in {} ms", CLOSED_FOR.as_millis());
                    self.listening = Listening::Closed(now + CLOSED_FOR);
                }
            }
        }
    }

    /// Of too many that have not said who they are the one goes that had the most time to.
    fn make_room(&mut self, now: Instant, counters: &mut DriverCounters) {
        let strangers = self.open.iter().filter_map(|(name, one)| Some((one.stranger_until()?, *name)));
        let strangers: Vec<_> = strangers.collect();
        if strangers.len() >= STRANGERS + self.peers.len()
            && let Some((_, oldest)) = strangers.into_iter().min()
        {
            self.close(now, oldest, "too many say nothing", counters);
        }
    }

    fn add(&mut self, mut stream: mio::net::TcpStream, stage: LinkStage) -> io::Result<()> {
        let name = self.free_name();
        self.registry.register(&mut stream, Token(name), Interest::READABLE | Interest::WRITABLE)?;
        self.open.insert(name, PeerConnection::new(stream, stage));
        Ok(())
    }

    fn free_name(&mut self) -> usize {
        loop {
            let name = self.next_name;
            self.next_name = if name + 1 < self.names.end { name + 1 } else { self.names.start };
            if !self.open.contains_key(&name) {
                return name;
            }
        }
    }

    fn dial(&mut self, now: Instant, node: NodeId) {
        let Some(link) = self.peers.get_mut(&node) else { return };
        let Some(dial) = &mut link.dial else { return };
        dial.at = None;
        let stage = LinkStage::Dialing { peer: node, until: now + GREETING };
        if let Err(error) = sockets::connect(self.own, link.address).and_then(|stream| self.add(stream, stage)) {
            tracing::debug!(%node, %error, "cannot dial");
            self.redial(now, node);
        }
    }

    /// Dials again after a while, each time a longer one.
    fn redial(&mut self, now: Instant, node: NodeId) {
        if let Some(dial) = self.peers.get_mut(&node).and_then(|link| link.dial.as_mut()) {
            dial.at = Some(now + dial.wait);
            dial.wait = (dial.wait * 2).min(REDIAL_MAX);
        }
    }

    /// The next thing that links have brought. Nothing once all is taken, or enough for one turn.
    pub(crate) fn next(&mut self, now: Instant, counters: &mut DriverCounters) -> Option<LinkInput> {
        loop {
            if let Some((node, link)) = self.changes.pop_front() {
                return Some(LinkInput::Changed(node, link));
            }
            let name = *self.turn.front()?;
            let Some(connection) = self.open.get_mut(&name) else {
                self.turn.pop_front();
                continue;
            };
            match (connection.next_frame(&self.seals), connection.member()) {
                (Ok(Some(frame)), Some(member)) => {
                    counters.link_in.add(frame.len());
                    return Some(LinkInput::Frame(member, frame));
                }
                (Ok(Some(frame)), None) => self.greet(now, name, frame, counters),
                (Ok(None), _) if self.reads_left == 0 => return None,
                (Ok(None), _) => self.read(now, name, counters),
                (Err(error), _) => self.refuse(now, name, &error.to_string(), counters),
            }
        }
    }

    /// Whether there is something to be taken at once.
    pub(crate) fn has_more(&self) -> bool {
        !self.turn.is_empty() || !self.changes.is_empty() || self.listening == Listening::Ready
    }

    fn read(&mut self, now: Instant, name: usize, counters: &mut DriverCounters) {
        self.reads_left -= 1;
        let Some(connection) = self.open.get_mut(&name) else { return };
        let read = connection.read(&mut self.arena);
        self.turn.pop_front();
        match read {
            Read::Bytes => self.turn.push_back(name),
            Read::Nothing => {}
            Read::Ended(why) => self.close(now, name, &why, counters),
        }
    }

    /// Somebody's first frame: who it is.
    fn greet(&mut self, now: Instant, name: usize, frame: Bytes, counters: &mut DriverCounters) {
        let Some(connection) = self.open.get_mut(&name) else { return };
        let expected = connection.expected();
        let member = match hello::read(&self.identity, self.seals.proof(), frame) {
            Ok(member) if expected.is_some_and(|node| node != member.node) => Err(format!("answers as {member}")),
            Ok(member) if expected.is_none() && member.node >= self.identity.me.node => {
                Err(format!("{member} is not the one of the two that dials"))
            }
            Ok(member) if !self.peers.contains_key(&member.node) => Err(format!("{member} is no configured node")),
            Ok(member) => Ok(member),
            Err(why) => Err(why.to_string()),
        };
        let before = member.as_ref().ok().and_then(|member| self.peers.get(&member.node)?.up);
        let known = before.and_then(|name| self.open.get(&name)?.member());
        match member {
            Err(why) => self.refuse(now, name, &why, counters),
            Ok(member) if known.is_some_and(|known| known.incarnation > member.incarnation) => {
                self.refuse(now, name, "an earlier incarnation", counters);
            }
            Ok(member) => {
                if let Some(before) = before {
                    self.close(now, before, "connected anew", counters);
                }
                self.come_up(now, name, member);
            }
        }
    }

    fn come_up(&mut self, now: Instant, name: usize, member: MemberId) {
        let (Some(connection), Some(link)) = (self.open.get_mut(&name), self.peers.get_mut(&member.node)) else {
            return;
        };
        connection.come_up(&self.identity, &self.seals, member, now);
        link.up = Some(name);
        tracing::info!(node = %member.node, "link is up");
        self.changes.push_back((member.node, Link::Up));
    }

    /// What came on the link to that node was wrong: it is broken.
    pub(crate) fn reject(&mut self, now: Instant, node: NodeId, counters: &mut DriverCounters) {
        if let Some(name) = self.peers.get(&node).and_then(|link| link.up) {
            self.refuse(now, name, "sent a frame that is not right", counters);
        }
    }

    fn refuse(&mut self, now: Instant, name: usize, why: &str, counters: &mut DriverCounters) {
        counters.links_refused += 1;
        self.close(now, name, why, counters);
    }

    fn close(&mut self, now: Instant, name: usize, why: &str, counters: &mut DriverCounters) {
        let Some(connection) = self.open.remove(&name) else { return };
        let Some(node) = connection.member().map(|member| member.node).or(connection.expected()) else {
            return tracing::debug!(why, "a stranger's connection is closed");
        };
        let Some(link) = self.peers.get_mut(&node) else { return };
        if link.up == Some(name) {
            link.up = None;
            counters.links_broken += 1;
            tracing::warn!(%node, why, "link is down");
            self.changes.push_back((node, Link::Down));
        } else {
            tracing::debug!(%node, why, "cannot link");
        }
        if let (Some(dial), Some(since)) = (&mut link.dial, connection.up_since())
            && now.since(since) >= STEADY
        {
            dial.wait = REDIAL;
        }
        self.redial(now, node);
    }

    /// Puts a frame into the link to a node; where there is none it is lost, as it would be in one that breaks.
    pub(crate) fn push(&mut self, now: Instant, to: Destination, frame: &Datagram, counters: &mut DriverCounters) {
        let len = frame.head.len() + frame.body.len();
        let node = if let Destination::One(node) = to { Some(node) } else { None };
        let name = node.filter(|_| len <= FRAME_MAX).and_then(|node| self.peers.get(&node)?.up);
        let connection = name.and_then(|name| Some((name, self.open.get_mut(&name)?)));
        let Some((node, (name, connection))) = node.zip(connection) else {
            counters.link_frames_unsent += 1;
            return;
        };
        self.fresh += len;
        counters.link_out.add(len);
        match connection.push(&self.seals, node, frame.clone()) {
            Some(waiting) if waiting > BUDGET => self.close(now, name, "reads too slowly", counters),
            Some(_) => {}
            None => counters.link_frames_unsent += 1,
        }
    }

    /// Whether waiting for more would gain nothing.
    pub(crate) const fn is_due(&self) -> bool {
        self.fresh >= FULL
    }

    /// Writes what the kernel takes.
    pub(crate) fn flush(&mut self, now: Instant, counters: &mut DriverCounters) {
        self.fresh = 0;
        let failed: Vec<_> =
            self.open.iter_mut().filter_map(|(name, one)| Some((*name, one.write().err()?.to_string()))).collect();
        failed.into_iter().for_each(|(name, why)| self.close(now, name, &why, counters));
    }

    /// Whether each link stands, for `status`.
    pub(crate) fn each(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.peers.iter().map(|(node, link)| (*node, link.up.is_some()))
    }
}

#[cfg(test)]
mod tests;
