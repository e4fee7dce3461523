//! Where nodes are: sections with a node's number and addresses, and the group for data.
use super::NodeAddress;
use super::reader::Section;
use crate::local;
use consort_types::NodeId;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Where a node receives tokens unless its address names a port; data comes to the next port, multicast to the one
/// after.
const PORT: u16 = 4841;

/// Every `[[node]]`.
pub fn nodes(root: &mut Section<'_, '_>) -> Vec<NodeAddress> {
    let mut nodes: Vec<NodeAddress> = Vec::new();
    root.each("node", |section| {
        if let Some(node) = node(section) {
            match nodes.iter().find(|other| other.id == node.id || meet(other, &node)) {
                Some(other) if other.id == node.id => {
                    let text = format!("{} is taken by an earlier [[node]]; give each its own", node.id.0);
                    section.wrong("id", text);
                }
                Some(other) => {
                    let text = format!("shares a port with node {}; each takes its own and the next one", other.id.0);
                    section.wrong("address", text);
                }
                None => nodes.push(node),
            }
        }
    });
    let found = (!nodes.is_empty()).then_some(());
    root.require("node", found, "list every node: [[node]] with id = 1 and address = \"192.0.2.11\" below it");
    nodes
}

/// Whether two nodes would use one port: each takes two.
pub fn meet(a: &NodeAddress, b: &NodeAddress) -> bool {
    [a.token, a.data].iter().any(|port| [b.token, b.data].contains(port))
}

/// One node, where its section is right.
pub fn node(section: &mut Section<'_, '_>) -> Option<NodeAddress> {
    let id = section.number("id", 1..=u16::MAX);
    let id = section.require("id", id, "give the node a number of its own: id = 1");
    let token = section.text("address", |text| address(text, PORT));
    let token = section.require("address", token, "say where the node is: address = \"192.0.2.11\"");
    let interface = section.text("interface", |text| text.parse::<Ipv4Addr>().map_err(|_| not_an_address(text)));
    let (id, token) = (id?, token?);
    if token.port() == 0 {
        section.wrong("address", format!("port 0 is none that others could find; use one such as {PORT}"));
        return None;
    }
    let Some(next) = token.port().checked_add(1) else {
        section.wrong("address", "the port after this one is needed too; use one below 65535");
        return None;
    };
    let data = SocketAddr::from((*token.ip(), next));
    Some(NodeAddress { id: NodeId(id), token: token.into(), data, interface: interface.unwrap_or(*token.ip()) })
}

/// The group for data, `None` where it is switched off; else one that follows from the cluster's name.
pub fn multicast(root: &mut Section<'_, '_>, cluster: &str, nodes: &[NodeAddress]) -> Option<SocketAddrV4> {
    let given = root.text("multicast", |text| match text {
        "off" => Ok(None),
        text => address(text, PORT + 2).and_then(|group| match group.ip().is_multicast() {
            true => Ok(Some(group)),
            false => Err(format!(
                "{} is not a multicast group; use one from 239.192.0.0 to 239.195.255.255, or \"off\"",
                group.ip()
            )),
        }),
    });
    // Nodes that share a host differ in their ports; the group's port must differ from all of them.
    let highest = nodes.iter().map(|node| node.data.port()).max().unwrap_or(PORT + 1);
    given.unwrap_or_else(|| Some(SocketAddrV4::new(local::multicast_group(cluster), highest.saturating_add(1))))
}

/// Reads `192.0.2.11` or `192.0.2.11:4841`.
fn address(text: &str, port: u16) -> Result<SocketAddrV4, String> {
    let bare = text.parse::<Ipv4Addr>().map(|ip| SocketAddrV4::new(ip, port));
    bare.or_else(|_| text.parse::<SocketAddrV4>()).map_err(|_| not_an_address(text))
}

fn not_an_address(text: &str) -> String {
    format!("\"{text}\" is not an IPv4 address; write it like \"192.0.2.11\" or \"192.0.2.11:{PORT}\"")
}
