//! The client on tokio, against the same daemon.
use super::*;
use crate::{AsyncClient, DisconnectReason};
use std::future::Future;
use std::task::{Context, Poll, Waker};
use tokio::time::timeout;

pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG, test).await.expect("an end in time") })
}

pub(super) async fn connect(daemon: &Daemon, name: &str) -> AsyncClient {
    AsyncClient::connect(&daemon.address, &ConnectOptions::default().called(name).unwrap()).await.unwrap()
}

pub(super) async fn next_payload(client: &mut AsyncClient) -> String {
    loop {
        if let Event::Message(message) = client.receive().await.unwrap() {
            return String::from_utf8(message.payload().to_vec()).unwrap();
        }
    }
}

#[test]
fn two_clients_talk_over_either_kind_of_socket() {
    let dir = tempfile::tempdir().unwrap();
    let daemons = [Daemon::on_tcp(Limits::default()), Daemon::on_unix(&dir.path().join("socket"), Limits::default())];
    for daemon in daemons {
        run(async {
            let (mut ann, mut bob) = (connect(&daemon, "ann").await, connect(&daemon, "bob").await);
            assert_eq!(ann.join_closed(&group("g")).await.unwrap(), 1);
            assert_eq!(ann.welcome().name.as_str(), "ann");
            let Event::GroupView(view) = ann.receive().await.unwrap() else { panic!("no view") };
            assert_eq!((view.group.as_str(), view.members[0].name.as_str(), view.closed), ("g", "ann", true));
            bob.join(&group("g")).await.unwrap();
            assert_eq!(bob.multicast(Service::Safe, &[group("g")], b"hello").await.unwrap(), 2);
            bob.wait_ordered().await.unwrap();
            assert_eq!(next_payload(&mut ann).await, "hello");
            assert_eq!(next_payload(&mut bob).await, "hello", "kept while something else was waited for");
            bob.leave(&group("g")).await.unwrap();
            bob.close().await.unwrap();
            let Event::GroupView(view) = ann.receive().await.unwrap() else { panic!("no view") };
            assert_eq!((view.members.len(), view.cause), (1, crate::ChangeCause::Leave));
            let status = ann.status().await.unwrap();
            assert_eq!(status.protocol(), Some("alone"), "{status:?}");
            ann.close().await.unwrap();
        });
    }
}

#[test]
fn one_task_sends_far_more_than_its_credit_and_receives_all_of_it_in_order() {
    let daemon = Daemon::on_tcp(tight());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        ann.join(&group("g")).await.unwrap();
        for n in 0..5_000 {
            let sent = ann.multicast(Service::Agreed, &[group("g")], n.to_string().as_bytes()).await;
            assert_eq!(sent.unwrap(), n + 2);
        }
        for n in 0..5_000 {
            assert_eq!(next_payload(&mut ann).await, n.to_string());
        }
        let large = "x".repeat(100_000);
        ann.multicast(Service::Agreed, &[group("g")], large.as_bytes()).await.unwrap();
        assert!(next_payload(&mut ann).await == large);
    });
}

#[test]
fn try_receive_waits_for_nothing_and_misses_nothing() {
    let daemon = Daemon::on_tcp(Limits::default());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        assert_eq!(ann.try_receive().unwrap(), None);
        ann.join(&group("g")).await.unwrap();
        ann.multicast(Service::Agreed, &[group("g")], b"hello").await.unwrap();
        loop {
            match ann.try_receive().unwrap() {
                Some(Event::Message(message)) => break assert_eq!(message.payload(), b"hello"),
                Some(_) => {}
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    });
}

#[test]
fn a_call_that_is_given_up_loses_no_event_and_sends_nothing() {
    let daemon = Daemon::on_tcp(tight());
    run(async {
        let (mut ann, mut bob) = (connect(&daemon, "ann").await, connect(&daemon, "bob").await);
        ann.join(&group("g")).await.unwrap();
        ann.wait_ordered().await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut next = 0;
        for n in 0..300 {
            bob.multicast(Service::Agreed, &[group("g")], n.to_string().as_bytes()).await.unwrap();
            bob.flush().await.unwrap();
            // Looks once, and drops the call whatever it was at.
            let looked = std::pin::pin!(ann.receive()).as_mut().poll(&mut context);
            if let Poll::Ready(Ok(Event::Message(message))) = looked {
                assert_eq!(message.payload(), next.to_string().as_bytes());
                next += 1;
            }
        }
        while next < 300 {
            assert_eq!(next_payload(&mut ann).await, next.to_string());
            next += 1;
        }
        daemon.hold(true);
        ann.multicast(Service::Agreed, &[group("g")], &[b'1'; 900]).await.unwrap();
        let given_up = timeout(SHORT, ann.multicast(Service::Agreed, &[group("g")], &[b'2'; 900])).await;
        assert!(given_up.is_err(), "{given_up:?}");
        assert_eq!(ann.sent(), 2);
        daemon.hold(false);
        ann.multicast(Service::Agreed, &[group("g")], b"3").await.unwrap();
        assert_eq!(next_payload(&mut ann).await, "1".repeat(900));
        assert_eq!(next_payload(&mut ann).await, "3");
    });
}

#[test]
fn without_credit_a_send_says_so_or_waits_as_long_as_it_may() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold(true);
    run(async {
        let options = ConnectOptions::default().send_within(SHORT).unbatched();
        let mut ann = AsyncClient::connect(&daemon.address, &options).await.unwrap();
        ann.multicast(Service::Agreed, &[group("g")], &[0; 900]).await.unwrap();
        let would_block = ann.try_multicast(Service::Agreed, &[group("g")], &[0; 900]);
        assert!(
            matches!(would_block, Err(Error::WouldBlock { needs: 909, free: 91, cause: WaitCause::Budget })),
            "{would_block:?}"
        );
        let timed_out = ann.multicast(Service::Agreed, &[group("g")], &[0; 900]).await;
        assert!(matches!(timed_out, Err(Error::TimedOut { .. })), "{timed_out:?}");
        let too_large = ann.multicast(Service::Agreed, &[group("g")], &[0; 100_001]).await;
        assert!(matches!(too_large, Err(Error::TooLarge { len: 100_001, max: 100_000 })), "{too_large:?}");
        let nobody = ann.multicast::<GroupName>(Service::Agreed, &[], b"").await;
        assert!(matches!(nobody, Err(Error::Targets { count: 0, max: 1_000 })), "{nobody:?}");
        assert_eq!(ann.sent(), 1);
        daemon.hold(false);
        ann.wait_ordered().await.unwrap();
        assert_eq!(ann.try_multicast(Service::Agreed, &[group("g")], &[0; 900]).unwrap(), 2);
    });
}

#[test]
fn what_is_waited_for_is_named() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold_for(consort_types::OrderWait::Membership);
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        let (to, payload) = ([group("g")], [0; 900]);
        ann.multicast_within(Service::Agreed, &to, &payload, SHORT).await.unwrap();
        while ann.wait_cause().is_none() {
            let late = ann.multicast_within(Service::Agreed, &to, &payload, SHORT).await;
            assert!(matches!(late, Err(Error::TimedOut { cause: Some(_) })), "{late:?}");
        }
        let late = ann.multicast_within(Service::Agreed, &to, &payload, SHORT).await;
        assert!(matches!(late, Err(Error::TimedOut { cause: Some(WaitCause::Membership) })), "{late:?}");
        let blocked = ann.try_multicast(Service::Agreed, &to, &payload);
        assert!(matches!(blocked, Err(Error::WouldBlock { cause: WaitCause::Membership, .. })), "{blocked:?}");
        daemon.hold(false);
        assert_eq!(ann.multicast_within(Service::Agreed, &to, &payload, LONG).await.unwrap(), 2);
        assert_eq!(ann.wait_cause(), None);
    });
}

#[test]
fn when_the_daemon_dies_the_sends_that_were_not_ordered_are_named() {
    let mut daemon = Daemon::on_tcp(Limits::default());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        ann.join(&group("g")).await.unwrap();
        ann.multicast(Service::Agreed, &[group("g")], b"ordered").await.unwrap();
        ann.wait_ordered().await.unwrap();
        daemon.hold(true);
        for n in 3..6 {
            assert_eq!(ann.multicast(Service::Agreed, &[group("g")], b"perhaps").await.unwrap(), n);
        }
        ann.flush().await.unwrap();
        daemon.die();
        assert_eq!(next_payload(&mut ann).await, "ordered", "what came before is received first");
        let lost = ann.receive().await.unwrap_err();
        assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
        assert_eq!(lost.unknown_fate(), Some(&(3..6)), "{lost}");
        let again = ann.multicast(Service::Agreed, &[group("g")], b"too late").await.unwrap_err();
        assert_eq!((again.unknown_fate(), ann.sent()), (Some(&(3..6)), 5), "{again}");
    });
}

#[test]
fn a_send_into_a_dead_connection_ends_in_an_error_and_what_came_before_is_kept() {
    let mut daemon = Daemon::on_tcp(Limits::default());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        ann.join(&group("g")).await.unwrap();
        ann.multicast(Service::Agreed, &[group("g")], b"kept").await.unwrap();
        ann.wait_ordered().await.unwrap();
        daemon.die();
        let lost = loop {
            if let Err(error) = ann.multicast(Service::Agreed, &[group("g")], &[7; 50_000]).await {
                break error;
            }
        };
        assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
        assert_eq!(lost.unknown_fate(), Some(&(3..ann.sent() + 1)), "{lost}");
        assert_eq!(next_payload(&mut ann).await, "kept");
        assert!(matches!(ann.receive().await, Err(Error::ConnectionLost { .. })));
    });
}

#[test]
fn a_daemon_that_stops_and_one_that_does_not_want_us_say_so() {
    let daemon = Daemon::on_tcp(Limits::default());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        let options = ConnectOptions::default().called("ann").unwrap();
        let refused = AsyncClient::connect(&daemon.address, &options).await.unwrap_err();
        assert!(
            matches!(&refused, Error::NotWelcome(farewell) if farewell.reason == DisconnectReason::NameTaken),
            "{refused}"
        );
        daemon.stop();
        for _ in 0..2 {
            let end = ann.receive().await.unwrap_err();
            assert!(
                matches!(&end, Error::Disconnected { farewell, .. } if farewell.reason == DisconnectReason::Stopping),
                "{end}"
            );
        }
    });
}

#[test]
fn a_send_that_the_connection_does_not_take_learns_what_the_daemon_said_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::on_unix(&dir.path().join("socket"), Limits::default());
    run(async {
        let (mut ann, mut bob) = (connect(&daemon, "ann").await, connect(&daemon, "bob").await);
        ann.join(&group("g")).await.unwrap();
        ann.wait_ordered().await.unwrap();
        daemon.stop();
        // Another client sees that the daemon has sent everybody away.
        assert!(bob.receive().await.is_err());
        daemon.die();
        let end = loop {
            if let Err(end) = ann.multicast(Service::Agreed, &[group("g")], &[7; 50_000]).await {
                break end;
            }
        };
        assert!(
            matches!(&end, Error::Disconnected { farewell, .. } if farewell.reason == DisconnectReason::Stopping),
            "{end}"
        );
        assert!(matches!(ann.receive().await.unwrap(), Event::GroupView(_)), "kept");
        assert!(matches!(ann.receive().await, Err(Error::Disconnected { .. })));
    });
}

#[test]
fn where_no_daemon_is_the_error_says_what_was_found() {
    run(async {
        let options = ConnectOptions::default();
        let nowhere = AsyncClient::connect(&"/nonexistent/socket".parse().unwrap(), &options).await.unwrap_err();
        assert!(nowhere.to_string().starts_with("cannot connect to unix:/nonexistent/socket: "), "{nowhere}");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let silent = AsyncClient::connect(&address, &options.clone().connect_within(SHORT)).await.unwrap_err();
        assert!(matches!(silent, Error::TimedOut { cause: None }), "{silent}");
        let (_silent, _) = listener.accept().await.unwrap();
        let stranger = tokio::spawn(async move { AsyncClient::connect(&address, &options).await.unwrap_err() });
        let (socket, _) = listener.accept().await.unwrap();
        socket.writable().await.unwrap();
        socket.try_write(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        let stranger = stranger.await.unwrap();
        assert!(stranger.to_string().contains("the daemon sent a malformed frame length"), "{stranger}");
    });
}

#[test]
fn an_optimistic_client_gets_offers_and_confirms_instead_of_messages() {
    let daemon = Daemon::on_tcp(Limits::default());
    run(async {
        let mut ann = AsyncClient::connect(&daemon.address, &named("ann").optimistic(Undo::Any)).await.unwrap();
        ann.join(&group("g")).await.unwrap();
        ann.multicast(Service::Agreed, &[group("g")], b"one").await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(told(&ann.receive().await.unwrap()));
        }
        assert_eq!(seen, ["+1 one", "=1"]);
        ann.close().await.unwrap();
    });
}
