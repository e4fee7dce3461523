//! Which of the cluster's nodes this machine can be, and the hold on its identity.
use crate::config::{NodeAddress, Settings};
use crate::failure::{Failure, Outcome};
use crate::runtime_dir::{RuntimeDir, Seat};
use consort_net::{Interface, Stop, interfaces};
use consort_types::NodeId;
use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How often it is looked whether this machine has an address by now, and how often it is said that it has not.
const LOOK: Duration = Duration::from_millis(250);
const SAY: Duration = Duration::from_secs(60);

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

/// Waits until this machine has the addresses of the node that it is to be: of the given one, or of any. At boot a daemon
/// may be started before them. What is missing is said in the log, at once and each minute.
///
/// Returns false if the daemon is told to stop meanwhile.
pub fn await_addresses(settings: &Settings, wanted: Option<u16>, stop: &Stop) -> bool {
    let mut said: Option<Instant> = None;
    while let Some(missing) = missing(settings, wanted, &interfaces()) {
        if said.is_none_or(|at| at.elapsed() >= SAY) {
            tracing::warn!("{missing}; the daemon waits for it. Correct the file if that is wrong");
            said = Some(Instant::now());
        }
        if stop.wait(LOOK) {
            return false;
        }
    }
    if said.is_some() {
        tracing::info!("this machine has the addresses that the daemon waited for");
    }
    true
}

/// What this machine lacks to be the given node, or any, in words.
fn missing(settings: &Settings, wanted: Option<u16>, here: &[Interface]) -> Option<String> {
    let is_here = |address: &IpAddr| is_local(*address, here) || wanted.is_some() && can_be_bound(*address);
    let has = || match here {
        [] => "it has none".to_owned(),
        all => {
            let all: Vec<_> = all.iter().map(|one| format!("{} ({})", one.address, one.name)).collect();
            format!("it has {}", all.join(", "))
        }
    };
    if let Some(node) = wanted {
        let lacks: Vec<_> = needs(settings, NodeId(node)).into_iter().filter(|address| !is_here(address)).collect();
        let lacks: Vec<_> = lacks.iter().map(ToString::to_string).collect();
        let text = || format!("node {node} needs {}, which this machine does not have: {}", lacks.join(" and "), has());
        return (!lacks.is_empty()).then(text);
    }
    let all = settings.nodes.iter().map(|node| needs(settings, node.id));
    if all.into_iter().any(|needs| needs.iter().all(is_here)) {
        return None;
    }
    let all: Vec<_> = settings.nodes.iter().map(|node| node.token.ip().to_string()).collect();
    Some(format!(
        "none of {}, which the nodes of the file have, is an address of this machine: {}",
        all.join(", "),
        has()
    ))
}

/// The addresses that a node must have, in each network in which it stands.
fn needs(settings: &Settings, node: NodeId) -> BTreeSet<IpAddr> {
    let mut needs = BTreeSet::new();
    let mut take = |nodes: &[NodeAddress], multicasts: bool| {
        for own in nodes.iter().filter(|other| other.id == node) {
            needs.extend([own.token.ip(), own.data.ip()]);
            needs.extend(multicasts.then_some(IpAddr::V4(own.interface)));
        }
    };
    let several = settings.all_networks();
    several.iter().for_each(|network| take(&network.nodes, network.multicast.is_some()));
    if several.is_empty() {
        take(&settings.nodes, settings.multicast.is_some());
    }
    needs
}

/// Whether an interface has this address. That it can be bound says nothing where `net.ipv4.ip_nonlocal_bind` is 1.
fn is_local(address: IpAddr, here: &[Interface]) -> bool {
    address.is_loopback() || here.iter().any(|interface| interface.address == address)
}

fn can_be_bound(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The nodes whose addresses are this machine's.
fn at_home(nodes: &[NodeAddress]) -> Outcome<Vec<u16>> {
    let interfaces = interfaces();
    let here = |node: &&NodeAddress| is_local(node.token.ip(), &interfaces);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Three nodes of which none has an address of this machine.
    fn settings() -> Settings {
        let mut settings = Settings::local("seats", 3);
        for (node, last) in settings.nodes.iter_mut().zip(1..) {
            let address = Ipv4Addr::new(203, 0, 113, last);
            node.token.set_ip(address.into());
            node.data.set_ip(address.into());
            node.interface = address;
        }
        settings
    }

    fn interface(last: u8) -> Interface {
        Interface { name: "eth0".into(), address: Ipv4Addr::new(203, 0, 113, last), index: 2 }
    }

    #[test]
    fn what_a_machine_lacks_is_named() {
        let settings = settings();
        assert_eq!(
            missing(&settings, Some(2), &[interface(1)]).unwrap(),
            "node 2 needs 203.0.113.2, which this machine does not have: it has 203.0.113.1 (eth0)"
        );
        assert_eq!(
            missing(&settings, None, &[]).unwrap(),
            "none of 203.0.113.1, 203.0.113.2, 203.0.113.3, which the nodes of the file have, is an address of this \
             machine: it has none"
        );
        assert_eq!(missing(&settings, Some(2), &[interface(2)]), None);
        assert_eq!(missing(&settings, None, &[interface(3)]), None);
        assert_eq!(missing(&settings, Some(9), &[]), None, "what is no node is another error");
    }

    #[test]
    fn the_interface_of_multicast_is_needed_unless_that_is_off() {
        let mut settings = settings();
        settings.nodes[0].interface = Ipv4Addr::new(203, 0, 113, 77);
        assert!(missing(&settings, Some(1), &[interface(1)]).unwrap().contains("node 1 needs 203.0.113.77"));
        settings.multicast = None;
        assert_eq!(missing(&settings, Some(1), &[interface(1)]), None);
    }

    #[test]
    fn a_daemon_that_is_told_to_stop_waits_no_more() {
        let stop = Stop::new().unwrap();
        stop.set();
        assert!(!await_addresses(&settings(), Some(1), &stop));
        assert!(await_addresses(&Settings::local("seats", 3), None, &stop), "loopback is here");
    }
}
