//! The layout of URingPaxos below the prefix, and two keys of our own below a ring's `config`.
//!
//! | path | what | lives |
//! |---|---|---|
//! | `rings/R/N` | node N takes part in ring R | as long as the session |
//! | `topologyR/nodes/N` | where it is reached: `address;port` | as long as the session |
//! | `topologyR/proposers/N`, `acceptors/N`, `learners/N` | what it is there | as long as the session |
//! | `topologyR/config/coordinator` | the node that should lead, written by an operator | for ever |
//! | `topologyR/config/order` | nodes in the order of the ring, written by an operator | for ever |
//! | `topologyR/config`, `config` | where other keys may stand | for ever |
use crate::{Member, RingMember};
use consort_types::NodeId;

/// A node that this node keeps there while its session lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ephemeral {
    /// Its path.
    pub(crate) path: String,
    /// What it says.
    pub(crate) data: String,
}

/// The folder of a ring.
pub(crate) fn topology(prefix: &str, ring: u16) -> String {
    format!("{prefix}/topology{ring}")
}

/// Who votes in a ring, as far as is registered.
pub(crate) fn acceptors(prefix: &str, ring: u16) -> String {
    format!("{}/acceptors", topology(prefix, ring))
}

/// Who should lead it.
pub(crate) fn coordinator(prefix: &str, ring: u16) -> String {
    format!("{}/config/coordinator", topology(prefix, ring))
}

/// In which order it should stand.
pub(crate) fn order(prefix: &str, ring: u16) -> String {
    format!("{}/config/order", topology(prefix, ring))
}

/// Folders that must be there, each behind the one that it is in.
pub(crate) fn folders(prefix: &str, member: &Member) -> Vec<String> {
    let mut folders = Vec::new();
    let parts = prefix.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    folders.extend(parts.map(|at| prefix[..at].to_owned()));
    folders.extend([prefix.to_owned(), format!("{prefix}/config"), format!("{prefix}/rings")]);
    for RingMember { ring, .. } in &member.rings {
        let topology = topology(prefix, *ring);
        folders.push(format!("{prefix}/rings/{ring}"));
        folders.push(topology.clone());
        let below = ["nodes", "proposers", "acceptors", "learners", "config"];
        folders.extend(below.map(|name| format!("{topology}/{name}")));
    }
    folders
}

/// What this node keeps there.
pub(crate) fn ephemerals(prefix: &str, member: &Member) -> Vec<Ephemeral> {
    let node = member.node.0;
    let mut all = Vec::new();
    for RingMember { ring, acceptor } in &member.rings {
        let topology = topology(prefix, *ring);
        let address = format!("{};{}", member.address.ip(), member.address.port());
        all.push(Ephemeral { path: format!("{topology}/nodes/{node}"), data: address });
        let roles = ["proposers", "learners"].into_iter().chain(acceptor.then_some("acceptors"));
        let role = |name: &str| Ephemeral { path: format!("{topology}/{name}/{node}"), data: String::new() };
        all.extend(roles.map(role));
        all.push(Ephemeral { path: format!("{prefix}/rings/{ring}/{node}"), data: String::new() });
    }
    all
}

/// A node's number, as people and programs write it.
pub(crate) fn node(text: &str) -> Option<NodeId> {
    text.trim().parse().ok().map(NodeId)
}

/// Several, with anything but digits between them; `None` where one is no number of a node.
pub(crate) fn nodes(text: &str) -> Option<Vec<NodeId>> {
    text.split(|letter: char| letter == ',' || letter == ';' || letter.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(node)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let rings = vec![RingMember { ring: 1, acceptor: true }, RingMember { ring: 7, acceptor: false }];
        Member { node: NodeId(3), address: "192.0.2.1:4841".parse().unwrap(), rings }
    }

    #[test]
    fn this_node_stands_where_uringpaxos_looks_for_it() {
        let all = ephemerals("/ringpaxos", &member());
        let paths: Vec<_> = all.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/ringpaxos/topology1/nodes/3",
                "/ringpaxos/topology1/proposers/3",
                "/ringpaxos/topology1/learners/3",
                "/ringpaxos/topology1/acceptors/3",
                "/ringpaxos/rings/1/3",
                "/ringpaxos/topology7/nodes/3",
                "/ringpaxos/topology7/proposers/3",
                "/ringpaxos/topology7/learners/3",
                "/ringpaxos/rings/7/3",
            ]
        );
        assert_eq!((all[0].data.as_str(), all[1].data.as_str()), ("192.0.2.1;4841", ""));
    }

    #[test]
    fn each_folder_stands_behind_the_one_that_it_is_in() {
        let folders = folders("/site/a/ringpaxos", &member());
        for (at, folder) in folders.iter().enumerate() {
            let parent = folder.rsplit_once('/').unwrap().0;
            assert!(parent.is_empty() || folders[..at].iter().any(|before| before == parent), "{folder}");
        }
        for one in ephemerals("/site/a/ringpaxos", &member()) {
            assert!(folders.contains(&one.path.rsplit_once('/').unwrap().0.to_owned()), "{}", one.path);
        }
    }

    #[test]
    fn numbers_of_nodes_are_read_however_they_are_written() {
        assert_eq!(node(" 12\n"), Some(NodeId(12)));
        assert_eq!([node(""), node("x"), node("70000"), node("-1")], [None; 4]);
        assert_eq!(nodes("3 1,2\n"), Some(vec![NodeId(3), NodeId(1), NodeId(2)]));
        assert_eq!((nodes(""), nodes("3 one")), (Some(Vec::new()), None));
    }
}
