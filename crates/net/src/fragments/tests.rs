use super::*;
use crate::driver_packets::tests::identity;
use consort_types::Rng;
use consort_wire::mutate;
use consort_wire::path_mtu::{self, ALWAYS, DriverPacket};

const NOW: Instant = Instant(1_000);

fn bytes(n: usize) -> Bytes {
    (0..n).map(|i| (i % 251) as u8).collect()
}

/// The fragments of a datagram, as datagrams, and as they are opened.
fn cut(id: u32, datagram: &[u8], limit: usize) -> Vec<Bytes> {
    let shape = Shape::new(datagram.len(), limit).unwrap();
    path_mtu::cut(identity(1), id, shape, datagram, &[]).collect()
}

fn open(datagram: &Bytes) -> Option<(MemberId, Fragment)> {
    match path_mtu::open(&identity(0), datagram) {
        Ok((from, DriverPacket::Fragment(piece))) => Some((from, piece)),
        _ => None,
    }
}

fn fragments(id: u32, datagram: &[u8], limit: usize) -> Vec<(MemberId, Fragment)> {
    cut(id, datagram, limit).iter().filter_map(open).collect()
}

fn take(joins: &mut Reassemblies, fragments: &[(MemberId, Fragment)]) -> Vec<Bytes> {
    fragments.iter().filter_map(|(from, piece)| joins.take(NOW, *from, piece)).collect()
}

fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    (1..items.len()).rev().for_each(|i| items.swap(i, rng.below(i as u64 + 1) as usize));
}

/// How many bytes wait for others.
fn waiting(joins: &Reassemblies) -> usize {
    joins.senders.values().flatten().map(|join| join.bytes.len()).sum()
}

#[test]
fn every_length_comes_together_in_any_order() {
    let (mut joins, mut rng) = (Reassemblies::default(), Rng::new(3));
    for (id, len) in (509..4_000).step_by(13).chain([8_972, 65_000, 65_535]).enumerate() {
        let mut fragments = fragments(id as u32, &bytes(len), ALWAYS);
        shuffle(&mut rng, &mut fragments);
        assert!(take(&mut joins, &fragments) == [bytes(len)], "{len}");
    }
    assert_eq!((joins.given_up, waiting(&joins)), (0, 0));
}

#[test]
fn duplicates_make_no_second_datagram_and_are_not_missed() {
    let mut joins = Reassemblies::default();
    let fragments = fragments(1, &bytes(3_000), ALWAYS);
    let twice: Vec<_> = fragments.iter().flat_map(|piece| [piece.clone(), piece.clone()]).collect();
    assert_eq!(take(&mut joins, &twice), [bytes(3_000)]);
    assert!(take(&mut joins, &fragments).is_empty());
    joins.expire(NOW + PATIENCE);
    assert_eq!((joins.joined, joins.given_up, joins.senders.len()), (1, 0, 0));
}

#[test]
fn datagrams_are_never_mixed_not_even_of_two_incarnations_with_one_id() {
    let (one, other) = (bytes(2_000), Bytes::from(vec![7; 2_000]));
    let (mut joins, mut all) = (Reassemblies::default(), Vec::new());
    for ((from, piece), (_, of_other)) in fragments(1, &one, ALWAYS).into_iter().zip(fragments(1, &other, ALWAYS)) {
        let later = MemberId { incarnation: consort_types::Incarnation(from.incarnation.0 + 1), ..from };
        all.extend([(from, piece), (later, of_other.clone()), (from, Fragment { id: 2, ..of_other })]);
    }
    assert_eq!(take(&mut joins, &all), [one, other.clone(), other]);
}

#[test]
fn a_piece_that_was_cut_differently_is_ignored() {
    let (mut joins, datagram) = (Reassemblies::default(), bytes(2_000));
    let (right, wrong) = (fragments(1, &datagram, ALWAYS), fragments(1, &datagram, 700));
    assert!(take(&mut joins, &right[..1]).is_empty());
    assert!(take(&mut joins, &wrong).is_empty());
    assert_eq!(take(&mut joins, &right[1..]), [datagram]);
}

#[test]
fn a_lost_piece_loses_its_datagram_and_no_other() {
    let (mut joins, datagram) = (Reassemblies::default(), bytes(2_000));
    assert!(take(&mut joins, &fragments(1, &datagram, ALWAYS)[1..]).is_empty());
    assert_eq!(take(&mut joins, &fragments(2, &datagram, ALWAYS)), [datagram]);
    joins.expire(NOW + PATIENCE / 2);
    assert_eq!((joins.given_up, waiting(&joins)), (0, 2_000));
    joins.expire(NOW + PATIENCE);
    assert_eq!((joins.given_up, joins.joined, waiting(&joins)), (1, 1, 0));
}

#[test]
fn a_flood_of_first_pieces_takes_bounded_memory_and_the_latest_still_comes_together() {
    //= W10 test
    let mut joins = Reassemblies::default();
    for id in 0..2_000 {
        let len = if id % 3 == 0 { 65_535 } else { 600 };
        assert!(take(&mut joins, &fragments(id, &bytes(len), ALWAYS)[..1]).is_empty());
        assert!(waiting(&joins) <= BYTES && joins.senders[&NodeId(1)].len() <= DATAGRAMS);
    }
    assert_eq!(take(&mut joins, &fragments(2_000, &bytes(65_535), ALWAYS)), [bytes(65_535)]);
    assert!(joins.given_up > 1_900);
}

#[test]
fn broken_pieces_neither_panic_nor_change_what_comes_together() {
    let datagram = bytes(1_300);
    for good in cut(1, &datagram, ALWAYS) {
        let mut joins = Reassemblies::default();
        mutate::each(&good, 2_000, |bytes| {
            if let Some((from, piece)) = open(&Bytes::copy_from_slice(bytes)) {
                joins.take(NOW, from, &piece);
            }
            assert!(waiting(&joins) <= BYTES);
        });
    }
}

#[test]
fn wrong_pieces_that_look_right_neither_panic_nor_outgrow_the_bounds() {
    let (mut joins, mut rng) = (Reassemblies::default(), Rng::new(5));
    for _ in 0..20_000 {
        let (len, limit) = (rng.between(509, 9_000) as usize, rng.between(508, 1_500) as usize);
        let Some(shape) = Shape::new(len, limit) else { continue };
        let index = rng.below(shape.count() as u64) as u8;
        let piece = Fragment { id: rng.below(20) as u32, shape, index, bytes: bytes(shape.range(index).len()) };
        let from = MemberId::new(rng.below(3) as u16, rng.below(2));
        if let Some(whole) = joins.take(NOW, from, &piece) {
            assert_eq!(whole.len(), shape.total());
        }
    }
    assert!(waiting(&joins) <= 3 * BYTES);
}
