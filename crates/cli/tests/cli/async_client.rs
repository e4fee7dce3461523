//! The client on tokio, against real daemons.

use crate::support::World;
use consort::{Address, AsyncClient, ConnectOptions, Error, Event, GroupName, Service};
use std::time::Duration;
use tokio::time::timeout;

/// No event of these tests takes longer to come, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(world: &World, node: u16, name: &str) -> AsyncClient {
    let options = ConnectOptions::default().called(name).unwrap();
    AsyncClient::connect(&Address::Unix(world.socket_path(node)), &options).await.unwrap()
}

/// Receives until the group has so many members.
async fn members(client: &mut AsyncClient, count: usize) {
    while !matches!(client.receive().await.unwrap(), Event::GroupView(view) if view.members.len() == count) {}
}

/// The next messages, by sender and text.
async fn messages(client: &mut AsyncClient, count: usize) -> Vec<String> {
    let mut messages = Vec::new();
    while messages.len() < count {
        if let Event::Message(message) = client.receive().await.unwrap() {
            messages.push(format!("{} {}", message.sender_name(), String::from_utf8_lossy(message.payload())));
        }
    }
    messages
}

async fn send(client: &mut AsyncClient, group: &GroupName, count: usize) {
    for n in 0..count {
        let sent = client.multicast(Service::Agreed, std::slice::from_ref(group), n.to_string().as_bytes()).await;
        sent.unwrap();
    }
    client.flush().await.unwrap();
}

#[test]
fn async_clients_of_three_daemons_see_one_order_and_the_death_of_a_daemon() {
    let world = World::new();
    let mut daemons = world.daemons(3, &[]);
    let group = GroupName::new(b"g").unwrap();
    let story = async {
        let mut ann = connect(&world, 1, "ann").await;
        let mut bob = connect(&world, 2, "bob").await;
        let mut eve = connect(&world, 3, "eve").await;
        for client in [&mut ann, &mut bob, &mut eve] {
            client.join(&group).await.unwrap();
            client.wait_ordered().await.unwrap();
        }
        for client in [&mut ann, &mut bob, &mut eve] {
            members(client, 3).await;
        }
        for client in [&mut ann, &mut bob, &mut eve] {
            send(client, &group, 1_000).await;
        }
        let (anns, bobs) = (messages(&mut ann, 3_000).await, messages(&mut bob, 3_000).await);
        let eves = messages(&mut eve, 3_000).await;
        assert!(anns == bobs && bobs == eves);
        for name in ["ann", "bob", "eve"] {
            let own = anns.iter().filter_map(|message| message.strip_prefix(name));
            assert!(own.map(str::trim).eq((0..1_000).map(|n| n.to_string())), "{name}'s in their order");
        }
        daemons[2].kill();
        let lost = loop {
            match eve.receive().await {
                Ok(_) => {}
                Err(lost) => break lost,
            }
        };
        assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
        members(&mut ann, 2).await;
        bob.close().await.unwrap();
        members(&mut ann, 1).await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, story).await.expect("an end in time") });
}
