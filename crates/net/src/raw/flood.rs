//! As many datagrams to a group as all receivers take.
use crate::sys::{self, Arena, Receiving, SegmentedBatch, Sending};
use bytes::{BufMut, Bytes, BytesMut};
use consort_node::Datagram;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The bytes that a flood's datagram needs for itself: the run's number, its own number.
const HEAD: usize = 16;
/// Numbers the datagram that ends a flood.
const END: u64 = u64::MAX;
/// How often the end is said, because it may get lost.
const ENDS: usize = 5;
/// How far the sender runs ahead of the slowest receiver, in bytes.
const AHEAD: usize = 1 << 20;
/// The receivers' buffers, in bytes.
const BUFFER: usize = 16 << 20;
/// How long the sender waits for a sign of incarnation before it takes what is under way for lost.
const STALL: Duration = Duration::from_millis(50);
/// How long both sides wait for each other at the beginning.
const MEETING: Duration = Duration::from_secs(10);
/// How often a receiver says that it is there, until the flood begins.
const HELLO: Duration = Duration::from_millis(20);
/// The most datagrams and bytes in one super-packet.
const BATCH: (usize, usize) = (64, 65_487);

/// What is flooded, the same for all sides.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Where the datagrams go.
    pub group: SocketAddrV4,
    /// On which interface.
    pub interface: Ipv4Addr,
    /// Where the sender hears of the receivers' progress; it binds this address.
    pub sender: SocketAddr,
    /// The length of each datagram in bytes; at least 16.
    pub size: usize,
    /// Whether super-packets are sent (GSO); single datagrams with single calls else.
    pub gso: bool,
    /// Whether super-packets are received (GRO), and several with one call; single datagrams with single calls else.
    pub gro: bool,
    /// How many processes receive.
    pub receivers: usize,
    /// How long to send.
    pub limit: Duration,
    /// Tells runs apart that share a group; any number.
    pub run: u64,
}

/// What one side saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flooded {
    /// Datagrams sent, or received.
    pub packets: u64,
    /// Datagrams that were sent and did not come; 0 at the sender.
    pub lost: u64,
    /// From the first datagram to the last.
    pub elapsed: Duration,
}

impl Flooded {
    /// Datagrams a second.
    pub fn packets_per_second(&self) -> f64 {
        self.packets as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Sends a flood to all receivers once they are all there.
///
/// # Errors
/// Those of the sockets; `TimedOut` where a receiver is missing after ten seconds.
pub fn send_flood(flood: &Flood) -> io::Result<Flooded> {
    let mut sender = FloodSender::new(flood)?;
    sender.meet()?;
    let began = Instant::now();
    while began.elapsed() < flood.limit {
        sender.burst()?;
        sender.hear()?;
    }
    let elapsed = began.elapsed();
    let packets = sender.next;
    for _ in 0..ENDS {
        sender.send(&[sender.datagram(END)])?;
    }
    Ok(Flooded { packets, lost: 0, elapsed })
}

struct FloodSender<'a> {
    flood: &'a Flood,
    socket: Socket,
    group: SockAddr,
    reports: UdpSocket,
    /// How far each receiver is.
    progress: BTreeMap<u64, u64>,
    heard: Instant,
    next: u64,
    sending: Sending,
    body: Bytes,
}

impl<'a> FloodSender<'a> {
    fn new(flood: &'a Flood) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_multicast_if_v4(&flood.interface)?;
        socket.set_multicast_ttl_v4(1)?;
        sys::force_buffer(socket.as_fd(), BUFFER, false)?;
        let reports = UdpSocket::bind(flood.sender)?;
        reports.set_nonblocking(true)?;
        Ok(Self {
            flood,
            socket,
            group: flood.group.into(),
            reports,
            progress: BTreeMap::new(),
            heard: Instant::now(),
            next: 0,
            sending: Sending::default(),
            body: vec![0; flood.size.saturating_sub(HEAD)].into(),
        })
    }

    fn meet(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while self.progress.len() < self.flood.receivers {
            if began.elapsed() > MEETING {
                return Err(ErrorKind::TimedOut.into());
            }
            sys::wait_readable(self.reports.as_fd(), 10)?;
            self.hear()?;
        }
        Ok(())
    }

    /// Reads what receivers report.
    fn hear(&mut self) -> io::Result<()> {
        let mut room = [0; 32];
        loop {
            match self.reports.recv(&mut room) {
                Ok(24) => {
                    let (run, who, next) = (number(&room, 0), number(&room, 8), number(&room, 16));
                    if run == self.flood.run {
                        self.heard = Instant::now();
                        let known = self.progress.entry(who).or_default();
                        *known = next.max(*known);
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends as much as one call takes, or waits if the slowest receiver is too far behind.
    fn burst(&mut self) -> io::Result<()> {
        let slowest = self.progress.values().copied().min().unwrap_or(self.next);
        let ahead = (AHEAD / self.flood.size.max(HEAD)) as u64;
        let may = (slowest + ahead).saturating_sub(self.next);
        let whole = if self.flood.gso { BATCH.0.min(BATCH.1 / self.flood.size.max(HEAD)).max(1) } else { 1 };
        if may < whole as u64 {
            return self.wait();
        }
        let datagrams: Vec<_> = (0..whole as u64).map(|i| self.datagram(self.next + i)).collect();
        self.send(&datagrams)?;
        self.next += whole as u64;
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        if !sys::wait_readable(self.reports.as_fd(), 1)? && self.heard.elapsed() > STALL {
            self.progress.values_mut().for_each(|next| *next = self.next);
            self.heard = Instant::now();
        }
        Ok(())
    }

    fn send(&mut self, datagrams: &[Datagram]) -> io::Result<()> {
        let segment = u16::try_from(self.flood.size.max(HEAD)).unwrap_or(u16::MAX);
        let batch = SegmentedBatch { count: datagrams.len(), segment };
        loop {
            match self.sending.send(self.socket.as_fd(), &self.group, datagrams.iter(), &[batch]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    sys::wait_writable(self.socket.as_fd(), 10)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn datagram(&self, number: u64) -> Datagram {
        let mut head = BytesMut::with_capacity(HEAD);
        head.put_u64(self.flood.run);
        head.put_u64(number);
        Datagram { head: head.freeze(), body: self.body.clone() }
    }
}

/// Receives a flood, from when its first datagram comes until its end, or until nothing comes for a second.
///
/// # Errors
/// Those of the sockets; `TimedOut` where no flood began within ten seconds.
pub fn receive_flood(flood: &Flood) -> io::Result<Flooded> {
    let mut receiver = FloodReceiver::new(flood)?;
    receiver.meet()?;
    while !receiver.ended {
        if !receiver.receive(1_000)? {
            break;
        }
        receiver.report_if_due()?;
    }
    let lost = receiver.next.saturating_sub(receiver.packets);
    let elapsed = receiver.first.zip(receiver.last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(Flooded { packets: receiver.packets, lost, elapsed })
}

struct FloodReceiver<'a> {
    flood: &'a Flood,
    socket: Socket,
    reports: UdpSocket,
    me: u64,
    receiving: Receiving,
    arena: Arena,
    packets: u64,
    /// The number after the highest one seen.
    next: u64,
    reported: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    ended: bool,
}

impl<'a> FloodReceiver<'a> {
    fn new(flood: &'a Flood) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&flood.group.into())?;
        socket.set_multicast_all_v4(false)?;
        socket.join_multicast_v4(flood.group.ip(), &flood.interface)?;
        sys::force_buffer(socket.as_fd(), BUFFER, true)?;
        if flood.gro {
            sys::coalesce(socket.as_fd())?;
        }
        let reports = UdpSocket::bind((flood.interface, 0))?;
        reports.connect(flood.sender)?;
        let me = u64::from(std::process::id()) << 16 | u64::from(reports.local_addr()?.port());
        Ok(Self {
            flood,
            socket,
            reports,
            me,
            receiving: Receiving::new(if flood.gro { 8 } else { 1 }),
            arena: Arena::new(1 << 20),
            packets: 0,
            next: 0,
            reported: 0,
            first: None,
            last: None,
            ended: false,
        })
    }

    fn meet(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while self.first.is_none() && !self.ended {
            if began.elapsed() > MEETING {
                return Err(ErrorKind::TimedOut.into());
            }
            self.report()?;
            self.receive(i32::try_from(HELLO.as_millis()).unwrap_or(20))?;
        }
        Ok(())
    }

    /// Receives once, waiting for at most that many milliseconds. Returns whether anything came.
    fn receive(&mut self, milliseconds: i32) -> io::Result<bool> {
        if !sys::wait_readable(self.socket.as_fd(), milliseconds)? {
            return Ok(false);
        }
        let Self { receiving, arena, socket, flood, .. } = self;
        let room = if flood.gro { 1 << 16 } else { flood.size.max(HEAD) };
        let mut came = Vec::new();
        receiving.receive(socket.as_fd(), arena, room, |received| came.push(received))?;
        let before = self.packets;
        for received in came {
            let segment = received.segment.unwrap_or(received.bytes.len()).max(1);
            received.bytes.chunks(segment).for_each(|datagram| self.note(datagram));
        }
        if self.packets > before {
            self.last = Some(Instant::now());
            self.first = self.first.or(self.last);
        }
        Ok(true)
    }

    fn note(&mut self, datagram: &[u8]) {
        if datagram.len() < HEAD || number(datagram, 0) != self.flood.run {
            return;
        }
        let number = number(datagram, 8);
        if number == END {
            self.ended = true;
            return;
        }
        self.packets += 1;
        self.next = self.next.max(number + 1);
    }

    /// Eight times while the sender runs through what it may be ahead.
    fn report_if_due(&mut self) -> io::Result<()> {
        let ahead = (AHEAD / self.flood.size.max(HEAD)) as u64;
        if self.next - self.reported >= (ahead / 8).max(1) { self.report() } else { Ok(()) }
    }

    fn report(&mut self) -> io::Result<()> {
        let mut report = BytesMut::with_capacity(24);
        [self.flood.run, self.me, self.next].into_iter().for_each(|number| report.put_u64(number));
        self.reported = self.next;
        match self.reports.send(&report) {
            // the sender is not there yet, or no longer
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            result => result.map(drop),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
}
