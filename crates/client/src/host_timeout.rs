//! Lets the kernel find out that the machine of a daemon has vanished: TCP itself waits for a quarter of an hour, or for
//! ever where nothing is under way.
//!
//! This is the net below heartbeats ([`crate::silence`]), for halves of a client whose other half nobody reads, and for daemons
//! that tell none. It must be wide: the kernel also gives up a machine that answers, but takes no bytes for so long, and a
//! daemon may leave a client's bytes where they are for as long as flow control or a membership takes.
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// No daemon leaves a client's bytes where they are for longer without need.
const SHORTEST: Duration = Duration::from_secs(60);
/// The kernel takes at most 32,767 s between two probes.
const LONGEST: Duration = Duration::from_secs(6 * 60 * 60);
/// How many probes stay unanswered before a connection is given up.
const PROBES: u32 = 3;

/// Has the kernel give up a TCP connection whose other machine has answered nothing for so long. An idle connection is
/// probed after half of the time.
pub(crate) fn give_up_after(socket: impl AsFd, silence: Duration) -> io::Result<()> {
    let (socket, silence) = (socket.as_fd(), silence.clamp(SHORTEST, LONGEST));
    let idle = Duration::from_secs(silence.as_secs() / 2);
    let between = Duration::from_secs((silence.as_secs() / 2 / u64::from(PROBES)).max(1));
    set_tcp_keepidle(socket, idle)?;
    set_tcp_keepintvl(socket, between)?;
    set_tcp_keepcnt(socket, PROBES)?;
    // For bytes under way; where it is set it decides for probes, too.
    set_tcp_user_timeout(socket, silence.as_millis() as u32)?;
    set_socket_keepalive(socket, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{socket_keepalive, tcp_keepidle, tcp_keepintvl, tcp_user_timeout};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn any_time_becomes_one_that_the_kernel_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for (silence, wanted) in
            [(0, (30, 10, 60_000)), (90, (45, 15, 90_000)), (u64::MAX, (10_800, 3_600, 21_600_000))]
        {
            give_up_after(&stream, Duration::from_secs(silence)).unwrap();
            let (idle, between) = (tcp_keepidle(&stream).unwrap(), tcp_keepintvl(&stream).unwrap());
            assert_eq!((idle.as_secs(), between.as_secs(), tcp_user_timeout(&stream).unwrap()), wanted);
            assert!(socket_keepalive(&stream).unwrap());
        }
    }
}
