//! Datagrams in: batches into shared memory, two lanes, read in the order the node wants.
use crate::clock::{Clock, Mapping};
use crate::counters::{DriverCounters, LaneTraffic};
use crate::driver_packets::{DriverPackets, Probed};
use crate::sys::{self, Arena, ReceivedBuffer, Receiving};
use bytes::{Bytes, BytesMut};
use consort_types::{Instant, NodeId};
use consort_wire::path_mtu::SettingsNotice;
use consort_wire::{Lane, path_mtu};
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

/// Memory is taken in chunks of that many bytes.
const CHUNK: usize = 1 << 20;
/// At most that many buffers with one call.
const SLOTS: usize = 8;
/// Room for each buffer: for any datagram, because the membership's may be longer than the cluster's others and then come
/// in fragments; and for as many as the kernel coalesces.
const ROOM: usize = 1 << 16;
/// While the node wants a token first and none is known of, the token's socket is looked at once for so many data
/// packets: a look costs as much as half a packet.
const TOKEN_GLANCE: u32 = 8;

/// A datagram that came.
#[derive(Debug)]
pub(crate) struct ReceivedDatagram {
    pub(crate) at: Instant,
    pub(crate) bytes: Bytes,
}

/// Everything that was received and not yet taken.
pub(crate) struct Inbox {
    clock: Clock,
    arena: Arena,
    receiving: Receiving,
    token: LaneQueue,
    data: LaneQueue,
    driver_packets: DriverPackets,
    /// Data packets since the token's socket was looked at.
    unglanced: u32,
    /// How many of the data lane's sockets are of groups; they stand first.
    groups: usize,
    /// The kernel has just said what is there: what came before a token that it named, it has named, too.
    told: bool,
    arrival_times: bool,
}

/// One lane: what came, and where more comes from; the busiest socket stands first.
struct LaneQueue {
    packets: VecDeque<ReceivedDatagram>,
    sockets: Vec<LaneSource>,
}

impl LaneQueue {
    fn has_more(&self) -> bool {
        !self.packets.is_empty() || self.sockets.iter().any(|source| source.ready)
    }
}

struct LaneSource {
    socket: Rc<Socket>,
    /// The kernel may have something: told by an event, or not yet emptied.
    ready: bool,
    /// When it was last seen empty.
    empty: Instant,
    overflow: Overflow,
}

/// Follows the kernel's count of dropped datagrams, which wraps at 2^32.
#[derive(Clone, Copy, Debug, Default)]
struct Overflow {
    last: u32,
    total: u64,
}

impl Overflow {
    fn see(&mut self, count: u32) {
        self.total += u64::from(count.wrapping_sub(self.last));
        self.last = count;
    }
}

/// Sockets to receive from, of all networks, and how.
pub(crate) struct Receivers {
    pub(crate) tokens: Vec<Rc<Socket>>,
    pub(crate) data: Vec<Rc<Socket>>,
    pub(crate) groups: Vec<Rc<Socket>>,
    /// Whether each data packet needs its own time of arrival.
    pub(crate) arrival_times: bool,
}

impl Inbox {
    pub(crate) fn new(clock: Clock, from: Receivers, driver_packets: DriverPackets) -> io::Result<Self> {
        let mut data = LaneQueue { packets: VecDeque::new(), sockets: Vec::new() };
        let groups = from.groups.len();
        for socket in from.groups.into_iter().chain(from.data) {
            data.sockets.push(LaneSource::data(socket, from.arrival_times)?);
        }
        if from.arrival_times {
            from.tokens.iter().try_for_each(|token| sys::stamp_arrivals(token.as_fd()))?;
        }
        let sockets = from.tokens.into_iter().map(LaneSource::new).collect();
        let token = LaneQueue { packets: VecDeque::new(), sockets };
        let (arena, receiving) = (Arena::new(CHUNK), Receiving::new(SLOTS));
        let arrival_times = from.arrival_times;
        Ok(Self {
            clock,
            arena,
            receiving,
            token,
            data,
            driver_packets,
            unglanced: 0,
            groups,
            told: false,
            arrival_times,
        })
    }

    /// All descriptors, to be watched; an event names them by their place here.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let sources = self.token.sockets.iter().chain(&self.data.sockets);
        sources.map(|source| source.socket.as_raw_fd()).collect()
    }

    /// The kernel says that the socket at that place has something.
    pub(crate) fn mark(&mut self, place: usize) {
        self.told = true;
        if let Some(source) = self.token.sockets.iter_mut().chain(&mut self.data.sockets).nth(place) {
            source.ready = true;
        }
    }

    /// The next packet, from `first` if that lane has one, else from the other.
    pub(crate) fn next(&mut self, first: Lane, counters: &mut DriverCounters) -> Option<ReceivedDatagram> {
        let wants_token = first == Lane::Token;
        let lanes = if wants_token { [Lane::Token, Lane::Data] } else { [Lane::Data, Lane::Token] };
        let told = std::mem::take(&mut self.told);
        let glance = if wants_token { self.unglanced >= TOKEN_GLANCE } else { self.token.has_more() && !told };
        lanes.into_iter().zip([glance, false]).find_map(|(lane, glance)| self.take(lane, glance, counters))
    }

    /// The next token, though nobody said that there is one.
    pub(crate) fn next_token(&mut self, counters: &mut DriverCounters) -> Option<ReceivedDatagram> {
        self.take(Lane::Token, true, counters)
    }

    /// Every socket may have something.
    pub(crate) fn mark_all(&mut self) {
        self.token.sockets.iter_mut().chain(&mut self.data.sockets).for_each(|source| source.ready = true);
    }

    /// Whether the kernel stamps what arrives.
    pub(crate) const fn knows_arrivals(&self) -> bool {
        self.arrival_times
    }

    /// Whether more may be taken without a new event.
    pub(crate) fn has_more(&self) -> bool {
        self.token.has_more() || self.data.has_more()
    }

    /// Whether a packet is here that was not taken yet.
    pub(crate) fn holds_more(&self) -> bool {
        !self.token.packets.is_empty() || !self.data.packets.is_empty()
    }

    /// What a node said next of its settings.
    pub(crate) fn next_settings(&mut self) -> Option<(NodeId, SettingsNotice)> {
        self.driver_packets.next_settings()
    }

    /// The next probe that came.
    pub(crate) fn next_probe(&mut self) -> Option<Probed> {
        self.driver_packets.next_probe()
    }

    /// What came for the driver itself.
    pub(crate) const fn driver_packets(&self) -> &DriverPackets {
        &self.driver_packets
    }

    /// Gives up datagrams whose pieces do not come any more. To be called now and then.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.driver_packets.joins.expire(now);
    }

    /// How many datagrams the kernel dropped: on the sockets for one node, and on those of groups, where what the filter
    /// took away is counted too.
    pub(crate) fn overflow(&self) -> (u64, u64) {
        let sum = |sources: &[LaneSource]| sources.iter().map(|s| s.overflow.total).sum::<u64>();
        let (front, back) = self.data.sockets.split_at(self.groups);
        (sum(&self.token.sockets) + sum(back), sum(front))
    }

    fn take(&mut self, lane: Lane, glance: bool, counters: &mut DriverCounters) -> Option<ReceivedDatagram> {
        let is_token = lane == Lane::Token;
        if self.queue(is_token).packets.is_empty() {
            self.fill(is_token, glance, counters);
        }
        let arrived = self.queue(is_token).packets.pop_front()?;
        if !is_token {
            self.unglanced += 1;
        }
        Some(arrived)
    }

    fn queue(&mut self, is_token: bool) -> &mut LaneQueue {
        if is_token { &mut self.token } else { &mut self.data }
    }

    /// Receives from the lane's sockets that have something; with `glance`, also from the busiest though nobody said so, or
    /// from all that may bring tokens.
    fn fill(&mut self, is_token: bool, glance: bool, counters: &mut DriverCounters) {
        let queue = if is_token { &mut self.token } else { &mut self.data };
        let traffic = if is_token { &mut counters.token_in } else { &mut counters.data_in };
        let driver_packets = &mut self.driver_packets;
        let mut noted = Noted { traffic, driver_packets, by_group: false, batches: 0, too_long: 0 };
        for (i, source) in queue.sockets.iter_mut().enumerate() {
            let glanced = glance && (i == 0 || is_token);
            if !source.ready && !glanced {
                continue;
            }
            if is_token {
                self.unglanced = 0;
            }
            noted.by_group = !is_token && i < self.groups;
            let result =
                source.receive(&mut self.receiving, &mut self.arena, self.clock, &mut queue.packets, &mut noted);
            if let Err(error) = result {
                counters.receive_errors += 1;
                tracing::debug!(%error, "receiving failed");
            }
        }
        counters.gro_batches += noted.batches;
        counters.receive_too_long += noted.too_long;
    }
}

/// What is counted and taken aside while receiving.
struct Noted<'a> {
    traffic: &'a mut LaneTraffic,
    driver_packets: &'a mut DriverPackets,
    /// Whether what comes was multicast.
    by_group: bool,
    batches: u64,
    too_long: u64,
}

impl LaneSource {
    fn new(socket: Rc<Socket>) -> Self {
        Self { socket, ready: true, empty: Instant::ZERO, overflow: Overflow::default() }
    }

    /// Datagrams one by one where each needs its time, else as many at once as the kernel can.
    fn data(socket: Rc<Socket>, arrival_times: bool) -> io::Result<Self> {
        if arrival_times {
            sys::stamp_arrivals(socket.as_fd())?;
        } else {
            let _ = sys::coalesce(socket.as_fd()); // an old kernel cannot
        }
        Ok(Self::new(socket))
    }

    fn receive(
        &mut self,
        receiving: &mut Receiving,
        arena: &mut Arena,
        clock: Clock,
        into: &mut VecDeque<ReceivedDatagram>,
        noted: &mut Noted<'_>,
    ) -> io::Result<()> {
        let empty = self.empty;
        let overflow = &mut self.overflow;
        let mut mapping = None;
        let result = receiving.receive(self.socket.as_fd(), arena, ROOM, |received| {
            let mapping = mapping.get_or_insert_with(|| Mapping::at(clock.now()));
            let at = mapping.arrival(received.stamp, empty);
            received.dropped.into_iter().for_each(|count| overflow.see(count));
            cut(received, at, into, noted);
        });
        match result {
            Ok(emptied) => self.ready = !emptied,
            Err(error) => {
                self.ready = false;
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) {
                    return Err(error);
                }
            }
        }
        if !self.ready {
            self.empty = clock.now();
        }
        Ok(())
    }
}

/// Cuts a buffer into the datagrams that it consists of.
fn cut(received: ReceivedBuffer, at: Instant, into: &mut VecDeque<ReceivedDatagram>, noted: &mut Noted<'_>) {
    let ReceivedBuffer { mut bytes, segment, cut, .. } = received;
    if cut {
        noted.too_long += 1;
        return;
    }
    if let Some(segment) = segment {
        noted.batches += 1;
        while bytes.len() > segment {
            push(bytes.split_to(segment), at, into, noted);
        }
    }
    push(bytes, at, into, noted);
}

fn push(datagram: BytesMut, at: Instant, into: &mut VecDeque<ReceivedDatagram>, noted: &mut Noted<'_>) {
    let Some(bytes) = noted.driver_packets.seals().open(datagram) else { return };
    let for_node = if path_mtu::is_for_driver(&bytes) {
        noted.driver_packets.take(at, bytes, noted.by_group)
    } else {
        Some(bytes)
    };
    if let Some(bytes) = for_node {
        noted.traffic.add(bytes.len() + noted.driver_packets.seals().overhead());
        into.push_back(ReceivedDatagram { at, bytes });
    }
}

#[cfg(test)]
mod tests;
