//! Whether multicast works here.
use socket2::{SockAddr, Socket};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

/// How long a datagram of our own may take to come back.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long to wait before sending it again.
const AGAIN: Duration = Duration::from_millis(60);
/// Marks our probes, so that other nodes do not count them as garbage.
const MARK: [u8; 8] = *b"consort?";
/// A probe's length: shorter than any envelope.
const LEN: usize = 16;

/// Whether a datagram is somebody's probe.
pub(crate) fn is_probe(datagram: &[u8]) -> bool {
    datagram.len() == LEN && datagram.starts_with(&MARK)
}

/// Sends a datagram to the group and waits for it to come back.
///
/// # Errors
/// A sentence that says what was seen instead.
pub(crate) fn multicast_works(from: &Socket, group: SocketAddrV4, at: &Socket) -> Result<(), String> {
    let (probe, to) = (probe(), SockAddr::from(group));
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        from.send_to(&probe, &to).map_err(|e| format!("sending to {group} failed: {e}"))?;
        let until = (began + PATIENCE).min(Instant::now() + AGAIN);
        if comes_back(at, &probe, until).map_err(|e| format!("receiving from {group} failed: {e}"))? {
            return Ok(());
        }
    }
    Err(format!("a datagram to {group} did not come back within {} ms", PATIENCE.as_millis()))
}

fn probe() -> [u8; LEN] {
    let mut probe = [0; LEN];
    probe[..MARK.len()].copy_from_slice(&MARK);
    // the standard library's hasher is seeded differently each time: enough to tell our probe from another's
    probe[MARK.len()..].copy_from_slice(&RandomState::new().build_hasher().finish().to_be_bytes());
    probe
}

fn comes_back(at: &Socket, probe: &[u8; LEN], until: Instant) -> io::Result<bool> {
    let mut room = [0; LEN + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        at.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match (&*at).read(&mut room) {
            Ok(n) if room[..n] == probe[..] => return Ok(true),
            Ok(_) => {} // others' traffic; it is lost here, as any datagram may be
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
}
