//! Ordered payloads and parts of an exchange of two daemons into the groups of two others: both know the same after each,
//! whatever the bytes.
use crate::{member, pieces};
use bytes::Bytes;
use consort_group::Groups;
use consort_types::{Position, Primary, View, ViewCause, ViewId, ViewKind};
use consort_wire::Payload;

/// The first view of four daemons, of which none knows any other.
fn view(me: u16) -> View {
    View {
        id: ViewId { number: 1, representative: member(1) },
        kind: ViewKind::Regular,
        members: (1..=4).map(member).collect(),
        moved_together: vec![member(me)],
        primary: Primary::No,
        cause: ViewCause::Formed,
        evidence: Vec::new(),
        missed_primary: false,
    }
}

fn advance(groups: &mut Groups) {
    while groups.advance().is_some() {}
}

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut daemons = [3, 4].map(|me| {
        let mut groups = Groups::new(member(me));
        groups.install(&view(me));
        advance(&mut groups);
        groups
    });
    let parts = daemons.each_mut().map(|groups| groups.next_part().expect("there are newcomers"));
    let own = [3, 4].into_iter().zip(parts);
    let others = pieces(bytes).filter_map(|piece| {
        let (sender, payload) = piece.split_first()?;
        Some((1 + u16::from(sender % 2), Bytes::copy_from_slice(payload)))
    });
    for ((sender, payload), at) in own.chain(others).zip(1..) {
        let payload = Payload::from(payload);
        let [one, two] = daemons.each_mut().map(|groups| {
            let taken = groups.deliver(member(sender), Position(at), &payload).is_ok();
            advance(groups);
            let known: Vec<_> = groups.all().map(|(name, id, members)| (name.clone(), id, members.len())).collect();
            taken.then_some((groups.is_settled(), groups.hash(), groups.bytes(), known))
        });
        assert_eq!(one, two);
    }
}
