//! What clients may do, with real daemons: rules in the file, read again at SIGHUP.

use crate::support::{Daemon, World, free_port};
use consort::{Address, Client, ConnectOptions, DisconnectReason, Error, Event, GroupName, RefusalCause, Service};
use rustix::process::Signal;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

/// A daemon alone, with a TCP port and these rules in a file of their own.
fn start(world: &World, rules: &str) -> (Daemon, Address) {
    let (port, clients) = (free_port(), free_port());
    let rights = world.write("rights.toml", rules);
    let cluster = &world.cluster;
    let text = format!(
        "cluster = \"{cluster}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n\
         [clients]\nlisten = [\"127.0.0.1:{clients}\"]\n[security]\nrights = \"{rights}\"\n"
    );
    let file = world.write("consort.toml", &text);
    let daemon = world.daemon_as(&["daemon", "--config", &file]);
    (daemon, format!("127.0.0.1:{clients}").parse().unwrap())
}

/// The next event that `wanted` makes something of.
fn find<T>(client: &mut Client, wanted: impl Fn(Event) -> Option<T>) -> T {
    loop {
        let event = client.receive(PATIENCE).unwrap().expect("it comes in time");
        if let Some(found) = wanted(event) {
            return found;
        }
    }
}

fn refusal(client: &mut Client) -> (u64, RefusalCause, String) {
    find(client, |event| match event {
        Event::Refused { send, refusal } => Some((send, refusal.cause, refusal.text)),
        _ => None,
    })
}

#[test]
fn users_and_addresses_may_do_what_the_file_says_and_a_hangup_changes_it() {
    let world = World::new();
    let me = rustix::process::geteuid().as_raw();
    let rules = format!(
        "[[rights]]\nrule = \"here\"\nwho = [\"user:{me}\"]\ngroups = [\"*\", \"#*\"]\nallow = [\"join\", \"send\", \"receive\", \"see\"]\n\
         [[rights]]\nrule = \"far\"\nwho = [\"address:127.0.0.0/8\"]\ngroups = [\"news\"]\nallow = [\"join\"]\nnames = [\"far-*\"]\n"
    );
    let (daemon, tcp) = start(&world, &rules);
    let near = Address::Unix(world.socket_path(1));
    let mut near = Client::connect(&near, &ConnectOptions::default()).unwrap();
    let error = Client::connect(&tcp, &ConnectOptions::default().called("bob").unwrap()).unwrap_err();
    let Error::NotWelcome(farewell) = error else { panic!("{error}") };
    assert_eq!(farewell.reason, DisconnectReason::Denied);
    assert_eq!(farewell.text, "address:127.0.0.1 may not be called bob: rule far allows far-*");
    let mut far = Client::connect(&tcp, &ConnectOptions::default().called("far-1").unwrap()).unwrap();
    near.join(&group("news")).unwrap();
    far.join(&group("news")).unwrap();
    let send = far.multicast(Service::Agreed, &[group("news")], b"hello").unwrap();
    let text = "address:127.0.0.1 may not send to news: no rule allows it".to_owned();
    assert_eq!(refusal(&mut far), (send, RefusalCause::Denied, text));
    near.multicast(Service::Agreed, &[group("news")], b"hello").unwrap();
    near.flush().unwrap();
    let payload = |event| if let Event::Message(message) = event { Some(message.payload().to_vec()) } else { None };
    // The two may have joined in either order: what follows is behind both joins.
    assert_eq!((find(&mut far, payload), find(&mut near, payload)), (b"hello".to_vec(), b"hello".to_vec()));

    // What is wrong changes nothing, and is told with file and line.
    world.write("rights.toml", "[[rights]]\nwho = [\"root\"]\nconnections = 1\n");
    daemon.signal(Signal::HUP);
    let told = daemon.says("stay as they were");
    assert!(told.contains("rights.toml:2: rights.who: \\\"root\\\" names nobody"), "{told}");

    // The right to be in a group is taken away while it is used.
    world.write("rights.toml", &rules.replace("allow = [\"join\"]", "allow = [\"see\"]"));
    daemon.signal(Signal::HUP);
    let text = "address:127.0.0.1 may not join news: no rule allows it".to_owned();
    assert_eq!(refusal(&mut far), (0, RefusalCause::Denied, text));
    let gone = |event| match event {
        Event::GroupView(view) if view.members.len() == 1 => Some(view.members[0].name.to_string()),
        _ => None,
    };
    let here = near.welcome().name.to_string();
    assert_eq!((find(&mut far, gone), find(&mut near, gone)), (here.clone(), here));
    near.multicast(Service::Agreed, &[group("news")], b"still").unwrap();
    assert_eq!(find(&mut near, payload), b"still");
    let status = world.run(&["status", "--json"]);
    assert!(status.out.contains("\"rights_rules\": 2") || status.out.contains("\"rights_rules\":2"), "{}", status.out);
}

#[test]
fn lists_are_refused_to_whom_they_are_not_for() {
    let world = World::new();
    let rules = "[[rights]]\nwho = [\"tcp\"]\ngroups = [\"a\"]\nallow = [\"join\"]\n\
                 [[rights]]\nwho = [\"unix\"]\ngroups = [\"b\"]\nallow = [\"see\"]\n";
    let (_daemon, tcp) = start(&world, rules);
    let mut member = Client::connect(&tcp, &ConnectOptions::default()).unwrap();
    member.join(&group("a")).unwrap();
    find(&mut member, |event| matches!(event, Event::GroupView(_)).then_some(()));
    let all = world.run(&["groups"]);
    assert_eq!((all.code, all.out.as_str()), (0, ""), "{}", all.errors);
    let one = world.run(&["groups", "a"]);
    assert_eq!(one.code, 1);
    assert!(one.errors.contains("may not see who is in a: no rule allows it"), "{}", one.errors);
}

#[test]
fn a_file_of_rules_that_is_wrong_keeps_the_daemon_from_starting() {
    let world = World::new();
    let rights = world.write("rights.toml", "[[rights]]\nwho = [\"*\"]\nallow = [\"fly\"]\ngroups = [\"*\"]\n");
    let text = format!(
        "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n[security]\nrights = \"{rights}\"\n",
        world.cluster,
        free_port()
    );
    let file = world.write("consort.toml", &text);
    let ran = world.run(&["daemon", "--config", &file]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.errors.contains("rights.toml:3: rights.allow: \"fly\" is nothing that can be allowed"),
        "{}",
        ran.errors
    );
}

/// What `consort token` prints.
fn token(world: &World, words: &[&str]) -> String {
    let path = world.path("tokens").display().to_string();
    let ran = world.run(&[&["token", &path], words].concat());
    assert_eq!(ran.code, 0, "{}", ran.errors);
    ran.out.trim().to_owned()
}

#[test]
fn clients_on_a_network_prove_who_they_are_by_tokens() {
    let world = World::new();
    let billing = token(&world, &["billing"]);
    let (audit, short) = (token(&world, &["audit", "--for", "1h"]), token(&world, &["audit", "--for", "1s"]));
    let (port, clients) = (free_port(), free_port());
    let (cluster, tokens) = (&world.cluster, world.path("tokens").display().to_string());
    let text = format!(
        "cluster = \"{cluster}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n\
         [clients]\nlisten = [\"127.0.0.1:{clients}\"]\n[security]\ntokens = \"{tokens}\"\n\
         [[rights]]\nrule = \"billing\"\nwho = [\"token:billing\"]\ngroups = [\"*\"]\nallow = [\"join\", \"send\"]\n\
         [[rights]]\nwho = [\"token:audit\"]\ngroups = [\"*\"]\nallow = [\"join\", \"receive\", \"see\"]\n"
    );
    let file = world.write("consort.toml", &text);
    let daemon = world.daemon_as(&["daemon", "--config", &file]);
    let address: Address = format!("127.0.0.1:{clients}").parse().unwrap();
    let connect = |shown: Option<&str>| {
        let plain = ConnectOptions::default();
        Client::connect(&address, &shown.map_or(plain.clone(), |token| plain.showing(token)))
    };
    let refused = |shown: Option<&str>| match connect(shown).unwrap_err() {
        Error::NotWelcome(farewell) => farewell.reason,
        error => panic!("{error}"),
    };
    assert_eq!(refused(None), DisconnectReason::Unproven);
    assert_eq!(refused(Some("password")), DisconnectReason::TokenMalformed);
    let (kept, last) = billing.split_at(billing.len() - 1);
    let other = format!("{kept}{}", if last == "0" { "1" } else { "0" });
    assert!([DisconnectReason::TokenUnknown, DisconnectReason::TokenMalformed].contains(&refused(Some(&other))));
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(refused(Some(&short)), DisconnectReason::TokenExpired);
    let mut sender = connect(Some(&billing)).unwrap();
    let mut reader = connect(Some(&audit)).unwrap();
    reader.join(&group("bills")).unwrap();
    let joined = |event| matches!(event, Event::GroupView(_)).then_some(());
    find(&mut reader, joined);
    sender.multicast(Service::Agreed, &[group("bills")], b"a dozen").unwrap();
    sender.flush().unwrap();
    let payload = |event| if let Event::Message(message) = event { Some(message.payload().to_vec()) } else { None };
    assert_eq!(find(&mut reader, payload), b"a dozen");
    let send = reader.multicast(Service::Agreed, &[group("bills")], b"no").unwrap();
    let text = "token:audit may not send to bills: no rule allows it".to_owned();
    assert_eq!(refusal(&mut reader), (send, RefusalCause::Denied, text));

    // Commands show the token in their environment.
    let at = address.to_string();
    let mut command = world.command(&["groups", "bills", "--daemon", &at]);
    let shown = command.env("CONSORT_TOKEN", &audit).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let bare = world.run(&["groups", "--daemon", &at]);
    assert!(bare.errors.contains("prove who they are by a token"), "{}", bare.errors);

    // A token that is taken back ends its session, and no other.
    let kept: String = std::fs::read_to_string(&tokens)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("key"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&tokens, kept).unwrap();
    daemon.signal(Signal::HUP);
    let gone = loop {
        match sender.receive(PATIENCE) {
            Ok(event) => assert!(event.is_some(), "it is sent away in time"),
            Err(Error::Disconnected { farewell, .. }) => break farewell.reason,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(gone, DisconnectReason::TokenUnknown);
    assert_eq!(refused(Some(&billing)), DisconnectReason::TokenUnknown);
    assert!(reader.receive(Duration::from_millis(50)).is_ok());
}
