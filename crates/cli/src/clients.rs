//! `consort clients`: who is connected to the daemons on this machine.
use crate::args::Args;
use crate::columns;
use crate::connect::Wanted;
use crate::failure::Outcome;
use crate::figures::bytes;
use crate::inquiry::Inquiry;
use consort::Address;
use consort_session::listing::Connection;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

/// What `consort clients --help` prints.
pub const HELP: &str = "\
Usage: consort clients [options]

Lists who is connected to each daemon on this machine.

  --cluster NAME   only the daemons of this cluster
  --node ID        only this node
  --daemon ADDR    only the daemon at this socket path or ADDRESS:PORT
  --json           print one JSON array

LISTENER is native or spread, over unix or tcp. UNREAD counts the bytes that
wait for the client to read them: one that lets too many wait is sent away as
slow.
UNDER WAY counts the bytes of its requests that have no place in the order yet,
of its CREDIT. STATE is connecting, open, waiting (for room for its next
request) or ending. IF SLOW is what the daemon does about one that does not
read: disconnect, spool (SPOOLED of what is unread is on disk), block or demote.
The session that asks is left out.
";

/// One client.
#[derive(Debug, Serialize)]
struct Client {
    cluster: String,
    node: u16,
    client: u32,
    name: Option<String>,
    listener: &'static str,
    transport: &'static str,
    state: &'static str,
    groups: u32,
    unread_bytes: u64,
    under_way_bytes: u32,
    credit_bytes: u32,
    slow: &'static str,
    spooled_bytes: u64,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let (wanted, json) = read(words)?;
    let (mut clients, mut problem) = (Vec::new(), None);
    for (cluster, address) in wanted.all()? {
        match of_daemon(cluster.as_deref().unwrap_or("-"), &address) {
            Ok(found) => clients.extend(found),
            Err(failure) => problem = Some(failure),
        }
    }
    print(&clients, json)?;
    problem.map_or(Ok(()), Err)
}

fn read(words: Vec<OsString>) -> Outcome<(Wanted, bool)> {
    let (mut wanted, mut json) = (Wanted::default(), false);
    Args::only_options(words, HELP, |option, args| {
        json |= option == "--json";
        Ok(option == "--json" || wanted.take(option, args)?)
    })?;
    Ok((wanted, json))
}

fn of_daemon(cluster: &str, address: &Address) -> Outcome<Vec<Client>> {
    let mut inquiry = Inquiry::open(address)?;
    let found = inquiry.clients()?;
    let others = found.iter().filter(|connection| connection.client != inquiry.own);
    Ok(others.map(|connection| client(cluster, inquiry.node.0, connection)).collect())
}

fn client(cluster: &str, node: u16, connection: &Connection) -> Client {
    Client {
        cluster: cluster.to_owned(),
        node,
        client: connection.client.0,
        name: connection.name.as_ref().map(ToString::to_string),
        listener: if connection.client.speaks_spread() { "spread" } else { "native" },
        transport: connection.transport.name(),
        state: connection.stage.name(),
        groups: connection.groups,
        unread_bytes: connection.waiting,
        under_way_bytes: connection.under_way,
        credit_bytes: connection.credit,
        slow: connection.slow.name(),
        spooled_bytes: connection.spooled,
    }
}

fn print(clients: &[Client], json: bool) -> Outcome {
    let mut out = BufWriter::new(io::stdout());
    if json {
        writeln!(out, "{}", serde_json::to_string(clients).unwrap_or_default())?;
    } else {
        for line in table(clients) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out.flush()?)
}

fn table(clients: &[Client]) -> Vec<String> {
    let head = [
        "CLUSTER",
        "NODE",
        "NAME",
        "LISTENER",
        "STATE",
        "GROUPS",
        "UNREAD",
        "SPOOLED",
        "IF SLOW",
        "UNDER WAY",
        "CREDIT",
    ];
    columns::table(head, clients.iter().map(row))
}

fn row(client: &Client) -> [String; 11] {
    [
        client.cluster.clone(),
        client.node.to_string(),
        client.name.clone().unwrap_or_else(|| "-".into()),
        format!("{} {}", client.listener, client.transport),
        client.state.to_owned(),
        client.groups.to_string(),
        bytes(client.unread_bytes),
        bytes(client.spooled_bytes),
        client.slow.to_owned(),
        bytes(u64::from(client.under_way_bytes)),
        bytes(u64::from(client.credit_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_session::listing::{ConnectionStage, Transport};
    use consort_session::{ClientName, SlowPolicy};
    use consort_types::ClientId;

    #[test]
    fn the_table_tells_listener_and_what_waits() {
        let native = Connection {
            client: ClientId(2),
            name: ClientName::new(b"bob"),
            transport: Transport::Unix,
            stage: ConnectionStage::Open,
            groups: 3,
            waiting: 5 << 20,
            under_way: 0,
            credit: 512 << 10,
            slow: SlowPolicy::Spool,
            spooled: 4 << 20,
        };
        let id = ClientId(3 | ClientId::SPREAD);
        let spread = Connection {
            client: id,
            name: None,
            transport: Transport::Tcp,
            stage: ConnectionStage::Connecting,
            ..native.clone()
        };
        let clients = [&native, &spread].map(|connection| client("default", 1, connection));
        let told = table(&clients);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&told[1]), "default 1 bob native unix open 3 5.0 MiB 4.0 MiB spool 0 B 512.0 KiB");
        assert!(words(&told[2]).starts_with("default 1 - spread tcp connecting"), "{}", told[2]);
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}
