//! How sessions begin, and how they do not.
use super::{Outcome, Stage};

pub(super) fn connects(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.player()?;
    let welcome = ann.expect(&format!("connect {} name=ann", stage.address()), "ok name=ann node=1")?;
    let max = welcome.number("message_max")?;
    if max < stage.by.limits().message {
        return Err(format!("the largest message has {max} bytes"));
    }
    let welcome = stage.player()?.expect(&format!("connect {}", stage.address()), "ok node=1")?;
    match welcome.field("name") {
        Some(name) if !name.is_empty() && name != "ann" => Ok(()),
        other => Err(format!("the daemon gave the name {other:?}")),
    }
}

pub(super) fn nobody(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.player()?;
    ann.refuse("connect /nowhere/at/all", "cannot_connect")?;
    ann.refuse("connect nowhere", "invalid")?;
    ann.refuse("connect localhost:70000", "invalid")?;
    ann.expect(&format!("connect {}", stage.address()), "ok").map(drop)
}

pub(super) fn name_taken(stage: &Stage<'_>) -> Outcome {
    let _ann = stage.client("name=ann")?;
    let mut other = stage.player()?;
    let refused = other.refuse(&format!("connect {} name=ann", stage.address()), "not_welcome")?;
    refused.is("error reason=name_taken")?;
    other.expect(&format!("connect {} name=bob", stage.address()), "ok name=bob").map(drop)
}

pub(super) fn bad_names(stage: &Stage<'_>) -> Outcome {
    let (limits, mut ann) = (stage.by.limits(), stage.player()?);
    for name in ["a#b", "t\u{e9}", &"x".repeat(limits.name + 1)] {
        ann.refuse(&format!("connect {} name={name}", stage.address()), "invalid")?;
    }
    ann.expect(&format!("connect {} name={}", stage.address(), "x".repeat(limits.name)), "ok")?;
    for group in ["#g", "t\u{e9}", &"x".repeat(limits.group + 1)] {
        ann.refuse(&format!("join {group}"), "invalid")?;
        ann.refuse(&format!("leave {group}"), "invalid")?;
        ann.refuse(&format!("send agreed 00 {group}"), "invalid")?;
    }
    ann.refuse("send agreed 00 #bob", "invalid")?;
    ann.refuse("send loud 00 g", "invalid")?;
    let longest = "x".repeat(limits.group);
    ann.expect(&format!("join {longest}"), "ok send=1")?;
    ann.receive(&format!("group_view group={longest}")).map(drop)
}

pub(super) fn views(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.client("name=ann views")?;
    ann.receive("view kind=regular members=n1")?;
    let mut bob = stage.client("name=bob")?;
    bob.hear_nothing()
}

pub(super) fn nothing(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.client("name=ann")?;
    ann.expect("receive 0", "none")?;
    ann.hear_nothing()?;
    ann.expect("join g", "ok send=1")?;
    ann.receive("group_view group=g").map(drop)
}
