//! Which of the cluster's nodes this machine can be, and the hold on its identity.
use crate::config::{NodeAddress, Settings};
use crate::failure::{Failure, Outcome};
use crate::runtime_dir::{RuntimeDir, Seat};
use consort_types::NodeId;
use std::net::UdpSocket;

/// Finds out which node this is, and holds that identity.
pub(crate) fn take_seat(dir: &RuntimeDir, settings: &mut Settings, wanted: Option<u16>) -> Outcome<Seat> {
    let candidates = match wanted {
        Some(node) => vec![node],
        None => at_home(&settings.nodes)?,
    };
    for node in &candidates {
        settings.choose(NodeId(*node));
        settings.mine()?;
        if let Some(seat) = dir.claim(*node)? {
            return Ok(seat);
        }
    }
    Err(dir.taken(&candidates, &elsewhere(settings, wanted)))
}

/// What a daemon that finds its nodes taken could be instead.
fn elsewhere(settings: &Settings, wanted: Option<u16>) -> String {
    let more = settings.nodes.len() + 1;
    match (wanted, settings.from_file) {
        (Some(_), _) => "leave --node out, to be the first that is free here, if one is".into(),
        (None, true) => "add a node to the file, for all machines".into(),
        (None, false) => {
            format!("start all daemons of the cluster with --nodes {more}, or another cluster with --cluster NAME")
        }
    }
}

/// The node whose address is this machine's, where there is one alone.
pub(crate) fn only_one_at_home(settings: &Settings) -> Outcome<u16> {
    match at_home(&settings.nodes)?.as_slice() {
        [node] => Ok(*node),
        several => {
            let nodes: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(Failure::usage(format!("nodes {} are at home here; name one with --node", nodes.join(", "))))
        }
    }
}

/// The nodes whose addresses are this machine's.
fn at_home(nodes: &[NodeAddress]) -> Outcome<Vec<u16>> {
    let here = |node: &&NodeAddress| UdpSocket::bind((node.token.ip(), 0)).is_ok();
    let found: Vec<u16> = nodes.iter().filter(here).map(|node| node.id.0).collect();
    if found.is_empty() {
        let addresses: Vec<_> = nodes.iter().map(|node| node.token.ip().to_string()).collect();
        return Err(Failure::usage(format!(
            "no node of the file is at home here: none of {} is an address of this machine; correct the file",
            addresses.join(", ")
        )));
    }
    Ok(found)
}
