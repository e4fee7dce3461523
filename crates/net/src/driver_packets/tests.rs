use super::*;
use consort_types::{ClusterId, ConfigHash};
use consort_wire::path_mtu::{ALWAYS, Shape};
use consort_wire::{BytesMut, Lane, envelope};

/// A node of the cluster that the tests of this crate's sockets live in.
pub(crate) fn identity(node: u16) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, 77) }
}

/// What a node takes aside in a cluster of three.
pub(crate) fn driver_packets_of(node: u16) -> DriverPackets {
    sealed_driver_packets_of(node, Rc::new(Seals::new(identity(node), None, &[]).unwrap()))
}

/// The same of a node with these seals.
pub(crate) fn sealed_driver_packets_of(node: u16, seals: Rc<Seals>) -> DriverPackets {
    DriverPackets::new(identity(node), seals, (0..3).map(NodeId).collect())
}

fn probe(from: &Identity) -> Bytes {
    Probe { round: 3, reports: Vec::new() }.seal(from, 600)
}

#[test]
fn a_probe_is_kept_for_the_driver() {
    let mut driver_packets = driver_packets_of(0);
    assert_eq!(driver_packets.take(Instant(1), probe(&identity(2)), true), None);
    let Probed { from, size, by_group, probe } = driver_packets.next_probe().unwrap();
    assert_eq!((from, size, probe.round, driver_packets.probed), (MemberId::new(2, 77), 600, 3, 1));
    assert!(by_group);
    assert!(driver_packets.next_probe().is_none());
}

#[test]
fn what_is_not_of_this_cluster_or_broken_is_left_to_the_node_which_counts_it() {
    //= W01 test
    let mut driver_packets = driver_packets_of(0);
    let other = Identity { cluster: ClusterId(9), ..identity(2) };
    let mut hurt = probe(&identity(2)).to_vec();
    hurt[80] ^= 1;
    let shape = Shape::new(1_000, ALWAYS).unwrap();
    let piece = path_mtu::cut(other, 1, shape, &[1; 1_000], &[]).next().unwrap();
    for left in
        [probe(&other), piece, hurt.into(), probe(&identity(0)), probe(&identity(7)), Bytes::from_static(b"abcdef")]
    {
        assert_eq!(driver_packets.take(Instant(1), left.clone(), false), Some(left));
    }
    assert_eq!((driver_packets.probed, driver_packets.fragments, driver_packets.probes.len()), (0, 0, 0));
}

#[test]
fn a_datagram_comes_out_of_its_pieces_as_it_was_and_is_opened_like_any_other() {
    let mut driver_packets = driver_packets_of(0);
    let mut head = BytesMut::new();
    envelope::reserve(&mut head);
    envelope::seal(&identity(1), Lane::Data, &mut head, &[5; 2_000]);
    let shape = Shape::new(2_056, ALWAYS).unwrap();
    let fragments = path_mtu::cut(identity(1), 1, shape, &head, &[5; 2_000]);
    let whole: Vec<_> = fragments.filter_map(|piece| driver_packets.take(Instant(1), piece, false)).collect();
    let (envelope, packet) = envelope::open(&identity(0), whole[0].clone()).unwrap();
    assert_eq!((whole.len(), envelope.from, &packet[..]), (1, MemberId::new(1, 77), &[5; 2_000][..]));
    assert_eq!((driver_packets.joins.joined, driver_packets.fragments), (1, 5));
}

#[test]
fn probes_that_nobody_reads_take_bounded_memory() {
    let mut driver_packets = driver_packets_of(0);
    (0..3 * PROBES).for_each(|_| drop(driver_packets.take(Instant(1), probe(&identity(2)), false)));
    assert_eq!((driver_packets.probes.len(), driver_packets.probed), (PROBES, 3 * PROBES as u64));
}
