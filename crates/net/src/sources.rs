//! Datagrams from addresses that are no node's: the kernel drops them before they are copied.
use crate::options::Peer;
use crate::sys;
use consort_types::{Duration, Instant};
use socket2::{SockFilter, Socket};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// From the IP header (`SKF_NET_OFF`).
const IP_SOURCE: u32 = 0xfff0_0000 + 12;
/// A UDP socket's filter sees the UDP header first.
const UDP_SOURCE_PORT: u32 = 0;
/// A jump goes over at most so many instructions.
const JUMP_MOST: usize = 255;

/// The addresses of nodes, if the kernel can tell datagrams by them: all are of IPv4, and none stands for any.
pub(crate) fn of(peers: &[Peer]) -> Option<BTreeSet<Ipv4Addr>> {
    let all = peers.iter().flat_map(|peer| [peer.token.ip(), peer.data.ip()]);
    let known = all.map(|address| match address {
        IpAddr::V4(address) if !address.is_unspecified() => Some(address),
        _ => None,
    });
    known.collect::<Option<BTreeSet<_>>>().filter(|known| known.len() < JUMP_MOST)
}

/// Has the kernel drop what comes to the socket from other addresses than these, if there are any, and from `own`. Without
/// the filter the node drops it. Returns whether it is in place.
pub(crate) fn filter(socket: &Socket, nodes: Option<&BTreeSet<Ipv4Addr>>, own: Option<SocketAddrV4>) -> bool {
    let program = program(nodes, own);
    if program.is_empty() {
        return false;
    }
    match socket.attach_filter(&program) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "the kernel takes no filter: the node drops what is not of nodes, and its own");
            false
        }
    }
}

fn program(nodes: Option<&BTreeSet<Ipv4Addr>>, own: Option<SocketAddrV4>) -> Vec<SockFilter> {
    let mut program = Vec::new();
    if let Some(own) = own {
        program.extend([
            SockFilter::new(LOAD_WORD, 0, 0, IP_SOURCE),
            SockFilter::new(JUMP_IF_EQUAL, 0, 3, u32::from(*own.ip())),
            SockFilter::new(LOAD_HALF, 0, 0, UDP_SOURCE_PORT),
            SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(own.port())),
            SockFilter::new(RETURN, 0, 0, 0),
        ]);
    }
    if let Some(nodes) = nodes {
        program.push(SockFilter::new(LOAD_WORD, 0, 0, IP_SOURCE));
        for (at, node) in nodes.iter().enumerate() {
            // Over the rest of them, and over what drops.
            let taken = u8::try_from(nodes.len() - at).unwrap_or(u8::MAX);
            program.push(SockFilter::new(JUMP_IF_EQUAL, taken, 0, u32::from(*node)));
        }
        program.push(SockFilter::new(RETURN, 0, 0, 0));
    }
    if !program.is_empty() {
        program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    }
    program
}

/// The kernel is asked no more often which datagrams it dropped for want of room.
const ASKED_EACH: Duration = Duration::from_millis(10);

/// Of the datagrams that sockets have dropped, which were lost for want of room: the kernel counts in one number what a
/// filter takes away, too.
#[derive(Debug)]
pub(crate) struct KernelDrops {
    /// How many this network namespace has lost, when it was last looked; `None` where no filter drops, or nobody tells.
    overflowed: Option<u64>,
    dropped: u64,
    lost: u64,
    asked: Option<Instant>,
}

impl KernelDrops {
    /// From here on, with a filter of sources in place or not.
    pub(crate) fn new(filters: bool) -> Self {
        let overflowed = if filters { sys::udp_overflows() } else { None };
        Self { overflowed, dropped: 0, lost: 0, asked: None }
    }

    /// How many of so many dropped ones were lost.
    pub(crate) fn lost(&mut self, now: Instant, dropped: u64) -> u64 {
        self.look(now, dropped, sys::udp_overflows)
    }

    fn look(&mut self, now: Instant, dropped: u64, ask: impl FnOnce() -> Option<u64>) -> u64 {
        let Some(before) = self.overflowed else { return dropped };
        let is_early = self.asked.is_some_and(|asked| now.since(asked) < ASKED_EACH);
        if dropped <= self.dropped || is_early {
            return self.lost;
        }
        self.asked = Some(now);
        // Other sockets of the namespace count there, too: what may be lost is taken for lost.
        let more = dropped - self.dropped;
        let overflowed = ask();
        self.lost += overflowed.map_or(more, |now| more.min(now.saturating_sub(before)));
        (self.overflowed, self.dropped) = (overflowed.or(Some(before)), dropped);
        self.lost
    }

    /// How many were dropped by a filter, as far as that is known.
    pub(crate) const fn filtered(&self) -> u64 {
        self.dropped - self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;
    use std::net::{SocketAddr, UdpSocket};

    const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const AWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    const FAR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

    fn peer(address: SocketAddr) -> Peer {
        Peer { node: NodeId(1), token: address, data: address }
    }

    fn bound(address: Ipv4Addr) -> UdpSocket {
        UdpSocket::bind((address, 0)).unwrap()
    }

    /// What comes to a socket with this filter, of what these send, in their order.
    fn come(nodes: Option<&BTreeSet<Ipv4Addr>>, own: Option<SocketAddrV4>, from: &[&UdpSocket]) -> Vec<u8> {
        let socket = bound(HOME);
        let to = socket.local_addr().unwrap();
        assert!(filter(&Socket::from(socket.try_clone().unwrap()), nodes, own));
        for (at, sender) in (0_u8..).zip(from) {
            sender.send_to(&[at], to).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let mut room = [0; 16];
        std::iter::from_fn(|| socket.recv(&mut room).ok().map(|_| room[0])).collect()
    }

    #[test]
    fn what_is_of_no_node_s_address_does_not_come() {
        let nodes = BTreeSet::from([HOME, FAR]);
        let (home, away, far) = (bound(HOME), bound(AWAY), bound(FAR));
        assert_eq!(come(Some(&nodes), None, &[&home, &away, &far, &away, &home]), [0, 2, 4]);
        let SocketAddr::V4(own) = home.local_addr().unwrap() else { panic!("it is of IPv4") };
        let other = bound(HOME);
        assert_eq!(come(Some(&nodes), Some(own), &[&home, &other, &away, &far]), [1, 3], "nor what is our own");
        assert_eq!(come(None, Some(own), &[&home, &other, &away]), [1, 2]);
    }

    #[test]
    fn as_many_addresses_as_there_may_be_are_told_apart() {
        let nodes: BTreeSet<_> = (0..=u8::MAX - 2).map(|last| Ipv4Addr::new(127, 0, 1, last)).collect();
        let (first, last) = (bound(Ipv4Addr::new(127, 0, 1, 1)), bound(Ipv4Addr::new(127, 0, 1, u8::MAX - 2)));
        assert_eq!(come(Some(&nodes), None, &[&first, &bound(HOME), &last]), [0, 2]);
    }

    #[test]
    fn addresses_that_say_nothing_are_not_told_by() {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 1));
        let six = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 1));
        let four = SocketAddr::from((HOME, 1));
        assert_eq!((of(&[peer(any)]), of(&[peer(four), peer(six)])), (None, None));
        assert_eq!(of(&[peer(four), peer(four)]), Some(BTreeSet::from([HOME])));
        let many = (0..=u8::MAX).map(|last| peer(SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1))));
        assert_eq!(of(&many.collect::<Vec<_>>()), None);
    }

    #[test]
    fn what_a_filter_takes_away_is_not_lost() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut drops = KernelDrops { overflowed: Some(7), dropped: 0, lost: 0, asked: None };
        assert_eq!(drops.look(at(0), 5, || Some(7)), 0, "the namespace has lost nothing");
        assert_eq!(drops.look(at(1), 9, || panic!("not so soon")), 0);
        assert_eq!(drops.look(at(20), 9, || Some(9)), 2, "two of four at most");
        assert_eq!(drops.look(at(40), 9, || panic!("nothing is new")), 2);
        assert_eq!(drops.look(at(40), 10, || Some(50)), 3, "others have lost the rest");
        assert_eq!(drops.look(at(60), 12, || None), 5, "where nobody tells, all may be lost");
        assert_eq!(drops.filtered(), 7);
        let mut plain = KernelDrops::new(false);
        assert_eq!((plain.lost(at(0), 4), plain.filtered()), (4, 0));
        assert!(sys::udp_overflows().is_some(), "this kernel tells");
    }
}
