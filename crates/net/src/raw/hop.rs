//! One datagram round and round a ring of processes.
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long a rotation may take before the datagram counts as lost and another is sent.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// The largest datagram there is.
const LONGEST: usize = 65_507;
/// The bytes at a datagram's front that say which rotation it is for.
const NUMBER: usize = 8;

/// How a process waits for the next datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopWait {
    /// It sleeps until the kernel wakes it.
    Sleep,
    /// It looks again and again, and lets others run in between.
    Spin,
}

/// A ring of processes, for the one that measures.
#[derive(Clone, Copy, Debug)]
pub struct HopRing {
    /// How many there are, this one included.
    pub processes: u32,
    /// The one behind this.
    pub next: SocketAddr,
    /// The datagram's bytes, 8 at least.
    pub size: usize,
    /// How this one waits.
    pub waiting: HopWait,
}

/// Passes every datagram on to the next process, until one without bytes has been passed on or none comes for `patience`.
/// Returns how many others were passed on.
///
/// # Errors
/// Those of the socket.
pub fn pass_hops_on(socket: &UdpSocket, next: SocketAddr, waiting: HopWait, patience: Duration) -> io::Result<u64> {
    let mut room = vec![0; LONGEST];
    let mut passed = 0;
    while let Some(datagram) = receive(socket, waiting, patience, &mut room)? {
        socket.send_to(datagram, next)?;
        if datagram.is_empty() {
            break;
        }
        passed += 1;
    }
    Ok(passed)
}

/// Sends a datagram round the ring, `rotations` times but not for longer than `limit`; then has all others end. Returns
/// how long each hop took in nanoseconds, which is a rotation through the number of processes, in the order of measuring.
/// A datagram that does not come back is replaced and not counted.
///
/// # Errors
/// Those of the socket; `TimedOut` where none ever came back.
pub fn measure_hops(socket: &UdpSocket, ring: &HopRing, rotations: usize, limit: Duration) -> io::Result<Vec<u64>> {
    let (mut payload, mut room) = (vec![7; ring.size.clamp(NUMBER, LONGEST)], vec![0; LONGEST]);
    let (mut hops, mut number, began) = (Vec::with_capacity(rotations), 0u64, Instant::now());
    while hops.len() < rotations && began.elapsed() < limit {
        number += 1;
        payload[..NUMBER].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        socket.send_to(&payload, ring.next)?;
        if comes_back(socket, number, ring.waiting, &mut room)? {
            let hop = sent.elapsed().as_nanos() / u128::from(ring.processes.max(1));
            hops.push(u64::try_from(hop).unwrap_or(u64::MAX));
        }
    }
    socket.send_to(&[], ring.next)?;
    if hops.is_empty() && rotations > 0 { Err(ErrorKind::TimedOut.into()) } else { Ok(hops) }
}

/// Whether the datagram of this rotation comes in time. One of an earlier rotation was late, not lost: it ends here, or
/// two would go round from now on.
fn comes_back(socket: &UdpSocket, number: u64, waiting: HopWait, room: &mut [u8]) -> io::Result<bool> {
    let began = Instant::now();
    while let Some(left) = LOST_AFTER.checked_sub(began.elapsed()) {
        let Some(datagram) = receive(socket, waiting, left, room)? else { break };
        if datagram.first_chunk() == Some(&number.to_be_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The next datagram, if one comes in time.
fn receive<'r>(
    socket: &UdpSocket,
    waiting: HopWait,
    patience: Duration,
    room: &'r mut [u8],
) -> io::Result<Option<&'r [u8]>> {
    socket.set_nonblocking(waiting == HopWait::Spin)?;
    if waiting == HopWait::Sleep {
        socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    }
    let began = Instant::now();
    loop {
        match socket.recv_from(room) {
            Ok((len, _)) => return Ok(Some(&room[..len])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if began.elapsed() >= patience {
                    return Ok(None);
                }
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
    }
}
