//! What daemons of one host say to each other, as somebody on their wire reads it.
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};

/// IPv4 that arrives, and whatever arrives or leaves, as a packet socket is asked for them: in the network's byte order.
const IPV4: u32 = 0x0800_u16.to_be() as u32;
const ALL: u32 = 0x0003_u16.to_be() as u32;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// What no datagram of a daemon exceeds by default; longer ones are several that the kernel has not parted yet.
const LONGEST: usize = 1_472;
/// How long is waited for one packet.
const TURN: Duration = Duration::from_millis(10);

/// A captured datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub bytes: Vec<u8>,
}

/// Captures what arrives for so long, or until there are so many. Must run in the namespace.
///
/// # Errors
/// The system's.
pub fn capture(span: Duration, most: usize) -> io::Result<Vec<Datagram>> {
    read(IPV4, span, most)
}

/// The same with what leaves: what a host sends to all of itself is seen there alone, and all else twice.
///
/// # Errors
/// The system's.
pub fn capture_both(span: Duration, most: usize) -> io::Result<Vec<Datagram>> {
    read(ALL, span, most)
}

fn read(protocol: u32, span: Duration, most: usize) -> io::Result<Vec<Datagram>> {
    let protocol = std::num::NonZeroU32::new(protocol).map(Protocol::from_raw);
    let wire = socket(AddressFamily::PACKET, SocketType::DGRAM, protocol)?;
    set_socket_timeout(&wire, Timeout::Recv, Some(TURN))?;
    let (mut captured, mut room, until) = (Vec::new(), vec![0; 65_536], Instant::now() + span);
    while Instant::now() < until && captured.len() < most {
        match recv(&wire, &mut room[..], RecvFlags::empty()) {
            Ok((len, _)) => captured.extend(datagram(&room[..len]).filter(|one| one.bytes.len() <= LONGEST)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(captured)
}

/// What an IPv4 packet carries, where that is one whole datagram.
fn datagram(packet: &[u8]) -> Option<Datagram> {
    let first = packet.first()?;
    let header = usize::from(first & 0x0f) * 4;
    let (ip, rest) = (packet.get(..20)?, packet.get(header..)?);
    // Neither more fragments nor an offset.
    let is_whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
    let udp = rest.get(..UDP_HEADER)?;
    let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let bytes = rest.get(UDP_HEADER..len)?.to_vec();
    let end = |ip: &[u8], udp: &[u8]| {
        SocketAddrV4::new(Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]), u16::from_be_bytes([udp[0], udp[1]]))
    };
    let (from, to) = (end(&ip[12..16], &udp[..2]), end(&ip[16..20], &udp[2..4]));
    (first >> 4 == 4 && ip[9] == UDP && is_whole).then_some(Datagram { from, to, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10.77.0.1:4841 to 10.77.0.2:4842.
    fn packet(protocol: u8, fragment: u16, said: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, (fragment >> 8) as u8, fragment as u8, 64, protocol, 0, 0];
        packet.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        packet.extend(4_841_u16.to_be_bytes().into_iter().chain(4_842_u16.to_be_bytes()).chain(said.to_be_bytes()));
        packet.extend([0, 0]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn a_datagram_is_read_with_its_ends_and_without_what_pads_it() {
        let found = datagram(&packet(17, 0x4000, 11, b"abc..")).unwrap();
        assert_eq!((found.from.to_string(), found.to.to_string()), ("10.77.0.1:4841".into(), "10.77.0.2:4842".into()));
        assert_eq!(found.bytes, b"abc");
    }

    #[test]
    fn what_is_no_whole_datagram_is_left_alone() {
        assert_eq!(datagram(&packet(6, 0, 11, b"abc")), None, "TCP");
        assert_eq!(datagram(&packet(17, 0x2000, 11, b"abc")), None, "the first fragment of several");
        assert_eq!(datagram(&packet(17, 0, 12, b"abc")), None, "cut");
        assert_eq!(datagram(&packet(17, 0, 7, b"abc")), None, "shorter than its header");
        assert_eq!(datagram(&packet(17, 0, 11, b"abc")[..19]), None);
        assert_eq!(datagram(&[]), None);
        let mut other = packet(17, 0x4000, 11, b"abc");
        other[0] = 0x65;
        assert_eq!(datagram(&other), None, "IPv6");
    }
}
