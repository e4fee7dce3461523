//! A beacon that nobody sent: one that was heard, of an incarnation of its sender that cannot be.
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use consort_types::{ClusterId, ConfigHash, Incarnation, MemberId, NodeId};
use consort_wire::envelope::{self, EnvelopeView, Identity};

use super::stage::GROUP;

/// An incarnation that no clock gives.
const FUTURE: u64 = 1 << 63;
/// How long one is listened for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Hears a datagram of a node at rest, which are beacons, and multicasts it with another incarnation wherever its own
/// stands. Must run in the namespace of this address. Returns how long it is.
///
/// # Errors
/// The system's, or that none was heard.
pub fn from_the_future(node: u16, here: Ipv4Addr) -> io::Result<usize> {
    let (group, port) = (Ipv4Addr::from(GROUP.0), GROUP.1);
    let socket = UdpSocket::bind((group, port))?;
    socket.join_multicast_v4(&group, &here)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut room, deadline) = ([0; 65_536], Instant::now() + PATIENCE);
    while Instant::now() < deadline {
        let len = socket.recv(&mut room)?;
        if let Some(forged) = forged(&room[..len], node) {
            let voice = UdpSocket::bind((here, 0))?;
            return voice.send_to(&forged, SocketAddrV4::new(group, port));
        }
    }
    Err(io::Error::other(format!("heard no beacon of node {node}")))
}

/// What a datagram of this node becomes; `None` for any other, and for what names no incarnation of its sender.
fn forged(datagram: &[u8], node: u16) -> Option<BytesMut> {
    let view = EnvelopeView::new(datagram).ok()?;
    let (lane, from) = (view.lane()?, view.from());
    let own = from.incarnation.0.to_be_bytes();
    let mut packet = datagram.get(envelope::LEN..)?.to_vec();
    let places: Vec<_> = (0..packet.len().saturating_sub(7)).filter(|at| packet[*at..*at + 8] == own).collect();
    if from.node != NodeId(node) || places.is_empty() {
        return None;
    }
    places.into_iter().for_each(|at| packet[at..at + 8].copy_from_slice(&FUTURE.to_be_bytes()));
    let number = |at: usize| datagram[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let me = MemberId { node: from.node, incarnation: Incarnation(FUTURE) };
    let identity = Identity { cluster: ClusterId(number(4)), config: ConfigHash(number(12)), me };
    let mut head = BytesMut::new();
    envelope::reserve(&mut head);
    head.extend_from_slice(&packet);
    envelope::seal(&identity, lane, &mut head, &[]);
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_wire::Lane;

    fn heard(packet: &[u8]) -> (Identity, Vec<u8>) {
        let me = MemberId::new(2, 0x0102_0304_0506_0708);
        let identity = Identity { cluster: ClusterId(7), config: ConfigHash(9), me };
        let mut head = BytesMut::new();
        envelope::reserve(&mut head);
        head.extend_from_slice(packet);
        envelope::seal(&identity, Lane::Data, &mut head, &[]);
        (identity, head.to_vec())
    }

    #[test]
    fn the_sender_is_one_of_the_future_wherever_it_is_named_and_the_sum_is_right() {
        let (identity, datagram) = heard(&[7, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let forged = forged(&datagram, 2).unwrap();
        let other = Identity { me: MemberId::new(1, 1), ..identity };
        let (envelope, packet) = envelope::open(&other, forged.freeze()).unwrap();
        assert_eq!(envelope.from, MemberId { node: NodeId(2), incarnation: Incarnation(FUTURE) });
        assert_eq!(packet.as_ref(), [7, 0x80, 0, 0, 0, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn others_and_what_names_nobody_are_left_alone() {
        let (_, datagram) = heard(&[7, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(forged(&datagram, 3).is_none() && forged(&datagram[..20], 2).is_none());
        assert!(forged(&heard(&[7; 20]).1, 2).is_none());
    }
}
