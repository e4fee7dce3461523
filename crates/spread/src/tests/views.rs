//! Group views that the network makes, as they were captured between three daemons of Spread.
use super::*;
use crate::messages::{self, MembershipMessage};
use consort_group::ChangeCause;

/// Three daemons; the last was away and came back.
fn all() -> [Member; 4] {
    // Client numbers that stand against the order of names.
    [member(1, 9, "A1"), member(1, 2, "A2"), member(2, 1, "B"), member(3, 1, "D")]
}

fn view<'a>(
    cause: ChangeCause,
    members: &'a [Member],
    sets: &'a [u16],
    who: &'a [Member],
    me: u16,
) -> MembershipMessage<'a> {
    static GROUP: std::sync::LazyLock<GroupName> = std::sync::LazyLock::new(|| group("vs"));
    MembershipMessage { group: &GROUP, id: view_id(7, 0), cause, members, sets, who, me: MemberId::new(me, 1) }
}

fn put(view: &MembershipMessage<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    messages::put_view(&mut out, view);
    out.to_vec()
}

/// `#X#nN` in 32 bytes.
fn field(name: &str) -> Vec<u8> {
    let mut field = name.as_bytes().to_vec();
    field.resize(32, 0);
    field
}

fn number(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

#[test]
fn a_partition_leaves_one_set_and_a_merge_shows_each_its_own() {
    //= S33 test
    let all = all();
    let gone = put(&view(ChangeCause::Network, &all[..3], &[0, 0, 0], &all[3..], 1));
    let front = [number(0x8000_1880), field("vs"), number(3), number(0x8000_0080), number(120)].concat();
    assert_eq!(gone[..48], front);
    let names = [field("#A1#n1"), field("#A2#n1"), field("#B#n2")].concat();
    assert_eq!(gone[48..144], names);
    assert_eq!(gone[156..], [number(1), number(0), number(3), names.clone()].concat());

    for (me, offset) in [(1, 36), (2, 36), (3, 0)] {
        let merged = put(&view(ChangeCause::Network, &all, &[1, 1, 1, 0], &all[3..], me));
        assert_eq!(merged.len(), 48 + 4 * 32 + 156);
        let sets = [number(2), number(offset), number(1), field("#D#n3"), number(3), names.clone()].concat();
        assert_eq!(merged[48 + 128 + 12..], sets);
    }
}

#[test]
fn members_stand_by_daemon_and_name_whatever_their_numbers() {
    //= S32 test
    let mut members = all();
    members[..2].sort();
    assert_eq!(members[0].name.as_str(), "A2");
    let bytes = put(&view(ChangeCause::Join, &members, &[0; 4], &members[..1], 1));
    let names: Vec<_> = bytes[48..176].chunks(32).map(|field| field[..3].to_vec()).collect();
    assert_eq!(names, [b"#A1", b"#A2", b"#B#", b"#D#"]);
}

#[test]
fn what_one_client_causes_has_one_set_with_its_name() {
    let all = all();
    for (cause, bit) in [(ChangeCause::Join, 0x100), (ChangeCause::Leave, 0x200), (ChangeCause::Disconnect, 0x400)] {
        let bytes = put(&view(cause, &all[..3], &[0, 0, 0], &all[3..], 1));
        assert_eq!(bytes[..4], number(0x8000_1080 | bit));
        assert_eq!(bytes[44..48], number(56));
        assert_eq!(bytes[156..], [number(1), number(0), number(1), field("#D#n3")].concat());
    }
}

#[test]
fn the_signal_names_the_view_that_is_left() {
    //= S31 test
    //= S34 test
    let mut out = BytesMut::new();
    messages::put_signal(&mut out, &group("vs"), view_id(7, 3));
    let front = [number(0x8000_2080), field("vs"), number(0), number(0x8000_0080), number(12)].concat();
    assert_eq!(out[..48], front);
    let all = all();
    let id = MembershipMessage { id: view_id(7, 3), ..view(ChangeCause::Join, &all, &[0; 4], &all[..1], 1) };
    assert_eq!(out[48..], put(&id)[176..188]);
    assert_eq!(out[52..], [number(7), number(4)].concat());
}

#[test]
fn different_views_have_different_names_and_equal_ones_the_same() {
    let name = |id| {
        let mut out = BytesMut::new();
        messages::put_signal(&mut out, &group("g"), id);
        out.split_off(48)
    };
    let ids = [view_id(1, 0), view_id(1, 1), view_id(2, 0), view_id(1 << 32 | 1, 0)];
    for a in ids {
        for b in ids {
            assert_eq!(name(a) == name(b), a == b);
        }
    }
}

#[test]
fn who_asked_for_no_membership_hears_of_none() {
    let mut session = SpreadSession::new();
    let mut said = hello("alice").to_vec();
    said[3] = 0x10;
    session.feed(said.into());
    session.ask().unwrap();
    session.name("#alice#d1");
    session.feed(choice());
    session.ask().unwrap();
    read(&mut session);
    session.tell_membership(&put(&view(ChangeCause::Join, &all(), &[0; 4], &all()[..1], 1)).into());
    session.tell_self_leave(&group("vs"));
    assert!(session.output().is_empty());
}
