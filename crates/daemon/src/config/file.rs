//! The file: `consort.toml`, the same on every machine.
use super::reader::{Notes, Section, set};
use super::{
    PROFILES, PROTOCOLS, RINGS, SCHEDULINGS, Settings, addresses, networks, protocol, registry, rights, rings, slow,
    spread,
};
use crate::failure::{Failure, Outcome};
use crate::runtime_dir;
use consort_ring::Policy;
use consort_ring::Priority;
use consort_types::NodeId;
use consort_wire::DatagramSize;
use std::fs;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// How long the machine of a client may answer nothing: the kernel asks it once a second, and at most each hour.
const HOST_TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(6 * 60 * 60);

/// How long what clients read may be retained.
const RETAIN_FOR_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long producers may be known of which nothing is ordered. The daemons look once a minute.
const PRODUCERS_FOR: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Reads and checks a file. Everything that is wrong with it is reported at once.
pub fn read(path: &Path) -> Outcome<Settings> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Failure::usage(format!("{name}:{line}: this is not UTF-8; save the file in that encoding"))
    })?;
    parse(&name, text)
}

pub(super) fn parse(name: &str, text: &str) -> Outcome<Settings> {
    let mut notes = Notes::new(text);
    let settings = notes.parse(text).and_then(|table| settings(&mut notes, table.get_ref()));
    if let Some(settings) = settings.as_ref().filter(|_| notes.problems.is_empty())
        && let Err((setting, problem)) = settings.validate()
    {
        notes.about(setting, problem);
    }
    match settings {
        Some(settings) if notes.problems.is_empty() => Ok(settings),
        _ => Err(notes.refusal(name)),
    }
}

fn settings(notes: &mut Notes, table: &toml::de::DeTable<'_>) -> Option<Settings> {
    let mut root = Section::root(notes, table);
    let cluster = root.text("cluster", |text| runtime_dir::check_cluster(text).map(|()| text.to_owned()));
    let cluster = root.require("cluster", cluster, "name the cluster: cluster = \"prod\"");
    let networks = networks::read(&mut root, cluster.as_deref().unwrap_or_default());
    let (nodes, multicast) = if root.is_list("network") {
        (networks::nodes(&networks), None)
    } else {
        let nodes = addresses::nodes(&mut root);
        let multicast = addresses::multicast(&mut root, cluster.as_deref().unwrap_or_default(), &nodes);
        (nodes, multicast)
    };
    let mut settings = Settings::new(cluster.unwrap_or_default(), nodes, multicast);
    settings.from_file = true;
    settings.networks = networks;
    general(&mut root, &mut settings);
    settings.rings = rings::read(&mut root, settings.protocol, &settings.nodes);
    networks::check(&mut root, settings.protocol);
    if !root.is_list("ring") {
        ring(&mut root.table("ring"), &mut settings);
    }
    protocol::read(&mut root.table("toto"), &mut settings.toto);
    protocol::read_plato(&mut root.table("plato"), &mut settings.plato);
    protocol::read_paxos(&mut root.table("paxos"), &mut settings.paxos);
    settings.registry = registry::read(&mut root.table("registry"), settings.protocol);
    clients(&mut root.table("clients"), &mut settings);
    sessions(&mut root.table("sessions"), &mut settings);
    settings.slow_rules = slow::read_rules(&mut root.table("groups"));
    settings.spread = spread::read(&mut root.table("spread"));
    metrics(&mut root.table("metrics"), &mut settings);
    security(&mut root.table("security"), &mut settings);
    settings.rights = rights::read(&mut root);
    limits(&mut root.table("limits"), &mut settings);
    root.finish();
    Some(settings)
}

fn general(root: &mut Section<'_, '_>, settings: &mut Settings) {
    let range = DatagramSize::MIN..=DatagramSize::MAX;
    if let Some(size) = root.number("datagram", range).and_then(|bytes: usize| DatagramSize::new(bytes).ok()) {
        settings.ring.datagram = size;
    }
    set(&mut settings.protocol, root.choice("protocol", &PROTOCOLS));
    set(&mut settings.profile, root.choice("idling", &PROFILES));
    set(&mut settings.scheduling, root.choice("scheduling", &SCHEDULINGS));
    settings.ring.primary = root.text("primary", primary).unwrap_or(Policy::Majority);
    settings.state = root.text("state", |text| Ok(text.into()));
    set(&mut settings.receive_buffer, root.number("receive_buffer", 65_536..=1 << 30));
    set(&mut settings.probe_paths, root.switch("probe_paths"));
}

fn ring(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let ring = &mut settings.ring;
    set(&mut ring.acceleration, section.choice("protocol", &RINGS));
    let priority = section.number("priority", 1..=2);
    set(&mut ring.priority, priority.map(|method| if method == 1 { Priority::Method1 } else { Priority::Method2 }));
    let packets = 0..=1_000_000;
    let windows = &mut ring.windows;
    let global = section.number("global_window", packets.clone());
    let personal = section.number("personal_window", packets.clone());
    let accelerated = section.number("accelerated_window", packets.clone());
    let bytes = 0..=1 << 30;
    let global_bytes = section.number("global_bytes", bytes.clone());
    let personal_bytes = section.number("personal_bytes", bytes.clone());
    // Who says how large a window is wants it to stay that large.
    if [global, personal, accelerated, global_bytes, personal_bytes].iter().any(Option::is_some) {
        windows.tuning = None;
    }
    set(&mut windows.global, global);
    set(&mut windows.personal, personal);
    set(&mut windows.accelerated, accelerated);
    set(&mut windows.global_bytes, global_bytes);
    set(&mut windows.personal_bytes, personal_bytes);
    set(&mut windows.accelerated_from, section.number("accelerated_from", packets.clone()));
    set(&mut windows.store, section.number("store_window", packets.clone()));
    set(&mut windows.store_bytes, section.number("store_bytes", bytes));
    let guard = section.number("starvation_guard", packets);
    set(&mut ring.starvation_guard, guard.map(|packets| Some(packets).filter(|packets| *packets > 0)));
    timers(section, &mut ring.timers);
    section.finish();
}

fn timers(section: &mut Section<'_, '_>, timers: &mut consort_ring::RingTimeouts) {
    set(&mut timers.token_retransmit, section.duration("token_retransmit"));
    set(&mut timers.token_retransmit_idle, section.duration("token_retransmit_idle"));
    if let Some(token_loss) = section.duration("token_loss") {
        timers.token_loss = token_loss;
        timers.consensus = token_loss * 5 / 4;
    }
    set(&mut timers.consensus, section.duration("consensus"));
    set(&mut timers.join, section.duration("join"));
    set(&mut timers.beacon, section.duration("beacon"));
    set(&mut timers.recovery_max, section.duration("recovery_max"));
    set(&mut timers.hold, section.duration("hold"));
    set(&mut timers.hold_cancel, section.duration("hold_cancel"));
}

fn clients(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let listen = section.texts("listen", |text| {
        text.parse::<SocketAddr>()
            .map_err(|_| format!("\"{text}\" is not ADDRESS:PORT; write it like \"0.0.0.0:4840\""))
    });
    set(&mut settings.listen, listen);
    set(&mut settings.users, section.numbers("users", 0..=u32::MAX - 1));
    let listen_tls = section.texts("listen_tls", |text| {
        text.parse::<SocketAddr>()
            .map_err(|_| format!("\"{text}\" is not ADDRESS:PORT; write it like \"0.0.0.0:4839\""))
    });
    set(&mut settings.listen_tls, listen_tls);
    settings.tcp_proves = section.switch("proven");
    set(&mut settings.limits.clients_most, section.number("most", 1..=1 << 20));
    set(&mut settings.limits.credit, section.number("credit", 4_096..=1 << 30));
    set(&mut settings.limits.output_max, section.number("output", 65_536..=1 << 32));
    set(&mut settings.limits.outputs_max, section.number("outputs", 65_536..=1 << 40));
    set(&mut settings.limits.frames_max, section.number("frames", 65_536..=1 << 40));
    slow::read_limits(section, &mut settings.limits.slow);
    set(&mut settings.shared_memory, section.number("shared_memory", 0..=1 << 40));
    set(&mut settings.client_host_timeout, section.duration_in("host_timeout", HOST_TIMEOUTS));
    section.finish();
}

fn sessions(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let (bytes, keep) = &mut settings.sessions_retain;
    set(bytes, section.number("retain", 0..=1 << 34));
    set(keep, section.duration_in("retain_for", Duration::ZERO..=RETAIN_FOR_MOST));
    set(&mut settings.producers_for, section.duration_in("producers_for", PRODUCERS_FOR));
    section.finish();
}

fn metrics(section: &mut Section<'_, '_>, settings: &mut Settings) {
    settings.metrics = section.text("listen", |text| {
        text.parse().map_err(|_| format!("\"{text}\" is not ADDRESS:PORT; write it like \"127.0.0.1:9464\""))
    });
    set(&mut settings.metrics_tls, section.switch("tls"));
    section.finish();
}

fn security(section: &mut Section<'_, '_>, settings: &mut Settings) {
    settings.key = section.text("key", |text| match text {
        "" => Err("is empty; name the file that `consort keygen` wrote".into()),
        text => Ok(text.into()),
    });
    set(&mut settings.filter_sources, section.switch("filter_sources"));
    settings.certificate = section.text("certificate", pem_file).flatten();
    settings.certificate_key = section.text("certificate_key", pem_file).flatten();
    settings.client_authority = section.text("client_authority", pem_file).flatten();
    settings.tokens = section.text("tokens", |text| match text {
        "" => Err("is empty; name the file that `consort token` writes".into()),
        text => Ok(text.into()),
    });
    settings.rights_file = section.text("rights", |text| match text {
        "" => Err("is empty; name the file with [[rights]]".into()),
        text => Ok(text.into()),
    });
    section.finish();
}

fn pem_file(text: &str) -> Result<Option<std::path::PathBuf>, String> {
    if text.is_empty() { Err("is empty; name a file in PEM".into()) } else { Ok(Some(text.into())) }
}

fn limits(section: &mut Section<'_, '_>, settings: &mut Settings) {
    if let Some(message) = section.number("message", 1..=1 << 30) {
        settings.allow(message);
    }
    set(&mut settings.ring.queue_bytes, section.number("queue", 1..=1 << 34));
    section.finish();
}

/// Reads `none`, `majority`, `node 2`, or `weights 1=3 2=1`.
fn primary(text: &str) -> Result<Policy, String> {
    let wrong = || format!("\"{text}\" is no policy; use \"none\", \"majority\", \"node 2\" or \"weights 1=3 2=1\"");
    let weight = |word: &str| {
        let (node, weight) = word.split_once('=')?;
        Some((NodeId(node.parse().ok()?), weight.parse().ok()?))
    };
    let mut words = text.split_whitespace();
    match (words.next(), words.collect::<Vec<_>>().as_slice()) {
        (Some("none"), []) => Ok(Policy::None),
        (Some("majority"), []) => Ok(Policy::Majority),
        (Some("node"), [node]) => node.parse().map(|node| Policy::Static(NodeId(node))).map_err(|_| wrong()),
        (Some("weights"), weights @ [_, ..]) => {
            weights.iter().map(|word| weight(word)).collect::<Option<_>>().map(Policy::Weights).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EXAMPLE, Profile, Protocol, SpreadListener};
    use consort_ring::Acceleration;

    const GOOD: &str = r#"
cluster = "prod"
[[node]]
id = 1
address = "192.0.2.11"
[[node]]
id = 2
address = "192.0.2.12:5000"
interface = "198.51.100.12"
"#;

    #[test]
    fn the_majority_of_the_configured_nodes_may_act_where_nothing_is_said() {
        assert_eq!(parse("plain", GOOD).unwrap().ring.primary, Policy::Majority);
        let none = format!("primary = \"none\"\n{GOOD}");
        assert_eq!(parse("none", &none).unwrap().ring.primary, Policy::None);
        assert_eq!(Settings::local("here", 8).ring.primary, Policy::None, "how many will run is not known");
    }

    #[test]
    fn the_example_shows_every_key_with_its_default() {
        let all: String = EXAMPLE
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|rest| !rest.starts_with(' ') && rest.contains(" = "))
                    .unwrap_or(line)
                    .to_owned()
                    + "\n"
            })
            .collect();
        let (plain, spelled) = (parse("plain", EXAMPLE).unwrap(), parse("spelled", &all).unwrap());
        // Windows that are given are fixed.
        let mut ring = plain.ring.clone();
        ring.windows.tuning = None;
        assert_eq!(format!("{:?}", spelled.ring), format!("{ring:?}"));
        let toto = |settings: &Settings| format!("{:?}", settings.toto_config());
        assert_eq!((spelled.protocol, toto(&spelled)), (plain.protocol, toto(&plain)));
        assert_eq!(format!("{:?}", spelled.plato_config()), format!("{:?}", plain.plato_config()));
        assert_eq!(format!("{:?}", spelled.paxos_config()), format!("{:?}", plain.paxos_config()));
        assert_eq!((spelled.registry, plain.registry), (None, None));
        assert_eq!(format!("{:?}", spelled.limits), format!("{:?}", plain.limits));
        assert_eq!((spelled.profile, spelled.receive_buffer), (plain.profile, plain.receive_buffer));
        assert_eq!(spelled.shared_memory, plain.shared_memory);
        assert_eq!(spelled.client_host_timeout, plain.client_host_timeout);
        assert_eq!(spelled.sessions_retain, plain.sessions_retain);
        assert_eq!(spelled.producers_for, plain.producers_for);
        assert_eq!((spelled.probe_paths, plain.probe_paths), (true, true));
        assert_eq!((spelled.nodes, spelled.listen.len(), spelled.users), (plain.nodes, 1, plain.users));
        assert_eq!((spelled.metrics, plain.metrics), (Some(([127, 0, 0, 1], 9464).into()), None));
        assert_eq!((spelled.spread, plain.spread), (Some(SpreadListener::at(4803)), None));
        assert_eq!((spelled.listen_tls.len(), plain.listen_tls.len()), (1, 0));
        assert_eq!((spelled.certificate, plain.certificate), (Some("/etc/consort/daemon.pem".into()), None));
        assert_eq!((spelled.certificate_key, plain.certificate_key), (Some("/etc/consort/daemon.key".into()), None));
        assert_eq!((spelled.client_authority, plain.client_authority), (Some("/etc/consort/clients.pem".into()), None));
        assert_eq!((spelled.tokens, plain.tokens), (Some("/etc/consort/tokens".into()), None));
        assert_eq!((spelled.tcp_proves, plain.tcp_proves), (Some(true), None));
        assert_eq!((spelled.rights_file, plain.rights_file), (Some("/etc/consort/rights.toml".into()), None));
        assert_eq!((spelled.key, plain.key), (Some("/etc/consort/key".into()), None));
        // Of rings it shows every key, apart from the token ring's.
        let rings: String =
            EXAMPLE.lines().filter_map(|line| Some(line.strip_prefix("#   ")?.to_owned() + "\n")).collect();
        let many = parse(
            "many",
            &format!("protocol = \"multiring-paxos\"\n{GOOD}[[node]]\nid = 3\naddress = \"192.0.2.13\"\n{rings}"),
        );
        assert_eq!(many.unwrap().rings.len(), 1);
        let message = problems(&format!("protocol = \"multiring-paxos\"\n{GOOD}[[ring]]\nzzzzzzzz = 1\n"));
        let known = message.split("known here: ").nth(1).unwrap().lines().next().unwrap();
        assert!(known.split(", ").all(|key| rings.contains(&format!("{key} = "))), "{known}");
        let networks: String = EXAMPLE
            .lines()
            .filter_map(|line| Some(line.strip_prefix("#  ").filter(|line| !line.starts_with(' '))?.to_owned() + "\n"))
            .collect();
        let several = parse("several", &format!("cluster = \"c\"\nprotocol = \"multiring\"\n{networks}"));
        assert_eq!(several.unwrap().networks.len(), 1);
        for section in ["[[network]]", "[[network]]\n[[network.node]]"] {
            let message = problems(&format!("cluster = \"c\"\nprotocol = \"multiring\"\n{section}\nzzzzzzzz = 1\n"));
            let known = message.split("known here: ").nth(1).unwrap().lines().next().unwrap();
            let shown = |key: &str| networks.contains(&format!("{key} = ")) || networks.contains(&format!(".{key}]]"));
            assert!(known.split(", ").all(shown), "{known}");
        }
        // A key that the example misses would be named here among those that are known.
        for section in [
            "",
            "[ring]",
            "[toto]",
            "[plato]",
            "[paxos]",
            "[registry]",
            "[clients]",
            "[sessions]",
            "[spread]",
            "[metrics]",
            "[security]",
            "[limits]",
            "[[node]]",
        ] {
            let message = problems(&format!("{section}\nzzzzzzzz = 1\n"));
            let known = message.split("known here: ").nth(1).unwrap().lines().next().unwrap();
            for key in known.split(", ") {
                let shown = all
                    .lines()
                    .any(|line| line.starts_with(&format!("{key} = ")) || line.contains(&format!("[{key}]")));
                assert!(shown, "`{key}` is missing in the example");
            }
        }
    }

    fn problems(text: &str) -> String {
        parse("consort.toml", text).unwrap_err().message.replace("\n         ", "\n")
    }

    fn with(line: &str) -> String {
        problems(&format!("{}{line}\n", GOOD.trim_start()))
    }

    #[test]
    fn a_short_file_is_enough() {
        let settings = parse("consort.toml", GOOD).unwrap();
        assert_eq!(settings.cluster, "prod");
        let [one, two] = settings.nodes[..] else { panic!("two nodes are configured") };
        assert_eq!((one.token, one.data), ("192.0.2.11:4841".parse().unwrap(), "192.0.2.11:4842".parse().unwrap()));
        assert_eq!((one.interface, two.interface), ([192, 0, 2, 11].into(), [198, 51, 100, 12].into()));
        assert_eq!(two.data, "192.0.2.12:5001".parse().unwrap());
        assert_eq!(settings.multicast.unwrap().port(), 5002);
        assert_eq!(settings.ring.members, [NodeId(1), NodeId(2)]);
    }

    #[test]
    fn every_setting_is_taken() {
        let text = format!(
            "protocol = \"toto\"\nmulticast = \"239.192.9.9:6000\"\ndatagram = 8000\nidling = \"frugal\"\nprimary = \"majority\"\nstate = \"/srv/state\"\n\
             receive_buffer = 1_000_000\nprobe_paths = false\n{GOOD}\n[ring]\nprotocol = \"original\"\npriority = 1\nglobal_window = 100\n\
             personal_window = 30\naccelerated_window = 10\naccelerated_from = 2\nstore_window = 500\n\
             global_bytes = 100_000\npersonal_bytes = 50_000\nstore_bytes = 1_000_000\nstarvation_guard = 0\n\
             token_loss = \"1s\"\nhold = \"10ms\"\n[clients]\nlisten = [\"127.0.0.1:4840\"]\nusers = [1000, 0x3e9]\nmost = 77\ncredit = 8192\n\
             output = 100_000\noutputs = 200_000\nframes = 300_000\nshared_memory = 0\nhost_timeout = \"90s\"\n[sessions]\nretain = 0\nretain_for = \"5s\"\nproducers_for = \"2h\"\n[limits]\nmessage = 1000\nqueue = 100_000\n\
             [toto]\nphi = \"75%\"\nwindow = 8\nack = \"5ms\"\nack_every = 40\nack_floor = true\nearly = true\nsilence = \"400ms\"\n"
        );
        let settings = parse("consort.toml", &text).unwrap();
        assert_eq!(settings.multicast, Some("239.192.9.9:6000".parse().unwrap()));
        assert_eq!((settings.ring.datagram.get(), settings.profile), (8000, Profile::Frugal));
        assert_eq!((settings.state.as_deref(), settings.receive_buffer), (Some(Path::new("/srv/state")), 1_000_000));
        assert!(!settings.probe_paths);
        let ring = &settings.ring;
        assert_eq!((ring.acceleration, ring.priority), (Acceleration::Original, Priority::Method1));
        let w = &ring.windows;
        assert_eq!([w.global, w.personal, w.accelerated, w.accelerated_from, w.store], [100, 30, 10, 2, 500]);
        assert_eq!(w.tuning, None, "windows that are given stay");
        assert_eq!([w.global_bytes, w.personal_bytes, w.store_bytes], [100_000, 50_000, 1_000_000]);
        assert_eq!((ring.starvation_guard, ring.timers.token_loss.as_millis()), (None, 1000));
        assert_eq!((ring.timers.hold.as_millis(), ring.timers.consensus.as_millis()), (10, 1250));
        assert_eq!((&ring.primary, settings.listen.len()), (&Policy::Majority, 1));
        assert_eq!(
            [settings.limits.clients_most, settings.limits.credit, settings.limits.output_max],
            [77, 8192, 100_000]
        );
        assert_eq!([settings.limits.outputs_max, settings.limits.frames_max], [200_000, 300_000]);
        assert_eq!(settings.users, [1000, 1001]);
        assert_eq!((settings.shared_memory, settings.client_host_timeout.as_secs()), (0, 90));
        assert_eq!(settings.sessions_retain, (0, Duration::from_secs(5)));
        assert_eq!(settings.producers_for, Duration::from_secs(7_200));
        assert_eq!([settings.limits.message_max, ring.queue_bytes], [1000, 100_000]);
        assert!(with("[sessions]\nretain_for = \"2d\"").contains("sessions.retain_for: "));
        assert!(with("[sessions]\nretain = -1").contains("sessions.retain: "));
        assert!(with("[sessions]\nproducers_for = \"59s\"").contains("sessions.producers_for: "));
        let toto = settings.toto_config();
        assert_eq!((settings.protocol, toto.phi.percent(), toto.window), (Protocol::Toto, 75, 8));
        assert_eq!((toto.ack.unwrap().as_millis(), toto.ack_every, toto.timers.silence.as_millis()), (5, 40, 400));
        assert_eq!((toto.ack_floor, toto.early), (true, consort_toto::Early::Causal));
        assert_eq!((toto.datagram, toto.queue_bytes), (ring.datagram, ring.queue_bytes));
    }

    #[test]
    fn plato_is_set_in_its_own_section_and_what_it_cannot_work_with_is_said_there() {
        let with = |lines: &str| format!("protocol = \"plato\"\n{GOOD}\n[plato]\n{lines}\n");
        let settings =
            parse("consort.toml", &with("every = 3\nwithin = \"2ms\"\ndelta = \"128us\"\nsilence = \"400ms\""))
                .unwrap();
        let plato = settings.plato_config();
        assert_eq!((settings.protocol, plato.sequencing.every), (Protocol::Plato, 3));
        assert_eq!((plato.sequencing.within.unwrap().as_millis(), plato.membership.silence.as_millis()), (2, 400));
        assert_eq!(plato.prediction, consort_plato::Prediction::Fixed(std::time::Duration::from_micros(128)));
        let off = parse("consort.toml", &with("delta = \"0s\"")).unwrap();
        assert_eq!(off.plato_config().prediction, consort_plato::Prediction::Off);
        let paper = parse("consort.toml", &with("delta = \"paper\"\nwithin = \"adaptive\"")).unwrap().plato_config();
        assert_eq!((paper.prediction, paper.sequencing.within), (consort_plato::Prediction::paper(), None));
        let wrong = |lines: &str| problems(&with(lines));
        assert!(wrong("every = 41").contains("plato.every: 41 is out of range"));
        assert!(wrong("within = \"0s\"").contains("plato.within: "));
        assert!(wrong("within = \"late\"").contains("plato.within: \"late\" is not a time; write it"));
        assert!(wrong("delta = \"5\"").contains("or write \"adaptive\" or \"paper\""));
        assert!(wrong("delta = 5").contains("plato.delta: "));
        assert!(wrong("silence = \"20ms\"").contains("plato.silence: "));
    }

    #[test]
    fn paxos_is_set_in_its_own_section_and_what_it_cannot_work_with_is_said_there() {
        let four = "cluster = \"p\"\n".to_owned()
            + &(1..=4).map(|id| format!("[[node]]\nid = {id}\naddress = \"192.0.2.{id}\"\n")).collect::<String>();
        let with = |head: &str, lines: &str| format!("protocol = \"paxos\"\n{head}\n{four}\n[paxos]\n{lines}\n");
        let settings = parse("consort.toml", &with("", "acceptors = [2, 3, 4]\nstorage = \"memory\"")).unwrap();
        assert_eq!(
            (settings.protocol, settings.paxos_config().acceptors),
            (Protocol::Paxos, [2, 3, 4].map(NodeId).into())
        );
        assert!(settings.summary().contains("paxos with acceptors 2 3 4, storage memory"), "{}", settings.summary());
        let plain = parse("consort.toml", &with("", "")).unwrap();
        assert_eq!(plain.paxos_config().acceptors, [1, 2, 3].map(NodeId));
        assert!(plain.summary().contains("storage sync"), "{}", plain.summary());
        let kept = "storage = \"async\"\nretain = 33_554_432\nretain_for = \"90s\"";
        let kept = parse("consort.toml", &with("", kept)).unwrap().paxos_config();
        assert_eq!(
            (kept.storage.name(), kept.retain, kept.retain_for),
            ("async", 32 << 20, consort_types::Duration::from_secs(90))
        );
        let wrong = |lines: &str| problems(&with("", lines));
        assert!(wrong("acceptors = [1, 2]").contains("paxos.acceptors: 2 of them; use 1, 3, 5 or 7"));
        assert!(wrong("acceptors = []").contains("paxos.acceptors: 0 of them"));
        assert!(wrong("acceptors = [1, 2, 2]").contains("paxos.acceptors: one is named twice"));
        assert!(wrong("acceptors = [1, 2, 9]").contains("is no node; name configured ones"));
        assert!(wrong("acceptors = 3").contains("paxos.acceptors: 3 is not a list of whole numbers"));
        assert!(wrong("storage = \"disk\"").contains("paxos.storage: "), "{}", wrong("storage = \"disk\""));
        assert!(wrong("storage = \"disk\"").contains("async"), "{}", wrong("storage = \"disk\""));
        assert!(wrong("retain = 1000").contains("paxos.retain: "), "{}", wrong("retain = 1000"));
        assert!(wrong("retain_for = 9").contains("paxos.retain_for: "), "{}", wrong("retain_for = 9"));
        let let_go = parse("consort.toml", &with("", "on_budget = \"let_go\"")).unwrap().paxos_config();
        assert_eq!(plain.paxos_config().on_budget.name(), "wait");
        assert_eq!(let_go.on_budget.name(), "let_go");
        assert!(wrong("on_budget = \"stop\"").contains("paxos.on_budget: "), "{}", wrong("on_budget = \"stop\""));
        assert!(wrong("storage = \"memory\"\non_budget = \"wait\"").contains("paxos.on_budget: "));
        assert!(wrong("window = 3").contains("known here: acceptors, storage, retain, retain_for, on_budget, reads"));
        assert!(problems(&with("primary = \"node 2\"", "")).contains("primary: with protocol = \"paxos\""));
        let long = format!("{}[limits]\nmessage = 40_000_000\nqueue = 100_000_000\n", with("", ""));
        assert!(problems(&long).contains("limits.message: 40000000 bytes; with protocol"), "{}", problems(&long));
    }

    #[test]
    fn what_toto_cannot_work_with_is_said_where_it_stands() {
        let wrong = |lines: &str| problems(&format!("protocol = \"toto\"\n{GOOD}\n[toto]\n{lines}\n"));
        assert!(wrong("phi = \"40%\"").contains("toto.phi: \"40%\" is no share of the members"));
        assert!(wrong("window = 0").contains("toto.window: 0 is out of range"));
        assert!(wrong("ack = \"soon\"").contains("toto.ack: \"soon\" is not a time; write it"));
        assert!(wrong("ack = \"soon\"").contains("or write \"adaptive\""));
        assert!(wrong("ack = \"0s\"").contains("toto.ack: 0;"));
        assert!(wrong("ack_floor = 1").contains("toto.ack_floor: "));
        assert!(wrong("early = \"causal\"").contains("write early = true, or false"));
        assert!(wrong("silence = \"20ms\"").contains("toto.silence: "));
    }

    #[test]
    fn spread_has_no_listener_unless_it_has_a_port() {
        //= S42 test
        let listener = |lines: &str| parse("consort.toml", &format!("{GOOD}\n[spread]\n{lines}")).unwrap().spread;
        assert_eq!(listener(""), None);
        assert_eq!(listener("port = 4803"), Some(SpreadListener::at(4803)));
        let other = listener("port = 5000\naddress = \"0.0.0.0\"\nunix = \"off\"\nmessages = 1000").unwrap();
        assert_eq!((other.address, other.unix), ("0.0.0.0:5000".parse().unwrap(), None));
        assert_eq!(other.messages, Some(1000));
        assert_eq!(
            with("[spread]\naddress = \"here\"\nunix = \"/tmp/x\""),
            "consort.toml:9: spread.port: is missing; nobody listens without: port = 4803\n\
             consort.toml:10: spread.address: \"here\" is not an address; write it like \"0.0.0.0\""
        );
    }

    #[test]
    fn policies_are_read_and_wrong_ones_named() {
        assert_eq!(primary("node 2"), Ok(Policy::Static(NodeId(2))));
        assert_eq!(primary("weights 1=3 2=1"), Ok(Policy::Weights([(NodeId(1), 3), (NodeId(2), 1)].into())));
        for text in ["", "most", "node", "node x", "weights", "weights 1", "majority 2"] {
            assert!(primary(text).unwrap_err().contains("is no policy"), "{text}");
        }
    }

    #[test]
    fn mistyped_keys_get_a_suggestion() {
        let text = GOOD.trim_start().replace("address = \"192.0.2.11\"", "adress = \"192.0.2.11\"");
        assert_eq!(
            problems(&text),
            "consort.toml:2: node.address: is missing; say where the node is: address = \"192.0.2.11\"\n\
             consort.toml:4: node.adress: there is no such key; did you mean address?"
        );
        assert_eq!(
            with("[clients]\nport = 1"),
            "consort.toml:10: clients.port: there is no such key; known here: listen, users, listen_tls, proven, most, credit, output, outputs, frames, slow, slow_allowed, unread_for, block, block_for, spool_from, spool, spools, shared_memory, host_timeout"
        );
    }

    #[test]
    fn a_host_timeout_that_no_kernel_can_keep_is_refused_with_the_range() {
        for (given, told) in [("1s", "1s"), ("1999ms", "1.999s"), ("0s", "0ns"), ("7h", "25200s")] {
            assert_eq!(
                with(&format!("[clients]\nhost_timeout = \"{given}\"")),
                format!(
                    "consort.toml:10: clients.host_timeout: {told} is out of range; give a time from \"2s\" to \"21600s\""
                )
            );
        }
    }

    #[test]
    fn wrong_values_name_line_key_and_remedy() {
        assert_eq!(
            problems(&GOOD.trim_start().replace("192.0.2.12:5000", "192.0.2.300")),
            "consort.toml:7: node.address: \"192.0.2.300\" is not an IPv4 address; write it like \"192.0.2.11\" or \"192.0.2.11:4841\""
        );
        assert_eq!(
            problems(&GOOD.trim_start().replace("id = 2", "id = 0")),
            "consort.toml:6: node.id: 0 is out of range; give a whole number from 1 to 65535"
        );
        assert_eq!(
            problems(&GOOD.trim_start().replace("id = 2", "id = 1")),
            "consort.toml:6: node.id: 1 is taken by an earlier [[node]]; give each its own"
        );
        assert_eq!(
            with("[ring]\nprotocol = \"fast\"\nhold = 20"),
            "consort.toml:10: ring.protocol: \"fast\" is not known; choose accelerated or original\n\
             consort.toml:11: ring.hold: 20 is not a time; write it with its unit, like \"20ms\" or \"1.5s\", a year at most"
        );
        assert_eq!(
            with("[ring]\nhold = \"20\""),
            "consort.toml:10: ring.hold: \"20\" is not a time; write it with its unit, like \"20ms\" or \"1.5s\", a year at most"
        );
        assert_eq!(
            problems(&format!("multicast = \"10.0.0.1\"\ndatagram = 100\n{}", GOOD.trim_start())),
            "consort.toml:1: multicast: 10.0.0.1 is not a multicast group; use one from 239.192.0.0 to 239.195.255.255, or \"off\"\n\
             consort.toml:2: datagram: 100 is out of range; give a whole number from 576 to 65000"
        );
        assert_eq!(
            problems(&format!("probe_paths = \"off\"\n{}", GOOD.trim_start())),
            "consort.toml:1: probe_paths: \"off\" is not a switch; write probe_paths = true, or false"
        );
    }

    #[test]
    fn a_key_is_named_by_its_file() {
        let key = |line: &str| parse("x", &format!("{GOOD}[security]\n{line}\n")).unwrap().key;
        assert_eq!((key(""), key("key = \"k\"")), (None, Some("k".into())));
        assert_eq!(
            with("[security]\nkey = \"\""),
            "consort.toml:10: security.key: is empty; name the file that `consort keygen` wrote"
        );
        assert_eq!(
            with("[security]\nkeys = \"k\""),
            "consort.toml:10: security.keys: there is no such key; did you mean key?"
        );
        let filters = |line: &str| parse("x", &format!("{GOOD}[security]\n{line}\n")).unwrap().filter_sources;
        assert_eq!((filters(""), filters("filter_sources = false")), (true, false));
        assert_eq!(
            with("[security]\nfilter_sources = \"off\""),
            "consort.toml:10: security.filter_sources: \"off\" is not a switch; write filter_sources = true, or false"
        );
    }

    #[test]
    fn users_are_whole_numbers() {
        let users = |list: &str| with(&format!("[clients]\nusers = {list}"));
        assert_eq!(
            users("1000"),
            "consort.toml:10: clients.users: 1000 is not a list of whole numbers; write users = [1000, 1001]"
        );
        assert_eq!(
            users("[1000, \"bob\"]"),
            "consort.toml:10: clients.users: \"bob\" is not a whole number; give a whole number from 0 to 4294967294"
        );
        assert!(users("[4294967295]").contains("4294967295 is out of range"));
    }

    #[test]
    fn ports_that_nobody_could_use_are_told_at_their_node() {
        let second = |address| problems(&GOOD.trim_start().replace("192.0.2.12:5000", address));
        assert_eq!(
            second("192.0.2.11:4842"),
            "consort.toml:7: node.address: shares a port with node 1; each takes its own and the next one"
        );
        assert_eq!(second("192.0.2.11:4842"), second("192.0.2.11:4840"));
        assert_eq!(
            second("192.0.2.12:0"),
            "consort.toml:7: node.address: port 0 is none that others could find; use one such as 4841"
        );
    }

    #[test]
    fn times_near_the_end_of_time_are_told_and_never_multiplied() {
        for key in ["token_loss", "beacon", "join", "token_retransmit_idle", "consensus"] {
            let message = with(&format!("[ring]\n{key} = \"10000000000000000000s\""));
            assert!(message.contains(&format!("ring.{key}: \"10000000000000000000s\" is not a time")), "{message}");
        }
    }

    #[test]
    fn what_the_ring_refuses_is_told_at_its_key() {
        assert_eq!(
            with("[ring]\n\npersonal_window = 0"),
            "consort.toml:11: ring.personal_window: 0 packets; at least 1 is needed"
        );
        assert!(
            with("[limits]\nqueue = 5").starts_with("consort.toml:10: limits.queue: 5 is below the largest message")
        );
    }

    #[test]
    fn nonsense_and_emptiness_are_told_where_they_are() {
        assert!(problems("cluster = \"x\"\n[[node\n").starts_with("consort.toml:2: this is not TOML: "));
        assert_eq!(
            problems(""),
            "consort.toml:1: cluster: is missing; name the cluster: cluster = \"prod\"\n\
             consort.toml:1: node: is missing; list every node: [[node]] with id = 1 and address = \"192.0.2.11\" below it"
        );
        assert_eq!(
            problems("cluster = \"a b\"\nnode = 3\nring = 1\n"),
            "consort.toml:1: cluster: `a b` is no cluster name; use 1 to 32 letters, digits, - _ and . and no . at the start\n\
             consort.toml:2: node: write one [[node]] for each, with its keys below\n\
             consort.toml:3: ring: 1 is not a table; write [ring] and its keys below"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consort.toml");
        fs::write(&path, b"cluster = \"x\"\n# M\xfcnchen\n").unwrap();
        let message = read(&path).unwrap_err().message;
        assert!(message.ends_with("consort.toml:2: this is not UTF-8; save the file in that encoding"), "{message}");
        assert!(read(Path::new("/nowhere/consort.toml")).unwrap_err().message.starts_with("cannot read /nowhere/"));
    }
}
