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
/// How many answers to earlier datagrams are taken in a row before the one that is to leave is given up.
const ANSWERS: u32 = 16;
/// How long to wait where the kernel does not tell when there is room again.
const PAUSE: Duration = Duration::from_micros(100);

/// Sends runs.
pub(super) struct Dispatch {
    sending: Sending,
    batches: Vec<SegmentedBatch>,
    /// The longest datagram that goes into super-packets; 0 where the kernel takes none.
    batch_max: usize,
    waits: u32,
    /// How often in a row the kernel answered for an earlier datagram, and not for the one that was to leave.
    answers: u32,
    group_buffers: u64,
    /// Since [`Dispatch::take_refused`] was asked last.
    refused: Option<Refused>,
}

/// Datagrams that the kernel refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) count: u64,
    /// Why, and to which address, of the last one.
    pub(crate) error: io::Error,
    pub(crate) to: String,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            sending: Sending::default(),
            batches: Vec::new(),
            batch_max: BATCH_BYTES,
            waits: 0,
            answers: 0,
            group_buffers: 0,
            refused: None,
        }
    }
}

/// What became of one call.
enum SendOutcome {
    /// So many super-packets left.
    Left(usize),
    /// Nothing left; worth another try.
    Again,
    /// The first datagram will never leave.
    Refused(io::Error),
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
                .map_or_else(|error| self.on_send_error(error, from), SendOutcome::Left)
            {
                SendOutcome::Left(batches) => {
                    buffers += batches as u64;
                    let gone: usize = self.batches[..batches].iter().map(|batch| batch.count).sum();
                    counters.gso_batches +=
                        self.batches[..batches].iter().filter(|batch| batch.count > 1).count() as u64;
                    count(counters, lane, &run[..gone]);
                    run = &run[gone..];
                    self.answers = 0;
                }
                SendOutcome::Again => {}
                SendOutcome::Refused(error) => {
                    self.note_refused(error, to);
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

    fn on_send_error(&mut self, error: io::Error, socket: &Socket) -> SendOutcome {
        let first = self.batches[0];
        match (error.kind(), error.raw_os_error()) {
            // an answer to an earlier datagram, not to this one
            (ErrorKind::Interrupted | ErrorKind::ConnectionRefused, _) if self.answers < ANSWERS => {
                self.answers += 1;
                SendOutcome::Again
            }
            (ErrorKind::WouldBlock, _) => self.wait(|| drop(sys::wait_writable(socket.as_fd(), 1))),
            (_, Some(libc::ENOBUFS | libc::ENOMEM)) => self.wait(|| std::thread::sleep(PAUSE)),
            (_, Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE)) if first.count > 1 => {
                self.shrink_batches(usize::from(first.segment), &error);
                SendOutcome::Again
            }
            _ => SendOutcome::Refused(error),
        }
    }

    fn note_refused(&mut self, error: io::Error, to: &SockAddr) {
        self.answers = 0;
        let before = self.refused.take().map_or(0, |refused| refused.count);
        let to = to.as_socket().map_or_else(String::new, |address| address.to_string());
        self.refused = Some(Refused { count: before + 1, error, to });
    }

    /// What the kernel has refused since this was asked last, if anything.
    pub(super) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// The interface may have changed since super-packets were refused.
    //= W16
    pub(super) fn try_super_packets_again(&mut self) {
        self.batch_max = BATCH_BYTES;
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
        tracing::debug!(%error, segment, batch_max = self.batch_max, "super-packets are refused by the kernel");
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

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn answers_to_earlier_datagrams_are_passed_over_but_not_without_end() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let mut dispatch = Dispatch::default();
        dispatch.batches.push(SegmentedBatch { count: 1, segment: 9 });
        let mut answer = || dispatch.on_send_error(ErrorKind::ConnectionRefused.into(), &socket);
        assert!((0..ANSWERS).all(|_| matches!(answer(), SendOutcome::Again)));
        assert!(matches!(answer(), SendOutcome::Refused(_)), "the datagram is given up");
        dispatch.note_refused(
            ErrorKind::ConnectionRefused.into(),
            &SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 7))),
        );
        let refused = dispatch.take_refused().unwrap();
        assert_eq!((refused.count, refused.to.as_str()), (1, "127.0.0.1:7"));
        assert!(dispatch.take_refused().is_none());
        let again = dispatch.on_send_error(ErrorKind::ConnectionRefused.into(), &socket);
        assert!(matches!(again, SendOutcome::Again), "the next one is tried as often");
    }

    #[test]
    fn super_packets_that_were_refused_once_are_tried_again() {
        //= W16 test
        let mut dispatch = Dispatch::default();
        for error in [libc::EIO, libc::EMSGSIZE] {
            dispatch.shrink_batches(1_400, &io::Error::from_raw_os_error(error));
            assert!(dispatch.batch_max < 1_400);
            dispatch.try_super_packets_again();
            assert_eq!(dispatch.batch_max, BATCH_BYTES);
        }
    }
}
