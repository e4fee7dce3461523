//! Sessions over TLS, with real daemons and certificates made for the purpose.

use crate::support::{Daemon, World, free_port, wait_until};
use consort::{
    Address, AsyncClient, Client, ClientTls, ConnectOptions, Error, Event, GroupName, RefusalCause, Service, Session,
    SessionEvent, SessionOptions,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    Authority { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
}

fn certificate(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem())
}

/// A daemon alone that speaks TLS, and asks for certificates of `clients`.
fn start(world: &World, daemons: &Authority, clients: &Authority, rules: &str) -> (Daemon, Address) {
    let (port, tls) = (free_port(), free_port());
    let (chain, key) = certificate(daemons, "127.0.0.1");
    let [chain, key, authority] = [("daemon.pem", &chain), ("daemon.key", &key), ("clients.pem", &clients.pem)]
        .map(|(name, text)| world.write(name, text));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let cluster = &world.cluster;
    let text = format!(
        "cluster = \"{cluster}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n\
         [clients]\nlisten_tls = [\"127.0.0.1:{tls}\"]\n[security]\ncertificate = \"{chain}\"\n\
         certificate_key = \"{key}\"\nclient_authority = \"{authority}\"\n{rules}"
    );
    let file = world.write("consort.toml", &text);
    (world.daemon_as(&["daemon", "--config", &file]), format!("127.0.0.1:{tls}").parse().unwrap())
}

fn tls(daemons: &Authority, own: Option<&(String, String)>) -> ConnectOptions {
    let own = own.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
    ConnectOptions::default().with_tls(ClientTls::new(daemons.pem.as_bytes(), own).unwrap())
}

#[test]
fn a_certificate_says_who_a_client_is_and_what_it_may_do() {
    let world = World::new();
    let (daemons, clients) = (authority("daemons"), authority("clients"));
    let rules = "[[rights]]\nwho = [\"certificate:*.billing\"]\ngroups = [\"orders\"]\nallow = [\"join\", \"send\"]\n\
                 [[rights]]\nwho = [\"certificate:audit\"]\ngroups = [\"*\"]\nallow = [\"join\", \"see\"]\n";
    let (daemon, address) = start(&world, &daemons, &clients, rules);
    let (billing, audit) = (certificate(&clients, "eu.billing"), certificate(&clients, "audit"));
    let orders = GroupName::new("orders").unwrap();
    let mut sender = Client::connect(&address, &tls(&daemons, Some(&billing))).unwrap();
    let logged = daemon.says("certificate:eu.billing");
    assert!(logged.contains("client connected"), "{logged}");
    let mut auditor = Client::connect(&address, &tls(&daemons, Some(&audit))).unwrap();
    auditor.join(&orders).unwrap();
    while !matches!(auditor.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))) {}
    let large = vec![7; 1 << 20];
    sender.multicast(Service::Agreed, std::slice::from_ref(&orders), &large).unwrap();
    sender.flush().unwrap();
    match auditor.receive(PATIENCE).unwrap() {
        Some(Event::Message(message)) => assert!(message.payload() == large),
        other => panic!("{other:?}"),
    }
    let send = auditor.multicast(Service::Agreed, &[orders], b"no").unwrap();
    match auditor.receive(PATIENCE).unwrap() {
        Some(Event::Refused { send: number, refusal }) => {
            assert_eq!((number, refusal.cause), (send, RefusalCause::Denied));
            assert_eq!(refusal.text, "certificate:audit may not send to orders: no rule allows it");
        }
        other => panic!("{other:?}"),
    }
    // A command does the same by its environment.
    let at = address.to_string();
    let [authority, chain, key] =
        [("a.pem", &daemons.pem), ("c.pem", &audit.0), ("c.key", &audit.1)].map(|(name, text)| world.write(name, text));
    let mut command = world.command(&["groups", "--daemon", &at]);
    command.env("CONSORT_TLS_AUTHORITY", authority).env("CONSORT_TLS_CERTIFICATE", chain).env("CONSORT_TLS_KEY", key);
    let shown = command.output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned() + &String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success() && text.contains("orders"), "{text}");
}

#[test]
fn who_has_no_certificate_or_a_wrong_one_is_refused_on_both_sides() {
    let world = World::new();
    let (daemons, clients, others) = (authority("daemons"), authority("clients"), authority("others"));
    let (daemon, address) = start(&world, &daemons, &clients, "");
    let refused = |options: &ConnectOptions| Client::connect(&address, options).unwrap_err();
    let text = |error: Error| match error {
        Error::Connect { source, .. } => source.to_string(),
        other => panic!("{other:?}"),
    };
    let none = text(refused(&tls(&daemons, None)));
    assert!(none.contains("CertificateRequired"), "{none}");
    assert!(daemon.says("client refused by TLS").contains("127.0.0.1"));
    let wrong = text(refused(&tls(&daemons, Some(&certificate(&others, "eu.billing")))));
    assert!(wrong.contains("UnknownCA"), "{wrong}");
    assert!(daemon.says("client refused by TLS").contains("UnknownIssuer"));
    let unbelieved = refused(&tls(&others, Some(&certificate(&clients, "eu.billing"))));
    let told = unbelieved.to_string();
    assert!(unbelieved.is_of_tls() && told.contains(" by TLS: ") && told.contains("UnknownIssuer"), "{told}");
    let plain = refused(&ConnectOptions::default().connect_within(Duration::from_secs(2)));
    assert!(!matches!(plain, Error::NotWelcome(_)) && !plain.is_of_tls(), "{plain:?}");
    Client::connect(&address, &tls(&daemons, Some(&certificate(&clients, "eu.billing")))).unwrap();
}

#[test]
fn a_command_names_the_file_and_the_line_that_is_of_no_use() {
    let world = World::new();
    let file = world.write("a.pem", "\n-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
    let mut command = world.command(&["groups", "--daemon", "127.0.0.1:1"]);
    let told = command.env("CONSORT_TLS_AUTHORITY", &file).output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(!told.status.success() && text.contains(&format!("{file}:2: the certificate is damaged")), "{text}");
}

#[test]
fn one_set_of_options_is_for_addresses_of_both_kinds() {
    let world = World::new();
    let (daemons, clients) = (authority("daemons"), authority("clients"));
    let (_daemon, sealed) = start(&world, &daemons, &clients, "");
    let (socket, own) = (Address::Unix(world.socket_path(1)), certificate(&clients, "eu.billing"));
    let options = tls(&daemons, Some(&own));
    Client::connect(&socket, &options).unwrap();
    let [authority, chain, key] =
        [("a.pem", &daemons.pem), ("c.pem", &own.0), ("c.key", &own.1)].map(|(name, text)| world.write(name, text));
    for at in [&sealed, &socket] {
        let mut command = world.command(&["status", "--daemon", &at.to_string()]);
        command.env("CONSORT_TLS_AUTHORITY", &authority).env("CONSORT_TLS_CERTIFICATE", &chain);
        let shown = command.env("CONSORT_TLS_KEY", &key).output().unwrap();
        assert!(shown.status.success(), "{at}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    let both = [sealed, socket];
    for first in [0, 1] {
        let addresses = [both[first].clone(), both[1 - first].clone()];
        let mut session = Session::connect(&addresses, SessionOptions::default().connect(options.clone())).unwrap();
        match session.receive(PATIENCE).unwrap() {
            Some(SessionEvent::Connected { address }) => assert_eq!(address, addresses[0]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn asynchronous_clients_speak_tls_and_are_told_why_they_are_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = World::new();
    let (daemons, clients, others) = (authority("daemons"), authority("clients"), authority("others"));
    let (_daemon, address) = start(&world, &daemons, &clients, "");
    runtime.block_on(async {
        let own = certificate(&clients, "eu.billing");
        let mut client = AsyncClient::connect(&address, &tls(&daemons, Some(&own))).await.unwrap();
        let orders = GroupName::new("orders").unwrap();
        client.join(&orders).await.unwrap();
        assert!(matches!(client.receive().await.unwrap(), Event::GroupView(_)));
        let large = vec![7; 1 << 20];
        client.multicast(Service::Agreed, std::slice::from_ref(&orders), &large).await.unwrap();
        match client.receive().await.unwrap() {
            Event::Message(message) => assert!(message.payload() == large),
            other => panic!("{other:?}"),
        }
        let refused = [(None, "CertificateRequired"), (Some(certificate(&others, "eu.billing")), "UnknownCA")];
        for (shown, why) in refused {
            match AsyncClient::connect(&address, &tls(&daemons, shown.as_ref())).await.unwrap_err() {
                Error::Connect { source, .. } => assert!(source.to_string().contains(why), "{source}"),
                other => panic!("{other:?}"),
            }
        }
        let unbelieved = AsyncClient::connect(&address, &tls(&others, Some(&own))).await.unwrap_err();
        assert!(
            unbelieved.to_string().contains("UnknownIssuer") || format!("{unbelieved:?}").contains("UnknownIssuer")
        );
    });
}

#[test]
fn metrics_are_told_by_tls_to_clients_with_a_certificate_alone() {
    let world = World::new();
    let (daemons, clients) = (authority("daemons"), authority("clients"));
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\ntls = true\n";
    let (daemon, _) = start(&world, &daemons, &clients, metrics);
    let line = daemon.says("tells metrics");
    assert!(line.contains("encrypted=true"), "{line}");
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let ask = |own: Option<&(String, String)>| {
        let own = own.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
        let tls = ClientTls::new(daemons.pem.as_bytes(), own).unwrap();
        // It may be refused before or behind its own part of the handshake.
        let bridge = match tls.bridge(TcpStream::connect(&address).unwrap(), "127.0.0.1", PATIENCE) {
            Ok(bridge) => bridge,
            Err(error) => return (String::new(), Some(format!("{error:?}"))),
        };
        let (mut stream, mut answer) = (bridge.stream, String::new());
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
        (answer, bridge.problem.text().map(str::to_owned))
    };
    let prometheus = certificate(&clients, "prometheus");
    wait_until("it is ready", || ask(Some(&prometheus)).0.contains("consort_ready 1"));
    let (page, problem) = ask(Some(&prometheus));
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page} {problem:?}");
    let (page, problem) = ask(None);
    assert!(page.is_empty() && problem.as_ref().unwrap().contains("CertificateRequired"), "{page} {problem:?}");
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "whoever speaks plain is told nothing");
}

#[test]
fn certificates_are_read_again_at_a_hangup_and_sessions_go_on() {
    let world = World::new();
    let (daemons, next, clients) = (authority("daemons"), authority("next"), authority("clients"));
    let (daemon, address) = start(&world, &daemons, &clients, "");
    let own = certificate(&clients, "eu.billing");
    let mut before = Client::connect(&address, &tls(&daemons, Some(&own))).unwrap();
    // One that is not right changes nothing.
    let chain = world.write("daemon.pem", "no certificate");
    daemon.signal(Signal::HUP);
    assert!(daemon.says("certificates and keys stay as they were").contains(&chain));
    Client::connect(&address, &tls(&daemons, Some(&own))).unwrap();
    let (chain, key) = certificate(&next, "127.0.0.1");
    world.write("daemon.pem", &chain);
    world.write("daemon.key", &key);
    daemon.signal(Signal::HUP);
    daemon.says("told by SIGHUP: certificates read again");
    let unbelieved = Client::connect(&address, &tls(&daemons, Some(&own))).unwrap_err();
    assert!(matches!(unbelieved, Error::Connect { .. }), "{unbelieved:?}");
    Client::connect(&address, &tls(&next, Some(&own))).unwrap();
    let group = GroupName::new("orders").unwrap();
    before.join(&group).unwrap();
    assert!(matches!(before.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))), "it was not disturbed");
}

#[test]
fn a_daemon_without_its_certificate_does_not_start() {
    let world = World::new();
    let text = |security: &str| {
        format!(
            "cluster = \"{}\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{}\"\n[clients]\nlisten_tls = [\"127.0.0.1:0\"]\n{security}",
            world.cluster,
            free_port()
        )
    };
    let problem = |security: &str| {
        let file = world.write("bad.toml", &text(security));
        let ran = world.run(&["daemon", "--config", &file]);
        assert_ne!(ran.code, 0);
        ran.errors
    };
    assert!(problem("").contains("listen_tls needs a certificate"));
    let file =
        world.write("m.toml", "cluster = \"c\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:1\"\n[metrics]\ntls = true\n");
    let ran = world.run(&["daemon", "--config", &file]);
    assert!(ran.errors.contains("tls below [metrics] needs a certificate"), "{}", ran.errors);
    let (chain, key) = certificate(&authority("one"), "127.0.0.1");
    let (_, other) = certificate(&authority("two"), "127.0.0.1");
    let security =
        |chain: &str, key: &str| format!("[security]\ncertificate = \"{chain}\"\ncertificate_key = \"{key}\"\n");
    let (chain, key, other) = (world.write("c.pem", &chain), world.write("c.key", &key), world.write("o.key", &other));
    for path in [&key, &other] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(problem(&security(&chain, &other)).contains("for TLS: "), "another's key");
    assert!(problem(&security("/nowhere.pem", &key)).contains("cannot read the certificate /nowhere.pem"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(problem(&security(&chain, &key)).contains("chmod 600"));
}
