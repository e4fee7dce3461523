//! A client over TCP whose daemon's machine vanishes.
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use consort::{Address, AsyncClient, Client, ConnectOptions, Error, GroupName, Service};
use consort_session::{Ask, ClientName, Limits, Session};
use consort_sim::link::LinkModel;
use consort_types::{ClientId, MemberId};

use super::super::Network;
use super::network;

const HOST_TIMEOUT: Duration = Duration::from_secs(4);
/// The kernel looks when its next probe or copy is due.
const BOUND: Duration = Duration::from_secs(8);

/// Stands for a daemon: lets clients in and reads what they say for as long as they are there.
fn daemon(network: &Network) -> Address {
    let open = || TcpListener::bind((Network::address(1), 0));
    let listener = network.namespace(1).enter(open).unwrap().unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Address::Tcp { host: Network::address(1).to_string(), port }
}

fn serve(mut stream: std::net::TcpStream) {
    let (mut session, mut buffer) = (Session::new(ClientId(1)), vec![0; 4_096]);
    let (me, name) = (MemberId::new(1, 1), ClientName::unchosen(ClientId(1)));
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        session.feed(buffer[..read].to_vec().into());
        while let Ok(Some(ask)) = session.next(&Limits::default()) {
            match ask {
                Ask::Hello(_) => session.welcome(name.clone(), me, "n1", &Limits::default()),
                _ => drop(session.accept()),
            }
        }
        let out = session.output().front().to_vec();
        session.written(out.len());
        stream.write_all(&out).unwrap();
    }
}

fn options() -> ConnectOptions {
    ConnectOptions::default().host_timeout(HOST_TIMEOUT)
}

fn connect(network: &Network, address: &Address) -> Client {
    network.namespace(0).enter(|| Client::connect(address, &options())).unwrap().unwrap()
}

/// The error with which a client ends, which must come in time.
fn end(what: &str, receive: impl FnOnce() -> Error) {
    let since = Instant::now();
    let error = receive();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{what}: {error}");
    assert!(error.to_string().contains("timed out"), "{what}: {error}");
    assert!(since.elapsed() < BOUND, "{what}: {:?}", since.elapsed());
}

#[test]
fn a_client_whose_daemons_machine_has_vanished_is_told_within_the_bound() {
    let Some(network) = network(2) else { return };
    let address = daemon(&network);
    let (mut idle, mut busy) = (connect(&network, &address), connect(&network, &address));
    let awaited = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(AsyncClient::connect(&address, &options())).unwrap();
        (runtime, client)
    };
    let asynchronous = network.namespace(0).enter(awaited).unwrap();
    assert!(idle.receive(Duration::from_millis(10)).unwrap().is_none(), "the machine is there");
    network.set_all(&LinkModel { cut: true, ..LinkModel::default() }).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| end("at rest", || idle.receive(BOUND).unwrap_err()));
        threads.spawn(|| {
            let group = GroupName::new(b"g").unwrap();
            busy.multicast(Service::Agreed, &[group], b"into the void").unwrap();
            end("with bytes under way", || busy.receive(BOUND).unwrap_err());
        });
        threads.spawn(|| {
            let (runtime, mut client) = asynchronous;
            end("on tokio", || {
                runtime.block_on(async { tokio::time::timeout(BOUND, client.receive()).await.unwrap().unwrap_err() })
            });
        });
    });
}
