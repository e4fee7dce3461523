//! Sends that wait say what for.

use crate::support::{self, World};
use consort::{Address, Client, ConnectOptions, Error, GroupName, Service, WaitCause};
use rustix::process::Signal;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends until what was sent first is ordered, and returns what the errors said meanwhile. Safe messages: whoever holds
/// the token orders agreed ones alone, as long as its window lets it.
fn send_until_ordered(client: &mut Client, group: &GroupName) -> Vec<WaitCause> {
    let (wanted, mut causes) = (client.sent() + 1, Vec::new());
    while client.progress().ordered < wanted {
        match client.multicast_within(Service::Safe, std::slice::from_ref(group), &[7; 100_000], MOMENT) {
            Ok(_) => {}
            Err(Error::TimedOut { cause }) => causes.extend(cause),
            Err(other) => panic!("{other}"),
        }
    }
    causes
}

#[test]
fn a_send_that_waits_because_a_daemon_is_stopped_says_so() {
    let world = World::new();
    let daemons = world.daemons(2, &[]);
    support::wait_until("both are in one view", || are_two(&world));
    let group = GroupName::new(b"orders").unwrap();
    let mut client = Client::connect(&Address::Unix(world.socket_path(1)), &ConnectOptions::default()).unwrap();
    let mut seen = Vec::new();
    support::wait_until("the membership is named", || {
        daemons[1].signal(Signal::STOP);
        seen.extend(send_until_ordered(&mut client, &group));
        daemons[1].signal(Signal::CONT);
        support::wait_until("both are in one view again", || are_two(&world));
        seen.contains(&WaitCause::Membership)
    });
    client.wait_ordered(PATIENCE).unwrap();
    assert_eq!(client.wait_cause(), None);
    let waited = world.run(&["status", "--node", "1", "--json"]).out;
    assert!(waited.contains("requests_waited_membership"), "{waited}");
}

fn are_two(world: &World) -> bool {
    let ran = world.run(&["explain", "--json", "--node", "1"]);
    let story: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
    story["members"].as_array().is_some_and(|members| members.len() == 2)
}
