//! One run of datagrams to one address: put into super-packets where the kernel takes them.
use super::{Pending, len};
use crate::counters::DriverCounters;
use crate::sys::{self, SegmentedBatch, Sending};
use consort_node::Lane;
use socket2::{SockAddr, Socket};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

/// The largest super-packet, in bytes: what one IP packet holds, for both versions of IP.
const BATCH_BYTES: usize = 65_487;
/// The most datagrams in one super-packet that every kernel with GSO takes.
const BATCH_SEGMENTS: usize = 64;
/// At most that many super-packets with one call.
const BATCHES: usize = 16;
/// Where super-packets of datagrams this short are refused, they are refused altogether.
const SHORTEST_WORTH: usize = 512;
/// How often one flush waits for the kernel to take more before it drops: a millisecond each at most.
const WAITS: u32 = 2;
/// How long to wait where the kernel does not tell when there is room again.
const PAUSE: Duration = Duration::from_micros(100);

/// Sends runs.
pub(super) struct Dispatch {
    sending: Sending,
    batches: Vec<SegmentedBatch>,
    /// The longest datagram that goes into super-packets; 0 where the kernel takes none.
    batch_max: usize,
    waits: u32,
    group_buffers: u64,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self { sending: Sending::default(), batches: Vec::new(), batch_max: BATCH_BYTES, waits: 0, group_buffers: 0 }
    }
}

/// What became of one call.
enum SendOutcome {
    /// So many super-packets left.
    Left(usize),
    /// Nothing left; worth another try.
    Again,
    /// The first datagram will never leave.
    Refused,
    /// The kernel will not take more for now.
    Full,
}

impl Dispatch {
    /// A new flush begins: it may wait anew.
    pub(super) fn begin(&mut self) {
        self.waits = WAITS;
    }

    /// How many buffers were handed to the group's address so far.
    pub(super) fn group_buffers(&self) -> u64 {
        self.group_buffers
    }

    /// Sends a run to all members of a group.
    pub(super) fn send_to_group(
        &mut self,
        from: &Socket,
        to: &SockAddr,
        run: &[Pending],
        counters: &mut DriverCounters,
    ) {
        let buffers = self.send_counted(from, to, run, Lane::Data, counters);
        self.group_buffers += buffers;
    }

    /// Sends a run to one address.
    pub(super) fn send(
        &mut self,
        from: &Socket,
        to: &SockAddr,
        run: &[Pending],
        lane: Lane,
        counters: &mut DriverCounters,
    ) {
        self.send_counted(from, to, run, lane, counters);
    }

    /// Sends a run; returns how many buffers the kernel may have seen.
    fn send_counted(
        &mut self,
        from: &Socket,
        to: &SockAddr,
        mut run: &[Pending],
        lane: Lane,
        counters: &mut DriverCounters,
    ) -> u64 {
        let mut buffers = 0;
        while !run.is_empty() {
            let batched = self.build_batches(run);
            let datagrams = run[..batched].iter().map(|pending| &pending.datagram);
            match self
                .sending
                .send(from.as_fd(), to, datagrams, &self.batches)
                .map_or_else(|error| self.on_send_error(&error, from), SendOutcome::Left)
            {
                SendOutcome::Left(batches) => {
                    buffers += batches as u64;
                    let gone: usize = self.batches[..batches].iter().map(|batch| batch.count).sum();
                    counters.gso_batches +=
                        self.batches[..batches].iter().filter(|batch| batch.count > 1).count() as u64;
                    count(counters, lane, &run[..gone]);
                    run = &run[gone..];
                }
                SendOutcome::Again => {}
                SendOutcome::Refused => {
                    buffers += 1;
                    counters.send_errors += 1;
                    run = &run[1..];
                }
                SendOutcome::Full => {
                    counters.send_drops += run.len() as u64;
                    break;
                }
            }
        }
        buffers
    }

    /// Makes super-packets of the front of the run; returns how many datagrams they hold.
    fn build_batches(&mut self, run: &[Pending]) -> usize {
        self.batches.clear();
        let mut batched = 0;
        while self.batches.len() < BATCHES && batched < run.len() {
            let batch = next_batch(&run[batched..], self.batch_max);
            batched += batch.count;
            self.batches.push(batch);
        }
        batched
    }

    fn on_send_error(&mut self, error: &io::Error, socket: &Socket) -> SendOutcome {
        let first = self.batches[0];
        match (error.kind(), error.raw_os_error()) {
            // an answer to an earlier datagram, not to this one
            (ErrorKind::Interrupted | ErrorKind::ConnectionRefused, _) => SendOutcome::Again,
            (ErrorKind::WouldBlock, _) => self.wait(|| drop(sys::wait_writable(socket.as_fd(), 1))),
            (_, Some(libc::ENOBUFS | libc::ENOMEM)) => self.wait(|| std::thread::sleep(PAUSE)),
            (_, Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE)) if first.count > 1 => {
                self.shrink_batches(usize::from(first.segment), error);
                SendOutcome::Again
            }
            _ => {
                tracing::debug!(%error, bytes = first.segment, "a datagram was refused by the kernel");
                SendOutcome::Refused
            }
        }
    }

    fn wait(&mut self, pause: impl FnOnce()) -> SendOutcome {
        if self.waits == 0 {
            return SendOutcome::Full;
        }
        self.waits -= 1;
        pause();
        SendOutcome::Again
    }

    /// The kernel or the network card takes no super-packets of datagrams so long.
    fn shrink_batches(&mut self, segment: usize, error: &io::Error) {
        let altogether = error.raw_os_error() == Some(libc::EIO) || segment <= SHORTEST_WORTH;
        self.batch_max = if altogether { 0 } else { segment - 1 };
        tracing::info!(%error, segment, batch_max = self.batch_max, "super-packets are refused by the kernel");
    }
}

/// The super-packet that begins with the first datagram of the run.
pub(super) fn next_batch(run: &[Pending], batch_max: usize) -> SegmentedBatch {
    let segment = len(&run[0].datagram);
    let alone = SegmentedBatch { count: 1, segment: u16::try_from(segment).unwrap_or(u16::MAX) };
    if segment == 0 || segment > batch_max {
        return alone;
    }
    let (mut count, mut bytes) = (1, segment);
    for pending in &run[1..run.len().min(BATCH_SEGMENTS)] {
        let len = len(&pending.datagram);
        if len == 0 || len > segment || bytes + len > BATCH_BYTES {
            break;
        }
        (count, bytes) = (count + 1, bytes + len);
        if len < segment {
            break;
        }
    }
    SegmentedBatch { count, ..alone }
}

fn count(counters: &mut DriverCounters, lane: Lane, sent: &[Pending]) {
    let traffic = if lane == Lane::Token { &mut counters.token_out } else { &mut counters.data_out };
    sent.iter().for_each(|pending| traffic.add(len(&pending.datagram)));
}
