//! Numbers whose sum stands for a table, whatever the order in which they were added.
use crate::member::{GroupViewId, Member};
use consort_types::{GroupName, MemberId, ViewId};

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a group without its members.
pub(crate) fn of_group(name: &GroupName, id: GroupViewId, closed: bool) -> u64 {
    //= G30
    let ViewId { number, representative } = id.view;
    let mixed = of_member(mix(of_bytes(name.as_bytes()), number), representative);
    mix(mix(mixed, id.change), u64::from(closed))
}

/// The number of one membership.
pub(crate) fn of_membership(group: &GroupName, member: &Member) -> u64 {
    let place = of_member(of_bytes(group.as_bytes()), member.daemon);
    mix(mix(place, u64::from(member.client.0)), of_bytes(member.name.as_str().as_bytes())) ^ 1
}

/// A number that stands for some daemons.
pub(crate) fn of_members(members: &[MemberId]) -> u64 {
    members.iter().fold(members.len() as u64, |seed, member| of_member(seed, *member))
}

fn of_member(seed: u64, member: MemberId) -> u64 {
    mix(mix(seed, u64::from(member.node.0)), member.incarnation.0)
}

fn of_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |seed, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(seed, u64::from_le_bytes(word))
    })
}

/// The last step of SplitMix64 over both.
const fn mix(seed: u64, number: u64) -> u64 {
    let z = (seed.rotate_left(23) ^ number).wrapping_add(ODD);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
