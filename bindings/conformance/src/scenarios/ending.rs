//! How sessions end.
use super::{Outcome, Stage};
use crate::daemon::Daemon;
use crate::player::Player;

pub(super) fn closes(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    bob.expect("send agreed 6869 g", "ok send=2")?;
    bob.expect("close", "ok")?;
    ann.receive("message sender=#bob#n1")?;
    ann.receive("group_view group=g cause=disconnect changed=#bob#n1 members=#ann#n1")?;
    bob.refuse("join g", "closed")?;
    bob.expect(&format!("connect {} name=bob", stage.address()), "ok name=bob").map(drop)
}

pub(super) fn daemon_stops(stage: &Stage<'_>) -> Outcome {
    let (daemon, mut ann) = member_elsewhere(stage)?;
    daemon.stop().map_err(|error| error.to_string())?;
    let end = ann.refuse("receive 30000", "disconnected")?;
    end.is("error reason=stopping unknown=0")?;
    // It stays the end.
    ann.refuse("receive 0", "disconnected").map(drop)
}

pub(super) fn connects_again(stage: &Stage<'_>) -> Outcome {
    let (daemon, mut ann) = member_elsewhere(stage)?;
    daemon.stop().map_err(|error| error.to_string())?;
    ann.expect("receive 30000", "error unknown=0")?;
    ann.expect("receive 0", "error")?;
    ann.expect(&format!("connect {} name=ann", stage.address()), "ok name=ann")?;
    ann.expect("join g", "ok send=1")?;
    ann.receive("group_view group=g members=#ann#n1").map(drop)
}

pub(super) fn daemon_dies(stage: &Stage<'_>) -> Outcome {
    let (daemon, mut ann) = member_elsewhere(stage)?;
    daemon.kill();
    let end = ann.refuse("receive 30000", "connection_lost")?;
    end.is("error unknown=0")?;
    let mut word = ann.ask("send agreed 6869 g")?;
    // What is collected is not written at once.
    if word.kind() == "ok" {
        word = ann.ask("wait 20000")?;
    }
    word.is("error kind=connection_lost")
}

pub(super) fn daemon_freezes(stage: &Stage<'_>) -> Outcome {
    let (daemon, mut ann) = member_elsewhere(stage)?;
    daemon.freeze().map_err(|error| error.to_string())?;
    ann.refuse("receive 30000", "connection_lost")?.is("error unknown=0")
}

/// A member at a daemon that is to end.
fn member_elsewhere(stage: &Stage<'_>) -> Result<(Daemon, Player), String> {
    let daemon = stage.another_daemon()?;
    let mut ann = stage.player()?;
    ann.expect(&format!("connect {} name=ann", stage.address_of(&daemon)), "ok")?;
    ann.expect("join g", "ok send=1")?;
    ann.receive("group_view group=g")?;
    ann.expect("wait 20000", "ok")?;
    Ok((daemon, ann))
}
