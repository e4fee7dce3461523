//! Nodes in several networks.
use super::*;

const NODES: usize = 3;

/// Two networks that node 1 joins.
fn joined() -> Option<Network> {
    if let Err(reason) = requirements() {
        assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
        eprintln!("SKIPPED: {reason}");
        return None;
    }
    let plan = Plan { nodes: NODES, mtu: 1_500, seed: 7, ethernet: None };
    Some(Network::several(&plan, &[vec![0, 1], vec![1, 2]]).unwrap())
}

fn socket_in(network: &Network, number: usize, node: usize) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind((Network::address_in(number, node), PORT))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok::<_, std::io::Error>(socket)
    };
    network.namespace(node).enter(open).unwrap().unwrap()
}

fn at_in(number: usize, node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Network::address_in(number, node), PORT)
}

#[test]
fn a_network_has_links_of_its_own_and_only_a_node_in_both_leads_from_one_to_the_other() {
    let Some(network) = joined() else { return };
    let [first, near] = [socket_in(&network, 0, 0), socket_in(&network, 0, 1)];
    let [far, last] = [socket_in(&network, 1, 1), socket_in(&network, 1, 2)];
    first.send_to(b"near", at_in(0, 1)).unwrap();
    last.send_to(b"far", at_in(1, 1)).unwrap();
    assert_eq!((receive(&near), receive(&far)), (b"near".to_vec(), b"far".to_vec()));
    assert!(first.send_to(b"beyond", at_in(1, 2)).is_err(), "no route leads there");
    // What is cut in one network passes in the other.
    let cut = LinkModel { cut: true, ..LinkModel::default() };
    network.set_in(0, 1, 0, &cut).unwrap();
    network.set_in(0, 1, 2, &cut).unwrap();
    near.send_to(b"lost", at_in(0, 0)).unwrap();
    far.send_to(b"passes", at_in(1, 2)).unwrap();
    assert_eq!(receive(&last), b"passes");
    assert!(drain(&first).is_empty());
    network.set(1, 0, &LinkModel::default()).unwrap();
    near.send_to(b"again", at_in(0, 0)).unwrap();
    assert_eq!(receive(&first), b"again");
}
