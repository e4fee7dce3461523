//! One datagram to and fro.
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long an answer may take before the datagram counts as lost and is sent again.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// The largest datagram there is.
const LONGEST: usize = 65_507;

/// How a side waits for the next datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps until the kernel wakes it.
    Sleep,
    /// It looks again and again, and lets others run in between.
    Spin,
}

/// Sends every datagram back to where it came from, until one without bytes comes or none for `patience`. Returns how
/// many were sent back.
///
/// # Errors
/// Those of the socket.
pub fn answer_hops(socket: &UdpSocket, waiting: Waiting, patience: Duration) -> io::Result<u64> {
    let mut room = vec![0; LONGEST];
    let mut answered = 0;
    while let Some((n, from)) = next(socket, waiting, patience, &mut room)? {
        if n == 0 {
            break;
        }
        socket.send_to(&room[..n], from)?;
        answered += 1;
    }
    Ok(answered)
}

/// Sends `size` bytes to `peer` and waits until they are back, `rounds` times but not longer than `limit`; then tells
/// the peer to end. Returns the length of each hop in nanoseconds, half a round each, in the order of measuring.
///
/// # Errors
/// Those of the socket; `TimedOut` where no answer ever came.
pub fn measure_hops(
    socket: &UdpSocket,
    peer: SocketAddr,
    size: usize,
    rounds: usize,
    limit: Duration,
    waiting: Waiting,
) -> io::Result<Vec<u64>> {
    let (payload, mut room) = (vec![7; size.clamp(1, LONGEST)], vec![0; LONGEST]);
    let (mut hops, began) = (Vec::with_capacity(rounds), Instant::now());
    while hops.len() < rounds && began.elapsed() < limit {
        let sent = Instant::now();
        socket.send_to(&payload, peer)?;
        if next(socket, waiting, LOST_AFTER, &mut room)?.is_some() {
            hops.push(u64::try_from(sent.elapsed().as_nanos() / 2).unwrap_or(u64::MAX));
        }
    }
    socket.send_to(&[], peer)?;
    if hops.is_empty() && rounds > 0 { Err(ErrorKind::TimedOut.into()) } else { Ok(hops) }
}

/// The next datagram, if one comes in time.
fn next(
    socket: &UdpSocket,
    waiting: Waiting,
    patience: Duration,
    room: &mut [u8],
) -> io::Result<Option<(usize, SocketAddr)>> {
    socket.set_nonblocking(waiting == Waiting::Spin)?;
    if waiting == Waiting::Sleep {
        socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    }
    let began = Instant::now();
    loop {
        match socket.recv_from(room) {
            Ok(received) => return Ok(Some(received)),
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
