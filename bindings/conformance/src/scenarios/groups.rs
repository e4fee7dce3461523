//! Joins, leaves and refusals.
use super::{Outcome, Stage};

pub(super) fn joins(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    let mut eve = stage.client("name=eve")?;
    eve.expect("join g", "ok send=1")?;
    for player in [&mut ann, &mut bob, &mut eve] {
        player.receive("group_view group=g cause=join changed=#eve#n1 members=#ann#n1,#bob#n1,#eve#n1")?;
    }
    ann.hear_nothing()
}

pub(super) fn leaves(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    bob.expect("leave g", "ok send=2")?;
    ann.receive("group_view group=g cause=leave changed=#bob#n1 members=#ann#n1")?;
    bob.receive("group_view group=g cause=leave changed=#bob#n1")?;
    ann.expect("send agreed 6869 g", "ok send=2")?;
    ann.receive("message sender=#ann#n1")?;
    bob.hear_nothing()
}

/// What each group view of a native session says, and of Spread's none.
pub(super) fn in_full(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.client("name=ann")?;
    ann.expect("join g", "ok send=1")?;
    let joined = ann.receive("group_view group=g cause=join closed=no members=#ann#n1")?;
    let mut bob = stage.client("name=bob")?;
    bob.expect("join g", "ok send=1")?;
    bob.receive("group_view group=g cause=join closed=no")?;
    bob.expect("leave g", "ok send=2")?;
    let left = bob.receive("group_view group=g cause=leave closed=no changed=#bob#n1 members=#ann#n1")?;
    for view in [joined, left] {
        if !matches!(view.field("primary"), Some("yes" | "pending" | "no" | "no_policy")) {
            return Err(format!("`{}` says nothing of the primary part", view.line()));
        }
    }
    Ok(())
}

pub(super) fn refusals(stage: &Stage<'_>) -> Outcome {
    let [mut ann] = stage.members(["ann"])?;
    ann.expect("join g", "ok send=2")?;
    ann.receive("refused send=2 cause=already_member")?;
    ann.expect("leave strange", "ok send=3")?;
    let refused = ann.receive("refused send=3 cause=not_member")?;
    if refused.text().is_empty() {
        return Err(format!("`{}` says nothing for people", refused.line()));
    }
    ann.expect("send agreed 6869 g", "ok send=4")?;
    ann.receive("message sender=#ann#n1").map(drop)
}

pub(super) fn closed(stage: &Stage<'_>) -> Outcome {
    let (mut ann, mut bob) = (stage.client("name=ann")?, stage.client("name=bob")?);
    ann.expect("join_closed g", "ok send=1")?;
    ann.receive("group_view group=g closed=yes members=#ann#n1")?;
    bob.expect("send agreed 00 g", "ok send=1")?;
    bob.receive("refused send=1 cause=closed")?;
    bob.expect("join g", "ok send=2")?;
    bob.receive("group_view group=g closed=yes members=#ann#n1,#bob#n1")?;
    bob.expect("send agreed 01 g", "ok send=3")?;
    bob.receive("message sender=#bob#n1")?;
    ann.receive("group_view cause=join")?;
    ann.receive("message sender=#bob#n1")?;
    ann.hear_nothing()
}
