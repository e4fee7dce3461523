//! Datagrams of nobody among the daemons, at a rate: captured ones as they were, changed, cut, sent back, sent to others,
//! sealed anew with a checksum, and noise; from the addresses of the nodes and from one that is no node's.
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use consort_types::{Incarnation, MemberId, Rng};
use consort_wire::Lane;
use consort_wire::envelope::{self, EnvelopeView, Identity};
use rustix::net::sockopt::set_ip_multicast_if;

use super::capture::{Datagram, capture};
use super::stage::{GROUP, PORT};

/// How many are made before they are sent, and again as long as they are sent.
const MADE: usize = 8_192;
const TICK: Duration = Duration::from_millis(1);
/// How long the daemons are listened to anew between two floods, and how long those last.
const LISTEN: Duration = Duration::from_millis(100);
const ROUND: Duration = Duration::from_millis(900);
/// How many captured datagrams are kept of one time.
pub const KEPT: usize = 2_000;

/// Who floods, and with what.
#[derive(Debug)]
pub struct Flood {
    /// At the addresses of the nodes, then at the one that is no node's.
    sockets: Vec<UdpSocket>,
    nodes: Vec<Ipv4Addr>,
    old: Vec<Datagram>,
    rng: Rng,
    per_second: u32,
}

/// One datagram to be sent.
#[derive(Debug)]
struct Shot {
    socket: usize,
    to: SocketAddrV4,
    bytes: Vec<u8>,
}

/// What is done to a captured datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Replayed,
    Flipped,
    Cut,
    Reflected,
    Misdirected,
    Summed,
    Noise,
}

const FORMS: [Form; 7] =
    [Form::Replayed, Form::Flipped, Form::Cut, Form::Reflected, Form::Misdirected, Form::Summed, Form::Noise];

/// How much was sent, and in how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub datagrams: u64,
    pub time: Duration,
}

impl Flood {
    /// Opens its sockets at the addresses of the nodes, and at a foreign one. `old` was captured long ago. Must run in the
    /// namespace.
    ///
    /// # Errors
    /// The system's.
    pub fn open(nodes: Vec<Ipv4Addr>, foreign: Ipv4Addr, old: Vec<Datagram>, per_second: u32) -> io::Result<Self> {
        let open = |at: &Ipv4Addr| {
            let socket = UdpSocket::bind((*at, 0))?;
            set_ip_multicast_if(&socket, at)?;
            Ok(socket)
        };
        let sockets = nodes.iter().chain([&foreign]).map(open).collect::<io::Result<_>>()?;
        Ok(Self { sockets, nodes, old, rng: Rng::new(7), per_second })
    }

    /// Floods until it is to stop. Must run in the namespace, where it listens between floods.
    ///
    /// # Errors
    /// The system's.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<Sent> {
        let mut sent = Sent::default();
        while !stop.load(Ordering::Relaxed) {
            let fresh = capture(LISTEN, KEPT)?;
            let shots: Vec<Shot> = (0..MADE).filter_map(|_| self.shot(&fresh)).collect();
            let fired = self.fire(&shots);
            (sent.datagrams, sent.time) = (sent.datagrams + fired.datagrams, sent.time + fired.time);
        }
        Ok(sent)
    }

    /// Sends them over and over for a round, no faster than it is to be.
    fn fire(&self, shots: &[Shot]) -> Sent {
        let (start, mut tried, mut datagrams) = (Instant::now(), 0.0, 0);
        for shot in shots.iter().cycle() {
            let time = start.elapsed();
            if time >= ROUND {
                break;
            }
            if tried > time.as_secs_f64() * f64::from(self.per_second) {
                std::thread::sleep(TICK);
            }
            // A port that nobody has, and a queue that is full, take none.
            datagrams += u64::from(self.sockets[shot.socket].send_to(&shot.bytes, shot.to).is_ok());
            tried += 1.0;
        }
        Sent { datagrams, time: start.elapsed() }
    }

    fn shot(&mut self, fresh: &[Datagram]) -> Option<Shot> {
        let rng = &mut self.rng;
        let from = if self.old.is_empty() || (rng.chance(0.7) && !fresh.is_empty()) { fresh } else { &self.old };
        let captured = from.get(rng.below(from.len() as u64) as usize)?;
        let form = FORMS[rng.below(FORMS.len() as u64) as usize];
        let other = self.nodes[rng.below(self.nodes.len() as u64) as usize];
        let to = match form {
            Form::Reflected => SocketAddrV4::new(*captured.from.ip(), PORT),
            Form::Misdirected => SocketAddrV4::new(other, captured.to.port()),
            Form::Noise if rng.chance(0.5) => SocketAddrV4::new(Ipv4Addr::from(GROUP.0), GROUP.1),
            _ => captured.to,
        };
        let bytes = changed(form, &captured.bytes, rng)?;
        // Mostly from where its sender is, so that no filter of addresses spares the daemons.
        let own = self.nodes.iter().position(|node| node == captured.from.ip());
        let socket = if rng.chance(0.2) { self.nodes.len() } else { own.unwrap_or(0) };
        Some(Shot { socket, to, bytes })
    }
}

/// The bytes of a captured datagram in this form.
fn changed(form: Form, captured: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let mut bytes = captured.to_vec();
    let mut flip = |bytes: &mut [u8]| {
        for _ in 0..rng.between(1, 8) {
            let at = rng.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
    };
    match form {
        Form::Replayed | Form::Reflected | Form::Misdirected => {}
        Form::Flipped => flip(&mut bytes),
        Form::Cut => bytes.truncate(rng.below(captured.len() as u64) as usize),
        Form::Summed => {
            flip(bytes.get_mut(envelope::LEN..)?);
            return summed(&bytes, rng);
        }
        Form::Noise => bytes = (0..rng.between(0, 1_472)).map(|_| rng.next_u64() as u8).collect(),
    }
    Some(bytes)
}

/// The same packet as if no key were in use, with the checksum that is right for it; sometimes of a later incarnation.
fn summed(datagram: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let view = EnvelopeView::new(datagram).ok()?;
    let from = view.from();
    let later = Incarnation(from.incarnation.0 + rng.below(2));
    let me = MemberId { node: from.node, incarnation: later };
    let identity = Identity { cluster: view.cluster(), config: view.config(), me };
    let mut head = BytesMut::new();
    envelope::reserve(&mut head);
    head.extend_from_slice(datagram.get(envelope::LEN..)?);
    envelope::seal(&identity, view.lane().unwrap_or(Lane::Data), &mut head, &[]);
    Some(head.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::{ClusterId, ConfigHash};

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let identity = Identity { cluster: ClusterId(7), config: ConfigHash(9), me: MemberId::new(2, 77) };
        let mut head = BytesMut::new();
        envelope::reserve(&mut head);
        head.extend_from_slice(payload);
        envelope::seal(&identity, Lane::Data, &mut head, &[]);
        head.to_vec()
    }

    #[test]
    fn each_form_is_what_it_is_called() {
        let (captured, mut rng) = (datagram(&[5; 100]), Rng::new(1));
        for _ in 0..200 {
            for same in [Form::Replayed, Form::Reflected, Form::Misdirected] {
                assert_eq!(changed(same, &captured, &mut rng).unwrap(), captured);
            }
            assert_eq!(changed(Form::Flipped, &captured, &mut rng).unwrap().len(), captured.len());
            assert!(captured.starts_with(&changed(Form::Cut, &captured, &mut rng).unwrap()));
            let summed = changed(Form::Summed, &captured, &mut rng).unwrap();
            let view = EnvelopeView::new(&summed).unwrap();
            assert!(view.is_whole() && view.from().node.0 == 2 && (77..=78).contains(&view.from().incarnation.0));
        }
        assert_eq!(changed(Form::Summed, b"short", &mut rng), None);
        assert_eq!(changed(Form::Flipped, b"", &mut rng), Some(Vec::new()));
    }

    #[test]
    fn all_forms_come_from_nodes_and_from_elsewhere() {
        let here = [Ipv4Addr::LOCALHOST; 2].to_vec();
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let captured = Datagram { from, to: from, bytes: datagram(&[5; 100]) };
        let mut flood = Flood::open(here, Ipv4Addr::LOCALHOST, vec![captured], 1_000).unwrap();
        let shots: Vec<_> = (0..500).filter_map(|_| flood.shot(&[])).collect();
        assert_eq!(shots.len(), 500);
        assert!(shots.iter().any(|shot| shot.socket == 2) && shots.iter().any(|shot| shot.socket == 0));
        flood.old.clear();
        assert!(flood.shot(&[]).is_none(), "nothing was captured");
    }
}
