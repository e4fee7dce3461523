//! Nodes within a program, among themselves and beside daemons.

use consort::embedded::{Builder, Node};
use consort::{Client, ConnectOptions, Event, GroupName, Service};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads until an event says what is wanted.
fn until<T>(client: &mut Client, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    loop {
        let event = client.receive(PATIENCE).unwrap().expect("something comes");
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

fn members(client: &mut Client, count: usize) {
    until(client, |event| match event {
        Event::GroupView(view) if view.members.len() == count => Some(()),
        _ => None,
    });
}

fn text(client: &mut Client) -> String {
    until(client, |event| match event {
        Event::Message(message) => Some(String::from_utf8_lossy(message.payload()).into_owned()),
        _ => None,
    })
}

#[test]
fn nodes_of_one_program_order_together_and_leave_in_good_order() {
    let cluster = format!("embedded-{}", std::process::id());
    let state = tempfile::tempdir().unwrap();
    let start = |_| Builder::on_this_machine(&cluster, 3).state_dir(state.path()).start().unwrap();
    let mut nodes: Vec<Node> = (0..3).map(start).collect();
    assert_eq!(nodes.iter().map(Node::id).collect::<Vec<_>>(), [1, 2, 3]);
    let taken = Builder::on_this_machine(&cluster, 3).node(2).state_dir(state.path()).start();
    assert!(taken.unwrap_err().to_string().contains("node 2"), "its place is taken");

    let group = GroupName::new(b"embedded").unwrap();
    let mut clients: Vec<_> = nodes.iter().map(|node| node.connect(&ConnectOptions::default()).unwrap()).collect();
    for client in &mut clients {
        client.join(&group).unwrap();
    }
    clients.iter_mut().for_each(|client| members(client, 3));
    for (client, said) in clients.iter_mut().zip(["one", "two", "three"]) {
        client.multicast(Service::Safe, std::slice::from_ref(&group), said.as_bytes()).unwrap();
        client.flush().unwrap();
    }
    let heard: Vec<Vec<_>> = clients.iter_mut().map(|client| (0..3).map(|_| text(client)).collect()).collect();
    assert!(heard.iter().all(|texts| *texts == heard[0]), "{heard:?}");

    nodes.pop().unwrap().leave().unwrap();
    clients[..2].iter_mut().for_each(|client| members(client, 2));
    let end = loop {
        if let Err(error) = clients[2].receive(PATIENCE) {
            break error;
        }
    };
    assert!(matches!(end, consort::Error::Disconnected { .. }), "its node has left: {end}");
    drop(nodes.pop());
    members(&mut clients[0], 1);
}

#[test]
fn a_node_with_metrics_can_be_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = directory.path().join("consort.toml");
    let text = format!(
        "cluster = \"embedded-metrics-{}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n\
         [metrics]\nlisten = \"127.0.0.1:{}\"\n",
        std::process::id(),
        port(),
        port()
    );
    std::fs::write(&file, text).unwrap();
    for _ in 0..2 {
        let node = Builder::from_file(&file).state_dir(directory.path()).start().unwrap();
        node.connect(&ConnectOptions::default()).unwrap().close(PATIENCE).unwrap();
        node.leave().unwrap();
    }
}

#[test]
fn an_embedded_node_and_a_daemon_are_one_cluster() {
    let cluster = format!("embedded-daemon-{}", std::process::id());
    let state = tempfile::tempdir().unwrap();
    let node = Builder::on_this_machine(&cluster, 2).state_dir(state.path()).start().unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(["daemon", "--while-stdin-open", "--cluster", &cluster, "--nodes", "2", "--state-dir"])
        .arg(state.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = node.connect(&ConnectOptions::default().with_views()).unwrap();
    let mut seen = |count| {
        until(&mut client, |event| match event {
            Event::View(view) if view.members.len() == count => Some(()),
            _ => None,
        });
    };
    seen(2);
    drop(daemon.stdin.take());
    assert!(daemon.wait().unwrap().success());
    seen(1);
    node.leave().unwrap();
}
