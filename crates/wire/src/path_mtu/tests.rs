use super::*;
use crate::{Lane, mutate};
use consort_types::{ClusterId, ConfigHash};

fn identity(node: u16) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, 77) }
}

fn probe() -> Probe {
    let report =
        |node, passes, doubts, wants_all| PathReport { node: NodeId(node), passes, doubts, wants_all, by_group: None };
    Probe { round: 9, reports: vec![report(2, Some(1_472), false, false), report(3, None, true, true)] }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

/// The pieces of a datagram as they are opened at another node.
fn pieces(head: &[u8], body: &[u8], limit: usize) -> Vec<Fragment> {
    let shape = Shape::new(head.len() + body.len(), limit).unwrap();
    let opened = |datagram: Bytes| match open(&identity(2), &datagram).unwrap() {
        (from, DriverPacket::Fragment(piece)) if from == MemberId::new(1, 77) => {
            assert!(datagram.len() <= limit);
            piece
        }
        other => panic!("{other:?}"),
    };
    cut(identity(1), 5, shape, head, body).map(opened).collect()
}

#[test]
fn a_probe_has_the_size_that_it_tries_and_arrives_as_it_was() {
    //= W02 test
    for size in [ALWAYS, 1_472, 65_000] {
        let datagram = probe().seal(&identity(1), size);
        assert_eq!(datagram.len(), size);
        let opened = open(&identity(2), &datagram).unwrap();
        assert_eq!(opened, (MemberId::new(1, 77), DriverPacket::Probe(probe())));
    }
}

#[test]
fn the_shortest_probe_holds_as_many_reports_as_there_may_be() {
    let reports =
        vec![
            PathReport { node: NodeId(1), passes: Some(1), doubts: true, wants_all: false, by_group: Some(true) };
            REPORTS_MAX
        ];
    assert_eq!(Probe { round: 1, reports: reports.clone() }.seal(&identity(1), ALWAYS).len(), ALWAYS);
    let more = [reports, vec![probe().reports[0]]].concat();
    assert!(Probe { round: 1, reports: more }.seal(&identity(1), ALWAYS).len() > ALWAYS);
}

#[test]
fn the_form_of_both_is_that_of_the_page() {
    let datagram = probe().seal(&identity(1), ALWAYS);
    assert_eq!(datagram[..4], [0xc0, 0x4e, 1, 16]);
    assert_eq!(datagram[56..62], [0, 0, 0, 9, 0, 2]);
    assert_eq!(datagram[62..73], [0, 2, 0x05, 0xc0, 0, 0, 3, 0, 0, 3, 0]);
    let shape = Shape::new(1_000, 508).unwrap();
    let last = cut(identity(1), 0x0102_0304, shape, &bytes(1_000), &[]).last().unwrap();
    assert_eq!((last[3], &last[32..40]), (17, &[1, 2, 3, 4, 0x03, 0xe8, 2, 3][..]));
    assert_eq!(last[56..], bytes(1_000)[668..]);
}

#[test]
fn pieces_hold_each_byte_once_whatever_the_lengths_and_the_limit() {
    for limit in [ALWAYS, 700, 972, 1_472, 9_000] {
        for total in (limit + 1..limit + 1_200).step_by(7).chain([8_900, 8_972, 30_000, 65_000, 65_507, 65_535]) {
            let Some(shape) = Shape::new(total, limit) else { continue };
            let ranges: Vec<_> = shape.indices().map(|index| shape.range(index)).collect();
            assert!(shape.is_right() && ranges.windows(2).all(|two| two[0].end == two[1].start), "{total} {limit}");
            assert_eq!((ranges[0].start, ranges[shape.count() - 1].end), (0, total));
            assert!(ranges.iter().all(|range| range.len() + LEN <= limit), "{total} {limit}");
        }
    }
}

#[test]
fn a_datagram_of_two_parts_is_cut_wherever_they_meet() {
    let whole = bytes(2_000);
    for meet in [0, 1, 451, 452, 453, 1_000, 1_999, 2_000] {
        let (head, body) = whole.split_at(meet);
        let joined: Vec<u8> = pieces(head, body, ALWAYS).iter().flat_map(|piece| piece.bytes.to_vec()).collect();
        assert!(joined == whole, "the parts meet at {meet}");
    }
}

#[test]
fn what_needs_no_cutting_or_cannot_be_cut_is_left_whole() {
    assert_eq!(Shape::new(0, ALWAYS), None);
    assert_eq!(Shape::new(452, ALWAYS), None);
    assert_eq!(Shape::new(65_536, ALWAYS), None);
    assert_eq!(Shape::new(2_000, 0).map(Shape::count), Some(250), "a limit that nobody sets is no reason to fail");
}

#[test]
fn an_engines_packet_is_told_apart_by_one_byte_and_ours_is_unknown_to_it() {
    let mut plain = BytesMut::new();
    envelope::reserve(&mut plain);
    for lane in Lane::ALL {
        envelope::seal(&identity(1), lane, &mut plain, &[]);
        assert!(!is_for_driver(&plain));
        let refused = open(&identity(2), &plain.clone().freeze()).unwrap_err();
        assert_eq!(refused, Rejected::Lane(lane as u8));
    }
    let ours = probe().seal(&identity(1), ALWAYS);
    assert!(is_for_driver(&ours) && !is_for_driver(&[]) && !is_for_driver(&[0xc0, 0x4e, 1]));
    assert_eq!(envelope::open(&identity(2), ours).unwrap_err(), Rejected::Lane(16));
}

#[test]
fn settings_are_told_to_those_whose_settings_differ_and_to_no_other_cluster() {
    //= W11 test
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let lines = [pair("node 2", "192.0.2.2:4841"), pair("a=b\n", &"x".repeat(300)), pair("", "")];
    let (datagram, taken) = seal_settings(&identity(1), &lines);
    assert_eq!((taken, datagram.len() <= ALWAYS, datagram[3]), (3, true, 18));
    let other = Identity { config: ConfigHash(9), ..identity(2) };
    let wanted = vec![lines[0].clone(), pair("a b ", &"x".repeat(80)), pair("", "")];
    let told = DriverPacket::Settings(SettingsNotice { config: ConfigHash(2), lines: wanted });
    assert_eq!(open(&other, &datagram), Ok((MemberId::new(1, 77), told.clone())));
    assert_eq!(open(&identity(2), &datagram).map(|(_, packet)| packet), Ok(told));
    let stranger = Identity { cluster: ClusterId(9), ..other };
    assert_eq!(open(&stranger, &datagram).unwrap_err().name(), "cluster");
    for bad in [&b"no sign"[..], b"a=\xff", b"a=b=c", b"a=\x1b[31m", &[b'x'; 200]] {
        assert_eq!(open(&identity(2), &stamped(18, 0, bad)).unwrap_err().name(), "malformed", "{bad:?}");
    }
    let many = vec![pair("key", "value"); 1_000];
    let (datagram, taken) = seal_settings(&identity(1), &many);
    assert!(datagram.len() <= ALWAYS && (30..1_000).contains(&taken));
    mutate::each(&datagram, 5_000, |bytes| drop(open(&identity(2), &Bytes::copy_from_slice(bytes))));
}

#[test]
fn what_is_not_for_this_node_or_not_right_is_refused_with_its_cause() {
    let good = probe().seal(&identity(1), ALWAYS);
    let other = |change: fn(&mut Identity)| {
        let mut identity = identity(2);
        change(&mut identity);
        open(&identity, &good).unwrap_err().name()
    };
    assert_eq!(other(|identity| identity.cluster = ClusterId(9)), "cluster");
    assert_eq!(other(|identity| identity.config = ConfigHash(9)), "configuration");
    assert_eq!(other(|identity| identity.me = MemberId::new(1, 77)), "own");
    let mut hurt = good.to_vec();
    hurt[60] ^= 1;
    assert_eq!(open(&identity(2), &hurt.into()).unwrap_err(), Rejected::Checksum);
    assert_eq!(open(&identity(2), &good.slice(..50)).unwrap_err(), Rejected::Foreign);
}

/// A datagram of ours with these bytes behind the envelope.
fn stamped(kind: u8, nonce: u64, fields: &[u8]) -> Bytes {
    let mut datagram = BytesMut::new();
    envelope::reserve(&mut datagram);
    datagram.put_slice(fields);
    envelope::stamp(&identity(1), kind, nonce, &mut datagram, &[]);
    datagram.freeze()
}

#[test]
fn what_nobody_would_write_is_malformed() {
    //= W03 test
    let refused = |kind, nonce, fields: &[u8]| open(&identity(2), &stamped(kind, nonce, fields)).unwrap_err().name();
    let piece = |total: u64, index: u64, count: u64| 7 << 32 | total << 16 | index << 8 | count;
    assert!(open(&identity(2), &stamped(FRAGMENT, piece(5, 1, 2), b"de")).is_ok());
    for (nonce, fields) in [
        (piece(5, 1, 2), &b"def"[..]), // too long
        (piece(5, 0, 2), b"de"),       // too short
        (piece(5, 2, 2), b""),         // no such piece
        (piece(5, 0, 1), b"abcde"),    // nothing was cut
        (piece(5, 0, 0), b""),         // no pieces
        (piece(0, 0, 2), b""),         // nothing at all
        (piece(10, 0, 7), b"ab"),      // the last would be empty
    ] {
        assert_eq!(refused(FRAGMENT, nonce, fields), "malformed", "{nonce:x}");
    }
    for fields in [
        &b"\0\0\0"[..],
        b"\0\0\0\x01\0\x01\0\0",
        b"\0\0\0\x01\0\x01\0\x02\0\0\x0c",
        b"\0\0\0\x01\0\x01\0\x02\0\0\x10",
        b"\0\0\0\x01\0\0\x01",
    ] {
        assert_eq!(refused(PROBE, 0, fields), "malformed", "{fields:?}");
    }
    assert_eq!(refused(19, 0, b""), "lane");
}

#[test]
fn no_mutation_panics_and_none_that_is_sealed_anew_either() {
    let piece = cut(identity(1), 5, Shape::new(1_000, 508).unwrap(), &bytes(1_000), &[]).next().unwrap();
    for good in [probe().seal(&identity(1), ALWAYS), piece] {
        mutate::each(&good, 3_000, |bytes| {
            let _ = open(&identity(2), &Bytes::copy_from_slice(bytes));
            if bytes.len() >= LEN {
                let nonce = EnvelopeView::new(bytes).map_or(0, EnvelopeView::nonce);
                let anew = stamped(good[3], nonce, &bytes[LEN..]);
                if let Ok((_, DriverPacket::Fragment(piece))) = open(&identity(2), &anew) {
                    assert_eq!(piece.shape.range(piece.index).len(), piece.bytes.len());
                }
            }
        });
    }
}
