//! The registry outside of the order, `[registry]`: none unless the file names one.
use super::Protocol;
use super::reader::Section;
use std::time::Duration;

/// The only port that servers of ZooKeeper listen at unless they are told otherwise.
const EXAMPLE: &str = "servers = [\"192.0.2.21:2181\"]";

/// A ZooKeeper that advises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    /// Its servers, `host:port`.
    pub servers: Vec<String>,
    /// Below this path everything stands.
    pub prefix: String,
    /// How long it remembers a node that is silent.
    pub session: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Embedded,
    ZooKeeper,
}

const KINDS: [(&str, Kind); 2] = [("embedded", Kind::Embedded), ("zookeeper", Kind::ZooKeeper)];

/// Reads the section; `None` where daemons find out by themselves who leads.
pub fn read(section: &mut Section<'_, '_>, protocol: Protocol) -> Option<RegistrySettings> {
    let kind = section.choice("kind", &KINDS).unwrap_or(Kind::Embedded);
    let servers = section.texts("servers", server);
    let prefix = section.text("prefix", prefix);
    let session = section.number("session_ms", 1_000..=60_000_u64);
    section.finish();
    if kind == Kind::Embedded {
        return None;
    }
    if !matches!(protocol, Protocol::Paxos | Protocol::MultiRingPaxos) {
        let name = protocol.name();
        let text = format!(
            "\"zookeeper\" advises who leads, and with protocol = \"{name}\" nobody does; leave it out, or take \
             \"paxos\" or \"multiring-paxos\""
        );
        section.wrong("kind", text);
    } else if cfg!(not(feature = "zookeeper")) {
        let text = "this program was built without \"zookeeper\"; build it with `cargo build --release --features \
                    zookeeper`, or leave it out";
        section.wrong("kind", text);
    }
    let servers = section.require("servers", servers, &format!("say where ZooKeeper is: {EXAMPLE}"));
    if servers.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("servers", format!("names none; say where ZooKeeper is: {EXAMPLE}"));
    }
    Some(RegistrySettings {
        servers: servers?,
        prefix: prefix.unwrap_or_else(|| "/ringpaxos".into()),
        session: Duration::from_millis(session.unwrap_or(3_000)),
    })
}

/// A host and its port.
fn server(text: &str) -> Result<String, String> {
    let is_name = |host: &str| !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match text.rsplit_once(':') {
        Some((host, port)) if is_name(host) && is_port(port) => Ok(text.to_owned()),
        _ => Err(format!("\"{text}\" is not HOST:PORT; write it like \"192.0.2.21:2181\" or \"zoo1:2181\"")),
    }
}

/// A path of ZooKeeper below which there is room.
fn prefix(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !matches!(name, "" | "." | ".." | "zookeeper") && !name.contains(char::is_control);
    match text.strip_prefix('/') {
        Some(rest) if rest.split('/').all(is_name) => Ok(text.to_owned()),
        _ => Err(format!("\"{text}\" is no path for it; write it like \"/ringpaxos\", without a / at the end")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, file};

    const NODE: &str = "[[node]]\nid = 1\naddress = \"192.0.2.1\"\n";

    fn read(protocol: &str, more: &str) -> Result<Settings, String> {
        let text = format!("cluster = \"c\"\nprotocol = \"{protocol}\"\n{NODE}[registry]\n{more}");
        file::parse("f", &text).map_err(|failure| failure.message.replace("\n         ", "\n"))
    }

    #[test]
    fn without_a_word_and_with_embedded_there_is_none() {
        assert_eq!(read("ring", "").unwrap().registry, None);
        let told = "kind = \"embedded\"\nservers = []\nprefix = \"/a\"\nsession_ms = 5000\n";
        assert_eq!(read("paxos", told).unwrap().registry, None);
    }

    #[test]
    fn zookeeper_is_taken_where_it_is_built_in_and_refused_with_a_remedy_where_not() {
        let more = "kind = \"zookeeper\"\nservers = [\"zoo1:2181\", \"192.0.2.21:2182\"]\n";
        let both = [read("paxos", more), read("paxos", &format!("{more}prefix = \"/site/a\"\nsession_ms = 9000\n"))];
        if cfg!(not(feature = "zookeeper")) {
            let problem = both[0].clone().unwrap_err();
            assert!(problem.starts_with("f:7: registry.kind: this program was built without"), "{problem}");
            return assert!(problem.contains("--features zookeeper"), "{problem}");
        }
        let [plain, told] = both.map(|settings| settings.unwrap().registry.unwrap());
        assert_eq!(plain.servers, ["zoo1:2181", "192.0.2.21:2182"]);
        assert_eq!((plain.prefix.as_str(), plain.session.as_millis()), ("/ringpaxos", 3_000));
        assert_eq!((told.prefix.as_str(), told.session.as_millis()), ("/site/a", 9_000));
    }

    #[test]
    fn what_cannot_work_is_told_with_line_and_remedy() {
        let problem = |more: &str| read("paxos", more).unwrap_err();
        let zookeeper = |more: &str| problem(&format!("kind = \"zookeeper\"\n{more}"));
        assert_eq!(
            problem("kind = \"zoo\"\n"),
            "f:7: registry.kind: \"zoo\" is not known; choose embedded or zookeeper"
        );
        let missing = zookeeper("");
        assert!(missing.contains("registry.servers: is missing; say where ZooKeeper is: servers = ["), "{missing}");
        let none = zookeeper("servers = []\n");
        assert!(none.contains("f:8: registry.servers: names none; say where ZooKeeper is"), "{none}");
        for server in ["zoo1", "zoo1:0", ":2181", "a b:1", "a,b:1", "zoo1:70000", "tcp://zoo1:2181"] {
            let text = zookeeper(&format!("servers = [\"{server}\"]\n"));
            assert!(
                text.contains(&format!("registry.servers: \"{server}\" is not HOST:PORT; write it like")),
                "{text}"
            );
        }
        for prefix in ["", "/", "ringpaxos", "/ringpaxos/", "/a//b", "/zookeeper", "/a/../b"] {
            let text = problem(&format!("prefix = \"{prefix}\"\n"));
            assert!(text.contains(&format!("f:7: registry.prefix: \"{prefix}\" is no path for it")), "{text}");
        }
        let session = problem("session_ms = 10\n");
        assert!(
            session.contains("registry.session_ms: 10 is out of range; give a whole number from 1000"),
            "{session}"
        );
        let elsewhere = read("toto", "kind = \"zookeeper\"\nservers = [\"zoo1:2181\"]\n").unwrap_err();
        assert!(elsewhere.contains("f:7: registry.kind: \"zookeeper\" advises who leads, and with"), "{elsewhere}");
    }
}
