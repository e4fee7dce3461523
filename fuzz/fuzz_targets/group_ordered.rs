//! Ordered payloads into the groups of two daemons: both know the same after each, whatever the bytes.
#![no_main]
use bytes::Bytes;
use consort_fuzz::{member, pieces};
use consort_group::Groups;
use consort_wire::Payload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut daemons = [Groups::new(member(1)), Groups::new(member(2))];
    for piece in pieces(bytes) {
        let payload = Payload::from(Bytes::copy_from_slice(piece));
        let [one, two] = daemons.each_mut().map(|groups| {
            let taken = groups.deliver(member(1), &payload).is_ok();
            while groups.next_change().is_some() {}
            taken.then(|| groups.all().map(|(name, id, members)| (name.clone(), id, members.len())).collect::<Vec<_>>())
        });
        assert_eq!(one, two);
    }
});
