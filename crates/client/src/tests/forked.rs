//! What a child of `fork()` may do with its parent's clients: nothing. These tests say that they are the child; real ones run
//! beside the clients in C and Python.
use super::*;
use crate::origin::child;
use crate::{ReadFrom, Session, SessionOptions};
use std::fmt::Debug;

fn is_forked<T: Debug>(call: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(call);
    let expected =
        format!("this client was made in process {}; make one in each process after fork()", std::process::id());
    assert_eq!(error.to_string(), expected, "{call}");
}

fn listeners(dir: &tempfile::TempDir) -> [Daemon; 2] {
    [Daemon::on_tcp(Limits::default()), Daemon::on_unix(&dir.path().join("socket"), Limits::default())]
}

/// A client with an event that waits and a send that is not written.
fn busy(daemon: &Daemon) -> Client {
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"one").unwrap();
    ann.wait_ordered(LONG).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"two").unwrap();
    assert!(ann.has_unwritten());
    ann
}

#[test]
fn a_client_answers_no_call_of_a_child_and_goes_on_for_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    for daemon in listeners(&dir) {
        let mut ann = busy(&daemon);
        child::acts(|| {
            let large = vec![b'x'; 20_000];
            is_forked("multicast", ann.multicast(Service::Agreed, &[group("g")], b"child"));
            is_forked("large", ann.multicast(Service::Agreed, &[group("g")], &large));
            is_forked("try_multicast", ann.try_multicast(Service::Agreed, &[group("g")], b"child"));
            is_forked("join", ann.join(&group("h")));
            is_forked("leave", ann.leave(&group("g")));
            is_forked("flush", ann.flush());
            is_forked("wait_ordered", ann.wait_ordered(LONG));
            is_forked("receive", ann.receive(LONG));
            is_forked("try_receive", ann.try_receive());
            is_forked("receive_buffered", ann.receive_buffered());
            is_forked("receive_borrowed", ann.receive_borrowed(LONG, |shown| panic!("{shown:?}")));
        });
        for payload in ["one", "two"] {
            assert_eq!(next_payload(&mut ann), payload);
        }
        assert_eq!(ann.receive(SHORT).unwrap(), None);
        child::acts(|| is_forked("status", ann.status(LONG)));
        child::acts(|| is_forked("close", ann.close(LONG)));
    }
}

#[test]
fn halves_answer_no_call_of_a_child_and_write_nothing_when_they_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    for daemon in listeners(&dir) {
        let mut bob = connect(&daemon.address, "bob");
        bob.join(&group("g")).unwrap();
        let (mut sender, mut receiver) = busy(&daemon).split();
        child::acts(|| {
            is_forked("multicast", sender.multicast(Service::Agreed, &[group("g")], b"child"));
            is_forked("flush", sender.flush());
            is_forked("wait_ordered", sender.wait_ordered(LONG));
            is_forked("receive", receiver.receive(LONG));
            is_forked("receive_borrowed", receiver.receive_borrowed(LONG, |shown| panic!("{shown:?}")));
            drop((sender, receiver));
        });
        // Its only descriptors are closed, so that it goes; it has said nothing before.
        let mut payloads = Vec::new();
        loop {
            match bob.receive(LONG).unwrap().expect("an event in time") {
                Event::Message(message) => payloads.push(message.payload().to_vec()),
                Event::GroupView(view) if view.members.len() == 1 && !payloads.is_empty() => break,
                _ => {}
            }
        }
        assert_eq!(payloads, [b"one"]);
    }
}

#[test]
fn a_session_answers_no_call_of_a_child_and_connects_nowhere() {
    let mut daemon = Daemon::on_tcp(Limits::default());
    let mut session = Session::connect(std::slice::from_ref(&daemon.address), SessionOptions::default()).unwrap();
    let mut calls = || {
        child::acts(|| {
            is_forked("send", session.send(Service::Agreed, &[group("g")], b"child"));
            is_forked("join", session.join(&group("g")));
            is_forked("leave", session.leave(&group("g")));
            is_forked("read", session.read(&[group("g")], ReadFrom::Start));
            is_forked("receive", session.receive(LONG));
            is_forked("settle", session.settle(LONG));
            is_forked("outcome", session.outcome(1, LONG));
        });
        assert_eq!(session.unsettled(), 0);
    };
    calls();
    daemon.die();
    // With no daemon left it would try the next.
    calls();
    child::acts(|| is_forked("finish", session.finish(LONG)));
}

#[cfg(feature = "tokio")]
mod asynchronous {
    use super::super::asynchronous::{self, run};
    use super::*;
    use crate::AsyncSession;

    #[test]
    fn an_async_client_answers_no_call_of_a_child_and_is_left_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        for daemon in listeners(&dir) {
            run(async {
                let mut bob = asynchronous::connect(&daemon, "bob").await;
                bob.join(&group("g")).await.unwrap();
                let mut ann = asynchronous::connect(&daemon, "ann").await;
                ann.join(&group("g")).await.unwrap();
                ann.wait_ordered().await.unwrap();
                ann.multicast(Service::Agreed, &[group("g")], b"one").await.unwrap();
                let acting = child::acting();
                is_forked("multicast", ann.multicast(Service::Agreed, &[group("g")], b"child").await);
                is_forked("try_multicast", ann.try_multicast(Service::Agreed, &[group("g")], b"child"));
                is_forked("join", ann.join(&group("h")).await);
                is_forked("flush", ann.flush().await);
                is_forked("wait_ordered", ann.wait_ordered().await);
                is_forked("receive", ann.receive().await);
                is_forked("try_receive", ann.try_receive());
                is_forked("status", ann.status().await);
                drop(acting);
                ann.flush().await.unwrap();
                ann.multicast(Service::Agreed, &[group("g")], b"two").await.unwrap();
                child::acts(|| drop(ann));
                assert_eq!(asynchronous::next_payload(&mut bob).await, "one");
                // Neither was the second one written, nor the socket closed.
                assert!(tokio::time::timeout(SHORT, bob.receive()).await.is_err());
            });
        }
    }

    #[test]
    fn an_async_session_answers_no_call_of_a_child() {
        let daemon = Daemon::on_tcp(Limits::default());
        run(async {
            let mut session =
                AsyncSession::connect(std::slice::from_ref(&daemon.address), SessionOptions::default()).await.unwrap();
            let _acting = child::acting();
            is_forked("send", session.send(Service::Agreed, &[group("g")], b"child").await);
            is_forked("join", session.join(&group("g")));
            is_forked("receive", session.receive().await);
            is_forked("flush", session.flush().await);
            is_forked("settle", session.settle().await);
            is_forked("finish", session.finish().await);
        });
    }
}
