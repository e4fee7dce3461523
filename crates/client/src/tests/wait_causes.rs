//! What sends wait for, and for how long one may.
use super::*;
use consort_types::{NodeId, OrderWait};

const SLOW: OrderWait = OrderWait::Slow(NodeId(3));

fn send(client: &mut Client) -> Result<u64, Error> {
    client.multicast_within(Service::Agreed, &[group("g")], &[0; 900], SHORT)
}

/// Waits until the daemon has named this cause.
fn hears(client: &mut Client, cause: WaitCause) {
    while client.wait_cause() != Some(cause) {
        assert_eq!(client.receive(SHORT).unwrap(), None);
    }
}

#[test]
fn errors_name_what_the_daemon_says_until_all_is_ordered() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold_for(OrderWait::Membership);
    let mut ann = connect(&daemon.address, "ann");
    assert_eq!(send(&mut ann).unwrap(), 1);
    assert_eq!(ann.wait_cause(), None);
    hears(&mut ann, WaitCause::Membership);
    let late = send(&mut ann);
    assert!(matches!(late, Err(Error::TimedOut { cause: Some(WaitCause::Membership) })), "{late:?}");
    let late = ann.wait_ordered(SHORT);
    assert!(matches!(late, Err(Error::TimedOut { cause: Some(WaitCause::Membership) })), "{late:?}");
    daemon.hold_for(SLOW);
    hears(&mut ann, WaitCause::Slow(NodeId(3)));
    let blocked = ann.try_multicast(Service::Agreed, &[group("g")], &[0; 900]);
    let named = matches!(blocked, Err(Error::WouldBlock { needs: 909, free: 91, cause: WaitCause::Slow(NodeId(3)) }));
    assert!(named, "{blocked:?}");
    daemon.hold(false);
    ann.wait_ordered(LONG).unwrap();
    assert_eq!((ann.wait_cause(), ann.sent()), (None, 1));
    assert_eq!(send(&mut ann).unwrap(), 2);
}

#[test]
fn without_a_word_of_the_daemon_it_is_the_own_credit() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold(true);
    let mut ann = connect(&daemon.address, "ann");
    send(&mut ann).unwrap();
    let late = send(&mut ann);
    assert!(matches!(late, Err(Error::TimedOut { cause: Some(WaitCause::Budget) })), "{late:?}");
    assert_eq!(ann.sent(), 1);
}

#[test]
fn both_halves_know_what_is_waited_for() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold_for(OrderWait::Window);
    let (mut sender, mut receiver) = connect(&daemon.address, "ann").split();
    sender.multicast(Service::Agreed, &[group("g")], &[0; 900]).unwrap();
    sender.flush().unwrap();
    while receiver.wait_cause().is_none() {
        assert_eq!(receiver.receive(SHORT).unwrap(), None);
    }
    assert_eq!(sender.wait_cause(), Some(WaitCause::Window));
    let late = sender.multicast_within(Service::Agreed, &[group("g")], &[0; 900], SHORT);
    assert!(matches!(late, Err(Error::TimedOut { cause: Some(WaitCause::Window) })), "{late:?}");
    daemon.hold(false);
    while receiver.progress().ordered < 1 {
        assert_eq!(receiver.receive(SHORT).unwrap(), None);
    }
    assert_eq!(sender.multicast_within(Service::Agreed, &[group("g")], &[0; 900], LONG).unwrap(), 2);
}
