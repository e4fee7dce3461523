//! Streams, sinks and halves of the client on tokio, against the same daemon.
use super::asynchronous::{connect, run};
use super::*;
use crate::{AsyncClient, AsyncReceiver, Draft};
use futures_core::Stream;
use futures_sink::Sink;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

async fn put<S: Sink<Draft, Error = Error> + Unpin>(sink: &mut S, payload: impl Into<crate::Bytes>) {
    let draft = Draft::new(Service::Agreed, &[group("g")], payload).unwrap();
    poll_fn(|cx| Pin::new(&mut *sink).poll_ready(cx)).await.unwrap();
    Pin::new(sink).start_send(draft).unwrap();
}

async fn close<S: Sink<Draft, Error = Error> + Unpin>(sink: &mut S) -> Result<(), Error> {
    poll_fn(|cx| Pin::new(&mut *sink).poll_close(cx)).await
}

/// Both, as one task.
async fn both<A, B>(one: impl Future<Output = A>, two: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut two, mut done) = (pin!(one), pin!(two), (None, None));
    poll_fn(move |cx| {
        if done.0.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(cx)
        {
            done.0 = Some(value);
        }
        if done.1.is_none()
            && let Poll::Ready(value) = two.as_mut().poll(cx)
        {
            done.1 = Some(value);
        }
        if done.0.is_none() || done.1.is_none() {
            return Poll::Pending;
        }
        Poll::Ready((done.0.take().unwrap(), done.1.take().unwrap()))
    })
    .await
}

async fn payloads(receiver: &mut AsyncReceiver, count: usize) -> Vec<String> {
    let mut payloads = Vec::new();
    while payloads.len() < count {
        if let Event::Message(message) = next(receiver).await.expect("more").unwrap() {
            payloads.push(String::from_utf8(message.payload().to_vec()).unwrap());
        }
    }
    payloads
}

#[test]
fn a_client_is_a_stream_and_a_sink() {
    let mut daemon = Daemon::on_tcp(tight());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        ann.join(&group("g")).await.unwrap();
        for n in 0..500 {
            put(&mut ann, n.to_string()).await;
        }
        // What the sink was given stands before what is sent otherwise.
        ann.multicast(Service::Agreed, &[group("g")], b"last").await.unwrap();
        close(&mut ann).await.unwrap();
        assert_eq!((ann.progress().ordered, ann.sent()), (502, 502));
        let mut told = Vec::new();
        while told.last().is_none_or(|payload| payload != "last") {
            if let Event::Message(message) = next(&mut ann).await.unwrap().unwrap() {
                told.push(String::from_utf8(message.payload().to_vec()).unwrap());
            }
        }
        assert!(told.iter().zip((0..500).map(|n| n.to_string())).all(|(told, sent)| *told == sent), "{told:?}");
        assert_eq!(told.len(), 501);
        daemon.die();
        assert!(matches!(next(&mut ann).await, Some(Err(Error::ConnectionLost { .. }))));
        assert!(next(&mut ann).await.is_none(), "the end is told once");
    });
}

#[test]
fn a_sink_says_what_it_cannot_send_and_goes_on() {
    let daemon = Daemon::on_tcp(tight());
    run(async {
        let mut ann = connect(&daemon, "ann").await;
        let large = Draft::new(Service::Agreed, &[group("g")], vec![0; 100_001]).unwrap();
        let refused = Pin::new(&mut ann).start_send(large);
        assert!(matches!(refused, Err(Error::TooLarge { len: 100_001, max: 100_000 })), "{refused:?}");
        let nobody = Draft::new::<GroupName>(Service::Agreed, &[], "x");
        assert!(matches!(nobody, Err(Error::Targets { count: 0, .. })), "{nobody:?}");
        put(&mut ann, "after").await;
        close(&mut ann).await.unwrap();
        assert_eq!(ann.sent(), 1);
    });
}

#[test]
fn halves_of_one_task_serve_each_other() {
    let daemon = Daemon::on_tcp(tight());
    run(async {
        let (mut sender, mut receiver) = connect(&daemon, "ann").await.split();
        sender.join(&group("g")).await.unwrap();
        let sends = async {
            for n in 0..2_000 {
                sender.multicast(Service::Agreed, &[group("g")], n.to_string().as_bytes()).await.unwrap();
            }
            sender.wait_ordered().await.unwrap();
        };
        let ((), told) = both(sends, payloads(&mut receiver, 2_000)).await;
        assert!(told.iter().zip(0..).all(|(told, n)| *told == n.to_string()));
    });
}

#[test]
fn clones_of_a_sender_share_its_connection_and_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let daemons = [Daemon::on_tcp(tight()), Daemon::on_unix(&dir.path().join("socket"), tight())];
    for daemon in daemons {
        run(async {
            let (mut sender, mut receiver) = connect(&daemon, "ann").await.split();
            sender.join(&group("g")).await.unwrap();
            let told = tokio::spawn(async move { payloads(&mut receiver, 3_000).await });
            let tasks = ["a", "b", "c"].map(|name| {
                let mut sender = sender.clone();
                tokio::spawn(async move {
                    for n in 0..1_000 {
                        put(&mut sender, format!("{name}{n}")).await;
                    }
                    close(&mut sender).await.unwrap();
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            let told = told.await.unwrap();
            for name in ["a", "b", "c"] {
                let own = told.iter().filter_map(|payload| payload.strip_prefix(name));
                assert!(own.eq((0..1_000).map(|n| n.to_string()).collect::<Vec<_>>().iter()), "{name}");
            }
            assert_eq!(sender.progress().ordered, 3_001);
        });
    }
}

#[test]
fn a_send_that_a_half_gave_up_is_not_sent_and_the_end_reaches_both() {
    let mut daemon = Daemon::on_tcp(tight());
    run(async {
        let (mut sender, mut receiver) = connect(&daemon, "ann").await.split();
        sender.join(&group("g")).await.unwrap();
        sender.wait_ordered().await.unwrap();
        daemon.hold(true);
        sender.multicast(Service::Agreed, &[group("g")], &[b'1'; 900]).await.unwrap();
        let given_up =
            tokio::time::timeout(SHORT, sender.multicast(Service::Agreed, &[group("g")], &[b'2'; 900])).await;
        assert!(given_up.is_err(), "{given_up:?}");
        daemon.hold(false);
        sender.multicast(Service::Agreed, &[group("g")], b"3").await.unwrap();
        sender.flush().await.unwrap();
        assert_eq!(payloads(&mut receiver, 2).await, ["1".repeat(900), "3".to_owned()]);
        let lost = tokio::spawn(async move { receiver.receive().await.unwrap_err() });
        tokio::task::yield_now().await;
        daemon.die();
        assert!(matches!(lost.await.unwrap(), Error::ConnectionLost { .. }));
        let lost = sender.multicast(Service::Agreed, &[group("g")], b"4").await;
        assert!(matches!(lost, Err(Error::ConnectionLost { .. })), "{lost:?}");
    });
}

#[test]
fn halves_become_one_client_again_once_no_clone_is_left() {
    let daemon = Daemon::on_tcp(tight());
    run(async {
        let (mut sender, receiver) = connect(&daemon, "ann").await.split();
        let (other, _eve) = connect(&daemon, "eve").await.split();
        sender.join(&group("g")).await.unwrap();
        let (receiver, _) = receiver.unite(other).unwrap_err();
        let clone = sender.clone();
        let (receiver, mut sender) = receiver.unite(sender).unwrap_err();
        drop(clone);
        put(&mut sender, "kept in the sink").await;
        let mut ann = receiver.unite(sender).unwrap();
        ann.multicast(Service::Agreed, &[group("g")], b"after").await.unwrap();
        assert_eq!(super::asynchronous::next_payload(&mut ann).await, "kept in the sink");
        assert_eq!(super::asynchronous::next_payload(&mut ann).await, "after");
        ann.close().await.unwrap();
    });
}

#[test]
fn halves_go_to_other_threads() {
    fn goes<T: Send + Sync + 'static>() {}
    goes::<AsyncClient>();
    goes::<crate::AsyncSession>();
    goes::<crate::AsyncSessionSender>();
    goes::<crate::AsyncSessionReceiver>();
}
