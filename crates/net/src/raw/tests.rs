use super::*;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

#[test]
fn hops_are_counted_and_the_other_side_ends() {
    for waiting in [Waiting::Sleep, Waiting::Spin] {
        let (here, there) = (socket(), socket());
        let peer = there.local_addr().unwrap();
        let answering = thread::spawn(move || answer_hops(&there, waiting, PATIENCE).unwrap());
        let hops = measure_hops(&here, peer, 64, 200, PATIENCE, waiting).unwrap();
        assert_eq!(hops.len(), 200);
        assert!(hops.iter().all(|hop| *hop > 0));
        assert!(answering.join().unwrap() >= 200);
    }
}

#[test]
fn a_peer_that_does_not_answer_is_an_error() {
    let (here, silent) = (socket(), socket());
    let limit = Duration::from_millis(150);
    let error = measure_hops(&here, silent.local_addr().unwrap(), 64, 10, limit, Waiting::Sleep).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_flood_reaches_all_receivers_whole() {
    for (gso, gro) in [(false, false), (true, false), (true, true)] {
        let port = socket().local_addr().unwrap().port();
        let flood = Flood {
            group: SocketAddrV4::new(Ipv4Addr::new(239, 77, 1, 1), port),
            interface: Ipv4Addr::LOCALHOST,
            sender: socket().local_addr().unwrap(),
            size: 1_400,
            gso,
            gro,
            receivers: 2,
            limit: Duration::from_millis(200),
            run: 99,
        };
        let receivers: Vec<_> = (0..2).map(|_| thread::spawn(move || receive_flood(&flood))).collect();
        let sent = send_flood(&flood);
        let received: Vec<_> = receivers.into_iter().map(|r| r.join().unwrap()).collect();
        let Ok(sent) = sent else { return eprintln!("skipped: no multicast on the loopback interface: {sent:?}") };
        for received in received {
            let received = received.unwrap();
            assert!(received.packets > 0 && received.packets <= sent.packets, "{received:?} of {sent:?}");
            assert!(received.lost * 100 <= sent.packets, "{received:?}");
            assert!(received.packets_per_second() > 0.0);
        }
    }
}
