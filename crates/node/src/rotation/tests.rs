//! Members of one view say what they have to say through one order.
use super::*;
use consort_types::{Primary, ViewCause, ViewId};

fn key(epoch: u16) -> KeyName {
    KeyName { epoch, fingerprint: 1_000 + u64::from(epoch) }
}

fn member(node: u16) -> MemberId {
    MemberId::new(node, 7)
}

/// Members of one view, and what they did.
struct Order {
    all: Vec<Rotation>,
    steps: Vec<(u16, RotationStep)>,
}

impl Order {
    /// Members that hold keys of these epochs each, the first in use.
    fn new(held: &[&[u16]]) -> Self {
        let start = |(node, epochs): (u16, &&[u16])| {
            let mut rotation = Rotation::new(member(node));
            rotation.configure(3);
            rotation.hold(epochs.iter().map(|epoch| key(*epoch)).collect());
            rotation
        };
        let mut order = Self { all: (1..).zip(held).map(start).collect(), steps: Vec::new() };
        order.install(ViewKind::Regular);
        order
    }

    fn install(&mut self, kind: ViewKind) {
        let members: Vec<_> = self.all.iter().map(|one| one.me).collect();
        let id = ViewId { number: 1, representative: members[0] };
        let (primary, cause) = (Primary::NoPolicy, ViewCause::Started);
        let view = View {
            id,
            kind,
            moved_together: members.clone(),
            members,
            primary,
            cause,
            evidence: Vec::new(),
            missed_primary: false,
        };
        self.all.iter_mut().for_each(|one| one.install(&view));
        self.note();
    }

    fn note(&mut self) {
        for one in &mut self.all {
            let node = one.me.node.0;
            self.steps.extend(std::iter::from_fn(|| one.poll_step()).map(|step| (node, step)));
        }
    }

    /// The next thing that somebody has to say gets its place; whether there was one.
    fn place(&mut self) -> bool {
        let Some((sender, said)) = self.all.iter().find_map(|one| Some((one.me, one.next_message()?))) else {
            return false;
        };
        self.all.iter_mut().filter(|one| one.me == sender).for_each(Rotation::has_said);
        self.all.iter_mut().for_each(|one| one.deliver(sender, said));
        self.note();
        true
    }

    fn settle(&mut self) {
        while self.place() {}
    }

    fn in_use(&self) -> Vec<u16> {
        self.all.iter().map(|one| one.in_use().map_or(0, |key| key.epoch)).collect()
    }

    fn ends(&self) -> Vec<NotAdopted> {
        let ended = |(_, step): &(u16, RotationStep)| match step {
            RotationStep::Ended { why, .. } => Some(*why),
            _ => None,
        };
        self.steps.iter().filter_map(ended).collect()
    }
}

#[test]
fn all_adopt_at_the_place_of_the_last_answer_and_promise_before() {
    //= K02 test
    //= K03 test
    //= K04 test
    let mut order = Order::new(&[&[1, 2], &[1, 2], &[1, 2]]);
    assert_eq!(order.all[1].ask(), Ok(key(2)));
    for _ in 0..3 {
        assert!(order.place());
        assert_eq!(order.in_use(), [1, 1, 1], "not all have answered");
    }
    assert_eq!(order.steps.len(), 3);
    assert!(order.steps.iter().all(|(_, step)| *step == RotationStep::Promise(Some(2))));
    assert!(order.place() && !order.place());
    assert_eq!(order.in_use(), [2, 2, 2]);
    let adopt = RotationStep::Adopt { key: key(2), members: vec![member(1), member(2), member(3)] };
    assert!(order.steps[3..].iter().all(|(_, step)| *step == adopt));
    assert_eq!(order.all[0].ask(), Err(NotAdopted::NothingNewer(2)));
}

#[test]
fn one_that_lacks_the_key_ends_it_and_is_named_by_all() {
    //= K09 test
    //= K10 test
    let mut order = Order::new(&[&[1, 2], &[1], &[1, 2]]);
    order.all[0].ask().unwrap();
    order.settle();
    assert_eq!(order.in_use(), [1, 1, 1]);
    assert_eq!(order.ends(), [NotAdopted::Lacks(NodeId(2)); 3]);
    assert!(order.steps.contains(&(3, RotationStep::Promise(None))), "what was promised is void");
    let lacking = |one: &Rotation| one.lacking().collect::<Vec<_>>();
    assert!(order.all.iter().all(|one| lacking(one) == [(NodeId(2), key(2), KeyAnswer::Lacks)]));
    order.all[1].hold(vec![key(1), key(2)]);
    order.all[0].ask().unwrap();
    order.settle();
    assert_eq!(order.in_use(), [2, 2, 2]);
    assert!(order.all.iter().all(|one| lacking(one).is_empty()));
    let text = NotAdopted::Lacks(NodeId(2)).to_string();
    assert!(text.starts_with("n2 lacks it: copy the key file"), "{text}");
}

#[test]
//= K01 test
fn another_key_of_the_same_epoch_and_a_newer_one_in_use_end_it_too() {
    let mut order = Order::new(&[&[1, 2], &[1], &[3]]);
    order.all[1].hold(vec![key(1), KeyName { epoch: 2, fingerprint: 9 }]);
    order.all[0].ask().unwrap();
    order.settle();
    assert_eq!(order.ends()[0], NotAdopted::Differs(NodeId(2)));
    order.all[1].hold(vec![key(1), key(2)]);
    order.all[0].ask().unwrap();
    order.settle();
    assert_eq!(order.ends().last(), Some(&NotAdopted::Superseded(NodeId(3))));
}

#[test]
fn a_view_that_changes_ends_it_and_late_answers_count_for_nothing() {
    //= K10 test
    let mut order = Order::new(&[&[1, 2], &[1, 2]]);
    order.all[0].ask().unwrap();
    assert!(order.place());
    let late = order.all[1].next_message().unwrap();
    order.install(ViewKind::Transitional);
    assert_eq!(order.ends(), [NotAdopted::ViewChanged; 2]);
    assert_eq!(order.all[0].ask(), Err(NotAdopted::NoView));
    order.install(ViewKind::Regular);
    order.all[0].ask().unwrap();
    assert!(order.place());
    order.all.iter_mut().for_each(|one| one.deliver(member(1), late));
    order.all.iter_mut().for_each(|one| one.deliver(member(2), late));
    assert_eq!(order.in_use(), [1, 1], "they are of the proposal before");
    order.settle();
    assert_eq!(order.in_use(), [2, 2]);
}

#[test]
fn two_that_propose_the_same_are_answered_once_and_two_keys_one_after_the_other() {
    let mut order = Order::new(&[&[1, 2], &[1, 2], &[1, 3]]);
    order.all[0].ask().unwrap();
    order.all[1].ask().unwrap();
    order.all[2].ask().unwrap();
    assert!(order.place());
    assert_eq!(order.all[2].ask(), Err(NotAdopted::Busy(2)));
    order.settle();
    let ends = order.ends();
    assert_eq!(ends.iter().filter(|end| **end == NotAdopted::Lacks(NodeId(3))).count(), 3, "of two, one was answered");
    assert_eq!(ends[0], NotAdopted::Busy(2), "which its own node is told");
    assert_eq!(order.in_use(), [1, 1, 1]);
}

#[test]
fn a_minority_and_one_without_keys_propose_nothing() {
    let mut order = Order::new(&[&[1, 2]]);
    assert_eq!(order.all[0].ask(), Err(NotAdopted::Minority { here: 1, nodes: 3 }));
    let mut order = Order::new(&[&[], &[]]);
    assert_eq!(order.all[0].ask(), Err(NotAdopted::Plain));
}

#[test]
fn who_hears_of_a_newer_key_follows_with_its_view_and_alone_at_once() {
    //= K06 test
    //= K07 test
    let mut order = Order::new(&[&[1, 2]]);
    order.all[0].follow(3, true);
    assert!(!order.place(), "it lacks that one");
    order.all[0].follow(2, true);
    assert_eq!((order.in_use(), order.place()), (vec![2], false), "alone in its view it asks nobody");
    let mut alone = Rotation::new(member(1));
    alone.hold(vec![key(1), key(2)]);
    alone.follow(2, false);
    assert_eq!(alone.poll_step(), Some(RotationStep::Adopt { key: key(2), members: Vec::new() }));
    let mut order = Order::new(&[&[2, 1], &[1, 2]]);
    order.all[1].follow(2, true);
    order.settle();
    assert_eq!(order.in_use(), [2, 2], "one that uses it already says that it holds it");
}

#[test]
fn a_minority_whose_order_takes_nothing_follows_each_by_itself() {
    //= K06 test
    let mut order = Order::new(&[&[1, 2], &[1, 2]]);
    order.all.iter_mut().for_each(|one| one.configure(5));
    order.all[0].follow(2, true);
    assert_eq!(order.in_use(), [1, 1], "it has proposed it");
    order.all[0].follow(2, true);
    assert_eq!(order.in_use(), [2, 1], "in vain");
    assert_eq!(order.all[0].next_message(), None);
}

#[test]
fn what_others_count_on_is_not_let_go_of() {
    //= K08 test
    let mut order = Order::new(&[&[1, 2], &[1, 2]]);
    assert_eq!(order.all[0].may_hold(&[key(2)]), Err(KeysKept::InUse(1)));
    assert_eq!(order.all[0].may_hold(&[key(1)]), Ok(()));
    order.all[0].ask().unwrap();
    assert!(order.place());
    assert_eq!(order.all[0].may_hold(&[key(1)]), Err(KeysKept::Promised(2)));
    order.settle();
    assert_eq!(order.all[0].may_hold(&[key(2), key(3)]), Ok(()));
}
