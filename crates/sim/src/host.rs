//! A host: one processor that everything has to wait for, and two sockets of limited room. Where the model has a network
//! core, that one takes datagrams to the sockets, and the processor runs the process alone.
use crate::fault::Disk;
use crate::network::SimSocket;
use bytes::Bytes;
use consort_order::Lag;
use consort_types::{Duration, Instant, Ticket};
use consort_wire::Lane;
use std::collections::VecDeque;

mod network_core;

pub use network_core::{CoreModel, NetworkCore};

/// What things cost on a host, and how much its sockets hold. The default costs nothing and holds everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// To take a datagram from a socket; without a network core, from the interface.
    pub receive: Duration,
    /// To put a datagram on the network.
    pub send: Duration,
    /// For each byte of a datagram received or sent, in picoseconds.
    pub picos_per_byte: u64,
    /// To take a message from a client, or to give it one.
    pub message: Duration,
    /// To serve a timer.
    pub timer: Duration,
    /// Until a record is on the disk.
    pub disk: Duration,
    /// How many bytes each socket holds; a datagram that finds no room is dropped.
    pub socket: usize,
    /// What a waiting datagram takes of that besides its own bytes.
    pub overhead: usize,
    /// Until a process that sleeps runs, once something has come for it. Timers wake it in time.
    pub wake: Duration,
    /// A core that takes datagrams from the interface to the sockets; without it the processor does that, too.
    pub core: Option<CoreModel>,
}

impl Default for HostModel {
    fn default() -> Self {
        Self {
            receive: Duration::ZERO,
            send: Duration::ZERO,
            picos_per_byte: 0,
            message: Duration::ZERO,
            timer: Duration::ZERO,
            disk: Duration::ZERO,
            socket: usize::MAX,
            overhead: 0,
            wake: Duration::ZERO,
            core: None,
        }
    }
}

impl HostModel {
    /// About a present server core with a kernel network stack.
    pub const SERVER: Self = Self {
        receive: Duration::from_nanos(2_500),
        send: Duration::from_nanos(3_000),
        picos_per_byte: 300,
        message: Duration::from_nanos(800),
        timer: Duration::from_nanos(500),
        disk: Duration::from_micros(100),
        socket: 2 << 20,
        overhead: 768,
        wake: Duration::ZERO,
        core: None,
    };

    /// What so many bytes of a datagram cost.
    pub const fn bytes(&self, len: usize) -> Duration {
        per_byte(self.picos_per_byte, len)
    }
}

const fn per_byte(picos: u64, len: usize) -> Duration {
    Duration::from_nanos(len as u64 * picos / 1_000)
}

/// What a host does next.
#[derive(Debug)]
pub(crate) enum HostTask {
    /// Tell the machine that a record is on the disk.
    Persisted { ticket: Ticket },
    /// Hand a datagram to the machine. It arrived at `arrived`, and was read at `read`.
    Datagram { arrived: Instant, read: Instant, bytes: Bytes },
    /// Let this sender submit.
    Request { sender: u16 },
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// How many of them were read with one call, and when.
    read: (usize, Instant),
}

/// At most so many datagrams are read with one call.
const BATCH: usize = 64;

/// What a host has to do, and when it can. What runs on it is kept elsewhere.
#[derive(Debug)]
pub(crate) struct SimHost {
    pub model: HostModel,
    /// Whether it runs; what arrives at a host that is down is lost.
    pub up: bool,
    /// When the processor has done all it has begun.
    pub free: Instant,
    /// Whether it was not run for a while, and has yet to read what came meanwhile.
    pub lag: Lag,
    /// The earliest wake-up that is scheduled.
    pub wake: Option<Instant>,
    /// How many times more slowly it computes.
    pub slowness: u32,
    /// The room of each socket while a fault limits it.
    pub squeezed: Option<usize>,
    /// Datagrams dropped for want of room, in a socket or at the interface.
    pub overflowed: u64,
    /// Some were since the machine was told of it.
    pub ran_over: bool,
    /// How often the machine asked for a wake-up that had passed already, in a row and without delivering anything.
    pub spins: u32,
    /// How much longer its disk takes at present.
    pub disk_delay: Duration,
    /// Its disk takes no record at present.
    pub disk_fails: bool,
    /// When its disk begins, or began, what it writes last.
    pub disk_begins: Instant,
    /// When its disk has written all it was given.
    pub disk_free: Instant,
    /// It crashes once its machine's next so many wishes are fulfilled, and this becomes of its disk.
    pub dies_after: Option<(u8, Disk)>,
    /// It was asked to leave.
    pub leaves: bool,
    core: NetworkCore,
    token: Queue,
    data: Queue,
    streams: Queue,
    requests: VecDeque<u16>,
    written: VecDeque<Ticket>,
    request_is_next: bool,
}

impl SimHost {
    pub fn new(model: HostModel) -> Self {
        Self {
            model,
            up: false,
            free: Instant::ZERO,
            lag: Lag::default(),
            wake: None,
            slowness: 1,
            squeezed: None,
            overflowed: 0,
            ran_over: false,
            spins: 0,
            disk_delay: Duration::ZERO,
            disk_fails: false,
            disk_begins: Instant::ZERO,
            disk_free: Instant::ZERO,
            dies_after: None,
            leaves: false,
            core: NetworkCore::default(),
            token: Queue::default(),
            data: Queue::default(),
            streams: Queue::default(),
            requests: VecDeque::new(),
            written: VecDeque::new(),
            request_is_next: false,
        }
    }

    /// It stops; what waited in its sockets is lost.
    pub fn stop(&mut self) {
        let Self { model, slowness, squeezed, overflowed, disk_delay, disk_fails, .. } = self;
        *self = Self {
            slowness: *slowness,
            squeezed: *squeezed,
            overflowed: *overflowed,
            disk_delay: *disk_delay,
            disk_fails: *disk_fails,
            ..Self::new(model.clone())
        };
    }

    /// When a record is on the disk that is given to it now. Records that come while others are written follow one by one,
    /// or with `group` all at once.
    pub fn write(&mut self, group: bool) -> Instant {
        let takes = self.model.disk + self.disk_delay;
        if !group || self.free >= self.disk_free {
            (self.disk_begins, self.disk_free) = (self.disk_free.max(self.free), self.disk_free.max(self.free) + takes);
        } else if self.free >= self.disk_begins {
            (self.disk_begins, self.disk_free) = (self.disk_free, self.disk_free + takes);
        }
        self.disk_free
    }

    /// A datagram of so many bytes reaches the interface. Returns when it is to be put into its socket, unless it is dropped.
    pub fn reach(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let at = self.model.core.as_ref().map_or(Some(now), |model| self.core.take(model, now, len));
        self.overflowed += u64::from(at.is_none());
        at
    }

    /// Something is about to come for the process. If it sleeps, it runs a little later.
    pub fn rouse(&mut self, now: Instant) {
        if !self.model.wake.is_zero() && self.free <= now && !self.has_work() {
            self.free = now;
            self.spend(self.model.wake);
        }
    }

    /// Puts a datagram into a socket. Returns whether there was room.
    pub fn arrive(&mut self, now: Instant, socket: SimSocket, bytes: Bytes) -> bool {
        let takes = bytes.len().saturating_add(self.model.overhead);
        let room = self.squeezed.unwrap_or(self.model.socket).min(self.model.socket);
        let queue = self.queue(socket);
        if queue.bytes.saturating_add(takes) > room {
            self.overflowed += 1;
            self.ran_over = true;
            return false;
        }
        queue.bytes += takes;
        queue.waiting.push_back((now, bytes));
        true
    }

    /// A frame of a stream has come. Who sends it waits where there is no room: nothing is dropped.
    pub fn arrive_whole(&mut self, now: Instant, bytes: Bytes) {
        self.streams.waiting.push_back((now, bytes));
    }

    /// A sender on this host wants to submit.
    pub fn request(&mut self, sender: u16) {
        self.requests.push_back(sender);
    }

    pub fn has_work(&self) -> bool {
        self.has_datagrams() || !(self.requests.is_empty() && self.written.is_empty())
    }

    fn has_datagrams(&self) -> bool {
        [&self.token, &self.data, &self.streams].iter().any(|socket| !socket.waiting.is_empty())
    }

    /// It runs, and had asked to be woken at `due`. Returns whether a timer is to be served: not while it is behind.
    pub fn is_due(&mut self, now: Instant, due: Option<Instant>) -> bool {
        self.lag.note(now, due);
        if !self.has_datagrams() {
            self.lag.catch_up();
        }
        !self.lag.is_behind() && due.is_some_and(|due| due <= now)
    }

    /// A record is on the disk; the machine has yet to be told.
    pub fn wrote(&mut self, ticket: Ticket) {
        self.written.push_back(ticket);
    }

    /// The next thing to do: what the disk has done, then datagrams and requests in turn; of the sockets the one that is to
    /// be read first, if there is anything in it.
    pub fn next(&mut self, first: Lane) -> Option<HostTask> {
        if let Some(ticket) = self.written.pop_front() {
            return Some(HostTask::Persisted { ticket });
        }
        self.request_is_next = !self.request_is_next;
        if self.request_is_next {
            self.next_request().or_else(|| self.next_datagram(first))
        } else {
            self.next_datagram(first).or_else(|| self.next_request())
        }
    }

    /// Charges for work that costs so much on a host of normal speed.
    pub fn spend(&mut self, cost: Duration) {
        self.free += cost * self.slowness;
    }

    fn next_request(&mut self) -> Option<HostTask> {
        self.requests.pop_front().map(|sender| HostTask::Request { sender })
    }

    fn next_datagram(&mut self, first: Lane) -> Option<HostTask> {
        let (first, second) = match first {
            Lane::Token => (SimSocket::Token, SimSocket::Data),
            _ => (SimSocket::Data, SimSocket::Token),
        };
        self.take(first).or_else(|| self.take(second)).or_else(|| self.take_whole())
    }

    fn take(&mut self, socket: SimSocket) -> Option<HostTask> {
        let overhead = self.model.overhead;
        let now = self.free;
        let queue = self.queue(socket);
        if queue.read.0 == 0 {
            queue.read = (queue.waiting.len().min(BATCH), now);
        }
        let (arrived, bytes) = queue.waiting.pop_front()?;
        queue.bytes -= bytes.len().saturating_add(overhead);
        queue.read.0 -= 1;
        Some(HostTask::Datagram { arrived, read: queue.read.1, bytes })
    }

    fn take_whole(&mut self) -> Option<HostTask> {
        let (arrived, bytes) = self.streams.waiting.pop_front()?;
        Some(HostTask::Datagram { arrived, read: self.free, bytes })
    }

    const fn queue(&mut self, socket: SimSocket) -> &mut Queue {
        match socket {
            SimSocket::Token => &mut self.token,
            SimSocket::Data => &mut self.data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(len: usize) -> Bytes {
        Bytes::from(vec![0; len])
    }

    fn lens(host: &mut SimHost, first: Lane) -> Vec<usize> {
        let len = |task| match task {
            HostTask::Datagram { bytes, .. } => bytes.len(),
            HostTask::Request { sender } => 1_000 + usize::from(sender),
            HostTask::Persisted { .. } => unreachable!("the disk wrote nothing"),
        };
        std::iter::from_fn(|| host.next(first).map(len)).collect()
    }

    #[test]
    fn a_full_socket_drops_and_counts_and_has_room_again_once_read() {
        let mut host = SimHost::new(HostModel { socket: 1_000, overhead: 100, ..HostModel::default() });
        assert!(host.arrive(Instant(1), SimSocket::Data, datagram(400)));
        assert!(host.arrive(Instant(1), SimSocket::Token, datagram(900)), "each socket has its own room");
        assert!(host.arrive(Instant(2), SimSocket::Data, datagram(400)));
        assert!(!host.arrive(Instant(3), SimSocket::Data, datagram(0)));
        assert_eq!(host.overflowed, 1);
        assert_eq!(lens(&mut host, Lane::Data), [400, 400, 900]);
        assert!(host.arrive(Instant(4), SimSocket::Data, datagram(900)));
    }

    #[test]
    fn the_lane_that_is_wanted_goes_first_and_requests_get_their_turn() {
        let mut host = SimHost::new(HostModel::default());
        for len in [1, 2] {
            host.arrive(Instant(0), SimSocket::Data, datagram(len));
            host.arrive(Instant(0), SimSocket::Token, datagram(len + 10));
            host.request(len as u16);
        }
        host.wrote(Ticket(5));
        assert!(matches!(host.next(Lane::Data), Some(HostTask::Persisted { ticket: Ticket(5) })), "however busy it is");
        assert_eq!(lens(&mut host, Lane::Token), [1_001, 11, 1_002, 12, 1, 2]);
        assert!(!host.has_work());
    }

    #[test]
    fn a_host_that_was_not_run_reads_all_before_it_looks_at_timers() {
        //= M54 test
        let (asked, now) = (Instant(20_000_000), Instant(300_000_000));
        let mut host = SimHost::new(HostModel::default());
        for (at, socket) in [(30, SimSocket::Token), (299, SimSocket::Data)] {
            host.arrive(Instant(at * 1_000_000), socket, datagram(1));
        }
        assert!(!host.is_due(now, Some(asked)), "two datagrams first");
        assert_eq!(host.lag.arrival(now), asked);
        assert_eq!(lens(&mut host, Lane::Data), [1, 1]);
        assert!(host.is_due(now, Some(asked)));
        assert_eq!(host.lag.arrival(now), now);
    }

    #[test]
    fn records_that_come_while_others_are_written_are_written_together() {
        let disk = Duration::from_nanos(100);
        let written = |group| {
            let mut host = SimHost::new(HostModel { disk, ..HostModel::default() });
            [0, 10, 20, 150, 160, 500].map(|at| {
                host.free = Instant(at);
                host.write(group).0
            })
        };
        assert_eq!(written(true), [100, 200, 200, 300, 300, 600]);
        assert_eq!(written(false), [100, 200, 300, 400, 500, 600]);
    }

    #[test]
    fn a_network_core_takes_datagrams_while_the_process_works() {
        let model = CoreModel { datagram: Duration::from_nanos(100), picos_per_byte: 0, ring: 1 };
        let mut host = SimHost::new(HostModel { core: Some(model), ..HostModel::default() });
        host.spend(Duration::from_micros(10));
        assert_eq!([0, 60, 120].map(|at| host.reach(Instant(at), 1)), [Some(Instant(100)), None, Some(Instant(220))]);
        assert_eq!(host.overflowed, 1);
        assert!(!host.ran_over, "a process is told of its sockets, not of the interface");
        let mut alone = SimHost::new(HostModel::default());
        assert_eq!(alone.reach(Instant(60), 1), Some(Instant(60)));
    }

    #[test]
    fn only_a_process_that_sleeps_must_be_woken() {
        let mut host = SimHost::new(HostModel { wake: Duration::from_nanos(500), ..HostModel::default() });
        host.rouse(Instant(1_000));
        assert_eq!(host.free, Instant(1_500));
        host.arrive(Instant(1_000), SimSocket::Data, datagram(1));
        host.rouse(Instant(1_600));
        assert_eq!(host.free, Instant(1_500), "it has something to do");
        host.next(Lane::Data);
        host.rouse(Instant(1_400));
        assert_eq!(host.free, Instant(1_500), "it still does it");
    }

    #[test]
    fn a_slow_host_pays_more() {
        let mut host = SimHost::new(HostModel::SERVER);
        host.slowness = 3;
        host.spend(Duration::from_micros(10));
        assert_eq!(host.free, Instant(30_000));
    }
}
