//! Packets that nobody sent, into a working ring of two: it stands.
#![no_main]
use bytes::Bytes;
use consort_fuzz::{Pair, pieces};
use consort_ring::packet::Packet;
use consort_types::Duration;
use consort_wire::{Lane, Packet as _};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let packets: Vec<_> =
        pieces(bytes).filter_map(|piece| Packet::decode(Bytes::copy_from_slice(piece)).ok()).collect();
    if packets.is_empty() {
        return;
    }
    let mut pair = Pair::formed();
    for packet in packets {
        pair.hand_over(Lane::Token, packet);
        pair.run(Duration::from_millis(1));
    }
    pair.run(Duration::from_millis(500));
});
