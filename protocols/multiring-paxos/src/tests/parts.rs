//! Packets, paces, settings: each by itself.
use super::cluster::config;
use crate::config::Config;
use crate::config::Reads;
use crate::outgoing::{Outgoing, OwnLine};
use crate::pace::{Pace, SlotClock, Wanted, believed};
use crate::packet::{Content, Packet, Stamp, stamp, unstamp};
use crate::slot::{RingId, Slot};
use crate::turns::{HELD_MAX, Turn, Turns};
use bytes::{Bytes, BytesMut};
use consort_paxos::Storage;
use consort_paxos::ballot::LogId;
use consort_types::{Class, Duration, Instant, MemberId, Service};
use consort_wire::Packet as _;

const MS: u64 = 1_000_000;
const DELTA_T: Duration = Duration::from_millis(2);

fn bytes(packet: &Packet) -> Bytes {
    let mut head = BytesMut::new();
    let tail = packet.encode(&mut head);
    head.extend_from_slice(&tail);
    head.freeze()
}

#[test]
fn packets_read_back_and_no_mutation_panics() {
    let recover = consort_paxos::packet::Packet { log: LogId(7), content: consort_paxos::packet::Content::Recover };
    let wanted = Wanted { slot: Slot(99), reached: Slot(5), clock: Slot(77) };
    for content in [Content::Ring(recover), Content::Wanted(wanted)] {
        let packet = Packet { ring: RingId(3), content };
        assert_eq!(Packet::decode(bytes(&packet)), Ok(packet.clone()));
        consort_wire::mutate::each(&bytes(&packet), 2_000, |mutated| {
            if let Ok(read) = Packet::decode(Bytes::copy_from_slice(mutated)) {
                assert_eq!(Packet::decode(bytes(&read)), Ok(read));
            }
        });
    }
    let last = Slot(u64::MAX);
    let far = [Wanted { slot: last, ..wanted }, Wanted { reached: last, ..wanted }, Wanted { clock: last, ..wanted }];
    for (wanted, what) in far.into_iter().zip(["slot", "reached", "clock"]) {
        let packet = Packet { ring: RingId(3), content: Content::Wanted(wanted) };
        assert_eq!(Packet::decode(bytes(&packet)).unwrap_err().what, what);
    }
}

#[test]
fn a_message_names_its_view_and_its_number_and_one_too_short_names_none() {
    let with = Stamp { view: 7, number: 9 };
    let stamped = stamp(with, Bytes::from_static(b"tea").into()).to_bytes();
    assert_eq!(unstamp(&stamped), Some((with, Bytes::from_static(b"tea"))));
    assert_eq!(unstamp(&Bytes::from_static(b"fifteen bytes..")), None);
}

#[test]
fn a_clock_goes_on_from_a_ring_that_is_more_than_a_second_ahead() {
    //= MP40 test
    let mut clock = SlotClock::default();
    let second = Slot::PER_SECOND;
    assert_eq!(clock.slot(Instant(2_000 * MS), Slot(1)), Slot(2 * second));
    assert_eq!(clock.slot(Instant(2_000 * MS), Slot(3 * second)), Slot(2 * second), "a second is not more");
    assert_eq!(clock.slot(Instant(2_000 * MS), Slot(9 * second)), Slot(9 * second));
    assert_eq!(clock.slot(Instant(3_000 * MS), Slot(9 * second)), Slot(10 * second));
    assert_eq!(clock.heard(Instant(3_000 * MS), Slot(11 * second)), Duration::from_secs(1));
    assert_eq!(clock.heard(Instant(3_000 * MS), Slot(7 * second)), Duration::ZERO);
    assert_eq!(clock.slot(Instant(3_000 * MS), Slot(1)), Slot(11 * second), "no less than another's");
    assert_eq!(clock.slot(Instant(u64::MAX), Slot::LAST), Slot::LAST, "nothing overflows");
}

#[test]
fn a_ring_skips_each_delta_t_for_a_second_after_somebody_waited() {
    //= MP41 test
    let mut pace = Pace::default();
    assert!(pace.due().is_none() && !pace.is_due(Instant(5 * MS), DELTA_T));
    pace.heard(Instant(5 * MS), Slot(1));
    assert!(pace.is_due(Instant(5 * MS), DELTA_T) && !pace.is_due(Instant(6 * MS), DELTA_T));
    assert_eq!(pace.due(), Some(Instant(7 * MS)));
    let skips = (7..3_000).filter(|ms| pace.is_due(Instant(ms * MS), DELTA_T)).count();
    assert_eq!((skips, pace.due()), (499, None));
}

/// What is said where a ring has reached this slot, so many slots late.
fn late(reached: u64, by: u64) -> Wanted {
    Wanted { slot: Slot(reached + 1), reached: Slot(reached), clock: Slot(reached + by) }
}

#[test]
fn a_ring_runs_ahead_by_what_it_comes_late_and_falls_back_slowly() {
    //= MP43 test
    const SLOTS: u64 = Slot::PER_SECOND / 1_000;
    let mut pace = Pace::default();
    let ahead = |pace: &Pace| (pace.target(Slot(1_000)).0 - 1_000) / SLOTS;
    pace.make_up(late(1_000, 42 * SLOTS), DELTA_T);
    assert_eq!(ahead(&pace), 0, "nothing was skipped yet");
    pace.heard(Instant(0), Slot(1));
    pace.skipped(Slot(1_000));
    pace.make_up(late(999, 42 * SLOTS), DELTA_T);
    assert_eq!(ahead(&pace), 0, "that is of before");
    pace.make_up(late(1_000, 42 * SLOTS + 10), DELTA_T);
    assert_eq!(ahead(&pace), 40, "all that exceeds delta_t");
    pace.make_up(late(1_001, 42 * SLOTS + 10), DELTA_T);
    assert_eq!(ahead(&pace), 40, "nothing has come yet with what it makes up for");
    pace.skipped(Slot(2_000));
    pace.make_up(late(1_999, 42 * SLOTS + 10), DELTA_T);
    pace.make_up(late(2_000, 12 * SLOTS + 10), DELTA_T);
    assert_eq!(ahead(&pace), 50);
    (0..450).for_each(|at| assert!(pace.is_due(Instant(2 * at * MS), DELTA_T)));
    assert_eq!(ahead(&pace), 41, "in a second a hundredth of it is taken back");
}

#[test]
fn a_ring_that_stood_does_not_run_ahead_for_that_and_none_runs_far() {
    //= MP43 test
    let half = Slot::PER_SECOND / 2;
    let ahead = |pace: &Pace| pace.target(Slot(1_000)).0 - 1_000;
    let mut pace = Pace::default();
    pace.heard(Instant(0), Slot(1));
    pace.skipped(Slot(1_000));
    pace.make_up(late(1_000, half + 10), DELTA_T);
    assert_eq!(ahead(&pace), 0, "it stood");
    for at in 1..20 {
        pace.skipped(Slot(1_000 * at));
        pace.make_up(late(1_000 * at, half / 2), DELTA_T);
    }
    assert_eq!(ahead(&pace), half);
}

#[test]
fn what_was_reached_before_a_pause_or_by_another_clock_says_nothing() {
    //= MP43 test
    let quarter = Slot::PER_SECOND / 4;
    let mut pace = Pace::default();
    pace.heard(Instant(0), Slot(1));
    pace.skipped(Slot(1_000));
    pace.heard(Instant(2_000 * MS), Slot(1));
    pace.make_up(late(1_000, quarter), DELTA_T);
    pace.skipped(Slot(2_000));
    pace.forget_skips();
    pace.make_up(late(2_000, quarter), DELTA_T);
    assert_eq!(pace.target(Slot(9_000)), Slot(9_000));
}

#[test]
fn a_ring_skips_to_what_is_waited_for_unless_that_cannot_be() {
    //= MP42 test
    let mut pace = Pace::default();
    pace.heard(Instant(0), Slot(77));
    assert_eq!((pace.target(Slot(5)), pace.target(Slot(99))), (Slot(77), Slot(99)));
    assert_eq!(believed(Slot(77), Slot(5)), Slot(77));
    assert_eq!(believed(Slot::LAST, Slot(5)), Slot(5 + 60 * Slot::PER_SECOND));
}

#[test]
fn settings_that_cannot_work_are_named() {
    let good = config(3, &[(1, &[0, 1, 2]), (2, &[1])]);
    assert_eq!(good.validate(), Ok(()));
    let wrong = |change: fn(&mut Config)| {
        let mut config = good.clone();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert_eq!(wrong(|c| c.rings.clear()), "ring: there is none; describe at least one below [[ring]]");
    assert_eq!(wrong(|c| c.rings[1].id = RingId(1)), "ring.id: ring 1 is described twice; number each ring once");
    assert_eq!(wrong(|c| c.rings[0].id = RingId(0)), "ring.id: 0 is no ring; use 1 to 255");
    assert_eq!(wrong(|c| c.global = RingId(7)), "ring.global: ring 7 is not described; make one that is global");
    assert!(wrong(|c| c.paxos.storage = Storage::Sync).contains("sync with many rings; use memory"));
    assert!(wrong(|c| c.delta_t = Duration::ZERO).contains("delta_t: 0"));
    assert!(wrong(|c| c.rings[1].acceptors.clear()).contains("paxos.acceptors: 0 of them"));
}

#[test]
fn daemons_whose_rings_differ_do_not_share_their_settings() {
    let one = config(3, &[(1, &[0, 1, 2]), (2, &[1])]);
    let turned = config(3, &[(2, &[1]), (1, &[2, 1, 0])]);
    let turned = Config { global: RingId(1), ..turned };
    assert_eq!(one.shared_settings(), turned.shared_settings());
    assert_ne!(one.shared_settings(), config(3, &[(1, &[0, 1, 2]), (2, &[2])]).shared_settings());
    assert_ne!(one.shared_settings(), Config { global: RingId(2), ..one.clone() }.shared_settings());
    assert_ne!(one.shared_settings(), Config { reads: Reads::Groups, ..one.clone() }.shared_settings());
}

#[test]
fn where_nodes_read_by_groups_what_goes_to_one_ring_does_not_wait_for_another() {
    //= MP72 test
    let mut outgoing = Outgoing::new(Reads::Groups, 10_000, 1_000, 500);
    let push = |outgoing: &mut Outgoing, ring: u8, len: usize| {
        outgoing.push(Class::Client, RingId(ring), Service::Agreed, Bytes::from(vec![0; len]).into()).unwrap()
    };
    let ids: Vec<_> = [(1, 900), (1, 10), (2, 20), (2, 30)].map(|(ring, len)| push(&mut outgoing, ring, len)).into();
    let lines = outgoing.lines(Class::Client);
    assert_eq!(lines, [1, 2].map(|ring| (Class::Client, Some(RingId(ring)))));
    let send = |outgoing: &mut Outgoing, line: OwnLine| {
        let next = outgoing.next(line).map(|(number, own)| (number, own.id));
        next.inspect(|_| outgoing.sent(line))
    };
    assert_eq!([send(&mut outgoing, lines[0]), send(&mut outgoing, lines[0])], [Some((1, ids[0])), None], "one ring");
    assert_eq!([send(&mut outgoing, lines[1]), send(&mut outgoing, lines[1])], [Some((1, ids[2])), Some((2, ids[3]))]);
    assert_eq!([outgoing.placed(lines[1]), outgoing.placed(lines[0])], [Some(ids[2]), Some(ids[0])], "in any order");
    assert!(!outgoing.is_empty_for(RingId(2)) && outgoing.is_empty_for(RingId(3)));
    outgoing.take_back();
    assert_eq!(send(&mut outgoing, lines[1]), Some((1, ids[3])), "what was taken back is numbered anew");
    assert_eq!((send(&mut outgoing, lines[0]), outgoing.bytes()), (Some((1, ids[1])), 0));
}

#[test]
fn rings_have_no_more_of_a_node_than_its_credit_and_what_is_taken_back_is_numbered_anew() {
    //= MP58 test
    const LINE: OwnLine = (Class::Client, None);
    let mut outgoing = Outgoing::new(Reads::All, 10_000, 1_000, 500);
    let push = |outgoing: &mut Outgoing, ring: u8, len: usize| {
        outgoing.push(Class::Client, RingId(ring), Service::Agreed, Bytes::from(vec![0; len]).into()).unwrap()
    };
    let ids: Vec<_> =
        [(1, 900), (1, 100), (1, 100), (1, 300), (2, 10)].map(|(ring, len)| push(&mut outgoing, ring, len)).into();
    let send = |outgoing: &mut Outgoing| {
        std::iter::from_fn(|| {
            let (number, id) = outgoing.next(LINE).map(|(number, own)| (number, own.id))?;
            outgoing.sent(LINE);
            Some((number, id))
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(send(&mut outgoing), [(1, ids[0])], "one always may");
    assert_eq!(outgoing.placed(LINE), Some(ids[0]));
    assert_eq!(send(&mut outgoing), [(2, ids[1]), (3, ids[2])]);
    outgoing.take_back();
    assert_eq!(send(&mut outgoing), [(1, ids[1]), (2, ids[2])], "what was taken back goes first");
    (1..3).for_each(|at| assert_eq!(outgoing.placed(LINE), Some(ids[at])));
    assert_eq!(send(&mut outgoing), [(3, ids[3]), (4, ids[4])], "one to another ring does not wait");
    (3..5).for_each(|at| assert_eq!(outgoing.placed(LINE), Some(ids[at])));
    assert!(outgoing.is_empty() && outgoing.bytes() == 0);
}

#[test]
fn a_message_before_its_turn_waits_for_those_before_it_and_what_is_held_is_bounded() {
    //= MP51 test
    //= MP63 test
    let (line, other) = ((MemberId::new(1, 1), Class::Client), (MemberId::new(1, 1), Class::Control));
    let mut turns = Turns::default();
    let all = |turns: &mut Turns<_>, line| std::iter::from_fn(|| turns.next(line)).collect::<Vec<_>>();
    assert_eq!((turns.take(line, 2, 70, "b"), turns.take(line, 4, 70, "d")), (Turn::Kept, Turn::Kept));
    assert_eq!((all(&mut turns, line), turns.bytes()), (vec![], 140));
    assert_eq!((turns.take(other, 1, 70, "x"), all(&mut turns, other)), (Turn::Kept, vec!["x"]));
    assert_eq!((turns.take(line, 1, 70, "a"), all(&mut turns, line)), (Turn::Kept, vec!["a", "b"]));
    assert_eq!((turns.take(line, 2, 70, "b"), turns.take(line, 4, 70, "d")), (Turn::Void, Turn::Void), "twice");
    assert_eq!(turns.take(line, 5, HELD_MAX, "e"), Turn::Void, "more than anybody has under way");
    assert_eq!((turns.take(line, 3, HELD_MAX, "c"), all(&mut turns, line)), (Turn::Kept, vec!["c", "d"]));
    assert_eq!((turns.take(line, u64::MAX, 70, "z"), turns.begin(), turns.bytes()), (Turn::Kept, 1, 0));
    assert_eq!((turns.take(line, 1, 70, "a"), all(&mut turns, line)), (Turn::Kept, vec!["a"]), "a view begins");
}
