//! In steady traffic nothing is asked of the allocator: not for a token, not for a packet, not for a message. Beacons, of which
//! there are five a second whatever the traffic, are kept out of the measurement.
use consort_steady::{NODES, Traffic, World};
use consort_types::Duration;

/// How many allocations so much traffic takes, once all buffers have grown to what they need; and how many datagrams.
fn allocations(traffic: &Traffic) -> (u64, u64) {
    let (mut world, said) = (World::new(), traffic.write());
    (0..300).for_each(|_| world.round(&said));
    let (told, datagrams) = (*world.told(), world.datagrams());
    let counted = allocation_counter::measure(|| (0..100).for_each(|_| world.round(&said)));
    let least = 100 * usize::from(NODES) * traffic.messages * traffic.len;
    let all: Vec<_> = world.told().iter().zip(told).map(|(now, before)| now - before).collect();
    assert!(all.iter().all(|told| *told >= least), "clients were told {all:?} bytes");
    (counted.count_total, world.datagrams() - datagrams)
}

#[test]
fn steady_traffic_takes_nothing_from_the_allocator() {
    for (messages, len) in [(1, 100), (60, 100), (1, 1_350), (40, 1_350)] {
        let (allocations, datagrams) = allocations(&Traffic { name: "", messages, len });
        assert!(datagrams > 600, "{datagrams} datagrams");
        assert_eq!(allocations, 0, "for {messages} messages of {len} bytes a write; {datagrams} datagrams");
    }
}

#[test]
fn a_ring_at_rest_takes_nothing_from_the_allocator() {
    let mut world = World::new();
    world.pass(Duration::from_secs(2));
    let datagrams = world.datagrams();
    let counted = allocation_counter::measure(|| world.pass(Duration::from_secs(1)));
    assert!(world.datagrams() - datagrams > 90, "{}", world.datagrams() - datagrams);
    assert_eq!(counted.count_total, 0, "for {} datagrams", world.datagrams() - datagrams);
}

#[test]
fn what_members_keep_of_others_does_not_grow_with_the_faults_they_lived_through() {
    let (mut world, said) = (World::new(), Traffic { name: "", messages: 5, len: 100 }.write());
    let mut faults = |n: usize| {
        let counted = allocation_counter::measure(|| {
            for _ in 0..n {
                world.fail(2);
                (0..5).for_each(|_| world.round(&said));
            }
        });
        counted.bytes_current
    };
    // By then what is remembered of views is full, and buffers have grown to what they need.
    faults(150);
    let grown: Vec<i64> = (0..5).map(|_| faults(20)).collect();
    assert!(grown.iter().sum::<i64>() < 100 * 64, "{grown:?} bytes in 20 faults each");
}
