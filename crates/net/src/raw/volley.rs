//! Many datagrams to one address, with as few calls as the kernel needs.
use crate::sys::{SegmentedBatch, Sending};
use bytes::Bytes;
use consort_node::Datagram;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The most datagrams in one super-packet, and the most bytes.
const LARGEST: (usize, usize) = (64, 65_487);

/// Reusable memory for sending volleys.
#[derive(Default)]
pub struct Volleys(Sending);

/// Datagrams for one address, each as it is.
#[derive(Debug)]
pub struct Volley {
    to: SocketAddr,
    datagrams: Vec<Datagram>,
    batches: Vec<SegmentedBatch>,
}

impl Volley {
    /// These datagrams; those of equal length next to each other leave in one super-packet (GSO).
    pub fn new(to: SocketAddr, datagrams: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let whole = |bytes: Vec<u8>| Datagram { head: bytes.into(), body: Bytes::new() };
        let datagrams: Vec<_> = datagrams.into_iter().map(whole).collect();
        let (mut batches, mut rest): (Vec<_>, &[Datagram]) = (Vec::new(), &datagrams);
        while let Some(first) = rest.first() {
            let len = first.head.len();
            // Without a byte there is nothing by which the kernel could part them.
            let most = LARGEST.1.checked_div(len).map_or(1, |most| most.clamp(1, LARGEST.0));
            let count = rest.iter().take(most).take_while(|one| one.head.len() == len).count();
            batches.push(SegmentedBatch { count, segment: u16::try_from(len).unwrap_or(u16::MAX) });
            rest = &rest[count..];
        }
        Self { to, datagrams, batches }
    }

    /// Where they go.
    pub const fn to(&self) -> SocketAddr {
        self.to
    }

    /// How many datagrams.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

impl Volleys {
    /// Sends them without waiting. Returns how many have left: a super-packet that the kernel refuses is left out.
    pub fn send(&mut self, socket: BorrowedFd<'_>, volley: &Volley) -> u64 {
        let (to, mut sent) = (volley.to.into(), 0);
        let (mut datagrams, mut batches) = (&volley.datagrams[..], &volley.batches[..]);
        while !batches.is_empty() {
            let left = self.0.send(socket, &to, datagrams.iter(), batches);
            let passed = *left.as_ref().unwrap_or(&1);
            let (these, others) = batches.split_at(passed.clamp(1, batches.len()));
            let count = these.iter().map(|batch| batch.count).sum();
            sent += if left.is_ok() { count as u64 } else { 0 };
            (datagrams, batches) = (&datagrams[count..], others);
        }
        sent
    }
}
