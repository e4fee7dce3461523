use super::*;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

/// The ring of a process and those behind it.
fn ring(next: &UdpSocket, processes: u32, waiting: HopWait) -> HopRing {
    HopRing { processes, next: address(next), size: 64, waiting }
}

#[test]
fn hops_are_counted_and_all_others_of_the_ring_end() {
    for (waiting, processes) in [HopWait::Sleep, HopWait::Spin].into_iter().flat_map(|w| [2, 3, 5].map(|n| (w, n))) {
        let sockets: Vec<_> = (0..processes).map(|_| socket()).collect();
        let ring = ring(&sockets[1], processes, waiting);
        let mut sockets = sockets.into_iter();
        let here = sockets.next().unwrap();
        let mut nexts: Vec<_> = sockets.as_slice().iter().skip(1).map(address).collect();
        nexts.push(address(&here));
        let others: Vec<_> = sockets
            .zip(nexts)
            .map(|(socket, next)| thread::spawn(move || pass_hops_on(&socket, next, waiting, PATIENCE).unwrap()))
            .collect();
        let hops = measure_hops(&here, &ring, 200, PATIENCE).unwrap();
        assert!(hops.len() == 200 && hops.iter().all(|hop| *hop > 0), "{hops:?}");
        assert!(others.into_iter().all(|other| other.join().unwrap() >= 200));
    }
}

#[test]
fn a_hop_is_a_rotation_through_the_number_of_processes() {
    let (here, there) = (socket(), socket());
    let (back, ring) = (address(&here), ring(&there, u32::MAX, HopWait::Sleep));
    let other = thread::spawn(move || pass_hops_on(&there, back, HopWait::Sleep, PATIENCE).unwrap());
    let hops = measure_hops(&here, &ring, 20, PATIENCE).unwrap();
    // No rotation takes as many nanoseconds.
    assert_eq!(hops, [0; 20]);
    other.join().unwrap();
}

#[test]
fn a_lost_datagram_is_sent_again_and_not_counted() {
    for waiting in [HopWait::Sleep, HopWait::Spin] {
        let (here, there) = (socket(), socket());
        let (back, ring) = (address(&here), ring(&there, 2, waiting));
        let other = thread::spawn(move || {
            there.recv(&mut [0; 64]).unwrap();
            pass_hops_on(&there, back, waiting, PATIENCE).unwrap()
        });
        assert_eq!(measure_hops(&here, &ring, 10, PATIENCE).unwrap().len(), 10);
        assert!(other.join().unwrap() >= 10);
    }
}

#[test]
fn a_datagram_of_an_earlier_rotation_does_not_count() {
    let (here, late) = (socket(), socket());
    let (back, ring) = (address(&here), ring(&late, 2, HopWait::Sleep));
    let other = thread::spawn(move || {
        let mut earlier = [0; 64];
        loop {
            let mut datagram = [0; 64];
            match late.recv(&mut datagram).unwrap() {
                0 => return,
                _ => late.send_to(&std::mem::replace(&mut earlier, datagram), back).unwrap(),
            };
        }
    });
    let error = measure_hops(&here, &ring, 10, Duration::from_millis(250)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    other.join().unwrap();
}

#[test]
fn a_ring_that_is_broken_is_an_error_and_nobody_waits_for_ever() {
    let (here, silent, waits) = (socket(), socket(), socket());
    let limit = Duration::from_millis(150);
    let error = measure_hops(&here, &ring(&silent, 3, HopWait::Sleep), 10, limit).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    for waiting in [HopWait::Sleep, HopWait::Spin] {
        assert_eq!(pass_hops_on(&waits, address(&here), waiting, Duration::from_millis(20)).unwrap(), 0);
    }
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

#[test]
fn a_volley_comes_as_the_datagrams_that_it_is_of() {
    let (here, there) = (socket(), socket());
    there.set_read_timeout(Some(PATIENCE)).unwrap();
    let lengths = [vec![0; 2], vec![40; 100], vec![7], vec![1_400; 20], vec![41]].concat();
    let datagrams: Vec<Vec<u8>> = lengths.iter().zip(0_u8..).map(|(len, n)| vec![n; *len]).collect();
    let volley = Volley::new(address(&there), datagrams.clone());
    assert_eq!((volley.len(), volley.is_empty(), volley.to()), (124, false, address(&there)));
    assert_eq!(Volleys::default().send(here.as_fd(), &volley), 124);
    let mut room = [0; 2_048];
    let came: Vec<Vec<u8>> = (0..124).map(|_| there.recv(&mut room).map(|len| room[..len].to_vec()).unwrap()).collect();
    assert!(came == datagrams, "in order, and each whole");
}

#[test]
fn what_the_kernel_refuses_of_a_volley_is_left_out() {
    let (here, there) = (socket(), socket());
    there.set_read_timeout(Some(PATIENCE)).unwrap();
    // Larger than any datagram.
    let volley = Volley::new(address(&there), [vec![1; 9], vec![2; 65_536], vec![3; 9]]);
    assert_eq!(Volleys::default().send(here.as_fd(), &volley), 2);
    let mut room = [0; 16];
    let came = [(); 2].map(|()| there.recv(&mut room).map(|len| (len, room[0])).unwrap());
    assert_eq!(came, [(9, 1), (9, 3)]);
    let nothing = Volley::new(address(&there), []);
    assert!(nothing.is_empty() && Volleys::default().send(here.as_fd(), &nothing) == 0);
}
