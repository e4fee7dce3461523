//! Datagrams of nobody among the daemons, at a rate: captured ones as they were, changed, cut, sent back, sent to others,
//! sealed anew with a checksum, and noise; from the addresses of the nodes and from one that is no node's.
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use consort_net::raw::{Volley, Volleys};
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
/// How many different lengths noise and cut datagrams have in one round: those of one length leave together.
const DIFFERENT: usize = 16;
/// The longest datagram.
const LONGEST: u64 = 1_472;
/// How many datagrams a sender sends before it looks at the clock.
const AT_ONCE: usize = 128;

/// Who floods, and with what.
#[derive(Debug)]
pub struct Flood {
    /// Those of each sender.
    senders: Vec<Vec<UdpSocket>>,
    nodes: Vec<Ipv4Addr>,
    old: Vec<Datagram>,
    rng: Rng,
    /// Of noise and of cut datagrams, in this round.
    lengths: [usize; DIFFERENT],
    per_second: u32,
}

/// One datagram to be sent.
#[derive(Debug)]
struct Shot {
    /// At the address of this node, or, behind all of them, at the one that is no node's.
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
    /// Opens sockets at the addresses of the nodes, and at a foreign one, for so many senders. `old` was captured long ago.
    /// Must run in the namespace.
    ///
    /// # Errors
    /// The system's.
    pub fn open(
        nodes: Vec<Ipv4Addr>,
        foreign: Ipv4Addr,
        old: Vec<Datagram>,
        per_second: u32,
        senders: u32,
    ) -> io::Result<Self> {
        let open = |at: &Ipv4Addr| {
            let socket = UdpSocket::bind((*at, 0))?;
            set_ip_multicast_if(&socket, at)?;
            Ok(socket)
        };
        let sockets = || nodes.iter().chain([&foreign]).map(open).collect();
        let senders = (0..senders.max(1)).map(|_| sockets()).collect::<io::Result<_>>()?;
        Ok(Self { senders, nodes, old, rng: Rng::new(7), lengths: [0; DIFFERENT], per_second })
    }

    /// Floods until it is to stop. Must run in the namespace, where it listens between floods.
    ///
    /// # Errors
    /// The system's.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<Sent> {
        let mut sent = Sent::default();
        while !stop.load(Ordering::Relaxed) {
            let fresh = capture(LISTEN, KEPT)?;
            let volleys = self.volleys(&fresh);
            let fired = self.fire(&volleys);
            (sent.datagrams, sent.time) = (sent.datagrams + fired.datagrams, sent.time + fired.time);
        }
        Ok(sent)
    }

    /// All senders send at once, each in another order, together no faster than it is to be.
    fn fire(&self, volleys: &[(usize, Volley)]) -> Sent {
        let (start, each) = (Instant::now(), f64::from(self.per_second) / self.senders.len() as f64);
        let datagrams = std::thread::scope(|scope| {
            let mut senders = Vec::new();
            for (at, sockets) in self.senders.iter().enumerate() {
                let (first, last) = volleys.split_at(at * volleys.len() / self.senders.len());
                senders.push(scope.spawn(move || fire(sockets, last.iter().chain(first), each)));
            }
            senders.into_iter().map(|sender| sender.join().unwrap_or_else(|panic| resume_unwind(panic))).sum()
        });
        Sent { datagrams, time: start.elapsed() }
    }

    /// Datagrams anew, those of one socket and one address together, and each with its socket.
    fn volleys(&mut self, fresh: &[Datagram]) -> Vec<(usize, Volley)> {
        let rng = &mut self.rng;
        self.lengths = std::array::from_fn(|_| rng.between(0, LONGEST) as usize);
        let mut together: BTreeMap<(usize, SocketAddrV4), Vec<Vec<u8>>> = BTreeMap::new();
        for Shot { socket, to, bytes } in (0..MADE).filter_map(|_| self.shot(fresh)) {
            together.entry((socket, to)).or_default().push(bytes);
        }
        let mut volleys = Vec::new();
        for ((socket, to), mut datagrams) in together {
            datagrams.sort_by_key(Vec::len);
            volleys.extend(datagrams.chunks(AT_ONCE).map(|some| (socket, Volley::new(to.into(), some.to_vec()))));
        }
        volleys
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
        let length = self.lengths[rng.below(DIFFERENT as u64) as usize];
        let bytes = changed(form, &captured.bytes, length, rng)?;
        // Mostly from where its sender is, so that no filter of addresses spares the daemons.
        let own = self.nodes.iter().position(|node| node == captured.from.ip());
        let socket = if rng.chance(0.2) { self.nodes.len() } else { own.unwrap_or(0) };
        Some(Shot { socket, to, bytes })
    }
}

/// Sends them over and over for a round, so many a second at most. Returns how many have left.
fn fire<'a>(sockets: &[UdpSocket], volleys: impl Iterator<Item = &'a (usize, Volley)> + Clone, per_second: f64) -> u64 {
    let (start, mut tried, mut sent) = (Instant::now(), 0.0, 0);
    let mut sending = Volleys::default();
    for (socket, volley) in volleys.cycle() {
        let time = start.elapsed();
        if time >= ROUND {
            break;
        }
        if tried > time.as_secs_f64() * per_second {
            std::thread::sleep(TICK);
        }
        // A port that nobody has, and a queue that is full, take none.
        sent += sending.send(sockets[*socket].as_fd(), volley);
        tried += volley.len() as f64;
    }
    sent
}

/// The bytes of a captured datagram in this form; noise has this length, and what is cut has it, too, if it was longer.
fn changed(form: Form, captured: &[u8], length: usize, rng: &mut Rng) -> Option<Vec<u8>> {
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
        Form::Cut => bytes.truncate(length % captured.len().max(1)),
        Form::Summed => {
            flip(bytes.get_mut(envelope::LEN..)?);
            return summed(&bytes, rng);
        }
        Form::Noise => bytes = (0..length).map(|_| rng.next_u64() as u8).collect(),
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
                assert_eq!(changed(same, &captured, 7, &mut rng).unwrap(), captured);
            }
            assert_eq!(changed(Form::Flipped, &captured, 7, &mut rng).unwrap().len(), captured.len());
            let cut = changed(Form::Cut, &captured, captured.len() + 7, &mut rng).unwrap();
            assert!(captured.starts_with(&cut) && cut.len() == 7);
            assert_eq!(changed(Form::Noise, &captured, 70, &mut rng).unwrap().len(), 70);
            let summed = changed(Form::Summed, &captured, 7, &mut rng).unwrap();
            let view = EnvelopeView::new(&summed).unwrap();
            assert!(view.is_whole() && view.from().node.0 == 2 && (77..=78).contains(&view.from().incarnation.0));
        }
        assert_eq!(changed(Form::Summed, b"short", 7, &mut rng), None);
        assert_eq!(changed(Form::Flipped, b"", 7, &mut rng), Some(Vec::new()));
    }

    #[test]
    fn all_forms_come_from_nodes_and_from_elsewhere() {
        let here = [Ipv4Addr::LOCALHOST; 2].to_vec();
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let captured = Datagram { from, to: from, bytes: datagram(&[5; 100]) };
        let mut flood = Flood::open(here, Ipv4Addr::LOCALHOST, vec![captured], 1_000, 2).unwrap();
        let shots: Vec<_> = (0..500).filter_map(|_| flood.shot(&[])).collect();
        assert_eq!(shots.len(), 500);
        assert!(shots.iter().any(|shot| shot.socket == 2) && shots.iter().any(|shot| shot.socket == 0));
        flood.old.clear();
        assert!(flood.shot(&[]).is_none(), "nothing was captured");
        assert!(flood.volleys(&[]).is_empty() && flood.fire(&[]).datagrams == 0);
    }

    #[test]
    fn all_senders_together_send_what_is_made() {
        let heard = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(to) = heard.local_addr().unwrap() else { panic!("an address of IPv4") };
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let captured = Datagram { from, to, bytes: datagram(&[5; 100]) };
        let nodes = vec![Ipv4Addr::LOCALHOST];
        let mut flood = Flood::open(nodes, Ipv4Addr::LOCALHOST, vec![captured], 10_000, 3).unwrap();
        let mut volleys = flood.volleys(&[]);
        assert_eq!(volleys.iter().map(|(_, volley)| volley.len()).sum::<usize>(), MADE);
        volleys.retain(|(_, volley)| volley.to() == to.into());
        let sent = flood.fire(&volleys);
        assert!(sent.datagrams > 0 && sent.time >= ROUND, "{sent:?}");
        // What lost its way in a full buffer is gone; each that came is whole, and as long as one that was made.
        heard.set_nonblocking(true).unwrap();
        let (mut room, mut came) = ([0; 2_048], 0);
        while let Ok(len) = heard.recv(&mut room) {
            assert!(len <= LONGEST as usize, "{len}");
            came += 1;
        }
        assert!(came > 0 && came <= sent.datagrams, "{came} of {sent:?}");
    }
}
