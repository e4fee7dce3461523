//! A daemon of one node in a thread: a real node behind real sockets, with an engine that orders at once or not at all.
use consort_node::{Bytes, ClientId, Disconnect, DisconnectReason, Effect, Identity, Instant, Limits, Node, Reading};
use consort_order::{
    AcrossPartitions, Arrival, Capability, Delivery, Engine, Fact, Lane, Link, Malformed, Offers, Output, Packet,
    Refused, Retained, Submission,
};
use consort_types::{
    ClusterId, ConfigHash, MemberId, MessageId, NodeId, OrderStream, OrderWait, Position, Primary, Service, Ticket,
    View, ViewCause, ViewId, ViewKind,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a test tells the daemon.
#[derive(Debug, Default)]
struct Orders {
    /// Take requests but do not order them.
    hold: AtomicBool,
    /// Where messages are held: say so, with this reason (index into `HOLDS`, from 1).
    reason: AtomicUsize,
    /// End without a word.
    die: AtomicBool,
    /// Send all clients away.
    stop: AtomicBool,
    /// Do nothing at all.
    frozen: AtomicBool,
}

pub(super) struct Daemon {
    orders: Arc<Orders>,
    pub address: crate::Address,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub fn on_tcp(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let address = crate::Address::Tcp { host: "127.0.0.1".into(), port };
        Self::start(address, limits, move || listener.accept().map(|(socket, _)| Socket::Tcp(socket)))
    }

    pub fn on_unix(path: &Path, limits: Limits) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = crate::Address::Unix(path.into());
        Self::start(address, limits, move || listener.accept().map(|(socket, _)| Socket::Unix(socket)))
    }

    fn start<F>(address: crate::Address, limits: Limits, accept: F) -> Self
    where
        F: Fn() -> io::Result<Socket> + Send + 'static,
    {
        let orders = Arc::new(Orders::default());
        let theirs = Arc::clone(&orders);
        let thread = std::thread::spawn(move || serve(&theirs, limits, accept));
        Self { orders, address, thread: Some(thread) }
    }

    pub fn hold(&self, hold: bool) {
        self.orders.hold.store(hold, Ordering::SeqCst);
    }

    /// Holds messages back, and names this reason.
    pub fn hold_for(&self, hold: OrderWait) {
        let reason = HOLDS.iter().position(|known| *known == hold).unwrap();
        self.orders.reason.store(reason + 1, Ordering::SeqCst);
        self.hold(true);
    }

    pub fn stop(&self) {
        self.orders.stop.store(true, Ordering::SeqCst);
    }

    /// Does nothing any more, as if it were stopped by a signal, or goes on.
    pub fn freeze(&self, frozen: bool) {
        self.orders.frozen.store(frozen, Ordering::SeqCst);
    }

    pub fn die(&mut self) {
        self.orders.die.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join).transpose().unwrap();
    }
}

/// The reasons that a test may have named.
const HOLDS: [OrderWait; 3] = [OrderWait::Window, OrderWait::Membership, OrderWait::Slow(NodeId(3))];

impl Drop for Daemon {
    fn drop(&mut self) {
        self.die();
    }
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read(into),
            Self::Tcp(socket) => socket.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(bytes),
            Self::Tcp(socket) => socket.write(bytes),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_nonblocking(true),
            Self::Tcp(socket) => socket.set_nonblocking(true),
        }
    }
}

struct ServedSocket {
    socket: Socket,
    paused: bool,
    closing: bool,
}

fn serve(orders: &Arc<Orders>, limits: Limits, accept: impl Fn() -> io::Result<Socket>) {
    let me = MemberId::new(0, 7);
    let identity = Identity { cluster: ClusterId(1), config: ConfigHash(1), me };
    let engine = Alone {
        me,
        orders: Arc::clone(orders),
        waiting: VecDeque::new(),
        log: Vec::new(),
        outputs: VecDeque::new(),
        count: 0,
    };
    let mut node = Node::new(identity, engine, limits);
    let mut connections = BTreeMap::new();
    node.start(Instant::ZERO, &[]);
    let (began, mut turn) = (std::time::Instant::now(), 0_u32);
    while !orders.die.load(Ordering::SeqCst) {
        if orders.frozen.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        turn += 1;
        let now = Instant(began.elapsed().as_nanos() as u64);
        if let Ok(socket) = accept() {
            socket.set_nonblocking().unwrap();
            let client = ClientId(turn);
            node.open_client(now, client);
            connections.insert(client, ServedSocket { socket, paused: false, closing: false });
        }
        let mut busy = false;
        for client in connections.keys().copied().collect::<Vec<_>>() {
            busy |= read(&mut node, now, client, &mut connections);
        }
        if orders.stop.load(Ordering::SeqCst) {
            node.send_clients_away(now, &Disconnect::new(DisconnectReason::Stopping, "the daemon stops"));
        }
        node.handle_timeout(now);
        drain(&mut node, &mut connections);
        for client in connections.keys().copied().collect::<Vec<_>>() {
            busy |= write(&mut node, now, client, &mut connections);
        }
        if !busy {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

type ServedSockets = BTreeMap<ClientId, ServedSocket>;

fn read(node: &mut Node<Alone>, now: Instant, client: ClientId, connections: &mut ServedSockets) -> bool {
    let Some(connection) = connections.get_mut(&client).filter(|c| !c.paused && !c.closing) else { return false };
    let mut bytes = vec![0; 16 << 10];
    match connection.socket.read(&mut bytes) {
        Ok(0) => {
            node.close_client(now, client);
            connections.remove(&client);
        }
        Ok(n) => {
            bytes.truncate(n);
            connection.paused = node.handle_client(now, client, bytes.into()) == Reading::Pause;
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
        Err(_) => {
            node.close_client(now, client);
            connections.remove(&client);
        }
    }
    drain(node, connections);
    true
}

fn drain(node: &mut Node<Alone>, connections: &mut ServedSockets) {
    while let Some(effect) = node.poll_effect() {
        match effect {
            Effect::ReadAgain { client } => {
                if let Some(connection) = connections.get_mut(&client) {
                    connection.paused = false;
                }
            }
            Effect::Close { client } => {
                if let Some(connection) = connections.get_mut(&client) {
                    connection.closing = true;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    while node.poll_writable().is_some() {}
}

fn write(node: &mut Node<Alone>, now: Instant, client: ClientId, connections: &mut ServedSockets) -> bool {
    let Some(connection) = connections.get_mut(&client) else { return false };
    let output = node.client_output(client);
    let written = if output.is_empty() { 0 } else { connection.socket.write(output).unwrap_or(0) };
    node.client_written(now, client, written);
    if connection.closing && !node.has_output(client) {
        connections.remove(&client);
    }
    written > 0
}

/// Nothing ever travels.
enum Never {}

impl Packet for Never {
    fn encode(&self, _head: &mut bytes::BytesMut) -> Bytes {
        match *self {}
    }

    fn decode(_bytes: Bytes) -> Result<Self, Malformed> {
        Err(Malformed { what: "packet", at: 0 })
    }
}

/// An engine that has nobody to agree with.
struct Alone {
    me: MemberId,
    orders: Arc<Orders>,
    waiting: VecDeque<Delivery>,
    log: Vec<Delivery>,
    outputs: VecDeque<Output<Never>>,
    count: u64,
}

impl Engine for Alone {
    type Packet = Never;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "alone",
            services: &[Service::Agreed],
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: true,
            replays: true,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, _now: Instant, _records: &[Bytes]) {
        let id = ViewId { number: 1, representative: self.me };
        self.outputs.push_back(Output::Install(View {
            id,
            kind: ViewKind::Regular,
            members: vec![self.me],
            moved_together: vec![self.me],
            primary: Primary::Yes,
            cause: ViewCause::Started,
            evidence: Vec::new(),
            missed_primary: false,
        }));
    }

    fn submit(&mut self, _now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        self.count += 1;
        self.waiting.push_back(Delivery {
            stream: OrderStream(0),
            position: Position(self.count),
            sender: self.me,
            id: Some(MessageId(self.count)),
            class: submission.class,
            service: submission.service,
            payload: submission.payload,
        });
        Ok(MessageId(self.count))
    }

    fn handle_packet(&mut self, _now: Instant, _arrival: Arrival, packet: Never) {
        match packet {}
    }

    fn handle_timeout(&mut self, _now: Instant) {
        if !self.orders.hold.load(Ordering::SeqCst) {
            self.log.extend(self.waiting.iter().cloned());
            self.outputs.extend(self.waiting.drain(..).map(Output::Deliver));
        }
    }

    fn handle_persisted(&mut self, _now: Instant, _ticket: Ticket) {}

    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn annotate(&mut self, _annotation: Bytes) {}

    fn resume(&mut self, _now: Instant, _view: ViewId) {}

    fn leave(&mut self, _now: Instant) {
        self.outputs.push_back(Output::Left);
    }

    fn poll_output(&mut self) -> Option<Output<Never>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn reads_first(&self) -> Lane {
        Lane::Token
    }

    fn retained(&self) -> Option<Retained> {
        Some(Retained { order: 9, first: Position(1), last: Position(self.log.len() as u64) })
    }

    fn replay(&self, from: Position, see: &mut dyn FnMut(&Delivery) -> bool) {
        let _ = self.log.iter().skip_while(|delivery| delivery.position < from).all(see);
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        HOLDS.get(self.orders.reason.load(Ordering::SeqCst).wrapping_sub(1)).copied()
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        see(Fact::State(self.describe(now)));
    }
}

impl Alone {
    fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("alone_waiting", self.waiting.len() as u64);
    }

    fn describe(&self, _now: Instant) -> String {
        "alone".into()
    }
}
